/*
 * transport_test.c - the client's transport against a server that is this test, byte by byte: what goes out, what comes back for
 * whom, and what is told when it doesn't.
 */
#include "harness/harness.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/call.h"
#include "client/lib/ports.h"
#include "proto/c/sp.h"

enum { BIG = 16 << 20, LONG_MS = 600000, SOON_MS = 300, PATIENCE_S = 20 };

/* ------------------------------------------------------------------------------------------------ a server */

static int listener = -1;
static bool is_ipc;
static const char *url;

static void listen_at(const struct sockaddr *address, socklen_t len)
{
    listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    assert_true(listener >= 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)); /* of accept, and of what it accepts */
    assert_int_equal(bind(listener, address, len), 0);
    assert_int_equal(listen(listener, 8), 0);
}

static void listen_tcp(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof(address);
    listen_at((const struct sockaddr *)&address, len);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    is_ipc = false;
    url = t_printf("tcp://127.0.0.1:%d", ntohs(address.sin_port));
}

static void listen_ipc(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", t_tmpdir());
    listen_at((const struct sockaddr *)&address, sizeof(address));
    is_ipc = true;
    url = t_printf("ipc://%s", address.sun_path);
}

static void put_bytes(int fd, const void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t sent = send(fd, (const char *)bytes + at, n - at, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
}

static void get_bytes(int fd, void *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got = recv(fd, (char *)bytes + at, n - at, 0);
        if (got <= 0)
            fail_msg("the client says nothing: %s", got ? strerror(errno) : "it is gone");
        at += (size_t)got;
    }
}

/* The client's next connection. */
static int accept_silently(void)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

/* The same, greeted. */
static int accept_one(void)
{
    uint8_t greeting[HP_SP_GREETING];
    const int fd = accept_silently();
    get_bytes(fd, greeting, sizeof(greeting));
    assert_true(hp_sp_is_greeting(greeting, HP_SP_REQ));
    hp_sp_greet(greeting, HP_SP_REP);
    put_bytes(fd, greeting, sizeof(greeting));
    return fd;
}

/* The next request: its id, and its text. */
static uint32_t get_request(int fd, char *text, size_t size)
{
    uint8_t head[HP_SP_HEAD_MAX];
    uint32_t id;
    uint64_t len;
    get_bytes(fd, head, hp_sp_head_size(is_ipc));
    assert_true(hp_sp_read_head(is_ipc, head, &len));
    assert_in_range(len, sizeof(id), sizeof(id) + size);
    get_bytes(fd, &id, sizeof(id));
    assert_true(be32toh(id) & 0x80000000u);
    get_bytes(fd, text, len - sizeof(id));
    if (len - sizeof(id) < size)
        text[len - sizeof(id)] = 0;
    return be32toh(id);
}

static void expect_request(int fd, const char *wanted, uint32_t *id)
{
    char text[64];
    *id = get_request(fd, text, sizeof(text));
    assert_string_equal(text, wanted);
}

static void put_answer(int fd, uint32_t id, const void *text, size_t len)
{
    uint8_t head[HP_SP_HEAD_MAX + sizeof(id)];
    const size_t n = hp_sp_head_size(is_ipc);
    hp_sp_write_head(is_ipc, head, sizeof(id) + len);
    id = htobe32(id);
    memcpy(head + n, &id, sizeof(id));
    put_bytes(fd, head, n + sizeof(id));
    put_bytes(fd, text, len);
}

/* ------------------------------------------------------------------------------------------------ its client */

static struct hfi_transport *transport;

struct sent {
    struct hfi_exchange exchange;
    atomic_int times;
    enum hfi_fate fate;
    size_t len;
    char text[64]; /* the answer's beginning */
};

static void on_done(struct hfi_exchange *exchange, enum hfi_fate fate, const void *data, size_t len)
{
    struct sent *sent = (struct sent *)exchange;
    sent->fate = fate;
    sent->len = len;
    if (data)
        memcpy(sent->text, data, len < sizeof(sent->text) ? len : sizeof(sent->text));
    atomic_fetch_add(&sent->times, 1);
}

static void open_client(const char *urls)
{
    char why[256];
    if (hfi_transport_open(urls, NULL, &transport, why, sizeof(why)) != HFI_OPEN_OK)
        fail_msg("%s", why);
}

