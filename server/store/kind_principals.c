/*
 * kind_principals.c - see kind_io.h: keys and certificates, what was refused, and SQL roles.
 *
 * Grants travel as one array of texts, four for each (schema/functions/56_principals.sql).
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/kind_io.h"
#include "store/rows.h"

enum { GRANT_TEXTS = 4 };

/* ------------------------------------------------------------------------------------------------ grants */

static void build_grants(struct st_params *params, const struct st_grant *grants, size_t n)
{
    char role[12];
    st_params_array(params, ST_OID_TEXT, n * GRANT_TEXTS);
    for (size_t i = 0; i < n; i++) {
        snprintf(role, sizeof(role), "%d", grants[i].role);
        st_element_text(params, role);
        st_element_text(params, grants[i].ns);
        st_element_text(params, grants[i].resources);
        st_element_text(params, grants[i].operations);
    }
}

/* False: no memory. */
static bool read_grants(const PGresult *res, int row, int col, struct st_principal_row *out, struct st_call *call)
{
    const char *const *texts;
    size_t n;
    out->grants = NULL;
    out->n_grants = 0;
    if (!st_read_texts(res, row, col, call, &texts, &n))
        return false;
    n /= GRANT_TEXTS;
    if (n > ST_GRANTS_MAX)
        n = ST_GRANTS_MAX;
    struct st_grant *grants = n ? st_call_alloc(call, n * sizeof(*grants)) : NULL;
    if (n && !grants)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *const *at = texts + i * GRANT_TEXTS;
        grants[i] = (struct st_grant){.role = atoi(at[0]), .ns = at[1], .resources = at[2], .operations = at[3]};
    }
    out->grants = grants;
    out->n_grants = n;
    return true;
}

/* ------------------------------------------------------------------------------------------------ keys */

static void build_given(struct st_params *params, int64_t value)
{
    if (value == ST_UNSET)
        st_params_null(params);
    else
        st_params_int8(params, value);
}

void st_build_create_principal(struct st_params *params, const struct st_call *call)
{
    const struct st_principals *in = &call->items[0]->in.principals;
    st_params_text(params, in->id);
    st_params_text(params, in->name);
    st_params_bytes(params, in->secret_hash);
    st_params_text(params, in->certificate);
    st_params_int8(params, in->expires_in_ms);
    st_params_int8(params, in->rate_per_s);
    st_params_int8(params, in->rate_burst);
    build_grants(params, in->grants, in->n_grants);
    st_params_text(params, in->actor);
}

void st_build_set_principal(struct st_params *params, const struct st_call *call)
{
    const struct st_principals *in = &call->items[0]->in.principals;
    st_params_text(params, in->id);
    st_params_int8(params, in->version);
    if (in->n_grants)
        build_grants(params, in->grants, in->n_grants);
    else
        st_params_null(params);
    build_given(params, in->expires_in_ms);
    build_given(params, in->rate_per_s);
    build_given(params, in->rate_burst);
    st_params_text(params, in->actor);
}

void st_build_revoke_principal(struct st_params *params, const struct st_call *call)
{
    const struct st_principals *in = &call->items[0]->in.principals;
    st_params_text(params, in->id);
    st_params_int8(params, in->version);
    st_params_text(params, in->actor);
    st_params_text(params, in->reason ? in->reason : "");
}

static bool read_principal_row(const PGresult *res, int row, struct st_principal_row *out, struct st_call *call)
{
    out->id = st_get_text(res, row, 1);
    out->name = st_get_text(res, row, 2);
    out->certificate = st_get_text(res, row, 3);
    out->created_unix_ms = st_get_int8(res, row, 4);
    out->created_by = st_get_text(res, row, 5);
    out->expires_unix_ms = st_get_int8(res, row, 6);
    out->revoked_unix_ms = st_get_int8(res, row, 7);
    out->revoked_by = st_get_text(res, row, 8);
    out->last_used_unix_ms = st_get_int8(res, row, 9);
    out->rate_per_s = st_get_int8(res, row, 10);
    out->rate_burst = st_get_int8(res, row, 11);
    out->version = st_get_int8(res, row, 12);
    return read_grants(res, row, 13, out, call);
}

void st_read_principal(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    item->out.principals = (struct st_principals_told){0};
    if (item->outcome != ST_FOUND)
        return;
    struct st_principal_row *out = st_call_alloc(call, sizeof(*out));
    if (!out || !read_principal_row(res, row, out, call)) {
        st_rows_no_memory(item);
        return;
    }
    item->out.principals.rows = out;
    item->out.principals.n = 1;
}

void st_build_list_principals(struct st_params *params, const struct st_call *call)
{
    const struct st_principals *in = &call->items[0]->in.principals;
    st_params_text(params, in->after ? in->after : "");
    st_params_bool(params, in->revoked);
    st_params_int4(params, st_page(in->max));
}

bool st_read_list_principals(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more, ok = true;
    struct st_principal_row *rows = st_list_rows(res, item, call, item->in.principals.max, sizeof(*rows), &n, &more);
    for (size_t i = 0; ok && i < n; i++)
        ok = read_principal_row(res, (int)i, &rows[i], call);
    if (!ok)
        st_rows_no_memory(item);
    item->out.principals = (struct st_principals_told){rows, n, more};
    return true;
}

