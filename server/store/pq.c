/*
 * pq.c - see pq.h.
 */
#include "store/pq.h"

const struct st_pq st_libpq = {
    .connectStartParams = PQconnectStartParams,
    .connectPoll = PQconnectPoll,
    .setnonblocking = PQsetnonblocking,
    .enterPipelineMode = PQenterPipelineMode,
    .sendQueryParams = PQsendQueryParams,
    .sendPrepare = PQsendPrepare,
    .sendQueryPrepared = PQsendQueryPrepared,
    .pipelineSync = PQpipelineSync,
    .flush = PQflush,
    .consumeInput = PQconsumeInput,
    .isBusy = PQisBusy,
    .getResult = PQgetResult,
};
