/*
 * keys_list.c - AdminService: ListKeys, of which callers see those that they could have made, and ListDenials.
 */
#include "service/keys.h"

#include <string.h>

#include "service/auth.h"
#include "service/check.h"
#include "service/operation.h"
#include "service/page_seal.h"

bool svc_may_give_all(const struct svc_call *sc, const struct st_grant *grants, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!svc_may_give(sc, &grants[i]))
            return false;
    return true;
}

Holdfast__V1__Key *svc_key_message(struct hp_arena *arena, const struct st_principal_row *row)
{
    Holdfast__V1__Key *out = hp_alloc(arena, sizeof(*out));
    Holdfast__V1__KeyGrant *grants = hp_alloc_array(arena, row->n_grants, sizeof(*grants));
    if (!out || !grants)
        return NULL;
    holdfast__v1__key__init(out);
    out->grants = hp_alloc_array(arena, row->n_grants, sizeof(*out->grants));
    if (!out->grants)
        return NULL;
    out->n_grants = row->n_grants;
    for (size_t i = 0; i < row->n_grants; i++) {
        holdfast__v1__key_grant__init(&grants[i]);
        grants[i].role = (Holdfast__V1__KeyGrant__Role)row->grants[i].role;
        grants[i].namespace_ = svc_unconst(row->grants[i].ns);
        grants[i].all_namespaces = !row->grants[i].ns[0];
        grants[i].resource_prefix = svc_unconst(row->grants[i].resources);
        grants[i].operation_prefix = svc_unconst(row->grants[i].operations);
        out->grants[i] = &grants[i];
    }
    out->id = svc_unconst(row->id);
    out->name = svc_unconst(row->name);
    out->certificate = svc_unconst(row->certificate);
    out->created_unix_ms = row->created_unix_ms;
    out->created_by = svc_unconst(row->created_by);
    out->expires_unix_ms = row->expires_unix_ms;
    out->revoked_unix_ms = row->revoked_unix_ms;
    out->revoked_by = svc_unconst(row->revoked_by);
    out->last_used_unix_ms = row->last_used_unix_ms;
    out->rate_per_s = row->rate_per_s;
    out->rate_burst = row->rate_per_s && !row->rate_burst ? row->rate_per_s : row->rate_burst;
    return out;
}

/* ---- ListKeys ---- */

static void finish_list(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_principals_told *told = &item->out.principals;
    Holdfast__V1__ListKeysResponse response = HOLDFAST__V1__LIST_KEYS_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    const Holdfast__V1__ListKeysRequest *req = sc->request;
    size_t rows = svc_page_rows(req->page_size), looked = 0;
    response.keys = hp_alloc_array(sc->arena, told->n, sizeof(*response.keys));
    bool fine = response.keys != NULL;
    for (; fine && looked < told->n && response.n_keys < rows; looked++) {
        if (!svc_may_give_all(sc, told->rows[looked].grants, told->rows[looked].n_grants))
            continue;
        Holdfast__V1__Key *key = svc_key_message(sc->arena, &told->rows[looked]);
        fine = key != NULL;
        response.keys[response.n_keys] = key;
        response.n_keys += fine;
    }
    bool more = told->more || looked < told->n;
    char *token = NULL;
    if (more && looked)
        token = svc_scoped_page_token(sc, SVC_PAGE_KEYS, told->rows[looked - 1].id);
    if (!fine || (more && !token)) {
        svc_no_memory(sc);
        return;
    }
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_keys(struct svc_call *sc)
{
    const Holdfast__V1__ListKeysRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!svc_check_page_size(req->page_size, &max, &status) ||
        !svc_scoped_page_after(sc, SVC_PAGE_KEYS, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_PRINCIPALS, "");
    if (!item)
        return;
    item->in.principals = (struct st_principals){.after = after, .max = svc_scoped_page_rows(sc, max), .revoked = req->revoked};
    svc_submit(sc, SVC_WHOLE, finish_list);
}

/* ---- ListDenials ---- */

static void finish_denials(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_denials_told *told = &item->out.denials;
    Holdfast__V1__ListDenialsResponse response = HOLDFAST__V1__LIST_DENIALS_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    Holdfast__V1__Denial *denials = hp_alloc_array(sc->arena, told->n, sizeof(*denials));
    response.denials = hp_alloc_array(sc->arena, told->n, sizeof(*response.denials));
    char *token = NULL;
    if (told->more && told->n)
        token = svc_page_token_number(sc->arena, SVC_PAGE_DENIALS, told->rows[told->n - 1].id);
    if (!denials || !response.denials || (told->more && !token)) {
        svc_no_memory(sc);
        return;
    }
    for (size_t i = 0; i < told->n; i++) {
        const struct st_denial_row *row = &told->rows[i];
        holdfast__v1__denial__init(&denials[i]);
        denials[i].minute_unix_ms = row->minute_unix_ms;
        denials[i].id = svc_unconst(row->principal);
        denials[i].name = svc_unconst(row->name);
        denials[i].method = svc_unconst(row->method);
        denials[i].reason = svc_unconst(row->reason);
        denials[i].count = row->count;
        response.denials[i] = &denials[i];
    }
    response.n_denials = told->n;
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_denials(struct svc_call *sc)
{
    const Holdfast__V1__ListDenialsRequest *req = sc->request;
    struct hp_status status;
    int64_t max, after_id;
    if (!svc_sees_everything(sc)) {
        hp_status_set(&status, HP_R_SCOPE, "what was refused is for admins of all namespaces");
        hp_status_meta(&status, "method", "%s", sc->method->rpc.path);
        hp_status_meta(&status, "field", "namespace");
        svc_auth_fail(sc, &status);
        return;
    }
    if (!svc_check_page_size(req->page_size, &max, &status) ||
        !svc_page_after_number(sc->arena, SVC_PAGE_DENIALS, req->page_token, &after_id, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_DENIALS, "");
    if (!item)
        return;
    item->in.denials.after_id = after_id;
    item->in.denials.max = max;
    svc_submit(sc, SVC_WHOLE, finish_denials);
}
