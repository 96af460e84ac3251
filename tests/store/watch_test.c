/*
 * watch_test.c - LeaseService.Watch from the service down to a real PostgreSQL: a thousand that watch cost one query a look;
 * streams that break and go on miss nothing; and neither does one over a restart of the database.
 */
#include "store/store_env.h"

#include "base/random.h"
#include "holdfast/v1/lease.pb-c.h"
#include "service/service.h"
#include "store/follow.h"
#include "store/pq.h"
#include "store/sql.h"

enum { STREAMS = 1000, TOLD_MAX = 4000, TOKEN = 64 };

#define KIND(name) HOLDFAST__V1__WATCH_LEASES_RESPONSE__KIND__##name

struct told {
    int64_t id, token;
    int kind;
    char resource[24];
};

/* A caller and his stream. */
struct stream {
    struct hp_call call; /* first */
    bool open, full;
    enum hp_code code;
    int marks;
    size_t n, cap;
    struct told *told;
    char token[TOKEN];
};

static struct svc *svc;

static bool on_send(struct hp_call *call, const ProtobufCMessage *message)
{
    struct stream *s = (struct stream *)call;
    const Holdfast__V1__WatchLeasesResponse *response = (const Holdfast__V1__WatchLeasesResponse *)message;
    if (s->full)
        return false;
    snprintf(s->token, sizeof(s->token), "%s", response->resume_token);
    s->marks += response->kind == KIND(WATCHING);
    if (response->kind == KIND(WATCHING))
        return true;
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->told = realloc(s->told, s->cap * sizeof(*s->told));
        assert_non_null(s->told);
    }
    struct told *told = &s->told[s->n++];
    *told = (struct told){.id = response->id, .token = response->lease->token, .kind = (int)response->kind};
    snprintf(told->resource, sizeof(told->resource), "%s", response->lease->resource);
    return true;
}

static void on_answer(struct hp_call *call, const struct hp_status *status, const ProtobufCMessage *response)
{
    struct stream *s = (struct stream *)call;
    assert_null(response);
    s->open = false;
    s->code = status ? status->code : HP_OK;
    free((void *)(uintptr_t)call->payload);
    hp_arena_free(call->arena);
}

static void watch(struct stream *s, const char *prefix)
{
    Holdfast__V1__WatchLeasesRequest request = HOLDFAST__V1__WATCH_LEASES_REQUEST__INIT;
    request.namespace_ = (char *)(uintptr_t) "default";
    request.prefix = (char *)(uintptr_t)prefix;
    request.resume_token = s->token;
    size_t len = protobuf_c_message_get_packed_size(&request.base);
    uint8_t *bytes = malloc(len + 1);
    protobuf_c_message_pack(&request.base, bytes);
    s->call = (struct hp_call){.arena = hp_arena_new(1 << 20),
                               .method = "/holdfast.v1.LeaseService/Watch",
                               .payload = bytes,
                               .payload_len = len,
                               .received_ms = io->now_ms(io),
                               .deadline_ms = INT64_MAX,
                               .answer = on_answer,
                               .send = on_send};
    s->open = true;
    s->marks = 0;
    svc_dispatch(svc, &s->call);
}

static void leave(struct stream *s)
{
    if (s->open)
        s->call.gone(&s->call);
    assert_false(s->open);
}

static void release(struct stream *s)
{
    leave(s);
    free(s->told);
    *s = (struct stream){0};
}

/* ---- counting queries ---- */

static struct st_pq counting;
static int n_looks, n_pages;

static int count_prepared(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
                          int result_format)
{
    n_looks += !strcmp(name, "follow");
    n_pages += !strcmp(name, "trail");
    return PQsendQueryPrepared(conn, name, n, values, lengths, formats, result_format);
}

static int serve(void **state)
{
    setup(state);
    counting = st_libpq;
    counting.sendQueryPrepared = count_prepared;
    reopen(&(struct st_config){.pq = &counting});
    svc = svc_new(store, io, NULL);
    assert_non_null(svc);
    return 0;
}

