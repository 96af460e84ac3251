/* Retries by class of error, as one call sees them. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void an_answer_is_unpacked(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    assert_int_equal(hfi_call(fake->client, &call), HF_OK);
    assert_int_equal(((const Holdfast__V1__WriteResponse *)call.response)->version, 1);
    assert_int_equal(call.tries, 1);
    assert_int_equal(call.first_sent_ms, 1000000);
    assert_false(call.ambiguous);
    hfi_call_release(&call);
    hfi_call_release(&call);
    fake_free(fake);
}

static void unavailable_is_retried_whatever_the_call(void **state)
{
    static const enum hfi_retry kinds[] = {HFI_RETRY_UNAPPLIED, HFI_RETRY_HARMLESS, HFI_RETRY_READ};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct fake *fake = fake_new(NULL);
        struct hfi_call call = fake_write_call(kinds[i]);
        fake_push(fake, FAKE_ANSWER, 3, serve_unavailable);
        fake_push(fake, FAKE_ANSWER, 3, serve_unavailable);
        assert_int_equal(hfi_call(fake->client, &call), HF_OK);
        assert_int_equal(call.tries, 3);
        assert_false(call.ambiguous);
        assert_true(fake->now_ms - 1000000 >= 206); /* the advice of 100 ms was taken */
        hfi_call_release(&call);
        fake_free(fake);
    }
}

static void unavailable_for_too_long_is_told_as_such(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    fake->serve = serve_unavailable;
    call.timeout_ms = 3000;
    assert_int_equal(hfi_call(fake->client, &call), HF_UNAVAILABLE);
    assert_int_equal(call.status.reason, HP_R_DATABASE_DOWN);
    assert_false(call.unreachable);
    assert_true(call.tries > 3);
    assert_true(fake->now_ms <= 1003000);
    fake_free(fake);
}

static void one_try_is_one_try(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_NEVER);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_unavailable);
    assert_int_equal(hfi_call(fake->client, &call), HF_UNAVAILABLE);
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_UNKNOWN);
    assert_int_equal(fake->n_calls, 2);
    fake_free(fake);
}

static void a_definite_error_is_not_retried(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_stale);
    assert_int_equal(hfi_call(fake->client, &call), HF_LOST);
    assert_int_equal(call.status.reason, HP_R_STALE_TOKEN);
    assert_int_equal(call.tries, 1);
    fake_free(fake);
}

static void a_lost_answer_repeats_the_same_bytes(void **state)
{
    static const enum fake_how hows[] = {FAKE_LOSE, FAKE_RESET, FAKE_GARBAGE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct fake *fake = fake_new(NULL);
        struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);
        fake_push(fake, hows[i], 0, NULL);
        assert_int_equal(hfi_call(fake->client, &call), HF_OK);
        assert_true(call.ambiguous);
        assert_int_equal(call.tries, 2);
        assert_int_equal(call.first_sent_ms, 1000000);
        assert_true(call.sent_ms > call.first_sent_ms || i > 0);
        assert_int_equal(fake->calls[0].len, fake->calls[1].len);
        assert_memory_equal(fake->calls[0].payload, fake->calls[1].payload, fake->calls[0].len);
        hfi_call_release(&call);
        fake_free(fake);
    }
}

static void outcome_lost_repeats_too(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_lost_reply);
    assert_int_equal(hfi_call(fake->client, &call), HF_OK);
    assert_true(call.ambiguous);
    hfi_call_release(&call);
    fake_free(fake);
}

static void what_must_not_repeat_is_unknown_at_once(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_UNAPPLIED);

    (void)state;
    fake_push(fake, FAKE_ANSWER, 0, serve_lost_reply);
    assert_int_equal(hfi_call(fake->client, &call), HF_UNKNOWN);
    assert_int_equal(call.status.reason, HP_R_OUTCOME_LOST);
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_UNKNOWN);
    assert_int_equal(call.status.reason, HP_R_OUTCOME_LOST);
    assert_int_equal(fake->n_calls, 2);
    /* but what surely was not sent is sent again */
    fake_push(fake, FAKE_UNREACHABLE, 0, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_OK);
    hfi_call_release(&call);
    fake_free(fake);
}

static void an_ambiguous_try_taints_the_end(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    fake_push(fake, FAKE_RESET, 0, NULL);
    fake->serve = serve_unavailable;
    call.timeout_ms = 2000;
    assert_int_equal(hfi_call(fake->client, &call), HF_UNKNOWN); /* not UNAVAILABLE: the first may have been served */
    assert_int_equal(call.status.reason, HP_R_OUTCOME_LOST);
    fake_free(fake);
}

static void a_read_is_never_ambiguous(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_READ);

    (void)state;
    call.timeout_ms = 1000;
    for (int i = 0; i < 60; i++)
        fake_push(fake, FAKE_RESET, 1, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_UNAVAILABLE);
    assert_true(call.unreachable);
    fake_free(fake);
}

