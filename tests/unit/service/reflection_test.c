/* reflection_test.c - everything that is served can be found by its name, with all that it needs; what isn't there is told so. */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "service/described.h"

#define V1      "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define V1ALPHA "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

typedef Grpc__Reflection__V1__ServerReflectionRequest request_t;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_t;
#define ASKS(name)    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWERS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

static const response_t *ask(struct fake_call *call, int what, const char *name)
{
    request_t request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    Grpc__Reflection__V1__ExtensionRequest extension = GRPC__REFLECTION__V1__EXTENSION_REQUEST__INIT;
    request.host = (char *)(uintptr_t) "here";
    request.message_request_case = what;
    if (what == ASKS(FILE_CONTAINING_EXTENSION))
        request.file_containing_extension = &extension;
    else
        request.list_services = (char *)(uintptr_t)name; /* all of them are strings */
    fake_message(call, &request);
    const response_t *response = (const response_t *)call->sent[call->n_sent - 1];
    assert_string_equal(response->valid_host, "here");
    assert_int_equal(response->original_request->message_request_case, what);
    return response;
}

static void assert_error(const response_t *response, enum hp_code code)
{
    assert_int_equal(response->message_response_case, ANSWERS(ERROR_RESPONSE));
    assert_int_equal(response->error_response->error_code, code);
    assert_true(response->error_response->error_message[0]);
}

static struct svc_file file_of(const response_t *response, size_t i)
{
    assert_int_equal(response->message_response_case, ANSWERS(FILE_DESCRIPTOR_RESPONSE));
    assert_true(i < response->file_descriptor_response->n_file_descriptor_proto);
    const ProtobufCBinaryData *data = &response->file_descriptor_response->file_descriptor_proto[i];
    return (struct svc_file){data->data, data->len};
}

static void services_are_listed_once_each(void **state)
{
    static const char *const names[] = {
        "holdfast.v1.LeaseService",
        "holdfast.v1.ResourceService",
        "holdfast.v1.OperationService",
        "holdfast.v1.AdminService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    };
    struct fake *f = *state;
    struct fake_call *call = fake_call_bytes(f, V1, "", 0, 0);
    const response_t *response = ask(call, ASKS(LIST_SERVICES), "*");
    assert_int_equal(response->message_response_case, ANSWERS(LIST_SERVICES_RESPONSE));
    assert_int_equal(response->list_services_response->n_service, sizeof(names) / sizeof(names[0]));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_string_equal(response->list_services_response->service[i]->name, names[i]);
    fake_message(call, NULL);
    assert_int_equal(call->answers, 1);
    assert_int_equal(call->status.code, HP_OK);
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static void all_that_is_served_is_found(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = NULL;
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    for (size_t i = 0; i < n; i++) {
        char *symbol = t_printf("%s", methods[i].rpc.path + 1), *slash = strchr(symbol, '/');
        if (i % 8 == 0)
            call = fake_call_bytes(f, i % 16 ? V1 : V1ALPHA, "", 0, 0);
        *slash = '.';
        struct svc_file file = file_of(ask(call, ASKS(FILE_CONTAINING_SYMBOL), symbol), 0);
        *slash = '\0';
        assert_true(svc_file_declares(&file, symbol));
        const char *types[] = {methods[i].rpc.request->name, methods[i].rpc.response->name};
        for (int k = 0; k < 2; k++) {
            file = file_of(ask(call, ASKS(FILE_CONTAINING_SYMBOL), types[k]), 0);
            assert_true(svc_file_declares(&file, types[k]));
            assert_true(svc_file_declares(&file, t_printf(".%s", types[k])));
        }
    }
}

static void what_is_declared_is_found(void **state)
{
    static const struct {
        const char *symbol, *file;
    } table[] = {
        {"holdfast.v1.AcquireRequest.ttl_ms", "holdfast/v1/lease.proto"},
        {"holdfast.v1.AcquireRequest.LabelsEntry", "holdfast/v1/lease.proto"},
        {"holdfast.v1.AcquireRequest.LabelsEntry.key", "holdfast/v1/lease.proto"},
        {"holdfast.v1.AcquireResponse.outcome", "holdfast/v1/lease.proto"},
        {"grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto"},
        {"grpc.health.v1.HealthCheckResponse.NOT_SERVING", "grpc/health/v1/health.proto"},
        {"google.protobuf.Any", "google/protobuf/any.proto"},
    };
    static const char *const none[] = {"",
                                       "holdfast",
                                       "holdfast.v1",
                                       "holdfast.v1.",
                                       "holdfast.v1.Acquire",
                                       "holdfast.v1.AcquireRequestt",
                                       "holdfast.v1.AcquireRequest.",
                                       "holdfast.v1.LeaseService.acquire",
                                       "grpc.health.v1.HealthCheckResponse.ServingStatus.SERVING",
                                       "..holdfast.v1.AcquireRequest"};
    struct fake *f = *state;
    struct fake_call *call = fake_call_bytes(f, V1, "", 0, 0);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct svc_file file = file_of(ask(call, ASKS(FILE_CONTAINING_SYMBOL), table[i].symbol), 0);
        assert_true(svc_file_is(&file, table[i].file));
        file = file_of(ask(call, ASKS(FILE_BY_FILENAME), table[i].file), 0);
        assert_true(svc_file_is(&file, table[i].file));
    }
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_error(ask(call, ASKS(FILE_CONTAINING_SYMBOL), none[i]), HP_NOT_FOUND);
    assert_error(ask(call, ASKS(FILE_BY_FILENAME), "holdfast/v1/none.proto"), HP_NOT_FOUND);
    assert_error(ask(call, ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE), "holdfast.v1.AcquireRequest"), HP_NOT_FOUND);
    assert_error(ask(call, ASKS(FILE_CONTAINING_EXTENSION), ""), HP_NOT_FOUND);
    assert_error(ask(call, 0, ""), HP_INVALID_ARGUMENT);
}

