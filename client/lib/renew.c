/*
 * renew.c - the background renewal of all leases of a client, those of operations' attempts too.
 *
 * A lease is due TTL/3 after its last good renewal was sent. When one is due, all that will be due soon go along, in calls of at
 * most 1000 items, which are sent at once and side by side. What fails for any reason but a definite LOST is tried again, with
 * jitter, until the lease's deadline: only the server's word or the clock ends a lease. A renewal that is not answered in good
 * time is overtaken by another one, at another server if there is one, but its late answer still counts, from the time it was
 * itself sent. Good time is a quarter of what remains to the deadline, and at most TTL/6: so the first server may be dead, and the
 * next ones too, and there is still time for one that lives (of 0.62 TTL the first try takes 0.15, four tries 0.42).
 *
 * The thread sleeps on a timerfd of CLOCK_BOOTTIME, so that deadlines passed in a suspend are seen at once when it ends. All state
 * is under the client's mutex. A turn looks at every lease only when one of them may want it (look_at_ms), not for each answer: of
 * a hundred thousand leases each renewal brings a hundred answers, and to look takes milliseconds.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/lib/client.h"
#include "holdfast/v1/lease.pb-c.h"
#include "proto/c/wire.h"

enum { OVERDUE_MIN_MS = 20, OVERDUE_MAX_MS = 5000, SLOTS = 4096 };

struct hfi_renewal {
    struct hfi_try try; /* first */
    struct hf_client *client;
    struct hfi_renewal *next;
    uint8_t *payload;
    int64_t due_ms; /* when the first of its leases was to be renewed */
    int64_t overdue_at_ms;
    bool overdue; /* its leases may be renewed by another one meanwhile */
    size_t n_items, n_leases;
    struct hf_lease *leases[]; /* a reference each */
};

/* What one turn has to tell. "Leases" are those of operations too. */
struct news {
    struct hp_status trouble; /* an error that a renewal was answered with; HP_OK = none */
    size_t renewed;           /* leases whose renewals were answered, */
    int64_t lag_ms, left_ms;  /* how long after they were due at the most, and how long before the nearest of their deadlines */
    size_t silent;            /* leases whose renewals are overdue from now on, */
    int64_t silent_ms, silent_left_ms; /* the same of them */
};

int64_t hfi_renew_interval_ms(int64_t ttl_ms)
{
    return ttl_ms / 3;
}

void hfi_renew_wake(struct hf_client *client, int64_t at_ms)
{
    const uint64_t one = 1;

    if (client->wake_fd >= 0 && at_ms < client->wake_at_ms)
        (void)!write(client->wake_fd, &one, sizeof(one)); /* a full counter wakes as well */
}

void hfi_renew_expect(struct hf_client *client, int64_t at_ms)
{
    if (at_ms < client->look_at_ms)
        client->look_at_ms = at_ms;
    hfi_renew_wake(client, at_ms);
}

static int64_t at_least(int64_t value, int64_t min)
{
    return value > min ? value : min;
}

static int64_t at_most(int64_t value, int64_t max)
{
    return value < max ? value : max;
}

/* No renewal of it is under way, or none that is waited for: it will be due. */
static void await_its_time(struct hf_lease *lease)
{
    lease->client->look_at_ms = at_most(lease->client->look_at_ms, lease->renew_at_ms);
}

/* ---- answers ---- */

static void renewal_done(struct hfi_try *try)
{
    struct hfi_renewal *renewal = (struct hfi_renewal *)try;

    hfi_renew_wake(renewal->client, 0);
}

static void failed(struct hf_lease *lease, int64_t now)
{
    struct hfi_random *random = lease->client->ports.random;
    const int64_t ttl = lease->rule.ttl_ms;
    const int64_t left = lease->rule.deadline_ms - now;
    /* Closer and closer to the deadline, so that whatever time is left when the trouble ends is enough. */
    const int64_t base = at_least(ttl / 60, 10), cap = at_least(at_most(at_most(ttl / 12, left / 8), 2000), 10);

    lease->renew_at_ms = now + 5 + hfi_jitter(lease->failures++, base, cap, random->next(random));
    await_its_time(lease);
}

