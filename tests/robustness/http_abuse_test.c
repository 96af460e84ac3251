/*
 * http_abuse_test.c - a real server whose HTTP port is abused in every way of http_attack.h, each alone and many together, while
 * honest callers work (http_honest.h).
 *
 * What must be so: the honest are all answered; attackers are ended with the error that says why; memory stays within what
 * net/http.h allows; connections leave no descriptor behind, waiters no place in line; the log isn't flooded. How long the honest
 * wait is measured and printed. HOLDFAST_ABUSE_SECONDS (long/http_abuse) plays each attack so long, prints a table, and requires
 * that the honest wait no longer than twice as long as usual, by their 99th percentile.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/certs.h"
#include "harness/harness.h"
#include "robustness/endurance_vitals.h"
#include "robustness/http_attack.h"
#include "robustness/http_honest.h"
#include "robustness/need.h"

enum {
    ALONE_MS = 300, /* of each attack */
    TOGETHER_MS = 3000,
    /* What net/http.h lets all connections hold, and half as much for what lies between the store and a response, and for what
     * malloc keeps. */
    HELD_MAX_KIB = 256 << 10,
    MORE_KIB = 128 << 10,
    LOG_LINES_MAX = 100,
    FILES_MORE = 16, /* the store's sessions come and go */
    FILES_NEEDED = 6000,
    TIMES = 2, /* the honest may take longer under attack */
    PAIRS = 3, /* of looks at them, before and during it */
    LULL_MS = 300
};

static struct t_server *server, *tls_server;
static PGconn *conn;
static struct honest honest;
static struct gauge gauge;
static int64_t rss_before_kib;
static int files_before;
static struct siege slow[3];

static int port_of(const struct t_server *of)
{
    return atoi(strrchr(of->http, ':') + 1);
}

/* A call of the test's own, by a connection of its own: what was answered. */
static struct raw_said *call(int port, const char *path, const char *json)
{
    static struct raw_said said;
    struct hp_buf out = HP_BUF_INIT;
    int fd = raw_connect(port);
    assert_true(fd >= 0);
    raw_call1(&out, path, json);
    assert_true(raw_send_buf(fd, &out));
    hp_buf_release(&out);
    raw_hear(fd, &said, false, 1, T_PATIENCE_MS);
    close(fd);
    return &said;
}

static int64_t acquire(int port, const char *resource, const char *more)
{
    struct raw_said *said = call(
        port, RAW_ACQUIRE,
        t_printf("{\"namespace\":\"default\",\"resources\":[\"%s\"],\"holder\":\"test\",\"ttlMs\":\"600000\"%s}", resource, more));
    const char *token = strstr(said->text, "\"token\":\"");
    if (said->status != 200 || !token)
        fail_msg("%d: %s", said->status, said->text);
    return strtoll(token + strlen("\"token\":\""), NULL, 10);
}

/* Values as large as values may be. */
static void write_large(int port)
{
    int64_t token = acquire(port, ATTACK_LARGE, "");
    char *value = malloc(ATTACK_LARGE_BYTES / 3 * 4 + 1);
    memset(value, 'A', ATTACK_LARGE_BYTES / 3 * 4);
    value[ATTACK_LARGE_BYTES / 3 * 4] = '\0';
    struct raw_said *said = call(port, RAW_WRITE,
                                 t_printf("{\"namespace\":\"default\",\"resource\":\"" ATTACK_LARGE
                                          "\",\"token\":\"%lld\",\"writeSeq\":\"1\",\"value\":\"%s\"}",
                                          (long long)token, value));
    free(value);
    if (said->status != 200)
        fail_msg("%d: %s", said->status, said->text);
    t_sql(
        conn,
        "INSERT INTO holdfast.resource (namespace, name, fence) SELECT namespace, name || '-' || i, fence FROM holdfast.resource, "
        "generate_series(0, %d) i WHERE name = '" ATTACK_LARGE "'; "
        "INSERT INTO holdfast.resource_value (namespace, resource, version, token, updated_at, value) SELECT namespace, resource "
        "|| '-' || i, version, token, updated_at, value FROM holdfast.resource_value, generate_series(0, %d) i",
        ATTACK_LARGE_MANY - 1, ATTACK_LARGE_MANY - 1);
}

