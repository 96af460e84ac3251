/*
 * config.c - see config.h: the places a setting may come from, in their order. Pure but for the environment that it is
 * handed, the configuration file, and the home folder.
 */
#include "app/config.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "app/settings.h"

static void environment_name(const struct app_setting *setting, char *out, size_t size)
{
    int n = snprintf(out, size, "HOLDFASTD_%s", setting->name);
    for (int i = 0; i < n && i < (int)size; i++)
        out[i] = (char)(out[i] == '-' ? '_' : out[i] >= 'a' && out[i] <= 'z' ? out[i] - 32 : out[i]);
}

/* ------------------------------------------------------------------------------------------------ one value */

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len && (text[len - 1] == ' ' || text[len - 1] == '\t'))
        text[--len] = '\0';
    return text;
}

static bool take_list(struct app_reading *reading, const struct app_setting *setting, const char *value)
{
    char *copy = strdup(value), *rest = copy;
    bool ok = copy || app_refuse(reading, "out of memory");
    while (ok && rest) {
        const char *part = trim(strsep(&rest, ","));
        ok = *part ? setting->parse(reading, part)
                   : app_refuse(reading, "\"%s\": an item of the list is empty, %s is needed", value, setting->argument);
    }
    free(copy);
    return ok;
}

/* A value from `place`, which is at least as high as where earlier ones came from. */
static bool take(struct app_reading *reading, size_t i, enum app_place place, const char *value)
{
    const struct app_setting *setting = &app_settings[i];
    if (setting->argument && !*value)
        return app_refuse(reading, "the value is empty, %s is needed", setting->argument);
    if (setting->repeats && reading->cfg->from[i] != place)
        app_forget_listen(reading->cfg);
    reading->cfg->from[i] = place;
    return setting->repeats ? take_list(reading, setting, value) : setting->parse(reading, value);
}

/* ------------------------------------------------------------------------------------------------ flags, environment */

static size_t find(const char *name, size_t len)
{
    size_t i = 0;
    while (i < APP_N_SETTINGS && (strlen(app_settings[i].name) != len || strncmp(app_settings[i].name, name, len) != 0))
        i++;
    return i;
}

/* The flag at argv[*at], with its value; *at is behind both then. */
static bool read_flag(struct app_reading *reading, const char *const *argv, size_t *at)
{
    const char *flag = argv[(*at)++];
    if (strcmp(flag, "-h") == 0)
        flag = "--help";
    const char *equals = strchr(flag, '=');
    size_t len = equals ? (size_t)(equals - flag) : strlen(flag);
    size_t i = strncmp(flag, "--", 2) == 0 && len > 2 ? find(flag + 2, len - 2) : APP_N_SETTINGS;

    snprintf(reading->source, sizeof(reading->source), "%.*s", (int)(len < 60 ? len : 60), flag);
    if (i == APP_N_SETTINGS)
        return app_refuse(reading, flag[0] == '-' ? "unknown flag (holdfastd --help lists them)"
                                                  : "an argument that is no flag (holdfastd --help lists them)");
    const char *value = equals ? equals + 1 : NULL;
    if (app_settings[i].argument && !value) {
        value = argv[*at];
        if (!value)
            return app_refuse(reading, "needs a value: %s", app_settings[i].argument);
        (*at)++;
    }
    if (!app_settings[i].argument && value && app_settings[i].flag_only)
        return app_refuse(reading, "takes no value");
    return take(reading, i, APP_FROM_FLAG, value ? value : "true");
}

static bool read_flags(struct app_reading *reading, const char *const *argv)
{
    for (size_t at = argv[0] ? 1 : 0; argv[at];) {
        if (!read_flag(reading, argv, &at))
            return false;
    }
    return true;
}

