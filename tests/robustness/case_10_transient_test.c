/*
 * case_10_transient_test.c - one transient error, then health; and a definite loss.
 *
 * For 60 % of the TTL renewals fail: UNAVAILABLE, connections reset, connections refused, replies lost, or serialization failures
 * (40001) in the database. Then all is well again. Wanted: the lease is kept under the same token, and nobody is told of a loss.
 * Each outage is played twice, side by side: beginning right after a good renewal, and at the moment a renewal is due. That is the
 * worst moment: of the TTL less its margin 62 % are left, so here the outage is shorter, 55 % (and 45 % where connecting again
 * takes its time on top), to leave a busy machine 200 ms.
 *
 * A definite LOST, in contrast, ends the lease at once, is told once, and is never asked again.
 */
#include "harness/served.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"
#include "robustness/watch.h"

enum { SOON = 20000 };

static int64_t ttl_ms;

static int setup(void **state)
{
    serve(state);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 6000);
    oracle_audit_writes(conn, "default");
    return 0;
}

/* ------------------------------------------------------------------------------------------------ outages */

enum kind { UNAVAILABLE, CUT, REFUSED, LOST_REPLIES, SERIALIZATION, KINDS };
static const char *const kind_names[] = {"UNAVAILABLE", "cut", "refused", "replies lost", "40001"};

struct outage {
    enum kind kind;
    bool when_due;
    pthread_t thread;
    char resource[64], trouble[512];
    struct px *px;
    struct watch watch;
    int good;  /* rule: counts good replies */
    int fault; /* rule; -1 = none */
    PGconn *conn;
};

/* Renewals of resources named in holdfast.fault fail with 40001. */
static void plant_serialization_failures(void)
{
    t_sql(conn, "CREATE TABLE holdfast.fault (resource text PRIMARY KEY);"
                "ALTER FUNCTION holdfast.renew_batch(text[], text[], bigint[], bigint[], boolean) RENAME TO renew_batch_real;"
                "CREATE FUNCTION holdfast.renew_batch(p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], "
                "p_careful boolean) RETURNS TABLE (i int, outcome smallint, ttl_ms bigint) LANGUAGE plpgsql VOLATILE AS $$ BEGIN "
                "IF EXISTS (SELECT FROM holdfast.fault f WHERE f.resource = ANY (p_resource)) THEN "
                "RAISE EXCEPTION 'planted' USING ERRCODE = '40001'; END IF; "
                "RETURN QUERY SELECT * FROM holdfast.renew_batch_real(p_ns, p_resource, p_token, p_ttl_ms, p_careful); END $$");
}

static void serialization(struct outage *o, bool fail)
{
    const char *const values[] = {o->resource};
    PQclear(PQexecParams(o->conn,
                         fail ? "INSERT INTO holdfast.fault VALUES ($1)" : "DELETE FROM holdfast.fault WHERE resource = $1", 1,
                         NULL, values, NULL, NULL, 0));
}

/* Renewals fail from the next one on. */
static void begin(struct outage *o)
{
    struct px_rule rule = {.direction = PX_REQUEST, .method = "Renew"};
    o->fault = -1;
    switch (o->kind) {
    case UNAVAILABLE:
        rule.action = PX_STATUS;
        hp_status_set(&rule.status, HP_R_DATABASE_DOWN, "planted");
        break;
    case LOST_REPLIES:
        rule.direction = PX_REPLY;
        rule.action = PX_DROP;
        break;
    case CUT:
        rule.action = PX_CUT_BEFORE;
        break;
    case REFUSED:
        px_refuse(o->px, true);
        return;
    default:
        serialization(o, true);
        return;
    }
    o->fault = px_add(o->px, &rule);
}

static void end(struct outage *o)
{
    if (o->fault >= 0)
        px_remove(o->px, o->fault);
    px_refuse(o->px, false);
    if (o->kind == SERIALIZATION)
        serialization(o, false);
}

