/*
 * metrics_test.c - the text for Prometheus: it says what Stats says, of every field there is; promtool finds no fault with it;
 * labels are escaped; and a database that doesn't answer keeps nobody waiting.
 */
#include "unit/service/fake.h"

#include <stdlib.h>
#include <string.h>

#include "holdfast/v1/admin.pb-c.h"
#include "holdfast/v1/lease.pb-c.h"
#include "service/call.h"
#include "service/metrics.h"
#include "service/metrics_text.h"

#define ADMIN "/holdfast.v1.AdminService/"
#define LEASE "/holdfast.v1.LeaseService/"

static char *str(const char *text)
{
    return (char *)(uintptr_t)text;
}

static char *text;
static int n_done;

static void on_text(void *arg, const struct hp_buf *buf)
{
    assert_non_null(arg);
    n_done++;
    free(text);
    text = buf ? strdup((const char *)buf->data) : NULL;
}

static const struct svc_metric more[] = {
    {.name = "http_connections", .help = "Open now.", .value = 3},
    {.name = "nng_calls_total", .help = "By listener.", .counts = true, .label = "url", .what = "ipc:///a\"b\\c", .value = 1e15},
    {.name = "nng_calls_total", .help = "By listener.", .counts = true, .label = "url", .what = "tcp://127.0.0.1:1", .value = 2},
};

static void ask(struct fake *f)
{
    n_done = 0;
    svc_metrics(f->svc, more, 3, on_text, f);
}

static const struct st_op_state_row states[] = {{"running", 4, 1500}, {"unknown", 0, 0}};

/* The database's two answers. */
static void answered(struct fake *f)
{
    assert_int_equal(f->n_items, 2);
    assert_int_equal(f->items[0]->kind, ST_STATS);
    f->items[0]->out.stats.leases_live = 41;
    f->items[0]->out.stats.resources = 42;
    f->items[0]->out.stats.schema_version = 43;
    fake_done(f, 0, ST_FOUND);
    assert_int_equal(f->items[0]->kind, ST_OP_STATS);
    f->items[0]->out.op_states.rows = states;
    f->items[0]->out.op_states.n = 2;
    fake_done(f, 0, ST_FOUND);
}

static void scrape(struct fake *f)
{
    ask(f);
    assert_int_equal(n_done, 0);
    answered(f);
    assert_int_equal(n_done, 1);
    assert_non_null(text);
}

/* The line stands there, whole. */
static void has(const char *line)
{
    const char *at = strstr(text, t_printf("\n%s\n", line));
    if (!at)
        fail_msg("\"%s\" is missing in:\n%s", line, text);
}

static void promtool_agrees(void)
{
    const char *argv[] = {"promtool", "check", "metrics", NULL};
    struct t_result result = t_run(argv, &(struct t_spawn_opts){.input = text}, T_PATIENCE_MS);
    if (result.status != 0 || result.out[0] || result.err[0])
        fail_msg("promtool (Debian's package prometheus): %d\n%s%s\n%s", result.status, result.out, result.err, text);
}

/* Some of everything. */
static void fill(struct fake *f)
{
    Holdfast__V1__GetLeaseRequest get = HOLDFAST__V1__GET_LEASE_REQUEST__INIT;
    get.namespace_ = str("default");
    get.resource = str("a \"quoted\" \\ name");
    struct fake_call *call = fake_call(f, LEASE "Get", &get, 0);
    fake_done(f, 0, ST_BUSY);
    fake_assert_error(call, HP_UNAVAILABLE, HP_R_BUSY);
    call = fake_call(f, LEASE "Get", &get, 0);
    fake_done(f, 0, ST_NO_SUCH_RESOURCE);
    fake_assert_error(call, HP_NOT_FOUND, HP_R_NO_SUCH_RESOURCE);
    fake_call_bytes(f, "/none", "", 0, 0);
    f->stats.kinds[ST_ACQUIRE] = (struct st_kind_stats){.batches = 6, .items = 40007, .splits = 1, .retries = 2, .busy = 3};
    f->stats.kinds[ST_ACQUIRE].sizes[0] = 2;
    f->stats.kinds[ST_ACQUIRE].sizes[2] = 3;
    f->stats.kinds[ST_ACQUIRE].sizes[15] = 1;
    f->stats.queued = 17;
}

static void it_says_what_stats_says(void **state)
{
    struct fake *f = *state;
    fill(f);
    scrape(f);
    has("holdfast_build_info{version=\"1.2.3\"} 1");
    has("holdfast_database_up 1");
    has("holdfast_schema_version 43");
    has("holdfast_leases_live 41");
    has("holdfast_resources 42");
    has("holdfast_items_queued 17");
    has("holdfast_database_connections 4");
    has("holdfast_calls_total{service=\"holdfast.v1.LeaseService\",method=\"Get\"} 2");
    has("holdfast_calls_total{service=\"\",method=\"\"} 1");
    has("holdfast_call_errors_total{service=\"holdfast.v1.LeaseService\",method=\"Get\",reason=\"BUSY\"} 1");
    has("holdfast_call_errors_total{service=\"\",method=\"\",reason=\"NO_SUCH_METHOD\"} 1");
    has("holdfast_batch_items_bucket{kind=\"acquire\",le=\"1\"} 2");
    has("holdfast_batch_items_bucket{kind=\"acquire\",le=\"3\"} 2");
    has("holdfast_batch_items_bucket{kind=\"acquire\",le=\"7\"} 5");
    has("holdfast_batch_items_bucket{kind=\"acquire\",le=\"32767\"} 5");
    has("holdfast_batch_items_bucket{kind=\"acquire\",le=\"+Inf\"} 6");
    has("holdfast_batch_items_sum{kind=\"acquire\"} 40007");
    has("holdfast_batch_items_count{kind=\"acquire\"} 6");
    has("holdfast_batch_splits_total{kind=\"acquire\"} 1");
    has("holdfast_items_busy_total{kind=\"acquire\"} 3");
    has("holdfast_outcomes_total{outcome=\"busy\"} 1");
    has("holdfast_contended_busy{namespace=\"default\",name=\"a \\\"quoted\\\" \\\\ name\"} 1");
    has("holdfast_operations{state=\"running\"} 4");
    has("holdfast_operations_oldest_seconds{state=\"running\"} 1.5");
    has("holdfast_stale_tokens_total{call=\"Write\"} 0");
    has("holdfast_operation_attempts_bucket{le=\"15\"} 0");
    has("holdfast_keys_required 0");
    has("holdfast_watch_streams 0");
    has("holdfast_follower_looks_total 11");
    has("holdfast_follower_lag_seconds 0.014");
    has("holdfast_http_connections 3");
    has("holdfast_nng_calls_total{url=\"ipc:///a\\\"b\\\\c\"} 1e+15");
    has("holdfast_nng_calls_total{url=\"tcp://127.0.0.1:1\"} 2");
    t_contains(text, "\nprocess_resident_memory_bytes ");
    t_contains(text, "\nprocess_open_fds ");
    promtool_agrees();
}

