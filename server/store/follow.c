/*
 * follow.c - see follow.h: the connection that follows the audit trail.
 *
 * One statement at a time: the start, then looks every 100 ms, at once again if there was more than one look takes. Between two
 * looks one page of the trail is read, if somebody wants one. What is known (the highest id, the gaps) outlives the session, so
 * that a new one goes on where the last one stopped. Who has followed may soon follow again, so the connection stays for a while.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "store/engine.h"
#include "store/rows.h"

enum {
    LINGER_MS = 30000,
    FAILED_PAUSE_MS = 1000,
    WINDOW = 100000,    /* ids that are searched for gaps when it begins while somebody writes */
    LOOK_IDS = 2000,    /* at most, by one look: so that those who are told can take it before the next one */
    TIDY_AFTER = 50000, /* ids */
    COLUMNS = 9
};

enum { ROW_HEAD = -1, ROW_GAP = -2, ROW_NO_NAMESPACE = -3 };

#define COLUMN_NAMES "id, kind, namespace, resource, token, prior, actor, detail, at_unix_ms"
static const char *const names[] = {
    [ST_FOLLOW_START] = "follow_start", [ST_FOLLOW_LOOK] = "follow", [ST_FOLLOW_TRAIL] = "trail", [ST_FOLLOW_TIDY] = "follow_tidy"};
static const char *const statements[] = {
    [ST_FOLLOW_START] = "SELECT " COLUMN_NAMES " FROM holdfast.follow_start($1::int8)",
    [ST_FOLLOW_LOOK] =
        "SELECT " COLUMN_NAMES " FROM holdfast.follow($1::int8, $2::text::int8multirange, $3::int8[], $4::int8[], $5::int8)",
    [ST_FOLLOW_TRAIL] =
        "SELECT " COLUMN_NAMES " FROM holdfast.trail($1::text, $2::text, $3::int8, $4::int8, $5::text::int8multirange, $6::int4)",
    [ST_FOLLOW_TIDY] = "SELECT holdfast.follow_tidy()"};

static struct st_following *following_of(const struct st_conn *conn)
{
    return &conn->store->following;
}

/* ------------------------------------------------------------------------------------------------ rows */

static bool shape_ok(const PGresult *res)
{
    static const Oid types[COLUMNS] = {ST_OID_INT8, ST_OID_INT2, ST_OID_TEXT, ST_OID_TEXT, ST_OID_INT8,
                                       ST_OID_INT8, ST_OID_TEXT, ST_OID_TEXT, ST_OID_INT8};
    if (PQnfields(res) != COLUMNS)
        return false;
    for (int i = 0; i < COLUMNS; i++) {
        if (PQftype(res, i) != types[i] || PQfformat(res, i) != 1)
            return false;
    }
    return true;
}

static int64_t id_of(const PGresult *res, int row)
{
    return st_get_int8(res, row, 0);
}

static int kind_of(const PGresult *res, int row)
{
    return st_get_int2(res, row, 1);
}

static struct st_lease_event event_of(const PGresult *res, int row)
{
    return (struct st_lease_event){.id = id_of(res, row),
                                   .kind = (enum st_lease_event_kind)kind_of(res, row),
                                   .ns = st_get_text(res, row, 2),
                                   .resource = st_get_text(res, row, 3),
                                   .token = st_get_int8(res, row, 4),
                                   .prior = st_get_int8(res, row, 5),
                                   .actor = st_get_text(res, row, 6),
                                   .detail = st_get_text(res, row, 7),
                                   .at_unix_ms = st_get_int8(res, row, 8)};
}

/* The events among the rows, to be freed; NULL: no memory. */
static struct st_lease_event *events_of(const PGresult *res, int first, size_t *n)
{
    int rows = PQntuples(res);
    struct st_lease_event *events = malloc((size_t)(rows + 1) * sizeof(*events));
    *n = 0;
    for (int row = first; events && row < rows; row++) {
        if (kind_of(res, row) > 0)
            events[(*n)++] = event_of(res, row);
    }
    return events;
}

/* ------------------------------------------------------------------------------------------------ looks */

/* Nobody can tell any more what was missed. */
static void lose(struct st_following *f, const char *why)
{
    log_warn("store.follow_lost", log_str("why", why), log_int("high", f->gaps.high), log_int("gaps", (int64_t)f->gaps.n));
    bool told = f->begun;
    f->begun = false;
    if (told && f->follow)
        f->follow->lost(f->follow, why);
}