static struct sent *send_bytes(const void *bytes, size_t len, int64_t send_ms, int64_t reply_ms)
{
    struct sent *sent = calloc(1, sizeof(*sent));
    sent->exchange.done = on_done;
    transport->send(transport, 0, bytes, len, send_ms, reply_ms, &sent->exchange);
    return sent;
}

static struct sent *send_text(const char *text)
{
    return send_bytes(text, strlen(text), LONG_MS, LONG_MS);
}

static bool is_done(void *arg)
{
    return atomic_load(&((struct sent *)arg)->times) > 0;
}

static void expect_done(struct sent *sent)
{
    assert_true(t_wait_for(is_done, sent, PATIENCE_S * 1000));
}

static void expect_fate(struct sent *sent, enum hfi_fate fate)
{
    expect_done(sent);
    assert_int_equal(sent->fate, fate);
    assert_int_equal(atomic_load(&sent->times), 1);
    free(sent);
}

static void expect_answer(struct sent *sent, const char *text)
{
    expect_done(sent);
    assert_string_equal(sent->text, text);
    expect_fate(sent, HFI_ANSWERED);
}

static void close_client(void)
{
    transport->stop(transport);
    transport->free(transport);
    transport = NULL;
    close(listener);
}

/* ------------------------------------------------------------------------------------------------ answers */

static void answers_find_their_requests(void)
{
    uint32_t a, b;
    open_client(url);
    struct sent *first = send_text("first"); /* before there is a connection */
    const int fd = accept_one();
    expect_request(fd, "first", &a);
    struct sent *second = send_text("second");
    expect_request(fd, "second", &b);
    assert_int_not_equal(a, b);
    put_answer(fd, b + 1, "whose", 5); /* nobody's */
    put_answer(fd, b, "to second", 9);
    put_answer(fd, b, "again", 5);
    expect_answer(second, "to second");
    assert_false(is_done(first));
    put_answer(fd, a, "to first", 8);
    expect_answer(first, "to first");
    close(fd);
    close_client();
}

static void over_tcp(void **state)
{
    (void)state;
    listen_tcp(0);
    answers_find_their_requests();
}

static void over_ipc(void **state)
{
    (void)state;
    listen_ipc();
    answers_find_their_requests();
}

static void a_host_may_have_a_name(void **state)
{
    uint32_t id;
    (void)state;
    listen_tcp(0);
    open_client(t_printf("tcp://localhost%s", strrchr(url, ':')));
    struct sent *sent = send_text("x");
    const int fd = accept_one();
    expect_request(fd, "x", &id);
    put_answer(fd, id, "y", 1);
    expect_answer(sent, "y");
    close(fd);
    close_client();
}

struct answerer {
    int fd;
    uint32_t id;
    char *bytes;
};

static void *answer_big(void *arg)
{
    struct answerer *a = arg;
    a->id = get_request(a->fd, a->bytes, BIG);
    put_answer(a->fd, a->id, a->bytes, BIG);
    return NULL;
}

