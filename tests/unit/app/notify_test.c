/*
 * notify_test.c - sd_notify's datagrams, received on sockets of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "app/notify.h"
#include "net/loop.h"
#include "unit/app/logged.h"

static int setup(void **state)
{
    (void)state;
    keep_log(LOG_AT_WARN);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

/* A manager's socket of this name ('@': abstract); what NOTIFY_SOCKET is to say is `name`. */
static int manager(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size_t len = strlen(name);
    memcpy(at.sun_path, name, len);
    if (name[0] == '@')
        at.sun_path[0] = '\0';
    assert_int_equal(bind(fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'))),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static const char *received(int fd)
{
    static char text[4096];
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    if (poll(&poll_fd, 1, 5000) != 1)
        fail_msg("no datagram came within 5 s");
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return text;
}

static void test_nobody_asks(void **state)
{
    (void)state;
    struct app_notify notify;
    setenv("WATCHDOG_USEC", "1000", 1);
    app_notify_init(&notify);
    assert_int_equal(notify.fd, -1);
    app_notify(&notify, "READY=1");
    app_notify_watchdog(&notify, NULL);
    app_notify_release(&notify);
    assert_string_equal(logged, "");
}

static void test_messages(void **state)
{
    (void)state;
    char path[64], abstract[64];
    snprintf(path, sizeof(path), "/tmp/holdfast-notify-%d", (int)getpid());
    snprintf(abstract, sizeof(abstract), "@holdfast-notify-%d", (int)getpid());
    const char *const names[] = {path, abstract};
    for (int i = 0; i < 2; i++) {
        int fd = manager(names[i]);
        struct app_notify notify;
        app_notify_init(&notify);
        /* Children must not speak for us: PostgreSQL would. */
        assert_null(getenv("NOTIFY_SOCKET"));
        assert_int_equal(notify.watchdog_ms, 0);
        app_notify(&notify, "READY=1\nSTATUS=serving on %s", "x");
        assert_string_equal(received(fd), "READY=1\nSTATUS=serving on x");
        app_notify(&notify, "STOPPING=1");
        assert_string_equal(received(fd), "STOPPING=1");
        app_notify_release(&notify);
        close(fd);
    }
    unlink(path);
    assert_string_equal(logged, "");
}

static void test_wrong(void **state)
{
    (void)state;
    char longer[200];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    const char *const wrong[] = {"relative", "vsock:2:1", "@", "/", longer};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct app_notify notify;
        logged[0] = '\0';
        setenv("NOTIFY_SOCKET", wrong[i], 1);
        app_notify_init(&notify);
        assert_int_equal(notify.fd, -1);
        assert_non_null(strstr(logged, "event=app.notify_ignored variable=NOTIFY_SOCKET"));
        app_notify_release(&notify);
    }
    /* Nobody listens: a warning, and the server goes on. */
    struct app_notify notify;
    setenv("NOTIFY_SOCKET", "/nowhere/socket", 1);
    app_notify_init(&notify);
    app_notify(&notify, "READY=1");
    assert_non_null(strstr(logged, "event=app.notify_failed"));
    app_notify_release(&notify);
}

static int64_t watchdog_ms(const char *usec, const char *pid)
{
    char name[64];
    snprintf(name, sizeof(name), "@holdfast-notify-w-%d", (int)getpid());
    int fd = manager(name);
    struct app_notify notify;
    setenv("WATCHDOG_USEC", usec, 1);
    if (pid)
        setenv("WATCHDOG_PID", pid, 1);
    app_notify_init(&notify);
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
    int64_t ms = notify.watchdog_ms;
    app_notify_release(&notify);
    close(fd);
    return ms;
}

static void test_watchdog_settings(void **state)
{
    (void)state;
    char pid[24];
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_int_equal(watchdog_ms("30000000", NULL), 15000);
    assert_int_equal(watchdog_ms("30000000", pid), 15000);
    assert_int_equal(watchdog_ms("30000000", ""), 15000);
    assert_int_equal(watchdog_ms("30000000", "1"), 0); /* somebody else's */
    assert_int_equal(watchdog_ms("1", NULL), 1);
    assert_string_equal(logged, "");
    assert_int_equal(watchdog_ms("0", NULL), 0);
    assert_int_equal(watchdog_ms("-5", NULL), 0);
    assert_int_equal(watchdog_ms("10s", NULL), 0);
    assert_int_equal(watchdog_ms("99999999999999999999", NULL), 0);
    assert_non_null(strstr(logged, "variable=WATCHDOG_USEC value=10s"));
}

struct stopper {
    struct loop *loop;
    struct io_watch watch;
    int n;
};

static void on_message(struct io_watch *watch, unsigned events)
{
    struct stopper *stopper = (struct stopper *)((char *)watch - offsetof(struct stopper, watch));
    (void)events;
    assert_string_equal(received(watch->fd), "WATCHDOG=1");
    if (++stopper->n == 4)
        loop_stop(stopper->loop);
}

/* The first at once, then one each 20 ms, from the loop. */
static void test_watchdog(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof(name), "@holdfast-notify-t-%d", (int)getpid());
    int fd = manager(name);
    struct stopper stopper = {.loop = loop_new(), .watch = {.fd = fd, .want = IO_READ, .ready = on_message}};
    struct io *io = loop_io(stopper.loop);
    struct app_notify notify;

    setenv("WATCHDOG_USEC", "40000", 1);
    app_notify_init(&notify);
    assert_int_equal(notify.watchdog_ms, 20);
    assert_int_equal(io->watch(io, &stopper.watch), 0);
    int64_t begun = io->now_ms(io);
    app_notify_watchdog(&notify, io);
    assert_int_equal(loop_run(stopper.loop), 0);
    assert_true(io->now_ms(io) - begun >= 3 * 20);
    app_notify_release(&notify);
    io->unwatch(io, &stopper.watch);
    loop_free(stopper.loop);
    close(fd);
}

/* A manager that doesn't read stops neither the loop nor a message for longer than a second. */
static void test_full(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof(name), "@holdfast-notify-f-%d", (int)getpid());
    int fd = manager(name);
    struct app_notify notify;
    app_notify_init(&notify);
    for (int i = 0; i < 10000 && !logged[0]; i++)
        app_notify(&notify, "STATUS=%d", i);
    assert_non_null(strstr(logged, "event=app.notify_failed"));
    app_notify_release(&notify);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nobody_asks, setup), cmocka_unit_test_setup(test_messages, setup),
        cmocka_unit_test_setup(test_wrong, setup),       cmocka_unit_test_setup(test_watchdog_settings, setup),
        cmocka_unit_test_setup(test_watchdog, setup),    cmocka_unit_test_setup(test_full, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
