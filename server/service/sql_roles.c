/*
 * sql_roles.c - AdminService: MapSqlRole, UnmapSqlRole, ListSqlRoles.
 */
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "proto/c/wire.h"
#include "service/check.h"
#include "service/operation.h"

enum { ROLE_MAX_BYTES = 63 }; /* NAMEDATALEN - 1 */

static bool check_role(const char *role, struct hp_status *status)
{
    if (!hp_check_name("role", role, status))
        return false;
    if (strlen(role) <= ROLE_MAX_BYTES)
        return true;
    hp_status_bad_field(status, HP_R_LIMIT, "role", role, strlen(role), "1 to 63 bytes");
    return false;
}

/* The item is on its way, or the call has ended. */
static void submit(struct svc_call *sc, enum st_kind kind, const char *ns, const char *role, const char *actor,
                   void (*finish)(struct svc_call *sc))
{
    struct hp_status status;
    if (!hp_check_name("namespace", ns, &status) || !check_role(role, &status) || !hp_check_name("actor", actor, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, kind, ns);
    if (!item)
        return;
    item->in.sql_roles = (struct st_sql_roles){.role = role, .actor = actor};
    svc_submit(sc, SVC_WHOLE, finish);
}

static void finish_map(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__MapSqlRoleResponse response = HOLDFAST__V1__MAP_SQL_ROLE_RESPONSE__INIT;
    const char *role = item->in.sql_roles.role;
    struct hp_status status;
    if (svc_failed(sc))
        return;
    if (item->outcome == ST_FOUND) {
        svc_reply(sc, &response.base);
    } else if (item->outcome == ST_OP_BAD_ACTION) {
        hp_status_bad_field(&status, HP_R_MALFORMED, "role", role, strlen(role), item->out.sql_roles.message);
        svc_fail(sc, &status);
    } else {
        svc_fail_outcome(sc, item);
    }
}

void svc_map_sql_role(struct svc_call *sc)
{
    const Holdfast__V1__MapSqlRoleRequest *req = sc->request;
    submit(sc, ST_MAP_ROLE, req->namespace_, req->role, req->actor, finish_map);
}

static void finish_unmap(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    Holdfast__V1__UnmapSqlRoleResponse response = HOLDFAST__V1__UNMAP_SQL_ROLE_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.was_mapped = item->out.sql_roles.was_mapped;
    svc_reply(sc, &response.base);
}

void svc_unmap_sql_role(struct svc_call *sc)
{
    const Holdfast__V1__UnmapSqlRoleRequest *req = sc->request;
    submit(sc, ST_UNMAP_ROLE, req->namespace_, req->role, req->actor, finish_unmap);
}

static void finish_list(struct svc_call *sc)
{
    const struct st_item *item = &sc->items[0];
    const struct st_sql_roles_told *told = &item->out.sql_roles;
    Holdfast__V1__ListSqlRolesResponse response = HOLDFAST__V1__LIST_SQL_ROLES_RESPONSE__INIT;
    if (svc_failed(sc))
        return;
    if (item->outcome != ST_FOUND) {
        svc_fail_outcome(sc, item);
        return;
    }
    response.roles = hp_alloc_array(sc->arena, told->n, sizeof(*response.roles));
    char *token = NULL;
    if (told->more && told->n)
        token = svc_page_token(sc->arena, SVC_PAGE_SQL_ROLES, told->rows[told->n - 1]);
    if (!response.roles || (told->more && !token)) {
        svc_no_memory(sc);
        return;
    }
    for (size_t i = 0; i < told->n; i++)
        response.roles[i] = svc_unconst(told->rows[i]);
    response.n_roles = told->n;
    if (token)
        response.next_page_token = token;
    svc_reply(sc, &response.base);
}

void svc_list_sql_roles(struct svc_call *sc)
{
    const Holdfast__V1__ListSqlRolesRequest *req = sc->request;
    struct hp_status status;
    const char *after;
    int64_t max;
    if (!hp_check_name("namespace", req->namespace_, &status) || !svc_check_page_size(req->page_size, &max, &status) ||
        !svc_page_after(sc->arena, SVC_PAGE_SQL_ROLES, req->page_token, &after, &status)) {
        svc_fail(sc, &status);
        return;
    }
    struct st_item *item = svc_items(sc, 1, ST_LIST_ROLES, req->namespace_);
    if (!item)
        return;
    item->in.sql_roles = (struct st_sql_roles){.after = after, .max = max};
    svc_submit(sc, SVC_WHOLE, finish_list);
}
