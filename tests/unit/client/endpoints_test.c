/* Several servers: which one is asked, and leases that outlive the death of some. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

static int told;

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)reason;
    (void)arg;
    told++;
}

static struct fake *fresh(unsigned n_endpoints)
{
    const hf_client_options options = {.on_loss = on_loss};
    struct fake *fake = fake_new(&options);

    told = 0;
    fake->transport.n_endpoints = n_endpoints;
    return fake;
}

static size_t calls_to(const struct fake *fake, unsigned endpoint)
{
    size_t n = 0;

    for (size_t i = 0; i < fake->n_calls; i++)
        n += fake->calls[i].endpoint == endpoint;
    return n;
}

/* Lives on for `ms`; the least that was left of the lease meanwhile. */
static int64_t least_left(struct fake *fake, hf_lease *lease, int64_t ms)
{
    int64_t least = INT64_MAX;

    for (int64_t i = 0; i < ms; i += 10) {
        int64_t left;
        fake_live(fake, 10);
        left = hf_lease_remaining_ms(lease);
        least = left < least ? left : least;
    }
    return least;
}

/* ---- renewals ---- */

static void a_stopped_server_costs_one_renewal_its_patience(void **state)
{
    static const enum fake_endpoint ways[] = {FAKE_STOPPED, FAKE_GONE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct fake *fake = fresh(2);
        hf_lease *lease = fake_acquire(fake, "r", 3000);
        size_t calls;
        fake->endpoints[0] = ways[i];
        assert_true(least_left(fake, lease, 3000) > 3000 / 3); /* far from the deadline */
        calls = calls_to(fake, 0);
        assert_true(calls <= 2); /* the acquire, and one renewal if it was taken */
        least_left(fake, lease, 300000);
        assert_int_equal(calls_to(fake, 0), calls); /* never asked again while the other one serves */
        assert_in_range(calls_to(fake, 1), 300, 305);
        fake_tell(fake);
        assert_int_equal(told, 0);
        hf_lease_free(lease);
        fake_free(fake);
    }
}

static void one_of_six_is_enough(void **state)
{
    (void)state;
    for (int64_t ttl = 1000; ttl <= 64000; ttl *= 8) {
        for (unsigned alive = 1; alive < 6; alive++) {
            struct fake *fake = fresh(6);
            hf_lease *lease = fake_acquire(fake, "r", ttl);
            for (unsigned e = 0; e < 6; e++)
                fake->endpoints[e] = e == alive ? FAKE_ALIVE : e % 2 ? FAKE_GONE : FAKE_STOPPED;
            least_left(fake, lease, ttl * 5);
            assert_true(hf_lease_valid(lease));
            hf_lease_free(lease);
            fake_free(fake);
        }
    }
}

/* One server after another goes and comes back; one of three lives at each moment, and never the one that was used last. */
static void servers_dying_in_turn_lose_no_lease(void **state)
{
    struct fake *fake = fresh(3);
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        for (unsigned e = 0; e < 3; e++)
            fake->endpoints[e] = e == round % 3 ? FAKE_ALIVE : (round + e) % 2 ? FAKE_GONE : FAKE_STOPPED;
        assert_true(least_left(fake, lease, 1700) > 200);
    }
    fake_tell(fake);
    assert_int_equal(told, 0);
    hf_lease_free(lease);
    fake_free(fake);
}

static void all_away_for_half_a_ttl_lose_no_lease(void **state)
{
    struct fake *fake = fresh(2);
    hf_lease *lease = fake_acquire(fake, "r", 3000);

    (void)state;
    for (int round = 0; round < 20; round++) {
        fake->endpoints[0] = round % 2 ? FAKE_GONE : FAKE_STOPPED;
        fake->endpoints[1] = round % 3 ? FAKE_GONE : FAKE_STOPPED;
        fake_live(fake, 1500);
        fake->endpoints[0] = fake->endpoints[1] = FAKE_ALIVE;
        fake_live(fake, 1500 + round * 37);
        assert_true(hf_lease_valid(lease));
    }
    hf_lease_free(lease);
    fake_free(fake);
}

/* ---- which one is asked ---- */

static void write_once(struct fake *fake, int64_t within_ms)
{
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);
    const int64_t start = fake->now_ms;

    assert_int_equal(hfi_call(fake->client, &call), HF_OK);
    assert_in_range(fake->now_ms - start, 0, within_ms);
    hfi_call_release(&call);
}

static void a_server_that_serves_keeps_its_place(void **state)
{
    struct fake *fake = fresh(3);

    (void)state;
    write_once(fake, 0);
    fake->endpoints[0] = FAKE_GONE;
    write_once(fake, 300);
    fake->endpoints[0] = FAKE_ALIVE;
    for (int i = 0; i < 10; i++) {
        write_once(fake, 0);
        fake_pass(fake, 20000);
    }
    assert_int_equal(calls_to(fake, 0), 1);
    assert_int_equal(calls_to(fake, 1), 11);
    fake_free(fake);
}

static void a_call_at_a_stopped_server_moves_on_before_its_time_is_over(void **state)
{
    struct fake *fake = fresh(2);

    (void)state;
    fake->endpoints[0] = FAKE_STOPPED;
    write_once(fake, HFI_QUIET_MS + HFI_PING_MS + 50);
    assert_int_equal(fake->pings, 1);
    write_once(fake, 0);
    fake_free(fake);
}

