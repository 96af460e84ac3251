/*
 * gate_test.c - hf_gate among processes: races, and processes that are killed or stopped inside, or at each step of writing a mark.
 * The program starts itself for the others: see main.
 */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <holdfast/gate.h>

#include "client/lib/gate_file.h"

static const hf_gate_options create = {.create = true};
static const char *dir;
static hf_gate *gate;

/* ---- what the other processes do ---- */

static int complain(const char *what, const hf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_result_name(error->result), error->message);
    return 1;
}

/* hold DIR TOKEN: inside until it is killed. */
static int hold(char **argv)
{
    hf_gate *mine;
    hf_gate_pass *pass;
    hf_error error;

    if (hf_gate_open(argv[0], NULL, &mine, &error) != HF_OK ||
        hf_gate_enter(mine, "r", atoll(argv[1]), 60000, &pass, &error) != HF_OK)
        return complain("hold", &error);
    printf("inside\n");
    fflush(stdout);
    for (;;)
        pause();
}

static int ops_left;

static void live_or_die(void)
{
    if (ops_left-- == 0)
        raise(SIGKILL);
}

static ssize_t mortal_write(int fd, const void *data, size_t len, off_t at)
{
    live_or_die();
    return pwrite(fd, data, len, at);
}

static int mortal_sync(int fd)
{
    live_or_die();
    return fdatasync(fd);
}

static int mortal_rename(int at, const char *from, const char *to)
{
    live_or_die();
    return renameat(at, from, at, to);
}

/* die DIR TOKEN N: is killed in place of its Nth write, sync or rename (from 0); else says "entered". */
static int die(char **argv)
{
    static const struct hfi_gate_io mortal = {mortal_write, mortal_sync, mortal_sync, mortal_sync, mortal_rename};
    hf_gate *mine;
    hf_gate_pass *pass;
    hf_error error;

    ops_left = atoi(argv[2]);
    if (hfi_gate_open(argv[0], &create, &mortal, &mine, &error) != HF_OK ||
        hf_gate_enter(mine, "r", atoll(argv[1]), 10000, &pass, &error) != HF_OK)
        return complain("die", &error);
    printf("entered\n");
    hf_gate_leave(pass);
    hf_gate_close(mine);
    return 0;
}

/* What all racers share: the "server" that grants tokens. */
struct shared {
    atomic_llong token;
    atomic_int entered, lost, busy;
};

static struct shared *map_shared(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    struct shared *shared = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof(*shared)) == 0)
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return shared == MAP_FAILED ? NULL : shared;
}

/* race DIR LOG SHARED ROUNDS SEED: the effect is two lines in the log, one when it begins and one when it ends. */
static int race(char **argv)
{
    const int log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0600), rounds = atoi(argv[3]);
    struct shared *shared = map_shared(argv[2]);
    unsigned seed = (unsigned)atoi(argv[4]);
    int64_t token = 1;
    hf_gate *mine;
    hf_error error;

    if (!shared || log < 0 || hf_gate_open(argv[0], &create, &mine, &error) != HF_OK)
        return complain("race", &error);
    for (int i = 0; i < rounds; i++) {
        hf_gate_pass *pass;
        hf_result result;
        if (rand_r(&seed) % 3 == 0)
            token = atomic_fetch_add(&shared->token, 1) + 1;
        else if (rand_r(&seed) % 2 == 0 && atomic_load(&shared->token) > 0)
            token = atomic_load(&shared->token);
        result = hf_gate_enter(mine, "r", token, rand_r(&seed) % 4 ? 20000 : 0, &pass, &error);
        if (result == HF_OK) {
            dprintf(log, "begin %lld\n", (long long)token);
            if (rand_r(&seed) % 2)
                t_sleep_ms(rand_r(&seed) % 3); /* effects take their time, so that others have to wait */
            dprintf(log, "end %lld\n", (long long)token);
            hf_gate_leave(pass);
        } else if (result != HF_LOST && result != HF_UNAVAILABLE) {
            return complain("race", &error);
        }
        atomic_fetch_add(result == HF_OK ? &shared->entered : result == HF_LOST ? &shared->lost : &shared->busy, 1);
    }
    hf_gate_close(mine);
    close(log);
    munmap(shared, sizeof(*shared));
    return 0;
}

/* ---- the tests ---- */

static int setup(void **state)
{
    (void)state;
    dir = t_printf("%s/gate", t_tmpdir());
    return hf_gate_open(dir, &create, &gate, NULL) == HF_OK ? 0 : -1;
}

static int teardown(void **state)
{
    hf_gate_close(gate);
    return t_teardown(state);
}

static hf_result enter_and_leave(int64_t token, int64_t wait_ms, hf_error *error)
{
    hf_gate_pass *pass = NULL;
    const hf_result result = hf_gate_enter(gate, "r", token, wait_ms, &pass, error);

    hf_gate_leave(pass);
    return result;
}

