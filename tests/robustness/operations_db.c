/*
 * operations_db.c - what the workers of operations_load.h need in a database, and what stands there in the end.
 */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "robustness/operations_load.h"

void ol_prepare(PGconn *conn, const char *server_url)
{
    const char *const action[] = {T_HOLDFAST, "--server", server_url, "action", "register", "enter", "ledger.enter", NULL};
    const char *const policy[] = {T_HOLDFAST,     "--server", server_url,    "policy", "set",       "--max-attempts", "5",
                                  "--base-delay", "1ms",      "--max-delay", "20ms",   "--on-lost", "retry",          NULL};
    t_sql(conn,
          "DO $$ BEGIN CREATE ROLE hf_test_ledger NOLOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;"
          "CREATE SCHEMA ledger; CREATE TABLE ledger.entry (key text, by text);"
          "GRANT USAGE, CREATE ON SCHEMA ledger TO hf_test_ledger; GRANT INSERT ON ledger.entry TO hf_test_ledger;"
          "CREATE FUNCTION ledger.enter(key text, args jsonb) RETURNS jsonb LANGUAGE plpgsql SECURITY DEFINER SET search_path = "
          "ledger, pg_temp AS $f$ BEGIN INSERT INTO entry VALUES (key, args->>'by'); RETURN args->'by'; END $f$;"
          "ALTER FUNCTION ledger.enter OWNER TO hf_test_ledger");
    const struct t_result registered = t_run(action, NULL, 30000), set = t_run(policy, NULL, 30000);
    if (registered.status || set.status)
        fail_msg("%s%s", registered.err, set.err);
}

static PGresult *rows(PGconn *conn, const char *sql, size_t *n)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s", PQerrorMessage(conn));
    *n = (size_t)PQntuples(result);
    return result;
}

static int64_t number(const PGresult *result, size_t row, int column)
{
    return strtoll(PQgetvalue(result, (int)row, column), NULL, 10);
}

static void text(char to[OO_TEXT], const PGresult *result, size_t row, int column)
{
    snprintf(to, OO_TEXT, "%s", PQgetvalue(result, (int)row, column));
}

static void read_operations(struct oo_history *h, PGconn *conn)
{
    PGresult *r = rows(conn,
                       "SELECT o.key, (o.fingerprint = decode(repeat('42', 32), 'hex'))::int, o.state, o.token, o.attempts, "
                       "(SELECT count(*) FROM holdfast.audit a WHERE a.operation = o.key AND a.kind = 'reconcile' AND a.detail "
                       "LIKE 'succeeded%'), "
                       "(SELECT count(*) FROM holdfast.audit a WHERE a.operation = o.key AND a.kind = 'lost'), "
                       "coalesce(convert_from(o.result, 'UTF8'), '') FROM holdfast.operation o ORDER BY o.key",
                       &h->n_operations);
    h->operations = calloc(h->n_operations + 1, sizeof(*h->operations));
    for (size_t i = 0; i < h->n_operations; i++) {
        h->operations[i] = (struct oo_operation){.print = (int)number(r, i, 1),
                                                 .state = (int)number(r, i, 2),
                                                 .token = number(r, i, 3),
                                                 .attempts = (int)number(r, i, 4),
                                                 .reconciled = number(r, i, 5) > 0,
                                                 .lost = (int)number(r, i, 6)};
        text(h->operations[i].key, r, i, 0);
        text(h->operations[i].result, r, i, 7);
    }
    PQclear(r);
}

static void read_attempts(struct oo_history *h, PGconn *conn)
{
    PGresult *r = rows(conn,
                       "SELECT key, token, attempt, outcome, (outcome = 3 OR (outcome = 4 AND error_class IS NULL))::int FROM "
                       "holdfast.attempt ORDER BY key, token",
                       &h->n_attempts);
    h->attempts = calloc(h->n_attempts + 1, sizeof(*h->attempts));
    for (size_t i = 0; i < h->n_attempts; i++) {
        h->attempts[i] = (struct oo_attempt){
            .token = number(r, i, 1), .attempt = (int)number(r, i, 2), .outcome = (int)number(r, i, 3), .lost = number(r, i, 4)};
        text(h->attempts[i].key, r, i, 0);
    }
    PQclear(r);
}

static void read_effects(struct oo_history *h, PGconn *conn)
{
    PGresult *r = rows(conn,
                       "SELECT operation, convert_from(payload, 'UTF8') FROM holdfast.outbox UNION ALL SELECT key, "
                       "to_json(by)::text FROM ledger.entry",
                       &h->n_effects);
    h->effects = calloc(h->n_effects + 1, sizeof(*h->effects));
    for (size_t i = 0; i < h->n_effects; i++) {
        text(h->effects[i].key, r, i, 0);
        text(h->effects[i].result, r, i, 1);
    }
    PQclear(r);
}

void oo_read(struct oo_history *h, PGconn *conn)
{
    read_operations(h, conn);
    read_attempts(h, conn);
    read_effects(h, conn);
}
