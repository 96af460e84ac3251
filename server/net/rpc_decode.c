/*
 * rpc_decode.c - one message of a request as protobuf: inflated, and read from JSON. What is large is done beside the loop
 * (net/offload.h), with buffers that belong to that job alone; its call waits for it, or is gone when it comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "net/json_read.h"
#include "net/offload.h"
#include "net/rpc_call.h"
#include "proto/c/wire.h"

enum {
    LITTLE = 16 << 10,  /* bytes of a request that are inflated or read on the loop's thread: less than a millisecond */
    STREAMED = 64 << 10 /* the same of a stream's message: no service of ours needs more */
};

/* What is to be done, and with what. */
struct task {
    const ProtobufCMessageDescriptor *type;
    size_t request_max, max; /* of it as protobuf; of it as it comes, inflated */
    bool compressed, json;
    struct net_gzip *gzip;
    struct hp_buf *plain; /* JSON, inflated */
};

struct rpc_decoding {
    struct offload_job job;
    struct rpc_call *rc; /* NULL: nobody wants it any more */
    struct task task;
    struct hp_buf in, plain, out;
    bool good;
    struct hp_status status;
    int64_t took_ns;
};

/* ---- the work, of either thread ---- */

void rpc_too_large(struct hp_status *status, size_t size, bool at_least, size_t max)
{
    char value[48], limit[32];
    int n = snprintf(value, sizeof(value), at_least ? "more than %zu bytes" : "%zu bytes", size);
    snprintf(limit, sizeof(limit), "%zu bytes", max);
    hp_status_bad_field(status, HP_R_LIMIT, "payload", value, (size_t)n, limit); /* as over nng: envelope.c */
}

/* Into `out`, or `plain` if that is JSON. */
static enum net_gunzip inflated(const struct task *task, const struct hp_buf *in, size_t max, struct hp_buf *out)
{
    struct hp_buf *to = task->json ? task->plain : out;
    hp_buf_reset(to);
    return net_gzip_open(task->gzip, in->data, in->len, max, to);
}

static void not_inflated(struct hp_status *status, enum net_gunzip why, size_t max)
{
    if (why == NET_GUNZIP_TOO_LARGE)
        rpc_too_large(status, max, true, max);
    else if (why == NET_GUNZIP_NO_MEMORY)
        hp_status_set(status, HP_R_QUEUE_FULL, "no memory for the call");
    else
        hp_status_bad_field(status, HP_R_MALFORMED, "payload", NULL, 0, "gzip");
}

static bool read_json(const struct task *task, const struct hp_buf *in, struct hp_buf *out, struct hp_status *status)
{
    const struct hp_buf *from = task->compressed ? task->plain : in;
    hp_buf_reset(out);
    out->max = task->request_max;
    return net_json_read(task->type, (const char *)from->data, from->len, out, status);
}

/* ---- on the loop's thread ---- */

static struct task task_of(const struct rpc_call *rc, bool compressed)
{
    return (struct task){.type = rc->method->request,
                         .request_max = rc->rpc->cfg.request_max,
                         .max = rpc_limit_of(rc),
                         .compressed = compressed && rc->reader.message.len,
                         .json = rc->json};
}

/* What is little is read; the rest is beyond it (BESIDE). */
enum read { READ, FAILED, BESIDE };

static enum read read_little(struct rpc_call *rc, struct task *task, size_t little)
{
    struct hp_status status;
    struct hp_buf *in = &rc->reader.message;
    size_t max = task->max < little ? task->max : little;
    task->gzip = rc->rpc->gzip;
    task->plain = &rc->rpc->plain;
    if ((task->compressed || task->json) && in->len > little)
        return BESIDE;
    enum net_gunzip how = task->compressed ? inflated(task, in, max, &rc->message) : NET_GUNZIP_OK;
    if (how == NET_GUNZIP_TOO_LARGE && max < task->max)
        return BESIDE;
    if (how != NET_GUNZIP_OK)
        not_inflated(&status, how, max);
    else if (!task->json || read_json(task, in, &rc->message, &status))
        return READ;
    rpc_fail(rc, &status);
    return FAILED;
}

static const struct hp_buf *message_of(const struct rpc_call *rc, const struct task *task)
{
    return task->compressed || task->json ? &rc->message : &rc->reader.message;
}

bool rpc_decode_here(struct rpc_call *rc, bool compressed, const void **payload, size_t *len)
{
    struct task task = task_of(rc, compressed);
    enum read read = read_little(rc, &task, STREAMED);
    if (read == BESIDE) {
        struct hp_status status;
        rpc_too_large(&status, STREAMED, true, STREAMED);
        rpc_fail(rc, &status);
    }
    *payload = message_of(rc, &task)->data;
    *len = message_of(rc, &task)->len;
    return read == READ;
}

