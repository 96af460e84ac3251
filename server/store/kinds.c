/*
 * kinds.c - see kinds.h. The table of kinds.
 */
#include "store/kinds.h"

#include "store/kind_io.h"

#define BIT(outcome) (UINT64_C(1) << (outcome))
#define POLICY       ST_POLICY_OUTCOMES

/* Whole batches of items, or one item by statement. */
#define BATCH      .shape = ST_PER_ITEM, .per_flush = 1
#define BATCH_SETS BATCH, .writes = true
#define ONE_SETS   .shape = ST_ONE_ROW, .per_flush = 1, .writes = true

/* Of operations; those that tell what was found under a key, and what the owner of an attempt is told. */
#define OP(outcome) (UINT32_C(1) << ((outcome)-ST_OP_STARTED))
#define OP_FOUND                                                                                                                   \
    (OP(ST_OP_REPLAYED) | OP(ST_OP_REPLAYED_FAILED) | OP(ST_OP_REPLAYED_CANCELLED) | OP(ST_OP_IN_PROGRESS) | OP(ST_OP_UNKNOWN) |   \
     OP(ST_OP_REVIEW) | OP(ST_OP_CONFLICT))
#define OP_OWNER (OP(ST_OP_DONE) | OP(ST_OP_DONE_AGAIN) | OP(ST_OP_STALE) | OP(ST_OP_NOT_HELD) | OP(ST_OP_ILLEGAL) | OP(ST_OP_NONE))

/* As read_op_row (kind_operators.c) knows them. */
#define OP_COLUMNS(token)                                                                                                          \
    "key, type, fingerprint, state, revision, attempts, " token ", holder, sending, remaining_ms, created_unix_ms, "               \
    "changed_unix_ms, error_class, message, sqlstate, compensates, compensated_by, priority"
#define OP_TYPES "tty2448t?8882tttt4"

/* As st_read_acquire and st_read_acquire_all know them. */
#define SELECT_ACQUIRED  "SELECT i, outcome, token, ttl_ms, holder, task, remaining_ms, next_server, max_waiters FROM holdfast."
#define ACQUIRED         "4288tt8t8"
#define ACQUIRE_OUTCOMES (BIT(ST_GRANTED) | BIT(ST_REPEATED) | BIT(ST_HELD) | BIT(ST_ENDED) | BIT(ST_BUSY) | POLICY)

/* As st_read_turn knows them. */
#define SELECT_FREED   "SELECT i, outcome, next_server FROM holdfast."
#define FREED          "42t"
#define FREED_OUTCOMES (BIT(ST_FREED) | BIT(ST_NOT_FREED) | BIT(ST_BUSY))

/* As st_read_renew knows them. */
#define RENEW_OUTCOMES                                                                                                             \
    (BIT(ST_RENEWED) | BIT(ST_EXPIRED) | BIT(ST_TAKEN_OVER) | BIT(ST_RELEASED) | BIT(ST_BROKEN) | BIT(ST_UNKNOWN_TOKEN) |          \
     BIT(ST_BUSY))

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

/* As read_principal_row (kind_principals.c) knows them. */
#define SELECT_PRINCIPAL                                                                                                           \
    "SELECT outcome, id, name, certificate, created_unix_ms, created_by, expires_unix_ms, revoked_unix_ms, revoked_by, "           \
    "last_used_unix_ms, rate_per_s, rate_burst, version, grants FROM holdfast."
#define PRINCIPAL "2ttt8t88t8888T"
#define SETS_PRINCIPAL(verb, arguments, more_outcomes)                                                                             \
    {                                                                                                                              \
        .name = #verb "_principal", .sql = SELECT_PRINCIPAL #verb "_principal" arguments, .result = PRINCIPAL, ONE_SETS,           \
        .outcomes = BIT(ST_FOUND), .op_outcomes = (more_outcomes), .build = st_build_##verb##_principal, .read = st_read_principal \
    }

/*
 * Of rows that say whether they are `large`, with more `bytes` than a parameter allows: these come without their value, and tell
 * how many bytes they have in another column's place (large.c). To ask how long a value is doesn't bring it. Only a replay may be
 * asked for again, not what has just been done.
 */
