/*
 * config.h - the settings of holdfastd, from flags and environment; a flag wins over the environment.
 *
 * One table (config.c) names every setting with its default, help and parser: --data-dir is HOLDFASTD_DATA_DIR.
 */
#ifndef HOLDFAST_APP_CONFIG_H
#define HOLDFAST_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"

enum { APP_LISTEN_MAX = 16, APP_CONNECTIONS_MAX = 64 };

enum app_action { APP_SERVE, APP_HELP, APP_VERSION, APP_PRINT_DSN };

struct app_config {
    enum app_action action;
    char data_dir[4096]; /* "" if there is a dsn */
    const char *dsn;     /* NULL: a private PostgreSQL in data_dir */
    char *listen[APP_LISTEN_MAX];
    size_t n_listen;
    int connections;
    enum log_level log_level;
    enum log_format log_format;
    bool insecure;
};

struct app_error {
    char text[1024];
};

/* `cfg` is what argv (argv[0] is passed over, NULL at its end) and the environment say, defaults filled in, and fits
 * together. Strings of argv and environment are borrowed; release with app_config_release in any case. False: `error` names
 * the setting, its value and what it may be. `lookup` is getenv. */
bool app_config_read(struct app_config *cfg, const char *const *argv, char *(*lookup)(const char *name), struct app_error *error)
    __attribute__((warn_unused_result));
void app_config_release(struct app_config *cfg);

/* What --help prints. */
void app_config_help(FILE *out);

/* Only programs on this machine can reach this address. */
bool app_url_is_local(const char *url);

#endif
