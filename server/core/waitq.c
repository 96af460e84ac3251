/*
 * waitq.c - see waitq.h.
 *
 * Invariants: a waiter is in its line's `waiters` and `ends`, in the table of request_ids and in its scope's count exactly
 * while it has callers; a caller is in its waiter's list and in the heap of ends together; an open line is always in the heap
 * of tries (at INT64_MAX while there is none), so that setting its moment cannot fail. A scope lives while one of its lines is
 * open.
 */
#include "core/waitq.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { FIRST_BUCKETS = 64 };

struct co_scope {
    struct co_link link;
    size_t lines, waiters;
    int64_t limit;     /* LIMIT_UNKNOWN; 0 = none */
    struct list fresh; /* waiters that joined before the limit was known */
    char name[];
};

enum { LIMIT_UNKNOWN = -1 };

/* ---- tables ---- */

static struct co_link **bucket_of(const struct co_table *table, uint64_t hash)
{
    return &table->buckets[hb_hash_mix(hash) & (table->n_buckets - 1)];
}

/* The first in the bucket of this hash. */
static struct co_link *bucket_first(const struct co_table *table, uint64_t hash)
{
    return table->n_buckets ? *bucket_of(table, hash) : NULL;
}

/* More buckets when there are more links than buckets; without memory the chains just grow longer. */
static bool table_grow(struct co_table *table)
{
    struct co_table grown = {.n_buckets = table->n_buckets ? table->n_buckets * 2 : FIRST_BUCKETS, .n = table->n};
    grown.buckets = calloc(grown.n_buckets, sizeof(struct co_link *));
    if (!grown.buckets)
        return table->n_buckets > 0;
    for (size_t i = 0; i < table->n_buckets; i++) {
        for (struct co_link *link = table->buckets[i], *next; link; link = next) {
            struct co_link **bucket = bucket_of(&grown, link->hash);
            next = link->next;
            link->next = *bucket;
            *bucket = link;
        }
    }
    free(table->buckets);
    *table = grown;
    return true;
}

static bool table_reserve(struct co_table *table)
{
    return table->n < table->n_buckets || table_grow(table);
}

/* Room must have been reserved. */
static void table_add(struct co_table *table, struct co_link *link, uint64_t hash)
{
    struct co_link **bucket = bucket_of(table, hash);
    link->hash = hash;
    link->next = *bucket;
    *bucket = link;
    table->n++;
}

static void table_remove(struct co_table *table, struct co_link *link)
{
    struct co_link **at = bucket_of(table, link->hash);
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    link->next = NULL;
    table->n--;
}

static uint64_t hash_of(const char *first, const char *second)
{
    return hb_hash_str(hb_hash_str(HB_HASH_SEED, first), second);
}

/* ---- namespaces ---- */

static struct co_scope *scope_find(const struct co_waitq *queue, const char *ns, uint64_t hash)
{
    for (struct co_link *link = bucket_first(&queue->scopes, hash); link; link = link->next) {
        struct co_scope *scope = list_entry(link, struct co_scope, link);
        if (link->hash == hash && !strcmp(scope->name, ns))
            return scope;
    }
    return NULL;
}

static struct co_scope *scope_get(struct co_waitq *queue, const char *ns)
{
    uint64_t hash = hb_hash_str(HB_HASH_SEED, ns);
    struct co_scope *scope = scope_find(queue, ns, hash);
    size_t len = strlen(ns) + 1;
    if (scope || !table_reserve(&queue->scopes))
        return scope;
    scope = calloc(1, sizeof(*scope) + len);
    if (!scope)
        return NULL;
    memcpy(scope->name, ns, len);
    scope->limit = LIMIT_UNKNOWN;
    list_init(&scope->fresh);
    table_add(&queue->scopes, &scope->link, hash);
    return scope;
}

static void scope_put(struct co_waitq *queue, struct co_scope *scope)
{
    if (scope->lines)
        return;
    table_remove(&queue->scopes, &scope->link);
    free(scope);
}

size_t co_line_in_namespace(const struct co_line *line)
{
    return line->scope->waiters;
}

struct co_waiter *co_line_surplus(struct co_line *line, int64_t limit)
{
    struct co_scope *scope = line->scope;
    scope->limit = limit;
    if (limit > 0 && scope->waiters > (uint64_t)limit && !list_empty(&scope->fresh))
        return list_entry(scope->fresh.head.prev, struct co_waiter, fresh);
    while (list_pop_front(&scope->fresh))
        ;
    return NULL;
}

/* ---- lines ---- */

