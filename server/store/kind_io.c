/*
 * kind_io.c - see kind_io.h. Builders follow the order of the statement's parameters, readers that of its columns.
 */
#include "store/kind_io.h"

#include <stdlib.h>
#include <string.h>

#include "store/rows.h"

/* ------------------------------------------------------------------------------------------------ memory of rows */

struct chunk {
    struct chunk *next;
};

/* Zeroed memory that goes with the call, or NULL. */
static void *call_alloc(struct st_call *call, size_t size)
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

static void no_memory(struct st_item *item)
{
    item->outcome = ST_FAILED;
    memcpy(item->sqlstate, "53200", 6);
}

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

/* One array parameter of `call->n` elements; `item` is each of them in turn. */
#define BUILD_ARRAY(oid, element, ...)                                                                                             \
    do {                                                                                                                           \
        st_params_array(params, oid, call->n);                                                                                     \
        for (size_t i_ = 0; i_ < call->n; i_++) {                                                                                  \
            const struct st_item *item = call->items[i_];                                                                          \
            element(params, __VA_ARGS__);                                                                                          \
        }                                                                                                                          \
    } while (0)

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
        BUILD_ARRAY(ST_OID_BOOL, st_element_bool, !item->in.acquire.queued);
    else
        st_params_null(params);
    if (waits) {
        BUILD_ARRAY(ST_OID_INT8, st_element_int8, waited(call, item, item->in.acquire.waited_ms));
        BUILD_ARRAY(ST_OID_INT8, st_element_int8, still_waits(call, item, item->in.acquire.wait_ms));
    } else {
        st_params_null(params);
        st_params_null(params);
    }
    if (next) {
        BUILD_ARRAY(ST_OID_INT8, st_element_int8, waited(call, item, item->in.acquire.next_waited_ms));
        BUILD_ARRAY(ST_OID_INT8, st_element_int8, still_waits(call, item, item->in.acquire.next_wait_ms));
    } else {
        st_params_null(params);
        st_params_null(params);
    }
}

void st_build_acquire(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.task);
    BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.holder);
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.acquire.ttl_ms);
    BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.request_id);
    BUILD_ARRAY(ST_OID_TEXT, st_element_text, item->in.acquire.labels_json);
    build_waiting(params, call);
}

/* A server that has got the turn by this is to be told. */
static void tell_next(struct st_call *call, const char *server, const char *ns, const char *resource)
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
    tell_next(call, st_get_text(res, row, 7), item->ns, item->resource);
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
    tell_next(call, st_get_text(res, 0, 7), item->ns, item->in.acquire.resources[order[i - 1]]);
    return true;
}

/* ------------------------------------------------------------------------------------------------ renew, release, check */

void st_build_renew(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.renew.token);
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.renew.ttl_ms);
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
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.release.token);
    /* Never NULL: that is a server that doesn't know of turns. */
    BUILD_ARRAY(ST_OID_BOOL, st_element_bool, item->in.release.unless_repeated);
}

void st_build_leave(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    st_params_text(params, call->server);
}

void st_read_turn(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    tell_next(call, st_get_text(res, row, 2), item->ns, item->resource);
}

void st_build_check(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.check.token);
}

void st_read_check(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.check.fence = st_get_int8(res, row, 2);
    item->out.check.remaining_ms = st_get_int8(res, row, 3);
}

/* ------------------------------------------------------------------------------------------------ values */

void st_build_write(struct st_params *params, const struct st_call *call)
{
    st_build_keys(params, call);
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.write.token);
    BUILD_ARRAY(ST_OID_INT8, st_element_int8, item->in.write.write_seq);
    BUILD_ARRAY(ST_OID_BYTEA, st_element_bytes, item->in.write.value.data, item->in.write.value.len);
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
    (void)call;
    item->out.read.value = st_get_bytes(res, row, 2);
    item->out.read.exists = st_get_bool(res, row, 3);
    item->out.read.version = st_get_int8(res, row, 4);
    item->out.read.fence = st_get_int8(res, row, 5);
    item->out.read.token = st_get_int8(res, row, 6);
    item->out.read.updated_unix_ms = st_get_int8(res, row, 7);
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

