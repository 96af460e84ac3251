/*
 * auth_test.c - what a server that requires keys knows, and when: fresh, stale, revoked, lost; rates; what is noted; calls that are
 * long under way; what a caller may see; and that nobody gives what he doesn't have.
 */
#include "unit/service/keyring.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "holdfast/v1/operation.pb-c.h"
#include "proto/c/wire.h"
#include "service/auth.h"

#define LEASE     "/holdfast.v1.LeaseService/"
#define RESOURCE  "/holdfast.v1.ResourceService/"
#define OPERATION "/holdfast.v1.OperationService/"
#define ADMIN     "/holdfast.v1.AdminService/"

static struct ring ring;

static int setup(void **state)
{
    ring_init(&ring);
    return fake_setup_keys(state);
}

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static struct fake_call *get(struct fake *f, const struct ring_key *key, const char *resource)
{
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.resource = str(resource);
    f->authorization = key->header;
    return fake_call(f, LEASE "Get", &request, 0);
}

static struct fake_call *acquire(struct fake *f, const struct ring_key *key, const char *request_id)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *names[] = {str("r")};
    request.namespace_ = str("ns");
    request.holder = str("me");
    request.request_id = str(request_id);
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = 10000;
    request.wait_ms = 600000;
    f->authorization = key->header;
    return fake_call(f, LEASE "Acquire", &request, 600000);
}

static bool let_in(struct fake *f, const struct ring_key *key)
{
    size_t at;
    struct fake_call *call = get(f, key, "r");
    if (call->answers)
        return false;
    assert_non_null(ring_item(f, ST_GET, &at));
    fake_done(f, at, ST_NO_SUCH_RESOURCE);
    return true;
}

static size_t count(struct fake *f, enum st_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_items; i++)
        n += f->items[i]->kind == kind;
    return n;
}

/* ---- what is known, and when ---- */

static void a_first_call_waits_until_its_key_is_known(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    struct fake_call *first = get(f, key, "r"), *second = get(f, key, "r");
    assert_int_equal(count(f, ST_AUTH_CHANGES), 1); /* one question for both */
    assert_int_equal(f->n_items, 1);
    assert_int_equal(svc_in_flight(f->svc), 2);
    ring_answer(f, &ring, 0);
    assert_int_equal(count(f, ST_GET), 2);
    for (int i = 0; i < 2; i++) {
        assert_non_null(ring_item(f, ST_GET, &at));
        fake_done(f, at, ST_NO_SUCH_RESOURCE);
    }
    fake_assert_error(first, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE);
    fake_assert_error(second, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE);
    assert_true(let_in(f, key));
    assert_int_equal(count(f, ST_AUTH_CHANGES), 0); /* nothing is asked again within the second */
}

static void without_an_answer_nobody_is_let_in(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    struct fake_call *call = get(f, key, "r");
    assert_non_null(ring_item(f, ST_AUTH_CHANGES, &at));
    fake_done(f, at, ST_TIMED_OUT);
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
    ring_learn(f, &ring);
    assert_true(let_in(f, key));
    /* What is known is good for two seconds, and asked for again after one. */
    fake_advance(f, 1000);
    assert_true(let_in(f, key));
    assert_int_equal(count(f, ST_AUTH_CHANGES), 1);
    fake_advance(f, 1000);
    assert_true(let_in(f, key));
    assert_int_equal(count(f, ST_AUTH_CHANGES), 1); /* not another one while that is out */
    fake_advance(f, 1);
    call = get(f, key, "r");
    assert_int_equal(call->answers, 0);
    assert_int_equal(count(f, ST_GET), 0);
    assert_non_null(ring_item(f, ST_AUTH_CHANGES, &at));
    fake_done(f, at, ST_DATABASE_DOWN);
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_DATABASE_DOWN);
    /* And once there is an answer again, all is well. */
    call = get(f, key, "r");
    ring_answer(f, &ring, 0);
    assert_int_equal(call->answers, 0);
    ring_end_items(f);
}