static uint64_t epoch_of(const PGresult *res)
{
    return hb_hash_mix(hb_hash_str(hb_hash_str(HB_HASH_SEED, st_get_text(res, 0, 2)), st_get_text(res, 0, 3)));
}

static void start(struct st_following *f, const PGresult *res)
{
    bool ok = co_gaps_begin(&f->gaps, id_of(res, 0), st_get_text(res, 0, 7));
    for (int row = 1; ok && row < PQntuples(res); row++)
        ok = kind_of(res, row) == ROW_GAP && co_gaps_add(&f->gaps, id_of(res, row), st_get_int8(res, row, 4));
    if (!ok) {
        lose(f, "the trail has too many open ends to begin with");
        f->next_ms = st_conn_now(&f->conn) + FAILED_PAUSE_MS;
        return;
    }
    f->epoch = epoch_of(res);
    f->begun = true;
    f->untidy = TIDY_AFTER; /* nobody may have done it for long */
    f->caught_up_ms = st_conn_now(&f->conn);
    f->follow->begun(f->follow);
}

/* The ids among the rows, to be freed; NULL: no memory. */
static int64_t *ids_of(const PGresult *res)
{
    int rows = PQntuples(res);
    int64_t *ids = malloc((size_t)rows * sizeof(*ids));
    for (int row = 1; ids && row < rows; row++)
        ids[row - 1] = id_of(res, row);
    return ids;
}

static void look(struct st_following *f, const PGresult *res)
{
    int64_t until = id_of(res, 0), highest = st_get_int8(res, 0, 4), was = f->gaps.high;
    size_t n;
    if (epoch_of(res) != f->epoch || highest < was) {
        lose(f, "the database was failed over or restored");
        f->next_ms = st_conn_now(&f->conn);
        return;
    }
    int64_t *ids = ids_of(res);
    struct st_lease_event *events = events_of(res, 1, &n);
    if (!ids || !events || !co_gaps_look(&f->gaps, until, st_get_text(res, 0, 7), ids, (size_t)PQntuples(res) - 1)) {
        lose(f, ids && events ? "the trail has too many open ends" : "no memory");
    } else {
        f->rows += PQntuples(res) - 1;
        f->untidy += until - was;
        if (until == highest)
            f->caught_up_ms = st_conn_now(&f->conn);
        else
            f->next_ms = st_conn_now(&f->conn);
        f->follow->told(f->follow, events, n);
    }
    free(ids);
    free(events);
}

static void page(struct st_following *f, const PGresult *res, bool ok)
{
    struct st_trail *trail = f->reading;
    size_t n = 0;
    f->reading = NULL;
    if (!trail)
        return; /* it was cancelled */
    bool none = ok && PQntuples(res) == 1 && kind_of(res, 0) == ROW_NO_NAMESPACE;
    struct st_lease_event *events = ok && !none ? events_of(res, 0, &n) : NULL;
    trail->outcome = none ? ST_NO_SUCH_NAMESPACE : events ? ST_FOUND : ST_FAILED;
    trail->covered = events && n >= ST_TRAIL_ROWS ? events[n - 1].id : trail->until;
    trail->done(trail, events, n);
    free(events);
}

/* ------------------------------------------------------------------------------------------------ asking */

static void build_gaps(struct st_params *params, const struct co_gaps *gaps, const char *open)
{
    int64_t from[CO_STRETCHES_MAX], to[CO_STRETCHES_MAX];
    size_t n = co_gaps_stretches(gaps, from, to);
    st_params_int8(params, gaps->high);
    st_params_text(params, open);
    st_params_array(params, ST_OID_INT8, n);
    for (size_t i = 0; i < n; i++)
        st_element_int8(params, from[i]);
    st_params_array(params, ST_OID_INT8, n);
    for (size_t i = 0; i < n; i++)
        st_element_int8(params, to[i]);
    st_params_int8(params, LOOK_IDS);
}

/* False: no memory. */
static bool build(struct st_following *f, enum st_follow_step step)
{
    struct st_params *params = &f->conn.params;
    st_params_reset(params);
    if (step == ST_FOLLOW_START) {
        st_params_int8(params, WINDOW);
    } else if (step == ST_FOLLOW_LOOK) {
        char *open = st_follow_open(f->conn.store);
        if (open)
            build_gaps(params, &f->gaps, open);
        free(open);
        return open && !params->failed;
    } else if (step == ST_FOLLOW_TRAIL) {
        st_params_text(params, f->reading->ns);
        st_params_text(params, f->reading->prefix);
        st_params_int8(params, f->reading->after);
        st_params_int8(params, f->reading->until);
        st_params_text(params, f->reading->except);
        st_params_int4(params, ST_TRAIL_ROWS);
    }
    return !params->failed;
}

