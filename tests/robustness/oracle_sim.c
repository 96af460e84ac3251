/*
 * oracle_sim.c - see oracle_sim.h. Times are nanoseconds since the beginning.
 */
#include "robustness/oracle_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/case.h"

enum { MS = 1000000, MAX_WORKERS = 32, MAX_RESOURCES = 16, MAX_LATE = 256 };

struct resource {
    int64_t fence, lease, deadline, granted; /* granted: the token of the last grant, to the request */
    int ended;                               /* 3 released, 4 broken */
    char request[HISTORY_NAME];
    int64_t version, token, seq, seq_version;
    uint64_t value; /* 0: none */
};

/* A call under way: it takes effect at `at`, and is answered, or given up, at `end`. */
struct flight {
    size_t call;
    int resource;
    int64_t at, again_until; /* an acquire that is held tries again until then */
    bool done;
    struct history_call told;
};

struct worker {
    struct flight flight;
    bool busy;
    int64_t next; /* it ends its call, or begins one */
    bool answered;

    int resource;
    int64_t token, seq;       /* token 0: no lease */
    struct history_call last; /* repeated if its answer was lost */
    unsigned requests;
};

struct sim {
    uint64_t seed;
    const struct oracle_sim_options *options;
    struct resource resources[MAX_RESOURCES];
    struct worker workers[MAX_WORKERS];
    struct flight late[MAX_LATE]; /* copies, and calls that were given up */
    int n_late;
    struct history_call *calls;
    size_t n, size;
};

static int64_t chance_ms(struct sim *sim, int least, int most)
{
    return (int64_t)least * MS + (int64_t)(case_random(&sim->seed) % (uint64_t)(most - least + 1)) * MS +
           case_below(&sim->seed, MS);
}

/* ------------------------------------------------------------------------------------------------ the database */

static void no(struct history_call *call, const char *reason)
{
    call->answer = HISTORY_REFUSED;
    snprintf(call->reason, sizeof(call->reason), "%s", reason);
}

static void do_acquire(struct resource *r, struct history_call *call, int64_t now)
{
    if (r->granted && !strcmp(r->request, call->request_id)) {
        call->got_token = r->granted;
        if (r->lease == r->granted && r->deadline > now)
            call->got_ttl_ms = (r->deadline - now) / MS;
        else
            no(call, "ENDED");
        return;
    }
    if (r->deadline > now) {
        call->got_token = r->lease;
        no(call, "HELD");
        return;
    }
    r->lease = r->granted = call->got_token = ++r->fence;
    memcpy(r->request, call->request_id, sizeof(r->request));
    r->deadline = now + call->ttl_ms * MS;
    r->ended = 0;
    call->got_ttl_ms = call->ttl_ms;
}

static void do_token(struct resource *r, struct history_call *call, int64_t now)
{
    const bool live = r->lease == call->token && r->deadline > now;
    if (call->op == HISTORY_RENEW && live) {
        if (now + call->ttl_ms * MS > r->deadline)
            r->deadline = now + call->ttl_ms * MS;
        call->got_ttl_ms = (r->deadline - now) / MS;
    } else if (call->op == HISTORY_RENEW) {
        no(call, r->lease < call->token   ? "UNKNOWN_TOKEN"
                 : r->lease > call->token ? "TAKEN_OVER"
                 : r->ended == 3          ? "RELEASED"
                 : r->ended == 4          ? "BROKEN"
                                          : "EXPIRED");
    } else if (call->op == HISTORY_RELEASE) {
        if (live) {
            r->ended = 3;
            r->deadline = INT64_MIN;
        } else if (r->lease != call->token || r->ended != 3) {
            no(call, "NOT_HELD");
        }
    } else if (r->lease != call->token || r->ended == 3) { /* break */
        call->got_token = r->fence;
        no(call, "CHANGED");
    } else {
        r->fence += r->ended == 0;
        r->ended = 4;
        r->deadline = INT64_MIN;
        call->got_fence = r->fence;
    }
}

static void do_change(struct resource *r, struct history_call *call, int64_t now)
{
    const uint64_t value = call->op == HISTORY_WRITE ? call->value : 0;
    const bool known = call->write_seq > 0 && r->token == call->token && r->seq >= call->write_seq;
    call->got_fence = r->fence;
    if (known && r->seq == call->write_seq && r->seq_version == r->version && !value == !r->value) {
        call->replayed = true;
        call->got_version = r->version;
    } else if (known) {
        no(call, "SUPERSEDED");
    } else if (call->token < r->fence) {
        no(call, "STALE_TOKEN");
    } else if (call->token > r->fence || r->lease != call->token || r->deadline <= now) {
        no(call, "NOT_HELD");
    } else {
        r->version += value || r->value;
        r->value = value;
        r->seq = call->write_seq > 0 ? call->write_seq : r->token == call->token ? r->seq : 0;
        r->seq_version = call->write_seq > 0 ? r->version : r->token == call->token ? r->seq_version : 0;
        r->token = call->token;
        call->got_version = r->version;
    }
    if (call->answer == HISTORY_REFUSED)
        call->got_fence = 0;
}

