/*
 * page_fuzz.c - page tokens: the first byte says which list, the rest is a token, and once more a name that a token is made of.
 *
 * A token that is taken is the one that this server makes of what it stands for, in this list and in no other; one that is refused
 * says that it is no token of this list. A name comes back from its token as it was.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "proto/c/wire.h"
#include "service/check.h"

static const char kinds[] = {SVC_PAGE_LEASES,     SVC_PAGE_RESOURCES, SVC_PAGE_NAMESPACES, SVC_PAGE_AUDIT,
                             SVC_PAGE_OPERATIONS, SVC_PAGE_ATTEMPTS,  SVC_PAGE_POLICIES,   SVC_PAGE_ACTIONS,
                             SVC_PAGE_KEYS,       SVC_PAGE_DENIALS,   SVC_PAGE_SQL_ROLES};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static void refused(const struct hp_status *status)
{
    MUST(status->code == HP_INVALID_ARGUMENT && status->reason == HP_R_MALFORMED && strcmp(status->field, "page_token") == 0);
}

static void take(struct hp_arena *arena, enum svc_page_kind kind, const char *token)
{
    struct hp_status status;
    const char *after;
    int64_t number;
    if (!svc_page_after(arena, kind, token, &after, &status)) {
        refused(&status);
        MUST(!svc_page_after_number(arena, kind, token, &number, &status));
        return;
    }
    if (!token[0]) {
        MUST(after[0] == '\0');
        return;
    }
    MUST((after[0] == '\0' && kind == SVC_PAGE_POLICIES) || hp_check_name("x", after, &status));
    MUST(strcmp(svc_page_token(arena, kind, after), token) == 0);
    for (size_t i = 0; i < sizeof(kinds); i++) {
        const char *ignored;
        if (kinds[i] != (char)kind)
            MUST(!svc_page_after(arena, (enum svc_page_kind)kinds[i], token, &ignored, &status));
    }
    if (svc_page_after_number(arena, kind, token, &number, &status))
        MUST(number >= 0 && (number > 0 || !after[0]));
    else
        refused(&status);
}

static void make(struct hp_arena *arena, enum svc_page_kind kind, const char *name, int64_t number)
{
    struct hp_status status;
    const char *after;
    int64_t back;
    if (!hp_check_name("x", name, &status))
        return;
    char *token = svc_page_token(arena, kind, name);
    MUST(token && svc_page_after(arena, kind, token, &after, &status) && strcmp(after, name) == 0);
    token = svc_page_token_number(arena, kind, number);
    MUST(token && svc_page_after_number(arena, kind, token, &back, &status) && back == number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return -1;
    enum svc_page_kind kind = (enum svc_page_kind)kinds[data[0] % sizeof(kinds)];
    char *text = malloc(size);
    struct hp_arena *arena = hp_arena_new(1 << 20);
    MUST(text && arena);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    take(arena, kind, text);
    make(arena, kind, text, 1 + (int64_t)strlen(text) * 1000003);
    hp_arena_free(arena);
    free(text);
    return 0;
}
