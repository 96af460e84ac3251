/*
 * heap.h - an intrusive binary min-heap by a 64-bit key: timers and deadlines.
 *
 * Each element holds a `size_t` at `index_offset`, which is the heap's: its place + 1, or 0 while it is in no heap. The
 * heap never owns its elements. Equal keys leave in no particular order.
 */
#ifndef HOLDFAST_BASE_HEAP_H
#define HOLDFAST_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_slot {
    int64_t key;
    void *element;
};

struct heap {
    struct heap_slot *slots;
    size_t n, cap;
    size_t index_offset;
};

/* An empty heap of elements that keep their index at `index_offset`: offsetof(struct io_timer, heap_index). */
void heap_init(struct heap *heap, size_t index_offset);
/* Frees the heap's memory; elements still in it are not touched. */
void heap_release(struct heap *heap);

/* The element is in the heap under `key`; one that is already in it moves to the new key, which cannot fail. False: no
 * memory, nothing changed. */
bool heap_set(struct heap *heap, void *element, int64_t key) __attribute__((warn_unused_result));
/* The element is not in the heap; one that wasn't is allowed. */
void heap_remove(struct heap *heap, void *element);

/* The element with the smallest key, or NULL if empty. */
static inline void *heap_top(const struct heap *heap)
{
    return heap->n ? heap->slots[0].element : NULL;
}

/* The smallest key, or `otherwise` if empty. */
static inline int64_t heap_top_key(const struct heap *heap, int64_t otherwise)
{
    return heap->n ? heap->slots[0].key : otherwise;
}

#endif
