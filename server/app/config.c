/*
 * config.c - see config.h. Pure but for the environment that it is handed and the home folder.
 */
#include "app/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DEFAULT_LISTEN "tcp://127.0.0.1:7420"

enum { IPC_PATH_MAX = 107 };

/* Where a value came from, for errors and for what wins. */
enum level { UNSET, FROM_ENVIRONMENT, FROM_FLAG };

struct reading {
    struct app_config *cfg;
    struct app_error *error;
    char source[64]; /* "--connections" or "HOLDFASTD_CONNECTIONS" */
};

struct setting {
    const char *name;     /* without dashes */
    const char *argument; /* NULL: a switch */
    const char *shown;    /* the default, for help; NULL = none */
    const char *help;
    bool (*parse)(struct reading *reading, const char *value);
    bool flag_only;
    bool repeats; /* every flag adds; a value may hold several, separated by commas */
};

static bool refuse(struct reading *reading, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(struct reading *reading, const char *format, ...)
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

/* ------------------------------------------------------------------------------------------------ parsers */

static bool parse_help(struct reading *reading, const char *value)
{
    (void)value;
    reading->cfg->action = APP_HELP;
    return true;
}

static bool parse_version(struct reading *reading, const char *value)
{
    (void)value;
    if (reading->cfg->action != APP_HELP)
        reading->cfg->action = APP_VERSION;
    return true;
}

static bool parse_print_dsn(struct reading *reading, const char *value)
{
    (void)value;
    if (reading->cfg->action == APP_SERVE)
        reading->cfg->action = APP_PRINT_DSN;
    return true;
}

static bool parse_data_dir(struct reading *reading, const char *value)
{
    if (strlen(value) >= sizeof(reading->cfg->data_dir))
        return refuse(reading, "the path has %zu bytes, at most %zu are allowed", strlen(value),
                      sizeof(reading->cfg->data_dir) - 1);
    strcpy(reading->cfg->data_dir, value);
    return true;
}

static bool parse_dsn(struct reading *reading, const char *value)
{
    reading->cfg->dsn = value;
    return true;
}

static bool parse_listen(struct reading *reading, const char *value)
{
    char host[256];
    long port;
    struct app_config *cfg = reading->cfg;

    bool ipc = strncmp(value, "ipc://", 6) == 0;
    if (ipc && (strlen(value + 6) < 1 || strlen(value + 6) > IPC_PATH_MAX))
        return refuse(reading, "\"%s\": the path of an ipc:// URL has 1 to %d bytes", value, IPC_PATH_MAX);
    if (!ipc && !split_tcp(value, host, sizeof(host), &port))
        return refuse(reading, "\"%s\" is not an nng URL: tcp://HOST:PORT (port 0 to 65535, 0 picks one) or ipc://PATH", value);
    if (cfg->n_listen == APP_LISTEN_MAX)
        return refuse(reading, "at most %d URLs are allowed", APP_LISTEN_MAX);
    cfg->listen[cfg->n_listen] = strdup(value);
    if (!cfg->listen[cfg->n_listen])
        return refuse(reading, "out of memory");
    cfg->n_listen++;
    return true;
}

static bool parse_connections(struct reading *reading, const char *value)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (errno || end == value || *end || n < 1 || n > APP_CONNECTIONS_MAX)
        return refuse(reading, "\"%s\" is not a whole number from 1 to %d", value, APP_CONNECTIONS_MAX);
    reading->cfg->connections = (int)n;
    return true;
}

static bool parse_log_level(struct reading *reading, const char *value)
{
    return log_level_parse(value, &reading->cfg->log_level) ||
           refuse(reading, "\"%s\" is none of debug, info, warn, error, none", value);
}

static bool parse_log_format(struct reading *reading, const char *value)
{
    return log_format_parse(value, &reading->cfg->log_format) || refuse(reading, "\"%s\" is neither logfmt nor json", value);
}

static bool parse_insecure(struct reading *reading, const char *value)
{
    static const char *const yes[] = {"1", "true", "yes", "on"}, *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(value, yes[i]) == 0 || strcasecmp(value, no[i]) == 0) {
            reading->cfg->insecure = strcasecmp(value, yes[i]) == 0;
            return true;
        }
    }
    return refuse(reading, "\"%s\" is neither true nor false", value);
}

