/*
 * proxy_test.c - each trick of the fault proxy, seen from both ends: first between a client and a server that hide nothing, then
 * between the client library and a real holdfastd.
 */
#include "robustness/proxy.h"

#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "robustness/fake.h"
#include "robustness/worker.h"

enum { SOON = 20000, SHORT = 60 }; /* what must happen; what must not */

static struct fake_server *fake;
static struct px *px;
static int client;

static int fake_setup(void **state)
{
    (void)state;
    fake = fake_server_start();
    px = px_start(fake_server_url(fake), 1);
    client = fake_connect(px_url(px));
    return 0;
}

static int fake_teardown(void **state)
{
    close(client);
    px_stop(px);
    fake_server_stop(fake);
    return t_teardown(state);
}

static int rule(enum px_direction direction, const char *method, enum px_action action)
{
    const struct px_rule r = {.direction = direction, .method = method, .action = action, .count = 1};
    return px_add(px, &r);
}

static void assert_heard(const char *expected)
{
    const char *heard;
    if (!fake_server_heard(fake, expected, SOON, &heard))
        fail_msg("the server heard \"%s\", not \"%s\"", heard, expected);
}

#define assert_hear(expected) assert_string_equal(fake_hear(client, SOON), expected)

static void messages_pass(void **state)
{
    (void)state;
    static char large[1 << 20];
    memset(large, 'x', sizeof(large) - 1);
    fake_ask(client, 0x80000001, "Write", "one");
    assert_hear("2147483649 one");
    fake_ask(client, 2, "Write", large);
    assert_int_equal(strncmp(fake_hear(client, SOON), "2 xxxx", 6), 0);
    for (uint32_t id = 10; id < 20; id++)
        fake_ask(client, id, "Read", "many");
    for (uint32_t id = 10; id < 20; id++)
        assert_hear(t_printf("%u many", id));
    struct px_totals totals = px_totals(px);
    assert_int_equal(totals.connections, 1);
    assert_int_equal(totals.requests, 12);
    assert_int_equal(totals.replies, 12);
    assert_int_equal(totals.swallowed, 0);
}

static void a_request_is_dropped(void **state)
{
    (void)state;
    int drop = rule(PX_REQUEST, "Write", PX_DROP);
    fake_ask(client, 1, "Write", "a");
    fake_ask(client, 2, "Write", "b");
    assert_hear("2 b");
    assert_heard("b");
    assert_int_equal(px_count(px, drop).seen, 2);
    assert_int_equal(px_count(px, drop).done, 1);
    assert_true(px_count(px, drop).last_ms > 0);
}

static void a_reply_is_dropped(void **state)
{
    (void)state;
    rule(PX_REPLY, "Write", PX_DROP);
    fake_ask(client, 1, "Write", "a");
    fake_ask(client, 2, "Write", "b");
    assert_hear("2 b");
    assert_heard("a b");
}

static void a_rule_chooses(void **state)
{
    (void)state;
    const struct px_rule third = {.direction = PX_REQUEST, .method = "Service/Write", .first = 3, .count = 1, .action = PX_DROP};
    const struct px_rule named = {.direction = PX_REQUEST, .contains = "needle", .action = PX_DROP};
    int a = px_add(px, &third), b = px_add(px, &named);
    int unlike = rule(PX_BOTH, "Overwrite", PX_DROP), all = px_add(px, &(struct px_rule){.method = "Read", .action = PX_PASS});
    fake_ask(client, 1, "Write", "1");
    fake_ask(client, 2, "Read", "2");
    fake_ask(client, 3, "Write", "3");
    fake_ask(client, 4, "Write", "4");
    fake_ask(client, 5, "Write", "a needle");
    fake_ask(client, 6, "Read,Write", "6"); /* an envelope of two calls is one of each method */
    fake_ask(client, 7, "Read", "7");
    for (int i = 0; strcmp(fake_hear(client, SOON), "7 7") != 0; i++)
        assert_true(i < 10);
    assert_heard("1 2 3 6 7");
    assert_int_equal(px_count(px, a).seen, 5);
    assert_int_equal(px_count(px, b).done, 1);
    assert_int_equal(px_count(px, unlike).seen, 0);
    assert_int_equal(px_count(px, all).done, 6); /* requests and replies */
    px_remove(px, b);
    fake_ask(client, 8, "Read", "another needle");
    assert_hear("8 another needle");
}