static const char *loss_of(Holdfast__V1__Lost__Reason reason)
{
    switch (reason) {
    case HOLDFAST__V1__LOST__REASON__EXPIRED:
        return HFI_LOSS_EXPIRED;
    case HOLDFAST__V1__LOST__REASON__TAKEN_OVER:
        return HFI_LOSS_TAKEN_OVER;
    case HOLDFAST__V1__LOST__REASON__RELEASED:
        return HFI_LOSS_RELEASED;
    case HOLDFAST__V1__LOST__REASON__BROKEN:
        return HFI_LOSS_BROKEN;
    default: /* lost, whatever a newer server calls it */
        return HFI_LOSS_UNKNOWN_TOKEN;
    }
}

bool hfi_renew_absorb(struct hf_lease *lease, Holdfast__V1__RenewResult *const *items, int64_t sent_ms)
{
    const int64_t now = hfi_now(lease->client);
    int64_t left = INT64_MAX;

    for (size_t i = 0; i < lease->n_items; i++) {
        if (items[i]->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_LOST) {
            /* An attempt has ended while a call that ends it is in flight: that was it, most likely, and its answer tells. */
            if (items[i]->lost->reason == HOLDFAST__V1__LOST__REASON__RELEASED && lease->operation && lease->writing)
                return false;
            hfi_lease_lose(lease, loss_of(items[i]->lost->reason));
            return true;
        }
        if (items[i]->outcome_case == HOLDFAST__V1__RENEW_RESULT__OUTCOME_RENEWED)
            left = at_most(left, items[i]->renewed->ttl_ms);
        else
            left = -1;
    }
    if (left < 0)
        return false;
    if (hfi_lease_held(lease) && hfi_rule_renewed(&lease->rule, sent_ms, left, now)) {
        lease->failures = 0;
        /* A namespace whose max_ttl_ms was lowered leaves less than was asked for. */
        lease->renew_at_ms = at_least(lease->renew_at_ms,
                                      sent_ms + at_least(hfi_renew_interval_ms(at_most(left, lease->rule.ttl_ms)), OVERDUE_MIN_MS));
    }
    return true;
}

/* The nearest deadline of its leases that are held. */
static int64_t nearest_deadline_ms(const struct hfi_renewal *renewal)
{
    int64_t nearest = HFI_NEVER;

    for (size_t i = 0; i < renewal->n_leases; i++) {
        if (!renewal->leases[i]->rule.lost)
            nearest = at_most(nearest, renewal->leases[i]->rule.deadline_ms);
    }
    return nearest;
}

static void note_answered(const struct hfi_renewal *renewal, int64_t now, struct news *news)
{
    const int64_t nearest = nearest_deadline_ms(renewal);

    if (nearest == HFI_NEVER)
        return;
    news->left_ms = news->renewed ? at_most(news->left_ms, nearest - now) : nearest - now;
    news->lag_ms = at_least(news->lag_ms, now - renewal->due_ms);
    news->renewed += renewal->n_leases;
}

static Holdfast__V1__RenewResult *const *results_of(const struct hfi_renewal *renewal, struct hp_arena *arena, size_t *n)
{
    const struct hfi_kind *kind = renewal->leases[0]->kind;
    struct hp_status status;
    const ProtobufCMessage *response =
        hp_unpack_within(&hp_wire_reply, arena, kind->renewed, renewal->try.reply, renewal->try.reply_len, &status);

    return response ? hfi_renew_results(kind, response, n) : NULL;
}

static void absorb_all(struct hfi_renewal *renewal, struct news *news)
{
    Holdfast__V1__RenewResult *const *results = NULL;
    const int64_t now = hfi_now(renewal->client);
    struct hp_arena *arena = NULL;
    size_t at = 0, n = 0;

    if (renewal->try.fate == HFI_ANSWERED && renewal->try.status.code == HP_OK) {
        arena = hp_arena_new(renewal->try.reply_len * 32 + ((size_t)1 << 20));
        if (arena)
            results = results_of(renewal, arena, &n);
    }
    if (n != renewal->n_items)
        results = NULL;
    if (results)
        note_answered(renewal, now, news);
    for (size_t i = 0; i < renewal->n_leases; i++) {
        struct hf_lease *lease = renewal->leases[i];
        const bool good = results && hfi_renew_absorb(lease, &results[at], renewal->try.sent_ms);
        at += lease->n_items;
        if (!renewal->overdue) {
            lease->renewing = false;
            if (good)
                await_its_time(lease);
            else
                failed(lease, now);
        }
    }
    hp_arena_free(arena);
}

