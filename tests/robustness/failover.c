/*
 * failover.c - see failover.h.
 */
#include "robustness/failover.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/oracle.h"

enum { CALL_MS = 30000 };

/* ------------------------------------------------------------------------------------------------ life */

static struct worker worker_of(struct failover *f, int number)
{
    return (struct worker){.history = f->history,
                           .client = worker_client(f->server->url),
                           .number = number,
                           .timeout_ms = CALL_MS,
                           .retry = HFI_RETRY_HARMLESS};
}

void failover_start(struct failover *f)
{
    /* Processes die here, not machines: what was written survives without. */
    static const char *const settings[] = {"fsync=off", NULL};
    memset(f, 0, sizeof(*f));
    f->first = t_pg_start(settings);
    f->second = t_standby_start(f->first, FAILOVER_STANDBY, settings);
    f->server = t_server_start("--dsn", t_standby_dsn(f->first, f->second), NULL);
    PGconn *conn = t_connect(t_pg_dsn(f->first));
    oracle_audit_writes(conn, "default");
    PQfinish(conn);
    f->history = history_new(getenv("HOLDFAST_FAILOVER_HISTORY"));
    f->holder = worker_of(f, 100);
    f->taker = worker_of(f, 101);
}

void failover_end(struct failover *f)
{
    hf_client_free(f->holder.client);
    hf_client_free(f->taker.client);
    if (t_proc_wait(f->server->proc, 0) < 0)
        assert_int_equal(t_server_stop(f->server), 0);
    history_free(f->history);
}

/* ------------------------------------------------------------------------------------------------ callers */

static hf_client *impatient_client(const char *url)
{
    const hf_client_options options = {.servers = url, .timeout_ms = STORM_TIMEOUT_MS};
    hf_client *client = NULL;
    hf_error error;
    if (hf_client_new(&options, &client, &error) != HF_OK)
        fail_msg("%s", error.message);
    return client;
}

void failover_start_traffic(struct failover *f, uint64_t seed, bool reads)
{
    atomic_store(&f->stop, false);
    for (int i = 0; i < FAILOVER_CLIENTS; i++) {
        f->clients[i] = (struct storm_client){.number = i,
                                              .seed = seed + 1 + (uint64_t)i,
                                              .reads = reads && i == FAILOVER_CLIENTS - 1,
                                              .client = impatient_client(f->server->url),
                                              .history = f->history,
                                              .stop = &f->stop};
        storm_client_start(&f->clients[i]);
    }
}

/* What the traffic asked for was answered, and in time. */
static void check_answered(struct history *history)
{
    int64_t latest = INT64_MIN;
    for (size_t i = 0; i < history_count(history); i++) {
        const struct history_call call = history_get(history, i);
        const int64_t allowed_ms = STORM_TIMEOUT_MS + (call.op == HISTORY_ACQUIRE ? STORM_WAIT_MS : 0);
        if (call.worker < 0 || call.worker >= FAILOVER_CLIENTS || call.op == HISTORY_UPSET)
            continue;
        const int64_t over_ms = (call.end_ns - call.start_ns) / 1000000 - allowed_ms;
        if (!call.end_ns || over_ms > STORM_BOUND_MS)
            fail_msg("%s of %s was answered %" PRId64 " ms after its deadline, or never", history_op_name(call.op), call.resource,
                     over_ms);
        latest = over_ms > latest ? over_ms : latest;
    }
    print_message("[     INFO ] the latest answer came %" PRId64 " ms %s its deadline\n", latest < 0 ? -latest : latest,
                  latest < 0 ? "before" : "after");
}

void failover_stop_traffic(struct failover *f)
{
    atomic_store(&f->stop, true);
    for (int i = 0; i < FAILOVER_CLIENTS; i++) {
        storm_client_join(&f->clients[i]);
        hf_client_free(f->clients[i].client);
    }
    check_answered(f->history);
}

