/* hf_gate by its rules: who is refused, who waits, who may come in together, and for how long. */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/gate.h>

#include "client/lib/gate_file.h"

static const char *dir;
static hf_gate *gate;

static int setup(void **state)
{
    const hf_gate_options options = {.create = true};

    (void)state;
    dir = t_printf("%s/gate", t_tmpdir());
    return hf_gate_open(dir, &options, &gate, NULL) == HF_OK ? 0 : -1;
}

static int teardown(void **state)
{
    hf_gate_close(gate);
    return t_teardown(state);
}

static hf_gate_pass *enter(const char *resource, int64_t token)
{
    hf_gate_pass *pass = NULL;
    hf_error error;

    if (hf_gate_enter(gate, resource, token, 10000, &pass, &error) != HF_OK)
        fail_msg("%s %lld: %s", resource, (long long)token, error.message);
    assert_int_equal(error.result, HF_OK);
    assert_string_equal(error.reason, "");
    return pass;
}

static void refused(const char *resource, int64_t token, int64_t fence)
{
    hf_gate_pass *pass = NULL;
    hf_error error;

    assert_int_equal(hf_gate_enter(gate, resource, token, 0, &pass, &error), HF_LOST);
    assert_null(pass);
    assert_int_equal(error.result, HF_LOST);
    assert_string_equal(error.reason, "STALE_TOKEN");
    assert_int_equal(error.fence, fence);
}

static void busy(const char *resource, int64_t token, int64_t wait_ms, const char *says)
{
    hf_gate_pass *pass = NULL;
    hf_error error;

    assert_int_equal(hf_gate_enter(gate, resource, token, wait_ms, &pass, &error), HF_UNAVAILABLE);
    assert_null(pass);
    assert_string_equal(error.reason, "BUSY");
    if (!strstr(error.message, says))
        fail_msg("not \"%s\": %s", says, error.message);
}

static int64_t mark_of(const char *resource)
{
    int64_t token = -1;
    hf_error error;

    if (hf_gate_mark(gate, resource, &token, &error) != HF_OK)
        fail_msg("%s", error.message);
    return token;
}

static void bad_arguments_name_their_field(void **state)
{
    char longest[HF_NAME_MAX + 1], too_long[HF_NAME_MAX + 2];
    const char *bad[] = {NULL, "", "a\nb", "\x7f", "\xc3\x28", "\xed\xa0\x80", too_long};
    hf_gate_pass *pass = NULL;
    hf_error error;
    int64_t token;

    (void)state;
    memset(longest, 'x', HF_NAME_MAX);
    longest[HF_NAME_MAX] = '\0';
    memset(too_long, 'x', HF_NAME_MAX + 1);
    too_long[HF_NAME_MAX + 1] = '\0';
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(hf_gate_enter(gate, bad[i], 1, 0, &pass, &error), HF_INVALID);
        assert_string_equal(error.field, "resource");
        assert_int_equal(hf_gate_mark(gate, bad[i], &token, &error), HF_INVALID);
        assert_string_equal(error.field, "resource");
    }
    for (int64_t bad_token = -1; bad_token <= 0; bad_token++) {
        assert_int_equal(hf_gate_enter(gate, "r", bad_token, 0, &pass, &error), HF_INVALID);
        assert_string_equal(error.field, "token");
    }
    assert_int_equal(hf_gate_enter(gate, "r", 1, -1, &pass, &error), HF_INVALID);
    assert_string_equal(error.field, "wait_ms");
    assert_int_equal(hf_gate_enter(gate, "r", 1, HF_WAIT_MAX_MS + 1, &pass, NULL), HF_INVALID);
    assert_null(pass);
    assert_int_equal(mark_of("r"), 0);
    hf_gate_leave(enter(longest, 1));
    hf_gate_leave(enter("../../etc/passwd", 1));
    hf_gate_leave(enter("gate", 1)); /* not the gate's own file */
    hf_gate_leave(enter("größe/日本", INT64_MAX));
    assert_int_equal(mark_of("größe/日本"), INT64_MAX);
    hf_gate_leave(NULL);
}

