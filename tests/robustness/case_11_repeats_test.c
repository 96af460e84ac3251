/*
 * case_11_repeats_test.c - replies lost, repeats late.
 *
 * The request or the reply of Acquire, Renew, Release, Write and Break is lost, comes late, comes twice at once, or comes twice
 * with the copy late; late means: after the calls that followed, the next holder's included. Worker A goes through the proxy, sends
 * each call once and repeats by itself, with the same ids, until it is told; worker B is the next holder. Wanted: the same token,
 * one step of the version, a later write never undone, an ended acquire told `ended`, the next holder's lease untouched, and
 * nothing stuck. The client library then lives through the same by its own repeats. The oracle judges all of it in the end.
 */
#include "harness/served.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "robustness/need.h"
#include "robustness/oracle.h"
#include "robustness/proxy.h"
#include "robustness/worker.h"

enum { SOON = 20000, HASTY_MS = 250, TTL_MS = 60000 };

enum fault { DROPPED, LATE, TWICE, TWICE_LATE, FAULTS };
static const char *const fault_names[] = {"dropped", "late", "twice", "twice and late"};
static const enum px_action actions[] = {PX_DROP, PX_HOLD, PX_DOUBLE, PX_DOUBLE_LATE};

static struct px *px;
static struct history *history;
static struct worker a, b;

struct scene {
    const char *method;
    void (*play)(struct scene *scene);
    enum px_direction direction;
    enum fault fault;
    char resource[HISTORY_NAME];
    char id[HISTORY_NAME]; /* A's request_id */
    int rule;
};

static int setup(void **state)
{
    serve(state);
    oracle_audit_writes(conn, "default");
    t_sql(conn, "INSERT INTO holdfast.namespace (name, audit_writes) VALUES ('library', true)");
    px = px_start(server->url, 1);
    history = history_new(NULL);
    a = (struct worker){.history = history, .client = worker_client(px_url(px)), .number = 1, .timeout_ms = HASTY_MS};
    b = (struct worker){
        .history = history, .client = worker_client(server->url), .number = 2, .timeout_ms = SOON, .retry = HFI_RETRY_HARMLESS};
    return 0;
}

static int teardown(void **state)
{
    hf_client_free(a.client);
    hf_client_free(b.client);
    history_free(history);
    px_stop(px);
    return end_serving(state);
}

/* ------------------------------------------------------------------------------------------------ asking */

/* What A asks for; `value` as text. */
struct ask {
    enum history_op op;
    int64_t token, seq;
    const char *value;
};

static struct history_call ask_once(const struct scene *scene, const struct ask *ask)
{
    switch (ask->op) {
    case HISTORY_ACQUIRE:
        return worker_acquire(&a, scene->resource, TTL_MS, scene->id);
    case HISTORY_RENEW:
        return worker_renew(&a, scene->resource, ask->token, TTL_MS);
    case HISTORY_RELEASE:
        return worker_release(&a, scene->resource, ask->token);
    case HISTORY_BREAK:
        return worker_break(&a, scene->resource, ask->token);
    case HISTORY_WRITE:
        return worker_write(&a, scene->resource, ask->token, ask->seq, ask->value, -1);
    default:
        return worker_read(&a, scene->resource);
    }
}

/* The answer to the call, which is repeated until there is one. *lost (may be NULL): how many tries had none. */
static struct history_call ask(const struct scene *scene, enum history_op op, int64_t token, int64_t seq, const char *value,
                               int *lost)
{
    const struct ask question = {op, token, seq, value};
    int64_t end = t_now_ms() + SOON;
    if (lost)
        *lost = 0;
    for (;;) {
        struct history_call call = ask_once(scene, &question);
        bool again = call.answer == HISTORY_UNKNOWN || !strcmp(call.reason, "UNREACHABLE") || !strcmp(call.reason, "BUSY");
        if (!again)
            return call;
        if (lost)
            (*lost)++;
        if (t_now_ms() > end)
            fail_msg("%s of %s: no answer: %s", history_op_name(op), scene->resource, call.reason);
    }
}

/* The first call of the method: the fault strikes it. */
static struct history_call ask_under_fault(struct scene *scene, enum history_op op, int64_t token, const char *value)
{
    int lost;
    struct px_rule rule = {.direction = scene->direction, .method = scene->method, .count = 1, .action = actions[scene->fault]};
    scene->rule = px_add(px, &rule);
    struct history_call call = ask(scene, op, token, 1, value, &lost);
    assert_true(px_wait(px, scene->rule, 1, SOON));
    assert_true(lost > 0 || scene->fault >= TWICE);
    return call;
}

