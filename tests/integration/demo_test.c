/*
 * demo_test.c - `holdfast demo` plays its story to the end, again and again, and says what happened; `holdfast demo operations`
 * makes its experiments, and each comes out as expected.
 */
#include "harness/served.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static void takeover(void **state)
{
    static const char *const commands[][2] = {{"demo", NULL}, {"demo", "takeover"}};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct t_result result = t_cli(server, commands[i][0], commands[i][1], NULL);
        if (result.status)
            fail_msg("exit %d\n%s%s", result.status, result.out, result.err);
        assert_string_equal(result.err, "");
        t_contains(result.out, "takes the lease for 1.5s: token 1\n");
        t_contains(result.out, "paused (SIGSTOP)");
        t_contains(result.out, "takes over: token 2\n");
        t_contains(result.out, "its library knows that the lease is lost (");
        t_contains(result.out, "under token 1: refused by the server, STALE_TOKEN\n");
        t_contains(result.out, "the value now: \"balance 80, by B\", version 2, written under token 2\n");
        t_contains(result.out, "As promised");
    }
}

static void as_json(void **state)
{
    struct t_result result = t_cli(server, "demo", "--json", NULL);
    (void)state;

    assert_int_equal(result.status, 0);
    t_contains(result.out, "{\"resource\":\"demo/takeover/");
    t_contains(result.out, "\"tokenA\":\"1\",\"tokenB\":\"2\",");
    t_contains(result.out, "\"refused\":\"STALE_TOKEN\",\"value\":\"balance 80, by B\",\"version\":\"2\"}");
}

/* The database, asked apart from the demo, tells the same. */
static void really_happened(void **state)
{
    struct t_result result = t_cli(server, "demo", NULL);
    char *at = strstr(result.out, "demo/takeover/"), *resource;
    (void)state;

    assert_int_equal(result.status, 0);
    assert_non_null(at);
    resource = t_printf("%.*s", (int)strcspn(at, ":"), at);
    assert_int_equal(t_sql_int(conn, "SELECT fence FROM holdfast.resource WHERE name = '%s'", resource), 2);
    assert_string_equal(t_cli(server, "read", resource, NULL).out, "balance 80, by B");
}

/* ---- operations ---- */

static const char *const measured[] = {
    "200 effects and 1400 replays; looking first gave ",
    "1000 effects, 0 lost, 0 twice; 1000 replays (",
    "in progress after ",
    "a takeover (token ",
    "inserted 1, reused 1, payment-",
    "unknown; Retry OUTCOME_UNKNOWN, Compensate OUTCOME_UNKNOWN; reconciled, the result is replayed",
    "made, then the same one again"};
enum { EXPERIMENTS = sizeof(measured) / sizeof(measured[0]) };

static struct t_result experiments(const char *option)
{
    const char *argv[] = {T_HOLDFAST, "--server", server->url, "demo", "operations", option, NULL};
    struct t_result result = t_run(argv, NULL, 120000);

    if (result.status)
        fail_msg("exit %d\n%s%s", result.status, result.out, result.err);
    assert_string_equal(result.err, "");
    for (size_t i = 0; i < EXPERIMENTS; i++)
        t_contains(result.out, measured[i]);
    return result;
}

/* Checking first is shown to be no way: by how much it fails is up to the machine. And the database tells the same as the callers.
 */
static void operations(void **state)
{
    struct t_result result = experiments(NULL);
    char *at = strstr(result.out, "operations demo/"), *looked = strstr(result.out, "looking first gave ");
    (void)state;

    t_contains(result.out, "7 of 7 experiments came out as expected.\n");
    assert_non_null(at);
    assert_true(atoi(looked + strlen("looking first gave ")) > 200);
    const char *run = t_printf("%.*s", (int)strcspn(at + 11, "…"), at + 11);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.operation WHERE key LIKE '%sduplicates/%%' AND state = 3", run),
                     200);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.attempt WHERE key LIKE '%sduplicates/%%'", run), 200);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.attempt WHERE key LIKE '%sfailures/%%' AND outcome = 1", run),
                     1000);
    assert_true(t_sql_int(conn, "SELECT count(*) FROM holdfast.attempt WHERE key LIKE '%sfailures/%%' AND outcome = 2", run) > 150);
}

static void operations_as_json(void **state)
{
    const char *at = experiments("--json").out;
    int lines = 0;
    (void)state;

    for (; *at; at += strcspn(at, "\n") + 1, lines++) {
        assert_int_equal(strncmp(at, "{\"experiment\":\"", 15), 0);
        const char *line = t_printf("%.*s", (int)strcspn(at, "\n"), at);
        t_contains(line, ",\"expected\":\"");
        t_contains(line, ",\"good\":true}");
    }
    assert_int_equal(lines, EXPERIMENTS);
}

/* Without a server, and with one that dies in the middle, it says so and leaves nobody behind. */
static void server_dies(void **state)
{
    struct t_server *other = t_server_start("--dsn", t_database(), NULL);
    struct t_proc *demo = t_cli_spawn(other, "--timeout", "3s", "demo", NULL);
    (void)state;

    t_proc_expect_out(demo, "paused (SIGSTOP)", 20000);
    t_server_kill(other, SIGKILL);
    int status = t_proc_wait(demo, 60000);
    assert_true(status == 3 || status == 4);
    t_contains(t_proc_err(demo), "holdfast: ");
    assert_null(strstr(t_proc_out(demo), "As promised"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takeover),           cmocka_unit_test(as_json),
        cmocka_unit_test(really_happened),    cmocka_unit_test(operations),
        cmocka_unit_test(operations_as_json), cmocka_unit_test_teardown(server_dies, t_teardown),
    };
    return cmocka_run_group_tests(tests, serve, end_serving);
}
