/*
 * buf.h - bytes that grow at the end.
 *
 * A failed append (no memory, or beyond `max`) marks the buffer as failed and changes nothing else; later appends do
 * nothing, so that a writer may check once, at its end.
 */
#ifndef HOLDFAST_PROTO_BUF_H
#define HOLDFAST_PROTO_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hp_buf {
    uint8_t *data; /* NUL-terminated when not NULL; the NUL isn't counted */
    size_t len, cap;
    size_t max; /* 0 = no bound */
    bool failed;
};

#define HP_BUF_INIT                                                                                                                \
    {                                                                                                                              \
        0                                                                                                                          \
    }

void hp_buf_release(struct hp_buf *buf);
void hp_buf_reset(struct hp_buf *buf); /* empty again, memory kept, not failed */
/* True if `more` bytes can now be written at data + len; the writer then raises len. False: the buffer has failed. */
bool hp_buf_reserve(struct hp_buf *buf, size_t more);
void hp_buf_add(struct hp_buf *buf, const void *data, size_t len);
void hp_buf_addstr(struct hp_buf *buf, const char *text);
void hp_buf_addch(struct hp_buf *buf, char c);
void hp_buf_printf(struct hp_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