/* What came late arrives now: the server has dealt with it, or the client has been handed it, when this returns. */
static void arrives_now(struct scene *scene, enum fault fault)
{
    if (scene->fault == fault)
        assert_int_equal(px_release(px, scene->rule), 1);
    assert_true(px_wait_quiet(px, SOON));
}

static int64_t grant_to_a(struct scene *scene)
{
    struct history_call call = ask(scene, HISTORY_ACQUIRE, 0, 0, NULL, NULL);
    assert_ok(&call);
    return call.got_token;
}

static int64_t grant_to_b(const struct scene *scene)
{
    struct history_call call = worker_acquire(&b, scene->resource, TTL_MS, t_printf("%s, next", scene->id));
    assert_ok(&call);
    return call.got_token;
}

/* ------------------------------------------------------------------------------------------------ what is true */

/* Everything about the lease, as the database has it. */
static const char *lease_of(const struct scene *scene)
{
    return t_sql(conn,
                 "SELECT l::text || r::text FROM holdfast.lease l, holdfast.resource r WHERE l.resource = '%s' AND r.name = '%s'",
                 scene->resource, scene->resource);
}

static void assert_rows(const struct scene *scene, const char *kind, int n)
{
    int64_t rows =
        t_sql_int(conn, "SELECT count(*) FROM holdfast.audit WHERE resource = '%s' AND kind = '%s'", scene->resource, kind);
    if (rows != n)
        fail_msg("%lld rows of kind %s in the audit, not %d", (long long)rows, kind, n);
}

static void assert_value(const struct scene *scene, const char *value, int64_t version)
{
    struct history_call call = worker_read(&b, scene->resource);
    assert_ok(&call);
    assert_int_equal(call.got_version, version);
    assert_true(call.got_value == history_digest(value, strlen(value)));
}

/* B holds under `token`, can write, gives it back, and the next one gets it at once. */
static void assert_well(const struct scene *scene, int64_t token, int64_t version)
{
    struct history_call call = worker_write(&b, scene->resource, token, 1, "B was here", -1);
    assert_ok(&call);
    assert_int_equal(call.got_version, version);
    call = worker_release(&b, scene->resource, token);
    assert_ok(&call);
    call = worker_acquire(&b, scene->resource, TTL_MS, t_printf("%s, last", scene->id));
    assert_ok(&call);
    assert_true(call.got_token > token);
}

/* ------------------------------------------------------------------------------------------------ the five methods */

static void play_acquire(struct scene *scene)
{
    struct history_call call = ask_under_fault(scene, HISTORY_ACQUIRE, 0, NULL);
    assert_ok(&call);
    const int64_t token = call.got_token;
    call = ask(scene, HISTORY_ACQUIRE, 0, 0, NULL, NULL);
    assert_ok(&call);
    assert_int_equal(call.got_token, token); /* asked once more: the same */
    call = ask(scene, HISTORY_RELEASE, token, 0, NULL, NULL);
    assert_ok(&call);
    arrives_now(scene, LATE);
    call = ask(scene, HISTORY_ACQUIRE, 0, 0, NULL, NULL);
    assert_refused(&call, "ENDED");
    assert_int_equal(call.got_token, token);
    assert_rows(scene, "grant", 1);

    const int64_t next = grant_to_b(scene);
    assert_true(next > token);
    const char *before = lease_of(scene);
    arrives_now(scene, TWICE_LATE);
    call = ask(scene, HISTORY_ACQUIRE, 0, 0, NULL, NULL);
    assert_refused(&call, "HELD");
    assert_int_equal(call.got_token, next);
    assert_string_equal(lease_of(scene), before);
    assert_well(scene, next, 1);
    assert_rows(scene, "grant", 3);
}

static void play_renew(struct scene *scene)
{
    const int64_t token = grant_to_a(scene);
    struct history_call call = ask_under_fault(scene, HISTORY_RENEW, token, NULL);
    assert_ok(&call);
    assert_in_range(call.got_ttl_ms, TTL_MS / 2, TTL_MS);
    call = ask(scene, HISTORY_RELEASE, token, 0, NULL, NULL);
    assert_ok(&call);
    const char *before = lease_of(scene);
    arrives_now(scene, LATE);
    call = ask(scene, HISTORY_RENEW, token, 0, NULL, NULL);
    assert_refused(&call, "RELEASED");
    assert_string_equal(lease_of(scene), before); /* not revived */

    const int64_t next = grant_to_b(scene);
    before = lease_of(scene);
    arrives_now(scene, TWICE_LATE);
    call = ask(scene, HISTORY_RENEW, token, 0, NULL, NULL);
    assert_refused(&call, "TAKEN_OVER");
    assert_string_equal(lease_of(scene), before);
    assert_well(scene, next, 1);
}

