/*
 * oracle_test.c - the oracle passes what is right and catches each kind of wrong: trails made by hand, and histories that
 * don't agree with them.
 */
#include "robustness/oracle.h"

#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#define N(array) (sizeof(array) / sizeof((array)[0]))

static char why[2048];

/* ------------------------------------------------------------------------------------------------ trails */

/* A life without fault: everything that may happen, on two resources. */
static const struct oracle_row right[] = {
    {1, "a", "grant", 1, 0},     {2, "a", "write", 1, 1},      {3, "b", "grant", 1, 0},     {4, "a", "write", 1, 2},
    {5, "a", "takeover", 2, 1},  {6, "b", "delete", 1, 0}, /* of nothing */
    {7, "a", "delete", 2, 3},    {8, "a", "release", 2, 0},    {9, "a", "grant", 3, 0},     {10, "a", "break", 3, 4},
    {11, "a", "grant", 5, 0},    {12, NULL, "floor", 1000, 0}, {13, "b", "break", 1, 0}, /* by attach() */
    {14, "b", "break", 1, 1001}, {15, "b", "grant", 1002, 0},  {16, "b", "write", 1002, 1}, {17, "a", "write", 5, 4},
    {18, "a", "expire", 5, 0},   {19, "a", "takeover", 6, 5},  {20, "a", "expire", 6, 0},   {21, "a", "break", 6, 7},
    {22, NULL, "policy", 0, 0},
};

static void a_right_trail_passes(void **state)
{
    (void)state;
    if (!oracle_check_trail(right, N(right), why, sizeof(why)))
        fail_msg("%s", why);
    assert_true(oracle_check_trail(NULL, 0, why, sizeof(why)));
}

/* Each is a trail with one fault, in its last row. */
static const struct {
    const char *rule; /* that is said to be broken */
    struct oracle_row rows[6];
} wrong_trails[] = {
    {"not above", {{1, "a", "grant", 2, 0}, {2, "a", "release", 2, 0}, {3, "a", "grant", 2, 0}}},
    {"not above", {{1, "a", "grant", 2, 0}, {2, "a", "takeover", 1, 2}}},
    {"not above", {{1, "a", "grant", 2, 0}, {2, "a", "break", 2, 5}, {3, "a", "grant", 5, 0}}},
    {"takeover of another lease", {{1, "a", "grant", 2, 0}, {2, "a", "takeover", 3, 1}}},
    {"had been released", {{1, "a", "grant", 2, 0}, {2, "a", "release", 2, 0}, {3, "a", "takeover", 3, 2}}},
    {"stale change", {{1, "a", "grant", 1, 0}, {2, "a", "takeover", 2, 1}, {3, "a", "write", 2, 1}, {4, "a", "write", 1, 2}}},
    {"stale change", {{1, "a", "grant", 1, 0}, {2, "a", "takeover", 2, 1}, {3, "a", "delete", 1, 1}}},
    {"never granted", {{1, "a", "grant", 1, 0}, {2, "a", "write", 2, 1}}},
    {"never granted", {{1, "a", "write", 1, 1}}},
    {"after the end", {{1, "a", "grant", 1, 0}, {2, "a", "release", 1, 0}, {3, "a", "write", 1, 1}}},
    {"after the end", {{1, "a", "grant", 1, 0}, {2, "a", "break", 1, 2}, {3, "a", "write", 1, 1}}},
    {"version did not go on", {{1, "a", "grant", 1, 0}, {2, "a", "write", 1, 1}, {3, "a", "write", 1, 1}}},
    {"version did not go on", {{1, "a", "grant", 1, 0}, {2, "a", "write", 1, 1}, {3, "a", "write", 1, 3}}},
    {"version did not go on", {{1, "a", "grant", 1, 0}, {2, "a", "write", 1, 2}, {3, "a", "delete", 1, 1}}},
    {"not the newest", {{1, "a", "grant", 1, 0}, {2, "a", "takeover", 2, 1}, {3, "a", "release", 1, 0}}},
    {"not the newest", {{1, "a", "release", 1, 0}}},
    {"twice", {{1, "a", "grant", 1, 0}, {2, "a", "release", 1, 0}, {3, "a", "release", 1, 0}}},
    {"twice", {{1, "a", "grant", 1, 0}, {2, "a", "release", 1, 0}, {3, "a", "break", 1, 2}}},
    {"twice", {{1, "a", "grant", 1, 0}, {2, "a", "break", 1, 2}, {3, "a", "break", 1, 3}}},
    {"twice", {{1, "a", "grant", 1, 0}, {2, "a", "expire", 1, 0}, {3, "a", "expire", 1, 0}}},
    {"had been released", {{1, "a", "grant", 1, 0}, {2, "a", "release", 1, 0}, {3, "a", "expire", 1, 0}}},
    {"had run out", {{1, "a", "grant", 1, 0}, {2, "a", "expire", 1, 0}, {3, "a", "release", 1, 0}}},
    {"after the end", {{1, "a", "grant", 1, 0}, {2, "a", "expire", 1, 0}, {3, "a", "write", 1, 1}}},
    {"not the newest", {{1, "a", "grant", 1, 0}, {2, "a", "takeover", 2, 1}, {3, "a", "expire", 1, 0}}},
    {"no more than", {{1, "a", "grant", 2, 0}, {2, "a", "break", 2, 2}}},
    {"order of their ids", {{2, "a", "grant", 1, 0}, {2, "b", "grant", 1, 0}}},
    {"floor went down", {{1, NULL, "floor", 10, 0}, {2, NULL, "floor", 9, 10}}},
    {"nobody knows", {{1, "a", "grant", 1, 0}, {2, "a", "theft", 1, 0}}},
    {"no namespace has", {{1, NULL, "grant", 1, 0}}},
};

