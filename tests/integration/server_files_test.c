/*
 * server_files_test.c - more callers than the process may have file descriptors: who is there is served, PostgreSQL can be
 * reached again, nothing spins, the log tells, and it is over when they leave.
 */
#include "harness/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "calls.h"

enum { LIMIT = 120, CONNECTIONS = 3, CROWD = 200, SPARE = 28 /* kept back or not given to callers */ };

/* A server that may have LIMIT descriptors, listening on two addresses. */
static struct t_server limited(const char *limit, const char *url, const char *more)
{
    char *dsn = t_database();
    const char *const argv[] = {"prlimit",       t_printf("--nofile=%s", limit), T_HOLDFASTD, "--dsn", dsn, "--listen", url,
                                "--connections", t_printf("%d", CONNECTIONS),    more,        NULL};
    struct t_server server = {.proc = t_spawn(argv, NULL)};
    t_proc_expect_out(server.proc, "\n", 30000);
    const char *ready = strstr(t_proc_out(server.proc), "READY nng=");
    assert_non_null(ready);
    snprintf(server.url, sizeof(server.url), "%.*s", (int)strcspn(ready + 10, " \n"), ready + 10);
    snprintf(server.dsn, sizeof(server.dsn), "%s", dsn);
    return server;
}

static bool logs(void *arg)
{
    void **both = arg;
    return strstr(t_proc_err(both[0]), both[1]) != NULL;
}

static void expect_log(const struct t_server *server, const char *text, int ms)
{
    void *both[] = {server->proc, (void *)(uintptr_t)text};
    if (!t_wait_for(logs, both, ms))
        fail_msg("\"%s\" is missing: %s", text, t_proc_err(server->proc));
}

static int open_files(pid_t pid)
{
    const char *const argv[] = {"sh", "-c", t_printf("ls /proc/%d/fd | wc -l", (int)pid), NULL};
    return atoi(t_run(argv, NULL, T_PATIENCE_MS).out);
}

/* Milliseconds of CPU that it has used. */
static long cpu_ms(pid_t pid)
{
    char *stat = t_read_file(t_printf("/proc/%d/stat", (int)pid)), *at = strrchr(stat, ')');
    long user = 0, system = 0;
    assert_non_null(at);
    assert_int_equal(sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system), 2);
    return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

static long measure_cpu(const struct t_server *server, int ms)
{
    long before = cpu_ms(server->proc->pid);
    t_sleep_ms(ms);
    return (cpu_ms(server->proc->pid) - before) * 100 / ms;
}

static void end_backends(const struct t_server *server)
{
    PGconn *conn = t_connect(server->dsn);
    assert_true(t_sql_int(conn, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() "
                                "AND application_name LIKE 'holdfastd%%'") >= CONNECTIONS);
    PQfinish(conn);
}

static bool acquires(void *arg)
{
    Holdfast__V1__AcquireResponse *response;
    c_status status;
    static int n;
    char resource[32];
    snprintf(resource, sizeof(resource), "again%d", n++);
    char *names[] = {resource};
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    request.namespace_ = C_STR("default");
    request.holder = C_STR("h");
    request.ttl_ms = 60000;
    request.resources = names;
    request.n_resources = 1;
    response = c_acquire_with(arg, &request, &status);
    return response && response->outcome_case == HOLDFAST__V1__ACQUIRE_RESPONSE__OUTCOME_GRANTED;
}

struct flood {
    const struct t_server *server;
    int *fds, n, wanted;
};

static bool flooded(void *arg);

struct waiting {
    PGconn *conn;
    struct flood *flood; /* goes on meanwhile; may be NULL */
};

/* All of them: those that work and the one that listens. */
static bool backends_are_back(void *arg)
{
    struct waiting *waiting = arg;
    if (waiting->flood)
        flooded(waiting->flood);
    return t_sql_int(waiting->conn,
                     "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
                     "application_name IN ('holdfastd', 'holdfastd listener')") >= CONNECTIONS + 1;
}

/* All connections to PostgreSQL are lost, again and again, and are back sooner than a caller that says nothing is closed. */
static void reconnects(const struct t_server *server, struct t_rpc *there, struct flood *flood)
{
    struct waiting waiting = {t_connect(server->dsn), flood};
    for (int i = 0; i < 3; i++) {
        end_backends(server);
        t_sql(waiting.conn, "SELECT pg_sleep(0.02)"); /* they are gone */
        if (!t_wait_for(backends_are_back, &waiting, T_PATIENCE_MS))
            fail_msg("it does not come back to PostgreSQL: %s", t_proc_err(server->proc));
        assert_true(acquires(there));
    }
    PQfinish(waiting.conn);
}