static struct t_server *start_tls(const char *dsn)
{
    char *dir = t_tmpdir();
    t_cert_ca(dir, "ca");
    t_cert(dir, "ca", "server", NULL);
    return t_server_start("--dsn", dsn, "--http", "127.0.0.1:0", "--tls-cert", t_printf("%s/server.pem", dir), "--tls-key",
                          t_printf("%s/server.key", dir), NULL);
}

static int start(void **state)
{
    (void)state;
    struct rlimit files = {FILES_NEEDED, FILES_NEEDED};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_NEEDED) {
        files.rlim_cur = files.rlim_max < FILES_NEEDED ? files.rlim_max : FILES_NEEDED;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    char *dsn = t_database();
    tls_server = start_tls(dsn);
    server = t_server_start("--dsn", dsn, "--http", "127.0.0.1:0", NULL);
    conn = t_connect(dsn);
    write_large(port_of(server));
    acquire(port_of(server), ATTACK_HELD, "");
    honest_start(&honest, port_of(server));
    gauge_start(&gauge, server->proc->pid);
    t_keep();
    files_before = gauge_files(server->proc->pid);
    rss_before_kib = gauge_take(&gauge);
    return 0;
}

static int start_slow(void **state)
{
    start(state);
    siege_start(&slow[0], attack_named("slow header"), port_of(server));
    siege_start(&slow[1], attack_named("slow preface"), port_of(server));
    siege_start(&slow[2], attack_named("slow handshake"), port_of(tls_server));
    return 0;
}

static int stop(void **state)
{
    honest_stop(&honest); /* again, if all went well */
    gauge_stop(&gauge);
    PQfinish(conn);
    return t_teardown(state);
}

/* ---- what must be so ---- */

static void honest_are_well(const char *amid)
{
    struct raw_said *said = call(port_of(server), RAW_RELEASE, "{\"namespace\":\"default\",\"items\":[]}");
    if (honest.trouble[0] || !said->status || t_proc_wait(server->proc, 0) >= 0)
        fail_msg("%s: %s; another: %d; log: %s", amid, honest.trouble, said->status, t_proc_err(server->proc));
}

/* It takes the server's time limits to end it. */
static bool is_slow(const struct attack *attack)
{
    return !strncmp(attack->name, "slow", 4);
}

/* The attackers were ended as they should be. */
static void ended_well(const struct siege *siege)
{
    if (siege->wrong[0] || (!siege->right && siege->attack->end != ATTACK_LEFT))
        fail_msg("%s: %ld rounds, %ld ended well, %ld reset; the first otherwise: %s", siege->attack->name, siege->rounds,
                 siege->right, siege->broken, siege->wrong);
}

static void memory_is_bounded(const char *amid, int64_t peak_kib)
{
    if (vitals_memory_counts() && peak_kib > rss_before_kib + HELD_MAX_KIB + MORE_KIB)
        fail_msg("%s: %lld MiB are resident, %lld were before", amid, (long long)peak_kib >> 10, (long long)rss_before_kib >> 10);
}

/* ---- the tests ---- */

struct suffered {
    long rounds, right, broken;
    struct honest_figures honest;
    int64_t peak_kib;
};

