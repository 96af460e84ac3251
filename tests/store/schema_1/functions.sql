-- The functions of schema 1 as they were last, for upgrade_test.c. Never changed.
-- What the other files use: the clock, milliseconds, and the first of the three steps.
--
-- The three steps, which every function that decides about a lease takes in this order, each in a statement of its own:
--   1. lock the rows (never waiting: SKIP LOCKED; what somebody else has locked is BUSY),
--   2. in a new statement, whose snapshot is younger than the locks, read the lease, the clock and the floor,
--   3. write.
-- Acquire, Release and Break lock the fence row and the lease row; Write, Delete and guard() the fence row; Renew the lease
-- row. A statement that locks and decides at once decides by what was true before it waited.
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

-- Milliseconds since 1970; 0 for an infinite time.
CREATE OR REPLACE FUNCTION holdfast.unix_ms(p_at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN pg_catalog.isfinite(p_at) THEN pg_catalog.floor(pg_catalog.date_part('epoch', p_at) * 1000 + 0.0005)::bigint ELSE 0 END $$;

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

-- Step 1 for a fence row *and* its lease row. Afterwards this transaction has locked both rows of each item whose flag is true;
-- NULL = of all items. With p_make, missing rows have been made before, free, in key order (so that two who make the same ones
-- wait for each other in one direction); this is the only wait, and lock_timeout ends it with 55P03. A lease row alone that is
-- missing (somebody deleted it) is made too. No rows are made in a namespace that does not exist or is retired.
CREATE OR REPLACE FUNCTION holdfast.lock_pairs(p_ns text[], p_resource text[], p_make boolean) RETURNS boolean[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    n int := pg_catalog.cardinality(p_ns);
    got int[];
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT pg_catalog.array_agg(s.i) INTO got FROM (
            SELECT x.i::int FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
            JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
            JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
            FOR NO KEY UPDATE OF r, l SKIP LOCKED) s;
        IF pg_catalog.cardinality(got) = n THEN
            RETURN NULL;
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
    RETURN holdfast.flags(got, n);
END
$$;

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
        SELECT x.i, l.ctid AS l_tid, greatest(l.deadline, t + x.ttl_ms * interval '1 ms') AS deadline,
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
-- never revives a lease. Outcomes:
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
    UPDATE holdfast.lease l SET deadline = greatest(l.deadline, t + x.ttl_ms * interval '1 ms')
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

-- Each item whose lease was live under this token has ended, and its resource is free at once. Outcomes:
--   20 it was held until now, or until an earlier copy of this release.
--   21 it was not: it ran out, was broken or taken over, or never was. Nothing changed.
--   5  the fence or the lease row is locked by somebody, such as a transaction that called guard().
-- Leaves an audit row a lease ended.
CREATE OR REPLACE FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[])
RETURNS TABLE (i int, outcome smallint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    mine boolean[] := holdfast.lock_pairs(p_ns, p_resource, false);
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT x.i::int AS i, x.ns, x.resource, x.token, l.ctid AS l_tid, l.holder,
            (l.token = x.token AND l.deadline > t) IS TRUE AS held,
            CASE
                WHEN n.name IS NULL THEN 90
                WHEN l.resource IS NULL OR r.name IS NULL THEN 21
                WHEN x.mine IS FALSE THEN 5
                WHEN l.token = x.token AND (l.deadline > t OR l.ended = 3) THEN 20
                ELSE 21
            END::smallint AS outcome
        FROM unnest(p_ns, p_resource, p_token, mine) WITH ORDINALITY AS x(ns, resource, token, mine, i)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    ), freed AS (
        UPDATE holdfast.lease l SET deadline = '-infinity', ended = 3
        FROM d WHERE l.ctid = d.l_tid AND d.outcome = 20 AND d.held
    ), audited AS (
        INSERT INTO holdfast.audit (namespace, resource, kind, token, actor)
        SELECT d.ns, d.resource, 'release', d.token, d.holder FROM d WHERE d.outcome = 20 AND d.held
    )
    SELECT d.i, d.outcome FROM d;
END
$$;

-- Guarded writes.

-- Each item with outcome 30 is written (value NULL: deleted), under the newest token of its resource and a lease that was live
-- after its fence row was locked; no takeover can come before this transaction's end (P3). Outcomes, in this order:
--   31 write_seq was accepted under this token before, and nothing since: the version given then. Whatever the lease is by now.
--   35 write_seq is not above the last one accepted under this token (write_seq: that one), or was used for the other kind,
--      write or delete, or writes without write_seq came after it.
--   32 a newer token was granted, or this one's lease was broken. Counted in holdfast.refusal.
--   33 this token's lease ran out or was released, or the token was never granted.
--   34 expected was not NULL and is not the value's version: `version` is what it is, 0 = there is no value.
--   30 done: the value's new version. Deleting what is not there is done too and leaves the version as it was; 0 = never written.
--   5  the fence row is locked by somebody.
-- write_seq 0 = none: such a write can't be told from a repeat of it. `fence` is always the resource's.
-- Leaves an audit row if the namespace has audit_writes.
CREATE OR REPLACE FUNCTION holdfast.write_batch(
    p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[])
RETURNS TABLE (i int, outcome smallint, version bigint, fence bigint, write_seq bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    got int[];
    mine boolean[];
    t timestamptz;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    SELECT pg_catalog.array_agg(s.i) INTO got FROM (
        SELECT x.i::int FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
        JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        FOR NO KEY UPDATE OF r SKIP LOCKED) s;
    IF pg_catalog.cardinality(got) IS DISTINCT FROM pg_catalog.cardinality(p_ns) THEN
        mine := holdfast.flags(got, pg_catalog.cardinality(p_ns));
    END IF;
    t := holdfast.clock();
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT x.i::int AS i, x.ns, x.resource, x.token, x.write_seq, x.value, n.audit_writes, v.ctid AS v_tid,
            coalesce(r.fence, 0) AS fence, coalesce(v.version, 0) AS version, v.value IS NOT NULL AS there,
            CASE WHEN v.token = x.token THEN v.write_seq ELSE 0 END AS last_seq,
            CASE WHEN v.token = x.token THEN v.seq_version ELSE 0 END AS last_seq_version,
            coalesce(v.version, 0) + CASE WHEN x.value IS NULL AND v.value IS NULL THEN 0 ELSE 1 END AS new_version,
            CASE
                WHEN n.name IS NULL THEN 90
                WHEN r.name IS NULL THEN 33
                WHEN x.mine IS FALSE THEN 5
                WHEN x.write_seq > 0 AND v.token = x.token AND v.write_seq >= x.write_seq THEN
                    CASE WHEN v.write_seq = x.write_seq AND v.seq_version = v.version AND (v.value IS NULL) = (x.value IS NULL)
                        THEN 31 ELSE 35 END
                WHEN x.token < r.fence THEN 32
                WHEN x.token > r.fence OR (l.token = x.token AND l.deadline > t) IS NOT TRUE THEN 33
                WHEN x.expected <> CASE WHEN v.value IS NULL THEN 0 ELSE v.version END THEN 34
                ELSE 30
            END::smallint AS outcome
        FROM unnest(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, mine) WITH ORDINALITY
            AS x(ns, resource, token, write_seq, value, expected, mine, i)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
        LEFT JOIN holdfast.resource_value v ON v.namespace = x.ns AND v.resource = x.resource
    ), changed AS (
        UPDATE holdfast.resource_value v SET
            value = d.value, version = d.new_version, token = d.token, updated_at = t,
            write_seq = CASE WHEN d.write_seq > 0 THEN d.write_seq ELSE d.last_seq END,
            seq_version = CASE WHEN d.write_seq > 0 THEN d.new_version ELSE d.last_seq_version END
        FROM d WHERE v.ctid = d.v_tid AND d.outcome = 30
    ), made AS (
        INSERT INTO holdfast.resource_value (namespace, resource, version, token, write_seq, seq_version, updated_at, value)
        SELECT d.ns, d.resource, d.new_version, d.token, d.write_seq, CASE WHEN d.write_seq > 0 THEN d.new_version ELSE 0 END, t, d.value
        FROM d WHERE d.v_tid IS NULL AND d.outcome = 30
    ), audited AS (
        INSERT INTO holdfast.audit (namespace, resource, kind, token, prior)
        SELECT d.ns, d.resource, CASE WHEN d.value IS NULL THEN 'delete' ELSE 'write' END, d.token, d.new_version
        FROM d WHERE d.outcome = 30 AND d.audit_writes
    ), refused AS (
        INSERT INTO holdfast.refusal AS f (namespace, resource, token, minute, refusals)
        SELECT d.ns, d.resource, d.token, pg_catalog.date_trunc('minute', pg_catalog.clock_timestamp()), 1 FROM d WHERE d.outcome = 32
        ON CONFLICT (namespace, resource, token, minute) DO UPDATE SET refusals = f.refusals + 1
    )
    SELECT d.i, d.outcome,
        CASE d.outcome WHEN 30 THEN d.new_version WHEN 34 THEN CASE WHEN d.there THEN d.version ELSE 0 END ELSE d.version END,
        d.fence, CASE WHEN d.outcome = 30 AND d.write_seq > 0 THEN d.write_seq ELSE d.last_seq END
    FROM d;
END
$$;

-- What only reads: no locks, so no promise beyond the moment. A fence of 0 (a row made for an acquire that was then refused) is
-- as good as no row. Lists come in the order of the names' bytes, names above `p_after`, one row more than p_max if there is
-- more; a namespace that does not exist or is retired gives one row with outcome 90, and an empty list gives none.

-- The greatest string of at most 256 bytes that begins with this: U+10FFFF has the highest bytes of UTF-8.
CREATE OR REPLACE FUNCTION holdfast.prefix_end(p_prefix text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT p_prefix || pg_catalog.repeat(pg_catalog.chr(1114111), 64) $$;

-- A verdict on tokens. Outcomes: 40 the newest token, and its lease is live (remaining_ms) · 32 a newer one exists, or this one's
-- lease was broken · 33 its lease ran out or was released, or the token was never granted. `fence` is 0 if there is none.
CREATE OR REPLACE FUNCTION holdfast.check_batch(p_ns text[], p_resource text[], p_token bigint[])
RETURNS TABLE (i int, outcome smallint, fence bigint, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    SELECT x.i::int, o.outcome, coalesce(r.fence, 0), CASE WHEN o.outcome = 40 THEN holdfast.ms(l.deadline - t) ELSE 0 END
    FROM unnest(p_ns, p_resource, p_token) WITH ORDINALITY AS x(ns, resource, token, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
    LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    CROSS JOIN LATERAL (SELECT CASE
        WHEN n.name IS NULL THEN 90
        WHEN x.token < r.fence THEN 32
        WHEN x.token = r.fence AND l.token = x.token AND l.deadline > t THEN 40
        ELSE 33 END::smallint AS outcome) o;
END
$$;

-- Values. Outcomes: 50, with "exists" false if there is no value (version: of what was deleted; 0 = never written) · 51 nobody
-- ever leased it. `token` is that of the last write or delete.
CREATE OR REPLACE FUNCTION holdfast.read_batch(p_ns text[], p_resource text[])
RETURNS TABLE (i int, outcome smallint, value bytea, "exists" boolean, version bigint, fence bigint, token bigint, updated_unix_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT x.i::int, (CASE WHEN n.name IS NULL THEN 90 WHEN r.fence > 0 THEN 50 ELSE 51 END)::smallint,
        v.value, v.value IS NOT NULL, coalesce(v.version, 0), coalesce(r.fence, 0), coalesce(v.token, 0),
        coalesce(holdfast.unix_ms(v.updated_at), 0)
    FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.namespace = n.name AND r.name = x.resource
    LEFT JOIN holdfast.resource_value v ON v.namespace = r.namespace AND v.resource = r.name;
END
$$;

-- A lease's labels as name, value, name, value, …; NULL if it has none.
CREATE OR REPLACE FUNCTION holdfast.flat_labels(p_labels jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN p_labels IS NOT NULL THEN (
        SELECT pg_catalog.array_agg(u.x ORDER BY e.k, u.j) FROM pg_catalog.jsonb_each_text(p_labels) WITH ORDINALITY AS e(name, value, k),
            LATERAL (VALUES (1, e.name), (2, e.value)) AS u(j, x)) END
$$;

-- The lease of each resource, live or ended. Outcomes: 50 · 51 it was never leased, as far as is recorded. `state`: 1 live, 2 ran
-- out, 3 released, 4 broken. `fence` is above `token` after a break.
CREATE OR REPLACE FUNCTION holdfast.get_batch(p_ns text[], p_resource text[])
RETURNS TABLE (i int, outcome smallint, resource text, task text, holder text, request_id text, token bigint, fence bigint,
    remaining_ms bigint, granted_unix_ms bigint, state smallint, labels text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    SELECT x.i::int, (CASE WHEN n.name IS NULL THEN 90 WHEN l.token > 0 THEN 50 ELSE 51 END)::smallint,
        x.resource, coalesce(l.task, ''), coalesce(l.holder, ''),
        CASE WHEN r.grant_token = l.token THEN r.request_id ELSE '' END,
        coalesce(l.token, 0), coalesce(r.fence, 0),
        CASE WHEN l.deadline > t THEN holdfast.ms(l.deadline - t) ELSE 0 END,
        coalesce(holdfast.unix_ms(l.granted_at), 0),
        (CASE WHEN l.deadline > t THEN 1 WHEN l.ended <> 0 THEN l.ended ELSE 2 END)::smallint,
        holdfast.flat_labels(l.labels)
    FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.namespace = n.name AND r.name = x.resource
    LEFT JOIN holdfast.lease l ON l.namespace = r.namespace AND l.resource = r.name;
END
$$;

-- Live leases whose resource begins with p_prefix, of this task and holder ('' = any); columns as get_batch.
CREATE OR REPLACE FUNCTION holdfast.list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max int)
RETURNS TABLE (outcome smallint, resource text, task text, holder text, request_id text, token bigint, fence bigint,
    remaining_ms bigint, granted_unix_ms bigint, state smallint, labels text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, ''::text, ''::text, ''::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
            0::smallint, NULL::text[];
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, l.resource::text, l.task, l.holder, CASE WHEN r.grant_token = l.token THEN r.request_id ELSE '' END::text, l.token,
        coalesce(r.fence, 0), holdfast.ms(l.deadline - t), holdfast.unix_ms(l.granted_at), 1::smallint,
        holdfast.flat_labels(l.labels)
    FROM holdfast.lease l LEFT JOIN holdfast.resource r ON r.namespace = l.namespace AND r.name = l.resource
    WHERE l.namespace = p_ns AND l.resource >= p_prefix AND l.resource <= holdfast.prefix_end(p_prefix) AND l.resource > p_after
        AND l.deadline > t AND (p_task = '' OR l.task = p_task) AND (p_holder = '' OR l.holder = p_holder)
    ORDER BY l.resource LIMIT p_max + 1;
END
$$;

-- Resources ever leased whose name begins with p_prefix.
CREATE OR REPLACE FUNCTION holdfast.list_resources(p_ns text, p_prefix text, p_after text, p_max int)
RETURNS TABLE (outcome smallint, resource text, fence bigint, version bigint, value_bytes bigint, "exists" boolean, leased boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, 0::bigint, 0::bigint, 0::bigint, false, false;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, r.name::text, r.fence, coalesce(v.version, 0), coalesce(pg_catalog.octet_length(v.value), 0)::bigint,
        v.value IS NOT NULL, coalesce(l.deadline > t, false)
    FROM holdfast.resource r
    LEFT JOIN holdfast.lease l ON l.namespace = r.namespace AND l.resource = r.name
    LEFT JOIN holdfast.resource_value v ON v.namespace = r.namespace AND v.resource = r.name
    WHERE r.namespace = p_ns AND r.name >= p_prefix AND r.name <= holdfast.prefix_end(p_prefix) AND r.name > p_after AND r.fence > 0
    ORDER BY r.name LIMIT p_max + 1;
END
$$;

-- Live leases (counted), resources (as the planner's statistics have them), and the schema's version.
CREATE OR REPLACE FUNCTION holdfast.stats() RETURNS TABLE (leases_live bigint, resources bigint, schema_version bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY SELECT
        (SELECT count(*) FROM holdfast.lease l WHERE l.deadline > t),
        (SELECT greatest(c.reltuples, 0)::bigint FROM pg_catalog.pg_class c WHERE c.oid = 'holdfast.resource'::regclass),
        (SELECT coalesce(max(m.version), 0)::bigint FROM holdfast.migration m);
END
$$;

-- For operators and for the server itself: Break, floors, partitions, and whether this is still the same database.

-- Which backend holds a row whose xmax is this; 0 if it cannot be told, such as when it has just gone. xmax is either the one
-- transaction that locks the row, or a multixact: nothing in SQL says which, so it is looked for among the running ones first.
CREATE OR REPLACE FUNCTION holdfast.row_blocker(p_xmax xid) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    found_pid int;
BEGIN
    SELECT k.pid INTO found_pid FROM pg_catalog.pg_locks k
    WHERE k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted AND k.transactionid = p_xmax LIMIT 1;
    IF FOUND THEN
        RETURN CASE WHEN found_pid = pg_catalog.pg_backend_pid() THEN 0 ELSE found_pid END;
    END IF;
    SELECT k.pid INTO found_pid FROM pg_catalog.pg_get_multixact_members(p_xmax) m
    JOIN pg_catalog.pg_locks k ON k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted AND k.transactionid = m.xid
    WHERE k.pid <> pg_catalog.pg_backend_pid() LIMIT 1;
    RETURN coalesce(found_pid, 0);
EXCEPTION
    WHEN OTHERS THEN RETURN 0; -- there is no such multixact
END
$$;

-- Locks the fence row and the lease row of one resource, waiting 20 ms at most. NULL = they are locked; otherwise the pid of
-- who holds one of them, 0 if it cannot be told.
CREATE OR REPLACE FUNCTION holdfast.lock_or_blocker(p_ns text, p_resource text) RETURNS int
LANGUAGE plpgsql VOLATILE SET lock_timeout = '20ms' AS $$
DECLARE
    pid int;
BEGIN
    BEGIN
        PERFORM FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource FOR NO KEY UPDATE OF r;
        PERFORM FROM holdfast.lease l WHERE l.namespace = p_ns AND l.resource = p_resource FOR NO KEY UPDATE OF l;
        RETURN NULL;
    EXCEPTION
        WHEN lock_not_available THEN NULL;
    END;
    pid := (SELECT holdfast.row_blocker(r.xmax) FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource);
    IF coalesce(pid, 0) = 0 THEN
        pid := (SELECT holdfast.row_blocker(l.xmax) FROM holdfast.lease l WHERE l.namespace = p_ns AND l.resource = p_resource);
    END IF;
    RETURN coalesce(pid, 0);
END
$$;

-- Ends the lease whose token was seen, live or run out, and raises the fence above it, so that its holder's writes are refused
-- from the commit on. A newer lease is never touched. Outcomes:
--   60 done, or done by an earlier copy of this: `fence`.
--   61 that lease had ended before: `fence` is the newest token, `live` whether its lease is.
--   62 backend `pid` (0 = unknown) has locked the resource, such as a transaction that called guard(); nothing changed.
--   51 it was never leased.
-- Leaves an audit row with actor and reason.
CREATE OR REPLACE FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text)
RETURNS TABLE (outcome smallint, fence bigint, live boolean, pid int)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    blocker int;
    t timestamptz;
    floor bigint;
    r record;
    l record;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, 0::bigint, false, 0;
        RETURN;
    END IF;
    blocker := holdfast.lock_or_blocker(p_ns, p_resource);
    IF blocker IS NOT NULL THEN
        RETURN QUERY SELECT 62::smallint, 0::bigint, false, blocker;
        RETURN;
    END IF;
    t := holdfast.clock();
    SELECT n.fence_floor INTO floor FROM holdfast.namespace n WHERE n.name = p_ns;
    SELECT x.fence INTO r FROM holdfast.resource x WHERE x.namespace = p_ns AND x.name = p_resource;
    IF NOT FOUND OR r.fence = 0 THEN
        RETURN QUERY SELECT 51::smallint, 0::bigint, false, 0;
        RETURN;
    END IF;
    SELECT x.token, x.deadline, x.ended, x.deadline > t AS live INTO l FROM holdfast.lease x WHERE x.namespace = p_ns AND x.resource = p_resource;
    IF NOT FOUND OR l.token <> p_token_seen OR l.ended = 3 THEN
        RETURN QUERY SELECT 61::smallint, r.fence, coalesce(l.live, false), 0;
        RETURN;
    END IF;
    -- attach() ends leases as broken and leaves their fences alone: such a one is broken here for good.
    IF l.ended = 0 OR r.fence <= l.token THEN
        r.fence := greatest(r.fence, floor) + 1;
        UPDATE holdfast.resource x SET fence = r.fence WHERE x.namespace = p_ns AND x.name = p_resource;
        UPDATE holdfast.lease x SET deadline = '-infinity', ended = 4 WHERE x.namespace = p_ns AND x.resource = p_resource;
        INSERT INTO holdfast.audit (namespace, resource, kind, token, prior, actor, detail)
            VALUES (p_ns, p_resource, 'break', p_token_seen, r.fence, p_actor, p_reason);
    END IF;
    RETURN QUERY SELECT 60::smallint, r.fence, false, 0;
END
$$;

-- The namespace's floor is at least p_at_least and at least every fence in it, so that every later grant's token is above both.
-- Outcomes: 50, with the floor · 90. Leaves an audit row. At most 2^62, so that there is room to count on.
CREATE OR REPLACE FUNCTION holdfast.advance_fences(p_ns text, p_at_least bigint, p_actor text, p_reason text)
RETURNS TABLE (outcome smallint, floor bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    before bigint;
    highest bigint;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF p_at_least < 0 OR p_at_least > 4611686018427387904 THEN
        RAISE EXCEPTION 'holdfast: at_least must be from 0 to 2^62' USING ERRCODE = '22023';
    END IF;
    SELECT n.fence_floor INTO before FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 90::smallint, 0::bigint;
        RETURN;
    END IF;
    SELECT greatest(before, p_at_least, coalesce(pg_catalog.max(r.fence), 0)) INTO highest FROM holdfast.resource r WHERE r.namespace = p_ns;
    UPDATE holdfast.namespace n SET fence_floor = highest WHERE n.name = p_ns;
    INSERT INTO holdfast.audit (namespace, kind, token, prior, actor, detail) VALUES (p_ns, 'floor', highest, before, p_actor, p_reason);
    RETURN QUERY SELECT 50::smallint, highest;
END
$$;

-- This database is the one on record, or the record has been brought up to date. To be called on each new connection before it
-- serves. After a fail-over or a restore the newest grants may be missing here, so that their tokens would be given again, and
-- leases of the past would look live: if the cluster's system identifier or timeline is not that on record, every namespace's
-- floor jumps by 2^20 above all its fences, and every lease still live is ended as BROKEN; then true. Otherwise false. Of several
-- callers one does it and the others wait for it. Raises 55000 on a standby.
CREATE OR REPLACE FUNCTION holdfast.attach() RETURNS boolean
LANGUAGE plpgsql VOLATILE SET lock_timeout = '30s' AS $$
DECLARE
    system_id bigint := (SELECT c.system_identifier FROM pg_catalog.pg_control_system() c);
    line text := pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8);
    known record;
BEGIN
    SELECT * INTO known FROM holdfast.identity;
    IF known.system_identifier = system_id AND known.timeline = line THEN
        RETURN false;
    END IF;
    PERFORM holdfast.require_read_committed();
    INSERT INTO holdfast.identity (system_identifier, timeline) VALUES (system_id, line) ON CONFLICT DO NOTHING;
    SELECT * INTO known FROM holdfast.identity FOR UPDATE;
    IF known.system_identifier = system_id AND known.timeline = line THEN
        RETURN false;
    END IF;
    UPDATE holdfast.identity SET system_identifier = system_id, timeline = line, noted_at = pg_catalog.clock_timestamp();
    IF known.commits_replicated AND known.system_identifier = system_id THEN
        RETURN false;
    END IF;
    -- Leases first: this waits for whoever is granting one at this moment, so that the floors are above its fence too.
    WITH ended AS (
        UPDATE holdfast.lease l SET deadline = '-infinity', ended = 4 WHERE l.deadline > holdfast.clock()
        RETURNING l.namespace, l.resource, l.token
    )
    INSERT INTO holdfast.audit (namespace, resource, kind, token, actor, detail)
    SELECT e.namespace, e.resource, 'break', e.token, 'holdfast',
        pg_catalog.format('the database changed: system %s timeline %s, then system %s timeline %s', known.system_identifier,
            known.timeline, system_id, line)
    FROM ended e;
    WITH highest AS (
        SELECT n.name, n.fence_floor AS before, greatest(n.fence_floor, coalesce((
            SELECT pg_catalog.max(r.fence) FROM holdfast.resource r WHERE r.namespace = n.name), 0)) + 1048576 AS floor
        FROM holdfast.namespace n
    ), raised AS (
        UPDATE holdfast.namespace n SET fence_floor = h.floor FROM highest h WHERE n.name = h.name
    )
    INSERT INTO holdfast.audit (namespace, kind, token, prior, actor, detail)
    SELECT h.name, 'floor', h.floor, h.before, 'holdfast', 'the database changed' FROM highest h;
    RETURN true;
END
$$;

-- The audit has partitions for this month and the p_months_ahead that follow (UTC). How many were made. Passes beside inserts:
-- a table made by LIKE and then attached blocks nobody, where CREATE TABLE … PARTITION OF would.
CREATE OR REPLACE FUNCTION holdfast.make_partitions(p_months_ahead int) RETURNS int
LANGUAGE plpgsql VOLATILE SET lock_timeout = '10s' AS $$
DECLARE
    this_month timestamp := pg_catalog.date_trunc('month', pg_catalog.timezone('UTC', pg_catalog.clock_timestamp()));
    month timestamp;
    part text;
    made int := 0;
BEGIN
    PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('holdfast.make_partitions'));
    FOR k IN 0..p_months_ahead LOOP
        month := this_month + pg_catalog.make_interval(months => k);
        part := 'audit_' || pg_catalog.to_char(month, 'YYYY_MM');
        CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = 'holdfast.audit'::regclass
            AND h.inhrelid = pg_catalog.to_regclass('holdfast.' || part));
        EXECUTE pg_catalog.format('CREATE TABLE holdfast.%I (LIKE holdfast.audit INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
        EXECUTE pg_catalog.format('ALTER TABLE holdfast.audit ATTACH PARTITION holdfast.%I FOR VALUES FROM (%L) TO (%L)', part,
            month || '+00', (month + interval '1 month') || '+00');
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

-- The SQL interface: for users' own tables in this database.

-- From here to the end of the caller's transaction, `token` is the newest token of `resource`, its lease was live when this
-- returned, and no takeover, release, break or write through the server comes before that end (P3): they find the resource
-- guarded, and wait or give up. So what the transaction writes is written by the rightful holder.
--     BEGIN;  SELECT holdfast.guard('default', 'orders/7', 42);  UPDATE my_orders SET …;  COMMIT;
-- Raises, and with that ends the caller's transaction:
--     HF001  a newer token was granted, or this one's lease was broken: this holder's right is gone.
--     HF002  the lease of this token ran out or was released, or the token or the resource or the namespace never was.
--     42501  no role of the session's user is mapped to the namespace (holdfast.allow_role); superusers need no mapping.
--     0A000  the transaction is above READ COMMITTED, or in a savepoint or a block with EXCEPTION, whose rollback would give
--            the lock back while the outer transaction goes on.
-- The transaction's idle timeout becomes what remains of the lease, at most the namespace's guard_idle_cap_ms, so that a holder
-- that stops in the middle doesn't keep the resource for ever. The caller must not write to this resource through the server
-- meanwhile. Refusals are not audited: they roll back with the caller.
CREATE OR REPLACE FUNCTION holdfast.guard(namespace text, resource text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_ns CONSTANT text := $1;
    in_resource CONSTANT text := $2;
    in_token CONSTANT bigint := $3;
    n record;
    r record;
    l record;
    t timestamptz;
    idle_ms bigint;
    idle_now bigint;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT (SELECT u.rolsuper FROM pg_roles u WHERE u.rolname = session_user) AND NOT EXISTS (
        SELECT FROM holdfast.sql_role m JOIN pg_roles u ON u.rolname = m.role
        WHERE m.namespace = in_ns AND pg_has_role(session_user, u.oid, 'MEMBER')) THEN
        RAISE EXCEPTION 'holdfast: role "%" may not use namespace "%"', session_user, in_ns USING ERRCODE = '42501',
            HINT = 'An operator maps it: SELECT holdfast.allow_role(role, namespace).';
    END IF;

    PERFORM FROM holdfast.resource x WHERE x.namespace = in_ns AND x.name = in_resource FOR SHARE;
    IF FOUND AND NOT holdfast.locked_by_top_level(in_ns, in_resource) THEN
        RAISE EXCEPTION 'holdfast: guard() must be called outside savepoints and EXCEPTION blocks' USING ERRCODE = '0A000',
            DETAIL = 'Rolling back to a savepoint gives the lock back, and then nothing is guarded any more.';
    END IF;

    -- A new statement, so that it sees what became true while this waited for the lock.
    t := holdfast.clock();
    SELECT x.guard_idle_cap_ms INTO n FROM holdfast.namespace x WHERE x.name = in_ns AND x.retired_at IS NULL;
    SELECT x.fence INTO r FROM holdfast.resource x WHERE x.namespace = in_ns AND x.name = in_resource;
    SELECT x.token, x.deadline INTO l FROM holdfast.lease x WHERE x.namespace = in_ns AND x.resource = in_resource;
    IF in_token < r.fence AND n.guard_idle_cap_ms IS NOT NULL THEN
        RAISE EXCEPTION 'holdfast: token % of "%" is stale: the fence is %', in_token, in_resource, r.fence USING ERRCODE = 'HF001';
    END IF;
    IF n.guard_idle_cap_ms IS NULL OR (in_token = r.fence AND l.token = in_token AND l.deadline > t) IS NOT TRUE THEN
        RAISE EXCEPTION 'holdfast: the lease of token % of "%" is not held', in_token, in_resource USING ERRCODE = 'HF002';
    END IF;

    idle_ms := greatest(1, least(holdfast.ms(l.deadline - t), n.guard_idle_cap_ms));
    idle_now := (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = 'idle_in_transaction_session_timeout');
    IF idle_now = 0 OR idle_now > idle_ms THEN
        PERFORM set_config('idle_in_transaction_session_timeout', idle_ms::text, true);
    END IF;
END
$$;

-- Whether the lock this transaction has on the fence row belongs to its top level, not to a savepoint. A row's xmax is the
-- (sub)transaction that locks it, or a multixact if several do.
CREATE OR REPLACE FUNCTION holdfast.locked_by_top_level(p_ns text, p_resource text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    top CONSTANT xid := pg_catalog.pg_current_xact_id()::xid;
    locker xid := (SELECT r.xmax FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource);
BEGIN
    IF locker = top THEN
        RETURN true;
    END IF;
    RETURN EXISTS (SELECT FROM pg_catalog.pg_get_multixact_members(locker) m WHERE m.xid = top);
EXCEPTION
    WHEN OTHERS THEN RETURN false; -- there is no such multixact: it was a subtransaction
END
$$;

-- Sessions of this role (or of a member of it) may use this namespace through guard(), and may call it at all. Raises 42704 if
-- there is no such role or namespace.
CREATE OR REPLACE FUNCTION holdfast.allow_role(role name, namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = $2) THEN
        RAISE EXCEPTION 'holdfast: there is no namespace "%"', $2 USING ERRCODE = '42704';
    END IF;
    INSERT INTO holdfast.sql_role (namespace, role) VALUES ($2, $1) ON CONFLICT DO NOTHING;
    IF NOT pg_catalog.pg_has_role($1, 'holdfast_user', 'MEMBER') THEN
        EXECUTE pg_catalog.format('GRANT holdfast_user TO %I', $1);
    END IF;
END
$$;

-- Who may call what: nobody but the owner, except guard(), which holdfast_user may. Last, after all functions exist.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC;
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'holdfast_user') THEN
        GRANT USAGE ON SCHEMA holdfast TO holdfast_user;
        GRANT EXECUTE ON FUNCTION holdfast.guard(text, text, bigint) TO holdfast_user;
    END IF;
    PERFORM holdfast.make_partitions(1);
END
$$;

