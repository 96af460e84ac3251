/*
 * cluster.c - the life of the private PostgreSQL: made, adopted or started, watched, stopped. See cluster.h.
 *
 *   none ──spawn──▶ running ──ends──▶ none ──backoff──▶ spawn …      running ──stop──▶ none
 *   none ──adopt──▶ running (not our child: not reaped, otherwise the same)
 */
#include "store/cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "store/cluster_internal.h"
#include "store/sync.h"

enum {
    INITDB_MS = 120000,
    ANSWER_MS = 60000,    /* until it answers at all */
    RECOVERY_MS = 600000, /* until it serves */
    FAST_MS = 60000,
    IMMEDIATE_MS = 10000,
    LEFTOVER_MS = 30000, /* for processes of a dead postmaster */
    BACKOFF_MIN_MS = 100,
    BACKOFF_MAX_MS = 10000,
    STEADY_MS = 30000, /* ran this long: the backoff begins anew */
    LOG_MAX = 16 << 20,
    SPARE_CONNECTIONS = 20,
    LEAST_CONNECTIONS = 100
};

static bool interrupted(const struct st_cluster *c)
{
    return c->interrupted && c->interrupted();
}

static int wanted_connections(const struct st_cluster *c)
{
    int n = c->connections + SPARE_CONNECTIONS;
    return n < LEAST_CONNECTIONS ? LEAST_CONNECTIONS : n;
}

/* ------------------------------------------------------------------------------------------------ making it */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

static void data_new(const struct st_cluster *c, char *out, size_t size)
{
    snprintf(out, size, "%s.new", c->data);
}

/* As the user: what an initdb that was cut off has left is gone, and a log that has grown large is set aside. */
static bool clear_up(const struct st_cluster *c, struct st_problem *problem)
{
    char path[CLUSTER_PATH + 8];
    struct stat st;

    data_new(c, path, sizeof(path));
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        st_problem_set(problem, "data folder %s: cannot remove %s, left by an earlier start: %s", c->dir, path, strerror(errno));
        return false;
    }
    snprintf(path, sizeof(path), "%s.1", c->log);
    if (stat(c->log, &st) == 0 && st.st_size > LOG_MAX)
        rename(c->log, path);
    return true;
}

/* As the user: the new data takes its place, and the name is on disk. */
static bool put_in_place(const struct st_cluster *c, struct st_problem *problem)
{
    char path[CLUSTER_PATH + 8];

    data_new(c, path, sizeof(path));
    int dir = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = dir >= 0 && rename(path, c->data) == 0 && fsync(dir) == 0;
    if (!ok)
        st_problem_set(problem, "data folder %s: cannot rename %s to %s: %s", c->dir, path, c->data, strerror(errno));
    if (dir >= 0)
        close(dir);
    return ok;
}

/* No process works in this folder any more; what those of a dead postmaster or initdb would corrupt is theirs until then. */
static enum st_cluster_status wait_leftovers(struct st_cluster *c, const char *folder, struct st_problem *problem)
{
    int64_t begun = st_sync_now();

    for (pid_t pid; (pid = cluster_any_in(folder)) != 0;) {
        if (interrupted(c))
            return ST_CLUSTER_INTERRUPTED;
        if (st_sync_now() - begun > LEFTOVER_MS) {
            st_problem_set(problem, "data folder %s: process %d of an earlier PostgreSQL still works in %s", c->dir, (int)pid,
                           folder);
            return ST_CLUSTER_FAILED;
        }
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
    }
    return ST_CLUSTER_OK;
}

