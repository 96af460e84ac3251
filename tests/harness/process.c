/*
 * process.c - started processes, and the two programs of Holdfast among them.
 */
#include "harness/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 60000, MAX_ARGS = 64 };

struct tracked {
    struct t_proc proc; /* first */
    struct tracked *next;
    int generation;
};

struct server_memory {
    struct t_server server; /* first */
    const char *args[MAX_ARGS];
    struct t_spawn_opts opts;
};

static struct tracked *tracked;
static int n_started;

/* ------------------------------------------------------------------------------------------------ starting */

static void put_env(const char *setting)
{
    if (strchr(setting, '='))
        putenv((char *)setting);
    else
        unsetenv(setting);
}

static void die(const char *what)
{
    dprintf(2, "%s: %s\n", what, strerror(errno));
    _exit(127);
}

static void become_postgres(void)
{
    if (geteuid() != 0)
        return;
    const struct passwd *user = getpwnam("postgres");
    if (!user || initgroups(user->pw_name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        die("cannot become the user postgres");
}

static void child(const char *const *argv, const struct t_spawn_opts *opts, const struct t_proc *proc, const char *in, char *mark,
                  bool as_postgres)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    int fds[3] = {open(in, O_RDONLY), open(proc->out_path, O_WRONLY | O_APPEND), open(proc->err_path, O_WRONLY | O_APPEND)};
    for (int i = 0; i < 3; i++)
        if (fds[i] < 0 || dup2(fds[i], i) < 0)
            die("redirect");
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    putenv(mark);
    for (const char *const *env = opts->env; env && *env; env++)
        put_env(*env);
    if (as_postgres)
        become_postgres();
    if (opts->cwd && chdir(opts->cwd) != 0)
        die(opts->cwd);
    execvp(argv[0], (char *const *)argv);
    die(argv[0]);
}

struct t_proc *t_spawn_as(const char *const *argv, const struct t_spawn_opts *opts, bool as_postgres)
{
    static const struct t_spawn_opts none;
    char mark[64];
    struct tracked *track = t_alloc(sizeof(*track));
    struct t_proc *proc = &track->proc;
    int number = n_started++;
    if (!opts)
        opts = &none;
    proc->out_path = t_printf("%s/out.%d", t_root(), number);
    proc->err_path = t_printf("%s/err.%d", t_root(), number);
    const char *in = "/dev/null";
    if (opts->input) {
        in = t_printf("%s/in.%d", t_root(), number);
        t_write_file(in, opts->input);
    }
    t_write_file(proc->out_path, "");
    t_write_file(proc->err_path, "");
    t_mark(mark, sizeof(mark));
    fflush(NULL);
    proc->pid = fork();
    if (proc->pid < 0)
        fail_msg("fork: %s", strerror(errno));
    if (proc->pid == 0)
        child(argv, opts, proc, in, mark, as_postgres);
    setpgid(proc->pid, proc->pid); /* whichever of us is first */
    track->generation = t_generation();
    track->next = tracked;
    tracked = track;
    return proc;
}

struct t_proc *t_spawn(const char *const *argv, const struct t_spawn_opts *opts)
{
    return t_spawn_as(argv, opts, false);
}

/* ------------------------------------------------------------------------------------------------ watching */

static bool reap(struct t_proc *proc)
{
    int status;
    if (proc->ended)
        return true;
    pid_t pid = waitpid(proc->pid, &status, WNOHANG);
    if (pid == 0 || (pid < 0 && errno == EINTR))
        return false;
    proc->ended = true;
    proc->status = pid < 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
}

static bool has_ended(void *arg)
{
    return reap(arg);
}

void t_processes_reap(void)
{
    for (struct tracked *track = tracked; track; track = track->next)
        reap(&track->proc);
}

void t_processes_forget(int generation)
{
    for (struct tracked **at = &tracked, *track; (track = *at);) {
        if (track->generation < generation) {
            at = &track->next;
            continue;
        }
        unlink(track->proc.out_path);
        unlink(track->proc.err_path);
        *at = track->next; /* its memory is t_alloc's */
    }
}

int t_proc_wait(struct t_proc *proc, int ms)
{
    return t_wait_for(has_ended, proc, ms) ? proc->status : -1;
}

char *t_proc_out(struct t_proc *proc)
{
    return t_read_file(proc->out_path);
}

char *t_proc_err(struct t_proc *proc)
{
    return t_read_file(proc->err_path);
}

void t_proc_kill(struct t_proc *proc, int sig)
{
    if (!reap(proc))
        kill(proc->pid, sig);
}

static void expect(struct t_proc *proc, const char *path, const char *text, int ms)
{
    int64_t end = t_now_ms() + ms;
    for (;;) {
        bool ended = reap(proc);
        if (strstr(t_read_file(path), text))
            return;
        if (ended)
            fail_msg("ended with %d without saying \"%s\"; stdout: %s; stderr: %s", proc->status, text, t_tail(t_proc_out(proc)),
                     t_tail(t_proc_err(proc)));
        if (t_now_ms() > end)
            fail_msg("not within %d ms: \"%s\"; stdout: %s; stderr: %s", ms, text, t_tail(t_proc_out(proc)),
                     t_tail(t_proc_err(proc)));
        t_sleep_ms(10);
    }
}

void t_proc_expect_out(struct t_proc *proc, const char *text, int ms)
{
    expect(proc, proc->out_path, text, ms);
}

void t_proc_expect_err(struct t_proc *proc, const char *text, int ms)
{
    expect(proc, proc->err_path, text, ms);
}

bool t_alive(pid_t pid)
{
    char path[64], stat[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(stat, 1, sizeof(stat) - 1, file) : 0;
    if (file)
        fclose(file);
    stat[len] = '\0';
    const char *state = strrchr(stat, ')'); /* pid (name) state …; the name may hold anything */
    return state && state[1] && !strchr("ZX", state[2]);
}

static struct t_result result_of(struct t_proc *proc, const char *name, int ms)
{
    if (t_proc_wait(proc, ms) < 0) {
        kill(proc->pid, SIGKILL);
        fail_msg("%s did not end within %d ms; stdout: %s; stderr: %s", name, ms, t_tail(t_proc_out(proc)),
                 t_tail(t_proc_err(proc)));
    }
    return (struct t_result){proc->status, t_proc_out(proc), t_proc_err(proc)};
}

struct t_result t_run(const char *const *argv, const struct t_spawn_opts *opts, int ms)
{
    return result_of(t_spawn(argv, opts), argv[0], ms);
}

/* ------------------------------------------------------------------------------------------------ holdfastd */

/* The word after `key` in text, such as nng=…: copied. */
static void copy_word(const char *text, const char *key, char *to, size_t size)
{
    const char *at = strstr(text, key);
    size_t len = at ? strcspn(at + strlen(key), " \n") : 0;
    snprintf(to, size, "%.*s", (int)len, at ? at + strlen(key) : "");
}

static void await_ready(struct server_memory *mem)
{
    struct t_server *server = &mem->server;
    server->proc = t_spawn(mem->args, &mem->opts);
    t_proc_expect_out(server->proc, "READY ", READY_MS);
    /* The line may still be half written. */
    int64_t end = t_now_ms() + 1000;
    while (!strchr(strstr(t_proc_out(server->proc), "READY "), '\n') && t_now_ms() < end)
        t_sleep_ms(2);
    const char *ready = strstr(t_proc_out(server->proc), "READY ");
    copy_word(ready, "nng=", server->url, sizeof(server->url));
    copy_word(ready, "http=", server->http, sizeof(server->http));
}

struct t_server *t_server_startv(const char *const *args, const struct t_spawn_opts *opts)
{
    struct server_memory *mem = t_alloc(sizeof(*mem));
    struct t_server *server = &mem->server;
    bool listens = false;
    size_t n = 0;
    setenv("HOLDFASTD_HTTP", "off", 0); /* tests run side by side: who needs the port asks for one */
    mem->args[n++] = T_HOLDFASTD;
    for (size_t i = 0; args[i]; i++) {
        if (n + 3 >= MAX_ARGS)
            fail_msg("too many arguments");
        listens |= !strncmp(args[i], "--listen", 8);
        if (!strcmp(args[i], "--dsn") && args[i + 1])
            snprintf(server->dsn, sizeof(server->dsn), "%s", args[i + 1]);
        mem->args[n++] = t_strdup(args[i]);
    }
    size_t listen_at = n;
    if (!listens) {
        mem->args[n++] = "--listen";
        mem->args[n++] = "tcp://127.0.0.1:0";
    }
    if (opts)
        mem->opts = *opts;
    await_ready(mem);
    if (!listens) /* for a restart on the same URL */
        mem->args[listen_at + 1] = t_strdup(server->url);
    return server;
}

/* The arguments of a call as an array; `first` before them. */
#define COLLECT(args, n, first)                                                                                                    \
    do {                                                                                                                           \
        va_list list;                                                                                                              \
        va_start(list, first);                                                                                                     \
        for (const char *each = first; each && (n) < MAX_ARGS - 1; each = va_arg(list, const char *))                              \
            (args)[(n)++] = each;                                                                                                  \
        va_end(list);                                                                                                              \
        (args)[n] = NULL;                                                                                                          \
    } while (0)

struct t_server *t_server_start(const char *arg, ...)
{
    const char *args[MAX_ARGS];
    size_t n = 0;
    COLLECT(args, n, arg);
    return t_server_startv(args, NULL);
}

int t_server_stop(struct t_server *server)
{
    t_proc_kill(server->proc, SIGTERM);
    int status = t_proc_wait(server->proc, 30000);
    if (status < 0)
        fail_msg("holdfastd did not end within 30 s of SIGTERM: %s", t_tail(t_proc_err(server->proc)));
    return status;
}

void t_server_kill(struct t_server *server, int sig)
{
    t_proc_kill(server->proc, sig);
    if (sig == SIGKILL && t_proc_wait(server->proc, 10000) < 0)
        fail_msg("holdfastd outlived SIGKILL");
}

void t_server_restart(struct t_server *server)
{
    await_ready((struct server_memory *)server);
}

/* ------------------------------------------------------------------------------------------------ holdfast */

static struct t_proc *spawn_cli(const struct t_server *server, const char **args)
{
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    struct t_spawn_opts opts = {.env = env};
    args[0] = T_HOLDFAST;
    return t_spawn(args, &opts);
}

struct t_result t_cli(const struct t_server *server, const char *arg, ...)
{
    const char *args[MAX_ARGS];
    size_t n = 1;
    COLLECT(args, n, arg);
    return result_of(spawn_cli(server, args), t_printf("holdfast %s", arg), 30000);
}

struct t_proc *t_cli_spawn(const struct t_server *server, const char *arg, ...)
{
    const char *args[MAX_ARGS];
    size_t n = 1;
    COLLECT(args, n, arg);
    return spawn_cli(server, args);
}
