/*
 * out.c - see out.h. A chunk is sent from `sent` to `used` and freed when it has left; the last one takes what still fits.
 */
#include "net/out.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { FIRST = 2048, MORE = 16 << 10, GATHERED = 16 };

struct net_chunk {
    struct net_chunk *next;
    size_t size, used, sent;
    long messages;
    char bytes[];
};

void *net_out_append(struct net_out *out, size_t n)
{
    struct net_chunk *chunk = out->last;
    if (!chunk || chunk->size - chunk->used < n) {
        size_t least = chunk ? MORE : FIRST, size = n > least ? n : least;
        chunk = malloc(sizeof(*chunk) + size);
        if (!chunk)
            return NULL;
        *chunk = (struct net_chunk){.size = size};
        if (out->last)
            out->last->next = chunk;
        else
            out->first = chunk;
        out->last = chunk;
    }
    void *room = chunk->bytes + chunk->used;
    chunk->used += n;
    chunk->messages++;
    out->bytes += n;
    out->messages++;
    return room;
}

static void drop_first(struct net_out *out)
{
    struct net_chunk *chunk = out->first;
    out->first = chunk->next;
    if (!out->first)
        out->last = NULL;
    out->messages -= chunk->messages;
    out->bytes -= chunk->used - chunk->sent;
    free(chunk);
}

static void sent(struct net_out *out, size_t n)
{
    while (n) {
        struct net_chunk *chunk = out->first;
        size_t left = chunk->used - chunk->sent, part = n < left ? n : left;
        chunk->sent += part;
        out->bytes -= part;
        n -= part;
        if (part == left)
            drop_first(out);
    }
}

int net_out_send(struct net_out *out, int fd)
{
    while (out->first) {
        struct iovec parts[GATHERED];
        struct msghdr message = {.msg_iov = parts};
        size_t total = 0;
        for (struct net_chunk *chunk = out->first; chunk && message.msg_iovlen < GATHERED; chunk = chunk->next) {
            parts[message.msg_iovlen++] = (struct iovec){chunk->bytes + chunk->sent, chunk->used - chunk->sent};
            total += chunk->used - chunk->sent;
        }
        ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -errno;
        sent(out, (size_t)n);
        if ((size_t)n < total)
            return 0;
    }
    return 0;
}

void net_out_release(struct net_out *out)
{
    while (out->first)
        drop_first(out);
}
