/*
 * storm_run.c - see storm_run.h.
 */
#include "robustness/storm_run.h"

#include "harness/harness.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "robustness/case.h"
#include "robustness/storm_client.h"
#include "robustness/storm_worker.h"

enum { RUN_SLACK_MS = 2000, LOOK_MS = 20, PAUSE_MS = 700, WRITES = 5, WORK_MS = 400, REFUSED = 125 };

/* ------------------------------------------------------------------------------------------------ the errand */

static void rest(struct storm_claim *claim, int fd, int ms)
{
    for (const int64_t end = t_now_ms() + ms; t_now_ms() < end; t_sleep_ms(LOOK_MS)) {
        claim->valid_ns = history_now_ns() - (int64_t)RUN_SLACK_MS * 1000000;
        if (pwrite(fd, claim, sizeof(*claim), 0) != sizeof(*claim))
            abort();
    }
}

/* argv: --errand NUMBER SEED DIR */
int storm_errand_main(int argc, char **argv)
{
    const char *resource = getenv("HOLDFAST_RESOURCE"), *token = getenv("HOLDFAST_TOKEN"), *servers = getenv("HOLDFAST_SERVER");
    char path[512];
    hf_client *client = NULL;
    if (argc != 4 || !resource || !token || !servers)
        return 2;
    const hf_client_options options = {.servers = servers, .timeout_ms = STORM_TIMEOUT_MS};
    uint64_t seed = strtoull(argv[2], NULL, 10);
    struct storm_claim claim = {.token = strtoll(token, NULL, 10)};
    snprintf(claim.resource, sizeof(claim.resource), "%s", resource);
    snprintf(path, sizeof(path), "%s/history.%s.%d", argv[3], argv[1], (int)getpid());
    struct worker worker = {.history = history_new(path),
                            .number = (STORM_WORKERS + atoi(argv[1])) * STORM_WORKER_THREADS,
                            .timeout_ms = STORM_TIMEOUT_MS,
                            .retry = HFI_RETRY_HARMLESS};
    snprintf(path, sizeof(path), "%s/claims.%s.%d", argv[3], argv[1], (int)getpid());
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || hf_client_new(&options, &client, NULL) != HF_OK)
        return 1;
    worker.client = client;
    for (int seq = 1, n = 1 + case_below(&seed, WRITES); seq <= n; seq++) {
        char value[64];
        snprintf(value, sizeof(value), "errand %s/%d/%d", argv[1], (int)getpid(), seq);
        worker_write(&worker, resource, claim.token, seq, value, -1);
        rest(&claim, fd, case_below(&seed, WORK_MS));
    }
    hf_client_free(client);
    history_free(worker.history);
    close(fd);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ the runner */

/* `holdfast run` with an errand, started. */
static pid_t start_one(struct storm_runner *runner)
{
    char number[16], seed[32], ttl[16], self[512];
    const char *resource = storm_resource(case_below(&runner->seed, STORM_RESOURCES));
    const ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    pid_t pid = 0;
    if (len <= 0)
        abort();
    self[len] = '\0';
    snprintf(number, sizeof(number), "%d", runner->worker);
    snprintf(seed, sizeof(seed), "%" PRIu64, case_random(&runner->seed));
    snprintf(ttl, sizeof(ttl), "%dms", STORM_TTL_MIN_MS + case_below(&runner->seed, STORM_TTL_MAX_MS - STORM_TTL_MIN_MS));
    const char *const argv[] = {T_HOLDFAST, "--server", runner->servers, "--timeout", "4s", "run", resource,
                                "--ttl",    ttl,        "--wait",        "3s",        "--", self,  STORM_ERRAND_FLAG,
                                number,     seed,       runner->dir,     NULL};
    if (posix_spawnp(&pid, T_HOLDFAST, NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0)
        abort();
    return pid;
}

static void *runner_main(void *arg)
{
    struct storm_runner *runner = arg;
    while (!atomic_load(runner->stop)) {
        const pid_t pid = start_one(runner);
        bool told = false;
        int status = 0;
        while (waitpid(pid, &status, WNOHANG) == 0) {
            if (atomic_load(runner->stop) && !told)
                told = kill(pid, SIGTERM) == 0;
            t_sleep_ms(LOOK_MS);
        }
        runner->runs++;
        runner->done += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        runner->refused += WIFEXITED(status) && WEXITSTATUS(status) == REFUSED;
        for (int left = case_below(&runner->seed, PAUSE_MS); left > 0 && !atomic_load(runner->stop); left -= LOOK_MS)
            t_sleep_ms(LOOK_MS);
    }
    return NULL;
}

void storm_runner_start(struct storm_runner *runner)
{
    assert_int_equal(pthread_create(&runner->thread, NULL, runner_main, runner), 0);
}

void storm_runner_join(struct storm_runner *runner)
{
    assert_int_equal(pthread_join(runner->thread, NULL), 0);
}

/* ------------------------------------------------------------------------------------------------ in the test */

pid_t storm_run_of(pid_t worker)
{
    DIR *proc = opendir("/proc");
    pid_t found = 0;
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[64], stat[256] = "";
        int parent = 0;
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%.16s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        const size_t n = file ? fread(stat, 1, sizeof(stat) - 1, file) : 0;
        if (file)
            fclose(file);
        stat[n] = '\0';
        const char *name = strstr(stat, "(holdfast) ");
        if (name && sscanf(name, "(holdfast) %*c %d", &parent) == 1 && parent == worker)
            found = atoi(entry->d_name);
    }
    if (proc)
        closedir(proc);
    return found;
}
