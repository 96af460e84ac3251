/*
 * server_cluster_test.c - the private PostgreSQL: made, kept out of others' hands, adopted, started again, stopped.
 */
#include "harness/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pid_t postmaster_of(const char *dir)
{
    return (pid_t)atoi(t_read_file(t_printf("%s/pgdata/postmaster.pid", dir)));
}

/* Ended; whoever inherited it may not have reaped it yet. */
static bool is_gone(void *arg)
{
    char *text = t_read_file(t_printf("/proc/%d/stat", (int)*(pid_t *)arg)), *end = strrchr(text, ')');
    return !end || end[2] == 'Z' || end[2] == 'X';
}

static char *dsn_of(const char *dir)
{
    const char *const argv[] = {T_HOLDFASTD, "--data-dir", dir, "--print-dsn", NULL};
    struct t_result result = t_run(argv, NULL, T_PATIENCE_MS);
    assert_int_equal(result.status, 0);
    return t_printf("%.*s", (int)strcspn(result.out, "\n"), result.out);
}

static void works(const struct t_server *server, const char *resource)
{
    struct t_result result = t_cli(server, "acquire", resource, "--ttl", "1s", NULL);
    if (result.status != 0)
        fail_msg("acquire: %d: %s%s\nserver: %s", result.status, result.out, result.err, t_proc_err(server->proc));
}

/* holdfastd on this folder ends with `status` and says both. */
static void refused(const char *dir, int status, const char *part, const char *other_part)
{
    const char *const argv[] = {T_HOLDFASTD, "--data-dir", dir, "--listen", "tcp://127.0.0.1:0", NULL};
    struct t_result result = t_run(argv, NULL, 60000);
    if (result.status != status || !strstr(result.err, part) || !strstr(result.err, other_part))
        fail_msg("status %d and not %d, or \"%s\" or \"%s\" is missing: %s", result.status, status, part, other_part, result.err);
}

