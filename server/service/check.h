/*
 * check.h - is what a request says within its limits? Before anything is done.
 *
 * Each returns true, or false with `status` INVALID_ARGUMENT naming the field by its path, its value and its limit.
 */
#ifndef HOLDFAST_SERVICE_CHECK_H
#define HOLDFAST_SERVICE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/arena.h"
#include "proto/c/err.h"

enum {
    SVC_TTL_MIN_MS = 100,
    SVC_TTL_MAX_MS = 86400000,
    SVC_WAIT_MAX_MS = 3600000,
    SVC_RESOURCES_MAX = 16,
    SVC_ITEMS_MAX = 1000,
    SVC_LABELS_MAX = 4096, /* bytes */
    SVC_VALUE_MAX = 1 << 20,
    SVC_REASON_MAX = 1024,
    SVC_KEY_NAME_MAX = 64,
    SVC_PAGE_MAX = 1000,
    SVC_PAGE_DEFAULT = 100
};

/* A name that may be left out. */
bool svc_check_optional(const char *field, const char *name, struct hp_status *status);
/* A number from min to max. */
bool svc_check_range(const char *field, int64_t value, int64_t min, int64_t max, struct hp_status *status);
bool svc_check_ttl(int64_t ttl_ms, struct hp_status *status);
bool svc_check_token(const char *field, int64_t token, struct hp_status *status);
/* 1 to 16 names, each once. */
bool svc_check_resources(char *const *names, size_t n, struct hp_status *status);
/* One of many items of a call. */
struct svc_token {
    const char *name; /* of a resource, or an operation's key */
    int64_t token;
};
/* 1 to 1000 items, each name once, each token at least 1. `what` is the field that holds the name: "resource". The arena is for
 * scratch. */
bool svc_check_items(struct hp_arena *arena, const char *what, const struct svc_token *items, size_t n, struct hp_status *status);
/* The labels as a JSON object in the arena (of labels that come twice, the last one: protobuf's rule for maps); NULL in
 * `json` if there are none. */
bool svc_check_labels(struct hp_arena *arena, Holdfast__V1__AcquireRequest__LabelsEntry *const *labels, size_t n, const char **json,
                      struct hp_status *status);
/* The name of a key: 1 to 64 bytes, without the parentheses that in audits stand around what a caller says of itself. */
bool svc_check_key_name(const char *field, const char *name, struct hp_status *status);
/* Why an operator does it: 1 to 1,024 bytes. */
bool svc_check_reason(const char *reason, struct hp_status *status);
/* `max` is the page's size with the default filled in. */
bool svc_check_page_size(int64_t page_size, int64_t *max, struct hp_status *status);
/* The same once it has passed. */
size_t svc_page_rows(int64_t page_size);

/*
 * Page tokens: base64url of a version, the kind of list and the last name of the page before. Opaque to callers; one that
 * this server didn't make is refused.
 */
enum svc_page_kind {
    SVC_PAGE_LEASES = 'L',
    SVC_PAGE_RESOURCES = 'R',
    SVC_PAGE_NAMESPACES = 'N',
    SVC_PAGE_AUDIT = 'A',
    SVC_PAGE_OPERATIONS = 'O',
    SVC_PAGE_ATTEMPTS = 'T',
    SVC_PAGE_POLICIES = 'P', /* a token of these may stand for the empty name */
    SVC_PAGE_ACTIONS = 'C',
    SVC_PAGE_KEYS = 'K',
    SVC_PAGE_DENIALS = 'D',
    SVC_PAGE_SQL_ROLES = 'S'
};
/* The name that `page_token` stands for ("" for an empty one), in the arena. */
bool svc_page_after(struct hp_arena *arena, enum svc_page_kind kind, const char *page_token, const char **after,
                    struct hp_status *status);
/* The token for the page after `name`, in the arena; NULL: no memory. */
char *svc_page_token(struct hp_arena *arena, enum svc_page_kind kind, const char *name);
/* The same for lists in the order of a positive number; 0 for an empty token. */
bool svc_page_after_number(struct hp_arena *arena, enum svc_page_kind kind, const char *page_token, int64_t *after,
                           struct hp_status *status);
char *svc_page_token_number(struct hp_arena *arena, enum svc_page_kind kind, int64_t number);
/* The number that `text` of this token is; 0 for "". */
bool svc_page_number(const char *page_token, const char *text, int64_t *number, struct hp_status *status);

#endif
