/*
 * with_server.c - `with_server [ARGUMENT…] -- COMMAND…` runs COMMAND beside a holdfastd on a fresh database, which is given the
 * ARGUMENTs and listens for HTTP too, and ends with COMMAND's exit status, or 1 if the server did not end well.
 *
 * COMMAND finds the server by HOLDFAST_SERVER (nng) and HOLDFAST_HTTP (HOST:PORT), its process by HOLDFAST_SERVER_PID and its
 * database by HOLDFAST_TEST_DSN. With `--auth keys` among the arguments HOLDFAST_KEY is the key of an admin.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 32 };

static int run(const struct t_server *server, char **command)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        setenv("HOLDFAST_SERVER", server->url, 1);
        setenv("HOLDFAST_HTTP", server->http, 1);
        setenv("HOLDFAST_SERVER_PID", t_printf("%d", (int)server->proc->pid), 1);
        setenv("HOLDFAST_TEST_DSN", server->dsn, 1);
        execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return 127;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* An admin's key, made as on the console, is in the environment from now on. */
static void make_key(const char *dsn)
{
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--create-admin-key", "test", NULL};
    const struct t_result made = t_run(argv, NULL, T_PATIENCE_MS);
    const char *key = strstr(made.out, "hfk_");
    if (made.status != 0 || !key) {
        fprintf(stderr, "no key: %d: %s%s\n", made.status, made.out, made.err);
        exit(1);
    }
    setenv("HOLDFAST_KEY", t_printf("%.*s", (int)strcspn(key, " \n"), key), 1);
}

int main(int argc, char **argv)
{
    const char *dsn = t_database();
    const char *args[MAX_ARGS] = {"--dsn", dsn, "--http", "127.0.0.1:0"};
    int at = 1;
    for (size_t n = 4; at < argc && strcmp(argv[at], "--") != 0; at++) {
        if (n + 1 == MAX_ARGS)
            return 2;
        args[n++] = argv[at];
        if (!strcmp(argv[at], "keys") && !strcmp(argv[at - 1], "--auth"))
            make_key(dsn);
    }
    if (at + 1 >= argc) {
        fprintf(stderr, "usage: with_server [ARGUMENT…] -- COMMAND…\n");
        return 2;
    }
    struct t_server *server = t_server_startv(args, NULL);
    const int status = run(server, argv + at + 1);
    const int ended = t_server_stop(server);
    if (status != 0 || ended != 0)
        fprintf(stderr, "holdfastd ended with %d; its log:\n%s", ended, t_proc_err(server->proc));
    return status != 0 ? status : ended != 0;
}
