/*
 * watch_tell.c - see watch_stream.h: events, the queues of those who watch, and the messages that come of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "holdfast/v1/lease.pb-c.h"
#include "service/operation.h"
#include "service/scope.h"
#include "service/watch_stream.h"

#define KIND(name)  HOLDFAST__V1__WATCH_LEASES_RESPONSE__KIND__##name
#define STATE(name) HOLDFAST__V1__LEASE__STATE__##name

/* ---- events ---- */

bool svc_watch_note(struct svc_watches *watches, const struct st_lease_event *of)
{
    bool takeover = of->kind == ST_EVENT_TAKEOVER;
    if (!takeover && of->kind != ST_EVENT_EXPIRE)
        return false;
    if (!watches->expiries)
        return takeover;
    uint64_t hash = hb_hash_str(hb_hash_str(HB_HASH_SEED, of->ns), of->resource);
    hash = hb_hash_mix(hash ^ (uint64_t)(takeover ? of->prior : of->token) * UINT64_C(0x9e3779b97f4a7c15));
    struct svc_watch_expiry *at = &watches->expiries[hash % SVC_WATCH_EXPIRIES];
    if (at->hash == hash && at->id && at->id < of->id)
        return false;
    *at = (struct svc_watch_expiry){hash, of->id};
    return takeover;
}

static char *put(char **at, const char *text)
{
    char *here = *at;
    size_t size = strlen(text) + 1;
    memcpy(here, text, size);
    *at += size;
    return here;
}

struct svc_watch_event *svc_watch_event_new(const struct st_lease_event *of, int64_t settled, bool expires)
{
    size_t size = strlen(of->ns) + strlen(of->resource) + strlen(of->actor) + strlen(of->detail) + 4;
    struct svc_watch_event *event = malloc(sizeof(*event) + size);
    if (!event)
        return NULL;
    char *at = (char *)(event + 1);
    *event = (struct svc_watch_event){.refs = 1, .of = *of, .settled = settled < of->id ? settled : of->id, .expires = expires};
    event->of.ns = put(&at, of->ns);
    event->of.resource = put(&at, of->resource);
    event->of.actor = put(&at, of->actor);
    event->of.detail = put(&at, of->detail);
    return event;
}

void svc_watch_event_drop(struct svc_watch_event *event)
{
    if (event && --event->refs == 0)
        free(event);
}

bool svc_watch_wants(const struct svc_watch *w, uint64_t ns_hash, const struct st_lease_event *of)
{
    return w->ns_hash == ns_hash && !strncmp(of->resource, w->prefix, w->prefix_len) && !strcmp(of->ns, w->ns) &&
           svc_sees_resource(w->stream.sc, of->ns, of->resource);
}

/* ---- queues ---- */

static bool push(struct svc_watch_queue *queue, const struct svc_watch_entry *entry)
{
    if (queue->n == SVC_WATCH_QUEUE)
        return false;
    if (queue->n == queue->cap) {
        size_t cap = queue->cap ? queue->cap * 2 : 16;
        struct svc_watch_entry *ring = malloc(cap * sizeof(*ring));
        if (!ring)
            return false;
        for (size_t i = 0; i < queue->n; i++)
            ring[i] = queue->ring[(queue->head + i) & (queue->cap - 1)];
        free(queue->ring);
        queue->ring = ring;
        queue->head = 0;
        queue->cap = cap;
    }
    queue->ring[(queue->head + queue->n++) & (queue->cap - 1)] = *entry;
    if (entry->event)
        entry->event->refs++;
    return true;
}

bool svc_watch_push(struct svc_watch_queue *queue, struct svc_watch_event *event)
{
    return (!event->expires || push(queue, &(struct svc_watch_entry){.event = event, .first_half = true})) &&
           push(queue, &(struct svc_watch_entry){.event = event});
}

bool svc_watch_push_mark(struct svc_watch_queue *queue, int64_t settled)
{
    return push(queue, &(struct svc_watch_entry){.settled = settled});
}

static void pop(struct svc_watch_queue *queue)
{
    svc_watch_event_drop(queue->ring[queue->head].event);
    queue->head = (queue->head + 1) & (queue->cap - 1);
    if (--queue->n == 0) { /* most queues are empty most of the time */
        free(queue->ring);
        *queue = (struct svc_watch_queue){0};
    }
}

bool svc_watch_position(const struct svc_watch_queue *queue, int64_t *after)
{
    const struct svc_watch_entry *first = queue->n ? &queue->ring[queue->head] : NULL;
    /* Nothing below it may be open, and it must not be the second half of what was told by half. */
    if (!first || !first->event || first->event->settled != first->event->of.id || (first->event->expires && !first->first_half))
        return false;
    *after = first->event->of.id - 1;
    return true;
}

