/*
 * metrics.h - all of Stats, and of the process, as Prometheus reads it: the text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/), which is valid OpenMetrics but for its end.
 *
 * Names begin with holdfast_ (those of the process with process_, as everywhere), counters end in _total, times are in seconds.
 * Labels have values that this program chose, so their number is bounded; the one exception is holdfast_contended_busy and
 * holdfast_contended_held, which name the twenty resources and keys that Stats names: at most twenty series each at a time.
 */
#ifndef HOLDFAST_SERVICE_METRICS_H
#define HOLDFAST_SERVICE_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/c/buf.h"

struct svc;

enum { SVC_METRICS_MORE = 64 };

/* A number that the server's other rooms know. Those of one name stand together. */
struct svc_metric {
    const char *name; /* without "holdfast_"; of a counter it ends in _total */
    const char *help;
    bool counts;              /* a counter; otherwise a gauge */
    const char *label, *what; /* one label and its value; NULL = none */
    double value;
};

#define SVC_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/*
 * `done` is called once, perhaps from within this function: with the text, which is valid during that call, or with NULL for want
 * of memory. What the database counts is asked for, as by Stats, for a second at most; without an answer it is left out, and
 * holdfast_database_up is 0. `more` (at most SVC_METRICS_MORE; its strings must be static) is told too. Also while the server
 * drains; not after svc_free. It is no call of Stats, and counted as none.
 */
void svc_metrics(struct svc *svc, const struct svc_metric *more, size_t n_more, void (*done)(void *arg, const struct hp_buf *text),
                 void *arg);

#endif
