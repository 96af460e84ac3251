/*
 * bench_run.c - one process of a bench: it leases its resources, keeps its calls in flight through the warm-up and the measured
 * window, then reads everything back and gives it back. See bench.h.
 */
#include "client/cli/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Slots for what stands before and behind the window, where nothing is measured; how often a quiet process looks for the end; how
 * long it waits for the answers of calls that no longer matter. */
enum { SLOTS_MIN = 64, LOOK_MS = 50, DRAIN_MS = 5000 };

int64_t bench_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

bool bench_wrong(struct bench_run *run, const char *format, ...)
{
    va_list args;

    if (!run->failed && !run->quiet) {
        va_start(args, format);
        vsnprintf(run->part->wrong, sizeof(run->part->wrong), format, args);
        va_end(args);
    }
    run->failed = true;
    return false;
}

bool bench_call_failed(struct bench_run *run, const struct hfi_async_call *call, const char *what, const char *name)
{
    if (!run->failed && !run->quiet) {
        run->part->status = call->status;
        snprintf(run->part->status.message, sizeof(run->part->status.message), "%s of %s: %.300s", what, name,
                 call->status.message);
        run->part->unreachable = call->unreachable;
        run->part->exit = cli_exit_of(&call->status, call->unreachable);
    }
    run->failed = true;
    return false;
}

static bool failed(struct bench_run *run, int exit_status, enum hp_reason reason, const char *message)
{
    hp_status_set(&run->part->status, reason, "%s", message);
    run->part->exit = exit_status;
    run->failed = true;
    return false;
}

/* This process's share. */
static int64_t share(int64_t all, const struct bench_run *run)
{
    const int64_t n = run->options->processes;

    return all / n + (run->process < all % n);
}

/* ---- what stands before and behind ---- */

/* Answers that nobody judges any more. */
static void drain(struct bench_run *run)
{
    const int64_t until = hfi_boot_ms() + DRAIN_MS;

    while (hfi_async_open(run->async) > 0 && hfi_async_next(run->async, until))
        ;
}

static struct bench_key *next_of(struct bench_run *run, const struct bench_stage *stage, size_t *at)
{
    while (*at < run->n_keys) {
        struct bench_key *key = &run->keys[(*at)++];
        if ((!stage->only_held || key->held) && (!stage->only_used || key->writes))
            return key;
    }
    return NULL;
}

bool bench_each(struct bench_run *run, const struct bench_stage *stage)
{
    struct bench_key **under_way = calloc(run->n_slots, sizeof(*under_way));
    size_t at = 0;

    if (!under_way)
        return bench_wrong(run, "no memory");
    for (size_t i = 0; i < run->n_slots && !run->failed; i++) {
        under_way[i] = next_of(run, stage, &at);
        if (!under_way[i] || !stage->send(&run->slots[i], under_way[i]))
            break;
    }
    while (!run->failed && hfi_async_open(run->async) > 0) {
        struct hfi_async_call *call = hfi_async_next(run->async, HFI_NEVER);
        struct bench_slot *slot = call->arg;
        struct bench_key **key = &under_way[slot - run->slots];
        if (!stage->took(slot, *key))
            break;
        *key = next_of(run, stage, &at);
        if (*key && !stage->send(slot, *key))
            break;
    }
    free(under_way);
    if (run->failed)
        drain(run);
    return !run->failed;
}

static bool acquire_key(struct bench_slot *slot, struct bench_key *key)
{
    return bench_send_acquire(slot, key, 0);
}

static bool took_key(struct bench_slot *slot, struct bench_key *key)
{
    return bench_took_grant(slot, key, NULL);
}

static const struct bench_stage lease_all = {acquire_key, took_key};
static const struct bench_stage read_all = {bench_send_read, bench_took_read};
static const struct bench_stage check_held = {bench_send_check, bench_took_check, true};
static const struct bench_stage release_held = {bench_send_release, bench_took_release, true};

/* What is still leased is given back, even if something went wrong; then nobody minds how that goes. */
static void clean_up(struct bench_run *run)
{
    const bool before = run->failed;

    run->quiet = before;
    run->failed = false;
    run->failed = !bench_each(run, &release_held) || before;
}

/* ---- the window ---- */

/* All processes begin together. */
static bool wait_for_start(struct bench_run *run)
{
    struct bench_shared *shared = run->shared;

    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->t0) == 0 && !atomic_load(&shared->stop))
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    return !atomic_load(&shared->stop);
}

struct window {
    int64_t from_ns, to_ns;
};

static void count(struct bench_run *run, const struct bench_slot *slot, const struct window *window, int64_t now)
{
    if (now < window->from_ns || now >= window->to_ns)
        return;
    run->part->ops += slot->count;
    bench_hist_add(&run->part->hist, now - slot->start_ns);
    atomic_store_explicit(&run->part->ops_now, run->part->ops, memory_order_relaxed);
}

/* No other operation begins. */
static bool is_over(struct bench_run *run, const struct window *window, int64_t now)
{
    if (now >= window->to_ns || atomic_load_explicit(&run->shared->stop, memory_order_relaxed))
        return true;
    return run->options->operations && run->to_begin-- <= 0;
}