static void a_message_is_delayed(void **state)
{
    (void)state;
    for (int reply = 0; reply < 2; reply++) {
        const struct px_rule late = {.direction = reply ? PX_REPLY : PX_REQUEST, .count = 1, .action = PX_DELAY, .ms = 300};
        px_add(px, &late);
        int64_t start = t_now_ms();
        fake_ask(client, 1, "Write", "late");
        fake_ask(client, 2, "Write", "next");
        assert_hear("2 next");
        assert_hear("1 late");
        assert_true(t_now_ms() - start >= 300);
    }
    assert_heard("next late late next");
}

static void a_message_is_held_until_it_is_released(void **state)
{
    (void)state;
    int request = rule(PX_REQUEST, "Write", PX_HOLD), reply = rule(PX_REPLY, "Read", PX_HOLD);
    fake_ask(client, 1, "Write", "w");
    fake_ask(client, 2, "Read", "r");
    fake_ask(client, 3, "List", "l");
    assert_hear("3 l");
    assert_string_equal(fake_hear(client, SHORT), "nothing");
    assert_true(px_wait(px, reply, 1, SOON));
    assert_true(px_wait_quiet(px, SOON)); /* what is kept doesn't count */
    assert_int_equal(px_count(px, request).kept, 1);
    assert_int_equal(px_release(px, reply), 1);
    assert_hear("2 r");
    assert_int_equal(px_release(px, request), 1);
    assert_hear("1 w");
    assert_heard("r l w");
    assert_int_equal(px_release(px, request), 0);
}

static void a_message_comes_twice(void **state)
{
    (void)state;
    rule(PX_REQUEST, "Write", PX_DOUBLE);
    fake_ask(client, 1, "Write", "w");
    assert_hear("1 w");
    assert_hear("1 w");
    rule(PX_REPLY, "Read", PX_DOUBLE);
    fake_ask(client, 2, "Read", "r");
    assert_hear("2 r");
    assert_hear("2 r");
    assert_heard("w w r");
    int late = rule(PX_REQUEST, "Break", PX_DOUBLE_LATE);
    fake_ask(client, 3, "Break", "b");
    fake_ask(client, 4, "Read", "r");
    assert_hear("3 b");
    assert_hear("4 r");
    assert_int_equal(px_release(px, late), 1);
    assert_hear("3 b");
    assert_heard("w w r b r b");
    px_add(px, &(struct px_rule){.direction = PX_REQUEST, .count = 1, .action = PX_DOUBLE, .ms = 300});
    fake_ask(client, 5, "Write", "x");
    fake_ask(client, 6, "Write", "y");
    assert_heard("w w r b r b x y x");
}

static void messages_change_places(void **state)
{
    (void)state;
    rule(PX_REQUEST, "Write", PX_REORDER);
    fake_ask(client, 1, "Write", "1");
    assert_string_equal(fake_hear(client, SHORT), "nothing");
    fake_ask(client, 2, "Write", "2");
    assert_hear("2 2");
    assert_hear("1 1");
    assert_heard("2 1");
    rule(PX_REPLY, "Write", PX_REORDER);
    fake_ask(client, 3, "Write", "3");
    fake_ask(client, 4, "Write", "4");
    assert_hear("4 4");
    assert_hear("3 3");
    assert_heard("2 1 3 4");
}

static void a_connection_is_cut_at_a_request(void **state)
{
    (void)state;
    rule(PX_REQUEST, "Write", PX_CUT_BEFORE);
    rule(PX_REQUEST, "Read", PX_CUT_IN);
    rule(PX_REQUEST, "Break", PX_CUT_AFTER);
    const char *methods[] = {"Write", "Read", "Break"};
    for (int i = 0; i < 3; i++) {
        int fd = fake_connect(px_url(px));
        fake_ask(fd, 1, "Other", "ok");
        assert_string_equal(fake_hear(fd, SOON), "1 ok");
        fake_ask(fd, 2, methods[i], methods[i]);
        assert_string_equal(fake_hear(fd, SOON), "reset");
        close(fd);
        if (i == 1)
            assert_heard("ok ok half");
    }
    assert_heard("ok ok half ok Break");
    fake_ask(client, 1, "Write", "well");
    assert_hear("1 well"); /* the other connection lives */
}

