/*
 * acquire.h - the answers of Acquire, for calls that try once (acquire.c) and those that wait (wait.c).
 */
#ifndef HOLDFAST_SERVICE_ACQUIRE_H
#define HOLDFAST_SERVICE_ACQUIRE_H

#include "service/call.h"

struct svc_held {
    const char *resource, *holder, *task;
    int64_t token, remaining_ms;
    size_t waiters;
    bool guarded;
};

/* Each ends the call. What is granted says what remains and how long this call had waited when the item was sent. */
void svc_answer_granted(struct svc_call *sc, const struct st_item *item);
void svc_answer_held(struct svc_call *sc, const struct svc_held *held);
void svc_answer_ended(struct svc_call *sc, int64_t token);

#endif
