/*
 * op_model_run.h - random calls of the functions of operations, each answer compared with the reference's (op_model.h).
 */
#ifndef HOLDFAST_TESTS_STORE_OP_MODEL_RUN_H
#define HOLDFAST_TESTS_STORE_OP_MODEL_RUN_H

#include "store/op_model.h"
#include "store/sql.h"

enum { OM_KEYS = 44, OM_OPEN_KEYS = 41, OM_MOST = 24 }; /* the last keys are of no open namespace */
enum { OM_DO_BEGIN, OM_DO_RENEW, OM_DO_SENDING, OM_DO_FINISH, OM_DO_RECORD, OM_DO_DECIDE, OM_DO_SWEEP, OM_DO_GET, OM_DOES };

struct om_decision {
    int call, reconciled;
    int64_t revision;
    const char *actor;
};

/* The database and what the reference says of it. */
struct om_world {
    PGconn *conn, *other;
    uint64_t random;
    int64_t now, highest;
    double jitter;
    bool locks;
    struct om_op op[OM_KEYS];
    long steps, count[OM_DOES][256];
    char key[OM_KEYS][16];
    struct om_decision last[OM_KEYS];
    struct om_finish ended[OM_KEYS]; /* what was sent last */
};

/* The operations of one call, and what it is given. */
struct om_batch {
    int n, op[OM_MOST];
    struct om_begin begin[OM_MOST];
    struct om_finish finish[OM_MOST];
    int64_t token[OM_MOST], ttl[OM_MOST];
    PGresult *result;
    struct ts_text sql;
};

extern const struct om_policy om_policies[2];
extern struct om_world omw;
extern struct om_batch omb;

uint64_t om_random(uint64_t n);
bool om_chance(uint64_t percent);
/* One call, of some kind, of some operations; it fails the test if an answer is not the reference's. */
void om_call_something(void);

#endif
