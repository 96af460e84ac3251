/*
 * oracle_calls_test.c - what the oracle makes of calls alone: right histories pass, and of the wrong ones each is refused with the
 * rule it breaks. By hand; oracle_random_test.c has many more of both.
 *
 * Times are milliseconds here. A margin (P7) of 20 ms or a twentieth of the TTL is forgiven.
 */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "robustness/oracle.h"

#define N(array) (sizeof(array) / sizeof((array)[0]))
enum { MAX_CALLS = 10 };

/* The end 0 is "never heard of again". */
#define CALL(o, start, end, ...)                                                                                                   \
    {                                                                                                                              \
        .op = HISTORY_##o, .resource = "a", .start_ns = (start)*INT64_C(1000000), .end_ns = (end)*INT64_C(1000000), __VA_ARGS__    \
    }
#define OK       .answer = HISTORY_OK
#define NO(text) .answer = HISTORY_REFUSED, .reason = text
/* A grant of 1000 ms. */
#define GRANT(id, t, start, end, ...) CALL(ACQUIRE, start, end, OK, .request_id = id, .got_token = t, .ttl_ms = 1000, __VA_ARGS__)
#define ASK(id, start, end, ...)      CALL(ACQUIRE, start, end, .request_id = id, .ttl_ms = 1000, __VA_ARGS__)
#define RENEW(t, start, end, ...)     CALL(RENEW, start, end, .token = t, .ttl_ms = 1000, __VA_ARGS__)
#define WROTE(t, seq, v, start, end, ...)                                                                                          \
    CALL(WRITE, start, end, OK, .token = t, .write_seq = seq, .got_version = v, .value = 100 + (v), __VA_ARGS__)
#define WRITE(t, seq, v, start, end, ...) CALL(WRITE, start, end, .token = t, .write_seq = seq, .value = 100 + (v), __VA_ARGS__)
#define READ(t, v, start, end, ...)                                                                                                \
    CALL(READ, start, end, OK, .got_token = t, .got_version = v, .got_value = 100 + (v), __VA_ARGS__)

struct story {
    const char *what; /* why it is right, or the rule that it breaks */
    struct history_call calls[MAX_CALLS];
};

static size_t length(const struct story *story)
{
    size_t n = 0;
    while (n < MAX_CALLS && story->calls[n].resource[0])
        n++;
    return n;
}

