/*
 * case_01_paused_holder_test.c - the paused holder.
 *
 * A holds a lease under t1 and is stopped (SIGSTOP) for 3 x TTL: while it works; between its library's own check and the sending of
 * a write; or when the write has left it and lies in the network (the proxy holds it past the takeover). Meanwhile B gets t2 and
 * writes. Then A goes on, and what lay in the network arrives. Wanted: STALE_TOKEN at the server; B's value stands; A's library
 * reports the loss before it sends anything new, once; and commits nothing more.
 *
 * The three are played side by side. A is this program, run again with arguments, on a proxy of its own. Environment:
 * HOLDFAST_CASE_TTL_MS (default 1500), HOLDFAST_CASE_HOLD_MS (how long the write is held at least; default: past the takeover).
 */
#include "harness/served.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"

enum { SOON = 30000 };

/* ------------------------------------------------------------------------------------------------ A */

/* A transport that stops its process when it is handed a write: the library's checks are behind it. */
static struct hfi_transport *real_transport;

static void stop_and_send(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                          int64_t reply_ms, struct hfi_exchange *exchange)
{
    static bool stopped;
    (void)transport;
    if (!stopped && memmem(data, len, "/Write", 6)) {
        stopped = true;
        printf("STOPS\n");
        fflush(stdout);
        raise(SIGSTOP);
    }
    real_transport->send(real_transport, endpoint, data, len, send_ms, reply_ms, exchange);
}

static const char *real_url(struct hfi_transport *transport, unsigned endpoint)
{
    (void)transport;
    return real_transport->url(real_transport, endpoint);
}

static void real_stop(struct hfi_transport *transport)
{
    (void)transport;
    real_transport->stop(real_transport);
}

static void real_free(struct hfi_transport *transport)
{
    (void)transport;
    real_transport->free(real_transport);
}

static hf_result stopping_client(const hf_client_options *options, hf_client **client, hf_error *error)
{
    static struct hfi_transport transport = {
        .n_endpoints = 1, .send = stop_and_send, .url = real_url, .stop = real_stop, .free = real_free};
    const struct hfi_ports ports = {.clock = &hfi_system_clock, .random = &hfi_system_random, .transport = &transport};
    char why[256];
    if (hfi_transport_open(options->servers, NULL, &real_transport, why, sizeof(why)) != HFI_OPEN_OK)
        return HF_FAILED;
    return hfi_client_new(options, &ports, client, error);
}

static void say_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    printf("LOSS %s\n", reason);
    fflush(stdout);
}

static void write_and_say(hf_lease *lease, const char *word)
{
    hf_error error;
    hf_result result = hf_write(lease, NULL, "from A", 6, NULL, &error);
    printf("%s %s %s valid=%d\n", word, hf_result_name(result), error.reason, hf_lease_valid(lease));
    fflush(stdout);
}

/* Holds, waits for a signal, writes, writes again, and waits for a signal to end. */
static int be_a(const char *how, const char *url, const char *resource, int64_t ttl_ms)
{
    const hf_client_options options = {.servers = url, .on_loss = say_loss};
    const hf_acquire_options acquire = {.resource = resource, .ttl_ms = ttl_ms};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_value value;
    hf_error error;
    sigset_t go;
    int sig;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    hf_result made =
        strcmp(how, "sending") == 0 ? stopping_client(&options, &client, &error) : hf_client_new(&options, &client, &error);
    if (made != HF_OK || hf_acquire(client, &acquire, &lease, NULL, &error) != HF_OK ||
        hf_read(client, resource, &value, &error) != HF_OK) {
        printf("FAILED %s\n", error.message);
        return 1;
    }
    hf_value_release(&value);
    printf("HOLDING %lld\n", (long long)hf_lease_token(lease));
    fflush(stdout);
    sigwait(&go, &sig);
    write_and_say(lease, "WRITE");
    write_and_say(lease, "NEXT");
    sigwait(&go, &sig);
    hf_lease_free(lease);
    hf_client_free(client);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ the test */

static int64_t ttl_ms, hold_ms;

struct story {
    const char *how; /* "working", "sending", "sent" */
    char resource[64];
    struct px *px;
    struct t_proc *a;
    int renewals, writes, hold; /* rules: the first two count */
    int64_t token, next_token, stopped_ms;
    hf_lease *next;
    unsigned renewals_before;
};

static int setup(void **state)
{
    serve(state);
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 1500);
    hold_ms = case_ms("HOLDFAST_CASE_HOLD_MS", 0);
    oracle_audit_writes(conn, "default");
    return 0;
}

static void start(struct story *s)
{
    snprintf(s->resource, sizeof(s->resource), "case 1/%s", s->how);
    s->px = px_start(server->url, 1);
    s->renewals = px_add(s->px, &(struct px_rule){.direction = PX_REQUEST, .method = "Renew", .action = PX_PASS});
    s->writes = px_add(s->px, &(struct px_rule){.direction = PX_REQUEST, .method = "Write", .action = PX_PASS});
    const char *const argv[] = {t_self(), s->how, px_url(s->px), s->resource, t_printf("%lld", (long long)ttl_ms), NULL};
    s->a = t_spawn(argv, NULL);
}

static bool is_stopped(void *arg)
{
    struct story *s = arg;
    const char *stat = t_read_file(t_printf("/proc/%d/stat", (int)s->a->pid));
    const char *end = strrchr(stat, ')');
    return end && end[1] == ' ' && end[2] == 'T';
}

