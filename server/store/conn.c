/*
 * conn.c - one connection to PostgreSQL: connecting, setting up, serving, and again after it broke.
 *
 *     WAITING → RESOLVING → CONNECTING → SETTING_UP → SERVING
 *        ↑__________|____________|____________|___________|      any → CLOSED
 *
 * Non-blocking throughout. What it does while it serves is in serve.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"

enum {
    CONNECT_MS = 10000, /* for all hosts together */
    SETUP_MS = 60000,   /* attach() may have to end every lease */
    RETRY_BASE_MS = 50,
    RETRY_CAP_MS = 2000,
    STEADY_MS = 1000 /* who served this long begins anew with short pauses */
};

/* Plans: facts of this schema, not of the moment; a flip to a hash or sequential plan costs ten times. Times: a host cut
 * off in the middle must not keep row locks. synchronous_commit is never weakened. */
static const char setup_sql[] =
    "SELECT set_config('jit', 'off', false), set_config('plan_cache_mode', 'force_generic_plan', false), "
    "set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false), "
    "set_config('enable_seqscan', 'off', false), set_config('default_transaction_isolation', 'read committed', false), "
    "set_config('default_transaction_deferrable', 'off', false), set_config('DateStyle', 'ISO', false), "
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' "
    "ELSE 'on' END, false), "
    "set_config('statement_timeout', '55000', false), set_config('idle_in_transaction_session_timeout', '5000', false), "
    "set_config('idle_session_timeout', '0', false), set_config('lock_timeout', '10000', false), "
    "set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '1', false), "
    "set_config('tcp_keepalives_count', '3', false), set_config('tcp_user_timeout', '8000', false)";

static void on_ready(struct io_watch *watch, unsigned events);
static void on_timer(struct io_timer *timer);

/* ------------------------------------------------------------------------------------------------ states */

static const char *const state_names[] = {"waiting", "resolving", "connecting", "setting_up", "serving", "closed"};

#define TO(state) (1u << (state))
static const unsigned legal_moves[] = {
    [ST_CONN_WAITING] = TO(ST_CONN_WAITING) | TO(ST_CONN_RESOLVING) | TO(ST_CONN_CONNECTING) | TO(ST_CONN_CLOSED),
    [ST_CONN_RESOLVING] = TO(ST_CONN_WAITING) | TO(ST_CONN_CONNECTING) | TO(ST_CONN_CLOSED),
    [ST_CONN_CONNECTING] = TO(ST_CONN_WAITING) | TO(ST_CONN_SETTING_UP) | TO(ST_CONN_CLOSED),
    [ST_CONN_SETTING_UP] = TO(ST_CONN_WAITING) | TO(ST_CONN_SERVING) | TO(ST_CONN_CLOSED),
    [ST_CONN_SERVING] = TO(ST_CONN_WAITING) | TO(ST_CONN_CLOSED),
    [ST_CONN_CLOSED] = 0,
};

static void move(struct st_conn *conn, enum st_conn_state to)
{
    if (!(legal_moves[conn->state] & TO(to))) {
        log_error("store.illegal_move", log_str("from", state_names[conn->state]), log_str("to", state_names[to]));
        abort();
    }
    conn->state = to;
}

int64_t st_conn_now(const struct st_conn *conn)
{
    return conn->store->io->now_ms(conn->store->io);
}

void st_conn_set_timer(struct st_conn *conn, int64_t in_ms)
{
    conn->store->io->timer_set(conn->store->io, &conn->timer, st_conn_now(conn) + in_ms);
}

/* Waits for `want` on the socket libpq uses now. */
static bool watch(struct st_conn *conn, unsigned want)
{
    if (conn->watch.watched && conn->watch.want == want)
        return true;
    conn->watch.fd = PQsocket(conn->pg);
    conn->watch.want = want;
    conn->watch.ready = on_ready;
    return conn->watch.fd >= 0 && conn->store->io->watch(conn->store->io, &conn->watch) == 0;
}

/* No socket, no session; what was in flight is told. */
static void drop_session(struct st_conn *conn)
{
    struct io *io = conn->store->io;
    io->unwatch(io, &conn->watch);
    io->timer_cancel(io, &conn->timer);
    st_resolve_free(conn->resolve);
    conn->resolve = NULL;
    if (conn->pg)
        PQfinish(conn->pg);
    conn->pg = NULL;
    conn->recycle = false;
    conn->partitions_ms = 0;
    struct list_node *node;
    while ((node = list_pop_front(&conn->inflight)))
        st_batch_lost(conn, list_entry(node, struct st_batch, node));
}

static void dissolve_all(struct st_conn *conn, struct list *batches)
{
    struct list_node *node;
    while ((node = list_pop_front(batches)))
        st_batch_dissolve(conn, list_entry(node, struct st_batch, node));
}

