/*
 * points.h - the places where the server asks for something that it may not get, counted, and made to fail once.
 *
 * The linker hands this folder's programs what the rooms call: allocations (wrap_memory.c) and functions of libpq (wrap_libpq.c);
 * libpq's own allocations are caught in its table of addresses (libpq_memory.c). Each such call, made inside of the rooms while
 * points of its kind are armed, is a point; the n-th fails, once, as its documentation says it may.
 *
 * What the rooms have got and not given back is counted too, so that a point after which something leaks is known at once, also
 * without AddressSanitizer. A watch-dog ends the program if a point takes too long, and names it.
 *
 * Thread: any; points are armed and disarmed by one that is not inside.
 */
#ifndef HOLDFAST_TESTS_FAILING_POINTS_H
#define HOLDFAST_TESTS_FAILING_POINTS_H

#include <stdbool.h>
#include <stddef.h>

enum fp_kind {
    FP_MEMORY,       /* an allocation of our own code gets nothing */
    FP_LIBPQ,        /* a function of libpq says that it failed */
    FP_LIBPQ_MEMORY, /* an allocation of libpq's gets nothing */
    FP_KINDS
};

const char *fp_kind_name(enum fp_kind kind);

/* What follows, on this thread, is done by the rooms, or by the test again. */
void fp_enter(void);
void fp_leave(void);
/* The same for all threads: a client's own do a part of its calls. */
void fp_enter_all(void);
void fp_leave_all(void);

/* How it fails. */
struct fp_plan {
    enum fp_kind kind;
    long from;        /* the first point of this number or a higher one fails, once */
    int each_place;   /* but not at a place that has failed so often since fp_forget; 0 = however often */
    bool after_loss;  /* counting begins when an answer of the database has been lost: the first one to a prepared statement, which
                         is replaced by what libpq tells of a broken connection. So the rest is recovery */
    const char *what; /* names the run; valid until fp_disarm */
};

/* From now on points are counted. */
void fp_arm(const struct fp_plan *plan);
/* No points any more. The number of the one that failed, 0 if none did. */
long fp_disarm(void);
/* How many points there were. */
long fp_passed(void);
/* No place has failed. */
void fp_forget(void);
/* The run and the point that failed last, for messages: "acquire, warm, point 7 of memory: calloc(88) at acquire+0x1234". */
const char *fp_where(void);

/* How much of what was handed out inside is not given back: blocks, connections, results. */
size_t fp_live(void);
/* Writes them to stderr, each with the address that asked for it. */
void fp_print_live(void);

/* The program ends if this isn't called again within so many seconds; 0 = no watch. */
void fp_watch(unsigned seconds);

/* ------------------------------------------------------------------------------------------------ for the wraps */

/* True: this is the point that has to fail. `call` and `size` describe it (size 0: none), `caller` is the address it returns to. */
bool fp_point(enum fp_kind kind, const char *call, size_t size, const void *caller);
/* The first answer is to be lost now. */
bool fp_loses_answer(void);
/* The answer was to a prepared statement. */
void fp_sent_prepared(void);
/* It was handed out, or given back. NULL is allowed. */
void *fp_keep(void *what, const void *caller);
void fp_drop(const void *what);
/* libpq's allocations are caught from now on (libpq_memory.c). */
void fp_catch_libpq_memory(void);

/* What malloc and its kin are when the linker doesn't replace them. */
void *real_malloc(size_t size) __asm__("__real_malloc");
void *real_calloc(size_t n, size_t size) __asm__("__real_calloc");
void *real_realloc(void *old, size_t size) __asm__("__real_realloc");
char *real_strdup(const char *text) __asm__("__real_strdup");
char *real_strndup(const char *text, size_t len) __asm__("__real_strndup");
void real_free(void *what) __asm__("__real_free");

#endif
