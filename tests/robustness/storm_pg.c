/*
 * storm_pg.c - see storm_pg.h. A process of PostgreSQL is known by the folder that it works in.
 */
#include "robustness/storm_pg.h"

#include "harness/harness.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "robustness/storm_host.h"

enum { SOON_MS = 60000, COMMAND_MS = 60000, DISK_MB = 320 };

static void command(const char *line)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    struct t_result result = t_run(argv, NULL, COMMAND_MS);
    if (result.status != 0)
        fail_msg("%s: %s%s", line, result.out, result.err);
}

void storm_pg_start(struct storm_pg *pg, bool disk)
{
    const char *const settings[] = {disk ? "listen_addresses=*" : "listen_addresses=", "min_wal_size=32MB", "max_wal_size=64MB",
                                    "log_checkpoints=off", NULL};
    *pg = (struct storm_pg){.own = t_pg_start(settings)};
    snprintf(pg->dsn, sizeof(pg->dsn), "%s", t_pg_dsn(pg->own));
    snprintf(pg->data, sizeof(pg->data), "%s/data", t_pg_dir(pg->own));
    if (!disk)
        return;
    t_pg_stop(pg->own, T_PG_FAST);
    storm_disk_mount((size_t)DISK_MB << 20);
    command(t_printf("mv %s %s/data && ln -s %s/data %s", pg->data, STORM_DISK, STORM_DISK, pg->data));
    command(t_printf("echo 'host all all %s trust' >>%s/pg_hba.conf", STORM_DATA_NET, pg->data));
    snprintf(pg->data, sizeof(pg->data), "%s/data", STORM_DISK);
    t_pg_restart(pg->own);
}

void storm_pg_of(struct storm_pg *pg, const char *data_dir)
{
    const char *const argv[] = {T_HOLDFASTD, "--data-dir", data_dir, "--print-dsn", NULL};
    struct t_result result = t_run(argv, NULL, COMMAND_MS);
    *pg = (struct storm_pg){0};
    if (result.status != 0)
        fail_msg("--print-dsn: %s", result.err);
    snprintf(pg->dsn, sizeof(pg->dsn), "%.*s", (int)strcspn(result.out, "\n"), result.out);
    snprintf(pg->data, sizeof(pg->data), "%s/pgdata", data_dir);
}

/* ------------------------------------------------------------------------------------------------ processes */

pid_t storm_pg_postmaster(const struct storm_pg *pg)
{
    char path[300];
    int pid = 0;
    snprintf(path, sizeof(path), "%s/postmaster.pid", pg->data);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%d", &pid) != 1)
        pid = 0;
    if (file)
        fclose(file);
    return pid;
}

/* By the folder itself: in another namespace another one may have the same path. */
static bool works_in(pid_t pid, const struct stat *folder)
{
    char link[64];
    struct stat cwd;
    snprintf(link, sizeof(link), "/proc/%d/cwd", (int)pid);
    return stat(link, &cwd) == 0 && cwd.st_dev == folder->st_dev && cwd.st_ino == folder->st_ino;
}

int storm_pg_processes(const struct storm_pg *pg, pid_t pids[STORM_PG_PROCESSES])
{
    const pid_t postmaster = storm_pg_postmaster(pg);
    struct stat folder;
    if (stat(pg->data, &folder) != 0)
        fail_msg("%s: %s", pg->data, strerror(errno));
    DIR *proc = opendir("/proc");
    int n = 0;
    for (struct dirent *entry; proc && n < STORM_PG_PROCESSES && (entry = readdir(proc));) {
        const pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (pid <= 0 || !works_in(pid, &folder))
            continue;
        pids[n++] = pid;
        if (pid == postmaster) {
            pids[n - 1] = pids[0];
            pids[0] = pid;
        }
    }
    if (proc)
        closedir(proc);
    return n;
}

void storm_pg_signal(const struct storm_pg *pg, int sig)
{
    pid_t pids[STORM_PG_PROCESSES];
    /* Twice: a child may have been made meanwhile. */
    for (int time = 0; time < 2; time++)
        for (int i = 0, n = storm_pg_processes(pg, pids); i < n; i++)
            kill(pids[i], sig);
}

static bool none_left(void *arg)
{
    pid_t pids[STORM_PG_PROCESSES];
    return storm_pg_processes(arg, pids) == 0;
}

static void wait_for_end(const struct storm_pg *pg)
{
    if (!t_wait_for(none_left, (void *)(uintptr_t)pg, SOON_MS))
        fail_msg("processes of a PostgreSQL without postmaster don't end");
}

void storm_pg_kill(const struct storm_pg *pg)
{
    const pid_t postmaster = pg->own ? t_pg_pid(pg->own) : storm_pg_postmaster(pg);
    if (postmaster <= 0 || kill(postmaster, SIGKILL) != 0)
        fail_msg("cannot kill postmaster %d: %s", (int)postmaster, strerror(errno));
    if (!pg->own)
        return; /* its server waits for them */
    t_pg_stop(pg->own, T_PG_IMMEDIATE);
    wait_for_end(pg);
}

bool storm_pg_serves(struct storm_pg *pg)
{
    if (PQping(pg->dsn) == PQPING_OK)
        return true;
    const pid_t pid = pg->own ? t_pg_pid(pg->own) : 0;
    if (!pg->own || (pid > 0 && t_alive(pid)))
        return false;
    t_pg_stop(pg->own, T_PG_IMMEDIATE);
    wait_for_end(pg);
    t_pg_restart(pg->own);
    return true;
}

/* ------------------------------------------------------------------------------------------------ connections */

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

PGconn *storm_pg_try(const struct storm_pg *pg, int ms)
{
    const int64_t end = t_now_ms() + ms;
    for (;;) {
        PGconn *conn =
            PQconnectdb(t_printf("%s connect_timeout=2 application_name=storm options='-c statement_timeout=2000'", pg->dsn));
        if (PQstatus(conn) == CONNECTION_OK) {
            PQsetNoticeReceiver(conn, ignore_notice, NULL);
            return conn;
        }
        PQfinish(conn);
        if (t_now_ms() >= end)
            return NULL;
        t_sleep_ms(50);
    }
}

PGconn *storm_pg_connect(const struct storm_pg *pg)
{
    PGconn *conn = storm_pg_try(pg, SOON_MS);
    if (!conn)
        fail_msg("PostgreSQL takes no connection");
    return conn;
}

int storm_pg_backends(const struct storm_pg *pg, pid_t *pids, int max)
{
    PGconn *conn = storm_pg_connect(pg);
    PGresult *result = PQexec(conn, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND "
                                    "datname = 'holdfast' AND application_name <> 'storm' ORDER BY pid");
    int n = 0;
    while (n < max && PQresultStatus(result) == PGRES_TUPLES_OK && n < PQntuples(result)) {
        pids[n] = atoi(PQgetvalue(result, n, 0));
        n++;
    }
    PQclear(result);
    PQfinish(conn);
    return n;
}
