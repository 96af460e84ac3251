/*
 * serve.c - a connection that serves items, at work.
 *
 * An idle connection takes one batch a kind, each with its own Sync and so its own transaction, and is busy until all have
 * answered. Results are acted upon when the Sync is answered, because only then the commit is known.
 *
 * Of the kinds that only read, a connection that carries the work gets items only while their own way is not there.
 *
 * Large values come after all else, and not too many in a row (large.c).
 *
 * The slow lane comes last. What is polled there shares no batch with what is sent for the first time, and never waits in the
 * database, so that busy rows delay nobody.
 */
#include <stdio.h>

#include "store/engine.h"

enum {
    ALONE_PER_FLUSH = 4,     /* each may take a millisecond: the least lock_timeout */
    EXECUTE_STALL_MS = 40000 /* more than the statement_timeout of such a session */
};

/* Renewals first: they are what others wait for least and lose most by; releases before acquires, so that these find
 * what those freed. */
static const enum st_kind flush_order[] = {ST_RENEW,
                                           ST_OP_RENEW,
                                           ST_RELEASE,
                                           ST_LEAVE,
                                           ST_OP_FINISH,
                                           ST_OP_SENDING,
                                           ST_ACQUIRE,
                                           ST_ACQUIRE_ALL,
                                           ST_OP_BEGIN,
                                           ST_OP_RECORD,
                                           ST_WRITE,
                                           ST_CHECK,
                                           ST_READ,
                                           ST_GET,
                                           ST_OP_GET,
                                           ST_AUTH_CHANGES,
                                           ST_OP_EXECUTE,
                                           ST_BREAK,
                                           ST_OP_DECIDE,
                                           ST_OP_COMPENSATE,
                                           ST_LIST_LEASES,
                                           ST_LIST_RESOURCES,
                                           ST_OP_LIST,
                                           ST_OP_ATTEMPTS,
                                           ST_STATS,
                                           ST_OP_STATS,
                                           ST_ADVANCE_FENCES,
                                           ST_SWEEP,
                                           ST_AUDIT,
                                           ST_LIST_NAMESPACES,
                                           ST_SET_NAMESPACE,
                                           ST_CREATE_NAMESPACE,
                                           ST_SET_OP_POLICY,
                                           ST_LIST_OP_POLICIES,
                                           ST_REGISTER_ACTION,
                                           ST_REMOVE_ACTION,
                                           ST_LIST_ACTIONS,
                                           ST_CREATE_PRINCIPAL,
                                           ST_SET_PRINCIPAL,
                                           ST_REVOKE_PRINCIPAL,
                                           ST_LIST_PRINCIPALS,
                                           ST_AUTH_NOTE,
                                           ST_LIST_DENIALS,
                                           ST_MAP_ROLE,
                                           ST_UNMAP_ROLE,
                                           ST_LIST_ROLES};
enum { N_FLUSHED = sizeof(flush_order) / sizeof(flush_order[0]) };
_Static_assert(N_FLUSHED == ST_KINDS - 2, "every kind but the errands");

/* ------------------------------------------------------------------------------------------------ answers */

/* Takes over `res`. */
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
    /* Rows give way to an error of the commit; the first error stays. */
    if (status != PGRES_PIPELINE_ABORTED && (!batch->result || PQresultStatus(batch->result) == PGRES_TUPLES_OK)) {
        PQclear(batch->result);
        batch->result = res;
    } else {
        PQclear(res);
    }
    return true;
}

static bool has_work(const struct st_conn *conn)
{
    return conn->n_queued > 0 || !list_empty(&conn->again);
}

static void served(struct st_conn *conn)
{
    if (!list_empty(&conn->inflight))
        return;
    if (conn->recycle)
        st_conn_retry(conn, "the session is replaced");
    else if (has_work(conn))
        st_wake(conn->store);
}

/* The connections to execute rest until there is something. */
static bool wanted(const struct st_conn *conn)
{
    return conn->way != ST_WAY_EXECUTE || conn->store->executes;
}

#define SERVES(name, stall)                                                                                                        \
    {                                                                                                                              \
        .application_name = (name), .stall_ms = (stall), .wanted = wanted, .send_setup = st_session_setup,                         \
        .setup_result = st_session_setup_result, .begin = st_session_begin, .result = batch_result, .served = served,              \
        .lost = st_session_lost                                                                                                    \
    }

const struct st_role st_server_roles[ST_WAYS] = {
    [ST_WAY_WORK] = SERVES("holdfastd", 0),
    [ST_WAY_READS] = SERVES("holdfastd reads", 0),
    [ST_WAY_LISTS] = SERVES("holdfastd lists", 0),
    [ST_WAY_EXECUTE] = SERVES("holdfastd executes", EXECUTE_STALL_MS),
};

/* ------------------------------------------------------------------------------------------------ sending */

static bool send_one(struct st_conn *conn, struct st_batch *batch)
{
    if (!st_batch_send(conn, batch)) {
        list_push_front(&conn->again, &batch->node);
        return false;
    }
    return st_conn_sync(conn);
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

static bool send_lane(struct st_conn *conn, enum st_lane lane)
{
    if (conn->n_in_lane[lane] == 0 || (lane == ST_LARGE && !st_large_due(conn)))
        return true;
    for (int i = 0; i < N_FLUSHED; i++) {
        enum st_kind kind = flush_order[i];
        size_t most = lane == ST_ALONE ? ALONE_PER_FLUSH : st_kinds[kind].per_flush;
        for (size_t n = 0; n < most; n++) {
            struct st_batch *batch = st_batch_take(conn, lane, (int)kind);
            if (!batch)
                break;
            if (!send_one(conn, batch))
                return false;
        }
    }
    return true;
}

static bool send_all(struct st_conn *conn)
{
    return send_again(conn) && send_lane(conn, ST_FAST) && send_lane(conn, ST_SLOW) && send_lane(conn, ST_ALONE) &&
           send_lane(conn, ST_LARGE) && st_conn_flush_output(conn);
}

void st_conn_flush(struct st_conn *conn)
{
    if (!st_conn_serves(conn) || !list_empty(&conn->inflight) || !has_work(conn))
        return;
    /* One look before the leap: what is sent on a session that is over ends as lost. */
    if (!conn->store->pq->consumeInput(conn->pg) || PQstatus(conn->pg) == CONNECTION_BAD) {
        st_conn_retry(conn, PQerrorMessage(conn->pg));
        return;
    }
    if (!send_all(conn)) {
        char why[256];
        snprintf(why, sizeof(why), "cannot send: %s", PQerrorMessage(conn->pg));
        st_conn_retry(conn, why);
        return;
    }
    st_conn_await(conn);
}
