-- What the other files use: the clock, milliseconds, and the first of the three steps.
--
-- The three steps, which every function that decides about a lease takes in this order, each in a statement of its own:
--   1. lock the rows (never waiting: SKIP LOCKED; what somebody else has locked is BUSY),
--   2. in a new statement, whose snapshot is younger than the locks, read the lease, the clock and the floor,
--   3. write.
-- Acquire, Release and Break lock the fence row and the lease row; Write, Delete and guard() the fence row; Renew the lease
-- row. A statement that locks and decides at once decides by what was true before it waited.
--
-- A function that a server calls is never dropped, and neither its arguments nor its columns ever change, for older servers may be
-- calling it at this very moment: a call between the look-up of a function and its start fails if it is dropped. What needs another
-- form becomes another function beside it, of the same name and with other arguments, none of them with a default.
--
-- The functions ending in _batch take arrays of equal length, each key (namespace, resource) once, and return one row an item,
-- in any order, `i` being the item's place from 1. They should get their keys sorted. Outcomes are numbered as in enum
-- st_outcome of server/store/store.h. A namespace that does not exist or is retired: 90. They are written for sessions with
-- plan_cache_mode = force_generic_plan and hash join, merge join and seqscan off, so that no plan can flip.
-- Their arguments are called by place; names beginning with p_ keep them apart from columns.

-- What time it is. Everything in this schema takes the time from here, except the choice of audit partitions and the minute of
-- refusals, so that tests can replace it.
CREATE OR REPLACE FUNCTION holdfast.clock() RETURNS timestamptz LANGUAGE sql VOLATILE
AS $$ SELECT pg_catalog.clock_timestamp() $$;

-- Whole milliseconds of a finite interval, rounded down. (float8 is exact enough for microseconds; numeric is slow.)
CREATE OR REPLACE FUNCTION holdfast.ms(p_interval interval) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT pg_catalog.floor(pg_catalog.date_part('epoch', p_interval) * 1000 + 0.0005)::bigint $$;

