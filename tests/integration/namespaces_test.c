/*
 * namespaces_test.c - namespaces and their policies, what the policies do, and the audit, against a real server.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "integration/served.h"
#include "integration/waiters.h"

#define SET(policy, group, Group, field, value)                                                                                    \
    ((policy).group##_case = HOLDFAST__V1__NAMESPACE_POLICY__##Group, (policy).field = (value))

static Holdfast__V1__Namespace *create(const char *name, Holdfast__V1__NamespacePolicy *policy, c_status *status)
{
    Holdfast__V1__CreateNamespaceRequest request = HOLDFAST__V1__CREATE_NAMESPACE_REQUEST__INIT;
    request.name = C_STR(name);
    request.policy = policy;
    request.actor = C_STR("admin");
    Holdfast__V1__CreateNamespaceResponse *response = c_call(rpc, C_ADMIN "CreateNamespace", &request, status);
    return response ? response->namespace_ : NULL;
}

static Holdfast__V1__Namespace *set(const char *name, Holdfast__V1__NamespacePolicy *policy, c_status *status)
{
    Holdfast__V1__SetNamespaceRequest request = HOLDFAST__V1__SET_NAMESPACE_REQUEST__INIT;
    request.name = C_STR(name);
    request.policy = policy;
    request.actor = C_STR("admin");
    Holdfast__V1__SetNamespaceResponse *response = c_call(rpc, C_ADMIN "SetNamespace", &request, status);
    return response ? response->namespace_ : NULL;
}

static Holdfast__V1__AcquireResponse *acquire(const char *ns, const char *resource, int64_t ttl_ms, c_status *status)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *names[] = {C_STR(resource)};
    request.namespace_ = C_STR(ns);
    request.holder = C_STR("h");
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = ttl_ms;
    return c_acquire_with(rpc, &request, status);
}

static int64_t grant(const char *ns, const char *resource)
{
    Holdfast__V1__AcquireResponse *response = acquire(ns, resource, 60000, NULL);
    assert_int_equal(response->outcome_case, HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED);
    return response->granted->grants[0]->token;
}

static void release(const char *ns, const char *resource, int64_t token)
{
    Holdfast__V1__ReleaseRequest request = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items = &item;
    item.resource = C_STR(resource);
    item.token = token;
    request.namespace_ = C_STR(ns);
    request.n_items = 1;
    request.items = &items;
    Holdfast__V1__ReleaseResponse *response = c_call(rpc, C_LEASE "Release", &request, NULL);
    assert_true(response->items[0]->was_held);
}

/* ---- making and setting ---- */