static void each_wrong_trail_is_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(wrong_trails); i++) {
        size_t n = 0;
        while (n < N(wrong_trails[i].rows) && wrong_trails[i].rows[n].kind)
            n++;
        if (!oracle_check_trail(wrong_trails[i].rows, n - 1, why, sizeof(why)))
            fail_msg("trail %zu without its fault: %s", i, why);
        if (oracle_check_trail(wrong_trails[i].rows, n, why, sizeof(why)))
            fail_msg("trail %zu was not caught (%s)", i, wrong_trails[i].rule);
        if (!strstr(why, wrong_trails[i].rule))
            fail_msg("trail %zu: \"%s\" doesn't say \"%s\"", i, why, wrong_trails[i].rule);
    }
}

/* ------------------------------------------------------------------------------------------------ histories */

#define CALL(o, start, end, ...)                                                                                                   \
    {                                                                                                                              \
        .op = HISTORY_##o, .resource = "a", .start_ns = start, .end_ns = end, __VA_ARGS__                                          \
    }
#define OK .answer = HISTORY_OK

static const struct oracle_row trail[] = {
    {1, "a", "grant", 1, 0},    {2, "a", "write", 1, 1}, {3, "a", "write", 1, 2},
    {4, "a", "takeover", 2, 1}, {5, "a", "write", 2, 3}, {6, "a", "delete", 2, 4},
};

