/*
 * sp_test.c - the listener with a real client: the loop runs in a thread of its own with a service of a few methods that
 * answer at once, later, hugely, or only when told to.
 */
#include "harness/harness.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "harness/rpc.h"
#include "net/loop.h"
#include "net/sp.h"
#include "proto/c/envelope.h"
#include "proto/c/wire.h"

enum { MAX_HELD = 64 };

struct server {
    struct loop *loop;
    struct io *io;
    struct net_sp *sp;
    pthread_t thread;
    struct hp_call *held[MAX_HELD]; /* the loop's thread */
    int n_held;
    struct io_timer idle_poll;
    char error[256];
};

/* ---- a service, on the loop's thread ---- */

/* The payload (or the text) back, with what was seen of the call. */
static void answer_echo(struct hp_call *call, int64_t received_ms)
{
    Holdfast__V1__Call response = HOLDFAST__V1__CALL__INIT;
    Holdfast__V1__Call__MetadataEntry entry = HOLDFAST__V1__CALL__METADATA_ENTRY__INIT, *entries = &entry;
    response.payload.data = (uint8_t *)(uintptr_t)call->payload;
    response.payload.len = call->payload_len;
    response.timeout_ms = call->deadline_ms - received_ms;
    if (call->n_metadata) {
        entry.key = (char *)(uintptr_t)call->metadata[0];
        entry.value = (char *)(uintptr_t)call->metadata[1];
        response.n_metadata = 1;
        response.metadata = &entries;
    }
    call->answer(call, NULL, &response.base);
}

struct later {
    struct io_timer timer;
    struct hp_call *call;
};

static void on_later(struct io_timer *timer)
{
    struct later *later = list_entry(timer, struct later, timer);
    answer_echo(later->call, later->call->received_ms); /* `later` is in the call's arena and gone now */
}

static void answer_bytes(struct hp_call *call, size_t n)
{
    Holdfast__V1__Call response = HOLDFAST__V1__CALL__INIT;
    response.payload.data = calloc(1, n);
    response.payload.len = n;
    call->answer(call, NULL, &response.base);
    free(response.payload.data);
}

static void release_held(struct server *s)
{
    for (int i = 0; i < s->n_held; i++)
        answer_echo(s->held[i], s->held[i]->received_ms);
    s->n_held = 0;
}

static void on_call(void *arg, struct hp_call *call)
{
    struct server *s = arg;
    struct hp_status status;
    assert_true(call->peer->local && !call->peer->encrypted && !call->peer->certificate);
    assert_string_equal(call->peer->transport, "nng");
    assert_true(!strcmp(call->peer->address, "ipc") || !strncmp(call->peer->address, "127.0.0.1:", 10));
    if (!strcmp(call->method, "/echo")) {
        answer_echo(call, call->received_ms);
    } else if (!strcmp(call->method, "/later")) {
        struct later *later = hp_alloc(call->arena, sizeof(*later));
        later->timer.fire = on_later;
        later->call = call;
        s->io->timer_set(s->io, &later->timer, s->io->now_ms(s->io) + 5);
    } else if (!strcmp(call->method, "/hold")) {
        s->held[s->n_held++] = call;
    } else if (!strcmp(call->method, "/release")) {
        release_held(s);
        answer_echo(call, call->received_ms);
    } else if (!strcmp(call->method, "/held")) {
        answer_bytes(call, (size_t)s->n_held);
    } else if (!strcmp(call->method, "/bytes")) {
        answer_bytes(call, strtoul(call->payload, NULL, 10));
    } else if (!strcmp(call->method, "/take")) { /* answers, and frees the arena itself */
        struct hp_arena *arena = call->arena;
        call->arena = NULL;
        answer_echo(call, call->received_ms);
        hp_arena_free(arena);
    } else {
        hp_status_set(&status, HP_R_NO_SUCH_METHOD, NULL);
        call->answer(call, &status, NULL);
    }
}

