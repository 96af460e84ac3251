/*
 * kind_admin.c - see kind_io.h: the calls of operators, and of the server itself.
 */
#include "store/kind_io.h"
#include "store/rows.h"

/* ------------------------------------------------------------------------------------------------ operators' calls */

void st_build_break(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->resource);
    st_params_int8(params, item->in.brk.token_seen);
    st_params_text(params, item->in.brk.actor);
    st_params_text(params, item->in.brk.reason);
}

void st_read_break(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    item->out.brk.fence = st_get_int8(res, row, 1);
    item->out.brk.live = st_get_bool(res, row, 2);
    item->out.brk.pid = st_get_int4(res, row, 3);
    st_tell_next(call, st_get_text(res, row, 4), item->ns, item->resource);
}

void st_build_advance(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_int8(params, item->in.advance.at_least);
    st_params_text(params, item->in.advance.actor);
    st_params_text(params, item->in.advance.reason);
}

void st_read_advance(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.advance.floor = st_get_int8(res, row, 1);
}

/* ------------------------------------------------------------------------------------------------ namespaces, audit */

static void policy(struct st_params *params, int64_t value)
{
    if (value == ST_UNSET)
        st_params_null(params);
    else
        st_params_int8(params, value);
}

void st_build_namespace(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    const struct st_policy *wanted = &item->in.namespaces.policy;
    st_params_text(params, item->ns);
    policy(params, wanted->lock_delay_ms);
    policy(params, wanted->min_ttl_ms);
    policy(params, wanted->max_ttl_ms);
    if (wanted->audit_writes == ST_UNSET)
        st_params_null(params);
    else
        st_params_bool(params, wanted->audit_writes != 0);
    policy(params, wanted->max_leases);
    policy(params, wanted->max_waiters);
    policy(params, wanted->max_value_bytes);
    policy(params, wanted->audit_keep_days);
    st_params_text(params, item->in.namespaces.actor);
}

static void read_namespace_row(const PGresult *res, int row, struct st_namespace_row *out)
{
    out->name = st_get_text(res, row, 1);
    out->policy.lock_delay_ms = st_get_int8(res, row, 2);
    out->policy.min_ttl_ms = st_get_int8(res, row, 3);
    out->policy.max_ttl_ms = st_get_int8(res, row, 4);
    out->policy.audit_writes = st_get_bool(res, row, 5);
    out->policy.max_leases = st_get_int8(res, row, 6);
    out->policy.max_waiters = st_get_int8(res, row, 7);
    out->policy.max_value_bytes = st_get_int8(res, row, 8);
    out->policy.audit_keep_days = st_get_int8(res, row, 9);
    out->fence_floor = st_get_int8(res, row, 10);
    out->retired = st_get_bool(res, row, 11);
}

void st_read_namespace(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    struct st_namespace_row *out = st_call_alloc(call, sizeof(*out));
    item->out.namespaces.rows = out;
    item->out.namespaces.n = out ? 1 : 0;
    item->out.namespaces.more = false;
    if (out)
        read_namespace_row(res, row, out);
    else
        st_rows_no_memory(item);
}

void st_build_list_namespaces(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->in.namespaces.after ? item->in.namespaces.after : "");
    st_params_int4(params, st_page(item->in.namespaces.max));
}

bool st_read_list_namespaces(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    struct st_namespace_row *rows =
        st_list_rows(res, item, call, item->in.namespaces.max, sizeof(*rows), &n, &item->out.namespaces.more);
    for (int i = 0; i < (int)n; i++)
        read_namespace_row(res, i, &rows[i]);
    item->out.namespaces.rows = rows;
    item->out.namespaces.n = n;
    return true;
}

void st_build_audit(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.audit.resource ? item->in.audit.resource : "");
    st_params_text(params, item->in.audit.operation ? item->in.audit.operation : "");
    st_params_int8(params, item->in.audit.after_id);
    st_params_int4(params, st_page(item->in.audit.max));
}

bool st_read_audit(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    struct st_audit_row *rows = st_list_rows(res, item, call, item->in.audit.max, sizeof(*rows), &n, &item->out.audit.more);
    for (int i = 0; i < (int)n; i++) {
        rows[i].id = st_get_int8(res, i, 1);
        rows[i].at_unix_ms = st_get_int8(res, i, 2);
        rows[i].kind = st_get_text(res, i, 3);
        rows[i].resource = st_get_text(res, i, 4);
        rows[i].token = st_get_int8(res, i, 5);
        rows[i].prior = st_get_int8(res, i, 6);
        rows[i].actor = st_get_text(res, i, 7);
        rows[i].detail = st_get_text(res, i, 8);
        rows[i].operation = st_get_text(res, i, 9);
    }
    item->out.audit.rows = rows;
    item->out.audit.n = n;
    return true;
}

/* ------------------------------------------------------------------------------------------------ the server itself */

void st_build_nothing(struct st_params *params, const struct st_call *call)
{
    (void)params;
    (void)call;
}

void st_read_stats(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.stats.leases_live = st_get_int8(res, row, 1);
    item->out.stats.resources = st_get_int8(res, row, 2);
    item->out.stats.schema_version = st_get_int8(res, row, 3);
}
