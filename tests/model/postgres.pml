/*
 * postgres.pml - the database, as far as leases need it: rows, row locks, commit and rollback, and its clock.
 *
 * One resource: its fence row, its lease row, its value. A global row variable is what is committed, and so what the snapshot of
 * every statement at READ COMMITTED sees. What a transaction writes is in locals of its process (`what`, p_token, p_deadline) until
 * COMMIT, which makes it seen and gives the locks back in one step. That is all of PostgreSQL's visibility here, because whoever
 * writes a row holds its lock, so that nobody has two versions of it to choose from.
 *
 * What must never happen is asserted here, at the commits, against variables g_… that no transition decides by: they note what
 * callers were promised, not what the rows say.
 */
#ifndef TTL
#define TTL 2
#endif
#ifndef TMAX
#define TMAX 4 /* the clock's end: what still lives then lives for ever */
#endif
#ifndef MAXTOKEN
#define MAXTOKEN 8
#endif

byte now = 1; /* clock_timestamp(). 0 is -infinity */

/* ---- committed rows ---- */

byte fence, grant_token, request, repeats; /* holdfast.resource; request 0 = an id that nobody will ever repeat */
byte floor_;                               /* holdfast.namespace.fence_floor */
bool l_there = true;                       /* holdfast.lease */
byte l_token, l_deadline, l_ended; /* l_ended: 0 not, or it ran out; 3 released; 4 broken */
byte v_token, v_seq; /* holdfast.resource_value: last accepted write */

/* ---- row locks: by ids from 1 ---- */

byte fence_x; /* who holds the fence row FOR NO KEY UPDATE; 0 = nobody */
byte fence_s; /* who hold it FOR SHARE: bits */
byte lease_x; /* who holds the lease row FOR NO KEY UPDATE, or has inserted it */

#define BIT(id) (1 << (id))
#define FENCE_UNLOCKED (fence_x == 0 && fence_s == 0)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* ---- what was promised ---- */

byte g_newest;              /* the highest token ever granted */
byte g_newest_for;          /* and the request_id that got it */
byte g_until[MAXTOKEN + 1]; /* until when the token's holder was told that it has the lease; 0 = it released it, or it was broken */
byte g_written;             /* the token of the last accepted guarded write */
byte g_checked;             /* transactions, by bits, between the check of a guarded write and its commit */
byte g_overtaken;           /* those during which a lease was granted, released or broken */

hidden byte P1_broken, P2_broken, P3_broken, P8_broken; /* only so that what spin reports names the promise */

inline prove_P1(truth) { P1_broken = !(truth); assert(!P1_broken) }
inline prove_P2(truth) { P2_broken = !(truth); assert(!P2_broken) }
inline prove_P3(truth) { P3_broken = !(truth); assert(!P3_broken) }
inline prove_P8(truth) { P8_broken = !(truth); assert(!P8_broken) }

/* ---- transactions ---- */

#define NOTHING 0
#define GRANT 1
#define REPEAT 2
#define RENEW 3
#define RELEASE 4
#define BREAK 5
#define WRITE 6
#define GUARD 7
#define BUSY 8 /* and what else was found wrong: nothing is written */
#define MAKE_ROW 9
#define DELETE_ROW 10

/* Of a process that runs transactions. token, seq, req: what it was asked; t: what holdfast.clock() told it. */
#ifndef FORGET
#define FORGET skip
#endif
#define SESSION_LOCALS \
    byte what, token, seq, req, t, p_token, p_deadline, locked_at

/* P2: of all that were told that they have the lease now, there is one at most. */
inline prove_one_live()
{
    P2_broken = 0;
    t = 1;
    do
    :: t < g_newest ->
        P2_broken = P2_broken || (g_until[t] > now && g_until[g_newest] > now);
        t++
    :: else -> break
    od;
    assert(!P2_broken)
}

inline unlock(id)
{
    if :: fence_x == id -> fence_x = 0 :: else fi;
    if :: lease_x == id -> lease_x = 0 :: else fi;
    fence_s = fence_s & ~BIT(id);
    g_checked = g_checked & ~BIT(id);
    g_overtaken = g_overtaken & ~BIT(id);
    what = NOTHING;
    t = 0;
    p_token = 0;
    p_deadline = 0;
    locked_at = 0;
    FORGET
}

/* COMMIT: what was written is seen, and the locks are free, at once. */
inline commit(id)
{
    d_step {
        if
        :: what == GRANT ->
            prove_P1(p_token > g_newest);
            fence = p_token;
            grant_token = p_token;
            request = req;
            repeats = 0;
            l_token = p_token;
            l_deadline = p_deadline;
            l_ended = 0;
            l_there = true;
            prove_P8(!req || req != g_newest_for); /* a repeat gets the same, or that it has ended */
            g_newest = p_token;
            g_newest_for = req;
            g_until[p_token] = p_deadline;
            g_overtaken = g_overtaken | g_checked;
            prove_one_live()
        :: what == REPEAT -> repeats = 1
        :: what == RENEW ->
            l_there = true;
            l_token = p_token;
            l_deadline = p_deadline;
            g_until[token] = MAX(g_until[token], p_deadline);
            prove_one_live()
        :: what == RELEASE ->
            l_deadline = 0;
            l_ended = 3;
            g_until[token] = 0;
            g_overtaken = g_overtaken | g_checked
        :: what == BREAK ->
            fence = p_token;
            l_deadline = 0;
            l_ended = 4;
            g_until[token] = 0;
            g_overtaken = g_overtaken | g_checked
        :: what == WRITE || what == GUARD ->
            /* P3: with the newest token; nobody was granted anything between the check and this; never behind what was accepted. */
            prove_P3(token == g_newest && !(g_overtaken & BIT(id)) && token >= g_written);
            g_written = token;
            if
            :: what == WRITE && seq ->
                v_token = token;
                v_seq = seq
            :: else
            fi
        :: what == MAKE_ROW ->
            l_there = true;
            l_token = 0;
            l_deadline = 0
        :: what == DELETE_ROW ->
            l_there = false;
            g_until[l_token] = 0;
            l_token = 0;
            l_deadline = 0;
            l_ended = 0
        :: else /* read only */
        fi;
        unlock(id)
    }
}

/* ROLLBACK: by an error, or because the backend, its server or its caller's session ended. */
inline rollback(id)
{
    d_step { true -> unlock(id) }
}

/* holdfast.clock(), which is clock_timestamp(): in a statement of its own after the locks. */
#ifdef FAULT_NOW
#define CLOCK_AT_START t = now /* now(): when the transaction began */
#define CLOCK_AFTER_LOCK skip
#else
#define CLOCK_AT_START skip
#define CLOCK_AFTER_LOCK t = now
#endif

proctype clock()
{
end:
    do
    :: now < TMAX -> now++
    od
}
