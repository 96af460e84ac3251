/*
 * wait.pml - callers that wait: a waiting Acquire is served or told.
 *
 * One resource; two servers, each with its line of waiters (core/waitq.c, service/wait_line.c), its connection, and its row in
 * holdfast.waiter (05_waiters.sql). Somebody has the lease; each caller asks once, and then releases or dies. A SQL function is one
 * step here: what happens between its statements is lease.pml's.
 *
 * There is no clock: what time brings (a lease runs out, a turn is over, a timer fires, a row's `until` passes) may come at any
 * moment. So every order of events is looked at, also those that need a slow machine. Nobody's wait ends by time unless ENDS says
 * so: a caller must be granted, or told that its request's lease has ended. All that is taken for granted is that no process
 * stands still for ever (weak fairness), so that there is no way to go round in circles while a caller waits.
 *
 * LOSSES outcomes or answers are lost, or a row is busy; KILLS servers are killed, and their callers go to the other one with the
 * same request_id; NOTES turns are told to nobody; ENDS callers leave before they are served (time, CancelWait, connection, drain).
 * Not here: quotas, lock delays, acquires of several resources, more than one caller with one request_id.
 *
 * The faults that can be planted, with -D:
 *   FAULT_NO_POLL     a head that found the resource held asks again only when it is told to
 *   FAULT_TURN_STAYS  a turn that is not taken goes to nobody else
 *   FAULT_NO_LEAVE    a server whose line has become empty doesn't tell the database
 */
#ifndef CALLERS
#define CALLERS 3
#endif
#define BIT(id) (1 << (id))
#define OTHER(s) (3 - (s))

/* ---- the database ---- */

byte owner;    /* of the lease: a caller's id, which is its request_id too; CALLERS + 1 = somebody from before */
bool live;     /* its deadline has not come */
bool repeated; /* repeats of the last grant were answered; last grant = owner */

bool w_row[3]; /* holdfast.waiter */
byte w_since[3];
byte w_turn;   /* who has turn_until; 0 = nobody */
bool w_over;   /* and it has passed */

/* ---- the servers ---- */

bool dead[3];
chan line[3] = [CALLERS] of { byte }; /* waiters in order of arrival */
byte in_line[3];                      /* bits: the same */
byte unasked[3];                      /* bits: not known yet whether they repeat a granted acquire */
byte tried[3];                        /* for whom an acquire is with the store */
bool asking[3], due[3], timer[3], row[3], stuck[3], later[3]; /* as in struct svc_line; later: not_before_ms is to come */
byte head_since[3], next_since[3];    /* co_line_terms: of the head, and of who is behind it, 0 = nobody */
bool sent[3];                         /* it was sent to the database */
byte result[3];                       /* its outcome */
bool leaving[3];
byte give_back[3];
bool turn_told[3];

#define GRANTED 1
#define REPEATED 2
#define HELD 3 /* by another */
#define ENDED 4
#define NO_OUTCOME 5 /* busy, or lost */
#define LOST_OUTCOME 6
#define NOT_YET 7 /* it is free, but another server has the turn, or others are before this one */

/* ---- the callers ---- */

byte told[CALLERS + 2]; /* GRANTED, ENDED, HELD: its time is over, or it is gone; 0 = it waits */
byte at[CALLERS + 2];   /* its server */
byte since[CALLERS + 2];
bool holds[CALLERS + 2]; /* it knows of its lease, and will release it or die */
bool unheard[CALLERS + 2]; /* its answer was lost */
byte arrivals;

byte losses, kills, notes, ends;

/* ---- 05_waiters.sql ---- */

inline give_turn(but, before) /* to the longest waiting; next = it, or 0 */
{
    next = 0;
    if
    :: w_row[1] && but != 1 && (!before || w_since[1] < before) && !(w_row[2] && but != 2 && w_since[2] < w_since[1]) -> next = 1
    :: w_row[2] && but != 2 && (!before || w_since[2] < before) && !(w_row[1] && but != 1 && w_since[1] < w_since[2]) -> next = 2
    :: else
    fi;
    if :: next -> w_turn = next; w_over = false :: else fi
}

