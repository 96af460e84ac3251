/*
 * auth.h - who calls, and may they: keys, certificates, roles, rates.
 *
 * A server that requires keys holds all principals in memory (principals.h), and asks the database what has changed: once a second
 * at most, and only while calls come. What was asked for less than two seconds ago is good; a call that comes when it is older
 * waits for the answer, and if there is none ends with DATABASE_DOWN: what was true once is no reason to let anybody in. So a key
 * is good on every server within two seconds of its making, and bad within two seconds of its revocation, and a bad key costs no
 * query of its own. After a change through this server nobody is let in by what was known before.
 *
 * Calls that are long under way (streams, and those that wait) end when their principal is revoked, expires, or loses the right:
 * while there are any, the question is asked each second even if no other call comes.
 *
 *     call ──▶ refused │ admitted │ held until the present question is answered ──▶ refused │ admitted
 *
 * Who was used is noted in the database once a minute, and what was refused within some seconds, in batches (auth_notes.c).
 */
#ifndef HOLDFAST_SERVICE_AUTH_H
#define HOLDFAST_SERVICE_AUTH_H

#include "base/list.h"
#include "service/call.h"
#include "service/principals.h"
#include "service/scope.h"

enum { SVC_AUTH_REFRESH_MS = 1000, SVC_AUTH_STALE_MS = 2000, SVC_AUTH_PAGE = 1000, SVC_AUTH_HELD_MAX = 20000 };

struct svc_auth_notes;

struct svc_auth {
    struct svc *svc;
    struct svc_principals all;
    struct svc_naming naming[SVC_ROWS_MAX]; /* by row of the dispatch table */

    struct st_item item; /* the question, while `asking` */
    bool asking, again;  /* again: what was asked is not new enough */
    bool paged;          /* the answer has several pages */
    bool known;          /* it was answered to its end at least once */
    char epoch[64];
    int64_t version;
    unsigned generation;
    bool rebuilding;
    int64_t asking_ms;      /* since when */
    int64_t asked_ms;       /* when what is known was asked for */
    int64_t unix_offset_ms; /* the database's clock is io's and this */

    struct list held;  /* calls that wait for the answer */
    struct list calls; /* calls of principals, not yet answered: by svc_call.of_auth */
    struct io_timer tick;
    bool ticking;
    int64_t refreshes;
    int64_t denials[SVC_ERRORS]; /* by reason */
    struct svc_auth_notes *notes;
};

/* NULL: no memory. */
struct svc_auth *svc_auth_new(struct svc *svc) __attribute__((warn_unused_result));
/* Nothing is held, and the store is not used any more. NULL is allowed. */
void svc_auth_free(struct svc_auth *auth);
/* Those that are held end; what is to be noted is noted now. */
void svc_auth_drain(struct svc_auth *auth);

enum svc_admission { SVC_ADMITTED, SVC_HELD, SVC_REFUSED };

/*
 * Who calls, and whether they may call this method at all, so often. SVC_ADMITTED: `who` is held for the caller of this
 * (svc_principal_drop). SVC_REFUSED: `status` says why; it was counted. SVC_HELD: svc_begin will be called for it later, with
 * `held`, or the call ends.
 */
enum svc_admission svc_auth_admit(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method, bool held,
                                  struct svc_principal **who, struct hp_status *status);
/* Whether its key or certificate is one that is known, and not over; nothing is asked for. */
bool svc_auth_knows(const struct svc_auth *auth, const struct hp_call *call);
/* The call, which was admitted, is under way for this principal, which it holds from now on. Its request was unpacked. False: it
 * doesn't reach so far; `status` says so, it was counted, and the call holds nothing. */
bool svc_auth_enter(struct svc_auth *auth, struct svc_call *sc, struct svc_principal *who, struct hp_status *status)
    __attribute__((warn_unused_result));
/* The call, whose handler found that its caller may not, ends with this; it is counted as a denial. */
void svc_auth_fail(struct svc_call *sc, const struct hp_status *status);
/* It is counted as a denial; the call goes on, or ends with something else. */
void svc_auth_denied(struct svc_call *sc, const struct hp_status *status);
/* It is over. */
void svc_auth_leave(struct svc_call *sc);

/* A principal was changed through this server: what is known is not good any more. NULL is allowed. */
void svc_auth_changed(struct svc_auth *auth);

/* The principals as they are known, for those who decide about others. NULL: not known, or revoked. */
const struct svc_principal *svc_auth_find(const struct svc_auth *auth, const char *id);
/* How long the principal is good yet; INT64_MAX: for ever. */
int64_t svc_auth_left_ms(const struct svc_auth *auth, const struct svc_principal *who);
/* How old what is known is; -1 = nothing is. */
int64_t svc_auth_age_ms(const struct svc_auth *auth);

/* dispatch.c: an admitted call goes on from here. */
void svc_begin(struct svc *svc, struct hp_call *call, const struct svc_method *method, bool held);

/* ---- auth_follow.c ---- */

/* What is known is older, or nothing is. */
bool svc_auth_older_than(const struct svc_auth *auth, int64_t ms);
/* What has changed is asked for. */
void svc_auth_ask_anew(struct svc_auth *auth);
/* The call waits until the present question is answered. False: it can't be held. */
bool svc_auth_hold(struct svc_auth *auth, struct hp_call *call, const struct svc_method *method);
/* Those that were held when this began go on. */
void svc_auth_let_go(struct svc_auth *auth);
/* Of auth->tick, which is set while calls are under way: it asks for those that are long. */
void svc_auth_on_tick(struct io_timer *timer);
bool svc_auth_expired(const struct svc_auth *auth, const struct svc_principal *who);
/* The same for whatever is wrong with it: who tries keys learns nothing. */
void svc_auth_bad_key(struct hp_status *status);

/* ---- auth_notes.c ---- */

struct svc_auth_notes *svc_auth_notes_new(struct svc *svc);
/* Nothing is with the store. */
void svc_auth_notes_free(struct svc_auth_notes *notes);
/* The principal (NULL: nobody) was refused a call of this method (static text). */
void svc_auth_note_denial(struct svc_auth_notes *notes, const struct svc_principal *who, const char *method, enum hp_reason reason);
/* It was used now. */
void svc_auth_note_use(struct svc_auth_notes *notes, struct svc_principal *who, int64_t now_ms);
/* What there is goes to the store now. `last`: nothing more comes. */
void svc_auth_notes_flush(struct svc_auth_notes *notes, bool last);

#endif
