/*
 * http.c - see http.h: the listener as a whole. Its connections are http_conn.c's, http_share.c's and http_io.c's, exchanges
 * http_exchange.c's, and the two versions of the protocol h1.c's and h2.c's.
 */
#include "net/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/http_conn.h"

enum { LINGER_MS = 50 /* between the hand-over of the last answer to the kernel and the belief that it has left */ };

static void set_defaults(struct net_http_config *cfg)
{
    cfg->max_connections = cfg->max_connections ? cfg->max_connections : 4096;
    cfg->max_streams = cfg->max_streams ? cfg->max_streams : 128;
    cfg->max_headers = cfg->max_headers ? cfg->max_headers : 16 << 10;
    cfg->max_bytes = cfg->max_bytes ? cfg->max_bytes : (size_t)256 << 20;
    cfg->max_unread = cfg->max_unread ? cfg->max_unread : 256 << 10;
    cfg->header_ms = cfg->header_ms ? cfg->header_ms : 10000;
    cfg->body_ms = cfg->body_ms ? cfg->body_ms : 30000;
    cfg->idle_ms = cfg->idle_ms ? cfg->idle_ms : 300000;
    cfg->total_ms = cfg->total_ms ? cfg->total_ms : 3660000;
}

static struct net_http *http_new(struct io *io, const struct net_http_config *cfg)
{
    struct net_http *http = calloc(1, sizeof(*http));
    if (!http)
        return NULL;
    http->io = io;
    http->cfg = cfg ? *cfg : (struct net_http_config){0};
    set_defaults(&http->cfg);
    list_init(&http->idle);
    list_init(&http->busy);
    list_init(&http->dirty);
    list_init(&http->over);
    list_init(&http->spare);
    list_init(&http->dead);
    http->flush.run = http_on_flush;
    http->tell.run = http_on_tell;
    http->bury.run = http_on_bury;
    http->police.run = http_on_police;
    http->listener.watch.fd = -1;
    http_share_init(http);
    if (!h2_setup(http)) {
        net_http_free(http);
        return NULL;
    }
    return http;
}

struct net_http *net_http_listen(struct io *io, const char *address, const struct net_http_config *cfg,
                                 void (*on_request)(void *arg, struct net_exchange *x), void *arg, char *error, size_t error_len)
{
    char url[192], text[128];
    struct net_http *http = http_new(io, cfg);
    if (!http) {
        snprintf(error, error_len, "cannot listen on %s: out of memory", address);
        return NULL;
    }
    http->on_request = on_request;
    http->arg = arg;
    snprintf(url, sizeof(url), "tcp://%s", address);
    const char *why = net_listener_open(&http->listener, io, url, http_on_accept, text, sizeof(text));
    if (why) {
        snprintf(error, error_len, "cannot listen on %s: %s", address, why);
        net_http_free(http);
        return NULL;
    }
    snprintf(http->address, sizeof(http->address), "%s", http->listener.url + strlen("tcp://"));
    return http;
}

const char *net_http_address(const struct net_http *http)
{
    return http->address;
}

static void drain_list(struct list *list)
{
    for (struct list_node *node = list_first(list); node; node = list_next(list, node)) {
        struct http_conn *conn = list_entry(node, struct http_conn, node);
        if (conn->state == HTTP_1)
            h1_drain(conn);
        else if (conn->state == HTTP_2)
            h2_drain(conn);
        else if (conn->state != HTTP_LINGER)
            http_doom(conn);
    }
}

void net_http_drain(struct net_http *http)
{
    if (http->draining)
        return;
    http->draining = true;
    net_listener_close(&http->listener);
    drain_list(&http->idle);
    drain_list(&http->busy);
}

bool net_http_idle(const struct net_http *http)
{
    return !http->stats.streams && list_empty(&http->over) && !http->unsent && http_now(http) - http->last_sent_ms >= LINGER_MS;
}

void net_http_stats(const struct net_http *http, struct net_http_stats *out)
{
    *out = http->stats;
    out->refused += http->listener.turned_away;
}

static void close_all(struct list *list)
{
    struct list_node *node;
    while ((node = list_first(list)))
        http_close(list_entry(node, struct http_conn, node));
}

void net_http_free(struct net_http *http)
{
    if (!http)
        return;
    if (http->listener.watch.fd >= 0)
        net_listener_close(&http->listener);
    close_all(&http->idle);
    close_all(&http->busy);
    http->io->timer_cancel(http->io, &http->share.timer);
    http_on_tell(&http->tell);
    http->io->unpost(http->io, &http->flush);
    http->io->unpost(http->io, &http->tell);
    http->io->unpost(http->io, &http->bury);
    http->io->unpost(http->io, &http->police);
    http_on_bury(&http->bury);
    http_free_spare(http);
    nghttp2_session_callbacks_del(http->callbacks);
    nghttp2_option_del(http->option);
    free(http->reserve);
    free(http);
}
