/*
 * health.c - grpc.health.v1: Check and Watch. See health.h.
 *
 * A server whose database is away for a moment serves: calls wait, and are carried out. It is looked at when somebody asks, at most
 * ten times a second, and while somebody watches twice a second.
 */
#include "service/health.h"

#include <string.h>

#include "grpc/health/v1/health.pb-c.h"
#include "service/call.h"
#include "service/stream.h"

enum { DOWN_MS = 3000, LOOK_MS = 100, WATCH_MS = 500, NOTHING_TOLD = -1 };

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus status_t;
#define STATUS(name) GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__##name

struct watcher {
    struct svc_stream stream; /* first */
    struct list_node node;
    const char *service;
    int told; /* the last status, or NOTHING_TOLD */
};

/* ---- whether ---- */

static void look(struct svc *svc, int64_t now)
{
    struct svc_health *health = &svc->health;
    struct st_stats stats;
    st_stats(svc->store, &stats);
    health->looked_ms = now;
    if (stats.connections_ready > 0) {
        health->down_since_ms = -1;
        health->serving = true;
    } else if (health->down_since_ms < 0) {
        health->down_since_ms = now;
    } else if (now - health->down_since_ms >= DOWN_MS) {
        health->serving = false;
    }
}

bool svc_serving(struct svc *svc)
{
    int64_t now = svc->io->now_ms(svc->io);
    if (svc->draining)
        return false;
    if (!svc->health.looked_ms || now - svc->health.looked_ms >= LOOK_MS)
        look(svc, now);
    return svc->health.serving;
}

/* "" is the server; otherwise the full name of one of its services. */
static bool is_service(const char *name)
{
    size_t n, len = strlen(name);
    const struct svc_method *methods = svc_methods(&n);
    if (len == 0)
        return true;
    for (size_t i = 0; i < n; i++) {
        const char *path = methods[i].rpc.path + 1;
        if (!strncmp(path, name, len) && path[len] == '/')
            return true;
    }
    return false;
}

static status_t status_now(struct svc *svc)
{
    return svc_serving(svc) ? STATUS(SERVING) : STATUS(NOT_SERVING);
}

/* ---- Check ---- */

void svc_health_check(struct svc_call *sc)
{
    const Grpc__Health__V1__HealthCheckRequest *request = sc->request;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    if (!is_service(request->service)) {
        struct hp_status status;
        hp_status_set(&status, HP_R_UNSPECIFIED, "no service \"%s\"", request->service);
        status.code = HP_NOT_FOUND;
        svc_fail(sc, &status);
        return;
    }
    response.status = status_now(sc->svc);
    svc_reply(sc, &response.base);
}

/* ---- Watch ---- */

static void tell(struct watcher *w)
{
    struct svc_call *sc = w->stream.sc;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = is_service(w->service) ? status_now(sc->svc) : STATUS(SERVICE_UNKNOWN);
    if ((int)response.status != w->told && sc->call->send(sc->call, &response.base))
        w->told = (int)response.status;
}

static void on_writable(struct hp_call *call)
{
    struct svc_call *sc = call->service;
    tell(sc->state);
}

static void on_timer(struct io_timer *timer)
{
    struct svc *svc = list_entry(timer, struct svc, health.timer);
    svc->io->timer_set(svc->io, timer, svc->io->now_ms(svc->io) + WATCH_MS);
    /* Nobody leaves while they are told: a caller that goes is told so later. */
    for (struct list_node *node = list_first(&svc->health.watchers); node; node = list_next(&svc->health.watchers, node))
        tell(list_entry(node, struct watcher, node));
}

static void on_leave(struct svc_stream *stream)
{
    struct watcher *w = (struct watcher *)stream;
    struct svc *svc = stream->sc->svc;
    list_remove(&svc->health.watchers, &w->node);
    if (list_empty(&svc->health.watchers))
        svc->io->timer_cancel(svc->io, &svc->health.timer);
    if (!stream->sc->gone)
        tell(w); /* a server that drains doesn't serve */
}

void svc_health_watch(struct svc_call *sc)
{
    const Grpc__Health__V1__HealthCheckRequest *request = sc->request;
    struct svc *svc = sc->svc;
    struct watcher *w = hp_alloc(sc->arena, sizeof(*w));
    if (!w) {
        svc_no_memory(sc);
        return;
    }
    w->service = request->service;
    w->told = NOTHING_TOLD;
    w->stream.leave = on_leave;
    if (!svc_stream_begin(sc, &w->stream))
        return;
    sc->call->writable = on_writable;
    if (list_empty(&svc->health.watchers))
        svc->io->timer_set(svc->io, &svc->health.timer, svc->io->now_ms(svc->io) + WATCH_MS);
    list_push_back(&svc->health.watchers, &w->node);
    tell(w);
    if (svc->draining) {
        struct hp_status status;
        hp_status_set(&status, HP_R_DRAINING, NULL);
        svc_stream_end(&w->stream, &status);
    }
}

void svc_health_init(struct svc *svc)
{
    list_init(&svc->health.watchers);
    svc->health.timer.fire = on_timer;
    svc->health.down_since_ms = -1;
}
