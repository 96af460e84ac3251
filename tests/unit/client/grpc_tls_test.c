/*
 * grpc_tls_test.c - grpcs:// against servers that this test is: whom the client talks to and whom not, by which name, with which
 * certificate; and that it says why not.
 */
#include "harness/harness.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>

#include "client/lib/client.h"
#include "harness/certs.h"
#include "proto/c/envelope.h"
#include "unit/client/h2.h"

enum { LONG_MS = 600000, BIG = 4 << 20 };

static const char *dir, *url; /* url: grpcs://localhost:PORT */
static int listener = -1;
static struct hfi_transport *transport;
static struct h2_request request;

static const char *file(const char *name)
{
    return t_printf("%s/%s", dir, name);
}

static const char *at(const char *host)
{
    return t_printf("grpcs://%s%s", host, strrchr(url, ':'));
}

static int accept_one(void)
{
    const struct timeval patience = {.tv_sec = 20};
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* ------------------------------------------------------------------------------------------------ servers */

static int choose_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in, unsigned in_len,
                     void *arg)
{
    unsigned char *chosen;
    const char *ours = arg;
    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_len, (const unsigned char *)ours, (unsigned)strlen(ours), in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* With this certificate, and these protocols in ALPN's form; NULL: it knows no ALPN. */
static SSL_CTX *server(const char *cert, const char *protocols)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, file(t_printf("%s.pem", cert))), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, file(t_printf("%s.key", cert)), SSL_FILETYPE_PEM), 1);
    if (protocols)
        SSL_CTX_set_alpn_select_cb(ctx, choose_h2, (void *)(uintptr_t)protocols);
    return ctx;
}

/* ------------------------------------------------------------------------------------------------ the client */

static struct hfi_tls_files files;

static void open_client(const char *urls)
{
    char why[512];
    if (hfi_transport_open(urls, &files, &transport, why, sizeof(why)) != HFI_OPEN_OK)
        fail_msg("%s", why);
}

static void close_client(void)
{
    transport->stop(transport);
    transport->free(transport);
    transport = NULL;
}

struct sent {
    struct hfi_exchange exchange;
    atomic_int times;
    enum hfi_fate fate;
    size_t len;
};

static void on_done(struct hfi_exchange *exchange, enum hfi_fate fate, const void *data, size_t len)
{
    struct sent *sent = (struct sent *)exchange;
    (void)data;
    sent->fate = fate;
    sent->len = len;
    atomic_fetch_add(&sent->times, 1);
}

static struct sent *send_bytes(const void *payload, size_t n)
{
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls[] = {&call};
    struct sent *sent = calloc(1, sizeof(*sent));
    call.method = (char *)(uintptr_t) "/a.B/C";
    call.payload.data = (uint8_t *)(uintptr_t)payload;
    call.payload.len = n;
    envelope.n_calls = 1;
    envelope.calls = calls;
    const size_t len = holdfast__v1__call_envelope__get_packed_size(&envelope);
    uint8_t *bytes = malloc(len);
    holdfast__v1__call_envelope__pack(&envelope, bytes);
    sent->exchange.done = on_done;
    transport->send(transport, 0, bytes, len, LONG_MS, LONG_MS, &sent->exchange);
    free(bytes);
    return sent;
}

static bool is_done(void *arg)
{
    return atomic_load(&((struct sent *)arg)->times) > 0;
}

static size_t expect_answer(struct sent *sent)
{
    assert_true(t_wait_for(is_done, sent, T_PATIENCE_MS));
    assert_int_equal(sent->fate, HFI_ANSWERED);
    const size_t len = sent->len;
    free(sent);
    return len;
}

/* One call, answered by the server that is connected next. */
static void expect_service(struct h2 *h2, SSL_CTX *ctx)
{
    h2_accept(h2, accept_one(), ctx, 0);
    struct sent *sent = send_bytes("x", 1);
    h2_request(h2, &request);
    assert_string_equal(request.scheme, "https");
    h2_answer(h2, request.stream, "y", 1);
    expect_answer(sent);
}

