-- Operations: what is told of them, what tidies them up, and their policies.

-- The columns in which operations are told; NULL is told as 0 or ''.
CREATE OR REPLACE FUNCTION holdfast.op_row(p_row holdfast.operation, p_t timestamptz)
RETURNS TABLE (key text, type text, fingerprint bytea, state smallint, revision int, attempts int, token bigint, holder text,
    sending boolean, remaining_ms bigint, created_unix_ms bigint, changed_unix_ms bigint, error_class smallint, message text,
    sqlstate text, compensates text, compensated_by text, priority int)
LANGUAGE sql STABLE AS $$
    SELECT p_row.key::text, p_row.type::text, p_row.fingerprint, s.state, p_row.revision, p_row.attempts, p_row.token,
        coalesce(p_row.holder, ''), p_row.sending AND s.state = 2,
        CASE WHEN s.state IN (1, 2) AND pg_catalog.isfinite(p_row.deadline) THEN greatest(0, holdfast.ms(p_row.deadline - p_t)) ELSE 0 END,
        holdfast.unix_ms(p_row.created_at),
        holdfast.unix_ms(CASE WHEN s.state <> p_row.state AND pg_catalog.isfinite(p_row.deadline) THEN p_row.deadline ELSE p_row.changed_at END),
        coalesce(p_row.error_class, 0::smallint),
        CASE WHEN s.state <> p_row.state THEN 'the attempt was lost' ELSE coalesce(p_row.message, '') END,
        coalesce(p_row.sqlstate, '')::text, coalesce(p_row.compensates, '')::text, coalesce(p_row.compensated_by, '')::text,
        coalesce(p_row.priority, 0)
    FROM (SELECT holdfast.op_state_at(p_row.state, p_row.sending, p_row.deadline, p_row.namespace, p_row.type, p_t) AS state) s
$$;

