/*
 * args.h - the command line, taken apart: flags by one table, words, and what stands behind `--`.
 *
 * Flags may stand before or after the command word; `--flag value` and `--flag=value` mean the same; the last of one flag
 * counts. `--` ends the flags: what follows is taken as words, or, for a command that runs another, as its command line.
 * Everything borrows from argv. No I/O.
 */
#ifndef HOLDFAST_CLI_ARGS_H
#define HOLDFAST_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/c/err.h"

/* name, kind, what stands for its value, what it does */
#define CLI_FLAGS(X)                                                                                                               \
    X(SERVER, "server", TEXT, "URL,…", "tcp://, ipc://, grpc:// or grpcs:// (HOLDFAST_SERVER; tcp://127.0.0.1:7420)")              \
    X(NAMESPACE, "namespace", TEXT, "N", "the namespace (HOLDFAST_NAMESPACE; default)")                                            \
    X(KEY, "key", TEXT, "K", "the API key (HOLDFAST_KEY, which others on the machine can't see)")                                  \
    X(TLS_CA, "tls-ca", TEXT, "F", "who may certify servers of grpcs:// (HOLDFAST_TLS_CA; whom the system trusts)")                \
    X(TLS_CERT, "tls-cert", TEXT, "F", "our own certificate for them (HOLDFAST_TLS_CERT)")                                         \
    X(TLS_KEY, "tls-key", TEXT, "F", "and its private key (HOLDFAST_TLS_KEY)")                                                     \
    X(TIMEOUT, "timeout", DURATION, "D", "how long a call may take with its retries (30s)")                                        \
    X(JSON, "json", SWITCH, NULL, "print the response as proto3 JSON, errors as google.rpc.Status JSON")                           \
    X(HELP, "help", SWITCH, NULL, "print help")                                                                                    \
    X(VERSION, "version", SWITCH, NULL, "print the version")                                                                       \
    X(TASK, "task", TEXT, "T", "what the lease is for (the resource's name)")                                                      \
    X(HOLDER, "holder", TEXT, "H", "whose lease it is (acquire: host:pid:random)")                                                 \
    X(TTL, "ttl", DURATION, "D", "how long the lease lasts unless renewed (30s)")                                                  \
    X(WAIT, "wait", DURATION, "D", "how long to wait for a resource that is held (0s: try once)")                                  \
    X(REQUEST_ID, "request-id", TEXT, "ID", "names this acquire, so that it can be repeated")                                      \
    X(EXPECTED_VERSION, "expected-version", NUMBER, "N", "the version the value must have now; 0: it must not exist")              \
    X(WRITE_SEQ, "write-seq", NUMBER, "N", "numbers the writes of one token, rising from 1, so that a write can be repeated")      \
    X(FILE, "file", TEXT, "F", "take the value from this file")                                                                    \
    X(PREFIX, "prefix", TEXT, "P", "only resources whose name begins so")                                                          \
    X(TOKEN, "token", NUMBER, "N", "the token of the lease that was seen")                                                         \
    X(REASON, "reason", TEXT, "TEXT", "why, for the audit")                                                                        \
    X(RESOURCE, "resource", TEXT, "R", "only what concerns this resource")                                                         \
    X(LIMIT, "limit", NUMBER, "N", "at most so many, the newest")                                                                  \
    X(LOOP, "loop", SWITCH, NULL, "go on renewing until the lease is lost or a signal comes")                                      \
    X(LOCK_DELAY, "lock-delay", DURATION, "D", "after an expiry nobody is granted for so long (0s)")                               \
    X(MIN_TTL, "min-ttl", DURATION, "D", "the shortest TTL (100ms)")                                                               \
    X(MAX_TTL, "max-ttl", DURATION, "D", "the longest TTL (24h)")                                                                  \
    X(AUDIT_WRITES, "audit-writes", ON_OFF, "on|off", "an audit entry for each write and delete (off)")                            \
    X(MAX_LEASES, "max-leases", NUMBER, "N", "live leases at one time; 0: no limit (0)")                                           \
    X(MAX_WAITERS, "max-waiters", NUMBER, "N", "waiters on one server at one time; 0: no limit (0)")                               \
    X(MAX_VALUE_BYTES, "max-value-bytes", NUMBER, "N", "bytes of all values together; 0: no limit (0)")                            \
    X(AUDIT_KEEP_DAYS, "audit-keep-days", NUMBER, "N", "how long audit entries are kept at least (400)")                           \
    X(CONCURRENCY, "concurrency", NUMBER, "N", "calls in flight, of all processes together")                                       \
    X(DURATION, "duration", DURATION, "D", "how long is measured, after a short warm-up (10s)")                                    \
    X(OPERATIONS, "operations", TEXT, "N|P",                                                                                       \
      "bench: measure so many, however long they take; key: operations whose key begins so")                                       \
    X(KEYS, "keys", NUMBER, "N", "how many resources")                                                                             \
    X(VALUE_SIZE, "value-size", NUMBER, "N", "bytes of a value that is written (64)")                                              \
    X(PROCESSES, "processes", NUMBER, "N", "client processes, which share the rest (1)")                                           \
    X(ITEMS, "items", NUMBER, "N", "leases a call of renew-many (500)")                                                            \
    X(TYPE, "type", TEXT, "T", "the type of the operation, by which policies go")                                                  \
    X(FINGERPRINT, "fingerprint", TEXT, "HEX64", "SHA-256 of the operation's parameters, in 64 hexadecimal digits")                \
    X(CANONICAL, "canonical", TEXT, "JSON", "the operation's parameters: the fingerprint is made of them (RFC 8785)")              \
    X(TRIGGER, "trigger", TEXT, "T", "why it runs: scheduled, retry, manual (manual)")                                             \
    X(RESULT_REF, "result-ref", TEXT, "REF", "where the result stands, instead of the result")                                     \
    X(CLASS, "class", TEXT, "C", "transient, conflict, business, unknown, config, fenced")                                         \
    X(MESSAGE, "message", TEXT, "TEXT", "what went wrong, for people")                                                             \
    X(SQLSTATE, "sqlstate", TEXT, "S", "PostgreSQL's code of the error")                                                           \
    X(RETRY_AFTER, "retry-after", DURATION, "D", "not again before that (as the policy says)")                                     \
    X(ACTION, "action", TEXT, "A", "the registered action to execute")                                                             \
    X(ARGS, "args", TEXT, "JSON", "its arguments ({})")                                                                            \
    X(STATE, "state", TEXT, "S", "pending, running, succeeded, failed, unknown, review, cancelled")                                \
    X(OLDER_THAN, "older-than", DURATION, "D", "in that state for at least so long")                                               \
    X(REVISION, "revision", NUMBER, "N", "the revision that was seen: nothing is changed if it is another one by now")             \
    X(OUTCOME, "outcome", TEXT, "O", "what happened: succeeded, failed, not-done (it may run again), cancelled")                   \
    X(MAX_ATTEMPTS, "max-attempts", NUMBER, "N", "attempts before it goes to review (10)")                                         \
    X(MAX_ELAPSED, "max-elapsed", DURATION, "D", "from the first attempt to the last one's start (24h)")                           \
    X(BASE_DELAY, "base-delay", DURATION, "D", "a retry waits a random time up to this, doubled with each attempt (1s)")           \
    X(MAX_DELAY, "max-delay", DURATION, "D", "but never up to more than this (5m)")                                                \
    X(ON_LOST, "on-lost", TEXT, "W", "what becomes of an operation whose attempt was lost: unknown, retry (unknown)")              \
    X(RETENTION, "retention", DURATION, "D", "how long ended operations are kept at least (720h)")                                 \
    X(OPERATION, "operation", TEXT, "KEY", "only what concerns this operation")                                                    \
    X(MAX_TIME, "max-time", DURATION, "D", "an action is ended after that (5s)")                                                   \
    X(ROLE, "role", TEXT, "R", "reader, worker, operator, admin")                                                                  \
    X(RESOURCES, "resources", TEXT, "P", "resources whose name begins so (all)")                                                   \
    X(ALL_NAMESPACES, "all-namespaces", SWITCH, NULL, "in every namespace, and not only in that of --namespace")                   \
    X(EXPIRES, "expires", DURATION, "D", "how long the key is good for; 0s: for ever (0s)")                                        \
    X(RATE, "rate", NUMBER, "N", "calls a second and server, on average; 0: no limit (0)")                                         \
    X(BURST, "burst", NUMBER, "N", "calls at once (as many as --rate)")                                                            \
    X(CERTIFICATE, "certificate", TEXT, "N", "no key is made: the client certificate of this name may call")                       \
    X(REVOKED, "revoked", SWITCH, NULL, "also those that were revoked")

