/*
 * settings.c - see settings.h: what each setting is, may be, and is by default. Pure.
 */
#include "app/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "store/sync.h"

enum { IPC_PATH_MAX = 107, QUEUE_MAX = 10000000, BATCH_MAX = 10000, CLIENTS_MAX = 1000000, DRAIN_MAX_MS = 3600 * 1000 };

_Static_assert((int)APP_N_SETTINGS <= (int)APP_SETTINGS_MAX, "app_config.from has room for each setting");

bool app_refuse(struct app_reading *reading, const char *format, ...)
{
    va_list args;
    int n = snprintf(reading->error->text, sizeof(reading->error->text), "%s: ", reading->source);
    va_start(args, format);
    vsnprintf(reading->error->text + n, sizeof(reading->error->text) - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* ------------------------------------------------------------------------------------------------ addresses */

/* Splits tcp://HOST:PORT. False: it isn't one. */
static bool split_tcp(const char *url, char *host, size_t size, long *port)
{
    const char *rest = url + strlen("tcp://"), *colon = strrchr(rest, ':');
    char *end;

    if (strncmp(url, "tcp://", 6) != 0 || !colon || colon[1] < '0' || colon[1] > '9')
        return false;
    size_t len = (size_t)(colon - rest);
    if (len >= 2 && rest[0] == '[' && rest[len - 1] == ']') {
        rest++;
        len -= 2;
    } else if (memchr(rest, ':', len) || memchr(rest, '/', len)) {
        return false;
    }
    *port = strtol(colon + 1, &end, 10);
    if (len >= size || *end || *port > 65535)
        return false;
    memcpy(host, rest, len);
    host[len] = '\0';
    return true;
}

bool app_url_is_local(const char *url)
{
    char host[256];
    long port;
    struct in_addr v4;
    struct in6_addr v6;

    if (strncmp(url, "ipc://", 6) == 0)
        return true;
    if (!split_tcp(url, host, sizeof(host), &port))
        return false;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcasecmp(host, "localhost") == 0;
}

bool app_http_is_local(const char *address)
{
    char url[300];
    return (size_t)snprintf(url, sizeof(url), "tcp://%s", address) < sizeof(url) && app_url_is_local(url);
}

/* ------------------------------------------------------------------------------------------------ actions */

static bool parse_help(struct app_reading *reading, const char *value)
{
    (void)value;
    reading->cfg->action = APP_HELP;
    return true;
}

static bool parse_version(struct app_reading *reading, const char *value)
{
    (void)value;
    if (reading->cfg->action != APP_HELP)
        reading->cfg->action = APP_VERSION;
    return true;
}

static bool parse_print_dsn(struct app_reading *reading, const char *value)
{
    (void)value;
    if (reading->cfg->action == APP_SERVE)
        reading->cfg->action = APP_PRINT_DSN;
    return true;
}

static bool parse_admin_key(struct app_reading *reading, const char *value)
{
    if (reading->cfg->action == APP_SERVE)
        reading->cfg->action = APP_CREATE_ADMIN_KEY;
    reading->cfg->admin_key = value;
    return true;
}

/* ------------------------------------------------------------------------------------------------ texts */

/* What is taken as it is. */
#define TEXT(name)                                                                                                                 \
    static bool parse_##name(struct app_reading *reading, const char *value)                                                       \
    {                                                                                                                              \
        reading->cfg->name = value;                                                                                                \
        return true;                                                                                                               \
    }                                                                                                                              \
    static void show_##name(const struct app_config *cfg, char *out, size_t size)                                                  \
    {                                                                                                                              \
        snprintf(out, size, "%s", cfg->name ? cfg->name : "");                                                                     \
    }

TEXT(tls_cert)
TEXT(tls_key)
TEXT(tls_client_ca)

TEXT(config)

static bool parse_data_dir(struct app_reading *reading, const char *value)
{
    if (strlen(value) >= sizeof(reading->cfg->data_dir))
        return app_refuse(reading, "the path has %zu bytes, at most %zu are allowed", strlen(value),
                          sizeof(reading->cfg->data_dir) - 1);
    memcpy(reading->cfg->data_dir, value, strlen(value) + 1);
    return true;
}

static void show_data_dir(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", cfg->data_dir);
}

static bool parse_dsn(struct app_reading *reading, const char *value)
{
    reading->cfg->dsn = value;
    return true;
}

/* Never the password. */
static void show_dsn(const struct app_config *cfg, char *out, size_t size)
{
    if (cfg->dsn)
        st_sync_describe(cfg->dsn, out, size);
    else
        out[0] = '\0';
}

bool app_parse_listen(struct app_reading *reading, const char *value)
{
    char host[256];
    long port;
    struct app_config *cfg = reading->cfg;

    bool ipc = strncmp(value, "ipc://", 6) == 0;
    if (ipc && (strlen(value + 6) < 1 || strlen(value + 6) > IPC_PATH_MAX))
        return app_refuse(reading, "\"%s\": the path of an ipc:// URL has 1 to %d bytes", value, IPC_PATH_MAX);
    if (!ipc && !split_tcp(value, host, sizeof(host), &port))
        return app_refuse(reading, "\"%s\" is not an nng URL: tcp://HOST:PORT (port 0 to 65535, 0 picks one) or ipc://PATH", value);
    if (cfg->n_listen == APP_LISTEN_MAX)
        return app_refuse(reading, "at most %d URLs are allowed", APP_LISTEN_MAX);
    cfg->listen[cfg->n_listen] = strdup(value);
    if (!cfg->listen[cfg->n_listen])
        return app_refuse(reading, "out of memory");
    cfg->n_listen++;
    return true;
}

void app_forget_listen(struct app_config *cfg)
{
    while (cfg->n_listen)
        free(cfg->listen[--cfg->n_listen]);
}

static void show_listen(const struct app_config *cfg, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < cfg->n_listen && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", cfg->listen[i]);
}

static bool parse_http(struct app_reading *reading, const char *value)
{
    char url[300], host[256];
    long port;

    reading->cfg->http = NULL;
    if (strcmp(value, "off") == 0)
        return true;
    if ((size_t)snprintf(url, sizeof(url), "tcp://%s", value) >= sizeof(url) || !split_tcp(url, host, sizeof(host), &port))
        return app_refuse(reading, "\"%s\" is neither HOST:PORT (port 0 to 65535, 0 picks one) nor off", value);
    reading->cfg->http = value;
    return true;
}

static void show_http(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", cfg->http ? cfg->http : "off");
}

/* As a browser sends it (RFC 6454): scheme, host and port, no path. */
static bool parse_cors_origin(struct app_reading *reading, const char *value)
{
    const char *host = strncmp(value, "https://", 8) == 0 ? value + 8 : strncmp(value, "http://", 7) == 0 ? value + 7 : NULL;
    if (strcmp(value, "*") != 0 && (!host || !*host || strpbrk(host, "/?#@ ,\"")))
        return app_refuse(reading, "\"%s\" is neither an origin such as https://dash.example.org nor *", value);
    reading->cfg->cors_origin = value;
    return true;
}

static void show_cors_origin(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", cfg->cors_origin ? cfg->cors_origin : "");
}

/* ------------------------------------------------------------------------------------------------ numbers */

static bool parse_number(struct app_reading *reading, const char *value, int max, int *out)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (errno || *value < '0' || *value > '9' || *end || n < 1 || n > max)
        return app_refuse(reading, "\"%s\" is not a whole number from 1 to %d", value, max);
    *out = (int)n;
    return true;
}

#define NUMBER(name, max)                                                                                                          \
    static bool parse_##name(struct app_reading *reading, const char *value)                                                       \
    {                                                                                                                              \
        return parse_number(reading, value, max, &reading->cfg->name);                                                             \
    }                                                                                                                              \
    static void show_##name(const struct app_config *cfg, char *out, size_t size)                                                  \
    {                                                                                                                              \
        snprintf(out, size, "%d", cfg->name);                                                                                      \
    }

NUMBER(connections, APP_CONNECTIONS_MAX)
NUMBER(max_queue, QUEUE_MAX)
NUMBER(max_batch, BATCH_MAX)
NUMBER(max_clients, CLIENTS_MAX)

/* 250ms, 30s, 1m, 1h */
static bool parse_drain_timeout(struct app_reading *reading, const char *value)
{
    static const struct {
        const char *name;
        long ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    bool number = errno == 0 && *value >= '0' && *value <= '9';
    for (size_t i = 0; number && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) == 0 && n <= DRAIN_MAX_MS / units[i].ms) {
            reading->cfg->drain_timeout_ms = (int)(n * units[i].ms);
            return true;
        }
    }
    return app_refuse(reading, "\"%s\" is not a duration such as 250ms, 30s or 1m, from 0s to 1h", value);
}

