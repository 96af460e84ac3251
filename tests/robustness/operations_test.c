/*
 * operations_test.c - one effect for each key (P4, P5, P8, P10), whatever fails: workers begin, end, record and execute operations,
 * an operator decides (operations_load.h), and meanwhile messages are dropped, delayed, doubled and cut, servers and PostgreSQL are
 * killed, in an order that the seed decides. What was told and what stands is judged (operations_oracle.h); and three faults,
 * planted in the SQL functions, must be seen.
 *
 * HOLDFAST_OPERATIONS_SECONDS plays for so long; tests/robustness/long/operations one seed after the other.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/case.h"
#include "robustness/operations_load.h"
#include "robustness/planted.h"
#include "robustness/proxy.h"

enum { SECONDS = 20, PLANTED_SECONDS = 3, TRIES = 8 };

/* ---- the verdict ---- */

static bool none_runs(void *arg)
{
    return t_sql_int(arg, "SELECT count(*) FROM holdfast.operation WHERE state = 2") == 0;
}

static void say(const char *name, size_t n)
{
    print_message("[     INFO ] %-32s %zu\n", name, n);
}

static size_t count(const struct oo_history *h, enum oo_call call, enum oo_told told)
{
    size_t n = 0;
    for (size_t i = 0; i < h->n_events; i++)
        n += h->events[i].call == call && h->events[i].told == told;
    return n;
}

/* The lease of the last attempt ends, and it is settled without anybody asking; then all is judged. */
static int judge(struct ol_load *load, PGconn *conn, bool must_work, char why[256])
{
    t_wait_for(none_runs, conn, 3 * T_PATIENCE_MS); /* or that is wrong */
    const struct oo_history *h = ol_history(load, conn);
    int states[8] = {0};
    for (size_t i = 0; i < h->n_operations; i++)
        states[h->operations[i].state & 7]++;
    say("calls", h->n_events);
    say("  attempts started", count(h, OO_BEGIN, OO_STARTED));
    say("  replayed", count(h, OO_BEGIN, OO_REPLAYED));
    say("  other parameters", count(h, OO_BEGIN, OO_CONFLICT));
    say("  completed", count(h, OO_COMPLETE, OO_DONE));
    say("  completed in vain", count(h, OO_COMPLETE, OO_REFUSED));
    say("  recorded", count(h, OO_RECORD, OO_DONE));
    say("  executed", count(h, OO_EXECUTE, OO_DONE));
    say("  not known", count(h, OO_BEGIN, OO_NOTHING) + count(h, OO_COMPLETE, OO_NOTHING));
    say("payments", h->n_payments);
    print_message("[     INFO ] operations: %d succeeded, %d failed, %d cancelled; waiting: %d pending, %d unknown, %d in review\n",
                  states[3], states[4], states[7], states[1], states[5], states[6]);
    if (must_work && (count(h, OO_BEGIN, OO_STARTED) < 20 || count(h, OO_COMPLETE, OO_DONE) < 5 ||
                      count(h, OO_EXECUTE, OO_DONE) == 0 || h->n_payments == 0))
        fail_msg("too little work was done");
    return oo_judge(h, why, 256);
}

/* ---- faults ---- */

struct play {
    struct t_pg *pg;
    struct t_server *servers[2];
    struct px *proxies[2];
    uint64_t random;
};

/* Messages of every kind get lost for a while, or come late, twice, or not whole. */
static void disturb(struct play *p)
{
    static const struct px_rule rules[] = {{.action = PX_DROP, .chance = 0.05},
                                           {.action = PX_CUT_AFTER, .direction = PX_REQUEST, .chance = 0.03},
                                           {.action = PX_CUT_BEFORE, .direction = PX_REPLY, .chance = 0.03},
                                           {.action = PX_DOUBLE, .chance = 0.2, .ms = 300},
                                           {.action = PX_DELAY, .chance = 0.2, .ms = 200}};
    for (int i = 0; i < 2; i++)
        for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++)
            px_add(p->proxies[i], &rules[r]);
    t_sleep_ms(1000 + case_below(&p->random, 1500));
    for (int i = 0; i < 2; i++)
        px_heal(p->proxies[i]);
}

static void kill_server(struct play *p)
{
    struct t_server *server = p->servers[case_below(&p->random, 2)];
    t_server_kill(server, SIGKILL);
    t_sleep_ms(case_below(&p->random, 500));
    t_server_restart(server);
}

static void stop_database(struct play *p)
{
    t_pg_stop(p->pg, case_chance(&p->random, 50) ? T_PG_FAST : T_PG_IMMEDIATE);
    t_sleep_ms(case_below(&p->random, 500));
    t_pg_restart(p->pg);
}

static void play_faults(struct play *p, int64_t seconds)
{
    static void (*const faults[])(struct play *) = {disturb, kill_server, stop_database};
    int done[3] = {0};
    for (const int64_t end = t_now_ms() + seconds * 1000; t_now_ms() < end || done[1] == 0 || done[2] == 0;) {
        const int fault = done[0] == 0 ? 0 : case_below(&p->random, 3);
        faults[fault](p);
        done[fault]++;
        t_sleep_ms(300 + case_below(&p->random, 700));
    }
    say("times messages were disturbed", (size_t)done[0]);
    say("servers killed", (size_t)done[1]);
    say("PostgreSQL stopped", (size_t)done[2]);
}