static void renewal_free(struct hfi_renewal *renewal)
{
    for (size_t i = 0; i < renewal->n_leases; i++)
        hfi_lease_unref(renewal->leases[i]);
    free(renewal->try.reply);
    free(renewal->payload);
    free(renewal);
}

static void give_way(struct hfi_renewal *renewal, int64_t now, struct news *news)
{
    const int64_t nearest = nearest_deadline_ms(renewal);

    if (nearest != HFI_NEVER) {
        news->silent_left_ms = news->silent ? at_most(news->silent_left_ms, nearest - now) : nearest - now;
        news->silent_ms = at_least(news->silent_ms, now - renewal->due_ms);
        news->silent += renewal->n_leases;
    }
    renewal->overdue = true;
    hfi_mux_failed(&renewal->client->mux, renewal->try.endpoint);
    for (size_t i = 0; i < renewal->n_leases; i++) {
        renewal->leases[i]->renewing = false;
        failed(renewal->leases[i], now);
    }
}

/* Takes in what was answered; returns when the next one is overdue. */
static int64_t look_at_renewals(struct hf_client *client, int64_t now, struct news *news)
{
    struct hfi_renewal **link = &client->renewals;
    int64_t next = HFI_NEVER;

    while (*link) {
        struct hfi_renewal *renewal = *link;
        if (renewal->try.state == HFI_TRY_DONE) {
            *link = renewal->next;
            if (renewal->try.fate == HFI_ANSWERED && renewal->try.status.code != HP_OK)
                news->trouble = renewal->try.status;
            absorb_all(renewal, news);
            renewal_free(renewal);
            continue;
        }
        if (!renewal->overdue && now >= renewal->overdue_at_ms)
            give_way(renewal, now, news);
        if (!renewal->overdue)
            next = at_most(next, renewal->overdue_at_ms);
        link = &renewal->next;
    }
    return next;
}

/* ---- sending ---- */

/* Names that are in the request already: each may stand there once. */
struct names {
    const char *slots[SLOTS];
};

static const char **name_slot(struct names *names, const char *name)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (const char *p = name; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    while (names->slots[hash % SLOTS] && strcmp(names->slots[hash % SLOTS], name) != 0)
        hash++;
    return &names->slots[hash % SLOTS];
}

/* False if one of its resources is named already (an older lease of the same resource that has not been told so yet): it goes
 * into another request. */
static bool name_all(struct names *names, const struct hf_lease *lease)
{
    for (size_t i = 0; i < lease->n_items; i++) {
        if (*name_slot(names, lease->items[i].resource))
            return false;
    }
    for (size_t i = 0; i < lease->n_items; i++)
        *name_slot(names, lease->items[i].resource) = lease->items[i].resource;
    return true;
}

static bool encode(struct hfi_renewal *renewal)
{
    struct hfi_renew_request request;

    if (!hfi_renew_request_init(&request, renewal->leases, renewal->n_leases))
        return false;
    renewal->try.payload_len = protobuf_c_message_get_packed_size(&request.as.base);
    renewal->payload = malloc(renewal->try.payload_len);
    if (renewal->payload)
        protobuf_c_message_pack(&request.as.base, renewal->payload);
    hfi_renew_request_release(&request);
    return renewal->payload != NULL;
}

