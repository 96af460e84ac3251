/*
 * store_resend_test.c - connections that break in flight: what was sent is sent again once the old backend is gone, and ends as
 * lost where that cannot be known; and nobody waits for an answer beyond his deadline.
 */
#include "store/store_env.h"

#include <signal.h>
#include <sys/socket.h>

#include "store/pq.h"

/* ------------------------------------------------------------------------------------------------ a libpq that loses answers */

static bool lose_next;            /* the next batch's answer is to be lost */
static const PGconn *losing_conn; /* it was sent here: the next consumeInput fails, with what has arrived unread */
static PGconn *last_conn, *lists_conn;

static PGconn *t_pq_connect(const char *const *keywords, const char *const *values, int expand)
{
    PGconn *conn = PQconnectStartParams(keywords, values, expand);
    for (int i = 0; keywords[i]; i++) {
        if (strcmp(keywords[i], "application_name") == 0 && strcmp(values[i], "holdfastd") == 0)
            last_conn = conn;
        if (strcmp(keywords[i], "application_name") == 0 && strcmp(values[i], "holdfastd lists") == 0)
            lists_conn = conn;
    }
    return conn;
}

static int t_pq_send(PGconn *conn, const char *name, int n, const char *const *values, const int *lengths, const int *formats,
                     int result_format)
{
    if (lose_next) {
        lose_next = false;
        losing_conn = conn;
    }
    return PQsendQueryPrepared(conn, name, n, values, lengths, formats, result_format);
}

static int t_pq_consume(PGconn *conn)
{
    if (conn != losing_conn)
        return PQconsumeInput(conn);
    losing_conn = NULL;
    return 0;
}

static const struct st_pq *losing(void)
{
    static struct st_pq pq;
    pq = st_libpq;
    pq.connectStartParams = t_pq_connect;
    pq.consumeInput = t_pq_consume;
    pq.sendQueryPrepared = t_pq_send;
    return &pq;
}

static int resend_setup(void **state)
{
    lose_next = false;
    losing_conn = NULL;
    int rc = setup(state);
    reopen(&(struct st_config){.pq = losing()});
    return rc;
}

#define RESEND_TEST(name) cmocka_unit_test_setup_teardown(name, resend_setup, teardown)

/* The answer to what is submitted in this turn will not be read: it was committed by then. */
static void lose_the_answer(void)
{
    lose_next = true;
}

static void cut_connection(void)
{
    assert_int_equal(shutdown(PQsocket(last_conn), SHUT_RDWR), 0);
}

static struct st_item *prepare_write(struct work *work, const char *name, int64_t token, int64_t seq, const char *value)
{
    struct st_item *item = prepare(work, ST_WRITE, name);
    item->in.write.token = token;
    item->in.write.write_seq = seq;
    snprintf(work->text, sizeof(work->text), "%s", value);
    item->in.write.value = (struct st_bytes){(const unsigned char *)work->text, strlen(value)};
    return item;
}

/* ------------------------------------------------------------------------------------------------ sent again */

static void terminated_in_flight(void **state)
{
    (void)state;
    struct work w, reading;
    on_lease("slow", "PERFORM pg_sleep(1);");
    submit_acquire(&w, "slow");
    prepare(&reading, ST_READ, "slow");
    submit(&reading);
    run_until(backend_active, T_PATIENCE_MS);
    t_sql(sql, "SELECT pg_terminate_backend(%s)", backend());
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_GRANTED);
    assert_int_equal(w.item.out.acquire.token, 1);
    /* Read again too, before or after. */
    assert_true(reading.item.outcome == ST_NO_SUCH_RESOURCE || reading.item.outcome == ST_FOUND);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE kind = 'grant'"), 1);
}

