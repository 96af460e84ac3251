/*
 * calls_fuzz.c - the services, with a store that is played (tests/unit/service/fake.h): the bytes are a sequence of what happens,
 * each an event and a few bytes more. Calls with any payload come, acquires wait for the same few resources, begins and waits for
 * the same few operations, items end in any way that their kind may, callers go, time passes, turns are given, the server drains;
 * streams of changes are opened, go on from any token, are told, read or not, and lost.
 *
 * Whatever happens, each call is answered exactly once with a message of its type, and nothing is left behind.
 */
#include "fuzz.h"

#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "unit/service/fake.h"

enum event { CALL, ACQUIRE, DONE, PASS, GO, TURN, CANCEL, DRAIN, BEGIN, WAIT, WATCH, TRAIL, EVENTS };
enum { OPEN_MAX = 24, ITEMS_MAX = 800, EVENTS_MAX = 400, STEP_MS = 40 };

struct input {
    const uint8_t *at, *end;
};

static uint8_t next(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return setenv("CMOCKA_TEST_ABORT", "1", 1); /* the fake's assertions are cmocka's */
}

/* ---- calls ---- */

static size_t count_open(const struct fake *f)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_calls; i++)
        n += f->calls[i]->answers == 0;
    return n;
}

static void call(struct fake *f, struct input *in)
{
    size_t n, len;
    const struct svc_method *methods = svc_methods(&n);
    const struct svc_method *method = &methods[next(in) % n];
    len = next(in);
    if (len > (size_t)(in->end - in->at))
        len = (size_t)(in->end - in->at);
    fake_call_bytes(f, method->rpc.path, in->at, len, 0);
    in->at += len;
}

static const char *resource_of(uint8_t bits)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    return names[bits % 4];
}

static void acquire(struct fake *f, struct input *in)
{
    static const char *const ids[] = {"", "r1", "r2", "r3"};
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    uint8_t bits = next(in), wait = next(in);
    char *resources[] = {(char *)(uintptr_t)resource_of(bits), (char *)(uintptr_t)resource_of((uint8_t)(bits + 1))};
    request.resources = resources;
    request.n_resources = bits & 0x40 ? 2 : 1;
    request.namespace_ = (char *)"default";
    request.holder = (char *)"h";
    request.request_id = (char *)(uintptr_t)ids[bits >> 2 & 3];
    request.ttl_ms = 1000;
    request.wait_ms = wait * STEP_MS;
    fake_call(f, "/holdfast.v1.LeaseService/Acquire", &request, bits & 0x80 ? 1000 : 0);
}

static void cancel(struct fake *f, struct input *in)
{
    Holdfast__V1__CancelWaitRequest request = HOLDFAST__V1__CANCEL_WAIT_REQUEST__INIT;
    char id[] = {'r', (char)('1' + next(in) % 3), '\0'};
    request.namespace_ = (char *)"default";
    request.request_id = id;
    fake_call(f, "/holdfast.v1.LeaseService/CancelWait", &request, 0);
}

static const unsigned char print[32] = "the fingerprint of all of them.";

static void begin(struct fake *f, struct input *in)
{
    static const char *const ids[] = {"", "r1", "r2", "r3"};
    Holdfast__V1__BeginRequest request = HOLDFAST__V1__BEGIN_REQUEST__INIT;
    uint8_t bits = next(in), wait = next(in);
    request.namespace_ = (char *)"default";
    request.key = (char *)(uintptr_t)resource_of(bits);
    request.type = bits & 0x40 ? (char *)"u" : (char *)"t";
    request.parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint.data = (uint8_t *)(uintptr_t)print;
    request.fingerprint.len = sizeof(print);
    request.holder = (char *)"h";
    request.request_id = (char *)(uintptr_t)ids[bits >> 2 & 3];
    request.ttl_ms = 1000;
    request.wait_ms = wait * STEP_MS;
    fake_call(f, "/holdfast.v1.OperationService/Begin", &request, bits & 0x80 ? 1000 : 0);
}

static void wait_for(struct fake *f, struct input *in)
{
    Holdfast__V1__WaitOperationRequest request = HOLDFAST__V1__WAIT_OPERATION_REQUEST__INIT;
    uint8_t bits = next(in);
    request.namespace_ = (char *)"default";
    request.key = (char *)(uintptr_t)resource_of(bits);
    request.wait_ms = (bits >> 2) * STEP_MS;
    fake_call(f, "/holdfast.v1.OperationService/Wait", &request, 0);
}

