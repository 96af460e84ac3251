/*
 * store_hosts_test.c - DSNs with several hosts: the order in which they are tried, and one that says nothing.
 */
#include "store/store_env.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "store/resolve.h"

static void the_place_behind_a_host(void **state)
{
    (void)state;
    const char *three = "host=a,/run,::1 port=1,2,3 dbname=x", *same = "host=a,a hostaddr=127.0.0.1,127.0.0.2 port=7";
    assert_int_equal(st_resolve_hosts(three), 3);
    assert_int_equal(st_resolve_behind(three, "a", "1"), 1);
    assert_int_equal(st_resolve_behind(three, "/run", "2"), 2);
    assert_int_equal(st_resolve_behind(three, "::1", "3"), 0);
    assert_int_equal(st_resolve_behind(three, "a", "3"), 0);
    assert_int_equal(st_resolve_behind(three, NULL, NULL), 0);
    assert_int_equal(st_resolve_behind(same, "a", "7"), 1);
    assert_int_equal(st_resolve_behind("hostaddr=127.0.0.1,127.0.0.2", "127.0.0.1", "5432"), 1);
    assert_int_equal(st_resolve_hosts("host=a"), 1);
    assert_int_equal(st_resolve_behind("host=a", "a", "5432"), 0);
    assert_int_equal(st_resolve_hosts("service=s"), 1);
    assert_int_equal(st_resolve_hosts("no dsn"), 1);
}

static void not_called(void *arg)
{
    (void)arg;
    fail();
}

static void the_list_goes_round(void **state)
{
    (void)state;
    static const char three[] = "host=/a,127.0.0.1,/c hostaddr=,127.0.0.2, port=1,2,3";
    static const char *const hosts[] = {NULL, "127.0.0.1,/c,/a", "/c,/a,127.0.0.1"}, *const ports[] = {NULL, "2,3,1", "3,1,2"},
                             *const addresses[] = {NULL, "127.0.0.2,,", ",,127.0.0.2"};
    struct st_resolve *resolve = NULL;
    struct st_addresses to;
    const char *why;
    assert_int_equal(st_resolve_start(three, 0, io, not_called, NULL, &resolve), ST_RESOLVE_NONE);
    for (int first = 1; first < 3; first++) {
        assert_int_equal(st_resolve_start(three, first, io, not_called, NULL, &resolve), ST_RESOLVE_READY);
        assert_true(st_resolve_result(resolve, &to, &why));
        assert_string_equal(to.host, hosts[first]);
        assert_string_equal(to.hostaddr, addresses[first]);
        assert_string_equal(to.port, ports[first]);
        st_resolve_free(resolve);
    }
    assert_int_equal(st_resolve_start(three, 3, io, not_called, NULL, &resolve), ST_RESOLVE_NONE);
    assert_int_equal(st_resolve_start("no dsn", 1, io, not_called, NULL, &resolve), ST_RESOLVE_FAILED);
}

/* It accepts, as the kernel does for a process that hangs, and says nothing. */
static int silent_host(int *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    *port = ntohs(addr.sin_port);
    return fd;
}

/* As after a primary's host froze, with the standby promoted: the DSN's first host keeps nobody from the second, once it has been
 * waited for. */
static void a_host_that_says_nothing_is_left_behind(void **state)
{
    int port;
    (void)state;
    st_close(store);
    int fd = silent_host(&port);
    const char *to =
        t_printf("host=127.0.0.1,%s dbname=%s user=%s port=%d,%s", PQhost(sql), PQdb(sql), PQuser(sql), port, PQport(sql));
    const int64_t start = t_now_ms();
    open_store(&(struct st_config){.connections = 3}, to, false);
    run_until(is_ready, LONG_MS);
    print_message("[     INFO ] %lld ms behind a host that says nothing\n", (long long)(t_now_ms() - start));
    assert_int_equal(acquire("r"), 1);
    t_sql(sql, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdfastd' AND datname = "
               "current_database()");
    run_until(nobody_serves, LONG_MS);
    run_until(is_ready, 4500); /* it is not waited for again */
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(the_place_behind_a_host),
        STORE_TEST(the_list_goes_round),
        STORE_TEST(a_host_that_says_nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
