/*
 * demo_operations.c - `holdfast demo operations`: runs the experiments against the running server, and prints for each what was
 * expected and what was measured. See demo_operations.h.
 */
#include "client/cli/demo_operations.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "client/cli/items.h"
#include "holdfast/v1/admin.pb-c.h"
#include "proto/c/json.h"

void demo_sleep(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static char *type_of(const struct demo_ops *demo, const char *experiment, char type[DEMO_NAME])
{
    snprintf(type, DEMO_NAME, "demo/%s/%s", demo->id, experiment);
    return type;
}

void demo_begin(const struct demo_ops *demo, Holdfast__V1__BeginRequest *request, struct demo_names *names, const char *experiment,
                size_t key, uint8_t parameters, const char *holder)
{
    static uint64_t serial;

    holdfast__v1__begin_request__init(request);
    snprintf(names->key, sizeof(names->key), "demo/%s/%s/%zu", demo->id, experiment, key);
    snprintf(names->request_id, sizeof(names->request_id), "%s-%" PRIu64, demo->id, serial++);
    memset(names->fingerprint, parameters, sizeof(names->fingerprint));
    request->namespace_ = (char *)(uintptr_t)demo->cli->name_space;
    request->key = names->key;
    request->type = type_of(demo, experiment, names->type);
    request->parameters_case = HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT;
    request->fingerprint.data = names->fingerprint;
    request->fingerprint.len = sizeof(names->fingerprint);
    request->holder = (char *)(uintptr_t)holder;
    request->ttl_ms = HF_DEFAULT_TTL_MS;
    request->request_id = names->request_id;
    request->trigger = HOLDFAST__V1__TRIGGER__KIND__MANUAL;
}

bool demo_start(struct demo_ops *demo, struct hfi_async_call *call, const char *method, const ProtobufCMessageDescriptor *response,
                const ProtobufCMessage *request, int64_t wait_ms)
{
    call->method = method;
    call->response_type = response;
    call->wait_ms = wait_ms;
    call->reply_max = 0;
    if (hfi_async_start(call, request))
        return true;
    hp_status_set(&demo->error, HP_R_INTERNAL, "no memory");
    return false;
}

bool demo_failed(struct demo_ops *demo, const struct hfi_async_call *call)
{
    demo->error = call->status;
    demo->unreachable = call->unreachable;
    return false;
}

const void *demo_call(struct demo_ops *demo, const char *method, const ProtobufCMessageDescriptor *response,
                      const ProtobufCMessage *request, enum hp_reason *refused)
{
    struct hfi_async_call *call = hfi_async_call(demo->async, 0), *answered;

    if (refused)
        *refused = HP_R_UNSPECIFIED;
    if (!demo_start(demo, call, method, response, request, 0))
        return NULL;
    do
        answered = hfi_async_next(demo->async, HFI_NEVER);
    while (answered && answered != call);
    if (call->result == HF_OK)
        return call->response;
    if (refused && call->status.reason && call->status.code != HP_UNAVAILABLE)
        *refused = call->status.reason;
    else
        demo_failed(demo, call);
    return NULL;
}

bool demo_policy(struct demo_ops *demo, const char *experiment, bool retry_lost)
{
    Holdfast__V1__SetOperationPolicyRequest request = HOLDFAST__V1__SET_OPERATION_POLICY_REQUEST__INIT;
    Holdfast__V1__OperationPolicy policy = HOLDFAST__V1__OPERATION_POLICY__INIT;
    char type[DEMO_NAME], actor[CLI_ACTOR_SIZE];

    cli_actor(actor);
    policy.attempts_case = HOLDFAST__V1__OPERATION_POLICY__ATTEMPTS_MAX_ATTEMPTS;
    policy.max_attempts = 100;
    policy.base_case = HOLDFAST__V1__OPERATION_POLICY__BASE_BASE_MS;
    policy.base_ms = 1;
    policy.cap_case = HOLDFAST__V1__OPERATION_POLICY__CAP_CAP_MS;
    policy.cap_ms = 10;
    policy.on_lost = retry_lost ? HOLDFAST__V1__OPERATION_POLICY__ON_LOST__RETRY : HOLDFAST__V1__OPERATION_POLICY__ON_LOST__UNKNOWN;
    request.namespace_ = (char *)(uintptr_t)demo->cli->name_space;
    request.type = type_of(demo, experiment, type);
    request.policy = &policy;
    request.actor = actor;
    return demo_call(demo, "/holdfast.v1.AdminService/SetOperationPolicy", &holdfast__v1__set_operation_policy_response__descriptor,
                     &request.base, NULL) != NULL;
}

static void print_json(const struct demo_ops *demo, const char *title, bool good)
{
    struct hp_buf out = HP_BUF_INIT;

    hp_buf_addstr(&out, "{\"experiment\":");
    hp_json_string(&out, title, strlen(title));
    hp_buf_addstr(&out, ",\"expected\":");
    hp_json_string(&out, demo->expected, strlen(demo->expected));
    hp_buf_addstr(&out, ",\"measured\":");
    hp_json_string(&out, demo->measured, strlen(demo->measured));
    hp_buf_printf(&out, ",\"good\":%s}", good ? "true" : "false");
    if (!out.failed)
        printf("%s\n", (const char *)out.data);
    hp_buf_release(&out);
}

static int run_all(struct demo_ops *demo)
{
    int n = 0, bad = 0;

    for (const struct demo_experiment *e = demo_experiments; e->title; e++) {
        bool good = false;
        if (!e->run(demo, &good))
            return demo->unreachable ? cli_error(demo->cli, &demo->error), CLI_UNREACHABLE : cli_error(demo->cli, &demo->error);
        n++;
        bad += !good;
        if (demo->cli->json)
            print_json(demo, e->title, good);
        else
            printf("%d. %s\n   expected: %s\n   measured: %s%s\n\n", n, e->title, demo->expected, demo->measured,
                   good ? "" : "   ← NOT SO");
        fflush(stdout);
    }
    if (!demo->cli->json)
        printf(bad ? "%d of %d experiments did not come out as expected.\n" : "%d of %d experiments came out as expected.\n",
               bad ? bad : n, n);
    return bad ? CLI_FAILED : CLI_OK;
}

int cli_demo_operations(struct cli *cli)
{
    struct demo_ops demo = {.cli = cli};
    uint64_t id;
    int result = cli_client(cli);

    if (result)
        return result;
    if (getrandom(&id, sizeof(id), 0) != sizeof(id))
        return cli_system_error(cli, "no random numbers");
    snprintf(demo.id, sizeof(demo.id), "%012" PRIx64, id & 0xffffffffffff);
    demo.async = hfi_async_new(cli->client, DEMO_SLOTS);
    if (!demo.async)
        return cli_system_error(cli, "demo operations");
    if (!cli->json)
        printf("One effect for each key: experiments with operations demo/%s/…\n\n", demo.id);
    fflush(stdout);
    result = run_all(&demo);
    hfi_async_free(demo.async);
    return result;
}
