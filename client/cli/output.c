/*
 * output.c - what a command prints: JSON, errors, tables; and the exit status of an error.
 */
#include "client/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/values.h"
#include "proto/c/buf.h"
#include "proto/c/json.h"
#include "proto/c/status.h"

static void print_line(FILE *file, struct hp_buf *line)
{
    if (line->failed)
        fprintf(stderr, "holdfast: INTERNAL: out of memory\n");
    else
        fprintf(file, "%s\n", (const char *)line->data);
    hp_buf_release(line);
}

void cli_print_json(const void *message)
{
    struct hp_buf line = HP_BUF_INIT;

    hp_json_write(&line, message, HP_JSON_DEFAULTS);
    print_line(stdout, &line);
}

int cli_exit_of(const struct hp_status *status, bool unreachable)
{
    if (unreachable)
        return CLI_UNREACHABLE;
    switch (status->code) {
    case HP_OK:
        return CLI_OK;
    case HP_INVALID_ARGUMENT:
    case HP_OUT_OF_RANGE:
        return CLI_USAGE;
    case HP_FAILED_PRECONDITION:
    case HP_ABORTED:
    case HP_NOT_FOUND:
    case HP_ALREADY_EXISTS:
    case HP_UNAUTHENTICATED:
    case HP_PERMISSION_DENIED:
    case HP_RESOURCE_EXHAUSTED:
        return CLI_REFUSED;
    default:
        return CLI_FAILED;
    }
}

int cli_error(const struct cli *cli, const struct hp_status *status)
{
    struct hp_buf line = HP_BUF_INIT;

    fflush(stdout);
    if (cli->json)
        hp_status_json(status, &line);
    else
        hp_buf_printf(&line, "holdfast: %s: %s",
                      status->reason ? hp_reason_name((int)status->reason) : hp_code_name((int)status->code), status->message);
    for (size_t i = 0; !cli->json && i < line.len; i++)
        if (line.data[i] == '\n')
            line.data[i] = ' ';
    print_line(stderr, &line);
    return cli_exit_of(status, false);
}

int cli_usage_error(const struct cli *cli, const char *format, ...)
{
    struct hp_status status;
    char message[sizeof(status.message)];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    hp_status_set(&status, HP_R_MALFORMED, "%s", message);
    return cli_error(cli, &status);
}

int cli_system_error(const struct cli *cli, const char *what)
{
    struct hp_status status;

    hp_status_set(&status, HP_R_INTERNAL, "%s: %s", what, strerror(errno));
    return cli_error(cli, &status);
}

int cli_refused(const struct cli *cli, const char *what, const char *format, ...)
{
    va_list args;

    if (cli->json)
        return CLI_REFUSED;
    fflush(stdout);
    fprintf(stderr, "holdfast: %s: ", what);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_REFUSED;
}

/* Columns that a terminal gives to UTF-8 text, near enough: one a code point. */
static size_t width(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void cli_row(struct cli_table *table, ...)
{
    va_list args;

    if (table->n + table->columns > table->cap) {
        size_t cap = 2 * table->cap + 8 * table->columns;
        char **cells = realloc(table->cells, cap * sizeof(*cells));
        if (!cells)
            abort();
        table->cells = cells;
        table->cap = cap;
    }
    va_start(args, table);
    for (size_t i = 0; i < table->columns; i++) {
        char *cell = strdup(va_arg(args, const char *));
        if (!cell)
            abort();
        table->cells[table->n++] = cell;
    }
    va_end(args);
}

void cli_table_release(struct cli_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->n = table->cap = 0;
}

void cli_table_print(struct cli_table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        size_t column = i % table->columns, wide = 0;
        for (size_t j = column; j < table->n; j += table->columns)
            wide = width(table->cells[j]) > wide ? width(table->cells[j]) : wide;
        if (column + 1 == table->columns)
            printf("%s\n", table->cells[i]);
        else
            printf("%s%*s", table->cells[i], (int)(wide - width(table->cells[i])) + 2, "");
    }
    cli_table_release(table);
}

static char *next_text(void)
{
    static char ring[16][32];
    static unsigned next;

    return ring[next++ % 16];
}

const char *cli_int(int64_t number)
{
    char *text = next_text();

    snprintf(text, 32, "%" PRId64, number);
    return text;
}

const char *cli_ms(int64_t ms)
{
    char *text = next_text();

    cli_format_duration(ms, text, 32);
    return text;
}
