/*
 * client_test.c - each allocation of the client library fails once in turn, for a client, an acquire, a write and a release,
 * against a real server, over nng's protocol and over gRPC with TLS (of which OpenSSL's and nghttp2's own allocations don't fail).
 * What a call says is so in the database, and HF_UNKNOWN is the only answer that says nothing; the next call works.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "failing/points.h"
#include "harness/certs.h"

enum { POINTS_MAX = 1000, WATCH_S = 60, TIMEOUT_MS = 20000 };

static struct t_server *server;
static PGconn *sql;
static const char *urls[2], *ca; /* nng's, grpcs */
static int over;                 /* which of them */

enum step { NEW, ACQUIRE, WRITE, RELEASE, STEPS };
static const char *const step_names[STEPS] = {"hf_client_new", "hf_acquire", "hf_write", "hf_release"};

struct run {
    enum step step; /* that fails */
    int64_t wait_ms;
    char resource[64];
    hf_client *client;
    hf_lease *lease;
    int64_t token;
};

struct tally {
    long points, done, refused, unknown;
};

/* ------------------------------------------------------------------------------------------------ the calls */

static hf_result call_new(struct run *run, hf_error *error)
{
    hf_client_options options = {.servers = urls[over], .holder = "me", .timeout_ms = TIMEOUT_MS, .tls_ca_file = ca};
    return hf_client_new(&options, &run->client, error);
}

static hf_result call_acquire(struct run *run, hf_error *error)
{
    const hf_label label = {"host", "here"};
    hf_acquire_options options = {.resource = run->resource,
                                  .wait_ms = run->wait_ms,
                                  .request_id = "mine",
                                  .labels = &label,
                                  .n_labels = 1,
                                  .no_renewal = true};
    return hf_acquire(run->client, &options, &run->lease, NULL, error);
}

static hf_result call_write(struct run *run, hf_error *error)
{
    return hf_write(run->lease, NULL, "value", 5, NULL, error);
}

static hf_result call_release(struct run *run, hf_error *error)
{
    return hf_release(run->lease, error);
}

static hf_result (*const calls[STEPS])(struct run *run, hf_error *error) = {call_new, call_acquire, call_write, call_release};

/* How often what the call does was done. */
static int64_t times_done(const struct run *run)
{
    switch (run->step) {
    case NEW:
        return run->client != NULL;
    case ACQUIRE:
        return t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE resource = '%s' AND kind = 'grant'", run->resource);
    case WRITE:
        return t_sql_int(sql,
                         "SELECT coalesce(max(version), 0) FROM holdfast.resource_value WHERE resource = '%s' AND value = 'value'",
                         run->resource);
    default:
        return t_sql_int(sql, "SELECT count(*) FROM holdfast.lease WHERE resource = '%s' AND ended = 3", run->resource);
    }
}

/* ------------------------------------------------------------------------------------------------ one point */

static void must(struct run *run, enum step step)
{
    hf_error error;
    if (calls[step](run, &error) != HF_OK)
        fail_msg("%s: %s: %s: %s", fp_where(), step_names[step], hf_result_name(error.result), error.message);
}

/* The call has returned: it says what is so. */
static void judge(const struct run *run, hf_result result, const hf_error *error, struct tally *tally)
{
    int64_t done = times_done(run);
    bool refused = result == HF_NO_MEMORY || result == HF_UNAVAILABLE || (run->step == NEW && result == HF_FAILED);
    if (result != HF_OK && result != HF_UNKNOWN && !refused)
        fail_msg("%s: %s %s: %s", fp_where(), hf_result_name(result), error->reason, error->message);
    if ((result == HF_OK && done != 1) || (refused && done != 0) || done > 1)
        fail_msg("%s: %s: %s, but it was done %d times", fp_where(), hf_result_name(result), error->message, (int)done);
    if (error->result != result)
        fail_msg("%s: returns %s, and the error says %s", fp_where(), hf_result_name(result), hf_result_name(error->result));
    tally->done += result == HF_OK;
    tally->refused += refused;
    tally->unknown += result == HF_UNKNOWN;
}