static const struct story right[] = {
    {"a hand-over", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), CALL(RELEASE, 4, 9, OK, .token = 1), GRANT("j", 2, 3, 6)}},
    {"a takeover at the last moment", {GRANT("i", 1, 0, 10), GRANT("j", 2, 940, 950)}},
    {"a takeover that waited", {GRANT("i", 1, 0, 1), GRANT("j", 2, 100, 1000), GRANT("k", 3, 200, 1960)}},
    {"a takeover after the last renewal",
     {GRANT("i", 1, 0, 1), RENEW(1, 500, 505, OK, .got_ttl_ms = 1000), GRANT("j", 2, 1400, 1500)}},
    {"a renewal that nobody was told of may not have happened", {GRANT("i", 1, 0, 1), RENEW(1, 500, 0), GRANT("j", 2, 1000, 1001)}},
    {"or it may",
     {GRANT("i", 1, 0, 1, .no_renewal = true), RENEW(1, 500, 0), WROTE(1, 1, 1, 1900, 1910), GRANT("j", 2, 1900, 2000)}},
    {"a release that nobody was told of", {GRANT("i", 1, 0, 1), CALL(RELEASE, 5, 0, .token = 1), GRANT("j", 2, 10, 11)}},
    {"a break that nobody was told of", {GRANT("i", 1, 0, 1), CALL(BREAK, 5, 0, .token = 1), GRANT("j", 3, 10, 11)}},
    {"a break", {GRANT("i", 1, 0, 1), CALL(BREAK, 5, 6, OK, .token = 1, .got_fence = 2), GRANT("j", 3, 6, 7)}},
    {"an upset", {GRANT("i", 1, 0, 1), CALL(UPSET, 5, 6), GRANT("j", 2, 6, 7)}},
    {"grants that overlap, whichever came first", {GRANT("i", 2, 0, 990), GRANT("j", 1, 0, 990)}},
    {"a grant nobody was told of in between", {GRANT("i", 1, 0, 1), ASK("j", 900, 0), GRANT("k", 3, 1900, 1950)}},
    {"a repeat is told the same, until the end",
     {ASK("i", 0, 1), GRANT("i", 1, 2, 3), GRANT("i", 1, 980, 990), ASK("i", 1100, 1101, NO("ENDED"), .got_token = 1),
      GRANT("j", 2, 1200, 1201)}},
    {"a late repeat after another's grant costs a lease",
     {GRANT("i", 1, 0, 1), CALL(RELEASE, 2, 3, OK, .token = 1), GRANT("j", 2, 4, 5), CALL(RELEASE, 6, 7, OK, .token = 2),
      GRANT("i", 3, 0, 9)}},
    {"a write is repeated until told, long after its lease",
     {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 5, 6), GRANT("j", 2, 990, 1000), WROTE(1, 1, 1, 2000, 2001, .replayed = true),
      READ(1, 1, 2002, 2003)}},
    {"a late write is refused", {GRANT("i", 1, 0, 1), GRANT("j", 2, 990, 1000), WRITE(1, 1, 1, 5, 1100, NO("STALE_TOKEN"))}},
    {"a write that overlaps the takeover", {GRANT("i", 1, 0, 1), GRANT("j", 2, 900, 1000), WROTE(1, 1, 1, 5, 1100)}},
    {"a write that nobody was told of shows or doesn't",
     {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 5, 0), CALL(READ, 6, 7, OK), READ(1, 1, 8, 9), WRITE(1, 2, 2, 9, 0),
      WROTE(1, 3, 3, 10, 11)}},
    {"a delete, and one of nothing",
     {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), CALL(DELETE, 4, 5, OK, .token = 1, .write_seq = 2, .got_version = 2),
      CALL(READ, 6, 7, OK, .got_version = 2, .got_token = 1), CALL(DELETE, 8, 9, OK, .token = 1, .write_seq = 3, .got_version = 2),
      WROTE(1, 4, 3, 10, 11)}},
    {"a lease used to its end",
     {GRANT("i", 1, 0, 10, .no_renewal = true), RENEW(1, 1000, 1010, OK, .got_ttl_ms = 1000), WROTE(1, 1, 1, 2020, 2030)}},
    {"an upset that let a lease live on", {GRANT("i", 1, 0, 1, .no_renewal = true), CALL(UPSET, 5, 6), WROTE(1, 1, 1, 1500, 1501)}},
    {"or live again",
     {GRANT("i", 1, 0, 1), RENEW(1, 1001, 1002, NO("EXPIRED")), CALL(UPSET, 1003, 1004),
      RENEW(1, 1005, 1006, OK, .got_ttl_ms = 1000)}},
    {"a token not yet granted is not held",
     {GRANT("i", 1, 0, 1), WRITE(2, 1, 1, 2, 3, NO("NOT_HELD")), GRANT("j", 2, 990, 1000), WROTE(2, 1, 1, 1001, 1002)}},
};

