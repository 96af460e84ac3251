/*
 * sync.c - see sync.h. Thread: any one at a time for a connection.
 */
#include "store/sync.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void st_problem_set(struct st_problem *problem, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(problem->text, sizeof(problem->text), format, args);
    va_end(args);
    problem->sqlstate[0] = '\0';

    char *to = problem->text;
    for (const char *from = problem->text; *from; from++) {
        bool space = isspace((unsigned char)*from);
        if (space && (to == problem->text || to[-1] == ' '))
            continue;
        *to++ = (char)(space ? ' ' : *from);
    }
    while (to > problem->text && to[-1] == ' ')
        to--;
    *to = '\0';
}

int64_t st_sync_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool st_sync_dsn_valid(const char *dsn, struct st_problem *problem)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(dsn, &why);
    if (!options)
        st_problem_set(problem, "the DSN cannot be read: %s", why ? why : "out of memory");
    PQconninfoFree(options);
    PQfreemem(why);
    return options != NULL;
}

/* The value of one keyword, or NULL. */
static const char *option_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options && options->keyword; options++) {
        if (strcmp(options->keyword, keyword) == 0)
            return options->val && options->val[0] ? options->val : NULL;
    }
    return NULL;
}

void st_sync_describe(const char *dsn, char *out, size_t size)
{
    static const char *const shown[] = {"host", "hostaddr", "port", "dbname", "user", "service"};
    PQconninfoOption *options = PQconninfoParse(dsn, NULL);
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        const char *value = option_of(options, shown[i]);
        if (value && used < size) {
            int n = snprintf(out + used, size - used, "%s%s=%s", used ? " " : "", shown[i], value);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    if (used == 0)
        snprintf(out, size, "libpq's defaults");
    PQconninfoFree(options);
}

static int count_hosts(const PQconninfoOption *options)
{
    const char *hosts = option_of(options, "hostaddr");
    int n = 1;
    if (!hosts)
        hosts = option_of(options, "host");
    for (; hosts && *hosts; hosts++)
        n += *hosts == ',';
    return n;
}

static void drop_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

PGconn *st_sync_connect(const char *dsn, int timeout_ms, struct st_problem *problem)
{
    char where[256];
    char seconds[16];
    PQconninfoOption *options = NULL;
    PGconn *conn = NULL;

    if (!st_sync_dsn_valid(dsn, problem))
        return NULL;
    options = PQconninfoParse(dsn, NULL);
    st_sync_describe(dsn, where, sizeof(where));

    int each = timeout_ms / 1000 / count_hosts(options);
    const char *own = option_of(options, "connect_timeout");
    if (own && atoi(own) > 0 && atoi(own) < each)
        each = atoi(own);
    snprintf(seconds, sizeof(seconds), "%d", each < 2 ? 2 : each);
    PQconninfoFree(options);

    /* What comes after dbname replaces what the DSN says; what comes before is a default. */
    const char *const keywords[] = {"fallback_application_name", "dbname", "connect_timeout", "gssencmode", "client_encoding",
                                    "tcp_user_timeout",          NULL};
    const char *const values[] = {"holdfastd start-up", dsn, seconds, "disable", "UTF8", "8000", NULL};
    conn = PQconnectdbParams(keywords, values, 1);
    if (!conn || PQstatus(conn) != CONNECTION_OK) {
        st_problem_set(problem, "cannot connect to PostgreSQL (%s): %s", where, conn ? PQerrorMessage(conn) : "out of memory");
        PQfinish(conn);
        return NULL;
    }
    PQsetNoticeReceiver(conn, drop_notice, NULL);
    return conn;
}

/* Waits until the result can be read without blocking. */
static bool wait_result(PGconn *conn, int64_t deadline_ms, struct st_problem *problem)
{
    for (;;) {
        int unsent = PQflush(conn);
        if (unsent < 0 || !PQconsumeInput(conn)) {
            st_problem_set(problem, "%s", PQerrorMessage(conn));
            return false;
        }
        if (unsent == 0 && !PQisBusy(conn))
            return true;
        int64_t left = deadline_ms - st_sync_now();
        struct pollfd fd = {.fd = PQsocket(conn), .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
        if (fd.fd < 0) { /* poll would wait for nothing */
            st_problem_set(problem, "the connection to PostgreSQL is closed");
            return false;
        }
        if (left <= 0 || (poll(&fd, 1, left > 600000 ? 600000 : (int)left) < 0 && errno != EINTR)) {
            st_problem_set(problem, "PostgreSQL did not answer in time");
            return false;
        }
    }
}

PGresult *st_sync_query(PGconn *conn, int64_t deadline_ms, struct st_problem *problem, const char *sql, int n_params,
                        const char *const *params)
{
    PGresult *last = NULL;
    int sent = n_params ? PQsendQueryParams(conn, sql, n_params, NULL, params, NULL, NULL, 0) : PQsendQuery(conn, sql);

    if (!sent) {
        st_problem_set(problem, "%s", PQerrorMessage(conn));
        return NULL;
    }
    for (;;) {
        if (!wait_result(conn, deadline_ms, problem)) {
            PQclear(last);
            return NULL;
        }
        PGresult *next = PQgetResult(conn);
        if (!next)
            break;
        PQclear(last);
        last = next;
    }
    ExecStatusType status = PQresultStatus(last);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        const char *code = PQresultErrorField(last, PG_DIAG_SQLSTATE);
        const char *text = PQresultErrorField(last, PG_DIAG_MESSAGE_PRIMARY);
        const char *context = PQresultErrorField(last, PG_DIAG_CONTEXT);
        st_problem_set(problem, "%s%s%s%s%s%s", text ? text : PQerrorMessage(conn), code ? " (SQLSTATE " : "", code ? code : "",
                       code ? ")" : "", context ? ", in " : "", context ? context : "");
        snprintf(problem->sqlstate, sizeof(problem->sqlstate), "%s", code ? code : "");
        PQclear(last);
        return NULL;
    }
    return last;
}

bool st_sync_do(PGconn *conn, int64_t deadline_ms, struct st_problem *problem, const char *sql)
{
    PGresult *result = st_sync_query(conn, deadline_ms, problem, sql, 0, NULL);
    PQclear(result);
    return result != NULL;
}
