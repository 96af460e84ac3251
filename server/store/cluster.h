/*
 * cluster.h - the private PostgreSQL of a server without --dsn: made once, kept running, stopped with the server.
 *
 * DIR/lock     held by the one server that may use the folder (flock; holds its pid)
 * DIR/pgdata   the data; made in DIR/pgdata.new and renamed, so that half a one is never taken for a whole
 * DIR/run      the socket, mode 0700: who can enter is trusted; there is no TCP
 * DIR/postgres.log
 *
 * The postmaster is a child in a session of its own. It outlives a server that is killed; the next server on the folder
 * adopts it. PostgreSQL refuses root: of a server that is root the child alone becomes the folder's owner, else the user
 * `holdfast`, else `postgres`. Start and stop block; in between everything runs on the loop's thread and nothing blocks.
 */
#ifndef HOLDFAST_STORE_CLUSTER_H
#define HOLDFAST_STORE_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/io.h"
#include "store/problem.h"

struct st_cluster;

struct st_cluster_config {
    const char *data_dir;      /* made if it isn't there */
    int connections;           /* that the server wants; there will be more */
    bool (*interrupted)(void); /* may be NULL; once it is true, waiting ends with ST_CLUSTER_INTERRUPTED */
};

enum st_cluster_status {
    ST_CLUSTER_OK,
    ST_CLUSTER_REFUSED,    /* the folder or the machine is not fit for it: path too long, not writable, no PostgreSQL ≥ 14, … */
    ST_CLUSTER_FAILED,     /* another server is using the folder; or PostgreSQL did not start */
    ST_CLUSTER_INTERRUPTED /* as asked */
};

/* The PostgreSQL of this folder serves, with a database `holdfast`, and no other server can use the folder. Otherwise nothing
 * runs that was started here, `*out` is untouched, and `problem` names the folder and the reason. Blocks: making the folder
 * takes seconds, recovery after a crash may take minutes. Forks: call it before there are threads. */
enum st_cluster_status st_cluster_start(const struct st_cluster_config *cfg, struct st_cluster **out, struct st_problem *problem)
    __attribute__((warn_unused_result));

/* libpq's conninfo for it. */
const char *st_cluster_dsn(const struct st_cluster *cluster);

/* From now on a postmaster that ends is started again, with backoff from 100 ms to 10 s. */
void st_cluster_watch(struct st_cluster *cluster, struct io *io);

/* It is not watched any more and was told to shut down, fast; does not wait. For a server that ends at once. */
void st_cluster_tell_stop(struct st_cluster *cluster);

/* It was shut down (fast; after 60 s immediately), the folder is free, and `cluster` is gone. Blocks. NULL is allowed.
 * False: it still runs; the next server adopts it. */
bool st_cluster_stop(struct st_cluster *cluster);

/* The conninfo of the folder's PostgreSQL, without touching it, for --print-dsn. False: `problem` says what is wrong with
 * the path. */
bool st_cluster_dsn_of(const char *data_dir, char *out, size_t size, struct st_problem *problem)
    __attribute__((warn_unused_result));

#endif
