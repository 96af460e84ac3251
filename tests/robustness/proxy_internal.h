/*
 * proxy_internal.h - between proxy.c (rules, and what tests ask for) and proxy_link.c (connections and framing).
 *
 * px->mutex guards everything; the proxy's thread lets go of it only while it polls.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_PROXY_INTERNAL_H
#define HOLDFAST_TESTS_ROBUSTNESS_PROXY_INTERNAL_H

#include <netinet/in.h>
#include <pthread.h>

#include "robustness/proxy.h"

enum { PX_ASKED = 512, PX_FRAME_HEAD = 8, PX_ID = 4 };
#define PX_NEVER INT64_MAX

/* One message with its frame, or part of one. */
struct px_message {
    struct px_message *next;
    bool to_server;
    int rule; /* that keeps it */
    int64_t due_ms;
    bool after_next;
    size_t len;
    uint8_t bytes[];
};

/* One end of a connection. */
struct px_side {
    int fd;       /* -1: gone */
    bool greeted; /* its greeting was read */
    bool ending;  /* nothing more is queued for it; what it says is not heard */
    bool shut;    /* so it has been told */
    uint8_t *in;  /* read, not yet a whole message */
    size_t in_len, in_size;
    struct px_message *out, **out_end;
    size_t out_done; /* bytes of the first one that are written */
};

/* A request that was seen, so that its reply is known. */
struct px_asked {
    uint32_t id;
    unsigned calls;
    char *methods; /* the paths, separated by spaces */
};

struct px_link {
    struct px_link *next;
    unsigned number;
    struct px_side client, server;
    struct px_message *kept; /* oldest first */
    struct px_asked asked[PX_ASKED];
    unsigned n_asked;    /* ever */
    unsigned unanswered; /* requests given to the server */
    bool served;         /* the server has replied to something */
    bool orphan;         /* the client has gone; requests that were kept keep the server's side open until they are answered */
    bool spoiled;        /* cannot go on after the dark */
};

struct px_rule_state {
    struct px_rule rule;
    bool active;
    unsigned seen, done;
    int64_t last_ms;
};

struct px {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t news;
    int listener, wake;
    bool stop, dark, refuse;
    uint64_t seed;
    struct sockaddr_in server;
    char url[64];
    FILE *trace;
    int64_t start_ms;
    struct px_rule_state *rules;
    int n_rules;
    struct px_link *links;
    struct px_totals totals;
};

int64_t px_now_ms(void);
/* Memory, or the end of the program. */
void *px_alloc(size_t size);

/* proxy.c: what the rules say about a message that was just read; takes it. `asked` may be NULL (a reply to nothing we know). */
void px_judge(struct px *px, struct px_link *link, struct px_message *message, const struct px_asked *asked);

/* proxy_link.c; the lock is held. */
void *px_main(void *px);
void px_wake(struct px *px);
/* It goes on to its receiver; gone if there is none. */
void px_forward(struct px_link *link, struct px_message *message);
/* What is kept and due by now goes on its way. */
void px_forward_due(struct px_link *link, int64_t now_ms);
void px_keep(struct px_link *link, struct px_message *message, int rule, int64_t due_ms, bool after_next);
/* The sender is reset; the receiver gets what is queued and then the end. */
void px_cut_behind(struct px_link *link, bool to_server);
/* Both ends are reset; but the server's gets an ordinary end if it may still be greeting: nng 1.5 may never accept again after a
 * reset at that moment (nng's issue 1518; listener_test.c shows it for itself). */
void px_cut_link(struct px_link *link);

#endif
