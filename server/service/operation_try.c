/*
 * operation_try.c - outcomes of a line's try for one of those who wait: who is told what. See operation_wait.h.
 *
 * The item borrows from the request of the call that it was made for (the trier): this one is told last.
 */
#include <string.h>

#include "core/moves.h"
#include "service/operation_wait.h"

struct outcome {
    const struct st_item *item;
    const struct svc_call *trier; /* answered last: the item borrows from its request */
    const struct svc_op_view *view;
    const struct hp_status *status;
    int64_t asked_ms;
    bool to_trier;
};

static bool concerns(const struct svc_op_wait *wait, const struct outcome *outcome)
{
    return wait->begins && (wait->sc == outcome->trier) == outcome->to_trier &&
           svc_op_same_parameters(wait->sc, outcome->item->in.op_begin.type, outcome->item->in.op_begin.fingerprint);
}

static bool same_request(const struct svc_op_wait *wait, const struct outcome *outcome)
{
    const struct svc_begin *begin = wait->sc->state;
    return concerns(wait, outcome) && !strcmp(begin->request_id, outcome->item->in.op_begin.request_id);
}

/* All that carry the request_id of the attempt: also callers that have come again since the one that it was asked for has gone. */
static void tell_started(struct svc_op_wait *wait, const void *what)
{
    const struct outcome *outcome = what;
    struct svc_call *sc = wait->sc;
    if (!same_request(wait, outcome))
        return;
    svc_op_wait_leave(wait);
    svc_op_answer_started(sc, outcome->item, outcome->asked_ms);
}

static void tell_view(struct svc_op_wait *wait, const void *what)
{
    const struct outcome *outcome = what;
    if (concerns(wait, outcome))
        svc_op_tell_begin(wait, outcome->view);
}

static void tell_status(struct svc_op_wait *wait, const void *what)
{
    const struct outcome *outcome = what;
    bool all = outcome->status->reason == HP_R_PARAMETER_CONFLICT || outcome->status->reason == HP_R_NO_SUCH_NAMESPACE;
    if (all ? concerns(wait, outcome) : same_request(wait, outcome))
        svc_op_wait_fail(wait, outcome->status);
}

static void tell_outcome(struct svc_op_line *line, struct outcome *outcome,
                         void (*tell)(struct svc_op_wait *wait, const void *what))
{
    svc_op_each(line, tell, outcome);
    outcome->to_trier = true;
    svc_op_each(line, tell, outcome);
}

static void no_outcome(struct svc_op_line *line, const struct svc_call *trier, enum st_outcome outcome)
{
    if (outcome == ST_OUTCOME_LOST) {
        if (trier->op_wait)
            trier->op_wait->lost = true;
        line->start = true; /* asked again it is told, under the same request_id */
    }
    svc_op_line_retry(line);
}

static void tell_failure(struct svc_op_line *line, struct outcome *outcome)
{
    struct hp_status status;
    outcome->status = &status;
    if (outcome->item->outcome == ST_OP_CONFLICT)
        svc_op_conflict(line->key, &status);
    else if (!svc_item_status(line->svc, outcome->item, &status))
        hp_status_set(&status, HP_R_INTERNAL, "unexpected outcome %d of a begin", (int)outcome->item->outcome);
    tell_outcome(line, outcome, tell_status);
}

void svc_op_take_outcome(struct svc_op_line *line, const struct svc_call *trier, const struct st_item *item)
{
    struct svc_op_view view = {.state = CO_RUNNING,
                               .attempt = item->out.op.attempt,
                               .holder = item->in.op_begin.holder,
                               .remaining_ms = item->out.op.ttl_ms};
    struct outcome outcome = {.item = item, .trier = trier, .asked_ms = line->asked_ms, .view = &view};
    if (item->outcome != ST_OUTCOME_LOST && trier->op_wait)
        trier->op_wait->lost = false;
    switch (item->outcome) {
    case ST_OP_STARTED:
    case ST_OP_STARTED_AGAIN:
        /* If all its callers have gone, nobody is told, and its lease ends by its time to live: see operation.c. */
        svc_op_line_know(line, &view);
        tell_outcome(line, &outcome, tell_started);
        line->pause_ms = SVC_OP_PAUSE_MIN_MS;
        svc_op_line_later(line);
        return;
    case ST_OP_IN_PROGRESS:
        svc_op_view_of_item(item, &view);
        svc_op_line_know(line, &view);
        svc_op_line_later(line);
        return;
    case ST_BUSY:
    case ST_OUTCOME_LOST:
    case ST_DATABASE_DOWN:
    case ST_QUEUE_FULL:
    case ST_TIMED_OUT:
        no_outcome(line, trier, item->outcome);
        return;
    default:
        break;
    }
    line->due = true; /* for the others that wait: what is it now? */
    if (svc_op_view_of_item(item, &view)) {
        tell_outcome(line, &outcome, tell_view);
        return;
    }
    tell_failure(line, &outcome);
}