static void a_slow_answer_from_a_server_that_lives_is_waited_for(void **state)
{
    struct fake *fake = fresh(2);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 4500, NULL);
    write_once(fake, 4500);
    assert_int_equal(fake->n_calls, 1);
    assert_in_range(fake->pings, 1, 5);
    fake_free(fake);
}

static void what_cannot_be_repeated_is_waited_for(void **state)
{
    struct fake *fake = fresh(2);
    struct hfi_call call = fake_write_call(HFI_RETRY_UNAPPLIED);

    (void)state;
    fake->endpoints[0] = FAKE_STOPPED;
    call.timeout_ms = 20000;
    assert_int_equal(hfi_call(fake->client, &call), HF_UNKNOWN);
    assert_int_equal(fake->now_ms, 1020000);
    assert_int_equal(fake->n_calls, 1);
    fake_free(fake);
}

static void one_accident_is_one_failure(void **state)
{
    struct hfi_endpoints endpoints = {0};
    int64_t now = 1000;

    (void)state;
    for (int i = 0; i < 100; i++)
        hfi_endpoint_failed(&endpoints, 0, now);
    assert_int_equal(endpoints.all[0].bad_until_ms, now + HFI_BAD_MIN_MS);
    for (int i = 1; i < 100; i++) {
        now = endpoints.all[0].bad_until_ms;
        hfi_endpoint_failed(&endpoints, 0, now);
    }
    assert_int_equal(endpoints.all[0].bad_until_ms, now + HFI_BAD_MAX_MS);
    hfi_endpoint_heard(&endpoints, 0, now + 1);
    hfi_endpoint_failed(&endpoints, 0, now + 2);
    assert_int_equal(endpoints.all[0].bad_until_ms, now + 2 + HFI_BAD_MIN_MS);
}

static void bad_ones_are_better_than_none(void **state)
{
    struct hfi_endpoints endpoints = {0};

    (void)state;
    assert_int_equal(hfi_endpoint_choose(&endpoints, 3, 1000), 0);
    hfi_endpoint_failed(&endpoints, 1, 1000);
    hfi_endpoint_failed(&endpoints, 0, 1001);
    assert_int_equal(hfi_endpoint_choose(&endpoints, 3, 1002), 2); /* the next that isn't bad */
    hfi_endpoint_failed(&endpoints, 2, 1002);
    assert_int_equal(hfi_endpoint_choose(&endpoints, 3, 1003), 1);                  /* whose time is up first */
    assert_int_equal(hfi_endpoint_choose(&endpoints, 3, 1003 + HFI_BAD_MAX_MS), 1); /* and it keeps its place */
    assert_int_equal(hfi_endpoint_choose(&endpoints, 1, 1003), 0);
}

/* An old question that nobody waited for says nothing about a server that came back since. */
static void an_old_question_is_no_verdict(void **state)
{
    struct fake *fake = fresh(1);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);
    size_t before;

    (void)state;
    fake->endpoints[0] = FAKE_STOPPED;
    call.timeout_ms = HFI_QUIET_MS + 500; /* given up with the question under way */
    assert_int_equal(hfi_call(fake->client, &call), HF_UNKNOWN);
    before = fake_count(fake, HFI_WRITE);
    fake_pass(fake, 60000);
    fake->endpoints[0] = FAKE_ALIVE;
    fake_push(fake, FAKE_ANSWER, 3000, NULL);
    write_once(fake, 3000);
    assert_int_equal(fake_count(fake, HFI_WRITE), before + 1);
    fake_free(fake);
}

/* ---- out of reach ---- */

static void out_of_reach_is_said_within_three_quarters_of_the_timeout(void **state)
{
    static const struct {
        int64_t timeout_ms, connect_timeout_ms, min, max;
    } cases[] = {{0, 0, 5000, 5600}, {2000, 0, 1500, 1900}, {400, 0, 300, 399}, {100, 0, 50, 99}, {2000, 2000, 1900, 2000}};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        const hf_client_options options = {.timeout_ms = cases[i].timeout_ms, .connect_timeout_ms = cases[i].connect_timeout_ms};
        struct fake *fake = fake_new(&options);
        hf_value value;
        hf_error error;
        fake->endpoints[0] = FAKE_GONE;
        assert_int_equal(hf_read(fake->client, "r", &value, &error), HF_UNAVAILABLE);
        assert_string_equal(error.reason, "UNREACHABLE");
        assert_in_range(fake->now_ms - 1000000, cases[i].min, cases[i].max);
        fake_free(fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_server_costs_one_renewal_its_patience),
        cmocka_unit_test(one_of_six_is_enough),
        cmocka_unit_test(servers_dying_in_turn_lose_no_lease),
        cmocka_unit_test(all_away_for_half_a_ttl_lose_no_lease),
        cmocka_unit_test(a_server_that_serves_keeps_its_place),
        cmocka_unit_test(a_call_at_a_stopped_server_moves_on_before_its_time_is_over),
        cmocka_unit_test(a_slow_answer_from_a_server_that_lives_is_waited_for),
        cmocka_unit_test(what_cannot_be_repeated_is_waited_for),
        cmocka_unit_test(one_accident_is_one_failure),
        cmocka_unit_test(bad_ones_are_better_than_none),
        cmocka_unit_test(an_old_question_is_no_verdict),
        cmocka_unit_test(out_of_reach_is_said_within_three_quarters_of_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
