/*
 * rpc_fuzz.c - requests as calls: three bytes say what the request is and what becomes of it, the rest is its body.
 *
 * Whatever the bytes and however they are cut, whether the service answers at once, later or never, whether the peer reads and when
 * it goes: the response begins once and ends once, a framed one is made of whole messages, the service learns at most once that its
 * caller has gone and never after its answer, what was taken was consumed, and nothing is left.
 */
#include "fuzz.h"

#include <stdbool.h>
#include <string.h>

#include "net/rpc.h"
#include "proto/c/grpc.h"
#include "proto/c/wire.h"
#include "unit/proto/kinds.h"

/* The first byte: two bits of protocol, two of method, and */
enum { GZIP_IN = 16, GZIP_OUT = 32, TIMEOUT = 64, VERSION_1 = 128 };
/* The second byte. */
enum {
    LATER = 1,         /* the call is answered after the body */
    FAILS = 2,         /* by an error */
    GOES = 4,          /* the caller goes before that */
    SLOW = 8,          /* the peer reads nothing until then */
    DEAF = 16,         /* the service listens to its caller's stream only then */
    BREAKS = 32,       /* the connection breaks as it is written to */
    NO_MEMORY = 64,    /* the allocation of the third byte's number fails */
    ANSWERS_GONE = 128 /* the call is answered as it learns that its caller has gone */
};

enum { SMALL = 2000 };

static struct {
    uint8_t how;
    struct net_rpc *rpc;
    struct net_exchange x;
    struct io_task *task;
    struct io_timer *timer;
    struct hp_call *call; /* given and not answered */
    int n_calls, n_gone, n_responses, n_ends, n_closed;
    bool framed, full, posted;
    size_t given, consumed;
    int until_failure;
    struct hp_grpc_reader reader; /* of the response */
} now;

/* ---- the loop ---- */

static int64_t now_ms(struct io *io)
{
    (void)io;
    return 1000;
}

static void timer_set(struct io *io, struct io_timer *timer, int64_t at_ms)
{
    (void)io;
    MUST(!now.timer && at_ms >= 1000);
    now.timer = timer;
}

static void timer_cancel(struct io *io, struct io_timer *timer)
{
    (void)io;
    if (now.timer == timer)
        now.timer = NULL;
}

static void post(struct io *io, struct io_task *task)
{
    (void)io;
    MUST(!now.task && !now.posted);
    now.task = task;
    now.posted = true;
}

static void unpost(struct io *io, struct io_task *task)
{
    (void)io;
    if (now.task == task)
        now.task = NULL;
}

static struct io io = {.now_ms = now_ms, .timer_set = timer_set, .timer_cancel = timer_cancel, .post = post, .unpost = unpost};

static void turn(void)
{
    struct io_task *task = now.task;
    now.task = NULL;
    if (task)
        task->run(task);
}

static void *short_of_memory(size_t size)
{
    return now.until_failure && --now.until_failure == 0 ? NULL : malloc(size);
}

/* ---- the exchange ---- */

static void close_it(bool complete)
{
    if (now.n_closed++)
        return;
    now.x.closed(&now.x, complete);
}

void net_exchange_respond(struct net_exchange *x, int status, const struct net_header *headers, size_t n, bool end)
{
    MUST(x == &now.x && !now.n_closed && status >= 200 && status < 600);
    MUST(now.n_responses++ == 0);
    for (size_t i = 0; i < n; i++)
        for (const char *p = headers[i].value; *p; p++)
            MUST(*p >= 0x20 && *p < 0x7F);
    now.framed = status == 200 &&
                 (!strncmp(headers[0].value, "application/grpc", 16) || !strncmp(headers[0].value, "application/connect", 19));
    now.n_ends += end;
}

bool net_exchange_write(struct net_exchange *x, const void *data, size_t len)
{
    const uint8_t *at = data;
    MUST(x == &now.x && now.n_responses == 1 && !now.n_ends && !now.n_closed);
    while (now.framed && len && at[0] != 2) { /* 2: Connect's last frame, which isn't looked into */
        enum hp_grpc_read read = hp_grpc_read(&now.reader, &at, &len);
        MUST(read == HP_GRPC_MESSAGE || read == HP_GRPC_NO_MEMORY);
        now.framed = read == HP_GRPC_MESSAGE;
    }
    if (now.how & BREAKS) {
        close_it(false);
        return false;
    }
    now.full = now.how & SLOW;
    return !now.full;
}

void net_exchange_end(struct net_exchange *x, const struct net_header *trailers, size_t n)
{
    (void)trailers;
    (void)n;
    MUST(x == &now.x && now.n_responses == 1 && !now.n_closed);
    MUST(now.n_ends++ == 0);
}

void net_exchange_consume(struct net_exchange *x, size_t len)
{
    MUST(x == &now.x && !now.n_closed);
    now.consumed += len;
    MUST(now.consumed <= now.given);
}

bool net_exchange_is_known(const struct net_exchange *x)
{
    MUST(x == &now.x && !now.n_closed);
    return false;
}

void net_exchange_charge(struct net_exchange *x, int64_t ns)
{
    MUST(x == &now.x && !now.n_closed && ns >= 0);
}

void net_exchange_hold(struct net_exchange *x, size_t bytes)
{
    MUST(x == &now.x && !now.n_closed && bytes <= 3 * now.given + SMALL);
}

/* ---- the service ---- */

