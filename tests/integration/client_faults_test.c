/*
 * client_faults_test.c - the library when the server dies, cannot be reached, or its answers are lost.
 */
#include "harness/harness.h"

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/call.h"
#include "integration/clients.h"
#include "robustness/proxy.h"

static const struct px_rule lose_answers = {.direction = PX_REPLY, .action = PX_DROP};

static atomic_int told;
static const char *_Atomic told_reason;
static _Atomic int64_t told_at_ms;

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    atomic_store(&told_reason, reason);
    atomic_store(&told_at_ms, hfi_boot_ms());
    atomic_fetch_add(&told, 1);
}

static bool was_told(void *arg)
{
    (void)arg;
    return atomic_load(&told) > 0;
}

static int each(void **state)
{
    (void)state;
    atomic_store(&told, 0);
    return 0;
}

static hf_client *client_of(const char *servers, int64_t timeout_ms, int64_t connect_timeout_ms)
{
    const hf_client_options options = {
        .servers = servers, .timeout_ms = timeout_ms, .connect_timeout_ms = connect_timeout_ms, .on_loss = on_loss};

    return cl_new(&options);
}

static void no_server_is_said_in_time(void **state)
{
    const char *url = t_printf("tcp://127.0.0.1:%d", t_free_port());
    hf_client *client = client_of(url, 20000, 1000);
    const int64_t start = t_now_ms();
    hf_value value;
    hf_error error;

    (void)state;
    assert_int_equal(hf_read(client, "x", &value, &error), HF_UNAVAILABLE);
    assert_string_equal(error.reason, "UNREACHABLE");
    assert_non_null(strstr(error.message, url));
    assert_in_range(t_now_ms() - start, 900, 1000 + T_AT_ONCE_MS);
    hf_client_free(client);
}

static void a_server_that_comes_later_is_found(void **state)
{
    const char *url = t_printf("tcp://127.0.0.1:%d", t_free_port());
    hf_client *client = client_of(url, 60000, 60000);
    hf_value value;
    hf_error error;

    (void)state;
    (void)t_server_start("--dsn", t_database(), "--listen", url, NULL);
    assert_int_equal(hf_read(client, "x", &value, &error), HF_NOT_FOUND);
    hf_client_free(client);
}

static void the_second_of_two_servers_serves(void **state)
{
    char *dsn = t_database();
    struct t_server *one = t_server_start("--dsn", dsn, NULL), *two = t_server_start("--dsn", dsn, NULL);
    hf_client *client = client_of(t_printf("%s,%s", one->url, two->url), 20000, 5000);
    hf_lease *lease = cl_acquire(client, "failover", 3000);
    hf_error error;

    (void)state;
    t_server_kill(one, SIGKILL);
    assert_int_equal(hf_write(lease, NULL, "a", 1, NULL, &error), HF_OK);
    t_sleep_ms(6000);
    assert_true(hf_lease_valid(lease)); /* renewals found it as well */
    t_server_restart(one);
    t_server_kill(two, SIGKILL);
    assert_int_equal(hf_write(lease, NULL, "b", 1, NULL, &error), HF_OK);
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
    hf_client_free(client);
    assert_int_equal(atomic_load(&told), 0);
}

/* ---- a server killed amid work ---- */

enum { WRITERS = 6, KILLS = 3 };

static atomic_bool enough;

struct writer {
    hf_client *client;
    hf_lease *lease;
    int64_t accepted; /* writes that were acknowledged */
    int replayed;
    char trouble[400];
};

static void *write_on(void *arg)
{
    struct writer *writer = arg;
    char text[32];
    hf_error error;
    hf_write_result result;

    while (!atomic_load(&enough)) {
        const int len = snprintf(text, sizeof(text), "%lld", (long long)writer->accepted + 1);
        if (hf_write(writer->lease, NULL, text, (size_t)len, &result, &error) != HF_OK) {
            snprintf(writer->trouble, sizeof(writer->trouble), "%s %s", hf_result_name(error.result), error.message);
            break;
        }
        writer->accepted++;
        writer->replayed += result.replayed;
        if (result.version != writer->accepted) {
            snprintf(writer->trouble, sizeof(writer->trouble), "write %lld is version %lld", (long long)writer->accepted,
                     (long long)result.version);
            break;
        }
    }
    return NULL;
}

