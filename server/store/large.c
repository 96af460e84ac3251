/*
 * large.c - values that are large, and how they come without holding up what is small.
 *
 * Nobody knows how large a value is before the database has looked. So a batch says how large its values may be, of which so many
 * may come at once, and in the very statement that reads them SQL leaves out those that are larger and tells their sizes
 * (ST_VALUE_LATER); what it brings is of one moment. The others are asked for again in the large lane, a piece at a time: as many
 * as have ST_LARGE_PIECE bytes, or one. Behind each piece the lane rests for as long as befits its size, so that however many large
 * values are asked for, the backend, the loop and the processor are free for others in between. What others bring meanwhile doesn't
 * make that longer.
 *
 * Progress: a piece brings what has not grown since it was weighed; what has is weighed anew, and comes first next time.
 */
#include "store/engine.h"

enum {
    SMALL_ALWAYS = 4 << 10,      /* what is no larger comes at once, whatever comes with it */
    TOGETHER = ST_LARGE_PIECE,   /* otherwise so many bytes at once, */
    TOGETHER_RESTING = 64 << 10, /* or so many while the lane rests */
    LARGEST = INT32_MAX,         /* no value has more */
    BYTES_PER_MS = 128 << 10,    /* of rest */
    REST_MAX_MS = 20
};

static int32_t heaviest(const struct st_call *call)
{
    size_t most = SMALL_ALWAYS;
    for (size_t i = 0; i < call->n; i++)
        most = call->items[i]->queued.bytes > most ? call->items[i]->queued.bytes : most;
    return most < LARGEST ? (int32_t)most : LARGEST;
}

int32_t st_large_limit(const struct st_conn *conn, const struct st_batch *batch)
{
    size_t n = batch->call.n;
    bool rests = !st_large_due(conn);
    if (batch->lane == ST_LARGE)
        return heaviest(&batch->call);
    if (n == 1 && !rests)
        return LARGEST; /* holds up nobody */
    size_t each = (rests ? TOGETHER_RESTING : TOGETHER) / (n ? n : 1);
    return each > SMALL_ALWAYS ? (int32_t)each : SMALL_ALWAYS;
}

void st_large_later(struct st_store *store, struct st_item *item)
{
    bool again = item->lane == ST_LARGE;
    if (item->flags & ST_UNWANTED && !(item->flags & ST_MAYBE_DONE)) {
        st_item_end(store, item, ST_TIMED_OUT);
        return;
    }
    item->lane = ST_LARGE;
    st_item_return(store, item, again);
}

void st_large_note(struct st_conn *conn, const struct st_batch *batch)
{
    int64_t now = st_conn_now(conn);
    if (batch->lane != ST_LARGE && conn->n_in_lane[ST_LARGE])
        return;
    conn->large_owed += batch->call.value_bytes;
    int64_t rest = (int64_t)(conn->large_owed / BYTES_PER_MS);
    conn->large_owed %= BYTES_PER_MS;
    if (conn->large_ms < now)
        conn->large_ms = now;
    conn->large_ms += rest;
    if (conn->large_ms > now + REST_MAX_MS)
        conn->large_ms = now + REST_MAX_MS;
}

bool st_large_due(const struct st_conn *conn)
{
    return conn->large_ms <= st_conn_now(conn);
}

int64_t st_large_next(const struct st_conn *conn)
{
    if (!st_conn_serves(conn) || !list_empty(&conn->inflight))
        return INT64_MAX; /* what is answered wakes it */
    return conn->n_in_lane[ST_LARGE] ? conn->large_ms : INT64_MAX;
}