inline forget(s) /* wait_no_more */
{
    w_row[s] = false;
    w_since[s] = 0;
    if :: w_turn == s -> w_turn = 0; w_over = false :: else fi
}

/* A note for `next`: our own is told at once, others by NOTIFY, which may be lost with the listener. st_turn_note */
inline tell_turn(s)
{
    if
    :: next && !dead[next] -> turn_told[next] = true
    :: next && next != s && notes < NOTES -> notes++
    :: !next || dead[next]
    fi;
    next = 0
}

/* 10_acquire.sql: acquire_batch, acquire_special, 05_waiters.sql: turn_before. May be asked by a server that is dead by now. */
inline acquire(s)
{
    if
    :: owner == tried[s] && live -> outcome = REPEATED; repeated = true
    :: owner == tried[s] && !live -> outcome = ENDED
    :: owner != tried[s] && live -> outcome = HELD
    :: owner != tried[s] && !live && asking[s] -> outcome = NOT_YET
    :: else ->
        outcome = GRANTED;
        if
        :: !w_turn || (w_turn == s && !w_over)
        :: w_turn && w_turn != s && !w_over -> outcome = NOT_YET
        :: w_turn && w_over ->
#ifdef FAULT_TURN_STAYS
            if :: w_turn != s -> outcome = NOT_YET :: else fi
#else
            n = w_turn;
            forget(n);
            n = 0;
            give_turn(s, head_since[s]);
            if :: next -> outcome = NOT_YET; tell_turn(s) :: else fi
#endif
        fi
    fi;
    if
    :: outcome == GRANTED ->
        owner = tried[s];
        live = true;
        repeated = false;
        forget(s);
        if :: next_since[s] -> w_row[s] = true; w_since[s] = next_since[s] :: else fi
    :: outcome == HELD || outcome == NOT_YET -> /* wait_for */
        w_row[s] = true;
        w_since[s] = head_since[s]
    :: else
    fi
}

/* 20_renew.sql: release_batch, release_special; then service/wait.c: svc_wait_freed, on its server. */
inline release(s, c, unless_repeated)
{
    if
    :: owner == c && live && !(unless_repeated && repeated) ->
        live = false;
        give_turn(0, 0);
        tell_turn(s);
        if
        :: !dead[s] && in_line[s] && row[s] && !tried[s] -> timer[s] = true
        :: !dead[s] && in_line[s] && !row[s] -> due[s] = true
        :: else
        fi
    :: else
    fi
}

/* 05_waiters.sql: leave_batch; then service/wait_line.c: on_left. */
inline leave(s)
{
    if
    :: w_turn == s -> forget(s); if :: !live -> give_turn(0, 0); tell_turn(s) :: else fi
    :: w_turn != s -> forget(s)
    fi;
    leaving[s] = false;
    if :: row[s] -> due[s] = true :: else fi
}

/* ---- service/wait.c and wait_line.c ---- */

/* svc_wait: the caller is the last of the line; alone, it is tried for, otherwise it is asked for. */
inline join(s, c)
{
    at[c] = s;
    arrivals++;
    since[c] = arrivals;
    if
    :: !in_line[s] && !tried[s] -> due[s] = true
    :: else -> unasked[s] = unasked[s] | BIT(c)
    fi;
    line[s] ! c;
    in_line[s] = in_line[s] | BIT(c)
}

/* svc_wait_leave, and that it is answered. */
inline answer(s, c, what)
{
    line[s] ?? eval(c);
    in_line[s] = in_line[s] & ~BIT(c);
    unasked[s] = unasked[s] & ~BIT(c);
    assert(at[c] == s && !told[c]); /* once each */
    told[c] = what;
    since[c] = 0
}