static void a_connection_is_cut_at_a_reply(void **state)
{
    (void)state;
    rule(PX_REPLY, "Write", PX_CUT_BEFORE);
    rule(PX_REPLY, "Read", PX_CUT_IN);
    rule(PX_REPLY, "Break", PX_CUT_AFTER);
    const char *methods[] = {"Write", "Read", "Break"}, *hears[] = {"end", "half", "2 Break"};
    for (int i = 0; i < 3; i++) {
        int fd = fake_connect(px_url(px));
        fake_ask(fd, 2, methods[i], methods[i]);
        assert_string_equal(fake_hear(fd, SOON), hears[i]);
        assert_string_equal(fake_hear(fd, SOON), "end");
        close(fd);
    }
    assert_heard("Write Read Break");
}

static void the_dark_swallows_and_tells_nobody(void **state)
{
    (void)state;
    const char *heard;
    fake_ask(client, 1, "Write", "a");
    assert_hear("1 a");
    px_dark(px, true);
    fake_ask(client, 2, "Write", "b");
    int gone = fake_connect(px_url(px)), late = fake_connect(px_url(px)); /* no sign that anything is wrong */
    assert_string_equal(fake_hear(client, SHORT), "nothing");
    close(gone);
    px_dark(px, false);
    fake_ask(client, 3, "Write", "c");
    assert_hear("3 c");
    fake_ask(late, 4, "Write", "d");
    assert_string_equal(fake_hear(late, SOON), "4 d");
    close(late);
    assert_heard("a c d");
    assert_int_equal(px_totals(px).swallowed, 1);
    int dark = rule(PX_REQUEST, "Break", PX_DARK);
    fake_ask(client, 5, "Write", "e");
    fake_ask(client, 6, "Break", "f");
    assert_true(px_wait(px, dark, 1, SOON));
    fake_ask(client, 7, "Write", "g");
    assert_false(fake_server_heard(fake, "a c d e f", SHORT, &heard));
    assert_string_equal(heard, "a c d e");
    close(client); /* and the server isn't told of this either */
    client = fake_connect(px_url(px));
    px_heal(px);
    fake_ask(client, 8, "Write", "h");
    assert_hear("8 h");
}

static void a_held_request_outlives_its_client(void **state)
{
    (void)state;
    int hold = rule(PX_REQUEST, "Write", PX_HOLD);
    for (int cut = 0; cut < 2; cut++) {
        int fd = fake_connect(px_url(px));
        int again = rule(PX_REQUEST, "Write", PX_HOLD);
        fake_ask(fd, 1, "Write", "late");
        assert_true(px_wait(px, cut ? again : hold, 1, SOON));
        if (cut)
            px_cut(px);
        close(fd);
        assert_int_equal(px_release(px, cut ? again : hold), 1);
        assert_heard(cut ? "late late" : "late");
        px_remove(px, again);
    }
}

static void connections_are_cut_and_refused(void **state)
{
    (void)state;
    fake_ask(client, 1, "Write", "a");
    assert_hear("1 a");
    px_cut(px);
    assert_hear("reset");
    close(client);
    client = fake_connect(px_url(px));
    fake_ask(client, 2, "Write", "b");
    assert_hear("2 b");
    px_refuse(px, true);
    assert_hear("reset");
    close(client);
    client = fake_connect(px_url(px));
    assert_string_not_equal(fake_hear(client, SOON), "nothing"); /* "end" if the reset was met when greeting */
    close(client);
    px_refuse(px, false);
    client = fake_connect(px_url(px));
    fake_ask(client, 3, "Write", "c");
    assert_hear("3 c");
}

