/*
 * cluster.c - the life of the private PostgreSQL: made, adopted or started, watched, stopped. See cluster.h.
 *
 *   none ──spawn──▶ running ──ends──▶ none ──backoff──▶ spawn …      running ──stop──▶ none
 *   none ──adopt──▶ running (not our child: not reaped, otherwise the same)
 */
#include "store/cluster.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "store/cluster_internal.h"
#include "store/sync.h"

enum {
    ANSWER_MS = 60000,    /* until it answers at all */
    RECOVERY_MS = 600000, /* until it serves */
    FAST_MS = 60000,
    IMMEDIATE_MS = 10000,
    BACKOFF_MIN_MS = 100,
    BACKOFF_MAX_MS = 10000,
    STEADY_MS = 30000, /* ran this long: the backoff begins anew */
    SPARE_CONNECTIONS = 20,
    LEAST_CONNECTIONS = 100
};

static int wanted_connections(const struct st_cluster *c)
{
    int n = c->connections + SPARE_CONNECTIONS;
    return n < LEAST_CONNECTIONS ? LEAST_CONNECTIONS : n;
}

/* ------------------------------------------------------------------------------------------------ starting it */

static void close_pidfd(struct st_cluster *c)
{
    if (c->pidfd >= 0)
        close(c->pidfd);
    c->pidfd = -1;
    c->pid = 0;
}

/* What postmaster.pid says: pid (0: nothing) and the folder of the socket. */
static pid_t read_pid_file(const struct st_cluster *c, char *socket_dir, size_t size)
{
    char path[CLUSTER_PATH + 24], line[CLUSTER_PATH];
    pid_t pid = 0;

    snprintf(path, sizeof(path), "%s/postmaster.pid", c->data);
    socket_dir[0] = '\0';
    FILE *file = fopen(path, "re");
    for (int i = 1; file && i <= 5 && fgets(line, sizeof(line), file); i++) {
        line[strcspn(line, "\n")] = '\0';
        if (i == 1)
            pid = (pid_t)atoi(line);
        else if (i == 5)
            snprintf(socket_dir, size, "%s", line);
    }
    if (file)
        fclose(file);
    return pid < 0 ? -pid : pid; /* negative: a stand-alone backend */
}

/* As the user: pid files that name a process which isn't PostgreSQL's any more would keep a new one from starting. */
static bool remove_stale(const struct st_cluster *c, struct st_problem *problem)
{
    static const char *const files[] = {"pgdata/postmaster.pid", "run/.s.PGSQL.5432.lock", "run/.s.PGSQL.5432"};
    char path[CLUSTER_PATH + 32];

    (void)problem;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", c->dir, files[i]);
        unlink(path);
    }
    return true;
}

static bool spawn_postmaster(struct st_cluster *c, struct st_problem *problem)
{
    char program[CLUSTER_PATH + 16], sockets[2 * CLUSTER_PATH + 32], connections[48];
    char *to = sockets + sprintf(sockets, "unix_socket_directories=\"");
    for (const char *from = c->run; *from; from++) {
        if (*from == '"')
            *to++ = '"';
        *to++ = *from;
    }
    memcpy(to, "\"", 2);
    snprintf(program, sizeof(program), "%s/postgres", c->bindir);
    snprintf(connections, sizeof(connections), "max_connections=%d", wanted_connections(c));
    char *const argv[] = {program,
                          (char[]){"-D"},
                          c->data,
                          (char[]){"-c"},
                          (char[]){"listen_addresses="},
                          (char[]){"-c"},
                          sockets,
                          (char[]){"-c"},
                          (char[]){"unix_socket_permissions=0700"},
                          (char[]){"-c"},
                          (char[]){"port=5432"},
                          (char[]){"-c"},
                          connections,
                          (char[]){"-c"},
                          (char[]){"cluster_name=holdfast"},
                          (char[]){"-c"},
                          (char[]){"search_path=public"}, /* not "$user" too: users' tables don't belong beside Holdfast's own */
                          (char[]){"-c"},
                          (char[]){"logging_collector=off"},
                          (char[]){"-c"},
                          (char[]){"log_destination=stderr"},
                          NULL};
    c->pid = cluster_spawn(c, argv, false, problem);
    if (c->pid < 0) {
        c->pid = 0;
        return false;
    }
    c->child = true;
    c->pidfd = cluster_pidfd(c->pid);
    if (c->pidfd >= 0)
        return true;
    st_problem_set(problem, "cannot watch PostgreSQL (pidfd_open): %s", strerror(errno));
    kill(c->pid, SIGQUIT);
    cluster_reap(c->pid, -1, false);
    c->pid = 0;
    return false;
}

/* The postmaster has ended, and its number may be used again. */
static int forget_postmaster(struct st_cluster *c)
{
    int status = c->child && c->pid > 0 ? cluster_reap(c->pid, c->pidfd, false) : -1;
    close_pidfd(c);
    return status;
}