-- Milliseconds since 1970; 0 for an infinite time. (By way of an interval: date_part of a timestamptz is not IMMUTABLE, and a function
-- that says to be more than what it calls is not inlined; PostgreSQL then parses it anew in every statement that uses it.)
CREATE OR REPLACE FUNCTION holdfast.unix_ms(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN pg_catalog.isfinite(p_at)
    THEN pg_catalog.floor(pg_catalog.date_part('epoch', p_at - timestamptz '1970-01-01 00:00:00+00') * 1000 + 0.0005)::bigint ELSE 0 END $$;

-- Locks are only followed by a younger snapshot at READ COMMITTED: above it a released lease still looks live. Raises 0A000.
-- (The batches look at the setting themselves first: a call costs as much as locking a row.)
CREATE OR REPLACE FUNCTION holdfast.require_read_committed() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'holdfast: transactions must be READ COMMITTED' USING ERRCODE = '0A000',
            DETAIL = 'Above it, what was true before a lock was had is taken for what is true now.';
    END IF;
END
$$;

-- Which of n places are among these; NULL = all of them. (A loop: a join would be quadratic without hash joins.)
CREATE OR REPLACE FUNCTION holdfast.flags(p_places int[], p_n int) RETURNS boolean[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    flags boolean[];
    place int;
BEGIN
    IF pg_catalog.cardinality(p_places) = p_n THEN
        RETURN NULL;
    END IF;
    flags := pg_catalog.array_fill(false, ARRAY[p_n]);
    FOREACH place IN ARRAY coalesce(p_places, '{}') LOOP
        flags[place] := true;
    END LOOP;
    RETURN flags;
END
$$;

-- The tids of these places, each at its place of n, NULL at the others.
CREATE OR REPLACE FUNCTION holdfast.spread(p_tids tid[], p_places int[], p_n int) RETURNS tid[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    tids tid[] := pg_catalog.array_fill(NULL::tid, ARRAY[p_n]);
BEGIN
    FOR k IN 1..coalesce(pg_catalog.cardinality(p_places), 0) LOOP
        tids[p_places[k]] := p_tids[k];
    END LOOP;
    RETURN tids;
END
$$;

-- Step 1 for a fence row *and* its lease row. Afterwards this transaction has locked both rows of each item that is `mine`; NULL =
-- of all items. Step 2 finds them by r_tid and l_tid, which are NULL for the other items: a locked row stays where it is until this
-- transaction changes it (then tids_again), and the statement that locks tells the tid of the version it has locked, which is the
-- newest and committed, so that every younger snapshot sees it there. A tid that is out of date would find nothing, which is BUSY.
--
-- With p_make, missing rows have been made before, free, in key order (so that two who make the same ones wait for
-- each other in one direction); this is the only wait, and lock_timeout ends it with 55P03. A lease row alone that is missing
-- (somebody deleted it) is made too. No rows are made in a namespace that does not exist or is retired.
-- `special`: a server waits for one of them, or a namespace limits its leases. Otherwise there is no need to look into that.
CREATE OR REPLACE FUNCTION holdfast.lock_rows(
    p_ns text[], p_resource text[], p_make boolean, OUT r_tid tid[], OUT l_tid tid[], OUT mine boolean[], OUT special boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n int := pg_catalog.cardinality(p_ns);
    got int[];
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    FOR attempt IN 1..2 LOOP
        -- The columns of a row locked here are its newest ones, also if somebody changed it since this began.
        SELECT pg_catalog.array_agg(s.i), pg_catalog.array_agg(s.r_tid), pg_catalog.array_agg(s.l_tid),
            coalesce(pg_catalog.bool_or(s.waiting), false) OR (CASE
            WHEN EXISTS (SELECT FROM holdfast.namespace n WHERE n.max_leases > 0)
            THEN EXISTS (SELECT FROM holdfast.namespace n WHERE n.max_leases > 0 AND n.name = ANY (p_ns)) ELSE false END)
        INTO got, r_tid, l_tid, special FROM (
            SELECT x.i::int, r.ctid AS r_tid, l.ctid AS l_tid, r.waiting
            FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
            JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
            JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
            ORDER BY x.i FOR NO KEY UPDATE OF r, l SKIP LOCKED) s;
        IF pg_catalog.cardinality(got) = n THEN
            RETURN;
        END IF;
        EXIT WHEN attempt = 2 OR NOT p_make;
        INSERT INTO holdfast.resource (namespace, name)
            SELECT x.ns, x.resource FROM unnest(p_ns, p_resource) AS x(ns, resource)
            JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
            WHERE NOT EXISTS (SELECT FROM holdfast.resource r WHERE r.namespace = x.ns AND r.name = x.resource)
            ORDER BY x.ns COLLATE "C", x.resource COLLATE "C"
            ON CONFLICT DO NOTHING;
        INSERT INTO holdfast.lease (namespace, resource)
            SELECT x.ns, x.resource FROM unnest(p_ns, p_resource) AS x(ns, resource)
            JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
            WHERE NOT EXISTS (SELECT FROM holdfast.lease l WHERE l.namespace = x.ns AND l.resource = x.resource)
            ORDER BY x.ns COLLATE "C", x.resource COLLATE "C"
            ON CONFLICT DO NOTHING;
    END LOOP;
    mine := holdfast.flags(got, n);
    r_tid := holdfast.spread(r_tid, got, n);
    l_tid := holdfast.spread(l_tid, got, n);
END
$$;

-- Where the rows are that lock_rows locked, now that this transaction has changed some of them.
CREATE OR REPLACE FUNCTION holdfast.tids_again(p_ns text[], p_resource text[], INOUT r_tid tid[], INOUT l_tid tid[])
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT pg_catalog.array_agg(s.r_tid), pg_catalog.array_agg(s.l_tid) INTO r_tid, l_tid FROM (
        SELECT r.ctid AS r_tid, l.ctid AS l_tid
        FROM unnest(p_ns, p_resource, r_tid) WITH ORDINALITY AS x(ns, resource, was, i)
        LEFT JOIN holdfast.resource r ON x.was IS NOT NULL AND r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON x.was IS NOT NULL AND l.namespace = x.ns AND l.resource = x.resource
        ORDER BY x.i) s;
END
$$;

-- lock_rows for those who look for themselves.
CREATE OR REPLACE FUNCTION holdfast.lock_pairs(p_ns text[], p_resource text[], p_make boolean) RETURNS boolean[]
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (holdfast.lock_rows(p_ns, p_resource, p_make)).mine;
END
$$;
