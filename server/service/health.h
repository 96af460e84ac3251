/*
 * health.h - whether this server serves: what load balancers ask, by grpc.health.v1 and by HTTP.
 */
#ifndef HOLDFAST_SERVICE_HEALTH_H
#define HOLDFAST_SERVICE_HEALTH_H

#include "base/io.h"
#include "base/list.h"

struct svc;

struct svc_health {
    struct list watchers;  /* of Watch, told of changes */
    struct io_timer timer; /* while there are any */
    int64_t looked_ms;     /* when the store was last asked; 0 = never */
    int64_t down_since_ms; /* found to be; -1 = it is not */
    bool serving;          /* what came of it */
};

void svc_health_init(struct svc *svc);

#endif