static bool says(void *arg)
{
    char why[256];
    transport->why(transport, 0, why, sizeof(why));
    return strstr(why, arg) != NULL;
}

static void expect_why(const char *why)
{
    char got[256];
    if (t_wait_for(says, (void *)(uintptr_t)why, T_PATIENCE_MS))
        return;
    transport->why(transport, 0, got, sizeof(got));
    fail_msg("wanted \"%s\", got \"%s\"", why, got);
}

/* The client doesn't talk to such a server, and says why. */
static void expect_refusal(const char *urls, SSL_CTX *ctx, const char *why)
{
    char byte;
    open_client(urls);
    const int fd = accept_one();
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1 && SSL_read(ssl, &byte, 1) == 1)
        assert_int_equal(byte, 'P'); /* with TLS 1.3 the server learns later that it isn't wanted; but never of a call */
    ERR_clear_error();
    expect_why(why);
    SSL_free(ssl);
    close(fd);
    close_client();
    SSL_CTX_free(ctx);
}

/* ------------------------------------------------------------------------------------------------ tests */

static void servers_are_known_by_name_and_by_address(void **state)
{
    struct h2 h2;
    SSL_CTX *ctx = server("server", "\x02h2");
    (void)state;
    open_client(url);
    expect_service(&h2, ctx);
    assert_string_equal(SSL_get_servername(h2.ssl, TLSEXT_NAMETYPE_host_name), "localhost");
    assert_int_equal(SSL_version(h2.ssl), TLS1_3_VERSION);
    h2_close(&h2);
    close_client();
    open_client(at("127.0.0.1"));
    expect_service(&h2, ctx);
    assert_null(SSL_get_servername(h2.ssl, TLSEXT_NAMETYPE_host_name));
    h2_close(&h2);
    close_client();
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    open_client(url);
    expect_service(&h2, ctx);
    h2_close(&h2);
    close_client();
    SSL_CTX_free(ctx);
}

static void sessions_are_resumed(void **state)
{
    struct h2 h2;
    SSL_CTX *ctx = server("server", "\x02h2");
    (void)state;
    open_client(url);
    expect_service(&h2, ctx);
    assert_false(SSL_session_reused(h2.ssl));
    h2_close(&h2);
    expect_service(&h2, ctx);
    assert_true(SSL_session_reused(h2.ssl));
    h2_close(&h2);
    close_client();
    SSL_CTX_free(ctx);
}

static void nobody_else_is_talked_to(void **state)
{
    (void)state;
    expect_refusal(url, server("stranger", "\x02h2"), "the server's certificate is not trusted: ");
    expect_refusal(url, server("elsewhere", "\x02h2"), "the server's certificate is not for localhost");
    expect_refusal(at("127.0.0.1"), server("elsewhere", "\x02h2"), "the server's certificate is not for 127.0.0.1");
    expect_refusal(url, server("only-cn", "\x02h2"), "the server's certificate is not for localhost");
    expect_refusal(at("127.0.0.1"), server("only-name", "\x02h2"), "the server's certificate is not for 127.0.0.1");
    expect_refusal(url, server("expired", "\x02h2"), "the server's certificate has expired");
    expect_refusal(url, server("early", "\x02h2"), "the server's certificate is not valid yet");
    expect_refusal(url, server("client", "\x02h2"), "the server's certificate is not trusted: "); /* not for servers */
    files.ca = NULL; /* the system trusts other authorities */
    expect_refusal(url, server("server", "\x02h2"), "the server's certificate is not trusted: ");
    files.ca = file("ca.pem");
}

static void http2_is_insisted_on(void **state)
{
    (void)state;
    expect_refusal(url, server("server", NULL), "the server doesn't offer HTTP/2 over TLS");
    expect_refusal(url, server("server", "\x08http/1.1"), "the server doesn't offer HTTP/2 over TLS");
}

