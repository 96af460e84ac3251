/*
 * redis.c - Redis with its append-only file, appendfsync always: each answer comes after an fsync. A connection a worker, one
 * command in flight on each; scripts by EVALSHA.
 *   cycle  a script that sets the lock if there is none and counts its fence up, one that deletes it if it is ours
 *   renew  a script: PEXPIRE if it is ours
 *   write  a script: the value is set if the lock is ours
 *   once   SET NX
 *
 *     Packages: redis-server libhiredis-dev
 *     Links: -lhiredis
 */
#include <hiredis/hiredis.h>

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

#define TTL_MS "60000"

struct worker {
    struct peer_worker base;
    redisContext *context;
    char key[48], owner[32];
};

enum { ACQUIRE, RELEASE, RENEW, WRITE, SCRIPTS };

static const char *const scripts[SCRIPTS] = {
    "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return redis.call('incr',KEYS[2]) else return 0 end",
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end",
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end",
    "if redis.call('get',KEYS[1])==ARGV[1] then redis.call('set',KEYS[2],ARGV[2]) return 1 else return 0 end",
};
static char sha[SCRIPTS][48];
static redisContext *admin;

/* Asks and waits: an integer's value; 0 for nil, 1 for what else is no error. */
static long long ask(const char *format, ...)
{
    va_list args;
    redisReply *reply;
    long long value;

    va_start(args, format);
    reply = redisvCommand(admin, format, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        peer_die("redis: %s", reply ? reply->str : admin->errstr);
    value = reply->type == REDIS_REPLY_NIL ? 0 : reply->type == REDIS_REPLY_INTEGER ? reply->integer : 1;
    freeReplyObject(reply);
    return value;
}

static redisContext *connect_to(const struct peer_bench *bench)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/s", bench->dir);
    return redisConnectUnix(path);
}

static bool answers(struct peer_bench *bench)
{
    redisReply *reply;
    bool good;

    admin = connect_to(bench);
    reply = admin && !admin->err ? redisCommand(admin, "PING") : NULL;
    good = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    if (!good)
        redisFree(admin);
    return good;
}

static void start(struct peer_bench *bench)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/s", bench->dir);
    peer_spawn(bench, (const char *const[]){"redis-server", "--port", "0", "--unixsocket", path, "--dir", bench->dir, "--save", "",
                                            "--appendonly", "yes", "--appendfsync", "always", "--maxclients", "2000", NULL});
    peer_wait(bench, answers);
}

/* ---- operations ---- */

static void answered(void *arg);

static void send_request(struct worker *w)
{
    int sent = 0;

    switch (w->base.bench->work) {
    case PEER_CYCLE:
        if (w->base.step)
            redisAppendCommand(w->context, "EVALSHA %s 1 %s %s", sha[RELEASE], w->key, w->owner);
        else
            redisAppendCommand(w->context, "EVALSHA %s 2 %s fence:%s %s " TTL_MS, sha[ACQUIRE], w->key, w->key, w->owner);
        break;
    case PEER_RENEW:
        redisAppendCommand(w->context, "EVALSHA %s 1 %s %s " TTL_MS, sha[RENEW], w->key, w->owner);
        break;
    case PEER_WRITE:
        redisAppendCommand(w->context, "EVALSHA %s 2 %s data:%s %s %s", sha[WRITE], w->key, w->key, w->owner, peer_value);
        break;
    case PEER_ONCE:
        redisAppendCommand(w->context, "SET once:%u:%llu %s NX", w->base.id, (unsigned long long)w->base.n, peer_value);
        break;
    }
    while (!sent)
        if (redisBufferWrite(w->context, &sent) != REDIS_OK)
            peer_die("write: %s", w->context->errstr);
}

static void begin(struct peer_worker *worker)
{
    struct worker *w = (struct worker *)worker;

    snprintf(w->key, sizeof(w->key), "lock:%u:%u", worker->id, (unsigned)(worker->n % PEER_KEYS));
    send_request(w);
}

static void answered(void *arg)
{
    struct worker *w = arg;
    redisReply *reply = NULL;
    bool good;

    if (redisBufferRead(w->context) != REDIS_OK || redisGetReplyFromReader(w->context, (void **)&reply) != REDIS_OK)
        peer_die("read: %s", w->context->errstr);
    if (!reply)
        return;
    good = reply->type == REDIS_REPLY_STATUS ? !strcmp(reply->str, "OK") : reply->type == REDIS_REPLY_INTEGER && reply->integer > 0;
    freeReplyObject(reply);
    if (good && w->base.bench->work == PEER_CYCLE && w->base.step++ == 0)
        send_request(w);
    else
        peer_done(&w->base, good);
}

static void prepare(struct peer_bench *bench)
{
    for (int i = 0; i < SCRIPTS; i++) {
        redisReply *reply = redisCommand(admin, "SCRIPT LOAD %s", scripts[i]);
        if (!reply || reply->type != REDIS_REPLY_STRING)
            peer_die("redis: a script was refused");
        snprintf(sha[i], sizeof(sha[i]), "%s", reply->str);
        freeReplyObject(reply);
    }
    for (unsigned i = 0; i < bench->in_flight; i++) {
        struct worker *w = peer_worker(bench, i);
        snprintf(w->owner, sizeof(w->owner), "owner-%u", i);
        w->context = connect_to(bench);
        if (!w->context || w->context->err)
            peer_die("connect: %s", w->context ? w->context->errstr : "no memory");
        for (unsigned key = 0; key < PEER_KEYS && (bench->work == PEER_RENEW || bench->work == PEER_WRITE); key++)
            ask("SET lock:%u:%u %s NX PX " TTL_MS, i, key, w->owner);
        fcntl(w->context->fd, F_SETFL, fcntl(w->context->fd, F_GETFL) | O_NONBLOCK);
        w->context->flags &= ~REDIS_BLOCK;
        peer_watch(w->context->fd, answered, w);
    }
    ask("CONFIG RESETSTAT");
}

/* ---- the server's own counters, and what is left ---- */

static long long calls(const char *command)
{
    redisReply *reply = redisCommand(admin, "INFO commandstats");
    char tag[64], *at;
    long long n = 0;

    snprintf(tag, sizeof(tag), "cmdstat_%s:calls=", command);
    at = reply && reply->str ? strstr(reply->str, tag) : NULL;
    if (at)
        n = atoll(at + strlen(tag));
    freeReplyObject(reply);
    return n;
}

static const char *check(struct peer_bench *bench)
{
    const long long done = (long long)bench->done;

    switch (bench->work) {
    case PEER_CYCLE:
        if (calls("incr") != done || calls("del") != done)
            return "INCR or DEL were not called as often";
        return ask("EXISTS lock:0:0") ? "a lock is left" : NULL;
    case PEER_RENEW:
        return calls("pexpire") == done ? NULL : "PEXPIRE was not called as often";
    case PEER_WRITE:
        if (calls("set") != done)
            return "SET was not called as often";
        return ask("EVALSHA %s 2 lock:0:1 data:x stale v", sha[WRITE]) ? "a stale owner was accepted" : NULL;
    case PEER_ONCE:
        if (ask("DBSIZE") != done)
            return "there are not as many records";
        return ask("SET once:0:1 x NX") ? "a second record was accepted" : NULL;
    }
    return "unknown work";
}

static const struct peer redis = {"redis", sizeof(struct worker), start, prepare, begin, check};
PEER_MAIN(redis)
