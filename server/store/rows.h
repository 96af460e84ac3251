/*
 * rows.h - values out of a PGresult in binary format. The column's type has been checked before; SQL's NULL reads as 0, ""
 * or no bytes.
 */
#ifndef HOLDFAST_STORE_ROWS_H
#define HOLDFAST_STORE_ROWS_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "store/store.h"

static inline int64_t st_get_int8(const PGresult *res, int row, int col)
{
    uint64_t value;
    if (PQgetlength(res, row, col) != 8)
        return 0;
    memcpy(&value, PQgetvalue(res, row, col), 8);
    return (int64_t)__builtin_bswap64(value);
}

static inline int32_t st_get_int4(const PGresult *res, int row, int col)
{
    uint32_t value;
    if (PQgetlength(res, row, col) != 4)
        return 0;
    memcpy(&value, PQgetvalue(res, row, col), 4);
    return (int32_t)__builtin_bswap32(value);
}

static inline int st_get_int2(const PGresult *res, int row, int col)
{
    uint16_t value;
    if (PQgetlength(res, row, col) != 2)
        return 0;
    memcpy(&value, PQgetvalue(res, row, col), 2);
    return (int16_t)__builtin_bswap16(value);
}

static inline bool st_get_bool(const PGresult *res, int row, int col)
{
    return PQgetlength(res, row, col) == 1 && *PQgetvalue(res, row, col) != 0;
}

/* Valid as long as the result. */
static inline const char *st_get_text(const PGresult *res, int row, int col)
{
    return PQgetvalue(res, row, col);
}

static inline struct st_bytes st_get_bytes(const PGresult *res, int row, int col)
{
    if (PQgetisnull(res, row, col))
        return (struct st_bytes){0};
    return (struct st_bytes){.data = (const unsigned char *)PQgetvalue(res, row, col), .len = (size_t)PQgetlength(res, row, col)};
}

#endif
