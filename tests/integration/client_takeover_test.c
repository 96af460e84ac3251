/*
 * client_takeover_test.c - the paused holder: a worker stopped past its TTL is replaced, and its late write is refused twice,
 * by its own library and, where it had got past that, by the server.
 *
 * The worker is this program, run again with arguments.
 */
#include "harness/served.h"

#include <holdfast/holdfast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/call.h"
#include "holdfast/v1/resource.pb-c.h"

enum { TTL_MS = 1000 };

/* ---- the worker ---- */

static void say_loss(hf_lease *lease, const char *reason, void *arg)
{
    (void)lease;
    (void)arg;
    printf("LOSS %s\n", reason);
    fflush(stdout);
}

/* What a worker had built and was about to hand to the network when it was stopped: past its library's own check. */
static void send_raw(hf_client *client, const char *resource, int64_t token)
{
    Holdfast__V1__WriteRequest request = HOLDFAST__V1__WRITE_REQUEST__INIT;
    struct hfi_call call = {.method = HFI_WRITE,
                            .request = &request.base,
                            .response_type = &holdfast__v1__write_response__descriptor,
                            .retry = HFI_RETRY_HARMLESS};
    hf_result result;

    request.namespace_ = (char *)"default";
    request.resource = (char *)(uintptr_t)resource;
    request.token = token;
    request.write_seq = 1;
    request.value.data = (uint8_t *)(uintptr_t) "from A";
    request.value.len = 6;
    result = hfi_call(client, &call);
    printf("RAW %s %s\n", hf_result_name(result), hp_reason_name((int)call.status.reason));
    hfi_call_release(&call);
}

static int worker(const char *url, const char *resource)
{
    const hf_client_options client_options = {.servers = url, .on_loss = say_loss};
    const hf_acquire_options options = {.resource = resource, .ttl_ms = TTL_MS};
    hf_client *client = NULL;
    hf_lease *lease = NULL;
    hf_value value;
    hf_error error;
    sigset_t go;
    int sig;

    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    if (hf_client_new(&client_options, &client, &error) != HF_OK || hf_acquire(client, &options, &lease, NULL, &error) != HF_OK ||
        hf_read(client, resource, &value, &error) != HF_OK) {
        printf("FAILED %s\n", error.message);
        return 1;
    }
    hf_value_release(&value);
    printf("HOLDING %lld\n", (long long)hf_lease_token(lease));
    fflush(stdout);
    sigwait(&go, &sig); /* the work, in which it is stopped */
    hf_result result = hf_write(lease, NULL, "from A", 6, NULL, &error);
    printf("WRITE %s %s valid=%d\n", hf_result_name(result), error.reason, hf_lease_valid(lease));
    fflush(stdout);
    send_raw(client, resource, hf_lease_token(lease));
    fflush(stdout);
    sigwait(&go, &sig);
    hf_lease_free(lease);
    hf_client_free(client);
    return 0;
}

/* ---- the test ---- */

static struct t_proc *start_worker(const char *resource, int64_t *token)
{
    const char *const argv[] = {t_self(), "worker", server->url, resource, NULL};
    struct t_proc *proc = t_spawn(argv, NULL);

    t_proc_expect_out(proc, "HOLDING ", 20000);
    *token = strtoll(strstr(t_proc_out(proc), "HOLDING ") + 8, NULL, 10);
    return proc;
}