static void do_call(struct resource *r, struct history_call *call, int64_t now)
{
    call->answer = HISTORY_OK;
    switch (call->op) {
    case HISTORY_ACQUIRE:
        do_acquire(r, call, now);
        break;
    case HISTORY_WRITE:
    case HISTORY_DELETE:
        do_change(r, call, now);
        break;
    case HISTORY_READ:
        call->got_version = r->version;
        call->got_token = r->token;
        call->got_fence = r->fence;
        call->got_value = r->value;
        break;
    default:
        do_token(r, call, now);
    }
}

/* ------------------------------------------------------------------------------------------------ what workers do */

static struct history_call *record(struct sim *sim, const struct history_call *call)
{
    if (sim->n == sim->size) {
        sim->size = sim->size * 2 + 256;
        sim->calls = realloc(sim->calls, sim->size * sizeof(sim->calls[0]));
        if (!sim->calls)
            abort();
    }
    sim->calls[sim->n] = *call;
    return &sim->calls[sim->n++];
}

static struct history_call choose_under_lease(struct sim *sim, struct worker *w)
{
    struct history_call call = {.op = HISTORY_WRITE, .token = w->token};
    const int what = case_below(&sim->seed, 100);
    if (what < 60) {
        call.op = what < 6 ? HISTORY_DELETE : HISTORY_WRITE;
        call.write_seq = case_chance(&sim->seed, 95) ? ++w->seq : 0;
        call.value = call.op == HISTORY_WRITE ? case_random(&sim->seed) | 1 : 0;
    } else if (what < 78) {
        call.op = HISTORY_RENEW;
        call.ttl_ms = 100 + case_below(&sim->seed, 500);
    } else if (what < 90) {
        call.op = HISTORY_RELEASE;
    } else {
        call.op = what < 92 ? HISTORY_BREAK : HISTORY_READ;
    }
    if (call.op == HISTORY_READ)
        call.token = 0;
    return call;
}

static struct history_call choose(struct sim *sim, struct worker *w)
{
    struct history_call call = {.op = HISTORY_READ};
    if (w->last.op != HISTORY_READ && w->last.answer == HISTORY_UNKNOWN && w->last.resource[0] && case_chance(&sim->seed, 70)) {
        call = w->last; /* again, as it was */
        return call;
    }
    if (w->token) {
        call = choose_under_lease(sim, w);
    } else {
        w->resource = case_below(&sim->seed, sim->options->resources);
        if (case_chance(&sim->seed, 80)) {
            call.op = HISTORY_ACQUIRE;
            call.ttl_ms = 100 + case_below(&sim->seed, 500);
            call.no_renewal = true;
            snprintf(call.request_id, sizeof(call.request_id), "%d-%u", (int)(w - sim->workers), w->requests++);
        }
    }
    call.worker = (int)(w - sim->workers);
    snprintf(call.resource, sizeof(call.resource), "r%d", w->resource);
    return call;
}

static void keep_late(struct sim *sim, const struct flight *flight, int64_t at)
{
    if (sim->n_late == MAX_LATE)
        return;
    sim->late[sim->n_late] = *flight;
    sim->late[sim->n_late].again_until = 0;
    sim->late[sim->n_late++].at = at;
}

static void begin(struct sim *sim, struct worker *w, int64_t now)
{
    struct history_call call = choose(sim, w);
    struct flight flight = {.call = sim->n, .resource = w->resource, .at = now + chance_ms(sim, 0, 12)};
    call.start_ns = now;
    call.end_ns = 0;
    call.answer = HISTORY_UNKNOWN;
    w->last = flight.told = call;
    record(sim, &call);
    if (call.op == HISTORY_ACQUIRE && case_chance(&sim->seed, 60))
        flight.again_until = now + chance_ms(sim, 0, 800);
    w->answered = case_chance(&sim->seed, 92);
    w->next = (flight.again_until > flight.at ? flight.again_until : flight.at) + chance_ms(sim, 1, 12);
    const bool once =
        (call.op == HISTORY_WRITE || call.op == HISTORY_DELETE) && call.write_seq == 0; /* nothing tells a copy of it */
    if (!once && case_chance(&sim->seed, 4))
        keep_late(sim, &flight, flight.at + chance_ms(sim, 0, 400));
    if (!w->answered && case_chance(&sim->seed, 60)) { /* it comes much later, or never */
        if (case_chance(&sim->seed, 60))
            keep_late(sim, &flight, now + chance_ms(sim, 0, 800));
        flight.done = true;
        w->next = now + chance_ms(sim, 5, 50);
    }
    w->flight = flight;
    w->busy = true;
}