static void each_kind_repeats_its_answer(void **state)
{
    (void)state;
    struct work w;
    lose_the_answer();
    prepare_acquire(&w, "r", "request");
    assert_int_equal(call(&w), ST_REPEATED);
    assert_int_equal(w.item.out.acquire.token, 1);
    lose_the_answer();
    prepare_write(&w, "r", 1, 1, "one");
    assert_int_equal(call(&w), ST_REPLAYED);
    assert_int_equal(w.item.out.write.version, 1);
    lose_the_answer();
    prepare(&w, ST_RENEW, "r")->in.renew.token = 1;
    w.item.in.renew.ttl_ms = 90000;
    assert_int_equal(call(&w), ST_RENEWED);
    lose_the_answer();
    prepare(&w, ST_RELEASE, "r")->in.release.token = 1;
    assert_int_equal(call(&w), ST_FREED);
    int64_t token = acquire("s");
    lose_the_answer();
    prepare(&w, ST_BREAK, "s")->in.brk.token_seen = token;
    w.item.in.brk.actor = w.item.in.brk.reason = "test";
    assert_int_equal(call(&w), ST_BREAK_DONE);
    assert_true(!lose_next && !losing_conn);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE kind IN ('grant', 'release', 'break')"), 4);
    assert_int_equal(t_sql_int(sql, "SELECT version FROM holdfast.resource_value WHERE resource = 'r'"), 1);
}

/* One batch: the sequenced are written once, the unsequenced are lost at once, and are not sent again. */
static void writes_without_a_sequence_are_lost(void **state)
{
    (void)state;
    enum { N = 6 };
    struct work works[N], erase;
    for (int i = 0; i < N; i++)
        prepare_write(&works[i], t_printf("r%d", i), acquire(t_printf("r%d", i)), i % 2, "value");
    prepare_write(&erase, "none", acquire("none"), 0, "")->in.write.value.data = NULL;
    lose_the_answer();
    int64_t begin = t_now_ms();
    for (int i = 0; i < N; i++)
        submit(&works[i]);
    submit(&erase);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(works[i].item.outcome, i % 2 ? ST_REPLAYED : ST_OUTCOME_LOST);
    assert_int_equal(erase.item.outcome, ST_OUTCOME_LOST);
    assert_true(works[0].done_ms <= works[1].done_ms && works[0].done_ms - begin < T_AT_ONCE_MS);
    assert_int_equal(t_sql_int(sql, "SELECT sum(version) FROM holdfast.resource_value"), N);
}

/* What waits on the same connection comes after what is sent again. */
static void what_is_new_comes_after(void **state)
{
    (void)state;
    struct work first, second;
    on_lease("hot", "PERFORM pg_sleep(0.5);");
    prepare_acquire(&first, "hot", "first");
    submit(&first);
    run_until(backend_active, T_PATIENCE_MS);
    prepare_acquire(&second, "hot", "second");
    submit(&second);
    cut_connection();
    run_until(all_done, LONG_MS);
    assert_true(first.item.outcome == ST_GRANTED || first.item.outcome == ST_REPEATED);
    assert_int_equal(second.item.outcome, ST_HELD);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE kind = 'grant'"), 1);
}

static void another_database_raises_the_fences_first(void **state)
{
    (void)state;
    struct work w;
    on_lease("slow", "PERFORM pg_sleep(1);");
    submit_acquire(&w, "slow");
    run_until(backend_active, T_PATIENCE_MS);
    t_sql(sql, "UPDATE holdfast.identity SET timeline = 'another'");
    t_sql(sql, "SELECT pg_terminate_backend(%s)", backend());
    run_until(all_done, LONG_MS);
    assert_int_equal(w.item.outcome, ST_GRANTED);
    assert_true(w.item.out.acquire.token > 1 << 20);
}

/* ------------------------------------------------------------------------------------------------ cannot be known */

static int64_t sent_before;

static int64_t batches_sent(void)
{
    struct st_stats stats;
    int64_t n = 0;
    st_stats(store, &stats);
    for (int kind = 0; kind < ST_KINDS; kind++)
        n += stats.kinds[kind].batches;
    return n;
}

static bool is_sent(void)
{
    return batches_sent() > sent_before;
}

/* The backend, stopped before it takes in what is submitted next. */
static pid_t stop_backend(void)
{
    pid_t pid = PQbackendPID(last_conn);
    sent_before = batches_sent();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    return pid;
}

