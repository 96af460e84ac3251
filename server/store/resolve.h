/*
 * resolve.h - the hosts of a DSN: their names resolved off the loop, and in which order they are tried.
 *
 * libpq resolves names blocking, within PQconnectPoll too. Here a thread of its own does it, and libpq is then given
 * addresses. libpq tries hosts in the DSN's order and, asked as we do, leaves one only when it refuses: so who waits for one that
 * says nothing must begin the next attempt behind it, or never gets further. A `service` named in the DSN is beyond this: libpq
 * reads it, and what it names is resolved by libpq.
 */
#ifndef HOLDFAST_STORE_RESOLVE_H
#define HOLDFAST_STORE_RESOLVE_H

#include <stdbool.h>

#include "base/io.h"

struct st_resolve;

enum st_resolve_status {
    ST_RESOLVE_NONE,    /* the DSN names only addresses and sockets, in the order wanted: nothing to do */
    ST_RESOLVE_READY,   /* the result can be had at once; `done` is not called */
    ST_RESOLVE_STARTED, /* `done` will be called */
    ST_RESOLVE_FAILED   /* no thread or no memory, or the DSN can't be read */
};

/* What libpq is to be given instead of the DSN's own: lists of equal length, one entry an address. */
struct st_addresses {
    const char *host, *hostaddr, *port;
};

/* The hosts shall be tried from the one at the place `first` of the DSN's list on, and those before it last. With
 * ST_RESOLVE_STARTED and ST_RESOLVE_READY *out is to be freed with st_resolve_free; with the former `done` is called on the loop
 * once names are resolved, or could not be. Doesn't block. */
enum st_resolve_status st_resolve_start(const char *dsn, int first, struct io *io, void (*done)(void *arg), void *arg,
                                        struct st_resolve **out);
/* After `done`, or with ST_RESOLVE_READY: the addresses, valid until st_resolve_free. False: no name could be resolved; *why says
 * it. */
bool st_resolve_result(const struct st_resolve *resolve, struct st_addresses *out, const char **why);
/* `done` isn't called any more. NULL is allowed. */
void st_resolve_free(struct st_resolve *resolve);

/* How many hosts the DSN names; 1 if it leaves that to libpq. */
int st_resolve_hosts(const char *dsn);
/* The place behind that of this host (PQhost and PQport of a connection) in the DSN's list, which goes round; 0 if there is one
 * only, or the host isn't in it. */
int st_resolve_behind(const char *dsn, const char *host, const char *port);

#endif
