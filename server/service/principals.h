/*
 * principals.h - the principals that a server knows: keys and certificates that are not revoked, by id and by certificate. For
 * auth*.c.
 *
 * A principal doesn't change: a newer version takes its place, and inherits its bucket and when it was used. Who holds one (`refs`)
 * may go on looking at it when it is `dead`, that is, replaced or gone. No I/O; the loop's thread.
 */
#ifndef HOLDFAST_SERVICE_PRINCIPALS_H
#define HOLDFAST_SERVICE_PRINCIPALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/rate.h"
#include "service/key.h"
#include "store/principals.h"

enum { SVC_PRINCIPALS_MAX = 100000, SVC_PRINCIPAL_BUCKETS = 1 << 16 };

struct svc_principal {
    struct svc_principal *next_id, *next_certificate; /* of its bucket */
    size_t refs;                                      /* 1 for the table */
    bool dead;
    unsigned generation;
    char id[SVC_KEY_ID + 1];
    unsigned char hash[HP_SHA256_SIZE]; /* of the secret, if `certificate` is NULL */
    const char *name, *certificate;
    int64_t expires_unix_ms; /* 0 = never */
    int64_t version, rate_per_s, rate_burst;
    struct co_rate rate;
    int64_t used_ms, noted_ms; /* when it was last used, and when that was last noted; 0 = never */
    bool unnoted;              /* it is in the list of those to be noted */
    struct list_node node;     /* of that list */
    size_t n_grants;
    struct st_grant grants[]; /* and behind them the strings of all of this */
};

struct svc_principals {
    struct svc_principal **by_id, **by_certificate;
    size_t n;
};

/* False: no memory. */
bool svc_principals_init(struct svc_principals *all) __attribute__((warn_unused_result));
/* Those that others hold live on. */
void svc_principals_release(struct svc_principals *all);

struct svc_principal *svc_principals_find(const struct svc_principals *all, const char *id);
struct svc_principal *svc_principals_by_certificate(const struct svc_principals *all, const char *certificate);

/* The principal is known as the row has it. False: no memory, or there are too many, or the row makes no sense. */
bool svc_principals_put(struct svc_principals *all, const struct st_auth_row *row, unsigned generation)
    __attribute__((warn_unused_result));
/* It isn't known any more, if it was. */
void svc_principals_forget(struct svc_principals *all, const char *id);
/* Those of other generations are not known any more; with `expired_ms`, those that had expired by then (Unix time) of any. */
void svc_principals_keep(struct svc_principals *all, unsigned generation);
void svc_principals_forget_expired(struct svc_principals *all, int64_t now_unix_ms);

/* One more holder, and one less. NULL is allowed. */
struct svc_principal *svc_principal_hold(struct svc_principal *who);
void svc_principal_drop(struct svc_principal *who);

#endif
