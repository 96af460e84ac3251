/*
 * run.c - `holdfast run`: holds a lease while a command runs, with a guardian beside it (guardian.h).
 *
 * One thread here, one that gets the lease (getting.h), and the client's. Order matters: the guardian is forked first, then the
 * client is made and the lease got, then the command starts. The signals that are passed on are blocked and read from a
 * signalfd; what was ignored when we started stays ignored, for the command too.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "client/cli/getting.h"
#include "client/cli/guardian.h"

enum { RUN_FAILED = 125, RUN_CANNOT_START = 126, RUN_NOT_FOUND = 127 };
/* How often the deadline is passed on; how long the guardian may take to end everything after a loss; how long a cancelled
 * acquire may take to come back. */
enum { TICK_MAX_MS = 1000, TICK_MIN_MS = 10, GUARDIAN_PATIENCE_MS = 3000, CANCEL_PATIENCE_MS = 1500 };

static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};

struct run {
    struct cli *cli;
    const char *resource;
    struct guardian guardian;
    hf_lease *lease;
    int64_t ttl_ms;
    sigset_t old_mask;
    void (*old_sigchld)(int);
    int signal_fd;
    int loss_fd; /* an eventfd: the lease is lost */
    _Atomic(const char *) loss;
    int64_t lost_at_ms; /* when the guardian was told; 0 = it was not */
};

/* The last line on stderr, by which people and programs see what went wrong. */
static int say(const char *what, const char *reason, const char *message)
{
    fprintf(stderr, "holdfast: %s: %s%s%s\n", what, reason, message ? ": " : "", message ? message : "");
    return RUN_FAILED;
}

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    struct run *run = arg;
    (void)lease;

    atomic_store(&run->loss, reason);
    eventfd_write(run->loss_fd, 1);
}

/* ---- signals ---- */

