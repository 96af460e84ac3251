/*
 * gaps.c - see gaps.h.
 */
#include "core/gaps.h"

#include <stdlib.h>
#include <string.h>

enum { NEAR = 4096 };

void co_gaps_release(struct co_gaps *gaps)
{
    free(gaps->list);
    free(gaps->writers);
    *gaps = (struct co_gaps){0};
}

static bool append(struct co_gaps *gaps, int64_t from, int64_t to, uint64_t since)
{
    struct co_gap *last = gaps->n ? &gaps->list[gaps->n - 1] : NULL;
    if (last && last->to + 1 == from && last->since == since) {
        last->to = to;
        return true;
    }
    if (gaps->n == CO_GAPS_MAX)
        return false;
    if (gaps->n == gaps->cap) {
        size_t cap = gaps->cap ? gaps->cap * 2 : 16;
        struct co_gap *list = realloc(gaps->list, cap * sizeof(*list));
        if (!list)
            return false;
        gaps->list = list;
        gaps->cap = cap;
    }
    gaps->list[gaps->n++] = (struct co_gap){from, to, since};
    return true;
}

/* ------------------------------------------------------------------------------------------------ writers */

/* The next "backend/transaction" of the text. False: there is none. */
static bool next_writer(const char **text, struct co_writer *out)
{
    char *end;
    long backend = strtol(*text, &end, 10);
    if (end == *text || *end != '/')
        return false;
    const char *at = end + 1;
    unsigned long transaction = strtoul(at, &end, 10);
    if (end == at)
        return false;
    *out = (struct co_writer){.backend = (int32_t)backend, .transaction = (uint32_t)transaction};
    *text = *end == ' ' ? end + 1 : end;
    return true;
}

static size_t count_writers(const char *text)
{
    size_t n = 0;
    for (const char *at = text; at && *at; at++)
        n += *at == '/';
    return n;
}

/* These are the writers now; those that were there before keep their `since`. */
static bool take_writers(struct co_gaps *gaps, const char *text)
{
    size_t n = count_writers(text), filled = 0;
    if (n > CO_WRITERS_MAX)
        return false;
    struct co_writer *writers = n ? malloc(n * sizeof(*writers)) : NULL, writer;
    if (n && !writers)
        return false;
    while (filled < n && next_writer(&text, &writer)) {
        writer.since = gaps->unsure ? 0 : gaps->look;
        for (size_t i = 0; i < gaps->n_writers; i++) {
            if (gaps->writers[i].backend == writer.backend && gaps->writers[i].transaction == writer.transaction)
                writer.since = gaps->writers[i].since;
        }
        writers[filled++] = writer;
    }
    free(gaps->writers);
    gaps->writers = writers;
    gaps->n_writers = filled;
    gaps->unsure = false;
    return filled == n;
}

/* Whoever is still there came at this look or later; gaps that were seen before it are nobody's. */
static uint64_t oldest_writer(const struct co_gaps *gaps)
{
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < gaps->n_writers; i++) {
        if (gaps->writers[i].since < oldest)
            oldest = gaps->writers[i].since;
    }
    return oldest;
}

/* ------------------------------------------------------------------------------------------------ looks */

bool co_gaps_begin(struct co_gaps *gaps, int64_t high, const char *writers)
{
    gaps->n = gaps->n_writers = 0;
    gaps->unsure = false;
    gaps->high = high;
    gaps->look = 1;
    return take_writers(gaps, writers);
}

bool co_gaps_add(struct co_gaps *gaps, int64_t from, int64_t to)
{
    if (from > to || to > gaps->high || (gaps->n && from <= gaps->list[gaps->n - 1].to))
        return false;
    return append(gaps, from, to, gaps->look);
}

/* What of the gap was not seen is kept, unless its writer is gone. The numbers that were are passed over. */
static bool keep(struct co_gaps *to, const struct co_gap *gap, uint64_t oldest, const int64_t **seen, const int64_t *end)
{
    int64_t from = gap->from;
    bool nobodys = gap->since < oldest;
    for (; *seen < end && **seen <= gap->to; (*seen)++) {
        if (**seen < from)
            return false;
        if (**seen > from && !nobodys && !append(to, from, **seen - 1, gap->since))
            return false;
        from = **seen + 1;
    }
    return from > gap->to || nobodys || append(to, from, gap->to, gap->since);
}

bool co_gaps_look(struct co_gaps *gaps, int64_t high, const char *writers, const int64_t *seen, size_t n)
{
    struct co_gaps old = *gaps;
    const int64_t *at = seen, *end = seen + n;
    gaps->look++;
    gaps->list = NULL;
    gaps->n = gaps->cap = 0;
    bool ok = high >= gaps->high && take_writers(gaps, writers);
    uint64_t oldest = ok ? oldest_writer(gaps) : 0;
    for (size_t i = 0; ok && i < old.n; i++)
        ok = keep(gaps, &old.list[i], oldest, &at, end);
    /* What is new and has no writer at all is nobody's at once. */
    struct co_gap fresh = {gaps->high + 1, high, gaps->look};
    ok = ok && keep(gaps, &fresh, oldest, &at, end) && at == end;
    gaps->high = high;
    free(old.list);
    return ok;
}

void co_gaps_unsure(struct co_gaps *gaps)
{
    gaps->unsure = true;
}

int64_t co_gaps_settled(const struct co_gaps *gaps)
{
    return gaps->n ? gaps->list[0].from - 1 : gaps->high;
}

bool co_gaps_has(const struct co_gaps *gaps, int64_t number)
{
    size_t low = 0, high = gaps->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (gaps->list[mid].to < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < gaps->n && gaps->list[low].from <= number;
}

/* Stretches that join whatever is nearer than `near`; 0: they are too many. */
static size_t stretches(const struct co_gaps *gaps, int64_t near, int64_t *from, int64_t *to)
{
    size_t n = 0;
    for (size_t i = 0; i <= gaps->n; i++) {
        int64_t low = i < gaps->n ? gaps->list[i].from : gaps->high + 1;
        int64_t high = i < gaps->n ? gaps->list[i].to : INT64_MAX;
        if (n && low - to[n - 1] <= near) {
            to[n - 1] = high;
            continue;
        }
        if (n == CO_STRETCHES_MAX)
            return 0;
        from[n] = low;
        to[n++] = high;
    }
    return n;
}

size_t co_gaps_stretches(const struct co_gaps *gaps, int64_t *from, int64_t *to)
{
    int64_t near = NEAR;
    size_t n = stretches(gaps, near, from, to);
    while (!n && near < INT64_MAX / 4) {
        near *= 4;
        n = stretches(gaps, near, from, to);
    }
    return n;
}
