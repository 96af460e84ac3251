/*
 * err.c - codes and reasons by name and number, and how a status is filled in.
 *
 * No state; any thread. Everything that goes into a status is made valid UTF-8 and cut between characters here, so that no
 * later step (protobuf, JSON, a log) can fail on it.
 */
#include "proto/c/err.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/c/utf8.h"

enum { RETRY_MS = 100 };

static const struct {
    int number;
    enum hp_code code;
    const char *name, *text;
} reasons[] = {
#define X(name, number, code, text) {number, HP_##code, #name, text},
    HP_REASONS(X)
#undef X
};

static const size_t n_reasons = sizeof reasons / sizeof reasons[0];

const char *hp_code_name(int code)
{
    switch (code) {
#define X(name, number)                                                                                                            \
    case number:                                                                                                                   \
        return #name;
        HP_CODES(X)
#undef X
    }
    return "UNKNOWN";
}

static size_t index_of(int reason)
{
    for (size_t i = 0; i < n_reasons; i++)
        if (reasons[i].number == reason)
            return i;
    return 0; /* UNSPECIFIED */
}

const char *hp_reason_name(int reason)
{
    return reasons[index_of(reason)].name;
}

enum hp_reason hp_reason_by_name(const char *name)
{
    for (size_t i = 0; name && i < n_reasons; i++)
        if (strcmp(reasons[i].name, name) == 0)
            return (enum hp_reason)reasons[i].number;
    return HP_R_UNSPECIFIED;
}

enum hp_code hp_reason_code(enum hp_reason reason)
{
    return reasons[index_of((int)reason)].code;
}

const char *hp_reason_text(enum hp_reason reason)
{
    return reasons[index_of((int)reason)].text;
}

static void start(struct hp_status *status, enum hp_reason reason)
{
    memset(status, 0, sizeof *status);
    status->reason = reason;
    status->code = hp_reason_code(reason);
    if (status->code == HP_RESOURCE_EXHAUSTED || status->code == HP_UNAVAILABLE)
        status->retry_ms = RETRY_MS;
}

void hp_status_set(struct hp_status *status, enum hp_reason reason, const char *format, ...)
{
    char text[2 * sizeof status->message];
    va_list args;
    int n;

    if (!format) {
        start(status, reason);
        snprintf(status->message, sizeof status->message, "%s", hp_reason_text(reason));
        return;
    }
    va_start(args, format); /* before `status` changes: an argument may point into it */
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    start(status, reason);
    if (n < 0)
        snprintf(text, sizeof text, "%s", hp_reason_text(reason));
    hp_utf8_copy(status->message, sizeof status->message, text, strlen(text));
}

void hp_status_bad_field(struct hp_status *status, enum hp_reason reason, const char *field, const char *value, size_t value_len,
                         const char *limit)
{
    char path[sizeof status->field], shown[sizeof status->meta[0].value];

    hp_utf8_copy(path, sizeof path, field ? field : "", field ? strlen(field) : 0);
    hp_utf8_escape(shown, sizeof shown, value ? value : "", value ? value_len : 0);
    if (value)
        hp_status_set(status, reason, "%s: \"%s\" is %s; wanted: %s", path, shown, hp_reason_text(reason), limit);
    else
        hp_status_set(status, reason, "%s is %s; wanted: %s", path, hp_reason_text(reason), limit);
    memcpy(status->field, path, sizeof status->field);
    hp_status_meta(status, "field", "%s", path);
    if (value)
        hp_status_meta(status, "value", "%s", shown);
    hp_status_meta(status, "limit", "%s", limit);
}

void hp_status_meta(struct hp_status *status, const char *name, const char *format, ...)
{
    char text[2 * sizeof status->meta[0].value];
    va_list args;
    size_t i = 0;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    while (i < status->n_meta && strcmp(status->meta[i].name, name) != 0)
        i++;
    if (n < 0 || i >= HP_STATUS_META)
        return;
    status->meta[i].name = name;
    hp_utf8_copy(status->meta[i].value, sizeof status->meta[i].value, text, strlen(text));
    if (i == status->n_meta)
        status->n_meta++;
}

const char *hp_status_get_meta(const struct hp_status *status, const char *name)
{
    for (size_t i = 0; i < status->n_meta; i++)
        if (strcmp(status->meta[i].name, name) == 0)
            return status->meta[i].value;
    return NULL;
}
