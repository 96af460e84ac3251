/*
 * cli_test.c - every command of `holdfast`, as a table and as JSON, and every exit status.
 */
#include "harness/served.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs the command and checks its exit status. */
#define CLI(expected, ...) expect_status(t_cli(server, __VA_ARGS__, NULL), expected, #__VA_ARGS__)

static struct t_result expect_status(struct t_result result, int expected, const char *what)
{
    if (result.status != expected)
        fail_msg("%s: exit %d instead of %d\nout: %s\nerr: %s", what, result.status, expected, result.out, result.err);
    return result;
}

/* One line on stderr that begins so, and nothing on stdout. */
static void says(struct t_result result, const char *begin)
{
    if (strncmp(result.err, begin, strlen(begin)) || strchr(result.err, '\n') != result.err + strlen(result.err) - 1)
        fail_msg("stderr is not one line that begins with %s:\n%s", begin, result.err);
}

/* Acquires, and returns the token as text. */
static char *token_of(const char *resource, const char *ttl)
{
    struct t_result result = CLI(0, "--json", "acquire", resource, "--ttl", ttl);
    char *at = strstr(result.out, "\"token\":\"");

    assert_non_null(at);
    return t_printf("%d", atoi(at + 9));
}

static void acquires(void **state)
{
    struct t_result result = CLI(0, "acquire", "a/one", "--task", "reports", "--holder", "me", "--ttl", "20s");
    (void)state;

    t_contains(result.out, "RESOURCE  TOKEN  TTL\na/one     1      ");
    assert_string_equal(result.err, "");
    result = CLI(1, "acquire", "a/one");
    assert_string_equal(result.out, "");
    says(result, "holdfast: HELD: a/one is held by me for reports (token 1, ");
    result = CLI(1, "--json", "acquire", "a/one");
    t_contains(result.out, "{\"held\":{\"resource\":\"a/one\",\"task\":\"reports\",\"holder\":\"me\",\"token\":\"1\",");
    assert_string_equal(result.err, "");
    result = CLI(0, "acquire", "a/two", "--json");
    t_contains(result.out, "{\"granted\":{\"grants\":[{\"resource\":\"a/two\",\"token\":\"1\"}],\"ttlMs\":\"");
}

static void acquires_several(void **state)
{
    struct t_result result = CLI(0, "acquire", "several/b", "several/a");
    (void)state;

    t_contains(result.out, "several/b  1");
    t_contains(result.out, "several/a  1");
    says(CLI(1, "acquire", "several/c", "several/a"), "holdfast: HELD: several/a ");
    CLI(0, "acquire", "several/c");
    says(CLI(2, "acquire", "several/d", "several/e", "--wait", "1s"), "holdfast: MALFORMED: ");
    says(CLI(2, "acquire", "several/d", "several/d"), "holdfast: ");
}

static void repeats_by_request_id(void **state)
{
    (void)state;

    t_contains(CLI(0, "--json", "acquire", "repeat", "--request-id", "x1").out, "\"token\":\"1\"");
    t_contains(CLI(0, "--json", "acquire", "repeat", "--request-id", "x1").out, "\"token\":\"1\"");
    CLI(0, "release", "repeat", "1");
    says(CLI(1, "acquire", "repeat", "--request-id", "x1"), "holdfast: ENDED: ");
    t_contains(CLI(1, "--json", "acquire", "repeat", "--request-id", "x1").out, "{\"ended\":{\"token\":\"1\"}}");
}

static void waits(void **state)
{
    char *token = token_of("wait", "30s");
    int64_t began = t_now_ms();
    (void)state;

    CLI(1, "acquire", "wait", "--wait", "400ms");
    assert_true(t_now_ms() - began >= 400);
    struct t_proc *waiting = t_cli_spawn(server, "acquire", "wait", "--wait", "20s", NULL);
    assert_int_equal(t_proc_wait(waiting, 700), -1);
    CLI(0, "release", "wait", token);
    assert_int_equal(t_proc_wait(waiting, T_PATIENCE_MS), 0);
    t_contains(t_proc_out(waiting), "wait      2");
}

static bool nobody_waits(void *arg)
{
    return strstr(t_cli(server, "--json", "acquire", arg, NULL).out, "\"waiters\":\"0\"") != NULL;
}

static bool somebody_waits(void *arg)
{
    return strstr(t_cli(server, "--json", "acquire", arg, NULL).out, "\"waiters\":\"1\"") != NULL;
}