static void go(struct fake *f, uint8_t which)
{
    for (size_t i = 0; i < f->n_calls; i++) {
        struct fake_call *one = f->calls[(i + which) % f->n_calls];
        if (one->answers == 0 && !one->gone) {
            fake_gone(one);
            return;
        }
    }
}

/* ---- streams ---- */

static void watch(struct fake *f, struct input *in)
{
    Holdfast__V1__WatchLeasesRequest request = HOLDFAST__V1__WATCH_LEASES_REQUEST__INIT;
    uint8_t bits = next(in);
    char token[64];
    snprintf(token, sizeof(token), "%016llx-%x", (unsigned long long)f->mark.epoch, bits >> 2);
    request.namespace_ = (char *)"default";
    request.prefix = bits & 1 ? (char *)"a" : (char *)"";
    request.resume_token = bits & 2 ? token : (char *)"";
    fake_call(f, "/holdfast.v1.LeaseService/Watch", &request, 0);
}

static struct st_lease_event event_of(int64_t id, uint8_t bits)
{
    return (struct st_lease_event){.id = id,
                                   .token = 1 + (bits & 3),
                                   .prior = bits & 3,
                                   .kind = (enum st_lease_event_kind)(1 + bits % 5),
                                   .ns = "default",
                                   .resource = resource_of(bits >> 3),
                                   .actor = "h",
                                   .detail = "t"};
}

static int begun; /* at which beginning; 0 = not yet */

/* What the follower says, as it may: begun, then told, until it is lost. */
static void follow(struct fake *f, uint8_t bits)
{
    if (begun != f->n_follows) {
        begun = f->n_follows;
        f->mark = (struct st_follow_mark){.epoch = 1 + (bits & 1), .high = f->mark.high + 5, .settled = f->mark.high + 1};
        f->follow->begun(f->follow);
    } else if (bits > 250) {
        begun = -1;
        f->follow->lost(f->follow, "why");
    } else {
        struct st_lease_event one = event_of(++f->mark.high, bits);
        f->mark.settled = f->mark.high - (bits & 1);
        f->follow->told(f->follow, &one, 1);
    }
}

static void read_page(struct fake *f, uint8_t bits)
{
    static const enum st_outcome outcomes[] = {ST_FOUND, ST_FOUND, ST_FOUND, ST_FOUND, ST_FOUND, ST_FOUND, ST_NO_SUCH_NAMESPACE,
                                               ST_FAILED};
    struct st_trail *trail = list_entry(list_first(&f->trails), struct st_trail, node);
    struct st_lease_event events[3];
    size_t n = 0;
    for (int64_t id = trail->after + 1; id <= trail->until && n < 3; id += 1 + (bits & 1))
        events[n++] = event_of(id, (uint8_t)(bits + id));
    fake_page(f, outcomes[bits % 8], events, n);
}

static void trail(struct fake *f, struct input *in)
{
    uint8_t what = next(in), bits = next(in);
    if (what % 3 == 0 && f->follow) {
        follow(f, bits);
    } else if (what % 3 == 1 && !list_empty(&f->trails)) {
        read_page(f, bits);
    } else if (f->n_calls) {
        struct fake_call *one = f->calls[bits % f->n_calls];
        one->full = !one->full;
        if (!one->full && !one->answers && !one->gone && one->call.writable)
            one->call.writable(&one->call);
    }
}

/* ---- what the store says ---- */

static void end_acquire(struct st_item *item, uint8_t bits)
{
    item->out.acquire.token = 1 + bits;
    item->out.acquire.ttl_ms = item->in.acquire.ttl_ms;
    item->out.acquire.holder = bits & 1 ? "other" : "";
    item->out.acquire.task = bits & 1 ? "task" : "";
    item->out.acquire.remaining_ms = (bits >> 1) * STEP_MS;
    item->out.acquire.max_waiters = bits & 2 ? 3 : 0;
    item->out.acquire.limit = 5;
    item->out.acquire.min_ttl_ms = 100;
    item->out.acquire.max_ttl_ms = 900;
    for (size_t i = 0; item->kind == ST_ACQUIRE_ALL && i < item->in.acquire.n_resources; i++)
        item->out.acquire.tokens[i] = 1 + bits;
}