static void a_stopped_worker_is_replaced_and_its_late_write_refused(void **state)
{
    const hf_client_options client_options = {.servers = server->url};
    const hf_acquire_options options = {.resource = "story", .ttl_ms = 10000, .wait_ms = 20000};
    hf_client *b = NULL;
    hf_lease *lease = NULL;
    hf_value value;
    hf_error error;
    struct t_proc *a;
    int64_t token;
    const char *out, *loss, *write;

    (void)state;
    a = start_worker("story", &token);
    assert_int_equal(hf_client_new(&client_options, &b, &error), HF_OK);
    t_sleep_ms(2 * TTL_MS); /* it renews by itself */
    t_proc_kill(a, SIGSTOP);
    const int64_t stopped = t_now_ms();
    if (hf_acquire(b, &options, &lease, NULL, &error) != HF_OK)
        fail_msg("B: %s", error.message);
    assert_in_range(t_now_ms() - stopped, TTL_MS / 2, TTL_MS + T_AT_ONCE_MS);
    assert_true(hf_lease_token(lease) > token);
    assert_int_equal(hf_write(lease, NULL, "from B", 6, NULL, &error), HF_OK);
    while (t_now_ms() - stopped < 3 * TTL_MS)
        t_sleep_ms(20);

    t_proc_kill(a, SIGUSR1); /* it will write the moment it runs again */
    t_proc_kill(a, SIGCONT);
    t_proc_expect_out(a, "RAW ", 20000);
    out = t_proc_out(a);
    write = strstr(out, "WRITE ");
    /* DEADLINE is its own library's word: nothing was sent. */
    if (!write || strncmp(write, "WRITE LOST DEADLINE valid=0", 27) != 0)
        fail_msg("%s", out);
    assert_non_null(strstr(out, "RAW LOST STALE_TOKEN"));
    t_proc_expect_out(a, "LOSS DEADLINE", T_PATIENCE_MS);
    loss = strstr(t_proc_out(a), "LOSS ");
    assert_non_null(loss);
    assert_null(strstr(loss + 1, "LOSS ")); /* once */

    assert_int_equal(hf_read(b, "story", &value, &error), HF_OK);
    assert_string_equal(value.data, "from B");
    assert_int_equal(value.token, hf_lease_token(lease));
    assert_int_equal(value.version, 1);
    hf_value_release(&value);
    assert_true(hf_lease_valid(lease));
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
    hf_client_free(b);
    t_proc_kill(a, SIGUSR1);
    assert_int_equal(t_proc_wait(a, T_PATIENCE_MS), 0);
}

static void a_stop_shorter_than_the_lease_costs_nothing(void **state)
{
    struct t_proc *a;
    int64_t token;

    (void)state;
    a = start_worker("short stop", &token);
    t_proc_kill(a, SIGSTOP);
    t_sleep_ms(TTL_MS * 2 / 5);
    t_proc_kill(a, SIGUSR1);
    t_proc_kill(a, SIGCONT);
    t_proc_expect_out(a, "WRITE OK", T_PATIENCE_MS);
    t_proc_kill(a, SIGUSR1);
    assert_int_equal(t_proc_wait(a, T_PATIENCE_MS), 0);
    assert_null(strstr(t_proc_out(a), "LOSS"));
}

static void a_killed_worker_is_replaced(void **state)
{
    const hf_client_options client_options = {.servers = server->url};
    const hf_acquire_options options = {.resource = "killed", .ttl_ms = 10000, .wait_ms = 20000};
    hf_client *b = NULL;
    hf_lease *lease = NULL;
    hf_error error;
    struct t_proc *a;
    int64_t token;

    (void)state;
    a = start_worker("killed", &token);
    assert_int_equal(hf_client_new(&client_options, &b, &error), HF_OK);
    t_proc_kill(a, SIGKILL);
    assert_int_equal(hf_acquire(b, &options, &lease, NULL, &error), HF_OK);
    assert_true(hf_lease_token(lease) > token);
    assert_int_equal(hf_release(lease, &error), HF_OK);
    hf_lease_free(lease);
    hf_client_free(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_worker_is_replaced_and_its_late_write_refused),
        cmocka_unit_test(a_stop_shorter_than_the_lease_costs_nothing),
        cmocka_unit_test(a_killed_worker_is_replaced),
    };

    if (argc == 4 && strcmp(argv[1], "worker") == 0)
        return worker(argv[2], argv[3]);
    return cmocka_run_group_tests(tests, serve, end_serving);
}
