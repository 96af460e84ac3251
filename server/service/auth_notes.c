/*
 * auth_notes.c - see auth.h: who was used and what was refused, on its way into the database, in batches.
 *
 * Bounded: what is refused is counted by principal, method and reason, of which few are kept apart at one time; all others count
 * together, by their reason. Counts that could not be noted are kept for the next time; when a key was used is told again a minute
 * later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/auth.h"

enum { NOTE_MS = 5000, USED_EVERY_MS = 60000, KEPT = 128, APART = 112, USED_MAX = 1000 };

struct denial {
    char principal[SVC_KEY_ID + 1];
    const char *method; /* "" = any */
    enum hp_reason reason;
    int64_t count, sent; /* sent: of those that are with the store */
};

struct svc_auth_notes {
    struct svc *svc;
    struct denial denials[KEPT];
    size_t n_denials;
    struct list used; /* principals, held, to be noted */
    struct io_timer timer;
    bool timing, last;

    bool busy; /* the store has it */
    struct st_item item;
    size_t n_used, n_sent;
    struct svc_principal *noted[USED_MAX];
    const char *ids[USED_MAX];
    int64_t ago_ms[USED_MAX];
    struct st_denial sent[KEPT];
};

static void arm(struct svc_auth_notes *notes)
{
    struct io *io = notes->svc->io;
    if (notes->timing || notes->busy || notes->last || (!notes->n_denials && list_empty(&notes->used)))
        return;
    notes->timing = true;
    io->timer_set(io, &notes->timer, io->now_ms(io) + NOTE_MS);
}

static void on_timer(struct io_timer *timer)
{
    struct svc_auth_notes *notes = list_entry(timer, struct svc_auth_notes, timer);
    notes->timing = false;
    svc_auth_notes_flush(notes, false);
}

struct svc_auth_notes *svc_auth_notes_new(struct svc *svc)
{
    struct svc_auth_notes *notes = calloc(1, sizeof(*notes));
    if (!notes)
        return NULL;
    notes->svc = svc;
    notes->timer.fire = on_timer;
    list_init(&notes->used);
    return notes;
}

void svc_auth_notes_free(struct svc_auth_notes *notes)
{
    struct list_node *node;
    if (!notes)
        return;
    notes->svc->io->timer_cancel(notes->svc->io, &notes->timer);
    while ((node = list_pop_front(&notes->used)))
        svc_principal_drop(list_entry(node, struct svc_principal, node));
    free(notes);
}

/* ---- what is to be noted ---- */

static const char any[] = "";

static struct denial *find(struct svc_auth_notes *notes, const char *principal, const char *method, enum hp_reason reason)
{
    for (size_t i = 0; i < notes->n_denials; i++) {
        struct denial *at = &notes->denials[i];
        if (at->method == method && at->reason == reason && !strcmp(at->principal, principal))
            return at;
    }
    return NULL;
}

/* Where it is counted. NULL: there is no room left (there is, for each reason). */
static struct denial *slot(struct svc_auth_notes *notes, const char *principal, const char *method, enum hp_reason reason)
{
    struct denial *found = find(notes, principal, method, reason);
    if (!found && notes->n_denials >= APART) {
        principal = "";
        method = any;
        found = find(notes, principal, method, reason);
    }
    if (found || notes->n_denials == KEPT)
        return found;
    struct denial *at = &notes->denials[notes->n_denials++];
    *at = (struct denial){.method = method, .reason = reason};
    snprintf(at->principal, sizeof(at->principal), "%s", principal);
    return at;
}

void svc_auth_note_denial(struct svc_auth_notes *notes, const struct svc_principal *who, const char *method, enum hp_reason reason)
{
    struct denial *at = slot(notes, who ? who->id : "", method, reason);
    if (at)
        at->count++;
    arm(notes);
}

void svc_auth_note_use(struct svc_auth_notes *notes, struct svc_principal *who, int64_t now_ms)
{
    who->used_ms = now_ms;
    if (who->unnoted || (who->noted_ms && now_ms - who->noted_ms < USED_EVERY_MS))
        return;
    who->unnoted = true;
    svc_principal_hold(who);
    list_push_back(&notes->used, &who->node);
    arm(notes);
}

/* ---- on its way ---- */

static void on_noted(struct st_item *item)
{
    struct svc_auth_notes *notes = item->owner;
    size_t kept = 0;
    bool noted = item->outcome == ST_FOUND || item->outcome == ST_OUTCOME_LOST; /* rather too few than twice */
    notes->busy = false;
    for (size_t i = 0; i < notes->n_used; i++)
        svc_principal_drop(notes->noted[i]);
    for (size_t i = 0; i < notes->n_denials; i++) {
        struct denial *at = &notes->denials[i];
        at->count -= noted ? at->sent : 0;
        at->sent = 0;
        if (at->count > 0)
            notes->denials[kept++] = *at;
    }
    notes->n_denials = kept;
    arm(notes);
}

void svc_auth_notes_flush(struct svc_auth_notes *notes, bool last)
{
    struct io *io = notes->svc->io;
    struct list_node *node;
    int64_t now = io->now_ms(io);
    if (last) {
        notes->last = true;
        notes->timing = false;
        io->timer_cancel(io, &notes->timer);
    }
    if (notes->busy || (!notes->n_denials && list_empty(&notes->used)))
        return;
    for (notes->n_used = 0; notes->n_used < USED_MAX && (node = list_pop_front(&notes->used)); notes->n_used++) {
        struct svc_principal *who = list_entry(node, struct svc_principal, node);
        who->unnoted = false;
        who->noted_ms = now;
        notes->noted[notes->n_used] = who;
        notes->ids[notes->n_used] = who->id;
        notes->ago_ms[notes->n_used] = now - who->used_ms;
    }
    for (size_t i = 0; i < notes->n_denials; i++) {
        struct denial *at = &notes->denials[i];
        at->sent = at->count;
        notes->sent[i] = (struct st_denial){at->principal, at->method, hp_reason_name(at->reason), at->count};
    }
    notes->busy = true;
    notes->item = (struct st_item){.kind = ST_AUTH_NOTE,
                                   .ns = "",
                                   .deadline_ms = now + NOTE_MS,
                                   .done = on_noted,
                                   .owner = notes,
                                   .in.auth_note = {.used = notes->ids,
                                                    .ago_ms = notes->ago_ms,
                                                    .n_used = notes->n_used,
                                                    .denials = notes->sent,
                                                    .n_denials = notes->n_denials}};
    st_submit(notes->svc->store, &notes->item);
}
