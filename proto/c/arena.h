/*
 * arena.h - memory for one call, with a budget.
 *
 * All that belongs to a call (its request as unpacked, its response as packed) comes from its arena and goes with it. The
 * budget bounds what one call can make the process use: beyond it, and when memory is out, hp_alloc returns NULL, which
 * protobuf-c takes as a failed unpack. The process gives at most a third more than what is handed out, and one block of
 * 64 KiB. One thread at a time.
 */
#ifndef HOLDFAST_PROTO_ARENA_H
#define HOLDFAST_PROTO_ARENA_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

struct hp_arena;

/* NULL: no memory. */
struct hp_arena *hp_arena_new(size_t budget);
/* All that was allocated from it is gone. NULL is allowed. */
void hp_arena_free(struct hp_arena *arena);
/* The same is gone, and the arena is as new, with this budget: for who makes many calls one after the other. */
void hp_arena_reset(struct hp_arena *arena, size_t budget);
/* Zeroed, aligned for any type, or NULL. */
void *hp_alloc(struct hp_arena *arena, size_t size);
/* Zeroed array, with the product checked, or NULL. */
void *hp_alloc_array(struct hp_arena *arena, size_t n, size_t size);
/* A NUL-terminated copy, or NULL. */
char *hp_strndup(struct hp_arena *arena, const char *text, size_t len);
size_t hp_arena_used(const struct hp_arena *arena);
/* Why the latest allocation that failed did so: the budget, or malloc. */
enum hp_arena_failure { HP_ARENA_FINE, HP_ARENA_BUDGET, HP_ARENA_MEMORY };
enum hp_arena_failure hp_arena_failure(const struct hp_arena *arena);
/* protobuf-c's view; its free does nothing. Valid as long as the arena. */
ProtobufCAllocator *hp_arena_allocator(struct hp_arena *arena);

/*
 * A port for tests: how the arenas (and proto/c's buffers) get their blocks. NULL = malloc. A test that makes the n-th
 * allocation fail sets it before the first thread starts.
 */
extern void *(*hp_malloc_hook)(size_t size);

#endif
