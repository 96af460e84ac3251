/*
 * arena.c - memory for one call: blocks taken from malloc and handed out from the front.
 *
 * Invariants: `used` is the sum of what was handed out, each rounded up to the alignment, and never above `budget`. The first
 * block lies behind the arena itself, so that a small call costs one malloc. What is large gets a block of its own; blocks
 * double up to BLOCK_MAX, so what is taken from malloc stays below 4/3 of `used` and one block. One thread at a time.
 */
#include "proto/c/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = alignof(max_align_t), BLOCK_FIRST = 1024, BLOCK_MAX = 64 << 10 };

#if defined(__SANITIZE_ADDRESS__) || defined(HP_ARENA_EXACT)
enum { EXACT_BLOCKS = 1 }; /* AddressSanitizer sees each allocation by itself, and so does who makes each one fail */
#else
enum { EXACT_BLOCKS = 0 };
#endif

struct block {
    struct block *next;
    alignas(max_align_t) unsigned char bytes[];
};

struct hp_arena {
    ProtobufCAllocator allocator;
    size_t budget, used;
    enum hp_arena_failure failure;
    size_t next_size; /* of the block to come */
    struct block *blocks;
    unsigned char *at, *end; /* what is free in the present block */
    alignas(max_align_t) unsigned char first[];
};

void *(*hp_malloc_hook)(size_t size);

static void *take(size_t size)
{
    return hp_malloc_hook ? hp_malloc_hook(size) : malloc(size);
}

static unsigned char *new_block(struct hp_arena *arena, size_t size)
{
    struct block *block;

    if (size > SIZE_MAX - sizeof *block)
        return NULL;
    block = take(sizeof *block + size);
    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    return block->bytes;
}

/* Not zeroed. */
static void *hand_out(struct hp_arena *arena, size_t size)
{
    unsigned char *start;
    size_t rounded;

    if (size == 0)
        size = 1;
    rounded = size > SIZE_MAX - ALIGNMENT ? SIZE_MAX : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (rounded > arena->budget - arena->used) {
        arena->failure = HP_ARENA_BUDGET;
        return NULL;
    }
    if (rounded <= (size_t)(arena->end - arena->at) && !EXACT_BLOCKS) {
        start = arena->at;
        arena->at += rounded;
    } else if (rounded > arena->next_size / 4 || EXACT_BLOCKS) {
        start = new_block(arena, EXACT_BLOCKS ? size : rounded);
    } else {
        start = new_block(arena, arena->next_size);
        if (start) {
            arena->at = start + rounded;
            arena->end = start + arena->next_size;
            if (arena->next_size < BLOCK_MAX)
                arena->next_size *= 2;
        }
    }
    if (!start) {
        arena->failure = HP_ARENA_MEMORY;
        return NULL;
    }
    arena->used += rounded;
    return start;
}

static void *allocator_alloc(void *data, size_t size)
{
    return hand_out(data, size);
}

static void allocator_free(void *data, void *pointer)
{
    (void)data;
    (void)pointer;
}

static void start_anew(struct hp_arena *arena, size_t budget)
{
    memset(arena, 0, sizeof *arena);
    arena->allocator.alloc = allocator_alloc;
    arena->allocator.free = allocator_free;
    arena->allocator.allocator_data = arena;
    arena->budget = budget;
    arena->next_size = (size_t)BLOCK_FIRST * 4;
    arena->at = arena->first;
    arena->end = arena->first + BLOCK_FIRST;
}

struct hp_arena *hp_arena_new(size_t budget)
{
    struct hp_arena *arena = take(sizeof *arena + BLOCK_FIRST);

    if (!arena)
        return NULL;
    start_anew(arena, budget);
    return arena;
}

static void free_blocks(struct hp_arena *arena)
{
    while (arena->blocks) {
        struct block *next = arena->blocks->next;

        free(arena->blocks);
        arena->blocks = next;
    }
}

void hp_arena_reset(struct hp_arena *arena, size_t budget)
{
    free_blocks(arena);
    start_anew(arena, budget);
}

void hp_arena_free(struct hp_arena *arena)
{
    if (!arena)
        return;
    free_blocks(arena);
    free(arena);
}

void *hp_alloc(struct hp_arena *arena, size_t size)
{
    void *start = hand_out(arena, size);

    if (start)
        memset(start, 0, size);
    return start;
}

void *hp_alloc_array(struct hp_arena *arena, size_t n, size_t size)
{
    size_t product;

    if (__builtin_mul_overflow(n, size, &product)) {
        arena->failure = HP_ARENA_BUDGET;
        return NULL;
    }
    return hp_alloc(arena, product);
}

char *hp_strndup(struct hp_arena *arena, const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? hand_out(arena, len + 1) : NULL;

    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

size_t hp_arena_used(const struct hp_arena *arena)
{
    return arena->used;
}

ProtobufCAllocator *hp_arena_allocator(struct hp_arena *arena)
{
    return &arena->allocator;
}

enum hp_arena_failure hp_arena_failure(const struct hp_arena *arena)
{
    return arena->failure;
}
