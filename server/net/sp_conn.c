/*
 * sp_conn.c - see sp_conn.h: a connection's life, its times, and what leaves on it.
 */
#include "net/sp_conn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "proto/c/sp.h"

enum { SWEEP_MS = 1000 };

/* The last reference is gone: it is freed at the end of the turn, so that whoever works on it now may look whether it is closed. */
static void unref(struct sp_conn *conn)
{
    struct net_sp *sp = conn->sp;
    if (--conn->refs)
        return;
    list_push_back(&sp->dead, &conn->node);
    sp->io->post(sp->io, &sp->bury);
}

void sp_bury(struct net_sp *sp)
{
    struct list_node *node;
    while ((node = list_pop_front(&sp->dead)))
        free(list_entry(node, struct sp_conn, node));
}

void sp_on_bury(struct io_task *task)
{
    sp_bury(list_entry(task, struct net_sp, bury));
}

bool sp_is_closed(const struct sp_conn *conn)
{
    return conn->watch.fd < 0;
}

bool sp_has_room(const struct net_sp *sp, size_t bytes)
{
    size_t used = sp->envelopes.bytes + sp->sending_bytes + sp->reserved_bytes;
    return sp->envelopes.in_flight + sp->sending < sp->cfg.max_envelopes && (!used || used + bytes <= sp->cfg.max_bytes);
}

void sp_made_room(struct net_sp *sp)
{
    if (!list_empty(&sp->paused))
        sp->io->post(sp->io, &sp->resume);
}

void sp_unreserve(struct sp_conn *conn)
{
    conn->sp->reserved_bytes -= conn->reserved;
    conn->reserved = 0;
}

void sp_forget_input(struct sp_conn *conn)
{
    free(conn->in);
    conn->in = NULL;
    conn->in_len = conn->in_size = 0;
}

static void count_sent(struct net_sp *sp, long messages, size_t bytes)
{
    sp->sending -= messages;
    sp->sending_bytes -= bytes;
}

void sp_close(struct sp_conn *conn)
{
    struct net_sp *sp = conn->sp;
    if (sp_is_closed(conn))
        return;
    sp->io->unwatch(sp->io, &conn->watch);
    close(conn->watch.fd);
    conn->watch.fd = -1;
    list_remove(conn->greeted ? &sp->open : &sp->greeting, &conn->node);
    if (list_linked(&conn->paused_node))
        list_remove(&sp->paused, &conn->paused_node);
    if (list_linked(&conn->dirty_node))
        list_remove(&sp->dirty, &conn->dirty_node);
    count_sent(sp, conn->out.messages, conn->out.bytes);
    net_out_release(&conn->out);
    sp_unreserve(conn);
    sp_forget_input(conn);
    net_source_gone(&conn->source);
    sp_made_room(sp);
    unref(conn);
}

void sp_set_want(struct sp_conn *conn)
{
    struct net_sp *sp = conn->sp;
    if (sp_is_closed(conn))
        return;
    unsigned want = (list_linked(&conn->paused_node) ? IO_HANGUP : IO_READ) | (conn->out.bytes ? IO_WRITE : 0);
    if (conn->watch.watched && conn->watch.want == want)
        return;
    conn->watch.want = want;
    if (sp->io->watch(sp->io, &conn->watch))
        sp_close(conn);
}

/* ---- time ---- */

static bool is_amid(const struct sp_conn *conn)
{
    return conn->in_len && !list_linked(&conn->paused_node);
}

static bool is_stalled(const struct sp_conn *conn, int64_t since_ms)
{
    return (conn->out.bytes && conn->sent_ms < since_ms) || (is_amid(conn) && conn->heard_ms < since_ms);
}

/* The connections of `list` that have been silent or deaf for too long are closed. */
static int close_late(struct list *list, bool (*is_late)(const struct sp_conn *conn, int64_t since_ms), int64_t since_ms)
{
    int n = 0;
    for (struct list_node *node = list_first(list), *next; node; node = next) {
        struct sp_conn *conn = list_entry(node, struct sp_conn, node);
        next = list_next(list, node);
        /* Telling its calls may close no other connection: that happens in tasks of their own. */
        if (is_late(conn, since_ms)) {
            sp_close(conn);
            n++;
        }
    }
    return n;
}