static int stop(void **state)
{
    svc_drain(svc);
    st_close(store);
    svc_free(svc);
    store = NULL;
    PQfinish(sql);
    loop_free(loop);
    return t_teardown(state);
}

static struct stream streams[STREAMS];
static size_t n_streams, want;

static bool all_watch(void)
{
    for (size_t i = 0; i < n_streams; i++) {
        if (!streams[i].marks)
            return false;
    }
    return true;
}

static bool all_are_told(void)
{
    for (size_t i = 0; i < n_streams; i++) {
        if (streams[i].n < want)
            return false;
    }
    return true;
}

static void act(PGconn *conn, const char *name, int ttl_ms)
{
    t_sql(
        conn,
        "SELECT outcome FROM holdfast.acquire_batch('{default}', '{%s}', '{task}', '{h}', '{%d}', ARRAY[clock_timestamp()::text], "
        "'{NULL}', 's', NULL, NULL, NULL, NULL, NULL)",
        name, ttl_ms);
}

static void end_lease(PGconn *conn, const char *name)
{
    t_sql(conn,
          "SELECT holdfast.release_batch('{default}', '{%s}', ARRAY[coalesce((SELECT token FROM holdfast.lease WHERE resource = "
          "'%s'), "
          "1)], NULL)",
          name, name);
}

/* ---- the tests ---- */

static void a_thousand_cost_one_query_a_look(void **state)
{
    (void)state;
    n_streams = STREAMS;
    for (size_t i = 0; i < n_streams; i++)
        watch(&streams[i], i % 2 ? "r" : "");
    run_until(all_watch, LONG_MS);
    int64_t begun = t_now_ms();
    int looks = n_looks, pages = n_pages;
    assert_int_equal(pages, STREAMS); /* each found out once whether there is such a namespace */
    for (int i = 0; i < 10; i++) {
        act(sql, t_printf("r-%d", i), 60000);
        want = (size_t)i + 1;
        run_until(all_are_told, LONG_MS);
    }
    int64_t took = t_now_ms() - begun;
    assert_in_range(n_looks - looks, 1, took / ST_FOLLOW_MS + 2);
    assert_int_equal(n_pages, pages);
    for (size_t i = 0; i < n_streams; i++) {
        assert_int_equal(streams[i].n, 10);
        assert_int_equal(streams[i].told[9].id, streams[0].told[9].id);
    }
    for (size_t i = 0; i < n_streams; i++)
        release(&streams[i]);
    looks = n_looks;
    t_sleep_ms(3 * ST_FOLLOW_MS);
    acquire("later"); /* the loop runs, and so would whatever was due */
    assert_int_equal(n_looks, looks);
    struct stream *last = &streams[0];
    n_streams = 1;
    watch(last, "");
    run_until(all_watch, LONG_MS);
    release(last);
}

/* What a stream was told, however often it broke, is what the trail has, in its order. */
static void assert_whole(const struct stream *s, const char *prefix, int64_t after)
{
    PGresult *res = ts_query(sql, t_printf("SELECT id, kind, resource, token, prior FROM holdfast.audit WHERE id > %lld AND "
                                           "holdfast.trail_kind(kind) > 0 AND starts_with(resource, '%s') ORDER BY id",
                                           (long long)after, prefix));
    size_t found = 0;
    for (int row = 0; row < PQntuples(res); row++) {
        int64_t id = ts_int(res, row, 0);
        size_t n = 0, grants = 0;
        for (size_t i = 0; i < s->n; i++) {
            if (s->told[i].id != id)
                continue;
            assert_string_equal(s->told[i].resource, PQgetvalue(res, row, 2));
            n++;
            grants += s->told[i].kind == KIND(GRANTED);
        }
        bool takeover = !strcmp(PQgetvalue(res, row, 1), "takeover"), grant = !strcmp(PQgetvalue(res, row, 1), "grant");
        if (n < 1 || n > (takeover ? 2 : 1) || grants != (takeover || grant))
            fail_msg("id %lld, a %s, was told %zu times", (long long)id, PQgetvalue(res, row, 1), n);
        found += n;
    }
    assert_int_equal(found, s->n);
    for (size_t i = 1; i < s->n; i++) {
        for (size_t j = 0; j < i; j++)
            assert_true(strcmp(s->told[i].resource, s->told[j].resource) != 0 || s->told[j].id <= s->told[i].id);
    }
    PQclear(res);
}

