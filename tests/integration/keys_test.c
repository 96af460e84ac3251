/*
 * keys_test.c - keys on real servers: two on one database, the command line, revocation seen by the other one, a database that
 * doesn't answer, rates, namespaces, SQL roles; and that nothing of a key is written anywhere.
 */
#include "integration/calls.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/certs.h"
#include "harness/harness.h"

static struct t_server *one, *two;
static PGconn *conn;
static char *root;              /* the first key */
static const char *secrets[64]; /* of all keys that were made */
static size_t n_secrets;

/* ---- keys ---- */

static char *line_of(struct t_result result)
{
    if (result.status != 0 || strncmp(result.out, "hfk_", 4) != 0)
        fail_msg("%d: %s %s", result.status, result.out, result.err);
    result.out[strcspn(result.out, "\n")] = '\0';
    assert_true(n_secrets < 64);
    secrets[n_secrets++] = strrchr(result.out, '_') + 1;
    return result.out;
}

static int setup(void **state)
{
    (void)state;
    char *dsn = t_database();
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--create-admin-key", "root", NULL};
    root = line_of(t_run(argv, NULL, 60000));
    one = t_server_start("--dsn", dsn, "--auth", "keys", NULL);
    two = t_server_start("--dsn", dsn, "--auth", "keys", NULL);
    conn = t_connect(dsn);
    t_keep();
    return 0;
}

static char *id_of(const char *key)
{
    char *id = t_printf("%s", key + 4);
    id[strcspn(id, "_")] = '\0';
    return id;
}

static char *bearer(const char *key)
{
    return t_printf("Bearer %s", key);
}

/* By the first key. */
#define ADMIN_CLI(server, ...) t_cli(server, "--key", root, __VA_ARGS__, NULL)

/* A server knows of a new key within two seconds; the one that made it, at once. */
static char *new_key(const char *name, const char *role, const char *ns, const char *resources)
{
    return line_of(ns ? ADMIN_CLI(one, "--namespace", ns, "key", "create", name, "--role", role, "--resources", resources)
                      : ADMIN_CLI(one, "key", "create", name, "--role", role, "--all-namespaces", "--resources", resources));
}

static enum hp_reason get_reason(struct t_rpc *rpc, const char *resource)
{
    struct hp_status status;
    return c_get(rpc, resource, &status) ? HP_R_UNSPECIFIED : status.reason;
}

struct wanted {
    struct t_rpc *rpc;
    enum hp_reason reason;
};

static bool is_so(void *arg)
{
    const struct wanted *wanted = arg;
    return get_reason(wanted->rpc, "r") == wanted->reason;
}

static void becomes(struct t_rpc *rpc, enum hp_reason reason)
{
    struct wanted wanted = {rpc, reason};
    if (!t_wait_for(is_so, &wanted, T_PATIENCE_MS))
        fail_msg("%s, and not %s", hp_reason_name(get_reason(rpc, "r")), hp_reason_name(reason));
}

/* ---- tests ---- */

static void nothing_without_a_key(void **state)
{
    (void)state;
    struct t_rpc *rpc = t_rpc_open(one->url);
    assert_int_equal(get_reason(rpc, "r"), HP_R_NO_KEY);
    t_rpc_authorize(rpc, "Bearer hfk_00000000000_000000000000000000000000000000000");
    assert_int_equal(get_reason(rpc, "r"), HP_R_BAD_KEY);
    t_rpc_authorize(rpc, bearer(root));
    assert_int_equal(get_reason(rpc, "r"), HP_R_NO_SUCH_RESOURCE);
    t_rpc_close(rpc);
    struct t_result result = t_cli(one, "read", "r", NULL);
    assert_int_equal(result.status, 1);
    t_contains(result.err, "NO_KEY");
    result = t_cli(one, "--key", "hfk_nonsense", "read", "r", NULL);
    assert_int_equal(result.status, 1);
    t_contains(result.err, "BAD_KEY");
}

