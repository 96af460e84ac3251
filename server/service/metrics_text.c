/*
 * metrics_text.c - see metrics_text.h.
 */
#include "service/metrics_text.h"

#include <inttypes.h>
#include <stdio.h>

const struct svc_labels svc_no_labels = {.list = {{NULL, NULL}}};

static void escaped(struct hp_buf *out, const char *text, bool quotes)
{
    for (; *text; text++) {
        if (*text == '\n')
            hp_buf_addstr(out, "\\n");
        else if (*text == '\\' || (*text == '"' && quotes))
            hp_buf_printf(out, "\\%c", *text);
        else
            hp_buf_addch(out, *text);
    }
}

void svc_metric_head(struct hp_buf *out, const char *name, enum svc_metric_type type, const char *help)
{
    static const char *const types[] = {[SVC_GAUGE] = "gauge", [SVC_COUNTER] = "counter", [SVC_HISTOGRAM] = "histogram"};
    hp_buf_printf(out, "# HELP %s ", name);
    escaped(out, help, false);
    hp_buf_printf(out, "\n# TYPE %s %s\n", name, types[type]);
}

static void series(struct hp_buf *out, const char *name, const char *suffix, const struct svc_labels *labels)
{
    hp_buf_addstr(out, name);
    hp_buf_addstr(out, suffix);
    for (int i = 0; i < SVC_LABELS && labels->list[i].name; i++) {
        hp_buf_printf(out, "%c%s=\"", i ? ',' : '{', labels->list[i].name);
        escaped(out, labels->list[i].value, true);
        hp_buf_addch(out, '"');
    }
    if (labels->list[0].name)
        hp_buf_addch(out, '}');
}

void svc_metric_int(struct hp_buf *out, const char *name, const char *suffix, struct svc_labels labels, int64_t value)
{
    series(out, name, suffix, &labels);
    hp_buf_printf(out, " %" PRId64 "\n", value);
}

void svc_metric_double(struct hp_buf *out, const char *name, const char *suffix, struct svc_labels labels, double value)
{
    series(out, name, suffix, &labels);
    hp_buf_printf(out, " %.15g\n", value);
}

void svc_gauge(struct hp_buf *out, const char *name, const char *help, int64_t value)
{
    svc_metric_head(out, name, SVC_GAUGE, help);
    svc_metric_int(out, name, "", svc_no_labels, value);
}

void svc_gauge_seconds(struct hp_buf *out, const char *name, const char *help, int64_t ms)
{
    svc_metric_head(out, name, SVC_GAUGE, help);
    svc_metric_double(out, name, "", svc_no_labels, (double)ms / 1000);
}

void svc_counter(struct hp_buf *out, const char *name, const char *help, int64_t value)
{
    svc_metric_head(out, name, SVC_COUNTER, help);
    svc_metric_int(out, name, "", svc_no_labels, value);
}