/* The waiter is gone from the server's queue before the program ends; nothing is granted to nobody. */
static void a_signal_cancels_a_wait(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        char *resource = t_printf("signal/%zu", i), *token = token_of(resource, "30s");
        struct t_proc *waiting = t_cli_spawn(server, "acquire", resource, "--wait", "1h", NULL);
        assert_true(t_wait_for(somebody_waits, resource, T_PATIENCE_MS));
        t_proc_kill(waiting, signals[i]);
        assert_int_equal(t_proc_wait(waiting, T_PATIENCE_MS), 128 + signals[i]);
        assert_string_equal(t_proc_out(waiting), "");
        t_contains(t_proc_err(waiting), t_printf("holdfast: CANCELLED: interrupted by SIG%s\n", sigabbrev_np(signals[i])));
        CLI(0, "release", resource, token);
        CLI(0, "acquire", resource); /* nobody has it */
    }
}

static void waits_in_the_servers_queue(void **state)
{
    static char resource[] = "queue";
    char *token = token_of(resource, "60s");
    (void)state;

    struct t_proc *waiting = t_cli_spawn(server, "acquire", resource, "--wait", "1h", "--request-id", "w1", NULL);
    assert_true(t_wait_for(somebody_waits, resource, T_PATIENCE_MS));
    t_proc_kill(waiting, SIGINT);
    assert_int_equal(t_proc_wait(waiting, T_PATIENCE_MS), 130);
    assert_true(t_wait_for(nobody_waits, resource, T_PATIENCE_MS));

    waiting = t_cli_spawn(server, "run", resource, "--wait", "1h", "--", "true", NULL);
    assert_true(t_wait_for(somebody_waits, resource, T_PATIENCE_MS));
    t_proc_kill(waiting, SIGTERM);
    assert_int_equal(t_proc_wait(waiting, T_PATIENCE_MS), 125);
    assert_true(t_wait_for(nobody_waits, resource, T_PATIENCE_MS));

    waiting = t_cli_spawn(server, "acquire", resource, "--wait", "1h", NULL);
    assert_true(t_wait_for(somebody_waits, resource, T_PATIENCE_MS));
    int64_t began = t_now_ms();
    CLI(0, "release", resource, token);
    assert_int_equal(t_proc_wait(waiting, T_PATIENCE_MS), 0);
    assert_true(t_now_ms() - began < T_AT_ONCE_MS);
    t_contains(CLI(0, "stats").out, "HAND-OVERS");
}

