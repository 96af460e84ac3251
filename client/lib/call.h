/*
 * call.h - one call to a server, with retries; and what the command-line client shares with the library.
 *
 * Internal to Holdfast's own programs (linked statically): prefix hfi_, never exported by the shared library. A call is a
 * struct on the caller's stack; it owns the arena of its response until hfi_call_release.
 */
#ifndef HOLDFAST_CLIENT_CALL_H
#define HOLDFAST_CLIENT_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/holdfast.h>
#include <protobuf-c/protobuf-c.h>

#include "proto/c/arena.h"
#include "proto/c/err.h"

#define HFI_ACQUIRE          "/holdfast.v1.LeaseService/Acquire"
#define HFI_CANCEL_WAIT      "/holdfast.v1.LeaseService/CancelWait"
#define HFI_RENEW            "/holdfast.v1.LeaseService/Renew"
#define HFI_RELEASE          "/holdfast.v1.LeaseService/Release"
#define HFI_GET_LEASE        "/holdfast.v1.LeaseService/Get"
#define HFI_LIST_LEASES      "/holdfast.v1.LeaseService/List"
#define HFI_BREAK            "/holdfast.v1.LeaseService/Break"
#define HFI_CHECK            "/holdfast.v1.ResourceService/Check"
#define HFI_WRITE            "/holdfast.v1.ResourceService/Write"
#define HFI_READ             "/holdfast.v1.ResourceService/Read"
#define HFI_LIST_RESOURCES   "/holdfast.v1.ResourceService/List"
#define HFI_DELETE           "/holdfast.v1.ResourceService/Delete"
#define HFI_CREATE_NAMESPACE "/holdfast.v1.AdminService/CreateNamespace"
#define HFI_SET_NAMESPACE    "/holdfast.v1.AdminService/SetNamespace"
#define HFI_LIST_NAMESPACES  "/holdfast.v1.AdminService/ListNamespaces"
#define HFI_AUDIT            "/holdfast.v1.AdminService/Audit"
#define HFI_STATS            "/holdfast.v1.AdminService/Stats"
#define HFI_ADVANCE_FENCES   "/holdfast.v1.AdminService/AdvanceFences"
#define HFI_OPERATION        "/holdfast.v1.OperationService/"

enum hfi_retry {
    HFI_RETRY_NEVER,     /* one try */
    HFI_RETRY_UNAPPLIED, /* again only if the try surely had no effect: for what must not be repeated (a write without write_seq) */
    HFI_RETRY_HARMLESS,  /* also after an ambiguous try: the call carries what makes a repeat recognisable */
    HFI_RETRY_READ       /* as often as it helps; never ambiguous, since it changes nothing */
};

struct hfi_wait; /* wait.h */

struct hfi_call {
    /* in: zero means default where it says so */
    const char *method;
    const ProtobufCMessage *request;                 /* borrowed; its namespace must be filled in */
    const ProtobufCMessageDescriptor *response_type; /* e.g. &holdfast__v1__acquire_response__descriptor */
    int64_t timeout_ms;                              /* all tries together; 0 = the client's */
    enum hfi_retry retry;
    struct hfi_wait
        *wait; /* it may wait at the server, on top of its timeout, and may be given up; begun by hfi_wait_begin. NULL = neither */
    size_t reply_max; /* roughly the largest response, for packing; 0 = 4 KiB */
    /* Asked before each try at the moment of sending, with the client's lock held (so it may call nothing of the library); false:
     * nothing (more) is sent. The status is then LOST's: see hfi_call. May be NULL. */
    bool (*may_send)(struct hfi_call *call);
    void *arg; /* the caller's */

    /* out */
    const ProtobufCMessage *response; /* NULL unless HF_OK; lives in `arena` */
    struct hp_status status;
    struct hp_arena *arena;
    /* CLOCK_BOOTTIME before the first try that may have taken effect was handed to the transport (tries that were surely refused or
     * not sent don't count); 0 = none was sent. */
    int64_t first_sent_ms;
    int64_t sent_ms;  /* the same of the last try */
    unsigned tries;   /* that were sent */
    bool ambiguous;   /* an earlier try, or this one, may have taken effect without our hearing of it */
    bool unreachable; /* HF_UNAVAILABLE because no server could be reached (and not because one said so) */
    bool refused;     /* may_send said no */
};

/* On HF_OK `call->response` is the server's answer. Otherwise `call->status` tells why: what the server said; UNAVAILABLE with
 * `unreachable` if nothing could be sent; OUTCOME_LOST (HF_UNKNOWN) if a try was sent and no answer could be read; LIMIT if the
 * request is above 4 MiB. Retries with full jitter by class of error within the timeout and the client's budget of retries. If
 * may_send said no: HF_LOST with NOT_HELD if nothing ambiguous was sent before, else HF_UNKNOWN. If the wait was given up: HF_HELD
 * without a response if it surely had no effect, else HF_UNKNOWN, unless an answer came all the same. Blocks. In a forked child:
 * HF_MISUSE. Release the call in any case. */
hf_result hfi_call(struct hf_client *client, struct hfi_call *call) __attribute__((warn_unused_result));
/* The response and its arena are gone. A zeroed or released call is allowed. */
void hfi_call_release(struct hfi_call *call);

/* The class of a status; HF_OK for HP_OK. */
hf_result hfi_result(const struct hp_status *status);
/* Fills in `error` (may be NULL) and returns `result`. */
hf_result hfi_error_from_status(hf_error *error, hf_result result, const struct hp_status *status);
/* The same for what did not come from a call. */
hf_result hfi_error_set(hf_error *error, hf_result result, const char *reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

enum { HFI_ID_SIZE = 33 };
/* `id` is a fresh random id of 32 hex digits, fit for a request_id. */
void hfi_new_id(struct hf_client *client, char id[HFI_ID_SIZE]);
/* CLOCK_BOOTTIME in milliseconds: the clock of all deadlines. */
int64_t hfi_boot_ms(void);

#endif