static void a_worker_works_within_its_prefix(void **state)
{
    (void)state;
    const char *key = new_key("orders", "worker", "default", "orders/");
    struct t_result result = t_cli(one, "--key", key, "acquire", "orders/1", NULL);
    assert_int_equal(result.status, 0);
    result = t_cli(one, "--key", key, "acquire", "invoices/1", NULL);
    assert_int_equal(result.status, 1);
    t_contains(result.err, "SCOPE");
    result = t_cli(one, "--key", key, "--namespace", "other", "acquire", "orders/1", NULL);
    t_contains(result.err, "SCOPE");
    result = t_cli(one, "--key", key, "break", "orders/1", "--token", "1", "--reason", "x", NULL);
    t_contains(result.err, "ROLE");
    /* Lists show what it may see. */
    assert_int_equal(ADMIN_CLI(one, "acquire", "invoices/1").status, 0);
    result = t_cli(one, "--key", key, "leases", NULL);
    t_contains(result.out, "orders/1");
    assert_null(strstr(result.out, "invoices/1"));
    t_contains(ADMIN_CLI(one, "leases").out, "invoices/1");
    result = t_cli(one, "--key", key, "--json", "stats", NULL);
    t_contains(result.out, "\"uptimeMs\"");
    assert_null(strstr(result.out, "LeaseService"));
    /* Who did it stands in the audit beside what the caller says of itself. */
    result = ADMIN_CLI(one, "break", "invoices/1", "--token", "1", "--reason", "try");
    assert_int_equal(result.status, 0);
    t_contains(t_sql(conn, "SELECT actor FROM holdfast.audit WHERE kind = 'break'"), "root (");
}

/* Made on one server, good on the other; revoked on one, bad on the other, while calls go on there. */
static void revocation_reaches_every_server(void **state)
{
    (void)state;
    int64_t longest_new = 0, longest_gone = 0;
    struct t_rpc *rpc = t_rpc_open(two->url), *busy = t_rpc_open(two->url);
    t_rpc_authorize(busy, bearer(root));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get_reason(busy, "r"),
                         HP_R_NO_SUCH_RESOURCE); /* so that what it knows is fresh, and old enough to be wrong */
        char *key = new_key(t_printf("short %d", i), "reader", NULL, "");
        int64_t made = t_now_ms();
        t_rpc_authorize(rpc, bearer(key));
        becomes(rpc, HP_R_NO_SUCH_RESOURCE);
        longest_new = t_now_ms() - made > longest_new ? t_now_ms() - made : longest_new;
        struct t_result result = ADMIN_CLI(one, "key", "revoke", id_of(key), "--reason", "test");
        int64_t revoked = t_now_ms();
        assert_int_equal(result.status, 0);
        struct t_rpc *here = t_rpc_open(one->url);
        t_rpc_authorize(here, bearer(key));
        assert_int_equal(get_reason(here, "r"), HP_R_BAD_KEY); /* there at once */
        t_rpc_close(here);
        becomes(rpc, HP_R_BAD_KEY);
        longest_gone = t_now_ms() - revoked > longest_gone ? t_now_ms() - revoked : longest_gone;
    }
    print_message("a new key was good on the other server after %lld ms at most, a revoked one bad after %lld ms\n",
                  (long long)longest_new, (long long)longest_gone);
    assert_true(longest_gone < T_AT_ONCE_MS); /* 2 s, and what a busy machine adds */
    t_rpc_close(busy);
    t_rpc_close(rpc);
}

static bool somebody_waits(void *arg)
{
    struct t_rpc *rpc = t_rpc_open(two->url);
    Holdfast__V1__StatsRequest request = HOLDFAST__V1__STATS_REQUEST__INIT;
    (void)arg;
    t_rpc_authorize(rpc, bearer(root));
    Holdfast__V1__StatsResponse *stats = c_call(rpc, C_ADMIN "Stats", &request, NULL);
    bool waits = stats->waits->waiters > 0;
    t_rpc_close(rpc);
    return waits;
}

/* A waiting acquire ends with its key, on the other server too, and though nobody else calls there. */
static void waiting_ends_with_the_key(void **state)
{
    (void)state;
    const char *key = new_key("waiter", "worker", "default", "");
    struct t_rpc *rpc = t_rpc_open(two->url);
    t_rpc_authorize(rpc, bearer(key));
    becomes(rpc, HP_R_NO_SUCH_RESOURCE);
    t_rpc_close(rpc);
    assert_int_equal(ADMIN_CLI(one, "acquire", "held", "--ttl", "10m").status, 0);
    struct t_proc *waiter = t_cli_spawn(two, "--key", key, "acquire", "held", "--wait", "5m", NULL);
    assert_true(t_wait_for(somebody_waits, NULL, T_PATIENCE_MS));
    assert_int_equal(ADMIN_CLI(one, "key", "revoke", id_of(key)).status, 0);
    assert_int_equal(t_proc_wait(waiter, T_PATIENCE_MS), 1);
    t_contains(t_proc_err(waiter), "BAD_KEY");
}

