/*
 * bench_test.c - `holdfast bench` does what it measures, leaves nothing leased, and finds out when something has not happened.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct t_server *server;
static PGconn *conn;

static int setup(void **state)
{
    (void)state;
    server = t_server_start("--dsn", t_database(), NULL);
    conn = t_connect(server->dsn);
    t_keep();
    return 0;
}

static int end(void **state)
{
    PQfinish(conn);
    return t_teardown(state);
}

static void contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void nothing_is_leased(void)
{
    assert_int_equal(
        t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE resource LIKE 'bench/%%' AND deadline > clock_timestamp()"), 0);
}

/* The number behind "name": in a line of JSON. */
static double number(const char *json, const char *name)
{
    char *at = strstr(json, t_printf("\"%s\":", name));

    if (!at)
        fail_msg("no %s in %s", name, json);
    return strtod(at + strlen(name) + 3, NULL);
}

static void every_kind(void **state)
{
    static const char *const kinds[] = {"acquire-release", "renew", "renew-many", "write", "check", "hand-over", "mix"};
    (void)state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct t_result result =
            t_cli(server, "bench", kinds[i], "--duration", "200ms", "--concurrency", "4", "--items", "50", "--json", NULL);
        if (result.status)
            fail_msg("%s: exit %d\n%s%s", kinds[i], result.status, result.out, result.err);
        assert_string_equal(result.err, "");
        assert_int_equal(
            strncmp(result.out, t_printf("{\"workload\":\"%s\",\"concurrency\":4,\"seconds\":", kinds[i]), strlen(kinds[i]) + 41),
            0);
        contains(result.out, ",\"verified\":true}\n");
        assert_true(number(result.out, "ops") > 0 && number(result.out, "throughput") > 0);
        assert_true(number(result.out, "seconds") > 0.19 && number(result.out, "seconds") < 0.21);
        assert_true(number(result.out, "p50_ms") > 0 && number(result.out, "p50_ms") <= number(result.out, "p99_ms"));
        assert_true(number(result.out, "p99_ms") <= number(result.out, "p999_ms"));
        nothing_is_leased();
    }
}

/* What the database holds afterwards is what was counted: here by somebody else. */
static void really_happened(void **state)
{
    struct t_result result;
    (void)state;

    t_sql(conn, "CREATE TEMP TABLE seen AS SELECT name FROM holdfast.resource");
    result = t_cli(server, "bench", "write", "--duration", "300ms", "--keys", "6", "--concurrency", "3", "--processes", "3",
                   "--value-size", "1000", NULL);
    if (result.status)
        fail_msg("exit %d\n%s%s", result.status, result.out, result.err);
    contains(result.out, "WORKLOAD");
    contains(result.out, "yes");
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.resource WHERE name NOT IN (TABLE seen)"), 6);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.resource_value v WHERE resource NOT IN (TABLE seen) "
                                     "AND octet_length(value) = 1000"),
                     6);
    nothing_is_leased();
}

/* So many operations and no more, whoever of them does how many. */
static void counted_operations(void **state)
{
    struct t_result result =
        t_cli(server, "bench", "write", "--operations", "101", "--concurrency", "4", "--processes", "3", "--json", NULL);
    (void)state;

    if (result.status)
        fail_msg("exit %d\n%s%s", result.status, result.out, result.err);
    assert_true(number(result.out, "ops") == 101);
    result = t_cli(server, "bench", "acquire-release", "--operations", "1", "--json", NULL);
    assert_int_equal(result.status, 0);
    assert_true(number(result.out, "ops") == 1);
    nothing_is_leased();
}

/* Starts a bench of 1.5 s and waits until it works: some resource of its own fits `where`. */
struct begun {
    const char *from_where;
};

static bool has_begun(void *arg)
{
    const struct begun *begun = arg;

    return t_sql_int(conn, "SELECT count(*) FROM %s", begun->from_where) > 0;
}

static struct t_result spoil(const char *kind, const char *from_where, const char *sql)
{
    struct begun begun = {from_where};
    struct t_proc *proc =
        t_cli_spawn(server, "bench", kind, "--duration", "1500ms", "--concurrency", "2", "--keys", "2", "--json", NULL);
    struct t_result result;

    assert_true(t_wait_for(has_begun, &begun, 20000));
    t_sql(conn, "%s", sql);
    result.status = t_proc_wait(proc, 30000);
    result.out = t_proc_out(proc);
    result.err = t_proc_err(proc);
    return result;
}

static void expect_wrong(struct t_result result, const char *what)
{
    if (result.status != 4)
        fail_msg("exit %d\n%s%s", result.status, result.out, result.err);
    contains(result.out, "\"verified\":false}");
    contains(result.err, "not verified");
    contains(result.err, what);
}

