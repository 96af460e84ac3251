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

struct st_item *svc_token_items(struct svc_call *sc, enum st_kind kind, const char *ns, Holdfast__V1__LeaseItem *const *items,
                                size_t n)
{
    struct hp_status status;
    if (!hp_check_name("namespace", ns, &status) || !svc_check_items(sc->arena, items, n, &status)) {
        svc_fail(sc, &status);
        return NULL;
    }
    struct st_item *out = svc_items(sc, n, kind, ns);
    for (size_t i = 0; out && i < n; i++)
        out[i].resource = items[i]->resource;
    return out;
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
