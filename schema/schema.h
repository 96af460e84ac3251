/*
 * schema.h - the SQL of Holdfast, embedded in the binary at build time.
 */
#ifndef HOLDFAST_SCHEMA_H
#define HOLDFAST_SCHEMA_H

#include <stddef.h>

struct hf_migration {
    int version;         /* 1, 2, … without gaps: from the file's name, 0001_init.sql */
    int compatible_from; /* binaries that know at least this schema version still work after it: from the line
                            "-- compatible_from: N" at the file's head */
    const char *name;    /* "init" */
    const char *sql;     /* NUL-terminated */
};

extern const struct hf_migration hf_migrations[];
extern const size_t hf_n_migrations;

/* All of functions/<name>.sql, in the order of their names, as one script of CREATE OR REPLACE: run after the migrations
 * whenever its hash isn't the one on record. */
extern const char hf_functions_sql[];
/* FNV-1a 64 of hf_functions_sql, as 16 hex digits. */
extern const char hf_functions_hash[];

#endif