static void a_gate_is_made_only_when_asked(void **state)
{
    const hf_gate_options create = {.create = true};
    const char *fresh = t_printf("%s/new", t_tmpdir());
    hf_gate *other = NULL;
    struct stat st;
    hf_error error;

    (void)state;
    assert_int_equal(hf_gate_open(NULL, NULL, &other, &error), HF_INVALID);
    assert_string_equal(error.field, "path");
    assert_int_equal(hf_gate_open("", &create, &other, &error), HF_INVALID);
    assert_int_equal(hf_gate_open(fresh, NULL, &other, &error), HF_NOT_FOUND);
    assert_int_equal(mkdir(fresh, 0755), 0); /* as an empty mount point */
    assert_int_equal(hf_gate_open(fresh, NULL, &other, &error), HF_NOT_FOUND);
    assert_string_equal(error.reason, "NO_GATE");
    assert_non_null(strstr(error.message, fresh));
    assert_int_equal(hf_gate_open(t_printf("%s/a/b", fresh), &create, &other, &error), HF_NOT_FOUND);
    assert_null(other);
    assert_int_equal(hf_gate_open(fresh, &create, &other, &error), HF_OK);
    hf_gate_close(other);
    assert_int_equal(hf_gate_open(fresh, &create, &other, NULL), HF_OK);
    hf_gate_close(other);
    assert_int_equal(hf_gate_open(fresh, NULL, &other, NULL), HF_OK);
    hf_gate_close(other);
    hf_gate_close(NULL);
    other = NULL;
    t_write_file(t_printf("%s/file", fresh), "");
    assert_int_equal(hf_gate_open(t_printf("%s/file", fresh), &create, &other, &error), HF_FAILED);
    assert_string_equal(error.reason, "DISK");
    assert_null(other);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_lower_token_is_refused_and_the_same_comes_again(void **state)
{
    hf_gate_pass *first, *second;

    (void)state;
    assert_int_equal(mark_of("r"), 0);
    first = enter("r", 5);
    assert_int_equal(mark_of("r"), 5);
    refused("r", 4, 5);
    second = enter("r", 5); /* both inside */
    hf_gate_leave(first);
    busy("r", 6, 0, "token 5 is still inside r"); /* the second still is */
    refused("r", 5, 6);
    hf_gate_leave(second);
    hf_gate_leave(enter("r", 6));
    hf_gate_leave(enter("r", 6));
    refused("r", 1, 6);
    hf_gate_leave(enter("r", INT64_MAX));
    refused("r", INT64_MAX - 1, INT64_MAX);
    assert_int_equal(mark_of("r"), INT64_MAX);
}

static void resources_do_not_disturb_each_other(void **state)
{
    hf_gate_pass *pass = enter("a", 5);

    (void)state;
    hf_gate_leave(enter("b", 3));
    assert_int_equal(mark_of("b"), 3);
    hf_gate_leave(enter("b", 9));
    assert_int_equal(mark_of("a"), 5);
    hf_gate_leave(pass);
}

static void the_mark_outlives_the_gate_and_passes_do_too(void **state)
{
    hf_gate_pass *pass = enter("r", 5);
    hf_gate *second;

    (void)state;
    assert_int_equal(hf_gate_open(dir, NULL, &second, NULL), HF_OK);
    hf_gate_close(gate);
    gate = second;
    assert_int_equal(mark_of("r"), 5);
    busy("r", 7, 0, "token 5");
    hf_gate_leave(pass);
    refused("r", 5, 7);
    hf_gate_leave(enter("r", 7));
}

struct entrant {
    pthread_t thread;
    int64_t token, wait_ms;
    hf_result result;
    hf_error error;
    hf_gate_pass *pass;
    atomic_bool done;
    int64_t cpu_ms;
};

static void *go_in(void *arg)
{
    struct entrant *e = arg;
    struct timespec cpu;

    e->result = hf_gate_enter(gate, "r", e->token, e->wait_ms, &e->pass, &e->error);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    e->cpu_ms = cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000;
    atomic_store(&e->done, true);
    return NULL;
}

static void start(struct entrant *e)
{
    assert_int_equal(pthread_create(&e->thread, NULL, go_in, e), 0);
}

static bool mark_is(void *token)
{
    return mark_of("r") == *(int64_t *)token;
}

static void a_higher_token_waits_for_the_lower_to_leave(void **state)
{
    hf_gate_pass *pass = enter("r", 5);
    struct entrant high = {.token = 7, .wait_ms = 30000};

    (void)state;
    start(&high);
    assert_true(t_wait_for(mark_is, &high.token, 10000)); /* raised before it is inside */
    refused("r", 5, 7);
    refused("r", 6, 7);
    t_sleep_ms(300); /* for its CPU time */
    assert_false(atomic_load(&high.done));
    hf_gate_leave(pass);
    pthread_join(high.thread, NULL);
    assert_int_equal(high.result, HF_OK);
    if (high.cpu_ms > 100)
        fail_msg("it took %lld ms of CPU to wait", (long long)high.cpu_ms);
    busy("r", 8, 0, "token 7");
    hf_gate_leave(high.pass);
}

static void patience_ends_and_the_mark_stays_raised(void **state)
{
    hf_gate_pass *pass = enter("r", 5);
    int64_t begun = t_now_ms();

    (void)state;
    busy("r", 7, 200, "token 5");
    assert_in_range(t_now_ms() - begun, 190, 20000);
    assert_int_equal(mark_of("r"), 7);
    hf_gate_leave(pass);
    refused("r", 6, 7);
    hf_gate_leave(enter("r", 7));
}

static void one_who_waits_is_overtaken_by_a_higher_one(void **state)
{
    hf_gate_pass *pass = enter("r", 5);
    struct entrant middle = {.token = 7, .wait_ms = 30000};

    (void)state;
    start(&middle);
    assert_true(t_wait_for(mark_is, &middle.token, 10000));
    busy("r", 9, 0, "token 5");
    pthread_join(middle.thread, NULL); /* though 5 is still inside */
    assert_int_equal(middle.result, HF_LOST);
    assert_int_equal(middle.error.fence, 9);
    hf_gate_leave(pass);
    hf_gate_leave(enter("r", 9));
}

static void a_mark_that_somebody_sits_on_is_waited_for_a_second(void **state)
{
    struct hfi_gate_file file;
    struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
    int64_t begun, token;
    hf_error error;

    (void)state;
    hf_gate_leave(enter("r", 5));
    hfi_gate_file_init(&file, gate, "r");
    assert_int_equal(hfi_gate_file_open(&file, O_RDWR, NULL), HF_OK);
    assert_int_equal(fcntl(file.fd, F_OFD_SETLK, &lock), 0);
    begun = t_now_ms();
    busy("r", 5, 0, "writing the mark of r");
    assert_in_range(t_now_ms() - begun, 900, 20000);
    assert_int_equal(hf_gate_mark(gate, "r", &token, &error), HF_UNAVAILABLE);
    hf_gate_leave(enter("other", 5));
    hfi_gate_file_close(&file);
    hf_gate_leave(enter("r", 5));
}

static void after_fork_the_child_is_refused_and_keeps_nothing(void **state)
{
    hf_gate_pass *pass = enter("r", 5), *mine = NULL;
    int64_t token;
    int status, ready[2], end[2];
    char byte;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(end), 0);
    pid = fork();
    if (pid == 0) {
        hf_error error;
        int bad = hf_gate_enter(gate, "r", 5, 0, &mine, &error) != HF_MISUSE;
        bad |= (strcmp(error.reason, "MISUSE") != 0) << 1;
        bad |= (hf_gate_mark(gate, "r", &token, NULL) != HF_MISUSE) << 2;
        hf_gate_leave(pass); /* does nothing */
        hf_gate_close(gate); /* nor does this */
        bad |= (write(ready[1], "x", 1) != 1) << 3;
        close(end[1]); /* so that it ends with the test, if that fails */
        bad |= (read(end[0], &byte, 1) != 1) << 4;
        _exit(bad);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    busy("r", 6, 0, "token 5"); /* the child has not given it up */
    hf_gate_leave(pass);
    hf_gate_leave(enter("r", 6)); /* and doesn't keep it, though it has a copy of the descriptor */
    assert_int_equal(write(end[1], "x", 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(end[i]);
    }
}

/* What a gate is for: effects that never go back to an older token. */
enum { THREADS = 6, ROUNDS = 80 };
static atomic_llong next_token, applied;
static atomic_int gone_back, entered, lost, timed_out, other;

static void *race(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    int64_t token = 1;

    for (int i = 0; i < ROUNDS; i++) {
        hf_gate_pass *pass;
        hf_result result;
        if (rand_r(&seed) % 3 == 0)
            token = atomic_fetch_add(&next_token, 1) + 1;
        else if (rand_r(&seed) % 3 == 0)
            token = atomic_load(&next_token);
        result = hf_gate_enter(gate, "r", token ? token : 1, rand_r(&seed) % 4 ? 10000 : 0, &pass, NULL);
        if (result != HF_OK) {
            atomic_fetch_add(result == HF_LOST ? &lost : result == HF_UNAVAILABLE ? &timed_out : &other, 1);
            continue;
        }
        atomic_fetch_add(&entered, 1);
        for (int n = 0; n < 3; n++) { /* more than once while inside: two tokens must not overlap */
            if (atomic_exchange(&applied, token) > token)
                atomic_fetch_add(&gone_back, 1);
            sched_yield();
        }
        hf_gate_leave(pass);
    }
    return NULL;
}

static void effects_of_many_threads_never_go_back(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, race, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    print_message("entered %d, refused %d, timed out %d\n", entered, lost, timed_out);
    assert_int_equal(gone_back, 0);
    assert_int_equal(other, 0);
    assert_true(entered > ROUNDS / 4 && lost > 0);
    assert_int_equal(mark_of("r") >= atomic_load(&applied), 1);
}

static void *first_of_all(void *arg)
{
    struct entrant *e = arg;

    for (int i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "r%d", i);
        e->result = hf_gate_enter(gate, name, e->token, 20000, &e->pass, &e->error);
        if (e->result != HF_OK && e->result != HF_LOST)
            return e;
        if (e->result == HF_OK)
            hf_gate_leave(e->pass);
    }
    return NULL;
}

static void the_first_entries_of_a_resource_may_come_at_once(void **state)
{
    struct entrant entrants[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        entrants[i] = (struct entrant){.token = i + 1};
        assert_int_equal(pthread_create(&entrants[i].thread, NULL, first_of_all, &entrants[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(entrants[i].thread, &failed);
        if (failed)
            fail_msg("%s", entrants[i].error.message);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(mark_of(t_printf("r%d", i)), THREADS);
}

int main(void)
{
#define GATE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        GATE_TEST(bad_arguments_name_their_field),
        GATE_TEST(a_gate_is_made_only_when_asked),
        GATE_TEST(a_lower_token_is_refused_and_the_same_comes_again),
        GATE_TEST(resources_do_not_disturb_each_other),
        GATE_TEST(the_mark_outlives_the_gate_and_passes_do_too),
        GATE_TEST(a_higher_token_waits_for_the_lower_to_leave),
        GATE_TEST(patience_ends_and_the_mark_stays_raised),
        GATE_TEST(one_who_waits_is_overtaken_by_a_higher_one),
        GATE_TEST(a_mark_that_somebody_sits_on_is_waited_for_a_second),
        GATE_TEST(after_fork_the_child_is_refused_and_keeps_nothing),
        GATE_TEST(effects_of_many_threads_never_go_back),
        GATE_TEST(the_first_entries_of_a_resource_may_come_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
