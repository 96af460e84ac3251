/*
 * postgres.c - throwaway clusters and databases.
 *
 * initdb runs once on a machine: its result is kept in a folder of /tmp and copied for each cluster (so all clusters have
 * the same system identifier). PostgreSQL refuses root: it then runs as the user postgres.
 */
#include "harness/internal.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct t_pg {
    struct t_proc *proc; /* NULL: stopped */
    char dir[64];
    char dsn[160];
    const char *args[80];
};

struct database {
    struct database *next;
    int generation;
    char name[48];
};

static struct database *databases;
static int n_databases;
static PGconn *admin;
static pid_t admin_owner;
static char cluster[256]; /* conninfo of the shared cluster, without dbname */

/* ------------------------------------------------------------------------------------------------ initdb, once */

static const char *bindir(void)
{
    static char dir[256];
    if (dir[0])
        return dir;
    const char *given = getenv("HOLDFAST_TEST_PGBIN");
    const char *ask[] = {"pg_config", "--bindir", NULL};
    const char *found = given ? given : t_run(ask, NULL, 10000).out;
    snprintf(dir, sizeof(dir), "%.*s", (int)strcspn(found, "\n"), found);
    return dir;
}

const char *t_pg_program(const char *name)
{
    return t_printf("%s/%s", bindir(), name);
}

void t_run_as_postgres(const char *const *argv, const struct t_spawn_opts *opts)
{
    struct t_proc *proc = t_spawn_as(argv, opts, true);
    if (t_proc_wait(proc, 120000) != 0)
        fail_msg("%s: %s%s", argv[0], t_tail(t_proc_out(proc)), t_tail(t_proc_err(proc)));
}

static uid_t pg_uid(void)
{
    if (geteuid() != 0)
        return geteuid();
    const struct passwd *user = getpwnam("postgres");
    if (!user)
        fail_msg("there is no user postgres: install PostgreSQL");
    return user->pw_uid;
}

/* The folder of a fresh cluster with the database `holdfast`. Several programs may make it at the same time. */
static const char *template_dir(void)
{
    static char dir[128];
    struct stat st;
    if (dir[0])
        return dir;
    const char *postgres = t_pg_program("postgres");
    const char *ask[] = {postgres, "--version", NULL};
    const char *version = t_run(ask, NULL, 10000).out + strlen("postgres (PostgreSQL) ");
    snprintf(dir, sizeof(dir), "/tmp/holdfast-initdb-%u-%.*s", (unsigned)pg_uid(), (int)strspn(version, "0123456789."), version);
    if (lstat(dir, &st) == 0) {
        if (!S_ISDIR(st.st_mode) || st.st_uid != pg_uid())
            fail_msg("%s is not ours: remove it", dir);
        return dir;
    }
    const char *work = t_printf("%s.%d", dir, (int)getpid());
    const char *init[] = {
        t_pg_program("initdb"), "-D", work, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
        "--no-instructions",    NULL};
    t_run_as_postgres(init, NULL);
    const char *single[] = {postgres, "--single", "-F", "-D", work, "postgres", NULL};
    struct t_spawn_opts create = {.input = "CREATE DATABASE holdfast TEMPLATE template0 ENCODING 'UTF8';\n"};
    t_run_as_postgres(single, &create);
    if (rename(work, dir) != 0) { /* another was faster */
        const char *rm[] = {"rm", "-rf", "--", work, NULL};
        t_run_as_postgres(rm, NULL);
    }
    return dir;
}

/* ------------------------------------------------------------------------------------------------ clusters */

static void pg_run(struct t_pg *pg)
{
    pg->proc = t_spawn_as(pg->args, NULL, true);
    int64_t end = t_now_ms() + 60000;
    for (;;) {
        bool ended = t_proc_wait(pg->proc, 0) >= 0;
        if (!ended && PQping(pg->dsn) == PQPING_OK)
            return;
        if (ended || t_now_ms() > end)
            fail_msg("PostgreSQL did not start: %s", t_tail(t_proc_err(pg->proc)));
        t_sleep_ms(10);
    }
}

struct t_pg *t_pg_make(void)
{
    struct t_pg *pg = t_alloc(sizeof(*pg));
    snprintf(pg->dir, sizeof(pg->dir), "%s", t_tmpdir());
    if (geteuid() == 0 && chown(pg->dir, pg_uid(), (gid_t)-1) != 0)
        fail_msg("chown: %s", strerror(errno));
    snprintf(pg->dsn, sizeof(pg->dsn), "host=%s port=5432 user=postgres dbname=holdfast", pg->dir);
    return pg;
}

void t_pg_run(struct t_pg *pg, const char *const *settings)
{
    size_t n = 0;
    pg->args[n++] = t_pg_program("postgres");
    pg->args[n++] = "-D";
    pg->args[n++] = t_printf("%s/data", pg->dir);
    pg->args[n++] = "-k";
    pg->args[n++] = pg->dir;
    static const char *const own[] = {"listen_addresses=", "max_connections=200",  "shared_buffers=64MB",
                                      "fsync=on",          "log_min_messages=log", "logging_collector=off"};
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        pg->args[n++] = "-c";
        pg->args[n++] = own[i];
    }
    for (size_t i = 0; settings && settings[i] && n + 3 < sizeof(pg->args) / sizeof(pg->args[0]); i++) {
        pg->args[n++] = "-c";
        pg->args[n++] = t_strdup(settings[i]);
    }
    pg_run(pg);
}

