/*
 * errand.c - work that takes its time, on a connection that is opened for it: sweeping, and making and dropping partitions of the
 * audit.
 *
 * It would hold up what is sent with it: a sweep reads whole tables, and to detach a partition beside traffic, PostgreSQL waits
 * for every transaction that might still see it. Who has had an errand will have another, so the connection stays for a minute. One
 * errand at a time, one statement after the other, each a transaction of its own (DETACH … CONCURRENTLY must be). An errand can be
 * left at any point, and so is done again when its connection breaks; the next one goes on where it stopped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"

enum { LINGER_MS = 60000 };

struct step {
    struct list_node node;
    enum {
        STEP_DO,    /* its rows don't matter */
        STEP_COUNT, /* a number: so much was done */
        STEP_LIST,  /* statements to carry out */
        STEP_ONE    /* one more was done */
    } what;
    char sql[];
};

static void free_steps(struct list *steps)
{
    struct list_node *node;
    while ((node = list_pop_front(steps)))
        free(list_entry(node, struct step, node));
}

static bool add_step(struct st_errands *errands, int what, const char *sql)
{
    size_t len = strlen(sql) + 1;
    struct step *step = malloc(sizeof(*step) + len);
    if (!step)
        return false;
    *step = (struct step){.what = what};
    memcpy(step->sql, sql, len);
    list_push_back(&errands->steps, &step->node);
    return true;
}

/* ------------------------------------------------------------------------------------------------ items */

bool st_is_errand(enum st_kind kind)
{
    return kind == ST_SWEEP || kind == ST_MAKE_PARTITIONS || kind == ST_DROP_PARTITIONS;
}

void st_errands_init(struct st_store *store)
{
    list_init(&store->errands.items);
    list_init(&store->errands.steps);
    st_conn_init(&store->errands.conn, store, &st_errands_role, 0);
}

void st_errand_add(struct st_store *store, struct st_item *item)
{
    struct st_conn *conn = &store->errands.conn;
    list_push_back(&store->errands.items, &item->queued.node);
    if (conn->state == ST_CONN_SERVING && conn->expected == 0)
        st_conn_set_timer(conn, 0); /* it lingers: `idle` is called */
    else
        st_conn_want(conn);
}

void st_errand_remove(struct st_store *store, struct st_item *item)
{
    struct st_errands *errands = &store->errands;
    bool running = errands->running && list_first(&errands->items) == &item->queued.node;
    list_remove(&errands->items, &item->queued.node);
    if (!running)
        return;
    item->flags |= ST_MAYBE_DONE;
    if (errands->conn.state == ST_CONN_SERVING)
        st_conn_rest(&errands->conn); /* its statement_timeout ends what is still under way */
    if (!list_empty(&errands->items))
        st_conn_want(&errands->conn);
}

static struct st_item *present(const struct st_errands *errands)
{
    return list_empty(&errands->items) ? NULL : st_item_of(list_first(&errands->items));
}

/* ------------------------------------------------------------------------------------------------ steps */

static int bounded(int64_t number, int least, int most)
{
    return number < least ? least : number > most ? most : (int)number;
}

static bool plan(struct st_store *store, const struct st_item *item)
{
    struct st_errands *errands = &store->errands;
    char sql[128];
    snprintf(sql, sizeof(sql), "SELECT set_config('statement_timeout', '%d', false)",
             bounded(item->deadline_ms - store->io->now_ms(store->io), 1, INT32_MAX));
    if (!add_step(errands, STEP_DO, sql))
        return false;
    if (item->kind == ST_DROP_PARTITIONS)
        return add_step(errands, STEP_LIST, "SELECT unnest(o.statements) FROM holdfast.old_partitions() o");
    if (item->kind == ST_SWEEP)
        snprintf(sql, sizeof(sql), "SELECT holdfast.sweep(%d)", bounded(item->in.sweep.max, 1, 1000000));
    else
        snprintf(sql, sizeof(sql), "SELECT holdfast.make_partitions(%d)", bounded(item->in.partitions.months_ahead, 0, 1200));
    return add_step(errands, STEP_COUNT, sql);
}

