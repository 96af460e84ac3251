/*
 * rpc.c - see rpc.h: the life of a call over HTTP (drawn in rpc_call.h), and what HTTP and the services ask of it.
 */
#include "net/rpc_call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/wire.h"

enum { MAX_CALLS = 65536, DEFAULT_WAIT_MS = 30000 };

struct net_rpc *net_rpc_new(struct io *io, const struct net_rpc_config *cfg)
{
    struct net_rpc *rpc = calloc(1, sizeof(*rpc));
    if (!rpc)
        return NULL;
    rpc->io = io;
    rpc->cfg = *cfg;
    if (!rpc->cfg.request_max)
        rpc->cfg.request_max = HP_REQUEST_MAX;
    if (!rpc->cfg.reply_max)
        rpc->cfg.reply_max = HP_ENVELOPE_MAX;
    if (!rpc->cfg.max_calls)
        rpc->cfg.max_calls = MAX_CALLS;
    if (!rpc->cfg.default_wait_ms)
        rpc->cfg.default_wait_ms = DEFAULT_WAIT_MS;
    list_init(&rpc->calls);
    rpc->gzip = net_gzip_new();
    if (!rpc->gzip) {
        free(rpc);
        return NULL;
    }
    return rpc;
}

/* ---- the end of a call ---- */

/* A call that learns that it has gone may be answered from within. */
static void tell_gone(struct rpc_call *rc)
{
    if (!rc->answered && rc->call.gone)
        rc->call.gone(&rc->call);
}

static void on_gone_task(struct io_task *task)
{
    struct rpc_call *rc = list_entry(task, struct rpc_call, gone);
    rpc_hold(rc);
    rc->gone_posted = false;
    tell_gone(rc);
    rpc_let_go(rc);
}

/* Once. Not from within a function of the call, whose service is amid something: then at the end of the turn. */
static void call_gone(struct rpc_call *rc, bool within)
{
    if (!rc->given || rc->answered || rc->is_gone)
        return;
    rc->is_gone = true;
    rc->rpc->stats.cancelled++;
    if (!within) {
        tell_gone(rc);
        return;
    }
    rc->gone_posted = true;
    rc->gone.run = on_gone_task;
    rc->rpc->io->post(rc->rpc->io, &rc->gone);
}

static void stop_deadline(struct rpc_call *rc)
{
    if (rc->deadline.fire)
        rc->rpc->io->timer_cancel(rc->rpc->io, &rc->deadline);
    rc->deadline.fire = NULL;
}

/* The peer has been told all that it will be told. */
static void end(struct rpc_call *rc, const struct hp_status *status)
{
    rc->ended = true;
    stop_deadline(rc);
    rc->protocol->end(rc, status);
}

void rpc_fail(struct rpc_call *rc, const struct hp_status *status)
{
    if (!rc->given)
        rc->rpc->stats.refused++;
    if (rc->x && !rc->ended)
        end(rc, status);
    call_gone(rc, true);
}

static void on_closed(struct net_exchange *x, bool complete)
{
    struct rpc_call *rc = x->handler;
    (void)complete;
    rpc_hold(rc);
    stop_deadline(rc);
    rc->x = NULL;
    /* Its headers and its connection are gone: whoever still looks at them sees a stranger. */
    rc->call.n_metadata = 0;
    rc->peer = (struct hp_peer){.address = "gone", .transport = rc->protocol->name};
    if (!rc->method)
        rc->call.method = "";
    if (!rc->given && !rc->ended)
        rc->rpc->stats.cancelled++;
    call_gone(rc, rc->holds > 1);
    rpc_let_go(rc);
}

/* ---- for the services ---- */

static void answer(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct rpc_call *rc = call->transport;
    assert(call->answer); /* once */
    call->answer = NULL;
    rc->answered = true;
    rpc_hold(rc);
    if (rc->x && !rc->ended) {
        if (status && status->code == HP_OK)
            status = NULL;
        if (!status && response) {
            rc->ended = true;
            stop_deadline(rc);
            rc->protocol->reply(rc, response);
        } else {
            end(rc, status);
        }
    }
    rpc_arena_back(rc);
    rpc_let_go(rc);
}

