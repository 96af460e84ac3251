/*
 * rpc_http.c - what HTTP answers by itself: refusals of what cannot be a call, and CORS
 * (https://fetch.spec.whatwg.org/#http-cors-protocol) for browsers' pages. No state.
 */
#include <stdio.h>
#include <string.h>

#include "net/rpc_call.h"

/* ---- exchanges without a call ---- */

static void ignore_body(struct net_exchange *x, const void *data, size_t len, bool end)
{
    (void)data;
    (void)end;
    net_exchange_consume(x, len);
}

/* Whoever is still writing to it has left a flag. */
static void ignore_closed(struct net_exchange *x, bool complete)
{
    bool *gone = x->handler;
    (void)complete;
    if (gone)
        *gone = true;
}

static void ignore(struct net_exchange *x)
{
    x->handler = NULL;
    x->body = ignore_body;
    x->writable = NULL;
    x->closed = ignore_closed;
}

void rpc_http_refuse(struct net_exchange *x, int status, const char *text, const char *allow)
{
    char body[256], length[24];
    int len = snprintf(body, sizeof(body), "%d: %s\n", status, text);
    struct net_header headers[4] = {{"content-type", "text/plain; charset=utf-8"}, {"content-length", length}};
    size_t n = 2;
    snprintf(length, sizeof(length), "%d", len);
    if (allow)
        headers[n++] = (struct net_header){"allow", allow};
    if (status == 415)
        headers[n++] = (struct net_header){"accept-post", "application/grpc, application/json, application/proto, "
                                                          "application/connect+json, application/connect+proto"};
    bool head = !strcmp(x->method, "HEAD");
    bool gone = false;
    ignore(x);
    x->handler = &gone;
    net_exchange_respond(x, status, headers, n, head);
    if (!head && !gone)
        net_exchange_write(x, body, (size_t)len);
    if (!head && !gone)
        net_exchange_end(x, NULL, 0);
    if (!gone)
        x->handler = NULL;
}

/* ---- CORS ---- */

bool rpc_cors_allows(const struct net_rpc *rpc, const char *origin)
{
    const char *allowed = rpc->cfg.cors_origin;
    return allowed && origin && (!strcmp(allowed, "*") || !strcmp(allowed, origin));
}

void rpc_http_preflight(struct net_rpc *rpc, struct net_exchange *x)
{
    const struct net_header headers[] = {
        {"access-control-allow-origin", rpc->cfg.cors_origin},
        {"access-control-allow-methods", "POST"},
        {"access-control-allow-headers",
         "authorization, connect-accept-encoding, connect-content-encoding, connect-protocol-version, "
         "connect-timeout-ms, content-encoding, content-type, x-user-agent"},
        {"access-control-max-age", "7200"},
        {"vary", "origin"},
    };
    ignore(x);
    net_exchange_respond(x, 204, headers, sizeof(headers) / sizeof(headers[0]), true);
}

size_t rpc_cors_headers(const struct rpc_call *rc, struct net_header *headers)
{
    if (!rc->cors)
        return 0;
    headers[0] = (struct net_header){"access-control-allow-origin", rc->rpc->cfg.cors_origin};
    headers[1] = (struct net_header){"access-control-expose-headers", "connect-content-encoding"};
    headers[2] = (struct net_header){"vary", "origin"};
    return RPC_CORS_HEADERS;
}
