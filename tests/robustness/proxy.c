/*
 * proxy.c - see proxy.h: the rules, and what tests ask for. Connections and framing are in proxy_link.c.
 */
#include "robustness/proxy_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/c/envelope.h"

int64_t px_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void *px_alloc(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory)
        abort();
    return memory;
}

/* ------------------------------------------------------------------------------------------------ judging a message */

/* splitmix64: a good mix of any 64 bits. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool method_fits(const char *filter, const char *methods)
{
    size_t len = strlen(filter);
    for (const char *at = methods; (at = strstr(at, filter)); at++) {
        bool begins = at > methods && (at[-1] == '/' || at[-1] == '.');
        if ((begins || filter[0] == '/') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    }
    return false;
}

static bool fits(const struct px_rule *rule, const struct px_message *message, const struct px_asked *asked)
{
    if (rule->direction == (message->to_server ? PX_REPLY : PX_REQUEST))
        return false;
    if (rule->method && !method_fits(rule->method, asked ? asked->methods : ""))
        return false;
    return !rule->contains || memmem(message->bytes, message->len, rule->contains, strlen(rule->contains));
}

/* Whether the rule acts on the message that was its `seen`-th. */
static bool acts(const struct px *px, int number, const struct px_rule_state *state)
{
    const struct px_rule *rule = &state->rule;
    const unsigned first = rule->first ? rule->first : 1;
    if (state->seen < first || (rule->count && state->seen - first >= rule->count))
        return false;
    if (rule->chance <= 0)
        return true;
    uint64_t dice = mix(px->seed ^ mix((uint64_t)number ^ mix(state->seen)));
    return (double)(dice >> 11) / (double)(UINT64_C(1) << 53) < rule->chance;
}

static struct px_message *copy_of(const struct px_message *message)
{
    struct px_message *copy = px_alloc(sizeof(*copy) + message->len);
    memcpy(copy, message, sizeof(*copy) + message->len);
    copy->next = NULL;
    return copy;
}

static struct px_message *first_half(struct px_message *message)
{
    struct px_message *half = copy_of(message);
    half->len = PX_FRAME_HEAD + (message->len - PX_FRAME_HEAD) / 2;
    free(message);
    return half;
}

/* A reply to the request (or instead of the reply) `message`: `status` for each of its calls. */
static struct px_message *status_reply(const struct px_message *message, unsigned calls, const struct hp_status *status)
{
    Holdfast__V1__ReplyEnvelope envelope = HOLDFAST__V1__REPLY_ENVELOPE__INIT;
    Holdfast__V1__Reply reply;
    struct hp_arena *arena = hp_arena_new((size_t)1 << 20);
    if (!arena || !hp_reply_fill(arena, &reply, status, NULL, 0))
        abort();
    envelope.n_replies = calls;
    envelope.replies = px_alloc((calls + 1) * sizeof(Holdfast__V1__Reply *));
    for (unsigned i = 0; i < calls; i++)
        envelope.replies[i] = &reply;
    size_t size = holdfast__v1__reply_envelope__get_packed_size(&envelope) + PX_ID;
    struct px_message *answer = px_alloc(sizeof(*answer) + PX_FRAME_HEAD + size);
    answer->len = PX_FRAME_HEAD + size;
    for (int i = 0; i < PX_FRAME_HEAD; i++)
        answer->bytes[i] = (uint8_t)((uint64_t)size >> (56 - 8 * i));
    memcpy(answer->bytes + PX_FRAME_HEAD, message->bytes + PX_FRAME_HEAD, PX_ID);
    holdfast__v1__reply_envelope__pack(&envelope, answer->bytes + PX_FRAME_HEAD + PX_ID);
    free(envelope.replies);
    hp_arena_free(arena);
    return answer;
}

static const char *const action_names[] = {
    [PX_PASS] = "pass",       [PX_DROP] = "drop",
    [PX_DELAY] = "delay",     [PX_HOLD] = "hold",
    [PX_DOUBLE] = "double",   [PX_DOUBLE_LATE] = "double late",
    [PX_REORDER] = "reorder", [PX_CUT_BEFORE] = "cut before",
    [PX_CUT_IN] = "cut in",   [PX_CUT_AFTER] = "cut after",
    [PX_DARK] = "dark",       [PX_STATUS] = "status",
};

