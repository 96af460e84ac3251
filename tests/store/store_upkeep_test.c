/*
 * store_upkeep_test.c - what operators and the server itself do now and then: namespaces and their policies, the audit, sweeping,
 * and partitions that are made and dropped beside traffic.
 */
#include "store/store_env.h"

/* ------------------------------------------------------------------------------------------------ namespaces */

static const struct st_policy unset = {ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET, ST_UNSET};
static struct st_policy seen;
static int64_t floor_seen;
static bool retired_seen;

static void look_namespace(struct st_item *item)
{
    assert_int_equal(item->out.namespaces.n, 1);
    assert_string_equal(item->out.namespaces.rows[0].name, item->ns);
    seen = item->out.namespaces.rows[0].policy;
    floor_seen = item->out.namespaces.rows[0].fence_floor;
    retired_seen = item->out.namespaces.rows[0].retired;
}

static enum st_outcome set(enum st_kind kind, const char *name, struct st_policy policy)
{
    struct work w;
    prepare(&w, kind, "");
    w.item.ns = name;
    w.item.resource = NULL;
    w.item.in.namespaces.policy = policy;
    w.item.in.namespaces.actor = "operator";
    w.look = kind == ST_SET_NAMESPACE && strcmp(name, "nowhere") == 0 ? NULL : look_namespace;
    return call(&w);
}

static void namespaces_are_made_and_changed(void **state)
{
    (void)state;
    struct st_policy policy = unset;
    assert_int_equal(set(ST_CREATE_NAMESPACE, "plain", policy), ST_FOUND);
    assert_int_equal(seen.min_ttl_ms, 100);
    assert_int_equal(seen.max_ttl_ms, 86400000);
    assert_int_equal(seen.audit_keep_days, 400);
    assert_int_equal(seen.max_leases, 0);
    assert_int_equal(floor_seen, 0);
    assert_false(retired_seen);
    policy = (struct st_policy){500, 1000, 60000, 1, 10, 20, 30, 40};
    assert_int_equal(set(ST_CREATE_NAMESPACE, "full", policy), ST_FOUND);
    assert_memory_equal(&seen, &policy, sizeof(policy));
    assert_int_equal(set(ST_CREATE_NAMESPACE, "full", policy), ST_FOUND); /* a repeat */
    assert_int_equal(set(ST_CREATE_NAMESPACE, "full", unset), ST_CONFLICT);
    assert_memory_equal(&seen, &policy, sizeof(policy));
    struct st_policy change = unset;
    change.audit_writes = 0;
    change.max_waiters = 0;
    assert_int_equal(set(ST_SET_NAMESPACE, "full", change), ST_FOUND);
    policy.audit_writes = policy.max_waiters = 0;
    assert_memory_equal(&seen, &policy, sizeof(policy));
    change.min_ttl_ms = 60001;
    assert_int_equal(set(ST_SET_NAMESPACE, "full", change), ST_CONTRADICTION);
    assert_int_equal(set(ST_SET_NAMESPACE, "nowhere", unset), ST_NO_SUCH_NAMESPACE);
}

static char names_seen[300];

static void look_names(struct st_item *item)
{
    names_seen[0] = 0;
    for (size_t i = 0; i < item->out.namespaces.n; i++)
        snprintf(names_seen + strlen(names_seen), sizeof(names_seen) - strlen(names_seen), "%s ",
                 item->out.namespaces.rows[i].name);
    if (item->out.namespaces.more)
        strcat(names_seen, "…");
}

static void namespaces_are_listed_by_pages(void **state)
{
    (void)state;
    struct work w;
    set(ST_CREATE_NAMESPACE, "b", unset);
    set(ST_CREATE_NAMESPACE, "a", unset);
    prepare(&w, ST_LIST_NAMESPACES, "")->ns = "";
    w.item.in.namespaces.max = 2;
    w.look = look_names;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(names_seen, "a b …");
    prepare(&w, ST_LIST_NAMESPACES, "")->ns = "";
    w.item.in.namespaces.max = 2;
    w.item.in.namespaces.after = "b";
    w.look = look_names;
    assert_int_equal(call(&w), ST_FOUND);
    assert_string_equal(names_seen, "default ");
}

static void policies_refuse_with_their_limits(void **state)
{
    (void)state;
    struct work w;
    struct st_policy policy = unset;
    policy.min_ttl_ms = 1000;
    policy.max_ttl_ms = 70000;
    policy.max_leases = 1;
    policy.max_value_bytes = 10;
    policy.max_waiters = 7;
    assert_int_equal(set(ST_SET_NAMESPACE, "default", policy), ST_FOUND);
    prepare_acquire(&w, "r", "request");
    w.item.in.acquire.ttl_ms = 999;
    assert_int_equal(call(&w), ST_TTL_BOUNDS);
    assert_int_equal(w.item.out.acquire.min_ttl_ms, 1000);
    assert_int_equal(w.item.out.acquire.max_ttl_ms, 70000);
    int64_t token = acquire("r");
    prepare_acquire(&w, "s", "request");
    assert_int_equal(call(&w), ST_QUOTA);
    assert_int_equal(w.item.out.acquire.limit, 1);
    prepare_acquire(&w, "r", "other");
    assert_int_equal(call(&w), ST_HELD);
    assert_int_equal(w.item.out.acquire.max_waiters, 7);
    prepare(&w, ST_WRITE, "r")->in.write.token = token;
    w.item.in.write.value = (struct st_bytes){(const unsigned char *)"01234567890", 11};
    assert_int_equal(call(&w), ST_QUOTA);
    assert_int_equal(w.item.out.write.limit, 10);
    prepare(&w, ST_RELEASE, "r")->in.release.token = token;
    assert_int_equal(call(&w), ST_FREED);
    acquire("s");
}

