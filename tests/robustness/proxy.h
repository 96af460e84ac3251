/*
 * proxy.h - a network between a client and a server that misbehaves on order.
 *
 * The proxy listens on a free port of 127.0.0.1 and forwards to one server, in a thread of its own. It works on messages, not
 * bytes: it speaks the framing of SP over TCP (nanomsg's RFC sp-tcp-mapping-01: a greeting of 8 bytes each way, then messages
 * behind a 64-bit length) and passes on what it reads unless a rule says otherwise. A request is known by the methods in its
 * envelope; a reply by the request whose id it carries. An envelope may pack several calls: a rule for a method means every
 * envelope with a call of it, and what is done is done to the whole envelope.
 *
 * Rules are looked at in the order they were added. The first one that acts decides; PX_PASS rules only count. Whether a rule
 * with a chance acts on its n-th message depends on the seed, the rule's number and n alone, so that a run can be repeated.
 *
 * Time is CLOCK_BOOTTIME in milliseconds, as in the client library. All functions may be called from any thread, and abort the
 * program when memory or descriptors run out: this is a tool for tests.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_PROXY_H
#define HOLDFAST_TESTS_ROBUSTNESS_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/c/err.h"

struct px;

enum px_direction { PX_BOTH, PX_REQUEST, PX_REPLY };

enum px_action {
    PX_PASS,        /* it is only counted, and the next rules are looked at */
    PX_DROP,        /* it is gone */
    PX_DELAY,       /* it goes on `ms` later; others overtake it */
    PX_HOLD,        /* it is kept until px_release; others overtake it */
    PX_DOUBLE,      /* it goes on twice; with `ms` the copy that much later */
    PX_DOUBLE_LATE, /* it goes on, and a copy is kept until px_release */
    PX_REORDER,     /* it goes on behind the next message of its direction and connection (or at px_release) */
    PX_CUT_BEFORE,  /* its connection is cut, and it is gone: the sender sees a reset */
    PX_CUT_IN,      /* half of it goes on, then the connection is cut */
    PX_CUT_AFTER,   /* it goes on, then the connection is cut */
    PX_DARK,        /* from this message on, px_dark */
    PX_STATUS       /* a reply is replaced by `status` for each call; a request is answered so without asking the server.
                     * HP_OK is a reply with an empty payload */
};

/* Zero means default. */
struct px_rule {
    enum px_direction direction;
    const char *method;   /* how the method's path ends: "Write", "LeaseService/List"; NULL = any, undecodable ones too */
    const char *contains; /* these bytes must be in the message, such as a resource's name (in requests); NULL = any */
    unsigned first;       /* acts from the first-th message that fits; 0 = 1 */
    unsigned count;       /* on so many; 0 = all */
    double chance;        /* on each of those with this probability; 0 = always */
    enum px_action action;
    int ms;
    struct hp_status status;
};

/* It listens and forwards to `server_url`, tcp://IPv4:PORT; the server need not be there yet. */
struct px *px_start(const char *server_url, uint64_t seed);
/* Its connections are closed and its thread has ended. NULL is allowed. */
void px_stop(struct px *px);
/* tcp://127.0.0.1:PORT, constant. */
const char *px_url(const struct px *px);
/* From now on a line for each message goes to `file` (NULL = none), for people. */
void px_trace(struct px *px, FILE *file);

/* The rule's number; it is in force. The strings are copied. */
int px_add(struct px *px, const struct px_rule *rule);
/* It acts no more; its counts stay, and what it keeps goes on its way. */
void px_remove(struct px *px, int rule);
/* What this rule has kept (held, delayed, reordered) goes on its way now; how many messages. */
size_t px_release(struct px *px, int rule);
/* No rules, nothing kept, light, open: as at the start. */
void px_heal(struct px *px);

/* While dark, nothing passes in either direction and nobody is told: messages are swallowed (and not shown to the rules), new
 * connections wait. Afterwards connections go on, unless an end has gone meanwhile or lost its greeting: those are cut. */
void px_dark(struct px *px, bool dark);
/* All connections are reset. A request that is kept still reaches the server, as one that was long under way. */
void px_cut(struct px *px);
/* While refusing, every connection is reset, the new ones at once. */
void px_refuse(struct px *px, bool refuse);

struct px_count {
    unsigned seen;   /* messages that fitted the rule and reached it */
    unsigned done;   /* on which it acted */
    unsigned kept;   /* of these, kept now */
    int64_t last_ms; /* when it acted last; 0 = never */
};
struct px_count px_count(struct px *px, int rule);

struct px_totals {
    unsigned connections; /* taken */
    unsigned requests;    /* read from clients */
    unsigned replies;     /* read from servers */
    unsigned swallowed;   /* while dark */
};
struct px_totals px_totals(struct px *px);

/* True as soon as the rule has acted on `done` messages; false if it hasn't within `ms`. */
bool px_wait(struct px *px, int rule, unsigned done, int ms);
/* True as soon as the server has answered every request it was given and all that goes on has been handed to the system; false if
 * not within `ms`. What is kept doesn't count. */
bool px_wait_quiet(struct px *px, int ms);

#endif
