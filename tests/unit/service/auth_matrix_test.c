/*
 * auth_matrix_test.c - each method × each role × in and out of scope, and × nobody, and × every key that is none.
 *
 * What each method is about stands in the table below, by hand; a method that is not in it fails the test. Requests are made from
 * their descriptors, and name a namespace, resources and keys wherever they can.
 */
#include "unit/service/keyring.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "service/call.h"

/* What a method's request is about. */
enum about {
    ANYONE,   /* it needs no key */
    SERVER,   /* no namespace: the handler shows only what may be seen */
    ALL,      /* only for those who may see everything */
    WHOLE,    /* a whole namespace */
    RESOURCE, /* resources of a namespace */
    KEY,      /* operations */
    BOTH,
    OWN /* the caller's own waiting */
};

static const struct {
    const char *path;
    enum svc_role role;
    enum about about;
} table[] = {
    {"/holdfast.v1.LeaseService/Acquire", SVC_WORKER, RESOURCE},
    {"/holdfast.v1.LeaseService/CancelWait", SVC_WORKER, OWN},
    {"/holdfast.v1.LeaseService/Renew", SVC_WORKER, RESOURCE},
    {"/holdfast.v1.LeaseService/Release", SVC_WORKER, RESOURCE},
    {"/holdfast.v1.LeaseService/Get", SVC_READER, RESOURCE},
    {"/holdfast.v1.LeaseService/List", SVC_READER, RESOURCE},
    {"/holdfast.v1.LeaseService/Break", SVC_OPERATOR, RESOURCE},
    {"/holdfast.v1.LeaseService/Watch", SVC_READER, RESOURCE},
    {"/holdfast.v1.ResourceService/Check", SVC_READER, RESOURCE},
    {"/holdfast.v1.ResourceService/Write", SVC_WORKER, RESOURCE},
    {"/holdfast.v1.ResourceService/Read", SVC_READER, RESOURCE},
    {"/holdfast.v1.ResourceService/List", SVC_READER, RESOURCE},
    {"/holdfast.v1.ResourceService/Delete", SVC_WORKER, RESOURCE},
    {"/holdfast.v1.OperationService/Begin", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/Renew", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/Record", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/MarkSending", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/Complete", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/Fail", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/MarkUnknown", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/Execute", SVC_WORKER, BOTH},
    {"/holdfast.v1.OperationService/Submit", SVC_WORKER, KEY},
    {"/holdfast.v1.OperationService/Claim", SVC_WORKER, WHOLE},
    {"/holdfast.v1.OperationService/Retry", SVC_OPERATOR, KEY},
    {"/holdfast.v1.OperationService/Cancel", SVC_OPERATOR, KEY},
    {"/holdfast.v1.OperationService/Reconcile", SVC_OPERATOR, KEY},
    {"/holdfast.v1.OperationService/Compensate", SVC_OPERATOR, KEY},
    {"/holdfast.v1.OperationService/Get", SVC_READER, KEY},
    {"/holdfast.v1.OperationService/Wait", SVC_READER, KEY},
    {"/holdfast.v1.OperationService/List", SVC_READER, KEY},
    {"/holdfast.v1.OperationService/ListAttempts", SVC_READER, KEY},
    {"/holdfast.v1.AdminService/Stats", SVC_READER, SERVER},
    {"/holdfast.v1.AdminService/AdvanceFences", SVC_ADMIN, WHOLE},
    {"/holdfast.v1.AdminService/CreateNamespace", SVC_ADMIN, WHOLE},
    {"/holdfast.v1.AdminService/SetNamespace", SVC_ADMIN, WHOLE},
    {"/holdfast.v1.AdminService/ListNamespaces", SVC_OPERATOR, SERVER},
    {"/holdfast.v1.AdminService/Audit", SVC_OPERATOR, BOTH},
    {"/holdfast.v1.AdminService/SetOperationPolicy", SVC_OPERATOR, WHOLE},
    {"/holdfast.v1.AdminService/ListOperationPolicies", SVC_OPERATOR, WHOLE},
    {"/holdfast.v1.AdminService/RegisterAction", SVC_ADMIN, ALL},
    {"/holdfast.v1.AdminService/RemoveAction", SVC_ADMIN, WHOLE},
    {"/holdfast.v1.AdminService/ListActions", SVC_OPERATOR, WHOLE},
    {"/holdfast.v1.AdminService/CreateKey", SVC_ADMIN, SERVER},
    {"/holdfast.v1.AdminService/ListKeys", SVC_ADMIN, SERVER},
    {"/holdfast.v1.AdminService/RevokeKey", SVC_ADMIN, SERVER},
    {"/holdfast.v1.AdminService/SetKey", SVC_ADMIN, SERVER},
    {"/holdfast.v1.AdminService/ListDenials", SVC_ADMIN, ALL},
    {"/holdfast.v1.AdminService/MapSqlRole", SVC_ADMIN, WHOLE},
    {"/holdfast.v1.AdminService/UnmapSqlRole", SVC_ADMIN, WHOLE},
    {"/holdfast.v1.AdminService/ListSqlRoles", SVC_ADMIN, WHOLE},
    {"/grpc.health.v1.Health/Check", SVC_ANYONE, ANYONE},
    {"/grpc.health.v1.Health/Watch", SVC_ANYONE, ANYONE},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", SVC_READER, SERVER},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", SVC_READER, SERVER},
};

