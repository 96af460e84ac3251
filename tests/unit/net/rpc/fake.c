/* fake.c - see fake.h. */
#include "unit/net/rpc/fake.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c/grpc.h"
#include "proto/c/wire.h"

struct fake fake;

/* ---- the loop ---- */

static int64_t now_ms(struct io *io)
{
    (void)io;
    return fake.now;
}

static void timer_set(struct io *io, struct io_timer *timer, int64_t at_ms)
{
    (void)io;
    assert_true(!fake.timer || fake.timer == timer);
    fake.timer = timer;
    timer->at_ms = at_ms;
}

static void timer_cancel(struct io *io, struct io_timer *timer)
{
    (void)io;
    if (fake.timer == timer)
        fake.timer = NULL;
}

static void post(struct io *io, struct io_task *task)
{
    (void)io;
    assert_false(task->posted);
    task->posted = true;
    task->next = fake.tasks;
    fake.tasks = task;
}

static void unpost(struct io *io, struct io_task *task)
{
    (void)io;
    for (struct io_task **at = &fake.tasks; *at; at = &(*at)->next) {
        if (*at == task) {
            *at = task->next;
            task->posted = false;
            return;
        }
    }
}

static int watch(struct io *io, struct io_watch *watch)
{
    (void)io;
    assert_null(fake.watch);
    fake.watch = watch;
    watch->watched = true;
    return 0;
}

static void unwatch(struct io *io, struct io_watch *watch)
{
    (void)io;
    assert_ptr_equal(fake.watch, watch);
    fake.watch = NULL;
    watch->watched = false;
}

void fake_await(void)
{
    struct pollfd ready = {.fd = fake.watch->fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, T_PATIENCE_MS), 1);
    fake.watch->ready(fake.watch, IO_READ);
    fake_turn();
}

void fake_turn(void)
{
    while (fake.tasks) {
        struct io_task *task = fake.tasks;
        fake.tasks = task->next;
        task->posted = false;
        task->run(task);
    }
}

void fake_advance(int64_t ms)
{
    struct io_timer *timer = fake.timer;
    fake.now += ms;
    if (timer && timer->at_ms <= fake.now) {
        fake.timer = NULL;
        timer->fire(timer);
    }
    fake_turn();
}

/* ---- the services ---- */

static const struct hp_method methods[] = {
    {ECHO, &holdfast__v1__write_request__descriptor, &holdfast__v1__write_request__descriptor, false, false},
    {STREAM, &holdfast__v1__write_request__descriptor, &holdfast__v1__write_request__descriptor, true, false},
    {BIDI, &holdfast__v1__write_request__descriptor, &holdfast__v1__write_request__descriptor, true, true},
};

static const struct hp_method *find(void *arg, const char *path)
{
    assert_ptr_equal(arg, &fake);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (!strcmp(methods[i].path, path))
            return &methods[i];
    return NULL;
}

static void fill(Holdfast__V1__WriteRequest *message, const char *value)
{
    holdfast__v1__write_request__init(message);
    message->value.data = (uint8_t *)(uintptr_t)value;
    message->value.len = strlen(value);
}

void fake_answer(struct hp_call *call, const char *value)
{
    Holdfast__V1__WriteRequest message;
    fill(&message, value);
    call->answer(call, NULL, &message.base);
}

bool fake_send(struct hp_call *call, const char *value)
{
    Holdfast__V1__WriteRequest message;
    fill(&message, value);
    return call->send(call, &message.base);
}

/* The value of a serialized WriteRequest, in the call's arena. */
static char *value_of(struct hp_arena *arena, const void *data, size_t len)
{
    struct hp_status status;
    const Holdfast__V1__WriteRequest *message =
        (void *)hp_unpack(arena, &holdfast__v1__write_request__descriptor, data, len, &status);
    return message ? hp_strndup(arena, (const char *)message->value.data, message->value.len) : NULL;
}

static void on_gone(struct hp_call *call)
{
    fake.n_gone++;
    if (fake.answer_when_gone)
        call->answer(call, NULL, NULL);
}

static void on_writable(struct hp_call *call)
{
    (void)call;
    fake.n_writable++;
}

static void on_message(struct hp_call *call, const void *data, size_t len)
{
    if (!data) {
        fake.n_ends++;
        return;
    }
    char *value = value_of(call->arena, data, len);
    hp_buf_printf(&fake.messages, "%s|", value ? value : "?");
    if (!fake.hold)
        fake_send(call, value ? value : "?");
}

void fake_listen(struct hp_call *call)
{
    call->message = on_message;
    call->listen(call);
}

