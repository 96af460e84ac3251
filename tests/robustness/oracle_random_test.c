/*
 * oracle_random_test.c - the oracle passes right histories of all sorts (oracle_sim.h), and refuses each that was made wrong; and
 * it is quick enough for long runs.
 *
 * HOLDFAST_TEST_SEED: the seed that was printed.
 */
#include "harness/harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/case.h"
#include "robustness/oracle.h"
#include "robustness/oracle_fences.h"
#include "robustness/oracle_sim.h"

enum { MS = 1000000, HISTORIES = 120, CALLS = 400, MANY_CALLS = 100000, LONGEST_MS = 20000 };

struct played {
    struct history_call *calls; /* with room for one more */
    size_t n;
};

static struct played play(uint64_t seed, const struct oracle_sim_options *options)
{
    struct played played;
    played.calls = oracle_sim(seed, options, &played.n);
    played.calls = realloc(played.calls, (played.n + 1) * sizeof(played.calls[0]));
    assert_non_null(played.calls);
    return played;
}

static struct oracle_sim_options options_of(uint64_t seed)
{
    return (struct oracle_sim_options){.calls = CALLS, .workers = 2 + (int)(seed % 9), .resources = 1 + (int)(seed % 2)};
}

static void right_histories_pass(void **state)
{
    const uint64_t seed = t_seed();
    unsigned of[HISTORY_OPS][3] = {{0}};
    char why[2048];
    (void)state;
    for (uint64_t i = 0; i < HISTORIES; i++) {
        struct oracle_sim_options options = options_of(seed + i);
        options.upsets = i % 4 == 3;
        struct played played = play(seed + i, &options);
        for (size_t k = 0; k < played.n; k++)
            of[played.calls[k].op][played.calls[k].answer]++;
        if (!oracle_check_calls(played.calls, played.n, why, sizeof(why)))
            fail_msg("a right history was refused (history %" PRIu64 "): %s", i, why);
        free(played.calls);
    }
    for (int op = 0; op < HISTORY_OPS; op++)
        print_message("[     INFO ] %-8s %6u ok %6u refused %6u unknown\n", history_op_name((enum history_op)op),
                      of[op][HISTORY_OK], of[op][HISTORY_REFUSED], of[op][HISTORY_UNKNOWN]);
}

/* ------------------------------------------------------------------------------------------------ made wrong */

static bool is_ok(const struct history_call *call, enum history_op op)
{
    return call->op == op && call->answer == HISTORY_OK;
}

static bool same_resource(const struct history_call *a, const struct history_call *b)
{
    return !strcmp(a->resource, b->resource);
}

/* The number of a random call of this kind, answered OK; played->n if there is none. */
static size_t pick(const struct played *played, uint64_t *seed, enum history_op op)
{
    const size_t first = (size_t)(case_random(seed) % played->n);
    for (size_t i = 0; i < played->n; i++)
        if (is_ok(&played->calls[(first + i) % played->n], op))
            return (first + i) % played->n;
    return played->n;
}

/* Whether no other call asks for the same. */
static bool is_alone(const struct played *played, const struct history_call *call)
{
    for (size_t i = 0; i < played->n; i++) {
        const struct history_call *other = &played->calls[i];
        if (other != call && other->op == call->op && call->op != HISTORY_RENEW && same_resource(other, call) &&
            other->token == call->token && other->write_seq == call->write_seq && !strcmp(other->request_id, call->request_id))
            return false;
    }
    return true;
}

static unsigned untold(const struct played *played, const struct history_call *of)
{
    unsigned n = 0;
    for (size_t i = 0; i < played->n; i++)
        n += same_resource(&played->calls[i], of) && played->calls[i].answer == HISTORY_UNKNOWN &&
             (played->calls[i].op == HISTORY_WRITE || played->calls[i].op == HISTORY_DELETE);
    return n;
}

/* A granted acquire of a higher token than this; NULL if there is none. */
static const struct history_call *later_grant(const struct played *played, const struct history_call *call, int64_t token)
{
    for (size_t i = 0; i < played->n; i++)
        if (is_ok(&played->calls[i], HISTORY_ACQUIRE) && same_resource(&played->calls[i], call) &&
            played->calls[i].got_token > token)
            return &played->calls[i];
    return NULL;
}

static void move(struct history_call *call, int64_t start)
{
    call->start_ns = start;
    call->end_ns = start + MS;
}

static struct history_call *copy(struct played *played, const struct history_call *call)
{
    played->calls[played->n] = *call;
    return &played->calls[played->n++];
}

/* Each makes a history wrong, by a call of this kind, and says whether it could. */

