/*
 * watch_stream.h - LeaseService.Watch: one who watches, and what he is still to be told. For watch.c (streams) and watch_tell.c
 * (events and messages).
 *
 * While there is a stream the store's follower follows the audit trail, once for all of them. An event that some stream wants is
 * kept once, and each stream has a queue of references to what it has not taken yet.
 *
 *     opens ──▶ waits for the follower ──▶ reads what was ──▶ is told what is ──▶ ends: gone, drain, too slow, missed, expelled
 *                                           │   ▲ page by page,   ▲      │
 *                                           └───┘ as it takes them└──────┘ falls behind
 *
 * What is new while it reads waits in `live`. Whoever takes it more slowly than it comes falls behind: its queue is given up, and
 * it reads that from the trail, at its own pace. It is ended as too slow only if it is SVC_WATCH_BEHIND behind, or if what it would
 * have to read cannot be told exactly, because entries of the trail were open meanwhile.
 */
#ifndef HOLDFAST_SERVICE_WATCH_STREAM_H
#define HOLDFAST_SERVICE_WATCH_STREAM_H

#include "service/stream.h"
#include "service/watch.h"

enum {
    SVC_WATCH_QUEUE = 4096,      /* messages that wait for one caller */
    SVC_WATCH_BEHIND = 200000,   /* ids: what lies further back than that is not told again */
    SVC_WATCH_OPEN_MS = 10000,   /* until the follower has begun */
    SVC_WATCH_QUIET_MS = 60000,  /* without a message: another WATCHING */
    SVC_WATCH_EXPIRIES = 1 << 16 /* expiries that were told are kept in mind, so that a takeover doesn't tell them again */
};

/* Something to tell, kept once for all streams that are to be told. Its strings follow it. */
struct svc_watch_event {
    size_t refs;
    struct st_lease_event of;
    int64_t settled; /* all ids up to this were told before it */
    bool expires;    /* a takeover of what nobody was told has expired */
};

/* A message that waits: an event, the first half of a takeover (EXPIRED), or, without one, WATCHING. */
struct svc_watch_entry {
    struct svc_watch_event *event;
    bool first_half;
    int64_t settled; /* of WATCHING */
};

struct svc_watch_queue {
    struct svc_watch_entry *ring;
    size_t head, n, cap; /* cap is a power of two, or 0 */
};

struct svc_watch {
    struct svc_stream stream; /* first */
    struct list_node node;
    const char *ns, *prefix;
    size_t prefix_len;
    uint64_t ns_hash;
    int64_t opened_ms, told_ms;

    enum { SVC_WATCH_WAITS, SVC_WATCH_READS, SVC_WATCH_TAKES, SVC_WATCH_LIVE } state; /* TAKES: what a page brought */
    bool marked;                                                                      /* its first message is on its way */
    bool resumes;                                                                     /* with a token, which says: */
    uint64_t epoch;
    int64_t after;                     /* up to here all was told, or is in `past` */
    int64_t until, settled;            /* what it catches up to; and what was settled then */
    bool behind;                       /* it has to catch up with more than that: `live` was given up */
    uint64_t batch;                    /* what was being told when it began to catch up is read, and not told too */
    char *open;                        /* ids up to `until` that come later */
    struct st_trail trail;             /* the page that is read */
    struct svc_watch_queue past, live; /* `past` goes first */
};

/* ---- watch_tell.c ---- */

/* If it is an expiry, that is kept in mind. True: a takeover of a lease whose expiry was not told by another entry of the trail, as
 * far as is known. */
bool svc_watch_note(struct svc_watches *watches, const struct st_lease_event *of);
/* The event is made, with one reference, which is the caller's. NULL: no memory. */
struct svc_watch_event *svc_watch_event_new(const struct st_lease_event *of, int64_t settled, bool expires);
void svc_watch_event_drop(struct svc_watch_event *event);
/* It concerns what is watched, and its caller may see it. */
bool svc_watch_wants(const struct svc_watch *w, uint64_t ns_hash, const struct st_lease_event *of);
/* The event waits in the queue, as one message or two. False: no memory, or too many. */
bool svc_watch_push(struct svc_watch_queue *queue, struct svc_watch_event *event) __attribute__((warn_unused_result));
/* So does WATCHING. */
bool svc_watch_push_mark(struct svc_watch_queue *queue, int64_t settled) __attribute__((warn_unused_result));
/* All up to `after` was sent before the queue, and all behind it is in the queue or later. False: that cannot be said so. */
bool svc_watch_position(const struct svc_watch_queue *queue, int64_t *after) __attribute__((warn_unused_result));
void svc_watch_queue_release(struct svc_watch_queue *queue);
/* What waits in the queue is sent, as far as the transport takes it. True: all of it. */
bool svc_watch_send(struct svc_watch *w, struct svc_watch_queue *queue);

/* "epoch-id" in hexadecimal. */
enum { SVC_WATCH_TOKEN = 40 };
void svc_watch_token(uint64_t epoch, int64_t settled, char out[SVC_WATCH_TOKEN]);
bool svc_watch_token_parse(const char *token, uint64_t *epoch, int64_t *settled) __attribute__((warn_unused_result));

#endif
