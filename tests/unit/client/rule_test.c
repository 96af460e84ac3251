/* The loss rule (P7) by its formulas. */
#include "harness/harness.h"

#include "client/lib/rule.h"

static void margin_is_a_twentieth_but_at_least_20_ms(void **state)
{
    (void)state;
    assert_int_equal(hfi_margin_ms(100), 20);
    assert_int_equal(hfi_margin_ms(400), 20);
    assert_int_equal(hfi_margin_ms(420), 21);
    assert_int_equal(hfi_margin_ms(30000), 1500);
    assert_int_equal(hfi_margin_ms(86400000), 4320000);
}

static void a_grant_counts_from_its_first_sending(void **state)
{
    struct hfi_rule rule;

    (void)state;
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 10005));
    assert_int_equal(rule.deadline_ms, 10000 + 3000 - 150);
    /* what it waited at the server is on top */
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 5000, 3000, 15010));
    assert_int_equal(rule.deadline_ms, 10000 + 5000 + 3000 - 150);
    /* a repeat is told what remained */
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 1200, 11000));
    assert_int_equal(rule.deadline_ms, 10000 + 1200 - 150);
}

static void an_answer_after_the_deadline_is_no_lease(void **state)
{
    struct hfi_rule rule;

    (void)state;
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 12849));
    assert_false(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 12850));
    assert_string_equal(rule.lost, "DEADLINE");
}

static void more_than_was_asked_for_is_not_believed(void **state)
{
    struct hfi_rule rule;

    (void)state;
    assert_true(hfi_rule_grant(&rule, 3000, 10000, INT64_MAX, INT64_MAX, 10010));
    assert_int_equal(rule.deadline_ms, 10000 + 10 + 3000 - 150);
    assert_false(hfi_rule_grant(&rule, 3000, 10000, -5, INT64_MIN, 10010));
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 10010));
    assert_true(hfi_rule_renewed(&rule, 11000, INT64_MAX, 11001));
    assert_int_equal(rule.deadline_ms, 11000 + 3000 - 150);
}

static void a_renewal_counts_from_its_own_sending_and_only_forward(void **state)
{
    struct hfi_rule rule;

    (void)state;
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 10005));
    assert_true(hfi_rule_renewed(&rule, 11000, 3000, 11500));
    assert_int_equal(rule.deadline_ms, 11000 + 3000 - 150);
    assert_true(hfi_rule_renewed(&rule, 10500, 3000, 11600)); /* an older one's late answer */
    assert_int_equal(rule.deadline_ms, 11000 + 3000 - 150);
    assert_true(hfi_rule_renewed(&rule, 11700, 100, 11800));
    assert_int_equal(rule.deadline_ms, 11000 + 3000 - 150);
}

static void past_the_deadline_nothing_revives_it(void **state)
{
    struct hfi_rule rule;

    (void)state;
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 10005));
    assert_true(hfi_rule_held(&rule, 12849));
    /* the answer is good, and by its own sum would reach beyond now: it came too late all the same */
    assert_false(hfi_rule_renewed(&rule, 12000, 3000, 12850));
    assert_string_equal(rule.lost, "DEADLINE");
    assert_false(hfi_rule_held(&rule, 12000)); /* nor does a clock that went back */
    assert_false(hfi_rule_renewed(&rule, 12840, 3000, 12841));
    assert_int_equal(rule.deadline_ms, 12850);
}

static void a_loss_happens_once_and_keeps_its_reason(void **state)
{
    struct hfi_rule rule;

    (void)state;
    assert_true(hfi_rule_grant(&rule, 3000, 10000, 0, 3000, 10005));
    assert_true(hfi_rule_lose(&rule, HFI_LOSS_TAKEN_OVER));
    assert_false(hfi_rule_lose(&rule, HFI_LOSS_EXPIRED));
    assert_false(hfi_rule_renewed(&rule, 10100, 3000, 10101));
    assert_false(hfi_rule_held(&rule, 10102));
    assert_string_equal(rule.lost, "TAKEN_OVER");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margin_is_a_twentieth_but_at_least_20_ms),
        cmocka_unit_test(a_grant_counts_from_its_first_sending),
        cmocka_unit_test(an_answer_after_the_deadline_is_no_lease),
        cmocka_unit_test(more_than_was_asked_for_is_not_believed),
        cmocka_unit_test(a_renewal_counts_from_its_own_sending_and_only_forward),
        cmocka_unit_test(past_the_deadline_nothing_revives_it),
        cmocka_unit_test(a_loss_happens_once_and_keeps_its_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
