/*
 * bench.c - bench: measures a running server, and verifies that what was measured has happened.
 *
 * This process only watches: the work is done by processes of its own making (bench_run.c), at least one, which tell their results
 * in shared memory.
 */
#include "client/cli/bench.h"
#include "client/cli/values.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DURATION_MS = 10000, WARM_UP_MAX_MS = 1000, TTL_SPARE_MS = 60000, LOOK_MS = 20, PROGRESS_MS = 250 };
enum { CONCURRENCY_MAX = 100000, KEYS_MAX = 100000000, VALUE_MAX = 1 << 20, TTL_MAX_MS = 86400000 };

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* ---- what is asked for ---- */

static const struct bench_kind *find_kind(struct cli *cli)
{
    char names[256] = "";

    for (const struct bench_kind *kind = bench_kinds; kind->name; kind++) {
        if (!strcmp(cli_word(cli, 0), kind->name))
            return kind;
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", *names ? ", " : "", kind->name);
    }
    cli_usage_error(cli, "unknown kind %s; there are: %s", cli_word(cli, 0), names);
    return NULL;
}

/* True, or it was complained about. */
static bool take(struct cli *cli, enum cli_flag flag, int64_t otherwise, int64_t min, int64_t max, int64_t *number)
{
    *number = cli_number(cli, flag, otherwise);
    if (*number >= min && *number <= max)
        return true;
    if (cli_given(cli, flag))
        cli_usage_error(cli, "--%s %s: it must be %" PRId64 " to %" PRId64, cli_flag_name(flag), cli_text(cli, flag), min, max);
    else
        cli_usage_error(cli, "--%s is needed: %" PRId64 " to %" PRId64, cli_flag_name(flag), min, max);
    return false;
}

/* The flag is a text, for `key` takes it as a prefix. */
static bool take_operations(struct cli *cli, int64_t *number)
{
    *number = 0;
    if (!cli_given(cli, CLI_OPERATIONS))
        return true;
    if (!cli_parse_number(cli_text(cli, CLI_OPERATIONS), number) && *number >= 1 && *number <= INT64_MAX / 2)
        return true;
    cli_usage_error(cli, "--operations %s: it must be 1 to %" PRId64, cli_text(cli, CLI_OPERATIONS), INT64_MAX / 2);
    return false;
}

static bool take_options(struct cli *cli, struct bench_options *o)
{
    uint64_t id;
    int64_t each, least;

    o->kind = find_kind(cli);
    if (!o->kind || !take(cli, CLI_PROCESSES, 1, 1, BENCH_PROCESSES_MAX, &o->processes))
        return false;
    least = o->processes * (o->kind->shared ? 2 : 1);
    if (!take(cli, CLI_CONCURRENCY, o->kind->concurrency * (o->kind->shared ? o->processes : 1), least, CONCURRENCY_MAX,
              &o->concurrency) ||
        !take(cli, CLI_ITEMS, 500, 1, BENCH_ITEMS_MAX, &o->items))
        return false;
    each = o->kind->keys_each == 500 ? o->items : o->kind->keys_each;
    if (!take(cli, CLI_KEYS, o->kind->shared ? o->processes : each * o->concurrency,
              o->kind->shared ? o->processes : o->concurrency, o->kind->shared ? o->concurrency / 2 : KEYS_MAX, &o->keys) ||
        !take(cli, CLI_VALUE_SIZE, 64, 0, VALUE_MAX, &o->value_size) ||
        !take(cli, CLI_DURATION, DURATION_MS, 1, 3600 * 1000 * 24, &o->duration_ms) || !take_operations(cli, &o->operations))
        return false;
    if (o->operations && cli_given(cli, CLI_DURATION))
        return cli_usage_error(cli, "either --duration or --operations"), false;
    o->warm_up_ms = o->operations ? 0 : o->duration_ms / 5 < WARM_UP_MAX_MS ? o->duration_ms / 5 : WARM_UP_MAX_MS;
    if (!take(cli, CLI_TTL, o->duration_ms + TTL_SPARE_MS < TTL_MAX_MS ? o->duration_ms + TTL_SPARE_MS : TTL_MAX_MS, 100,
              TTL_MAX_MS, &o->ttl_ms))
        return false;
    if (o->kind->action != cli_given(cli, CLI_ACTION))
        return cli_usage_error(cli, o->kind->action ? "bench %s needs --action A" : "bench %s takes no --action", o->kind->name),
               false;
    if (cli_given(cli, CLI_TIMEOUT) && cli_number(cli, CLI_TIMEOUT, 0) == 0)
        return cli_usage_error(cli, "--timeout %s: a call needs some time", cli_text(cli, CLI_TIMEOUT)), false;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        return cli_system_error(cli, "no random numbers"), false;
    snprintf(o->id, sizeof(o->id), "%012" PRIx64, id & 0xffffffffffff);
    return true;
}

