/*
 * key_fuzz.c - the value of an authorization header: any bytes up to a NUL.
 *
 * What is taken for a key is one by an independent reading of the format, keeps its id, and its hash is that of its secret and of
 * nothing else; what is refused is none by that reading.
 */
#include "fuzz.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "service/key.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return 0;
}

static bool plain(char c)
{
    return strchr("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c) && c;
}

/* "Bearer", one blank or more, hfk_, 11, _, 33, and nothing more. The place of the id, or NULL. */
static const char *read_slowly(const char *text)
{
    static const char scheme[] = "bearer ";
    size_t at = 0;
    for (size_t i = 0; i < sizeof(scheme) - 1; i++, at++)
        if (tolower((unsigned char)text[at]) != scheme[i])
            return NULL;
    while (text[at] == ' ')
        at++;
    const char *key = text + at;
    for (size_t i = 0; i < 49; i++) {
        bool fits = i < 4 ? key[i] == "hfk_"[i] : i == 15 ? key[i] == '_' : plain(key[i]);
        if (!fits)
            return NULL;
    }
    return key[49] ? NULL : key + 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1); /* of its own, so that what is read beyond its end is seen */
    struct svc_key key, again;
    unsigned char hash[HP_SHA256_SIZE];
    MUST(text);
    memcpy(text, data, size);
    text[size] = '\0';
    const char *id = read_slowly(text);
    bool taken = svc_key_parse(text, &key);
    MUST(taken == (id != NULL));
    if (taken) {
        MUST(strlen(key.id) == 11 && memcmp(key.id, id, 11) == 0 && svc_key_id_valid(key.id));
        hp_sha256(id + 12, 33, hash);
        MUST(svc_key_same(hash, key.hash) && memcmp(hash, key.hash, sizeof(hash)) == 0);
        text[strlen(text) - 1] = text[strlen(text) - 1] == 'a' ? 'b' : 'a';
        MUST(svc_key_parse(text, &again) && !svc_key_same(again.hash, key.hash));
    }
    bool whole = strlen(text) == 11;
    for (size_t i = 0; whole && i < 11; i++)
        whole = plain(text[i]);
    MUST(svc_key_id_valid(text) == whole);
    free(text);
    return 0;
}
