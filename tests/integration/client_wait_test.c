/*
 * client_wait_test.c - hf_acquire waiting in a server's queue: order, hand-over, cancelling, and what happens to a wait when its
 * server dies, stops, drains, or its answers are lost.
 */
#include "harness/served.h"

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/call.h"
#include "integration/clients.h"
#include "robustness/proxy.h"

static const struct px_rule lose_answers = {.direction = PX_REPLY, .action = PX_DROP};

static hf_client *client_of(const char *servers)
{
    const hf_client_options options = {.servers = servers, .timeout_ms = 20000};

    return cl_new(&options);
}

static void give_back(hf_lease *lease)
{
    hf_error error;

    if (hf_release(lease, &error) != HF_OK)
        fail_msg("release: %s %s", error.reason, error.message);
    hf_lease_free(lease);
}

struct waiter {
    hf_client *client;
    const char *resource;
    int64_t wait_ms, ttl_ms;
    char id[32];
    pthread_t thread;
    atomic_bool done;
    hf_result result;
    hf_error error;
    hf_held held;
    hf_lease *lease;
    int64_t began_ms, ended_ms;
};

static void *wait_main(void *arg)
{
    struct waiter *w = arg;
    const hf_acquire_options options = {
        .resource = w->resource, .ttl_ms = w->ttl_ms ? w->ttl_ms : 10000, .wait_ms = w->wait_ms, .request_id = w->id};

    w->began_ms = t_now_ms();
    w->result = hf_acquire(w->client, &options, &w->lease, &w->held, &w->error);
    w->ended_ms = t_now_ms();
    atomic_store(&w->done, true);
    return NULL;
}

static void start(struct waiter *w, hf_client *client, const char *resource, const char *id, int64_t wait_ms)
{
    *w = (struct waiter){.client = client, .resource = resource, .wait_ms = wait_ms, .ttl_ms = w->ttl_ms};
    snprintf(w->id, sizeof(w->id), "%s", id);
    assert_int_equal(pthread_create(&w->thread, NULL, wait_main, w), 0);
}

static bool is_done(void *arg)
{
    return atomic_load(&((struct waiter *)arg)->done);
}

static void ends(struct waiter *w, hf_result expected, int ms)
{
    if (!t_wait_for(is_done, w, ms))
        fail_msg("%s still waits", w->id);
    pthread_join(w->thread, NULL);
    if (w->result != expected)
        fail_msg("%s: %s %s %s", w->id, hf_result_name(w->result), w->error.reason, w->error.message);
}

struct queue {
    hf_client *client;
    const char *resource;
    int64_t wanted;
};

static int64_t waiters(hf_client *client, const char *resource)
{
    const hf_acquire_options options = {.resource = resource};
    hf_lease *lease = NULL;
    hf_held held;

    assert_int_equal(hf_acquire(client, &options, &lease, &held, NULL), HF_HELD);
    return held.waiters;
}

static bool has_waiters(void *arg)
{
    const struct queue *queue = arg;

    return waiters(queue->client, queue->resource) == queue->wanted;
}

/* So many wait at the server that this client asks. */
static void queue_is(hf_client *client, const char *resource, int64_t wanted)
{
    struct queue queue = {client, resource, wanted};

    if (!t_wait_for(has_waiters, &queue, T_PATIENCE_MS))
        fail_msg("%lld wait for %s instead of %lld", (long long)waiters(client, resource), resource, (long long)wanted);
}

/* What the client believes is no more than what the database says. */
static void does_not_overstate(hf_client *client, hf_lease *lease)
{
    hf_page *page = NULL;
    const int64_t believed = hf_lease_deadline_ms(lease);
    hf_error error;

    if (hf_get_lease(client, hf_lease_resource(lease, 0), &page, &error) != HF_OK)
        fail_msg("%s", error.message);
    assert_int_equal(page->leases[0].token, hf_lease_token(lease));
    assert_true(believed <= hfi_boot_ms() + page->leases[0].remaining_ms);
    hf_page_free(page);
}

/* ---- one server ---- */

static hf_client *client;

static int setup(void **state)
{
    serve(state);
    client = client_of(server->url);
    return 0;
}

static int teardown(void **state)
{
    hf_client_free(client);
    return end_serving(state);
}

