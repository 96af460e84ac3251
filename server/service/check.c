/*
 * check.c - see check.h.
 */
#include "service/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "proto/c/json.h"
#include "proto/c/wire.h"

/* ---- numbers and names ---- */

bool svc_check_optional(const char *field, const char *name, struct hp_status *status)
{
    return !name[0] || hp_check_name(field, name, status);
}

bool svc_check_range(const char *field, int64_t value, int64_t min, int64_t max, struct hp_status *status)
{
    char text[24], limit[64];
    if (value >= min && value <= max)
        return true;
    int n = snprintf(text, sizeof(text), "%" PRId64, value);
    if (max == INT64_MAX)
        snprintf(limit, sizeof(limit), "at least %" PRId64, min);
    else
        snprintf(limit, sizeof(limit), "%" PRId64 " to %" PRId64, min, max);
    hp_status_bad_field(status, HP_R_LIMIT, field, text, (size_t)n, limit);
    return false;
}

static bool check_count(const char *field, size_t n, size_t max, struct hp_status *status)
{
    return svc_check_range(field, (int64_t)n, 1, (int64_t)max, status);
}

bool svc_check_ttl(int64_t ttl_ms, struct hp_status *status)
{
    return svc_check_range("ttl_ms", ttl_ms, SVC_TTL_MIN_MS, SVC_TTL_MAX_MS, status);
}

bool svc_check_token(const char *field, int64_t token, struct hp_status *status)
{
    return svc_check_range(field, token, 1, INT64_MAX, status);
}

bool svc_check_key_name(const char *field, const char *name, struct hp_status *status)
{
    if (!hp_check_name(field, name, status))
        return false;
    if (strlen(name) <= SVC_KEY_NAME_MAX && !strpbrk(name, "()"))
        return true;
    hp_status_bad_field(status, HP_R_LIMIT, field, name, strlen(name), "1 to 64 bytes, without parentheses");
    return false;
}

bool svc_check_reason(const char *reason, struct hp_status *status)
{
    size_t len = strlen(reason);
    if (len >= 1 && len <= SVC_REASON_MAX)
        return true;
    hp_status_bad_field(status, HP_R_LIMIT, "reason", reason, len, "1 to 1024 bytes");
    return false;
}

bool svc_check_page_size(int64_t page_size, int64_t *max, struct hp_status *status)
{
    if (!svc_check_range("page_size", page_size, 0, SVC_PAGE_MAX, status))
        return false;
    *max = (int64_t)svc_page_rows(page_size);
    return true;
}

size_t svc_page_rows(int64_t page_size)
{
    return page_size ? (size_t)page_size : SVC_PAGE_DEFAULT;
}

/* ---- each once ---- */

/* A set of strings that it borrows: open addressing. A bad hash makes it slow, and with at most 4,096 strings not very. */
struct set {
    const char **slots;
    size_t mask;
};

static bool set_init(struct set *set, struct hp_arena *arena, size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    set->slots = hp_alloc_array(arena, size, sizeof(*set->slots));
    set->mask = size - 1;
    return set->slots != NULL;
}

/* False: it was in the set before. */
static bool set_add(struct set *set, const char *text)
{
    size_t at = (size_t)hb_hash_mix(hb_hash_str(HB_HASH_SEED, text)) & set->mask;
    for (; set->slots[at]; at = (at + 1) & set->mask)
        if (!strcmp(set->slots[at], text))
            return false;
    set->slots[at] = text;
    return true;
}

static bool no_memory(struct hp_status *status)
{
    hp_status_set(status, HP_R_QUEUE_FULL, "no memory for the call");
    return false;
}

bool svc_check_resources(char *const *names, size_t n, struct hp_status *status)
{
    char field[32];
    if (!check_count("resources", n, SVC_RESOURCES_MAX, status))
        return false;
    for (size_t i = 0; i < n; i++) {
        snprintf(field, sizeof(field), "resources[%zu]", i);
        if (!hp_check_name(field, names[i], status))
            return false;
        for (size_t j = 0; j < i; j++) {
            if (!strcmp(names[i], names[j])) {
                hp_status_bad_field(status, HP_R_MALFORMED, field, names[i], strlen(names[i]), "each resource once");
                return false;
            }
        }
    }
    return true;
}

bool svc_check_items(struct hp_arena *arena, const char *what, const struct svc_token *items, size_t n, struct hp_status *status)
{
    char field[48], once[32];
    struct set seen;
    if (!check_count("items", n, SVC_ITEMS_MAX, status))
        return false;
    if (!set_init(&seen, arena, n))
        return no_memory(status);
    for (size_t i = 0; i < n; i++) {
        snprintf(field, sizeof(field), "items[%zu].%s", i, what);
        if (!hp_check_name(field, items[i].name, status))
            return false;
        if (!set_add(&seen, items[i].name)) {
            snprintf(once, sizeof(once), "each %s once", what);
            hp_status_bad_field(status, HP_R_MALFORMED, field, items[i].name, strlen(items[i].name), once);
            return false;
        }
        snprintf(field, sizeof(field), "items[%zu].token", i);
        if (!svc_check_token(field, items[i].token, status))
            return false;
    }
    return true;
}

/* ---- labels ---- */

