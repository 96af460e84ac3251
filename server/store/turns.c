/*
 * turns.c - who may have the turn on a resource: noted when an answer names a server, told after the turn of the loop.
 *
 * Our own turns are told without any SQL; those of others wait for the listener, which sends all at once (listen.c). Both are
 * hints, so their number is bounded: one too many is dropped, and costs whoever waits one poll.
 */
#include <stdlib.h>
#include <string.h>

#include "store/engine.h"

enum { NOTES_MAX = 10000, SERVER_MAX = 40, SEPARATOR = 0x1f };

void st_turn_tell(struct st_store *store, const char *payload)
{
    const char *separator = strchr(payload, SEPARATOR);
    if (!separator || !store->turn || store->closing)
        return;
    char *ns = strndup(payload, (size_t)(separator - payload));
    if (!ns)
        return;
    store->turn(store->turn_arg, ns, separator + 1);
    free(ns);
}

static void tell(struct io_task *task)
{
    struct st_store *store = list_entry(task, struct st_store, tell_turns);
    /* As many as are there now: what is done about them may bring more. */
    struct list_node *node;
    for (size_t n = store->turns.count; n > 0 && (node = list_pop_front(&store->turns)); n--) {
        struct st_note *note = list_entry(node, struct st_note, node);
        st_turn_tell(store, note->payload);
        free(note);
    }
    if (!list_empty(&store->turns) && !store->closing)
        store->io->post(store->io, &store->tell_turns);
}

void st_turn_note(struct st_store *store, const char *server, const char *ns, const char *resource)
{
    bool own = strcmp(server, store->id) == 0;
    struct list *notes = own ? &store->turns : &store->listener.notes;
    size_t ns_len = strlen(ns), resource_len = strlen(resource), server_len = strlen(server);
    /* While nobody listens nobody notifies. */
    if (server_len == 0 || server_len > SERVER_MAX || notes->count >= NOTES_MAX ||
        (!own && store->listener.conn.state != ST_CONN_SERVING))
        return;
    struct st_note *note = malloc(sizeof(*note) + ns_len + resource_len + server_len + 3);
    if (!note)
        return;
    char *at = note->payload;
    memset(&note->node, 0, sizeof(note->node));
    memcpy(at, ns, ns_len);
    at[ns_len] = SEPARATOR;
    memcpy(at + ns_len + 1, resource, resource_len + 1);
    note->server = memcpy(at + ns_len + resource_len + 2, server, server_len + 1);
    list_push_back(notes, &note->node);
    if (own)
        store->io->post(store->io, &store->tell_turns);
    else
        st_wake(store);
}

void st_turns_init(struct st_store *store)
{
    list_init(&store->turns);
    list_init(&store->listener.notes);
    store->tell_turns.run = tell;
}

static void free_notes(struct list *notes)
{
    struct list_node *node;
    while ((node = list_pop_front(notes)))
        free(list_entry(node, struct st_note, node));
}

void st_turns_release(struct st_store *store)
{
    store->io->unpost(store->io, &store->tell_turns);
    free_notes(&store->turns);
    free_notes(&store->listener.notes);
}
