/*
 * tls_files.h - what a TLS server gets from its files: a context of OpenSSL for new connections, or the reason why not.
 */
#ifndef HOLDFAST_NET_TLS_FILES_H
#define HOLDFAST_NET_TLS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

struct net_tls_config;

struct net_tls_files {
    SSL_CTX *ctx;      /* the caller frees it */
    int64_t not_after; /* seconds since 1970 */
    char warning[512]; /* "" = nothing */
};

/* Everything is read and fits together, and connections by this context have what tls.h says of versions, ciphers and tickets.
 * False: `error` names the file and what is wrong, and `out` is as it was. */
bool net_tls_files_read(const struct net_tls_config *cfg, struct net_tls_files *out, char *error, size_t error_len)
    __attribute__((warn_unused_result));

#endif