/* ---- beside it ---- */

static void destroy(struct rpc_decoding *decoding)
{
    hp_buf_release(&decoding->in);
    hp_buf_release(&decoding->plain);
    hp_buf_release(&decoding->out);
    free(decoding);
}

/* Nobody is kept from a core that is shared: whoever works for long on end is only taken off it after milliseconds, whatever his
 * priority, if those who wait are of another control group. */
static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Measured first: what is too large then costs time, but no memory, which would cost everybody time. */
static enum net_gunzip inflated_beside(struct rpc_decoding *decoding)
{
    struct task *task = &decoding->task;
    enum net_gunzip how = NET_GUNZIP_NO_MEMORY;
    size_t size;
    task->gzip = net_gzip_new();
    if (task->gzip) {
        net_gzip_pause(task->gzip, pause_a_little);
        how = net_gzip_measure(task->gzip, decoding->in.data, decoding->in.len, task->max, &size);
    }
    if (how == NET_GUNZIP_OK)
        how = inflated(task, &decoding->in, size, &decoding->out);
    net_gzip_free(task->gzip);
    return how;
}

static void work(struct offload_job *job)
{
    struct rpc_decoding *decoding = list_entry(job, struct rpc_decoding, job);
    struct task *task = &decoding->task;
    int64_t began_ns = hb_monotonic_ns();
    task->plain = &decoding->plain;
    enum net_gunzip how = task->compressed ? inflated_beside(decoding) : NET_GUNZIP_OK;
    decoding->good = how == NET_GUNZIP_OK;
    if (!decoding->good)
        not_inflated(&decoding->status, how, task->max);
    else if (task->json)
        decoding->good = read_json(task, &decoding->in, &decoding->out, &decoding->status);
    decoding->took_ns = hb_monotonic_ns() - began_ns;
}

static void done(struct offload_job *job)
{
    struct rpc_decoding *decoding = list_entry(job, struct rpc_decoding, job);
    struct rpc_call *rc = decoding->rc;
    if (rc) {
        struct hp_buf swap = rc->message;
        rc->message = decoding->out;
        decoding->out = swap;
        rc->decoding = NULL;
        rpc_hold(rc);
        rpc_count_held(rc);
        if (rc->x)
            net_exchange_charge(rc->x, decoding->took_ns);
        if (rc->x && !rc->ended && decoding->good)
            rpc_give(rc, rc->message.data, rc->message.len);
        else if (rc->x && !rc->ended)
            rpc_fail(rc, &decoding->status);
        rpc_let_go(rc);
    }
    destroy(decoding);
}

static enum offload_rank rank_of(const struct rpc_call *rc)
{
    const struct net_rpc_config *cfg = &rc->rpc->cfg;
    if (net_exchange_is_known(rc->x))
        return OFFLOAD_KNOWN;
    return cfg->knows && cfg->knows(cfg->arg, &rc->call) ? OFFLOAD_NAMED : OFFLOAD_STRANGER;
}

static void beside(struct rpc_call *rc, const struct task *task)
{
    struct hp_status status;
    struct rpc_decoding *decoding = calloc(1, sizeof(*decoding));
    if (decoding) {
        *decoding = (struct rpc_decoding){.job = {.work = work, .done = done}, .rc = rc, .task = *task, .in = rc->reader.message};
        if (offload_run(rc->rpc->cfg.offload, &decoding->job, rank_of(rc))) {
            rc->decoding = decoding;
            rc->reader.message = (struct hp_buf)HP_BUF_INIT;
            rpc_count_held(rc);
            return;
        }
        free(decoding);
    }
    hp_status_set(&status, HP_R_QUEUE_FULL, decoding ? "too many large requests are to be read" : "no memory for the call");
    rpc_fail(rc, &status);
}

void rpc_decode(struct rpc_call *rc, bool compressed)
{
    struct task task = task_of(rc, compressed);
    enum read read = read_little(rc, &task, rc->rpc->cfg.offload ? LITTLE : SIZE_MAX);
    if (rc->rpc->plain.cap > LITTLE)
        hp_buf_release(&rc->rpc->plain);
    if (read == BESIDE)
        beside(rc, &task);
    if (read != READ)
        return;
    rpc_count_held(rc);
    if (rc->x)
        rpc_give(rc, message_of(rc, &task)->data, message_of(rc, &task)->len);
}

size_t rpc_decode_held(const struct rpc_call *rc)
{
    return rc->decoding ? rc->decoding->in.len : 0;
}

void rpc_decode_forget(struct rpc_call *rc)
{
    struct rpc_decoding *decoding = rc->decoding;
    if (!decoding)
        return;
    rc->decoding = NULL;
    decoding->rc = NULL;
    if (offload_cancel(rc->rpc->cfg.offload, &decoding->job))
        destroy(decoding);
}
