/*
 * server_manager_test.c - holdfastd under a service manager: what it is told and when, the unit that comes with it, a
 * configuration file, and the end in stages.
 */
#include "harness/harness.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "calls.h"

/* ------------------------------------------------------------------------------------------------ messages */

struct manager {
    int fd;
    const char *env[4];
};

/* A manager that listens on an abstract socket, and waits for a watchdog's message `watchdog_ms` long (0: doesn't). */
static struct manager manager_open(int watchdog_ms)
{
    struct manager manager = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int yes = 1, len = sprintf(at.sun_path + 1, "holdfast-manager-%d-%lld", (int)getpid(), (long long)t_now_ms());
    assert_int_equal(
        bind(manager.fd, (struct sockaddr *)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)), 0);
    assert_int_equal(setsockopt(manager.fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)), 0);
    manager.env[0] = t_printf("NOTIFY_SOCKET=@%s", at.sun_path + 1);
    if (watchdog_ms)
        manager.env[1] = t_printf("WATCHDOG_USEC=%d000", watchdog_ms);
    return manager;
}

/* The next message, "" if none comes within `ms`. It must be the server's own: NotifyAccess=main. */
static const char *heard(const struct manager *manager, pid_t pid, int ms)
{
    static char text[4096];
    char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec iov = {text, sizeof(text) - 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct pollfd poll_fd = {.fd = manager->fd, .events = POLLIN};
    if (poll(&poll_fd, 1, ms) != 1)
        return "";
    ssize_t n = recvmsg(manager->fd, &msg, 0);
    assert_true(n > 0);
    text[n] = '\0';
    struct ucred cred = {0};
    const struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    assert_non_null(cmsg);
    memcpy(&cred, CMSG_DATA(cmsg), sizeof(cred));
    if (pid && cred.pid != pid)
        fail_msg("process %d, which isn't the server, said: %s", (int)cred.pid, text);
    return text;
}

/* The next message that isn't the watchdog's. */
static const char *told(const struct manager *manager, pid_t pid)
{
    const char *text;
    do
        text = heard(manager, pid, 60000);
    while (strcmp(text, "WATCHDOG=1") == 0);
    return text;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void test_life(void **state)
{
    (void)state;
    struct manager manager = manager_open(0);
    struct t_spawn_opts opts = {.env = manager.env};
    const char *dsn = t_database();
    const char *const args[] = {"--dsn", dsn, "--connections", "3", NULL};
    struct t_server *server = t_server_startv(args, &opts);
    pid_t pid = server->proc->pid;

    assert_string_equal(told(&manager, pid), "STATUS=starting");
    const char *ready = told(&manager, pid);
    if (!begins(ready, "READY=1\nSTATUS=serving on tcp://127.0.0.1:") || !strstr(ready, server->url))
        fail_msg("%s", ready);
    /* READY: all of it serves. */
    PGconn *conn = t_connect(dsn);
    assert_true(t_sql_int(conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> "
                                "pg_backend_pid() AND application_name LIKE 'holdfastd%%'") >= 3);
    PQfinish(conn);
    assert_string_equal(heard(&manager, pid, 100), ""); /* no watchdog was asked for */
    assert_int_equal(t_server_stop(server), 0);
    assert_true(begins(told(&manager, pid), "STOPPING=1\nSTATUS=draining"));
    assert_true(begins(told(&manager, pid), "STOPPING=1\nSTATUS=stopping"));
    assert_string_equal(heard(&manager, pid, 0), "");
    close(manager.fd);
}

/* PostgreSQL knows sd_notify too: the private one must not speak for the server. */
static void test_private_postgres_is_silent(void **state)
{
    (void)state;
    struct manager manager = manager_open(0);
    struct t_spawn_opts opts = {.env = manager.env};
    const char *const args[] = {"--data-dir", t_tmpdir(), NULL};
    struct t_server *server = t_server_startv(args, &opts);

    assert_string_equal(told(&manager, server->proc->pid), "STATUS=starting");
    assert_true(begins(told(&manager, server->proc->pid), "READY=1\n"));
    assert_int_equal(t_server_stop(server), 0);
    while (heard(&manager, server->proc->pid, 100)[0])
        ;
    close(manager.fd);
}

/* No READY while the database is away. */
static void test_not_ready(void **state)
{
    (void)state;
    struct manager manager = manager_open(0);
    struct t_spawn_opts opts = {.env = manager.env};
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, NULL); /* makes the schema */
    assert_int_equal(t_server_stop(server), 0);
    PGconn *conn = t_connect(dsn);
    t_sql(conn, "CREATE OR REPLACE FUNCTION holdfast.attach() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE 'not yet'; END$$");
    const char *const argv[] = {T_HOLDFASTD, "--dsn", dsn, "--listen", "tcp://127.0.0.1:0", NULL};
    struct t_proc *proc = t_spawn(argv, &opts);
    assert_string_equal(told(&manager, proc->pid), "STATUS=starting");
    t_proc_expect_err(proc, "not yet", 20000);
    assert_string_equal(heard(&manager, proc->pid, 300), "");
    t_sql(conn, "CREATE OR REPLACE FUNCTION holdfast.attach() RETURNS boolean LANGUAGE sql AS 'SELECT false'");
    assert_true(begins(told(&manager, proc->pid), "READY=1\n"));
    t_proc_expect_out(proc, "READY nng=", T_PATIENCE_MS);
    t_proc_kill(proc, SIGTERM);
    assert_int_equal(t_proc_wait(proc, 20000), 0);
    PQfinish(conn);
    close(manager.fd);
}

static void test_watchdog(void **state)
{
    (void)state;
    struct manager manager = manager_open(400);
    struct t_spawn_opts opts = {.env = manager.env};
    const char *const args[] = {"--dsn", t_database(), NULL};
    struct t_server *server = t_server_startv(args, &opts);
    pid_t pid = server->proc->pid;

    told(&manager, pid);
    assert_true(begins(told(&manager, pid), "READY=1\n"));
    int64_t last = t_now_ms();
    for (int i = 0; i < 5; i++) {
        assert_string_equal(heard(&manager, pid, 5000), "WATCHDOG=1");
        print_message("watchdog after %lld ms\n", (long long)(t_now_ms() - last));
        last = t_now_ms();
    }
    /* A loop that is stuck is silent: here in a write to a log that nobody could read. */
    t_proc_kill(server->proc, SIGSTOP);
    while (heard(&manager, pid, 0)[0])
        ;
    assert_string_equal(heard(&manager, pid, 1000), "");
    t_proc_kill(server->proc, SIGCONT);
    assert_string_equal(heard(&manager, pid, 5000), "WATCHDOG=1");
    assert_int_equal(t_server_stop(server), 0);
    close(manager.fd);
}

/* ------------------------------------------------------------------------------------------------ files of deploy */

/* The unit is one that systemd understands, with our program in it. */
static void test_unit(void **state)
{
    (void)state;
    char *unit = t_read_file(T_SOURCE_DIR "/deploy/holdfastd.service"), *copy = t_printf("%s/holdfastd.service", t_tmpdir());
    static const char program[] = "/usr/local/bin/holdfastd ";
    char *at = strstr(unit, program);

    assert_non_null(strstr(unit, "\nType=notify\n"));
    assert_non_null(strstr(unit, "\nRestart=on-failure\n"));
    assert_non_null(at);
    t_write_file(copy, t_printf("%.*s%s %s", (int)(at - unit), unit, T_HOLDFASTD, at + sizeof(program) - 1));
    if (access("/usr/bin/systemd-analyze", X_OK) != 0) {
        print_message("there is no systemd-analyze: only the unit's text was looked at\n");
        return;
    }
    const char *const argv[] = {"systemd-analyze", "verify", copy, NULL};
    struct t_result result = t_run(argv, NULL, 30000);
    if (strstr(result.err, "holdfastd.service"))
        fail_msg("%s", result.err);
}

/* A server that has all it knows from a file made of the sample. */
static void test_sample(void **state)
{
    (void)state;
    char *sample = t_read_file(T_SOURCE_DIR "/deploy/holdfastd.conf"), *path = t_printf("%s/holdfastd.conf", t_tmpdir());
    char *folder = strstr(sample, "\ndata-dir = "), *listen = strstr(sample, "\nlisten = ");
    assert_non_null(folder);
    assert_non_null(listen);
    t_write_file(path, t_printf("%.*s\ndsn = %s # instead\n%.*s\nlisten = tcp://127.0.0.1:0\n%s\nconnections = 2\n",
                                (int)(folder - sample), sample, t_database(), (int)(listen - strchr(folder + 1, '\n')),
                                strchr(folder + 1, '\n'), strchr(listen + 1, '\n')));
    const char *const argv[] = {T_HOLDFASTD, "--config", path, "--log-level", "debug", NULL};
    struct t_proc *proc = t_spawn(argv, NULL);
    t_proc_expect_out(proc, "READY nng=tcp://127.0.0.1:", 30000);
    assert_non_null(strstr(t_proc_err(proc), "event=app.setting name=connections value=2 from=file"));
    assert_non_null(strstr(t_proc_err(proc), "event=app.setting name=log-level value=debug from=flag"));
    t_proc_kill(proc, SIGTERM);
    assert_int_equal(t_proc_wait(proc, 20000), 0);

    t_write_file(path, "connections = 2\n\nconections = 3\n");
    struct t_result result = t_run(argv, NULL, T_PATIENCE_MS);
    assert_int_equal(result.status, 2);
    assert_string_equal(result.err, t_printf("holdfastd: %s:3: conections: unknown setting (holdfastd --help lists them)\n", path));
}

/* ------------------------------------------------------------------------------------------------ the end in stages */

static void slow_down(const char *dsn, const char *seconds)
{
    PGconn *conn = t_connect(dsn);
    t_sql(conn,
          "CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$BEGIN PERFORM "
          "pg_sleep(%s); RETURN clock_timestamp(); END$$",
          seconds);
    PQfinish(conn);
}

static bool call_is_running(void *arg)
{
    return t_sql_int(arg, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'") >
           0;
}

static bool somebody_waits(void *arg)
{
    return t_sql_int(arg, "SELECT count(*) FROM holdfast.waiter") > 0;
}

/* Callers that wait are not waited for: they are answered, and the process ends. */
static void test_drain_ends_waits(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, NULL);
    PGconn *conn = t_connect(dsn);
    struct t_rpc *rpc = t_rpc_open(server->url);
    Holdfast__V1__AcquireRequest request = HOLDFAST__V1__ACQUIRE_REQUEST__INIT;
    char *resources[] = {C_STR("r")};

    c_grant(rpc, "r", 60000);
    request.namespace_ = C_STR("default");
    request.holder = C_STR("waiter");
    request.ttl_ms = 60000;
    request.wait_ms = 25000;
    request.resources = resources;
    request.n_resources = 1;
    Holdfast__V1__Call call = HOLDFAST__V1__CALL__INIT, *calls[] = {&call};
    Holdfast__V1__CallEnvelope envelope = HOLDFAST__V1__CALL_ENVELOPE__INIT;
    size_t len;
    call.method = C_STR(C_LEASE "Acquire");
    call.payload.data = (uint8_t *)(uintptr_t)t_rpc_pack(rpc, &request, &call.payload.len);
    envelope.calls = calls;
    envelope.n_calls = 1;
    const uint8_t *bytes = t_rpc_pack(rpc, &envelope, &len);
    t_rpc_send(rpc, bytes, len);
    assert_true(t_wait_for(somebody_waits, conn, T_PATIENCE_MS));

    int64_t begun = t_now_ms();
    t_proc_kill(server->proc, SIGTERM);
    bytes = t_rpc_receive(rpc, 5000, &len);
    assert_non_null(bytes);
    const Holdfast__V1__ReplyEnvelope *replies = t_rpc_replies(rpc, bytes, len);
    assert_int_equal(replies->n_replies, 1);
    assert_int_equal(replies->replies[0]->code, 0); /* held, and no error */
    assert_int_equal(t_proc_wait(server->proc, T_PATIENCE_MS), 0);
    assert_true(t_now_ms() - begun < 10000);
    assert_false(somebody_waits(conn)); /* and nobody is left in the database's queue */
    t_rpc_close(rpc);
    PQfinish(conn);
}

/* What doesn't end in time is cut off, and that is a failure. */
static void test_drain_timeout(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, "--drain-timeout", "600ms", NULL);
    PGconn *conn = t_connect(dsn);

    slow_down(dsn, "6");
    t_cli_spawn(server, "acquire", "r", NULL);
    assert_true(t_wait_for(call_is_running, conn, T_PATIENCE_MS));
    int64_t begun = t_now_ms();
    t_proc_kill(server->proc, SIGTERM);
    assert_int_equal(t_proc_wait(server->proc, T_PATIENCE_MS), 1);
    assert_true(t_now_ms() - begun >= 600);
    assert_non_null(strstr(t_proc_err(server->proc), "event=app.drain_cut calls_in_flight=1 after_ms=600"));
    PQfinish(conn);
}

