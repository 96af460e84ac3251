/*
 * wall.c - see wall.h.
 */
#include "robustness/wall.h"

#include "harness/harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { BUILD_MS = 60000 };

static char library[256];

void wall_build(const char *dir)
{
    snprintf(library, sizeof(library), "%s/wall.so", dir);
    const char *const argv[] = {
        "cc", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-o", library, T_SOURCE_DIR "/tests/robustness/preload/wall.c", NULL};
    struct t_result result = t_run(argv, NULL, BUILD_MS);
    if (result.status != 0)
        fail_msg("wall.c cannot be built: %s", result.err);
}

void wall_env(const char *env[WALL_ENV], const char *file)
{
    const char *asan = getenv("ASAN_OPTIONS");
    env[0] = t_printf("LD_PRELOAD=%s", library);
    env[1] = t_printf("T_WALL_FILE=%s", file);
    env[2] = t_printf("ASAN_OPTIONS=%s%sverify_asan_link_order=0", asan ? asan : "", asan ? ":" : "");
    env[3] = NULL;
}

void wall_set(const char *file, int64_t seconds)
{
    const int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(pwrite(fd, &seconds, sizeof(seconds), 0), sizeof(seconds));
    close(fd);
}
