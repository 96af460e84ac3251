/*
 * case_12_clocks_test.c - clocks.
 *
 * The wall clocks of a client and of a holdfastd (of a database that is elsewhere, --dsn) are an hour wrong and jump by two, in
 * opposite directions, several times a second; then the client is cut off. Wanted: the client's deadlines don't move (they are
 * CLOCK_BOOTTIME's): the lease is kept over several TTLs under one token, and when nothing gets through any more it ends at its
 * deadline, not before and not after. Lease decisions are the database's: the next holder, who waits at that server, gets the
 * resource when the lease ends by the database's clock.
 *
 * And a client that had lost its connection when its wall clock was set back by an hour is back as soon as there is a server again.
 *
 * Clocks are faked by preload/wall.c (wall.h). Environment: HOLDFAST_CASE_TTL_MS (default 2400).
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/call.h" /* hfi_boot_ms */
#include "client/lib/rule.h"
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"
#include "robustness/wall.h"

enum { HOUR = 3600, TTLS = 3, JUMP_MS = 150, OUTAGE_MS = 700, LATE_MS = 2000 /* on a busy machine */, SOON = 30000 };

static int64_t ttl_ms;

/* ------------------------------------------------------------------------------------------------ the client */

/* Holds, and tells every few ms how its lease stands, until it is lost. */
static int be_client(const char *url, const char *resource, int64_t ttl)
{
    const hf_client_options options = {.servers = url};
    const hf_acquire_options acquire = {.resource = resource, .ttl_ms = ttl};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_error error;
    bool valid = true;
    if (hf_client_new(&options, &client, &error) != HF_OK || hf_acquire(client, &acquire, &lease, NULL, &error) != HF_OK) {
        printf("FAILED %s\n", error.message);
        return 1;
    }
    while (valid) {
        /* In this order: what is said to be valid was so at `before` at least. */
        const int64_t before = hfi_boot_ms();
        valid = hf_lease_valid(lease);
        const int64_t deadline = hf_lease_deadline_ms(lease), after = hfi_boot_ms();
        printf("AT wall=%" PRId64 " before=%" PRId64 " after=%" PRId64 " deadline=%" PRId64 " valid=%d token=%" PRId64 "\n",
               (int64_t)time(NULL), before, after, deadline, valid, hf_lease_token(lease));
        fflush(stdout);
        usleep(5000);
    }
    printf("LOST %s\n", hf_lease_loss(lease));
    return 0;
}

/* ------------------------------------------------------------------------------------------------ faked clocks */

static const char *client_file, *server_file;
static int64_t jumped_ms;
static unsigned jumps;

/* The client's clock is an hour ahead and the server's behind, or the reverse. */
static void jump(void)
{
    const int direction = jumps++ % 2 ? -1 : 1;
    wall_set(client_file, direction * HOUR);
    wall_set(server_file, -direction * HOUR);
    jumped_ms = t_now_ms();
}

static void keep_jumping(void)
{
    if (t_now_ms() >= jumped_ms + JUMP_MS)
        jump();
    t_sleep_ms(10);
}

/* ------------------------------------------------------------------------------------------------ the test */

struct sample {
    int64_t wall, before, after, deadline, token;
    int valid;
};

static bool read_sample(const char *line, struct sample *s)
{
    return sscanf(line,
                  "AT wall=%" SCNd64 " before=%" SCNd64 " after=%" SCNd64 " deadline=%" SCNd64 " valid=%d token=%" SCNd64 "\n",
                  &s->wall, &s->before, &s->after, &s->deadline, &s->valid, &s->token) == 6;
}

/* What the client told agrees with the time it really was, from `begin` to now. */
static void check_samples(const char *out, int64_t begin_ms)
{
    const int64_t now = hfi_boot_ms(), wall = time(NULL), longest = ttl_ms - hfi_margin_ms(ttl_ms);
    unsigned ahead = 0, behind = 0, renewals = 0;
    struct sample s, last = {0};
    for (const char *line = out; (line = strstr(line, "AT ")); line++) {
        if (!strchr(line, '\n') || !read_sample(line, &s))
            continue;
        ahead += s.wall > wall + HOUR - 300;
        behind += s.wall < wall - HOUR + 300;
        if (s.before < begin_ms || s.after > now || s.before < last.after)
            fail_msg("CLOCK_BOOTTIME is faked too: %.*s", (int)strcspn(line, "\n"), line);
        if (s.token != 1 || s.deadline < last.deadline || s.deadline > s.after + longest)
            fail_msg("a deadline moved: %.*s", (int)strcspn(line, "\n"), line);
        if (s.valid ? s.before >= s.deadline : s.after < s.deadline)
            fail_msg("not by the deadline: %.*s", (int)strcspn(line, "\n"), line);
        renewals += s.deadline > last.deadline && last.deadline > 0;
        last = s;
    }
    print_message("[     INFO ] samples an hour ahead: %u, behind: %u; %u renewals; %u jumps of each clock\n", ahead, behind,
                  renewals, jumps);
    assert_true(ahead > 0 && behind > 0 && renewals >= TTLS);
    assert_int_equal(last.valid, 0);
    if (last.after > last.deadline + LATE_MS)
        fail_msg("the loss was seen %" PRId64 " ms late", last.after - last.deadline);
    assert_non_null(strstr(out, "LOST DEADLINE"));
}

/* The server's wall clock was wrong: its log's times are. */
static void check_log(const char *log)
{
    struct tm tm = {0};
    const char *end = strptime(log, "time=%Y-%m-%dT%H:%M:%S", &tm);
    assert_non_null(end);
    const int64_t off = timegm(&tm) - time(NULL);
    assert_true(off < -HOUR + 300 || off > HOUR - 300);
}

