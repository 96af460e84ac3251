/*
 * conf_file.h - the text of a configuration file: bytes in, names and values out. No I/O, and no knowledge of the settings.
 *
 *     # Comments stand on lines of their own,
 *     connections = 8            # or behind a blank.
 *     dsn = host=/run/postgresql dbname=holdfast user=holdfast
 *     data-dir = "/srv/hold # fast"
 *
 * A line is `name = value`. A name is that of a flag without its dashes, spelled exactly so (data-dir, not data_dir), and
 * stands at most once in a file. A value goes to the end of its line, or to the first '#' behind a blank; blanks around it
 * don't count. One that begins with a double quote goes to the next one instead and is taken as it stands between the two:
 * there are no escapes. Everything is UTF-8 without control characters; CR LF and a byte order mark are put up with.
 */
#ifndef HOLDFAST_APP_CONF_FILE_H
#define HOLDFAST_APP_CONF_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    CONF_FILE_MAX = 64 * 1024, /* bytes of a file */
    CONF_LINE_MAX = 4096,      /* bytes of a line without its end */
    CONF_NAME_MAX = 64,
    CONF_ENTRIES_MAX = 256
};

struct conf_entry {
    const char *name, *value; /* never empty */
    unsigned line;            /* from 1 */
};

struct conf_file {
    struct conf_entry *entries; /* in the file's order, each name once */
    size_t n;
    char *text; /* what they point into */
};

struct conf_error {
    unsigned line; /* 0: the file as a whole */
    char text[256];
};

/*
 * `out` holds what the `len` bytes at `data` say; release with conf_release. False: `error` says in which line what is wrong
 * (syntax, encoding, a name that stands there twice, one of the limits above, or no memory), and `out` holds nothing.
 */
bool conf_parse(const char *data, size_t len, struct conf_file *out, struct conf_error *error) __attribute__((warn_unused_result));

/* Safe on a zeroed one, and twice. */
void conf_release(struct conf_file *file);

#endif