static bool can_connect(void *arg)
{
    const char *const argv[] = {T_HOLDFAST, "--server", arg, "--timeout", "1s", "stats", NULL};
    return t_run(argv, NULL, T_PATIENCE_MS).status == 0;
}

/* Callers that speak: those beyond the bound are closed, and the bound leaves room. */
static void test_too_many_callers(void **state)
{
    (void)state;
    struct t_server server = limited("60:120", "tcp://127.0.0.1:0", NULL); /* the soft limit is raised */
    struct t_rpc *there = t_rpc_open(server.url);
    nng_socket crowd[CROWD];

    expect_log(&server, "event=app.few_files", 1000);
    c_grant(there, "first", 60000);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(nng_req0_open(&crowd[i]), 0);
        assert_int_equal(nng_dial(crowd[i], server.url, NULL, NNG_FLAG_NONBLOCK), 0); /* again and again */
    }
    expect_log(&server, "event=app.clients_refused", 30000);
    assert_true(acquires(there));
    assert_true(open_files(server.proc->pid) <= LIMIT);
    reconnects(&server, there, NULL);
    long percent = measure_cpu(&server, 2000);
    print_message("%d%% of a core while a crowd knocks\n", (int)percent);
    assert_true(percent < 50);
    assert_null(strstr(t_proc_err(server.proc), "event=app.out_of_files"));

    for (int i = 0; i < CROWD; i++)
        nng_close(crowd[i]);
    if (!t_wait_for(can_connect, server.url, 15000))
        fail_msg("nobody gets in any more: %s", t_proc_err(server.proc));
    assert_true(acquires(there));
    t_rpc_close(there);
    assert_int_equal(t_server_stop(&server), 0);
}

