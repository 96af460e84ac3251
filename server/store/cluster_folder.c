/*
 * cluster_folder.c - the data folder: its paths, whose it is, and the lock that keeps a second server out.
 */
#include "store/cluster_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SOCKET_NAME "/.s.PGSQL.5432"

/* Appends `value` quoted as conninfo wants it. */
static void add_quoted(char *out, size_t size, const char *value)
{
    size_t n = strlen(out);
    if (n + 1 < size)
        out[n++] = '\'';
    for (; *value && n + 3 < size; value++) {
        if (*value == '\'' || *value == '\\')
            out[n++] = '\\';
        out[n++] = *value;
    }
    if (n + 1 < size)
        out[n++] = '\'';
    out[n] = '\0';
}

static void make_dsn(const struct st_cluster *c, char *out, size_t size, const char *dbname)
{
    snprintf(out, size, "host=");
    add_quoted(out, size, c->run);
    size_t n = strlen(out);
    snprintf(out + n, size - n, " port=5432 user=holdfast dbname=%s", dbname);
}

bool cluster_paths(struct st_cluster *c, const char *data_dir, struct st_problem *problem)
{
    char absolute[PATH_MAX];
    size_t most = CLUSTER_SOCKET_MAX - strlen("/run" SOCKET_NAME);

    if (!realpath(data_dir, absolute)) {
        char cwd[PATH_MAX] = "";
        if (data_dir[0] != '/' && !getcwd(cwd, sizeof(cwd) - 1)) {
            st_problem_set(problem, "data folder %s: the current folder is unknown: %s", data_dir, strerror(errno));
            return false;
        }
        int n = snprintf(absolute, sizeof(absolute), "%s%s%s", cwd, data_dir[0] == '/' ? "" : "/", data_dir);
        if (n < 0 || (size_t)n >= sizeof(absolute))
            absolute[0] = '\0';
    }
    size_t len = strlen(absolute);
    while (len > 1 && absolute[len - 1] == '/')
        absolute[--len] = '\0';
    if (len == 0 || len > most) {
        st_problem_set(
            problem,
            "data folder %.200s has a path of %zu bytes: with %s behind it no socket fits, whose path may have %d bytes; "
            "choose a folder whose path has at most %zu bytes",
            data_dir, len ? len : strlen(data_dir), "/run" SOCKET_NAME, CLUSTER_SOCKET_MAX, most);
        return false;
    }
    if (strchr(absolute, ',')) {
        st_problem_set(problem,
                       "data folder %s has a comma in its path, which separates hosts in PostgreSQL's settings: choose another",
                       absolute);
        return false;
    }
    memcpy(c->dir, absolute, len + 1);
    snprintf(c->data, sizeof(c->data), "%.*s/pgdata", (int)most, absolute);
    snprintf(c->run, sizeof(c->run), "%.*s/run", (int)most, absolute);
    snprintf(c->log, sizeof(c->log), "%.*s/postgres.log", (int)most, absolute);
    make_dsn(c, c->dsn, sizeof(c->dsn), "holdfast");
    make_dsn(c, c->dsn_postgres, sizeof(c->dsn_postgres), "postgres");
    return true;
}

bool st_cluster_dsn_of(const char *data_dir, char *out, size_t size, struct st_problem *problem)
{
    struct st_cluster *c = calloc(1, sizeof(*c));
    bool ok = c && cluster_paths(c, data_dir, problem);

    if (!c)
        st_problem_set(problem, "out of memory");
    if (ok)
        snprintf(out, size, "%s", c->dsn);
    free(c);
    return ok;
}

/* The folder's parents exist; those that are made can be entered by PostgreSQL's user whatever our umask is. */
static bool make_parents(const char *path, struct st_problem *problem)
{
    char part[PATH_MAX];
    bool ok = true;
    mode_t before = umask(022);

    snprintf(part, sizeof(part), "%s", path);
    for (char *slash = part + 1; ok && (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        ok = mkdir(part, 0755) == 0 || errno == EEXIST;
        if (!ok)
            st_problem_set(problem, "data folder %s: cannot make %s: %s", path, part, strerror(errno));
        *slash = '/';
    }
    umask(before);
    return ok;
}

/* The folder and its parents exist. */
static bool make_folder(const char *path, struct st_problem *problem)
{
    struct stat st;

    if (!make_parents(path, problem))
        return false;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        st_problem_set(problem, "data folder %s cannot be made: %s", path, strerror(errno));
        return false;
    }
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        st_problem_set(problem, "data folder %s is not a folder", path);
        return false;
    }
    return true;
}

/* Nothing is in the folder but what a server of ours may have left when it was cut off. */
static bool holds_only_ours(const char *path)
{
    static const char *const ours[] = {".", "..", "lock", "run", "pgdata", "pgdata.new", "postgres.log", "postgres.log.1"};
    DIR *dir = opendir(path);
    bool only = dir != NULL;

    for (struct dirent *entry; only && (entry = readdir(dir));) {
        only = false;
        for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]) && !only; i++)
            only = strcmp(entry->d_name, ours[i]) == 0;
    }
    if (dir)
        closedir(dir);
    return only;
}

static bool take_user(struct cluster_user *user, const struct passwd *entry)
{
    user->uid = entry->pw_uid;
    user->gid = entry->pw_gid;
    snprintf(user->name, sizeof(user->name), "%s", entry->pw_name);
    user->n_groups = CLUSTER_GROUPS;
    if (getgrouplist(entry->pw_name, entry->pw_gid, user->groups, &user->n_groups) < 0)
        user->n_groups = CLUSTER_GROUPS; /* more than fit; the first ones do */
    return true;
}

