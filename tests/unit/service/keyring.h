/*
 * keyring.h - keys for the tests of who may do what: made here, and told to the services as the database would tell them.
 */
#ifndef HOLDFAST_TESTS_UNIT_SERVICE_KEYRING_H
#define HOLDFAST_TESTS_UNIT_SERVICE_KEYRING_H

#include "unit/service/fake.h"

#include "service/key.h"

enum { RING_GRANTS = 4, RING_MAX = 200 };

struct ring_key {
    char text[SVC_KEY_SIZE], header[SVC_KEY_SIZE + 8]; /* "Bearer hfk_…" */
    struct svc_key key;
    char name[80];
    const char *certificate; /* NULL: it is a key */
    int64_t expires_unix_ms, rate_per_s, rate_burst, version;
    bool revoked;
    size_t n_grants;
    struct st_grant grants[RING_GRANTS];
};

/* The database: its clock is 1,000,000,000 ms ahead of the fake's, or `ahead_ms`. */
struct ring {
    struct ring_key keys[RING_MAX];
    size_t n;
    int64_t version, ahead_ms;
    const char *epoch;
};

void ring_init(struct ring *ring);
/* A key with this grant; more may be added, before it is told. */
struct ring_key *ring_add(struct ring *ring, const char *name, int role, const char *ns, const char *resources,
                          const char *operations);
void ring_grant(struct ring_key *key, int role, const char *ns, const char *resources, const char *operations);
/* It was changed: it will be told again. */
void ring_change(struct ring *ring, struct ring_key *key);

/* The first item of this kind that is out, or NULL; its place. */
struct st_item *ring_item(struct fake *f, enum st_kind kind, size_t *at);
/* The question what has changed, which must be out, is answered by what the ring has; at most `max` a page (0 = what was asked
 * for). */
void ring_answer(struct fake *f, const struct ring *ring, size_t max);
/* A first call asks, and is answered: the services know the ring. */
void ring_learn(struct fake *f, const struct ring *ring);
/* Whatever is out, of any kind but the notes, ends as DATABASE_DOWN. */
void ring_end_items(struct fake *f);

#endif
