/*
 * seam_test.c - the seams between threads, in one run of everything: clients with many threads each, against one server
 * (whose only seam is that of name look-ups). Made for ThreadSanitizer (`tests/run tsan`), which ends whoever races; and it holds
 * without it.
 */
#include "harness/harness.h"

#include <holdfast/holdfast.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { CLIENTS = 3, THREADS = 4 /* of each client */, ROUNDS = 12, WAITERS = 4, TTL_MS = 20000, PATIENCE_MS = 60000 };

static atomic_int inside; /* who holds "shared" */
static atomic_bool stop;
static atomic_int calls;

struct worker {
    hf_client *client;
    int number;
    pthread_t thread;
    char what[32]; /* empty: all went well */
    hf_error error;
};

static void failed(struct worker *worker, const char *what)
{
    snprintf(worker->what, sizeof(worker->what), "%s", what);
}

static hf_client *new_client(const struct t_server *server)
{
    const hf_client_options options = {.servers = server->url};
    hf_client *client = NULL;
    hf_error error;
    if (hf_client_new(&options, &client, &error) != HF_OK)
        fail_msg("%s", error.message);
    return client;
}

/* In turn with all threads of all clients. */
static bool shared_round(struct worker *worker)
{
    const hf_acquire_options want = {.resource = "shared", .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    hf_lease *lease;
    bool alone, good;
    if (hf_acquire(worker->client, &want, &lease, NULL, &worker->error) != HF_OK) {
        failed(worker, "acquire shared");
        return false;
    }
    alone = atomic_fetch_add(&inside, 1) == 0;
    good = hf_write(lease, NULL, "x", 1, NULL, &worker->error) == HF_OK;
    atomic_fetch_sub(&inside, 1);
    good = hf_release(lease, &worker->error) == HF_OK && good;
    hf_lease_free(lease);
    if (!alone || !good)
        failed(worker, alone ? "write or release shared" : "two were inside");
    return alone && good;
}

static bool own_round(struct worker *worker)
{
    char name[32];
    const hf_acquire_options want = {.resource = name, .ttl_ms = TTL_MS};
    hf_lease *lease;
    bool good;
    snprintf(name, sizeof(name), "own/%d", worker->number);
    if (hf_acquire(worker->client, &want, &lease, NULL, &worker->error) != HF_OK) {
        failed(worker, "acquire own");
        return false;
    }
    good = hf_renew_now(lease, &worker->error) == HF_OK &&
           hf_write(lease, NULL, name, strlen(name), NULL, &worker->error) == HF_OK && hf_lease_valid(lease) &&
           hf_release(lease, &worker->error) == HF_OK;
    hf_lease_free(lease);
    if (!good)
        failed(worker, "renew, write or release own");
    return good;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    for (int i = 0; i < ROUNDS; i++)
        if (!own_round(worker) || (worker->number % 2 == 0 && !shared_round(worker)))
            break;
    return NULL;
}

static void start(struct worker *workers, size_t n, void *(*run)(void *arg))
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
}

static void join(struct worker *workers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        if (workers[i].what[0])
            fail_msg("worker %d: %s: %s", workers[i].number, workers[i].what, workers[i].error.message);
    }
}

static void many_threads_of_many_clients(void **state)
{
    struct t_server *server = *state;
    static struct worker workers[CLIENTS * THREADS];
    hf_client *clients[CLIENTS];
    for (int c = 0; c < CLIENTS; c++) {
        clients[c] = new_client(server);
        for (int t = 0; t < THREADS; t++)
            workers[c * THREADS + t] = (struct worker){.client = clients[c], .number = c * THREADS + t};
    }
    start(workers, CLIENTS * THREADS, work);
    join(workers, CLIENTS * THREADS);
    for (int c = 0; c < CLIENTS; c++)
        hf_client_free(clients[c]);
}

static void *wait_in_vain(void *arg)
{
    struct worker *worker = arg;
    const hf_acquire_options want = {.resource = "held", .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    hf_lease *lease;
    atomic_fetch_add(&calls, 1);
    if (hf_acquire(worker->client, &want, &lease, NULL, &worker->error) == HF_OK) {
        failed(worker, "it was granted what is held");
        hf_lease_free(lease);
    }
    return NULL;
}

static bool all_wait(void *server)
{
    struct t_result result = t_cli(server, "--json", "acquire", "held", NULL);
    return strstr(result.out, t_printf("\"waiters\":\"%d\"", WAITERS)) || strstr(result.out, t_printf("\"waiters\":%d", WAITERS));
}

/* The connection of a client ends while the server holds calls of it. */
static void a_client_is_freed_while_its_threads_wait(void **state)
{
    struct t_server *server = *state;
    static struct worker workers[WAITERS];
    hf_client *holder = new_client(server), *other = new_client(server);
    const hf_acquire_options want = {.resource = "held", .ttl_ms = PATIENCE_MS};
    hf_lease *lease;
    hf_error error;
    assert_int_equal(hf_acquire(holder, &want, &lease, NULL, &error), HF_OK);
    for (int i = 0; i < WAITERS; i++)
        workers[i] = (struct worker){.client = other, .number = i};
    start(workers, WAITERS, wait_in_vain);
    assert_true(t_wait_for(all_wait, server, 30000));
    hf_client_free(other);
    join(workers, WAITERS);
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
    hf_client_free(holder);
}

static void *work_until_stopped(void *arg)
{
    struct worker *worker = arg;
    char name[32];
    const hf_acquire_options want = {.resource = name, .ttl_ms = TTL_MS};
    snprintf(name, sizeof(name), "busy/%d", worker->number);
    while (!atomic_load(&stop)) {
        hf_lease *lease = NULL;
        if (hf_acquire(worker->client, &want, &lease, NULL, &worker->error) == HF_OK)
            (void)hf_release(lease, &worker->error);
        hf_lease_free(lease);
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

static bool has_called_often(void *from)
{
    return atomic_load(&calls) > *(const int *)from + 20 * THREADS;
}

static void the_server_is_stopped_under_load(void **state)
{
    struct t_server *server = *state;
    static struct worker workers[THREADS];
    const hf_client_options options = {.servers = server->url, .timeout_ms = 500};
    hf_client *client = NULL;
    hf_error error;
    int from = atomic_load(&calls);
    if (hf_client_new(&options, &client, &error) != HF_OK)
        fail_msg("%s", error.message);
    for (int i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.client = client, .number = i};
    start(workers, THREADS, work_until_stopped);
    assert_true(t_wait_for(has_called_often, &from, 30000));
    int status = t_server_stop(server);
    if (status != 0)
        fail_msg("the server ended with %d: %s", status, t_proc_err(server->proc));
    atomic_store(&stop, true);
    join(workers, THREADS);
    hf_client_free(client);
}

static int setup(void **state)
{
    *state = t_server_start("--dsn", t_database(), NULL);
    t_keep();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_of_many_clients), cmocka_unit_test(a_client_is_freed_while_its_threads_wait),
        cmocka_unit_test(the_server_is_stopped_under_load), /* the last: the server is gone */
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