static void *play(void *arg)
{
    struct outage *o = arg;
    const int64_t token = hf_lease_token(o->watch.lease), granted = hf_lease_deadline_ms(o->watch.lease);
    hf_write_result written;
    hf_error error = {0};
    for (int64_t until = hfi_boot_ms() + SOON; hf_lease_deadline_ms(o->watch.lease) == granted; t_sleep_ms(1))
        NEED(o->trouble, error, hfi_boot_ms() < until); /* the first renewal: A has heard of it */
    int64_t start = px_count(o->px, o->good).last_ms, lasts = ttl_ms * 60 / 100;
    if (o->when_due) {
        /* The renewal that is due is the first one to fail: the rule waits for it, the others are timed. */
        start += ttl_ms / 3;
        lasts = ttl_ms * (o->kind == REFUSED ? 45 : 55) / 100;
        if (o->kind == REFUSED || o->kind == SERIALIZATION)
            t_sleep_ms((int)(start - 20 - hfi_boot_ms()));
    }
    begin(o);
    for (int64_t left; (left = start + lasts - hfi_boot_ms()) > 0;)
        t_sleep_ms((int)left);
    NEED(o->trouble, error, hf_lease_valid(o->watch.lease));
    const unsigned good = px_count(o->px, o->good).seen;
    end(o);
    if (o->fault >= 0)
        NEED(o->trouble, error, px_count(o->px, o->fault).done > 0);
    NEED(o->trouble, error, px_wait(o->px, o->good, good + 2, SOON)); /* well again: two renewals */
    NEED(o->trouble, error, hf_lease_valid(o->watch.lease));
    NEED(o->trouble, error, hf_lease_token(o->watch.lease) == token);
    NEED(o->trouble, error, hf_write(o->watch.lease, NULL, "kept", 4, &written, &error) == HF_OK);
    NEED(o->trouble, error, written.version == 1 && written.fence == token);
    NEED(o->trouble, error, watch_told(&o->watch) == 0);
out:
    return NULL;
}

static void a_lease_outlives_an_outage_of_60_percent_of_its_ttl(void **state)
{
    (void)state;
    static struct outage outages[KINDS * 2];
    const size_t n = sizeof(outages) / sizeof(outages[0]);
    char trouble[1024] = "";
    plant_serialization_failures();
    for (size_t i = 0; i < n; i++) {
        struct outage *o = &outages[i];
        o->kind = (enum kind)(i / 2);
        o->when_due = i % 2;
        o->conn = t_connect(server->dsn);
        o->px = px_start(server->url, 1);
        snprintf(o->resource, sizeof(o->resource), "case 10/%s/%d", kind_names[o->kind], o->when_due);
        watch_start(&o->watch, px_url(o->px), 0, o->resource, ttl_ms);
        o->good = px_add(o->px, &(struct px_rule){.direction = PX_REPLY, .method = "Renew", .action = PX_PASS});
        assert_int_equal(pthread_create(&o->thread, NULL, play, o), 0);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(outages[i].thread, NULL);
        watch_stop(&outages[i].watch);
        px_stop(outages[i].px);
        PQfinish(outages[i].conn);
    }
    for (size_t i = 0; i < n; i++)
        if (outages[i].trouble[0])
            snprintf(trouble + strlen(trouble), sizeof(trouble) - strlen(trouble), "%s: %s\n", outages[i].resource,
                     outages[i].trouble);
    if (trouble[0])
        fail_msg("%s", trouble);
    assert_int_equal(oracle_check(conn, "default", NULL), 2 * n); /* one grant and one write each */
}

/* ------------------------------------------------------------------------------------------------ losses */

