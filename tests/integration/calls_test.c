/*
 * calls_test.c - every method against a real server: what it does when all is well, and every outcome and error that its
 * proto documents.
 */
#include "harness/harness.h"

#include <stdlib.h>
#include <string.h>

#include "integration/calls.h"
#include "integration/served.h"

#define assert_case(message, name, wanted) assert_int_equal((message)->outcome_case, HOLDFAST__V1__##name##__OUTCOME_##wanted)

static void expire(const char *resource)
{
    Holdfast__V1__Lease *lease;
    do
        lease = c_get(rpc, resource, NULL);
    while (lease->state == HOLDFAST__V1__LEASE__STATE__LIVE && (t_sleep_ms((int)lease->remaining_ms + 1), true));
    assert_int_equal(lease->state, HOLDFAST__V1__LEASE__STATE__EXPIRED);
}

/* ---- Acquire ---- */

static void acquire_grants_and_then_holds(void **state)
{
    (void)state;
    int64_t start = t_now_ms();
    Holdfast__V1__AcquireResponse *response = c_acquire(rpc, "a1", 5000, NULL);
    int64_t took = t_now_ms() - start;
    assert_case(response, ACQUIRE_RESPONSE, GRANTED);
    int64_t token = response->granted->grants[0]->token;
    assert_true(token >= 1);
    assert_true(response->granted->ttl_ms <= 5000 && response->granted->ttl_ms >= 5000 - took - 5);
    assert_true(response->granted->waited_ms >= 0 && response->granted->waited_ms <= took + 1);
    response = c_acquire(rpc, "a1", 5000, NULL);
    assert_case(response, ACQUIRE_RESPONSE, HELD);
    assert_string_equal(response->held->resource, "a1");
    assert_string_equal(response->held->task, "a1"); /* the default */
    assert_string_equal(response->held->holder, "h");
    assert_int_equal(response->held->token, token);
    assert_true(response->held->remaining_ms > 0 && response->held->remaining_ms <= 5000);
    assert_false(response->held->guarded);
    assert_int_equal(response->held->waiters, 0);
}

static void tokens_rise_over_release_expiry_and_break(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "a2", 0), next;
    assert_true(c_release_one(rpc, "a2", token));
    next = c_grant(rpc, "a2", 100);
    assert_true(next > token);
    expire("a2");
    token = next;
    next = c_grant(rpc, "a2", 0);
    assert_true(next > token);
    assert_case(c_break(rpc, "a2", next, NULL), BREAK_RESPONSE, BROKEN);
    token = next;
    assert_true(c_grant(rpc, "a2", 0) > token + 1);
}

static Holdfast__V1__AcquireRequest several(char **resources, size_t n, const char *request_id)
{
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.holder = C_STR("h2");
    request.task = C_STR("move");
    request.request_id = C_STR(request_id);
    request.n_resources = n;
    request.resources = resources;
    request.ttl_ms = 60000;
    return request;
}

static void several_are_granted_together_or_not_at_all(void **state)
{
    (void)state;
    char *names[] = {C_STR("s/z"), C_STR("s/a"), C_STR("s/m")};
    Holdfast__V1__AcquireRequest request = several(names, 3, "s-1");
    int64_t held = c_grant(rpc, "s/m", 0);
    Holdfast__V1__AcquireResponse *response = c_acquire_with(rpc, &request, NULL);
    assert_case(response, ACQUIRE_RESPONSE, HELD);
    assert_string_equal(response->held->resource, "s/m");
    assert_int_equal(response->held->token, held);
    int64_t z = c_grant(rpc, "s/z", 0); /* it was left free */
    assert_true(c_release_one(rpc, "s/z", z));
    assert_true(c_release_one(rpc, "s/m", held));
    response = c_acquire_with(rpc, &request, NULL);
    assert_case(response, ACQUIRE_RESPONSE, GRANTED);
    assert_int_equal(response->granted->n_grants, 3);
    for (size_t i = 0; i < 3; i++) { /* in the order of the request, each with its own resource's token */
        assert_string_equal(response->granted->grants[i]->resource, names[i]);
        Holdfast__V1__Lease *lease = c_get(rpc, names[i], NULL);
        assert_int_equal(response->granted->grants[i]->token, lease->token);
        assert_string_equal(lease->task, "move");
        assert_string_equal(lease->holder, "h2");
    }
    assert_true(response->granted->grants[0]->token > z);
}

static void sixteen_resources_at_once(void **state)
{
    (void)state;
    char *names[16];
    for (int i = 0; i < 16; i++)
        names[i] = t_printf("sixteen/%d", i);
    Holdfast__V1__AcquireRequest request = several(names, 16, "");
    assert_case(c_acquire_with(rpc, &request, NULL), ACQUIRE_RESPONSE, GRANTED);
    assert_case(c_acquire_with(rpc, &request, NULL), ACQUIRE_RESPONSE, HELD); /* without request_id: no repeat */
}

