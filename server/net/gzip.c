/*
 * gzip.c - see gzip.h. A state that is there was reset before each use, so what one message leaves concerns no other.
 */
#include "net/gzip.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    WINDOW_BITS = 15,
    AS_GZIP = 16, /* added to the window's bits: a gzip header, no other */
    MEM_LEVEL = 8,
    STEP = 16 << 10,
    BREATH = 64 << 10
};

struct net_gzip {
    z_stream in, out;
    bool has_in, has_out;
    void (*pause)(void);
};

struct net_gzip *net_gzip_new(void)
{
    return calloc(1, sizeof(struct net_gzip));
}

void net_gzip_free(struct net_gzip *gzip)
{
    if (!gzip)
        return;
    if (gzip->has_in)
        inflateEnd(&gzip->in);
    if (gzip->has_out)
        deflateEnd(&gzip->out);
    free(gzip);
}

void net_gzip_pause(struct net_gzip *gzip, void (*pause)(void))
{
    gzip->pause = pause;
}

static void breathe(const struct net_gzip *gzip)
{
    if (gzip->pause && gzip->in.total_out % BREATH < STEP)
        gzip->pause();
}

static bool ready_in(struct net_gzip *gzip)
{
    if (gzip->has_in)
        return inflateReset(&gzip->in) == Z_OK;
    gzip->has_in = inflateInit2(&gzip->in, WINDOW_BITS + AS_GZIP) == Z_OK;
    return gzip->has_in;
}

static bool ready_out(struct net_gzip *gzip)
{
    if (gzip->has_out)
        return deflateReset(&gzip->out) == Z_OK;
    /* The fastest level: what is compressed here is compressed on the one thread that serves everybody. */
    gzip->has_out =
        deflateInit2(&gzip->out, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS + AS_GZIP, MEM_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
    return gzip->has_out;
}

enum net_gunzip net_gzip_open(struct net_gzip *gzip, const void *data, size_t len, size_t max, struct hp_buf *out)
{
    z_stream *stream = &gzip->in;
    size_t before = out->len, left = max;
    uint8_t beyond; /* one byte more than may come shows that there is one */
    int status;

    if (!ready_in(gzip))
        return NET_GUNZIP_NO_MEMORY;
    stream->next_in = (Bytef *)(uintptr_t)data;
    stream->avail_in = (uInt)len;
    do {
        size_t step = left < STEP ? left : STEP, got;

        if (!hp_buf_reserve(out, step))
            return NET_GUNZIP_NO_MEMORY;
        stream->next_out = step ? out->data + out->len : &beyond;
        stream->avail_out = step ? (uInt)step : 1;
        status = inflate(stream, Z_NO_FLUSH);
        got = (step ? step : 1) - stream->avail_out;
        if (got > left) {
            out->len = before;
            return NET_GUNZIP_TOO_LARGE;
        }
        left -= got;
        out->len += got;
        breathe(gzip);
    } while (status == Z_OK);
    if (out->data)
        out->data[out->len] = '\0';
    if (status == Z_STREAM_END && stream->avail_in == 0)
        return NET_GUNZIP_OK;
    out->len = before;
    return status == Z_MEM_ERROR ? NET_GUNZIP_NO_MEMORY : NET_GUNZIP_MALFORMED;
}

enum net_gunzip net_gzip_measure(struct net_gzip *gzip, const void *data, size_t len, size_t max, size_t *size)
{
    z_stream *stream = &gzip->in;
    uint8_t step[STEP];
    int status = Z_OK;

    if (!ready_in(gzip))
        return NET_GUNZIP_NO_MEMORY;
    stream->next_in = (Bytef *)(uintptr_t)data;
    stream->avail_in = (uInt)len;
    for (*size = 0; status == Z_OK && *size <= max; *size += sizeof(step) - stream->avail_out) {
        stream->next_out = step;
        stream->avail_out = sizeof(step);
        status = inflate(stream, Z_NO_FLUSH);
        breathe(gzip);
    }
    if (*size > max)
        return NET_GUNZIP_TOO_LARGE;
    if (status == Z_STREAM_END && stream->avail_in == 0)
        return NET_GUNZIP_OK;
    return status == Z_MEM_ERROR ? NET_GUNZIP_NO_MEMORY : NET_GUNZIP_MALFORMED;
}

bool net_gzip_close(struct net_gzip *gzip, const void *data, size_t len, struct hp_buf *out)
{
    z_stream *stream = &gzip->out;

    if (len < 2 || !ready_out(gzip) || !hp_buf_reserve(out, len - 1))
        return false;
    stream->next_in = (Bytef *)(uintptr_t)data;
    stream->avail_in = (uInt)len;
    stream->next_out = out->data + out->len;
    stream->avail_out = (uInt)(len - 1);
    if (deflate(stream, Z_FINISH) != Z_STREAM_END) {
        out->data[out->len] = '\0';
        return false;
    }
    out->len += len - 1 - stream->avail_out;
    out->data[out->len] = '\0';
    return true;
}
