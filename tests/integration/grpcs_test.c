/*
 * grpcs_test.c - the library and the command line against a real server over gRPC and TLS: keys and client certificates, what `run`
 * hands on, a certificate that is renewed under way, sessions that are resumed, and what is said of servers that aren't to be
 * talked to. The same key over nng too.
 */
#include "harness/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <holdfast/holdfast.h>
#include <netinet/in.h>
#include <openssl/ssl.h>

#include "harness/certs.h"

enum { LOG = 8192 };

static struct t_server *server;
static const char *dir, *ca, *url, *root, *worker;

static char *file(const char *name)
{
    return t_printf("%s/%s", dir, name);
}

static void make_server_certificate(const char *cn)
{
    t_cert(dir, "ca", "server", &(struct t_cert){.cn = cn, .san = "DNS:localhost,IP:127.0.0.1"});
}

/* ---- the command line ---- */

/* `holdfast` with these arguments and nothing of HOLDFAST_ in its environment. */
static struct t_result cli(const char *const *args)
{
    static const char *const env[] = {
        "HOLDFAST_SERVER", "HOLDFAST_NAMESPACE", "HOLDFAST_KEY", "HOLDFAST_TLS_CA", "HOLDFAST_TLS_CERT", "HOLDFAST_TLS_KEY", NULL};
    const struct t_spawn_opts opts = {.env = env};
    const char *argv[24] = {T_HOLDFAST};
    size_t n = 1;
    for (size_t i = 0; args[i]; i++)
        argv[n++] = args[i];
    return t_run(argv, &opts, 60000);
}

#define CLI(...) cli((const char *const[]){__VA_ARGS__, NULL})

static void says(struct t_result result, int status, const char *out, const char *err)
{
    if (result.status != status || !strstr(result.out, out) || !strstr(result.err, err))
        fail_msg("exit %d, not %d; \"%s\" and \"%s\" in: %s / %s", result.status, status, out, err, result.out, result.err);
}

static char *key_of(struct t_result result)
{
    if (result.status != 0 || strncmp(result.out, "hfk_", 4) != 0)
        fail_msg("%d: %s %s", result.status, result.out, result.err);
    result.out[strcspn(result.out, "\n")] = '\0';
    return result.out;
}

static int setup(void **state)
{
    char *dsn = t_database();
    (void)state;
    dir = t_tmpdir();
    ca = file("ca.pem");
    t_cert_ca(dir, "ca");
    t_cert_ca(dir, "other-ca");
    t_cert(dir, "ca", "somebody", &(struct t_cert){.san = "URI:spiffe://example/worker", .use = "clientAuth"});
    t_cert(dir, "other-ca", "stranger", &(struct t_cert){.san = "URI:spiffe://example/worker", .use = "clientAuth"});
    make_server_certificate("first");
    root = key_of(t_run((const char *[]){T_HOLDFASTD, "--dsn", dsn, "--create-admin-key", "root", NULL}, NULL, 60000));
    server = t_server_start("--dsn", dsn, "--http", "127.0.0.1:0", "--tls-cert", file("server.pem"), "--tls-key",
                            file("server.key"), "--tls-client-ca", ca, "--auth", "keys", NULL);
    url = t_printf("grpcs://%s", server->http);
    worker = key_of(CLI("--server", url, "--tls-ca", ca, "--key", root, "key", "create", "w", "--role", "worker"));
    t_keep();
    return 0;
}

static bool works(void *arg)
{
    return cli(arg).status == 0;
}

static void keys_travel_over_every_transport(void **state)
{
    const char *const urls[] = {server->url, url, t_printf("grpcs://localhost%s", strrchr(url, ':'))};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *name = t_printf("over/%d", i);
        const char *const acquire[] = {"--server", urls[i], "--tls-ca", ca, "--key", worker, "acquire", name, "--ttl", "1m", NULL};
        assert_true(t_wait_for(works, (void *)(uintptr_t)acquire, T_PATIENCE_MS)); /* the server hears of a key within 2 s */
        says(CLI("--server", urls[i], "--tls-ca", ca, "--key", worker, "write", name, "1", "x"), 0, "", "");
        says(CLI("--server", urls[i], "--tls-ca", ca, "write", name, "1", "y"), 1, "", "NO_KEY");
        says(CLI("--server", urls[i], "--tls-ca", ca, "--key", "hfk_none", "write", name, "1", "y"), 1, "", "BAD_KEY");
        says(CLI("--server", urls[i], "--tls-ca", ca, "--key", worker, "namespace", "list"), 1, "", "ROLE");
    }
    if (strstr(t_proc_err(server->proc), strrchr(worker, '_') + 1) || strstr(t_proc_err(server->proc), strrchr(root, '_') + 1))
        fail_msg("a key is in the server's log");
}

