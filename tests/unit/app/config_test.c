/*
 * config_test.c - settings by flag, environment and file: defaults, precedence, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/config.h"
#include "app/settings.h"
#include "unit/app/logged.h"

/* The environment of a test: name, value, name, value, … */
static const char *const *environment;

static char *lookup(const char *name)
{
    for (const char *const *e = environment; e && e[0]; e += 2) {
        if (strcmp(e[0], name) == 0)
            return (char *)e[1];
    }
    return NULL;
}

static struct app_config cfg;
static struct app_error error;

#define ARGV(...)                                                                                                                  \
    (const char *const[])                                                                                                          \
    {                                                                                                                              \
        "holdfastd", __VA_ARGS__, NULL                                                                                             \
    }
#define ENV(...)                                                                                                                   \
    (const char *const[])                                                                                                          \
    {                                                                                                                              \
        __VA_ARGS__, NULL                                                                                                          \
    }

static void accept_from(const char *const *argv, const char *const *env)
{
    environment = env;
    if (!app_config_read(&cfg, argv, lookup, &error))
        fail_msg("%s", error.text);
}

static void refuse_from(const char *const *argv, const char *const *env, const char *source, const char *part)
{
    environment = env;
    assert_false(app_config_read(&cfg, argv, lookup, &error));
    app_config_release(&cfg);
    if (strncmp(error.text, source, strlen(source)) != 0 || !strstr(error.text, part))
        fail_msg("it doesn't begin with \"%s\", or \"%s\" is missing: %s", source, part, error.text);
}

static void test_defaults(void **state)
{
    (void)state;
    accept_from(ARGV(NULL), NULL);
    assert_int_equal(cfg.action, APP_SERVE);
    assert_null(cfg.dsn);
    assert_int_equal(cfg.n_listen, 1);
    assert_string_equal(cfg.listen[0], "tcp://127.0.0.1:7420");
    assert_int_equal(cfg.connections, 2);
    assert_int_equal(cfg.log_level, LOG_AT_INFO);
    assert_false(cfg.insecure);
    assert_string_equal(cfg.http, "127.0.0.1:7421");
    assert_false(cfg.require_keys);
    assert_null(cfg.tls_cert);
    assert_null(cfg.cors_origin);
    assert_non_null(strstr(cfg.data_dir, geteuid() == 0 ? "/var/lib/holdfast" : "/.local/share/holdfast"));
    app_config_release(&cfg);
}

static void test_flags(void **state)
{
    (void)state;
    accept_from(ARGV("--data-dir=/x", "--listen", "ipc:///tmp/a", "--listen=tcp://[::1]:1,tcp://localhost:0", "--connections", "9",
                     "--log-level=debug", "--log-format", "json", "--insecure"),
                NULL);
    assert_string_equal(cfg.data_dir, "/x");
    assert_int_equal(cfg.n_listen, 3);
    assert_string_equal(cfg.listen[0], "ipc:///tmp/a");
    assert_string_equal(cfg.listen[2], "tcp://localhost:0");
    assert_int_equal(cfg.connections, 9);
    assert_int_equal(cfg.log_level, LOG_AT_DEBUG);
    assert_int_equal(cfg.log_format, LOG_AS_JSON);
    assert_true(cfg.insecure);
    app_config_release(&cfg);

    accept_from(ARGV("--help"), ENV("HOLDFASTD_CONNECTIONS", "nonsense"));
    assert_int_equal(cfg.action, APP_HELP);
    accept_from(ARGV("--version"), NULL);
    assert_int_equal(cfg.action, APP_VERSION);
    accept_from(ARGV("--print-dsn", "--dsn", "host=a"), NULL);
    assert_int_equal(cfg.action, APP_PRINT_DSN);
    assert_string_equal(cfg.dsn, "host=a");
    app_config_release(&cfg);
}

