/*
 * pipes.c - see pipes.h.
 */
#include "net/pipes.h"

#include <stdlib.h>

enum { FIRST_BUCKETS = 64, CLOSE_AT_ONCE = 64 };

struct net_pipes *net_pipes_new(int max)
{
    struct net_pipes *pipes = calloc(1, sizeof(*pipes));
    if (!pipes)
        return NULL;
    pthread_mutex_init(&pipes->lock, NULL);
    pipes->max = max;
    pipes->owners = 1;
    return pipes;
}

void net_pipes_put(struct net_pipes *pipes)
{
    if (!pipes)
        return;
    pthread_mutex_lock(&pipes->lock);
    bool last = --pipes->owners == 0;
    pthread_mutex_unlock(&pipes->lock);
    if (!last)
        return;
    for (size_t i = 0; i < pipes->n_buckets; i++) {
        for (struct net_pipe *pipe = pipes->buckets[i], *next; pipe; pipe = next) {
            next = pipe->next;
            free(pipe);
        }
    }
    free(pipes->buckets);
    pthread_mutex_destroy(&pipes->lock);
    free(pipes);
}

/* ---- the table, with the lock held ---- */

static struct net_pipe **place(struct net_pipes *pipes, uint32_t id)
{
    struct net_pipe **at = &pipes->buckets[id & (pipes->n_buckets - 1)]; /* nng counts them */
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static bool reserve(struct net_pipes *pipes)
{
    if (pipes->n < pipes->n_buckets)
        return true;
    size_t n = pipes->n_buckets ? pipes->n_buckets * 2 : FIRST_BUCKETS;
    struct net_pipe **buckets = calloc(n, sizeof(struct net_pipe *));
    if (!buckets)
        return pipes->n_buckets > 0;
    for (size_t i = 0; i < pipes->n_buckets; i++) {
        for (struct net_pipe *pipe = pipes->buckets[i], *next; pipe; pipe = next) {
            next = pipe->next;
            pipe->next = buckets[pipe->id & (n - 1)];
            buckets[pipe->id & (n - 1)] = pipe;
        }
    }
    free(pipes->buckets);
    pipes->buckets = buckets;
    pipes->n_buckets = n;
    return true;
}

static bool add(struct net_pipes *pipes, uint32_t id)
{
    struct net_pipe *pipe = reserve(pipes) ? calloc(1, sizeof(*pipe)) : NULL;
    if (!pipe)
        return false;
    pipe->removed.kind = NET_REMOVED;
    net_source_init(&pipe->source);
    pipe->id = id;
    pipe->refs = 1;
    *place(pipes, id) = pipe;
    pipes->n++;
    return true;
}

/* Its reference is now the caller's. NULL: it was never added. */
static struct net_pipe *take_out(struct net_pipes *pipes, uint32_t id)
{
    struct net_pipe **at = pipes->n_buckets ? place(pipes, id) : NULL, *pipe = at ? *at : NULL;
    if (!pipe)
        return NULL;
    *at = pipe->next;
    pipe->next = NULL;
    pipes->n--;
    return pipe;
}

void net_pipes_release_locked(struct net_pipes *pipes, struct net_pipe *pipe)
{
    (void)pipes;
    if (--pipe->refs == 0)
        free(pipe);
}

/* ---- nng's threads ---- */

/* Every pipe that passes ADD_PRE gets its REM_POST, also one closed here. */
static void on_added(struct net_pipes *pipes, nng_pipe pipe)
{
    pthread_mutex_lock(&pipes->lock);
    bool full = pipes->open++ >= pipes->max;
    pipes->refused += full;
    bool refused = full || !add(pipes, (uint32_t)nng_pipe_id(pipe));
    pthread_mutex_unlock(&pipes->lock);
    if (refused)
        nng_pipe_close(pipe);
}

static void on_removed(struct net_pipes *pipes, nng_pipe id)
{
    pthread_mutex_lock(&pipes->lock);
    struct net_pipe *pipe = take_out(pipes, (uint32_t)nng_pipe_id(id));
    pipes->open--;
    if (pipe && pipes->box)
        net_mailbox_post(pipes->box, &pipe->removed.letter);
    else if (pipe)
        net_pipes_release_locked(pipes, pipe);
    pthread_mutex_unlock(&pipes->lock);
}

static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    if (event == NNG_PIPE_EV_REM_POST)
        on_removed(arg, pipe);
    else
        on_added(arg, pipe);
}

/* ---- the loop ---- */

int net_pipes_watch(struct net_pipes *pipes, nng_socket sock, struct net_mailbox *box)
{
    pipes->sock = sock;
    pipes->box = box;
    int rc = nng_pipe_notify(sock, NNG_PIPE_EV_ADD_PRE, on_pipe, pipes);
    return rc ? rc : nng_pipe_notify(sock, NNG_PIPE_EV_REM_POST, on_pipe, pipes);
}

void net_pipes_forget_box(struct net_pipes *pipes)
{
    pthread_mutex_lock(&pipes->lock);
    pipes->box = NULL;
    pthread_mutex_unlock(&pipes->lock);
}

struct net_pipe *net_pipes_get(struct net_pipes *pipes, uint32_t id)
{
    pthread_mutex_lock(&pipes->lock);
    struct net_pipe *pipe = pipes->n_buckets ? *place(pipes, id) : NULL;
    if (pipe)
        pipe->refs++;
    pthread_mutex_unlock(&pipes->lock);
    return pipe;
}

void net_pipes_release(struct net_pipes *pipes, struct net_pipe *pipe)
{
    pthread_mutex_lock(&pipes->lock);
    net_pipes_release_locked(pipes, pipe);
    pthread_mutex_unlock(&pipes->lock);
}

int net_pipes_close_stalled(struct net_pipes *pipes, int64_t since_ms)
{
    uint32_t stalled[CLOSE_AT_ONCE];
    int n = 0;
    pthread_mutex_lock(&pipes->lock);
    for (size_t i = 0; i < pipes->n_buckets; i++)
        for (struct net_pipe *pipe = pipes->buckets[i]; pipe; pipe = pipe->next)
            if (pipe->unsent && pipe->progress_ms < since_ms && n < CLOSE_AT_ONCE)
                stalled[n++] = pipe->id;
    pthread_mutex_unlock(&pipes->lock);
    for (int i = 0; i < n; i++)
        nng_pipe_close((nng_pipe){.id = stalled[i]});
    return n;
}
