/*
 * kind_operators.c - see kind_io.h: what is asked of operations one call a statement: reading them, deciding about them, the
 * policies of their types, and actions.
 */
#include "store/kind_io.h"
#include "store/rows.h"

static const char *or_none(const char *text)
{
    return text ? text : "";
}

/* ------------------------------------------------------------------------------------------------ operations as they are */

/* Columns from `col` on: key … priority. */
static void read_op_row(const PGresult *res, int row, int col, struct st_op_row *out)
{
    *out = (struct st_op_row){
        .key = st_get_text(res, row, col),
        .type = st_get_text(res, row, col + 1),
        .fingerprint = st_get_bytes(res, row, col + 2),
        .state = st_get_int2(res, row, col + 3),
        .revision = st_get_int4(res, row, col + 4),
        .attempts = st_get_int4(res, row, col + 5),
        .token = st_get_int8(res, row, col + 6),
        .holder = st_get_text(res, row, col + 7),
        .sending = st_get_bool(res, row, col + 8),
        .remaining_ms = st_get_int8(res, row, col + 9),
        .created_unix_ms = st_get_int8(res, row, col + 10),
        .changed_unix_ms = st_get_int8(res, row, col + 11),
        .error_class = st_get_int2(res, row, col + 12),
        .message = st_get_text(res, row, col + 13),
        .sqlstate = st_get_text(res, row, col + 14),
        .compensates = st_get_text(res, row, col + 15),
        .compensated_by = st_get_text(res, row, col + 16),
        .priority = st_get_int4(res, row, col + 17),
        .result_ref = "",
    };
}

void st_read_op_get(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    item->out.ops = (struct st_op_rows){NULL, 0, false};
    if (st_read_later(item, st_get_int8(res, row, 8)) || item->outcome != ST_FOUND)
        return;
    struct st_op_row *out = st_call_alloc(call, sizeof(*out));
    if (!out) {
        st_rows_no_memory(item);
        return;
    }
    read_op_row(res, row, 2, out);
    out->result = st_get_bytes(res, row, 20);
    out->result_ref = st_get_text(res, row, 21);
    out->payload = st_get_bytes(res, row, 22);
    call->value_bytes += out->result.len + out->payload.len;
    item->out.ops = (struct st_op_rows){out, 1, false};
}

void st_build_op_list(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_int2(params, (int16_t)item->in.op_list.state);
    st_params_text(params, or_none(item->in.op_list.type));
    st_params_text(params, or_none(item->in.op_list.prefix));
    st_params_int8(params, item->in.op_list.older_than_ms);
    st_params_text(params, or_none(item->in.op_list.after));
    st_params_int4(params, st_page(item->in.op_list.max));
}

bool st_read_op_list(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    struct st_op_row *rows = st_list_rows(res, item, call, item->in.op_list.max, sizeof(*rows), &n, &more);
    for (int i = 0; i < (int)n; i++)
        read_op_row(res, i, 1, &rows[i]);
    item->out.ops = (struct st_op_rows){rows, n, more};
    return true;
}

void st_build_op_attempts(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->resource);
    st_params_int4(params, item->in.op_attempts.after > INT32_MAX ? INT32_MAX : (int32_t)item->in.op_attempts.after);
    st_params_int4(params, st_page(item->in.op_attempts.max));
}

static void read_attempt_row(const PGresult *res, int row, struct st_attempt_row *out)
{
    *out = (struct st_attempt_row){
        .attempt = st_get_int4(res, row, 1),
        .execution_id = st_get_text(res, row, 2),
        .token = st_get_int8(res, row, 3),
        .trigger = st_get_int2(res, row, 4),
        .holder = st_get_text(res, row, 5),
        .started_unix_ms = st_get_int8(res, row, 6),
        .ended_unix_ms = st_get_int8(res, row, 7),
        .sending_unix_ms = st_get_int8(res, row, 8),
        .outcome = st_get_int2(res, row, 9),
        .error_class = st_get_int2(res, row, 10),
        .message = st_get_text(res, row, 11),
        .sqlstate = st_get_text(res, row, 12),
        .late_unix_ms = st_get_int8(res, row, 13),
        .late_call = st_get_text(res, row, 14),
        .late_result = st_get_bytes(res, row, 15),
        .late_message = st_get_text(res, row, 16),
        .late_count = st_get_int4(res, row, 17),
    };
}

bool st_read_op_attempts(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    struct st_attempt_row *rows = st_list_rows(res, item, call, item->in.op_attempts.max, sizeof(*rows), &n, &more);
    if (item->outcome == ST_FOUND && PQntuples(res) > 0)
        item->outcome = (enum st_outcome)st_get_int2(res, 0, 0);
    /* A row without an attempt says that there are none; the last may only say that there are more. */
    if (n > 0 && st_get_int4(res, 0, 1) == 0)
        n = 0;
    if (n > 1 && st_get_int2(res, (int)n - 1, 0) == ST_VALUE_LATER) {
        n--;
        more = true;
    }
    for (int i = 0; i < (int)n; i++)
        read_attempt_row(res, i, &rows[i]);
    item->out.attempts = (struct st_attempts_told){rows, n, more};
    return true;
}

bool st_read_op_stats(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    struct st_op_state_row *rows = st_list_rows(res, item, call, INT64_MAX, sizeof(*rows), &n, &more);
    for (int i = 0; i < (int)n; i++)
        rows[i] = (struct st_op_state_row){st_get_text(res, i, 1), st_get_int8(res, i, 2), st_get_int8(res, i, 3)};
    item->out.op_states = (struct st_op_states_told){rows, n};
    return true;
}