static bool send_message(struct hp_call *call, const ProtobufCMessage *message)
{
    struct rpc_call *rc = call->transport;
    if (!rc->x || rc->ended || rc->full)
        return false;
    rpc_hold(rc);
    if (!rc->begun)
        rc->protocol->begin(rc);
    if (rc->x)
        rpc_send_message(rc, message);
    rpc_let_go(rc);
    return true;
}

static void on_listen(struct hp_call *call)
{
    struct rpc_call *rc = call->transport;
    rpc_hold(rc);
    rc->listens = true;
    rpc_body_pending(rc);
    rpc_let_go(rc);
}

static void on_deadline(struct io_timer *timer)
{
    struct rpc_call *rc = list_entry(timer, struct rpc_call, deadline);
    struct hp_status status;
    rpc_hold(rc);
    rc->deadline.fire = NULL;
    hp_status_set(&status, HP_R_UNSPECIFIED, "the call's time is over");
    status.code = HP_DEADLINE_EXCEEDED;
    rpc_fail(rc, &status);
    rpc_let_go(rc);
}

void rpc_give(struct rpc_call *rc, const void *payload, size_t len)
{
    struct hp_call *call = &rc->call;
    struct net_rpc *rpc = rc->rpc;
    bool streams = rc->method && (rc->method->server_streams || rc->method->client_streams);
    call->arena = rpc_arena_for(rc, len);
    if (!call->arena) {
        struct hp_status status;
        hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
        rpc_fail(rc, &status);
        return;
    }
    call->payload = payload;
    call->payload_len = len;
    call->answer = answer;
    call->send = send_message;
    call->listen = on_listen;
    call->transport = rc;
    rc->given = true;
    if (streams && call->deadline_ms != INT64_MAX) {
        rc->deadline.fire = on_deadline;
        rpc->io->timer_set(rpc->io, &rc->deadline, call->deadline_ms);
    }
    rpc->cfg.on_call(rpc->cfg.arg, call);
    rc->listens = rc->listens || call->message;
    /* So that whoever waits for a stream sees that it has begun. */
    if (streams && rc->x && !rc->ended && !rc->begun)
        rc->protocol->begin(rc);
}

/* ---- for HTTP ---- */

static void on_writable(struct net_exchange *x)
{
    struct rpc_call *rc = x->handler;
    rpc_hold(rc);
    rc->full = false;
    if (rc->given && !rc->answered && !rc->ended && rc->call.writable)
        rc->call.writable(&rc->call);
    rpc_body_pending(rc);
    rpc_let_go(rc);
}

/* What cannot be a call at all. True: the exchange was answered. */
static bool refused_by_http(struct net_rpc *rpc, struct net_exchange *x, const struct rpc_head *head,
                            const struct rpc_protocol *protocol, const struct hp_method *method)
{
    bool cors = rpc->cfg.cors_origin != NULL;
    if (cors && !strcmp(x->method, "OPTIONS") && rpc_cors_allows(rpc, head->origin))
        rpc_http_preflight(rpc, x);
    else if (strcmp(x->method, "POST") != 0 && method)
        rpc_http_refuse(x, 405, "calls are sent by POST", cors ? "OPTIONS, POST" : "POST");
    else if (strcmp(x->method, "POST") != 0)
        rpc_http_refuse(x, 404, "there is nothing here", NULL);
    else if (!protocol)
        rpc_http_refuse(x, 415,
                        "the content-type is none of application/grpc, application/json, application/proto, "
                        "application/connect+json, application/connect+proto",
                        NULL);
    else if (protocol == &rpc_grpc && x->version < 2)
        rpc_http_refuse(x, 505, "gRPC needs HTTP/2", NULL);
    else if (x->version < 2 && method && method->client_streams)
        rpc_http_refuse(x, 505, "a stream of requests needs HTTP/2", NULL);
    else if (protocol == &rpc_connect_stream && method && !method->server_streams && !method->client_streams)
        rpc_http_refuse(x, 415, "this method is no stream: send application/json or application/proto", NULL);
    else
        return false;
    rpc->stats.not_calls++;
    return true;
}

