/*
 * pq.c - see pq.h. What opens files may use the descriptors kept back: callers who use up all others must not keep the
 * server from its database.
 */
#include "store/pq.h"

#include "base/files.h"

static PGconn *connect_start(const char *const *keywords, const char *const *values, int expand_dbname)
{
    hb_files_spare_begin();
    PGconn *conn = PQconnectStartParams(keywords, values, expand_dbname);
    hb_files_spare_end();
    return conn;
}

/* May go on to the next host, with another socket. */
static PostgresPollingStatusType connect_poll(PGconn *conn)
{
    hb_files_spare_begin();
    PostgresPollingStatusType status = PQconnectPoll(conn);
    hb_files_spare_end();
    return status;
}

const struct st_pq st_libpq = {
    .connectStartParams = connect_start,
    .connectPoll = connect_poll,
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
    .notifies = PQnotifies,
};
