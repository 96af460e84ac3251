/*
 * storm_world.c - see storm_world.h.
 */
#include "robustness/storm_world.h"

#include "harness/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "robustness/oracle.h"
#include "robustness/wall.h"

enum { READY_MS = 60000, AGAIN_MS = 200, END_MS = 60000, CALM_MS = 60000, WORKERS = 4, OFF_S = 1000 };

/* ------------------------------------------------------------------------------------------------ servers */

static void start(struct storm_server *server)
{
    const struct t_spawn_opts opts = {.env = server->env};
    server->proc = t_spawn(server->argv, &opts);
    server->ready = false;
    server->again_ms = 0;
    server->starts++;
}

/* It has ended: nothing of a sanitizer's, which ends a process with a status that could be its own; and by which wall clock it
 * went. */
static void read_log(struct storm_server *server)
{
    const char *log = t_proc_err(server->proc), *found = strstr(log, "Sanitizer");
    const time_t now = time(NULL);
    if (!found)
        found = strstr(log, "runtime error:");
    if (found)
        fail_msg("a server: %.3000s", found > log + 200 ? found - 200 : log);
    for (const char *line = log; (line = strstr(line, "time=")); line++) {
        struct tm tm = {0};
        if (strptime(line, "time=%Y-%m-%dT%H:%M:%S", &tm) && labs((long)(timegm(&tm) - now)) > OFF_S)
            server->off++;
    }
}

void storm_server_down(struct storm_server *server, int sig)
{
    server->down = true;
    if (!server->again_ms)
        t_proc_kill(server->proc, sig);
}

bool storm_server_gone(struct storm_server *server)
{
    const int status = t_proc_wait(server->proc, 0);
    if (status < 0)
        return false;
    if (server->again_ms) /* it had ended before, and was looked at */
        return true;
    read_log(server);
    /* 1: its calls in flight, to a PostgreSQL that is away, could not be ended in time. A signal's: it wasn't ready. */
    const bool good = status == 0 || status == 1 || status == 128 + SIGKILL || (status == 128 + SIGTERM && !server->ready);
    if (!good)
        fail_msg("a server that was told to end did so with %d: %s", status, t_proc_err(server->proc));
    return true;
}

void storm_server_up(struct storm_server *server)
{
    if (t_proc_wait(server->proc, 0) < 0)
        fail_msg("a server that was told to end has not: %s", t_proc_err(server->proc));
    server->down = false;
    start(server);
}

static void tend(struct storm_server *server)
{
    if (server->down || server->stopped || !server->proc)
        return;
    if (server->again_ms) {
        if (t_now_ms() >= server->again_ms)
            start(server);
        return;
    }
    if (!server->ready && strstr(t_proc_out(server->proc), "READY "))
        server->ready = true;
    const int status = t_proc_wait(server->proc, 0);
    if (status < 0)
        return;
    read_log(server);
    if (server->ready || status != 1)
        fail_msg("a server ended by itself with %d: %s", status, t_proc_err(server->proc));
    server->failed_starts++;
    server->again_ms = t_now_ms() + AGAIN_MS;
}

void storm_world_tend(struct storm_world *world)
{
    for (int i = 0; i < 2; i++)
        tend(&world->servers[i]);
}

static bool serves(void *arg)
{
    struct storm_world *world = arg;
    storm_world_tend(world);
    return storm_pg_serves(&world->pg);
}

void storm_world_revive(struct storm_world *world)
{
    if (!t_wait_for(serves, world, READY_MS))
        fail_msg("PostgreSQL does not come back; %s", t_proc_err(world->servers[0].proc));
}

/* ------------------------------------------------------------------------------------------------ the beginning */

/* Starts it: behind these arguments (NULL: none), listening on that host, with its database where option and value say. */
static void prepare(struct storm_world *world, int number, const char *const *prefix, const char *host, const char *option,
                    const char *value)
{
    struct storm_server *server = &world->servers[number];
    int n = 0;
    server->wall_file = t_printf("%s/wall.%d", world->workers.dir, number);
    wall_set(server->wall_file, 0);
    wall_env(server->env, server->wall_file);
    snprintf(server->url, sizeof(server->url), "tcp://%s:%d", host, t_free_port());
    for (; prefix && *prefix; prefix++)
        server->argv[n++] = *prefix;
    server->argv[n++] = T_HOLDFASTD;
    server->argv[n++] = "--listen";
    server->argv[n++] = server->url;
    server->argv[n++] = "--insecure";
    server->argv[n++] = option;
    server->argv[n++] = value;
    server->argv[n] = NULL;
    start(server);
}

