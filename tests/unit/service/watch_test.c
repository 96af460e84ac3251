/*
 * watch_test.c - LeaseService.Watch with the follower played: what is told and to whom, going on from a token, callers that don't
 * read, and every way to end.
 */
#include "unit/service/keyring.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"

#define WATCH "/holdfast.v1.LeaseService/Watch"

typedef Holdfast__V1__WatchLeasesResponse message_t;
#define KIND(name)  HOLDFAST__V1__WATCH_LEASES_RESPONSE__KIND__##name
#define STATE(name) HOLDFAST__V1__LEASE__STATE__##name

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static struct fake_call *watch(struct fake *f, const char *ns, const char *prefix, const char *token)
{
    Holdfast__V1__WatchLeasesRequest request = HOLDFAST__V1__WATCH_LEASES_REQUEST__INIT;
    request.namespace_ = str(ns);
    request.prefix = str(prefix);
    request.resume_token = str(token);
    return fake_call(f, WATCH, &request, 0);
}

static void begin(struct fake *f, int64_t high)
{
    f->mark = (struct st_follow_mark){.epoch = 0xabc, .high = high, .settled = high};
    f->follow->begun(f->follow);
}

/* One that is told what is. */
static struct fake_call *live(struct fake *f, const char *prefix)
{
    struct fake_call *call = watch(f, "default", prefix, "");
    if (f->n_follows == 1 && f->mark.epoch == 0)
        begin(f, 100);
    fake_page(f, ST_FOUND, NULL, 0);
    assert_int_equal(call->n_sent, 1);
    return call;
}

static struct st_lease_event event(int64_t id, enum st_lease_event_kind kind, const char *resource, int64_t token)
{
    return (struct st_lease_event){.id = id,
                                   .kind = kind,
                                   .ns = "default",
                                   .resource = resource,
                                   .token = token,
                                   .actor = "holder",
                                   .detail = "task",
                                   .at_unix_ms = 1000 * id};
}

static void tell(struct fake *f, const struct st_lease_event *events, size_t n)
{
    if (n && events[n - 1].id > f->mark.high)
        f->mark.high = events[n - 1].id;
    f->mark.settled = f->mark.high;
    f->follow->told(f->follow, events, n);
}

static void tell_one(struct fake *f, int64_t id, enum st_lease_event_kind kind, const char *resource, int64_t token)
{
    struct st_lease_event one = event(id, kind, resource, token);
    tell(f, &one, 1);
}

static const message_t *sent(const struct fake_call *call, size_t i)
{
    assert_int_equal(call->answers, 0);
    assert_true(i < call->n_sent);
    return (const message_t *)call->sent[i];
}

static void assert_told(const struct fake_call *call, size_t i, message_t *want, const char *token)
{
    const message_t *got = sent(call, i);
    assert_int_equal(got->kind, want->kind);
    assert_int_equal(got->id, want->id);
    assert_string_equal(got->resume_token, token);
    assert_int_equal(!got->lease, !want->lease);
}

#define T(id) "0000000000000abc-" id

static void assert_kind(const struct fake_call *call, size_t i, int kind, int64_t id, const char *token)
{
    Holdfast__V1__Lease lease = HOLDFAST__V1__LEASE__INIT;
    message_t want = HOLDFAST__V1__WATCH_LEASES_RESPONSE__INIT;
    want.kind = (Holdfast__V1__WatchLeasesResponse__Kind)kind;
    want.id = id;
    want.lease = kind == KIND(WATCHING) ? NULL : &lease;
    assert_told(call, i, &want, token);
}

static void assert_lease(const struct fake_call *call, size_t i, int64_t token, int64_t fence, int state, const char *holder,
                         const char *task)
{
    const Holdfast__V1__Lease *lease = sent(call, i)->lease;
    assert_int_equal(lease->token, token);
    assert_int_equal(lease->fence, fence);
    assert_int_equal(lease->state, state);
    assert_string_equal(lease->holder, holder);
    assert_string_equal(lease->task, task);
}

