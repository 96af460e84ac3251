/*
 * sp_address.h - where a server is: its URL, and the addresses behind that.
 *
 * The name of a host may take seconds to be found, or minutes. A thread of its own asks, which is left behind when nobody wants the
 * answer any more: it touches nothing but the lookup.
 */
#ifndef HOLDFAST_CLIENT_SP_ADDRESS_H
#define HOLDFAST_CLIENT_SP_ADDRESS_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/un.h>

struct sp_address {
    char *url;
    bool is_ipc;
    struct sockaddr_un path; /* of ipc:// */
    char host[256], port[8]; /* of tcp:// */
};

/* NULL, or what is wrong with the URL of `len` bytes. Without memory `url` is NULL. */
const char *sp_address_read(struct sp_address *address, const char *url, size_t len) __attribute__((warn_unused_result));
void sp_address_release(struct sp_address *address);

/* The addresses of a host that is given as a number. NULL: it is a name. freeaddrinfo is the caller's. */
struct addrinfo *sp_address_number(const struct sp_address *address) __attribute__((warn_unused_result));

struct sp_lookup;

/* Asks for the addresses. NULL: no memory, thread or descriptor. */
struct sp_lookup *sp_lookup_start(const struct sp_address *address) __attribute__((warn_unused_result));
/* Becomes readable when the answer is there. */
int sp_lookup_fd(const struct sp_lookup *lookup);
/* The answer, once it is there: NULL, or addresses that are now the caller's. */
struct addrinfo *sp_lookup_take(struct sp_lookup *lookup) __attribute__((warn_unused_result));
/* Nobody wants the answer any more. NULL is allowed. */
void sp_lookup_free(struct sp_lookup *lookup);

#endif