static void send(struct st_following *f, enum st_follow_step step)
{
    const char *values[ST_PARAMS_MAX];
    int lengths[ST_PARAMS_MAX], formats[ST_PARAMS_MAX];
    struct st_conn *conn = &f->conn;
    if (!build(f, step)) {
        st_conn_set_timer(conn, FAILED_PAUSE_MS);
        return;
    }
    f->step = step;
    f->ignored = false;
    f->looks += step == ST_FOLLOW_LOOK;
    conn->store->io->timer_cancel(conn->store->io, &conn->timer);
    st_params_view(&conn->params, values, lengths, formats);
    if (conn->store->pq->sendQueryPrepared(conn->pg, names[step], conn->params.n, values, lengths, formats, 1) != 1 ||
        !st_conn_sync(conn) || !st_conn_flush_output(conn)) {
        st_conn_retry(conn, PQerrorMessage(conn->pg));
        return;
    }
    st_conn_await(conn);
}

/* Nothing is in flight: what is next? */
static void go_on(struct st_following *f)
{
    struct st_conn *conn = &f->conn;
    int64_t left = f->next_ms - st_conn_now(conn);
    if (!f->follow) {
        st_conn_set_timer(conn, LINGER_MS);
    } else if (f->begun && !list_empty(&f->trails) && (left > 0 || f->step == ST_FOLLOW_LOOK)) {
        f->reading = list_entry(list_first(&f->trails), struct st_trail, node);
        send(f, ST_FOLLOW_TRAIL);
    } else if (left > 0 && f->untidy >= TIDY_AFTER) {
        f->untidy = 0;
        send(f, ST_FOLLOW_TIDY);
    } else if (left > 0) {
        st_conn_set_timer(conn, left);
    } else {
        f->next_ms = st_conn_now(conn) + ST_FOLLOW_MS;
        send(f, f->begun ? ST_FOLLOW_LOOK : ST_FOLLOW_START);
    }
}

/* ------------------------------------------------------------------------------------------------ answers */

static void failed(struct st_following *f, const PGresult *res)
{
    f->failures++;
    if (!(f->failures & (f->failures - 1)))
        log_warn("store.follow_failed", log_str("statement", names[f->step]), log_int("failures", f->failures),
                 log_str("error", res ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : "no answer that makes sense"));
    f->next_ms = st_conn_now(&f->conn) + FAILED_PAUSE_MS;
}

/* The answer is whole. */
static void act(struct st_following *f)
{
    PGresult *res = f->res;
    f->res = NULL;
    bool ok = res && PQresultStatus(res) == PGRES_TUPLES_OK && (f->step == ST_FOLLOW_TIDY || shape_ok(res));
    if (f->step == ST_FOLLOW_TRAIL && f->reading)
        list_remove(&f->trails, &f->reading->node);
    if (ok && (f->step == ST_FOLLOW_START || f->step == ST_FOLLOW_LOOK))
        ok = PQntuples(res) > 0 && kind_of(res, 0) == ROW_HEAD;
    if (!ok)
        failed(f, res);
    if (f->step == ST_FOLLOW_TRAIL)
        page(f, res, ok);
    else if (ok && !f->ignored && f->step == ST_FOLLOW_START)
        start(f, res);
    else if (ok && !f->ignored && f->step == ST_FOLLOW_LOOK)
        look(f, res);
    PQclear(res);
}

static bool result(struct st_conn *conn, PGresult *res)
{
    struct st_following *f = following_of(conn);
    if (PQresultStatus(res) == PGRES_PIPELINE_SYNC) {
        PQclear(res);
        act(f);
        return true;
    }
    PQclear(f->res);
    f->res = res;
    return true;
}

static void served(struct st_conn *conn)
{
    if (conn->expected == 0)
        go_on(following_of(conn));
}

/* ------------------------------------------------------------------------------------------------ the session */

static bool wanted(const struct st_conn *conn)
{
    return following_of(conn)->follow != NULL;
}

