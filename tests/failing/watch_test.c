/*
 * watch_test.c - everything fails once in turn, for a stream of LeaseService.Watch: from its opening until it was told of a grant,
 * a takeover and a release. Whatever fails, the stream goes on, or it ends with a status that says what to do, and going on with
 * its last token tells what was missing: all of it, each once. Nothing leaks.
 */
#include "failing/points.h"
#include "failing/rooms.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/arena.h"
#include "proto/c/call.h"

enum { SOON_MS = 15000, WATCH_S = 60, POINTS_MAX = 2000, TOLD = 4, EACH_PLACE = 2 };

#define KIND(name) HOLDFAST__V1__WATCH_LEASES_RESPONSE__KIND__##name

static struct {
    struct hp_call call; /* first */
    bool open, marked;
    struct hp_status status;
    char token[64], resource[64];
    uint8_t request[256];
    int n, kinds[TOLD + 1];
} stream;

static const char *running; /* what is told if the test fails */

/* ------------------------------------------------------------------------------------------------ the transport */

static bool on_send(struct hp_call *call, const ProtobufCMessage *message)
{
    const Holdfast__V1__WatchLeasesResponse *response = (const Holdfast__V1__WatchLeasesResponse *)message;
    fp_leave();
    assert_ptr_equal(call, &stream.call);
    snprintf(stream.token, sizeof(stream.token), "%s", response->resume_token);
    if (response->kind == KIND(WATCHING)) {
        stream.marked = true;
    } else {
        assert_string_equal(response->lease->resource, stream.resource);
        if (stream.n == TOLD)
            fail_msg("%s: told too much", fp_where());
        stream.kinds[stream.n++] = (int)response->kind;
    }
    fp_enter();
    return true;
}

static void on_answer(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response)
{
    assert_null(response);
    assert_true(stream.open);
    stream.open = false;
    stream.status = status ? *status : (struct hp_status){0};
    hp_arena_free(call->arena);
    call->arena = NULL;
}

static void watch(void)
{
    Holdfast__V1__WatchLeasesRequest request = HOLDFAST__V1__WATCH_LEASES_REQUEST__INIT;
    request.namespace_ = (char *)(uintptr_t) "default";
    request.prefix = stream.resource;
    request.resume_token = stream.token;
    size_t len = holdfast__v1__watch_leases_request__pack(&request, stream.request);
    fp_enter();
    struct hp_arena *arena = hp_arena_new(1 << 16);
    fp_leave();
    stream.marked = false;
    if (!arena)
        return;
    stream.call = (struct hp_call){.arena = arena,
                                   .method = "/holdfast.v1.LeaseService/Watch",
                                   .payload = stream.request,
                                   .payload_len = len,
                                   .deadline_ms = INT64_MAX,
                                   .answer = on_answer,
                                   .send = on_send};
    stream.open = true;
    rooms_dispatch(&stream.call);
}

/* ------------------------------------------------------------------------------------------------ one point */

static bool marked_or_ended(void *arg)
{
    (void)arg;
    return stream.marked || !stream.open;
}

static bool told_or_ended(void *arg)
{
    (void)arg;
    return stream.n == TOLD || !stream.open;
}

/* It ended, for a reason that tells its caller what to do. */
static void must_have_ended_well(void)
{
    enum hp_code code = stream.status.code;
    if (code != HP_RESOURCE_EXHAUSTED && code != HP_UNAVAILABLE && code != HP_OUT_OF_RANGE && code != HP_INTERNAL)
        fail_msg("%s: ended with %s: %s", fp_where(), hp_code_name(code), stream.status.message);
}

static void watch_until_marked(void)
{
    for (int tries = 0; !stream.marked; tries++) {
        assert_true(tries < 3);
        watch();
        rooms_run_until(marked_or_ended, NULL, SOON_MS);
        if (!stream.marked && stream.call.answer)
            must_have_ended_well();
    }
}

static void acquire(const char *holder)
{
    assert_string_equal(
        t_sql(rooms_sql,
              "SELECT outcome FROM holdfast.acquire_batch('{default}', '{%s}', '{task}', '{%s}', '{60000}', '{%s}', "
              "'{NULL}', 'another', NULL, NULL, NULL, NULL, NULL)",
              stream.resource, holder, holder),
        "1");
}

/* A grant, a takeover (two messages), a release. */
static void act(void)
{
    acquire("first");
    t_sql(rooms_sql, "UPDATE holdfast.lease SET deadline = now() - interval '1 s' WHERE resource = '%s'", stream.resource);
    acquire("second");
    t_sql(rooms_sql, "SELECT holdfast.release_batch('{default}', '{%s}', '{2}', NULL)", stream.resource);
}

static void must_be_whole(void)
{
    static const int wanted[TOLD] = {KIND(GRANTED), KIND(EXPIRED), KIND(GRANTED), KIND(RELEASED)};
    while (stream.n < TOLD) {
        rooms_run_until(told_or_ended, NULL, SOON_MS);
        if (stream.n == TOLD)
            break;
        must_have_ended_well();
        watch(); /* with the last token */
    }
    for (int i = 0; i < TOLD; i++) {
        if (stream.kinds[i] != wanted[i])
            fail_msg("%s: message %d is of kind %d", fp_where(), i, stream.kinds[i]);
    }
}

/* The number of the point that failed, at least `from`; 0: there was none. */
static long one(enum fp_kind kind, long from)
{
    const struct fp_plan plan = {.kind = kind, .from = from, .each_place = EACH_PLACE, .what = "watch"};
    memset(&stream, 0, sizeof(stream));
    snprintf(stream.resource, sizeof(stream.resource), "%d-%ld", (int)kind, from);
    fp_watch(WATCH_S);
    fp_arm(&plan);
    watch_until_marked();
    act();
    must_be_whole();
    if (stream.open)
        rooms_gone(&stream.call);
    long failed_at = fp_disarm();
    rooms_run_until_quiet(SOON_MS);
    return failed_at;
}

static void run(enum fp_kind kind)
{
    size_t live = fp_live();
    long at = 0, points = 0;
    running = fp_kind_name(kind);
    fp_forget();
    assert_true(rooms_open());
    rooms_run_until_quiet(SOON_MS);
    while ((at = one(kind, at + 1)))
        assert_true(++points < POINTS_MAX);
    rooms_close();
    fp_watch(0);
    if (fp_live() != live) {
        fp_print_live();
        fail_msg("leaks: %s", fp_where());
    }
    printf("watch, %s: %ld points failed\n", fp_kind_name(kind), points);
    assert_true(points > (kind == FP_LIBPQ_MEMORY ? 0 : 10));
    running = NULL;
}

static int tell(void **state)
{
    (void)state;
    if (running)
        fprintf(stderr, "failed at: %s\n", fp_where());
    return 0;
}

static void memory(void **state)
{
    (void)state;
    run(FP_MEMORY);
}

static void libpq(void **state)
{
    (void)state;
    run(FP_LIBPQ);
}

static void libpq_memory(void **state)
{
    (void)state;
    run(FP_LIBPQ_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(memory, tell),
        cmocka_unit_test_teardown(libpq, tell),
        cmocka_unit_test_teardown(libpq_memory, tell),
    };
    return cmocka_run_group_tests(tests, rooms_setup, rooms_teardown);
}
