/*
 * kinds.h - what the store knows of each kind of item: its statement, how its parameters are built, how its rows are read.
 *
 * One table row a kind; everything else in the store treats all kinds alike. No I/O.
 */
#ifndef HOLDFAST_STORE_KINDS_H
#define HOLDFAST_STORE_KINDS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/params.h"
#include "store/store.h"

struct st_store;

/* A batch as builders and readers see it: its items in key order. */
struct st_call {
    struct st_item **items; /* those that have ended since it was sent are NULL */
    size_t n;
    bool careful; /* ST_RENEW */
    int64_t sent_ms;
    int32_t max_value_bytes; /* a value that has more isn't brought by it (large.c) */
    size_t value_bytes;      /* that it brought, of all values */
    const char *server;      /* our id */
    struct st_store *store;
    /* Told while results are read: `server` may have the turn on the resource. */
    void (*next)(struct st_store *store, const char *server, const char *ns, const char *resource);
    void *scratch; /* of ST_GET and the lists: memory of their rows, freed by st_call_release */
};

enum st_shape {
    ST_PER_ITEM, /* one row an item, which says for which by `i`; or see for_all */
    ST_ONE_ROW,  /* one row without `i` */
    ST_MANY_ROWS /* a list, or the rows of one acquire of several resources: `read_all` takes them */
};

struct st_kind_def {
    const char *name;   /* "acquire"; also the prepared statement's */
    const char *sql;    /* every parameter with its type */
    const char *result; /* the columns' types: 4 int4, 2 int2, 8 int8, ? bool, t text, y bytea, T text[] */
    enum st_shape shape;
    bool writes;          /* changes something: its outcome is lost with the connection */
    bool optimistic;      /* 40001 asks for the careful form */
    bool own_way;         /* ST_OP_EXECUTE: on connections that no other kind uses */
    bool prompt;          /* a list that goes the way of reads: all calls wait for it */
    bool for_all;         /* what is true of all n items of the batch may be told in one row, whose `i` is -n */
    size_t per_flush;     /* batches sent to an idle connection at once; a batch of a kind that isn't ST_PER_ITEM holds one item */
    size_t max_items;     /* of a batch; 0 = as the store is set */
    uint64_t outcomes;    /* bits of the outcomes SQL may tell, below 63; and ST_POLICY_OUTCOMES */
    uint32_t op_outcomes; /* the same of those from ST_OP_STARTED on, which is bit 0 */
    size_t (*weigh)(const struct st_item *item); /* against the limit of a batch's bytes; NULL = nothing */
    void (*build)(struct st_params *params, const struct st_call *call);
    void (*read)(const PGresult *res, int row, struct st_item *item, struct st_call *call);
    bool (*read_all)(const PGresult *res, struct st_item *item, struct st_call *call); /* false: it makes no sense */
};

/* In `outcomes`: ST_QUOTA … ST_CONTRADICTION, which lie beyond the bits. */
#define ST_POLICY_OUTCOMES (UINT64_C(1) << 63)

extern const struct st_kind_def st_kinds[ST_KINDS];

/* More resources than this cannot be acquired together. */
enum { ST_MAX_RESOURCES = 64 };

/* The result's columns are as `def` expects them, and so are the NULLs that matter: `i` and `outcome`. */
bool st_result_shape_ok(const struct st_kind_def *def, const PGresult *res);
/* Reads the result into the items' outputs and outcomes. False: the result makes no sense; outcomes are then undefined. */
bool st_result_read(const struct st_kind_def *def, const PGresult *res, struct st_call *call);
/* Frees what reading allocated. */
void st_call_release(struct st_call *call);

#endif