/* ---- the processes ---- */

static bool start_process(struct cli *cli, const struct bench_options *o, struct bench_shared *shared, unsigned process, pid_t *pid)
{
    struct bench_run run = {.cli = cli, .options = o, .shared = shared, .part = &shared->part[process], .process = process};
    const pid_t parent = getpid();

    *pid = fork();
    if (*pid != 0)
        return *pid > 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* a terminal sends it to all of us; the parent tells when to stop */
    signal(SIGTERM, SIG_DFL);
    if (getppid() == parent)
        bench_process(&run);
    _exit(0);
}

/* Takes in those that have ended; true while some run. */
static bool still_running(const struct bench_options *o, struct bench_shared *shared, pid_t *pids)
{
    bool running = false;

    for (int64_t i = 0; i < o->processes; i++) {
        struct bench_part *part = &shared->part[i];
        int status = 0;
        pid_t pid = pids[i] > 0 ? waitpid(pids[i], &status, WNOHANG) : -1;
        if (pid == 0 || (pid < 0 && pids[i] > 0 && errno == EINTR)) {
            running = true;
            continue;
        }
        if (pid > 0 && !WIFEXITED(status)) {
            hp_status_set(&part->status, HP_R_INTERNAL, "a process of the bench died of signal %d", WTERMSIG(status));
            part->exit = CLI_FAILED;
        }
        pids[i] = -1;
        if (part->exit || part->wrong[0])
            atomic_store(&shared->stop, true);
    }
    return running;
}

static void show_progress(const struct bench_options *o, struct bench_shared *shared, int64_t now)
{
    static int64_t last_ns;
    static uint64_t last_ops;
    const int64_t from = atomic_load(&shared->t0) + o->warm_up_ms * 1000000;
    uint64_t ops = 0;

    if (atomic_load(&shared->t0) == 0) {
        if (last_ns == 0)
            fprintf(stderr, "\r%s: leasing %" PRId64 " resources\033[K", o->kind->name, o->keys);
        last_ns = now;
        return;
    }
    if (now < from || now - last_ns < (int64_t)PROGRESS_MS * 1000000)
        return;
    for (int64_t i = 0; i < o->processes; i++)
        ops += atomic_load(&shared->part[i].ops_now);
    fprintf(stderr, "\r%s: %.1f s, %.0f/s\033[K", o->kind->name, (double)(now - from) / 1e9,
            (double)(ops - last_ops) / ((double)(now - last_ns) / 1e9));
    last_ns = now;
    last_ops = ops;
}

static void watch(const struct bench_options *o, struct bench_shared *shared, pid_t *pids)
{
    const bool terminal = isatty(STDERR_FILENO);
    const struct sigaction quick = {.sa_handler = on_signal};

    sigaction(SIGINT, &quick, NULL);
    sigaction(SIGTERM, &quick, NULL);
    while (still_running(o, shared, pids)) {
        if (interrupted)
            atomic_store(&shared->stop, true);
        if (atomic_load(&shared->t0) == 0 && atomic_load(&shared->ready) == (unsigned)o->processes)
            atomic_store(&shared->t0, bench_now_ns());
        if (terminal)
            show_progress(o, shared, bench_now_ns());
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
    }
    if (terminal)
        fprintf(stderr, "\r\033[K");
}

/* ---- the result ---- */

struct result {
    double seconds, throughput, p50, p99, p999;
    uint64_t ops;
    const char *wrong; /* NULL: verified */
};

static double ms_at(const struct bench_hist *hist, double q)
{
    return (double)bench_hist_at(hist, q) / 1e6;
}

/* Puts the parts together, in the first one. */
static struct result merge(const struct bench_options *o, struct bench_shared *shared)
{
    struct bench_part *all = &shared->part[0];
    struct result result = {.wrong = all->wrong[0] ? all->wrong : NULL};

