/*
 * listener_test.c - a connection that ends while it is being greeted stops nobody else.
 *
 * A port scan, a health check, a second server that looks whether its socket is in use, a client killed at the wrong moment: each
 * connects and is gone. (nng 1.5.2 has a listener that never takes another connection after that, "Disconnect during negotiation
 * breaks listener", its issue 1518: one reason why the server has its own.)
 */
#include "harness/harness.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "robustness/worker.h"

static struct t_server *server;

/* Connects to tcp://127.0.0.1:PORT or ipc://PATH. */
static int connect_raw(const char *url)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un ipc = {.sun_family = AF_UNIX};
    bool is_ipc = !strncmp(url, "ipc://", 6);
    int fd = socket(is_ipc ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tcp.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
    snprintf(ipc.sun_path, sizeof(ipc.sun_path), "%s", url + 6);
    assert_true(fd >= 0);
    assert_int_equal(is_ipc ? connect(fd, (struct sockaddr *)&ipc, sizeof(ipc)) : connect(fd, (struct sockaddr *)&tcp, sizeof(tcp)),
                     0);
    return fd;
}

static void connect_and_go(const char *url, bool reset)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    int fd = connect_raw(url);
    if (reset)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
}

/* A client that connects now is served. */
static void assert_serves(const char *url)
{
    struct history *history = history_new(NULL);
    struct worker worker = {.history = history, .client = worker_client(url), .timeout_ms = 5000};
    struct history_call call = worker_acquire(&worker, "listener", 60000, "id");
    hf_client_free(worker.client);
    history_free(history);
    if (call.answer == HISTORY_UNKNOWN || !strcmp(call.reason, "UNREACHABLE"))
        fail_msg("the server takes no connections any more: %s", call.reason);
}

static void who_connects_and_goes_stops_nobody(void **state)
{
    const char *url = *state;
    if (!strcmp(url, "ipc"))
        url = t_printf("ipc://%s/s", t_tmpdir());
    else
        url = "tcp://127.0.0.1:0";
    server = t_server_start("--dsn", t_database(), "--listen", url, NULL);
    assert_serves(server->url);
    for (int i = 0; i < 500; i++) {
        connect_and_go(server->url, i % 2);
        if (i % 50 == 0)
            assert_serves(server->url);
    }
    assert_serves(server->url);
}

int main(void)
{
    static char tcp[] = "tcp", ipc[] = "ipc";
    const struct CMUnitTest tests[] = {
        {"who_connects_and_goes_stops_nobody, tcp", who_connects_and_goes_stops_nobody, NULL, t_teardown, tcp},
        {"who_connects_and_goes_stops_nobody, ipc", who_connects_and_goes_stops_nobody, NULL, t_teardown, ipc},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