/* What was known is no reason to let anybody in when the database doesn't say so any more. */
static void without_the_database_no_key_is_good(void **state)
{
    (void)state;
    struct t_rpc *rpc = t_rpc_open(two->url);
    t_rpc_authorize(rpc, bearer(root));
    becomes(rpc, HP_R_NO_SUCH_RESOURCE);
    t_sql(conn, "BEGIN");
    t_sql(conn, "LOCK TABLE holdfast.auth_state IN ACCESS EXCLUSIVE MODE");
    becomes(rpc, HP_R_DATABASE_DOWN); /* though leases could be read */
    t_rpc_authorize(rpc, NULL);
    assert_int_equal(get_reason(rpc, "r"), HP_R_NO_KEY);
    t_rpc_authorize(rpc, bearer(root));
    t_sql(conn, "ROLLBACK");
    becomes(rpc, HP_R_NO_SUCH_RESOURCE);
    t_rpc_close(rpc);
}

static void a_rate_is_kept(void **state)
{
    (void)state;
    struct hp_status status;
    const char *key =
        line_of(ADMIN_CLI(one, "key", "create", "slow", "--role", "reader", "--all-namespaces", "--rate", "1", "--burst", "3"));
    struct t_rpc *rpc = t_rpc_open(one->url);
    t_rpc_authorize(rpc, bearer(key));
    int let_in = 0, refused = 0;
    int64_t began = t_now_ms();
    for (int i = 0; i < 20; i++) {
        if (c_get(rpc, "r", &status) || status.reason == HP_R_NO_SUCH_RESOURCE) {
            let_in++;
            continue;
        }
        assert_int_equal(status.reason, HP_R_RATE);
        assert_int_equal(status.code, HP_RESOURCE_EXHAUSTED);
        assert_in_range(status.retry_ms, 1, 1000);
        refused++;
    }
    assert_true(let_in >= 3 && let_in <= 4 + (t_now_ms() - began) / 1000);
    assert_true(refused > 0);
    t_rpc_close(rpc);
    t_contains(ADMIN_CLI(one, "--json", "stats").out, "\"reason\":\"RATE\"");
    t_contains(ADMIN_CLI(one, "stats").out, "REFUSED, RATE");
}

/* An admin of a namespace makes keys there and nowhere else. */
static void an_admin_of_a_namespace_stays_there(void **state)
{
    (void)state;
    assert_int_equal(ADMIN_CLI(one, "namespace", "create", "pay").status, 0);
    const char *admin = new_key("pay admin", "admin", "pay", "");
    const char *made =
        line_of(t_cli(one, "--key", admin, "--namespace", "pay", "key", "create", "pay worker", "--role", "worker", NULL));
    assert_int_equal(t_cli(one, "--key", made, "--namespace", "pay", "acquire", "x", NULL).status, 0);
    struct t_result result = t_cli(one, "--key", admin, "--namespace", "default", "key", "create", "out", "--role", "reader", NULL);
    t_contains(result.err, "SCOPE");
    result = t_cli(one, "--key", admin, "key", "create", "out", "--role", "reader", "--all-namespaces", NULL);
    t_contains(result.err, "SCOPE");
    result = t_cli(one, "--key", admin, "key", "revoke", id_of(root), NULL);
    t_contains(result.err, "NO_SUCH_KEY"); /* for all that he is told */
    result = t_cli(one, "--key", admin, "key", "set", id_of(admin), "--role", "admin", "--all-namespaces", NULL);
    t_contains(result.err, "SCOPE");
    result = t_cli(one, "--key", admin, "key", "list", NULL);
    t_contains(result.out, "pay worker");
    assert_null(strstr(result.out, "root"));
    result = t_cli(one, "--key", admin, "namespace", "list", NULL);
    t_contains(result.out, "pay");
    assert_null(strstr(result.out, "default"));
    result = t_cli(one, "--key", admin, "key", "denials", NULL);
    t_contains(result.err, "SCOPE");
    result = t_cli(one, "--key", admin, "--namespace", "pay", "audit", NULL);
    t_contains(result.out, "created");
}

