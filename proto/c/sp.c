/*
 * sp.c - see sp.h.
 */
#include "proto/c/sp.h"

#include <endian.h>
#include <string.h>

enum { IPC_MESSAGE = 1 }; /* the byte before the length: a message for the user, the only kind there is */

void hp_sp_greet(uint8_t greeting[HP_SP_GREETING], int protocol)
{
    memcpy(greeting, "\0SP\0\0\0\0\0", HP_SP_GREETING);
    greeting[5] = (uint8_t)protocol;
}

bool hp_sp_is_greeting(const uint8_t greeting[HP_SP_GREETING], int protocol)
{
    uint8_t wanted[HP_SP_GREETING];
    hp_sp_greet(wanted, protocol);
    return !memcmp(greeting, wanted, HP_SP_GREETING);
}

size_t hp_sp_head_size(bool is_ipc)
{
    return is_ipc ? HP_SP_HEAD_MAX : HP_SP_HEAD_MAX - 1;
}

void hp_sp_write_head(bool is_ipc, uint8_t *head, uint64_t len)
{
    uint64_t length = htobe64(len);
    if (is_ipc)
        *head++ = IPC_MESSAGE;
    memcpy(head, &length, sizeof(length));
}

bool hp_sp_read_head(bool is_ipc, const uint8_t *head, uint64_t *len)
{
    uint64_t length;
    if (is_ipc && *head++ != IPC_MESSAGE)
        return false;
    memcpy(&length, head, sizeof(length));
    *len = be64toh(length);
    return true;
}

size_t hp_sp_words(const uint8_t *body, size_t len)
{
    for (size_t at = 0; at + 4 <= len && at < HP_SP_WORDS_MAX; at += 4)
        if (body[at] & 0x80)
            return at + 4;
    return 0;
}
