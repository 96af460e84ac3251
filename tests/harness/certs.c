/*
 * certs.c - see certs.h.
 */
#include "harness/certs.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "harness/harness.h"

static void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(cert, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static FILE *create(const char *path)
{
    unlink(path);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(chmod(path, 0600), 0);
    return stream;
}

static void save(const char *dir, const char *name, X509 *cert, EVP_PKEY *key)
{
    FILE *stream = create(t_printf("%s/%s.pem", dir, name));
    assert_int_equal(PEM_write_X509(stream, cert), 1);
    fclose(stream);
    stream = create(t_printf("%s/%s.key", dir, name));
    assert_int_equal(PEM_write_PrivateKey(stream, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(stream);
}

static X509 *begin(const char *cn, EVP_PKEY *key, int from_s, int to_s)
{
    X509 *cert = X509_new();
    uint32_t serial;
    assert_non_null(cert);
    assert_int_equal(RAND_bytes((unsigned char *)&serial, sizeof(serial)), 1);
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), (long)serial + 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), from_s ? from_s : -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), to_s ? to_s : 86400);
    X509_set_pubkey(cert, key);
    if (cn[0])
        X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const unsigned char *)cn, -1, -1, 0);
    return cert;
}

void t_cert_ca(const char *dir, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = begin(name, key, 0, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    extend(cert, cert, NID_basic_constraints, "critical,CA:TRUE");
    extend(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign");
    extend(cert, cert, NID_subject_key_identifier, "hash");
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    save(dir, name, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

void t_cert(const char *dir, const char *ca, const char *name, const struct t_cert *opts)
{
    static const struct t_cert none;
    FILE *ca_cert = fopen(t_printf("%s/%s.pem", dir, ca), "r"), *ca_key = fopen(t_printf("%s/%s.key", dir, ca), "r");
    assert_non_null(ca_cert);
    assert_non_null(ca_key);
    X509 *issuer = PEM_read_X509(ca_cert, NULL, NULL, NULL);
    EVP_PKEY *signer = PEM_read_PrivateKey(ca_key, NULL, NULL, NULL), *key = EVP_EC_gen("P-256");
    opts = opts ? opts : &none;
    X509 *cert = begin(opts->cn ? opts->cn : name, key, opts->from_s, opts->to_s);
    X509_set_issuer_name(cert, X509_get_subject_name(issuer));
    extend(cert, issuer, NID_basic_constraints, "critical,CA:FALSE");
    extend(cert, issuer, NID_ext_key_usage, opts->use ? opts->use : "serverAuth,clientAuth");
    extend(cert, issuer, NID_authority_key_identifier, "keyid");
    if (opts->san)
        extend(cert, issuer, NID_subject_alt_name, opts->san);
    assert_true(X509_sign(cert, signer, EVP_sha256()) > 0);
    save(dir, name, cert, key);
    fclose(ca_cert);
    fclose(ca_key);
    X509_free(issuer);
    EVP_PKEY_free(signer);
    X509_free(cert);
    EVP_PKEY_free(key);
}
