/*
 * store_env.h - for the tests of the store: a store on a fresh database, the loop run until something holds, and items that
 * note their end. Each program includes it once.
 */
#ifndef HOLDFAST_TESTS_STORE_ENV_H
#define HOLDFAST_TESTS_STORE_ENV_H

#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/loop.h"
#include "store/migrate.h"
#include "store/store.h"

enum { LONG_MS = 20000 };

static struct loop *loop;
static struct io *io;
static struct st_store *store;
static PGconn *sql;
static const char *dsn;
static int pending, finished;

/* ------------------------------------------------------------------------------------------------ the loop, until */

static bool (*until_cond)(void);
static int64_t until_ms;
static bool until_met;
static struct io_timer until_timer;

static inline void until_tick(struct io_timer *timer)
{
    until_met = until_cond();
    if (until_met || t_now_ms() >= until_ms)
        loop_stop(loop);
    else
        io->timer_set(io, timer, io->now_ms(io) + 1);
}

/* Runs the loop until the condition holds; the test fails after `ms`. */
static inline void run_until(bool (*cond)(void), int ms)
{
    until_cond = cond;
    until_ms = t_now_ms() + ms;
    until_timer = (struct io_timer){.fire = until_tick};
    io->timer_set(io, &until_timer, io->now_ms(io));
    assert_int_equal(loop_run(loop), 0);
    assert_true(until_met);
}

static inline bool all_done(void)
{
    return pending == 0;
}

static inline bool nobody_serves(void)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.connections_ready == 0;
}

static inline bool is_ready(void)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.connections_ready == stats.connections_wanted;
}

/* ------------------------------------------------------------------------------------------------ items */

struct work {
    struct st_item item;
    char name[64], text[300];
    int done;
    int64_t done_ms;
    void (*look)(struct st_item *item); /* outputs that are valid in `done` only */
};

static bool in_submit;

static inline void on_done(struct st_item *item)
{
    struct work *work = item->owner;
    assert_false(in_submit);
    work->done++;
    work->done_ms = t_now_ms();
    pending--;
    finished++;
    if (work->look)
        work->look(item);
}

static inline struct st_item *prepare(struct work *work, enum st_kind kind, const char *name)
{
    *work = (struct work){.item = {.kind = kind, .ns = "default", .resource = work->name, .done = on_done, .owner = work}};
    snprintf(work->name, sizeof(work->name), "%s", name);
    work->item.deadline_ms = t_now_ms() + LONG_MS;
    return &work->item;
}

static inline void submit(struct work *work)
{
    pending++;
    in_submit = true;
    st_submit(store, &work->item);
    in_submit = false;
}

static inline void prepare_acquire(struct work *work, const char *name, const char *request_id)
{
    struct st_item *item = prepare(work, ST_ACQUIRE, name);
    item->in.acquire.task = work->name;
    item->in.acquire.holder = "me";
    item->in.acquire.request_id = request_id;
    item->in.acquire.ttl_ms = 60000;
}

static inline void submit_acquire(struct work *work, const char *name)
{
    prepare_acquire(work, name, "request");
    submit(work);
}

static struct work *awaited;

static inline bool awaited_is_done(void)
{
    return awaited->done > 0;
}

static inline void wait_for(struct work *work)
{
    awaited = work;
    run_until(awaited_is_done, LONG_MS);
}

/* One item, waited for. */
static inline enum st_outcome call(struct work *work)
{
    submit(work);
    run_until(all_done, LONG_MS + 5000);
    assert_int_equal(work->done, 1);
    return work->item.outcome;
}

static inline int64_t acquire(const char *name)
{
    static struct work work;
    prepare_acquire(&work, name, "request");
    assert_int_equal(call(&work), ST_GRANTED);
    return work.item.out.acquire.token;
}

static inline struct st_kind_stats stats_of(enum st_kind kind)
{
    struct st_stats stats;
    st_stats(store, &stats);
    return stats.kinds[kind];
}

/* ------------------------------------------------------------------------------------------------ life */

static inline void install(const char *to)
{
    struct st_problem problem = {""};
    if (st_migrate(to, NULL, NULL, &problem) != ST_MIGRATE_OK)
        fail_msg("%s", problem.text);
}

static inline void open_store(const struct st_config *given, const char *to, bool wait)
{
    struct st_config cfg = *given;
    cfg.dsn = to;
    cfg.connections = cfg.connections ? cfg.connections : 1;
    store = st_open(&cfg, io, NULL, NULL);
    assert_non_null(store);
    if (wait)
        run_until(is_ready, 10000);
}

static inline void reopen(const struct st_config *given)
{
    st_close(store);
    open_store(given, dsn, true);
}

static inline int setup(void **state)
{
    (void)state;
    if (!getenv("HOLDFAST_TEST_LOG"))
        log_setup(LOG_AT_NONE, LOG_AS_LOGFMT, NULL, NULL);
    else
        log_setup(LOG_AT_DEBUG, LOG_AS_LOGFMT, NULL, NULL);
    pending = finished = 0;
    loop = loop_new();
    assert_non_null(loop);
    io = loop_io(loop);
    dsn = t_database();
    install(dsn);
    sql = t_connect(dsn);
    open_store(&(struct st_config){0}, dsn, true);
    return 0;
}

static inline int teardown(void **state)
{
    st_close(store);
    store = NULL;
    PQfinish(sql);
    loop_free(loop);
    return t_teardown(state);
}

/* A trigger on the lease table that runs `body` for the resource `name`; NEW is passed on. */
static inline void on_lease(const char *name, const char *body)
{
    t_sql(
        sql,
        "CREATE OR REPLACE FUNCTION public.trap() RETURNS trigger LANGUAGE plpgsql AS $t$ BEGIN IF NEW.resource = '%s' THEN %s END "
        "IF; RETURN NEW; END $t$; DROP TRIGGER IF EXISTS trap ON holdfast.lease; CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON "
        "holdfast.lease FOR EACH ROW EXECUTE FUNCTION public.trap()",
        name, body);
}

static inline const char *backend(void)
{
    return t_sql(sql,
                 "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfastd' AND datname = current_database() LIMIT 1");
}

static inline bool backend_active(void)
{
    return *t_sql(sql,
                  "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd' AND datname = current_database() AND state "
                  "= 'active' AND query LIKE '%%_batch(%%'");
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
