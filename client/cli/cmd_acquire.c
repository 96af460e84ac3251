/*
 * cmd_acquire.c - acquire. With --wait the asking is done by a thread of its own, so that a signal can cancel the wait, at the
 * server too, before the program ends by it.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/cli/items.h"
#include "client/cli/signals.h"
#include "client/lib/acquire.h"

/* How long a cancelled wait may take to come back, and giving back what it was granted. */
enum { CANCEL_PATIENCE_MS = 1500, RELEASE_PATIENCE_MS = 2000 };

struct acquiring {
    struct cli *cli;
    Holdfast__V1__AcquireRequest request;
    char id[HFI_ID_SIZE];
    struct hfi_wait wait;
    struct hfi_call call;
    hf_result result;
    int done_fd;
};

static int print_held(const struct cli *cli, const Holdfast__V1__Held *held)
{
    if (held->guarded)
        return cli_refused(cli, "HELD", "%s is locked by another transaction", held->resource);
    if (!*held->holder)
        return cli_refused(cli, "HELD", "%s is free, but cannot be had for another %s (newest token %" PRId64 ")", held->resource,
                           cli_ms(held->remaining_ms), held->token);
    return cli_refused(cli, "HELD", "%s is held by %s for %s (token %" PRId64 ", %s left)", held->resource, held->holder,
                       held->task, held->token, cli_ms(held->remaining_ms));
}

static int print_acquired(const struct cli *cli, const Holdfast__V1__AcquireResponse *response)
{
    if (cli->json)
        cli_print_json(response);
    switch (response->outcome_case) {
    case HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED: {
        struct cli_table table = {.columns = 3};
        if (cli->json)
            return CLI_OK;
        cli_row(&table, "RESOURCE", "TOKEN", "TTL");
        for (size_t i = 0; i < response->granted->n_grants; i++)
            cli_row(&table, response->granted->grants[i]->resource, cli_int(response->granted->grants[i]->token),
                    cli_ms(response->granted->ttl_ms));
        cli_table_print(&table);
        return CLI_OK;
    }
    case HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_HELD:
        return print_held(cli, response->held);
    case HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_ENDED:
        return cli_refused(cli, "ENDED", "this request id was granted token %" PRId64 ", and that lease is over",
                           response->ended->token);
    default:
        return cli_bad_answer(cli);
    }
}

static void fill(struct acquiring *a)
{
    struct cli *cli = a->cli;

    hfi_new_id(cli->client, a->id);
    holdfast__v1__acquire_request__init(&a->request);
    a->request.namespace_ = (char *)cli->name_space;
    a->request.n_resources = cli->args.n_words - 1;
    a->request.resources = cli->args.words + 1;
    a->request.task = (char *)(cli_given(cli, CLI_TASK) ? cli_text(cli, CLI_TASK) : "");
    a->request.holder = (char *)(cli_given(cli, CLI_HOLDER) ? cli_text(cli, CLI_HOLDER) : hf_client_holder(cli->client));
    a->request.ttl_ms = cli_number(cli, CLI_TTL, HF_DEFAULT_TTL_MS);
    a->request.request_id = (char *)(cli_given(cli, CLI_REQUEST_ID) ? cli_text(cli, CLI_REQUEST_ID) : a->id);
}

static char *own_id(struct acquiring *a)
{
    return cli_given(a->cli, CLI_REQUEST_ID) ? NULL : a->id;
}

static void give_back(const struct acquiring *a, const Holdfast__V1__Granted *granted)
{
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items[] = {&item};
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_RELEASE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__release_response__descriptor,
                            .timeout_ms = RELEASE_PATIENCE_MS,
                            .retry = HFI_RETRY_HARMLESS};

    item.resource = granted->grants[0]->resource;
    item.token = granted->grants[0]->token;
    request.namespace_ = a->request.namespace_;
    request.n_items = 1;
    request.items = items;
    if (hfi_call(a->cli->client, &call) != HF_OK)
        fprintf(stderr, "holdfast: lease not released (it ends by its TTL): %s token %" PRId64 "\n", item.resource, item.token);
    hfi_call_release(&call);
}

/* A signal came while we waited: ends the program. */
static void interrupted(struct acquiring *a, int sig)
{
    struct pollfd done = {.fd = a->done_fd, .events = POLLIN};
    struct hp_status status;

    hf_acquire_cancel(a->cli->client, NULL, NULL);
    if (poll(&done, 1, CANCEL_PATIENCE_MS) == 1 && a->result == HF_OK) {
        const Holdfast__V1__AcquireResponse *response = (const Holdfast__V1__AcquireResponse *)a->call.response;
        if (response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED)
            give_back(a, response->granted);
    }
    hp_status_set(&status, HP_R_UNSPECIFIED, "interrupted by SIG%s", sigabbrev_np(sig));
    status.code = HP_CANCELLED;
    cli_error(a->cli, &status);
    fflush(NULL);
    _exit(128 + sig); /* the thread may still be asking; nothing it uses is taken away from it */
}

static void *ask(void *arg)
{
    struct acquiring *a = arg;

    a->result = hfi_acquire(a->cli->client, &a->request, own_id(a), &a->wait, &a->call);
    eventfd_write(a->done_fd, 1);
    return NULL;
}

/* The answer is in `a`; or an exit status, the error having been printed. */
static int wait_for_it(struct acquiring *a, int signal_fd)
{
    struct pollfd done = {.events = POLLIN};
    pthread_t thread;
    int sig;

    a->wait = (struct hfi_wait){.request_id = a->request.request_id,
                                .wait_ms = cli_number(a->cli, CLI_WAIT, 0),
                                .set_left = hfi_acquire_set_left,
                                .arg = &a->request};
    a->done_fd = done.fd = eventfd(0, EFD_CLOEXEC);
    if (a->done_fd < 0 || hfi_wait_begin(a->cli->client, &a->wait))
        return cli_system_error(a->cli, "acquire --wait");
    errno = pthread_create(&thread, NULL, ask, a);
    if (errno)
        return cli_system_error(a->cli, "acquire --wait");
    do {
        sig = signals_wait(signal_fd, a->done_fd, -1);
        if (sig)
            interrupted(a, sig);
    } while (poll(&done, 1, 0) != 1);
    pthread_join(thread, NULL);
    hfi_wait_end(a->cli->client, &a->wait);
    return CLI_OK;
}

int cli_acquire(struct cli *cli)
{
    const int64_t wait_ms = cli_number(cli, CLI_WAIT, 0);
    struct acquiring a = {.cli = cli};
    int signal_fd = -1;

    if (cli->args.n_words > 2 && wait_ms > 0)
        return cli_usage_error(cli, "--wait: several resources cannot be waited for");
    if (wait_ms > HF_WAIT_MAX_MS)
        return cli_usage_error(cli, "--wait %s: at most 1h", cli_text(cli, CLI_WAIT));
    if (wait_ms > 0 && (signal_fd = signals_take()) < 0) /* before the client makes threads */
        return cli_system_error(cli, "acquire --wait");
    int result = cli_client(cli);
    if (result)
        return result;
    fill(&a);
    if (wait_ms > 0)
        result = wait_for_it(&a, signal_fd);
    else
        a.result = hfi_acquire(cli->client, &a.request, own_id(&a), NULL, &a.call);
    if (!result)
        result = cli_ended(cli, a.result, &a.call);
    if (!result)
        result = print_acquired(cli, (const Holdfast__V1__AcquireResponse *)a.call.response);
    hfi_call_release(&a.call);
    return result;
}