static void keys_are_changed_and_listed(void **state)
{
    (void)state;
    const char *key = new_key("changing", "reader", "default", "");
    assert_int_equal(t_cli(one, "--key", key, "acquire", "changing", NULL).status, 1);
    struct t_result result = ADMIN_CLI(one, "key", "set", id_of(key), "--role", "worker", "--expires", "1h", "--rate", "100");
    assert_int_equal(result.status, 0);
    t_contains(result.out, "worker in default");
    assert_int_equal(t_cli(one, "--key", key, "acquire", "changing", NULL).status, 0);
    assert_int_equal(ADMIN_CLI(one, "key", "set", id_of(key)).status, 2);
    assert_int_equal(ADMIN_CLI(one, "key", "set", "nonsense", "--rate", "1").status, 2);
    assert_int_equal(ADMIN_CLI(one, "key", "create", "no role").status, 2);
    assert_int_equal(ADMIN_CLI(one, "key", "create", "changing", "--role", "reader").status, 1); /* the name is taken */
    t_contains(ADMIN_CLI(one, "--json", "key", "list").out, "\"name\":\"changing\"");
    assert_int_equal(ADMIN_CLI(one, "key", "revoke", id_of(key)).status, 0);
    assert_int_equal(ADMIN_CLI(one, "key", "revoke", id_of(key)).status, 0); /* again */
    assert_null(strstr(ADMIN_CLI(one, "key", "list").out, "changing"));
    t_contains(ADMIN_CLI(one, "key", "list", "--revoked").out, "changing");
    /* A key that runs out. */
    key = line_of(ADMIN_CLI(one, "key", "create", "brief", "--role", "reader", "--all-namespaces", "--expires", "1s"));
    struct t_rpc *rpc = t_rpc_open(one->url);
    t_rpc_authorize(rpc, bearer(key));
    becomes(rpc, HP_R_BAD_KEY);
    t_rpc_close(rpc);
}

static bool is_noted(void *arg)
{
    (void)arg;
    return strcmp(t_sql(conn, "SELECT count(*) > 0 FROM holdfast.denial"), "t") == 0 &&
           strcmp(t_sql(conn, "SELECT count(*) > 0 FROM holdfast.principal WHERE last_used_at IS NOT NULL AND name = 'root'"),
                  "t") == 0;
}

static void use_and_denials_are_noted(void **state)
{
    (void)state;
    t_cli(one, "read", "r", NULL);
    const char *key = new_key("denied", "reader", NULL, "");
    t_cli(one, "--key", key, "acquire", "r", NULL);
    assert_true(t_wait_for(is_noted, NULL, T_PATIENCE_MS)); /* within five seconds, in a batch */
    t_contains(ADMIN_CLI(one, "key", "denials").out, "NO_KEY");
}

static void sql_roles_are_mapped(void **state)
{
    (void)state;
    const char *role = t_sql(conn, "SELECT 'k_' || substr(md5(current_database()), 1, 12)");
    t_sql(conn, "CREATE ROLE %s NOLOGIN", role);
    assert_int_equal(ADMIN_CLI(one, "role", "map", role).status, 0);
    t_contains(ADMIN_CLI(one, "role", "list").out, role);
    struct t_result result = ADMIN_CLI(one, "role", "map", "there is none");
    assert_int_equal(result.status, 2);
    assert_int_equal(ADMIN_CLI(one, "role", "unmap", role).status, 0);
    assert_null(strstr(ADMIN_CLI(one, "role", "list").out, role));
    t_sql(conn, "DROP ROLE %s", role);
}

/* ---- certificates ---- */

struct asked {
    const char *const *argv;
    const char *wanted;
};

static bool is_answered(void *arg)
{
    const struct asked *asked = arg;
    return strstr(t_run(asked->argv, NULL, T_PATIENCE_MS).out, asked->wanted) != NULL;
}

/* A name in a client certificate that TLS has verified is a principal, like a key. */
static void a_certificate_may_call(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    t_cert_ca(dir, "ca");
    t_cert(dir, "ca", "server", &(struct t_cert){.san = "DNS:localhost"});
    t_cert(dir, "ca", "billing", &(struct t_cert){.use = "clientAuth"});
    struct t_server *server =
        t_server_start("--dsn", one->dsn, "--auth", "keys", "--http", "127.0.0.1:0", "--tls-cert", t_printf("%s/server.pem", dir),
                       "--tls-key", t_printf("%s/server.key", dir), "--tls-client-ca", t_printf("%s/ca.pem", dir), NULL);
    const char *url = t_printf("https://localhost%s/holdfast.v1.LeaseService/List", strrchr(server->http, ':'));
    const char *const argv[] = {"curl",
                                "-sS",
                                "-m",
                                "20",
                                "--cacert",
                                t_printf("%s/ca.pem", dir),
                                "--cert",
                                t_printf("%s/billing.pem", dir),
                                "--key",
                                t_printf("%s/billing.key", dir),
                                url,
                                "-H",
                                "content-type: application/json",
                                "-w",
                                "[%{http_code}]",
                                "-d",
                                "{\"namespace\":\"default\"}",
                                NULL};
    struct asked bad = {argv, "BAD_KEY"}, good = {argv, "[200]"};
    assert_true(is_answered(&bad)); /* verified, and yet nobody here */
    assert_int_equal(ADMIN_CLI(one, "key", "create", "billing", "--role", "reader", "--certificate", "billing").status, 0);
    assert_true(t_wait_for(is_answered, &good, T_PATIENCE_MS));
    const char *id = t_sql(conn, "SELECT id FROM holdfast.principal WHERE certificate = 'billing'");
    assert_int_equal(ADMIN_CLI(one, "key", "revoke", id).status, 0);
    assert_true(t_wait_for(is_answered, &bad, T_PATIENCE_MS));
    assert_int_equal(t_server_stop(server), 0);
}