static void nobody_there_is_told_after_the_connect_timeout(void **state)
{
    const hf_client_options options = {.servers = "tcp://nowhere:1", .connect_timeout_ms = 2000};
    struct fake *fake = fake_new(&options);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    for (int i = 0; i < 60; i++)
        fake_push(fake, FAKE_UNREACHABLE, 0, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_UNAVAILABLE);
    assert_true(call.unreachable);
    assert_non_null(strstr(call.status.message, "tcp://nowhere:1"));
    assert_int_equal(call.tries, 0);
    assert_int_equal(call.first_sent_ms, 0);
    assert_in_range(fake->now_ms - 1000000, 2000, 2500);
    fake_free(fake);
}

static void another_server_takes_over(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    fake->transport.n_endpoints = 2;
    fake_push(fake, FAKE_UNREACHABLE, 0, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_OK);
    assert_int_equal(fake->calls[0].endpoint, 1);
    assert_int_equal(call.first_sent_ms, fake->calls[0].at_ms); /* the try that nobody saw doesn't count */
    hfi_call_release(&call);
    fake_free(fake);
}

static void more_than_4_mib_are_refused_here(void **state)
{
    struct fake *fake = fake_new(NULL);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);
    Holdfast__V1__WriteRequest request = *(const Holdfast__V1__WriteRequest *)call.request;

    (void)state;
    request.value.len = 5 << 20;
    request.value.data = calloc(1, request.value.len);
    call.request = &request.base;
    assert_int_equal(hfi_call(fake->client, &call), HF_INVALID);
    assert_int_equal(call.status.reason, HP_R_LIMIT);
    assert_non_null(strstr(call.status.message, "4194304"));
    assert_int_equal(fake->n_calls, 0);
    free(request.value.data);
    fake_free(fake);
}

/* Each public call in a child that did not make the client. */
static int in_child(hf_client *client, hf_lease *lease)
{
    const hf_acquire_options acquire = {.resource = "x"};
    const hf_adopt_options adopt = {.resource = "x", .token = 1};
    hf_check_item item = {.resource = "x", .token = 1};
    hf_lease *other = NULL;
    hf_value value;
    hf_page *page = NULL;
    hf_error error;

    alarm(10); /* a lock that another thread held would hang us */
    if (hf_acquire(client, &acquire, &other, NULL, &error) != HF_MISUSE || error.result != HF_MISUSE ||
        !strstr(error.message, "fork"))
        return 1;
    if (hf_adopt(client, &adopt, &other, NULL) != HF_MISUSE || hf_write(lease, NULL, "v", 1, NULL, NULL) != HF_MISUSE ||
        hf_delete(lease, NULL, NULL, NULL) != HF_MISUSE || hf_renew_now(lease, NULL) != HF_MISUSE)
        return 2;
    if (hf_release(lease, NULL) != HF_MISUSE || hf_read(client, "x", &value, NULL) != HF_MISUSE ||
        hf_check(client, &item, 1, NULL) != HF_MISUSE || hf_break(client, "x", 1, NULL, "why", NULL, NULL) != HF_MISUSE)
        return 3;
    if (hf_get_lease(client, "x", &page, NULL) != HF_MISUSE || hf_list_leases(client, NULL, &page, NULL) != HF_MISUSE ||
        hf_list_resources(client, NULL, &page, NULL) != HF_MISUSE)
        return 4;
    if (hf_lease_valid(lease) || hf_lease_token(lease) != 0 || hf_lease_token_of(lease, "r") != 0 ||
        hf_lease_remaining_ms(lease) != 0 || hf_lease_deadline_ms(lease) != 0 || hf_lease_count(lease) != 0 ||
        hf_lease_resource(lease, 0) || !hf_lease_loss(lease))
        return 5;
    hf_lease_free(lease);
    hf_client_free(client);
    return 0;
}

static void a_forked_child_is_refused(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_lease *lease = fake_acquire(fake, "r", 3000);
    pid_t pid;
    int status;

    (void)state;
    pthread_mutex_lock(&fake->client->mutex); /* as if a thread was just at it */
    pid = fork();
    if (pid == 0)
        _exit(in_child(fake->client, lease));
    pthread_mutex_unlock(&fake->client->mutex);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(hf_lease_valid(lease)); /* nothing happened to the parent's */
    hf_lease_free(lease);
    fake_free(fake);
}

