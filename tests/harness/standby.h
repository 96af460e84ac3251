/*
 * standby.h - a standby for a cluster of a test's own: real streaming replication, its interruption, and fail-over.
 *
 * Everything goes by unix sockets. Fails the running test if it cannot do what it says; what it hands out is the harness's (see
 * harness.h). A standby is a struct t_pg like any other.
 */
#ifndef HOLDFAST_TESTS_STANDBY_H
#define HOLDFAST_TESTS_STANDBY_H

#include "harness/harness.h"

/* A copy of `primary` (pg_basebackup), which streams from it under this name and can be read. `settings` as for t_pg_start, and
 * no lower than the primary's. It follows until it is promoted. */
struct t_pg *t_standby_start(struct t_pg *primary, const char *name, const char *const *settings);

/* libpq's DSN of whichever of the two can be written to, asked in this order. */
const char *t_standby_dsn(const struct t_pg *first, const struct t_pg *second);

/* What is committed on the primary by now can be read on the standby of this name. */
void t_standby_catch_up(struct t_pg *primary, const char *name);

/* From now on nothing is shipped to the standby of this name: the primary's process that sends is stopped (SIGSTOP). What is
 * already in its socket arrives; after t_standby_catch_up() and no commit since there is nothing. Its pid. */
pid_t t_standby_hold(struct t_pg *primary, const char *name);
/* It goes on. */
void t_standby_let_go(pid_t sender);

/* From when this returns, every commit waits for the standby of this name. "" = none does, soon; who waits then goes on. ALTER
 * SYSTEM needs no commit, so this works while commits wait. */
void t_pg_synchronous(struct t_pg *pg, const char *name);

/* The standby is the primary of a new timeline. The old one should be gone, or there are two. */
void t_standby_promote(struct t_pg *standby);

/* All of its processes got SIGKILL and are gone. t_pg_restart() starts it on what it left. */
void t_pg_kill(struct t_pg *pg);

/* All of its processes are stopped (SIGSTOP): connections to it stand, and say nothing; or they go on. */
void t_pg_freeze(struct t_pg *pg);
void t_pg_thaw(struct t_pg *pg);

/* The timeline on which it writes, as holdfast.attach() reads it. */
char *t_pg_timeline(struct t_pg *pg);

#endif
