/*
 * rooms.c - see rooms.h.
 */
#include "failing/rooms.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "failing/points.h"
#include "holdfast/v1/rpc.pb-c.h"
#include "net/envelope.h"
#include "net/loop.h"
#include "proto/c/envelope.h"
#include "service/service.h"
#include "store/migrate.h"
#include "store/store.h"

/*
 * Short limits for sessions that say nothing: without memory for the answer to a Sync libpq 15 drops it and waits for another one
 * for ever (fe-protocol3.c, pqParseInput3), and nobody can tell but by the time that passes.
 */
enum { REPLY_MAX = 16 << 20, DEFAULT_WAIT_MS = 30000, STALL_MS = 500, SETUP_MS = 1000 };

PGconn *rooms_sql;
const char *rooms_dsn;

static struct loop *loop;
static struct io *io;
static struct st_store *store;
static struct svc *svc;
static struct net_envelopes envelopes;
static struct net_source source;

/* ------------------------------------------------------------------------------------------------ the loop */

static struct {
    bool (*cond)(void *arg);
    void *arg;
    int64_t give_up_ms;
    bool met;
    struct io_timer timer;
} until;

static void on_until(struct io_timer *timer)
{
    fp_leave();
    until.met = until.cond(until.arg);
    fp_enter();
    if (until.met || t_now_ms() >= until.give_up_ms)
        loop_stop(loop);
    else
        io->timer_set(io, timer, io->now_ms(io) + 2);
}

void rooms_run_until(bool (*cond)(void *arg), void *arg, int ms)
{
    until.cond = cond;
    until.arg = arg;
    until.give_up_ms = t_now_ms() + ms;
    until.timer = (struct io_timer){.fire = on_until};
    io->timer_set(io, &until.timer, io->now_ms(io));
    fp_enter();
    int rc = loop_run(loop);
    fp_leave();
    assert_int_equal(rc, 0);
    if (!until.met)
        fail_msg("hangs: %s", fp_where());
}

static bool is_quiet(void *arg)
{
    struct st_stats stats;
    (void)arg;
    st_stats(store, &stats);
    return stats.connections_ready == stats.connections_wanted && stats.listening && st_idle(store) && svc_in_flight(svc) == 0;
}

void rooms_run_until_quiet(int ms)
{
    rooms_run_until(is_quiet, NULL, ms);
    assert_int_equal(envelopes.in_flight, 0);
}

/* The pauses before another attempt to connect take no time (the linker's --wrap, of base/random.h's). */
int64_t no_jitter_ms(struct hb_random *random, int64_t base_ms, int64_t cap_ms, unsigned attempts) __asm__("__wrap_hb_jitter_ms");

int64_t no_jitter_ms(struct hb_random *random, int64_t base_ms, int64_t cap_ms, unsigned attempts)
{
    (void)random;
    (void)base_ms;
    (void)cap_ms;
    (void)attempts;
    return 0;
}

/* ------------------------------------------------------------------------------------------------ calls */

struct taking {
    struct io_task task;
    struct rooms_call *call;
};

static struct taking takings[4];

static void take(struct io_task *task)
{
    struct taking *taking = list_entry(task, struct taking, task);
    struct rooms_call *call = taking->call;
    net_envelopes_take(&envelopes, &source, call, call->request, call->request_len, io->now_ms(io));
    taking->call = NULL;
}

void rooms_send(struct rooms_call *call, const char *method, const void *request)
{
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call message = HOLDFAST__V1__CALL__INIT, *pointer = &message;
    unsigned char payload[ROOMS_REQUEST_MAX];
    assert_true(protobuf_c_message_get_packed_size(request) < ROOMS_REQUEST_MAX - 256);
    message.method = (char *)(uintptr_t)method;
    message.payload.len = protobuf_c_message_pack(request, payload);
    message.payload.data = payload;
    envelope.n_calls = 1;
    envelope.calls = &pointer;
    call->request_len = holdfast__v1__call_envelope__pack(&envelope, call->request);
    call->replied = call->dropped = false;
    for (size_t i = 0; i < sizeof(takings) / sizeof(takings[0]); i++) {
        if (takings[i].call)
            continue;
        takings[i] = (struct taking){.task = {.run = take}, .call = call};
        io->post(io, &takings[i].task);
        return;
    }
    fail_msg("too many calls at once");
}

