/*
 * operation_check.c - see operation_check.h.
 */
#include "service/operation_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/c/canon.h"
#include "proto/c/wire.h"
#include "service/check.h"

bool svc_check_operation(const char *ns, const char *key, struct hp_status *status)
{
    return hp_check_name("namespace", ns, status) && hp_check_name("key", key, status);
}

bool svc_check_typed(const char *ns, const char *key, const char *type, struct hp_status *status)
{
    return svc_check_operation(ns, key, status) && hp_check_name("type", type, status);
}

bool svc_check_text(const char *field, const char *text, size_t min, size_t max, struct hp_status *status)
{
    size_t len = strlen(text);
    char limit[48];
    if (len >= min && len <= max)
        return true;
    if (min)
        snprintf(limit, sizeof(limit), "%zu to %zu bytes", min, max);
    else
        snprintf(limit, sizeof(limit), "at most %zu bytes", max);
    hp_status_bad_field(status, HP_R_LIMIT, field, text, len, limit);
    return false;
}

static bool check_size(const char *field, size_t len, size_t max, struct hp_status *status)
{
    char value[32], limit[48];
    if (len <= max)
        return true;
    int n = snprintf(value, sizeof(value), "%zu bytes", len);
    snprintf(limit, sizeof(limit), "at most %zu bytes", max);
    hp_status_bad_field(status, HP_R_LIMIT, field, value, (size_t)n, limit);
    return false;
}

/* ---- parameters ---- */

static_assert((int)HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_CANONICAL_JSON == 5 &&
                  (int)HOLDFAST__V1__RECORD_REQUEST__PARAMETERS_CANONICAL_JSON == 5 &&
                  (int)HOLDFAST__V1__EXECUTE_REQUEST__PARAMETERS_CANONICAL_JSON == 5,
              "the same fields in all three requests");

static bool no_memory(struct hp_status *status)
{
    hp_status_set(status, HP_R_QUEUE_FULL, "no memory for the call");
    return false;
}

static bool not_canonical(const char *field, const char *json, const struct hp_canon_error *error, struct hp_status *status)
{
    /* The value shown is what stands where it is wrong. */
    size_t len = strlen(json), at = error->at < len ? error->at : len;
    char limit[160];
    if (error->no_memory)
        return no_memory(status);
    snprintf(limit, sizeof(limit), "JSON; at byte %zu: %s", error->at, error->text);
    hp_status_bad_field(status, HP_R_MALFORMED, field, json + at, len - at > 40 ? 40 : len - at, limit);
    return false;
}

static bool fingerprint_of_json(const char *json, uint8_t *sum, struct hp_status *status)
{
    struct hp_canon_error error = {0};
    return svc_check_text("canonical_json", json, 1, SVC_JSON_MAX, status) &&
           (hp_fingerprint(json, strlen(json), sum, &error) || not_canonical("canonical_json", json, &error, status));
}

bool svc_check_parameters(struct hp_arena *arena, struct svc_parameters parameters, struct st_bytes *out, struct hp_status *status)
{
    uint8_t *sum = hp_alloc(arena, SVC_FINGERPRINT_BYTES);
    char value[32];
    if (!sum)
        return no_memory(status);
    *out = (struct st_bytes){sum, SVC_FINGERPRINT_BYTES};
    if (parameters.which == HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_CANONICAL_JSON)
        return fingerprint_of_json(parameters.canonical_json, sum, status);
    size_t len = parameters.which == HOLDFAST__V1__BEGIN_REQUEST__PARAMETERS_FINGERPRINT ? parameters.fingerprint.len : 0;
    if (len == SVC_FINGERPRINT_BYTES) {
        memcpy(sum, parameters.fingerprint.data, len);
        return true;
    }
    int n = snprintf(value, sizeof(value), "%zu bytes", len);
    hp_status_bad_field(status, HP_R_LIMIT, "fingerprint", value, (size_t)n, "exactly 32 bytes, or canonical_json instead");
    return false;
}

/* jsonb cannot keep U+0000; the canonical form writes it in one way only. */
static const char *find_nul(const char *form, size_t len)
{
    bool escaped = false;
    for (size_t i = 0; i + 5 <= len; i++) {
        if (escaped && !memcmp(form + i, "u0000", 5))
            return form + i - 1;
        escaped = !escaped && form[i] == '\\';
    }
    return NULL;
}

