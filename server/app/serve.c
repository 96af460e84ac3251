/*
 * serve.c - see serve.h: puts the rooms together and takes them apart again. Owns every long-lived object of the process.
 *
 * Order of life: database, schema, store, services, sockets; the end is the reverse but for the store, which is closed first
 * so that every call is answered (net/sp.h).
 */
#include "app/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/http.h"
#include "app/limits.h"
#include "app/notify.h"
#include "app/upkeep.h"
#include "base/list.h"
#include "base/log.h"
#include "net/loop.h"
#include "net/sp.h"
#include "service/service.h"
#include "store/check.h"
#include "store/cluster.h"
#include "store/migrate.h"
#include "store/store.h"

enum {
    LAST_REPLIES_MS = 1000, /* once nothing is in flight: callers who keep calling are refused no longer than this */
    DRAIN_POLL_MS = 10,
    READY_WARN_MS = 10000,
    READY_ALL_MS = 2000, /* after the first connection to PostgreSQL serves: for the others */
    READY_POLL_MS = 10
};

struct server {
    const struct app_config *cfg;
    struct loop *loop;
    struct io *io;
    struct st_cluster *cluster; /* NULL with --dsn */
    struct st_store *store;
    struct svc *svc;
    struct net_sp *listeners[APP_LISTEN_MAX];
    size_t n_listeners;
    struct app_http http;

    struct app_notify notify;
    struct app_upkeep upkeep;
    struct app_limits limits;

    struct io_timer drain_timer, ready_timer;
    bool draining, drained;
    int64_t connected_ms; /* when the first connection served; 0 = none yet */
    int64_t drain_until_ms, quiet_since_ms;
};

static enum app_exit fail(enum app_exit status, const char *text)
{
    log_error("app.failed", log_str("reason", text), log_int("exit_status", status));
    if (!log_enabled(LOG_AT_ERROR))
        dprintf(STDERR_FILENO, "holdfastd: %s\n", text);
    return status;
}

