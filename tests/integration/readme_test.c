/*
 * readme_test.c - the examples of README.md work as they are written there.
 *
 * An example is the fenced block after a line "<!-- readme_test: NAME -->".
 */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct t_server *server;
static struct t_spawn_opts with_holdfast; /* PATH, HOLDFAST_SERVER and HOLDFAST_HTTP, as README.md has them */
static const char *env[4];

static char *block(const char *name)
{
    const char *text = t_read_file(T_SOURCE_DIR "/README.md");
    const char *at = strstr(text, t_printf("<!-- readme_test: %s -->\n```", name));
    if (!at)
        fail_msg("README.md has no example \"%s\"", name);
    const char *from = strchr(strstr(at, "```"), '\n') + 1;
    const char *to = strstr(from, "\n```");
    assert_non_null(to);
    return t_printf("%.*s\n", (int)(to - from), from);
}

static struct t_result shell(const char *script)
{
    const char *argv[] = {"bash", "-eu", "-o", "pipefail", "-c", script, NULL};
    return t_run(argv, &with_holdfast, 60000);
}

static void expect_fine(struct t_result result, const char *says)
{
    if (result.status != 0 || !strstr(result.out, says))
        fail_msg("status %d, and not \"%s\"; stdout: %s; stderr: %s", result.status, says, result.out, result.err);
}

static void test_cli(void **state)
{
    (void)state;
    expect_fine(shell(block("cli-run")), "I hold reports/daily with token 1\n");
    struct t_result steps = shell(block("cli-steps"));
    expect_fine(steps, "refused, as it must be: exit status 1\n");
    assert_non_null(strstr(steps.out, "page 1"));
    assert_null(strstr(steps.out, "too late"));
    expect_fine(shell(block("namespaces")), "ledger/7");
}

static void test_curl(void **state)
{
    (void)state;
    struct t_result result = shell(block("curl"));
    expect_fine(result, "{\"granted\":{\"grants\":[{\"resource\":\"reports/yearly\",\"token\":\"1\"}]");
    assert_non_null(strstr(result.out, "\"version\":\"1\""));
    assert_non_null(strstr(result.out, "{\"current\":{\"remainingMs\":"));
}

static void test_keys(void **state)
{
    (void)state;
    struct t_result result = shell(block("keys"));
    expect_fine(result, "hfk_");
    assert_non_null(strstr(strstr(result.out, "hfk_"), "reports"));
}

static void test_operation(void **state)
{
    (void)state;
    struct t_result result = shell(block("operation"));
    expect_fine(result, "not again: exit status 5\n");
    const char *sent = strstr(result.out, "the money is sent");
    assert_non_null(sent);
    assert_null(strstr(sent + 1, "the money is sent"));
    assert_non_null(strstr(result.out, "SUCCEEDED"));
    assert_non_null(strstr(result.out, "receipt 17"));
}

static void test_c(void **state)
{
    (void)state;
    const char *dir = t_tmpdir();
    t_write_file(t_printf("%s/worker.c", dir), block("c"));
    expect_fine(shell(t_printf("cc -std=c11 -Wall -Wextra -Werror %s -I%s/client/include %s/worker.c -o %s/worker -L%s "
                               "-Wl,-rpath,%s -lholdfast",
                               T_SANITIZE_FLAGS, T_SOURCE_DIR, dir, dir, T_LIBHOLDFAST_DIR, T_LIBHOLDFAST_DIR)),
                "");
    struct t_result first = shell(t_printf("%s/worker", dir));
    expect_fine(first, "token 1 wrote version 3\n");
    expect_fine(shell(t_printf("%s/worker", dir)), "token 2 wrote version 6\n");
}

static struct t_result psql(const char *script, const char *token)
{
    const char *file = t_printf("%s/block.sql", t_tmpdir());
    t_write_file(file, script);
    return shell(t_printf("psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=verbose -v token=%s -f %s '%s'", token, file, server->dsn));
}

static void test_sql(void **state)
{
    (void)state;
    const char *script = block("sql");
    const char *transaction = strstr(script, "BEGIN;");
    assert_non_null(transaction);
    struct t_result got = t_cli(server, "--json", "acquire", "reports/daily", "--ttl", "1m", NULL);
    assert_int_equal(got.status, 0);
    const char *at = strstr(got.out, "\"token\"");
    assert_non_null(at);
    const char *token = t_printf("%lld", strtoll(at + strcspn(at, "0123456789"), NULL, 10));

    expect_fine(psql(script, token), "");
    PGconn *conn = t_connect(server->dsn);
    assert_string_equal(t_sql(conn, "SELECT body FROM report WHERE name = 'daily'"), "page 1");
    t_sql(conn, "UPDATE report SET body = 'mine'");

    /* The role may do it too, and it may do nothing in another namespace. */
    const char *as_role = t_printf("SET SESSION AUTHORIZATION reporter; %s", transaction);
    expect_fine(psql(as_role, token), "");
    assert_string_equal(t_sql(conn, "SELECT body FROM report WHERE name = 'daily'"), "page 1");
    t_sql(conn, "UPDATE report SET body = 'mine'");

    /* A token whose lease is over writes nothing. */
    assert_int_equal(t_cli(server, "release", "reports/daily", token, NULL).status, 0);
    struct t_result refused = psql(transaction, token);
    assert_int_not_equal(refused.status, 0);
    assert_non_null(strstr(refused.err, "HF002"));
    assert_int_equal(t_cli(server, "acquire", "reports/daily", NULL).status, 0);
    refused = psql(transaction, token);
    assert_int_not_equal(refused.status, 0);
    assert_non_null(strstr(refused.err, "HF001"));
    assert_string_equal(t_sql(conn, "SELECT body FROM report WHERE name = 'daily'"), "mine");
    PQfinish(conn);
}

/* The second time nothing is done: the transaction finds out by itself. */
static void test_sql_operation(void **state)
{
    (void)state;
    PGconn *conn = t_connect(server->dsn);
    t_sql(conn, "CREATE TABLE account (id text PRIMARY KEY, balance int); INSERT INTO account VALUES ('alice', 1000)");
    for (int i = 0; i < 2; i++)
        expect_fine(psql(block("sql-operation"), "0"), "");
    assert_int_equal(t_sql_int(conn, "SELECT balance FROM account"), 900);
    assert_int_equal(t_sql_int(conn, "SELECT count(*) FROM holdfast.outbox WHERE operation = 'debit/7'"), 1);
    PQfinish(conn);
}

static int begin(void **state)
{
    (void)state;
    /* A cluster of its own: the example makes a role. */
    server = t_server_start("--dsn", t_pg_dsn(t_pg_start(NULL)), "--http", "127.0.0.1:0", NULL);
    env[0] = t_printf("PATH=%s/bin:%s", T_BUILD_DIR, getenv("PATH"));
    env[1] = t_printf("HOLDFAST_SERVER=%s", server->url);
    env[2] = t_printf("HOLDFAST_HTTP=%s", server->http);
    with_holdfast.env = env;
    t_keep();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_cli, t_teardown),           cmocka_unit_test_teardown(test_c, t_teardown),
        cmocka_unit_test_teardown(test_sql, t_teardown),           cmocka_unit_test_teardown(test_operation, t_teardown),
        cmocka_unit_test_teardown(test_sql_operation, t_teardown), cmocka_unit_test_teardown(test_curl, t_teardown),
        cmocka_unit_test_teardown(test_keys, t_teardown),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