static void a_server_killed_amid_writes_loses_none(void **state)
{
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    hf_client *client = client_of(server->url, 60000, 60000);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    int64_t all = 0, replayed = 0;
    hf_error error;

    (void)state;
    atomic_store(&enough, false);
    for (int i = 0; i < WRITERS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "kill/%d", i);
        writers[i] = (struct writer){.client = client, .lease = cl_acquire(client, name, 60000)};
        assert_int_equal(pthread_create(&threads[i], NULL, write_on, &writers[i]), 0);
    }
    for (int i = 0; i < KILLS; i++) {
        t_sleep_ms(700); /* the writers are at it */
        t_server_kill(server, SIGKILL);
        t_server_restart(server);
    }
    t_sleep_ms(700);
    atomic_store(&enough, true);
    for (int i = 0; i < WRITERS; i++) {
        hf_value value;
        pthread_join(threads[i], NULL);
        if (writers[i].trouble[0])
            fail_msg("writer %d: %s", i, writers[i].trouble);
        assert_true(writers[i].accepted > 10);
        assert_true(hf_lease_valid(writers[i].lease)); /* under the same token */
        assert_int_equal(hf_read(client, hf_lease_resource(writers[i].lease, 0), &value, &error), HF_OK);
        assert_int_equal(value.version, writers[i].accepted);
        assert_int_equal(strtoll(value.data, NULL, 10), writers[i].accepted);
        assert_int_equal(value.token, hf_lease_token(writers[i].lease));
        hf_value_release(&value);
        all += writers[i].accepted;
        replayed += writers[i].replayed;
        assert_int_equal(hf_release(writers[i].lease, &error), HF_OK);
        hf_lease_free(writers[i].lease);
    }
    print_message("%lld writes, %lld of them answered at the second asking\n", (long long)all, (long long)replayed);
    assert_int_equal(atomic_load(&told), 0);
    hf_client_free(client);
}

static void leases_outlive_a_short_absence_of_the_server(void **state)
{
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    hf_client *client = client_of(server->url, 20000, 20000);
    hf_lease *lease = cl_acquire(client, "absence", 8000);
    const int64_t token = hf_lease_token(lease);
    hf_value value;
    hf_error error;

    (void)state;
    t_server_kill(server, SIGKILL);
    t_sleep_ms(3000);
    t_server_restart(server);
    t_sleep_ms(6000);
    assert_true(hf_lease_valid(lease));
    assert_int_equal(hf_lease_token(lease), token);
    assert_int_equal(hf_write(lease, NULL, "x", 1, NULL, &error), HF_OK);
    assert_int_equal(hf_read(client, "absence", &value, &error), HF_OK);
    assert_int_equal(value.token, token);
    hf_value_release(&value);
    assert_int_equal(atomic_load(&told), 0);
    hf_lease_free(lease);
    hf_client_free(client);
}

/* ---- answers that are lost ---- */

static void a_lost_answer_to_a_write_is_asked_for_again(void **state)
{
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    struct px *px = px_start(server->url, 1);
    hf_client *client = client_of(px_url(px), 20000, 5000), *direct = client_of(server->url, 0, 0);
    hf_lease *lease = cl_acquire(client, "lost answer", 30000);
    struct writer writer = {.client = client, .lease = lease};
    pthread_t thread;
    hf_value value;
    hf_error error;

    (void)state;
    atomic_store(&enough, false);
    const int lost = px_add(px, &lose_answers);
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    assert_true(px_wait(px, lost, 1, T_PATIENCE_MS));
    atomic_store(&enough, true); /* that one write is all */
    px_heal(px);
    px_cut(px);
    pthread_join(thread, NULL);
    assert_string_equal(writer.trouble, "");
    assert_int_equal(writer.accepted, 1);
    assert_int_equal(writer.replayed, 1);
    assert_int_equal(hf_read(direct, "lost answer", &value, &error), HF_OK);
    assert_int_equal(value.version, 1);
    hf_value_release(&value);
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
    hf_client_free(client);
    hf_client_free(direct);
    px_stop(px);
}

struct acquiring {
    hf_client *client;
    hf_lease *lease;
    hf_result result;
};

static void *acquire_one(void *arg)
{
    struct acquiring *a = arg;
    const hf_acquire_options options = {.resource = "lost grant", .ttl_ms = 20000};

    a->result = hf_acquire(a->client, &options, &a->lease, NULL, NULL);
    return NULL;
}

static void a_lost_answer_to_an_acquire_gets_the_same_grant(void **state)
{
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    struct px *px = px_start(server->url, 1);
    struct acquiring a = {.client = client_of(px_url(px), 20000, 5000)};
    pthread_t thread;
    hf_value value;
    int64_t before, sent; /* the first request was, in between */

    (void)state;
    assert_int_equal(hf_read(a.client, "lost grant", &value, NULL), HF_NOT_FOUND); /* connected */
    const int lost = px_add(px, &lose_answers);
    before = hfi_boot_ms();
    assert_int_equal(pthread_create(&thread, NULL, acquire_one, &a), 0);
    assert_true(px_wait(px, lost, 1, T_PATIENCE_MS));
    sent = hfi_boot_ms();
    t_sleep_ms(500); /* time that must be taken off the lease */
    px_heal(px);
    px_cut(px);
    pthread_join(thread, NULL);
    assert_int_equal(a.result, HF_OK);
    assert_int_equal(hf_lease_token(a.lease), 1);
    assert_in_range(hf_lease_deadline_ms(a.lease), before, sent + 20000 - 1000);
    assert_int_equal(hf_release(a.lease, NULL), HF_OK);
    hf_lease_free(a.lease);
    hf_client_free(a.client);
    px_stop(px);
}

