/*
 * schema_1.c - see schema_1.h.
 */
#include "harness/schema_1.h"

const struct t_statement t_statements_of_schema_1[T_STATEMENTS_OF_SCHEMA_1] = {
    {"acquire", "SELECT i, outcome, token, ttl_ms, holder, task, remaining_ms FROM holdfast.acquire_batch("
                "$1::text[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::text[], $7::text[])"},
    {"acquire_all", "SELECT i, outcome, token, ttl_ms, holder, task, remaining_ms FROM holdfast.acquire_all("
                    "$1::text, $2::text[], $3::text, $4::text, $5::int8, $6::text, $7::text)"},
    {"renew", "SELECT i, outcome, ttl_ms FROM holdfast.renew_batch($1::text[], $2::text[], $3::int8[], $4::int8[], $5::bool)"},
    {"release", "SELECT i, outcome FROM holdfast.release_batch($1::text[], $2::text[], $3::int8[])"},
    {"write", "SELECT i, outcome, version, fence, write_seq FROM holdfast.write_batch("
              "$1::text[], $2::text[], $3::int8[], $4::int8[], $5::bytea[], $6::int8[])"},
    {"check", "SELECT i, outcome, fence, remaining_ms FROM holdfast.check_batch($1::text[], $2::text[], $3::int8[])"},
    {"read", "SELECT i, outcome, value, \"exists\", version, fence, token, updated_unix_ms "
             "FROM holdfast.read_batch($1::text[], $2::text[])"},
    {"get", "SELECT i, outcome, resource, task, holder, request_id, token, fence, remaining_ms, granted_unix_ms, state, "
            "labels FROM holdfast.get_batch($1::text[], $2::text[])"},
    {"break", "SELECT outcome, fence, live, pid FROM holdfast.break_lease($1::text, $2::text, $3::int8, $4::text, $5::text)"},
    {"list_leases", "SELECT outcome, resource, task, holder, request_id, token, fence, remaining_ms, granted_unix_ms, "
                    "state, labels FROM holdfast.list_leases($1::text, $2::text, $3::text, $4::text, $5::text, $6::int4)"},
    {"list_resources", "SELECT outcome, resource, fence, version, value_bytes, \"exists\", leased "
                       "FROM holdfast.list_resources($1::text, $2::text, $3::text, $4::int4)"},
    {"stats", "SELECT 50::int2, leases_live, resources, schema_version FROM holdfast.stats()"},
    {"advance_fences", "SELECT outcome, floor FROM holdfast.advance_fences($1::text, $2::int8, $3::text, $4::text)"},
};

char *t_database_of_schema_1(void)
{
    char *dsn = t_database();
    PGconn *conn = t_connect(dsn);
    t_sql(conn,
          "BEGIN; %s; %s; INSERT INTO holdfast.migration (version, name, compatible_from, applied_at) VALUES (1, 'init', 1, "
          "clock_timestamp()); COMMENT ON SCHEMA holdfast IS 'Holdfast, functions of-schema-1'; COMMIT",
          t_read_file(T_SOURCE_DIR "/schema/migrations/0001_init.sql"), t_read_file(T_SOURCE_DIR "/tests/harness/schema_1.sql"));
    PQfinish(conn);
    return dsn;
}

void t_prepare_schema_1(PGconn *conn)
{
    t_sql(conn, "SELECT holdfast.attach()");
    for (int i = 0; i < T_STATEMENTS_OF_SCHEMA_1; i++) {
        PGresult *result = PQprepare(conn, t_statements_of_schema_1[i].name, t_statements_of_schema_1[i].sql, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            fail_msg("%s: %s", t_statements_of_schema_1[i].name, PQerrorMessage(conn));
        PQclear(result);
    }
}