    for (int64_t i = 1; i < o->processes; i++) {
        const struct bench_part *part = &shared->part[i];
        bench_hist_merge(&all->hist, &part->hist);
        all->ops += part->ops;
        if (part->ns > all->ns)
            all->ns = part->ns;
        if (!result.wrong && part->wrong[0])
            result.wrong = part->wrong;
    }
    result.ops = all->ops;
    result.seconds = (double)all->ns / 1e9;
    result.throughput = all->ns > 0 ? (double)all->ops / result.seconds : 0;
    result.p50 = ms_at(&all->hist, 0.5);
    result.p99 = ms_at(&all->hist, 0.99);
    result.p999 = ms_at(&all->hist, 0.999);
    if (!result.wrong && all->ops == 0)
        result.wrong = "no operation was done within the time";
    return result;
}

static void print_table(const struct bench_options *o, const struct result *r)
{
    struct cli_table table = {.columns = 9};
    char numbers[5][32];
    const double values[5] = {r->seconds, r->throughput, r->p50, r->p99, r->p999};

    for (int i = 0; i < 5; i++)
        snprintf(numbers[i], sizeof(numbers[i]), i == 1 ? "%.0f" : i == 0 ? "%.1f" : "%.3f", values[i]);
    cli_row(&table, "WORKLOAD", "CONCURRENCY", "SECONDS", "OPS", "THROUGHPUT", "P50_MS", "P99_MS", "P999_MS", "VERIFIED");
    cli_row(&table, o->kind->name, cli_int(o->concurrency), numbers[0], cli_int((int64_t)r->ops), numbers[1], numbers[2],
            numbers[3], numbers[4], r->wrong ? "NO" : "yes");
    cli_table_print(&table);
}

static int print_result(const struct cli *cli, const struct bench_options *o, const struct result *r)
{
    struct hp_status status;

    if (cli->json)
        printf("{\"workload\":\"%s\",\"concurrency\":%" PRId64 ",\"seconds\":%.3f,\"ops\":%" PRIu64 ",\"throughput\":%.1f,"
               "\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"verified\":%s}\n",
               o->kind->name, o->concurrency, r->seconds, r->ops, r->throughput, r->p50, r->p99, r->p999,
               r->wrong ? "false" : "true");
    else
        print_table(o, r);
    if (!r->wrong)
        return CLI_OK;
    hp_status_set(&status, HP_R_INTERNAL, "not verified: %s", r->wrong);
    return cli_error(cli, &status);
}

void cli_bench_help(void)
{
    printf("\nKIND is one of\n");
    for (const struct bench_kind *kind = bench_kinds; kind->name; kind++)
        printf("  %-16s %s (--concurrency %u)\n", kind->name, kind->summary, kind->concurrency);
    printf(
        "\nThe calls in flight are those of one thread a process: what is ready together travels together. The resources are the\n"
        "run's own (bench/ID/…); its leases are given back at the end, the resources stay. Throughput counts operations\n"
        "within the measured time. Every answer is checked, and at the end what the database holds: tokens that only rose, and\n"
        "as many as there were grants; versions, as many as writes; leases that live as long as their last renewal says.\n"
        "If anything is not so, the exit status is 4 and the last line on stderr tells what.\n");
}

int cli_bench(struct cli *cli)
{
    struct bench_options options = {0};
    struct bench_shared *shared;
    struct result result;
    size_t size;
    pid_t pids[BENCH_PROCESSES_MAX];

    if (!take_options(cli, &options))
        return CLI_USAGE;
    size = sizeof(*shared) + (size_t)options.processes * sizeof(shared->part[0]);
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return cli_system_error(cli, "no memory");
    fflush(stdout);
    for (unsigned i = 0; i < options.processes; i++) {
        if (!start_process(cli, &options, shared, i, &pids[i])) {
            hp_status_set(&shared->part[i].status, HP_R_INTERNAL, "fork: %s", strerror(errno));
            shared->part[i].exit = CLI_FAILED;
        }
    }
    watch(&options, shared, pids);
    for (int64_t i = 0; i < options.processes; i++) {
        const struct bench_part *part = &shared->part[i];
        if (part->exit)
            return cli_error(cli, &part->status), part->exit;
    }
    result = merge(&options, shared);
    return print_result(cli, &options, &result);
}
