/*
 * chaos_client.c - see chaos_client.h.
 */
#include "robustness/chaos_client.h"

#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "client/lib/client.h" /* the write_seq that a lease will use */
#include "robustness/case.h"

const char *chaos_resource(int number)
{
    static const char *const names[CHAOS_RESOURCES] = {"chaos/a", "chaos/b", "chaos/c", "chaos/d", "chaos/e", "chaos/f"};
    return names[number];
}

/* The call that began at `start` had `allowed` ms. */
static void took(struct chaos_client *c, const char *what, int64_t start_ms, int64_t allowed_ms)
{
    const int64_t over = t_now_ms() - start_ms - allowed_ms;
    if (c->overrun && over <= c->overrun_ms)
        return;
    c->overrun_ms = over;
    c->overrun = what;
}

static struct history_call about(const struct chaos_client *c, enum history_op op, const char *resource)
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

/* ------------------------------------------------------------------------------------------------ leases */

static hf_lease *ask(struct chaos_client *c, const hf_acquire_options *options, hf_result *result)
{
    struct history_call call = about(c, HISTORY_ACQUIRE, options->resource);
    hf_lease *lease = NULL;
    hf_error error;
    snprintf(call.request_id, sizeof(call.request_id), "%s", options->request_id);
    call.ttl_ms = options->ttl_ms;
    const int64_t start = t_now_ms();
    const size_t number = history_begin(c->history, &call);
    *result = hf_acquire(c->worker.client, options, &lease, NULL, &error);
    took(c, "acquire", start, options->wait_ms + CHAOS_TIMEOUT_MS);
    judge(&call, *result, &error);
    if (*result == HF_OK)
        call.got_token = hf_lease_token(lease);
    else if (*result == HF_LOST && !strcmp(error.reason, "DEADLINE"))
        call.answer = HISTORY_UNKNOWN; /* granted, and too late for us */
    history_end(c->history, number, &call);
    return lease;
}

/* A lease, or NULL; an acquire whose outcome isn't known is sent again as it was. */
static hf_lease *acquire(struct chaos_client *c, const char *resource, unsigned round, bool renewed)
{
    char id[HISTORY_NAME];
    const hf_acquire_options options = {.resource = resource,
                                        .ttl_ms = CHAOS_TTL_MS,
                                        .wait_ms = case_chance(&c->seed, 80) ? CHAOS_WAIT_MS : 0,
                                        .request_id = id,
                                        .no_renewal = !renewed};
    hf_lease *lease = NULL;
    hf_result result = HF_UNKNOWN;
    snprintf(id, sizeof(id), "chaos-%d-%u", c->number, round);
    for (int try = 0; try < 3 && result == HF_UNKNOWN; try++) {
        c->repeats += try > 0;
        lease = ask(c, &options, &result);
    }
    c->waits += options.wait_ms > 0;
    c->waited_in_vain += options.wait_ms > 0 && !lease;
    return lease;
}

static void write_one(struct chaos_client *c, hf_lease *lease, unsigned round)
{
    struct history_call call = about(c, HISTORY_WRITE, hf_lease_resource(lease, 0));
    char value[64];
    hf_write_result written = {0};
    hf_error error;
    call.token = hf_lease_token(lease);
    pthread_mutex_lock(&c->worker.client->mutex);
    call.write_seq = lease->write_seq + 1; /* nobody else writes under it */
    pthread_mutex_unlock(&c->worker.client->mutex);
    snprintf(value, sizeof(value), "%d/%u/%lld", c->number, round, (long long)call.write_seq);
    call.value = history_digest(value, strlen(value));
    const int64_t start = t_now_ms();
    const size_t number = history_begin(c->history, &call);
    hf_result result = hf_write(lease, NULL, value, strlen(value), &written, &error);
    took(c, "write", start, CHAOS_TIMEOUT_MS);
    judge(&call, result, &error);
    call.got_version = written.version;
    call.got_fence = written.fence;
    call.replayed = written.replayed;
    history_end(c->history, number, &call);
}

static void release(struct chaos_client *c, hf_lease *lease)
{
    struct history_call call = about(c, HISTORY_RELEASE, hf_lease_resource(lease, 0));
    hf_error error;
    call.token = hf_lease_token(lease);
    const int64_t start = t_now_ms();
    const size_t number = history_begin(c->history, &call);
    judge(&call, hf_release(lease, &error), &error);
    took(c, "release", start, CHAOS_TIMEOUT_MS);
    history_end(c->history, number, &call);
}

/* Acquire, write some times, release; sometimes without renewals and too slowly, sometimes without the release; and then,
 * sometimes, a write under the token that was given up. */
static void work(struct chaos_client *c, unsigned round)
{
    const char *resource = chaos_resource(case_below(&c->seed, CHAOS_RESOURCES));
    const bool sleeps = case_chance(&c->seed, 3), renewed = !sleeps && case_chance(&c->seed, 90);
    hf_lease *lease = acquire(c, resource, round, renewed);
    if (!lease)
        return;
    const int64_t token = hf_lease_token(lease);
    for (int n = 1 + case_below(&c->seed, 5); n > 0; n--) {
        write_one(c, lease, round);
        t_sleep_ms(case_below(&c->seed, 20));
    }
    if (sleeps) {
        t_sleep_ms(CHAOS_TTL_MS + CHAOS_TTL_MS / 4);
        write_one(c, lease, round);
    }
    if (case_chance(&c->seed, 92))
        release(c, lease);
    else
        c->abandoned++;
    hf_lease_free(lease);
    if (case_chance(&c->seed, 10)) {
        char value[32];
        snprintf(value, sizeof(value), "stale %d/%u", c->number, round);
        c->stale++;
        worker_write(&c->worker, resource, token, 1000, value, -1);
    }
}

/* ------------------------------------------------------------------------------------------------ the thread */

static void *chaos_main(void *arg)
{
    struct chaos_client *c = arg;
    for (unsigned round = 0; !atomic_load(c->stop); round++) {
        if (c->reads) {
            const int64_t start = t_now_ms();
            worker_read(&c->worker, chaos_resource(case_below(&c->seed, CHAOS_RESOURCES)));
            took(c, "read", start, CHAOS_TIMEOUT_MS);
            t_sleep_ms(5 + case_below(&c->seed, 20));
        } else {
            work(c, round);
            t_sleep_ms(case_below(&c->seed, 10));
        }
    }
    return NULL;
}

void chaos_client_start(struct chaos_client *c)
{
    const hf_client_options options = {.servers = c->servers, .timeout_ms = CHAOS_TIMEOUT_MS};
    hf_error error;
    c->worker = (struct worker){.history = c->history,
                                .number = c->number,
                                .timeout_ms = CHAOS_TIMEOUT_MS,
                                .retry = c->reads ? HFI_RETRY_READ : HFI_RETRY_HARMLESS};
    if (hf_client_new(&options, &c->worker.client, &error) != HF_OK)
        fail_msg("%s", error.message);
    assert_int_equal(pthread_create(&c->thread, NULL, chaos_main, c), 0);
}

void chaos_client_join(struct chaos_client *c)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    hf_client_free(c->worker.client);
}