static void *run(void *arg)
{
    struct server *s = arg;
    loop_run(s->loop);
    return NULL;
}

static struct server *start(const char *url, const struct net_sp_config *cfg)
{
    struct server *s = calloc(1, sizeof(*s));
    s->loop = loop_new();
    s->io = loop_io(s->loop);
    s->sp = net_sp_listen(s->io, url, cfg, on_call, s, s->error, sizeof(s->error));
    if (!s->sp)
        fail_msg("%s", s->error);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    return s;
}

static void stop(struct server *s)
{
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    net_sp_free(s->sp);
    release_held(s); /* calls outlive the listener; their replies go nowhere */
    loop_free(s->loop);
    free(s);
}

/* The listener's figures, which are the loop's. */
static void look(struct server *s, struct net_sp_stats *stats)
{
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    net_sp_stats(s->sp, stats);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

/* ---- its client ---- */

static Holdfast__V1__Call *echo(struct t_rpc *rpc, const char *method, const char *text, struct hp_status *status)
{
    return t_rpc_call_bytes(rpc, method, text, strlen(text), 0, &holdfast__v1__call__descriptor, status);
}

static void assert_echoes(struct t_rpc *rpc)
{
    Holdfast__V1__Call *call = echo(rpc, "/echo", "hello", NULL);
    assert_int_equal(call->payload.len, 5);
    assert_memory_equal(call->payload.data, "hello", 5);
}

static int n_held(struct t_rpc *rpc)
{
    return (int)echo(rpc, "/held", "", NULL)->payload.len;
}

struct wait_held {
    struct t_rpc *rpc;
    int n;
};

static bool holds(void *arg)
{
    struct wait_held *w = arg;
    return n_held(w->rpc) == w->n;
}

static void wait_held(struct t_rpc *rpc, int n)
{
    struct wait_held w = {rpc, n};
    assert_true(t_wait_for(holds, &w, 10000));
}

/* A call of `method` on its way. */
static void send_call(struct t_rpc *rpc, const char *method)
{
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    size_t len;
    call.method = (char *)(uintptr_t)method;
    envelope.n_calls = 1;
    envelope.calls = &calls;
    const uint8_t *bytes = t_rpc_pack(rpc, &envelope, &len);
    t_rpc_send(rpc, bytes, len);
}

/* An envelope of n calls, methods in turn, the payload of each its number. */
static Holdfast__V1__ReplyEnvelope *many(struct t_rpc *rpc, const char *const *methods, size_t n_methods, size_t n)
{
    Holdfast__V1__Call *calls = calloc(n, sizeof(*calls)), **pointers = calloc(n, sizeof(*pointers));
    char(*numbers)[8] = calloc(n, sizeof(*numbers));
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = (char *)(uintptr_t)methods[i % n_methods];
        calls[i].payload.len = (size_t)snprintf(numbers[i], sizeof(numbers[i]), "%zu", i);
        calls[i].payload.data = (uint8_t *)numbers[i];
        pointers[i] = &calls[i];
    }
    envelope.n_calls = n;
    envelope.calls = pointers;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    free(calls);
    free(pointers);
    free(numbers);
    return replies;
}

/* ---- tests ---- */

static void replies_come_in_call_order(void **state)
{
    (void)state;
    static const char *const methods[] = {"/later", "/echo", "/nothing", "/take"};
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    Holdfast__V1__ReplyEnvelope *replies = many(rpc, methods, 4, 1000);
    assert_int_equal(replies->n_replies, 1000);
    for (size_t i = 0; i < 1000; i++) {
        struct hp_status status;
        hp_reply_status(replies->replies[i], &status);
        assert_int_equal(status.reason, i % 4 == 2 ? HP_R_NO_SUCH_METHOD : 0);
        if (i % 4 == 2)
            continue;
        Holdfast__V1__Call *echoed =
            holdfast__v1__call__unpack(NULL, replies->replies[i]->payload.len, replies->replies[i]->payload.data);
        assert_non_null(echoed);
        char number[8];
        int len = snprintf(number, sizeof(number), "%zu", i);
        assert_int_equal(echoed->payload.len, len);
        assert_memory_equal(echoed->payload.data, number, (size_t)len);
        holdfast__v1__call__free_unpacked(echoed, NULL);
    }
    t_rpc_close(rpc);
    stop(s);
}

