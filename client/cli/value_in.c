/*
 * value_in.c - a value from the command line, standard input or a file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/items.h"

/* Reads all of it, up to one byte more than a value may have. False: errno tells why. */
static bool read_all(FILE *file, ProtobufCBinaryData *value)
{
    value->data = malloc(HF_VALUE_MAX + 1);
    if (!value->data)
        return false;
    errno = 0;
    value->len = fread(value->data, 1, HF_VALUE_MAX + 1, file);
    return !ferror(file);
}

int cli_value(struct cli *cli, size_t index, const char *needed_by, ProtobufCBinaryData *value)
{
    const char *word = cli->args.n_words > index + 1 ? cli_word(cli, index) : NULL, *path = cli_text(cli, CLI_FILE);
    struct hp_status status;
    char size[48];
    bool taken;

    value->data = NULL;
    value->len = 0;
    if (!word && !path && !needed_by)
        return CLI_OK;
    if (!word == !path)
        return cli_usage_error(cli, "%s needs one of VALUE, - (standard input) and --file F",
                               needed_by ? needed_by : cli_word(cli, 0));
    if (path) {
        FILE *file = fopen(path, "rbe");
        taken = file && read_all(file, value);
        int error = errno;
        if (file)
            fclose(file);
        errno = error;
    } else if (!strcmp(word, "-")) {
        taken = read_all(stdin, value);
    } else {
        value->len = strlen(word);
        value->data = (uint8_t *)strdup(word);
        taken = value->data;
    }
    if (!taken)
        return cli_usage_error(cli, "cannot read %s: %s", path ? path : "standard input", strerror(errno));
    if (value->len <= HF_VALUE_MAX)
        return CLI_OK;
    int len = snprintf(size, sizeof(size), "%zu bytes%s", value->len, word && strcmp(word, "-") != 0 ? "" : " or more");
    hp_status_bad_field(&status, HP_R_LIMIT, "value", size, (size_t)len, "at most 1048576 bytes");
    return cli_error(cli, &status);
}