void co_waitq_init(struct co_waitq *queue, size_t max_callers)
{
    *queue = (struct co_waitq){.max_callers = max_callers};
}

void co_waitq_release(struct co_waitq *queue)
{
    free(queue->lines.buckets);
    free(queue->waiters.buckets);
    free(queue->scopes.buckets);
    *queue = (struct co_waitq){0};
}

bool co_waitq_open(struct co_waitq *queue, struct co_line *line)
{
    list_init(&line->waiters);
    list_init(&line->unasked);
    line->ends = (struct heap){0};
    line->try = (struct heap_node){0};
    if (!table_reserve(&queue->lines))
        return false;
    line->scope = scope_get(queue, line->ns);
    if (!line->scope)
        return false;
    heap_set(&queue->tries, &line->try, INT64_MAX);
    line->scope->lines++;
    table_add(&queue->lines, &line->link, hash_of(line->ns, line->resource));
    return true;
}

void co_waitq_close(struct co_waitq *queue, struct co_line *line)
{
    table_remove(&queue->lines, &line->link);
    heap_remove(&queue->tries, &line->try);
    line->scope->lines--;
    scope_put(queue, line->scope);
    line->scope = NULL;
}

struct co_line *co_waitq_find(const struct co_waitq *queue, const char *ns, const char *resource)
{
    if (!queue->lines.n)
        return NULL;
    uint64_t hash = hash_of(ns, resource);
    for (struct co_link *link = bucket_first(&queue->lines, hash); link; link = link->next) {
        struct co_line *line = list_entry(link, struct co_line, link);
        if (link->hash == hash && !strcmp(line->resource, resource) && !strcmp(line->ns, ns))
            return line;
    }
    return NULL;
}

void co_line_terms(const struct co_line *line, int64_t now_ms, struct co_terms *out)
{
    const struct co_waiter *head = co_line_head(line);
    *out = (struct co_terms){0};
    if (!head)
        return;
    int64_t end = -heap_top_key(&line->ends, 0), next_end = end;
    if (heap_top(&line->ends) == &head->end)
        next_end = -heap_next_key(&line->ends, 0);
    out->waited_ms = now_ms - head->since_ms;
    out->wait_ms = end > now_ms ? end - now_ms : 1;
    struct list_node *second = list_next(&line->waiters, &head->node);
    if (!second)
        return;
    out->next_waited_ms = now_ms - list_entry(second, struct co_waiter, node)->since_ms;
    out->next_wait_ms = next_end > now_ms ? next_end - now_ms : 1;
}

/* ---- waiters and callers ---- */

static void link_caller(struct co_waitq *queue, struct co_waiter *waiter, struct co_caller *caller, int64_t end_ms)
{
    caller->end = (struct heap_node){0};
    heap_set(&queue->ends, &caller->end, end_ms);
    caller->waiter = waiter;
    caller->end_ms = end_ms;
    list_push_back(&waiter->callers, &caller->node);
    queue->n_callers++;
}

static enum co_join refusal(const struct co_waitq *queue, const struct co_scope *scope)
{
    if (scope->limit > 0 && scope->waiters >= (uint64_t)scope->limit)
        return CO_OVER_QUOTA;
    return queue->n_callers >= queue->max_callers ? CO_FULL : CO_JOINED;
}

enum co_join co_waitq_join(struct co_waitq *queue, struct co_line *line, struct co_waiter *waiter, struct co_caller *caller,
                           int64_t now_ms, int64_t end_ms)
{
    enum co_join refused = refusal(queue, line->scope);
    if (refused != CO_JOINED)
        return refused;
    if (!table_reserve(&queue->waiters))
        return CO_NO_MEMORY;
    list_init(&waiter->callers);
    waiter->end = (struct heap_node){0};
    heap_set(&line->ends, &waiter->end, -end_ms);
    link_caller(queue, waiter, caller, end_ms);
    waiter->line = line;
    waiter->since_ms = now_ms;
    waiter->end_ms = end_ms;
    list_push_back(&line->waiters, &waiter->node);
    table_add(&queue->waiters, &waiter->link, hash_of(line->ns, waiter->request_id));
    queue->n_waiters++;
    line->scope->waiters++;
    if (line->scope->limit == LIMIT_UNKNOWN)
        list_push_back(&line->scope->fresh, &waiter->fresh);
    return CO_JOINED;
}

/* Sets the waiter's end to the latest of its callers'. */
static void find_end(struct co_waiter *waiter)
{
    int64_t end = INT64_MIN;
    for (struct list_node *node = list_first(&waiter->callers); node; node = list_next(&waiter->callers, node)) {
        const struct co_caller *caller = list_entry(node, struct co_caller, node);
        if (caller->end_ms > end)
            end = caller->end_ms;
    }
    waiter->end_ms = end;
    heap_set(&waiter->line->ends, &waiter->end, -end);
}