/* As many milliseconds as asked of an attack, and what it did to the honest. */
static void suffer(const struct attack *attack, int ms, struct suffered *suffered)
{
    struct siege siege;
    gauge_take(&gauge);
    honest_take(&honest, &suffered->honest);
    siege_start(&siege, attack, port_of(attack_named("slow handshake") == attack ? tls_server : server));
    t_sleep_ms(ms);
    honest_take(&honest, &suffered->honest);
    siege_stop(&siege);
    suffered->rounds = siege.rounds;
    suffered->right = siege.right;
    suffered->broken = siege.broken;
    suffered->peak_kib = gauge_take(&gauge);
    honest_are_well(attack->name);
    if (!is_slow(attack))
        ended_well(&siege);
    memory_is_bounded(attack->name, suffered->peak_kib);
}

static void suffer_all(const struct attack *attacks)
{
    struct suffered suffered;
    for (; attacks->name; attacks++) {
        if (is_slow(attacks))
            continue;
        suffer(attacks, ALONE_MS, &suffered);
        print_message(
            "%-28s %6ld rounds, %5ld ended well, %3ld cut or reset | honest: %5zu calls, p99 %7.1f ms, max %7.1f | %4lld MiB\n",
            attacks->name, suffered.rounds, suffered.right, suffered.broken, suffered.honest.calls, suffered.honest.p99,
            suffered.honest.max, (long long)suffered.peak_kib >> 10);
    }
}

static void test_http2_alone(void **state)
{
    (void)state;
    suffer_all(attacks_http2);
}

static void test_http1_alone(void **state)
{
    (void)state;
    suffer_all(attacks_http1);
}

static void test_together(void **state)
{
    (void)state;
    static const char *const names[] = {"rapid reset of whole calls",
                                        "SETTINGS flood",
                                        "HPACK bomb",
                                        "zero windows",
                                        "never read",
                                        "bodies that stay half",
                                        "churn",
                                        "gzip bomb",
                                        "waiters gone",
                                        "1,000 idle",
                                        "tiny windows",
                                        "slow body"};
    enum { N = sizeof(names) / sizeof(names[0]) };
    static struct siege sieges[N];
    struct honest_figures figures;
    gauge_take(&gauge);
    honest_take(&honest, &figures);
    for (int i = 0; i < N; i++)
        siege_start(&sieges[i], attack_named(names[i]), port_of(server));
    t_sleep_ms(TOGETHER_MS);
    honest_take(&honest, &figures);
    for (int i = 0; i < N; i++)
        atomic_store(&sieges[i].over, true);
    for (int i = 0; i < N; i++)
        siege_stop(&sieges[i]);
    int64_t peak_kib = gauge_take(&gauge);
    print_message("together: honest: %zu calls, p50 %.1f ms, p99 %.1f, max %.1f; %lld MiB\n", figures.calls, figures.p50,
                  figures.p99, figures.max, (long long)peak_kib >> 10);
    honest_are_well("together");
    memory_is_bounded("together", peak_kib);
}

static bool slow_are_done(void *arg)
{
    const struct siege *siege = arg;
    return atomic_load(&siege->rounds) >= SIEGE_THREADS;
}

/* Whoever takes more than ten seconds for a header, the preface or a handshake was told so, and let go. */
static void test_slow(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!t_wait_for(slow_are_done, &slow[i], T_PATIENCE_MS))
            fail_msg("%s: not ended in time", slow[i].attack->name);
    }
    for (int i = 0; i < 3; i++)
        atomic_store(&slow[i].over, true);
    for (int i = 0; i < 3; i++) {
        siege_stop(&slow[i]);
        ended_well(&slow[i]);
    }
}

static bool few_files(void *arg)
{
    (void)arg;
    return gauge_files(server->proc->pid) <= files_before + FILES_MORE;
}

static bool nobody_waits(void *arg)
{
    (void)arg;
    struct raw_said *said =
        call(port_of(server), RAW_ACQUIRE,
             "{\"namespace\":\"default\",\"resources\":[\"" ATTACK_HELD "\"],\"holder\":\"see\",\"ttlMs\":\"1000\"}");
    t_contains(said->text, "\"held\"");
    return !strstr(said->text, "\"waiters\"");
}

