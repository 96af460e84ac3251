/*
 * conn.c - one connection to PostgreSQL, whatever it is for: connecting, setting up, serving, and again after it broke.
 *
 *     WAITING → RESOLVING → CONNECTING → SETTING_UP → SERVING
 *        ↑__________|____________|____________|___________|      any → CLOSED
 *
 * Non-blocking throughout, in libpq's pipeline mode. What is sent and what follows from the answers is its role's. A connection
 * that isn't wanted rests: it is WAITING without a timer.
 *
 * Of several hosts libpq takes the first that can be written to. Two things it doesn't see: a host that says nothing at all, and
 * an old primary that came back after a fail-over and can be written to as well. Either makes the next attempt, of any connection,
 * begin with the host behind it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"

enum {
    CONNECT_MS = 10000,        /* if there is one host */
    CONNECT_SEVERAL_MS = 5000, /* if there are several: for all up to one that says nothing, which is then left out */
    RETRY_BASE_MS = 50,
    RETRY_CAP_MS = 2000,
    STEADY_MS = 1000 /* who served this long begins anew with short pauses */
};

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

/* No socket, no session; what was in flight is the role's to settle. */
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
    conn->expected = 0;
    conn->role->lost(conn);
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
        log_warn(served ? "store.connection_lost" : "store.connect_failed", log_str("role", conn->role->application_name),
                 log_int("connection", conn->index), log_str("error", text), log_int("attempts", conn->attempts),
                 log_int("in_flight", conn->expected));
    int64_t pause = hb_jitter_ms(&conn->store->random, RETRY_BASE_MS, RETRY_CAP_MS, conn->attempts);
    conn->attempts++;
    move(conn, ST_CONN_WAITING);
    drop_session(conn);
    st_conn_set_timer(conn, pause);
}

void st_conn_rest(struct st_conn *conn)
{
    conn->attempts = 0;
    move(conn, ST_CONN_WAITING);
    drop_session(conn);
}

/* ------------------------------------------------------------------------------------------------ connecting */

void st_conn_leave_host(struct st_conn *conn)
{
    conn->store->first_host = st_resolve_behind(conn->store->dsn, PQhost(conn->pg), PQport(conn->pg));
}