/* ---- what is told ---- */

static void a_watch_is_told_at_once_that_it_watches(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = watch(f, "default", "", "");
    assert_non_null(f->follow);
    assert_int_equal(call->n_sent, 0);
    begin(f, 255);
    assert_int_equal(f->trails.count, 1);
    fake_page(f, ST_FOUND, NULL, 0);
    assert_int_equal(call->n_sent, 1);
    assert_kind(call, 0, KIND(WATCHING), 0, T("ff"));
    struct fake_call *second = watch(f, "default", "", "");
    fake_page(f, ST_FOUND, NULL, 0);
    assert_kind(second, 0, KIND(WATCHING), 0, T("ff"));
    assert_int_equal(f->n_follows, 1);
    assert_int_equal(f->n_submitted, 0);
}

static void each_kind_says_what_the_trail_knows(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = live(f, "");
    struct st_lease_event events[] = {event(101, ST_EVENT_GRANT, "r", 1), event(102, ST_EVENT_RELEASE, "r", 1),
                                      event(103, ST_EVENT_TAKEOVER, "r", 3), event(104, ST_EVENT_EXPIRE, "r", 3),
                                      event(105, ST_EVENT_BREAK, "r", 4)};
    events[2].prior = 2;
    events[4].prior = 5;
    tell(f, events, 5);
    assert_int_equal(call->n_sent, 7);
    assert_kind(call, 1, KIND(GRANTED), 101, T("65"));
    assert_lease(call, 1, 1, 1, STATE(LIVE), "holder", "task");
    assert_int_equal(sent(call, 1)->lease->granted_unix_ms, 101000);
    assert_int_equal(sent(call, 1)->at_unix_ms, 101000);
    assert_kind(call, 2, KIND(RELEASED), 102, T("66"));
    assert_lease(call, 2, 1, 1, STATE(RELEASED), "holder", "");
    assert_kind(call, 3, KIND(EXPIRED), 103, T("66"));
    assert_lease(call, 3, 2, 2, STATE(EXPIRED), "", "");
    assert_kind(call, 4, KIND(GRANTED), 103, T("67"));
    assert_lease(call, 4, 3, 3, STATE(LIVE), "holder", "task");
    assert_kind(call, 5, KIND(EXPIRED), 104, T("68"));
    assert_lease(call, 5, 3, 3, STATE(EXPIRED), "holder", "task");
    assert_kind(call, 6, KIND(BROKEN), 105, T("69"));
    assert_lease(call, 6, 4, 5, STATE(BROKEN), "", "");
    assert_string_equal(sent(call, 6)->actor, "holder");
    assert_string_equal(sent(call, 6)->reason, "task");
    assert_string_equal(sent(call, 5)->actor, "");
}

static void an_expiry_is_told_once(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = live(f, "");
    struct st_lease_event takeover = event(103, ST_EVENT_TAKEOVER, "r", 3);
    takeover.prior = 2;
    tell_one(f, 101, ST_EVENT_EXPIRE, "r", 2);
    tell(f, &takeover, 1);
    assert_int_equal(call->n_sent, 3);
    assert_kind(call, 1, KIND(EXPIRED), 101, T("65"));
    assert_kind(call, 2, KIND(GRANTED), 103, T("67"));
    takeover = event(104, ST_EVENT_TAKEOVER, "other", 3);
    takeover.prior = 2;
    tell(f, &takeover, 1);
    assert_int_equal(call->n_sent, 5);
    /* Who goes on from before it is told both halves, although others were. */
    struct fake_call *again = watch(f, "default", "other", T("67"));
    fake_page(f, ST_FOUND, &takeover, 1);
    assert_int_equal(again->n_sent, 3);
    assert_kind(again, 1, KIND(EXPIRED), 104, T("67"));
    assert_kind(again, 2, KIND(GRANTED), 104, T("68"));
}