/* google/rpc/status.proto imports any.proto. */
static void a_file_comes_with_what_it_imports(void **state)
{
    struct fake *f = *state;
    struct fake_call *call = fake_call_bytes(f, V1, "", 0, 0);
    const response_t *response = ask(call, ASKS(FILE_BY_FILENAME), "google/rpc/status.proto");
    assert_int_equal(response->file_descriptor_response->n_file_descriptor_proto, 2);
    struct svc_file first = file_of(response, 0), second = file_of(response, 1);
    assert_true(svc_file_is(&first, "google/rpc/status.proto"));
    assert_true(svc_file_is(&second, "google/protobuf/any.proto"));
}

static void streams_end(void **state)
{
    struct fake *f = *state;
    struct fake_call *gone = fake_call_bytes(f, V1, "", 0, 0), *bad = fake_call_bytes(f, V1, "", 0, 0),
                     *open = fake_call_bytes(f, V1, "", 0, 0), *slow = fake_call_bytes(f, V1, "", 0, 0);
    request_t request = GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    assert_int_equal(svc_in_flight(f->svc), 4);
    fake_gone(gone);
    bad->call.message(&bad->call, "\xFF", 1);
    fake_assert_error(bad, HP_INVALID_ARGUMENT, HP_R_MALFORMED);
    slow->full = true;
    fake_message(slow, &request);
    fake_assert_error(slow, HP_RESOURCE_EXHAUSTED, HP_R_QUEUE_FULL);
    svc_drain(f->svc);
    fake_assert_error(open, HP_UNAVAILABLE, HP_R_DRAINING);
    assert_int_equal(svc_in_flight(f->svc), 0);
    fake_assert_error(fake_call_bytes(f, V1, "", 0, 0), HP_UNAVAILABLE, HP_R_DRAINING);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(services_are_listed_once_each),
        T(all_that_is_served_is_found),
        T(what_is_declared_is_found),
        T(a_file_comes_with_what_it_imports),
        T(streams_end),
    };
    return cmocka_run_group_tests_name("service/reflection", tests, NULL, NULL);
}