/* What makes the next renewal of a resource answer so. By hand: the functions may find the row busy, and do nothing then. */
static const struct {
    const char *reason, *change;
} losses[] = {
    {"BROKEN", "UPDATE holdfast.lease SET deadline = '-infinity', ended = 4"},
    {"RELEASED", "UPDATE holdfast.lease SET deadline = '-infinity', ended = 3"},
    {"EXPIRED", "UPDATE holdfast.lease SET deadline = '-infinity'"},
    {"TAKEN_OVER", "UPDATE holdfast.lease SET token = 2"},
    {"UNKNOWN_TOKEN", "DELETE FROM holdfast.lease"},
};
enum { LOSSES = sizeof(losses) / sizeof(losses[0]) };

struct lost {
    pthread_mutex_t mutex;
    unsigned told;
    const char *reason;
};

static void on_loss(hf_lease *lease, const char *reason, void *arg)
{
    struct lost *lost = arg;
    (void)lease;
    pthread_mutex_lock(&lost->mutex);
    lost->told++;
    lost->reason = reason;
    pthread_mutex_unlock(&lost->mutex);
}

static bool all_told(void *arg)
{
    struct lost *lost = arg;
    bool all = true;
    for (int i = 0; i < LOSSES; i++) {
        pthread_mutex_lock(&lost[i].mutex);
        all &= lost[i].told > 0;
        pthread_mutex_unlock(&lost[i].mutex);
    }
    return all;
}

static int count_named(struct px *px, const char *resource)
{
    return px_add(px, &(struct px_rule){.direction = PX_REQUEST, .method = "Renew", .contains = resource, .action = PX_PASS});
}

static void a_definite_loss_is_never_asked_again(void **state)
{
    (void)state;
    struct px *px = px_start(server->url, 1);
    struct lost lost[LOSSES];
    hf_lease *leases[LOSSES];
    int rules[LOSSES];
    unsigned asked[LOSSES];
    struct watch kept; /* a lease of the same client that lives on: its renewals show that time goes by */
    hf_error error;
    watch_start(&kept, px_url(px), 0, "case 10/kept", ttl_ms);
    for (int i = 0; i < LOSSES; i++) {
        char *name = t_printf("case 10/loss/%s", losses[i].reason);
        const hf_acquire_options options = {.resource = name, .ttl_ms = ttl_ms, .on_loss = on_loss, .on_loss_arg = &lost[i]};
        lost[i] = (struct lost){.mutex = PTHREAD_MUTEX_INITIALIZER};
        rules[i] = count_named(px, name);
        assert_int_equal(hf_acquire(kept.client, &options, &leases[i], NULL, &error), HF_OK);
    }
    for (int i = 0; i < LOSSES; i++) {
        assert_true(px_wait(px, rules[i], 1, (int)ttl_ms + SOON)); /* it is renewed */
        t_sql(conn, "%s WHERE resource = '%s'", losses[i].change, hf_lease_resource(leases[i], 0));
    }
    assert_true(t_wait_for(all_told, lost, (int)ttl_ms + SOON));
    assert_true(px_wait_quiet(px, SOON));
    for (int i = 0; i < LOSSES; i++)
        asked[i] = px_count(px, rules[i]).seen;
    assert_true(px_wait(px, count_named(px, "case 10/kept"), 2, 2 * (int)ttl_ms + SOON));
    for (int i = 0; i < LOSSES; i++) {
        assert_string_equal(lost[i].reason, losses[i].reason);
        assert_int_equal(lost[i].told, 1);
        assert_int_equal(px_count(px, rules[i]).seen, asked[i]);
        assert_false(hf_lease_valid(leases[i]));
        assert_int_equal(hf_renew_now(leases[i], &error), HF_LOST);
        assert_string_equal(error.reason, losses[i].reason);
        assert_int_equal(px_count(px, rules[i]).seen, asked[i]);
        hf_lease_free(leases[i]);
    }
    assert_true(hf_lease_valid(kept.lease));
    assert_int_equal(watch_told(&kept), 0);
    watch_stop(&kept);
    px_stop(px);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_outlives_an_outage_of_60_percent_of_its_ttl),
        cmocka_unit_test(a_definite_loss_is_never_asked_again),
    };
    return cmocka_run_group_tests(tests, setup, end_serving);
}
