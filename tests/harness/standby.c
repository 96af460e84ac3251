/*
 * standby.c - see standby.h.
 */
#include "harness/standby.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/internal.h"

enum { WAIT_MS = 60000, CHILDREN_MAX = 300 };

/* One statement on a connection of its own; its first value. */
static char *ask(struct t_pg *pg, const char *sql)
{
    PGconn *conn = t_connect(t_pg_dsn(pg));
    char *value = t_sql(conn, "%s", sql);
    PQfinish(conn);
    return value;
}

struct question {
    PGconn *conn;
    const char *sql;
};

static bool says_yes(void *arg)
{
    const struct question *question = arg;
    return *t_sql(question->conn, "%s", question->sql) == 't';
}

static void wait_until(struct t_pg *pg, const char *sql)
{
    PGconn *conn = t_connect(t_pg_dsn(pg));
    struct question question = {conn, sql};
    if (!t_wait_for(says_yes, &question, WAIT_MS))
        fail_msg("after %d ms it is still not so: %s", WAIT_MS, sql);
    PQfinish(conn);
}

/* ------------------------------------------------------------------------------------------------ following */

struct t_pg *t_standby_start(struct t_pg *primary, const char *name, const char *const *settings)
{
    struct t_pg *standby = t_pg_make();
    const char *from = t_printf("host=%s port=5432 user=postgres application_name=%s", t_pg_dir(primary), name);
    const char *const copy[] = {t_pg_program("pg_basebackup"),
                                "-D",
                                t_printf("%s/data", t_pg_dir(standby)),
                                "-d",
                                from,
                                "--write-recovery-conf",
                                "--wal-method=stream",
                                "--checkpoint=fast",
                                "--no-sync",
                                NULL};
    t_run_as_postgres(copy, NULL);
    t_pg_run(standby, settings);
    wait_until(primary, t_printf("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE application_name = '%s' AND "
                                 "state = 'streaming')",
                                 name));
    return standby;
}

const char *t_standby_dsn(const struct t_pg *first, const struct t_pg *second)
{
    return t_printf("host=%s,%s port=5432 user=postgres dbname=holdfast target_session_attrs=read-write", t_pg_dir(first),
                    t_pg_dir(second));
}

void t_standby_catch_up(struct t_pg *primary, const char *name)
{
    const char *now = ask(primary, "SELECT pg_current_wal_lsn()");
    wait_until(primary, t_printf("SELECT coalesce((SELECT replay_lsn >= '%s' FROM pg_stat_replication WHERE "
                                 "application_name = '%s'), false)",
                                 now, name));
}

pid_t t_standby_hold(struct t_pg *primary, const char *name)
{
    const pid_t sender = atoi(ask(primary, t_printf("SELECT pid FROM pg_stat_replication WHERE application_name = '%s'", name)));
    if (sender <= 0 || kill(sender, SIGSTOP) != 0)
        fail_msg("nobody sends to the standby %s", name);
    return sender;
}

void t_standby_let_go(pid_t sender)
{
    kill(sender, SIGCONT);
}

/* Whether a commit on `writer` waits for a standby. It has ended when this returns. */
static bool commit_waits(PGconn *writer, PGconn *asker, pid_t sender)
{
    bool waits = false;
    kill(sender, SIGSTOP);
    if (PQsendQuery(writer, "SELECT pg_logical_emit_message(true, 'probe', '')") != 1)
        fail_msg("%s", PQerrorMessage(writer));
    do {
        waits = *t_sql(asker, "SELECT wait_event IS NOT DISTINCT FROM 'SyncRep' FROM pg_stat_activity WHERE pid = %d",
                       PQbackendPID(writer)) == 't';
        if (!PQconsumeInput(writer))
            fail_msg("%s", PQerrorMessage(writer));
    } while (!waits && PQisBusy(writer));
    kill(sender, SIGCONT);
    for (PGresult *result; (result = PQgetResult(writer));)
        PQclear(result);
    return waits;
}

/* Sessions go by what the checkpointer has made of the setting, which nothing shows but what they do. */
void t_pg_synchronous(struct t_pg *pg, const char *name)
{
    ask(pg, t_printf("ALTER SYSTEM SET synchronous_standby_names = '%s'", name));
    ask(pg, "SELECT pg_reload_conf()");
    if (!*name)
        return;
    wait_until(pg, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))");
    PGconn *writer = t_connect(t_pg_dsn(pg)), *asker = t_connect(t_pg_dsn(pg));
    const pid_t sender = (pid_t)t_sql_int(asker, "SELECT pid FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')");
    const int64_t end = t_now_ms() + WAIT_MS;
    while (!commit_waits(writer, asker, sender))
        if (t_now_ms() > end)
            fail_msg("commits do not wait for %s", name);
    PQfinish(writer);
    PQfinish(asker);
}

/* ------------------------------------------------------------------------------------------------ failing over */

void t_standby_promote(struct t_pg *standby)
{
    if (strcmp(ask(standby, "SELECT pg_promote(true, 60)"), "t") != 0)
        fail_msg("the standby was not promoted");
}

char *t_pg_timeline(struct t_pg *pg)
{
    return ask(pg, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)");
}

/* The processes whose parent this is; how many. */
static int children_of(pid_t parent, pid_t *children)
{
    int n = 0;
    DIR *proc = opendir("/proc");
    if (!proc)
        fail_msg("/proc: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(proc)) && n < CHILDREN_MAX;) {
        const pid_t pid = atoi(entry->d_name);
        if (pid > 0 && t_parent_of(entry->d_name) == parent)
            children[n++] = pid;
    }
    closedir(proc);
    return n;
}

void t_pg_freeze(struct t_pg *pg)
{
    pid_t children[CHILDREN_MAX];
    kill(t_pg_pid(pg), SIGSTOP);
    for (int i = 0, n = children_of(t_pg_pid(pg), children); i < n; i++)
        kill(children[i], SIGSTOP);
}

void t_pg_thaw(struct t_pg *pg)
{
    pid_t children[CHILDREN_MAX];
    for (int i = 0, n = children_of(t_pg_pid(pg), children); i < n; i++)
        kill(children[i], SIGCONT);
    kill(t_pg_pid(pg), SIGCONT);
}

static bool is_gone(void *arg)
{
    return !t_alive(*(const pid_t *)arg);
}

void t_pg_kill(struct t_pg *pg)
{
    pid_t children[CHILDREN_MAX];
    const pid_t postmaster = t_pg_pid(pg);
    if (postmaster <= 0)
        return;
    kill(postmaster, SIGSTOP); /* it makes no more of them */
    const int n = children_of(postmaster, children);
    kill(postmaster, SIGKILL);
    for (int i = 0; i < n; i++)
        kill(children[i], SIGKILL);
    t_pg_stop(pg, T_PG_IMMEDIATE);
    for (int i = 0; i < n; i++)
        if (!t_wait_for(is_gone, &children[i], WAIT_MS))
            fail_msg("process %d of PostgreSQL outlived SIGKILL", (int)children[i]);
}