static const struct setting settings[] = {
    {"data-dir", "DIR", "/var/lib/holdfast as root, else ~/.local/share/holdfast", "keep a private PostgreSQL in this folder",
     parse_data_dir},
    {"dsn", "CONNINFO", NULL, "use this PostgreSQL (14 or later) instead; libpq's conninfo or URI", parse_dsn},
    {"listen", "NNG-URL", DEFAULT_LISTEN, "listen here, tcp://HOST:PORT or ipc://PATH; may be repeated", parse_listen,
     .repeats = true},
    {"connections", "N", "4", "connections to PostgreSQL that carry the work, 1 to 64", parse_connections},
    {"log-level", "LEVEL", "info", "debug, info, warn, error or none", parse_log_level},
    {"log-format", "FORMAT", "logfmt", "logfmt or json", parse_log_format},
    {"insecure", NULL, NULL, "allow to listen beyond this machine, unencrypted and without authentication", parse_insecure},
    {"print-dsn", NULL, NULL, "print the conninfo with which psql gets in, and exit", parse_print_dsn, .flag_only = true},
    {"version", NULL, NULL, "print the version, and exit", parse_version, .flag_only = true},
    {"help", NULL, NULL, "print this, and exit", parse_help, .flag_only = true},
};

enum { N_SETTINGS = sizeof(settings) / sizeof(settings[0]), DATA_DIR = 0, DSN = 1 };

/* ------------------------------------------------------------------------------------------------ reading */

static void environment_name(const struct setting *setting, char *out, size_t size)
{
    int n = snprintf(out, size, "HOLDFASTD_%s", setting->name);
    for (int i = 0; i < n && i < (int)size; i++)
        out[i] = (char)(out[i] == '-' ? '_' : out[i] >= 'a' && out[i] <= 'z' ? out[i] - 32 : out[i]);
}

static void forget_listen(struct app_config *cfg)
{
    while (cfg->n_listen)
        free(cfg->listen[--cfg->n_listen]);
}

/* One value, or the several of one that repeats. */
static bool take(struct reading *reading, const struct setting *setting, const char *value)
{
    if (setting->argument && !*value)
        return refuse(reading, "the value is empty, %s is needed", setting->argument);
    if (!setting->repeats)
        return setting->parse(reading, value);

    char *copy = strdup(value);
    bool ok = copy || refuse(reading, "out of memory");
    for (char *save, *part = copy ? strtok_r(copy, ",", &save) : NULL; ok && part; part = strtok_r(NULL, ",", &save))
        ok = setting->parse(reading, part);
    free(copy);
    return ok;
}

static bool read_environment(struct reading *reading, char *(*lookup)(const char *name), enum level *levels)
{
    for (size_t i = 0; i < N_SETTINGS; i++) {
        environment_name(&settings[i], reading->source, sizeof(reading->source));
        const char *value = settings[i].flag_only ? NULL : lookup(reading->source);
        if (!value || !*value)
            continue;
        levels[i] = FROM_ENVIRONMENT;
        if (!take(reading, &settings[i], value))
            return false;
    }
    return true;
}

static size_t find(const char *name, size_t len)
{
    size_t i = 0;
    while (i < N_SETTINGS && (strlen(settings[i].name) != len || strncmp(settings[i].name, name, len) != 0))
        i++;
    return i;
}

/* The flag at argv[*at], with its value; *at is behind both then. */
static bool read_flag(struct reading *reading, const char *const *argv, size_t *at, enum level *levels)
{
    const char *flag = argv[(*at)++];
    if (strcmp(flag, "-h") == 0)
        flag = "--help";
    const char *equals = strchr(flag, '=');
    size_t len = equals ? (size_t)(equals - flag) : strlen(flag);
    size_t i = strncmp(flag, "--", 2) == 0 && len > 2 ? find(flag + 2, len - 2) : N_SETTINGS;

    snprintf(reading->source, sizeof(reading->source), "%.*s", (int)(len < 60 ? len : 60), flag);
    if (i == N_SETTINGS)
        return refuse(reading, flag[0] == '-' ? "unknown flag (holdfastd --help lists them)"
                                              : "an argument that is no flag (holdfastd --help lists them)");
    const char *value = equals ? equals + 1 : NULL;
    if (settings[i].argument && !value) {
        value = argv[*at];
        if (!value)
            return refuse(reading, "needs a value: %s", settings[i].argument);
        (*at)++;
    }
    if (!settings[i].argument && value && settings[i].flag_only)
        return refuse(reading, "takes no value");
    if (settings[i].repeats && levels[i] != FROM_FLAG)
        forget_listen(reading->cfg);
    levels[i] = FROM_FLAG;
    return take(reading, &settings[i], value ? value : "true");
}

