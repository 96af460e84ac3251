/*
 * cluster_binaries.c - where initdb and postgres are: what pg_config says, then the places of Debian, Red Hat and others.
 */
#include "store/cluster_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first line that argv prints; "" if it cannot be run. */
static void first_line(char *const *argv, char *out, size_t size)
{
    int fds[2];
    pid_t pid;
    size_t used = 0;
    posix_spawn_file_actions_t actions;

    out[0] = '\0';
    if (pipe2(fds, O_CLOEXEC) != 0)
        return;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    for (ssize_t n; !failed && used + 1 < size && (n = read(fds[0], out + used, size - 1 - used)) != 0;) {
        if (n > 0)
            used += (size_t)n;
        else if (errno != EINTR)
            break;
    }
    close(fds[0]);
    while (!failed && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    out[used] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* Major version of the binaries in `bindir`, 0 if they aren't whole or can't be run. */
static int major_of(const char *bindir)
{
    char initdb[CLUSTER_PATH + 16], postgres[CLUSTER_PATH + 16], line[256];

    snprintf(initdb, sizeof(initdb), "%s/initdb", bindir);
    snprintf(postgres, sizeof(postgres), "%s/postgres", bindir);
    if (access(initdb, X_OK) != 0 || access(postgres, X_OK) != 0)
        return 0;
    char *const argv[] = {postgres, (char[]){"--version"}, NULL};
    first_line(argv, line, sizeof(line));
    const char *number = strstr(line, "(PostgreSQL) ");
    return number ? atoi(number + strlen("(PostgreSQL) ")) : 0;
}

static void consider(struct st_cluster *c, const char *bindir, int wanted, int *best)
{
    int major = bindir[0] ? major_of(bindir) : 0;
    if (major < CLUSTER_MIN_MAJOR || major <= *best || (wanted && major != wanted))
        return;
    *best = major;
    snprintf(c->bindir, sizeof(c->bindir), "%s", bindir);
}

bool cluster_find_binaries(struct st_cluster *c, int major, struct st_problem *problem)
{
    static const char *const places[] = {"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",         "/usr/lib/postgresql*/bin",
                                         "/usr/local/pgsql/bin",      "/usr/libexec/postgresql*", "/usr/bin"};
    char line[CLUSTER_PATH];
    int best = 0;

    char *const argv[] = {(char[]){"pg_config"}, (char[]){"--bindir"}, NULL};
    first_line(argv, line, sizeof(line));
    consider(c, line, major, &best);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        glob_t found = {0};
        if (glob(places[i], 0, NULL, &found) == 0) {
            for (size_t j = 0; j < found.gl_pathc; j++)
                consider(c, found.gl_pathv[j], major, &best);
        }
        globfree(&found);
    }
    if (best)
        return true;
    if (major)
        st_problem_set(problem,
                       "data folder %s is of PostgreSQL %d, and no initdb and postgres of that version were found (pg_config "
                       "--bindir, /usr/lib/postgresql/*/bin): install postgresql-%d",
                       c->dir, major, major);
    else
        st_problem_set(problem,
                       "no initdb and postgres of PostgreSQL %d or later were found (pg_config --bindir, "
                       "/usr/lib/postgresql/*/bin): install the package postgresql, or give --dsn",
                       CLUSTER_MIN_MAJOR);
    return false;
}
