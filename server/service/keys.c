/*
 * keys.c - AdminService: CreateKey, RevokeKey, SetKey; lists are keys_list.c's.
 *
 * Nobody gives what he doesn't have: a caller that is no admin of everything makes, changes and revokes only keys each of whose
 * grants lies within one of its own admin grants; and whoever has an end or a rate gives none that is later or higher. Of a key
 * that exists this is decided by what the server knows of it, and the database changes it only if it still is that version.
 */
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "holdfast/v1/admin.pb-c.h"
#include "proto/c/wire.h"
#include "service/auth.h"
#include "service/check.h"
#include "service/keys.h"
#include "service/operation.h"

enum { RATE_MAX = 1000000 };

static const int64_t expires_max_ms = INT64_C(3650) * 86400000;

/* ---- requests ---- */

static bool check_id(const char *id, struct hp_status *status)
{
    if (svc_key_id_valid(id))
        return true;
    hp_status_bad_field(status, HP_R_MALFORMED, "id", id, strlen(id), "the id of a key: 11 letters and digits");
    return false;
}

static bool check_grant(size_t at, const Holdfast__V1__KeyGrant *grant, struct hp_status *status)
{
    char field[48];
    snprintf(field, sizeof(field), "grants[%zu].role", at);
    if (!svc_check_range(field, (int64_t)grant->role, ST_READER, ST_ADMIN, status))
        return false;
    snprintf(field, sizeof(field), "grants[%zu].namespace", at);
    if (grant->all_namespaces && grant->namespace_[0]) {
        hp_status_bad_field(status, HP_R_MALFORMED, field, grant->namespace_, strlen(grant->namespace_),
                            "empty with all_namespaces");
        return false;
    }
    if (!grant->all_namespaces && !hp_check_name(field, grant->namespace_, status))
        return false;
    snprintf(field, sizeof(field), "grants[%zu].resource_prefix", at);
    if (!svc_check_optional(field, grant->resource_prefix, status))
        return false;
    snprintf(field, sizeof(field), "grants[%zu].operation_prefix", at);
    return svc_check_optional(field, grant->operation_prefix, status);
}

static bool check_grants(Holdfast__V1__KeyGrant *const *grants, size_t n, struct hp_status *status)
{
    if (!svc_check_range("grants", (int64_t)n, 1, ST_GRANTS_MAX, status))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!check_grant(i, grants[i], status))
            return false;
    return true;
}

/* In the arena. NULL: the call has ended, for want of memory, or since they are not the caller's to give. */
static struct st_grant *read_grants(struct svc_call *sc, Holdfast__V1__KeyGrant *const *from, size_t n)
{
    struct st_grant *grants = hp_alloc_array(sc->arena, n, sizeof(*grants));
    struct hp_status status;
    if (!grants)
        svc_no_memory(sc);
    for (size_t i = 0; grants && i < n; i++) {
        grants[i] = (struct st_grant){.role = (int)from[i]->role,
                                      .ns = from[i]->namespace_,
                                      .resources = from[i]->resource_prefix,
                                      .operations = from[i]->operation_prefix};
        if (svc_may_give(sc, &grants[i]))
            continue;
        hp_status_set(&status, HP_R_SCOPE, "grants[%zu] lies outside of what this key may give", i);
        hp_status_meta(&status, "method", "%s", sc->method->rpc.path);
        hp_status_meta(&status, "field", "grants[%zu]", i);
        svc_auth_fail(sc, &status);
        return NULL;
    }
    return grants;
}

static bool beyond_own(struct svc_call *sc, const char *field, int64_t own)
{
    struct hp_status status;
    hp_status_set(&status, HP_R_SCOPE, "%s lies outside of what this key may give: it has %lld itself", field, (long long)own);
    hp_status_meta(&status, "method", "%s", sc->method->rpc.path);
    hp_status_meta(&status, "field", "%s", field);
    svc_auth_fail(sc, &status);
    return false;
}

/* Zero is without end, without limit. ST_UNSET: that isn't given. False: it is more than the caller has himself, and the call has
 * ended. */
static bool may_last(struct svc_call *sc, int64_t expires_in_ms)
{
    int64_t left = sc->principal ? svc_auth_left_ms(sc->svc->auth, sc->principal) : INT64_MAX;
    if (expires_in_ms == ST_UNSET || left == INT64_MAX || (expires_in_ms && expires_in_ms <= left))
        return true;
    return beyond_own(sc, "expires_in_ms", left);
}

static bool may_call_so_often(struct svc_call *sc, int64_t rate, int64_t burst)
{
    const struct svc_principal *who = sc->principal;
    int64_t own_burst = who && !who->rate_burst ? who->rate_per_s : who ? who->rate_burst : 0;
    if (!who || !who->rate_per_s)
        return true;
    if (rate != ST_UNSET && (!rate || rate > who->rate_per_s))
        return beyond_own(sc, "rate_per_s", who->rate_per_s);
    return burst == ST_UNSET || burst <= own_burst || beyond_own(sc, "rate_burst", own_burst);
}

