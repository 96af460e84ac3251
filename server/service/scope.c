/*
 * scope.c - see scope.h.
 */
#include "service/scope.h"

#include <stdio.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/utf8.h"
#include "proto/c/wire.h"
#include "service/principals.h"

enum { NAME_MAX_BYTES = 256 };

/* ---- where it stands ---- */

static const ProtobufCFieldDescriptor *field(const ProtobufCMessageDescriptor *type, const char *name, ProtobufCType wanted,
                                             ProtobufCLabel label)
{
    const ProtobufCFieldDescriptor *found = type ? protobuf_c_message_descriptor_get_field_by_name(type, name) : NULL;
    return found && found->type == wanted && found->label == label ? found : NULL;
}

static const ProtobufCFieldDescriptor *text(const ProtobufCMessageDescriptor *type, const char *name)
{
    return field(type, name, PROTOBUF_C_TYPE_STRING, PROTOBUF_C_LABEL_NONE);
}

void svc_naming_of(const struct svc_method *method, struct svc_naming *out)
{
    const ProtobufCMessageDescriptor *type = method->rpc.request;
    *out = (struct svc_naming){.ns = text(type, "namespace"),
                               .resource = text(type, "resource"),
                               .resources = field(type, "resources", PROTOBUF_C_TYPE_STRING, PROTOBUF_C_LABEL_REPEATED),
                               .key = text(type, "key"),
                               .operation = text(type, "operation"),
                               .prefix = text(type, "prefix"),
                               .items = field(type, "items", PROTOBUF_C_TYPE_MESSAGE, PROTOBUF_C_LABEL_REPEATED),
                               .actor = text(type, "actor")};
    if (type == &holdfast__v1__create_namespace_request__descriptor || type == &holdfast__v1__set_namespace_request__descriptor)
        out->ns = text(type, "name");
    if (out->items) {
        out->item_resource = text(out->items->descriptor, "resource");
        out->item_key = text(out->items->descriptor, "key");
    }
    out->prefix_of_keys = strstr(method->rpc.path, ".OperationService/") != NULL;
    out->everywhere = type == &holdfast__v1__register_action_request__descriptor;
    out->own = type == &holdfast__v1__cancel_wait_request__descriptor;
    out->whole = out->ns && !out->own && !out->resource && !out->resources && !out->key && !out->operation && !out->prefix &&
                 !out->item_resource && !out->item_key;
}

static const char *text_at(const void *message, const ProtobufCFieldDescriptor *at)
{
    const char *value = at ? *(char *const *)((const char *)message + at->offset) : NULL;
    return value ? value : "";
}

static size_t count_at(const void *message, const ProtobufCFieldDescriptor *at)
{
    return at ? *(const size_t *)((const char *)message + at->quantifier_offset) : 0;
}

/* ---- what a grant covers ---- */

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* A list of names that begin with `asked` may have some that begin with `prefix`. */
static bool meets(const char *asked, const char *prefix)
{
    return begins(asked, prefix) || begins(prefix, asked);
}

static bool in_namespace(const struct st_grant *grant, const char *ns)
{
    return !grant->ns[0] || !strcmp(grant->ns, ns);
}

/* A name that isn't given is none that could lie outside. */
static bool within(const char *name, const char *prefix)
{
    return !name[0] || begins(name, prefix);
}

static bool covers_items(const struct st_grant *grant, const struct svc_naming *naming, const void *request)
{
    size_t n = count_at(request, naming->items);
    void *const *items = n ? *(void *const *const *)((const char *)request + naming->items->offset) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!within(text_at(items[i], naming->item_resource), grant->resources) ||
            !within(text_at(items[i], naming->item_key), grant->operations))
            return false;
    return true;
}

static bool covers_resources(const struct st_grant *grant, const struct svc_naming *naming, const void *request)
{
    size_t n = count_at(request, naming->resources);
    char *const *names = n ? *(char *const *const *)((const char *)request + naming->resources->offset) : NULL;
    for (size_t i = 0; i < n; i++)
        if (!within(names[i], grant->resources))
            return false;
    return true;
}

/* NULL: all of it. Otherwise the field that lies outside. */
static const char *outside(const struct st_grant *grant, const struct svc_naming *naming, const void *request)
{
    if (naming->ns && !in_namespace(grant, text_at(request, naming->ns)))
        return "namespace";
    if (naming->everywhere && grant->ns[0])
        return "namespace";
    if (naming->whole && (grant->resources[0] || grant->operations[0]))
        return "namespace";
    if (!within(text_at(request, naming->resource), grant->resources))
        return "resource";
    if (!covers_resources(grant, naming, request))
        return "resources";
    if (!within(text_at(request, naming->key), grant->operations))
        return "key";
    if (!within(text_at(request, naming->operation), grant->operations))
        return "operation";
    if (naming->prefix && !meets(text_at(request, naming->prefix), naming->prefix_of_keys ? grant->operations : grant->resources))
        return "prefix";
    return covers_items(grant, naming, request) ? NULL : "items";
}