static void silence_ends_the_lease_at_its_deadline(void **state)
{
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    struct px *px = px_start(server->url, 1);
    hf_client *client = client_of(px_url(px), 20000, 5000);
    hf_lease *lease = cl_acquire(client, "silence", 1500);
    hf_error error;
    int64_t deadline;

    (void)state;
    t_sleep_ms(1200);
    assert_true(hf_lease_valid(lease));
    px_dark(px, true); /* no reset: nobody tells us */
    t_sleep_ms(100);
    deadline = hf_lease_deadline_ms(lease);
    assert_true(t_wait_for(was_told, NULL, T_PATIENCE_MS));
    assert_int_equal(hf_lease_deadline_ms(lease), deadline);
    assert_in_range(atomic_load(&told_at_ms) - deadline, 0, T_AT_ONCE_MS);
    assert_string_equal(atomic_load(&told_reason), "DEADLINE");
    assert_false(hf_lease_valid(lease));
    assert_int_equal(hf_write(lease, NULL, "x", 1, NULL, &error), HF_LOST);
    px_heal(px);
    px_cut(px);
    t_sleep_ms(1500);
    assert_false(hf_lease_valid(lease));
    assert_int_equal(atomic_load(&told), 1);
    hf_lease_free(lease);

    lease = cl_acquire(client, "silence", 1500); /* the client itself is well */
    assert_int_equal(hf_lease_token(lease), 2);
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
    hf_client_free(client);
    px_stop(px);
}

static void a_client_can_be_freed_amid_silence(void **state)
{
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    struct px *px = px_start(server->url, 1);
    hf_client *client = client_of(px_url(px), 20000, 5000);
    int64_t start;

    (void)state;
    (void)cl_acquire(client, "left", 600);
    px_dark(px, true);
    t_sleep_ms(400); /* a renewal is under way */
    start = t_now_ms();
    hf_client_free(client);
    assert_in_range(t_now_ms() - start, 0, T_AT_ONCE_MS);
    px_stop(px);
}

/* The last renewal times out just when its lease is lost, and that is when programs end. */
static void a_client_can_be_freed_at_the_moment_of_a_timeout(void **state)
{
    enum { CLIENTS = 8, ROUNDS = 15 };
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        hf_client *clients[CLIENTS];
        hf_lease *leases[CLIENTS];
        for (int j = 0; j < CLIENTS; j++) {
            clients[j] = client_of(server->url, 5000, 0);
            leases[j] = cl_acquire(clients[j], t_printf("moment/%d/%d", i, j), 400 + j);
        }
        t_server_kill(server, SIGSTOP);
        for (int j = 0; j < CLIENTS; j++) {
            const int64_t left = hf_lease_remaining_ms(leases[j]);
            t_sleep_ms(left > 5 ? (int)left - 5 : 0);
            while (hf_lease_valid(leases[j])) /* to the moment */
                ;
            hf_client_free(clients[j]);
        }
        t_server_kill(server, SIGCONT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_server_is_said_in_time, each, t_teardown),
        cmocka_unit_test_setup_teardown(a_server_that_comes_later_is_found, each, t_teardown),
        cmocka_unit_test_setup_teardown(the_second_of_two_servers_serves, each, t_teardown),
        cmocka_unit_test_setup_teardown(a_server_killed_amid_writes_loses_none, each, t_teardown),
        cmocka_unit_test_setup_teardown(leases_outlive_a_short_absence_of_the_server, each, t_teardown),
        cmocka_unit_test_setup_teardown(a_lost_answer_to_a_write_is_asked_for_again, each, t_teardown),
        cmocka_unit_test_setup_teardown(a_lost_answer_to_an_acquire_gets_the_same_grant, each, t_teardown),
        cmocka_unit_test_setup_teardown(silence_ends_the_lease_at_its_deadline, each, t_teardown),
        cmocka_unit_test_setup_teardown(a_client_can_be_freed_amid_silence, each, t_teardown),
        cmocka_unit_test_setup_teardown(a_client_can_be_freed_at_the_moment_of_a_timeout, each, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
