/*
 * bench_kinds.c - what the kinds of bench do over and over, as state machines of one slot each. See bench.h.
 */
#include "client/cli/bench.h"

enum { WAIT_MS = 20000 };

static void next_key(struct bench_slot *slot)
{
    slot->at = (slot->at + 1) % slot->n_keys;
}

/* One call, whose answer was good or not, about one resource. */
static enum bench_next one_call(struct bench_slot *slot, bool good)
{
    next_key(slot);
    return good ? BENCH_DONE : BENCH_FAILED;
}

/* ---- acquire-release ---- */

static bool cycle_send(struct bench_slot *slot)
{
    return slot->step == 0 ? bench_send_acquire(slot, bench_key(slot), 0) : bench_send_release(slot, bench_key(slot));
}

static enum bench_next cycle_answered(struct bench_slot *slot)
{
    if (slot->step == 0) {
        slot->step = 1;
        return bench_took_grant(slot, bench_key(slot), NULL) ? BENCH_MORE : BENCH_FAILED;
    }
    slot->step = 0;
    return one_call(slot, bench_took_release(slot, bench_key(slot)));
}

/* ---- renew, renew-many ---- */

static bool renew_send(struct bench_slot *slot)
{
    return bench_send_renew(slot, bench_key(slot), 1);
}

static enum bench_next renew_answered(struct bench_slot *slot)
{
    return one_call(slot, bench_took_renewal(slot, bench_key(slot), 1));
}

static size_t group(const struct bench_slot *slot)
{
    const size_t left = slot->n_keys - slot->at, items = (size_t)slot->run->options->items;

    return left < items ? left : items;
}

static bool renew_many_send(struct bench_slot *slot)
{
    return bench_send_renew(slot, bench_key(slot), group(slot));
}

static enum bench_next renew_many_answered(struct bench_slot *slot)
{
    const bool good = bench_took_renewal(slot, bench_key(slot), group(slot));

    slot->count = group(slot);
    slot->at = (slot->at + group(slot)) % slot->n_keys;
    return good ? BENCH_DONE : BENCH_FAILED;
}

/* ---- write, check ---- */

static bool write_send(struct bench_slot *slot)
{
    return bench_send_write(slot, bench_key(slot));
}

static enum bench_next write_answered(struct bench_slot *slot)
{
    return one_call(slot, bench_took_write(slot, bench_key(slot)));
}

static bool check_send(struct bench_slot *slot)
{
    return bench_send_check(slot, bench_key(slot));
}

static enum bench_next check_answered(struct bench_slot *slot)
{
    return one_call(slot, bench_took_check(slot, bench_key(slot)));
}

/* ---- hand-over ---- */

static bool hand_over_send(struct bench_slot *slot)
{
    return slot->step == 0 ? bench_send_acquire(slot, bench_key(slot), WAIT_MS) : bench_send_release(slot, bench_key(slot));
}

/* The operation is the time from the holder's release to the next grant; only to one who has waited. */
static enum bench_next hand_over_answered(struct bench_slot *slot)
{
    struct bench_key *key = bench_key(slot);
    bool held = false;

    if (slot->step == 1) {
        slot->step = 0;
        return bench_took_release(slot, key) ? BENCH_AGAIN : BENCH_FAILED;
    }
    if (!bench_took_grant(slot, key, &held))
        return BENCH_FAILED;
    if (held)
        return BENCH_AGAIN;
    slot->step = 1;
    if (slot->start_ns >= key->released_ns)
        return BENCH_AGAIN;
    slot->start_ns = key->released_ns;
    return BENCH_DONE;
}

/* ---- mix ---- */

enum { MIX_ACQUIRE, MIX_WRITE, MIX_RENEW, MIX_CHECK, MIX_RELEASE, MIX_STEPS };

static bool mix_send(struct bench_slot *slot)
{
    struct bench_key *key = bench_key(slot);

    switch (slot->step) {
    case MIX_ACQUIRE:
        return bench_send_acquire(slot, key, 0);
    case MIX_WRITE:
        return bench_send_write(slot, key);
    case MIX_RENEW:
        return bench_send_renew(slot, key, 1);
    case MIX_CHECK:
        return bench_send_check(slot, key);
    default:
        return bench_send_release(slot, key);
    }
}

static bool mix_took(struct bench_slot *slot, struct bench_key *key)
{
    switch (slot->step) {
    case MIX_ACQUIRE:
        return bench_took_grant(slot, key, NULL);
    case MIX_WRITE:
        return bench_took_write(slot, key);
    case MIX_RENEW:
        return bench_took_renewal(slot, key, 1);
    case MIX_CHECK:
        return bench_took_check(slot, key);
    default:
        return bench_took_release(slot, key);
    }
}

static enum bench_next mix_answered(struct bench_slot *slot)
{
    if (!mix_took(slot, bench_key(slot)))
        return BENCH_FAILED;
    slot->step = (slot->step + 1) % MIX_STEPS;
    if (slot->step == 0)
        next_key(slot);
    return BENCH_DONE;
}

const struct bench_kind bench_kinds[] = {
    {"acquire-release", "a lease taken and given back; one operation is both calls", 64, 16, .send = cycle_send,
     .answered = cycle_answered},
    {"renew", "one lease a call", 64, 16, .held = true, .send = renew_send, .answered = renew_answered},
    {"renew-many", "500 leases a call, or --items N; one operation is one lease renewed, a latency that of a call", 4, 500,
     .held = true, .send = renew_many_send, .answered = renew_many_answered},
    {"write", "one guarded value a call", 64, 16, .held = true, .send = write_send, .answered = write_answered},
    {"check", "one token a call", 64, 16, .held = true, .send = check_send, .answered = check_answered},
    {"hand-over", "callers wait for one resource (--keys N: for several); from the holder's release to the next grant", 3, 0,
     .shared = true, .send = hand_over_send, .answered = hand_over_answered},
    {"mix", "acquire, write, renew, check and release in turn; one operation is one call", 64, 16, .send = mix_send,
     .answered = mix_answered},
    {.name = "record",
     .summary = "a result kept under a new key",
     .concurrency = 64,
     .keys_each = 16,
     .operations = true,
     .keeps_value = true,
     .send = bench_record_send,
     .answered = bench_record_answered},
    {.name = "begin-complete",
     .summary = "an operation begun and completed under a new key; one operation is both calls",
     .concurrency = 64,
     .keys_each = 16,
     .operations = true,
     .keeps_value = true,
     .send = bench_begin_complete_send,
     .answered = bench_begin_complete_answered},
    {.name = "execute",
     .summary = "a registered action (--action A) executed under a new key",
     .concurrency = 64,
     .keys_each = 16,
     .operations = true,
     .action = true,
     .send = bench_execute_send,
     .answered = bench_execute_answered},
    {NULL},
};
