/*
 * op_model.c - see op_model.h.
 */
#include "store/op_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/store.h"

static struct om_answer answer(int outcome)
{
    return (struct om_answer){.outcome = outcome};
}

static void copy(char *to, const char *from)
{
    snprintf(to, OM_TEXT, "%s", from);
}

static struct om_attempt *find(struct om_op *op, int64_t token)
{
    for (int i = 0; i < op->n_attempts; i++) {
        if (op->attempt[i].token == token)
            return &op->attempt[i];
    }
    return NULL;
}

static bool lost(const struct om_attempt *a)
{
    return a->outcome == 3 || (a->outcome == 4 && a->error_class == 0);
}

/* 0: an attempt may be started, if nobody has locked the row. */
static int verdict(const struct om_op *op, const struct om_begin *in, int64_t now)
{
    static const int told[] = {[OM_SUCCEEDED] = ST_OP_REPLAYED,
                               [OM_FAILED] = ST_OP_REPLAYED_FAILED,
                               [OM_UNKNOWN] = ST_OP_UNKNOWN,
                               [OM_REVIEW] = ST_OP_REVIEW,
                               [OM_CANCELLED] = ST_OP_REPLAYED_CANCELLED};
    if (op->policy != in->policy || op->fingerprint != in->fingerprint)
        return ST_OP_CONFLICT;
    if (op->state > OM_RUNNING)
        return told[op->state];
    bool same = in->request_id[0] && !strcmp(op->request_id, in->request_id);
    if (op->state == OM_PENDING)
        return same || op->deadline > now ? ST_OP_IN_PROGRESS : 0;
    if (op->deadline <= now)
        return 0;
    return same ? ST_OP_STARTED_AGAIN : ST_OP_IN_PROGRESS;
}

static struct om_answer tell(struct om_op *op, int outcome, int64_t now)
{
    struct om_answer out = answer(outcome);
    if (outcome == ST_BUSY || outcome == ST_NO_SUCH_NAMESPACE || outcome == ST_OP_CONFLICT)
        return out;
    bool his = outcome == ST_OP_STARTED || outcome == ST_OP_STARTED_AGAIN;
    out.attempt = op->attempts;
    out.token = op->token;
    out.ttl_ms = his ? op->deadline - now : 0;
    out.trigger = his ? find(op, op->token)->trigger : 0;
    out.state = op->state;
    out.changed = op->changed;
    out.error_class = op->error_class;
    if (op->state == OM_PENDING || op->state == OM_RUNNING)
        out.remaining_ms = op->deadline > now ? op->deadline - now : 0;
    copy(out.holder, op->state == OM_PENDING ? "" : op->holder);
    copy(out.result, outcome == ST_OP_REPLAYED ? op->result : "");
    copy(out.message, op->message);
    return out;
}

static void start(struct om_op *op, const struct om_begin *in, int trigger, int64_t token, int64_t now)
{
    struct om_attempt *a = &op->attempt[op->n_attempts++];
    op->state = OM_RUNNING;
    op->sending = false;
    op->attempts++;
    op->budget_attempts++;
    op->token = token;
    op->changed = now;
    op->deadline = now + in->ttl_ms;
    copy(op->holder, in->holder);
    copy(op->request_id, in->request_id);
    *a = (struct om_attempt){.token = token, .started = now, .trigger = trigger};
}

/* An attempt that was lost ends; ST_OP_STARTED if another may be started. */
static int settle(struct om_op *op, int64_t now)
{
    struct om_attempt *a = find(op, op->token);
    int did = ST_OP_STARTED;
    a->outcome = op->sending ? 4 : 3;
    a->ended = now;
    if (op->sending || !op->policy->may_rerun) {
        did = ST_OP_UNKNOWN;
        copy(op->message, op->sending ? "the attempt was lost while it was sending" : "the attempt was lost");
    } else if (op->budget_attempts >= op->policy->max_attempts || now - op->since > op->policy->max_elapsed_ms) {
        did = ST_OP_REVIEW;
        if (!op->error_class)
            copy(op->message, "the attempt was lost");
    }
    op->state = did == ST_OP_UNKNOWN ? OM_UNKNOWN : did == ST_OP_REVIEW ? OM_REVIEW : OM_PENDING;
    op->deadline = op->state == OM_PENDING ? now : 0;
    op->sending = false;
    op->changed = now;
    op->revision++;
    copy(op->request_id, "");
    return did;
}

static void make(struct om_op *op, const struct om_begin *in, int64_t now)
{
    op->row = true;
    op->policy = in->policy;
    op->fingerprint = in->fingerprint;
    op->revision = 1;
    op->created = op->since = op->changed = now;
}

