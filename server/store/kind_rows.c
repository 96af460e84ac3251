/*
 * kind_rows.c - see kind_io.h: what is answered by rows of their own: leases and lists. And the memory of such rows, which goes
 * with the call.
 */
#include <stdlib.h>
#include <string.h>

#include "store/kind_io.h"
#include "store/rows.h"

/* ------------------------------------------------------------------------------------------------ memory of rows */

struct chunk {
    struct chunk *next;
};

void *st_call_alloc(struct st_call *call, size_t size)
{
    struct chunk *chunk = calloc(1, sizeof(*chunk) + size);
    if (!chunk)
        return NULL;
    chunk->next = call->scratch;
    call->scratch = chunk;
    return chunk + 1;
}

void st_call_release(struct st_call *call)
{
    while (call->scratch) {
        struct chunk *chunk = call->scratch;
        call->scratch = chunk->next;
        free(chunk);
    }
}

void st_rows_no_memory(struct st_item *item)
{
    item->outcome = st_kinds[item->kind].writes ? ST_OUTCOME_LOST : ST_QUEUE_FULL;
}

/* ------------------------------------------------------------------------------------------------ leases */

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

/* The next element of a text[] at *at, at most up to `end`: its length, or -1 if it makes no sense. NULL reads as "". */
static int64_t next_element(const unsigned char **at, const unsigned char *end)
{
    if (end - *at < 4)
        return -1;
    uint32_t len = get32(*at);
    *at += 4;
    if (len == UINT32_MAX)
        return 0;
    return len > (uint64_t)(end - *at) ? -1 : (int64_t)len;
}

/* Texts of an array have no NUL, so they are copied. */
bool st_read_texts(const PGresult *res, int row, int col, struct st_call *call, const char *const **texts, size_t *n)
{
    const unsigned char *at = (const unsigned char *)PQgetvalue(res, row, col);
    const unsigned char *end = at + PQgetlength(res, row, col);
    *texts = NULL;
    *n = 0;
    if (PQgetisnull(res, row, col) || end - at < 20 || get32(at) != 1 || get32(at + 8) != ST_OID_TEXT)
        return true;
    size_t count = get32(at + 12);
    if (count == 0 || count > (size_t)(end - at))
        return true;
    const char **list = st_call_alloc(call, count * sizeof(*list));
    char *text = st_call_alloc(call, (size_t)(end - at) + count);
    if (!list || !text)
        return false;
    at += 20;
    for (size_t i = 0; i < count; i++) {
        int64_t len = next_element(&at, end);
        if (len < 0)
            return true; /* cut short: nothing rather than something wrong */
        list[i] = text;
        memcpy(text, at, (size_t)len);
        text += len + 1;
        at += len;
    }
    *texts = list;
    *n = count;
    return true;
}

/* text[] name, value, name, value, … into a lease row. */
static bool read_labels(const PGresult *res, int row, int col, struct st_lease_row *out, struct st_call *call)
{
    const char *const *texts;
    size_t n;
    out->labels = NULL;
    out->n_labels = 0;
    if (!st_read_texts(res, row, col, call, &texts, &n))
        return false;
    if (n < 2)
        return true;
    struct st_label *labels = st_call_alloc(call, n / 2 * sizeof(*labels));
    if (!labels)
        return false;
    for (size_t i = 0; i < n / 2; i++)
        labels[i] = (struct st_label){texts[2 * i], texts[2 * i + 1]};
    out->labels = labels;
    out->n_labels = n / 2;
    return true;
}

/* Columns from `col` on: resource, task, holder, request_id, token, fence, remaining, granted, state, labels. */
static bool read_lease_row(const PGresult *res, int row, int col, struct st_lease_row *out, struct st_call *call)
{
    out->resource = st_get_text(res, row, col);
    out->task = st_get_text(res, row, col + 1);
    out->holder = st_get_text(res, row, col + 2);
    out->request_id = st_get_text(res, row, col + 3);
    out->token = st_get_int8(res, row, col + 4);
    out->fence = st_get_int8(res, row, col + 5);
    out->remaining_ms = st_get_int8(res, row, col + 6);
    out->granted_unix_ms = st_get_int8(res, row, col + 7);
    out->state = (enum st_lease_state)st_get_int2(res, row, col + 8);
    return read_labels(res, row, col + 9, out, call);
}

void st_read_get(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    item->out.leases.rows = NULL;
    item->out.leases.n = 0;
    item->out.leases.more = false;
    if (item->outcome != ST_FOUND)
        return;
    struct st_lease_row *lease = st_call_alloc(call, sizeof(*lease));
    if (!lease || !read_lease_row(res, row, 2, lease, call)) {
        st_rows_no_memory(item);
        return;
    }
    item->out.leases.rows = lease;
    item->out.leases.n = 1;
}

/* ------------------------------------------------------------------------------------------------ lists */

int32_t st_page(int64_t max)
{
    return max < 1 ? 1 : max > 10000 ? 10000 : (int32_t)max;
}

void st_build_list_leases(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.list.prefix ? item->in.list.prefix : "");
    st_params_text(params, item->in.list.task ? item->in.list.task : "");
    st_params_text(params, item->in.list.holder ? item->in.list.holder : "");
    st_params_text(params, item->in.list.after ? item->in.list.after : "");
    st_params_int4(params, st_page(item->in.list.max));
}

void st_build_list_resources(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.list.prefix ? item->in.list.prefix : "");
    st_params_text(params, item->in.list.after ? item->in.list.after : "");
    st_params_int4(params, st_page(item->in.list.max));
}

void *st_list_rows(const PGresult *res, struct st_item *item, struct st_call *call, int64_t asked, size_t size, size_t *n,
                   bool *more)
{
    size_t got = (size_t)PQntuples(res), max = (size_t)st_page(asked);
    item->outcome = ST_FOUND;
    *n = 0;
    *more = false;
    if (got == 1 && st_get_int2(res, 0, 0) == ST_NO_SUCH_NAMESPACE)
        item->outcome = ST_NO_SUCH_NAMESPACE;
    if (got == 0 || item->outcome != ST_FOUND)
        return NULL;
    void *rows = st_call_alloc(call, (got > max ? max : got) * size);
    if (!rows) {
        st_rows_no_memory(item);
        return NULL;
    }
    *n = got > max ? max : got;
    *more = got > max;
    return rows;
}

bool st_read_list_leases(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    struct st_lease_row *rows = st_list_rows(res, item, call, item->in.list.max, sizeof(*rows), &n, &item->out.leases.more);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = read_lease_row(res, (int)i, 1, &rows[i], call);
    if (!ok)
        st_rows_no_memory(item);
    item->out.leases.rows = rows;
    item->out.leases.n = n;
    return true;
}

bool st_read_list_resources(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    struct st_resource_row *rows = st_list_rows(res, item, call, item->in.list.max, sizeof(*rows), &n, &item->out.resources.more);
    for (int i = 0; i < (int)n; i++) {
        rows[i].resource = st_get_text(res, i, 1);
        rows[i].fence = st_get_int8(res, i, 2);
        rows[i].version = st_get_int8(res, i, 3);
        rows[i].value_bytes = st_get_int8(res, i, 4);
        rows[i].exists = st_get_bool(res, i, 5);
        rows[i].leased = st_get_bool(res, i, 6);
    }
    item->out.resources.rows = rows;
    item->out.resources.n = n;
    return true;
}
