/*
 * server_http_test.c - the program's HTTP port as operators meet it: its pages, what it refuses to serve without, certificates that
 * change while it serves, and its end. Over curl.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "harness/certs.h"
#include "harness/harness.h"

#define ACQUIRE "/holdfast.v1.LeaseService/Acquire"
#define RELEASE "/holdfast.v1.LeaseService/Release"

/* What curl printed: the body, and behind it the status. More arguments, ended by NULL. */
static const char *curl(const char *url, const char *const *more)
{
    const char *argv[24] = {"curl", "-sS", "-m", "20", "-w", " [%{http_code} %{http_version}]", url};
    size_t n = 7;
    for (size_t i = 0; more && more[i]; i++)
        argv[n++] = more[i];
    struct t_result result = t_run(argv, NULL, T_PATIENCE_MS);
    return result.status == 0 ? result.out : t_printf("curl ended with %d: %s", result.status, result.err);
}

#define CURL(url, ...) curl(url, (const char *const[]){__VA_ARGS__, NULL})

static char *url_of(const struct t_server *server, const char *path)
{
    return t_printf("http://%s%s", server->http, path);
}

static void test_pages(void **state)
{
    (void)state;
    struct t_server *server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", NULL);
    assert_string_equal(CURL(url_of(server, "/healthz"), "--http1.1"), "ok\n [200 1.1]");
    assert_string_equal(CURL(url_of(server, "/healthz"), "--http2-prior-knowledge"), "ok\n [200 2]");
    assert_string_equal(CURL(url_of(server, "/readyz?verbose"), "--http1.1"), "ok\n [200 1.1]");
    const char *head = CURL(url_of(server, "/readyz"), "--head");
    t_contains(head, "HTTP/1.1 200 OK");
    t_contains(head, "content-length: 3");
    t_contains(head, " [200 1.1]");
    assert_null(strstr(head, "ok\n"));
    t_contains(CURL(url_of(server, "/readyz"), "-d", "x"), "[405 ");
    t_contains(CURL(url_of(server, "/nothing/here"), "--http1.1"), "[404 ");
    t_contains(CURL(url_of(server, ACQUIRE), "-H", "content-type: application/json", "-d",
                    "{\"namespace\":\"default\",\"resources\":[\"r\"],\"holder\":\"h\",\"ttlMs\":\"30000\"}"),
               "\"token\":\"1\"");
    const char *metrics = CURL(url_of(server, "/metrics"), "--http2-prior-knowledge");
    t_contains(metrics, "\nholdfast_transport_calls_total{transport=\"connect\"} 1\n");
    t_contains(metrics, "\nholdfast_leases_live 1\n");
    t_contains(metrics, " [200 2]");
    assert_int_equal(t_server_stop(server), 0);
}

static void test_in_use(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, "--http", "127.0.0.1:0", NULL);
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", "--http", server->http, NULL};
    struct t_result result = t_run(argv, NULL, 20000);
    assert_int_equal(result.status, 1);
    t_contains(result.err, server->http);
    t_contains(result.err, "in use");
    assert_int_equal(t_server_stop(server), 0);
}

/* It does not start. */
static void refuses(const char *const *argv, const char *why)
{
    struct t_result result = t_run(argv, NULL, 20000);
    assert_int_equal(result.status, 2);
    assert_string_equal(result.out, "");
    t_contains(result.err, why);
}

/* Where others can reach it, it wants to know who they are, and that nobody listens. */
static void test_beyond_loopback(void **state)
{
    (void)state;
    const char *dsn = "host=127.0.0.1 port=1";
    refuses((const char *const[]){T_HOLDFASTD, "--dsn", dsn, "--http", "0.0.0.0:0", NULL}, "--auth keys");
    refuses((const char *const[]){T_HOLDFASTD, "--dsn", dsn, "--http", "0.0.0.0:0", "--tls-cert=c", "--tls-key=k", NULL},
            "--auth keys");
    refuses((const char *const[]){T_HOLDFASTD, "--dsn", dsn, "--http", "0.0.0.0:0", "--auth=keys", NULL}, "--tls-cert");
    struct t_server *server = t_server_start("--dsn", t_database(), "--http", "0.0.0.0:0", "--insecure", NULL);
    t_contains(t_proc_err(server->proc), "app.insecure");
    assert_int_equal(t_server_stop(server), 0);
}

