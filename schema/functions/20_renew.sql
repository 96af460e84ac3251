-- Renew and Release.

-- renew_batch's locked form, for the items of these places: the three steps on the lease row. Also finds out why not.
CREATE OR REPLACE FUNCTION holdfast.renew_locked(p_i int[], p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[])
RETURNS TABLE (i int, outcome smallint, ttl_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    got int[];
    mine boolean[];
    t timestamptz;
BEGIN
    SELECT pg_catalog.array_agg(s.place) INTO got FROM (
        SELECT x.place::int FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, place)
        JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
        FOR NO KEY UPDATE OF l SKIP LOCKED) s;
    mine := holdfast.flags(got, pg_catalog.cardinality(p_i));
    t := holdfast.clock();
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT x.i, l.ctid AS l_tid, greatest(l.deadline, t + least(x.ttl_ms, n.max_ttl_ms) * interval '1 ms') AS deadline,
            CASE
                WHEN n.name IS NULL THEN 90
                WHEN l.resource IS NULL THEN 15
                WHEN x.mine IS FALSE THEN 5
                WHEN l.token < x.token THEN 15
                WHEN l.token > x.token THEN 12
                WHEN l.deadline > t THEN 10
                WHEN l.ended = 3 THEN 13
                WHEN l.ended = 4 THEN 14
                ELSE 11
            END::smallint AS outcome
        FROM unnest(p_i, p_ns, p_resource, p_token, p_ttl_ms, mine) AS x(i, ns, resource, token, ttl_ms, mine)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    ), renewed AS (
        UPDATE holdfast.lease l SET deadline = d.deadline FROM d WHERE l.ctid = d.l_tid AND d.outcome = 10
    )
    SELECT d.i, d.outcome, CASE WHEN d.outcome = 10 THEN holdfast.ms(d.deadline - t) ELSE 0 END FROM d;
END
$$;

-- Each item whose lease is live under this very token now ends ttl_ms from now, or later if it did before. Never makes a row,
-- never revives a lease. A ttl_ms above the namespace's max_ttl_ms is cut to that. Outcomes:
--   10 renewed: ttl_ms that remains.
--   11 it ran out, whether or not somebody took the resource · 12 a newer token was granted · 13 released · 14 broken
--   15 no such lease is on record, such as a token above the newest, or a row that is gone
--   5  the lease row is locked by somebody.
-- p_careful = false takes the optimistic way first: one UPDATE of the leases that outlive `t` by more than 100 ms, right as long
-- as it ends before t + 100 ms; if it doesn't (it waited, or the machine is slow), or somebody changed a lease at the same
-- time, this raises 40001 and is to be sent again with p_careful = true, which locks first and never waits.
CREATE OR REPLACE FUNCTION holdfast.renew_batch(
    p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], p_careful boolean)