static void ipc_works_too(void **state)
{
    (void)state;
    char *url = t_printf("ipc://%s/s", t_tmpdir());
    struct server *s = start(url, NULL);
    assert_string_equal(net_sp_url(s->sp), url);
    struct t_rpc *rpc = t_rpc_open(url);
    assert_echoes(rpc);
    t_rpc_close(rpc);
    stop(s);
}

static void assert_one_refusal(struct t_rpc *rpc, const void *bytes, size_t len, enum hp_reason reason, const char *what)
{
    size_t reply_len;
    struct hp_status status;
    const uint8_t *reply = t_rpc_bytes(rpc, bytes, len, 10000, &reply_len);
    if (!reply)
        fail_msg("%s: no reply", what);
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_replies(rpc, reply, reply_len);
    assert_int_equal(replies->n_replies, 1);
    hp_reply_status(replies->replies[0], &status);
    if (status.code != HP_INVALID_ARGUMENT || status.reason != reason)
        fail_msg("%s: %s/%s: %s", what, hp_code_name(status.code), hp_reason_name(status.reason), status.message);
    assert_echoes(rpc);
}

static void undecodable_envelopes_get_one_refusal(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls[1001];
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    size_t len;
    call.method = (char *)(uintptr_t) "/echo";
    for (size_t i = 0; i < 1001; i++)
        calls[i] = &call;
    envelope.n_calls = 1;
    envelope.calls = calls;
    const uint8_t *bytes = t_rpc_pack(rpc, &envelope, &len);
    assert_one_refusal(rpc, bytes, len / 2, HP_R_MALFORMED, "half an envelope");
    assert_one_refusal(rpc, "", 0, HP_R_LIMIT, "no calls");
    assert_one_refusal(rpc, "\xff\xff\xff\xff\xff", 5, HP_R_MALFORMED, "rubbish");
    envelope.n_calls = 1001;
    bytes = t_rpc_pack(rpc, &envelope, &len);
    assert_one_refusal(rpc, bytes, len, HP_R_LIMIT, "1,001 calls");
    t_rpc_close(rpc);
    stop(s);
}

static void limits_of_one_call_are_its_own(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    Holdfast__V1__Call big = HOLDFAST__V1__CALL__INIT, small = big, negative = big, talkative = big;
    Holdfast__V1__Call *calls[] = {&big, &small, &negative, &talkative};
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call__MetadataEntry entry = HOLDFAST__V1__CALL__METADATA_ENTRY__INIT, *entries[17];
    for (size_t i = 0; i < 17; i++)
        entries[i] = &entry;
    big.method = small.method = negative.method = talkative.method = (char *)(uintptr_t) "/echo";
    big.payload.len = 5 << 20;
    big.payload.data = calloc(1, big.payload.len);
    negative.timeout_ms = -1;
    talkative.n_metadata = 17;
    talkative.metadata = entries;
    envelope.n_calls = 4;
    envelope.calls = calls;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    static const char *const fields[] = {"payload", "", "timeout_ms", "metadata"};
    assert_int_equal(replies->n_replies, 4);
    for (size_t i = 0; i < 4; i++) {
        struct hp_status status;
        hp_reply_status(replies->replies[i], &status);
        assert_int_equal(status.reason, i == 1 ? 0 : HP_R_LIMIT);
        assert_int_equal(status.code, i == 1 ? HP_OK : HP_INVALID_ARGUMENT);
        assert_string_equal(status.field, fields[i]);
    }
    free(big.payload.data);
    assert_echoes(rpc);
    t_rpc_close(rpc);
    stop(s);
}

