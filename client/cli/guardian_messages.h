/*
 * guardian_messages.h - what `run` and its guardian tell each other; and the guardian's own part.
 */
#ifndef HOLDFAST_CLI_GUARDIAN_MESSAGES_H
#define HOLDFAST_CLI_GUARDIAN_MESSAGES_H

#include <signal.h>
#include <stdint.h>

#include "client/cli/guardian.h"

enum guardian_message_kind { GUARDIAN_START = 1, GUARDIAN_EXTEND, GUARDIAN_LOSE, GUARDIAN_SIGNAL, GUARDIAN_DONE };

struct guardian_message {
    enum guardian_message_kind kind;
    int signal;
    int64_t token, deadline_ms, ttl_ms;
    struct guardian_report report;
};

/* What the guardian is given. */
struct guardian_job {
    int fd;
    pid_t group; /* of `run`: the command joins it */
    char *const *argv;
    struct cgroup cgroup; /* for the command */
    sigset_t mask;
    void (*sigchld)(int);
};

/* Guards to the end; returns the guardian's exit status. */
int guardian_main(const struct guardian_job *job);

#endif
