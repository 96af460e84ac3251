/*
 * http.c - see http.h.
 */
#include "app/http.h"

#include <string.h>

#include "app/metrics.h"
#include "base/log.h"
#include "net/offload.h"

/* ------------------------------------------------------------------------------------------------ pages */

/* A request's body is of no interest. */
static void pass_over(struct net_exchange *x, const void *data, size_t len, bool end)
{
    (void)data;
    (void)end;
    net_exchange_consume(x, len);
}

static void over(struct net_exchange *x, bool complete)
{
    (void)x;
    (void)complete;
}

void app_page(struct net_exchange *x, int status, const char *type, const void *text, size_t len)
{
    char length[24];
    snprintf(length, sizeof(length), "%zu", len);
    const struct net_header headers[] = {{"content-type", type}, {"content-length", length}, {"cache-control", "no-store"}};
    bool body = len && strcmp(x->method, "HEAD") != 0;
    net_exchange_respond(x, status, headers, 3, !body);
    if (body) {
        net_exchange_write(x, text, len);
        net_exchange_end(x, NULL, 0);
    }
}

void app_page_text(struct net_exchange *x, int status, const char *text)
{
    app_page(x, status, "text/plain; charset=utf-8", text, strlen(text));
}

static void healthz(struct app_http *http, struct net_exchange *x)
{
    (void)http;
    app_page_text(x, 200, "ok\n");
}

static void readyz(struct app_http *http, struct net_exchange *x)
{
    struct st_stats stats;
    st_stats(http->store, &stats);
    if (http->draining)
        app_page_text(x, 503, "draining\n");
    else if (!stats.connections_ready)
        app_page_text(x, 503, "no connection to PostgreSQL\n");
    else
        app_page_text(x, 200, "ok\n");
}

static const struct {
    const char *path;
    void (*serve)(struct app_http *http, struct net_exchange *x);
} pages[] = {{"/healthz", healthz}, {"/readyz", readyz}, {"/metrics", app_metrics_serve}};

static void on_request(void *arg, struct net_exchange *x)
{
    static const struct net_header allow[] = {{"allow", "GET, HEAD"}, {"content-length", "0"}};
    struct app_http *http = arg;

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (strcmp(x->path, pages[i].path) != 0)
            continue;
        x->body = pass_over;
        x->closed = over;
        x->handler = NULL;
        if (strcmp(x->method, "GET") == 0 || strcmp(x->method, "HEAD") == 0)
            pages[i].serve(http, x);
        else
            net_exchange_respond(x, 405, allow, 2, true);
        return;
    }
    net_rpc_request(http->rpc, x);
}

/* ------------------------------------------------------------------------------------------------ life */

static const struct hp_method *find(void *arg, const char *path)
{
    const struct svc_method *method = svc_method_find(path);
    (void)arg;
    return method ? &method->rpc : NULL;
}

static void on_call(void *arg, struct hp_call *call)
{
    struct app_http *http = arg;
    svc_dispatch(http->svc, call);
}

static bool knows(void *arg, const struct hp_call *call)
{
    struct app_http *http = arg;
    return svc_knows(http->svc, call);
}

static bool open_tls(struct app_http *http, const struct app_config *cfg, char *error, size_t error_len)
{
    struct net_tls_config tls = {cfg->tls_cert, cfg->tls_key, cfg->tls_client_ca};
    if (!cfg->tls_cert)
        return true;
    http->tls = net_tls_new(&tls, error, error_len);
    return http->tls;
}

bool app_http_open(struct app_http *http, const struct app_config *cfg, struct io *io, struct st_store *store, struct svc *svc,
                   int max_connections, char *error, size_t error_len)
{
    struct net_rpc_config rpc = {.find = find, .on_call = on_call, .knows = knows, .arg = http, .cors_origin = cfg->cors_origin};
    struct net_http_config net = {.max_connections = max_connections};

    http->io = io;
    http->store = store;
    http->svc = svc;
    http->require_keys = cfg->require_keys;
    if (!cfg->http)
        return true;
    if (!open_tls(http, cfg, error, error_len))
        return false;
    http->offload = rpc.offload = offload_new(io);
    http->rpc = http->offload ? net_rpc_new(io, &rpc) : NULL;
    if (!http->rpc) {
        snprintf(error, error_len, "no memory, descriptor or thread for the calls of the HTTP port");
        return false;
    }
    net.tls = http->tls;
    http->port = net_http_listen(io, cfg->http, &net, on_request, http, error, error_len);
    return http->port;
}

const char *app_http_address(const struct app_http *http)
{
    return http->port ? net_http_address(http->port) : NULL;
}

void app_http_reload(struct app_http *http)
{
    char error[512];
    if (!http->tls)
        log_info("app.reload", log_str("reason", "there are no certificates to read again"));
    else if (net_tls_reload(http->tls, error, sizeof(error)))
        log_info("app.certificate_read", log_int("not_after_unix", net_tls_not_after(http->tls)));
    else
        log_error("app.certificate_refused", log_str("reason", error), log_str("kept", "the one that was read before"));
}

void app_http_drain(struct app_http *http)
{
    http->draining = true;
    if (http->port)
        net_http_drain(http->port);
}

bool app_http_idle(const struct app_http *http)
{
    return !http->port || net_http_idle(http->port);
}

void app_http_free(struct app_http *http)
{
    net_http_free(http->port);
    net_rpc_free(http->rpc);
    offload_free(http->offload);
    net_tls_free(http->tls);
    http->port = NULL;
    http->rpc = NULL;
    http->tls = NULL;
}
