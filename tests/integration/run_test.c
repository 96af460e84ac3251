/*
 * run_test.c - `holdfast run`: what the command gets, how it ends, and that nothing of it outlives the lease.
 *
 * Every process of a command holds a shared lock on a file (inherited with its descriptor): who can lock it exclusively knows
 * that all of them are gone.
 */
#include "harness/served.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUN(resource, script) t_cli(server, "run", resource, "--", "sh", "-c", script, NULL)

static void expect(struct t_result result, int status)
{
    if (result.status != status)
        fail_msg("exit %d instead of %d\nout: %s\nerr: %s", result.status, status, result.out, result.err);
}

static void ended_with(struct t_proc *proc, int status, int ms)
{
    int got = t_proc_wait(proc, ms);

    if (got != status)
        fail_msg("exit %d instead of %d\nout: %s\nerr: %s", got, status, t_proc_out(proc), t_proc_err(proc));
}

/* The last line on stderr begins so. */
static void last_line(const char *err, const char *begin)
{
    const char *line = err, *next;

    while ((next = strchr(line, '\n')) && next[1])
        line = next + 1;
    if (strncmp(line, begin, strlen(begin)))
        fail_msg("the last line does not begin with \"%s\":\n%s", begin, err);
}

static bool written(void *path)
{
    return *t_read_file(path) != '\0';
}

/* True if no process of the command is left. */
static bool all_gone(void *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool gone;

    assert_true(fd >= 0);
    gone = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return gone;
}

/* Three generations that ignore SIGTERM: in the group, in sessions of their own, and after double forks. */
#define FAMILY                                                                                                                     \
    "exec 9>%s; flock -s 9; trap '' TERM HUP; (setsid sh -c 'sleep 600; :' &); setsid sh -c 'sleep 601 & sleep 602; :' & "         \
    "(sh -c '(sleep 603 &) ; sleep 604; :' &); echo >%s; sleep 600; :"

struct family {
    struct t_proc *run;
    char *lock, *ready;
};

/* `holdfast run RESOURCE` with a family of processes, all of them running. */
static struct family family_start(const struct t_server *at, const char *resource, const char *ttl)
{
    char *dir = t_tmpdir();
    struct family family = {.lock = t_printf("%s/lock", dir), .ready = t_printf("%s/ready", dir)};

    family.run =
        t_cli_spawn(at, "run", resource, "--ttl", ttl, "--", "sh", "-c", t_printf(FAMILY, family.lock, family.ready), NULL);
    if (!t_wait_for(written, family.ready, T_PATIENCE_MS))
        fail_msg("the command did not start: %s", t_proc_err(family.run));
    assert_false(all_gone(family.lock));
    return family;
}

/* ---- what the command gets ---- */

static void environment(void **state)
{
    struct t_result result = RUN("run/env", "echo $HOLDFAST_SERVER $HOLDFAST_NAMESPACE $HOLDFAST_RESOURCE $HOLDFAST_TOKEN; "
                                            "exec " T_HOLDFAST " check $HOLDFAST_RESOURCE $HOLDFAST_TOKEN");
    (void)state;

    expect(result, 0);
    char *begin = t_printf("%s default run/env 1\n", server->url);
    assert_memory_equal(result.out, begin, strlen(begin));
    assert_non_null(strstr(result.out, "CURRENT"));
    expect(RUN("run/env", "test $HOLDFAST_TOKEN = 2"), 0);
    result = t_cli(server, "run", "run/env", "--task", "t7", "--", T_HOLDFAST, "lease", "run/env", NULL);
    assert_non_null(strstr(result.out, "TASK      t7\n"));
}

static void arguments_and_streams(void **state)
{
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    struct t_spawn_opts opts = {.env = env, .input = "some input\n"};
    (void)state;

    struct t_result result = t_run((const char *[]){T_HOLDFAST, "run", "run/io", "--", "cat", NULL}, &opts, 30000);
    assert_string_equal(result.out, "some input\n");
    assert_string_equal(result.err, "");
    result = t_cli(server, "run", "run/io", "--", "printf", "<%s>", "--json", "a b", "--", NULL);
    assert_string_equal(result.out, "<--json><a b><-->");
    result = RUN("run/io", "echo oops >&2");
    assert_string_equal(result.err, "oops\n");
}

