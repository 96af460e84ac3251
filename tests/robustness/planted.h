/*
 * planted.h - faults planted on purpose: a database whose SQL functions were changed, real servers and workers on top, a scene that
 * makes the fault show, and the oracle, which must see it.
 *
 * A fault is a piece of a function's present text, and what stands there instead; a text that is not found fails the test. The same
 * scene is played without the fault too, and then nothing may be found. Where a scene needs a call to stop in the middle, a pause
 * is planted in both.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_PLANTED_H
#define HOLDFAST_TESTS_ROBUSTNESS_PLANTED_H

#include <libpq-fe.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "robustness/oracle.h"
#include "robustness/worker.h"

enum { PLANTED_SOON = 30000, PLANTED_LONG = 60000, PLANTED_TEXTS = 4 };

#define PLANTED_RESOURCE "planted"

struct planted_text {
    const char *function, *right, *wrong;
};

struct planted_world {
    char *dsn; /* of the scene's own database, past everything that may happen to a network */
    PGconn *conn;
    struct history *history;
    struct t_server *servers[2]; /* they may be one */
    struct worker a, b, c;       /* of the first server, the second, the first */
    bool faulty;
    void *own; /* the fault's own */
};

struct planted_fault {
    const char *name;
    struct planted_text texts[PLANTED_TEXTS]; /* the fault */
    struct planted_text pause;                /* planted in any case; `wrong` contains planted.pause() */
    void (*play)(struct planted_world *world);
    bool two_servers;
    /* What the oracle must say, of the calls alone, of the trail, of both; NULL: it needn't say anything. */
    const char *calls, *trail, *agrees;
    /* Zero means default: a database of t_database(), and servers by its DSN. */
    void (*open)(struct planted_world *world); /* sets dsn, and what is its own */
    void (*close)(struct planted_world *world);
    char *(*server_dsn)(struct planted_world *world, int server);
};

/* The scene was played twice and the oracle saw the fault where it was and none where it wasn't, or the test fails. Prints what it
 * said. */
void planted_play(const struct planted_fault *fault);

/* The function has the wrong text from now on, or the test fails, since it has not the right one. Nothing without a function. */
void planted_plant(PGconn *conn, const struct planted_text *text);

/* ------------------------------------------------------------------------------------------------ for scenes */

/* The next call that comes to the pause stops there. */
void planted_arm(struct planted_world *world);
/* A call has come there. */
void planted_await_pause(struct planted_world *world);
/* It goes on, and has ended. */
void planted_let_go(struct planted_world *world);

/* The lease on record has run out. */
void planted_await_end(struct planted_world *world);
/* Granted, as soon as it can be had. */
int64_t planted_acquire(struct worker *worker, int64_t ttl_ms);

/* A call in a thread of its own: of `what`, which is given up to planted_join. */
struct planted_call {
    struct worker *worker;
    struct history_call what; /* op, token, write_seq, ttl_ms, request_id, has_expected, expected_version */
    const char *value;
    pthread_t thread;
};
void planted_start(struct planted_call *call);
struct history_call planted_join(struct planted_call *call);

#endif
