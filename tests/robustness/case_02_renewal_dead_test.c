/*
 * case_02_renewal_dead_test.c - renewals are dead and nobody tells.
 *
 * A's traffic is swallowed without a reset, or its renewals are answered with statuses that nobody expects there. Wanted: at (time
 * the last good renewal was sent) + TTL - margin hf_lease_valid turns false, the callback comes exactly once, and what A then
 * wants to commit is refused locally: the proxy sees none of it. The next holder gets the resource only after that.
 *
 * All of it is played side by side, each with a client and a proxy of its own.
 */
#include "harness/served.h"

#include <stdio.h>
#include <string.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/rule.h"
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"
#include "robustness/watch.h"

enum { SOON = 20000, SLACK = 3000 /* of a busy machine */, GOOD = 2 /* renewals that go well before */ };

static int64_t ttl_ms;

struct silence {
    const char *name;
    bool dark, unwatched; /* unwatched: nobody asks hf_lease_valid, the library has to notice by itself */
    int code;             /* of the invented answer; HP_OK: an empty one */
    enum hp_reason reason;

    char resource[64];
    struct px *px;
    struct watch watch;
    int requests, replies, all_renewals, commits[3], fault; /* rules; all but the last one only count */
    int64_t invalid_ms;                                     /* first seen so; 0 = not yet */
    unsigned renewals;                                      /* sent until the loss was told */
};

static struct silence silences[] = {
    {.name = "dark", .dark = true},
    {.name = "dark, unwatched", .dark = true, .unwatched = true},
    {.name = "INTERNAL", .code = HP_INTERNAL, .reason = HP_R_INTERNAL},
    {.name = "UNIMPLEMENTED", .code = HP_UNIMPLEMENTED, .reason = HP_R_NO_SUCH_METHOD},
    {.name = "PERMISSION_DENIED", .code = HP_PERMISSION_DENIED, .reason = HP_R_ROLE},
    {.name = "NOT_FOUND, unwatched", .code = HP_NOT_FOUND, .reason = HP_R_NO_SUCH_NAMESPACE, .unwatched = true},
    {.name = "STALE_TOKEN, which no renewal says", .code = HP_FAILED_PRECONDITION, .reason = HP_R_STALE_TOKEN},
    {.name = "a code from the future", .code = 99},
    {.name = "OK with nothing in it", .code = HP_OK},
};
enum { N = sizeof(silences) / sizeof(silences[0]) };

static int setup(void **state)
{
    serve(state);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 3000);
    oracle_audit_writes(conn, "default");
    return 0;
}

/* ------------------------------------------------------------------------------------------------ the play */

static int count(struct px *px, enum px_direction direction, const char *method, unsigned n)
{
    return px_add(px, &(struct px_rule){.direction = direction, .method = method, .count = n, .action = PX_PASS});
}

static void begin(struct silence *s, int number)
{
    static const char *const commits[] = {"Write", "Delete", "Release"};
    struct px_rule fault = {.method = "Renew", .first = GOOD + 1};
    snprintf(s->resource, sizeof(s->resource), "case 2/%d", number);
    s->px = px_start(server->url, 1);
    /* The last good renewal was sent before its request came by here, and so before its reply did. */
    s->requests = count(s->px, PX_REQUEST, "Renew", GOOD);
    s->replies = count(s->px, PX_REPLY, "Renew", GOOD);
    s->all_renewals = count(s->px, PX_REQUEST, "Renew", 0);
    for (int i = 0; i < 3; i++)
        s->commits[i] = count(s->px, PX_REQUEST, commits[i], 0);
    fault.direction = s->dark ? PX_REQUEST : PX_REPLY;
    fault.action = s->dark ? PX_DARK : PX_STATUS;
    if (s->code) {
        hp_status_set(&fault.status, s->reason, "invented");
        fault.status.code = (enum hp_code)s->code;
    }
    s->fault = px_add(s->px, &fault);
    watch_start(&s->watch, px_url(s->px), 0, s->resource, ttl_ms);
}

/* When A must have stopped at the latest, by what the proxy saw. */
static int64_t latest_ms(const struct silence *s)
{
    struct px_count seen = px_count(s->px, s->dark ? s->requests : s->replies);
    return seen.done < GOOD ? INT64_MAX : seen.last_ms + ttl_ms - hfi_margin_ms(ttl_ms);
}

/* Asks hf_lease_valid again and again until each is invalid and told; no lease may be valid past its time. */
static void watch_all(void)
{
    int64_t end = t_now_ms() + GOOD * ttl_ms + ttl_ms + SOON;
    for (int left = N; left > 0 && t_now_ms() < end; t_sleep_ms(2)) {
        left = 0;
        for (int i = 0; i < N; i++) {
            struct silence *s = &silences[i];
            const int64_t before = hfi_boot_ms();
            if (s->unwatched) {
                left += watch_told(&s->watch) == 0;
                continue;
            }
            if (s->invalid_ms)
                continue;
            left++;
            if (!hf_lease_valid(s->watch.lease))
                s->invalid_ms = hfi_boot_ms();
            else if (before >= latest_ms(s))
                fail_msg("%s: valid %lld ms after its time", s->name, (long long)(before - latest_ms(s)));
        }
    }
}