static void play_release(struct scene *scene)
{
    const int64_t token = grant_to_a(scene);
    struct history_call call = ask_under_fault(scene, HISTORY_RELEASE, token, NULL);
    assert_ok(&call); /* a repeat too says that it was held */
    call = ask(scene, HISTORY_RELEASE, token, 0, NULL, NULL);
    assert_ok(&call);
    const int64_t next = grant_to_b(scene);
    const char *before = lease_of(scene);
    arrives_now(scene, LATE);
    arrives_now(scene, TWICE_LATE);
    assert_string_equal(lease_of(scene), before);
    call = ask(scene, HISTORY_RELEASE, token, 0, NULL, NULL);
    assert_refused(&call, "NOT_HELD");
    assert_string_equal(lease_of(scene), before);
    assert_rows(scene, "release", 1);
    assert_well(scene, next, 1);
}

static void play_write(struct scene *scene)
{
    const int64_t token = grant_to_a(scene);
    struct history_call call = ask_under_fault(scene, HISTORY_WRITE, token, "one");
    assert_ok(&call);
    assert_int_equal(call.got_version, 1);
    call = ask(scene, HISTORY_WRITE, token, 2, "two", NULL);
    assert_ok(&call);
    assert_int_equal(call.got_version, 2);
    arrives_now(scene, LATE);
    assert_value(scene, "two", 2); /* not undone */
    call = ask(scene, HISTORY_WRITE, token, 1, "one", NULL);
    assert_refused(&call, "SUPERSEDED");
    call = ask(scene, HISTORY_WRITE, token, 2, "two", NULL);
    assert_ok(&call);
    assert_true(call.replayed);
    call = ask(scene, HISTORY_RELEASE, token, 0, NULL, NULL);
    assert_ok(&call);

    const int64_t next = grant_to_b(scene);
    assert_well(scene, next, 3);
    arrives_now(scene, TWICE_LATE);
    assert_value(scene, "B was here", 3);
    call = ask(scene, HISTORY_WRITE, token, 1, "one", NULL);
    assert_refused(&call, "STALE_TOKEN");
    assert_value(scene, "B was here", 3);
    assert_rows(scene, "write", 3);
}

static void play_break(struct scene *scene)
{
    const int64_t token = grant_to_a(scene);
    struct history_call call = ask_under_fault(scene, HISTORY_BREAK, token, NULL);
    assert_ok(&call);
    const int64_t fence = call.got_fence;
    assert_true(fence > token);
    call = ask(scene, HISTORY_BREAK, token, 0, NULL, NULL);
    assert_ok(&call);
    assert_int_equal(call.got_fence, fence);
    const int64_t next = grant_to_b(scene);
    assert_true(next > fence);
    const char *before = lease_of(scene);
    arrives_now(scene, LATE);
    arrives_now(scene, TWICE_LATE);
    assert_string_equal(lease_of(scene), before);
    call = ask(scene, HISTORY_BREAK, token, 0, NULL, NULL);
    assert_refused(&call, "CHANGED");
    assert_int_equal(call.got_token, next);
    assert_string_equal(lease_of(scene), before);
    assert_rows(scene, "break", 1);
    assert_well(scene, next, 1);
}

static void one_scene(void **state)
{
    struct scene *scene = *state;
    scene->play(scene);
    assert_int_equal(px_count(px, scene->rule).done, 1);
    assert_int_equal(px_count(px, scene->rule).kept, 0);
    px_remove(px, scene->rule);
    assert_true(px_wait_quiet(px, SOON));
}

/* ------------------------------------------------------------------------------------------------ nothing is stuck */

