/*
 * points.c - see points.h. What was handed out is in a table by its address, with open addressing: it may not allocate itself.
 */
#include "failing/points.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 1 << 16, PLACES = 1024, TEXT = 256 };

static _Thread_local int inside;
static atomic_bool all_inside;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */

static struct {
    struct fp_plan plan;
    bool armed, waits_for_loss, sent;
    long passed, reached;
} now;

/* Where points have failed, and how often. */
static struct {
    const void *caller;
    int times;
} places[PLACES];

static char where[2 * TEXT] = "no point";

static struct slot {
    const void *what; /* NULL: free; GONE: was in use */
    const void *caller;
} slots[SLOTS];
static const char GONE;
static size_t live;

const char *fp_kind_name(enum fp_kind kind)
{
    static const char *const names[FP_KINDS] = {"memory", "libpq", "libpq's memory"};
    return names[kind];
}

/* "PROGRAM+0x1234", for addr2line. */
static const char *name_of(const void *address)
{
    static _Thread_local char text[TEXT];
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname)
        return "?";
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(text, sizeof(text), "%s+0x%zx", slash ? slash + 1 : info.dli_fname,
             (size_t)((uintptr_t)address - (uintptr_t)info.dli_fbase));
    return text;
}

void fp_enter(void)
{
    inside++;
}

void fp_leave(void)
{
    inside--;
}

void fp_enter_all(void)
{
    atomic_store(&all_inside, true);
}

void fp_leave_all(void)
{
    atomic_store(&all_inside, false);
}

static bool is_inside(void)
{
    return inside || atomic_load(&all_inside);
}

/* ------------------------------------------------------------------------------------------------ points */

void fp_arm(const struct fp_plan *plan)
{
    pthread_mutex_lock(&lock);
    memset(&now, 0, sizeof(now));
    now.plan = *plan;
    now.waits_for_loss = plan->after_loss;
    now.armed = true;
    pthread_mutex_unlock(&lock);
    snprintf(where, sizeof(where), "%s, before point %ld of %s", plan->what, plan->from, fp_kind_name(plan->kind));
}

long fp_disarm(void)
{
    pthread_mutex_lock(&lock);
    now.armed = false;
    long reached = now.reached;
    pthread_mutex_unlock(&lock);
    return reached;
}

long fp_passed(void)
{
    return now.passed;
}

void fp_forget(void)
{
    memset(places, 0, sizeof(places));
}

const char *fp_where(void)
{
    return where;
}

/* The place fails once more; false: it has failed often enough. */
static bool place_fails(const void *caller)
{
    size_t i = 0;
    while (places[i].caller && places[i].caller != caller)
        if (++i == PLACES)
            abort();
    if (now.plan.each_place && places[i].times >= now.plan.each_place)
        return false;
    places[i].caller = caller;
    places[i].times++;
    return true;
}

static bool point(enum fp_kind kind, const char *call, size_t size, const void *caller)
{
    if (!now.armed || now.plan.kind != kind || now.waits_for_loss)
        return false;
    long n = ++now.passed;
    if (now.reached || n < now.plan.from || !place_fails(caller))
        return false;
    now.reached = n;
    snprintf(where, sizeof(where), "%s, point %ld of %s: %s(%zu) at %s", now.plan.what, n, fp_kind_name(kind), call, size,
             name_of(caller));
    return true;
}

bool fp_point(enum fp_kind kind, const char *call, size_t size, const void *caller)
{
    if (!is_inside())
        return false;
    pthread_mutex_lock(&lock);
    bool fails = point(kind, call, size, caller);
    pthread_mutex_unlock(&lock);
    if (fails)
        errno = ENOMEM;
    return fails;
}

void fp_sent_prepared(void)
{
    if (inside && now.armed && now.waits_for_loss)
        now.sent = true;
}

bool fp_loses_answer(void)
{
    if (!inside || !now.armed || !now.waits_for_loss || !now.sent)
        return false;
    now.waits_for_loss = false;
    return true;
}

/* ------------------------------------------------------------------------------------------------ what is out */

static size_t home_of(const void *what)
{
    return (size_t)(((uintptr_t)what >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
}

void *fp_keep(void *what, const void *caller)
{
    if (!what || !is_inside())
        return what;
    pthread_mutex_lock(&lock);
    for (size_t i = home_of(what);; i = (i + 1) % SLOTS) {
        if (slots[i].what && slots[i].what != &GONE)
            continue;
        slots[i] = (struct slot){what, caller};
        live++;
        break;
    }
    pthread_mutex_unlock(&lock);
    return what;
}

void fp_drop(const void *what)
{
    if (!what)
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = home_of(what); slots[i].what; i = (i + 1) % SLOTS) {
        if (slots[i].what != what)
            continue;
        slots[i].what = slots[(i + 1) % SLOTS].what ? &GONE : NULL;
        live--;
        break;
    }
    pthread_mutex_unlock(&lock);
}

size_t fp_live(void)
{
    return live;
}

void fp_print_live(void)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (slots[i].what && slots[i].what != &GONE)
            fprintf(stderr, "%p: asked for at %s\n", slots[i].what, name_of(slots[i].caller));
    }
}

/* ------------------------------------------------------------------------------------------------ the watch-dog */

static void say(const char *text)
{
    ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n;
}

static void on_alarm(int signo)
{
    (void)signo;
    say("hung: ");
    say(where);
    say("\n");
    _exit(99);
}

void fp_watch(unsigned seconds)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}
