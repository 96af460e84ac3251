/*
 * client_endpoints_test.c - two servers of one database, of which one dies, stops or falls silent at a time: leases live on, under
 * the same token, and (but for a hiccup of a busy machine) far from their deadline.
 */
#include "harness/harness.h"

#include <holdfast/holdfast.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "integration/clients.h"
#include "robustness/proxy.h"

static const struct px_rule lose_answers = {.direction = PX_REPLY, .action = PX_DROP};

enum { TTL = 2000, ROUNDS = 3 };

static atomic_int told;

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    print_message("lost: %s\n", reason);
    atomic_fetch_add(&told, 1);
}

struct pair {
    struct t_server *servers[2];
    hf_client *client;
    hf_lease *lease;
    int64_t token;
};

static hf_client *client_of(const char *servers)
{
    const hf_client_options options = {.servers = servers, .timeout_ms = 20000, .on_loss = on_loss};

    return cl_new(&options);
}

/* Two servers and a client that holds a lease; `first` instead of the first server's URL, or NULL. */
static struct pair begin(const char *(*way_to)(struct t_server *server))
{
    char *dsn = t_database();
    struct pair pair = {.servers = {t_server_start("--dsn", dsn, NULL), t_server_start("--dsn", dsn, NULL)}};

    atomic_store(&told, 0);
    pair.client = client_of(t_printf("%s,%s", way_to ? way_to(pair.servers[0]) : pair.servers[0]->url, pair.servers[1]->url));
    pair.lease = cl_acquire(pair.client, "r", TTL);
    pair.token = hf_lease_token(pair.lease);
    return pair;
}

static void end(struct pair *pair)
{
    hf_error error;

    assert_true(hf_lease_valid(pair->lease));
    assert_int_equal(hf_lease_token(pair->lease), pair->token);
    assert_int_equal(hf_write(pair->lease, NULL, "end", 3, NULL, &error), HF_OK); /* the servers think so too */
    assert_int_equal(hf_release(pair->lease, &error), HF_OK);
    hf_lease_free(pair->lease);
    hf_client_free(pair->client);
    assert_int_equal(atomic_load(&told), 0);
}

/* The least that was left of the lease in that time. */
static int64_t least_left(const struct pair *pair, int ms)
{
    const int64_t until = t_now_ms() + ms;
    int64_t least = INT64_MAX;

    while (t_now_ms() < until) {
        const int64_t left = hf_lease_remaining_ms(pair->lease);
        least = left < least ? left : least;
        t_sleep_ms(5);
    }
    return least;
}

/* The lease lived through each of these; one of them may have been a matter of the machine. */
static void were_far_from_it(const char *what, const int64_t *least, int n)
{
    int near = 0;

    for (int i = 0; i < n; i++) {
        print_message("%s: at least %lld of %d ms were left\n", what, (long long)least[i], (int)TTL);
        assert_true(least[i] > 0);
        near += least[i] <= TTL / 4;
    }
    assert_true(near <= 1);
}

static int64_t write_takes(const struct pair *pair, const char *what)
{
    const int64_t start = t_now_ms();
    hf_error error;

    if (hf_write(pair->lease, NULL, what, strlen(what), NULL, &error) != HF_OK)
        fail_msg("%s: %s %s", what, error.reason, error.message);
    return t_now_ms() - start;
}

static void servers_killed_in_turn(void **state)
{
    struct pair pair = begin(NULL);
    int64_t least[ROUNDS];

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct t_server *server = pair.servers[round % 2];
        t_server_kill(server, SIGKILL);
        least[round] = least_left(&pair, TTL);
        t_server_restart(server);
    }
    were_far_from_it("killed", least, ROUNDS);
    end(&pair);
}

static void servers_stopped_in_turn(void **state)
{
    struct pair pair = begin(NULL);
    int64_t least[ROUNDS];

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct t_server *server = pair.servers[round % 2];
        t_server_kill(server, SIGSTOP);
        least[round] = least_left(&pair, TTL * 3 / 2);
        t_server_kill(server, SIGCONT);
    }
    were_far_from_it("stopped", least, ROUNDS);
    end(&pair);
}

