/* peer.c - see peer.h. Owns the measured window, the descriptors that are watched, and the server. */
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/bench_hist.h"

enum { ARGUMENTS = 5, DESCRIPTORS_MAX = 2048, PATIENCE_S = 60 };

const char peer_value[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct {
    int epoll;
    struct watched {
        void (*readable)(void *arg);
        void *arg;
    } watched[DESCRIPTORS_MAX];
    char *workers;
    int64_t from_ns, to_ns;
    uint64_t counted;
    struct bench_hist hist;
    pid_t server;
} own;

void peer_die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- the server ---- */

static void end_server(void)
{
    if (own.server <= 0)
        return;
    kill(own.server, SIGTERM);
    for (int i = 0; i < 100 && waitpid(own.server, NULL, WNOHANG) == 0; i++)
        usleep(50000);
    kill(own.server, SIGKILL);
    own.server = 0;
}

void peer_spawn(const struct peer_bench *bench, const char *const *argv)
{
    char path[4096];
    int log;

    snprintf(path, sizeof(path), "%s/log", bench->dir);
    own.server = fork();
    if (own.server < 0)
        peer_die("fork: %s", strerror(errno));
    if (own.server > 0) {
        atexit(end_server);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void peer_wait(struct peer_bench *bench, bool (*ready)(struct peer_bench *bench))
{
    for (int i = 0; i < 600; i++) {
        if (ready(bench))
            return;
        if (own.server > 0 && waitpid(own.server, NULL, WNOHANG) == own.server) {
            own.server = 0;
            peer_die("the server has ended; see %s/log", bench->dir);
        }
        usleep(50000);
    }
    peer_die("the server doesn't answer; see %s/log", bench->dir);
}

/* One that nobody listens on at this moment; the next one is free too, most likely. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) || getsockname(fd, (struct sockaddr *)&address, &len))
        peer_die("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

/* ---- descriptors ---- */

void peer_watch(int fd, void (*readable)(void *arg), void *arg)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0 || fd >= DESCRIPTORS_MAX)
        peer_die("too many connections");
    own.watched[fd] = (struct watched){readable, arg};
    if (epoll_ctl(own.epoll, EPOLL_CTL_ADD, fd, &event))
        peer_die("epoll: %s", strerror(errno));
}

void peer_serve(struct peer_bench *bench, const bool *until)
{
    while (until ? !*until : bench->under_way > 0) {
        struct epoll_event events[64];
        const int n = epoll_wait(own.epoll, events, 64, -1);
        for (int i = 0; i < n; i++) {
            const struct watched *watched = &own.watched[events[i].data.fd];
            watched->readable(watched->arg);
        }
    }
}

/* ---- operations ---- */

void *peer_worker(const struct peer_bench *bench, unsigned i)
{
    return own.workers + i * bench->peer->worker_size;
}

static void begin(struct peer_worker *worker, int64_t now)
{
    worker->n++;
    worker->step = 0;
    worker->start_ns = now;
    worker->bench->peer->begin(worker);
}

void peer_done(struct peer_worker *worker, bool good)
{
    struct peer_bench *bench = worker->bench;
    const int64_t now = now_ns();

    bench->done++;
    if (!good)
        bench->wrong = "an operation was refused";
    if (now >= own.from_ns && now < own.to_ns) {
        own.counted++;
        bench_hist_add(&own.hist, now - worker->start_ns);
    }
    if (now < own.to_ns && good)
        begin(worker, now);
    else
        bench->under_way--;
}

static enum peer_work work_of(const char *name)
{
    static const char *const names[] = {"cycle", "renew", "write", "once", "begin", "execute"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(name, names[i]))
            return (enum peer_work)i;
    peer_die("unknown work %s", name);
}

static void measure(struct peer_bench *bench, double seconds)
{
    own.from_ns = now_ns() + (int64_t)(seconds * 0.2e9); /* a fifth for warming up */
    own.to_ns = own.from_ns + (int64_t)(seconds * 1e9);
    bench->under_way = bench->in_flight;
    for (unsigned i = 0; i < bench->in_flight; i++)
        begin(peer_worker(bench, i), now_ns());
    peer_serve(bench, NULL);
    if (!bench->wrong)
        bench->wrong = own.counted ? bench->peer->check(bench) : "nothing was done within the time";
}

int peer_main(const struct peer *peer, int argc, char **argv)
{
    struct peer_bench bench = {.peer = peer};
    double seconds;

    if (argc != ARGUMENTS)
        peer_die("usage: %s WORK IN-FLIGHT SECONDS DIR", argv[0]);
    bench.work = work_of(argv[1]);
    bench.in_flight = (unsigned)strtoul(argv[2], NULL, 10);
    seconds = strtod(argv[3], NULL);
    bench.dir = argv[4];
    bench.port = free_port();
    if (bench.in_flight < 1 || bench.in_flight > 1024 || seconds <= 0)
        peer_die("bad number in flight, or bad seconds");
    alarm((unsigned)seconds + PATIENCE_S); /* what hangs ends, loudly */
    signal(SIGPIPE, SIG_IGN);
    own.epoll = epoll_create1(EPOLL_CLOEXEC);
    own.workers = calloc(bench.in_flight, peer->worker_size);
    if (own.epoll < 0 || !own.workers)
        peer_die("no memory");
    for (unsigned i = 0; i < bench.in_flight; i++) {
        struct peer_worker *worker = peer_worker(&bench, i);
        worker->bench = &bench;
        worker->id = i;
    }
    peer->start(&bench);
    peer->prepare(&bench);
    measure(&bench, seconds);
    printf("%s\t%s\t%u\t%.0f\t%.3f\t%.3f\t%s\n", peer->name, argv[1], bench.in_flight, (double)own.counted / seconds,
           (double)bench_hist_at(&own.hist, 0.5) / 1e6, (double)bench_hist_at(&own.hist, 0.99) / 1e6,
           bench.wrong ? bench.wrong : "ok");
    return bench.wrong != NULL;
}
