/*
 * migrate.h - brings the schema `holdfast` of a database to what this binary knows, or refuses to touch it.
 *
 * Runs before anything is served; blocks. Servers that start together take turns by an advisory lock. Each migration is one
 * transaction that ends with its row in holdfast.migration; so after a crash at any point the next start goes on where it
 * stopped. A database that newer servers have migrated is used as it is, as long as each of its newer migrations says that
 * binaries of our version still work (compatible_from).
 */
#ifndef HOLDFAST_STORE_MIGRATE_H
#define HOLDFAST_STORE_MIGRATE_H

#include <stdbool.h>
#include <stddef.h>

#include "schema/schema.h"
#include "store/problem.h"

/* What a binary knows. Tests bring their own. */
struct st_migrations {
    const struct hf_migration *list; /* version 1, 2, … n */
    size_t n;
    const char *functions_sql;
    const char *functions_hash;
};

enum st_migrate_status {
    ST_MIGRATE_OK,
    ST_MIGRATE_REFUSED,    /* the schema is not one this binary may work with; nothing was changed */
    ST_MIGRATE_FAILED,     /* PostgreSQL was out of reach or refused a statement; what had been migrated before stays */
    ST_MIGRATE_INTERRUPTED /* as asked; the same */
};

struct st_migrate_report {
    int version_before; /* 0 = there was no schema */
    int version;        /* what the database has now: ours, or a newer compatible one */
    bool functions_replaced;
};

/* The database's schema is at least `set`'s (NULL: the embedded one), its functions are `set`'s unless the schema is newer,
 * and partitions exist for the time ahead. Otherwise `problem` names both versions, or the migration and PostgreSQL's error.
 * `report` (may be NULL) is written on ST_MIGRATE_OK only. Blocks: up to 10 s to connect, 60 s for other servers that
 * migrate, 10 minutes for a migration.
 *
 * Other servers and users may be at work on the database. A migration waits for their transactions, but makes nobody wait for
 * more than some tens of milliseconds at a time (every now and then a second, if the role isn't a superuser, for the sake of
 * autovacuum): it takes all tables together, or lets go of them and tries again later. */
enum st_migrate_status st_migrate(const char *dsn, const struct st_migrations *set, struct st_migrate_report *report,
                                  struct st_problem *problem) __attribute__((warn_unused_result));

/* The same; once `interrupted()` (may be NULL) is true, it doesn't wait for locked tables any longer. */
enum st_migrate_status st_migrate_until(const char *dsn, const struct st_migrations *set, bool (*interrupted)(void),
                                        struct st_migrate_report *report, struct st_problem *problem)
    __attribute__((warn_unused_result));

#endif