static void no_such_key(struct svc_call *sc, const char *id)
{
    struct hp_status status;
    hp_status_set(&status, HP_R_NO_SUCH_KEY, "no key \"%s\"", id);
    hp_status_meta(&status, "id", "%s", id);
    svc_fail(sc, &status);
}

/* The version of the key that the caller may change; 0 = any, for those who may change all. False: the call has ended. */
static bool may_change(struct svc_call *sc, const char *id, int64_t *version)
{
    struct hp_status status;
    *version = 0;
    if (svc_sees_everything(sc))
        return true;
    const struct svc_principal *target = svc_auth_find(sc->svc->auth, id);
    if (!target) {
        no_such_key(sc, id);
        return false;
    }
    *version = target->version;
    if (svc_may_give_all(sc, target->grants, target->n_grants))
        return true;
    /* Noted as what it is, but told as if there were none. */
    hp_status_set(&status, HP_R_SCOPE, "key \"%s\" has grants outside of what this key may give", id);
    svc_auth_denied(sc, &status);
    no_such_key(sc, id);
    return false;
}

/* ---- answers ---- */

static void answer_refused(struct svc_call *sc, const struct st_item *item)
{
    const struct st_principals *in = &item->in.principals;
    struct hp_status status;
    if (item->outcome == ST_AUTH_NONE) {
        no_such_key(sc, in->id);
        return;
    }
    if (item->outcome == ST_AUTH_TAKEN) {
        hp_status_set(&status, HP_R_PARAMETER_CONFLICT, "there is a key, not revoked, named \"%s\"%s", in->name,
                      in->certificate ? " or of this certificate" : "");
        hp_status_meta(&status, "name", "%s", in->name);
    } else if (item->outcome == ST_AUTH_FULL) {
        hp_status_set(&status, HP_R_QUOTA, "there are %d keys, as many as servers know", SVC_PRINCIPALS_MAX);
        hp_status_meta(&status, "limit", "%d", SVC_PRINCIPALS_MAX);
    } else if (item->outcome == ST_OP_REVISION) {
        hp_status_set(&status, HP_R_REVISION_MISMATCH, "key \"%s\" was changed meanwhile", in->id);
        hp_status_meta(&status, "id", "%s", in->id);
    } else {
        svc_fail_outcome(sc, item);
        return;
    }
    svc_fail(sc, &status);
}

/* The key as it is after the change. NULL: the call has ended. */
static Holdfast__V1__Key *changed(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    if (svc_outcome(sc, 0) != ST_TIMED_OUT) /* also if it isn't known whether it was changed */
        svc_auth_changed(sc->svc->auth);
    if (svc_failed(sc))
        return NULL;
    if (item->outcome != ST_FOUND || !item->out.principals.n) {
        answer_refused(sc, item);
        return NULL;
    }
    Holdfast__V1__Key *key = svc_key_message(sc->arena, item->out.principals.rows);
    if (!key)
        svc_no_memory(sc);
    return key;
}

/* ---- CreateKey ---- */

static bool random_bytes(void *arg, void *buffer, size_t size)
{
    const struct svc *svc = arg;
    if (!svc->cfg.random)
        return hb_random_bytes(buffer, size);
    svc->cfg.random(buffer, size);
    return true;
}

/* What is kept until it is told. */
struct made {
    char text[SVC_KEY_SIZE];
    struct svc_key key;
};

static void finish_create(struct svc_call *sc)
{
    Holdfast__V1__CreateKeyResponse response = HOLDFAST__V1__CREATE_KEY_RESPONSE__INIT;
    struct made *made = sc->state;
    response.info = changed(sc);
    if (!response.info)
        return;
    response.key = made->text;
    svc_reply(sc, &response.base);
}

static bool check_create(const Holdfast__V1__CreateKeyRequest *req, struct hp_status *status)
{
    return svc_check_key_name("name", req->name, status) && svc_check_optional("certificate", req->certificate, status) &&
           check_grants(req->grants, req->n_grants, status) &&
           svc_check_range("expires_in_ms", req->expires_in_ms, 0, expires_max_ms, status) &&
           svc_check_range("rate_per_s", req->rate_per_s, 0, RATE_MAX, status) &&
           svc_check_range("rate_burst", req->rate_burst, 0, RATE_MAX, status) && hp_check_name("actor", req->actor, status);
}

/* NULL: the call has ended. */
static struct made *make(struct svc_call *sc, bool certificate)
{
    struct made *made = hp_alloc(sc->arena, sizeof(*made));
    if (!made)
        svc_no_memory(sc);
    else if (certificate ? svc_key_make_id(random_bytes, sc->svc, made->key.id)
                         : svc_key_make(random_bytes, sc->svc, made->text, &made->key))
        return made;
    else
        svc_fail_reason(sc, HP_R_INTERNAL);
    return NULL;
}