/* Upkeep isn't waited for. */
static void test_drain_leaves_upkeep(void **state)
{
    (void)state;
    char *dsn = t_database();
    struct t_server *server = t_server_start("--dsn", dsn, "--drain-timeout", "20s", NULL);
    PGconn *conn = t_connect(dsn);

    t_sql(conn, "DO $$DECLARE f text; BEGIN SELECT pg_get_function_arguments(oid) INTO f FROM pg_proc WHERE pronamespace = "
                "'holdfast'::regnamespace AND proname = 'sweep'; EXECUTE 'CREATE OR REPLACE FUNCTION holdfast.sweep(' || f || ') "
                "RETURNS int LANGUAGE plpgsql AS ''BEGIN PERFORM pg_sleep(7); RETURN 0; END'''; END$$");
    if (!t_wait_for(call_is_running, conn, 15000))
        fail_msg("it does not sweep: %s", t_proc_err(server->proc));
    int64_t begun = t_now_ms();
    t_proc_kill(server->proc, SIGTERM);
    assert_int_equal(t_proc_wait(server->proc, T_PATIENCE_MS), 0);
    assert_true(t_now_ms() - begun < 5000);
    PQfinish(conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_life, t_teardown),
        cmocka_unit_test_teardown(test_private_postgres_is_silent, t_teardown),
        cmocka_unit_test_teardown(test_not_ready, t_teardown),
        cmocka_unit_test_teardown(test_watchdog, t_teardown),
        cmocka_unit_test_teardown(test_unit, t_teardown),
        cmocka_unit_test_teardown(test_sample, t_teardown),
        cmocka_unit_test_teardown(test_drain_ends_waits, t_teardown),
        cmocka_unit_test_teardown(test_drain_timeout, t_teardown),
        cmocka_unit_test_teardown(test_drain_leaves_upkeep, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
