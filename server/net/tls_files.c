/*
 * tls_files.c - see tls_files.h.
 *
 * A context is made new from the files each time, with ticket keys of its own: what was granted before a reload (under another CA
 * for clients, perhaps) is resumed no more, and those who try it get a full handshake.
 */
#include "net/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "net/tls.h"

enum { TICKETS_S = 3600 }; /* that long a session may be resumed */

/* Forward secrecy and AEAD only, as RFC 9113 (9.2.2) asks for; first the one that is fastest where there is AES in hardware. */
static const char ciphers_12[] = "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20";
static const char ciphers_13[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
static const char groups[] = "X25519:P-256:P-384";

/* What OpenSSL says of the first thing that went wrong; the others follow from it. */
static const char *reason(void)
{
    unsigned long code = ERR_peek_error();
    const char *text = ERR_GET_LIB(code) == ERR_LIB_SYS ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    return text ? text : "OpenSSL doesn't say why";
}

/* It holds none at all, or none that is whole. */
static const char *why_no_cert(void)
{
    unsigned long code = ERR_peek_error();
    bool none = code == 0 || (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE);
    return none ? "holds no certificate in PEM" : reason();
}

static bool fail(char *error, size_t error_len, const char *file, const char *what)
{
    snprintf(error, error_len, "%s: %s", file, what);
    ERR_clear_error();
    return false;
}

/* A pass phrase is never asked for: there may be no terminal, and a reload can't wait. */
static int no_phrase(char *buf, int size, int writing, void *arg)
{
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    buf[0] = '\0';
    return -1;
}

static bool readable(const char *file, struct stat *st, char *error, size_t error_len)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold it up */
    if (fd < 0 || fstat(fd, st) < 0) {
        fail(error, error_len, file, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    return S_ISREG(st->st_mode) || fail(error, error_len, file, "is not a regular file");
}

static void warn(struct net_tls_files *files, const char *file, const char *what)
{
    size_t len = strlen(files->warning);
    snprintf(files->warning + len, sizeof(files->warning) - len, "%s%s: %s", len ? "; " : "", file, what);
}

static int64_t seconds(const ASN1_TIME *time)
{
    struct tm tm;
    return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MAX;
}

static bool use_cert(const struct net_tls_config *cfg, struct net_tls_files *files, char *error, size_t error_len)
{
    struct stat st;
    if (!readable(cfg->cert_file, &st, error, error_len))
        return false;
    if (SSL_CTX_use_certificate_chain_file(files->ctx, cfg->cert_file) != 1)
        return fail(error, error_len, cfg->cert_file, why_no_cert());
    const X509 *cert = SSL_CTX_get0_certificate(files->ctx);
    files->not_after = seconds(X509_get0_notAfter(cert));
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0)
        warn(files, cfg->cert_file, "the certificate has expired: clients will refuse it");
    else if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0)
        warn(files, cfg->cert_file, "the certificate is not valid yet: clients will refuse it");
    return true;
}

static bool use_key(const struct net_tls_config *cfg, struct net_tls_files *files, char *error, size_t error_len)
{
    struct stat st;
    bool asked = false;
    if (!readable(cfg->key_file, &st, error, error_len))
        return false;
    SSL_CTX_set_default_passwd_cb(files->ctx, no_phrase);
    SSL_CTX_set_default_passwd_cb_userdata(files->ctx, &asked);
    int ok = SSL_CTX_use_PrivateKey_file(files->ctx, cfg->key_file, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(files->ctx, NULL);
    SSL_CTX_set_default_passwd_cb(files->ctx, NULL);
    if (asked)
        return fail(error, error_len, cfg->key_file, "the key is encrypted, and there is nobody to ask for its pass phrase");
    unsigned long code = ERR_peek_error();
    if (ok != 1 && ERR_GET_LIB(code) != ERR_LIB_X509) /* which compares it with the certificate */
        return fail(error, error_len, cfg->key_file,
                    ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER ? "holds no private key in PEM" : reason());
    if (ok != 1 || SSL_CTX_check_private_key(files->ctx) != 1) { /* the latter if it is of another kind */
        char what[512];
        snprintf(what, sizeof(what), "is not the key of the certificate in %s", cfg->cert_file);
        return fail(error, error_len, cfg->key_file, what);
    }
    if (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
        warn(files, cfg->key_file,
             st.st_mode & S_IROTH ? "the private key can be read by everybody" : "the private key can be changed by others");
    return true;
}

static bool use_client_ca(const struct net_tls_config *cfg, struct net_tls_files *files, char *error, size_t error_len)
{
    struct stat st;
    STACK_OF(X509_NAME) * names;
    if (!cfg->client_ca_file)
        return true;
    if (!readable(cfg->client_ca_file, &st, error, error_len))
        return false;
    names = SSL_load_client_CA_file(cfg->client_ca_file);
    if (!names || SSL_CTX_load_verify_file(files->ctx, cfg->client_ca_file) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail(error, error_len, cfg->client_ca_file, why_no_cert());
    }
    SSL_CTX_set_client_CA_list(files->ctx, names);
    SSL_CTX_set_verify(files->ctx, SSL_VERIFY_PEER, NULL); /* who shows none is asked for a key by the services */
    return true;
}

/* The server's order decides: h2 if the client has it. Who offers neither is told so (RFC 7301, 3.2). */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in, unsigned in_len,
                           void *arg)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen;
    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static bool set_up(SSL_CTX *ctx)
{
    static const unsigned char name[] = "holdfastd"; /* sessions are for no other service (SSL_CTX_set_session_id_context(3)) */
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                 SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* the tickets hold it all */
    SSL_CTX_set_timeout(ctx, TICKETS_S);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 && SSL_CTX_set_cipher_list(ctx, ciphers_12) == 1 &&
           SSL_CTX_set_ciphersuites(ctx, ciphers_13) == 1 && SSL_CTX_set1_groups_list(ctx, groups) == 1 &&
           SSL_CTX_set_session_id_context(ctx, name, sizeof(name) - 1) == 1;
}

bool net_tls_files_read(const struct net_tls_config *cfg, struct net_tls_files *out, char *error, size_t error_len)
{
    struct net_tls_files files = {0};
    ERR_clear_error();
    files.ctx = SSL_CTX_new(TLS_server_method());
    if (!files.ctx || !set_up(files.ctx)) {
        fail(error, error_len, "TLS can't be set up", reason());
        goto failed;
    }
    if (!use_cert(cfg, &files, error, error_len) || !use_key(cfg, &files, error, error_len) ||
        !use_client_ca(cfg, &files, error, error_len))
        goto failed;
    ERR_clear_error();
    *out = files;
    return true;
failed:
    SSL_CTX_free(files.ctx);
    return false;
}