static bool take_signals(struct run *run)
{
    sigset_t set;
    struct sigaction old;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        if (!sigaction(passed_on[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaddset(&set, passed_on[i]);
    run->old_sigchld = signal(SIGCHLD, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &set, &run->old_mask))
        return false;
    run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signal_fd >= 0;
}

/* True if the terminal sent this to the whole foreground group: then the command, which is in ours, has it already. A hangup
 * goes to the session's leader alone. */
static bool from_terminal(const struct signalfd_siginfo *info)
{
    if (info->ssi_code != SI_KERNEL)
        return false;
    switch (info->ssi_signo) {
    case SIGINT:
    case SIGQUIT:
    case SIGWINCH:
        return true;
    case SIGHUP:
        return getsid(0) != getpid();
    default:
        return false;
    }
}

/* The next signal that the command has not got yet; 0: none. */
static int next_signal(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
        if (!from_terminal(&info))
            return (int)info.ssi_signo;
    return 0;
}

/* Signals are for us again. Those that came while the command was there are spent. */
static void return_signals(struct run *run)
{
    while (next_signal(run))
        ;
    sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
}

/* ---- before: the lease ---- */

static int not_got(const struct getting *getting, const char *resource)
{
    char message[1024];
    const hf_held *held = &getting->held;

    if (getting->result != HF_HELD)
        return say("lease not got", *getting->error.reason ? getting->error.reason : hf_result_name(getting->result),
                   getting->error.message);
    if (held->guarded)
        snprintf(message, sizeof(message), "%s is locked by another transaction", resource);
    else if (!*held->holder)
        snprintf(message, sizeof(message), "%s is free, but cannot be had for another %s", resource, cli_ms(held->remaining_ms));
    else
        snprintf(message, sizeof(message), "%s is held by %s (token %s, %s left)", resource, held->holder, cli_int(held->token),
                 cli_ms(held->remaining_ms));
    return say("lease not got", "HELD", message);
}

/* A signal came while the lease was not there yet: end, and give back what may have been granted meanwhile. */
static int interrupted(struct getting *getting, int sig)
{
    char message[64];

    if (getting_cancel(getting, CANCEL_PATIENCE_MS) && getting->result == HF_OK)
        hf_release(getting->lease, NULL);
    snprintf(message, sizeof(message), "by SIG%s", sigabbrev_np(sig));
    say("lease not got", "INTERRUPTED", message);
    /* The thread may still be asking; nothing it uses is taken away from it. */
    fflush(NULL);
    _exit(RUN_FAILED);
}

static int get_lease(struct run *run, struct getting *getting)
{
    struct pollfd fds[2];

    if (!getting_begin(getting))
        return say("lease not got", "INTERNAL", strerror(errno));
    fds[0] = (struct pollfd){.fd = run->signal_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = getting->done_fd, .events = POLLIN};
    while (!fds[1].revents) {
        struct signalfd_siginfo info;
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[0].revents && read(run->signal_fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo != SIGWINCH &&
            info.ssi_signo != SIGCONT)
            return interrupted(getting, (int)info.ssi_signo);
    }
    getting_end(getting, 0);
    if (getting->result != HF_OK)
        return not_got(getting, run->resource);
    run->lease = getting->lease;
    return 0;
}

/* ---- while the command runs ---- */

static int tick_ms(const struct run *run)
{
    int64_t ms = run->ttl_ms / 20;

    return (int)(ms > TICK_MAX_MS ? TICK_MAX_MS : ms < TICK_MIN_MS ? TICK_MIN_MS : ms);
}

static void pass_on_loss(struct run *run)
{
    eventfd_t count;

    if (eventfd_read(run->loss_fd, &count) || run->lost_at_ms)
        return;
    guardian_lose(&run->guardian);
    run->lost_at_ms = hfi_boot_ms();
}

/* Passes on deadlines, losses and signals until the guardian reports. False: the guardian failed, and its work was done here. */
static bool attend(struct run *run, struct guardian_report *report)
{
    struct pollfd fds[] = {{.fd = run->guardian.fd, .events = POLLIN},
                           {.fd = run->signal_fd, .events = POLLIN},
                           {.fd = run->loss_fd, .events = POLLIN}};
    int64_t told_ms = 0;
    int sig;

    for (;;) {
        if (poll(fds, 3, tick_ms(run)) < 0 && errno != EINTR)
            abort();
        if (fds[0].revents) {
            int heard = guardian_read(&run->guardian, report);
            if (heard > 0)
                return true;
            if (heard < 0)
                break;
        }
        if (fds[2].revents)
            pass_on_loss(run);
        while ((sig = next_signal(run)))
            guardian_signal(&run->guardian, sig);
        int64_t deadline_ms = hf_lease_deadline_ms(run->lease);
        if (deadline_ms != told_ms && !run->lost_at_ms)
            guardian_extend(&run->guardian, deadline_ms, run->ttl_ms);
        told_ms = deadline_ms;
        if (run->lost_at_ms && hfi_boot_ms() - run->lost_at_ms > GUARDIAN_PATIENCE_MS)
            break;
    }
    guardian_replace(&run->guardian);
    return false;
}

/* ---- after ---- */

static int lease_lost(struct run *run)
{
    const char *loss = atomic_load(&run->loss);

    if (!loss)
        loss = hf_lease_loss(run->lease);
    return say("lease lost", loss ? loss : "DEADLINE", NULL);
}

static int cannot_start(const char *command, int error)
{
    fprintf(stderr, "holdfast: cannot run %s: %s\n", command, strerror(error));
    return error == ENOENT ? RUN_NOT_FOUND : RUN_CANNOT_START;
}

/* Gives the lease back. Returns `status`, unless the lease turns out to have been lost before. */
static int give_back(struct run *run, int status)
{
    hf_error error;
    hf_result result = hf_release(run->lease, &error);

    if (result == HF_LOST)
        return say("lease lost", *error.reason ? error.reason : "DEADLINE", NULL);
    if (result != HF_OK)
        fprintf(stderr, "holdfast: lease not released (it ends by its TTL): %s: %s\n",
                *error.reason ? error.reason : hf_result_name(result), error.message);
    return status;
}

static int finish(struct run *run, const struct guardian_report *report, const char *command)
{
    char left[64];

    return_signals(run);
    if (report->left) {
        snprintf(left, sizeof(left), "process %d could not be ended: it has another user", (int)report->left);
        return say("failed", "PROCESS_LEFT", left);
    }
    if (report->why != GUARD_BY_ITSELF)
        return lease_lost(run);
    if (!report->start_error)
        return give_back(run, report->status);
    int status = give_back(run, 0);
    return status ? status : cannot_start(command, report->start_error);
}

static int with_lease(struct run *run, char *const *argv)
{
    struct guardian_report report = {0};

    guardian_start(&run->guardian, hf_lease_token(run->lease), hf_lease_deadline_ms(run->lease), run->ttl_ms);
    guardian_drop_stdio();
    if (attend(run, &report))
        return finish(run, &report, argv[0]);
    return_signals(run);
    if (run->lost_at_ms)
        return lease_lost(run);
    int status = give_back(run, 0);
    return status ? status : say("failed", "GUARDIAN_GONE", "the guardian died; the command was ended");
}

static void set_environment(const struct run *run)
{
    cli_hand_on(run->cli);
    setenv("HOLDFAST_RESOURCE", run->resource, 1);
    unsetenv("HOLDFAST_TOKEN");
}

static int run_guarded(struct run *run, char *const *argv)
{
    struct getting *getting = calloc(1, sizeof(*getting));
    int status = RUN_FAILED;

    if (!getting)
        return say("failed", "INTERNAL", "out of memory");
    if (cli_client(run->cli)) {
        say("lease not got", "MALFORMED", "see above");
        goto out;
    }
    getting->client = run->cli->client;
    getting->options = (hf_acquire_options){.resource = run->resource,
                                            .task = cli_text(run->cli, CLI_TASK),
                                            .ttl_ms = run->ttl_ms,
                                            .wait_ms = cli_number(run->cli, CLI_WAIT, 0),
                                            .on_loss = on_loss,
                                            .on_loss_arg = run};
    status = get_lease(run, getting);
    if (!status)
        status = with_lease(run, argv);
out:
    hf_lease_free(run->lease);
    guardian_end(&run->guardian);
    free(getting);
    return status;
}

int cli_run(struct cli *cli)
{
    struct run run = {.cli = cli, .resource = cli_word(cli, 0), .guardian.fd = -1};
    size_t before = cli->args.n_words - cli->args.n_behind;

    if (before != 2 || !cli->args.n_behind)
        return cli_usage_error(cli, "usage: holdfast run RESOURCE [--task T] [--ttl D] [--wait D] -- CMD…");
    run.ttl_ms = cli_number(cli, CLI_TTL, HF_DEFAULT_TTL_MS);
    if (!run.ttl_ms)
        return cli_usage_error(cli, "--ttl %s: a lease needs some time", cli_text(cli, CLI_TTL));
    if (cli_number(cli, CLI_WAIT, 0) > HF_WAIT_MAX_MS)
        return cli_usage_error(cli, "--wait %s: at most 1h", cli_text(cli, CLI_WAIT));
    run.loss_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    set_environment(&run);
    if (run.loss_fd < 0 || !take_signals(&run) ||
        !guardian_fork(&run.guardian, cli->args.words + 2, &run.old_mask, run.old_sigchld))
        return say("failed", "INTERNAL", strerror(errno));
    return run_guarded(&run, cli->args.words + 2);
}
