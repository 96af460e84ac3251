/* The client's own threads, on the system's clock: what a slow callback may not do, and many callers at once. */
#include "fake.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static sem_t callback_began, callback_may_end;
static atomic_int told;
static atomic_bool callback_ended;

static void slow(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    assert_string_equal(reason, "BROKEN");
    atomic_fetch_add(&told, 1);
    sem_post(&callback_began);
    sem_wait(&callback_may_end);
    atomic_store(&callback_ended, true);
}

/* Renews all but "broken". */
static void serve_some_broken(struct fake *fake, const Holdfast__V1__Call *call)
{
    struct hp_status status;
    const Holdfast__V1__RenewRequest *request;
    Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    Holdfast__V1__Renewed renewed = HOLDFAST__V1__RENEWED__INIT;
    Holdfast__V1__Lost lost = HOLDFAST__V1__LOST__INIT;
    Holdfast__V1__RenewResult good = HOLDFAST__V1__RENEW_RESULT__INIT, bad = HOLDFAST__V1__RENEW_RESULT__INIT;

    if (strcmp(call->method, HFI_RENEW) != 0) {
        serve_any(fake, call);
        return;
    }
    request = (const Holdfast__V1__RenewRequest *)hp_unpack(fake->arena, &holdfast__v1__renew_request__descriptor,
                                                            call->payload.data, call->payload.len, &status);
    renewed.ttl_ms = request->ttl_ms;
    good.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED;
    good.renewed = &renewed;
    lost.reason = HOLDFAST__V1__LOST__REASON__BROKEN;
    bad.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
    bad.lost = &lost;
    response.n_items = request->n_items;
    response.items = hp_alloc_array(fake->arena, request->n_items, sizeof(Holdfast__V1__RenewResult *));
    for (size_t i = 0; i < request->n_items; i++)
        response.items[i] = strcmp(request->items[i]->resource, "broken") == 0 ? &bad : &good;
    fake_ok(fake, &response.base);
}

static size_t renewals(struct fake *fake)
{
    size_t n;

    pthread_mutex_lock(&fake->mutex);
    n = fake_count(fake, HFI_RENEW);
    pthread_mutex_unlock(&fake->mutex);
    return n;
}

struct wanted {
    struct fake *fake;
    size_t renewals;
};

static bool renewed_often(void *arg)
{
    const struct wanted *wanted = arg;

    return renewals(wanted->fake) >= wanted->renewals;
}

static void *free_it(void *lease)
{
    hf_lease_free(lease);
    assert_true(atomic_load(&callback_ended)); /* it waited for that */
    return NULL;
}

static void a_slow_callback_delays_no_renewal(void **state)
{
    const hf_client_options options = {.on_loss = slow};
    struct fake *fake = fake_new_threads(&options);
    struct wanted wanted = {.fake = fake};
    hf_lease *broken, *good;
    pthread_t freeing;

    (void)state;
    sem_init(&callback_began, 0, 0);
    sem_init(&callback_may_end, 0, 0);
    fake->serve = serve_some_broken;
    broken = fake_acquire(fake, "broken", 600);
    good = fake_acquire(fake, "good", 600);
    sem_wait(&callback_began);
    wanted.renewals = renewals(fake) + 8; /* far more than one TTL */
    assert_true(t_wait_for(renewed_often, &wanted, 20000));
    assert_true(hf_lease_valid(good));
    assert_string_equal(hf_lease_loss(broken), "BROKEN");
    assert_int_equal(pthread_create(&freeing, NULL, free_it, broken), 0);
    assert_false(atomic_load(&callback_ended));
    sem_post(&callback_may_end);
    pthread_join(freeing, NULL);
    assert_int_equal(atomic_load(&told), 1);
    assert_int_equal(hf_release(good, NULL), HF_OK);
    hf_lease_free(good);
    fake_free(fake);
}

enum { WRITERS = 8, WRITES = 100 };

struct writer {
    struct fake *fake;
    hf_lease *lease;
    int failed;
};

static void *write_much(void *arg)
{
    struct writer *writer = arg;

    for (int i = 0; i < WRITES; i++)
        writer->failed += hf_write(writer->lease, NULL, "v", 1, NULL, NULL) != HF_OK;
    return NULL;
}

