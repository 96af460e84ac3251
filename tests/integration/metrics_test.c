/*
 * metrics_test.c - what operators see: a server's /metrics, and the alerts and the dashboard that go with it. promtool finds no
 * fault with any of them, and whatever they ask for is something that a server tells.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/served.h"

#define DASHBOARDS T_SOURCE_DIR "/deploy/dashboards/"

static const char *text; /* of /metrics */

static const char *run(const char *const *argv, const char *input)
{
    struct t_result result = t_run(argv, &(struct t_spawn_opts){.input = input}, T_PATIENCE_MS);
    if (result.status != 0)
        fail_msg("%s ended with %d: %s%s", argv[0], result.status, result.out, result.err);
    return result.out;
}

static int scrape(void **state)
{
    (void)state;
    server = t_server_start("--dsn", t_database(), "--http", "127.0.0.1:0", NULL);
    conn = t_connect(server->dsn);
    assert_int_equal(t_cli(server, "acquire", "r", "--ttl", "60s", NULL).status, 0);
    assert_int_equal(t_cli(server, "acquire", "r", "--ttl", "60s", NULL).status, 1);
    assert_int_equal(t_cli(server, "write", "r", "1", "v", NULL).status, 0);
    assert_int_equal(t_cli(server, "break", "r", "--token", "1", "--reason", "test", NULL).status, 0);
    assert_int_equal(t_cli(server, "write", "r", "1", "v", NULL).status, 1);
    const char *argv[] = {"curl", "-sS", "--fail", t_printf("http://%s/metrics", server->http), NULL};
    text = run(argv, NULL);
    t_keep();
    return 0;
}

static void promtool_finds_no_fault(void **state)
{
    (void)state;
    const char *metrics[] = {"promtool", "check", "metrics", NULL};
    assert_string_equal(run(metrics, text), "");
    const char *rules[] = {"promtool", "check", "rules", DASHBOARDS "alerts.yml", NULL};
    t_contains(run(rules, NULL), "SUCCESS");
}

static void it_tells_what_happened(void **state)
{
    (void)state;
    t_contains(text, "\nholdfast_database_up 1\n");
    t_contains(text, "\nholdfast_calls_total{service=\"holdfast.v1.LeaseService\",method=\"Acquire\"} 2\n");
    t_contains(text, "\nholdfast_outcomes_total{outcome=\"granted\"} 1\n");
    t_contains(text, "\nholdfast_contended_held{namespace=\"default\",name=\"r\"} 1\n");
    t_contains(text, "\nholdfast_stale_tokens_total{call=\"Write\"} 1\n");
    t_contains(text,
               "\nholdfast_call_errors_total{service=\"holdfast.v1.ResourceService\",method=\"Write\",reason=\"STALE_TOKEN\"} 1\n");
}

/* As the metric itself, or as a series of a histogram. */
static bool is_told(const char *name, size_t len)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    bool told = strstr(text, t_printf("# TYPE %.*s ", (int)len, name));
    for (int i = 0; i < 3 && !told; i++) {
        size_t n = strlen(suffixes[i]);
        if (len > n && !strncmp(name + len - n, suffixes[i], n))
            told = strstr(text, t_printf("# TYPE %.*s histogram\n", (int)(len - n), name));
    }
    return told;
}

/* Each name of ours in the text that follows is one of /metrics. How many there are. */
static int names_are_told(const char *where, const char *from)
{
    int n = 0;
    for (const char *at = from; (at = strstr(at, "holdfast_")); n++) {
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        if (!is_told(at, len))
            fail_msg("%s asks for %.*s, which no server tells", where, (int)len, at);
        at += len;
    }
    return n;
}

static void alerts_ask_for_what_is_told(void **state)
{
    (void)state;
    assert_true(names_are_told("alerts.yml", t_read_file(DASHBOARDS "alerts.yml")) > 10);
}

/* The dashboard's expressions as rules, which promtool can parse. */
static void the_dashboard_asks_for_what_is_told(void **state)
{
    (void)state;
    const char *json = t_read_file(DASHBOARDS "grafana.json");
    char *file = t_printf("%s/rules.yml", t_tmpdir()), *rules = t_printf("groups:\n- name: dashboard\n  rules:\n");
    const char *argv[] = {"promtool", "check", "rules", file, NULL};
    int n = 0;
    for (const char *at = json; (at = strstr(at, "\"expr\": \"")); n++) {
        at += strlen("\"expr\": ");
        const char *end = strstr(at, "\",\n");
        assert_non_null(end);
        rules = t_printf("%s  - record: expression_%d\n    expr: %.*s\n", rules, n, (int)(end + 1 - at), at);
    }
    assert_true(n > 20);
    for (char *at; (at = strstr(rules, "$__rate_interval"));)
        memcpy(at, "5m              ", strlen("$__rate_interval"));
    t_write_file(file, rules);
    t_contains(run(argv, NULL), "SUCCESS");
    assert_true(names_are_told("grafana.json", rules) > 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promtool_finds_no_fault),
        cmocka_unit_test(it_tells_what_happened),
        cmocka_unit_test(alerts_ask_for_what_is_told),
        cmocka_unit_test(the_dashboard_asks_for_what_is_told),
    };
    return cmocka_run_group_tests(tests, scrape, end_serving);
}