static void show_drain_timeout(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%dms", cfg->drain_timeout_ms);
}

/* ------------------------------------------------------------------------------------------------ choices */

static const char *const log_levels[] = {"debug", "info", "warn", "error", "none"};

static bool parse_log_level(struct app_reading *reading, const char *value)
{
    return log_level_parse(value, &reading->cfg->log_level) ||
           app_refuse(reading, "\"%s\" is none of debug, info, warn, error, none", value);
}

static void show_log_level(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", log_levels[cfg->log_level]);
}

static bool parse_log_format(struct app_reading *reading, const char *value)
{
    return log_format_parse(value, &reading->cfg->log_format) || app_refuse(reading, "\"%s\" is neither logfmt nor json", value);
}

static void show_log_format(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", cfg->log_format == LOG_AS_JSON ? "json" : "logfmt");
}

static bool parse_insecure(struct app_reading *reading, const char *value)
{
    static const char *const yes[] = {"1", "true", "yes", "on"}, *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
            reading->cfg->insecure = strcasecmp(value, yes[i]) == 0;
            return true;
        }
    }
    return app_refuse(reading, "\"%s\" is neither true nor false", value);
}

static void show_insecure(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", cfg->insecure ? "true" : "false");
}

static bool parse_auth(struct app_reading *reading, const char *value)
{
    reading->cfg->require_keys = strcmp(value, "keys") == 0;
    return reading->cfg->require_keys || strcmp(value, "none") == 0 ||
           app_refuse(reading, "\"%s\" is neither none nor keys", value);
}

