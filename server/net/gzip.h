/*
 * gzip.h - gzip (RFC 1952) of whole messages, bounded.
 *
 * One `struct net_gzip` serves all messages of a thread, one after the other; its two states are made when they are first needed
 * (about 45 and 270 KB).
 */
#ifndef HOLDFAST_NET_GZIP_H
#define HOLDFAST_NET_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/c/buf.h"

struct net_gzip;

/* NULL: no memory. */
struct net_gzip *net_gzip_new(void) __attribute__((warn_unused_result));
void net_gzip_free(struct net_gzip *gzip);

/* For a thread that isn't in a hurry: between any 64 KiB that come out it calls this. */
void net_gzip_pause(struct net_gzip *gzip, void (*pause)(void));

enum net_gunzip { NET_GUNZIP_OK, NET_GUNZIP_TOO_LARGE, NET_GUNZIP_MALFORMED, NET_GUNZIP_NO_MEMORY };
/* Appends what was compressed, at most `max` bytes of it: whatever `data` claims, memory grows only as bytes come out. One member,
 * and nothing behind it. Otherwise `out` is as long as it was. */
enum net_gunzip net_gzip_open(struct net_gzip *gzip, const void *data, size_t len, size_t max, struct hp_buf *out)
    __attribute__((warn_unused_result));

/* How many bytes that would append, without any memory for them: for what claims much. */
enum net_gunzip net_gzip_measure(struct net_gzip *gzip, const void *data, size_t len, size_t max, size_t *size)
    __attribute__((warn_unused_result));

/* Appends `data` compressed. False: it would not be smaller than it is, or there is no memory; `out` is as it was. */
bool net_gzip_close(struct net_gzip *gzip, const void *data, size_t len, struct hp_buf *out) __attribute__((warn_unused_result));

#endif