/* What those told who made that trail: with a repeat, an unknown answer and a late refusal. */
static const struct history_call told[] = {
    CALL(ACQUIRE, 1, 2, OK, .got_token = 1, .request_id = "i"),
    CALL(ACQUIRE, 1, 4, OK, .got_token = 1, .request_id = "i"),
    CALL(WRITE, 5, 6, .token = 1, .write_seq = 1, .value = 11),
    CALL(WRITE, 7, 8, OK, .token = 1, .write_seq = 1, .value = 11, .got_version = 1, .replayed = true),
    CALL(WRITE, 9, 0, .token = 1, .write_seq = 2, .value = 12),
    CALL(READ, 10, 11, OK, .got_version = 1, .got_token = 1, .got_value = 11),
    CALL(ACQUIRE, 20, 21, OK, .got_token = 2, .request_id = "j"),
    CALL(WRITE, 22, 23, OK, .token = 2, .write_seq = 1, .value = 13, .got_version = 3),
    CALL(WRITE, 22, 24, .answer = HISTORY_REFUSED, .token = 1, .write_seq = 3, .value = 14),
    CALL(DELETE, 25, 26, OK, .token = 2, .write_seq = 2, .got_version = 4),
    CALL(READ, 27, 28, OK, .got_version = 4, .got_token = 2),
};

static void a_right_history_passes(void **state)
{
    (void)state;
    assert_true(oracle_check_trail(trail, N(trail), why, sizeof(why)));
    if (!oracle_check_calls(told, N(told), why, sizeof(why)))
        fail_msg("%s", why);
    if (!oracle_check_history(trail, N(trail), told, N(told), why, sizeof(why)))
        fail_msg("%s", why);
}

/* Each replaces call `at` of the right history (N(told): adds one). What calls alone show is oracle_calls_test.c's. */
static const struct {
    const char *rule;
    size_t at;
    struct history_call call;
} wrong_calls[] = {
    {"grant that was acknowledged is not", 0, CALL(ACQUIRE, 1, 2, OK, .got_token = 3, .request_id = "i")},
    {"change that was acknowledged is not", N(told), CALL(WRITE, 1, 31, OK, .token = 2, .write_seq = 9, .got_version = 9)},
    {"change that was acknowledged is not", N(told), CALL(DELETE, 1, 31, OK, .token = 2, .write_seq = 9, .got_version = 3)},
    {"told to nobody", 4, CALL(WRITE, 9, 10, .answer = HISTORY_REFUSED, .token = 1, .write_seq = 2)},
    {"told to nobody", 4, CALL(WRITE, 9, 0, .token = 1, .write_seq = 1, .value = 11)},
    {"told to nobody", 9, CALL(DELETE, 25, 26, .answer = HISTORY_REFUSED, .token = 2, .write_seq = 2)},
    {"told to nobody", 9, CALL(WRITE, 25, 26, .token = 2, .write_seq = 2)},
};

static void each_wrong_history_is_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(wrong_calls); i++) {
        struct history_call calls[N(told) + 1];
        memcpy(calls, told, sizeof(told));
        calls[wrong_calls[i].at] = wrong_calls[i].call;
        size_t n = wrong_calls[i].at == N(told) ? N(told) + 1 : N(told);
        if (oracle_check_history(trail, N(trail), calls, n, why, sizeof(why)))
            fail_msg("history %zu was not caught (%s)", i, wrong_calls[i].rule);
        if (!strstr(why, wrong_calls[i].rule))
            fail_msg("history %zu: \"%s\" doesn't say \"%s\"", i, why, wrong_calls[i].rule);
    }
}

static void a_resource_of_one_side_only_is_seen(void **state)
{
    (void)state;
    const struct history_call acquired = {.op = HISTORY_ACQUIRE, .resource = "z", OK, .got_token = 1, .end_ns = 2};
    const struct oracle_row written[] = {{1, "0", "grant", 1, 0}, {2, "0", "write", 1, 1}};
    assert_false(oracle_check_history(trail, 1, &acquired, 1, why, sizeof(why)));
    assert_true(oracle_check_history(written, 1, &told[0], 0, why, sizeof(why))); /* a grant that nobody heard of */
    assert_false(oracle_check_history(written, 2, &told[0], 0, why, sizeof(why)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_right_trail_passes),
        cmocka_unit_test(each_wrong_trail_is_caught),
        cmocka_unit_test(a_right_history_passes),
        cmocka_unit_test(each_wrong_history_is_caught),
        cmocka_unit_test(a_resource_of_one_side_only_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
