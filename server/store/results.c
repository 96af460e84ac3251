/*
 * results.c - see kinds.h: the checks that results must pass before they are believed.
 */
#include <string.h>

#include "store/kinds.h"
#include "store/rows.h"

static Oid type_of(char letter)
{
    switch (letter) {
    case '2':
        return ST_OID_INT2;
    case '4':
        return ST_OID_INT4;
    case '8':
        return ST_OID_INT8;
    case '?':
        return ST_OID_BOOL;
    case 'y':
        return ST_OID_BYTEA;
    case 'T':
        return ST_OID_TEXT_ARRAY;
    default:
        return ST_OID_TEXT;
    }
}

bool st_result_shape_ok(const struct st_kind_def *def, const PGresult *res)
{
    int columns = (int)strlen(def->result);
    if (PQnfields(res) != columns)
        return false;
    for (int col = 0; col < columns; col++) {
        if (PQftype(res, col) != type_of(def->result[col]) || PQfformat(res, col) != 1)
            return false;
    }
    return true;
}

static bool outcome_ok(const struct st_kind_def *def, int outcome)
{
    if (outcome == ST_QUOTA || outcome == ST_TTL_BOUNDS || outcome == ST_CONFLICT || outcome == ST_CONTRADICTION)
        return def->outcomes & ST_POLICY_OUTCOMES;
    if (outcome >= ST_OP_STARTED && outcome <= ST_AUTH_FULL)
        return def->op_outcomes >> (outcome - ST_OP_STARTED) & 1;
    return outcome == ST_NO_SUCH_NAMESPACE || (outcome > 0 && outcome < 63 && (def->outcomes >> outcome & 1));
}

/* One row that says to hold for all of them. */
static bool read_for_all(const struct st_kind_def *def, const PGresult *res, struct st_call *call)
{
    int outcome = st_get_int2(res, 0, 1);
    if ((uint64_t) - (int64_t)st_get_int4(res, 0, 0) != call->n || !outcome_ok(def, outcome))
        return false;
    const struct st_item *first = NULL;
    for (size_t i = 0; i < call->n; i++) {
        struct st_item *item = call->items[i];
        if (!item)
            continue;
        item->outcome = (enum st_outcome)outcome;
        if (first)
            item->out = first->out;
        else
            def->read(res, 0, item, call);
        first = item;
    }
    return true;
}

static bool read_per_item(const struct st_kind_def *def, const PGresult *res, struct st_call *call)
{
    if (def->for_all && PQntuples(res) == 1 && st_get_int4(res, 0, 0) < 0)
        return read_for_all(def, res, call);
    if ((size_t)PQntuples(res) != call->n)
        return false;
    for (size_t i = 0; i < call->n; i++) {
        if (call->items[i])
            call->items[i]->outcome = 0;
    }
    for (int row = 0; row < (int)call->n; row++) {
        int32_t i = st_get_int4(res, row, 0);
        int outcome = st_get_int2(res, row, 1);
        if (i < 1 || (size_t)i > call->n || !outcome_ok(def, outcome))
            return false;
        struct st_item *item = call->items[i - 1];
        if (!item)
            continue;
        if (item->outcome)
            return false;
        item->outcome = (enum st_outcome)outcome;
        def->read(res, row, item, call);
    }
    return true;
}

bool st_result_read(const struct st_kind_def *def, const PGresult *res, struct st_call *call)
{
    if (!st_result_shape_ok(def, res))
        return false;
    if (def->shape == ST_PER_ITEM)
        return read_per_item(def, res, call);
    struct st_item *item = call->items[0];
    if (!item)
        return true;
    if (def->shape == ST_MANY_ROWS)
        return def->read_all(res, item, call) && (item->outcome == ST_FAILED || outcome_ok(def, (int)item->outcome));
    if (PQntuples(res) != 1 || !outcome_ok(def, st_get_int2(res, 0, 0)))
        return false;
    item->outcome = (enum st_outcome)st_get_int2(res, 0, 0);
    def->read(res, 0, item, call);
    return true;
}
