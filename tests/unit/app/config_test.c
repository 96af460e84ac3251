/*
 * config_test.c - settings by flag and environment: defaults, precedence, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/config.h"

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
    assert_int_equal(cfg.connections, 4);
    assert_int_equal(cfg.log_level, LOG_AT_INFO);
    assert_false(cfg.insecure);
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
    refuse_from(ARGV("--http", "127.0.0.1:1"), NULL, "--http: ", "unknown flag");
    refuse_from(ARGV("--tls-cert=x"), NULL, "--tls-cert: ", "unknown flag");
    refuse_from(ARGV("--config"), NULL, "--config: ", "unknown flag");
    refuse_from(ARGV("-x"), NULL, "-x: ", "unknown flag");
    refuse_from(ARGV("--"), NULL, "--: ", "unknown flag");
    refuse_from(ARGV("serve"), NULL, "serve: ", "no flag");
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
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_flags),     cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
