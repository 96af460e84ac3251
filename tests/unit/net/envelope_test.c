/*
 * envelope_test.c - envelopes without a socket: what is counted is counted back, whatever fails and in whatever order the
 * calls are answered.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "net/envelope.h"
#include "proto/c/envelope.h"

enum { MAX_CALLS = 16 };

struct fixture {
    struct io io;
    struct net_source source;
    struct net_envelopes envelopes; /* its callbacks find the fixture by it */
    struct hp_call *calls[MAX_CALLS];
    size_t n_calls;
    bool answer_at_once;
    uint8_t *reply; /* the last one */
    size_t reply_len;
    int n_replies, n_drops, n_finished, n_gone;
    struct hp_call *also; /* answered when a call learns that it has gone */
    bool alone;           /* the source has no other envelope: it may end when this one is handed back */
};

static int64_t now_ms(struct io *io)
{
    (void)io;
    return 1000;
}

static void answer(struct hp_call *call)
{
    Holdfast__V1__Call response = HOLDFAST__V1__CALL__INIT;
    response.method = (char *)(uintptr_t)call->method;
    call->answer(call, NULL, &response.base);
}

static void on_call(void *arg, struct hp_call *call)
{
    struct fixture *f = arg;
    if (f->answer_at_once)
        answer(call);
    else
        f->calls[f->n_calls++] = call;
}

static bool on_send(struct net_envelopes *envelopes, void *from, size_t size, void (*write)(void *arg, void *body), void *arg)
{
    struct fixture *f = list_entry(envelopes, struct fixture, envelopes);
    assert_ptr_equal(from, &f->io);
    assert_false(f->source.gone);
    assert_true(!f->alone || list_empty(&f->source.envelopes));
    free(f->reply);
    f->reply = malloc(size + 1);
    f->reply_len = size;
    write(arg, f->reply);
    f->n_replies++;
    return true;
}

static void on_drop(struct net_envelopes *envelopes, void *from)
{
    struct fixture *f = list_entry(envelopes, struct fixture, envelopes);
    assert_ptr_equal(from, &f->io);
    assert_true(!f->alone || (list_empty(&f->source.envelopes) && list_empty(&f->source.told)));
    f->n_drops++;
}

static void on_finished(struct net_envelopes *envelopes)
{
    list_entry(envelopes, struct fixture, envelopes)->n_finished++;
}

static int until_failure; /* 0 = never */

static void *failing_malloc(size_t size)
{
    return until_failure && --until_failure == 0 ? NULL : malloc(size);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->io.now_ms = now_ms;
    net_envelopes_init(&f->envelopes, &f->io, 1 << 20, 30000);
    f->envelopes.on_call = on_call;
    f->envelopes.on_call_arg = f;
    f->envelopes.send = on_send;
    f->envelopes.drop = on_drop;
    net_source_init(&f->source, -1);
    f->envelopes.finished = on_finished;
    hp_malloc_hook = failing_malloc;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    until_failure = 0;
    free(f->reply);
    free(f);
    return 0;
}

static void take_from(struct fixture *f, struct net_source *source, size_t n, size_t payload)
{
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    Holdfast__V1__Call calls[MAX_CALLS], *pointers[MAX_CALLS];
    uint8_t *zeros = calloc(1, payload + 1);
    for (size_t i = 0; i < n; i++) {
        holdfast__v1__call__init(&calls[i]);
        calls[i].method = t_printf("/m%zu", i);
        calls[i].payload.data = zeros;
        calls[i].payload.len = payload;
        pointers[i] = &calls[i];
    }
    envelope.n_calls = n;
    envelope.calls = pointers;
    size_t len = holdfast__v1__call_envelope__get_packed_size(&envelope);
    uint8_t *bytes = malloc(len + 1);
    holdfast__v1__call_envelope__pack(&envelope, bytes);
    net_envelopes_take(&f->envelopes, source, &f->io, bytes, len, 990);
    free(bytes);
    free(zeros);
}

static void take(struct fixture *f, size_t n, size_t payload)
{
    take_from(f, &f->source, n, payload);
}

static void assert_nothing_left(const struct fixture *f)
{
    assert_int_equal(f->envelopes.in_flight, 0);
    assert_int_equal(f->envelopes.bytes, 0);
    assert_true(list_empty(&f->envelopes.list));
    assert_true(list_empty(&f->source.envelopes) && list_empty(&f->source.told));
}

static void replies_keep_the_order_of_the_calls(void **state)
{
    struct fixture *f = *state;
    static const size_t order[] = {2, 0, 3, 1};
    take(f, 4, 10);
    assert_int_equal(f->n_calls, 4);
    assert_int_equal(f->calls[0]->received_ms, 990);
    assert_int_equal(f->calls[0]->deadline_ms, 30990);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(f->n_replies, 0);
        assert_int_equal(f->envelopes.in_flight, 1);
        answer(f->calls[order[i]]);
    }
    assert_int_equal(f->n_replies, 1);
    assert_int_equal(f->n_finished, 1);
    Holdfast__V1__ReplyEnvelope *replies = holdfast__v1__reply_envelope__unpack(NULL, f->reply_len, f->reply);
    assert_int_equal(replies->n_replies, 4);
    for (size_t i = 0; i < 4; i++) {
        Holdfast__V1__Call *call =
            holdfast__v1__call__unpack(NULL, replies->replies[i]->payload.len, replies->replies[i]->payload.data);
        assert_string_equal(call->method, t_printf("/m%zu", i));
        holdfast__v1__call__free_unpacked(call, NULL);
    }
    holdfast__v1__reply_envelope__free_unpacked(replies, NULL);
    assert_nothing_left(f);
}