/* A call of this slot was answered: what comes next. False: the run has failed. */
static bool go_on(struct bench_run *run, struct bench_slot *slot, const struct window *window)
{
    const struct bench_kind *kind = run->options->kind;
    enum bench_next next;
    int64_t now;

    slot->count = 1;
    next = kind->answered(slot);
    if (next == BENCH_FAILED)
        return false;
    if (next == BENCH_MORE)
        return kind->send(slot);
    now = bench_now_ns();
    if (next == BENCH_DONE)
        count(run, slot, window, now);
    if (slot->step == 0 && is_over(run, window, now))
        return true;
    slot->start_ns = now;
    return kind->send(slot);
}

static void work(struct bench_run *run)
{
    const int64_t t0 = atomic_load(&run->shared->t0);
    struct window window = {.from_ns = t0 + run->options->warm_up_ms * 1000000};
    int64_t ended;

    window.to_ns = run->options->operations ? INT64_MAX : window.from_ns + run->options->duration_ms * 1000000;
    run->to_begin = share(run->options->operations, run);
    for (size_t i = 0; i < run->concurrency && !run->failed && !is_over(run, &window, t0); i++) {
        run->slots[i].start_ns = bench_now_ns();
        (void)run->options->kind->send(&run->slots[i]);
    }
    while (!run->failed && hfi_async_open(run->async) > 0) {
        struct hfi_async_call *call = hfi_async_next(run->async, HFI_NEVER);
        if (!go_on(run, call->arg, &window))
            break;
    }
    ended = bench_now_ns();
    run->part->ns = (ended < window.to_ns ? ended : window.to_ns) - window.from_ns;
    if (run->part->ns < 0)
        run->part->ns = 0;
    if (run->failed)
        drain(run);
}

/* ---- one process ---- */

static bool make_client(struct bench_run *run)
{
    struct cli *cli = run->cli;
    const hf_client_options options = cli_client_options(cli);
    hf_error error;

    if (hf_client_new(&options, &cli->client, &error) == HF_OK)
        return true;
    if (error.result == HF_INVALID)
        return failed(run, CLI_USAGE, HP_R_MALFORMED, error.message);
    return failed(run, CLI_FAILED, HP_R_INTERNAL, error.message);
}

/* Every slot of the window gets resources of its own, in turn; of a shared kind, one that others have too. */
static void share_keys(struct bench_run *run)
{
    const size_t each = run->n_keys / run->concurrency, more = run->n_keys % run->concurrency;
    size_t from = 0;

    for (size_t i = 0; i < run->concurrency; i++) {
        struct bench_slot *slot = &run->slots[i];
        slot->n_keys = run->options->kind->shared ? 1 : each + (i < more);
        slot->first_key = run->options->kind->shared ? i % run->n_keys : from;
        from += slot->n_keys;
    }
}

static bool make_room(struct bench_run *run)
{
    run->concurrency = (size_t)share(run->options->concurrency, run);
    run->n_keys = (size_t)share(run->options->keys, run);
    run->n_slots = run->concurrency > SLOTS_MIN ? run->concurrency : SLOTS_MIN;
    run->slots = calloc(run->n_slots, sizeof(*run->slots));
    run->keys = calloc(run->n_keys, sizeof(*run->keys));
    run->value = malloc((size_t)run->options->value_size + 1);
    run->items = calloc(BENCH_ITEMS_MAX, sizeof(*run->items));
    run->pointers = calloc(BENCH_ITEMS_MAX, sizeof(*run->pointers));
    run->async = hfi_async_new(run->cli->client, run->n_slots);
    if (!run->slots || !run->keys || !run->value || !run->items || !run->pointers || !run->async)
        return failed(run, CLI_FAILED, HP_R_INTERNAL, "no memory");
    memset(run->value, 'v', (size_t)run->options->value_size + 1);
    for (size_t i = 0; i < run->n_keys; i++)
        snprintf(run->keys[i].name, sizeof(run->keys[i].name), "bench/%s/%u/%zu", run->options->id, run->process, i);
    for (size_t i = 0; i < BENCH_ITEMS_MAX; i++) {
        holdfast__v1__lease_item__init(&run->items[i]);
        run->pointers[i] = &run->items[i];
    }
    for (size_t i = 0; i < run->n_slots; i++) {
        run->slots[i].run = run;
        run->slots[i].call = hfi_async_call(run->async, i);
        run->slots[i].call->arg = &run->slots[i];
    }
    share_keys(run);
    return true;
}

/* Nothing is leased, and nothing has to be given back. */
static void do_operations(struct bench_run *run)
{
    if (wait_for_start(run))
        work(run);
    if (!run->failed)
        run->failed = !bench_verify_operations(run);
}

static void do_all(struct bench_run *run)
{
    const bool held = run->options->kind->held;

    /* Each resource gets its first lease before anything is measured: its rows are there then, and its first token is known. */
    if (bench_each(run, &lease_all) && (held || bench_each(run, &release_held)) && wait_for_start(run))
        work(run);
    if (!run->failed && bench_each(run, &read_all))
        run->failed = !bench_each(run, &check_held);
    if (!run->part->unreachable && run->part->exit != CLI_FAILED)
        clean_up(run);
}

void bench_process(struct bench_run *run)
{
    if (make_client(run) && make_room(run)) {
        if (run->options->kind->operations)
            do_operations(run);
        else
            do_all(run);
    }
    hfi_async_free(run->async);
    hf_client_free(run->cli->client);
    run->cli->client = NULL;
    free(run->slots);
    free(run->keys);
    free(run->value);
    free(run->items);
    free(run->pointers);
}
