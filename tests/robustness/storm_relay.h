/*
 * storm_relay.h - a TCP port of 127.0.0.1 behind which is a unix socket, and what may happen to the bytes in between.
 *
 * One thread of its own. All functions may be called from any thread, and abort the program when there is no memory or no
 * descriptor left.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_RELAY_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_RELAY_H

#include <stdbool.h>

struct storm_relay;

/* It forwards to the unix socket `path`, which need not be there yet. */
struct storm_relay *storm_relay_start(const char *path);
void storm_relay_stop(struct storm_relay *relay); /* NULL is allowed */
int storm_relay_port(const struct storm_relay *relay);
/* All connections are reset, at both ends; how many. */
unsigned storm_relay_reset(struct storm_relay *relay);
/* While dark nothing passes, and nobody is told: connections stay, what is sent waits. */
void storm_relay_dark(struct storm_relay *relay, bool dark);

#endif
