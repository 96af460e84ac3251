/*
 * limits.h - how many callers the process has file descriptors for, and a word in the log when there are more.
 *
 * Callers beyond the bound are closed at once by net, those first who connected and said nothing; so those who are there, and the
 * connections to PostgreSQL, do not suffer. Should descriptors run out all the same, whoever comes is closed at once, too
 * (net/listen.h), and PostgreSQL is reached by the descriptors kept back (base/files.h).
 */
#ifndef HOLDFAST_APP_LIMITS_H
#define HOLDFAST_APP_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "app/config.h"
#include "net/http.h"
#include "net/sp.h"

/*
 * The limit of file descriptors is as high as the machine allows, and `*per_address` is how many callers each address of
 * `cfg` may have: cfg->max_clients, or fewer. False: there is not even room for one each; the reason is in `error`. Once,
 * before there are threads, when the files open are those that will stay.
 */
bool app_limits_init(const struct app_config *cfg, int *per_address, char *error, size_t size) __attribute__((warn_unused_result));

struct app_limits {
    long refused;   /* told of already */
    bool exhausted; /* when last looked at */
};

/* Tells of callers refused since the last time, and when descriptors have run out or are there again. `http` may be NULL. */
void app_limits_look(struct app_limits *limits, struct net_sp *const *listeners, size_t n, const struct net_http *http);

#endif