bool svc_scope_covers(const struct svc_principal *who, const struct svc_method *method, const struct svc_naming *naming,
                      const void *request, struct hp_status *status)
{
    const char *named = "namespace";
    for (size_t i = 0; i < who->n_grants; i++) {
        const struct st_grant *grant = &who->grants[i];
        const char *missed = grant->role < (int)method->role ? "namespace" : outside(grant, naming, request);
        if (!missed)
            return true;
        if (strcmp(missed, "namespace") != 0)
            named = missed; /* of what came nearest */
    }
    hp_status_set(status, HP_R_SCOPE, "this key does not reach so far: %s lies outside of it", named);
    hp_status_meta(status, "method", "%s", method->rpc.path);
    hp_status_meta(status, "field", "%s", named);
    return false;
}

/* ---- what a caller may see ---- */

/* The next grant, from *at on, that counts for the call in this namespace (NULL: in any); NULL: there is none. */
static const struct st_grant *next_grant(const struct svc_call *sc, const char *ns, size_t *at)
{
    const struct svc_principal *who = sc->principal;
    while (*at < who->n_grants) {
        const struct st_grant *grant = &who->grants[(*at)++];
        if (grant->role >= (int)sc->method->role && (!ns || in_namespace(grant, ns)))
            return grant;
    }
    return NULL;
}

bool svc_sees_resource(const struct svc_call *sc, const char *ns, const char *resource)
{
    const struct st_grant *grant;
    for (size_t at = 0; sc->principal && (grant = next_grant(sc, ns, &at));)
        if (begins(resource, grant->resources))
            return true;
    return !sc->principal;
}

bool svc_sees_operation(const struct svc_call *sc, const char *ns, const char *key)
{
    const struct st_grant *grant;
    for (size_t at = 0; sc->principal && (grant = next_grant(sc, ns, &at));)
        if (begins(key, grant->operations))
            return true;
    return !sc->principal;
}

bool svc_sees_all_of(const struct svc_call *sc, const char *ns)
{
    const struct st_grant *grant;
    for (size_t at = 0; sc->principal && (grant = next_grant(sc, ns, &at));)
        if (!grant->resources[0] && !grant->operations[0])
            return true;
    return !sc->principal;
}

bool svc_sees_some_of(const struct svc_call *sc, const char *ns)
{
    size_t at = 0;
    return !sc->principal || next_grant(sc, ns, &at);
}

bool svc_sees_everything(const struct svc_call *sc)
{
    const struct st_grant *grant;
    for (size_t at = 0; sc->principal && (grant = next_grant(sc, NULL, &at));)
        if (!grant->ns[0] && !grant->resources[0] && !grant->operations[0])
            return true;
    return !sc->principal;
}

/* How many bytes they have in common, up to the end of a character. */
static size_t in_common(const char *a, size_t len, const char *b)
{
    size_t n = 0;
    while (n < len && a[n] == b[n])
        n++;
    while (n > 0 && n < len && ((unsigned char)a[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static const char *narrow(struct svc_call *sc, const char *ns, const char *prefix, bool keys)
{
    const char *common = NULL;
    size_t len = 0, at = 0;
    const struct st_grant *grant;
    if (!sc->principal)
        return prefix;
    while ((grant = next_grant(sc, ns, &at))) {
        const char *its = keys ? grant->operations : grant->resources;
        if (!meets(prefix, its))
            continue;
        len = common ? in_common(common, len, its) : strlen(its);
        common = common ? common : its;
    }
    return len > strlen(prefix) ? hp_strndup(sc->arena, common, len) : prefix;
}

const char *svc_narrow_resources(struct svc_call *sc, const char *ns, const char *prefix)
{
    return narrow(sc, ns, prefix, false);
}

const char *svc_narrow_operations(struct svc_call *sc, const char *ns, const char *prefix)
{
    return narrow(sc, ns, prefix, true);
}

bool svc_may_give(const struct svc_call *sc, const struct st_grant *grant)
{
    const struct svc_principal *who = sc->principal;
    for (size_t i = 0; who && i < who->n_grants; i++) {
        const struct st_grant *own = &who->grants[i];
        if (own->role == ST_ADMIN && (!own->ns[0] || !strcmp(own->ns, grant->ns)) && begins(grant->resources, own->resources) &&
            begins(grant->operations, own->operations))
            return true;
    }
    return !who;
}

/* ---- who it was ---- */

bool svc_name_actor(struct svc_call *sc, const struct svc_naming *naming)
{
    char both[NAME_MAX_BYTES + 1];
    struct hp_status ignored;
    if (!naming->actor || !sc->principal)
        return true;
    char **actor = (char **)((char *)(uintptr_t)sc->request + naming->actor->offset);
    const char *name = sc->principal->name;
    if ((*actor)[0] && !hp_check_name("actor", *actor, &ignored))
        return true;
    if (!(*actor)[0] || !strcmp(*actor, name)) {
        hp_utf8_copy(both, sizeof(both), name, strlen(name));
    } else {
        size_t len = (size_t)snprintf(both, sizeof(both), "%s (", name);
        hp_utf8_copy(both + len, sizeof(both) - len - 1, *actor, strlen(*actor));
        len = strlen(both);
        snprintf(both + len, sizeof(both) - len, ")"); /* room for it was left */
    }
    *actor = hp_strndup(sc->arena, both, strlen(both));
    return *actor != NULL;
}
