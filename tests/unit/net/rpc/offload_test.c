/*
 * offload_test.c - work beside the loop (net/offload.h), and what calls make of it: large requests are inflated and read there.
 */
#include "unit/net/rpc/fake.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "net/gzip.h"
#include "net/offload.h"

#define JSON "content-type: application/json\n"
#define GZIP "content-encoding: gzip\n"

enum { LARGE = 200000, BOMB = 64 << 20 };

static struct offload *offload;

static bool knows(void *arg, const struct hp_call *call);

static int setup(void **state)
{
    fake_setup(state);
    offload = offload_new(&fake.io);
    assert_non_null(offload);
    fake.cfg.offload = offload;
    fake.cfg.knows = knows;
    fake_open();
    return 0;
}

static int teardown(void **state)
{
    int rc = fake_teardown(state);
    offload_free(offload);
    return rc;
}

/* ---- jobs ---- */

struct job {
    struct offload_job job;
    int number;
    bool waits; /* until `go` */
    pthread_t worked_by;
};
static sem_t began, go;
static int order[8], n_done;

static void work(struct offload_job *job)
{
    struct job *mine = (struct job *)job;
    mine->worked_by = pthread_self();
    if (!mine->waits)
        return;
    sem_post(&began);
    sem_wait(&go);
}

static void done(struct offload_job *job)
{
    order[n_done++ % 8] = ((struct job *)job)->number;
}

static struct job new_job(int number, bool waits)
{
    n_done = number == 1 ? 0 : n_done;
    return (struct job){.job = {.work = work, .done = done}, .number = number, .waits = waits};
}

static void begin(struct job *job)
{
    sem_init(&began, 0, 0);
    sem_init(&go, 0, 0);
    *job = new_job(1, true);
    assert_true(offload_run(offload, &job->job, OFFLOAD_STRANGER));
    sem_wait(&began);
}

static void jobs_are_done_in_order(void **state)
{
    struct job jobs[3];
    (void)state;
    begin(&jobs[0]);
    for (int i = 1; i < 3; i++) {
        jobs[i] = new_job(i + 1, false);
        assert_true(offload_run(offload, &jobs[i].job, OFFLOAD_STRANGER));
    }
    assert_int_equal(n_done, 0);
    sem_post(&go);
    while (n_done < 3)
        fake_await();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(order[i], i + 1);
        assert_false(pthread_equal(jobs[i].worked_by, pthread_self()));
    }
}

static void a_job_that_has_not_begun_may_be_cancelled(void **state)
{
    struct job first, second = new_job(2, false), third = new_job(3, false);
    (void)state;
    begin(&first);
    assert_true(offload_run(offload, &second.job, OFFLOAD_STRANGER) && offload_run(offload, &third.job, OFFLOAD_STRANGER));
    assert_true(offload_cancel(offload, &second.job));
    assert_false(offload_cancel(offload, &first.job));
    sem_post(&go);
    while (n_done < 2)
        fake_await();
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 3);
}

static void those_that_are_known_come_first(void **state)
{
    struct job first, second = new_job(2, false), third = new_job(3, false), fourth = new_job(4, false);
    (void)state;
    begin(&first);
    assert_true(offload_run(offload, &second.job, OFFLOAD_STRANGER) && offload_run(offload, &third.job, OFFLOAD_NAMED) &&
                offload_run(offload, &fourth.job, OFFLOAD_KNOWN));
    sem_post(&go);
    while (n_done < 4)
        fake_await();
    assert_int_equal(order[1], 4);
    assert_int_equal(order[2], 3);
    assert_int_equal(order[3], 2);
}

static void too_many_jobs(void **state)
{
    struct job first, *more = calloc(100, sizeof(*more));
    int n = 0;
    (void)state;
    begin(&first);
    for (more[0] = new_job(2, false); offload_run(offload, &more[n].job, OFFLOAD_STRANGER); more[n] = new_job(2, false))
        n++;
    assert_int_equal(n, 64);
    struct job known = new_job(3, false);
    assert_true(offload_run(offload, &known.job, OFFLOAD_KNOWN)); /* they have places of their own */
    assert_true(offload_cancel(offload, &known.job));
    while (n)
        assert_true(offload_cancel(offload, &more[--n].job));
    sem_post(&go);
    while (!n_done)
        fake_await();
    free(more);
}

/* ---- calls ---- */

static struct fake_exchange *call(const char *headers, const void *body, size_t len)
{
    struct fake_exchange *f = fake_request(1, "POST", ECHO, headers);
    fake_body(f, body, len, true);
    return f;
}

/* {"value":"xxx…"}, to be freed. */
static char *json_of(size_t len)
{
    char *json = malloc(len + 16);
    strcpy(json, "{\"value\":\"");
    memset(json + 10, 'x', len);
    strcpy(json + 10 + len, "\"}");
    return json;
}

