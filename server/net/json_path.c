/*
 * json_path.c - see json_path.h. No state.
 */
#include "net/json_path.h"

#include <stdlib.h>
#include <string.h>

#include "proto/c/wire.h"

enum { SHOWN_MAX = 128 };

static void add_steps(struct hp_buf *path, const struct json_step *step)
{
    const struct json_step *steps[4 * HP_WIRE_DEPTH];
    size_t n = 0;
    for (; step && n < sizeof(steps) / sizeof(steps[0]); step = step->up)
        steps[n++] = step;
    while (n-- > 0) {
        if (!steps[n]->name)
            hp_buf_printf(path, "[%zu]", steps[n]->index);
        else if (steps[n]->key)
            hp_buf_printf(path, "[\"%s\"]", steps[n]->name);
        else
            hp_buf_printf(path, "%s%s", path->len ? "." : "", steps[n]->name);
    }
}

bool json_refuse(const struct json_reading *r, const struct json_step *at, enum hp_reason reason, const json_t *value,
                 const char *wanted)
{
    struct hp_buf path = HP_BUF_INIT;
    const char *shown = NULL;
    size_t len = 0;
    char *text = NULL;
    if (json_is_string(value)) {
        shown = json_string_value(value);
        len = json_string_length(value);
    } else if (value && !json_is_object(value) && !json_is_array(value)) {
        text = json_dumps(value, JSON_ENCODE_ANY);
        shown = text;
        len = text ? strlen(text) : 0;
    }
    add_steps(&path, at);
    hp_status_bad_field(r->status, reason, path.len ? (const char *)path.data : r->root, shown, len < SHOWN_MAX ? len : SHOWN_MAX,
                        wanted);
    hp_buf_release(&path);
    free(text);
    return false;
}

bool json_malformed(const struct json_reading *r, const struct json_step *at, const json_t *value, const char *wanted)
{
    return json_refuse(r, at, HP_R_MALFORMED, value, wanted);
}
