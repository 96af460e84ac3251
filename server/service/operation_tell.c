/*
 * operation_tell.c - see operation.h: answers and errors of operations.
 */
#include <string.h>

#include "core/moves.h"
#include "service/operation.h"

/* ---- views ---- */

static int state_of(const struct st_item *item)
{
    switch (item->outcome) {
    case ST_OP_REPLAYED:
        return CO_SUCCEEDED;
    case ST_OP_REPLAYED_FAILED:
        return CO_FAILED;
    case ST_OP_REPLAYED_CANCELLED:
        return CO_CANCELLED;
    case ST_OP_UNKNOWN:
        return CO_UNKNOWN;
    case ST_OP_REVIEW:
        return CO_REVIEW;
    case ST_OP_IN_PROGRESS:
        return item->out.op.state == CO_PENDING ? CO_PENDING : CO_RUNNING;
    default:
        return CO_NEW;
    }
}

bool svc_op_view_of_item(const struct st_item *item, struct svc_op_view *view)
{
    const struct st_op_told *told = &item->out.op;
    *view = (struct svc_op_view){.state = state_of(item),
                                 .attempt = told->attempt,
                                 .holder = told->holder,
                                 .remaining_ms = told->remaining_ms,
                                 .result = told->result,
                                 .result_ref = told->result_ref,
                                 .since_ms = told->ended_unix_ms,
                                 .error_class = told->error_class,
                                 .message = told->message};
    return view->state != CO_NEW;
}

void svc_op_view_of_row(const struct st_op_row *row, struct svc_op_view *view)
{
    *view = (struct svc_op_view){.state = row->state,
                                 .attempt = row->attempts,
                                 .holder = row->holder,
                                 .remaining_ms = row->remaining_ms,
                                 .result = row->result,
                                 .result_ref = row->result_ref,
                                 .since_ms = row->changed_unix_ms,
                                 .error_class = row->error_class,
                                 .message = row->message};
}

/* ---- answers ---- */

void svc_op_fill_replayed(const struct svc_op_view *view, Holdfast__V1__BeginResponse__Replayed *out)
{
    holdfast__v1__begin_response__replayed__init(out);
    out->result = svc_binary(view->result);
    out->result_ref = svc_unconst(view->result_ref);
    out->first_completed_unix_ms = view->since_ms;
    out->attempt = view->attempt;
    out->failed = view->state != CO_SUCCEEDED;
    out->cancelled = view->state == CO_CANCELLED;
    out->error_class = (Holdfast__V1__ErrorClass__Kind)view->error_class;
    out->message = svc_unconst(view->message);
    if (!out->failed) { /* what an earlier attempt failed of is told by Get */
        out->error_class = HOLDFAST__V1__ERROR_CLASS__KIND__UNSPECIFIED;
        out->message = svc_unconst("");
    }
}

void svc_op_fill_in_progress(const struct svc_op_view *view, Holdfast__V1__BeginResponse__InProgress *out)
{
    holdfast__v1__begin_response__in_progress__init(out);
    out->holder = svc_unconst(view->state == CO_PENDING ? "" : view->holder);
    out->remaining_ms = view->remaining_ms > 0 ? view->remaining_ms : 0;
    out->attempt = view->attempt;
}

void svc_op_answer_begin(struct svc_call *sc, const struct svc_op_view *view)
{
    Holdfast__V1__BeginResponse response = HOLDFAST__V1__BEGIN_RESPONSE__INIT;
    Holdfast__V1__BeginResponse__Replayed replayed;
    Holdfast__V1__BeginResponse__InProgress in_progress;
    Holdfast__V1__BeginResponse__Unknown unknown = HOLDFAST__V1__BEGIN_RESPONSE__UNKNOWN__INIT;
    Holdfast__V1__BeginResponse__Review review = HOLDFAST__V1__BEGIN_RESPONSE__REVIEW__INIT;
    switch (view->state) {
    case CO_PENDING:
    case CO_RUNNING:
        svc_op_fill_in_progress(view, &in_progress);
        response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_IN_PROGRESS;
        response.in_progress = &in_progress;
        break;
    case CO_UNKNOWN:
        unknown.since_unix_ms = view->since_ms;
        unknown.note = svc_unconst(view->message);
        response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_UNKNOWN;
        response.unknown = &unknown;
        break;
    case CO_REVIEW:
        review.reason = svc_unconst(view->message);
        review.error_class = (Holdfast__V1__ErrorClass__Kind)view->error_class;
        review.since_unix_ms = view->since_ms;
        response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REVIEW;
        response.review = &review;
        break;
    default:
        svc_op_fill_replayed(view, &replayed);
        response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_REPLAYED;
        response.replayed = &replayed;
    }
    svc_reply(sc, &response.base);
}

