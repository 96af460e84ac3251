/*
 * outcome.h - what can become of an item: part of store.h. The numbers up to 99 and from 200 on are those of schema/functions.
 */
#ifndef HOLDFAST_STORE_OUTCOME_H
#define HOLDFAST_STORE_OUTCOME_H

/* What became of an item. 1..99 and those from 200 on come from SQL; 100..199 are the store's own. */
enum st_outcome {
    ST_GRANTED = 1,
    ST_REPEATED = 2, /* the same grant again */
    ST_HELD = 3,
    ST_ENDED = 4, /* a repeat of an acquire whose lease has ended */
    ST_BUSY = 5,  /* the row is locked by another transaction */
    ST_RENEWED = 10,
    ST_EXPIRED = 11,
    ST_TAKEN_OVER = 12,
    ST_RELEASED = 13,
    ST_BROKEN = 14,
    ST_UNKNOWN_TOKEN = 15,
    ST_FREED = 20, /* release: was held until now, or until an earlier copy of this release */
    ST_NOT_FREED = 21,
    ST_WRITTEN = 30,
    ST_REPLAYED = 31,
    ST_STALE = 32,
    ST_NOT_HELD = 33,
    ST_VERSION_MISMATCH = 34,
    ST_SUPERSEDED = 35,
    ST_CURRENT = 40,
    ST_FOUND = 50,
    ST_NO_SUCH_RESOURCE = 51,
    ST_VALUE_LATER = 52, /* its value is too large to come with the others; the store asks again, and callers never see it */
    ST_BREAK_DONE = 60,
    ST_BREAK_CHANGED = 61,
    ST_BREAK_BLOCKED = 62,
    ST_QUOTA = 70,         /* the namespace has as many leases, or bytes of values, as its policy allows */
    ST_TTL_BOUNDS = 71,    /* the TTL is outside of the namespace's bounds */
    ST_CONFLICT = 72,      /* the namespace exists with other policies, or was retired */
    ST_CONTRADICTION = 73, /* the policies contradict each other; nothing was changed */
    ST_NO_SUCH_NAMESPACE = 90,

    ST_OUTCOME_LOST = 100,  /* sent, but not answered in time, or the connection broke: it may or may not have taken effect */
    ST_DATABASE_DOWN = 101, /* not sent; no effect */
    ST_QUEUE_FULL = 102,    /* no effect: too many items wait, or there is no memory for this one */
    ST_TIMED_OUT = 103,     /* its deadline passed before it was sent; no effect */
    ST_FAILED = 104,        /* PostgreSQL refused it; no effect; `sqlstate` and the log tell why */

    /* Of operations. */
    ST_OP_STARTED = 200,
    ST_OP_STARTED_AGAIN = 201, /* a repeat: the same attempt and token */
    ST_OP_REPLAYED = 202,      /* it SUCCEEDED */
    ST_OP_REPLAYED_FAILED = 203,
    ST_OP_REPLAYED_CANCELLED = 204,
    ST_OP_IN_PROGRESS = 205,
    ST_OP_UNKNOWN = 206,
    ST_OP_REVIEW = 207,
    ST_OP_CONFLICT = 208,   /* the key has another type or fingerprint; nothing else is told */
    ST_OP_DONE = 210,       /* kept, marked, ended, decided */
    ST_OP_DONE_AGAIN = 211, /* a repeat of that */
    ST_OP_STALE = 212,      /* there is a newer attempt; what was sent is kept as evidence */
    ST_OP_NOT_HELD = 213,   /* the attempt's lease had ended; likewise */
    ST_OP_ILLEGAL = 214,    /* the state doesn't allow it */
    ST_OP_REVISION = 215,   /* it has another revision */
    ST_OP_NONE = 216,
    ST_OP_NO_ACTION = 217,
    ST_OP_RAISED = 218,         /* the action: sqlstate and message are told */
    ST_OP_STALE_RESOURCE = 219, /* this and the next two: of the resource of an execution */
    ST_OP_RESOURCE_NOT_HELD = 220,
    ST_OP_VERSION = 221,
    ST_OP_RETENTION = 222,   /* the policy keeps records for a shorter time than retries may go on */
    ST_OP_BAD_ACTION = 223,  /* not registered, or mapped (an SQL role); the message says why */
    ST_OP_AGAIN_LATER = 224, /* within the store only: not begun, since an earlier one of its batch took its time */

    /* Of principals; and ST_OP_REVISION. */
    ST_AUTH_NONE = 225,  /* there is none of that id, or it was revoked */
    ST_AUTH_TAKEN = 226, /* another one has the name, or the certificate */
    ST_AUTH_FULL = 227   /* there are as many as there may be */
};

#endif