static void on_call(void *arg, struct hp_call *call)
{
    assert_ptr_equal(arg, &fake);
    call->gone = on_gone;
    call->writable = on_writable;
    if (!fake.deaf)
        call->message = on_message;
    if (fake.fail) {
        call->answer(call, fake.fail, NULL);
        return;
    }
    if (fake.hold || strcmp(call->method, ECHO) != 0) {
        assert_true(fake.n_calls < FAKE_CALLS);
        fake.calls[fake.n_calls++] = call;
        return;
    }
    const char *value = value_of(call->arena, call->payload, call->payload_len);
    if (value) {
        fake_answer(call, value);
        return;
    }
    struct hp_status status;
    hp_status_set(&status, HP_R_QUEUE_FULL, "no memory to look at it");
    call->answer(call, &status, NULL);
}

/* ---- exchanges ---- */

static void add_lines(struct hp_buf *out, const struct net_header *headers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hp_buf_printf(out, "%s: %s\n", headers[i].name, headers[i].value);
}

void net_exchange_respond(struct net_exchange *x, int status, const struct net_header *headers, size_t n, bool end)
{
    struct fake_exchange *f = (struct fake_exchange *)x;
    assert_false(f->closed);
    assert_int_equal(f->status, 0);
    f->status = status;
    f->ended = end;
    add_lines(&f->headers, headers, n);
}

bool net_exchange_write(struct net_exchange *x, const void *data, size_t len)
{
    struct fake_exchange *f = (struct fake_exchange *)x;
    assert_false(f->closed || f->ended);
    assert_true(f->status != 0);
    hp_buf_add(&f->body, data, len);
    bool full = f->room && f->body.len > f->room;
    if (f->close_in_write)
        fake_close(f, false);
    return !full;
}

void net_exchange_end(struct net_exchange *x, const struct net_header *trailers, size_t n)
{
    struct fake_exchange *f = (struct fake_exchange *)x;
    assert_false(f->closed || f->ended);
    assert_true(f->status != 0);
    f->ended = true;
    add_lines(&f->trailers, trailers, n);
}

void net_exchange_consume(struct net_exchange *x, size_t len)
{
    struct fake_exchange *f = (struct fake_exchange *)x;
    assert_false(f->closed);
    f->consumed += len;
}

bool net_exchange_is_known(const struct net_exchange *x)
{
    return ((const struct fake_exchange *)(const void *)x)->known;
}

void net_exchange_charge(struct net_exchange *x, int64_t ns)
{
    struct fake_exchange *f = (struct fake_exchange *)x;
    assert_false(f->closed);
    f->charged += ns;
}

void net_exchange_hold(struct net_exchange *x, size_t bytes)
{
    struct fake_exchange *f = (struct fake_exchange *)x;
    assert_false(f->closed);
    f->held = bytes;
}

static char *copy(const char *text, size_t len)
{
    char *to = malloc(len + 1);
    memcpy(to, text, len);
    to[len] = '\0';
    return to;
}

static void take_headers(struct fake_exchange *f, const char *lines)
{
    while (*lines) {
        const char *colon = strstr(lines, ": "), *end = strchr(lines, '\n');
        assert_true(colon && end && colon < end && f->x.n_headers < FAKE_HEADERS);
        char *name = copy(lines, (size_t)(colon - lines)), *value = copy(colon + 2, (size_t)(end - colon - 2));
        f->names[f->n_names++] = name;
        f->names[f->n_names++] = value;
        f->request[f->x.n_headers++] = (struct net_header){name, value};
        lines = end + 1;
    }
}

struct fake_exchange *fake_request(int version, const char *method, const char *path, const char *headers)
{
    static const struct hp_peer peer = {.address = "192.0.2.7:40312", .transport = "?"};
    struct fake_exchange *f = calloc(1, sizeof(*f));
    assert_true(fake.n_exchanges < FAKE_CALLS);
    fake.exchanges[fake.n_exchanges++] = f;
    take_headers(f, headers);
    f->x.version = version;
    f->x.method = method;
    f->x.path = path;
    f->x.authority = "test";
    f->x.headers = f->request;
    f->x.peer = &peer;
    f->x.received_ms = fake.now;
    net_rpc_request(fake.rpc, &f->x);
    assert_non_null(f->x.body);
    assert_non_null(f->x.closed);
    return f;
}

void fake_body(struct fake_exchange *f, const void *data, size_t len, bool end)
{
    if (f->ended || f->closed)
        return;
    /* In memory of its own size, so that AddressSanitizer sees a step too far. */
    void *exact = malloc(len ? len : 1);
    if (len)
        memcpy(exact, data, len);
    f->x.body(&f->x, exact, len, end);
    free(exact);
}