static bool swap_tokens(struct played *played, struct history_call *call, uint64_t *seed)
{
    struct history_call *other = &played->calls[pick(played, seed, HISTORY_ACQUIRE)];
    struct history_call *first = call->start_ns < other->start_ns ? call : other, *second = first == call ? other : call;
    const int64_t token = first->got_token;
    if (!same_resource(first, second) || first->end_ns >= second->start_ns || token >= second->got_token ||
        !is_alone(played, second))
        return false;
    first->got_token = second->got_token;
    second->got_token = token;
    return true;
}

/* The next grant is moved to where the lease lives for sure. */
static bool take_early(struct played *played, struct history_call *call, uint64_t *seed)
{
    struct history_call *next = NULL;
    int64_t until = call->start_ns + call->ttl_ms * MS - oracle_margin_ns(call->ttl_ms);
    (void)seed;
    for (size_t i = 0; i < played->n; i++) {
        struct history_call *other = &played->calls[i];
        const bool ends = other->op == HISTORY_RELEASE || other->op == HISTORY_BREAK;
        if (!same_resource(other, call))
            continue;
        if (ends && other->token == call->got_token && other->answer != HISTORY_REFUSED && other->start_ns < until)
            until = other->start_ns;
        if (is_ok(other, HISTORY_ACQUIRE) && other->got_token > call->got_token && (!next || other->got_token < next->got_token))
            next = other;
    }
    if (!next || !is_alone(played, call) || !is_alone(played, next) || until < call->end_ns + 3 * (int64_t)MS)
        return false;
    move(next, call->end_ns + MS);
    return true;
}

/* It happens, or happened, after a newer grant was acknowledged. */
static bool make_stale(struct played *played, struct history_call *call, uint64_t *seed)
{
    const struct history_call *grant = later_grant(played, call, call->token);
    (void)seed;
    if (!grant || call->replayed || !is_alone(played, call))
        return false;
    move(call, grant->end_ns + MS);
    return true;
}

static bool outlive(struct played *played, struct history_call *call, uint64_t *seed)
{
    int64_t until = 0;
    bool granted = false;
    (void)seed;
    for (size_t i = 0; i < played->n; i++) {
        const struct history_call *other = &played->calls[i];
        granted |= is_ok(other, HISTORY_ACQUIRE) && other->got_token == call->token && same_resource(other, call);
        until = other->end_ns > until ? other->end_ns : until;
        until += other->op == HISTORY_RENEW && same_resource(other, call) && other->token == call->token ? other->ttl_ms * MS : 0;
    }
    if (!granted || call->replayed || !is_alone(played, call))
        return false;
    move(call, until + 2000 * (int64_t)MS);
    return true;
}

static bool use_after_release(struct played *played, struct history_call *call, uint64_t *seed)
{
    const struct history_call *release = NULL;
    (void)seed;
    for (size_t i = 0; i < played->n && !release; i++)
        if (is_ok(&played->calls[i], HISTORY_RELEASE) && same_resource(&played->calls[i], call) &&
            played->calls[i].token == call->token)
            release = &played->calls[i];
    if (!release || call->replayed || !is_alone(played, call))
        return false;
    move(call, release->end_ns + MS);
    return true;
}

static bool lose_write(struct played *played, struct history_call *call, uint64_t *seed)
{
    bool written = false;
    (void)seed;
    for (size_t i = 0; i < played->n; i++)
        written |= is_ok(&played->calls[i], HISTORY_WRITE) && same_resource(&played->calls[i], call) &&
                   played->calls[i].end_ns < call->start_ns;
    call->got_version = call->got_token = 0;
    call->got_value = 0;
    return written;
}

static bool change_value(struct played *played, struct history_call *call, uint64_t *seed)
{
    (void)played;
    call->got_value = call->got_value ? case_random(seed) & ~UINT64_C(1) : 0;
    return call->got_value != 0;
}

static bool repeat_otherwise(struct played *played, struct history_call *call, uint64_t *seed)
{
    struct history_call *repeat = copy(played, call);
    (void)seed;
    repeat->got_version++;
    repeat->replayed = true;
    return repeat->write_seq > 0;
}

static bool accept_twice(struct played *played, struct history_call *call, uint64_t *seed)
{
    (void)seed;
    if (call->replayed || !call->write_seq)
        return false;
    copy(played, call);
    return true;
}

/* From this version on all are higher than those can have made it that nobody was told of. */
static bool make_unasked(struct played *played, struct history_call *call, uint64_t *seed)
{
    const int64_t more = untold(played, call) + 1, from = call->got_version;
    (void)seed;
    for (size_t i = 0; i < played->n; i++)
        if (same_resource(&played->calls[i], call) && played->calls[i].answer == HISTORY_OK && played->calls[i].got_version >= from)
            played->calls[i].got_version += more;
    return true;
}

