/*
 * guardian.h - the process beside `holdfast run` that is the command's parent and ends it when nobody renews the lease.
 *
 * It is forked before the client is made (so it inherits no socket and no thread), leaves the process group, and keeps the
 * timer on CLOCK_BOOTTIME by guard_plan.h. It is a child subreaper and the command's parent, so that all descendants of the
 * command stay below it. `run` tells it each new deadline over a socket pair; if `run` is stopped no deadline comes, if it is
 * killed the socket ends: the command is ended either way. What it cannot guard against is being stopped itself; if it is killed,
 * the command dies with it (PR_SET_PDEATHSIG) and `run`, a subreaper too, ends the rest.
 *
 * The functions here are called by `run`, from one thread.
 */
#ifndef HOLDFAST_CLI_GUARDIAN_H
#define HOLDFAST_CLI_GUARDIAN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/cli/descendants.h"
#include "client/cli/guard_plan.h"

struct guardian {
    pid_t pid;
    int fd; /* readable when there is a report */
    struct cgroup cgroup;
};

/* How the command ended. */
struct guardian_report {
    int start_error; /* errno: it could not be started */
    int status;      /* exit status, or 128 + signal */
    enum guard_why why;
    pid_t left; /* a descendant that could not be ended, since it changed its user; 0: none is left */
};

/* The guardian waits to be told to start `argv`. `mask` and `sigchld` are what the command gets for its own: the signal mask and
 * the handling of SIGCHLD from before `run` changed them. This process adopts orphans from now on, too. False: errno tells why. */
bool guardian_fork(struct guardian *guardian, char *const *argv, const sigset_t *mask, void (*sigchld)(int))
    __attribute__((warn_unused_result));

/* The command starts, with HOLDFAST_TOKEN in its environment, under a lease with this deadline. */
void guardian_start(struct guardian *guardian, int64_t token, int64_t deadline_ms, int64_t ttl_ms);
/* The lease was renewed. Never blocks: a message that a stopped guardian cannot take is dropped. */
void guardian_extend(struct guardian *guardian, int64_t deadline_ms, int64_t ttl_ms);
/* The lease is lost. */
void guardian_lose(struct guardian *guardian);
/* The command gets this signal. */
void guardian_signal(struct guardian *guardian, int sig);

/* 1: `report` tells how the command ended, and none of its descendants is left (but `left`). 0: nothing yet. -1: the guardian
 * died. */
int guardian_read(struct guardian *guardian, struct guardian_report *report) __attribute__((warn_unused_result));

/* The guardian and every descendant are killed by this process, for a guardian that died or does not answer. */
void guardian_replace(struct guardian *guardian);
/* It ends, if it has not started anything; its process is reaped. */
void guardian_end(struct guardian *guardian);

/* For both sides: stdin and stdout, which are the command's, are let go of, so that who reads from it sees it end. */
void guardian_drop_stdio(void);

#endif