/* ------------------------------------------------------------------------------------------------ audit */

static int64_t last_id;
static int n_entries;

static void look_audit(struct st_item *item)
{
    for (size_t i = 0; i < item->out.audit.n; i++) {
        const struct st_audit_row *row = &item->out.audit.rows[i];
        assert_true(row->id < last_id || last_id == 0);
        assert_true(row->at_unix_ms > INT64_C(1500000000000));
        assert_string_equal(row->resource, "r");
        assert_string_equal(row->actor, "me");
        last_id = row->id;
        n_entries++;
    }
    if (n_entries == 1)
        assert_string_equal(item->out.audit.rows[0].kind, "release");
    assert_int_equal(item->out.audit.more, n_entries < 4);
}

static void the_audit_is_listed_by_pages(void **state)
{
    (void)state;
    struct work w;
    last_id = n_entries = 0;
    for (int i = 0; i < 2; i++) {
        prepare_acquire(&w, "r", t_printf("request%d", i));
        assert_int_equal(call(&w), ST_GRANTED);
        prepare(&w, ST_RELEASE, "r")->in.release.token = i + 1;
        assert_int_equal(call(&w), ST_FREED);
    }
    acquire("s");
    for (int page = 0; page < 4; page++) {
        prepare(&w, ST_AUDIT, "")->resource = NULL;
        w.item.in.audit.resource = "r";
        w.item.in.audit.after_id = last_id;
        w.item.in.audit.max = 1;
        w.look = look_audit;
        assert_int_equal(call(&w), ST_FOUND);
        assert_int_equal(n_entries, page + 1);
    }
    prepare(&w, ST_AUDIT, "")->ns = "nowhere";
    w.item.in.audit.max = 1;
    assert_int_equal(call(&w), ST_NO_SUCH_NAMESPACE);
}

/* ------------------------------------------------------------------------------------------------ errands */

static struct st_item *prepare_errand(struct work *work, enum st_kind kind)
{
    struct st_item *item = prepare(work, kind, "");
    item->ns = "";
    item->resource = NULL;
    return item;
}

static void sweeping_notes_what_ran_out(void **state)
{
    (void)state;
    struct work w;
    prepare_acquire(&w, "brief", "request");
    w.item.in.acquire.ttl_ms = 100;
    assert_int_equal(call(&w), ST_GRANTED);
    acquire("long");
    t_sleep_ms(120);
    prepare_errand(&w, ST_SWEEP)->in.sweep.max = 100;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(w.item.out.done.rows, 1);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE kind = 'expire' AND resource = 'brief'"), 1);
    prepare_errand(&w, ST_SWEEP)->in.sweep.max = 100;
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(w.item.out.done.rows, 0);
    /* The connection stays for the next one. */
    assert_int_equal(t_sql_int(sql,
                               "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfastd errands' AND datname "
                               "= current_database()"),
                     1);
}

#define PARTITIONS                                                                                                                 \
    "SELECT count(*) FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relname ~ '^audit_[0-9]+_[0-9]+$'"

static void make_old_partition(const char *month, const char *next)
{
    t_sql(sql, "CREATE TABLE holdfast.audit_%.4s_%.2s (LIKE holdfast.audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS)", month,
          month + 5);
    t_sql(sql,
          "ALTER TABLE holdfast.audit ATTACH PARTITION holdfast.audit_%.4s_%.2s FOR VALUES FROM ('%s-01 00:00+00') TO ('%s-01 "
          "00:00+00')",
          month, month + 5, month, next);
}

static void partitions_are_made_and_dropped(void **state)
{
    (void)state;
    struct work w, both[2];
    int64_t before = t_sql_int(sql, PARTITIONS);
    prepare_errand(&w, ST_MAKE_PARTITIONS)->in.partitions.months_ahead = 12;
    assert_int_equal(call(&w), ST_FOUND);
    assert_true(w.item.out.done.rows > 0);
    assert_int_equal(t_sql_int(sql, PARTITIONS), before + w.item.out.done.rows);
    before = t_sql_int(sql, PARTITIONS);
    make_old_partition("2020-01", "2020-02");
    make_old_partition("2020-02", "2020-03");
    /* Two at once: one after the other. */
    for (int i = 0; i < 2; i++) {
        prepare_errand(&both[i], ST_DROP_PARTITIONS);
        submit(&both[i]);
    }
    run_until(all_done, LONG_MS);
    assert_int_equal(both[0].item.outcome, ST_FOUND);
    assert_int_equal(both[0].item.out.done.rows, 2);
    assert_int_equal(both[1].item.outcome, ST_FOUND);
    assert_int_equal(both[1].item.out.done.rows, 0);
    assert_int_equal(t_sql_int(sql, PARTITIONS), before);
    acquire("r");
}