struct waiting {
    hf_client *client;
    const char *resource;
    hf_lease *lease;
    pthread_t thread;
    char trouble[512];
    atomic_bool done;
};

static void *wait_main(void *arg)
{
    struct waiting *w = arg;
    const hf_acquire_options options = {.resource = w->resource, .ttl_ms = 60000, .wait_ms = 2 * TTLS * ttl_ms + SOON};
    hf_error error;
    NEED(w->trouble, error, hf_acquire(w->client, &options, &w->lease, NULL, &error) == HF_OK);
out:
    atomic_store(&w->done, true);
    return NULL;
}

static void neither_deadlines_nor_decisions_move(void **state)
{
    (void)state;
    const char *dir = t_tmpdir(), *resource = "case 12";
    char *dsn = t_database();
    client_file = t_printf("%s/client", dir);
    server_file = t_printf("%s/server", dir);
    wall_build(dir);
    jump();

    const char *server_env[WALL_ENV], *client_env[WALL_ENV];
    wall_env(server_env, server_file);
    wall_env(client_env, client_file);
    const struct t_spawn_opts server_opts = {.env = server_env}, client_opts = {.env = client_env};
    struct t_server *server = t_server_startv((const char *const[]){"--dsn", dsn, NULL}, &server_opts);
    struct px *px = px_start(server->url, 1);
    PGconn *conn = t_connect(dsn);
    const int64_t begin_ms = hfi_boot_ms();
    const char *const argv[] = {t_self(), px_url(px), resource, t_printf("%" PRId64, ttl_ms), NULL};
    struct t_proc *a = t_spawn(argv, &client_opts);
    t_proc_expect_out(a, "AT ", SOON);

    const hf_client_options options = {.servers = server->url};
    const hf_acquire_options once = {.resource = resource, .ttl_ms = 60000};
    struct waiting b = {.resource = resource};
    hf_lease *lease = NULL;
    hf_held held;
    hf_error error;
    assert_int_equal(hf_client_new(&options, &b.client, NULL), HF_OK);
    assert_int_equal(pthread_create(&b.thread, NULL, wait_main, &b), 0);
    for (const int64_t end = t_now_ms() + TTLS * ttl_ms; t_now_ms() < end;) {
        const unsigned before = jumps;
        keep_jumping();
        if (jumps == before)
            continue;
        assert_int_equal(hf_acquire(b.client, &once, &lease, &held, &error), HF_HELD);
        assert_int_equal(held.token, 1);
        assert_true(held.remaining_ms > 0 && held.remaining_ms <= ttl_ms);
    }
    px_dark(px, true);
    const char *deadline = t_sql(conn, "SELECT deadline FROM holdfast.lease");
    for (const int64_t end = t_now_ms() + ttl_ms + SOON; t_proc_wait(a, 0) < 0 || !atomic_load(&b.done);) {
        assert_true(t_now_ms() < end);
        keep_jumping();
    }
    pthread_join(b.thread, NULL);
    if (b.trouble[0])
        fail_msg("%s", b.trouble);
    check_samples(t_proc_out(a), begin_ms);
    assert_int_equal(hf_lease_token(b.lease), 2);
    /* What had reached the server before the cut may have been committed after we looked. */
    const int64_t late =
        t_sql_int(conn, "SELECT extract(epoch FROM granted_at - '%s'::timestamptz) * 1000 FROM holdfast.lease", deadline);
    print_message("[     INFO ] taken over %" PRId64 " ms after the lease's end by the database's clock\n", late);
    assert_true(late >= 0 && late < ttl_ms / 2 + LATE_MS);
    oracle_check(conn, "default", NULL);
    check_log(t_proc_err(server->proc));
    hf_lease_free(b.lease);
    hf_client_free(b.client);
    px_stop(px);
    PQfinish(conn);
    assert_int_equal(t_server_stop(server), 0);
}

static struct sample last_sample(struct t_proc *client)
{
    struct sample s, last = {0};
    for (const char *line = t_proc_out(client); (line = strstr(line, "AT ")); line++)
        if (strchr(line, '\n') && read_sample(line, &s))
            last = s;
    return last;
}

/* A wait by the wall clock, such as that for the next try to connect, would end an hour later. */
static void a_step_back_keeps_nobody_from_coming_back(void **state)
{
    (void)state;
    const char *dir = t_tmpdir(), *file = t_printf("%s/client", dir), *env[WALL_ENV];
    const struct t_spawn_opts opts = {.env = env};
    struct t_server *server = t_server_start("--dsn", t_database(), NULL);
    wall_build(dir);
    wall_set(file, 0);
    wall_env(env, file);
    const char *const argv[] = {t_self(), server->url, "back", "9000", NULL};
    struct t_proc *client = t_spawn(argv, &opts);
    t_proc_expect_out(client, "AT ", SOON);
    t_server_kill(server, SIGKILL);
    t_sleep_ms(OUTAGE_MS); /* it tries to connect, and waits between the tries */
    wall_set(file, -HOUR);
    const struct sample before = last_sample(client);
    t_sleep_ms(OUTAGE_MS);
    t_server_restart(server);
    /* Renewed again. */
    while (last_sample(client).deadline == before.deadline) {
        if (!last_sample(client).valid)
            fail_msg("the lease was lost: the client did not come back");
        t_sleep_ms(JUMP_MS);
    }
    t_proc_kill(client, SIGKILL);
    assert_int_equal(t_server_stop(server), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(neither_deadlines_nor_decisions_move, t_teardown),
        cmocka_unit_test_teardown(a_step_back_keeps_nobody_from_coming_back, t_teardown),
    };
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 2400);
    if (argc == 4)
        return be_client(argv[1], argv[2], strtoll(argv[3], NULL, 10));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