static void send_renewal(struct hfi_renewal *renewal, int64_t now)
{
    struct hf_client *client = renewal->client;
    const int64_t ttl = renewal->leases[0]->rule.ttl_ms;
    int64_t first = HFI_NEVER, last = now;

    renewal->due_ms = now;
    for (size_t i = 0; i < renewal->n_leases; i++) {
        renewal->due_ms = at_most(renewal->due_ms, renewal->leases[i]->renew_at_ms);
        first = at_most(first, renewal->leases[i]->rule.deadline_ms);
        last = at_least(last, renewal->leases[i]->rule.deadline_ms);
    }
    if (!encode(renewal)) {
        for (size_t i = 0; i < renewal->n_leases; i++)
            failed(renewal->leases[i], now);
        renewal_free(renewal);
        return;
    }
    for (size_t i = 0; i < renewal->n_leases; i++)
        renewal->leases[i]->renewing = true;
    renewal->overdue_at_ms = now + at_least(at_most(at_most(ttl / 6, (first - now) / 4), OVERDUE_MAX_MS), OVERDUE_MIN_MS);
    renewal->try.method = renewal->leases[0]->kind->renew;
    renewal->try.payload = renewal->payload;
    renewal->try.timeout_ms = at_least(last - now, 1);
    renewal->try.alone = true;
    renewal->try.done = renewal_done;
    renewal->next = client->renewals;
    client->renewals = renewal;
    hfi_mux_submit(&client->mux, &renewal->try);
}

static bool same_sort(const struct hf_lease *a, const struct hf_lease *b)
{
    return a->kind == b->kind && a->rule.ttl_ms == b->rule.ttl_ms;
}

/* By what may go into one request. */
static int by_sort(const void *a, const void *b)
{
    const struct hf_lease *left = *(struct hf_lease *const *)a, *right = *(struct hf_lease *const *)b;

    if (left->kind != right->kind)
        return left->kind == &hfi_leases ? -1 : 1;
    return (left->rule.ttl_ms > right->rule.ttl_ms) - (left->rule.ttl_ms < right->rule.ttl_ms);
}

/* One request from the front of `due`: what has been taken is NULL afterwards. True if anything is left. */
static bool take_batch(struct hf_client *client, struct hf_lease **due, size_t n, struct names *names, int64_t now)
{
    struct hfi_renewal *renewal = calloc(1, sizeof(*renewal) + HF_ITEMS_MAX * sizeof(struct hf_lease *));
    bool left = false;

    memset(names, 0, sizeof(*names));
    for (size_t i = 0; i < n; i++) {
        struct hf_lease *lease = due[i];
        if (!lease)
            continue;
        if (!renewal || lease->rule.lost) { /* no memory, or lost while the lock was away */
            if (!renewal)
                failed(lease, now);
            due[i] = NULL;
            hfi_lease_unref(lease);
            continue;
        }
        if (renewal->n_leases > 0 && !same_sort(lease, renewal->leases[0])) {
            left = true;
            break; /* sorted */
        }
        if (renewal->n_items + lease->n_items > HF_ITEMS_MAX || !name_all(names, lease)) {
            left = true;
            continue;
        }
        renewal->leases[renewal->n_leases++] = lease; /* with its reference */
        renewal->n_items += lease->n_items;
        due[i] = NULL;
    }
    if (!renewal)
        return false;
    renewal->client = client;
    if (renewal->n_leases == 0)
        free(renewal);
    else
        send_renewal(renewal, now);
    return left;
}

/* What is due now or soon. */
static bool goes_along(const struct hf_lease *lease, int64_t now)
{
    return !lease->rule.lost && !lease->no_renewal && !lease->renewing &&
           lease->renew_at_ms <= now + (lease->failures ? 0 : lease->rule.ttl_ms / 12);
}

static void send_due(struct hf_client *client, int64_t now)
{
    size_t n = 0, count = 0;
    struct hf_lease **due;
    struct names *names = malloc(sizeof(*names));

    for (struct hf_lease *lease = client->leases; lease; lease = lease->next)
        count += goes_along(lease, now);
    due = calloc(count ? count : 1, sizeof(*due));
    if (!due || !names)
        goto out; /* the next turn tries again */
    for (struct hf_lease *lease = client->leases; lease; lease = lease->next) {
        if (goes_along(lease, now)) {
            lease->refs++;
            due[n++] = lease;
        }
    }
    qsort(due, n, sizeof(due[0]), by_sort);
    while (take_batch(client, due, n, names, now))
        ;
out:
    free(due);
    free(names);
}

