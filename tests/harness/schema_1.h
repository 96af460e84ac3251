/*
 * schema_1.h - what servers of schema 1 left behind: a database as they made it, and the statements that they prepared, word for
 * word. For the tests of the upgrade.
 */
#ifndef HOLDFAST_TESTS_SCHEMA_1_H
#define HOLDFAST_TESTS_SCHEMA_1_H

#include "harness/harness.h"

/* The DSN of a fresh database of schema 1: its migration (which must never change), its functions, its record. */
char *t_database_of_schema_1(void);

struct t_statement {
    const char *name, *sql;
};
enum { T_STATEMENTS_OF_SCHEMA_1 = 13 };
extern const struct t_statement t_statements_of_schema_1[T_STATEMENTS_OF_SCHEMA_1];

/* The session attaches and prepares each of them, as such a server's would. */
void t_prepare_schema_1(PGconn *conn);

#endif
