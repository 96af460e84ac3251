/*
 * signals.h - SIGINT, SIGTERM and SIGHUP read as data, for commands that have to tidy up before they end.
 */
#ifndef HOLDFAST_CLI_SIGNALS_H
#define HOLDFAST_CLI_SIGNALS_H

#include <stdbool.h>

/* From now on they come out of the returned file descriptor, except those that were ignored when we started. -1: errno tells.
 * Before any thread is made. */
int signals_take(void);
/* The next one, 0 if there is none. Doesn't block. */
int signals_next(int fd);
/* Waits for `fd`, or a signal, or so many ms (-1: no end). The signal, or 0. */
int signals_wait(int signal_fd, int fd, int ms);

#endif