#define OUTCOME         "CASE WHEN large THEN 52::int2 ELSE outcome END"
#define RESULT          "CASE WHEN large THEN NULL ELSE result END"
#define BYTES_OR_TOKEN  "CASE WHEN large THEN bytes::int8 ELSE token END"
#define REPLAYS         "(SELECT *, octet_length(result) AS bytes, outcome = 202 AND octet_length(result) > "
#define OPERATION_BYTES "coalesce(octet_length(result), 0) + coalesce(octet_length(payload), 0)"
#define OPERATIONS      "(SELECT *, " OPERATION_BYTES " AS bytes, " OPERATION_BYTES " > "
#define SELECT_OPERATION                                                                                                           \
    "SELECT i, " OUTCOME ", " OP_COLUMNS(BYTES_OR_TOKEN) ", " RESULT ", result_ref, CASE WHEN large THEN NULL ELSE payload END "

const struct st_kind_def st_kinds[ST_KINDS] = {
    [ST_ACQUIRE] = {.name = "acquire",
                    .sql = SELECT_ACQUIRED "acquire_batch($1::text[], $2::text[], $3::text[], $4::text[], $5::int8[], $6::text[], "
                                           "$7::text[], $8::text, $9::bool[], $10::int8[], $11::int8[], $12::int8[], $13::int8[])",
                    .result = ACQUIRED,
                    BATCH_SETS,
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
                  BATCH_SETS,
                  .optimistic = true,
                  .outcomes = RENEW_OUTCOMES,
                  .build = st_build_renew,
                  .read = st_read_renew},
    [ST_RELEASE] = {.name = "release",
                    .sql = SELECT_FREED "release_batch($1::text[], $2::text[], $3::int8[], $4::bool[])",
                    .result = FREED,
                    BATCH_SETS,
                    .outcomes = FREED_OUTCOMES,
                    .build = st_build_release,
                    .read = st_read_turn},
    [ST_WRITE] = {.name = "write",
                  .sql = "SELECT i, outcome, version, fence, write_seq FROM holdfast.write_batch("
                         "$1::text[], $2::text[], $3::int8[], $4::int8[], $5::bytea[], $6::int8[], true)",
                  .result = "42888",
                  BATCH_SETS,
                  .outcomes = BIT(ST_WRITTEN) | BIT(ST_REPLAYED) | BIT(ST_STALE) | BIT(ST_NOT_HELD) | BIT(ST_VERSION_MISMATCH) |
                              BIT(ST_SUPERSEDED) | BIT(ST_BUSY) | POLICY,
                  .weigh = st_weigh_write,
                  .build = st_build_write,
                  .read = st_read_write},
    [ST_CHECK] = {.name = "check",
                  .sql = "SELECT i, outcome, fence, remaining_ms FROM holdfast.check_batch($1::text[], $2::text[], $3::int8[])",
                  .result = "4288",
                  BATCH,
                  .outcomes = BIT(ST_CURRENT) | BIT(ST_STALE) | BIT(ST_NOT_HELD),
                  .build = st_build_check,
                  .read = st_read_check},
    [ST_READ] = {.name = "read",
                 .sql = "SELECT i, " OUTCOME ", CASE WHEN large THEN NULL ELSE value END, \"exists\", "
                        "CASE WHEN large THEN octet_length(value)::int8 ELSE version END, fence, token, updated_unix_ms "
                        "FROM (SELECT *, octet_length(value) > $3::int4 AS large "
                        "FROM holdfast.read_batch($1::text[], $2::text[]) r) x",
                 .result = "42y?8888",
                 BATCH,
                 .outcomes = BIT(ST_FOUND) | BIT(ST_NO_SUCH_RESOURCE) | BIT(ST_VALUE_LATER),
                 .weigh = st_weigh_asked,
                 .build = st_build_asked,
                 .read = st_read_read},
    [ST_GET] = {.name = "get",
                .sql = "SELECT i, outcome, resource, task, holder, request_id, token, fence, remaining_ms, granted_unix_ms, state, "
                       "labels FROM holdfast.get_batch($1::text[], $2::text[])",
                .result = "42tttt88882T",
                BATCH,
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
                           ONE_SETS,
                           .outcomes = BIT(ST_FOUND) | BIT(ST_BUSY),
                           .build = st_build_advance,
                           .read = st_read_advance},
    [ST_LEAVE] = {.name = "leave",
                  .sql = SELECT_FREED "leave_batch($1::text[], $2::text[], $3::text)",
                  .result = FREED,
                  BATCH_SETS,
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
                  .sql = "SELECT outcome, id, at_unix_ms, kind, resource, token, prior, actor, detail, operation FROM "
                         "holdfast.audit_list($1::text, $2::text, $3::text, $4::int8, $5::int4)",
                  .result = "288tt88ttt",
                  .shape = ST_MANY_ROWS,
                  .per_flush = 1,
                  .outcomes = BIT(ST_FOUND),
                  .build = st_build_audit,
                  .read_all = st_read_audit},
    /* Errands have their own way (errand.c). */
    [ST_SWEEP] = {.name = "sweep"},
    [ST_MAKE_PARTITIONS] = {.name = "make_partitions"},
    [ST_DROP_PARTITIONS] = {.name = "drop_partitions"},
    [ST_OP_BEGIN] = {.name = "op_begin",
                     .sql = "SELECT i, " OUTCOME ", attempt, " BYTES_OR_TOKEN ", ttl_ms, execution_id, trigger, state, holder, "
                            "remaining_ms, " RESULT ", result_ref, ended_unix_ms, error_class, message, sqlstate "
                            "FROM " REPLAYS "$9::int4 AS large FROM holdfast.begin_batch($1::text[], $2::text[], $3::text[], "
                            "$4::bytea[], $5::text[], $6::int8[], $7::text[], $8::int2[]) r) x",
                     .result = "42488t22t8yt82tt",
                     BATCH_SETS,
                     .outcomes = BIT(ST_BUSY) | BIT(ST_VALUE_LATER),
                     .op_outcomes = OP(ST_OP_STARTED) | OP(ST_OP_STARTED_AGAIN) | OP_FOUND,
                     .build = st_build_op_begin,
                     .read = st_read_op_begin},
    [ST_OP_RENEW] = {.name = "op_renew",
                     .sql =
                         "SELECT i, outcome, ttl_ms FROM holdfast.op_renew_batch($1::text[], $2::text[], $3::int8[], $4::int8[])",
                     .result = "428",
                     BATCH_SETS,
                     .outcomes = RENEW_OUTCOMES,
                     .build = st_build_op_renew,
                     .read = st_read_renew},
    [ST_OP_SENDING] = {.name = "op_sending",
                       .sql = "SELECT i, outcome, remaining_ms, state FROM holdfast.op_sending_batch($1::text[], $2::text[], "
                              "$3::int8[])",
                       .result = "4282",
                       BATCH_SETS,
                       .outcomes = BIT(ST_BUSY),
                       .op_outcomes = OP_OWNER,
                       .build = st_build_op_sending,
                       .read = st_read_op_sending},
    [ST_OP_FINISH] = {.name = "op_finish",
                      .sql = "SELECT i, outcome, state, revision, due_ms, attempts, exhausted, succeeded_after_retry FROM "
                             "holdfast.op_finish_batch($1::text[], $2::text[], $3::int8[], $4::int2[], $5::bytea[], $6::text[], "
                             "$7::int2[], $8::text[], $9::text[], $10::int8[], $11::int4[], $12::text[], $13::text[], "
                             "$14::text[], $15::bytea[])",
                      .result = "422484??",
                      BATCH_SETS,
                      .outcomes = BIT(ST_BUSY),
                      .op_outcomes = OP_OWNER,
                      .weigh = st_weigh_operation,
                      .build = st_build_op_finish,
                      .read = st_read_op_finish},
    [ST_OP_RECORD] = {.name = "op_record",
                      .sql = "SELECT i, " OUTCOME ", state, holder, remaining_ms, " RESULT ", result_ref, "
                             "CASE WHEN large THEN bytes::int8 ELSE ended_unix_ms END, attempt, error_class, message "
                             "FROM " REPLAYS "$12::int4 AS large FROM holdfast.op_record_batch($1::text[], $2::text[], $3::text[], "
                             "$4::bytea[], $5::bytea[], $6::text[], $7::int4[], $8::text[], $9::text[], $10::text[], "
                             "$11::bytea[]) r) x",
                      .result = "422t8yt842t",
                      BATCH_SETS,
                      .for_all = true,
                      .outcomes = BIT(ST_BUSY) | BIT(ST_VALUE_LATER),
                      .op_outcomes = OP(ST_OP_DONE) | OP_FOUND,
                      .weigh = st_weigh_operation,
                      .build = st_build_op_record,
                      .read = st_read_op_record},
    [ST_OP_GET] = {.name = "op_get",
                   .sql = SELECT_OPERATION "FROM " OPERATIONS
                                           "$3::int4 AS large FROM holdfast.op_get_batch($1::text[], $2::text[]) r) x",
                   .result = "42" OP_TYPES "yty",
                   BATCH,
                   .outcomes = BIT(ST_FOUND) | BIT(ST_VALUE_LATER),
                   .op_outcomes = OP(ST_OP_NONE),
                   .weigh = st_weigh_asked,
                   .build = st_build_asked,
                   .read = st_read_op_get},
    [ST_OP_EXECUTE] = {.name = "op_execute",
                       .sql = "SELECT i, " OUTCOME ", " RESULT ", result_ref, ended_unix_ms, attempt, sqlstate, message, "
                              "CASE WHEN large THEN bytes::int8 ELSE fence END, version, holder, remaining_ms, error_class, state "
                              "FROM " REPLAYS "$16::int4 AS large FROM holdfast.op_execute_batch($1::text[], $2::text[], "
                              "$3::text[], $4::bytea[], $5::text[], $6::text[], $7::text[], $8::int8[], $9::int8[], $10::text[], "
                              "$11::int4[], $12::text[], $13::text[], $14::text[], $15::bytea[]) r) x",
                       .result = "42yt84tt88t822",
                       BATCH_SETS,
                       .own_way = true,
                       .max_items = 60,
                       .outcomes = BIT(ST_BUSY) | BIT(ST_VALUE_LATER),
                       .op_outcomes = OP(ST_OP_DONE) | OP_FOUND | OP(ST_OP_NO_ACTION) | OP(ST_OP_RAISED) |
                                      OP(ST_OP_STALE_RESOURCE) | OP(ST_OP_RESOURCE_NOT_HELD) | OP(ST_OP_VERSION) |
                                      OP(ST_OP_AGAIN_LATER),
                       .weigh = st_weigh_operation,
                       .build = st_build_op_execute,
                       .read = st_read_op_execute},
    [ST_OP_LIST] = {.name = "op_list",
                    .sql = "SELECT outcome, " OP_COLUMNS(
                        "token") " FROM holdfast.op_list($1::text, $2::int2, $3::text, $4::text, $5::int8, "
                                 "$6::text, $7::int4)",
                    .result = "2" OP_TYPES,
                    .shape = ST_MANY_ROWS,
                    .per_flush = 2,
                    .outcomes = BIT(ST_FOUND),
                    .build = st_build_op_list,
                    .read_all = st_read_op_list},
    [ST_OP_ATTEMPTS] = {.name = "op_attempts",
                        .sql = "SELECT outcome, attempt, execution_id, token, trigger, holder, started_unix_ms, ended_unix_ms, "
                               "sending_unix_ms, attempt_outcome, error_class, message, sqlstate, late_unix_ms, late_call, "
                               "late_result, late_message, late_count FROM holdfast.op_attempts($1::text, $2::text, $3::int4, "
                               "$4::int4)",
                        .result = "24t82t88822tt8tyt4",
                        .shape = ST_MANY_ROWS,
                        .per_flush = 2,
                        .outcomes = BIT(ST_FOUND),
                        .op_outcomes = OP(ST_OP_NONE),
                        .build = st_build_op_attempts,
                        .read_all = st_read_op_attempts},
    [ST_OP_DECIDE] = {.name = "op_decide",
                      .sql = "SELECT outcome, state, revision, message FROM holdfast.op_decide($1::text, $2::text, $3::int4, "
                             "$4::int2, $5::int2, $6::bytea, $7::text, $8::text, $9::text)",
                      .result = "224t",
                      .shape = ST_ONE_ROW,
                      .writes = true,
                      .per_flush = 4,
                      .outcomes = BIT(ST_BUSY),
                      .op_outcomes = OP(ST_OP_DONE) | OP(ST_OP_DONE_AGAIN) | OP(ST_OP_ILLEGAL) | OP(ST_OP_REVISION) |
                                     OP(ST_OP_NONE) | OP(ST_OP_UNKNOWN),
                      .weigh = st_weigh_operation,
                      .build = st_build_op_decide,
                      .read = st_read_op_decide},
    [ST_OP_COMPENSATE] = {.name = "op_compensate",
                          .sql =
                              "SELECT outcome, key, state, revision, fingerprint FROM holdfast.op_compensate($1::text, $2::text, "
                              "$3::text, $4::bytea, $5::text, $6::text)",
                          .result = "2t24y",
                          .shape = ST_ONE_ROW,
                          .writes = true,
                          .per_flush = 4,
                          .outcomes = BIT(ST_BUSY),
                          .op_outcomes = OP(ST_OP_DONE) | OP(ST_OP_DONE_AGAIN) | OP(ST_OP_CONFLICT) | OP(ST_OP_ILLEGAL) |
                                         OP(ST_OP_NONE) | OP(ST_OP_UNKNOWN) | OP(ST_OP_REVIEW),
                          .build = st_build_op_compensate,
                          .read = st_read_op_compensate},
    [ST_SET_OP_POLICY] = {.name = "set_op_policy",
                          .sql =
                              "SELECT outcome, type, max_attempts, max_elapsed_ms, base_ms, cap_ms, on_lost, retention_ms, "
                              "needed_ms FROM holdfast.op_set_policy($1::text, $2::text, $3::int8, $4::int8, $5::int8, $6::int8, "
                              "$7::int2, $8::int8, $9::text)",
                          .result = "2t8888288",
                          ONE_SETS,
                          .outcomes = BIT(ST_FOUND) | POLICY,
                          .op_outcomes = OP(ST_OP_RETENTION),
                          .build = st_build_op_policy,
                          .read = st_read_op_policy},
    [ST_LIST_OP_POLICIES] = {.name = "list_op_policies",
                             .sql =
                                 "SELECT outcome, type, max_attempts, max_elapsed_ms, base_ms, cap_ms, on_lost, retention_ms FROM "
                                 "holdfast.op_list_policies($1::text, $2::text, $3::int4)",
                             .result = "2t888828",
                             .shape = ST_MANY_ROWS,
                             .per_flush = 1,
                             .outcomes = BIT(ST_FOUND),
                             .build = st_build_list_op_policies,
                             .read_all = st_read_list_op_policies},
    [ST_REGISTER_ACTION] = {.name = "register_action",
                            .sql = "SELECT outcome, name, function, role, timeout_ms, message FROM holdfast.register_action("
                                   "$1::text, $2::text, $3::text, $4::int8, $5::text)",
                            .result = "2ttt8t",
                            ONE_SETS,
                            .outcomes = BIT(ST_FOUND) | POLICY,
                            .op_outcomes = OP(ST_OP_BAD_ACTION),
                            .build = st_build_register_action,
                            .read = st_read_register_action},
    [ST_REMOVE_ACTION] = {.name = "remove_action",
                          .sql = "SELECT outcome FROM holdfast.remove_action($1::text, $2::text, $3::text)",
                          .result = "2",
                          ONE_SETS,
                          .outcomes = BIT(ST_FOUND),
                          .op_outcomes = OP(ST_OP_NO_ACTION),
                          .build = st_build_remove_action,
                          .read = st_read_outcome},
    [ST_LIST_ACTIONS] = {.name = "list_actions",
                         .sql = "SELECT outcome, name, function, role, timeout_ms FROM holdfast.list_actions($1::text, $2::text, "
                                "$3::int4)",
                         .result = "2ttt8",
                         .shape = ST_MANY_ROWS,
                         .per_flush = 1,
                         .outcomes = BIT(ST_FOUND),
                         .build = st_build_list_actions,
                         .read_all = st_read_list_actions},
    [ST_OP_STATS] = {.name = "op_stats",
                     .sql = "SELECT outcome, state, count, oldest_ms FROM holdfast.op_stats()",
                     .result = "2t88",
                     .shape = ST_MANY_ROWS,
                     .per_flush = 2,
                     .outcomes = BIT(ST_FOUND),
                     .build = st_build_nothing,
                     .read_all = st_read_op_stats},
    [ST_CREATE_PRINCIPAL] =
        SETS_PRINCIPAL(create, "($1::text, $2::text, $3::bytea, $4::text, $5::int8, $6::int8, $7::int8, $8::text[], $9::text)",
                       OP(ST_AUTH_TAKEN) | OP(ST_AUTH_FULL)),
    [ST_SET_PRINCIPAL] = SETS_PRINCIPAL(set, "($1::text, $2::int8, $3::text[], $4::int8, $5::int8, $6::int8, $7::text)",
                                        OP(ST_AUTH_NONE) | OP(ST_OP_REVISION)),
    [ST_REVOKE_PRINCIPAL] =
        SETS_PRINCIPAL(revoke, "($1::text, $2::int8, $3::text, $4::text)", OP(ST_AUTH_NONE) | OP(ST_OP_REVISION)),
    [ST_LIST_PRINCIPALS] = {.name = "list_principals",
                            .sql = SELECT_PRINCIPAL "list_principals($1::text, $2::bool, $3::int4)",
                            .result = PRINCIPAL,
                            .shape = ST_MANY_ROWS,
                            .per_flush = 1,
                            .outcomes = BIT(ST_FOUND),
                            .build = st_build_list_principals,
                            .read_all = st_read_list_principals},
    [ST_AUTH_CHANGES] = {.name = "auth_changes",
                         .sql = "SELECT outcome, epoch, known, restarted, more, now_unix_ms, id, name, secret_hash, certificate, "
                                "expires_unix_ms, live, rate_per_s, rate_burst, version, grants FROM "
                                "holdfast.auth_changes($1::text, $2::int8, $3::int4)",
                         .result = "2t8??8ttyt8?888T",
                         .shape = ST_MANY_ROWS,
                         .per_flush = 1,
                         .prompt = true,
                         .outcomes = BIT(ST_FOUND),
                         .build = st_build_auth_changes,
                         .read_all = st_read_auth_changes},
    [ST_AUTH_NOTE] = {.name = "auth_note",
                      .sql = "SELECT outcome FROM holdfast.auth_note($1::text[], $2::int8[], $3::text[], $4::text[], $5::text[], "
                             "$6::int8[])",
                      .result = "2",
                      ONE_SETS,
                      .outcomes = BIT(ST_FOUND),
                      .build = st_build_auth_note,
                      .read = st_read_outcome},
    [ST_LIST_DENIALS] = {.name = "list_denials",
                         .sql = "SELECT outcome, id, minute_unix_ms, principal, name, method, reason, denials FROM "
                                "holdfast.list_denials($1::int8, $2::int4)",
                         .result = "288tttt8",
                         .shape = ST_MANY_ROWS,
                         .per_flush = 1,
                         .outcomes = BIT(ST_FOUND),
                         .build = st_build_list_denials,
                         .read_all = st_read_list_denials},
    [ST_MAP_ROLE] = {.name = "map_sql_role",
                     .sql = "SELECT outcome, message FROM holdfast.map_sql_role($1::text, $2::text, $3::text)",
                     .result = "2t",
                     ONE_SETS,
                     .outcomes = BIT(ST_FOUND) | POLICY,
                     .op_outcomes = OP(ST_OP_BAD_ACTION),
                     .build = st_build_sql_role,
                     .read = st_read_map_role},
    [ST_UNMAP_ROLE] = {.name = "unmap_sql_role",
                       .sql = "SELECT outcome, was_mapped FROM holdfast.unmap_sql_role($1::text, $2::text, $3::text)",
                       .result = "2?",
                       ONE_SETS,
                       .outcomes = BIT(ST_FOUND) | POLICY,
                       .build = st_build_sql_role,
                       .read = st_read_unmap_role},
    [ST_LIST_ROLES] = {.name = "list_sql_roles",
                       .sql = "SELECT outcome, role FROM holdfast.list_sql_roles($1::text, $2::text, $3::int4)",
                       .result = "2t",
                       .shape = ST_MANY_ROWS,
                       .per_flush = 1,
                       .outcomes = BIT(ST_FOUND),
                       .build = st_build_list_roles,
                       .read_all = st_read_list_roles},
};

const char *st_kind_name(enum st_kind kind)
{
    return kind >= 0 && kind < ST_KINDS ? st_kinds[kind].name : "unknown";
}
