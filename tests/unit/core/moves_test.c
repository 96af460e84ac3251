/*
 * moves_test.c - the states of an operation: which end, which lead on. That the table is that of SQL and of the documents is proven
 * in tests/store/moves_test.c.
 */
#include "harness/harness.h"

#include "core/moves.h"

static void ends_are_ends(void **state)
{
    (void)state;
    for (int from = CO_NEW; from < CO_STATES; from++) {
        bool ended = from == CO_SUCCEEDED || from == CO_FAILED || from == CO_CANCELLED;
        assert_int_equal(co_ended(from), ended);
        for (int to = CO_NEW; ended && to < CO_STATES; to++)
            assert_int_equal(co_move(from, to), from == to);
    }
}

static void what_is_unknown_never_runs_by_itself(void **state)
{
    (void)state;
    assert_false(co_move(CO_UNKNOWN, CO_RUNNING)); /* P10: somebody has to say first what happened */
    assert_false(co_move(CO_REVIEW, CO_RUNNING));
    assert_false(co_move(CO_NEW, CO_UNKNOWN));
    for (int from = CO_NEW; from < CO_STATES; from++)
        assert_false(co_move(from, CO_NEW));
}

static void what_is_no_state_has_no_moves(void **state)
{
    (void)state;
    static const int none[] = {-1, CO_STATES, 100};
    for (size_t i = 0; i < 3; i++) {
        assert_false(co_move(none[i], CO_PENDING));
        assert_false(co_move(CO_PENDING, none[i]));
        assert_false(co_ended(none[i]));
        assert_string_equal(co_state_name(none[i]), "STATE?");
    }
    assert_string_equal(co_state_name(CO_REVIEW), "REVIEW");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_are_ends),
        cmocka_unit_test(what_is_unknown_never_runs_by_itself),
        cmocka_unit_test(what_is_no_state_has_no_moves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