RETURNS TABLE (i int, outcome smallint, ttl_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    n int := pg_catalog.cardinality(p_ns);
    done int := 0;
    t timestamptz;
    sure timestamptz;
    rest_i int[];
    rest_ns text[];
    rest_resource text[];
    rest_token bigint[];
    rest_ttl_ms bigint[];
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    IF p_careful THEN
        RETURN QUERY SELECT * FROM holdfast.renew_locked(ARRAY(SELECT pg_catalog.generate_series(1, n)), p_ns, p_resource, p_token, p_ttl_ms);
        RETURN;
    END IF;
    t := holdfast.clock();
    sure := t + interval '100 ms';
    RETURN QUERY
    UPDATE holdfast.lease l SET deadline = greatest(l.deadline, t + least(x.ttl_ms, n.max_ttl_ms) * interval '1 ms')
    FROM unnest(p_ns, p_resource, p_token, p_ttl_ms) WITH ORDINALITY AS x(ns, resource, token, ttl_ms, i)
    JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    WHERE l.namespace = x.ns AND l.resource = x.resource AND l.token = x.token AND l.deadline > sure
    RETURNING x.i::int, 10::smallint, holdfast.ms(l.deadline - t);
    GET DIAGNOSTICS done = ROW_COUNT;
    IF holdfast.clock() > sure THEN
        RAISE EXCEPTION 'holdfast: the renewal took too long to be sure' USING ERRCODE = '40001';
    END IF;
    IF done = n THEN
        RETURN;
    END IF;
    -- What was renewed fits its token and lives; the rest does not.
    SELECT pg_catalog.array_agg(x.i::int), pg_catalog.array_agg(x.ns), pg_catalog.array_agg(x.resource),
        pg_catalog.array_agg(x.token), pg_catalog.array_agg(x.ttl_ms)
    INTO rest_i, rest_ns, rest_resource, rest_token, rest_ttl_ms
    FROM unnest(p_ns, p_resource, p_token, p_ttl_ms) WITH ORDINALITY AS x(ns, resource, token, ttl_ms, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    WHERE (n.name IS NOT NULL AND l.token = x.token AND l.deadline > sure) IS NOT TRUE;
    IF coalesce(pg_catalog.cardinality(rest_i), 0) <> n - done THEN
        RAISE EXCEPTION 'holdfast: a lease changed during its renewal' USING ERRCODE = '40001';
    END IF;
    RETURN QUERY SELECT * FROM holdfast.renew_locked(rest_i, rest_ns, rest_resource, rest_token, rest_ttl_ms);
END
$$;

-- What each item of a release gets: as acquire_verdicts; what isn't locked is looked for by its key. `freed`: outcome 20, and it is this release that ends the lease.
CREATE OR REPLACE FUNCTION holdfast.release_verdicts(
    p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamptz)
RETURNS TABLE (i int, ns text, resource text, token bigint, waiting boolean, l_tid tid, holder text, freed boolean, outcome smallint)
LANGUAGE sql STABLE AS $$
    SELECT x.i::int, x.ns, x.resource, x.token, r.waiting, l.ctid, l.holder,
        (l.token = x.token AND l.deadline > p_t) IS TRUE AND (p_unless_repeated[x.i] AND r.repeats > 0) IS NOT TRUE,
        CASE
            WHEN n.name IS NULL THEN 90
            WHEN l.resource IS NULL OR r.name IS NULL THEN CASE
                WHEN EXISTS (SELECT FROM holdfast.resource o WHERE o.namespace = x.ns AND o.name = x.resource)
                    AND EXISTS (SELECT FROM holdfast.lease o WHERE o.namespace = x.ns AND o.resource = x.resource) THEN 5
                ELSE 21 END
            WHEN l.token = x.token AND l.ended = 3 THEN 20
            WHEN l.token = x.token AND l.deadline > p_t AND (p_unless_repeated[x.i] AND r.repeats > 0) IS NOT TRUE THEN 20
            ELSE 21
        END::smallint
    FROM unnest(p_ns, p_resource, p_token, p_r_tid, p_l_tid) WITH ORDINALITY AS x(ns, resource, token, r_tid, l_tid, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.ctid = x.r_tid
    LEFT JOIN holdfast.lease l ON l.ctid = x.l_tid
$$;

-- Each item whose lease was live under this token has ended, and its resource is free at once. Outcomes:
--   20 it was held until now, or until an earlier copy of this release.
--   21 it was not: it ran out, was broken or taken over, or never was. Nothing changed.
--   5  the fence or the lease row is locked by somebody, such as a transaction that called guard().
-- Leaves an audit row a lease ended. p_unless_repeated: only if no repeat of the acquire that got it was answered, otherwise 21:
-- for a grant that could be told to nobody. next_server: of the servers that wait for the freed resource, the one that has waited
-- longest has the turn (05_waiters.sql), and must be told; otherwise ''. No turn is given if p_unless_repeated is NULL as a whole.
CREATE OR REPLACE FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[])
RETURNS TABLE (i int, outcome smallint, next_server text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    locked record := holdfast.lock_rows(p_ns, p_resource, false);
    t timestamptz := holdfast.clock();
    turns text[];
BEGIN
    IF locked.special THEN
        turns := holdfast.release_special(p_ns, p_resource, p_token, p_unless_repeated, locked.r_tid, locked.l_tid, t);
    END IF;
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT v.i, v.ns, v.resource, v.token, v.l_tid, v.holder, v.freed, v.outcome
        FROM holdfast.release_verdicts(p_ns, p_resource, p_token, p_unless_repeated, locked.r_tid, locked.l_tid, t) v
    ), freed AS (
        UPDATE holdfast.lease l SET deadline = '-infinity', ended = 3
        FROM d WHERE l.ctid = d.l_tid AND d.outcome = 20 AND d.freed
    ), audited AS (
        INSERT INTO holdfast.audit (namespace, resource, kind, token, actor)
        SELECT d.ns, d.resource, 'release', d.token, d.holder FROM d WHERE d.outcome = 20 AND d.freed
    )
    SELECT d.i, d.outcome, coalesce(turns[d.i], '') FROM d;
END
$$;

-- release_batch's closer look, where a server waits, or a namespace limits its leases: turns are given, and leases counted. By the
-- places of the items, who has the turn; NULL or '' = nobody.
CREATE OR REPLACE FUNCTION holdfast.release_special(
    p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamptz)
RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    turns text[] := pg_catalog.array_fill(NULL::text, ARRAY[pg_catalog.cardinality(p_ns)]);
    item record;
BEGIN
    FOR item IN SELECT v.i, v.ns, v.resource
        FROM holdfast.release_verdicts(p_ns, p_resource, p_token, p_unless_repeated, p_r_tid, p_l_tid, p_t) v
        WHERE v.outcome = 20 AND v.freed AND v.waiting
    LOOP
        EXIT WHEN p_unless_repeated IS NULL;
        turns[item.i] := holdfast.give_turn(item.ns, item.resource, p_t, NULL, NULL);
    END LOOP;
    PERFORM holdfast.uncount_leases(pg_catalog.array_agg(s.ns), pg_catalog.array_agg(s.n)) FROM (
        SELECT v.ns, count(*)::int AS n
        FROM holdfast.release_verdicts(p_ns, p_resource, p_token, p_unless_repeated, p_r_tid, p_l_tid, p_t) v
        WHERE v.outcome = 20 AND v.freed GROUP BY v.ns) s;
    RETURN turns;
END
$$;
