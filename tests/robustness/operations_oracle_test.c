/*
 * operations_oracle_test.c - the oracle of operations is right about histories written by hand: the right one passes, and each way
 * to make it wrong is named.
 */
#include "harness/harness.h"

#include <string.h>

#include "robustness/operations_oracle.h"

/* An attempt is lost, its successor completes; one is recorded; one is paid, and a person says so. */
static struct history {
    struct oo_event events[9];
    struct oo_operation operations[3];
    struct oo_attempt attempts[3];
    struct oo_effect effects[3];
    struct oo_payment payments[2];
    struct oo_history h;
} w;

static void right(void)
{
    w = (struct history){
        .events = {{"a", 10, 20, OO_BEGIN, OO_STARTED, 0, 1, ""},
                   {"a", 15, 25, OO_BEGIN, OO_OPEN, 0, 0, ""},
                   {"a", 30, 40, OO_BEGIN, OO_STARTED, 0, 2, ""},
                   {"a", 45, 50, OO_COMPLETE, OO_REFUSED, 0, 1, "late"},
                   {"a", 45, 60, OO_COMPLETE, OO_DONE, 0, 2, "20"},
                   {"a", 70, 80, OO_BEGIN, OO_CONFLICT, 1, 0, ""},
                   {"b", 10, 20, OO_RECORD, OO_DONE, 1, 0, "x"},
                   {"b", 10, 25, OO_EXECUTE, OO_REPLAYED, 1, 0, "x"},
                   {"c", 10, 20, OO_SENDING, OO_DONE, 0, 3, ""}},
        .operations = {{"a", 0, 3, 2, 2, false, 1, "20"}, {"b", 1, 3, 0, 1, false, 0, "x"}, {"c", 0, 3, 3, 1, true, 1, "paid"}},
        .attempts = {{"a", 1, 1, 3, true}, {"a", 2, 2, 1, false}, {"c", 3, 1, 4, true}},
        .effects = {{"a", "20"}, {"b", "x"}},
        .payments = {{"c", 3}},
    };
    w.h = (struct oo_history){w.events, w.operations, w.attempts, w.effects, w.payments, 9, 3, 3, 2, 1};
}

static void says(const char *wanted)
{
    char why[256];
    const int found = oo_judge(&w.h, why, sizeof(why));
    if (wanted ? found == 0 || !strstr(why, wanted) : found > 0)
        fail_msg("%d, \"%s\"; wanted: \"%s\"", found, why, wanted ? wanted : "");
    right();
}

static void what_is_right_passes(void **state)
{
    (void)state;
    right();
    says(NULL);
    w.operations[2] = (struct oo_operation){"c", 0, 5, 3, 1, false, 1, ""}; /* nobody has said yet what became of it */
    says(NULL);
    w.h.n_effects = w.h.n_events = w.h.n_operations = w.h.n_attempts = w.h.n_payments = 0;
    says(NULL);
}

static void parameters(void **state)
{
    (void)state;
    right();
    w.events[5].told = OO_REPLAYED;
    says("other parameters were no conflict");
    w.events[1].told = OO_CONFLICT;
    says("the same parameters were a conflict");
}

static void attempts(void **state)
{
    (void)state;
    right();
    w.attempts[0].outcome = 1;
    says("started after the one that succeeded");
    w.attempts[0].outcome = 0;
    says("while another one ran");
    w.attempts[1].outcome = 0;
    says("an attempt of it runs, and it is in state 3");
    w.attempts[1].attempt = 1;
    says("attempt 1 has token 2");
    w.operations[0].token = 1;
    says("its newest attempt is another one");
    w.operations[0].lost = 0;
    says("the trail tells of 0");
    w.operations[2].state = 2;
    says("it still runs");
    w.operations[0].state = 5;
    says("its attempt has succeeded, and it is in state 5");
}

static void effects(void **state)
{
    (void)state;
    right();
    w.h.n_effects = 1;
    says("b: 0 effects, 1 wanted");
    w.effects[2] = w.effects[0];
    w.h.n_effects = 3;
    says("a: 2 effects, 1 wanted");
    strcpy(w.effects[1].result, "y");
    says("an effect of y, and the result is x");
    w.payments[1] = w.payments[0];
    w.h.n_payments = 2;
    says("paid 2 times");
    w.h.n_payments = 0;
    says("said to have been paid, and it was not");
    w.operations[2].state = 1;
    w.operations[2].reconciled = false;
    says("paid, and it is in state 1");
}

static void told(void **state)
{
    (void)state;
    right();
    strcpy(w.events[7].result, "y");
    says("the result y was told");
    w.events[7].told = OO_DONE;
    says("2 callers did it");
    w.events[7].told = OO_FAILED;
    says("told to have failed, and it is in state 3");
    w.h.n_operations = 2;
    says("c: told of, and there is no such operation");
    w.events[0].token = 7;
    says("under token 7, and there is none");
}

static void order(void **state)
{
    (void)state;
    right();
    w.events[3].told = OO_DONE;
    strcpy(w.events[3].result, "20");
    w.events[4].told = OO_NOTHING;
    says("under token 1 was accepted after 2 was given out");
    w.events[2].token = 1;
    says("token 1 was given out after 1");
    w.events[2].token = 1;
    w.events[2].from_ns = 18;
    says("two callers were given token 1");
    w.events[5] = (struct oo_event){"a", 70, 80, OO_BEGIN, OO_OPEN, 0, 0, ""};
    says("it went on after its end was told");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_right_passes),
        cmocka_unit_test(parameters),
        cmocka_unit_test(attempts),
        cmocka_unit_test(effects),
        cmocka_unit_test(told),
        cmocka_unit_test(order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