static void what_is_not_there_yet_says_so(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__WatchLeasesRequest watch = HOLDFAST__V1__WATCH_LEASES_REQUEST__INIT;
    watch.namespace_ = C_STR("default");
    assert_null(c_call(rpc, C_LEASE "Watch", &watch, &status));
    c_assert_status(&status, HP_UNIMPLEMENTED, HP_R_NO_SUCH_METHOD, "Watch");
    int64_t token = c_grant(rpc, "w", 0);
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    Holdfast__V1__Event event = HOLDFAST__V1__EVENT__INIT, *events = &event;
    write.namespace_ = C_STR("default");
    write.resource = C_STR("w");
    write.token = token;
    write.n_events = 1;
    write.events = &events;
    assert_null(c_call(rpc, C_RESOURCE "Write", &write, &status));
    c_assert_status(&status, HP_UNIMPLEMENTED, HP_R_NOT_YET, "events");
    assert_string_equal(c_value(rpc, "w"), "(none)");
}

/* ---- Renew, Release, Check ---- */

static void renewals_prolong_and_never_shorten(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "r1", 2000);
    Holdfast__V1__RenewResult *result = c_renew_one(rpc, "r1", token, 60000);
    assert_case(result, RENEW_RESULT, RENEWED);
    assert_true(result->renewed->ttl_ms > 50000 && result->renewed->ttl_ms <= 60000);
    result = c_renew_one(rpc, "r1", token, 1000); /* it had more */
    assert_case(result, RENEW_RESULT, RENEWED);
    assert_true(result->renewed->ttl_ms > 50000);
    assert_true(c_get(rpc, "r1", NULL)->remaining_ms > 50000);
}

static void renewals_tell_why_a_lease_is_lost(void **state)
{
    (void)state;
    int64_t expired = c_grant(rpc, "l/expired", 100), taken = c_grant(rpc, "l/taken", 100);
    int64_t released = c_grant(rpc, "l/released", 0), broken = c_grant(rpc, "l/broken", 0), live = c_grant(rpc, "l/live", 0);
    expire("l/expired");
    expire("l/taken");
    c_grant(rpc, "l/taken", 0);
    c_release_one(rpc, "l/released", released);
    c_break(rpc, "l/broken", broken, NULL);
    const char *resources[] = {"l/expired", "l/taken", "l/released", "l/broken", "l/live", "l/never", "l/unknown"};
    int64_t unknown = c_grant(rpc, "l/unknown", 0) + 1000;
    int64_t tokens[] = {expired, taken, released, broken, live, 7, unknown};
    static const int reasons[] = {1, 2, 3, 4, 0, 5, 5};
    Holdfast__V1__RenewResponse *response = c_renew(rpc, resources, tokens, 7, 60000, NULL);
    assert_int_equal(response->n_items, 7);
    for (size_t i = 0; i < 7; i++) {
        Holdfast__V1__RenewResult *result = response->items[i];
        if (reasons[i]) {
            assert_case(result, RENEW_RESULT, LOST);
            if ((int)result->lost->reason != reasons[i])
                fail_msg("%s: lost for %d, wanted %d", resources[i], result->lost->reason, reasons[i]);
        } else {
            assert_case(result, RENEW_RESULT, RENEWED);
        }
    }
    c_status status;
    assert_null(c_get(rpc, "l/never", &status)); /* a renewal never makes a row */
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE, "Get");
}

static void a_thousand_items_in_one_call(void **state)
{
    (void)state;
    enum { N = 1000 };
    static const char *resources[N];
    static int64_t tokens[N];
    for (int i = 0; i < N; i++) {
        resources[i] = t_printf("k/%d", i);
        tokens[i] = i % 10 ? 1 : c_grant(rpc, resources[i], 0);
    }
    Holdfast__V1__RenewResponse *renewed = c_renew(rpc, resources, tokens, N, 60000, NULL);
    Holdfast__V1__CheckResponse *checked = c_check(rpc, resources, tokens, N, NULL);
    Holdfast__V1__ReleaseResponse *released = c_release(rpc, resources, tokens, N, NULL);
    assert_int_equal(renewed->n_items, N);
    assert_int_equal(checked->n_items, N);
    assert_int_equal(released->n_items, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(renewed->items[i]->outcome_case,
                         i % 10 ? HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST : HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED);
        assert_int_equal(checked->items[i]->outcome_case,
                         i % 10 ? HOLDFAST__V1__CHECK_RESULT__OUTCOME_NOT_HELD : HOLDFAST__V1__CHECK_RESULT__OUTCOME_CURRENT);
        assert_int_equal(released->items[i]->was_held, i % 10 == 0);
        assert_null(released->items[i]->error);
    }
}

