/*
 * internal.h - between the files of the harness.
 *
 * Whatever is made belongs to a generation: the present one, which t_teardown() ends and t_keep() closes, or, inside
 * `t_forever`, to the program as a whole.
 */
#ifndef HOLDFAST_TESTS_INTERNAL_H
#define HOLDFAST_TESTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/harness.h"

/* While true, what is made stays until the program ends. */
extern bool t_forever;
int t_generation(void);

/* The variable "NAME=ID.GENERATION" by which started processes and their descendants are known. */
void t_mark(char *buf, size_t size);
/* Zeroed memory that stays as long as its generation. */
void *t_alloc(size_t size);
char *t_strdup(const char *text);
/* The folder of all folders of this program; starts the keeper. */
const char *t_root(void);
/* The parent of a process, which is named by its folder in /proc; 0 = it is gone. */
pid_t t_parent_of(const char *pid);

/* process.c: reaps those of its children that have ended. */
void t_processes_reap(void);
/* process.c: forgets the processes of this generation and later ones. */
void t_processes_forget(int generation);
/* process.c: as t_spawn, `as_postgres`: as the user who may run PostgreSQL. */
struct t_proc *t_spawn_as(const char *const *argv, const struct t_spawn_opts *opts, bool as_postgres);
/* The last lines of a text, for messages. */
const char *t_tail(const char *text);

/* postgres.c: a program of PostgreSQL, by its whole path. */
const char *t_pg_program(const char *name);
/* postgres.c: runs it to its end, as the user who may run PostgreSQL; the test fails if it does not succeed. */
void t_run_as_postgres(const char *const *argv, const struct t_spawn_opts *opts);
/* postgres.c: a cluster that has its folder and nothing in it, and then: it runs on the data that is there by now. */
struct t_pg *t_pg_make(void);
void t_pg_run(struct t_pg *pg, const char *const *settings);
/* postgres.c: drops the databases of this generation and later ones. */
void t_databases_drop(int generation);

#endif
