/* signals.c - see signals.h. */
#include "client/cli/signals.h"

#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_take(void)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction old;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        if (!sigaction(taken[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaddset(&set, taken[i]);
    }
    if (sigprocmask(SIG_BLOCK, &set, NULL))
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_next(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}

int signals_wait(int signal_fd, int fd, int ms)
{
    struct pollfd fds[] = {{.fd = signal_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};

    if (poll(fds, 2, ms) <= 0)
        return 0;
    return fds[0].revents ? signals_next(signal_fd) : 0;
}
