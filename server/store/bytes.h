/*
 * bytes.h - bytes somewhere else, as items carry them.
 */
#ifndef HOLDFAST_STORE_BYTES_H
#define HOLDFAST_STORE_BYTES_H

#include <stddef.h>

struct st_bytes {
    const unsigned char *data; /* NULL = SQL's NULL */
    size_t len;
};

#endif
