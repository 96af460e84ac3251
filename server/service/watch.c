/*
 * watch.c - LeaseService.Watch; see watch_stream.h. From its opening to its end, a stream is in svc->watches.list.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"
#include "service/call.h"
#include "service/check.h"
#include "service/watch_stream.h"

enum { MAX_WATCHES = 4000, TICK_MS = 2000 };

static struct svc_watch *watch_at(struct list_node *node)
{
    return list_entry(node, struct svc_watch, node);
}

/* ---- ends ---- */

static void fail(struct svc_watch *w, enum hp_reason reason, const char *why)
{
    struct hp_status status;
    hp_status_set(&status, reason, "%s", why);
    svc_stream_end(&w->stream, &status);
}

static void too_slow(struct svc_watch *w)
{
    w->stream.sc->svc->watches.too_slow++;
    fail(w, HP_R_QUEUE_FULL, "more changes wait than can be kept; read faster, and go on with the last resume_token");
}

static void missed(struct svc_watch *w, const char *why)
{
    w->stream.sc->svc->watches.missed++;
    fail(w, HP_R_CHANGES_MISSED, why);
}

static void on_leave(struct svc_stream *stream)
{
    struct svc_watch *w = (struct svc_watch *)stream;
    struct svc *svc = stream->sc->svc;
    struct svc_watches *watches = &svc->watches;
    list_remove(&watches->list, &w->node);
    if (!svc->closed)
        st_trail_cancel(svc->store, &w->trail);
    svc_watch_queue_release(&w->past);
    svc_watch_queue_release(&w->live);
    free(w->open);
    w->open = NULL;
    if (!list_empty(&watches->list))
        return;
    if (!svc->closed)
        st_unfollow(svc->store);
    svc->io->timer_cancel(svc->io, &watches->timer);
    watches->begun = false;
    free(watches->expiries);
    watches->expiries = NULL;
}

/* ---- what was ---- */

static void go_on(struct svc_watch *w);

static void read_page(struct svc_watch *w)
{
    int64_t end = w->until - w->after > ST_TRAIL_STRETCH ? w->after + ST_TRAIL_STRETCH : w->until;
    w->state = SVC_WATCH_READS;
    w->trail.after = w->after;
    w->trail.until = end;
    st_trail_read(w->stream.sc->svc->store, &w->trail);
}

static void on_page(struct st_trail *trail, const struct st_lease_event *events, size_t n)
{
    struct svc_watch *w = trail->owner;
    struct svc *svc = w->stream.sc->svc;
    bool ok = true;
    if (trail->outcome == ST_NO_SUCH_NAMESPACE) {
        struct hp_status status;
        hp_status_set(&status, HP_R_NO_SUCH_NAMESPACE, "no namespace \"%s\"", w->ns);
        hp_status_meta(&status, "namespace", "%s", w->ns);
        svc_stream_end(&w->stream, &status);
        return;
    }
    if (trail->outcome != ST_FOUND) {
        fail(w, HP_R_INTERNAL, "the trail cannot be read; the server's log tells more");
        return;
    }
    if (!w->marked)
        ok = svc_watch_push_mark(&w->past, w->resumes ? w->after : w->settled);
    w->marked = true;
    for (size_t i = 0; ok && i < n; i++) {
        bool expires = svc_watch_note(&svc->watches, &events[i]);
        if (!svc_watch_wants(w, w->ns_hash, &events[i]))
            continue;
        struct svc_watch_event *event = svc_watch_event_new(&events[i], w->settled, expires);
        ok = event && svc_watch_push(&w->past, event);
        svc_watch_event_drop(event);
    }
    w->after = trail->covered;
    w->state = SVC_WATCH_TAKES;
    if (ok)
        go_on(w);
    else
        fail(w, HP_R_QUEUE_FULL, "no memory");
}

/* It reads from the trail what is behind `after`, up to where the follower is; from here on the follower's events come to it. It
 * may be gone then. */
static void catch_up(struct svc_watch *w, const struct st_follow_mark *mark)
{
    struct svc *svc = w->stream.sc->svc;
    free(w->open);
    w->open = st_follow_open(svc->store);
    if (!w->open) {
        fail(w, HP_R_QUEUE_FULL, "no memory");
        return;
    }
    w->until = mark->high;
    w->settled = mark->settled;
    w->behind = false;
    w->batch = svc->watches.batch; /* what is being told is in the trail already */
    w->trail = (struct st_trail){.ns = w->ns, .prefix = w->prefix, .except = w->open, .done = on_page, .owner = w};
    read_page(w);
}

