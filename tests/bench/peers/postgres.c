/*
 * postgres.c - hand-written SQL on the PostgreSQL that Holdfast is measured on (BENCH_DSN, a database of its own there): a
 * connection a worker, one prepared statement a call, each its own transaction, by asynchronous libpq.
 *   cycle  UPDATE … SET token = token + 1 … RETURNING token; UPDATE to give it back
 *   renew  UPDATE of the deadline of one lease, by its token
 *   write  one statement: the lease's row FOR SHARE, if it lives and the token fits, then UPDATE of the value
 *   once   INSERT … ON CONFLICT DO NOTHING
 *   begin  the same with a deadline, then UPDATE with the result where the token fits and the deadline has not passed
 *   execute  one statement: INSERT … ON CONFLICT DO NOTHING, UPDATE of a row of another table if it was inserted
 *
 *     Packages: libpq-dev
 *     Links: -lpq
 */
#include <libpq-fe.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"

struct worker {
    struct peer_worker base;
    PGconn *conn;
    long long token[PEER_KEYS];
    int rows; /* changed by the statement under way */
    char holder[16];
};

static const struct {
    const char *sql[2];
    int n_params[2];
    const char *table;
} plans[] = {
    [PEER_CYCLE] = {{"UPDATE lease SET holder = $2, token = token + 1, deadline = clock_timestamp() + interval '60s' "
                     "WHERE task = $1 AND deadline < clock_timestamp() RETURNING token",
                     "UPDATE lease SET holder = NULL, deadline = '-infinity' WHERE task = $1 AND holder = $2 AND token = $3"},
                    {2, 3},
                    "lease"},
    [PEER_RENEW] =
        {{"UPDATE lease SET deadline = clock_timestamp() + interval '60s' WHERE task = $1 AND holder = $2 AND token = $3"},
         {3},
         "lease"},
    [PEER_WRITE] = {{"WITH l AS MATERIALIZED (SELECT FROM lease WHERE task = $1 AND holder = $2 AND token = $3 "
                     "AND deadline > clock_timestamp() FOR SHARE) "
                     "UPDATE data SET value = $4, fence = $3 WHERE key = $1 AND EXISTS (SELECT FROM l)"},
                    {4},
                    "data"},
    [PEER_ONCE] = {{"INSERT INTO once (id, value) VALUES ($1, $2) ON CONFLICT DO NOTHING"}, {2}, "once"},
    [PEER_BEGIN] =
        {{"INSERT INTO once (id, token, deadline) VALUES ($1, 1, clock_timestamp() + interval '60s') ON CONFLICT DO NOTHING",
          "UPDATE once SET value = $2, deadline = NULL WHERE id = $1 AND token = 1 AND deadline > clock_timestamp()"},
         {1, 2},
         "once"},
    [PEER_EXECUTE] = {{"WITH i AS (INSERT INTO once (id, value) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id) "
                       "UPDATE data SET fence = fence + 1 WHERE key = $3::text::bigint AND EXISTS (SELECT FROM i)"},
                      {3},
                      "data"},
};
static PGconn *admin;
static long long updated_before;

static long long sql(const char *format, ...)
{
    char text[2000];
    va_list args;
    PGresult *result;
    long long value;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    result = PQexec(admin, text);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        peer_die("%s: %s", text, PQerrorMessage(admin));
    value = PQntuples(result) ? atoll(PQgetvalue(result, 0, 0)) : 0;
    PQclear(result);
    return value;
}

static PGconn *connect_to(void)
{
    const char *dsn = getenv("BENCH_DSN");
    PGconn *conn = PQconnectdb(dsn ? dsn : "");

    if (!dsn || PQstatus(conn) != CONNECTION_OK)
        peer_die("BENCH_DSN: %s", dsn ? PQerrorMessage(conn) : "not set");
    return conn;
}

/* Its tables; leases that are held already for the work that needs them. */
static void start(struct peer_bench *bench)
{
    const unsigned rows = bench->in_flight * PEER_KEYS;

    admin = connect_to();
    sql("SET client_min_messages = error");
    sql("DROP TABLE IF EXISTS lease, data, once");
    sql("CREATE TABLE lease (task bigint PRIMARY KEY, holder text, token bigint NOT NULL DEFAULT 0, "
        "deadline timestamptz NOT NULL DEFAULT '-infinity') WITH (fillfactor = 50)");
    sql("CREATE TABLE data (key bigint PRIMARY KEY, value text, fence bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50)");
    sql("CREATE TABLE once (id text PRIMARY KEY, value text, token bigint, deadline timestamptz, at timestamptz NOT NULL DEFAULT "
        "clock_timestamp())");
    if (bench->work == PEER_CYCLE)
        sql("INSERT INTO lease SELECT g FROM generate_series(0, %u) g", rows - 1);
    else
        sql("INSERT INTO lease SELECT g, 'h' || g / %d, 1, clock_timestamp() + interval '1h' FROM generate_series(0, %u) g",
            PEER_KEYS, rows - 1);
    sql("INSERT INTO data (key) SELECT task FROM lease");
    sql("VACUUM ANALYZE lease, data");
    sql("CHECKPOINT");
    updated_before = sql("SELECT pg_stat_get_tuples_updated('%s'::regclass)", plans[bench->work].table);
}

