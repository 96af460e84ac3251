/*
 * listen.c - the connection that listens on this server's channel, and tells other servers of their turns on theirs.
 *
 * It notifies here, and not with the batch, because NOTIFY takes a lock at commit that all who notify queue for; and in one
 * statement for all notes that have come together while the last was under way (equal ones are sent once: PostgreSQL drops
 * repetitions within a transaction). It does nothing else, so that it always reads: a listener that doesn't holds up the whole
 * database's queue. What is lost with it, or while it is away, is found by polling.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/engine.h"

enum { NOTES_PER_STATEMENT = 1000 };

static bool send_setup(struct st_conn *conn)
{
    char listen[64];
    snprintf(listen, sizeof(listen), "LISTEN \"holdfast_%s\"", conn->store->id);
    return st_conn_send_sql(conn, st_settings_sql) && st_conn_send_sql(conn, listen) &&
           conn->store->pq->sendPrepare(conn->pg, "notify", "SELECT holdfast.notify_batch($1::text[], $2::text[])", 0, NULL) == 1 &&
           st_conn_sync(conn);
}

static bool setup_result(struct st_conn *conn, const PGresult *res)
{
    (void)conn;
    return st_result_ok(res);
}

static void begin(struct st_conn *conn)
{
    st_wake(conn->store);
}

static bool result(struct st_conn *conn, PGresult *res)
{
    if (!st_result_ok(res) && PQresultStatus(res) != PGRES_PIPELINE_SYNC && PQresultStatus(res) != PGRES_PIPELINE_ABORTED)
        log_warn("store.notify_failed", log_int("waiting", (int64_t)conn->store->listener.notes.count),
                 log_str("error", PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY)));
    PQclear(res);
    return true;
}

static void served(struct st_conn *conn)
{
    PGnotify *note;
    while ((note = conn->store->pq->notifies(conn->pg))) {
        st_turn_tell(conn->store, note->extra);
        PQfreemem(note);
    }
    if (!list_empty(&conn->store->listener.notes))
        st_wake(conn->store);
}

static void drop_notes(struct list *notes, size_t n)
{
    for (; n > 0; n--)
        free(list_entry(list_pop_front(notes), struct st_note, node));
}

static void lost(struct st_conn *conn)
{
    drop_notes(&conn->store->listener.notes, conn->store->listener.notes.count);
}

const struct st_role st_listener_role = {.application_name = "holdfastd listener",
                                         .send_setup = send_setup,
                                         .setup_result = setup_result,
                                         .begin = begin,
                                         .result = result,
                                         .served = served,
                                         .lost = lost};

/* Both lists in one parameter each. */
static void build(struct st_params *params, const struct list *notes, size_t n)
{
    struct list_node *node = list_first(notes);
    st_params_reset(params);
    st_params_array(params, ST_OID_TEXT, n);
    for (size_t i = 0; i < n; i++, node = list_next(notes, node))
        st_element_text(params, list_entry(node, struct st_note, node)->server);
    node = list_first(notes);
    st_params_array(params, ST_OID_TEXT, n);
    for (size_t i = 0; i < n; i++, node = list_next(notes, node))
        st_element_text(params, list_entry(node, struct st_note, node)->payload);
}

void st_listener_flush(struct st_store *store)
{
    struct st_conn *conn = &store->listener.conn;
    struct list *notes = &store->listener.notes;
    const char *values[ST_PARAMS_MAX];
    int lengths[ST_PARAMS_MAX], formats[ST_PARAMS_MAX];
    if (conn->state != ST_CONN_SERVING || conn->expected > 0 || list_empty(notes))
        return;
    size_t n = notes->count < NOTES_PER_STATEMENT ? notes->count : NOTES_PER_STATEMENT;
    build(&conn->params, notes, n);
    bool built = !conn->params.failed;
    st_params_view(&conn->params, values, lengths, formats);
    drop_notes(notes, n);
    if (!built)
        return;
    if (store->pq->sendQueryPrepared(conn->pg, "notify", conn->params.n, values, lengths, formats, 1) != 1 || !st_conn_sync(conn) ||
        !st_conn_flush_output(conn)) {
        st_conn_retry(conn, PQerrorMessage(conn->pg));
        return;
    }
    store->notify_batches++;
    store->notes_sent += (int64_t)n;
    st_conn_await(conn);
}