/* try_for, for the head or, asking, somebody behind it. */
inline try_for(s, c)
{
    line[s] ? <n>;
    asking[s] = (c != n);
    head_since[s] = since[n];
    next_since[s] = 0;
    if :: !asking[s] -> due[s] = false; timer[s] = false :: else fi;
    if
    :: !asking[s] && len(line[s]) > 1 ->
        line[s] ? n;
        line[s] ? <x>;
        next_since[s] = since[x];
        k = len(line[s]);
        line[s] ! n; /* and back in front */
        do :: k > 0 -> line[s] ? x; line[s] ! x; k-- :: else -> break od;
        x = 0
    :: else
    fi;
    n = 0;
    unasked[s] = unasked[s] & ~BIT(c);
    tried[s] = c;
    sent[s] = true
}

/* take_outcome, of the try for c */
inline take_outcome(s, c, r)
{
    if
    :: r == GRANTED || r == REPEATED -> /* granted */
        if :: r == GRANTED -> row[s] = next_since[s] > 0; due[s] = false :: else fi;
        timer[s] = true;
        stuck[s] = false;
        if
        :: (in_line[s] & BIT(c)) ->
            answer(s, c, GRANTED);
            if :: true -> holds[c] = true :: losses < LOSSES -> losses++; unheard[c] = true; told[c] = 0 fi
        :: else -> if :: r == GRANTED -> give_back[s] = c :: else fi
        fi;
        if :: r == GRANTED && !row[s] && in_line[s] && !unasked[s] -> due[s] = true :: else fi
    :: r == ENDED ->
        due[s] = true;
        if :: (in_line[s] & BIT(c)) -> answer(s, c, ENDED) :: else fi
    :: r == HELD || r == NOT_YET -> /* held */
        row[s] = true;
        stuck[s] = false;
        if
        :: asking[s] -> if :: r == NOT_YET && !later[s] -> due[s] = true :: else fi
        :: !asking[s] && r == NOT_YET -> later[s] = true; timer[s] = true
        :: !asking[s] && r == HELD ->
#ifndef FAULT_NO_POLL
            timer[s] = true
#else
            skip
#endif
        fi
    :: r == NO_OUTCOME || r == LOST_OUTCOME -> /* no_outcome */
        stuck[s] = true;
        if :: r == LOST_OUTCOME -> row[s] = true :: else fi;
        timer[s] = true;
        if :: asking[s] && (in_line[s] & BIT(c)) -> unasked[s] = unasked[s] | BIT(c) :: else fi
    fi;
    tried[s] = 0;
    asking[s] = false;
    next_since[s] = 0;
    head_since[s] = 0
}

#define IDLE(s) (!tried[s] && !dead[s])

/* A server, its connection and its backend, which goes on when the server is dead. */
proctype server(byte s)
{
    byte n, m, k, x, next, outcome;
end:
    do
    /* PostgreSQL */
    :: atomic { sent[s] -> acquire(s); sent[s] = false; result[s] = (dead[s] -> 0 : outcome); outcome = 0 }
    :: atomic { sent[s] && losses < LOSSES -> /* OUTCOME_LOST after it took effect or before, or BUSY */
            losses++;
            if
            :: acquire(s); result[s] = LOST_OUTCOME
            :: result[s] = LOST_OUTCOME
            :: result[s] = NO_OUTCOME
            fi;
            sent[s] = false;
            outcome = 0
        }
    :: atomic { leaving[s] -> leave(s) }
    :: atomic { give_back[s] -> release(s, give_back[s], true); give_back[s] = 0 } /* svc_give_back */
    :: atomic { dead[s] && (sent[s] || leaving[s] || give_back[s]) -> /* what the server that was killed had not sent yet */
            sent[s] = false; leaving[s] = false; give_back[s] = 0
        }

    /* on_tried */
    :: atomic { result[s] && !dead[s] -> k = result[s]; n = tried[s]; result[s] = 0; take_outcome(s, n, k); n = 0; k = 0 }
    /* svc_line_proceed: the head, the unasked, nobody */
    :: atomic { IDLE(s) && due[s] && in_line[s] -> line[s] ? <m>; try_for(s, m); m = 0 }
    :: atomic { IDLE(s) && !due[s] && !stuck[s] && unasked[s] && in_line[s] ->
            m = 1;
            do
            :: unasked[s] & BIT(m) -> break
            :: else -> m++
            od;
            try_for(s, m);
            m = 0
        }
    :: atomic { IDLE(s) && !in_line[s] && (row[s] || due[s] || timer[s] || stuck[s] || later[s]) && !leaving[s] ->
#ifndef FAULT_NO_LEAVE
            leaving[s] = row[s];
#endif
            row[s] = false; due[s] = false; timer[s] = false; stuck[s] = false; later[s] = false
        }
    /* on_timer, on_turn */
    :: atomic { IDLE(s) && !due[s] && timer[s] && in_line[s] -> timer[s] = false; later[s] = false; due[s] = true }
    :: atomic { turn_told[s] && !dead[s] ->
            turn_told[s] = false;
            if :: !in_line[s] && !tried[s] -> row[s] = true :: else -> due[s] = true fi
        }
    od
}