static void open_watch(struct svc_watch *w)
{
    struct st_follow_mark mark;
    st_follow_mark(w->stream.sc->svc->store, &mark);
    if (w->resumes && (w->epoch != mark.epoch || w->after > mark.high)) {
        missed(w, "resume_token is of another database, or of a past of this one; list again, and watch without it");
        return;
    }
    if (w->resumes && mark.high - w->after > SVC_WATCH_BEHIND) {
        missed(w, "resume_token is too old; list again, and watch without it");
        return;
    }
    w->epoch = mark.epoch;
    if (!w->resumes)
        w->after = mark.high; /* which also tells whether there is such a namespace */
    catch_up(w, &mark);
}

static void catch_up_again(struct svc_watch *w)
{
    struct st_follow_mark mark;
    st_follow_mark(w->stream.sc->svc->store, &mark);
    if (mark.high - w->after > SVC_WATCH_BEHIND)
        too_slow(w);
    else
        catch_up(w, &mark);
}

/* There is no room in `live`. */
static void fall_behind(struct svc_watch *w)
{
    bool live = w->state == SVC_WATCH_LIVE;
    if (live ? !svc_watch_position(&w->live, &w->after) : w->settled != w->until) {
        too_slow(w);
        return;
    }
    svc_watch_queue_release(&w->live);
    if (live)
        catch_up_again(w);
    else
        w->behind = true; /* it will go on behind `until` */
}

/* It is told as much as its caller takes. It may be gone then. */
static void go_on(struct svc_watch *w)
{
    if (w->state != SVC_WATCH_TAKES && w->state != SVC_WATCH_LIVE)
        return;
    if (!svc_watch_send(w, &w->past))
        return;
    if (w->state == SVC_WATCH_TAKES && w->after < w->until) {
        read_page(w);
        return;
    }
    if (w->behind) {
        catch_up_again(w);
        return;
    }
    w->state = SVC_WATCH_LIVE;
    free(w->open);
    w->open = NULL;
    svc_watch_send(w, &w->live);
}

static void on_writable(struct hp_call *call)
{
    struct svc_call *sc = call->service;
    go_on(sc->state);
}

/* ---- what is ---- */

static struct svc *svc_of(struct st_follow *follow)
{
    return list_entry(follow, struct svc, watches.follow);
}

static void on_begun(struct st_follow *follow)
{
    struct svc *svc = svc_of(follow);
    svc->watches.begun = true;
    for (struct list_node *node = list_first(&svc->watches.list), *next; node; node = next) {
        next = list_next(&svc->watches.list, node);
        open_watch(watch_at(node));
    }
}

static void on_lost(struct st_follow *follow, const char *why)
{
    struct svc *svc = svc_of(follow);
    struct list_node *node;
    svc->watches.begun = false;
    while ((node = list_first(&svc->watches.list)))
        missed(watch_at(node), why);
}

/* The event waits for all who want it. */
static void spread(struct svc *svc, const struct st_lease_event *of, int64_t settled)
{
    uint64_t hash = hb_hash_str(HB_HASH_SEED, of->ns);
    bool expires = svc_watch_note(&svc->watches, of);
    struct svc_watch_event *event = NULL;
    for (struct list_node *node = list_first(&svc->watches.list), *next; node; node = next) {
        struct svc_watch *w = watch_at(node);
        next = list_next(&svc->watches.list, node);
        if (w->state == SVC_WATCH_WAITS || w->batch == svc->watches.batch || !svc_watch_wants(w, hash, of))
            continue;
        if (w->behind) {
            if (of->id - w->until > SVC_WATCH_BEHIND)
                too_slow(w);
            continue;
        }
        if (!event)
            event = svc_watch_event_new(of, settled, expires);
        if (!event || !svc_watch_push(&w->live, event))
            fall_behind(w);
    }
    svc_watch_event_drop(event);
}

