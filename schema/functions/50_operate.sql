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
-- Leaves an audit row with actor and reason. With p_turn the longest-waiting server has the turn now: next_server, to be told;
-- otherwise ''.
CREATE OR REPLACE FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text, p_turn boolean)
RETURNS TABLE (outcome smallint, fence bigint, live boolean, pid int, next_server text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    blocker int;
    t timestamptz;
    floor bigint;
    r record;
    l record;
    turn text := '';
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, 0::bigint, false, 0, ''::text;
        RETURN;
    END IF;
    blocker := holdfast.lock_or_blocker(p_ns, p_resource);
    IF blocker IS NOT NULL THEN
        RETURN QUERY SELECT 62::smallint, 0::bigint, false, blocker, ''::text;
        RETURN;
    END IF;
    t := holdfast.clock();
    SELECT n.fence_floor INTO floor FROM holdfast.namespace n WHERE n.name = p_ns;
    SELECT x.fence, x.waiting INTO r FROM holdfast.resource x WHERE x.namespace = p_ns AND x.name = p_resource;
    IF NOT FOUND OR r.fence = 0 THEN
        RETURN QUERY SELECT 51::smallint, 0::bigint, false, 0, ''::text;
        RETURN;
    END IF;
    SELECT x.token, x.deadline, x.ended, x.deadline > t AS live INTO l FROM holdfast.lease x WHERE x.namespace = p_ns AND x.resource = p_resource;
    IF NOT FOUND OR l.token <> p_token_seen OR l.ended = 3 THEN
        RETURN QUERY SELECT 61::smallint, r.fence, coalesce(l.live, false), 0, ''::text;
        RETURN;
    END IF;
    -- attach() ends leases as broken and leaves their fences alone: such a one is broken here for good.
    IF l.ended IN (0, 2) OR r.fence <= l.token THEN
        r.fence := greatest(r.fence, floor) + 1;
        UPDATE holdfast.resource x SET fence = r.fence WHERE x.namespace = p_ns AND x.name = p_resource;
        UPDATE holdfast.lease x SET deadline = '-infinity', ended = 4 WHERE x.namespace = p_ns AND x.resource = p_resource;
        INSERT INTO holdfast.audit (namespace, resource, kind, token, prior, actor, detail)
            VALUES (p_ns, p_resource, 'break', p_token_seen, r.fence, p_actor, p_reason);
        IF l.ended = 0 THEN
            PERFORM holdfast.uncount_leases(ARRAY[p_ns], ARRAY[1]);
        END IF;
        IF p_turn AND r.waiting AND NOT EXISTS (SELECT FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource
            AND w.turn_until IS NOT NULL) THEN
            turn := holdfast.give_turn(p_ns, p_resource, t, NULL, NULL);
        END IF;
    END IF;
    RETURN QUERY SELECT 60::smallint, r.fence, false, 0, turn;
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
-- floor jumps by 2^20 above all its fences, and every lease still live is ended as BROKEN, those of attempts too, whose tokens jump as
-- far; then true. Otherwise false. Of several callers one does it and the others wait for it. Raises 55000 on a standby.
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
    UPDATE holdfast.usage u SET leases = c.leases FROM holdfast.usage k, holdfast.count_usage(k.namespace) c WHERE u.namespace = k.namespace;
    -- Attempts end in the same way, whatever may have become of them: op_start settles them.
    UPDATE holdfast.operation o SET deadline = '-infinity' WHERE o.state = 2 AND o.deadline > '-infinity';
    PERFORM pg_catalog.setval('holdfast.operation_token', 1048576 + greatest((SELECT q.last_value FROM holdfast.operation_token q),
        (SELECT pg_catalog.max(o.token) FROM holdfast.operation o)));
    WITH highest AS (
        SELECT n.name, n.fence_floor AS before, greatest(n.fence_floor, coalesce((
            SELECT pg_catalog.max(r.fence) FROM holdfast.resource r WHERE r.namespace = n.name), 0)) + 1048576 AS floor
        FROM holdfast.namespace n
    ), raised AS (
        UPDATE holdfast.namespace n SET fence_floor = h.floor FROM highest h WHERE n.name = h.name
    )
    INSERT INTO holdfast.audit (namespace, kind, token, prior, actor, detail)
    SELECT h.name, 'floor', h.floor, h.before, 'holdfast', 'the database changed' FROM highest h;
    -- Keys made or revoked may have been lost: servers read all of them anew.
    UPDATE holdfast.auth_state SET epoch = pg_catalog.gen_random_uuid();
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

-- Partitions of the audit that are older than every namespace keeps, and statements that remove one beside traffic: to be run in
-- this order, each by itself and outside a transaction, so not in a pipeline. Also finishes what a server that was killed began.
-- A partition is removed once its last row is older than the longest audit_keep_days.
CREATE OR REPLACE FUNCTION holdfast.old_partitions() RETURNS TABLE (name text, statements text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    keep int := (SELECT pg_catalog.max(n.audit_keep_days) FROM holdfast.namespace n);
    until timestamp := pg_catalog.timezone('UTC', pg_catalog.clock_timestamp()) - pg_catalog.make_interval(days => keep);
BEGIN
    RETURN QUERY
    SELECT c.relname::text, CASE
        WHEN h.inhrelid IS NULL THEN ARRAY[]::text[]
        WHEN h.inhdetachpending THEN ARRAY[pg_catalog.format('ALTER TABLE holdfast.audit DETACH PARTITION holdfast.%I FINALIZE', c.relname)]
        ELSE ARRAY[pg_catalog.format('ALTER TABLE holdfast.audit DETACH PARTITION holdfast.%I CONCURRENTLY', c.relname)] END
        || pg_catalog.format('DROP TABLE holdfast.%I', c.relname)
    FROM pg_catalog.pg_class c
    LEFT JOIN pg_catalog.pg_inherits h ON h.inhrelid = c.oid AND h.inhparent = 'holdfast.audit'::regclass
    WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^audit_[0-9]{4}_[0-9]{2}$'
        AND pg_catalog.to_date(pg_catalog.right(c.relname, 7), 'YYYY_MM') + interval '1 month' <= until
    ORDER BY c.relname;
END
$$;

-- What only tidies up is done, at most p_max rows of each kind: leases that ran out get their audit row (note_expired), attempts whose
-- lease ended are settled (op_sweep), operations that nobody has to keep are purged (purge_operations), servers that wait no more are
-- forgotten, counts of refusals are dropped when they are older than the namespace keeps them, and what is counted for quotas is
-- counted anew. How many rows; 0 also while another server sweeps. Nothing that anybody is answered depends on it.
CREATE OR REPLACE FUNCTION holdfast.sweep(p_max int) RETURNS int
LANGUAGE plpgsql VOLATILE SET enable_seqscan = on AS $$
DECLARE
    t timestamptz;
    spaces text[];
    names text[];
    done int;
    n int;
    counted record;
    used record;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtext('holdfast.sweep')) THEN
        RETURN 0;
    END IF;
    t := holdfast.clock();
    done := holdfast.note_expired(NULL, p_max, t) + holdfast.op_sweep(p_max) + holdfast.purge_operations(p_max);

    SELECT pg_catalog.array_agg(s.namespace), pg_catalog.array_agg(s.name) INTO spaces, names FROM (
        SELECT r.namespace, r.name FROM holdfast.resource r JOIN (
            SELECT DISTINCT w.namespace, w.resource FROM holdfast.waiter w WHERE w.until <= t AND coalesce(w.turn_until <= t, true) LIMIT p_max) w
            ON w.namespace = r.namespace AND w.resource = r.name
        FOR NO KEY UPDATE OF r SKIP LOCKED) s;
    DELETE FROM holdfast.waiter w USING unnest(spaces, names) AS x(ns, resource)
    WHERE w.namespace = x.ns AND w.resource = x.resource AND w.until <= t AND coalesce(w.turn_until <= t, true);
    GET DIAGNOSTICS n = ROW_COUNT;
    done := done + n;
    UPDATE holdfast.resource r SET waiting = false FROM unnest(spaces, names) AS x(ns, resource)
    WHERE r.namespace = x.ns AND r.name = x.resource AND NOT EXISTS (
        SELECT FROM holdfast.waiter w WHERE w.namespace = r.namespace AND w.resource = r.name);

    DELETE FROM holdfast.refusal f WHERE (f.namespace, f.resource, f.token, f.minute) IN (
        SELECT o.namespace, o.resource, o.token, o.minute FROM holdfast.refusal o JOIN holdfast.namespace n ON n.name = o.namespace
        WHERE o.minute < pg_catalog.clock_timestamp() - pg_catalog.make_interval(days => n.audit_keep_days) LIMIT p_max);
    GET DIAGNOSTICS n = ROW_COUNT;
    done := done + n;

    -- Anybody who reaches a server can make a hundred a minute: not kept as long as other things.
    DELETE FROM holdfast.denial d WHERE d.id IN (
        SELECT o.id FROM holdfast.denial o WHERE o.minute < pg_catalog.clock_timestamp() - interval '30 days' ORDER BY o.minute LIMIT p_max);
    GET DIAGNOSTICS n = ROW_COUNT;
    done := done + n;

    FOR counted IN SELECT n.name FROM holdfast.namespace n WHERE n.max_leases > 0 OR n.max_value_bytes > 0 ORDER BY n.name LOOP
        used := holdfast.lock_usage(counted.name);
        UPDATE holdfast.usage u SET leases = c.leases, value_bytes = c.value_bytes FROM holdfast.count_usage(counted.name) c
        WHERE u.namespace = counted.name AND (u.leases, u.value_bytes) <> (c.leases, c.value_bytes);
    END LOOP;
    RETURN done;
END
$$;

-- No backend of this pid and start is left, and with it no lock of it and nothing that it was still doing: true. Ends it, and
-- waits for that 5 s at most; false if it could not be ended by then (a stopped process), or may not be. p_backend_start is
-- what pg_stat_activity says of it, as text. A backend is gone from there only after its transaction was rolled back.
CREATE OR REPLACE FUNCTION holdfast.end_backend(p_pid int, p_backend_start text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    give_up CONSTANT timestamptz := pg_catalog.clock_timestamp() + interval '5 s';
BEGIN
    LOOP
        PERFORM pg_catalog.pg_stat_clear_snapshot();
        -- The start is NULL to those who may not know it.
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a
            WHERE a.pid = p_pid AND coalesce(a.backend_start = p_backend_start::timestamptz, true)) THEN
            RETURN true;
        END IF;
        IF pg_catalog.clock_timestamp() >= give_up THEN
            RETURN false;
        END IF;
        PERFORM pg_catalog.pg_terminate_backend(p_pid);
        PERFORM pg_catalog.pg_sleep(0.01);
    END LOOP;
EXCEPTION
    WHEN insufficient_privilege THEN RETURN false;
END
$$;
