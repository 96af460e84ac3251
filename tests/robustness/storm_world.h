/*
 * storm_world.h - the place of one act of a storm: PostgreSQL, two servers, the networks between, and workers.
 *
 *     elsewhere   workers ─ proxies ┬ server 0 ─ relay ─────────────┬ PostgreSQL, on a disk of its own
 *                                   └ (wire) ─ server 1 ─ (wire) ───┘        server 1 is alone on a host of its own
 *     private     workers ─ proxies ┬ server 0 with --data-dir, which keeps its PostgreSQL
 *                                   └ server 1 with --dsn
 *
 * Without namespaces server 1 is at the relay too, and nothing has a host or a disk of its own.
 *
 * Servers are looked after as a service manager would: one that cannot start, because PostgreSQL is away, is started again.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_WORLD_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_WORLD_H

#include "robustness/proxy.h"
#include "robustness/storm_host.h"
#include "robustness/storm_pg.h"
#include "robustness/storm_plan.h"
#include "robustness/storm_relay.h"
#include "robustness/storm_worker.h"

struct storm_server {
    const char *argv[20];
    const char *env[4];
    const char *wall_file;
    char url[64];
    struct t_proc *proc;
    bool down;        /* it was ended on purpose, or is being ended, and isn't to be started now */
    bool ready;       /* it said so since its start */
    bool stopped;     /* by SIGSTOP */
    int64_t again_ms; /* it could not start, and will be started again then; 0 = no */
    unsigned starts, failed_starts;
    unsigned off; /* lines of its logs with a time that is far from the true one */
};

struct storm_world {
    enum storm_act act;
    bool apart; /* there are namespaces */
    uint64_t seed;
    struct storm_pg pg;
    char data_dir[128]; /* of the private one */
    struct storm_host *host;
    struct storm_relay *relay;
    struct storm_server servers[2];
    struct px *px[2];
    struct storm_workers workers;
    const char *orders[2]; /* the proxies, for workers: in the one order and in the other */

    struct history *upsets;  /* when the database's clock was moved; */
    const char *upsets_path; /* its file */
};

/* All of it runs, every server is READY, writes are audited, and the workers work. */
void storm_world_start(struct storm_world *world, enum storm_act act, uint64_t seed, bool apart);
/* To be called often: servers that are not down are started again; one that ended without being told to fails the test. */
void storm_world_tend(struct storm_world *world);
/* PostgreSQL serves; the test fails if that takes more than a minute. */
void storm_world_revive(struct storm_world *world);
/* With all faults over: both servers are READY again and serve, or the test fails. */
void storm_world_calm(struct storm_world *world);
/* The servers have ended as they should, the networks are gone. */
void storm_world_end(struct storm_world *world);

/* It got the signal (SIGKILL, SIGTERM) and stays down until storm_server_up, which may be called once storm_server_gone. */
void storm_server_down(struct storm_server *server, int sig);
/* It has ended; as it should, or the test fails. */
bool storm_server_gone(struct storm_server *server);
/* It is started, and need not be READY. */
void storm_server_up(struct storm_server *server);

#endif
