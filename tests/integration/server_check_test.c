/*
 * server_check_test.c - databases that cannot keep the promises, or cannot be reached: what the check says, and how
 * holdfastd ends.
 */
#include "harness/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/check.h"
#include "store/migrate.h"

/* Where Debian has it; not in everybody's PATH. */
#define BOUNCER "/usr/sbin/pgbouncer"

enum { CONNECTIONS = 4 };

/* What st_check finds, as one text; "!" before what refuses. */
static char *look(const char *dsn, enum st_check_status want)
{
    struct st_findings findings;
    struct st_problem problem = {""};
    enum st_check_status status = st_check(dsn, CONNECTIONS, &findings, &problem);
    char *text = t_printf("%s", "");

    for (size_t i = 0; i < findings.n; i++)
        text = t_printf("%s%s%s\n", text, findings.list[i].refuses ? "!" : "", findings.list[i].what.text);
    if (status != want)
        fail_msg("status %d and not %d: %s\n%s", status, want, problem.text, text);
    if (status == ST_CHECK_REFUSED && !strstr(text, problem.text))
        fail_msg("the problem is none of the findings: %s\n%s", problem.text, text);
    return status == ST_CHECK_OK || status == ST_CHECK_REFUSED ? text : t_printf("%s", problem.text);
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is missing: %s", part, text);
}

/* holdfastd ends with `status`, soon, and says `part`. */
static void ends(const char *dsn, int status, const char *part)
{
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", NULL};
    struct t_result result = t_run(argv, NULL, 20000);
    if (result.status != status || !strstr(result.err, part) || strstr(result.out, "READY"))
        fail_msg("status %d and not %d, or \"%s\" is missing: %s", result.status, status, part, result.err);
}

static void test_good(void **state)
{
    (void)state;
    char *text = look(t_pg_dsn(t_pg_start(NULL)), ST_CHECK_OK);
    assert_string_equal(text, "");
}

static void test_bad_dsn(void **state)
{
    (void)state;
    expect(look("host=a nonsense", ST_CHECK_BAD_DSN), "nonsense");
    ends("host=a nonsense", 2, "nonsense");
    ends("postgresql://host:port/x?nonsense=1", 2, "nonsense");
}

static void test_unreachable(void **state)
{
    (void)state;
    char *closed = t_printf("host=127.0.0.1 port=%d dbname=nowhere user=nobody password=geheim", t_free_port());
    char *text = look(closed, ST_CHECK_UNREACHABLE);

    expect(text, "host=127.0.0.1");
    expect(text, "dbname=nowhere");
    expect(text, "refused");
    assert_null(strstr(text, "geheim"));
    ends(closed, 1, "host=127.0.0.1");
    ends(t_printf("%s dbname=no_such_database", t_pg_dsn(t_pg_start(NULL))), 1, "no_such_database");
}

/* Somebody takes the connection and never says a word. */
static void test_silent(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    char *dsn = t_printf("host=127.0.0.1 port=%d dbname=x", ntohs(address.sin_port));
    int64_t begun = t_now_ms();
    ends(dsn, 1, "timeout expired");
    assert_in_range(t_now_ms() - begun, 0, 14000);
    begun = t_now_ms();
    ends(t_printf("%s connect_timeout=2", dsn), 1, "timeout expired");
    assert_in_range(t_now_ms() - begun, 0, 6000);
    close(listener);
}

static void test_read_only(void **state)
{
    (void)state;
    char *dsn = t_database();
    PGconn *conn = t_connect(dsn);
    t_sql(conn,
          "DO $$BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_read_only = on', current_database()); END$$");
    PQfinish(conn);
    expect(look(dsn, ST_CHECK_REFUSED), "!sessions are read-only");
    ends(dsn, 2, "read-only");
}

static void test_standby(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    const char *dsn = t_pg_dsn(pg);

    t_pg_stop(pg, T_PG_FAST);
    t_write_file(t_printf("%s/data/standby.signal", t_pg_dir(pg)), "");
    assert_int_equal(chmod(t_printf("%s/data/standby.signal", t_pg_dir(pg)), 0644), 0);
    t_pg_restart(pg);
    expect(look(dsn, ST_CHECK_REFUSED), "!the database is a standby");
    ends(dsn, 2, "standby");
}