static void let_go(pid_t pid)
{
    assert_int_equal(kill(pid, SIGCONT), 0);
}

/* Its client is gone, but what it has been sent it will do once it goes on: nobody can say what and when. */
static void a_backend_that_cannot_be_ended(void **state)
{
    (void)state;
    struct work patient, brief, sequenced, reading;
    int64_t token = acquire("w");
    pid_t pid = stop_backend();
    submit_acquire(&patient, "patient");
    prepare_acquire(&brief, "brief", "request");
    brief.item.deadline_ms = t_now_ms() + 1000;
    submit(&brief);
    prepare_write(&sequenced, "w", token, 1, "value");
    submit(&sequenced);
    prepare(&reading, ST_READ, "w");
    submit(&reading);
    run_until(is_sent, LONG_MS);
    int64_t cut = t_now_ms();
    cut_connection();
    run_until(all_done, LONG_MS);
    let_go(pid);
    assert_int_equal(patient.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(sequenced.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(brief.item.outcome, ST_OUTCOME_LOST);
    assert_in_range(brief.done_ms - brief.item.deadline_ms, 0, T_AT_ONCE_MS);
    assert_in_range(patient.done_ms - cut, 4000, 5000 + T_AT_ONCE_MS); /* end_backend tries for 5 s */
    assert_true(reading.item.outcome == ST_FOUND || reading.item.outcome == ST_NO_SUCH_RESOURCE);
    /* Whatever the old one did after all, a repetition is recognised. */
    prepare_write(&sequenced, "w", token, 1, "value");
    enum st_outcome outcome = call(&sequenced);
    assert_true(outcome == ST_WRITTEN || outcome == ST_REPLAYED);
    assert_int_equal(sequenced.item.out.write.version, 1);
}

/* Carries the work, and changes nothing: a token that nobody was given. */
static struct st_item *prepare_vain(struct work *work, const char *name)
{
    struct st_item *item = prepare(work, ST_RENEW, name);
    item->in.renew.token = 1000;
    item->in.renew.ttl_ms = 60000;
    return item;
}

/* facts: a stopped backend held request 1, its client went, 1 and 2 were sent by another way, and the old 1 landed last. */
static void an_old_write_does_not_land_last(void **state)
{
    (void)state;
    struct work old, again, newer, w;
    reopen(&(struct st_config){.connections = 2, .pq = losing()});
    pid_t pid = stop_backend();
    const char *name = NULL;
    for (int i = 0; !name; i++) { /* one of a key that goes to that backend */
        assert_true(i < 64);
        char *candidate = t_printf("w%d", i);
        prepare_vain(&w, candidate)->deadline_ms = t_now_ms() + 100;
        if (call(&w) == ST_OUTCOME_LOST)
            name = candidate;
    }
    t_sql(sql,
          "SELECT * FROM holdfast.acquire_batch('{default}', '{%s}', '{t}', '{me}', '{60000}', '{q}', '{NULL}', NULL, NULL, NULL, "
          "NULL, NULL, NULL)",
          name);
    let_go(pid);
    prepare_vain(&w, name);
    assert_int_equal(call(&w), ST_UNKNOWN_TOKEN); /* it has read what it was sent */
    assert_int_equal(kill(pid, SIGSTOP), 0);
    prepare_write(&old, name, 1, 1, "one")->deadline_ms = t_now_ms() + 1000;
    submit(&old);
    wait_for(&old);
    assert_int_equal(old.item.outcome, ST_OUTCOME_LOST);
    prepare_write(&again, name, 1, 1, "one"); /* its caller's repetition, round the silent backend */
    assert_int_equal(call(&again), ST_WRITTEN);
    prepare_write(&newer, name, 1, 2, "two");
    assert_int_equal(call(&newer), ST_WRITTEN);
    let_go(pid);
    run_until(is_ready, LONG_MS);
    prepare(&w, ST_READ, name);
    assert_int_equal(call(&w), ST_FOUND);
    assert_int_equal(w.item.out.read.version, 2);
    assert_string_equal(t_sql(sql, "SELECT encode(value, 'escape') FROM holdfast.resource_value"), "two");
}

/* While one connection is at that, its keys are served by the other. */
static void the_other_connection_serves_meanwhile(void **state)
{
    (void)state;
    enum { N = 40 };
    static struct work works[N];
    reopen(&(struct st_config){.connections = 2, .pq = losing()});
    pid_t pid = stop_backend();
    for (int i = 0; i < N; i++)
        submit_acquire(&works[i], t_printf("r%d", i));
    run_until(is_sent, LONG_MS);
    cut_connection();
    t_sleep_ms(50); /* so that the loop sees it in one turn with what follows */
    static struct work more[N];
    for (int i = 0; i < N; i++) {
        prepare_acquire(&more[i], t_printf("r%d", i), "request");
        submit(&more[i]);
    }
    for (int i = 0; i < N; i++)
        wait_for(&more[i]);
    assert_true(pending > 0); /* those that were sent there are not settled yet */
    for (int i = 0; i < N; i++)
        assert_true(more[i].item.outcome == ST_GRANTED || more[i].item.outcome == ST_REPEATED);
    run_until(all_done, LONG_MS);
    let_go(pid);
    int lost = 0;
    for (int i = 0; i < N; i++)
        lost += works[i].item.outcome == ST_OUTCOME_LOST;
    assert_in_range(lost, 1, N - 1);
}

/* What was sent there is lost at its deadline; whatever comes later goes round it, also what was queued there already. */
static void a_silent_backend_is_gone_round(void **state)
{
    (void)state;
    enum { N = 40 };
    static struct work works[N], more[N];
    reopen(&(struct st_config){.connections = 2, .pq = losing()});
    pid_t pid = stop_backend();
    int64_t begin = t_now_ms();
    for (int i = 0; i < N; i++) {
        prepare_acquire(&works[i], t_printf("r%d", i), "request");
        works[i].item.deadline_ms = begin + 2500;
        submit(&works[i]);
    }
    run_until(is_sent, LONG_MS);
    for (int i = 0; i < N; i++)
        submit_acquire(&more[i], t_printf("s%d", i));
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++) {
        assert_int_equal(more[i].item.outcome, ST_GRANTED);
        assert_true(more[i].done_ms < begin + 2500);
    }
    begin = t_now_ms();
    int lost = 0;
    for (int i = 0; i < N; i++) {
        lost += works[i].item.outcome == ST_OUTCOME_LOST;
        submit_acquire(&more[i], t_printf("r%d", i));
    }
    assert_in_range(lost, 1, N - 1);
    run_until(all_done, LONG_MS);
    assert_true(t_now_ms() - begin < T_AT_ONCE_MS);
    for (int i = 0; i < N; i++)
        assert_true(more[i].item.outcome == ST_GRANTED || more[i].item.outcome == ST_REPEATED);
    let_go(pid);
    run_until(is_ready, LONG_MS);
}

static void a_session_that_is_stuck_is_given_up(void **state)
{
    (void)state;
    struct work w, reading;
    reopen(&(struct st_config){.stall_ms = 500, .pq = losing()});
    pid_t pid = stop_backend();
    int64_t begin = t_now_ms();
    submit_acquire(&w, "r");
    prepare(&reading, ST_READ, "nothing");
    submit(&reading);
    run_until(all_done, LONG_MS);
    let_go(pid);
    assert_int_equal(w.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(reading.item.outcome, ST_NO_SUCH_RESOURCE);
    assert_in_range(w.done_ms - begin, 5000, 5500 + T_AT_ONCE_MS);
}

/* ------------------------------------------------------------------------------------------------ deadlines in flight */

static int left;

static bool few_are_left(void)
{
    return pending <= left;
}

/* Its memory is the caller's, who takes it back at once. */
static void free_at_done(struct st_item *item)
{
    struct work *work = item->owner;
    assert_int_equal(item->outcome, ST_OUTCOME_LOST);
    memset(work, 0x5a, sizeof(*work));
    free(work);
}

static void prepare_list(struct work *work, int64_t max)
{
    struct st_item *item = prepare(work, ST_LIST_LEASES, "");
    item->resource = NULL;
    item->in.list.prefix = item->in.list.task = item->in.list.holder = item->in.list.after = "";
    item->in.list.max = max;
}

/* Lists have a backend of their own, which is now stopped. */
static pid_t stop_lists(void)
{
    struct work w;
    do {
        prepare_list(&w, 10);
        assert_int_equal(call(&w), ST_FOUND);
    } while (!*t_sql(sql, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'holdfastd lists' AND datname = "
                          "current_database() AND query LIKE '%%list_leases(%%'"));
    pid_t pid = PQbackendPID(lists_conn);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    return pid;
}

static void an_answer_that_comes_too_late_is_nobodys(void **state)
{
    (void)state;
    enum { N = 20 };
    static struct work patient[N];
    struct work lists;
    int64_t token = acquire("w");
    pid_t lists_pid = stop_lists(), pid = stop_backend();
    int64_t begin = t_now_ms();
    for (int i = 0; i < N; i++) {
        struct work *brief = malloc(sizeof(*brief));
        prepare_acquire(brief, t_printf("brief%d", i), "request");
        brief->item.deadline_ms = begin + 200 + i * 5;
        brief->look = free_at_done;
        submit(brief);
        submit_acquire(&patient[i], t_printf("patient%d", i));
    }
    struct work *alone = malloc(sizeof(*alone));
    prepare_write(alone, "w", token, 1, "value")->deadline_ms = begin + 200;
    alone->look = free_at_done;
    submit(alone);
    alone = malloc(sizeof(*alone));
    prepare_list(alone, 10);
    alone->item.deadline_ms = begin + 200;
    alone->look = free_at_done;
    submit(alone);
    prepare_list(&lists, 1000);
    submit(&lists);
    left = N + 1;
    run_until(few_are_left, LONG_MS);
    assert_in_range(t_now_ms() - begin, 200 + (N - 1) * 5, T_AT_ONCE_MS);
    let_go(pid);
    let_go(lists_pid);
    run_until(all_done, LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(patient[i].item.outcome, ST_GRANTED);
    assert_int_equal(lists.item.outcome, ST_FOUND);
    /* They were carried out all the same, before what comes after them. */
    acquire("after");
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.lease WHERE resource LIKE 'brief%%' AND token = 1"), N);
    assert_int_equal(t_sql_int(sql, "SELECT version FROM holdfast.resource_value WHERE resource = 'w'"), 1);
}

static void a_refusal_that_comes_too_late_is_nobodys(void **state)
{
    (void)state;
    struct work patient;
    on_lease("guilty", "RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ123';");
    pid_t pid = stop_backend();
    struct work *brief = malloc(sizeof(*brief));
    prepare_acquire(brief, "guilty", "request");
    brief->item.deadline_ms = t_now_ms() + 100;
    brief->look = free_at_done;
    submit(brief);
    submit_acquire(&patient, "patient");
    left = 1;
    run_until(few_are_left, LONG_MS);
    let_go(pid);
    run_until(all_done, LONG_MS);
    assert_int_equal(patient.item.outcome, ST_GRANTED);
}

/* A cluster of its own, of which a backend is at work for `slow` when it crashes. */
static struct t_pg *crash_at_work(struct work *slow, int deadline_ms)
{
    struct t_pg *pg = t_pg_start(NULL);
    install(t_pg_dsn(pg));
    st_close(store);
    open_store(&(struct st_config){.pq = losing()}, t_pg_dsn(pg), true);
    PQfinish(sql);
    sql = t_connect(t_pg_dsn(pg));
    on_lease("slow", "PERFORM pg_sleep(0.5);");
    prepare_acquire(slow, "slow", "request");
    slow->item.deadline_ms = t_now_ms() + deadline_ms;
    submit(slow);
    run_until(backend_active, LONG_MS);
    t_pg_stop(pg, T_PG_IMMEDIATE);
    return pg;
}

static void close_before_the_cluster_goes(void)
{
    st_close(store);
    store = NULL;
}

static void sent_again_after_a_crash(void **state)
{
    (void)state;
    struct work sent, late, patient;
    struct t_pg *pg = crash_at_work(&sent, LONG_MS);
    submit_acquire(&patient, "patient");
    prepare_acquire(&late, "late", "request");
    late.item.deadline_ms = t_now_ms() + 1000;
    submit(&late);
    wait_for(&late);
    assert_int_equal(late.item.outcome, ST_DATABASE_DOWN);
    t_pg_restart(pg);
    run_until(all_done, LONG_MS);
    assert_int_equal(sent.item.outcome, ST_GRANTED);
    assert_int_equal(patient.item.outcome, ST_GRANTED);
    close_before_the_cluster_goes();
}

static void the_deadline_holds_while_nobody_answers(void **state)
{
    (void)state;
    struct work sent, patient;
    struct t_pg *pg = crash_at_work(&sent, 2000);
    submit_acquire(&patient, "patient");
    wait_for(&sent);
    assert_int_equal(sent.item.outcome, ST_OUTCOME_LOST);
    assert_in_range(sent.done_ms - sent.item.deadline_ms, 0, T_AT_ONCE_MS);
    t_pg_restart(pg);
    run_until(all_done, LONG_MS);
    assert_int_equal(patient.item.outcome, ST_GRANTED);
    close_before_the_cluster_goes();
}

/* The server that takes over has no such backend. */
static void sent_again_to_the_next_host(void **state)
{
    (void)state;
    struct t_pg *first = t_pg_start(NULL), *next = t_pg_start(NULL);
    struct work sent;
    install(t_pg_dsn(first));
    install(t_pg_dsn(next));
    st_close(store);
    open_store(&(struct st_config){.connections = 2, .pq = losing()},
               t_printf("host=%s,%s port=5432 user=postgres dbname=holdfast", t_pg_dir(first), t_pg_dir(next)), true);
    PQfinish(sql);
    sql = t_connect(t_pg_dsn(first));
    on_lease("slow", "PERFORM pg_sleep(5);");
    submit_acquire(&sent, "slow");
    run_until(backend_active, LONG_MS);
    t_pg_stop(first, T_PG_IMMEDIATE);
    PQfinish(sql);
    sql = t_connect(t_pg_dsn(next));
    run_until(all_done, LONG_MS);
    assert_int_equal(sent.item.outcome, ST_GRANTED);
    assert_int_equal(t_sql_int(sql, "SELECT count(*) FROM holdfast.audit WHERE kind = 'grant'"), 1);
    acquire("next");
    close_before_the_cluster_goes();
}

static void closing_ends_what_waits_to_be_sent_again(void **state)
{
    (void)state;
    struct work sent, queued;
    crash_at_work(&sent, LONG_MS);
    run_until(nobody_serves, T_PATIENCE_MS);
    submit_acquire(&queued, "queued");
    close_before_the_cluster_goes();
    assert_int_equal(sent.item.outcome, ST_OUTCOME_LOST);
    assert_int_equal(queued.item.outcome, ST_DATABASE_DOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESEND_TEST(terminated_in_flight),
        RESEND_TEST(each_kind_repeats_its_answer),
        RESEND_TEST(writes_without_a_sequence_are_lost),
        RESEND_TEST(what_is_new_comes_after),
        RESEND_TEST(another_database_raises_the_fences_first),
        RESEND_TEST(a_backend_that_cannot_be_ended),
        RESEND_TEST(an_old_write_does_not_land_last),
        RESEND_TEST(the_other_connection_serves_meanwhile),
        RESEND_TEST(a_silent_backend_is_gone_round),
        RESEND_TEST(a_session_that_is_stuck_is_given_up),
        RESEND_TEST(an_answer_that_comes_too_late_is_nobodys),
        RESEND_TEST(a_refusal_that_comes_too_late_is_nobodys),
        RESEND_TEST(sent_again_after_a_crash),
        RESEND_TEST(the_deadline_holds_while_nobody_answers),
        RESEND_TEST(sent_again_to_the_next_host),
        RESEND_TEST(closing_ends_what_waits_to_be_sent_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
