/*
 * drive.c - see drive.h.
 */
#include "failing/drive.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS_MIN = 50, POINTS_MAX = 2000, LONG_MS = 30000, WATCH_S = 60 };
/* A call whose failure is put right is over long before its own time is (30 s). */
enum { SOON_MS = 15000 };

enum phase {
    START_UP, /* the call comes while store and services are being made */
    SERVING,  /* everything serves */
    RECOVERY  /* the answer was lost with the connection: all that follows, until it is found out */
};
static const char *const phase_names[] = {"start-up", "serving", "recovery"};
enum { PHASES = 3 };

struct tally {
    long points, done, refused, refused_but_done, lost, dropped;
};

/* ------------------------------------------------------------------------------------------------ answers */

static const struct drive *drive;
static bool at_work; /* false once all points of a kind went well */

/* Errors that a call in the ordinary course may get for want of memory or of a database; never one that blames the caller or
 * says that a right is gone. A reason may be missing for lack of memory: then the code must be right. */
static void assert_legal(const struct hp_status *status)
{
    switch (status->reason) {
    case HP_R_QUEUE_FULL:
    case HP_R_DATABASE_DOWN:
    case HP_R_BUSY:
        if (status->code == hp_reason_code(status->reason))
            return;
        break;
    case HP_R_OUTCOME_LOST:
        if (status->code == HP_UNKNOWN || status->code == HP_DEADLINE_EXCEEDED)
            return;
        break;
    case HP_R_UNSPECIFIED:
        if (status->code == HP_RESOURCE_EXHAUSTED || status->code == HP_UNAVAILABLE || status->code == HP_UNKNOWN ||
            status->code == HP_DEADLINE_EXCEEDED)
            return;
        break;
    default:
        break;
    }
    fail_msg("%s: %s/%s: %s", fp_where(), hp_code_name(status->code), hp_reason_name(status->reason), status->message);
}

static bool says_unknown(const struct hp_status *status)
{
    return status->code == HP_UNKNOWN || status->code == HP_DEADLINE_EXCEEDED;
}

/* The answer's error, of the call or of its item. False: there is none. */
static bool failed(const struct rooms_answer *answer, struct hp_status *status)
{
    *status = answer->status;
    const Holdfast__V1__ItemError *error = answer->response && drive->error ? drive->error(answer->response) : NULL;
    if (!error)
        return !answer->response;
    *status = (struct hp_status){.code = (enum hp_code)error->code, .reason = hp_reason_by_name(error->reason)};
    snprintf(status->message, sizeof(status->message), "(item) %.300s", error->message);
    return true;
}

/* The call is over. True: its caller doesn't know whether it was done. */
static bool look_at(const struct rooms_call *call, const char *resource, struct tally *tally)
{
    struct rooms_answer answer;
    struct hp_status status;
    bool unknown = false;
    rooms_answer(call, drive->response, &answer);
    if (answer.dropped) {
        tally->dropped++;
        unknown = true;
    } else if (!failed(&answer, &status)) {
        drive->check(resource, answer.response);
        tally->done++;
    } else {
        assert_legal(&status);
        unknown = says_unknown(&status);
        bool done = !unknown && drive->is_done(resource);
        if (done && drive->once)
            fail_msg("%s: %s/%s: %s, but it was done", fp_where(), hp_code_name(status.code), hp_reason_name(status.reason),
                     status.message);
        tally->lost += unknown;
        tally->refused += !unknown && !done;
        tally->refused_but_done += done;
    }
    rooms_answer_free(&answer);
    return unknown;
}

/* Nothing fails: the call is done, for the first time or again. */
static void must_be_done(const char *resource, const char *what)
{
    static struct rooms_call call;
    struct rooms_answer answer;
    struct hp_status status;
    drive->send(&call, resource);
    if (drive->meanwhile)
        drive->meanwhile(&call, resource);
    rooms_run_until(rooms_is_over, &call, LONG_MS);
    rooms_answer(&call, drive->response, &answer);
    if (answer.dropped || failed(&answer, &status))
        fail_msg("%s: %s: %s/%s: %s", fp_where(), what, hp_code_name(answer.status.code), hp_reason_name(answer.status.reason),
                 answer.status.message);
    drive->check(resource, answer.response);
    rooms_answer_free(&answer);
}

/* ------------------------------------------------------------------------------------------------ one point */

static bool wants_all(void)
{
    return getenv("HOLDFAST_FAILING_ALL") != NULL;
}

/* A session is set up by a score of statements sent in the same way: of what they need, the same place fails so often, unless all
 * are wanted (HOLDFAST_FAILING_ALL). */