static void refuses_bad_input(void **state)
{
    (void)state;

    says(CLI(2, "acquire", "bad", "--ttl", "1ms"), "holdfast: LIMIT: ");
    says(CLI(2, "acquire", "bad", "--ttl", "0s"), "holdfast: LIMIT: ");
    says(CLI(2, "acquire", "bad", "--ttl", "30"), "holdfast: MALFORMED: --ttl 30: a bare number");
    says(CLI(2, "acquire", "bad", "--wait", "soon"), "holdfast: MALFORMED: --wait soon");
    says(CLI(2, "acquire", "bad", "--wait", "3601s"), "holdfast: MALFORMED: --wait 3601s: at most 1h");
    says(CLI(2, "run", "bad", "--wait", "2h", "--", "true"), "holdfast: MALFORMED: --wait 2h: at most 1h");
    says(CLI(2, "namespace"), "holdfast: MALFORMED: usage: holdfast namespace ");
    says(CLI(2, "namespace", "create"), "holdfast: MALFORMED: usage: holdfast namespace ");
    says(CLI(2, "namespace", "destroy", "x"), "holdfast: MALFORMED: usage: holdfast namespace ");
    says(CLI(2, "namespace", "list", "x"), "holdfast: MALFORMED: usage: holdfast namespace ");
    says(CLI(2, "namespace", "list", "--max-leases", "1"), "holdfast: MALFORMED: namespace list takes no --max-leases");
    says(CLI(2, "namespace", "set", "default"), "holdfast: MALFORMED: namespace set needs a policy");
    says(CLI(2, "namespace", "set", "default", "--audit-writes", "yes"), "holdfast: MALFORMED: --audit-writes yes: ");
    says(CLI(2, "audit", "--limit", "0"), "holdfast: MALFORMED: --limit 0: ");
    says(CLI(2, "audit", "x"), "holdfast: MALFORMED: usage: holdfast audit ");
    says(CLI(2, "renew", "--loop", "a"), "holdfast: MALFORMED: usage: holdfast renew ");
    says(CLI(2, "renew", "--loop", "a", "x"), "holdfast: MALFORMED: TOKEN x: ");
    says(CLI(2, "renew", "--loop", "a", "1", "--ttl", "0s"), "holdfast: MALFORMED: --ttl 0s: ");
    says(CLI(2, "renew", "--loop", "a", "1", "--ttl", "1ms"), "holdfast: LIMIT: ");
    says(CLI(2, "acquire"), "holdfast: MALFORMED: usage: holdfast acquire ");
    says(CLI(2, "acquire", ""), "holdfast: ");
    says(CLI(2, "acquire", "a\nb"), "holdfast: ");
    says(CLI(2, "acquire", "a", "--prefix", "b"), "holdfast: MALFORMED: acquire takes no --prefix");
    says(CLI(2, "renew", "a", "one"), "holdfast: MALFORMED: TOKEN one: ");
    says(CLI(2, "renew", "a", "0"), "holdfast: ");
    says(CLI(2, "renew", "a"), "holdfast: MALFORMED: usage: ");
    says(CLI(2, "renew", "a", "1", "2"), "holdfast: MALFORMED: usage: ");
    says(CLI(2, "nonsense"), "holdfast: MALFORMED: unknown command nonsense");
    says(CLI(2, "oops", "k"), "holdfast: MALFORMED: unknown command oops");
    says(CLI(2, "op", "start", "k"), "holdfast: MALFORMED: unknown word start behind op");
    says(CLI(2, "op", "begin", "k"), "holdfast: MALFORMED: op begin needs --type T");
    says(CLI(2, "op", "begin", "k", "--type", "t"),
         "holdfast: MALFORMED: op begin needs one of --fingerprint HEX64 and --canonical JSON");
    says(CLI(2, "op", "begin", "k", "--type", "t", "--fingerprint", "ab"),
         "holdfast: MALFORMED: --fingerprint ab: 64 hexadecimal digits");
    says(CLI(2, "op", "begin", "k", "--state", "done"), "holdfast: MALFORMED: ");
    says(CLI(2, "op", "list", "--state", "done"),
         "holdfast: MALFORMED: --state done: one of pending, running, succeeded, failed, unknown, review, cancelled");
    says(CLI(2, "op", "fail", "k", "1"), "holdfast: MALFORMED: op fail needs --class");
    says(CLI(2, "op", "retry", "k", "--reason", "why"), "holdfast: MALFORMED: op retry needs --revision N");
    says(CLI(2, "op", "reconcile", "k", "--revision", "1", "--reason", "why", "--outcome", "maybe"),
         "holdfast: MALFORMED: --outcome maybe: one of succeeded, failed, not-done, cancelled");
    says(CLI(2, "policy", "set"), "holdfast: MALFORMED: policy set needs a policy to set");
    says(CLI(2, "action", "register", "a"), "holdfast: MALFORMED: usage: holdfast action register NAME SCHEMA.FUNCTION");
    says(CLI(2, "demo", "nothing"), "holdfast: MALFORMED: unknown demo nothing");
    says(CLI(2, "run", "a", "true"), "holdfast: MALFORMED: usage: holdfast run ");
    says(CLI(2, "run", "a", "--"), "holdfast: MALFORMED: usage: holdfast run ");
    says(CLI(2, "--timeout", "0s", "acquire", "a"), "holdfast: MALFORMED: --timeout 0s");
    says(CLI(2, "--key", "k k", "acquire", "a"), "holdfast: MALFORMED: key: an API key is 1 to 512 visible ASCII characters");
    says(CLI(2, "--server", "grpcs://localhost:1", "--tls-ca", "/none.pem", "acquire", "a"),
         "holdfast: MALFORMED: /none.pem: No such file or directory");
    says(CLI(2, "--server", "grpcs://localhost:1", "--tls-cert", "/none.pem", "acquire", "a"),
         "holdfast: MALFORMED: /none.pem: a certificate and its key are given together");
    struct t_result result = CLI(2, "acquire", "bad", "--ttl", "1ms", "--json");
    assert_string_equal(result.out, "");
    t_contains(result.err, "{\"code\":3,");
    t_contains(result.err, "\"reason\":\"LIMIT\"");
    t_contains(CLI(2, "--json", "renew", "a", "x").err, "\"reason\":\"MALFORMED\"");
}

static void renews(void **state)
{
    char *token = token_of("renew", "20s");
    (void)state;

    t_contains(CLI(0, "renew", "renew", token, "--ttl", "1h").out, "RESOURCE  TOKEN  TTL\nrenew     1      ");
    t_contains(CLI(0, "--json", "renew", "renew", token).out, "{\"items\":[{\"renewed\":{\"ttlMs\":\"");
    says(CLI(1, "renew", "renew", "9"), "holdfast: UNKNOWN_TOKEN: ");
    CLI(0, "release", "renew", token);
    says(CLI(1, "renew", "renew", token), "holdfast: RELEASED: the lease of renew under token 1 is lost");
    t_contains(CLI(1, "--json", "renew", "renew", token).out, "{\"items\":[{\"lost\":{\"reason\":\"RELEASED\"}}]}");
}