/* A is stopped, by itself or by us, at the point that its story wants. */
static void stop(struct story *s)
{
    t_proc_expect_out(s->a, "HOLDING ", SOON);
    s->token = strtoll(strstr(t_proc_out(s->a), "HOLDING ") + 8, NULL, 10);
    assert_true(px_wait(s->px, s->renewals, 1, SOON)); /* it keeps its lease */
    if (!strcmp(s->how, "sending")) {
        t_proc_kill(s->a, SIGUSR1);
        t_proc_expect_out(s->a, "STOPS", SOON);
    } else if (!strcmp(s->how, "sent")) {
        s->hold = px_add(s->px, &(struct px_rule){.direction = PX_REQUEST, .method = "Write", .action = PX_HOLD});
        t_proc_kill(s->a, SIGUSR1);
        assert_true(px_wait(s->px, s->hold, 1, SOON));
        t_proc_kill(s->a, SIGSTOP);
    } else {
        t_proc_kill(s->a, SIGSTOP);
    }
    assert_true(t_wait_for(is_stopped, s, SOON));
    s->stopped_ms = t_now_ms();
}

static void take_over(struct story *s, hf_client *b)
{
    const hf_acquire_options options = {.resource = s->resource, .ttl_ms = 60000, .wait_ms = ttl_ms + SOON};
    hf_error error;
    if (hf_acquire(b, &options, &s->next, NULL, &error) != HF_OK)
        fail_msg("%s: %s", s->how, error.message);
    s->next_token = hf_lease_token(s->next);
    assert_true(s->next_token > s->token);
    assert_int_equal(hf_write(s->next, NULL, "from B", 6, NULL, &error), HF_OK);
    assert_true(px_wait_quiet(s->px, SOON)); /* what A had sent before has arrived */
    s->renewals_before = px_count(s->px, s->renewals).seen;
}

static void sleep_until(int64_t until_ms)
{
    for (int64_t left; (left = until_ms - t_now_ms()) > 0;)
        t_sleep_ms((int)left);
}

static int64_t refusals(const struct story *s)
{
    return t_sql_int(conn, "SELECT coalesce(sum(refusals), 0) FROM holdfast.refusal WHERE resource = '%s' AND token = %lld",
                     s->resource, (long long)s->token);
}

/* The write arrives from the network while A is still stopped. */
static void arrive(struct story *s)
{
    if (strcmp(s->how, "sent") != 0)
        return;
    sleep_until(s->stopped_ms + hold_ms);
    assert_int_equal(px_release(s->px, s->hold), 1);
    assert_true(px_wait_quiet(s->px, SOON));
    px_remove(s->px, s->hold);
    assert_int_equal(refusals(s), 1);
}

static void go_on(struct story *s)
{
    const bool at_work = !strcmp(s->how, "working");
    sleep_until(s->stopped_ms + 3 * ttl_ms);
    if (at_work)
        t_proc_kill(s->a, SIGUSR1); /* it writes the moment it runs again */
    t_proc_kill(s->a, SIGCONT);
    t_proc_expect_out(s->a, "NEXT ", SOON);
    t_proc_expect_out(s->a, "LOSS ", SOON);
    const char *out = t_proc_out(s->a), *write = strstr(out, "WRITE "), *next = strstr(out, "NEXT "), *loss = strstr(out, "LOSS ");
    /* What was under way may have been refused by the server in A's hearing, or be unknown to A; it is never OK. */
    bool right = strstr(write, " valid=0") &&
                 (!strncmp(write, "WRITE LOST", 10) || (!at_work && !strncmp(write, "WRITE UNKNOWN OUTCOME_LOST", 26)));
    if (!right || strncmp(next, "NEXT LOST", 9) != 0 || strstr(loss + 1, "LOSS "))
        fail_msg("%s: %s", s->how, out);
    assert_true(px_wait_quiet(s->px, SOON));
    assert_int_equal(px_count(s->px, s->writes).seen, at_work ? 0 : 1);
    assert_int_equal(px_count(s->px, s->renewals).seen, s->renewals_before);
    assert_int_equal(refusals(s), at_work ? 0 : 1);
}

static void finish(struct story *s, hf_client *b)
{
    hf_value value;
    hf_error error;
    assert_int_equal(hf_read(b, s->resource, &value, &error), HF_OK);
    assert_string_equal(value.data, "from B");
    assert_int_equal(value.version, 1);
    assert_int_equal(value.token, s->next_token);
    hf_value_release(&value);
    assert_true(hf_lease_valid(s->next));
    assert_int_equal(hf_release(s->next, &error), HF_OK);
    hf_lease_free(s->next);
    t_proc_kill(s->a, SIGUSR1);
    assert_int_equal(t_proc_wait(s->a, SOON), 0);
    px_stop(s->px);
}

static void a_paused_holder_commits_nothing(void **state)
{
    (void)state;
    struct story stories[] = {{.how = "working"}, {.how = "sending"}, {.how = "sent"}};
    const int n = sizeof(stories) / sizeof(stories[0]);
    const hf_client_options options = {.servers = server->url};
    hf_client *b = NULL;
    assert_int_equal(hf_client_new(&options, &b, NULL), HF_OK);
    for (int i = 0; i < n; i++)
        start(&stories[i]);
    for (int i = 0; i < n; i++)
        stop(&stories[i]);
    for (int i = 0; i < n; i++)
        take_over(&stories[i], b);
    for (int i = 0; i < n; i++)
        arrive(&stories[i]);
    for (int i = 0; i < n; i++)
        go_on(&stories[i]);
    for (int i = 0; i < n; i++)
        finish(&stories[i], b);
    hf_client_free(b);
    assert_int_equal(oracle_check(conn, "default", NULL), 4 * n); /* grant, takeover, B's write and release */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_holder_commits_nothing),
    };
    if (argc == 5)
        return be_a(argv[1], argv[2], argv[3], strtoll(argv[4], NULL, 10));
    return cmocka_run_group_tests(tests, setup, end_serving);
}