/* Nobody else leaves while one is sent something (proto/c/call.h): a caller that goes is told so later. */
static void on_told(struct st_follow *follow, const struct st_lease_event *events, size_t n)
{
    struct svc *svc = svc_of(follow);
    struct st_follow_mark mark;
    st_follow_mark(svc->store, &mark);
    svc->watches.batch++;
    for (size_t i = 0; i < n; i++)
        spread(svc, &events[i], mark.settled);
    for (struct list_node *node = list_first(&svc->watches.list), *next; n && node; node = next) {
        next = list_next(&svc->watches.list, node);
        go_on(watch_at(node));
    }
}

/* ---- time ---- */

/* Its last token ages while others' changes go on. */
static void remind(struct svc_watch *w, int64_t now)
{
    struct st_follow_mark mark;
    st_follow_mark(w->stream.sc->svc->store, &mark);
    if (w->state != SVC_WATCH_LIVE || w->live.n || now - w->told_ms < SVC_WATCH_QUIET_MS)
        return;
    if (svc_watch_push_mark(&w->live, mark.settled))
        svc_watch_send(w, &w->live);
}

static void on_timer(struct io_timer *timer)
{
    struct svc *svc = list_entry(timer, struct svc, watches.timer);
    int64_t now = svc->io->now_ms(svc->io);
    svc->io->timer_set(svc->io, timer, now + TICK_MS);
    for (struct list_node *node = list_first(&svc->watches.list), *next; node; node = next) {
        struct svc_watch *w = watch_at(node);
        next = list_next(&svc->watches.list, node);
        if (w->state == SVC_WATCH_WAITS && now - w->opened_ms >= SVC_WATCH_OPEN_MS)
            fail(w, HP_R_DATABASE_DOWN, "the audit trail cannot be followed at present");
        else
            remind(w, now);
    }
}

/* ---- opening ---- */

static bool checked(const Holdfast__V1__WatchLeasesRequest *req, struct svc_watch *w, struct hp_status *status)
{
    if (!hp_check_name("namespace", req->namespace_, status) || !svc_check_optional("prefix", req->prefix, status))
        return false;
    w->resumes = req->resume_token[0];
    if (!w->resumes || svc_watch_token_parse(req->resume_token, &w->epoch, &w->after))
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, "resume_token", req->resume_token, strlen(req->resume_token),
                        "a resume_token of this method");
    return false;
}

static void first_watch(struct svc *svc)
{
    struct svc_watches *watches = &svc->watches;
    watches->expiries = calloc(SVC_WATCH_EXPIRIES, sizeof(*watches->expiries));
    svc->io->timer_set(svc->io, &watches->timer, svc->io->now_ms(svc->io) + TICK_MS);
    st_follow(svc->store, &watches->follow);
}

void svc_watch(struct svc_call *sc)
{
    const Holdfast__V1__WatchLeasesRequest *req = sc->request;
    struct svc *svc = sc->svc;
    struct hp_status status;
    struct svc_watch *w = hp_alloc(sc->arena, sizeof(*w));
    if (!w) {
        svc_no_memory(sc);
        return;
    }
    if (!checked(req, w, &status)) {
        svc_fail(sc, &status);
        return;
    }
    size_t most = svc->cfg.max_watches ? svc->cfg.max_watches : MAX_WATCHES;
    if (svc->watches.list.count >= most) {
        hp_status_set(&status, HP_R_QUEUE_FULL, "%zu streams watch already, as many as may", most);
        status.retry_ms = TICK_MS;
        svc_fail(sc, &status);
        return;
    }
    w->stream.leave = on_leave;
    w->ns = req->namespace_;
    w->ns_hash = hb_hash_str(HB_HASH_SEED, w->ns);
    w->prefix = req->prefix;
    w->prefix_len = strlen(req->prefix);
    w->opened_ms = w->told_ms = svc->io->now_ms(svc->io);
    if (!svc_stream_begin(sc, &w->stream))
        return;
    sc->call->writable = on_writable;
    list_push_back(&svc->watches.list, &w->node);
    if (svc->watches.list.count == 1)
        first_watch(svc);
    else if (svc->watches.begun)
        open_watch(w);
}

void svc_watches_init(struct svc *svc)
{
    list_init(&svc->watches.list);
    svc->watches.timer.fire = on_timer;
    svc->watches.follow = (struct st_follow){.begun = on_begun, .told = on_told, .lost = on_lost};
}
