/*
 * log_test.c - what lines look like, in both formats, and that nothing in a text breaks out of its line.
 */
#include "harness/harness.h"

#include <string.h>

#include "base/log.h"

static char seen[16384];
static size_t seen_len;
static int lines;

static void sink(void *arg, enum log_level level, const char *line, size_t len)
{
    (void)level;
    assert_ptr_equal(arg, &lines);
    assert_true(len < sizeof(seen));
    memcpy(seen, line, len);
    seen[len] = '\0';
    seen_len = len;
    lines++;
}

/* What follows the time. */
static const char *tail(const char *from)
{
    const char *at = strstr(seen, from);
    assert_non_null(at);
    return at;
}

static void logfmt(void **state)
{
    (void)state;
    log_setup(LOG_AT_INFO, LOG_AS_LOGFMT, sink, &lines);
    log_info("room.event", log_str("plain", "abc"), log_int("n", -5), log_bool("ok", true), log_str("null", NULL));
    assert_string_equal(tail("level="), "level=info event=room.event plain=abc n=-5 ok=true null=\"\"\n");
    assert_int_equal(strncmp(seen, "time=20", 7), 0);
    log_warn("room.bare");
    assert_string_equal(tail("level="), "level=warn event=room.bare\n");
    log_error("e", log_str("t", "a b=\"c\"\\\nlevel=none\x01"));
    assert_string_equal(tail("level="), "level=error event=e t=\"a b=\\\"c\\\"\\\\\\nlevel=none\\u0001\"\n");
}

static void json(void **state)
{
    (void)state;
    log_setup(LOG_AT_INFO, LOG_AS_JSON, sink, &lines);
    log_info("room.event", log_str("text", "a\"\n\xc3\xa9"), log_int("n", 7), log_bool("ok", false));
    assert_string_equal(tail("\"level\""),
                        "\"level\":\"info\",\"event\":\"room.event\",\"text\":\"a\\\"\\n\xc3\xa9\",\"n\":7,\"ok\":false}\n");
    assert_int_equal(seen[0], '{');
}

static void below_the_level_nothing_is_written(void **state)
{
    (void)state;
    log_setup(LOG_AT_WARN, LOG_AS_LOGFMT, sink, &lines);
    int before = lines;
    log_debug("no");
    log_info("no");
    assert_int_equal(lines, before);
    log_warn("yes");
    assert_int_equal(lines, before + 1);
    log_setup(LOG_AT_NONE, LOG_AS_LOGFMT, sink, &lines);
    log_error("no");
    assert_int_equal(lines, before + 1);
}

static void a_long_text_is_cut_but_closed(void **state)
{
    (void)state;
    static char text[20000];
    memset(text, '"', sizeof(text) - 1);
    for (int format = LOG_AS_LOGFMT; format <= LOG_AS_JSON; format++) {
        log_setup(LOG_AT_INFO, (enum log_format)format, sink, &lines);
        for (size_t len = 8000; len < 8300; len++) {
            memset(text, 'x', len);
            text[len] = '\0';
            log_info("e", log_str("a", text), log_int("b", 1));
            assert_int_equal(seen[seen_len - 1], '\n');
            assert_true(seen_len <= 8192);
            int quotes = 0;
            for (const char *at = seen; *at; at++)
                quotes += *at == '"';
            assert_int_equal(quotes % 2, 0);
            if (format == LOG_AS_JSON)
                assert_int_equal(seen[seen_len - 2], '}');
        }
    }
    memset(text, '\n', sizeof(text) - 1);
    log_info("e", log_str("a", text));
    assert_int_equal(strcmp(seen + seen_len - 5, "\\n\"}\n"), 0);
}

static void names_of_levels_and_formats(void **state)
{
    (void)state;
    enum log_level level = LOG_AT_NONE;
    enum log_format format = LOG_AS_LOGFMT;
    assert_true(log_level_parse("debug", &level) && level == LOG_AT_DEBUG);
    assert_false(log_level_parse("loud", &level));
    assert_int_equal(level, LOG_AT_DEBUG);
    assert_true(log_format_parse("json", &format) && format == LOG_AS_JSON);
    assert_false(log_format_parse("xml", &format));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logfmt),
        cmocka_unit_test(json),
        cmocka_unit_test(below_the_level_nothing_is_written),
        cmocka_unit_test(a_long_text_is_cut_but_closed),
        cmocka_unit_test(names_of_levels_and_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
