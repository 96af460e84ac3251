/*
 * case_01_paused_holder_test.c - the paused holder.
 *
 * A holds a lease under t1 and is stopped (SIGSTOP) for 3 x TTL: while it works; between its library's own check and the sending of
 * a write; or when the write has left it and lies in the network (the proxy holds it past the takeover). Meanwhile B gets t2 and
 * writes. Then A goes on, and what lay in the network arrives. Wanted: STALE_TOKEN at the server; B's value stands; A's library
 * reports the loss before it sends anything new, once; and commits nothing more.
 *
 * The three are played side by side. A is this program, run again with arguments, on a proxy of its own. Environment:
 * HOLDFAST_CASE_TTL_MS (default 1500), HOLDFAST_CASE_HOLD_MS (how long the write is held at least; default: past the takeover).
 */
#include "harness/served.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/paused.h"
#include "robustness/proxy.h"

enum { SOON = PAUSED_SOON_MS };

/* ------------------------------------------------------------------------------------------------ the test */

static int64_t ttl_ms, hold_ms;

struct story {
    const char *how; /* "working", "sending", "sent" */
    char resource[64];
    struct px *px;
    struct t_proc *a;
    int renewals, writes, hold; /* rules: the first two count */
    int64_t token, next_token, stopped_ms;
    hf_lease *next;
    unsigned renewals_before;
};

static int setup(void **state)
{
    serve(state);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 1500);
    hold_ms = case_ms("HOLDFAST_CASE_HOLD_MS", 0);
    oracle_audit_writes(conn, "default");
    return 0;
}

static void start(struct story *s)
{
    snprintf(s->resource, sizeof(s->resource), "case 1/%s", s->how);
    s->px = px_start(server->url, 1);
    s->renewals = px_add(s->px, &(struct px_rule){.direction = PX_REQUEST, .method = "Renew", .action = PX_PASS});
    s->writes = px_add(s->px, &(struct px_rule){.direction = PX_REQUEST, .method = "Write", .action = PX_PASS});
    const char *const argv[] = {t_self(), s->how, px_url(s->px), s->resource, t_printf("%lld", (long long)ttl_ms), NULL};
    s->a = t_spawn(argv, NULL);
}

/* A is stopped, by itself or by us, at the point that its story wants. */
static void stop(struct story *s)
{
    s->token = paused_token(s->a);
    assert_true(px_wait(s->px, s->renewals, 1, SOON)); /* it keeps its lease */
    if (!strcmp(s->how, "sending")) {
        t_proc_kill(s->a, SIGUSR1);
        t_proc_expect_out(s->a, "STOPS", SOON);
    } else if (!strcmp(s->how, "sent")) {
        s->hold = px_add(s->px, &(struct px_rule){.direction = PX_REQUEST, .method = "Write", .action = PX_HOLD});
        t_proc_kill(s->a, SIGUSR1);
        assert_true(px_wait(s->px, s->hold, 1, SOON));
        t_proc_kill(s->a, SIGSTOP);
    } else {
        t_proc_kill(s->a, SIGSTOP);
    }
    paused_await_stop(s->a);
    s->stopped_ms = t_now_ms();
}

static void take_over(struct story *s, hf_client *b)
{
    const hf_acquire_options options = {.resource = s->resource, .ttl_ms = 60000, .wait_ms = ttl_ms + SOON};
    hf_error error;
    if (hf_acquire(b, &options, &s->next, NULL, &error) != HF_OK)
        fail_msg("%s: %s", s->how, error.message);
    s->next_token = hf_lease_token(s->next);
    assert_true(s->next_token > s->token);
    assert_int_equal(hf_write(s->next, NULL, "from B", 6, NULL, &error), HF_OK);
    assert_true(px_wait_quiet(s->px, SOON)); /* what A had sent before has arrived */
    s->renewals_before = px_count(s->px, s->renewals).seen;
}

static void sleep_until(int64_t until_ms)
{
    for (int64_t left; (left = until_ms - t_now_ms()) > 0;)
        t_sleep_ms((int)left);
}

static int64_t refusals(const struct story *s)
{
    return t_sql_int(conn, "SELECT coalesce(sum(refusals), 0) FROM holdfast.refusal WHERE resource = '%s' AND token = %lld",
                     s->resource, (long long)s->token);
}

/* The write arrives from the network while A is still stopped. */
static void arrive(struct story *s)
{
    if (strcmp(s->how, "sent") != 0)
        return;
    sleep_until(s->stopped_ms + hold_ms);
    assert_int_equal(px_release(s->px, s->hold), 1);
    assert_true(px_wait_quiet(s->px, SOON));
    px_remove(s->px, s->hold);
    assert_int_equal(refusals(s), 1);
}

static void go_on(struct story *s)
{
    const bool at_work = !strcmp(s->how, "working");
    sleep_until(s->stopped_ms + 3 * ttl_ms);
    if (at_work)
        t_proc_kill(s->a, SIGUSR1); /* it writes the moment it runs again */
    t_proc_kill(s->a, SIGCONT);
    paused_check(s->a, at_work);
    assert_true(px_wait_quiet(s->px, SOON));
    assert_int_equal(px_count(s->px, s->writes).seen, at_work ? 0 : 1);
    assert_int_equal(px_count(s->px, s->renewals).seen, s->renewals_before);
    assert_int_equal(refusals(s), at_work ? 0 : 1);
}

static void finish(struct story *s, hf_client *b)
{
    hf_value value;
    hf_error error;
    assert_int_equal(hf_read(b, s->resource, &value, &error), HF_OK);
    assert_string_equal(value.data, "from B");
    assert_int_equal(value.version, 1);
    assert_int_equal(value.token, s->next_token);
    hf_value_release(&value);
    assert_true(hf_lease_valid(s->next));
    assert_int_equal(hf_release(s->next, &error), HF_OK);
    hf_lease_free(s->next);
    t_proc_kill(s->a, SIGUSR1);
    assert_int_equal(t_proc_wait(s->a, SOON), 0);
    px_stop(s->px);
}

static void a_paused_holder_commits_nothing(void **state)
{
    (void)state;
    struct story stories[] = {{.how = "working"}, {.how = "sending"}, {.how = "sent"}};
    const int n = sizeof(stories) / sizeof(stories[0]);
    const hf_client_options options = {.servers = server->url};
    hf_client *b = NULL;
    assert_int_equal(hf_client_new(&options, &b, NULL), HF_OK);
    for (int i = 0; i < n; i++)
        start(&stories[i]);
    for (int i = 0; i < n; i++)
        stop(&stories[i]);
    for (int i = 0; i < n; i++)
        take_over(&stories[i], b);
    for (int i = 0; i < n; i++)
        arrive(&stories[i]);
    for (int i = 0; i < n; i++)
        go_on(&stories[i]);
    for (int i = 0; i < n; i++)
        finish(&stories[i], b);
    hf_client_free(b);
    /* Grant, takeover, B's write and release; an expiry is written down too if nobody waited when it came. */
    int64_t expiries = t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'expire'");
    assert_int_equal(oracle_check(conn, "default", NULL), 4 * n + expiries);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_holder_commits_nothing),
    };
    if (argc == 5)
        return paused_holder(argv[1], argv[2], NULL, argv[3], strtoll(argv[4], NULL, 10));
    return cmocka_run_group_tests(tests, setup, end_serving);
}