/* The resource is had as soon as it is free; the audit's own clock says how long after the grant before. */
static void assert_free_within_ttl(const char *resource, int64_t ttl_ms)
{
    enum { SLACK_MS = 3000 }; /* of a busy machine, and of asking again and again */
    int64_t end = t_now_ms() + SOON;
    for (int i = 0;; i++) {
        struct history_call call = worker_acquire(&b, resource, TTL_MS, t_printf("%s, after %d", resource, i));
        if (call.answer == HISTORY_OK)
            break;
        assert_refused(&call, "HELD");
        assert_true(t_now_ms() < end);
        t_sleep_ms(20);
    }
    int64_t passed =
        t_sql_int(conn,
                  "SELECT (extract(epoch FROM at - lag) * 1000)::bigint FROM (SELECT at, id, lag(at) OVER (ORDER BY id) "
                  "FROM holdfast.audit WHERE resource = '%s') s ORDER BY id DESC LIMIT 1",
                  resource);
    assert_in_range(passed, ttl_ms, ttl_ms + SLACK_MS);
}

static void a_grant_that_nobody_heard_of_ends_with_its_ttl(void **state)
{
    (void)state;
    const int64_t ttl = 700;
    int rule = px_add(px, &(struct px_rule){.direction = PX_REPLY, .method = "Acquire", .count = 1, .action = PX_DROP});
    struct history_call call = worker_acquire(&a, "abandoned", ttl, "abandoned");
    assert_int_equal(call.answer, HISTORY_UNKNOWN);
    assert_true(px_wait(px, rule, 1, SOON));
    assert_free_within_ttl("abandoned", ttl);
    px_remove(px, rule);
}

/* The price that design names: a copy older than the last grant is a new acquire; it costs one TTL. */
static void an_older_copy_costs_one_ttl(void **state)
{
    (void)state;
    const int64_t ttl = 700;
    struct history_call call;
    int rule = px_add(px, &(struct px_rule){.direction = PX_REQUEST, .method = "Acquire", .count = 1, .action = PX_DOUBLE_LATE});
    do
        call = worker_acquire(&a, "older", ttl, "older");
    while (call.answer == HISTORY_UNKNOWN);
    assert_ok(&call);
    call = worker_release(&b, "older", call.got_token); /* tokens decide, not who sends them */
    assert_ok(&call);
    call = worker_acquire(&b, "older", TTL_MS, "older, next");
    assert_ok(&call);
    call = worker_release(&b, "older", call.got_token);
    assert_ok(&call);
    assert_int_equal(px_release(px, rule), 1);
    assert_true(px_wait_quiet(px, SOON));
    assert_free_within_ttl("older", ttl);
    px_remove(px, rule);
}

/* ------------------------------------------------------------------------------------------------ the library's own repeats */

struct life {
    pthread_t thread;
    enum px_direction direction;
    enum fault fault;
    struct px *px;
    hf_client *client, *direct;
    char resource[64], trouble[512];
};

static int strike(struct life *life, const char *method)
{
    const struct px_rule rule = {.direction = life->direction, .method = method, .count = 1, .action = actions[life->fault]};
    return px_add(life->px, &rule);
}

static void *live(void *arg)
{
    struct life *life = arg;
    const hf_acquire_options options = {.resource = life->resource, .ttl_ms = TTL_MS};
    hf_lease *lease = NULL, *second = NULL;
    hf_error error = {0};
    hf_write_result written;
    hf_break_result broken;

    strike(life, "Acquire");
    NEED(life->trouble, error, hf_acquire(life->client, &options, &lease, NULL, &error) == HF_OK);
    NEED(life->trouble, error, hf_lease_token(lease) == 1);
    const int write = strike(life, "Write");
    NEED(life->trouble, error, hf_write(lease, NULL, "one", 3, &written, &error) == HF_OK);
    NEED(life->trouble, error, written.version == 1);
    NEED(life->trouble, error, hf_write(lease, NULL, "two", 3, &written, &error) == HF_OK);
    NEED(life->trouble, error, written.version == 2);
    px_release(life->px, write); /* late: behind the second write */
    NEED(life->trouble, error, px_wait_quiet(life->px, SOON));
    const int renew = strike(life, "Renew");
    NEED(life->trouble, error, hf_renew_now(lease, &error) == HF_OK);
    const int release = strike(life, "Release");
    NEED(life->trouble, error, hf_release(lease, &error) == HF_OK);
    px_release(life->px, renew);
    NEED(life->trouble, error, px_wait_quiet(life->px, SOON));
    NEED(life->trouble, error, hf_acquire(life->direct, &options, &second, NULL, &error) == HF_OK);
    NEED(life->trouble, error, hf_lease_token(second) == 2);
    px_release(life->px, release); /* late: the next holder has it */
    NEED(life->trouble, error, px_wait_quiet(life->px, SOON));
    NEED(life->trouble, error, hf_renew_now(second, &error) == HF_OK);
    NEED(life->trouble, error, hf_write(second, NULL, "three", 5, &written, &error) == HF_OK);
    NEED(life->trouble, error, written.version == 3);
    strike(life, "Break");
    NEED(life->trouble, error, hf_break(life->client, life->resource, 2, NULL, "test", &broken, &error) == HF_OK);
    NEED(life->trouble, error, broken.outcome == HF_BREAK_DONE && broken.fence == 3);
    NEED(life->trouble, error, hf_renew_now(second, &error) == HF_LOST);
    px_heal(life->px); /* the rest arrives */
    NEED(life->trouble, error, px_wait_quiet(life->px, SOON));
out:
    hf_lease_free(lease);
    hf_lease_free(second);
    return NULL;
}

