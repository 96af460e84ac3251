/*
 * conf_fuzz.c - the configuration file: any bytes are a file.
 *
 * What is read is as conf_file.h says, and reads the same when it is written down again; what is refused names a line that
 * exists, and says why in text that can be shown.
 */
#include "fuzz.h"

#include <string.h>

#include "app/conf_file.h"
#include "proto/c/buf.h"
#include "proto/c/wire.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static size_t count_lines(const uint8_t *data, size_t size)
{
    size_t n = size && data[size - 1] != '\n';
    for (size_t i = 0; i < size; i++)
        n += data[i] == '\n';
    return n;
}

static bool can_be_shown(const char *text)
{
    for (const char *p = text; *p; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    return text[0] && hp_utf8_valid(text, strlen(text));
}

static void check_entries(const struct conf_file *file, size_t lines)
{
    MUST(file->n <= CONF_ENTRIES_MAX);
    for (size_t i = 0; i < file->n; i++) {
        const struct conf_entry *entry = &file->entries[i];
        MUST(entry->line >= 1 && entry->line <= lines);
        MUST(i == 0 || entry->line > file->entries[i - 1].line);
        MUST(can_be_shown(entry->name) && strlen(entry->name) <= CONF_NAME_MAX);
        MUST(can_be_shown(entry->value) && strlen(entry->value) <= CONF_LINE_MAX);
        for (size_t k = 0; k < i; k++)
            MUST(strcmp(entry->name, file->entries[k].name) != 0);
    }
}

/* Quoted where it can be; a value with a quote in it was read without. */
static void write_entries(struct hp_buf *out, const struct conf_file *file)
{
    for (size_t i = 0; i < file->n; i++) {
        const char *quote = strchr(file->entries[i].value, '"') ? "" : "\"";
        hp_buf_printf(out, "%s=%s%s%s\n", file->entries[i].name, quote, file->entries[i].value, quote);
    }
    MUST(!out->failed);
}

static void read_again(const struct conf_file *file)
{
    struct hp_buf text = HP_BUF_INIT;
    struct conf_file again;
    struct conf_error error;
    write_entries(&text, file);
    /* It may have grown by quotes beyond a limit. */
    if (conf_parse(text.len ? (const char *)text.data : "", text.len, &again, &error)) {
        MUST(again.n == file->n);
        for (size_t i = 0; i < again.n; i++) {
            MUST(strcmp(again.entries[i].name, file->entries[i].name) == 0);
            MUST(strcmp(again.entries[i].value, file->entries[i].value) == 0);
        }
        conf_release(&again);
    } else {
        MUST(strstr(error.text, "bytes"));
    }
    hp_buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct conf_file file;
    struct conf_error error;
    size_t lines = count_lines(data, size);
    memset(&error, 0, sizeof(error));
    if (!conf_parse((const char *)data, size, &file, &error)) {
        MUST(!file.entries && !file.text && file.n == 0);
        MUST(error.line <= lines);
        MUST(can_be_shown(error.text));
        conf_release(&file);
        return 0;
    }
    check_entries(&file, lines);
    read_again(&file);
    conf_release(&file);
    conf_release(&file);
    return 0;
}