static size_t at;

/* All entries; a takeover may be two messages. */
static bool one_is_told(void)
{
    size_t ids = 0;
    for (size_t i = 0; i < streams[at].n; i++)
        ids += i == 0 || streams[at].told[i].id != streams[at].told[i - 1].id;
    return ids >= want;
}

static bool stepped;

static bool has_stepped(void)
{
    bool was = stepped;
    stepped = true;
    return was;
}

static size_t expired_twice(const struct stream *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        for (size_t j = 0; j < i; j++)
            n += s->told[i].kind == KIND(EXPIRED) && s->told[j].kind == KIND(EXPIRED) && s->told[i].token == s->told[j].token &&
                 !strcmp(s->told[i].resource, s->told[j].resource);
    }
    return n;
}

/* Everybody breaks off and goes on with his last token again and again, some don't read for a while, and the follower's connection
 * breaks. No transaction is long under way, so nothing may come twice. */
static void streams_that_go_on_miss_nothing(void **state)
{
    (void)state;
    enum { N = 6, STEPS = 500 };
    static const char *const prefixes[N] = {"", "", "a", "a", "b", "nothing"};
    struct hb_random random;
    hb_random_seed(&random, t_seed());
    n_streams = N;
    for (int i = 0; i < N; i++)
        watch(&streams[i], prefixes[i]);
    run_until(all_watch, LONG_MS);
    for (int step = 0; step < STEPS; step++) {
        char *name = t_printf("%c-%d", "ab"[hb_random_below(&random, 2)], (int)hb_random_below(&random, 8));
        struct stream *s = &streams[hb_random_below(&random, N)];
        switch (hb_random_below(&random, 8)) {
        case 0:
            leave(s);
            break;
        case 1:
            s->full = !s->full;
            if (!s->full && s->open)
                s->call.writable(&s->call);
            break;
        case 2:
            end_lease(sql, name);
            break;
        case 3:
            t_sql(sql, "SELECT holdfast.sweep(100)");
            break;
        default:
            act(sql, name, 100 + (int)hb_random_below(&random, 300));
        }
        if (!s->open && hb_random_below(&random, 2))
            watch(s, prefixes[s - streams]);
        if (step % 100 == 99)
            t_sql(sql, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd follows' AND "
                       "datname = current_database()");
        stepped = false;
        run_until(has_stepped, LONG_MS);
    }
    act(sql, "a-last", 60000);
    act(sql, "b-last", 60000);
    for (int i = 0; i < N; i++) {
        streams[i].full = false;
        leave(&streams[i]);
        watch(&streams[i], prefixes[i]);
    }
    run_until(all_watch, LONG_MS);
    for (at = 0; at < N; at++) {
        want =
            (size_t)t_sql_int(sql,
                              "SELECT count(*) FROM holdfast.audit WHERE holdfast.trail_kind(kind) > 0 AND starts_with(resource, "
                              "'%s')",
                              prefixes[at]);
        run_until(one_is_told, LONG_MS);
        assert_whole(&streams[at], prefixes[at], 0);
        assert_int_equal(expired_twice(&streams[at]), 0);
    }
    for (int i = 0; i < N; i++)
        release(&streams[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_thousand_cost_one_query_a_look, serve, stop),
        cmocka_unit_test_setup_teardown(streams_that_go_on_miss_nothing, serve, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
