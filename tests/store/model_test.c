/*
 * model_test.c - the SQL functions against the reference model, under random work; and that the comparison can fail.
 */
#include <inttypes.h>
#include <stdio.h>

#include "store/model_run.h"

enum { STEPS = 100000, FAULT_STEPS = 20000, AT_LEAST = 100 };

static const struct {
    int kind;
    const char *name;
    int outcomes[10]; /* ended by 0 */
} expected[] = {
    {ST_ACQUIRE, "acquire", {ST_GRANTED, ST_REPEATED, ST_HELD, ST_ENDED, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_ACQUIRE_ALL, "acquire_all", {ST_GRANTED, ST_REPEATED, ST_HELD, ST_ENDED, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_RENEW,
     "renew",
     {ST_RENEWED, ST_EXPIRED, ST_TAKEN_OVER, ST_RELEASED, ST_BROKEN, ST_UNKNOWN_TOKEN, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_RELEASE, "release", {ST_FREED, ST_NOT_FREED, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_WRITE,
     "write",
     {ST_WRITTEN, ST_REPLAYED, ST_STALE, ST_NOT_HELD, ST_VERSION_MISMATCH, ST_SUPERSEDED, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_CHECK, "check", {ST_CURRENT, ST_STALE, ST_NOT_HELD, ST_NO_SUCH_NAMESPACE}},
    {ST_READ, "read", {ST_FOUND, ST_NO_SUCH_RESOURCE, ST_NO_SUCH_NAMESPACE}},
    {ST_GET, "get", {ST_FOUND, ST_NO_SUCH_RESOURCE, ST_NO_SUCH_NAMESPACE}},
    {ST_BREAK, "break", {ST_BREAK_DONE, ST_BREAK_CHANGED, ST_BREAK_BLOCKED, ST_NO_SUCH_RESOURCE, ST_NO_SUCH_NAMESPACE}},
    {ST_LIST_LEASES, "list_leases", {ST_FOUND, ST_NO_SUCH_NAMESPACE}},
    {ST_LIST_RESOURCES, "list_resources", {ST_FOUND, ST_NO_SUCH_NAMESPACE}},
    {ST_ADVANCE_FENCES, "advance_fences", {ST_FOUND, ST_NO_SUCH_NAMESPACE}},
    {M_GUARD, "guard", {1, ST_STALE, ST_NOT_HELD}},
};

static int print_counts(const struct m_world *world)
{
    int rare = 0;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        printf("%-15s", expected[i].name);
        for (int k = 0; expected[i].outcomes[k]; k++) {
            int outcome = expected[i].outcomes[k];
            long n = world->count[expected[i].kind][outcome];
            printf(" %d:%ld%s", outcome, n, n < AT_LEAST ? "(!)" : "");
            rare += n < AT_LEAST;
        }
        printf("\n");
    }
    return rare;
}

static void functions_and_model_agree(void **state)
{
    static struct m_world world;
    (void)state;
    int64_t started = t_now_ms();
    m_world_open(&world, t_seed());
    m_world_run(&world, STEPS);
    if (!world.mismatch[0])
        m_world_compare_tables(&world);
    printf("%ld items in %" PRId64 " ms\n", world.steps, t_now_ms() - started);
    int rare = print_counts(&world);
    m_world_close(&world);
    assert_string_equal(world.mismatch, "");
    assert_int_equal(rare, 0);
}

/* Each fault is one that such code could have; the work finds it. */
static void planted_faults_are_noticed(void **state)
{
    static const struct {
        const char *function, *right, *wrong;
    } faults[] = {
        {"acquire_verdicts", "greatest(r.fence, n.fence_floor, l.token)", "greatest(r.fence, l.token)"},
        {"acquire_verdicts", "WHEN l.deadline > p_t THEN 3", "WHEN l.deadline > p_t + interval '200 ms' THEN 3"},
        {"renew_batch", "l.deadline > sure", "l.ended = 0"},
        {"renew_locked", "greatest(l.deadline, t + least(", "(t + least("},
        {"release_verdicts", "WHEN l.token = x.token AND l.ended = 3", "WHEN l.ended = 3"},
        {"write_verdicts", "l.token = x.token AND l.deadline > p_t", "l.token = x.token"},
        {"write_verdicts", "v.write_seq >= x.write_seq", "v.write_seq > x.write_seq"},
        {"break_lease", "greatest(r.fence, floor) + 1", "greatest(r.fence, floor)"},
        {"guard", "l.token = in_token AND l.deadline > t", "l.token = in_token"},
    };
    static struct m_world world;
    (void)state;
    uint64_t seed = t_seed();
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        m_world_open(&world, seed);
        t_sql(world.conn,
              "DO $do$ DECLARE f text; BEGIN SELECT pg_get_functiondef(p.oid) INTO STRICT f FROM pg_proc p WHERE p.proname = '%s' "
              "AND p.pronamespace = 'holdfast'::regnamespace AND strpos(p.prosrc, $x$%s$x$) > 0; "
              "EXECUTE replace(f, $x$%s$x$, $x$%s$x$); END $do$",
              faults[i].function, faults[i].right, faults[i].right, faults[i].wrong);
        m_world_run(&world, FAULT_STEPS);
        m_world_close(&world);
        if (!world.mismatch[0])
            fail_msg("not noticed within %d items: %s with \"%s\"", FAULT_STEPS, faults[i].function, faults[i].wrong);
        printf("%s, \"%s\": %s\n", faults[i].function, faults[i].wrong, world.mismatch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(functions_and_model_agree, t_teardown),
        cmocka_unit_test_teardown(planted_faults_are_noticed, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
