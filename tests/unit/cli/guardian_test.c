/*
 * guardian_test.c - the guardian with real processes and no server: how commands end, and that nobody survives the deadline.
 *
 * Every process of a command inherits the write end of a pipe: its end tells that the last of them is gone, the guardian too.
 */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/guardian.h"
#include "client/cli/guardian_messages.h"

enum { TTL_MS = 2000, LONG_MS = 60000, SLACK_MS = T_AT_ONCE_MS };

struct play {
    struct guardian guardian;
    struct guardian_report report;
    int alive; /* readable when everybody is gone */
    int64_t deadline_ms;
};

static int64_t boot_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void begin_argv(struct play *play, char *const *argv, int64_t ttl_ms)
{
    sigset_t mask;
    int fds[2];

    sigprocmask(SIG_SETMASK, NULL, &mask);
    memset(play, 0, sizeof(*play));
    assert_int_equal(pipe(fds), 0);
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    assert_true(guardian_fork(&play->guardian, argv, &mask, SIG_DFL));
    close(fds[1]);
    play->alive = fds[0];
    play->deadline_ms = boot_ms() + ttl_ms;
    guardian_start(&play->guardian, 42, play->deadline_ms, ttl_ms);
}

static void begin(struct play *play, const char *script, int64_t ttl_ms)
{
    static char sh[] = "sh", c[] = "-c";
    char *argv[] = {sh, c, (char *)script, NULL};

    begin_argv(play, argv, ttl_ms);
}

/* Waits for the report. */
static void expect_report(struct play *play, int ms)
{
    struct pollfd fd = {.fd = play->guardian.fd, .events = POLLIN};

    assert_int_equal(poll(&fd, 1, ms), 1);
    assert_int_equal(guardian_read(&play->guardian, &play->report), 1);
    guardian_end(&play->guardian);
}

/* Everybody is gone within `ms`. */
static void expect_gone(struct play *play, int ms)
{
    struct pollfd fd = {.fd = play->alive, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&fd, 1, ms), 1);
    assert_int_equal(read(play->alive, &byte, 1), 0);
    close(play->alive);
}

/* Waits until the command has written the file. */
static bool written(void *path)
{
    return *t_read_file(path) != '\0';
}

static void exit_status(void **state)
{
    struct play play;
    (void)state;

    begin(&play, "exit 7", LONG_MS);
    expect_report(&play, T_PATIENCE_MS);
    assert_int_equal(play.report.status, 7);
    assert_int_equal(play.report.why, GUARD_BY_ITSELF);
    assert_int_equal(play.report.start_error, 0);
    expect_gone(&play, T_PATIENCE_MS);
}

static void ended_by_signal(void **state)
{
    struct play play;
    (void)state;

    begin(&play, "kill -USR1 $$; sleep 60", LONG_MS);
    expect_report(&play, T_PATIENCE_MS);
    assert_int_equal(play.report.status, 128 + SIGUSR1);
    assert_int_equal(play.report.why, GUARD_BY_ITSELF);
    expect_gone(&play, T_PATIENCE_MS);
}

static void cannot_start(void **state)
{
    struct play play;
    static char missing[] = "/nonexistent/command", folder[] = "/etc/passwd";
    (void)state;

    begin_argv(&play, (char *[]){missing, NULL}, LONG_MS);
    expect_report(&play, T_PATIENCE_MS);
    assert_int_equal(play.report.start_error, ENOENT);
    expect_gone(&play, T_PATIENCE_MS);
    begin_argv(&play, (char *[]){folder, NULL}, LONG_MS);
    expect_report(&play, T_PATIENCE_MS);
    assert_int_equal(play.report.start_error, EACCES);
    expect_gone(&play, T_PATIENCE_MS);
}

static void environment_and_mask(void **state)
{
    struct play play;
    char *path = t_printf("%s/out", t_tmpdir());
    (void)state;

    begin(&play, t_printf("{ echo $HOLDFAST_TOKEN; grep SigBlk /proc/self/status; } > %s", path), LONG_MS);
    expect_report(&play, T_PATIENCE_MS);
    assert_string_equal(t_read_file(path), "42\nSigBlk:\t0000000000000000\n");
    expect_gone(&play, T_PATIENCE_MS);
}

