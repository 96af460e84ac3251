/*
 * embed.c - a tool of the build: writes the C source that carries the SQL of this folder (schema.h).
 *
 *     hf_embed OUT MIGRATION.sql… -- FUNCTIONS.sql…
 *
 * The files come in the order of their names. A migration's file is NNNN_name.sql, without gaps from 0001, and says
 * "-- compatible_from: N" in its first lines, 1 <= N <= its own number. Anything else stops the build.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *file, const char *what)
{
    fprintf(stderr, "hf_embed: %s: %s\n", file, what);
    exit(1);
}

/* The file's text, NUL-terminated, to be freed by the caller. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        fail(path, strerror(errno));
    long size = ftell(f);
    if (size < 0)
        fail(path, strerror(errno));
    rewind(f);
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, f) != (size_t)size)
        fail(path, "cannot be read");
    fclose(f);
    text[size] = '\0';
    if (strlen(text) != (size_t)size)
        fail(path, "has a NUL byte");
    return text;
}

/* The text as adjacent string literals, one a line. */
static void put_literal(FILE *out, const char *text)
{
    fputs("    \"", out);
    for (const char *p = text; *p; p++) {
        if (*p == '\n')
            fputs(p[1] ? "\\n\"\n    \"" : "\\n", out);
        else if (*p == '"' || *p == '\\' || *p == '?') /* ? for the sake of trigraphs */
            fprintf(out, "\\%c", *p);
        else if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            fprintf(out, "\\%03o", (unsigned char)*p);
        else
            fputc(*p, out);
    }
    fputs("\"", out);
}

static uint64_t fnv1a(uint64_t hash, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        hash = (hash ^ *p) * UINT64_C(0x100000001b3);
    return hash;
}

static void put_migration(FILE *out, const char *path, int expected)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    int version = 0, name_at = 0, from = 0;
    if (sscanf(base, "%4d_%n", &version, &name_at) != 1 || name_at != 5 || version != expected)
        fail(path, "migrations are numbered 0001_name.sql and so on, without gaps");
    size_t name_len = strlen(base + name_at) - strlen(".sql");
    char *text = read_file(path);
    const char *line = strstr(text, "-- compatible_from: ");
    if (!line || (line != text && line[-1] != '\n') || sscanf(line, "-- compatible_from: %d", &from) != 1 || from < 1 ||
        from > version)
        fail(path, "must say \"-- compatible_from: N\", N from 1 to its own number");
    fprintf(out, "    {%d, %d, \"%.*s\",\n", version, from, (int)name_len, base + name_at);
    put_literal(out, text);
    fputs("},\n", out);
    free(text);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage", "hf_embed OUT MIGRATION.sql... -- FUNCTIONS.sql...");
    FILE *out = fopen(argv[1], "wb");
    if (!out)
        fail(argv[1], strerror(errno));
    fputs("/* Made by hf_embed from schema/migrations and schema/functions. */\n#include \"schema/schema.h\"\n\n"
          "const struct hf_migration hf_migrations[] = {\n",
          out);
    int i = 2, n = 0;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        put_migration(out, argv[i], ++n);
    if (n == 0)
        fail("migrations", "there is none");
    fprintf(out, "};\nconst size_t hf_n_migrations = %d;\n\nconst char hf_functions_sql[] =\n    \"\"\n", n);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (i++; i < argc; i++) {
        char *text = read_file(argv[i]);
        hash = fnv1a(hash, text);
        put_literal(out, text);
        fputs("\n", out);
        free(text);
    }
    fprintf(out, "    ;\nconst char hf_functions_hash[] = \"%016llx\";\n", (unsigned long long)hash);
    if (fclose(out) != 0)
        fail(argv[1], strerror(errno));
    return 0;
}
