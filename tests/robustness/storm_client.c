/*
 * storm_client.c - see storm_client.h.
 */
#include "robustness/storm_client.h"

#include "harness/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/client.h" /* the write_seq that a lease will use */
#include "robustness/case.h"

enum { LOOK_MS = 20 };

const char *storm_resource(int number)
{
    static const char *const names[STORM_RESOURCES] = {"storm/a", "storm/b", "storm/c", "storm/d", "storm/e", "storm/f"};
    return names[number];
}

static struct history_call about(const struct storm_client *c, enum history_op op, const char *resource)
{
    struct history_call call = {.worker = c->number, .op = op};
    snprintf(call.resource, sizeof(call.resource), "%s", resource);
    return call;
}

/* What a result says about the effect: see hf_result. */
static void judge(struct history_call *call, hf_result result, const hf_error *error)
{
    call->answer = result == HF_OK ? HISTORY_OK : HISTORY_REFUSED;
    if (result == HF_UNKNOWN || result == HF_FAILED || result == HF_NO_MEMORY)
        call->answer = HISTORY_UNKNOWN;
    snprintf(call->reason, sizeof(call->reason), "%.60s", result == HF_OK ? "" : error->reason);
}

/* ------------------------------------------------------------------------------------------------ claims */

static void claim(struct storm_client *c, hf_lease *lease)
{
    const int64_t before = history_now_ns();
    if (!c->claims || !hf_lease_valid(lease))
        return;
    c->claim.valid_ns = before;
    const struct storm_claim all = c->claim; /* gcc 12 takes the address of the member for that of its first array */
    if (pwrite(c->claims->fd, &all, sizeof(all), (off_t)(c->claim_at * sizeof(all))) != sizeof(all))
        abort();
}

static void begin_claim(struct storm_client *c, hf_lease *lease)
{
    c->claim = (struct storm_claim){.token = hf_lease_token(lease)};
    snprintf(c->claim.resource, sizeof(c->claim.resource), "%s", hf_lease_resource(lease, 0));
    c->claim_at = c->claims ? atomic_fetch_add(&c->claims->n, 1) : 0;
    claim(c, lease);
}

/* Passes the time, with an eye on the lease. */
static void rest(struct storm_client *c, hf_lease *lease, int ms)
{
    for (const int64_t end = t_now_ms() + ms; t_now_ms() < end && !atomic_load(c->stop);) {
        t_sleep_ms(LOOK_MS);
        claim(c, lease);
    }
}

/* ------------------------------------------------------------------------------------------------ leases */

static void judge_grant(struct history_call *call, hf_result result, const hf_error *error, const hf_lease *lease)
{
    judge(call, result, error);
    if (result == HF_OK)
        call->got_token = hf_lease_token_of(lease, call->resource);
    else if (result == HF_LOST && !strcmp(error->reason, "DEADLINE"))
        call->answer = HISTORY_UNKNOWN; /* granted, and too late for us */
}

static hf_lease *ask(struct storm_client *c, const hf_acquire_options *options, hf_result *result)
{
    struct history_call call = about(c, HISTORY_ACQUIRE, options->resource);
    hf_lease *lease = NULL;
    hf_error error;
    snprintf(call.request_id, sizeof(call.request_id), "%s", options->request_id);
    call.ttl_ms = options->ttl_ms;
    call.no_renewal = options->no_renewal;
    const size_t number = history_begin(c->history, &call);
    *result = hf_acquire(c->worker.client, options, &lease, NULL, &error);
    judge_grant(&call, *result, &error, lease);
    history_end(c->history, number, &call);
    return lease;
}

