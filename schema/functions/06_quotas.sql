-- Quotas, and leases that ran out.
--
-- Only namespaces that have a limit pay for it. Their row in `usage` is locked, after all fence and lease rows and in the order
-- of the names, by every batch that grants, releases, breaks, or writes under a limit: so such batches take turns for the time of
-- a commit. How exact: the counts are; a lease that ran out counts until it is noted as expired, which a full namespace
-- looks for at most every 200 ms, and calls that are in flight while a limit is set where there was none may be missed until
-- the next sweep, which counts anew.

-- What there is, counted.
CREATE OR REPLACE FUNCTION holdfast.count_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    leases := (SELECT count(*) FROM holdfast.lease l WHERE l.namespace = p_ns AND l.token > 0 AND l.ended = 0);
    value_bytes := (SELECT coalesce(sum(pg_catalog.octet_length(v.value)), 0) FROM holdfast.resource_value v WHERE v.namespace = p_ns);
END
$$;

-- The namespace's row is locked, and made if there was none; what it says. Waits 2 s at most: for the commit of another batch.
CREATE OR REPLACE FUNCTION holdfast.lock_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint, OUT noted_at timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_catalog.set_config('lock_timeout', '2000', true);
    PERFORM FROM holdfast.usage u WHERE u.namespace = p_ns FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        INSERT INTO holdfast.usage (namespace, leases, value_bytes)
            SELECT p_ns, c.leases, c.value_bytes FROM holdfast.count_usage(p_ns) c ON CONFLICT DO NOTHING;
        PERFORM FROM holdfast.usage u WHERE u.namespace = p_ns FOR NO KEY UPDATE;
    END IF;
    SELECT u.leases, u.value_bytes, u.noted_at INTO leases, value_bytes, noted_at FROM holdfast.usage u WHERE u.namespace = p_ns;
END
$$;

-- Leases of the namespace (NULL: of all) that ran out before p_t and before the end of the lock delay, at most p_max of them, and
-- none that somebody has locked, are now on record as expired (ended 2), each with an audit row. How many.
CREATE OR REPLACE FUNCTION holdfast.note_expired(p_ns text, p_max int, p_t timestamptz) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    spaces text[];
    names text[];
    noted int;
BEGIN
    IF p_ns IS NULL THEN
        SELECT pg_catalog.array_agg(s.namespace), pg_catalog.array_agg(s.resource) INTO spaces, names FROM (
            SELECT l.namespace, l.resource FROM holdfast.lease l JOIN holdfast.namespace n ON n.name = l.namespace
            WHERE l.ended = 0 AND l.token > 0 AND l.deadline <= p_t AND l.deadline + n.lock_delay_ms * interval '1 ms' <= p_t
            LIMIT p_max FOR NO KEY UPDATE OF l SKIP LOCKED) s;
    ELSE
        SELECT pg_catalog.array_agg(s.namespace), pg_catalog.array_agg(s.resource) INTO spaces, names FROM (
            SELECT l.namespace, l.resource FROM holdfast.lease l JOIN holdfast.namespace n ON n.name = l.namespace
            WHERE l.namespace = p_ns AND l.ended = 0 AND l.token > 0 AND l.deadline <= p_t
                AND l.deadline + n.lock_delay_ms * interval '1 ms' <= p_t
            LIMIT p_max FOR NO KEY UPDATE OF l SKIP LOCKED) s;
    END IF;
    IF spaces IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM FROM holdfast.usage u WHERE u.namespace = ANY (spaces) ORDER BY u.namespace FOR NO KEY UPDATE;
    WITH noted AS (
        UPDATE holdfast.lease l SET ended = 2, deadline = '-infinity'
        FROM unnest(spaces, names) AS x(ns, resource)
        WHERE l.namespace = x.ns AND l.resource = x.resource AND l.ended = 0 AND l.token > 0 AND l.deadline <= p_t
        RETURNING l.namespace, l.resource, l.token, l.holder, l.task
    ), audited AS (
        INSERT INTO holdfast.audit (namespace, resource, kind, token, actor, detail)
        SELECT d.namespace, d.resource, 'expire', d.token, d.holder, d.task FROM noted d
    ), used AS (
        UPDATE holdfast.usage u SET leases = u.leases - c.n
        FROM (SELECT d.namespace, count(*) AS n FROM noted d GROUP BY d.namespace) c WHERE u.namespace = c.namespace
    )
    SELECT count(*) INTO noted FROM noted;
    RETURN noted;
