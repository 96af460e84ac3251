/*
 * demo_test.c - `holdfast demo` plays its story to the end, again and again, and says what happened.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct t_server *server;

static int setup(void **state)
{
    (void)state;
    server = t_server_start("--dsn", t_database(), NULL);
    t_keep();
    return 0;
}

static void contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void takeover(void **state)
{
    static const char *const commands[][2] = {{"demo", NULL}, {"demo", "takeover"}};
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct t_result result = t_cli(server, commands[i][0], commands[i][1], NULL);
        if (result.status)
            fail_msg("exit %d\n%s%s", result.status, result.out, result.err);
        assert_string_equal(result.err, "");
        contains(result.out, "takes the lease for 1.5s: token 1\n");
        contains(result.out, "paused (SIGSTOP)");
        contains(result.out, "takes over: token 2\n");
        contains(result.out, "its library knows that the lease is lost (");
        contains(result.out, "under token 1: refused by the server, STALE_TOKEN\n");
        contains(result.out, "the value now: \"balance 80, by B\", version 2, written under token 2\n");
        contains(result.out, "As promised");
    }
}

static void as_json(void **state)
{
    struct t_result result = t_cli(server, "demo", "--json", NULL);
    (void)state;

    assert_int_equal(result.status, 0);
    contains(result.out, "{\"resource\":\"demo/takeover/");
    contains(result.out, "\"tokenA\":\"1\",\"tokenB\":\"2\",");
    contains(result.out, "\"refused\":\"STALE_TOKEN\",\"value\":\"balance 80, by B\",\"version\":\"2\"}");
}

/* The database, asked apart from the demo, tells the same. */
static void really_happened(void **state)
{
    struct t_result result = t_cli(server, "demo", NULL);
    PGconn *conn = t_connect(server->dsn);
    char *at = strstr(result.out, "demo/takeover/"), *resource;
    (void)state;

    assert_int_equal(result.status, 0);
    assert_non_null(at);
    resource = t_printf("%.*s", (int)strcspn(at, ":"), at);
    assert_int_equal(t_sql_int(conn, "SELECT fence FROM holdfast.resource WHERE name = '%s'", resource), 2);
    assert_string_equal(t_cli(server, "read", resource, NULL).out, "balance 80, by B");
    PQfinish(conn);
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
    contains(t_proc_err(demo), "holdfast: ");
    assert_null(strstr(t_proc_out(demo), "As promised"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takeover),
        cmocka_unit_test(as_json),
        cmocka_unit_test(really_happened),
        cmocka_unit_test_teardown(server_dies, t_teardown),
    };
    return cmocka_run_group_tests(tests, setup, t_teardown);
}
