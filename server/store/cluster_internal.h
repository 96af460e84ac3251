/*
 * cluster_internal.h - what the files of the private cluster share; see cluster.h.
 */
#ifndef HOLDFAST_STORE_CLUSTER_INTERNAL_H
#define HOLDFAST_STORE_CLUSTER_INTERNAL_H

#include <grp.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/io.h"
#include "store/cluster.h"
#include "store/problem.h"

enum { CLUSTER_PATH = 1024, CLUSTER_GROUPS = 64, CLUSTER_SOCKET_MAX = 107, CLUSTER_MIN_MAJOR = 14 };

/* Whom the children of PostgreSQL run as. */
struct cluster_user {
    bool drop; /* we are root, and they must not be */
    uid_t uid;
    gid_t gid;
    char name[64];
    gid_t groups[CLUSTER_GROUPS];
    int n_groups;
};

struct st_cluster {
    char dir[CLUSTER_PATH], data[CLUSTER_PATH], run[CLUSTER_PATH], log[CLUSTER_PATH]; /* absolute */
    char bindir[CLUSTER_PATH];
    char dsn[2 * CLUSTER_PATH], dsn_postgres[2 * CLUSTER_PATH];
    int connections;
    bool (*interrupted)(void);
    int lock_fd;
    struct cluster_user user;

    /* The postmaster; pidfd < 0 = none. */
    pid_t pid;
    int pidfd;
    bool child; /* ours to reap; otherwise adopted */

    /* While it is watched. */
    struct io *io;
    struct io_watch watch;
    struct io_timer again;
    int64_t started_ms;
    int64_t backoff_ms;
};

/* cluster_folder.c: the folder is there, may be used, and is locked; dir, data, run, log, dsn, user and lock_fd are set. */
enum st_cluster_status cluster_folder_open(struct st_cluster *c, const char *data_dir, struct st_problem *problem);
/* Makes `path` absolute, without links where it exists, and checks that a socket fits under it. */
bool cluster_paths(struct st_cluster *c, const char *data_dir, struct st_problem *problem);

/* cluster_binaries.c: bindir has initdb and postgres, of this major version (0 = the newest that will do). */
bool cluster_find_binaries(struct st_cluster *c, int major, struct st_problem *problem);

/* cluster_make.c */

/* The major version of the data, 0 if there is none yet, -1 if it cannot be told. */
int cluster_data_version(const struct st_cluster *c, struct st_problem *problem);
/* What an initdb that was cut off has left is gone. Blocks until its processes are. */
enum st_cluster_status cluster_clear_up(struct st_cluster *c, struct st_problem *problem);
/* There is data. Blocks for some seconds. */
enum st_cluster_status cluster_make(struct st_cluster *c, struct st_problem *problem);

/* cluster_process.c */

bool cluster_interrupted(const struct st_cluster *c);
/* No process works in this folder any more: what those of a dead postmaster or initdb would corrupt is theirs until then.
 * Blocks for 30 s at most. */
enum st_cluster_status cluster_wait_leftovers(struct st_cluster *c, const char *folder, struct st_problem *problem);
/* The child is reaped, killed before if `kill_it`: its wait status. */
int cluster_reap(pid_t pid, int pidfd, bool kill_it);

/* Runs fn as the user, in a child, and waits: what fn returns, with its problem. */
bool cluster_as_user(const struct st_cluster *c, bool (*fn)(const struct st_cluster *c, struct st_problem *problem),
                     struct st_problem *problem);
/* argv runs as the user, output to the log, in its own session, with none of our files; `mortal`: it is killed when this thread
 * ends. -1: `problem`. Safe with threads. */
pid_t cluster_spawn(const struct st_cluster *c, char *const *argv, bool mortal, struct st_problem *problem);
/* A pidfd, or -1 (errno). */
int cluster_pidfd(pid_t pid);
/* Ends after `ms` or when the process has: true. */
bool cluster_wait_end(int pidfd, int ms);
bool cluster_signal(int pidfd, int sig);
/* The process works in this folder; PostgreSQL's all work in their data folder. */
bool cluster_works_in(pid_t pid, const char *folder);
/* A process that works in this folder, or 0. */
pid_t cluster_any_in(const char *folder);
/* The last line of the log, for problems. */
void cluster_log_tail(const struct st_cluster *c, char *out, size_t size);

#endif
