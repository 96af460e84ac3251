/*
 * web.h - an HTTP port with a few pages, on a loop in a thread of its own, for the tests of server/net/http.h; and clients of it
 * that are as rude as a test wants: bytes on a socket, and nghttp2's client session.
 *
 * The pages: /ok (200, "ok", and a trailer, once the request is whole), /echo (the body back, as it comes and as it is read),
 * /eat (how long the body was), /bytes?N (N bytes, as they are read), /length?N (the same, announced), /burst?N (the same at
 * once, read or not), /early (413 at once),
 * /hold (nothing until a request for /release; what is sent to it is not consumed before), /keep?N (the same, and N bytes are said
 * to be held), /reset (it is cut off).
 */
#ifndef HOLDFAST_TESTS_UNIT_NET_WEB_H
#define HOLDFAST_TESTS_UNIT_NET_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http.h"

struct web;

struct web *web_start(const struct net_http_config *cfg);
/* It is gone; every exchange was told that it is over, and nothing is counted any more. */
void web_stop(struct web *web);
void web_drain(struct web *web);
int web_port(const struct web *web);
struct net_http_stats web_stats(struct web *web);
bool web_is_idle(struct web *web);

/* Since the start. */
enum web_count { WEB_REQUESTS, WEB_COMPLETE, WEB_CUT_OFF, WEB_BODY_BYTES, WEB_WRITTEN, WEB_TOLD_FULL, WEB_COUNTS };
long web_counted(struct web *web, enum web_count which);
/* Waits until the count is `n`, with patience; the test fails if it doesn't become so, or is more. */
void web_await(struct web *web, enum web_count which, long n);

/* The n-th allocation from now on of the loop's thread (by the port of proto/c/arena.h) fails; 0 = none. */
void web_fail_memory(struct web *web, int n);
/* Whether it has come to that. */
bool web_memory_failed(struct web *web);

/* ---- clients ---- */

/* A blocking socket that gives up after T_PATIENCE_MS. */
int web_connect(const struct web *web);
/* False: the other end is gone. */
bool web_send(int fd, const void *data, size_t len);
void web_say(int fd, const char *text);
/* What comes until `until` is in it, or the connection ends (`until` NULL: until it ends). Stays for 16 more calls. */
char *web_hear(int fd, const char *until);
/* The connection is ended by the other side, whatever comes before, within T_PATIENCE_MS. */
void web_hear_end(int fd);
/* One request, on a connection of its own, which is closed after it; what came. */
char *web_ask(const struct web *web, const char *text);

struct web2; /* an HTTP/2 connection */

struct web2_stream {
    int status; /* 0: no header yet */
    size_t n_body;
    char body[64];    /* its beginning */
    char trailer[64]; /* the value of the last field after the body */
    bool ended;       /* END_STREAM came */
    bool closed;
    uint32_t code; /* with which it was closed */
    int n_informational;
};

/* Zero means the default. */
struct web2_options {
    bool shut;  /* windows aren't opened again for what comes */
    int window; /* of streams; 0 = 65,535; -1 = 0 */
};

struct web2 *web2_connect(const struct web *web, const struct web2_options *options);
void web2_close(struct web2 *client);
/* A request for `path`, with a body of n bytes; n -1: there will be a body, of which nothing comes. `name`: one more header. Not
 * sent before the next web2_pump or web2_send. Its stream's id. */
int web2_ask(struct web2 *client, const char *method, const char *path, long n_body, const char *name, const char *value);
void web2_cancel(struct web2 *client, int stream);
void web2_ping(struct web2 *client);
/* What there is to send leaves. */
void web2_send(struct web2 *client);
/* Bytes as they are, behind that. */
void web2_say(struct web2 *client, const void *data, size_t len);
/* Sends and receives until done(client, arg), or the connection has ended; the test fails after T_PATIENCE_MS. */
void web2_pump(struct web2 *client, bool (*done)(struct web2 *client, int arg), int arg);
void web2_await_closed(struct web2 *client, int stream);
void web2_await_end(struct web2 *client); /* of the connection */
const struct web2_stream *web2_stream(const struct web2 *client, int stream);
bool web2_ended(const struct web2 *client);
/* GOAWAYs that came, and what the last one said. */
int web2_goaways(const struct web2 *client);
int web2_last_stream(const struct web2 *client);
uint32_t web2_goaway_code(const struct web2 *client);
int web2_pongs(const struct web2 *client);

/* The head of a frame (RFC 9113, 4.1). */
void web2_frame(uint8_t out[9], size_t len, int type, int flags, int stream);

#endif