static void statuses(void **state)
{
    (void)state;

    expect(RUN("run/status", "exit 0"), 0);
    expect(RUN("run/status", "exit 7"), 7);
    expect(RUN("run/status", "kill -TERM $$; sleep 60"), 128 + SIGTERM);
    expect(RUN("run/status", "kill -KILL $$"), 128 + SIGKILL);
    struct t_result result = t_cli(server, "run", "run/status", "--", "/nonexistent/command", NULL);
    expect(result, 127);
    last_line(result.err, "holdfast: cannot run /nonexistent/command: No such file");
    result = t_cli(server, "run", "run/status", "--", "/etc/passwd", NULL);
    expect(result, 126);
    last_line(result.err, "holdfast: cannot run /etc/passwd: Permission denied");
    /* Each time the lease was given back. */
    result = t_cli(server, "lease", "run/status", NULL);
    assert_non_null(strstr(result.out, "STATE     RELEASED"));
    assert_non_null(strstr(result.out, "TOKEN     6\n"));
}

static void signals_are_passed_on(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    (void)state;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        char *ready = t_printf("%s/ready", t_tmpdir());
        struct t_proc *run =
            t_cli_spawn(server, "run", "run/signal", "--", "sh", "-c",
                        t_printf("trap 'echo caught; exit 9' %d; echo >%s; while :; do sleep 0.05; done", signals[i], ready), NULL);
        assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
        t_proc_kill(run, signals[i]);
        ended_with(run, 9, T_PATIENCE_MS);
        assert_string_equal(t_proc_out(run), "caught\n");
    }
    struct t_proc *run = t_cli_spawn(server, "run", "run/signal", "--", "sleep", "60", NULL);
    struct t_result lease;
    for (int i = 0; i < 500; i++) {
        lease = t_cli(server, "lease", "run/signal", NULL);
        if (strstr(lease.out, "TOKEN     8\n"))
            break;
    }
    t_sleep_ms(200); /* whether it has started or not: SIGTERM ends it, by its death or by ours */
    t_proc_kill(run, SIGTERM);
    int status = t_proc_wait(run, 10000);
    assert_true(status == 128 + SIGTERM || status == 125);
}

static void ignored_stays_ignored(void **state)
{
    struct t_result result;
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    (void)state;

    result = t_run(
        (const char *[]){"sh", "-c", "trap '' HUP; exec " T_HOLDFAST " run run/ignored -- sh -c 'kill -HUP $$; exit 4'", NULL},
        &(struct t_spawn_opts){.env = env}, 30000);
    expect(result, 4);
}

/* An alarm set before exec is the command's: the kernel sends it to us. */
static void alarm_is_passed_on(void **state)
{
    struct t_result result;
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    (void)state;

    result = t_run((const char *[]){"perl", "-e", "alarm 3; exec @ARGV", T_HOLDFAST, "run", "run/alarm", "--", "sleep", "60", NULL},
                   &(struct t_spawn_opts){.env = env}, 30000);
    expect(result, 128 + SIGALRM);
}

/* ---- not got ---- */

static void held_by_another(void **state)
{
    struct t_result result;
    int64_t began;
    (void)state;

    expect(t_cli(server, "acquire", "run/held", "--holder", "somebody", "--ttl", "60s", NULL), 0);
    result = RUN("run/held", "echo never");
    expect(result, 125);
    assert_string_equal(result.out, "");
    last_line(result.err, "holdfast: lease not got: HELD: run/held is held by somebody ");
    began = t_now_ms();
    expect(t_cli(server, "run", "run/held", "--wait", "500ms", "--", "true", NULL), 125);
    assert_true(t_now_ms() - began >= 500);
    struct t_proc *run = t_cli_spawn(server, "run", "run/held", "--wait", "30s", "--", "echo", "got it", NULL);
    assert_int_equal(t_proc_wait(run, 700), -1);
    expect(t_cli(server, "release", "run/held", "1", NULL), 0);
    ended_with(run, 0, T_PATIENCE_MS);
    assert_string_equal(t_proc_out(run), "got it\n");
}

static void interrupted_while_waiting(void **state)
{
    (void)state;

    expect(t_cli(server, "acquire", "run/interrupted", "--ttl", "60s", NULL), 0);
    struct t_proc *run = t_cli_spawn(server, "run", "run/interrupted", "--wait", "1h", "--", "true", NULL);
    assert_int_equal(t_proc_wait(run, 500), -1);
    t_proc_kill(run, SIGINT);
    ended_with(run, 125, T_PATIENCE_MS);
    last_line(t_proc_err(run), "holdfast: lease not got: INTERRUPTED: by SIGINT");
}

