/*
 * principals.h - what items of keys, certificates and SQL roles carry: part of store.h.
 */
#ifndef HOLDFAST_STORE_PRINCIPALS_H
#define HOLDFAST_STORE_PRINCIPALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bytes.h"

enum { ST_GRANTS_MAX = 16, ST_HASH_BYTES = 32 };

/* What a principal may do, and where. The numbers of holdfast.v1.KeyGrant.Role. */
enum st_grant_role { ST_READER = 1, ST_WORKER = 2, ST_OPERATOR = 3, ST_ADMIN = 4 };

struct st_grant {
    int role;                           /* enum st_grant_role */
    const char *ns;                     /* "" = all */
    const char *resources, *operations; /* prefixes; "" = all */
};

/* Of ST_CREATE_PRINCIPAL, ST_SET_PRINCIPAL, ST_REVOKE_PRINCIPAL, ST_LIST_PRINCIPALS. */
struct st_principals {
    const char *id;
    const char *name, *certificate; /* certificate NULL: an API key */
    struct st_bytes secret_hash;    /* ST_HASH_BYTES of them; none for a certificate */
    int64_t expires_in_ms;          /* 0 = never; set: ST_UNSET = as it is */
    int64_t rate_per_s, rate_burst; /* set: ST_UNSET = as it is */
    const struct st_grant *grants;  /* at most ST_GRANTS_MAX; set: none = as they are */
    size_t n_grants;
    int64_t version; /* set, revoke: the one that was looked at; 0 = any */
    const char *actor, *reason;
    const char *after; /* list: those behind this id; "" = from the start */
    bool revoked;      /* list: those too */
    int64_t max;
};

struct st_principal_row {
    const char *id, *name, *certificate, *created_by, *revoked_by;
    int64_t created_unix_ms, expires_unix_ms, revoked_unix_ms, last_used_unix_ms, rate_per_s, rate_burst, version;
    const struct st_grant *grants;
    size_t n_grants;
};

struct st_principals_told {
    const struct st_principal_row *rows; /* ST_LIST_PRINCIPALS; of the others one, with ST_FOUND */
    size_t n;
    bool more;
};

/* Of ST_AUTH_CHANGES. */
struct st_auth_ask {
    const char *epoch; /* "" = nothing is known */
    int64_t after;     /* the version up to which all is known */
    int64_t max;
};

struct st_auth_row {
    struct st_principal_row principal; /* without what concerns its making and its use */
    struct st_bytes secret_hash;       /* none: it is a certificate */
    bool live;                         /* false: it was revoked */
};

struct st_auth_told {
    const char *epoch;
    int64_t known;  /* all is known up to this version now */
    bool restarted; /* it begins from the start: what was known before doesn't count any more */
    bool more;      /* ask again, after `known` */
    int64_t now_unix_ms;
    const struct st_auth_row *rows;
    size_t n;
};

struct st_denial {
    const char *principal; /* its id; "" = nobody */
    const char *method, *reason;
    int64_t count;
};

/* Of ST_AUTH_NOTE. */
struct st_auth_note {
    const char *const *used; /* ids */
    const int64_t *ago_ms;   /* when each was last used */
    size_t n_used;
    const struct st_denial *denials;
    size_t n_denials;
};

struct st_denial_row {
    int64_t id, minute_unix_ms, count;
    const char *principal, *name, *method, *reason;
};

/* Of ST_LIST_DENIALS. */
struct st_denials_told {
    const struct st_denial_row *rows;
    size_t n;
    bool more;
};

/* Of ST_MAP_ROLE, ST_UNMAP_ROLE, ST_LIST_ROLES. */
struct st_sql_roles {
    const char *role, *actor;
    const char *after; /* list */
    int64_t max;
};

struct st_sql_roles_told {
    const char *const *rows; /* list: names */
    size_t n;
    bool more, was_mapped;
    const char *message; /* ST_OP_BAD_ACTION: what the role would have to be */
};

#endif