struct om_answer om_begin(struct om_op *op, const struct om_begin *in, int64_t token, int64_t now)
{
    const int given = in->trigger ? in->trigger : 4;
    if (!op->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (!op->row) {
        make(op, in, now);
        start(op, in, given, token, now);
        return tell(op, ST_OP_STARTED, now);
    }
    int outcome = verdict(op, in, now);
    if (outcome != 0 || op->locked)
        return tell(op, outcome ? outcome : ST_BUSY, now);
    const struct om_attempt *last = find(op, op->token);
    bool running = op->state == OM_RUNNING;
    int trigger = !last ? given : running ? 3 : op->budget_attempts == 0 ? 4 : last->outcome == 3 ? 3 : 2;
    outcome = ST_OP_STARTED;
    if (running && (outcome = settle(op, now)) == ST_OP_STARTED)
        op->revision--; /* one step: it is lost and started again at once */
    if (outcome == ST_OP_STARTED) {
        op->revision++;
        start(op, in, trigger, token, now);
    }
    return tell(op, outcome, now);
}

struct om_answer om_renew(struct om_op *op, int64_t token, int64_t ttl_ms, int64_t now)
{
    if (!op->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (!op->row || token > op->token)
        return answer(ST_UNKNOWN_TOKEN);
    if (op->locked)
        return answer(ST_BUSY);
    const struct om_attempt *a = find(op, token);
    if (token < op->token)
        return answer(a ? ST_TAKEN_OVER : ST_UNKNOWN_TOKEN);
    if (op->state != OM_RUNNING)
        return answer(lost(a) ? ST_EXPIRED : op->state == OM_CANCELLED ? ST_BROKEN : ST_RELEASED);
    if (op->deadline <= now)
        return answer(ST_EXPIRED);
    struct om_answer out = answer(ST_RENEWED);
    if (now + ttl_ms > op->deadline)
        op->deadline = now + ttl_ms;
    out.ttl_ms = op->deadline - now;
    return out;
}

static int owner_verdict(struct om_op *op, const struct om_finish *in, int64_t now)
{
    if (!op->open)
        return ST_NO_SUCH_NAMESPACE;
    if (!op->row)
        return ST_OP_NONE;
    if (op->locked)
        return ST_BUSY;
    if (in->token == op->token && op->state == OM_RUNNING)
        return op->deadline <= now ? ST_OP_NOT_HELD : in->call == OM_SENDING && op->sending ? ST_OP_DONE_AGAIN : ST_OP_DONE;
    const struct om_attempt *a = find(op, in->token);
    if (!a)
        return in->token < op->token ? ST_OP_STALE : ST_OP_NOT_HELD;
    if (in->call == OM_COMPLETE && a->outcome == 1)
        return strcmp(op->result, in->result) ? ST_OP_ILLEGAL : ST_OP_DONE_AGAIN;
    if ((in->call == OM_FAIL && a->outcome == 2 && a->error_class == in->error_class) ||
        (in->call == OM_MARK_UNKNOWN && a->outcome == 4 && a->error_class))
        return ST_OP_DONE_AGAIN;
    if (in->token < op->token)
        return ST_OP_STALE;
    return lost(a) ? ST_OP_NOT_HELD : ST_OP_ILLEGAL;
}

struct om_answer om_sending(struct om_op *op, int64_t token, int64_t now)
{
    struct om_answer out = answer(owner_verdict(op, &(struct om_finish){.token = token, .call = OM_SENDING}, now));
    if (!op->open || !op->row)
        return out;
    out.state = op->state;
    if (out.outcome != ST_OP_DONE && out.outcome != ST_OP_DONE_AGAIN)
        return out;
    out.remaining_ms = op->deadline - now;
    if (out.outcome == ST_OP_DONE) {
        op->sending = true;
        op->changed = find(op, token)->sending_at = now;
    }
    return out;
}

/* Where it goes from RUNNING, and when it is due. */
static int follows(const struct om_op *op, const struct om_finish *in, double jitter, int64_t now, int64_t *wait_ms, bool *spent)
{
    if (in->call == OM_COMPLETE)
        return OM_SUCCEEDED;
    if (in->call == OM_MARK_UNKNOWN || in->error_class == 4 || (in->error_class == 6 && op->sending))
        return OM_UNKNOWN;
    if (in->error_class == 3)
        return OM_FAILED;
    if (in->error_class == 5)
        return OM_REVIEW;
    int64_t most = op->policy->base_ms;
    for (int64_t i = 1; i < op->budget_attempts && most < op->policy->cap_ms; i++)
        most *= 2;
    most = most < op->policy->cap_ms ? most : op->policy->cap_ms;
    *wait_ms = in->error_class == 6 ? 0 : (int64_t)(jitter * (double)(most + 1));
    if (*wait_ms < in->retry_after_ms)
        *wait_ms = in->retry_after_ms;
    *spent = op->budget_attempts >= op->policy->max_attempts || now - op->since + *wait_ms > op->policy->max_elapsed_ms;
    return *spent ? OM_REVIEW : OM_PENDING;
}

static void end(struct om_op *op, const struct om_finish *in, int next, int64_t wait_ms, int64_t now)
{
    struct om_attempt *a = find(op, in->token);
    a->outcome = in->call == OM_MARK_UNKNOWN ? 4 : in->call;
    a->error_class = in->call == OM_FAIL ? in->error_class : in->call == OM_MARK_UNKNOWN ? 4 : 0;
    a->ended = op->changed = now;
    a->state_after = op->state = next;
    a->revision_after = ++op->revision;
    op->sending = false;
    op->deadline = next == OM_PENDING ? now + wait_ms : 0;
    if (next == OM_SUCCEEDED || next == OM_FAILED)
        copy(op->request_id, "");
    if (in->call != OM_MARK_UNKNOWN)
        op->error_class = a->error_class;
    copy(op->result, in->call == OM_COMPLETE ? in->result : "");
    copy(op->message, in->call == OM_COMPLETE ? "" : in->message);
}

struct om_answer om_finish(struct om_op *op, const struct om_finish *in, double jitter, int64_t now)
{
    struct om_answer out = answer(owner_verdict(op, in, now));
    if (!op->open || !op->row)
        return out;
    struct om_attempt *a = find(op, in->token);
    int64_t wait_ms = 0;
    out.attempt = op->attempts;
    if (out.outcome == ST_OP_DONE) {
        int next = follows(op, in, jitter, now, &wait_ms, &out.exhausted);
        end(op, in, next, wait_ms, now);
        out.due_ms = wait_ms * (op->state == OM_PENDING);
        out.after_retry = in->call == OM_COMPLETE && op->attempts > 1;
    } else if (a && (out.outcome == ST_OP_STALE || out.outcome == ST_OP_NOT_HELD)) {
        a->late_count++;
        a->late_call = in->call;
    }
    out.state = op->state;
    out.revision = op->revision;
    if (out.outcome == ST_OP_DONE_AGAIN) {
        out.state = a->state_after;
        out.revision = a->revision_after;
        if (op->state == OM_PENDING && a->token == op->token && op->deadline > now)
            out.due_ms = op->deadline - now;
    }
    return out;
}

struct om_answer om_record(struct om_op *op, const struct om_begin *in, const char *result, int64_t now)
{
    if (!op->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (op->row) {
        int outcome = verdict(op, in, now);
        return tell(op, outcome ? outcome : ST_OP_IN_PROGRESS, now);
    }
    make(op, in, now);
    op->state = OM_SUCCEEDED;
    op->attempts = 1;
    copy(op->result, result);
    return tell(op, ST_OP_DONE, now);
}

static int decided_state(const struct om_op *op, int call, int reconciled)
{
    static const int by_person[] = {0, OM_SUCCEEDED, OM_FAILED, OM_PENDING, OM_CANCELLED};
    if (call == OM_RECONCILE)
        return op->state == OM_UNKNOWN ? by_person[reconciled] : 0;
    return op->state != OM_PENDING && op->state != OM_REVIEW ? 0 : call == OM_RETRY ? OM_PENDING : OM_CANCELLED;
}

struct om_answer om_decide(struct om_op *op, int64_t revision, int call, int reconciled, const char *result, const char *actor,
                           int64_t now)
{
    char decision[sizeof(op->decided)];
    if (!op->open)
        return answer(ST_NO_SUCH_NAMESPACE);
    if (!op->row || op->locked)
        return answer(op->row ? ST_BUSY : ST_OP_NONE);
    if (om_sweep(op, now))
        op->revision--; /* it was seen as what it became */
    snprintf(decision, sizeof(decision), "%d %" PRId64 " %d %s", call, revision, reconciled, actor);
    struct om_answer out = answer(ST_OP_DONE);
    int next = decided_state(op, call, reconciled);
    if (!strcmp(op->decided, decision))
        out.outcome = ST_OP_DONE_AGAIN;
    else if (op->revision != revision)
        out.outcome = ST_OP_REVISION;
    else if (!next)
        out.outcome = op->state == OM_UNKNOWN ? ST_OP_UNKNOWN : ST_OP_ILLEGAL;
    if (out.outcome == ST_OP_DONE) {
        op->state = next;
        op->revision++;
        op->changed = now;
        op->deadline = next == OM_PENDING ? now : 0;
        if (next == OM_PENDING) {
            op->budget_attempts = 0;
            op->since = now;
        }
        if (next == OM_SUCCEEDED)
            copy(op->result, result);
        op->error_class = next == OM_SUCCEEDED ? 0 : next == OM_FAILED ? 3 : op->error_class;
        if (next != OM_PENDING)
            copy(op->message, next == OM_SUCCEEDED ? "" : "because");
        snprintf(op->decided, sizeof(op->decided), "%s", decision);
    }
    out.state = op->state;
    out.revision = op->revision;
    return out;
}

bool om_sweep(struct om_op *op, int64_t now)
{
    if (!op->row || op->locked || op->state != OM_RUNNING || op->deadline > now)
        return false;
    settle(op, now);
    return true;
}

int om_state_at(const struct om_op *op, int64_t now)
{
    bool gone = op->state == OM_RUNNING && op->deadline <= now;
    return gone && (op->sending || !op->policy->may_rerun) ? OM_UNKNOWN : op->state;
}
