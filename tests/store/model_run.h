/*
 * model_run.h - random work, done both by the SQL functions and by the reference model, and compared item by item.
 *
 * A second session locks rows, or calls guard(), now and then, so that the first finds them busy. Besides the comparison, a
 * witness that knows nothing of fences or floors watches what SQL answered for P1 (tokens rise), P2 (one live lease) and P3
 * (no stale write).
 */
#ifndef HOLDFAST_TESTS_STORE_MODEL_RUN_H
#define HOLDFAST_TESTS_STORE_MODEL_RUN_H

#include "store/model.h"
#include "store/sql.h"
#include "store/store.h"

enum { M_OPEN_KEYS = 36, M_CLOSED_KEYS = 2, M_KEYS = 2 * M_OPEN_KEYS + 2 * M_CLOSED_KEYS, M_GUARD = ST_KINDS, M_COUNTED };

/* What SQL's answers alone say about one resource. */
struct m_witness {
    int64_t highest;    /* token granted */
    int64_t held_until; /* of that token; M_NEVER once it was ended */
};

struct m_world {
    PGconn *conn, *other;
    uint64_t random;
    int64_t now;
    struct m_ns ns[4];
    struct m_key keys[M_KEYS]; /* in the order of their names' bytes */
    struct m_witness witness[M_KEYS];
    struct m_audit audit;
    struct m_all all; /* of the above */
    int64_t next_request;
    int focus[4]; /* if there are any, operations are about these keys */
    int n_focus;
    int line_up;     /* above 0: the next acquire is this server's, and wants to wait long */
    bool locks;      /* the other session is in a transaction */
    int last_all[8]; /* the keys of the last acquire of several that was granted */
    size_t n_last_all;
    char last_all_request[M_NAME];
    long steps;                 /* items compared */
    long count[M_COUNTED][100]; /* by enum st_kind (or M_GUARD) and outcome */
    char mismatch[1024];        /* the first one; "" = they agree */
};

/* A fresh database and an empty model. */
void m_world_open(struct m_world *world, uint64_t seed);
/* Works until `steps` items were compared, or they disagree. */
void m_world_run(struct m_world *world, long steps);
/* The tables hold what the model holds, and the audit what was done; otherwise `mismatch` says where not. */
void m_world_compare_tables(struct m_world *world);
void m_world_close(struct m_world *world);

#endif