/* An empty variable is none. */
static bool read_environment(struct app_reading *reading, char *(*lookup)(const char *name))
{
    for (size_t i = 0; i < APP_N_SETTINGS; i++) {
        environment_name(&app_settings[i], reading->source, sizeof(reading->source));
        const char *value = app_settings[i].flag_only ? NULL : lookup(reading->source);
        if (value && *value && !take(reading, i, APP_FROM_ENVIRONMENT, value))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ the file */

/* Its bytes, at most one more than are allowed; -1: errno. */
static ssize_t read_bytes(const char *path, char *out)
{
    size_t len = 0;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    while (len <= CONF_FILE_MAX) {
        n = read(fd, out + len, CONF_FILE_MAX + 1 - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    int saved = errno;
    close(fd);
    errno = saved;
    return n < 0 ? -1 : (ssize_t)len;
}

static bool parse_file(struct app_reading *reading, const char *path)
{
    struct conf_error error;
    char *bytes = malloc(CONF_FILE_MAX + 1);
    ssize_t len = bytes ? read_bytes(path, bytes) : -1;
    bool ok = false;

    if (!bytes)
        app_refuse(reading, "out of memory");
    else if (len < 0)
        app_refuse(reading, "cannot read the configuration file %s: %s", path, strerror(errno));
    else
        ok = conf_parse(bytes, (size_t)len, &reading->cfg->file, &error);
    if (len >= 0 && !ok && error.line) {
        snprintf(reading->source, sizeof(reading->source), "%s:%u", path, error.line);
        app_refuse(reading, "%s", error.text);
    } else if (len >= 0 && !ok) {
        snprintf(reading->source, sizeof(reading->source), "%s", path);
        app_refuse(reading, "%s", error.text);
    }
    free(bytes);
    return ok;
}

/* The setting that somebody may have meant: with '_' for '-', or in capitals. NULL if there is none. */
static const char *meant(const char *name)
{
    for (size_t i = 0; i < APP_N_SETTINGS; i++) {
        const char *a = name, *b = app_settings[i].name;
        while (*a && (*a == '_' ? '-' : *a | 0x20) == (*b == '-' ? '-' : *b | 0x20)) {
            a++;
            b++;
        }
        if (!*a && !*b)
            return app_settings[i].name;
    }
    return NULL;
}

static void name_entry(struct app_reading *reading, const struct conf_entry *entry)
{
    snprintf(reading->source, sizeof(reading->source), "%s:%u: %s", reading->cfg->config, entry->line, entry->name);
}

static bool take_entry(struct app_reading *reading, const struct conf_entry *entry)
{
    size_t i = find(entry->name, strlen(entry->name));

    name_entry(reading, entry);
    if (i == APP_N_SETTINGS) {
        const char *known = meant(entry->name);
        return known ? app_refuse(reading, "unknown setting; it is spelled %s", known)
                     : app_refuse(reading, "unknown setting (holdfastd --help lists them)");
    }
    if (app_settings[i].flag_only || app_settings[i].not_in_file)
        return app_refuse(reading, "cannot be set in a file");
    return take(reading, i, APP_FROM_FILE, entry->value);
}

static bool read_file(struct app_reading *reading, char *(*lookup)(const char *name))
{
    struct app_config *cfg = reading->cfg;

    strcpy(reading->source, "--config");
    if (!cfg->config) {
        strcpy(reading->source, "HOLDFASTD_CONFIG");
        cfg->config = lookup("HOLDFASTD_CONFIG");
    }
    if (!cfg->config || !*cfg->config)
        return true;
    if (strlen(cfg->config) >= sizeof(cfg->data_dir))
        return app_refuse(reading, "the path has %zu bytes, at most %zu are allowed", strlen(cfg->config),
                          sizeof(cfg->data_dir) - 1);
    if (!parse_file(reading, cfg->config))
        return false;
    for (size_t i = 0; i < cfg->file.n; i++) {
        if (!take_entry(reading, &cfg->file.entries[i]))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ the whole */

/* How the place where a setting stands is called there. */
static void name_setting(struct app_reading *reading, size_t i, char *out, size_t size)
{
    const struct app_config *cfg = reading->cfg;

    if (cfg->from[i] == APP_FROM_ENVIRONMENT) {
        environment_name(&app_settings[i], out, size);
        return;
    }
    snprintf(out, size, "--%s", app_settings[i].name);
    for (size_t k = 0; cfg->from[i] == APP_FROM_FILE && k < cfg->file.n; k++) {
        if (strcmp(cfg->file.entries[k].name, app_settings[i].name) == 0)
            snprintf(out, size, "%s:%u: %s", cfg->config, cfg->file.entries[k].line, app_settings[i].name);
    }
}

static bool default_data_dir(struct app_reading *reading)
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
        return app_refuse(reading, "there is no home folder to keep it in by default: give it, or --dsn");
    if ((size_t)snprintf(cfg->data_dir, sizeof(cfg->data_dir), "%s/.local/share/holdfast", home) >= sizeof(cfg->data_dir))
        return app_refuse(reading, "the path of the home folder is too long");
    return true;
}

/* Either of the two databases; the one from the higher place. */
static bool choose_database(struct app_reading *reading)
{
    struct app_config *cfg = reading->cfg;
    char other[sizeof(reading->source)];

    if (cfg->from[APP_DATA_DIR] && cfg->from[APP_DATA_DIR] == cfg->from[APP_DSN]) {
        name_setting(reading, APP_DSN, reading->source, sizeof(reading->source));
        name_setting(reading, APP_DATA_DIR, other, sizeof(other));
        return app_refuse(
            reading, "given together with %s: it is either a private PostgreSQL in a folder or one that is there already", other);
    }
    if (cfg->from[APP_DSN] > cfg->from[APP_DATA_DIR])
        cfg->data_dir[0] = '\0';
    else if (cfg->from[APP_DATA_DIR])
        cfg->dsn = NULL;
    else
        return default_data_dir(reading);
    return true;
}

/* What of TLS belongs together. */
static bool check_tls(struct app_reading *reading)
{
    const struct app_config *cfg = reading->cfg;
    size_t given = cfg->tls_cert ? APP_TLS_CERT : cfg->tls_key ? APP_TLS_KEY : APP_TLS_CLIENT_CA;

    name_setting(reading, given, reading->source, sizeof(reading->source));
    if (!cfg->tls_cert != !cfg->tls_key)
        return app_refuse(reading, "the certificate and its key are given together: --%s is missing",
                          app_settings[cfg->tls_cert ? APP_TLS_KEY : APP_TLS_CERT].name);
    return cfg->tls_cert || !cfg->tls_client_ca || app_refuse(reading, "needs --tls-cert and --tls-key too");
}

/* Whoever can reach the port from elsewhere must show who it is, and nobody between may read how. */
static bool check_http(struct app_reading *reading)
{
    const struct app_config *cfg = reading->cfg;

    name_setting(reading, APP_HTTP, reading->source, sizeof(reading->source));
    if (!cfg->http || cfg->insecure || app_http_is_local(cfg->http))
        return true;
    if (!cfg->require_keys)
        return app_refuse(reading, "\"%s\" can be reached from other machines: it needs --auth keys, or --insecure", cfg->http);
    return cfg->tls_cert ||
           app_refuse(reading, "\"%s\" can be reached from other machines: it needs --tls-cert and --tls-key, or --insecure",
                      cfg->http);
}

/* Defaults, and what only the whole can tell. */
static bool complete(struct app_reading *reading)
{
    struct app_config *cfg = reading->cfg;

    if (!choose_database(reading) || !check_tls(reading) || !check_http(reading))
        return false;
    name_setting(reading, APP_LISTEN, reading->source, sizeof(reading->source));
    if (cfg->n_listen == 0 && !app_parse_listen(reading, APP_DEFAULT_LISTEN))
        return false;
    for (size_t i = 0; i < cfg->n_listen && !cfg->insecure; i++) {
        if (!app_url_is_local(cfg->listen[i]))
            return app_refuse(
                reading,
                "\"%s\" can be reached from other machines, and nng is neither encrypted nor authenticated: use a loopback "
                "address or ipc://, or add --insecure",
                cfg->listen[i]);
    }
    return true;
}

static void set_defaults(struct app_config *cfg)
{
    memset(cfg, 0, sizeof(*cfg));
    cfg->connections = 2;
    cfg->max_queue = 100000;
    cfg->max_batch = 512;
    cfg->max_clients = 4096;
    cfg->drain_timeout_ms = 30000;
    cfg->log_level = LOG_AT_INFO;
    cfg->log_format = LOG_AS_LOGFMT;
    cfg->http = APP_DEFAULT_HTTP;
}

bool app_config_read(struct app_config *cfg, const char *const *argv, char *(*lookup)(const char *name), struct app_error *error)
{
    struct app_reading reading = {.cfg = cfg, .error = error};

    set_defaults(cfg);
    if (!read_flags(&reading, argv))
        return false;
    if (cfg->action == APP_HELP || cfg->action == APP_VERSION)
        return true;

    /* Again from the start, now in the order of precedence; help and version work in any environment. */
    const char *config = cfg->config;
    app_forget_listen(cfg);
    set_defaults(cfg);
    cfg->config = config;
    return read_file(&reading, lookup) && read_environment(&reading, lookup) && read_flags(&reading, argv) && complete(&reading);
}

void app_config_release(struct app_config *cfg)
{
    app_forget_listen(cfg);
    conf_release(&cfg->file);
}

void app_config_log(const struct app_config *cfg)
{
    static const char *const places[] = {"default", "file", "environment", "flag"};
    char value[4096];

    for (size_t i = 0; i < APP_N_SETTINGS && log_enabled(LOG_AT_DEBUG); i++) {
        if (!app_settings[i].show)
            continue;
        app_settings[i].show(cfg, value, sizeof(value));
        log_debug("app.setting", log_str("name", app_settings[i].name), log_str("value", value),
                  log_str("from", places[cfg->from[i]]));
    }
}

void app_config_help(FILE *out)
{
    char flag[64], variable[64];

    fprintf(out, "holdfastd " HOLDFAST_VERSION ": leases, fencing tokens and guarded writes on PostgreSQL\n\n"
                 "usage: holdfastd [--data-dir DIR | --dsn CONNINFO] [--listen NNG-URL]... [--http HOST:PORT] [FLAG]...\n\n");
    for (size_t i = 0; i < APP_N_SETTINGS; i++) {
        const struct app_setting *s = &app_settings[i];
        snprintf(flag, sizeof(flag), "--%s %s", s->name, s->argument ? s->argument : "");
        environment_name(s, variable, sizeof(variable));
        fprintf(out, "  %-24s %s\n", flag, s->help);
        if (s->shown)
            fprintf(out, "  %-24s default: %s\n", "", s->shown);
        if (!s->flag_only)
            fprintf(out, "  %-24s environment: %s\n", "", variable);
    }
    fprintf(out, "\nA flag wins over the environment, the environment over the file. In the file the names are those of the flags\n"
                 "without dashes (data-dir = /srv/holdfast), each at most once; a line that begins with # is a comment.\n"
                 "When it serves it prints: READY nng=URL http=HOST:PORT. SIGTERM drains it, a second one ends it at once.\n"
                 "Exit status: 0 drained, 1 failure, 2 configuration.\n");
}