bool rooms_is_over(void *call)
{
    const struct rooms_call *it = call;
    return it->replied || it->dropped;
}

static bool on_send(struct net_envelopes *of, void *from, size_t size, void (*write)(void *arg, void *body), void *arg)
{
    struct rooms_call *call = from;
    (void)of;
    assert_true(size <= sizeof(call->reply) && !rooms_is_over(call));
    write(arg, call->reply);
    call->reply_len = size;
    call->replied = true;
    return true;
}

static void on_drop(struct net_envelopes *of, void *from)
{
    struct rooms_call *call = from;
    (void)of;
    assert_false(rooms_is_over(call));
    call->dropped = true;
}

static void on_call(void *arg, struct hp_call *call)
{
    (void)arg;
    svc_dispatch(svc, call);
}

void rooms_dispatch(struct hp_call *call)
{
    call->received_ms = io->now_ms(io);
    fp_enter();
    svc_dispatch(svc, call);
    fp_leave();
}

void rooms_gone(struct hp_call *call)
{
    fp_enter();
    call->gone(call);
    fp_leave();
}

void rooms_answer(const struct rooms_call *call, const ProtobufCMessageDescriptor *response, struct rooms_answer *out)
{
    *out = (struct rooms_answer){.dropped = call->dropped};
    if (call->dropped)
        return;
    assert_true(call->replied);
    Holdfast__V1__ReplyEnvelope *envelope = holdfast__v1__reply_envelope__unpack(NULL, call->reply_len, call->reply);
    assert_true(envelope && envelope->n_replies == 1);
    hp_reply_status(envelope->replies[0], &out->status);
    if (out->status.code == HP_OK) {
        out->response =
            protobuf_c_message_unpack(response, NULL, envelope->replies[0]->payload.len, envelope->replies[0]->payload.data);
        assert_non_null(out->response);
    }
    holdfast__v1__reply_envelope__free_unpacked(envelope, NULL);
}

void rooms_answer_free(struct rooms_answer *answer)
{
    if (answer->response)
        protobuf_c_message_free_unpacked(answer->response, NULL);
    answer->response = NULL;
}

/* ------------------------------------------------------------------------------------------------ life */

bool rooms_open(void)
{
    struct st_config cfg = {.dsn = rooms_dsn, .connections = 1, .stall_ms = STALL_MS, .setup_ms = SETUP_MS};
    net_envelopes_init(&envelopes, io, REPLY_MAX, DEFAULT_WAIT_MS);
    envelopes.on_call = on_call;
    envelopes.send = on_send;
    envelopes.drop = on_drop;
    net_source_init(&source, -1);
    fp_enter();
    store = st_open(&cfg, io, NULL, NULL);
    svc = store ? svc_new(store, io, NULL) : NULL;
    if (!svc) {
        st_close(store);
        store = NULL;
    }
    fp_leave();
    return svc != NULL;
}

void rooms_close(void)
{
    if (!store)
        return;
    fp_enter();
    st_close(store);
    svc_free(svc);
    fp_leave();
    store = NULL;
    svc = NULL;
    assert_int_equal(envelopes.in_flight, 0);
    assert_true(list_empty(&envelopes.list) && envelopes.bytes == 0);
}

static bool at_once(void *arg)
{
    (void)arg;
    return true;
}

int rooms_setup(void **state)
{
    struct st_problem problem = {""};
    (void)state;
    log_setup(getenv("HOLDFAST_TEST_LOG") ? LOG_AT_DEBUG : LOG_AT_NONE, LOG_AS_LOGFMT, NULL, NULL);
    fp_catch_libpq_memory();
    loop = loop_new();
    assert_non_null(loop);
    io = loop_io(loop);
    rooms_run_until(at_once, NULL, 1000); /* its timers have their memory */
    rooms_dsn = t_database();
    if (st_migrate(rooms_dsn, NULL, NULL, &problem) != ST_MIGRATE_OK)
        fail_msg("%s", problem.text);
    rooms_sql = t_connect(rooms_dsn);
    return 0;
}

int rooms_teardown(void **state)
{
    rooms_close();
    PQfinish(rooms_sql);
    loop_free(loop);
    return t_teardown(state);
}
