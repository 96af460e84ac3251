/*
 * buf.c - bytes that grow at the end.
 *
 * Invariant: data is NULL or data[len] is NUL and cap > len. One thread at a time.
 */
#include "proto/c/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/arena.h"

void hp_buf_release(struct hp_buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->len = buf->cap = 0;
    buf->failed = false;
}

void hp_buf_reset(struct hp_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data)
        buf->data[0] = '\0';
}

static uint8_t *grow(struct hp_buf *buf, size_t cap)
{
    uint8_t *data;

    if (!hp_malloc_hook)
        return realloc(buf->data, cap);
    data = hp_malloc_hook(cap);
    if (!data)
        return NULL;
    if (buf->data)
        memcpy(data, buf->data, buf->len + 1);
    free(buf->data);
    return data;
}

bool hp_buf_reserve(struct hp_buf *buf, size_t more)
{
    size_t need, cap;
    uint8_t *data;

    if (buf->failed)
        return false;
    if (more >= SIZE_MAX - buf->len || (buf->max && (buf->len > buf->max || more > buf->max - buf->len)))
        goto failed;
    need = buf->len + more + 1;
    if (need <= buf->cap)
        return true;
    cap = buf->cap ? buf->cap : 128;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    data = grow(buf, cap);
    if (!data)
        goto failed;
    buf->data = data;
    buf->cap = cap;
    buf->data[buf->len] = '\0';
    return true;
failed:
    buf->failed = true;
    return false;
}

void hp_buf_add(struct hp_buf *buf, const void *data, size_t len)
{
    if (!hp_buf_reserve(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void hp_buf_addstr(struct hp_buf *buf, const char *text)
{
    hp_buf_add(buf, text, strlen(text));
}

void hp_buf_addch(struct hp_buf *buf, char c)
{
    hp_buf_add(buf, &c, 1);
}

void hp_buf_printf(struct hp_buf *buf, const char *format, ...)
{
    va_list args, again;
    int n;

    if (buf->failed)
        return;
    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        buf->failed = true;
    else if (hp_buf_reserve(buf, (size_t)n)) {
        vsnprintf((char *)buf->data + buf->len, (size_t)n + 1, format, again);
        buf->len += (size_t)n;
    }
    va_end(again);
    va_end(args);
}
