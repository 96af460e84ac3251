/*
 * kinds.c - see kinds.h. The table of kinds, and the checks that results must pass before they are believed.
 */
#include "store/kinds.h"

#include <string.h>

#include "store/kind_io.h"
#include "store/rows.h"

#define BIT(outcome) (UINT64_C(1) << (outcome))
#define POLICY       BIT(63) /* ST_QUOTA … ST_CONTRADICTION, which lie beyond the bits */

/* As st_read_acquire and st_read_acquire_all know them. */
#define SELECT_ACQUIRED  "SELECT i, outcome, token, ttl_ms, holder, task, remaining_ms, next_server, max_waiters FROM holdfast."
#define ACQUIRED         "4288tt8t8"
#define ACQUIRE_OUTCOMES (BIT(ST_GRANTED) | BIT(ST_REPEATED) | BIT(ST_HELD) | BIT(ST_ENDED) | BIT(ST_BUSY) | POLICY)

/* As st_read_turn knows them. */
#define SELECT_FREED   "SELECT i, outcome, next_server FROM holdfast."
#define FREED          "42t"
#define FREED_OUTCOMES (BIT(ST_FREED) | BIT(ST_NOT_FREED) | BIT(ST_BUSY))

/* As st_read_namespace knows them; and as st_build_namespace gives the policies to set. */
#define SELECT_NAMESPACE                                                                                                           \
    "SELECT outcome, name, lock_delay_ms, min_ttl_ms, max_ttl_ms, audit_writes, max_leases, max_waiters, max_value_bytes, "        \
    "audit_keep_days, fence_floor, retired FROM holdfast."
#define NAMESPACE "2t888?88888?"
#define POLICIES  "($1::text, $2::int8, $3::int8, $4::int8, $5::bool, $6::int8, $7::int8, $8::int8, $9::int8, $10::text)"
#define SETS_NAMESPACE(function)                                                                                                   \
    {                                                                                                                              \
        .name = (function), .sql = SELECT_NAMESPACE function POLICIES, .result = NAMESPACE, .shape = ST_ONE_ROW, .writes = true,   \
        .per_flush = 1, .outcomes = BIT(ST_FOUND) | POLICY, .build = st_build_namespace, .read = st_read_namespace                 \
    }

