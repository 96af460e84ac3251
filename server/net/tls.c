/*
 * tls.c - see tls.h; what the files say is tls_files.c's.
 *
 * OpenSSL reads from `in` and writes to `out` through a BIO of our own, which costs one copy each way and no memory of its own: a
 * record is as large as what is written at once, up to the 16 KiB that TLS allows. `in` holds less than a record once everything
 * was read, and both give their memory back when they are empty after having been large.
 */
#include "net/tls.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "net/tls_files.h"

enum { KEPT = 32 << 10 }; /* of an empty buffer */

/* Bytes that come at the end and go from the front. */
struct stream {
    struct hp_buf buf;
    size_t taken; /* of its front */
};

struct net_tls {
    char *cert_file, *key_file, *client_ca_file;
    struct net_tls_files files;
    BIO_METHOD *bio;
};

struct net_tls_conn {
    SSL *ssl;
    struct stream in, out;
    struct hp_buf view; /* of out, for net_tls_out; owns nothing */
    bool established;
    bool ended;  /* the peer says no more */
    bool broken; /* nothing is read or written any more; an alert may be in `out` */
    char *principal;
};

static const uint8_t *front(const struct stream *s)
{
    return s->buf.data ? s->buf.data + s->taken : NULL;
}

static size_t left(const struct stream *s)
{
    return s->buf.len - s->taken;
}

static void take(struct stream *s, size_t len)
{
    s->taken += len;
    if (s->taken < s->buf.len)
        return;
    s->taken = 0;
    if (s->buf.cap > KEPT)
        hp_buf_release(&s->buf);
    else
        hp_buf_reset(&s->buf);
}

static bool add(struct stream *s, const void *data, size_t len)
{
    if (s->taken && s->taken >= left(s)) { /* each byte is moved once at most, on the average */
        memmove(s->buf.data, front(s), left(s));
        s->buf.len -= s->taken;
        s->taken = 0;
    }
    hp_buf_add(&s->buf, data, len);
    return !s->buf.failed;
}

/* ---- the BIO ---- */

static int bio_read(BIO *bio, char *data, size_t size, size_t *got)
{
    struct net_tls_conn *conn = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *got = left(&conn->in);
    if (*got == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (*got > size)
        *got = size;
    memcpy(data, front(&conn->in), *got);
    take(&conn->in, *got);
    return 1;
}

static int bio_write(BIO *bio, const char *data, size_t len, size_t *done)
{
    struct net_tls_conn *conn = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *done = 0;
    if (!add(&conn->out, data, len))
        return -1;
    *done = len;
    return 1;
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

/* ---- the server's part ---- */

static bool copy(char **to, const char *from)
{
    return !from || (*to = strdup(from));
}

static bool read_files(struct net_tls *tls, struct net_tls_files *files, char *error, size_t error_len)
{
    struct net_tls_config cfg = {tls->cert_file, tls->key_file, tls->client_ca_file};
    return net_tls_files_read(&cfg, files, error, error_len);
}

struct net_tls *net_tls_new(const struct net_tls_config *cfg, char *error, size_t error_len)
{
    struct net_tls *tls = calloc(1, sizeof(*tls));
    if (!tls || !copy(&tls->cert_file, cfg->cert_file) || !copy(&tls->key_file, cfg->key_file) ||
        !copy(&tls->client_ca_file, cfg->client_ca_file) || !(tls->bio = new_bio_method())) {
        snprintf(error, error_len, "no memory");
        goto failed;
    }
    if (read_files(tls, &tls->files, error, error_len))
        return tls;
failed:
    net_tls_free(tls);
    return NULL;
}

bool net_tls_reload(struct net_tls *tls, char *error, size_t error_len)
{
    struct net_tls_files files;
    if (!read_files(tls, &files, error, error_len))
        return false;
    SSL_CTX_free(tls->files.ctx); /* its connections hold on to it */
    tls->files = files;
    return true;
}

int64_t net_tls_not_after(const struct net_tls *tls)
{
    return tls->files.not_after;
}

const char *net_tls_warning(const struct net_tls *tls)
{
    return tls->files.warning[0] ? tls->files.warning : NULL;
}

void net_tls_free(struct net_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->files.ctx);
    BIO_meth_free(tls->bio);
    free(tls->cert_file);
    free(tls->key_file);
    free(tls->client_ca_file);
    free(tls);
}

/* ---- who is at the other end ---- */

/* A name that can be compared and written down: no NUL that would hide its end, and no control characters. */
static char *name_of(const unsigned char *data, int len)
{
    for (int i = 0; i < len; i++)
        if (data[i] < 0x20 || data[i] == 0x7f)
            return NULL;
    return len > 0 ? strndup((const char *)data, (size_t)len) : NULL;
}

static char *alternative_name(const GENERAL_NAMES *names, int type)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == type) {
            const ASN1_IA5STRING *text = type == GEN_URI ? name->d.uniformResourceIdentifier : name->d.dNSName;
            return name_of(ASN1_STRING_get0_data(text), ASN1_STRING_length(text));
        }
    }
    return NULL;
}