static bool default_data_dir(struct reading *reading)
{
    struct app_config *cfg = reading->cfg;
    if (geteuid() == 0) {
        strcpy(cfg->data_dir, "/var/lib/holdfast");
        return true;
    }
    const char *home = getenv("HOME");
    const struct passwd *user = home && *home ? NULL : getpwuid(geteuid());
    if (!home || !*home)
        home = user ? user->pw_dir : NULL;
    strcpy(reading->source, "--data-dir");
    if (!home)
        return refuse(reading, "there is no home folder to keep it in by default: give it, or --dsn");
    if ((size_t)snprintf(cfg->data_dir, sizeof(cfg->data_dir), "%s/.local/share/holdfast", home) >= sizeof(cfg->data_dir))
        return refuse(reading, "the path of the home folder is too long");
    return true;
}

/* Defaults, and what only the whole can tell. */
static bool complete(struct reading *reading, const enum level *levels)
{
    struct app_config *cfg = reading->cfg;

    if (levels[DATA_DIR] && levels[DATA_DIR] == levels[DSN]) {
        strcpy(reading->source, levels[DSN] == FROM_FLAG ? "--dsn" : "HOLDFASTD_DSN");
        return refuse(reading, "given together with %s: it is either a private PostgreSQL in a folder or one that is there already",
                      levels[DSN] == FROM_FLAG ? "--data-dir" : "HOLDFASTD_DATA_DIR");
    }
    if (levels[DSN] > levels[DATA_DIR])
        cfg->data_dir[0] = '\0';
    else if (levels[DATA_DIR])
        cfg->dsn = NULL;
    else if (!default_data_dir(reading))
        return false;
    strcpy(reading->source, "--listen");
    if (cfg->n_listen == 0 && !parse_listen(reading, DEFAULT_LISTEN))
        return false;
    for (size_t i = 0; i < cfg->n_listen && !cfg->insecure; i++) {
        if (!app_url_is_local(cfg->listen[i]))
            return refuse(
                reading,
                "\"%s\" can be reached from other machines, and nng is neither encrypted nor authenticated: use a loopback "
                "address or ipc://, or add --insecure",
                cfg->listen[i]);
    }
    return true;
}

bool app_config_read(struct app_config *cfg, const char *const *argv, char *(*lookup)(const char *name), struct app_error *error)
{
    struct reading reading = {.cfg = cfg, .error = error};
    enum level levels[N_SETTINGS] = {UNSET};

    memset(cfg, 0, sizeof(*cfg));
    cfg->connections = 4;
    cfg->log_level = LOG_AT_INFO;
    cfg->log_format = LOG_AS_LOGFMT;
    for (size_t at = argv[0] ? 1 : 0; argv[at];) {
        if (!read_flag(&reading, argv, &at, levels))
            return false;
    }
    if (cfg->action == APP_HELP || cfg->action == APP_VERSION)
        return true;

    /* Again from the start, now in the order of precedence; help and version work in any environment. */
    forget_listen(cfg);
    memset(levels, 0, sizeof(levels));
    if (!read_environment(&reading, lookup, levels))
        return false;
    for (size_t at = argv[0] ? 1 : 0; argv[at];) {
        if (!read_flag(&reading, argv, &at, levels))
            return false;
    }
    return complete(&reading, levels);
}

void app_config_release(struct app_config *cfg)
{
    forget_listen(cfg);
}

void app_config_help(FILE *out)
{
    char flag[64], variable[64];

    fprintf(out, "holdfastd " HOLDFAST_VERSION ": leases, fencing tokens and guarded writes on PostgreSQL\n\n"
                 "usage: holdfastd [--data-dir DIR | --dsn CONNINFO] [--listen NNG-URL]... [FLAG]...\n\n");
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const struct setting *s = &settings[i];
        snprintf(flag, sizeof(flag), "--%s %s", s->name, s->argument ? s->argument : "");
        environment_name(s, variable, sizeof(variable));
        fprintf(out, "  %-22s %s\n", flag, s->help);
        if (s->shown)
            fprintf(out, "  %-22s default: %s\n", "", s->shown);
        if (!s->flag_only)
            fprintf(out, "  %-22s environment: %s\n", "", variable);
    }
    fprintf(out, "\nWhen it serves it prints: READY nng=URL. SIGTERM drains it, a second one ends it at once.\n"
                 "Exit status: 0 drained, 1 failure, 2 configuration.\n");
}