-- Outcomes: 50, 216, 90.
CREATE OR REPLACE FUNCTION holdfast.op_get_batch(p_ns text[], p_key text[])
RETURNS TABLE (i int, outcome smallint, key text, type text, fingerprint bytea, state smallint, revision int, attempts int, token bigint,
    holder text, sending boolean, remaining_ms bigint, created_unix_ms bigint, changed_unix_ms bigint, error_class smallint,
    message text, sqlstate text, compensates text, compensated_by text, priority int, result bytea, result_ref text, payload bytea)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    SELECT x.i::int, CASE WHEN n.name IS NULL THEN 90 WHEN o.key IS NULL THEN 216 ELSE 50 END::smallint,
        coalesce(r.key, ''), coalesce(r.type, ''), coalesce(r.fingerprint, ''::bytea), coalesce(r.state, 0::smallint), coalesce(r.revision, 0),
        coalesce(r.attempts, 0), coalesce(r.token, 0), coalesce(r.holder, ''), coalesce(r.sending, false), coalesce(r.remaining_ms, 0),
        coalesce(r.created_unix_ms, 0), coalesce(r.changed_unix_ms, 0), coalesce(r.error_class, 0::smallint), coalesce(r.message, ''),
        coalesce(r.sqlstate, ''), coalesce(r.compensates, ''), coalesce(r.compensated_by, ''), coalesce(r.priority, 0),
        o.result, coalesce(o.result_ref, ''), o.payload
    FROM unnest(p_ns, p_key) WITH ORDINALITY AS x(ns, key, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key
    LEFT JOIN LATERAL holdfast.op_row(o, t) r ON o.key IS NOT NULL;
END
$$;

-- Operations in the order of their keys, behind p_after, one more than p_max if there are more. p_state is the state as stored, 0 = any;
-- an attempt that was lost is told as what it became. p_type '' = any. p_older_than_ms: in this state for at least so long.
CREATE OR REPLACE FUNCTION holdfast.op_list(p_ns text, p_state smallint, p_type text, p_prefix text, p_older_than_ms bigint, p_after text,
    p_max int)
RETURNS TABLE (outcome smallint, key text, type text, fingerprint bytea, state smallint, revision int, attempts int, token bigint,
    holder text, sending boolean, remaining_ms bigint, created_unix_ms bigint, changed_unix_ms bigint, error_class smallint,
    message text, sqlstate text, compensates text, compensated_by text, priority int)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, ''::text, ''::bytea, 0::smallint, 0, 0, 0::bigint, ''::text, false, 0::bigint, 0::bigint,
            0::bigint, 0::smallint, ''::text, ''::text, ''::text, ''::text, 0;
        RETURN;
    END IF;
    -- What is open has a small index each; what has ended is read in the order of the keys.
    IF p_state IN (1, 2, 5, 6) THEN
        RETURN QUERY EXECUTE pg_catalog.format($q$
            SELECT 50::smallint, r.* FROM (
                SELECT x.* FROM holdfast.operation x WHERE x.state = %s AND x.namespace = $1 AND x.key >= $2
                    AND x.key <= holdfast.prefix_end($2) AND x.key > $3 AND ($4 = '' OR x.type = $4)
                    AND x.changed_at <= $5 - $6 * interval '1 millisecond'
                ORDER BY x.key LIMIT $7 + 1) o
            CROSS JOIN LATERAL holdfast.op_row(o, $5) r ORDER BY r.key$q$, p_state)
            USING p_ns, p_prefix, p_after, p_type, t, p_older_than_ms, p_max;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, r.* FROM (
        SELECT x.* FROM holdfast.operation x WHERE x.namespace = p_ns AND x.key >= p_prefix AND x.key <= holdfast.prefix_end(p_prefix)
            AND x.key > p_after AND (p_state = 0 OR x.state = p_state) AND (p_type = '' OR x.type = p_type)
            AND x.changed_at <= t - p_older_than_ms * interval '1 millisecond'
        ORDER BY x.key LIMIT p_max + 1) o
    CROSS JOIN LATERAL holdfast.op_row(o, t) r ORDER BY r.key;
END
$$;

-- Attempts of one operation in their order, behind number p_after, one more than p_max if there are more; fewer, where their late results
-- come to a MiB, and then one with outcome 52 that says no more than that there are more. Outcomes: 50; 216, 90: one row without an attempt,
-- as also if there are none.
CREATE OR REPLACE FUNCTION holdfast.op_attempts(p_ns text, p_key text, p_after int, p_max int)
RETURNS TABLE (outcome smallint, attempt int, execution_id text, token bigint, trigger smallint, holder text, started_unix_ms bigint,
    ended_unix_ms bigint, sending_unix_ms bigint, attempt_outcome smallint, error_class smallint, message text, sqlstate text,
    late_unix_ms bigint, late_call text, late_result bytea, late_message text, late_count int)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT CASE WHEN a.full THEN 52 ELSE 50 END::smallint, a.attempt, a.execution_id::text, a.token, a.trigger, a.holder,
        holdfast.unix_ms(a.started_at), coalesce(holdfast.unix_ms(a.ended_at), 0), coalesce(holdfast.unix_ms(a.sending_at), 0), a.outcome,
        coalesce(a.error_class, 0::smallint), coalesce(a.message, ''), coalesce(a.sqlstate, '')::text,
        coalesce(holdfast.unix_ms(a.late_at), 0), coalesce(a.late_call, '')::text, CASE WHEN NOT a.full THEN a.late_result END,
        coalesce(a.late_message, ''), a.late_count
    FROM (
        SELECT b.*, coalesce(b.bytes, 0) >= 1048576 AS full, pg_catalog.lag(b.bytes) OVER (ORDER BY b.token) AS bytes_before FROM (
            SELECT c.*, pg_catalog.sum(pg_catalog.octet_length(c.late_result))
                OVER (ORDER BY c.token ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes
            FROM holdfast.attempt c
            WHERE c.namespace = p_ns AND c.key = p_key AND c.attempt > p_after
                AND EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL)
            ORDER BY c.token LIMIT p_max + 1) b) a
    WHERE coalesce(a.bytes_before, 0) < 1048576
    ORDER BY a.token;
    IF NOT FOUND THEN
        RETURN QUERY SELECT CASE
                WHEN NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN 90
                WHEN EXISTS (SELECT FROM holdfast.operation o WHERE o.namespace = p_ns AND o.key = p_key) THEN 50
                ELSE 216 END::smallint,
            0, ''::text, 0::bigint, 0::smallint, ''::text, 0::bigint, 0::bigint, 0::bigint, 0::smallint, 0::smallint, ''::text, ''::text, 0::bigint,
            ''::text, NULL::bytea, ''::text, 0;
    END IF;
END
$$;

-- How many operations are in the states that somebody waits for, over all namespaces, and for how long the oldest. Reads the small
-- indexes only.
CREATE OR REPLACE FUNCTION holdfast.op_stats() RETURNS TABLE (outcome smallint, state text, count bigint, oldest_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    SELECT 50::smallint, s.state, s.n, coalesce(greatest(0, holdfast.ms(t - s.oldest)), 0) FROM (
        SELECT 'pending'::text AS state, pg_catalog.count(*) AS n, pg_catalog.min(o.changed_at) AS oldest FROM holdfast.operation o WHERE o.state = 1
        UNION ALL SELECT 'due', pg_catalog.count(*), pg_catalog.min(o.deadline) FROM holdfast.operation o WHERE o.state = 1 AND o.deadline <= t
        UNION ALL SELECT 'running', pg_catalog.count(*), pg_catalog.min(o.changed_at) FROM holdfast.operation o WHERE o.state = 2
        UNION ALL SELECT 'sending', pg_catalog.count(*), pg_catalog.min(o.changed_at) FROM holdfast.operation o WHERE o.state = 2 AND o.sending
        UNION ALL SELECT 'unknown', pg_catalog.count(*), pg_catalog.min(o.changed_at) FROM holdfast.operation o WHERE o.state = 5
        UNION ALL SELECT 'review', pg_catalog.count(*), pg_catalog.min(o.changed_at) FROM holdfast.operation o WHERE o.state = 6
        UNION ALL SELECT 'compensating', pg_catalog.count(*), pg_catalog.min(o.changed_at) FROM holdfast.operation o
            WHERE o.compensates IS NOT NULL AND o.state IN (1, 2, 5, 6)) s;
END
$$;

-- Attempts whose lease has ended are settled, at most p_max of them: see op_start. How many. Nothing that anybody is answered depends on
-- it, but that List finds them by what they became.
CREATE OR REPLACE FUNCTION holdfast.op_sweep(p_max int) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    t timestamptz := holdfast.clock();
    spaces text[];
    keys text[];
    types text[];
    prints bytea[];
    n int;
BEGIN
    SELECT pg_catalog.array_agg(s.namespace), pg_catalog.array_agg(s.key), pg_catalog.array_agg(s.type), pg_catalog.array_agg(s.fingerprint)
    INTO spaces, keys, types, prints FROM (
        SELECT o.namespace, o.key, o.type, o.fingerprint FROM holdfast.operation o WHERE o.state = 2 AND o.deadline <= t
        ORDER BY o.namespace, o.key LIMIT p_max FOR NO KEY UPDATE SKIP LOCKED) s;
    n := coalesce(pg_catalog.cardinality(spaces), 0);
    IF n = 0 THEN
        RETURN 0;
    END IF;
    t := holdfast.clock();
    RETURN (SELECT pg_catalog.count(*) FROM holdfast.op_start(spaces, keys, types, prints, NULL, NULL,
        pg_catalog.array_fill(''::text, ARRAY[n]), NULL, pg_catalog.array_fill(true, ARRAY[n]), t, false));
END
$$;

-- Operations that ended longer ago than their policy keeps them are gone, with their attempts, at most p_max of them, and how many; 0 also
-- while another server purges. Kept are those that are open, UNKNOWN or in REVIEW, those with events in the outbox, those that are being
-- undone, and what undid one that is kept. It looks at p_max pages at most, from where the last call came to (holdfast.purge), a few at a
-- time: small batches pass beside everything else. What somebody has locked is left for the next pass.
CREATE OR REPLACE FUNCTION holdfast.purge_operations(p_max int) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    step CONSTANT int := 64;
    t timestamptz := holdfast.clock();
    blocks bigint := pg_catalog.pg_relation_size('holdfast.operation') / pg_catalog.current_setting('block_size')::int;
    at bigint;
    until bigint;
    shortest_ms bigint;
    done int := 0;
    spaces text[];
    keys text[];
    n int;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext('holdfast.sweep')) THEN
        RETURN 0;
    END IF;
    SELECT p.block INTO at FROM holdfast.purge p;
    UPDATE holdfast.purge p SET pass_began_at = t WHERE at = 0;
    SELECT least(2592000000, pg_catalog.min(p.retention_ms)) INTO shortest_ms FROM holdfast.operation_policy p;
    until := least(blocks, at + p_max);
    WHILE at < until AND done < p_max LOOP
        SELECT pg_catalog.array_agg(s.namespace), pg_catalog.array_agg(s.key) INTO spaces, keys FROM (
            SELECT o.namespace, o.key FROM holdfast.operation o
            WHERE o.ctid >= pg_catalog.format('(%s,0)', at)::tid AND o.ctid < pg_catalog.format('(%s,0)', least(at + step, until))::tid
                AND o.state IN (3, 4, 7) AND o.changed_at <= t - shortest_ms * interval '1 millisecond'
                AND o.changed_at <= t - (SELECT p.retention_ms FROM holdfast.op_policy(o.namespace, o.type) p) * interval '1 millisecond'
            LIMIT p_max - done FOR UPDATE SKIP LOCKED) s;
        -- In a statement that sees what was committed before they were locked.
        WITH gone AS (
            DELETE FROM holdfast.operation o USING unnest(spaces, keys) AS x(ns, key)
            WHERE o.namespace = x.ns AND o.key = x.key
                AND (o.compensated_by IS NULL OR NOT EXISTS (SELECT FROM holdfast.operation c
                    WHERE c.namespace = o.namespace AND c.key = o.compensated_by AND c.state IN (1, 2, 5, 6)))
                AND (o.compensates IS NULL OR NOT EXISTS (SELECT FROM holdfast.operation c
                    WHERE c.namespace = o.namespace AND c.key = o.compensates))
                AND NOT EXISTS (SELECT FROM holdfast.outbox e WHERE e.namespace = o.namespace AND e.operation = o.key)
            RETURNING o.namespace, o.key
        ), attempts AS (
            DELETE FROM holdfast.attempt a USING gone WHERE a.namespace = gone.namespace AND a.key = gone.key
        )
        SELECT pg_catalog.count(*) INTO n FROM gone;
        -- These pages are left behind, unless the limit may have cut some of them off.
        IF coalesce(pg_catalog.cardinality(spaces), 0) < p_max - done OR n = 0 THEN
            at := least(at + step, until);
        END IF;
        done := done + n;
    END LOOP;
    UPDATE holdfast.purge p SET block = CASE WHEN at >= blocks THEN 0 ELSE at END, purged = p.purged + done,
        passes = p.passes + CASE WHEN at >= blocks AND blocks > 0 THEN 1 ELSE 0 END;
    RETURN done;
END
$$;

-- A policy's row as it is told.
CREATE OR REPLACE FUNCTION holdfast.op_policy_row(p_outcome int, p_row holdfast.operation_policy, p_needed_ms bigint)
RETURNS TABLE (outcome smallint, type text, max_attempts bigint, max_elapsed_ms bigint, base_ms bigint, cap_ms bigint, on_lost smallint,
    retention_ms bigint, needed_ms bigint)
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_outcome::smallint, p_row.type::text, p_row.max_attempts::bigint, p_row.max_elapsed_ms, p_row.base_ms::bigint, p_row.cap_ms::bigint,
        p_row.on_lost, p_row.retention_ms, p_needed_ms
$$;

-- The type's policy (type '': of those without one) is this, NULL = as it is. Outcomes: 50 · 90 · 73 base_ms above cap_ms: nothing changed
-- · 222 retention_ms is shorter than needed_ms, what retries, the longest lease and a margin take: nothing changed. Audited.
CREATE OR REPLACE FUNCTION holdfast.op_set_policy(p_ns text, p_type text, p_max_attempts bigint, p_max_elapsed_ms bigint, p_base_ms bigint,
    p_cap_ms bigint, p_on_lost smallint, p_retention_ms bigint, p_actor text)
RETURNS TABLE (outcome smallint, type text, max_attempts bigint, max_elapsed_ms bigint, base_ms bigint, cap_ms bigint, on_lost smallint,
    retention_ms bigint, needed_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    space record;
    before holdfast.operation_policy;
    wanted holdfast.operation_policy;
    needed bigint;
BEGIN
    PERFORM holdfast.require_read_committed();
    SELECT n.max_ttl_ms INTO space FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 90::smallint, ''::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::smallint, 0::bigint, 0::bigint;
        RETURN;
    END IF;
    SELECT p_ns, p_type, p.max_attempts, p.max_elapsed_ms, p.base_ms, p.cap_ms, p.on_lost, p.retention_ms
    INTO before FROM holdfast.op_policy(p_ns, p_type) p;
    wanted := before;
    wanted.max_attempts := coalesce(p_max_attempts, before.max_attempts);
    wanted.max_elapsed_ms := coalesce(p_max_elapsed_ms, before.max_elapsed_ms);
    wanted.base_ms := coalesce(p_base_ms, before.base_ms);
    wanted.cap_ms := coalesce(p_cap_ms, before.cap_ms);
    wanted.on_lost := coalesce(nullif(p_on_lost, 0), before.on_lost);
    wanted.retention_ms := coalesce(p_retention_ms, before.retention_ms);
    needed := wanted.max_elapsed_ms + wanted.cap_ms + space.max_ttl_ms + 60000;
    IF wanted.base_ms > wanted.cap_ms OR wanted.retention_ms < needed THEN
        RETURN QUERY SELECT * FROM holdfast.op_policy_row(CASE WHEN wanted.base_ms > wanted.cap_ms THEN 73 ELSE 222 END, wanted, needed);
        RETURN;
    END IF;
    INSERT INTO holdfast.operation_policy SELECT wanted.* ON CONFLICT (namespace, type) DO UPDATE SET
        max_attempts = excluded.max_attempts, max_elapsed_ms = excluded.max_elapsed_ms, base_ms = excluded.base_ms,
        cap_ms = excluded.cap_ms, on_lost = excluded.on_lost, retention_ms = excluded.retention_ms;
    IF before IS DISTINCT FROM wanted THEN
        INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
        SELECT p_ns, 'policy', 0, p_actor, pg_catalog.format('operations of type "%s": ', p_type) || pg_catalog.string_agg(
            pg_catalog.format('%s %s -> %s', o.key, o.value, n.value), ', ' ORDER BY o.key)
        FROM pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(before)) o
        JOIN pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(wanted)) n ON n.key = o.key WHERE o.value IS DISTINCT FROM n.value;
    END IF;
    RETURN QUERY SELECT * FROM holdfast.op_policy_row(50, wanted, needed);
END
$$;

-- The policies that were set, in the order of their types, behind p_after (NULL = from the start), one more than p_max if there are more.
CREATE OR REPLACE FUNCTION holdfast.op_list_policies(p_ns text, p_after text, p_max int)
RETURNS TABLE (outcome smallint, type text, max_attempts bigint, max_elapsed_ms bigint, base_ms bigint, cap_ms bigint, on_lost smallint,
    retention_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::smallint, 0::bigint;
        RETURN;
    END IF;
    RETURN QUERY SELECT 50::smallint, p.type::text, p.max_attempts::bigint, p.max_elapsed_ms, p.base_ms::bigint, p.cap_ms::bigint, p.on_lost,
        p.retention_ms
    FROM holdfast.operation_policy p WHERE p.namespace = p_ns AND (p_after IS NULL OR p.type > p_after) ORDER BY p.type LIMIT p_max + 1;
END
$$;