static void expect(int64_t token, int64_t wait_ms, hf_result result, int64_t fence)
{
    hf_error error;

    if (enter_and_leave(token, wait_ms, &error) != result || error.fence != fence)
        fail_msg("%lld: not %s %lld but %s %lld: %s", (long long)token, hf_result_name(result), (long long)fence,
                 hf_result_name(error.result), (long long)error.fence, error.message);
}

static struct t_proc *spawn(const char *what, const char *a, const char *b, const char *c, const char *d, const char *e)
{
    const char *const argv[] = {t_self(), what, a, b, c, d, e, NULL};

    return t_spawn(argv, NULL);
}

static struct t_proc *holder(const char *token)
{
    struct t_proc *proc = spawn("hold", dir, token, NULL, NULL, NULL);

    t_proc_expect_out(proc, "inside", 20000);
    return proc;
}

static void one_killed_inside_leaves_its_mark_and_no_entry(void **state)
{
    struct t_proc *proc = holder("5"); /* between mark and effect */

    (void)state;
    expect(4, 0, HF_LOST, 5);
    t_proc_kill(proc, SIGKILL);
    assert_int_equal(t_proc_wait(proc, 20000), 128 + SIGKILL);
    expect(4, 0, HF_LOST, 5);
    expect(5, 0, HF_OK, 0); /* its holder may try again */
    expect(7, 0, HF_OK, 0); /* and nobody waits for the dead */
    expect(5, 0, HF_LOST, 7);
}

static void a_higher_one_waits_until_the_one_inside_is_killed(void **state)
{
    struct t_proc *low = holder("5"), *high;
    int64_t mark = 0;

    (void)state;
    high = spawn("hold", dir, "7", NULL, NULL, NULL);
    for (int i = 0; i < 1000 && mark < 7; i++) {
        assert_int_equal(hf_gate_mark(gate, "r", &mark, NULL), HF_OK);
        t_sleep_ms(10);
    }
    assert_int_equal(mark, 7);
    expect(6, 0, HF_LOST, 7);
    assert_string_equal(t_proc_out(high), "");
    t_proc_kill(low, SIGKILL);
    t_proc_expect_out(high, "inside", 20000);
    expect(8, 0, HF_UNAVAILABLE, 0);
}

static void one_stopped_inside_stays_inside(void **state)
{
    struct t_proc *proc = holder("5");

    (void)state;
    t_proc_kill(proc, SIGSTOP);
    expect(7, 100, HF_UNAVAILABLE, 0);
    expect(6, 0, HF_LOST, 7);
    t_proc_kill(proc, SIGCONT);
    expect(7, 0, HF_UNAVAILABLE, 0);
    t_proc_kill(proc, SIGKILL);
    expect(7, 20000, HF_OK, 0);
}

static void several_processes_of_one_token_are_inside_together(void **state)
{
    struct t_proc *first = holder("5"), *second = holder("5");

    (void)state;
    t_proc_kill(first, SIGKILL);
    assert_int_equal(t_proc_wait(first, 20000), 128 + SIGKILL);
    expect(7, 0, HF_UNAVAILABLE, 0);
    t_proc_kill(second, SIGKILL);
    expect(7, 20000, HF_OK, 0);
}

/* Killed at each step from nothing to the first entry, and of a second one with a higher token. */
static void killed_at_each_step_nothing_stands_in_the_way(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        bool entered = false;
        for (int n = 0; !entered; n++) {
            const char *fresh = t_printf("%s/gate", t_tmpdir());
            hf_error error;
            struct t_proc *proc;
            int64_t mark;
            assert_true(n < 30);
            hf_gate_close(gate);
            gate = NULL;
            dir = fresh;
            if (round) {
                assert_int_equal(hf_gate_open(dir, &create, &gate, NULL), HF_OK);
                expect(3, 0, HF_OK, 0);
                hf_gate_close(gate);
            }
            proc = spawn("die", dir, "5", t_printf("%d", n), NULL, NULL);
            entered = t_proc_wait(proc, 20000) == 0;
            if (!entered && proc->status != 128 + SIGKILL)
                fail_msg("step %d: %d, %s", n, proc->status, t_proc_err(proc));
            if (hf_gate_open(dir, &create, &gate, &error) != HF_OK)
                fail_msg("step %d: %s", n, error.message);
            assert_int_equal(hf_gate_mark(gate, "r", &mark, NULL), HF_OK);
            assert_true(mark == 5 || (!entered && mark == (round ? 3 : 0)));
            if (round)
                expect(2, 0, HF_LOST, mark);
            expect(5, 0, HF_OK, 0);
            expect(4, 0, HF_LOST, 5);
            expect(6, 0, HF_OK, 0);
            if (entered)
                print_message("%d steps\n", n);
        }
    }
}

