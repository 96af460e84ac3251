/*
 * demo.c - `holdfast demo`: the story of the paused holder, played by two worker processes against the running server.
 *
 * The stage directions are here; the workers (demo_worker.c) are this program again, each a process of its own with its own
 * client, told what to do over a pipe. Nothing is pretended: the pause is SIGSTOP, the late write is sent, the value is read.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/values.h"
#include "proto/c/json.h"

enum { DEMO_TTL_MS = 1500, DEMO_PATIENCE_MS = 40000 };

#define FIRST_VALUE "balance 100"
#define LATE_VALUE  "balance 90, by A"
#define GOOD_VALUE  "balance 80, by B"

struct worker {
    const char *name;
    pid_t pid;
    FILE *to;
    int from;
    char line[512]; /* its last answer */
};

struct demo {
    struct cli *cli;
    char resource[64];
    struct worker a, b;
    int step;
    int64_t token_a, token_b, first_version, version;
    char loss[32], refusal[32];
};

/* ---- workers ---- */

static void become_worker(const struct demo *demo, const char *name, int in, int out, pid_t parent)
{
    const char *timeout = cli_given(demo->cli, CLI_TIMEOUT) ? cli_text(demo->cli, CLI_TIMEOUT) : "30s";
    char ttl[32];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(CLI_FAILED);
    snprintf(ttl, sizeof(ttl), "%dms", DEMO_TTL_MS);
    const char *argv[] = {"holdfast",    "demo-worker",
                          "--server",    demo->cli->servers,
                          "--namespace", demo->cli->name_space,
                          "--task",      name,
                          "--ttl",       ttl,
                          "--timeout",   timeout,
                          "--",          demo->resource,
                          NULL};
    cli_hand_on(demo->cli); /* a key isn't for the command line, where all can see it */
    execv("/proc/self/exe", (char **)argv);
    _exit(CLI_FAILED);
}

static bool start_worker(const struct demo *demo, struct worker *worker, const char *name)
{
    int in[2], out[2];
    pid_t self = getpid();

    worker->name = name;
    if (pipe2(in, O_CLOEXEC))
        return false;
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]);
        close(in[1]);
        return false;
    }
    worker->pid = fork();
    if (worker->pid == 0)
        become_worker(demo, name, in[0], out[1], self);
    close(in[0]);
    close(out[1]);
    worker->to = fdopen(in[1], "w");
    worker->from = out[0];
    return worker->pid > 0 && worker->to;
}

