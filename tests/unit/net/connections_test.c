/*
 * connections_test.c - connections that end, that are answered thousands of replies at once, or that don't read: what their calls
 * learn of it, and what becomes of the replies. The loop runs in a thread of its own; clients speak below nng (harness/rpc.h).
 */
#include "harness/harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "harness/rpc.h"
#include "net/loop.h"
#include "net/sp.h"
#include "proto/c/envelope.h"

struct server {
    struct loop *loop;
    struct io *io;
    struct net_sp *sp;
    pthread_t thread;
    pthread_mutex_t lock; /* for the counts, which the test reads */
    int n_held, n_gone, n_calls;
    struct list held; /* of struct held; the loop's thread */
};

struct held {
    struct list_node node;
    struct server *server;
    struct hp_call *call;
    bool stays; /* isn't answered when its caller goes */
};

static void count(struct server *s, int *which, int by)
{
    pthread_mutex_lock(&s->lock);
    *which += by;
    pthread_mutex_unlock(&s->lock);
}

static int counted(struct server *s, const int *which)
{
    pthread_mutex_lock(&s->lock);
    int n = *which;
    pthread_mutex_unlock(&s->lock);
    return n;
}

static void answer_bytes(struct hp_call *call, size_t n)
{
    Holdfast__V1__Call response = HOLDFAST__V1__CALL__INIT;
    response.payload.data = calloc(1, n + 1);
    response.payload.len = n;
    call->answer(call, NULL, &response.base);
    free(response.payload.data);
}

static void on_gone(struct hp_call *call)
{
    struct held *held = call->service;
    struct server *s = held->server;
    count(s, &s->n_gone, 1);
    if (held->stays)
        return;
    list_remove(&s->held, &held->node);
    count(s, &s->n_held, -1);
    answer_bytes(call, 0);
}

static void hold(struct server *s, struct hp_call *call, bool stays)
{
    struct held *held = hp_alloc(call->arena, sizeof(*held));
    *held = (struct held){.server = s, .call = call, .stays = stays};
    call->gone = on_gone;
    call->service = held;
    list_push_back(&s->held, &held->node);
    count(s, &s->n_held, 1);
}

static void release_all(struct server *s, size_t bytes)
{
    struct list_node *node;
    while ((node = list_pop_front(&s->held))) {
        count(s, &s->n_held, -1);
        answer_bytes(list_entry(node, struct held, node)->call, bytes);
    }
}

static void on_call(void *arg, struct hp_call *call)
{
    struct server *s = arg;
    char number[24] = "0";
    count(s, &s->n_calls, 1);
    if (call->payload_len)
        memcpy(number, call->payload, call->payload_len);
    if (!strcmp(call->method, "/hold")) {
        hold(s, call, false);
    } else if (!strcmp(call->method, "/stay")) {
        hold(s, call, true);
    } else {
        if (!strcmp(call->method, "/release"))
            release_all(s, strtoul(number, NULL, 10));
        answer_bytes(call, !strcmp(call->method, "/bytes") ? strtoul(number, NULL, 10) : 0);
    }
}

static void *run(void *arg)
{
    loop_run(((struct server *)arg)->loop);
    return NULL;
}

static struct server *start(const struct net_sp_config *cfg)
{
    struct server *s = calloc(1, sizeof(*s));
    char error[256];
    pthread_mutex_init(&s->lock, NULL);
    list_init(&s->held);
    s->loop = loop_new();
    s->io = loop_io(s->loop);
    s->sp = net_sp_listen(s->io, "tcp://127.0.0.1:0", cfg, on_call, s, error, sizeof(error));
    if (!s->sp)
        fail_msg("%s", error);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    return s;
}

static void stop(struct server *s)
{
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    net_sp_free(s->sp);
    release_all(s, 0);
    loop_free(s->loop);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void request(int fd, uint32_t id, const char *method, const char *payload)
{
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls = &call;
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    uint8_t bytes[256];
    call.method = (char *)(uintptr_t)method;
    call.payload.data = (uint8_t *)(uintptr_t)payload;
    call.payload.len = strlen(payload);
    envelope.n_calls = 1;
    envelope.calls = &calls;
    assert_true(holdfast__v1__call_envelope__get_packed_size(&envelope) <= sizeof(bytes));
    t_raw_request(fd, id, bytes, holdfast__v1__call_envelope__pack(&envelope, bytes));
}

struct wanted {
    struct server *server;
    const int *count;
    int n;
};

static bool reached(void *arg)
{
    struct wanted *w = arg;
    return counted(w->server, w->count) == w->n;
}

static void wait_until(struct server *s, const int *which, int n, int ms)
{
    struct wanted w = {s, which, n};
    if (!t_wait_for(reached, &w, ms))
        fail_msg("%d after %d ms, wanted %d", counted(s, which), ms, n);
}

/* Exactly the replies to 1..n, in any order. */
static void read_replies(int fd, uint32_t n)
{
    bool *seen = calloc(n + 1, sizeof(*seen));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id;
        size_t len;
        uint8_t *bytes = t_raw_reply(fd, 10000, &id, &len);
        if (!bytes)
            fail_msg("only %u of %u replies came", i, n);
        assert_true(id >= 1 && id <= n && !seen[id]);
        seen[id] = true;
        free(bytes);
    }
    free(seen);
}