static bool detach_waits(void)
{
    return *t_sql(sql,
                  "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd errands' AND datname = current_database() "
                  "AND wait_event_type = 'Lock'");
}

static bool errand_is_gone(void)
{
    return !*t_sql(sql,
                   "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd errands' AND datname = current_database() "
                   "AND state = 'active'");
}

/* A transaction that has looked at the audit holds up the errand, and nobody else; the errand ends in time, half done. */
static void dropping_holds_up_nobody(void **state)
{
    (void)state;
    struct work drop, w;
    PGconn *other = t_connect(dsn);
    make_old_partition("2020-01", "2020-02");
    t_sql(other, "BEGIN; SELECT count(*) FROM holdfast.audit");
    prepare_errand(&drop, ST_DROP_PARTITIONS)->deadline_ms = t_now_ms() + 3000;
    submit(&drop);
    run_until(detach_waits, LONG_MS);
    for (int i = 0; i < 20; i++) {
        prepare_acquire(&w, t_printf("r%d", i), "request");
        submit(&w);
        wait_for(&w);
        assert_int_equal(w.item.outcome, ST_GRANTED);
    }
    assert_int_equal(drop.done, 0);
    run_until(all_done, LONG_MS);
    assert_int_equal(drop.item.outcome, ST_OUTCOME_LOST);
    assert_in_range(drop.done_ms - drop.item.deadline_ms, 0, T_AT_ONCE_MS);
    t_sql(other, "ROLLBACK");
    PQfinish(other);
    run_until(errand_is_gone, LONG_MS);
    prepare_errand(&drop, ST_DROP_PARTITIONS);
    assert_int_equal(call(&drop), ST_FOUND);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM pg_class WHERE relname = 'audit_2020_01'"), 0);
}

static void an_errand_that_fails_says_why(void **state)
{
    (void)state;
    struct work w;
    t_sql(
        sql,
        "CREATE OR REPLACE FUNCTION holdfast.sweep(p_max int) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RAISE EXCEPTION 'no' USING "
        "ERRCODE = 'ZZ125'; END $f$");
    prepare_errand(&w, ST_SWEEP)->in.sweep.max = 100;
    assert_int_equal(call(&w), ST_FAILED);
    assert_string_equal(w.item.sqlstate, "ZZ125");
    prepare_errand(&w, ST_MAKE_PARTITIONS)->in.partitions.months_ahead = 1;
    assert_int_equal(call(&w), ST_FOUND);
}

static bool sweeps(void)
{
    return *t_sql(sql,
                  "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd errands' AND datname = current_database() "
                  "AND wait_event = 'PgSleep'");
}

static void an_errand_is_done_again_when_its_connection_breaks(void **state)
{
    (void)state;
    struct work w, refused;
    t_sql(sql,
          "CREATE SEQUENCE public.once; CREATE OR REPLACE FUNCTION holdfast.sweep(p_max int) RETURNS int LANGUAGE plpgsql AS $f$ "
          "BEGIN IF nextval('public.once') = 1 THEN PERFORM pg_sleep(30); END IF; RETURN 7; END $f$");
    prepare_errand(&w, ST_SWEEP)->in.sweep.max = 100;
    submit(&w);
    run_until(sweeps, LONG_MS);
    t_sql(sql, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd errands' AND datname = "
               "current_database()");
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_FOUND);
    assert_int_equal(w.item.out.done.rows, 7);
    /* Closing ends it. */
    t_sql(sql, "SELECT setval('public.once', 1, false)");
    prepare_errand(&w, ST_SWEEP)->in.sweep.max = 100;
    prepare_errand(&refused, ST_DROP_PARTITIONS);
    submit(&w);
    submit(&refused);
    run_until(sweeps, LONG_MS);
    st_close(store);
    store = NULL;
    assert_int_equal(pending, 0);
    assert_int_equal(w.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(refused.item.outcome, ST_DATABASE_DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(namespaces_are_made_and_changed),
        STORE_TEST(namespaces_are_listed_by_pages),
        STORE_TEST(policies_refuse_with_their_limits),
        STORE_TEST(the_audit_is_listed_by_pages),
        STORE_TEST(sweeping_notes_what_ran_out),
        STORE_TEST(partitions_are_made_and_dropped),
        STORE_TEST(dropping_holds_up_nobody),
        STORE_TEST(an_errand_that_fails_says_why),
        STORE_TEST(an_errand_is_done_again_when_its_connection_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
