/*
 * items.c - see items.h.
 */
#include "service/items.h"

#include <string.h>

#include "proto/c/wire.h"
#include "service/check.h"

struct st_item *svc_one_item(struct svc_call *sc, enum st_kind kind, const char *ns, const char *resource)
{
    struct hp_status status;
    if (!hp_check_name("namespace", ns, &status) || !hp_check_name("resource", resource, &status)) {
        svc_fail(sc, &status);
        return NULL;
    }
    struct st_item *item = svc_items(sc, 1, kind, ns);
    if (item)
        item->resource = resource;
    return item;
}

void svc_fail_no_resource(struct svc_call *sc)
{
    const char *resource = sc->items[0].resource;
    struct hp_status status;
    hp_status_set(&status, HP_R_NO_SUCH_RESOURCE, "resource \"%s\" was never leased", resource);
    hp_status_meta(&status, "resource", "%s", resource);
    svc_fail(sc, &status);
}

static struct st_item *token_items(struct svc_call *sc, enum st_kind kind, const char *ns, const char *what,
                                   const struct svc_token *tokens, size_t n)
{
    struct hp_status status;
    if (!tokens) {
        svc_no_memory(sc);
        return NULL;
    }
    if (!hp_check_name("namespace", ns, &status) || !svc_check_items(sc->arena, what, tokens, n, &status)) {
        svc_fail(sc, &status);
        return NULL;
    }
    struct st_item *out = svc_items(sc, n, kind, ns);
    for (size_t i = 0; out && i < n; i++)
        out[i].resource = tokens[i].name;
    return out;
}

struct st_item *svc_token_items(struct svc_call *sc, enum st_kind kind, const char *ns, Holdfast__V1__LeaseItem *const *items,
                                size_t n)
{
    struct svc_token *tokens = hp_alloc_array(sc->arena, n, sizeof(*tokens));
    for (size_t i = 0; tokens && i < n; i++)
        tokens[i] = (struct svc_token){items[i]->resource, items[i]->token};
    return token_items(sc, kind, ns, "resource", tokens, n);
}

struct st_item *svc_operation_items(struct svc_call *sc, enum st_kind kind, const char *ns,
                                    Holdfast__V1__OperationItem *const *items, size_t n)
{
    struct svc_token *tokens = hp_alloc_array(sc->arena, n, sizeof(*tokens));
    for (size_t i = 0; tokens && i < n; i++)
        tokens[i] = (struct svc_token){items[i]->key, items[i]->token};
    return token_items(sc, kind, ns, "key", tokens, n);
}

/* The namespace is the call's, so that it doesn't exist is told once and for all. */
static bool no_such_namespace(struct svc_call *sc)
{
    for (size_t i = 0; i < sc->n_items; i++)
        if (svc_outcome(sc, i) != ST_NO_SUCH_NAMESPACE)
            return false;
    return svc_failed(sc);
}

void **svc_results(struct svc_call *sc, size_t size)
{
    if (no_such_namespace(sc))
        return NULL;
    char *structs = hp_alloc_array(sc->arena, sc->n_items, size);
    void **out = hp_alloc_array(sc->arena, sc->n_items, sizeof(*out));
    if (!structs || !out) {
        svc_no_memory(sc);
        return NULL;
    }
    for (size_t i = 0; i < sc->n_items; i++)
        out[i] = structs + i * size;
    return out;
}

bool svc_item_error(struct svc_call *sc, size_t i, Holdfast__V1__ItemError **error)
{
    static Holdfast__V1__ItemError out_of_memory = {PROTOBUF_C_MESSAGE_INIT(&holdfast__v1__item_error__descriptor),
                                                    HP_RESOURCE_EXHAUSTED, (char *)(uintptr_t) "QUEUE_FULL",
                                                    (char *)(uintptr_t) "no memory for the answer"};
    struct hp_status status;
    if (!svc_item_failed(sc, i, &status))
        return false;
    *error = hp_alloc(sc->arena, sizeof(**error));
    char *message = hp_strndup(sc->arena, status.message, strlen(status.message));
    if (!*error || !message) {
        *error = &out_of_memory;
        return true;
    }
    holdfast__v1__item_error__init(*error);
    (*error)->code = status.code;
    (*error)->reason = (char *)(uintptr_t)hp_reason_name(status.reason); /* packed only */
    (*error)->message = message;
    return true;
}

/* ---- renewals ---- */

static Holdfast__V1__Lost__Reason lost_reason(enum st_outcome outcome)
{
    switch (outcome) {
    case ST_EXPIRED:
        return HOLDFAST__V1__LOST__REASON__EXPIRED;
    case ST_TAKEN_OVER:
        return HOLDFAST__V1__LOST__REASON__TAKEN_OVER;
    case ST_RELEASED:
        return HOLDFAST__V1__LOST__REASON__RELEASED;
    case ST_BROKEN:
        return HOLDFAST__V1__LOST__REASON__BROKEN;
    case ST_UNKNOWN_TOKEN:
        return HOLDFAST__V1__LOST__REASON__UNKNOWN_TOKEN;
    default:
        return HOLDFAST__V1__LOST__REASON__UNSPECIFIED;
    }
}

struct renew_result {
    Holdfast__V1__RenewResult result; /* first: svc_results gives pointers to it */
    Holdfast__V1__Renewed renewed;
    Holdfast__V1__Lost lost;
};

/* False: the store told what it cannot. */
static bool fill_renewed(struct svc_call *sc, size_t i, struct renew_result *out)
{
    const struct st_item *item = &sc->items[i];
    holdfast__v1__renew_result__init(&out->result);
    if (svc_item_error(sc, i, &out->result.error)) {
        out->result.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_ERROR;
    } else if (item->outcome == ST_RENEWED) {
        /* When the statement ran isn't told; it was after the call came in, so this much has passed at most. */
        int64_t ttl = item->out.renew.ttl_ms - svc_elapsed_ms(sc);
        holdfast__v1__renewed__init(&out->renewed);
        out->renewed.ttl_ms = ttl > 0 ? ttl : 0;
        out->result.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED;
        out->result.renewed = &out->renewed;
    } else {
        holdfast__v1__lost__init(&out->lost);
        out->lost.reason = lost_reason(item->outcome);
        out->result.outcome_case = HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST;
        out->result.lost = &out->lost;
        return out->lost.reason != HOLDFAST__V1__LOST__REASON__UNSPECIFIED;
    }
    return true;
}

Holdfast__V1__RenewResult **svc_renew_results(struct svc_call *sc)
{
    void **results = svc_results(sc, sizeof(struct renew_result));
    for (size_t i = 0; results && i < sc->n_items; i++) {
        if (!fill_renewed(sc, i, results[i])) {
            svc_fail_outcome(sc, &sc->items[i]);
            return NULL;
        }
    }
    return (Holdfast__V1__RenewResult **)results;
}