static void what_others_watch_is_not_told(void **state)
{
    struct fake *f = *state;
    struct fake_call *all = live(f, ""), *some = live(f, "a/");
    struct fake_call *elsewhere = watch(f, "other", "", "");
    fake_page(f, ST_FOUND, NULL, 0);
    tell_one(f, 101, ST_EVENT_GRANT, "a/1", 1);
    tell_one(f, 102, ST_EVENT_GRANT, "a", 1);
    tell_one(f, 103, ST_EVENT_GRANT, "b/1", 1);
    struct st_lease_event there = event(104, ST_EVENT_GRANT, "a/1", 1);
    there.ns = "other";
    tell(f, &there, 1);
    assert_int_equal(all->n_sent, 4);
    assert_int_equal(some->n_sent, 2);
    assert_kind(some, 1, KIND(GRANTED), 101, T("65"));
    assert_int_equal(elsewhere->n_sent, 2);
    assert_kind(elsewhere, 1, KIND(GRANTED), 104, T("68"));
}

static void a_token_stays_behind_what_is_open(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = live(f, "");
    struct st_lease_event later = event(110, ST_EVENT_GRANT, "r", 1), first = event(105, ST_EVENT_TAKEOVER, "s", 2);
    first.prior = 1;
    f->mark.high = 110;
    f->mark.settled = 104;
    f->follow->told(f->follow, &later, 1);
    assert_kind(call, 1, KIND(GRANTED), 110, T("68"));
    f->mark.settled = 110;
    f->follow->told(f->follow, &first, 1);
    assert_kind(call, 2, KIND(EXPIRED), 105, T("68"));
    assert_kind(call, 3, KIND(GRANTED), 105, T("69"));
}

static void a_quiet_watch_gets_a_fresh_token_now_and_then(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = live(f, "a/");
    for (int64_t id = 101; id <= 120; id++)
        tell_one(f, id, ST_EVENT_GRANT, "b", id);
    for (int i = 0; i < 28; i++)
        fake_advance(f, 2000);
    assert_int_equal(call->n_sent, 1);
    for (int i = 0; i < 3; i++)
        fake_advance(f, 2000);
    assert_int_equal(call->n_sent, 2);
    assert_kind(call, 1, KIND(WATCHING), 0, T("78"));
}

/* ---- going on ---- */

static void a_token_goes_on_where_it_was(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = watch(f, "default", "", T("a"));
    struct st_lease_event was[] = {event(11, ST_EVENT_GRANT, "r", 1), event(15, ST_EVENT_RELEASE, "r", 1)};
    begin(f, 20);
    f->open = "{[12,12]}";
    const struct st_trail *trail = list_entry(list_first(&f->trails), struct st_trail, node);
    assert_int_equal(trail->after, 10);
    assert_int_equal(trail->until, 20);
    assert_string_equal(trail->except, "{}");
    tell_one(f, 21, ST_EVENT_GRANT, "new", 1); /* while the page is read */
    assert_int_equal(call->n_sent, 0);
    fake_page(f, ST_FOUND, was, 2);
    assert_int_equal(call->n_sent, 4);
    assert_kind(call, 0, KIND(WATCHING), 0, T("a"));
    assert_kind(call, 1, KIND(GRANTED), 11, T("b"));
    assert_kind(call, 2, KIND(RELEASED), 15, T("f"));
    assert_kind(call, 3, KIND(GRANTED), 21, T("15"));
}

