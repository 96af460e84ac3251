/*
 * start_test.c - everything of libpq fails once in turn, for what comes before anything is served: the checks of the database, and
 * its migration, from nothing and when there is nothing to do. They say why they failed, never that the database is unfit, and
 * another start goes on where they stopped.
 */
#include "failing/rooms.h"

#include <stdlib.h>
#include <string.h>

#include "failing/points.h"
#include "store/check.h"
#include "store/migrate.h"

enum { POINTS_MAX = 2000, WATCH_S = 60 };

/* Leases can be had: the schema is whole. */
static bool is_ready(void)
{
    static int n;
    return t_sql_int(rooms_sql,
                     "SELECT outcome FROM holdfast.acquire_batch(ARRAY['default'], ARRAY['r%d'], ARRAY['task'], ARRAY['h'], "
                     "ARRAY[60000::bigint], ARRAY['id'], ARRAY[NULL::text], 'server', NULL, NULL, NULL, NULL, NULL)",
                     ++n) == 1;
}

struct step {
    const char *name;
    int each_place;
    /* The database is as it has to be before; may be NULL. */
    void (*prepare)(void);
    /* Inside. True: it succeeded; otherwise `problem` says why not. */
    bool (*run)(struct st_problem *problem);
};

static void one(const struct step *step, enum fp_kind kind)
{
    struct st_problem problem = {""};
    size_t live = fp_live();
    fp_enter();
    bool ok = step->run(&problem);
    fp_leave();
    if (!ok && !problem.text[0] && kind == FP_LIBPQ_MEMORY) /* a function that is made to fail leaves no message */
        fail_msg("%s: fails and doesn't say why", fp_where());
    if (fp_live() != live) {
        fp_print_live();
        fail_msg("leaks: %s", fp_where());
    }
    fp_disarm();
    problem.text[0] = 0;
    if (!step->run(&problem))
        fail_msg("%s: the next start fails: %s", fp_where(), problem.text);
    assert_true(is_ready());
}

static void run(const struct step *step, enum fp_kind kind)
{
    struct fp_plan plan = {.kind = kind, .each_place = getenv("HOLDFAST_FAILING_ALL") ? 0 : step->each_place, .what = step->name};
    long points = 0, reached;
    int64_t began = t_now_ms();
    fp_forget();
    do {
        fp_watch(WATCH_S);
        if (step->prepare)
            step->prepare();
        plan.from++;
        fp_arm(&plan);
        one(step, kind);
        reached = fp_disarm();
        plan.from = reached;
        points += reached != 0;
        assert_true(points < POINTS_MAX);
    } while (reached);
    fp_watch(0);
    printf("%s, %s: %ld points failed of %ld, %lld ms\n", step->name, fp_kind_name(kind), points, fp_passed(),
           (long long)(t_now_ms() - began));
    fflush(stdout);
    assert_true(points > 0);
}

static bool check(struct st_problem *problem)
{
    static struct st_findings findings;
    enum st_check_status status = st_check(rooms_dsn, 4, &findings, problem);
    if (status == ST_CHECK_REFUSED)
        fail_msg("%s: the database is refused: %s", fp_where(), problem->text);
    return status == ST_CHECK_OK;
}

static bool migrate(struct st_problem *problem)
{
    enum st_migrate_status status = st_migrate(rooms_dsn, NULL, NULL, problem);
    if (status == ST_MIGRATE_REFUSED)
        fail_msg("%s: the schema is refused: %s", fp_where(), problem->text);
    return status == ST_MIGRATE_OK;
}

static void drop_schema(void)
{
    t_sql(rooms_sql, "SET client_min_messages = 'error'; DROP SCHEMA holdfast CASCADE");
}

static const struct step steps[] = {{.name = "check", .each_place = 3, .run = check},
                                    {.name = "migrate, nothing to do", .each_place = 3, .run = migrate},
                                    {.name = "migrate, from nothing", .each_place = 1, .prepare = drop_schema, .run = migrate}};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

static void libpq(void **state)
{
    (void)state;
    for (int i = 0; i < STEPS; i++)
        run(&steps[i], FP_LIBPQ);
}

static void libpq_memory(void **state)
{
    (void)state;
    for (int i = 0; i < STEPS; i++)
        run(&steps[i], FP_LIBPQ_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libpq),
        cmocka_unit_test(libpq_memory),
    };
    return cmocka_run_group_tests(tests, rooms_setup, rooms_teardown);
}
