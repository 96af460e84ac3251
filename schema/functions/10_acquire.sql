-- Acquire.

-- Each item whose resource was free is now leased to `holder` for ttl_ms, with a token above every earlier one of its resource
-- and above the namespace's floor (P1), and nobody else's lease on it is live (P2). Outcomes:
--   1  granted: token, ttl_ms.
--   2  a repeat (same request_id as the resource's last grant) while that lease lives: its token, ttl_ms that remains.
--   3  held by another: its token, holder, task, remaining_ms.
--   4  a repeat, but that lease has ended: its token. Nothing is granted.
--   5  the fence or the lease row is locked by somebody: nothing else is known.
-- A resource nobody leased before is made. p_labels: a JSON object of strings, or NULL. Leaves an audit row a grant.
-- p_at is for acquire_all: the time to decide by, and the caller has locked all rows already.
CREATE OR REPLACE FUNCTION holdfast.acquire_batch(
    p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[],
    p_at timestamptz DEFAULT NULL)
RETURNS TABLE (i int, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    mine boolean[];
    t timestamptz := p_at;
BEGIN
    IF t IS NULL THEN
        mine := holdfast.lock_pairs(p_ns, p_resource, true);
        t := holdfast.clock();
    END IF;
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT x.i::int AS i, x.ns, x.resource, x.task, x.holder, x.ttl_ms, x.request_id, x.labels,
            r.ctid AS r_tid, l.ctid AS l_tid, l.token AS l_token, l.deadline, l.ended, r.grant_token,
            greatest(r.fence, n.fence_floor, l.token) + 1 AS new_token,
            CASE
                WHEN n.name IS NULL THEN 90
                WHEN x.mine IS FALSE OR r.name IS NULL OR l.resource IS NULL THEN 5
                WHEN r.request_id = x.request_id AND r.grant_token > 0
                    THEN CASE WHEN l.token = r.grant_token AND l.deadline > t THEN 2 ELSE 4 END
                WHEN l.deadline > t THEN 3
                ELSE 1
            END::smallint AS outcome
        FROM unnest(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels, mine) WITH ORDINALITY
            AS x(ns, resource, task, holder, ttl_ms, request_id, labels, mine, i)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
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
        FROM d, LATERAL (SELECT d.l_token > 0 AND d.ended = 0 AS ran_out) o WHERE d.outcome = 1
    )
    SELECT d.i, d.outcome,
        CASE d.outcome WHEN 1 THEN d.new_token WHEN 2 THEN d.l_token WHEN 3 THEN d.l_token WHEN 4 THEN d.grant_token ELSE 0 END,
        CASE d.outcome WHEN 1 THEN d.ttl_ms WHEN 2 THEN holdfast.ms(d.deadline - t) ELSE 0 END,
        CASE d.outcome WHEN 3 THEN held.holder ELSE '' END,
        CASE d.outcome WHEN 3 THEN held.task ELSE '' END,
        CASE d.outcome WHEN 3 THEN holdfast.ms(d.deadline - t) ELSE 0 END
    FROM d LEFT JOIN holdfast.lease held ON d.outcome = 3 AND held.ctid = d.l_tid;
END
$$;

-- Acquire of several resources of one namespace, each once: all are now leased to `holder` under tokens of their own, or none
-- is. Either one row an item with outcome 1, or all with 2 (a repeat while all its leases live), or exactly one row: the item
-- in the way, with 3, 4, 5 or 90 as in acquire_batch. 4 is answered if the request_id got any of the resources before and not
-- all of those leases live still. Nothing is written before all are known to be free, so there is nothing to roll back.
CREATE OR REPLACE FUNCTION holdfast.acquire_all(
    p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text)
RETURNS TABLE (i int, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    n int[] := ARRAY[pg_catalog.cardinality(p_resource)];
    ns text[] := pg_catalog.array_fill(p_ns, n);
    mine boolean[];
    t timestamptz;
    way record;
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 1, 90::smallint, 0::bigint, 0::bigint, ''::text, ''::text, 0::bigint;
        RETURN;
    END IF;
    -- First those that exist, so that a refusal makes no rows; then all.
    FOR make IN 0..1 LOOP
        mine := holdfast.lock_pairs(ns, p_resource, make = 1);
        t := holdfast.clock();
        WITH d AS MATERIALIZED (
            SELECT x.i::int AS i, r.name IS NOT NULL AND l.resource IS NOT NULL AS there, x.mine,
                coalesce(r.request_id = p_request_id AND r.grant_token > 0, false) AS ours,
                coalesce(l.deadline > t, false) AS live, l.token, r.grant_token, l.holder, l.task, l.deadline
            FROM unnest(p_resource, mine) WITH ORDINALITY AS x(resource, mine, i)
            LEFT JOIN holdfast.resource r ON r.namespace = p_ns AND r.name = x.resource
            LEFT JOIN holdfast.lease l ON l.namespace = p_ns AND l.resource = x.resource
        ), o AS (
            SELECT d.*, pg_catalog.bool_or(d.ours AND d.mine IS NOT FALSE) OVER () AS repeat,
                CASE
                    WHEN d.mine IS FALSE AND (d.there OR make = 1) THEN 5
                    WHEN d.ours AND d.live AND d.token = d.grant_token THEN 2
                    WHEN d.ours THEN 4
                    WHEN d.live THEN 3
                    ELSE 1
                END AS outcome
            FROM d
        ), p AS (
            -- In a repeat, a resource that is no longer ours means that the grant has ended; its token is known from the others.
            SELECT o.*, pg_catalog.bool_or(o.outcome IN (1, 3)) OVER () AS others FROM o
        )
        SELECT p.i, (CASE WHEN p.outcome = 2 THEN 4 ELSE p.outcome END)::smallint AS outcome,
            CASE WHEN p.outcome IN (2, 4) THEN p.grant_token WHEN p.outcome = 3 THEN p.token ELSE 0 END AS token,
            CASE WHEN p.outcome = 3 THEN p.holder ELSE '' END AS holder, CASE WHEN p.outcome = 3 THEN p.task ELSE '' END AS task,
            CASE WHEN p.outcome = 3 THEN holdfast.ms(p.deadline - t) ELSE 0 END AS remaining_ms
        INTO way FROM p
        WHERE p.outcome IN (4, 5) OR (p.repeat AND p.others AND p.outcome = 2) OR (NOT p.repeat AND p.outcome = 3)
        ORDER BY p.outcome = 4 DESC, p.outcome = 5 DESC, p.i LIMIT 1;
        IF FOUND THEN
            RETURN QUERY SELECT way.i, way.outcome, way.token, 0::bigint, way.holder, way.task, way.remaining_ms;
            RETURN;
        END IF;
        EXIT WHEN mine IS NULL;
    END LOOP;
    RETURN QUERY SELECT * FROM holdfast.acquire_batch(ns, p_resource, pg_catalog.array_fill(p_task, n),
        pg_catalog.array_fill(p_holder, n), pg_catalog.array_fill(p_ttl_ms, n), pg_catalog.array_fill(p_request_id, n),
        pg_catalog.array_fill(p_labels, n), t);
END
$$;
