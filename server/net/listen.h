/*
 * listen.h - a listening socket on the loop: tcp://HOST:PORT or ipc://PATH, and the connections it accepts.
 *
 * It goes on whatever a single connection does, and when file descriptors run out: then whoever connects is accepted by a
 * descriptor kept back (base/files.h) and closed at once, so that the queue of the kernel doesn't fill with callers who wait in
 * vain; without even that it tries again a little later.
 */
#ifndef HOLDFAST_NET_LISTEN_H
#define HOLDFAST_NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/io.h"

struct net_listener {
    struct io *io;
    struct io_watch watch;
    struct io_timer again;
    void (*on_accept)(struct net_listener *listener, int fd); /* the descriptor is its own: non-blocking, close-on-exec */
    bool is_ipc;
    char url[192];    /* with the port that was picked */
    long turned_away; /* connections closed for want of descriptors */
};

/* It listens, and on_accept is called for each connection on the loop's thread. NULL; or why not: a reason with a text for people,
 * in `error` (of `error_len` bytes) or constant. Host names are resolved, which may block: for the start of a program. */
const char *net_listener_open(struct net_listener *listener, struct io *io, const char *url,
                              void (*on_accept)(struct net_listener *listener, int fd), char *error, size_t error_len)
    __attribute__((warn_unused_result));

/* Nobody is accepted until net_listener_go_on, from within on_accept too; those who connect wait in the kernel. */
void net_listener_pause(struct net_listener *listener);
void net_listener_go_on(struct net_listener *listener);

/* Nothing is accepted any more, and the socket of an ipc:// is gone from the disk. Harmless if it is not open but zeroed with
 * watch.fd = -1. */
void net_listener_close(struct net_listener *listener);

#endif
