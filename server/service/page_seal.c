/*
 * page_seal.c - see page_seal.h.
 *
 * A sealed token is '~' and in hexadecimal a mark of 16 bytes, HMAC-SHA-256 of the kind and the padded name, and the padded name
 * XORed with HMACs of the mark and a count (as SIV does, RFC 5297: no chance is needed, and equal names have equal tokens).
 */
#include "service/page_seal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/c/sha256.h"
#include "proto/c/wire.h"
#include "service/auth.h"
#include "service/scope.h"

enum { NAME = 256, MARK = 16, BLOCK = 64, HEAD = 2, SEALED = 1 + 2 * (MARK + NAME) };

static const char sealed_by[] = "holdfast page tokens:";

/* RFC 2104, with the key that is made of the epoch; the message has a use (so that no mark is a block of the stream) and a kind. */
static void mac(const struct svc_auth *auth, char use, int kind, const unsigned char *data, size_t len,
                unsigned char out[HP_SHA256_SIZE])
{
    unsigned char key[sizeof(sealed_by) + sizeof(auth->epoch)] = {0}, inner[BLOCK + HEAD + NAME], outer[BLOCK + HP_SHA256_SIZE];
    unsigned char block[BLOCK] = {0};
    memcpy(key, sealed_by, sizeof(sealed_by));
    memcpy(key + sizeof(sealed_by), auth->epoch, strlen(auth->epoch));
    hp_sha256(key, sizeof(key), block);
    for (size_t i = 0; i < BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    inner[BLOCK] = (unsigned char)use;
    inner[BLOCK + 1] = (unsigned char)kind;
    memcpy(inner + BLOCK + HEAD, data, len);
    hp_sha256(inner, BLOCK + HEAD + len, outer + BLOCK);
    hp_sha256(outer, sizeof(outer), out);
}

/* Hides the name, or shows it again. */
static void turn(const struct svc_auth *auth, const unsigned char mark[MARK], unsigned char name[NAME])
{
    unsigned char stream[HP_SHA256_SIZE];
    for (int at = 0; at < NAME; at += HP_SHA256_SIZE) {
        mac(auth, 's', at / HP_SHA256_SIZE, mark, MARK, stream);
        for (int i = 0; i < HP_SHA256_SIZE; i++)
            name[at + i] ^= stream[i];
    }
}

static char *to_hex(char *out, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    return out;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool from_hex(const char *text, unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* NULL: it isn't one of ours. */
static const unsigned char *unseal(const struct svc_auth *auth, enum svc_page_kind kind, const char *token,
                                   unsigned char name[NAME + 1])
{
    unsigned char mark[MARK], right[HP_SHA256_SIZE];
    if (strlen(token) != SEALED || token[0] != '~' || !from_hex(token + 1, mark, MARK) ||
        !from_hex(token + 1 + (size_t)2 * MARK, name, NAME))
        return NULL;
    turn(auth, mark, name);
    mac(auth, 'm', (int)kind, name, NAME, right);
    unsigned differs = 0;
    for (int i = 0; i < MARK; i++)
        differs |= (unsigned)(mark[i] ^ right[i]);
    name[NAME] = '\0';
    return differs ? NULL : name;
}

bool svc_scoped_page_after(struct svc_call *sc, enum svc_page_kind kind, const char *page_token, const char **after,
                           struct hp_status *status)
{
    unsigned char name[NAME + 1];
    const struct svc_auth *auth = sc->svc->auth;
    if (!page_token[0] || (page_token[0] != '~' && svc_sees_everything(sc)))
        return svc_page_after(sc->arena, kind, page_token, after, status);
    const char *found = auth ? (const char *)unseal(auth, kind, page_token, name) : NULL;
    if (!found) {
        hp_status_bad_field(status, HP_R_MALFORMED, "page_token", page_token, strlen(page_token), "a next_page_token of this list");
        return false;
    }
    *after = hp_strndup(sc->arena, found, strlen(found));
    if (!*after)
        hp_status_set(status, HP_R_QUEUE_FULL, "no memory for the call");
    return *after;
}

char *svc_scoped_page_token(struct svc_call *sc, enum svc_page_kind kind, const char *name)
{
    unsigned char padded[NAME] = {0}, mark[HP_SHA256_SIZE];
    char text[SEALED];
    if (svc_sees_everything(sc))
        return svc_page_token(sc->arena, kind, name);
    memcpy(padded, name, strnlen(name, NAME)); /* NOLINT(bugprone-not-null-terminated-result): bytes, not text */
    mac(sc->svc->auth, 'm', (int)kind, padded, NAME, mark);
    turn(sc->svc->auth, mark, padded);
    text[0] = '~';
    to_hex(to_hex(text + 1, mark, MARK), padded, NAME);
    return hp_strndup(sc->arena, text, SEALED);
}

int64_t svc_scoped_page_rows(const struct svc_call *sc, int64_t max)
{
    return svc_sees_everything(sc) ? max : SVC_PAGE_MAX;
}

bool svc_scoped_page_after_number(struct svc_call *sc, enum svc_page_kind kind, const char *page_token, int64_t *after,
                                  struct hp_status *status)
{
    const char *text;
    return svc_scoped_page_after(sc, kind, page_token, &text, status) && svc_page_number(page_token, text, after, status);
}

char *svc_scoped_page_token_number(struct svc_call *sc, enum svc_page_kind kind, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, number);
    return svc_scoped_page_token(sc, kind, text);
}
