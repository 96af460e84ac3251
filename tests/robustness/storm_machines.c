/*
 * storm_machines.c - faults of machines: what happens to servers, to PostgreSQL, to its disk and to its clock. See storm_fault.h.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "robustness/case.h"
#include "robustness/storm_fault.h"

enum { PROBE_MS = 100, SWITCHES = 8, FORWARD_MS = 4000, BACK_MS = 2000 };

/* ------------------------------------------------------------------------------------------------ servers */

static void kill_server(struct storm_world *w, struct storm_fault *f)
{
    storm_server_down(&w->servers[f->step->target], SIGKILL);
}

static void drain_server(struct storm_world *w, struct storm_fault *f)
{
    storm_server_down(&w->servers[f->step->target], SIGTERM);
}

static void kill_servers(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    for (int i = 0; i < 2; i++)
        storm_server_down(&w->servers[i], SIGKILL);
}

static void await_gone(struct storm_world *w, struct storm_fault *f)
{
    f->happened = f->happened || storm_server_gone(&w->servers[f->step->target]);
}

static void await_both_gone(struct storm_world *w, struct storm_fault *f)
{
    f->happened = f->happened || (storm_server_gone(&w->servers[0]) && storm_server_gone(&w->servers[1]));
}

static void start_server(struct storm_world *w, struct storm_fault *f)
{
    storm_server_up(&w->servers[f->step->target]);
}

static void start_servers(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    for (int i = 0; i < 2; i++)
        storm_server_up(&w->servers[i]);
}

static void nothing(struct storm_world *w, struct storm_fault *f)
{
    (void)w;
    (void)f;
}

/* Stopped once it serves. */
static void stop_server(struct storm_world *w, struct storm_fault *f)
{
    struct storm_server *server = &w->servers[f->step->target];
    if (f->happened || !server->ready)
        return;
    t_proc_kill(server->proc, SIGSTOP);
    server->stopped = f->happened = true;
    f->due_ms = t_now_ms() + f->step->ms;
}

static void continue_server(struct storm_world *w, struct storm_fault *f)
{
    struct storm_server *server = &w->servers[f->step->target];
    t_proc_kill(server->proc, SIGCONT);
    server->stopped = false;
    (void)f;
}

/* The server that keeps the private PostgreSQL is killed while both serve; PostgreSQL goes on; the next server adopts it. */
static void orphan_and_adopt(struct storm_world *w, struct storm_fault *f)
{
    struct storm_server *keeper = &w->servers[0];
    switch (f->phase) {
    case 0:
        if (!keeper->ready || PQping(w->pg.dsn) != PQPING_OK)
            return;
        f->pids[0] = storm_pg_postmaster(&w->pg);
        storm_server_down(keeper, SIGKILL);
        f->due_ms = t_now_ms() + f->step->ms;
        f->phase++;
        return;
    case 1:
        if (!storm_server_gone(keeper) || t_now_ms() < f->due_ms)
            return;
        storm_server_up(keeper);
        f->phase++;
        return;
    default:
        if (f->happened || !keeper->ready)
            return;
        if (!strstr(t_proc_err(keeper->proc), "cluster.adopted") || storm_pg_postmaster(&w->pg) != f->pids[0])
            fail_msg("the private PostgreSQL was not adopted: %s", t_proc_err(keeper->proc));
        f->happened = true;
    }
}

/* ------------------------------------------------------------------------------------------------ processes of PostgreSQL */

/* Some of its backends, as chance wants it. */
static bool pick_backends(const struct storm_world *w, struct storm_fault *f, int most)
{
    pid_t pids[STORM_PIDS];
    const int there = storm_pg_backends(&w->pg, pids, STORM_PIDS);
    int wanted = 1 + case_below(&f->seed, most);
    for (int left = there; left > 0 && wanted > 0; left--, wanted--) {
        const int at = case_below(&f->seed, left);
        f->pids[f->n++] = pids[at];
        pids[at] = pids[left - 1];
    }
    return f->n > 0;
}

static void kill_backend(struct storm_world *w, struct storm_fault *f)
{
    if (!f->happened && pick_backends(w, f, 1))
        f->happened = kill(f->pids[0], SIGKILL) == 0;
}

static void stop_backends(struct storm_world *w, struct storm_fault *f)
{
    if (f->happened || !pick_backends(w, f, 3))
        return;
    for (int i = 0; i < f->n; i++)
        f->happened |= kill(f->pids[i], SIGSTOP) == 0;
    f->due_ms = t_now_ms() + f->step->ms;
}

static void continue_backends(struct storm_world *w, struct storm_fault *f)
{
    (void)w;
    for (int i = 0; i < f->n; i++)
        kill(f->pids[i], SIGCONT);
}

static void terminate_backends(struct storm_world *w, struct storm_fault *f)
{
    if (f->happened || !pick_backends(w, f, STORM_PIDS))
        return;
    PGconn *conn = storm_pg_connect(&w->pg);
    for (int i = 0; i < f->n; i++)
        f->happened |= t_sql(conn, "SELECT pg_terminate_backend(%d)", (int)f->pids[i])[0] == 't';
    PQfinish(conn);
}

static void revive(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    storm_world_revive(w);
}

static void kill_postmaster(struct storm_world *w, struct storm_fault *f)
{
    if (PQping(w->pg.dsn) != PQPING_OK)
        return;
    storm_pg_kill(&w->pg);
    f->happened = true;
}

