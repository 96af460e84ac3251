/*
 * bench.h - the inside of `holdfast bench`: one process drives its share of the calls, checks each answer, and checks at the end
 * that the database holds what the answers said.
 *
 * bench.c is the command: it forks the processes and puts their results together. bench_run.c is one process: its resources, its
 * calls in flight, the measured window. bench_kinds.c is the table of kinds; bench_calls.c makes single calls and judges their
 * answers; bench_operations.c has the kinds about operations. One thread each; what the processes share is `struct bench_shared`.
 */
#ifndef HOLDFAST_CLI_BENCH_H
#define HOLDFAST_CLI_BENCH_H

#include <stdatomic.h>

#include "client/cli/bench_hist.h"
#include "client/cli/cli.h"
#include "client/lib/async.h"
#include "holdfast/v1/lease.pb-c.h"

enum { BENCH_PROCESSES_MAX = 64, BENCH_ITEMS_MAX = 1000 };

struct bench_kind;

struct bench_options {
    const struct bench_kind *kind;
    int64_t concurrency, keys, value_size, processes, items; /* of all processes together */
    int64_t operations;                                      /* so many, of all processes; 0 = for duration_ms, after warm_up_ms */
    int64_t duration_ms, warm_up_ms, ttl_ms;
    char id[16]; /* of this run: its resources are bench/ID/… */
};

/* What one process tells. Written by it alone. */
struct bench_part {
    atomic_uint_fast64_t ops_now; /* since the window began */
    uint64_t ops;                 /* within the window */
    int64_t ns;                   /* how long that was */
    struct bench_hist hist;
    int exit;                /* enum cli_exit */
    struct hp_status status; /* if exit: why */
    bool unreachable;
    char wrong[256]; /* what was not as it should be; "" = all was */
};

/* In memory that all processes see. */
struct bench_shared {
    atomic_uint ready;        /* processes that could begin */
    atomic_int_fast64_t t0;   /* CLOCK_MONOTONIC in ns: work begins; 0 = not yet */
    atomic_bool stop;         /* begin nothing more */
    struct bench_part part[]; /* of each process */
};

struct bench_key {
    char name[48];
    int64_t token; /* of the newest grant */
    int64_t first_token, grants;
    int64_t version, writes;
    int64_t write_seq;
    int64_t renewed_ms;  /* before the newest grant or renewal was sent */
    int64_t released_ns; /* when the last release was sent; 0 = never */
    bool held;
};

/* One call in flight, and what it is part of. */
struct bench_slot {
    struct bench_run *run;
    struct hfi_async_call *call;
    size_t first_key, n_keys, at; /* its resources, and which of them is worked on */
    unsigned step;
    uint64_t count;   /* what its operation counts */
    int64_t start_ns; /* of its operation */
    int64_t sent_ms;  /* of its last acquire or renewal */
    uint64_t serial;  /* of its acquires */
};

struct bench_run {
    struct cli *cli;
    const struct bench_options *options;
    struct bench_shared *shared;
    struct bench_part *part;
    unsigned process;
    struct hfi_async *async;
    struct bench_slot *slots;
    size_t n_slots;     /* that are there */
    size_t concurrency; /* of them are used in the window */
    struct bench_key *keys;
    size_t n_keys;
    int64_t to_begin; /* operations, if their number is given */
    uint8_t *value;   /* value_size bytes */
    bool failed;      /* its part tells why */
    bool quiet;       /* it was told before */
    Holdfast__V1__LeaseItem *items, **pointers;
};

/* What an answer means to the operation. */
enum bench_next {
    BENCH_MORE,  /* it has another call */
    BENCH_DONE,  /* it counts `slot->count` */
    BENCH_AGAIN, /* it didn't count: another one begins */
    BENCH_FAILED
};

struct bench_kind {
    const char *name, *summary;
    unsigned concurrency, keys_each; /* by default */
    bool held;                       /* its resources are leased all the time */
    bool shared;                     /* several calls may be about one resource */
    bool operations;                 /* its keys are of operations: nothing is leased */
    bool keeps_value;                /* and each keeps a value as its result */
    bool action;                     /* needs --action */
    /* Between two operations of a slot its step is 0: only then may it end. Starts the operation's next call. False: the run has
     * failed. */
    bool (*send)(struct bench_slot *slot);
    enum bench_next (*answered)(struct bench_slot *slot);
};

/* bench_kinds.c: ended by a NULL name */
extern const struct bench_kind bench_kinds[];

/* bench_operations.c */
bool bench_record_send(struct bench_slot *slot);
enum bench_next bench_record_answered(struct bench_slot *slot);
bool bench_begin_complete_send(struct bench_slot *slot);
enum bench_next bench_begin_complete_answered(struct bench_slot *slot);
bool bench_execute_send(struct bench_slot *slot);
enum bench_next bench_execute_answered(struct bench_slot *slot);
/* The last operation of each lane was kept: its repeat is told so, and other parameters are a conflict. */
bool bench_verify_operations(struct bench_run *run);

/* bench_run.c: the whole life of one process's share; its part tells how it ended */
void bench_process(struct bench_run *run);
int64_t bench_now_ns(void);
/* The run has failed: notes the first cause. Always false. */
bool bench_wrong(struct bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool bench_call_failed(struct bench_run *run, const struct hfi_async_call *call, const char *what, const char *name);
/* Does one call for each resource, all slots working. False: the run has failed. */
struct bench_stage {
    bool (*send)(struct bench_slot *slot, struct bench_key *key);
    bool (*took)(struct bench_slot *slot, struct bench_key *key);
    bool only_held; /* resources that are leased now */
    bool only_used; /* lanes of keys that were used */
};
bool bench_each(struct bench_run *run, const struct bench_stage *stage) __attribute__((warn_unused_result));

/* bench_calls.c: starts a call; and takes its answer, which is checked. False: the run has failed. */
struct bench_key *bench_key(const struct bench_slot *slot);
bool bench_send_acquire(struct bench_slot *slot, struct bench_key *key, int64_t wait_ms);
bool bench_took_grant(struct bench_slot *slot, struct bench_key *key, bool *held); /* held: not granted, by somebody else's lease */
bool bench_send_release(struct bench_slot *slot, struct bench_key *key);
bool bench_took_release(struct bench_slot *slot, struct bench_key *key);
bool bench_send_renew(struct bench_slot *slot, struct bench_key *keys, size_t n);
bool bench_took_renewal(struct bench_slot *slot, struct bench_key *keys, size_t n);
bool bench_send_write(struct bench_slot *slot, struct bench_key *key);
bool bench_took_write(struct bench_slot *slot, struct bench_key *key);
bool bench_send_check(struct bench_slot *slot, struct bench_key *key);
bool bench_took_check(struct bench_slot *slot, struct bench_key *key);
bool bench_send_read(struct bench_slot *slot, struct bench_key *key);
bool bench_took_read(struct bench_slot *slot, struct bench_key *key);
/* run->value is what the write number `write_seq` of this resource writes. */
void bench_fill_value(struct bench_run *run, const struct bench_key *key);

#endif