static void release_frees_at_once_and_only_its_own(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "f1", 0);
    assert_false(c_release_one(rpc, "f1", token + 5));
    assert_case(c_acquire(rpc, "f1", 0, NULL), ACQUIRE_RESPONSE, HELD);
    assert_true(c_release_one(rpc, "f1", token));
    int64_t next = c_grant(rpc, "f1", 100);
    assert_false(c_release_one(rpc, "f1", token)); /* the old one's release doesn't touch the new one */
    expire("f1");
    assert_false(c_release_one(rpc, "f1", next)); /* it had expired */
    assert_false(c_release_one(rpc, "f1-never", 1));
}

static void check_tells_current_stale_and_not_held(void **state)
{
    (void)state;
    int64_t token = c_grant(rpc, "c1", 0);
    Holdfast__V1__CheckResult *result = c_check_one(rpc, "c1", token);
    assert_case(result, CHECK_RESULT, CURRENT);
    assert_true(result->current->remaining_ms > 50000 && result->current->remaining_ms <= 60000);
    c_release_one(rpc, "c1", token);
    result = c_check_one(rpc, "c1", token);
    assert_case(result, CHECK_RESULT, NOT_HELD);
    assert_int_equal(result->not_held->fence, token);
    int64_t next = c_grant(rpc, "c1", 0);
    result = c_check_one(rpc, "c1", token);
    assert_case(result, CHECK_RESULT, STALE);
    assert_int_equal(result->stale->fence, next);
    result = c_check_one(rpc, "c1", next + 1); /* above the fence: never granted */
    assert_case(result, CHECK_RESULT, NOT_HELD);
    assert_int_equal(result->not_held->fence, next);
    assert_case(c_check_one(rpc, "c1-never", 1), CHECK_RESULT, NOT_HELD);
}

/* ---- Get and List ---- */

static void get_tells_a_lease_in_every_state(void **state)
{
    (void)state;
    char *names[] = {C_STR("g1")};
    Holdfast__V1__AcquireRequest request = several(names, 1, "g1-request");
    Holdfast__V1__AcquireRequest__LabelsEntry labels[2] = {HOLDFAST__V1__ACQUIRE_REQUEST__LABELS_ENTRY__INIT,
                                                           HOLDFAST__V1__ACQUIRE_REQUEST__LABELS_ENTRY__INIT};
    Holdfast__V1__AcquireRequest__LabelsEntry *pointers[] = {&labels[0], &labels[1]};
    labels[0].key = C_STR("build");
    labels[0].value = C_STR("\"17\"\n\xc3\xa9");
    labels[1].key = C_STR("empty");
    request.n_labels = 2;
    request.labels = pointers;
    int64_t token = c_acquire_with(rpc, &request, NULL)->granted->grants[0]->token;
    Holdfast__V1__Lease *lease = c_get(rpc, "g1", NULL);
    assert_string_equal(lease->resource, "g1");
    assert_string_equal(lease->task, "move");
    assert_string_equal(lease->holder, "h2");
    assert_string_equal(lease->request_id, "g1-request");
    assert_int_equal(lease->token, token);
    assert_int_equal(lease->fence, token);
    assert_int_equal(lease->state, HOLDFAST__V1__LEASE__STATE__LIVE);
    assert_true(lease->remaining_ms > 50000 && lease->remaining_ms <= 60000);
    int64_t now = t_sql_int(conn, "select (extract(epoch from clock_timestamp()) * 1000)::bigint");
    assert_true(lease->granted_unix_ms <= now && lease->granted_unix_ms > now - 60000);
    assert_int_equal(lease->n_labels, 2);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(lease->labels[i]->value, strcmp(lease->labels[i]->key, "build") ? "" : labels[0].value);
    c_release_one(rpc, "g1", token);
    lease = c_get(rpc, "g1", NULL);
    assert_int_equal(lease->state, HOLDFAST__V1__LEASE__STATE__RELEASED);
    assert_int_equal(lease->remaining_ms, 0);
    token = c_grant(rpc, "g1", 0);
    int64_t fence = c_break(rpc, "g1", token, NULL)->broken->fence;
    lease = c_get(rpc, "g1", NULL);
    assert_int_equal(lease->state, HOLDFAST__V1__LEASE__STATE__BROKEN);
    assert_int_equal(lease->token, token);
    assert_int_equal(lease->fence, fence);
    assert_int_equal(lease->n_labels, 0);
}