struct t_pg *t_pg_start(const char *const *settings)
{
    struct t_pg *pg = t_pg_make();
    const char *copy[] = {"cp", "-a", "--reflink=auto", "--", template_dir(), t_printf("%s/data", pg->dir), NULL};
    t_run_as_postgres(copy, NULL);
    t_pg_run(pg, settings);
    return pg;
}

const char *t_pg_dsn(const struct t_pg *pg)
{
    return pg->dsn;
}

const char *t_pg_dir(const struct t_pg *pg)
{
    return pg->dir;
}

pid_t t_pg_pid(const struct t_pg *pg)
{
    return pg->proc ? pg->proc->pid : 0;
}

void t_pg_stop(struct t_pg *pg, enum t_pg_mode mode)
{
    if (!pg->proc)
        return;
    t_proc_kill(pg->proc, mode == T_PG_FAST ? SIGINT : SIGQUIT);
    if (t_proc_wait(pg->proc, 60000) < 0)
        fail_msg("PostgreSQL did not stop: %s", t_tail(t_proc_err(pg->proc)));
    pg->proc = NULL;
}

void t_pg_restart(struct t_pg *pg)
{
    t_pg_stop(pg, T_PG_IMMEDIATE);
    pg_run(pg);
}

void t_pg_free(struct t_pg *pg)
{
    if (!pg)
        return;
    t_pg_stop(pg, T_PG_IMMEDIATE);
    const char *rm[] = {"rm", "-rf", "--", t_printf("%s/data", pg->dir), NULL};
    t_run_as_postgres(rm, NULL);
}

/* ------------------------------------------------------------------------------------------------ databases */

static void shared_cluster(void)
{
    const char *given = getenv("HOLDFAST_TEST_PG");
    if (given && *given) {
        snprintf(cluster, sizeof(cluster), "%s", given);
    } else {
        bool before = t_forever;
        t_forever = true;
        struct t_pg *pg = t_pg_start(NULL);
        snprintf(cluster, sizeof(cluster), "host=%s port=5432 user=postgres", pg->dir);
        t_forever = before;
    }
}

char *t_database(void)
{
    t_root();
    if (!cluster[0])
        shared_cluster();
    if (!admin) {
        admin = t_connect(t_printf("%s dbname=postgres", cluster));
        admin_owner = getpid();
    }
    struct database *db = calloc(1, sizeof(*db));
    if (!db)
        fail_msg("no memory");
    snprintf(db->name, sizeof(db->name), "t_%d_%d", (int)getpid(), n_databases++);
    t_sql(admin, "CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8'", db->name);
    db->generation = t_generation();
    db->next = databases;
    databases = db;
    return t_printf("%s dbname=%s", cluster, db->name);
}

void t_databases_drop(int generation)
{
    if (getpid() != admin_owner)
        return;
    for (struct database **at = &databases, *db; (db = *at);) {
        char sql[128];
        if (db->generation < generation) {
            at = &db->next;
            continue;
        }
        snprintf(sql, sizeof(sql), "DROP DATABASE IF EXISTS %s WITH (FORCE)", db->name);
        if (generation > 0 || getenv("HOLDFAST_TEST_PG")) /* a cluster of our own is gone by now */
            PQclear(PQexec(admin, sql));
        *at = db->next;
        free(db);
    }
    if (generation == 0) {
        PQfinish(admin);
        admin = NULL;
        admin_owner = 0;
    }
}

/* ------------------------------------------------------------------------------------------------ SQL */

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

PGconn *t_connect(const char *dsn)
{
    PGconn *conn = PQconnectdb(dsn);
    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("cannot connect to \"%s\": %s", dsn, PQerrorMessage(conn));
    PQsetNoticeReceiver(conn, ignore_notice, NULL);
    return conn;
}

/* Keeps a copy of the text in a ring of 256. */
static char *ring(const char *text)
{
    static char *slots[256];
    static unsigned next;
    char **slot = &slots[next++ % 256];
    free(*slot);
    *slot = strdup(text);
    if (!*slot)
        fail_msg("no memory");
    return *slot;
}

static PGresult *query(PGconn *conn, const char *format, va_list args, char **sql) __attribute__((format(printf, 2, 0)));

static PGresult *query(PGconn *conn, const char *format, va_list args, char **sql)
{
    if (vasprintf(sql, format, args) < 0)
        fail_msg("no memory");
    return PQexec(conn, *sql);
}

char *t_sql(PGconn *conn, const char *format, ...)
{
    va_list args;
    char *sql;
    va_start(args, format);
    PGresult *result = query(conn, format, args, &sql);
    va_end(args);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY) {
        char *message = ring(PQerrorMessage(conn)), *text = ring(sql);
        PQclear(result);
        free(sql);
        fail_msg("%.2000s: %s", text, message);
    }
    char *value = ring(PQntuples(result) > 0 && PQnfields(result) > 0 ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    free(sql);
    return value;
}

int64_t t_sql_int(PGconn *conn, const char *format, ...)
{
    va_list args;
    char *sql;
    va_start(args, format);
    if (vasprintf(&sql, format, args) < 0)
        fail_msg("no memory");
    va_end(args);
    char *text = ring(sql);
    free(sql);
    return strtoll(t_sql(conn, "%s", text), NULL, 10);
}

char *t_sqlstate(PGconn *conn, const char *format, ...)
{
    va_list args;
    char *sql;
    va_start(args, format);
    PGresult *result = query(conn, format, args, &sql);
    va_end(args);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    ExecStatusType status = PQresultStatus(result);
    bool fine = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY;
    char *kept = ring(state ? state : fine ? "00000" : "08006");
    PQclear(result);
    free(sql);
    return kept;
}