static const struct hp_method methods[] = {
    {"/unary", &kinds_type, &kinds_type, false, false},
    {"/stream", &kinds_type, &kinds_type, true, false},
    {"/both", &kinds_type, &kinds_type, true, true},
};
static const char *const paths[] = {"/unary", "/stream", "/both", "/none"};

static const struct hp_method *find(void *arg, const char *path)
{
    (void)arg;
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (!strcmp(methods[i].path, path))
            return &methods[i];
    return NULL;
}

static void answer(void)
{
    struct hp_call *call = now.call;
    struct kinds message;
    struct hp_status status;
    now.call = NULL;
    kinds_fill(&message);
    hp_status_bad_field(&status, HP_R_LIMIT, "field", "\x01\xFF", 2, "more");
    if (now.how & FAILS || !find(NULL, call->method))
        call->answer(call, &status, NULL);
    else
        call->answer(call, NULL, strcmp(call->method, "/unary") ? NULL : &message.base);
}

static void on_gone(struct hp_call *call)
{
    MUST(call == now.call && !(now.n_closed && call->n_metadata));
    MUST(now.n_gone++ == 0);
    if (now.how & ANSWERS_GONE)
        answer();
}

static void on_message(struct hp_call *call, const void *data, size_t len)
{
    struct kinds message;
    MUST(call == now.call && !now.full && (data || !len));
    MUST(len <= 4 * SMALL);
    kinds_fill(&message);
    if (data)
        call->send(call, &message.base);
    else if (!(now.how & LATER))
        answer();
}

static void on_call(void *arg, struct hp_call *call)
{
    struct kinds message;
    (void)arg;
    MUST(!now.call && now.n_calls++ == 0);
    MUST(call->arena && call->deadline_ms > 1000 && call->payload_len <= SMALL);
    now.call = call;
    call->gone = on_gone;
    if (!(now.how & DEAF))
        call->message = on_message;
    kinds_fill(&message);
    if (!strcmp(call->method, "/stream"))
        call->send(call, &message.base);
    if (!strcmp(call->method, "/both")) {
        if (!(now.how & (DEAF | LATER)))
            call->listen(call);
    } else if (!(now.how & LATER)) {
        answer();
    }
}

/* ---- a run ---- */

static void body(const uint8_t *data, size_t len, size_t piece)
{
    for (size_t at = 0; at <= len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        uint8_t *exact = malloc(n + 1); /* so that AddressSanitizer sees a step too far */
        MUST(exact);
        memcpy(exact, data + at, n);
        now.given += n;
        if (!now.n_closed && !now.n_ends)
            now.x.body(&now.x, exact, n, at + n == len);
        free(exact);
        turn();
        if (at + n == len)
            break;
    }
}

static void request(uint8_t what, size_t piece, const uint8_t *data, size_t len)
{
    static const char *const types[] = {"application/grpc", "application/json", "application/connect+json",
                                        "application/connect+proto"};
    struct net_header headers[8] = {{"content-type", types[what & 3]}};
    size_t n = 1;
    if (what & GZIP_IN) {
        headers[n++] = (struct net_header){"grpc-encoding", "gzip"};
        headers[n++] = (struct net_header){"content-encoding", "gzip"};
    }
    if (what & GZIP_OUT)
        headers[n++] = (struct net_header){"accept-encoding", "gzip"};
    if (what & TIMEOUT) {
        headers[n++] = (struct net_header){"grpc-timeout", "5S"};
        headers[n++] = (struct net_header){"connect-timeout-ms", "5000"};
    }
    now.x = (struct net_exchange){.version = what & VERSION_1 ? 1 : 2,
                                  .method = "POST",
                                  .path = paths[what >> 2 & 3],
                                  .authority = "",
                                  .headers = headers,
                                  .n_headers = n,
                                  .received_ms = 1000};
    net_rpc_request(now.rpc, &now.x);
    MUST(now.x.body && now.x.closed);
    body(data, len, piece);
}

/* What was left for later. */
static void finish(void)
{
    if (now.how & GOES)
        close_it(false);
    if (now.call && now.call->listen && (now.how & DEAF) && !strcmp(now.call->method, "/both")) {
        now.call->message = on_message;
        now.call->listen(now.call);
    }
    now.how &= (uint8_t)~SLOW;
    if (now.full && !now.n_closed && now.x.writable) {
        now.full = false;
        now.x.writable(&now.x);
    }
    turn();
    if (now.timer) {
        struct io_timer *timer = now.timer;
        now.timer = NULL;
        timer->fire(timer);
    }
    turn();
    if (now.call)
        answer();
    MUST(now.n_closed || now.n_ends == 1);
    close_it(now.n_ends > 0);
    turn();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct net_rpc_config cfg = {.find = find, .on_call = on_call, .request_max = SMALL};
    struct net_rpc_stats stats;
    if (size < 3)
        return -1;
    memset(&now, 0, sizeof(now));
    hp_grpc_reader_init(&now.reader, 1 << 20);
    now.how = data[1];
    now.rpc = net_rpc_new(&io, &cfg);
    MUST(now.rpc);
    now.until_failure = now.how & NO_MEMORY ? 1 + data[2] % 32 : 0;
    hp_malloc_hook = short_of_memory;
    request(data[0], 1 + data[2], data + 3, size - 3);
    finish();
    hp_malloc_hook = NULL;
    MUST(now.n_closed && !now.timer && !now.task);
    net_rpc_stats(now.rpc, &stats);
    MUST(stats.in_flight == 0 && stats.held == 0);
    net_rpc_free(now.rpc);
    hp_grpc_reader_release(&now.reader);
    return 0;
}
