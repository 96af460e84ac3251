/*
 * planted_test.c - faults of the SQL functions that the oracle must see: each is planted and played (planted.h).
 *
 * What only shows when a connection breaks is in planted_resend_test.c, a commit that is lost in planted_commit_test.c.
 */
#include "harness/harness.h"

#include "robustness/planted.h"
#include "robustness/proxy.h"

enum { BRIEF_MS = 300, LATE_MS = 2000 };

/* ------------------------------------------------------------------------------------------------ takeover and late calls */

/* A's lease runs out, B takes over, A writes after all. */
static void play_late_write(struct planted_world *w)
{
    const int64_t t1 = planted_acquire(&w->a, BRIEF_MS);
    worker_write(&w->a, PLANTED_RESOURCE, t1, 1, "a1", -1);
    planted_await_end(w);
    const int64_t t2 = planted_acquire(&w->b, PLANTED_LONG);
    worker_write(&w->b, PLANTED_RESOURCE, t2, 1, "b1", -1);
    worker_write(&w->a, PLANTED_RESOURCE, t1, 2, "a2", -1);
    worker_read(&w->c, PLANTED_RESOURCE);
}

static void the_fence_check_left_out(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "the fence check left out",
        .texts = {{"write_verdicts", "WHEN x.token < r.fence THEN 32", ""},
                  {"write_verdicts", "WHEN x.token > r.fence OR (l.token = x.token AND l.deadline > p_t) IS NOT TRUE THEN 33",
                   "WHEN (l.deadline > p_t) IS NOT TRUE THEN 33"}},
        .play = play_late_write,
        .calls = "a change was accepted under token 1 after one under 2",
        .trail = "a stale change was accepted",
    });
}

/* A's renewal or release is under way when its lease runs out, and arrives when B has the resource. */
static void play_late_call(struct planted_world *w, enum history_op op)
{
    struct px *px = px_start(w->servers[0]->url, 1);
    struct worker late = {.history = w->history, .client = worker_client(px_url(px)), .number = 4, .timeout_ms = BRIEF_MS};
    const struct px_rule rule = {.direction = PX_REQUEST, .method = op == HISTORY_RENEW ? "Renew" : "Release", .action = PX_HOLD};
    const int64_t t1 = planted_acquire(&w->a, BRIEF_MS);
    const int hold = px_add(px, &rule);
    if (op == HISTORY_RENEW)
        worker_renew(&late, PLANTED_RESOURCE, t1, PLANTED_LONG);
    else
        worker_release(&late, PLANTED_RESOURCE, t1);
    assert_true(px_wait(px, hold, 1, PLANTED_SOON));
    planted_await_end(w);
    const int64_t t2 = planted_acquire(&w->b, PLANTED_LONG);
    worker_write(&w->b, PLANTED_RESOURCE, t2, 1, "b1", -1);
    assert_int_equal(px_release(px, hold), 1);
    assert_true(px_wait_quiet(px, PLANTED_SOON));
    hf_client_free(late.client);
    px_stop(px);
    worker_renew(&w->a, PLANTED_RESOURCE, t1, PLANTED_LONG);
    worker_acquire(&w->c, PLANTED_RESOURCE, PLANTED_LONG, "c");
    worker_write(&w->b, PLANTED_RESOURCE, t2, 2, "b2", -1);
}

static void play_late_release(struct planted_world *w)
{
    play_late_call(w, HISTORY_RELEASE);
}

static void play_late_renewal(struct planted_world *w)
{
    play_late_call(w, HISTORY_RENEW);
}

/* It frees what its resource is called, not what it was granted. */
static void late_release_by_name(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "late release by name",
        .texts = {{"release_verdicts", "l.token = x.token AND l.deadline > p_t", "l.deadline > p_t"}},
        .play = play_late_release,
        .calls = "granted while the lease before it cannot have ended",
        .trail = "ended a lease that is not the newest",
    });
}

static void renewal_by_upsert(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "renewal by upsert",
        .texts = {{"renew_locked", "SELECT x.i, l.ctid AS l_tid", "SELECT x.i, x.ns, x.resource, x.token, l.ctid AS l_tid"},
                  {"renew_locked",
                   "                WHEN l.token < x.token THEN 15\n"
                   "                WHEN l.token > x.token THEN 12\n"
                   "                WHEN l.deadline > t THEN 10\n"
                   "                WHEN l.ended = 3 THEN 13\n"
                   "                WHEN l.ended = 4 THEN 14\n"
                   "                ELSE 11\n",
                   "                ELSE 10\n"},
                  {"renew_locked",
                   "UPDATE holdfast.lease l SET deadline = d.deadline FROM d WHERE l.ctid = d.l_tid AND d.outcome = 10",
                   "INSERT INTO holdfast.lease (namespace, resource, token, deadline) SELECT d.ns, d.resource, d.token, d.deadline "
                   "FROM d "
                   "WHERE d.outcome = 10 ON CONFLICT (namespace, resource) DO UPDATE SET token = excluded.token, deadline = "
                   "excluded.deadline, ended = 0"}},
        .play = play_late_renewal,
        .calls = "accepted under an old token after a newer one had been acknowledged",
    });
}

