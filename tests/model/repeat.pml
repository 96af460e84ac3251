/*
 * repeat.pml - callers that repeat themselves, servers that send again, and backends that outlive their connections. P8.
 *
 * A handler is a server's care for one call: its item, and the connection it travels on. Two handlers may belong to two servers, or
 * to one with two connections: nothing depends on it. A backend executes what it is sent to its end, whether or not anybody still
 * reads the answer, unless it is ended.
 *
 * A function is two steps here, all that it decides and its commit: what happens in between is lease.pml's. Nothing runs out, so
 * that whatever a caller loses it loses by a repeat. A request that is lost is one that was never sent; one that is late is with a
 * handler that takes its time. One caller acquires, writes and releases in order, repeating each call under its id; another does so
 * meanwhile without mishap.
 *
 * The faults that can be planted, with -D:
 *   FAULT_RESEND     what was in flight is sent again without ending the old backend
 *   FAULT_RESEND_ALL so is a write without write_seq
 *   FAULT_GIVE_BACK  a grant that was told to nobody is released although a repeat of it was answered
 */
#define DONE 1
#define ENDED 2
#define HELD 3
#define SUPERSEDED 4
#define LOST 5 /* UNKNOWN / OUTCOME_LOST, or no answer at all */
#define NO 6   /* busy; of a release: it was not held */
#define SAME 7 /* a repeat of an acquire */
#define STALE 8
#define TELL(outcome) out = outcome

#include "postgres.pml"
#include "functions.pml"

#ifdef FAULT_GIVE_BACK
#define UNLESS_REPEATED false
#else
#define UNLESS_REPEATED (kind == GIVE_BACK_CALL)
#endif

#define ACQUIRE_CALL 1
#define WRITE_CALL 2
#define RELEASE_CALL 3
#define GIVE_BACK_CALL 4

#ifndef HANDLERS
#define HANDLERS 2
#endif
#ifndef BACKENDS
#define BACKENDS 3
#endif

byte breaks, losses, kills; /* how often so far a connection broke, an answer was not waited for, a server was killed */

chan calls[HANDLERS + 1] = [0] of { byte, byte, byte }; /* kind, token, seq: to any server */
bool taken[HANDLERS + 1];
chan told = [1] of { byte, byte };        /* outcome, token */
byte ticket;                              /* which call is waited for */
bool alone;                               /* its server was killed */

chan work[BACKENDS + 1] = [0] of { byte, byte, byte };
chan answer[HANDLERS + 1] = [1] of { byte, byte };
byte owner[BACKENDS + 1]; /* for which handler the backend works; 0 = none, also once the connection broke */
bool working[BACKENDS + 1], end_it[BACKENDS + 1];
byte works_on[BACKENDS + 1]; /* whose item it works on, also when the connection broke; for the proofs only */
byte g_answered;             /* backends, by bits, at work on an item that was answered with certainty */
byte g_seq;                  /* write_seq of the last accepted write */
byte g_plain;                /* the token of the last one without, of which each holder sends one */

/* ---- PostgreSQL ---- */

proctype backend(byte id)
{
    SESSION_LOCALS;
    byte kind, out;
end:
    do
    :: atomic { work[id] ? kind, token, seq -> working[id] = true; req = 1; out = NO }
        atomic { /* until COMMIT; the steps in between are lease.pml's */
            if
            :: end_it[id]
            :: !end_it[id] && kind == ACQUIRE_CALL -> acquire_batch(id)
            :: !end_it[id] && kind == WRITE_CALL -> write_batch(id)
            :: !end_it[id] && (kind == RELEASE_CALL || kind == GIVE_BACK_CALL) -> release_batch(id, UNLESS_REPEATED)
            fi
        }
        atomic {
            if
            :: end_it[id] -> rollback(id)
            :: !end_it[id] ->
                if
                :: what == WRITE && seq ->
                    prove_P8(token > v_token || seq > g_seq); /* once each, and never behind a later one */
                    g_seq = seq
                :: what == WRITE && !seq ->
                    prove_P8(token != g_plain);
                    g_plain = token
                :: else
                fi;
                if
                :: what == GRANT || what == RELEASE || what == WRITE ->
                    prove_P8(!(g_answered & BIT(id)));
                    out = DONE;
                    if :: what == GRANT -> token = p_token :: else fi
                :: what == REPEAT -> out = SAME
                :: else
                fi;
                commit(id);
                if
                :: owner[id] -> answer[owner[id]] ! out, token
                :: else /* the connection is gone */
                fi
            fi;
            working[id] = false;
            end_it[id] = false;
            works_on[id] = 0;
            owner[id] = 0;
            g_answered = g_answered & ~BIT(id);
            token = 0; seq = 0; req = 0; kind = 0; out = 0
        }
    od
}

/* ---- a server's care for one call: store/batch.c, store/session.c, service/acquire.c ---- */

inline idle_backend()
{
    if
    :: !working[1] -> b = 1
    :: working[1] && !working[2] -> b = 2
    :: working[1] && working[2] && !working[3] -> b = 3
    fi
}