static bool both_ready(void *arg)
{
    struct storm_world *world = arg;
    storm_world_tend(world);
    return world->servers[0].ready && world->servers[1].ready;
}

static bool first_ready(void *arg)
{
    struct storm_world *world = arg;
    tend(&world->servers[0]);
    return world->servers[0].ready;
}

static void must_be_ready(struct storm_world *world, bool (*ready)(void *world))
{
    if (!t_wait_for(ready, world, READY_MS))
        fail_msg("not READY: %s; %s", t_proc_err(world->servers[0].proc),
                 world->servers[1].proc ? t_proc_err(world->servers[1].proc) : "");
}

static void start_elsewhere(struct storm_world *world)
{
    storm_pg_start(&world->pg, world->apart);
    world->relay = storm_relay_start(t_printf("%s/.s.PGSQL.5432", t_pg_dir(world->pg.own)));
    const char *relayed = t_printf("host=127.0.0.1 port=%d user=postgres dbname=holdfast", storm_relay_port(world->relay));
    prepare(world, 0, NULL, "127.0.0.1", "--dsn", relayed);
    if (!world->apart) {
        prepare(world, 1, NULL, "127.0.0.1", "--dsn", relayed);
        return;
    }
    world->host = storm_host_start();
    prepare(world, 1, storm_host_prefix(world->host), STORM_CALLERS_THERE, "--dsn",
            t_printf("host=%s port=5432 user=postgres dbname=holdfast", STORM_DATA_HERE));
}

static void start_private(struct storm_world *world)
{
    snprintf(world->data_dir, sizeof(world->data_dir), "%s", t_tmpdir());
    prepare(world, 0, NULL, "127.0.0.1", "--data-dir", world->data_dir);
    must_be_ready(world, first_ready);
    storm_pg_of(&world->pg, world->data_dir);
    prepare(world, 1, NULL, "127.0.0.1", "--dsn", world->pg.dsn);
}

void storm_world_start(struct storm_world *world, enum storm_act act, uint64_t seed, bool apart)
{
    *world = (struct storm_world){.act = act, .apart = apart, .seed = seed};
    world->upsets_path = t_printf("%s/history", t_tmpdir());
    world->upsets = history_new(world->upsets_path);
    storm_workers_init(&world->workers, seed);
    if (act == STORM_ELSEWHERE)
        start_elsewhere(world);
    else
        start_private(world);
    must_be_ready(world, both_ready);
    PGconn *conn = storm_pg_connect(&world->pg);
    oracle_audit_writes(conn, "default");
    PQfinish(conn);
    for (int i = 0; i < 2; i++)
        world->px[i] = px_start(world->servers[i].url, seed + (uint64_t)i);
    for (int i = 0; i < 2; i++)
        world->orders[i] = t_printf("%s,%s", px_url(world->px[i]), px_url(world->px[1 - i]));
    for (int i = 0; i < WORKERS; i++)
        storm_worker_start(&world->workers, world->orders[i % 2]);
}

/* ------------------------------------------------------------------------------------------------ the end */

static void must_serve(const struct storm_server *server, const char *resource)
{
    const hf_client_options options = {.servers = server->url, .timeout_ms = CALM_MS};
    const hf_acquire_options acquire = {.resource = resource, .ttl_ms = CALM_MS};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_error error;
    if (hf_client_new(&options, &client, &error) != HF_OK || hf_acquire(client, &acquire, &lease, NULL, &error) != HF_OK ||
        hf_release(lease, &error) != HF_OK)
        fail_msg("after the storm %s does not serve: %s %s; %s", server->url, error.reason, error.message,
                 t_proc_err(server->proc));
    hf_lease_free(lease);
    hf_client_free(client);
}

void storm_world_calm(struct storm_world *world)
{
    must_be_ready(world, both_ready);
    for (int i = 0; i < 2; i++)
        must_serve(&world->servers[i], t_printf("calm/%d", i));
}

static bool gone(void *server)
{
    return storm_server_gone(server);
}

void storm_world_end(struct storm_world *world)
{
    for (int i = 0; i < 2; i++)
        px_stop(world->px[i]);
    for (int i = 1; i >= 0; i--) {
        struct storm_server *server = &world->servers[i];
        storm_server_down(server, SIGTERM);
        if (!t_wait_for(gone, server, END_MS) || server->proc->status != 0)
            fail_msg("server %d did not end as it should: %s", i, t_proc_err(server->proc));
    }
    storm_relay_stop(world->relay);
    history_free(world->upsets);
}
