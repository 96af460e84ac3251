/*
 * list.h - an intrusive doubly linked list.
 *
 * A `struct list` is a head; a `struct list_node` is embedded in what is listed, which the list never owns. A node is in
 * one list at most; a zeroed or removed node is in none.
 */
#ifndef HOLDFAST_BASE_LIST_H
#define HOLDFAST_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head;
    size_t count;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* NOLINTBEGIN(clang-analyzer-*): the analyzer cannot follow a list of more than one node, and takes each second one for the first
 */

static inline void list_init(struct list *list)
{
    list->head.prev = list->head.next = &list->head;
    list->count = 0;
}

static inline bool list_empty(const struct list *list)
{
    return list->count == 0;
}

static inline bool list_linked(const struct list_node *node)
{
    return node->next != NULL;
}

static inline void list_insert_before(struct list *list, struct list_node *at, struct list_node *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
    list->count++;
}

static inline void list_push_back(struct list *list, struct list_node *node)
{
    list_insert_before(list, &list->head, node);
}

static inline void list_push_front(struct list *list, struct list_node *node)
{
    list_insert_before(list, list->head.next, node);
}

static inline void list_remove(struct list *list, struct list_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = NULL;
    list->count--;
}

/* The first node, or NULL. */
static inline struct list_node *list_first(const struct list *list)
{
    return list->count ? list->head.next : NULL;
}

/* The node after `node`, or NULL. */
static inline struct list_node *list_next(const struct list *list, const struct list_node *node)
{
    return node->next == &list->head ? NULL : node->next;
}

/* The first node, taken out, or NULL. */
static inline struct list_node *list_pop_front(struct list *list)
{
    struct list_node *node = list_first(list);
    if (node)
        list_remove(list, node);
    return node;
}

/* NOLINTEND(clang-analyzer-*) */

#endif
