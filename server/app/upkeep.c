/*
 * upkeep.c - see upkeep.h. A job is due at a time or running; the timer is set for the earliest that is due.
 */
#include "app/upkeep.h"

#include "base/list.h"
#include "base/log.h"

static const struct {
    const char *name;
    enum st_kind kind;
    int64_t every_ms, first_ms; /* first: uniform in [0, this), so that servers which start together part */
    int64_t limit_ms;           /* it ends, or is given up, within this */
} plans[APP_JOBS] = {
    [APP_SWEEP] = {"sweep", ST_SWEEP, APP_SWEEP_MS, APP_SWEEP_MS, 8 * 1000},
    [APP_MAKE] = {"make_partitions", ST_MAKE_PARTITIONS, APP_MAKE_MS, 0, 30 * 1000},
    [APP_DROP] = {"drop_partitions", ST_DROP_PARTITIONS, APP_DROP_MS, APP_DROP_FIRST_MS, 10 * 60 * 1000},
};

static int64_t now(const struct app_upkeep *upkeep)
{
    return upkeep->io->now_ms(upkeep->io);
}

static void set_timer(struct app_upkeep *upkeep)
{
    int64_t due = INT64_MAX;

    for (int i = 0; i < APP_JOBS; i++) {
        if (!upkeep->jobs[i].running && upkeep->jobs[i].due_ms < due)
            due = upkeep->jobs[i].due_ms;
    }
    if (due < INT64_MAX && !upkeep->stopped)
        upkeep->io->timer_set(upkeep->io, &upkeep->timer, due);
}

/* A tenth of the time earlier or later, so that servers don't fall into step. */
static int64_t next(struct app_upkeep *upkeep, int64_t in_ms)
{
    int64_t tenth = in_ms / 10;
    return now(upkeep) + in_ms - tenth + (int64_t)hb_random_below(&upkeep->random, (uint64_t)(2 * tenth + 1));
}

/* A database that is away is the store's to tell of; anything else is told when it begins. */
static void tell(struct app_job *job, const char *name)
{
    const struct st_item *item = &job->item;
    bool away = item->outcome == ST_DATABASE_DOWN || item->outcome == ST_TIMED_OUT || item->outcome == ST_OUTCOME_LOST;

    if (item->outcome < ST_OUTCOME_LOST && item->out.done.rows)
        log_event(item->kind == ST_SWEEP ? LOG_AT_DEBUG : LOG_AT_INFO, "app.upkeep", log_str("job", name),
                  log_int("rows", item->out.done.rows));
    else if (item->outcome >= ST_OUTCOME_LOST && !away && job->last != item->outcome)
        log_warn("app.upkeep_failed", log_str("job", name), log_int("outcome", item->outcome), log_str("sqlstate", item->sqlstate));
    job->last = item->outcome;
}

static void on_done(struct st_item *item)
{
    struct app_job *job = list_entry(item, struct app_job, item);
    struct app_upkeep *upkeep = job->upkeep;
    int kind = (int)(job - upkeep->jobs);
    int64_t in_ms = plans[kind].every_ms;

    job->running = false;
    tell(job, plans[kind].name);
    if (item->outcome >= ST_OUTCOME_LOST && in_ms > APP_UPKEEP_RETRY_MS)
        in_ms = APP_UPKEEP_RETRY_MS;
    else if (item->outcome < ST_OUTCOME_LOST && kind == APP_SWEEP && item->out.done.rows >= APP_SWEEP_ROWS)
        in_ms = APP_SWEEP_AGAIN_MS;
    job->due_ms = next(upkeep, in_ms);
    set_timer(upkeep);
}

static void begin(struct app_job *job, int kind)
{
    struct app_upkeep *upkeep = job->upkeep;

    job->running = true;
    job->item =
        (struct st_item){.kind = plans[kind].kind, .ns = "", .deadline_ms = now(upkeep) + plans[kind].limit_ms, .done = on_done};
    if (kind == APP_SWEEP)
        job->item.in.sweep.max = APP_SWEEP_ROWS;
    else if (kind == APP_MAKE)
        job->item.in.partitions.months_ahead = APP_MONTHS_AHEAD;
    upkeep->submit(upkeep->arg, &job->item);
}

static void on_timer(struct io_timer *timer)
{
    struct app_upkeep *upkeep = list_entry(timer, struct app_upkeep, timer);

    for (int i = 0; i < APP_JOBS; i++) {
        if (upkeep->jobs[i].running || upkeep->jobs[i].due_ms > now(upkeep))
            continue;
        if (i == APP_SWEEP && upkeep->look)
            upkeep->look(upkeep->arg);
        begin(&upkeep->jobs[i], i);
    }
    set_timer(upkeep);
}

void app_upkeep_start(struct app_upkeep *upkeep, struct io *io, void (*submit)(void *arg, struct st_item *item),
                      void (*look)(void *arg), void *arg)
{
    *upkeep = (struct app_upkeep){.io = io, .submit = submit, .look = look, .arg = arg, .timer = {.fire = on_timer}};
    hb_random_seed_os(&upkeep->random);
    for (int i = 0; i < APP_JOBS; i++)
        upkeep->jobs[i] = (struct app_job){
            .upkeep = upkeep, .due_ms = now(upkeep) + (int64_t)hb_random_below(&upkeep->random, (uint64_t)plans[i].first_ms)};
    set_timer(upkeep);
}

void app_upkeep_stop(struct app_upkeep *upkeep)
{
    upkeep->stopped = true;
    if (upkeep->io)
        upkeep->io->timer_cancel(upkeep->io, &upkeep->timer);
}

bool app_upkeep_busy(const struct app_upkeep *upkeep)
{
    for (int i = 0; i < APP_JOBS; i++) {
        if (upkeep->jobs[i].running)
            return true;
    }
    return false;
}