/* Ends a child that takes too long, and reaps it. Its wait status. */
static int reap(pid_t pid, int pidfd, bool kill_it)
{
    int status = -1;
    if (kill_it)
        cluster_signal(pidfd, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static enum st_cluster_status run_initdb(struct st_cluster *c, struct st_problem *problem)
{
    char program[CLUSTER_PATH + 16], path[CLUSTER_PATH + 8], line[512];
    char *const argv[] = {program,
                          (char[]){"-D"},
                          path,
                          (char[]){"--username=holdfast"},
                          (char[]){"--encoding=UTF8"},
                          (char[]){"--locale=C"},
                          (char[]){"--auth-local=trust"},
                          (char[]){"--auth-host=reject"},
                          (char[]){"--data-checksums"},
                          (char[]){"--no-instructions"},
                          NULL};
    int64_t deadline = st_sync_now() + INITDB_MS;

    snprintf(program, sizeof(program), "%s/initdb", c->bindir);
    data_new(c, path, sizeof(path));
    log_info("cluster.making", log_str("folder", c->dir), log_str("user", c->user.name), log_str("binaries", c->bindir));
    pid_t pid = cluster_spawn(c, argv, true, problem);
    int pidfd = pid < 0 ? -1 : cluster_pidfd(pid);
    if (pid < 0)
        return ST_CLUSTER_FAILED;
    bool ended = false, asked = false;
    while (pidfd >= 0 && !ended && !asked && st_sync_now() < deadline) {
        ended = cluster_wait_end(pidfd, 100);
        asked = interrupted(c);
    }
    if (!ended && pidfd >= 0)
        cluster_signal(pidfd, SIGTERM); /* initdb ends its own child and clears up; we remove what stays at the next start */
    int status = reap(pid, pidfd, !ended && pidfd >= 0 && !cluster_wait_end(pidfd, 5000));
    if (pidfd >= 0)
        close(pidfd);
    if (asked)
        return ST_CLUSTER_INTERRUPTED;
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return cluster_as_user(c, put_in_place, problem) ? ST_CLUSTER_OK : ST_CLUSTER_FAILED;
    cluster_log_tail(c, line, sizeof(line));
    st_problem_set(problem, "data folder %s: initdb %s: %s (see %s)", c->dir, ended ? "failed" : "took too long", line, c->log);
    return ST_CLUSTER_FAILED;
}

/* The major version of the data, 0 if there is none yet, -1 if it cannot be told. */
static int data_version(const struct st_cluster *c, struct st_problem *problem)
{
    char path[CLUSTER_PATH + 16], text[32] = "";
    struct stat st;

    if (lstat(c->data, &st) != 0 && errno == ENOENT)
        return 0;
    snprintf(path, sizeof(path), "%s/PG_VERSION", c->data);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    int major = n > 0 ? atoi(text) : 0;
    if (major > 0)
        return major;
    st_problem_set(problem, "data folder %s: %s is there but is no PostgreSQL data (no PG_VERSION): move it away", c->dir, c->data);
    return -1;
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
    reap(c->pid, -1, false);
    c->pid = 0;
    return false;
}

/* The postmaster has ended, and its number may be used again. */
static int forget_postmaster(struct st_cluster *c)
{
    int status = c->child && c->pid > 0 ? reap(c->pid, c->pidfd, false) : -1;
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
        if (interrupted(c))
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

/* The adopted one has room for our connections; unknown counts as yes, for then the start-up checks tell. */
static bool has_room(struct st_cluster *c)
{
    struct st_problem ignored;
    bool room = true;
    PGconn *conn = st_sync_connect(c->dsn_postgres, 10000, &ignored);
    PGresult *r = conn ? st_sync_query(conn, st_sync_now() + 10000, &ignored, "SHOW max_connections", 0, NULL) : NULL;

    if (r)
        room = atoi(PQgetvalue(r, 0, 0)) >= wanted_connections(c);
    PQclear(r);
    PQfinish(conn);
    return room;
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
        if (status == ST_CLUSTER_OK && has_room(c)) {
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
    char half[CLUSTER_PATH + 8];
    enum st_cluster_status status = cluster_folder_open(c, data_dir, problem);
    int major = status == ST_CLUSTER_OK ? data_version(c, problem) : -1;

    if (status != ST_CLUSTER_OK)
        return status;
    if (major < 0 || !cluster_find_binaries(c, major, problem))
        return ST_CLUSTER_REFUSED;
    data_new(c, half, sizeof(half));
    status = wait_leftovers(c, half, problem);
    if (status == ST_CLUSTER_OK && !cluster_as_user(c, clear_up, problem))
        status = ST_CLUSTER_REFUSED;
    if (status != ST_CLUSTER_OK)
        return status;
    if (major == 0)
        status = run_initdb(c, problem);
    else
        status = adopt(c, problem);
    if (status == ST_CLUSTER_OK && c->pidfd < 0) {
        status = wait_leftovers(c, c->data, problem);
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
    cluster_log_tail(c, line, sizeof(line));
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
