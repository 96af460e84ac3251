/*
 * transport.h - what the files of the transport share: its state, a connection's, and what a protocol has to do. For these alone.
 *
 * transport.c has the exchanges, their times and the thread; address.c reads URLs and finds hosts; dial.c makes connections. What
 * is said on a connection is its protocol's: sp_conn.c has that of nng's REQ sockets, grpc*.c gRPC. Endpoints of both may stand in
 * one list.
 *
 * Lock and threads: `mutex` guards all of it. A caller's thread puts its request on the socket by itself if that is open and takes
 * it; all else is done by one thread, which alone opens, reads and closes sockets. It holds the mutex except while it waits, calls
 * out, and, where the protocol can, reads.
 */
#ifndef HOLDFAST_CLIENT_TRANSPORT_H
#define HOLDFAST_CLIENT_TRANSPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/address.h"
#include "client/lib/ports.h"

enum { TR_SCRATCH = 64 << 10, TR_BUCKETS = 1024, TR_WHY = 256 };

/* PAUSING → RESOLVING → CONNECTING → GREETING → OPEN, and from each of them back to PAUSING. */
enum tr_state {
    TR_PAUSING,    /* until until_ms; no socket */
    TR_RESOLVING,  /* fd is the lookup's */
    TR_CONNECTING, /* until until_ms at most, like the next one */
    TR_GREETING,   /* connected, but it isn't known yet whether the other end speaks the protocol */
    TR_OPEN
};

struct tr_conn;

/* A protocol makes it larger: its own begins with this. */
struct tr_exchange {
    struct tr_exchange *next;   /* of its bucket, or of those that have ended */
    struct tr_exchange *behind; /* in its connection's queue */
    bool queued;                /* it is there */
    struct tr_conn *conn;
    struct hfi_exchange *owner; /* NULL: it has ended, but something of it is left */
    uint32_t id;
    int64_t until_ms; /* to be sent until then, or answered */
    int64_t reply_ms;
    enum hfi_fate fate; /* once it has ended; and the answer, malloc'd */
    uint8_t *reply;
    size_t reply_len;
};

/* By any thread with the lock held, unless it says otherwise. */
struct tr_protocol {
    /* One for this request, zeroed but for what is the protocol's. NULL: no memory. The lock isn't held. */
    struct tr_exchange *(*prepare)(const void *data, size_t len);
    /* It is gone. The lock isn't held. */
    void (*release)(struct tr_exchange *exchange);
    /* It was sent, or is in the queue. False, and it will not be sent: there is no memory. */
    bool (*begin)(struct tr_exchange *exchange, const void *data, size_t len);
    /* Its patience is over: it is ended, and no other. */
    void (*expire)(struct tr_exchange *exchange);
    /* What expire() left to be sent is sent. May be NULL. */
    void (*flush)(struct tr_conn *conn);
    /* The socket is connected: the greeting begins. False: it is no good, and tr_say has said why. By the transport's thread, like
     * those that follow. */
    bool (*greet)(struct tr_conn *conn);
    /* Something has happened to the socket, in GREETING or OPEN. The lock isn't held. */
    void (*ready)(struct tr_conn *conn, uint32_t events);
    /* until_ms has come, in OPEN. May be NULL if it never does. */
    void (*due)(struct tr_conn *conn, int64_t now_ms);
    /* The connection is no more, or soon: what was under way on it has ended. What waits in the queue stays. `orderly`: it is
     * closed because nobody wants it any more. */
    void (*drop)(struct tr_conn *conn, bool orderly);
};
extern const struct tr_protocol sp_protocol, grpc_protocol;

struct grpc_link; /* grpc.h */
struct grpc_tls;

struct tr_conn {
    struct tr_transport *owner;
    const struct tr_protocol *protocol; /* constant, like the next line */
    struct tr_address address;
    enum tr_state state;
    bool broken; /* a sender found out: shut down, and soon closed */
    int fd;      /* -1 = none */
    uint32_t events;
    struct tr_lookup *lookup;
    struct addrinfo *found, *at;       /* the addresses; the one that is tried */
    int64_t until_ms;                  /* of the state; HFI_NEVER = it has no end */
    unsigned failures;                 /* in a row */
    char why[TR_WHY];                  /* it isn't open; "" = nothing is known */
    enum tr_state why_at;              /* how far the attempt had come that this is said of */
    struct tr_exchange *first, **last; /* the queue */
    uint8_t *in;                       /* of a message of nng's that isn't whole */
    size_t in_len, in_size;
    struct grpc_link *link; /* of gRPC; NULL = none */
    void *session;          /* of TLS, to be resumed (SSL_SESSION); NULL = none */
};

struct tr_transport {
    struct hfi_transport port; /* first */
    pthread_mutex_t mutex;
    pthread_t thread;
    bool has_thread, stopped;
    int epoll_fd, wake_fd;
    int64_t wake_ms; /* when the thread wakes by itself; perhaps before anything is due */
    uint32_t last_id;
    struct tr_exchange *buckets[TR_BUCKETS]; /* all that have not ended, by id */
    struct tr_exchange *ended;               /* to be told by tr_unlock */
    struct grpc_tls *tls;                    /* constant; NULL = no endpoint needs it */
    int64_t silence_ms, ping_ms, going_ms;   /* of gRPC (grpc.h); for tests that want others */
    struct tr_conn conns[HFI_ENDPOINTS_MAX];
    uint8_t scratch[TR_SCRATCH]; /* the thread's */
};

/* ---- transport.c ---- */

void tr_lock(struct tr_conn *conn);
/* And those are told that have ended. */
void tr_unlock(struct tr_conn *conn);
/* It has ended, and is told by tr_unlock. It isn't in the queue any more. Lock held. */
void tr_end(struct tr_exchange *exchange, enum hfi_fate fate);
/* It is the last of the connection's queue; it is out of it. Lock held. */
void tr_queue(struct tr_exchange *exchange);
void tr_unqueue(struct tr_exchange *exchange);
/* An answer has come. Lock not held. */
void tr_answered(struct tr_conn *conn, uint32_t id, const void *data, size_t len);
/* The thread wakes at that time or before. By the thread, or from the protocol's `begin`; lock held. */
void tr_wake_at(struct tr_transport *t, int64_t at_ms);

/* ---- dial.c: by the thread, lock held ---- */

/* Its socket is waited for so; the transport's thread calls the protocol's `ready`. By any thread. */
bool tr_want(struct tr_conn *conn, uint32_t events);
/* Why the attempt fails that is being made, for people. The one that came furthest is kept. */
void tr_say(struct tr_conn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A sender found it broken: the thread will hear of it from the socket. By any thread. */
void tr_break(struct tr_conn *conn);
/* Its time is up, or something has happened to its socket before it was connected. */
void tr_due(struct tr_conn *conn, int64_t now_ms);
void tr_ready(struct tr_conn *conn);
/* It has greeted, and is open. */
void tr_greeted(struct tr_conn *conn);
/* It is lost: the next address if it was never open, or a pause. Calls the protocol's `drop`. */
void tr_lost(struct tr_conn *conn);
/* It is no more, and what was in its queue has ended. Not only by the thread. */
void tr_close(struct tr_conn *conn);

#endif