static void end_worker(struct worker *worker)
{
    if (worker->to)
        fclose(worker->to);
    if (worker->pid > 0) {
        kill(worker->pid, SIGKILL);
        while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (worker->from > 0)
        close(worker->from);
}

/* Reads the worker's answer, one line. False: it died, or took too long. */
static bool hear(struct worker *worker)
{
    struct pollfd fd = {.fd = worker->from, .events = POLLIN};
    size_t n = 0;

    while (n + 1 < sizeof(worker->line)) {
        if (poll(&fd, 1, DEMO_PATIENCE_MS) != 1 || read(worker->from, worker->line + n, 1) != 1)
            break;
        if (worker->line[n] == '\n') {
            worker->line[n] = '\0';
            return true;
        }
        n++;
    }
    snprintf(worker->line, sizeof(worker->line), "error %d INTERNAL: worker %s does not answer", CLI_FAILED, worker->name);
    return false;
}

/* Tells a worker to do something, and hears how it went. */
static void ask(struct worker *worker, const char *what, const char *value)
{
    fprintf(worker->to, "%s %s\n", what, value);
    fflush(worker->to);
    hear(worker);
}

/* ---- the story ---- */

static void tell(struct demo *demo, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(struct demo *demo, const char *format, ...)
{
    va_list args;

    if (demo->cli->json)
        return;
    printf("%3d. ", ++demo->step);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

/* The worker's answer is not what was promised: says so; returns the exit status. */
static int broken(const struct demo *demo, const struct worker *worker, const char *promised)
{
    struct hp_status status;
    int exit_status, used = 0;

    if (sscanf(worker->line, "error %d %n", &exit_status, &used) == 1 && used) {
        char *colon = strchr(worker->line + used, ':');
        if (colon)
            *colon = '\0';
        hp_status_set(&status, hp_reason_by_name(worker->line + used), "worker %s: %s", worker->name, colon ? colon + 2 : "");
        if (!status.reason)
            status.code = HP_UNAVAILABLE;
        cli_error(demo->cli, &status);
        return exit_status;
    }
    hp_status_set(&status, HP_R_ILLEGAL_STATE, "promised: %s; but worker %s answers: %s", promised, worker->name, worker->line);
    return cli_error(demo->cli, &status);
}

/* Until worker A stops: it holds the lease and has built its update. */
static int first_act(struct demo *demo)
{
    int status;

    ask(&demo->a, "acquire", "0");
    if (sscanf(demo->a.line, "granted %" SCNd64, &demo->token_a) != 1)
        return broken(demo, &demo->a, "a lease on a resource that nobody holds");
    tell(demo, "worker A (pid %d) takes the lease for %s: token %" PRId64, (int)demo->a.pid, cli_ms(DEMO_TTL_MS), demo->token_a);
    ask(&demo->a, "write", FIRST_VALUE);
    if (sscanf(demo->a.line, "written %" SCNd64, &demo->first_version) != 1)
        return broken(demo, &demo->a, "the holder's write is accepted");
    tell(demo, "A writes \"%s\": accepted, version %" PRId64, FIRST_VALUE, demo->first_version);
    kill(demo->a.pid, SIGSTOP);
    if (waitpid(demo->a.pid, &status, WUNTRACED) != demo->a.pid || !WIFSTOPPED(status)) {
        demo->a.pid = 0;
        return broken(demo, &demo->a, "worker A is stopped");
    }
    tell(demo, "A builds its next update, \"%s\", and is paused (SIGSTOP) before it sends it", LATE_VALUE);
    return CLI_OK;
}

/* Worker B takes over and writes. */
static int second_act(struct demo *demo)
{
    ask(&demo->b, "acquire", "20000");
    if (sscanf(demo->b.line, "granted %" SCNd64, &demo->token_b) != 1 || demo->token_b <= demo->token_a)
        return broken(demo, &demo->b, "a lease with a higher token, once A's has expired");
    tell(demo, "A's lease expires; worker B (pid %d) takes over: token %" PRId64, (int)demo->b.pid, demo->token_b);
    ask(&demo->b, "write", GOOD_VALUE);
    if (sscanf(demo->b.line, "written %" SCNd64, &demo->version) != 1)
        return broken(demo, &demo->b, "the new holder's write is accepted");
    tell(demo, "B writes \"%s\": accepted, version %" PRId64, GOOD_VALUE, demo->version);
    return CLI_OK;
}

/* Worker A wakes up and is late. */
static int third_act(struct demo *demo)
{
    kill(demo->a.pid, SIGCONT);
    ask(&demo->a, "write", LATE_VALUE);
    if (sscanf(demo->a.line, "lost %31s", demo->loss) != 1)
        return broken(demo, &demo->a, "A's library has noticed the loss, and sends nothing");
    tell(demo, "A goes on (SIGCONT): its library knows that the lease is lost (%s) and sends nothing more", demo->loss);
    ask(&demo->a, "send", LATE_VALUE);
    if (sscanf(demo->a.line, "refused %31s", demo->refusal) != 1 || strcmp(demo->refusal, "STALE_TOKEN") != 0)
        return broken(demo, &demo->a, "the server refuses A's late write: STALE_TOKEN");
    tell(demo, "A's late write is sent all the same, under token %" PRId64 ": refused by the server, %s", demo->token_a,
         demo->refusal);
    return CLI_OK;
}

static int last_act(struct demo *demo)
{
    hf_value value;
    hf_error error;
    int failed = cli_client(demo->cli);

    if (failed)
        return failed;
    if (hf_read(demo->cli->client, demo->resource, &value, &error) != HF_OK) {
        snprintf(demo->b.line, sizeof(demo->b.line), "read failed: %s", error.message);
        return broken(demo, &demo->b, "the value can be read");
    }
    bool good = value.exists && value.len == strlen(GOOD_VALUE) && !memcmp(value.data, GOOD_VALUE, value.len) &&
                value.version == demo->version && value.token == demo->token_b;
    tell(demo, "the value now: \"%.*s\", version %" PRId64 ", written under token %" PRId64, (int)value.len,
         value.data ? (char *)value.data : "", value.version, value.token);
    hf_value_release(&value);
    if (!good) {
        snprintf(demo->b.line, sizeof(demo->b.line), "the value is another one");
        return broken(demo, &demo->b, "B's value stands");
    }
    ask(&demo->b, "release", "");
    if (strcmp(demo->b.line, "released") != 0)
        return broken(demo, &demo->b, "the holder's release is accepted");
    return CLI_OK;
}

static void print_summary(const struct demo *demo)
{
    struct hp_buf out = HP_BUF_INIT;

    if (!demo->cli->json) {
        printf("\nAs promised: the late write was refused, and B's value stands.\n");
        return;
    }
    hp_buf_addstr(&out, "{\"resource\":");
    hp_json_string(&out, demo->resource, strlen(demo->resource));
    hp_buf_printf(&out,
                  ",\"tokenA\":\"%" PRId64 "\",\"tokenB\":\"%" PRId64 "\",\"noticed\":\"%s\",\"refused\":\"%s\",\"value\":\"%s\","
                  "\"version\":\"%" PRId64 "\"}",
                  demo->token_a, demo->token_b, demo->loss, demo->refusal, GOOD_VALUE, demo->version);
    if (!out.failed)
        printf("%s\n", (const char *)out.data);
    hp_buf_release(&out);
}

int cli_demo(struct cli *cli)
{
    struct demo demo = {.cli = cli};
    int (*const acts[])(struct demo *) = {first_act, second_act, third_act, last_act};
    uint64_t id;
    int result = CLI_OK;

    if (cli->args.n_words == 2 && !strcmp(cli_word(cli, 0), "operations"))
        return cli_demo_operations(cli);
    if (cli->args.n_words == 2 && strcmp(cli_word(cli, 0), "takeover") != 0)
        return cli_usage_error(cli, "unknown demo %s; there are: takeover, operations", cli_word(cli, 0));
    if (getentropy(&id, sizeof(id)))
        id = (uint64_t)hfi_boot_ms();
    snprintf(demo.resource, sizeof(demo.resource), "demo/takeover/%012" PRIx64, id & 0xffffffffffff);
    signal(SIGPIPE, SIG_IGN);
    if (!cli->json)
        printf("The paused holder, on resource %s:\n\n", demo.resource);
    fflush(stdout);
    if (!start_worker(&demo, &demo.a, "A") || !start_worker(&demo, &demo.b, "B")) {
        snprintf(demo.a.line, sizeof(demo.a.line), "error %d INTERNAL: %s", CLI_FAILED, strerror(errno));
        result = broken(&demo, &demo.a, "");
    }
    for (size_t i = 0; !result && i < sizeof(acts) / sizeof(acts[0]); i++)
        result = acts[i](&demo);
    end_worker(&demo.a);
    end_worker(&demo.b);
    if (!result)
        print_summary(&demo);
    return result;
}
