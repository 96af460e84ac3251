/*
 * follow.h - following the audit trail: what leases go through, as it happens, on all servers of the database.
 *
 * However many want to know, there is one follower, on a connection of its own that is opened for it: it looks every 100 ms, with
 * one query, and not at all while nobody follows. Nothing is missed, whatever the order in which transactions commit, and nothing
 * is told twice, also when the connection breaks and the database is restarted (core/gaps.h). What it cannot vouch for is `lost`.
 * All on the loop's thread.
 */
#ifndef HOLDFAST_STORE_FOLLOW_H
#define HOLDFAST_STORE_FOLLOW_H

#include "base/list.h"
#include "store/store.h"

enum { ST_FOLLOW_MS = 100 };

/* The numbers of trail_kind() in schema/functions/45_follow.sql. */
enum st_lease_event_kind {
    ST_EVENT_GRANT = 1,
    ST_EVENT_TAKEOVER = 2, /* a grant after a lease that ran out: `prior`'s */
    ST_EVENT_RELEASE = 3,
    ST_EVENT_EXPIRE = 4, /* somebody noticed that it ran out */
    ST_EVENT_BREAK = 5
};

/* A row of the trail; the columns as in struct st_audit_row. Strings are valid during the call that tells it. */
struct st_lease_event {
    int64_t id, at_unix_ms, token, prior;
    enum st_lease_event_kind kind;
    const char *ns, *resource, *actor, *detail;
};

struct st_follow {
    /* From now on whatever is committed is told (but what was written more than 100,000 ids ago, in a transaction that is open
     * since). Once for each beginning. */
    void (*begun)(struct st_follow *follow);
    /* These were committed since the last look, in the order of their ids; those of one resource never come in another order, but
     * one that took long to commit may come after younger ones of other resources. `n` may be 0. */
    void (*told)(struct st_follow *follow, const struct st_lease_event *events, size_t n);
    /* Something may be missing from here on: the database was failed over or restored, or its trail has more open ends than can be
     * kept in mind. It begins anew by itself, and then `begun` is called again. */
    void (*lost)(struct st_follow *follow, const char *why);
};

/* From now on it is followed, by this one (at most one a store). */
void st_follow(struct st_store *store, struct st_follow *follow);
/* It isn't any more, and no trail is read: all of st_trail_read are cancelled before. Also from within a callback. */
void st_unfollow(struct st_store *store);

/* Where the follower is; of use once it has begun. */
struct st_follow_mark {
    uint64_t epoch;  /* which database, and on which branch of its history */
    int64_t high;    /* all ids up to this were told, or will never be, but for those that are still open */
    int64_t settled; /* the same, and none of them is open */
};
void st_follow_mark(const struct st_store *store, struct st_follow_mark *out);
/* The ids up to `high` that are still open, as an int8multirange's text; to be freed. NULL: no memory. */
char *st_follow_open(const struct st_store *store) __attribute__((warn_unused_result));

struct st_follow_stats {
    bool following;
    int64_t looks, rows; /* since the store was opened */
    int64_t open;        /* stretches of ids that may still come */
    int64_t lag_ms;      /* since the last look that saw all there was; 0 = nobody follows */
};
void st_follow_stats(const struct st_store *store, struct st_follow_stats *out);

enum { ST_TRAIL_STRETCH = 20000, ST_TRAIL_ROWS = 500 };

/*
 * One page of what was: events of the namespace whose resource begins with `prefix`, with ids behind `after` up to `until`, which
 * has to be at most ST_TRAIL_STRETCH further, but for those in `except` (st_follow_open). The caller keeps it and its strings alive
 * until `done` was called, or it was cancelled. It waits as long as the database is away.
 */
struct st_trail {
    const char *ns, *prefix, *except;
    int64_t after, until;
    /* The first ST_TRAIL_ROWS of them. */
    void (*done)(struct st_trail *trail, const struct st_lease_event *events, size_t n);
    void *owner;

    int64_t covered;         /* up to this id that is all there is */
    enum st_outcome outcome; /* ST_FOUND, ST_NO_SUCH_NAMESPACE, ST_FAILED */
    struct list_node node;
};
/* It is read; `done` is called later. Requires st_follow. */
void st_trail_read(struct st_store *store, struct st_trail *trail);
/* `done` will not be called. Nothing if it was, or if it was never read. */
void st_trail_cancel(struct st_store *store, struct st_trail *trail);

#endif
