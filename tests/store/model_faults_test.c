/*
 * model_faults_test.c - that the comparison of model_test.c can fail: faults planted in the SQL functions are noticed.
 */
#include <stdio.h>

#include "store/model_run.h"

enum { FAULT_STEPS = 20000 };

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
        {"turn_before", "turn.server IS DISTINCT FROM p_server", "false"},
        {"turn_before", "IF turn.turn_until > p_t THEN", "IF true THEN"},
        {"turn_before", "IF p_server IS NOT NULL THEN", "IF false THEN"},
        {"turn_before", "p_server, since);", "p_server, NULL);"},
        {"give_turn", "ORDER BY v.since, v.server", "ORDER BY v.server"},
        {"wait_on_after_grant", "PERFORM holdfast.wait_no_more(p_ns, p_resource, p_server);", ""},
        {"leave_batch", "gone.had_turn", "false"},
        {"release_verdicts", "r.repeats > 0", "false"},
        {"acquire_verdicts", "n.lock_delay_ms > 0", "false"},
        {"acquire_verdicts", "p_may_grant[x.i] IS FALSE", "false"},
        {"renew_locked", "least(x.ttl_ms, n.max_ttl_ms)", "x.ttl_ms"},
        {"limit_leases", "used.leases >= limited.max_leases", "used.leases > limited.max_leases"},
        {"limit_values", "item.more_bytes > 0 AND", "false AND"},
        {"note_expired", "l.deadline + n.lock_delay_ms * interval '1 ms' <= p_t", "true"},
        {"sweep", "w.until <= t", "w.since <= t"},
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
        cmocka_unit_test_teardown(planted_faults_are_noticed, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
