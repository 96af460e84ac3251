/*
 * address.h - where a server is: its URL, and the addresses behind that.
 *
 * The name of a host may take seconds to be found, or minutes. A thread of its own asks, which is left behind when nobody wants the
 * answer any more: it touches nothing but the lookup.
 */
#ifndef HOLDFAST_CLIENT_ADDRESS_H
#define HOLDFAST_CLIENT_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/un.h>

enum tr_kind { TR_TCP, TR_IPC, TR_GRPC, TR_GRPCS };

struct tr_address {
    char *url;
    enum tr_kind kind;
    const char *authority;   /* HOST:PORT as it stands in the URL */
    struct sockaddr_un path; /* of ipc:// */
    char host[256], port[8]; /* of the others */
};

/* NULL, or what is wrong with the URL of `len` bytes. Without memory `url` is NULL. */
const char *tr_address_read(struct tr_address *address, const char *url, size_t len) __attribute__((warn_unused_result));
void tr_address_release(struct tr_address *address);
/* grpc:// or grpcs://. */
bool tr_is_grpc(const struct tr_address *address);
/* What goes there cannot be read on the way: it is encrypted, or doesn't leave the machine. */
bool tr_is_private(const struct tr_address *address);

/* The addresses of a host that is given as a number. NULL: it is a name. freeaddrinfo is the caller's. */
struct addrinfo *tr_address_number(const struct tr_address *address) __attribute__((warn_unused_result));

struct tr_lookup;

/* Asks for the addresses. NULL: no memory, thread or descriptor. */
struct tr_lookup *tr_lookup_start(const struct tr_address *address) __attribute__((warn_unused_result));
/* Becomes readable when the answer is there. */
int tr_lookup_fd(const struct tr_lookup *lookup);
/* The answer, once it is there: addresses that are now the caller's, or NULL, and `*error` (static) says why. */
struct addrinfo *tr_lookup_take(struct tr_lookup *lookup, const char **error) __attribute__((warn_unused_result));
/* Nobody wants the answer any more. NULL is allowed. */
void tr_lookup_free(struct tr_lookup *lookup);

#endif