static void the_library_lives_through_all_of_it(void **state)
{
    (void)state;
    struct life lives[2 * FAULTS];
    const size_t n = sizeof(lives) / sizeof(lives[0]);
    const hf_client_options direct_options = {.servers = server->url, .name_space = "library"};
    hf_client *direct = NULL;
    hf_error error;
    assert_int_equal(hf_client_new(&direct_options, &direct, &error), HF_OK); /* the next holder's */
    for (size_t i = 0; i < n; i++) {
        struct life *life = &lives[i];
        *life = (struct life){.direction = i % 2 ? PX_REPLY : PX_REQUEST, .fault = (enum fault)(i / 2)};
        snprintf(life->resource, sizeof(life->resource), "%s %s", i % 2 ? "reply" : "request", fault_names[i / 2]);
        life->px = px_start(server->url, i);
        life->direct = direct;
        const hf_client_options options = {
            .servers = px_url(life->px), .name_space = "library", .timeout_ms = 3600}; /* a third of it for each try */
        assert_int_equal(hf_client_new(&options, &life->client, &error), HF_OK);
        assert_int_equal(pthread_create(&life->thread, NULL, live, life), 0);
    }
    for (size_t i = 0; i < n; i++) {
        pthread_join(lives[i].thread, NULL);
        hf_client_free(lives[i].client);
        px_stop(lives[i].px);
    }
    hf_client_free(direct);
    for (size_t i = 0; i < n; i++) {
        if (lives[i].trouble[0])
            fail_msg("%s: %s", lives[i].resource, lives[i].trouble);
        assert_int_equal(t_sql_int(conn, "SELECT version FROM holdfast.resource_value WHERE resource = '%s'", lives[i].resource),
                         3);
    }
}

static void the_oracle_finds_no_fault(void **state)
{
    (void)state;
    size_t rows = oracle_check(conn, "default", history), library_rows = oracle_check(conn, "library", NULL);
    print_message("%zu calls agree with %zu rows of the audit; %zu rows of the library's\n", history_count(history), rows,
                  library_rows);
    assert_true(history_count(history) > 300 && rows > 150 && library_rows > 50);
}

/* ------------------------------------------------------------------------------------------------ all together */

enum { METHODS = 5, SCENES = METHODS * 2 * FAULTS };

static const struct {
    const char *method;
    void (*play)(struct scene *scene);
} plays[METHODS] = {
    {"Acquire", play_acquire}, {"Renew", play_renew}, {"Release", play_release}, {"Write", play_write}, {"Break", play_break},
};

int main(void)
{
    static struct scene scenes[SCENES];
    static char names[SCENES][64];
    struct CMUnitTest tests[SCENES + 4] = {{0}};
    size_t n = 0;
    for (; n < SCENES; n++) {
        struct scene *scene = &scenes[n];
        scene->method = plays[n / (2 * FAULTS)].method;
        scene->play = plays[n / (2 * FAULTS)].play;
        scene->direction = n / FAULTS % 2 ? PX_REPLY : PX_REQUEST;
        scene->fault = (enum fault)(n % FAULTS);
        snprintf(names[n], sizeof(names[n]), "%s %s %s", scene->method, n / FAULTS % 2 ? "reply" : "request",
                 fault_names[n % FAULTS]);
        snprintf(scene->resource, sizeof(scene->resource), "%s", names[n]);
        snprintf(scene->id, sizeof(scene->id), "%s, A", names[n]);
        tests[n] = (struct CMUnitTest){.name = names[n], .test_func = one_scene, .initial_state = scene};
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_grant_that_nobody_heard_of_ends_with_its_ttl);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(an_older_copy_costs_one_ttl);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_library_lives_through_all_of_it);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(the_oracle_finds_no_fault);
    return _cmocka_run_group_tests("case_11_repeats", tests, n, setup, teardown);
}
