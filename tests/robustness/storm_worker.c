/*
 * storm_worker.c - see storm_worker.h.
 */
#include "robustness/storm_worker.h"

#include "harness/harness.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "robustness/case.h"
#include "robustness/storm_run.h"
#include "robustness/wall.h"

enum { END_MS = STORM_WAIT_MS + 3 * STORM_TIMEOUT_MS + 20000, WRONG_S = 1000 };

/* ------------------------------------------------------------------------------------------------ in the worker */

/* The clock as it is told is far from the kernel's. */
static bool wall_is_wrong(void)
{
    struct timespec right;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &right);
    return labs((long)(time(NULL) - right.tv_sec)) > WRONG_S;
}

static void wait_for_term(unsigned *wrong)
{
    const struct timespec while_ = {0, 50000000};
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    while (sigtimedwait(&term, NULL, &while_) != SIGTERM)
        *wrong += wall_is_wrong();
}

/* Every second worker runs errands too. */
static void start_runner(struct storm_runner *runner, int number, char **argv, atomic_bool *stop)
{
    *runner = (struct storm_runner){
        .worker = number, .seed = strtoull(argv[2], NULL, 10), .servers = argv[3], .dir = argv[4], .stop = stop};
    if (number % 2 == 0)
        storm_runner_start(runner);
}

