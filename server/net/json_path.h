/*
 * json_path.h - where a value stands in a text, and that it is refused. For json_read.c.
 */
#ifndef HOLDFAST_NET_JSON_PATH_H
#define HOLDFAST_NET_JSON_PATH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/c/buf.h"
#include "proto/c/err.h"

/* One step of the path to a value. */
struct json_step {
    const struct json_step *up;
    const char *name; /* of the field, or the map's key; NULL: an element */
    size_t index;
    bool key;
};

struct json_reading {
    struct hp_buf *out;
    struct hp_status *status;
    const char *root; /* the message's name */
};

/* Always false: the status is INVALID_ARGUMENT with this reason, and names the field by its path, its value (NULL: there is none to
 * show) and what is wanted. `at` NULL: the message itself. */
bool json_refuse(const struct json_reading *r, const struct json_step *at, enum hp_reason reason, const json_t *value,
                 const char *wanted);
bool json_malformed(const struct json_reading *r, const struct json_step *at, const json_t *value, const char *wanted);

#endif
