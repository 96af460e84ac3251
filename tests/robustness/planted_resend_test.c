/*
 * planted_resend_test.c - what the server sends again when a connection breaks, while the old backend still has the first copy: the
 * oracle must see it (planted.h).
 *
 * A's write names an expected version that is not there yet. It stops in its backend before anything was looked at; its server's
 * connections are reset, and the server sends it again: refused. A writes otherwise, and only then the old backend goes on, if
 * nobody ended it: now the version is there, and what A was told won't happen happens.
 */
#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/planted.h"
#include "robustness/storm_relay.h"

/* A part of a DSN of the form host=/socket/folder port=… */
static char *part_of(const char *dsn, const char *name)
{
    const char *at = strstr(dsn, name);
    assert_non_null(at);
    at += strlen(name);
    return t_printf("%.*s", (int)strcspn(at, " '"), at);
}

static void open_behind_a_relay(struct planted_world *w)
{
    w->dsn = t_database();
    w->own = storm_relay_start(t_printf("%s/.s.PGSQL.%s", part_of(w->dsn, "host="), part_of(w->dsn, "port=")));
}

static void close_relay(struct planted_world *w)
{
    storm_relay_stop(w->own);
}

/* The first server is behind the relay. */
static char *dsn_of(struct planted_world *w, int server)
{
    if (server != 0)
        return w->dsn;
    return t_printf("%s host=127.0.0.1 port=%d", w->dsn, storm_relay_port(w->own));
}

static void play_cut(struct planted_world *w)
{
    const int64_t t1 = planted_acquire(&w->a, PLANTED_LONG);
    struct planted_call first = {
        .worker = &w->a,
        .what = {.op = HISTORY_WRITE, .token = t1, .write_seq = 1, .has_expected = true, .expected_version = 1},
        .value = "if 1"};
    planted_arm(w);
    planted_start(&first);
    planted_await_pause(w);
    assert_true(storm_relay_reset(w->own) > 0);
    const struct history_call answer = planted_join(&first);
    assert_refused(&answer, "VERSION_MISMATCH");
    worker_write(&w->b, PLANTED_RESOURCE, t1, 0, "another", -1);
    planted_let_go(w);
    worker_read(&w->b, PLANTED_RESOURCE);
}

static void sent_again_beside_the_old_backend(void **state)
{
    (void)state;
    planted_play(&(struct planted_fault){
        .name = "sent again without ending the old backend",
        .texts = {{"end_backend", "PERFORM pg_catalog.pg_terminate_backend(p_pid);", "RETURN true;"}},
        .pause = {"write_batch", "SELECT pg_catalog.array_agg(s.i), pg_catalog.array_agg(s.r_tid), CASE",
                  "PERFORM planted.pause(); SELECT pg_catalog.array_agg(s.i), pg_catalog.array_agg(s.r_tid), CASE"},
        .play = play_cut,
        .two_servers = true,
        .calls = "a read shows what nobody wrote who was told so or doesn't know",
        .agrees = "but of such changes 1 were told to nobody and only 0 are unknown",
        .open = open_behind_a_relay,
        .close = close_relay,
        .server_dsn = dsn_of,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sent_again_beside_the_old_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