static void a_release_hands_over_in_order(void **state)
{
    struct waiter w[5] = {0};
    hf_lease *lease = cl_acquire(client, "order", 120000);
    int64_t soonest = INT64_MAX;

    (void)state;
    for (int i = 0; i < 5; i++) {
        start(&w[i], client, "order", t_printf("order-%d", i), 60000);
        queue_is(client, "order", i + 1);
    }
    for (int i = 0; i < 5; i++) {
        const int64_t released = t_now_ms();
        give_back(lease);
        ends(&w[i], HF_OK, T_PATIENCE_MS);
        soonest = w[i].ended_ms - released < soonest ? w[i].ended_ms - released : soonest;
        lease = w[i].lease;
        assert_int_equal(hf_lease_token(lease), 2 + i);
        assert_true(hf_lease_remaining_ms(lease) > 9000); /* the wait took nothing off it */
        does_not_overstate(client, lease);
        for (int j = i + 1; j < 5; j++)
            assert_false(is_done(&w[j]));
    }
    assert_true(soonest < 500); /* it is told, and does not ask */
    give_back(lease);
}

static void a_wait_that_is_over_says_by_whom(void **state)
{
    struct waiter w = {0};
    hf_lease *lease = cl_acquire(client, "over", 30000);

    (void)state;
    start(&w, client, "over", "over-1", 700);
    ends(&w, HF_HELD, T_PATIENCE_MS);
    assert_in_range(w.ended_ms - w.began_ms, 700, 700 + T_AT_ONCE_MS);
    assert_string_equal(w.held.holder, hf_client_holder(client));
    assert_int_equal(w.held.token, 1);
    assert_string_equal(w.error.reason, "HELD");
    give_back(lease);
}

static void an_expired_lease_is_handed_over_soon(void **state)
{
    struct waiter w = {0};
    hf_client *other = client_of(server->url);
    const int64_t began = t_now_ms();

    (void)state;
    (void)cl_acquire(other, "expired", 1500);
    hf_client_free(other); /* as if it had died */
    start(&w, client, "expired", "expired-1", 30000);
    ends(&w, HF_OK, T_PATIENCE_MS);
    assert_in_range(w.ended_ms - began, 1400, 1500 + T_AT_ONCE_MS);
    does_not_overstate(client, w.lease);
    give_back(w.lease);
}

static void a_cancelled_wait_leaves_the_queue(void **state)
{
    struct waiter first = {0}, second = {0};
    hf_lease *lease = cl_acquire(client, "cancel", 30000);

    (void)state;
    start(&first, client, "cancel", "cancel-1", 60000);
    queue_is(client, "cancel", 1);
    start(&second, client, "cancel", "cancel-2", 60000);
    queue_is(client, "cancel", 2);
    assert_int_equal(hf_acquire_cancel(client, "cancel-1", NULL), HF_OK);
    ends(&first, HF_HELD, T_PATIENCE_MS);
    assert_string_equal(first.error.reason, "CANCELLED");
    queue_is(client, "cancel", 1);
    give_back(lease);
    ends(&second, HF_OK, T_PATIENCE_MS);
    assert_int_equal(hf_lease_token(second.lease), 2);
    give_back(second.lease);
}

static void freeing_a_client_takes_its_waiters_along(void **state)
{
    struct waiter w[3] = {0};
    hf_client *other = client_of(server->url);
    hf_lease *lease = cl_acquire(client, "freed", 30000);
    int64_t began;

    (void)state;
    for (int i = 0; i < 3; i++)
        start(&w[i], other, "freed", t_printf("freed-%d", i), 60000);
    queue_is(client, "freed", 3);
    began = t_now_ms();
    hf_client_free(other);
    assert_true(t_now_ms() - began < T_AT_ONCE_MS);
    for (int i = 0; i < 3; i++)
        ends(&w[i], HF_HELD, T_PATIENCE_MS);
    queue_is(client, "freed", 0);
    give_back(lease);
}

/* The server is reminded of a waiter after ten seconds: it is still the one waiter, in its place. */
static void a_long_wait_stays_one_waiter_in_its_place(void **state)
{
    struct waiter first = {0}, second = {0};
    hf_lease *lease = cl_acquire(client, "long", 30000);

    (void)state;
    start(&first, client, "long", "long-1", 60000);
    queue_is(client, "long", 1);
    t_sleep_ms(5000);
    start(&second, client, "long", "long-2", 60000);
    queue_is(client, "long", 2);
    t_sleep_ms(6500);
    assert_int_equal(waiters(client, "long"), 2);
    give_back(lease);
    ends(&first, HF_OK, T_PATIENCE_MS);
    assert_false(is_done(&second));
    assert_true(hf_lease_remaining_ms(first.lease) > 9000);
    does_not_overstate(client, first.lease);
    give_back(first.lease);
    ends(&second, HF_OK, T_PATIENCE_MS);
    give_back(second.lease);
}

