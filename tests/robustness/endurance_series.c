/*
 * endurance_series.c - see endurance_series.h.
 */
#include "harness/harness.h"

#include <stdio.h>
#include <string.h>

#include "robustness/endurance_series.h"

enum { WIDTH = 11, LINE = SERIES_COLUMNS * 24 };

void series_init(struct series *series, const struct series_column *columns, size_t n_columns)
{
    memset(series, 0, sizeof(*series));
    series->columns = columns;
    series->n_columns = n_columns < SERIES_COLUMNS ? n_columns : SERIES_COLUMNS;
}

void series_add(struct series *series, const double *values)
{
    if (series->n < SERIES_SAMPLES)
        memcpy(series->values[series->n++], values, series->n_columns * sizeof(values[0]));
}

/* Of the samples from `begin` up to `end`. */
static double mean(const struct series *series, size_t column, size_t begin, size_t end)
{
    double sum = 0;
    for (size_t i = begin; i < end; i++)
        sum += series->values[i][column];
    return end > begin ? sum / (double)(end - begin) : 0;
}

static double mean_of_third(const struct series *series, size_t column, int third)
{
    return mean(series, column, series->n * (size_t)third / 3, series->n * (size_t)(third + 1) / 3);
}

/* ------------------------------------------------------------------------------------------------ showing */

static void print_row(const struct series *series, const char *label, double (*value)(const struct series *, size_t, int),
                      int which)
{
    char line[LINE];
    size_t len = 0;
    for (size_t i = 0; i < series->n_columns; i++) {
        const double number = value(series, i, which);
        len += (size_t)snprintf(line + len, sizeof(line) - len, " %*.*f", WIDTH, number < 1000 && number > -1000 ? 1 : 0, number);
    }
    print_message("[     INFO ] %-8s%s\n", label, line);
}

static void print_words(const struct series *series, bool units)
{
    char line[LINE];
    size_t len = 0;
    for (size_t i = 0; i < series->n_columns; i++)
        len += (size_t)snprintf(line + len, sizeof(line) - len, " %*.*s", WIDTH, WIDTH,
                                units ? series->columns[i].unit : series->columns[i].name);
    print_message("[     INFO ] %-8s%s\n", "", line);
}

static double value_of(const struct series *series, size_t column, int sample)
{
    return series->values[sample][column];
}

void series_print(const struct series *series, size_t rows)
{
    const size_t step = rows > 0 && series->n > rows ? (series->n + rows - 1) / rows : 1;
    char label[24];
    print_words(series, false);
    print_words(series, true);
    for (size_t i = 0; i < series->n; i++) {
        if ((series->n - 1 - i) % step != 0)
            continue;
        snprintf(label, sizeof(label), "%zu", i + 1);
        print_row(series, label, value_of, (int)i);
    }
    print_row(series, "middle", mean_of_third, 1);
    print_row(series, "last", mean_of_third, 2);
}

/* ------------------------------------------------------------------------------------------------ judging */

bool series_level(const struct series *series, char *why, size_t why_size)
{
    if (series->n < SERIES_LEAST) {
        snprintf(why, why_size, "%zu samples are too few", series->n);
        return false;
    }
    for (size_t i = 0; i < series->n_columns; i++) {
        const struct series_column *column = &series->columns[i];
        const double middle = mean_of_third(series, i, 1), last = mean_of_third(series, i, 2);
        if (!column->judged || last <= middle * (1 + column->tolerance) + column->slack)
            continue;
        snprintf(why, why_size, "%s still grows: %.1f %s in the middle third, %.1f in the last, allowed %.1f %% and %.1f",
                 column->name, middle, column->unit, last, column->tolerance * 100, column->slack);
        return false;
    }
    return true;
}