static void refused_or_unreachable(void **state)
{
    char *url = t_printf("tcp://127.0.0.1:%d", t_free_port());
    struct t_result result;
    (void)state;

    result = t_cli(server, "run", "run/ttl", "--ttl", "1ms", "--", "true", NULL);
    expect(result, 125);
    last_line(result.err, "holdfast: lease not got: LIMIT: ");
    result =
        t_run((const char *[]){T_HOLDFAST, "--server", url, "--timeout", "800ms", "run", "x", "--", "true", NULL}, NULL, 10000);
    expect(result, 125);
    last_line(result.err, "holdfast: lease not got: ");
    result = t_cli(server, "--namespace", "nowhere", "run", "x", "--", "true", NULL);
    expect(result, 125);
    last_line(result.err, "holdfast: lease not got: NO_SUCH_NAMESPACE: ");
}

/* ---- nothing outlives the lease ---- */

static void renewed_while_it_runs(void **state)
{
    char *ready = t_printf("%s/ready", t_tmpdir());
    struct t_proc *run =
        t_cli_spawn(server, "run", "run/renewed", "--ttl", "2400ms", "--", "sh", "-c", t_printf("echo >%s; sleep 6", ready), NULL);
    (void)state;

    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    while (t_proc_wait(run, 100) < 0)
        if (t_cli(server, "acquire", "run/renewed", NULL).status == 0)
            break; /* it ended just now, or the lease was lost: its status tells */
    ended_with(run, 0, T_PATIENCE_MS);
    assert_string_equal(t_proc_err(run), "");
}

static void leftovers_are_ended_first(void **state)
{
    char *dir = t_tmpdir(), *lock = t_printf("%s/lock", dir);
    struct t_result result;
    (void)state;

    result = t_cli(server, "run", "run/left", "--ttl", "4s", "--", "sh", "-c",
                   t_printf("exec 9>%s; flock -s 9; trap '' TERM; setsid sleep 600 & (setsid sleep 601 &); exit 3", lock), NULL);
    expect(result, 3);
    assert_true(all_gone(lock));
    expect(t_cli(server, "acquire", "run/left", NULL), 0);
}

/* Another acquires as soon as the server lets it: at that moment nobody of the family may be left. */
static void taken_over_from_nobody(struct family *family, const char *resource)
{
    struct t_result other = t_cli(server, "acquire", resource, "--wait", "20s", NULL);

    assert_true(all_gone(family->lock));
    expect(other, 0);
}

static void stopped_run(void **state)
{
    struct family family = family_start(server, "run/stopped", "5s");
    (void)state;

    t_proc_kill(family.run, SIGSTOP);
    taken_over_from_nobody(&family, "run/stopped");
    t_proc_kill(family.run, SIGCONT);
    ended_with(family.run, 125, T_PATIENCE_MS);
    last_line(t_proc_err(family.run), "holdfast: lease lost: ");
}

static void killed_run(void **state)
{
    struct family family = family_start(server, "run/killed", "4s");
    (void)state;

    t_proc_kill(family.run, SIGKILL);
    taken_over_from_nobody(&family, "run/killed");
    ended_with(family.run, 128 + SIGKILL, T_PATIENCE_MS);
}

static void broken_lease(void **state)
{
    struct family family = family_start(server, "run/broken", "6s");
    (void)state;

    expect(t_cli(server, "break", "run/broken", "--token", "1", "--reason", "test", NULL), 0);
    ended_with(family.run, 125, T_PATIENCE_MS); /* the next renewal, a third of the TTL away, tells it */
    assert_true(all_gone(family.lock));
    last_line(t_proc_err(family.run), "holdfast: lease lost: BROKEN");
}

static void killed_server(void **state)
{
    char *dsn = t_database();
    struct t_server *other = t_server_start("--dsn", dsn, NULL);
    struct family family = family_start(other, "run/server", "3s");
    int64_t killed;
    (void)state;

    t_server_kill(other, SIGKILL);
    killed = t_now_ms();
    ended_with(family.run, 125, T_PATIENCE_MS);
    assert_true(t_now_ms() - killed < 3000 + T_AT_ONCE_MS);
    assert_true(all_gone(family.lock));
    last_line(t_proc_err(family.run), "holdfast: lease lost: DEADLINE");
}

