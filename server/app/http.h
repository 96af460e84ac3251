/*
 * http.h - the HTTP port of the program: TLS, what is served where, and its end.
 *
 *     /healthz    200 while the process serves at all: for who restarts what hangs
 *     /readyz     200 while calls are served; 503 and the reason while it drains or has no connection to PostgreSQL
 *     /metrics    all of Stats as Prometheus text (metrics.h)
 *     the rest    methods, by gRPC and Connect (net/rpc.h)
 *
 * All on the loop's thread.
 */
#ifndef HOLDFAST_APP_HTTP_H
#define HOLDFAST_APP_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "app/config.h"
#include "base/io.h"
#include "net/http.h"
#include "net/rpc.h"
#include "net/sp.h"
#include "net/tls.h"
#include "service/service.h"
#include "store/store.h"

struct app_http {
    struct io *io;
    struct st_store *store;
    struct svc *svc;
    struct net_tls *tls;   /* NULL: clear text */
    struct net_http *port; /* NULL: no HTTP port */
    struct offload *offload;
    struct net_rpc *rpc;
    bool require_keys, draining;
    struct net_sp *const *listeners; /* for /metrics */
    size_t n_listeners;
};

/* It serves on cfg->http, `max_connections` at most; nothing if there is none. False: `error` names what is wrong. Zero `http`
 * before; free it in any case. Reads the certificates. */
bool app_http_open(struct app_http *http, const struct app_config *cfg, struct io *io, struct st_store *store, struct svc *svc,
                   int max_connections, char *error, size_t error_len) __attribute__((warn_unused_result));
/* HOST:PORT; NULL = there is no port. */
const char *app_http_address(const struct app_http *http);
/* Certificates are read again; the log tells how it went. */
void app_http_reload(struct app_http *http);
/* /readyz says no, and each connection is told to bring no more. */
void app_http_drain(struct app_http *http);
/* Nothing is in progress, and what was answered has left. */
bool app_http_idle(const struct app_http *http);
/* Before svc_free's end of calls is relied upon: see net_http_free. */
void app_http_free(struct app_http *http);

/* For what serves a page: the whole response. */
void app_page(struct net_exchange *x, int status, const char *type, const void *text, size_t len);
void app_page_text(struct net_exchange *x, int status, const char *text);

#endif