enum { N_TABLE = sizeof(table) / sizeof(table[0]) };

static void every_method_is_in_the_table(void **state)
{
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < N_TABLE && strcmp(table[at].path, methods[i].rpc.path) != 0)
            at++;
        if (at == N_TABLE)
            fail_msg("%s is not in the table of this test: say what its requests are about", methods[i].rpc.path);
        assert_int_equal(table[at].role, methods[i].role);
    }
    assert_int_equal(n, N_TABLE);
}

/* ---- requests ---- */

static void *at_offset(void *message, unsigned offset)
{
    return (char *)message + offset;
}

static void put_text(void *message, const char *name, const char *text)
{
    const ProtobufCMessageDescriptor *type = ((ProtobufCMessage *)message)->descriptor;
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(type, name);
    if (field && field->type == PROTOBUF_C_TYPE_STRING && field->label == PROTOBUF_C_LABEL_NONE)
        *(const char **)at_offset(message, field->offset) = text;
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = calloc(1, type->sizeof_message);
    type->message_init(message);
    return message;
}

/* The one element of a repeated field, if the message has it. */
static void put_one(ProtobufCMessage *message, const char *name, ProtobufCType type, void *list)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    if (!field || field->type != type || field->label != PROTOBUF_C_LABEL_REPEATED)
        return;
    *(size_t *)at_offset(message, field->quantifier_offset) = 1;
    *(void **)at_offset(message, field->offset) = list;
}

/* About these, wherever it can say so. The audit is asked for one subject. */
static struct fake_call *call(struct fake *f, size_t row, const char *ns, const char *resource, const char *key)
{
    const struct svc_method *method = svc_method_find(table[row].path);
    const char *names[] = {resource};
    ProtobufCMessage *request = new_message(method->rpc.request), *item = NULL, *items[1];
    const ProtobufCFieldDescriptor *many = protobuf_c_message_descriptor_get_field_by_name(method->rpc.request, "items");
    put_text(request, "namespace", ns);
    if (strstr(table[row].path, "/CreateNamespace") || strstr(table[row].path, "/SetNamespace"))
        put_text(request, "name", ns);
    put_text(request, "resource", resource);
    put_text(request, "key", key);
    put_text(request, "prefix", table[row].about == KEY ? key : resource);
    if (table[row].about == BOTH && strstr(table[row].path, "/Audit"))
        put_text(request, resource[0] ? "none" : "operation", key);
    put_one(request, "resources", PROTOBUF_C_TYPE_STRING, names);
    if (many) {
        items[0] = item = new_message(many->descriptor);
        put_text(item, "resource", resource);
        put_text(item, "key", key);
        put_one(request, "items", PROTOBUF_C_TYPE_MESSAGE, items);
    }
    struct fake_call *made = fake_call(f, table[row].path, request, 0);
    free(item);
    free(request);
    return made;
}

