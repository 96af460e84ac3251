/*
 * migrate.c - see migrate.h.
 *
 * The hash of the functions that stand in the database is kept as the comment on the schema: it is written in the transaction
 * that replaces them, so it never lies.
 */
#include "store/migrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "store/sync.h"

enum {
    CONNECT_MS = 10000,
    QUERY_MS = 10000,
    LOCK_MS = 60000,
    MIGRATE_MS = 600000,
    PAUSE_MIN_MS = 20, /* between two tries at locked tables, doubled each time */
    PAUSE_MAX_MS = 1000,
    WAITS_TOLD = 4,     /* tries that failed, before the log tells of them */
    WAITS_PATIENT = 12, /* each so many tries one waits until autovacuum gives way, unless we are superuser */
    MONTHS_AHEAD = 2
};

/*
 * A migration takes all tables before it begins, so that it neither stops half-way nor holds some while it waits for others
 * for long. Who waits for a table holds up everybody who comes after it, and a transaction that holds the table and wants
 * another one of ours would wait for us in turn. So it waits for a moment only, then lets go of all and tries again: calls in
 * flight take milliseconds. Those which all calls begin with come first. Autovacuum gives way to whoever has waited for
 * deadlock_timeout (1 s), which only superusers may lower; and whoever lowers it is the one that gives up a deadlock.
 */
static const char lock_sql[] =
    "DO $$DECLARE r record; BEGIN "
    "BEGIN PERFORM set_config('deadlock_timeout', '10ms', true); PERFORM set_config('lock_timeout', '50ms', true); EXCEPTION WHEN "
    "insufficient_privilege THEN NULL; END; "
    "FOR r IN SELECT relname FROM pg_catalog.pg_class c WHERE relnamespace = to_regnamespace('holdfast') AND relkind IN ('r', 'p') "
    "AND NOT relispartition ORDER BY relname <> 'resource', relname <> 'lease', oid LOOP "
    "EXECUTE format('LOCK TABLE holdfast.%I IN ACCESS EXCLUSIVE MODE', r.relname); END LOOP; END$$";

#define MOMENT  "SET LOCAL lock_timeout = '50ms'; "
#define PATIENT "SET LOCAL lock_timeout = '1200ms'; "

#define HASH_COMMENT "Holdfast, functions "
/* "holdfast" in ASCII: the advisory lock that servers take turns by. */
#define LOCK_SQL "SELECT pg_catalog.pg_advisory_lock(7525352680829580148)"

struct run {
    PGconn *conn;
    const struct st_migrations *set;
    int ours;
    int found;  /* the database's version */
    bool newer; /* and it is above ours, but compatible */
    int waits;  /* tries that found a table locked */
    bool (*interrupted)(void);
    struct st_problem *problem;
};

static const struct st_migrations *embedded(struct st_migrations *out)
{
    *out = (struct st_migrations){hf_migrations, hf_n_migrations, hf_functions_sql, hf_functions_hash};
    return out;
}

/* A schema of that name without a history is only ours to fill if nothing is in it. */
static enum st_migrate_status check_strange_schema(struct run *run)
{
    PGresult *result = st_sync_query(run->conn, st_sync_now() + QUERY_MS, run->problem,
                                     "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
                                     "ON n.oid = c.relnamespace WHERE n.nspname = 'holdfast'",
                                     0, NULL);
    if (!result)
        return ST_MIGRATE_FAILED;
    bool empty = strcmp(PQgetvalue(result, 0, 0), "0") == 0;
    PQclear(result);
    if (empty)
        return ST_MIGRATE_OK;
    st_problem_set(run->problem, "the database has a schema named holdfast without the table holdfast.migration: it was not made "
                                 "by this program; use another database");
    return ST_MIGRATE_REFUSED;
}

/* One row of the history against what we know. */
static enum st_migrate_status check_row(struct run *run, int version, const char *name, int compatible_from)
{
    if (version != run->found + 1) {
        st_problem_set(run->problem, "the history in holdfast.migration is not whole: version %d follows version %d", version,
                       run->found);
        return ST_MIGRATE_REFUSED;
    }
    run->found = version;
    if (version <= run->ours) {
        const char *known = run->set->list[version - 1].name;
        if (strcmp(known, name) == 0)
            return ST_MIGRATE_OK;
        st_problem_set(run->problem, "migration %d of the database is named %s, but this server knows it as %s: another history",
                       version, name, known);
        return ST_MIGRATE_REFUSED;
    }
    run->newer = true;
    if (compatible_from <= run->ours)
        return ST_MIGRATE_OK;
    st_problem_set(run->problem,
                   "the database's schema is of version %d (%s), which works with servers of schema version %d and above; this "
                   "server's is %d: use a newer holdfastd",
                   version, name, compatible_from, run->ours);
    return ST_MIGRATE_REFUSED;
}