/* Does to the message what the rule says; takes it. */
static void act(struct px *px, struct px_link *link, struct px_message *message, int number, const struct px_asked *asked)
{
    const struct px_rule *rule = &px->rules[number].rule;
    struct px_message *copy = NULL;
    bool to_server = message->to_server;
    switch (rule->action) {
    case PX_PASS:
        px_forward(link, message);
        break;
    case PX_DELAY:
        px_keep(link, message, number, px_now_ms() + rule->ms, false);
        break;
    case PX_HOLD:
        px_keep(link, message, number, PX_NEVER, false);
        break;
    case PX_REORDER:
        px_keep(link, message, number, PX_NEVER, true);
        break;
    case PX_DOUBLE:
    case PX_DOUBLE_LATE:
        copy = copy_of(message);
        px_forward(link, message);
        if (rule->action == PX_DOUBLE && rule->ms == 0)
            px_forward(link, copy);
        else
            px_keep(link, copy, number, rule->action == PX_DOUBLE ? px_now_ms() + rule->ms : PX_NEVER, false);
        break;
    case PX_CUT_IN:
    case PX_CUT_AFTER:
        px_forward(link, rule->action == PX_CUT_IN ? first_half(message) : message);
        px_cut_behind(link, to_server);
        break;
    case PX_CUT_BEFORE:
        free(message);
        px_cut_behind(link, to_server);
        break;
    case PX_STATUS:
        copy = status_reply(message, asked ? asked->calls : 1, &rule->status);
        free(message);
        px_forward(link, copy);
        break;
    case PX_DARK:
        px->dark = true;
        free(message);
        break;
    case PX_DROP:
        free(message);
        break;
    }
}

static void trace(struct px *px, const struct px_link *link, const struct px_message *message, const struct px_asked *asked,
                  const char *what, int rule)
{
    if (!px->trace)
        return;
    fprintf(px->trace, "+%lld ms connection %u %s %s %zu bytes: %s", (long long)(px_now_ms() - px->start_ms), link->number,
            message->to_server ? "request" : "reply", asked ? asked->methods : "?", message->len, what);
    if (rule >= 0)
        fprintf(px->trace, " (rule %d)", rule);
    fputc('\n', px->trace);
    fflush(px->trace);
}

void px_judge(struct px *px, struct px_link *link, struct px_message *message, const struct px_asked *asked)
{
    for (int i = 0; i < px->n_rules; i++) {
        struct px_rule_state *state = &px->rules[i];
        if (!state->active || !fits(&state->rule, message, asked))
            continue;
        state->seen++;
        if (!acts(px, i, state))
            continue;
        state->done++;
        state->last_ms = px_now_ms();
        if (state->rule.action == PX_PASS)
            continue;
        trace(px, link, message, asked, action_names[state->rule.action], i);
        act(px, link, message, i, asked);
        return;
    }
    trace(px, link, message, asked, action_names[PX_PASS], -1);
    px_forward(link, message);
}

/* ------------------------------------------------------------------------------------------------ rules */

static char *copy_text(const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        abort();
    return copy;
}

int px_add(struct px *px, const struct px_rule *rule)
{
    pthread_mutex_lock(&px->mutex);
    px->rules = realloc(px->rules, (size_t)(px->n_rules + 1) * sizeof(px->rules[0]));
    if (!px->rules)
        abort();
    int number = px->n_rules++;
    px->rules[number] = (struct px_rule_state){.rule = *rule, .active = true};
    px->rules[number].rule.method = copy_text(rule->method);
    px->rules[number].rule.contains = copy_text(rule->contains);
    pthread_mutex_unlock(&px->mutex);
    return number;
}

/* What the rule (-1: any) keeps is due; it goes on at once, or after the dark. */
static size_t release(struct px *px, int rule)
{
    size_t n = 0;
    for (struct px_link *link = px->links; link; link = link->next) {
        for (struct px_message *message = link->kept; message; message = message->next) {
            if (rule >= 0 && message->rule != rule)
                continue;
            message->due_ms = 0;
            n++;
        }
        if (!px->dark)
            px_forward_due(link, 0);
    }
    px_wake(px);
    return n;
}

void px_remove(struct px *px, int rule)
{
    pthread_mutex_lock(&px->mutex);
    px->rules[rule].active = false;
    release(px, rule);
    pthread_mutex_unlock(&px->mutex);
}

size_t px_release(struct px *px, int rule)
{
    pthread_mutex_lock(&px->mutex);
    size_t n = release(px, rule);
    pthread_mutex_unlock(&px->mutex);
    return n;
}

void px_heal(struct px *px)
{
    pthread_mutex_lock(&px->mutex);
    for (int i = 0; i < px->n_rules; i++)
        px->rules[i].active = false;
    px->dark = px->refuse = false;
    release(px, -1);
    pthread_mutex_unlock(&px->mutex);
}