static void what_was_comes_page_by_page_as_it_is_read(void **state)
{
    struct fake *f = *state;
    static struct st_lease_event page[ST_TRAIL_ROWS];
    struct fake_call *call = watch(f, "default", "r", T("0"));
    for (int i = 0; i < ST_TRAIL_ROWS; i++)
        page[i] = event(i + 1, ST_EVENT_GRANT, i % 50 ? "other" : "r", i + 1);
    begin(f, 30000);
    call->full = true;
    fake_page(f, ST_FOUND, page, ST_TRAIL_ROWS);
    assert_int_equal(call->n_sent, 0);
    assert_true(list_empty(&f->trails)); /* nothing more is read before that is taken */
    call->full = false;
    call->call.writable(&call->call);
    assert_int_equal(call->n_sent, 11);
    const struct st_trail *trail = list_entry(list_first(&f->trails), struct st_trail, node);
    assert_int_equal(trail->after, 500);
    assert_int_equal(trail->until, 20500);
    fake_page(f, ST_FOUND, NULL, 0);
    trail = list_entry(list_first(&f->trails), struct st_trail, node);
    assert_int_equal(trail->after, 20500);
    assert_int_equal(trail->until, 30000);
    fake_page(f, ST_FOUND, NULL, 0);
    assert_true(list_empty(&f->trails));
    assert_int_equal(call->n_sent, 11);
}

static void tokens_that_lead_nowhere_are_refused(void **state)
{
    struct fake *f = *state;
    static const char *const malformed[] = {"x",
                                            "1",
                                            "abc-1",
                                            T(""),
                                            T("-1"),
                                            T("G"),
                                            T("00"),
                                            T("1 "),
                                            T("ffffffffffffffff"),
                                            "0000000000000abc-1111111111111111111111111"};
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++)
        fake_assert_error(watch(f, "default", "", malformed[i]), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    assert_null(f->follow);
    live(f, "");
    f->mark.high = 1000000;
    fake_assert_error(watch(f, "default", "", "0000000000000abd-1"), HP_OUT_OF_RANGE, HP_R_CHANGES_MISSED);
    fake_assert_error(watch(f, "default", "", T("f4241")), HP_OUT_OF_RANGE, HP_R_CHANGES_MISSED);
    fake_assert_error(watch(f, "default", "", T("c34ff")), HP_OUT_OF_RANGE, HP_R_CHANGES_MISSED);
    assert_int_equal(watch(f, "default", "", T("c3500"))->answers, 0);
}

/* ---- ends ---- */

/* One that is full of what it has not taken; `id` is the next one's. */
static struct fake_call *full(struct fake *f, int64_t *id)
{
    struct fake_call *slow = live(f, "");
    slow->full = true;
    for (int i = 0; i < 4096; i++)
        tell_one(f, (*id)++, ST_EVENT_GRANT, "r", 1);
    assert_int_equal(slow->answers, 0);
    assert_true(list_empty(&f->trails));
    return slow;
}

/* What it didn't take is read from the trail once it does, and what came meanwhile. */
static void a_caller_that_falls_behind_reads_the_trail(void **state)
{
    struct fake *f = *state;
    int64_t id = 101;
    struct fake_call *slow = full(f, &id);
    struct st_lease_event batch[3] = {event(id, ST_EVENT_GRANT, "r", 1), event(id + 1, ST_EVENT_GRANT, "r", 1),
                                      event(id + 2, ST_EVENT_GRANT, "r", 1)};
    tell(f, batch, 3);
    assert_int_equal(slow->answers, 0);
    const struct st_trail *trail = list_entry(list_first(&f->trails), struct st_trail, node);
    assert_int_equal(trail->after, 100);
    assert_int_equal(trail->until, id + 2); /* all of what was being told */
    tell_one(f, id + 3, ST_EVENT_GRANT, "live", 1);
    slow->full = false;
    struct st_lease_event page[2] = {event(101, ST_EVENT_GRANT, "first", 1), event(id + 2, ST_EVENT_GRANT, "last", 1)};
    fake_page(f, ST_FOUND, page, 2);
    assert_int_equal(slow->n_sent, 4);
    assert_string_equal(sent(slow, 1)->lease->resource, "first");
    assert_string_equal(sent(slow, 2)->lease->resource, "last");
    assert_string_equal(sent(slow, 3)->lease->resource, "live");
    tell_one(f, id + 4, ST_EVENT_GRANT, "more", 1);
    assert_int_equal(slow->n_sent, 5);
}

