/*
 * operation_wait.h - calls of Begin and Wait that wait for an operation. For the .c files of this room.
 *
 * A *line* is who waits for one key. It has at most one item with the store at any time: a *question* (Get: how is it?), whose
 * answer is for all of them, or a *try* (the Begin of the first that wants to begin), when the operation may be started as far as
 * is known. So what a change costs doesn't depend on how many wait. A line asks when this server has answered something
 * that changes the operation, when the lease of its attempt (or its delay) ends, when a newcomer knows nothing yet, and, for
 * changes through other servers, after pauses that grow to a quarter of a second.
 *
 *     Begin ──▶ its own begin ──▶ in progress ──▶ waits ──▶ tried for ──▶ started
 *     Wait ─────────────────────────────────────▶ waits ──▶ ended, unknown, in review: told to all
 *                                                   └─▶ its time is over, drain · gone: its connection has ended
 *
 * A Begin is answered `in_progress` by what is known when its time is over; a Wait by one more question.
 */
#ifndef HOLDFAST_SERVICE_OPERATION_WAIT_H
#define HOLDFAST_SERVICE_OPERATION_WAIT_H

#include "service/operation.h"

enum { SVC_HOLDER_BYTES = 257, SVC_OP_PAUSE_MIN_MS = 20, SVC_OP_PAUSE_MAX_MS = 250 };

/* A call that waits; in its arena. */
struct svc_op_wait {
    struct list_node node; /* of its line, in order of arrival */
    struct heap_node end;
    struct svc_op_line *line;
    struct svc_call *sc;
    bool begins;     /* it is a Begin */
    bool over;       /* its time is over, and it is told by the answer that is awaited, whatever that is */
    bool lost;       /* its try had no answer: it may have been started */
    int64_t hard_ms; /* it is answered then, whatever is known */
    uint64_t since;  /* the first question that was asked after it came */
};

struct svc_op_line {
    struct svc_op_line *next; /* in its bucket */
    struct svc *svc;
    uint64_t hash;
    struct list waits;
    struct heap_node poll;

    struct st_item item; /* the question or the try that the store has, while `asked` */
    bool asked;
    struct svc_call *trier; /* NULL: it is a question */
    int64_t asked_ms;
    uint64_t n_asked;
    bool due;   /* to be asked as soon as nothing is with the store */
    bool start; /* it may be started as far as is known */
    int64_t pause_ms;

    /* What was learnt last, of one that is in progress. */
    int state;
    int64_t known_ms, until_ms, attempt;
    char holder[SVC_HOLDER_BYTES];

    const char *ns, *key;
    char names[];
};

void svc_op_waits_init(struct svc *svc);
/* Whoever waits is answered: the one that is being tried for as soon as that has an outcome. */
void svc_op_waits_end(struct svc *svc);
/* Requires that nobody waits. */
void svc_op_waits_release(struct svc *svc);

/* A Begin that was told that the operation is in progress: it waits, or is answered so if it may not. */
void svc_op_wait_begin(struct svc_call *sc, const struct svc_op_view *view);
/* The call waits no longer, for its caller is gone; it has been answered. */
void svc_op_wait_gone(struct svc_call *sc);
/* The same for another reason, which it was answered. */
void svc_op_wait_expel(struct svc_call *sc, const struct hp_status *status);
/* The operation was changed through this server. */
void svc_op_wake(struct svc *svc, const char *ns, const char *key);

/* operation_line.c: the line of the key. NULL: no memory. */
struct svc_op_line *svc_op_line_get(struct svc *svc, const char *ns, const char *key);
/* It does what there is to do next, if nothing of it is with the store; it may be gone then. */
void svc_op_line_proceed(struct svc_op_line *line);
/* This is how it is in progress. */
void svc_op_line_know(struct svc_op_line *line, const struct svc_op_view *view);
/* It is asked again after a pause, or when the lease ends. */
void svc_op_line_later(struct svc_op_line *line);

/* It is asked again soon: what was asked had no outcome. */
void svc_op_line_retry(struct svc_op_line *line);
/* All that wait in turn, of whom `tell` may let the one leave that it is given. */
void svc_op_each(struct svc_op_line *line, void (*tell)(struct svc_op_wait *wait, const void *what), const void *what);
/* The Begin carries this type and fingerprint. */
bool svc_op_same_parameters(const struct svc_call *sc, const char *type, struct st_bytes fingerprint);
/* It has been answered, and waits no longer. */
void svc_op_wait_fail(struct svc_op_wait *wait, const struct hp_status *status);
void svc_op_tell_begin(struct svc_op_wait *wait, const struct svc_op_view *view);
/* operation_try.c: those whom the outcome of a try concerns are told. */
void svc_op_take_outcome(struct svc_op_line *line, const struct svc_call *trier, const struct st_item *item);

/* operation_wait.c: the call doesn't wait any more, and is still to be answered. */
void svc_op_wait_leave(struct svc_op_wait *wait);
/* It is answered by what is known. */
void svc_op_wait_end(struct svc_op_wait *wait);
/* All that wait in it are, but one that is being tried for. */
void svc_op_line_end(struct svc_op_line *line);
/* The timer is set for what is due next. */
void svc_op_waits_arm(struct svc *svc);

#endif
