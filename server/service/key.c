/*
 * key.c - see key.h.
 */
#include "service/key.h"

#include <string.h>
#include <strings.h>

static const char digits[62] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const char head[] = "hfk_", scheme[] = "Bearer ";

enum { FAIR = 256 - 256 % 62 }; /* random bytes below it fall on all digits alike */

static bool is_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool all_digits(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_digit(text[i])) /* also at its end */
            return false;
    return true;
}

static bool draw(svc_random random, void *arg, char *out, size_t n)
{
    unsigned char bytes[64];
    size_t got = 0;
    for (int tries = 0; got < n; tries++) {
        if (tries == 100 || !random(arg, bytes, sizeof(bytes)))
            return false;
        for (size_t i = 0; i < sizeof(bytes) && got < n; i++)
            if (bytes[i] < FAIR)
                out[got++] = digits[bytes[i] % 62];
    }
    explicit_bzero(bytes, sizeof(bytes));
    return true;
}

bool svc_key_make_id(svc_random random, void *arg, char id[SVC_KEY_ID + 1])
{
    id[SVC_KEY_ID] = '\0';
    return draw(random, arg, id, SVC_KEY_ID);
}

bool svc_key_make(svc_random random, void *arg, char text[SVC_KEY_SIZE], struct svc_key *key)
{
    char secret[SVC_KEY_SECRET];
    text[0] = '\0';
    if (!svc_key_make_id(random, arg, key->id) || !draw(random, arg, secret, sizeof(secret)))
        return false;
    hp_sha256(secret, sizeof(secret), key->hash);
    memcpy(text, head, 4);
    memcpy(text + 4, key->id, SVC_KEY_ID);
    text[4 + SVC_KEY_ID] = '_';
    memcpy(text + 4 + SVC_KEY_ID + 1, secret, sizeof(secret));
    text[SVC_KEY_LEN] = '\0';
    explicit_bzero(secret, sizeof(secret));
    return true;
}

bool svc_key_parse(const char *authorization, struct svc_key *key)
{
    size_t skip = sizeof(scheme) - 1;
    if (strncasecmp(authorization, scheme, skip) != 0)
        return false;
    const char *text = authorization + skip;
    while (*text == ' ')
        text++;
    const char *id = text + 4, *secret = id + SVC_KEY_ID + 1;
    if (strlen(text) != SVC_KEY_LEN || memcmp(text, head, 4) != 0 || !all_digits(id, SVC_KEY_ID) || id[SVC_KEY_ID] != '_' ||
        !all_digits(secret, SVC_KEY_SECRET))
        return false;
    memcpy(key->id, id, SVC_KEY_ID);
    key->id[SVC_KEY_ID] = '\0';
    hp_sha256(secret, SVC_KEY_SECRET, key->hash);
    return true;
}

bool svc_key_id_valid(const char *id)
{
    return strlen(id) == SVC_KEY_ID && all_digits(id, SVC_KEY_ID);
}

bool svc_key_same(const unsigned char a[HP_SHA256_SIZE], const unsigned char b[HP_SHA256_SIZE])
{
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < HP_SHA256_SIZE; i++)
        differs = (unsigned char)(differs | (a[i] ^ b[i]));
    return differs == 0;
}
