/*
 * waitq.h - who waits for what, in order of arrival.
 *
 * Callers wait for a resource of a namespace. Those that carry one request_id are one *waiter*, each with an end of its own;
 * the waiters for one resource are its *line*. The first waiter of a line is its head: the one that is tried for. Which of
 * them is granted what is not decided here.
 *
 * Lines, waiters and callers are embedded in their owners' structs and owned by them; names too. What a line costs doesn't
 * depend on how many wait in it: joining, leaving and finding are O(1) but for the heaps of ends, which are O(log n). No I/O,
 * no clock, one thread.
 */
#ifndef HOLDFAST_CORE_WAITQ_H
#define HOLDFAST_CORE_WAITQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"

struct co_scope; /* a namespace in which somebody waits; the queue's own */

/* In a hash table; the queue's. */
struct co_link {
    struct co_link *next;
    uint64_t hash;
};

/* Somebody who waits, until end_ms at most. Zero it. */
struct co_caller {
    struct list_node node;    /* of its waiter */
    struct co_waiter *waiter; /* NULL = it waits for nothing */
    int64_t end_ms;
    struct heap_node end;
};

/* Zero it, then set request_id. */
struct co_waiter {
    const char *request_id;
    struct co_line *line; /* NULL = in none; it has callers exactly while it is in one */
    struct co_link link;
    struct list callers;
    struct list_node node;    /* of its line, in order of arrival */
    struct list_node ask;     /* of its line's `unasked` */
    struct list_node fresh;   /* of its namespace's: it joined before the limit was known */
    int64_t since_ms, end_ms; /* end_ms: the latest of its callers' */
    struct heap_node end;
};

/* Zero it, then set the names. */
struct co_line {
    const char *ns, *resource;
    struct co_link link;
    struct co_scope *scope;
    struct list waiters; /* in order of arrival */
    struct list unasked; /* those of whom it isn't known yet whether they repeat an acquire that was granted */
    struct heap ends;    /* of waiters, the latest first */
    struct heap_node try;
};

struct co_table {
    struct co_link **buckets;
    size_t n_buckets, n; /* a power of two, or 0 */
};

struct co_waitq {
    struct co_table lines, waiters, scopes;
    struct heap ends;  /* of callers */
    struct heap tries; /* of lines: when the head is to be tried for */
    size_t max_callers, n_callers, n_waiters;
};

/* How long a line has waited and still wants to; and the same of what is left of it without its head. 0, 0 = nobody. */
struct co_terms {
    int64_t waited_ms, wait_ms, next_waited_ms, next_wait_ms;
};

enum co_join {
    CO_JOINED,
    CO_OVER_QUOTA, /* the namespace has as many waiters as its limit says */
    CO_FULL,       /* max_callers wait */
    CO_NO_MEMORY
};

void co_waitq_init(struct co_waitq *queue, size_t max_callers);
/* Frees the queue's memory. No line may be open. */
void co_waitq_release(struct co_waitq *queue);

/* The line is open: it is found, and may be joined. False: no memory. It must not be open yet under this name. */
bool co_waitq_open(struct co_waitq *queue, struct co_line *line) __attribute__((warn_unused_result));
/* The line is forgotten. Nobody may wait in it. */
void co_waitq_close(struct co_waitq *queue, struct co_line *line);
/* The open line of this resource, or NULL. */
struct co_line *co_waitq_find(const struct co_waitq *queue, const char *ns, const char *resource);

/* The waiter is the last of its line, with its first caller, who waits until end_ms. Otherwise nothing is changed. */
enum co_join co_waitq_join(struct co_waitq *queue, struct co_line *line, struct co_waiter *waiter, struct co_caller *caller,
                           int64_t now_ms, int64_t end_ms) __attribute__((warn_unused_result));
/* One more caller of a waiter. */
enum co_join co_waitq_merge(struct co_waitq *queue, struct co_waiter *waiter, struct co_caller *caller, int64_t end_ms)
    __attribute__((warn_unused_result));
/* The caller waits no longer. With the last of them the waiter has left its line. */
void co_waitq_leave(struct co_waitq *queue, struct co_caller *caller);
/* The caller, who waits, does so until another moment. */
void co_waitq_set_end(struct co_waitq *queue, struct co_caller *caller, int64_t end_ms);

/* The waiter of this request_id in this line, or NULL. */
struct co_waiter *co_waitq_same(const struct co_waitq *queue, const struct co_line *line, const char *request_id);
/* The waiters of a namespace with this request_id, one after the other, in no particular order: `after` is NULL for the first
 * one. NULL: no more. */
struct co_waiter *co_waitq_with_id(const struct co_waitq *queue, const char *ns, const char *request_id,
                                   const struct co_waiter *after);

/* A caller whose end has come, the earliest first, or NULL; it still waits. */
struct co_caller *co_waitq_ended(const struct co_waitq *queue, int64_t now_ms);
/* When something is next due: a caller's end, or a try. INT64_MAX = nothing. */
int64_t co_waitq_next_ms(const struct co_waitq *queue);

/* The line's head is to be tried for at that moment; replaces an earlier one. INT64_MAX = never. */
void co_waitq_try_at(struct co_waitq *queue, struct co_line *line, int64_t at_ms);
/* A line whose try is due, the earliest first, or NULL; it has no moment any more. */
struct co_line *co_waitq_due(struct co_waitq *queue, int64_t now_ms);

static inline struct co_waiter *co_line_head(const struct co_line *line)
{
    struct list_node *node = list_first(&line->waiters);
    return node ? list_entry(node, struct co_waiter, node) : NULL;
}

/* The waiter is among the unasked, behind the others. */
void co_line_ask_later(struct co_waiter *waiter);
/* The first of the unasked, taken out, or NULL. */
struct co_waiter *co_line_ask_next(struct co_line *line);

void co_line_terms(const struct co_line *line, int64_t now_ms, struct co_terms *out);

/* How many wait in the line's namespace, in all its lines. */
size_t co_line_in_namespace(const struct co_line *line);
/*
 * The limit of waiters in the line's namespace is known now; 0 = none. It is so until nobody waits there any more. A waiter
 * that joined before it was known and is beyond it, of several the last one: the owner makes it leave, and calls again until
 * there is none (NULL).
 */
struct co_waiter *co_line_surplus(struct co_line *line, int64_t limit);

#endif
