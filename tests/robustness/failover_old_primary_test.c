/*
 * failover_old_primary_test.c - a fail-over in which nobody stopped the old primary: two databases can be written to.
 *
 * That is a mistake of whoever fails over, and a server that has not heard of the new primary goes on with the old one: nothing but
 * stopping it helps. But a server that has reached the new primary must leave the old one at once with every connection, and must
 * never go back, though the DSN names the old one first and its own record says that all is well: it would grant tokens that are
 * lower than those of the present (P1), to a second holder (P2). And a server that is started while both can be written to refuses.
 */
#include "robustness/failover.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { NAMES = 24, ROUNDS = 2 }; /* enough for each connection to have some */

static struct failover stage;

static const char *name_of(int i)
{
    return t_printf("old/%d", i);
}

/* The old primary takes no new connections, and keeps those it has; or takes them again. */
static void let_in(bool in)
{
    const char *path = t_printf("%s/.s.PGSQL.5432", t_pg_dir(stage.first)), *aside = t_printf("%s/aside", t_pg_dir(stage.first));
    assert_int_equal(in ? rename(aside, path) : rename(path, aside), 0);
}

static int64_t sessions(PGconn *conn)
{
    return t_sql_int(conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'holdfastd%%'");
}

static bool has_no_sessions(void *conn)
{
    return sessions(conn) == 0;
}

/* Every name is granted with a token of the present, and can be written under it. */
static void all_is_of_the_present(int round)
{
    for (int i = 0; i < NAMES; i++) {
        const int64_t token = failover_acquire(&stage.taker, name_of(i), t_printf("%d/%d", round, i));
        if (token <= FAILOVER_JUMP)
            fail_msg("%s was granted under token %" PRId64 " of the old primary", name_of(i), token);
        failover_write(&stage.taker, name_of(i), token, 1);
        const struct history_call released = worker_release(&stage.taker, name_of(i), token);
        assert_ok(&released);
    }
}

/* It knows nothing of the past, and sees two. */
static void a_server_that_starts_now_refuses(void)
{
    const char *const argv[] = {T_HOLDFASTD,         "--dsn", t_standby_dsn(stage.first, stage.second), "--listen",
                                "tcp://127.0.0.1:0", NULL};
    const struct t_result result = t_run(argv, NULL, 30000);
    if (result.status != 2 || !strstr(result.err, "two hosts of the DSN can be written to"))
        fail_msg("status %d: %s", result.status, result.err);
}

static void an_old_primary_is_never_served_again(void **state)
{
    int64_t tokens[NAMES];
    (void)state;
    failover_start(&stage);
    PGconn *old = t_connect(t_pg_dsn(stage.first)), *new = t_connect(t_pg_dsn(stage.second));
    for (int i = 0; i < NAMES; i++)
        tokens[i] = failover_acquire(&stage.holder, name_of(i), t_printf("first/%d", i));
    t_standby_catch_up(stage.first, FAILOVER_STANDBY);

    t_standby_promote(stage.second);
    let_in(false);
    t_sql(old, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd' LIMIT 1");
    assert_true(t_wait_for(has_no_sessions, old, 30000)); /* the others follow the one that had to go */
    const int64_t rows = t_sql_int(old, "SELECT count(*) FROM holdfast.audit");
    for (int i = 0; i < NAMES; i++) {
        const struct history_call renewed = worker_renew(&stage.holder, name_of(i), tokens[i], FAILOVER_TTL_MS);
        assert_refused(&renewed, "BROKEN");
    }
    all_is_of_the_present(0);

    let_in(true);
    for (int round = 1; round <= ROUNDS; round++) {
        t_sql(new, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'holdfastd%%'");
        all_is_of_the_present(round);
    }
    assert_int_equal(t_sql_int(old, "SELECT count(*) FROM holdfast.audit"), rows);
    a_server_that_starts_now_refuses();
    assert_non_null(strstr(t_proc_err(stage.server->proc), "old primary"));
    assert_non_null(strstr(t_proc_err(stage.server->proc), "store.failed_over"));
    PQfinish(old);
    PQfinish(new);
    failover_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_old_primary_is_never_served_again, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