static void a_new_namespace_has_the_defaults_it_is_not_given(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__NamespacePolicy policy = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    SET(policy, max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 60000);
    SET(policy, writes, WRITES_AUDIT_WRITES, audit_writes, true);
    assert_null(acquire("made", "r", 1000, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE, "before");
    Holdfast__V1__Namespace *ns = create("made", &policy, NULL);
    assert_string_equal(ns->name, "made");
    assert_int_equal(ns->policy->lock_delay_ms, 0);
    assert_int_equal(ns->policy->min_ttl_ms, 100);
    assert_int_equal(ns->policy->max_ttl_ms, 60000);
    assert_true(ns->policy->audit_writes);
    assert_int_equal(ns->policy->max_leases + ns->policy->max_waiters + ns->policy->max_value_bytes, 0);
    assert_int_equal(ns->policy->audit_keep_days, 400);
    assert_false(ns->retired);
    grant("made", "r");
    create("made", &policy, NULL); /* a repeat */
    SET(policy, max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 70000);
    assert_null(create("made", &policy, &status));
    c_assert_status(&status, HP_ALREADY_EXISTS, HP_R_PARAMETER_CONFLICT, "other policies");
    assert_string_equal(hp_status_get_meta(&status, "namespace"), "made");
    assert_int_equal(create("plain", NULL, NULL)->policy->max_ttl_ms, 86400000);
}

static void setting_changes_what_is_given(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__NamespacePolicy policy = HOLDFAST__V1__NAMESPACE_POLICY__INIT, more = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    SET(policy, max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 50000);
    SET(policy, lock_delay, LOCK_DELAY_LOCK_DELAY_MS, lock_delay_ms, 10);
    create("set", &policy, NULL);
    SET(more, min_ttl, MIN_TTL_MIN_TTL_MS, min_ttl_ms, 5000);
    SET(more, lock_delay, LOCK_DELAY_LOCK_DELAY_MS, lock_delay_ms, 0); /* 0 is given */
    Holdfast__V1__Namespace *ns = set("set", &more, NULL);
    assert_int_equal(ns->policy->min_ttl_ms, 5000);
    assert_int_equal(ns->policy->max_ttl_ms, 50000);
    assert_int_equal(ns->policy->lock_delay_ms, 0);
    assert_null(acquire("set", "r", 4999, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "below the bounds");
    assert_string_equal(status.field, "ttl_ms");
    assert_non_null(strstr(hp_status_get_meta(&status, "limit"), "5000 to 50000"));
    assert_null(acquire("set", "r", 50001, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "above the bounds");
    assert_non_null(acquire("set", "r", 50000, NULL)->granted);
    assert_null(set("nothing", &more, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE, "set");
    /* A contradiction with what is there already. */
    policy = (Holdfast__V1__NamespacePolicy)HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    SET(policy, max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 4000);
    assert_null(set("set", &policy, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_MALFORMED, "contradiction");
    assert_string_equal(status.field, "policy.min_ttl_ms");
    assert_string_equal(hp_status_get_meta(&status, "value"), "5000");
    assert_non_null(strstr(hp_status_get_meta(&status, "limit"), "4000"));
    assert_int_equal(set("set", NULL, NULL)->policy->max_ttl_ms, 50000); /* nothing was changed */
}

static void namespaces_are_listed_by_name(void **state)
{
    (void)state;
    Holdfast__V1__ListNamespacesRequest request = HOLDFAST__V1__LIST_NAMESPACES_REQUEST__INIT;
    char last[257] = "";
    int n = 0, listed = 0;
    for (int i = 0; i < 7; i++)
        create(t_printf("list/%d", i), NULL, NULL);
    request.page_size = 3;
    for (;; n++) {
        Holdfast__V1__ListNamespacesResponse *page = c_call(rpc, C_ADMIN "ListNamespaces", &request, NULL);
        assert_true(page->n_namespaces <= 3);
        for (size_t i = 0; i < page->n_namespaces; i++) {
            assert_true(strcmp(page->namespaces[i]->name, last) > 0);
            snprintf(last, sizeof(last), "%s", page->namespaces[i]->name);
            assert_int_equal(page->namespaces[i]->policy->audit_keep_days, 400);
            listed++;
        }
        if (!page->next_page_token[0])
            break;
        request.page_token = page->next_page_token;
    }
    assert_true(listed >= 8 && n >= 2); /* `default` too */
}

/* ---- quotas ---- */

static void leases_have_a_quota(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__NamespacePolicy policy = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    SET(policy, leases, LEASES_MAX_LEASES, max_leases, 2);
    create("leases", &policy, NULL);
    int64_t a = grant("leases", "a");
    grant("leases", "b");
    assert_null(acquire("leases", "c", 60000, &status));
    c_assert_status(&status, HP_RESOURCE_EXHAUSTED, HP_R_QUOTA, "a third lease");
    assert_true(status.retry_ms > 0);
    assert_string_equal(hp_status_get_meta(&status, "limit"), "2");
    release("leases", "a", a);
    grant("leases", "c");
}

static void values_have_a_quota(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__NamespacePolicy policy = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    SET(policy, bytes, BYTES_MAX_VALUE_BYTES, max_value_bytes, 100);
    create("values", &policy, NULL);
    write.namespace_ = C_STR("values");
    write.resource = C_STR("a");
    write.token = grant("values", "a");
    write.value.data = (uint8_t *)t_printf("%0101d", 0);
    write.value.len = 101;
    assert_null(c_call(rpc, C_RESOURCE "Write", &write, &status));
    c_assert_status(&status, HP_RESOURCE_EXHAUSTED, HP_R_QUOTA, "101 bytes");
    assert_true(status.retry_ms > 0);
    assert_string_equal(hp_status_get_meta(&status, "limit"), "100");
    write.value.len = 100;
    assert_non_null(c_call(rpc, C_RESOURCE "Write", &write, NULL));
}

static void waiters_have_a_quota(void **state)
{
    (void)state;
    enum { LIMIT = 10000 };
    c_status status;
    Holdfast__V1__NamespacePolicy policy = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
    SET(policy, waiters, WAITERS_MAX_WAITERS, max_waiters, LIMIT);
    create("waiters", &policy, NULL);
    grant("waiters", "r");
    struct w_conn *w = w_open(server->url);
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *names[] = {C_STR("r")};
    request.namespace_ = C_STR("waiters");
    request.holder = C_STR("w");
    request.n_resources = 1;
    request.resources = names;
    request.ttl_ms = 60000;
    request.wait_ms = 600000;
    for (int i = 0; i < LIMIT + 1; i++)
        w_send(w, C_LEASE "Acquire", &request, 600000);
    uint32_t refused = w_next(w, T_PATIENCE_MS);
    assert_true(refused > 0);
    assert_null(w_response(w, refused, 0, &status));
    c_assert_status(&status, HP_RESOURCE_EXHAUSTED, HP_R_QUOTA, "10,001 waiters");
    assert_true(status.retry_ms > 0);
    assert_string_equal(hp_status_get_meta(&status, "limit"), "10000");
    assert_int_equal(c_stats(rpc)->waits->waiters, LIMIT); /* nothing lost */
    assert_int_equal(w_next(w, 100), 0);
    grant("waiters", "other"); /* everything else works */
    int64_t start = t_now_ms();
    w_close(w);
    while (c_stats(rpc)->waits->waiters && t_now_ms() - start < 2000)
        t_sleep_ms(5);
    print_message("[     INFO ] %d waiters of one connection were gone after %lld ms\n", LIMIT, (long long)(t_now_ms() - start));
    assert_int_equal(c_stats(rpc)->waits->waiters, 0);
}

/* ---- the audit ---- */

static Holdfast__V1__AuditResponse *audit(const char *ns, const char *resource, int64_t size, const char *token, c_status *status)
{
    Holdfast__V1__AuditRequest request = HOLDFAST__V1__AUDIT_REQUEST__INIT;
    request.namespace_ = C_STR(ns);
    request.resource = C_STR(resource);
    request.page_size = size;
    request.page_token = C_STR(token);
    return c_call(rpc, C_ADMIN "Audit", &request, status);
}

static void the_audit_tells_the_newest_first(void **state)
{
    (void)state;
    c_status status;
    create("audit", NULL, NULL);
    int64_t first = grant("audit", "a");
    release("audit", "a", first);
    int64_t second = grant("audit", "a");
    grant("audit", "b");
    Holdfast__V1__AuditResponse *all = audit("audit", "", 0, "", NULL);
    assert_true(all->n_entries >= 4);
    for (size_t i = 1; i < all->n_entries; i++)
        assert_true(all->entries[i]->id < all->entries[i - 1]->id);
    assert_string_equal(all->entries[0]->kind, "grant");
    assert_string_equal(all->entries[0]->resource, "b");
    assert_string_equal(all->entries[0]->actor, "h");
    assert_true(all->entries[0]->at_unix_ms > 1600000000000);
    /* Of one resource, a page at a time. */
    const char *token = "";
    static const char *const kinds[] = {"grant", "release", "grant"};
    int64_t tokens[] = {second, first, first};
    for (size_t i = 0; i < 3; i++) {
        Holdfast__V1__AuditResponse *page = audit("audit", "a", 1, token, NULL);
        assert_int_equal(page->n_entries, 1);
        assert_string_equal(page->entries[0]->kind, kinds[i]);
        assert_int_equal(page->entries[0]->token, tokens[i]);
        token = page->next_page_token;
        assert_int_equal(token[0] == '\0', i == 2);
    }
    assert_null(audit("nothing", "", 0, "", &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE, "audit");
}

/* ---- bad input ---- */

static void assert_bad_policy(Holdfast__V1__NamespacePolicy policy, enum hp_reason reason, const char *field)
{
    c_status status;
    assert_null(create("bad", &policy, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, reason, field);
    assert_string_equal(status.field, field);
    assert_non_null(hp_status_get_meta(&status, "limit"));
    assert_null(set("default", &policy, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, reason, field);
}

static void bad_input(void **state)
{
    (void)state;
    c_status status;
    const Holdfast__V1__NamespacePolicy none = HOLDFAST__V1__NAMESPACE_POLICY__INIT;
#define BAD(group, Group, name, value, reason)                                                                                     \
    do {                                                                                                                           \
        Holdfast__V1__NamespacePolicy policy = none;                                                                               \
        SET(policy, group, Group, name, value);                                                                                    \
        assert_bad_policy(policy, reason, "policy." #name);                                                                        \
    } while (0)
    BAD(lock_delay, LOCK_DELAY_LOCK_DELAY_MS, lock_delay_ms, -1, HP_R_LIMIT);
    BAD(lock_delay, LOCK_DELAY_LOCK_DELAY_MS, lock_delay_ms, 60001, HP_R_LIMIT);
    BAD(min_ttl, MIN_TTL_MIN_TTL_MS, min_ttl_ms, 99, HP_R_LIMIT);
    BAD(max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 86400001, HP_R_LIMIT);
    BAD(max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 0, HP_R_LIMIT);
    BAD(leases, LEASES_MAX_LEASES, max_leases, -1, HP_R_LIMIT);
    BAD(waiters, WAITERS_MAX_WAITERS, max_waiters, -1, HP_R_LIMIT);
    BAD(bytes, BYTES_MAX_VALUE_BYTES, max_value_bytes, INT64_MIN, HP_R_LIMIT);
    BAD(keep, KEEP_AUDIT_KEEP_DAYS, audit_keep_days, 0, HP_R_LIMIT);
    BAD(keep, KEEP_AUDIT_KEEP_DAYS, audit_keep_days, 36501, HP_R_LIMIT);
    Holdfast__V1__NamespacePolicy contradicts = none;
    SET(contradicts, min_ttl, MIN_TTL_MIN_TTL_MS, min_ttl_ms, 2000);
    SET(contradicts, max_ttl, MAX_TTL_MAX_TTL_MS, max_ttl_ms, 1000);
    assert_bad_policy(contradicts, HP_R_MALFORMED, "policy.min_ttl_ms");
    assert_null(create("", NULL, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "name");
    Holdfast__V1__SetNamespaceRequest nobody = HOLDFAST__V1__SET_NAMESPACE_REQUEST__INIT;
    nobody.name = C_STR("default");
    assert_null(c_call(rpc, C_ADMIN "SetNamespace", &nobody, &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "actor");
    assert_string_equal(status.field, "actor");
    assert_null(audit("default", "", 1001, "", &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_LIMIT, "page_size");
    assert_null(audit("default", "", 0, "rubbish", &status));
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_MALFORMED, "page_token");
    Holdfast__V1__ListNamespacesRequest list = HOLDFAST__V1__LIST_NAMESPACES_REQUEST__INIT;
    list.page_size = 1;
    Holdfast__V1__ListNamespacesResponse *page = c_call(rpc, C_ADMIN "ListNamespaces", &list, NULL);
    assert_null(audit("default", "", 0, page->next_page_token, &status)); /* of another list */
    c_assert_status(&status, HP_INVALID_ARGUMENT, HP_R_MALFORMED, "another list's page_token");
    assert_int_equal(set("default", NULL, NULL)->policy->min_ttl_ms, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_namespace_has_the_defaults_it_is_not_given),
        cmocka_unit_test(setting_changes_what_is_given),
        cmocka_unit_test(namespaces_are_listed_by_name),
        cmocka_unit_test(leases_have_a_quota),
        cmocka_unit_test(values_have_a_quota),
        cmocka_unit_test(waiters_have_a_quota),
        cmocka_unit_test(the_audit_tells_the_newest_first),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