static void signal_is_passed_on(void **state)
{
    struct play play;
    char *ready = t_printf("%s/ready", t_tmpdir());
    (void)state;

    begin(&play, t_printf("trap 'exit 9' HUP; echo > %s; while :; do sleep 0.05; done", ready), LONG_MS);
    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    guardian_signal(&play.guardian, SIGHUP);
    expect_report(&play, T_PATIENCE_MS);
    assert_int_equal(play.report.status, 9);
    expect_gone(&play, T_PATIENCE_MS);
}

/* Three generations that ignore SIGTERM: in the group, in a session of its own, and a double fork. */
#define FAMILY                                                                                                                     \
    "trap '' TERM HUP; (setsid sh -c 'trap \"\" TERM; sleep 600; :' &); setsid sh -c 'sleep 601 & sleep 602; :' & "                \
    "(sh -c '(sleep 603 &) ; sleep 604; :' &)"

static void deadline_ends_all(void **state)
{
    struct play play;
    (void)state;

    begin(&play, FAMILY "; sleep 600; :", TTL_MS);
    expect_report(&play, TTL_MS + SLACK_MS);
    assert_int_equal(play.report.why, GUARD_DEADLINE);
    assert_true(boot_ms() >= play.deadline_ms - TTL_MS / 4);
    assert_true(boot_ms() <= play.deadline_ms + SLACK_MS);
    expect_gone(&play, SLACK_MS);
}

static void term_comes_first(void **state)
{
    struct play play;
    char *path = t_printf("%s/out", t_tmpdir());
    (void)state;

    begin(&play, t_printf("trap 'echo bye > %s; exit 3' TERM; while :; do sleep 0.02; done", path), TTL_MS);
    expect_report(&play, TTL_MS + SLACK_MS);
    assert_string_equal(t_read_file(path), "bye\n");
    assert_int_equal(play.report.why, GUARD_DEADLINE);
    assert_int_equal(play.report.status, 3);
    expect_gone(&play, SLACK_MS);
}

static void renewals_keep_it(void **state)
{
    struct play play;
    (void)state;

    begin(&play, "sleep 2.5; exit 4", 1500);
    for (int i = 0; i < 200; i++) {
        struct pollfd fd = {.fd = play.guardian.fd, .events = POLLIN};
        if (poll(&fd, 1, 50))
            break;
        guardian_extend(&play.guardian, boot_ms() + 1500, 1500);
    }
    expect_report(&play, 1000);
    assert_int_equal(play.report.why, GUARD_BY_ITSELF);
    assert_int_equal(play.report.status, 4);
    expect_gone(&play, SLACK_MS);
}

static void loss_ends_at_once(void **state)
{
    struct play play;
    char *ready = t_printf("%s/ready", t_tmpdir());
    (void)state;

    begin(&play, t_printf(FAMILY "; echo > %s; sleep 600; :", ready), LONG_MS);
    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    guardian_lose(&play.guardian);
    expect_report(&play, 2000);
    assert_int_equal(play.report.why, GUARD_LOST);
    expect_gone(&play, SLACK_MS);
}

static void run_gone_ends_all(void **state)
{
    struct play play;
    char *dir = t_tmpdir(), *ready = t_printf("%s/ready", dir), *bye = t_printf("%s/bye", dir);
    (void)state;

    begin(&play, t_printf(FAMILY "; trap 'echo > %s' TERM; echo > %s; while :; do sleep 0.02; done", bye, ready), TTL_MS);
    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    close(play.guardian.fd);
    expect_gone(&play, (int)(play.deadline_ms - boot_ms()) + SLACK_MS);
    assert_string_equal(t_read_file(bye), "\n");
    waitpid(play.guardian.pid, NULL, 0);
}

