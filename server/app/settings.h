/*
 * settings.h - the table of settings, for config.c.
 */
#ifndef HOLDFAST_APP_SETTINGS_H
#define HOLDFAST_APP_SETTINGS_H

#include "app/config.h"

#define APP_DEFAULT_LISTEN "tcp://127.0.0.1:7420"
#define APP_DEFAULT_HTTP   "127.0.0.1:7421"

struct app_reading {
    struct app_config *cfg;
    struct app_error *error;
    char source[4400]; /* "--connections", "HOLDFASTD_CONNECTIONS" or "FILE:LINE: connections" */
};

struct app_setting {
    const char *name;     /* without dashes */
    const char *argument; /* NULL: a switch */
    const char *shown;    /* the default, for help; NULL = none */
    const char *help;
    bool (*parse)(struct app_reading *reading, const char *value);
    void (*show)(const struct app_config *cfg, char *out, size_t size); /* without secrets; NULL: not worth showing */
    bool flag_only;
    bool not_in_file;
    bool repeats; /* every flag adds; a value may hold several, separated by commas */
};

enum { APP_DATA_DIR, APP_DSN, APP_LISTEN, APP_HTTP, APP_TLS_CERT, APP_TLS_KEY, APP_TLS_CLIENT_CA, APP_AUTH, APP_N_SETTINGS = 22 };

extern const struct app_setting app_settings[APP_N_SETTINGS];

/* Always false; the error is `source: format…`. */
bool app_refuse(struct app_reading *reading, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The address is added to cfg->listen. */
bool app_parse_listen(struct app_reading *reading, const char *value);
void app_forget_listen(struct app_config *cfg);

#endif
