/*
 * case_09_upsert_test.c - renewal by upsert.
 *
 * A's lease under t1 runs out, B takes t2 and dies, and only then A's late Renew(t1) arrives; or the lease row has been deleted by
 * hand, or the fence row too. Wanted: lost, with the reason; the renewal makes no row and moves no deadline; and the next grant is
 * above t2. (Once a fence row is deleted by hand nothing is left to count from but the namespace's floor: AdvanceFences first.)
 */
#include "harness/served.h"

#include <stdio.h>
#include <string.h>

#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"
#include "robustness/worker.h"

enum { SOON = 20000, LONG = 60000 };

static int64_t ttl_ms;
static struct history *history;

static int setup(void **state)
{
    serve(state);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 500);
    oracle_audit_writes(conn, "default");
    history = history_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    history_free(history);
    return end_serving(state);
}

static struct worker worker_new(int number, const char *url)
{
    return (struct worker){.history = history, .client = worker_client(url), .number = number, .timeout_ms = SOON};
}

/* Granted, however long the one before has to run out. */
static int64_t acquire(const struct worker *worker, const char *resource, int64_t ttl)
{
    for (const int64_t end = t_now_ms() + SOON;; t_sleep_ms(20)) {
        struct history_call call = worker_acquire(worker, resource, ttl, t_printf("%s %d %d", resource, worker->number, (int)ttl));
        if (call.answer == HISTORY_OK)
            return call.got_token;
        if (strcmp(call.reason, "HELD") != 0 || t_now_ms() > end)
            fail_msg("%s: %s", resource, call.reason);
    }
}

static bool ran_out(void *resource)
{
    return t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE resource = '%s' AND deadline <= holdfast.clock()",
                     (const char *)resource) == 1;
}

static void await_end(const char *resource)
{
    assert_true(t_wait_for(ran_out, (void *)(uintptr_t)resource, SOON));
}

/* When the lease on record ends; "" if there is no row. */
static char *deadline_of(const char *resource)
{
    return t_sql(conn, "SELECT deadline FROM holdfast.lease WHERE resource = '%s'", resource);
}

/* The row is still away, or still there and ends no later. (The sweeper may have noted that it ran out.) */
static void not_revived(const char *resource, const char *before)
{
    const char *now = deadline_of(resource);
    if (!*before || !*now)
        assert_string_equal(now, before);
    else if (strcmp(t_sql(conn, "SELECT '%s'::timestamptz <= '%s'::timestamptz", now, before), "t") != 0)
        fail_msg("%s ended %s and now ends %s", resource, before, now);
}

/* Renewing is answered with this, and revives nothing. */
static void lost(const struct worker *worker, const char *resource, int64_t token, const char *reason)
{
    const char *before = deadline_of(resource);
    struct history_call call = worker_renew(worker, resource, token, LONG);
    if (call.answer != HISTORY_REFUSED || strcmp(call.reason, reason) != 0)
        fail_msg("%s: Renew(%lld): answer %d, %s", resource, (long long)token, (int)call.answer, call.reason);
    not_revived(resource, before);
}

/* A's renewal is under way (the proxy has it) when B takes over and dies; it arrives afterwards. */
static void a_late_renewal_is_lost(void **state)
{
    (void)state;
    const char *r = "case 9/late";
    struct px *px = px_start(server->url, 1);
    struct worker a = worker_new(1, server->url), b = worker_new(2, server->url), late = worker_new(3, px_url(px));
    const int64_t t1 = acquire(&a, r, ttl_ms);
    late.timeout_ms = 300;
    const int hold = px_add(px, &(struct px_rule){.direction = PX_REQUEST, .method = "Renew", .action = PX_HOLD});
    assert_int_equal(worker_renew(&late, r, t1, LONG).answer, HISTORY_UNKNOWN);
    assert_int_equal(px_count(px, hold).kept, 1);
    const int64_t t2 = acquire(&b, r, ttl_ms + 1); /* B dies: nobody renews */
    assert_true(t2 > t1);
    const char *before = deadline_of(r);
    assert_int_equal(px_release(px, hold), 1);
    assert_true(px_wait_quiet(px, SOON));
    not_revived(r, before);
    lost(&a, r, t1, "TAKEN_OVER");
    await_end(r);
    lost(&a, r, t1, "TAKEN_OVER");
    lost(&b, r, t2, "EXPIRED");
    const int64_t t3 = acquire(&a, r, LONG);
    assert_true(t3 > t2);
    lost(&b, r, t2, "TAKEN_OVER");
    lost(&b, r, t3 + 1, "UNKNOWN_TOKEN");
    hf_client_free(a.client);
    hf_client_free(b.client);
    hf_client_free(late.client);
    px_stop(px);
}

/* An operator's hand, which no call of the history is: it may have ended a lease. */
static void by_hand(const char *resource, const char *sql)
{
    struct history_call upset = {.op = HISTORY_UPSET};
    snprintf(upset.resource, sizeof(upset.resource), "%s", resource);
    const size_t number = history_begin(history, &upset);
    t_sql(conn, "%s", sql);
    history_end(history, number, &upset);
}

static void a_lease_row_deleted_by_hand_stays_lost(void **state)
{
    (void)state;
    struct worker a = worker_new(4, server->url), b = worker_new(5, server->url);
    for (int live = 0; live < 2; live++) { /* while B's lease lives, and after its end */
        const char *r = live ? "case 9/deleted live" : "case 9/deleted";
        const int64_t t1 = acquire(&a, r, ttl_ms);
        const int64_t t2 = acquire(&b, r, live ? LONG : ttl_ms + 1);
        if (!live)
            await_end(r);
        by_hand(r, t_printf("DELETE FROM holdfast.lease WHERE resource = '%s'", r));
        assert_string_equal(deadline_of(r), "");
        lost(&a, r, t1, "UNKNOWN_TOKEN"); /* nothing is on record */
        lost(&b, r, t2, "UNKNOWN_TOKEN");
        assert_int_equal(worker_write(&b, r, t2, 1, "x", -1).answer, HISTORY_REFUSED);
        const int64_t t3 = acquire(&a, r, LONG);
        assert_true(t3 > t2);
        assert_int_equal(worker_write(&a, r, t3, 1, "y", -1).answer, HISTORY_OK);
        lost(&b, r, t2, "TAKEN_OVER");
    }
    hf_client_free(a.client);
    hf_client_free(b.client);
}

static void with_both_rows_gone_the_floor_counts(void **state)
{
    (void)state;
    const char *r = "case 9/purged";
    struct worker a = worker_new(6, server->url);
    const int64_t t1 = acquire(&a, r, ttl_ms);
    assert_int_equal(t_sql_int(conn, "SELECT outcome FROM holdfast.advance_fences('default', 0, 'operator', 'purge')"), 50);
    by_hand(r, t_printf("DELETE FROM holdfast.lease WHERE resource = '%s'; DELETE FROM holdfast.resource WHERE name = '%s'", r, r));
    lost(&a, r, t1, "UNKNOWN_TOKEN");
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.resource WHERE name = '%s'", r), 0);
    assert_true(acquire(&a, r, LONG) > t1);
    hf_client_free(a.client);
}

static void the_trail_is_right(void **state)
{
    (void)state;
    assert_true(oracle_check(conn, "default", history) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_renewal_is_lost),
        cmocka_unit_test(a_lease_row_deleted_by_hand_stays_lost),
        cmocka_unit_test(with_both_rows_gone_the_floor_counts),
        cmocka_unit_test(the_trail_is_right),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