/* argv: --worker NUMBER SEED SERVERS DIR */
int storm_worker_main(int argc, char **argv)
{
    static struct storm_client clients[STORM_WORKER_THREADS];
    static struct storm_claims claims;
    static struct storm_runner runner;
    static atomic_bool stop;
    char path[512];
    unsigned wrong = 0;
    hf_client *client = NULL;
    sigset_t term;
    if (argc != 5)
        return 2;
    const int number = atoi(argv[1]);
    const hf_client_options options = {.servers = argv[3], .timeout_ms = STORM_TIMEOUT_MS};
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    snprintf(path, sizeof(path), "%s/history.%d", argv[4], number);
    struct history *history = history_new(path);
    snprintf(path, sizeof(path), "%s/claims.%d", argv[4], number);
    claims.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (claims.fd < 0 || hf_client_new(&options, &client, NULL) != HF_OK)
        return 1;
    for (int i = 0; i < STORM_WORKER_THREADS; i++) {
        clients[i] = (struct storm_client){.number = number * STORM_WORKER_THREADS + i,
                                           .seed = strtoull(argv[2], NULL, 10) + (uint64_t)i,
                                           .reads = i == STORM_WORKER_THREADS - 1,
                                           .client = client,
                                           .history = history,
                                           .claims = &claims,
                                           .stop = &stop};
        storm_client_start(&clients[i]);
    }
    start_runner(&runner, number, argv, &stop);
    wait_for_term(&wrong);
    atomic_store(&stop, true);
    (void)hf_acquire_cancel(client, NULL, NULL);
    for (int i = 0; i < STORM_WORKER_THREADS; i++)
        storm_client_join(&clients[i]);
    if (runner.thread)
        storm_runner_join(&runner);
    hf_client_free(client);
    history_free(history);
    close(claims.fd);
    printf("OFF %u RUNS %u DONE %u REFUSED %u\n", wrong, runner.runs, runner.done, runner.refused);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ in the test */

void storm_workers_init(struct storm_workers *workers, uint64_t seed)
{
    *workers = (struct storm_workers){.dir = t_tmpdir(), .seed = seed};
    workers->wall_file = t_printf("%s/wall", workers->dir);
    wall_set(workers->wall_file, 0);
    wall_env(workers->env, workers->wall_file);
}

int storm_worker_start(struct storm_workers *workers, const char *servers)
{
    const int number = workers->n;
    const struct t_spawn_opts opts = {.env = workers->env};
    assert_true(number < STORM_WORKERS);
    const char *const argv[] = {t_self(),
                                STORM_WORKER_FLAG,
                                t_printf("%d", number),
                                t_printf("%" PRIu64, workers->seed + (uint64_t)number * 1000),
                                servers,
                                workers->dir,
                                NULL};
    workers->procs[workers->n++] = t_spawn(argv, &opts);
    return number;
}

int storm_worker_pick(struct storm_workers *workers, uint64_t *seed)
{
    int running[STORM_WORKERS], n = 0;
    for (int i = 0; i < workers->n; i++)
        if (!workers->killed[i])
            running[n++] = i;
    return running[case_below(seed, n)];
}

static void must_run(struct storm_workers *workers, int number)
{
    struct t_proc *proc = workers->procs[number];
    if (t_proc_wait(proc, 0) >= 0)
        fail_msg("worker %d ended by itself with %d: %s", number, proc->status, t_proc_err(proc));
}

void storm_worker_kill(struct storm_workers *workers, int number)
{
    must_run(workers, number);
    t_proc_kill(workers->procs[number], SIGKILL);
    workers->killed[number] = true;
    if (t_proc_wait(workers->procs[number], END_MS) != 128 + SIGKILL)
        fail_msg("worker %d was not killed", number);
}

void storm_worker_stop(struct storm_workers *workers, int number)
{
    must_run(workers, number);
    assert_true(workers->n_stops < STORM_STOPS);
    workers->stops[workers->n_stops++] = (struct storm_stop){.worker = number, .from_ns = history_now_ns()};
    t_proc_kill(workers->procs[number], SIGSTOP);
}

void storm_worker_continue(struct storm_workers *workers, int number)
{
    t_proc_kill(workers->procs[number], SIGCONT);
    workers->stops[workers->n_stops - 1].to_ns = history_now_ns();
}

/* Prints where its threads are, if there is a gdb to ask. */
static void print_stacks(pid_t pid)
{
    const char *const argv[] = {
        "sh", "-c", t_printf("command -v gdb >/dev/null && gdb -p %d -batch -ex 'thread apply all bt 16' 2>/dev/null", (int)pid),
        NULL};
    printf("%s\n", t_run(argv, NULL, END_MS).out);
    fflush(stdout);
}

/* Whether the process has this argument. */
static bool has_argument(const char *pid, const char *argument)
{
    char path[64], line[4096];
    snprintf(path, sizeof(path), "/proc/%.16s/cmdline", pid);
    FILE *file = fopen(path, "re");
    const size_t n = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
    if (file)
        fclose(file);
    line[n] = '\0';
    for (const char *at = line; at < line + n; at += strlen(at) + 1)
        if (!strcmp(at, argument))
            return true;
    return false;
}

/* The `holdfast run` of a worker that was killed lives on: it may still be waiting for its lease, and begin its errand only when it
 * has got it. */
static bool runs_ended(void *arg)
{
    const struct storm_workers *workers = arg;
    DIR *proc = opendir("/proc");
    bool ended = true;
    for (struct dirent *entry; proc && ended && (entry = readdir(proc));)
        ended = !isdigit((unsigned char)entry->d_name[0]) || !has_argument(entry->d_name, workers->dir);
    if (proc)
        closedir(proc);
    return ended;
}

struct storm_seen storm_workers_end(struct storm_workers *workers)
{
    struct storm_seen all = {0}, seen;
    for (int i = 0; i < workers->n; i++) {
        if (workers->killed[i])
            continue;
        must_run(workers, i);
        t_proc_kill(workers->procs[i], SIGTERM);
    }
    for (int i = 0; i < workers->n; i++) {
        if (workers->killed[i])
            continue;
        const int status = t_proc_wait(workers->procs[i], END_MS);
        if (status < 0)
            print_stacks(workers->procs[i]->pid);
        if (status != 0)
            fail_msg("worker %d did not end as it should (%d): %s", i, status, t_proc_err(workers->procs[i]));
        if (sscanf(t_proc_out(workers->procs[i]), "OFF %u RUNS %u DONE %u REFUSED %u", &seen.off, &seen.runs, &seen.done,
                   &seen.refused) != 4)
            fail_msg("worker %d didn't tell what it saw", i);
        all.off += seen.off;
        all.runs += seen.runs;
        all.done += seen.done;
        all.refused += seen.refused;
    }
    if (!t_wait_for(runs_ended, workers, END_MS))
        fail_msg("a `holdfast run` of a worker that was killed doesn't end");
    return all;
}

void storm_workers_history(const struct storm_workers *workers, struct history *history)
{
    char why[512];
    glob_t found;
    assert_int_equal(glob(t_printf("%s/history.*", workers->dir), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!history_load(history, found.gl_pathv[i], why, sizeof(why)))
            fail_msg("%s", why);
    globfree(&found);
}

struct storm_claim *storm_workers_claims(const struct storm_workers *workers, size_t *n)
{
    struct storm_claim *claims = NULL, claim;
    glob_t found;
    *n = 0;
    assert_int_equal(glob(t_printf("%s/claims.*", workers->dir), 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "re");
        while (file && fread(&claim, sizeof(claim), 1, file) == 1) {
            claims = realloc(claims, (*n + 1) * sizeof(claims[0]));
            assert_non_null(claims);
            claims[(*n)++] = claim;
        }
        if (file)
            fclose(file);
    }
    globfree(&found);
    return claims;
}
