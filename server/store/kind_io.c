/*
 * kind_io.c - see kind_io.h. Builders follow the order of the statement's parameters, readers that of its columns.
 */
#include "store/kind_io.h"

#include <string.h>

#include "store/rows.h"

enum { ASKED_WEIGHT = 16 << 10 };

/* ------------------------------------------------------------------------------------------------ shared builders */

void st_build_keys(struct st_params *params, const struct st_call *call)
{
    st_params_array(params, ST_OID_TEXT, call->n);
    for (size_t i = 0; i < call->n; i++)
        st_element_text(params, call->items[i]->ns);
    st_params_array(params, ST_OID_TEXT, call->n);
    for (size_t i = 0; i < call->n; i++)
        st_element_text(params, call->items[i]->resource);
}

/* ------------------------------------------------------------------------------------------------ acquire */

/* They were told when the item was submitted: what has passed since is added. */
static int64_t waited(const struct st_call *call, const struct st_item *item, int64_t waited_ms)
{
    return waited_ms + call->sent_ms - item->submitted_ms;
}

static int64_t still_waits(const struct st_call *call, const struct st_item *item, int64_t wait_ms)
{
    int64_t left = wait_ms - (call->sent_ms - item->submitted_ms);
    return left > 0 ? left : 0;
}

/* Who waits, and who would still wait; most batches have nobody, and then the arrays are NULL. */
static void build_waiting(struct st_params *params, const struct st_call *call)
{
    bool queued = false, waits = false, next = false;
    for (size_t i = 0; i < call->n; i++) {
        queued = queued || call->items[i]->in.acquire.queued;
        waits = waits || call->items[i]->in.acquire.wait_ms > 0;
        next = next || call->items[i]->in.acquire.next_wait_ms > 0;
    }
    st_params_text(params, call->server);
    if (queued)
        ST_BUILD_ARRAY(ST_OID_BOOL, st_element_bool, !item->in.acquire.queued);
    else
        st_params_null(params);
    if (waits) {
        ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, waited(call, item, item->in.acquire.waited_ms));
        ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, still_waits(call, item, item->in.acquire.wait_ms));
    } else {
        st_params_null(params);
        st_params_null(params);
    }
    if (next) {
        ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, waited(call, item, item->in.acquire.next_waited_ms));
        ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, still_waits(call, item, item->in.acquire.next_wait_ms));
    } else {
        st_params_null(params);
        st_params_null(params);
    }
}

void st_build_acquire(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.task);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.holder);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.acquire.ttl_ms);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.request_id);
    ST_BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.labels_json);
    build_waiting(params, call);
}

void st_tell_next(struct st_call *call, const char *server, const char *ns, const char *resource)
{
    if (server[0] && call->next)
        call->next(call->store, server, ns, resource);
}

static void read_acquire(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    item->out.acquire.token = st_get_int8(res, row, 2);
    item->out.acquire.ttl_ms = st_get_int8(res, row, 3);
    item->out.acquire.holder = st_get_text(res, row, 4);
    item->out.acquire.task = st_get_text(res, row, 5);
    item->out.acquire.remaining_ms = st_get_int8(res, row, 6);
    item->out.acquire.max_waiters = st_get_int8(res, row, 8);
    item->out.acquire.granted_at_ms = call->sent_ms;
    item->out.acquire.which = 0;
    item->out.acquire.limit = item->out.acquire.min_ttl_ms = item->out.acquire.ttl_ms;
    item->out.acquire.max_ttl_ms = item->out.acquire.remaining_ms;
}

void st_read_acquire(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    read_acquire(res, row, item, call);
    st_tell_next(call, st_get_text(res, row, 7), item->ns, item->resource);
}

/* order[k] is the caller's index of the resource that SQL sees in place k. */
static void sort_resources(const struct st_item *item, unsigned char order[ST_MAX_RESOURCES])
{
    const char *const *names = item->in.acquire.resources;
    for (size_t i = 0; i < item->in.acquire.n_resources; i++) {
        size_t at = i;
        for (; at > 0 && strcmp(names[order[at - 1]], names[i]) > 0; at--)
            order[at] = order[at - 1];
        order[at] = (unsigned char)i;
    }
}

void st_build_acquire_all(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    size_t n = item->in.acquire.n_resources;
    unsigned char order[ST_MAX_RESOURCES] = {0};
    sort_resources(item, order);
    st_params_text(params, item->ns);
    st_params_array(params, ST_OID_TEXT, n);
    for (size_t i = 0; i < n; i++)
        st_element_text(params, item->in.acquire.resources[order[i]]);
    st_params_text(params, item->in.acquire.task);
    st_params_text(params, item->in.acquire.holder);
    st_params_int8(params, item->in.acquire.ttl_ms);
    st_params_text(params, item->in.acquire.request_id);
    st_params_text(params, item->in.acquire.labels_json);
    st_params_text(params, call->server);
    if (!item->in.acquire.queued_each) {
        st_params_null(params);
        return;
    }
    st_params_array(params, ST_OID_BOOL, n);
    for (size_t i = 0; i < n; i++)
        st_element_bool(params, !item->in.acquire.queued_each[order[i]]);
}

