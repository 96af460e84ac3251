/*
 * auth_follow.c - see auth.h: what is known of the principals, asked for again and again; the calls that are held until it is
 * known; and those that end since it has changed.
 */
#include <string.h>

#include "base/log.h"
#include "service/auth.h"
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

bool svc_auth_older_than(const struct svc_auth *auth, int64_t ms)
{
    return !auth->known || svc_auth_age_ms(auth) > ms;
}

bool svc_auth_expired(const struct svc_auth *auth, const struct svc_principal *who)
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

void svc_auth_bad_key(struct hp_status *status)
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

bool svc_auth_hold(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method)
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

void svc_auth_let_go(struct svc_auth *auth)
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
    if (!now || svc_auth_expired(auth, now)) {
        svc_auth_bad_key(status);
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
        if (now == sc->principal && !svc_auth_expired(auth, now))
            hp_status_set(&status, HP_R_SCOPE, "the key's grants were changed, and reach so far no longer");
        else
            svc_auth_bad_key(&status);
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

void svc_auth_ask_anew(struct svc_auth *auth)
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
        if (auth->again || (auth->paged && svc_auth_older_than(auth, SVC_AUTH_REFRESH_MS))) {
            svc_auth_ask_anew(auth);
            return;
        }
    } else if (item->outcome == ST_FAILED) {
        log_error("auth.failed", log_str("sqlstate", item->sqlstate));
    }
    svc_auth_let_go(auth);
}

void svc_auth_changed(struct svc_auth *auth)
{
    if (!auth)
        return;
    auth->asked_ms = INT64_MIN / 2;
    auth->again = auth->asking;
    if (!auth->asking && !auth->svc->closed)
        svc_auth_ask_anew(auth);
}

void svc_auth_on_tick(struct io_timer *timer)
{
    struct svc_auth *auth = list_entry(timer, struct svc_auth, tick);
    bool any = false;
    auth->ticking = !list_empty(&auth->calls);
    if (!auth->ticking)
        return;
    for (struct list_node *node = auth->calls.head.next; node != &auth->calls.head && !any; node = node->next)
        any = is_long(list_entry(node, struct svc_call, of_auth));
    if (any && !auth->asking && svc_auth_age_ms(auth) >= SVC_AUTH_REFRESH_MS)
        svc_auth_ask_anew(auth);
    auth->svc->io->timer_set(auth->svc->io, timer, now_ms(auth) + SVC_AUTH_REFRESH_MS);
}