static void answers_are_put_in_the_servers_mouth(void **state)
{
    (void)state;
    struct px_rule r = {.direction = PX_REPLY, .method = "Write", .count = 1, .action = PX_STATUS};
    hp_status_set(&r.status, HP_R_INTERNAL, "invented");
    px_add(px, &r);
    r.direction = PX_REQUEST;
    r.method = "Renew";
    hp_status_set(&r.status, HP_R_DATABASE_DOWN, NULL);
    px_add(px, &r);
    fake_ask(client, 1, "Write", "w");
    assert_hear("1 CODE 13");
    fake_ask(client, 2, "Renew", "never seen");
    assert_hear("2 CODE 14");
    fake_ask(client, 3, "Write", "x");
    assert_hear("3 x");
    assert_heard("w x");
}

/* Which of 64 messages pass a proxy that drops half of them. */
static uint64_t passed(uint64_t seed)
{
    struct px *mine = px_start(fake_server_url(fake), seed);
    int fd = fake_connect(px_url(mine));
    uint64_t bits = 0;
    px_add(mine, &(struct px_rule){.direction = PX_REQUEST, .method = "Write", .chance = 0.5, .action = PX_DROP});
    for (uint32_t i = 0; i < 64; i++)
        fake_ask(fd, i, "Write", "x");
    fake_ask(fd, 64, "Read", "end");
    for (;;) {
        unsigned long id = strtoul(fake_hear(fd, SOON), NULL, 10);
        if (id == 64)
            break;
        bits |= UINT64_C(1) << id;
    }
    close(fd);
    px_stop(mine);
    return bits;
}

static void chance_follows_the_seed(void **state)
{
    (void)state;
    uint64_t seven = passed(7);
    assert_true(seven == passed(7));
    assert_true(seven != passed(8));
    assert_in_range(__builtin_popcountll(seven), 16, 48);
}

/* ------------------------------------------------------------------------------------------------ holdfastd and libholdfast */

static struct t_server *server;
static struct history *history;

static int real_setup(void **state)
{
    (void)state;
    if (!server) {
        server = t_server_start("--dsn", t_database(), NULL);
        t_keep();
    }
    px = px_start(server->url, 1);
    history = history_new(NULL);
    return 0;
}

static int real_teardown(void **state)
{
    px_stop(px);
    history_free(history);
    return t_teardown(state);
}

static int stop_server(void **state)
{
    if (server && t_server_stop(server) != 0)
        fail_msg("holdfastd: %s", t_proc_err(server->proc));
    return t_teardown(state);
}

static void one_lost_answer_is_unknown_and_its_repeat_is_told(void **state)
{
    (void)state;
    hf_client *c = worker_client(px_url(px));
    struct worker patient = {.history = history, .client = c, .number = 1}, hasty = patient;
    hasty.timeout_ms = 300;
    int64_t token = worker_acquire(&patient, "proxy/unknown", 60000, "id").got_token;
    rule(PX_REPLY, "Write", PX_DROP);
    struct history_call first = worker_write(&hasty, "proxy/unknown", token, 1, "x", -1);
    struct history_call again = worker_write(&patient, "proxy/unknown", token, 1, "x", -1);
    assert_unknown(&first);
    assert_string_equal(first.reason, "OUTCOME_LOST");
    assert_int_equal(first.tries, 1);
    assert_ok(&again);
    assert_true(again.replayed);
    assert_int_equal(again.got_version, 1);
    hf_client_free(c);
}