/* The attempt failed, or the session is over: another one later. */
void st_conn_retry(struct st_conn *conn, const char *why)
{
    bool served = conn->state == ST_CONN_SERVING;
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)strcspn(why, "\n"), why); /* `why` may go with the session */
    if (served && st_conn_now(conn) - conn->since_ms >= STEADY_MS)
        conn->attempts = 0;
    if (!(conn->attempts & (conn->attempts - 1))) /* 0, 1, 2, 4, … times */
        log_warn(served ? "store.connection_lost" : "store.connect_failed", log_int("connection", conn->index),
                 log_str("error", text), log_int("attempts", conn->attempts), log_int("in_flight", (int64_t)conn->inflight.count));
    int64_t pause = hb_jitter_ms(&conn->store->random, RETRY_BASE_MS, RETRY_CAP_MS, conn->attempts);
    conn->attempts++;
    move(conn, ST_CONN_WAITING);
    drop_session(conn);
    dissolve_all(conn, &conn->again);
    dissolve_all(conn, &conn->paused);
    st_conn_set_timer(conn, pause);
    if (served)
        st_rebalance(conn->store);
}

/* ------------------------------------------------------------------------------------------------ connecting */

static void set_up(struct st_conn *conn);

static void poll_connect(struct st_conn *conn)
{
    /* libpq may close this socket and open one for the next host, with the same number. */
    conn->store->io->unwatch(conn->store->io, &conn->watch);
    bool ok = true;
    switch (conn->store->pq->connectPoll(conn->pg)) {
    case PGRES_POLLING_READING:
        ok = watch(conn, IO_READ);
        break;
    case PGRES_POLLING_WRITING:
        ok = watch(conn, IO_WRITE);
        break;
    case PGRES_POLLING_OK:
        set_up(conn);
        return;
    default:
        ok = false;
    }
    if (!ok)
        st_conn_retry(conn, PQerrorMessage(conn->pg));
}

/* Decided by function, not by text: that is translated. */
static void on_notice(void *arg, const PGresult *notice)
{
    struct st_conn *conn = arg;
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
    if (function && strcmp(function, "SyncRepWaitForLSN") == 0 && !list_empty(&conn->inflight))
        list_entry(list_first(&conn->inflight), struct st_batch, node)->unreplicated = true;
    log_debug("store.notice", log_int("connection", conn->index),
              log_str("text", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY)));
}

static void begin_connect(struct st_conn *conn, const struct st_addresses *to)
{
    const char *keywords[20] = {"dbname",     "application_name", "client_encoding",     "gssencmode",       "target_session_attrs",
                                "keepalives", "keepalives_idle",  "keepalives_interval", "keepalives_count", "tcp_user_timeout"};
    const char *values[20] = {conn->store->dsn, "holdfastd", "UTF8", "disable", "read-write", "1", "5", "1", "3", "8000"};
    if (to) {
        const char *names[] = {"host", "hostaddr", "port"}, *lists[] = {to->host, to->hostaddr, to->port};
        for (int i = 0; i < 3; i++) {
            keywords[10 + i] = names[i];
            values[10 + i] = lists[i];
        }
    }
    move(conn, ST_CONN_CONNECTING);
    st_conn_set_timer(conn, CONNECT_MS);
    conn->pg = conn->store->pq->connectStartParams(keywords, values, 1);
    if (!conn->pg || PQstatus(conn->pg) == CONNECTION_BAD) {
        st_conn_retry(conn, conn->pg ? PQerrorMessage(conn->pg) : "out of memory");
        return;
    }
    PQsetNoticeReceiver(conn->pg, on_notice, conn);
    if (!watch(conn, IO_WRITE)) /* as if the last poll had said WRITING: libpq's rule */
        st_conn_retry(conn, "cannot wait for the socket");
}

static void on_resolved(void *arg)
{
    struct st_conn *conn = arg;
    struct st_addresses to;
    const char *why = "";
    if (!st_resolve_result(conn->resolve, &to, &why)) {
        st_conn_retry(conn, why);
        return;
    }
    begin_connect(conn, &to);
    st_resolve_free(conn->resolve);
    conn->resolve = NULL;
}

static void connect_now(struct st_conn *conn)
{
    switch (st_resolve_start(conn->store->dsn, conn->store->io, on_resolved, conn, &conn->resolve)) {
    case ST_RESOLVE_NONE:
        begin_connect(conn, NULL);
        break;
    case ST_RESOLVE_STARTED:
        move(conn, ST_CONN_RESOLVING);
        st_conn_set_timer(conn, CONNECT_MS);
        break;
    case ST_RESOLVE_FAILED:
        st_conn_retry(conn, "cannot resolve the host names of the DSN: no thread, no memory, or not a DSN");
        break;
    }
}

/* ------------------------------------------------------------------------------------------------ setting up */