/* A lease, or NULL; an acquire whose outcome isn't known is sent again as it was. */
static hf_lease *acquire(struct storm_client *c, const char *resource, unsigned round, bool renewed)
{
    char id[HISTORY_NAME];
    const hf_acquire_options options = {.resource = resource,
                                        .ttl_ms = STORM_TTL_MIN_MS + case_below(&c->seed, STORM_TTL_MAX_MS - STORM_TTL_MIN_MS + 1),
                                        .wait_ms = case_chance(&c->seed, 80) ? STORM_WAIT_MS : 0,
                                        .request_id = id,
                                        .no_renewal = !renewed};
    hf_lease *lease = NULL;
    hf_result result = HF_UNKNOWN;
    snprintf(id, sizeof(id), "storm-%d-%u", c->number, round);
    for (int try = 0; try < 3 && result == HF_UNKNOWN && !atomic_load(c->stop); try++)
        lease = ask(c, &options, &result);
    return lease;
}

static int64_t next_seq(const struct storm_client *c, hf_lease *lease)
{
    pthread_mutex_lock(&c->worker.client->mutex);
    const int64_t seq = lease->write_seq + 1; /* nobody else writes under it */
    pthread_mutex_unlock(&c->worker.client->mutex);
    return seq;
}

/* To the lease's which-th resource. */
static void write_one(struct storm_client *c, hf_lease *lease, size_t which, unsigned round)
{
    struct history_call call = about(c, HISTORY_WRITE, hf_lease_resource(lease, which));
    const hf_write_options options = {.resource = call.resource};
    char value[64];
    hf_write_result written = {0};
    hf_error error;
    call.token = hf_lease_token_of(lease, call.resource);
    call.write_seq = next_seq(c, lease);
    snprintf(value, sizeof(value), "%d/%u/%lld", c->number, round, (long long)call.write_seq);
    call.value = history_digest(value, strlen(value));
    const size_t number = history_begin(c->history, &call);
    hf_result result = hf_write(lease, &options, value, strlen(value), &written, &error);
    judge(&call, result, &error);
    call.got_version = written.version;
    call.got_fence = written.fence;
    call.replayed = written.replayed;
    history_end(c->history, number, &call);
    claim(c, lease);
}

static void release(struct storm_client *c, hf_lease *lease)
{
    const size_t n = hf_lease_count(lease);
    struct history_call calls[2];
    size_t numbers[2];
    hf_error error;
    for (size_t i = 0; i < n; i++) {
        calls[i] = about(c, HISTORY_RELEASE, hf_lease_resource(lease, i));
        calls[i].token = hf_lease_token_of(lease, calls[i].resource);
        numbers[i] = history_begin(c->history, &calls[i]);
    }
    const hf_result result = hf_release(lease, &error);
    for (size_t i = 0; i < n; i++) {
        judge(&calls[i], result, &error);
        if (n > 1 && result != HF_OK)
            calls[i].answer = HISTORY_UNKNOWN; /* which of them is not told */
        history_end(c->history, numbers[i], &calls[i]);
    }
}

/* How a lease ends: mostly by its release, sometimes after a delete, sometimes by itself; and then, sometimes, by a write under
 * the token that was given up. */
static void end(struct storm_client *c, hf_lease *lease, const char *resource)
{
    const int64_t token = hf_lease_token(lease);
    if (case_chance(&c->seed, 4))
        worker_delete(&c->worker, resource, token, next_seq(c, lease), -1);
    if (case_chance(&c->seed, 92))
        release(c, lease);
    hf_lease_free(lease);
    if (case_chance(&c->seed, 10)) {
        char value[32];
        snprintf(value, sizeof(value), "stale %d/%lld", c->number, (long long)token);
        worker_write(&c->worker, resource, token, 1000, value, -1);
    }
}

