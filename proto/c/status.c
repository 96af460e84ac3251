/*
 * status.c - struct hp_status as google.rpc.Status with ErrorInfo, RetryInfo and BadRequest, and back.
 *
 * https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto. No state; any thread.
 */
#include "proto/c/status.h"

#include <string.h>

#include "google/protobuf/any.pb-c.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "proto/c/json.h"
#include "proto/c/utf8.h"
#include "proto/c/wire.h"

#define DOMAIN     "holdfast"
#define TYPE_URL   "type.googleapis.com/"
#define ERROR_INFO "google.rpc.ErrorInfo"
#define RETRY_INFO "google.rpc.RetryInfo"
#define BAD_FIELD  "google.rpc.BadRequest"

enum { MS_PER_S = 1000, NS_PER_MS = 1000000, DETAILS = 3 };

/* The details of one status as messages; they borrow from it and point into themselves, so it must not be moved. */
struct details {
    Google__Rpc__ErrorInfo info;
    Google__Rpc__ErrorInfo__MetadataEntry entry[HP_STATUS_META];
    Google__Rpc__ErrorInfo__MetadataEntry *entries[HP_STATUS_META];
    Google__Rpc__RetryInfo retry;
    Google__Protobuf__Duration delay;
    Google__Rpc__BadRequest bad;
    Google__Rpc__BadRequest__FieldViolation violation;
    Google__Rpc__BadRequest__FieldViolation *violations[1];
    size_t n;
    const char *url[DETAILS];
    const ProtobufCMessage *message[DETAILS];
};

static void add_detail(struct details *details, const char *url, const ProtobufCMessage *message)
{
    details->url[details->n] = url;
    details->message[details->n++] = message;
}

static void fill_in(struct details *details, const struct hp_status *status)
{
    details->n = 0;
    if (status->reason != HP_R_UNSPECIFIED) {
        google__rpc__error_info__init(&details->info);
        details->info.reason = (char *)hp_reason_name((int)status->reason);
        details->info.domain = (char *)DOMAIN;
        for (size_t i = 0; i < status->n_meta; i++) {
            google__rpc__error_info__metadata_entry__init(&details->entry[i]);
            details->entry[i].key = (char *)status->meta[i].name;
            details->entry[i].value = (char *)status->meta[i].value;
            details->entries[i] = &details->entry[i];
        }
        details->info.n_metadata = status->n_meta;
        details->info.metadata = details->entries;
        add_detail(details, TYPE_URL ERROR_INFO, &details->info.base);
    }
    if (status->retry_ms > 0) {
        google__protobuf__duration__init(&details->delay);
        google__rpc__retry_info__init(&details->retry);
        details->delay.seconds = status->retry_ms / MS_PER_S;
        details->delay.nanos = (int32_t)(status->retry_ms % MS_PER_S) * NS_PER_MS;
        details->retry.retry_delay = &details->delay;
        add_detail(details, TYPE_URL RETRY_INFO, &details->retry.base);
    }
    if (status->field[0]) {
        google__rpc__bad_request__field_violation__init(&details->violation);
        google__rpc__bad_request__init(&details->bad);
        details->violation.field = (char *)status->field;
        details->violation.description = (char *)status->message;
        details->violations[0] = &details->violation;
        details->bad.n_field_violations = 1;
        details->bad.field_violations = details->violations;
        add_detail(details, TYPE_URL BAD_FIELD, &details->bad.base);
    }
}

bool hp_status_encode(const struct hp_status *status, struct hp_buf *out)
{
    struct details details;
    struct hp_buf packed[DETAILS] = {HP_BUF_INIT};
    Google__Protobuf__Any any[DETAILS], *anys[DETAILS];
    Google__Rpc__Status message;
    bool done = false;

    fill_in(&details, status);
    google__rpc__status__init(&message);
    message.code = (int32_t)status->code;
    message.message = (char *)status->message;
    for (size_t i = 0; i < details.n; i++) {
        if (!hp_pack(&packed[i], details.message[i]))
            goto out;
        google__protobuf__any__init(&any[i]);
        any[i].type_url = (char *)details.url[i];
        any[i].value.data = packed[i].data;
        any[i].value.len = packed[i].len;
        anys[i] = &any[i];
    }
    message.n_details = details.n;
    message.details = anys;
    done = hp_pack(out, &message.base);
out:
    for (size_t i = 0; i < DETAILS; i++)
        hp_buf_release(&packed[i]);
    return done;
}

/* ---- reading ---- */

