/*
 * notify.c - see notify.h. Thread: the loop's, and main's before and after it.
 */
#include "app/notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"

/* sd_watchdog_enabled(3) wants it at half of the time that the manager waits. */
enum { WATCHDOG_PARTS = 2 };

static void wrong(const char *name, const char *value, const char *why)
{
    log_warn("app.notify_ignored", log_str("variable", name), log_str("value", value), log_str("reason", why));
}

static bool read_address(struct app_notify *notify, const char *name)
{
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(notify->to.sun_path)) {
        wrong("NOTIFY_SOCKET", name, "neither an absolute path nor an abstract socket of 1 to 106 bytes");
        return false;
    }
    notify->to.sun_family = AF_UNIX;
    memcpy(notify->to.sun_path, name, len + 1);
    /* A path is sent with its NUL, an abstract name begins with one and has none. */
    notify->to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    if (name[0] == '@')
        notify->to.sun_path[0] = '\0';
    return true;
}

static void read_watchdog(struct app_notify *notify, const char *usec, const char *pid)
{
    char *end;

    if (pid && *pid && strtoll(pid, NULL, 10) != (long long)getpid())
        return; /* meant for another process */
    errno = 0;
    long long n = strtoll(usec, &end, 10);
    if (errno || *usec < '0' || *usec > '9' || *end || n < 1)
        wrong("WATCHDOG_USEC", usec, "not a positive number");
    else
        notify->watchdog_ms = n / 1000 / WATCHDOG_PARTS > 0 ? n / 1000 / WATCHDOG_PARTS : 1;
}

void app_notify_init(struct app_notify *notify)
{
    const char *address = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC");
    struct timeval second = {.tv_sec = 1};

    *notify = (struct app_notify){.fd = -1};
    if (address && *address && read_address(notify, address)) {
        notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (notify->fd < 0)
            wrong("NOTIFY_SOCKET", address, strerror(errno));
    }
    if (notify->fd >= 0)
        setsockopt(notify->fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof(second));
    if (notify->fd >= 0 && usec && *usec)
        read_watchdog(notify, usec, getenv("WATCHDOG_PID"));
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void send_text(struct app_notify *notify, const char *text, int flags)
{
    ssize_t n;
    do
        n = sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL | flags, (const struct sockaddr *)&notify->to, notify->to_len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        log_warn("app.notify_failed", log_str("error", strerror(errno)));
}

void app_notify(struct app_notify *notify, const char *format, ...)
{
    char text[4096];
    va_list args;

    if (notify->fd < 0)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    send_text(notify, text, 0);
}

static void on_timer(struct io_timer *timer)
{
    struct app_notify *notify = list_entry(timer, struct app_notify, timer);
    /* A manager that doesn't read must not stop the loop; the next one will do. */
    send_text(notify, "WATCHDOG=1", MSG_DONTWAIT);
    notify->io->timer_set(notify->io, timer, notify->io->now_ms(notify->io) + notify->watchdog_ms);
}

void app_notify_watchdog(struct app_notify *notify, struct io *io)
{
    if (notify->fd < 0 || !notify->watchdog_ms)
        return;
    notify->io = io;
    notify->timer.fire = on_timer;
    on_timer(&notify->timer);
}

void app_notify_release(struct app_notify *notify)
{
    if (notify->io)
        notify->io->timer_cancel(notify->io, &notify->timer);
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
    notify->io = NULL;
}