static void show_auth(const struct app_config *cfg, char *out, size_t size)
{
    snprintf(out, size, "%s", cfg->require_keys ? "keys" : "none");
}

/* ------------------------------------------------------------------------------------------------ the table */

const struct app_setting app_settings[APP_N_SETTINGS] = {
    [APP_DATA_DIR] = {"data-dir", "DIR", "/var/lib/holdfast as root, else ~/.local/share/holdfast",
                      "keep a private PostgreSQL in this folder", parse_data_dir, show_data_dir},
    [APP_DSN] = {"dsn", "CONNINFO", NULL, "use this PostgreSQL (14 or later) instead; libpq's conninfo or URI", parse_dsn,
                 show_dsn},
    [APP_LISTEN] = {"listen", "NNG-URL", APP_DEFAULT_LISTEN,
                    "listen here, tcp://HOST:PORT or ipc://PATH; may be repeated, or hold several, separated by commas",
                    app_parse_listen, show_listen, .repeats = true},
    [APP_HTTP] = {"http", "HOST:PORT", APP_DEFAULT_HTTP, "serve gRPC, Connect, /metrics, /healthz and /readyz here; off: don't",
                  parse_http, show_http},
    [APP_TLS_CERT] = {"tls-cert", "FILE", NULL,
                      "serve HTTP over TLS with this certificate and its chain (PEM); SIGHUP reads it again", parse_tls_cert,
                      show_tls_cert},
    [APP_TLS_KEY] = {"tls-key", "FILE", NULL, "the certificate's private key (PEM)", parse_tls_key, show_tls_key},
    [APP_TLS_CLIENT_CA] = {"tls-client-ca", "FILE", NULL, "ask clients for certificates signed by one of these (PEM)",
                           parse_tls_client_ca, show_tls_client_ca},
    [APP_AUTH] = {"auth", "HOW", "none",
                  "keys: every call needs an API key or a client certificate; none: whoever gets here may do all", parse_auth,
                  show_auth},
    {"cors-origin", "ORIGIN", NULL, "let pages of this origin call Connect from a browser; * = of any", parse_cors_origin,
     show_cors_origin},
    {"connections", "N", "2", "connections to PostgreSQL that carry the work, 1 to 64; up to 6 more do the rest", parse_connections,
     show_connections},
    {"max-queue", "N", "100000", "calls' items that may wait for PostgreSQL; more are refused", parse_max_queue, show_max_queue},
    {"max-batch", "N", "512", "items in one transaction at most", parse_max_batch, show_max_batch},
    {"max-clients", "N", "4096", "connections on one address at most, and no more than file descriptors allow", parse_max_clients,
     show_max_clients},
    {"drain-timeout", "DURATION", "30s", "how long SIGTERM waits for calls in flight", parse_drain_timeout, show_drain_timeout},
    {"log-level", "LEVEL", "info", "debug, info, warn, error or none", parse_log_level, show_log_level},
    {"log-format", "FORMAT", "logfmt", "logfmt or json", parse_log_format, show_log_format},
    {"insecure", NULL, NULL, "allow to listen beyond this machine unencrypted, or without authentication", parse_insecure,
     show_insecure},
    {"config", "FILE", NULL, "take settings that neither flags nor environment give from here: lines of name = value", parse_config,
     show_config, .not_in_file = true},
    {"create-admin-key", "NAME", NULL, "make an API key that may do everything, print it, and exit", parse_admin_key,
     .flag_only = true},
    {"print-dsn", NULL, NULL, "print the conninfo with which psql gets in, and exit", parse_print_dsn, .flag_only = true},
    {"version", NULL, NULL, "print the version, and exit", parse_version, .flag_only = true},
    {"help", NULL, NULL, "print this, and exit", parse_help, .flag_only = true},
};