static void zip(struct hp_buf *out, const void *data, size_t len)
{
    struct net_gzip *gzip = net_gzip_new();
    hp_buf_reset(out);
    assert_true(net_gzip_close(gzip, data, len, out));
    net_gzip_free(gzip);
}

static void large_requests_are_answered(void **state)
{
    char *json = json_of(LARGE);
    struct hp_buf zipped = HP_BUF_INIT;
    (void)state;
    zip(&zipped, json, strlen(json));
    for (int round = 0; round < 2; round++) {
        struct fake_exchange *f = round ? call(JSON GZIP, zipped.data, zipped.len) : call(JSON, json, strlen(json));
        assert_int_equal(f->status, 0); /* it isn't read yet */
        assert_int_equal(f->held >= (round ? 0 : LARGE), 1);
        struct fake_exchange *little = call(JSON, "{}", 2);
        assert_int_equal(little->status, 200); /* nobody waits for it */
        fake_await();
        assert_int_equal(f->status, 200);
        assert_true(f->charged > 0 && !little->charged);
        assert_string_equal((char *)f->body.data, json);
    }
    hp_buf_release(&zipped);
    free(json);
}

/* The error is the same with and without a thread beside the loop. */
static void refused_alike(const char *headers, const void *body, size_t len, const char *what)
{
    struct fake_exchange *f = call(headers, body, len);
    assert_int_equal(f->status, 0);
    fake_await();
    assert_int_equal(f->status, 400);
    t_contains((char *)f->body.data, what);
    char *text = t_printf("%s", (char *)f->body.data);
    fake.cfg.offload = NULL;
    fake_open();
    f = call(headers, body, len);
    assert_int_equal(f->status, 400);
    assert_string_equal((char *)f->body.data, text);
    fake.cfg.offload = offload;
    fake_open();
}

static void large_requests_are_refused(void **state)
{
    char *json = json_of(LARGE), *spaces = malloc(BOMB);
    struct hp_buf zipped = HP_BUF_INIT;
    (void)state;
    json[LARGE] = '?';
    refused_alike(JSON, json, strlen(json), "base64");
    memset(spaces, ' ', BOMB);
    zip(&zipped, spaces, BOMB);
    refused_alike(JSON GZIP, zipped.data, zipped.len, "more than 8388608 bytes");
    zip(&zipped, spaces, LARGE);
    refused_alike(JSON GZIP, zipped.data, zipped.len, "JSON");
    memset(spaces + 1000, 0xff, LARGE);
    refused_alike(JSON GZIP, spaces, LARGE, "gzip");
    refused_alike("content-type: application/proto\n" GZIP, spaces, LARGE, "gzip");
    hp_buf_release(&zipped);
    free(spaces);
    free(json);
}

/* Whoever goes meanwhile is forgotten, whether it was begun or not. */
static void callers_go(void **state)
{
    char *json = json_of(LARGE);
    struct job first;
    (void)state;
    begin(&first);
    fake_close(call(JSON, json, strlen(json)), false); /* not begun */
    struct fake_exchange *other = call(JSON, json, strlen(json));
    sem_post(&go);
    while (!other->status)
        fake_await();
    for (int i = 0; i < 20; i++) { /* begun, likely, or done */
        struct fake_exchange *f = call(JSON, json, strlen(json));
        if (i % 2)
            sched_yield();
        fake_forget(f);
    }
    free(json);
}

static bool knows(void *arg, const struct hp_call *call)
{
    (void)arg;
    for (size_t i = 0; i < call->n_metadata; i++)
        if (!strcmp(call->metadata[2 * i], "authorization"))
            return !strcmp(call->metadata[2 * i + 1], "Bearer known");
    return false;
}

static void too_many_requests(void **state)
{
    char *json = json_of(LARGE);
    struct job first, *more = calloc(64, sizeof(*more));
    (void)state;
    begin(&first);
    for (int i = 0; i < 64; i++) {
        more[i] = new_job(2, false);
        assert_true(offload_run(offload, &more[i].job, OFFLOAD_STRANGER));
    }
    struct fake_exchange *f = call(JSON, json, strlen(json));
    assert_int_equal(f->status, 429);
    t_contains((char *)f->body.data, "too many large requests");
    f = call(JSON "authorization: Bearer wrong\n", json, strlen(json));
    assert_int_equal(f->status, 429);
    f = call(JSON "authorization: Bearer known\n", json, strlen(json)); /* has a place, before the others */
    assert_int_equal(f->status, 0);
    sem_post(&go);
    while (!f->status)
        fake_await();
    assert_int_equal(f->status, 200);
    assert_true(n_done < 65);
    while (n_done < 65)
        fake_await();
    free(more);
    free(json);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(jobs_are_done_in_order),
        TEST(a_job_that_has_not_begun_may_be_cancelled),
        TEST(those_that_are_known_come_first),
        TEST(too_many_jobs),
        TEST(large_requests_are_answered),
        TEST(large_requests_are_refused),
        TEST(callers_go),
        TEST(too_many_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
