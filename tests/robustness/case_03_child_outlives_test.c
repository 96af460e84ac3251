/*
 * case_03_child_outlives_test.c - the child that outlives its lock.
 *
 * `holdfast run` on A and on B, for one resource. A is cut off without a word (the proxy swallows all), or the connection of A's
 * `run` is stopped with it (SIGSTOP). Wanted: A's whole process group, grandchildren in sessions of their own and orphans
 * included, all of them deaf to SIGTERM, is gone before B's child starts; and a cut off `run` says that the lease was lost.
 *
 * Every process of A's command holds a shared lock on a file, inherited with its descriptor; B's command, as the first thing it
 * does, tries to lock it exclusively and writes down whether it could. Environment: HOLDFAST_CASE_TTL_MS (default 3000).
 */
#include "harness/served.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"

enum { SOON = 30000 };

static int64_t ttl_ms;

/* Six processes that ignore SIGTERM: in the group, in sessions of their own, orphans, children of those. */
#define FAMILY                                                                                                                     \
    "exec 9>%s; flock -s 9; trap '' TERM HUP; (setsid sh -c 'sleep 600; :' &); setsid sh -c 'sleep 601 & sleep 602; :' & "         \
    "(sh -c '(sleep 603 &) ; sleep 604; :' &); echo $HOLDFAST_TOKEN >%s; sleep 600; :"
/* What B's command finds; it ends at once. */
#define HEIR "flock -n -x %s true && echo gone >%s || echo still there >%s; echo token $HOLDFAST_TOKEN"

struct story {
    const char *how; /* "dark", "stopped" */
    const char *resource, *lock, *ready, *found;
    struct px *px;
    struct t_proc *a, *b;
};

static int setup(void **state)
{
    serve(state);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 3000);
    return 0;
}

static bool written(void *path)
{
    return strchr(t_read_file(path), '\n') != NULL;
}

/* True if a process of A's command lives. */
static bool lives(const struct story *s)
{
    int fd = open(s->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return !locked;
}

static struct t_proc *run(const char *url, const struct story *s, const char *script)
{
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", url), NULL};
    const struct t_spawn_opts opts = {.env = env};
    const char *argv[] = {T_HOLDFAST, "run", s->resource, "--ttl", t_printf("%lldms", (long long)ttl_ms), "--wait", "120s", "--",
                          "sh",       "-c",  script,      NULL};
    return t_spawn(argv, &opts);
}

static void start(struct story *s)
{
    char *dir = t_tmpdir();
    s->resource = t_printf("case 3/%s", s->how);
    s->lock = t_printf("%s/lock", dir);
    s->ready = t_printf("%s/ready", dir);
    s->found = t_printf("%s/found", dir);
    s->px = px_start(server->url, 1);
    const int renewals = px_add(s->px, &(struct px_rule){.direction = PX_REPLY, .method = "Renew", .action = PX_PASS});
    s->a = run(px_url(s->px), s, t_printf(FAMILY, s->lock, s->ready));
    if (!t_wait_for(written, (void *)(uintptr_t)s->ready, SOON))
        fail_msg("A's command did not start: %s", t_proc_err(s->a));
    assert_true(lives(s));
    s->b = run(server->url, s, t_printf(HEIR, s->lock, s->found, s->found));
    if (!px_wait(s->px, renewals, 2, SOON)) /* it is renewed while B waits */
        fail_msg("A's lease is not renewed: %s", t_proc_err(s->a));
    assert_true(lives(s));
    assert_int_equal(t_proc_wait(s->b, 0), -1);
    assert_string_equal(t_read_file(s->found), "");
}

static void cut_off(struct story *s)
{
    if (!strcmp(s->how, "dark"))
        px_dark(s->px, true);
    else
        t_proc_kill(s->a, SIGSTOP);
}

static void finish(struct story *s)
{
    const int status = t_proc_wait(s->b, (int)ttl_ms + SOON);
    if (status != 0)
        fail_msg("%s: B ended with %d: %s%s", s->how, status, t_proc_out(s->b), t_proc_err(s->b));
    if (strcmp(t_read_file(s->found), "gone\n") != 0)
        fail_msg("%s: when B's child started, A's were %s", s->how, t_read_file(s->found));
    assert_string_equal(t_proc_out(s->b), "token 2\n");
    assert_false(lives(s));
    if (!strcmp(s->how, "dark")) {
        assert_int_equal(t_proc_wait(s->a, SOON), 125);
        if (!strstr(t_proc_err(s->a), "holdfast: lease lost: "))
            fail_msg("A's run said: %s", t_proc_err(s->a));
    }
    t_proc_kill(s->a, SIGKILL);
    assert_true(t_proc_wait(s->a, SOON) >= 0);
    px_stop(s->px);
}

static void the_old_child_is_gone_before_the_new_one_starts(void **state)
{
    (void)state;
    struct story stories[] = {{.how = "dark"}, {.how = "stopped"}};
    for (int i = 0; i < 2; i++)
        start(&stories[i]);
    for (int i = 0; i < 2; i++)
        cut_off(&stories[i]);
    for (int i = 0; i < 2; i++)
        finish(&stories[i]);
    /* Each: granted, taken over after it ran out, released by B. */
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'takeover'"), 2);
    assert_true(oracle_check(conn, "default", NULL) >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_old_child_is_gone_before_the_new_one_starts),
    };
    return cmocka_run_group_tests(tests, setup, end_serving);
}
