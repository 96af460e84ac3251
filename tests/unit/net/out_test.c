/*
 * out_test.c - what is sent is what was appended, in order, whatever part of it the socket takes; and the counts keep up.
 */
#include "harness/harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/out.h"

static void pair(int fds[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
}

static void append(struct net_out *out, char letter, size_t n)
{
    char *room = net_out_append(out, n);
    assert_non_null(room);
    memset(room, letter, n);
}

static void small_ones_leave_together(void **state)
{
    (void)state;
    struct net_out out = {0};
    char got[300];
    int fds[2];
    pair(fds);
    append(&out, 'a', 100);
    append(&out, 'b', 50);
    assert_int_equal(out.bytes, 150);
    assert_int_equal(out.messages, 2);
    assert_int_equal(net_out_send(&out, fds[0]), 0);
    assert_int_equal(out.bytes, 0);
    assert_int_equal(out.messages, 0);
    assert_null(out.first);
    assert_int_equal(recv(fds[1], got, sizeof(got), 0), 150); /* in one piece */
    assert_int_equal(got[99], 'a');
    assert_int_equal(got[100], 'b');
    close(fds[0]);
    close(fds[1]);
}

static void what_is_not_taken_waits(void **state)
{
    (void)state;
    enum { N = 200, SIZE = 10007 };
    struct net_out out = {0};
    int fds[2];
    static char got[N * SIZE];
    size_t have = 0;
    pair(fds);
    for (int i = 0; i < N; i++)
        append(&out, (char)('a' + i % 26), SIZE);
    while (have < sizeof(got)) {
        size_t before = out.bytes;
        assert_int_equal(net_out_send(&out, fds[0]), 0);
        assert_true(out.bytes <= before);
        ssize_t n = recv(fds[1], got + have, sizeof(got) - have, MSG_DONTWAIT);
        assert_true(n > 0);
        have += (size_t)n;
    }
    for (size_t i = 0; i < sizeof(got); i++)
        if (got[i] != (char)('a' + i / SIZE % 26))
            fail_msg("byte %zu is %c", i, got[i]);
    assert_int_equal(out.bytes, 0);
    assert_int_equal(out.messages, 0);
    close(fds[0]);
    close(fds[1]);
}

static void a_broken_connection_is_told(void **state)
{
    (void)state;
    struct net_out out = {0};
    int fds[2];
    pair(fds);
    close(fds[1]);
    append(&out, 'a', 10);
    assert_int_equal(net_out_send(&out, fds[0]), -EPIPE);
    net_out_release(&out);
    assert_int_equal(out.bytes, 0);
    assert_int_equal(out.messages, 0);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones_leave_together),
        cmocka_unit_test(what_is_not_taken_waits),
        cmocka_unit_test(a_broken_connection_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
