/*
 * pipes.h - the connections of one nng socket, as nng's threads and the loop see them. For nng.c.
 *
 * nng tells of connections on its own threads and knows them by numbers; here each has a struct, found by its number. What nng's
 * threads may touch is under `lock`; the rest is the loop's. A pipe's struct lives until nng has closed it, the loop has been
 * told so, and nothing that came from it is on its way any more: each of these holds a reference.
 *
 * It is shared by the listener and by the thread that closes the socket, which may outlive the listener; the last one frees it.
 */
#ifndef HOLDFAST_NET_PIPES_H
#define HOLDFAST_NET_PIPES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nng/nng.h>

#include "net/envelope.h"
#include "net/mailbox.h"

/* A letter in nng.c's mailbox. */
struct net_note {
    struct net_letter letter; /* first */
    enum { NET_RECEIVED, NET_WAKE, NET_REMOVED } kind;
};

struct net_pipe {
    struct net_note removed;  /* first; posted once nng has closed it */
    struct net_source source; /* the loop's */
    uint32_t id;

    /* Under the lock. */
    struct net_pipe *next; /* in its bucket */
    long refs;
    long unsent;         /* replies that nng has and hasn't passed on */
    int64_t progress_ms; /* when one of them last left, or the first one came */
};

struct net_pipes {
    nng_socket sock;
    int max;

    pthread_mutex_t lock;
    int owners;              /* the listener, the thread that closes */
    struct net_mailbox *box; /* where removals are told; NULL = nobody is told any more */
    struct net_pipe **buckets;
    size_t n_buckets, n;
    int open;
    long refused; /* there were `max` */
};

/* NULL: no memory. */
struct net_pipes *net_pipes_new(int max) __attribute__((warn_unused_result));
/* One owner less. Pipes that are still known go with the last one. */
void net_pipes_put(struct net_pipes *pipes);
/* Connections that come and go from now on are known; from nng's threads they are told to `box`. 0, or nng's error. */
int net_pipes_watch(struct net_pipes *pipes, nng_socket sock, struct net_mailbox *box);
/* From now on nobody is told. */
void net_pipes_forget_box(struct net_pipes *pipes);

/* A reference to the pipe of this number, or NULL: it has been closed. From any thread. */
struct net_pipe *net_pipes_get(struct net_pipes *pipes, uint32_t id);
void net_pipes_release(struct net_pipes *pipes, struct net_pipe *pipe);
/* The same with the lock held. */
void net_pipes_release_locked(struct net_pipes *pipes, struct net_pipe *pipe);

/* Closes connections whose replies have been waiting since before `since_ms` without one leaving: a client that doesn't read
 * must not use up what others need. Returns how many. */
int net_pipes_close_stalled(struct net_pipes *pipes, int64_t since_ms);

#endif
