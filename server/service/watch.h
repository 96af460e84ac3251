/*
 * watch.h - LeaseService.Watch: what a server keeps about all who watch. One of them: watch_stream.h.
 */
#ifndef HOLDFAST_SERVICE_WATCH_H
#define HOLDFAST_SERVICE_WATCH_H

#include "base/io.h"
#include "base/list.h"
#include "store/follow.h"

struct svc;

/* That a lease has expired was told, by the entry `id` of the trail. */
struct svc_watch_expiry {
    uint64_t hash; /* of the lease */
    int64_t id;
};

struct svc_watches {
    struct list list; /* of struct svc_watch, in the order in which they came */
    struct st_follow follow;
    bool begun;
    uint64_t batch;                    /* counts what the follower tells */
    struct io_timer timer;             /* while there are any */
    struct svc_watch_expiry *expiries; /* the latest, each in its place by its hash; NULL: they are not kept in mind */
    int64_t told, too_slow, missed;    /* for Stats */
};

void svc_watches_init(struct svc *svc);

#endif
