/*
 * heap.c - see heap.h: a skew heap (Sleator and Tarjan, "Self-adjusting heaps", 1986) with links to the parents. Invariant: no
 * key is smaller than its parent's.
 */
#include "base/heap.h"

/* One heap of two. Along the path on which they are merged the children change sides, which keeps paths short on the whole. */
static struct heap_node *merge(struct heap_node *a, struct heap_node *b)
{
    struct heap_node *root = NULL, *parent = NULL, **slot = &root;
    while (a && b) {
        struct heap_node *top = b->key < a->key ? b : a, *other = top == a ? b : a;
        *slot = top;
        top->parent = parent;
        parent = top;
        slot = &top->left;
        a = top->right;
        b = other;
        top->right = top->left;
    }
    *slot = a ? a : b;
    if (*slot)
        (*slot)->parent = parent;
    return root;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    if (!node->linked)
        return;
    struct heap_node *parent = node->parent, *rest = merge(node->left, node->right);
    if (!parent)
        heap->root = rest;
    else if (parent->left == node)
        parent->left = rest;
    else
        parent->right = rest;
    if (rest)
        rest->parent = parent;
    heap->n--;
    *node = (struct heap_node){.key = node->key};
}

void heap_set(struct heap *heap, struct heap_node *node, int64_t key)
{
    heap_remove(heap, node);
    *node = (struct heap_node){.key = key, .linked = true};
    heap->root = merge(heap->root, node);
    heap->n++;
}