/* Shuts the postmaster down. False: it still runs. */
static bool shut_down(struct st_cluster *c)
{
    if (c->pidfd < 0)
        return true;
    cluster_signal(c->pidfd, SIGINT);
    if (!cluster_wait_end(c->pidfd, FAST_MS)) {
        log_warn("cluster.stop_immediate", log_int("pid", c->pid), log_int("waited_ms", FAST_MS));
        cluster_signal(c->pidfd, SIGQUIT);
        if (!cluster_wait_end(c->pidfd, IMMEDIATE_MS)) {
            log_error("cluster.not_stopped", log_int("pid", c->pid), log_str("folder", c->dir));
            close_pidfd(c);
            return false;
        }
    }
    forget_postmaster(c);
    return true;
}

/* It answers and serves. INTERRUPTED and FAILED leave it running; FAILED with pidfd < 0 means that it has ended. */
static enum st_cluster_status wait_serving(struct st_cluster *c, struct st_problem *problem)
{
    char line[512];
    int64_t begun = st_sync_now();

    for (;;) {
        PGPing ping = PQping(c->dsn_postgres);
        if (ping == PQPING_OK)
            return ST_CLUSTER_OK;
        if (cluster_interrupted(c))
            return ST_CLUSTER_INTERRUPTED;
        if (cluster_wait_end(c->pidfd, 20)) {
            int status = forget_postmaster(c);
            cluster_log_tail(c, line, sizeof(line));
            st_problem_set(problem, "data folder %s: PostgreSQL ended while it started (%s %d): %s (see %s)", c->dir,
                           WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                           line, c->log);
            return ST_CLUSTER_FAILED;
        }
        int64_t waited = st_sync_now() - begun;
        if (waited > RECOVERY_MS || (waited > ANSWER_MS && ping != PQPING_REJECT)) {
            st_problem_set(problem, "data folder %s: PostgreSQL (pid %d) does not serve after %d s (see %s)", c->dir, (int)c->pid,
                           (int)(waited / 1000), c->log);
            return ST_CLUSTER_FAILED;
        }
    }
}

/* A postmaster left by a killed server is taken over if it serves where we look for it; otherwise it is ended. Afterwards
 * pidfd tells whether there is one. */
static enum st_cluster_status adopt(struct st_cluster *c, struct st_problem *problem)
{
    char socket_dir[CLUSTER_PATH];
    enum st_cluster_status status = ST_CLUSTER_OK;
    pid_t pid = read_pid_file(c, socket_dir, sizeof(socket_dir));

    if (pid <= 0 || (c->pidfd = cluster_pidfd(pid)) < 0)
        return ST_CLUSTER_OK;
    c->pid = pid;
    c->child = false;
    if (!cluster_works_in(pid, c->data)) { /* asked after the pidfd was opened: it is about this very process */
        close_pidfd(c);
        return ST_CLUSTER_OK;
    }
    if (socket_dir[0] && strcmp(socket_dir, c->run) != 0) {
        log_warn("cluster.moved", log_int("pid", pid), log_str("socket_dir", socket_dir), log_str("folder", c->dir));
    } else {
        status = wait_serving(c, problem);
        if (status == ST_CLUSTER_OK) {
            log_info("cluster.adopted", log_int("pid", pid), log_str("folder", c->dir));
            return ST_CLUSTER_OK;
        }
        if (status == ST_CLUSTER_INTERRUPTED || (status == ST_CLUSTER_FAILED && c->pidfd < 0))
            return status == ST_CLUSTER_FAILED ? ST_CLUSTER_OK : status; /* it was just ending */
    }
    log_info("cluster.restarting", log_int("pid", pid), log_str("folder", c->dir));
    if (shut_down(c))
        return ST_CLUSTER_OK;
    st_problem_set(problem, "data folder %s: the PostgreSQL of an earlier server (pid %d) does not stop", c->dir, (int)pid);
    return ST_CLUSTER_FAILED;
}

/* The database `holdfast` is there. */
static enum st_cluster_status make_database(struct st_cluster *c, struct st_problem *problem)
{
    enum st_cluster_status status = ST_CLUSTER_FAILED;
    PGconn *conn = st_sync_connect(c->dsn_postgres, 10000, problem);
    PGresult *r =
        conn ? st_sync_query(conn, st_sync_now() + 10000, problem, "SELECT FROM pg_database WHERE datname = 'holdfast'", 0, NULL)
             : NULL;

    if (r && (PQntuples(r) == 1 ||
              st_sync_do(conn, st_sync_now() + 60000, problem, "CREATE DATABASE holdfast TEMPLATE template0 ENCODING 'UTF8'")))
        status = ST_CLUSTER_OK;
    PQclear(r);
    PQfinish(conn);
    return status;
}

static enum st_cluster_status bring_up(struct st_cluster *c, const char *data_dir, struct st_problem *problem)
{
    enum st_cluster_status status = cluster_folder_open(c, data_dir, problem);
    int major = status == ST_CLUSTER_OK ? cluster_data_version(c, problem) : -1;

