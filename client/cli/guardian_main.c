/*
 * guardian_main.c - the guardian's process: starts the command, keeps the timer, ends everything when it is time.
 *
 * One thread, all signals blocked, nothing but poll(2) to wait in: whatever the command or the terminal does, the timer runs.
 */
#include "client/cli/guardian_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/descendants.h"
#include "client/lib/call.h" /* hfi_boot_ms */

/* How long to go on with processes that may not be killed. */
enum { REFUSED_MAX_MS = 5000 };

struct keeper {
    const struct guardian_job *job;
    struct guard plan;
    struct guardian_report report;
    pid_t command;
    bool run_gone;
    int chld_fd, timer_fd;
    int exec_fd;              /* the command's errno if exec failed; its end if not; -1 after */
    int64_t refused_since_ms; /* only what may not be killed is left; 0 = not so */
};

/* In the child: becomes the command, or tells why not. */
static void become_command(struct keeper *keeper, int error_fd, pid_t parent)
{
    setpgid(0, keeper->job->group); /* so that the terminal's signals reach it as they would without us */
    cgroup_enter(&keeper->job->cgroup);
    signal(SIGCHLD, keeper->job->sigchld);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(125);
    sigprocmask(SIG_SETMASK, &keeper->job->mask, NULL);
    execvp(keeper->job->argv[0], keeper->job->argv);
    int error = errno;
    if (write(error_fd, &error, sizeof(error)) != sizeof(error))
        _exit(125);
    _exit(error == ENOENT ? 127 : 126);
}

static void start(struct keeper *keeper, const struct guardian_message *message)
{
    int fds[2];
    char token[32];

    snprintf(token, sizeof(token), "%" PRId64, message->token);
    setenv("HOLDFAST_TOKEN", token, 1);
    guard_started(&keeper->plan, message->deadline_ms, message->ttl_ms);
    if (hfi_boot_ms() >= message->deadline_ms - keeper->plan.grace_ms)
        return; /* too late to begin; the plan says how it goes on */
    if (pipe2(fds, O_CLOEXEC)) {
        keeper->report.start_error = errno;
        guard_command_ended(&keeper->plan, hfi_boot_ms());
        return;
    }
    pid_t self = getpid(), pid = fork();
    if (pid == 0)
        become_command(keeper, fds[1], self);
    close(fds[1]);
    if (pid < 0) {
        keeper->report.start_error = errno;
        close(fds[0]);
        guard_command_ended(&keeper->plan, hfi_boot_ms());
        return;
    }
    keeper->command = pid;
    keeper->exec_fd = fds[0];
    guardian_drop_stdio();
}

static void hear_exec(struct keeper *keeper)
{
    int error;

    if (read(keeper->exec_fd, &error, sizeof(error)) == sizeof(error))
        keeper->report.start_error = error;
    close(keeper->exec_fd);
    keeper->exec_fd = -1;
}

static void hear_run(struct keeper *keeper)
{
    struct guardian_message message;
    ssize_t n = recv(keeper->job->fd, &message, sizeof(message), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != sizeof(message)) {
        keeper->run_gone = true;
        guard_run_gone(&keeper->plan, hfi_boot_ms());
        return;
    }
    switch (message.kind) {
    case GUARDIAN_START:
        if (keeper->plan.phase == GUARD_IDLE)
            start(keeper, &message);
        break;
    case GUARDIAN_EXTEND:
        guard_extended(&keeper->plan, message.deadline_ms, message.ttl_ms);
        break;
    case GUARDIAN_LOSE:
        guard_lost(&keeper->plan);
        break;
    case GUARDIAN_SIGNAL:
        if (keeper->command)
            kill(keeper->command, message.signal);
        break;
    case GUARDIAN_DONE:
        break;
    }
}

/* Reaps the dead: the command, and orphans that were adopted. As a subreaper with no child left we have no descendant left. */
static void reap(struct keeper *keeper)
{
    pid_t pid;
    int status;

    if (keeper->plan.phase == GUARD_IDLE)
        return;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != keeper->command)
            continue;
        keeper->command = 0;
        keeper->report.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        if (keeper->exec_fd >= 0)
            hear_exec(keeper);
        guard_command_ended(&keeper->plan, hfi_boot_ms());
    }
    if (pid < 0 && errno == ECHILD)
        guard_none_left(&keeper->plan);
}

static void kill_all(struct keeper *keeper)
{
    cgroup_kill(&keeper->job->cgroup);
    struct descendants left = descendants_kill();
    reap(keeper);
    if (!left.found || left.refused < left.found) {
        keeper->refused_since_ms = 0;
        return;
    }
    if (!keeper->refused_since_ms)
        keeper->refused_since_ms = hfi_boot_ms();
    if (hfi_boot_ms() - keeper->refused_since_ms < REFUSED_MAX_MS)
        return;
    keeper->report.left = left.refused_pid;
    guard_none_left(&keeper->plan);
}

static void wait_for_something(struct keeper *keeper)
{
    int64_t next = guard_next(&keeper->plan, hfi_boot_ms());
    struct itimerspec when = {0};
    struct signalfd_siginfo info;
    struct pollfd fds[] = {{.fd = keeper->chld_fd, .events = POLLIN},
                           {.fd = keeper->timer_fd, .events = POLLIN},
                           {.fd = keeper->run_gone ? -1 : keeper->job->fd, .events = POLLIN},
                           {.fd = keeper->exec_fd, .events = POLLIN}};

    if (next != INT64_MAX) {
        when.it_value.tv_sec = (time_t)(next > 0 ? next / 1000 : 0);
        when.it_value.tv_nsec = next > 0 ? (long)(next % 1000) * 1000000L : 1;
    }
    timerfd_settime(keeper->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
        return;
    if (fds[0].revents && read(keeper->chld_fd, &info, sizeof(info)) < 0)
        return;
    if (fds[3].revents)
        hear_exec(keeper);
    if (fds[2].revents)
        hear_run(keeper);
}

static bool prepare(struct keeper *keeper)
{
    sigset_t all, chld;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(SIGCHLD, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "holdfast-guard");
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    keeper->exec_fd = -1;
    keeper->chld_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    keeper->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return keeper->chld_fd >= 0 && keeper->timer_fd >= 0 && descendants_adopt();
}

static void report(struct keeper *keeper)
{
    struct guardian_message message = {.kind = GUARDIAN_DONE, .report = keeper->report};

    message.report.why = keeper->plan.why;
    if (!keeper->run_gone && send(keeper->job->fd, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message))
        return;
    if (keeper->plan.why == GUARD_RUN_GONE)
        fprintf(stderr, "holdfast: lease lost: RUN_GONE\n");
}

int guardian_main(const struct guardian_job *job)
{
    struct keeper keeper = {.job = job};

    if (!prepare(&keeper))
        return 125;
    for (;;) {
        reap(&keeper);
        switch (guard_due(&keeper.plan, hfi_boot_ms())) {
        case GUARD_TERM:
            descendants_signal(SIGTERM);
            descendants_signal(SIGCONT); /* what is stopped would not hear it */
            continue;
        case GUARD_KILL:
            kill_all(&keeper);
            break;
        case GUARD_FINISH:
            cgroup_remove(&job->cgroup);
            report(&keeper);
            return 0;
        case GUARD_WAIT:
            break;
        }
        if (keeper.plan.phase != GUARD_GONE)
            wait_for_something(&keeper);
    }
}