/* ---- what becomes of it ---- */

static bool is_denied(const struct fake_call *made)
{
    return made->answers && (made->status.reason == HP_R_NO_KEY || made->status.reason == HP_R_BAD_KEY ||
                             made->status.reason == HP_R_ROLE || made->status.reason == HP_R_SCOPE);
}

static const struct ring *the_ring;

/* HP_R_UNSPECIFIED: it was let in; whatever it was answered then, also if its request was not well-formed. */
static void check(struct fake *f, size_t row, const char *who, const struct fake_call *made, enum hp_reason wanted)
{
    enum hp_reason got = is_denied(made) ? made->status.reason : HP_R_UNSPECIFIED;
    if (wanted == HP_R_SCOPE && !svc_method_find(table[row].path)->handle) {
        fake_assert_error(made, HP_UNIMPLEMENTED, HP_R_NOT_YET); /* its requests are not looked at yet */
        return;
    }
    if (got != wanted)
        fail_msg("%s by %s: %s (%s), wanted %s", table[row].path, who, hp_reason_name(got), made->status.message,
                 hp_reason_name(wanted));
    if (wanted) {
        assert_int_equal(made->answers, 1);
        assert_int_equal(made->status.code,
                         wanted == HP_R_ROLE || wanted == HP_R_SCOPE ? HP_PERMISSION_DENIED : HP_UNAUTHENTICATED);
        assert_string_equal(hp_status_get_meta(&made->status, "method"), table[row].path);
        for (size_t i = 0; i < f->n_items; i++) /* and nothing was done */
            assert_true(f->items[i]->kind == ST_AUTH_NOTE);
    }
    for (size_t i = 0; the_ring && i < the_ring->n; i++) /* nothing of a key is told */
        assert_null(strstr(made->status.message, the_ring->keys[i].text + 4 + SVC_KEY_ID));
    ring_end_items(f);
}

/* ---- the matrix ---- */

struct scope {
    const char *name, *ns, *resources, *operations;
};

/* The calls are about resource r/1 and key k/1 of namespace ns. */
static const struct scope scopes[] = {
    {"everywhere", "", "", ""},          {"the namespace", "ns", "", ""},      {"another namespace", "ns2", "", ""},
    {"the prefixes", "ns", "r/", "k/"},  {"other prefixes", "ns", "r2", "k2"}, {"other resources", "ns", "r/2", ""},
    {"other operations", "", "", "k/2"},
};
enum { N_SCOPES = sizeof(scopes) / sizeof(scopes[0]) };

static enum hp_reason wanted(size_t row, int role, size_t scope)
{
    bool resources = scope == 0 || scope == 1 || scope == 3 || scope == 6, operations = scope != 2 && scope != 4 && scope != 6;
    bool in_namespace = scope != 2, whole = scope <= 1;
    if (table[row].about == ANYONE)
        return HP_R_UNSPECIFIED;
    if (role < (int)table[row].role)
        return HP_R_ROLE;
    switch (table[row].about) {
    case SERVER:
        return HP_R_UNSPECIFIED;
    case ALL:
        return scope == 0 ? HP_R_UNSPECIFIED : HP_R_SCOPE;
    case WHOLE:
        return in_namespace && whole ? HP_R_UNSPECIFIED : HP_R_SCOPE;
    case RESOURCE:
        return in_namespace && resources ? HP_R_UNSPECIFIED : HP_R_SCOPE;
    case KEY:
        return in_namespace && operations ? HP_R_UNSPECIFIED : HP_R_SCOPE;
    case BOTH: /* the audit is asked for the resource alone */
        return in_namespace && resources && (operations || strstr(table[row].path, "/Audit")) ? HP_R_UNSPECIFIED : HP_R_SCOPE;
    default:
        return in_namespace ? HP_R_UNSPECIFIED : HP_R_SCOPE;
    }
}

