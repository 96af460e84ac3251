/*
 * descendants.h - every process that stems from this one, found in /proc, signalled without mistaking one for another.
 *
 * The caller is a child subreaper (prctl(2)), so that whatever its descendants do (setsid, double fork) they stay below it.
 * Processes are addressed by pidfd after their start time was compared, so that a number used anew is never hit. Linux only.
 */
#ifndef HOLDFAST_CLI_DESCENDANTS_H
#define HOLDFAST_CLI_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct descendants {
    size_t found;   /* how many there were */
    size_t refused; /* how many could not be signalled: they changed their user */
    pid_t refused_pid;
    bool failed; /* /proc could not be read */
};

/* This process adopts the orphans among its descendants from now on. False: errno tells why. */
bool descendants_adopt(void) __attribute__((warn_unused_result));

/* Sends `sig` to every descendant, once. */
struct descendants descendants_signal(int sig);

/* Stops every descendant until no new one appears, so that none forks or respawns another in between, and then sends SIGKILL
 * to all. To be repeated until none is left: processes may have hidden in a race. */
struct descendants descendants_kill(void);

/* A cgroup v2 of its own below this process's, which kills what is in it in one stroke. Best effort: `path` is "" where none
 * can be made, and then the others do nothing. */
struct cgroup {
    char path[512];
};
void cgroup_make(struct cgroup *group);
void cgroup_enter(const struct cgroup *group); /* this process; async-signal-safe */
void cgroup_kill(const struct cgroup *group);
void cgroup_remove(const struct cgroup *group);

#endif
