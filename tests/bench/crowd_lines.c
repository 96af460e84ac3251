/* crowd_lines.c - what crowd prints: operations, latency, and CPU times, of one stretch of time after the other. */
#include "crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/cli/bench_hist.h"

enum { GROUPS_MAX = 8, PIDS_MAX = 64 };

/* Processes whose CPU time is told as one. */
struct group {
    long pid[PIDS_MAX];
    size_t n;
    double us; /* when this stretch began */
};

static struct group groups[GROUPS_MAX];
static size_t n_groups;
static struct bench_hist hist;
static uint64_t ops;
static double own_us;
static int64_t start_ns, from_ns;

void crowd_watch_cpu(char *pids)
{
    struct group *group = &groups[n_groups];

    if (n_groups++ == GROUPS_MAX)
        crowd_die("too many --cpu");
    for (char *pid = strtok(pids, ","); pid && group->n < PIDS_MAX; pid = strtok(NULL, ","))
        group->pid[group->n++] = atol(pid);
}

/* What that process and those of its children that have ended have had: autovacuum's workers come and go. */
static double process_us(long pid)
{
    char path[64], text[1024];
    unsigned long long user, system;
    long long children_user, children_system;
    const char *rest;
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    file = fopen(path, "r");
    n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    rest = strrchr(text, ')');
    if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &user, &system,
                        &children_user, &children_system) != 4)
        crowd_die("process %ld has ended", pid);
    return ((double)(user + system) + (double)(children_user + children_system)) * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static double group_us(const struct group *group)
{
    double us = 0;

    for (size_t i = 0; i < group->n; i++)
        us += process_us(group->pid[i]);
    return us;
}

static double self_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void crowd_count(size_t done, int64_t ns)
{
    ops += done;
    bench_hist_add(&hist, ns);
}

static void begin_stretch(int64_t now)
{
    own_us = self_us();
    for (size_t i = 0; i < n_groups; i++)
        groups[i].us = group_us(&groups[i]);
    from_ns = now;
    ops = 0;
    memset(&hist, 0, sizeof(hist));
}

void crowd_begin(int64_t now)
{
    start_ns = now;
    begin_stretch(now);
}

void crowd_line(int64_t now)
{
    const double seconds = (double)(now - from_ns) / 1e9, n = ops ? (double)ops : 1;

    printf("%.0f\t%llu\t%.0f\t%.3f\t%.3f\t%.2f", (double)(now - start_ns) / 1e9, (unsigned long long)ops, (double)ops / seconds,
           (double)bench_hist_at(&hist, 0.5) / 1e6, (double)bench_hist_at(&hist, 0.99) / 1e6, (self_us() - own_us) / n);
    for (size_t i = 0; i < n_groups; i++)
        printf("\t%.2f", (group_us(&groups[i]) - groups[i].us) / n);
    putchar('\n');
    fflush(stdout);
    begin_stretch(now);
}