static void each_method_by_each_role_in_and_out_of_scope(void **state)
{
    struct fake *f = *state;
    static struct ring ring;
    int checked = 0;
    ring_init(&ring);
    for (int role = ST_READER; role <= ST_ADMIN; role++)
        for (size_t s = 0; s < N_SCOPES; s++)
            ring_add(&ring, scopes[s].name, role, scopes[s].ns, scopes[s].resources, scopes[s].operations);
    ring_learn(f, &ring);
    the_ring = &ring;
    for (size_t row = 0; row < N_TABLE; row++) {
        for (size_t k = 0; k < ring.n; k++) {
            int role = ring.keys[k].grants[0].role;
            f->authorization = ring.keys[k].header;
            check(f, row, t_printf("role %d, %s", role, ring.keys[k].name), call(f, row, "ns", "r/1", "k/1"),
                  wanted(row, role, k % N_SCOPES));
            checked++;
        }
    }
    the_ring = NULL;
    print_message("%d combinations\n", checked);
}

/* A grant in one place and a higher one elsewhere don't add up. */
static void grants_do_not_add_up(void **state)
{
    struct fake *f = *state;
    static struct ring ring;
    ring_init(&ring);
    struct ring_key *key = ring_add(&ring, "two", ST_ADMIN, "other", "", "");
    ring_grant(key, ST_READER, "ns", "", "");
    ring_grant(key, ST_WORKER, "ns", "w/", "w/");
    ring_learn(f, &ring);
    f->authorization = key->header;
    for (size_t row = 0; row < N_TABLE; row++) {
        enum about about = table[row].about;
        bool named = about == RESOURCE || about == KEY || about == BOTH;
        bool limited = about == ANYONE || about == SERVER;
        bool reads = table[row].role <= SVC_READER, works = table[row].role <= SVC_WORKER;
        check(f, row, "two", call(f, row, "other", "r/1", "k/1"), about == ALL ? HP_R_SCOPE : HP_R_UNSPECIFIED);
        check(f, row, "two", call(f, row, "ns", "r/1", "k/1"), limited || reads || (works && about == OWN) ? 0 : HP_R_SCOPE);
        check(f, row, "two", call(f, row, "ns", "w/1", "w/1"),
              limited || reads || (works && (named || about == OWN)) ? 0 : HP_R_SCOPE);
    }
}

