/*
 * failover_proof_test.c - the proof of a fail-over finds what it is there to find.
 *
 * Two trails of one resource: grants 1 and 2 were shipped, 3 and a write under it were not; the new primary broke 2 and granted
 * 1048579. Each test changes one thing and wants it found.
 */
#include "robustness/failover_proof.h"

#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#define N(array) (sizeof(array) / sizeof((array)[0]))

static struct oracle_row old_rows[] = {
    {1, "r", "grant", 1, 0},   {2, "r", "release", 1, 0}, {3, "r", "grant", 2, 0},
    {4, "r", "release", 2, 0}, {5, "r", "grant", 3, 0},   {6, "r", "write", 3, 1},
};
static struct oracle_row new_rows[] = {
    {1, "r", "grant", 1, 0}, {2, "r", "release", 1, 0},      {3, "r", "grant", 2, 0},
    {4, "r", "break", 2, 0}, {5, NULL, "floor", 1048578, 0}, {6, "r", "grant", 1048579, 0},
};
enum { CALLS = 6 };
static struct history_call calls[2 * CALLS];

/* Asked for at `at`, answered at once. */
static struct history_call call_of(enum history_op op, int64_t at)
{
    struct history_call call = {.op = op, .start_ns = at, .end_ns = at + 1, .resource = "r", .answer = HISTORY_OK};
    snprintf(call.request_id, sizeof(call.request_id), "%d", (int)at);
    return call;
}

static int setup(void **state)
{
    (void)state;
    memset(calls, 0, sizeof(calls));
    calls[0] = call_of(HISTORY_ACQUIRE, 10);
    calls[0].got_token = 1;
    calls[1] = call_of(HISTORY_ACQUIRE, 20);
    calls[1].got_token = 2;
    calls[2] = call_of(HISTORY_ACQUIRE, 30);
    calls[2].got_token = 3;
    calls[3] = call_of(HISTORY_WRITE, 40);
    calls[3].token = 3;
    calls[3].write_seq = 1;
    calls[3].got_version = 1;
    calls[4] = call_of(HISTORY_READ, 50);
    calls[4].got_version = 1;
    calls[5] = call_of(HISTORY_ACQUIRE, 60);
    calls[5].got_token = 1048579;
    new_rows[5].token = 1048579;
    return 0;
}

/* What was shipped had been acknowledged by `safe`. */
static bool judge(int64_t safe, struct failover_loss *loss, char why[512])
{
    const struct oracle_trail before = {old_rows, N(old_rows)}, after = {new_rows, N(new_rows)};
    const struct failover_times times = {.safe_ns = safe, .killed_ns = 55, .served_ns = 60};
    return failover_judge(&before, &after, calls, CALLS, &times, loss, why, 512);
}

static void what_was_not_shipped_is_counted(void **state)
{
    struct failover_loss loss;
    char why[512] = "";
    (void)state;
    if (!judge(25, &loss, why))
        fail_msg("%s", why);
    assert_int_equal(loss.rows, 3);
    assert_int_equal(loss.acquires, 1);
    assert_int_equal(loss.writes, 1);
    assert_int_equal(loss.releases, 0);
    assert_int_equal(loss.reads, 1);
    assert_int_equal(loss.granted_again, 1);
    assert_int_equal(loss.lowest_jump, 1048576);
}

static void found(int64_t safe, const char *what)
{
    struct failover_loss loss;
    char why[512] = "";
    assert_false(judge(safe, &loss, why));
    if (!strstr(why, what))
        fail_msg("found another fault: %s", why);
}

static void a_token_that_comes_twice_is_found(void **state)
{
    (void)state;
    new_rows[5].token = calls[5].got_token = 3;
    found(25, "token 3 was granted after the fail-over, and 3 before it");
}

static void what_was_shipped_must_not_be_lost(void **state)
{
    (void)state;
    found(35, "lost although it had been shipped");
}

static void what_no_primary_knows_of_is_found(void **state)
{
    (void)state;
    calls[2].got_token = calls[3].token = 4;
    found(25, "a grant that was acknowledged is not in the trail");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_was_not_shipped_is_counted, setup),
        cmocka_unit_test_setup(a_token_that_comes_twice_is_found, setup),
        cmocka_unit_test_setup(what_was_shipped_must_not_be_lost, setup),
        cmocka_unit_test_setup(what_no_primary_knows_of_is_found, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