static void leftovers_are_ended(void **state)
{
    struct play play;
    int64_t began = boot_ms();
    (void)state;

    begin(&play, FAMILY "; exit 5", 4000);
    expect_report(&play, 3000);
    assert_int_equal(play.report.status, 5);
    assert_int_equal(play.report.why, GUARD_BY_ITSELF);
    assert_true(boot_ms() - began >= 1000); /* they had the grace to end by themselves */
    expect_gone(&play, SLACK_MS);
}

/* Processes that never stop making new ones. */
static void fork_storm_is_ended(void **state)
{
    struct play play;
    char *ready = t_printf("%s/ready", t_tmpdir());
    (void)state;

    begin(&play,
          t_printf("for n in 1 2 3; do (setsid sh -c \"%s\" &); done; echo > %s; sleep 600; :",
                   "trap '' TERM; while :; do (setsid sleep 0.05 &); done", ready),
          LONG_MS);
    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    t_sleep_ms(300);
    guardian_lose(&play.guardian);
    expect_report(&play, 10000);
    expect_gone(&play, SLACK_MS);
}

/* A stopped descendant cannot answer SIGTERM; it is woken to hear it. */
static void stopped_child_is_ended(void **state)
{
    struct play play;
    (void)state;

    begin(&play, "kill -STOP $$; sleep 600", 4000); /* a second to hear it, also on a busy machine */
    expect_report(&play, 4000 + SLACK_MS);
    assert_int_equal(play.report.status, 128 + SIGTERM);
    expect_gone(&play, SLACK_MS);
}

/* The guardian is killed: `run` sees it and does its work. */
static void killed_guardian_is_replaced(void **state)
{
    struct play play;
    struct pollfd fd = {.events = POLLIN};
    char *ready = t_printf("%s/ready", t_tmpdir());
    (void)state;

    begin(&play, t_printf(FAMILY "; echo > %s; sleep 600; :", ready), LONG_MS);
    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    kill(play.guardian.pid, SIGKILL);
    fd.fd = play.guardian.fd;
    assert_int_equal(poll(&fd, 1, 5000), 1);
    assert_int_equal(guardian_read(&play.guardian, &play.report), -1);
    guardian_replace(&play.guardian);
    expect_gone(&play, SLACK_MS);
}

static void nothing_started(void **state)
{
    struct guardian guardian;
    sigset_t mask;
    static char sh[] = "true";
    char *argv[] = {sh, NULL};
    (void)state;

    sigprocmask(SIG_SETMASK, NULL, &mask);
    assert_true(guardian_fork(&guardian, argv, &mask, SIG_DFL));
    guardian_end(&guardian);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* A guardian that ends while a message of ours is under way has reported all the same. */
static void report_behind_a_reset(void **state)
{
    struct guardian guardian = {0};
    struct guardian_report report = {0};
    struct guardian_message done = {.kind = GUARDIAN_DONE, .report = {.status = 142}};
    int fds[2];
    (void)state;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    guardian.fd = fds[0];
    assert_int_equal(send(fds[1], &done, sizeof(done), 0), sizeof(done));
    guardian_extend(&guardian, boot_ms() + TTL_MS, TTL_MS);
    close(fds[1]);
    assert_int_equal(guardian_read(&guardian, &report), 1);
    assert_int_equal(report.status, 142);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_status),
        cmocka_unit_test(ended_by_signal),
        cmocka_unit_test(cannot_start),
        cmocka_unit_test(environment_and_mask),
        cmocka_unit_test(signal_is_passed_on),
        cmocka_unit_test(deadline_ends_all),
        cmocka_unit_test(term_comes_first),
        cmocka_unit_test(renewals_keep_it),
        cmocka_unit_test(loss_ends_at_once),
        cmocka_unit_test(run_gone_ends_all),
        cmocka_unit_test(leftovers_are_ended),
        cmocka_unit_test(fork_storm_is_ended),
        cmocka_unit_test(stopped_child_is_ended),
        cmocka_unit_test(killed_guardian_is_replaced),
        cmocka_unit_test(nothing_started),
        cmocka_unit_test(report_behind_a_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