/* ---- the turn ---- */

/* Ends leases past their deadline. Returns when the next lease needs attention; `due` if one is to be renewed now. */
static int64_t look_at_leases(struct hf_client *client, int64_t now, bool *due)
{
    int64_t next = HFI_NEVER;

    *due = false;
    if (now < client->look_at_ms)
        return client->look_at_ms;
    for (struct hf_lease *lease = client->leases; lease; lease = lease->next) {
        if (lease->rule.lost || !hfi_lease_held(lease))
            continue;
        next = at_most(next, lease->rule.deadline_ms);
        if (!lease->no_renewal && !lease->renewing)
            next = at_most(next, lease->renew_at_ms);
    }
    *due = next <= now;
    client->look_at_ms = next;
    return next;
}

/* With the lock held, which is let go meanwhile. */
static void tell(struct hf_client *client, const struct news *news)
{
    if (!client->log || (news->trouble.code == HP_OK && !news->renewed && !news->silent))
        return;
    pthread_mutex_unlock(&client->mutex);
    if (news->trouble.code != HP_OK)
        hfi_log(client, HF_LOG_WARN, "renewal failed, will be tried again: code=%s reason=%s: %s",
                hp_code_name((int)news->trouble.code), hp_reason_name((int)news->trouble.reason), news->trouble.message);
    if (news->silent)
        hfi_log(client, HF_LOG_WARN, "renewals are late, will be asked for again: leases=%zu lag_ms=%lld left_ms=%lld",
                news->silent, (long long)news->silent_ms, (long long)news->silent_left_ms);
    if (news->renewed)
        hfi_log(client, HF_LOG_DEBUG, "renewed: leases=%zu lag_ms=%lld left_ms=%lld", news->renewed, (long long)news->lag_ms,
                (long long)news->left_ms);
    pthread_mutex_lock(&client->mutex);
}

int64_t hfi_renew_step(struct hf_client *client)
{
    struct news news = {.trouble = {.code = HP_OK}};
    const int64_t now = hfi_now(client);
    int64_t overdue_at = look_at_renewals(client, now, &news), look_at;
    bool due;

    look_at = look_at_leases(client, now, &due);
    if (due) {
        send_due(client, now);
        /* Some may have been answered meanwhile; what could not be sent for want of memory must not spin. */
        overdue_at = look_at_renewals(client, now, &news);
        look_at = look_at_leases(client, now, &due);
        if (due)
            look_at = now + 10;
    }
    tell(client, &news);
    return at_most(overdue_at, look_at);
}

static void sleep_until(struct hf_client *client, int64_t at_ms)
{
    struct pollfd fds[2] = {{.fd = client->wake_fd, .events = POLLIN}, {.fd = client->timer_fd, .events = POLLIN}};
    struct itimerspec when = {{0, 0}, {0, 0}};
    uint64_t ignored;

    if (at_ms != HFI_NEVER) {
        when.it_value.tv_sec = at_ms / 1000;
        when.it_value.tv_nsec = at_ms % 1000 * 1000000 + 1; /* zero would disarm it */
    }
    timerfd_settime(client->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
    (void)!poll(fds, 2, -1);
    (void)!read(client->wake_fd, &ignored, sizeof(ignored));
    (void)!read(client->timer_fd, &ignored, sizeof(ignored));
}

void *hfi_renew_main(void *arg)
{
    struct hf_client *client = arg;

    pthread_mutex_lock(&client->mutex);
    while (!client->closing) {
        int64_t next;
        client->wake_at_ms = HFI_NEVER; /* whoever wants something during the turn wakes us again */
        next = hfi_renew_step(client);
        client->wake_at_ms = next;
        if (client->closing)
            break;
        pthread_mutex_unlock(&client->mutex);
        sleep_until(client, next);
        pthread_mutex_lock(&client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    return NULL;
}

void hfi_renew_drop_all(struct hf_client *client)
{
    while (client->renewals) {
        struct hfi_renewal *renewal = client->renewals;
        client->renewals = renewal->next;
        renewal_free(renewal);
    }
}
