/*
 * transport_sp.h - what transport_sp.c, sp_dial.c and sp_conn.c share: the transport's state and a connection's. For these alone.
 *
 * transport_sp.c has the exchanges, their times and the thread; sp_dial.c makes connections; sp_conn.c has their bytes.
 *
 * Lock and threads: `mutex` guards all of it. A caller's thread puts its request on the socket by itself if that is open and takes
 * it; all else is done by one thread, which alone opens, reads and closes sockets, and alone ends exchanges that were begun. It
 * holds the mutex except while it waits, reads, and calls out.
 */
#ifndef HOLDFAST_CLIENT_TRANSPORT_SP_H
#define HOLDFAST_CLIENT_TRANSPORT_SP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/ports.h"
#include "client/lib/sp_address.h"

enum { SP_SCRATCH = 64 << 10, SP_BUCKETS = 1024 };

/* PAUSING → RESOLVING → CONNECTING → GREETING → OPEN, and from each of them back to PAUSING. */
enum sp_state {
    SP_PAUSING,    /* until until_ms; no socket */
    SP_RESOLVING,  /* fd is the lookup's */
    SP_CONNECTING, /* until until_ms at most, like the next one */
    SP_GREETING,
    SP_OPEN
};

struct sp_exchange {
    struct sp_exchange *next;   /* of its bucket, or of those that have ended */
    struct sp_exchange *behind; /* in its connection's queue */
    struct sp_conn *conn;
    struct hfi_exchange *owner; /* NULL: it has ended, but only a part of it was sent */
    enum hfi_fate fate;         /* once it has ended */
    uint32_t id;
    int64_t until_ms; /* to be sent until then, or answered */
    int64_t reply_ms;
    uint8_t *frame; /* while it is in the queue */
    size_t len, sent;
};

struct sp_conn {
    struct sp_transport *owner;
    struct sp_address address; /* constant */
    enum sp_state state;
    bool broken; /* a sender found out: shut down, and soon closed */
    int fd;      /* -1 = none */
    uint32_t events;
    struct sp_lookup *lookup;
    struct addrinfo *found, *at; /* the addresses; the one that is tried */
    int64_t until_ms;            /* of the state; HFI_NEVER = it has no end */
    unsigned failures;           /* in a row */
    struct sp_exchange *first, **last;
    uint8_t *in; /* of a message that isn't whole */
    size_t in_len, in_size;
};

struct sp_transport {
    struct hfi_transport port; /* first */
    pthread_mutex_t mutex;
    pthread_t thread;
    bool has_thread, stopped;
    int epoll_fd, wake_fd;
    int64_t wake_ms; /* when the thread wakes by itself; perhaps before anything is due */
    uint32_t last_id;
    struct sp_exchange *buckets[SP_BUCKETS]; /* all that have not ended, by id */
    struct sp_conn conns[HFI_ENDPOINTS_MAX];
    uint8_t scratch[SP_SCRATCH]; /* the thread's */
};

/* ---- transport_sp.c ---- */

/* It has ended, and is told with sp_tell. `ended` collects those. Lock held. */
void sp_end(struct sp_exchange *exchange, enum hfi_fate fate, struct sp_exchange **ended);
/* Those of the connection that were sent whole will have no answer. Lock held. */
void sp_end_sent(struct sp_conn *conn, struct sp_exchange **ended);
/* Their owners are told, and they are freed. Lock not held. */
void sp_tell(struct sp_exchange *ended);
/* An answer has come. Lock not held. */
void sp_answered(struct sp_conn *conn, uint32_t id, const void *data, size_t len);
/* The thread wakes at that time or before. By the thread, lock held. */
void sp_wake_at(struct sp_transport *t, int64_t at_ms);

/* ---- sp_conn.c: by the thread, with the lock not held, except sp_conn_send ---- */

void sp_conn_init(struct sp_conn *conn, struct sp_transport *owner);
/* The request has been sent, or is queued. False, and it will not be sent: there is no memory. By any thread, lock held. */
bool sp_conn_send(struct sp_conn *conn, struct sp_exchange *exchange, const void *data, size_t len)
    __attribute__((warn_unused_result));
/* Something has happened to its socket. */
void sp_conn_ready(struct sp_conn *conn, uint32_t events);
/* Its time is up. */
void sp_conn_due(struct sp_conn *conn, int64_t now_ms);
/* It is no more, and what was in its queue has ended. */
void sp_conn_close(struct sp_conn *conn);

/* ---- sp_dial.c: by the thread, lock held ---- */

/* Its socket is waited for so; the transport's thread calls sp_conn_ready. By any thread. */
bool sp_want(struct sp_conn *conn, uint32_t events);
/* The connection begins to be made. */
void sp_dial(struct sp_conn *conn);
/* The address was found. */
void sp_resolved(struct sp_conn *conn);
/* The socket is connected, or isn't. */
void sp_connected(struct sp_conn *conn);
/* It has greeted, and is open. */
void sp_greeted(struct sp_conn *conn);
/* The address is no good: the next one, or a pause. */
void sp_attempt_failed(struct sp_conn *conn);
/* It was lost. */
void sp_pause(struct sp_conn *conn);
/* It has no socket any more, and no addresses. */
void sp_forget(struct sp_conn *conn);

#endif