static void renews_in_a_loop(void **state)
{
    char *token = token_of("loop", "1s");
    (void)state;

    struct t_proc *loop = t_cli_spawn(server, "renew", "--loop", "loop", token, "--ttl", "1s", NULL);
    struct t_proc *json = t_cli_spawn(server, "renew", "--loop", "loop", token, "--ttl", "1s", "--json", NULL);
    assert_int_equal(t_proc_wait(loop, 3000), -1); /* three times the TTL */
    t_contains(CLI(0, "check", "loop", token).out, "CURRENT");
    t_proc_kill(loop, SIGTERM);
    assert_int_equal(t_proc_wait(loop, T_PATIENCE_MS), 0);
    assert_string_equal(t_proc_out(loop), "");
    assert_string_equal(t_proc_err(loop), "");
    t_contains(CLI(0, "check", "loop", token).out, "CURRENT"); /* it was not released */

    CLI(0, "break", "loop", "--token", token, "--reason", "test");
    assert_int_equal(t_proc_wait(json, T_PATIENCE_MS), 1);
    assert_string_equal(t_proc_err(json), "holdfast: lease lost: BROKEN\n");
    int lines = 0;
    for (const char *at = t_proc_out(json); (at = strstr(at, "{\"items\":[{\"renewed\":{\"ttlMs\":\"")); at++)
        lines++;
    assert_in_range(lines, 5, 20);
    t_contains(t_proc_out(json), "{\"items\":[{\"lost\":{\"reason\":\"BROKEN\"}}]}\n");

    says(CLI(1, "renew", "--loop", "loop", token), "holdfast: lease lost: BROKEN");
    says(CLI(1, "renew", "--loop", "loop", "77"), "holdfast: lease lost: UNKNOWN_TOKEN");
    token = token_of("loop", "30s");
    loop = t_cli_spawn(server, "renew", "--loop", "loop", token, NULL);
    t_sleep_ms(300);
    t_proc_kill(loop, SIGINT);
    assert_int_equal(t_proc_wait(loop, T_PATIENCE_MS), 0);
}

/* Nobody answers: lost at the deadline, not before and not much later. */
static void a_loop_without_a_server_loses_at_the_deadline(void **state)
{
    struct t_server *other = t_server_start("--dsn", server->dsn, NULL);
    char *token = token_of("deaf", "2s");
    (void)state;

    struct t_proc *loop = t_cli_spawn(other, "renew", "--loop", "deaf", token, "--ttl", "2s", NULL);
    assert_int_equal(t_proc_wait(loop, 1500), -1);
    t_server_kill(other, SIGSTOP);
    int64_t began = t_now_ms();
    assert_int_equal(t_proc_wait(loop, T_PATIENCE_MS), 1);
    assert_in_range(t_now_ms() - began, 500, 2000 + T_AT_ONCE_MS);
    assert_string_equal(t_proc_err(loop), "holdfast: lease lost: DEADLINE\n");
    t_server_kill(other, SIGCONT);
    t_server_stop(other);
}

static void releases(void **state)
{
    char *token = token_of("release", "20s");
    (void)state;

    t_contains(CLI(0, "release", "release", token).out, "RELEASED");
    t_contains(CLI(0, "--json", "release", "release", token).out, "{\"items\":[{\"wasHeld\":true}]}");
    says(CLI(1, "release", "release", "7"), "holdfast: NOT_HELD: ");
    t_contains(CLI(1, "--json", "release", "release", "7").out, "{\"items\":[{\"wasHeld\":false}]}");
}

static void checks(void **state)
{
    char *token = token_of("check", "20s");
    (void)state;

    t_contains(CLI(0, "check", "check", token).out, "CURRENT");
    t_contains(CLI(0, "--json", "check", "check", token).out, "{\"items\":[{\"current\":{\"remainingMs\":\"");
    CLI(0, "release", "check", token);
    struct t_result result = CLI(1, "check", "check", token);
    t_contains(result.out, "NOT_HELD");
    says(result, "holdfast: NOT_HELD: ");
    token_of("check", "20s");
    result = CLI(1, "check", "check", token);
    t_contains(result.out, "STALE");
    says(result, "holdfast: STALE_TOKEN: ");
    t_contains(CLI(1, "check", "never", "1").err, "has no live lease; none was ever granted\n");
    t_contains(CLI(1, "--json", "check", "check", token).out, "{\"items\":[{\"stale\":{\"fence\":\"2\"}}]}");
}