/* When it is over, nothing is left of it. */
static void test_afterwards(void **state)
{
    (void)state;
    assert_true(t_wait_for(nobody_waits, NULL, T_PATIENCE_MS));
    if (!t_wait_for(few_files, NULL, T_PATIENCE_MS))
        fail_msg("%d descriptors are open, %d were before", gauge_files(server->proc->pid), files_before);
    honest_stop(&honest);
    assert_string_equal(honest.trouble, "");
    int lines = 0;
    for (const char *at = t_proc_err(server->proc); (at = strchr(at, '\n')); at++)
        lines++;
    if (lines > LOG_LINES_MAX)
        fail_msg("%d lines in the log: %s", lines, t_proc_err(server->proc));
    assert_int_equal(t_server_stop(server), 0);
}

/* ---- at length ---- */

static double median(const double of[PAIRS])
{
    for (int i = 0; i < PAIRS; i++) {
        int below = 0, same = 0;
        for (int k = 0; k < PAIRS; k++) {
            below += of[k] < of[i];
            same += of[k] == of[i];
        }
        if (below <= PAIRS / 2 && below + same > PAIRS / 2)
            return of[i];
    }
    return 0;
}

/* The honest undisturbed, then under the attack, and so again; machines are noisy, so medians count. False: they waited too long.
 */
static bool compare(const struct attack *attack, int ms)
{
    double p50[2][PAIRS], p99[2][PAIRS];
    struct honest_figures before;
    struct suffered during;
    long rounds = 0;
    int64_t peak_kib = 0;
    for (int i = 0; i < PAIRS; i++) {
        t_sleep_ms(LULL_MS);
        honest_take(&honest, &before);
        t_sleep_ms(ms);
        honest_take(&honest, &before);
        suffer(attack, ms, &during);
        p50[0][i] = before.p50;
        p99[0][i] = before.p99;
        p50[1][i] = during.honest.p50;
        p99[1][i] = during.honest.calls ? during.honest.p99 : INFINITY;
        rounds += during.rounds;
        peak_kib = during.peak_kib > peak_kib ? during.peak_kib : peak_kib;
    }
    bool well = median(p99[1]) <= TIMES * median(p99[0]);
    print_message("| %-28s | %8ld | %6.2f | %6.2f | %7.2f | %7.2f | %5.1f | %4lld |%s\n", attack->name, rounds, median(p50[0]),
                  median(p99[0]), median(p50[1]), median(p99[1]), median(p99[1]) / median(p99[0]), (long long)peak_kib >> 10,
                  well ? "" : " too long");
    return well;
}

/* Of those whose names have HOLDFAST_ABUSE_ONLY in them: how many were not well. */
static int compare_all(const struct attack *attack, int ms)
{
    const char *only = getenv("HOLDFAST_ABUSE_ONLY");
    int wrong = 0;
    for (; attack->name; attack++)
        wrong += (!only || strstr(attack->name, only)) && !compare(attack, ms);
    return wrong;
}

static void test_long(void **state)
{
    (void)state;
    int ms = (int)case_ms("HOLDFAST_ABUSE_SECONDS", 2) * 1000, wrong = 0;
    print_message("| attack                       |   rounds | p50 ms | p99 ms | during: | p99 ms  | times | MiB  |\n");
    print_message("|------------------------------|----------|--------|--------|---------|---------|-------|------|\n");
    wrong += compare_all(attacks_http2, ms);
    wrong += compare_all(attacks_http1, ms);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest at_length[] = {cmocka_unit_test(test_long)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_http2_alone), cmocka_unit_test(test_http1_alone), cmocka_unit_test(test_together),
        cmocka_unit_test(test_slow),        cmocka_unit_test(test_afterwards),
    };
    if (getenv("HOLDFAST_ABUSE_SECONDS")) {
        attack_from_afar();
        return cmocka_run_group_tests(at_length, start, stop);
    }
    return cmocka_run_group_tests(tests, start_slow, stop);
}