/* ------------------------------------------------------------------------------------------------ decisions */

/* No revision is above SQL's int; one that is, is another. */
static int32_t revision(int64_t asked)
{
    return asked > INT32_MAX || asked < 0 ? -1 : (int32_t)asked;
}

void st_build_op_decide(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->resource);
    st_params_int4(params, revision(item->in.op_decide.revision));
    st_params_int2(params, (int16_t)item->in.op_decide.decision);
    st_params_int2(params, (int16_t)item->in.op_decide.reconciled);
    st_params_bytes(params, item->in.op_decide.result);
    st_params_text(params, or_none(item->in.op_decide.result_ref));
    st_params_text(params, item->in.op_decide.actor);
    st_params_text(params, item->in.op_decide.reason);
}

void st_read_op_decide(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.op_moved = (struct st_op_moved){
        .state = st_get_int2(res, row, 1), .revision = st_get_int4(res, row, 2), .message = st_get_text(res, row, 3), .key = ""};
}

void st_build_op_compensate(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->resource);
    st_params_text(params, item->in.op_compensate.type);
    st_params_bytes(params, item->in.op_compensate.payload);
    st_params_text(params, item->in.op_compensate.actor);
    st_params_text(params, item->in.op_compensate.reason);
}

void st_read_op_compensate(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.op_moved = (struct st_op_moved){.key = st_get_text(res, row, 1),
                                              .state = st_get_int2(res, row, 2),
                                              .revision = st_get_int4(res, row, 3),
                                              .fingerprint = st_get_bytes(res, row, 4),
                                              .message = ""};
}

/* ------------------------------------------------------------------------------------------------ policies */

static void build_given(struct st_params *params, int64_t value)
{
    if (value == ST_UNSET)
        st_params_null(params);
    else
        st_params_int8(params, value);
}

void st_build_op_policy(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    const struct st_op_policy *policy = &item->in.op_policies.policy;
    st_params_text(params, item->ns);
    st_params_text(params, or_none(item->in.op_policies.type));
    build_given(params, policy->max_attempts);
    build_given(params, policy->max_elapsed_ms);
    build_given(params, policy->base_ms);
    build_given(params, policy->cap_ms);
    st_params_int2(params, (int16_t)policy->on_lost);
    build_given(params, policy->retention_ms);
    st_params_text(params, item->in.op_policies.actor);
}

static void read_policy_row(const PGresult *res, int row, struct st_op_policy_row *out)
{
    out->type = st_get_text(res, row, 1);
    out->policy = (struct st_op_policy){
        .max_attempts = st_get_int8(res, row, 2),
        .max_elapsed_ms = st_get_int8(res, row, 3),
        .base_ms = st_get_int8(res, row, 4),
        .cap_ms = st_get_int8(res, row, 5),
        .on_lost = st_get_int2(res, row, 6),
        .retention_ms = st_get_int8(res, row, 7),
    };
}

void st_read_op_policy(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    struct st_op_policy_row *out = st_call_alloc(call, sizeof(*out));
    item->out.op_policies = (struct st_op_policies_told){out, out ? 1 : 0, false, st_get_int8(res, row, 8)};
    if (out)
        read_policy_row(res, row, out);
    else
        st_rows_no_memory(item);
}

void st_build_list_op_policies(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.op_policies.after);
    st_params_int4(params, st_page(item->in.op_policies.max));
}

bool st_read_list_op_policies(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    struct st_op_policy_row *rows = st_list_rows(res, item, call, item->in.op_policies.max, sizeof(*rows), &n, &more);
    for (int i = 0; i < (int)n; i++)
        read_policy_row(res, i, &rows[i]);
    item->out.op_policies = (struct st_op_policies_told){rows, n, more, 0};
    return true;
}

/* ------------------------------------------------------------------------------------------------ actions */

void st_build_register_action(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.actions.name);
    st_params_text(params, item->in.actions.function);
    st_params_int8(params, item->in.actions.timeout_ms);
    st_params_text(params, item->in.actions.actor);
}

static void read_action_row(const PGresult *res, int row, struct st_action_row *out)
{
    *out = (struct st_action_row){st_get_text(res, row, 1), st_get_text(res, row, 2), st_get_text(res, row, 3),
                                  st_get_int8(res, row, 4)};
}

void st_read_register_action(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    struct st_action_row *out = st_call_alloc(call, sizeof(*out));
    item->out.actions = (struct st_actions_told){out, out ? 1 : 0, false, st_get_text(res, row, 5)};
    if (out)
        read_action_row(res, row, out);
    else
        st_rows_no_memory(item);
}

void st_build_remove_action(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.actions.name);
    st_params_text(params, item->in.actions.actor);
}

void st_read_outcome(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)res;
    (void)row;
    (void)item;
    (void)call;
}

void st_build_list_actions(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, or_none(item->in.actions.after));
    st_params_int4(params, st_page(item->in.actions.max));
}

bool st_read_list_actions(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    struct st_action_row *rows = st_list_rows(res, item, call, item->in.actions.max, sizeof(*rows), &n, &more);
    for (int i = 0; i < (int)n; i++)
        read_action_row(res, i, &rows[i]);
    item->out.actions = (struct st_actions_told){rows, n, more, ""};
    return true;
}
