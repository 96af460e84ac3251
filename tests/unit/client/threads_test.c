/* The client's own threads, on the system's clock: what a slow callback may not do, and many callers at once. */
#include "fake.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_callback_delays_no_renewal),
        cmocka_unit_test(writes_of_one_lease_take_turns),
        cmocka_unit_test(many_leases_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