static enum st_migrate_status read_history(struct run *run)
{
    enum st_migrate_status status = ST_MIGRATE_FAILED;
    PGresult *result = st_sync_query(run->conn, st_sync_now() + QUERY_MS, run->problem,
                                     "SELECT pg_catalog.to_regclass('holdfast.migration') IS NOT NULL", 0, NULL);
    if (!result)
        return ST_MIGRATE_FAILED;
    bool exists = PQgetvalue(result, 0, 0)[0] == 't';
    PQclear(result);
    if (!exists)
        return check_strange_schema(run);

    result = st_sync_query(run->conn, st_sync_now() + QUERY_MS, run->problem,
                           "SELECT version, name, compatible_from FROM holdfast.migration ORDER BY version", 0, NULL);
    if (!result)
        return ST_MIGRATE_FAILED;
    status = ST_MIGRATE_OK;
    for (int i = 0; i < PQntuples(result) && status == ST_MIGRATE_OK; i++)
        status = check_row(run, atoi(PQgetvalue(result, i, 0)), PQgetvalue(result, i, 1), atoi(PQgetvalue(result, i, 2)));
    PQclear(result);
    return status;
}

/* A transaction: `sql`, and what puts it on record. */
struct step {
    const char *what; /* for people */
    const char *sql, *record;
    const char *const *params; /* of `record` */
    int n_params;
    bool takes_tables; /* changes tables, and not only functions */
};

/* Takes the step. False: `why`, and nothing has happened. */
static bool try_step(struct run *run, int64_t deadline, const struct step *step, struct st_problem *why)
{
    PGresult *result = NULL;
    struct st_problem ignored;
    bool patient = run->waits % WAITS_PATIENT == WAITS_PATIENT - 1;

    if (!st_sync_do(run->conn, deadline, why, patient ? "BEGIN; " PATIENT : "BEGIN; " MOMENT) ||
        (step->takes_tables && !st_sync_do(run->conn, deadline, why, lock_sql)) ||
        !st_sync_do(run->conn, deadline, why, "SET LOCAL lock_timeout = '2s'") || !st_sync_do(run->conn, deadline, why, step->sql))
        goto fail;
    if (PQtransactionStatus(run->conn) != PQTRANS_INTRANS) {
        st_problem_set(why, "it ends its transaction by itself");
        goto fail;
    }
    result = st_sync_query(run->conn, deadline, why, step->record, step->n_params, step->params);
    if (!result || !st_sync_do(run->conn, deadline, why, "COMMIT"))
        goto fail;
    PQclear(result);
    return true;

fail:
    PQclear(result);
    /* If that fails too, so will the next try, and the connection's end rolls back. */
    if (PQtransactionStatus(run->conn) == PQTRANS_INERROR && !st_sync_do(run->conn, deadline, &ignored, "ROLLBACK"))
        why->sqlstate[0] = '\0';
    return false;
}

static int pause_ms(int tries)
{
    int ms = tries < 6 ? PAUSE_MIN_MS << tries : PAUSE_MAX_MS;
    return ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS;
}

/* The same, again and again while others' locks stand in the way. */
static enum st_migrate_status take_step(struct run *run, const struct step *step)
{
    int64_t deadline = st_sync_now() + MIGRATE_MS;
    struct st_problem why = {""};

    while (!try_step(run, deadline, step, &why)) {
        bool locked = strcmp(why.sqlstate, "55P03") == 0 || strcmp(why.sqlstate, "40P01") == 0;
        if (!locked || st_sync_now() + PAUSE_MAX_MS >= deadline) {
            st_problem_set(run->problem, "%s failed and was rolled back: %s", step->what, why.text);
            return ST_MIGRATE_FAILED;
        }
        if (run->interrupted && run->interrupted()) {
            st_problem_set(run->problem, "%s was given up, as asked: %s", step->what, why.text);
            return ST_MIGRATE_INTERRUPTED;
        }
        if (run->waits == WAITS_TOLD)
            log_warn("schema.waits", log_str("for", step->what), log_str("reason", why.text));
        int ms = pause_ms(run->waits++);
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    }
    return ST_MIGRATE_OK;
}

static enum st_migrate_status apply(struct run *run, const struct hf_migration *migration)
{
    char what[128], version[16], compatible_from[16];
    const char *const params[] = {version, migration->name, compatible_from};

