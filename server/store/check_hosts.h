/*
 * check_hosts.h - whether the hosts of a DSN are one database.
 *
 * After a fail-over the old primary must not be written to any more. If it starts again by itself, as after a reboot, a server
 * that is started then would take whichever the DSN names first: see identity.c, which guards a server that runs.
 */
#ifndef HOLDFAST_STORE_CHECK_HOSTS_H
#define HOLDFAST_STORE_CHECK_HOSTS_H

#include <stdbool.h>

#include "store/problem.h"

/* False, with `problem`, if two hosts that the DSN names can be written to and are not the same database on the same timeline. What
 * cannot be reached within two seconds is not looked at, nor is a DSN with one host, or with a service. Blocks. */
bool st_check_hosts(const char *dsn, struct st_problem *problem) __attribute__((warn_unused_result));

#endif