static void writes_and_reads(void **state)
{
    char *token = token_of("write", "60s"), *next;
    (void)state;

    t_contains(CLI(0, "write", "write", token, "hello").out, "RESOURCE  VERSION  FENCE  REPLAYED\nwrite     1        1      no\n");
    struct t_result result = CLI(0, "read", "write");
    assert_string_equal(result.out, "hello");
    t_contains(CLI(0, "--json", "read", "write").out, "{\"exists\":true,\"value\":\"aGVsbG8=\",\"version\":\"1\",\"fence\":\"1\",");
    t_contains(CLI(0, "--json", "write", "write", token, "--", "--x").out,
               "{\"version\":\"2\",\"fence\":\"1\",\"replayed\":false}");
    assert_string_equal(CLI(0, "read", "write").out, "--x");
    CLI(0, "write", "write", token, "");
    assert_string_equal(CLI(0, "read", "write").out, "");
    says(CLI(1, "write", "write", token, "x", "--expected-version", "1"), "holdfast: VERSION_MISMATCH: ");
    t_contains(CLI(1, "--json", "write", "write", token, "x", "--expected-version", "1").err, "\"reason\":\"VERSION_MISMATCH\"");
    CLI(0, "write", "write", token, "x", "--expected-version", "3");
    CLI(0, "write", "write", token, "y", "--write-seq", "5");
    t_contains(CLI(0, "write", "write", token, "y", "--write-seq", "5").out, "yes");
    says(CLI(1, "write", "write", token, "z", "--write-seq", "4"), "holdfast: SUPERSEDED: ");
    CLI(0, "release", "write", token);
    says(CLI(1, "write", "write", token, "z"), "holdfast: NOT_HELD: ");
    next = token_of("write", "60s");
    says(CLI(1, "write", "write", token, "z"), "holdfast: STALE_TOKEN: ");
    t_contains(CLI(1, "--json", "write", "write", token, "z").err, "{\"code\":9,");
    says(CLI(2, "write", "write", next), "holdfast: MALFORMED: write needs one of");
    says(CLI(2, "write", "write", next, "x", "--file", "/etc/hostname"), "holdfast: MALFORMED: write needs one of");
    says(CLI(2, "write", "write", next, "--file", "/nonexistent"), "holdfast: MALFORMED: cannot read /nonexistent: ");
}

