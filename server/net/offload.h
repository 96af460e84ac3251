/*
 * offload.h - a thread beside the loop for work that takes long and concerns nobody else: it inflates and reads large requests, so
 * that the others aren't held up meanwhile.
 *
 * It runs one job after the other, at a lower priority than the loop, those of a better rank first; and after one that isn't of a
 * known connection it rests from such ones for three times as long as that took, half a second at most, so that they leave a core
 * that is shared to others. A job is a function of what the job itself owns; nothing that it touches may be touched by the loop's
 * thread before it is done.
 */
#ifndef HOLDFAST_NET_OFFLOAD_H
#define HOLDFAST_NET_OFFLOAD_H

#include <stdbool.h>

#include "base/io.h"
#include "base/list.h"

struct offload;

/* Whose job it is: of a connection that has earned it (net_exchange_is_known), of somebody who is known on a new one, of anybody.
 */
enum offload_rank { OFFLOAD_KNOWN, OFFLOAD_NAMED, OFFLOAD_STRANGER, OFFLOAD_RANKS };

/* Zero it, then set both functions. */
struct offload_job {
    void (*work)(struct offload_job *job); /* on the thread */
    void (*done)(struct offload_job *job); /* on the loop's, when it has worked; the job is its owner's again */
    struct list_node node;                 /* offload's, as what follows */
    bool begun;
    enum offload_rank rank;
};

/* The thread is there. NULL: it cannot be (no memory, no descriptor, no thread). */
struct offload *offload_new(struct io *io) __attribute__((warn_unused_result));
/* The job will work and be done. False: too many of its rank wait already. */
bool offload_run(struct offload *offload, struct offload_job *job, enum offload_rank rank) __attribute__((warn_unused_result));
/* True: it has not begun, and will not; it is its owner's again. False: it will be done as if nothing had been said. */
bool offload_cancel(struct offload *offload, struct offload_job *job) __attribute__((warn_unused_result));
/* The thread is gone. Those jobs that have begun are done; there must be no others. Waits for the one that works. NULL is allowed.
 */
void offload_free(struct offload *offload);

#endif
