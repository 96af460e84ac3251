/*
 * model_test.c - the SQL functions against the reference model, under random work.
 */
#include <inttypes.h>
#include <stdio.h>

#include "store/model_run.h"

enum { STEPS = 100000, MOST_STEPS = 200000, AT_LEAST = 100 };

static const struct {
    int kind;
    const char *name;
    int outcomes[10]; /* ended by 0 */
} expected[] = {
    {ST_ACQUIRE, "acquire", {ST_GRANTED, ST_REPEATED, ST_HELD, ST_ENDED, ST_BUSY, ST_QUOTA, ST_TTL_BOUNDS, ST_NO_SUCH_NAMESPACE}},
    {ST_ACQUIRE_ALL,
     "acquire_all",
     {ST_GRANTED, ST_REPEATED, ST_HELD, ST_ENDED, ST_BUSY, ST_QUOTA, ST_TTL_BOUNDS, ST_NO_SUCH_NAMESPACE}},
    {ST_RENEW,
     "renew",
     {ST_RENEWED, ST_EXPIRED, ST_TAKEN_OVER, ST_RELEASED, ST_BROKEN, ST_UNKNOWN_TOKEN, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_RELEASE, "release", {ST_FREED, ST_NOT_FREED, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_WRITE,
     "write",
     {ST_WRITTEN, ST_REPLAYED, ST_STALE, ST_NOT_HELD, ST_VERSION_MISMATCH, ST_SUPERSEDED, ST_QUOTA, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_CHECK, "check", {ST_CURRENT, ST_STALE, ST_NOT_HELD, ST_NO_SUCH_NAMESPACE}},
    {ST_READ, "read", {ST_FOUND, ST_NO_SUCH_RESOURCE, ST_NO_SUCH_NAMESPACE}},
    {ST_GET, "get", {ST_FOUND, ST_NO_SUCH_RESOURCE, ST_NO_SUCH_NAMESPACE}},
    {ST_BREAK, "break", {ST_BREAK_DONE, ST_BREAK_CHANGED, ST_BREAK_BLOCKED, ST_NO_SUCH_RESOURCE, ST_NO_SUCH_NAMESPACE}},
    {ST_LIST_LEASES, "list_leases", {ST_FOUND, ST_NO_SUCH_NAMESPACE}},
    {ST_LIST_RESOURCES, "list_resources", {ST_FOUND, ST_NO_SUCH_NAMESPACE}},
    {ST_LEAVE, "leave", {ST_FREED, ST_NOT_FREED, ST_BUSY, ST_NO_SUCH_NAMESPACE}},
    {ST_SET_NAMESPACE, "set_namespace", {ST_FOUND, ST_CONTRADICTION, ST_NO_SUCH_NAMESPACE}},
    {ST_CREATE_NAMESPACE, "create_namespace", {ST_FOUND, ST_CONFLICT, ST_CONTRADICTION}},
    {ST_ADVANCE_FENCES, "advance_fences", {ST_FOUND, ST_NO_SUCH_NAMESPACE}},
    {M_GUARD, "guard", {1, ST_STALE, ST_NOT_HELD}},
};

static const char *const event_names[] = {
#define EVENT_NAME(name) #name,
    M_EVENT_NAMES(EVENT_NAME)};

/* How many outcomes and events were seen too seldom. */
static int look_for_rare(const struct m_world *world, bool print)
{
    int rare = 0;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        if (print)
            printf("%-15s", expected[i].name);
        for (int k = 0; expected[i].outcomes[k]; k++) {
            int outcome = expected[i].outcomes[k];
            long n = world->count[expected[i].kind][outcome];
            if (print)
                printf(" %d:%ld%s", outcome, n, n < AT_LEAST ? "(!)" : "");
            rare += n < AT_LEAST;
        }
        if (print)
            printf("\n");
    }
    for (int event = 0; event < M_EVENTS; event++) {
        long n = world->audit.event[event];
        if (print)
            printf("%s:%ld%s%s", event_names[event], n, n < AT_LEAST ? "(!)" : "", event + 1 < M_EVENTS ? " " : "\n");
        rare += n < AT_LEAST;
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
    while (!world.mismatch[0] && world.steps < MOST_STEPS && look_for_rare(&world, false) > 0)
        m_world_run(&world, world.steps + 5000);
    if (!world.mismatch[0])
        m_world_compare_tables(&world);
    printf("%ld items in %" PRId64 " ms\n", world.steps, t_now_ms() - started);
    int rare = look_for_rare(&world, true);
    m_world_close(&world);
    assert_string_equal(world.mismatch, "");
    assert_int_equal(rare, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(functions_and_model_agree, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