static void one_effect_for_each_key_whatever_fails(void **state)
{
    const char *given = getenv("HOLDFAST_OPERATIONS_SECONDS"), *urls[2];
    struct play p = {.random = t_seed(), .pg = t_pg_start(NULL)};
    const uint64_t seed = p.random;
    char why[256];
    (void)state;
    for (int i = 0; i < 2; i++) {
        p.servers[i] = t_server_start("--dsn", t_pg_dsn(p.pg), NULL);
        p.proxies[i] = px_start(p.servers[i]->url, seed + (uint64_t)i);
        urls[i] = px_url(p.proxies[i]);
    }
    PGconn *conn = t_connect(t_pg_dsn(p.pg));
    ol_prepare(conn, p.servers[0]->url);
    PQfinish(conn);
    struct ol_load *load = ol_start(urls, seed, 8);
    play_faults(&p, given && *given ? atoll(given) : SECONDS);
    ol_stop(load);
    conn = t_connect(t_pg_dsn(p.pg));
    const int found = judge(load, conn, true, why);
    ol_free(load);
    PQfinish(conn);
    for (int i = 0; i < 2; i++) {
        px_stop(p.proxies[i]);
        assert_int_equal(t_server_stop(p.servers[i]), 0);
    }
    if (found > 0)
        fail_msg("%d things are wrong; %s", found, why);
}

/* ---- planted ---- */

#define LATER                                                                                                                      \
    "IF pg_catalog.random() < 0.5 THEN RAISE EXCEPTION 'planted' USING ERRCODE = '40001'; END IF;\n    outcome := 210;\nEXCEPTION"

/* How many things are wrong. Also without the fault every other execution ends after its action, and is tried again. */
static int play_with(const struct planted_text *text, char why[256])
{
    static const struct planted_text after_action = {"execute_one", "outcome := 210;\nEXCEPTION", LATER};
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    const char *const urls[] = {server->url, server->url};
    PGconn *conn = t_connect(dsn);
    ol_prepare(conn, server->url);
    t_sql(conn, "CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public");
    planted_plant(conn, text);
    planted_plant(conn, &after_action);
    struct ol_load *load = ol_start(urls, t_seed(), 25);
    t_sleep_ms(PLANTED_SECONDS * 1000);
    ol_stop(load);
    const int found = judge(load, conn, false, why);
    ol_free(load);
    PQfinish(conn);
    assert_int_equal(t_server_stop(server), 0);
    return found;
}

/* Chance may not lead to a fault at once, on a machine that is busy. */
static void must_be_seen(const struct planted_text *text, const char *wanted)
{
    char why[256] = "";
    for (int i = 0; i < TRIES; i++) {
        const int found = play_with(text, why);
        print_message("[     INFO ] %d things are wrong; %s\n", found, why);
        if (found > 0 && strstr(why, wanted))
            return;
    }
    fail_msg("it was not seen: \"%s\" doesn't say \"%s\"", why, wanted);
}

static void nothing_planted(void **state)
{
    char why[256];
    (void)state;
    if (play_with(&(struct planted_text){0}, why) > 0)
        fail_msg("%s", why);
}

static void the_fingerprint_compared_after_the_state(void **state)
{
    (void)state;
    must_be_seen(
        &(struct planted_text){
            "op_verdicts",
            "WHEN o.type <> x.type OR o.fingerprint <> x.fingerprint THEN 208\n            WHEN o.state = 3 THEN 202",
            "WHEN o.state = 3 THEN 202\n            WHEN o.type <> x.type OR o.fingerprint <> x.fingerprint THEN 208"},
        "other parameters were no conflict");
}

static void the_record_and_the_effect_in_two_transactions(void **state)
{
    (void)state;
    must_be_seen(
        &(struct planted_text){"execute_one",
                               "EXECUTE pg_catalog.format('SELECT %s($1, $2)', p_call) INTO result USING p_key, p_args::jsonb;",
                               "SELECT r INTO result FROM public.dblink(pg_catalog.format('host=%s port=%s dbname=%s user=%s', "
                               "pg_catalog.split_part(pg_catalog.current_setting('unix_socket_directories'), ',', 1), "
                               "pg_catalog.current_setting('port'), pg_catalog.current_database(), session_user), "
                               "pg_catalog.format('SELECT %s(%L, %L)', p_call, p_key, p_args)) AS t(r jsonb);"},
        "effect");
}

static void completion_without_the_token(void **state)
{
    (void)state;
    must_be_seen(
        &(struct planted_text){"op_owner_verdicts", "WHEN x.token = o.token AND o.state = 2 THEN", "WHEN o.state = 2 THEN"}, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_effect_for_each_key_whatever_fails, t_teardown),
        cmocka_unit_test_teardown(nothing_planted, t_teardown),
        cmocka_unit_test_teardown(the_fingerprint_compared_after_the_state, t_teardown),
        cmocka_unit_test_teardown(the_record_and_the_effect_in_two_transactions, t_teardown),
        cmocka_unit_test_teardown(completion_without_the_token, t_teardown),
    };
    if (getenv("HOLDFAST_OPERATIONS_SECONDS"))
        return _cmocka_run_group_tests("operations", tests, 1, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
