/*
 * kind_io.h - what the table of kinds refers to: for each kind, how its parameters are built and its rows are read (kind_io.c,
 * kind_rows.c, kind_admin.c; of operations kind_operations.c, kind_operators.c; of principals kind_principals.c).
 */
#ifndef HOLDFAST_STORE_KIND_IO_H
#define HOLDFAST_STORE_KIND_IO_H

#include "store/kinds.h"

/* For builders: one array parameter of `call->n` elements; `item` is each of them in turn. */
#define ST_BUILD_ARRAY(oid, element, ...)                                                                                          \
    do {                                                                                                                           \
        st_params_array(params, oid, call->n);                                                                                     \
        for (size_t i_ = 0; i_ < call->n; i_++) {                                                                                  \
            const struct st_item *item = call->items[i_];                                                                          \
            element(params, __VA_ARGS__);                                                                                          \
        }                                                                                                                          \
    } while (0)

/* Builders: one parameter after the other, in the order of the statement. */
void st_build_keys(struct st_params *params, const struct st_call *call);
void st_build_asked(struct st_params *params, const struct st_call *call);
void st_build_acquire(struct st_params *params, const struct st_call *call);
void st_build_acquire_all(struct st_params *params, const struct st_call *call);
void st_build_renew(struct st_params *params, const struct st_call *call);
void st_build_release(struct st_params *params, const struct st_call *call);
void st_build_leave(struct st_params *params, const struct st_call *call);
void st_build_check(struct st_params *params, const struct st_call *call);
void st_build_write(struct st_params *params, const struct st_call *call);
void st_build_list_leases(struct st_params *params, const struct st_call *call);
void st_build_list_resources(struct st_params *params, const struct st_call *call);
void st_build_break(struct st_params *params, const struct st_call *call);
void st_build_advance(struct st_params *params, const struct st_call *call);
void st_build_namespace(struct st_params *params, const struct st_call *call);
void st_build_list_namespaces(struct st_params *params, const struct st_call *call);
void st_build_audit(struct st_params *params, const struct st_call *call);
void st_build_nothing(struct st_params *params, const struct st_call *call);
void st_build_op_begin(struct st_params *params, const struct st_call *call);
void st_build_op_renew(struct st_params *params, const struct st_call *call);
void st_build_op_sending(struct st_params *params, const struct st_call *call);
void st_build_op_finish(struct st_params *params, const struct st_call *call);
void st_build_op_record(struct st_params *params, const struct st_call *call);
void st_build_op_execute(struct st_params *params, const struct st_call *call);
void st_build_op_list(struct st_params *params, const struct st_call *call);
void st_build_op_attempts(struct st_params *params, const struct st_call *call);
void st_build_op_decide(struct st_params *params, const struct st_call *call);
void st_build_op_compensate(struct st_params *params, const struct st_call *call);
void st_build_op_policy(struct st_params *params, const struct st_call *call);
void st_build_list_op_policies(struct st_params *params, const struct st_call *call);
void st_build_register_action(struct st_params *params, const struct st_call *call);
void st_build_remove_action(struct st_params *params, const struct st_call *call);
void st_build_list_actions(struct st_params *params, const struct st_call *call);
void st_build_create_principal(struct st_params *params, const struct st_call *call);
void st_build_set_principal(struct st_params *params, const struct st_call *call);
void st_build_revoke_principal(struct st_params *params, const struct st_call *call);
void st_build_list_principals(struct st_params *params, const struct st_call *call);
void st_build_auth_changes(struct st_params *params, const struct st_call *call);
void st_build_auth_note(struct st_params *params, const struct st_call *call);
void st_build_list_denials(struct st_params *params, const struct st_call *call);
void st_build_sql_role(struct st_params *params, const struct st_call *call);
void st_build_list_roles(struct st_params *params, const struct st_call *call);

/* Readers of one row: into the outputs of the item, whose outcome is set already; columns in the order of the statement. */
void st_read_acquire(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_renew(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_turn(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_check(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_write(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_read(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_get(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_break(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_advance(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_namespace(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_stats(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_outcome(const PGresult *res, int row, struct st_item *item, struct st_call *call); /* there is nothing else */
void st_read_op_begin(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_sending(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_finish(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_record(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_execute(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_get(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_decide(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_compensate(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_op_policy(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_register_action(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_principal(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_map_role(const PGresult *res, int row, struct st_item *item, struct st_call *call);
void st_read_unmap_role(const PGresult *res, int row, struct st_item *item, struct st_call *call);

/* Readers of all rows: they set the outcome too. False: the rows make no sense. */
bool st_read_acquire_all(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_leases(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_resources(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_namespaces(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_audit(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_op_list(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_op_attempts(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_op_stats(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_op_policies(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_actions(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_principals(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_auth_changes(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_denials(const PGresult *res, struct st_item *item, struct st_call *call);
bool st_read_list_roles(const PGresult *res, struct st_item *item, struct st_call *call);

/* How much an item's bytes weigh in a batch, of any kind that has some. */
size_t st_weigh_write(const struct st_item *item);
size_t st_weigh_asked(const struct st_item *item);
/* Its value is so large that it is asked for again, by this weight. */
bool st_read_later(struct st_item *item, int64_t bytes);
size_t st_weigh_operation(const struct st_item *item);

/* Shared by the files of readers. */

/* Zeroed memory that goes with the call, or NULL. */
void *st_call_alloc(struct st_call *call, size_t size);
/* There is no memory for what the database answered. What the item did, if it is of a kind that writes, is done. */
void st_rows_no_memory(struct st_item *item);
/* How many rows a page has if so many are asked for. */
int32_t st_page(int64_t asked);
/* The item's outcome is set, and so is how many of a list's rows are the caller's (SQL sends one more than asked for if there are
 * more): memory for so many, of `size` each, to be filled. NULL: there is none to fill. */
void *st_list_rows(const PGresult *res, struct st_item *item, struct st_call *call, int64_t asked, size_t size, size_t *n,
                   bool *more);
/* A text[] as *n texts, which go with the call; NULL reads as "", and what makes no sense as none. False: no memory. */
bool st_read_texts(const PGresult *res, int row, int col, struct st_call *call, const char *const **texts, size_t *n);
/* A server that has got the turn by this is to be told; "" = none has. */
void st_tell_next(struct st_call *call, const char *server, const char *ns, const char *resource);

#endif
