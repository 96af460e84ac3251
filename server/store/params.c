/*
 * params.c - see params.h. The array format is that of array_recv in PostgreSQL's arrayfuncs.c: dimensions, a flag for
 * NULLs, the element type, then length and lower bound, then each element with its length before it.
 */
#include "store/params.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

void st_params_reset(struct st_params *params)
{
    params->n = 0;
    params->failed = false;
}

void st_params_release(struct st_params *params)
{
    for (int i = 0; i < ST_PARAMS_MAX; i++)
        free(params->list[i].data);
    *params = (struct st_params){0};
}

/* Room for `len` more bytes at the end of the last parameter, or NULL. */
static char *extend(struct st_params *params, size_t len)
{
    if (params->failed)
        return NULL;
    struct st_param *param = &params->list[params->n - 1];
    /* PostgreSQL's own bound on a message is 1 GiB; lengths are int in libpq. */
    if (len > (size_t)INT_MAX / 2 || param->len > (size_t)INT_MAX / 2 - len) {
        params->failed = true;
        return NULL;
    }
    if (param->len + len > param->cap) {
        size_t cap = param->cap ? param->cap : 1024;
        while (cap < param->len + len)
            cap *= 2;
        char *data = realloc(param->data, cap);
        if (!data) {
            params->failed = true;
            return NULL;
        }
        param->data = data;
        param->cap = cap;
    }
    char *at = param->data + param->len;
    param->len += len;
    return at;
}

static void put32(char *at, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(at, &value, 4);
}

static void put16(char *at, uint16_t value)
{
    value = __builtin_bswap16(value);
    memcpy(at, &value, 2);
}

static void put64(char *at, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(at, &value, 8);
}

static void begin(struct st_params *params)
{
    if (params->n == ST_PARAMS_MAX) {
        params->failed = true;
        return;
    }
    struct st_param *param = &params->list[params->n++];
    param->len = 0;
    param->null = false;
}

void st_params_array(struct st_params *params, uint32_t oid, size_t n)
{
    begin(params);
    char *at = extend(params, 20);
    if (!at)
        return;
    put32(at, 1);     /* one dimension */
    put32(at + 4, 1); /* may hold NULLs */
    put32(at + 8, oid);
    put32(at + 12, (uint32_t)n);
    put32(at + 16, 1); /* lower bound */
}

void st_element_bytes(struct st_params *params, const void *data, size_t len)
{
    if (!data) {
        st_element_null(params);
        return;
    }
    char *at = extend(params, 4 + len);
    if (!at)
        return;
    put32(at, (uint32_t)len);
    memcpy(at + 4, data, len);
}

void st_element_text(struct st_params *params, const char *text)
{
    st_element_bytes(params, text, text ? strlen(text) : 0);
}

void st_element_null(struct st_params *params)
{
    char *at = extend(params, 4);
    if (at)
        put32(at, UINT32_MAX);
}

void st_element_int8(struct st_params *params, int64_t number)
{
    char *at = extend(params, 12);
    if (!at)
        return;
    put32(at, 8);
    put64(at + 4, (uint64_t)number);
}

void st_element_int4(struct st_params *params, int32_t number)
{
    char *at = extend(params, 8);
    if (!at)
        return;
    put32(at, 4);
    put32(at + 4, (uint32_t)number);
}

void st_element_int2(struct st_params *params, int16_t number)
{
    char *at = extend(params, 6);
    if (!at)
        return;
    put32(at, 2);
    put16(at + 4, (uint16_t)number);
}

void st_element_bool(struct st_params *params, bool value)
{
    char *at = extend(params, 5);
    if (!at)
        return;
    put32(at, 1);
    at[4] = value;
}

void st_params_bytes(struct st_params *params, struct st_bytes bytes)
{
    begin(params);
    /* One byte more, so that an empty one has an address: NULL means SQL's NULL to libpq. */
    char *at = extend(params, bytes.len + 1);
    if (!at)
        return;
    if (bytes.len)
        memcpy(at, bytes.data, bytes.len);
    at[bytes.len] = 0;
    struct st_param *param = &params->list[params->n - 1];
    param->len = bytes.len;
    param->null = !bytes.data;
}

void st_params_text(struct st_params *params, const char *text)
{
    st_params_bytes(params, (struct st_bytes){(const unsigned char *)text, text ? strlen(text) : 0});
}

void st_params_null(struct st_params *params)
{
    st_params_text(params, NULL);
}

void st_params_int8(struct st_params *params, int64_t number)
{
    begin(params);
    char *at = extend(params, 8);
    if (at)
        put64(at, (uint64_t)number);
}

void st_params_int4(struct st_params *params, int32_t number)
{
    begin(params);
    char *at = extend(params, 4);
    if (at)
        put32(at, (uint32_t)number);
}

void st_params_int2(struct st_params *params, int16_t number)
{
    begin(params);
    char *at = extend(params, 2);
    if (at)
        put16(at, (uint16_t)number);
}

void st_params_bool(struct st_params *params, bool value)
{
    begin(params);
    char *at = extend(params, 1);
    if (at)
        *at = value;
}

void st_params_view(const struct st_params *params, const char **values, int *lengths, int *formats)
{
    for (int i = 0; i < params->n; i++) {
        values[i] = params->list[i].null ? NULL : params->list[i].data;
        lengths[i] = (int)params->list[i].len;
        formats[i] = 1;
    }
}