/* SIGKILL of a server. What is with the database stays there; the connections to it end. */
inline kill_server(s)
{
    kills++;
    dead[s] = true;
    do :: in_line[s] -> line[s] ? c; since[c] = 0; in_line[s] = in_line[s] & ~BIT(c); c = 0 :: else -> break od;
    unasked[s] = 0; result[s] = 0; due[s] = false; timer[s] = false;
    row[s] = false; stuck[s] = false; later[s] = false; turn_told[s] = false
}

/* What happens by itself. */
proctype world()
{
    byte c;
end:
    do
    :: live && !holds[owner] -> live = false /* a lease runs out whose holder doesn't renew it */
    :: w_turn && !w_over -> w_over = true    /* turn_until passes */
    /* `until` of a row passes, which nobody writes any more: it counts for nothing, as if it were not there */
    :: atomic { dead[1] && w_row[1] && w_turn != 1 -> forget(1) }
    :: atomic { dead[2] && w_row[2] && w_turn != 2 -> forget(2) }
    :: atomic { kills < KILLS && !dead[2] -> kill_server(1) }
    :: atomic { kills < KILLS && !dead[1] -> kill_server(2) }
    od
}

/* ---- callers: client/lib/acquire.c, call.c ---- */

proctype caller(byte c; byte s)
{
    byte next;
    atomic { if :: !dead[s] :: dead[s] -> s = OTHER(s) fi; join(s, c) }
    do
    :: told[c] -> break
    :: atomic { !told[c] && (dead[s] || unheard[c]) -> /* again, under the same request_id */
            unheard[c] = false;
            if :: dead[s] -> s = OTHER(s) :: else fi;
            join(s, c)
        }
    :: atomic { !told[c] && !dead[s] && !unheard[c] && ends < ENDS -> ends++; answer(s, c, HELD) } /* svc_wait_end, svc_wait_gone */
    od;
    if
    :: atomic { told[c] == GRANTED -> holds[c] = false; if :: dead[s] -> s = OTHER(s) :: else fi; release(s, c, false) }
    :: atomic { told[c] == GRANTED -> holds[c] = false } /* it dies */
    :: told[c] != GRANTED
    fi
}

#if CALLERS > 2
#define ALL_TOLD (told[1] && told[2] && told[3])
#else
#define ALL_TOLD (told[1] && told[2])
#endif

#ifndef AT_REST
ltl served_or_told { <> ALL_TOLD }
#else
/* Nothing is left behind when nothing can happen any more: all were told, the resource is free, and no server that lives is on
 * record as waiting, so that its turns would hold up others. */
hidden byte rest_broken;

proctype rest()
{
    timeout;
    rest_broken = !ALL_TOLD || live || (w_row[1] && !dead[1]) || (w_row[2] && !dead[2]);
    assert(!rest_broken)
}
#endif

init {
    atomic {
        owner = CALLERS + 1;
        live = true;
        run server(1); run server(2); run world();
#ifdef AT_REST
        run rest();
#endif
        run caller(1, 1); run caller(2, 2);
#if CALLERS > 2
        run caller(3, 1);
#endif
    }
}