static void timed_out(struct st_conn *conn, const char *what)
{
    char why[256];
    const char *host = conn->pg ? PQhost(conn->pg) : NULL; /* libpq's own default is no name */
    snprintf(why, sizeof(why), "timed out while %s%s%s", what, host && *host ? ", at " : "", host ? host : "");
    if (host)
        st_conn_leave_host(conn);
    st_conn_retry(conn, why);
}

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
    const char *values[20] = {
        conn->store->dsn, conn->role->application_name, "UTF8", "disable", "read-write", "1", "5", "1", "3", "8000"};
    if (to) {
        const char *names[] = {"host", "hostaddr", "port"}, *lists[] = {to->host, to->hostaddr, to->port};
        for (int i = 0; i < 3; i++) {
            keywords[10 + i] = names[i];
            values[10 + i] = lists[i];
        }
    }
    move(conn, ST_CONN_CONNECTING);
    st_conn_set_timer(conn, st_resolve_hosts(conn->store->dsn) > 1 ? CONNECT_SEVERAL_MS : CONNECT_MS);
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
    switch (st_resolve_start(conn->store->dsn, conn->store->first_host, conn->store->io, on_resolved, conn, &conn->resolve)) {
    case ST_RESOLVE_NONE:
        begin_connect(conn, NULL);
        break;
    case ST_RESOLVE_READY:
        move(conn, ST_CONN_RESOLVING);
        on_resolved(conn);
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

/* ------------------------------------------------------------------------------------------------ sending */

bool st_conn_sync(struct st_conn *conn)
{
    if (conn->store->pq->pipelineSync(conn->pg) != 1)
        return false;
    conn->expected++;
    return true;
}

bool st_conn_send_sql(struct st_conn *conn, const char *sql)
{
    return conn->store->pq->sendQueryParams(conn->pg, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

bool st_conn_send_setting(struct st_conn *conn, const char *name, const char *value, bool local)
{
    const char *values[3] = {name, value, local ? "true" : "false"};
    return conn->store->pq->sendQueryParams(conn->pg, "SELECT set_config($1, $2, $3::bool)", 3, NULL, values, NULL, NULL, 0) == 1;
}

/* What is left to send goes out as soon as the socket takes it. False: the connection is broken. */
bool st_conn_flush_output(struct st_conn *conn)
{
    int left = conn->store->pq->flush(conn->pg);
    return left >= 0 && watch(conn, left ? IO_READ | IO_WRITE : IO_READ);
}

/* How long nothing may be answered while something is awaited. */
static int64_t stall_ms(const struct st_conn *conn)
{
    return conn->store->stall_ms > conn->role->stall_ms ? conn->store->stall_ms : conn->role->stall_ms;
}

void st_conn_await(struct st_conn *conn)
{
    conn->progress_ms = st_conn_now(conn);
    if (!conn->timer.node.linked)
        st_conn_set_timer(conn, stall_ms(conn));
}

static void check_stall(struct st_conn *conn)
{
    if (conn->expected == 0) {
        if (conn->role->idle)
            conn->role->idle(conn);
        return; /* set again with the next statement */
    }
    int64_t left = conn->progress_ms + stall_ms(conn) - st_conn_now(conn);
    if (left > 0)
        st_conn_set_timer(conn, left);
    else
        st_conn_retry(conn, "no answer");
}

/* ------------------------------------------------------------------------------------------------ setting up */

static void set_up(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    move(conn, ST_CONN_SETTING_UP);
    st_conn_set_timer(conn, conn->store->setup_ms);
    conn->setup_syncs = 0;
    conn->identity = (struct st_identity){{0}, {0}};
    if (pq->setnonblocking(conn->pg, 1) != 0 || pq->enterPipelineMode(conn->pg) != 1 || !st_conn_send_sql(conn, st_identity_sql) ||
        !conn->role->send_setup(conn) || !st_conn_flush_output(conn))
        st_conn_retry(conn, PQerrorMessage(conn->pg));
}

static void begin_to_serve(struct st_conn *conn)
{
    st_identity_note(conn);
    move(conn, ST_CONN_SERVING);
    conn->store->io->timer_cancel(conn->store->io, &conn->timer);
    conn->since_ms = st_conn_now(conn);
    log_info("store.connected", log_str("role", conn->role->application_name), log_int("connection", conn->index),
             log_int("pid", PQbackendPID(conn->pg)));
    conn->role->begin(conn);
}

/* One answer of the setup, which is taken over. False: it failed and the session was given up. */
static bool setup_result(struct st_conn *conn, PGresult *res)
{
    bool ok = true;
    char why[512];
    if (PQresultStatus(res) == PGRES_PIPELINE_SYNC) {
        conn->setup_syncs++;
        if (conn->expected == 0)
            begin_to_serve(conn);
    } else if (!conn->identity.system[0]) {
        ok = st_identity_read(conn, res, why, sizeof(why));
    } else if (!conn->role->setup_result(conn, res)) {
        snprintf(why, sizeof(why), "%s", PQresultErrorMessage(res));
        ok = false;
    }
    if (!ok)
        st_conn_retry(conn, why);
    PQclear(res);
    return ok;
}

/* ------------------------------------------------------------------------------------------------ answers */

bool st_ends_session(const PGresult *res)
{
    const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    return PQresultStatus(res) == PGRES_FATAL_ERROR && (!severity || strcmp(severity, "ERROR") != 0);
}

static bool serving_result(struct st_conn *conn, PGresult *res)
{
    if (!st_ends_session(res))
        return conn->role->result(conn, res);
    char why[512];
    snprintf(why, sizeof(why), "%s", PQresultErrorMessage(res));
    PQclear(res);
    st_conn_retry(conn, why);
    return false;
}

/* Reads all answers that have arrived. False: the session was given up. */
static bool read_results(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    int nothing = 0;
    while (conn->expected > 0 && !pq->isBusy(conn->pg)) {
        PGresult *res = pq->getResult(conn->pg);
        if (!res) {
            /* One marks the end of a statement's results; more in a row mean that libpq expects nothing although we do. */
            if (++nothing > 2) {
                st_conn_retry(conn, "fewer answers than statements");
                return false;
            }
            continue;
        }
        nothing = 0;
        conn->progress_ms = st_conn_now(conn);
        if (PQresultStatus(res) == PGRES_PIPELINE_SYNC)
            conn->expected--;
        if (!(conn->state == ST_CONN_SETTING_UP ? setup_result(conn, res) : serving_result(conn, res)))
            return false;
    }
    return true;
}

static void serve(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    int alive = pq->consumeInput(conn->pg);
    pq->isBusy(conn->pg); /* takes in notices and notifications, also when no answer is awaited */
    if (!read_results(conn))
        return;
    if (!alive || PQstatus(conn->pg) == CONNECTION_BAD || !st_conn_flush_output(conn))
        st_conn_retry(conn, PQerrorMessage(conn->pg));
    else if (conn->state == ST_CONN_SERVING)
        conn->role->served(conn);
}

/* ------------------------------------------------------------------------------------------------ events and life */

static void on_ready(struct io_watch *w, unsigned events)
{
    struct st_conn *conn = list_entry(w, struct st_conn, watch);
    (void)events; /* libpq finds out by itself what can be done */
    if (conn->state == ST_CONN_CONNECTING)
        poll_connect(conn);
    else
        serve(conn);
}

static void on_timer(struct io_timer *timer)
{
    struct st_conn *conn = list_entry(timer, struct st_conn, timer);
    switch (conn->state) {
    case ST_CONN_WAITING:
        if (!conn->role->wanted || conn->role->wanted(conn))
            connect_now(conn);
        break;
    case ST_CONN_RESOLVING:
    case ST_CONN_CONNECTING:
        timed_out(conn, "connecting");
        break;
    case ST_CONN_SETTING_UP:
        timed_out(conn, "setting up the session");
        break;
    case ST_CONN_SERVING:
        check_stall(conn);
        break;
    case ST_CONN_CLOSED:
        break;
    }
}

void st_conn_init(struct st_conn *conn, struct st_store *store, const struct st_role *role, unsigned char index)
{
    conn->store = store;
    conn->role = role;
    conn->index = index;
    conn->state = ST_CONN_WAITING;
    conn->timer.fire = on_timer;
    list_init(&conn->again);
    list_init(&conn->paused);
    list_init(&conn->inflight);
    list_init(&conn->resend);
    st_conn_want(conn);
}

void st_conn_want(struct st_conn *conn)
{
    if (conn->state == ST_CONN_WAITING && !conn->timer.node.linked)
        st_conn_set_timer(conn, 0);
}

void st_conn_close(struct st_conn *conn)
{
    move(conn, ST_CONN_CLOSED);
    drop_session(conn);
}
