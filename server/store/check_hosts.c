/*
 * check_hosts.c - see check_hosts.h. Thread: any, blocking.
 */
#include "store/check_hosts.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "store/resolve.h"
#include "store/sync.h"

enum { ANSWER_MS = 2000 };

/* A database that can be written to. */
struct writable {
    char host[128];
    char system[24], timeline[9];
};

/* One of a list of the DSN's, which may have one element for all; "" if there is none. */
static void element(const PQconninfoOption *options, const char *keyword, int at, char *out, size_t size)
{
    const char *list = "";
    for (; options->keyword; options++)
        if (strcmp(options->keyword, keyword) == 0 && options->val)
            list = options->val;
    for (; at > 0 && strchr(list, ','); at--)
        list = strchr(list, ',') + 1;
    snprintf(out, size, "%.*s", (int)strcspn(list, ","), list);
}

static PGconn *connect_to(const char *dsn, const PQconninfoOption *options, int at)
{
    char host[256], hostaddr[64], port[16];
    element(options, "host", at, host, sizeof(host));
    element(options, "hostaddr", at, hostaddr, sizeof(hostaddr));
    element(options, "port", at, port, sizeof(port));
    /* What is empty here is left to what comes before it: the DSN. */
    const char *const keywords[] = {"fallback_application_name", "dbname",          "host",       "hostaddr", "port",
                                    "target_session_attrs",      "connect_timeout", "gssencmode", NULL};
    const char *const values[] = {"holdfastd start-up", dsn, host, hostaddr, port, "any", "2", "disable", NULL};
    return PQconnectdbParams(keywords, values, 1);
}

/* True if it answered, and can be written to. */
static bool look(PGconn *conn, struct writable *out)
{
    struct st_problem ignored;
    if (PQstatus(conn) != CONNECTION_OK)
        return false;
    PGresult *r = st_sync_query(conn, st_sync_now() + ANSWER_MS, &ignored,
                                "SELECT c.system_identifier::text, CASE WHEN pg_is_in_recovery() THEN '' ELSE "
                                "left(pg_walfile_name(pg_current_wal_lsn()), 8) END FROM pg_control_system() c",
                                0, NULL);
    const bool writable = r && PQntuples(r) == 1 && PQgetvalue(r, 0, 1)[0];
    if (writable) {
        snprintf(out->host, sizeof(out->host), "%s", PQhost(conn));
        snprintf(out->system, sizeof(out->system), "%s", PQgetvalue(r, 0, 0));
        snprintf(out->timeline, sizeof(out->timeline), "%s", PQgetvalue(r, 0, 1));
    }
    PQclear(r);
    return writable;
}

bool st_check_hosts(const char *dsn, struct st_problem *problem)
{
    struct writable first = {""}, other;
    bool good = true;
    const int n = st_resolve_hosts(dsn);
    PQconninfoOption *options = n > 1 ? PQconninfoParse(dsn, NULL) : NULL;
    for (int i = 0; options && i < n && good; i++) {
        PGconn *conn = connect_to(dsn, options, i);
        if (!look(conn, &other)) {
            PQfinish(conn);
            continue;
        }
        PQfinish(conn);
        if (!first.host[0])
            first = other;
        good = strcmp(first.system, other.system) == 0 && strcmp(first.timeline, other.timeline) == 0;
    }
    if (!good)
        st_problem_set(problem,
                       "two hosts of the DSN can be written to and are not the same database: %s (timeline %s) and %s (timeline "
                       "%s): an old primary that came back after a fail-over would grant tokens again, to a second holder (P1, "
                       "P2): stop it, or make it a standby",
                       first.host, first.timeline, other.host, other.timeline);
    PQconninfoFree(options);
    return good;
}