/* All pages of a list, as "name name …"; each page but the last is full. */
static const char *list_leases(Holdfast__V1__ListLeasesRequest request)
{
    const char *out = "", *token = "";
    do {
        request.page_token = C_STR(token);
        Holdfast__V1__ListLeasesResponse *response = c_call(rpc, C_LEASE "List", &request, NULL);
        for (size_t i = 0; i < response->n_leases; i++) {
            assert_int_equal(response->leases[i]->state, HOLDFAST__V1__LEASE__STATE__LIVE);
            out = t_printf("%s%s ", out, response->leases[i]->resource);
        }
        token = response->next_page_token;
        if (*token && request.page_size)
            assert_int_equal(response->n_leases, request.page_size);
    } while (*token);
    return out;
}

static void list_leases_by_prefix_task_and_holder_in_pages(void **state)
{
    (void)state;
    char *names[] = {C_STR("ll/a"), C_STR("ll/c"), C_STR("ll/\xc3\xa9")};
    Holdfast__V1__AcquireRequest request = several(names, 3, "");
    c_acquire_with(rpc, &request, NULL);
    c_grant(rpc, "ll/B", 0);
    c_grant(rpc, "ll/d", 0);
    c_grant(rpc, "ll_other", 0);
    c_release_one(rpc, "ll/gone", c_grant(rpc, "ll/gone", 0));
    Holdfast__V1__ListLeasesRequest list = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    list.namespace_ = C_STR("default");
    list.prefix = C_STR("ll/");
    for (list.page_size = 0; list.page_size <= 6; list.page_size++) /* bytewise order */
        assert_string_equal(list_leases(list), "ll/B ll/a ll/c ll/d ll/\xc3\xa9 ");
    list.page_size = 1;
    list.holder = C_STR("h2");
    assert_string_equal(list_leases(list), "ll/a ll/c ll/\xc3\xa9 ");
    list.task = C_STR("ll/d");
    assert_string_equal(list_leases(list), "");
    list.holder = C_STR("");
    assert_string_equal(list_leases(list), "ll/d ");
    list.prefix = C_STR("ll%"); /* no pattern */
    list.task = C_STR("");
    assert_string_equal(list_leases(list), "");
}

static void list_resources_in_pages(void **state)
{
    (void)state;
    int64_t a = c_grant(rpc, "lr/a", 0), b = c_grant(rpc, "lr/b", 0);
    c_grant(rpc, "lr/c", 0);
    c_write(rpc, "lr/a", a, 1, "12345", -1, NULL);
    c_write(rpc, "lr/b", b, 1, "x", -1, NULL);
    c_delete(rpc, "lr/b", b, 2, -1, NULL);
    c_release_one(rpc, "lr/b", b);
    Holdfast__V1__ListResourcesRequest list = HOLDFAST__V1__LIST_RESOURCES_REQUEST__INIT;
    list.namespace_ = C_STR("default");
    list.prefix = C_STR("lr/");
    list.page_size = 2;
    Holdfast__V1__ListResourcesResponse *page = c_call(rpc, C_RESOURCE "List", &list, NULL);
    assert_int_equal(page->n_resources, 2);
    assert_string_equal(page->resources[0]->resource, "lr/a");
    assert_int_equal(page->resources[0]->fence, a);
    assert_true(page->resources[0]->exists && page->resources[0]->leased);
    assert_int_equal(page->resources[0]->version, 1);
    assert_int_equal(page->resources[0]->value_bytes, 5);
    assert_string_equal(page->resources[1]->resource, "lr/b");
    assert_false(page->resources[1]->exists || page->resources[1]->leased);
    assert_int_equal(page->resources[1]->version, 2);
    list.page_token = page->next_page_token;
    page = c_call(rpc, C_RESOURCE "List", &list, NULL);
    assert_int_equal(page->n_resources, 1);
    assert_string_equal(page->resources[0]->resource, "lr/c");
    assert_string_equal(page->next_page_token, "");
}

/* ---- Break ---- */

