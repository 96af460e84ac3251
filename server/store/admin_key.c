/*
 * admin_key.c - see admin_key.h.
 */
#include "store/admin_key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/outcome.h"
#include "store/principals.h"
#include "store/sync.h"

enum { CONNECT_MS = 10000, QUERY_MS = 10000 };

static const char create_sql[] = "SELECT outcome FROM holdfast.create_principal($1, $2, $3::bytea, NULL, 0, 0, 0, "
                                 "ARRAY['4', '', '', ''], 'console')";

static bool created(PGconn *conn, const char *const params[3], struct st_problem *problem)
{
    PGresult *res = st_sync_query(conn, st_sync_now() + QUERY_MS, problem, create_sql, 3, params);
    if (!res)
        return false;
    int outcome = PQntuples(res) == 1 ? atoi(PQgetvalue(res, 0, 0)) : 0;
    PQclear(res);
    if (outcome == ST_FOUND)
        return true;
    if (outcome == ST_AUTH_TAKEN)
        st_problem_set(problem, "there is a key named \"%s\" already; revoke it, or take another name", params[1]);
    else if (outcome == ST_AUTH_FULL)
        st_problem_set(problem, "there are as many keys as servers know; revoke some");
    else
        st_problem_set(problem, "the database answered with outcome %d", outcome);
    return false;
}

bool st_create_admin_key(const char *dsn, const char *id, const char *name, struct st_bytes secret_hash, struct st_problem *problem)
{
    char hex[2 + 2 * ST_HASH_BYTES + 1] = "\\x";
    const char *const params[3] = {id, name, hex};

    if (secret_hash.len != ST_HASH_BYTES) {
        st_problem_set(problem, "the hash of a secret has %d bytes", ST_HASH_BYTES);
        return false;
    }
    for (size_t i = 0; i < secret_hash.len; i++)
        snprintf(hex + 2 + 2 * i, 3, "%02x", secret_hash.data[i]);
    PGconn *conn = st_sync_connect(dsn, CONNECT_MS, problem);
    if (!conn)
        return false;
    bool ok = created(conn, params, problem);
    PQfinish(conn);
    return ok;
}