/* It falls behind again while it catches up. */
static void who_falls_behind_again_goes_on_again(void **state)
{
    struct fake *f = *state;
    int64_t id = 101;
    struct fake_call *slow = full(f, &id);
    tell_one(f, id++, ST_EVENT_GRANT, "r", 1);
    int64_t until = id - 1;
    for (int i = 0; i < 5000; i++)
        tell_one(f, id++, ST_EVENT_GRANT, "r", 1);
    assert_int_equal(f->trails.count, 1);
    slow->full = false;
    fake_page(f, ST_FOUND, NULL, 0);
    const struct st_trail *trail = list_entry(list_first(&f->trails), struct st_trail, node);
    assert_int_equal(trail->after, until);
    assert_int_equal(trail->until, id - 1);
    assert_int_equal(slow->n_sent, 1);
    fake_page(f, ST_FOUND, NULL, 0);
    tell_one(f, id, ST_EVENT_GRANT, "now", 1);
    assert_int_equal(slow->n_sent, 2);
}

static void a_caller_that_does_not_read_is_let_go(void **state)
{
    struct fake *f = *state;
    int64_t id = 101;
    struct fake_call *slow = full(f, &id), *other = live(f, "x");
    for (int i = 0; i < 4200; i++)
        tell_one(f, id++, ST_EVENT_GRANT, "r", 1);
    assert_int_equal(slow->answers, 0);
    id += 200000;
    tell_one(f, id, ST_EVENT_GRANT, "r", 1);
    fake_assert_error(slow, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
    assert_true(slow->status.retry_ms > 0);
    assert_int_equal(other->answers, 0);
}

/* Something was open when its first message was told: nobody knows any more what of the trail it was told. */
static void who_falls_behind_amid_open_entries_is_let_go(void **state)
{
    struct fake *f = *state;
    struct fake_call *slow = live(f, "");
    slow->full = true;
    for (int64_t id = 102; id < 102 + 4097; id++) {
        struct st_lease_event one = event(id, ST_EVENT_GRANT, "r", 1);
        f->mark.high = id;
        f->mark.settled = 100;
        f->follow->told(f->follow, &one, 1);
    }
    fake_assert_error(slow, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
}

static void a_slow_caller_gets_all_in_order(void **state)
{
    struct fake *f = *state;
    struct fake_call *slow = live(f, "");
    slow->full = true;
    for (int64_t id = 101; id <= 140; id++)
        tell_one(f, id, ST_EVENT_GRANT, "r", id);
    slow->full = false;
    slow->call.writable(&slow->call);
    assert_int_equal(slow->n_sent, 41);
    for (size_t i = 1; i <= 40; i++)
        assert_int_equal(sent(slow, i)->id, 100 + i);
    slow->call.writable(&slow->call);
    assert_int_equal(slow->n_sent, 41);
}

static void whoever_leaves_last_ends_the_following(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = live(f, ""), *second = watch(f, "default", "", T("1"));
    assert_int_equal(f->trails.count, 1);
    fake_gone(first);
    assert_non_null(f->follow);
    fake_gone(second); /* amid its page */
    assert_null(f->follow);
    assert_true(list_empty(&f->trails));
    f->mark.epoch = 0;
    watch(f, "default", "", "");
    assert_int_equal(f->n_follows, 2);
}

static void what_is_lost_ends_all(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = live(f, ""), *second = watch(f, "default", "", T("1"));
    f->follow->lost(f->follow, "why");
    fake_assert_error(first, HP_OUT_OF_RANGE, HP_R_CHANGES_MISSED);
    fake_assert_error(second, HP_OUT_OF_RANGE, HP_R_CHANGES_MISSED);
    assert_null(f->follow);
}

static void a_drain_ends_all(void **state)
{
    struct fake *f = *state;
    struct fake_call *first = live(f, ""), *second = watch(f, "default", "", T("1"));
    svc_drain(f->svc);
    fake_assert_error(first, HP_UNAVAILABLE, HP_R_DRAINING);
    fake_assert_error(second, HP_UNAVAILABLE, HP_R_DRAINING);
    fake_assert_error(watch(f, "default", "", ""), HP_UNAVAILABLE, HP_R_DRAINING);
    assert_null(f->follow);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

/* As after a failure of the loop: the store is closed, and streams are open. */
static void a_server_may_end_with_streams_open(void **state)
{
    struct fake *f = *state;
    live(f, "");
    struct fake_call *waits = watch(f, "default", "", T("1"));
    assert_int_equal(waits->answers, 0);
    list_init(&f->trails);
}

static void a_database_that_stays_away_is_told(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = watch(f, "default", "", "");
    for (int i = 0; i < 4; i++)
        fake_advance(f, 2000);
    assert_int_equal(call->answers, 0);
    fake_advance(f, 2000);
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
    assert_null(f->follow);
}

static void what_cannot_be_watched_is_refused(void **state)
{
    struct fake *f = *state;
    fake_assert_error(watch(f, "", "", ""), HP_INVALID_ARGUMENT, HP_R_LIMIT);
    fake_assert_error(watch(f, "default", "\x01", ""), HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    struct fake_call *nowhere = watch(f, "nowhere", "", "");
    begin(f, 100);
    fake_page(f, ST_NO_SUCH_NAMESPACE, NULL, 0);
    fake_assert_error(nowhere, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE);
    assert_int_equal(nowhere->n_sent, 0);
    f->mark.epoch = 0;
    f->n_follows = 0;
    live(f, "");
    struct fake_call *failed = watch(f, "default", "", "");
    fake_page(f, ST_FAILED, NULL, 0);
    fake_assert_error(failed, HP_INTERNAL, HP_R_INTERNAL);
    f->no_streams = true;
    struct fake_call *nng = watch(f, "default", "", "");
    fake_assert_error(nng, HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD);
    t_contains(nng->status.message, "gRPC");
}

static void streams_are_bounded(void **state)
{
    struct fake *f = *state;
    for (int i = 0; i < 4000; i++)
        assert_int_equal(watch(f, "default", "", "")->answers, 0);
    struct fake_call *call = watch(f, "default", "", "");
    fake_assert_error(call, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
    fake_gone(f->calls[0]);
    assert_int_equal(watch(f, "default", "", "")->answers, 0);
    assert_int_equal(f->n_follows, 1);
}

/* ---- keys ---- */

static struct ring ring;

static int setup_keys(void **state)
{
    ring_init(&ring);
    return fake_setup_keys(state);
}

/* A key for a part of the names is told of that part, whatever it asks for; and no more when it is revoked. */
static void a_key_is_told_what_it_may_see(void **state)
{
    struct fake *f = *state;
    struct ring_key *some = ring_add(&ring, "some", ST_READER, "default", "a/", ""),
                    *all = ring_add(&ring, "all", ST_READER, "", "", "");
    ring_learn(f, &ring);
    f->authorization = some->header;
    struct fake_call *narrow = watch(f, "default", "", ""), *elsewhere = watch(f, "other", "", "");
    fake_assert_error(elsewhere, HP_PERMISSION_DENIED, HP_R_SCOPE);
    begin(f, 100);
    fake_page(f, ST_FOUND, NULL, 0);
    f->authorization = all->header;
    struct fake_call *wide = watch(f, "default", "", T("32"));
    struct st_lease_event was[] = {event(60, ST_EVENT_GRANT, "a/0", 1), event(61, ST_EVENT_GRANT, "b/0", 1)};
    fake_page(f, ST_FOUND, was, 2);
    f->authorization = some->header;
    struct fake_call *resumed = watch(f, "default", "", T("32"));
    fake_page(f, ST_FOUND, was, 2);
    tell_one(f, 101, ST_EVENT_GRANT, "a/1", 1);
    tell_one(f, 102, ST_EVENT_GRANT, "b/1", 1);
    assert_int_equal(wide->n_sent, 5);
    assert_int_equal(narrow->n_sent, 2);
    assert_string_equal(sent(narrow, 1)->lease->resource, "a/1");
    assert_int_equal(resumed->n_sent, 3);
    assert_string_equal(sent(resumed, 1)->lease->resource, "a/0");
    assert_string_equal(sent(resumed, 2)->lease->resource, "a/1");
    some->revoked = true;
    ring_change(&ring, some);
    for (int i = 0; i < 5 && !ring_item(f, ST_AUTH_CHANGES, NULL); i++)
        fake_advance(f, 500);
    ring_answer(f, &ring, 0);
    fake_assert_error(narrow, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    fake_assert_error(resumed, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    tell_one(f, 103, ST_EVENT_GRANT, "a/1", 1);
    assert_int_equal(wide->n_sent, 6);
    ring_end_items(f);
}

/* What waits to be read when the right to see it ends isn't told any more. */
static void what_waits_is_told_to_those_who_may_still_see_it(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "key", ST_READER, "default", "a/", "");
    ring_grant(key, ST_READER, "default", "b/", "");
    ring_learn(f, &ring);
    f->authorization = key->header;
    struct fake_call *call = watch(f, "default", "", "");
    begin(f, 100);
    fake_page(f, ST_FOUND, NULL, 0);
    assert_int_equal(call->n_sent, 1);
    call->full = true;
    tell_one(f, 101, ST_EVENT_GRANT, "b/1", 1);
    tell_one(f, 102, ST_EVENT_GRANT, "a/1", 1);
    key->n_grants = 1;
    ring_change(&ring, key);
    for (int i = 0; i < 5 && !ring_item(f, ST_AUTH_CHANGES, NULL); i++)
        fake_advance(f, 500);
    ring_answer(f, &ring, 0);
    call->full = false;
    call->call.writable(&call->call);
    assert_int_equal(call->n_sent, 2);
    assert_string_equal(sent(call, 1)->lease->resource, "a/1");
    ring_end_items(f);
}

#define T_(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_(a_watch_is_told_at_once_that_it_watches),
        T_(each_kind_says_what_the_trail_knows),
        T_(an_expiry_is_told_once),
        T_(what_others_watch_is_not_told),
        T_(a_token_stays_behind_what_is_open),
        T_(a_quiet_watch_gets_a_fresh_token_now_and_then),
        T_(a_token_goes_on_where_it_was),
        T_(what_was_comes_page_by_page_as_it_is_read),
        T_(tokens_that_lead_nowhere_are_refused),
        T_(a_caller_that_falls_behind_reads_the_trail),
        T_(who_falls_behind_again_goes_on_again),
        T_(a_caller_that_does_not_read_is_let_go),
        T_(who_falls_behind_amid_open_entries_is_let_go),
        T_(a_slow_caller_gets_all_in_order),
        T_(whoever_leaves_last_ends_the_following),
        T_(what_is_lost_ends_all),
        T_(a_drain_ends_all),
        T_(a_server_may_end_with_streams_open),
        T_(a_database_that_stays_away_is_told),
        T_(what_cannot_be_watched_is_refused),
        T_(streams_are_bounded),
        cmocka_unit_test_setup_teardown(a_key_is_told_what_it_may_see, setup_keys, fake_teardown),
        cmocka_unit_test_setup_teardown(what_waits_is_told_to_those_who_may_still_see_it, setup_keys, fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
