/*
 * paused.h - the holder of case 1, who is stopped and goes on: a process of its own, and what has to be seen of it.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_PAUSED_H
#define HOLDFAST_TESTS_ROBUSTNESS_PAUSED_H

#include <stdbool.h>
#include <stdint.h>

struct t_proc;

enum { PAUSED_SOON_MS = 30000, PAUSED_VALUE = 6000 /* bytes of what it writes: a write is told by its size */ };

/* The process: holds the resource and prints "HOLDING token"; at SIGUSR1 writes and prints "WRITE result reason valid=…", and again
 * with "NEXT"; ends at another one. A loss is printed as "LOSS reason". `how` "sending": it prints "STOPS" and stops itself when
 * its library's checks are behind a write. `ca` may be NULL. Its exit status. */
int paused_holder(const char *how, const char *url, const char *ca, const char *resource, int64_t ttl_ms);

/* ---- for the test ---- */

int64_t paused_token(struct t_proc *a);
void paused_await_stop(struct t_proc *a);
/* It has written, and was refused; its library has told the loss once, and sends nothing more. `at_work`: nor did the write that it
 * began then leave it. */
void paused_check(struct t_proc *a, bool at_work);

#endif