void fake_close(struct fake_exchange *f, bool complete)
{
    if (f->closed)
        return;
    f->closed = true;
    f->x.closed(&f->x, complete);
    /* What the request was is gone. */
    for (size_t i = 0; i < f->n_names; i++)
        free(f->names[i]);
    f->n_names = 0;
}

static void exchange_free(struct fake_exchange *f)
{
    hp_buf_release(&f->headers);
    hp_buf_release(&f->trailers);
    hp_buf_release(&f->body);
    free(f);
}

void fake_forget(struct fake_exchange *f)
{
    assert_ptr_equal(f, fake.exchanges[fake.n_exchanges - 1]);
    fake_close(f, f->ended);
    fake.n_exchanges--;
    exchange_free(f);
}

void fake_read(struct fake_exchange *f)
{
    f->room += f->body.len;
    if (f->x.writable)
        f->x.writable(&f->x);
}

static const char *line_of(const struct hp_buf *lines, const char *name)
{
    static char value[8192];
    size_t len = strlen(name);
    for (const char *line = (const char *)lines->data; line && *line; line = strchr(line, '\n') + 1) {
        if (!strncmp(line, name, len) && line[len] == ':') {
            size_t n = (size_t)(strchr(line, '\n') - line) - len - 2;
            assert_true(n < sizeof(value));
            memcpy(value, line + len + 2, n);
            value[n] = '\0';
            return value;
        }
    }
    return NULL;
}

const char *fake_header(const struct fake_exchange *f, const char *name)
{
    return line_of(&f->headers, name);
}

const char *fake_trailer(const struct fake_exchange *f, const char *name)
{
    return line_of(&f->trailers, name);
}

/* ---- messages ---- */

void fake_add_message(struct hp_buf *out, const char *value)
{
    Holdfast__V1__WriteRequest message;
    uint8_t prefix[HP_GRPC_PREFIX];
    fill(&message, value);
    hp_grpc_prefix(prefix, false, protobuf_c_message_get_packed_size(&message.base));
    hp_buf_add(out, prefix, sizeof(prefix));
    assert_true(hp_pack(out, &message.base));
}

char *fake_values(const struct fake_exchange *f)
{
    static char text[1024];
    struct hp_grpc_reader reader;
    struct hp_arena *arena = hp_arena_new(1 << 20);
    const uint8_t *data = f->body.data;
    size_t len = f->body.len, n = 0;
    hp_grpc_reader_init(&reader, 1 << 20);
    while (hp_grpc_read(&reader, &data, &len) == HP_GRPC_MESSAGE)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s|", value_of(arena, reader.message.data, reader.message.len));
    text[n] = '\0';
    assert_false(hp_grpc_reader_amid(&reader));
    hp_grpc_reader_release(&reader);
    hp_arena_free(arena);
    return text;
}

/* ---- life ---- */

void fake_open(void)
{
    for (size_t i = 0; i < fake.n_exchanges; i++)
        fake_close(fake.exchanges[i], fake.exchanges[i]->ended);
    net_rpc_free(fake.rpc);
    fake.cfg.find = find;
    fake.cfg.on_call = on_call;
    fake.cfg.arg = &fake;
    fake.rpc = net_rpc_new(&fake.io, &fake.cfg);
    assert_non_null(fake.rpc);
}

int fake_setup(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof(fake));
    fake.now = 5000;
    fake.io = (struct io){.now_ms = now_ms,
                          .timer_set = timer_set,
                          .timer_cancel = timer_cancel,
                          .post = post,
                          .unpost = unpost,
                          .watch = watch,
                          .unwatch = unwatch};
    fake_open();
    return 0;
}

int fake_teardown(void **state)
{
    struct net_rpc_stats stats;
    (void)state;
    for (size_t i = 0; i < fake.n_exchanges; i++)
        fake_close(fake.exchanges[i], fake.exchanges[i]->ended);
    fake_turn();
    for (size_t i = 0; i < fake.n_calls; i++)
        if (fake.calls[i])
            fake.calls[i]->answer(fake.calls[i], NULL, NULL);
    if (fake.rpc) {
        net_rpc_stats(fake.rpc, &stats);
        assert_int_equal(stats.in_flight, 0);
        assert_int_equal(stats.held, 0);
    }
    assert_null(fake.timer);
    assert_null(fake.tasks);
    net_rpc_free(fake.rpc);
    for (size_t i = 0; i < fake.n_exchanges; i++)
        exchange_free(fake.exchanges[i]);
    hp_buf_release(&fake.messages);
    return 0;
}