static void break_ends_the_lease_that_was_seen(void **state)
{
    (void)state;
    c_status status;
    int64_t token = c_grant(rpc, "b1", 0);
    Holdfast__V1__BreakResponse *response = c_break(rpc, "b1", token, NULL);
    assert_case(response, BREAK_RESPONSE, BROKEN);
    assert_true(response->broken->fence > token);
    assert_null(c_write(rpc, "b1", token, 1, "late", -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "write after break");
    int64_t next = c_grant(rpc, "b1", 0);
    assert_true(next > response->broken->fence);
    response = c_break(rpc, "b1", token, NULL); /* a newer one is never touched */
    assert_case(response, BREAK_RESPONSE, CHANGED);
    assert_int_equal(response->changed->token, next);
    assert_true(response->changed->live);
    c_release_one(rpc, "b1", next);
    response = c_break(rpc, "b1", token, NULL);
    assert_case(response, BREAK_RESPONSE, CHANGED);
    assert_false(response->changed->live);
    assert_null(c_break(rpc, "b1-never", 1, &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE, "break of nothing");
}

/* ---- behind a user's guard ---- */

/* A call that is answered BUSY once its timeout is near. */
static void assert_busy(const char *method, const void *request, const ProtobufCMessageDescriptor *response)
{
    c_status status;
    size_t len;
    const uint8_t *bytes = t_rpc_pack(rpc, request, &len);
    int64_t start = t_now_ms();
    assert_null(t_rpc_call_bytes(rpc, method, bytes, len, 400, response, &status));
    c_assert_status(&status, HP_UNAVAILABLE, HP_R_BUSY, method);
    assert_true(status.retry_ms > 0);
    assert_true(t_now_ms() - start < T_AT_ONCE_MS);
}

static void a_guarded_transaction_holds_off_the_rest_for_a_moment(void **state)
{
    (void)state;
    const char *resource = "u1";
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    Holdfast__V1__DeleteRequest delete = HOLDFAST__V1__DELETE_REQUEST__INIT;
    int64_t token = c_grant(rpc, resource, 0);
    t_sql(conn, "begin");
    t_sql(conn, "select holdfast.guard('default', 'u1', %lld)", (long long)token);
    Holdfast__V1__AcquireResponse *acquired = c_acquire(rpc, resource, 0, NULL);
    assert_case(acquired, ACQUIRE_RESPONSE, HELD);
    assert_true(acquired->held->guarded);
    assert_string_equal(acquired->held->resource, "u1");
    write.namespace_ = delete.namespace_ = C_STR("default");
    write.resource = delete.resource = C_STR(resource);
    write.token = delete.token = token;
    assert_busy(C_RESOURCE "Write", &write, &holdfast__v1__write_response__descriptor);
    assert_busy(C_RESOURCE "Delete", &delete, &holdfast__v1__delete_response__descriptor);
    Holdfast__V1__BreakResponse *broken = c_break(rpc, resource, token, NULL);
    assert_case(broken, BREAK_RESPONSE, BLOCKED);
    assert_int_equal(broken->blocked->pid, PQbackendPID(conn));
    int64_t start = t_now_ms();
    Holdfast__V1__ReleaseResponse *released = c_release(rpc, &resource, &token, 1, NULL);
    assert_non_null(released->items[0]->error);
    assert_int_equal(released->items[0]->error->code, HP_UNAVAILABLE);
    assert_string_equal(released->items[0]->error->reason, "BUSY");
    assert_true(t_now_ms() - start < T_AT_ONCE_MS);
    assert_case(c_renew_one(rpc, resource, token, 60000), RENEW_RESULT, RENEWED); /* the lease goes on */
    assert_case(c_check_one(rpc, resource, token), CHECK_RESULT, CURRENT);
    assert_string_equal(c_value(rpc, resource), "(none)");
    c_grant(rpc, "u1-neighbour", 0);
    t_sql(conn, "commit");
    assert_int_equal(c_write(rpc, resource, token, 3, "x", -1, NULL)->version, 1);
    assert_true(c_release_one(rpc, resource, token));
}

/* ---- Write, Read, Delete ---- */

static void writes_count_versions(void **state)
{
    (void)state;
    c_status status;
    int64_t token = c_grant(rpc, "v1", 0);
    Holdfast__V1__ReadResponse *read = c_read(rpc, "v1", NULL);
    assert_false(read->exists);
    assert_int_equal(read->version, 0);
    assert_int_equal(read->fence, token);
    Holdfast__V1__WriteResponse *written = c_write(rpc, "v1", token, 1, "one", -1, NULL);
    assert_int_equal(written->version, 1);
    assert_int_equal(written->fence, token);
    assert_false(written->replayed);
    assert_int_equal(c_write(rpc, "v1", token, 0, "two", -1, NULL)->version, 2); /* without a sequence number */
    assert_int_equal(c_write(rpc, "v1", token, 5, "", 2, NULL)->version, 3);     /* an empty value is a value */
    read = c_read(rpc, "v1", NULL);
    assert_true(read->exists);
    assert_int_equal(read->value.len, 0);
    assert_int_equal(read->version, 3);
    assert_int_equal(read->token, token);
    assert_true(read->updated_unix_ms > 1600000000000);
    assert_null(c_write(rpc, "v1", token, 6, "no", 2, &status));
    c_assert_status(&status, HP_ABORTED, HP_R_VERSION_MISMATCH, "version");
    assert_string_equal(hp_status_get_meta(&status, "version"), "3");
    assert_null(c_write(rpc, "v1", token, 7, "no", 0, &status)); /* must not exist */
    c_assert_status(&status, HP_ABORTED, HP_R_VERSION_MISMATCH, "must not exist");
    assert_int_equal(c_delete(rpc, "v1", token, 8, 3, NULL)->version, 4);
    read = c_read(rpc, "v1", NULL);
    assert_false(read->exists);
    assert_int_equal(read->version, 4);
    assert_int_equal(c_delete(rpc, "v1", token, 9, -1, NULL)->version, 4); /* nothing there */
    assert_int_equal(c_write(rpc, "v1", token, 10, "again", 0, NULL)->version, 5);
    assert_string_equal(c_value(rpc, "v1"), "again");
    assert_null(c_delete(rpc, "v1", token, 11, 4, &status));
    c_assert_status(&status, HP_ABORTED, HP_R_VERSION_MISMATCH, "delete of another version");
}

static void stale_and_ended_tokens_write_nothing(void **state)
{
    (void)state;
    c_status status;
    int64_t old = c_grant(rpc, "v2", 100);
    assert_int_equal(c_write(rpc, "v2", old, 1, "old", -1, NULL)->version, 1);
    expire("v2");
    assert_null(c_write(rpc, "v2", old, 2, "late", -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "expired, not taken");
    assert_string_equal(hp_status_get_meta(&status, "fence"), t_printf("%lld", (long long)old));
    int64_t new = c_grant(rpc, "v2", 0);
    assert_null(c_write(rpc, "v2", old, 3, "late", -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "taken over");
    assert_string_equal(hp_status_get_meta(&status, "fence"), t_printf("%lld", (long long)new));
    assert_null(c_delete(rpc, "v2", old, 4, -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_STALE_TOKEN, "delete");
    assert_null(c_write(rpc, "v2", new + 1, 1, "future", -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "above the fence");
    assert_null(c_write(rpc, "v2-never", 1, 1, "nothing", -1, &status));
    c_assert_status(&status, HP_FAILED_PRECONDITION, HP_R_NOT_HELD, "never leased");
    assert_string_equal(c_value(rpc, "v2"), "old");
    assert_int_equal(c_write(rpc, "v2", new, 1, "new", 1, NULL)->version, 2);
    assert_string_equal(c_value(rpc, "v2"), "new");
}

static void values_are_any_bytes_up_to_a_mebibyte(void **state)
{
    (void)state;
    size_t len = 1 << 20;
    int64_t token = c_grant(rpc, "v3", 0);
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.resource = C_STR("v3");
    request.token = token;
    request.value.len = len;
    request.value.data = malloc(len);
    for (size_t i = 0; i < len; i++)
        request.value.data[i] = (uint8_t)(i * 7 % 256);
    c_call(rpc, C_RESOURCE "Write", &request, NULL);
    Holdfast__V1__ReadResponse *read = c_read(rpc, "v3", NULL);
    assert_int_equal(read->value.len, len);
    assert_memory_equal(read->value.data, request.value.data, len);
    free(request.value.data);
}

static void what_was_never_leased_is_not_found(void **state)
{
    (void)state;
    c_status status;
    assert_null(c_read(rpc, "never", &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE, "Read");
    assert_string_equal(hp_status_get_meta(&status, "resource"), "never");
    assert_null(c_get(rpc, "never", &status));
    c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE, "Get");
}

/* ---- namespaces ---- */

static void a_namespace_that_does_not_exist(void **state)
{
    (void)state;
    c_status status;
    char *names[] = {C_STR("x"), C_STR("y")}, *ns = C_STR("nowhere");
    Holdfast__V1__LeaseItem item = HOLDFAST__V1__LEASE_ITEM__INIT, *items = &item;
    item.resource = C_STR("x");
    item.token = 1;
    Holdfast__V1__AcquireRequest acquire = several(names, 1, "");
    acquire.namespace_ = ns;
    Holdfast__V1__AcquireRequest all = several(names, 2, "");
    all.namespace_ = ns;
    Holdfast__V1__RenewRequest renew = HOLDFAST__V1__RENEW_REQUEST__INIT;
    renew.ttl_ms = 1000;
    Holdfast__V1__ReleaseRequest release = HOLDFAST__V1__RELEASE_REQUEST__INIT;
    Holdfast__V1__CheckRequest check = HOLDFAST__V1__CHECK_REQUEST__INIT;
    renew.namespace_ = release.namespace_ = check.namespace_ = ns;
    renew.n_items = release.n_items = check.n_items = 1;
    renew.items = release.items = check.items = &items;
    Holdfast__V1__GetLeaseRequest get = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    Holdfast__V1__ListLeasesRequest leases = HOLDFAST__V1__LIST_LEASES_REQUEST__INIT;
    Holdfast__V1__BreakRequest brk = HOLDFAST__V1__BREAK_REQUEST__INIT;
    Holdfast__V1__WriteRequest write = HOLDFAST__V1__WRITE_REQUEST__INIT;
    Holdfast__V1__ReadRequest read = HOLDFAST__V1__READ_REQUEST__INIT;
    Holdfast__V1__ListResourcesRequest resources = HOLDFAST__V1__LIST_RESOURCES_REQUEST__INIT;
    Holdfast__V1__DeleteRequest delete = HOLDFAST__V1__DELETE_REQUEST__INIT;
    Holdfast__V1__AdvanceFencesRequest advance = HOLDFAST__V1__ADVANCE_FENCES_REQUEST__INIT;
    get.namespace_ = leases.namespace_ = brk.namespace_ = write.namespace_ = read.namespace_ = ns;
    resources.namespace_ = delete.namespace_ = advance.namespace_ = ns;
    get.resource = brk.resource = write.resource = read.resource = delete.resource = names[0];
    brk.token_seen = write.token = delete.token = 1;
    brk.actor = brk.reason = advance.actor = advance.reason = C_STR("me");
    const struct {
        const char *method;
        const void *request;
    } calls[] = {
        {C_LEASE "Acquire", &acquire},
        {C_LEASE "Acquire", &all},
        {C_LEASE "Renew", &renew},
        {C_LEASE "Release", &release},
        {C_LEASE "Get", &get},
        {C_LEASE "List", &leases},
        {C_LEASE "Break", &brk},
        {C_RESOURCE "Check", &check},
        {C_RESOURCE "Write", &write},
        {C_RESOURCE "Read", &read},
        {C_RESOURCE "List", &resources},
        {C_RESOURCE "Delete", &delete},
        {C_ADMIN "AdvanceFences", &advance},
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_null(c_call(rpc, calls[i].method, calls[i].request, &status));
        c_assert_status(&status, HP_NOT_FOUND, HP_R_NO_SUCH_NAMESPACE, calls[i].method);
        assert_string_equal(hp_status_get_meta(&status, "namespace"), "nowhere");
    }
}

/* ---- Admin ---- */

static void advance_fences_raises_every_later_token(void **state)
{
    (void)state;
    Holdfast__V1__AdvanceFencesRequest request = HOLDFAST__V1__ADVANCE_FENCES_REQUEST__INIT;
    int64_t token = c_grant(rpc, "af", 0);
    request.namespace_ = C_STR("default");
    request.at_least = token + 1000000;
    request.actor = C_STR("operator");
    request.reason = C_STR("moved here");
    Holdfast__V1__AdvanceFencesResponse *response = c_call(rpc, C_ADMIN "AdvanceFences", &request, NULL);
    assert_true(response->floor >= request.at_least);
    int64_t other = c_grant(rpc, "af-new", 0);
    assert_true(other > response->floor);
    c_release_one(rpc, "af", token);
    assert_true(c_grant(rpc, "af", 0) > response->floor);
    request.at_least = 0; /* above every token there is */
    assert_true(((Holdfast__V1__AdvanceFencesResponse *)c_call(rpc, C_ADMIN "AdvanceFences", &request, NULL))->floor >= other);
}

static int64_t outcome(const Holdfast__V1__StatsResponse *stats, const char *name)
{
    for (size_t i = 0; i < stats->n_outcomes; i++)
        if (!strcmp(stats->outcomes[i]->name, name))
            return stats->outcomes[i]->count;
    fail_msg("no outcome %s", name);
    return 0;
}

static const Holdfast__V1__MethodStats *method(const Holdfast__V1__StatsResponse *stats, const char *path)
{
    for (size_t i = 0; i < stats->n_methods; i++)
        if (!strcmp(stats->methods[i]->method, path))
            return stats->methods[i];
    fail_msg("no method %s", path);
    return NULL;
}

static int64_t errors(const Holdfast__V1__MethodStats *stats, const char *reason)
{
    for (size_t i = 0; i < stats->n_errors; i++)
        if (!strcmp(stats->errors[i]->reason, reason))
            return stats->errors[i]->count;
    return 0;
}

static void stats_count(void **state)
{
    (void)state;
    c_status status;
    Holdfast__V1__StatsResponse *before = c_stats(rpc), *after;
    c_grant(rpc, "st", 0);
    assert_null(c_write(rpc, "st", INT64_MAX, 1, "x", -1, &status));
    assert_null(c_get(rpc, "", &status));
    assert_null(t_rpc_call_bytes(rpc, "/nothing", "", 0, 0, &holdfast__v1__stats_response__descriptor, &status));
    after = c_stats(rpc);
    assert_int_equal(outcome(after, "granted") - outcome(before, "granted"), 1);
    assert_int_equal(outcome(after, "not_held") - outcome(before, "not_held"), 1);
    const Holdfast__V1__MethodStats *write = method(after, C_RESOURCE "Write"), *write0 = method(before, C_RESOURCE "Write");
    assert_int_equal(write->calls - write0->calls, 1);
    assert_int_equal(write->ok - write0->ok, 0);
    assert_int_equal(errors(write, "NOT_HELD") - errors(write0, "NOT_HELD"), 1);
    assert_int_equal(errors(method(after, C_LEASE "Get"), "LIMIT") - errors(method(before, C_LEASE "Get"), "LIMIT"), 1);
    assert_int_equal(errors(method(after, ""), "NO_SUCH_METHOD") - errors(method(before, ""), "NO_SUCH_METHOD"), 1);
    assert_true(after->uptime_ms >= before->uptime_ms);
    assert_true(after->leases_live >= 1);
    assert_true(after->schema_version >= 1);
    assert_true(after->connections >= 1 && after->connections <= after->connections_wanted);
    assert_int_equal(after->calls_in_flight, 1); /* this one */
    assert_false(after->draining);
    assert_string_not_equal(after->version, "");
    assert_true(after->n_batches > 0);
}

/* ---- when the database is away ---- */

static bool serves(void *arg)
{
    c_status status;
    struct t_rpc *to = arg;
    return c_get(to, "d1", &status) || status.code == HP_NOT_FOUND;
}

static void without_a_database_calls_say_so_in_time(void **state)
{
    (void)state;
    struct t_pg *pg = t_pg_start(NULL);
    struct t_server *own = t_server_start("--dsn", t_pg_dsn(pg), NULL);
    struct t_rpc *to = t_rpc_open(own->url);
    const char *resource = "d1";
    int64_t token = c_grant(to, resource, 0);
    t_pg_stop(pg, T_PG_FAST);
    Holdfast__V1__GetLeaseRequest request = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    c_status status;
    size_t len;
    request.namespace_ = C_STR("default");
    request.resource = C_STR(resource);
    const uint8_t *payload = t_rpc_pack(to, &request, &len);
    int64_t start = t_now_ms();
    assert_null(t_rpc_call_bytes(to, C_LEASE "Get", payload, len, 600, &holdfast__v1__get_lease_response__descriptor, &status));
    assert_true(t_now_ms() - start < T_AT_ONCE_MS);
    c_assert_status(&status, HP_UNAVAILABLE, HP_R_DATABASE_DOWN, "Get");
    start = t_now_ms();
    Holdfast__V1__RenewResponse *renewed = c_renew(to, &resource, &token, 1, 60000, NULL);
    assert_true(t_now_ms() - start < T_AT_ONCE_MS); /* a renewal of many items isn't kept for its whole timeout */
    assert_case(renewed->items[0], RENEW_RESULT, ERROR);
    assert_string_equal(renewed->items[0]->error->reason, "DATABASE_DOWN");
    Holdfast__V1__StatsResponse *stats = c_stats(to); /* the server speaks for itself */
    assert_int_equal(stats->leases_live, -1);
    assert_int_equal(stats->connections, 0);
    t_pg_restart(pg);
    assert_true(t_wait_for(serves, to, 20000));
    assert_case(c_renew_one(to, resource, token, 60000), RENEW_RESULT, RENEWED);
    t_rpc_close(to);
    assert_int_equal(t_server_stop(own), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acquire_grants_and_then_holds),
        cmocka_unit_test(tokens_rise_over_release_expiry_and_break),
        cmocka_unit_test(several_are_granted_together_or_not_at_all),
        cmocka_unit_test(sixteen_resources_at_once),
        cmocka_unit_test(what_is_not_there_yet_says_so),
        cmocka_unit_test(renewals_prolong_and_never_shorten),
        cmocka_unit_test(renewals_tell_why_a_lease_is_lost),
        cmocka_unit_test(a_thousand_items_in_one_call),
        cmocka_unit_test(release_frees_at_once_and_only_its_own),
        cmocka_unit_test(check_tells_current_stale_and_not_held),
        cmocka_unit_test(get_tells_a_lease_in_every_state),
        cmocka_unit_test(list_leases_by_prefix_task_and_holder_in_pages),
        cmocka_unit_test(list_resources_in_pages),
        cmocka_unit_test(break_ends_the_lease_that_was_seen),
        cmocka_unit_test(a_guarded_transaction_holds_off_the_rest_for_a_moment),
        cmocka_unit_test(writes_count_versions),
        cmocka_unit_test(stale_and_ended_tokens_write_nothing),
        cmocka_unit_test(values_are_any_bytes_up_to_a_mebibyte),
        cmocka_unit_test(what_was_never_leased_is_not_found),
        cmocka_unit_test(a_namespace_that_does_not_exist),
        cmocka_unit_test(advance_fences_raises_every_later_token),
        cmocka_unit_test(stats_count),
        cmocka_unit_test(without_a_database_calls_say_so_in_time),
    };
    return cmocka_run_group_tests(tests, serve_rpc, end_serving_rpc);
}
