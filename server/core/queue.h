/*
 * queue.h - the batching rules: what waits, and what goes into the next batch.
 *
 * A queue holds the items of one kind for one connection. A batch holds each key once; a second item on a key waits for the
 * next batch. The queue keeps the items of one key in a line of their own and the *keys* in order of arrival, so a batch
 * is taken in time proportional to its size however many items wait on one hot key, and a hot key gets one turn a batch
 * like every other: its neighbours do not suffer.
 *
 * Items are embedded in their owners' structs. No I/O, no clock, one thread.
 */
#ifndef HOLDFAST_CORE_QUEUE_H
#define HOLDFAST_CORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct co_key;

/* What is queued. Zero it, then set hash and bytes. */
struct co_item {
    struct list_node node; /* the queue's while queued; in a batch's list after it was taken */
    uint64_t hash;         /* equal keys have equal hashes */
    size_t bytes;          /* its weight against co_limits.max_bytes */
    struct co_key *key;    /* the queue's; NULL = not queued */
};

/* Whether two items have the same key. Called only for equal hashes. */
typedef bool (*co_same_fn)(const struct co_item *a, const struct co_item *b);

struct co_queue {
    struct list keys; /* those with items waiting, in the order of their turn */
    struct co_key **buckets;
    size_t n_buckets; /* a power of two, or 0 */
    size_t n_items;
    struct co_key *spare;
    size_t n_spare;
    co_same_fn same;
};

struct co_limits {
    size_t max_items; /* at least 1 */
    size_t max_bytes; /* the first item goes in whatever its weight */
};

void co_queue_init(struct co_queue *queue, co_same_fn same);
/* Frees the queue's memory. It must be empty. */
void co_queue_release(struct co_queue *queue);

/* The item waits behind those that came before it. False: no memory, nothing changed. */
bool co_queue_push(struct co_queue *queue, struct co_item *item) __attribute__((warn_unused_result));
/* The item waits before all others: for one that was taken and comes back. */
bool co_queue_push_front(struct co_queue *queue, struct co_item *item) __attribute__((warn_unused_result));
/* The item is not queued any more. It must be queued here. */
void co_queue_remove(struct co_queue *queue, struct co_item *item);
/* The first item, taken out, or NULL. */
struct co_item *co_queue_pop(struct co_queue *queue);

/* Moves the next batch to the end of `batch`: each key once, within the limits. The number of items moved. */
size_t co_queue_take(struct co_queue *queue, const struct co_limits *limits, struct list *batch);

#endif