/* Only for root: the folder's owner, else holdfast, else postgres, who then becomes the owner. */
static bool choose_user(struct st_cluster *c, struct st_problem *problem)
{
    struct stat st;
    struct passwd *entry;

    if (stat(c->data, &st) != 0 && stat(c->dir, &st) != 0) {
        st_problem_set(problem, "data folder %s: %s", c->dir, strerror(errno));
        return false;
    }
    c->user.drop = true;
    if (st.st_uid != 0) {
        entry = getpwuid(st.st_uid);
        if (entry)
            return take_user(&c->user, entry);
        st_problem_set(problem, "data folder %s belongs to uid %u, which is no user of this machine, as PostgreSQL needs: chown it",
                       c->dir, (unsigned)st.st_uid);
        return false;
    }
    entry = getpwnam("holdfast");
    if (!entry)
        entry = getpwnam("postgres");
    if (!entry || entry->pw_uid == 0) {
        st_problem_set(problem,
                       "PostgreSQL does not run as root, and there is neither a user holdfast nor postgres: make one, or give "
                       "the data folder %s to another user",
                       c->dir);
        return false;
    }
    if (!holds_only_ours(c->dir)) {
        st_problem_set(
            problem,
            "data folder %s belongs to root and holds other things: PostgreSQL does not run as root; name an empty folder or "
            "a new one, or chown this one",
            c->dir);
        return false;
    }
    take_user(&c->user, entry);
    if (chown(c->dir, c->user.uid, c->user.gid) != 0) {
        st_problem_set(problem, "data folder %s cannot be given to user %s: %s", c->dir, c->user.name, strerror(errno));
        return false;
    }
    return true;
}

/* As the user: the folder can be entered and written to, and run/ is there. */
static bool prepare(const struct st_cluster *c, struct st_problem *problem)
{
    char part[CLUSTER_PATH];
    struct stat st;

    snprintf(part, sizeof(part), "%s", c->dir);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (access(part, X_OK) != 0) {
            st_problem_set(problem, "data folder %s: user %s cannot enter %s: %s", c->dir, c->user.name, part, strerror(errno));
            return false;
        }
        *slash = '/';
    }
    if (access(c->dir, R_OK | W_OK | X_OK) != 0) {
        st_problem_set(problem, "data folder %s is not writable for user %s: %s", c->dir, c->user.name, strerror(errno));
        return false;
    }
    if (mkdir(c->run, 0700) != 0 && errno != EEXIST) {
        st_problem_set(problem, "data folder %s: cannot make %s: %s", c->dir, c->run, strerror(errno));
        return false;
    }
    /* Whoever can reach the socket is trusted. */
    if (lstat(c->run, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || chmod(c->run, 0700) != 0) {
        st_problem_set(problem, "data folder %s: %s must be a folder of user %s", c->dir, c->run, c->user.name);
        return false;
    }
    return true;
}

static enum st_cluster_status take_lock(struct st_cluster *c, struct st_problem *problem)
{
    char path[CLUSTER_PATH + 8], pid[32] = "";
    struct stat st;

    snprintf(path, sizeof(path), "%s/lock", c->dir);
    c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (c->lock_fd < 0 || fstat(c->lock_fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1) {
        st_problem_set(problem, "data folder %s: cannot open %s: %s", c->dir, path,
                       c->lock_fd < 0 ? strerror(errno) : "it is not a plain file");
        return ST_CLUSTER_REFUSED;
    }
    if (flock(c->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t n = pread(c->lock_fd, pid, sizeof(pid) - 1, 0);
        pid[n > 0 ? n : 0] = '\0';
        pid[strcspn(pid, "\n")] = '\0';
        st_problem_set(problem, "data folder %s is in use by another holdfastd (pid %s): stop that one, or give another --data-dir",
                       c->dir, *pid ? pid : "unknown");
        return ST_CLUSTER_FAILED;
    }
    int len = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(c->lock_fd, 0) != 0 || pwrite(c->lock_fd, pid, (size_t)len, 0) != len ||
        (c->user.drop && fchown(c->lock_fd, c->user.uid, c->user.gid) != 0)) {
        st_problem_set(problem, "data folder %s: cannot write %s: %s", c->dir, path, strerror(errno));
        return ST_CLUSTER_REFUSED;
    }
    return ST_CLUSTER_OK;
}

enum st_cluster_status cluster_folder_open(struct st_cluster *c, const char *data_dir, struct st_problem *problem)
{
    if (!cluster_paths(c, data_dir, problem) || !make_folder(c->dir, problem) || !cluster_paths(c, data_dir, problem))
        return ST_CLUSTER_REFUSED;
    if (geteuid() == 0) {
        if (!choose_user(c, problem))
            return ST_CLUSTER_REFUSED;
    } else {
        struct passwd *entry = getpwuid(geteuid());
        if (!entry) {
            st_problem_set(problem, "uid %u is no user of this machine, as PostgreSQL needs", (unsigned)geteuid());
            return ST_CLUSTER_REFUSED;
        }
        take_user(&c->user, entry);
    }
    if (!cluster_as_user(c, prepare, problem))
        return ST_CLUSTER_REFUSED;
    return take_lock(c, problem);
}