enum cli_flag {
#define X(id, name, kind, value, help) CLI_##id,
    CLI_FLAGS(X)
#undef X
        CLI_FLAG_COUNT
};

/* A set of flags. */
typedef unsigned __int128 cli_flags;
#define CLI_BIT(flag) ((cli_flags)1 << (flag))
#define CLI_ANY       (~(cli_flags)0)
_Static_assert(CLI_FLAG_COUNT <= 128, "a set of flags is one number");
/* The flags that every command takes. */
#define CLI_GLOBAL                                                                                                                 \
    (CLI_BIT(CLI_SERVER) | CLI_BIT(CLI_NAMESPACE) | CLI_BIT(CLI_KEY) | CLI_BIT(CLI_TLS_CA) | CLI_BIT(CLI_TLS_CERT) |               \
     CLI_BIT(CLI_TLS_KEY) | CLI_BIT(CLI_TIMEOUT) | CLI_BIT(CLI_JSON) | CLI_BIT(CLI_HELP) | CLI_BIT(CLI_VERSION))

struct cli_args {
    cli_flags given;                  /* the flags that were given */
    const char *text[CLI_FLAG_COUNT]; /* their values as typed */
    int64_t number[CLI_FLAG_COUNT];   /* of DURATION (milliseconds), NUMBER, and ON_OFF (1 or 0) */
    size_t n_words;                   /* words, the command word first */
    char **words;                     /* NULL-terminated */
    size_t n_behind;                  /* of `words`, how many stood behind `--` */
    bool dashes;                      /* `--` was there */
};

/* Takes argv[1..] apart into `args`; argv is reordered in place. False: `status` is INVALID_ARGUMENT and names the flag; then
 * `args` still tells whether --json was given. */
bool cli_args_parse(struct cli_args *args, int argc, char **argv, struct hp_status *status) __attribute__((warn_unused_result));

/* True if only flags of `allowed` were given. Otherwise `status` names the first other one. */
bool cli_args_allow(const struct cli_args *args, cli_flags allowed, const char *command, struct hp_status *status)
    __attribute__((warn_unused_result));

/* "--ttl D" with what it does, for help. */
const char *cli_flag_name(enum cli_flag flag);
const char *cli_flag_value(enum cli_flag flag); /* NULL: a switch */
const char *cli_flag_help(enum cli_flag flag);

#endif
