/*
 * peer.h - the frame of a load generator for a peer: another server doing the same work, measured by the same rules as Holdfast.
 *
 * A peer is one file in peers/ (or a script that prints the same line). Its head comment names the Debian packages it needs and
 * what it is linked with:
 *
 *     Packages: redis-server libhiredis-dev
 *     Links: -lhiredis
 *
 * and it ends with PEER_MAIN(peer). `tests/bench/compare` compiles it and calls it as
 *
 *     PROGRAM WORK IN-FLIGHT SECONDS DIR
 *
 * with an empty folder for its server's data. It starts its own server, on 127.0.0.1 or a unix socket, with settings under which
 * what was acknowledged is on disk; measures; checks by the server's own counters or state that the work has happened; ends the
 * server; and prints one line, fields separated by tabs: peer, work, in flight, operations/s, p50 ms, p99 ms, and "ok" or
 * what is wrong.
 *
 * The work, one operation being all of it in order; each worker has one operation under way, on KEYS keys of its own in turn:
 *   cycle   a lease with a fencing token is taken and given back; nobody contends
 *   renew   one lease that is held is prolonged
 *   write   a value of 64 bytes is written, only if the writer's lease or token is the newest
 *   once    a record under a key that never was before is kept, only if there is none
 *   begin   such a record is made and then given its result, by whoever made it
 *   execute such a record is kept in the transaction that changes a row elsewhere
 * The last two only where there are transactions (compare asks no others).
 *
 * One thread. Errors end the program with a message: a generator has nothing to save.
 */
#ifndef HOLDFAST_TESTS_BENCH_PEER_H
#define HOLDFAST_TESTS_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PEER_KEYS = 16, PEER_VALUE = 64 };
enum peer_work { PEER_CYCLE, PEER_RENEW, PEER_WRITE, PEER_ONCE, PEER_BEGIN, PEER_EXECUTE };

struct peer;
struct peer_bench;

/* The beginning of a peer's own struct for a worker, which is zeroed at first. */
struct peer_worker {
    struct peer_bench *bench;
    unsigned id;
    unsigned step; /* the peer's: 0 when an operation begins */
    uint64_t n;    /* operations begun; the key in turn is n % PEER_KEYS */
    int64_t start_ns;
};

struct peer_bench {
    const struct peer *peer;
    enum peer_work work;
    unsigned in_flight;
    const char *dir;
    int port;           /* free on 127.0.0.1 */
    uint64_t done;      /* operations, those before and behind the measured window too */
    const char *wrong;  /* NULL: nothing */
    unsigned under_way; /* workers with an operation */
};

struct peer {
    const char *name;
    size_t worker_size;
    void (*start)(struct peer_bench *bench);        /* the server runs and answers */
    void (*prepare)(struct peer_bench *bench);      /* all workers are connected, and have what the work needs */
    void (*begin)(struct peer_worker *worker);      /* sends the first request of an operation */
    const char *(*check)(struct peer_bench *bench); /* NULL: all that was counted has happened */
};

int peer_main(const struct peer *peer, int argc, char **argv);
#define PEER_MAIN(peer)                                                                                                            \
    int main(int argc, char **argv)                                                                                                \
    {                                                                                                                              \
        return peer_main(&(peer), argc, argv);                                                                                     \
    }

void *peer_worker(const struct peer_bench *bench, unsigned i);
/* The operation is over; the next one begins, unless time is up. Not `good`: the row is worth nothing. */
void peer_done(struct peer_worker *worker, bool good);
/* readable(arg) is called whenever the descriptor is. */
void peer_watch(int fd, void (*readable)(void *arg), void *arg);
/* Serves descriptors until there are no more operations under way, or *until is true. */
void peer_serve(struct peer_bench *bench, const bool *until);
/* Runs a server, with its output in DIR/log. It ends with this program. */
void peer_spawn(const struct peer_bench *bench, const char *const *argv);
/* Waits for ready(bench), for 30 s at most. */
void peer_wait(struct peer_bench *bench, bool (*ready)(struct peer_bench *bench));
void peer_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
extern const char peer_value[PEER_VALUE + 1];

#endif
