/*
 * client_settlement_test.c - client/examples/settlement.c: started by the schedule, by a retry after a failure and by hand, one
 * after the other and all at once, a day's settlement pays out once and has one result.
 */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "harness/served.h"

static const char *program, *folder;

static int setup(void **state)
{
    const char *build[] = {"bash", "-euc", NULL, NULL};

    serve(state);
    program = t_printf("%s/settlement", t_tmpdir());
    folder = t_printf("%s/bank", t_tmpdir());
    build[2] =
        t_printf("mkdir '%s'; cc -std=gnu11 -Wall -Wextra -Werror -g %s -I'%s/client/include' '%s/client/examples/settlement.c' "
                 "-o '%s' -L'%s' -Wl,-rpath,'%s' -lholdfast",
                 folder, T_SANITIZE_FLAGS, T_SOURCE_DIR, T_SOURCE_DIR, program, T_LIBHOLDFAST_DIR, T_LIBHOLDFAST_DIR);
    const struct t_result built = t_run(build, NULL, 120000);
    if (built.status != 0)
        fail_msg("%s", built.err);
    t_keep();
    return 0;
}

static struct t_proc *settle_spawn(const char *day, const char *trigger)
{
    const char *env[] = {t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    const char *argv[] = {program, folder, day, trigger, NULL};
    const struct t_spawn_opts opts = {.env = env};

    return t_spawn(argv, &opts);
}

/* It ends with this status; what it said, on both. */
static const char *ended(struct t_proc *proc, int status)
{
    const int got = t_proc_wait(proc, T_PATIENCE_MS);
    const char *said = t_printf("%s%s", t_proc_out(proc), t_proc_err(proc));

    if (got != status)
        fail_msg("exit status %d: %s", got, said);
    return said;
}

static const char *settle(const char *day, const char *trigger, int status)
{
    return ended(settle_spawn(day, trigger), status);
}

static void amounts(const char *day, const char *lines)
{
    t_write_file(t_printf("%s/%s", folder, day), lines);
}

/* What stands behind the colon. */
static const char *result_in(const char *said)
{
    const char *at = strstr(said, "{\"cents\"");

    if (!at)
        fail_msg("no result: %s", said);
    return at;
}

static int payouts_of(const char *day)
{
    const char *all = t_read_file(t_printf("%s/payouts", folder));
    int n = 0;

    for (const char *at = all; (at = strstr(at, day)); at += strlen(day))
        n++;
    return n;
}

static void one_after_the_other(void **state)
{
    static const char day[] = "2026-11-30";
    const char *first, *second;

    (void)state;
    t_contains(settle(day, "scheduled", 1), "the amounts are not there yet; to be tried again");
    amounts(day, "1200\n50\n");
    first = settle(day, "retry", 0); /* waits until the retry is due */
    t_contains(first, "settled now, by attempt 2: {\"cents\":1250,");
    amounts(day, "9999\n"); /* too late */
    second = settle(day, "manual", 0);
    t_contains(second, "settled before, by attempt 2:");
    assert_string_equal(result_in(second), result_in(first));
    assert_string_equal(result_in(settle(day, "scheduled", 0)), result_in(first));
    assert_int_equal(payouts_of(day), 1);
}

static void all_at_once(void **state)
{
    static const char *const triggers[] = {"scheduled", "retry", "manual", "scheduled", "manual"};
    static const char day[] = "2026-12-01";
    enum { N = sizeof(triggers) / sizeof(triggers[0]) };
    struct t_proc *procs[N];
    const char *said[N];
    int now = 0;

    (void)state;
    amounts(day, "7\n8\n");
    for (int i = 0; i < N; i++)
        procs[i] = settle_spawn(day, triggers[i]);
    for (int i = 0; i < N; i++) {
        said[i] = ended(procs[i], 0);
        now += strstr(said[i], "settled now, by attempt 1:") != NULL;
        assert_string_equal(result_in(said[i]), result_in(said[0]));
    }
    assert_int_equal(now, 1);
    assert_int_equal(payouts_of(day), 1);
}

/* The bank can't say whether it paid: nobody pays again, until a person has looked. */
static void a_payout_that_may_have_been_made_is_not_made_again(void **state)
{
    static const char day[] = "2026-12-02";
    const char *bank = t_printf("%s/payouts", folder), *away = t_printf("%s/payouts.away", folder);

    (void)state;
    amounts(day, "3\n");
    assert_int_equal(rename(bank, away), 0);
    const char *mkdir_argv[] = {"mkdir", bank, NULL}, *rmdir_argv[] = {"rmdir", bank, NULL};
    assert_int_equal(t_run(mkdir_argv, NULL, T_PATIENCE_MS).status, 0);
    t_contains(settle(day, "scheduled", 2), "it may have been paid, or not");
    assert_int_equal(t_run(rmdir_argv, NULL, T_PATIENCE_MS).status, 0);
    assert_int_equal(rename(away, bank), 0);
    t_contains(settle(day, "retry", 2), "a person has to look: Is a directory");
    assert_int_equal(payouts_of(day), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(all_at_once),
        cmocka_unit_test(a_payout_that_may_have_been_made_is_not_made_again),
    };
    return cmocka_run_group_tests(tests, setup, end_serving);
}
