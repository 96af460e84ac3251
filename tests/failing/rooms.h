/*
 * rooms.h - the server in this process: store, services and envelopes as app/serve.c joins them, without sockets, on a database
 * of the harness. What is done here is done inside (points.h).
 *
 * The loop is made once and before any point is armed: its timers' memory is a matter of its own (a timer that cannot be set ends
 * the process, net/loop.c).
 */
#ifndef HOLDFAST_TESTS_FAILING_ROOMS_H
#define HOLDFAST_TESTS_FAILING_ROOMS_H

#include "harness/harness.h"

#include <protobuf-c/protobuf-c.h>

#include "proto/c/err.h"

enum { ROOMS_REPLY_MAX = 16 << 10, ROOMS_REQUEST_MAX = 4096 };

/* A call in an envelope of its own. */
struct rooms_call {
    unsigned char request[ROOMS_REQUEST_MAX], reply[ROOMS_REPLY_MAX];
    size_t request_len, reply_len;
    bool replied, dropped; /* dropped: there will be no reply, and its caller has to find out by its timeout */
};

/* What a call came to. */
struct rooms_answer {
    bool dropped;            /* there was no answer */
    struct hp_status status; /* otherwise */
    void *response;          /* of an OK; NULL otherwise. To be freed by rooms_answer_free */
};

/* The loop, the database and a connection to it, for a whole program. */
int rooms_setup(void **state);
int rooms_teardown(void **state);
extern PGconn *rooms_sql;
extern const char *rooms_dsn;

/* Store and services exist and begin to connect. False: no memory; nothing is left of them. */
bool rooms_open(void);
void rooms_close(void);

/* The envelope is taken in the loop's next turn. */
void rooms_send(struct rooms_call *call, const char *method, const void *request);
/* The loop runs until the condition holds, which is asked outside, every other millisecond; the test fails after `ms`. */
void rooms_run_until(bool (*cond)(void *arg), void *arg, int ms);
/* Answered or dropped. */
bool rooms_is_over(void *call);
/* All connections serve, and nothing is in flight. */
void rooms_run_until_quiet(int ms);

/* A call by a transport of the test's own: for streams. Its `gone`, likewise. */
struct hp_call;
void rooms_dispatch(struct hp_call *call);
void rooms_gone(struct hp_call *call);

void rooms_answer(const struct rooms_call *call, const ProtobufCMessageDescriptor *response, struct rooms_answer *out);
void rooms_answer_free(struct rooms_answer *answer);

#endif
