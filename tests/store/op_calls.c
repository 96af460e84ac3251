/*
 * op_calls.c - see op_calls.h.
 */
#include "store/op_calls.h"

#include <inttypes.h>

static int64_t outcome(PGconn *conn, const char *sql)
{
    if (!PQsendQuery(conn, sql))
        fail_msg("%s", PQerrorMessage(conn));
    return ts_finish(conn, 1);
}

/* Of functions that tell no `i`. */
static int64_t outcome_first(PGconn *conn, const char *sql)
{
    if (!PQsendQuery(conn, sql))
        fail_msg("%s", PQerrorMessage(conn));
    return ts_finish(conn, 0);
}

static char *quoted(const char *text)
{
    struct ts_text out = {0};

    if (!text)
        return t_printf("NULL");
    ts_literal(&out, text);
    char *copy = t_printf("%s", out.text);
    ts_clear(&out);
    return copy;
}

char *op_begin_sql(const char *key, const char *type, const char *parameters, int64_t ttl_ms, const char *request_id)
{
    return t_printf("SELECT * FROM holdfast.begin_batch('{default}', ARRAY[%s], '{%s}', ARRAY[sha256(%s)], '{holder}', '{%" PRId64
                    "}', "
                    "'{%s}', '{1}')",
                    quoted(key), type, quoted(parameters), ttl_ms, request_id);
}

int64_t op_begin_type(PGconn *conn, const char *key, const char *type, const char *parameters, int64_t ttl_ms,
                      const char *request_id)
{
    return outcome(conn, op_begin_sql(key, type, parameters, ttl_ms, request_id));
}

int64_t op_begin(PGconn *conn, const char *key, const char *parameters, int64_t ttl_ms, const char *request_id)
{
    return op_begin_type(conn, key, "t", parameters, ttl_ms, request_id);
}

int64_t op_renew(PGconn *conn, const char *key, int64_t token, int64_t ttl_ms)
{
    return outcome(conn, t_printf("SELECT * FROM holdfast.op_renew_batch('{default}', '{%s}', '{%" PRId64 "}', '{%" PRId64 "}')",
                                  key, token, ttl_ms));
}

int64_t op_sending(PGconn *conn, const char *key, int64_t token)
{
    return outcome(conn, t_printf("SELECT * FROM holdfast.op_sending_batch('{default}', '{%s}', '{%" PRId64 "}')", key, token));
}

char *op_finish_sql(const char *key, int64_t token, int call, const char *result, int error_class, const char *message,
                    int64_t retry_after_ms)
{
    return t_printf("SELECT * FROM holdfast.op_finish_batch('{default}', '{%s}', '{%" PRId64
                    "}', '{%d}', ARRAY[%s]::bytea[], '{NULL}', "
                    "'{%d}', ARRAY[%s]::text[], '{NULL}', '{%" PRId64 "}', NULL, NULL, NULL, NULL, NULL)",
                    key, token, call, quoted(result), error_class, quoted(message), retry_after_ms);
}

int64_t op_complete(PGconn *conn, const char *key, int64_t token, const char *result)
{
    return outcome(conn, op_finish_sql(key, token, 1, result, 0, NULL, 0));
}

int64_t op_fail(PGconn *conn, const char *key, int64_t token, int error_class, const char *message, int64_t retry_after_ms)
{
    return outcome(conn, op_finish_sql(key, token, 2, NULL, error_class, message, retry_after_ms));
}

int64_t op_unknown(PGconn *conn, const char *key, int64_t token, const char *note)
{
    return outcome(conn, op_finish_sql(key, token, 3, NULL, 0, note, 0));
}

int64_t op_record(PGconn *conn, const char *key, const char *parameters, const char *result)
{
    return outcome(
        conn, t_printf("SELECT * FROM holdfast.op_record_batch('{default}', '{%s}', '{t}', ARRAY[sha256(%s)], ARRAY[%s]::bytea[], "
                       "'{NULL}', NULL, NULL, NULL, NULL, NULL)",
                       key, quoted(parameters), quoted(result)));
}

int64_t op_decide(PGconn *conn, const char *key, int64_t revision, int call, int reconciled, const char *actor)
{
    return outcome_first(conn, t_printf("SELECT * FROM holdfast.op_decide('default', '%s', %" PRId64
                                        "::int, %d::int2, %d::int2, 'settled', "
                                        "NULL, '%s', 'because')",
                                        key, revision, call, reconciled, actor));
}

int64_t op_compensate(PGconn *conn, const char *key, const char *payload)
{
    return outcome_first(
        conn, t_printf("SELECT * FROM holdfast.op_compensate('default', '%s', 'undo', %s, 'me', 'because')", key, quoted(payload)));
}

int64_t op_execute(PGconn *conn, const char *key, const char *parameters, const char *action, const char *args)
{
    return outcome(
        conn, t_printf("SELECT * FROM holdfast.op_execute_batch('{default}', '{%s}', '{t}', ARRAY[sha256(%s)], '{%s}', ARRAY[%s], "
                       "'{NULL}', '{0}', '{NULL}', '{holder}', NULL, NULL, NULL, NULL, NULL)",
                       key, quoted(parameters), action, quoted(args)));
}

char *op_of(PGconn *conn, const char *key, const char *column)
{
    return t_sql(conn, "SELECT coalesce((%s)::text, '') FROM holdfast.operation WHERE namespace = 'default' AND key = %s", column,
                 quoted(key));
}

int64_t op_number(PGconn *conn, const char *key, const char *column)
{
    return t_sql_int(conn, "SELECT %s FROM holdfast.operation WHERE namespace = 'default' AND key = %s", column, quoted(key));
}

char *op_attempt(PGconn *conn, const char *key, int attempt, const char *column)
{
    return t_sql(
        conn, "SELECT coalesce((%s)::text, '') FROM holdfast.attempt WHERE namespace = 'default' AND key = '%s' AND attempt = %d",
        column, key, attempt);
}

void op_policy(PGconn *conn, int64_t max_attempts, int64_t max_elapsed_ms, int64_t base_ms, int64_t cap_ms, int on_lost)
{
    assert_int_equal(t_sql_int(conn,
                               "SELECT outcome FROM holdfast.op_set_policy('default', 't', nullif(%" PRId64 ", 0), nullif(%" PRId64
                               ", 0), nullif(%" PRId64 ", 0), nullif(%" PRId64 ", 0), %d::int2, NULL, 'me')",
                               max_attempts, max_elapsed_ms, base_ms, cap_ms, on_lost),
                     50);
}