static void writes_of_one_lease_take_turns(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    hf_lease *lease = fake_acquire(fake, "r", 30000);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    int64_t last = 0;

    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.fake = fake, .lease = lease};
        assert_int_equal(pthread_create(&threads[i], NULL, write_much, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(writers[i].failed, 0);
    }
    for (size_t i = 0; i < fake->n_calls; i++) { /* in the order in which the server got them */
        int64_t seq;
        if (strcmp(fake->calls[i].method, HFI_WRITE) != 0)
            continue;
        seq = ((const Holdfast__V1__WriteRequest *)fake_request(fake, i, &holdfast__v1__write_request__descriptor))->write_seq;
        assert_int_equal(seq, last + 1);
        last = seq;
    }
    assert_int_equal(last, WRITERS * WRITES);
    hf_lease_free(lease);
    fake_free(fake);
}

static void *come_and_go(void *arg)
{
    struct writer *writer = arg;
    char name[32];

    for (int i = 0; i < 50; i++) {
        hf_lease *lease = NULL;
        const hf_acquire_options options = {.resource = name, .ttl_ms = 300};
        snprintf(name, sizeof(name), "r%d-%p", i, arg);
        if (hf_acquire(writer->fake->client, &options, &lease, NULL, NULL) != HF_OK) {
            writer->failed++;
            continue;
        }
        writer->failed += !hf_lease_valid(lease);
        writer->failed += hf_renew_now(lease, NULL) != HF_OK;
        if (i % 2)
            writer->failed += hf_release(lease, NULL) != HF_OK;
        hf_lease_free(lease);
    }
    return NULL;
}

static void many_leases_come_and_go(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];

    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.fake = fake};
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(writers[i].failed, 0);
    }
    assert_null(fake->client->leases);
    fake_free(fake);
}

/* ---- waits in other threads ---- */

struct waiter {
    struct fake *fake;
    char id[32];
    pthread_t thread;
    hf_lease *lease;
    hf_result result;
    hf_error error;
};

static void *wait_for_it(void *arg)
{
    struct waiter *waiter = arg;
    const hf_acquire_options options = {.resource = "r", .ttl_ms = 30000, .wait_ms = 60000, .request_id = waiter->id};

    waiter->result = hf_acquire(waiter->fake->client, &options, &waiter->lease, NULL, &waiter->error);
    return NULL;
}

static bool all_parked(void *arg)
{
    const struct wanted *wanted = arg;

    return fake_parked(wanted->fake) >= wanted->renewals;
}

static void start_waiters(struct fake *fake, struct waiter *waiters, size_t n)
{
    struct wanted wanted = {.fake = fake, .renewals = n};

    for (size_t i = 0; i < n; i++) {
        waiters[i] = (struct waiter){.fake = fake};
        snprintf(waiters[i].id, sizeof(waiters[i].id), "w%zu", i);
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for_it, &waiters[i]), 0);
    }
    assert_true(t_wait_for(all_parked, &wanted, 20000));
}

/* Answers what is cancelled, as a server does. */
static void serve_cancels(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__CancelWaitResponse response = HOLDFAST__V1__CANCEL_WAIT_RESPONSE__INIT;

    if (strcmp(call->method, HFI_CANCEL_WAIT) != 0) {
        serve_any(fake, call);
        return;
    }
    response.was_waiting = 1;
    fake_ok(fake, &response.base);
}

static void one_of_many_waits_is_cancelled(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    struct waiter waiters[8];

    (void)state;
    fake->serve = serve_cancels;
    start_waiters(fake, waiters, 8);
    assert_int_equal(hf_acquire_cancel(fake->client, "w3", NULL), HF_OK);
    pthread_join(waiters[3].thread, NULL);
    assert_int_equal(waiters[3].result, HF_HELD);
    assert_string_equal(waiters[3].error.reason, "CANCELLED");
    fake_unpark(fake, serve_grant);
    for (int i = 0; i < 8; i++) {
        if (i == 3)
            continue;
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].result, HF_OK);
        hf_lease_free(waiters[i].lease);
    }
    fake_free(fake);
}

static void all_waits_are_cancelled_at_once(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    struct waiter waiters[8];

    (void)state;
    fake->serve = serve_cancels;
    assert_int_equal(hf_acquire_cancel(fake->client, NULL, NULL), HF_NOT_FOUND);
    start_waiters(fake, waiters, 8);
    assert_int_equal(hf_acquire_cancel(fake->client, NULL, NULL), HF_OK);
    for (int i = 0; i < 8; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].result, HF_HELD);
    }
    fake_free(fake);
}

static void freeing_the_client_ends_its_waits(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    struct waiter waiters[8];

    (void)state;
    fake->serve = serve_cancels;
    start_waiters(fake, waiters, 8);
    hf_client_free(fake->client);
    for (int i = 0; i < 8; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].result, HF_HELD);
        assert_string_equal(waiters[i].error.reason, "CANCELLED");
        assert_null(waiters[i].lease);
    }
    assert_int_equal(fake_count(fake, HFI_CANCEL_WAIT), 8);
    fake->client = NULL;
    fake_free(fake);
}