END
$$;

-- Which of these acquires (see acquire_verdicts) are too many for their namespaces: 70 is put into p_veto for them, and the others
-- are counted as granted. With p_all they are counted only if none is too many.
CREATE OR REPLACE FUNCTION holdfast.limit_leases(
    p_ns text[], p_resource text[], p_ttl_ms bigint[], p_request_id text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[],
    p_t timestamptz, p_veto smallint[], p_all boolean) RETURNS smallint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    limited record;
    used record;
    wanted bigint;
    again record;
    item record;
BEGIN
    FOR limited IN SELECT n.name, n.max_leases FROM holdfast.namespace n
        WHERE n.max_leases > 0 AND n.name = ANY (p_ns) AND n.retired_at IS NULL ORDER BY n.name
    LOOP
        used := holdfast.lock_usage(limited.name);
        -- A takeover of a lease that is still counted makes no more of them.
        wanted := (SELECT count(*) FROM holdfast.acquire_verdicts(p_ns, p_resource, NULL, NULL, p_ttl_ms, p_request_id, NULL, p_may_grant,
            p_r_tid, p_l_tid, p_t) v WHERE v.ns = limited.name AND v.outcome = 1 AND p_veto[v.i] IS NULL AND NOT (v.l_token > 0 AND v.ended = 0));
        IF used.leases + wanted > limited.max_leases AND NOT (p_t >= used.noted_at AND p_t < used.noted_at + interval '200 ms') THEN
            PERFORM holdfast.note_expired(limited.name, 10000, p_t);
            again := holdfast.tids_again(p_ns, p_resource, p_r_tid, p_l_tid);
            p_r_tid := again.r_tid;
            p_l_tid := again.l_tid;
            UPDATE holdfast.usage u SET noted_at = p_t WHERE u.namespace = limited.name;
            used := holdfast.lock_usage(limited.name);
        END IF;
        FOR item IN SELECT v.i FROM holdfast.acquire_verdicts(p_ns, p_resource, NULL, NULL, p_ttl_ms, p_request_id, NULL, p_may_grant,
            p_r_tid, p_l_tid, p_t) v WHERE v.ns = limited.name AND v.outcome = 1 AND p_veto[v.i] IS NULL AND NOT (v.l_token > 0 AND v.ended = 0)
            ORDER BY v.i
        LOOP
            IF used.leases >= limited.max_leases THEN
                p_veto[item.i] := 70;
            ELSE
                used.leases := used.leases + 1;
            END IF;
        END LOOP;
        IF NOT (p_all AND coalesce(70 = ANY (p_veto), false)) THEN
            UPDATE holdfast.usage u SET leases = used.leases WHERE u.namespace = limited.name AND u.leases <> used.leases;
        END IF;
    END LOOP;
    RETURN p_veto;
END
$$;

-- So many leases of these namespaces have ended: those that are limited count less.
CREATE OR REPLACE FUNCTION holdfast.uncount_leases(p_ns text[], p_n int[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    limited record;
BEGIN
    FOR limited IN SELECT n.name, x.n FROM unnest(p_ns, p_n) AS x(ns, n) JOIN holdfast.namespace n ON n.name = x.ns
        WHERE n.max_leases > 0 ORDER BY n.name
    LOOP
        PERFORM holdfast.lock_usage(limited.name);
        UPDATE holdfast.usage u SET leases = u.leases - limited.n WHERE u.namespace = limited.name;
    END LOOP;
END
$$;
