/*
 * tls_test.c - the server's side of TLS against OpenSSL's client, without sockets: what is agreed on and what is refused, sessions
 * that are resumed, certificates that are renewed under way, clients' names, and what is said of files that don't fit.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "harness/certs.h"
#include "net/tls.h"

enum { BIG = 1 << 20 };

static const char *dir;
static char error[512];
static unsigned char big[BIG];

static const char *file(const char *name)
{
    return t_printf("%s/%s", dir, name);
}

static struct net_tls *serve(const char *name, const char *client_ca)
{
    struct net_tls_config cfg = {file(t_printf("%s.pem", name)), file(t_printf("%s.key", name)), client_ca};
    struct net_tls *tls = net_tls_new(&cfg, error, sizeof(error));
    if (!tls)
        fail_msg("%s", error);
    return tls;
}

/* ---- a client and a server, joined by memory ---- */

struct pair {
    SSL *client;
    struct net_tls_conn *server;
    size_t piece;   /* that many bytes are fed at a time; 0 = all */
    bool refused;   /* by the server */
    char said[256]; /* by the client's OpenSSL */
};

static SSL_CTX *client_ctx(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    assert_non_null(ctx);
    assert_int_equal(SSL_CTX_load_verify_file(ctx, file("ca.pem")), 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    return ctx;
}

static void offer(SSL *ssl, const char *protocols)
{
    assert_int_equal(SSL_set_alpn_protos(ssl, (const unsigned char *)protocols, (unsigned)strlen(protocols)), 0);
}

static void join(struct pair *p, struct net_tls *tls, SSL_CTX *ctx)
{
    *p = (struct pair){.client = SSL_new(ctx), .server = net_tls_accept(tls)};
    assert_non_null(p->client);
    assert_non_null(p->server);
    SSL_set_bio(p->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    BIO_set_mem_eof_return(SSL_get_rbio(p->client), -1);
    SSL_set_connect_state(p->client);
}

static void part(struct pair *p)
{
    SSL_free(p->client);
    net_tls_conn_free(p->server);
}

static bool to_server(struct pair *p)
{
    static unsigned char bytes[4 * BIG];
    int n = BIO_read(SSL_get_wbio(p->client), bytes, sizeof(bytes));
    for (int at = 0; at < n && !p->refused;) {
        size_t piece = p->piece && p->piece < (size_t)(n - at) ? p->piece : (size_t)(n - at);
        p->refused = !net_tls_feed(p->server, bytes + at, piece);
        at += (int)piece;
    }
    return n > 0;
}

static bool to_client(struct pair *p)
{
    const struct hp_buf *out = net_tls_out(p->server);
    size_t n = p->piece && p->piece < out->len ? p->piece : out->len;
    if (n == 0)
        return false;
    assert_int_equal(BIO_write(SSL_get_rbio(p->client), out->data, (int)n), n);
    net_tls_sent(p->server, n);
    return true;
}

/* Until neither has anything to say. True: both think that they are connected. */
static bool shake(struct pair *p)
{
    do {
        ERR_clear_error();
        if (SSL_do_handshake(p->client) != 1 && ERR_peek_error())
            ERR_error_string_n(ERR_peek_last_error(), p->said, sizeof(p->said));
    } while ((int)to_server(p) | (int)to_client(p));
    char nothing[1];
    SSL_read(p->client, nothing, 0); /* takes tickets */
    return SSL_is_init_finished(p->client) && net_tls_established(p->server) && !p->refused;
}

static void say(struct pair *p, const char *text)
{
    char got[64] = "";
    assert_int_equal(SSL_write(p->client, text, (int)strlen(text)), strlen(text));
    to_server(p);
    assert_int_equal(net_tls_read(p->server, got, sizeof(got)), strlen(text));
    assert_string_equal(got, text);
    assert_true(net_tls_write(p->server, text, strlen(text)));
    while (to_client(p))
        ;
    memset(got, 0, sizeof(got));
    assert_int_equal(SSL_read(p->client, got, sizeof(got)), strlen(text));
    assert_string_equal(got, text);
}

static void connected(struct pair *p, struct net_tls *tls, SSL_CTX *ctx)
{
    join(p, tls, ctx);
    if (!shake(p))
        fail_msg("not connected: %s", p->said);
}

static void refused(struct net_tls *tls, SSL_CTX *ctx, const char *because)
{
    struct pair p;
    join(&p, tls, ctx);
    assert_false(shake(&p));
    assert_true(p.refused);
    t_contains(p.said, because);
    assert_int_equal(net_tls_read(p.server, p.said, sizeof(p.said)), -1);
    assert_false(net_tls_write(p.server, "x", 1));
    part(&p);
}

/* ---- what is agreed on ---- */

static void large_messages_go_both_ways(SSL_CTX *ctx, struct net_tls *tls, size_t piece)
{
    struct pair p;
    static unsigned char got[BIG];
    size_t have = 0;
    connected(&p, tls, ctx);
    p.piece = piece;
    assert_int_equal(SSL_write(p.client, big, BIG), BIG);
    to_server(&p);
    for (ssize_t n; (n = net_tls_read(p.server, got + have, BIG - have < 50000 ? BIG - have : 50000)) > 0;)
        have += (size_t)n;
    assert_int_equal(have, BIG);
    assert_memory_equal(got, big, BIG);
    assert_true(net_tls_write(p.server, big, BIG));
    assert_true(net_tls_out(p.server)->len < BIG + BIG / 16384 * 40); /* in records as large as may be */
    memset(got, 0, BIG);
    while (to_client(&p))
        ;
    for (int n, at = 0; at < BIG; at += n) {
        n = SSL_read(p.client, got + at, BIG - at);
        assert_true(n > 0);
    }
    assert_memory_equal(got, big, BIG);
    part(&p);
}

static void both_versions_carry_data_in_any_pieces(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    large_messages_go_both_ways(ctx, tls, 0);
    large_messages_go_both_ways(ctx, tls, 1399);
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    large_messages_go_both_ways(ctx, tls, 0);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

static void a_handshake_may_come_byte_by_byte(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    struct pair p;
    join(&p, tls, ctx);
    assert_int_equal(net_tls_read(p.server, big, 1), 0); /* nothing yet, and nothing wrong */
    p.piece = 1;
    assert_true(shake(&p));
    say(&p, "hello");
    part(&p);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

static void old_versions_and_weak_ciphers_are_refused(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, TLS1_1_VERSION);
    refused(tls, ctx, "alert protocol version");
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    assert_int_equal(SSL_CTX_set_cipher_list(ctx, "ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA"), 1);
    refused(tls, ctx, "alert handshake failure");
    assert_int_equal(SSL_CTX_set_cipher_list(ctx, "ALL"), 1);
    struct pair p;
    connected(&p, tls, ctx);
    assert_string_equal(SSL_get_cipher(p.client), "ECDHE-ECDSA-AES128-GCM-SHA256");
    part(&p);
    SSL_CTX_set_max_proto_version(ctx, 0);
    connected(&p, tls, ctx);
    assert_string_equal(SSL_get_cipher(p.client), "TLS_AES_128_GCM_SHA256");
    part(&p);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

static const char *agreed(struct net_tls *tls, SSL_CTX *ctx, const char *protocols)
{
    static char name[16];
    struct pair p;
    join(&p, tls, ctx);
    if (protocols)
        offer(p.client, protocols);
    if (shake(&p))
        snprintf(name, sizeof(name), "%s", net_tls_alpn(p.server) ? net_tls_alpn(p.server) : "none");
    else
        snprintf(name, sizeof(name), "refused");
    part(&p);
    return name;
}

static void alpn_prefers_h2(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    assert_string_equal(agreed(tls, ctx, NULL), "none");
    assert_string_equal(agreed(tls, ctx, "\x08http/1.1\x02h2"), "h2");
    assert_string_equal(agreed(tls, ctx, "\x08http/1.1"), "http/1.1");
    assert_string_equal(agreed(tls, ctx, "\x08http/1.0\x08http/1.1"), "http/1.1");
    assert_string_equal(agreed(tls, ctx, "\x06spdy/3"), "refused");
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

static void renegotiation_is_refused(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    struct pair p;
    SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    connected(&p, tls, ctx);
    assert_int_equal(SSL_renegotiate(p.client), 1);
    SSL_do_handshake(p.client);
    to_server(&p);
    assert_true(net_tls_read(p.server, big, 16) <= 0);
    to_client(&p);
    ERR_clear_error();
    assert_int_not_equal(SSL_do_handshake(p.client), 1);
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    part(&p);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

/* ---- sessions ---- */

static SSL_SESSION *session_of(struct net_tls *tls, SSL_CTX *ctx)
{
    struct pair p;
    connected(&p, tls, ctx);
    say(&p, "once");
    SSL_SESSION *session = SSL_get1_session(p.client);
    assert_true(SSL_SESSION_is_resumable(session));
    SSL_shutdown(p.client);
    part(&p);
    return session;
}

static bool resumes(struct net_tls *tls, SSL_CTX *ctx, SSL_SESSION *session, const char *principal)
{
    struct pair p;
    join(&p, tls, ctx);
    SSL_set_session(p.client, session);
    assert_true(shake(&p));
    say(&p, "again");
    bool reused = SSL_session_reused(p.client);
    if (principal)
        assert_string_equal(net_tls_principal(p.server), principal);
    else
        assert_null(net_tls_principal(p.server));
    part(&p);
    return reused;
}

static void sessions_are_resumed_by_tickets(void **state)
{
    (void)state;
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    struct net_tls *tls = serve("server", file("ca.pem"));
    for (int with_cert = 0; with_cert < 2; with_cert++)
        for (int i = 0; i < 2; i++) {
            SSL_CTX *ctx = client_ctx();
            SSL_CTX_set_max_proto_version(ctx, versions[i]);
            if (with_cert) {
                assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, file("uri.pem")), 1);
                assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, file("uri.key"), SSL_FILETYPE_PEM), 1);
            }
            SSL_SESSION *session = session_of(tls, ctx);
            assert_true(resumes(tls, ctx, session, with_cert ? "spiffe://example/worker" : NULL));
            assert_true(net_tls_reload(tls, error, sizeof(error)));
            assert_false(resumes(tls, ctx, session, with_cert ? "spiffe://example/worker" : NULL));
            SSL_SESSION_free(session);
            SSL_CTX_free(ctx);
        }
    net_tls_free(tls);
}

static void a_resumed_session_ends_with_its_certificate(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", file("ca.pem"));
    SSL_CTX *ctx = client_ctx();
    struct pair p;
    SSL_SESSION *session = NULL;
    time_t end = 0;
    for (int s = 2; !session; s *= 2) { /* the machine may be too busy to use it in time */
        t_cert(dir, "ca", "brief", &(struct t_cert){.to_s = s});
        end = time(NULL) + s;
        assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, file("brief.pem")), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, file("brief.key"), SSL_FILETYPE_PEM), 1);
        join(&p, tls, ctx);
        if (shake(&p))
            session = SSL_get1_session(p.client);
        part(&p);
    }
    while (time(NULL) <= end + 1) /* by the clock that OpenSSL asks */
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    join(&p, tls, ctx);
    SSL_set_session(p.client, session);
    assert_false(shake(&p));
    assert_true(p.refused);
    assert_null(net_tls_principal(p.server));
    part(&p);
    SSL_SESSION_free(session);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

