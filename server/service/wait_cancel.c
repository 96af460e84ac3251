/*
 * wait_cancel.c - LeaseService.CancelWait: waiters that leave because they are told to.
 *
 * A waiter that is not being tried for leaves at once. Of one that is, nobody knows yet whether it is granted: the call waits for
 * the outcome, linked to the waiter, and a grant stays a grant.
 */
#include <string.h>

#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"
#include "service/principals.h"
#include "service/wait.h"
#include "service/wait_line.h"

struct cancel;

/* That of one of the waiters, which is being tried for. */
struct svc_cancel {
    struct list_node node;
    struct svc_waiter *waiter;
    struct cancel *cancel;
};

struct cancel {
    struct svc_call *sc;
    size_t n, open;
    bool was_waiting, lost;
    struct svc_cancel *each;
};

static void finish_cancel(struct svc_call *sc)
{
    struct cancel *cancel = sc->state;
    Holdfast__V1__CancelWaitResponse response = HOLDFAST__V1__CANCEL_WAIT_RESPONSE__INIT;
    struct hp_status status;
    for (size_t i = 0; i < cancel->n; i++)
        if (list_linked(&cancel->each[i].node))
            list_remove(&cancel->each[i].waiter->cancels, &cancel->each[i].node);
    if (cancel->lost || cancel->open) {
        hp_status_set(&status, HP_R_OUTCOME_LOST, "it was being tried for, and it is not known whether that took effect");
        svc_fail(sc, &status);
        return;
    }
    response.was_waiting = cancel->was_waiting;
    svc_reply(sc, &response.base);
}

void svc_waiter_settle(struct svc_waiter *waiter, bool was_waiting, bool lost)
{
    struct list_node *node;
    while ((node = list_pop_front(&waiter->cancels))) {
        struct cancel *cancel = list_entry(node, struct svc_cancel, node)->cancel;
        cancel->was_waiting = cancel->was_waiting || was_waiting;
        cancel->lost = cancel->lost || lost;
        if (--cancel->open == 0)
            finish_cancel(cancel->sc);
    }
}

static void on_patience(struct io_timer *timer)
{
    finish_cancel(list_entry(timer, struct svc_call, patience));
}

/* One waits who is the same principal as the one that cancels: nobody takes away the waiters of others. */
static bool is_own(const struct svc_call *sc, const struct co_waiter *waiter)
{
    const struct list_node *head = &waiter->callers.head;
    for (const struct list_node *node = head->next; sc->principal && node != head; node = node->next) {
        const struct svc_wait *wait = list_entry(list_entry(node, struct co_caller, node), struct svc_wait, base);
        if (wait->sc->principal && !strcmp(wait->sc->principal->id, sc->principal->id))
            return true;
    }
    return !sc->principal;
}

/* Takes away the waiters that aren't being tried for, and waits for the outcome of the others. */
static void cancel_each(struct svc *svc, struct cancel *cancel, const char *ns, const char *request_id)
{
    struct co_waiter *found = co_waitq_with_id(&svc->waits.queue, ns, request_id, NULL), *next;
    for (; found; found = next) {
        struct svc_waiter *waiter = svc_waiter_of(found);
        struct svc_line *line = svc_line_of(found->line);
        next = co_waitq_with_id(&svc->waits.queue, ns, request_id, found);
        if (!is_own(cancel->sc, found))
            continue;
        if (line->tried == waiter && cancel->open < cancel->n) {
            struct svc_cancel *each = &cancel->each[cancel->open++];
            each->waiter = waiter;
            each->cancel = cancel;
            list_push_back(&waiter->cancels, &each->node);
        } else {
            cancel->was_waiting = true;
            svc_waiter_end(waiter);
            svc_line_proceed(line);
        }
    }
    cancel->n = cancel->open;
}

void svc_cancel_wait(struct svc_call *sc)
{
    const Holdfast__V1__CancelWaitRequest *req = sc->request;
    struct svc *svc = sc->svc;
    struct hp_status status;
    if (!hp_check_name("namespace", req->namespace_, &status) || !hp_check_name("request_id", req->request_id, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct cancel *cancel = hp_alloc(sc->arena, sizeof(*cancel));
    size_t n = 0;
    struct co_waiter *found = NULL;
    while ((found = co_waitq_with_id(&svc->waits.queue, req->namespace_, req->request_id, found)))
        n++;
    struct svc_cancel *each = hp_alloc_array(sc->arena, n, sizeof(*each));
    if (!cancel || !each) {
        svc_no_memory(sc);
        return;
    }
    *cancel = (struct cancel){.sc = sc, .n = n, .each = each};
    sc->state = cancel;
    cancel_each(svc, cancel, req->namespace_, req->request_id);
    svc_waits_arm(svc);
    if (!cancel->open) {
        finish_cancel(sc);
        return;
    }
    int64_t answer, send;
    svc_times(sc, &answer, &send);
    sc->patience.fire = on_patience;
    svc->io->timer_set(svc->io, &sc->patience, answer);
}
