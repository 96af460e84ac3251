/*
 * serve.h - holdfastd from its settings to its end.
 */
#ifndef HOLDFAST_APP_SERVE_H
#define HOLDFAST_APP_SERVE_H

#include "app/config.h"

enum app_exit { APP_DRAINED = 0, APP_FAILURE = 1, APP_CONFIGURATION = 2 };

/*
 * Serves until a signal ends it: the database is started or looked at, the schema brought up, the sockets opened, and READY
 * printed on stdout once the first connection to PostgreSQL serves. SIGTERM or SIGINT drains: new calls are refused, those
 * in flight are finished, for at most the drain timeout; a second one ends the process at once. Returns the exit status; what went
 * wrong has been logged. Blocks all along; once a process, before any thread exists.
 */
enum app_exit app_serve(const struct app_config *cfg);

#endif
