/*
 * tls.h - TLS for connections of the loop, by OpenSSL: bytes in, bytes out, no sockets.
 *
 * TLS 1.2 or higher, ALPN "h2" before "http/1.1", session tickets. One net_tls serves many connections; a reload concerns those
 * that come after it.
 */
#ifndef HOLDFAST_NET_TLS_H
#define HOLDFAST_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/c/buf.h"

struct net_tls;
struct net_tls_conn;

struct net_tls_config {
    const char *cert_file, *key_file; /* PEM; the certificate with its chain */
    const char *client_ca_file;       /* PEM; NULL = clients aren't asked for certificates */
};

/* NULL: `error` names the file and what is wrong with it. Reads files. The strings are copied. */
struct net_tls *net_tls_new(const struct net_tls_config *cfg, char *error, size_t error_len) __attribute__((warn_unused_result));
/* New connections get what the files hold now. False: nothing has changed, and `error` names what is wrong. */
bool net_tls_reload(struct net_tls *tls, char *error, size_t error_len) __attribute__((warn_unused_result));
/* When the certificate that new connections get ends, in seconds since 1970. */
int64_t net_tls_not_after(const struct net_tls *tls);
/* What people should know of the files as they were read last: the certificate has expired, others may read the key. NULL: nothing.
 * Valid until the next reload. */
const char *net_tls_warning(const struct net_tls *tls);
/* After its connections. NULL is allowed, as below. */
void net_tls_free(struct net_tls *tls);

/* The server's side of a new connection. NULL: no memory. */
struct net_tls_conn *net_tls_accept(struct net_tls *tls) __attribute__((warn_unused_result));
void net_tls_conn_free(struct net_tls_conn *conn);

/* What came from the network. False: the connection is to be closed, once what net_tls_out holds (an alert) has been sent. */
bool net_tls_feed(struct net_tls_conn *conn, const void *data, size_t len) __attribute__((warn_unused_result));
/* Plain bytes for whoever is served, at most `size`. 0: none at present; -1: the peer has ended (close_notify) or broken it. */
ssize_t net_tls_read(struct net_tls_conn *conn, void *data, size_t size);
/* Plain bytes to the peer, all of them. False: no memory, or it is broken. Only once established. */
bool net_tls_write(struct net_tls_conn *conn, const void *data, size_t len) __attribute__((warn_unused_result));
/* close_notify is on its way. */
void net_tls_end(struct net_tls_conn *conn);
/* Bytes for the network; whoever sends them takes them from the front by net_tls_sent. */
const struct hp_buf *net_tls_out(struct net_tls_conn *conn);
void net_tls_sent(struct net_tls_conn *conn, size_t len);

bool net_tls_established(const struct net_tls_conn *conn);
/* "h2", "http/1.1", or NULL if the peer asked for none. */
const char *net_tls_alpn(const struct net_tls_conn *conn);
/* The name in the verified client certificate: its first SAN of type URI, else of type DNS, else its subject's CN. NULL: none
 * was given. Valid as long as the connection. */
const char *net_tls_principal(const struct net_tls_conn *conn);

#endif