/* One more write is said not to have happened than there are that nobody was told of. */
static bool deny_writes(struct played *played, struct history_call *call, uint64_t *seed)
{
    unsigned more = untold(played, call) + 1;
    (void)seed;
    for (size_t i = 0; more > 0 && i < played->n; i++) {
        struct history_call *other = &played->calls[i];
        if (!is_ok(other, HISTORY_WRITE) || !same_resource(other, call) || !is_alone(played, other))
            continue;
        other->answer = HISTORY_REFUSED;
        snprintf(other->reason, sizeof(other->reason), "VERSION_MISMATCH");
        more--;
    }
    return more == 0;
}

static bool grant_anew(struct played *played, struct history_call *call, uint64_t *seed)
{
    (void)seed;
    copy(played, call)->got_token++;
    return true;
}

static bool grant_to_two(struct played *played, struct history_call *call, uint64_t *seed)
{
    (void)seed;
    snprintf(copy(played, call)->request_id, HISTORY_NAME, "another");
    return true;
}

static const struct {
    const char *what;
    enum history_op op;
    bool (*make)(struct played *played, struct history_call *call, uint64_t *seed);
} wrongs[] = {
    {"tokens swapped", HISTORY_ACQUIRE, swap_tokens},
    {"taken over early", HISTORY_ACQUIRE, take_early},
    {"one request, two tokens", HISTORY_ACQUIRE, grant_anew},
    {"one token, two requests", HISTORY_ACQUIRE, grant_to_two},
    {"a stale write", HISTORY_WRITE, make_stale},
    {"a stale delete", HISTORY_DELETE, make_stale},
    {"a stale renewal", HISTORY_RENEW, make_stale},
    {"a write after the TTL", HISTORY_WRITE, outlive},
    {"a write after the release", HISTORY_WRITE, use_after_release},
    {"a renewal after the release", HISTORY_RENEW, use_after_release},
    {"a write lost", HISTORY_READ, lose_write},
    {"a value nobody wrote", HISTORY_READ, change_value},
    {"a repeat told otherwise", HISTORY_WRITE, repeat_otherwise},
    {"a repeat accepted", HISTORY_WRITE, accept_twice},
    {"a version nobody asked for", HISTORY_WRITE, make_unasked},
    {"writes that were denied", HISTORY_READ, deny_writes},
};
enum { WRONGS = sizeof(wrongs) / sizeof(wrongs[0]) };

static void wrong_histories_are_refused(void **state)
{
    uint64_t seed = t_seed();
    unsigned made[WRONGS] = {0};
    char why[2048];
    (void)state;
    for (uint64_t i = 0; i < (uint64_t)HISTORIES * WRONGS; i++) {
        const size_t kind = i % WRONGS;
        const struct oracle_sim_options options = options_of(seed + i);
        struct played played = play(seed + i, &options);
        uint64_t chance = seed + i;
        bool wrong = false;
        for (int try = 0; !wrong && try < 20; try++) {
            const size_t at = pick(&played, &chance, wrongs[kind].op);
            if (at == played.n)
                break;
            const struct history_call before = played.calls[at];
            const size_t n = played.n;
            wrong = wrongs[kind].make(&played, &played.calls[at], &chance);
            if (!wrong) {
                played.calls[at] = before;
                played.n = n;
            }
        }
        if (wrong && oracle_check_calls(played.calls, played.n, why, sizeof(why)))
            fail_msg("not refused: %s, in history %" PRIu64, wrongs[kind].what, i);
        if (wrong && ++made[kind] == 1)
            print_message("[     INFO ] %s: %.*s\n", wrongs[kind].what, (int)strcspn(why, ":"), why);
        free(played.calls);
    }
    for (size_t kind = 0; kind < WRONGS; kind++)
        if (made[kind] < HISTORIES / 8)
            fail_msg("%s: only %u of %d histories were made wrong", wrongs[kind].what, made[kind], HISTORIES);
}

/* ------------------------------------------------------------------------------------------------ long ones */

static void judge_many(uint64_t seed, int resources)
{
    const struct oracle_sim_options options = {.calls = MANY_CALLS, .workers = 32, .resources = resources};
    struct played played = play(seed, &options);
    char why[2048];
    const int64_t start = t_now_ms();
    if (!oracle_check_calls(played.calls, played.n, why, sizeof(why)))
        fail_msg("a right history was refused: %s", why);
    const int64_t took = t_now_ms() - start;
    print_message("[     INFO ] %zu calls of %d resource%s judged in %" PRId64 " ms\n", played.n, resources,
                  resources > 1 ? "s" : "", took);
    assert_true(took < LONGEST_MS);
    free(played.calls);
}

static void a_hundred_thousand_calls_are_judged_quickly(void **state)
{
    const uint64_t seed = t_seed();
    (void)state;
    judge_many(seed, 1);
    judge_many(seed, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_histories_pass),
        cmocka_unit_test(wrong_histories_are_refused),
        cmocka_unit_test(a_hundred_thousand_calls_are_judged_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