static void assert_no_reply_dropped(struct server *s)
{
    struct net_sp_stats stats;
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    net_sp_stats(s->sp, &stats);
    assert_int_equal(stats.dropped_replies, 0);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

static void replies_that_end_at_once(uint32_t n, const char *bytes, bool read_late)
{
    struct server *s = start(NULL);
    int fd = t_raw_open(net_sp_url(s->sp)), other = t_raw_open(net_sp_url(s->sp));
    for (uint32_t i = 1; i <= n; i++)
        request(fd, i, "/hold", "");
    wait_until(s, &s->n_held, (int)n, 20000);
    request(other, 1, "/release", bytes);
    if (read_late) { /* the other's reply isn't held up by ours, which fill the connection */
        read_replies(other, 1);
        wait_until(s, &s->n_held, 0, 5000);
    }
    int64_t before = t_now_ms();
    read_replies(fd, n);
    print_message("[     INFO ] %u replies of %s bytes in %lld ms\n", n, bytes, (long long)(t_now_ms() - before));
    assert_no_reply_dropped(s);
    close(fd);
    close(other);
    stop(s);
}

static void thousands_of_replies_at_once_all_arrive(void **state)
{
    (void)state;
    replies_that_end_at_once(5000, "100", false);
}

static void replies_that_are_read_late_all_arrive(void **state)
{
    (void)state;
    replies_that_end_at_once(2000, "10000", true); /* 20 MB: more than the buffers of both ends take */
}

static void calls_learn_that_their_connection_has_ended(void **state)
{
    (void)state;
    struct server *s = start(NULL);
    int fd = t_raw_open(net_sp_url(s->sp)), other = t_raw_open(net_sp_url(s->sp));
    for (uint32_t i = 1; i <= 100; i++)
        request(fd, i, i % 10 ? "/hold" : "/stay", "");
    request(other, 1, "/hold", "");
    wait_until(s, &s->n_held, 101, 5000);
    close(fd);
    wait_until(s, &s->n_gone, 100, 1000);
    assert_int_equal(counted(s, &s->n_held), 11); /* those that stay, and the other's */
    request(other, 2, "/release", "");
    read_replies(other, 2);
    wait_until(s, &s->n_held, 0, 1000);
    assert_no_reply_dropped(s);
    close(other);
    stop(s);
}

/* Whatever the client sends before it goes is done, and nothing of it is kept. */
static void connections_that_come_and_go(void **state)
{
    (void)state;
    struct server *s = start(NULL);
    for (int i = 0; i < 200; i++) {
        int fd = t_raw_open(net_sp_url(s->sp));
        request(fd, 1, "/hold", "");
        request(fd, 2, "/bytes", "1000");
        close(fd);
    }
    int other = t_raw_open(net_sp_url(s->sp));
    request(other, 1, "/bytes", "10");
    read_replies(other, 1);
    struct wanted none = {s, &s->n_held, 0};
    assert_true(t_wait_for(reached, &none, 5000)); /* each one that arrived was told */
    assert_no_reply_dropped(s);
    close(other);
    stop(s);
}

static void a_client_that_reads_nothing_is_disconnected(void **state)
{
    (void)state;
    struct net_sp_config cfg = {.stall_ms = 500, .max_bytes = 64 << 20};
    struct server *s = start(&cfg);
    int fd = t_raw_open(net_sp_url(s->sp)), other = t_raw_open(net_sp_url(s->sp));
    request(fd, 1000, "/hold", ""); /* by which it is seen that the connection has ended */
    for (uint32_t i = 1; i <= 200; i++)
        request(fd, i, "/bytes", "1000000"); /* more than the buffers take, and more than the listener takes */
    int64_t start_ms = t_now_ms();
    request(other, 1, "/bytes", "10"); /* is read when there is room again */
    read_replies(other, 1);
    print_message("[     INFO ] the other waited %lld ms\n", (long long)(t_now_ms() - start_ms));
    wait_until(s, &s->n_gone, 1, 5000);
    assert_true(t_raw_closed(fd, 5000));
    close(fd);
    close(other);
    stop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_replies_at_once_all_arrive),     cmocka_unit_test(replies_that_are_read_late_all_arrive),
        cmocka_unit_test(calls_learn_that_their_connection_has_ended), cmocka_unit_test(connections_that_come_and_go),
        cmocka_unit_test(a_client_that_reads_nothing_is_disconnected),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