/* What the worker makes of an answer. */
static void learn(struct sim *sim, struct worker *w, const struct history_call *call)
{
    const bool ok = call->answer == HISTORY_OK;
    if (call->op == HISTORY_ACQUIRE && ok) {
        w->token = call->got_token;
        w->seq = 0;
    } else if ((call->op == HISTORY_RELEASE || call->op == HISTORY_BREAK) && call->answer != HISTORY_UNKNOWN) {
        w->token = case_chance(&sim->seed, 15) ? w->token : 0;
    } else if (call->answer == HISTORY_REFUSED && case_chance(&sim->seed, 70)) {
        w->token = 0;
    }
    w->next += case_chance(&sim->seed, 5) ? chance_ms(sim, 100, 700) : chance_ms(sim, 0, 15); /* some sleep past their TTL */
}

static void finish(struct sim *sim, struct worker *w, int64_t now)
{
    struct history_call *call = &sim->calls[w->flight.call];
    if (w->answered)
        *call = w->flight.told;
    if (w->answered || case_chance(&sim->seed, 70))
        call->end_ns = now;
    w->last.answer = call->answer;
    w->busy = false;
    learn(sim, w, call);
}

/* ------------------------------------------------------------------------------------------------ time */

static void take_effect(struct sim *sim, struct flight *flight, int64_t now)
{
    struct history_call call = sim->calls[flight->call];
    do_call(&sim->resources[flight->resource], &call, now);
    flight->told = call;
    flight->done = true;
    if (call.op == HISTORY_ACQUIRE && !strcmp(call.reason, "HELD") && now < flight->again_until) {
        flight->at = now + chance_ms(sim, 1, 30);
        flight->done = flight->at > flight->again_until;
    }
}

static void upset(struct sim *sim, int64_t now)
{
    const struct history_call call = {.op = HISTORY_UPSET, .start_ns = now, .end_ns = now};
    for (int i = 0; i < sim->options->resources; i++)
        if (sim->resources[i].deadline > now)
            sim->resources[i].deadline = now;
    record(sim, &call);
}

/* The next thing that happens; false once there were enough calls and nothing is under way. */
static bool step(struct sim *sim)
{
    struct worker *next = NULL;
    struct flight *flight = NULL;
    for (int i = 0; i < sim->options->workers; i++) {
        struct worker *w = &sim->workers[i];
        if (w->busy && !w->flight.done && (!flight || w->flight.at < flight->at))
            flight = &w->flight;
        if ((w->busy || sim->n < sim->options->calls) && (!next || w->next < next->next))
            next = w;
    }
    for (int i = 0; i < sim->n_late; i++)
        if (!flight || sim->late[i].at < flight->at)
            flight = &sim->late[i];
    if (flight && (!next || flight->at <= next->next)) {
        take_effect(sim, flight, flight->at);
        if (flight >= sim->late && flight < sim->late + sim->n_late)
            *flight = sim->late[--sim->n_late];
        return true;
    }
    if (!next)
        return false;
    if (sim->options->upsets && case_below(&sim->seed, 200) == 0)
        upset(sim, next->next);
    if (next->busy)
        finish(sim, next, next->next);
    else
        begin(sim, next, next->next);
    return true;
}

struct history_call *oracle_sim(uint64_t seed, const struct oracle_sim_options *options, size_t *n)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    if (!sim || options->workers > MAX_WORKERS || options->resources > MAX_RESOURCES)
        abort();
    sim->seed = seed;
    sim->options = options;
    for (int i = 0; i < options->workers; i++)
        sim->workers[i].next = chance_ms(sim, 1, 20);
    while (step(sim))
        continue;
    int64_t end = 0;
    for (size_t i = 0; i < sim->n; i++)
        end = sim->calls[i].end_ns > end ? sim->calls[i].end_ns : end;
    for (int i = 0; i < options->resources; i++) {
        struct history_call read = {.worker = -1, .op = HISTORY_READ, .start_ns = end, .end_ns = end};
        snprintf(read.resource, sizeof(read.resource), "r%d", i);
        do_call(&sim->resources[i], &read, end);
        record(sim, &read);
    }
    struct history_call *calls = sim->calls;
    *n = sim->n;
    free(sim);
    return calls;
}