static char *common_name(const X509 *cert)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    unsigned char *text = NULL;
    if (at < 0)
        return NULL;
    int len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    char *name = len > 0 ? name_of(text, len) : NULL;
    OPENSSL_free(text);
    return name;
}

/* A resumed session brings the certificate that was verified when it began, which may have expired since. */
static bool meet_peer(struct net_tls_conn *conn)
{
    const X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    if (!cert)
        return true;
    if (SSL_get_verify_result(conn->ssl) != X509_V_OK || X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        return false;
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    if (names) {
        conn->principal = alternative_name(names, GEN_URI);
        if (!conn->principal)
            conn->principal = alternative_name(names, GEN_DNS);
        GENERAL_NAMES_free(names);
    }
    if (!conn->principal)
        conn->principal = common_name(cert);
    return true;
}

/* ---- connections ---- */

struct net_tls_conn *net_tls_accept(struct net_tls *tls)
{
    struct net_tls_conn *conn = calloc(1, sizeof(*conn));
    BIO *bio = NULL;
    ERR_clear_error();
    if (!conn || !(conn->ssl = SSL_new(tls->files.ctx)) || !(bio = BIO_new(tls->bio))) {
        net_tls_conn_free(conn);
        return NULL;
    }
    BIO_set_data(bio, conn);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio);
    SSL_set_accept_state(conn->ssl);
    return conn;
}

void net_tls_conn_free(struct net_tls_conn *conn)
{
    if (!conn)
        return;
    SSL_free(conn->ssl);
    hp_buf_release(&conn->in.buf);
    hp_buf_release(&conn->out.buf);
    free(conn->principal);
    free(conn);
}

/* Whether OpenSSL only wants more bytes; otherwise it is of no more use, and may not even be asked to say goodbye. */
static bool only_waits(struct net_tls_conn *conn, int result)
{
    if (SSL_get_error(conn->ssl, result) == SSL_ERROR_WANT_READ)
        return true;
    conn->broken = true;
    ERR_clear_error();
    return false;
}

bool net_tls_feed(struct net_tls_conn *conn, const void *data, size_t len)
{
    if (conn->broken)
        return false;
    if (!add(&conn->in, data, len)) {
        conn->broken = true;
        return false;
    }
    if (conn->established)
        return true;
    ERR_clear_error();
    int result = SSL_do_handshake(conn->ssl);
    if (result != 1)
        return only_waits(conn, result);
    conn->established = true;
    conn->broken = !meet_peer(conn);
    ERR_clear_error();
    return !conn->broken;
}

ssize_t net_tls_read(struct net_tls_conn *conn, void *data, size_t size)
{
    size_t have = 0, got;
    if (conn->broken || conn->ended)
        return -1;
    if (!conn->established)
        return 0;
    ERR_clear_error();
    while (have < size) { /* a record each time */
        int result = SSL_read_ex(conn->ssl, (char *)data + have, size - have, &got);
        if (result == 1) {
            have += got;
            continue;
        }
        if (SSL_get_error(conn->ssl, result) == SSL_ERROR_ZERO_RETURN)
            conn->ended = true;
        else if (only_waits(conn, result))
            break;
        return have ? (ssize_t)have : -1; /* what came before counts */
    }
    return (ssize_t)have;
}

bool net_tls_write(struct net_tls_conn *conn, const void *data, size_t len)
{
    size_t done;
    if (conn->broken || !conn->established)
        return false;
    if (len == 0)
        return true;
    ERR_clear_error();
    if (SSL_write_ex(conn->ssl, data, len, &done) == 1)
        return true; /* all of it, since the BIO takes all */
    conn->broken = true;
    ERR_clear_error();
    return false;
}

void net_tls_end(struct net_tls_conn *conn)
{
    if (conn->broken || !conn->established)
        return;
    ERR_clear_error();
    SSL_shutdown(conn->ssl);
    ERR_clear_error();
}

const struct hp_buf *net_tls_out(struct net_tls_conn *conn)
{
    conn->view.data = conn->out.buf.data ? conn->out.buf.data + conn->out.taken : NULL;
    conn->view.len = conn->view.cap = left(&conn->out);
    return &conn->view;
}

void net_tls_sent(struct net_tls_conn *conn, size_t len)
{
    take(&conn->out, len);
}

bool net_tls_established(const struct net_tls_conn *conn)
{
    return conn->established;
}

const char *net_tls_alpn(const struct net_tls_conn *conn)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(conn->ssl, &name, &len);
    if (len == 2 && !memcmp(name, "h2", 2))
        return "h2";
    return len ? "http/1.1" : NULL;
}

const char *net_tls_principal(const struct net_tls_conn *conn)
{
    return conn->principal;
}
