/*
 * operation_line.c - what a line does: questions, tries, and what their outcomes lead to. See operation_wait.h.
 *
 * Invariants: `item` is with the store exactly while `asked`. The trier's arena, in which its request is, stays as long, whether or
 * not it has been answered meanwhile. A line is there from the moment somebody waits until nobody does and nothing of it is with
 * the store. What is asked for one caller is told only to callers with the same type and fingerprint (P4).
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "core/moves.h"
#include "service/operation_wait.h"
#include "service/tally.h"

enum {
    RETRY_MS = 100,   /* after one that had no outcome */
    ASK_MS = 5000,    /* of one question or try, altogether */
    PATIENCE_MS = 100 /* of one try, while the row is locked */
};

static int64_t now_ms(const struct svc *svc)
{
    return svc->io->now_ms(svc->io);
}

/* ---- life ---- */

static uint64_t hash_of(const char *ns, const char *key)
{
    return hb_hash_mix(hb_hash_str(hb_hash_str(HB_HASH_SEED, ns), key));
}

static struct svc_op_line *find(struct svc *svc, const char *ns, const char *key, uint64_t hash)
{
    struct svc_op_line *line = svc->op_waits.lines[hash % SVC_OP_BUCKETS];
    while (line && (line->hash != hash || strcmp(line->key, key) != 0 || strcmp(line->ns, ns) != 0))
        line = line->next;
    return line;
}

struct svc_op_line *svc_op_line_get(struct svc *svc, const char *ns, const char *key)
{
    uint64_t hash = hash_of(ns, key);
    size_t ns_len = strlen(ns) + 1, key_len = strlen(key) + 1;
    struct svc_op_line *line = find(svc, ns, key, hash);
    if (line)
        return line;
    line = calloc(1, sizeof(*line) + ns_len + key_len);
    if (!line)
        return NULL;
    line->svc = svc;
    line->hash = hash;
    line->ns = memcpy(line->names, ns, ns_len);
    line->key = memcpy(line->names + ns_len, key, key_len);
    line->pause_ms = SVC_OP_PAUSE_MIN_MS;
    list_init(&line->waits);
    line->next = svc->op_waits.lines[hash % SVC_OP_BUCKETS];
    svc->op_waits.lines[hash % SVC_OP_BUCKETS] = line;
    return line;
}

static void retire(struct svc_op_line *line)
{
    struct svc_op_line **at = &line->svc->op_waits.lines[line->hash % SVC_OP_BUCKETS];
    while (*at != line)
        at = &(*at)->next;
    *at = line->next;
    heap_remove(&line->svc->op_waits.polls, &line->poll);
    free(line);
}

/* ---- asking ---- */

static void on_answer(struct st_item *item);

static struct svc_op_wait *first_begin(struct svc_op_line *line)
{
    for (struct list_node *node = list_first(&line->waits); node; node = list_next(&line->waits, node))
        if (list_entry(node, struct svc_op_wait, node)->begins)
            return list_entry(node, struct svc_op_wait, node);
    return NULL;
}

static void ask(struct svc_op_line *line)
{
    struct svc *svc = line->svc;
    struct svc_op_wait *head = line->start ? first_begin(line) : NULL;
    int64_t now = now_ms(svc);
    heap_remove(&svc->op_waits.polls, &line->poll);
    line->item = (struct st_item){.kind = head ? ST_OP_BEGIN : ST_OP_GET,
                                  .ns = line->ns,
                                  .resource = line->key,
                                  .deadline_ms = now + ASK_MS,
                                  .patience_ms = now + PATIENCE_MS,
                                  .done = on_answer};
    if (head) {
        svc_op_fill_begin(head->sc, &line->item);
        line->item.resource = line->key;
        head->sc->n_open = 1; /* if it is answered before, its arena stays */
    }
    line->trier = head ? head->sc : NULL;
    line->asked = true;
    line->asked_ms = now;
    line->due = line->start = false;
    line->n_asked++;
    svc->in_flight++;
    st_submit(svc->store, &line->item);
}

void svc_op_line_proceed(struct svc_op_line *line)
{
    if (line->asked)
        return;
    if (line->svc->draining)
        svc_op_line_end(line);
    if (list_empty(&line->waits))
        retire(line);
    else if (line->due)
        ask(line);
}

void svc_op_line_retry(struct svc_op_line *line)
{
    heap_set(&line->svc->op_waits.polls, &line->poll, now_ms(line->svc) + RETRY_MS);
}

void svc_op_line_later(struct svc_op_line *line)
{
    int64_t now = now_ms(line->svc), at = now + line->pause_ms;
    if (line->state != CO_NEW && line->until_ms > now && line->until_ms < at)
        at = line->until_ms;
    line->pause_ms = 2 * line->pause_ms < SVC_OP_PAUSE_MAX_MS ? 2 * line->pause_ms : SVC_OP_PAUSE_MAX_MS;
    heap_set(&line->svc->op_waits.polls, &line->poll, at);
}

void svc_op_line_know(struct svc_op_line *line, const struct svc_op_view *view)
{
    size_t len = strnlen(view->holder ? view->holder : "", SVC_HOLDER_BYTES - 1);
    line->state = view->state;
    line->attempt = view->attempt;
    line->known_ms = now_ms(line->svc);
    line->until_ms = line->known_ms + view->remaining_ms + 1; /* what remains was rounded down */
    if (len)
        memcpy(line->holder, view->holder, len);
    line->holder[len] = '\0';
}