/* What is told stays until the item is done. */
static void end_operation(struct st_item *item, uint8_t bits)
{
    static struct st_op_row row;
    static struct st_op_policy_row policy = {.type = "t"};
    static struct st_action_row action = {.name = "a", .function = "s.f", .role = "r"};
    row = (struct st_op_row){.key = item->resource ? item->resource : "k",
                             .type = bits & 0x80 ? "u" : "t",
                             .fingerprint = {print, sizeof(print)},
                             .holder = "other",
                             .state = 1 + bits % 7,
                             .remaining_ms = (bits >> 3 & 15) * STEP_MS};
    switch (item->kind) {
    case ST_OP_GET:
    case ST_OP_LIST:
        item->out.ops = (struct st_op_rows){.rows = &row, .n = 1};
        break;
    case ST_OP_BEGIN:
    case ST_OP_RECORD:
    case ST_OP_EXECUTE:
        item->out.op = (struct st_op_told){
            .attempt = 1, .token = 1 + bits, .ttl_ms = 1000, .state = 1 + (bits & 1), .remaining_ms = (bits >> 3) * STEP_MS};
        break;
    case ST_SET_OP_POLICY:
    case ST_LIST_OP_POLICIES:
        item->out.op_policies = (struct st_op_policies_told){.rows = &policy, .n = 1, .needed_ms = 5, .more = bits & 1};
        break;
    case ST_REGISTER_ACTION:
    case ST_LIST_ACTIONS:
        item->out.actions = (struct st_actions_told){.rows = &action, .n = 1, .message = "no", .more = bits & 1};
        break;
    default:
        if (item->kind >= ST_OP_SENDING && item->kind <= ST_OP_COMPENSATE && item->kind != ST_OP_ATTEMPTS)
            item->out.op_moved = (struct st_op_moved){.state = 1 + bits % 7, .revision = bits, .attempts = bits};
    }
}

/* The outcomes that this kind may have, besides those that all have. */
static size_t outcomes_of(enum st_kind kind, const enum st_outcome **list)
{
    static const enum st_outcome acquires[] = {ST_GRANTED, ST_HELD, ST_REPEATED, ST_ENDED, ST_QUOTA, ST_TTL_BOUNDS};
    static const enum st_outcome renewals[] = {ST_RENEWED, ST_EXPIRED, ST_TAKEN_OVER, ST_RELEASED, ST_BROKEN, ST_UNKNOWN_TOKEN};
    static const enum st_outcome releases[] = {ST_FREED, ST_NOT_FREED};
    static const enum st_outcome writes[] = {ST_WRITTEN,          ST_REPLAYED,   ST_STALE, ST_NOT_HELD,
                                             ST_VERSION_MISMATCH, ST_SUPERSEDED, ST_QUOTA};
    static const enum st_outcome checks[] = {ST_CURRENT, ST_STALE, ST_NOT_HELD};
    static const enum st_outcome breaks[] = {ST_BREAK_DONE, ST_BREAK_CHANGED, ST_BREAK_BLOCKED, ST_NO_SUCH_RESOURCE};
    static const enum st_outcome absent[] = {ST_NO_SUCH_RESOURCE};
    static const enum st_outcome reads[] = {ST_FOUND, ST_NO_SUCH_RESOURCE};
    static const enum st_outcome namespaces[] = {ST_FOUND, ST_CONFLICT, ST_CONTRADICTION};
    static const enum st_outcome lists[] = {ST_FOUND};
    static const enum st_outcome begins[] = {ST_OP_IN_PROGRESS,     ST_OP_STARTED,  ST_OP_STARTED_AGAIN,
                                             ST_OP_REPLAYED,        ST_OP_UNKNOWN,  ST_OP_REVIEW,
                                             ST_OP_REPLAYED_FAILED, ST_OP_CONFLICT, ST_OP_REPLAYED_CANCELLED};
    static const enum st_outcome once[] = {
        ST_OP_DONE,      ST_OP_REPLAYED, ST_OP_CONFLICT,       ST_OP_IN_PROGRESS,       ST_OP_RAISED,
        ST_OP_NO_ACTION, ST_OP_UNKNOWN,  ST_OP_STALE_RESOURCE, ST_OP_RESOURCE_NOT_HELD, ST_OP_VERSION};
    static const enum st_outcome changes[] = {ST_OP_DONE,    ST_OP_DONE_AGAIN, ST_OP_STALE, ST_OP_NOT_HELD,
                                              ST_OP_ILLEGAL, ST_OP_REVISION,   ST_OP_NONE,  ST_OP_CONFLICT};
    static const enum st_outcome tells[] = {ST_FOUND, ST_OP_NONE};
    static const enum st_outcome policies[] = {ST_FOUND, ST_OP_RETENTION, ST_CONTRADICTION};
    static const enum st_outcome actions[] = {ST_FOUND, ST_CONFLICT, ST_OP_BAD_ACTION, ST_OP_NO_ACTION};
#define GIVE(array) return *list = (array), sizeof(array) / sizeof((array)[0])
    switch (kind) {
    case ST_ACQUIRE:
    case ST_ACQUIRE_ALL:
        GIVE(acquires);
    case ST_RENEW:
    case ST_OP_RENEW:
        GIVE(renewals);
    case ST_RELEASE:
    case ST_LEAVE:
        GIVE(releases);
    case ST_WRITE:
        GIVE(writes);
    case ST_CHECK:
        GIVE(checks);
    case ST_BREAK:
        GIVE(breaks);
    case ST_READ:
        GIVE(reads);
    case ST_GET: /* found needs a row */
        GIVE(absent);
    case ST_CREATE_NAMESPACE:
    case ST_SET_NAMESPACE:
        GIVE(namespaces);
    case ST_OP_BEGIN:
        GIVE(begins);
    case ST_OP_RECORD:
    case ST_OP_EXECUTE:
        GIVE(once);
    case ST_OP_SENDING:
    case ST_OP_FINISH:
    case ST_OP_DECIDE:
    case ST_OP_COMPENSATE:
        GIVE(changes);
    case ST_OP_GET:
    case ST_OP_ATTEMPTS:
        GIVE(tells);
    case ST_SET_OP_POLICY:
        GIVE(policies);
    case ST_REGISTER_ACTION:
    case ST_REMOVE_ACTION:
        GIVE(actions);
    default:
        GIVE(lists);
    }
#undef GIVE
}

