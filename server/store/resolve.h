/*
 * resolve.h - the host names of a DSN, resolved off the loop.
 *
 * libpq resolves names blocking, within PQconnectPoll too. Here a thread of its own does it, and libpq is then given
 * addresses. A `service` named in the DSN is beyond this: libpq reads it, and what it names is resolved by libpq.
 */
#ifndef HOLDFAST_STORE_RESOLVE_H
#define HOLDFAST_STORE_RESOLVE_H

#include <stdbool.h>

#include "base/io.h"

struct st_resolve;

enum st_resolve_status {
    ST_RESOLVE_NONE,    /* the DSN names only addresses and sockets: nothing to do */
    ST_RESOLVE_STARTED, /* `done` will be called */
    ST_RESOLVE_FAILED   /* no thread or no memory, or the DSN can't be read */
};

/* What libpq is to be given instead of the DSN's own: lists of equal length, one entry an address. */
struct st_addresses {
    const char *host, *hostaddr, *port;
};

/* With ST_RESOLVE_STARTED *out is to be freed with st_resolve_free, and `done` is called on the loop once names are
 * resolved, or could not be. Doesn't block. */
enum st_resolve_status st_resolve_start(const char *dsn, struct io *io, void (*done)(void *arg), void *arg,
                                        struct st_resolve **out);
/* After `done`: the addresses, valid until st_resolve_free. False: no name could be resolved; *why says it. */
bool st_resolve_result(const struct st_resolve *resolve, struct st_addresses *out, const char **why);
/* `done` isn't called any more. NULL is allowed. */
void st_resolve_free(struct st_resolve *resolve);

#endif
