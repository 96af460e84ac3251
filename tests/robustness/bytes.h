/*
 * bytes.h - a network between a client and a server that misbehaves on order, and knows bytes only: for what is encrypted (the
 * proxy of proxy.h knows messages). It listens on a free port of 127.0.0.1 and forwards to one address.
 *
 * A thread of its own. All functions may be called from any thread, and abort the program when memory or descriptors run out.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_BYTES_H
#define HOLDFAST_TESTS_ROBUSTNESS_BYTES_H

#include <stdbool.h>
#include <stddef.h>

struct bytes;

enum bytes_way { BYTES_UP, BYTES_DOWN }; /* to the server, to the client */

/* What befalls the next bytes that go one way on a connection that was there before. Once. */
enum bytes_fault {
    BYTES_CUT,  /* they are gone, and the connection is reset at both ends, `ms` after they came */
    BYTES_HALF, /* the same, but half of them went on */
    BYTES_LATE, /* the client's end is reset; the server hears nothing of it, and of them by bytes_release */
    BYTES_DELAY /* they, and what follows them, go on `ms` later */
};

/* To `server`, 127.0.0.1:PORT. */
struct bytes *bytes_start(const char *server);
void bytes_stop(struct bytes *bytes); /* NULL is allowed */
/* 127.0.0.1:PORT, constant. */
const char *bytes_address(const struct bytes *bytes);

void bytes_strike(struct bytes *bytes, enum bytes_way way, enum bytes_fault fault, int ms);
/* How many have befallen. */
unsigned bytes_struck(struct bytes *bytes);
/* What goes up on the connections that are there now is kept until bytes_release. */
void bytes_hold(struct bytes *bytes);
/* What is kept (held or late): how much; and it goes on. */
size_t bytes_held(struct bytes *bytes);
void bytes_release(struct bytes *bytes);

#endif
