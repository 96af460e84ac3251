/*
 * harness.h - what tests share: throwaway databases, processes that never outlive their test, temporary folders, waiting.
 *
 * Everything here fails the running cmocka test, with a message, when it cannot do what it says; nothing returns an error.
 * What it hands out (strings, processes, servers, clusters, folders) belongs to the harness and must not be freed. It stays
 * until t_teardown(), if the test uses that as its cmocka teardown, and otherwise until the program ends. Whatever way the
 * program ends, a keeper process ends every process that was started here, their descendants included (they carry a mark in
 * their environment), and removes the folders.
 *
 * Not thread-safe: one thread of the test uses the harness.
 */
#ifndef HOLDFAST_TESTS_HARNESS_H
#define HOLDFAST_TESTS_HARNESS_H

/* cmocka.h needs the first four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <sys/types.h>

/* ------------------------------------------------------------------------------------------------ life */

/* A cmocka teardown: ends the processes, stops the clusters, drops the databases and removes the folders that were made since
 * t_keep(), or since the start. Always 0. */
int t_teardown(void **state);

/* What exists now is for all tests of the program: t_teardown() leaves it alone. For the end of a group setup. */
void t_keep(void);

/* ------------------------------------------------------------------------------------------------ PostgreSQL */

/* The DSN of a fresh, empty UTF8 database, owned by a superuser, on a cluster that all tests share (HOLDFAST_TEST_PG, or one of
 * this program's own). Don't change settings of the cluster there; roles are shared by all, so give them unique names. */
char *t_database(void);

/* A cluster of the test's own, running, with fsync on, reached by a unix socket only. `settings` are postgresql.conf's,
 * such as "max_connections=20", ended by NULL; NULL itself = none. */
struct t_pg *t_pg_start(const char *const *settings);
/* The DSN of its (empty) database `holdfast`. */
const char *t_pg_dsn(const struct t_pg *pg);
const char *t_pg_dir(const struct t_pg *pg); /* of its socket and log; data is in DIR/data */
pid_t t_pg_pid(const struct t_pg *pg);       /* of the postmaster; 0 when stopped */
enum t_pg_mode { T_PG_FAST, T_PG_IMMEDIATE };
/* It is stopped: fast ends sessions and checkpoints, immediate is a crash. */
void t_pg_stop(struct t_pg *pg, enum t_pg_mode mode);
/* It runs again, with the same data, settings and DSN; stops it first (immediate) if it is running. */
void t_pg_restart(struct t_pg *pg);
/* It is stopped and gone. Optional. */
void t_pg_free(struct t_pg *pg);

/* A connection; notices are dropped. Close it with PQfinish. */
PGconn *t_connect(const char *dsn);
/* The first value of the last result as text, "" if there is no row or it is NULL; the test fails on an error. The text is
 * SQL made by printf, several statements are allowed. The string stays for 256 more calls. */
