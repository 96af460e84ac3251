/*
 * metrics.h - /metrics: who may see it, and what only the program as a whole can tell (its transports).
 *
 * On a server that requires keys it is shown to whom AdminService.Stats shows everything: a reader of all namespaces, who sends the
 * key as "authorization: Bearer hfk_…". All on the loop's thread.
 */
#ifndef HOLDFAST_APP_METRICS_H
#define HOLDFAST_APP_METRICS_H

#include "app/http.h"

/* The exchange, a GET or HEAD, is answered, now or within two seconds. */
void app_metrics_serve(struct app_http *http, struct net_exchange *x);

#endif
