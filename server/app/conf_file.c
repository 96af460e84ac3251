/*
 * conf_file.c - see conf_file.h. The text is copied once; names and values are cut out of the copy in place.
 */
#include "app/conf_file.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parse {
    struct conf_file *out;
    struct conf_error *error;
    unsigned line;
};

static bool refuse(const struct parse *parse, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool refuse(const struct parse *parse, const char *format, ...)
{
    va_list args;
    parse->error->line = parse->line;
    va_start(args, format);
    vsnprintf(parse->error->text, sizeof(parse->error->text), format, args);
    va_end(args);
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Bytes of the UTF-8 character at `at` (RFC 3629: shortest form, no surrogates, up to U+10FFFF), 0 if there is none. */
static size_t utf8_len(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char first, last, second_first, second_last, len;
    } forms[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                 {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                 {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last)
            continue;
        if (forms[i].len > left || (forms[i].len > 1 && (at[1] < forms[i].second_first || at[1] > forms[i].second_last)))
            return 0;
        for (size_t k = 2; k < forms[i].len; k++) {
            if (at[k] < 0x80 || at[k] > 0xbf)
                return 0;
        }
        return forms[i].len;
    }
    return 0;
}

static bool check_characters(const struct parse *parse, const char *text, size_t len)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + len;
    while (at < end) {
        size_t n = utf8_len(at, (size_t)(end - at));
        if (n == 0)
            return refuse(parse, "byte %zu of the line (0x%02x) is not UTF-8", (size_t)(at - (const unsigned char *)text) + 1, *at);
        if ((*at < 0x20 && *at != '\t') || *at == 0x7f)
            return refuse(parse, "byte %zu of the line is the control character 0x%02x",
                          (size_t)(at - (const unsigned char *)text) + 1, *at);
        at += n;
    }
    return true;
}

/* The name at the line's start is cut off; `*rest` is what follows the '='. What else the line has is not told: it may be a
 * password. */
static bool cut_name(const struct parse *parse, char *line, char **rest)
{
    size_t len = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    char *equals = line + len;

    if (len > CONF_NAME_MAX)
        return refuse(parse, "the name has %zu bytes, at most %d are allowed", len, CONF_NAME_MAX);
    while (is_blank(*equals))
        equals++;
    if (*equals != '=' && len > 0)
        return refuse(parse, "%.*s: no '=' stands behind the name: a line is \"name = value\"", (int)len, line);
    if (len == 0)
        return refuse(parse, "the line does not begin with a name: a line is \"name = value\"");
    line[len] = '\0';
    *rest = equals + 1;
    return true;
}

static bool cut_quoted(const struct parse *parse, const char *name, char *quote, char **value)
{
    char *end = strchr(quote + 1, '"');
    if (!end)
        return refuse(parse, "%s: the value begins with a double quote and has no second one", name);
    const char *behind = end + 1;
    while (is_blank(*behind))
        behind++;
    if (*behind && (*behind != '#' || behind == end + 1))
        return refuse(parse, "%s: something stands behind the value's second double quote", name);
    *end = '\0';
    *value = quote + 1;
    return true;
}

static bool cut_value(const struct parse *parse, const char *name, char *rest, char **value)
{
    while (is_blank(*rest)) /* NOLINT(clang-analyzer-core.NullDereference): refuse() is always false */
        rest++;
    if (*rest == '"')
        return cut_quoted(parse, name, rest, value);
    char *end = rest;
    while (*end && !(*end == '#' && (end == rest || is_blank(end[-1]))))
        end++;
    while (end > rest && is_blank(end[-1]))
        end--;
    *end = '\0';
    *value = rest;
    return true;
}

static bool add(const struct parse *parse, const char *name, const char *value)
{
    struct conf_file *out = parse->out;

    if (!*value) /* NOLINT(clang-analyzer-core.NullDereference): as above */
        return refuse(parse, "%s: the value is empty", name);
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->entries[i].name, name) == 0)
            return refuse(parse, "%s: stands already in line %u; a name stands once in a file", name, out->entries[i].line);
    }
    if (out->n == CONF_ENTRIES_MAX)
        return refuse(parse, "%s: at most %d settings are allowed", name, CONF_ENTRIES_MAX);
    out->entries[out->n++] = (struct conf_entry){name, value, parse->line};
    return true;
}

/* `line` has `len` bytes and then room for a NUL. */
static bool take_line(const struct parse *parse, char *line, size_t len)
{
    char *rest = NULL, *value = NULL;

    if (len && line[len - 1] == '\r')
        len--;
    if (len > CONF_LINE_MAX)
        return refuse(parse, "the line has %zu bytes, at most %d are allowed", len, CONF_LINE_MAX);
    if (!check_characters(parse, line, len))
        return false;
    line[len] = '\0';
    while (is_blank(*line))
        line++;
    if (!*line || *line == '#')
        return true;
    return cut_name(parse, line, &rest) && cut_value(parse, line, rest, &value) && add(parse, line, value);
}

bool conf_parse(const char *data, size_t len, struct conf_file *out, struct conf_error *error)
{
    struct parse parse = {out, error, 0};
    bool ok = true;

    *out = (struct conf_file){0};
    if (len > CONF_FILE_MAX)
        return refuse(&parse, "the file has more than %d bytes, the most that are allowed", CONF_FILE_MAX);
    out->entries = calloc(CONF_ENTRIES_MAX, sizeof(*out->entries));
    out->text = malloc(len + 1);
    if (!out->entries || !out->text) {
        conf_release(out);
        return refuse(&parse, "out of memory");
    }
    if (len)
        memcpy(out->text, data, len);
    out->text[len] = '\0';

    size_t at = len >= 3 && memcmp(out->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (ok && at < len) {
        const char *newline = memchr(out->text + at, '\n', len - at);
        size_t line_len = newline ? (size_t)(newline - out->text) - at : len - at;
        parse.line++;
        ok = take_line(&parse, out->text + at, line_len);
        at += line_len + 1;
    }
    if (!ok)
        conf_release(out);
    return ok;
}

void conf_release(struct conf_file *file)
{
    free(file->entries);
    free(file->text);
    *file = (struct conf_file){0};
}