/* Begins and ends never go down in token: so no effect came after one with a higher token, nor overlapped it. */
static int check_log(const char *path)
{
    long long last = 0, token;
    int lines = 0;

    for (const char *line = t_read_file(path); *line; line = strchr(line, '\n') + 1, lines++) {
        if (sscanf(line, "%*s %lld", &token) != 1 || !strchr(line, '\n'))
            fail_msg("line %d is no effect", lines + 1);
        if (token < last)
            fail_msg("line %d: an effect of token %lld after one of %lld", lines + 1, token, last);
        last = token;
    }
    return lines;
}

enum { RACERS = 4 };

static void effects_of_racing_processes_never_go_back(void **state)
{
    const char *log = t_printf("%s/log", t_tmpdir()), *path = t_printf("%s.shared", log);
    struct shared *shared = map_shared(path);
    struct t_proc *procs[RACERS];

    (void)state;
    assert_non_null(shared);
    for (int i = 0; i < RACERS; i++)
        procs[i] = spawn("race", dir, log, path, "150", t_printf("%d", i + 1));
    for (int i = 0; i < RACERS; i++) {
        if (t_proc_wait(procs[i], 120000) != 0)
            fail_msg("%s", t_proc_err(procs[i]));
    }
    print_message("%lld tokens: entered %d, refused %d, timed out %d\n", atomic_load(&shared->token), shared->entered, shared->lost,
                  shared->busy);
    assert_int_equal(shared->entered + shared->lost + shared->busy, RACERS * 150);
    assert_true(shared->entered > 50 && shared->lost > 0);
    assert_int_equal(check_log(log), 2 * shared->entered);
    munmap(shared, sizeof(*shared));
}

static void nor_when_they_are_killed_at_random(void **state)
{
    const char *log = t_printf("%s/log", t_tmpdir()), *path = t_printf("%s.shared", log);
    struct shared *shared = map_shared(path);
    struct t_proc *procs[RACERS] = {NULL};
    unsigned seed = (unsigned)t_seed();

    (void)state;
    assert_non_null(shared);
    for (int kills = 0; kills < 40; kills++) {
        const int i = rand_r(&seed) % RACERS, so_many = shared->entered + rand_r(&seed) % 5;
        if (procs[i]) {
            t_proc_kill(procs[i], SIGKILL);
            if (t_proc_wait(procs[i], 20000) != 128 + SIGKILL)
                fail_msg("%s", t_proc_err(procs[i]));
        }
        procs[i] = spawn("race", dir, log, path, "1000000", t_printf("%d", rand_r(&seed) % 100000));
        for (int64_t until = t_now_ms() + 20000; shared->entered <= so_many;) { /* it goes on after each kill */
            assert_true(t_now_ms() < until);
            t_sleep_ms(1);
        }
    }
    for (int i = 0; i < RACERS; i++) {
        if (procs[i])
            t_proc_kill(procs[i], SIGKILL);
    }
    for (int i = 0; i < RACERS; i++) {
        if (procs[i])
            assert_int_equal(t_proc_wait(procs[i], 20000), 128 + SIGKILL);
    }
    print_message("%lld tokens: entered %d, refused %d, timed out %d\n", atomic_load(&shared->token), shared->entered, shared->lost,
                  shared->busy);
    assert_true(check_log(log) >= shared->entered);
    expect(atomic_load(&shared->token) + 1, 1000, HF_OK, 0);
    munmap(shared, sizeof(*shared));
}

static void the_header_is_good_c_and_cxx(void **state)
{
    const char *script =
        "printf '#include <holdfast/gate.h>\\n' >\"$0/a.c\"; cp \"$0/a.c\" \"$0/a.cc\"; flags='-pedantic -Wall -Wextra "
        "-Werror -fsyntax-only -I" T_SOURCE_DIR "/client/include'; cc -std=c11 $flags \"$0/a.c\"; "
        "if command -v c++ >/dev/null; then c++ -std=c++11 $flags \"$0/a.cc\"; fi";
    const char *argv[] = {"bash", "-eu", "-c", script, t_tmpdir(), NULL};
    const struct t_result result = t_run(argv, NULL, 60000);

    (void)state;
    if (result.status != 0)
        fail_msg("%s", result.err);
}

int main(int argc, char **argv)
{
#define GATE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        GATE_TEST(one_killed_inside_leaves_its_mark_and_no_entry),
        GATE_TEST(a_higher_one_waits_until_the_one_inside_is_killed),
        GATE_TEST(one_stopped_inside_stays_inside),
        GATE_TEST(several_processes_of_one_token_are_inside_together),
        GATE_TEST(killed_at_each_step_nothing_stands_in_the_way),
        GATE_TEST(effects_of_racing_processes_never_go_back),
        GATE_TEST(nor_when_they_are_killed_at_random),
        cmocka_unit_test_teardown(the_header_is_good_c_and_cxx, t_teardown),
    };

    if (argc == 4 && strcmp(argv[1], "hold") == 0)
        return hold(argv + 2);
    if (argc == 5 && strcmp(argv[1], "die") == 0)
        return die(argv + 2);
    if (argc == 7 && strcmp(argv[1], "race") == 0)
        return race(argv + 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
