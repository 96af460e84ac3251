/*
 * limits.c - see limits.h.
 */
#include "app/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"

enum {
    KEPT_MORE =
        14, /* besides the working connections: those for reads, lists, listening, errands; certificates, name look-ups, … */
    LOOP_FILES = 10,   /* the loop's, the other connections', and what is opened for a moment */
    ADDRESS_FILES = 4, /* a listening socket, and connections that are about to be closed */
    LEAST_PER_ADDRESS = 1
};

bool app_limits_init(const struct app_config *cfg, int *per_address, char *error, size_t size)
{
    int limit = hb_files_init(cfg->connections + KEPT_MORE);
    int addresses = (int)cfg->n_listen + (cfg->http ? 1 : 0);
    int own = hb_files_open() + cfg->connections + LOOP_FILES + addresses * ADDRESS_FILES;
    int room = limit > own ? (limit - own) / addresses : 0;

    if (room < LEAST_PER_ADDRESS) {
        snprintf(error, size,
                 "the limit of open files (RLIMIT_NOFILE) leaves %d, and %d are needed before the first caller: raise it, or lower "
                 "--connections",
                 limit, own + addresses * LEAST_PER_ADDRESS);
        return false;
    }
    *per_address = cfg->max_clients < room ? cfg->max_clients : room;
    if (room < cfg->max_clients)
        log_warn("app.few_files", log_int("limit_of_open_files", limit), log_int("max_clients", cfg->max_clients),
                 log_int("clients_an_address", room));
    return true;
}

static bool are_exhausted(void)
{
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        close(fd);
    return fd < 0 && (errno == EMFILE || errno == ENFILE);
}

void app_limits_look(struct app_limits *limits, struct net_sp *const *listeners, size_t n, const struct net_http *http)
{
    long refused = 0, connections = 0;

    for (size_t i = 0; i < n; i++) {
        struct net_sp_stats stats;
        net_sp_stats(listeners[i], &stats);
        refused += stats.refused;
        connections += stats.connections;
    }
    if (http) {
        struct net_http_stats stats;
        net_http_stats(http, &stats);
        refused += stats.refused;
        connections += stats.connections;
    }
    if (refused > limits->refused)
        log_warn("app.clients_refused", log_int("times", refused - limits->refused), log_int("connections", connections));
    limits->refused = refused;

    bool exhausted = are_exhausted();
    if (exhausted && !limits->exhausted)
        log_error("app.out_of_files", log_int("connections", connections), log_int("open_files", hb_files_open()));
    else if (!exhausted && limits->exhausted)
        log_info("app.files_again", log_int("connections", connections), log_int("open_files", hb_files_open()));
    limits->exhausted = exhausted;
}