static void a_message_beyond_the_limit_ends_the_connection_only(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    size_t len = 1 << 20;
    char *bytes = calloc(1, len);
    int at_limit = t_raw_open(net_sp_url(s->sp));
    t_raw_send(at_limit, HP_ENVELOPE_MAX, bytes, len); /* it waits for the rest */
    for (int i = 0; i < 20; i++) {
        int fd = t_raw_open(net_sp_url(s->sp));
        t_raw_send(fd, HP_ENVELOPE_MAX + 1, bytes, i % 2 ? len : 0);
        assert_true(t_raw_closed(fd, 10000));
        close(fd);
        assert_echoes(rpc);
    }
    assert_false(t_raw_closed(at_limit, 50));
    close(at_limit);
    free(bytes);
    t_rpc_close(rpc);
    stop(s);
}

/* Connections that end anyhow: before the greeting is read, within a message, with a call in flight. */
static void connections_that_break_off(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    static const char hold[] = "\x0a\x07\x0a\x05/hold", later[] = "\x0a\x08\x0a\x06/later";
    for (int i = 0; i < 60; i++) {
        int fd = t_raw_open(net_sp_url(s->sp));
        if (i % 3 == 0)
            t_raw_send(fd, 1000, later, 5);
        else if (i % 3 == 1)
            t_raw_send(fd, sizeof(hold) - 1, hold, sizeof(hold) - 1);
        else
            t_raw_send(fd, sizeof(later) - 1, later, sizeof(later) - 1);
        if (i % 3 == 1)
            wait_held(rpc, i / 3 + 1);
        close(fd);
    }
    echo(rpc, "/release", "", NULL); /* calls finish also when their callers are gone; the replies go nowhere */
    assert_int_equal(n_held(rpc), 0);
    for (int i = 0; i < 3; i++)
        echo(rpc, "/later", "", NULL); /* after those that were begun before */
    t_rpc_close(rpc);
    struct net_sp_stats stats;
    look(s, &stats);
    for (int64_t until = t_now_ms() + 10000; stats.connections && t_now_ms() < until; t_sleep_ms(5))
        look(s, &stats);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.in_flight, 0);
    stop(s);
}

static void timeouts_and_metadata_arrive(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    static const int64_t asked[] = {0, 250, 7200000, INT64_MAX}, got[] = {30000, 250, 3600000, 3600000};
    for (size_t i = 0; i < 4; i++) {
        Holdfast__V1__Call *call = t_rpc_call_bytes(rpc, "/echo", "", 0, asked[i], &holdfast__v1__call__descriptor, NULL);
        assert_int_equal(call->timeout_ms, got[i]);
    }
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    Holdfast__V1__Call__MetadataEntry entry = HOLDFAST__V1__CALL__METADATA_ENTRY__INIT, *entries = &entry;
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    entry.key = (char *)(uintptr_t) "name";
    entry.value = (char *)(uintptr_t) "value";
    call.method = (char *)(uintptr_t) "/echo";
    call.n_metadata = 1;
    call.metadata = &entries;
    envelope.n_calls = 1;
    envelope.calls = &calls;
    Holdfast__V1__ReplyEnvelope *replies = t_rpc_envelope(rpc, &envelope);
    Holdfast__V1__Call *echoed =
        holdfast__v1__call__unpack(NULL, replies->replies[0]->payload.len, replies->replies[0]->payload.data);
    assert_int_equal(echoed->n_metadata, 1);
    assert_string_equal(echoed->metadata[0]->key, "name");
    assert_string_equal(echoed->metadata[0]->value, "value");
    holdfast__v1__call__free_unpacked(echoed, NULL);
    t_rpc_close(rpc);
    stop(s);
}