/* Two transactions: what attach() does is committed before the rest, and within larger limits, for it may end every lease. */
static bool send_setup(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    char lock_timeout[24];
    const char *values[1] = {lock_timeout};
    snprintf(lock_timeout, sizeof(lock_timeout), "%d", conn->store->lock_timeout_ms);
    bool ok = pq->setnonblocking(conn->pg, 1) == 0 && pq->enterPipelineMode(conn->pg) == 1 &&
              pq->sendQueryParams(conn->pg, setup_sql, 0, NULL, NULL, NULL, NULL, 0) == 1 &&
              pq->sendQueryParams(conn->pg, "SELECT holdfast.attach()", 0, NULL, NULL, NULL, NULL, 0) == 1 &&
              pq->pipelineSync(conn->pg) == 1 &&
              pq->sendQueryParams(conn->pg,
                                  "SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', '15000', false)",
                                  1, NULL, values, NULL, NULL, 0) == 1;
    for (int kind = 0; ok && kind < ST_KINDS && st_kinds[kind].sql; kind++)
        ok = pq->sendPrepare(conn->pg, st_kinds[kind].name, st_kinds[kind].sql, 0, NULL) == 1;
    return ok && pq->pipelineSync(conn->pg) == 1;
}

/* What is left to send goes out as soon as the socket takes it. False: the connection is broken. */
bool st_conn_flush_output(struct st_conn *conn)
{
    int left = conn->store->pq->flush(conn->pg);
    return left >= 0 && watch(conn, left ? IO_READ | IO_WRITE : IO_READ);
}

static void set_up(struct st_conn *conn)
{
    move(conn, ST_CONN_SETTING_UP);
    st_conn_set_timer(conn, SETUP_MS);
    conn->setup_syncs = 0;
    if (!send_setup(conn) || !st_conn_flush_output(conn))
        st_conn_retry(conn, PQerrorMessage(conn->pg));
}

static void begin_to_serve(struct st_conn *conn)
{
    struct st_store *store = conn->store;
    move(conn, ST_CONN_SERVING);
    store->io->timer_cancel(store->io, &conn->timer);
    conn->since_ms = st_conn_now(conn);
    log_info("store.connected", log_int("connection", conn->index), log_int("pid", PQbackendPID(conn->pg)));
    if (store->ready) {
        void (*ready)(void *arg) = store->ready;
        store->ready = NULL;
        ready(store->ready_arg);
    }
    st_rebalance(store);
    st_wake(store);
}

/* One answer of the setup. False: it failed and the connection was given up. */
bool st_conn_setup_result(struct st_conn *conn, const PGresult *res)
{
    switch (PQresultStatus(res)) {
    case PGRES_TUPLES_OK:
        /* The only boolean is attach()'s: 't' if the database isn't the one known. */
        if (PQnfields(res) == 1 && PQftype(res, 0) == ST_OID_BOOL && PQntuples(res) == 1 && PQgetvalue(res, 0, 0)[0] == 't')
            log_warn("store.identity_changed", log_str("action", "fences raised, live leases ended"));
        return true;
    case PGRES_COMMAND_OK:
        return true;
    case PGRES_PIPELINE_SYNC:
        if (++conn->setup_syncs == 2)
            begin_to_serve(conn);
        return true;
    default: {
        char why[512];
        snprintf(why, sizeof(why), "%s", PQresultErrorMessage(res));
        st_conn_retry(conn, why);
        return false;
    }
    }
}

/* ------------------------------------------------------------------------------------------------ events and life */

static void on_ready(struct io_watch *w, unsigned events)
{
    struct st_conn *conn = list_entry(w, struct st_conn, watch);
    (void)events; /* libpq finds out by itself what can be done */
    if (conn->state == ST_CONN_CONNECTING)
        poll_connect(conn);
    else
        st_conn_serve(conn);
}

static void on_timer(struct io_timer *timer)
{
    struct st_conn *conn = list_entry(timer, struct st_conn, timer);
    switch (conn->state) {
    case ST_CONN_WAITING:
        connect_now(conn);
        break;
    case ST_CONN_RESOLVING:
    case ST_CONN_CONNECTING:
        st_conn_retry(conn, "timed out while connecting");
        break;
    case ST_CONN_SETTING_UP:
        st_conn_retry(conn, "timed out while setting up the session");
        break;
    case ST_CONN_SERVING:
        st_conn_check_stall(conn);
        break;
    case ST_CONN_CLOSED:
        break;
    }
}

void st_conn_init(struct st_conn *conn, struct st_store *store, unsigned char index)
{
    conn->store = store;
    conn->index = index;
    conn->state = ST_CONN_WAITING;
    conn->timer.fire = on_timer;
    list_init(&conn->again);
    list_init(&conn->paused);
    list_init(&conn->inflight);
    st_conn_set_timer(conn, 0);
}

void st_conn_close(struct st_conn *conn)
{
    move(conn, ST_CONN_CLOSED);
    drop_session(conn);
}