static bool labels_json(struct hp_arena *arena, Holdfast__V1__AcquireRequest__LabelsEntry *const *labels, size_t n,
                        const char **json, struct hp_status *status)
{
    struct set seen;
    struct hp_buf buf = HP_BUF_INIT;
    if (!set_init(&seen, arena, n))
        return no_memory(status);
    hp_buf_addch(&buf, '{');
    for (size_t i = n; i-- > 0;) { /* from the end: the last of equal names wins */
        if (!set_add(&seen, labels[i]->key))
            continue;
        if (buf.len > 1)
            hp_buf_addch(&buf, ',');
        hp_json_string(&buf, labels[i]->key, strlen(labels[i]->key));
        hp_buf_addch(&buf, ':');
        hp_json_string(&buf, labels[i]->value, strlen(labels[i]->value));
    }
    hp_buf_addch(&buf, '}');
    *json = buf.failed ? NULL : hp_strndup(arena, (const char *)buf.data, buf.len);
    hp_buf_release(&buf);
    return *json || no_memory(status);
}

bool svc_check_labels(struct hp_arena *arena, Holdfast__V1__AcquireRequest__LabelsEntry *const *labels, size_t n, const char **json,
                      struct hp_status *status)
{
    size_t total = 0;
    char text[32];
    *json = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!hp_check_name("labels", labels[i]->key, status))
            return false;
        total += strlen(labels[i]->key) + strlen(labels[i]->value);
    }
    if (total > SVC_LABELS_MAX) {
        int len = snprintf(text, sizeof(text), "%zu bytes", total);
        hp_status_bad_field(status, HP_R_LIMIT, "labels", text, (size_t)len, "4096 bytes, names and values together");
        return false;
    }
    return n == 0 || labels_json(arena, labels, n, json, status);
}

/* ---- page tokens ---- */

enum { PAGE_VERSION = 1, PAGE_HEAD = 2, PAGE_BYTES_MAX = PAGE_HEAD + 256, PAGE_TEXT_MAX = (PAGE_BYTES_MAX + 2) / 3 * 4 };

/* RFC 4648 section 5, without padding. */
static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t encode(const unsigned char *bytes, size_t n, char *text)
{
    size_t at = 0;
    unsigned bits = 0, n_bits = 0;
    for (size_t i = 0; i < n; i++) {
        bits = (bits << 8 | bytes[i]) & 0xffff;
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            text[at++] = alphabet[bits >> (n_bits - 6) & 63];
    }
    if (n_bits)
        text[at++] = alphabet[bits << (6 - n_bits) & 63];
    return at;
}

/* Returns how many bytes it is; 0 if it isn't what `encode` makes. */
static size_t decode(const char *text, size_t len, unsigned char *bytes)
{
    size_t n = 0;
    unsigned bits = 0, n_bits = 0;
    char again[PAGE_TEXT_MAX];
    for (size_t i = 0; i < len; i++) {
        const char *digit = strchr(alphabet, text[i]);
        if (!digit)
            return 0;
        bits = (bits << 6 | (unsigned)(digit - alphabet)) & 0xffff;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            bytes[n++] = (unsigned char)(bits >> n_bits);
        }
    }
    return encode(bytes, n, again) == len && !memcmp(again, text, len) ? n : 0;
}

static bool not_ours(const char *page_token, struct hp_status *status)
{
    hp_status_bad_field(status, HP_R_MALFORMED, "page_token", page_token, strlen(page_token), "a next_page_token of this list");
    return false;
}

bool svc_page_after(struct hp_arena *arena, enum svc_page_kind kind, const char *page_token, const char **after,
                    struct hp_status *status)
{
    unsigned char bytes[PAGE_TEXT_MAX];
    size_t len = strlen(page_token), n = 0;
    struct hp_status ignored;
    *after = "";
    if (!len)
        return true;
    if (len <= PAGE_TEXT_MAX)
        n = decode(page_token, len, bytes);
    bool empty = n == PAGE_HEAD && kind == SVC_PAGE_POLICIES;
    if ((n <= PAGE_HEAD && !empty) || bytes[0] != PAGE_VERSION || bytes[1] != (unsigned char)kind ||
        !hp_utf8_valid(bytes + PAGE_HEAD, n - PAGE_HEAD))
        goto malformed;
    *after = hp_strndup(arena, (const char *)bytes + PAGE_HEAD, n - PAGE_HEAD);
    if (!*after)
        return no_memory(status);
    if (strlen(*after) == n - PAGE_HEAD && (empty || hp_check_name("page_token", *after, &ignored)))
        return true;
malformed:
    return not_ours(page_token, status);
}

char *svc_page_token(struct hp_arena *arena, enum svc_page_kind kind, const char *name)
{
    unsigned char bytes[PAGE_BYTES_MAX];
    char text[PAGE_TEXT_MAX];
    size_t len = strlen(name);
    if (len > sizeof(bytes) - PAGE_HEAD)
        len = sizeof(bytes) - PAGE_HEAD; /* cannot be: names are shorter */
    bytes[0] = PAGE_VERSION;
    bytes[1] = (unsigned char)kind;
    memcpy(bytes + PAGE_HEAD, name, len); /* NOLINT(bugprone-not-null-terminated-result): bytes, not text */
    return hp_strndup(arena, text, encode(bytes, PAGE_HEAD + len, text));
}

bool svc_page_after_number(struct hp_arena *arena, enum svc_page_kind kind, const char *page_token, int64_t *after,
                           struct hp_status *status)
{
    const char *text;
    return svc_page_after(arena, kind, page_token, &text, status) && svc_page_number(page_token, text, after, status);
}

bool svc_page_number(const char *page_token, const char *text, int64_t *number, struct hp_status *status)
{
    char *end = NULL;
    *number = text[0] ? strtoll(text, &end, 10) : 0;
    return !text[0] || (*number > 0 && *number < INT64_MAX && !*end) || not_ours(page_token, status);
}

char *svc_page_token_number(struct hp_arena *arena, enum svc_page_kind kind, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, number);
    return svc_page_token(arena, kind, text);
}
