/*
 * sql.c - see sql.h.
 */
#include "store/sql.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/schema.h"

char *ts_schema(void)
{
    char *dsn = t_database();
    ts_schema_into(dsn);
    return dsn;
}

void ts_schema_into(const char *dsn)
{
    PGconn *conn = t_connect(dsn);
    for (size_t i = 0; i < hf_n_migrations; i++) {
        t_sql(conn, "%s", hf_migrations[i].sql);
        t_sql(conn, "INSERT INTO holdfast.migration (version, name, compatible_from) VALUES (%d, '%s', %d)",
              hf_migrations[i].version, hf_migrations[i].name, hf_migrations[i].compatible_from);
    }
    t_sql(conn, "%s", hf_functions_sql);
    PQfinish(conn);
}

PGconn *ts_session(const char *dsn)
{
    PGconn *conn = t_connect(dsn);
    t_sql(conn, "SET plan_cache_mode = force_generic_plan; SET enable_hashjoin = off; SET enable_mergejoin = off;"
                "SET enable_seqscan = off; SET jit = off; SET lock_timeout = '20ms'");
    return conn;
}

void ts_replace_clock(PGconn *conn)
{
    t_sql(conn, "CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
                "$$ SELECT to_timestamp(0) + current_setting('test.ms')::bigint * interval '1 ms' $$");
}

void ts_set_clock(PGconn *conn, int64_t ms)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "SET test.ms = '%" PRId64 "'", ms);
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s", PQerrorMessage(conn));
    PQclear(result);
}

static void reserve(struct ts_text *to, size_t more)
{
    if (to->len + more + 1 <= to->cap)
        return;
    to->cap = (to->len + more + 1) * 2;
    to->text = realloc(to->text, to->cap);
    if (!to->text)
        fail_msg("no memory");
}

void ts_put(struct ts_text *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    reserve(to, (size_t)n);
    va_start(args, format);
    vsnprintf(to->text + to->len, (size_t)n + 1, format, args);
    va_end(args);
    to->len += (size_t)n;
}

static void put_char(struct ts_text *to, char c)
{
    reserve(to, 1);
    to->text[to->len++] = c;
    to->text[to->len] = '\0';
}

void ts_array_open(struct ts_text *to)
{
    ts_put(to, "'{");
}

static void comma(struct ts_text *to)
{
    if (to->text[to->len - 1] != '{')
        put_char(to, ',');
}

void ts_array_string(struct ts_text *to, const char *element)
{
    comma(to);
    if (!element) {
        ts_put(to, "NULL");
        return;
    }
    put_char(to, '"');
    for (; *element; element++) {
        if (*element == '"' || *element == '\\')
            put_char(to, '\\');
        if (*element == '\'')
            put_char(to, '\'');
        put_char(to, *element);
    }
    put_char(to, '"');
}

void ts_array_int(struct ts_text *to, int64_t element)
{
    comma(to);
    ts_put(to, "%" PRId64, element);
}

void ts_array_close(struct ts_text *to, const char *type)
{
    ts_put(to, "}'::%s[]", type);
}

void ts_literal(struct ts_text *to, const char *string)
{
    if (!string) {
        ts_put(to, "NULL");
        return;
    }
    put_char(to, '\'');
    for (; *string; string++) {
        if (*string == '\'')
            put_char(to, '\'');
        put_char(to, *string);
    }
    put_char(to, '\'');
}

void ts_clear(struct ts_text *to)
{
    free(to->text);
    *to = (struct ts_text){0};
}

PGresult *ts_query(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s\nof: %s", PQerrorMessage(conn), sql);
    return result;
}

int64_t ts_int(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

bool ts_waits(void *arg)
{
    struct ts_waiting *w = arg;
    return t_sql_int(w->other, "SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'", w->pid) == 1;
}
