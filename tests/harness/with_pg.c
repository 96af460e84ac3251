/*
 * with_pg.c - `with_pg COMMAND…` runs COMMAND with a throwaway PostgreSQL for all tests of a run (HOLDFAST_TEST_PG), and ends
 * with its exit status.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: with_pg COMMAND…\n");
        return 2;
    }
    /* Tests use many databases at the same time, each with several connections. */
    const char *settings[] = {"max_connections=400", "max_wal_size=512MB", NULL};
    struct t_pg *pg = t_pg_start(settings);
    char *shared = t_printf("host=%s port=5432 user=postgres", t_pg_dir(pg));
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("HOLDFAST_TEST_PG", shared, 1);
        setenv("HOLDFASTD_HTTP", "off", 1); /* as t_server_start; some start servers by themselves */
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    /* Ctrl-C reaches COMMAND by the terminal; the cluster has to be stopped after it. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
