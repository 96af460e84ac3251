/*
 * operation_check.h - is what a request about operations says within its limits? Before anything is done; see check.h.
 */
#ifndef HOLDFAST_SERVICE_OPERATION_CHECK_H
#define HOLDFAST_SERVICE_OPERATION_CHECK_H

#include "holdfast/v1/operation.pb-c.h"
#include "proto/c/arena.h"
#include "proto/c/err.h"
#include "store/store.h"

enum {
    SVC_FINGERPRINT_BYTES = 32,
    SVC_JSON_MAX = 1 << 20,
    SVC_RESULT_MAX = 1 << 20,
    SVC_RESULT_REF_MAX = 1024,
    SVC_MESSAGE_MAX = 4096,
    SVC_EVENTS_MAX = 100,
    SVC_EVENT_BYTES_MAX = 1 << 20, /* payloads together */
    SVC_RETRY_AFTER_MAX_MS = 86400000
};

/* What every call about one operation names. */
bool svc_check_operation(const char *ns, const char *key, struct hp_status *status);
/* The same with the type. */
bool svc_check_typed(const char *ns, const char *key, const char *type, struct hp_status *status);

/* The parameters of an operation: exactly one of both. */
struct svc_parameters {
    int which; /* the oneof's case: 0, or the number of the field that is set */
    ProtobufCBinaryData fingerprint;
    const char *canonical_json;
};
/* The parameters of a request of type BeginRequest, RecordRequest or ExecuteRequest. */
#define SVC_PARAMETERS(req) ((struct svc_parameters){(int)(req)->parameters_case, (req)->fingerprint, (req)->canonical_json})

/* `out` is the fingerprint, 32 bytes: the one given, or SHA-256 over the RFC 8785 form of the JSON. In the arena. */
bool svc_check_parameters(struct hp_arena *arena, struct svc_parameters parameters, struct st_bytes *out, struct hp_status *status);
/* Text that has to be JSON which PostgreSQL's jsonb takes; "" is no JSON. */
bool svc_check_json(const char *field, const char *json, struct hp_status *status);

/* A result or where it stands, not both; at most 1 MiB, and 1,024 bytes. */
bool svc_check_result(ProtobufCBinaryData result, const char *result_ref, struct hp_status *status);
/* Text of at most `max` bytes, of which `min` may be 0. */
bool svc_check_text(const char *field, const char *text, size_t min, size_t max, struct hp_status *status);
/* Five characters 0–9 A–Z, or empty. */
bool svc_check_sqlstate(const char *sqlstate, struct hp_status *status);
bool svc_check_error_class(Holdfast__V1__ErrorClass__Kind error_class, struct hp_status *status);
/* At most 100, each with its names; payloads of at most 1 MiB together. */
bool svc_check_events(Holdfast__V1__Event *const *events, size_t n, struct hp_status *status);
/* What a person's decision carries. */
bool svc_check_decision(const char *ns, const char *key, int64_t revision, const char *actor, const char *reason,
                        struct hp_status *status);

/* A result's bytes as the store wants them: none if there is a reference. An empty result is one. */
struct st_bytes svc_result_bytes(ProtobufCBinaryData result, const char *result_ref);
/* Events that were checked, for the store; false: no memory. They borrow. */
bool svc_store_events(struct hp_arena *arena, Holdfast__V1__Event *const *events, size_t n, struct st_events *out);

#endif