struct px_count px_count(struct px *px, int rule)
{
    struct px_count count = {0};
    pthread_mutex_lock(&px->mutex);
    const struct px_rule_state *state = &px->rules[rule];
    count.seen = state->seen;
    count.done = state->done;
    count.last_ms = state->last_ms;
    for (struct px_link *link = px->links; link; link = link->next)
        for (struct px_message *message = link->kept; message; message = message->next)
            count.kept += message->rule == rule;
    pthread_mutex_unlock(&px->mutex);
    return count;
}

/* ------------------------------------------------------------------------------------------------ the whole */

void px_dark(struct px *px, bool dark)
{
    pthread_mutex_lock(&px->mutex);
    px->dark = dark;
    px_wake(px);
    pthread_mutex_unlock(&px->mutex);
}

void px_cut(struct px *px)
{
    pthread_mutex_lock(&px->mutex);
    for (struct px_link *link = px->links; link; link = link->next)
        px_cut_link(link);
    px_wake(px);
    pthread_mutex_unlock(&px->mutex);
}

void px_refuse(struct px *px, bool refuse)
{
    pthread_mutex_lock(&px->mutex);
    px->refuse = refuse;
    for (struct px_link *link = px->links; refuse && link; link = link->next)
        px_cut_link(link);
    px_wake(px);
    pthread_mutex_unlock(&px->mutex);
}

struct px_totals px_totals(struct px *px)
{
    pthread_mutex_lock(&px->mutex);
    struct px_totals totals = px->totals;
    pthread_mutex_unlock(&px->mutex);
    return totals;
}

void px_trace(struct px *px, FILE *file)
{
    pthread_mutex_lock(&px->mutex);
    px->trace = file;
    pthread_mutex_unlock(&px->mutex);
}

static bool is_quiet(const struct px *px)
{
    for (const struct px_link *link = px->links; link; link = link->next)
        if (link->unanswered > 0 || link->client.out || link->server.out)
            return false;
    return true;
}

/* Waits for news until rule `rule` has acted `done` times, or (rule < 0) all is quiet. */
static bool wait_for(struct px *px, int rule, unsigned done, int ms)
{
    struct timespec until;
    bool there;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&px->mutex);
    for (;;) {
        there = rule < 0 ? is_quiet(px) : px->rules[rule].done >= done;
        if (there || pthread_cond_timedwait(&px->news, &px->mutex, &until) == ETIMEDOUT)
            break;
    }
    pthread_mutex_unlock(&px->mutex);
    return there;
}

bool px_wait(struct px *px, int rule, unsigned done, int ms)
{
    return wait_for(px, rule, done, ms);
}

bool px_wait_quiet(struct px *px, int ms)
{
    return wait_for(px, -1, 0, ms);
}

const char *px_url(const struct px *px)
{
    return px->url;
}

static void parse_url(struct px *px, const char *url)
{
    const char *host = strstr(url, "://"), *colon = strrchr(url, ':');
    char text[64];
    if (!host || colon <= host + 2)
        abort();
    snprintf(text, sizeof(text), "%.*s", (int)(colon - host - 3), host + 3);
    px->server.sin_family = AF_INET;
    px->server.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, text, &px->server.sin_addr) != 1)
        abort();
}

struct px *px_start(const char *server_url, uint64_t seed)
{
    struct px *px = px_alloc(sizeof(*px));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    pthread_condattr_t attr;
    px->seed = seed;
    px->start_ms = px_now_ms();
    parse_url(px, server_url);
    pthread_mutex_init(&px->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&px->news, &attr);
    pthread_condattr_destroy(&attr);
    px->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    px->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (px->wake < 0 || bind(px->listener, (struct sockaddr *)&address, len) || listen(px->listener, 64) ||
        getsockname(px->listener, (struct sockaddr *)&address, &len))
        abort();
    snprintf(px->url, sizeof(px->url), "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    if (pthread_create(&px->thread, NULL, px_main, px))
        abort();
    return px;
}

void px_stop(struct px *px)
{
    if (!px)
        return;
    pthread_mutex_lock(&px->mutex);
    px->stop = true;
    px_wake(px);
    pthread_mutex_unlock(&px->mutex);
    pthread_join(px->thread, NULL);
    for (int i = 0; i < px->n_rules; i++) {
        free((char *)(uintptr_t)px->rules[i].rule.method);
        free((char *)(uintptr_t)px->rules[i].rule.contains);
    }
    free(px->rules);
    close(px->listener);
    close(px->wake);
    pthread_cond_destroy(&px->news);
    pthread_mutex_destroy(&px->mutex);
    free(px);
}
