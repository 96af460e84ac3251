/*
 * fake.h - a client and a server that speak SP over TCP by hand and hide nothing, so that a test sees what the proxy did: messages
 * twice, in another order, or half.
 *
 * Conversations are strings: the server answers each call of an envelope with the call's own payload, and notes that of the first.
 * Where the network does what no proxy may do, such as breaking the framing, the program is aborted.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_FAKE_H
#define HOLDFAST_TESTS_ROBUSTNESS_FAKE_H

#include <stdbool.h>
#include <stdint.h>

struct fake_server;

struct fake_server *fake_server_start(void);
void fake_server_stop(struct fake_server *server);
const char *fake_server_url(const struct fake_server *server);
/* True as soon as what it has heard is `expected`: payloads by their arrival, and "half" where a connection ended amid a message,
 * separated by spaces. False, and *heard is what it was, if not within `ms`. */
bool fake_server_heard(struct fake_server *server, const char *expected, int ms, const char **heard);

/* A connected REQ; the socket's descriptor. */
int fake_connect(const char *url);
/* One request, with an id, for "/test.Service/METHOD" for each METHOD (separated by commas), with this payload. */
void fake_ask(int fd, uint32_t id, const char *methods, const char *payload);
/* What comes next within `ms`: "ID PAYLOAD" of a reply's first answer, "ID CODE n" if that is an error, "nothing", "end",
 * "reset", or "half" if the connection ended amid a message. Static. */
const char *fake_hear(int fd, int ms);

#endif
