/* client.c - hf_client: options, threads, the end. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "client/lib/wait.h"
#include "proto/c/wire.h"

enum {
    TIMEOUT_MAX_MS = 86400000, /* beyond a day it means "for ever", and sums with it must not overflow */
    KEY_MAX = 512
};

const char *hf_version(void)
{
    return HOLDFAST_VERSION;
}

bool hfi_same_process(const struct hf_client *client)
{
    return client->pid == getpid();
}

int64_t hfi_now(struct hf_client *client)
{
    return client->ports.clock->now_ms(client->ports.clock);
}

void hfi_log(struct hf_client *client, hf_log_level level, const char *format, ...)
{
    char line[512];
    va_list args;

    if (!client->log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    client->log(level, line, client->log_arg);
}

const char *hf_client_holder(const hf_client *client)
{
    return client->holder;
}

const char *hf_client_namespace(const hf_client *client)
{
    return client->name_space;
}

static char *make_holder(struct hf_client *client)
{
    char host[65] = "", id[HFI_ID_SIZE];
    char *holder = NULL;

    if (gethostname(host, sizeof(host) - 1) || !host[0])
        snprintf(host, sizeof(host), "localhost");
    hfi_new_id(client, id);
    return asprintf(&holder, "%s:%ld:%.12s", host, (long)client->pid, id) < 0 ? NULL : holder;
}

/* Fit for a header's value. */
static bool is_key(const char *key)
{
    size_t len = 0;

    for (; key[len] > ' ' && key[len] < 0x7f; len++)
        ;
    return !key[len] && len >= 1 && len <= KEY_MAX;
}

static hf_result check_options(const hf_client_options *o, hf_error *error)
{
    struct hp_status status;

    if (o->key && !is_key(o->key)) {
        hfi_error_set(error, HF_INVALID, "MALFORMED", "key: an API key is 1 to %d visible ASCII characters", KEY_MAX);
        if (error)
            snprintf(error->field, sizeof(error->field), "key");
        return HF_INVALID; /* what was given isn't repeated: it may be a part of one */
    }
    if ((o->name_space && !hp_check_name("namespace", o->name_space, &status)) ||
        (o->holder && !hp_check_name("holder", o->holder, &status)))
        return hfi_error_from_status(error, HF_INVALID, &status);
    if (o->timeout_ms < 0 || o->connect_timeout_ms < 0)
        return hfi_error_set(error, HF_INVALID, "LIMIT", "a timeout is negative");
    return HF_OK;
}

static bool copy_options(struct hf_client *client, const hf_client_options *o)
{
    client->servers = strdup(o->servers ? o->servers : HF_DEFAULT_SERVER);
    client->name_space = strdup(o->name_space ? o->name_space : HF_DEFAULT_NAMESPACE);
    client->holder = o->holder ? strdup(o->holder) : make_holder(client);
    if (o->key && asprintf(&client->authorization, "Bearer %s", o->key) < 0) {
        client->authorization = NULL;
        return false;
    }
    client->mux.authorization = client->authorization;
    client->timeout_ms = o->timeout_ms ? o->timeout_ms : HF_DEFAULT_TIMEOUT_MS;
    if (client->timeout_ms > TIMEOUT_MAX_MS)
        client->timeout_ms = TIMEOUT_MAX_MS;
    client->connect_timeout_ms = o->connect_timeout_ms;
    if (!client->connect_timeout_ms) { /* leaves time to say so: out of reach shall not look like an answer that was lost */
        client->connect_timeout_ms = client->timeout_ms - client->timeout_ms / 4;
        if (client->connect_timeout_ms > HF_DEFAULT_CONNECT_TIMEOUT_MS)
            client->connect_timeout_ms = HF_DEFAULT_CONNECT_TIMEOUT_MS;
    }
    if (client->connect_timeout_ms > client->timeout_ms)
        client->connect_timeout_ms = client->timeout_ms;
    client->log = o->log;
    client->log_arg = o->log_arg;
    client->on_loss = o->on_loss;
    client->on_loss_arg = o->on_loss_arg;
    return client->servers && client->name_space && client->holder;
}

/* The call that finds out whether a server lives (mux.h): about a waiter that never was, so that no database is asked. */
static bool make_ping(struct hf_client *client)
{
    Holdfast__V1__CancelWaitRequest request = HOLDFAST__V1__CANCEL_WAIT_REQUEST__INIT;

    request.namespace_ = client->name_space;
    request.request_id = (char *)(uintptr_t) "-";
    client->mux.ping_len = holdfast__v1__cancel_wait_request__get_packed_size(&request);
    client->ping = malloc(client->mux.ping_len);
    if (!client->ping)
        return false;
    holdfast__v1__cancel_wait_request__pack(&request, client->ping);
    client->mux.ping_payload = client->ping;
    client->mux.ping_method = HFI_CANCEL_WAIT;
    return true;
}

/* The library's threads take no signals: those are the program's. */
static bool start_threads(struct hf_client *client)
{
    sigset_t all, old;

    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (client->wake_fd < 0 || client->timer_fd < 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    client->has_renew_thread = pthread_create(&client->renew_thread, NULL, hfi_renew_main, client) == 0;
    client->has_notify_thread = pthread_create(&client->notify_thread, NULL, hfi_notify_main, client) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return client->has_renew_thread && client->has_notify_thread;
}

static void stop_threads(struct hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->closing = true;
    client->mux.closed = true;
    hfi_renew_wake(client, 0);
    pthread_cond_broadcast(&client->loss_news);
    pthread_mutex_unlock(&client->mutex);
    if (client->has_renew_thread)
        pthread_join(client->renew_thread, NULL);
    if (client->has_notify_thread)
        pthread_join(client->notify_thread, NULL);
    client->has_renew_thread = client->has_notify_thread = false;
}

/* Acquires and begins that wait in other threads come back; nothing of the client is touched by them afterwards. */
static void end_waits(struct hf_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->ending = true;
    (void)hfi_wait_give_up(client, NULL, true);
    while (client->waits)
        client->ports.clock->wait(client->ports.clock, &client->waits_gone, &client->mutex, HFI_NEVER);
    pthread_mutex_unlock(&client->mutex);
}

static void destroy(struct hf_client *client)
{
    end_waits(client);
    stop_threads(client);
    if (client->ports.transport) {
        client->ports.transport->stop(client->ports.transport);
        pthread_mutex_lock(&client->mutex);
        hfi_renew_drop_all(client);
        while (client->leases) {
            struct hf_lease *lease = client->leases;
            client->leases = lease->next;
            if (lease->next)
                lease->next->prev = &client->leases;
            lease->prev = NULL;
            hfi_lease_unref(lease);
        }
        pthread_mutex_unlock(&client->mutex);
        client->ports.transport->free(client->ports.transport);
    }
    hfi_mux_release(&client->mux);
    if (client->wake_fd >= 0)
        close(client->wake_fd);
    if (client->timer_fd >= 0)
        close(client->timer_fd);
    pthread_cond_destroy(&client->waits_gone);
    pthread_cond_destroy(&client->loss_news);
    pthread_cond_destroy(&client->told);
    pthread_mutex_destroy(&client->mutex);
    free(client->servers);
    free(client->name_space);
    free(client->holder);
    free(client->ping);
    if (client->authorization)
        explicit_bzero(client->authorization, strlen(client->authorization));
    free(client->authorization);
    free(client);
}

hf_result hfi_client_new(const hf_client_options *options, const struct hfi_ports *ports, hf_client **out, hf_error *error)
{
    static const hf_client_options defaults;
    const hf_client_options *o = options ? options : &defaults;
    struct hf_client *client = calloc(1, sizeof(*client));

    if (!client) {
        ports->transport->stop(ports->transport); /* it would have been the client's */
        ports->transport->free(ports->transport);
        return hfi_error_no_memory(error);
    }
    client->pid = getpid();
    client->ports = *ports;
    client->wake_fd = client->timer_fd = -1;
    client->wake_at_ms = client->look_at_ms = HFI_NEVER;
    client->losses_end = &client->losses;
    pthread_mutex_init(&client->mutex, NULL);
    hfi_cond_init(&client->waits_gone);
    hfi_cond_init(&client->loss_news);
    hfi_cond_init(&client->told);
    hfi_budget_init(&client->budget, hfi_now(client));
    hfi_mux_init(&client->mux, &client->mutex, ports->clock, ports->transport);
    if (!copy_options(client, o) || !make_ping(client)) {
        destroy(client);
        return hfi_error_no_memory(error);
    }
    if (!ports->no_threads && !start_threads(client)) {
        const int rc = errno;
        destroy(client);
        return hfi_error_set(error, HF_FAILED, "INTERNAL", "the client's threads could not be started: %s", strerror(rc));
    }
    *out = client;
    return hfi_error_set(error, HF_OK, "", "%s", "");
}

/* A key that others can read on the way is theirs too. */
static void warn_exposed(struct hf_client *client, const char *servers)
{
    char *url = hfi_transport_exposed(servers);

    if (url)
        hfi_log(client, HF_LOG_WARN, "the API key goes to %s unencrypted: everybody on the way can read it", url);
    free(url);
}

hf_result hf_client_new(const hf_client_options *options, hf_client **client, hf_error *error)
{
    static const hf_client_options defaults;
    const hf_client_options *o = options ? options : &defaults;
    struct hfi_ports ports = {.clock = &hfi_system_clock, .random = &hfi_system_random};
    const struct hfi_tls_files files = {.ca = o->tls_ca_file, .cert = o->tls_cert_file, .key = o->tls_key_file};
    const char *servers = o->servers ? o->servers : HF_DEFAULT_SERVER;
    char why[512];
    hf_result result = check_options(o, error);

    if (result != HF_OK)
        return result;
    const enum hfi_open_result opened = hfi_transport_open(servers, &files, &ports.transport, why, sizeof(why));
    switch (opened) {
    case HFI_OPEN_OK:
        result = hfi_client_new(o, &ports, client, error);
        if (result == HF_OK && o->key)
            warn_exposed(*client, servers);
        return result;
    case HFI_OPEN_BAD_TLS:
    case HFI_OPEN_BAD_URL:
        hfi_error_set(error, HF_INVALID, "MALFORMED", "%s", why);
        if (error)
            snprintf(error->field, sizeof(error->field), "%s", opened == HFI_OPEN_BAD_TLS ? "tls" : "servers");
        return HF_INVALID;
    case HFI_OPEN_NO_MEMORY:
        return hfi_error_no_memory(error);
    case HFI_OPEN_FAILED:
        break;
    }
    return hfi_error_set(error, HF_FAILED, "INTERNAL", "%s", why);
}

void hf_client_free(hf_client *client)
{
    if (client && hfi_same_process(client))
        destroy(client);
}