/* All byte values, 300 kB of them, by standard input and by file; then a byte too many. */
static void writes_binary(void **state)
{
    char *dir = t_tmpdir(), *token = token_of("binary", "60s"), *path = t_printf("%s/value", dir);
    FILE *file = fopen(path, "w");
    (void)state;

    assert_non_null(file);
    for (int i = 0; i < 300 * 1024; i++)
        fputc(i * 7 + i / 256, file);
    fclose(file);
    CLI(0, "write", "binary", token, "--file", path);
    const char *script =
        "set -e; $H read binary >$D/out; cmp $D/out $D/value; $H write binary $T - <$D/value; $H read binary | cmp - "
        "$D/value; head -c 1048576 /dev/zero | $H write binary $T -; $H read binary | wc -c";
    const char *env[] = {t_printf("H=%s", T_HOLDFAST), t_printf("D=%s", dir), t_printf("T=%s", token),
                         t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    struct t_result result =
        expect_status(t_run((const char *[]){"sh", "-c", script, NULL}, &(struct t_spawn_opts){.env = env}, 30000), 0, "binary");
    t_contains(result.out, "1048576\n");
    script = "head -c 1048577 /dev/zero | $H write binary $T -";
    result =
        expect_status(t_run((const char *[]){"sh", "-c", script, NULL}, &(struct t_spawn_opts){.env = env}, 30000), 2, "large");
    says(result, "holdfast: LIMIT: value: \"1048577 bytes or more\" is outside its limit; wanted: at most 1048576 bytes");
}

static void deletes(void **state)
{
    char *token = token_of("delete", "60s");
    (void)state;

    CLI(0, "write", "delete", token, "x");
    says(CLI(1, "delete", "delete", token, "--expected-version", "7"), "holdfast: VERSION_MISMATCH: ");
    t_contains(CLI(0, "delete", "delete", token, "--write-seq", "3").out, "delete    2        1      no\n");
    t_contains(CLI(0, "--json", "delete", "delete", token, "--write-seq", "3").out, "\"replayed\":true");
    struct t_result result = CLI(1, "read", "delete");
    assert_string_equal(result.out, "");
    says(result, "holdfast: NO_VALUE: delete has no value (version 2)");
    t_contains(CLI(1, "--json", "read", "delete").out, "{\"exists\":false,");
    says(CLI(1, "delete", "delete", "9"), "holdfast: ");
    says(CLI(1, "read", "never-was"), "holdfast: NO_SUCH_RESOURCE: ");
}

static void lists(void **state)
{
    char *token = token_of("list/a", "60s");
    (void)state;

    CLI(0, "write", "list/a", token, "12345");
    CLI(0, "acquire", "list/b", "--holder", "somebody", "--ttl", "60s");
    token = token_of("list/c", "60s");
    CLI(0, "release", "list/c", token);
    struct t_result result = CLI(0, "resources", "--prefix", "list/");
    t_contains(result.out, "RESOURCE  FENCE  LEASED  VERSION  BYTES\n"
                           "list/a    1      yes     1        5\n"
                           "list/b    1      yes     0        -\n"
                           "list/c    1      no      0        -\n");
    t_contains(CLI(0, "--json", "resources", "--prefix", "list/c").out,
               "{\"resources\":[{\"resource\":\"list/c\",\"fence\":\"1\",");
    result = CLI(0, "leases", "--prefix", "list/");
    t_contains(result.out, "list/a    1      ");
    t_contains(result.out, "somebody\n");
    assert_null(strstr(result.out, "list/c"));
    result = CLI(0, "leases", "--holder", "somebody", "--json");
    t_contains(result.out, "\"resource\":\"list/b\"");
    assert_null(strstr(result.out, "list/a"));
    t_contains(CLI(0, "leases", "--prefix", "nothing/").out, "RESOURCE");
    t_contains(CLI(0, "--json", "leases", "--prefix", "nothing/").out, "{");
}

/* More than one page. */
static void lists_all_pages(void **state)
{
    const char *argv[32] = {T_HOLDFAST, "--server", server->url, "acquire", "--ttl", "1h"};
    (void)state;

    for (int i = 0; i < 63; i++) {
        for (int j = 0; j < 16; j++)
            argv[6 + j] = t_printf("page/%d", i * 16 + j);
        argv[22] = NULL;
        expect_status(t_run(argv, NULL, 30000), 0, "acquire of 16");
    }
    int lines = 0;
    for (const char *at = CLI(0, "leases", "--prefix", "page/").out; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 1 + 63 * 16);
    lines = 0;
    for (const char *at = CLI(0, "--json", "resources", "--prefix", "page/").out; (at = strstr(at, "\"resource\":")); at++)
        lines++;
    assert_int_equal(lines, 63 * 16);
}

static void shows_a_lease(void **state)
{
    struct t_result result;
    (void)state;

    CLI(0, "acquire", "lease", "--task", "work", "--holder", "me", "--request-id", "req-7");
    result = CLI(0, "lease", "lease");
    t_contains(result.out, "STATE     LIVE\n");
    t_contains(result.out, "TASK      work\n");
    t_contains(result.out, "HOLDER    me\n");
    t_contains(result.out, "REQUEST   req-7\n");
    CLI(0, "release", "lease", "1");
    t_contains(CLI(0, "lease", "lease").out, "STATE     RELEASED\n");
    t_contains(CLI(0, "--json", "lease", "lease").out, "\"state\":\"RELEASED\"");
    says(CLI(1, "lease", "never-was"), "holdfast: NO_SUCH_RESOURCE: ");
}

static void breaks(void **state)
{
    char *token = token_of("break", "60s");
    (void)state;

    says(CLI(2, "break", "break", "--token", token), "holdfast: MALFORMED: break needs");
    says(CLI(2, "break", "break", "--reason", "stuck"), "holdfast: MALFORMED: break needs");
    t_contains(CLI(0, "break", "break", "--token", token, "--reason", "stuck").out, "break     BROKEN  2\n");
    says(CLI(1, "renew", "break", token), "holdfast: BROKEN: ");
    says(CLI(1, "write", "break", token, "x"), "holdfast: STALE_TOKEN: ");
    t_contains(CLI(0, "break", "break", "--token", token, "--reason", "stuck").out, "break     BROKEN  2\n"); /* a repeat */
    char *next = token_of("break", "60s");
    says(CLI(1, "break", "break", "--token", token, "--reason", "stuck"), "holdfast: CHANGED: ");
    t_contains(CLI(1, "--json", "break", "break", "--token", token, "--reason", "stuck").out,
               "{\"changed\":{\"token\":\"3\",\"live\":true}}");
    CLI(0, "release", "break", next);
    says(CLI(1, "break", "break", "--token", next, "--reason", "stuck"), "holdfast: CHANGED: ");
    token = token_of("break", "60s");
    t_contains(CLI(0, "--json", "break", "break", "--token", token, "--reason", "stuck").out, "{\"broken\":{\"fence\":\"");
}

static void shows_stats(void **state)
{
    struct t_result result = CLI(0, "stats");
    (void)state;

    t_contains(result.out, "SCHEMA ");
    t_contains(result.out, "serving\n");
    t_contains(result.out, "/holdfast.v1.LeaseService/Acquire");
    result = CLI(0, "stats", "--json");
    t_contains(result.out, "\"schemaVersion\":\"");
    t_contains(result.out, "\"draining\":false");
}

static void makes_namespaces(void **state)
{
    struct t_result result = CLI(0, "namespace", "create", "shop", "--lock-delay", "2s", "--max-ttl", "1m", "--audit-writes", "on");
    (void)state;

    t_contains(
        result.out,
        "NAMESPACE  LOCK DELAY  MIN TTL  MAX TTL  AUDIT WRITES  MAX LEASES  MAX WAITERS  MAX BYTES  KEEP DAYS  FLOOR  STATE\n"
        "shop       2.0s        100ms    1m00s    on            -           -            -          400        0      serving\n");
    CLI(0, "namespace", "create", "shop", "--lock-delay", "2s", "--max-ttl", "1m", "--audit-writes", "on"); /* the same */
    says(CLI(1, "namespace", "create", "shop", "--lock-delay", "3s"), "holdfast: PARAMETER_CONFLICT: ");
    t_contains(
        CLI(0, "namespace", "set", "shop", "--max-leases", "1", "--audit-writes", "off").out,
        "shop       2.0s        100ms    1m00s    off           1           -            -          400        0      serving\n");
    result = CLI(0, "--json", "namespace", "set", "shop", "--max-value-bytes", "1000");
    t_contains(result.out, "{\"namespace\":{\"name\":\"shop\",\"policy\":{\"lockDelayMs\":\"2000\",");
    t_contains(result.out, "\"maxValueBytes\":\"1000\"");
    result = CLI(0, "namespace", "list");
    t_contains(result.out, "\ndefault ");
    t_contains(result.out, "\nshop ");
    t_contains(CLI(0, "--json", "namespace", "list").out, "{\"namespaces\":[{\"name\":\"default\"");
    says(CLI(2, "namespace", "set", "shop", "--min-ttl", "2m"), "holdfast: MALFORMED: policy.min_ttl_ms: "); /* above max_ttl */
    says(CLI(2, "namespace", "create", "sh\nop"), "holdfast: ");
    says(CLI(2, "namespace", "create", "long", "--lock-delay", "2m"), "holdfast: LIMIT: ");
    says(CLI(1, "namespace", "set", "nowhere", "--max-leases", "1"), "holdfast: NO_SUCH_NAMESPACE: ");

    CLI(0, "--namespace", "shop", "acquire", "a", "--ttl", "1m");
    says(CLI(2, "--namespace", "shop", "acquire", "a", "--ttl", "2m"), "holdfast: LIMIT: ");
    result = t_cli(server, "--timeout", "1s", "--namespace", "shop", "acquire", "b", "--ttl", "1m", NULL);
    says(expect_status(result, 1, "quota"), "holdfast: QUOTA: ");
}

static void tells_what_happened(void **state)
{
    char *token;
    (void)state;

    CLI(0, "namespace", "create", "told", "--audit-writes", "on");
    CLI(0, "--namespace", "told", "acquire", "a", "--ttl", "60s", "--holder", "me", "--task", "work");
    CLI(0, "--namespace", "told", "write", "a", "1", "x");
    CLI(0, "--namespace", "told", "release", "a", "1");
    CLI(0, "--namespace", "told", "acquire", "b", "--holder", "you");
    struct t_result result = CLI(0, "--namespace", "told", "audit");
    t_contains(result.out, "TIME                      KIND     ABOUT  TOKEN  PRIOR  ACTOR");
    const char *grant = strstr(result.out, "Z  grant    a      1      -      me"), *write = strstr(result.out, "Z  write    a "),
               *release = strstr(result.out, "Z  release  a "), *other = strstr(result.out, "Z  grant    b      1      -      you");
    assert_true(grant && write && release && other);
    assert_true(other < release && release < write && write < grant); /* newest first */
    result = CLI(0, "--namespace", "told", "audit", "--resource", "b");
    assert_null(strstr(result.out, " a "));
    t_contains(result.out, "  b  ");
    result = CLI(0, "--namespace", "told", "audit", "--limit", "1", "--json");
    t_contains(result.out, "{\"entries\":[{\"id\":\"");
    t_contains(result.out, "\"kind\":\"grant\",\"resource\":\"b\",\"token\":\"1\",");
    assert_null(strstr(result.out, "\"resource\":\"a\""));
    says(CLI(1, "--namespace", "nowhere", "audit"), "holdfast: NO_SUCH_NAMESPACE: ");
    token = token_of("told/many", "60s");
    for (int i = 0; i < 5; i++)
        CLI(0, "renew", "told/many", token);
    t_contains(CLI(0, "audit", "--resource", "told/many").out, "grant");
}

static void namespaces_and_environment(void **state)
{
    const char *env[] = {"HOLDFAST_NAMESPACE=nowhere", t_printf("HOLDFAST_SERVER=%s", server->url), NULL};
    struct t_spawn_opts opts = {.env = env};
    struct t_result result;
    (void)state;

    says(CLI(1, "--namespace", "nowhere", "acquire", "x"), "holdfast: NO_SUCH_NAMESPACE: ");
    result = t_run((const char *[]){T_HOLDFAST, "acquire", "environment", NULL}, &opts, 30000);
    says(expect_status(result, 1, "environment"), "holdfast: NO_SUCH_NAMESPACE: ");
    result = t_run((const char *[]){T_HOLDFAST, "acquire", "environment", "--namespace=default", NULL}, &opts, 30000);
    expect_status(result, 0, "the flag over the environment");
}

static void helps(void **state)
{
    static const char *const commands[] = {"acquire", "renew", "release", "check", "write",     "read",  "delete", "resources",
                                           "leases",  "lease", "break",   "run",   "namespace", "audit", "stats",  "demo"};
    struct t_result result = CLI(0, "help");
    (void)state;

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        t_contains(result.out, t_printf("\n  %s ", commands[i]));
        t_contains(CLI(0, "help", commands[i]).out, t_printf("usage: holdfast %s", commands[i]));
        t_contains(CLI(0, commands[i], "--help").out, t_printf("usage: holdfast %s", commands[i]));
    }
    assert_null(strstr(result.out, "demo-worker"));
    assert_string_equal(CLI(0, "--help").out, result.out);
    assert_string_equal(CLI(0, "--version").out, "holdfast " HOLDFAST_VERSION "\n");
    t_contains(CLI(0, "help", "stats").out, "usage: holdfast stats\n");
    t_contains(CLI(0, "help", "check").out, "Exit status: 0 CURRENT");
    CLI(2, "help", "nonsense");
}