static void a_fork_leaves_a_wait_alone(void **state)
{
    struct waiter w = {0};
    hf_lease *lease = cl_acquire(client, "fork", 30000);

    (void)state;
    start(&w, client, "fork", "fork-1", 60000);
    queue_is(client, "fork", 1);
    for (int i = 0; i < 3; i++) {
        int status;
        const pid_t pid = fork();
        if (pid == 0) {
            hf_lease *other = NULL;
            const hf_acquire_options options = {.resource = "fork", .wait_ms = 1000};
            alarm(20);
            if (hf_acquire(client, &options, &other, NULL, NULL) != HF_MISUSE ||
                hf_acquire_cancel(client, "fork-1", NULL) != HF_MISUSE || hf_lease_valid(lease))
                _exit(1);
            hf_client_free(client);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    assert_false(is_done(&w));
    assert_true(hf_lease_valid(lease));
    queue_is(client, "fork", 1);
    give_back(lease);
    ends(&w, HF_OK, T_PATIENCE_MS);
    give_back(w.lease);
}

/* Each in a thread of its own, all through one client. */
static void a_hundred_waiters_are_all_served(void **state)
{
    enum { N = 100 };
    static struct waiter w[N];
    hf_lease *lease = cl_acquire(client, "herd", 30000);
    bool served[N + 2] = {false};

    (void)state;
    for (int i = 0; i < N; i++)
        start(&w[i], client, "herd", t_printf("herd-%d", i), 60000);
    queue_is(client, "herd", N);
    give_back(lease);
    for (int n = 0; n < N; n++) {
        int i = 0;
        const int64_t until = t_now_ms() + 20000;
        while (!(is_done(&w[i]) && w[i].lease) && t_now_ms() < until)
            i = (i + 1) % N;
        assert_true(is_done(&w[i]));
        ends(&w[i], HF_OK, 1);
        assert_in_range(hf_lease_token(w[i].lease), 2, N + 1);
        assert_false(served[hf_lease_token(w[i].lease)]);
        served[hf_lease_token(w[i].lease)] = true;
        give_back(w[i].lease);
        w[i].lease = NULL;
    }
}

static void a_lost_grant_is_asked_for_again(void **state)
{
    struct px *px = px_start(server->url, 1);
    hf_client *through = client_of(px_url(px));
    struct waiter w = {.ttl_ms = 4000};
    hf_lease *lease = cl_acquire(client, "lost", 30000);
    hf_value value;

    (void)state;
    assert_int_equal(hf_read(through, "lost", &value, NULL), HF_OK); /* connected */
    hf_value_release(&value);
    start(&w, through, "lost", "lost-1", 60000);
    queue_is(client, "lost", 1);
    const int lost = px_add(px, &lose_answers);
    give_back(lease);
    assert_true(px_wait(px, lost, 1, T_PATIENCE_MS));
    t_sleep_ms(1000); /* of its lease */
    px_heal(px);
    px_cut(px);
    ends(&w, HF_OK, T_PATIENCE_MS);
    assert_int_equal(hf_lease_token(w.lease), 2);
    assert_true(hf_lease_valid(w.lease));
    does_not_overstate(client, w.lease);
    give_back(w.lease);
    hf_client_free(through);
    px_stop(px);
}

/* ---- two servers ---- */

enum way { KILLED, STOPPED, DRAINED, WAYS };
static const char *const way_names[] = {"killed", "stopped", "drained"};

/* Two servers of one database, and a client of both that waits at the first. */
struct move {
    struct t_server *one, *two;
    hf_client *holder, *waiting;
    struct waiter w;
    hf_lease *lease;
};

static void begin_to_wait(struct move *m)
{
    char *dsn = t_database();

    *m = (struct move){.one = t_server_start("--dsn", dsn, NULL), .two = t_server_start("--dsn", dsn, NULL), .w = {.ttl_ms = 3000}};
    m->holder = client_of(m->two->url);
    m->waiting = client_of(t_printf("%s,%s", m->one->url, m->two->url));
    m->lease = cl_acquire(m->holder, "moved", 60000);
    start(&m->w, m->waiting, "moved", "moved-1", 120000);
}

static void first_server_goes(struct move *m, enum way way)
{
    const int64_t left = t_now_ms();

    assert_int_equal(waiters(m->holder, "moved"), 0); /* it waits at the first one */
    if (way == DRAINED)
        assert_int_equal(t_server_stop(m->one), 0);
    else
        t_server_kill(m->one, way == KILLED ? SIGKILL : SIGSTOP);
    queue_is(m->holder, "moved", 1);
    print_message("%s: waits at the other one after %lld ms\n", way_names[way], (long long)(t_now_ms() - left));
    assert_true(t_now_ms() - left < (way == STOPPED ? 15000 : T_AT_ONCE_MS));
}

static void is_handed_over(struct move *m)
{
    give_back(m->lease);
    ends(&m->w, HF_OK, T_PATIENCE_MS);
    assert_true(hf_lease_valid(m->w.lease));
    assert_int_equal(hf_lease_token(m->w.lease), 2);
    does_not_overstate(m->holder, m->w.lease);
}

static void a_wait_goes_on_at_the_other_server(void **state)
{
    struct move moves[WAYS];

    (void)state;
    for (enum way way = KILLED; way < WAYS; way++)
        begin_to_wait(&moves[way]);
    t_sleep_ms(500);
    for (enum way way = KILLED; way < WAYS; way++)
        first_server_goes(&moves[way], way);
    t_sleep_ms(4000); /* more than its TTL: counted from the first sending alone nothing would be left */
    for (enum way way = KILLED; way < WAYS; way++)
        is_handed_over(&moves[way]);
    t_server_kill(moves[STOPPED].one, SIGCONT);
    t_sleep_ms(1000); /* what the first server still does changes nothing */
    for (enum way way = KILLED; way < WAYS; way++) {
        assert_true(hf_lease_valid(moves[way].w.lease));
        give_back(moves[way].w.lease);
        hf_client_free(moves[way].waiting);
        hf_client_free(moves[way].holder);
    }
}

static void waiters_of_two_servers_are_all_served(void **state)
{
    enum { N = 20 };
    static struct waiter w[N];
    char *dsn = t_database();
    struct t_server *one = t_server_start("--dsn", dsn, NULL), *two = t_server_start("--dsn", dsn, NULL);
    hf_client *clients[2] = {client_of(one->url), client_of(two->url)};
    hf_lease *lease = cl_acquire(clients[0], "both", 30000);
    int64_t slowest = 0;

    (void)state;
    for (int i = 0; i < N; i++)
        start(&w[i], clients[i % 2], "both", t_printf("both-%d", i), 60000);
    queue_is(clients[0], "both", N / 2);
    queue_is(clients[1], "both", N / 2);
    for (int n = 0; n < N; n++) {
        const int64_t released = t_now_ms();
        int i = 0;
        give_back(lease);
        while (!(is_done(&w[i]) && w[i].lease) && t_now_ms() < released + 10000)
            i = (i + 1) % N;
        assert_true(is_done(&w[i]));
        ends(&w[i], HF_OK, 1);
        slowest = w[i].ended_ms - released > slowest ? w[i].ended_ms - released : slowest;
        lease = w[i].lease;
        w[i].lease = NULL;
        assert_int_equal(hf_lease_token(lease), n + 2);
    }
    print_message("the slowest hand-over took %lld ms\n", (long long)slowest);
    give_back(lease);
    hf_client_free(clients[0]);
    hf_client_free(clients[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_hands_over_in_order),
        cmocka_unit_test(a_wait_that_is_over_says_by_whom),
        cmocka_unit_test(an_expired_lease_is_handed_over_soon),
        cmocka_unit_test(a_cancelled_wait_leaves_the_queue),
        cmocka_unit_test(freeing_a_client_takes_its_waiters_along),
        cmocka_unit_test(a_long_wait_stays_one_waiter_in_its_place),
        cmocka_unit_test(a_fork_leaves_a_wait_alone),
        cmocka_unit_test(a_hundred_waiters_are_all_served),
        cmocka_unit_test(a_lost_grant_is_asked_for_again),
        cmocka_unit_test_teardown(a_wait_goes_on_at_the_other_server, t_teardown),
        cmocka_unit_test_teardown(waiters_of_two_servers_are_all_served, t_teardown),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
