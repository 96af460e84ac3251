/*
 * err.h - what can go wrong with a call: gRPC codes, Holdfast's reasons, and a status that carries both.
 *
 * One X-macro each gives enum, name and text. The reasons are those of holdfast/v1/errors.proto; a test compares them. A
 * `struct hp_status` is a plain value of fixed size: filling one in cannot fail, and nothing has to be freed.
 */
#ifndef HOLDFAST_PROTO_ERR_H
#define HOLDFAST_PROTO_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* gRPC's status codes (grpc/grpc doc/statuscodes.md). */
#define HP_CODES(X)                                                                                                                \
    X(OK, 0)                                                                                                                       \
    X(CANCELLED, 1)                                                                                                                \
    X(UNKNOWN, 2)                                                                                                                  \
    X(INVALID_ARGUMENT, 3)                                                                                                         \
    X(DEADLINE_EXCEEDED, 4)                                                                                                        \
    X(NOT_FOUND, 5)                                                                                                                \
    X(ALREADY_EXISTS, 6)                                                                                                           \
    X(PERMISSION_DENIED, 7)                                                                                                        \
    X(RESOURCE_EXHAUSTED, 8)                                                                                                       \
    X(FAILED_PRECONDITION, 9)                                                                                                      \
    X(ABORTED, 10)                                                                                                                 \
    X(OUT_OF_RANGE, 11)                                                                                                            \
    X(UNIMPLEMENTED, 12)                                                                                                           \
    X(INTERNAL, 13)                                                                                                                \
    X(UNAVAILABLE, 14)                                                                                                             \
    X(DATA_LOSS, 15)                                                                                                               \
    X(UNAUTHENTICATED, 16)

enum hp_code {
#define X(name, number) HP_##name = (number),
    HP_CODES(X)
#undef X
};

/* name, number, usual code, what it means */
#define HP_REASONS(X)                                                                                                              \
    X(UNSPECIFIED, 0, OK, "no error")                                                                                              \
    X(LIMIT, 1, INVALID_ARGUMENT, "outside its limit")                                                                             \
    X(MALFORMED, 2, INVALID_ARGUMENT, "not well-formed")                                                                           \
    X(STALE_TOKEN, 10, FAILED_PRECONDITION, "a newer token was granted")                                                           \
    X(NOT_HELD, 11, FAILED_PRECONDITION, "the token's lease has ended or never was")                                               \
    X(ILLEGAL_STATE, 12, FAILED_PRECONDITION, "not allowed in this state")                                                         \
    X(OUTCOME_UNKNOWN, 13, FAILED_PRECONDITION, "the outcome is unknown; reconcile it")                                            \
    X(IN_REVIEW, 14, FAILED_PRECONDITION, "parked for a person to review")                                                         \
    X(VERSION_MISMATCH, 20, ABORTED, "the value has another version")                                                              \
    X(SUPERSEDED, 21, ABORTED, "a later write of this token was accepted")                                                         \
    X(REVISION_MISMATCH, 22, ABORTED, "the operation has another revision")                                                        \
    X(ACTION_RAISED, 23, ABORTED, "the action raised an error")                                                                    \
    X(NO_SUCH_NAMESPACE, 30, NOT_FOUND, "no such namespace")                                                                       \
    X(NO_SUCH_RESOURCE, 31, NOT_FOUND, "no such resource")                                                                         \
    X(NO_SUCH_OPERATION, 32, NOT_FOUND, "no such operation")                                                                       \
    X(NO_SUCH_ACTION, 33, NOT_FOUND, "no such action")                                                                             \
    X(NO_SUCH_KEY, 34, NOT_FOUND, "no such key")                                                                                   \
    X(CHANGES_MISSED, 36, OUT_OF_RANGE, "changes may have been missed; list again")                                                \
    X(NO_KEY, 40, UNAUTHENTICATED, "no API key was given")                                                                         \
    X(BAD_KEY, 41, UNAUTHENTICATED, "the API key is not valid")                                                                    \
    X(ROLE, 42, PERMISSION_DENIED, "the role does not allow this method")                                                          \
    X(SCOPE, 43, PERMISSION_DENIED, "outside what the key may reach")                                                              \
    X(NO_SUCH_METHOD, 50, UNIMPLEMENTED, "no such method")                                                                         \
    X(NOT_YET, 51, UNIMPLEMENTED, "not implemented yet")                                                                           \
    X(INTERNAL, 52, INTERNAL, "internal error")                                                                                    \
    X(PARAMETER_CONFLICT, 60, ALREADY_EXISTS, "the key was used with other parameters")                                            \
    X(DRAINING, 70, UNAVAILABLE, "the server is shutting down")                                                                    \
    X(DATABASE_DOWN, 71, UNAVAILABLE, "the database cannot be reached")                                                            \
    X(BUSY, 72, UNAVAILABLE, "locked by another transaction")                                                                      \
    X(QUEUE_FULL, 80, RESOURCE_EXHAUSTED, "too many calls are waiting")                                                            \
    X(QUOTA, 81, RESOURCE_EXHAUSTED, "the namespace's quota is used up")                                                           \
    X(RATE, 82, RESOURCE_EXHAUSTED, "too many calls in this time")                                                                 \
    X(OUTCOME_LOST, 90, UNKNOWN, "it is not known whether the call took effect")

enum hp_reason {
#define X(name, number, code, text) HP_R_##name = (number),
    HP_REASONS(X)
#undef X
};

enum { HP_STATUS_META = 4 };

struct hp_status {
    enum hp_code code;
    enum hp_reason reason;
    int64_t retry_ms;  /* RetryInfo; 0 = none */
    char field[96];    /* BadRequest: the field's path, such as items[57].resource; "" = none */
    char message[384]; /* valid UTF-8, for people */
    size_t n_meta;
    struct {
        const char *name; /* static */
        char value[96];
    } meta[HP_STATUS_META]; /* ErrorInfo.metadata */
};

/* "NOT_FOUND"; "CODE_n" is never returned: an unknown number is "UNKNOWN". */
const char *hp_code_name(int code);
/* "STALE_TOKEN"; an unknown number is "UNSPECIFIED". */
const char *hp_reason_name(int reason);
/* The reason of this name, or HP_R_UNSPECIFIED. */
enum hp_reason hp_reason_by_name(const char *name);
enum hp_code hp_reason_code(enum hp_reason reason);
const char *hp_reason_text(enum hp_reason reason);

/* `status` is this reason with its usual code, and a message made by printf (NULL = the reason's text). Long or invalid
 * UTF-8 is cut or replaced. RESOURCE_EXHAUSTED and UNAVAILABLE get a retry_ms of 100. */
void hp_status_set(struct hp_status *status, enum hp_reason reason, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* INVALID_ARGUMENT that names a field, its value and its limit: metadata field, value, limit; a BadRequest; a message that
 * says the same, such as `ttl_ms: "1" is outside its limit; wanted: 100 to 86400000`. `value` may be any bytes; what isn't
 * printable is escaped, what is long is cut and its length told. NULL: there is no value to show. */
void hp_status_bad_field(struct hp_status *status, enum hp_reason reason, const char *field, const char *value, size_t value_len,
                         const char *limit);

/* Adds metadata; what doesn't fit is left out. `name` is static. */
void hp_status_meta(struct hp_status *status, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The value of metadata `name`, or NULL. */
const char *hp_status_get_meta(const struct hp_status *status, const char *name);

#endif
