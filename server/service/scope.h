/*
 * scope.h - what a call names, and whether its caller may: one place for all methods, by the names of the fields in their requests.
 *
 * A request's fields `namespace`, `resource`, `resources`, `key`, `operation`, `prefix`, and `resource` and `key` of its `items`
 * say what it is about. Requests that have a namespace and none of the others concern the whole namespace, and need a grant without
 * prefixes (CancelWait excepted, which takes away only one's own). Requests without a namespace concern the server; their handlers
 * look for themselves at what the caller may see. CreateNamespace and SetNamespace say `name` for the namespace.
 *
 * Everything here is true of callers that need no key: they may do and see everything.
 */
#ifndef HOLDFAST_SERVICE_SCOPE_H
#define HOLDFAST_SERVICE_SCOPE_H

#include <stdbool.h>
#include <stddef.h>

#include "service/call.h"
#include "store/principals.h"

struct svc_principal;

/* Where a method's request says what it is about; NULL = nowhere. */
struct svc_naming {
    const ProtobufCFieldDescriptor *ns, *resource, *resources, *key, *operation, *prefix, *items, *item_resource, *item_key, *actor;
    bool prefix_of_keys; /* and not of resources */
    bool whole;          /* it concerns the whole namespace */
    bool own;            /* CancelWait */
    bool
        everywhere; /* RegisterAction: SQL functions are the whole database's, so one namespace's admin may not choose among them */
};

void svc_naming_of(const struct svc_method *method, struct svc_naming *out);

/* A grant covers all that the request names, with a role that is enough. Otherwise `status` is PERMISSION_DENIED / SCOPE. */
bool svc_scope_covers(const struct svc_principal *who, const struct svc_method *method, const struct svc_naming *naming,
                      const void *request, struct hp_status *status) __attribute__((warn_unused_result));

/* Some grant of the caller's has a role that is enough for the call's method, for this namespace, and includes this. */
bool svc_sees_resource(const struct svc_call *sc, const char *ns, const char *resource);
bool svc_sees_operation(const struct svc_call *sc, const char *ns, const char *key);
/* Includes all of the namespace; something in it; everything there is. */
bool svc_sees_all_of(const struct svc_call *sc, const char *ns);
bool svc_sees_some_of(const struct svc_call *sc, const char *ns);
bool svc_sees_everything(const struct svc_call *sc);

/* The longest prefix of all names that begin with `prefix` and that the caller may see: what a list asks the store for. Each name
 * found is still to be looked at. In the call's arena, or `prefix` itself. NULL: no memory. */
const char *svc_narrow_resources(struct svc_call *sc, const char *ns, const char *prefix);
const char *svc_narrow_operations(struct svc_call *sc, const char *ns, const char *prefix);

/* The caller may give this to others: it lies within one of its own admin grants. */
bool svc_may_give(const struct svc_call *sc, const struct st_grant *grant);

/* In the audit, who did it is the principal, and what the caller says of itself stands behind that: "billing (alice@laptop)". The
 * request's `actor` says so from now on. False: no memory. What is no name is left for the handler to refuse. */
bool svc_name_actor(struct svc_call *sc, const struct svc_naming *naming) __attribute__((warn_unused_result));

#endif