/* text[] name, value, name, value, … into a lease row. Texts of an array have no NUL, so they are copied. */
static bool read_labels(const PGresult *res, int row, int col, struct st_lease_row *out, struct st_call *call)
{
    const unsigned char *at = (const unsigned char *)PQgetvalue(res, row, col);
    const unsigned char *end = at + PQgetlength(res, row, col);
    out->labels = NULL;
    out->n_labels = 0;
    if (PQgetisnull(res, row, col) || end - at < 20 || get32(at) != 1 || get32(at + 8) != ST_OID_TEXT)
        return true;
    size_t n = get32(at + 12) / 2;
    if (n == 0 || n > (size_t)(end - at))
        return true;
    struct st_label *labels = call_alloc(call, n * sizeof(*labels));
    char *text = call_alloc(call, (size_t)(end - at) + 2 * n);
    if (!labels || !text)
        return false;
    at += 20;
    for (size_t i = 0; i < 2 * n; i++) {
        int64_t len = next_element(&at, end);
        if (len < 0)
            return true; /* cut short: no labels rather than wrong ones */
        *(i % 2 ? &labels[i / 2].value : &labels[i / 2].name) = text;
        memcpy(text, at, (size_t)len);
        text += len + 1;
        at += len;
    }
    out->labels = labels;
    out->n_labels = n;
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
    struct st_lease_row *lease = call_alloc(call, sizeof(*lease));
    if (!lease || !read_lease_row(res, row, 2, lease, call)) {
        no_memory(item);
        return;
    }
    item->out.leases.rows = lease;
    item->out.leases.n = 1;
}

/* ------------------------------------------------------------------------------------------------ lists */

static int32_t page(int64_t max)
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
    st_params_int4(params, page(item->in.list.max));
}

void st_build_list_resources(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.list.prefix ? item->in.list.prefix : "");
    st_params_text(params, item->in.list.after ? item->in.list.after : "");
    st_params_int4(params, page(item->in.list.max));
}

/* How many of the rows are the caller's; SQL sends one more than asked for if there are more. False: no list. */
static bool list_begin(const PGresult *res, struct st_item *item, int64_t asked, size_t *n, bool *more)
{
    size_t rows = (size_t)PQntuples(res), max = (size_t)page(asked);
    item->outcome = ST_FOUND;
    *n = 0;
    *more = false;
    if (rows == 1 && st_get_int2(res, 0, 0) == ST_NO_SUCH_NAMESPACE) {
        item->outcome = ST_NO_SUCH_NAMESPACE;
        return false;
    }
    *n = rows > max ? max : rows;
    *more = rows > max;
    return rows > 0;
}

bool st_read_list_leases(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    item->out.leases.rows = NULL;
    if (!list_begin(res, item, item->in.list.max, &item->out.leases.n, &item->out.leases.more))
        return true;
    n = item->out.leases.n;
    struct st_lease_row *rows = call_alloc(call, n * sizeof(*rows));
    bool ok = rows != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = read_lease_row(res, (int)i, 1, &rows[i], call);
    if (!ok)
        no_memory(item);
    item->out.leases.rows = rows;
    return true;
}

bool st_read_list_resources(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    item->out.resources.rows = NULL;
    if (!list_begin(res, item, item->in.list.max, &item->out.resources.n, &item->out.resources.more))
        return true;
    n = item->out.resources.n;
    struct st_resource_row *rows = call_alloc(call, n * sizeof(*rows));
    if (!rows) {
        no_memory(item);
        return true;
    }
    for (int i = 0; i < (int)n; i++) {
        rows[i].resource = st_get_text(res, i, 1);
        rows[i].fence = st_get_int8(res, i, 2);
        rows[i].version = st_get_int8(res, i, 3);
        rows[i].value_bytes = st_get_int8(res, i, 4);
        rows[i].exists = st_get_bool(res, i, 5);
        rows[i].leased = st_get_bool(res, i, 6);
    }
    item->out.resources.rows = rows;
    return true;
}

/* ------------------------------------------------------------------------------------------------ operators' calls */

void st_build_break(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->resource);
    st_params_int8(params, item->in.brk.token_seen);
    st_params_text(params, item->in.brk.actor);
    st_params_text(params, item->in.brk.reason);
}

void st_read_break(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    item->out.brk.fence = st_get_int8(res, row, 1);
    item->out.brk.live = st_get_bool(res, row, 2);
    item->out.brk.pid = st_get_int4(res, row, 3);
    tell_next(call, st_get_text(res, row, 4), item->ns, item->resource);
}

void st_build_advance(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_int8(params, item->in.advance.at_least);
    st_params_text(params, item->in.advance.actor);
    st_params_text(params, item->in.advance.reason);
}

void st_read_advance(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.advance.floor = st_get_int8(res, row, 1);
}

/* ------------------------------------------------------------------------------------------------ namespaces, audit */