static const struct story wrong[] = {
    /* P1 */
    {"tokens fell", {GRANT("i", 2, 0, 1), CALL(RELEASE, 2, 3, OK, .token = 2), GRANT("j", 1, 4, 5)}},
    {"tokens fell", {GRANT("i", 2, 0, 1), GRANT("j", 1, 2000, 2001)}},
    {"tokens fell", {GRANT("i", 1, 0, 1), ASK("j", 2, 3, NO("HELD"), .got_token = 7), GRANT("k", 6, 2000, 2001)}},
    {"asked for", {GRANT("i", 1, 0, 1), CALL(BREAK, 2, 3, OK, .token = 1, .got_fence = 2), GRANT("j", 2, 4, 5)}},
    {"tokens fell", {GRANT("i", 1, 0, 1), CALL(READ, 2, 3, OK, .got_fence = 5), GRANT("j", 4, 2000, 2001)}},
    {"taken for the newest", {GRANT("i", 1, 0, 1), GRANT("j", 2, 1000, 1001), CALL(READ, 1002, 1003, OK, .got_fence = 1)}},
    {"given to two requests", {GRANT("i", 1, 0, 1), GRANT("j", 1, 2000, 2001)}},
    {"given to two requests", {GRANT("", 1, 0, 1), GRANT("", 1, 0, 1)}},
    {"tokens fell", {GRANT("i", 1, 0, 1), CALL(BREAK, 2, 3, NO("CHANGED"), .token = 1, .got_token = 5), GRANT("j", 4, 2000, 2001)}},
    {"asked for", {GRANT("i", 1, 0, 1), CALL(READ, 5, 6, OK, .got_fence = 2), CALL(BREAK, 7, 8, OK, .token = 1, .got_fence = 2)}},
    /* P2 */
    {"lease before it", {GRANT("i", 1, 0, 1), GRANT("j", 2, 900, 940)}},
    {"lease before it", {GRANT("i", 1, 500, 501), GRANT("j", 2, 0, 1440)}},
    {"lease before it", {GRANT("i", 1, 0, 1), GRANT("j", 2, 900, 1000), GRANT("k", 3, 1800, 1890)}},
    {"lease before it", {GRANT("i", 1, 0, 1), RENEW(1, 500, 501, OK, .got_ttl_ms = 1000), GRANT("j", 2, 1400, 1440)}},
    {"lease before it", {GRANT("i", 1, 0, 400, .got_waited_ms = 300, .got_ttl_ms = 1000), GRANT("j", 2, 900, 1200)}},
    {"lease before it", {GRANT("i", 1, 0, 1), CALL(RELEASE, 5, 9, NO("NOT_HELD"), .token = 1), GRANT("j", 2, 10, 11)}},
    {"lease before it", {CALL(UPSET, 0, 10), GRANT("i", 1, 20, 21), GRANT("j", 2, 30, 31)}},
    {"old token", {GRANT("i", 1, 0, 1), GRANT("j", 2, 990, 1000), RENEW(1, 1001, 1002, OK, .got_ttl_ms = 1000)}},
    {"old token", {GRANT("i", 1, 0, 1), GRANT("j", 2, 990, 1000), GRANT("i", 1, 1001, 1002)}},
    {"end of its lease had been",
     {GRANT("i", 1, 0, 1), CALL(RELEASE, 2, 3, OK, .token = 1), RENEW(1, 4, 5, OK, .got_ttl_ms = 1000)}},
    {"end of its lease had been",
     {GRANT("i", 1, 0, 1), RENEW(1, 1001, 1002, NO("EXPIRED")), RENEW(1, 1003, 1004, OK, .got_ttl_ms = 1000)}},
    {"end of its lease had been", {GRANT("i", 1, 0, 1), ASK("i", 2, 3, NO("ENDED"), .got_token = 1), GRANT("i", 1, 4, 5)}},
    {"had run out", {GRANT("i", 1, 0, 10, .no_renewal = true), RENEW(1, 1070, 1080, OK, .got_ttl_ms = 1000)}},
    {"had run out",
     {GRANT("i", 1, 0, 10, .no_renewal = true), RENEW(1, 900, 910, OK, .got_ttl_ms = 1000), WROTE(1, 1, 1, 3000, 3001)}},
    {"before it was asked for", {GRANT("i", 1, 10, 20), WROTE(1, 1, 1, 5, 9)}},
    {"before it was asked for", {GRANT("i", 1, 10, 20), RENEW(1, 5, 9, OK, .got_ttl_ms = 1000)}},
    {"tokens fell", {RENEW(2, 5, 9, OK, .got_ttl_ms = 1000), GRANT("i", 1, 10, 20)}},
    /* P3 */
    {"old token", {GRANT("i", 1, 0, 1), GRANT("j", 2, 990, 1000), WROTE(1, 1, 1, 1001, 1002)}},
    {"old token", {GRANT("i", 1, 0, 1), GRANT("j", 2, 990, 1000), CALL(READ, 1001, 1002, OK), WROTE(1, 1, 1, 5, 1100)}},
    {"old token", {GRANT("i", 1, 0, 1), GRANT("j", 2, 990, 1000), CALL(DELETE, 1001, 1002, OK, .token = 1, .write_seq = 1)}},
    {"tokens fell", {GRANT("i", 1, 0, 1), CALL(BREAK, 2, 3, OK, .token = 1, .got_fence = 5), GRANT("j", 4, 2000, 2001)}},
    {"end of its lease had been", {GRANT("i", 1, 0, 1), CALL(BREAK, 2, 3, OK, .token = 1, .got_fence = 2), WROTE(1, 1, 1, 4, 5)}},
    {"end of its lease had been", {GRANT("i", 1, 0, 1), CALL(RELEASE, 2, 3, OK, .token = 1), WROTE(1, 1, 1, 4, 5)}},
    {"end of its lease had been", {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 2, 3, NO("NOT_HELD")), WROTE(1, 2, 1, 4, 5)}},
    {"under token 1 after one under 2",
     {GRANT("i", 1, 0, 1), GRANT("j", 2, 900, 1000), WROTE(2, 1, 1, 950, 1100), WROTE(1, 1, 2, 5, 1100)}},
    /* P6 */
    {"older version", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), CALL(READ, 4, 5, OK)}},
    {"older version", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 9), READ(1, 1, 3, 4), CALL(READ, 5, 6, OK)}},
    {"older version", {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 2, 0), READ(1, 1, 3, 4), CALL(READ, 5, 6, OK)}},
    {"older version", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 1, 6), READ(1, 1, 2, 3), CALL(READ, 4, 5, OK)}},
    {"older version", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 20), WROTE(1, 1, 1, 3, 4, .replayed = true), CALL(READ, 5, 6, OK)}},
    {"before it was made", {GRANT("i", 1, 0, 1), GRANT("j", 2, 0, 1000), WROTE(2, 1, 1, 5, 1000), READ(2, 1, 10, 20)}},
    {"another value", {GRANT("i", 1, 0, 1), READ(1, 1, 2, 3), WROTE(1, 1, 1, 4, 5)}},
    {"versions fell", {GRANT("i", 1, 0, 1), WROTE(1, 1, 2, 2, 3), WROTE(1, 2, 1, 4, 5), WRITE(1, 3, 9, 0, 1)}},
    {"another value",
     {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), CALL(READ, 4, 5, OK, .got_token = 1, .got_version = 1, .got_value = 9)}},
    {"another value", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), READ(2, 1, 4, 5)}},
    {"another value", {GRANT("i", 1, 0, 1), CALL(DELETE, 2, 3, OK, .token = 1, .got_version = 1), READ(1, 1, 4, 5)}},
    {"what nobody wrote", {GRANT("i", 1, 0, 1), READ(1, 1, 4, 5)}},
    {"what nobody wrote", {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 2, 3, NO("VERSION_MISMATCH")), READ(1, 1, 4, 5)}},
    {"what nobody wrote", {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 6, 0), READ(1, 1, 4, 5)}},
    /* P8 */
    {"told another version", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), WROTE(1, 1, 2, 4, 5, .replayed = true)}},
    {"told another version",
     {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), CALL(DELETE, 4, 5, OK, .token = 1, .write_seq = 1, .got_version = 1)}},
    {"accepted twice", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), WROTE(1, 1, 1, 4, 5)}},
    {"two changes were told one version", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), WROTE(1, 2, 1, 2, 5)}},
    {"by nobody who doesn't know", {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), WROTE(1, 2, 3, 4, 5)}},
    {"by nobody who doesn't know",
     {GRANT("i", 1, 0, 1), WRITE(1, 1, 1, 2, 3), GRANT("j", 2, 990, 1000), WROTE(2, 1, 1, 1001, 1002), WROTE(2, 2, 3, 1003, 1004)}},
    {"by nobody who doesn't know", {GRANT("i", 1, 0, 1), WRITE(1, 1, 2, 2, 3), WRITE(1, 1, 2, 4, 5), READ(1, 2, 6, 7)}},
    {"by nobody who doesn't know",
     {GRANT("i", 1, 0, 1), WROTE(1, 1, 1, 2, 3), WROTE(1, 2, 3, 4, 5), GRANT("j", 2, 990, 1000), WRITE(2, 1, 2, 1001, 0)}},
    {"given another token", {GRANT("i", 1, 0, 1), GRANT("i", 2, 2000, 2001)}},
    {"given another token", {GRANT("i", 1, 0, 1), CALL(BREAK, 2, 3, OK, .token = 1, .got_fence = 2), GRANT("i", 3, 4, 5)}},
};