static void test_bad_certificates(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    t_cert_ca(dir, "ca");
    t_cert(dir, "ca", "one", NULL);
    t_cert(dir, "ca", "two", NULL);
    char *one = t_printf("%s/one.pem", dir), *key_of_two = t_printf("%s/two.key", dir), *absent = t_printf("%s/absent.pem", dir);
    char *dsn = t_database();
    refuses((const char *const[]){T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--tls-cert",
                                  absent, "--tls-key", key_of_two, NULL},
            absent);
    refuses((const char *const[]){T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--tls-cert",
                                  one, "--tls-key", key_of_two, NULL},
            key_of_two);
}

static struct t_result make_key(const char *database, const char *at, const char *name)
{
    const char *const argv[] = {T_HOLDFASTD, database, at, "--create-admin-key", name, NULL};
    return t_run(argv, NULL, 60000);
}

static const char *key_of(struct t_result result)
{
    if (result.status != 0 || strncmp(result.out, "hfk_", 4) != 0 ||
        strchr(result.out, '\n') != result.out + strlen(result.out) - 1)
        fail_msg("%d: %s", result.status, result.err);
    assert_null(strstr(result.err, result.out));
    result.out[strlen(result.out) - 1] = '\0';
    return result.out;
}

struct asking {
    const char *url, *authorization;
};

static const char *list_with(const struct asking *asking)
{
    return CURL(asking->url, "-H", "content-type: application/json", "-H", asking->authorization, "-d",
                "{\"namespace\":\"default\"}");
}

static bool may_list(void *arg)
{
    return strstr(list_with(arg), "[200 ") != NULL;
}

static void works_with(const struct t_server *server, const char *key)
{
    struct asking asking = {url_of(server, "/holdfast.v1.LeaseService/List"), "authorization:"};
    t_contains(list_with(&asking), "NO_KEY");
    asking.authorization = "authorization: Bearer hfk_no";
    t_contains(list_with(&asking), "BAD_KEY");
    asking.authorization = t_printf("authorization: Bearer %s", key);
    assert_true(t_wait_for(may_list, &asking, T_PATIENCE_MS)); /* a server knows of it within two seconds */
    const char *metrics = url_of(server, "/metrics");
    t_contains(CURL(metrics, "--http1.1"), "[401 ");
    t_contains(CURL(metrics, "-H", asking.authorization), "\nholdfast_keys_required 1\n");
}

/* The first key comes from the console: beside a server, and before there is one. */
static void test_first_key(void **state)
{
    (void)state;
    char *dsn = t_database(), *dir = t_tmpdir();
    struct t_server *server = t_server_start("--dsn", dsn, "--http", "127.0.0.1:0", "--auth", "keys", NULL);
    works_with(server, key_of(make_key("--dsn", dsn, "root")));
    struct t_result again = make_key("--dsn", dsn, "root");
    assert_int_equal(again.status, 1);
    t_contains(again.err, "root");
    assert_string_equal(again.out, "");
    assert_int_equal(make_key("--dsn", dsn, "").status, 2);
    assert_int_equal(t_server_stop(server), 0);

    const char *before = key_of(make_key("--data-dir", dir, "before"));
    server = t_server_start("--data-dir", dir, "--http", "127.0.0.1:0", "--auth", "keys", NULL);
    works_with(server, before);
    works_with(server, key_of(make_key("--data-dir", dir, "beside")));
    assert_null(strstr(t_proc_err(server->proc), "hfk_"));
    assert_int_equal(t_server_stop(server), 0);
}

struct tls {
    const char *url, *ca;
};

static bool answers(void *arg)
{
    const struct tls *tls = arg;
    return strstr(CURL(t_printf("%s/healthz", tls->url), "--cacert", tls->ca), "[200 2]") != NULL;
}

static bool is_waited_for(void *arg)
{
    const struct tls *tls = arg;
    return strstr(CURL(t_printf("%s" ACQUIRE, tls->url), "--cacert", tls->ca, "-H", "content-type: application/json", "-d",
                       "{\"namespace\":\"default\",\"resources\":[\"r\"],\"holder\":\"see\",\"ttlMs\":\"30000\"}"),
                  "\"waiters\":\"1\"") != NULL;
}

static void swap_certificate(const char *dir, const char *ca)
{
    t_cert(dir, ca, "server", &(struct t_cert){.san = "DNS:localhost"});
}