static void answers_that_do_not_fit_become_errors(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.reply_max = 100000};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp));
    struct hp_status status;
    assert_int_equal(echo(rpc, "/bytes", "90000", NULL)->payload.len, 90000);
    assert_null(echo(rpc, "/bytes", "110000", &status));
    assert_int_equal(status.code, HP_UNKNOWN); /* it was carried out */
    assert_int_equal(status.reason, HP_R_OUTCOME_LOST);
    assert_echoes(rpc);
    t_rpc_close(rpc);
    stop(s);
}

static bool does_not_get_through(void *rpc)
{
    size_t len;
    send_call(rpc, "/echo");
    return t_rpc_receive(rpc, 200, &len) == NULL;
}

static void beyond_the_bound_nothing_more_is_read(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.max_envelopes = 4};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp)), *waiting[4];
    for (int i = 0; i < 4; i++)
        waiting[i] = t_rpc_open(net_sp_url(s->sp));
    for (int i = 0; i < 3; i++)
        send_call(waiting[i], "/hold");
    wait_held(rpc, 3); /* one is left, by which /held was asked */
    send_call(waiting[3], "/hold");
    /* Now there is none: a message isn't looked at until one is answered. */
    assert_true(t_wait_for(does_not_get_through, rpc, 10000));
    stop(s);
    t_rpc_close(rpc);
    for (int i = 0; i < 4; i++)
        t_rpc_close(waiting[i]);
}

static void held_calls_of_one_caller_do_not_block_another(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp)), *waiting[32];
    size_t len;
    for (int i = 0; i < 32; i++) {
        waiting[i] = t_rpc_open(net_sp_url(s->sp));
        send_call(waiting[i], "/hold");
    }
    wait_held(rpc, 32);
    assert_echoes(rpc);
    echo(rpc, "/release", "", NULL);
    for (int i = 0; i < 32; i++) {
        assert_non_null(t_rpc_receive(waiting[i], 10000, &len));
        t_rpc_close(waiting[i]);
    }
    t_rpc_close(rpc);
    stop(s);
}

static void *hammer(void *url)
{
    static const char *const methods[] = {"/echo", "/later", "/take"};
    struct t_rpc *rpc = t_rpc_open(url);
    for (size_t i = 0; i < 100; i++)
        if (many(rpc, methods, 3, 1 + i % 20)->n_replies != 1 + i % 20)
            abort();
    t_rpc_close(rpc);
    return NULL;
}

static void many_callers_at_once(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct net_sp_stats stats;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)(uintptr_t)net_sp_url(s->sp)), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    look(s, &stats);
    assert_int_equal(stats.envelopes, 800);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.dropped_replies, 0);
    stop(s);
}

/* Stopped in the middle of it, again and again: nothing leaks and nothing is touched afterwards (for the sanitizers). */
static void closing_under_load(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct server *s = start("tcp://127.0.0.1:0", NULL);
        struct t_rpc *rpc[8];
        for (int i = 0; i < 8; i++) {
            rpc[i] = t_rpc_open(net_sp_url(s->sp));
            send_call(rpc[i], i % 2 ? "/hold" : "/echo");
        }
        stop(s);
        for (int i = 0; i < 8; i++)
            t_rpc_close(rpc[i]);
    }
}

static void on_idle_poll(struct io_timer *timer)
{
    struct server *s = list_entry(timer, struct server, idle_poll);
    if (net_sp_idle(s->sp))
        loop_stop(s->loop);
    else
        s->io->timer_set(s->io, timer, s->io->now_ms(s->io) + 5);
}

static void *receive(void *rpc)
{
    size_t len;
    return (void *)(uintptr_t)t_rpc_receive(rpc, 10000, &len);
}