static void test_precedence(void **state)
{
    (void)state;
    const char *const *env = ENV("HOLDFASTD_DATA_DIR", "/env", "HOLDFASTD_LISTEN", "tcp://127.0.0.1:1,tcp://127.0.0.1:2",
                                 "HOLDFASTD_CONNECTIONS", "7", "HOLDFASTD_LOG_LEVEL", "", "HOLDFASTD_INSECURE", "true");
    accept_from(ARGV(NULL), env);
    assert_string_equal(cfg.data_dir, "/env");
    assert_int_equal(cfg.n_listen, 2);
    assert_int_equal(cfg.connections, 7);
    assert_int_equal(cfg.log_level, LOG_AT_INFO); /* an empty variable is none */
    assert_true(cfg.insecure);
    app_config_release(&cfg);

    accept_from(ARGV("--connections=8", "--listen", "tcp://127.0.0.1:3", "--dsn", "host=b", "--insecure=no"), env);
    assert_int_equal(cfg.connections, 8);
    assert_int_equal(cfg.n_listen, 1);
    assert_string_equal(cfg.listen[0], "tcp://127.0.0.1:3");
    assert_string_equal(cfg.dsn, "host=b"); /* the flag wins over the other place's --data-dir */
    assert_string_equal(cfg.data_dir, "");
    assert_false(cfg.insecure);
    app_config_release(&cfg);

    accept_from(ARGV("--data-dir", "/flag"), ENV("HOLDFASTD_DSN", "host=c"));
    assert_null(cfg.dsn);
    assert_string_equal(cfg.data_dir, "/flag");
    app_config_release(&cfg);
}

static void test_refused(void **state)
{
    (void)state;
    refuse_from(ARGV("--data-dir", "/x", "--dsn", "host=a"), NULL, "--dsn: ", "--data-dir");
    refuse_from(ARGV(NULL), ENV("HOLDFASTD_DSN", "host=a", "HOLDFASTD_DATA_DIR", "/x"), "HOLDFASTD_DSN: ", "HOLDFASTD_DATA_DIR");
    refuse_from(ARGV("--connections", "0"), NULL, "--connections: ", "\"0\" is not a whole number from 1 to 64");
    refuse_from(ARGV("--connections=65"), NULL, "--connections: ", "65");
    refuse_from(ARGV("--connections=4x"), NULL, "--connections: ", "4x");
    refuse_from(ARGV(NULL), ENV("HOLDFASTD_CONNECTIONS", "99999999999999999999"), "HOLDFASTD_CONNECTIONS: ", "1 to 64");
    refuse_from(ARGV("--log-level", "loud"), NULL, "--log-level: ", "loud");
    refuse_from(ARGV("--log-format", "xml"), NULL, "--log-format: ", "xml");
    refuse_from(ARGV("--data-dir", ""), NULL, "--data-dir: ", "empty");
    refuse_from(ARGV("--data-dir"), NULL, "--data-dir: ", "needs a value");
    refuse_from(ARGV("--insecure=perhaps"), NULL, "--insecure: ", "perhaps");
    refuse_from(ARGV("--print-dsn=1"), NULL, "--print-dsn: ", "no value");
    refuse_from(ARGV("--tls-crt=x"), NULL, "--tls-crt: ", "unknown flag");
    refuse_from(ARGV("--config"), NULL, "--config: ", "needs a value");
    refuse_from(ARGV("--connections", "+4"), NULL, "--connections: ", "\"+4\"");
    refuse_from(ARGV("--max-queue", "0"), NULL, "--max-queue: ", "1 to 10000000");
    refuse_from(ARGV("--max-batch", "10001"), NULL, "--max-batch: ", "1 to 10000");
    refuse_from(ARGV("--max-clients", "x"), NULL, "--max-clients: ", "1 to 1000000");
    refuse_from(ARGV("--listen", "ipc:///a,,ipc:///b"), NULL, "--listen: ", "item of the list is empty");
    refuse_from(ARGV("--listen", "ipc:///a,"), NULL, "--listen: ", "item of the list is empty");
    static const char *const durations[] = {"30", "-1s", "1d", "s", "61m", "3601s", "99999999999999999999s", "1.5s", " 1s"};
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
        refuse_from(ARGV("--drain-timeout", durations[i]), NULL, "--drain-timeout: ", "from 0s to 1h");
    refuse_from(ARGV("-x"), NULL, "-x: ", "unknown flag");
    refuse_from(ARGV("--"), NULL, "--: ", "unknown flag");
    refuse_from(ARGV("serve"), NULL, "serve: ", "no flag");
}

/* ------------------------------------------------------------------------------------------------ the file */

static char path[] = "/tmp/holdfast-config-test-XXXXXX";

