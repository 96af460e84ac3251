/*
 * metrics.c - see metrics.h. Whether somebody may see it is asked by a call of Stats like any other, which is then thrown away.
 */
#include "app/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "service/metrics.h"

#define STATS "/holdfast.v1.AdminService/Stats"

enum { BUDGET = 1 << 20, PATIENCE_MS = 2000 };

/* Lives until it was answered, even when its exchange is over. */
struct scrape {
    struct hp_call call; /* first */
    struct app_http *http;
    struct net_exchange *x; /* NULL: over */
    const char *metadata[2];
    struct hp_peer peer;
};

/* Its header and its connection are gone, at which a call that is held would look later. It may be answered, and freed, by that. */
static void over(struct net_exchange *x, bool complete)
{
    struct scrape *scrape = x->handler;
    (void)complete;
    if (!scrape)
        return;
    scrape->x = NULL;
    scrape->call.n_metadata = 0;
    scrape->peer = (struct hp_peer){.address = "gone", .transport = "http"};
    if (scrape->call.gone)
        scrape->call.gone(&scrape->call);
}

/* The exchange belongs to nobody any more. */
static struct net_exchange *let_go(struct scrape *scrape)
{
    struct net_exchange *x = scrape->x;
    if (x)
        x->handler = NULL;
    free(scrape);
    return x;
}

/* ------------------------------------------------------------------------------------------------ the transports */

static size_t add(struct svc_metric *out, size_t n, const char *name, const char *help, bool counts, const char *what, double value)
{
    out[n] = (struct svc_metric){name, help, counts, what ? "transport" : NULL, what, value};
    return n + 1;
}

static size_t transports(const struct app_http *http, struct svc_metric *out)
{
    struct net_http_stats web = {0};
    struct net_rpc_stats rpc;
    struct net_sp_stats one, nng = {0};
    size_t n = 0;

    net_http_stats(http->port, &web);
    net_rpc_stats(http->rpc, &rpc);
    for (size_t i = 0; i < http->n_listeners; i++) {
        net_sp_stats(http->listeners[i], &one);
        nng.connections += one.connections;
        nng.refused += one.refused;
        nng.calls += one.calls;
        nng.undecodable += one.undecodable;
        nng.bytes += one.bytes;
    }
    n = add(out, n, "connections_open", "Connections of callers.", false, "http", web.connections);
    n = add(out, n, "connections_open", "Connections of callers.", false, "nng", nng.connections);
    n = add(out, n, "connections_refused_total", "Connections that were closed for want of room.", true, "http",
            (double)web.refused);
    n = add(out, n, "connections_refused_total", "Connections that were closed for want of room.", true, "nng",
            (double)nng.refused);
    n = add(out, n, "transport_calls_total", "Calls that came in.", true, "nng", (double)nng.calls);
    n = add(out, n, "transport_calls_total", "Calls that came in.", true, "grpc", (double)rpc.grpc);
    n = add(out, n, "transport_calls_total", "Calls that came in.", true, "connect", (double)rpc.connect);
    n = add(out, n, "transport_bytes", "Bytes of requests and answers that are held.", false, "http",
            (double)(web.bytes + rpc.held));
    n = add(out, n, "transport_bytes", "Bytes of requests and answers that are held.", false, "nng", (double)nng.bytes);
    n = add(out, n, "transport_malformed_total", "What came in and was none of the transport's.", true, "http",
            (double)web.protocol_errors);
    n = add(out, n, "transport_malformed_total", "What came in and was none of the transport's.", true, "nng",
            (double)nng.undecodable);
    n = add(out, n, "http_requests_total", "Requests of any kind.", true, NULL, (double)web.requests);
    n = add(out, n, "http_timeouts_total", "Connections that were closed because their peers took too long.", true, NULL,
            (double)web.timeouts);
    n = add(out, n, "http_waits_total", "Turns that connections which are new, or cost more than they call for, have waited for.",
            true, NULL, (double)web.waits);
    n = add(out, n, "http_exchanges", "Requests in progress.", false, NULL, (double)web.streams);
    n = add(out, n, "rpc_cancelled_total", "Calls over HTTP whose callers went before they were answered.", true, NULL,
            (double)rpc.cancelled);
    return n;
}

/* ------------------------------------------------------------------------------------------------ the text */

static void on_text(void *arg, const struct hp_buf *text)
{
    struct net_exchange *x = let_go(arg);
    if (!x)
        return;
    if (text)
        app_page(x, 200, SVC_METRICS_TYPE, text->data, text->len);
    else
        app_page_text(x, 503, "no memory for them\n");
}

static void tell(struct scrape *scrape)
{
    struct svc_metric more[SVC_METRICS_MORE];
    svc_metrics(scrape->http->svc, more, transports(scrape->http, more), on_text, scrape);
}

static void on_permission(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct scrape *scrape = (struct scrape *)call;
    const Holdfast__V1__StatsResponse *stats = (const Holdfast__V1__StatsResponse *)response;
    bool all = stats && stats->waits; /* others get a reduced answer */

    hp_arena_free(call->arena);
    call->arena = NULL;
    call->gone = NULL;
    if (all && scrape->x) {
        tell(scrape);
        return;
    }
    int code = stats ? HP_PERMISSION_DENIED : status ? (int)status->code : HP_INTERNAL;
    struct net_exchange *x = let_go(scrape);
    if (!x)
        return;
    if (code == HP_UNAUTHENTICATED)
        app_page_text(x, 401, "an API key is required: authorization: Bearer hfk_...\n");
    else if (code == HP_PERMISSION_DENIED)
        app_page_text(x, 403, "the key must be a reader's of all namespaces, or more\n");
    else
        app_page_text(x, 503, "nobody can be let in at present\n");
}

static void ask_permission(struct scrape *scrape)
{
    struct hp_call *call = &scrape->call;
    const struct net_exchange *x = scrape->x;
    int64_t now = scrape->http->io->now_ms(scrape->http->io);

    scrape->peer = *x->peer;
    scrape->peer.transport = "http";
    scrape->metadata[0] = "authorization";
    scrape->metadata[1] = net_exchange_header(x, "authorization");
    *call = (struct hp_call){.arena = hp_arena_new(BUDGET),
                             .method = STATS,
                             .payload = "",
                             .received_ms = now,
                             .deadline_ms = now + PATIENCE_MS,
                             .n_metadata = scrape->metadata[1] ? 1 : 0,
                             .metadata = scrape->metadata,
                             .peer = &scrape->peer,
                             .answer = on_permission};
    if (call->arena)
        svc_dispatch(scrape->http->svc, call);
    else
        app_page_text(let_go(scrape), 503, "no memory for them\n");
}

void app_metrics_serve(struct app_http *http, struct net_exchange *x)
{
    struct scrape *scrape = calloc(1, sizeof(*scrape));
    if (!scrape) {
        app_page_text(x, 503, "no memory for them\n");
        return;
    }
    scrape->http = http;
    scrape->x = x;
    x->handler = scrape;
    x->closed = over;
    if (http->require_keys)
        ask_permission(scrape);
    else
        tell(scrape);
}
