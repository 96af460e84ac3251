/*
 * demo_worker.c - one worker of the demo: a process with a client and a lease, told what to do by lines on standard input.
 *
 *   acquire WAIT_MS   granted TOKEN | error EXIT REASON: message
 *   write VALUE       written VERSION | lost REASON | error …        by the library, as a worker should
 *   send VALUE        written VERSION | refused REASON | error …     past the library, as if it had been on its way already
 *   release           released | error …
 */
#include "client/cli/cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/values.h"
#include "holdfast/v1/resource.pb-c.h"

struct demo_worker {
    struct cli *cli;
    hf_lease *lease;
};

static int exit_of(const hf_error *error)
{
    switch (error->result) {
    case HF_UNAVAILABLE:
        return *error->reason && hp_reason_by_name(error->reason) != HP_R_UNSPECIFIED ? CLI_FAILED : CLI_UNREACHABLE;
    case HF_INVALID:
        return CLI_USAGE;
    case HF_HELD:
    case HF_LOST:
    case HF_CONFLICT:
    case HF_NOT_FOUND:
    case HF_DENIED:
        return CLI_REFUSED;
    default:
        return CLI_FAILED;
    }
}

static void answer_error(const hf_error *error)
{
    printf("error %d %s: %s\n", exit_of(error), *error->reason ? error->reason : hf_result_name(error->result), error->message);
}

static void do_acquire(struct demo_worker *worker, const char *wait_ms)
{
    hf_acquire_options options = {.resource = cli_word(worker->cli, 0),
                                  .task = cli_text(worker->cli, CLI_TASK),
                                  .ttl_ms = cli_number(worker->cli, CLI_TTL, 0),
                                  .wait_ms = atoll(wait_ms)};
    hf_error error;

    if (hf_acquire(worker->cli->client, &options, &worker->lease, NULL, &error) == HF_OK)
        printf("granted %" PRId64 "\n", hf_lease_token(worker->lease));
    else
        answer_error(&error);
}

static void do_write(struct demo_worker *worker, const char *value)
{
    hf_write_result result;
    hf_error error;

    switch (hf_write(worker->lease, NULL, value, strlen(value), &result, &error)) {
    case HF_OK:
        printf("written %" PRId64 "\n", result.version);
        break;
    case HF_LOST:
        printf("lost %s\n", error.reason);
        break;
    default:
        answer_error(&error);
    }
}

/* What a worker without the library's help, or one paused between its last check and its send, would do. */
static void do_send(struct demo_worker *worker, const char *value)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_WRITE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__write_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    hf_error error;

    request.namespace_ = (char *)worker->cli->name_space;
    request.resource = (char *)cli_word(worker->cli, 0);
    request.token = hf_lease_token(worker->lease);
    request.write_seq = 2; /* the first write was 1 */
    request.value.data = (uint8_t *)value;
    request.value.len = strlen(value);
    hf_result result = hfi_call(worker->cli->client, &call);
    if (result == HF_OK)
        printf("written %" PRId64 "\n", ((const Holdfast__V1__WriteResponse *)call.response)->version);
    else if (result == HF_LOST)
        printf("refused %s\n", hp_reason_name((int)call.status.reason));
    else {
        hfi_error_from_status(&error, result, &call.status);
        answer_error(&error);
    }
    hfi_call_release(&call);
}

static void do_release(struct demo_worker *worker)
{
    hf_error error;

    if (hf_release(worker->lease, &error) == HF_OK)
        puts("released");
    else
        answer_error(&error);
}

static void obey(struct demo_worker *worker, char *line)
{
    char *value = strchr(line, ' ');

    value = value ? value + 1 : line + strlen(line);
    if (!strncmp(line, "acquire ", 8))
        do_acquire(worker, value);
    else if (worker->lease && !strncmp(line, "write ", 6))
        do_write(worker, value);
    else if (worker->lease && !strncmp(line, "send ", 5))
        do_send(worker, value);
    else if (worker->lease && !strncmp(line, "release", 7))
        do_release(worker);
    else
        puts("error 2 MALFORMED: not understood");
}

int cli_demo_worker(struct cli *cli)
{
    struct demo_worker worker = {.cli = cli};
    char line[512];
    int failed = cli_client(cli);

    if (failed)
        return failed;
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(&worker, line);
        fflush(stdout);
    }
    hf_lease_free(worker.lease);
    return CLI_OK;
}