static void wait_and_write(struct failover_patient *p, hf_client *client)
{
    char id[32]; /* the harness isn't for threads */
    struct history_call call = {.worker = 200 + p->number, .op = HISTORY_ACQUIRE, .ttl_ms = FAILOVER_TTL_MS};
    const hf_acquire_options options = {
        .resource = p->resource, .ttl_ms = FAILOVER_TTL_MS, .wait_ms = FAILOVER_PATIENCE_MS, .request_id = id};
    hf_lease *lease = NULL;
    hf_error error;
    snprintf(id, sizeof(id), "patient-%d", p->number);
    snprintf(call.resource, sizeof(call.resource), "%s", p->resource);
    snprintf(call.request_id, sizeof(call.request_id), "%s", id);
    const size_t number = history_begin(p->stage->history, &call);
    if (hf_acquire(client, &options, &lease, NULL, &error) == HF_OK) {
        call.answer = HISTORY_OK;
        call.got_token = p->token = hf_lease_token(lease);
    }
    history_end(p->stage->history, number, &call);
    if (!lease)
        return;
    const struct worker worker = {.history = p->stage->history, .client = client, .number = call.worker, .timeout_ms = CALL_MS};
    worker_write(&worker, p->resource, p->token, 1, "served", -1);
    worker_release(&worker, p->resource, p->token);
    hf_lease_free(lease);
}

static void *patient_main(void *arg)
{
    struct failover_patient *p = arg;
    const hf_client_options options = {.servers = p->stage->server->url};
    hf_client *client = NULL;
    if (hf_client_new(&options, &client, NULL) != HF_OK)
        return NULL;
    wait_and_write(p, client);
    hf_client_free(client);
    return NULL;
}

/* How many wait for it on the server, as one who tries once is told. */
struct line {
    hf_client *client;
    const char *resource;
    int64_t length;
};

static bool has_grown(void *arg)
{
    const struct line *line = arg;
    const hf_acquire_options options = {.resource = line->resource, .ttl_ms = FAILOVER_TTL_MS};
    hf_lease *lease = NULL;
    hf_held held = {0};
    if (hf_acquire(line->client, &options, &lease, &held, NULL) != HF_HELD)
        fail_msg("%s is not held", line->resource);
    return held.waiters == line->length;
}

void failover_start_patients(struct failover *f, const char *resource)
{
    for (int i = 0; i < FAILOVER_PATIENTS; i++) {
        struct line line = {f->taker.client, resource, i + 1};
        f->patients[i] = (struct failover_patient){.number = i, .stage = f, .resource = resource};
        assert_int_equal(pthread_create(&f->patients[i].thread, NULL, patient_main, &f->patients[i]), 0);
        assert_true(t_wait_for(has_grown, &line, CALL_MS));
    }
}

void failover_join_patients(struct failover *f, int64_t above)
{
    for (int i = 0; i < FAILOVER_PATIENTS; i++)
        assert_int_equal(pthread_join(f->patients[i].thread, NULL), 0);
    for (int i = 0; i < FAILOVER_PATIENTS; i++) {
        if (f->patients[i].token <= above)
            fail_msg("the waiting caller %d got token %" PRId64 ", which is not above %" PRId64, i, f->patients[i].token, above);
        above = f->patients[i].token;
    }
}

int64_t failover_acquire(const struct worker *worker, const char *resource, const char *id)
{
    const struct history_call call = worker_acquire(worker, resource, FAILOVER_TTL_MS, id);
    assert_ok(&call);
    return call.got_token;
}

int64_t failover_write(const struct worker *worker, const char *resource, int64_t token, int64_t seq)
{
    const struct history_call call = worker_write(worker, resource, token, seq, t_printf("%" PRId64 "/%" PRId64, token, seq), -1);
    assert_ok(&call);
    return call.got_version;
}

/* ------------------------------------------------------------------------------------------------ the fault */

void failover_fail_over(struct failover *f)
{
    f->killed_ms = t_now_ms();
    f->killed_ns = history_now_ns();
    t_pg_kill(f->first);
    t_standby_promote(f->second);
}
