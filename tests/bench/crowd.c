/*
 * crowd.c - see crowd.h.
 *
 *   crowd [--connections N] [--envelopes N] [--calls N] [--keys N] [--items N] [--value-size N] [--ttl-ms N] [--seconds S] [--every
 * S]
 *         [--rate N] [--tokens FILE] [--cpu PID,PID…]… KIND PORT
 *
 * Prints a line at the end, or one every S seconds, fields separated by tabs: seconds since it began; of this stretch of time:
 * operations, those a second, p50 and p99 of an envelope in ms, and microseconds of CPU an operation: this program's, and those of
 * each --cpu. The kinds idle and wait print "ready", and stay until they are told to end.
 */
#include "crowd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/c/sp.h"

enum { CALLS_MAX = 1000, WORD = 4, EVENTS = 256, IN_FIRST = 4096 };

struct envelope {
    struct conn *conn;
    struct envelope *next; /* in the connection's line, or in that of those that wait for their time */
    struct crowd_slot *slots;
    size_t n_calls, len, sent, cap;
    uint8_t *out;
    int64_t sent_ns;
};

struct conn {
    int fd;
    bool greeted, waits_to_send;
    struct envelope *envelopes, *first, **last;
    uint8_t *in;
    size_t in_len, in_cap;
};

struct crowd_options crowd = {
    .connections = 1, .envelopes = 1, .calls = 1, .keys = 64, .items = 500, .value_size = 64, .seconds = 5, .ttl_ms = 86400000};
static const char *const kinds[CROWD_KINDS] = {"renew", "renew-many", "write", "cycle", "mix", "take", "idle", "wait"};
static size_t under_way, greeted;
static struct conn *conns;
static int epoll;
static struct envelope *idle, **idle_last = &idle; /* wait for their time */
static uint64_t begun;                             /* calls */
static int64_t start_ns;
static bool ended;