/* Who is connected stays so; who comes gets the new one; files that are no good change nothing. */
static void test_reload(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    t_cert_ca(dir, "old");
    t_cert_ca(dir, "new");
    swap_certificate(dir, "old");
    char *cert = t_printf("%s/server.pem", dir), *key = t_printf("%s/server.key", dir);
    struct t_server *server =
        t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, NULL);
    char *url = t_printf("https://localhost%s", strrchr(server->http, ':'));
    struct tls before = {url, t_printf("%s/old.pem", dir)}, after = {url, t_printf("%s/new.pem", dir)};
    assert_true(answers(&before));
    assert_false(answers(&after));

    t_contains(CURL(t_printf("%s" ACQUIRE, url), "--cacert", before.ca, "-H", "content-type: application/json", "-d",
                    "{\"namespace\":\"default\",\"resources\":[\"r\"],\"holder\":\"h\",\"ttlMs\":\"60000\"}"),
               "\"token\":\"1\"");
    const char *const wait[] = {
        "curl",
        "-sS",
        "-m",
        "60",
        "--cacert",
        before.ca,
        t_printf("%s" ACQUIRE, url),
        "-H",
        "content-type: application/json",
        "-d",
        "{\"namespace\":\"default\",\"resources\":[\"r\"],\"holder\":\"w\",\"ttlMs\":\"30000\",\"waitMs\":\"25000\"}",
        NULL};
    struct t_proc *waiter = t_spawn(wait, NULL);
    assert_true(t_wait_for(is_waited_for, &before, T_PATIENCE_MS));

    swap_certificate(dir, "new");
    t_server_kill(server, SIGHUP);
    assert_true(t_wait_for(answers, &after, T_PATIENCE_MS));
    assert_false(answers(&before));
    FILE *file = fopen(cert, "w");
    assert_non_null(file);
    fclose(file);
    t_server_kill(server, SIGHUP);
    t_proc_expect_err(server->proc, "app.certificate_refused", T_PATIENCE_MS);
    assert_true(answers(&after));

    t_contains(CURL(t_printf("%s" RELEASE, url), "--cacert", after.ca, "-H", "content-type: application/json", "-d",
                    "{\"namespace\":\"default\",\"items\":[{\"resource\":\"r\",\"token\":\"1\"}]}"),
               "\"wasHeld\":true");
    assert_int_equal(t_proc_wait(waiter, T_PATIENCE_MS), 0);
    t_contains(t_proc_out(waiter), "\"token\":\"2\"");
    assert_int_equal(t_server_stop(server), 0);
}

static bool waits(void *arg)
{
    const struct t_server *server = arg;
    struct tls tls = {url_of(server, ""), "/dev/null"};
    return is_waited_for(&tls);
}

/* Whoever waits is answered, and told to come no more. */
static void test_drain(void **state)
{
    (void)state;
    struct t_server *server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", NULL);
    t_contains(CURL(url_of(server, ACQUIRE), "-H", "content-type: application/json", "-d",
                    "{\"namespace\":\"default\",\"resources\":[\"r\"],\"holder\":\"h\",\"ttlMs\":\"60000\"}"),
               "\"token\":\"1\"");
    const char *const wait[] = {
        "curl", "-sS",
        "-m",   "60",
        "-i",   url_of(server, ACQUIRE),
        "-H",   "content-type: application/json",
        "-d",   "{\"namespace\":\"default\",\"resources\":[\"r\"],\"holder\":\"w\",\"ttlMs\":\"30000\",\"waitMs\":\"25000\"}",
        NULL};
    struct t_proc *waiter = t_spawn(wait, NULL);
    assert_true(t_wait_for(waits, server, T_PATIENCE_MS));
    assert_int_equal(t_server_stop(server), 0);
    assert_int_equal(t_proc_wait(waiter, T_PATIENCE_MS), 0);
    t_contains(t_proc_out(waiter), "\"held\"");
    t_contains(t_proc_out(waiter), "connection: close");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_pages, t_teardown),           cmocka_unit_test_teardown(test_in_use, t_teardown),
        cmocka_unit_test_teardown(test_beyond_loopback, t_teardown), cmocka_unit_test_teardown(test_bad_certificates, t_teardown),
        cmocka_unit_test_teardown(test_first_key, t_teardown),       cmocka_unit_test_teardown(test_reload, t_teardown),
        cmocka_unit_test_teardown(test_drain, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