static bool greets_late(const struct sp_conn *conn, int64_t since_ms)
{
    return conn->heard_ms < since_ms;
}

void sp_sweep_later(struct net_sp *sp)
{
    if (sp->sweeps)
        return;
    sp->sweeps = true;
    sp->io->timer_set(sp->io, &sp->sweep, sp->io->now_ms(sp->io) + SWEEP_MS);
}

void sp_on_sweep(struct io_timer *timer)
{
    struct net_sp *sp = list_entry(timer, struct net_sp, sweep);
    int64_t now = sp->io->now_ms(sp->io);
    sp->sweeps = false;
    close_late(&sp->greeting, greets_late, now - sp->cfg.greeting_ms);
    int stalled = close_late(&sp->open, is_stalled, now - sp->cfg.stall_ms);
    if (stalled)
        log_warn("net.stalled", log_int("connections", stalled), log_str("reason", "their clients neither read nor go on"));
    bool again = !list_empty(&sp->greeting);
    for (struct list_node *node = list_first(&sp->open); node && !again; node = list_next(&sp->open, node)) {
        const struct sp_conn *conn = list_entry(node, struct sp_conn, node);
        again = conn->out.bytes || is_amid(conn);
    }
    if (again)
        sp_sweep_later(sp);
}

/* ---- sending ---- */

void sp_flush(struct sp_conn *conn)
{
    struct net_sp *sp = conn->sp;
    long messages = conn->out.messages;
    size_t bytes = conn->out.bytes;
    int rc = net_out_send(&conn->out, conn->watch.fd);
    count_sent(sp, messages - conn->out.messages, bytes - conn->out.bytes);
    if (rc) {
        sp_close(conn);
        return;
    }
    if (conn->out.bytes < bytes) {
        conn->sent_ms = sp->last_sent_ms = sp->io->now_ms(sp->io);
        sp_made_room(sp);
    }
    if (conn->out.bytes)
        sp_sweep_later(sp);
    sp_set_want(conn);
}

/* The replies of a turn leave together. */
void sp_on_flush(struct io_task *task)
{
    struct net_sp *sp = list_entry(task, struct net_sp, flush);
    struct list_node *node;
    while ((node = list_pop_front(&sp->dirty)))
        sp_flush(list_entry(node, struct sp_conn, dirty_node));
}

/* `n` bytes of a message to be filled in, which will leave at the end of the turn. NULL: no memory. */
static uint8_t *append(struct sp_conn *conn, size_t n)
{
    struct net_sp *sp = conn->sp;
    bool is_first = !conn->out.bytes;
    uint8_t *room = net_out_append(&conn->out, n);
    if (!room)
        return NULL;
    sp->sending++;
    sp->sending_bytes += n;
    if (is_first)
        conn->sent_ms = sp->io->now_ms(sp->io);
    if (!list_linked(&conn->dirty_node)) {
        list_push_back(&sp->dirty, &conn->dirty_node);
        sp->io->post(sp->io, &sp->flush);
    }
    return room;
}

void sp_free_request(struct net_sp *sp, struct sp_request *request)
{
    list_remove(&sp->requests, &request->node);
    unref(request->conn);
    free(request);
}

/* The envelope's replies, as one message to where it came from. False: no memory; the caller repeats. */
bool sp_send_reply(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg)
{
    struct net_sp *sp = list_entry(envelopes, struct net_sp, envelopes);
    struct sp_request *request = from;
    size_t head = hp_sp_head_size(sp->listener.is_ipc), before = head + request->n_words;
    uint8_t *room = append(request->conn, before + size); /* it isn't closed: the source would be gone */
    if (room) {
        hp_sp_write_head(sp->listener.is_ipc, room, request->n_words + size);
        memcpy(room + head, request->words, request->n_words);
        write(arg, room + before);
    }
    sp_free_request(sp, request);
    return room != NULL;
}

void sp_drop_reply(struct net_envelopes *envelopes, void *from)
{
    sp_free_request(list_entry(envelopes, struct net_sp, envelopes), from);
}

void sp_on_finished(struct net_envelopes *envelopes)
{
    sp_made_room(list_entry(envelopes, struct net_sp, envelopes));
}
