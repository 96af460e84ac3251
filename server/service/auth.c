/*
 * auth.c - see auth.h.
 */
#include "service/auth.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t now_ms(const struct svc_auth *auth)
{
    return auth->svc->io->now_ms(auth->svc->io);
}

/* ---- who calls ---- */

/* The value of `authorization`, or NULL; "" if there are several. */
static const char *authorization(const struct hp_call *call)
{
    const char *found = NULL;
    for (size_t i = 0; i < call->n_metadata; i++)
        if (!strcmp(call->metadata[2 * i], "authorization"))
            found = found ? "" : call->metadata[2 * i + 1];
    return found;
}

/* Whom the key or the certificate is of, as far as is known. */
static struct svc_principal *find(const struct svc_auth *auth, const struct svc_key *key, const char *certificate)
{
    static const unsigned char nobody[HP_SHA256_SIZE];
    if (certificate)
        return svc_principals_by_certificate(&auth->all, certificate);
    struct svc_principal *who = svc_principals_find(&auth->all, key->id);
    bool has_secret = who && !who->certificate;
    bool same = svc_key_same(key->hash, has_secret ? who->hash : nobody); /* as long, whether there is such a key or not */
    return has_secret && same ? who : NULL;
}

static const char *certificate_of(const struct hp_call *call, const char *header)
{
    return call->peer && !header ? call->peer->certificate : NULL;
}

bool svc_auth_knows(const struct svc_auth *auth, const struct hp_call *call)
{
    const char *header = authorization(call), *certificate = certificate_of(call, header);
    struct svc_key key;
    if (header ? !svc_key_parse(header, &key) : !certificate)
        return false;
    const struct svc_principal *who = find(auth, &key, certificate);
    return who && !svc_auth_expired(auth, who);
}

/* What is known is asked for again, or waited for, as auth.h says. */
static enum svc_admission be_sure(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method, bool held,
                                  bool found, struct hp_status *status)
{
    bool stale = svc_auth_older_than(auth, SVC_AUTH_STALE_MS);
    if (!held && !auth->asking && svc_auth_older_than(auth, SVC_AUTH_REFRESH_MS - 1))
        svc_auth_ask_anew(auth);
    if (!stale && (found || held || !auth->asking))
        return SVC_ADMITTED;
    if (held)
        hp_status_set(status, HP_R_DATABASE_DOWN, "it cannot be known whether the key is good: the database doesn't answer");
    else if (svc_auth_hold(auth, call, method))
        return SVC_HELD;
    else
        hp_status_set(status, HP_R_QUEUE_FULL, "too many calls wait until their keys can be looked at");
    return SVC_REFUSED;
}

static enum svc_admission identify(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method, bool held,
                                   struct svc_principal **who, struct hp_status *status)
{
    const char *header = authorization(call), *certificate = certificate_of(call, header);
    struct svc_key key;
    *who = NULL;
    if (!header && !certificate) {
        hp_status_set(status, HP_R_NO_KEY, "this server requires an API key, as metadata \"authorization: Bearer hfk_…\"");
        return SVC_REFUSED;
    }
    if (header && !svc_key_parse(header, &key)) {
        svc_auth_bad_key(status);
        return SVC_REFUSED;
    }
    struct svc_principal *found = find(auth, &key, certificate);
    bool good = found && !svc_auth_expired(auth, found);
    enum svc_admission sure = be_sure(auth, call, method, held, good, status);
    if (sure != SVC_ADMITTED)
        return sure;
    if (!good) {
        svc_auth_bad_key(status);
        return SVC_REFUSED;
    }
    *who = found;
    return SVC_ADMITTED;
}

static bool has_role(const struct svc_principal *who, enum svc_role role)
{
    for (size_t i = 0; i < who->n_grants; i++)
        if (who->grants[i].role >= (int)role)
            return true;
    return false;
}

/* What `who`, who is known, is refused for. */
static bool allowed(struct svc_auth *auth, struct svc_principal *who, const struct svc_method *method, struct hp_status *status)
{
    static const char *const roles[] = {"anyone", "reader", "worker", "operator", "admin"};
    int64_t wait = co_rate_take(&who->rate, who->rate_per_s, who->rate_burst, now_ms(auth));
    if (wait) {
        hp_status_set(status, HP_R_RATE, "this key may make %" PRId64 " calls a second", who->rate_per_s);
        status->retry_ms = wait;
        return false;
    }
    if (has_role(who, method->role))
        return true;
    hp_status_set(status, HP_R_ROLE, "%s needs the role %s", method->rpc.path, roles[method->role]);
    hp_status_meta(status, "role", "%s", roles[method->role]);
    return false;
}