static void nobody_gets_in_without_a_good_key(void **state)
{
    struct fake *f = *state;
    static struct ring ring;
    static const struct hp_peer peer = {.local = true, .address = "ipc", .transport = "nng"};
    static const struct hp_peer stranger = {.encrypted = true, .certificate = "nobody", .address = "x", .transport = "grpc"};
    ring_init(&ring);
    struct ring_key *good = ring_add(&ring, "good", ST_ADMIN, "", "", "");
    struct ring_key *expired = ring_add(&ring, "expired", ST_ADMIN, "", "", "");
    struct ring_key *revoked = ring_add(&ring, "revoked", ST_ADMIN, "", "", "");
    struct ring_key *without = ring_add(&ring, "without grants", 0, "", "", "");
    expired->expires_unix_ms = f->now_ms + ring.ahead_ms;
    ring_learn(f, &ring);
    f->authorization = revoked->header;
    assert_false(is_denied(call(f, 0, "ns", "r/1", "k/1")));
    ring_end_items(f);
    revoked->revoked = true;
    ring_change(&ring, revoked);
    fake_advance(f, 1500);
    f->authorization = good->header;
    assert_false(is_denied(call(f, 0, "ns", "r/1", "k/1"))); /* asks for what has changed */
    ring_answer(f, &ring, 0);
    the_ring = &ring;

    char wrong[sizeof(good->header)], unknown[sizeof(good->header)];
    strcpy(wrong, good->header);
    wrong[strlen(wrong) - 1] = wrong[strlen(wrong) - 1] == 'a' ? 'b' : 'a';
    strcpy(unknown, good->header);
    unknown[12] = unknown[12] == 'a' ? 'b' : 'a';
    const struct {
        const char *who, *header;
        const struct hp_peer *peer;
        enum hp_reason reason;
    } cases[] = {
        {"nobody", NULL, NULL, HP_R_NO_KEY},
        {"nobody, from this machine", NULL, &peer, HP_R_NO_KEY},
        {"an unknown certificate", NULL, &stranger, HP_R_BAD_KEY},
        {"an empty header", "", NULL, HP_R_BAD_KEY},
        {"no key", "Bearer abc", NULL, HP_R_BAD_KEY},
        {"another scheme", "Basic aGZrOng=", NULL, HP_R_BAD_KEY},
        {"an unknown key", unknown, NULL, HP_R_BAD_KEY},
        {"a wrong secret", wrong, NULL, HP_R_BAD_KEY},
        {"an expired key", expired->header, NULL, HP_R_BAD_KEY},
        {"a revoked key", revoked->header, NULL, HP_R_BAD_KEY},
        {"a key without grants", without->header, NULL, HP_R_ROLE},
    };
    const char *text = NULL;
    for (size_t row = 0; row < N_TABLE; row++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            f->authorization = cases[i].header;
            f->peer = cases[i].peer;
            struct fake_call *made = call(f, row, "ns", "r/1", "k/1");
            check(f, row, cases[i].who, made, table[row].about == ANYONE ? HP_R_UNSPECIFIED : cases[i].reason);
            if (made->status.reason != HP_R_BAD_KEY)
                continue;
            text = text ? text : t_printf("%s", made->status.message);
            assert_string_equal(made->status.message, text); /* whatever is wrong with it, the same is told */
        }
    }
    f->peer = NULL;
    the_ring = NULL;
}

/* With keys off everybody is admin. */
static void without_keys_everybody_may(void **state)
{
    struct fake *f = *state;
    for (size_t row = 0; row < N_TABLE; row++) {
        f->authorization = row % 2 ? "Bearer nonsense" : NULL;
        check(f, row, "anybody", call(f, row, "ns", "r/1", "k/1"), HP_R_UNSPECIFIED);
    }
}

/* ---- fields that nobody has thought of ---- */

/* Each text in a request either says what it is about, or is known to say nothing about that. */
static void every_text_of_a_request_is_known(void **state)
{
    static const char *const known[] = {"namespace", "resource",     "resources",     "key",        "operation", "prefix",
                                        "name",      "task",         "holder",        "request_id", "actor",     "reason",
                                        "type",      "types",        "page_token",    "result_ref", "message",   "sqlstate",
                                        "note",      "action",       "args",          "function",   "id",        "certificate",
                                        "role",      "resume_token", "canonical_json"};
    size_t n;
    const struct svc_method *methods = svc_methods(&n);
    (void)state;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(methods[i].rpc.path, "/holdfast.", 10) != 0)
            continue;
        for (unsigned k = 0; k < methods[i].rpc.request->n_fields; k++) {
            const ProtobufCFieldDescriptor *field = &methods[i].rpc.request->fields[k];
            bool found = field->type != PROTOBUF_C_TYPE_STRING;
            for (size_t j = 0; !found && j < sizeof(known) / sizeof(known[0]); j++)
                found = !strcmp(field->name, known[j]);
            if (!found)
                fail_msg("%s: is `%s` something a grant must cover? (service/scope.c)", methods[i].rpc.path, field->name);
        }
    }
}

#define KEYS_TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup_keys, fake_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_is_in_the_table),
        cmocka_unit_test(every_text_of_a_request_is_known),
        KEYS_TEST(each_method_by_each_role_in_and_out_of_scope),
        KEYS_TEST(grants_do_not_add_up),
        KEYS_TEST(nobody_gets_in_without_a_good_key),
        cmocka_unit_test_setup_teardown(without_keys_everybody_may, fake_setup, fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
