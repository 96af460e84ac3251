/*
 * fake.h - exchanges without a connection, a loop without time, and services that do what the test says: for tests of net/rpc.h.
 */
#ifndef HOLDFAST_TESTS_UNIT_NET_RPC_FAKE_H
#define HOLDFAST_TESTS_UNIT_NET_RPC_FAKE_H

#include "harness/harness.h"

#include "holdfast/v1/resource.pb-c.h"
#include "net/rpc.h"
#include "proto/c/buf.h"

enum { FAKE_HEADERS = 32, FAKE_CALLS = 64 };

/* The methods: they take and give WriteRequests. */
#define ECHO   "/test.Service/Echo"
#define STREAM "/test.Service/Stream"
#define BIDI   "/test.Service/Bidi"

struct fake_exchange {
    struct net_exchange x;
    struct net_header request[FAKE_HEADERS];
    char *names[2 * FAKE_HEADERS]; /* of the request, to be freed */
    size_t n_names;

    int status; /* 0 = no response yet */
    bool ended, reset, closed;
    struct hp_buf headers, trailers; /* "name: value\n" each */
    struct hp_buf body;
    size_t consumed, held;
    int64_t charged;
    bool known;
    size_t room;         /* body beyond which write says no; 0 = any */
    bool close_in_write; /* the connection breaks as it is written to */
};

/* A test's world: one at a time. */
struct fake {
    struct io io;
    int64_t now;
    struct io_task *tasks;
    struct io_timer *timer; /* one is enough */
    struct io_watch *watch; /* the same */
    struct net_rpc *rpc;
    struct net_rpc_config cfg; /* for fake_open */

    bool deaf;                    /* callers' streams aren't listened to, until fake_listen */
    bool hold;                    /* calls are kept, not answered at once */
    const struct hp_status *fail; /* calls are answered so */
    struct hp_call *calls[FAKE_CALLS];
    size_t n_calls;
    int n_gone, n_writable, n_ends; /* ends: of callers' streams */
    bool answer_when_gone;
    struct hp_buf messages; /* the values of what came on streams, with a '|' behind each */
    struct fake_exchange *exchanges[FAKE_CALLS];
    size_t n_exchanges;
};
extern struct fake fake;

int fake_setup(void **state);
int fake_teardown(void **state); /* nothing may be left */
/* With fake.cfg, instead of the one that is there. */
void fake_open(void);

/* A request's header has come; `headers`: "name: value\n" each. */
struct fake_exchange *fake_request(int version, const char *method, const char *path, const char *headers);
void fake_body(struct fake_exchange *f, const void *data, size_t len, bool end);
void fake_close(struct fake_exchange *f, bool complete);
/* The one that was made last is closed, and forgotten. */
void fake_forget(struct fake_exchange *f);
/* The peer has read all, and reads on. */
void fake_read(struct fake_exchange *f);
/* The response's header or trailer, or NULL. */
const char *fake_header(const struct fake_exchange *f, const char *name);
const char *fake_trailer(const struct fake_exchange *f, const char *name);

/* Posted tasks run. */
void fake_turn(void);
/* What is watched is ready, with patience; that is told, and posted tasks run. */
void fake_await(void);
void fake_advance(int64_t ms);

/* Appends a WriteRequest with this value, framed. */
void fake_add_message(struct hp_buf *out, const char *value);
/* The values of the framed WriteRequests in the response, with a '|' behind each. */
char *fake_values(const struct fake_exchange *f);
void fake_answer(struct hp_call *call, const char *value);
void fake_listen(struct hp_call *call);
bool fake_send(struct hp_call *call, const char *value);

#endif
