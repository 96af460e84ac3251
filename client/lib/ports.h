/*
 * ports.h - what the client gets from outside: a clock, randomness, and a transport.
 *
 * Each is a struct of functions that is handed in, so that tests drive the rules with a clock of their own and a server that
 * is a function. ports.c and transport.c are the real ones. All functions may be called from any thread.
 */
#ifndef HOLDFAST_CLIENT_PORTS_H
#define HOLDFAST_CLIENT_PORTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HFI_NEVER INT64_MAX

enum { HFI_ENDPOINTS_MAX = 64 };

struct hfi_clock {
    /* CLOCK_BOOTTIME in milliseconds: it counts through suspend and never jumps with the wall clock. */
    int64_t (*now_ms)(struct hfi_clock *clock);
    /* Waits, `mutex` being held by the caller, until `cond` is signalled or now_ms() has reached `until_ms` (HFI_NEVER: no
     * end). May wake early. `cond` was made by hfi_cond_init. */
    void (*wait)(struct hfi_clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until_ms);
};

struct hfi_random {
    uint64_t (*next)(struct hfi_random *random);
};

/* What became of an exchange. */
enum hfi_fate {
    HFI_ANSWERED,
    HFI_NOT_SENT, /* surely no server saw it */
    HFI_NO_ANSWER /* it was handed to a connection; a server may have seen it */
};

/* One envelope each way. Embedded in its owner's struct. */
struct hfi_exchange {
    /* Called exactly once, by any thread and perhaps from within send(), with no lock of the transport's held. `data` lives until
     * it returns. The exchange may be freed by it. */
    void (*done)(struct hfi_exchange *exchange, enum hfi_fate fate, const void *data, size_t len);
    /* Set before an ANSWERED: the server answered some of the calls only. The replies to the others are the transport's:
     * OUTCOME_LOST, or UNAVAILABLE without a reason if surely no server saw it. */
    bool partly;
};

struct hfi_transport {
    unsigned n_endpoints;
    /* Sends `data` (copied) to an endpoint: HFI_NOT_SENT if no connection took it within send_ms, HFI_NO_ANSWER if none came
     * within reply_ms after that, or if the connection broke. Doesn't block. */
    void (*send)(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                 int64_t reply_ms, struct hfi_exchange *exchange);
    const char *(*url)(struct hfi_transport *transport, unsigned endpoint);
    /* Why there is no connection to it, for people; "" if there is one, or if nothing is known. May be NULL. */
    void (*why)(struct hfi_transport *transport, unsigned endpoint, char *why, size_t size);
    /* Every open exchange is done before it returns, and later sends are done at once with HFI_NOT_SENT. */
    void (*stop)(struct hfi_transport *transport);
    void (*free)(struct hfi_transport *transport); /* after stop */
};

struct hfi_ports {
    struct hfi_clock *clock;
    struct hfi_random *random;
    struct hfi_transport *transport; /* the client's, once handed over: it stops and frees it */
    bool no_threads;                 /* the test calls hfi_renew_step and hfi_notify_step by itself */
};

/* The system's. Static and stateless. */
extern struct hfi_clock hfi_system_clock;
extern struct hfi_random hfi_system_random;

int hfi_cond_init(pthread_cond_t *cond); /* 0 or an errno */

/* PEM files for grpcs://; NULL = none, and for the authorities the system's. */
struct hfi_tls_files {
    const char *ca, *cert, *key;
};

enum hfi_open_result { HFI_OPEN_OK, HFI_OPEN_BAD_URL, HFI_OPEN_BAD_TLS, HFI_OPEN_NO_MEMORY, HFI_OPEN_FAILED };

/* A connection to each of the URLs (separated by commas), made and made again in the background: tcp:// and ipc:// in the protocol
 * of nng's REQ sockets, grpc:// and grpcs:// in gRPC. Otherwise `why` names the URL or the file, and the cause. `files` are read
 * only if there is a grpcs://, and then at once. */
enum hfi_open_result hfi_transport_open(const char *urls, const struct hfi_tls_files *files, struct hfi_transport **transport,
                                        char *why, size_t why_size) __attribute__((warn_unused_result));
/* The first of the URLs to which everything goes in the clear and not only within the machine; NULL: none. malloc'd. */
char *hfi_transport_exposed(const char *urls);

#endif