/* ------------------------------------------------------------------------------------------------ what servers know and see */

void st_build_auth_changes(struct st_params *params, const struct st_call *call)
{
    const struct st_auth_ask *in = &call->items[0]->in.auth_ask;
    st_params_text(params, in->epoch);
    st_params_int8(params, in->after);
    st_params_int4(params, st_page(in->max));
}

static bool read_auth_row(const PGresult *res, int row, struct st_auth_row *out, struct st_call *call)
{
    out->principal.id = st_get_text(res, row, 6);
    out->principal.name = st_get_text(res, row, 7);
    out->secret_hash = st_get_bytes(res, row, 8);
    out->principal.certificate = st_get_text(res, row, 9);
    out->principal.expires_unix_ms = st_get_int8(res, row, 10);
    out->live = st_get_bool(res, row, 11);
    out->principal.rate_per_s = st_get_int8(res, row, 12);
    out->principal.rate_burst = st_get_int8(res, row, 13);
    out->principal.version = st_get_int8(res, row, 14);
    return read_grants(res, row, 15, &out->principal, call);
}

bool st_read_auth_changes(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n = (size_t)PQntuples(res);
    struct st_auth_told *told = &item->out.auth;
    if (n == 0)
        return false;
    *told = (struct st_auth_told){.epoch = st_get_text(res, 0, 1),
                                  .known = st_get_int8(res, 0, 2),
                                  .restarted = st_get_bool(res, 0, 3),
                                  .more = st_get_bool(res, 0, 4),
                                  .now_unix_ms = st_get_int8(res, 0, 5)};
    item->outcome = ST_FOUND;
    if (!*st_get_text(res, 0, 6))
        n = 0; /* the one row that there always is */
    struct st_auth_row *rows = n ? st_call_alloc(call, n * sizeof(*rows)) : NULL;
    bool ok = !n || rows;
    for (size_t i = 0; ok && i < n; i++)
        ok = read_auth_row(res, (int)i, &rows[i], call);
    if (!ok)
        st_rows_no_memory(item);
    told->rows = rows;
    told->n = ok ? n : 0;
    return true;
}

/* One array parameter of a text of each denial. */
#define BUILD_DENIALS(member)                                                                                                      \
    do {                                                                                                                           \
        st_params_array(params, ST_OID_TEXT, in->n_denials);                                                                       \
        for (size_t i = 0; i < in->n_denials; i++)                                                                                 \
            st_element_text(params, in->denials[i].member);                                                                        \
    } while (0)

void st_build_auth_note(struct st_params *params, const struct st_call *call)
{
    const struct st_auth_note *in = &call->items[0]->in.auth_note;
    st_params_array(params, ST_OID_TEXT, in->n_used);
    for (size_t i = 0; i < in->n_used; i++)
        st_element_text(params, in->used[i]);
    st_params_array(params, ST_OID_INT8, in->n_used);
    for (size_t i = 0; i < in->n_used; i++)
        st_element_int8(params, in->ago_ms[i]);
    BUILD_DENIALS(principal);
    BUILD_DENIALS(method);
    BUILD_DENIALS(reason);
    st_params_array(params, ST_OID_INT8, in->n_denials);
    for (size_t i = 0; i < in->n_denials; i++)
        st_element_int8(params, in->denials[i].count);
}

void st_build_list_denials(struct st_params *params, const struct st_call *call)
{
    st_params_int8(params, call->items[0]->in.denials.after_id);
    st_params_int4(params, st_page(call->items[0]->in.denials.max));
}

bool st_read_list_denials(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    struct st_denial_row *rows = st_list_rows(res, item, call, item->in.denials.max, sizeof(*rows), &n, &more);
    for (int i = 0; i < (int)n; i++)
        rows[i] = (struct st_denial_row){.id = st_get_int8(res, i, 1),
                                         .minute_unix_ms = st_get_int8(res, i, 2),
                                         .principal = st_get_text(res, i, 3),
                                         .name = st_get_text(res, i, 4),
                                         .method = st_get_text(res, i, 5),
                                         .reason = st_get_text(res, i, 6),
                                         .count = st_get_int8(res, i, 7)};
    item->out.denials = (struct st_denials_told){rows, n, more};
    return true;
}

/* ------------------------------------------------------------------------------------------------ SQL roles */

void st_build_sql_role(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.sql_roles.role);
    st_params_text(params, item->in.sql_roles.actor);
}

void st_read_map_role(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.sql_roles = (struct st_sql_roles_told){.message = st_get_text(res, row, 1)};
}

void st_read_unmap_role(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.sql_roles = (struct st_sql_roles_told){.was_mapped = st_get_bool(res, row, 1)};
}

void st_build_list_roles(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.sql_roles.after ? item->in.sql_roles.after : "");
    st_params_int4(params, st_page(item->in.sql_roles.max));
}

bool st_read_list_roles(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    bool more;
    const char **rows = st_list_rows(res, item, call, item->in.sql_roles.max, sizeof(*rows), &n, &more);
    for (int i = 0; i < (int)n; i++)
        rows[i] = st_get_text(res, i, 1);
    item->out.sql_roles = (struct st_sql_roles_told){.rows = rows, .n = n, .more = more};
    return true;
}