/* Also what was given by flags, a key and the authority: the command is as much the caller as `run` is. */
static void run_hands_on_who_it_is(void **state)
{
    (void)state;
    const char *script =
        t_printf("\"%s\" write \"$HOLDFAST_RESOURCE\" \"$HOLDFAST_TOKEN\" \"by $HOLDFAST_KEY\" && echo done", T_HOLDFAST);
    struct t_result result = CLI("--server", url, "--tls-ca", ca, "--key", worker, "run", "job", "--", "sh", "-c", script);
    says(result, 0, "done", "");
    says(CLI("--server", url, "--tls-ca", ca, "--key", worker, "read", "job"), 0, worker, "");
}

static void a_certificate_is_a_caller(void **state)
{
    const char *cert = file("somebody.pem"), *key = file("somebody.key");
    const char *const acquire[] = {"--server",  url, "--tls-ca", ca,        "--tls-cert", cert,
                                   "--tls-key", key, "acquire",  "by-cert", NULL};
    (void)state;
    says(cli(acquire), 1, "", "BAD_KEY");
    says(CLI("--server", url, "--tls-ca", ca, "--key", root, "key", "create", "c", "--role", "worker", "--certificate",
             "spiffe://example/worker"),
         0, "", "");
    assert_true(t_wait_for(works, (void *)(uintptr_t)acquire, T_PATIENCE_MS));
    cert = file("stranger.pem");
    key = file("stranger.key"); /* the same name, by another authority */
    says(CLI("--server", url, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key, "--timeout", "2s", "acquire", "x"), 3, "",
         "the server refuses TLS with us: ");
}

static void a_server_that_isnt_to_be_talked_to_is_told(void **state)
{
    const char *other = file("other-ca.pem"), *plain = strchr(server->url, ':'), *tls = strchr(url, ':');
    (void)state;
    says(CLI("--server", url, "--tls-ca", other, "--key", worker, "--timeout", "3s", "read", "x"), 3, "",
         t_printf("holdfast: UNAVAILABLE: no server could be reached at %s (the server's certificate is not trusted: ", url));
    says(CLI("--server", t_printf("grpcs://127.0.0.2%s", strrchr(url, ':')), "--tls-ca", ca, "--timeout", "3s", "read", "x"), 3, "",
         "Connection refused");
    says(CLI("--server", t_printf("grpcs%s", plain), "--tls-ca", ca, "--timeout", "3s", "read", "x"), 3, "", "doesn't speak TLS");
    says(CLI("--server", t_printf("grpc%s", plain), "--timeout", "3s", "read", "x"), 3, "", "speaks nng's protocol: try tcp://");
    says(CLI("--server", t_printf("grpc%s", tls), "--timeout", "3s", "read", "x"), 3, "", "if it wants TLS, try grpcs://");
    says(CLI("--server", t_printf("tcp%s", tls), "--timeout", "3s", "read", "x"), 3, "", "doesn't speak nng's protocol: try grpc");
    says(CLI("--server", url, "--tls-ca", other, "--timeout", "3s", "--json", "read", "x"), 3, "",
         "the server's certificate is not");
}

/* ---- the server's certificate ---- */

/* The name in the certificate that a new connection is shown; NULL: no connection. `*session` is offered, and replaced. */
static char *shown(SSL_SESSION **session, bool *resumed)
{
    static const unsigned char h2[] = "\x02h2";
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 20};
    char cn[64] = "", bytes[64];
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_alpn_protos(ctx, h2, sizeof(h2) - 1);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    if (*session)
        SSL_set_session(ssl, *session);
    assert_int_equal(SSL_connect(ssl), 1);
    assert_true(SSL_write(ssl, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33) == 33);
    assert_true(SSL_read(ssl, bytes, sizeof(bytes)) > 0); /* its SETTINGS; the tickets came before */
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(ssl)), NID_commonName, cn, sizeof(cn));
    *resumed = SSL_session_reused(ssl);
    SSL_SESSION_free(*session);
    *session = SSL_get1_session(ssl);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    close(fd);
    return t_printf("%s", cn);
}

