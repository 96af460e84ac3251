/*
 * operations_oracle.c - see operations_oracle.h.
 */
#include "robustness/operations_oracle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PENDING = 1, RUNNING, SUCCEEDED, FAILED, UNKNOWN, REVIEW, CANCELLED };

struct judging {
    const struct oo_history *h;
    char *why;
    size_t size;
    int found;
};

static void find(struct judging *j, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void find(struct judging *j, const char *key, const char *format, ...)
{
    va_list args;
    if (j->found++ > 0)
        return;
    const int n = snprintf(j->why, j->size, "%s: ", key);
    va_start(args, format);
    if ((size_t)n < j->size)
        vsnprintf(j->why + n, j->size - (size_t)n, format, args);
    va_end(args);
}

/* Each item of one kind that has this key. */
#define EACH(h, kind, item, of)                                                                                                    \
    for (const struct oo_##kind *item = (h)->kind##s; item < (h)->kind##s + (h)->n_##kind##s; item++)                              \
        if (!strcmp(item->key, (of)))

static bool is_final(const struct oo_event *e)
{
    return (e->told == OO_DONE && e->call != OO_SENDING) || e->told == OO_REPLAYED || e->told == OO_FAILED;
}

/* Other parameters are a conflict, and the same ones are none, whatever else there is to say. */
static void judge_parameters(struct judging *j, const struct oo_operation *o)
{
    EACH(j->h, event, e, o->key)
    {
        if (e->call > OO_EXECUTE || e->told == OO_NOTHING)
            continue;
        if (e->print != o->print && e->told != OO_CONFLICT)
            find(j, o->key, "other parameters were no conflict");
        else if (e->print == o->print && e->told == OO_CONFLICT)
            find(j, o->key, "the same parameters were a conflict");
    }
}

/* One after the other; the last one may have succeeded; none is left running. */
static void judge_attempts(struct judging *j, const struct oo_operation *o)
{
    const struct oo_attempt *last = NULL;
    int lost = 0;
    EACH(j->h, attempt, a, o->key)
    {
        if (last && (a->token <= last->token || a->attempt <= last->attempt))
            find(j, o->key, "attempt %d has token %" PRId64 ", the one before it %" PRId64, a->attempt, a->token, last->token);
        if (last && last->outcome == 1)
            find(j, o->key, "an attempt was started after the one that succeeded");
        if (last && last->outcome == 0)
            find(j, o->key, "an attempt was started while another one ran");
        lost += a->lost;
        last = a;
    }
    if (last && last->outcome == 1 && o->state != SUCCEEDED)
        find(j, o->key, "its attempt has succeeded, and it is in state %d", o->state);
    if (last && last->outcome == 0 && o->state != RUNNING)
        find(j, o->key, "an attempt of it runs, and it is in state %d", o->state);
    if ((last ? last->token : 0) != o->token || (last && last->attempt > o->attempts))
        find(j, o->key, "its newest attempt is another one than it says");
    if (lost != o->lost)
        find(j, o->key, "%d attempts were lost, and the trail tells of %d", lost, o->lost);
    if (o->state == RUNNING)
        find(j, o->key, "it still runs");
}

/* One effect of what succeeded, with that result; none of anything else. */
static void judge_effects(struct judging *j, const struct oo_operation *o)
{
    const int wanted = o->state == SUCCEEDED && !o->reconciled;
    int n = 0, payments = 0;
    EACH(j->h, effect, e, o->key)
    {
        n++;
        if (strcmp(e->result, o->result) != 0)
            find(j, o->key, "an effect of %s, and the result is %s", e->result, o->result);
    }
    if (n != wanted)
        find(j, o->key, "%d effects, %d wanted, in state %d", n, wanted, o->state);
    EACH(j->h, payment, p, o->key)
    {
        payments++;
    }
    if (payments > 1)
        find(j, o->key, "paid %d times", payments);
    if (payments > 0 && o->state != SUCCEEDED && o->state != UNKNOWN)
        find(j, o->key, "paid, and it is in state %d", o->state);
    if (payments == 0 && o->reconciled)
        find(j, o->key, "said to have been paid, and it was not");
}

/* What callers were told is what stands, and at most one of them did it. */
static void judge_told(struct judging *j, const struct oo_operation *o)
{
    int done = 0;
    EACH(j->h, event, e, o->key)
    {
        bool known = e->told != OO_STARTED;
        done += e->told == OO_DONE && e->call != OO_SENDING;
        if (e->told == OO_FAILED && o->state != FAILED && o->state != CANCELLED)
            find(j, o->key, "told to have failed, and it is in state %d", o->state);
        if (is_final(e) && e->told != OO_FAILED && (o->state != SUCCEEDED || strcmp(e->result, o->result) != 0))
            find(j, o->key, "the result %s was told, and it is in state %d with %s", e->result, o->state, o->result);
        EACH(j->h, attempt, a, o->key)
        {
            known = known || a->token == e->token;
        }
        if (!known)
            find(j, o->key, "an attempt was started under token %" PRId64 ", and there is none", e->token);
    }
    if (done > 1)
        find(j, o->key, "%d callers did it", done);
}

/* `b` was asked after `a` was answered. */
static void judge_pair(struct judging *j, const struct oo_event *a, const struct oo_event *b)
{
    if (is_final(a) && (b->told == OO_STARTED || b->told == OO_DONE || b->told == OO_OPEN))
        find(j, a->key, "it went on after its end was told");
    if (a->told != OO_STARTED)
        return;
    if (b->told == OO_STARTED && b->token <= a->token)
        find(j, a->key, "token %" PRId64 " was given out after %" PRId64, b->token, a->token);
    if (b->told == OO_DONE && b->call >= OO_SENDING && b->token < a->token)
        find(j, a->key, "a call under token %" PRId64 " was accepted after %" PRId64 " was given out", b->token, a->token);
}

static void judge_order(struct judging *j, const struct oo_operation *o)
{
    EACH(j->h, event, a, o->key)
    {
        EACH(j->h, event, b, o->key)
        {
            if (a->to_ns < b->from_ns)
                judge_pair(j, a, b);
            else if (a < b && a->told == OO_STARTED && b->told == OO_STARTED && a->token == b->token)
                find(j, o->key, "two callers were given token %" PRId64, a->token);
        }
    }
}

/* With the events of this key alone: of those pairs are looked at. */
static struct oo_history of_key(const struct oo_history *h, const char *key)
{
    struct oo_history mine = *h;
    mine.n_events = 0;
    EACH(h, event, e, key)
    {
        if (mine.n_events++ == 0)
            mine.events = h->events + (e - h->events);
    }
    return mine;
}

int oo_judge(const struct oo_history *history, char *why, size_t size)
{
    struct judging j = {.h = history, .why = why, .size = size};
    why[0] = '\0';
    for (const struct oo_event *e = history->events; e < history->events + history->n_events; e++) {
        bool known = e->told == OO_NOTHING || e->told == OO_REFUSED;
        EACH(history, operation, o, e->key)
        {
            known = true;
        }
        if (!known)
            find(&j, e->key, "told of, and there is no such operation");
    }
    for (const struct oo_operation *o = history->operations; o < history->operations + history->n_operations; o++) {
        struct oo_history mine = of_key(history, o->key);
        j.h = &mine;
        judge_parameters(&j, o);
        judge_attempts(&j, o);
        judge_effects(&j, o);
        judge_told(&j, o);
        judge_order(&j, o);
    }
    return j.found;
}
