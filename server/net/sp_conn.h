/*
 * sp_conn.h - what sp.c, sp_conn.c and sp_read.c share: the listener's state and a connection's. For these alone.
 *
 * sp_conn.c has a connection's life, its times and what leaves on it; sp_read.c what arrives. A connection lives until it was
 * closed and every request that came from it was handed back by envelope.c, and then to the end of the turn, so that whoever works
 * on it may look whether it is closed.
 */
#ifndef HOLDFAST_NET_SP_CONN_H
#define HOLDFAST_NET_SP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/io.h"
#include "base/list.h"
#include "net/envelope.h"
#include "net/listen.h"
#include "net/out.h"
#include "net/sp.h"

enum { SP_SCRATCH = 64 << 10 };

struct net_sp {
    struct io *io;
    struct net_sp_config cfg;
    struct net_listener listener;
    struct net_envelopes envelopes;
    struct list greeting, open; /* connections: that have not greeted, by age; the others */
    struct list paused;         /* some of `open`, which are not read */
    struct list dirty;          /* some of `open`, with something to send since the last flush */
    struct list requests;       /* that envelope.c has */
    struct list dead;           /* connections, until the end of the turn */
    struct io_task flush, resume, bury;
    struct io_timer sweep;
    bool sweeps;
    long sending; /* replies */
    size_t sending_bytes, reserved_bytes;
    int64_t last_sent_ms;
    long refused;
    uint8_t scratch[SP_SCRATCH];
};

struct sp_conn {
    struct net_sp *sp;
    struct list_node node, paused_node, dirty_node;
    struct io_watch watch; /* fd -1: closed */
    struct net_source source;
    int refs; /* itself until it is closed, and its requests */
    bool greeted;
    int64_t heard_ms; /* when bytes last came */
    int64_t sent_ms;  /* when bytes last left, or there was something to send after there was nothing */
    uint8_t *in;      /* of a message that isn't whole */
    size_t in_len, in_size, reserved;
    struct net_out out;
};

/* An envelope's `from`. */
struct sp_request {
    struct list_node node;
    struct sp_conn *conn;
    uint8_t n_words;
    uint8_t words[];
};

/* ---- sp_conn.c ---- */

bool sp_is_closed(const struct sp_conn *conn);
/* It is closed, and its calls have been told. */
void sp_close(struct sp_conn *conn);
/* What is waited for, as it is now; a connection that can't be waited for is closed. */
void sp_set_want(struct sp_conn *conn);
/* Its input doesn't count any more. */
void sp_unreserve(struct sp_conn *conn);
/* Nothing that came in is kept. */
void sp_forget_input(struct sp_conn *conn);

/* Whether one more envelope may be in flight, and so many bytes more be held. */
bool sp_has_room(const struct net_sp *sp, size_t bytes);
/* There may be room for a paused connection. */
void sp_made_room(struct net_sp *sp);
/* Connections have something to be late with: `sweep` looks. */
void sp_sweep_later(struct net_sp *sp);
void sp_on_sweep(struct io_timer *timer);

/* As much of what is to be sent has been sent as its socket took. */
void sp_flush(struct sp_conn *conn);
void sp_on_flush(struct io_task *task);
/* For net_envelopes: a request's reply; none; its envelope has left. */
bool sp_send_reply(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg);
void sp_drop_reply(struct net_envelopes *envelopes, void *from);
void sp_on_finished(struct net_envelopes *envelopes);
void sp_free_request(struct net_sp *sp, struct sp_request *request);
/* What has died in this turn is freed. */
void sp_bury(struct net_sp *sp);
void sp_on_bury(struct io_task *task);

/* ---- sp_read.c ---- */

/* For a connection's watch. */
void sp_on_ready(struct io_watch *watch, unsigned events);
/* Paused connections go on, each once. */
void sp_on_resume(struct io_task *task);

#endif