/* A token that was given to nobody. */
static void finds_a_missing_grant(void **state)
{
    (void)state;
    t_sql(conn, "DELETE FROM holdfast.lease; DELETE FROM holdfast.resource");
    expect_wrong(spoil("acquire-release", "holdfast.resource WHERE name LIKE 'bench/%' AND fence > 3",
                       "UPDATE holdfast.resource SET fence = fence + 1 WHERE name LIKE 'bench/%/0/0'"),
                 "grants were counted");
}

static void finds_a_foreign_write(void **state)
{
    (void)state;
    t_sql(conn, "DELETE FROM holdfast.resource_value");
    expect_wrong(spoil("write", "holdfast.resource_value WHERE resource LIKE 'bench/%' AND version > 3",
                       "BEGIN; SELECT FROM holdfast.resource WHERE name LIKE 'bench/%/0/1' FOR UPDATE; UPDATE "
                       "holdfast.resource_value SET version = version + 1 WHERE resource LIKE 'bench/%/0/1'; COMMIT"),
                 "after version");
}

/* Renewals that are answered well, and leave the deadline where it was. */
static void finds_a_renewal_without_effect(void **state)
{
    struct t_result result;
    (void)state;

    t_sql(conn, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN NEW.deadline := OLD.deadline; RETURN NEW; "
                "END$$; CREATE TRIGGER keep BEFORE UPDATE ON holdfast.lease FOR EACH ROW WHEN (NEW.token = OLD.token AND "
                "NEW.deadline > OLD.deadline) EXECUTE FUNCTION keep()");
    result = t_cli(server, "bench", "renew", "--duration", "500ms", "--concurrency", "2", "--keys", "2", "--json", NULL);
    t_sql(conn, "DROP TRIGGER keep ON holdfast.lease; DROP FUNCTION keep()");
    expect_wrong(result, "remain of its lease");
}

/* What it measures is taken away from it: an error, and not a result. */
static void a_call_fails(void **state)
{
    struct t_result result;
    (void)state;

    t_sql(conn, "DELETE FROM holdfast.resource_value");
    result = spoil("write", "holdfast.resource_value WHERE resource LIKE 'bench/%'",
                   "UPDATE holdfast.resource SET fence = fence + 1 WHERE name LIKE 'bench/%'");
    assert_int_equal(result.status, 1);
    assert_string_equal(result.out, "");
    contains(result.err, "STALE_TOKEN");
    t_sql(conn, "DELETE FROM holdfast.lease"); /* those of the resources whose fence isn't theirs now */
}

/* Ctrl-C: what was measured until then, verified, and nothing stays leased. */
static void interrupted(void **state)
{
    struct begun begun = {"holdfast.resource_value WHERE resource LIKE 'bench/%' AND version > 5"};
    struct t_proc *proc;
    (void)state;

    t_sql(conn, "DELETE FROM holdfast.resource_value");
    proc = t_cli_spawn(server, "bench", "mix", "--duration", "1h", "--concurrency", "4", "--keys", "4", "--processes", "2", NULL);
    assert_true(t_wait_for(has_begun, &begun, 20000));
    t_sleep_ms(1200); /* until the warm-up is over */
    t_proc_kill(proc, SIGINT);
    if (t_proc_wait(proc, 30000) != 0)
        fail_msg("exit %d\n%s%s", proc->status, t_proc_out(proc), t_proc_err(proc));
    contains(t_proc_out(proc), "yes");
    nothing_is_leased();
}

static void refusals(void **state)
{
    static const char *const wrong[][3] = {{"nothing", NULL},
                                           {"renew", "--concurrency", "0"},
                                           {"renew", "--keys", "63"},
                                           {"write", "--value-size", "1048577"},
                                           {"renew-many", "--items", "1001"},
                                           {"hand-over", "--concurrency", "1"},
                                           {"mix", "--duration", "10"},
                                           {"mix", "--operations", "0"},
                                           {"mix", "--processes", "65"}};
    struct t_result result;
    (void)state;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        result = t_cli(server, "bench", wrong[i][0], wrong[i][1], wrong[i][2], NULL);
        if (result.status != 2)
            fail_msg("%s %s: exit %d", wrong[i][0], wrong[i][1], result.status);
    }
    result = t_cli(server, "--server", t_printf("tcp://127.0.0.1:%d", t_free_port()), "--timeout", "1s", "bench", "renew", NULL);
    assert_int_equal(result.status, 3);
    assert_string_equal(result.out, "");
    result = t_cli(server, "--namespace", "nowhere", "bench", "renew", NULL);
    assert_int_equal(result.status, 1);
    contains(result.err, "NO_SUCH_NAMESPACE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind),
        cmocka_unit_test(really_happened),
        cmocka_unit_test(counted_operations),
        cmocka_unit_test(finds_a_missing_grant),
        cmocka_unit_test(finds_a_foreign_write),
        cmocka_unit_test(finds_a_renewal_without_effect),
        cmocka_unit_test(a_call_fails),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, setup, end);
}
