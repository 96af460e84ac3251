/*
 * wait_line.h - a line and who stands in it, for wait.c and wait_cancel.c (callers) and wait_line.c (what a line does).
 */
#ifndef HOLDFAST_SERVICE_WAIT_LINE_H
#define HOLDFAST_SERVICE_WAIT_LINE_H

#include "service/call.h"

enum { SVC_NAME_BYTES = 257 };

/* A call that waits; in its arena. */
struct svc_wait {
    struct co_caller base; /* first */
    struct svc_call *sc;
    const char *labels_json;
    int64_t hard_ms; /* it is answered then, whatever is known */
    int64_t send_ms; /* until then the store may send for it */
};

/* Callers with one request_id. Owned by its line while it is in it or tried for. */
struct svc_waiter {
    struct co_waiter base; /* first */
    struct list cancels;   /* of struct svc_cancel: they want to know what becomes of the try */
    bool fresh;            /* nothing was asked of the database for it yet */
    bool waited;           /* it was told to wait, so that a grant to it is a hand-over */
    bool lost;             /* its last try had no answer: it may have been granted */
    char request_id[];
};

struct svc_line {
    struct co_line base; /* first */
    struct list_node node;
    struct svc *svc;

    struct st_item item;      /* the try or the question that the store has, while there is a trier */
    struct svc_call *trier;   /* by whose request */
    struct svc_waiter *tried; /* for whom; it may have left the line since */
    bool asking;              /* a question */
    bool due;                 /* the head is to be tried for as soon as nothing is with the store */

    bool row;     /* the database may have us on record as waiting */
    bool leaving; /* `leave` is with the store */
    struct st_item leave;

    /* What was learnt last. */
    enum { SVC_NOTHING, SVC_HELD, SVC_GUARDED } known;
    bool stuck;            /* the last outcome was none: no questions until a try has one */
    bool down;             /* that was because of the database */
    int64_t not_before_ms; /* it is free, but not for us until then */
    int64_t known_ms;      /* when it was */
    int64_t token, until_ms;
    char holder[SVC_NAME_BYTES], task[SVC_NAME_BYTES];

    size_t n_overtime; /* callers whose time was over when nothing was known yet */
    char names[];
};

/* The line of the resource, open. NULL: no memory. */
struct svc_line *svc_line_get(struct svc *svc, const char *ns, const char *resource);
/* The line does what there is to do next, if nothing of it is with the store: tries, asks, or ends for want of waiters; it may be
 * gone then. To be called whenever somebody came or went. */
void svc_line_proceed(struct svc_line *line);
/* The resource may be free. The line may be gone then. */
void svc_line_kick(struct svc_line *line);

/* wait.c: the call doesn't wait any more, and is still to be answered; its waiter may be gone. */
void svc_wait_leave(struct svc_wait *wait);
/* The call was answered by what is known; its waiter may be gone. */
void svc_wait_end(struct svc_wait *wait);
/* The same for all callers of the waiter, which is gone then, unless it is being tried for. */
void svc_waiter_end(struct svc_waiter *waiter);
void svc_waiter_fail(struct svc_waiter *waiter, const struct hp_status *status);
/* Those who wanted to cancel it know: whether it was still waiting, or that nobody can tell (`lost`). */
void svc_waiter_settle(struct svc_waiter *waiter, bool was_waiting, bool lost);
/* It must be in no line, and not be tried for. */
void svc_waiter_free(struct svc_waiter *waiter);
/* RESOURCE_EXHAUSTED / QUOTA: the namespace has `limit` waiters. */
void svc_over_quota(const char *ns, int64_t limit, struct hp_status *status);
/* The timer is set for what is due next. */
void svc_waits_arm(struct svc *svc);

static inline struct svc_line *svc_line_of(struct co_line *line)
{
    return list_entry(line, struct svc_line, base);
}

static inline struct svc_waiter *svc_waiter_of(struct co_waiter *waiter)
{
    return list_entry(waiter, struct svc_waiter, base);
}

static inline struct svc_wait *svc_first_wait(const struct svc_waiter *waiter)
{
    struct co_caller *caller = list_entry(list_first(&waiter->base.callers), struct co_caller, node);
    return list_entry(caller, struct svc_wait, base);
}

#endif