static void what_isnt_tls_is_told(void **state)
{
    static const uint8_t settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    static const char *const others[] = {"HTTP/1.1 400 Bad Request\r\n\r\n", (const char *)settings};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const size_t len = i ? sizeof(settings) : strlen(others[i]);
        open_client(url);
        const int fd = accept_one();
        assert_int_equal(send(fd, others[i], len, MSG_NOSIGNAL), len);
        expect_why("it doesn't speak TLS");
        close(fd);
        close_client();
    }
    open_client(url);
    close(accept_one());
    expect_why("the server closed the connection while TLS began");
    close_client();
    /* And the other way round. */
    SSL_CTX *ctx = server("server", "\x02h2");
    open_client(t_printf("grpc://localhost%s", strrchr(url, ':')));
    const int fd = accept_one();
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    assert_int_not_equal(SSL_accept(ssl), 1);
    ERR_clear_error();
    SSL_free(ssl);
    close(fd);
    expect_why("if it wants TLS, try grpcs://");
    close_client();
    SSL_CTX_free(ctx);
}

static void a_certificate_is_shown_where_one_is_asked_for(void **state)
{
    struct h2 h2;
    char cn[32];
    SSL_CTX *ctx = server("server", "\x02h2");
    (void)state;
    SSL_CTX_load_verify_file(ctx, file("ca.pem"));
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_up_ref(ctx);
    expect_refusal(url, ctx, "the server refuses TLS with us: ");
    files.cert = file("client.pem");
    files.key = file("client.key");
    open_client(url);
    expect_service(&h2, ctx);
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(h2.ssl)), NID_commonName, cn, sizeof(cn));
    assert_string_equal(cn, "client");
    h2_close(&h2);
    close_client();
    files.cert = files.key = NULL;
    SSL_CTX_free(ctx);
}

static void *serve_big(void *arg)
{
    struct h2 *h2 = arg;
    h2_request(h2, &request);
    h2_answer(h2, request.stream, request.message, request.len);
    return NULL;
}

static void big_ones_pass(void **state)
{
    struct h2 h2;
    pthread_t thread;
    SSL_CTX *ctx = server("server", "\x02h2");
    char *bytes = malloc(BIG);
    (void)state;
    memset(bytes, 'x', BIG);
    open_client(url);
    h2_accept(&h2, accept_one(), ctx, 0);
    struct sent *sent = send_bytes(bytes, BIG - 1024); /* nobody reads yet: most of it has to wait */
    assert_int_equal(pthread_create(&thread, NULL, serve_big, &h2), 0);
    assert_true(expect_answer(sent) > BIG - 1024);
    pthread_join(thread, NULL);
    free(bytes);
    h2_close(&h2);
    close_client();
    SSL_CTX_free(ctx);
}

static void wrong(const char *ca, const char *cert, const char *key, const char *says_name, const char *what)
{
    const struct hfi_tls_files wrong_files = {
        .ca = ca ? file(ca) : NULL, .cert = cert ? file(cert) : NULL, .key = key ? file(key) : NULL};
    char why[512] = "";
    assert_int_equal(hfi_transport_open(url, &wrong_files, &transport, why, sizeof(why)), HFI_OPEN_BAD_TLS);
    t_contains(why, t_printf("%s: ", file(says_name)));
    t_contains(why, what);
}

static void files_are_read_with_care(void **state)
{
    (void)state;
    t_write_file(file("words"), "certainly\n");
    wrong("none.pem", NULL, NULL, "none.pem", "No such file or directory");
    wrong("words", NULL, NULL, "words", "holds no certificate in PEM");
    wrong("ca.pem", "client.pem", NULL, "client.pem", "a certificate and its key are given together");
    wrong("ca.pem", NULL, "client.key", "client.key", "a certificate and its key are given together");
    wrong("ca.pem", "none.pem", "client.key", "none.pem", "No such file or directory");
    wrong("ca.pem", "words", "client.key", "words", "holds no certificate in PEM");
    wrong("ca.pem", "client.pem", "none.key", "none.key", "No such file or directory");
    wrong("ca.pem", "client.pem", "words", "words", "holds no private key in PEM");
    wrong("ca.pem", "client.pem", "server.key", "server.key", "is not the key of the certificate in ");
    /* Without a grpcs:// nobody reads them. */
    const struct hfi_tls_files none = {.ca = "/nonexistent"};
    char why[512];
    assert_int_equal(hfi_transport_open("grpc://127.0.0.1:1", &none, &transport, why, sizeof(why)), HFI_OPEN_OK);
    close_client();
}