/* The present errand is over. */
static void finish(struct st_conn *conn, enum st_outcome outcome, const char *sqlstate)
{
    struct st_store *store = conn->store;
    struct st_errands *errands = &store->errands;
    struct st_item *item = present(errands);
    free_steps(&errands->steps);
    errands->running = false;
    list_remove(&errands->items, &item->queued.node);
    heap_remove(&store->deadlines, &item->deadline);
    item->out.done.rows = errands->done;
    store->stats[item->kind].batches++;
    store->stats[item->kind].items++;
    memcpy(item->sqlstate, sqlstate, 6);
    st_item_end(store, item, outcome);
}

/* The next statement is sent, if there is one. */
static void go_on(struct st_conn *conn)
{
    struct st_errands *errands = &conn->store->errands;
    if (errands->running && list_empty(&errands->steps))
        finish(conn, ST_FOUND, "00000");
    while (!errands->running && present(errands)) {
        errands->running = true;
        errands->done = 0;
        if (!plan(conn->store, present(errands)))
            finish(conn, ST_FAILED, "53200");
    }
    if (!errands->running) {
        st_conn_set_timer(conn, LINGER_MS);
        return;
    }
    conn->store->io->timer_cancel(conn->store->io, &conn->timer);
    const struct step *step = list_entry(list_first(&errands->steps), struct step, node);
    if (!st_conn_send_sql(conn, step->sql) || !st_conn_sync(conn) || !st_conn_flush_output(conn))
        st_conn_retry(conn, PQerrorMessage(conn->pg));
}

/* What the statement answered leads to. False: no memory. */
static bool take_rows(struct st_errands *errands, const struct step *step, const PGresult *res)
{
    if (step->what == STEP_ONE)
        errands->done++;
    if (step->what == STEP_COUNT && PQntuples(res) == 1)
        errands->done += strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    if (step->what != STEP_LIST)
        return true;
    for (int row = 0; row < PQntuples(res); row++) {
        const char *sql = PQgetvalue(res, row, 0);
        if (!add_step(errands, strncmp(sql, "DROP", 4) == 0 ? STEP_ONE : STEP_DO, sql))
            return false;
    }
    return true;
}

static bool result(struct st_conn *conn, PGresult *res)
{
    struct st_errands *errands = &conn->store->errands;
    ExecStatusType status = PQresultStatus(res);
    if (status == PGRES_PIPELINE_SYNC) {
        free(list_entry(list_pop_front(&errands->steps), struct step, node));
        if (errands->sqlstate[0]) {
            log_warn("store.errand_failed", log_str("kind", st_kinds[present(errands)->kind].name),
                     log_str("sqlstate", errands->sqlstate), log_int("done", errands->done));
            finish(conn, ST_FAILED, errands->sqlstate);
            errands->sqlstate[0] = 0;
        }
    } else if (st_result_ok(res)) {
        if (!take_rows(errands, list_entry(list_first(&errands->steps), struct step, node), res))
            memcpy(errands->sqlstate, "53200", 6);
    } else if (!errands->sqlstate[0]) {
        const char *sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
        memcpy(errands->sqlstate, sqlstate && strlen(sqlstate) == 5 ? sqlstate : "XX000", 6);
    }
    PQclear(res);
    return true;
}

/* ------------------------------------------------------------------------------------------------ the session */

static bool wanted(const struct st_conn *conn)
{
    return present(&conn->store->errands) != NULL;
}

static bool send_setup(struct st_conn *conn)
{
    return st_conn_send_sql(conn, st_settings_sql) && st_conn_sync(conn);
}

static bool setup_result(struct st_conn *conn, const PGresult *res)
{
    (void)conn;
    return st_result_ok(res);
}

static void served(struct st_conn *conn)
{
    if (conn->expected == 0)
        go_on(conn);
}

static void begin(struct st_conn *conn)
{
    (void)conn; /* `served` follows */
}

/* There is something to do, or nobody has wanted anything for long. */
static void idle(struct st_conn *conn)
{
    if (wanted(conn))
        go_on(conn);
    else
        st_conn_rest(conn);
}

static void lost(struct st_conn *conn)
{
    struct st_errands *errands = &conn->store->errands;
    free_steps(&errands->steps);
    if (errands->running && conn->store->closing)
        present(errands)->flags |= ST_MAYBE_DONE;
    errands->running = false;
    errands->sqlstate[0] = 0;
}

const struct st_role st_errands_role = {.application_name = "holdfastd errands",
                                        .send_setup = send_setup,
                                        .setup_result = setup_result,
                                        .begin = begin,
                                        .result = result,
                                        .served = served,
                                        .lost = lost,
                                        .idle = idle,
                                        .wanted = wanted};
