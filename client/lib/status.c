/* status.c - statuses as results: which class, which words. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"

hf_result hfi_result(const struct hp_status *status)
{
    switch (status->code) {
    case HP_OK:
        return HF_OK;
    case HP_INVALID_ARGUMENT:
    case HP_OUT_OF_RANGE:
        return HF_INVALID;
    case HP_FAILED_PRECONDITION:
        return status->reason == HP_R_STALE_TOKEN || status->reason == HP_R_NOT_HELD ? HF_LOST : HF_CONFLICT;
    case HP_ABORTED:
    case HP_ALREADY_EXISTS:
        return HF_CONFLICT;
    case HP_NOT_FOUND:
        return HF_NOT_FOUND;
    case HP_UNAUTHENTICATED:
    case HP_PERMISSION_DENIED:
        return HF_DENIED;
    case HP_UNIMPLEMENTED:
        return HF_UNSUPPORTED;
    case HP_UNAVAILABLE:
    case HP_RESOURCE_EXHAUSTED:
        return HF_UNAVAILABLE;
    case HP_UNKNOWN:
    case HP_DEADLINE_EXCEEDED:
    case HP_CANCELLED:
        return HF_UNKNOWN;
    case HP_INTERNAL:
    case HP_DATA_LOSS:
        break;
    }
    return HF_FAILED;
}

const char *hf_result_name(hf_result result)
{
    static const char *const names[] = {"OK",          "HELD",        "LOST",    "CONFLICT", "NOT_FOUND", "DENIED",   "INVALID",
                                        "UNSUPPORTED", "UNAVAILABLE", "UNKNOWN", "FAILED",   "MISUSE",    "NO_MEMORY"};

    return (unsigned)result < sizeof(names) / sizeof(names[0]) ? names[result] : "UNKNOWN";
}

static void clear(hf_error *error, hf_result result)
{
    memset(error, 0, sizeof(*error));
    error->result = result;
    error->reason = "";
}

static int64_t number(const struct hp_status *status, const char *name)
{
    const char *text = hp_status_get_meta(status, name);

    return text ? strtoll(text, NULL, 10) : 0;
}

hf_result hfi_error_from_status(hf_error *error, hf_result result, const struct hp_status *status)
{
    if (!error)
        return result;
    clear(error, result);
    if (result == HF_OK)
        return result;
    error->code = (int)status->code;
    error->reason = hp_reason_name((int)status->reason);
    error->retry_ms = status->retry_ms;
    error->fence = number(status, "fence");
    error->version = number(status, "version");
    memcpy(error->field, status->field,
           sizeof(error->field) < sizeof(status->field) ? sizeof(error->field) : sizeof(status->field));
    error->field[sizeof(error->field) - 1] = '\0';
    snprintf(error->message, sizeof(error->message), "%s", status->message);
    return result;
}

hf_result hfi_error_from_call(hf_error *error, hf_result result, const struct hfi_call *call)
{
    if (result == HF_MISUSE)
        return hfi_error_misuse(error);
    if (result == HF_NO_MEMORY)
        return hfi_error_no_memory(error);
    hfi_error_from_status(error, result, &call->status);
    if (error && call->unreachable)
        error->reason = "UNREACHABLE";
    return result;
}

hf_result hfi_error_set(hf_error *error, hf_result result, const char *reason, const char *format, ...)
{
    va_list args;

    if (!error)
        return result;
    clear(error, result);
    error->reason = reason;
    va_start(args, format);
    vsnprintf(error->message, sizeof(error->message), format, args);
    va_end(args);
    return result;
}

hf_result hfi_error_misuse(hf_error *error)
{
    return hfi_error_set(error, HF_MISUSE, "MISUSE",
                         "this client belongs to another process (after fork() make a new one), or is being freed");
}

hf_result hfi_error_no_memory(hf_error *error)
{
    return hfi_error_set(error, HF_NO_MEMORY, "NO_MEMORY", "out of memory");
}

hf_result hfi_error_lost(hf_error *error, const char *reason, const char *resource)
{
    return hfi_error_set(error, HF_LOST, reason, "the lease of %s is over: %s", resource, reason);
}
