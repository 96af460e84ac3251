/*
 * wait.h - calls of Acquire that wait, in the queues of core/waitq.h. For the .c files of this room.
 *
 * A *line* is the queue for one resource. It has at most one acquire with the store at any time: a *try* for its head, or a
 * *question* for somebody behind it (is this a repeat of an acquire that was granted? nothing else is granted by it). A head is
 * tried for when the resource may have become free: when it arrives, when a turn or a release is told, and by a timer when the
 * present lease, or what else is in the way, ends, at most a second later. So a hand-over costs one acquire, however many
 * wait.
 *
 *     arrives ──▶ waits ──▶ tried for ──▶ granted │ ended │ refused         all callers of the waiter get the same answer
 *                   │  ▲        │ held, busy, no database
 *                   │  └────────┘
 *                   └─▶ held: a caller's time is over, CancelWait, drain · gone: its connection has ended
 *
 * A waiter that leaves while it is being tried for leaves the try behind: if that is granted after all, the grant is released
 * again unless it was repeated. A line that becomes empty without a grant tells the database, so that other servers get the
 * turn at once.
 */
#ifndef HOLDFAST_SERVICE_WAIT_H
#define HOLDFAST_SERVICE_WAIT_H

#include "service/call.h"

void svc_waits_init(struct svc *svc);
/* Whoever waits is answered: those that are being tried for as soon as that has an outcome. */
void svc_waits_end(struct svc *svc);
/* Requires that nobody waits and the store is closed. */
void svc_waits_release(struct svc *svc);

/* The call, an Acquire of one resource that was checked, waits; it is answered later, or already if it may not.
 * `labels_json` and `request_id` are in its arena; `given`: its caller chose the request_id. */
void svc_wait(struct svc_call *sc, const char *request_id, bool given, const char *labels_json);
/* The call waits no longer, for its caller is gone; it has been answered. */
void svc_wait_gone(struct svc_call *sc);
/* The same for another reason, which it was answered. */
void svc_wait_expel(struct svc_call *sc, const struct hp_status *status);

/* How many wait for the resource. */
size_t svc_waiters(const struct svc *svc, const char *ns, const char *resource);
/* The resource was released, through this server. */
void svc_wait_freed(struct svc *svc, const char *ns, const char *resource);
/* The grant, which nobody was told of, is released again, unless a repeat of it is answered before. */
void svc_give_back(struct svc *svc, const char *ns, const char *resource, int64_t token);

#endif
