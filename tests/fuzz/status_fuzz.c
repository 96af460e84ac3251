/*
 * status_fuzz.c - what a client reads from a server it need not trust: the replies of an envelope, and the statuses in them.
 * The first byte says which.
 *
 * A status that was read can be shown, and is the same after it was written and read once more.
 */
#include "fuzz.h"

#include <string.h>

#include "proto/c/envelope.h"
#include "proto/c/status.h"
#include "proto/c/wire.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static void check_text(const char *text, size_t size)
{
    MUST(strnlen(text, size) < size);
    MUST(hp_utf8_valid(text, strlen(text)));
}

static void check_status(const struct hp_status *status)
{
    struct hp_buf json = HP_BUF_INIT;
    MUST(status->code >= HP_OK && status->code <= HP_UNAUTHENTICATED);
    MUST(status->retry_ms >= 0);
    MUST(status->n_meta <= HP_STATUS_META);
    check_text(status->field, sizeof(status->field));
    check_text(status->message, sizeof(status->message));
    for (size_t i = 0; i < status->n_meta; i++) {
        MUST(status->meta[i].name);
        check_text(status->meta[i].value, sizeof(status->meta[i].value));
    }
    hp_status_json(status, &json);
    MUST(!json.failed && hp_utf8_valid(json.data, json.len));
    hp_buf_release(&json);
}

static void check_same(const struct hp_status *a, const struct hp_status *b)
{
    MUST(a->code == b->code && a->reason == b->reason && a->retry_ms == b->retry_ms);
    MUST(strcmp(a->field, b->field) == 0 && strcmp(a->message, b->message) == 0);
    if (a->reason == HP_R_UNSPECIFIED) /* metadata belongs to a reason */
        return;
    MUST(a->n_meta == b->n_meta);
    for (size_t i = 0; i < a->n_meta; i++)
        MUST(a->meta[i].name == b->meta[i].name && strcmp(a->meta[i].value, b->meta[i].value) == 0);
}

static void read_status(const uint8_t *data, size_t len)
{
    struct hp_status status, again;
    struct hp_buf bytes = HP_BUF_INIT;
    bool read = hp_status_decode(data, len, &status);
    check_status(&status);
    MUST(read || status.code == HP_INTERNAL);
    MUST(hp_status_encode(&status, &bytes));
    MUST(hp_status_decode(bytes.data, bytes.len, &again));
    check_same(&status, &again);
    hp_buf_release(&bytes);
}

static void read_replies(const uint8_t *data, size_t len)
{
    struct hp_status status;
    struct hp_arena *arena = hp_arena_new((1 << 20) + 256 * len);
    MUST(arena);
    const Holdfast__V1__ReplyEnvelope *envelope = hp_replies_decode(arena, data, len, &status);
    if (!envelope)
        check_status(&status);
    for (size_t i = 0; envelope && i < envelope->n_replies; i++) {
        hp_reply_status(envelope->replies[i], &status);
        MUST((status.code == HP_OK) == (envelope->replies[i]->code == HP_OK));
        check_status(&status);
        MUST(status.code == HP_OK || status.message[0]);
    }
    hp_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] > 1)
        return -1;
    if (data[0] == 0)
        read_status(data + 1, size - 1);
    else
        read_replies(data + 1, size - 1);
    return 0;
}