/* Every resource once, all granted or all repeated. */
static bool read_all_granted(const PGresult *res, struct st_item *item, struct st_call *call, const unsigned char *order)
{
    size_t n = item->in.acquire.n_resources;
    bool seen[ST_MAX_RESOURCES] = {false};
    item->out.acquire.ttl_ms = INT64_MAX;
    for (int row = 0; row < (int)n; row++) {
        int32_t i = st_get_int4(res, row, 0);
        if (i < 1 || (size_t)i > n || seen[i - 1] || st_get_int2(res, row, 1) != (int)item->outcome)
            return false;
        seen[i - 1] = true;
        int64_t ttl = st_get_int8(res, row, 3);
        if (ttl < item->out.acquire.ttl_ms)
            item->out.acquire.ttl_ms = ttl;
        item->out.acquire.tokens[order[i - 1]] = st_get_int8(res, row, 2);
    }
    item->out.acquire.token = item->out.acquire.tokens[0];
    item->out.acquire.granted_at_ms = call->sent_ms;
    return true;
}

bool st_read_acquire_all(const PGresult *res, struct st_item *item, struct st_call *call)
{
    int rows = PQntuples(res);
    size_t n = item->in.acquire.n_resources;
    if (rows < 1)
        return false;
    unsigned char order[ST_MAX_RESOURCES] = {0};
    sort_resources(item, order);
    item->outcome = (enum st_outcome)st_get_int2(res, 0, 1);
    if (item->outcome == ST_GRANTED || item->outcome == ST_REPEATED)
        return (size_t)rows == n && read_all_granted(res, item, call, order);
    int32_t i = st_get_int4(res, 0, 0);
    if (rows != 1 || i < 1 || (size_t)i > n)
        return false;
    read_acquire(res, 0, item, call);
    item->out.acquire.which = order[i - 1];
    st_tell_next(call, st_get_text(res, 0, 7), item->ns, item->in.acquire.resources[order[i - 1]]);
    return true;
}

/* ------------------------------------------------------------------------------------------------ renew, release, check */

void st_build_renew(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.renew.token);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.renew.ttl_ms);
    st_params_bool(params, call->careful);
}

void st_read_renew(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.renew.ttl_ms = st_get_int8(res, row, 2);
}

void st_build_release(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.release.token);
    /* Never NULL: that is a server that doesn't know of turns. */
    ST_BUILD_ARRAY(ST_OID_BOOL, st_element_bool, item->in.release.unless_repeated);
}

void st_build_leave(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    st_params_text(params, call->server);
}

void st_read_turn(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    st_tell_next(call, st_get_text(res, row, 2), item->ns, item->resource);
}

void st_build_check(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.check.token);
}

void st_read_check(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.check.fence = st_get_int8(res, row, 2);
    item->out.check.remaining_ms = st_get_int8(res, row, 3);
}

/* ------------------------------------------------------------------------------------------------ values */

size_t st_weigh_write(const struct st_item *item)
{
    return item->in.write.value.len;
}

/* What it will bring isn't known before: so many go together that looking for them all takes but a few milliseconds. */
size_t st_weigh_asked(const struct st_item *item)
{
    (void)item;
    return ASKED_WEIGHT;
}

/* Keys, and how large the values may be. */
void st_build_asked(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    st_params_int4(params, call->max_value_bytes);
}

bool st_read_later(struct st_item *item, int64_t bytes)
{
    enum { MOST = 1 << 30 };
    if (item->outcome != ST_VALUE_LATER)
        return false;
    item->queued.bytes = bytes < 1 ? 1 : bytes > MOST ? MOST : (size_t)bytes;
    return true;
}

void st_build_write(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.write.token);
    ST_BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.write.write_seq);
    ST_BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.write.value.data, item->in.write.value.len);
    st_params_array(params, ST_OID_INT8, call->n);
    for (size_t i = 0; i < call->n; i++) {
        if (call->items[i]->in.write.expects)
            st_element_int8(params, call->items[i]->in.write.expected_version);
        else
            st_element_null(params);
    }
}

void st_read_write(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.write.version = item->out.write.limit = st_get_int8(res, row, 2);
    item->out.write.fence = st_get_int8(res, row, 3);
    item->out.write.write_seq = st_get_int8(res, row, 4);
}

void st_read_read(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    if (st_read_later(item, st_get_int8(res, row, 4)))
        return;
    item->out.read.value = st_get_bytes(res, row, 2);
    call->value_bytes += item->out.read.value.len;
    item->out.read.exists = st_get_bool(res, row, 3);
    item->out.read.version = st_get_int8(res, row, 4);
    item->out.read.fence = st_get_int8(res, row, 5);
    item->out.read.token = st_get_int8(res, row, 6);
    item->out.read.updated_unix_ms = st_get_int8(res, row, 7);
}
