/*
 * functions.pml - the SQL functions of schema/functions, one inline each, statement by statement.
 *
 * Each is one transaction of session `id`, up to but without its end: the caller commits or rolls back. It follows the three steps:
 * lock (never waiting, unless said), then read the clock and the rows in new statements, then write. (A row that is locked is found
 * again by its tid rather than by its key; it cannot move meanwhile, so that is the same here.) Whoever is BUSY, or refused,
 * has written nothing and commits that. Each may be used once in a process.
 *
 * The faults that can be planted, with -D:
 *   FAULT_FENCE_CHECK   write_batch takes any token while some lease lives
 *   FAULT_NOW           expiry is judged by the transaction's start
 *   FAULT_ONE_STATEMENT write_batch is one UPDATE … WHERE EXISTS (live lease): it waits for the row behind its snapshot
 *   FAULT_LEASE_TOKEN   a grant's token is that of the lease row plus one
 *   FAULT_BY_NAME       release_batch ends the lease of the holder's name, whatever its token
 *   FAULT_UPSERT        renew_batch is INSERT … ON CONFLICT DO UPDATE
 *   FAULT_ONE_LOCK      acquire_batch locks the fence row only
 *   FAULT_KEY_SHARE     guard() locks the fence row FOR KEY SHARE
 */

#ifndef TELL
#define TELL(outcome) skip /* to a caller who doesn't look at it */
#endif

/* 00_common.sql: lock_rows, FOR NO KEY UPDATE OF both SKIP LOCKED: the fence row, then the lease row. */
inline lock_fence(id)
{
    atomic {
        if
        :: FENCE_UNLOCKED -> fence_x = id
        :: else -> what = BUSY
        fi
    }
}

#define NOTE_LOCKED locked_at = now /* for the proofs only */
#define LIVE_AT_LOCK (g_until[token] > locked_at)

inline lock_lease(id)
{
    atomic {
        if
        :: what == BUSY
        :: what != BUSY && (lease_x == 0 || lease_x == id) -> lease_x = id; NOTE_LOCKED
        :: else -> what = BUSY
        fi
    }
}

/* 00_common.sql: lock_rows with p_make, a lease row that is gone: INSERT … ON CONFLICT DO NOTHING, which waits for an inserter,
 * and after lock_timeout fails. */
inline make_lease_row(id)
{
    atomic {
        if
        :: l_there
        :: !l_there && lease_x == 0 -> lease_x = id; what = MAKE_ROW
        :: !l_there && lease_x != 0 -> what = BUSY
        fi
    }
}

/* 10_acquire.sql: acquire_batch and acquire_verdicts, without waiters; req 0 is a request_id of its own. */
inline acquire_batch(id)
{
    CLOCK_AT_START;
    make_lease_row(id);
    if
    :: what != BUSY -> lock_fence(id)
    :: else
    fi;
#ifndef FAULT_ONE_LOCK
    lock_lease(id);
#endif
    if
    :: what != BUSY ->
        CLOCK_AFTER_LOCK;
        d_step {
            if
            :: req && request == req ->
                if
                :: l_token == grant_token && l_deadline > t ->
                    what = REPEAT;
                    token = l_token;
                    prove_P8(req == g_newest_for && token == g_newest && LIVE_AT_LOCK)
                :: else -> TELL(ENDED)
                fi
            :: (!req || request != req) && l_deadline > t -> TELL(HELD)
            :: else ->
                what = GRANT;
#ifdef FAULT_LEASE_TOKEN
                p_token = l_token + 1;
#else
                p_token = MAX(fence, MAX(floor_, l_token)) + 1;
#endif
                p_deadline = t + TTL
            fi
        }
    :: else
    fi
}

/* 20_renew.sql: renew_locked, the three steps on the lease row. A lease that ran out is lost, even if nobody took it. */
inline renew_locked(id)
{
    CLOCK_AT_START;
    atomic {
        if
#ifdef FAULT_UPSERT
        :: true -> lock_lease(id)
#else
        :: l_there -> lock_lease(id)
#endif
        :: else -> what = BUSY /* there is nothing to lock */
        fi
    }
    if
    :: what != BUSY ->
        CLOCK_AFTER_LOCK;
        d_step {
            if
#ifdef FAULT_UPSERT
            :: true ->
#else
            :: l_there && l_token == token && l_deadline > t ->
                prove_P2(LIVE_AT_LOCK); /* judged by the clock after the lock was had */
#endif
                what = RENEW;
                p_token = token;
                p_deadline = MAX(l_deadline, t + TTL)
            :: else
            fi
        }
    :: else
    fi
}

/* 20_renew.sql: renew_batch, the optimistic UPDATE of what outlives `t` by more than 100 ms, here one tick. The row is chosen by
 * the snapshot, then waited for, then looked at again (PostgreSQL does so if it was changed meanwhile, and otherwise it is as it
 * was); and the whole is only right if its end comes in time. */
