-- PostgreSQL database dump
-- Name: holdfast; Type: SCHEMA; Schema: -; Owner: -
CREATE SCHEMA holdfast;
-- Name: acquire_all(text, text[], text, text, bigint, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text) RETURNS TABLE(i integer, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: acquire_batch(text[], text[], text[], text[], bigint[], text[], text[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(i integer, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: advance_fences(text, bigint, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.advance_fences(p_ns text, p_at_least bigint, p_actor text, p_reason text) RETURNS TABLE(outcome smallint, floor bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: allow_role(name, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.allow_role(role name, namespace text) RETURNS void
    LANGUAGE plpgsql
    AS $_$
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
$_$;
-- Name: attach(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.attach() RETURNS boolean
    LANGUAGE plpgsql
    SET lock_timeout TO '30s'
    AS $$
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
-- Name: break_lease(text, text, bigint, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text) RETURNS TABLE(outcome smallint, fence bigint, live boolean, pid integer)
    LANGUAGE plpgsql
    AS $$
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
-- Name: check_batch(text[], text[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.check_batch(p_ns text[], p_resource text[], p_token bigint[]) RETURNS TABLE(i integer, outcome smallint, fence bigint, remaining_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: clock(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.clock() RETURNS timestamp with time zone
    LANGUAGE sql
    AS $$ SELECT pg_catalog.clock_timestamp() $$;
-- Name: flags(integer[], integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.flags(p_places integer[], p_n integer) RETURNS boolean[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
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
-- Name: flat_labels(jsonb); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.flat_labels(p_labels jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN p_labels IS NOT NULL THEN (
        SELECT pg_catalog.array_agg(u.x ORDER BY e.k, u.j) FROM pg_catalog.jsonb_each_text(p_labels) WITH ORDINALITY AS e(name, value, k),
            LATERAL (VALUES (1, e.name), (2, e.value)) AS u(j, x)) END
$$;
-- Name: get_batch(text[], text[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.get_batch(p_ns text[], p_resource text[]) RETURNS TABLE(i integer, outcome smallint, resource text, task text, holder text, request_id text, token bigint, fence bigint, remaining_ms bigint, granted_unix_ms bigint, state smallint, labels text[])
    LANGUAGE plpgsql
    AS $$
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
-- Name: guard(text, text, bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.guard(namespace text, resource text, token bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;
-- Name: list_leases(text, text, text, text, text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max integer) RETURNS TABLE(outcome smallint, resource text, task text, holder text, request_id text, token bigint, fence bigint, remaining_ms bigint, granted_unix_ms bigint, state smallint, labels text[])
    LANGUAGE plpgsql
    AS $$
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
-- Name: list_resources(text, text, text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_resources(p_ns text, p_prefix text, p_after text, p_max integer) RETURNS TABLE(outcome smallint, resource text, fence bigint, version bigint, value_bytes bigint, "exists" boolean, leased boolean)
    LANGUAGE plpgsql
    AS $$
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
-- Name: lock_or_blocker(text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.lock_or_blocker(p_ns text, p_resource text) RETURNS integer
    LANGUAGE plpgsql
    SET lock_timeout TO '20ms'
    AS $$
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
-- Name: lock_pairs(text[], text[], boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.lock_pairs(p_ns text[], p_resource text[], p_make boolean) RETURNS boolean[]
    LANGUAGE plpgsql
    AS $$
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
-- Name: locked_by_top_level(text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.locked_by_top_level(p_ns text, p_resource text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
-- Name: make_partitions(integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.make_partitions(p_months_ahead integer) RETURNS integer
    LANGUAGE plpgsql
    SET lock_timeout TO '10s'
    AS $$
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
-- Name: ms(interval); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.ms(p_interval interval) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT pg_catalog.floor(pg_catalog.date_part('epoch', p_interval) * 1000 + 0.0005)::bigint $$;
-- Name: prefix_end(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.prefix_end(p_prefix text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT p_prefix || pg_catalog.repeat(pg_catalog.chr(1114111), 64) $$;
-- Name: read_batch(text[], text[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.read_batch(p_ns text[], p_resource text[]) RETURNS TABLE(i integer, outcome smallint, value bytea, "exists" boolean, version bigint, fence bigint, token bigint, updated_unix_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: release_batch(text[], text[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[]) RETURNS TABLE(i integer, outcome smallint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: renew_batch(text[], text[], bigint[], bigint[], boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.renew_batch(p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], p_careful boolean) RETURNS TABLE(i integer, outcome smallint, ttl_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: renew_locked(integer[], text[], text[], bigint[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.renew_locked(p_i integer[], p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[]) RETURNS TABLE(i integer, outcome smallint, ttl_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: require_read_committed(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.require_read_committed() RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'holdfast: transactions must be READ COMMITTED' USING ERRCODE = '0A000',
            DETAIL = 'Above it, what was true before a lock was had is taken for what is true now.';
    END IF;
END
$$;
-- Name: row_blocker(xid); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.row_blocker(p_xmax xid) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
-- Name: stats(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.stats() RETURNS TABLE(leases_live bigint, resources bigint, schema_version bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: unix_ms(timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.unix_ms(p_at timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN pg_catalog.isfinite(p_at) THEN pg_catalog.floor(pg_catalog.date_part('epoch', p_at) * 1000 + 0.0005)::bigint ELSE 0 END $$;
-- Name: write_batch(text[], text[], bigint[], bigint[], bytea[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[]) RETURNS TABLE(i integer, outcome smallint, version bigint, fence bigint, write_seq bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: audit_id; Type: SEQUENCE; Schema: holdfast; Owner: -
CREATE SEQUENCE holdfast.audit_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
-- Name: audit; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.audit (
    namespace text NOT NULL COLLATE pg_catalog."C",
    resource text COLLATE pg_catalog."C",
    id bigint DEFAULT nextval('holdfast.audit_id'::regclass) NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    prior bigint,
    actor text,
    detail text
)
PARTITION BY RANGE (at);
-- Name: TABLE audit; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.audit IS 'What happened, for ever. By months, made ahead by make_partitions(); no default partition: one could not be detached while in use.';
-- Name: COLUMN audit.resource; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.resource IS 'NULL: the whole namespace.';
-- Name: COLUMN audit.id; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.id IS 'Rises within one resource in the order of what happened, whatever the clock does: drawn under the resource''s lock.';
-- Name: COLUMN audit.at; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.at IS 'clock_timestamp(), not holdfast.clock(): it chooses the partition.';
-- Name: COLUMN audit.kind; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.kind IS 'grant, takeover (a grant after a lease that ran out), release, break, write, delete, floor.';
-- Name: COLUMN audit.token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.token IS 'Granted, released, broken, or written under. floor: the new floor.';
-- Name: COLUMN audit.prior; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.prior IS 'takeover: the token that ran out. break: the new fence. write, delete: the new version. floor: the old floor.';
-- Name: COLUMN audit.actor; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.actor IS 'grant, takeover, release: the holder. break, floor: who did it.';
-- Name: COLUMN audit.detail; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.detail IS 'grant, takeover: the task. break, floor: the reason.';
-- Name: identity; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.identity (
    only_row boolean DEFAULT true NOT NULL,
    system_identifier bigint NOT NULL,
    timeline text NOT NULL,
    commits_replicated boolean DEFAULT false NOT NULL,
    noted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT identity_only_row_check CHECK (only_row)
);
-- Name: TABLE identity; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.identity IS 'One row: the cluster and timeline this database was last served on. When they changed, grants may have been lost with the old one: see attach().';
-- Name: COLUMN identity.timeline; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.identity.timeline IS 'First 8 digits of the name of the WAL file being written.';
-- Name: COLUMN identity.commits_replicated; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.identity.commits_replicated IS 'An operator''s word that commits wait for a synchronous standby and only such a one is ever promoted: then a change of timeline, within one system identifier, loses nothing and raises nothing.';
-- Name: lease; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.lease (
    namespace text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C",
    token bigint DEFAULT 0 NOT NULL,
    deadline timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    granted_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    ended smallint DEFAULT 0 NOT NULL,
    task text DEFAULT ''::text NOT NULL,
    holder text DEFAULT ''::text NOT NULL,
    labels jsonb,
    CONSTRAINT lease_check CHECK (((ended = 0) OR ((ended = ANY (ARRAY[3, 4])) AND (deadline = '-infinity'::timestamp with time zone))))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: COLUMN lease.token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.token IS '0 = never leased.';
-- Name: COLUMN lease.deadline; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.deadline IS 'The lease is live while holdfast.clock() is before this. -infinity once somebody ended it.';
-- Name: COLUMN lease.ended; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.ended IS 'Who ended it: 0 nobody (it is live, or ran out at its deadline), 3 its holder (RELEASED), 4 an operator or attach() (BROKEN).';
-- Name: COLUMN lease.labels; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.labels IS 'Object of strings; NULL = none.';
-- Name: migration; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.migration (
    version integer NOT NULL,
    name text NOT NULL,
    compatible_from integer NOT NULL,
    applied_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT migration_check CHECK (((compatible_from >= 1) AND (compatible_from <= version)))
);
-- Name: TABLE migration; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.migration IS 'Migrations applied. Binaries that know a schema version of at least the greatest compatible_from work with this database.';
-- Name: namespace; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.namespace (
    name text NOT NULL COLLATE pg_catalog."C",
    fence_floor bigint DEFAULT 0 NOT NULL,
    retired_at timestamp with time zone,
    audit_writes boolean DEFAULT false NOT NULL,
    guard_idle_cap_ms integer DEFAULT 60000 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT namespace_fence_floor_check CHECK ((fence_floor >= 0)),
    CONSTRAINT namespace_guard_idle_cap_ms_check CHECK ((guard_idle_cap_ms > 0))
);
-- Name: TABLE namespace; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.namespace IS 'The scope of names and policies. Retired, never deleted.';
-- Name: COLUMN namespace.fence_floor; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.fence_floor IS 'Every grant''s token is above this as well as above its resource''s fence. Never lowered.';
-- Name: COLUMN namespace.audit_writes; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.audit_writes IS 'Whether each accepted write and delete leaves an audit row too.';
-- Name: COLUMN namespace.guard_idle_cap_ms; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.guard_idle_cap_ms IS 'The longest a transaction that called guard() may sit idle, whatever remains of its lease.';
-- Name: refusal; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.refusal (
    namespace text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    refusals bigint NOT NULL
);
-- Name: TABLE refusal; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.refusal IS 'Writes and deletes refused because their token was stale, counted: a row each would let a runaway holder fill the disk.';
-- Name: resource; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.resource (
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    fence bigint DEFAULT 0 NOT NULL,
    grant_token bigint DEFAULT 0 NOT NULL,
    repeats integer DEFAULT 0 NOT NULL,
    request_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: COLUMN resource.fence; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource.fence IS 'The highest token that may be in use: the last one granted, or above it after a break. 0 = never granted; such a row is as good as none. Only rises.';
-- Name: COLUMN resource.grant_token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource.grant_token IS 'The token of the last grant; a repeat of the acquire that got it is told by request_id.';
-- Name: COLUMN resource.repeats; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource.repeats IS 'How many repeats of the last grant were answered.';
-- Name: COLUMN resource.request_id; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource.request_id IS 'Of the acquire that got the last grant.';
-- Name: resource_value; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.resource_value (
    namespace text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    token bigint NOT NULL,
    write_seq bigint DEFAULT 0 NOT NULL,
    seq_version bigint DEFAULT 0 NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    value bytea
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: TABLE resource_value; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.resource_value IS 'Guarded values. A row stays when its value is deleted, so that the version never restarts.';
-- Name: COLUMN resource_value.version; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource_value.version IS 'Counts accepted writes and deletes; 0 = only ever deletes of nothing.';
-- Name: COLUMN resource_value.token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource_value.token IS 'Of the last accepted write or delete.';
-- Name: COLUMN resource_value.write_seq; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource_value.write_seq IS 'The highest write_seq accepted under that token; 0 = none had one.';
-- Name: COLUMN resource_value.seq_version; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource_value.seq_version IS 'The version when write_seq was accepted: behind version if writes without write_seq came after it, and then a repeat of it cannot be answered as before.';
-- Name: COLUMN resource_value.value; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource_value.value IS 'NULL = deleted. So NULL also tells that the last accepted change was a delete.';
-- Name: sql_role; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.sql_role (
    namespace text NOT NULL COLLATE pg_catalog."C",
    role name NOT NULL
);
-- Name: TABLE sql_role; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.sql_role IS 'Which SQL roles (and their members) may use which namespace through guard(). Superusers need no row.';
-- Name: identity identity_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.identity
    ADD CONSTRAINT identity_pkey PRIMARY KEY (only_row);
-- Name: lease lease_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (namespace, resource);
-- Name: migration migration_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);
-- Name: namespace namespace_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.namespace
    ADD CONSTRAINT namespace_pkey PRIMARY KEY (name);
-- Name: refusal refusal_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.refusal
    ADD CONSTRAINT refusal_pkey PRIMARY KEY (namespace, resource, token, minute);
-- Name: resource resource_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.resource
    ADD CONSTRAINT resource_pkey PRIMARY KEY (namespace, name);
-- Name: resource_value resource_value_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.resource_value
    ADD CONSTRAINT resource_value_pkey PRIMARY KEY (namespace, resource);
-- Name: sql_role sql_role_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.sql_role
    ADD CONSTRAINT sql_role_pkey PRIMARY KEY (namespace, role);
-- Name: SCHEMA holdfast; Type: ACL; Schema: -; Owner: -
GRANT USAGE ON SCHEMA holdfast TO holdfast_user;
-- Name: FUNCTION acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text) FROM PUBLIC;
-- Name: FUNCTION acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_at timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_at timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION advance_fences(p_ns text, p_at_least bigint, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.advance_fences(p_ns text, p_at_least bigint, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION allow_role(role name, namespace text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.allow_role(role name, namespace text) FROM PUBLIC;
-- Name: FUNCTION attach(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.attach() FROM PUBLIC;
-- Name: FUNCTION break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION check_batch(p_ns text[], p_resource text[], p_token bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.check_batch(p_ns text[], p_resource text[], p_token bigint[]) FROM PUBLIC;
-- Name: FUNCTION clock(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.clock() FROM PUBLIC;
-- Name: FUNCTION flags(p_places integer[], p_n integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.flags(p_places integer[], p_n integer) FROM PUBLIC;
-- Name: FUNCTION flat_labels(p_labels jsonb); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.flat_labels(p_labels jsonb) FROM PUBLIC;
-- Name: FUNCTION get_batch(p_ns text[], p_resource text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.get_batch(p_ns text[], p_resource text[]) FROM PUBLIC;
-- Name: FUNCTION guard(namespace text, resource text, token bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.guard(namespace text, resource text, token bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION holdfast.guard(namespace text, resource text, token bigint) TO holdfast_user;
-- Name: FUNCTION list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_resources(p_ns text, p_prefix text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_resources(p_ns text, p_prefix text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION lock_or_blocker(p_ns text, p_resource text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.lock_or_blocker(p_ns text, p_resource text) FROM PUBLIC;
-- Name: FUNCTION lock_pairs(p_ns text[], p_resource text[], p_make boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.lock_pairs(p_ns text[], p_resource text[], p_make boolean) FROM PUBLIC;
-- Name: FUNCTION locked_by_top_level(p_ns text, p_resource text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.locked_by_top_level(p_ns text, p_resource text) FROM PUBLIC;
-- Name: FUNCTION make_partitions(p_months_ahead integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.make_partitions(p_months_ahead integer) FROM PUBLIC;
-- Name: FUNCTION ms(p_interval interval); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.ms(p_interval interval) FROM PUBLIC;
-- Name: FUNCTION prefix_end(p_prefix text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.prefix_end(p_prefix text) FROM PUBLIC;
-- Name: FUNCTION read_batch(p_ns text[], p_resource text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.read_batch(p_ns text[], p_resource text[]) FROM PUBLIC;
-- Name: FUNCTION release_batch(p_ns text[], p_resource text[], p_token bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[]) FROM PUBLIC;
-- Name: FUNCTION renew_batch(p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], p_careful boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.renew_batch(p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], p_careful boolean) FROM PUBLIC;
-- Name: FUNCTION renew_locked(p_i integer[], p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.renew_locked(p_i integer[], p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[]) FROM PUBLIC;
-- Name: FUNCTION require_read_committed(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.require_read_committed() FROM PUBLIC;
-- Name: FUNCTION row_blocker(p_xmax xid); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.row_blocker(p_xmax xid) FROM PUBLIC;
-- Name: FUNCTION stats(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.stats() FROM PUBLIC;
-- Name: FUNCTION unix_ms(p_at timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.unix_ms(p_at timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[]) FROM PUBLIC;
-- PostgreSQL database dump complete