char *t_sql(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, as a number. */
int64_t t_sql_int(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The SQLSTATE with which this fails, "00000" if it succeeds. Static string rules as for t_sql. */
char *t_sqlstate(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ------------------------------------------------------------------------------------------------ processes */

struct t_proc {
    pid_t pid; /* also its process group */
    const char *out_path, *err_path;
    bool ended;
    int status; /* once ended: exit status, or 128 + signal */
};

/* Zero means default. */
struct t_spawn_opts {
    const char *const *env; /* "NAME=value", or "NAME" to take one away; ended by NULL; added to the test's own */
    const char *cwd;
    const char *input; /* standard input; NULL = /dev/null */
};

/* It runs, in a process group of its own, with stdout and stderr going to files. argv ends with NULL; argv[0] is looked up in
 * PATH. `opts` may be NULL. */
struct t_proc *t_spawn(const char *const *argv, const struct t_spawn_opts *opts);
/* Its exit status, or 128 + signal, once it ended; -1 if it still runs after `ms`. */
int t_proc_wait(struct t_proc *proc, int ms);
/* What it has written until now, NUL-terminated. */
char *t_proc_out(struct t_proc *proc);
char *t_proc_err(struct t_proc *proc);
/* `sig` was sent to it alone; nothing if it has ended. */
void t_proc_kill(struct t_proc *proc, int sig);
/* The text appears in its stdout (stderr) before `ms` have passed, or the test fails; also if it ends without saying so. */
void t_proc_expect_out(struct t_proc *proc, const char *text, int ms);
void t_proc_expect_err(struct t_proc *proc, const char *text, int ms);

/* Whether a process of this pid is there and no zombie. Zombies of processes that lost their parent may stay for long. */
bool t_alive(pid_t pid);

struct t_result {
    int status; /* exit status, or 128 + signal */
    char *out, *err;
};

/* Runs it to its end; the test fails if that takes longer than `ms`. */
struct t_result t_run(const char *const *argv, const struct t_spawn_opts *opts, int ms);

/* ------------------------------------------------------------------------------------------------ Holdfast */

struct t_server {
    struct t_proc *proc;
    char url[256];  /* of nng: for HOLDFAST_SERVER */
    char http[128]; /* host:port, "" if there is none */
    char dsn[512];  /* what was given by --dsn, or "" */
};

/* The built holdfastd serves. The arguments are its own, such as "--dsn", dsn or "--data-dir", dir, ended by NULL; unless
 * --listen is among them it listens on a free port of 127.0.0.1. Fails the test if it isn't READY within 60 s. Its log is
 * t_proc_err(server->proc). */
struct t_server *t_server_start(const char *arg, ...) __attribute__((sentinel));
struct t_server *t_server_startv(const char *const *args, const struct t_spawn_opts *opts);
/* It got SIGTERM and ended; its exit status. The test fails if it takes longer than 30 s. */
int t_server_stop(struct t_server *server);
/* It got this signal; with SIGKILL it is also gone. */
void t_server_kill(struct t_server *server, int sig);
/* The same server is started again, with the same arguments and on the same URL: after it ended. */
void t_server_restart(struct t_server *server);

/* The built `holdfast` ran to its end (30 s at most) with these arguments, ended by NULL, against the server. */
struct t_result t_cli(const struct t_server *server, const char *arg, ...) __attribute__((sentinel));
/* The same, still running: for `run`, `renew --loop`. */
struct t_proc *t_cli_spawn(const struct t_server *server, const char *arg, ...) __attribute__((sentinel));

/* ------------------------------------------------------------------------------------------------ the rest */

/* A new empty folder, mode 0755, with a short absolute path. */
char *t_tmpdir(void);
/* The absolute path of this program, to start it again as another process of a test. */
const char *t_self(void);
/* The test fails, showing the text, unless `part` is in it. */
void t_contains(const char *text, const char *part);
/* A string made by printf. */
char *t_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The file's content, NUL-terminated; "" if it isn't there. */
char *t_read_file(const char *path);
void t_write_file(const char *path, const char *text);
/* Bounds in time, for a machine as busy as CI's may be: what must happen, and will, is waited for with patience; what should happen
 * at once has that long (what it must not wait for takes longer). Where less would be wanted, count or compare instead. */
enum { T_PATIENCE_MS = 20000, T_AT_ONCE_MS = 5000 };
/* True as soon as cond(arg) is; false if it isn't within `ms`. Asks every few ms. */
bool t_wait_for(bool (*cond)(void *arg), void *arg, int ms);
/* A TCP port of 127.0.0.1 that nobody listens on at this moment. */
int t_free_port(void);
/* Milliseconds of CLOCK_MONOTONIC. */
int64_t t_now_ms(void);
/* Pauses this thread. Only between polls, or to let a time to live pass: never to hope that something has happened. */
void t_sleep_ms(int ms);
/* A seed for random tests: HOLDFAST_TEST_SEED, or a new one; printed. */
uint64_t t_seed(void);

#endif
