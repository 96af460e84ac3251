/*
 * metrics_text.h - Prometheus' text format, line by line. For metrics*.c. No state.
 */
#ifndef HOLDFAST_SERVICE_METRICS_TEXT_H
#define HOLDFAST_SERVICE_METRICS_TEXT_H

#include <stdint.h>

#include "proto/c/buf.h"

/* Of a sample; the first without a name ends them. Values are escaped, and may be any UTF-8 without NUL. */
enum { SVC_LABELS = 4 };
struct svc_labels {
    struct {
        const char *name, *value;
    } list[SVC_LABELS];
};
extern const struct svc_labels svc_no_labels;
#define SVC_LABEL(name, value) ((struct svc_labels){.list = {{name, value}}})

enum svc_metric_type { SVC_GAUGE, SVC_COUNTER, SVC_HISTOGRAM };

/* HELP and TYPE: a family begins. Its samples follow. */
void svc_metric_head(struct hp_buf *out, const char *name, enum svc_metric_type type, const char *help);
/* name ‖ suffix{labels} value */
void svc_metric_int(struct hp_buf *out, const char *name, const char *suffix, struct svc_labels labels, int64_t value);
void svc_metric_double(struct hp_buf *out, const char *name, const char *suffix, struct svc_labels labels, double value);

/* A family of one sample without labels. */
void svc_gauge(struct hp_buf *out, const char *name, const char *help, int64_t value);
void svc_gauge_seconds(struct hp_buf *out, const char *name, const char *help, int64_t ms);
void svc_counter(struct hp_buf *out, const char *name, const char *help, int64_t value);

/* metrics_process.c: what the kernel knows of this process. What it doesn't tell is left out. */
void svc_metrics_process(struct hp_buf *out);

#endif
