/*
 * moves_test.c - what may become of an operation is one table: in SQL (operation_move, and the trigger that holds it), in C
 * (core/moves.c), and in the documents (server/README.md).
 */
#include <stdio.h>
#include <string.h>

#include "core/moves.h"
#include "store/sql.h"

static PGconn *conn;

static int setup(void **state)
{
    (void)state;
    conn = ts_session(ts_schema());
    t_keep();
    return 0;
}

static int teardown(void **state)
{
    PQfinish(conn);
    return t_teardown(state);
}

static void sql_has_the_same_table(void **state)
{
    (void)state;
    for (int from = -1; from <= CO_STATES; from++) {
        for (int to = -1; to <= CO_STATES; to++) {
            if (from == to && (to <= CO_NEW || to >= CO_STATES))
                continue; /* no row has such a state: SQL doesn't look at it */
            bool moves = !strcmp(t_sql(conn, "select holdfast.operation_move(%d::smallint, %d::smallint)", from, to), "t");
            if (moves != co_move(from, to))
                fail_msg("from %d to %d: SQL says %d, C says %d", from, to, moves, co_move(from, to));
        }
    }
}

static int state_named(const char *name, size_t len)
{
    for (int state = CO_NEW; state < CO_STATES; state++)
        if (strlen(co_state_name(state)) == len && !strncmp(co_state_name(state), name, len))
            return state;
    return -1;
}

/* The moves that a row of the table, "| FROM | TO, TO |", tells. */
static void read_row(const char *line, bool moves[CO_STATES][CO_STATES], int *rows)
{
    size_t len = strcspn(line + 2, " ");
    int from = state_named(line + 2, len);
    const char *at = line + 2 + len;
    if (from < 0 || strncmp(at, " | ", 3))
        return;
    (*rows)++;
    for (at += 3; *at && *at != '|' && *at != '\n'; at += strspn(at, ", ")) {
        len = strcspn(at, ", |\n");
        int to = state_named(at, len);
        if (to < 0)
            fail_msg("no such state: %.*s", (int)len, at);
        moves[from][to] = true;
        at += len;
    }
}

static void the_documents_have_the_same_table(void **state)
{
    (void)state;
    bool moves[CO_STATES][CO_STATES] = {{false}};
    int rows = 0;
    const char *line = strstr(t_read_file(T_SOURCE_DIR "/server/README.md"), "### What may become of an operation");
    assert_non_null(line);
    for (line = strchr(line, '\n'); line && strncmp(line + 1, "###", 3); line = strchr(line + 1, '\n'))
        if (line[1] == '|')
            read_row(line + 1, moves, &rows);
    assert_int_equal(rows, CO_STATES);
    for (int from = CO_NEW; from < CO_STATES; from++)
        for (int to = CO_NEW; to < CO_STATES; to++)
            if (moves[from][to] != co_move(from, to))
                fail_msg("from %s to %s: the documents say %d, C says %d", co_state_name(from), co_state_name(to), moves[from][to],
                         co_move(from, to));
}

static void insert(int state)
{
    t_sql(conn,
          "insert into holdfast.operation (namespace, key, type, state, created_at, changed_at, deadline, fingerprint) "
          "values ('default', 'k', 't', %d, now(), now(), now(), '\\x00')",
          state);
}

/* Every move is tried, by whoever may write to the table at all. */
static void the_trigger_refuses_every_other_move(void **state)
{
    (void)state;
    for (int from = CO_PENDING; from < CO_STATES; from++) {
        for (int to = CO_PENDING; to < CO_STATES; to++) {
            t_sql(conn, "delete from holdfast.operation");
            t_sql(conn, "alter table holdfast.operation disable trigger user");
            insert(from);
            t_sql(conn, "alter table holdfast.operation enable trigger user");
            char *got = t_sqlstate(conn, "update holdfast.operation set state = %d, changed_at = now()", to);
            assert_string_equal(got, co_move(from, to) ? "00000" : "HF003");
            assert_int_equal(t_sql_int(conn, "select state from holdfast.operation"), co_move(from, to) ? to : from);
        }
    }
    t_sql(conn, "delete from holdfast.operation");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sql_has_the_same_table),
        cmocka_unit_test(the_documents_have_the_same_table),
        cmocka_unit_test(the_trigger_refuses_every_other_move),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