static void test_life(void **state)
{
    (void)state;
    char *dir = t_printf("%s/a b'c/data", t_tmpdir()), *socket_dir = t_printf("%s/run", dir);
    struct stat st;
    struct t_server *server = t_server_start("--data-dir", dir, NULL);
    pid_t pid = postmaster_of(dir);

    works(server, "r");
    assert_int_equal(stat(t_printf("/proc/%d", (int)pid), &st), 0);
    assert_int_not_equal(st.st_uid, 0); /* PostgreSQL refuses root, and isn't */
    assert_int_equal(stat(socket_dir, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    if (geteuid() != 0)
        assert_int_equal(st.st_uid, geteuid());

    char *dsn = dsn_of(dir);
    const char *const psql[] = {
        "psql", dsn, "-XAtc",
        "SELECT current_database(), current_setting('server_encoding'), current_setting('listen_addresses'), "
        "(SELECT count(*) FROM holdfast.lease), current_setting('fsync')",
        NULL};
    struct t_result result = t_run(psql, NULL, T_PATIENCE_MS);
    assert_string_equal(result.out, "holdfast|UTF8||1|on\n");

    /* What its users make there is not made in Holdfast's own schema, and other roles find it. */
    const char *const table[] = {
        "psql", dsn, "-XAtqc",
        "CREATE TABLE mine(n int); CREATE ROLE somebody; GRANT SELECT ON mine TO somebody; SET ROLE somebody; "
        "SELECT 'mine'::regclass::oid = 'public.mine'::regclass, count(*) FROM mine",
        NULL};
    result = t_run(table, NULL, T_PATIENCE_MS);
    assert_string_equal(result.out, "t|0\n");

    /* A second server is kept out, and the first goes on. */
    refused(dir, 1, dir, t_printf("(pid %d)", (int)server->proc->pid));
    works(server, "s");

    assert_int_equal(t_server_stop(server), 0);
    assert_true(is_gone(&pid));
    assert_int_equal(access(t_printf("%s/pgdata/postmaster.pid", dir), F_OK), -1);
    t_server_restart(server);
    works(server, "t");
    assert_int_equal(t_server_stop(server), 0);
}

static void test_adopted(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    struct t_server *server = t_server_start("--data-dir", dir, NULL);
    pid_t pid = postmaster_of(dir);

    t_server_kill(server, SIGKILL);
    assert_false(is_gone(&pid));
    t_server_restart(server);
    t_proc_expect_err(server->proc, "cluster.adopted", T_PATIENCE_MS);
    assert_int_equal(postmaster_of(dir), pid);
    works(server, "r");
    assert_int_equal(t_server_stop(server), 0);
    assert_true(is_gone(&pid));
}

static bool restarted(void *arg)
{
    const char *dir = ((char **)arg)[0];
    pid_t old = *(pid_t *)((void **)arg)[1], now = postmaster_of(dir);
    return now > 0 && now != old && kill(now, 0) == 0;
}

static void test_postmaster_killed(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    struct t_server *server = t_server_start("--data-dir", dir, NULL);
    pid_t pid = postmaster_of(dir);
    void *arg[] = {dir, &pid};

    works(server, "r");
    for (int i = 0; i < 2; i++) {
        pid = postmaster_of(dir);
        assert_int_equal(kill(pid, SIGKILL), 0);
        if (!t_wait_for(restarted, arg, 30000))
            fail_msg("not started again: %s", t_proc_err(server->proc));
        works(server, t_printf("s%d", i));
    }
    assert_non_null(strstr(t_proc_err(server->proc), "cluster.ended"));

    /* That one was forked while the sockets were open; it holds none of them, or the port would be taken now. */
    t_server_kill(server, SIGKILL);
    t_server_restart(server);
    works(server, "t");
    pid = postmaster_of(dir);
    assert_int_equal(t_server_stop(server), 0);
    assert_true(is_gone(&pid));
}

/* Killed with its server: only files are left, naming a process that may be anybody by now. */
static void test_stale_pid_file(void **state)
{
    (void)state;
    char *dir = t_tmpdir(), *path = t_printf("%s/pgdata/postmaster.pid", dir);
    struct t_server *server = t_server_start("--data-dir", dir, NULL);
    pid_t pid = postmaster_of(dir);
    struct stat st;

    t_server_kill(server, SIGKILL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(t_wait_for(is_gone, &pid, T_PATIENCE_MS));

    /* A process of PostgreSQL's user that lives, but isn't PostgreSQL. */
    assert_int_equal(stat(t_printf("%s/pgdata", dir), &st), 0);
    const char *const as_owner[] = {"setpriv", "--reuid", t_printf("%d", (int)st.st_uid), "--clear-groups", "sleep", "60", NULL};
    const char *const plain[] = {"sleep", "60", NULL};
    struct t_proc *other = t_spawn(geteuid() == 0 ? as_owner : plain, NULL);
    char *rest = strchr(t_read_file(path), '\n');
    assert_non_null(rest);
    t_write_file(path, t_printf("%d%s", (int)other->pid, rest));
    t_server_restart(server);
    works(server, "r");
    assert_int_equal(t_server_stop(server), 0);
    t_proc_kill(other, SIGKILL);
}

/* Nothing that the server has open, or was itself started with, is open in PostgreSQL; it leads a session of its own. */
static void test_no_files_inherited(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    const char *const argv[] = {
        "sh", "-c", t_printf("exec 7</etc/passwd; exec %s --data-dir %s --listen tcp://127.0.0.1:0", T_HOLDFASTD, dir), NULL};
    struct t_proc *proc = t_spawn(argv, NULL);

    t_proc_expect_out(proc, "READY", 60000);
    pid_t pid = postmaster_of(dir);
    const char *const ls[] = {"sh", "-c", t_printf("readlink /proc/%d/fd/*", (int)pid), NULL};
    char *files = t_run(ls, NULL, T_PATIENCE_MS).out;
    assert_non_null(strstr(files, "/postgres.log\n"));
    assert_null(strstr(files, "passwd"));
    assert_null(strstr(files, "/lock\n"));
    assert_int_equal(getsid(pid), pid);
    t_proc_kill(proc, SIGTERM);
    assert_int_equal(t_proc_wait(proc, 20000), 0);
}

static bool has_begun(void *arg)
{
    return access(t_printf("%s/pgdata.new/PG_VERSION", (char *)arg), F_OK) == 0;
}

static void test_initdb_cut_off(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    const char *const argv[] = {T_HOLDFASTD, "--data-dir", dir, "--listen", "tcp://127.0.0.1:0", NULL};
    struct t_proc *first = t_spawn(argv, NULL);

    assert_true(t_wait_for(has_begun, dir, 30000));
    t_proc_kill(first, SIGKILL);
    t_proc_wait(first, T_PATIENCE_MS);
    assert_int_equal(access(t_printf("%s/pgdata", dir), F_OK), -1);
    struct t_server *server = t_server_start("--data-dir", dir, NULL);
    works(server, "r");
    assert_int_equal(access(t_printf("%s/pgdata.new", dir), F_OK), -1);
    assert_int_equal(t_server_stop(server), 0);
}

/* SIGTERM while the folder is being made: a clean end, nothing left running. */
static void test_asked_to_end_early(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    const char *const argv[] = {T_HOLDFASTD, "--data-dir", dir, "--listen", "tcp://127.0.0.1:0", NULL};
    struct t_proc *first = t_spawn(argv, NULL);

    assert_true(t_wait_for(has_begun, dir, 30000));
    t_proc_kill(first, SIGTERM);
    if (t_proc_wait(first, 20000) != 0)
        fail_msg("%d: %s", first->status, t_proc_err(first));
    assert_null(strstr(t_proc_out(first), "READY"));
    struct t_server *server = t_server_start("--data-dir", dir, NULL);
    assert_int_equal(t_server_stop(server), 0);
}

static void test_bad_folders(void **state)
{
    (void)state;
    char *dir = t_tmpdir();
    char *file = t_printf("%s/file", dir), *deep = dir;

    t_write_file(file, "in the way");
    refused(file, 2, file, "is not a folder");
    refused(t_printf("%s/below", file), 2, file, "Not a directory");
    while (strlen(deep) < 90)
        deep = t_printf("%s/xxxxxxxxx", deep);
    refused(deep, 2, deep, "107 bytes");
    refused(t_printf("%s/a,b", dir), 2, "a,b", "comma");

    char *strange = t_printf("%s/strange", dir);
    assert_int_equal(mkdir(strange, 0755), 0);
    assert_int_equal(mkdir(t_printf("%s/pgdata", strange), 0755), 0);
    refused(strange, 2, strange, "PG_VERSION");
    t_write_file(t_printf("%s/pgdata/PG_VERSION", strange), "9.6\n");
    assert_int_equal(chmod(t_printf("%s/pgdata/PG_VERSION", strange), 0644), 0);
    refused(strange, 2, "PostgreSQL 9", "postgresql-9");
}

static void test_unwritable_folder(void **state)
{
    (void)state;
    char *dir = t_tmpdir(), *locked = t_printf("%s/locked", dir), *inside = t_printf("%s/inside", locked);

    assert_int_equal(mkdir(locked, 0500), 0);
    if (geteuid() != 0) {
        refused(locked, 2, locked, "not writable");
        refused(inside, 2, inside, "Permission denied");
        return;
    }
    refused(inside, 2, inside, "cannot enter");
    t_write_file(t_printf("%s/file", locked), "something of root's");
    refused(locked, 2, locked, "holds other things");
    assert_int_equal(chown(inside, 1, 1), 0);
    assert_int_equal(chmod(locked, 0755), 0);
    assert_int_equal(chmod(inside, 0500), 0);
    refused(inside, 2, inside, "not writable for user");
    assert_int_equal(chown(inside, 54321, 54321), 0);
    refused(inside, 2, inside, "uid 54321");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_life, t_teardown),
        cmocka_unit_test_teardown(test_adopted, t_teardown),
        cmocka_unit_test_teardown(test_postmaster_killed, t_teardown),
        cmocka_unit_test_teardown(test_stale_pid_file, t_teardown),
        cmocka_unit_test_teardown(test_no_files_inherited, t_teardown),
        cmocka_unit_test_teardown(test_initdb_cut_off, t_teardown),
        cmocka_unit_test_teardown(test_asked_to_end_early, t_teardown),
        cmocka_unit_test_teardown(test_bad_folders, t_teardown),
        cmocka_unit_test_teardown(test_unwritable_folder, t_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
