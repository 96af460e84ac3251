/*
 * admin_key.h - the first key, made on the console: by whoever may connect to the database, before any server serves it.
 */
#ifndef HOLDFAST_STORE_ADMIN_KEY_H
#define HOLDFAST_STORE_ADMIN_KEY_H

#include <stdbool.h>

#include "store/bytes.h"
#include "store/problem.h"

/*
 * There is an API key with this id and name, whose secret has this SHA-256 (ST_HASH_BYTES of them), an admin in all namespaces that
 * does not expire; servers on the database know it within two seconds. The schema must have been brought up before (migrate.h).
 * False: `problem` says why (another key has the name, the database is out of reach), and there is no such key, or it is not known
 * whether there is. Blocks: up to 10 s to connect and 10 s for the statement.
 */
bool st_create_admin_key(const char *dsn, const char *id, const char *name, struct st_bytes secret_hash, struct st_problem *problem)
    __attribute__((warn_unused_result));

#endif