static void out_of_reach(void **state)
{
    char *url = t_printf("tcp://127.0.0.1:%d", t_free_port());
    struct t_result result;
    (void)state;

    result = t_run((const char *[]){T_HOLDFAST, "--server", url, "--timeout", "800ms", "acquire", "x", NULL}, NULL, 10000);
    says(expect_status(result, 3, "no server"),
         t_printf("holdfast: UNAVAILABLE: no server could be reached at %s (Connection refused)", url));
    result = t_run((const char *[]){T_HOLDFAST, "--server", url, "--timeout", "800ms", "stats", "--json", NULL}, NULL, 10000);
    t_contains(expect_status(result, 3, "no server").err, "{\"code\":14,");
    result = t_run((const char *[]){T_HOLDFAST, "--server", url, "--timeout", "800ms", "demo", NULL}, NULL, 10000);
    expect_status(result, 3, "demo without server");
    result = t_run((const char *[]){T_HOLDFAST, "--server", "nonsense", "acquire", "x", NULL}, NULL, 10000);
    says(expect_status(result, 2, "no URL"), "holdfast: MALFORMED: nonsense: ");
    t_contains(result.err, "wanted: tcp://HOST:PORT, ipc://PATH, grpc://HOST:PORT or grpcs://HOST:PORT");
}

