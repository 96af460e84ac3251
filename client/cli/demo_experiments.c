/*
 * demo_experiments.c - the experiments of `holdfast demo operations`. Each counts effects where they would happen, in the caller:
 * an effect is what a caller does who was told "started", and nobody else. See demo_operations.h.
 */
#include "client/cli/demo_operations.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALL(demo, method, type, request, refused)                                                                                 \
    ((const void *)demo_call(demo, HFI_OPERATION method, &holdfast__v1__##type##__descriptor, &(request).base, refused))

enum { BEGIN_WAIT_MS = 20000, SHORT_TTL_MS = 1500 };

static double now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1000 + (double)ts.tv_nsec / 1e6;
}

static void complete_of(const Holdfast__V1__BeginRequest *begin, int64_t token, const char *result,
                        Holdfast__V1__CompleteRequest *request)
{
    holdfast__v1__complete_request__init(request);
    request->namespace_ = begin->namespace_;
    request->key = begin->key;
    request->token = token;
    request->result.data = (uint8_t *)(uintptr_t)result;
    request->result.len = strlen(result);
}

static const Holdfast__V1__BeginResponse *begin_one(struct demo_ops *demo, const Holdfast__V1__BeginRequest *request,
                                                    enum hp_reason *refused)
{
    return CALL(demo, "Begin", begin_response, *request, refused);
}

static int64_t token_of(const Holdfast__V1__BeginResponse *begun)
{
    return begun && begun->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED ? begun->started->token : 0;
}

/* ---- many callers at once: machines that each do one thing after the other ---- */

struct machine {
    size_t key;
    int step;
    int64_t token;
    struct demo_names names;
    Holdfast__V1__BeginRequest begin;
};

struct crowd {
    struct demo_ops *demo;
    const char *experiment;
    size_t n, next, keys; /* machines in all, not begun yet; keys they share */
    unsigned *effects;    /* by key */
    size_t replays, attempts, failures, effect_count;
    unsigned seed;
    struct machine machines[DEMO_SLOTS];
    /* The machine's next call, or its answer. step: what the machine's own. -1 = the run has failed, 0 = done, 1 = goes on */
    int (*go)(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call, bool answered);
};

static int start_next(struct crowd *crowd, struct hfi_async_call *call)
{
    struct machine *machine = call->arg;

    while (crowd->next < crowd->n) {
        *machine = (struct machine){.key = crowd->next++ % crowd->n};
        machine->key = machine->key * crowd->keys / crowd->n; /* neighbours share a key, and so fly together */
        const int result = crowd->go(crowd, machine, call, false);
        if (result)
            return result;
    }
    return 0;
}

static bool run_crowd(struct crowd *crowd)
{
    size_t flying = 0;

    crowd->effects = calloc(crowd->keys, sizeof(*crowd->effects));
    if (!crowd->effects)
        return false;
    for (size_t i = 0; i < DEMO_SLOTS; i++) {
        struct hfi_async_call *call = hfi_async_call(crowd->demo->async, i);
        call->arg = &crowd->machines[i];
        const int result = start_next(crowd, call);
        if (result < 0)
            return false;
        flying += (size_t)result;
    }
    while (flying > 0) {
        struct hfi_async_call *call = hfi_async_next(crowd->demo->async, HFI_NEVER);
        int result = crowd->go(crowd, call->arg, call, true);
        if (result == 0)
            result = start_next(crowd, call);
        if (result < 0)
            return false;
        flying -= result == 0;
    }
    return true;
}

static void effect(struct crowd *crowd, size_t key)
{
    crowd->effects[key]++;
    crowd->effect_count++;
}

static int send_begin(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call, int64_t wait_ms)
{
    demo_begin(crowd->demo, &machine->begin, &machine->names, crowd->experiment, machine->key, 1, "demo");
    machine->begin.wait_ms = wait_ms;
    return demo_start(crowd->demo, call, HFI_OPERATION "Begin", &holdfast__v1__begin_response__descriptor, &machine->begin.base,
                      wait_ms)
               ? 1
               : -1;
}

static int send_complete(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call)
{
    Holdfast__V1__CompleteRequest request;

    complete_of(&machine->begin, machine->token, "done", &request);
    return demo_start(crowd->demo, call, HFI_OPERATION "Complete", &holdfast__v1__finish_response__descriptor, &request.base, 0)
               ? 1
               : -1;
}

/* ---- duplicates ---- */

static int duplicate(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call, bool answered)
{
    if (!answered)
        return send_begin(crowd, machine, call, BEGIN_WAIT_MS);
    if (call->result != HF_OK)
        return demo_failed(crowd->demo, call), -1;
    if (machine->step == 1)
        return 0;
    machine->token = token_of((const Holdfast__V1__BeginResponse *)call->response);
    crowd->replays +=
        ((const Holdfast__V1__BeginResponse *)call->response)->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED;
    if (!machine->token)
        return 0;
    effect(crowd, machine->key);
    machine->step = 1;
    return send_complete(crowd, machine, call);
}

/* Looks first whether the key is there, works if it is not, and keeps the record afterwards. */
static int look_first(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call, bool answered)
{
    if (!answered) {
        Holdfast__V1__GetOperationRequest request = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
        demo_begin(crowd->demo, &machine->begin, &machine->names, crowd->experiment, machine->key, 1, "demo");
        request.namespace_ = machine->begin.namespace_;
        request.key = machine->begin.key;
        return demo_start(crowd->demo, call, HFI_OPERATION "Get", &holdfast__v1__get_operation_response__descriptor, &request.base,
                          0)
                   ? 1
                   : -1;
    }
    if (machine->step == 1)
        return call->result == HF_OK ? 0 : (demo_failed(crowd->demo, call), -1);
    if (call->result == HF_OK)
        return 0;
    if (call->status.reason != HP_R_NO_SUCH_OPERATION)
        return demo_failed(crowd->demo, call), -1;
    effect(crowd, machine->key);
    machine->step = 1;
    Holdfast__V1__RecordRequest request = HOLDFAST__V1__RECORD_REQUEST__INIT;
    request.namespace_ = machine->begin.namespace_;
    request.key = machine->begin.key;
    request.type = machine->begin.type;
    request.parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
    request.fingerprint = machine->begin.fingerprint;
    return demo_start(crowd->demo, call, HFI_OPERATION "Record", &holdfast__v1__record_response__descriptor, &request.base, 0) ? 1
                                                                                                                               : -1;
}

static bool duplicates(struct demo_ops *demo, bool *good)
{
    struct crowd *crowds = calloc(2, sizeof(*crowds));
    bool ran;

    if (!crowds)
        return false;
    crowds[0] = (struct crowd){.demo = demo, .experiment = "duplicates", .n = 1600, .keys = 200, .go = duplicate};
    crowds[1] = (struct crowd){.demo = demo, .experiment = "look-first", .n = 1600, .keys = 200, .go = look_first};
    ran = run_crowd(&crowds[0]) && run_crowd(&crowds[1]);
    *good = ran && crowds[0].effect_count == 200 && crowds[0].replays == 1400;
    for (size_t i = 0; ran && i < 200; i++)
        *good = *good && crowds[0].effects[i] == 1;
    snprintf(demo->expected, sizeof(demo->expected),
             "200 effects and 1,400 replays; looking first, then working, gives many more effects");
    snprintf(demo->measured, sizeof(demo->measured), "%zu effects and %zu replays; looking first gave %zu effects",
             crowds[0].effect_count, crowds[0].replays, crowds[1].effect_count);
    free(crowds[0].effects);
    free(crowds[1].effects);
    free(crowds);
    return ran;
}

/* ---- failures ---- */

static bool fails(struct crowd *crowd)
{
    crowd->seed = crowd->seed * 1103515245u + 12345u;
    return (crowd->seed >> 16) % 100 < 20;
}

static int begun_or_not(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call)
{
    machine->token = token_of((const Holdfast__V1__BeginResponse *)call->response);
    if (!machine->token) {
        const Holdfast__V1__BeginResponse *begun = (const Holdfast__V1__BeginResponse *)call->response;
        if (begun->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED) {
            crowd->replays++;
            return 0;
        }
        return send_begin(crowd, machine, call, BEGIN_WAIT_MS); /* its retry is not due yet: waits for that */
    }
    crowd->attempts++;
    if (fails(crowd)) {
        Holdfast__V1__FailRequest request = HOLDFAST__V1__FAIL_REQUEST__INIT;
        crowd->failures++;
        machine->step = 1;
        request.namespace_ = machine->begin.namespace_;
        request.key = machine->begin.key;
        request.token = machine->token;
        request.error_class = HOLDFAST__V1__ERROR_CLASS__KIND__TRANSIENT;
        request.message = (char *)(uintptr_t) "a failure on purpose";
        return demo_start(crowd->demo, call, HFI_OPERATION "Fail", &holdfast__v1__finish_response__descriptor, &request.base, 0)
                   ? 1
                   : -1;
    }
    effect(crowd, machine->key);
    machine->step = 2;
    return send_complete(crowd, machine, call);
}

/* After its answer every work is asked for once more, as by a caller who never heard it. */
static int fail_and_retry(struct crowd *crowd, struct machine *machine, struct hfi_async_call *call, bool answered)
{
    if (!answered)
        return send_begin(crowd, machine, call, BEGIN_WAIT_MS);
    if (call->result != HF_OK)
        return demo_failed(crowd->demo, call), -1;
    if (machine->step == 0)
        return begun_or_not(crowd, machine, call);
    machine->step = 0;
    return send_begin(crowd, machine, call, BEGIN_WAIT_MS);
}

static bool failures(struct demo_ops *demo, bool *good)
{
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    size_t lost = 0, twice = 0;
    bool ran;

    if (!crowd)
        return false;
    *crowd =
        (struct crowd){.demo = demo, .experiment = "failures", .n = 1000, .keys = 1000, .seed = 20260731, .go = fail_and_retry};
    ran = demo_policy(demo, "failures", false) && run_crowd(crowd);
    for (size_t i = 0; ran && i < 1000; i++) {
        lost += crowd->effects[i] == 0;
        twice += crowd->effects[i] > 1;
    }
    *good = ran && !lost && !twice && crowd->replays == 1000;
    snprintf(demo->expected, sizeof(demo->expected), "1,000 effects, 0 lost, 0 twice; asked again, 1,000 replays");
    snprintf(demo->measured, sizeof(demo->measured),
             "%zu effects, %zu lost, %zu twice; %zu replays (%zu attempts, %zu of them failed)", crowd->effect_count, lost, twice,
             crowd->replays, crowd->attempts, crowd->failures);
    free(crowd->effects);
    free(crowd);
    return ran;
}

/* ---- a duplicate while it runs ---- */

struct timed {
    double in_progress_ms, waited_ms, late_ms;
    double from_start_ms; /* to the answer of the one that waited */
    bool told, replayed, late;
};

static bool is_replayed(const Holdfast__V1__BeginResponse *begun)
{
    return begun && begun->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED && begun->replayed->result.len == 4 &&
           !memcmp(begun->replayed->result.data, "paid", 4);
}

/* The second caller waits in a call of its own while the first one goes on. */
static bool wait_for_first(struct demo_ops *demo, const Holdfast__V1__BeginRequest *begin, int64_t token, double start,
                           struct timed *t)
{
    struct hfi_async_call *waiting = hfi_async_call(demo->async, 1), *answered;
    struct demo_names names;
    Holdfast__V1__BeginRequest again;
    Holdfast__V1__CompleteRequest complete;
    const double sent = now_ms();

    demo_begin(demo, &again, &names, "timing", 0, 1, "third");
    again.wait_ms = BEGIN_WAIT_MS;
    if (!demo_start(demo, waiting, HFI_OPERATION "Begin", &holdfast__v1__begin_response__descriptor, &again.base, again.wait_ms))
        return false;
    (void)hfi_async_next(demo->async, hfi_boot_ms() + (int64_t)(300 - (now_ms() - start)));
    complete_of(begin, token, "paid", &complete);
    struct hfi_async_call *completing = hfi_async_call(demo->async, 2);
    if (!demo_start(demo, completing, HFI_OPERATION "Complete", &holdfast__v1__finish_response__descriptor, &complete.base, 0))
        return false;
    while (hfi_async_open(demo->async) > 0) {
        answered = hfi_async_next(demo->async, HFI_NEVER);
        if (answered->result != HF_OK)
            return demo_failed(demo, answered);
        if (answered == waiting) {
            t->waited_ms = now_ms() - sent;
            t->from_start_ms = now_ms() - start;
        }
    }
    t->replayed = is_replayed((const Holdfast__V1__BeginResponse *)waiting->response);
    return true;
}

static bool timing(struct demo_ops *demo, bool *good)
{
    struct demo_names names, other;
    Holdfast__V1__BeginRequest begin, again;
    struct timed t = {0};
    const double start = now_ms();

    demo_begin(demo, &begin, &names, "timing", 0, 1, "first");
    const int64_t token = token_of(begin_one(demo, &begin, NULL));
    if (!token)
        return false;
    demo_sleep(100);
    demo_begin(demo, &again, &other, "timing", 0, 1, "second");
    double sent = now_ms();
    const Holdfast__V1__BeginResponse *begun = begin_one(demo, &again, NULL);
    t.in_progress_ms = now_ms() - sent;
    if (!begun)
        return false;
    t.told =
        begun->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS && !strcmp(begun->in_progress->holder, "first");
    if (!wait_for_first(demo, &begin, token, start, &t))
        return false;
    demo_sleep(200);
    sent = now_ms();
    begun = begin_one(demo, &again, NULL);
    t.late_ms = now_ms() - sent;
    if (!begun)
        return false;
    t.late = is_replayed(begun);
    /* It was answered by the end of the work; how long it waited for that hangs on when a busy machine let it come. */
    *good = t.told && t.replayed && t.late && t.from_start_ms >= 290;
    snprintf(demo->expected, sizeof(demo->expected),
             "in progress at once; or, waiting, the stored result after about 200 ms; later at once");
    snprintf(demo->measured, sizeof(demo->measured), "%s after %.1f ms; waiting, %s after %.0f ms; later %s after %.1f ms",
             t.told ? "in progress" : "NOT in progress", t.in_progress_ms, t.replayed ? "the result" : "NO result", t.waited_ms,
             t.late ? "the result" : "NO result", t.late_ms);
    return true;
}

/* ---- takeover ---- */

static bool takeover(struct demo_ops *demo, bool *good)
{
    struct demo_names names[2];
    Holdfast__V1__BeginRequest first, second;
    Holdfast__V1__CompleteRequest complete;
    enum hp_reason refused;

    demo_begin(demo, &first, &names[0], "takeover", 0, 1, "first");
    demo_begin(demo, &second, &names[1], "takeover", 0, 1, "second");
    first.ttl_ms = SHORT_TTL_MS;
    if (!demo_policy(demo, "takeover", true))
        return false;
    const int64_t old = token_of(begin_one(demo, &first, NULL));
    if (!old)
        return false;
    demo_sleep(SHORT_TTL_MS + 100);
    const Holdfast__V1__BeginResponse *begun = begin_one(demo, &second, NULL);
    if (!begun)
        return false;
    const int64_t token = token_of(begun);
    const bool taken =
        token > old && begun->started->attempt == 2 && begun->started->trigger == HOLDFAST__V1__TRIGGER__KIND__TAKEOVER;
    complete_of(&first, old, "10", &complete);
    if (CALL(demo, "Complete", finish_response, complete, &refused) == NULL && !refused)
        return false;
    complete_of(&second, token, "20", &complete);
    if (token && !CALL(demo, "Complete", finish_response, complete, NULL))
        return false;
    begun = begin_one(demo, &first, NULL);
    if (!begun)
        return false;
    const bool stands = begun->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED && begun->replayed->result.len == 2 &&
                        !memcmp(begun->replayed->result.data, "20", 2);
    *good = taken && refused == HP_R_STALE_TOKEN && stands;
    snprintf(demo->expected, sizeof(demo->expected),
             "a takeover with a higher token; the first owner's late result STALE_TOKEN; 20 stands");
    snprintf(demo->measured, sizeof(demo->measured), "%s (token %" PRId64 " after %" PRId64 "); the late result %s; %s",
             taken ? "a takeover" : "NO takeover", token, old, refused ? hp_reason_name((int)refused) : "ACCEPTED",
             stands ? "20 stands" : "20 does NOT stand");
    return true;
}

/* ---- the contract of a payment ---- */

static bool payment(struct demo_ops *demo, bool *good)
{
    struct demo_names names;
    Holdfast__V1__BeginRequest begin;
    Holdfast__V1__RecordRequest request[2];
    size_t inserted = 0, reused = 0;
    char kept[2][16] = {"", ""};
    enum hp_reason refused;

    demo_begin(demo, &begin, &names, "payment", 0, 1, "caller");
    for (size_t i = 0; i < 2; i++) {
        holdfast__v1__record_request__init(&request[i]);
        request[i].namespace_ = begin.namespace_;
        request[i].key = begin.key;
        request[i].type = begin.type;
        request[i].parameters_case = HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_FINGERPRINT;
        request[i].fingerprint = begin.fingerprint;
        request[i].result.data = (uint8_t *)(uintptr_t)(i ? "payment-B" : "payment-A"); /* the id that this caller proposes */
        request[i].result.len = 9;
        if (!demo_start(demo, hfi_async_call(demo->async, i), HFI_OPERATION "Record", &holdfast__v1__record_response__descriptor,
                        &request[i].base, 0))
            return false;
    }
    while (hfi_async_open(demo->async) > 0) {
        struct hfi_async_call *call = hfi_async_next(demo->async, HFI_NEVER);
        const size_t i = call == hfi_async_call(demo->async, 1);
        if (call->result != HF_OK)
            return demo_failed(demo, call);
        const Holdfast__V1__RecordResponse *response = (const Holdfast__V1__RecordResponse *)call->response;
        inserted += !response->replayed;
        reused += response->replayed;
        snprintf(kept[i], sizeof(kept[i]), "%.*s", response->replayed ? (int)response->result.len : 9,
                 response->replayed ? (const char *)response->result.data : (const char *)request[i].result.data);
    }
    names.fingerprint[0] ^= 1;
    if (!CALL(demo, "Record", record_response, request[0], &refused) && !refused)
        return false;
    *good = inserted == 1 && reused == 1 && !strcmp(kept[0], kept[1]) && refused == HP_R_PARAMETER_CONFLICT;
    snprintf(demo->expected, sizeof(demo->expected),
             "inserted 1, reused 1, one payment for both; other parameters PARAMETER_CONFLICT");
    snprintf(demo->measured, sizeof(demo->measured),
             "inserted %zu, reused %zu, %s for one and %s for the other; other parameters %s", inserted, reused, kept[0], kept[1],
             refused ? hp_reason_name((int)refused) : "ACCEPTED");
    return true;
}

/* ---- unknown ---- */

static bool unknown(struct demo_ops *demo, bool *good)
{
    struct demo_names names;
    Holdfast__V1__BeginRequest begin;
    Holdfast__V1__MarkSendingRequest sending = HOLDFAST__V1__MARK_SENDING_REQUEST__INIT;
    Holdfast__V1__GetOperationRequest get = HOLDFAST__V1__GET_OPERATION_REQUEST__INIT;
    Holdfast__V1__RetryRequest retry = HOLDFAST__V1__RETRY_REQUEST__INIT;
    Holdfast__V1__CompensateRequest undo = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
    Holdfast__V1__ReconcileRequest reconcile = HOLDFAST__V1__RECONCILE_REQUEST__INIT;
    enum hp_reason retried, undone;

    demo_begin(demo, &begin, &names, "unknown", 0, 1, "first");
    begin.ttl_ms = SHORT_TTL_MS;
    sending.namespace_ = get.namespace_ = retry.namespace_ = undo.namespace_ = reconcile.namespace_ = begin.namespace_;
    sending.key = get.key = retry.key = undo.key = reconcile.key = begin.key;
    retry.actor = undo.actor = reconcile.actor = (char *)(uintptr_t) "demo";
    retry.reason = undo.reason = reconcile.reason = (char *)(uintptr_t) "to see what happens";
    sending.token = token_of(begin_one(demo, &begin, NULL));
    if (!sending.token || !CALL(demo, "MarkSending", mark_sending_response, sending, NULL))
        return false;
    demo_sleep(SHORT_TTL_MS + 100);
    const Holdfast__V1__BeginResponse *begun = begin_one(demo, &begin, NULL);
    if (!begun)
        return false;
    const bool is_unknown = begun->outcome_case == HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN;
    const Holdfast__V1__GetOperationResponse *got = CALL(demo, "Get", get_operation_response, get, NULL);
    if (!got)
        return false;
    retry.revision = reconcile.revision = got->operation->revision;
    undo.type = begin.type;
    if ((!CALL(demo, "Retry", decide_response, retry, &retried) && !retried) ||
        (!CALL(demo, "Compensate", compensate_response, undo, &undone) && !undone))
        return false;
    reconcile.outcome = HOLDFAST__V1__RECONCILE_REQUEST__OUTCOME__SUCCEEDED;
    reconcile.result.data = (uint8_t *)(uintptr_t) "paid";
    reconcile.result.len = 4;
    if (!CALL(demo, "Reconcile", decide_response, reconcile, NULL))
        return false;
    begun = begin_one(demo, &begin, NULL);
    if (!begun)
        return false;
    *good = is_unknown && retried == HP_R_OUTCOME_UNKNOWN && undone == HP_R_OUTCOME_UNKNOWN && is_replayed(begun);
    snprintf(demo->expected, sizeof(demo->expected),
             "unknown, and not run again; Retry and Compensate OUTCOME_UNKNOWN; reconciled, the result is replayed");
    snprintf(demo->measured, sizeof(demo->measured), "%s; Retry %s, Compensate %s; reconciled, %s",
             is_unknown ? "unknown" : "NOT unknown", retried ? hp_reason_name((int)retried) : "ACCEPTED",
             undone ? hp_reason_name((int)undone) : "ACCEPTED", is_replayed(begun) ? "the result is replayed" : "NO result");
    return true;
}

/* ---- compensation ---- */

static bool compensation(struct demo_ops *demo, bool *good)
{
    struct demo_names names;
    Holdfast__V1__BeginRequest begin;
    Holdfast__V1__CompleteRequest complete;
    Holdfast__V1__CompensateRequest undo = HOLDFAST__V1__COMPENSATE_REQUEST__INIT;
    char key[2][HF_NAME_MAX + 1];
    bool replayed[2];

    demo_begin(demo, &begin, &names, "compensation", 0, 1, "first");
    const int64_t token = token_of(begin_one(demo, &begin, NULL));
    complete_of(&begin, token, "paid", &complete);
    if (!token || !CALL(demo, "Complete", finish_response, complete, NULL))
        return false;
    undo.namespace_ = begin.namespace_;
    undo.key = begin.key;
    undo.type = begin.type;
    undo.actor = (char *)(uintptr_t) "demo";
    undo.reason = (char *)(uintptr_t) "the customer wants the money back";
    for (size_t i = 0; i < 2; i++) {
        const Holdfast__V1__CompensateResponse *undone = CALL(demo, "Compensate", compensate_response, undo, NULL);
        if (!undone)
            return false;
        snprintf(key[i], sizeof(key[i]), "%s", undone->key);
        replayed[i] = undone->replayed;
    }
    *good = !replayed[0] && replayed[1] && !strcmp(key[0], key[1]);
    snprintf(demo->expected, sizeof(demo->expected), "asked for twice, one compensation: made, then the same one again");
    snprintf(demo->measured, sizeof(demo->measured), "%s, then %s", replayed[0] ? "NOT made" : "made",
             replayed[1] && !strcmp(key[0], key[1]) ? "the same one again" : "ANOTHER one");
    return true;
}

const struct demo_experiment demo_experiments[] = {
    {"200 keys, 8 callers of each at once", duplicates},
    {"1,000 keys, every fifth attempt fails, retried until done", failures},
    {"A duplicate 100 ms into a work of 300 ms", timing},
    {"The owner's lease ends, another takes over, the first one's result comes late", takeover},
    {"A payment: two callers propose different ids under one key", payment},
    {"An effect may have been sent when its sender was lost", unknown},
    {"A compensation is asked for twice", compensation},
    {NULL, NULL},
};