/* The server comes back before the deadline: the command never notices. */
static void restarted_server(void **state)
{
    struct t_server *other = t_server_start("--dsn", t_database(), NULL);
    char *ready = t_printf("%s/ready", t_tmpdir());
    struct t_proc *run = t_cli_spawn(other, "run", "run/restart", "--ttl", "9s", "--", "sh", "-c",
                                     t_printf("echo >%s; sleep 12; exit 6", ready), NULL);
    (void)state;

    assert_true(t_wait_for(written, ready, T_PATIENCE_MS));
    t_server_kill(other, SIGKILL);
    t_server_restart(other);
    ended_with(run, 6, 30000);
    assert_string_equal(t_proc_err(run), "");
}

static int64_t child_named(pid_t parent, const char *name)
{
    struct t_result result =
        t_run((const char *[]){"sh", "-c",
                               t_printf("grep -l '^%s$' /proc/[0-9]*/comm 2>/dev/null | while read f; do d=${f%%/comm}; grep -q "
                                        "\"^PPid:.%d$\" $d/status 2>/dev/null && echo ${d#/proc/}; done; :",
                                        name, (int)parent),
                               NULL},
              NULL, 10000);

    return atoi(result.out);
}

static void killed_guardian(void **state)
{
    struct family family = family_start(server, "run/guardian", "30s");
    pid_t guardian = (pid_t)child_named(family.run->pid, "holdfast-guard");
    (void)state;

    assert_true(guardian > 0);
    kill(guardian, SIGKILL);
    ended_with(family.run, 125, T_PATIENCE_MS);
    assert_true(all_gone(family.lock));
    last_line(t_proc_err(family.run), "holdfast: failed: GUARDIAN_GONE");
    expect(t_cli(server, "acquire", "run/guardian", NULL), 0);
}

/* ---- on a terminal ---- */

/* Reads what the terminal shows until `text` stands there. */
static void expect_shown(int terminal, char *shown, size_t size, const char *text)
{
    size_t n = strlen(shown);
    int64_t until = t_now_ms() + 10000;

    while (!strstr(shown, text)) {
        struct pollfd fd = {.fd = terminal, .events = POLLIN};
        ssize_t got = -1;
        if (t_now_ms() < until && poll(&fd, 1, 10000) == 1)
            got = read(terminal, shown + n, size - 1 - n);
        if (got <= 0)
            fail_msg("\"%s\" is not shown:\n%s", text, shown);
        n += (size_t)got;
        shown[n] = '\0';
    }
}

/* Ctrl-C reaches the command once, by the terminal and not by us again; the command reads from the terminal. */
static void terminal(void **state)
{
    char shown[4096] = "";
    int master, status;
    pid_t pid = forkpty(&master, NULL, NULL, NULL);
    (void)state;

    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("HOLDFAST_SERVER", server->url, 1);
        execl(T_HOLDFAST, "holdfast", "run", "run/terminal", "--", "sh", "-c",
              "n=0; trap 'n=$((n+1)); echo caught $n' INT; echo ready; while [ $n = 0 ]; do sleep 0.05; done; "
              "sleep 0.3; echo total $n; read line; echo \"read $line\"; exit 8",
              (char *)NULL);
        _exit(99);
    }
    expect_shown(master, shown, sizeof(shown), "ready");
    assert_int_equal(write(master, "\x03", 1), 1);
    expect_shown(master, shown, sizeof(shown), "total 1");
    assert_int_equal(write(master, "words\n", 6), 6);
    expect_shown(master, shown, sizeof(shown), "read words");
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 8);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment),
        cmocka_unit_test(arguments_and_streams),
        cmocka_unit_test(statuses),
        cmocka_unit_test(signals_are_passed_on),
        cmocka_unit_test(ignored_stays_ignored),
        cmocka_unit_test(alarm_is_passed_on),
        cmocka_unit_test(held_by_another),
        cmocka_unit_test(interrupted_while_waiting),
        cmocka_unit_test(refused_or_unreachable),
        cmocka_unit_test(renewed_while_it_runs),
        cmocka_unit_test(leftovers_are_ended_first),
        cmocka_unit_test(stopped_run),
        cmocka_unit_test(killed_run),
        cmocka_unit_test(broken_lease),
        cmocka_unit_test_teardown(killed_server, t_teardown),
        cmocka_unit_test_teardown(restarted_server, t_teardown),
        cmocka_unit_test(killed_guardian),
        cmocka_unit_test(terminal),
    };
    return cmocka_run_group_tests(tests, serve, end_serving);
}