static void database_down(void **state)
{
    struct t_pg *pg = t_pg_start(NULL);
    struct t_server *other = t_server_start("--dsn", t_pg_dsn(pg), NULL);
    (void)state;

    expect_status(t_cli(other, "acquire", "x", NULL), 0, "acquire");
    t_pg_stop(pg, T_PG_FAST);
    struct t_result result = t_cli(other, "--timeout", "2s", "acquire", "y", NULL);
    t_contains(expect_status(result, 4, "acquire without database").err, "holdfast: ");
    result = t_cli(other, "--timeout", "2s", "--json", "read", "x", NULL);
    t_contains(expect_status(result, 4, "read without database").err, "\"reason\":\"");
    t_server_kill(other, SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acquires),
        cmocka_unit_test(acquires_several),
        cmocka_unit_test(repeats_by_request_id),
        cmocka_unit_test(waits),
        cmocka_unit_test(a_signal_cancels_a_wait),
        cmocka_unit_test(waits_in_the_servers_queue),
        cmocka_unit_test(refuses_bad_input),
        cmocka_unit_test(renews),
        cmocka_unit_test(renews_in_a_loop),
        cmocka_unit_test(a_loop_without_a_server_loses_at_the_deadline),
        cmocka_unit_test(releases),
        cmocka_unit_test(checks),
        cmocka_unit_test(writes_and_reads),
        cmocka_unit_test(writes_binary),
        cmocka_unit_test(deletes),
        cmocka_unit_test(lists),
        cmocka_unit_test(lists_all_pages),
        cmocka_unit_test(shows_a_lease),
        cmocka_unit_test(breaks),
        cmocka_unit_test(shows_stats),
        cmocka_unit_test(makes_namespaces),
        cmocka_unit_test(tells_what_happened),
        cmocka_unit_test(namespaces_and_environment),
        cmocka_unit_test(helps),
        cmocka_unit_test(out_of_reach),
        cmocka_unit_test_teardown(database_down, t_teardown),
    };
    return cmocka_run_group_tests(tests, serve, end_serving);
}