static void idle_once_the_replies_have_left(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    struct t_rpc *rpc = t_rpc_open(net_sp_url(s->sp)), *other = t_rpc_open(net_sp_url(s->sp));
    pthread_t thread;
    void *reply;
    send_call(rpc, "/hold");
    wait_held(other, 1);
    assert_int_equal(pthread_create(&thread, NULL, receive, rpc), 0);
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    assert_false(net_sp_idle(s->sp));
    release_held(s);
    s->idle_poll.fire = on_idle_poll;
    s->io->timer_set(s->io, &s->idle_poll, 0);
    assert_int_equal(loop_run(s->loop), 0);
    net_sp_free(s->sp);
    s->sp = NULL;
    pthread_join(thread, &reply);
    assert_non_null(reply); /* it had left before the listener was freed */
    loop_free(s->loop);
    free(s);
    t_rpc_close(rpc);
    t_rpc_close(other);
}

static void assert_refused(const char *url, const char *why)
{
    struct loop *loop = loop_new();
    char error[256] = "";
    assert_null(net_sp_listen(loop_io(loop), url, NULL, on_call, NULL, error, sizeof(error)));
    if (!strstr(error, url) || !strstr(error, why))
        fail_msg("\"%s\" for %s, wanted: %s", error, url, why);
    loop_free(loop);
}

/* A connection that says nothing. */
static int connect_silently(const char *url)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static bool is_served(void *url)
{
    int fd = connect_silently(url);
    static const char hello[] = "\0SP\0\0\x30\0", echo_call[] = "\0\0\0\0\0\0\0\x0d\x80\0\0\1\x0a\x07\x0a\x05/echo";
    char reply;
    bool served =
        send(fd, hello, 8, MSG_NOSIGNAL) == 8 && send(fd, echo_call, sizeof(echo_call) - 1, MSG_NOSIGNAL) == sizeof(echo_call) - 1;
    for (int i = 0; i < 9 && served; i++) /* the greeting, and something of the reply */
        served = recv(fd, &reply, 1, 0) == 1;
    close(fd);
    return served;
}

static void connections_are_bounded(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.max_connections = 2};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    void *url = (void *)(uintptr_t)net_sp_url(s->sp);
    struct t_rpc *a = t_rpc_open(url), *b = t_rpc_open(url);
    assert_echoes(a);
    assert_echoes(b);
    int fd = connect_silently(url);
    assert_true(t_raw_closed(fd, 10000));
    close(fd);
    assert_echoes(a);
    t_rpc_close(a);
    assert_true(t_wait_for(is_served, url, 20000));
    t_rpc_close(b);
    stop(s);
}

static void who_says_nothing_makes_room(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.max_connections = 4};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    void *url = (void *)(uintptr_t)net_sp_url(s->sp);
    struct t_rpc *a = t_rpc_open(url);
    assert_echoes(a);
    int silent[100];
    for (int i = 0; i < 100; i++)
        silent[i] = connect_silently(url);
    assert_true(is_served(url));
    assert_echoes(a);
    assert_true(t_raw_closed(silent[0], 10000)); /* the oldest first */
    for (int i = 0; i < 100; i++)
        close(silent[i]);
    t_rpc_close(a);
    stop(s);
}

static void who_greets_late_or_wrongly_is_closed(void **state)
{
    (void)state;
    static const char *const wrong[] = {"\0SP\0\0\x31\0", "\0SP\1\0\x30\0", "GET / HT", "\0SP\0\0\x30\0\1"};
    struct net_sp_config cfg = {.greeting_ms = 1};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    int silent = connect_silently(net_sp_url(s->sp)), half = connect_silently(net_sp_url(s->sp));
    assert_int_equal(send(half, "\0SP", 3, 0), 3);
    assert_true(t_raw_closed(silent, 10000));
    assert_true(t_raw_closed(half, 10000));
    close(silent);
    close(half);
    stop(s);
    s = start("tcp://127.0.0.1:0", NULL);
    for (int i = 0; i < 4; i++) {
        int fd = connect_silently(net_sp_url(s->sp));
        assert_int_equal(send(fd, wrong[i], 8, 0), 8);
        assert_true(t_raw_closed(fd, 5000));
        close(fd);
    }
    assert_true(is_served((void *)(uintptr_t)net_sp_url(s->sp)));
    stop(s);
}