/* What it takes before the call that fails. */
static void prepare(struct run *run)
{
    for (int step = NEW; step < (int)run->step; step++)
        must(run, (enum step)step);
}

/* The same call again, and those behind it. A released lease is over, whatever was answered. */
static void go_on(struct run *run, bool failed)
{
    if (failed && run->step != RELEASE)
        must(run, run->step);
    for (int step = run->step + 1; step < STEPS; step++)
        must(run, (enum step)step);
}

static void one(struct run *run, const struct fp_plan *plan, struct tally *tally)
{
    size_t live = fp_live();
    hf_error error;
    fp_watch(WATCH_S);
    fp_enter_all();
    prepare(run);
    fp_arm(plan);
    hf_result result = calls[run->step](run, &error);
    tally->points += fp_disarm() != 0;
    fp_leave_all();
    judge(run, result, &error, tally);
    fp_enter_all();
    go_on(run, result != HF_OK);
    assert_string_equal(hf_lease_loss(run->lease), "RELEASED");
    hf_lease_free(run->lease);
    hf_client_free(run->client);
    fp_leave_all();
    assert_int_equal(t_sql_int(sql, "SELECT fence FROM holdfast.resource WHERE name = '%s'", run->resource), 1);
    if (fp_live() != live) {
        fp_print_live();
        fail_msg("leaks: %s", fp_where());
    }
}

static void run_step(enum step step, int64_t wait_ms)
{
    struct tally tally = {0};
    struct fp_plan plan = {.kind = FP_MEMORY, .what = step_names[step]};
    int64_t began = t_now_ms();
    long before;
    fp_forget();
    do {
        struct run run = {.step = step, .wait_ms = wait_ms};
        before = tally.points;
        plan.from = before + 1;
        snprintf(run.resource, sizeof(run.resource), "%s-%d-%d-%ld", step_names[step], over, (int)wait_ms, plan.from);
        one(&run, &plan, &tally);
        assert_true(tally.points < POINTS_MAX);
    } while (tally.points > before);
    fp_watch(0);
    printf("%s, %.5s%s: %ld points of memory, %lld ms: %ld done, %ld refused, %ld unknown\n", step_names[step], urls[over],
           wait_ms ? ", may wait" : "", tally.points, (long long)(t_now_ms() - began), tally.done, tally.refused, tally.unknown);
    fflush(stdout);
    assert_true(tally.points > 0);
}

static void a_client(void **state)
{
    over = *state != NULL;
    run_step(NEW, 0);
}

static void an_acquire(void **state)
{
    over = *state != NULL;
    run_step(ACQUIRE, 0);
}

static void an_acquire_that_may_wait(void **state)
{
    over = *state != NULL;
    run_step(ACQUIRE, 5000);
}

static void a_write(void **state)
{
    over = *state != NULL;
    run_step(WRITE, 0);
}

static void a_release(void **state)
{
    over = *state != NULL;
    run_step(RELEASE, 0);
}

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database(), *dir = t_tmpdir();
    t_cert_ca(dir, "ca");
    t_cert(dir, "ca", "server", &(struct t_cert){.san = "IP:127.0.0.1"});
    ca = t_printf("%s/ca.pem", dir);
    server = t_server_start("--dsn", dsn, "--http", "127.0.0.1:0", "--tls-cert", t_printf("%s/server.pem", dir), "--tls-key",
                            t_printf("%s/server.key", dir), NULL);
    urls[0] = server->url;
    urls[1] = t_printf("grpcs://%s", server->http);
    sql = t_connect(dsn);
    return 0;
}

static int teardown(void **state)
{
    PQfinish(sql);
    return t_teardown(state);
}

int main(void)
{
#define OVER_BOTH(test)                                                                                                            \
    cmocka_unit_test(test),                                                                                                        \
    {                                                                                                                              \
        "grpcs: " #test, test, NULL, NULL, &over                                                                                   \
    }
    const struct CMUnitTest tests[] = {
        OVER_BOTH(a_client), OVER_BOTH(an_acquire), OVER_BOTH(an_acquire_that_may_wait), OVER_BOTH(a_write), OVER_BOTH(a_release),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