static void end_item(struct fake *f, struct input *in)
{
    static const enum st_outcome always[] = {ST_BUSY,       ST_NO_SUCH_NAMESPACE, ST_OUTCOME_LOST, ST_DATABASE_DOWN,
                                             ST_QUEUE_FULL, ST_TIMED_OUT,         ST_FAILED};
    const enum st_outcome *list;
    size_t which = next(in) % f->n_items;
    uint8_t how = next(in), bits = next(in);
    struct st_item *item = f->items[which];
    size_t n = outcomes_of(item->kind, &list);
    if (item->kind == ST_ACQUIRE || item->kind == ST_ACQUIRE_ALL)
        end_acquire(item, bits);
    else
        end_operation(item, bits);
    memcpy(item->sqlstate, "XX000", sizeof(item->sqlstate));
    fake_done(f, which, how & 0x80 ? always[how % (sizeof(always) / sizeof(always[0]))] : list[how % n]);
}

/* ---- all together ---- */

static void happen(struct fake *f, enum event event, struct input *in)
{
    bool room = count_open(f) < OPEN_MAX && f->n_items < ITEMS_MAX;
    if (event == CALL && room)
        call(f, in);
    else if (event == ACQUIRE && room)
        acquire(f, in);
    else if (event == CANCEL && room)
        cancel(f, in);
    else if (event == DONE && f->n_items)
        end_item(f, in);
    else if (event == PASS)
        fake_advance(f, next(in) * STEP_MS);
    else if (event == GO && f->n_calls)
        go(f, next(in));
    else if (event == TURN)
        fake_turn(f, "default", resource_of(next(in)));
    else if (event == DRAIN)
        svc_drain(f->svc);
    else if (event == BEGIN && room)
        begin(f, in);
    else if (event == WAIT && room)
        wait_for(f, in);
    else if (event == WATCH && room)
        watch(f, in);
    else if (event == TRAIL)
        trail(f, in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    void *state;
    MUST(fake_setup(&state) == 0);
    begun = 0;
    for (int i = 0; i < EVENTS_MAX && in.at < in.end; i++) {
        uint8_t event = next(&in);
        happen(state, (enum event)(event % EVENTS), &in);
    }
    MUST(fake_teardown(&state) == 0);
    return 0;
}