static void bodies_that_are_no_requests_end_the_connection(void **state)
{
    (void)state;
    static const char empty[] = "\0\0\0\0\0\0\0\0", no_id[] = "\0\0\0\0\0\0\0\4\0\0\0\1",
                      huge[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
    static const struct {
        const char *bytes;
        size_t len;
    } bodies[] = {{empty, 8}, {no_id, 12}, {huge, 8}};
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    for (size_t i = 0; i < 3; i++) {
        int fd = t_raw_open(net_sp_url(s->sp));
        assert_int_equal(send(fd, bodies[i].bytes, bodies[i].len, 0), (ssize_t)bodies[i].len);
        assert_true(t_raw_closed(fd, 5000));
        close(fd);
    }
    assert_true(is_served((void *)(uintptr_t)net_sp_url(s->sp)));
    stop(s);
}

/* Byte by byte, with the words of two devices on the way, which come back. */
static void requests_arrive_in_pieces(void **state)
{
    (void)state;
    static const char call[] = "\0\0\0\0\0\0\0\x15\0\0\0\7\0\0\0\x9\x80\0\0\5\x0a\x07\x0a\x05/echo";
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    int fd = t_raw_open(net_sp_url(s->sp));
    char reply[20];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof(call) - 1; i++) {
            assert_int_equal(send(fd, call + i, 1, 0), 1);
            if (i % 5 == 0)
                t_sleep_ms(1);
        }
        assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
        assert_memory_equal(reply + 8, call + 8, 12);
        char rest[256];
        size_t left = (size_t)(unsigned char)reply[7] - 12;
        assert_int_equal(recv(fd, rest, left, MSG_WAITALL), (ssize_t)left);
    }
    close(fd);
    stop(s);
}

/* Requests of megabytes side by side, within less room than they need together: all are answered. */
static void big_requests_take_turns(void **state)
{
    (void)state;
    enum { CLIENTS = 8, SIZE = 3 << 20 };
    struct net_sp_config cfg = {.max_bytes = 5 << 20};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    int fds[CLIENTS];
    char *bytes = calloc(1, SIZE); /* no envelope: refused, once it is all there */
    bytes[0] = (char)0xff;
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = t_raw_open(net_sp_url(s->sp));
        int size = 16 << 20;
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    }
    pid_t pid = fork(); /* who sends them: each blocks until it is read */
    if (pid == 0) {
        for (size_t part = 0; part < SIZE; part += 64 << 10)
            for (int i = 0; i < CLIENTS; i++) {
                char head[12] = {0};
                size_t length = SIZE + 4;
                for (int j = 0; j < 8; j++)
                    head[j] = (char)(length >> (56 - 8 * j));
                head[8] = (char)0x80;
                if (!part && send(fds[i], head, 12, MSG_NOSIGNAL) != 12)
                    _exit(1);
                if (send(fds[i], bytes + part, 64 << 10, MSG_NOSIGNAL) != 64 << 10)
                    _exit(2);
            }
        _exit(0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        uint32_t id;
        size_t len;
        uint8_t *reply = t_raw_reply(fds[i], 20000, &id, &len);
        assert_non_null(reply);
        free(reply);
        close(fds[i]);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(bytes);
    stop(s);
}

/* While nothing is read for want of room, a caller who goes is noticed all the same, and makes room. */
static void who_goes_unread_is_noticed(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.max_envelopes = 1};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    static const char hold[] = "\x0a\x07\x0a\x05/hold";
    int first = t_raw_open(net_sp_url(s->sp)), second = t_raw_open(net_sp_url(s->sp));
    struct net_sp_stats stats = {0};
    t_raw_send(first, sizeof(hold) - 1, hold, sizeof(hold) - 1);
    for (int64_t until = t_now_ms() + 10000; stats.in_flight != 1 && t_now_ms() < until; t_sleep_ms(5))
        look(s, &stats);
    t_raw_send(second, sizeof(hold) - 1, hold, sizeof(hold) - 1);
    close(second);
    for (int64_t until = t_now_ms() + 10000; stats.connections != 1 && t_now_ms() < until; t_sleep_ms(5))
        look(s, &stats);
    assert_int_equal(stats.connections, 1);
    assert_int_equal(stats.in_flight, 1);
    close(first);
    stop(s);
}

