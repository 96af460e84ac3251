/*
 * fake.h - a clock, randomness and a server for the client's unit tests: time passes only when somebody waits, and the server is
 * a list of what happens to each envelope. One thread, unless a test says otherwise.
 */
#ifndef HOLDFAST_TESTS_UNIT_CLIENT_FAKE_H
#define HOLDFAST_TESTS_UNIT_CLIENT_FAKE_H

#include "harness/harness.h"

#include "client/lib/client.h"
#include "holdfast/v1/resource.pb-c.h"
#include "proto/c/buf.h"
#include "proto/c/envelope.h"
#include "proto/c/wire.h"

enum fake_how {
    FAKE_ANSWER,      /* served at once, answered after_ms later */
    FAKE_RESET,       /* the connection breaks after_ms after the sending; nothing is served */
    FAKE_SILENT,      /* taken, but neither served nor answered */
    FAKE_LOSE,        /* served, but the answer never comes */
    FAKE_UNREACHABLE, /* no connection takes it */
    FAKE_GARBAGE      /* answered with bytes that are no envelope */
};

/* What an endpoint is like, before any step. */
enum fake_endpoint {
    FAKE_ALIVE,
    FAKE_STOPPED, /* takes everything and answers nothing */
    FAKE_GONE     /* no connection takes anything */
};

struct fake;
/* Answers one call: fake_ok or fake_error, once. */
typedef void (*fake_serve)(struct fake *fake, const Holdfast__V1__Call *call);

struct fake_step {
    enum fake_how how;
    int64_t after_ms;
    fake_serve serve; /* NULL = fake->serve */
};

struct fake_call { /* as the server got it */
    char method[64];
    uint8_t *payload;
    size_t len;
    int64_t at_ms, timeout_ms;
    unsigned envelope, endpoint;
};

struct fake_event;

struct fake {
    struct hfi_clock clock;
    struct hfi_random random;
    struct hfi_transport transport;
    int64_t now_ms;
    size_t clock_reads;
    uint64_t random_next;
    bool threads;
    pthread_mutex_t mutex; /* with threads: of what the server keeps */

    enum fake_endpoint endpoints[8];
    size_t pings; /* calls that only ask whether an endpoint lives: those are answered by what it is like, and neither steps nor
                     calls */

    struct fake_step steps[64]; /* for the next envelopes to endpoints that are alive */
    size_t n_steps, step;
    fake_serve serve;
    struct fake_event *events;

    struct fake_call calls[4096];
    size_t n_calls;
    unsigned envelopes;

    struct hp_arena *arena; /* of the envelope being served */
    Holdfast__V1__Reply **replies;
    size_t n_replies;

    /* With threads: acquires with a wait_ms are kept, unanswered, until fake_unpark. */
    struct hfi_exchange *parked[16];
    uint8_t *parked_data[16];
    size_t parked_len[16];
    size_t n_parked;
    bool grant_parked; /* set by a serve function: they are granted once it has returned */

    hf_client *client;
};

/* A client on fakes, without threads. */
struct fake *fake_new(const hf_client_options *options);
/* One with the system's clock and its own threads, whose server answers everything at once by `serve`. */
struct fake *fake_new_threads(const hf_client_options *options);
void fake_free(struct fake *fake);
/* What happens to the next envelope that has no step yet. */
void fake_push(struct fake *fake, enum fake_how how, int64_t after_ms, fake_serve serve);
/* do_it(fake) is called when so much time has passed, by whoever lets it pass. */
void fake_at(struct fake *fake, int64_t in_ms, void (*do_it)(struct fake *fake));
/* The answer that is furthest away comes at once. */
void fake_hurry(struct fake *fake);
void fake_ok(struct fake *fake, const ProtobufCMessage *message);
void fake_error(struct fake *fake, enum hp_reason reason);
/* The clock goes on, answers that are due arriving on the way; no renewal runs by itself. */
void fake_pass(struct fake *fake, int64_t ms);
/* The same, with the background's turns in between, as its thread would take them. */
void fake_live(struct fake *fake, int64_t ms);
int64_t fake_step_now(struct fake *fake); /* one turn */
/* Tells all losses that are queued. */
void fake_tell(struct fake *fake);
/* The request of call number i, in the fake's memory until fake_free. */
const ProtobufCMessage *fake_request(struct fake *fake, size_t i, const ProtobufCMessageDescriptor *type);
/* How many calls of this method came. */
size_t fake_count(const struct fake *fake, const char *method);

/* With threads: all acquires that wait are answered by `serve`. */
void fake_unpark(struct fake *fake, fake_serve serve);
size_t fake_parked(struct fake *fake);

/* Usual answers. */
void serve_grant(struct fake *fake, const Holdfast__V1__Call *call);                 /* the whole TTL, token 7 */
void serve_held(struct fake *fake, const Holdfast__V1__Call *call);                  /* by "other", token 3, for 1,000 ms */
void serve_ended(struct fake *fake, const Holdfast__V1__Call *call);                 /* token 5 */
void serve_renewed(struct fake *fake, const Holdfast__V1__Call *call);               /* all, the whole TTL */
void serve_left(struct fake *fake, const Holdfast__V1__Call *call, int64_t left_ms); /* all; < 0 = the whole TTL */
void serve_written(struct fake *fake, const Holdfast__V1__Call *call);               /* version 1 */
void serve_released(struct fake *fake, const Holdfast__V1__Call *call);              /* was held */
void serve_any(struct fake *fake, const Holdfast__V1__Call *call);                   /* each of the good ones by its method */
void serve_unavailable(struct fake *fake, const Holdfast__V1__Call *call);
void serve_lost_reply(struct fake *fake, const Holdfast__V1__Call *call); /* OUTCOME_LOST */
void serve_stale(struct fake *fake, const Holdfast__V1__Call *call);
void serve_not_held(struct fake *fake, const Holdfast__V1__Call *call);

/* A call to be made: a Write under token 7. */
struct hfi_call fake_write_call(enum hfi_retry retry);
/* Acquires "r" for `ttl_ms`, which must be granted. */
hf_lease *fake_acquire(struct fake *fake, const char *resource, int64_t ttl_ms);

#endif