void svc_op_wake(struct svc *svc, const char *ns, const char *key)
{
    struct svc_op_line *line = svc->op_waits.n ? find(svc, ns, key, hash_of(ns, key)) : NULL;
    if (!line)
        return;
    line->pause_ms = SVC_OP_PAUSE_MIN_MS;
    line->due = true;
    svc_op_line_proceed(line);
    svc_op_waits_arm(svc);
}

/* ---- telling ---- */

bool svc_op_same_parameters(const struct svc_call *sc, const char *type, struct st_bytes fingerprint)
{
    const Holdfast__V1__BeginRequest *req = sc->request;
    const struct svc_begin *begin = sc->state;
    return !strcmp(req->type, type) && begin->fingerprint.len == fingerprint.len &&
           !memcmp(begin->fingerprint.data, fingerprint.data, fingerprint.len);
}

void svc_op_wait_fail(struct svc_op_wait *wait, const struct hp_status *status)
{
    struct svc_call *sc = wait->sc;
    svc_op_wait_leave(wait);
    svc_fail(sc, status);
}

void svc_op_tell_begin(struct svc_op_wait *wait, const struct svc_op_view *view)
{
    struct svc_call *sc = wait->sc;
    svc_op_wait_leave(wait);
    svc_op_answer_begin(sc, view);
}

static void tell_wait(struct svc_op_wait *wait, const struct st_op_row *row, bool ended)
{
    Holdfast__V1__WaitOperationResponse response = HOLDFAST__V1__WAIT_OPERATION_RESPONSE__INIT;
    struct svc_call *sc = wait->sc;
    svc_op_wait_leave(wait);
    response.operation = svc_op_message(sc->arena, row);
    response.ended = ended;
    if (response.operation)
        svc_reply(sc, &response.base);
    else
        svc_no_memory(sc);
}

void svc_op_each(struct svc_op_line *line, void (*tell)(struct svc_op_wait *wait, const void *what), const void *what)
{
    struct list_node *node = list_first(&line->waits), *next;
    for (; node; node = next) {
        next = list_next(&line->waits, node);
        tell(list_entry(node, struct svc_op_wait, node), what);
    }
}

/* ---- answers to a question ---- */

static bool in_progress(int state)
{
    return state == CO_PENDING || state == CO_RUNNING;
}

static void tell_row(struct svc_op_wait *wait, const void *what)
{
    const struct st_op_row *row = what;
    struct svc_op_view view;
    struct hp_status status;
    if (wait->since > wait->line->n_asked)
        return; /* it came when this had been asked already; the next question is asked at once */
    if (!wait->begins) {
        if (wait->over || !in_progress(row->state))
            tell_wait(wait, row, !in_progress(row->state));
    } else if (!svc_op_same_parameters(wait->sc, row->type, row->fingerprint)) {
        svc_op_conflict(row->key, &status);
        svc_op_wait_fail(wait, &status);
    } else if (!in_progress(row->state)) {
        svc_op_view_of_row(row, &view);
        svc_op_tell_begin(wait, &view);
    }
}

static void found(struct svc_op_line *line, const struct st_op_row *row)
{
    struct svc_op_view view;
    svc_op_view_of_row(row, &view);
    svc_op_line_know(line, &view);
    svc_op_each(line, tell_row, row);
    if (in_progress(row->state) && row->remaining_ms <= 0 && first_begin(line))
        line->due = line->start = true;
    else
        svc_op_line_later(line);
}

/* Those who wait for what isn't there; one that begins makes it. */
static void tell_error(struct svc_op_wait *wait, const void *what)
{
    const struct hp_status *status = what;
    bool none = status->reason == HP_R_NO_SUCH_OPERATION;
    if (wait->since <= wait->line->n_asked && !(none && wait->begins))
        svc_op_wait_fail(wait, status);
}

static void take_answer(struct svc_op_line *line, const struct st_item *item)
{
    struct hp_status status;
    if (item->outcome == ST_FOUND && item->out.ops.n) {
        found(line, item->out.ops.rows);
        return;
    }
    switch (item->outcome) {
    case ST_OP_NONE:
        svc_op_none(line->key, &status);
        svc_op_each(line, tell_error, &status);
        line->due = line->start = true;
        break;
    case ST_BUSY:
    case ST_OUTCOME_LOST:
    case ST_DATABASE_DOWN:
    case ST_QUEUE_FULL:
    case ST_TIMED_OUT:
        svc_op_line_retry(line);
        break;
    default:
        if (!svc_item_status(line->svc, item, &status))
            hp_status_set(&status, HP_R_INTERNAL, "unexpected outcome %d of a question", (int)item->outcome);
        svc_op_each(line, tell_error, &status);
        svc_op_line_retry(line);
    }
}

/* ---- answers ---- */

static void end_over(struct svc_op_wait *wait, const void *what)
{
    (void)what;
    if (wait->begins && wait->over)
        svc_op_wait_end(wait);
}

static void on_answer(struct st_item *item)
{
    struct svc_op_line *line = list_entry(item, struct svc_op_line, item);
    struct svc *svc = line->svc;
    struct svc_call *trier = line->trier;
    /* If it has been answered already, its arena, in which the request is, was left to us. */
    struct hp_arena *arena = trier && !trier->call ? trier->arena : NULL;
    svc_tally_item(svc, item);
    if (trier) {
        trier->n_open = 0;
        svc_op_take_outcome(line, trier, item);
    } else {
        take_answer(line, item);
    }
    line->asked = false;
    line->trier = NULL;
    svc_op_each(line, end_over, NULL);
    svc->in_flight--;
    if (arena) {
        svc->in_flight--;
        hp_arena_free(arena);
    }
    svc_op_line_proceed(line);
    svc_op_waits_arm(svc);
}
