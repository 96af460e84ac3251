/*
 * check.c - see check.h. Thread: any, blocking.
 */
#include "store/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/check_hosts.h"
#include "store/store.h"
#include "store/sync.h"

enum { CHECK_MS = 10000, POOL_ROUNDS = 4 };

struct check {
    PGconn *conn;
    int connections;
    int64_t deadline_ms;
    struct st_findings *findings;
    struct st_problem *problem;
};

static void found(struct check *check, bool refuses, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void found(struct check *check, bool refuses, const char *format, ...)
{
    char text[sizeof(((struct st_problem *)0)->text)];
    va_list args;

    if (check->findings->n == ST_FINDINGS)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    struct st_finding *finding = &check->findings->list[check->findings->n++];
    finding->refuses = refuses;
    st_problem_set(&finding->what, "%s", text);
}

/* The connection has not broken under the question: then what failed is a finding, not the network. */
static PGresult *ask(struct check *check, PGconn *conn, const char *sql)
{
    return st_sync_query(conn, check->deadline_ms, check->problem, sql, 0, NULL);
}

static bool is(const PGresult *result, int column, const char *value)
{
    return strcmp(PQgetvalue(result, 0, column), value) == 0;
}

static bool check_session(struct check *check)
{
    PGresult *r = ask(check, check->conn,
                      "SELECT pg_is_in_recovery(), current_setting('transaction_read_only'), current_setting('server_encoding'), "
                      "current_setting('default_transaction_isolation'), current_database()");
    if (!r)
        return false;
    if (is(r, 0, "t"))
        found(check, true,
              "the database is a standby (pg_is_in_recovery() is true) and read-only: give the primary, or several hosts with "
              "target_session_attrs=read-write");
    else if (!is(r, 1, "off"))
        found(check, true,
              "sessions are read-only (default_transaction_read_only = on for the database, the role or the server): "
              "nothing can be granted or written");
    if (!is(r, 2, "UTF8"))
        found(check, true, "database %s has encoding %s: it must be UTF8, or names that differ could become the same (P1, P2)",
              PQgetvalue(r, 0, 4), PQgetvalue(r, 0, 2));
    if (!is(r, 3, "read committed"))
        found(check, false,
              "default_transaction_isolation is \"%s\": the server sets its own, but users' transactions must ask for READ "
              "COMMITTED, or guard() refuses them (P3)",
              PQgetvalue(r, 0, 3));
    PQclear(r);
    return true;
}

static bool check_durability(struct check *check)
{
    PGresult *r =
        ask(check, check->conn,
            "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), "
            "current_setting('synchronous_standby_names') <> ''");
    if (!r)
        return false;
    if (is(r, 0, "off"))
        found(check, false,
              "fsync is off: after a crash of the machine acknowledged grants and writes may be gone or the database "
              "damaged; breaks P6 (nothing is lost) and P1 (tokens only rise)");
    if (is(r, 1, "off"))
        found(check, false,
              "full_page_writes is off: a crash of the machine may leave torn pages; breaks P6 (nothing is lost) and "
              "P1 (tokens only rise), unless the file system rules torn pages out");
    if (is(r, 2, "off") || (is(r, 2, "local") && is(r, 3, "t")))
        found(check, false,
              "synchronous_commit is %s: the server turns it on for its own sessions, but what users' own transactions "
              "commit beside guard() may be lost in a crash or a fail-over after it was acknowledged; breaks P6 (nothing is "
              "lost) for them",
              PQgetvalue(r, 0, 2));
    PQclear(r);
    return true;
}

/* What an operator has put on record, which a fail-over will go by (holdfast.attach), is true at this moment. */
static bool check_word(struct check *check)
{
    PGresult *r = ask(check, check->conn,
                      "SELECT current_setting('synchronous_standby_names') = '' AND EXISTS (SELECT FROM pg_class c "
                      "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'holdfast' AND c.relname = 'identity' "
                      "AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))");
    const bool answered = r != NULL, doubtful = answered && is(r, 0, "t");
    PQclear(r);
    if (!doubtful)
        return answered;
    r = ask(check, check->conn, "SELECT coalesce(bool_or(commits_replicated), false) FROM holdfast.identity");
    if (r && is(r, 0, "t"))
        found(check, false,
              "holdfast.identity.commits_replicated says that commits wait for a standby, but synchronous_standby_names is empty "
              "and they don't: a fail-over would grant tokens again and lose what was acknowledged; breaks P1 and P6");
    const bool read = r != NULL;
    PQclear(r);
    return read;
}

static bool check_privileges(struct check *check)
{
    PGresult *r = ask(check, check->conn,
                      "SELECT current_user, current_database(), n.oid IS NOT NULL, pg_get_userbyid(n.nspowner), "
                      "CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE') "
                      "ELSE pg_has_role(n.nspowner, 'USAGE') END, "
                      "has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE'), "
                      "has_function_privilege('pg_catalog.pg_walfile_name(pg_lsn)', 'EXECUTE') "
                      "AND has_function_privilege('pg_catalog.pg_current_wal_lsn()', 'EXECUTE'), "
                      "EXISTS (SELECT FROM pg_roles WHERE rolname = 'holdfast_user') "
                      "OR (SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user) "
                      "FROM (SELECT) one LEFT JOIN pg_namespace n ON n.nspname = 'holdfast'");
    if (!r)
        return false;
    const char *user = PQgetvalue(r, 0, 0), *database = PQgetvalue(r, 0, 1);
    if (!is(r, 4, "t") && is(r, 2, "t"))
        found(check, true, "role %s does not own the schema holdfast (role %s does): it cannot keep the schema up to date", user,
              PQgetvalue(r, 0, 3));
    else if (!is(r, 4, "t"))
        found(check, true, "role %s may not create a schema in database %s: GRANT CREATE ON DATABASE %s TO %s", user, database,
              database, user);
    if (!is(r, 5, "t"))
        found(check, true, "role %s may not execute pg_control_system(): a fail-over to another cluster could not be noticed (P1)",
              user);
    if (!is(r, 6, "t"))
        found(check, true,
              "role %s may not execute pg_walfile_name() and pg_current_wal_lsn(): a fail-over or a restore could not be "
              "noticed (P1)",
              user);
    if (!is(r, 7, "t"))
        found(check, false, "role holdfast_user does not exist and role %s may not create it: guard() has to be granted by hand",
              user);
    PQclear(r);
    return true;
}

static bool check_room(struct check *check)
{
    /* reserved_connections came with PostgreSQL 16. */
    PGresult *r = ask(
        check, check->conn,
        "WITH l AS (SELECT current_setting('max_connections')::int - CASE WHEN rolsuper THEN 0 ELSE "
        "current_setting('superuser_reserved_connections')::int + "
        "coalesce(current_setting('reserved_connections', true)::int, 0) END AS room, "
        "nullif(rolconnlimit, -1) AS role, (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = "
        "current_database()) AS db FROM pg_roles WHERE rolname = current_user) "
        "SELECT least(room, role, db), CASE least(room, role, db) WHEN room THEN 'max_connections' WHEN role THEN "
        "'the connection limit of the role' ELSE 'the connection limit of the database' END, "
        "room - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()) FROM l");
    if (!r)
        return false;
    int limit = atoi(PQgetvalue(r, 0, 0)), left = atoi(PQgetvalue(r, 0, 2));
    if (limit < check->connections + ST_MORE_CONNECTIONS)
        found(check, true, "%s leaves room for %d connections, and --connections %d needs %d: raise it, or lower --connections",
              PQgetvalue(r, 0, 1), limit, check->connections, check->connections + ST_MORE_CONNECTIONS);
    else if (left < check->connections + ST_MORE_CONNECTIONS)
        found(check, false, "only %d connections are free at this moment, and --connections %d needs %d: calls will wait for one",
              left < 0 ? 0 : left, check->connections, check->connections + ST_MORE_CONNECTIONS);
    PQclear(r);
    return true;
}

/* The pid of the backend that answers, 0 if the question failed. */
static int backend_pid(struct check *check, PGconn *conn)
{
    PGresult *r = ask(check, conn, "SELECT pg_backend_pid()");
    int pid = r ? atoi(PQgetvalue(r, 0, 0)) : 0;
    PQclear(r);
    return pid;
}

/* Two sessions, the second in a transaction: behind a transaction pooler they meet on one backend, or the first one's backend
 * changes. -1: an answer did not come. */
static int shares_backends(struct check *check, PGconn *other)
{
    int first = backend_pid(check, check->conn);

    for (int round = 0; first > 0 && round < POOL_ROUNDS; round++) {
        struct st_problem ignored;
        if (!st_sync_do(other, check->deadline_ms, check->problem, "BEGIN")) /* pgbouncer says so and hangs up */
            return strstr(check->problem->text, "statement pooling") ? 1 : -1;
        int second = backend_pid(check, other);
        if (!st_sync_do(other, check->deadline_ms, &ignored, "COMMIT"))
            return -1;
        int again = backend_pid(check, check->conn);
        if (second <= 0 || again <= 0)
            return -1;
        if (second == first || again != first)
            return 1;
    }
    return first > 0 ? 0 : -1;
}

static bool check_pooling(struct check *check, const char *dsn)
{
    struct st_problem why;
    int64_t left = check->deadline_ms - st_sync_now();
    PGconn *other = st_sync_connect(dsn, left > 0 ? (int)left : 1, &why);

    if (!other) {
        /* Not for what the database is: room for it was found above. */
        st_problem_set(check->problem, "a second connection could not be had beside the first: %s", why.text);
        return false;
    }
    int announced = PQbackendPID(check->conn), real = backend_pid(check, check->conn);
    int shared = shares_backends(check, other);
    PQfinish(other);
    if (shared < 0)
        return false;
    if (shared)
        found(check, true,
              "a pooler that gives each transaction another backend stands before the database (such as pgbouncer with "
              "pool_mode=transaction): sessions' settings and the identity of backends, on which P2, P3 and P8 rest, do not "
              "survive it; connect directly, or with session pooling");
    else if (announced != real)
        found(check, false,
              "a pooler stands before the database (the backend's pid is %d, announced was %d): it keeps sessions whole, "
              "so it works, but its pool must have room for %d connections",
              real, announced, check->connections + ST_MORE_CONNECTIONS);
    return true;
}

enum st_check_status st_check(const char *dsn, int connections, struct st_findings *findings, struct st_problem *problem)
{
    enum st_check_status status = ST_CHECK_UNREACHABLE;
    struct check check = {NULL, connections, st_sync_now() + CHECK_MS, findings, problem};

    memset(findings, 0, sizeof(*findings));
    if (!st_sync_dsn_valid(dsn, problem))
        return ST_CHECK_BAD_DSN;
    check.conn = st_sync_connect(dsn, CHECK_MS, problem);
    if (!check.conn)
        return ST_CHECK_UNREACHABLE;

    struct st_problem two;
    if (!st_check_hosts(dsn, &two))
        found(&check, true, "%s", two.text);
    int version = PQserverVersion(check.conn);
    if (version < ST_MIN_PG)
        found(&check, true, "the server is PostgreSQL %d.%d: version 14 or later is needed", version / 10000, version % 10000);
    else if (!check_session(&check) || !check_durability(&check) || !check_word(&check) || !check_privileges(&check) ||
             !check_room(&check) || !check_pooling(&check, dsn))
        goto out;

    status = ST_CHECK_OK;
    for (size_t i = 0; i < findings->n && status == ST_CHECK_OK; i++) {
        if (findings->list[i].refuses) {
            status = ST_CHECK_REFUSED;
            *problem = findings->list[i].what;
        }
    }
out:
    PQfinish(check.conn);
    return status;
}