/* It may serve somebody else meanwhile: then its answer to us has come. */
inline let_go()
{
    if :: owner[b] == id -> owner[b] = 0 :: else fi
}

proctype handler(byte id)
{
    byte kind, token, seq, its, b, out, got;
end:
    do
    :: atomic { calls[id] ? kind, token, seq -> taken[id] = true; its = ticket }
send:
        atomic { /* st_batch_send */
            idle_backend();
            owner[b] = id;
            works_on[b] = id;
            work[b] ! kind, token, seq
        }
        if
        :: answer[id] ? out, got
        :: atomic { breaks < BREAKS -> /* st_session_lost, before or after the answer was on its way */
                breaks++;
                let_go();
                if :: answer[id] ? _, _ :: empty(answer[id]) fi
            }
            if
#ifndef FAULT_RESEND_ALL
            :: kind == WRITE_CALL && !seq -> out = LOST /* must_not_repeat */
            :: kind != WRITE_CALL || seq ->
#else
            :: true ->
#endif
#ifndef FAULT_RESEND
                if
                :: out = LOST /* give_up_resend: it could not be ended */
                :: atomic { true -> /* send_end_of_ghost, holdfast.end_backend: until pg_stat_activity doesn't show it any more */
                        if :: works_on[b] == id -> end_it[b] = true :: else fi;
                        works_on[b] != id;
                        goto send
                    }
                fi
#else
                goto send
#endif
            fi
        :: atomic { kills < KILLS && empty(answer[id]) -> kills++; owner[b] = 0; works_on[b] = 0 /* SIGKILL of the server */
                if :: ticket == its && kind != GIVE_BACK_CALL -> alone = true :: else fi;
                goto next
            }
        fi;
        atomic { /* st_item_end */
            b = 1;
            do
            :: b <= BACKENDS && works_on[b] == id ->
                if :: out != LOST && owner[b] != id -> g_answered = g_answered | BIT(b) :: else fi;
                works_on[b] = 0;
                b++
            :: b <= BACKENDS && works_on[b] != id -> b++
            :: else -> break
            od;
            if
            :: kind != GIVE_BACK_CALL && ticket == its -> told ! out, got
            :: kind == ACQUIRE_CALL && ticket != its && out == DONE -> /* svc_give_back: nobody is there to be told */
                kind = GIVE_BACK_CALL;
                token = got;
                goto send
            :: else
            fi
        }
next:
        skip;
        d_step { taken[id] = false; kind = 0; token = 0; seq = 0; its = 0; b = 0; out = 0; got = 0 }
    od
}

/* ---- callers: client/lib/call.c ---- */

/* Sends until there is an answer that says what happened, TRIES times at most, always under the same ids. */
inline call(kind, seq, tries_max)
{
    tries = 0;
    out = LOST;
    do
    :: out == LOST && tries < tries_max ->
        atomic {
            tries++;
            alone = false;
            if /* they are all alike: the first that has the time */
            :: !taken[1] -> calls[1] ! kind, token, seq
            :: taken[1] && !taken[2] -> calls[2] ! kind, token, seq
            fi
        }
        if
        :: atomic { told ? out, got -> ticket++ }
        :: atomic { losses < LOSSES -> /* it closes the connection, or its answer was lost */
                losses++;
                ticket++;
                if :: told ? _, _ :: empty(told) fi
            }
        :: atomic { alone -> alone = false; ticket++ } /* its connection ends with the server */
        fi
    :: else -> break
    od;
    skip
}

proctype caller()
{
    byte tries, out, got, token, n;
    call(ACQUIRE_CALL, 0, TRIES);
    if
    :: out == DONE || out == SAME ->
        token = got;
        got = 0;
        do
        :: n < WRITES && out != LOST ->
            n++;
            call(WRITE_CALL, n, TRIES);
            /* Nothing ended its lease; it has nothing else on its way; what it was told is there. */
            d_step { prove_P8(out != STALE && out != SUPERSEDED); prove_P8(out != DONE || (v_token == token && v_seq == n)) }
        :: else -> break
        od;
#ifdef PLAIN
        call(WRITE_CALL, 0, 1);
#endif
        call(RELEASE_CALL, 0, TRIES)
    :: else
    fi
}

/* Somebody else, whose calls arrive, and take no time. */
proctype other(byte id)
{
    SESSION_LOCALS;
    byte out;
    req = 2;
    atomic { acquire_batch(id); token = p_token; commit(id) }
    if
    :: token ->
        atomic { write_batch(id); commit(id) }
        atomic { release_batch(id, false); commit(id) }
    :: else
    fi
}

init {
    byte i = 1;
    atomic {
        do :: i <= HANDLERS -> run handler(i); i++ :: else -> break od;
        i = 1;
        do :: i <= BACKENDS -> run backend(i); i++ :: else -> break od;
        run caller();
        run other(BACKENDS + 1)
    }
}