    if (status != ST_CLUSTER_OK)
        return status;
    if (major < 0 || !cluster_find_binaries(c, major, problem))
        return ST_CLUSTER_REFUSED;
    status = cluster_clear_up(c, problem);
    if (status != ST_CLUSTER_OK)
        return status;
    if (major == 0)
        status = cluster_make(c, problem);
    else
        status = adopt(c, problem);
    if (status == ST_CLUSTER_OK && c->pidfd < 0) {
        status = cluster_wait_leftovers(c, c->data, problem);
        if (status == ST_CLUSTER_OK && (!cluster_as_user(c, remove_stale, problem) || !spawn_postmaster(c, problem)))
            status = ST_CLUSTER_FAILED;
        if (status == ST_CLUSTER_OK)
            status = wait_serving(c, problem);
        if (status == ST_CLUSTER_OK)
            log_info("cluster.started", log_int("pid", c->pid), log_str("folder", c->dir), log_str("binaries", c->bindir));
    }
    return status == ST_CLUSTER_OK ? make_database(c, problem) : status;
}

enum st_cluster_status st_cluster_start(const struct st_cluster_config *cfg, struct st_cluster **out, struct st_problem *problem)
{
    struct st_cluster *c = calloc(1, sizeof(*c));
    if (!c) {
        st_problem_set(problem, "out of memory");
        return ST_CLUSTER_FAILED;
    }
    c->connections = cfg->connections;
    c->interrupted = cfg->interrupted;
    c->lock_fd = c->pidfd = -1;
    c->backoff_ms = BACKOFF_MIN_MS;
    enum st_cluster_status status = bring_up(c, cfg->data_dir, problem);
    if (status == ST_CLUSTER_OK)
        *out = c;
    else
        st_cluster_stop(c);
    return status;
}

const char *st_cluster_dsn(const struct st_cluster *c)
{
    return c->dsn;
}

/* ------------------------------------------------------------------------------------------------ watching it */

static void watch_postmaster(struct st_cluster *c);

static void try_again(struct st_cluster *c)
{
    c->io->timer_set(c->io, &c->again, c->io->now_ms(c->io) + c->backoff_ms);
    c->backoff_ms = c->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : c->backoff_ms * 2;
}

static void on_again(struct io_timer *timer)
{
    struct st_cluster *c = list_entry(timer, struct st_cluster, again);
    struct st_problem problem;

    hb_files_spare_begin(); /* callers who use up all others must not keep us from it */
    pid_t left = cluster_any_in(c->data);
    if (left) {
        log_warn("cluster.leftover", log_int("pid", left));
        try_again(c);
    } else if (!cluster_as_user(c, remove_stale, &problem) || !spawn_postmaster(c, &problem)) {
        log_error("cluster.not_started", log_str("reason", problem.text));
        try_again(c);
    } else {
        log_info("cluster.started", log_int("pid", c->pid), log_str("folder", c->dir));
        watch_postmaster(c);
    }
    hb_files_spare_end();
}

static void on_end(struct io_watch *watch, unsigned events)
{
    struct st_cluster *c = list_entry(watch, struct st_cluster, watch);
    char line[512];
    int64_t ran = c->io->now_ms(c->io) - c->started_ms;
    pid_t pid = c->pid;

    (void)events;
    c->io->unwatch(c->io, &c->watch);
    int status = forget_postmaster(c);
    hb_files_spare_begin();
    cluster_log_tail(c, line, sizeof(line));
    hb_files_spare_end();
    log_error("cluster.ended", log_int("pid", pid), log_int("wait_status", status), log_int("ran_ms", ran),
              log_str("last_line", line));
    if (ran > STEADY_MS)
        c->backoff_ms = BACKOFF_MIN_MS;
    try_again(c);
}

static void watch_postmaster(struct st_cluster *c)
{
    c->started_ms = c->io->now_ms(c->io);
    c->watch = (struct io_watch){.fd = c->pidfd, .want = IO_READ, .ready = on_end};
    int error = c->io->watch(c->io, &c->watch);
    if (error)
        log_error("cluster.not_watched", log_int("pid", c->pid), log_str("reason", strerror(-error)));
}

void st_cluster_watch(struct st_cluster *c, struct io *io)
{
    c->io = io;
    c->again.fire = on_again;
    watch_postmaster(c);
    c->started_ms -= STEADY_MS; /* it was up before */
}

static void unwatch(struct st_cluster *c)
{
    if (!c->io)
        return;
    if (c->watch.watched)
        c->io->unwatch(c->io, &c->watch);
    c->io->timer_cancel(c->io, &c->again);
    c->io = NULL;
}

void st_cluster_tell_stop(struct st_cluster *c)
{
    unwatch(c);
    if (c->pidfd >= 0)
        cluster_signal(c->pidfd, SIGINT);
}

bool st_cluster_stop(struct st_cluster *c)
{
    if (!c)
        return true;
    unwatch(c);
    bool stopped = shut_down(c);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    free(c);
    return stopped;
}
