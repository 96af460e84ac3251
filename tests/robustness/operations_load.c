/*
 * operations_load.c - see operations_load.h.
 */
#include "robustness/operations_load.h"

#include "harness/harness.h"

#include <holdfast/operation.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/call.h"
#include "client/lib/client.h"
#include "holdfast/v1/operation.pb-c.h"
#include "robustness/case.h"

enum { WINDOW = 8, CALLS_A_KEY = 12, CALL_MS = 3000, MAX_EVENTS = 400000, MAX_PAYMENTS = 20000 };

static const char prints[2][HF_FINGERPRINT_SIZE + 1] = {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"};

struct ol_load {
    atomic_bool stop;
    atomic_uint calls; /* moves the window of keys */
    int late;
    pthread_mutex_t lock; /* of the history, payments and refusals in it */
    struct oo_history history;
    struct oo_payment
        refused[MAX_PAYMENTS]; /* attempts for which nothing is to be paid any more, and the older ones of their keys */
    size_t n_refused;
    struct worker {
        struct ol_load *load;
        int number;
        uint64_t random;
        unsigned serial;
        hf_client *client;
        pthread_t thread;
    } workers[OL_WORKERS + 1]; /* the last one is the operator */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_ms(int64_t ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static bool chance(struct worker *w, int percent)
{
    return case_chance(&w->random, percent);
}

/* ---- the history ---- */

static struct oo_event asked(enum oo_call call, const char *key, int print)
{
    struct oo_event e = {.call = call, .print = print, .from_ns = now_ns()};
    snprintf(e.key, sizeof(e.key), "%s", key);
    return e;
}

static void told(struct worker *w, struct oo_event *e, hf_result result, const hf_error *error, const hf_outcome *outcome)
{
    struct oo_history *h = &w->load->history;
    static const enum oo_told kinds[] = {
        [HF_OUTCOME_STARTED] = OO_STARTED,  [HF_OUTCOME_DONE] = OO_DONE,    [HF_OUTCOME_REPLAYED] = OO_REPLAYED,
        [HF_OUTCOME_IN_PROGRESS] = OO_OPEN, [HF_OUTCOME_UNKNOWN] = OO_OPEN, [HF_OUTCOME_REVIEW] = OO_OPEN};
    e->to_ns = now_ns();
    if (result == HF_OK)
        e->told = !outcome ? OO_DONE : outcome->kind == HF_OUTCOME_REPLAYED && outcome->failed ? OO_FAILED : kinds[outcome->kind];
    else if (result == HF_CONFLICT && strcmp(error->reason, "ACTION_RAISED") != 0) /* which leaves nothing, not even the key */
        e->told = !strcmp(error->reason, "PARAMETER_CONFLICT") ? OO_CONFLICT : OO_REFUSED;
    else if (result == HF_LOST && e->call >= OO_SENDING)
        e->told = OO_REFUSED;
    if (outcome && outcome->result_len)
        snprintf(e->result, sizeof(e->result), "%s", (const char *)outcome->result);
    pthread_mutex_lock(&w->load->lock);
    if (h->n_events == MAX_EVENTS)
        abort();
    h->events[h->n_events++] = *e;
    pthread_mutex_unlock(&w->load->lock);
}

/* ---- the bank ---- */

static void append(struct oo_payment *list, size_t *n, const char *key, int64_t token)
{
    if (*n == MAX_PAYMENTS)
        abort();
    list[*n].token = token;
    snprintf(list[(*n)++].key, OO_TEXT, "%s", key);
}

/* Paid now, unless somebody was told that it was not. */
static bool pay(struct ol_load *load, const char *key, int64_t token)
{
    bool good = true;
    pthread_mutex_lock(&load->lock);
    for (size_t i = 0; i < load->n_refused; i++)
        good = good && (load->refused[i].token < token || strcmp(load->refused[i].key, key) != 0);
    if (good)
        append(load->history.payments, &load->history.n_payments, key, token);
    pthread_mutex_unlock(&load->lock);
    return good;
}

/* Whether it was paid; for this attempt and older ones it won't be from now on. */
static bool was_paid(struct ol_load *load, const char *key, int64_t token)
{
    bool paid = false;
    pthread_mutex_lock(&load->lock);
    for (size_t i = 0; i < load->history.n_payments; i++)
        paid = paid || !strcmp(load->history.payments[i].key, key);
    append(load->refused, &load->n_refused, key, token);
    pthread_mutex_unlock(&load->lock);
    return paid;
}

/* ---- what workers do ---- */

static hf_event event_of(const char *key, const char *result)
{
    return (hf_event){
        .aggregate_type = "op", .aggregate_id = key, .type = "done", .payload = result, .payload_len = strlen(result)};
}

static void make_result(struct worker *w, char result[OO_TEXT])
{
    snprintf(result, OO_TEXT, "%d-%u", w->number, w->serial++);
}

static void complete(struct worker *w, hf_operation *operation)
{
    struct oo_event e = asked(OO_COMPLETE, hf_operation_key(operation), 0);
    make_result(w, e.result);
    const hf_event event = event_of(e.key, e.result);
    const hf_complete_options options = {.events = &event, .n_events = 1};
    hf_error error;
    e.token = hf_operation_token(operation);
    told(w, &e, hf_operation_complete(operation, e.result, strlen(e.result), &options, NULL, &error), &error, NULL);
}

/* As one would who did not look at his lease, once it has ended; past the library. */
static void complete_late(struct worker *w, hf_operation *operation)
{
    Holdfast__V1__CompleteRequest request = HOLDFAST__V1__COMPLETE_REQUEST__INIT;
    Holdfast__V1__Event event = HOLDFAST__V1__EVENT__INIT, *events = &event;
    struct hfi_call call = {.method = HFI_OPERATION "Complete",
                            .request = &request.base,
                            .response_type = &holdfast__v1__finish_response__descriptor,
                            .retry = HFI_RETRY_NEVER};
    hf_error error;
    while (hf_operation_valid(operation) && !w->load->stop)
        pause_ms(20);
    pause_ms(case_below(&w->random, 300));
    struct oo_event e = asked(OO_COMPLETE, hf_operation_key(operation), 0);
    make_result(w, e.result);
    e.token = request.token = hf_operation_token(operation);
    request.namespace_ = (char *)(uintptr_t) "default";
    request.key = event.aggregate_id = e.key;
    request.result.data = event.payload.data = (uint8_t *)e.result;
    request.result.len = event.payload.len = strlen(e.result);
    event.aggregate_type = event.type = (char *)(uintptr_t) "late";
    request.n_events = 1;
    request.events = &events;
    const hf_result result = hfi_call(w->client, &call);
    hfi_error_from_call(&error, result, &call);
    told(w, &e, result, &error, NULL);
    hfi_call_release(&call);
}

/* An effect elsewhere; then the end is told, or said to be not known, or the worker is gone. */
static void send_it(struct worker *w, hf_operation *operation)
{
    struct oo_event e = asked(OO_SENDING, hf_operation_key(operation), 0);
    hf_error error;
    e.token = hf_operation_token(operation);
    const hf_result result = hf_operation_sending(operation, &error);
    told(w, &e, result, &error, NULL);
    if (result != HF_OK || !hf_operation_valid(operation) || !pay(w->load, e.key, e.token))
        return;
    const int end = case_below(&w->random, 4);
    if (end < 2)
        complete(w, operation);
    else if (end == 2)
        (void)!hf_operation_unknown(operation, "no answer", NULL, &error);
}

static void fail_it(struct worker *w, hf_operation *operation)
{
    static const hf_error_class classes[] = {HF_CLASS_TRANSIENT, HF_CLASS_TRANSIENT, HF_CLASS_TRANSIENT, HF_CLASS_CONFLICT,
                                             HF_CLASS_BUSINESS,  HF_CLASS_UNKNOWN,   HF_CLASS_CONFIG,    HF_CLASS_FENCED};
    const hf_failure failure = {.error_class = classes[case_below(&w->random, 8)], .message = "on purpose"};
    hf_error error;
    (void)!hf_operation_fail(operation, &failure, NULL, &error);
}

static void work(struct worker *w, hf_operation *operation)
{
    const int what = case_below(&w->random, 100);
    if (what < w->load->late) {
        complete_late(w, operation);
        return;
    }
    pause_ms(case_below(&w->random, 30));
    if (what % 10 < 4)
        complete(w, operation);
    else if (what % 10 < 7)
        fail_it(w, operation);
    else if (what % 10 < 9)
        send_it(w, operation);
    /* else it is left */
}

static void begin(struct worker *w, const char *key, const char *type, const unsigned char *fingerprint, int print)
{
    const hf_begin_options options = {.key = key,
                                      .type = type,
                                      .fingerprint = fingerprint,
                                      .ttl_ms = 150 + case_below(&w->random, 400),
                                      .wait_ms = chance(w, 30) ? 400 : 0,
                                      .no_renewal = chance(w, 60)};
    struct oo_event e = asked(OO_BEGIN, key, print);
    hf_operation *operation = NULL;
    hf_outcome *outcome = NULL;
    hf_error error;
    const hf_result result = hf_operation_begin(w->client, &options, &operation, &outcome, &error);
    e.token = operation ? hf_operation_token(operation) : 0;
    told(w, &e, result, &error, outcome);
    if (operation)
        work(w, operation);
    hf_operation_free(operation);
    hf_outcome_free(outcome);
}

static void record(struct worker *w, const char *key, int print)
{
    struct oo_event e = asked(OO_RECORD, key, print);
    make_result(w, e.result);
    const hf_event event = event_of(key, e.result);
    const hf_record_options options = {.key = key,
                                       .type = "t",
                                       .fingerprint = (const unsigned char *)prints[print],
                                       .result = e.result,
                                       .result_len = strlen(e.result),
                                       .events = &event,
                                       .n_events = 1};
    hf_outcome *outcome = NULL;
    hf_error error;
    const hf_result result = hf_operation_record(w->client, &options, &outcome, &error);
    told(w, &e, result, &error, outcome);
    hf_outcome_free(outcome);
}

static void execute(struct worker *w, const char *key, int print)
{
    struct oo_event e = asked(OO_EXECUTE, key, print);
    char by[OO_TEXT], args[2 * OO_TEXT];
    make_result(w, by);
    snprintf(args, sizeof(args), "{\"by\": \"%s\"}", by);
    const hf_execute_options options = {
        .key = key, .type = "t", .fingerprint = (const unsigned char *)prints[print], .action = "enter", .args = args};
    hf_outcome *outcome = NULL;
    hf_error error;
    const hf_result result = hf_operation_execute(w->client, &options, &outcome, &error);
    told(w, &e, result, &error, outcome);
    hf_outcome_free(outcome);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    while (!w->load->stop) {
        const unsigned first = atomic_fetch_add(&w->load->calls, 1) / CALLS_A_KEY;
        const int print = chance(w, 10), what = case_below(&w->random, 100);
        char key[OO_TEXT];
        snprintf(key, sizeof(key), "op-%u", first + (unsigned)case_below(&w->random, WINDOW));
        if (what < 12)
            record(w, key, print);
        else if (what < 30)
            execute(w, key, print);
        else
            begin(w, key, "t", (const unsigned char *)prints[print], print);
    }
    return NULL;
}

/* ---- what the operator does ---- */

static void settle(struct worker *w, const hf_operation_info *o)
{
    const hf_decision decision = {.revision = o->revision, .reason = "asked the bank"};
    hf_reconcile_options how = {.outcome = HF_RECONCILED_SUCCEEDED, .result = "paid", .result_len = 4};
    hf_error error;
    if (!was_paid(w->load, o->key, o->token))
        how = (hf_reconcile_options){.outcome = chance(w, 80)   ? HF_RECONCILED_NOT_DONE
                                                : chance(w, 50) ? HF_RECONCILED_FAILED
                                                                : HF_RECONCILED_CANCELLED};
    (void)!hf_operation_reconcile(w->client, o->key, &how, &decision, NULL, &error);
}

static void decide(struct worker *w, const hf_operation_info *o)
{
    const hf_decision decision = {.revision = o->revision, .reason = "mended"};
    hf_error error;
    if (chance(w, 70))
        (void)!hf_operation_retry(w->client, o->key, &decision, NULL, &error);
    else
        (void)!hf_operation_cancel(w->client, o->key, &decision, NULL, &error);
}

/* Asked for twice, done once. */
static void undo(struct worker *w, const hf_operation_info *o)
{
    const hf_compensate_options options = {.type = "undo", .reason = "sent back"};
    hf_compensation undo;
    hf_error error;
    for (int i = 0; i < 2 && strncmp(o->key, "undo:", 5) != 0; i++)
        if (hf_operation_compensate(w->client, o->key, &options, &undo, &error) == HF_OK)
            begin(w, undo.key, "undo", undo.fingerprint, 0);
}

static void each(struct worker *w, hf_operation_state state, const char *prefix, int64_t max,
                 void (*with)(struct worker *, const hf_operation_info *))
{
    const hf_operation_list_options options = {.state = state, .page_size = max, .prefix = prefix};
    hf_operation_page *page = NULL;
    hf_error error;
    if (hf_operation_list(w->client, &options, &page, &error) == HF_OK)
        for (size_t i = 0; i < page->n; i++)
            with(w, &page->operations[i]);
    hf_operation_page_free(page);
}

static void *operator_main(void *arg)
{
    struct worker *w = arg;
    while (!w->load->stop) {
        char prefix[OO_TEXT];
        each(w, HF_OPERATION_UNKNOWN, NULL, 100, settle);
        each(w, HF_OPERATION_REVIEW, NULL, 100, decide);
        snprintf(prefix, sizeof(prefix), "op-%u", w->load->calls / CALLS_A_KEY);
        each(w, HF_OPERATION_SUCCEEDED, prefix, 1, undo);
        pause_ms(100);
    }
    return NULL;
}

/* ---- the load ---- */

struct ol_load *ol_start(const char *const urls[2], uint64_t seed, int late)
{
    struct ol_load *load = calloc(1, sizeof(*load));
    assert_non_null(load);
    pthread_mutex_init(&load->lock, NULL);
    load->late = late;
    load->history.events = calloc(MAX_EVENTS, sizeof(*load->history.events));
    load->history.payments = calloc(MAX_PAYMENTS, sizeof(*load->history.payments));
    assert_true(load->history.events && load->history.payments);
    for (int i = 0; i <= OL_WORKERS; i++) {
        struct worker *w = &load->workers[i];
        const hf_client_options options = {.servers = urls[i % 2], .timeout_ms = CALL_MS};
        hf_error error;
        *w = (struct worker){.load = load, .number = i, .random = seed + (uint64_t)i};
        if (hf_client_new(&options, &w->client, &error) != HF_OK)
            fail_msg("%s", error.message);
        assert_int_equal(pthread_create(&w->thread, NULL, i < OL_WORKERS ? worker_main : operator_main, w), 0);
    }
    return load;
}

void ol_stop(struct ol_load *load)
{
    load->stop = true;
    for (int i = 0; i <= OL_WORKERS; i++) {
        pthread_join(load->workers[i].thread, NULL);
        hf_client_free(load->workers[i].client);
    }
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct oo_event *)a)->key, ((const struct oo_event *)b)->key);
}

const struct oo_history *ol_history(struct ol_load *load, PGconn *conn)
{
    struct oo_history *h = &load->history;
    qsort(h->events, h->n_events, sizeof(*h->events), by_key);
    oo_read(h, conn);
    return h;
}

void ol_free(struct ol_load *load)
{
    free(load->history.events);
    free(load->history.payments);
    free(load->history.operations);
    free(load->history.attempts);
    free(load->history.effects);
    free(load);
}
