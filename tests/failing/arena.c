/*
 * arena.c - the arena of proto/c with a block for each allocation, whatever the build: linked instead of the room's own, so that
 * each allocation of a call is one that can fail.
 */
#define HP_ARENA_EXACT

#include "proto/c/arena.c" /* NOLINT(bugprone-suspicious-include): that is the point */