void svc_create_key(struct svc_call *sc)
{
    const Holdfast__V1__CreateKeyRequest *req = sc->request;
    struct hp_status status;
    if (!check_create(req, &status)) {
        svc_fail(sc, &status);
        return;
    }
    if (!may_last(sc, req->expires_in_ms) || !may_call_so_often(sc, req->rate_per_s, req->rate_burst))
        return;
    struct st_grant *grants = read_grants(sc, req->grants, req->n_grants);
    struct made *made = grants ? make(sc, req->certificate[0]) : NULL;
    struct st_item *item = made ? svc_items(sc, 1, ST_CREATE_PRINCIPAL, "") : NULL;
    if (!item)
        return;
    sc->state = made;
    item->in.principals = (struct st_principals){.id = made->key.id,
                                                 .name = req->name,
                                                 .certificate = req->certificate[0] ? req->certificate : NULL,
                                                 .expires_in_ms = req->expires_in_ms,
                                                 .rate_per_s = req->rate_per_s,
                                                 .rate_burst = req->rate_burst,
                                                 .grants = grants,
                                                 .n_grants = req->n_grants,
                                                 .actor = req->actor};
    if (!req->certificate[0])
        item->in.principals.secret_hash = (struct st_bytes){made->key.hash, sizeof(made->key.hash)};
    svc_submit(sc, SVC_WHOLE, finish_create);
}

/* ---- SetKey and RevokeKey ---- */

static void finish_set(struct svc_call *sc)
{
    Holdfast__V1__SetKeyResponse response = HOLDFAST__V1__SET_KEY_RESPONSE__INIT;
    response.info = changed(sc);
    if (response.info)
        svc_reply(sc, &response.base);
}

#define SET(member) HOLDFAST__V1__SET_KEY_REQUEST__##member

static bool check_set(const Holdfast__V1__SetKeyRequest *req, struct hp_status *status)
{
    return check_id(req->id, status) && (!req->n_grants || check_grants(req->grants, req->n_grants, status)) &&
           (!req->expiry_case || svc_check_range("expires_in_ms", req->expires_in_ms, 0, expires_max_ms, status)) &&
           (!req->rate_case || svc_check_range("rate_per_s", req->rate_per_s, 0, RATE_MAX, status)) &&
           (!req->burst_case || svc_check_range("rate_burst", req->rate_burst, 0, RATE_MAX, status)) &&
           hp_check_name("actor", req->actor, status);
}

void svc_set_key(struct svc_call *sc)
{
    const Holdfast__V1__SetKeyRequest *req = sc->request;
    struct hp_status status;
    int64_t version;
    if (!check_set(req, &status)) {
        svc_fail(sc, &status);
        return;
    }
    int64_t expires_in_ms = req->expiry_case == SET(EXPIRY_EXPIRES_IN_MS) ? req->expires_in_ms : ST_UNSET;
    int64_t rate = req->rate_case == SET(RATE_RATE_PER_S) ? req->rate_per_s : ST_UNSET;
    int64_t burst = req->burst_case == SET(BURST_RATE_BURST) ? req->rate_burst : ST_UNSET;
    if (!may_change(sc, req->id, &version) || !may_last(sc, expires_in_ms) || !may_call_so_often(sc, rate, burst))
        return;
    struct st_grant *grants = read_grants(sc, req->grants, req->n_grants);
    struct st_item *item = grants ? svc_items(sc, 1, ST_SET_PRINCIPAL, "") : NULL;
    if (!item)
        return;
    item->in.principals = (struct st_principals){.id = req->id,
                                                 .expires_in_ms = expires_in_ms,
                                                 .rate_per_s = rate,
                                                 .rate_burst = burst,
                                                 .grants = grants,
                                                 .n_grants = req->n_grants,
                                                 .version = version,
                                                 .actor = req->actor};
    svc_submit(sc, SVC_WHOLE, finish_set);
}

static void finish_revoke(struct svc_call *sc)
{
    Holdfast__V1__RevokeKeyResponse response = HOLDFAST__V1__REVOKE_KEY_RESPONSE__INIT;
    response.info = changed(sc);
    if (response.info)
        svc_reply(sc, &response.base);
}

void svc_revoke_key(struct svc_call *sc)
{
    const Holdfast__V1__RevokeKeyRequest *req = sc->request;
    struct hp_status status;
    int64_t version;
    if (!check_id(req->id, &status) || !hp_check_name("actor", req->actor, &status) ||
        (req->reason[0] && !svc_check_reason(req->reason, &status))) {
        svc_fail(sc, &status);
        return;
    }
    if (!may_change(sc, req->id, &version))
        return;
    struct st_item *item = svc_items(sc, 1, ST_REVOKE_PRINCIPAL, "");
    if (!item)
        return;
    item->in.principals = (struct st_principals){.id = req->id, .version = version, .actor = req->actor, .reason = req->reason};
    svc_submit(sc, SVC_WHOLE, finish_revoke);
}
