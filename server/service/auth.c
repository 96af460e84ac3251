/*
 * auth.c - see auth.h.
 */
#include "service/auth.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "service/operation_wait.h"
#include "service/wait.h"

enum { ASK_MS = 1000 };

/* A call that waits for the answer; in its arena. */
struct held {
    struct list_node node;
    struct svc_auth *auth;
    struct hp_call *call;
    const struct svc_method *method;
};

static int64_t now_ms(const struct svc_auth *auth)
{
    return auth->svc->io->now_ms(auth->svc->io);
}

int64_t svc_auth_age_ms(const struct svc_auth *auth)
{
    int64_t age = auth->known ? now_ms(auth) - auth->asked_ms : -1;
    return age < INT32_MAX ? age : INT32_MAX;
}

static bool older_than(const struct svc_auth *auth, int64_t ms)
{
    return !auth->known || svc_auth_age_ms(auth) > ms;
}

static bool expired(const struct svc_auth *auth, const struct svc_principal *who)
{
    return who->expires_unix_ms && who->expires_unix_ms <= now_ms(auth) + auth->unix_offset_ms;
}

int64_t svc_auth_left_ms(const struct svc_auth *auth, const struct svc_principal *who)
{
    return who->expires_unix_ms ? who->expires_unix_ms - now_ms(auth) - auth->unix_offset_ms : INT64_MAX;
}

const struct svc_principal *svc_auth_find(const struct svc_auth *auth, const char *id)
{
    return svc_principals_find(&auth->all, id);
}

static void bad_key(struct hp_status *status)
{
    hp_status_set(status, HP_R_BAD_KEY, "the API key or certificate is not valid: unknown, wrong, expired or revoked");
}

/* ---- calls that are held ---- */

static void held_gone(struct hp_call *call)
{
    static const struct hp_status gone = {.code = HP_CANCELLED};
    struct held *held = call->service;
    list_remove(&held->auth->held, &held->node);
    held->auth->svc->in_flight--;
    call->answer(call, &gone, NULL);
}

/* False: it can't be. */
static bool hold(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method)
{
    struct held *held = auth->held.count < SVC_AUTH_HELD_MAX ? hp_alloc(call->arena, sizeof(*held)) : NULL;
    if (!held)
        return false;
    *held = (struct held){.auth = auth, .call = call, .method = method};
    list_push_back(&auth->held, &held->node);
    call->service = held;
    call->gone = held_gone;
    auth->svc->in_flight++;
    return true;
}

/* Those that were held when this began go on. */
static void let_go(struct svc_auth *auth)
{
    struct list_node *node;
    for (size_t n = auth->held.count; n > 0 && (node = list_pop_front(&auth->held)); n--) {
        struct held *held = list_entry(node, struct held, node);
        struct hp_call *call = held->call;
        auth->svc->in_flight--;
        call->service = NULL;
        call->gone = NULL;
        svc_begin(auth->svc, call, held->method, true);
    }
}

/* ---- calls that are long under way ---- */

static bool is_long(const struct svc_call *sc)
{
    return sc->wait || sc->op_wait || sc->expel;
}

/* Whether it may go on, now that more is known; otherwise `status` says why not. */
static bool still_may(struct svc_auth *auth, struct svc_call *sc, struct hp_status *status)
{
    struct svc_principal *now = sc->principal;
    size_t n;
    if (now->dead)
        now = svc_principals_find(&auth->all, now->id);
    if (!now || expired(auth, now)) {
        bad_key(status);
        return false;
    }
    if (now == sc->principal)
        return true;
    svc_principal_hold(now);
    svc_principal_drop(sc->principal);
    sc->principal = now;
    return svc_scope_covers(now, sc->method, &auth->naming[sc->method - svc_methods(&n)], sc->request, status);
}

static void expel(struct svc_call *sc, const struct hp_status *status)
{
    if (sc->wait)
        svc_wait_expel(sc, status);
    else if (sc->op_wait)
        svc_op_wait_expel(sc, status);
    else
        sc->expel(sc, status);
}

/* To end one may end others, or begin new ones: so those that end are told apart first. */
static void look_at_long_calls(struct svc_auth *auth)
{
    struct list out;
    struct list_node *node, *next;
    struct hp_status status;
    list_init(&out);
    for (node = auth->calls.head.next; node != &auth->calls.head; node = next) {
        struct svc_call *sc = list_entry(node, struct svc_call, of_auth);
        next = node->next;
        if (!is_long(sc) || still_may(auth, sc, &status))
            continue;
        list_remove(&auth->calls, node);
        list_push_back(&out, node);
        sc->in_auth = &out;
    }
    while (!list_empty(&out)) {
        struct svc_call *sc = list_entry(list_first(&out), struct svc_call, of_auth);
        const struct svc_principal *now = svc_principals_find(&auth->all, sc->principal->id);
        if (now == sc->principal && !expired(auth, now))
            hp_status_set(&status, HP_R_SCOPE, "the key's grants were changed, and reach so far no longer");
        else
            bad_key(&status);
        list_remove(&out, &sc->of_auth);
        list_push_back(&auth->calls, &sc->of_auth);
        sc->in_auth = &auth->calls;
        svc_auth_note_denial(auth->notes, sc->principal, sc->method->rpc.path, status.reason);
        auth->denials[status.reason]++;
        if (is_long(sc)) /* not by now on its way */
            expel(sc, &status);
    }
}

/* ---- what has changed ---- */

static void on_answer(struct st_item *item);

