/*
 * principals.c - see principals.h.
 */
#include "service/principals.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static size_t bucket_of(const char *text)
{
    return (size_t)hb_hash_mix(hb_hash_str(HB_HASH_SEED, text)) & (SVC_PRINCIPAL_BUCKETS - 1);
}

bool svc_principals_init(struct svc_principals *all)
{
    *all = (struct svc_principals){.by_id = calloc(SVC_PRINCIPAL_BUCKETS, sizeof(*all->by_id)),
                                   .by_certificate = calloc(SVC_PRINCIPAL_BUCKETS, sizeof(*all->by_certificate))};
    if (all->by_id && all->by_certificate)
        return true;
    svc_principals_release(all);
    return false;
}

struct svc_principal *svc_principal_hold(struct svc_principal *who)
{
    if (who)
        who->refs++;
    return who;
}

void svc_principal_drop(struct svc_principal *who)
{
    if (who && --who->refs == 0)
        free(who);
}

struct svc_principal *svc_principals_find(const struct svc_principals *all, const char *id)
{
    struct svc_principal *at = all->by_id[bucket_of(id)];
    while (at && strcmp(at->id, id) != 0)
        at = at->next_id;
    return at;
}

struct svc_principal *svc_principals_by_certificate(const struct svc_principals *all, const char *certificate)
{
    struct svc_principal *at = all->by_certificate[bucket_of(certificate)];
    while (at && strcmp(at->certificate, certificate) != 0)
        at = at->next_certificate;
    return at;
}

/* It leaves the table, and whoever doesn't hold it must not look at it any more. */
static void take_out(struct svc_principals *all, struct svc_principal *who)
{
    struct svc_principal **link = &all->by_id[bucket_of(who->id)];
    while (*link != who)
        link = &(*link)->next_id;
    *link = who->next_id;
    if (who->certificate) {
        link = &all->by_certificate[bucket_of(who->certificate)];
        while (*link != who)
            link = &(*link)->next_certificate;
        *link = who->next_certificate;
    }
    all->n--;
    who->dead = true;
    svc_principal_drop(who);
}

static void put_in(struct svc_principals *all, struct svc_principal *who)
{
    struct svc_principal **bucket = &all->by_id[bucket_of(who->id)];
    who->next_id = *bucket;
    *bucket = who;
    if (who->certificate) {
        bucket = &all->by_certificate[bucket_of(who->certificate)];
        who->next_certificate = *bucket;
        *bucket = who;
    }
    all->n++;
}

void svc_principals_forget(struct svc_principals *all, const char *id)
{
    struct svc_principal *who = svc_principals_find(all, id);
    if (who)
        take_out(all, who);
}

static void forget_if(struct svc_principals *all, bool (*over)(const struct svc_principal *who, int64_t arg), int64_t arg)
{
    for (size_t i = 0; all->by_id && i < SVC_PRINCIPAL_BUCKETS; i++) {
        for (struct svc_principal *at = all->by_id[i], *next; at; at = next) {
            next = at->next_id;
            if (over(at, arg))
                take_out(all, at);
        }
    }
}

static bool of_another(const struct svc_principal *who, int64_t generation)
{
    return (int64_t)who->generation != generation;
}

static bool expired(const struct svc_principal *who, int64_t now_unix_ms)
{
    return who->expires_unix_ms && who->expires_unix_ms <= now_unix_ms;
}

static bool any(const struct svc_principal *who, int64_t arg)
{
    (void)who;
    (void)arg;
    return true;
}

void svc_principals_keep(struct svc_principals *all, unsigned generation)
{
    forget_if(all, of_another, generation);
}

void svc_principals_forget_expired(struct svc_principals *all, int64_t now_unix_ms)
{
    forget_if(all, expired, now_unix_ms);
}

void svc_principals_release(struct svc_principals *all)
{
    if (all->by_id && all->by_certificate)
        forget_if(all, any, 0);
    free(all->by_id);
    free(all->by_certificate);
    *all = (struct svc_principals){.n = 0};
}

/* ---- from a row ---- */

static const char *keep(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *kept = memcpy(*at, text, size);
    *at += size;
    return kept;
}

static size_t size_of_texts(const struct st_principal_row *row)
{
    size_t size = strlen(row->name) + strlen(row->certificate) + 2;
    for (size_t i = 0; i < row->n_grants; i++)
        size += strlen(row->grants[i].ns) + strlen(row->grants[i].resources) + strlen(row->grants[i].operations) + 3;
    return size;
}

static struct svc_principal *from_row(const struct st_auth_row *from)
{
    const struct st_principal_row *row = &from->principal;
    struct svc_principal *who = calloc(1, sizeof(*who) + row->n_grants * sizeof(who->grants[0]) + size_of_texts(row));
    if (!who)
        return NULL;
    char *at = (char *)&who->grants[row->n_grants];
    who->refs = 1;
    memcpy(who->id, row->id, sizeof(who->id));
    who->name = keep(&at, row->name);
    if (from->secret_hash.data)
        memcpy(who->hash, from->secret_hash.data, sizeof(who->hash));
    else
        who->certificate = keep(&at, row->certificate);
    who->expires_unix_ms = row->expires_unix_ms;
    who->version = row->version;
    who->rate_per_s = row->rate_per_s;
    who->rate_burst = row->rate_burst;
    who->n_grants = row->n_grants;
    for (size_t i = 0; i < row->n_grants; i++)
        who->grants[i] = (struct st_grant){.role = row->grants[i].role,
                                           .ns = keep(&at, row->grants[i].ns),
                                           .resources = keep(&at, row->grants[i].resources),
                                           .operations = keep(&at, row->grants[i].operations)};
    return who;
}

/* What the functions of the schema let through; but who may call is not decided by what makes no sense. */
static bool makes_sense(const struct st_auth_row *row)
{
    bool key = row->secret_hash.data != NULL;
    return svc_key_id_valid(row->principal.id) && row->principal.n_grants <= ST_GRANTS_MAX &&
           key == !row->principal.certificate[0] && (!key || row->secret_hash.len == HP_SHA256_SIZE);
}

bool svc_principals_put(struct svc_principals *all, const struct st_auth_row *row, unsigned generation)
{
    struct svc_principal *old = svc_principals_find(all, row->principal.id);
    struct svc_principal *who = makes_sense(row) && (old || all->n < SVC_PRINCIPALS_MAX) ? from_row(row) : NULL;
    if (old && who) {
        who->rate = old->rate;
        who->used_ms = old->used_ms;
        who->noted_ms = old->noted_ms;
    }
    if (old)
        take_out(all, old); /* also if there is no memory: nobody is let in by what was true before */
    if (!who)
        return false;
    who->generation = generation;
    put_in(all, who);
    return true;
}