/* A connection that says nothing. */
static int silent(const char *url)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s", url + strlen("ipc://"));
    if (connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool was_closed(int fd)
{
    char bytes[64];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        ;
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Those that were closed come again. */
static int more_silent(const char *url, int *fds, int n)
{
    for (int i = 0; i < n; i++) {
        if (was_closed(fds[i])) {
            close(fds[i]);
            fds[i--] = fds[--n];
        }
    }
    for (; n < CROWD; n++) {
        fds[n] = silent(url);
        if (fds[n] < 0)
            break;
    }
    return n;
}

static bool flooded(void *arg)
{
    struct flood *flood = arg;
    flood->n = more_silent(flood->server->url, flood->fds, flood->n);
    return open_files(flood->server->proc->pid) >= flood->wanted;
}

/* Connections that say nothing: they are bounded like others, and make room for whoever comes. */
static void test_silent_callers(void **state)
{
    (void)state;
    char *url = t_printf("ipc://%s/s", t_tmpdir());
    struct t_server server = limited("120:120", url, NULL);
    struct t_rpc *there = t_rpc_open(server.url);
    int fds[CROWD];
    struct flood flood = {&server, fds, 0, LIMIT - CONNECTIONS - SPARE};

    c_grant(there, "first", 60000);
    if (!t_wait_for(flooded, &flood, 20000))
        fail_msg("%d files are open, wanted: %d", open_files(server.proc->pid), flood.wanted);
    assert_true(acquires(there));
    reconnects(&server, there, &flood);
    for (int i = 0; i < 5; i++) {
        flooded(&flood);
        assert_true(can_connect(server.url));
        assert_true(acquires(there));
    }
    long percent = measure_cpu(&server, 1500);
    print_message("%d%% of a core while all places are taken\n", (int)percent);
    assert_true(percent < 50);
    expect_log(&server, "event=app.clients_refused", 30000);
    assert_null(strstr(t_proc_err(server.proc), "event=app.out_of_files"));
    for (int i = 0; i < flood.n; i++)
        close(fds[i]);
    assert_true(acquires(there));
    t_rpc_close(there);
    assert_int_equal(t_server_stop(&server), 0);
}

/* 15 of them, on whatever lines. */
static bool were_refused(void *server)
{
    static const char text[] = "event=app.clients_refused times=";
    int times = 0;
    for (const char *at = t_proc_err(((struct t_server *)server)->proc); (at = strstr(at, text)); at += sizeof(text) - 1)
        times += atoi(at + sizeof(text) - 1);
    return times == 15;
}

/* Descriptors run out although the bound left room, here because somebody lowers the limit: who comes is turned away, it goes on.
 */
static void test_none_left(void **state)
{
    (void)state;
    char *url = t_printf("ipc://%s/s", t_tmpdir());
    struct t_server server = limited("120:120", url, NULL);
    struct t_rpc *there = t_rpc_open(server.url);
    c_grant(there, "first", 60000);
    for (int i = 0; i < 15; i++) {
        const char *const argv[] = {"prlimit", "--pid", t_printf("%d", (int)server.proc->pid),
                                    t_printf("--nofile=%d:120", open_files(server.proc->pid) - 1), NULL};
        assert_int_equal(t_run(argv, NULL, T_PATIENCE_MS).status, 0);
        int fd = silent(url);
        for (int64_t until = t_now_ms() + 10000; !was_closed(fd) && t_now_ms() < until;)
            t_sleep_ms(5);
        assert_true(was_closed(fd));
        close(fd);
        assert_true(acquires(there));
        assert_true(t_wait_for(can_connect, server.url, T_PATIENCE_MS));
    }
    if (!t_wait_for(were_refused, &server, 30000))
        fail_msg("not 15 were refused: %s", t_proc_err(server.proc));
    t_rpc_close(there);
    assert_int_equal(t_server_stop(&server), 0);
}

/* Too few to serve anybody. */
static void test_far_too_few(void **state)
{
    (void)state;
    const char *const argv[] = {"prlimit",    "--nofile=24:24", T_HOLDFASTD,         "--dsn",
                                t_database(), "--listen",       "tcp://127.0.0.1:0", NULL};
    struct t_result result = t_run(argv, NULL, 20000);
    assert_int_equal(result.status, 2);
    assert_string_equal(result.out, "");
    assert_non_null(strstr(result.err, "RLIMIT_NOFILE"));
}

/* A bound of one's own. */
static void test_max_clients(void **state)
{
    (void)state;
    struct t_server server = limited("1024:1024", "tcp://127.0.0.1:0", "--max-clients=2");
    assert_null(strstr(t_proc_err(server.proc), "app.few_files"));
    struct t_rpc *a = t_rpc_open(server.url), *b = t_rpc_open(server.url);
    assert_true(acquires(a));
    assert_true(acquires(b));
    assert_false(can_connect(server.url));
    t_rpc_close(b);
    assert_true(t_wait_for(can_connect, server.url, 15000));
    expect_log(&server, "event=app.clients_refused", 30000);
    t_rpc_close(a);
    assert_int_equal(t_server_stop(&server), 0);
}

/* The private PostgreSQL gets the limit that we were given, not the one we raised it to, and comes back when it dies while we
 * have no descriptor left for it. */
static void test_private_postgres(void **state)
{
    (void)state;
    char *url = t_printf("ipc://%s/s", t_tmpdir()), *dir = t_tmpdir();
    const char *const argv[] = {"prlimit", "--nofile=100:200", T_HOLDFASTD, "--data-dir", dir, "--listen",
                                url,       "--connections",    "3",         NULL};
    struct t_server server = {.proc = t_spawn(argv, NULL)};
    int fds[CROWD];
    struct flood flood = {&server, fds, 0, 200 - CONNECTIONS - SPARE};
    t_proc_expect_out(server.proc, "READY", 60000);
    snprintf(server.url, sizeof(server.url), "%s", url);
    struct t_rpc *there = t_rpc_open(url);
    c_grant(there, "first", 60000);

    pid_t postmaster = atoi(t_read_file(t_printf("%s/pgdata/postmaster.pid", dir)));
    assert_true(postmaster > 1);
    char *limits = t_read_file(t_printf("/proc/%d/limits", (int)postmaster)), *line = strstr(limits, "Max open files");
    int soft = 0;
    assert_non_null(line);
    assert_int_equal(sscanf(line, "Max open files %d", &soft), 1);
    assert_int_equal(soft, 100);

    if (!t_wait_for(flooded, &flood, 20000))
        fail_msg("%d files are open, wanted: %d", open_files(server.proc->pid), flood.wanted);
    assert_int_equal(kill(postmaster, SIGKILL), 0);
    for (int64_t end = t_now_ms() + 30000; !acquires(there);) {
        flooded(&flood);
        if (t_now_ms() > end)
            fail_msg("PostgreSQL does not come back: %s", t_proc_err(server.proc));
        t_sleep_ms(50);
    }
    for (int i = 0; i < flood.n; i++)
        close(fds[i]);
    t_rpc_close(there);
    assert_int_equal(t_server_stop(&server), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_too_many_callers, t_teardown), cmocka_unit_test_teardown(test_silent_callers, t_teardown),
        cmocka_unit_test_teardown(test_none_left, t_teardown),        cmocka_unit_test_teardown(test_far_too_few, t_teardown),
        cmocka_unit_test_teardown(test_max_clients, t_teardown),      cmocka_unit_test_teardown(test_private_postgres, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
