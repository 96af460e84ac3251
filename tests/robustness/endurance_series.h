/*
 * endurance_series.h - samples taken in a long run, and whether what they show has levelled off.
 *
 * A column levels off if its mean over the last third of the samples is no more than its mean over the middle third, and the
 * column's tolerance. The first third is left out: there the run may still be settling. What grows steadily from nothing is two
 * thirds higher in the last third than in the middle one; what grows by more than the tolerance in a third of the run is caught.
 */
#ifndef HOLDFAST_TESTS_ROBUSTNESS_ENDURANCE_SERIES_H
#define HOLDFAST_TESTS_ROBUSTNESS_ENDURANCE_SERIES_H

#include <stdbool.h>
#include <stddef.h>

enum { SERIES_COLUMNS = 16, SERIES_SAMPLES = 128, SERIES_LEAST = 6 };

struct series_column {
    const char *name, *unit;
    bool judged;      /* otherwise it is only shown */
    double tolerance; /* the growth allowed, as a part of the middle third's mean; and */
    double slack;     /* so much besides, in the column's unit */
};

struct series {
    const struct series_column *columns;
    size_t n_columns, n;
    double values[SERIES_SAMPLES][SERIES_COLUMNS];
};

/* No samples yet. The columns stay the caller's. */
void series_init(struct series *series, const struct series_column *columns, size_t n_columns);
/* One more sample: a value for each column. Beyond SERIES_SAMPLES it is left out. */
void series_add(struct series *series, const double *values);
/* The table, about so many of its rows, the last one always; then the means of the thirds. By cmocka's print_message. */
void series_print(const struct series *series, size_t rows);
/* True if every judged column has levelled off. Otherwise `why` tells the first that has not; also if there are fewer than
 * SERIES_LEAST samples. */
bool series_level(const struct series *series, char *why, size_t why_size);

#endif
