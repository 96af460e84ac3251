/*
 * grpc_tls.c - see grpc_tls.h.
 *
 * OpenSSL's own BIO of a socket raises SIGPIPE, which a library must not: ours doesn't. A context is made once a transport;
 * sessions are kept a connection, for the same host.
 */
#include "client/lib/grpc_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "client/lib/transport.h"

/* As RFC 9113 (9.2.2) has it. */
static const char ciphers_12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

struct grpc_tls {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
};

static const char *reason(void)
{
    const unsigned long code = ERR_peek_error();
    const char *text = ERR_GET_LIB(code) == ERR_LIB_SYS ? strerror((int)ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    return text ? text : "OpenSSL doesn't say why";
}

/* ------------------------------------------------------------------------------------------------ the socket */

static int bio_read(BIO *bio, char *data, size_t size, size_t *got)
{
    const struct tr_conn *conn = BIO_get_data(bio);
    const ssize_t n = recv(conn->fd, data, size, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    *got = n > 0 ? (size_t)n : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    return n > 0 ? 1 : (int)n;
}

static int bio_write(BIO *bio, const char *data, size_t len, size_t *done)
{
    const struct tr_conn *conn = BIO_get_data(bio);
    const ssize_t n = send(conn->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    *done = n > 0 ? (size_t)n : 0;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return n > 0 ? 1 : -1;
}

static long bio_ctrl(BIO *bio, int command, long number, void *ptr)
{
    (void)bio;
    (void)number;
    (void)ptr;
    return command == BIO_CTRL_FLUSH; /* there is nothing to flush, and OpenSSL insists */
}

static BIO_METHOD *new_bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast");

    if (!method)
        return NULL;
    if (BIO_meth_set_read_ex(method, bio_read) && BIO_meth_set_write_ex(method, bio_write) && BIO_meth_set_ctrl(method, bio_ctrl))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------ the files */

static bool wrong(char *why, size_t why_size, const char *file, const char *what)
{
    snprintf(why, why_size, "%s: %s", file, what);
    ERR_clear_error();
    return false;
}

static bool readable(const char *file, char *why, size_t why_size)
{
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return wrong(why, why_size, file, strerror(errno));
    close(fd);
    return true;
}

static const char *why_no_cert(void)
{
    const unsigned long code = ERR_peek_error();

    if (code == 0 || (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) ||
        (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_NO_CERTIFICATE_OR_CRL_FOUND))
        return "holds no certificate in PEM";
    return reason();
}

static bool use_ca(SSL_CTX *ctx, const char *file, char *why, size_t why_size)
{
    if (!file) {
        SSL_CTX_set_default_verify_paths(ctx); /* if the system has none, no server is trusted */
        ERR_clear_error();
        return true;
    }
    if (!readable(file, why, why_size))
        return false;
    return SSL_CTX_load_verify_file(ctx, file) == 1 || wrong(why, why_size, file, why_no_cert());
}

/* A pass phrase is never asked for: the terminal is the program's. */
static int no_phrase(char *buf, int size, int writing, void *arg)
{
    buf[0] = '\0';
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

static bool use_key(SSL_CTX *ctx, const struct hfi_tls_files *files, char *why, size_t why_size)
{
    bool asked = false;
    char what[256];
    int ok;

    if (!readable(files->key, why, why_size))
        return false;
    SSL_CTX_set_default_passwd_cb(ctx, no_phrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    ok = SSL_CTX_use_PrivateKey_file(ctx, files->key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    SSL_CTX_set_default_passwd_cb(ctx, NULL);
    if (asked)
        return wrong(why, why_size, files->key, "the key is encrypted, and nobody is asked for its pass phrase");
    if (ok != 1 && ERR_GET_LIB(ERR_peek_error()) != ERR_LIB_X509) /* which compares it with the certificate */
        return wrong(why, why_size, files->key,
                     ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_OSSL_DECODER ? "holds no private key in PEM" : reason());
    snprintf(what, sizeof(what), "is not the key of the certificate in %s", files->cert);
    return (ok == 1 && SSL_CTX_check_private_key(ctx) == 1) || wrong(why, why_size, files->key, what);
}

static bool use_cert(SSL_CTX *ctx, const struct hfi_tls_files *files, char *why, size_t why_size)
{
    if (!files->cert && !files->key)
        return true;
    if (!files->cert || !files->key)
        return wrong(why, why_size, files->cert ? files->cert : files->key, "a certificate and its key are given together");
    if (!readable(files->cert, why, why_size))
        return false;
    if (SSL_CTX_use_certificate_chain_file(ctx, files->cert) != 1)
        return wrong(why, why_size, files->cert, why_no_cert());
    return use_key(ctx, files, why, why_size);
}

/* ------------------------------------------------------------------------------------------------ the context */

/* The latest session is the one that is resumed. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tr_conn *conn = SSL_get_app_data(ssl);

    grpc_tls_forget(&conn->session);
    conn->session = session;
    return 1; /* it is ours now */
}

static bool set_up(SSL_CTX *ctx)
{
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ctx, keep_session);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 && SSL_CTX_set_cipher_list(ctx, ciphers_12) == 1 &&
           SSL_CTX_set_alpn_protos(ctx, (const unsigned char *)"\x02h2", 3) == 0;
}

struct grpc_tls *grpc_tls_new(const struct hfi_tls_files *files, char *why, size_t why_size)
{
    struct grpc_tls *tls = calloc(1, sizeof(*tls));

    snprintf(why, why_size, "%s", "");
    if (!tls)
        return NULL;
    /* Whoever calls exit() may have clients left, whose threads still use it. */
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    tls->bio = new_bio_method();
    tls->ctx = SSL_CTX_new(TLS_client_method());
    if (tls->bio && tls->ctx && !set_up(tls->ctx))
        wrong(why, why_size, "TLS can't be set up", reason());
    else if (tls->bio && tls->ctx && use_ca(tls->ctx, files->ca, why, why_size) && use_cert(tls->ctx, files, why, why_size))
        return tls;
    grpc_tls_free(tls);
    return NULL;
}

void grpc_tls_free(struct grpc_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->bio);
    free(tls);
}

void grpc_tls_forget(void **session)
{
    SSL_SESSION_free(*session);
    *session = NULL;
}

/* ------------------------------------------------------------------------------------------------ connections */

/* Whom the certificate has to name, and, of names, who is told to be wanted (RFC 6066, 3: no addresses). */
static bool want_host(SSL *ssl, const char *host)
{
    struct in6_addr address;

    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

SSL *grpc_tls_start(struct grpc_tls *tls, struct tr_conn *conn)
{
    SSL *ssl;
    BIO *bio;

    ERR_clear_error();
    ssl = SSL_new(tls->ctx);
    bio = ssl ? BIO_new(tls->bio) : NULL;
    if (!bio) {
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, conn);
    SSL_set_connect_state(ssl);
    if (conn->session)
        SSL_set_session(ssl, conn->session);
    if (want_host(ssl, conn->address.host))
        return ssl;
    SSL_free(ssl);
    return NULL;
}

void grpc_tls_end(SSL *ssl, bool orderly)
{
    if (!ssl)
        return;
    ERR_clear_error();
    if (orderly && SSL_is_init_finished(ssl))
        SSL_shutdown(ssl);
    if (SSL_is_init_finished(ssl))
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); /* or SSL_free spoils the session */
    SSL_free(ssl);
    ERR_clear_error();
}

static void say_verify(const SSL *ssl, struct tr_conn *conn)
{
    const long result = SSL_get_verify_result(ssl);

    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        tr_say(conn, "the server's certificate has expired");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        tr_say(conn, "the server's certificate is not valid yet");
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        tr_say(conn, "the server's certificate is not for %s", conn->address.host);
        break;
    default:
        tr_say(conn, "the server's certificate is not trusted: %s", X509_verify_cert_error_string(result));
        break;
    }
}

/* Why OpenSSL has given up, by its first error. */
static void say(const SSL *ssl, struct tr_conn *conn)
{
    const unsigned long code = ERR_peek_error();
    const bool of_ssl = ERR_GET_LIB(code) == ERR_LIB_SSL;

    if (of_ssl && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        say_verify(ssl, conn);
    else if (of_ssl && (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER || ERR_GET_REASON(code) == SSL_R_PACKET_LENGTH_TOO_LONG))
        tr_say(conn, "it doesn't speak TLS: try grpc://");
    else if (of_ssl && ERR_GET_REASON(code) == SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL)
        tr_say(conn, "the server doesn't offer HTTP/2 over TLS, by ALPN");
    else if (of_ssl && ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET)
        tr_say(conn, "the server refuses TLS with us: %s", reason());
    else if (code)
        tr_say(conn, "TLS fails: %s", reason());
    else
        tr_say(conn, "the server closed the connection while TLS began");
    ERR_clear_error();
}

enum grpc_io grpc_tls_shake(SSL *ssl, struct tr_conn *conn)
{
    const unsigned char *protocol;
    unsigned len;
    int result;

    ERR_clear_error();
    result = SSL_do_handshake(ssl);
    if (result == 1) {
        SSL_get0_alpn_selected(ssl, &protocol, &len);
        if (len == 2 && !memcmp(protocol, "h2", 2))
            return GRPC_IO_DONE;
        tr_say(conn, "the server doesn't offer HTTP/2 over TLS, by ALPN");
        return GRPC_IO_LOST;
    }
    result = SSL_get_error(ssl, result);
    if (result == SSL_ERROR_WANT_READ || result == SSL_ERROR_WANT_WRITE)
        return GRPC_IO_AGAIN;
    say(ssl, conn);
    grpc_tls_forget(&conn->session); /* perhaps it is what they don't like */
    return GRPC_IO_LOST;
}

ssize_t grpc_tls_read(SSL *ssl, struct tr_conn *conn, void *data, size_t size)
{
    size_t got;
    int result;

    ERR_clear_error();
    result = SSL_read_ex(ssl, data, size, &got);
    if (result == 1)
        return (ssize_t)got;
    result = SSL_get_error(ssl, result);
    if (result == SSL_ERROR_WANT_READ || result == SSL_ERROR_WANT_WRITE)
        return 0;
    if (result == SSL_ERROR_SSL)
        say(ssl, conn);
    else
        tr_say(conn, "the server closed the connection");
    ERR_clear_error();
    return -1;
}

ssize_t grpc_tls_write(SSL *ssl, const void *data, size_t len)
{
    size_t done;
    int result;

    ERR_clear_error();
    result = SSL_write_ex(ssl, data, len, &done);
    if (result == 1)
        return (ssize_t)done;
    result = SSL_get_error(ssl, result);
    ERR_clear_error();
    return result == SSL_ERROR_WANT_READ || result == SSL_ERROR_WANT_WRITE ? 0 : -1;
}
