/*
 * notify.h - tells a service manager how the server is: sd_notify(3)'s datagrams to NOTIFY_SOCKET, without libsystemd.
 *
 * Without NOTIFY_SOCKET everything here does nothing. The watchdog's messages come from a timer of the loop, so a loop that
 * is stuck is noticed by whoever waits for them.
 */
#ifndef HOLDFAST_APP_NOTIFY_H
#define HOLDFAST_APP_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/io.h"

struct app_notify {
    int fd; /* -1: nobody asked */
    struct sockaddr_un to;
    socklen_t to_len;
    int64_t watchdog_ms; /* half of what the manager waits for; 0 = it doesn't */
    struct io *io;
    struct io_timer timer;
};

/* Ready for app_notify, as the environment says: NOTIFY_SOCKET (a path, or '@' and an abstract name), WATCHDOG_USEC, and
 * WATCHDOG_PID, which must be ours or absent. They are taken out of the environment, so that no child speaks for us. What is wrong
 * with them is logged and passed over. Before there are threads. */
void app_notify_init(struct app_notify *notify);

/* The message is sent: lines such as "READY=1\nSTATUS=serving". Waits for a full queue, a second at most. */
void app_notify(struct app_notify *notify, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* From now on the manager hears WATCHDOG=1 as often as it wants to, as long as the loop turns. */
void app_notify_watchdog(struct app_notify *notify, struct io *io);

void app_notify_release(struct app_notify *notify);

#endif