static void wrong_options_name_their_field(void **state)
{
    hf_client *client = NULL;
    hf_error error;
    hf_client_options options = {.servers = "tcp://127.0.0.1:1,"};

    (void)state;
    assert_int_equal(hf_client_new(&options, &client, &error), HF_INVALID);
    assert_string_equal(error.field, "servers");
    options.servers = "gopher://x";
    assert_int_equal(hf_client_new(&options, &client, &error), HF_INVALID);
    assert_non_null(strstr(error.message, "gopher://x"));
    options = (hf_client_options){.name_space = ""};
    assert_int_equal(hf_client_new(&options, &client, &error), HF_INVALID);
    assert_string_equal(error.field, "namespace");
    options = (hf_client_options){.key = "hfk_secret\nx: y"};
    assert_int_equal(hf_client_new(&options, &client, &error), HF_INVALID);
    assert_string_equal(error.field, "key");
    assert_null(strstr(error.message, "secret"));
    options = (hf_client_options){.servers = "grpcs://127.0.0.1:1", .tls_ca_file = "/nonexistent/ca.pem"};
    assert_int_equal(hf_client_new(&options, &client, &error), HF_INVALID);
    assert_string_equal(error.field, "tls");
    assert_string_equal(error.message, "/nonexistent/ca.pem: No such file or directory");
    options = (hf_client_options){.timeout_ms = -1};
    assert_int_equal(hf_client_new(&options, &client, NULL), HF_INVALID);
    assert_null(client);
}

static void a_timeout_without_end_is_no_accident(void **state)
{
    const hf_client_options options = {.timeout_ms = INT64_MAX, .connect_timeout_ms = INT64_MAX};
    struct fake *fake = fake_new(&options);
    struct hfi_call call = fake_write_call(HFI_RETRY_HARMLESS);

    (void)state;
    call.timeout_ms = INT64_MAX;
    fake_push(fake, FAKE_RESET, 0, NULL);
    assert_int_equal(hfi_call(fake->client, &call), HF_OK);
    hfi_call_release(&call);
    fake_free(fake);
}

static void serve_full_page(struct fake *fake, const Holdfast__V1__Call *call)
{
    Holdfast__V1__ListLeasesResponse response = HOLDFAST__V1__LIST_LEASES_RESPONSE__INIT;
    Holdfast__V1__Lease lease = HOLDFAST__V1__LEASE__INIT, *leases[HF_ITEMS_MAX];
    Holdfast__V1__Lease__LabelsEntry label = HOLDFAST__V1__LEASE__LABELS_ENTRY__INIT, *labels[64];

    (void)call;
    label.key = (char *)"0123456789012345678901234567";
    label.value = (char *)"value";
    for (int i = 0; i < 64; i++)
        labels[i] = &label;
    lease.resource = lease.task = lease.holder = (char *)"name";
    lease.token = lease.fence = lease.remaining_ms = lease.granted_unix_ms = 1;
    lease.n_labels = 64;
    lease.labels = labels;
    for (int i = 0; i < HF_ITEMS_MAX; i++)
        leases[i] = &lease;
    response.n_leases = HF_ITEMS_MAX;
    response.leases = leases;
    fake_ok(fake, &response.base);
}

static void the_largest_page_is_taken(void **state)
{
    struct fake *fake = fake_new(NULL);
    hf_page *page = NULL;
    hf_error error;

    (void)state;
    fake->serve = serve_full_page;
    if (hf_list_leases(fake->client, &(hf_list_options){.page_size = HF_ITEMS_MAX}, &page, &error) != HF_OK)
        fail_msg("%s", error.message);
    assert_int_equal(page->n, HF_ITEMS_MAX);
    assert_int_equal(page->leases[999].n_labels, 64);
    hf_page_free(page);
    fake_free(fake);
}

static void results_have_names(void **state)
{
    (void)state;
    assert_string_equal(hf_result_name(HF_OK), "OK");
    assert_string_equal(hf_result_name(HF_UNKNOWN), "UNKNOWN");
    assert_string_equal(hf_result_name(HF_NO_MEMORY), "NO_MEMORY");
    assert_non_null(hf_result_name((hf_result)99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_unpacked),
        cmocka_unit_test(unavailable_is_retried_whatever_the_call),
        cmocka_unit_test(unavailable_for_too_long_is_told_as_such),
        cmocka_unit_test(one_try_is_one_try),
        cmocka_unit_test(a_definite_error_is_not_retried),
        cmocka_unit_test(a_lost_answer_repeats_the_same_bytes),
        cmocka_unit_test(outcome_lost_repeats_too),
        cmocka_unit_test(what_must_not_repeat_is_unknown_at_once),
        cmocka_unit_test(an_ambiguous_try_taints_the_end),
        cmocka_unit_test(a_read_is_never_ambiguous),
        cmocka_unit_test(nobody_there_is_told_after_the_connect_timeout),
        cmocka_unit_test(another_server_takes_over),
        cmocka_unit_test(more_than_4_mib_are_refused_here),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(wrong_options_name_their_field),
        cmocka_unit_test(a_timeout_without_end_is_no_accident),
        cmocka_unit_test(the_largest_page_is_taken),
        cmocka_unit_test(results_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