static void ask(struct svc_auth *auth)
{
    auth->asking = true;
    auth->item = (struct st_item){.kind = ST_AUTH_CHANGES,
                                  .ns = "",
                                  .deadline_ms = now_ms(auth) + ASK_MS,
                                  .done = on_answer,
                                  .owner = auth,
                                  .in.auth_ask = {.epoch = auth->epoch, .after = auth->version, .max = SVC_AUTH_PAGE}};
    st_submit(auth->svc->store, &auth->item);
}

static void ask_anew(struct svc_auth *auth)
{
    auth->again = auth->paged = false;
    auth->asking_ms = now_ms(auth);
    ask(auth);
}

static void take_row(struct svc_auth *auth, const struct st_auth_row *row)
{
    if (!row->live) {
        svc_principals_forget(&auth->all, row->principal.id);
        return;
    }
    if (svc_principals_put(&auth->all, row, auth->generation))
        return;
    svc_principals_forget_expired(&auth->all, now_ms(auth) + auth->unix_offset_ms);
    if (!svc_principals_put(&auth->all, row, auth->generation))
        log_error("auth.left_out", log_str("principal", row->principal.id), log_str("reason", "no memory, or there are too many"));
}

static void take(struct svc_auth *auth, const struct st_auth_told *told)
{
    auth->unix_offset_ms = told->now_unix_ms - now_ms(auth);
    if (told->restarted) {
        auth->generation++;
        auth->rebuilding = true;
    }
    for (size_t i = 0; i < told->n; i++)
        take_row(auth, &told->rows[i]);
    auth->version = told->known;
    if (strcmp(auth->epoch, told->epoch) != 0) {
        strncpy(auth->epoch, told->epoch, sizeof(auth->epoch) - 1);
        auth->epoch[sizeof(auth->epoch) - 1] = '\0';
    }
}

/* All that there was is known. */
static void complete(struct svc_auth *auth)
{
    if (auth->rebuilding)
        svc_principals_keep(&auth->all, auth->generation);
    if (!auth->known && auth->all.n == 0)
        log_warn("auth.no_keys", log_str("hint", "nobody can call: holdfastd --create-admin-key NAME makes the first key"));
    auth->rebuilding = false;
    auth->known = true;
    auth->refreshes++;
    auth->asked_ms = auth->asking_ms;
}

static void on_answer(struct st_item *item)
{
    struct svc_auth *auth = item->owner;
    auth->asking = false;
    if (item->outcome == ST_FOUND) {
        take(auth, &item->out.auth);
        if (item->out.auth.more) {
            auth->paged = true;
            ask(auth);
            return;
        }
        complete(auth);
        look_at_long_calls(auth);
        /* What many pages took long to tell is old by now; what has changed since is one more. */
        if (auth->again || (auth->paged && older_than(auth, SVC_AUTH_REFRESH_MS))) {
            ask_anew(auth);
            return;
        }
    } else if (item->outcome == ST_FAILED) {
        log_error("auth.failed", log_str("sqlstate", item->sqlstate));
    }
    let_go(auth);
}

void svc_auth_changed(struct svc_auth *auth)
{
    if (!auth)
        return;
    auth->asked_ms = INT64_MIN / 2;
    auth->again = auth->asking;
    if (!auth->asking && !auth->svc->closed)
        ask_anew(auth);
}

static void on_tick(struct io_timer *timer)
{
    struct svc_auth *auth = list_entry(timer, struct svc_auth, tick);
    bool any = false;
    auth->ticking = !list_empty(&auth->calls);
    if (!auth->ticking)
        return;
    for (struct list_node *node = auth->calls.head.next; node != &auth->calls.head && !any; node = node->next)
        any = is_long(list_entry(node, struct svc_call, of_auth));
    if (any && !auth->asking && svc_auth_age_ms(auth) >= SVC_AUTH_REFRESH_MS)
        ask_anew(auth);
    auth->svc->io->timer_set(auth->svc->io, timer, now_ms(auth) + SVC_AUTH_REFRESH_MS);
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

/* What is known is asked for again, or waited for, as auth.h says. */
static enum svc_admission be_sure(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method, bool held,
                                  bool found, struct hp_status *status)
{
    bool stale = older_than(auth, SVC_AUTH_STALE_MS);
    if (!held && !auth->asking && older_than(auth, SVC_AUTH_REFRESH_MS - 1))
        ask_anew(auth);
    if (!stale && (found || held || !auth->asking))
        return SVC_ADMITTED;
    if (held)
        hp_status_set(status, HP_R_DATABASE_DOWN, "it cannot be known whether the key is good: the database doesn't answer");
    else if (hold(auth, call, method))
        return SVC_HELD;
    else
        hp_status_set(status, HP_R_QUEUE_FULL, "too many calls wait until their keys can be looked at");
    return SVC_REFUSED;
}

static enum svc_admission identify(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method, bool held,
                                   struct svc_principal **who, struct hp_status *status)
{
    const char *header = authorization(call), *certificate = call->peer && !header ? call->peer->certificate : NULL;
    struct svc_key key;
    *who = NULL;
    if (!header && !certificate) {
        hp_status_set(status, HP_R_NO_KEY, "this server requires an API key, as metadata \"authorization: Bearer hfk_…\"");
        return SVC_REFUSED;
    }
    if (header && !svc_key_parse(header, &key)) {
        bad_key(status);
        return SVC_REFUSED;
    }
    struct svc_principal *found = find(auth, &key, certificate);
    bool good = found && !expired(auth, found);
    enum svc_admission sure = be_sure(auth, call, method, held, good, status);
    if (sure != SVC_ADMITTED)
        return sure;
    if (!good) {
        bad_key(status);
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
    auth->tick.fire = on_tick;
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
    let_go(auth); /* and they are told of the drain */
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
