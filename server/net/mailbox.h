/*
 * mailbox.h - a queue from other threads to the loop: a mutex, a list and an eventfd.
 *
 * What is posted is delivered on the loop's thread in the order of posting. The eventfd is written only when the queue was
 * empty, so a burst costs one wake-up.
 */
#ifndef HOLDFAST_NET_MAILBOX_H
#define HOLDFAST_NET_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/io.h"

/* Embedded in what is posted; its owner keeps it alive until it was delivered. */
struct net_letter {
    struct net_letter *next; /* the mailbox's */
};

struct net_mailbox {
    struct io *io;
    struct io_watch watch;
    pthread_mutex_t lock;
    struct net_letter *first, **last; /* under `lock` */
    size_t count;                     /* under `lock` */
    void (*deliver)(struct net_mailbox *box, struct net_letter *letter);
};

/* `deliver` is called on the loop's thread for each letter. 0, or -errno. */
int net_mailbox_init(struct net_mailbox *box, struct io *io, void (*deliver)(struct net_mailbox *box, struct net_letter *letter))
    __attribute__((warn_unused_result));

/* From any thread; never blocks but for the lock. Returns how many letters wait now, this one included. */
size_t net_mailbox_post(struct net_mailbox *box, struct net_letter *letter);

/* The mailbox is closed. What was not delivered is handed to `drop` (may be NULL). No other thread may post any more. */
void net_mailbox_release(struct net_mailbox *box, void (*drop)(struct net_letter *letter));

#endif