static bool shows_second(void *arg)
{
    SSL_SESSION *session = NULL;
    bool resumed;
    (void)arg;
    const bool second = !strcmp(shown(&session, &resumed), "second");
    SSL_SESSION_free(session);
    return second;
}

static void sessions_are_resumed(void **state)
{
    SSL_SESSION *session = NULL;
    bool resumed;
    (void)state;
    shown(&session, &resumed);
    assert_false(resumed);
    for (int i = 0; i < 3; i++) {
        shown(&session, &resumed);
        assert_true(resumed);
    }
    SSL_SESSION_free(session);
}

/* From any thread. */
static void on_log(hf_log_level level, const char *line, void *arg)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    char *log = arg;
    (void)level;
    pthread_mutex_lock(&mutex);
    const size_t len = strlen(log);
    snprintf(log + len, LOG - len, "%s\n", line);
    pthread_mutex_unlock(&mutex);
}

/* A lease lives through it, on a connection that began before. */
static void a_certificate_is_renewed_under_way(void **state)
{
    static char log[LOG];
    const hf_client_options options = {.servers = url, .tls_ca_file = ca, .key = worker, .log = on_log, .log_arg = log};
    const hf_acquire_options want = {.resource = "through", .ttl_ms = 3000};
    SSL_SESSION *session = NULL;
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_error error;
    bool resumed;
    (void)state;
    if (hf_client_new(&options, &client, &error) != HF_OK || hf_acquire(client, &want, &lease, NULL, &error) != HF_OK)
        fail_msg("%s", error.message);
    assert_string_equal(shown(&session, &resumed), "first");
    make_server_certificate("second");
    t_proc_kill(server->proc, SIGHUP);
    assert_true(t_wait_for(shows_second, NULL, T_PATIENCE_MS));
    shown(&session, &resumed); /* with the ticket of before */
    assert_false(resumed);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hf_renew_now(lease, &error), HF_OK);
    assert_int_equal(hf_write(lease, NULL, "x", 1, NULL, &error), HF_OK);
    assert_int_equal(hf_release(lease, &error), HF_OK);
    if (strstr(log, worker) || strstr(log, "hfk_"))
        fail_msg("a key is in the log: %s", log);
    SSL_SESSION_free(session);
    hf_lease_free(lease);
    hf_client_free(client);
}

static void an_unencrypted_key_is_warned_of(void **state)
{
    static char log[LOG];
    const char *const exposed[] = {"tcp://192.0.2.1:1", "ipc:///x,grpc://host.example:1"};
    const char *const private[] = {"tcp://127.0.0.1:1", "tcp://[::1]:1", "ipc:///x", "grpc://localhost:1", "grpcs://192.0.2.1:1"};
    hf_client *client = NULL;
    (void)state;
    for (int i = 0; i < 7; i++) {
        const hf_client_options options = {
            .servers = i < 2 ? exposed[i] : private[i - 2], .key = "hfk_secret", .log = on_log, .log_arg = log};
        log[0] = '\0';
        assert_int_equal(hf_client_new(&options, &client, NULL), HF_OK);
        assert_true((strstr(log, "unencrypted") != NULL) == (i < 2));
        assert_null(strstr(log, "secret"));
        hf_client_free(client);
    }
}

static int teardown(void **state)
{
    assert_int_equal(t_server_stop(server), 0);
    return t_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_travel_over_every_transport),
        cmocka_unit_test(run_hands_on_who_it_is),
        cmocka_unit_test(a_certificate_is_a_caller),
        cmocka_unit_test(a_server_that_isnt_to_be_talked_to_is_told),
        cmocka_unit_test(sessions_are_resumed),
        cmocka_unit_test(a_certificate_is_renewed_under_way),
        cmocka_unit_test(an_unencrypted_key_is_warned_of),
    };
    return cmocka_run_group_tests_name("integration/grpcs", tests, setup, teardown);
}