/* A socket that has asked for /metrics; large enough a header to have memory of its own. */
static int scrape(const struct t_server *server, const char *key)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const char *request =
        t_printf("GET /metrics HTTP/1.1\r\nhost: x\r\npadding: %06000d\r\nauthorization: %s\r\n\r\n", 0, bearer(key));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)atoi(strrchr(server->http, ':') + 1));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    return fd;
}

/* Whoever asks and goes while it isn't known yet whether he may is not looked at any more (AddressSanitizer sees whether that is
 * so). The server serves on. */
static void who_goes_while_his_key_is_looked_up_is_forgotten(void **state)
{
    (void)state;
    struct t_server *server = t_server_start("--dsn", one->dsn, "--auth", "keys", "--http", "127.0.0.1:0", NULL);
    const char *const argv[] = {
        "curl", "-sS", "-m", "20", "-H", t_printf("authorization: %s", bearer(root)), t_printf("http://%s/metrics", server->http),
        NULL};
    const char *const health[] = {"curl", "-sS", "-m", "20", t_printf("http://%s/healthz", server->http), NULL};
    struct asked metrics = {argv, "holdfast_database_up 1"}, healthy = {health, "ok"};
    assert_true(t_wait_for(is_answered, &metrics, T_PATIENCE_MS));
    for (int i = 0; i < 2; i++) {
        t_sql(conn, "BEGIN");
        t_sql(conn, "LOCK TABLE holdfast.auth_state IN ACCESS EXCLUSIVE MODE");
        struct asked nobody = {argv, "nobody can be let in"};
        assert_true(t_wait_for(is_answered, &nobody, T_PATIENCE_MS)); /* the next must wait, too */
        int fd = scrape(server, root);
        assert_true(is_answered(&healthy)); /* so it has come */
        if (i)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
        assert_true(is_answered(&healthy));
        t_sql(conn, "ROLLBACK");
        assert_true(t_wait_for(is_answered, &metrics, T_PATIENCE_MS));
    }
    assert_int_equal(t_server_stop(server), 0);
}

/* Last: neither the logs nor the database have seen a secret. */
static void no_secret_is_written_anywhere(void **state)
{
    (void)state;
    assert_true(n_secrets > 5);
    for (size_t i = 0; i < n_secrets; i++) {
        assert_null(strstr(t_proc_err(one->proc), secrets[i]));
        assert_null(strstr(t_proc_err(two->proc), secrets[i]));
        assert_string_equal(t_sql(conn,
                                  "SELECT (SELECT count(*) FROM holdfast.audit a WHERE a::text LIKE '%%%s%%') "
                                  "+ (SELECT count(*) FROM holdfast.principal p WHERE p::text LIKE '%%%s%%') "
                                  "+ (SELECT count(*) FROM holdfast.denial d WHERE d::text LIKE '%%%s%%')",
                                  secrets[i], secrets[i], secrets[i]),
                            "0");
        /* What is kept is the hash. */
        assert_string_equal(t_sql(conn, "SELECT count(*) FROM holdfast.principal WHERE secret_hash = sha256('%s')", secrets[i]),
                            "1");
    }
}

static int teardown(void **state)
{
    PQfinish(conn);
    assert_int_equal(t_server_stop(one), 0);
    assert_int_equal(t_server_stop(two), 0);
    return t_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_without_a_key),
        cmocka_unit_test(a_worker_works_within_its_prefix),
        cmocka_unit_test(revocation_reaches_every_server),
        cmocka_unit_test(waiting_ends_with_the_key),
        cmocka_unit_test(without_the_database_no_key_is_good),
        cmocka_unit_test(a_rate_is_kept),
        cmocka_unit_test(an_admin_of_a_namespace_stays_there),
        cmocka_unit_test(keys_are_changed_and_listed),
        cmocka_unit_test(use_and_denials_are_noted),
        cmocka_unit_test(sql_roles_are_mapped),
        cmocka_unit_test(a_certificate_may_call),
        cmocka_unit_test(who_goes_while_his_key_is_looked_up_is_forgotten),
        cmocka_unit_test(no_secret_is_written_anywhere),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
