/*
 * history.c - see history.h. The mutex guards the array and the file's places.
 */
#include "robustness/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 704 }; /* a line in the file, with its newline */

struct history {
    pthread_mutex_t mutex;
    struct history_call *calls;
    size_t n, size;
    int fd;         /* -1: none */
    size_t n_lines; /* calls begun here have lines; loaded ones haven't */
    size_t *line_of;
};

static const char *const op_names[HISTORY_OPS] = {"acquire", "renew", "release", "write", "read", "break", "delete", "upset"};
static const char *const answer_names[] = {"unknown", "ok", "refused"};

const char *history_op_name(enum history_op op)
{
    return op_names[op];
}

int64_t history_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t history_digest(const void *value, size_t len)
{
    const uint8_t *bytes = value;
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

/* ------------------------------------------------------------------------------------------------ lines */

enum field_kind { INT, NUMBER, HEX, TEXT, FLAG, OP, ANSWER };

/* The fields of a line, in their order. */
static const struct {
    const char *name;
    enum field_kind kind;
    size_t at;
} fields[] = {
    {"worker", INT, offsetof(struct history_call, worker)},
    {"op", OP, offsetof(struct history_call, op)},
    {"resource", TEXT, offsetof(struct history_call, resource)},
    {"request", TEXT, offsetof(struct history_call, request_id)},
    {"token", NUMBER, offsetof(struct history_call, token)},
    {"seq", NUMBER, offsetof(struct history_call, write_seq)},
    {"has_expected", FLAG, offsetof(struct history_call, has_expected)},
    {"expected", NUMBER, offsetof(struct history_call, expected_version)},
    {"value", HEX, offsetof(struct history_call, value)},
    {"ttl_ms", NUMBER, offsetof(struct history_call, ttl_ms)},
    {"no_renewal", FLAG, offsetof(struct history_call, no_renewal)},
    {"start", NUMBER, offsetof(struct history_call, start_ns)},
    {"end", NUMBER, offsetof(struct history_call, end_ns)},
    {"answer", ANSWER, offsetof(struct history_call, answer)},
    {"reason", TEXT, offsetof(struct history_call, reason)},
    {"got_token", NUMBER, offsetof(struct history_call, got_token)},
    {"version", NUMBER, offsetof(struct history_call, got_version)},
    {"fence", NUMBER, offsetof(struct history_call, got_fence)},
    {"left_ms", NUMBER, offsetof(struct history_call, got_ttl_ms)},
    {"waited_ms", NUMBER, offsetof(struct history_call, got_waited_ms)},
    {"got_value", HEX, offsetof(struct history_call, got_value)},
    {"replayed", FLAG, offsetof(struct history_call, replayed)},
    {"tries", INT, offsetof(struct history_call, tries)},
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static void escape(const char *text, char *to, size_t size)
{
    size_t at = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p && at + 4 < size; p++) {
        if (*p > ' ' && *p != '%' && *p != '=' && *p != 0x7f)
            to[at++] = (char)*p;
        else
            at += (size_t)snprintf(to + at, size - at, "%%%02X", *p);
    }
    to[at] = '\0';
}

static bool unescape(const char *text, size_t len, char *to, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++, at++) {
        unsigned c = (unsigned char)text[i];
        if (c == '%' && (i + 2 >= len || sscanf(text + i + 1, "%2x", &c) != 1))
            return false;
        i += text[i] == '%' ? 2 : 0;
        if (at + 1 >= size)
            return false;
        to[at] = (char)c;
    }
    to[at] = '\0';
    return true;
}

/* The field as text; "" = left out. */
static void field_text(const struct history_call *call, int field, char *to, size_t size)
{
    const void *at = (const char *)call + fields[field].at;
    int64_t number;
    to[0] = '\0';
    switch (fields[field].kind) {
    case TEXT:
        escape(at, to, size);
        break;
    case OP:
        snprintf(to, size, "%s", op_names[call->op]);
        break;
    case ANSWER:
        snprintf(to, size, "%s", answer_names[call->answer]);
        break;
    case HEX:
        memcpy(&number, at, sizeof(number));
        if (number)
            snprintf(to, size, "%016" PRIx64, (uint64_t)number);
        break;
    case FLAG:
        if (*(const bool *)at)
            snprintf(to, size, "1");
        break;
    case INT:
        if (*(const int *)at || field == 0)
            snprintf(to, size, "%d", *(const int *)at);
        break;
    case NUMBER:
        memcpy(&number, at, sizeof(number));
        if (number)
            snprintf(to, size, "%" PRId64, number);
        break;
    }
}

bool history_format(const struct history_call *call, char *line, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < FIELDS; i++) {
        char text[3 * HISTORY_NAME + 8];
        field_text(call, i, text, sizeof(text));
        if (!text[0])
            continue;
        int n = snprintf(line + at, size - at, "%s%s=%s", at ? " " : "", fields[i].name, text);
        if (n < 0 || (size_t)n >= size - at)
            return false;
        at += (size_t)n;
    }
    return true;
}

static bool one_of(const char *const *names, int n, const char *text, size_t len, void *to)
{
    for (int i = 0; i < n; i++) {
        if (strlen(names[i]) == len && !strncmp(names[i], text, len)) {
            memcpy(to, &i, sizeof(i));
            return true;
        }
    }
    return false;
}

