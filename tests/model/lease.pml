/*
 * A model of the lease protocol, searched through by spin: `tests/run model`, or tests/model/run, which has the sizes. Where tests
 * try some orders of events, this looks at all of them, of a smaller thing.
 *
 *   postgres.pml   the database: rows, row locks, snapshots, commit; and the promises, asserted at commits
 *   functions.pml  the SQL functions, statement by statement
 *   lease.pml      any callers at all, against them: P1, P2, P3                                     (this file)
 *   repeat.pml     callers that repeat, servers that send again, connections that break: P8
 *   wait.pml       callers that wait, their lines, turns and timers: a waiting caller is served or told
 *
 * What is modelled. One resource. Sessions that run acquire_batch, renew_batch (both ways), release_batch, write_batch, guard and
 * what the user's transaction does after it, break_lease and advance_fences, with any token that was ever granted and any
 * request_id: so every late, doubled or reordered request, and every holder that was paused, is among the runs, without a model of
 * how it came about. Row locks are taken one by one, without waiting where the SQL says SKIP LOCKED; every statement reads what is
 * committed when it begins; a commit comes any time later, or a rollback (a backend, a server or a user's session is ended). Time
 * is a counter of a few ticks that moves between any two steps; a lease is two of them long. With WITH_FAILOVER a standby that is
 * behind is promoted, and attach() called by the first new connection.
 *
 * What is not. Other resources: a batch decides each of its items by itself, and takes locks in one order; acquire_all is not here.
 * Quotas, lock delays, policies, audit. Purging (there is none yet). The crash of PostgreSQL is the rollback of all that is under
 * way, which is among the runs; that a commit is on disk is taken for granted. The clock never steps back. P7 and the gate are the
 * client's. Sizes are small: what takes more sessions, calls or tokens than run says is not found; `run full` has more of each.
 * repeat.pml and wait.pml leave out what lease.pml has looked at: see there.
 *
 * A fault is planted by -DFAULT_…, each told at the top of the file that has it; run plants each and expects the search to say
 * which promise is broken. Of the faults that the robustness tests plant this leaves out the lost commit, which is PostgreSQL's.
 *
 *   FAULT_ATTACH   after a fail-over nobody raises the fences
 */
#define FORGET token = 0; req = 0 /* at its end a transaction leaves nothing */

#include "postgres.pml"
#include "functions.pml"

byte calls; /* how many there were, by all sessions */

inline any_token()
{
    token = 1;
    do
    :: token < g_newest -> token++
    :: break
    od
}

inline any_request() /* 0 = one of its own */
{
    req = 0;
    do
    :: req < REQUESTS -> req++
    :: break
    od
}

#ifdef WITH_FAILOVER
byte gone; /* sessions, by bits, whose server is gone */
#define OR_GONE(id) unless { (gone & BIT(id)) }
#else
#define OR_GONE(id)
#endif

proctype session(byte id)
{
    SESSION_LOCALS;
end:
    do
    :: atomic { calls < CALLS -> calls++; any_token() }
#ifdef WITH_FAILOVER
        gone = gone & ~BIT(id); /* it connects */
#endif
        {
            if
            :: atomic { true -> token = 0; any_request() } acquire_batch(id)
#ifdef WITH_RENEW
            :: renew_locked(id)
            :: renew_batch(id)
#endif
#ifdef WITH_RELEASE
            :: release_batch(id, false)
#endif
#ifdef WITH_WRITE
            :: write_batch(id)
#endif
#ifdef WITH_GUARD
            :: guard(id)
#endif
#ifdef WITH_BREAK
            :: break_lease(id)
#endif
#ifdef WITH_DELETE
            :: delete_lease_row(id)
#endif
#ifdef WITH_FLOOR
            :: advance_fences(id)
#endif
            fi;
            if
            :: commit(id)
            :: what != NOTHING && what != BUSY -> rollback(id)
            fi
        } OR_GONE(id)
#ifdef WITH_FAILOVER
        ;
        rollback(id)
#endif
    od
}

#ifdef WITH_FAILOVER
/* A standby, which has what was committed up to some moment, and becomes the primary; the old one is never heard of again. */
proctype standby()
{
    byte s_fence, s_grant_token, s_request, s_floor, s_token, s_deadline, s_ended;
    bool s_there;
    d_step { /* pg_basebackup or any moment of the stream: this is the last that arrives */
        true ->
        s_fence = fence; s_grant_token = grant_token; s_request = request; s_floor = floor_;
        s_there = l_there; s_token = l_token; s_deadline = l_deadline; s_ended = l_ended
    }
    d_step {
        true ->
        gone = 255; fence_x = 0; fence_s = 0; lease_x = 0; g_checked = 0; g_overtaken = 0;
        fence = s_fence; grant_token = s_grant_token; request = s_request; floor_ = s_floor;
        l_there = s_there; l_token = s_token; l_deadline = s_deadline; l_ended = s_ended;
#ifndef FAULT_ATTACH
        /* 50_operate.sql: attach, before any session is served; its 2^20 is more than the grants that may be lost */
        if :: l_deadline > now -> l_deadline = 0; l_ended = 4 :: else fi;
        floor_ = MAX(floor_, fence) + CALLS;
        s_token = 0;
        do
        :: s_token <= g_newest -> g_until[s_token] = 0; s_token++ /* BROKEN is what they are told */
        :: else -> break
        od;
#endif
        g_newest_for = 0; /* with the fence row it may have forgotten whom it granted */
        s_fence = 0; s_grant_token = 0; s_request = 0; s_floor = 0; s_there = false; s_token = 0; s_deadline = 0; s_ended = 0
    }
}
#endif

init {
    byte i = 1;
    atomic {
        /* Somebody has it. */
        fence = 1;
        grant_token = 1;
        l_token = 1;
        l_deadline = now + TTL;
        g_newest = 1;
        g_until[1] = l_deadline;
        run clock();
        do
        :: i <= SESSIONS -> run session(i); i++
        :: else -> break
        od;
#ifdef WITH_FAILOVER
        run standby()
#endif
    }
}