inline renew_batch(id)
{
    t = now;
    d_step {
        if
        :: l_there && l_token == token && l_deadline > t + 1 -> p_token = token
        :: else -> what = BUSY /* to renew_locked */
        fi
    }
    if
    :: what != BUSY ->
        atomic {
            if
            :: lease_x == 0 ->
                lease_x = id;
                NOTE_LOCKED;
                if
                :: l_there && l_token == token && l_deadline > t + 1 -> p_deadline = MAX(l_deadline, t + TTL)
                :: else -> what = BUSY
                fi
            :: lease_x != 0 -> what = BUSY /* lock_timeout */
            fi
        }
        if
        :: what != BUSY ->
            d_step {
                if
                :: now > t + 1 -> what = BUSY /* 40001 */
                :: else ->
                    prove_P2(LIVE_AT_LOCK);
                    what = RENEW
                fi
            }
        :: else
        fi
    :: else
    fi
}

/* 20_renew.sql: release_batch and release_verdicts. */
inline release_batch(id, unless_repeated)
{
    CLOCK_AT_START;
    if
    :: l_there -> lock_fence(id)
    :: else -> what = BUSY
    fi;
    lock_lease(id);
    if
    :: what != BUSY ->
        CLOCK_AFTER_LOCK;
        d_step {
            if
#ifdef FAULT_BY_NAME
            :: l_deadline > t -> what = RELEASE
#else
            :: l_token == token && l_deadline > t && !(unless_repeated && repeats) -> what = RELEASE
#endif
            :: l_token == token && l_ended == 3 -> TELL(DONE) /* by an earlier copy of this */
            :: else
            fi
        }
    :: else
    fi
}

/* What a guarded write may rely on: noted for the proofs of P3. */
inline checked(id)
{
    prove_P3(LIVE_AT_LOCK && token == g_newest);
    g_checked = g_checked | BIT(id)
}

/* 30_write.sql: write_batch and write_verdicts, also for Delete. seq 0 = no write_seq. */
inline write_batch(id)
{
    CLOCK_AT_START;
#ifdef FAULT_ONE_STATEMENT
    d_step { /* its snapshot, before it waits */
        if
        :: token == fence && l_token == token && l_deadline > now -> what = WRITE
        :: else -> what = BUSY
        fi
    }
    if
    :: what == WRITE -> d_step { FENCE_UNLOCKED -> fence_x = id; NOTE_LOCKED; checked(id) }
    :: else
    fi
#else
    atomic { lock_fence(id); NOTE_LOCKED }
    if
    :: what != BUSY ->
        CLOCK_AFTER_LOCK;
        d_step {
            if
            :: seq && v_token == token && v_seq >= seq -> TELL((v_seq == seq -> DONE : SUPERSEDED)) /* DONE: replayed */
            :: (!seq || v_token != token || v_seq < seq) &&
#ifdef FAULT_FENCE_CHECK
                l_deadline > t ->
#else
                token == fence && l_token == token && l_deadline > t ->
#endif
                checked(id);
                what = WRITE
            :: else -> TELL(STALE) /* or not held */
            fi
        }
    :: else
    fi
#endif
}

/* 60_guard.sql: guard, FOR SHARE, which waits; what follows it in the user's transaction, and its COMMIT, come later. */
inline guard(id)
{
    CLOCK_AT_START;
#ifdef FAULT_KEY_SHARE
    d_step { FENCE_UNLOCKED -> NOTE_LOCKED }
#else
    d_step { fence_x == 0 -> fence_s = fence_s | BIT(id); NOTE_LOCKED }
#endif
    CLOCK_AFTER_LOCK;
    d_step {
        if
        :: token == fence && l_token == token && l_deadline > t ->
            checked(id);
            what = GUARD
        :: else /* HF001, HF002 */
        fi
    }
}

/* 50_operate.sql: break_lease and lock_or_blocker, which waits 20 ms at most, for either row. */
inline break_lease(id)
{
    atomic {
        if
        :: FENCE_UNLOCKED -> fence_x = id
        :: !FENCE_UNLOCKED -> what = BUSY
        fi
    }
    if
    :: what != BUSY ->
        atomic {
            if
            :: lease_x == 0 -> lease_x = id
            :: lease_x != 0 -> what = BUSY
            fi
        }
    :: else
    fi;
    if
    :: what != BUSY ->
        d_step {
            if
            :: l_there && l_token == token && (l_ended == 0 || (l_ended != 3 && fence <= token)) ->
                what = BREAK;
                p_token = MAX(fence, floor_) + 1
            :: else /* it ended before */
            fi
        }
    :: else
    fi
}

/* 50_operate.sql: advance_fences: the namespace's row is locked, the fences are read, the floor is at least as high as they. */
inline advance_fences(id)
{
    d_step { floor_ = MAX(floor_, fence) + 1 }
}

/* DELETE FROM holdfast.lease, by hand: the one thing here that is no function of ours. It waits. */
inline delete_lease_row(id)
{
    d_step { l_there && lease_x == 0 -> lease_x = id }
    what = DELETE_ROW
}
