/*
 * log.h - the process's log: one line an event, with key=value fields.
 *
 *     log_warn("store.batch_split", log_str("kind", "acquire"), log_int("items", 64), log_str("sqlstate", "55P03"));
 *     → time=2026-01-31T12:00:00.123Z level=warn event=store.batch_split kind=acquire items=64 sqlstate=55P03
 *
 * An event's name is stable and dotted: room.what_happened. Secrets never go in: no keys, no DSNs, no values. Only the
 * loop's thread may call it (and main before the loop runs): the settings and the line buffer are shared. Writing to stderr
 * may block if its reader doesn't read.
 */
#ifndef HOLDFAST_BASE_LOG_H
#define HOLDFAST_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_AT_DEBUG, LOG_AT_INFO, LOG_AT_WARN, LOG_AT_ERROR, LOG_AT_NONE };
enum log_format { LOG_AS_LOGFMT, LOG_AS_JSON };

struct log_field {
    const char *name; /* NULL: passed over */
    enum { LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_BOOL } type;
    const char *text;
    int64_t number;
};

static inline struct log_field log_str(const char *name, const char *text)
{
    return (struct log_field){.name = name, .type = LOG_FIELD_TEXT, .text = text ? text : ""};
}

static inline struct log_field log_int(const char *name, int64_t number)
{
    return (struct log_field){.name = name, .type = LOG_FIELD_INT, .number = number};
}

static inline struct log_field log_bool(const char *name, bool value)
{
    return (struct log_field){.name = name, .type = LOG_FIELD_BOOL, .number = value};
}

/* Gets each line with its newline; `len` counts the newline. */
typedef void (*log_sink_fn)(void *arg, enum log_level level, const char *line, size_t len);

/* From now on events of at least `level` are written in `format` to `sink`; NULL = stderr, a write(2) a line. */
void log_setup(enum log_level level, enum log_format format, log_sink_fn sink, void *arg);
/* "debug", "info", "warn", "error", "none". False: no such level, `out` untouched. */
bool log_level_parse(const char *text, enum log_level *out) __attribute__((warn_unused_result));
/* "logfmt", "json". False: no such format, `out` untouched. */
bool log_format_parse(const char *text, enum log_format *out) __attribute__((warn_unused_result));
bool log_enabled(enum log_level level);

/* One event. Text is escaped; a line too long for the buffer (8 KiB) is cut within its last text, never left open. */
void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

#define log_event(level, event, ...)                                                                                               \
    do {                                                                                                                           \
        if (log_enabled(level)) {                                                                                                  \
            const struct log_field log_fields_[] = {{0}, ##__VA_ARGS__};                                                           \
            log_write(level, event, log_fields_, sizeof(log_fields_) / sizeof(log_fields_[0]));                                    \
        }                                                                                                                          \
    } while (0)
#define log_debug(event, ...) log_event(LOG_AT_DEBUG, event, ##__VA_ARGS__)
#define log_info(event, ...)  log_event(LOG_AT_INFO, event, ##__VA_ARGS__)
#define log_warn(event, ...)  log_event(LOG_AT_WARN, event, ##__VA_ARGS__)
#define log_error(event, ...) log_event(LOG_AT_ERROR, event, ##__VA_ARGS__)

#endif