/* SIGTERM or SIGINT has come and waits for the loop. */
static bool asked_to_end(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* ------------------------------------------------------------------------------------------------ draining */

/* Upkeep can be done at any other time: it isn't waited for. */
static bool nothing_in_flight(const struct server *s)
{
    return svc_in_flight(s->svc) == 0 && (st_idle(s->store) || app_upkeep_busy(&s->upkeep));
}

static bool replies_are_gone(const struct server *s)
{
    for (size_t i = 0; i < s->n_listeners; i++) {
        if (!net_sp_idle(s->listeners[i]))
            return false;
    }
    return app_http_idle(&s->http);
}

static void on_drain(struct io_timer *timer)
{
    struct server *s = list_entry(timer, struct server, drain_timer);
    int64_t now = s->io->now_ms(s->io);

    if (!nothing_in_flight(s))
        s->quiet_since_ms = 0;
    else if (s->quiet_since_ms == 0)
        s->quiet_since_ms = now;
    if (s->quiet_since_ms && (replies_are_gone(s) || now - s->quiet_since_ms >= LAST_REPLIES_MS)) {
        s->drained = true;
        loop_stop(s->loop);
    } else if (now >= s->drain_until_ms) {
        log_error("app.drain_cut", log_int("calls_in_flight", (int64_t)svc_in_flight(s->svc)),
                  log_int("after_ms", s->cfg->drain_timeout_ms));
        loop_stop(s->loop);
    } else {
        s->io->timer_set(s->io, &s->drain_timer, now + DRAIN_POLL_MS);
    }
}

static void on_signal(void *arg, int signo)
{
    struct server *s = arg;

    if (signo == SIGHUP) {
        app_http_reload(&s->http);
        return;
    }
    if (s->draining) {
        log_warn("app.ended_at_once", log_str("signal", strsignal(signo)));
        if (s->cluster)
            st_cluster_tell_stop(s->cluster);
        _exit(APP_FAILURE);
    }
    s->draining = true;
    log_info("app.draining", log_str("signal", strsignal(signo)), log_int("calls_in_flight", (int64_t)svc_in_flight(s->svc)));
    app_notify(&s->notify, "STOPPING=1\nSTATUS=draining: %zu calls in flight", svc_in_flight(s->svc));
    s->io->timer_cancel(s->io, &s->ready_timer);
    app_upkeep_stop(&s->upkeep);
    app_http_drain(&s->http); /* first, so that what svc_drain answers says that it is the last */
    svc_drain(s->svc);
    s->drain_until_ms = s->io->now_ms(s->io) + s->cfg->drain_timeout_ms;
    on_drain(&s->drain_timer);
}

/* After the loop: signals end the process, whose PostgreSQL has been told to stop by then. */
static void end_at_once(int signo)
{
    (void)signo;
    _exit(APP_FAILURE);
}

static void let_signals_end(const struct server *s)
{
    static const struct timespec now = {0, 0};
    struct sigaction action = {.sa_handler = end_at_once};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    /* The first one, if the loop has not seen it, is why we are here; only the next one is in a hurry. */
    if (!s->draining)
        sigtimedwait(&set, NULL, &now);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* ------------------------------------------------------------------------------------------------ serving */

static void announce(struct server *s)
{
    const char *http = app_http_address(&s->http);
    log_info("app.ready", log_str("nng", net_sp_url(s->listeners[0])), log_str("http", http ? http : "off"),
             log_str("version", HOLDFAST_VERSION));
    printf("READY nng=");
    for (size_t i = 0; i < s->n_listeners; i++)
        printf("%s%s", i ? "," : "", net_sp_url(s->listeners[i]));
    printf(http ? " http=%s\n" : "\n", http);
    fflush(stdout);
    app_notify(&s->notify, "READY=1\nSTATUS=serving on %s", net_sp_url(s->listeners[0]));
    app_notify_watchdog(&s->notify, s->io);
}

/* READY means that everything serves; but one connection that PostgreSQL has no room for must not keep the others from it. */
static void on_ready_timer(struct io_timer *timer)
{
    struct server *s = list_entry(timer, struct server, ready_timer);
    int64_t now = s->io->now_ms(s->io);
    struct st_stats stats;

    if (!s->connected_ms) {
        log_warn("app.not_ready", log_str("reason", "no connection to PostgreSQL serves yet"));
        s->io->timer_set(s->io, timer, now + READY_WARN_MS);
        return;
    }
    st_stats(s->store, &stats);
    if (stats.connections_ready < stats.connections_wanted && now - s->connected_ms < READY_ALL_MS) {
        s->io->timer_set(s->io, timer, now + READY_POLL_MS);
        return;
    }
    if (stats.connections_ready < stats.connections_wanted)
        log_warn("app.connections_missing", log_int("ready", stats.connections_ready), log_int("wanted", stats.connections_wanted));
    announce(s);
}

static void submit(void *arg, struct st_item *item)
{
    struct server *s = arg;
    st_submit(s->store, item);
}

static void look(void *arg)
{
    struct server *s = arg;
    app_limits_look(&s->limits, s->listeners, s->n_listeners, s->http.port);
}

/* The first connection serves. */
static void on_ready(void *arg)
{
    struct server *s = arg;

    s->connected_ms = s->io->now_ms(s->io);
    if (s->draining)
        return;
    s->io->timer_set(s->io, &s->ready_timer, s->connected_ms);
    app_upkeep_start(&s->upkeep, s->io, submit, look, s);
}

static void on_call(void *arg, struct hp_call *call)
{
    struct server *s = arg;
    svc_dispatch(s->svc, call);
}

static enum app_exit start_cluster(struct server *s)
{
    struct st_problem problem;
    struct st_cluster_config cfg = {s->cfg->data_dir, s->cfg->connections, asked_to_end};

    switch (st_cluster_start(&cfg, &s->cluster, &problem)) {
    case ST_CLUSTER_OK:
    case ST_CLUSTER_INTERRUPTED: /* seen by the caller */
        return APP_DRAINED;
    case ST_CLUSTER_REFUSED:
        return fail(APP_CONFIGURATION, problem.text);
    default:
        return fail(APP_FAILURE, problem.text);
    }
}

static enum app_exit check_database(struct server *s, const char *dsn)
{
    struct st_findings findings;
    struct st_problem problem;
    enum st_check_status status = st_check(dsn, s->cfg->connections, &findings, &problem);

    for (size_t i = 0; i < findings.n; i++)
        log_warn(findings.list[i].refuses ? "database.refused" : "database.warning",
                 log_str("finding", findings.list[i].what.text));
    if (status == ST_CHECK_OK)
        return APP_DRAINED;
    return fail(status == ST_CHECK_UNREACHABLE ? APP_FAILURE : APP_CONFIGURATION, problem.text);
}

static enum app_exit bring_up_schema(const char *dsn)
{
    struct st_problem problem;
    struct st_migrate_report report;
    enum st_migrate_status status = st_migrate_until(dsn, NULL, asked_to_end, &report, &problem);

    if (status == ST_MIGRATE_INTERRUPTED)
        return APP_DRAINED; /* seen by the caller */
    if (status == ST_MIGRATE_OK) {
        log_info("schema.ready", log_int("version", report.version), log_int("version_before", report.version_before),
                 log_bool("functions_replaced", report.functions_replaced));
        return APP_DRAINED;
    }
    return fail(status == ST_MIGRATE_REFUSED ? APP_CONFIGURATION : APP_FAILURE, problem.text);
}

static enum app_exit open_services(struct server *s, const char *dsn)
{
    struct st_config store = {
        .dsn = dsn, .connections = s->cfg->connections, .max_queue = s->cfg->max_queue, .max_batch = s->cfg->max_batch};
    struct net_sp_config net = {0};
    struct svc_config services = {.require_keys = s->cfg->require_keys};
    char error[512];

    if (!app_limits_init(s->cfg, &net.max_connections, error, sizeof(error)))
        return fail(APP_CONFIGURATION, error);
    s->store = st_open(&store, s->io, on_ready, s);
    s->svc = s->store ? svc_new(s->store, s->io, &services) : NULL;
    if (!s->svc)
        return fail(APP_FAILURE, "out of memory");
    for (size_t i = 0; i < s->cfg->n_listen; i++) {
        s->listeners[i] = net_sp_listen(s->io, s->cfg->listen[i], &net, on_call, s, error, sizeof(error));
        if (!s->listeners[i])
            return fail(APP_FAILURE, error);
        s->n_listeners++;
        if (!app_url_is_local(s->cfg->listen[i]))
            log_warn("app.insecure", log_str("url", net_sp_url(s->listeners[i])),
                     log_str("warning", "anyone who reaches this address can read, take and break every lease"));
    }
    s->http.listeners = s->listeners;
    s->http.n_listeners = s->n_listeners;
    if (!app_http_open(&s->http, s->cfg, s->io, s->store, s->svc, net.max_connections, error, sizeof(error)))
        return fail(s->http.rpc ? APP_FAILURE : APP_CONFIGURATION, error);
    if (s->http.port && !app_http_is_local(s->cfg->http) && (!s->cfg->require_keys || !s->cfg->tls_cert))
        log_warn("app.insecure", log_str("http", app_http_address(&s->http)),
                 log_str("warning", s->cfg->require_keys ? "API keys travel in clear text beyond this machine"
                                                         : "anyone who reaches this address can read, take and break every lease"));
    return APP_DRAINED;
}

static enum app_exit start(struct server *s)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    enum app_exit status = APP_DRAINED;

    s->loop = loop_new();
    s->io = s->loop ? loop_io(s->loop) : NULL;
    if (!s->loop || loop_signals(s->loop, signals, 3, on_signal, s) != 0)
        return fail(APP_FAILURE, "the event loop cannot be made: out of memory or file descriptors");
    if (!s->cfg->dsn)
        status = start_cluster(s);
    if (status || asked_to_end())
        return status;
    const char *dsn = s->cluster ? st_cluster_dsn(s->cluster) : s->cfg->dsn;
    status = check_database(s, dsn);
    if (!status && !asked_to_end())
        status = bring_up_schema(dsn);
    if (!status && !asked_to_end())
        status = open_services(s, dsn);
    return status;
}

static enum app_exit run(struct server *s)
{
    s->drain_timer.fire = on_drain;
    s->ready_timer.fire = on_ready_timer;
    s->io->timer_set(s->io, &s->ready_timer, s->io->now_ms(s->io) + READY_WARN_MS);
    if (s->cluster)
        st_cluster_watch(s->cluster, s->io);
    int error = loop_run(s->loop);
    if (error)
        return fail(APP_FAILURE, strerror(-error));
    return s->drained ? APP_DRAINED : APP_FAILURE;
}

enum app_exit app_serve(const struct app_config *cfg)
{
    struct server server = {.cfg = cfg}, *s = &server;

    log_info("app.starting", log_str("version", HOLDFAST_VERSION), log_int("pid", getpid()));
    app_config_log(cfg);
    app_notify_init(&s->notify);
    app_notify(&s->notify, "STATUS=starting");
    enum app_exit status = start(s);
    /* Asked to end before there was anything to serve: n_listeners is 0, and that is a clean end. */
    if (!status && s->n_listeners)
        status = run(s);

    st_close(s->store);
    svc_free(s->svc);
    for (size_t i = 0; i < s->n_listeners; i++)
        net_sp_free(s->listeners[i]);
    app_http_free(&s->http);
    /* What is left is to wait for PostgreSQL, which another signal cuts short. */
    if (s->cluster)
        st_cluster_tell_stop(s->cluster);
    let_signals_end(s);
    app_notify(&s->notify, "STOPPING=1\nSTATUS=stopping");
    if (!st_cluster_stop(s->cluster))
        status = fail(APP_FAILURE, "the private PostgreSQL did not stop in time; the next server on the folder adopts it");
    app_notify_release(&s->notify);
    loop_free(s->loop);
    log_info("app.ended", log_int("exit_status", status));
    return status;
}