enum co_join co_waitq_merge(struct co_waitq *queue, struct co_waiter *waiter, struct co_caller *caller, int64_t end_ms)
{
    if (queue->n_callers >= queue->max_callers)
        return CO_FULL;
    link_caller(queue, waiter, caller, end_ms);
    if (end_ms > waiter->end_ms)
        find_end(waiter);
    return CO_JOINED;
}

static void unlink_waiter(struct co_waitq *queue, struct co_waiter *waiter)
{
    struct co_line *line = waiter->line;
    list_remove(&line->waiters, &waiter->node);
    if (list_linked(&waiter->ask))
        list_remove(&line->unasked, &waiter->ask);
    if (list_linked(&waiter->fresh))
        list_remove(&line->scope->fresh, &waiter->fresh);
    heap_remove(&line->ends, &waiter->end);
    table_remove(&queue->waiters, &waiter->link);
    queue->n_waiters--;
    line->scope->waiters--;
    waiter->line = NULL;
}

void co_waitq_leave(struct co_waitq *queue, struct co_caller *caller)
{
    struct co_waiter *waiter = caller->waiter;
    list_remove(&waiter->callers, &caller->node);
    heap_remove(&queue->ends, &caller->end);
    queue->n_callers--;
    caller->waiter = NULL;
    if (list_empty(&waiter->callers))
        unlink_waiter(queue, waiter);
    else if (caller->end_ms == waiter->end_ms)
        find_end(waiter);
}

void co_waitq_set_end(struct co_waitq *queue, struct co_caller *caller, int64_t end_ms)
{
    int64_t was = caller->end_ms;
    caller->end_ms = end_ms;
    heap_set(&queue->ends, &caller->end, end_ms);
    if (was == caller->waiter->end_ms || end_ms > caller->waiter->end_ms)
        find_end(caller->waiter);
}

static struct co_waiter *find_id(struct co_link *link, uint64_t hash, const char *ns, const char *request_id)
{
    for (; link; link = link->next) {
        struct co_waiter *waiter = list_entry(link, struct co_waiter, link);
        if (link->hash == hash && !strcmp(waiter->request_id, request_id) && !strcmp(waiter->line->ns, ns))
            return waiter;
    }
    return NULL;
}

struct co_waiter *co_waitq_with_id(const struct co_waitq *queue, const char *ns, const char *request_id,
                                   const struct co_waiter *after)
{
    if (!queue->waiters.n)
        return NULL;
    uint64_t hash = hash_of(ns, request_id);
    return find_id(after ? after->link.next : bucket_first(&queue->waiters, hash), hash, ns, request_id);
}

struct co_waiter *co_waitq_same(const struct co_waitq *queue, const struct co_line *line, const char *request_id)
{
    struct co_waiter *waiter = NULL;
    do
        waiter = co_waitq_with_id(queue, line->ns, request_id, waiter);
    while (waiter && waiter->line != line);
    return waiter;
}

/* ---- time ---- */

struct co_caller *co_waitq_ended(const struct co_waitq *queue, int64_t now_ms)
{
    if (heap_top_key(&queue->ends, INT64_MAX) > now_ms)
        return NULL;
    return list_entry(heap_top(&queue->ends), struct co_caller, end);
}

int64_t co_waitq_next_ms(const struct co_waitq *queue)
{
    int64_t end = heap_top_key(&queue->ends, INT64_MAX), next = heap_top_key(&queue->tries, INT64_MAX);
    return end < next ? end : next;
}

void co_waitq_try_at(struct co_waitq *queue, struct co_line *line, int64_t at_ms)
{
    heap_set(&queue->tries, &line->try, at_ms);
}

struct co_line *co_waitq_due(struct co_waitq *queue, int64_t now_ms)
{
    if (heap_top_key(&queue->tries, INT64_MAX) > now_ms)
        return NULL;
    struct co_line *line = list_entry(heap_top(&queue->tries), struct co_line, try);
    co_waitq_try_at(queue, line, INT64_MAX);
    return line;
}

void co_line_ask_later(struct co_waiter *waiter)
{
    list_push_back(&waiter->line->unasked, &waiter->ask);
}

struct co_waiter *co_line_ask_next(struct co_line *line)
{
    struct list_node *node = list_pop_front(&line->unasked);
    return node ? list_entry(node, struct co_waiter, ask) : NULL;
}
