/*
 * heap.c - see heap.h. Invariants: slots[i].key >= slots[(i - 1) / 2].key, and the index in slots[i].element is i + 1.
 */
#include "base/heap.h"

#include <stdlib.h>

static size_t *index_of(const struct heap *heap, void *element)
{
    return (size_t *)(void *)((char *)element + heap->index_offset);
}

static void place(struct heap *heap, size_t at, struct heap_slot slot)
{
    heap->slots[at] = slot;
    *index_of(heap, slot.element) = at + 1;
}

static void sift_up(struct heap *heap, size_t at, struct heap_slot slot)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (heap->slots[parent].key <= slot.key)
            break;
        place(heap, at, heap->slots[parent]);
        at = parent;
    }
    place(heap, at, slot);
}

static void sift_down(struct heap *heap, size_t at, struct heap_slot slot)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && heap->slots[child + 1].key < heap->slots[child].key)
            child++;
        if (heap->slots[child].key >= slot.key)
            break;
        place(heap, at, heap->slots[child]);
        at = child;
    }
    place(heap, at, slot);
}

void heap_init(struct heap *heap, size_t index_offset)
{
    *heap = (struct heap){.index_offset = index_offset};
}

void heap_release(struct heap *heap)
{
    free(heap->slots);
    heap->slots = NULL;
    heap->n = heap->cap = 0;
}

static bool grow(struct heap *heap)
{
    size_t cap = heap->cap ? heap->cap * 2 : 64;
    struct heap_slot *slots = realloc(heap->slots, cap * sizeof(*slots));
    if (!slots)
        return false;
    heap->slots = slots;
    heap->cap = cap;
    return true;
}

bool heap_set(struct heap *heap, void *element, int64_t key)
{
    size_t index = *index_of(heap, element);
    struct heap_slot slot = {.key = key, .element = element};
    if (!index) {
        if (heap->n == heap->cap && !grow(heap))
            return false;
        sift_up(heap, heap->n++, slot);
    } else if (key < heap->slots[index - 1].key) {
        sift_up(heap, index - 1, slot);
    } else {
        sift_down(heap, index - 1, slot);
    }
    return true;
}

void heap_remove(struct heap *heap, void *element)
{
    size_t index = *index_of(heap, element);
    if (!index)
        return;
    *index_of(heap, element) = 0;
    struct heap_slot last = heap->slots[--heap->n];
    if (last.element == element)
        return;
    int64_t removed = heap->slots[index - 1].key;
    if (last.key < removed)
        sift_up(heap, index - 1, last);
    else
        sift_down(heap, index - 1, last);
}
