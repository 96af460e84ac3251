/*
 * config.h - the settings of holdfastd: a flag wins over the environment, which wins over the configuration file.
 *
 * One table (settings.c) names every setting with its default, help and parser: --data-dir is HOLDFASTD_DATA_DIR and, in a
 * file, data-dir. How a file is written: conf_file.h. Which file: --config, else HOLDFASTD_CONFIG, else none.
 */
#ifndef HOLDFAST_APP_CONFIG_H
#define HOLDFAST_APP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "app/conf_file.h"
#include "base/log.h"

enum { APP_LISTEN_MAX = 16, APP_CONNECTIONS_MAX = 64, APP_SETTINGS_MAX = 32 };

enum app_action { APP_SERVE, APP_HELP, APP_VERSION, APP_PRINT_DSN, APP_CREATE_ADMIN_KEY };

/* Where a setting comes from; the higher one wins. */
enum app_place { APP_DEFAULT, APP_FROM_FILE, APP_FROM_ENVIRONMENT, APP_FROM_FLAG };

struct app_config {
    enum app_action action;
    char data_dir[4096]; /* "" if there is a dsn */
    const char *dsn;     /* NULL: a private PostgreSQL in data_dir */
    char *listen[APP_LISTEN_MAX];
    size_t n_listen;
    int connections;      /* to PostgreSQL, that carry the work */
    int max_queue;        /* items that wait for PostgreSQL or are under way */
    int max_batch;        /* items in one of its transactions */
    int max_clients;      /* connections on one of `listen` */
    int drain_timeout_ms; /* of the first SIGTERM */
    enum log_level log_level;
    enum log_format log_format;
    bool insecure;
    const char *http;                               /* HOST:PORT; NULL = no HTTP port */
    const char *tls_cert, *tls_key, *tls_client_ca; /* files; NULL = none */
    const char *cors_origin;                        /* NULL = none */
    bool require_keys;                              /* --auth keys */
    const char *admin_key;                          /* the name for APP_CREATE_ADMIN_KEY */

    const char *config;                    /* the file, or NULL */
    struct conf_file file;                 /* what it says; strings above point into it */
    enum app_place from[APP_SETTINGS_MAX]; /* in the table's order */
};

struct app_error {
    char text[6144];
};

/* `cfg` is what argv (argv[0] is passed over, NULL at its end), the environment and the configuration file say, defaults
 * filled in, and fits together. Strings of argv and environment are borrowed; release with app_config_release in any case.
 * False: `error` names the setting and where it stands (FILE:LINE for one of a file), its value and what it may be. `lookup`
 * is getenv. Reads the file, if one is named. */
bool app_config_read(struct app_config *cfg, const char *const *argv, char *(*lookup)(const char *name), struct app_error *error)
    __attribute__((warn_unused_result));
void app_config_release(struct app_config *cfg);

/* What --help prints. */
void app_config_help(FILE *out);

/* One line a setting at debug: its name, its value without secrets, and where it comes from. */
void app_config_log(const struct app_config *cfg);

/* Only programs on this machine can reach this address. */
bool app_url_is_local(const char *url);
bool app_http_is_local(const char *address);

#endif