/* As with the connections that carry the work, attach() comes first: then the record of what database this is is up to date. */
static bool send_setup(struct st_conn *conn)
{
    bool ok = st_conn_send_sql(conn, st_settings_sql) && st_conn_send_sql(conn, "SELECT holdfast.attach()") && st_conn_sync(conn) &&
              st_conn_send_setting(conn, "max_parallel_workers_per_gather", "0", false);
    for (int step = 0; ok && step <= ST_FOLLOW_TIDY; step++)
        ok = conn->store->pq->sendPrepare(conn->pg, names[step], statements[step], 0, NULL) == 1;
    return ok && st_conn_sync(conn);
}

static bool setup_result(struct st_conn *conn, const PGresult *res)
{
    (void)conn;
    return st_result_ok(res);
}

static void begin(struct st_conn *conn)
{
    following_of(conn)->next_ms = 0; /* `served` follows */
    co_gaps_unsure(&following_of(conn)->gaps);
}

/* It is time for something, or nobody has followed for long. */
static void idle(struct st_conn *conn)
{
    if (wanted(conn))
        go_on(following_of(conn));
    else
        st_conn_rest(conn);
}

static void lost(struct st_conn *conn)
{
    struct st_following *f = following_of(conn);
    PQclear(f->res);
    f->res = NULL;
    f->reading = NULL; /* the page is still the first of those that are wanted */
}

const struct st_role st_following_role = {.application_name = "holdfastd follows",
                                          .send_setup = send_setup,
                                          .setup_result = setup_result,
                                          .begin = begin,
                                          .result = result,
                                          .served = served,
                                          .lost = lost,
                                          .idle = idle,
                                          .wanted = wanted};

/* ------------------------------------------------------------------------------------------------ for users of the store */

void st_following_init(struct st_store *store)
{
    list_init(&store->following.trails);
    st_conn_init(&store->following.conn, store, &st_following_role, 0);
}

void st_following_release(struct st_store *store)
{
    co_gaps_release(&store->following.gaps);
    st_params_release(&store->following.conn.params);
}

/* There is something to do now. */
static void wake(struct st_following *f)
{
    if (f->conn.state == ST_CONN_SERVING && f->conn.expected == 0)
        st_conn_set_timer(&f->conn, 0); /* `idle` is called */
    else
        st_conn_want(&f->conn);
}

void st_follow(struct st_store *store, struct st_follow *follow)
{
    struct st_following *f = &store->following;
    f->follow = follow;
    f->begun = false;
    f->next_ms = 0;
    f->caught_up_ms = st_conn_now(&f->conn);
    if (!store->closing)
        wake(f);
}

void st_unfollow(struct st_store *store)
{
    struct st_following *f = &store->following;
    f->follow = NULL;
    f->begun = false;
    f->ignored = true; /* what is in flight was for somebody else */
}

void st_follow_mark(const struct st_store *store, struct st_follow_mark *out)
{
    const struct st_following *f = &store->following;
    *out = (struct st_follow_mark){.epoch = f->epoch, .high = f->gaps.high, .settled = co_gaps_settled(&f->gaps)};
}

char *st_follow_open(const struct st_store *store)
{
    const struct co_gaps *gaps = &store->following.gaps;
    size_t size = 3 + gaps->n * 44, len = 1;
    char *text = malloc(size);
    if (!text)
        return NULL;
    text[0] = '{';
    for (size_t i = 0; i < gaps->n; i++)
        len += (size_t)snprintf(text + len, size - len, "%s[%lld,%lld]", i ? "," : "", (long long)gaps->list[i].from,
                                (long long)gaps->list[i].to);
    memcpy(text + len, "}", 2);
    return text;
}

void st_follow_stats(const struct st_store *store, struct st_follow_stats *out)
{
    const struct st_following *f = &store->following;
    *out = (struct st_follow_stats){.following = f->follow != NULL, .looks = f->looks, .rows = f->rows};
    if (!f->follow)
        return;
    out->open = (int64_t)f->gaps.n;
    out->lag_ms = st_conn_now(&f->conn) - f->caught_up_ms;
}

void st_trail_read(struct st_store *store, struct st_trail *trail)
{
    struct st_following *f = &store->following;
    list_push_back(&f->trails, &trail->node);
    if (f->begun && !store->closing)
        wake(f);
}

void st_trail_cancel(struct st_store *store, struct st_trail *trail)
{
    struct st_following *f = &store->following;
    if (!list_linked(&trail->node))
        return;
    if (f->reading == trail)
        f->reading = NULL;
    list_remove(&f->trails, &trail->node);
}
