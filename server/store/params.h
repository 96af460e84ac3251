/*
 * params.h - the parameters of one statement in PostgreSQL's binary format, arrays above all.
 *
 * One `struct st_params` serves one connection: its memory is kept from batch to batch. A failed addition (no memory)
 * marks it as failed; later ones do nothing, so that a builder checks once, at its end.
 */
#ifndef HOLDFAST_STORE_PARAMS_H
#define HOLDFAST_STORE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/bytes.h"

enum { ST_PARAMS_MAX = 16 };

/* The types of array elements and columns: catalog/pg_type.dat. */
enum { ST_OID_BOOL = 16, ST_OID_BYTEA = 17, ST_OID_INT8 = 20, ST_OID_INT2 = 21, ST_OID_INT4 = 23, ST_OID_TEXT = 25 };
enum { ST_OID_TEXT_ARRAY = 1009 };

struct st_param {
    char *data;
    size_t len, cap;
    bool null;
};

struct st_params {
    struct st_param list[ST_PARAMS_MAX];
    int n;
    bool failed;
};

/* No parameters; memory is kept. */
void st_params_reset(struct st_params *params);
void st_params_release(struct st_params *params);

/* The next parameter is an array of `n` elements of this type; exactly n element calls follow, and no other in between. */
void st_params_array(struct st_params *params, uint32_t oid, size_t n);
void st_element_text(struct st_params *params, const char *text); /* NULL = SQL's NULL */
void st_element_int8(struct st_params *params, int64_t number);
void st_element_int4(struct st_params *params, int32_t number);
void st_element_int2(struct st_params *params, int16_t number);
void st_element_bytes(struct st_params *params, const void *data, size_t len); /* data NULL = SQL's NULL */
void st_element_bool(struct st_params *params, bool value);
void st_element_null(struct st_params *params);

/* The next parameter is this value. */
void st_params_text(struct st_params *params, const char *text); /* NULL = SQL's NULL */
void st_params_int8(struct st_params *params, int64_t number);
void st_params_int4(struct st_params *params, int32_t number);
void st_params_int2(struct st_params *params, int16_t number);
void st_params_bytes(struct st_params *params, struct st_bytes bytes); /* data NULL = SQL's NULL */
/* SQL's NULL, of whatever type. */
void st_params_null(struct st_params *params);
void st_params_bool(struct st_params *params, bool value);

/* What PQsendQueryPrepared takes, for all parameters. The values stay valid until the next reset. */
void st_params_view(const struct st_params *params, const char **values, int *lengths, int *formats);

#endif
