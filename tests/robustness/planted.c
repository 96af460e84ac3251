/*
 * planted.c - see planted.h.
 *
 * The pause: planted.pause() counts its callers by a sequence, and the first one since planted_arm() waits there until it gets an
 * advisory lock that the test's own session has. A second advisory lock shows that it waits.
 */
#include "robustness/planted.h"

#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#define GATE   "7420, 1"
#define PAUSED "7420, 2"

static const char pause_sql[] = "CREATE SCHEMA planted; CREATE SEQUENCE planted.callers; SELECT setval('planted.callers', 1000);"
                                "CREATE FUNCTION planted.pause() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN "
                                "IF nextval('planted.callers') <> 1 THEN RETURN true; END IF; "
                                "PERFORM pg_advisory_xact_lock(" PAUSED "); "
                                "WHILE NOT pg_try_advisory_xact_lock_shared(" GATE ") LOOP PERFORM pg_sleep(0.005); END LOOP; "
                                "RETURN true; END $$";

/* ------------------------------------------------------------------------------------------------ the world */

void planted_plant(PGconn *conn, const struct planted_text *text)
{
    if (!text->function)
        return;
    t_sql(conn,
          "DO $do$ DECLARE f text; BEGIN SELECT pg_get_functiondef(p.oid) INTO STRICT f FROM pg_proc p WHERE p.proname = '%s' "
          "AND p.pronamespace = 'holdfast'::regnamespace AND strpos(p.prosrc, $x$%s$x$) > 0; "
          "EXECUTE replace(f, $x$%s$x$, $x$%s$x$); END $do$",
          text->function, text->right, text->right, text->wrong);
}

static struct worker worker_of(struct planted_world *world, int number, int server)
{
    return (struct worker){.history = world->history,
                           .client = worker_client(world->servers[server]->url),
                           .number = number,
                           .timeout_ms = PLANTED_SOON,
                           .retry = HFI_RETRY_HARMLESS};
}

static void open_world(struct planted_world *world, const struct planted_fault *fault)
{
    if (fault->open)
        fault->open(world);
    else
        world->dsn = t_database();
    for (int i = 0; i < 2; i++)
        world->servers[i] = i > 0 && !fault->two_servers
                                ? world->servers[0]
                                : t_server_start("--dsn", fault->server_dsn ? fault->server_dsn(world, i) : world->dsn, NULL);
    world->conn = t_connect(world->dsn);
    world->history = history_new(NULL);
    world->a = worker_of(world, 1, 0);
    world->b = worker_of(world, 2, 1);
    world->c = worker_of(world, 3, 0);
    oracle_audit_writes(world->conn, "default");
    t_sql(world->conn, "%s", pause_sql);
    for (int i = 0; world->faulty && i < PLANTED_TEXTS; i++)
        planted_plant(world->conn, &fault->texts[i]);
    planted_plant(world->conn, &fault->pause);
}

static void close_world(struct planted_world *world, const struct planted_fault *fault)
{
    hf_client_free(world->a.client);
    hf_client_free(world->b.client);
    hf_client_free(world->c.client);
    history_free(world->history);
    PQfinish(world->conn);
    for (int i = 0; i < 1 + fault->two_servers; i++)
        assert_int_equal(t_server_stop(world->servers[i]), 0);
    if (fault->close)
        fault->close(world);
    t_teardown(NULL);
}

/* ------------------------------------------------------------------------------------------------ the verdict */

static void say(const char *who, const char *text)
{
    if (text[0])
        print_message("[     INFO ]   %s: %.*s\n", who, (int)strcspn(text, "\n"), text);
}

static void must_say(const struct planted_fault *fault, const char *who, const char *wanted, const char *text)
{
    if (wanted && !strstr(text, wanted))
        fail_msg("%s was not seen by %s: \"%s\" doesn't say \"%s\"", fault->name, who, text, wanted);
}

void planted_play(const struct planted_fault *fault)
{
    for (int faulty = 0; faulty < 2; faulty++) {
        struct planted_world world = {.faulty = faulty};
        struct oracle_verdict verdict;
        open_world(&world, fault);
        fault->play(&world);
        const bool good = oracle_judge(world.conn, "default", world.history, &verdict);
        close_world(&world, fault);
        if (faulty)
            print_message("[     INFO ] %s\n", fault->name);
        say("the calls", verdict.calls);
        say("the trail", verdict.trail);
        say("between them", verdict.agrees);
        if (!faulty && !good)
            fail_msg("without the fault \"%s\" one is found: see above", fault->name);
        if (faulty && good)
            fail_msg("nothing was found: %s", fault->name);
        must_say(fault, "the calls", faulty ? fault->calls : NULL, verdict.calls);
        must_say(fault, "the trail", faulty ? fault->trail : NULL, verdict.trail);
        must_say(fault, "both", faulty ? fault->agrees : NULL, verdict.agrees);
    }
}

/* ------------------------------------------------------------------------------------------------ scenes */

static bool is_paused(void *arg)
{
    const struct planted_world *world = arg;
    return t_sql_int(world->conn,
                     "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = "
                     "current_database() WHERE l.locktype = 'advisory' AND (l.classid::int, l.objid::int) = (" PAUSED ")") > 0;
}

static bool is_gone(void *arg)
{
    return !is_paused(arg);
}

void planted_arm(struct planted_world *world)
{
    t_sql(world->conn, "SELECT pg_advisory_lock(" GATE "); SELECT setval('planted.callers', 1, false)");
}

void planted_await_pause(struct planted_world *world)
{
    assert_true(t_wait_for(is_paused, world, PLANTED_SOON));
}

void planted_let_go(struct planted_world *world)
{
    t_sql(world->conn, "SELECT pg_advisory_unlock(" GATE ")");
    assert_true(t_wait_for(is_gone, world, PLANTED_SOON));
}

static bool has_run_out(void *arg)
{
    const struct planted_world *world = arg;
    return t_sql_int(world->conn, "SELECT count(*) FROM holdfast.lease WHERE resource = '" PLANTED_RESOURCE
                                  "' AND deadline <= holdfast.clock()") == 1;
}

void planted_await_end(struct planted_world *world)
{
    assert_true(t_wait_for(has_run_out, world, PLANTED_SOON));
}

int64_t planted_acquire(struct worker *worker, int64_t ttl_ms)
{
    for (const int64_t end = t_now_ms() + PLANTED_SOON;; t_sleep_ms(20)) {
        const struct history_call call =
            worker_acquire(worker, PLANTED_RESOURCE, ttl_ms, t_printf("%d-%zu", worker->number, history_count(worker->history)));
        if (call.answer == HISTORY_OK)
            return call.got_token;
        if (t_now_ms() > end)
            fail_msg("not granted: %s", call.reason);
    }
}

static void *run(void *arg)
{
    struct planted_call *call = arg;
    const struct history_call *what = &call->what;
    if (what->op == HISTORY_ACQUIRE)
        call->what = worker_acquire(call->worker, PLANTED_RESOURCE, what->ttl_ms, what->request_id);
    else
        call->what = worker_write(call->worker, PLANTED_RESOURCE, what->token, what->write_seq, call->value,
                                  what->has_expected ? what->expected_version : -1);
    return NULL;
}

void planted_start(struct planted_call *call)
{
    assert_int_equal(pthread_create(&call->thread, NULL, run, call), 0);
}

struct history_call planted_join(struct planted_call *call)
{
    assert_int_equal(pthread_join(call->thread, NULL), 0);
    return call->what;
}