static void serve_grant_instead(struct fake *fake, const Holdfast__V1__Call *call)
{
    serve_cancels(fake, call);
    if (strcmp(call->method, HFI_CANCEL_WAIT) == 0)
        fake->grant_parked = true;
}

static void what_a_freed_client_is_granted_is_given_back(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    struct waiter waiter;

    (void)state;
    fake->serve = serve_grant_instead;
    start_waiters(fake, &waiter, 1);
    hf_client_free(fake->client);
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.result, HF_HELD);
    assert_null(waiter.lease);
    assert_int_equal(fake_count(fake, HFI_RELEASE), 1);
    fake->client = NULL;
    fake_free(fake);
}

static int as_child(struct fake *fake)
{
    hf_acquire_options options = {.resource = "r", .wait_ms = 1000};
    hf_lease *lease = NULL;

    alarm(20);
    if (hf_acquire(fake->client, &options, &lease, NULL, NULL) != HF_MISUSE ||
        hf_acquire_cancel(fake->client, "w0", NULL) != HF_MISUSE)
        return 1;
    hf_client_free(fake->client);
    return 0;
}

static void a_fork_leaves_the_parents_waits_alone(void **state)
{
    struct fake *fake = fake_new_threads(NULL);
    struct waiter waiters[4];
    int status;

    (void)state;
    fake->serve = serve_cancels;
    start_waiters(fake, waiters, 4);
    for (int i = 0; i < 5; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(as_child(fake));
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    assert_int_equal(fake_parked(fake), 4);
    assert_int_equal(fake_count(fake, HFI_CANCEL_WAIT), 0);
    fake_unpark(fake, serve_grant);
    for (int i = 0; i < 4; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].result, HF_OK);
        assert_true(hf_lease_valid(waiters[i].lease));
        hf_lease_free(waiters[i].lease);
    }
    fake_free(fake);
}

/* A loss is told while others wait, and its callback may itself wait and cancel. */
static sem_t inner_done;
static struct fake *inner;

static void *cancel_inner(void *arg)
{
    (void)arg;
    while (hf_acquire_cancel(inner->client, "inner", NULL) != HF_OK)
        usleep(1000);
    return NULL;
}

static void wait_inside(hf_lease *lease, const char *reason, void *arg)
{
    const hf_acquire_options options = {.resource = "r", .wait_ms = 60000, .request_id = "inner"};
    hf_lease *other = NULL;
    pthread_t thread;

    (void)lease;
    (void)reason;
    (void)arg;
    assert_int_equal(pthread_create(&thread, NULL, cancel_inner, NULL), 0);
    assert_int_equal(hf_acquire(inner->client, &options, &other, NULL, NULL), HF_HELD);
    pthread_join(thread, NULL);
    sem_post(&inner_done);
}

static void serve_broken_and_cancels(struct fake *fake, const Holdfast__V1__Call *call)
{
    if (strcmp(call->method, HFI_CANCEL_WAIT) == 0)
        serve_cancels(fake, call);
    else
        serve_some_broken(fake, call);
}

static void a_loss_is_told_while_others_wait(void **state)
{
    const hf_client_options options = {.on_loss = wait_inside};
    struct fake *fake = fake_new_threads(&options);
    struct waiter waiters[4];
    hf_lease *lease;

    (void)state;
    inner = fake;
    sem_init(&inner_done, 0, 0);
    fake->serve = serve_broken_and_cancels;
    start_waiters(fake, waiters, 4);
    lease = fake_acquire(fake, "broken", 600);
    sem_wait(&inner_done);
    assert_false(hf_lease_valid(lease));
    fake_unpark(fake, serve_grant);
    for (int i = 0; i < 4; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].result, HF_OK);
        hf_lease_free(waiters[i].lease);
    }
    hf_lease_free(lease);
    fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_callback_delays_no_renewal),
        cmocka_unit_test(writes_of_one_lease_take_turns),
        cmocka_unit_test(many_leases_come_and_go),
        cmocka_unit_test(one_of_many_waits_is_cancelled),
        cmocka_unit_test(all_waits_are_cancelled_at_once),
        cmocka_unit_test(freeing_the_client_ends_its_waits),
        cmocka_unit_test(what_a_freed_client_is_granted_is_given_back),
        cmocka_unit_test(a_fork_leaves_the_parents_waits_alone),
        cmocka_unit_test(a_loss_is_told_while_others_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
