/*
 * paused.c - see paused.h.
 */
#include "robustness/paused.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "harness/harness.h"

/* A transport that stops its process when it is handed a write: the library's checks are behind it. */
static struct hfi_transport *real_transport;

static void stop_and_send(struct hfi_transport *transport, unsigned endpoint, const void *data, size_t len, int64_t send_ms,
                          int64_t reply_ms, struct hfi_exchange *exchange)
{
    static bool stopped;
    (void)transport;
    if (!stopped && memmem(data, len, "/Write", 6)) {
        stopped = true;
        printf("STOPS\n");
        fflush(stdout);
        raise(SIGSTOP);
    }
    real_transport->send(real_transport, endpoint, data, len, send_ms, reply_ms, exchange);
}

static const char *real_url(struct hfi_transport *transport, unsigned endpoint)
{
    (void)transport;
    return real_transport->url(real_transport, endpoint);
}

static void real_stop(struct hfi_transport *transport)
{
    (void)transport;
    real_transport->stop(real_transport);
}

static void real_free(struct hfi_transport *transport)
{
    (void)transport;
    real_transport->free(real_transport);
}

static hf_result stopping_client(const hf_client_options *options, hf_client **client, hf_error *error)
{
    const struct hfi_tls_files files = {.ca = options->tls_ca_file};
    static struct hfi_transport transport = {
        .n_endpoints = 1, .send = stop_and_send, .url = real_url, .stop = real_stop, .free = real_free};
    const struct hfi_ports ports = {.clock = &hfi_system_clock, .random = &hfi_system_random, .transport = &transport};
    char why[256];
    if (hfi_transport_open(options->servers, &files, &real_transport, why, sizeof(why)) != HFI_OPEN_OK)
        return HF_FAILED;
    return hfi_client_new(options, &ports, client, error);
}

static void say_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    printf("LOSS %s\n", reason);
    fflush(stdout);
}

static void write_and_say(hf_lease *lease, const char *word)
{
    static const char value[PAUSED_VALUE] = "from A";
    hf_error error;
    hf_result result = hf_write(lease, NULL, value, sizeof(value), NULL, &error);
    printf("%s %s %s valid=%d\n", word, hf_result_name(result), error.reason, hf_lease_valid(lease));
    fflush(stdout);
}

int paused_holder(const char *how, const char *url, const char *ca, const char *resource, int64_t ttl_ms)
{
    const hf_client_options options = {.servers = url, .tls_ca_file = ca, .on_loss = say_loss};
    const hf_acquire_options acquire = {.resource = resource, .ttl_ms = ttl_ms};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_value value;
    hf_error error;
    sigset_t go;
    int sig;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    hf_result made =
        strcmp(how, "sending") == 0 ? stopping_client(&options, &client, &error) : hf_client_new(&options, &client, &error);
    if (made != HF_OK || hf_acquire(client, &acquire, &lease, NULL, &error) != HF_OK ||
        hf_read(client, resource, &value, &error) != HF_OK) {
        printf("FAILED %s\n", error.message);
        return 1;
    }
    hf_value_release(&value);
    printf("HOLDING %lld\n", (long long)hf_lease_token(lease));
    fflush(stdout);
    sigwait(&go, &sig);
    write_and_say(lease, "WRITE");
    write_and_say(lease, "NEXT");
    sigwait(&go, &sig);
    hf_lease_free(lease);
    hf_client_free(client);
    return 0;
}

static bool is_stopped(void *arg)
{
    const struct t_proc *a = arg;
    const char *stat = t_read_file(t_printf("/proc/%d/stat", (int)a->pid));
    const char *end = strrchr(stat, ')');
    return end && end[1] == ' ' && end[2] == 'T';
}

void paused_await_stop(struct t_proc *a)
{
    assert_true(t_wait_for(is_stopped, a, PAUSED_SOON_MS));
}

int64_t paused_token(struct t_proc *a)
{
    t_proc_expect_out(a, "HOLDING ", PAUSED_SOON_MS);
    return strtoll(strstr(t_proc_out(a), "HOLDING ") + 8, NULL, 10);
}

void paused_check(struct t_proc *a, bool at_work)
{
    t_proc_expect_out(a, "NEXT ", PAUSED_SOON_MS);
    t_proc_expect_out(a, "LOSS ", PAUSED_SOON_MS);
    const char *out = t_proc_out(a), *write = strstr(out, "WRITE "), *next = strstr(out, "NEXT "), *loss = strstr(out, "LOSS ");
    /* What was under way may have been refused by the server in A's hearing, or be unknown to A; it is never OK. */
    bool right = strstr(write, " valid=0") &&
                 (!strncmp(write, "WRITE LOST", 10) || (!at_work && !strncmp(write, "WRITE UNKNOWN OUTCOME_LOST", 26)));
    if (!right || strncmp(next, "NEXT LOST", 9) != 0 || strstr(loss + 1, "LOSS "))
        fail_msg("%s", out);
}