    snprintf(what, sizeof(what), "migration %d (%s)", migration->version, migration->name);
    snprintf(version, sizeof(version), "%d", migration->version);
    snprintf(compatible_from, sizeof(compatible_from), "%d", migration->compatible_from);
    return take_step(run, &(struct step){.what = what,
                                         .sql = migration->sql,
                                         .record = "INSERT INTO holdfast.migration (version, name, compatible_from, applied_at) "
                                                   "VALUES ($1::int, $2, $3::int, pg_catalog.clock_timestamp())",
                                         .params = params,
                                         .n_params = 3,
                                         .takes_tables = true});
}

/* Whether the functions on record are others than ours. */
static enum st_migrate_status functions_differ(struct run *run, bool *differ)
{
    char ours[128];
    PGresult *result = st_sync_query(run->conn, st_sync_now() + QUERY_MS, run->problem,
                                     "SELECT pg_catalog.obj_description(oid, 'pg_namespace') FROM pg_catalog.pg_namespace WHERE "
                                     "nspname = 'holdfast'",
                                     0, NULL);
    if (!result)
        return ST_MIGRATE_FAILED;
    snprintf(ours, sizeof(ours), HASH_COMMENT "%s", run->set->functions_hash);
    *differ = PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), ours) != 0;
    PQclear(result);
    return ST_MIGRATE_OK;
}

static enum st_migrate_status replace_functions(struct run *run)
{
    char comment[160];
    /* COMMENT takes no parameters; the hash is ours and plain. */
    snprintf(comment, sizeof(comment), "COMMENT ON SCHEMA holdfast IS '" HASH_COMMENT "%s'", run->set->functions_hash);
    return take_step(run, &(struct step){.what = "replacing the SQL functions", .sql = run->set->functions_sql, .record = comment});
}

static enum st_migrate_status bring_up(struct run *run, struct st_migrate_report *report)
{
    enum st_migrate_status status = read_history(run);

    report->version_before = run->found;
    for (int version = run->found + 1; status == ST_MIGRATE_OK && version <= run->ours; version++) {
        status = apply(run, &run->set->list[version - 1]);
        if (status == ST_MIGRATE_OK)
            run->found = version;
    }
    if (status == ST_MIGRATE_OK && !run->newer) {
        status = functions_differ(run, &report->functions_replaced);
        if (status == ST_MIGRATE_OK && report->functions_replaced)
            status = replace_functions(run);
    }
    report->version = run->found;
    return status;
}

/* Missing partitions are made now; the daily timer and 23514 see to them later. A set without that function has none. */
static enum st_migrate_status make_partitions(struct run *run)
{
    char sql[256];
    snprintf(sql, sizeof(sql),
             "DO $$BEGIN IF pg_catalog.to_regprocedure('holdfast.make_partitions(int)') IS NOT NULL THEN "
             "PERFORM holdfast.make_partitions(%d); END IF; END$$",
             MONTHS_AHEAD);
    return st_sync_do(run->conn, st_sync_now() + LOCK_MS, run->problem, sql) ? ST_MIGRATE_OK : ST_MIGRATE_FAILED;
}

enum st_migrate_status st_migrate(const char *dsn, const struct st_migrations *set, struct st_migrate_report *report,
                                  struct st_problem *problem)
{
    return st_migrate_until(dsn, set, NULL, report, problem);
}

enum st_migrate_status st_migrate_until(const char *dsn, const struct st_migrations *set, bool (*interrupted)(void),
                                        struct st_migrate_report *report, struct st_problem *problem)
{
    struct st_migrations own;
    struct st_migrate_report done = {0};
    enum st_migrate_status status = ST_MIGRATE_FAILED;
    struct run run = {.set = set ? set : embedded(&own), .interrupted = interrupted, .problem = problem};

    run.ours = (int)run.set->n;
    run.conn = st_sync_connect(dsn, CONNECT_MS, problem);
    if (!run.conn)
        return ST_MIGRATE_FAILED;
    if (!st_sync_do(run.conn, st_sync_now() + QUERY_MS, problem,
                    "SET search_path = pg_catalog; SET client_min_messages = error; SET lock_timeout = '60s'; "
                    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = on; "
                    "SET default_transaction_isolation = 'read committed'; SET check_function_bodies = on"))
        goto out;
    if (!st_sync_do(run.conn, st_sync_now() + LOCK_MS + QUERY_MS, problem, LOCK_SQL)) {
        struct st_problem why = *problem;
        st_problem_set(problem, "another server has held the lock on the schema for %d s: %s", LOCK_MS / 1000, why.text);
        goto out;
    }
    status = bring_up(&run, &done);
    if (status == ST_MIGRATE_OK)
        status = make_partitions(&run);
    if (status == ST_MIGRATE_OK && report)
        *report = done;
out:
    /* The session's end gives the advisory lock back. */
    PQfinish(run.conn);
    return status;
}