static struct px *px;

static const char *through_the_proxy(struct t_server *server)
{
    px = px_start(server->url, 1);
    return px_url(px);
}

static void a_silent_network_in_between(void **state)
{
    struct pair pair = begin(through_the_proxy);
    int64_t least;

    (void)state;
    px_dark(px, true);
    least = least_left(&pair, TTL * 2);
    were_far_from_it("silent", &least, 1);
    assert_true(write_takes(&pair, "quickly, since the silent one is known as bad") < T_AT_ONCE_MS);
    px_dark(px, false);
    px_add(px, &lose_answers);
    t_server_kill(pair.servers[1], SIGKILL);
    t_sleep_ms(200);
    px_heal(px);
    px_cut(px);
    least = least_left(&pair, TTL);
    assert_true(least > 0);
    end(&pair);
    px_stop(px);
}

static void a_write_finds_the_server_that_lives(void **state)
{
    struct pair pair = begin(NULL);
    int64_t ms;

    (void)state;
    write_takes(&pair, "connected");
    t_server_kill(pair.servers[0], SIGSTOP);
    ms = write_takes(&pair, "stopped");
    print_message("a write at a stopped server took %lld ms\n", (long long)ms);
    assert_true(ms < T_AT_ONCE_MS);
    assert_true(write_takes(&pair, "the next one") < T_AT_ONCE_MS);
    t_server_kill(pair.servers[0], SIGCONT);
    t_server_kill(pair.servers[1], SIGKILL);
    assert_true(write_takes(&pair, "killed") < T_AT_ONCE_MS);
    end(&pair);
}

/* Its kernel takes the connection, but nobody greets. */
static void a_client_begins_beside_a_stopped_server(void **state)
{
    char *dsn = t_database();
    struct t_server *stopped = t_server_start("--dsn", dsn, NULL), *good = t_server_start("--dsn", dsn, NULL);
    struct pair pair = {.servers = {stopped, good}};
    int64_t start, least;

    (void)state;
    atomic_store(&told, 0);
    t_server_kill(stopped, SIGSTOP);
    start = t_now_ms();
    pair.client = client_of(t_printf("%s,%s,tcp://127.0.0.1:%d", stopped->url, good->url, t_free_port()));
    pair.lease = cl_acquire(pair.client, "r", TTL);
    pair.token = hf_lease_token(pair.lease);
    assert_true(t_now_ms() - start < T_AT_ONCE_MS);
    least = least_left(&pair, TTL * 3 / 2);
    were_far_from_it("stopped from the start", &least, 1);
    t_server_kill(stopped, SIGCONT);
    end(&pair);
}

/* A hundred leases, so that renewals are large; and the servers drain in turn, as in an upgrade. */
static void servers_that_drain_lose_nothing(void **state)
{
    struct pair pair = begin(NULL);
    hf_lease *leases[100];
    int64_t least[ROUNDS];

    (void)state;
    for (int i = 0; i < 100; i++)
        leases[i] = cl_acquire(pair.client, t_printf("many/%d", i), TTL);
    for (int round = 0; round < ROUNDS; round++) {
        assert_int_equal(t_server_stop(pair.servers[round % 2]), 0);
        least[round] = least_left(&pair, TTL);
        t_server_restart(pair.servers[round % 2]);
    }
    were_far_from_it("drained", least, ROUNDS);
    for (int i = 0; i < 100; i++) {
        assert_true(hf_lease_valid(leases[i]));
        assert_int_equal(hf_lease_token(leases[i]), 1);
        hf_lease_free(leases[i]);
    }
    end(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(servers_killed_in_turn, t_teardown),
        cmocka_unit_test_teardown(servers_stopped_in_turn, t_teardown),
        cmocka_unit_test_teardown(a_silent_network_in_between, t_teardown),
        cmocka_unit_test_teardown(a_write_finds_the_server_that_lives, t_teardown),
        cmocka_unit_test_teardown(a_client_begins_beside_a_stopped_server, t_teardown),
        cmocka_unit_test_teardown(servers_that_drain_lose_nothing, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
