/*
 * case_13_guard_test.c - a slow user transaction holds the fence row through guard(): renewals and every other resource go on
 * undelayed; a takeover waits, and then succeeds; Break names the transaction's backend.
 */
#include "harness/harness.h"

#include <string.h>

#include "integration/served.h"
#include "integration/waiters.h"

enum { GUARDED_MS = 6000, TTL_MS = 3000 }; /* the transaction outlives the lease by half of its time */

/* What others get done in `ms`: rounds of acquire, renew, write and release of resources of their own. */
static int rounds(const char *prefix, int ms)
{
    int n = 0;
    for (int64_t until = t_now_ms() + ms; t_now_ms() < until; n++) {
        const char *resource = t_printf("%s-%d", prefix, n % 50);
        int64_t token = c_grant(rpc, resource, 0);
        assert_int_equal(c_lost(rpc, resource, token), 0);
        c_write(rpc, resource, token, 1, "x", -1, NULL);
        assert_true(c_release_one(rpc, resource, token));
    }
    return n;
}

/* The user's transaction: guarded, busy for GUARDED_MS, then committed. */
static PGconn *begin_guarded(const char *resource, int64_t token)
{
    PGconn *user = t_connect(server->dsn);
    t_sql(user, "begin");
    t_sql(user, "select holdfast.guard('default', '%s', %lld)", resource, (long long)token);
    assert_int_equal(PQsendQuery(user, t_printf("select pg_sleep(%d); commit", GUARDED_MS / 1000)), 1);
    return user;
}

static void finish(PGconn *user)
{
    PGresult *res;
    while ((res = PQgetResult(user))) {
        assert_true(PQresultStatus(res) == PGRES_TUPLES_OK || PQresultStatus(res) == PGRES_COMMAND_OK);
        PQclear(res);
    }
    PQfinish(user);
}

static void a_takeover_waits_and_nobody_else_does(void **state)
{
    (void)state;
    struct w_conn *w = w_open(server->url);
    rounds("warm", 300);
    int undisturbed = rounds("before", 2000);
    int64_t token = c_grant(rpc, "g", TTL_MS), start = t_now_ms();
    PGconn *user = begin_guarded("g", token);
    uint32_t waits = w_acquire(w, "g", "waits", 30000, 0), behind = w_acquire(w, "g", "behind", 30000, 0);
    uint32_t brief = w_acquire(w, "g", "brief", 500, 0);
    assert_int_equal(c_lost(rpc, "g", token), 0); /* the lease itself can be renewed */
    assert_true(w_held(w, brief, T_PATIENCE_MS)->guarded);
    Holdfast__V1__BreakResponse *broken = c_break(rpc, "g", token, NULL);
    assert_int_equal(broken->outcome_case, HOLDFAST__V1__BREAK_RESPONSE__OUTCOME_BLOCKED);
    assert_int_equal(broken->blocked->pid, PQbackendPID(user));
    Holdfast__V1__AcquireResponse *once = c_acquire(rpc, "g", 0, NULL);
    assert_true(once->held->guarded);
    assert_int_equal(once->held->waiters, 2);
    int disturbed = rounds("during", 2000);
    print_message("[     INFO ] rounds of others in 2 s: %d before, %d beside the guarded transaction\n", undisturbed, disturbed);
    assert_true(disturbed * 10 >=
                undisturbed); /* hardly any if something waited for the row; how many differ by the machine's load */
    assert_false(w_answered(w, waits));
    int64_t lease_left = c_get(rpc, "g", NULL)->remaining_ms;
    finish(user);
    int64_t committed = t_now_ms();
    /* The renewal above made it last a minute; the holder gives it up, and that isn't behind anything any more. */
    assert_true(lease_left > 0);
    assert_true(c_release_one(rpc, "g", token));
    int64_t next = w_granted(w, waits, T_PATIENCE_MS);
    print_message("[     INFO ] taken over %lld ms after the commit, %lld ms after the start\n",
                  (long long)(t_now_ms() - committed), (long long)(t_now_ms() - start));
    assert_true(next > token);
    assert_true(c_release_one(rpc, "g", next));
    w_granted(w, behind, T_PATIENCE_MS);
    w_close(w);
}

static void a_takeover_of_an_expired_lease_waits_for_the_transaction(void **state)
{
    (void)state;
    struct w_conn *w = w_open(server->url);
    int64_t token = c_grant(rpc, "x", TTL_MS), start = t_now_ms();
    PGconn *user = begin_guarded("x", token);
    uint32_t waits = w_acquire(w, "x", "waits", 30000, 0);
    int64_t next = w_granted(w, waits, GUARDED_MS + 5000), took = t_now_ms() - start;
    print_message("[     INFO ] a lease of %d ms was taken over %lld ms after its grant, the transaction took %d ms\n", TTL_MS,
                  (long long)took, GUARDED_MS);
    assert_true(next > token);
    assert_true(took >= GUARDED_MS - 50);  /* not before its end (P3) */
    assert_true(took < GUARDED_MS + 4000); /* and soon after */
    assert_true(w_response(w, waits, 0, NULL)->granted->waited_ms >= GUARDED_MS - 500);
    finish(user);
    w_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_takeover_waits_and_nobody_else_does),
        cmocka_unit_test(a_takeover_of_an_expired_lease_waits_for_the_transaction),
    };
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