static void test_replicated_on_record_only(void **state)
{
    (void)state;
    struct st_problem problem = {""};
    char *dsn = t_database();
    PGconn *conn = t_connect(dsn);
    assert_int_equal(st_migrate(dsn, NULL, NULL, &problem), ST_MIGRATE_OK);
    t_sql(conn, "SELECT holdfast.attach()");
    assert_string_equal(look(dsn, ST_CHECK_OK), "");
    t_sql(conn, "UPDATE holdfast.identity SET commits_replicated = true");
    expect(look(dsn, ST_CHECK_OK), "synchronous_standby_names is empty");
    PQfinish(conn);
}

static void test_encoding(void **state)
{
    (void)state;
    char *dsn = t_database();
    PGconn *conn = t_connect(dsn);
    char *name = t_printf("latin_%d", (int)getpid());
    t_sql(conn, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'", name);
    char *latin = t_printf("%s dbname=%s", dsn, name);
    expect(look(latin, ST_CHECK_REFUSED), "has encoding LATIN1");
    ends(latin, 2, "LATIN1");
    t_sql(conn, "DROP DATABASE %s", name);
    PQfinish(conn);
}

static void test_isolation(void **state)
{
    (void)state;
    char *dsn = t_database();
    PGconn *conn = t_connect(dsn);
    t_sql(conn, "DO $$BEGIN EXECUTE format('ALTER DATABASE %%I SET default_transaction_isolation = ''repeatable read''', "
                "current_database()); END$$");
    PQfinish(conn);
    char *text = look(dsn, ST_CHECK_OK);
    expect(text, "default_transaction_isolation is \"repeatable read\"");
    assert_null(strchr(text, '!'));
}

static void test_privileges(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    PGconn *conn = t_connect(t_pg_dsn(pg));
    char *dsn = t_printf("%s user=clerk", t_pg_dsn(pg));

    t_sql(conn, "CREATE ROLE clerk LOGIN; REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
    char *text = look(dsn, ST_CHECK_REFUSED);
    expect(text, "!role clerk may not create a schema in database holdfast");
    expect(text, "!role clerk may not execute pg_control_system()");
    expect(text, "guard() has to be granted by hand");
    ends(dsn, 2, "role clerk may not create a schema");

    t_sql(conn, "CREATE SCHEMA holdfast; GRANT EXECUTE ON FUNCTION pg_control_system() TO clerk");
    expect(look(dsn, ST_CHECK_REFUSED), "!role clerk does not own the schema holdfast");
    t_sql(conn, "ALTER SCHEMA holdfast OWNER TO clerk");
    assert_null(strchr(look(dsn, ST_CHECK_OK), '!'));
    PQfinish(conn);
}

static void test_durability(void **state)
{
    (void)state;
    static const char *const settings[] = {"fsync=off", "full_page_writes=off", "synchronous_commit=off", NULL};
    char *text = look(t_pg_dsn(t_pg_start(settings)), ST_CHECK_OK);
    assert_null(strchr(text, '!'));
    expect(text, "fsync is off");
    expect(text, "full_page_writes is off");
    expect(text, "synchronous_commit is off");
    expect(text, "breaks P6 (nothing is lost) and P1");
}

static void test_connections(void **state)
{
    (void)state;
    static const char *const settings[] = {"max_connections=5", "superuser_reserved_connections=1", "max_wal_senders=0", NULL};
    struct t_pg *pg = t_pg_start(settings);
    expect(look(t_pg_dsn(pg), ST_CHECK_REFUSED), "!max_connections leaves room for 5 connections, and --connections 4 needs 11");
    PGconn *conn = t_connect(t_pg_dsn(pg));
    t_sql(conn, "CREATE ROLE few LOGIN SUPERUSER CONNECTION LIMIT 3");
    expect(look(t_printf("%s user=few", t_pg_dsn(pg)), ST_CHECK_REFUSED), "!the connection limit of the role leaves room for 3");
    PQfinish(conn);
}

/* ------------------------------------------------------------------------------------------------ poolers */

/* The DSN of a pgbouncer before this PostgreSQL. */
static char *bouncer(const struct t_pg *pg, const char *mode)
{
    char *dir = t_tmpdir();
    char *ini = t_printf("%s/pgbouncer.ini", dir);
    PGconn *conn = t_connect(t_pg_dsn(pg));
    char *user = t_sql(conn, "SELECT current_user"), *port = t_sql(conn, "SHOW port"), *socket = t_printf("%s", t_pg_dir(pg));

    socket = t_printf("%s", PQhost(conn));
    PQfinish(conn);
    assert_int_equal(chmod(dir, 0777), 0);
    t_write_file(ini, t_printf("[databases]\n* = host=%s port=%s user=%s\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\n"
                               "listen_port = 6432\nauth_type = any\npool_mode = %s\ndefault_pool_size = 20\n",
                               socket, port, user, dir, mode));
    assert_int_equal(chmod(ini, 0644), 0);
    const char *const as_root[] = {BOUNCER, "-u", "postgres", ini, NULL}, *const plain[] = {BOUNCER, ini, NULL};
    t_proc_expect_err(t_spawn(geteuid() == 0 ? as_root : plain, NULL), "process up", 10000);
    return t_printf("host=%s port=6432 dbname=holdfast user=%s", dir, user);
}

static bool have_bouncer(void)
{
    return access(BOUNCER, X_OK) == 0;
}

static void test_transaction_pooling(void **state)
{
    (void)state;
    if (!have_bouncer())
        skip();
    struct t_pg *pg = t_pg_start(NULL);
    char *dsn = bouncer(pg, "transaction");
    expect(look(dsn, ST_CHECK_REFUSED), "!a pooler that gives each transaction another backend");
    ends(dsn, 2, "pool_mode=transaction");

    /* Also when other sessions have filled the pool with idle backends. */
    PGconn *others[5];
    for (size_t i = 0; i < 5; i++) {
        others[i] = t_connect(dsn);
        t_sql(others[i], "BEGIN; SELECT 1");
    }
    for (size_t i = 0; i < 5; i++)
        t_sql(others[i], "COMMIT");
    expect(look(dsn, ST_CHECK_REFUSED), "!a pooler that gives each transaction another backend");
    for (size_t i = 0; i < 5; i++)
        PQfinish(others[i]);

    expect(look(bouncer(pg, "statement"), ST_CHECK_REFUSED), "!a pooler that gives each transaction another backend");
}

static void test_session_pooling(void **state)
{
    (void)state;
    if (!have_bouncer())
        skip();
    char *text = look(bouncer(t_pg_start(NULL), "session"), ST_CHECK_OK);
    expect(text, "it keeps sessions whole");
}

static void test_incompatible_schema(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct st_problem problem = {""};

    assert_int_equal(st_migrate(dsn, NULL, NULL, &problem), ST_MIGRATE_OK);
    PGconn *conn = t_connect(dsn);
    t_sql(conn,
          "INSERT INTO holdfast.migration (version, name, compatible_from) SELECT max(version) + 1, 'future', max(version) + 1 "
          "FROM holdfast.migration");
    PQfinish(conn);
    ends(dsn, 2, "use a newer holdfastd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_good, t_teardown),
        cmocka_unit_test_teardown(test_bad_dsn, t_teardown),
        cmocka_unit_test_teardown(test_unreachable, t_teardown),
        cmocka_unit_test_teardown(test_silent, t_teardown),
        cmocka_unit_test_teardown(test_read_only, t_teardown),
        cmocka_unit_test_teardown(test_standby, t_teardown),
        cmocka_unit_test_teardown(test_replicated_on_record_only, t_teardown),
        cmocka_unit_test_teardown(test_encoding, t_teardown),
        cmocka_unit_test_teardown(test_isolation, t_teardown),
        cmocka_unit_test_teardown(test_privileges, t_teardown),
        cmocka_unit_test_teardown(test_durability, t_teardown),
        cmocka_unit_test_teardown(test_connections, t_teardown),
        cmocka_unit_test_teardown(test_transaction_pooling, t_teardown),
        cmocka_unit_test_teardown(test_session_pooling, t_teardown),
        cmocka_unit_test_teardown(test_incompatible_schema, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