void crowd_die(const char *format, ...)
{
    va_list args;

    fputs("crowd: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *room(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    if (!memory)
        crowd_die("no memory");
    return memory;
}

/* ---- sending ---- */

static void watch(struct conn *conn, bool send)
{
    struct epoll_event event = {.events = EPOLLIN | (send ? EPOLLOUT : 0), .data.ptr = conn};

    if (epoll_ctl(epoll, EPOLL_CTL_MOD, conn->fd, &event) < 0)
        crowd_die("epoll_ctl: %s", strerror(errno));
    conn->waits_to_send = send;
}

static void flush(struct conn *conn)
{
    while (conn->first) {
        struct envelope *envelope = conn->first;
        const ssize_t n = send(conn->fd, envelope->out + envelope->sent, envelope->len - envelope->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            crowd_die("send: %s", strerror(errno));
        envelope->sent += (size_t)n;
        if (envelope->sent < envelope->len)
            continue;
        conn->first = envelope->next;
        if (!conn->first)
            conn->last = &conn->first;
    }
    if (conn->waits_to_send != (conn->first != NULL))
        watch(conn, conn->first != NULL);
}

/* Writes the envelope's next calls down behind the bytes of the framing. False: there are none. */
static bool fill(struct envelope *envelope)
{
    static Holdfast__V1__Call call[CALLS_MAX], *calls[CALLS_MAX];
    static uint8_t *payloads;
    Holdfast__V1__CallEnvelope message = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    const size_t head = hp_sp_head_size(false);
    const uint32_t id = 0x80000000U | (uint32_t)(envelope - envelope->conn->envelopes);
    size_t n = 0;

    if (!payloads)
        payloads = room(crowd.calls, crowd_payload_max());
    for (; n < crowd.calls; n++) {
        holdfast__v1__call__init(&call[n]);
        calls[n] = &call[n];
        if (!crowd_ask(&envelope->slots[n], &call[n], payloads + n * crowd_payload_max()))
            break;
    }
    envelope->n_calls = message.n_calls = n;
    message.calls = calls;
    envelope->len = head + WORD + holdfast__v1__call_envelope__get_packed_size(&message);
    if (envelope->len > envelope->cap) {
        free(envelope->out);
        envelope->out = room(1, envelope->cap = envelope->len * 2);
    }
    hp_sp_write_head(false, envelope->out, envelope->len - head);
    for (int i = 0; i < WORD; i++)
        envelope->out[head + (size_t)i] = (uint8_t)(id >> (24 - 8 * i));
    holdfast__v1__call_envelope__pack(&message, envelope->out + head + WORD);
    return n > 0;
}

static void launch(struct envelope *envelope, int64_t now)
{
    if (!fill(envelope)) {
        ended = true;
        return;
    }
    envelope->sent = 0;
    envelope->sent_ns = now;
    envelope->next = NULL;
    *envelope->conn->last = envelope;
    envelope->conn->last = &envelope->next;
    begun += envelope->n_calls;
    under_way++;
    flush(envelope->conn);
}

/* Those whose time has come. */
static void pace(int64_t now)
{
    static double lost; /* what could not be done in its time, beyond a second's worth, is not made up for */
    double may = crowd.rate > 0 ? (double)(now - start_ns) / 1e9 * crowd.rate - lost : 1e18;

    if (crowd.rate > 0 && may - (double)begun > crowd.rate) {
        lost += may - (double)begun - crowd.rate;
        may = (double)begun + crowd.rate;
    }
    while (idle && !ended && (double)begun <= may) {
        struct envelope *envelope = idle;
        idle = envelope->next;
        if (!idle)
            idle_last = &idle;
        launch(envelope, now);
    }
}

/* ---- receiving ---- */

static void answered(struct conn *conn, const uint8_t *body, size_t len, int64_t now)
{
    const size_t words = hp_sp_words(body, len);
    Holdfast__V1__ReplyEnvelope *message;
    struct envelope *envelope;
    size_t at, done = 0;

    if (words != WORD)
        crowd_die("a reply with %zu bytes of words", words);
    at = (size_t)(body[0] & 0x7f) << 24 | (size_t)body[1] << 16 | (size_t)body[2] << 8 | body[3];
    message = holdfast__v1__reply_envelope__unpack(NULL, len - WORD, body + WORD);
    envelope = &conn->envelopes[at];
    if (!message || at >= crowd.envelopes || message->n_replies != envelope->n_calls)
        crowd_die("a reply that cannot be understood");
    for (size_t i = 0; i < message->n_replies; i++)
        done += crowd_take(&envelope->slots[i], message->replies[i]);
    holdfast__v1__reply_envelope__free_unpacked(message, NULL);
    crowd_count(done, now - envelope->sent_ns);
    under_way--;
    envelope->next = NULL;
    *idle_last = envelope;
    idle_last = &envelope->next;
}

/* Takes one message off the beginning of what has come. 0: it is not all there. */
static size_t take_one(struct conn *conn, const uint8_t *data, size_t len, int64_t now)
{
    const size_t head = hp_sp_head_size(false);
    uint64_t body;

    if (!conn->greeted) {
        if (len < HP_SP_GREETING)
            return 0;
        if (!hp_sp_is_greeting(data, HP_SP_REP))
            crowd_die("that is not a server");
        conn->greeted = true;
        greeted++;
        return HP_SP_GREETING;
    }
    if (len < head)
        return 0;
    if (!hp_sp_read_head(false, data, &body) || body > (UINT64_C(1) << 26))
        crowd_die("a message without a length");
    if (len < head + body)
        return 0;
    answered(conn, data + head, body, now);
    return head + body;
}

static void readable(struct conn *conn, int64_t now)
{
    size_t at = 0, taken;
    ssize_t n;

    if (conn->in_len == conn->in_cap) {
        conn->in_cap = conn->in_cap ? conn->in_cap * 2 : IN_FIRST;
        conn->in = realloc(conn->in, conn->in_cap);
        if (!conn->in)
            crowd_die("no memory");
    }
    n = recv(conn->fd, conn->in + conn->in_len, conn->in_cap - conn->in_len, 0);
    if (n <= 0 && !(n < 0 && errno == EAGAIN))
        crowd_die("the server has closed a connection");
    if (n > 0)
        conn->in_len += (size_t)n;
    while ((taken = take_one(conn, conn->in + at, conn->in_len - at, now)) > 0)
        at += taken;
    memmove(conn->in, conn->in + at, conn->in_len - at);
    conn->in_len -= at;
}

static void turn(int timeout_ms)
{
    struct epoll_event events[EVENTS];
    const int n = epoll_wait(epoll, events, EVENTS, timeout_ms);
    const int64_t now = now_ns();

    for (int i = 0; i < n; i++) {
        if (events[i].events & ~(unsigned)EPOLLOUT)
            readable(events[i].data.ptr, now);
        if (events[i].events & EPOLLOUT)
            flush(events[i].data.ptr);
    }
}

/* ---- the whole ---- */

static void connect_one(struct conn *conn, size_t number, int port)
{
    const size_t of = crowd.connections * crowd.envelopes * crowd.calls;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    uint8_t greeting[HP_SP_GREETING];

    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0 || connect(conn->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        crowd_die("connection %zu: %s", number, strerror(errno));
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    hp_sp_greet(greeting, HP_SP_REQ);
    if (send(conn->fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting) || fcntl(conn->fd, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event) < 0)
        crowd_die("connection %zu: %s", number, strerror(errno));
    conn->last = &conn->first;
    conn->envelopes = room(crowd.envelopes, sizeof(*conn->envelopes));
    for (size_t i = 0; i < crowd.envelopes; i++) {
        struct envelope *envelope = &conn->envelopes[i];
        envelope->conn = conn;
        envelope->slots = room(crowd.calls, sizeof(*envelope->slots));
        for (size_t j = 0; j < crowd.calls; j++)
            envelope->slots[j] = (struct crowd_slot){.id = (number * crowd.envelopes + i) * crowd.calls + j, .of = of};
        *idle_last = envelope;
        idle_last = &envelope->next;
    }
}

static void connect_all(int port)
{
    epoll = epoll_create1(EPOLL_CLOEXEC);
    conns = room(crowd.connections, sizeof(*conns));
    for (size_t i = 0; i < crowd.connections; i++)
        connect_one(&conns[i], i, port);
    while (greeted < crowd.connections)
        turn(1000);
}

/* What was asked is answered, and leases given back are taken again, so that the next run finds all as the tokens say. */
static void finish(void)
{
    bool more = true;

    ended = true;
    while (under_way > 0 || more) {
        struct envelope *waiting = idle;
        more = under_way > 0; /* what is answered now is looked at once more */
        idle = NULL;
        idle_last = &idle;
        for (struct envelope *next; waiting; waiting = next) {
            next = waiting->next;
            if (!crowd_unfinished(waiting->slots))
                continue;
            launch(waiting, now_ns());
            more = true;
        }
        if (under_way > 0)
            turn(50);
    }
}

static void work(void)
{
    const bool stays = crowd.kind == CROWD_IDLE || crowd.kind == CROWD_WAIT;
    int64_t now = start_ns = now_ns(), from = now;
    const int64_t until = crowd.kind == CROWD_TAKE ? INT64_MAX : now + (int64_t)(crowd.seconds * 1e9);

    crowd_begin(now);
    pace(now);
    while (stays ? crowd.kind == CROWD_IDLE && under_way > 0 : now < until && !(ended && under_way == 0)) {
        turn(idle ? 1 : 50);
        now = now_ns();
        if (!stays)
            pace(now);
        if (crowd.every > 0 && (double)(now - from) / 1e9 >= crowd.every && now < until) {
            crowd_line(now);
            from = now;
        }
    }
    if (stays) {
        puts("ready");
        fflush(stdout);
        for (;;)
            turn(1000);
    }
    crowd_line(now);
    finish();
}

static const char *read_options(int argc, char **argv)
{
    static const struct option options[] = {{"connections", 1, 0, 'c'},
                                            {"envelopes", 1, 0, 'e'},
                                            {"calls", 1, 0, 'n'},
                                            {"keys", 1, 0, 'k'},
                                            {"items", 1, 0, 'i'},
                                            {"value-size", 1, 0, 'v'},
                                            {"ttl-ms", 1, 0, 't'},
                                            {"seconds", 1, 0, 's'},
                                            {"every", 1, 0, 'y'},
                                            {"rate", 1, 0, 'r'},
                                            {"tokens", 1, 0, 'f'},
                                            {"cpu", 1, 0, 'p'},
                                            {0}};
    const char *tokens = NULL;
    size_t *const numbers[] = {['c'] = &crowd.connections, ['e'] = &crowd.envelopes, ['n'] = &crowd.calls,
                               ['k'] = &crowd.keys,        ['i'] = &crowd.items,     ['v'] = &crowd.value_size};
    double *const fractions[] = {['s'] = &crowd.seconds, ['y'] = &crowd.every, ['r'] = &crowd.rate};

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?')
            exit(2);
        if (c == 'f')
            tokens = optarg;
        else if (c == 'p')
            crowd_watch_cpu(optarg);
        else if (c == 't')
            crowd.ttl_ms = atoll(optarg);
        else if ((size_t)c < sizeof(numbers) / sizeof(*numbers) && numbers[c])
            *numbers[c] = strtoul(optarg, NULL, 10);
        else
            *fractions[c] = strtod(optarg, NULL);
    }
    return tokens;
}

int main(int argc, char **argv)
{
    const char *tokens = read_options(argc, argv);

    while (optind + 2 == argc && crowd.kind < CROWD_KINDS && strcmp(kinds[crowd.kind], argv[optind]))
        crowd.kind++;
    if (optind + 2 != argc || crowd.kind == CROWD_KINDS || !crowd.keys || !crowd.connections || !crowd.envelopes || !crowd.calls ||
        crowd.calls > CALLS_MAX || !crowd.items || crowd.items > CALLS_MAX)
        crowd_die("crowd [OPTIONS] KIND PORT; see crowd.c");
    if (crowd.kind != CROWD_WAIT && crowd.kind != CROWD_TAKE &&
        crowd.keys / (crowd.connections * crowd.envelopes * crowd.calls) < (crowd.kind == CROWD_RENEW_MANY ? crowd.items : 1))
        crowd_die("%zu resources are too few for so many calls", crowd.keys);
    crowd_keep_tokens(tokens);
    connect_all(atoi(argv[argc - 1]));
    work();
    return 0;
}