static void check_end(struct silence *s)
{
    const int64_t deadline = hf_lease_deadline_ms(s->watch.lease), latest = latest_ms(s);
    if (!watch_wait_told(&s->watch, SOON))
        fail_msg("%s: the loss was not told", s->name);
    if (deadline > latest || deadline < latest - SLACK)
        fail_msg("%s: the local deadline is %lld ms before the latest moment allowed", s->name, (long long)(latest - deadline));
    if (s->watch.told_ms < deadline || s->watch.told_ms > deadline + SLACK)
        fail_msg("%s: told %lld ms after the deadline", s->name, (long long)(s->watch.told_ms - deadline));
    if (!s->unwatched && (s->invalid_ms < deadline || s->invalid_ms > deadline + SLACK))
        fail_msg("%s: invalid %lld ms after the deadline", s->name, (long long)(s->invalid_ms - deadline));
    assert_string_equal(s->watch.reason, "DEADLINE");
    assert_int_equal(s->watch.renewed, HF_LOST); /* within the callback, and while the network was still dead */
    assert_int_equal(s->watch.wrote, HF_LOST);
    assert_false(hf_lease_valid(s->watch.lease));
    assert_int_equal(hf_lease_remaining_ms(s->watch.lease), 0);
}

/* The network is well again, but nothing of this lease goes out. */
static void check_refused(struct silence *s)
{
    hf_error error;
    px_remove(s->px, s->fault);
    px_dark(s->px, false);
    assert_int_equal(hf_write(s->watch.lease, NULL, "late", 4, NULL, &error), HF_LOST);
    assert_string_equal(error.reason, "DEADLINE");
    assert_int_equal(hf_delete(s->watch.lease, NULL, NULL, &error), HF_LOST);
    assert_int_equal(hf_renew_now(s->watch.lease, &error), HF_LOST);
    assert_int_equal(hf_release(s->watch.lease, &error), HF_LOST);
    assert_true(px_wait_quiet(s->px, SOON));
    s->renewals = px_count(s->px, s->all_renewals).seen;
}

static void next_holder(struct silence *s, hf_client *b)
{
    const hf_acquire_options options = {.resource = s->resource, .ttl_ms = 60000, .wait_ms = ttl_ms + SOON};
    hf_lease *next = NULL;
    hf_error error;
    if (hf_acquire(b, &options, &next, NULL, &error) != HF_OK)
        fail_msg("%s: %s", s->name, error.message);
    assert_int_equal(hf_lease_token(next), 2);
    assert_int_equal(hf_write(next, NULL, "next", 4, NULL, &error), HF_OK);
    hf_lease_free(next);
}

static void check_after(struct silence *s)
{
    hf_error error;
    hf_value value;
    if (hf_read(s->watch.client, s->resource, &value, &error) != HF_OK) /* the client itself is well */
        fail_msg("%s: %s", s->name, error.message);
    assert_string_equal(value.data, "next");
    hf_value_release(&value);
    assert_false(hf_lease_valid(s->watch.lease));
    assert_int_equal(watch_told(&s->watch), 1);
    assert_int_equal(px_count(s->px, s->all_renewals).seen, s->renewals);
    for (int i = 0; i < 3; i++)
        assert_int_equal(px_count(s->px, s->commits[i]).seen, 0);
}

static void a_lease_whose_renewals_are_dead_ends_in_time(void **state)
{
    (void)state;
    const hf_client_options options = {.servers = server->url};
    hf_client *b = NULL;
    assert_int_equal(hf_client_new(&options, &b, NULL), HF_OK);
    for (int i = 0; i < N; i++)
        begin(&silences[i], i);
    watch_all();
    for (int i = 0; i < N; i++)
        check_end(&silences[i]);
    for (int i = 0; i < N; i++)
        check_refused(&silences[i]);
    for (int i = 0; i < N; i++)
        next_holder(&silences[i], b);
    for (int i = 0; i < N; i++)
        check_after(&silences[i]);
    for (int i = 0; i < N; i++) {
        watch_stop(&silences[i].watch);
        px_stop(silences[i].px);
    }
    hf_client_free(b);
    assert_int_equal(oracle_check(conn, "default", NULL), 3 * N); /* grant, takeover, the next one's write */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_whose_renewals_are_dead_ends_in_time),
    };
    return cmocka_run_group_tests(tests, setup, end_serving);
}