const struct st_kind_def st_kinds[ST_KINDS] = {
    [ST_ACQUIRE] = {.name = "acquire",
                    .sql = SELECT_ACQUIRED "acquire_batch($1::text[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::text[], "
                                           "$7::text[], $8::text, $9::bool[], $10::int8[], $11::int8[], $12::int8[], $13::int8[])",
                    .result = ACQUIRED,
                    .shape = ST_PER_ITEM,
                    .writes = true,
                    .per_flush = 1,
                    .outcomes = ACQUIRE_OUTCOMES,
                    .build = st_build_acquire,
                    .read = st_read_acquire},
    [ST_ACQUIRE_ALL] = {.name = "acquire_all",
                        .sql =
                            SELECT_ACQUIRED "acquire_all($1::text, $2::text[], $3::text, $4::text, $5::int8, $6::text, $7::text, "
                                            "$8::text, $9::bool[])",
                        .result = ACQUIRED,
                        .shape = ST_MANY_ROWS,
                        .writes = true,
                        .per_flush = 8,
                        .outcomes = ACQUIRE_OUTCOMES,
                        .build = st_build_acquire_all,
                        .read_all = st_read_acquire_all},
    [ST_RENEW] = {.name = "renew",
                  .sql = "SELECT i, outcome, ttl_ms FROM holdfast.renew_batch("
                         "$1::text[], $2::text[], $3::int8[], $4::int8[], $5::bool)",
                  .result = "428",
                  .shape = ST_PER_ITEM,
                  .writes = true,
                  .optimistic = true,
                  .per_flush = 1,
                  .outcomes = BIT(ST_RENEWED) | BIT(ST_EXPIRED) | BIT(ST_TAKEN_OVER) | BIT(ST_RELEASED) | BIT(ST_BROKEN) |
                              BIT(ST_UNKNOWN_TOKEN) | BIT(ST_BUSY),
                  .build = st_build_renew,
                  .read = st_read_renew},
    [ST_RELEASE] = {.name = "release",
                    .sql = SELECT_FREED "release_batch($1::text[], $2::text[], $3::int8[], $4::bool[])",
                    .result = FREED,
                    .shape = ST_PER_ITEM,
                    .writes = true,
                    .per_flush = 1,
                    .outcomes = FREED_OUTCOMES,
                    .build = st_build_release,
                    .read = st_read_turn},
    [ST_WRITE] = {.name = "write",
                  .sql = "SELECT i, outcome, version, fence, write_seq FROM holdfast.write_batch("
                         "$1::text[], $2::text[], $3::int8[], $4::int8[], $5::bytea[], $6::int8[], true)",
                  .result = "42888",
                  .shape = ST_PER_ITEM,
                  .writes = true,
                  .per_flush = 1,
                  .outcomes = BIT(ST_WRITTEN) | BIT(ST_REPLAYED) | BIT(ST_STALE) | BIT(ST_NOT_HELD) | BIT(ST_VERSION_MISMATCH) |
                              BIT(ST_SUPERSEDED) | BIT(ST_BUSY) | POLICY,
                  .build = st_build_write,
                  .read = st_read_write},
    [ST_CHECK] = {.name = "check",
                  .sql = "SELECT i, outcome, fence, remaining_ms FROM holdfast.check_batch($1::text[], $2::text[], $3::int8[])",
                  .result = "4288",
                  .shape = ST_PER_ITEM,
                  .per_flush = 1,
                  .outcomes = BIT(ST_CURRENT) | BIT(ST_STALE) | BIT(ST_NOT_HELD),
                  .build = st_build_check,
                  .read = st_read_check},
    [ST_READ] = {.name = "read",
                 .sql = "SELECT i, outcome, value, \"exists\", version, fence, token, updated_unix_ms "
                        "FROM holdfast.read_batch($1::text[], $2::text[])",
                 .result = "42y?8888",
                 .shape = ST_PER_ITEM,
                 .per_flush = 1,
                 .outcomes = BIT(ST_FOUND) | BIT(ST_NO_SUCH_RESOURCE),
                 .build = st_build_keys,
                 .read = st_read_read},
    [ST_GET] = {.name = "get",
                .sql = "SELECT i, outcome, resource, task, holder, request_id, token, fence, remaining_ms, granted_unix_ms, state, "
                       "labels FROM holdfast.get_batch($1::text[], $2::text[])",
                .result = "42tttt88882T",
                .shape = ST_PER_ITEM,
                .per_flush = 1,
                .outcomes = BIT(ST_FOUND) | BIT(ST_NO_SUCH_RESOURCE),
                .build = st_build_keys,
                .read = st_read_get},
    [ST_BREAK] = {.name = "break",
                  .sql = "SELECT outcome, fence, live, pid, next_server FROM holdfast.break_lease("
                         "$1::text, $2::text, $3::int8, $4::text, $5::text, true)",
                  .result = "28?4t",
                  .shape = ST_ONE_ROW,
                  .writes = true,
                  .per_flush = 4,
                  .outcomes =
                      BIT(ST_BREAK_DONE) | BIT(ST_BREAK_CHANGED) | BIT(ST_BREAK_BLOCKED) | BIT(ST_NO_SUCH_RESOURCE) | BIT(ST_BUSY),
                  .build = st_build_break,
                  .read = st_read_break},
    [ST_LIST_LEASES] = {.name = "list_leases",
                        .sql =
                            "SELECT outcome, resource, task, holder, request_id, token, fence, remaining_ms, granted_unix_ms, "
                            "state, labels FROM holdfast.list_leases($1::text, $2::text, $3::text, $4::text, $5::text, $6::int4)",
                        .result = "2tttt88882T",
                        .shape = ST_MANY_ROWS,
                        .per_flush = 2,
                        .outcomes = BIT(ST_FOUND),
                        .build = st_build_list_leases,
                        .read_all = st_read_list_leases},
    [ST_LIST_RESOURCES] = {.name = "list_resources",
                           .sql = "SELECT outcome, resource, fence, version, value_bytes, \"exists\", leased "
                                  "FROM holdfast.list_resources($1::text, $2::text, $3::text, $4::int4)",
                           .result = "2t888??",
                           .shape = ST_MANY_ROWS,
                           .per_flush = 2,
                           .outcomes = BIT(ST_FOUND),
                           .build = st_build_list_resources,
                           .read_all = st_read_list_resources},
    [ST_STATS] = {.name = "stats",
                  .sql = "SELECT 50::int2, leases_live, resources, schema_version FROM holdfast.stats()",
                  .result = "2888",
                  .shape = ST_ONE_ROW,
                  .per_flush = 2,
                  .outcomes = BIT(ST_FOUND),
                  .build = st_build_nothing,
                  .read = st_read_stats},
    [ST_ADVANCE_FENCES] = {.name = "advance_fences",
                           .sql = "SELECT outcome, floor FROM holdfast.advance_fences($1::text, $2::int8, $3::text, $4::text)",
                           .result = "28",
                           .shape = ST_ONE_ROW,
                           .writes = true,
                           .per_flush = 1,
                           .outcomes = BIT(ST_FOUND) | BIT(ST_BUSY),
                           .build = st_build_advance,
                           .read = st_read_advance},
    [ST_LEAVE] = {.name = "leave",
                  .sql = SELECT_FREED "leave_batch($1::text[], $2::text[], $3::text)",
                  .result = FREED,
                  .shape = ST_PER_ITEM,
                  .writes = true,
                  .per_flush = 1,
                  .outcomes = FREED_OUTCOMES,
                  .build = st_build_leave,
                  .read = st_read_turn},
    [ST_CREATE_NAMESPACE] = SETS_NAMESPACE("create_namespace"),
    [ST_SET_NAMESPACE] = SETS_NAMESPACE("set_namespace"),
    [ST_LIST_NAMESPACES] = {.name = "list_namespaces",
                            .sql = SELECT_NAMESPACE "list_namespaces($1::text, $2::int4)",
                            .result = NAMESPACE,
                            .shape = ST_MANY_ROWS,
                            .per_flush = 1,
                            .outcomes = BIT(ST_FOUND),
                            .build = st_build_list_namespaces,
                            .read_all = st_read_list_namespaces},
    [ST_AUDIT] = {.name = "audit",
                  .sql = "SELECT outcome, id, at_unix_ms, kind, resource, token, prior, actor, detail FROM holdfast.audit_list("
                         "$1::text, $2::text, $3::int8, $4::int4)",
                  .result = "288tt88tt",
                  .shape = ST_MANY_ROWS,
                  .per_flush = 1,
                  .outcomes = BIT(ST_FOUND),
                  .build = st_build_audit,
                  .read_all = st_read_audit},
    /* Errands have their own way (errand.c). */
    [ST_SWEEP] = {.name = "sweep"},
    [ST_MAKE_PARTITIONS] = {.name = "make_partitions"},
    [ST_DROP_PARTITIONS] = {.name = "drop_partitions"},
    /* Those of operations have no statement yet. */
    [ST_OP_BEGIN] = {.name = "op_begin", .writes = true},
    [ST_OP_RENEW] = {.name = "op_renew", .writes = true},
    [ST_OP_SENDING] = {.name = "op_sending", .writes = true},
    [ST_OP_FINISH] = {.name = "op_finish", .writes = true},
    [ST_OP_RECORD] = {.name = "op_record", .writes = true},
    [ST_OP_GET] = {.name = "op_get"},
    [ST_OP_EXECUTE] = {.name = "op_execute", .writes = true},
    [ST_OP_LIST] = {.name = "op_list"},
    [ST_OP_ATTEMPTS] = {.name = "op_attempts"},
    [ST_OP_DECIDE] = {.name = "op_decide", .writes = true},
    [ST_OP_COMPENSATE] = {.name = "op_compensate", .writes = true},
    [ST_SET_OP_POLICY] = {.name = "set_op_policy", .writes = true},
    [ST_LIST_OP_POLICIES] = {.name = "list_op_policies"},
    [ST_REGISTER_ACTION] = {.name = "register_action", .writes = true},
    [ST_REMOVE_ACTION] = {.name = "remove_action", .writes = true},
    [ST_LIST_ACTIONS] = {.name = "list_actions"},
    [ST_OP_STATS] = {.name = "op_stats"},
};

const char *st_kind_name(enum st_kind kind)
{
    return kind >= 0 && kind < ST_KINDS ? st_kinds[kind].name : "unknown";
}

/* ------------------------------------------------------------------------------------------------ results */

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
        return def->outcomes & POLICY;
    return outcome == ST_NO_SUCH_NAMESPACE || (outcome > 0 && outcome < 63 && (def->outcomes >> outcome & 1));
}

static bool read_per_item(const struct st_kind_def *def, const PGresult *res, struct st_call *call)
{
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
