/*
 * fake.h - the services with everything around them played: a store that does nothing until told, a clock that stands
 * still, a transport that keeps the answers.
 */
#ifndef HOLDFAST_TESTS_UNIT_SERVICE_FAKE_H
#define HOLDFAST_TESTS_UNIT_SERVICE_FAKE_H

#include "harness/harness.h"

#include "service/service.h"
#include "store/follow.h"

enum { FAKE_ITEMS = 1100, FAKE_TIMERS = 64, FAKE_CALLS = 12000, FAKE_SENT = 64 };

struct fake_call {
    struct hp_call call; /* first */
    int answers;
    struct hp_status status;
    ProtobufCMessage *response; /* of an OK; fake_free frees it */
    uint8_t *payload;
    const char *metadata[2];
    ProtobufCMessage *sent[FAKE_SENT]; /* of a stream; fake_free frees them */
    size_t n_sent;
    bool full;    /* send takes nothing */
    bool listens; /* to its caller's stream */
    bool taken;   /* the service kept the arena */
    bool gone;    /* what it is answered is thrown away */
};

struct fake {
    struct io io;
    int64_t now_ms;
    struct io_timer *timers[FAKE_TIMERS];
    struct svc *svc;
    struct st_item *items[FAKE_ITEMS]; /* submitted and not done */
    size_t n_items, n_submitted, n_withdrawn;
    struct st_stats stats; /* what st_stats tells */
    struct fake_call *calls[FAKE_CALLS];
    size_t n_calls;
    void (*turn)(void *arg, const char *ns, const char *resource); /* st_on_turn */
    void *turn_arg;
    struct st_follow *follow; /* st_follow; NULL = nobody follows */
    int n_follows;            /* how often it was begun */
    struct st_follow_mark mark;
    const char *open;          /* of st_follow_open; NULL = none */
    struct list trails;        /* st_trail_read */
    bool no_streams;           /* as nng */
    bool closed;               /* at the end: services use the store no more */
    const char *authorization; /* that calls carry from now on; NULL = none */
    const struct hp_peer *peer;
    int fail_alloc; /* this allocation of proto/c fails, counted from the dispatch of a call; 0 = none */
};

/* cmocka's setup and teardown; *state is the struct fake. */
int fake_setup(void **state);
int fake_setup_keys(void **state); /* a server that requires keys */
int fake_teardown(void **state);

/* A call has been dispatched; what became of it is seen in the result. timeout_ms 0 = 30 s. */
struct fake_call *fake_call(struct fake *f, const char *method, const void *request, int64_t timeout_ms);
struct fake_call *fake_call_bytes(struct fake *f, const char *method, const void *payload, size_t len, int64_t timeout_ms);
/* The next message of the caller's stream; NULL: its end. */
void fake_message(struct fake_call *call, const void *message);
/* The item at `i` among those that are out is done. */
void fake_done(struct fake *f, size_t i, enum st_outcome outcome);
/* Time passes; timers that are due fire. */
void fake_advance(struct fake *f, int64_t ms);
/* The call's connection has ended. */
void fake_gone(struct fake_call *call);
/* This server may have the turn. */
void fake_turn(struct fake *f, const char *ns, const char *resource);

/* The page that was asked for first was read: these events. */
void fake_page(struct fake *f, enum st_outcome outcome, const struct st_lease_event *events, size_t n);

/* The call was answered with this, once. */
void fake_assert_error(const struct fake_call *call, enum hp_code code, enum hp_reason reason);
void *fake_assert_ok(const struct fake_call *call);

#endif