void svc_op_answer_started(struct svc_call *sc, const struct st_item *item, int64_t asked_ms)
{
    const struct st_op_told *told = &item->out.op;
    Holdfast__V1__BeginResponse response = HOLDFAST__V1__BEGIN_RESPONSE__INIT;
    Holdfast__V1__BeginResponse__Started started = HOLDFAST__V1__BEGIN_RESPONSE__STARTED__INIT;
    /* As in Acquire: what has passed since it was asked for is gone from the time to live, and what passed before is all that the
     * caller may add to it (P7). */
    int64_t waited = asked_ms - sc->received_ms;
    int64_t passed = svc_elapsed_ms(sc) - (waited > 0 ? waited : 0);
    int64_t ttl = told->ttl_ms - (passed > 0 ? passed : 0);
    started.attempt = told->attempt;
    started.execution_id = svc_unconst(told->execution_id);
    started.token = told->token;
    started.ttl_ms = ttl > 0 ? ttl : 0;
    started.waited_ms = waited > 0 ? waited : 0;
    started.trigger = (Holdfast__V1__Trigger__Kind)told->trigger;
    response.outcome_case = HOLDFAST__V1__BEGIN_RESPONSE__OUTCOME_STARTED;
    response.started = &started;
    svc_reply(sc, &response.base);
}

/* ---- errors ---- */

void svc_op_conflict(const char *key, struct hp_status *status)
{
    hp_status_set(status, HP_R_PARAMETER_CONFLICT, "operation \"%s\" has another type or other parameters", key);
    hp_status_meta(status, "key", "%s", key);
}

void svc_op_none(const char *key, struct hp_status *status)
{
    hp_status_set(status, HP_R_NO_SUCH_OPERATION, "no operation \"%s\"", key);
    hp_status_meta(status, "key", "%s", key);
}

void svc_op_illegal(const char *key, int state, struct hp_status *status)
{
    if (state == CO_UNKNOWN)
        hp_status_set(status, HP_R_OUTCOME_UNKNOWN, "it is not known whether operation \"%s\" took effect; Reconcile says so", key);
    else if (state == CO_REVIEW)
        hp_status_set(status, HP_R_IN_REVIEW, "operation \"%s\" waits for somebody's decision", key);
    else
        hp_status_set(status, HP_R_ILLEGAL_STATE, "operation \"%s\" is %s, which does not allow it", key, co_state_name(state));
    hp_status_meta(status, "key", "%s", key);
    hp_status_meta(status, "state", "%s", co_state_name(state));
}

static void illegal(const struct st_item *item, struct hp_status *status)
{
    int state = item->out.op_moved.state;
    hp_status_set(status, HP_R_ILLEGAL_STATE, "operation \"%s\" is %s, which does not allow it", item->resource,
                  co_state_name(state));
    hp_status_meta(status, "key", "%s", item->resource);
    hp_status_meta(status, "state", "%s", co_state_name(state));
}

static void another_revision(const struct st_item *item, struct hp_status *status)
{
    const struct st_op_moved *moved = &item->out.op_moved;
    hp_status_set(status, HP_R_REVISION_MISMATCH, "operation \"%s\" has revision %lld, and is %s", item->resource,
                  (long long)moved->revision, co_state_name(moved->state));
    hp_status_meta(status, "key", "%s", item->resource);
    hp_status_meta(status, "revision", "%lld", (long long)moved->revision);
    hp_status_meta(status, "state", "%s", co_state_name(moved->state));
}

static void not_the_owner(const struct st_item *item, struct hp_status *status)
{
    if (item->outcome == ST_OP_STALE)
        hp_status_set(status, HP_R_STALE_TOKEN, "the token of \"%s\" is stale: a newer attempt was started", item->resource);
    else
        hp_status_set(status, HP_R_NOT_HELD, "the lease of that attempt of \"%s\" has ended or never was", item->resource);
    hp_status_meta(status, "key", "%s", item->resource);
}

bool svc_op_refused(const struct st_item *item, struct hp_status *status)
{
    switch (item->outcome) {
    case ST_OP_CONFLICT:
        svc_op_conflict(item->resource, status);
        return true;
    case ST_OP_NONE:
        svc_op_none(item->resource, status);
        return true;
    case ST_OP_STALE:
    case ST_OP_NOT_HELD:
        not_the_owner(item, status);
        return true;
    case ST_OP_UNKNOWN:
        svc_op_illegal(item->resource, CO_UNKNOWN, status);
        return true;
    case ST_OP_REVIEW:
        svc_op_illegal(item->resource, CO_REVIEW, status);
        return true;
    case ST_OP_ILLEGAL:
        illegal(item, status);
        return true;
    case ST_OP_REVISION:
        another_revision(item, status);
        return true;
    default:
        return false;
    }
}

bool svc_op_failed(struct svc_call *sc)
{
    struct hp_status status;
    if (!svc_item_failed(sc, 0, &status) && !svc_op_refused(&sc->items[0], &status))
        return false;
    svc_fail(sc, &status);
    return true;
}

struct st_item *svc_op_item(struct svc_call *sc, enum st_kind kind, const char *ns, const char *key)
{
    struct st_item *item = svc_items(sc, 1, kind, ns);
    if (item)
        item->resource = key;
    return item;
}