/* A call of Stats is one; a look at the metrics is none. */
static void looking_changes_nothing(void **state)
{
    struct fake *f = *state;
    scrape(f);
    scrape(f);
    has("holdfast_calls_total{service=\"holdfast.v1.AdminService\",method=\"Stats\"} 0");
    has("holdfast_calls_ok_total{service=\"holdfast.v1.AdminService\",method=\"Stats\"} 0");
    assert_int_equal(svc_in_flight(f->svc), 0);
}

static size_t fields(const ProtobufCMessageDescriptor *type)
{
    size_t n = 0;
    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];
        n += field->type == PROTOBUF_C_TYPE_MESSAGE ? fields(field->descriptor) : 1;
    }
    return n;
}

/* Who adds a field to Stats is reminded of metrics.c here. */
static void no_field_is_forgotten(void **state)
{
    (void)state;
    assert_int_equal(fields(&holdfast__v1__stats_response__descriptor), 69);
}

static void a_silent_database_is_left_out(void **state)
{
    struct fake *f = *state;
    ask(f);
    fake_advance(f, 999);
    assert_int_equal(n_done, 0);
    fake_advance(f, 1);
    assert_int_equal(n_done, 1);
    has("holdfast_database_up 0");
    assert_null(strstr(text, "holdfast_leases_live"));
    assert_null(strstr(text, "holdfast_operations{"));
    promtool_agrees();
    fake_done(f, 1, ST_FOUND); /* late, when the text is gone */
    fake_done(f, 0, ST_FOUND);
    assert_int_equal(n_done, 1);
}

static void a_draining_server_is_measured(void **state)
{
    struct fake *f = *state;
    svc_drain(f->svc);
    scrape(f);
    has("holdfast_draining 1");
}

static void a_server_with_keys_tells_of_denials(void **state)
{
    struct fake *f = *state;
    ask(f);
    for (size_t i = 0; i < f->n_items; i++)
        assert_true(f->items[i]->kind == ST_STATS || f->items[i]->kind == ST_OP_STATS);
    fake_done(f, 0, ST_DATABASE_DOWN);
    fake_done(f, 0, ST_DATABASE_DOWN);
    assert_int_equal(n_done, 1);
    has("holdfast_keys_required 1");
    has("holdfast_database_up 0");
    t_contains(text, "# TYPE holdfast_denials_total counter\n");
    promtool_agrees();
}

static void without_memory_there_is_no_text(void **state)
{
    struct fake *f = *state;
    int failed = 0;
    for (int n = 1; n < 400; n++) {
        f->fail_alloc = n;
        fake_call_bytes(f, "/none", "", 0, 0); /* the n-th allocation from here on */
        ask(f);
        if (f->n_items == 2)
            answered(f);
        assert_int_equal(n_done, 1);
        failed += !text;
    }
    f->fail_alloc = 0;
    assert_true(failed > 0);
    scrape(f);
}

static void lines_are_as_the_format_wants_them(void **state)
{
    (void)state;
    struct hp_buf out = HP_BUF_INIT;
    svc_metric_head(&out, "m", SVC_COUNTER, "a \"b\"\\\nc");
    svc_metric_int(&out, "m", "_x", (struct svc_labels){.list = {{"l", "a \"b\"\\\nc"}, {"k", ""}}}, -1);
    svc_metric_double(&out, "m", "", svc_no_labels, 0.25);
    assert_string_equal((const char *)out.data,
                        "# HELP m a \"b\"\\\\\\nc\n# TYPE m counter\nm_x{l=\"a \\\"b\\\"\\\\\\nc\",k=\"\"} -1\nm 0.25\n");
    hp_buf_release(&out);
}

static int free_text(void **state)
{
    free(text);
    text = NULL;
    fake_teardown(state);
    return t_teardown(state);
}

#define T(name) cmocka_unit_test_setup_teardown(name, fake_setup, free_text)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(it_says_what_stats_says),
        T(looking_changes_nothing),
        cmocka_unit_test(no_field_is_forgotten),
        T(a_silent_database_is_left_out),
        T(a_draining_server_is_measured),
        cmocka_unit_test_setup_teardown(a_server_with_keys_tells_of_denials, fake_setup_keys, free_text),
        T(without_memory_there_is_no_text),
        cmocka_unit_test(lines_are_as_the_format_wants_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