static void right_histories_pass(void **state)
{
    char why[2048];
    (void)state;
    for (size_t i = 0; i < N(right); i++)
        if (!oracle_check_calls(right[i].calls, length(&right[i]), why, sizeof(why)))
            fail_msg("\"%s\" was refused: %s", right[i].what, why);
    assert_true(oracle_check_calls(NULL, 0, why, sizeof(why)));
}

static void each_wrong_history_is_refused_with_its_reason(void **state)
{
    char why[2048];
    (void)state;
    for (size_t i = 0; i < N(wrong); i++) {
        if (oracle_check_calls(wrong[i].calls, length(&wrong[i]), why, sizeof(why)))
            fail_msg("history %zu was not refused (%s)", i, wrong[i].what);
        if (!strstr(why, wrong[i].what))
            fail_msg("history %zu: \"%s\" doesn't say \"%s\"", i, why, wrong[i].what);
    }
}

/* The faults of one don't hide behind the others, and an upset of one is none of another. */
static void resources_are_judged_one_by_one(void **state)
{
    char why[2048];
    struct history_call calls[] = {GRANT("i", 1, 0, 1), CALL(UPSET, 5, 6), GRANT("j", 2, 10, 11), GRANT("k", 7, 0, 1)};
    (void)state;
    snprintf(calls[3].resource, sizeof(calls[3].resource), "b");
    assert_true(oracle_check_calls(calls, N(calls), why, sizeof(why)));
    snprintf(calls[1].resource, sizeof(calls[1].resource), "a");
    assert_true(oracle_check_calls(calls, N(calls), why, sizeof(why)));
    snprintf(calls[1].resource, sizeof(calls[1].resource), "b");
    assert_false(oracle_check_calls(calls, N(calls), why, sizeof(why)));
    assert_non_null(strstr(why, "lease before it"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_histories_pass),
        cmocka_unit_test(each_wrong_history_is_refused_with_its_reason),
        cmocka_unit_test(resources_are_judged_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