static void denied(struct svc_auth *auth, const struct svc_principal *who, const struct svc_method *method,
                   const struct hp_status *status)
{
    auth->denials[status->reason]++;
    if (status->reason != HP_R_DATABASE_DOWN && status->reason != HP_R_QUEUE_FULL)
        svc_auth_note_denial(auth->notes, who, method->rpc.path, status->reason);
}

enum svc_admission svc_auth_admit(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method, bool held,
                                  struct svc_principal **who, struct hp_status *status)
{
    struct svc_principal *found;
    enum svc_admission admission = identify(auth, call, method, held, &found, status);
    if (admission == SVC_ADMITTED && !allowed(auth, found, method, status))
        admission = SVC_REFUSED;
    if (admission == SVC_REFUSED) {
        if (!hp_status_get_meta(status, "method"))
            hp_status_meta(status, "method", "%s", method->rpc.path);
        denied(auth, found, method, status);
    }
    *who = admission == SVC_ADMITTED ? svc_principal_hold(found) : NULL;
    return admission;
}

void svc_auth_denied(struct svc_call *sc, const struct hp_status *status)
{
    if (sc->svc->auth)
        denied(sc->svc->auth, sc->principal, sc->method, status);
}

void svc_auth_fail(struct svc_call *sc, const struct hp_status *status)
{
    svc_auth_denied(sc, status);
    svc_fail(sc, status);
}

bool svc_auth_enter(struct svc_auth *auth, struct svc_call *sc, struct svc_principal *who, struct hp_status *status)
{
    size_t n;
    const struct svc_naming *naming = &auth->naming[sc->method - svc_methods(&n)];
    if (!svc_scope_covers(who, sc->method, naming, sc->request, status)) {
        denied(auth, who, sc->method, status);
        svc_principal_drop(who);
        return false;
    }
    sc->principal = who;
    if (!svc_name_actor(sc, naming)) {
        sc->principal = NULL;
        svc_principal_drop(who);
        hp_status_set(status, HP_R_QUEUE_FULL, "no memory for the call");
        return false;
    }
    list_push_back(&auth->calls, &sc->of_auth);
    sc->in_auth = &auth->calls;
    svc_auth_note_use(auth->notes, who, now_ms(auth));
    if (!auth->ticking) {
        auth->ticking = true;
        auth->svc->io->timer_set(auth->svc->io, &auth->tick, now_ms(auth) + SVC_AUTH_REFRESH_MS);
    }
    return true;
}

void svc_auth_leave(struct svc_call *sc)
{
    if (!sc->in_auth)
        return;
    list_remove(sc->in_auth, &sc->of_auth);
    sc->in_auth = NULL;
    svc_principal_drop(sc->principal);
    sc->principal = NULL;
}

/* ---- life ---- */

struct svc_auth *svc_auth_new(struct svc *svc)
{
    struct svc_auth *auth = calloc(1, sizeof(*auth));
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    if (!auth)
        return NULL;
    auth->svc = svc;
    auth->tick.fire = svc_auth_on_tick;
    auth->asked_ms = INT64_MIN / 2;
    list_init(&auth->held);
    list_init(&auth->calls);
    for (size_t i = 0; i < n; i++)
        svc_naming_of(&methods[i], &auth->naming[i]);
    auth->notes = svc_auth_notes_new(svc);
    if (auth->notes && svc_principals_init(&auth->all))
        return auth;
    svc_auth_notes_free(auth->notes);
    free(auth);
    return NULL;
}

void svc_auth_drain(struct svc_auth *auth)
{
    if (!auth)
        return;
    svc_auth_let_go(auth); /* and they are told of the drain */
    svc_auth_notes_flush(auth->notes, true);
}

void svc_auth_free(struct svc_auth *auth)
{
    if (!auth)
        return;
    auth->svc->io->timer_cancel(auth->svc->io, &auth->tick);
    svc_auth_notes_free(auth->notes);
    svc_principals_release(&auth->all);
    free(auth);
}