static void a_bad_key_costs_no_question_of_its_own(void **state)
{
    struct fake *f = *state;
    ring_add(&ring, "k", ST_READER, "", "", "");
    struct ring_key *bad = ring_add(&ring, "bad", ST_READER, "", "", "");
    ring.n--; /* it never was */
    ring_learn(f, &ring);
    size_t before = f->n_submitted;
    for (int i = 0; i < 1000; i++)
        fake_assert_error(get(f, bad, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    assert_int_equal(f->n_submitted, before);
    /* While one is out anyway, it waits for that: it may be new. */
    fake_advance(f, 1000);
    struct fake_call *call = get(f, bad, "r");
    assert_int_equal(call->answers, 0);
    ring.n++;
    ring_change(&ring, bad); /* it was made meanwhile */
    ring_answer(f, &ring, 0);
    assert_int_equal(call->answers, 0);
    assert_int_equal(count(f, ST_GET), 1);
    ring_end_items(f);
}

static void revocation_and_changes_count_from_the_next_answer(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_WORKER, "", "", "");
    struct ring_key *other = ring_add(&ring, "other", ST_READER, "ns", "", "");
    ring_learn(f, &ring);
    assert_true(let_in(f, key));
    key->revoked = true;
    ring_change(&ring, key);
    other->grants[0].ns = "elsewhere";
    ring_change(&ring, other);
    fake_advance(f, 1000);
    assert_true(let_in(f, key));
    ring_answer(f, &ring, 0);
    fake_assert_error(get(f, key, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    fake_assert_error(get(f, other, "r"), HP_PERMISSION_DENIED, HP_R_SCOPE);
    struct ring_key *fresh = ring_add(&ring, "fresh", ST_READER, "", "", "");
    fake_advance(f, 2001);
    assert_int_equal(get(f, fresh, "r")->answers, 0);
    ring_answer(f, &ring, 0);
    assert_int_equal(count(f, ST_GET), 1);
    ring_end_items(f);
}

static void after_a_fail_over_all_is_read_anew_page_by_page(void **state)
{
    struct fake *f = *state;
    struct ring_key *lost = ring_add(&ring, "lost", ST_READER, "", "", "");
    struct ring_key *keys[5];
    ring_learn(f, &ring);
    assert_true(let_in(f, lost));
    /* Another database, in which one key never was made, and the same versions stand for others. */
    struct ring_key gone = *lost;
    ring_init(&ring);
    ring.epoch = "second";
    for (int i = 0; i < 5; i++)
        keys[i] = ring_add(&ring, t_printf("k%d", i), ST_READER, "", "", "");
    fake_advance(f, 2001);
    struct fake_call *call = get(f, keys[4], "r"), *old = get(f, &gone, "r");
    for (int page = 0; page < 3; page++) {
        assert_int_equal(call->answers, 0);
        assert_int_equal(count(f, ST_GET), 0);
        ring_answer(f, &ring, 2);
    }
    assert_int_equal(count(f, ST_AUTH_CHANGES), 0);
    assert_int_equal(count(f, ST_GET), 1);
    fake_assert_error(old, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    ring_end_items(f);
    for (int i = 0; i < 5; i++)
        assert_true(let_in(f, keys[i]));
}

/* So many keys that they take longer to read than what is known is good for: still nobody is turned away. */
static void what_takes_long_to_read_is_asked_about_once_more(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    for (int i = 0; i < 3; i++)
        ring_add(&ring, t_printf("k%d", i), ST_READER, "", "", "");
    struct fake_call *call = get(f, key, "r");
    for (int page = 0; page < 4; page++) {
        fake_advance(f, 700);
        ring_answer(f, &ring, 1);
    }
    assert_int_equal(call->answers, 0);
    assert_int_equal(count(f, ST_GET), 0);
    ring_answer(f, &ring, 1);
    assert_int_equal(call->answers, 0);
    assert_int_equal(count(f, ST_GET), 1);
    assert_int_equal(count(f, ST_AUTH_CHANGES), 0);
    ring_end_items(f);
}

static void a_key_expires_by_the_databases_clock(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    key->expires_unix_ms = f->now_ms + ring.ahead_ms + 1500;
    ring_learn(f, &ring);
    fake_advance(f, 1499);
    assert_true(let_in(f, key));
    ring_answer(f, &ring, 0);
    fake_advance(f, 1);
    fake_assert_error(get(f, key, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    /* Its expiry is put off. */
    key->expires_unix_ms += 100000;
    ring_change(&ring, key);
    fake_advance(f, 3000);
    struct fake_call *call = get(f, key, "r");
    ring_answer(f, &ring, 0);
    assert_int_equal(call->answers, 0);
    ring_end_items(f);
}

static void held_calls_may_go_or_be_drained(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    struct fake_call *call = get(f, key, "r"), *other = get(f, key, "r");
    fake_gone(call);
    assert_int_equal(call->answers, 1);
    assert_int_equal(svc_in_flight(f->svc), 1);
    svc_drain(f->svc);
    fake_assert_error(other, HP_UNAVAILABLE, HP_R_DRAINING);
    assert_int_equal(svc_in_flight(f->svc), 0);
    ring_answer(f, &ring, 0);
}

static void several_keys_are_none(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    ring_learn(f, &ring);
    const char *twice[] = {"authorization", key->header, "x-other", "y", "authorization", key->header};
    struct svc_principal *who = NULL;
    struct hp_status status;
    struct hp_call call = {.method = LEASE "Get", .metadata = twice, .n_metadata = 3, .arena = hp_arena_new(1 << 16)};
    /* Straight to auth: the fake's transport has one header. */
    struct svc_auth *auth = ((struct svc *)f->svc)->auth;
    assert_int_equal(svc_auth_admit(auth, &call, svc_method_find(LEASE "Get"), false, &who, &status), SVC_REFUSED);
    assert_int_equal(status.reason, HP_R_BAD_KEY);
    call.n_metadata = 2;
    assert_int_equal(svc_auth_admit(auth, &call, svc_method_find(LEASE "Get"), false, &who, &status), SVC_ADMITTED);
    assert_string_equal(who->name, "k");
    svc_principal_drop(who);
    hp_arena_free(call.arena);
}

static void a_certificate_is_a_principal_and_a_key_wins(void **state)
{
    struct fake *f = *state;
    static const struct hp_peer peer = {.encrypted = true, .certificate = "billing.example", .address = "x", .transport = "grpc"};
    struct ring_key *certified = ring_add(&ring, "certified", ST_READER, "", "", "");
    struct ring_key *key = ring_add(&ring, "k", ST_WORKER, "elsewhere", "", "");
    struct ring_key *bad = ring_add(&ring, "bad", ST_READER, "", "", "");
    certified->certificate = "billing.example";
    ring.n--;
    ring_learn(f, &ring);
    f->peer = &peer;
    struct ring_key none = {.header = ""};
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.resource = str("r");
    f->authorization = NULL;
    assert_int_equal(fake_call(f, LEASE "Get", &request, 0)->answers, 0);
    ring_end_items(f);
    fake_assert_error(get(f, key, "r"), HP_PERMISSION_DENIED, HP_R_SCOPE);
    fake_assert_error(get(f, bad, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY); /* not the certificate instead */
    fake_assert_error(get(f, &none, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    f->peer = NULL;
    /* Its id is no secret, and opens nothing. */
    fake_assert_error(get(f, certified, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY);
}

static bool known(struct fake *f, const char *header, const struct hp_peer *peer)
{
    const char *one[] = {"authorization", header};
    struct hp_call call = {.method = LEASE "Get", .metadata = one, .n_metadata = header ? 1 : 0, .peer = peer};
    return svc_knows(f->svc, &call);
}

/* By what is known, whatever a call might do: who is served first may depend on it, and nothing is asked. */
static void who_is_known_is_told_without_a_question(void **state)
{
    struct fake *f = *state;
    static const struct hp_peer peer = {.encrypted = true, .certificate = "billing.example", .address = "x", .transport = "grpc"};
    static const struct hp_peer other = {.encrypted = true, .certificate = "other.example", .address = "x", .transport = "grpc"};
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    struct ring_key *brief = ring_add(&ring, "brief", ST_READER, "", "", "");
    struct ring_key *certified = ring_add(&ring, "certified", ST_READER, "", "", "");
    struct ring_key *bad = ring_add(&ring, "bad", ST_READER, "", "", "");
    brief->expires_unix_ms = f->now_ms + ring.ahead_ms + 500;
    certified->certificate = "billing.example";
    ring.n--;
    assert_false(known(f, key->header, NULL)); /* not yet */
    ring_learn(f, &ring);
    size_t before = f->n_submitted;
    assert_true(known(f, key->header, NULL));
    assert_true(known(f, brief->header, NULL));
    assert_true(known(f, NULL, &peer));
    assert_false(known(f, NULL, &other));
    assert_false(known(f, NULL, NULL));
    assert_false(known(f, "", &peer));
    assert_false(known(f, bad->header, &peer)); /* not the certificate instead */
    assert_false(known(f, certified->header, NULL));
    fake_advance(f, 500);
    assert_false(known(f, brief->header, NULL));
    assert_int_equal(f->n_submitted, before);
}

/* ---- rates ---- */

static void a_key_may_call_so_often(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    struct ring_key *other = ring_add(&ring, "other", ST_READER, "", "", "");
    key->rate_per_s = 2;
    key->rate_burst = 5;
    ring_learn(f, &ring);
    for (int i = 0; i < 5; i++)
        assert_true(let_in(f, key));
    struct fake_call *call = get(f, key, "r");
    fake_assert_error(call, HP_RESOURCE_EXHAUSTED, HP_R_RATE);
    assert_int_equal(call->status.retry_ms, 500);
    assert_true(let_in(f, other));
    fake_advance(f, 500);
    assert_true(let_in(f, key));
    /* A change of the key doesn't fill its bucket. */
    key->rate_per_s = 4;
    ring_change(&ring, key);
    fake_advance(f, 500);
    get(f, other, "r");
    ring_answer(f, &ring, 0);
    ring_end_items(f);
    for (int i = 0; i < 2; i++)
        assert_true(let_in(f, key));
    fake_assert_error(get(f, key, "r"), HP_RESOURCE_EXHAUSTED, HP_R_RATE);
}

/* ---- what is noted ---- */

static void use_and_denials_are_noted_in_batches(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "ns", "", "");
    struct ring_key *bad = ring_add(&ring, "bad", ST_READER, "ns", "", "");
    ring.n--;
    ring_learn(f, &ring); /* one bad key */
    for (int i = 0; i < 3; i++)
        assert_true(let_in(f, key));
    fake_assert_error(acquire(f, key, ""), HP_PERMISSION_DENIED, HP_R_ROLE);
    fake_assert_error(acquire(f, key, ""), HP_PERMISSION_DENIED, HP_R_ROLE);
    fake_assert_error(get(f, bad, "r"), HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    assert_null(ring_item(f, ST_AUTH_NOTE, NULL)); /* not at once */
    fake_advance(f, 5000);
    struct st_item *item = ring_item(f, ST_AUTH_NOTE, &at);
    assert_non_null(item);
    const struct st_auth_note *note = &item->in.auth_note;
    assert_int_equal(note->n_used, 1);
    assert_string_equal(note->used[0], key->key.id);
    assert_int_equal(note->ago_ms[0], 5000);
    assert_int_equal(note->n_denials, 3);
    assert_string_equal(note->denials[0].principal, "");
    assert_string_equal(note->denials[0].reason, "BAD_KEY");
    assert_string_equal(note->denials[0].method, ADMIN "Stats");
    assert_string_equal(note->denials[1].principal, key->key.id);
    assert_string_equal(note->denials[1].reason, "ROLE");
    assert_int_equal(note->denials[1].count, 2);
    /* It could not be noted: it is kept, with what came meanwhile. */
    struct fake_call *call = acquire(f, key, "");
    ring_answer(f, &ring, 0);
    fake_assert_error(call, HP_PERMISSION_DENIED, HP_R_ROLE);
    assert_non_null(ring_item(f, ST_AUTH_NOTE, &at));
    fake_done(f, at, ST_DATABASE_DOWN);
    ring_end_items(f);
    fake_advance(f, 5000);
    item = ring_item(f, ST_AUTH_NOTE, &at);
    assert_int_equal(item->in.auth_note.n_used, 0); /* used: once a minute */
    assert_int_equal(item->in.auth_note.n_denials, 3);
    assert_int_equal(item->in.auth_note.denials[1].count, 3);
    fake_done(f, at, ST_FOUND);
    fake_advance(f, 5000);
    assert_null(ring_item(f, ST_AUTH_NOTE, NULL)); /* and then there is nothing to note, and no timer */
    fake_advance(f, 60000);
    get(f, key, "r");
    ring_answer(f, &ring, 0);
    ring_end_items(f);
    fake_advance(f, 5000);
    assert_int_equal(ring_item(f, ST_AUTH_NOTE, NULL)->in.auth_note.n_used, 1);
}

static void what_is_noted_is_bounded(void **state)
{
    struct fake *f = *state;
    size_t n, at;
    const struct svc_method *methods = svc_methods(&n);
    for (int i = 0; i < 20; i++)
        ring_add(&ring, t_printf("k%d", i), 0, "", "", ""); /* they may do nothing */
    ring_learn(f, &ring);
    int64_t denied = 1;
    for (size_t k = 0; k < ring.n; k++) {
        for (size_t i = 0; i < n; i++) {
            f->authorization = ring.keys[k].header;
            if (methods[i].role == SVC_ANYONE)
                continue;
            fake_assert_error(fake_call_bytes(f, methods[i].rpc.path, "", 0, 0), HP_PERMISSION_DENIED, HP_R_ROLE);
            denied++;
        }
    }
    svc_drain(f->svc); /* what is to be noted is noted now */
    struct st_item *item = ring_item(f, ST_AUTH_NOTE, &at);
    assert_non_null(item);
    assert_true(item->in.auth_note.n_denials <= 128);
    int64_t sum = 0;
    for (size_t i = 0; i < item->in.auth_note.n_denials; i++)
        sum += item->in.auth_note.denials[i].count;
    assert_int_equal(sum, denied); /* all of them, if not each apart */
    fake_done(f, at, ST_FOUND);
}

/* ---- calls that are long under way ---- */

static void waiting_ends_with_the_key(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *key = ring_add(&ring, "k", ST_WORKER, "", "", "");
    struct ring_key *other = ring_add(&ring, "other", ST_WORKER, "", "", "");
    ring_learn(f, &ring);
    struct fake_call *first = acquire(f, key, "a"), *second = acquire(f, other, "b");
    struct st_item *item = ring_item(f, ST_ACQUIRE, &at);
    item->out.acquire.holder = item->out.acquire.task = "x";
    item->out.acquire.token = 7;
    item->out.acquire.remaining_ms = 500000;
    fake_done(f, at, ST_HELD);
    if (ring_item(f, ST_ACQUIRE, &at)) { /* is the other one a repeat? */
        item = ring_item(f, ST_ACQUIRE, &at);
        item->out.acquire.holder = item->out.acquire.task = "x";
        item->out.acquire.token = 7;
        item->out.acquire.remaining_ms = 500000;
        fake_done(f, at, ST_HELD);
    }
    assert_int_equal(first->answers + second->answers, 0);
    key->revoked = true;
    ring_change(&ring, key);
    /* No other call comes: the services ask by themselves, as long as somebody waits. */
    for (int i = 0; i < 5 && !ring_item(f, ST_AUTH_CHANGES, NULL); i++)
        fake_advance(f, 500);
    ring_answer(f, &ring, 0);
    fake_assert_error(first, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    assert_int_equal(second->answers, 0);
    /* The other one's key may do less now. */
    other->grants[0].role = ST_READER;
    ring_change(&ring, other);
    for (int i = 0; i < 5 && !ring_item(f, ST_AUTH_CHANGES, NULL); i++)
        fake_advance(f, 500);
    ring_answer(f, &ring, 0);
    fake_assert_error(second, HP_PERMISSION_DENIED, HP_R_SCOPE);
    ring_end_items(f);
    fake_advance(f, 1000);
    fake_advance(f, 1000);
    fake_advance(f, 10000);
    assert_int_equal(count(f, ST_AUTH_CHANGES), 0); /* nobody waits any more */
}

static void streams_end_with_the_key(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "", "", "");
    key->expires_unix_ms = f->now_ms + ring.ahead_ms + 3000;
    ring_learn(f, &ring);
    f->authorization = key->header;
    struct fake_call *call = fake_call_bytes(f, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", 0, 0);
    assert_int_equal(call->answers, 0);
    for (int i = 0; i < 10 && !call->answers; i++) {
        fake_advance(f, 500);
        if (ring_item(f, ST_AUTH_CHANGES, NULL))
            ring_answer(f, &ring, 0);
    }
    fake_assert_error(call, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    assert_in_range(f->now_ms, 1003000, 1004500);
}

static void only_ones_own_waiting_is_cancelled(void **state)
{
    struct fake *f = *state;
    size_t at;
    Holdfast__V1__CancelWaitRequest request = HOLDFAST__V1__CANCEL_WAIT_REQUEST__INIT;
    struct ring_key *key = ring_add(&ring, "k", ST_WORKER, "", "", "");
    struct ring_key *other = ring_add(&ring, "other", ST_ADMIN, "", "", "");
    ring_learn(f, &ring);
    struct fake_call *waits = acquire(f, key, "id");
    struct st_item *item = ring_item(f, ST_ACQUIRE, &at);
    item->out.acquire.holder = item->out.acquire.task = "x";
    item->out.acquire.token = 7;
    item->out.acquire.remaining_ms = 500000;
    fake_done(f, at, ST_HELD);
    request.namespace_ = str("ns");
    request.request_id = str("id");
    f->authorization = other->header;
    Holdfast__V1__CancelWaitResponse *told = fake_assert_ok(fake_call(f, LEASE "CancelWait", &request, 0));
    assert_false(told->was_waiting);
    assert_int_equal(waits->answers, 0);
    f->authorization = key->header;
    told = fake_assert_ok(fake_call(f, LEASE "CancelWait", &request, 0));
    assert_true(told->was_waiting);
    assert_int_equal(waits->answers, 1);
    ring_end_items(f);
}

/* ---- who it was ---- */

static const char *actor(struct fake *f, const struct ring_key *key, const char *said)
{
    static char seen[300];
    size_t at;
    Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
    request.namespace_ = str("ns");
    request.resource = str("r");
    request.token_seen = 1;
    request.actor = str(said);
    request.reason = str("why");
    f->authorization = key->header;
    struct fake_call *call = fake_call(f, LEASE "Break", &request, 0);
    struct st_item *item = ring_item(f, ST_BREAK, &at);
    if (!item) {
        fake_assert_error(call, HP_INVALID_ARGUMENT, call->status.reason);
        assert_string_equal(call->status.field, "actor");
        return "";
    }
    snprintf(seen, sizeof(seen), "%s", item->in.brk.actor);
    fake_done(f, at, ST_NO_SUCH_RESOURCE);
    return seen;
}

static void the_actor_is_the_principal_and_what_it_says(void **state)
{
    struct fake *f = *state;
    struct hp_status status;
    char longest[258];
    struct ring_key *key = ring_add(&ring, "billing", ST_OPERATOR, "", "", "");
    ring_learn(f, &ring);
    assert_string_equal(actor(f, key, "alice@laptop"), "billing (alice@laptop)");
    assert_string_equal(actor(f, key, ""), "billing");
    assert_string_equal(actor(f, key, "billing"), "billing");
    assert_string_equal(actor(f, key, "line\nbreak"), ""); /* what was refused before is refused still */
    memset(longest, 'x', sizeof(longest));
    longest[257] = '\0';
    assert_string_equal(actor(f, key, longest), "");
    for (size_t i = 0; i < 255; i += 2)
        memcpy(longest + i, "é", 2);
    longest[256] = '\0';
    const char *cut = actor(f, key, longest);
    assert_true(hp_check_name("actor", cut, &status)); /* cut between characters, and short enough */
    assert_non_null(strstr(cut, "é…)"));
}

/* ---- what a caller may see ---- */

static void lists_show_what_may_be_seen(void **state)
{
    static const struct st_lease_row rows[] = {
        {.resource = "a/1"}, {.resource = "b/1"}, {.resource = "c/1"}, {.resource = "c/2"}, {.resource = "d/1"}};
    struct fake *f = *state;
    size_t at;
    Holdfast__V1__ListLeasesRequest request = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    struct ring_key *one = ring_add(&ring, "one", ST_READER, "ns", "c/", "");
    struct ring_key *two = ring_add(&ring, "two", ST_READER, "ns", "a/", "");
    ring_grant(two, ST_READER, "", "c/2", "");
    ring_grant(two, ST_ADMIN, "other", "", "");
    ring_learn(f, &ring);
    request.namespace_ = str("ns");
    request.page_size = 5;
    f->authorization = one->header;
    fake_call(f, LEASE "List", &request, 0);
    assert_string_equal(ring_item(f, ST_LIST_LEASES, NULL)->in.list.prefix, "c/"); /* no more is asked for */
    ring_end_items(f);
    request.prefix = str("c/2");
    fake_call(f, LEASE "List", &request, 0);
    assert_string_equal(ring_item(f, ST_LIST_LEASES, NULL)->in.list.prefix, "c/2");
    ring_end_items(f);
    /* Two grants: rows are left out, and the page goes on behind the last that was looked at. */
    request.prefix = str("");
    f->authorization = two->header;
    struct fake_call *call = fake_call(f, LEASE "List", &request, 0);
    struct st_item *item = ring_item(f, ST_LIST_LEASES, &at);
    assert_string_equal(item->in.list.prefix, "");
    item->out.leases.rows = rows;
    item->out.leases.n = 5;
    item->out.leases.more = true;
    fake_done(f, at, ST_FOUND);
    Holdfast__V1__ListLeasesResponse *told = fake_assert_ok(call);
    assert_int_equal(told->n_leases, 2);
    assert_string_equal(told->leases[0]->resource, "a/1");
    assert_string_equal(told->leases[1]->resource, "c/2");
    request.page_token = told->next_page_token;
    fake_call(f, LEASE "List", &request, 0);
    assert_string_equal(ring_item(f, ST_LIST_LEASES, NULL)->in.list.after, "d/1");
    ring_end_items(f);
    /* Pages are filled with what may be seen: pages of one row each don't tell how many were left out. */
    request.page_token = str("");
    request.page_size = 1;
    call = fake_call(f, LEASE "List", &request, 0);
    item = ring_item(f, ST_LIST_LEASES, &at);
    assert_int_equal(item->in.list.max, 1000);
    item->out.leases.rows = rows;
    item->out.leases.n = 5;
    fake_done(f, at, ST_FOUND);
    told = fake_assert_ok(call);
    assert_int_equal(told->n_leases, 1);
    assert_string_equal(told->leases[0]->resource, "a/1");
    request.page_token = told->next_page_token;
    call = fake_call(f, LEASE "List", &request, 0);
    item = ring_item(f, ST_LIST_LEASES, &at);
    assert_string_equal(item->in.list.after, "a/1");
    item->out.leases.rows = rows + 1;
    item->out.leases.n = 3;
    fake_done(f, at, ST_FOUND);
    told = fake_assert_ok(call);
    assert_int_equal(told->n_leases, 1);
    assert_string_equal(told->leases[0]->resource, "c/2");
    assert_string_equal(told->next_page_token, "");
}

/* Tokens of a page that ends at `name`, for a caller who may not see it. */
static const char *token_behind(struct fake *f, const char *name)
{
    struct st_namespace_row row = {.name = name};
    size_t at;
    Holdfast__V1__ListNamespacesRequest request = HOLDFAST__V1__LIST_NAMESPACES_REQUEST__INIT;
    struct fake_call *call = fake_call(f, ADMIN "ListNamespaces", &request, 0);
    struct st_item *item = ring_item(f, ST_LIST_NAMESPACES, &at);
    item->out.namespaces.rows = &row;
    item->out.namespaces.n = 1;
    item->out.namespaces.more = true;
    fake_done(f, at, ST_FOUND);
    Holdfast__V1__ListNamespacesResponse *told = fake_assert_ok(call);
    return t_printf("%s", told->next_page_token);
}

/* The name that the page is asked for behind; NULL: the token is refused. */
static const char *asked_behind(struct fake *f, const char *token)
{
    size_t at;
    Holdfast__V1__ListNamespacesRequest request = HOLDFAST__V1__LIST_NAMESPACES_REQUEST__INIT;
    request.page_token = str(token);
    struct fake_call *call = fake_call(f, ADMIN "ListNamespaces", &request, 0);
    struct st_item *item = ring_item(f, ST_LIST_NAMESPACES, &at);
    if (!item) {
        fake_assert_error(call, HP_INVALID_ARGUMENT, HP_R_MALFORMED);
        return NULL;
    }
    const char *after = t_printf("%s", item->in.namespaces.after);
    ring_end_items(f);
    return after;
}

/* Nor can a page be begun where the caller likes: the names behind it would be found by trying. */
static void page_tokens_tell_no_names(void **state)
{
    struct fake *f = *state;
    char changed[1024];
    const char *longest = t_printf("%0256d", 0);
    struct ring_key *all = ring_add(&ring, "all", ST_OPERATOR, "", "", "");
    struct ring_key *some = ring_add(&ring, "some", ST_OPERATOR, "b", "", "");
    ring_learn(f, &ring);
    f->authorization = all->header;
    const char *plain = token_behind(f, "secret");
    assert_string_equal(asked_behind(f, plain), "secret");
    f->authorization = some->header;
    assert_null(asked_behind(f, plain));
    const char *sealed = token_behind(f, "secret");
    assert_null(strstr(sealed, plain + 4)); /* neither as it is nor in base64 */
    assert_int_equal(strlen(sealed), strlen(token_behind(f, longest)));
    assert_string_equal(asked_behind(f, sealed), "secret");
    assert_string_equal(asked_behind(f, token_behind(f, longest)), longest);
    for (size_t i = 0; i < strlen(sealed); i++) {
        strcpy(changed, sealed);
        changed[i] = changed[i] == '0' ? '1' : '0';
        assert_null(asked_behind(f, changed));
    }
    f->authorization = all->header;
    assert_string_equal(asked_behind(f, sealed), "secret"); /* whoever has been given more goes on */
}

static void narrowing_stops_between_characters(void **state)
{
    struct fake *f = *state;
    Holdfast__V1__ListOperationsRequest request = HOLDFAST__V1__LIST_OPERATIONS_REQUEST__INIT;
    struct ring_key *key = ring_add(&ring, "k", ST_READER, "ns", "", "zé1"); /* é and è share their first byte */
    ring_grant(key, ST_READER, "ns", "", "zè");
    ring_learn(f, &ring);
    request.namespace_ = str("ns");
    f->authorization = key->header;
    fake_call(f, OPERATION "List", &request, 0);
    assert_string_equal(ring_item(f, ST_OP_LIST, NULL)->in.op_list.prefix, "z");
    ring_end_items(f);
}

static void the_audit_shows_what_may_be_seen(void **state)
{
    static const struct st_audit_row rows[] = {
        {.id = 9, .kind = "policy", .resource = "", .actor = "", .detail = "", .operation = ""},
        {.id = 8, .kind = "grant", .resource = "a/1", .actor = "", .detail = "", .operation = ""},
        {.id = 7, .kind = "grant", .resource = "b/1", .actor = "", .detail = "", .operation = ""},
        {.id = 6, .kind = "lost", .resource = "", .actor = "", .detail = "", .operation = "k/1"},
        {.id = 5, .kind = "lost", .resource = "", .actor = "", .detail = "", .operation = "m/1"},
    };
    static const struct {
        const char *resources, *operations, *seen;
    } cases[] = {{"", "", "98765"}, {"a/", "k/", "86"}, {"", "k/", "876"}, {"x", "x", ""}};
    struct fake *f = *state;
    size_t at;
    for (size_t i = 0; i < 4; i++)
        ring_add(&ring, t_printf("k%zu", i), ST_OPERATOR, "ns", cases[i].resources, cases[i].operations);
    ring_learn(f, &ring);
    for (size_t i = 0; i < 4; i++) {
        Holdfast__V1__AuditRequest request = HOLDFAST__V1__AUDIT_REQUEST__INIT;
        char seen[8] = "";
        request.namespace_ = str("ns");
        f->authorization = ring.keys[i].header;
        struct fake_call *call = fake_call(f, ADMIN "Audit", &request, 0);
        struct st_item *item = ring_item(f, ST_AUDIT, &at);
        item->out.audit.rows = rows;
        item->out.audit.n = 5;
        item->out.audit.more = true;
        fake_done(f, at, ST_FOUND);
        Holdfast__V1__AuditResponse *told = fake_assert_ok(call);
        for (size_t k = 0; k < told->n_entries; k++)
            seen[k] = (char)('0' + told->entries[k]->id);
        assert_string_equal(seen, cases[i].seen);
        assert_true(told->next_page_token[0] == '~'); /* sealed: ids tell how much others do */
        request.page_token = told->next_page_token;
        fake_call(f, ADMIN "Audit", &request, 0);
        assert_int_equal(ring_item(f, ST_AUDIT, NULL)->in.audit.after_id, 5);
        ring_end_items(f);
    }
}

static void namespaces_and_stats_show_what_may_be_seen(void **state)
{
    static const struct st_namespace_row rows[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct fake *f = *state;
    size_t at;
    struct ring_key *all = ring_add(&ring, "all", ST_OPERATOR, "", "", "");
    struct ring_key *some = ring_add(&ring, "some", ST_OPERATOR, "b", "x", "");
    ring_grant(some, ST_READER, "c", "", ""); /* not enough to list it */
    ring_learn(f, &ring);
    for (int i = 0; i < 2; i++) {
        Holdfast__V1__ListNamespacesRequest request = HOLDFAST__V1__LIST_NAMESPACES_REQUEST__INIT;
        f->authorization = i ? some->header : all->header;
        struct fake_call *call = fake_call(f, ADMIN "ListNamespaces", &request, 0);
        struct st_item *item = ring_item(f, ST_LIST_NAMESPACES, &at);
        item->out.namespaces.rows = rows;
        item->out.namespaces.n = 3;
        fake_done(f, at, ST_FOUND);
        Holdfast__V1__ListNamespacesResponse *told = fake_assert_ok(call);
        assert_int_equal(told->n_namespaces, i ? 1 : 3);
        assert_string_equal(told->namespaces[0]->name, i ? "b" : "a");

        call = fake_call_bytes(f, ADMIN "Stats", "", 0, 0);
        ring_end_items(f);
        Holdfast__V1__StatsResponse *stats = fake_assert_ok(call);
        assert_string_equal(stats->version, "1.2.3");
        assert_int_equal(stats->n_methods > 0, !i);
        assert_int_equal(stats->auth != NULL, !i);
        assert_int_equal(stats->waits != NULL, !i);
        if (i)
            continue;
        assert_true(stats->auth->keys_required);
        assert_int_equal(stats->auth->keys, 2);
        assert_int_equal(stats->auth->refreshes, 1);
        assert_int_equal(stats->auth->age_ms, 0);
        assert_int_equal(stats->auth->n_denials, 1); /* the ring's first call */
        assert_string_equal(stats->auth->denials[0]->reason, "BAD_KEY");
    }
}

/* ---- nobody gives what he doesn't have ---- */

static struct fake_call *create(struct fake *f, const struct ring_key *by, int role, const char *ns, const char *resources,
                                const char *operations)
{
    Holdfast__V1__CreateKeyRequest request = HOLDFAST__V1__CREATE_KEY_REQUEST__INIT;
    Holdfast__V1__KeyGrant grants[2] = {HOLDFAST__V1__KEY_GRANT__INIT, HOLDFAST__V1__KEY_GRANT__INIT};
    Holdfast__V1__KeyGrant *pointers[] = {&grants[0], &grants[1]};
    grants[0].role = HOLDFAST__V1__KEY_GRANT__ROLE__READER; /* one that all of them may give */
    grants[0].namespace_ = str("pay");
    grants[0].resource_prefix = str("a/b");
    grants[0].operation_prefix = str("k");
    grants[1].role = (Holdfast__V1__KeyGrant__Role)role;
    grants[1].namespace_ = str(ns);
    grants[1].all_namespaces = !ns[0];
    grants[1].resource_prefix = str(resources);
    grants[1].operation_prefix = str(operations);
    request.name = str("new");
    request.n_grants = 2;
    request.grants = pointers;
    request.actor = str("me");
    f->authorization = by->header;
    return fake_call(f, ADMIN "CreateKey", &request, 0);
}

static void nobody_makes_keys_beyond_his_own(void **state)
{
    struct fake *f = *state;
    struct ring_key *all = ring_add(&ring, "all", ST_ADMIN, "", "", "");
    struct ring_key *pay = ring_add(&ring, "pay", ST_ADMIN, "pay", "", "");
    struct ring_key *part = ring_add(&ring, "part", ST_ADMIN, "pay", "a/", "");
    struct ring_key *keys = ring_add(&ring, "keys", ST_ADMIN, "pay", "", "k");
    ring_grant(pay, ST_OPERATOR, "", "", ""); /* what he may do elsewhere, he may not give */
    const struct {
        const struct ring_key *by;
        int role;
        const char *ns, *resources, *operations;
        bool may;
    } cases[] = {
        {all, ST_ADMIN, "", "", "", true},         {all, ST_READER, "x", "y", "z", true},
        {pay, ST_ADMIN, "pay", "", "", true},      {pay, ST_ADMIN, "pay", "x", "y", true},
        {pay, ST_ADMIN, "", "", "", false},        {pay, ST_READER, "", "", "", false},
        {pay, ST_READER, "pay2", "", "", false},   {pay, ST_READER, "", "a/", "k", false},
        {part, ST_ADMIN, "pay", "a/", "", true},   {part, ST_WORKER, "pay", "a/1", "k", true},
        {part, ST_READER, "pay", "", "", false},   {part, ST_READER, "pay", "a", "", false},
        {part, ST_READER, "pay", "b/", "", false}, {part, ST_READER, "", "a/", "", false},
        {keys, ST_WORKER, "pay", "", "k/1", true}, {keys, ST_READER, "pay", "", "", false},
    };
    ring_learn(f, &ring);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fake_call *call = create(f, cases[i].by, cases[i].role, cases[i].ns, cases[i].resources, cases[i].operations);
        if ((ring_item(f, ST_CREATE_PRINCIPAL, NULL) != NULL) != cases[i].may)
            fail_msg("%s giving role %d in \"%s\" on \"%s\", \"%s\": %s", cases[i].by->name, cases[i].role, cases[i].ns,
                     cases[i].resources, cases[i].operations, call->status.message);
        if (!cases[i].may) {
            fake_assert_error(call, HP_PERMISSION_DENIED, HP_R_SCOPE);
            assert_string_equal(hp_status_get_meta(&call->status, "field"), "grants[1]");
            continue;
        }
        size_t at;
        ring_item(f, ST_CREATE_PRINCIPAL, &at);
        fake_done(f, at, ST_AUTH_TAKEN);
        fake_assert_error(call, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT);
        if (ring_item(f, ST_AUTH_CHANGES, NULL))
            ring_answer(f, &ring, 0);
    }
}

static struct fake_call *change(struct fake *f, const struct ring_key *by, const struct ring_key *target, bool revoke)
{
    Holdfast__V1__RevokeKeyRequest request = HOLDFAST__V1__REVOKE_KEY_REQUEST__INIT;
    Holdfast__V1__SetKeyRequest set = HOLDFAST__V1__SET_KEY_REQUEST__INIT;
    request.id = set.id = str(target->key.id);
    request.actor = set.actor = str("me");
    set.rate_case = HOLDFAST__V1__SET_KEY_REQUEST__RATE_RATE_PER_S;
    set.rate_per_s = 0;
    f->authorization = by->header;
    return revoke ? fake_call(f, ADMIN "RevokeKey", &request, 0) : fake_call(f, ADMIN "SetKey", &set, 0);
}

static void nobody_changes_keys_beyond_his_own(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *all = ring_add(&ring, "all", ST_ADMIN, "", "", "");
    struct ring_key *pay = ring_add(&ring, "pay", ST_ADMIN, "pay", "", "");
    struct ring_key *inside = ring_add(&ring, "inside", ST_WORKER, "pay", "x", "");
    struct ring_key *both = ring_add(&ring, "both", ST_WORKER, "pay", "", "");
    struct ring_key *unknown = ring_add(&ring, "unknown", ST_WORKER, "pay", "", "");
    ring_grant(both, ST_READER, "elsewhere", "", "");
    ring.n--;
    ring_learn(f, &ring);
    for (int revoke = 0; revoke < 2; revoke++) {
        enum st_kind kind = revoke ? ST_REVOKE_PRINCIPAL : ST_SET_PRINCIPAL;
        /* Whether there is one doesn't show. */
        fake_assert_error(change(f, pay, all, revoke), HP_NOT_FOUND, HP_R_NO_SUCH_KEY);
        fake_assert_error(change(f, pay, both, revoke), HP_NOT_FOUND, HP_R_NO_SUCH_KEY);
        fake_assert_error(change(f, pay, unknown, revoke), HP_NOT_FOUND, HP_R_NO_SUCH_KEY);
        assert_int_equal(f->svc->auth->denials[HP_R_SCOPE], 2 * (revoke + 1));
        assert_null(ring_item(f, kind, NULL));
        struct fake_call *call = change(f, pay, inside, revoke);
        struct st_item *item = ring_item(f, kind, &at);
        assert_non_null(item);
        assert_int_equal(item->in.principals.version, inside->version); /* as it was looked at */
        assert_string_equal(item->in.principals.actor, "pay (me)");
        fake_done(f, at, ST_OP_REVISION);
        fake_assert_error(call, HP_ABORTED, HP_R_REVISION_MISMATCH);
        ring_answer(f, &ring, 0);
        call = change(f, all, unknown, revoke);
        item = ring_item(f, kind, &at);
        assert_int_equal(item->in.principals.version, 0);
        fake_done(f, at, ST_AUTH_NONE);
        fake_assert_error(call, HP_NOT_FOUND, HP_R_NO_SUCH_KEY);
        ring_answer(f, &ring, 0);
    }
}

/* What a key with an end and a rate asks of itself or a new one. */
static struct fake_call *give(struct fake *f, const struct ring_key *by, bool new_one, int64_t expires, int64_t rate, int64_t burst)
{
    Holdfast__V1__CreateKeyRequest create = HOLDFAST__V1__CREATE_KEY_REQUEST__INIT;
    Holdfast__V1__SetKeyRequest set = HOLDFAST__V1__SET_KEY_REQUEST__INIT;
    Holdfast__V1__KeyGrant grant = HOLDFAST__V1__KEY_GRANT__INIT, *grants[] = {&grant};
    grant.role = HOLDFAST__V1__KEY_GRANT__ROLE__READER;
    grant.namespace_ = str("pay");
    create.name = str("new");
    create.n_grants = 1;
    create.grants = grants;
    create.expires_in_ms = set.expires_in_ms = expires;
    create.rate_per_s = set.rate_per_s = rate;
    create.rate_burst = set.rate_burst = burst;
    set.id = str(by->key.id);
    create.actor = set.actor = str("me");
    set.expiry_case = HOLDFAST__V1__SET_KEY_REQUEST__EXPIRY_EXPIRES_IN_MS;
    set.rate_case = HOLDFAST__V1__SET_KEY_REQUEST__RATE_RATE_PER_S;
    set.burst_case = HOLDFAST__V1__SET_KEY_REQUEST__BURST_RATE_BURST;
    f->authorization = by->header;
    return new_one ? fake_call(f, ADMIN "CreateKey", &create, 0) : fake_call(f, ADMIN "SetKey", &set, 0);
}

static void nobody_gives_more_time_or_calls_than_he_has(void **state)
{
    static const struct {
        int64_t expires, rate, burst;
        const char *beyond;
    } cases[] = {
        {3600000, 10, 20, NULL},     {1000, 1, 0, NULL},           {0, 10, 20, "expires_in_ms"}, {3600001, 10, 20, "expires_in_ms"},
        {1000, 0, 20, "rate_per_s"}, {1000, 11, 20, "rate_per_s"}, {1000, 10, 21, "rate_burst"}};
    struct fake *f = *state;
    size_t at;
    struct ring_key *guest = ring_add(&ring, "guest", ST_ADMIN, "pay", "", "");
    guest->expires_unix_ms = f->now_ms + 1000000000 + 3600000;
    guest->rate_per_s = 10;
    guest->rate_burst = 20;
    ring_learn(f, &ring);
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const char *beyond = cases[i / 2].beyond;
        struct fake_call *call = give(f, guest, i % 2, cases[i / 2].expires, cases[i / 2].rate, cases[i / 2].burst);
        struct st_item *item = ring_item(f, i % 2 ? ST_CREATE_PRINCIPAL : ST_SET_PRINCIPAL, &at);
        if ((item == NULL) != (beyond != NULL))
            fail_msg("case %zu: %s", i, call->status.message);
        if (beyond) {
            fake_assert_error(call, HP_PERMISSION_DENIED, HP_R_SCOPE);
            assert_string_equal(hp_status_get_meta(&call->status, "field"), beyond);
            continue;
        }
        fake_done(f, at, ST_OP_REVISION);
        fake_assert_error(call, HP_ABORTED, HP_R_REVISION_MISMATCH);
        ring_answer(f, &ring, 0);
    }
}

static void keys_are_listed_to_those_who_could_have_made_them(void **state)
{
    static const struct st_grant in[] = {{ST_WORKER, "pay", "", ""}}, out[] = {{ST_WORKER, "pay", "", ""}, {ST_READER, "", "", ""}};
    static const struct st_principal_row rows[] = {
        {.id = "a", .name = "in", .certificate = "", .created_by = "", .revoked_by = "", .grants = in, .n_grants = 1},
        {.id = "b", .name = "out", .certificate = "", .created_by = "", .revoked_by = "", .grants = out, .n_grants = 2}};
    struct fake *f = *state;
    size_t at;
    ring_add(&ring, "all", ST_ADMIN, "", "", "");
    ring_add(&ring, "pay", ST_ADMIN, "pay", "", "");
    ring_learn(f, &ring);
    for (int i = 0; i < 2; i++) {
        Holdfast__V1__ListKeysRequest request = HOLDFAST__V1__LIST_KEYS_REQUEST__INIT;
        f->authorization = ring.keys[i].header;
        struct fake_call *call = fake_call(f, ADMIN "ListKeys", &request, 0);
        struct st_item *item = ring_item(f, ST_LIST_PRINCIPALS, &at);
        item->out.principals = (struct st_principals_told){rows, 2, true};
        fake_done(f, at, ST_FOUND);
        Holdfast__V1__ListKeysResponse *told = fake_assert_ok(call);
        assert_int_equal(told->n_keys, i ? 1 : 2);
        assert_string_equal(told->keys[0]->name, "in");
        assert_true(told->next_page_token[0]);
    }
}

/* ---- a key is made ---- */

static void a_key_is_told_once_and_good_at_once(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *admin = ring_add(&ring, "root", ST_ADMIN, "", "", "");
    ring_learn(f, &ring);
    struct fake_call *call = create(f, admin, ST_READER, "", "", "");
    struct st_item *item = ring_item(f, ST_CREATE_PRINCIPAL, &at);
    const struct st_principals *in = &item->in.principals;
    assert_int_equal(in->secret_hash.len, 32);
    assert_string_equal(in->actor, "root (me)");
    struct st_principal_row row = {.id = in->id,
                                   .name = "new",
                                   .certificate = "",
                                   .created_by = "",
                                   .revoked_by = "",
                                   .grants = in->grants,
                                   .n_grants = in->n_grants};
    /* The database has it. */
    struct ring_key *made = ring_add(&ring, "new", ST_READER, "", "", "");
    memcpy(made->key.id, in->id, sizeof(made->key.id));
    memcpy(made->key.hash, in->secret_hash.data, sizeof(made->key.hash));
    item->out.principals = (struct st_principals_told){&row, 1, false};
    fake_done(f, at, ST_FOUND);
    Holdfast__V1__CreateKeyResponse *told = fake_assert_ok(call);
    assert_string_equal(told->info->name, "new");
    assert_true(told->info->grants[1]->all_namespaces);
    snprintf(made->header, sizeof(made->header), "Bearer %s", told->key);
    /* And this server asks for it before anybody else is let in: nobody by what was known before. */
    assert_int_equal(count(f, ST_AUTH_CHANGES), 1);
    struct fake_call *by_new = get(f, made, "r"), *by_old = get(f, admin, "r");
    assert_int_equal(count(f, ST_GET), 0);
    ring_answer(f, &ring, 0);
    assert_int_equal(by_new->answers + by_old->answers, 0);
    assert_int_equal(count(f, ST_GET), 2);
    ring_end_items(f);
}

/* A question that was on its way when the change was made may have been answered without it. */
static void what_was_asked_before_a_change_is_asked_again(void **state)
{
    struct fake *f = *state;
    size_t at;
    struct ring_key *admin = ring_add(&ring, "root", ST_ADMIN, "", "", "");
    struct ring_key *victim = ring_add(&ring, "victim", ST_READER, "", "", "");
    ring_learn(f, &ring);
    struct fake_call *call = change(f, admin, victim, true);
    fake_advance(f, 1000);
    get(f, admin, "r"); /* asks */
    assert_int_equal(count(f, ST_AUTH_CHANGES), 1);
    ring_item(f, ST_REVOKE_PRINCIPAL, &at);
    struct st_principal_row row = {.id = victim->key.id, .name = "", .certificate = "", .created_by = "", .revoked_by = ""};
    f->items[at]->out.principals = (struct st_principals_told){&row, 1, false};
    fake_done(f, at, ST_FOUND);
    fake_assert_ok(call);
    struct fake_call *late = get(f, victim, "r");
    ring_answer(f, &ring, 0); /* as it was before */
    assert_int_equal(late->answers, 0);
    assert_int_equal(count(f, ST_AUTH_CHANGES), 1);
    victim->revoked = true;
    ring_change(&ring, victim);
    ring_answer(f, &ring, 0);
    fake_assert_error(late, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
    ring_end_items(f);
}

static void bad_requests_for_keys_are_refused(void **state)
{
    struct fake *f = *state;
    struct ring_key *admin = ring_add(&ring, "root", ST_ADMIN, "", "", "");
    ring_learn(f, &ring);
    Holdfast__V1__KeyGrant grant = HOLDFAST__V1__KEY_GRANT__INIT, *many[17];
    for (int i = 0; i < 17; i++)
        many[i] = &grant;
    f->authorization = admin->header;
    for (int i = 0; i < 13; i++) {
        static const char *const fields[] = {"name",
                                             "name",
                                             "grants",
                                             "grants",
                                             "grants[0].role",
                                             "grants[0].role",
                                             "grants[0].namespace",
                                             "grants[0].namespace",
                                             "expires_in_ms",
                                             "expires_in_ms",
                                             "rate_per_s",
                                             "rate_burst",
                                             "grants[0].resource_prefix"};
        Holdfast__V1__CreateKeyRequest request = HOLDFAST__V1__CREATE_KEY_REQUEST__INIT;
        holdfast__v1__key_grant__init(&grant);
        grant.role = i == 4 ? HOLDFAST__V1__KEY_GRANT__ROLE__UNSPECIFIED : i == 5 ? 5 : HOLDFAST__V1__KEY_GRANT__ROLE__ADMIN;
        grant.namespace_ = str(i == 7 ? "ns" : "");
        grant.all_namespaces = i != 6;
        grant.resource_prefix = str(i == 12 ? "a\nb" : "");
        request.name = str(i == 0 ? "" : i == 1 ? "a (b)" : "k");
        request.n_grants = i == 2 ? 0 : i == 3 ? 17 : 1;
        request.grants = many;
        request.expires_in_ms = i == 8 ? -1 : i == 9 ? INT64_MAX : 0;
        request.rate_per_s = i == 10 ? 1000001 : 0;
        request.rate_burst = i == 11 ? -1 : 0;
        struct fake_call *call = fake_call(f, ADMIN "CreateKey", &request, 0);
        assert_int_equal(call->status.code, HP_INVALID_ARGUMENT);
        assert_string_equal(call->status.field, fields[i]);
    }
    Holdfast__V1__RevokeKeyRequest revoke = HOLDFAST__V1__REVOKE_KEY_REQUEST__INIT;
    revoke.id = str("no such id");
    assert_string_equal(fake_call(f, ADMIN "RevokeKey", &revoke, 0)->status.field, "id");
    Holdfast__V1__MapSqlRoleRequest map = HOLDFAST__V1__MAP_SQL_ROLE_REQUEST__INIT;
    map.namespace_ = str("ns");
    map.role = str("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"); /* 64 */
    assert_string_equal(fake_call(f, ADMIN "MapSqlRole", &map, 0)->status.field, "role");
    assert_null(ring_item(f, ST_CREATE_PRINCIPAL, NULL));
}

/* Memory that cannot be had at any point lets nobody in, and loses nothing. */
static void without_memory_a_call_is_refused(void **state)
{
    struct fake *f = *state;
    struct ring_key *key = ring_add(&ring, "k", ST_OPERATOR, "", "", "");
    ring_learn(f, &ring);
    for (int fail = 1; fail < 12; fail++) {
        f->fail_alloc = fail;
        struct fake_call *call = get(f, key, "r");
        if (call->answers)
            assert_int_equal(call->status.reason, HP_R_QUEUE_FULL);
        ring_end_items(f);
        Holdfast__V1__BreakRequest request = HOLDFAST__V1__BREAK_REQUEST__INIT;
        request.namespace_ = str("ns");
        request.resource = str("r");
        request.token_seen = 1;
        request.actor = request.reason = str("why");
        call = fake_call(f, LEASE "Break", &request, 0);
        if (call->answers)
            assert_int_equal(call->status.reason, HP_R_QUEUE_FULL);
        ring_end_items(f);
    }
    f->fail_alloc = 0;
    assert_int_equal(svc_in_flight(f->svc), 0);
    assert_true(let_in(f, key));
}

#define KEYS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEYS_TEST(a_first_call_waits_until_its_key_is_known),
        KEYS_TEST(without_an_answer_nobody_is_let_in),
        KEYS_TEST(a_bad_key_costs_no_question_of_its_own),
        KEYS_TEST(revocation_and_changes_count_from_the_next_answer),
        KEYS_TEST(after_a_fail_over_all_is_read_anew_page_by_page),
        KEYS_TEST(what_takes_long_to_read_is_asked_about_once_more),
        KEYS_TEST(a_key_expires_by_the_databases_clock),
        KEYS_TEST(held_calls_may_go_or_be_drained),
        KEYS_TEST(several_keys_are_none),
        KEYS_TEST(a_certificate_is_a_principal_and_a_key_wins),
        KEYS_TEST(who_is_known_is_told_without_a_question),
        KEYS_TEST(a_key_may_call_so_often),
        KEYS_TEST(use_and_denials_are_noted_in_batches),
        KEYS_TEST(what_is_noted_is_bounded),
        KEYS_TEST(waiting_ends_with_the_key),
        KEYS_TEST(streams_end_with_the_key),
        KEYS_TEST(only_ones_own_waiting_is_cancelled),
        KEYS_TEST(the_actor_is_the_principal_and_what_it_says),
        KEYS_TEST(lists_show_what_may_be_seen),
        KEYS_TEST(page_tokens_tell_no_names),
        KEYS_TEST(nobody_gives_more_time_or_calls_than_he_has),
        KEYS_TEST(narrowing_stops_between_characters),
        KEYS_TEST(the_audit_shows_what_may_be_seen),
        KEYS_TEST(namespaces_and_stats_show_what_may_be_seen),
        KEYS_TEST(nobody_makes_keys_beyond_his_own),
        KEYS_TEST(nobody_changes_keys_beyond_his_own),
        KEYS_TEST(keys_are_listed_to_those_who_could_have_made_them),
        KEYS_TEST(a_key_is_told_once_and_good_at_once),
        KEYS_TEST(what_was_asked_before_a_change_is_asked_again),
        KEYS_TEST(bad_requests_for_keys_are_refused),
        KEYS_TEST(without_memory_a_call_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
