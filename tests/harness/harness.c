/*
 * harness.c - the life of what tests make: generations, the keeper, folders, memory, and small helpers.
 *
 * Started processes carry a mark in their environment, which descendants inherit even through setsid and double forks; ending
 * them is a walk through /proc. The keeper is a child that waits for the program's death, however it comes, and then ends
 * what carries its mark and removes the root folder.
 */
#include "harness/internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MARK_NAME "HOLDFAST_TEST_MARK"

struct block {
    struct block *next;
    int generation;
    max_align_t data[];
};

struct folder {
    struct folder *next;
    int generation;
    char path[64];
};

bool t_forever;
static int generation = 1; /* 0 is the program's */
static char root[32];
static pid_t owner, keeper;
static struct block *blocks;
static struct folder *folders;
static int n_folders;

int t_generation(void)
{
    return t_forever ? 0 : generation;
}

void t_mark(char *buf, size_t size)
{
    snprintf(buf, size, "%s=%s.%d.", MARK_NAME, strrchr(root, '/') + 1, t_generation());
}

/* ------------------------------------------------------------------------------------------------ ending processes */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

/* Whether the process carries a mark of this program with a generation of at least `from`. */
static bool marked(const char *pid, int from)
{
    static char env[1 << 18];
    char path[64], want[64];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%.16s/environ", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t len = 0;
    ssize_t n;
    while (len < sizeof(env) - 1 && (n = read(fd, env + len, sizeof(env) - 1 - len)) > 0)
        len += (size_t)n;
    close(fd);
    env[len] = '\0';
    int want_len = snprintf(want, sizeof(want), "%s=%s.", MARK_NAME, strrchr(root, '/') + 1);
    for (const char *at = env; at < env + len; at += strlen(at) + 1)
        if (!strncmp(at, want, (size_t)want_len) && atoi(at + want_len) >= from)
            found = true;
    return found;
}

static bool is_postgres(const char *pid)
{
    char path[64], comm[32] = "";
    snprintf(path, sizeof(path), "/proc/%.16s/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, comm, sizeof(comm) - 1);
    close(fd);
    return n > 0 && !strncmp(comm, "postgres", 8);
}

/* The parent of a process, or 0. */
pid_t t_parent_of(const char *pid)
{
    char path[64], stat[512];
    snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    stat[n > 0 ? n : 0] = '\0';
    const char *end = strrchr(stat, ')'); /* pid (name) state ppid …; the name may hold anything */
    int parent = 0;
    if (end && sscanf(end, ") %*c %d", &parent) != 1)
        parent = 0;
    return parent;
}

static void end_one(const char *name, bool hard)
{
    pid_t pid = atoi(name);
    kill(pid, is_postgres(name) && !hard ? SIGQUIT : SIGKILL);
    kill(pid, SIGCONT);
}

/* Signals every marked process once; how many there were. PostgreSQL may clean up behind itself unless `hard`. Its backends have
 * written their title over their mark, and one that a test has stopped would outlive its postmaster: children are ended too. */
static int signal_marked(int from, bool hard)
{
    static pid_t postmasters[256];
    int count = 0, n_postmasters = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || pid == getpid() || pid == owner || pid == keeper || !marked(entry->d_name, from))
            continue;
        count++;
        if (is_postgres(entry->d_name) && n_postmasters < 256)
            postmasters[n_postmasters++] = pid;
    }
    rewinddir(proc);
    for (struct dirent *entry; n_postmasters > 0 && (entry = readdir(proc));) {
        pid_t parent = atoi(entry->d_name) > 0 ? t_parent_of(entry->d_name) : 0;
        for (int i = 0; i < n_postmasters; i++)
            if (parent == postmasters[i])
                end_one(entry->d_name, hard);
    }
    rewinddir(proc);
    for (struct dirent *entry; count > 0 && (entry = readdir(proc));) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 0 && pid != getpid() && pid != owner && pid != keeper && marked(entry->d_name, from))
            end_one(entry->d_name, hard);
    }
    closedir(proc);
    return count;
}

static void end_marked(int from)
{
    int64_t start = t_now_ms();
    while (signal_marked(from, t_now_ms() - start > 3000) && t_now_ms() - start < 10000) {
        t_processes_reap();
        t_sleep_ms(5);
    }
    t_processes_reap();
}

/* ------------------------------------------------------------------------------------------------ the keeper */

static void keep(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "test-keeper");
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    for (int fd = 3; fd < 256; fd++)
        close(fd);
    /* The signal wakes; only the parent's death ends the wait. */
    while (getppid() == owner) {
        struct timespec second = {1, 0};
        sigset_t term;
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        sigtimedwait(&term, NULL, &second);
    }
    end_marked(0);
    remove_tree(root);
    _exit(0);
}

