/*
 * model_items.h - what the operations of model_run.h share: chance, the choice of keys and tokens, calls with arrays, comparison.
 */
#ifndef HOLDFAST_TESTS_STORE_MODEL_ITEMS_H
#define HOLDFAST_TESTS_STORE_MODEL_ITEMS_H

#include "store/model_run.h"

/* The items of one batch: different keys, by their places in world->keys. */
struct batch {
    int key[M_KEYS];
    int n;
    int64_t token[M_KEYS];
};

/* 0 to n - 1. */
uint64_t mi_random(struct m_world *w, uint64_t n);
bool mi_chance(struct m_world *w, unsigned percent);

/* The two disagree: said once, and the run ends. */
void mi_mismatch(struct m_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keys that no operation ever leases, so that some are always unknown. */
bool mi_never_leased(const struct m_key *key);
/* At least one key, each with this probability; with to_lease none of those that are never leased. */
void mi_choose_keys(struct m_world *w, struct batch *b, unsigned percent, bool to_lease);
/* Mostly the lease's; sometimes an older one, the fence, or one that never was. */
int64_t mi_choose_token(struct m_world *w, const struct m_key *key);

/* As ts_query, at the model's time: in one message, for on a busy machine each message waits for its turn. */
PGresult *mi_query(struct m_world *w, const char *sql);
/* "SELECT * FROM holdfast.FUNCTION(namespaces, resources": the rest of the arguments is the caller's, then mi_finish_call. */
void mi_start_call(struct m_world *w, struct ts_text *sql, const char *function, const struct batch *b);
/* ", bigint[]", with `null` as SQL's NULL. */
void mi_put_ints(struct ts_text *sql, const int64_t *values, int n, int64_t null);
/* Runs it. row_of[i] is the result's row of item i; there is exactly one for each. */
PGresult *mi_finish_call(struct m_world *w, struct ts_text *sql, const struct batch *b, int *row_of);

/* Counts the item; true if SQL's outcome is the model's. */
bool mi_same_outcome(struct m_world *w, const char *what, int kind, const struct m_key *key, const struct m_answer *want,
                     int64_t got);
void mi_same(struct m_world *w, const char *what, const struct m_key *key, const char *field, int64_t got, int64_t want);
void mi_same_text(struct m_world *w, const char *what, const struct m_key *key, const char *field, const char *got,
                  const char *want);

/* The name of a server, and whether SQL names the one that the model does (-1: none, ''). */
const char *mi_server(int server);
void mi_same_server(struct m_world *w, const char *what, const struct m_key *key, const char *got, int want);

/* The operations: each makes up its items, asks SQL, asks the model, and compares. In model_grants.c, model_ops.c, model_admin.c
 * and model_reads.c. */
void mo_acquire(struct m_world *w);
void mo_acquire_all(struct m_world *w);
void mo_renew(struct m_world *w);
void mo_release(struct m_world *w);
void mo_leave(struct m_world *w);
void mo_policies(struct m_world *w);
void mo_sweep(struct m_world *w);
/* Several operations about a few resources: servers wait for them, they become free, and turns are taken or run out. */
void mo_hand_over(struct m_world *w);
void mo_write(struct m_world *w);
void mo_break(struct m_world *w);
void mo_advance(struct m_world *w);
void mo_check(struct m_world *w);
void mo_read(struct m_world *w);
void mo_get(struct m_world *w);
void mo_list(struct m_world *w, bool leases);

#endif
