/*
 * keyring.c - see keyring.h.
 */
#include "unit/service/keyring.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "holdfast/v1/admin.pb-c.h"

static bool random_bytes(void *arg, void *buffer, size_t size)
{
    (void)arg;
    return hb_random_bytes(buffer, size);
}

void ring_init(struct ring *ring)
{
    *ring = (struct ring){.ahead_ms = 1000000000, .epoch = "first"};
}

void ring_grant(struct ring_key *key, int role, const char *ns, const char *resources, const char *operations)
{
    assert_true(key->n_grants < RING_GRANTS);
    key->grants[key->n_grants++] = (struct st_grant){role, ns, resources, operations};
}

struct ring_key *ring_add(struct ring *ring, const char *name, int role, const char *ns, const char *resources,
                          const char *operations)
{
    assert_true(ring->n < RING_MAX);
    struct ring_key *key = &ring->keys[ring->n++];
    char text[SVC_KEY_SIZE];
    assert_true(svc_key_make(random_bytes, NULL, text, &key->key));
    memcpy(key->text, text, sizeof(text));
    snprintf(key->header, sizeof(key->header), "Bearer %s", text);
    snprintf(key->name, sizeof(key->name), "%s", name);
    key->version = ++ring->version;
    if (role)
        ring_grant(key, role, ns, resources, operations);
    return key;
}

void ring_change(struct ring *ring, struct ring_key *key)
{
    key->version = ++ring->version;
}

struct st_item *ring_item(struct fake *f, enum st_kind kind, size_t *at)
{
    for (size_t i = 0; i < f->n_items; i++) {
        if (f->items[i]->kind != kind)
            continue;
        if (at)
            *at = i;
        return f->items[i];
    }
    return NULL;
}

static int by_version(const void *a, const void *b)
{
    int64_t left = (*(struct ring_key *const *)a)->version, right = (*(struct ring_key *const *)b)->version;
    return (left > right) - (left < right);
}

/* As auth_changes() of schema/functions/56_principals.sql does it. */
void ring_answer(struct fake *f, const struct ring *ring, size_t max)
{
    size_t at, n = 0, told_n = 0;
    struct st_item *item = ring_item(f, ST_AUTH_CHANGES, &at);
    const struct ring_key *sorted[RING_MAX];
    struct st_auth_row rows[RING_MAX];
    assert_non_null(item);
    bool restarted = strcmp(item->in.auth_ask.epoch, ring->epoch) != 0 || ring->version < item->in.auth_ask.after;
    int64_t after = restarted ? 0 : item->in.auth_ask.after;
    for (size_t i = 0; i < ring->n; i++)
        if (ring->keys[i].version > after && (!restarted || !ring->keys[i].revoked))
            sorted[n++] = &ring->keys[i];
    qsort(sorted, n, sizeof(sorted[0]), by_version);
    max = max && max < (size_t)item->in.auth_ask.max ? max : (size_t)item->in.auth_ask.max;
    for (; told_n < n && told_n < max; told_n++) {
        const struct ring_key *key = sorted[told_n];
        rows[told_n] = (struct st_auth_row){.principal = {.id = key->key.id,
                                                          .name = key->name,
                                                          .certificate = key->certificate ? key->certificate : "",
                                                          .created_by = "",
                                                          .revoked_by = "",
                                                          .expires_unix_ms = key->expires_unix_ms,
                                                          .rate_per_s = key->rate_per_s,
                                                          .rate_burst = key->rate_burst,
                                                          .version = key->version,
                                                          .grants = key->grants,
                                                          .n_grants = key->n_grants},
                                            .live = !key->revoked};
        if (!key->certificate)
            rows[told_n].secret_hash = (struct st_bytes){key->key.hash, sizeof(key->key.hash)};
    }
    item->out.auth = (struct st_auth_told){.epoch = ring->epoch,
                                           .known = told_n < n ? sorted[told_n - 1]->version : ring->version,
                                           .restarted = restarted,
                                           .more = told_n < n,
                                           .now_unix_ms = f->now_ms + ring->ahead_ms,
                                           .rows = rows,
                                           .n = told_n};
    fake_done(f, at, ST_FOUND);
}

void ring_learn(struct fake *f, const struct ring *ring)
{
    static const char nobody[] = "Bearer hfk_00000000000_000000000000000000000000000000000";
    const char *before = f->authorization;
    f->authorization = nobody;
    struct fake_call *call = fake_call_bytes(f, "/holdfast.v1.AdminService/Stats", "", 0, 0);
    f->authorization = before;
    assert_int_equal(call->answers, 0); /* it waits to be looked at */
    while (ring_item(f, ST_AUTH_CHANGES, NULL))
        ring_answer(f, ring, 0);
    fake_assert_error(call, HP_UNAUTHENTICATED, HP_R_BAD_KEY);
}

void ring_end_items(struct fake *f)
{
    for (size_t i = 0; i < f->n_items;) {
        if (f->items[i]->kind == ST_AUTH_NOTE)
            i++;
        else
            fake_done(f, i, ST_DATABASE_DOWN);
    }
}