static void kill_postmaster_soon(struct storm_world *w, struct storm_fault *f)
{
    if (!f->happened)
        kill_postmaster(w, f);
}

static void stop_postgres(struct storm_world *w, struct storm_fault *f)
{
    storm_pg_signal(&w->pg, SIGSTOP);
    f->happened = true;
}

static void continue_postgres(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    storm_pg_signal(&w->pg, SIGCONT);
}

static void shut_down_postgres(struct storm_world *w, struct storm_fault *f)
{
    t_pg_stop(w->pg.own, T_PG_FAST);
    f->happened = true;
}

static void crash_postgres(struct storm_world *w, struct storm_fault *f)
{
    t_pg_stop(w->pg.own, T_PG_IMMEDIATE);
    f->happened = true;
}

/* ------------------------------------------------------------------------------------------------ the disk */

static void fill_disk(struct storm_world *w, struct storm_fault *f)
{
    (void)w;
    (void)f;
    storm_disk_full(true);
}

/* At most every PROBE_MS: what became free is taken again, and there is a connection. */
static bool probe(const struct storm_world *w, struct storm_fault *f)
{
    if (t_now_ms() < f->next_ms)
        return false;
    f->next_ms = t_now_ms() + PROBE_MS;
    storm_disk_full(true);
    if (!f->conn)
        f->conn = storm_pg_try(&w->pg, 0);
    return f->conn != NULL;
}

static void drop_conn(struct storm_fault *f)
{
    PQfinish(f->conn);
    f->conn = NULL;
}

/* Makes tables larger, until PostgreSQL says that it cannot. */
static void grow_tables(struct storm_world *w, struct storm_fault *f)
{
    if (f->happened || !probe(w, f))
        return;
    const char *state = t_sqlstate(f->conn, "CREATE TABLE IF NOT EXISTS public.storm (x text);"
                                            "INSERT INTO public.storm SELECT repeat('x', 1000) FROM generate_series(1, 1000)");
    f->happened = !strcmp(state, "53100");
    if (PQstatus(f->conn) != CONNECTION_OK)
        drop_conn(f);
}

/* Asks for new segments of the WAL, until PostgreSQL has none and crashes. */
static void grow_wal(struct storm_world *w, struct storm_fault *f)
{
    if (f->happened || !probe(w, f))
        return;
    for (int i = 0; i < SWITCHES && PQstatus(f->conn) == CONNECTION_OK; i++)
        t_sqlstate(f->conn, "SELECT pg_logical_emit_message(true, 'storm', repeat('x', 1000)); SELECT pg_switch_wal()");
    f->happened = PQstatus(f->conn) != CONNECTION_OK;
    if (f->happened)
        drop_conn(f);
}

static void free_disk(struct storm_world *w, struct storm_fault *f)
{
    drop_conn(f);
    storm_disk_full(false);
    storm_world_revive(w);
    PGconn *conn = storm_pg_connect(&w->pg);
    t_sql(conn, "DROP TABLE IF EXISTS public.storm");
    PQfinish(conn);
}

/* ------------------------------------------------------------------------------------------------ the clock */

static void set_database_clock(struct storm_world *w, int ms)
{
    const struct history_call upset = {.op = HISTORY_UPSET};
    PGconn *conn = storm_pg_connect(&w->pg);
    const size_t number = history_begin(w->upsets, &upset);
    t_sql(conn,
          "CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
          "$$ SELECT pg_catalog.clock_timestamp() + interval '%d ms' $$",
          ms);
    history_end(w->upsets, number, &upset);
    PQfinish(conn);
}

static void step_clock(struct storm_world *w, struct storm_fault *f)
{
    const bool forward = case_chance(&f->seed, 60);
    set_database_clock(w, forward ? 500 + case_below(&f->seed, FORWARD_MS) : -500 - case_below(&f->seed, BACK_MS));
    f->happened = true;
}

static void step_back(struct storm_world *w, struct storm_fault *f)
{
    (void)f;
    set_database_clock(w, 0);
}

const struct storm_move storm_machine_moves[STORM_KINDS] = {
    [STORM_SERVER_KILLED] = {kill_server, await_gone, start_server},
    [STORM_SERVERS_KILLED] = {kill_servers, await_both_gone, start_servers},
    [STORM_SERVER_STOPPED] = {stop_server, stop_server, continue_server},
    [STORM_SERVER_DRAINED] = {drain_server, await_gone, start_server},
    [STORM_KEEPER_KILLED] = {orphan_and_adopt, orphan_and_adopt, nothing},
    [STORM_BACKEND_KILLED] = {kill_backend, kill_backend, revive},
    [STORM_BACKENDS_STOPPED] = {stop_backends, stop_backends, continue_backends},
    [STORM_BACKENDS_TERMINATED] = {terminate_backends, terminate_backends, nothing},
    [STORM_POSTMASTER_KILLED] = {kill_postmaster, kill_postmaster_soon, revive},
    [STORM_POSTGRES_STOPPED] = {stop_postgres, NULL, continue_postgres},
    [STORM_POSTGRES_RESTARTED] = {shut_down_postgres, NULL, revive},
    [STORM_POSTGRES_CRASHED] = {crash_postgres, NULL, revive},
    [STORM_DISK_FULL] = {fill_disk, grow_tables, free_disk},
    [STORM_WAL_FULL] = {fill_disk, grow_wal, free_disk},
    [STORM_CLOCK_STEPPED] = {step_clock, NULL, step_back},
};