static void fill_in(struct rpc_call *rc, struct net_exchange *x)
{
    static_assert(sizeof(struct net_header) == 2 * sizeof(char *), "headers are metadata as they are");
    rc->x = x;
    x->handler = rc;
    x->body = rpc_body;
    x->writable = on_writable;
    x->closed = on_closed;
    if (x->peer) {
        rc->peer = *x->peer;
        rc->peer.transport = rc->protocol->name;
        rc->call.peer = &rc->peer;
    }
    rc->call.method = rc->method ? rc->method->path : x->path;
    rc->call.received_ms = x->received_ms;
    rc->call.metadata = (const char *const *)(const void *)x->headers;
    rc->call.n_metadata = x->n_headers;
}

/* What the header alone refuses, and what needs no body. */
static void begin_call(struct rpc_call *rc, const struct rpc_head *head)
{
    struct net_rpc *rpc = rc->rpc;
    struct hp_status status;
    if (rpc->stats.in_flight > rpc->cfg.max_calls) {
        hp_status_set(&status, HP_R_QUEUE_FULL, "%d calls are in progress", rpc->cfg.max_calls);
        rpc_fail(rc, &status);
    } else if (!rpc_head_take(rc, head, &status)) {
        rpc_fail(rc, &status);
    } else if (!rc->method || rc->method->client_streams) {
        rpc_give(rc, NULL, 0);
    }
}

void net_rpc_request(struct net_rpc *rpc, struct net_exchange *x)
{
    struct rpc_head head;
    bool json = false;
    const char *reply_type = NULL;
    rpc_head_read(&head, x);
    const struct rpc_protocol *protocol = rpc_protocol_of(head.content_type, &json, &reply_type);
    const struct hp_method *method = rpc->cfg.find(rpc->cfg.arg, x->path);
    if (refused_by_http(rpc, x, &head, protocol, method))
        return;
    struct rpc_call *rc = rpc_call_new(rpc);
    if (!rc) {
        rpc->stats.not_calls++;
        rpc_http_refuse(x, 503, "no memory for the call", NULL);
        return;
    }
    if (protocol == &rpc_grpc)
        rpc->stats.grpc++;
    else
        rpc->stats.connect++;
    rc->protocol = protocol;
    rc->content_type = reply_type;
    rc->json = json;
    rc->reader.max = json ? 2 * rpc->cfg.request_max : rpc->cfg.request_max;
    rc->method = method;
    rc->cors = protocol != &rpc_grpc && rpc_cors_allows(rpc, head.origin);
    fill_in(rc, x);
    rpc_hold(rc);
    begin_call(rc, &head);
    rpc_let_go(rc);
}

void net_rpc_stats(const struct net_rpc *rpc, struct net_rpc_stats *out)
{
    *out = rpc->stats;
}

void net_rpc_free(struct net_rpc *rpc)
{
    struct list_node *node;
    if (!rpc)
        return;
    while ((node = list_pop_front(&rpc->calls))) {
        struct rpc_call *rc = list_entry(node, struct rpc_call, node);
        assert(!rc->x);
        if (rc->gone_posted)
            rpc->io->unpost(rpc->io, &rc->gone);
        rc->gone_posted = false;
        rc->rpc = NULL;
        if (rc->answered)
            rpc_call_free(rc);
    }
    rpc_spare_free(rpc);
    net_gzip_free(rpc->gzip);
    hp_buf_release(&rpc->out);
    hp_buf_release(&rpc->zipped);
    hp_buf_release(&rpc->plain);
    free(rpc);
}