/* ---- who is it ---- */

static char *name_by(struct net_tls *tls, const char *cert)
{
    static char name[64];
    SSL_CTX *ctx = client_ctx();
    struct pair p;
    assert_int_equal(SSL_CTX_use_certificate_chain_file(ctx, file(t_printf("%s.pem", cert))), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(ctx, file(t_printf("%s.key", cert)), SSL_FILETYPE_PEM), 1);
    join(&p, tls, ctx);
    const char *principal = shake(&p) ? net_tls_principal(p.server) : "refused";
    snprintf(name, sizeof(name), "%s", principal ? principal : "nobody");
    part(&p);
    SSL_CTX_free(ctx);
    return name;
}

static void certificates_of_clients_tell_a_name(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", file("ca.pem"));
    struct pair p;
    SSL_CTX *ctx = client_ctx();
    t_cert(dir, "ca", "dns", &(struct t_cert){.san = "IP:127.0.0.1,DNS:worker.example,DNS:other.example"});
    t_cert(dir, "ca", "cn", &(struct t_cert){.cn = "Wörker 1", .san = "IP:127.0.0.1"});
    t_cert(dir, "ca", "plain", &(struct t_cert){.cn = "plain"});
    t_cert(dir, "ca", "nobody", &(struct t_cert){.cn = "", .san = "IP:127.0.0.1"});
    t_cert(dir, "ca", "control", &(struct t_cert){.cn = "wor\nker"});
    t_cert(dir, "ca", "ended", &(struct t_cert){.to_s = -60});
    t_cert(dir, "ca", "only-server", &(struct t_cert){.use = "serverAuth"});
    t_cert(dir, "other-ca", "stranger", NULL);
    assert_string_equal(name_by(tls, "uri"), "spiffe://example/worker");
    assert_string_equal(name_by(tls, "dns"), "worker.example");
    assert_string_equal(name_by(tls, "cn"), "Wörker 1");
    assert_string_equal(name_by(tls, "plain"), "plain");
    assert_string_equal(name_by(tls, "nobody"), "nobody");
    assert_string_equal(name_by(tls, "control"), "nobody");
    assert_string_equal(name_by(tls, "ended"), "refused");
    assert_string_equal(name_by(tls, "only-server"), "refused");
    assert_string_equal(name_by(tls, "stranger"), "refused");
    connected(&p, tls, ctx); /* none is asked for */
    assert_null(net_tls_principal(p.server));
    part(&p);
    net_tls_free(tls);
    tls = serve("server", NULL);
    assert_string_equal(name_by(tls, "uri"), "nobody"); /* not asked, not told */
    net_tls_free(tls);
    SSL_CTX_free(ctx);
}