/* ---- operations ---- */

static void send_statement(struct worker *w)
{
    const enum peer_work work = w->base.bench->work;
    const unsigned key = (unsigned)(w->base.n % PEER_KEYS);
    char task[48], token[24];
    const char *values[4] = {task, w->holder, token, peer_value};
    int more;

    snprintf(task, sizeof(task), "%u", w->base.id * PEER_KEYS + key);
    snprintf(token, sizeof(token), "%lld", w->token[key]);
    if (work >= PEER_ONCE) {
        snprintf(token, sizeof(token), "%s", task); /* execute: the row to be changed */
        snprintf(task, sizeof(task), "once:%u:%llu", w->base.id, (unsigned long long)w->base.n);
        values[1] = peer_value;
    }
    w->rows = 0;
    more = PQsendQueryPrepared(w->conn, w->base.step ? "s1" : "s0", plans[work].n_params[w->base.step], values, NULL, NULL, 0);
    if (!more)
        peer_die("send: %s", PQerrorMessage(w->conn));
    while ((more = PQflush(w->conn)) > 0)
        ;
    if (more < 0)
        peer_die("send: %s", PQerrorMessage(w->conn));
}

static void begin(struct peer_worker *worker)
{
    send_statement((struct worker *)worker);
}

static void take_result(struct worker *w, PGresult *result)
{
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
        w->token[w->base.n % PEER_KEYS] = atoll(PQgetvalue(result, 0, 0));
    else if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        peer_die("query: %s", PQerrorMessage(w->conn));
    w->rows += atoi(PQcmdTuples(result));
    PQclear(result);
}

static void answered(void *arg)
{
    struct worker *w = arg;
    PGresult *result;

    if (!PQconsumeInput(w->conn))
        peer_die("read: %s", PQerrorMessage(w->conn));
    for (;;) {
        if (PQisBusy(w->conn))
            return;
        result = PQgetResult(w->conn);
        if (!result)
            break;
        take_result(w, result);
    }
    if (w->rows == 1 && plans[w->base.bench->work].sql[1] && w->base.step++ == 0)
        send_statement(w);
    else
        peer_done(&w->base, w->rows == 1);
}

static void prepare(struct peer_bench *bench)
{
    for (unsigned i = 0; i < bench->in_flight; i++) {
        struct worker *w = peer_worker(bench, i);
        snprintf(w->holder, sizeof(w->holder), "h%u", i);
        for (int key = 0; key < PEER_KEYS; key++)
            w->token[key] = bench->work != PEER_CYCLE;
        w->conn = connect_to();
        for (int s = 0; s < 2 && plans[bench->work].sql[s]; s++) {
            PGresult *result = PQprepare(w->conn, s ? "s1" : "s0", plans[bench->work].sql[s], 0, NULL);
            if (PQresultStatus(result) != PGRES_COMMAND_OK)
                peer_die("prepare: %s", PQerrorMessage(w->conn));
            PQclear(result);
        }
        PQsetnonblocking(w->conn, 1);
        peer_watch(PQsocket(w->conn), answered, w);
    }
}

/* ---- what the tables say ---- */

static const char *check_write(void)
{
    const char *values[4] = {"0", "h0", "1", peer_value};
    PGresult *result;
    bool accepted;

    sql("UPDATE lease SET token = 2 WHERE task = 0");
    result = PQexecParams(admin, plans[PEER_WRITE].sql[0], 4, NULL, values, NULL, NULL, 0);
    accepted = PQresultStatus(result) != PGRES_COMMAND_OK || atoi(PQcmdTuples(result));
    PQclear(result);
    return accepted ? "a stale token was accepted" : NULL;
}

static const char *check(struct peer_bench *bench)
{
    const char *table = plans[bench->work].table;
    const long long done = (long long)bench->done, steps = bench->work == PEER_CYCLE ? 2 : 1;

    for (unsigned i = 0; i < bench->in_flight; i++)
        PQfinish(((struct worker *)peer_worker(bench, i))->conn);
    while (sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'") > 1)
        usleep(10000); /* a backend tells its counts when it ends, if not before */
    if (bench->work >= PEER_ONCE && sql("SELECT count(*) FROM once WHERE value IS NOT NULL") != done)
        return "there are not as many records";
    if (bench->work == PEER_EXECUTE && sql("SELECT sum(fence) FROM data") != done)
        return "not as many rows were changed as there are records";
    if (bench->work >= PEER_ONCE)
        return NULL;
    if (sql("SELECT pg_stat_get_tuples_updated('%s'::regclass)", table) - updated_before != done * steps)
        return "not as many rows were updated";
    if (bench->work == PEER_CYCLE && sql("SELECT sum(token) FROM lease") != done)
        return "the tokens are not as many as the cycles";
    if (bench->work == PEER_CYCLE && sql("SELECT count(*) FROM lease WHERE holder IS NOT NULL"))
        return "a lease is left";
    return bench->work == PEER_WRITE ? check_write() : NULL;
}

static const struct peer postgres = {"postgres", sizeof(struct worker), start, prepare, begin, check};
PEER_MAIN(postgres)