static void a_client_that_stops_amid_a_request_is_closed(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.stall_ms = 1};
    struct server *s = start("tcp://127.0.0.1:0", &cfg);
    int fd = t_raw_open(net_sp_url(s->sp)), idle = t_raw_open(net_sp_url(s->sp));
    t_raw_send(fd, 100, "x", 1);
    assert_true(t_raw_closed(fd, 10000));
    assert_false(t_raw_closed(idle, 10));
    close(fd);
    close(idle);
    stop(s);
}

/* A socket left behind by a process that was killed is taken over; one that somebody listens on is not. */
static void ipc_sockets_left_behind_are_replaced(void **state)
{
    (void)state;
    char *url = t_printf("ipc://%s/s", t_tmpdir());
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", url + 6);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    struct server *s = start(url, NULL);
    assert_refused(url, "ddress already in use");
    struct t_rpc *rpc = t_rpc_open(url);
    assert_echoes(rpc);
    t_rpc_close(rpc);
    stop(s);
    assert_int_equal(access(address.sun_path, F_OK), -1);
}

static void urls_that_cannot_be(void **state)
{
    (void)state;
    struct server *s = start("tcp://127.0.0.1:0", NULL);
    assert_null(strstr(net_sp_url(s->sp), ":0"));
    assert_refused(net_sp_url(s->sp), "ddress already in use");
    assert_refused("ws://127.0.0.1:0/x", "tcp:// or ipc://");
    assert_refused("tls+tcp://127.0.0.1:0", "tcp:// or ipc://");
    assert_refused("inproc://x", "tcp:// or ipc://");
    assert_refused("nonsense", "tcp:// or ipc://");
    assert_refused("tcp://nohost.invalid:1", "ddress");
    assert_refused("tcp://127.0.0.1", "HOST:PORT");
    assert_refused("tcp://127.0.0.1:65536", "HOST:PORT");
    assert_refused("ipc://", "107 bytes");
    assert_refused("ipc:///no/such/folder/socket", ":");
    stop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_come_in_call_order),
        cmocka_unit_test(ipc_works_too),
        cmocka_unit_test(undecodable_envelopes_get_one_refusal),
        cmocka_unit_test(limits_of_one_call_are_its_own),
        cmocka_unit_test(a_message_beyond_the_limit_ends_the_connection_only),
        cmocka_unit_test(connections_that_break_off),
        cmocka_unit_test(timeouts_and_metadata_arrive),
        cmocka_unit_test(answers_that_do_not_fit_become_errors),
        cmocka_unit_test(held_calls_of_one_caller_do_not_block_another),
        cmocka_unit_test(many_callers_at_once),
        cmocka_unit_test(idle_once_the_replies_have_left),
        cmocka_unit_test(connections_are_bounded),
        cmocka_unit_test(who_says_nothing_makes_room),
        cmocka_unit_test(who_greets_late_or_wrongly_is_closed),
        cmocka_unit_test(bodies_that_are_no_requests_end_the_connection),
        cmocka_unit_test(requests_arrive_in_pieces),
        cmocka_unit_test(big_requests_take_turns),
        cmocka_unit_test(who_goes_unread_is_noticed),
        cmocka_unit_test(a_client_that_stops_amid_a_request_is_closed),
        cmocka_unit_test(ipc_sockets_left_behind_are_replaced),
        cmocka_unit_test(urls_that_cannot_be),
        /* These close sockets with requests in flight, after which nng 1.5 may close no more in this process. */
        cmocka_unit_test(beyond_the_bound_nothing_more_is_read),
        cmocka_unit_test(closing_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
