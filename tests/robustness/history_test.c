/*
 * history_test.c - a history is what it was after a round trip through its file, with many threads, and with one that was killed.
 */
#include "robustness/history.h"

#include "harness/harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct history_call sample(enum history_op op)
{
    struct history_call call = {.worker = 3,
                                .op = op,
                                .resource = "a b/100%=\303\244\t",
                                .request_id = "r-1",
                                .token = 7,
                                .write_seq = 2,
                                .has_expected = true,
                                .value = history_digest("x", 1),
                                .ttl_ms = 3000,
                                .answer = HISTORY_OK,
                                .got_token = INT64_MAX,
                                .got_version = 5,
                                .got_fence = 9,
                                .got_ttl_ms = 2999,
                                .got_value = UINT64_MAX,
                                .replayed = true,
                                .tries = 2};
    return call;
}

static void assert_same(const struct history_call *a, const struct history_call *b)
{
    char left[2000], right[2000];
    assert_true(history_format(a, left, sizeof(left)));
    assert_true(history_format(b, right, sizeof(right)));
    assert_string_equal(left, right);
    assert_string_equal(a->resource, b->resource);
    assert_string_equal(a->request_id, b->request_id);
    assert_string_equal(a->reason, b->reason);
    assert_int_equal(a->op, b->op);
    assert_int_equal(a->answer, b->answer);
    assert_int_equal(a->start_ns, b->start_ns);
    assert_int_equal(a->end_ns, b->end_ns);
    assert_true(a->got_token == b->got_token && a->got_value == b->got_value && a->value == b->value);
    assert_true(a->replayed == b->replayed && a->has_expected == b->has_expected && a->tries == b->tries);
}

static void a_line_is_for_people(void **state)
{
    (void)state;
    const struct history_call call = {.worker = 2,
                                      .op = HISTORY_WRITE,
                                      .resource = "a b",
                                      .token = 3,
                                      .write_seq = 1,
                                      .value = 0xabc,
                                      .start_ns = 5,
                                      .end_ns = 6,
                                      .answer = HISTORY_REFUSED,
                                      .reason = "STALE_TOKEN",
                                      .tries = 1};
    char line[400];
    assert_true(history_format(&call, line, sizeof(line)));
    assert_string_equal(line, "worker=2 op=write resource=a%20b token=3 seq=1 value=0000000000000abc start=5 end=6 "
                              "answer=refused reason=STALE_TOKEN tries=1");
    assert_false(history_format(&call, line, 20));
}

static void what_is_no_line_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "worker=1",
                                        "op=steal worker=1",
                                        "op=write colour=red",
                                        "op=write token=seven",
                                        "op=write token=",
                                        "op=write token=99999999999999999999",
                                        "op=write resource=%4",
                                        "op=write token",
                                        "op=write answer=perhaps"};
    struct history_call call;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        if (history_parse(wrong[i], &call))
            fail_msg("\"%s\" was taken for a call", wrong[i]);
    assert_true(history_parse("op=read worker=1 answer=ok", &call));
    assert_int_equal(call.op, HISTORY_READ);
}

static void calls_come_back_from_the_file(void **state)
{
    (void)state;
    char *path = t_printf("%s/history", t_tmpdir()), why[400];
    struct history *history = history_new(path), *loaded = history_new(NULL);
    for (int op = 0; op < HISTORY_OPS; op++) {
        struct history_call call = sample((enum history_op)op);
        size_t number = history_begin(history, &call);
        assert_int_equal(number, op);
        call.answer = (enum history_answer)(op % 3);
        snprintf(call.reason, sizeof(call.reason), "%s", op % 3 ? "" : "OUTCOME_LOST");
        history_end(history, number, &call);
    }
    assert_true(history_load(loaded, path, why, sizeof(why)));
    assert_int_equal(history_count(loaded), HISTORY_OPS);
    for (size_t i = 0; i < HISTORY_OPS; i++) {
        struct history_call a = history_get(history, i), b = history_get(loaded, i);
        assert_true(a.start_ns > 0 && a.end_ns >= a.start_ns);
        assert_same(&a, &b);
    }
    t_write_file(path, "op=read worker=1\nnonsense\n");
    assert_false(history_load(loaded, path, why, sizeof(why)));
    assert_non_null(strstr(why, ":2: nonsense"));
    assert_false(history_load(loaded, "/nowhere/history", why, sizeof(why)));
    history_free(history);
    history_free(loaded);
}

static void open_calls_are_unknown(void **state)
{
    (void)state;
    char *path = t_printf("%s/history", t_tmpdir()), why[400];
    struct history *loaded = history_new(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* a worker that is killed amid its second call */
        struct history *history = history_new(path);
        struct history_call call = sample(HISTORY_ACQUIRE);
        history_end(history, history_begin(history, &call), &call);
        call.op = HISTORY_WRITE;
        history_begin(history, &call);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(history_load(loaded, path, why, sizeof(why)));
    assert_int_equal(history_count(loaded), 2);
    assert_int_equal(history_get(loaded, 0).answer, HISTORY_OK);
    struct history_call open_one = history_get(loaded, 1);
    assert_int_equal(open_one.op, HISTORY_WRITE);
    assert_int_equal(open_one.answer, HISTORY_UNKNOWN);
    assert_int_equal(open_one.end_ns, 0);
    assert_true(open_one.start_ns > 0);
    history_free(loaded);
}

enum { THREADS = 8, CALLS = 500 };

struct thread {
    pthread_t id;
    struct history *history;
    int number;
};

static void *record_many(void *arg)
{
    struct thread *thread = arg;
    for (int i = 0; i < CALLS; i++) {
        struct history_call call = {.worker = thread->number, .op = HISTORY_WRITE, .write_seq = i + 1};
        size_t number = history_begin(thread->history, &call);
        call.answer = HISTORY_OK;
        call.got_version = thread->number * CALLS + i;
        history_end(thread->history, number, &call);
    }
    return NULL;
}

static void threads_record_side_by_side(void **state)
{
    (void)state;
    char *path = t_printf("%s/history", t_tmpdir()), why[400];
    struct history *history = history_new(path), *loaded = history_new(NULL);
    struct thread threads[THREADS];
    int64_t next[THREADS] = {0}, last = 0;
    size_t n;
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.history = history, .number = i};
        assert_int_equal(pthread_create(&threads[i].id, NULL, record_many, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    assert_true(history_load(loaded, path, why, sizeof(why)));
    struct history_call *calls = history_sorted(loaded, &n);
    assert_int_equal(n, THREADS * CALLS);
    for (size_t i = 0; i < n; i++) { /* every call is whole, and each thread's are in their order */
        const struct history_call *call = &calls[i];
        assert_true(call->start_ns >= last && call->end_ns >= call->start_ns);
        last = call->start_ns;
        assert_int_equal(call->write_seq, ++next[call->worker]);
        assert_int_equal(call->got_version, call->worker * CALLS + call->write_seq - 1);
        assert_int_equal(call->answer, HISTORY_OK);
    }
    free(calls);
    history_free(history);
    history_free(loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_line_is_for_people, t_teardown),
        cmocka_unit_test_teardown(what_is_no_line_is_refused, t_teardown),
        cmocka_unit_test_teardown(calls_come_back_from_the_file, t_teardown),
        cmocka_unit_test_teardown(open_calls_are_unknown, t_teardown),
        cmocka_unit_test_teardown(threads_record_side_by_side, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
