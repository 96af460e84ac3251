/*
 * files_test.c - descriptors kept back: out of reach for everybody, there for whoever asks, and kept back again once closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/files.h"

enum { ALL = 100, KEPT = 10 };

static int opened[ALL];

static int open_one(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        opened[fd] = 1;
    return fd;
}

/* Opens until it fails; how many there were. */
static int exhaust(void)
{
    int n = 0;
    while (open_one() >= 0)
        n++;
    assert_int_equal(errno, EMFILE);
    return n;
}

static void test_kept(void **state)
{
    (void)state;
    struct rlimit limit = {60, ALL}, now;
    int ours[KEPT];

    hb_files_spare_begin(); /* not set up: nothing happens */
    hb_files_spare_end();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(hb_files_init(KEPT), ALL - KEPT);
    int before = hb_files_open();
    int taken = exhaust();
    assert_true(taken > 0);
    assert_int_equal(hb_files_open(), before + taken); /* which itself needs one */

    for (int round = 0; round < 3; round++) {
        hb_files_spare_begin();
        hb_files_spare_begin();
        for (int i = 0; i < KEPT; i++)
            assert_true((ours[i] = open_one()) >= ALL - KEPT);
        assert_int_equal(open_one(), -1);
        hb_files_spare_end();
        close(ours[0]);
        assert_true((ours[0] = open_one()) >= 0); /* still within the outer pair */
        hb_files_spare_end();
        for (int i = 0; i < KEPT; i++) {
            assert_int_equal(fcntl(ours[i], F_GETFD), FD_CLOEXEC); /* they stay open */
            close(ours[i]);
            assert_int_equal(open_one(), -1);
            assert_int_equal(errno, EMFILE); /* what was closed is kept back again */
        }
    }

    hb_files_restore();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(now.rlim_cur, 60);
    assert_int_equal(now.rlim_max, ALL);

    limit = (struct rlimit){20, 20};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(hb_files_init(KEPT), 15); /* never more than a quarter */

    for (int fd = 0; fd < ALL; fd++) {
        if (opened[fd])
            close(fd); /* whoever looks for leaks at the end needs some */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
