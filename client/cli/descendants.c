/*
 * descendants.c - reads /proc/PID/stat of all processes (proc(5)) and signals those below this one. No state.
 */
#include "client/cli/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct process {
    pid_t pid, parent;
    unsigned long long start;
    bool below; /* a descendant of ours */
};

struct snapshot {
    struct process *all;
    size_t n, cap;
    bool failed;
};

enum { STOP_ROUNDS = 32 };

bool descendants_adopt(void)
{
    return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;
}

/* False: it has gone. */
static bool read_process(pid_t pid, struct process *process)
{
    char path[32], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    /* The name stands in parentheses and may hold anything, parentheses too: the last one closes it. */
    char *behind = strrchr(text, ')');
    int parent;
    if (!behind || sscanf(behind + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &parent,
                          &process->start) != 2)
        return false;
    process->pid = pid;
    process->parent = parent;
    process->below = false;
    return true;
}

static void add(struct snapshot *snapshot, const struct process *process)
{
    if (snapshot->n == snapshot->cap) {
        size_t cap = snapshot->cap ? 2 * snapshot->cap : 256;
        struct process *all = realloc(snapshot->all, cap * sizeof(*all));
        if (!all) {
            snapshot->failed = true;
            return;
        }
        snapshot->all = all;
        snapshot->cap = cap;
    }
    snapshot->all[snapshot->n++] = *process;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *left = a, *right = b;

    return (left->pid > right->pid) - (left->pid < right->pid);
}

static struct process *find(const struct snapshot *snapshot, pid_t pid)
{
    struct process key = {.pid = pid};

    return snapshot->n ? bsearch(&key, snapshot->all, snapshot->n, sizeof(key), by_pid) : NULL;
}

static void mark_below(struct snapshot *snapshot)
{
    pid_t self = getpid();
    bool changed = true;

    while (changed) {
        changed = false;
        for (size_t i = 0; i < snapshot->n; i++) {
            struct process *process = &snapshot->all[i];
            if (process->below)
                continue;
            const struct process *parent = find(snapshot, process->parent);
            if (process->parent != self && (!parent || !parent->below))
                continue;
            process->below = changed = true;
        }
    }
}

static void take(struct snapshot *snapshot)
{
    struct process process;
    struct dirent *entry;

    snapshot->n = 0;
    DIR *dir = opendir("/proc");
    if (!dir) {
        snapshot->failed = true;
        return;
    }
    while ((entry = readdir(dir)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && read_process((pid_t)atoi(entry->d_name), &process))
            add(snapshot, &process);
    closedir(dir);
    if (snapshot->n)
        qsort(snapshot->all, snapshot->n, sizeof(*snapshot->all), by_pid);
    mark_below(snapshot);
}

/* 0, or errno. ESRCH: it has gone. */
static int send_signal(const struct process *process, int sig)
{
    struct process again;
    int error = 0;
    int fd = (int)syscall(SYS_pidfd_open, process->pid, 0);

    if (fd < 0 && errno != ENOSYS && errno != EPERM)
        return errno;
    if (!read_process(process->pid, &again) || again.start != process->start)
        error = ESRCH;
    else if (fd >= 0 ? syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) : kill(process->pid, sig))
        error = errno;
    if (fd >= 0)
        close(fd);
    return error;
}

static struct descendants signal_all(const struct snapshot *snapshot, int sig)
{
    struct descendants result = {.failed = snapshot->failed};

    for (size_t i = 0; i < snapshot->n; i++) {
        if (!snapshot->all[i].below)
            continue;
        result.found++;
        if (send_signal(&snapshot->all[i], sig) != EPERM)
            continue;
        result.refused++;
        result.refused_pid = snapshot->all[i].pid;
    }
    return result;
}

struct descendants descendants_signal(int sig)
{
    struct snapshot snapshot = {0};

    take(&snapshot);
    struct descendants result = signal_all(&snapshot, sig);
    free(snapshot.all);
    return result;
}

/* True if there is a descendant in `now` that was not in `before`. */
static bool has_new(const struct snapshot *before, const struct snapshot *now)
{
    for (size_t i = 0; i < now->n; i++) {
        if (!now->all[i].below)
            continue;
        const struct process *old = find(before, now->all[i].pid);
        if (!old || !old->below || old->start != now->all[i].start)
            return true;
    }
    return false;
}

struct descendants descendants_kill(void)
{
    struct snapshot before = {0}, now = {0};

    for (int round = 0; round < STOP_ROUNDS; round++) {
        take(&now);
        if (!has_new(&before, &now))
            break;
        signal_all(&now, SIGSTOP);
        struct snapshot swap = before;
        before = now;
        now = swap;
    }
    take(&now);
    struct descendants result = signal_all(&now, SIGKILL);
    free(before.all);
    free(now.all);
    return result;
}