static int each_place(enum fp_kind kind, enum phase phase)
{
    if (kind == FP_MEMORY || phase == SERVING || wants_all())
        return 0;
    return kind == FP_LIBPQ ? 8 : 2;
}

/* The number of the point that failed, at least `from`; 0: there was none. */
static long one(enum fp_kind kind, enum phase phase, long from, struct tally *tally)
{
    static struct rooms_call call;
    char resource[64], next[80], what[64];
    struct fp_plan plan = {
        .kind = kind, .from = from, .each_place = each_place(kind, phase), .after_loss = phase == RECOVERY, .what = what};
    snprintf(what, sizeof(what), "%s, %s", drive->name, phase_names[phase]);
    snprintf(resource, sizeof(resource), "%d-%d-%ld", (int)kind, (int)phase, from);
    snprintf(next, sizeof(next), "%s-next", resource);
    fp_watch(WATCH_S);
    if (drive->prepare)
        drive->prepare(resource);
    fp_arm(&plan);
    if (phase == START_UP && !rooms_open())
        assert_true(rooms_open());
    drive->send(&call, resource);
    if (drive->meanwhile)
        drive->meanwhile(&call, resource);
    rooms_run_until(rooms_is_over, &call, SOON_MS);
    long failed_at = fp_disarm();
    rooms_run_until_quiet(LONG_MS);
    bool unknown = look_at(&call, resource, tally);
    if (!(drive->once && (unknown || drive->is_done(resource))))
        must_be_done(resource, "the repeat");
    if (drive->prepare)
        drive->prepare(next);
    must_be_done(next, "the next call");
    rooms_run_until_quiet(LONG_MS);
    return failed_at;
}

static void must_be_left(size_t live)
{
    if (fp_live() == live)
        return;
    fp_print_live();
    fail_msg("leaks: %s", fp_where());
}

static long run(enum fp_kind kind, enum phase phase)
{
    struct tally tally = {0};
    size_t live = fp_live();
    int64_t began = t_now_ms();
    long at = 0;
    fp_forget();
    do {
        if (phase != START_UP && !at) {
            assert_true(rooms_open());
            rooms_run_until_quiet(LONG_MS);
        }
        at = one(kind, phase, at + 1, &tally);
        tally.points += at != 0;
        assert_true(tally.points < POINTS_MAX);
        if (phase == START_UP || !at) {
            rooms_close();
            must_be_left(live);
        }
    } while (at);
    printf("%s, %s, %s: %ld points failed of %ld, %lld ms: %ld done, %ld refused, %ld refused and found done, %ld unknown, %ld "
           "without "
           "an answer\n",
           drive->name, fp_kind_name(kind), phase_names[phase], tally.points, fp_passed(), (long long)(t_now_ms() - began),
           tally.done, tally.refused, tally.refused_but_done, tally.lost, tally.dropped);
    fflush(stdout);
    return tally.points;
}

static void run_all(const struct drive *it, enum fp_kind kind)
{
    long points = 0;
    drive = it;
    at_work = true;
    for (int phase = 0; phase < PHASES; phase++) {
        if (phase != START_UP || kind == FP_MEMORY || (it->starts_up >> kind & 1) || wants_all())
            points += run(kind, (enum phase)phase);
    }
    fp_watch(0);
    printf("%s: %ld points of %s\n", drive->name, points, fp_kind_name(kind));
    assert_true(points > (kind == FP_LIBPQ_MEMORY ? 0 : POINTS_MIN));
    at_work = false;
}

int drive_tell(void **state)
{
    (void)state;
    if (at_work)
        fprintf(stderr, "failed at: %s\n", fp_where());
    return 0;
}

void drive_memory(const struct drive *it)
{
    run_all(it, FP_MEMORY);
}

void drive_libpq(const struct drive *it)
{
    run_all(it, FP_LIBPQ);
}

void drive_libpq_memory(const struct drive *it)
{
    run_all(it, FP_LIBPQ_MEMORY);
}

int64_t drive_lease(const char *resource, const char *holder)
{
    return t_sql_int(rooms_sql,
                     "SELECT token FROM holdfast.acquire_batch(ARRAY['default'], ARRAY['%s'], ARRAY['task'], ARRAY['%s'], "
                     "ARRAY[60000::bigint], ARRAY['first'], ARRAY[NULL::text], 'another', NULL, NULL, NULL, NULL, NULL)",
                     resource, holder);
}

void drive_prepare_mine(const char *resource)
{
    assert_int_equal(drive_lease(resource, "me"), 1);
}
