/*
 * cluster_process.c - children of the private cluster: started as another user with none of our files, found in /proc by the
 * folder they work in, waited for and signalled through pidfds, which cannot mean another process.
 */
#include "store/cluster_internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "store/sync.h"

enum {
    CLOEXEC_RANGE = 4, /* CLOSE_RANGE_CLOEXEC, which older headers lack */
    LEFTOVER_MS = 30000
};

/* System calls, not glibc's wrappers: those talk to the other threads, which a forked child no longer has. */
static bool become(const struct cluster_user *user)
{
    if (!user->drop)
        return true;
    return syscall(SYS_setgroups, (size_t)user->n_groups, user->groups) == 0 && syscall(SYS_setgid, user->gid) == 0 &&
           syscall(SYS_setuid, user->uid) == 0 && geteuid() == user->uid;
}

bool cluster_as_user(const struct st_cluster *c, bool (*fn)(const struct st_cluster *c, struct st_problem *problem),
                     struct st_problem *problem)
{
    int fds[2];
    struct {
        bool ok;
        struct st_problem problem;
    } told = {false, {""}};

    if (pipe2(fds, O_CLOEXEC) != 0) {
        st_problem_set(problem, "cannot make a pipe: %s", strerror(errno));
        return false;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (become(&c->user))
            told.ok = fn(c, &told.problem);
        else
            st_problem_set(&told.problem, "cannot become user %s: %s", c->user.name, strerror(errno));
        ssize_t n = write(fds[1], &told, sizeof(told));
        _exit(n == sizeof(told) ? 0 : 1);
    }
    close(fds[1]);
    ssize_t n = 0;
    if (pid > 0) {
        while ((n = read(fds[0], &told, sizeof(told))) < 0 && errno == EINTR)
            ;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(fds[0]);
    if (n != sizeof(told))
        st_problem_set(&told.problem, "a child that prepares the data folder ended early");
    if (n != sizeof(told) || !told.ok) {
        *problem = told.problem;
        return false;
    }
    return true;
}

/* Our environment without what PostgreSQL would take for itself. NULL: no memory. The strings are borrowed. */
static char **make_environment(void)
{
    static char locale[] = "LC_ALL=C";
    size_t n = 0, used = 0;

    while (environ[n])
        n++;
    char **env = calloc(n + 2, sizeof(*env));
    for (size_t i = 0; env && i < n; i++) {
        const char *e = environ[i];
        if (strncmp(e, "PG", 2) != 0 && strncmp(e, "LC_", 3) != 0 && strncmp(e, "LANG", 4) != 0 &&
            strncmp(e, "HOLDFASTD_", 10) != 0)
            env[used++] = environ[i];
    }
    if (env)
        env[used] = locale;
    return env;
}

/* In the child: only what is safe after a fork among threads. Returns if it failed. */
static void run_child(const struct st_cluster *c, char *const *argv, char *const *env, pid_t mortal_with)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;

    setsid();
    hb_files_restore();
    for (int sig = 1; sig < NSIG; sig++)
        sigaction(sig, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (syscall(SYS_close_range, 3U, ~0U, CLOEXEC_RANGE) != 0) {
        for (int fd = 3; fd < 4096; fd++)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    if (!become(&c->user) || chdir(c->dir) != 0)
        return;
    /* After the change of user, which clears it. */
    if (mortal_with && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != mortal_with))
        return;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(c->log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        return;
    execve(argv[0], argv, env);
}

pid_t cluster_spawn(const struct st_cluster *c, char *const *argv, bool mortal, struct st_problem *problem)
{
    int fds[2] = {-1, -1}, error = 0;
    char **env = make_environment();
    pid_t pid = -1, mortal_with = mortal ? getpid() : 0;

    if (!env || pipe2(fds, O_CLOEXEC) != 0) {
        st_problem_set(problem, "cannot start %s: %s", argv[0], strerror(errno));
        free(env);
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        run_child(c, argv, env, mortal_with);
        error = errno;
        ssize_t n = write(fds[1], &error, sizeof(error));
        _exit(n == sizeof(error) ? 127 : 126);
    }
    error = pid < 0 ? errno : 0;
    close(fds[1]);
    /* The pipe closes when the program has been started. */
    while (pid > 0 && read(fds[0], &error, sizeof(error)) < 0 && errno == EINTR)
        ;
    close(fds[0]);
    free(env);
    if (error == 0)
        return pid;
    if (pid > 0)
        waitpid(pid, NULL, 0);
    st_problem_set(problem, "cannot start %s as user %s, with its log in %s: %s", argv[0], c->user.name, c->log, strerror(error));
    return -1;
}

int cluster_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
}

bool cluster_wait_end(int pidfd, int ms)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    return poll(&fd, 1, ms) == 1;
}

bool cluster_signal(int pidfd, int sig)
{
    return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) == 0;
}

bool cluster_works_in(pid_t pid, const char *folder)
{
    char link[64], cwd[PATH_MAX];

    snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
    ssize_t n = readlink(link, cwd, sizeof(cwd) - 1);
    if (n < 0)
        return false;
    cwd[n] = '\0';
    return strcmp(cwd, folder) == 0;
}

pid_t cluster_any_in(const char *folder)
{
    pid_t found = 0;
    DIR *proc = opendir("/proc");

    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? (pid_t)atoi(entry->d_name) : 0;
        if (pid > 0 && cluster_works_in(pid, folder))
            found = pid;
    }
    if (proc)
        closedir(proc);
    return found;
}

void cluster_log_tail(const struct st_cluster *c, char *out, size_t size)
{
    char tail[2048] = "";
    int fd = open(c->log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n = fd < 0 ? 0 : pread(fd, tail, sizeof(tail) - 1, end > (off_t)sizeof(tail) - 1 ? end - (off_t)sizeof(tail) + 1 : 0);

    if (fd >= 0)
        close(fd);
    tail[n > 0 ? n : 0] = '\0';
    /* The last FATAL, PANIC or error line says most; else the last line. */
    const char *best = "";
    for (char *save, *line = strtok_r(tail, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        bool loud = strstr(line, "FATAL") || strstr(line, "PANIC") || strstr(line, "error:");
        bool best_loud = strstr(best, "FATAL") || strstr(best, "PANIC") || strstr(best, "error:");
        if (loud || !best_loud)
            best = line;
    }
    snprintf(out, size, "%s", best);
}

bool cluster_interrupted(const struct st_cluster *c)
{
    return c->interrupted && c->interrupted();
}

enum st_cluster_status cluster_wait_leftovers(struct st_cluster *c, const char *folder, struct st_problem *problem)
{
    int64_t begun = st_sync_now();

    for (pid_t pid; (pid = cluster_any_in(folder)) != 0;) {
        if (cluster_interrupted(c))
            return ST_CLUSTER_INTERRUPTED;
        if (st_sync_now() - begun > LEFTOVER_MS) {
            st_problem_set(problem, "data folder %s: process %d of an earlier PostgreSQL still works in %s", c->dir, (int)pid,
                           folder);
            return ST_CLUSTER_FAILED;
        }
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
    }
    return ST_CLUSTER_OK;
}

int cluster_reap(pid_t pid, int pidfd, bool kill_it)
{
    int status = -1;
    if (kill_it)
        cluster_signal(pidfd, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}