static void forget_folders(int from)
{
    for (struct folder **at = &folders, *folder; (folder = *at);) {
        if (folder->generation < from) {
            at = &folder->next;
            continue;
        }
        *at = folder->next;
        remove_tree(folder->path);
        free(folder);
    }
}

static void forget_blocks(int from)
{
    for (struct block **at = &blocks, *block; (block = *at);) {
        if (block->generation < from) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        free(block);
    }
}

static void end_generations(int from)
{
    if (!root[0])
        return;
    end_marked(from);
    t_databases_drop(from);
    t_processes_forget(from);
    forget_folders(from);
    forget_blocks(from);
}

static void at_end(void)
{
    if (getpid() != owner)
        return;
    t_forever = true;
    end_generations(0);
    remove_tree(root);
    kill(keeper, SIGKILL);
    waitpid(keeper, NULL, 0);
}

const char *t_root(void)
{
    if (root[0])
        return root;
    strcpy(root, "/tmp/hf-XXXXXX");
    if (!mkdtemp(root) || chmod(root, 0755) != 0)
        fail_msg("cannot make %s: %s", root, strerror(errno));
    owner = getpid();
    fflush(NULL);
    keeper = fork();
    if (keeper == 0)
        keep();
    if (keeper < 0)
        fail_msg("fork: %s", strerror(errno));
    atexit(at_end);
    return root;
}

int t_teardown(void **state)
{
    (void)state;
    end_generations(generation);
    return 0;
}

void t_keep(void)
{
    generation++;
}

/* ------------------------------------------------------------------------------------------------ memory, files */

void *t_alloc(size_t size)
{
    t_root();
    struct block *block = calloc(1, sizeof(*block) + size);
    if (!block)
        fail_msg("no memory");
    block->generation = t_generation();
    block->next = blocks;
    blocks = block;
    return block->data;
}

char *t_strdup(const char *text)
{
    return strcpy(t_alloc(strlen(text) + 1), text);
}

const char *t_self(void)
{
    static char path[512];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (n <= 0)
        fail_msg("readlink /proc/self/exe: %s", strerror(errno));
    path[n] = '\0';
    return path;
}

void t_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in:\n%s", part, text);
}

char *t_printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0)
        fail_msg("no memory");
    va_end(args);
    char *kept = t_strdup(text);
    free(text);
    return kept;
}

char *t_tmpdir(void)
{
    struct folder *folder = calloc(1, sizeof(*folder));
    if (!folder)
        fail_msg("no memory");
    folder->generation = t_generation();
    snprintf(folder->path, sizeof(folder->path), "%s/%d", t_root(), n_folders++);
    folder->next = folders;
    folders = folder;
    if (mkdir(folder->path, 0755) != 0 || chmod(folder->path, 0755) != 0)
        fail_msg("cannot make %s: %s", folder->path, strerror(errno));
    return t_strdup(folder->path);
}

char *t_read_file(const char *path)
{
    size_t len = 0, room = 4096;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = malloc(room + 1);
    if (!text)
        fail_msg("no memory");
    while (fd >= 0 && (n = read(fd, text + len, room - len)) > 0) {
        len += (size_t)n;
        if (len == room) {
            room *= 2;
            char *more = realloc(text, room + 1);
            if (!more)
                fail_msg("no memory");
            text = more;
        }
    }
    if (fd >= 0)
        close(fd);
    char *kept = memcpy(t_alloc(len + 1), text, len);
    free(text);
    return kept;
}

void t_write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        fail_msg("cannot write %s: %s", path, strerror(errno));
}

const char *t_tail(const char *text)
{
    size_t len = strlen(text);
    return len > 3000 ? text + len - 3000 : text;
}

/* ------------------------------------------------------------------------------------------------ time, chance, ports */

int64_t t_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void t_sleep_ms(int ms)
{
    struct timespec rest = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

bool t_wait_for(bool (*cond)(void *arg), void *arg, int ms)
{
    int64_t end = t_now_ms() + ms;
    for (int pause = 1;; pause = pause < 20 ? pause * 2 : 20) {
        if (cond(arg))
            return true;
        if (t_now_ms() >= end)
            return false;
        t_sleep_ms(pause);
    }
}

int t_free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) != 0 || getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        fail_msg("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(addr.sin_port);
}

uint64_t t_seed(void)
{
    const char *given = getenv("HOLDFAST_TEST_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given ? strtoull(given, NULL, 0) : ((uint64_t)now.tv_nsec << 20) ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid();
    printf("seed: HOLDFAST_TEST_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}
