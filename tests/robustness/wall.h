/*
 * wall.h - processes whose wall clock is wrong: preload/wall.c, built and preloaded.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_WALL_H
#define HOLDFAST_TESTS_ROBUSTNESS_WALL_H

#include <stdint.h>

enum { WALL_ENV = 4 };

/* The library to preload is in `dir`, or the test fails. Call it once, before the others. */
void wall_build(const char *dir);
/* `env` is a list for t_spawn_opts: the wall clock of who is started with it is off by the seconds in `file`, at any moment. */
void wall_env(const char *env[WALL_ENV], const char *file);
/* The clocks that go by `file` are off by so many seconds now. */
void wall_set(const char *file, int64_t seconds);

#endif