/* ---- the end of a connection ---- */

static void the_end_is_told(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    struct pair p;
    connected(&p, tls, ctx);
    assert_int_equal(SSL_write(p.client, "last", 4), 4);
    SSL_shutdown(p.client);
    to_server(&p);
    assert_int_equal(net_tls_read(p.server, big, 100), 4);
    assert_int_equal(net_tls_read(p.server, big, 100), -1);
    assert_int_equal(net_tls_read(p.server, big, 100), -1);
    assert_true(net_tls_write(p.server, "bye", 3));
    net_tls_end(p.server);
    to_client(&p);
    assert_int_equal(SSL_read(p.client, big, 100), 3);
    assert_int_equal(SSL_read(p.client, big, 100), 0);
    assert_int_equal(SSL_get_error(p.client, 0), SSL_ERROR_ZERO_RETURN);
    part(&p);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

static void broken_bytes_end_it_after_what_was_whole(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    SSL_CTX *ctx = client_ctx();
    struct pair p;
    unsigned char record[256];
    connected(&p, tls, ctx);
    assert_int_equal(SSL_write(p.client, "good", 4), 4);
    to_server(&p);
    assert_int_equal(SSL_write(p.client, "evil", 4), 4);
    int n = BIO_read(SSL_get_wbio(p.client), record, sizeof(record));
    record[n - 1] ^= 1;
    assert_true(net_tls_feed(p.server, record, (size_t)n));
    assert_int_equal(net_tls_read(p.server, big, 100), 4);
    assert_int_equal(net_tls_read(p.server, big, 100), -1);
    assert_false(net_tls_feed(p.server, record, (size_t)n));
    assert_false(net_tls_write(p.server, "x", 1));
    assert_true(net_tls_out(p.server)->len > 0); /* an alert */
    part(&p);

    join(&p, tls, ctx);
    assert_false(net_tls_feed(p.server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27));
    net_tls_end(p.server); /* does no harm */
    part(&p);
    net_tls_conn_free(NULL);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

/* ---- files ---- */

static void wrong(const char *cert, const char *key, const char *ca, const char *names, const char *says)
{
    struct net_tls_config cfg = {file(cert), file(key), ca ? file(ca) : NULL};
    memset(error, 0, sizeof(error));
    struct net_tls *tls = net_tls_new(&cfg, error, sizeof(error));
    assert_null(tls);
    t_contains(error, t_printf("%s: ", file(names)));
    t_contains(error, says);
}

static void what_is_wrong_with_files_is_said(void **state)
{
    (void)state;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *stream = fopen(file("locked.key"), "w");
    assert_int_equal(PEM_write_PrivateKey(stream, key, EVP_aes_128_cbc(), NULL, 0, NULL, (void *)(uintptr_t) "phrase"), 1);
    fclose(stream);
    EVP_PKEY_free(key);
    key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    stream = fopen(file("kind.key"), "w");
    assert_int_equal(PEM_write_PrivateKey(stream, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(stream);
    EVP_PKEY_free(key);
    t_cert(dir, "ca", "next", NULL);
    t_write_file(file("empty"), "");
    t_write_file(file("words"), "certainly\n");
    t_write_file(file("broken"), "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    mkdir(file("folder"), 0700);
    wrong("none.pem", "server.key", NULL, "none.pem", "No such file");
    wrong("server.pem", "none.key", NULL, "none.key", "No such file");
    wrong("folder", "server.key", NULL, "folder", "not a regular file");
    wrong("empty", "server.key", NULL, "empty", "holds no certificate in PEM");
    wrong("words", "server.key", NULL, "words", "holds no certificate in PEM");
    wrong("server.key", "server.key", NULL, "server.key", "holds no certificate in PEM");
    wrong("broken", "server.key", NULL, "broken", "");
    wrong("server.pem", "empty", NULL, "empty", "holds no private key in PEM");
    wrong("server.pem", "server.pem", NULL, "server.pem", "holds no private key in PEM");
    wrong("server.pem", "next.key", NULL, "next.key", t_printf("is not the key of the certificate in %s", file("server.pem")));
    wrong("server.pem", "kind.key", NULL, "kind.key", "is not the key of the certificate");
    wrong("server.pem", "locked.key", NULL, "locked.key", "encrypted");
    wrong("server.pem", "server.key", "none.pem", "none.pem", "No such file");
    wrong("server.pem", "server.key", "words", "words", "holds no certificate in PEM");
    wrong("server.pem", "server.key", "empty", "empty", "holds no certificate in PEM");
}

static void what_is_doubtful_is_a_warning(void **state)
{
    (void)state;
    struct net_tls *tls = serve("server", NULL);
    assert_null(net_tls_warning(tls));
    int64_t now = time(NULL), end = net_tls_not_after(tls);
    assert_true(end > now + 80000 && end <= now + 86400);
    net_tls_free(tls);
    t_cert(dir, "ca", "past", &(struct t_cert){.from_s = -7200, .to_s = -3600});
    chmod(file("past.key"), 0644);
    tls = serve("past", NULL);
    t_contains(net_tls_warning(tls), t_printf("%s: the certificate has expired", file("past.pem")));
    t_contains(net_tls_warning(tls), t_printf("%s: the private key can be read by everybody", file("past.key")));
    assert_true(net_tls_not_after(tls) < now);
    t_cert(dir, "ca", "past", &(struct t_cert){.from_s = 3600}); /* its key is 0600 again */
    assert_true(net_tls_reload(tls, error, sizeof(error)));
    t_contains(net_tls_warning(tls), "not valid yet");
    assert_null(strstr(net_tls_warning(tls), ".key"));
    net_tls_free(tls);
}

static void a_reload_is_for_those_who_come_after(void **state)
{
    (void)state;
    t_cert(dir, "ca", "moving", &(struct t_cert){.cn = "first"});
    struct net_tls *tls = serve("moving", NULL);
    SSL_CTX *ctx = client_ctx();
    struct pair old, half, new;
    char cn[32];
    connected(&old, tls, ctx);
    join(&half, tls, ctx); /* accepted, nothing said yet */
    t_cert(dir, "ca", "moving", &(struct t_cert){.cn = "second"});
    assert_true(net_tls_reload(tls, error, sizeof(error)));
    say(&old, "still here");
    assert_true(shake(&half));
    connected(&new, tls, ctx);
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(new.client)), NID_commonName, cn, sizeof(cn));
    assert_string_equal(cn, "second");
    X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(half.client)), NID_commonName, cn, sizeof(cn));
    assert_string_equal(cn, "first");
    part(&new);
    t_write_file(file("moving.key"), "gone"); /* a renewal that is half done */
    assert_false(net_tls_reload(tls, error, sizeof(error)));
    t_contains(error, "moving.key");
    connected(&new, tls, ctx);
    say(&new, "as before");
    say(&old, "still here");
    part(&new);
    part(&half);
    part(&old);
    SSL_CTX_free(ctx);
    net_tls_free(tls);
}

static int set_up(void **state)
{
    (void)state;
    dir = t_tmpdir();
    t_cert_ca(dir, "ca");
    t_cert_ca(dir, "other-ca");
    t_cert(dir, "ca", "server", &(struct t_cert){.san = "DNS:localhost"});
    t_cert(dir, "ca", "uri", &(struct t_cert){.san = "DNS:worker.example,URI:spiffe://example/worker,URI:spiffe://example/2"});
    for (size_t i = 0; i < BIG; i++)
        big[i] = (unsigned char)(i * 7 + i / 251);
    t_keep();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_carry_data_in_any_pieces),
        cmocka_unit_test(a_handshake_may_come_byte_by_byte),
        cmocka_unit_test(old_versions_and_weak_ciphers_are_refused),
        cmocka_unit_test(alpn_prefers_h2),
        cmocka_unit_test(renegotiation_is_refused),
        cmocka_unit_test(sessions_are_resumed_by_tickets),
        cmocka_unit_test(a_resumed_session_ends_with_its_certificate),
        cmocka_unit_test(certificates_of_clients_tell_a_name),
        cmocka_unit_test(the_end_is_told),
        cmocka_unit_test(broken_bytes_end_it_after_what_was_whole),
        cmocka_unit_test(what_is_wrong_with_files_is_said),
        cmocka_unit_test(what_is_doubtful_is_a_warning),
        cmocka_unit_test(a_reload_is_for_those_who_come_after),
    };
    return cmocka_run_group_tests_name("unit/net/tls", tests, set_up, t_teardown);
}
