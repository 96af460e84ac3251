/*
 * queue.c - see queue.h.
 *
 * Invariants: a co_key is in `keys` and in its bucket exactly while its `items` is not empty; n_items is the sum over all
 * keys. Spare co_keys are kept for reuse, up to SPARE_MAX, linked by `next`.
 */
#include "core/queue.h"

#include <stdlib.h>

#include "base/hash.h"

enum { FIRST_BUCKETS = 64, SPARE_MAX = 1024 };

struct co_key {
    struct list_node node;
    struct list items;
    uint64_t hash;
    struct co_key *next; /* in its bucket, or among the spare ones */
};

static struct co_item *item_of(struct list_node *node)
{
    return list_entry(node, struct co_item, node);
}

void co_queue_init(struct co_queue *queue, co_same_fn same)
{
    *queue = (struct co_queue){.same = same};
    list_init(&queue->keys);
}

void co_queue_release(struct co_queue *queue)
{
    while (queue->spare) {
        struct co_key *key = queue->spare;
        queue->spare = key->next;
        free(key);
    }
    free(queue->buckets);
    queue->buckets = NULL;
    queue->n_buckets = queue->n_spare = 0;
}

static struct co_key **bucket_of(struct co_queue *queue, uint64_t hash)
{
    return &queue->buckets[hb_hash_mix(hash) & (queue->n_buckets - 1)];
}

/* More buckets when there are more keys than buckets; without memory the chains just grow longer. */
static bool grow(struct co_queue *queue)
{
    size_t n = queue->n_buckets ? queue->n_buckets * 2 : FIRST_BUCKETS;
    struct co_key **buckets = calloc(n, sizeof(struct co_key *));
    if (!buckets)
        return queue->n_buckets > 0;
    free(queue->buckets);
    queue->buckets = buckets;
    queue->n_buckets = n;
    for (struct list_node *node = list_first(&queue->keys); node; node = list_next(&queue->keys, node)) {
        struct co_key *key = list_entry(node, struct co_key, node);
        struct co_key **bucket = bucket_of(queue, key->hash);
        key->next = *bucket;
        *bucket = key;
    }
    return true;
}

static struct co_key *find_key(struct co_queue *queue, const struct co_item *item)
{
    if (!queue->n_buckets)
        return NULL;
    for (struct co_key *key = *bucket_of(queue, item->hash); key; key = key->next) {
        if (key->hash == item->hash && queue->same(item_of(list_first(&key->items)), item))
            return key;
    }
    return NULL;
}

static struct co_key *new_key(struct co_queue *queue, uint64_t hash)
{
    if (queue->keys.count >= queue->n_buckets && !grow(queue))
        return NULL;
    struct co_key *key = queue->spare;
    if (key) {
        queue->spare = key->next;
        queue->n_spare--;
    } else {
        key = malloc(sizeof(*key));
        if (!key)
            return NULL;
    }
    *key = (struct co_key){.hash = hash};
    list_init(&key->items);
    struct co_key **bucket = bucket_of(queue, hash);
    key->next = *bucket;
    *bucket = key;
    return key;
}

static void drop_key(struct co_queue *queue, struct co_key *key)
{
    struct co_key **at = bucket_of(queue, key->hash);
    while (*at != key)
        at = &(*at)->next;
    *at = key->next;
    list_remove(&queue->keys, &key->node);
    if (queue->n_spare == SPARE_MAX) {
        free(key);
        return;
    }
    key->next = queue->spare;
    queue->spare = key;
    queue->n_spare++;
}

bool co_queue_push(struct co_queue *queue, struct co_item *item)
{
    struct co_key *key = find_key(queue, item);
    if (!key) {
        key = new_key(queue, item->hash);
        if (!key)
            return false;
        list_push_back(&queue->keys, &key->node);
    }
    list_push_back(&key->items, &item->node);
    item->key = key;
    queue->n_items++;
    return true;
}

bool co_queue_push_front(struct co_queue *queue, struct co_item *item)
{
    struct co_key *key = find_key(queue, item);
    if (key) {
        list_remove(&queue->keys, &key->node);
    } else {
        key = new_key(queue, item->hash);
        if (!key)
            return false;
    }
    list_push_front(&queue->keys, &key->node);
    list_push_front(&key->items, &item->node);
    item->key = key;
    queue->n_items++;
    return true;
}

void co_queue_remove(struct co_queue *queue, struct co_item *item)
{
    struct co_key *key = item->key;
    list_remove(&key->items, &item->node);
    item->key = NULL;
    queue->n_items--;
    if (list_empty(&key->items))
        drop_key(queue, key);
}

struct co_item *co_queue_pop(struct co_queue *queue)
{
    if (list_empty(&queue->keys))
        return NULL;
    struct co_key *key = list_entry(list_first(&queue->keys), struct co_key, node);
    struct co_item *item = item_of(list_first(&key->items));
    co_queue_remove(queue, item);
    return item;
}

size_t co_queue_take(struct co_queue *queue, const struct co_limits *limits, struct list *batch)
{
    size_t taken = 0, bytes = 0;
    /* A key with more items goes to the end of the line; counting the keys as they are now keeps it out of this batch. */
    for (size_t keys = queue->keys.count; keys > 0 && taken < limits->max_items; keys--) {
        struct co_key *key = list_entry(list_first(&queue->keys), struct co_key, node);
        struct co_item *item = item_of(list_first(&key->items));
        if (taken > 0 && (item->bytes > limits->max_bytes || bytes > limits->max_bytes - item->bytes))
            break;
        bytes += item->bytes;
        taken++;
        list_remove(&queue->keys, &key->node);
        list_push_back(&queue->keys, &key->node);
        co_queue_remove(queue, item);
        list_push_back(batch, &item->node);
    }
    return taken;
}
