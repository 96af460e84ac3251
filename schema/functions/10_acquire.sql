-- Acquire.

-- What each item of an acquire would get if no server waited and no quota were set, and everything that follows from it; the
-- outcomes are acquire_batch's. Reads only, step 2. p_r_tid, p_l_tid: where the locked rows are; p_t: the time to decide by. It
-- becomes a part of the statement that selects from it.
CREATE OR REPLACE FUNCTION holdfast.acquire_verdicts(
    p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[],
    p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamptz)
RETURNS TABLE (i int, ns text, resource text, task text, holder text, ttl_ms bigint, request_id text, labels text,
    r_tid tid, fence bigint, waiting boolean, grant_token bigint, l_tid tid, l_token bigint, deadline timestamptz, ended smallint,
    live_holder text, live_task text,
    new_token bigint, lock_delay_ms int, min_ttl_ms int, max_ttl_ms int, max_leases bigint, max_waiters bigint, outcome smallint)
LANGUAGE sql STABLE AS $$
    SELECT x.i::int, x.ns, x.resource, x.task, x.holder, x.ttl_ms, x.request_id, x.labels,
        r.ctid, r.fence, r.waiting, r.grant_token, l.ctid, l.token, l.deadline, l.ended,
        CASE WHEN l.deadline > p_t THEN l.holder ELSE '' END, CASE WHEN l.deadline > p_t THEN l.task ELSE '' END,
        greatest(r.fence, n.fence_floor, l.token) + 1,
        n.lock_delay_ms, n.min_ttl_ms, n.max_ttl_ms, n.max_leases, n.max_waiters,
        CASE
            WHEN n.name IS NULL THEN 90
            WHEN r.name IS NULL OR l.resource IS NULL THEN 5
            WHEN r.request_id = x.request_id AND r.grant_token > 0
                THEN CASE WHEN l.token = r.grant_token AND l.deadline > p_t THEN 2 ELSE 4 END
            WHEN x.ttl_ms < n.min_ttl_ms OR x.ttl_ms > n.max_ttl_ms THEN 71
            WHEN l.deadline > p_t THEN 3
            WHEN p_may_grant[x.i] IS FALSE THEN 3
            WHEN n.lock_delay_ms > 0 AND l.ended = 0 AND l.deadline + n.lock_delay_ms * interval '1 ms' > p_t THEN 3
            ELSE 1
        END::smallint
    FROM unnest(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels, p_r_tid, p_l_tid) WITH ORDINALITY
        AS x(ns, resource, task, holder, ttl_ms, request_id, labels, r_tid, l_tid, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.ctid = x.r_tid
    LEFT JOIN holdfast.lease l ON l.ctid = x.l_tid
$$;

-- How long a lease that is in the way of an acquire (outcome 3), by its deadline or by the lock delay after it, is so still.
CREATE OR REPLACE FUNCTION holdfast.in_the_way_ms(p_deadline timestamptz, p_ended smallint, p_lock_delay_ms int, p_t timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN p_deadline > p_t THEN holdfast.ms(p_deadline - p_t)
        WHEN p_ended = 0 AND pg_catalog.isfinite(p_deadline)
            THEN greatest(0, holdfast.ms(p_deadline + p_lock_delay_ms * interval '1 ms' - p_t))
        ELSE 0 END
$$;

-- acquire_batch's closer look, where a server waits or shall wait, or a namespace limits its leases. By the places of the items,
-- NULL = nothing to say: veto: the outcome instead of 1; veto_ms: for how long; next_server: as acquire_batch's. The rows of waiter
-- and usage are afterwards as they shall be, and r_tid and l_tid tell where the locked rows are then.
CREATE OR REPLACE FUNCTION holdfast.acquire_special(
    p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[],
    p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[],
    p_t timestamptz, INOUT r_tid tid[], INOUT l_tid tid[], OUT veto smallint[], OUT veto_ms bigint[], OUT next_server text[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n CONSTANT int[] := ARRAY[pg_catalog.cardinality(p_ns)];
    item record;
    turn record;
    again record;
BEGIN
    veto := pg_catalog.array_fill(NULL::smallint, n);
    veto_ms := pg_catalog.array_fill(NULL::bigint, n);
    next_server := pg_catalog.array_fill(''::text, n);
    FOR item IN
        SELECT v.i, v.ns, v.resource FROM holdfast.acquire_verdicts(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id,
            p_labels, p_may_grant, r_tid, l_tid, p_t) v WHERE v.outcome = 1 AND v.waiting
    LOOP
        turn := holdfast.turn_before(item.ns, item.resource, p_server,
            CASE WHEN p_wait_ms[item.i] > 0 THEN p_t - coalesce(p_waited_ms[item.i], 0) * interval '1 ms' END, p_t);
        IF turn.remaining_ms IS NOT NULL THEN
            veto[item.i] := 3;
            veto_ms[item.i] := turn.remaining_ms;
            next_server[item.i] := turn.next_server;
        END IF;
    END LOOP;

    veto := holdfast.limit_leases(p_ns, p_resource, p_ttl_ms, p_request_id, p_may_grant, r_tid, l_tid, p_t, veto, false);
    again := holdfast.tids_again(p_ns, p_resource, r_tid, l_tid);

    FOR item IN
        SELECT v.i, v.ns, v.resource, v.waiting, coalesce(veto[v.i], v.outcome) AS outcome
        FROM holdfast.acquire_verdicts(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels, p_may_grant,
            again.r_tid, again.l_tid, p_t) v
        WHERE v.outcome IN (1, 3) AND (v.waiting OR p_wait_ms[v.i] > 0 OR p_next_wait_ms[v.i] > 0)
    LOOP
        IF item.outcome = 1 THEN
            PERFORM holdfast.wait_on_after_grant(item.ns, item.resource, p_server,
                CASE WHEN p_next_wait_ms[item.i] > 0 THEN p_t - coalesce(p_next_waited_ms[item.i], 0) * interval '1 ms' END,
                p_t + p_next_wait_ms[item.i] * interval '1 ms');
        ELSIF item.outcome = 3 AND p_wait_ms[item.i] > 0 THEN
            PERFORM holdfast.wait_for(item.ns, item.resource, p_server,
                p_t - coalesce(p_waited_ms[item.i], 0) * interval '1 ms', p_t + p_wait_ms[item.i] * interval '1 ms');
        END IF;
    END LOOP;
    again := holdfast.tids_again(p_ns, p_resource, r_tid, l_tid);
    r_tid := again.r_tid;
    l_tid := again.l_tid;
END
$$;

-- Each item whose resource was free is now leased to `holder` for ttl_ms, with a token above every earlier one of its resource
-- and above the namespace's floor (P1), and nobody else's lease on it is live (P2). Outcomes:
--   1  granted: token, ttl_ms.
--   2  a repeat (same request_id as the resource's last grant) while that lease lives: its token, ttl_ms that remains.
--   3  held by another: its token, holder, task, remaining_ms. Or it is free but not to be had, for remaining_ms: with an empty
--      holder, and the fence for a token. That is so after an expiry, for the namespace's lock_delay_ms; while another server has
--      the turn (05_waiters.sql); and where p_may_grant is false, with remaining_ms 0.
--   4  a repeat, but that lease has ended: its token. Nothing is granted.
--   5  the fence or the lease row is locked by somebody: nothing else is known.
--   70 the namespace has its max_leases: ttl_ms is the limit.
--   71 ttl_ms is outside the namespace's bounds: ttl_ms is the lower one, remaining_ms the upper one.
-- A resource nobody leased before is made. p_labels: a JSON object of strings, or NULL. Leaves an audit row a grant.
--
-- For waiters: p_server is the server that asks, NULL = an older one, which never waits; the arrays may be NULL as a whole.
--   p_may_grant    false: there is a queue before this caller on its server, so that it is granted nothing but a repeat.
--   p_wait_ms > 0  with outcome 3 the server is on record as waiting, since p_waited_ms ago, and for p_wait_ms to come.
--   p_next_wait_ms with outcome 1: so long, since p_next_waited_ms ago, those wait that are still in its queue; 0 = nobody.
-- next_server: a server that has got the turn by this, and must be told; otherwise ''. max_waiters: with outcome 3, the
-- namespace's. p_at is for acquire_all: the time to decide by; the caller has locked all rows already, and asked for turns and
-- quotas.
CREATE OR REPLACE FUNCTION holdfast.acquire_batch(
    p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[],
    p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[],
    p_at timestamptz DEFAULT NULL)
RETURNS TABLE (i int, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint, next_server text,
    max_waiters bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    locked record;
    t timestamptz := p_at;
    looked record;
    veto smallint[];
    veto_ms bigint[];
    turns text[];
BEGIN
    locked := holdfast.lock_rows(p_ns, p_resource, true);
    IF t IS NULL THEN
        t := holdfast.clock();
        IF locked.special OR (p_server IS NOT NULL AND (0 < ANY (p_wait_ms) OR 0 < ANY (p_next_wait_ms))) THEN
            looked := holdfast.acquire_special(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels,
                p_server, p_may_grant, p_waited_ms, CASE WHEN p_server IS NOT NULL THEN p_wait_ms END, p_next_waited_ms,
                CASE WHEN p_server IS NOT NULL THEN p_next_wait_ms END, t, locked.r_tid, locked.l_tid);
            locked.r_tid := looked.r_tid;
            locked.l_tid := looked.l_tid;
            veto := looked.veto;
            veto_ms := looked.veto_ms;
            turns := looked.next_server;
        END IF;
    END IF;
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT v.i, v.ns, v.resource, v.task, v.holder, v.ttl_ms, v.request_id, v.labels, v.r_tid, v.fence, v.grant_token, v.l_tid,
            v.l_token, v.deadline, v.ended, v.live_holder, v.live_task, v.new_token, v.lock_delay_ms, v.min_ttl_ms, v.max_ttl_ms,
            v.max_leases, v.max_waiters, coalesce(veto[v.i], v.outcome) AS outcome
        FROM holdfast.acquire_verdicts(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels, p_may_grant,
            locked.r_tid, locked.l_tid, t) v
    ), fences AS (
        UPDATE holdfast.resource r SET
            fence = CASE WHEN d.outcome = 1 THEN d.new_token ELSE r.fence END,
            grant_token = CASE WHEN d.outcome = 1 THEN d.new_token ELSE r.grant_token END,
            request_id = d.request_id,
            repeats = CASE WHEN d.outcome = 1 THEN 0 ELSE r.repeats + 1 END
        FROM d WHERE r.ctid = d.r_tid AND d.outcome IN (1, 2)
    ), leases AS (
        UPDATE holdfast.lease l SET
            token = d.new_token, deadline = t + d.ttl_ms * interval '1 ms', granted_at = t, ended = 0, task = d.task,
            holder = d.holder, labels = d.labels::jsonb
        FROM d WHERE l.ctid = d.l_tid AND d.outcome = 1
    ), audited AS (
        INSERT INTO holdfast.audit (namespace, resource, kind, token, prior, actor, detail)
        SELECT d.ns, d.resource, CASE WHEN o.ran_out THEN 'takeover' ELSE 'grant' END, d.new_token,
            CASE WHEN o.ran_out THEN d.l_token END, d.holder, d.task
        FROM d, LATERAL (SELECT d.l_token > 0 AND d.ended IN (0, 2) AS ran_out) o WHERE d.outcome = 1
    )
    SELECT d.i, d.outcome,
        CASE d.outcome WHEN 1 THEN d.new_token WHEN 2 THEN d.l_token WHEN 3 THEN CASE WHEN d.deadline > t THEN d.l_token ELSE d.fence END
            WHEN 4 THEN d.grant_token ELSE 0 END,
        CASE d.outcome WHEN 1 THEN d.ttl_ms WHEN 2 THEN holdfast.ms(d.deadline - t) WHEN 70 THEN d.max_leases WHEN 71 THEN d.min_ttl_ms
            ELSE 0 END,
        CASE WHEN d.outcome = 3 THEN d.live_holder ELSE '' END,
        CASE WHEN d.outcome = 3 THEN d.live_task ELSE '' END,
        CASE d.outcome WHEN 3 THEN coalesce(veto_ms[d.i], holdfast.in_the_way_ms(d.deadline, d.ended, d.lock_delay_ms, t))
            WHEN 71 THEN d.max_ttl_ms ELSE 0 END,
        coalesce(turns[d.i], ''),
        CASE d.outcome WHEN 3 THEN d.max_waiters ELSE 0 END
    FROM d;
END
$$;

-- Acquire of several resources of one namespace, each once: all are now leased to `holder` under tokens of their own, or none
-- is. Either one row an item with outcome 1, or all with 2 (a repeat while all its leases live), or exactly one row: the item
-- in the way, with 3, 4, 5, 70, 71 or 90 as in acquire_batch. 4 is answered if the request_id got any of the resources before and
-- not all of those leases live still. No lease is written before all are known to be free, so there is nothing to roll back.
-- It never waits; p_may_grant and next_server are as in acquire_batch.
CREATE OR REPLACE FUNCTION holdfast.acquire_all(
    p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text,
    p_server text, p_may_grant boolean[])
RETURNS TABLE (i int, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint, next_server text,
    max_waiters bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    n int[] := ARRAY[pg_catalog.cardinality(p_resource)];
    ns text[] := pg_catalog.array_fill(p_ns, n);
    locked record;
    t timestamptz;
    policy record;
    way record;
    item record;
    turn record;
    veto smallint[];
BEGIN
    SELECT * INTO policy FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 1, 90::smallint, 0::bigint, 0::bigint, ''::text, ''::text, 0::bigint, ''::text, 0::bigint;
        RETURN;
    END IF;
    -- First those that exist, so that a refusal makes no rows; then all.
    FOR make IN 0..1 LOOP
        locked := holdfast.lock_rows(ns, p_resource, make = 1);
        t := holdfast.clock();
        WITH d AS MATERIALIZED (
            SELECT x.i::int AS i, r.name IS NOT NULL AND l.resource IS NOT NULL AS there, x.mine,
                coalesce(r.request_id = p_request_id AND r.grant_token > 0, false) AS ours,
                coalesce(l.deadline > t, false) AS live, l.token, r.fence, r.grant_token, l.holder, l.task,
                holdfast.in_the_way_ms(l.deadline, l.ended, policy.lock_delay_ms, t) AS in_the_way_ms,
                coalesce(l.deadline > t OR p_may_grant[x.i] IS FALSE OR (policy.lock_delay_ms > 0 AND l.ended = 0
                    AND l.deadline + policy.lock_delay_ms * interval '1 ms' > t), p_may_grant[x.i] IS FALSE) AS taken
            FROM unnest(p_resource, locked.mine) WITH ORDINALITY AS x(resource, mine, i)
            LEFT JOIN holdfast.resource r ON r.namespace = p_ns AND r.name = x.resource
            LEFT JOIN holdfast.lease l ON l.namespace = p_ns AND l.resource = x.resource
        ), o AS (
            SELECT d.*, pg_catalog.bool_or(d.ours AND d.mine IS NOT FALSE) OVER () AS repeat,
                CASE
                    WHEN d.mine IS FALSE AND (d.there OR make = 1) THEN 5
                    WHEN d.ours AND d.live AND d.token = d.grant_token THEN 2
                    WHEN d.ours THEN 4
                    WHEN p_ttl_ms < policy.min_ttl_ms OR p_ttl_ms > policy.max_ttl_ms THEN 71
                    WHEN d.taken THEN 3
                    ELSE 1
                END AS outcome
            FROM d
        ), p AS (
            -- In a repeat, a resource that is no longer ours means that the grant has ended; its token is known from the others.
            SELECT o.*, pg_catalog.bool_or(o.outcome IN (1, 3, 71)) OVER () AS others FROM o
        )
        SELECT p.i, (CASE WHEN p.outcome = 2 THEN 4 ELSE p.outcome END)::smallint AS outcome,
            CASE WHEN p.outcome IN (2, 4) THEN p.grant_token WHEN p.outcome = 3 THEN CASE WHEN p.live THEN p.token ELSE coalesce(p.fence, 0) END
                ELSE 0 END AS token,
            CASE WHEN p.outcome = 3 AND p.live THEN p.holder ELSE '' END AS holder,
            CASE WHEN p.outcome = 3 AND p.live THEN p.task ELSE '' END AS task,
            CASE p.outcome WHEN 3 THEN coalesce(p.in_the_way_ms, 0) WHEN 71 THEN policy.max_ttl_ms ELSE 0 END AS remaining_ms,
            CASE p.outcome WHEN 71 THEN policy.min_ttl_ms ELSE 0 END AS ttl_ms
        INTO way FROM p
        WHERE p.outcome IN (4, 5) OR (p.repeat AND p.others AND p.outcome = 2) OR (NOT p.repeat AND p.outcome IN (3, 71))
        ORDER BY p.outcome = 4 DESC, p.outcome = 5 DESC, p.i LIMIT 1;
        IF FOUND THEN
            RETURN QUERY SELECT way.i, way.outcome, way.token, way.ttl_ms::bigint, way.holder, way.task, way.remaining_ms, ''::text,
                CASE WHEN way.outcome = 3 THEN policy.max_waiters ELSE 0 END;
            RETURN;
        END IF;
        EXIT WHEN locked.mine IS NULL;
    END LOOP;

    -- Either all are to be granted, or all are repeats; a repeat has its turn behind it.
    IF EXISTS (SELECT FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource[1] AND r.request_id = p_request_id
        AND r.grant_token > 0) THEN
        policy.max_leases := 0;
    ELSE
        FOR item IN SELECT x.i::int AS i, x.resource, r.fence FROM unnest(p_resource) WITH ORDINALITY AS x(resource, i)
            JOIN holdfast.resource r ON r.namespace = p_ns AND r.name = x.resource WHERE r.waiting ORDER BY x.i
        LOOP
            turn := holdfast.turn_before(p_ns, item.resource, p_server, NULL, t);
            IF turn.remaining_ms IS NOT NULL THEN
                RETURN QUERY SELECT item.i, 3::smallint, item.fence, 0::bigint, ''::text, ''::text, turn.remaining_ms, turn.next_server,
                    policy.max_waiters;
                RETURN;
            END IF;
        END LOOP;
        IF policy.max_leases > 0 THEN
            veto := holdfast.limit_leases(ns, p_resource, pg_catalog.array_fill(p_ttl_ms, n), pg_catalog.array_fill(p_request_id, n),
                p_may_grant, locked.r_tid, locked.l_tid, t, pg_catalog.array_fill(NULL::smallint, n), true);
            IF 70 = ANY (veto) THEN
                RETURN QUERY SELECT pg_catalog.array_position(veto, 70::smallint), 70::smallint, 0::bigint, policy.max_leases, ''::text, ''::text,
                    0::bigint, ''::text, 0::bigint;
                RETURN;
            END IF;
        END IF;
        PERFORM holdfast.wait_no_more(p_ns, r.name, p_server) FROM holdfast.resource r
        WHERE r.namespace = p_ns AND r.name = ANY (p_resource) AND r.waiting;
    END IF;
    RETURN QUERY SELECT * FROM holdfast.acquire_batch(ns, p_resource, pg_catalog.array_fill(p_task, n),
        pg_catalog.array_fill(p_holder, n), pg_catalog.array_fill(p_ttl_ms, n), pg_catalog.array_fill(p_request_id, n),
        pg_catalog.array_fill(p_labels, n), p_server, NULL, NULL, NULL, NULL, NULL, t);
END
$$;