/* Resets are seen at once, and the library repeats by itself: whatever was cut, there is one lease and one step of the version. */
static void the_library_gets_over_cuts(void **state)
{
    (void)state;
    static const enum px_action cuts[] = {PX_CUT_BEFORE, PX_CUT_IN, PX_CUT_AFTER};
    hf_client *c = worker_client(px_url(px));
    for (int i = 0; i < 6; i++) {
        const hf_acquire_options options = {.resource = t_printf("proxy/cut/%d", i), .ttl_ms = 60000};
        const enum px_direction direction = i % 2 ? PX_REPLY : PX_REQUEST;
        int acquire = rule(direction, "Acquire", cuts[i / 2]), write = rule(direction, "Write", cuts[i / 2]);
        hf_lease *lease = NULL;
        hf_write_result written;
        hf_error error;
        if (hf_acquire(c, &options, &lease, NULL, &error) != HF_OK)
            fail_msg("%d: %s %s", i, error.reason, error.message);
        /* A grant whose caller had gone before it could be handed over is taken back; then there is a second one. */
        assert_in_range(hf_lease_token(lease), 1, i == 4 ? 2 : 1);
        if (hf_write(lease, NULL, "x", 1, &written, &error) != HF_OK)
            fail_msg("%d: %s %s", i, error.reason, error.message);
        assert_int_equal(written.version, 1);
        assert_int_equal(px_count(px, acquire).done, 1);
        assert_int_equal(px_count(px, write).done, 1);
        assert_int_equal(hf_release(lease, &error), HF_OK);
        hf_lease_free(lease);
    }
    assert_true(px_totals(px).connections >= 12);
    hf_client_free(c);
}

static void the_library_gets_over_the_dark(void **state)
{
    (void)state;
    const hf_client_options options = {.servers = px_url(px), .connect_timeout_ms = 500};
    hf_client *c = NULL;
    assert_int_equal(hf_client_new(&options, &c, NULL), HF_OK);
    struct worker worker = {.history = history, .client = c, .timeout_ms = SOON};
    struct history_call call = worker_acquire(&worker, "proxy/dark", 60000, "id");
    assert_ok(&call);
    worker.timeout_ms = 200;
    px_dark(px, true);
    call = worker_read(&worker, "proxy/dark");
    assert_unknown(&call);
    px_dark(px, false);
    worker.timeout_ms = SOON;
    call = worker_read(&worker, "proxy/dark");
    assert_ok(&call);
    px_refuse(px, true);
    /* What was sent before the reset was noticed is unknown; then nothing can be sent any more. */
    for (int i = 0; worker_read(&worker, "proxy/dark").answer != HISTORY_REFUSED; i++)
        assert_true(i < 20);
    px_refuse(px, false);
    for (int i = 0; worker_read(&worker, "proxy/dark").answer != HISTORY_OK; i++)
        assert_true(i < 20);
    hf_client_free(c);
}

static void an_invented_status_reaches_the_caller(void **state)
{
    (void)state;
    hf_client *c = worker_client(px_url(px));
    struct worker worker = {.history = history, .client = c, .timeout_ms = SOON};
    struct px_rule r = {.direction = PX_REPLY, .method = "Acquire", .count = 1, .action = PX_STATUS};
    hp_status_set(&r.status, HP_R_QUOTA, "no more");
    px_add(px, &r);
    struct history_call call = worker_acquire(&worker, "proxy/status", 60000, "id");
    assert_refused(&call, "QUOTA");
    hf_client_free(c);
}

int main(void)
{
#define FAKE(test) cmocka_unit_test_setup_teardown(test, fake_setup, fake_teardown)
#define REAL(test) cmocka_unit_test_setup_teardown(test, real_setup, real_teardown)
    const struct CMUnitTest tests[] = {
        FAKE(messages_pass),
        FAKE(a_request_is_dropped),
        FAKE(a_reply_is_dropped),
        FAKE(a_rule_chooses),
        FAKE(a_message_is_delayed),
        FAKE(a_message_is_held_until_it_is_released),
        FAKE(a_message_comes_twice),
        FAKE(messages_change_places),
        FAKE(a_connection_is_cut_at_a_request),
        FAKE(a_connection_is_cut_at_a_reply),
        FAKE(the_dark_swallows_and_tells_nobody),
        FAKE(a_held_request_outlives_its_client),
        FAKE(connections_are_cut_and_refused),
        FAKE(answers_are_put_in_the_servers_mouth),
        FAKE(chance_follows_the_seed),
        REAL(one_lost_answer_is_unknown_and_its_repeat_is_told),
        REAL(the_library_gets_over_cuts),
        REAL(the_library_gets_over_the_dark),
        REAL(an_invented_status_reaches_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, stop_server);
}
