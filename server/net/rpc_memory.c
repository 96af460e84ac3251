/*
 * rpc_memory.c - what calls are made of. They are used again, with their buffers and arenas, so that one which touches no database
 * costs no allocation. Not under AddressSanitizer, which is to see what is used after its end.
 */
#include <stdlib.h>

#include "net/rpc_call.h"

enum {
    CALL_BUDGET = 1 << 20, /* of a call's arena, beyond four times its payload: as in envelope.c */
    KEEP_BYTES = 16 << 10, /* larger buffers are not kept */
#if defined(__SANITIZE_ADDRESS__)
    SPARE_MAX = 0
#else
    SPARE_MAX = 512
#endif
};

static void call_destroy(struct rpc_call *rc)
{
    hp_arena_free(rc->spare_arena);
    hp_grpc_reader_release(&rc->reader);
    hp_buf_release(&rc->pending);
    hp_buf_release(&rc->message);
    free(rc);
}

static void keep_or_release(struct hp_buf *buf)
{
    if (buf->cap > KEEP_BYTES)
        hp_buf_release(buf);
    else
        hp_buf_reset(buf);
}

void rpc_call_free(struct rpc_call *rc)
{
    struct net_rpc *rpc = rc->rpc;
    rpc_decode_forget(rc);
    if (!rpc) {
        call_destroy(rc);
        return;
    }
    list_remove(&rpc->calls, &rc->node);
    rpc->stats.in_flight--;
    rpc->stats.held -= rc->held;
    if (rpc->n_spare >= SPARE_MAX) {
        call_destroy(rc);
        return;
    }
    keep_or_release(&rc->reader.message);
    keep_or_release(&rc->pending);
    keep_or_release(&rc->message);
    rc->next_spare = rpc->spare;
    rpc->spare = rc;
    rpc->n_spare++;
}

struct rpc_call *rpc_call_new(struct net_rpc *rpc)
{
    struct rpc_call *rc = rpc->spare;
    if (rc) {
        struct rpc_call kept = {.message = rc->message, .pending = rc->pending, .spare_arena = rc->spare_arena};
        kept.reader.message = rc->reader.message;
        rpc->spare = rc->next_spare;
        rpc->n_spare--;
        *rc = kept;
    } else {
        rc = calloc(1, sizeof(*rc));
        if (!rc)
            return NULL;
    }
    rc->rpc = rpc;
    list_push_back(&rpc->calls, &rc->node);
    rpc->stats.in_flight++;
    return rc;
}

void rpc_hold(struct rpc_call *rc)
{
    rc->holds++;
}

void rpc_let_go(struct rpc_call *rc)
{
    if (--rc->holds == 0 && !rc->x && !rc->gone_posted && (rc->answered || !rc->given))
        rpc_call_free(rc);
}

void rpc_count_held(struct rpc_call *rc)
{
    size_t held = rc->reader.message.len + rc->pending.len + rc->message.len + rpc_decode_held(rc);
    if (held <= KEEP_BYTES)
        held = 0; /* little is part of what a call costs */
    if (held == rc->held)
        return;
    rc->rpc->stats.held += held - rc->held;
    rc->held = held;
    if (rc->x)
        net_exchange_hold(rc->x, held);
}

void rpc_spare_free(struct net_rpc *rpc)
{
    while (rpc->spare) {
        struct rpc_call *rc = rpc->spare;
        rpc->spare = rc->next_spare;
        call_destroy(rc);
    }
}

/* ---- arenas ---- */

struct hp_arena *rpc_arena_for(struct rpc_call *rc, size_t len)
{
    struct hp_arena *arena = rc->spare_arena;
    size_t budget = CALL_BUDGET + len * 4;
    if (!arena)
        return hp_arena_new(budget);
    rc->spare_arena = NULL;
    hp_arena_reset(arena, budget);
    return arena;
}

void rpc_arena_back(struct rpc_call *rc)
{
    struct hp_arena *arena = rc->call.arena;
    rc->call.arena = NULL;
    if (arena && !rc->spare_arena && SPARE_MAX > 0)
        rc->spare_arena = arena;
    else
        hp_arena_free(arena);
}