void svc_watch_queue_release(struct svc_watch_queue *queue)
{
    while (queue->n)
        pop(queue);
}

/* ---- messages ---- */

void svc_watch_token(uint64_t epoch, int64_t settled, char out[SVC_WATCH_TOKEN])
{
    snprintf(out, SVC_WATCH_TOKEN, "%016" PRIx64 "-%" PRIx64, epoch, (uint64_t)settled);
}

bool svc_watch_token_parse(const char *token, uint64_t *epoch, int64_t *settled)
{
    char again[SVC_WATCH_TOKEN];
    uint64_t e, s;
    if (strlen(token) >= sizeof(again) || sscanf(token, "%16" SCNx64 "-%16" SCNx64, &e, &s) != 2 || s > INT64_MAX)
        return false;
    svc_watch_token(e, (int64_t)s, again);
    *epoch = e;
    *settled = (int64_t)s;
    return !strcmp(again, token);
}

/* What the trail knows of the lease. Strings are borrowed. */
static void lease_of(const struct st_lease_event *of, bool first_half, Holdfast__V1__Lease *out)
{
    bool takeover = of->kind == ST_EVENT_TAKEOVER, grant = of->kind == ST_EVENT_GRANT || (takeover && !first_half);
    holdfast__v1__lease__init(out);
    out->resource = svc_unconst(of->resource);
    out->token = first_half ? of->prior : of->token;
    out->fence = of->kind == ST_EVENT_BREAK && of->prior > of->token ? of->prior : out->token;
    out->state = grant                          ? STATE(LIVE)
                 : of->kind == ST_EVENT_RELEASE ? STATE(RELEASED)
                 : of->kind == ST_EVENT_BREAK   ? STATE(BROKEN)
                                                : STATE(EXPIRED);
    if (grant)
        out->granted_unix_ms = of->at_unix_ms;
    if (of->kind != ST_EVENT_BREAK && !first_half)
        out->holder = svc_unconst(of->actor);
    if (grant || of->kind == ST_EVENT_EXPIRE)
        out->task = svc_unconst(of->detail);
}

static void message_of(const struct svc_watch_entry *entry, Holdfast__V1__WatchLeasesResponse *out, Holdfast__V1__Lease *lease)
{
    static const Holdfast__V1__WatchLeasesResponse__Kind kinds[] = {[ST_EVENT_GRANT] = KIND(GRANTED),
                                                                    [ST_EVENT_TAKEOVER] = KIND(GRANTED),
                                                                    [ST_EVENT_RELEASE] = KIND(RELEASED),
                                                                    [ST_EVENT_EXPIRE] = KIND(EXPIRED),
                                                                    [ST_EVENT_BREAK] = KIND(BROKEN)};
    holdfast__v1__watch_leases_response__init(out);
    out->kind = KIND(WATCHING);
    if (!entry->event)
        return;
    const struct st_lease_event *of = &entry->event->of;
    out->kind = entry->first_half ? KIND(EXPIRED) : kinds[of->kind];
    out->id = of->id;
    out->at_unix_ms = of->at_unix_ms;
    out->lease = lease;
    lease_of(of, entry->first_half, lease);
    if (of->kind != ST_EVENT_BREAK)
        return;
    out->actor = svc_unconst(of->actor);
    out->reason = svc_unconst(of->detail);
}

/* Behind the first half of a takeover comes the second. */
static int64_t settled_by(const struct svc_watch_entry *entry)
{
    if (!entry->event)
        return entry->settled;
    return entry->first_half && entry->event->settled == entry->event->of.id ? entry->event->settled - 1 : entry->event->settled;
}

bool svc_watch_send(struct svc_watch *w, struct svc_watch_queue *queue)
{
    struct svc_call *sc = w->stream.sc;
    char token[SVC_WATCH_TOKEN];
    while (queue->n) {
        const struct svc_watch_entry *entry = &queue->ring[queue->head];
        Holdfast__V1__WatchLeasesResponse message;
        Holdfast__V1__Lease lease;
        /* It may have waited longer than the right to see it has lasted. */
        if (entry->event && !svc_sees_resource(sc, entry->event->of.ns, entry->event->of.resource)) {
            pop(queue);
            continue;
        }
        message_of(entry, &message, &lease);
        svc_watch_token(w->epoch, settled_by(entry), token);
        message.resume_token = token;
        if (!sc->call->send(sc->call, &message.base))
            return false;
        sc->svc->watches.told++;
        w->told_ms = sc->svc->io->now_ms(sc->svc->io);
        pop(queue);
    }
    return true;
}
