/*
 * guardian.c - the side of `run`: makes the guardian, tells it what happens, hears how it ended.
 */
#include "client/cli/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/guardian_messages.h"

bool guardian_fork(struct guardian *guardian, char *const *argv, const sigset_t *mask, void (*sigchld)(int))
{
    int fds[2];
    struct guardian_job job = {.group = getpgrp(), .argv = argv, .mask = *mask, .sigchld = sigchld};

    if (!descendants_adopt() || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
        return false;
    cgroup_make(&job.cgroup);
    pid_t pid = fork();
    if (pid < 0) {
        int error = errno;
        cgroup_remove(&job.cgroup);
        close(fds[0]);
        close(fds[1]);
        errno = error;
        return false;
    }
    if (pid == 0) {
        close(fds[0]);
        job.fd = fds[1];
        _exit(guardian_main(&job));
    }
    close(fds[1]);
    *guardian = (struct guardian){.pid = pid, .fd = fds[0], .cgroup = job.cgroup};
    return true;
}

static void tell(struct guardian *guardian, const struct guardian_message *message)
{
    /* What does not go through is covered by the guardian's timer, or by the end of the socket. */
    while (send(guardian->fd, message, sizeof(*message), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

void guardian_start(struct guardian *guardian, int64_t token, int64_t deadline_ms, int64_t ttl_ms)
{
    tell(guardian,
         &(struct guardian_message){.kind = GUARDIAN_START, .token = token, .deadline_ms = deadline_ms, .ttl_ms = ttl_ms});
}

void guardian_extend(struct guardian *guardian, int64_t deadline_ms, int64_t ttl_ms)
{
    tell(guardian, &(struct guardian_message){.kind = GUARDIAN_EXTEND, .deadline_ms = deadline_ms, .ttl_ms = ttl_ms});
}

void guardian_lose(struct guardian *guardian)
{
    tell(guardian, &(struct guardian_message){.kind = GUARDIAN_LOSE});
}

void guardian_signal(struct guardian *guardian, int sig)
{
    tell(guardian, &(struct guardian_message){.kind = GUARDIAN_SIGNAL, .signal = sig});
}

int guardian_read(struct guardian *guardian, struct guardian_report *report)
{
    struct guardian_message message;
    ssize_t n = recv(guardian->fd, &message, sizeof(message), MSG_DONTWAIT);

    /* It ended while a message of ours was under way: the socket tells that first, once, and its report is behind it. */
    if (n < 0 && errno == ECONNRESET)
        n = recv(guardian->fd, &message, sizeof(message), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n != sizeof(message) || message.kind != GUARDIAN_DONE)
        return -1;
    *report = message.report;
    return 1;
}

void guardian_replace(struct guardian *guardian)
{
    /* Whatever it was told: with the guardian dead its children are ours. */
    kill(guardian->pid, SIGKILL);
    for (;;) {
        cgroup_kill(&guardian->cgroup);
        struct descendants left = descendants_kill();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 || (left.found && left.found == left.refused))
            break;
        nanosleep(&(struct timespec){.tv_nsec = GUARD_KILL_PAUSE_MS * 1000000L}, NULL);
    }
    cgroup_remove(&guardian->cgroup);
    close(guardian->fd);
    guardian->fd = -1;
}

void guardian_end(struct guardian *guardian)
{
    if (guardian->fd < 0)
        return;
    close(guardian->fd);
    guardian->fd = -1;
    while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    cgroup_remove(&guardian->cgroup);
}

void guardian_drop_stdio(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return;
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (null > STDERR_FILENO)
        close(null);
}