static const char *intern(const char *name)
{
    static const char *const names[] = {"field",     "value",  "limit",  "fence", "version", "write_seq", "sqlstate", "resource",
                                        "namespace", "holder", "method", "key",   "state",   "revision",  "action",   "message"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return names[i];
    return NULL;
}

static void read_info(const Google__Rpc__ErrorInfo *info, struct hp_status *status)
{
    if (strcmp(info->domain, DOMAIN) != 0)
        return;
    status->reason = hp_reason_by_name(info->reason);
    for (size_t i = 0; i < info->n_metadata; i++) {
        const char *name = intern(info->metadata[i]->key);

        if (name)
            hp_status_meta(status, name, "%s", info->metadata[i]->value);
    }
}

static void read_retry(const Google__Rpc__RetryInfo *info, struct hp_status *status)
{
    const Google__Protobuf__Duration *delay = info->retry_delay;

    if (!delay || delay->seconds < 0 || delay->nanos < 0)
        return;
    if (delay->seconds > INT64_MAX / MS_PER_S - MS_PER_S || delay->nanos >= MS_PER_S * NS_PER_MS)
        return;
    /* Rounded up: a delay is never cut to none. */
    status->retry_ms = delay->seconds * MS_PER_S + ((int64_t)delay->nanos + NS_PER_MS - 1) / NS_PER_MS;
}

static void read_bad(const Google__Rpc__BadRequest *bad, struct hp_status *status)
{
    if (bad->n_field_violations == 0)
        return;
    hp_utf8_copy(status->field, sizeof status->field, bad->field_violations[0]->field, strlen(bad->field_violations[0]->field));
}

static void read_detail(struct hp_arena *arena, const Google__Protobuf__Any *any, struct hp_status *status)
{
    const char *slash = strrchr(any->type_url, '/');
    const char *name = slash ? slash + 1 : any->type_url;
    const ProtobufCMessageDescriptor *type;
    const ProtobufCMessage *message;
    struct hp_status why;

    if (strcmp(name, ERROR_INFO) == 0)
        type = &google__rpc__error_info__descriptor;
    else if (strcmp(name, RETRY_INFO) == 0)
        type = &google__rpc__retry_info__descriptor;
    else if (strcmp(name, BAD_FIELD) == 0)
        type = &google__rpc__bad_request__descriptor;
    else
        return;
    message = hp_unpack(arena, type, any->value.data, any->value.len, &why);
    if (!message) /* a detail less; code and message stand */
        return;
    if (type == &google__rpc__error_info__descriptor)
        read_info((const Google__Rpc__ErrorInfo *)message, status);
    else if (type == &google__rpc__retry_info__descriptor)
        read_retry((const Google__Rpc__RetryInfo *)message, status);
    else
        read_bad((const Google__Rpc__BadRequest *)message, status);
}

bool hp_status_decode(const void *data, size_t len, struct hp_status *status)
{
    enum { BUDGET = 1 << 20, FACTOR = 4 };
    struct hp_arena *arena = NULL;
    const Google__Rpc__Status *message = NULL;
    struct hp_status why;

    if (len <= HP_REQUEST_MAX)
        arena = hp_arena_new(BUDGET + FACTOR * len);
    if (arena)
        message = (const Google__Rpc__Status *)hp_unpack(arena, &google__rpc__status__descriptor, data, len, &why);
    if (!message) {
        hp_status_set(status, HP_R_INTERNAL, "the error's details cannot be read");
        hp_arena_free(arena);
        return false;
    }
    memset(status, 0, sizeof *status);
    status->code = message->code >= HP_OK && message->code <= HP_UNAUTHENTICATED ? (enum hp_code)message->code : HP_UNKNOWN;
    hp_utf8_copy(status->message, sizeof status->message, message->message, strlen(message->message));
    for (size_t i = 0; i < message->n_details; i++)
        read_detail(arena, message->details[i], status);
    hp_arena_free(arena);
    return true;
}

/* ---- JSON ---- */

void hp_status_json(const struct hp_status *status, struct hp_buf *out)
{
    struct details details;

    fill_in(&details, status);
    hp_buf_printf(out, "{\"code\":%d,\"message\":", (int)status->code);
    hp_json_string(out, status->message, strlen(status->message));
    for (size_t i = 0; i < details.n; i++) {
        struct hp_buf detail = HP_BUF_INIT;

        hp_buf_addstr(out, i ? ",{\"@type\":" : ",\"details\":[{\"@type\":");
        hp_json_string(out, details.url[i], strlen(details.url[i]));
        /* The detail's own object without its first brace; each of the three has a member. */
        hp_json_write(&detail, details.message[i], 0);
        hp_buf_addch(out, ',');
        if (detail.failed || detail.len < 1)
            out->failed = true;
        else
            hp_buf_add(out, detail.data + 1, detail.len - 1);
        hp_buf_release(&detail);
    }
    hp_buf_addstr(out, details.n ? "]}" : "}");
}
