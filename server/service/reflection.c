/*
 * reflection.c - grpc.reflection.v1 and v1alpha, whose messages are the same: which services there are, and the files that declare
 * them.
 *
 * Each request has one response, sent at once: the transport brings the next one only while its caller reads.
 */
#include <string.h>

#include "grpc/reflection/v1/reflection.pb-c.h"
#include "proto/c/wire.h"
#include "service/call.h"
#include "service/described.h"
#include "service/stream.h"

enum { BUDGET = 64 << 10, SERVICES_MAX = 32 };

typedef Grpc__Reflection__V1__ServerReflectionRequest request_t;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_t;
#define ASKS(name)    GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define ANSWERS(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

/* What a response may need; on the stack of on_message. */
struct answer {
    response_t response;
    Grpc__Reflection__V1__FileDescriptorResponse files;
    ProtobufCBinaryData file[SVC_FILES_MAX];
    Grpc__Reflection__V1__ListServiceResponse list;
    Grpc__Reflection__V1__ServiceResponse service[SERVICES_MAX], *services[SERVICES_MAX];
    char names[SERVICES_MAX][80];
    Grpc__Reflection__V1__ErrorResponse error;
};

static void refuse(struct answer *a, enum hp_code code, const char *message)
{
    grpc__reflection__v1__error_response__init(&a->error);
    a->error.error_code = (int32_t)code;
    a->error.error_message = (char *)(uintptr_t)message;
    a->response.message_response_case = ANSWERS(ERROR_RESPONSE);
    a->response.error_response = &a->error;
}

/* The file asked for comes first, and then what it imports. */
static void add_files(struct answer *a, const struct svc_file *files, size_t n, size_t first)
{
    bool wanted[SVC_FILES_MAX] = {false};
    size_t count = 0;
    wanted[first] = true;
    svc_files_imported(files, n, wanted);
    a->file[count++] = (ProtobufCBinaryData){files[first].len, (uint8_t *)(uintptr_t)files[first].data};
    for (size_t i = 0; i < first; i++)
        if (wanted[i])
            a->file[count++] = (ProtobufCBinaryData){files[i].len, (uint8_t *)(uintptr_t)files[i].data};
    grpc__reflection__v1__file_descriptor_response__init(&a->files);
    a->files.n_file_descriptor_proto = count;
    a->files.file_descriptor_proto = a->file;
    a->response.message_response_case = ANSWERS(FILE_DESCRIPTOR_RESPONSE);
    a->response.file_descriptor_response = &a->files;
}

static void find_file(struct answer *a, const char *name, bool (*fits)(const struct svc_file *file, const char *name))
{
    struct svc_file files[SVC_FILES_MAX];
    size_t n = svc_files(files);
    for (size_t i = 0; i < n; i++) {
        if (fits(&files[i], name)) {
            add_files(a, files, n, i);
            return;
        }
    }
    refuse(a, HP_NOT_FOUND, "there is no such file or symbol");
}

static void list_services(struct answer *a)
{
    size_t n, count = 0, last = 0;
    const struct svc_method *methods = svc_methods(&n);
    const char *before = "";
    for (size_t i = 0; i < n && count < SERVICES_MAX; i++) {
        const char *name = methods[i].rpc.path + 1;
        size_t len = strcspn(name, "/");
        if ((len == last && !strncmp(name, before, len)) || len >= sizeof(a->names[0]))
            continue;
        before = name;
        last = len;
        memcpy(a->names[count], name, len);
        a->names[count][len] = '\0';
        grpc__reflection__v1__service_response__init(&a->service[count]);
        a->service[count].name = a->names[count];
        a->services[count] = &a->service[count];
        count++;
    }
    grpc__reflection__v1__list_service_response__init(&a->list);
    a->list.n_service = count;
    a->list.service = a->services;
    a->response.message_response_case = ANSWERS(LIST_SERVICES_RESPONSE);
    a->response.list_services_response = &a->list;
}

static void fill_in(struct answer *a, request_t *request)
{
    grpc__reflection__v1__server_reflection_response__init(&a->response);
    a->response.valid_host = request->host;
    a->response.original_request = request;
    switch (request->message_request_case) {
    case ASKS(FILE_BY_FILENAME):
        find_file(a, request->file_by_filename, svc_file_is);
        break;
    case ASKS(FILE_CONTAINING_SYMBOL):
        find_file(a, request->file_containing_symbol, svc_file_declares);
        break;
    case ASKS(LIST_SERVICES):
        list_services(a);
        break;
    case ASKS(FILE_CONTAINING_EXTENSION):
    case ASKS(ALL_EXTENSION_NUMBERS_OF_TYPE):
        refuse(a, HP_NOT_FOUND, "proto3 has no extensions");
        break;
    default:
        refuse(a, HP_INVALID_ARGUMENT, "nothing was asked");
    }
}

static void on_message(struct hp_call *call, const void *data, size_t len)
{
    struct svc_call *sc = call->service;
    struct hp_status status;
    struct answer a;
    if (!data) {
        svc_stream_end(sc->state, NULL);
        return;
    }
    struct hp_arena *arena = hp_arena_new(BUDGET + 4 * len);
    if (!arena) {
        hp_status_set(&status, HP_R_QUEUE_FULL, "no memory for the call");
        svc_stream_end(sc->state, &status);
        return;
    }
    request_t *request =
        (request_t *)hp_unpack(arena, &grpc__reflection__v1__server_reflection_request__descriptor, data, len, &status);
    if (request) {
        fill_in(&a, request);
        if (!call->send(call, &a.response.base))
            hp_status_set(&status, HP_R_QUEUE_FULL, "what was answered before isn't read");
        else
            status.code = HP_OK;
    }
    hp_arena_free(arena);
    if (!request || status.code != HP_OK)
        svc_stream_end(sc->state, &status);
}

void svc_reflection(struct svc_call *sc)
{
    struct svc_stream *stream = hp_alloc(sc->arena, sizeof(*stream));
    if (!stream) {
        svc_no_memory(sc);
        return;
    }
    if (!svc_stream_begin(sc, stream))
        return;
    sc->call->message = on_message;
    sc->call->listen(sc->call); /* may end the call */
}