static void bytes_grow_with_what_is_held(void **state)
{
    struct fixture *f = *state;
    take(f, 2, 100000);
    assert_true(f->envelopes.bytes >= 2 * 2 * 100000);
    answer(f->calls[0]);
    assert_true(f->envelopes.bytes >= 2 * 2 * 100000); /* they are answered together */
    answer(f->calls[1]);
    assert_nothing_left(f);
}

static void orphans_are_answered_to_nobody(void **state)
{
    struct fixture *f = *state;
    take(f, 3, 10);
    answer(f->calls[1]);
    net_envelopes_orphan(&f->envelopes);
    answer(f->calls[0]);
    answer(f->calls[2]);
    assert_int_equal(f->n_replies, 0);
    assert_int_equal(f->n_finished, 0);
}

/* ---- callers that are gone ---- */

static void on_gone(struct hp_call *call)
{
    struct fixture *f = call->service;
    f->n_gone++;
    if (f->also && f->also != call) {
        struct hp_call *also = f->also;
        f->also = NULL;
        answer(also);
    }
    answer(call);
}

static void care(struct fixture *f, size_t i)
{
    f->calls[i]->gone = on_gone;
    f->calls[i]->service = f;
}

static void each_call_of_a_source_that_is_gone_learns_of_it(void **state)
{
    struct fixture *f = *state;
    struct net_source other;
    net_source_init(&other, -1);
    take(f, 3, 10);
    take(f, 2, 10);
    take_from(f, &other, 1, 10);
    for (size_t i = 0; i < 6; i++)
        care(f, i);
    f->calls[4]->gone = NULL; /* doesn't care */
    answer(f->calls[1]);
    net_source_gone(&f->source);
    assert_int_equal(f->n_gone, 3); /* not the one that was answered, and not that of the other source */
    assert_int_equal(f->n_drops, 1);
    assert_int_equal(f->envelopes.in_flight, 2);
    answer(f->calls[4]);
    assert_int_equal(f->n_drops, 2);
    assert_int_equal(f->n_replies, 0);
    assert_int_equal(f->envelopes.n_dropped, 0); /* nobody misses them */
    f->source.gone = false;                      /* for on_send */
    answer(f->calls[5]);
    assert_int_equal(f->n_replies, 1);
    assert_nothing_left(f);
}

static void learning_of_it_may_end_other_envelopes(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < 4; i++) {
        take(f, 1, 10);
        care(f, i);
    }
    f->also = f->calls[1]; /* the very next one */
    net_source_gone(&f->source);
    assert_int_equal(f->n_gone, 3);
    assert_int_equal(f->n_drops, 4);
    assert_nothing_left(f);
}

static void what_comes_from_a_source_that_is_gone_is_done_all_the_same(void **state)
{
    struct fixture *f = *state;
    net_source_gone(&f->source);
    take(f, 2, 10);
    assert_int_equal(f->n_calls, 2);
    answer(f->calls[0]);
    answer(f->calls[1]);
    f->answer_at_once = true;
    take(f, 2, 10);
    assert_int_equal(f->n_drops, 2);
    assert_int_equal(f->n_replies, 0);
    assert_nothing_left(f);
}

/* A connection that is gone is held by its envelopes only: it goes while the last one is being handed back. */
static void an_envelope_has_left_its_source_when_it_is_handed_back(void **state)
{
    struct fixture *f = *state;
    f->alone = true;
    take(f, 2, 10);
    answer(f->calls[0]);
    answer(f->calls[1]);
    take(f, 1, 10);
    net_source_gone(&f->source);
    answer(f->calls[2]);
    take(f, 1, 10); /* it was on its way */
    answer(f->calls[3]);
    net_envelopes_take(&f->envelopes, &f->source, &f->io, "\xff", 1, 990); /* refused */
    assert_int_equal(f->n_replies, 1);
    assert_int_equal(f->n_drops, 3);
    assert_nothing_left(f);
}

/* Each allocation fails once, in turn: there is a reply, or the loss of one is counted; nothing stays behind. */
static void without_memory_nothing_leaks(void **state)
{
    struct fixture *f = *state;
    int replies = 0;
    f->answer_at_once = true;
    for (int i = 1; i <= 60; i++) {
        until_failure = i;
        take(f, 8, 3000);
        assert_nothing_left(f);
        replies = f->n_replies;
        assert_int_equal(f->n_replies + f->envelopes.n_dropped, i);
        assert_int_equal(f->n_replies + f->n_drops, i); /* each goes back to where it came from */
        assert_int_equal(f->envelopes.n_envelopes, i);
    }
    assert_true(replies > 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(replies_keep_the_order_of_the_calls),    T(bytes_grow_with_what_is_held),
        T(orphans_are_answered_to_nobody),         T(each_call_of_a_source_that_is_gone_learns_of_it),
        T(learning_of_it_may_end_other_envelopes), T(what_comes_from_a_source_that_is_gone_is_done_all_the_same),
        T(without_memory_nothing_leaks),           T(an_envelope_has_left_its_source_when_it_is_handed_back),
    };
    return cmocka_run_group_tests(tests, NULL, t_teardown);
}
