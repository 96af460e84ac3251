/*
 * case_01_grpcs_test.c - the paused holder (case_01_paused_holder_test.c), over gRPC and TLS.
 *
 * The same three stories. The network holds bytes instead of messages: the third A's write lies in it, encrypted, past the
 * takeover, and then arrives. What reached the server is told by its table of refusals.
 */
#include "harness/served.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "harness/certs.h"
#include "robustness/bytes.h"
#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/paused.h"

enum { SOON = PAUSED_SOON_MS };

static int64_t ttl_ms;
static const char *ca;

struct story {
    const char *how; /* "working", "sending", "sent" */
    char resource[64];
    struct bytes *net;
    struct t_proc *a;
    int64_t token, stopped_ms;
    hf_lease *next;
};

static int setup(void **state)
{
    const char *dir = t_tmpdir();
    (void)state;
    ttl_ms = case_ms("HOLDFAST_CASE_TTL_MS", 1500);
    t_cert_ca(dir, "ca");
    t_cert(dir, "ca", "server", &(struct t_cert){.san = "IP:127.0.0.1"});
    ca = t_printf("%s/ca.pem", dir);
    server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", "--tls-cert", t_printf("%s/server.pem", dir),
                            "--tls-key", t_printf("%s/server.key", dir), NULL);
    conn = t_connect(server->dsn);
    oracle_audit_writes(conn, "default");
    t_keep();
    return 0;
}

static bool has_renewed(void *arg)
{
    const struct story *s = arg;
    return t_sql_int(conn, "SELECT count(*) FROM holdfast.lease WHERE resource = '%s' AND deadline > holdfast.clock() + '%lld ms'",
                     s->resource, (long long)(ttl_ms * 9 / 10)) > 0;
}

static void start(struct story *s)
{
    snprintf(s->resource, sizeof(s->resource), "case 1/%s", s->how);
    s->net = bytes_start(server->http);
    const char *const argv[] = {t_self(), s->how,      t_printf("grpcs://%s", bytes_address(s->net)),
                                ca,       s->resource, t_printf("%lld", (long long)ttl_ms),
                                NULL};
    s->a = t_spawn(argv, NULL);
}

static bool write_is_held(void *arg)
{
    return bytes_held(((struct story *)arg)->net) >= PAUSED_VALUE;
}

/* A is stopped, by itself or by us, at the point that its story wants. */
static void stop(struct story *s)
{
    s->token = paused_token(s->a);
    t_sleep_ms((int)ttl_ms / 2); /* a renewal is due at a third */
    assert_true(t_wait_for(has_renewed, s, SOON));
    if (!strcmp(s->how, "sending")) {
        t_proc_kill(s->a, SIGUSR1);
        t_proc_expect_out(s->a, "STOPS", SOON);
    } else if (!strcmp(s->how, "sent")) {
        bytes_hold(s->net);
        t_proc_kill(s->a, SIGUSR1);
        assert_true(t_wait_for(write_is_held, s, SOON));
        t_proc_kill(s->a, SIGSTOP);
    } else {
        t_proc_kill(s->a, SIGSTOP);
    }
    paused_await_stop(s->a);
    s->stopped_ms = t_now_ms();
}

static void take_over(struct story *s, hf_client *b)
{
    const hf_acquire_options options = {.resource = s->resource, .ttl_ms = 60000, .wait_ms = ttl_ms + SOON};
    hf_error error;
    if (hf_acquire(b, &options, &s->next, NULL, &error) != HF_OK)
        fail_msg("%s: %s", s->how, error.message);
    assert_true(hf_lease_token(s->next) > s->token);
    assert_int_equal(hf_write(s->next, NULL, "from B", 6, NULL, &error), HF_OK);
}

static int64_t refusals(const struct story *s)
{
    return t_sql_int(conn, "SELECT coalesce(sum(refusals), 0) FROM holdfast.refusal WHERE resource = '%s' AND token = %lld",
                     s->resource, (long long)s->token);
}

static bool is_refused(void *arg)
{
    return refusals(arg) == 1;
}

/* The write arrives from the network while A is still stopped. */
static void arrive(struct story *s)
{
    if (strcmp(s->how, "sent") != 0)
        return;
    assert_int_equal(refusals(s), 0);
    bytes_release(s->net);
    assert_true(t_wait_for(is_refused, s, SOON));
}

static void go_on(struct story *s)
{
    const bool at_work = !strcmp(s->how, "working");
    for (int64_t left; (left = s->stopped_ms + 3 * ttl_ms - t_now_ms()) > 0;)
        t_sleep_ms((int)left);
    if (at_work)
        t_proc_kill(s->a, SIGUSR1); /* it writes the moment it runs again */
    t_proc_kill(s->a, SIGCONT);
    paused_check(s->a, at_work);
    if (!at_work)
        assert_true(t_wait_for(is_refused, s, SOON));
}

static void finish(struct story *s, hf_client *b)
{
    hf_value value;
    hf_error error;
    t_proc_kill(s->a, SIGUSR1);
    assert_int_equal(t_proc_wait(s->a, SOON), 0);
    assert_int_equal(refusals(s), strcmp(s->how, "working") ? 1 : 0);
    assert_int_equal(hf_read(b, s->resource, &value, &error), HF_OK);
    assert_string_equal(value.data, "from B");
    assert_int_equal(value.version, 1);
    assert_int_equal(value.token, hf_lease_token(s->next));
    hf_value_release(&value);
    assert_true(hf_lease_valid(s->next));
    assert_int_equal(hf_release(s->next, &error), HF_OK);
    hf_lease_free(s->next);
    bytes_stop(s->net);
}

static void a_paused_holder_commits_nothing(void **state)
{
    (void)state;
    struct story stories[] = {{.how = "working"}, {.how = "sending"}, {.how = "sent"}};
    const int n = sizeof(stories) / sizeof(stories[0]);
    const hf_client_options options = {.servers = t_printf("grpcs://%s", server->http), .tls_ca_file = ca};
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
    /* Grant, takeover, B's write and release; an expiry is written down too if nobody waited when it came. */
    int64_t expiries = t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE kind = 'expire'");
    assert_int_equal(oracle_check(conn, "default", NULL), 4 * n + expiries);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_holder_commits_nothing),
    };
    if (argc == 6)
        return paused_holder(argv[1], argv[2], argv[3], argv[4], strtoll(argv[5], NULL, 10));
    return cmocka_run_group_tests(tests, setup, end_serving);
}
