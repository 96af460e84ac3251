/*
 * http_attack.h - attacks on the HTTP port, in a table, and sieges: threads that play one of them over and over.
 *
 * A round of an attack is a connection, or some, and what is done to the server by it; it knows how the server must end it.
 * Elsewhere attackers would have a machine of their own. Here they run with the lowest priority (nice 19), and leave the cores to
 * the server and the honest; or after attack_from_afar they have a core of their own, and the server and the honest the others.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_HTTP_ATTACK_H
#define HOLDFAST_TESTS_ROBUSTNESS_HTTP_ATTACK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "robustness/http_raw.h"

/* Resources with values of this many bytes must be there for those who ask for large answers: one, and so many more, "large-0" and
 * so on. And one that is held. */
#define ATTACK_LARGE "large"
#define ATTACK_HELD  "held"
enum { ATTACK_LARGE_BYTES = 1 << 20, ATTACK_LARGE_MANY = 120 };

enum attack_end {
    ATTACK_LEFT,   /* the attacker goes by itself, unless it is closed before */
    ATTACK_GOAWAY, /* GOAWAY with this code */
    ATTACK_STATUS, /* an answer of this status, and HTTP/1.1's connection is closed */
    ATTACK_RST,    /* the stream is reset with this code; the connection may go on */
    ATTACK_CLOSED  /* the connection is closed */
};

enum round {
    ROUND_FAILED, /* there was no connection */
    ROUND_PLAYED,
    ROUND_CUT /* the siege was over before the server had to end it */
};

struct siege;

struct attack {
    const char *name;
    enum attack_end end;
    int code;
    /* Once; returns soon after siege_over. */
    enum round (*round)(struct siege *siege, struct raw_said *said);
};

extern const struct attack attacks_http1[], attacks_http2[]; /* ended by one without a name */
/* The one so named. */
const struct attack *attack_named(const char *name);

enum { SIEGE_THREADS = 2 };

struct siege {
    const struct attack *attack;
    int port;
    pthread_t threads[SIEGE_THREADS];
    atomic_bool over;
    atomic_long rounds;
    atomic_long right;  /* rounds that the server ended as it must; */
    atomic_long broken; /* by a reset, which may overtake what was said; or it was cut */
    pthread_mutex_t mutex;
    char wrong[400]; /* the first one that it ended otherwise; "" = none */
};

/* For a thread that has started nothing yet: it and all that it starts, but sieges, do without one of the cores, which is theirs.
 * Nothing happens on a machine of one core. */
void attack_from_afar(void);

void siege_start(struct siege *siege, const struct attack *attack, int port);
/* Each thread has played a round at least, and they are gone. */
void siege_stop(struct siege *siege);
bool siege_over(struct siege *siege);
/* For rounds that hold on to what they have: until the siege is over. */
void siege_hold(struct siege *siege);

#endif