/* Two resources under one lease, both or none: asked for once, written once each, released. A call of two is two in the history. */
static void work_on_two(struct storm_client *c, unsigned round)
{
    const int first = case_below(&c->seed, STORM_RESOURCES), next = 1 + case_below(&c->seed, STORM_RESOURCES - 1);
    const char *const names[2] = {storm_resource(first), storm_resource((first + next) % STORM_RESOURCES)};
    struct history_call calls[2];
    size_t numbers[2];
    char id[HISTORY_NAME];
    const hf_acquire_options options = {.resources = names, .n_resources = 2, .ttl_ms = STORM_TTL_MIN_MS, .request_id = id};
    hf_lease *lease = NULL;
    hf_error error;
    snprintf(id, sizeof(id), "storm-%d-%u", c->number, round);
    for (int i = 0; i < 2; i++) {
        calls[i] = about(c, HISTORY_ACQUIRE, names[i]);
        calls[i].ttl_ms = options.ttl_ms;
        snprintf(calls[i].request_id, sizeof(calls[i].request_id), "%s", id);
        numbers[i] = history_begin(c->history, &calls[i]);
    }
    const hf_result result = hf_acquire(c->worker.client, &options, &lease, NULL, &error);
    for (int i = 0; i < 2; i++) {
        judge_grant(&calls[i], result, &error, lease);
        history_end(c->history, numbers[i], &calls[i]);
    }
    if (!lease)
        return;
    begin_claim(c, lease);
    for (size_t i = 0; i < 2; i++)
        write_one(c, lease, i, round);
    release(c, lease);
    hf_lease_free(lease);
}

/* Acquire, write some times, end; sometimes slowly, over several renewals, and sometimes without renewals and too slowly. */
static void work(struct storm_client *c, unsigned round)
{
    const char *resource = storm_resource(case_below(&c->seed, STORM_RESOURCES));
    const bool sleeps = case_chance(&c->seed, 3), renewed = !sleeps && case_chance(&c->seed, 90), slow = case_chance(&c->seed, 5);
    hf_lease *lease = acquire(c, resource, round, renewed);
    if (!lease)
        return;
    begin_claim(c, lease);
    for (int n = 1 + case_below(&c->seed, 5); n > 0 && !atomic_load(c->stop); n--) {
        write_one(c, lease, 0, round);
        if (slow)
            rest(c, lease, 200 + case_below(&c->seed, 1000));
        else
            t_sleep_ms(case_below(&c->seed, 15));
    }
    if (sleeps) {
        rest(c, lease, STORM_TTL_MAX_MS + STORM_TTL_MAX_MS / 4);
        write_one(c, lease, 0, round);
    }
    end(c, lease, resource);
}

/* ------------------------------------------------------------------------------------------------ the thread */

/* An operator ends the lease that stands. */
static void break_one(struct storm_client *c, const char *resource)
{
    hf_page *page = NULL;
    struct worker operator= c->worker;
    operator.retry = HFI_RETRY_HARMLESS;
    if (hf_get_lease(c->client, resource, &page, NULL) == HF_OK && page->n == 1 && page->leases[0].state == HF_LEASE_LIVE)
        worker_break(&operator, resource, page->leases[0].token);
    hf_page_free(page);
}

static void *client_main(void *arg)
{
    struct storm_client *c = arg;
    for (unsigned round = 0; !atomic_load(c->stop); round++) {
        if (!c->reads) {
            if (case_chance(&c->seed, 6))
                work_on_two(c, round);
            else
                work(c, round);
            t_sleep_ms(case_below(&c->seed, 10));
            continue;
        }
        const char *resource = storm_resource(case_below(&c->seed, STORM_RESOURCES));
        if (case_chance(&c->seed, 2))
            break_one(c, resource);
        else
            worker_read(&c->worker, resource);
        t_sleep_ms(5 + case_below(&c->seed, 20));
    }
    return NULL;
}

void storm_client_start(struct storm_client *c)
{
    c->worker = (struct worker){.history = c->history,
                                .client = c->client,
                                .number = c->number,
                                .timeout_ms = STORM_TIMEOUT_MS,
                                .retry = c->reads ? HFI_RETRY_READ : HFI_RETRY_HARMLESS};
    assert_int_equal(pthread_create(&c->thread, NULL, client_main, c), 0);
}

void storm_client_join(struct storm_client *c)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
}
