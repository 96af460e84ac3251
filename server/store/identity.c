/*
 * identity.c - which database a session is on, and that the store never goes back to one of the past.
 *
 * After a fail-over the old primary may come back, by mistake, and can be written to like the new one. Its own record
 * (holdfast.identity) says that all is well, for it is of the past too; but the tokens of the present are unknown there. So the
 * store remembers what it has served: of one system it never serves an older timeline again, and once a newer one serves, every
 * session on another one is given up. A server that is started anew remembers nothing: the old primary must be kept down.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/engine.h"

/* As holdfast.attach() sees it. */
const char st_identity_sql[] = "SELECT c.system_identifier::text, pg_catalog.left(pg_catalog.pg_walfile_name("
                               "pg_catalog.pg_current_wal_lsn()), 8) FROM pg_catalog.pg_control_system() c";

static bool same_identity(const struct st_identity *a, const struct st_identity *b)
{
    return strcmp(a->system, b->system) == 0 && strcmp(a->timeline, b->timeline) == 0;
}

bool st_identity_read(struct st_conn *conn, const PGresult *res, char *why, size_t why_size)
{
    const struct st_identity *served = &conn->store->identity;
    if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1 || PQnfields(res) != 2) {
        snprintf(why, why_size, "%s", PQresultErrorMessage(res));
        return false;
    }
    snprintf(conn->identity.system, sizeof(conn->identity.system), "%s", PQgetvalue(res, 0, 0));
    snprintf(conn->identity.timeline, sizeof(conn->identity.timeline), "%s", PQgetvalue(res, 0, 1));
    if (strcmp(conn->identity.system, served->system) != 0 || strcmp(conn->identity.timeline, served->timeline) >= 0)
        return true;
    snprintf(why, why_size, "an old primary can be written to again: %s is on timeline %s, and %s was served before; stop it",
             PQhost(conn->pg), conn->identity.timeline, served->timeline);
    st_conn_leave_host(conn);
    return false;
}

static void leave_old(struct st_conn *conn, const struct st_identity *served)
{
    if ((conn->state == ST_CONN_SERVING || conn->state == ST_CONN_SETTING_UP) && conn->identity.system[0] &&
        !same_identity(&conn->identity, served))
        st_conn_retry(conn, "the database has failed over");
}

void st_identity_note(struct st_conn *conn)
{
    struct st_store *store = conn->store;
    const struct st_identity before = store->identity;
    if (same_identity(&before, &conn->identity))
        return;
    store->identity = conn->identity;
    if (!before.system[0])
        return;
    log_warn("store.failed_over", log_str("system", before.system), log_str("timeline", before.timeline),
             log_str("to_system", conn->identity.system), log_str("to_timeline", conn->identity.timeline),
             log_str("host", PQhost(conn->pg)));
    for (int i = 0; i < store->n_conns; i++)
        leave_old(&store->conns[i], &conn->identity);
    leave_old(&store->listener.conn, &conn->identity);
    leave_old(&store->errands.conn, &conn->identity);
    leave_old(&store->following.conn, &conn->identity);
}