static void policy(struct st_params *params, int64_t value)
{
    if (value == ST_UNSET)
        st_params_null(params);
    else
        st_params_int8(params, value);
}

void st_build_namespace(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    const struct st_policy *wanted = &item->in.namespaces.policy;
    st_params_text(params, item->ns);
    policy(params, wanted->lock_delay_ms);
    policy(params, wanted->min_ttl_ms);
    policy(params, wanted->max_ttl_ms);
    if (wanted->audit_writes == ST_UNSET)
        st_params_null(params);
    else
        st_params_bool(params, wanted->audit_writes != 0);
    policy(params, wanted->max_leases);
    policy(params, wanted->max_waiters);
    policy(params, wanted->max_value_bytes);
    policy(params, wanted->audit_keep_days);
    st_params_text(params, item->in.namespaces.actor);
}

static void read_namespace_row(const PGresult *res, int row, struct st_namespace_row *out)
{
    out->name = st_get_text(res, row, 1);
    out->policy.lock_delay_ms = st_get_int8(res, row, 2);
    out->policy.min_ttl_ms = st_get_int8(res, row, 3);
    out->policy.max_ttl_ms = st_get_int8(res, row, 4);
    out->policy.audit_writes = st_get_bool(res, row, 5);
    out->policy.max_leases = st_get_int8(res, row, 6);
    out->policy.max_waiters = st_get_int8(res, row, 7);
    out->policy.max_value_bytes = st_get_int8(res, row, 8);
    out->policy.audit_keep_days = st_get_int8(res, row, 9);
    out->fence_floor = st_get_int8(res, row, 10);
    out->retired = st_get_bool(res, row, 11);
}

void st_read_namespace(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    struct st_namespace_row *out = call_alloc(call, sizeof(*out));
    item->out.namespaces.rows = out;
    item->out.namespaces.n = out ? 1 : 0;
    item->out.namespaces.more = false;
    if (out)
        read_namespace_row(res, row, out);
    else
        no_memory(item);
}

void st_build_list_namespaces(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->in.namespaces.after ? item->in.namespaces.after : "");
    st_params_int4(params, page(item->in.namespaces.max));
}

bool st_read_list_namespaces(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    item->out.namespaces.rows = NULL;
    if (!list_begin(res, item, item->in.namespaces.max, &item->out.namespaces.n, &item->out.namespaces.more))
        return true;
    n = item->out.namespaces.n;
    struct st_namespace_row *rows = call_alloc(call, n * sizeof(*rows));
    if (!rows) {
        no_memory(item);
        return true;
    }
    for (int i = 0; i < (int)n; i++)
        read_namespace_row(res, i, &rows[i]);
    item->out.namespaces.rows = rows;
    return true;
}

void st_build_audit(struct st_params *params, const struct st_call *call)
{
    const struct st_item *item = call->items[0];
    st_params_text(params, item->ns);
    st_params_text(params, item->in.audit.resource ? item->in.audit.resource : "");
    st_params_int8(params, item->in.audit.after_id);
    st_params_int4(params, page(item->in.audit.max));
}

bool st_read_audit(const PGresult *res, struct st_item *item, struct st_call *call)
{
    size_t n;
    item->out.audit.rows = NULL;
    if (!list_begin(res, item, item->in.audit.max, &item->out.audit.n, &item->out.audit.more))
        return true;
    n = item->out.audit.n;
    struct st_audit_row *rows = call_alloc(call, n * sizeof(*rows));
    if (!rows) {
        no_memory(item);
        return true;
    }
    for (int i = 0; i < (int)n; i++) {
        rows[i].id = st_get_int8(res, i, 1);
        rows[i].at_unix_ms = st_get_int8(res, i, 2);
        rows[i].kind = st_get_text(res, i, 3);
        rows[i].resource = st_get_text(res, i, 4);
        rows[i].token = st_get_int8(res, i, 5);
        rows[i].prior = st_get_int8(res, i, 6);
        rows[i].actor = st_get_text(res, i, 7);
        rows[i].detail = st_get_text(res, i, 8);
    }
    item->out.audit.rows = rows;
    return true;
}

/* ------------------------------------------------------------------------------------------------ the server itself */

void st_build_nothing(struct st_params *params, const struct st_call *call)
{
    (void)params;
    (void)call;
}

void st_read_stats(const PGresult *res, int row, struct st_item *item, struct st_call *call)
{
    (void)call;
    item->out.stats.leases_live = st_get_int8(res, row, 1);
    item->out.stats.resources = st_get_int8(res, row, 2);
    item->out.stats.schema_version = st_get_int8(res, row, 3);
}