static const char *file_of(const char *text)
{
    static bool made;
    int fd = made ? open(path, O_WRONLY | O_TRUNC) : mkstemp(path);
    made = true;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void test_file(void **state)
{
    (void)state;
    file_of("# all of them\ndata-dir = /file\nlisten = tcp://127.0.0.1:1 , ipc:///tmp/b\nconnections = 9\nmax-queue = 7\n"
            "max-batch = 8\nmax-clients = 9\ndrain-timeout = 1m\nlog-level = debug\nlog-format = json\ninsecure = true\n");
    for (int by_flag = 0; by_flag < 2; by_flag++) {
        if (by_flag)
            accept_from(ARGV("--config", path), ENV("HOLDFASTD_CONFIG", "/nowhere"));
        else
            accept_from(ARGV(NULL), ENV("HOLDFASTD_CONFIG", path));
        assert_string_equal(cfg.data_dir, "/file");
        assert_int_equal(cfg.n_listen, 2);
        assert_string_equal(cfg.listen[0], "tcp://127.0.0.1:1");
        assert_string_equal(cfg.listen[1], "ipc:///tmp/b");
        assert_int_equal(cfg.connections, 9);
        assert_int_equal(cfg.max_queue, 7);
        assert_int_equal(cfg.max_batch, 8);
        assert_int_equal(cfg.max_clients, 9);
        assert_int_equal(cfg.drain_timeout_ms, 60000);
        assert_int_equal(cfg.log_level, LOG_AT_DEBUG);
        assert_int_equal(cfg.log_format, LOG_AS_JSON);
        assert_true(cfg.insecure);
        app_config_release(&cfg);
    }
    accept_from(ARGV(NULL), ENV("HOLDFASTD_CONFIG", ""));
    assert_null(cfg.file.text);
    app_config_release(&cfg);
}

/* Flag over environment over file, each setting by itself; the dsn and the folder together. */
static void test_file_precedence(void **state)
{
    (void)state;
    file_of("dsn = host=file\nlisten = tcp://127.0.0.1:1\nconnections = 9\nmax-queue = 1\n");
    accept_from(ARGV("--config", path, "--connections=2"),
                ENV("HOLDFASTD_CONNECTIONS", "3", "HOLDFASTD_LISTEN", "tcp://127.0.0.1:2,tcp://127.0.0.1:3"));
    assert_int_equal(cfg.connections, 2);
    assert_int_equal(cfg.max_queue, 1);
    assert_int_equal(cfg.n_listen, 2);
    assert_string_equal(cfg.listen[0], "tcp://127.0.0.1:2");
    assert_string_equal(cfg.dsn, "host=file");
    assert_string_equal(cfg.data_dir, "");
    assert_int_equal(cfg.from[APP_DSN], APP_FROM_FILE);
    assert_int_equal(cfg.from[APP_LISTEN], APP_FROM_ENVIRONMENT);
    app_config_release(&cfg);

    accept_from(ARGV("--config", path, "--listen", "tcp://127.0.0.1:4"), ENV("HOLDFASTD_DATA_DIR", "/env"));
    assert_int_equal(cfg.n_listen, 1);
    assert_string_equal(cfg.listen[0], "tcp://127.0.0.1:4");
    assert_null(cfg.dsn);
    assert_string_equal(cfg.data_dir, "/env");
    app_config_release(&cfg);
}

static void refuse_file(const char *text, unsigned line, const char *part)
{
    char source[128];
    snprintf(source, sizeof(source), line ? "%s:%u: " : "%s: ", path, line);
    refuse_from(ARGV("--config", file_of(text)), NULL, source, part);
}

static void test_file_refused(void **state)
{
    (void)state;
    refuse_file("\nconnectoins = 4", 2, "connectoins: unknown setting");
    refuse_file("data_dir = /x", 1, "data_dir: unknown setting; it is spelled data-dir");
    refuse_file("LISTEN = /x", 1, "it is spelled listen");
    refuse_file("connections = 4\nconnections = 4", 2, "connections: stands already in line 1");
    refuse_file("listen = tcp://127.0.0.1:1\nlisten = tcp://127.0.0.1:2", 2, "listen: stands already");
    refuse_file("connections = 65", 1, "connections: \"65\" is not a whole number from 1 to 64");
    refuse_file("connections", 1, "no '='");
    refuse_file("log-level = loud # really", 1, "log-level: \"loud\"");
    refuse_file("print-dsn = true", 1, "print-dsn: cannot be set in a file");
    refuse_file("config = /x", 1, "config: cannot be set in a file");
    refuse_file("data-dir = /x\ndsn = host=a password=geheim", 2, "dsn: given together with");
    assert_non_null(strstr(error.text, ":1: data-dir"));
    assert_null(strstr(error.text, "geheim"));
    refuse_file("connections = 4\nlisten = tcp://0.0.0.0:1", 2, "listen: \"tcp://0.0.0.0:1\" can be reached");
    refuse_file("a = \x80", 1, "not UTF-8");
    refuse_from(ARGV("--config", "/nowhere/at all"), NULL, "--config: ", "/nowhere/at all: No such file");
    refuse_from(ARGV("--config", "/tmp"), NULL, "--config: ", "directory");
    refuse_from(ARGV(NULL), ENV("HOLDFASTD_CONFIG", "/nowhere"), "HOLDFASTD_CONFIG: ", "/nowhere");
    refuse_from(ARGV("--config", "/dev/zero"), NULL, "/dev/zero: ", "more than 65536 bytes");
}

/* The sample is read, and what it says to be defaults are the defaults. */
static void test_sample(void **state)
{
    (void)state;
    accept_from(ARGV("--config", T_SOURCE_DIR "/deploy/holdfastd.conf"), NULL);
    assert_string_equal(cfg.data_dir, "/var/lib/holdfast");
    assert_int_equal(cfg.n_listen, 1);
    app_config_release(&cfg);

    char *text = calloc(1, CONF_FILE_MAX), *to = text, line[1024];
    FILE *sample = fopen(T_SOURCE_DIR "/deploy/holdfastd.conf", "r");
    assert_non_null(sample);
    for (int shown = 0; fgets(line, sizeof(line), sample);) {
        shown = line[0] == '#' && line[1] >= 'a' && line[1] <= 'z' && strchr(line, '=') && strncmp(line, "#dsn", 4) != 0;
        to += sprintf(to, "%s", line + shown);
    }
    fclose(sample);
    struct app_config by_file;
    accept_from(ARGV("--config", file_of(text)), NULL);
    free(text);
    by_file = cfg;
    assert_int_equal(by_file.file.n, APP_N_SETTINGS - 10); /* all but dsn, tls, origin, config and the four that only act */
    accept_from(ARGV(NULL), NULL);
    assert_int_equal(by_file.connections, cfg.connections);
    assert_int_equal(by_file.max_queue, cfg.max_queue);
    assert_int_equal(by_file.max_batch, cfg.max_batch);
    assert_int_equal(by_file.max_clients, cfg.max_clients);
    assert_int_equal(by_file.drain_timeout_ms, cfg.drain_timeout_ms);
    assert_int_equal(by_file.log_level, cfg.log_level);
    assert_int_equal(by_file.log_format, cfg.log_format);
    assert_int_equal(by_file.insecure, cfg.insecure);
    assert_int_equal(by_file.require_keys, cfg.require_keys);
    assert_string_equal(by_file.http, cfg.http);
    assert_string_equal(by_file.listen[0], cfg.listen[0]);
    app_config_release(&cfg);
    app_config_release(&by_file);
}

static void test_shown(void **state)
{
    (void)state;
    accept_from(ARGV("--dsn", "host=db password=geheim", "--config", file_of("max-batch = 77")),
                ENV("HOLDFASTD_DRAIN_TIMEOUT", "1500ms"));
    keep_log(LOG_AT_DEBUG);
    app_config_log(&cfg);
    assert_non_null(strstr(logged, "event=app.setting name=max-batch value=77 from=file\n"));
    assert_non_null(strstr(logged, "name=drain-timeout value=1500ms from=environment\n"));
    assert_non_null(strstr(logged, "name=dsn value=\"host=db\" from=flag\n"));
    assert_non_null(strstr(logged, "name=listen value=tcp://127.0.0.1:7420 from=default\n"));
    assert_null(strstr(logged, "geheim"));
    keep_log(LOG_AT_INFO);
    app_config_log(&cfg);
    assert_string_equal(logged, "");
    log_setup(LOG_AT_NONE, LOG_AS_LOGFMT, NULL, NULL);
    app_config_release(&cfg);
}

/* The HTTP port: where, and what it needs to be reached from elsewhere. */
static void test_http(void **state)
{
    (void)state;
    static const char *const bad[] = {"7421", ":x", "http://127.0.0.1:1", "127.0.0.1", "127.0.0.1:65536", "on"};
    static const char *const open[] = {"0.0.0.0:1", "[::]:7421", "example.org:443", "*:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse_from(ARGV("--insecure", "--http", bad[i]), NULL, "--http: ", bad[i]);
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        refuse_from(ARGV("--http", open[i]), NULL, "--http: ", "--auth keys");
        refuse_from(ARGV("--http", open[i], "--tls-cert=c", "--tls-key=k"), NULL, "--http: ", "--auth keys");
        refuse_from(ARGV("--auth=keys"), ENV("HOLDFASTD_HTTP", open[i]), "HOLDFASTD_HTTP: ", "--tls-cert");
        accept_from(ARGV("--http", open[i], "--insecure"), NULL);
        assert_string_equal(cfg.http, open[i]);
        app_config_release(&cfg);
        accept_from(ARGV("--http", open[i], "--auth", "keys", "--tls-cert=c", "--tls-key=k"), NULL);
        assert_true(cfg.require_keys);
        app_config_release(&cfg);
    }
    accept_from(ARGV("--http", "off"), ENV("HOLDFASTD_HTTP", "127.0.0.1:1"));
    assert_null(cfg.http);
    app_config_release(&cfg);
    accept_from(
        ARGV("--http", "[::1]:0", "--tls-cert=c", "--tls-key=k", "--tls-client-ca=a", "--cors-origin=https://a.example:8443"),
        NULL);
    assert_string_equal(cfg.tls_client_ca, "a");
    assert_string_equal(cfg.cors_origin, "https://a.example:8443");
    app_config_release(&cfg);
    refuse_from(ARGV("--tls-cert=c"), NULL, "--tls-cert: ", "--tls-key");
    refuse_from(ARGV("--tls-key=k"), NULL, "--tls-key: ", "--tls-cert");
    refuse_from(ARGV("--tls-client-ca=a"), NULL, "--tls-client-ca: ", "--tls-cert");
    refuse_from(ARGV("--auth=password"), NULL, "--auth: ", "password");
    refuse_from(ARGV("--cors-origin=https://a.example/page"), NULL, "--cors-origin: ", "https://a.example/page");
    accept_from(ARGV("--create-admin-key", "root"), NULL);
    assert_int_equal(cfg.action, APP_CREATE_ADMIN_KEY);
    assert_string_equal(cfg.admin_key, "root");
    app_config_release(&cfg);
}

static void test_addresses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "127.0.0.1:1",   "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:1x", "ws://127.0.0.1:1",
        "tls+tcp://h:1", "inproc://x",      "ipc://",           "tcp://::1:1",           "tcp://127.0.0.1:-1", "tcp://a/b:1"};
    static const char *const open[] = {"tcp://0.0.0.0:1",  "tcp://*:1",    "tcp://:1",
                                       "tcp://10.0.0.1:1", "tcp://[::]:1", "tcp://example.org:1"};
    static const char *const local[] = {"tcp://127.0.0.1:1", "tcp://127.9.9.9:0", "tcp://[::1]:1", "tcp://localhost:65535",
                                        "ipc:///a"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse_from(ARGV("--insecure", "--listen", bad[i]), NULL, "--listen: ", bad[i]);
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        assert_false(app_url_is_local(open[i]));
        refuse_from(ARGV("--listen", open[i]), NULL, "--listen: ", "--insecure");
        accept_from(ARGV("--listen", open[i], "--insecure"), NULL);
        app_config_release(&cfg);
    }
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
        assert_true(app_url_is_local(local[i]));
        accept_from(ARGV("--listen", local[i]), NULL);
        app_config_release(&cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_flags),           cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_addresses),       cmocka_unit_test(test_http),
        cmocka_unit_test(test_file),     cmocka_unit_test(test_file_precedence), cmocka_unit_test(test_file_refused),
        cmocka_unit_test(test_sample),   cmocka_unit_test(test_shown),
    };
    return cmocka_run_group_tests(tests, NULL, remove_file);
}
