/*
 * log.c - see log.h. Owns the settings and one line buffer; the loop's thread only.
 *
 * Room for the closing quote, brace and newline is kept free (TAIL), so that a cut line still parses.
 */
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { LINE_MAX_BYTES = 8192, TAIL = 8 };

static struct {
    enum log_level level;
    enum log_format format;
    log_sink_fn sink;
    void *arg;
} settings = {.level = LOG_AT_INFO};

struct line {
    size_t len;
    bool full;
    char text[LINE_MAX_BYTES];
};

static const char *const level_names[] = {"debug", "info", "warn", "error", "none"};
static const char *const format_names[] = {"logfmt", "json"};

static void to_stderr(void *arg, enum log_level level, const char *line, size_t len)
{
    (void)arg;
    (void)level;
    ssize_t n = write(STDERR_FILENO, line, len);
    (void)n; /* there is nowhere to tell it */
}

void log_setup(enum log_level level, enum log_format format, log_sink_fn sink, void *arg)
{
    settings.level = level;
    settings.format = format;
    settings.sink = sink;
    settings.arg = arg;
}

bool log_level_parse(const char *text, enum log_level *out)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_format_parse(const char *text, enum log_format *out)
{
    for (size_t i = 0; i < sizeof(format_names) / sizeof(format_names[0]); i++) {
        if (strcmp(text, format_names[i]) == 0) {
            *out = (enum log_format)i;
            return true;
        }
    }
    return false;
}

bool log_enabled(enum log_level level)
{
    return level >= settings.level && settings.level != LOG_AT_NONE;
}

static size_t room(const struct line *line)
{
    size_t most = sizeof(line->text) - TAIL;
    return line->len < most ? most - line->len : 0; /* a closing quote may stand in TAIL already */
}

/* All of it or nothing; once something didn't fit, nothing more is added. */
static void add(struct line *line, const char *text, size_t len)
{
    if (line->full || len > room(line)) {
        line->full = true;
        return;
    }
    memcpy(line->text + line->len, text, len);
    line->len += len;
}

static void add_str(struct line *line, const char *text)
{
    add(line, text, strlen(text));
}

static void add_escaped(struct line *line, const char *text)
{
    char hex[8];
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\') {
            add(line, (char[]){'\\', (char)*at}, 2);
        } else if (*at == '\n') {
            add(line, "\\n", 2);
        } else if (*at < 0x20 || *at == 0x7f) {
            snprintf(hex, sizeof(hex), "\\u%04x", *at);
            add(line, hex, 6);
        } else {
            /* A whole UTF-8 character at once, so that a cut leaves no half of one. */
            size_t n = 1;
            while (n < 4 && *at >= 0xc0 && (at[n] & 0xc0) == 0x80)
                n++;
            add(line, (const char *)at, n);
            at += n - 1;
        }
    }
}

static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at <= ' ' || *at == '"' || *at == '=' || *at == '\\' || *at == 0x7f)
            return false;
    }
    return true;
}

static void add_text(struct line *line, const char *text)
{
    if (settings.format == LOG_AS_LOGFMT && is_plain(text)) {
        if (line->full || strlen(text) <= room(line)) {
            add_str(line, text);
            return;
        }
    }
    if (line->full)
        return;
    add(line, "\"", 1);
    bool opened = !line->full;
    add_escaped(line, text);
    if (opened)
        line->text[line->len++] = '"'; /* from TAIL if the text was cut */
}

static void add_name(struct line *line, const char *name)
{
    /* Name and sign fit together or not at all: "name=" without a value is valid, half a JSON name isn't. */
    char sign[96];
    bool first = line->len == 0;
    if (settings.format == LOG_AS_JSON)
        snprintf(sign, sizeof(sign), "%s\"%s\":", first ? "{" : ",", name);
    else
        snprintf(sign, sizeof(sign), "%s%s=", first ? "" : " ", name);
    if (room(line) < strlen(sign) + 32)
        line->full = true;
    add_str(line, sign);
}

static void add_time(struct line *line)
{
    char text[48];
    int64_t ms = hb_unix_ms();
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + n, sizeof(text) - n, ".%03dZ", (int)(ms % 1000));
    add_name(line, "time");
    add_text(line, text);
}

static void add_field(struct line *line, const struct log_field *field)
{
    char number[24];
    add_name(line, field->name);
    switch (field->type) {
    case LOG_FIELD_TEXT:
        add_text(line, field->text);
        break;
    case LOG_FIELD_INT:
        snprintf(number, sizeof(number), "%lld", (long long)field->number);
        add_str(line, number);
        break;
    case LOG_FIELD_BOOL:
        add_str(line, field->number ? "true" : "false");
        break;
    }
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
    static struct line line;
    if (!log_enabled(level))
        return;
    line.len = 0;
    line.full = false;
    add_time(&line);
    add_field(&line, &(struct log_field){.name = "level", .text = level_names[level]});
    add_field(&line, &(struct log_field){.name = "event", .text = event});
    for (size_t i = 0; i < n; i++) {
        if (fields[i].name)
            add_field(&line, &fields[i]);
    }
    if (settings.format == LOG_AS_JSON)
        line.text[line.len++] = '}';
    line.text[line.len++] = '\n';
    (settings.sink ? settings.sink : to_stderr)(settings.arg, level, line.text, line.len);
}
