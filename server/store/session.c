/*
 * session.c - the sessions of the connections that serve items: their setup, and what becomes of the work when one breaks.
 *
 * A session that broke may have left a backend behind that is still at what it was sent. What was in flight is sent again by the
 * next session of the same connection, but only when that backend is known to be gone: an old request that is carried out after a
 * newer one would undo it. If it cannot be ended, what was in flight ends as lost.
 *
 * Meanwhile new items go to the other connections, those on the same keys too. That is safe: every decision is made under the
 * row's lock, by token, request_id and write_seq, so the old backend, the repetition and the new item may come in any order. The
 * repetition of what took effect is recognised; what is older than the newest token or write_seq is refused; and an item is only
 * sent again while its caller waits for it, so that a newer item of the same caller isn't out.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"

/* Plans: facts of this schema, not of the moment; a flip to a hash or sequential plan costs ten times. Times: a host cut
 * off in the middle must not keep row locks. synchronous_commit is never weakened. */
const char st_settings_sql[] =
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

/* A last resort: more than the 30 s that an action may be given. */
#define EXECUTE_TIMEOUT "31000"

/* What is answered before the first Sync, by columns: the settings' many, attach()'s boolean, the backend's start as a text. */
static const char start_sql[] = "SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()";

static bool send_end_of_ghost(struct st_conn *conn)
{
    char pid[16];
    const char *values[2] = {pid, conn->ghost.start};
    snprintf(pid, sizeof(pid), "%d", conn->ghost.pid);
    return conn->store->pq->sendQueryParams(conn->pg, "SELECT holdfast.end_backend($1::int, $2::text)", 2, NULL, values, NULL, NULL,
                                            0) == 1 &&
           st_conn_sync(conn);
}

/*
 * Up to three transactions: what attach() does is committed before the rest, and within larger limits, for it may end every
 * lease; then the old backend is ended; then limits and statements of the fast lane. attach() comes first: if this is another
 * database, the fences are raised before anything is sent again, and the old backend isn't here to be ended.
 */
bool st_session_setup(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    char lock_timeout[24];
    snprintf(lock_timeout, sizeof(lock_timeout), "%d", conn->store->lock_timeout_ms);
    conn->backend_pid = PQbackendPID(conn->pg);
    conn->backend_start[0] = 0;
    conn->ghost.ended = false;
    bool ok = st_conn_send_sql(conn, st_settings_sql) && st_conn_send_sql(conn, "SELECT holdfast.attach()") &&
              st_conn_send_sql(conn, start_sql) && st_conn_sync(conn) && (!conn->ghost.pid || send_end_of_ghost(conn)) &&
              st_conn_send_setting(conn, "lock_timeout", lock_timeout, false) &&
              st_conn_send_setting(conn, "statement_timeout", conn->way == ST_WAY_EXECUTE ? EXECUTE_TIMEOUT : "15000", false);
    for (int kind = 0; ok && kind < ST_KINDS; kind++) {
        if (st_kinds[kind].sql && (st_way_of((enum st_kind)kind) == ST_WAY_EXECUTE) == (conn->way == ST_WAY_EXECUTE))
            ok = pq->sendPrepare(conn->pg, st_kinds[kind].name, st_kinds[kind].sql, 0, NULL) == 1;
    }
    return ok && st_conn_sync(conn);
}

bool st_session_setup_result(struct st_conn *conn, const PGresult *res)
{
    const char *value = PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1 ? PQgetvalue(res, 0, 0) : "";
    bool one = PQnfields(res) == 1;
    if (conn->setup_syncs == 1 && conn->ghost.pid && !st_ends_session(res)) {
        conn->ghost.ended = one && PQftype(res, 0) == ST_OID_BOOL && value[0] == 't';
        if (!conn->ghost.ended)
            log_error("store.backend_not_ended", log_int("pid", conn->ghost.pid), log_str("error", PQresultErrorMessage(res)));
        return true;
    }
    if (conn->setup_syncs == 0 && one && PQftype(res, 0) == ST_OID_BOOL && value[0] == 't')
        log_warn("store.identity_changed", log_str("action", "fences raised, live leases ended"));
    if (conn->setup_syncs == 0 && one && PQftype(res, 0) == ST_OID_TEXT)
        snprintf(conn->backend_start, sizeof(conn->backend_start), "%s", value);
    return st_result_ok(res);
}

static void give_up_resend(struct st_conn *conn)
{
    struct list_node *node;
    while ((node = list_pop_front(&conn->resend))) {
        struct st_batch *batch = list_entry(node, struct st_batch, node);
        st_batch_end(conn, batch, ST_OUTCOME_LOST, "");
        st_batch_free(batch);
    }
}

/* What was in flight when the last session broke: sent again before all else, or given up. */
static void settle_ghost(struct st_conn *conn)
{
    bool ended = !conn->ghost.pid || conn->ghost.ended;
    conn->ghost.pid = 0;
    if (conn->resend.count)
        log_info(ended ? "store.sent_again" : "store.given_up", log_int("connection", conn->index),
                 log_int("batches", (int64_t)conn->resend.count));
    struct list_node *node;
    if (!ended)
        give_up_resend(conn);
    while ((node = list_pop_front(&conn->resend)))
        st_batch_wait(conn, list_entry(node, struct st_batch, node), &conn->again);
}

void st_session_begin(struct st_conn *conn)
{
    struct st_store *store = conn->store;
    settle_ghost(conn);
    if (store->ready && conn->index < store->n_work) {
        void (*ready)(void *arg) = store->ready;
        store->ready = NULL;
        ready(store->ready_arg);
    }
    st_rebalance(store);
    st_wake(store);
}

/* The backend of the session that broke is to be ended, if there was something in flight that it may still do. */
static void remember_ghost(struct st_conn *conn)
{
    for (struct list_node *node = list_first(&conn->inflight); node; node = list_next(&conn->inflight, node)) {
        const struct st_batch *batch = list_entry(node, struct st_batch, node);
        if (batch->kind != ST_PARTITIONS_NOW && st_kinds[batch->kind].writes) {
            conn->ghost.pid = conn->backend_pid;
            memcpy(conn->ghost.start, conn->backend_start, sizeof(conn->ghost.start));
            return;
        }
    }
}

static void dissolve_all(struct st_conn *conn, struct list *batches)
{
    struct list_node *node;
    while ((node = list_pop_front(batches)))
        st_batch_dissolve(conn, list_entry(node, struct st_batch, node));
}

void st_session_lost(struct st_conn *conn)
{
    struct list_node *node;
    conn->recycle = false;
    conn->partitions_ms = 0;
    remember_ghost(conn);
    while ((node = list_pop_front(&conn->inflight)))
        st_batch_lost(conn, list_entry(node, struct st_batch, node));
    dissolve_all(conn, &conn->again);
    dissolve_all(conn, &conn->paused);
    if (conn->store->closing) {
        give_up_resend(conn);
        return;
    }
    st_rebalance(conn->store);
    st_wake(conn->store);
}