static bool parse_field(struct history_call *call, int field, const char *text, size_t len)
{
    void *to = (char *)call + fields[field].at;
    char *end;
    int64_t number;
    errno = 0;
    switch (fields[field].kind) {
    case TEXT:
        return unescape(text, len, to, HISTORY_NAME);
    case OP:
        return one_of(op_names, HISTORY_OPS, text, len, to);
    case ANSWER:
        return one_of(answer_names, 3, text, len, to);
    case HEX:
        number = (int64_t)strtoull(text, &end, 16);
        memcpy(to, &number, sizeof(number));
        break;
    case FLAG:
        *(bool *)to = strtol(text, &end, 10) != 0;
        break;
    case INT:
        *(int *)to = (int)strtol(text, &end, 10);
        break;
    default:
        number = strtoll(text, &end, 10);
        memcpy(to, &number, sizeof(number));
        break;
    }
    return len > 0 && errno == 0 && end == text + len;
}

bool history_parse(const char *line, struct history_call *call)
{
    bool has_op = false;
    memset(call, 0, sizeof(*call));
    for (const char *at = line + strspn(line, " "); *at && *at != '\n'; at += strspn(at, " ")) {
        size_t name = strcspn(at, "= \n"), len;
        int field = 0;
        while (field < FIELDS && (strlen(fields[field].name) != name || strncmp(fields[field].name, at, name) != 0))
            field++;
        if (field == FIELDS || at[name] != '=')
            return false;
        at += name + 1;
        len = strcspn(at, " \n");
        if (!parse_field(call, field, at, len))
            return false;
        has_op |= fields[field].kind == OP;
        at += len;
    }
    return has_op;
}

/* ------------------------------------------------------------------------------------------------ histories */

struct history *history_new(const char *path)
{
    struct history *history = calloc(1, sizeof(*history));
    if (!history)
        abort();
    pthread_mutex_init(&history->mutex, NULL);
    history->fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (path && history->fd < 0)
        abort();
    return history;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    if (history->fd >= 0)
        close(history->fd);
    pthread_mutex_destroy(&history->mutex);
    free(history->line_of);
    free(history->calls);
    free(history);
}

/* Room for one more; its number. */
static size_t add(struct history *history, const struct history_call *call)
{
    if (history->n == history->size) {
        history->size = history->size * 2 + 256;
        history->calls = realloc(history->calls, history->size * sizeof(history->calls[0]));
        history->line_of = realloc(history->line_of, history->size * sizeof(history->line_of[0]));
        if (!history->calls || !history->line_of)
            abort();
    }
    history->calls[history->n] = *call;
    history->line_of[history->n] = SIZE_MAX;
    return history->n++;
}

static void write_line(const struct history *history, size_t number)
{
    char line[LINE + 1];
    if (history->fd < 0)
        return;
    if (!history_format(&history->calls[number], line, LINE))
        abort(); /* LINE holds the longest */
    size_t len = strlen(line);
    memset(line + len, ' ', LINE - 1 - len);
    line[LINE - 1] = '\n';
    if (pwrite(history->fd, line, LINE, (off_t)(history->line_of[number] * LINE)) != LINE)
        abort();
}

size_t history_begin(struct history *history, const struct history_call *call)
{
    struct history_call begun = *call;
    begun.start_ns = history_now_ns();
    begun.end_ns = 0;
    begun.answer = HISTORY_UNKNOWN;
    pthread_mutex_lock(&history->mutex);
    size_t number = add(history, &begun);
    history->line_of[number] = history->n_lines++;
    write_line(history, number);
    pthread_mutex_unlock(&history->mutex);
    return number;
}

void history_end(struct history *history, size_t number, const struct history_call *call)
{
    int64_t end = history_now_ns();
    pthread_mutex_lock(&history->mutex);
    int64_t start = history->calls[number].start_ns;
    history->calls[number] = *call;
    history->calls[number].start_ns = start;
    history->calls[number].end_ns = end;
    write_line(history, number);
    pthread_mutex_unlock(&history->mutex);
}

size_t history_count(struct history *history)
{
    pthread_mutex_lock(&history->mutex);
    size_t n = history->n;
    pthread_mutex_unlock(&history->mutex);
    return n;
}

struct history_call history_get(struct history *history, size_t number)
{
    pthread_mutex_lock(&history->mutex);
    struct history_call call = history->calls[number];
    pthread_mutex_unlock(&history->mutex);
    return call;
}

static int by_start(const void *a, const void *b)
{
    int64_t left = ((const struct history_call *)a)->start_ns, right = ((const struct history_call *)b)->start_ns;
    return (left > right) - (left < right);
}

struct history_call *history_sorted(struct history *history, size_t *n)
{
    pthread_mutex_lock(&history->mutex);
    *n = history->n;
    struct history_call *copy = malloc((history->n + 1) * sizeof(*copy));
    if (!copy)
        abort();
    if (history->n)
        memcpy(copy, history->calls, history->n * sizeof(*copy));
    pthread_mutex_unlock(&history->mutex);
    qsort(copy, *n, sizeof(*copy), by_start);
    return copy;
}

bool history_load(struct history *history, const char *path, char *why, size_t why_size)
{
    FILE *file = fopen(path, "re");
    char line[2 * LINE];
    bool good = true;
    if (!file) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return false;
    }
    for (int number = 1; good && fgets(line, sizeof(line), file); number++) {
        struct history_call call;
        if (!line[strspn(line, " \n")])
            continue;
        good = strchr(line, '\n') && history_parse(line, &call);
        if (!good) {
            snprintf(why, why_size, "%s:%d: %.200s", path, number, line);
            break;
        }
        pthread_mutex_lock(&history->mutex);
        add(history, &call);
        pthread_mutex_unlock(&history->mutex);
    }
    fclose(file);
    return good;
}