/* ------------------------------------------------------------------------------------------------ tokens */

/* A's lease is broken, which raises the fence; then B is granted. */
static void play_break(struct planted_world *w)
{
    const int64_t t1 = planted_acquire(&w->a, PLANTED_LONG);
    worker_write(&w->a, PLANTED_RESOURCE, t1, 1, "a1", -1);
    worker_break(&w->c, PLANTED_RESOURCE, t1);
    const int64_t t2 = planted_acquire(&w->b, PLANTED_LONG);
    worker_write(&w->b, PLANTED_RESOURCE, t2, 1, "b1", -1);
    worker_read(&w->c, PLANTED_RESOURCE);
}

static void token_from_the_lease_row(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "token taken from the lease row",
        .texts = {{"acquire_verdicts", "greatest(r.fence, n.fence_floor, l.token) + 1", "l.token + 1"}},
        .play = play_break,
        .calls = "a token or fence was known before it was asked for",
        .trail = "a token was granted that is not above",
    });
}

/* ------------------------------------------------------------------------------------------------ between two statements */

/* B's acquire has begun long before A releases, and is granted after that. C asks at once. */
static void play_old_transaction(struct planted_world *w)
{
    struct planted_call b = {.worker = &w->b, .what = {.op = HISTORY_ACQUIRE, .ttl_ms = LATE_MS, .request_id = "b"}};
    const int64_t t1 = planted_acquire(&w->a, PLANTED_LONG);
    planted_arm(w);
    planted_start(&b);
    planted_await_pause(w);
    t_sleep_ms(LATE_MS + 50);
    worker_release(&w->a, PLANTED_RESOURCE, t1);
    planted_let_go(w);
    planted_join(&b);
    worker_acquire(&w->c, PLANTED_RESOURCE, PLANTED_LONG, "c");
}

static void expiry_by_the_start_of_the_transaction(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "expiry judged by now()",
        .texts = {{"acquire_batch", "t := holdfast.clock();", "t := now();"}},
        .pause = {"acquire_batch", "locked := holdfast.lock_rows(p_ns, p_resource, true);",
                  "PERFORM planted.pause(); locked := holdfast.lock_rows(p_ns, p_resource, true);"},
        .play = play_old_transaction,
        .two_servers = true,
        .calls = "granted while the lease before it cannot have ended",
    });
}

/* A's write has been checked but not done when its lease runs out and B asks for the resource. */
static void play_write_in_the_middle(struct planted_world *w)
{
    struct worker hasty = w->b;
    const int64_t t1 = planted_acquire(&w->a, LATE_MS);
    struct planted_call a = {.worker = &w->a, .what = {.op = HISTORY_WRITE, .token = t1, .write_seq = 2}, .value = "a2"};
    worker_write(&w->a, PLANTED_RESOURCE, t1, 1, "a1", -1);
    planted_arm(w);
    planted_start(&a);
    planted_await_pause(w);
    planted_await_end(w);
    hasty.timeout_ms = 2000;
    struct history_call b = worker_acquire(&hasty, PLANTED_RESOURCE, PLANTED_LONG, "b");
    worker_read(&w->b, PLANTED_RESOURCE);
    planted_let_go(w);
    planted_join(&a);
    if (b.answer != HISTORY_OK)
        b.got_token = planted_acquire(&w->b, PLANTED_LONG);
    worker_read(&w->b, PLANTED_RESOURCE);
    worker_write(&w->b, PLANTED_RESOURCE, b.got_token, 1, "b1", -1);
}

static void check_and_write_in_one_statement(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "one-statement check and write",
        .texts = {{"write_batch", "FOR NO KEY UPDATE OF r SKIP LOCKED) s;", ") s;"}},
        .pause = {"write_batch", "FROM d WHERE v.ctid = d.v_tid AND d.outcome = 30",
                  "FROM d WHERE v.ctid = d.v_tid AND d.outcome = 30 AND planted.pause()"},
        .play = play_write_in_the_middle,
        .two_servers = true,
        .calls = "accepted under an old token after a newer one had been acknowledged",
    });
}

/* ------------------------------------------------------------------------------------------------ what stands */

static void play_change_by_hand(struct planted_world *w)
{
    const int64_t t1 = planted_acquire(&w->a, PLANTED_LONG);
    worker_write(&w->a, PLANTED_RESOURCE, t1, 1, "a1", -1);
    worker_write(&w->a, PLANTED_RESOURCE, t1, 2, "a2", -1);
    if (w->faulty)
        t_sql(w->conn, "UPDATE holdfast.resource_value SET version = 1, value = 'a1'");
}

static void an_acknowledged_write_undone(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "an acknowledged write undone by hand",
        .play = play_change_by_hand,
        .calls = "a read shows an older version than was acknowledged before",
        .trail = "stands at version 1 under token 1, but its last change was",
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fence_check_left_out),
        cmocka_unit_test(late_release_by_name),
        cmocka_unit_test(renewal_by_upsert),
        cmocka_unit_test(token_from_the_lease_row),
        cmocka_unit_test(expiry_by_the_start_of_the_transaction),
        cmocka_unit_test(check_and_write_in_one_statement),
        cmocka_unit_test(an_acknowledged_write_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
