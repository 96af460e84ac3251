/*
 * case_08_herd_test.c - the herd: 5,000 waiters for one resource, 1,000 hand-overs. What a hand-over costs in SQL statements and in
 * wake-ups is the same as with 50 waiters.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "integration/served.h"
#include "integration/waiters.h"

enum { HAND_OVERS = 1000, SHUFFLED = 300 };

struct cost { /* of one hand-over */
    double acquires, releases, others, wake_ups, tries, ms;
};

static int64_t arrivals_wanted;

static bool all_have_arrived(void *arg)
{
    (void)arg;
    return c_stats(rpc)->waits->arrivals >= arrivals_wanted;
}

/* N wait, each with a request_id of its own, about which the database has been asked. */
static void gather(struct w_conn *w, const char *resource, int n)
{
    arrivals_wanted = c_stats(rpc)->waits->arrivals + n;
    for (int i = 0; i < n; i++)
        w_acquire(w, resource, t_printf("%s-%d", resource, i), 600000, 0);
    assert_true(t_wait_for(all_have_arrived, NULL, 60000));
    w_wait_count(rpc, resource, n, T_PATIENCE_MS);
}

static int64_t all_batches(const Holdfast__V1__StatsResponse *stats)
{
    int64_t n = 0;
    for (size_t i = 0; i < stats->n_batches; i++)
        if (strcmp(stats->batches[i]->kind, "stats") && strcmp(stats->batches[i]->kind, "sweep"))
            n += stats->batches[i]->batches;
    return n;
}

static void run(int n, struct cost *out)
{
    struct w_conn *w = w_open(server->url);
    const char *resource = t_printf("herd-%d", n);
    int64_t token = c_grant(rpc, resource, 600000);
    gather(w, resource, n);
    Holdfast__V1__StatsResponse *before = c_stats(rpc);
    int64_t start = t_now_ms();
    for (int i = 0; i < HAND_OVERS; i++) {
        assert_true(c_release_one(rpc, resource, token));
        uint32_t call = w_next(w, T_PATIENCE_MS);
        /* In the order of arrival. What is on its way at one time may arrive in another order than it was sent in. */
        assert_in_range(call, i > SHUFFLED ? i + 1 - SHUFFLED : 1, i + 1 + SHUFFLED);
        int64_t next = w_granted(w, call, 0);
        assert_int_equal(next, token + 1); /* nobody was granted it in between */
        token = next;
        w_acquire(w, resource, NULL, 600000, 0); /* so that it stays as crowded */
    }
    int64_t took = t_now_ms() - start;
    Holdfast__V1__StatsResponse *after = c_stats(rpc);
    assert_int_equal(after->waits->hand_overs - before->waits->hand_overs, HAND_OVERS);
#define EACH(a, b) ((double)((b) - (a)) / HAND_OVERS)
    out->acquires = EACH(w_batches(before, "acquire"), w_batches(after, "acquire"));
    out->releases = EACH(w_batches(before, "release"), w_batches(after, "release"));
    out->others = EACH(all_batches(before), all_batches(after)) - out->acquires - out->releases;
    out->wake_ups = EACH(before->waits->wake_ups, after->waits->wake_ups);
    out->tries = EACH(before->waits->tries, after->waits->tries);
    out->ms = (double)took / HAND_OVERS;
    print_message("[     INFO ] %4d waiters, %d hand-overs, each: %.3f acquires, %.3f releases, %.3f other statements, "
                  "%.3f wake-ups, %.3f tries, %.2f ms\n",
                  n, HAND_OVERS, out->acquires, out->releases, out->others, out->wake_ups, out->tries, out->ms);
    c_release_one(rpc, resource, token);
    w_close(w);
}

static void a_hand_over_costs_the_same_however_many_wait(void **state)
{
    (void)state;
    struct cost few, many;
    run(50, &few);
    run(5000, &many);
    /* One acquire, one release, one wake-up; and the polls of a head who waits for a second. */
    assert_true(few.acquires < 1.1 && many.acquires < 1.1);
    assert_true(few.releases < 1.1 && many.releases < 1.1);
    assert_true(few.others < 0.1 && many.others < 0.1);
    assert_true(few.wake_ups < 1.2 && many.wake_ups < 1.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hand_over_costs_the_same_however_many_wait),
    };
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
