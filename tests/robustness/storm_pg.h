/*
 * storm_pg.h - the PostgreSQL of a storm, as processes: found, stopped, killed, brought back.
 *
 * It is the test's own cluster, or the private one of a server; then that server starts it.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_STORM_PG_H
#define HOLDFAST_TESTS_ROBUSTNESS_STORM_PG_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct storm_pg {
    struct t_pg *own; /* NULL: it is a server's */
    char data[256];
    char dsn[512]; /* by its socket, past everything that may happen to a network */
};

enum { STORM_PG_PROCESSES = 256 };

/* A cluster of the test's own runs; with `disk` its files are on STORM_DISK, and whoever is on the wire for data may come in. */
void storm_pg_start(struct storm_pg *pg, bool disk);
/* The private one of that data folder. */
void storm_pg_of(struct storm_pg *pg, const char *data_dir);

/* All its processes, the postmaster first if it is there; how many. */
int storm_pg_processes(const struct storm_pg *pg, pid_t pids[STORM_PG_PROCESSES]);
pid_t storm_pg_postmaster(const struct storm_pg *pg);
/* Every one of its processes got the signal. */
void storm_pg_signal(const struct storm_pg *pg, int sig);
/* The postmaster is killed, and all its children have ended by themselves. */
void storm_pg_kill(const struct storm_pg *pg);
/* Whether it serves. The test's own is started if it doesn't run. */
bool storm_pg_serves(struct storm_pg *pg);

/* A connection, if there is one within `ms` (NULL: there isn't); its statements take two seconds at most. */
PGconn *storm_pg_try(const struct storm_pg *pg, int ms);
/* The same, or the test fails. */
PGconn *storm_pg_connect(const struct storm_pg *pg);
/* Some backends of servers. */
int storm_pg_backends(const struct storm_pg *pg, pid_t *pids, int max);

#endif