static void big_ones_pass(void **state)
{
    char *bytes = malloc(BIG);
    struct answerer answerer = {.bytes = malloc(BIG)};
    pthread_t thread;
    uint32_t id;
    (void)state;
    listen_tcp(0);
    open_client(url);
    answerer.fd = accept_one();
    for (size_t i = 0; i < BIG; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    struct sent *big = send_bytes(bytes, BIG, LONG_MS, LONG_MS), *small = send_text("small");
    memset(bytes, 0, 64);
    assert_int_equal(pthread_create(&thread, NULL, answer_big, &answerer), 0);
    expect_done(big);
    pthread_join(thread, NULL);
    assert_int_equal(big->len, BIG);
    for (size_t i = 64; i < BIG; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    assert_memory_equal(answerer.bytes + 64, bytes + 64, BIG - 64);
    assert_memory_equal(big->text, answerer.bytes, sizeof(big->text));
    expect_fate(big, HFI_ANSWERED);
    expect_request(answerer.fd, "small", &id); /* it waited behind it */
    put_answer(answerer.fd, id, "ok", 2);
    expect_answer(small, "ok");
    close(answerer.fd);
    close_client();
    free(bytes);
    free(answerer.bytes);
}

/* ------------------------------------------------------------------------------------------------ no answers */

static void a_lost_connection_is_told_and_replaced(void **state)
{
    uint32_t id;
    (void)state;
    listen_tcp(0);
    open_client(url);
    int fd = accept_one();
    struct sent *sent = send_text("one");
    expect_request(fd, "one", &id);
    close(fd);
    expect_fate(sent, HFI_NO_ANSWER);
    sent = send_text("two"); /* once, on the next connection */
    fd = accept_one();
    expect_request(fd, "two", &id);
    put_answer(fd, id, "2", 1);
    expect_answer(sent, "2");
    close(fd);
    close_client();
}

static void no_connection_in_time_is_not_sent(void **state)
{
    (void)state;
    listen_tcp(0);
    open_client(url);
    const int fd = accept_silently(); /* connected, but nobody there */
    const int64_t start = t_now_ms();
    struct sent *sent = send_bytes("x", 1, SOON_MS, LONG_MS), *patient = send_text("y");
    expect_fate(sent, HFI_NOT_SENT);
    assert_true(t_now_ms() - start >= SOON_MS - 50);
    assert_false(is_done(patient));
    close(listener);
    close(fd);
    assert_false(is_done(patient));
    transport->stop(transport);
    expect_fate(patient, HFI_NOT_SENT);
    expect_fate(send_text("z"), HFI_NOT_SENT);
    transport->free(transport);
}

static void no_answer_in_time_is_told(void **state)
{
    uint32_t id, next;
    (void)state;
    listen_tcp(0);
    open_client(url);
    const int fd = accept_one();
    struct sent *sent = send_bytes("x", 1, LONG_MS, SOON_MS);
    expect_request(fd, "x", &id);
    expect_fate(sent, HFI_NO_ANSWER);
    put_answer(fd, id, "late", 4); /* is nobody's, and does no harm */
    sent = send_text("y");
    expect_request(fd, "y", &next);
    put_answer(fd, next, "z", 1);
    expect_answer(sent, "z");
    close(fd);
    close_client();
}

/* A server that reads nothing: what it has not seen whole, or not begun to, is told so, and nothing that is told as not sent
 * arrives. */
static void what_nobody_reads_is_told_by_how_far_it_came(void **state)
{
    char *bytes = calloc(1, BIG);
    uint32_t id;
    (void)state;
    listen_tcp(0);
    open_client(url);
    int fd = accept_one();
    struct sent *begun = send_bytes(bytes, BIG, LONG_MS, SOON_MS), *behind = send_bytes("behind", 6, SOON_MS, LONG_MS);
    expect_fate(begun, HFI_NO_ANSWER);
    expect_fate(behind, HFI_NOT_SENT);
    struct sent *last = send_text("last");
    (void)get_request(fd, bytes, BIG); /* its rest comes all the same */
    expect_request(fd, "last", &id);
    put_answer(fd, id, "ok", 2);
    expect_answer(last, "ok");

    struct sent *cut = send_bytes(bytes, BIG, LONG_MS, LONG_MS), *next = send_text("next");
    get_bytes(fd, bytes, 1000);
    close(fd);
    expect_fate(cut, HFI_NOT_SENT);
    fd = accept_one();
    expect_request(fd, "next", &id);
    put_answer(fd, id, "ok", 2);
    expect_answer(next, "ok");
    close(fd);
    close_client();
    free(bytes);
}

static void who_speaks_otherwise_is_left(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool greeted;
    } wrong[] = {
        {"HTTP/1.1 400", 12, false},
        {"\0SP\0\0\x30\0\0", 8, false},           /* a client like us */
        {"\0\0\0\0\0\0\0\3abc", 11, true},        /* too short for an id */
        {"\0\0\0\1\0\0\0\0\x80\0\0\1", 12, true}, /* 4 GiB */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\x80\0\0\1", 12, true},
    };
    (void)state;
    listen_tcp(0);
    open_client(url);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char rest[64];
        const int fd = wrong[i].greeted ? accept_one() : accept_silently();
        put_bytes(fd, wrong[i].bytes, wrong[i].len);
        ssize_t n;
        while ((n = recv(fd, rest, sizeof(rest), 0)) > 0)
            ;
        assert_true(n == 0 || errno == ECONNRESET);
        close(fd);
    }
    struct sent *sent = send_text("x");
    const int fd = accept_one();
    uint32_t id;
    expect_request(fd, "x", &id);
    put_answer(fd, id, "y", 1);
    expect_answer(sent, "y");
    close(fd);
    close_client();
}

/* ------------------------------------------------------------------------------------------------ the end, and the beginning */

