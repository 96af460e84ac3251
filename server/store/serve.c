/*
 * serve.c - a connection at work, in libpq's pipeline mode.
 *
 * An idle connection takes one batch a kind, each with its own Sync and so its own transaction, and is busy until all have
 * answered. Results are acted upon when the Sync is answered, because only then the commit is known.
 */
#include <stdio.h>
#include <string.h>

#include "store/engine.h"

/* Renewals first: they are what others wait for least and lose most by; releases before acquires, so that these find
 * what those freed. */
static const enum st_kind flush_order[ST_KINDS] = {ST_RENEW,          ST_RELEASE, ST_ACQUIRE,       ST_ACQUIRE_ALL, ST_WRITE,
                                                   ST_CHECK,          ST_READ,    ST_GET,           ST_BREAK,       ST_LIST_LEASES,
                                                   ST_LIST_RESOURCES, ST_STATS,   ST_ADVANCE_FENCES};

/* ------------------------------------------------------------------------------------------------ answers */

/* Whether this error ended the session rather than the statement. */
static bool ends_session(const PGresult *res)
{
    const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    return !severity || strcmp(severity, "ERROR") != 0;
}

/* Takes over `res`. False: the connection was given up. */
static bool batch_result(struct st_conn *conn, PGresult *res)
{
    struct st_batch *batch = list_entry(list_first(&conn->inflight), struct st_batch, node);
    ExecStatusType status = PQresultStatus(res);
    if (status == PGRES_PIPELINE_SYNC) {
        PQclear(res);
        list_remove(&conn->inflight, &batch->node);
        st_batch_finish(conn, batch);
        return true;
    }
    if (status == PGRES_FATAL_ERROR && ends_session(res)) {
        char why[512];
        snprintf(why, sizeof(why), "%s", PQresultErrorMessage(res));
        PQclear(res);
        st_conn_retry(conn, why);
        return false;
    }
    /* Rows give way to an error of the commit; the first error stays. */
    if (status != PGRES_PIPELINE_ABORTED && (!batch->result || PQresultStatus(batch->result) == PGRES_TUPLES_OK)) {
        PQclear(batch->result);
        batch->result = res;
    } else {
        PQclear(res);
    }
    return true;
}

/* Reads all answers that have arrived. False: the connection was given up. */
static bool read_results(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    int nothing = 0;
    while ((conn->state == ST_CONN_SETTING_UP || !list_empty(&conn->inflight)) && !pq->isBusy(conn->pg)) {
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
        if (conn->state == ST_CONN_SETTING_UP) {
            bool ok = st_conn_setup_result(conn, res);
            PQclear(res);
            if (!ok)
                return false;
        } else if (!batch_result(conn, res)) {
            return false;
        }
    }
    return true;
}

static bool has_work(const struct st_conn *conn)
{
    if (!list_empty(&conn->again))
        return true;
    for (int kind = 0; kind < ST_KINDS; kind++) {
        if (conn->queues[kind].n_items)
            return true;
    }
    return false;
}

void st_conn_serve(struct st_conn *conn)
{
    const struct st_pq *pq = conn->store->pq;
    int alive = pq->consumeInput(conn->pg);
    pq->isBusy(conn->pg); /* takes in notices, also when no answer is awaited */
    if (!read_results(conn))
        return;
    if (!alive || PQstatus(conn->pg) == CONNECTION_BAD || !st_conn_flush_output(conn)) {
        st_conn_retry(conn, PQerrorMessage(conn->pg));
        return;
    }
    if (conn->state != ST_CONN_SERVING || !list_empty(&conn->inflight))
        return;
    if (conn->recycle)
        st_conn_retry(conn, "the session is replaced");
    else if (has_work(conn))
        st_wake(conn->store);
}

/* ------------------------------------------------------------------------------------------------ sending */

static bool send_one(struct st_conn *conn, struct st_batch *batch)
{
    if (!st_batch_send(conn, batch)) {
        list_push_front(&conn->again, &batch->node);
        return false;
    }
    return conn->store->pq->pipelineSync(conn->pg) == 1;
}

static bool send_again(struct st_conn *conn)
{
    struct list_node *node;
    while ((node = list_pop_front(&conn->again))) {
        struct st_batch *batch = list_entry(node, struct st_batch, node);
        if (list_empty(&batch->items) && batch->kind != ST_PARTITIONS_NOW)
            st_batch_free(batch); /* their deadlines came first */
        else if (!send_one(conn, batch))
            return false;
    }
    return true;
}

static bool send_queued(struct st_conn *conn)
{
    for (int i = 0; i < ST_KINDS && st_kinds[flush_order[i]].sql; i++) {
        int kind = (int)flush_order[i];
        for (size_t n = 0; n < st_kinds[kind].per_flush; n++) {
            struct st_batch *batch = st_batch_take(conn, kind);
            if (!batch)
                break;
            if (!send_one(conn, batch))
                return false;
        }
    }
    return true;
}

void st_conn_flush(struct st_conn *conn)
{
    if (!st_conn_serves(conn) || !list_empty(&conn->inflight) || !has_work(conn))
        return;
    conn->progress_ms = st_conn_now(conn);
    /* One look before the leap: what is sent on a session that is over ends as lost. */
    if (!conn->store->pq->consumeInput(conn->pg) || PQstatus(conn->pg) == CONNECTION_BAD) {
        st_conn_retry(conn, PQerrorMessage(conn->pg));
        return;
    }
    if (!send_again(conn) || !send_queued(conn) || !st_conn_flush_output(conn)) {
        char why[256];
        snprintf(why, sizeof(why), "cannot send: %s", PQerrorMessage(conn->pg));
        st_conn_retry(conn, why);
        return;
    }
    if (conn->timer.heap_index == 0)
        st_conn_set_timer(conn, conn->store->stall_ms);
}

void st_conn_check_stall(struct st_conn *conn)
{
    if (list_empty(&conn->inflight))
        return; /* set again with the next batch */
    int64_t left = conn->progress_ms + conn->store->stall_ms - st_conn_now(conn);
    if (left > 0)
        st_conn_set_timer(conn, left);
    else
        st_conn_retry(conn, "no answer");
}
