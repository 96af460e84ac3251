/*
 * cluster_make.c - the data of the private cluster is made by initdb beside its place and renamed, so that what is in its place
 * is whole; what a cut-off start has left is cleared up first.
 */
#include "store/cluster_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "store/sync.h"

enum { INITDB_MS = 120000, LOG_MAX = 16 << 20 };

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

enum st_cluster_status cluster_clear_up(struct st_cluster *c, struct st_problem *problem)
{
    char half[CLUSTER_PATH + 8];

    data_new(c, half, sizeof(half));
    enum st_cluster_status status = cluster_wait_leftovers(c, half, problem);
    if (status == ST_CLUSTER_OK && !cluster_as_user(c, clear_up, problem))
        status = ST_CLUSTER_REFUSED;
    return status;
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

enum st_cluster_status cluster_make(struct st_cluster *c, struct st_problem *problem)
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
        asked = cluster_interrupted(c);
    }
    if (!ended && pidfd >= 0)
        cluster_signal(pidfd, SIGTERM); /* initdb ends its own child and clears up; we remove what stays at the next start */
    int status = cluster_reap(pid, pidfd, !ended && pidfd >= 0 && !cluster_wait_end(pidfd, 5000));
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

int cluster_data_version(const struct st_cluster *c, struct st_problem *problem)
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