static void stopping_ends_all(void **state)
{
    uint32_t id;
    (void)state;
    listen_tcp(0);
    open_client(t_printf("%s,tcp://no-such-host.invalid:1,ipc:///no/such/socket", url)); /* names are asked for, perhaps for long */
    const int fd = accept_one();
    struct sent *sent = send_text("x"), *other = calloc(1, sizeof(*other));
    expect_request(fd, "x", &id);
    other->exchange.done = on_done;
    transport->send(transport, 1, "x", 1, LONG_MS, LONG_MS, &other->exchange);
    transport->stop(transport);
    assert_true(is_done(sent) && is_done(other));
    expect_fate(sent, HFI_NO_ANSWER);
    expect_fate(other, HFI_NOT_SENT);
    expect_fate(send_text("y"), HFI_NOT_SENT);
    transport->free(transport);
    close(fd);
    close(listener);
}

#define TOO_LONG                                                                                                                   \
    "ipc:///12345678/123456789/123456789/123456789/123456789/123456789/123456789/123456789/123456789/123456789/12345678"

static void urls_are_read_with_care(void **state)
{
    static const char *const bad[] = {"",           ",",
                                      "tcp://",     "tcp://:1",
                                      "tcp://h",    "tcp://h:",
                                      "tcp://h:0",  "tcp://h:65536",
                                      "tcp://h:x",  "tcp://h:1x",
                                      "tcp://h/:1", "tcp://::1:1",
                                      "tcp://[]:1", "ipc://",
                                      "ws://h:1",   "tls+tcp://h:1",
                                      "h:1",        "tcp://127.0.0.1:1,",
                                      "grpc://h",   "grpcs://:1",
                                      "grpc:///x",  "grpcs://",
                                      "http://h:1", TOO_LONG};
    static const char *const good[] = {"tcp://127.0.0.1:1", "tcp://[::1]:65535", "tcp://localhost:1,ipc:///x", "grpc://localhost:1",
                                       "grpcs://[::1]:1,tcp://localhost:1"};
    char why[256];
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (hfi_transport_open(bad[i], NULL, &transport, why, sizeof(why)) != HFI_OPEN_BAD_URL)
            fail_msg("taken: %s", bad[i]);
        assert_true(*why && strcmp(why, "no memory") != 0);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        open_client(good[i]);
        assert_memory_equal(transport->url(transport, 0), good[i], strlen(transport->url(transport, 0)));
        transport->stop(transport);
        transport->free(transport);
    }
}

/* ------------------------------------------------------------------------------------------------ many at once */

enum { SENDERS = 4, ROUNDS = 300 };

static void *echo(void *arg)
{
    char text[64];
    for (int i = 0; i < SENDERS * ROUNDS; i++) {
        const uint32_t id = get_request(*(int *)arg, text, sizeof(text));
        put_answer(*(int *)arg, id, text, strlen(text));
    }
    return NULL;
}

static void *send_many(void *arg)
{
    char text[32];
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(text, sizeof(text), "%d of %d", i, *(int *)arg);
        expect_answer(send_text(text), text);
    }
    return NULL;
}

static void threads_may_send_at_once(void **state)
{
    pthread_t server, senders[SENDERS];
    int numbers[SENDERS];
    (void)state;
    listen_tcp(0);
    open_client(url);
    int fd = accept_one();
    assert_int_equal(pthread_create(&server, NULL, echo, &fd), 0);
    for (int i = 0; i < SENDERS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&senders[i], NULL, send_many, &numbers[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i], NULL);
    pthread_join(server, NULL);
    close(fd);
    close_client();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(over_tcp, t_teardown),
        cmocka_unit_test_teardown(over_ipc, t_teardown),
        cmocka_unit_test_teardown(a_host_may_have_a_name, t_teardown),
        cmocka_unit_test_teardown(big_ones_pass, t_teardown),
        cmocka_unit_test_teardown(a_lost_connection_is_told_and_replaced, t_teardown),
        cmocka_unit_test_teardown(no_connection_in_time_is_not_sent, t_teardown),
        cmocka_unit_test_teardown(no_answer_in_time_is_told, t_teardown),
        cmocka_unit_test_teardown(what_nobody_reads_is_told_by_how_far_it_came, t_teardown),
        cmocka_unit_test_teardown(who_speaks_otherwise_is_left, t_teardown),
        cmocka_unit_test_teardown(stopping_ends_all, t_teardown),
        cmocka_unit_test_teardown(urls_are_read_with_care, t_teardown),
        cmocka_unit_test_teardown(threads_may_send_at_once, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
