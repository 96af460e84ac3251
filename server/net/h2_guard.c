/*
 * h2_guard.c - see http_conn.h: what one peer may make HTTP/2 cost.
 *
 * Memory: nghttp2 allocates through here. A session that has more than SESSION_MAX is over at the end of the turn, in which it can
 * get but little more.
 *
 * Work: each frame that asks for something and brings nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, RST_STREAM, CONTINUATION,
 * an empty DATA; nghttp2 tells nothing of those that it doesn't know), and each stream that must be reset for what the peer did,
 * costs one of a purse. Time fills it slowly, and each frame of a response by two: clients that measure a connection by PINGs do
 * so with their calls, and open windows for what they were sent. An empty purse ends the connection with ENHANCE_YOUR_CALM.
 */
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_conn.h"
#include "proto/c/arena.h"

enum { SESSION_MAX = 2 << 20, RESERVE = 256 << 10, PURSE = 1000, A_SECOND = 200, A_FRAME = 2 };

/* ---- memory ---- */

/* Blocks that nghttp2 gets when there is no memory. It takes care of that itself, but not everywhere: 1.52 frees an item twice if
 * its queue can't grow. So it doesn't get to see it, and its connection is doomed. */
struct h2_reserve {
    size_t used;
    int blocks; /* not given back; without any, all of it is free again */
    max_align_t bytes[RESERVE / sizeof(max_align_t)];
};

bool h2_reserve_new(struct net_http *http)
{
    http->reserve = calloc(1, sizeof(*http->reserve));
    return http->reserve != NULL;
}

static bool is_reserved(const struct http_conn *conn, const void *ptr)
{
    const struct h2_reserve *reserve = conn->http->reserve;
    return (uintptr_t)ptr >= (uintptr_t)reserve->bytes && (uintptr_t)ptr < (uintptr_t)(reserve + 1);
}

/* Each block stands behind its size. */
static void *get_reserved(struct http_conn *conn, size_t size)
{
    struct h2_reserve *reserve = conn->http->reserve;
    size_t n = 1 + (size + sizeof(max_align_t) - 1) / sizeof(max_align_t);
    http_doom(conn);
    if (n > sizeof(reserve->bytes) / sizeof(reserve->bytes[0]) - reserve->used)
        return NULL;
    max_align_t *block = &reserve->bytes[reserve->used];
    reserve->used += n;
    reserve->blocks++;
    memcpy(block, &size, sizeof(size));
    return block + 1;
}

static void put_reserved(struct http_conn *conn)
{
    if (--conn->http->reserve->blocks == 0)
        conn->http->reserve->used = 0;
}

static size_t size_of(const struct http_conn *conn, void *ptr)
{
    size_t size;
    if (!is_reserved(conn, ptr))
        return malloc_usable_size(ptr);
    memcpy(&size, (max_align_t *)ptr - 1, sizeof(size));
    return size;
}

static void *get(size_t size, void *arg)
{
    struct http_conn *conn = arg;
    size = size ? size : 1;
    void *ptr = hp_malloc_hook ? hp_malloc_hook(size) : malloc(size);
    if (!ptr)
        return get_reserved(conn, size);
    conn->session_bytes += malloc_usable_size(ptr);
    if (conn->session_bytes > SESSION_MAX)
        http_doom_protocol(conn);
    return ptr;
}

static void put(void *ptr, void *arg)
{
    struct http_conn *conn = arg;
    if (!ptr)
        return;
    if (is_reserved(conn, ptr)) {
        put_reserved(conn);
        return;
    }
    conn->session_bytes -= malloc_usable_size(ptr);
    free(ptr);
}

static void *get_zeroed(size_t n, size_t size, void *arg)
{
    void *ptr = size && n > SIZE_MAX / size ? NULL : get(n * size, arg);
    if (ptr)
        memset(ptr, 0, n * size);
    return ptr;
}

static void *change(void *ptr, size_t size, void *arg)
{
    size_t had = ptr ? size_of(arg, ptr) : 0;
    void *to = get(size, arg);
    if (!to)
        return NULL;
    if (ptr)
        memcpy(to, ptr, had < size ? had : size);
    put(ptr, arg);
    return to;
}

nghttp2_mem h2_memory(struct http_conn *conn)
{
    return (nghttp2_mem){.mem_user_data = conn, .malloc = get, .free = put, .calloc = get_zeroed, .realloc = change};
}

/* ---- work ---- */

void h2_purse_init(struct http_conn *conn)
{
    conn->purse = PURSE;
    conn->purse_ms = http_now(conn->http);
}

void h2_earn(struct http_conn *conn)
{
    conn->purse = conn->purse + A_FRAME < PURSE ? conn->purse + A_FRAME : PURSE;
}

static void fill(struct http_conn *conn)
{
    int64_t ms = http_now(conn->http) - conn->purse_ms, more = ms * A_SECOND / 1000;
    if (more <= 0)
        return;
    conn->purse_ms += more * 1000 / A_SECOND;
    conn->purse = conn->purse + more < PURSE ? (int)(conn->purse + more) : PURSE;
}

void h2_spend(struct http_conn *conn)
{
    if (conn->purse > 0 && --conn->purse > 0)
        return;
    fill(conn);
    if (conn->purse > 0 || conn->calmed)
        return;
    conn->calmed = true;
    nghttp2_session_terminate_session(conn->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

int h2_on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
    bool brings = hd->type == NGHTTP2_HEADERS || (hd->type == NGHTTP2_DATA && (hd->length || hd->flags & NGHTTP2_FLAG_END_STREAM));
    (void)session;
    if (!brings)
        h2_spend(arg);
    return 0;
}
