/*
 * sp.c - see sp.h: the listener as a whole. Its connections are sp_conn.c's, what arrives on them sp_read.c's, and envelopes
 * envelope.c's.
 */
#include "net/sp.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/sp_conn.h"
#include "proto/c/sp.h"
#include "proto/c/wire.h"

enum { LINGER_MS = 50 /* between the hand-over of the last reply to the kernel and the belief that it has left */ };

static void on_accept(struct net_listener *listener, int fd)
{
    struct net_sp *sp = list_entry(listener, struct net_sp, listener);
    size_t n = sp->greeting.count + sp->open.count;
    struct sp_conn *conn = NULL;
    if (n >= (size_t)sp->cfg.max_connections && !list_empty(&sp->greeting)) {
        sp_close(list_entry(list_first(&sp->greeting), struct sp_conn, node));
        sp->refused++;
        n--;
    }
    if (n < (size_t)sp->cfg.max_connections)
        conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        sp->refused++;
        return;
    }
    conn->sp = sp;
    conn->refs = 1;
    conn->watch = (struct io_watch){.fd = fd, .ready = sp_on_ready};
    conn->heard_ms = sp->io->now_ms(sp->io);
    net_source_init(&conn->source, fd);
    list_push_back(&sp->greeting, &conn->node);
    uint8_t greeting[HP_SP_GREETING];
    hp_sp_greet(greeting, HP_SP_REP);
    /* The buffer of a new connection has room for it. */
    if (send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(greeting)) {
        sp_close(conn);
        return;
    }
    sp_set_want(conn);
    sp_sweep_later(sp);
}

static void set_defaults(struct net_sp_config *cfg)
{
    cfg->max_envelopes = cfg->max_envelopes ? cfg->max_envelopes : 32768;
    cfg->max_bytes = cfg->max_bytes ? cfg->max_bytes : (size_t)256 << 20;
    cfg->max_connections = cfg->max_connections ? cfg->max_connections : 4096;
    cfg->reply_max = cfg->reply_max ? cfg->reply_max : HP_ENVELOPE_MAX;
    cfg->default_wait_ms = cfg->default_wait_ms ? cfg->default_wait_ms : 30000;
    cfg->stall_ms = cfg->stall_ms ? cfg->stall_ms : 30000;
    cfg->greeting_ms = cfg->greeting_ms ? cfg->greeting_ms : 10000;
}

struct net_sp *net_sp_listen(struct io *io, const char *url, const struct net_sp_config *cfg,
                             void (*on_call)(void *arg, struct hp_call *call), void *arg, char *error, size_t error_len)
{
    char text[128];
    struct net_sp *sp = calloc(1, sizeof(*sp));
    if (!sp) {
        snprintf(error, error_len, "cannot listen on %s: out of memory", url);
        return NULL;
    }
    sp->io = io;
    sp->cfg = cfg ? *cfg : (struct net_sp_config){0};
    set_defaults(&sp->cfg);
    list_init(&sp->greeting);
    list_init(&sp->open);
    list_init(&sp->paused);
    list_init(&sp->dirty);
    list_init(&sp->requests);
    list_init(&sp->dead);
    sp->flush.run = sp_on_flush;
    sp->resume.run = sp_on_resume;
    sp->bury.run = sp_on_bury;
    sp->sweep.fire = sp_on_sweep;
    net_envelopes_init(&sp->envelopes, io, sp->cfg.reply_max, sp->cfg.default_wait_ms);
    sp->envelopes.on_call = on_call;
    sp->envelopes.on_call_arg = arg;
    sp->envelopes.send = sp_send_reply;
    sp->envelopes.drop = sp_drop_reply;
    sp->envelopes.finished = sp_on_finished;
    const char *why = net_listener_open(&sp->listener, io, url, on_accept, text, sizeof(text));
    if (why) {
        snprintf(error, error_len, "cannot listen on %s: %s", url, why);
        net_sp_free(sp);
        return NULL;
    }
    return sp;
}

const char *net_sp_url(const struct net_sp *sp)
{
    return sp->listener.url;
}

bool net_sp_idle(const struct net_sp *sp)
{
    return !sp->sending && !sp->envelopes.in_flight && sp->io->now_ms(sp->io) - sp->last_sent_ms >= LINGER_MS;
}

void net_sp_stats(const struct net_sp *sp, struct net_sp_stats *out)
{
    const struct net_envelopes *e = &sp->envelopes;
    *out = (struct net_sp_stats){.envelopes = e->n_envelopes,
                                 .calls = e->n_calls,
                                 .undecodable = e->n_undecodable,
                                 .dropped_replies = e->n_dropped,
                                 .in_flight = e->in_flight,
                                 .sending = sp->sending,
                                 .bytes = e->bytes + sp->sending_bytes + sp->reserved_bytes,
                                 .connections = (int)(sp->greeting.count + sp->open.count),
                                 .refused = sp->refused + sp->listener.turned_away};
}

static void close_all(struct list *list)
{
    struct list_node *node;
    while ((node = list_first(list)))
        sp_close(list_entry(node, struct sp_conn, node));
}

void net_sp_free(struct net_sp *sp)
{
    struct list_node *node;
    if (!sp)
        return;
    net_listener_close(&sp->listener);
    net_envelopes_orphan(&sp->envelopes); /* their calls are not told: the program ends */
    close_all(&sp->greeting);
    close_all(&sp->open);
    while ((node = list_first(&sp->requests)))
        sp_free_request(sp, list_entry(node, struct sp_request, node));
    sp->io->timer_cancel(sp->io, &sp->sweep);
    sp->io->unpost(sp->io, &sp->flush);
    sp->io->unpost(sp->io, &sp->resume);
    sp->io->unpost(sp->io, &sp->bury);
    sp_bury(sp);
    free(sp);
}
