/*
 * grpc_tls.h - the client's side of TLS, by OpenSSL, on a connection's socket.
 *
 * The server's certificate is always verified, against the system's authorities or those of a file, and so is the name it was
 * reached by: the host of the URL, a name or an address. TLS 1.2 or higher, ALPN "h2". Sessions are resumed. All but grpc_tls_new
 * and grpc_tls_free: with the transport's lock held.
 */
#ifndef HOLDFAST_CLIENT_GRPC_TLS_H
#define HOLDFAST_CLIENT_GRPC_TLS_H

#include <openssl/ssl.h>
#include <stddef.h>
#include <sys/types.h>

#include "client/lib/ports.h"

struct tr_conn;
struct grpc_tls;

/* NULL: `why` names the file and what is wrong with it, or is empty: no memory. Reads the files. */
struct grpc_tls *grpc_tls_new(const struct hfi_tls_files *files, char *why, size_t why_size) __attribute__((warn_unused_result));
void grpc_tls_free(struct grpc_tls *tls);

/* For the connection's socket; the handshake is still to come. NULL: no memory. */
SSL *grpc_tls_start(struct grpc_tls *tls, struct tr_conn *conn) __attribute__((warn_unused_result));
/* It is gone; its session may be resumed by another. `orderly`: the server is told. NULL is allowed. */
void grpc_tls_end(SSL *ssl, bool orderly);
enum grpc_io { GRPC_IO_DONE, GRPC_IO_AGAIN, GRPC_IO_LOST };
/* AGAIN: when the socket has more. LOST: tr_say has said why. */
enum grpc_io grpc_tls_shake(SSL *ssl, struct tr_conn *conn) __attribute__((warn_unused_result));
/* What there is, at most `size`: more than 0; 0 = nothing at present; -1 = it is at its end or broken, and tr_say has said so. */
ssize_t grpc_tls_read(SSL *ssl, struct tr_conn *conn, void *data, size_t size);
/* How much of it was taken; -1 = it is broken. What was refused is to be tried again first, wherever it lies by then. */
ssize_t grpc_tls_write(SSL *ssl, const void *data, size_t len);
/* What is kept to be resumed (conn->session) is gone. */
void grpc_tls_forget(void **session);

#endif