static void the_library_tells_it_to_the_caller(void **state)
{
    SSL_CTX *ctx = server("expired", "\x02h2");
    const hf_client_options options = {.servers = url, .tls_ca_file = file("ca.pem"), .timeout_ms = 1000};
    const hf_acquire_options want = {.resource = "r"};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_error error;
    (void)state;
    assert_int_equal(hf_client_new(&options, &client, &error), HF_OK);
    const int fd = accept_one();
    SSL *ssl = SSL_new(ctx);
    SSL_set_fd(ssl, fd);
    SSL_accept(ssl);
    ERR_clear_error();
    SSL_free(ssl);
    close(fd);
    close(listener); /* so that it is the only server there ever was; but what it said last is another thing */
    listener = -1;
    assert_int_equal(hf_acquire(client, &want, &lease, NULL, &error), HF_UNAVAILABLE);
    assert_string_equal(error.reason, "UNREACHABLE");
    t_contains(error.message, t_printf("no server could be reached at %s (", url));
    hf_client_free(client);
    SSL_CTX_free(ctx);
}

static int set_up(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 20};
    socklen_t len = sizeof(address);
    (void)state;
    dir = t_tmpdir();
    t_cert_ca(dir, "ca");
    t_cert_ca(dir, "other-ca");
    t_cert(dir, "ca", "server", &(struct t_cert){.san = "DNS:localhost,IP:127.0.0.1"});
    t_cert(dir, "other-ca", "stranger", &(struct t_cert){.san = "DNS:localhost"});
    t_cert(dir, "ca", "elsewhere", &(struct t_cert){.san = "DNS:elsewhere.example,IP:192.0.2.1"});
    t_cert(dir, "ca", "only-cn", &(struct t_cert){.cn = "localhost"});
    t_cert(dir, "ca", "only-name", &(struct t_cert){.cn = "127.0.0.1", .san = "DNS:localhost,DNS:127.0.0.1"});
    t_cert(dir, "ca", "expired", &(struct t_cert){.san = "DNS:localhost", .to_s = -60});
    t_cert(dir, "ca", "early", &(struct t_cert){.san = "DNS:localhost", .from_s = 3600});
    t_cert(dir, "ca", "client", &(struct t_cert){.san = "DNS:localhost", .use = "clientAuth"});
    files.ca = file("ca.pem");
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    url = t_printf("grpcs://localhost:%d", ntohs(address.sin_port));
    t_keep();
    return 0;
}

static int tear_down(void **state)
{
    free(request.message);
    if (listener >= 0)
        close(listener);
    return t_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_are_known_by_name_and_by_address),
        cmocka_unit_test(sessions_are_resumed),
        cmocka_unit_test(nobody_else_is_talked_to),
        cmocka_unit_test(http2_is_insisted_on),
        cmocka_unit_test(what_isnt_tls_is_told),
        cmocka_unit_test(a_certificate_is_shown_where_one_is_asked_for),
        cmocka_unit_test(big_ones_pass),
        cmocka_unit_test(files_are_read_with_care),
        cmocka_unit_test(the_library_tells_it_to_the_caller), /* the last: nobody listens after it */
    };
    signal(SIGPIPE, SIG_IGN); /* of the server, which is told by OpenSSL's own sockets; the client has to do without */
    return cmocka_run_group_tests_name("unit/client/grpc_tls", tests, set_up, tear_down);
}
