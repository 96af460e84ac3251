/*
 * heap.h - an intrusive min-heap by a 64-bit key: timers and deadlines.
 *
 * A `struct heap_node` is embedded in what is in the heap, which never owns its elements and needs no memory of its own: nothing
 * here can fail. A node is in one heap at most; a zeroed or removed node is in none. Equal keys leave in no particular order.
 * Setting and removing take O(log n), amortized.
 */
#ifndef HOLDFAST_BASE_HEAP_H
#define HOLDFAST_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    struct heap_node *left, *right, *parent; /* the heap's */
    int64_t key;
    bool linked;
};

/* Zeroed, it is empty. */
struct heap {
    struct heap_node *root;
    size_t n;
};

/* The node is in the heap under `key`; one that is already in it moves to the new key. */
void heap_set(struct heap *heap, struct heap_node *node, int64_t key);
/* The node is not in the heap; one that wasn't in any is allowed. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* The node with the smallest key, or NULL if empty. (Its element: list_entry of base/list.h.) */
static inline struct heap_node *heap_top(const struct heap *heap)
{
    return heap->root;
}

/* The smallest key, or `otherwise` if empty. */
static inline int64_t heap_top_key(const struct heap *heap, int64_t otherwise)
{
    return heap->root ? heap->root->key : otherwise;
}

/* The smallest key of all but the top's, or `otherwise` if there is no other. */
static inline int64_t heap_next_key(const struct heap *heap, int64_t otherwise)
{
    const struct heap_node *left = heap->root ? heap->root->left : NULL, *right = heap->root ? heap->root->right : NULL;
    if (left && right)
        return left->key < right->key ? left->key : right->key;
    return left ? left->key : right ? right->key : otherwise;
}

#endif