bool svc_check_json(const char *field, const char *json, struct hp_status *status)
{
    struct hp_buf form = HP_BUF_INIT;
    struct hp_canon_error error = {0};
    if (!svc_check_text(field, json, 1, SVC_JSON_MAX, status))
        return false;
    bool ok = hp_canonical_json(json, strlen(json), &form, &error) || not_canonical(field, json, &error, status);
    if (ok && find_nul((const char *)form.data, form.len)) {
        hp_status_bad_field(status, HP_R_MALFORMED, field, "\\u0000", 6, "JSON without U+0000, which PostgreSQL cannot keep");
        ok = false;
    }
    hp_buf_release(&form);
    return ok;
}

/* ---- results and events ---- */

bool svc_check_result(ProtobufCBinaryData result, const char *result_ref, struct hp_status *status)
{
    if (!check_size("result", result.len, SVC_RESULT_MAX, status) ||
        !svc_check_text("result_ref", result_ref, 0, SVC_RESULT_REF_MAX, status))
        return false;
    if (!result.len || !result_ref[0])
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, "result_ref", result_ref, strlen(result_ref), "either result or result_ref");
    return false;
}

struct st_bytes svc_result_bytes(ProtobufCBinaryData result, const char *result_ref)
{
    static const unsigned char empty[1];
    if (result_ref[0])
        return (struct st_bytes){NULL, 0};
    return (struct st_bytes){result.len ? result.data : empty, result.len};
}

bool svc_check_sqlstate(const char *sqlstate, struct hp_status *status)
{
    size_t len = strlen(sqlstate);
    if (!len || (len == 5 && strspn(sqlstate, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5))
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, "sqlstate", sqlstate, len, "five characters 0-9 A-Z, or empty");
    return false;
}

bool svc_check_error_class(Holdfast__V1__ErrorClass__Kind error_class, struct hp_status *status)
{
    return svc_check_range("error_class", (int64_t)error_class, HOLDFAST__V1__ERROR_CLASS__KIND__TRANSIENT,
                           HOLDFAST__V1__ERROR_CLASS__KIND__FENCED, status);
}

static bool check_event(const Holdfast__V1__Event *event, size_t i, struct hp_status *status)
{
    char field[48];
    snprintf(field, sizeof(field), "events[%zu].aggregate_type", i);
    if (!hp_check_name(field, event->aggregate_type, status))
        return false;
    snprintf(field, sizeof(field), "events[%zu].aggregate_id", i);
    if (!hp_check_name(field, event->aggregate_id, status))
        return false;
    snprintf(field, sizeof(field), "events[%zu].type", i);
    return hp_check_name(field, event->type, status);
}

bool svc_check_events(Holdfast__V1__Event *const *events, size_t n, struct hp_status *status)
{
    size_t bytes = 0;
    if (!svc_check_range("events", (int64_t)n, 0, SVC_EVENTS_MAX, status))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!check_event(events[i], i, status))
            return false;
        bytes += events[i]->payload.len;
    }
    return check_size("events", bytes, SVC_EVENT_BYTES_MAX, status);
}

bool svc_store_events(struct hp_arena *arena, Holdfast__V1__Event *const *events, size_t n, struct st_events *out)
{
    struct st_event *list = hp_alloc_array(arena, n, sizeof(*list));
    *out = (struct st_events){list, n};
    for (size_t i = 0; list && i < n; i++) {
        list[i] = (struct st_event){.aggregate_type = events[i]->aggregate_type,
                                    .aggregate_id = events[i]->aggregate_id,
                                    .type = events[i]->type,
                                    .payload = {events[i]->payload.data, events[i]->payload.len}};
    }
    return list != NULL;
}

bool svc_check_decision(const char *ns, const char *key, int64_t revision, const char *actor, const char *reason,
                        struct hp_status *status)
{
    return svc_check_operation(ns, key, status) && svc_check_range("revision", revision, 1, INT64_MAX, status) &&
           hp_check_name("actor", actor, status) && svc_check_reason(reason, status);
}
