/*
 * wrap_memory.c - the allocations of our own code: what the linker's --wrap makes of malloc and its kin in the rooms and in the
 * test. libc's and libpq's own don't come here, for these are other objects.
 */
#include <string.h>

#include "failing/points.h"

#define WRAP(name) __asm__("__wrap_" #name)
#define CALLER     __builtin_return_address(0)

void *wrap_malloc(size_t size) WRAP(malloc);
void *wrap_calloc(size_t n, size_t size) WRAP(calloc);
void *wrap_realloc(void *old, size_t size) WRAP(realloc);
char *wrap_strdup(const char *text) WRAP(strdup);
char *wrap_strndup(const char *text, size_t len) WRAP(strndup);
void wrap_free(void *what) WRAP(free);

void *wrap_malloc(size_t size)
{
    return fp_point(FP_MEMORY, "malloc", size, CALLER) ? NULL : fp_keep(real_malloc(size), CALLER);
}

void *wrap_calloc(size_t n, size_t size)
{
    return fp_point(FP_MEMORY, "calloc", n * size, CALLER) ? NULL : fp_keep(real_calloc(n, size), CALLER);
}

void *wrap_realloc(void *old, size_t size)
{
    if (fp_point(FP_MEMORY, "realloc", size, CALLER))
        return NULL;
    fp_drop(old);
    return fp_keep(real_realloc(old, size), CALLER);
}

char *wrap_strdup(const char *text)
{
    return fp_point(FP_MEMORY, "strdup", strlen(text) + 1, CALLER) ? NULL : fp_keep(real_strdup(text), CALLER);
}

char *wrap_strndup(const char *text, size_t len)
{
    return fp_point(FP_MEMORY, "strndup", len + 1, CALLER) ? NULL : fp_keep(real_strndup(text, len), CALLER);
}

void wrap_free(void *what)
{
    fp_drop(what);
    real_free(what);
}
