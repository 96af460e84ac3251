-- PostgreSQL database dump
-- Name: holdfast; Type: SCHEMA; Schema: -; Owner: -
CREATE SCHEMA holdfast;
-- Name: acquire_all(text, text[], text, text, bigint, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text) RETURNS TABLE(i integer, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY SELECT a.i, (CASE WHEN a.outcome IN (70, 71) THEN 5 ELSE a.outcome END)::smallint, a.token, a.ttl_ms, a.holder, a.task,
        a.remaining_ms
    FROM holdfast.acquire_all(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels, NULL::text, NULL::boolean[]) a;
END
$$;
-- Name: acquire_all(text, text[], text, text, bigint, text, text, text, boolean[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text, p_server text, p_may_grant boolean[]) RETURNS TABLE(i integer, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint, next_server text, max_waiters bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: acquire_batch(text[], text[], text[], text[], bigint[], text[], text[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(i integer, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY SELECT a.i, (CASE WHEN a.outcome IN (70, 71) THEN 5 ELSE a.outcome END)::smallint, a.token, a.ttl_ms, a.holder, a.task,
        a.remaining_ms
    FROM holdfast.acquire_batch(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels,
        NULL::text, NULL::boolean[], NULL::bigint[], NULL::bigint[], NULL::bigint[], NULL::bigint[], p_at) a;
END
$$;
-- Name: acquire_batch(text[], text[], text[], text[], bigint[], text[], text[], text, boolean[], bigint[], bigint[], bigint[], bigint[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[], p_at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(i integer, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint, next_server text, max_waiters bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: acquire_special(text[], text[], text[], text[], bigint[], text[], text[], text, boolean[], bigint[], bigint[], bigint[], bigint[], timestamp with time zone, tid[], tid[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_special(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[], p_t timestamp with time zone, INOUT r_tid tid[], INOUT l_tid tid[], OUT veto smallint[], OUT veto_ms bigint[], OUT next_server text[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
-- Name: acquire_verdicts(text[], text[], text[], text[], bigint[], text[], text[], boolean[], tid[], tid[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.acquire_verdicts(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone) RETURNS TABLE(i integer, ns text, resource text, task text, holder text, ttl_ms bigint, request_id text, labels text, r_tid tid, fence bigint, waiting boolean, grant_token bigint, l_tid tid, l_token bigint, deadline timestamp with time zone, ended smallint, live_holder text, live_task text, new_token bigint, lock_delay_ms integer, min_ttl_ms integer, max_ttl_ms integer, max_leases bigint, max_waiters bigint, outcome smallint)
    LANGUAGE sql STABLE
    AS $$
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
-- Name: action_problem(regprocedure); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.action_problem(p_function regprocedure) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    p record;
    r record;
BEGIN
    SELECT f.* INTO p FROM pg_catalog.pg_proc f WHERE f.oid = p_function;
    SELECT o.* INTO r FROM pg_catalog.pg_roles o WHERE o.oid = p.proowner;
    RETURN CASE
        WHEN p.oid IS NULL THEN 'there is no such function f(key text, args jsonb)'
        WHEN p.prokind <> 'f' OR p.proretset OR p.prorettype <> 'pg_catalog.jsonb'::regtype THEN 'it does not return jsonb'
        WHEN NOT p.prosecdef THEN 'it is not SECURITY DEFINER'
        WHEN NOT EXISTS (SELECT FROM unnest(p.proconfig::text[]) c WHERE pg_catalog.starts_with(c, 'search_path='))
            THEN 'it has no search_path of its own'
        WHEN p.pronamespace = 'holdfast'::regnamespace THEN 'it is one of Holdfast''s own'
        WHEN r.rolsuper THEN pg_catalog.format('its owner "%s" is a superuser', r.rolname)
        WHEN r.rolcanlogin THEN pg_catalog.format('its owner "%s" can log in', r.rolname)
        WHEN r.rolcreaterole THEN pg_catalog.format('its owner "%s" can make roles', r.rolname)
        WHEN pg_catalog.has_schema_privilege(r.oid, 'holdfast', 'USAGE') OR holdfast.trusted(r.oid)
            THEN pg_catalog.format('its owner "%s" has rights in Holdfast''s own schema', r.rolname)
        WHEN NOT pg_catalog.has_schema_privilege(p.pronamespace, 'USAGE') OR NOT pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
            THEN pg_catalog.format('"%s" may not call it', current_user)
    END;
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
-- Name: after_action(text[], text, bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.after_action(p_settings text[], p_path text, p_writes bigint[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    names CONSTANT text[] := holdfast.execute_setting_names();
    writes CONSTANT bigint[] := holdfast.deferred_writes();
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_cursor() c WHERE c.is_holdable) THEN
        RAISE EXCEPTION 'holdfast: an action may not leave a cursor WITH HOLD' USING ERRCODE = '0A000';
    ELSIF writes[2] <> p_writes[2] THEN
        RAISE EXCEPTION 'holdfast: an action may not write to a table with deferrable constraint triggers, or exclusion constraints '
            'by expressions: they would run with Holdfast''s rights' USING ERRCODE = '0A000',
            HINT = 'A trigger that is not deferrable, or whose function belongs to a superuser, may be there.';
    END IF;
    IF p_path IS DISTINCT FROM p_settings[1] THEN
        PERFORM pg_catalog.set_config('search_path', p_settings[1], false);
    END IF;
    FOR k IN 2..pg_catalog.cardinality(names) LOOP
        IF pg_catalog.current_setting(names[k], true) IS DISTINCT FROM p_settings[k] THEN
            PERFORM pg_catalog.set_config(names[k], p_settings[k], false);
        END IF;
    END LOOP;
    RETURN writes[1] <> p_writes[1];
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
-- Name: audit_list(text, text, bigint, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.audit_list(p_ns text, p_resource text, p_before bigint, p_max integer) RETURNS TABLE(outcome smallint, id bigint, at_unix_ms bigint, kind text, resource text, token bigint, prior bigint, actor text, detail text)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY SELECT a.outcome, a.id, a.at_unix_ms, a.kind, a.resource, a.token, a.prior, a.actor, a.detail
    FROM holdfast.audit_list(p_ns, p_resource, ''::text, p_before, p_max) a;
END
$$;
-- Name: audit_list(text, text, text, bigint, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.audit_list(p_ns text, p_resource text, p_operation text, p_before bigint, p_max integer) RETURNS TABLE(outcome smallint, id bigint, at_unix_ms bigint, kind text, resource text, token bigint, prior bigint, actor text, detail text, operation text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    below bigint := (SELECT s.last_value + 1 FROM holdfast.audit_id s);
    stretch bigint := 5000;
    missing int := p_max + 1;
    n int;
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, 0::bigint, 0::bigint, ''::text, ''::text, 0::bigint, 0::bigint, ''::text, ''::text, ''::text;
        RETURN;
    END IF;
    IF p_before > 0 THEN
        below := least(below, p_before);
    END IF;
    WHILE missing > 0 AND below > 1 LOOP
        -- A statement each, so that each has a plan that fits.
        IF p_resource = '' AND p_operation = '' THEN
            RETURN QUERY
            SELECT 50::smallint, a.id, holdfast.unix_ms(a.at), a.kind::text, coalesce(a.resource, '')::text, a.token, coalesce(a.prior, 0),
                coalesce(a.actor, ''), coalesce(a.detail, ''), coalesce(a.operation, '')::text
            FROM holdfast.audit a WHERE a.namespace = p_ns AND a.id < below AND a.id >= below - stretch
            ORDER BY a.id DESC LIMIT missing;
        ELSIF p_operation = '' THEN
            RETURN QUERY
            SELECT 50::smallint, a.id, holdfast.unix_ms(a.at), a.kind::text, a.resource::text, a.token, coalesce(a.prior, 0),
                coalesce(a.actor, ''), coalesce(a.detail, ''), coalesce(a.operation, '')::text
            FROM holdfast.audit a WHERE a.namespace = p_ns AND a.resource = p_resource AND a.id < below AND a.id >= below - stretch
            ORDER BY a.id DESC LIMIT missing;
        ELSE
            RETURN QUERY
            SELECT 50::smallint, a.id, holdfast.unix_ms(a.at), a.kind::text, coalesce(a.resource, '')::text, a.token, coalesce(a.prior, 0),
                coalesce(a.actor, ''), coalesce(a.detail, ''), coalesce(a.operation, '')::text
            FROM holdfast.audit a WHERE a.namespace = p_ns AND a.operation = p_operation AND a.id < below AND a.id >= below - stretch
            ORDER BY a.id DESC LIMIT missing;
        END IF;
        GET DIAGNOSTICS n = ROW_COUNT;
        missing := missing - n;
        below := below - stretch;
        stretch := least(stretch * 4, 4000000000);
    END LOOP;
END
$$;
-- Name: audit_principal(text, text[], text, text, boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.audit_principal(p_id text, p_also text[], p_actor text, p_detail text, p_tells_grants boolean) RETURNS void
    LANGUAGE sql
    AS $$
    INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
    SELECT n.name, 'key', 0, p_actor, p_detail || CASE WHEN p_tells_grants THEN ': ' || holdfast.grants_text(p_id, n.name) ELSE '' END FROM (
        SELECT coalesce(g.namespace, 'default') AS name FROM holdfast.principal_grant g WHERE g.principal = p_id
        UNION SELECT unnest(p_also)) n
$$;
-- Name: auth_changes(text, bigint, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.auth_changes(p_epoch text, p_after bigint, p_max integer) RETURNS TABLE(outcome smallint, epoch text, known bigint, restarted boolean, more boolean, now_unix_ms bigint, id text, name text, secret_hash bytea, certificate text, expires_unix_ms bigint, live boolean, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
    s record;
    behind bigint := p_after;
    again boolean;
    ids text[] := '{}';
    upto bigint;
    is_more boolean := false;
BEGIN
    SELECT a.epoch::text AS epoch, a.version INTO s FROM holdfast.auth_state a;
    again := s.epoch <> p_epoch OR s.version < p_after;
    IF again THEN
        behind := 0;
    END IF;
    upto := s.version;
    IF behind < s.version THEN
        SELECT pg_catalog.array_agg(x.id), pg_catalog.max(x.version) INTO ids, upto FROM (
            SELECT p.id, p.version FROM holdfast.principal p WHERE p.version > behind AND p.version <= s.version
                AND (NOT again OR (p.revoked_at IS NULL AND (p.expires_at IS NULL OR p.expires_at > t)))
            ORDER BY p.version LIMIT p_max) x;
        is_more := coalesce(pg_catalog.cardinality(ids) >= p_max AND upto < s.version, false);
        IF NOT is_more THEN
            upto := s.version;
        END IF;
    END IF;
    IF coalesce(pg_catalog.cardinality(ids), 0) = 0 THEN
        RETURN QUERY SELECT 50::smallint, s.epoch, upto, again, is_more, holdfast.unix_ms(t), ''::text, ''::text, NULL::bytea, ''::text, 0::bigint, false,
            0::bigint, 0::bigint, 0::bigint, '{}'::text[];
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, s.epoch, upto, again, is_more, holdfast.unix_ms(t), p.id::text, p.name::text, p.secret_hash, coalesce(p.certificate, '')::text,
        coalesce(holdfast.unix_ms(p.expires_at), 0), p.revoked_at IS NULL, p.rate_per_s::bigint, p.rate_burst::bigint, p.version,
        holdfast.principal_grants(p.id)
    FROM unnest(ids) AS x(id) JOIN holdfast.principal p ON p.id = x.id COLLATE "C";
END
$$;
-- Name: auth_note(text[], bigint[], text[], text[], text[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.auth_note(p_used text[], p_ago_ms bigint[], p_principal text[], p_method text[], p_reason text[], p_count bigint[]) RETURNS TABLE(outcome smallint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    PERFORM holdfast.require_read_committed();
    UPDATE holdfast.principal p SET last_used_at = greatest(p.last_used_at, t - x.ago * interval '1 ms')
    FROM (SELECT q.id, u.ago FROM unnest(p_used, p_ago_ms) AS u(id, ago) JOIN holdfast.principal q ON q.id = u.id
        ORDER BY q.id FOR NO KEY UPDATE OF q SKIP LOCKED) x
    WHERE p.id = x.id;
    INSERT INTO holdfast.denial AS d (principal, method, reason, minute, denials)
    SELECT x.principal, x.method, x.reason, pg_catalog.date_trunc('minute', pg_catalog.clock_timestamp()), pg_catalog.sum(x.n)::bigint
    FROM unnest(p_principal, p_method, p_reason, p_count) AS x(principal, method, reason, n)
    GROUP BY x.principal, x.method, x.reason ORDER BY x.principal COLLATE "C", x.method COLLATE "C", x.reason COLLATE "C"
    ON CONFLICT (minute, principal, method, reason) DO UPDATE SET denials = d.denials + excluded.denials;
    RETURN QUERY SELECT 50::smallint;
END
$$;
-- Name: begin_batch(text[], text[], text[], bytea[], text[], bigint[], text[], smallint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.begin_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[]) RETURNS TABLE(i integer, outcome smallint, attempt integer, token bigint, ttl_ms bigint, execution_id text, trigger smallint, state smallint, holder text, remaining_ms bigint, result bytea, result_ref text, ended_unix_ms bigint, error_class smallint, message text, sqlstate text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    n int := pg_catalog.cardinality(p_ns);
    t timestamptz := holdfast.clock();
    fresh bigint[];
    made int;
    told smallint[];
    seen bigint[];
    mine boolean[];
    item record;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    -- What is there is left out, or the insert would wait for whoever is changing it; as in op_record_batch.
    SELECT pg_catalog.array_agg(CASE WHEN s.absent THEN pg_catalog.nextval('holdfast.operation_token') END) INTO fresh FROM (
        SELECT o.key IS NULL AND x.ns = ANY (ARRAY(SELECT n.name FROM holdfast.namespace n WHERE n.name = ANY (p_ns) AND n.retired_at IS NULL))
            AS absent
        FROM unnest(p_ns, p_key) WITH ORDINALITY AS x(ns, key, i)
        LEFT JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key
        ORDER BY x.i) s;
    BEGIN
        INSERT INTO holdfast.operation (namespace, key, type, state, attempts, budget_attempts, token, created_at, changed_at, deadline,
            fingerprint, holder, request_id)
        SELECT x.ns, x.key, x.type, 2, 1, 1, x.token, t, t, t + x.ttl_ms * interval '1 millisecond', x.fingerprint, x.holder, x.request_id
        FROM unnest(p_ns, p_key, p_type, p_fingerprint, p_holder, p_ttl_ms, p_request_id, fresh)
            AS x(ns, key, type, fingerprint, holder, ttl_ms, request_id, token)
        WHERE x.token IS NOT NULL;
        GET DIAGNOSTICS made = ROW_COUNT;
    EXCEPTION WHEN unique_violation THEN
        INSERT INTO holdfast.operation (namespace, key, type, state, attempts, budget_attempts, token, created_at, changed_at, deadline,
            fingerprint, holder, request_id)
        SELECT x.ns, x.key, x.type, 2, 1, 1, x.token, t, t, t + x.ttl_ms * interval '1 millisecond', x.fingerprint, x.holder, x.request_id
        FROM unnest(p_ns, p_key, p_type, p_fingerprint, p_holder, p_ttl_ms, p_request_id, fresh)
            AS x(ns, key, type, fingerprint, holder, ttl_ms, request_id, token)
        WHERE x.token IS NOT NULL
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
    END;
    IF made = n THEN
        RETURN QUERY
        WITH d AS MATERIALIZED (
            SELECT x.i::int, x.ns, x.key, x.token, x.holder, x.ttl_ms, coalesce(nullif(x.trigger, 0), 4)::smallint AS trigger,
                pg_catalog.gen_random_uuid() AS execution_id
            FROM unnest(p_ns, p_key, fresh, p_holder, p_ttl_ms, p_trigger) WITH ORDINALITY AS x(ns, key, token, holder, ttl_ms, trigger, i)
        ), started AS (
            INSERT INTO holdfast.attempt (namespace, key, token, attempt, trigger, execution_id, started_at, holder)
            SELECT d.ns, d.key, d.token, 1, d.trigger, d.execution_id, t, d.holder FROM d
        )
        SELECT d.i, 200::smallint, 1, d.token, d.ttl_ms, d.execution_id::text, d.trigger, 2::smallint, d.holder, d.ttl_ms, NULL::bytea, ''::text,
            holdfast.unix_ms(t), 0::smallint, ''::text, ''::text
        FROM d;
        RETURN;
    END IF;
    IF made > 0 THEN
        INSERT INTO holdfast.attempt (namespace, key, token, attempt, trigger, execution_id, started_at, holder)
        SELECT x.ns, x.key, x.token, 1, coalesce(nullif(x.trigger, 0), 4), pg_catalog.gen_random_uuid(), t, x.holder
        FROM unnest(p_ns, p_key, fresh, p_holder, p_trigger) AS x(ns, key, token, holder, trigger)
        JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key AND o.token = x.token;
    END IF;
    t := holdfast.clock();
    SELECT pg_catalog.array_agg(CASE WHEN v.token = fresh[v.i] THEN 200::smallint ELSE v.outcome END ORDER BY v.i),
        pg_catalog.array_agg(v.token ORDER BY v.i)
    INTO told, seen FROM holdfast.op_verdicts(p_ns, p_key, p_type, p_fingerprint, p_request_id, t) v;
    IF 0 = ANY (told) THEN
        SELECT pg_catalog.array_agg(x.outcome = 0 ORDER BY x.i) INTO mine FROM unnest(told) WITH ORDINALITY AS x(outcome, i);
        mine := holdfast.op_lock(p_ns, p_key, mine);
        t := holdfast.clock();
        -- What is locked by somebody is busy; what changed meanwhile is told as it is now.
        SELECT pg_catalog.array_agg(CASE WHEN told[v.i] <> 0 THEN told[v.i] WHEN NOT mine[v.i] THEN 5::smallint ELSE v.outcome END
            ORDER BY v.i), pg_catalog.array_agg(v.token ORDER BY v.i)
        INTO told, seen FROM holdfast.op_verdicts(p_ns, p_key, p_type, p_fingerprint, p_request_id, t) v;
        FOR item IN SELECT s.i, s.did FROM holdfast.op_start(p_ns, p_key, p_type, p_fingerprint, p_holder, p_ttl_ms, p_request_id,
            p_trigger, mine, t, true) s
        LOOP
            told[item.i] := item.did;
        END LOOP;
    END IF;
    -- A repeat is told the token that was found to be its own: another one has come since, so it is to look again.
    RETURN QUERY SELECT x.i, CASE WHEN x.outcome = 201 AND x.token <> seen[x.i] THEN 5::smallint ELSE x.outcome END, x.attempt, x.token, x.ttl_ms,
        x.execution_id, x.trigger, x.state, x.holder, x.remaining_ms, x.result, x.result_ref, x.ended_unix_ms, x.error_class, x.message, x.sqlstate
    FROM holdfast.op_tell(p_ns, p_key, told, holdfast.clock()) x;
END
$$;
-- Name: begin_operation(text, text, text, bytea, text, bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.begin_operation(namespace text, key text, type text, fingerprint bytea, holder text DEFAULT NULL::text, ttl_ms bigint DEFAULT 60000) RETURNS TABLE(outcome text, attempt integer, token bigint, result bytea, message text, holder_now text, remaining_ms bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    ns CONSTANT text[] := ARRAY[$1];
    keys CONSTANT text[] := ARRAY[$2];
    types CONSTANT text[] := ARRAY[$3];
    prints CONSTANT bytea[] := ARRAY[$4];
    holders CONSTANT text[] := ARRAY[coalesce($5, session_user::text)];
    ttls CONSTANT bigint[] := ARRAY[$6];
    ids CONSTANT text[] := ARRAY['sql:' || gen_random_uuid()];
    t timestamptz;
    told smallint;
    fresh bigint;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM holdfast.require_mapped($1);
    PERFORM holdfast.require_arguments($1, $2, $3, $4, holders[1], $6);
    PERFORM holdfast.commit_durably();
    t := holdfast.clock();
    INSERT INTO holdfast.operation AS o (namespace, key, type, state, attempts, budget_attempts, token, created_at, changed_at, deadline,
        fingerprint, holder, request_id)
    VALUES ($1, $2, $3, 2, 1, 1, nextval('holdfast.operation_token'), t, t, t + $6 * interval '1 millisecond', $4, holders[1], ids[1])
    ON CONFLICT DO NOTHING RETURNING o.token INTO fresh;
    IF fresh IS NOT NULL THEN
        INSERT INTO holdfast.attempt (namespace, key, token, attempt, trigger, execution_id, started_at, holder)
            VALUES ($1, $2, fresh, 1, 4, gen_random_uuid(), t, holders[1]);
        told := 200;
    ELSE
        t := holdfast.clock();
        told := (SELECT v.outcome FROM holdfast.op_verdicts(ns, keys, types, prints, ids, t) v);
        IF told = 0 THEN
            PERFORM FROM holdfast.operation o WHERE o.namespace = $1 AND o.key = $2 FOR NO KEY UPDATE;
            t := holdfast.clock();
            told := coalesce((SELECT s.did FROM holdfast.op_start(ns, keys, types, prints, holders, ttls, ids, ARRAY[0]::smallint[], ARRAY[true], t, true) s),
                (SELECT v.outcome FROM holdfast.op_verdicts(ns, keys, types, prints, ids, t) v));
        END IF;
    END IF;
    t := holdfast.clock();
    RETURN QUERY SELECT CASE x.outcome WHEN 200 THEN 'started' WHEN 202 THEN 'replayed' WHEN 203 THEN 'failed' WHEN 204 THEN 'cancelled'
            WHEN 206 THEN 'unknown' WHEN 207 THEN 'review' WHEN 208 THEN 'conflict' ELSE 'in_progress' END,
        x.attempt, CASE x.outcome WHEN 200 THEN x.token ELSE 0 END, x.result, x.message, x.holder, x.remaining_ms
    FROM holdfast.op_tell(ns, keys, ARRAY[told], t) x;
END
$_$;
-- Name: break_lease(text, text, bigint, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text) RETURNS TABLE(outcome smallint, fence bigint, live boolean, pid integer)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY SELECT b.outcome, b.fence, b.live, b.pid FROM holdfast.break_lease(p_ns, p_resource, p_token_seen, p_actor, p_reason, false) b;
END
$$;
-- Name: break_lease(text, text, bigint, text, text, boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text, p_turn boolean) RETURNS TABLE(outcome smallint, fence bigint, live boolean, pid integer, next_server text)
    LANGUAGE plpgsql
    AS $$
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
-- Name: commit_durably(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.commit_durably() RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;
-- Name: complete_operation(text, text, bigint, bytea); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.complete_operation(namespace text, key text, token bigint, result bytea DEFAULT NULL::bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
    told smallint;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM holdfast.require_mapped($1);
    PERFORM holdfast.commit_durably();
    PERFORM FROM holdfast.operation o WHERE o.namespace = $1 AND o.key = $2 FOR NO KEY UPDATE;
    told := (SELECT f.outcome FROM holdfast.op_finish_batch(ARRAY[$1], ARRAY[$2], ARRAY[$3], ARRAY[1]::smallint[], ARRAY[$4], ARRAY[''],
        ARRAY[0]::smallint[], ARRAY[''], ARRAY[''], ARRAY[0]::bigint[], NULL, NULL, NULL, NULL, NULL) f);
    IF told = 212 THEN
        RAISE EXCEPTION 'holdfast: token % of operation "%" is stale: a newer attempt was started', $3, $2 USING ERRCODE = 'HF001';
    ELSIF told = 214 THEN
        RAISE EXCEPTION 'holdfast: the attempt with token % of operation "%" has ended otherwise', $3, $2 USING ERRCODE = 'HF003';
    ELSIF told NOT IN (210, 211) THEN
        RAISE EXCEPTION 'holdfast: the attempt with token % of operation "%" is not held', $3, $2 USING ERRCODE = 'HF002';
    END IF;
END
$_$;
-- Name: count_usage(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.count_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    leases := (SELECT count(*) FROM holdfast.lease l WHERE l.namespace = p_ns AND l.token > 0 AND l.ended = 0);
    value_bytes := (SELECT coalesce(sum(pg_catalog.octet_length(v.value)), 0) FROM holdfast.resource_value v WHERE v.namespace = p_ns);
END
$$;
-- Name: create_namespace(text, bigint, bigint, bigint, boolean, bigint, bigint, bigint, bigint, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.create_namespace(p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text) RETURNS TABLE(outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean, max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    fresh holdfast.namespace;
    wanted holdfast.namespace;
    found_row holdfast.namespace;
BEGIN
    PERFORM holdfast.require_read_committed();
    -- The defaults are the table's.
    fresh.name := p_name;
    fresh.fence_floor := 0;
    fresh.lock_delay_ms := 0;
    fresh.min_ttl_ms := 100;
    fresh.max_ttl_ms := 86400000;
    fresh.audit_writes := false;
    fresh.max_leases := 0;
    fresh.max_waiters := 0;
    fresh.max_value_bytes := 0;
    fresh.audit_keep_days := 400;
    wanted := holdfast.with_policies(fresh, p_lock_delay_ms, p_min_ttl_ms, p_max_ttl_ms, p_audit_writes, p_max_leases, p_max_waiters,
        p_max_value_bytes, p_audit_keep_days);
    IF wanted.min_ttl_ms > wanted.max_ttl_ms THEN
        RETURN QUERY SELECT * FROM holdfast.namespace_row(73, wanted);
        RETURN;
    END IF;
    INSERT INTO holdfast.namespace (name, lock_delay_ms, min_ttl_ms, max_ttl_ms, audit_writes, max_leases, max_waiters, max_value_bytes,
        audit_keep_days)
    VALUES (p_name, wanted.lock_delay_ms, wanted.min_ttl_ms, wanted.max_ttl_ms, wanted.audit_writes, wanted.max_leases,
        wanted.max_waiters, wanted.max_value_bytes, wanted.audit_keep_days)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
            VALUES (p_name, 'policy', 0, p_actor, pg_catalog.concat_ws(': ', 'created', nullif(holdfast.policy_changes(fresh, wanted), '')));
        RETURN QUERY SELECT * FROM holdfast.namespace_row(50, wanted);
        RETURN;
    END IF;
    SELECT * INTO found_row FROM holdfast.namespace n WHERE n.name = p_name;
    RETURN QUERY SELECT * FROM holdfast.namespace_row(CASE
        WHEN found_row.retired_at IS NULL AND holdfast.policy_changes(found_row, wanted) = '' THEN 50 ELSE 72 END, found_row)
        WHERE found_row.name IS NOT NULL;
END
$$;
-- Name: create_principal(text, text, bytea, text, bigint, bigint, bigint, text[], text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.create_principal(p_id text, p_name text, p_secret_hash bytea, p_certificate text, p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_grants text[], p_actor text) RETURNS TABLE(outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint, revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    t timestamptz;
    made holdfast.principal;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.auth_state FOR NO KEY UPDATE;
    t := holdfast.clock();
    SELECT p.* INTO made FROM holdfast.principal p WHERE p.id = p_id;
    IF FOUND THEN
        IF made.name = p_name AND made.secret_hash IS NOT DISTINCT FROM p_secret_hash AND made.certificate IS NOT DISTINCT FROM p_certificate THEN
            RETURN QUERY SELECT * FROM holdfast.principal_row(50, made);
        ELSE
            RETURN QUERY SELECT * FROM holdfast.principal_none(226, p_id);
        END IF;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM holdfast.principal p WHERE p.name = p_name AND p.revoked_at IS NULL)
        OR EXISTS (SELECT FROM holdfast.principal p WHERE p.certificate = p_certificate AND p.revoked_at IS NULL) THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(226, p_id);
        RETURN;
    END IF;
    IF (SELECT pg_catalog.count(*) FROM holdfast.principal p WHERE p.revoked_at IS NULL AND (p.expires_at IS NULL OR p.expires_at > t)) >= 100000 THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(227, p_id);
        RETURN;
    END IF;
    UPDATE holdfast.auth_state s SET version = s.version + 1 RETURNING s.version INTO made.version;
    INSERT INTO holdfast.principal (id, name, secret_hash, certificate, created_at, created_by, expires_at, rate_per_s, rate_burst, version)
    VALUES (p_id, p_name, p_secret_hash, p_certificate, t, p_actor,
        CASE WHEN p_expires_in_ms > 0 THEN t + p_expires_in_ms * interval '1 ms' END, p_rate_per_s::int, p_rate_burst::int, made.version)
    RETURNING * INTO made;
    PERFORM holdfast.put_grants(p_id, p_grants);
    PERFORM holdfast.audit_principal(p_id, '{}', p_actor, pg_catalog.format('created %s "%s"%s', p_id, p_name,
        CASE WHEN p_certificate IS NULL THEN '' ELSE pg_catalog.format(' for certificate "%s"', p_certificate) END), true);
    RETURN QUERY SELECT * FROM holdfast.principal_row(50, made);
END
$$;
-- Name: defer_again(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.defer_again() RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    names CONSTANT text := (SELECT pg_catalog.string_agg(DISTINCT pg_catalog.format('%I.%I', n.nspname, c.conname), ', ')
        FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace WHERE c.condeferrable AND c.condeferred);
BEGIN
    IF names IS NOT NULL THEN
        EXECUTE 'SET CONSTRAINTS ' || names || ' DEFERRED';
    END IF;
    RETURN true;
EXCEPTION
    WHEN OTHERS THEN RETURN false;
END
$$;
-- Name: deferred_writes(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.deferred_writes() RETURNS bigint[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    counted CONSTANT boolean := pg_catalog.current_setting('track_counts') = 'on';
    t record;
    n bigint;
    writes bigint[] := '{0,0}';
BEGIN
    FOR t IN
        SELECT g.tgrelid, pg_catalog.bool_or((p.proowner <> 10 AND NOT holdfast.trusted(p.proowner)) OR x.indexprs IS NOT NULL
            OR x.indpred IS NOT NULL) AS strange
        FROM pg_catalog.pg_trigger g JOIN pg_catalog.pg_proc p ON p.oid = g.tgfoid
        LEFT JOIN pg_catalog.pg_constraint c ON c.oid = g.tgconstraint AND c.contype = 'x'
        LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = c.conindid
        WHERE g.tgdeferrable GROUP BY g.tgrelid
    LOOP
        -- Where nothing is counted, they are taken to be written all the time.
        n := CASE WHEN counted THEN pg_catalog.pg_stat_get_xact_tuples_inserted(t.tgrelid)
                + pg_catalog.pg_stat_get_xact_tuples_updated(t.tgrelid) + pg_catalog.pg_stat_get_xact_tuples_deleted(t.tgrelid)
            ELSE pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000 END;
        writes[1] := writes[1] + n;
        IF t.strange THEN
            writes[2] := writes[2] + n;
        END IF;
    END LOOP;
    RETURN writes;
END
$$;
-- Name: emit(text, text, text, text, bytea, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.emit(namespace text, aggregatetype text, aggregateid text, type text, payload bytea, operation text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
BEGIN
    PERFORM holdfast.require_mapped($1);
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = $1 AND n.retired_at IS NULL) THEN
        RAISE EXCEPTION 'holdfast: there is no namespace "%"', $1 USING ERRCODE = 'HF002';
    ELSIF NOT coalesce(octet_length($2) BETWEEN 1 AND 256 AND octet_length($3) BETWEEN 1 AND 256 AND octet_length($4) BETWEEN 1 AND 256
        AND octet_length($5) <= 1048576 AND ($6 IS NULL OR octet_length($6) BETWEEN 1 AND 256), false) THEN
        RAISE EXCEPTION 'holdfast: an event''s names are 1 to 256 bytes, its payload 1048576 at most' USING ERRCODE = '22023';
    END IF;
    PERFORM holdfast.commit_durably();
    PERFORM holdfast.put_events(ARRAY[$1], ARRAY[$6], ARRAY[1], ARRAY[$2], ARRAY[$3], ARRAY[$4], ARRAY[$5], ARRAY[true]);
    RETURN currval('holdfast.outbox_id');
END
$_$;
-- Name: end_backend(integer, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.end_backend(p_pid integer, p_backend_start text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
-- Name: execute_guard(text, text, bigint, bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.execute_guard(p_ns text, p_resource text, p_token bigint, p_expected bigint, OUT outcome smallint, OUT fence bigint, OUT version bigint) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    held record;
BEGIN
    PERFORM FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        outcome := CASE WHEN EXISTS (SELECT FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource) THEN 5 ELSE 220 END;
        RETURN;
    END IF;
    SELECT r.fence, l.token = p_token AND l.deadline > holdfast.clock() AS live,
        CASE WHEN v.value IS NULL THEN 0 ELSE v.version END AS version INTO held
    FROM holdfast.resource r LEFT JOIN holdfast.lease l ON l.namespace = p_ns AND l.resource = p_resource
    LEFT JOIN holdfast.resource_value v ON v.namespace = p_ns AND v.resource = p_resource
    WHERE r.namespace = p_ns AND r.name = p_resource;
    fence := held.fence;
    version := held.version;
    outcome := CASE
        WHEN p_token < held.fence THEN 219
        WHEN p_token > held.fence OR held.live IS NOT TRUE THEN 220
        WHEN p_expected <> held.version THEN 221 END;
END
$$;
-- Name: execute_one(text, text, text, bytea, text, text, text, integer, boolean, text[], integer[], text[], text[], text[], bytea[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.execute_one(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_call text, p_args text, p_holder text, p_timeout_ms integer, p_fresh boolean, p_settings text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[], OUT outcome smallint, OUT result jsonb, OUT sqlstate_told text, OUT message text, OUT checked boolean) RETURNS record
    LANGUAGE plpgsql
    AS $_$
DECLARE
    began CONSTANT timestamptz := pg_catalog.clock_timestamp();
    t timestamptz := holdfast.clock();
    writes CONSTANT bigint[] := holdfast.deferred_writes();
BEGIN
    IF p_fresh THEN
        INSERT INTO holdfast.operation (namespace, key, type, state, attempts, created_at, changed_at, fingerprint, holder)
        VALUES (p_ns, p_key, p_type, 3, 1, t, t, p_fingerprint, p_holder) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            outcome := 5; -- somebody was quicker: looked at again
            RETURN;
        END IF;
    END IF;
    -- How the server's sessions plan fits its own statements, and not what an action may join and count.
    RESET plan_cache_mode;
    RESET enable_hashjoin;
    RESET enable_mergejoin;
    RESET enable_seqscan;
    EXECUTE pg_catalog.format('SELECT %s($1, $2)', p_call) INTO result USING p_key, p_args::jsonb;
    checked := holdfast.after_action(p_settings, pg_catalog.current_setting('search_path'), writes);
    IF checked THEN
        SET CONSTRAINTS ALL IMMEDIATE;
    END IF;
    IF pg_catalog.pg_my_temp_schema() <> 0 THEN
        DISCARD TEMP; -- types and tables there can hide others of the same names
    END IF;
    IF result IS NULL THEN
        RAISE EXCEPTION 'holdfast: the action returned NULL' USING ERRCODE = '22004';
    ELSIF pg_catalog.octet_length(result::text) > 1048576 THEN
        RAISE EXCEPTION 'holdfast: the action returned more than 1048576 bytes' USING ERRCODE = '54000';
    ELSIF pg_catalog.clock_timestamp() > began + p_timeout_ms * interval '1 millisecond' THEN
        RAISE EXCEPTION 'holdfast: the action took longer than % ms', p_timeout_ms USING ERRCODE = '57014';
    END IF;
    t := holdfast.clock();
    UPDATE holdfast.operation o SET state = 3, sending = false, revision = CASE WHEN p_fresh THEN 1 ELSE o.revision + 1 END,
        attempts = CASE WHEN p_fresh THEN 1 ELSE o.attempts + 1 END, changed_at = t, deadline = NULL, holder = p_holder, request_id = NULL,
        result = pg_catalog.convert_to(execute_one.result::text, 'UTF8'), error_class = NULL, message = NULL, sqlstate = NULL
    WHERE o.namespace = p_ns AND o.key = p_key;
    IF p_event_item IS NOT NULL THEN
        PERFORM holdfast.put_events(ARRAY[p_ns], ARRAY[p_key], p_event_item, p_event_aggregate_type, p_event_aggregate_id, p_event_type,
            p_event_payload, ARRAY[true]);
    END IF;
    outcome := 210;
EXCEPTION
    WHEN lock_not_available THEN
        result := NULL;
        outcome := 5;
    WHEN OTHERS OR query_canceled OR assert_failure THEN
        GET STACKED DIAGNOSTICS sqlstate_told = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
        message := pg_catalog.left(message, 1024);
        result := NULL;
        outcome := 218;
END
$_$;
-- Name: execute_setting_names(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.execute_setting_names() RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT ARRAY['search_path', 'synchronous_commit', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout',
        'idle_session_timeout', 'transaction_timeout', 'plan_cache_mode', 'enable_hashjoin', 'enable_mergejoin', 'enable_nestloop',
        'enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan', 'enable_sort', 'jit', 'row_security', 'TimeZone', 'DateStyle',
        'IntervalStyle', 'bytea_output', 'client_encoding', 'extra_float_digits', 'array_nulls', 'transform_null_equals',
        'standard_conforming_strings', 'default_transaction_isolation', 'default_transaction_read_only', 'default_transaction_deferrable',
        'client_min_messages', 'work_mem', 'application_name', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count',
        'tcp_user_timeout', 'client_connection_check_interval', 'default_tablespace', 'temp_tablespaces', 'max_parallel_workers_per_gather']
$$;
-- Name: execute_settings(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.execute_settings() RETURNS text[]
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN ARRAY(SELECT pg_catalog.current_setting(n, true) FROM unnest(holdfast.execute_setting_names()) WITH ORDINALITY AS x(n, i) ORDER BY i);
END
$$;
-- Name: find_action(text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.find_action(p_ns text, p_name text, OUT call text, OUT problem text, OUT timeout_ms integer) RETURNS record
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    a record;
    f oid;
BEGIN
    SELECT x.function, x.role, x.timeout_ms INTO a FROM holdfast.action x WHERE x.namespace = p_ns AND x.name = p_name;
    IF FOUND THEN
        f := pg_catalog.to_regprocedure(a.function || '(pg_catalog.text,pg_catalog.jsonb)');
        call := a.function;
        timeout_ms := a.timeout_ms;
        problem := holdfast.action_problem(f);
        IF problem IS NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
            WHERE p.oid = f AND r.rolname = a.role) THEN
            problem := pg_catalog.format('it does not belong to "%s" any more', a.role);
        END IF;
    END IF;
END
$$;
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
-- Name: follow(bigint, int8multirange, bigint[], bigint[], bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.follow(p_high bigint, p_gaps int8multirange, p_from bigint[], p_to bigint[], p_max bigint) RETURNS TABLE(id bigint, kind smallint, namespace text, resource text, token bigint, prior bigint, actor text, detail text, at_unix_ms bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    highest bigint := holdfast.trail_highest();
    until bigint := least(highest, p_high + p_max);
    look boolean := highest > p_high OR NOT pg_catalog.isempty(p_gaps);
    writers text := CASE WHEN look THEN holdfast.trail_writers() END;
    since timestamptz := pg_catalog.clock_timestamp() - interval '32 days';
BEGIN
    RETURN QUERY SELECT until, -1::smallint, i.system_identifier::text, i.timeline, highest, NULL::bigint, NULL::text, writers, NULL::bigint
    FROM holdfast.identity i;
    IF look THEN
        RETURN QUERY
        SELECT a.id, k.kind, CASE WHEN k.kind > 0 THEN a.namespace::text END, CASE WHEN k.kind > 0 THEN a.resource::text END,
            CASE WHEN k.kind > 0 THEN a.token END, CASE WHEN k.kind > 0 THEN a.prior END, CASE WHEN k.kind > 0 THEN a.actor END,
            CASE WHEN k.kind > 0 THEN a.detail END, CASE WHEN k.kind > 0 THEN holdfast.unix_ms(a.at) END
        FROM unnest(p_from, p_to) AS g(low, high)
        CROSS JOIN LATERAL (
            SELECT t.* FROM holdfast.audit t WHERE t.at >= since AND t.id >= g.low AND t.id <= least(g.high, until)
                AND (t.id > p_high OR t.id <@ p_gaps)) a
        CROSS JOIN LATERAL (SELECT holdfast.trail_kind(a.kind) AS kind) k
        ORDER BY a.id;
    END IF;
END
$$;
-- Name: follow_start(bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.follow_start(p_window bigint) RETURNS TABLE(id bigint, kind smallint, namespace text, resource text, token bigint, prior bigint, actor text, detail text, at_unix_ms bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    highest bigint := holdfast.trail_highest();
    writers text := holdfast.trail_writers();
    base bigint := greatest(highest - p_window, 0);
BEGIN
    RETURN QUERY SELECT highest, -1::smallint, i.system_identifier::text, i.timeline, highest, NULL::bigint, NULL::text, writers, NULL::bigint
    FROM holdfast.identity i;
    IF writers IS NOT NULL THEN
        RETURN QUERY
        SELECT s.before + 1, -2::smallint, NULL::text, NULL::text, s.id - 1, NULL::bigint, NULL::text, NULL::text, NULL::bigint FROM (
            SELECT x.id, pg_catalog.lag(x.id, 1, base) OVER (ORDER BY x.id) AS before FROM (
                SELECT a.id FROM holdfast.audit a WHERE a.id > base AND a.id <= highest
                UNION ALL SELECT highest + 1) x) s
        WHERE s.before + 1 < s.id ORDER BY s.id;
    END IF;
END
$$;
-- Name: follow_tidy(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.follow_tidy() RETURNS integer
    LANGUAGE plpgsql
    SET lock_timeout TO '100ms'
    AS $$
DECLARE
    index regclass;
    done int := 0;
BEGIN
    FOR index IN SELECT x.indexrelid::regclass FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_index x ON x.indrelid = h.inhrelid
        JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
        WHERE h.inhparent = 'holdfast.audit'::regclass AND m.amname = 'brin' AND pg_catalog.pg_relation_size(h.inhrelid) > 0
        ORDER BY h.inhrelid DESC LIMIT 4
    LOOP
        done := done + pg_catalog.brin_summarize_new_values(index);
    END LOOP;
    RETURN done;
EXCEPTION
    WHEN lock_not_available OR insufficient_privilege THEN RETURN done;
END
$$;
-- Name: forget_session(text[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.forget_session(p_keep text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    prepared text;
BEGIN
    FOR prepared IN SELECT s.name FROM pg_catalog.pg_prepared_statement() s WHERE s.from_sql AND s.name <> ALL (p_keep) LOOP
        EXECUTE pg_catalog.format('DEALLOCATE %I', prepared);
    END LOOP;
    PERFORM pg_catalog.pg_advisory_unlock_all();
    UNLISTEN *;
END
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
-- Name: give_turn(text, text, timestamp with time zone, text, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.give_turn(p_ns text, p_resource text, p_t timestamp with time zone, p_but text, p_before timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
    next text;
BEGIN
    UPDATE holdfast.waiter w SET turn_until = p_t + interval '100 ms'
    WHERE w.namespace = p_ns AND w.resource = p_resource AND w.server = (
        SELECT v.server FROM holdfast.waiter v
        WHERE v.namespace = p_ns AND v.resource = p_resource AND v.until > p_t AND v.server IS DISTINCT FROM p_but
            AND (p_before IS NULL OR v.since < p_before)
        ORDER BY v.since, v.server LIMIT 1)
    RETURNING w.server INTO next;
    RETURN coalesce(next, '');
END
$$;
-- Name: grants_text(text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.grants_text(p_id text, p_ns text) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(pg_catalog.string_agg((ARRAY['reader', 'worker', 'operator', 'admin'])[g.role]
        || CASE WHEN g.namespace IS NULL THEN ' in all namespaces' ELSE '' END
        || CASE WHEN g.resource_prefix <> '' THEN ' on resources "' || g.resource_prefix || '"' ELSE '' END
        || CASE WHEN g.operation_prefix <> '' THEN ' on operations "' || g.operation_prefix || '"' ELSE '' END, '; ' ORDER BY g.place), 'nothing')
    FROM holdfast.principal_grant g WHERE g.principal = p_id AND (g.namespace IS NULL OR g.namespace = p_ns)
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
    PERFORM holdfast.require_mapped(in_ns);
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
-- Name: in_the_way_ms(timestamp with time zone, smallint, integer, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.in_the_way_ms(p_deadline timestamp with time zone, p_ended smallint, p_lock_delay_ms integer, p_t timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE
        WHEN p_deadline > p_t THEN holdfast.ms(p_deadline - p_t)
        WHEN p_ended = 0 AND pg_catalog.isfinite(p_deadline)
            THEN greatest(0, holdfast.ms(p_deadline + p_lock_delay_ms * interval '1 ms' - p_t))
        ELSE 0 END
$$;
-- Name: jitter(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.jitter() RETURNS double precision
    LANGUAGE sql
    AS $$ SELECT pg_catalog.random() $$;
-- Name: leave_batch(text[], text[], text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.leave_batch(p_ns text[], p_resource text[], p_server text) RETURNS TABLE(i integer, outcome smallint, next_server text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    got int[];
    mine boolean[];
    t timestamptz;
    item record;
    gone record;
BEGIN
    PERFORM holdfast.require_read_committed();
    SELECT pg_catalog.array_agg(s.i) INTO got FROM (
        SELECT x.i::int FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
        JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        FOR NO KEY UPDATE OF r SKIP LOCKED) s;
    mine := holdfast.flags(got, pg_catalog.cardinality(p_ns));
    t := holdfast.clock();
    FOR item IN
        SELECT x.i::int AS i, x.ns, x.resource, n.name IS NOT NULL AS open, r.name IS NOT NULL AS there, x.mine IS FALSE AS busy,
            (l.deadline > t) IS TRUE AS live
        FROM unnest(p_ns, p_resource, mine) WITH ORDINALITY AS x(ns, resource, mine, i)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    LOOP
        i := item.i;
        outcome := 21;
        next_server := '';
        IF NOT item.open THEN
            outcome := 90;
        ELSIF item.there AND item.busy THEN
            outcome := 5;
        ELSIF item.there THEN
            gone := holdfast.wait_no_more(item.ns, item.resource, p_server);
            IF gone.was_there THEN
                outcome := 20;
            END IF;
            IF gone.had_turn AND NOT item.live THEN
                next_server := holdfast.give_turn(item.ns, item.resource, t, NULL, NULL);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
-- Name: limit_leases(text[], text[], bigint[], text[], boolean[], tid[], tid[], timestamp with time zone, smallint[], boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.limit_leases(p_ns text[], p_resource text[], p_ttl_ms bigint[], p_request_id text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone, p_veto smallint[], p_all boolean) RETURNS smallint[]
    LANGUAGE plpgsql
    AS $$
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
-- Name: limit_values(text[], text[], bigint[], bigint[], bytea[], bigint[], tid[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.limit_values(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[], p_t timestamp with time zone) RETURNS boolean[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    veto boolean[] := pg_catalog.array_fill(false, ARRAY[pg_catalog.cardinality(p_ns)]);
    limited record;
    used record;
    item record;
BEGIN
    FOR limited IN SELECT n.name, n.max_value_bytes FROM holdfast.namespace n
        WHERE n.max_value_bytes > 0 AND n.name = ANY (p_ns) AND n.retired_at IS NULL ORDER BY n.name
    LOOP
        used := holdfast.lock_usage(limited.name);
        FOR item IN SELECT v.i, v.more_bytes
            FROM holdfast.write_verdicts(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, p_r_tid, p_t) v
            WHERE v.ns = limited.name AND v.outcome = 30 ORDER BY v.i
        LOOP
            IF item.more_bytes > 0 AND used.value_bytes + item.more_bytes > limited.max_value_bytes THEN
                veto[item.i] := true;
            ELSE
                used.value_bytes := used.value_bytes + item.more_bytes;
            END IF;
        END LOOP;
        UPDATE holdfast.usage u SET value_bytes = used.value_bytes WHERE u.namespace = limited.name AND u.value_bytes <> used.value_bytes;
    END LOOP;
    RETURN veto;
END
$$;
-- Name: list_actions(text, text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_actions(p_ns text, p_after text, p_max integer) RETURNS TABLE(outcome smallint, name text, function text, role text, timeout_ms bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, ''::text, ''::text, 0::bigint;
        RETURN;
    END IF;
    RETURN QUERY SELECT 50::smallint, a.name::text, a.function, a.role::text, a.timeout_ms::bigint
    FROM holdfast.action a WHERE a.namespace = p_ns AND a.name > p_after ORDER BY a.name LIMIT p_max + 1;
END
$$;
-- Name: list_denials(bigint, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_denials(p_before bigint, p_max integer) RETURNS TABLE(outcome smallint, id bigint, minute_unix_ms bigint, principal text, name text, method text, reason text, denials bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT 50::smallint, d.id, holdfast.unix_ms(d.minute), d.principal::text, coalesce(p.name, '')::text, d.method::text, d.reason::text,
        d.denials
    FROM holdfast.denial d LEFT JOIN holdfast.principal p ON p.id = d.principal
    WHERE p_before = 0 OR d.id < p_before ORDER BY d.id DESC LIMIT p_max + 1;
END
$$;
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
-- Name: list_namespaces(text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_namespaces(p_after text, p_max integer) RETURNS TABLE(outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean, max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT x.* FROM (SELECT n FROM holdfast.namespace n WHERE n.name > p_after ORDER BY n.name LIMIT p_max + 1) s,
        holdfast.namespace_row(50, s.n) x ORDER BY x.name COLLATE "C";
END
$$;
-- Name: list_principals(text, boolean, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_principals(p_after text, p_revoked boolean, p_max integer) RETURNS TABLE(outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint, revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT x.* FROM (
        SELECT p FROM holdfast.principal p WHERE p.id > p_after AND (p_revoked OR p.revoked_at IS NULL) ORDER BY p.id LIMIT p_max + 1) s,
        holdfast.principal_row(50, s.p) x ORDER BY x.id COLLATE "C";
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
-- Name: list_sql_roles(text, text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.list_sql_roles(p_ns text, p_after text, p_max integer) RETURNS TABLE(outcome smallint, role text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text;
        RETURN;
    END IF;
    RETURN QUERY SELECT 50::smallint, m.role::text FROM holdfast.sql_role m
    WHERE m.namespace = p_ns AND m.role::text COLLATE "C" > p_after ORDER BY m.role::text COLLATE "C" LIMIT p_max + 1;
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
BEGIN
    RETURN (holdfast.lock_rows(p_ns, p_resource, p_make)).mine;
END
$$;
-- Name: lock_rows(text[], text[], boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.lock_rows(p_ns text[], p_resource text[], p_make boolean, OUT r_tid tid[], OUT l_tid tid[], OUT mine boolean[], OUT special boolean) RETURNS record
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
-- Name: lock_usage(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.lock_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint, OUT noted_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql
    AS $$
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
-- Name: map_sql_role(text, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.map_sql_role(p_ns text, p_role text, p_actor text) RETURNS TABLE(outcome smallint, message text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text;
    ELSIF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = p_role) THEN
        RETURN QUERY SELECT 223::smallint, 'an SQL role that exists'::text;
    ELSE
        IF NOT EXISTS (SELECT FROM holdfast.sql_role m WHERE m.namespace = p_ns AND m.role = p_role) THEN
            PERFORM holdfast.allow_role(p_role::name, p_ns);
            INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
                VALUES (p_ns, 'role', 0, p_actor, pg_catalog.format('mapped SQL role "%s"', p_role));
        END IF;
        RETURN QUERY SELECT 50::smallint, ''::text;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RETURN QUERY SELECT 223::smallint, 'one to which the server may grant holdfast_user'::text;
END
$$;
-- Name: ms(interval); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.ms(p_interval interval) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT pg_catalog.floor(pg_catalog.date_part('epoch', p_interval) * 1000 + 0.0005)::bigint $$;
-- Name: namespace; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.namespace (
    name text NOT NULL COLLATE pg_catalog."C",
    fence_floor bigint DEFAULT 0 NOT NULL,
    retired_at timestamp with time zone,
    audit_writes boolean DEFAULT false NOT NULL,
    guard_idle_cap_ms integer DEFAULT 60000 NOT NULL,
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    lock_delay_ms integer DEFAULT 0 NOT NULL,
    min_ttl_ms integer DEFAULT 100 NOT NULL,
    max_ttl_ms integer DEFAULT 86400000 NOT NULL,
    max_leases bigint DEFAULT 0 NOT NULL,
    max_waiters bigint DEFAULT 0 NOT NULL,
    max_value_bytes bigint DEFAULT 0 NOT NULL,
    audit_keep_days integer DEFAULT 400 NOT NULL,
    CONSTRAINT namespace_audit_keep_days_check CHECK (((audit_keep_days >= 1) AND (audit_keep_days <= 36500))),
    CONSTRAINT namespace_fence_floor_check CHECK ((fence_floor >= 0)),
    CONSTRAINT namespace_guard_idle_cap_ms_check CHECK ((guard_idle_cap_ms > 0)),
    CONSTRAINT namespace_lock_delay_ms_check CHECK (((lock_delay_ms >= 0) AND (lock_delay_ms <= 60000))),
    CONSTRAINT namespace_max_leases_check CHECK ((max_leases >= 0)),
    CONSTRAINT namespace_max_ttl_ms_check CHECK ((max_ttl_ms <= 86400000)),
    CONSTRAINT namespace_max_value_bytes_check CHECK ((max_value_bytes >= 0)),
    CONSTRAINT namespace_max_waiters_check CHECK ((max_waiters >= 0)),
    CONSTRAINT namespace_min_ttl_ms_check CHECK ((min_ttl_ms >= 100)),
    CONSTRAINT namespace_ttl_bounds CHECK ((min_ttl_ms <= max_ttl_ms))
);
-- Name: TABLE namespace; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.namespace IS 'The scope of names and policies. Retired, never deleted.';
-- Name: COLUMN namespace.fence_floor; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.fence_floor IS 'Every grant''s token is above this as well as above its resource''s fence. Never lowered.';
-- Name: COLUMN namespace.audit_writes; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.audit_writes IS 'Whether each accepted write and delete leaves an audit row too.';
-- Name: COLUMN namespace.guard_idle_cap_ms; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.guard_idle_cap_ms IS 'The longest a transaction that called guard() may sit idle, whatever remains of its lease.';
-- Name: COLUMN namespace.lock_delay_ms; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.lock_delay_ms IS 'For so long after a lease ran out (not: was released or broken) nobody is granted.';
-- Name: COLUMN namespace.min_ttl_ms; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.min_ttl_ms IS 'An acquire with a shorter ttl is refused.';
-- Name: COLUMN namespace.max_ttl_ms; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.max_ttl_ms IS 'An acquire with a longer ttl is refused; a renewal gets this at most.';
-- Name: COLUMN namespace.max_leases; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.max_leases IS 'Leases at one time, see usage; 0 = no limit.';
-- Name: COLUMN namespace.max_waiters; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.max_waiters IS 'Callers that wait on one server at one time; 0 = no limit. Kept by the servers.';
-- Name: COLUMN namespace.max_value_bytes; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.max_value_bytes IS 'All values together, see usage; 0 = no limit.';
-- Name: COLUMN namespace.audit_keep_days; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.namespace.audit_keep_days IS 'Audit rows and counts of refusals are kept at least so long.';
-- Name: namespace_row(integer, holdfast.namespace); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.namespace_row(p_outcome integer, p_row holdfast.namespace) RETURNS TABLE(outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean, max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT p_outcome::smallint, p_row.name::text, p_row.lock_delay_ms::bigint, p_row.min_ttl_ms::bigint, p_row.max_ttl_ms::bigint,
        p_row.audit_writes, p_row.max_leases, p_row.max_waiters, p_row.max_value_bytes, p_row.audit_keep_days::bigint,
        p_row.fence_floor, p_row.retired_at IS NOT NULL
$$;
-- Name: note_expired(text, integer, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.note_expired(p_ns text, p_max integer, p_t timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
-- Name: notify_batch(text[], text[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.notify_batch(p_server text[], p_payload text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('holdfast_' || x.server, x.payload) FROM unnest(p_server, p_payload) AS x(server, payload);
END
$$;
-- Name: old_partitions(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.old_partitions() RETURNS TABLE(name text, statements text[])
    LANGUAGE plpgsql
    AS $_$
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
$_$;
-- Name: op_attempts(text, text, integer, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_attempts(p_ns text, p_key text, p_after integer, p_max integer) RETURNS TABLE(outcome smallint, attempt integer, execution_id text, token bigint, trigger smallint, holder text, started_unix_ms bigint, ended_unix_ms bigint, sending_unix_ms bigint, attempt_outcome smallint, error_class smallint, message text, sqlstate text, late_unix_ms bigint, late_call text, late_result bytea, late_message text, late_count integer)
    LANGUAGE plpgsql
    AS $$
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
-- Name: op_compensate(text, text, text, bytea, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_compensate(p_ns text, p_key text, p_type text, p_payload bytea, p_actor text, p_reason text) RETURNS TABLE(outcome smallint, key text, state smallint, revision integer, fingerprint bytea)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    undo_key CONSTANT text := CASE WHEN pg_catalog.octet_length(p_key) <= 251 THEN 'undo:' || p_key
        ELSE 'undo:' || pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(p_key, 'UTF8')), 'hex') END;
    print CONSTANT bytea := pg_catalog.sha256(pg_catalog.convert_to(p_type, 'UTF8') || '\x00'::bytea || coalesce(p_payload, ''::bytea));
    t timestamptz;
    mine boolean[];
    o holdfast.operation;
    undo holdfast.operation;
    refused smallint;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, 0::smallint, 0, ''::bytea;
        RETURN;
    END IF;
    mine := holdfast.op_lock(ARRAY[p_ns], ARRAY[p_key], ARRAY[true]);
    t := holdfast.clock();
    SELECT * INTO o FROM holdfast.operation x WHERE x.namespace = p_ns AND x.key = p_key;
    refused := CASE
        WHEN o.key IS NULL THEN 216
        WHEN NOT mine[1] THEN 5
        WHEN o.state = 3 THEN NULL
        WHEN holdfast.op_state_at(o.state, o.sending, o.deadline, p_ns, o.type, t) = 5 THEN 206
        WHEN o.state = 6 THEN 207
        ELSE 214 END;
    IF refused IS NULL AND o.compensated_by IS NULL THEN
        INSERT INTO holdfast.operation (namespace, key, type, state, created_at, changed_at, deadline, fingerprint, compensates, payload)
        VALUES (p_ns, undo_key, p_type, 1, t, t, t, print, p_key, p_payload) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            UPDATE holdfast.operation x SET compensated_by = undo_key WHERE x.namespace = p_ns AND x.key = p_key;
            INSERT INTO holdfast.audit (namespace, operation, kind, token, prior, actor, detail)
                VALUES (p_ns, p_key, 'compensate', o.revision, o.revision, p_actor, p_reason);
            RETURN QUERY SELECT 210::smallint, undo_key, 1::smallint, 1, print;
            RETURN;
        END IF;
        refused := 208;
    END IF;
    SELECT * INTO undo FROM holdfast.operation x WHERE refused IS NULL AND x.namespace = p_ns AND x.key = o.compensated_by;
    IF refused IS NULL AND (undo.key IS NULL OR undo.type <> p_type OR undo.fingerprint <> print) THEN
        refused := 208;
    END IF;
    IF refused IS NULL THEN
        RETURN QUERY SELECT 211::smallint, undo.key::text, undo.state, undo.revision, undo.fingerprint;
    ELSE
        RETURN QUERY SELECT refused, ''::text, CASE refused WHEN 208 THEN 0::smallint ELSE coalesce(o.state, 0::smallint) END, coalesce(o.revision, 0), ''::bytea;
    END IF;
END
$$;
-- Name: op_decide(text, text, integer, smallint, smallint, bytea, text, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_decide(p_ns text, p_key text, p_revision integer, p_call smallint, p_reconciled smallint, p_result bytea, p_result_ref text, p_actor text, p_reason text) RETURNS TABLE(outcome smallint, state smallint, revision integer, message text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    kind CONSTANT text := (ARRAY['retry', 'cancel', 'reconcile'])[p_call];
    what CONSTANT text := (ARRAY['succeeded', 'failed', 'not done', 'cancelled'])[p_reconciled];
    decision CONSTANT text := pg_catalog.concat_ws(' ', kind, p_revision, p_reconciled, p_actor, p_reason);
    t timestamptz;
    mine boolean[];
    o holdfast.operation;
    next smallint;
BEGIN
    PERFORM holdfast.require_read_committed();
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, 0::smallint, 0, ''::text;
        RETURN;
    END IF;
    mine := holdfast.op_lock(ARRAY[p_ns], ARRAY[p_key], ARRAY[true]);
    IF NOT mine[1] THEN
        RETURN QUERY SELECT CASE WHEN EXISTS (SELECT FROM holdfast.operation x WHERE x.namespace = p_ns AND x.key = p_key) THEN 5 ELSE 216
            END::smallint, 0::smallint, 0, ''::text;
        RETURN;
    END IF;
    t := holdfast.clock();
    SELECT * INTO o FROM holdfast.operation x WHERE x.namespace = p_ns AND x.key = p_key;
    -- An attempt that was lost and not noticed yet is settled, by what was seen of it: its revision is not counted up for that.
    IF o.state = 2 AND o.deadline <= t THEN
        PERFORM holdfast.op_start(ARRAY[p_ns], ARRAY[p_key], ARRAY[o.type]::text[], ARRAY[o.fingerprint], NULL, NULL, ARRAY[''], NULL, mine, t, false);
        UPDATE holdfast.operation x SET revision = o.revision WHERE x.namespace = p_ns AND x.key = p_key;
        SELECT * INTO o FROM holdfast.operation x WHERE x.namespace = p_ns AND x.key = p_key;
    END IF;
    IF o.decided = decision THEN
        RETURN QUERY SELECT 211::smallint, o.state, o.revision, ''::text;
        RETURN;
    END IF;
    next := CASE
        WHEN o.revision <> p_revision THEN 0
        WHEN p_call IN (1, 2) AND o.state IN (1, 6) THEN CASE p_call WHEN 1 THEN 1 ELSE 7 END
        WHEN p_call = 3 AND o.state = 5 THEN (ARRAY[3, 4, 1, 7])[p_reconciled]
        ELSE 0 END;
    IF next = 0 THEN
        RETURN QUERY SELECT CASE WHEN o.revision <> p_revision THEN 215 WHEN o.state = 5 THEN 206 ELSE 214 END::smallint, o.state, o.revision,
            coalesce(o.message, '');
        RETURN;
    END IF;
    UPDATE holdfast.operation x SET state = next, revision = x.revision + 1, changed_at = t, decided = decision,
        deadline = CASE next WHEN 1 THEN t END, budget_attempts = CASE next WHEN 1 THEN 0 ELSE x.budget_attempts END,
        budget_since = CASE next WHEN 1 THEN t ELSE x.budget_since END,
        result = CASE next WHEN 3 THEN p_result ELSE x.result END,
        result_ref = CASE next WHEN 3 THEN nullif(p_result_ref, '') ELSE x.result_ref END,
        error_class = CASE next WHEN 3 THEN NULL WHEN 4 THEN 3 ELSE x.error_class END,
        message = CASE WHEN next IN (4, 7) THEN p_reason WHEN next = 3 THEN NULL ELSE x.message END
    WHERE x.namespace = p_ns AND x.key = p_key;
    INSERT INTO holdfast.audit (namespace, operation, kind, token, prior, actor, detail)
        VALUES (p_ns, p_key, kind, o.revision + 1, o.revision, p_actor, pg_catalog.concat_ws(': ', what, p_reason));
    RETURN QUERY SELECT 210::smallint, next, o.revision + 1, ''::text;
END
$$;
-- Name: op_delay_ms(integer, integer, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_delay_ms(p_attempts integer, p_base_ms integer, p_cap_ms integer) RETURNS bigint
    LANGUAGE sql
    AS $$ SELECT pg_catalog.floor(holdfast.jitter()
    * (least(p_cap_ms::float8, p_base_ms * 2::float8 ^ least(p_attempts - 1, 40)) + 1))::bigint $$;
-- Name: op_execute_batch(text[], text[], text[], bytea[], text[], text[], text[], bigint[], bigint[], text[], integer[], text[], text[], text[], bytea[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_execute_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_action text[], p_args text[], p_resource text[], p_token bigint[], p_expected bigint[], p_holder text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]) RETURNS TABLE(i integer, outcome smallint, result bytea, result_ref text, ended_unix_ms bigint, attempt integer, sqlstate text, message text, fence bigint, version bigint, holder text, remaining_ms bigint, error_class smallint, state smallint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    path CONSTANT text := pg_catalog.current_setting('search_path');
    ours CONSTANT text := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    begun CONSTANT timestamptz := pg_catalog.clock_timestamp();
    settings CONSTANT text[] := holdfast.execute_settings();
    prepared CONSTANT text[] := ARRAY(SELECT s.name FROM pg_catalog.pg_prepared_statement() s WHERE s.from_sql);
    acted boolean := false;
    late boolean := false;
    checked boolean;
    t timestamptz; -- handed over as it is, so that what it is handed to can be planned into the statement
    told smallint;
    act record;
    guarded smallint;
    guard_fence bigint;
    guard_version bigint;
    made jsonb;
    raised text;
    why text;
    did smallint;
    item int[];
    mine boolean[];
    atypes text[];
    aids text[];
    types text[];
    payloads bytea[];
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    FOR k IN 1..pg_catalog.cardinality(p_ns) LOOP
        IF late OR (k > 1 AND pg_catalog.clock_timestamp() > begun + interval '200 ms') THEN
            RETURN QUERY SELECT k, 224::smallint, NULL::bytea, ''::text, 0::bigint, 0, ''::text, ''::text, 0::bigint, 0::bigint, ''::text, 0::bigint,
                0::smallint, 0::smallint;
            CONTINUE;
        END IF;
        guarded := NULL;
        guard_fence := 0;
        guard_version := 0;
        raised := NULL;
        why := NULL;
        -- Told by its key first, whatever else may be wrong (P4). 5 = there is no row: it is new.
        t := holdfast.clock();
        told := (SELECT v.outcome FROM holdfast.op_verdicts(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], ARRAY[''], t) v);
        IF told = 0 THEN
            mine := holdfast.op_lock(p_ns[k:k], p_key[k:k], ARRAY[true]);
            told := 5;
            IF mine[1] THEN
                t := holdfast.clock();
                PERFORM holdfast.op_start(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], NULL, NULL, ARRAY[''], NULL, mine, t, false);
                told := (SELECT v.outcome FROM holdfast.op_verdicts(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], ARRAY[''], t) v);
            END IF;
        ELSIF told = 5 THEN
            told := -1;
        END IF;
        IF told IN (0, -1) AND p_resource[k] IS NOT NULL THEN
            SELECT g.outcome, coalesce(g.fence, 0), coalesce(g.version, 0) INTO guarded, guard_fence, guard_version
            FROM holdfast.execute_guard(p_ns[k], p_resource[k], p_token[k], p_expected[k]) g;
            told := coalesce(guarded, told);
        END IF;
        IF told IN (0, -1) THEN
            SELECT f.* INTO act FROM holdfast.find_action(p_ns[k], p_action[k]) f;
            IF act.call IS NULL OR act.problem IS NOT NULL THEN
                RETURN QUERY SELECT k, 217::smallint, NULL::bytea, ''::text, 0::bigint, 0, ''::text, coalesce(act.problem, ''), 0::bigint, 0::bigint,
                    ''::text, 0::bigint, 0::smallint, 0::smallint;
                CONTINUE;
            END IF;
            item := NULL;
            IF p_event_item IS NOT NULL THEN
                SELECT pg_catalog.array_agg(1), pg_catalog.array_agg(p_event_aggregate_type[e.at] ORDER BY e.at),
                    pg_catalog.array_agg(p_event_aggregate_id[e.at] ORDER BY e.at), pg_catalog.array_agg(p_event_type[e.at] ORDER BY e.at),
                    pg_catalog.array_agg(p_event_payload[e.at] ORDER BY e.at)
                INTO item, atypes, aids, types, payloads FROM unnest(p_event_item) WITH ORDINALITY AS e(item, at) WHERE e.item = k;
            END IF;
            acted := true;
            FOR attempt IN 1..3 LOOP
                SELECT e.outcome, e.result, e.sqlstate_told, e.message, e.checked INTO did, made, raised, why, checked
                FROM holdfast.execute_one(p_ns[k], p_key[k], p_type[k], p_fingerprint[k], act.call, p_args[k], p_holder[k], act.timeout_ms,
                    told = -1, settings, item, atypes, aids, types, payloads) e;
                PERFORM holdfast.forget_session(prepared);
                EXIT WHEN did <> 218 OR raised NOT IN ('40001', '40P01');
            END LOOP;
            late := coalesce(raised = '57014', false) OR (did = 210 AND checked AND k < pg_catalog.cardinality(p_ns) AND NOT holdfast.defer_again());
            IF did = 5 AND told = -1 THEN -- another's record may be there by now
                t := holdfast.clock();
                did := (SELECT v.outcome FROM holdfast.op_verdicts(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], ARRAY[''], t) v);
            END IF;
            told := coalesce(nullif(did, 0), 5);
        END IF;
        t := holdfast.clock();
        RETURN QUERY SELECT k, told, CASE told WHEN 210 THEN pg_catalog.convert_to(made::text, 'UTF8') ELSE x.result END, x.result_ref,
            x.ended_unix_ms, x.attempt, coalesce(raised, x.sqlstate), coalesce(why, x.message),
            coalesce(guard_fence, 0), coalesce(guard_version, 0), x.holder, x.remaining_ms, x.error_class, x.state
        FROM holdfast.op_tell(p_ns[k:k], p_key[k:k], ARRAY[told], t) x;
    END LOOP;
    IF acted THEN
        PERFORM holdfast.put_settings(settings, path);
    END IF;
END
$$;
-- Name: op_finish_batch(text[], text[], bigint[], smallint[], bytea[], text[], smallint[], text[], text[], bigint[], integer[], text[], text[], text[], bytea[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_finish_batch(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_result bytea[], p_result_ref text[], p_error_class smallint[], p_message text[], p_sqlstate text[], p_retry_after_ms bigint[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]) RETURNS TABLE(i integer, outcome smallint, state smallint, revision integer, due_ms bigint, attempts integer, exhausted boolean, succeeded_after_retry boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    mine boolean[];
    t timestamptz;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    mine := holdfast.op_lock(p_ns, p_key, pg_catalog.array_fill(true, ARRAY[pg_catalog.cardinality(p_ns)]));
    t := holdfast.clock();
    IF p_event_item IS NOT NULL THEN
        PERFORM holdfast.put_events(p_ns, p_key, p_event_item, p_event_aggregate_type, p_event_aggregate_id, p_event_type,
            p_event_payload, (SELECT pg_catalog.array_agg(v.outcome = 210 AND p_call[v.i] = 1 ORDER BY v.i)
                FROM holdfast.op_owner_verdicts(p_ns, p_key, p_token, p_call, p_error_class, mine, t) v));
    END IF;
    RETURN QUERY
    WITH v AS MATERIALIZED ( -- with another result it is no repeat
        SELECT CASE WHEN v.outcome = 211 AND p_call[v.i] = 1 AND (v.result IS DISTINCT FROM p_result[v.i]
                OR coalesce(v.result_ref, '') <> coalesce(p_result_ref[v.i], '')) THEN 214::smallint ELSE v.outcome END AS outcome,
            v.i, v.o_tid, v.a_tid, v.state, v.revision, v.attempts, v.budget_attempts, v.type, v.sending, v.deadline, v.since, v.attempt,
            v.state_after, v.revision_after, p_call[v.i] AS call,
            CASE WHEN p_error_class[v.i] BETWEEN 1 AND 6 THEN p_error_class[v.i] ELSE 1::smallint END AS class
        FROM holdfast.op_owner_verdicts(p_ns, p_key, p_token, p_call, p_error_class, mine, t) v
    ), again AS MATERIALIZED ( -- those that may be tried again, and when
        SELECT v.i, v.budget_attempts >= p.max_attempts OR holdfast.ms(t - v.since) + w.wait_ms > p.max_elapsed_ms AS spent, w.wait_ms
        FROM v CROSS JOIN LATERAL holdfast.op_policy(p_ns[v.i], v.type) p
        CROSS JOIN LATERAL (SELECT greatest(p_retry_after_ms[v.i], CASE v.class WHEN 6 THEN 0
            ELSE holdfast.op_delay_ms(v.budget_attempts, p.base_ms, p.cap_ms) END) AS wait_ms) w
        WHERE v.outcome = 210 AND v.call = 2 AND v.class IN (1, 2, 6) AND NOT (v.class = 6 AND v.sending)
    ), d AS MATERIALIZED (
        SELECT v.*, coalesce(g.wait_ms, 0) AS wait_ms, coalesce(g.spent, false) AS spent, CASE
                WHEN v.outcome <> 210 THEN v.state
                WHEN v.call = 1 THEN 3
                WHEN v.call = 3 OR v.class = 4 OR (v.class = 6 AND v.sending) THEN 5
                WHEN v.class = 3 THEN 4
                WHEN v.class = 5 OR g.spent THEN 6
                ELSE 1 END::smallint AS next
        FROM v LEFT JOIN again g ON g.i = v.i
    ), moved AS (
        UPDATE holdfast.operation o SET state = d.next, sending = false, revision = o.revision + 1, changed_at = t,
            deadline = CASE d.next WHEN 1 THEN t + d.wait_ms * interval '1 millisecond' END,
            request_id = CASE WHEN d.next IN (1, 5, 6) THEN o.request_id END,
            result = CASE d.call WHEN 1 THEN p_result[d.i] END, result_ref = CASE d.call WHEN 1 THEN nullif(p_result_ref[d.i], '') END,
            error_class = CASE d.call WHEN 1 THEN NULL WHEN 2 THEN d.class ELSE o.error_class END,
            message = CASE d.call WHEN 1 THEN NULL ELSE p_message[d.i] END,
            sqlstate = CASE d.call WHEN 2 THEN nullif(p_sqlstate[d.i], '') WHEN 1 THEN NULL ELSE o.sqlstate END
        FROM d WHERE o.ctid = d.o_tid AND d.outcome = 210
    ), ended AS (
        UPDATE holdfast.attempt a SET outcome = CASE d.call WHEN 1 THEN 1 WHEN 2 THEN 2 ELSE 4 END, ended_at = t, state_after = d.next,
            revision_after = d.revision + 1,
            error_class = CASE d.call WHEN 2 THEN d.class WHEN 3 THEN 4 END,
            message = CASE d.call WHEN 1 THEN NULL ELSE nullif(p_message[d.i], '') END,
            sqlstate = CASE d.call WHEN 2 THEN nullif(p_sqlstate[d.i], '') END
        FROM d WHERE a.ctid = d.a_tid AND d.outcome = 210
    ), evidence AS (
        UPDATE holdfast.attempt a SET late_at = t, late_count = a.late_count + 1,
            late_call = CASE d.call WHEN 1 THEN 'Complete' WHEN 2 THEN 'Fail' ELSE 'MarkUnknown' END,
            late_result = p_result[d.i],
            late_message = coalesce(nullif(p_message[d.i], ''), nullif(p_result_ref[d.i], ''))
        FROM d WHERE a.ctid = d.a_tid AND d.outcome IN (212, 213)
    )
    SELECT d.i, d.outcome, coalesce(CASE d.outcome WHEN 211 THEN d.state_after ELSE d.next END, 0::smallint),
        coalesce(CASE d.outcome WHEN 210 THEN d.revision + 1 WHEN 211 THEN d.revision_after ELSE d.revision END, 0),
        CASE WHEN d.outcome = 210 AND d.next = 1 THEN d.wait_ms
            WHEN d.outcome = 211 AND d.next = 1 AND d.attempts = d.attempt THEN greatest(0, holdfast.ms(d.deadline - t)) ELSE 0 END,
        coalesce(d.attempts, 0), d.outcome = 210 AND d.spent, d.outcome = 210 AND d.call = 1 AND d.attempts > 1
    FROM d;
END
$$;
-- Name: op_get_batch(text[], text[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_get_batch(p_ns text[], p_key text[]) RETURNS TABLE(i integer, outcome smallint, key text, type text, fingerprint bytea, state smallint, revision integer, attempts integer, token bigint, holder text, sending boolean, remaining_ms bigint, created_unix_ms bigint, changed_unix_ms bigint, error_class smallint, message text, sqlstate text, compensates text, compensated_by text, priority integer, result bytea, result_ref text, payload bytea)
    LANGUAGE plpgsql
    AS $$
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
-- Name: op_list(text, smallint, text, text, bigint, text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_list(p_ns text, p_state smallint, p_type text, p_prefix text, p_older_than_ms bigint, p_after text, p_max integer) RETURNS TABLE(outcome smallint, key text, type text, fingerprint bytea, state smallint, revision integer, attempts integer, token bigint, holder text, sending boolean, remaining_ms bigint, created_unix_ms bigint, changed_unix_ms bigint, error_class smallint, message text, sqlstate text, compensates text, compensated_by text, priority integer)
    LANGUAGE plpgsql
    AS $_$
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
$_$;
-- Name: op_list_policies(text, text, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_list_policies(p_ns text, p_after text, p_max integer) RETURNS TABLE(outcome smallint, type text, max_attempts bigint, max_elapsed_ms bigint, base_ms bigint, cap_ms bigint, on_lost smallint, retention_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: op_lock(text[], text[], boolean[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_lock(p_ns text[], p_key text[], p_wanted boolean[]) RETURNS boolean[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    got int[];
    flags boolean[] := pg_catalog.array_fill(false, ARRAY[pg_catalog.cardinality(p_ns)]);
    place int;
BEGIN
    SELECT pg_catalog.array_agg(s.i) INTO got FROM (
        SELECT x.i::int FROM unnest(p_ns, p_key, p_wanted) WITH ORDINALITY AS x(ns, key, wanted, i)
        JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key
        WHERE x.wanted FOR NO KEY UPDATE OF o SKIP LOCKED) s;
    FOREACH place IN ARRAY coalesce(got, '{}') LOOP
        flags[place] := true;
    END LOOP;
    RETURN flags;
END
$$;
-- Name: op_owner_verdicts(text[], text[], bigint[], smallint[], smallint[], boolean[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_owner_verdicts(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_error_class smallint[], p_mine boolean[], p_t timestamp with time zone) RETURNS TABLE(i integer, outcome smallint, o_tid tid, a_tid tid, state smallint, revision integer, attempts integer, budget_attempts integer, type text, sending boolean, deadline timestamp with time zone, since timestamp with time zone, result bytea, result_ref text, attempt integer, state_after smallint, revision_after integer)
    LANGUAGE sql STABLE
    AS $$
    SELECT x.i::int, CASE
            WHEN n.name IS NULL THEN 90
            WHEN o.key IS NULL THEN 216
            WHEN NOT p_mine[x.i] THEN 5
            WHEN x.token = o.token AND o.state = 2 THEN
                CASE WHEN o.deadline <= p_t THEN 213 WHEN x.call = 4 AND o.sending THEN 211 ELSE 210 END
            WHEN a.key IS NULL THEN CASE WHEN x.token < o.token THEN 212 ELSE 213 END
            WHEN CASE x.call WHEN 1 THEN a.outcome = 1 WHEN 2 THEN a.outcome = 2 AND a.error_class = x.error_class
                WHEN 3 THEN a.outcome = 4 AND a.error_class IS NOT NULL ELSE false END THEN 211
            WHEN x.token < o.token THEN 212
            WHEN a.outcome = 0 OR a.outcome = 3 OR (a.outcome = 4 AND a.error_class IS NULL) THEN 213
            ELSE 214
        END::smallint, o.ctid, a.ctid, o.state, o.revision, o.attempts, o.budget_attempts, o.type, o.sending, o.deadline,
        coalesce(o.budget_since, o.created_at), o.result, o.result_ref, a.attempt, a.state_after, a.revision_after
    FROM unnest(p_ns, p_key, p_token, p_call, p_error_class) WITH ORDINALITY AS x(ns, key, token, call, error_class, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key
    LEFT JOIN holdfast.attempt a ON a.namespace = x.ns AND a.key = x.key AND a.token = x.token
$$;
-- Name: op_policy(text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_policy(p_ns text, p_type text) RETURNS TABLE(max_attempts integer, max_elapsed_ms bigint, base_ms integer, cap_ms integer, on_lost smallint, retention_ms bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT p.max_attempts, p.max_elapsed_ms, p.base_ms, p.cap_ms, p.on_lost, p.retention_ms FROM (
        SELECT q.*, 1 AS rank FROM holdfast.operation_policy q WHERE q.namespace = p_ns AND q.type = p_type
        UNION ALL SELECT q.*, 2 FROM holdfast.operation_policy q WHERE q.namespace = p_ns AND q.type = ''
        UNION ALL SELECT p_ns, p_type, 10, 86400000, 1000, 300000, 1::smallint, 2592000000, 3) p
    ORDER BY p.rank LIMIT 1
$$;
-- Name: operation_policy; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.operation_policy (
    namespace text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    max_attempts integer DEFAULT 10 NOT NULL,
    max_elapsed_ms bigint DEFAULT 86400000 NOT NULL,
    base_ms integer DEFAULT 1000 NOT NULL,
    cap_ms integer DEFAULT 300000 NOT NULL,
    on_lost smallint DEFAULT 1 NOT NULL,
    retention_ms bigint DEFAULT '2592000000'::bigint NOT NULL,
    CONSTRAINT operation_policy_base_ms_check CHECK (((base_ms >= 1) AND (base_ms <= 86400000))),
    CONSTRAINT operation_policy_cap_ms_check CHECK (((cap_ms >= 1) AND (cap_ms <= 86400000))),
    CONSTRAINT operation_policy_check CHECK ((base_ms <= cap_ms)),
    CONSTRAINT operation_policy_max_attempts_check CHECK (((max_attempts >= 1) AND (max_attempts <= 1000))),
    CONSTRAINT operation_policy_max_elapsed_ms_check CHECK (((max_elapsed_ms >= 1) AND (max_elapsed_ms <= '31536000000'::bigint))),
    CONSTRAINT operation_policy_on_lost_check CHECK ((on_lost = ANY (ARRAY[1, 2]))),
    CONSTRAINT operation_policy_retention_ms_check CHECK (((retention_ms >= 1) AND (retention_ms <= '315360000000'::bigint)))
);
-- Name: TABLE operation_policy; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.operation_policy IS 'Those that were set. Type '''' holds for the types of its namespace that have no row; without any row the defaults hold.';
-- Name: COLUMN operation_policy.on_lost; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation_policy.on_lost IS 'What becomes of an operation whose attempt was lost and had not been sending: 1 UNKNOWN, 2 it may run again.';
-- Name: op_policy_row(integer, holdfast.operation_policy, bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_policy_row(p_outcome integer, p_row holdfast.operation_policy, p_needed_ms bigint) RETURNS TABLE(outcome smallint, type text, max_attempts bigint, max_elapsed_ms bigint, base_ms bigint, cap_ms bigint, on_lost smallint, retention_ms bigint, needed_ms bigint)
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT p_outcome::smallint, p_row.type::text, p_row.max_attempts::bigint, p_row.max_elapsed_ms, p_row.base_ms::bigint, p_row.cap_ms::bigint,
        p_row.on_lost, p_row.retention_ms, p_needed_ms
$$;
-- Name: op_record_batch(text[], text[], text[], bytea[], bytea[], text[], integer[], text[], text[], text[], bytea[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_record_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_result bytea[], p_result_ref text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]) RETURNS TABLE(i integer, outcome smallint, state smallint, holder text, remaining_ms bigint, result bytea, result_ref text, ended_unix_ms bigint, attempt integer, error_class smallint, message text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    n int := pg_catalog.cardinality(p_ns);
    t timestamptz := holdfast.clock();
    n_made int;
    made tid[];
    told smallint[];
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    -- In the order in which they come, sorted by key: a sort here would be a second one.
    BEGIN
        WITH made AS (
            INSERT INTO holdfast.operation AS o (namespace, key, type, state, attempts, created_at, changed_at, fingerprint, result, result_ref)
            SELECT x.ns, x.key, x.type, 3, 1, t, t, x.fingerprint, x.result, nullif(x.result_ref, '')
            FROM unnest(p_ns, p_key, p_type, p_fingerprint, p_result, p_result_ref) AS x(ns, key, type, fingerprint, result, result_ref)
            WHERE x.ns = ANY (ARRAY(SELECT n.name FROM holdfast.namespace n WHERE n.name = ANY (p_ns) AND n.retired_at IS NULL))
            AND NOT EXISTS (SELECT FROM holdfast.operation o WHERE o.namespace = x.ns AND o.key = x.key)
            RETURNING o.ctid
        )
        SELECT pg_catalog.array_agg(m.ctid), pg_catalog.count(*) INTO made, n_made FROM made m;
    EXCEPTION WHEN unique_violation THEN
        WITH made AS (
            INSERT INTO holdfast.operation AS o (namespace, key, type, state, attempts, created_at, changed_at, fingerprint, result, result_ref)
            SELECT x.ns, x.key, x.type, 3, 1, t, t, x.fingerprint, x.result, nullif(x.result_ref, '')
            FROM unnest(p_ns, p_key, p_type, p_fingerprint, p_result, p_result_ref) AS x(ns, key, type, fingerprint, result, result_ref)
            JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
            WHERE NOT EXISTS (SELECT FROM holdfast.operation o WHERE o.namespace = x.ns AND o.key = x.key)
            ON CONFLICT DO NOTHING RETURNING o.ctid
        )
        SELECT pg_catalog.array_agg(m.ctid), pg_catalog.count(*) INTO made, n_made FROM made m;
    END;
    IF n_made = n THEN
        IF p_event_item IS NOT NULL THEN
            PERFORM holdfast.put_events(p_ns, p_key, p_event_item, p_event_aggregate_type, p_event_aggregate_id, p_event_type,
                p_event_payload, pg_catalog.array_fill(true, ARRAY[n]));
        END IF;
        RETURN QUERY SELECT -n, 210::smallint, 3::smallint, ''::text, 0::bigint, NULL::bytea, ''::text, holdfast.unix_ms(t), 1, 0::smallint, ''::text;
        RETURN;
    END IF;
    t := holdfast.clock();
    SELECT pg_catalog.array_agg(CASE WHEN v.o_tid = ANY (made) THEN 210::smallint WHEN v.outcome = 0 THEN 205::smallint ELSE v.outcome END
        ORDER BY v.i) INTO told
    FROM holdfast.op_verdicts(p_ns, p_key, p_type, p_fingerprint, pg_catalog.array_fill(''::text, ARRAY[n]), t) v;
    IF p_event_item IS NOT NULL THEN
        PERFORM holdfast.put_events(p_ns, p_key, p_event_item, p_event_aggregate_type, p_event_aggregate_id, p_event_type,
            p_event_payload, (SELECT pg_catalog.array_agg(x.outcome = 210 ORDER BY x.i) FROM unnest(told) WITH ORDINALITY AS x(outcome, i)));
    END IF;
    RETURN QUERY SELECT x.i, x.outcome, x.state, x.holder, x.remaining_ms, x.result, x.result_ref, x.ended_unix_ms, x.attempt,
        x.error_class, x.message FROM holdfast.op_tell(p_ns, p_key, told, t) x;
END
$$;
-- Name: op_renew_batch(text[], text[], bigint[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_renew_batch(p_ns text[], p_key text[], p_token bigint[], p_ttl_ms bigint[]) RETURNS TABLE(i integer, outcome smallint, ttl_ms bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    mine boolean[];
    t timestamptz;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    mine := holdfast.op_lock(p_ns, p_key, pg_catalog.array_fill(true, ARRAY[pg_catalog.cardinality(p_ns)]));
    t := holdfast.clock();
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT x.i::int, o.ctid AS o_tid, greatest(o.deadline, t + x.ttl_ms * interval '1 millisecond') AS until, CASE
                WHEN n.name IS NULL THEN 90
                WHEN o.key IS NULL OR x.token > o.token THEN 15
                WHEN NOT mine[x.i] THEN 5
                WHEN x.token < o.token THEN CASE WHEN a.key IS NULL THEN 15 ELSE 12 END
                WHEN o.state = 2 AND o.deadline = '-infinity' THEN 14
                WHEN o.state = 2 THEN CASE WHEN o.deadline > t THEN 10 ELSE 11 END
                WHEN a.outcome IN (3, 4) AND a.error_class IS NULL THEN CASE WHEN a.message IS NULL THEN 11 ELSE 14 END
                WHEN o.state = 7 THEN 14
                ELSE 13 END::smallint AS outcome
        FROM unnest(p_ns, p_key, p_token, p_ttl_ms) WITH ORDINALITY AS x(ns, key, token, ttl_ms, i)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key
        LEFT JOIN holdfast.attempt a ON a.namespace = x.ns AND a.key = x.key AND a.token = x.token
            AND (x.token < o.token OR o.state <> 2)
    ), changed AS (
        UPDATE holdfast.operation o SET deadline = d.until FROM d WHERE o.ctid = d.o_tid AND d.outcome = 10
    )
    SELECT d.i, d.outcome, CASE d.outcome WHEN 10 THEN holdfast.ms(d.until - holdfast.clock()) ELSE 0 END FROM d;
END
$$;
-- Name: operation; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.operation (
    namespace text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    state smallint NOT NULL,
    sending boolean DEFAULT false NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    budget_attempts integer DEFAULT 0 NOT NULL,
    revision integer DEFAULT 1 NOT NULL,
    error_class smallint,
    priority integer,
    token bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    deadline timestamp with time zone,
    budget_since timestamp with time zone,
    fingerprint bytea NOT NULL,
    holder text,
    request_id text COLLATE pg_catalog."C",
    result bytea,
    result_ref text,
    message text,
    sqlstate text COLLATE pg_catalog."C",
    compensates text COLLATE pg_catalog."C",
    compensated_by text COLLATE pg_catalog."C",
    payload bytea,
    decided text,
    CONSTRAINT operation_check CHECK (((state <> ALL (ARRAY[1, 2])) OR (deadline IS NOT NULL))),
    CONSTRAINT operation_state_check CHECK (((state >= 1) AND (state <= 7)))
)
WITH (fillfactor='85', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: TABLE operation; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.operation IS 'One business action under its key, that takes effect once. What may follow what: operation_move().';
-- Name: COLUMN operation.state; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.state IS '1 PENDING, 2 RUNNING, 3 SUCCEEDED, 4 FAILED, 5 UNKNOWN, 6 REVIEW, 7 CANCELLED.';
-- Name: COLUMN operation.sending; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.sending IS 'RUNNING: an effect elsewhere may have been sent, so its loss leads to UNKNOWN.';
-- Name: COLUMN operation.attempts; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.attempts IS 'Attempts started.';
-- Name: COLUMN operation.budget_attempts; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.budget_attempts IS 'Those that count for max_attempts: since the last decision to retry.';
-- Name: COLUMN operation.revision; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.revision IS 'Counts changes of state, and attempts.';
-- Name: COLUMN operation.token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.token IS 'Of the newest attempt; 0 = there was none.';
-- Name: COLUMN operation.changed_at; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.changed_at IS 'When it came into this state.';
-- Name: COLUMN operation.deadline; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.deadline IS 'RUNNING: the attempt lives while holdfast.clock() is before this. PENDING: when it is due.';
-- Name: COLUMN operation.budget_since; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.budget_since IS 'Since when max_elapsed_ms counts; NULL = since created_at.';
-- Name: COLUMN operation.fingerprint; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.fingerprint IS 'Never changes: read without a lock.';
-- Name: COLUMN operation.request_id; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.request_id IS 'Of the begin that got the newest attempt, unless that was lost: a late copy of it starts no other.';
-- Name: COLUMN operation.message; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.message IS 'Of the last failure; UNKNOWN: the note; REVIEW, CANCELLED: why.';
-- Name: COLUMN operation.compensates; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.compensates IS 'The key of the operation that this one undoes.';
-- Name: COLUMN operation.decided; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.operation.decided IS 'The last decision of a person, and the revision it was about: by it a repeat is told.';
-- Name: op_row(holdfast.operation, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_row(p_row holdfast.operation, p_t timestamp with time zone) RETURNS TABLE(key text, type text, fingerprint bytea, state smallint, revision integer, attempts integer, token bigint, holder text, sending boolean, remaining_ms bigint, created_unix_ms bigint, changed_unix_ms bigint, error_class smallint, message text, sqlstate text, compensates text, compensated_by text, priority integer)
    LANGUAGE sql STABLE
    AS $$
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
-- Name: op_sending_batch(text[], text[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_sending_batch(p_ns text[], p_key text[], p_token bigint[]) RETURNS TABLE(i integer, outcome smallint, remaining_ms bigint, state smallint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    n int := pg_catalog.cardinality(p_ns);
    mine boolean[];
    t timestamptz;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    mine := holdfast.op_lock(p_ns, p_key, pg_catalog.array_fill(true, ARRAY[n]));
    t := holdfast.clock();
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT v.i, v.outcome, v.o_tid, v.a_tid, v.state, v.deadline
        FROM holdfast.op_owner_verdicts(p_ns, p_key, p_token, pg_catalog.array_fill(4::smallint, ARRAY[n]),
            pg_catalog.array_fill(0::smallint, ARRAY[n]), mine, t) v
    ), marked AS (
        UPDATE holdfast.operation o SET sending = true, changed_at = t FROM d WHERE o.ctid = d.o_tid AND d.outcome = 210
    ), noted AS (
        UPDATE holdfast.attempt a SET sending_at = t FROM d WHERE a.ctid = d.a_tid AND d.outcome = 210
    )
    SELECT d.i, d.outcome, CASE WHEN d.outcome IN (210, 211) THEN greatest(0, holdfast.ms(d.deadline - t)) ELSE 0 END,
        coalesce(d.state, 0::smallint)
    FROM d;
END
$$;
-- Name: op_set_policy(text, text, bigint, bigint, bigint, bigint, smallint, bigint, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_set_policy(p_ns text, p_type text, p_max_attempts bigint, p_max_elapsed_ms bigint, p_base_ms bigint, p_cap_ms bigint, p_on_lost smallint, p_retention_ms bigint, p_actor text) RETURNS TABLE(outcome smallint, type text, max_attempts bigint, max_elapsed_ms bigint, base_ms bigint, cap_ms bigint, on_lost smallint, retention_ms bigint, needed_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: op_start(text[], text[], text[], bytea[], text[], bigint[], text[], smallint[], boolean[], timestamp with time zone, boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_start(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[], p_mine boolean[], p_t timestamp with time zone, p_start boolean) RETURNS TABLE(i integer, did smallint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH v AS (
        SELECT v.*, CASE
                WHEN v.state = 1 THEN 200
                WHEN v.sending OR p.on_lost = 1 THEN 206
                WHEN v.budget_attempts >= p.max_attempts OR holdfast.ms(p_t - v.since) > p.max_elapsed_ms THEN 207
                ELSE 200 END::smallint AS did
        FROM holdfast.op_verdicts(p_ns, p_key, p_type, p_fingerprint, p_request_id, p_t) v
        CROSS JOIN LATERAL holdfast.op_policy(p_ns[v.i], p_type[v.i]) p
        WHERE v.outcome = 0 AND p_mine[v.i] AND (p_start OR v.state = 2)
    ), d AS MATERIALIZED (
        SELECT v.i, v.o_tid, v.state, v.sending, v.attempts, v.token, v.did, v.deadline = '-infinity' AS broken,
            CASE v.did WHEN 206 THEN 5 WHEN 207 THEN 6 ELSE CASE WHEN p_start THEN 2 ELSE 1 END END::smallint AS next,
            CASE
                WHEN v.attempts = 0 THEN coalesce(nullif(p_trigger[v.i], 0), 4)
                WHEN v.state = 2 THEN 3
                WHEN v.budget_attempts = 0 THEN 4
                WHEN a.outcome = 3 THEN 3
                ELSE 2 END::smallint AS trigger,
            CASE WHEN v.did = 200 AND p_start THEN pg_catalog.nextval('holdfast.operation_token') END AS new_token
        FROM v LEFT JOIN holdfast.attempt a ON a.namespace = p_ns[v.i] AND a.key = p_key[v.i] AND a.token = v.token
    ), moved AS (
        UPDATE holdfast.operation o SET
            state = d.next, sending = false, revision = o.revision + 1, changed_at = p_t,
            attempts = CASE d.next WHEN 2 THEN o.attempts + 1 ELSE o.attempts END,
            budget_attempts = CASE d.next WHEN 2 THEN o.budget_attempts + 1 ELSE o.budget_attempts END,
            token = CASE d.next WHEN 2 THEN d.new_token ELSE o.token END,
            deadline = CASE d.next WHEN 2 THEN p_t + p_ttl_ms[d.i] * interval '1 millisecond' WHEN 1 THEN p_t END,
            holder = CASE d.next WHEN 2 THEN p_holder[d.i] ELSE o.holder END,
            request_id = CASE d.next WHEN 2 THEN p_request_id[d.i] END,
            message = CASE
                WHEN d.did = 200 OR (d.did = 207 AND o.error_class IS NOT NULL) THEN o.message
                WHEN d.did = 206 AND d.sending THEN 'the attempt was lost while it was sending'
                ELSE 'the attempt was lost' END
        FROM d WHERE o.ctid = d.o_tid
    ), closed AS (
        UPDATE holdfast.attempt a SET outcome = CASE WHEN d.sending THEN 4 ELSE 3 END, ended_at = p_t,
            message = CASE WHEN d.broken THEN 'the database was changed' END
        FROM d WHERE d.state = 2 AND a.namespace = p_ns[d.i] AND a.key = p_key[d.i] AND a.token = d.token
    ), lost AS (
        INSERT INTO holdfast.audit (namespace, operation, kind, token, actor, detail)
        SELECT p_ns[d.i], p_key[d.i], 'lost', d.token, 'holdfast',
            CASE d.next WHEN 2 THEN 'taken over' WHEN 5 THEN 'unknown' WHEN 6 THEN 'review' ELSE 'pending' END
        FROM d WHERE d.state = 2
    ), started AS (
        INSERT INTO holdfast.attempt (namespace, key, token, attempt, trigger, execution_id, started_at, holder)
        SELECT p_ns[d.i], p_key[d.i], d.new_token, d.attempts + 1, d.trigger, pg_catalog.gen_random_uuid(), p_t, p_holder[d.i]
        FROM d WHERE d.next = 2
    )
    SELECT d.i, d.did FROM d;
END
$$;
-- Name: op_state_at(smallint, boolean, timestamp with time zone, text, text, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_state_at(p_state smallint, p_sending boolean, p_deadline timestamp with time zone, p_ns text, p_type text, p_t timestamp with time zone) RETURNS smallint
    LANGUAGE sql STABLE
    AS $$ SELECT CASE WHEN p_state = 2 AND p_deadline <= p_t
    AND (p_sending OR (SELECT p.on_lost FROM holdfast.op_policy(p_ns, p_type) p) = 1) THEN 5::smallint ELSE p_state END $$;
-- Name: op_stats(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_stats() RETURNS TABLE(outcome smallint, state text, count bigint, oldest_ms bigint)
    LANGUAGE plpgsql
    AS $$
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
-- Name: op_sweep(integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_sweep(p_max integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
-- Name: op_tell(text[], text[], smallint[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_tell(p_ns text[], p_key text[], p_outcome smallint[], p_t timestamp with time zone) RETURNS TABLE(i integer, outcome smallint, attempt integer, token bigint, ttl_ms bigint, execution_id text, trigger smallint, state smallint, holder text, remaining_ms bigint, result bytea, result_ref text, ended_unix_ms bigint, error_class smallint, message text, sqlstate text)
    LANGUAGE sql STABLE
    AS $$
    SELECT x.i::int, x.outcome, coalesce(o.attempts, 0), coalesce(o.token, 0),
        CASE WHEN x.outcome IN (200, 201) THEN holdfast.ms(o.deadline - p_t) ELSE 0 END,
        coalesce(a.execution_id::text, ''), coalesce(a.trigger, 0::smallint), coalesce(o.state, 0::smallint),
        CASE WHEN o.state = 1 THEN '' ELSE coalesce(o.holder, '') END,
        CASE WHEN o.state IN (1, 2) THEN greatest(0, holdfast.ms(o.deadline - p_t)) ELSE 0 END,
        CASE WHEN x.outcome = 202 THEN o.result END, coalesce(o.result_ref, ''), coalesce(holdfast.unix_ms(o.changed_at), 0),
        coalesce(o.error_class, 0::smallint), coalesce(o.message, ''), coalesce(o.sqlstate, '')
    FROM unnest(p_ns, p_key, p_outcome) WITH ORDINALITY AS x(ns, key, outcome, i)
    LEFT JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key AND x.outcome NOT IN (5, 90, 208)
    LEFT JOIN holdfast.attempt a ON a.namespace = x.ns AND a.key = x.key AND a.token = o.token AND x.outcome IN (200, 201)
    WHERE x.outcome IS NOT NULL
$$;
-- Name: op_verdicts(text[], text[], text[], bytea[], text[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.op_verdicts(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_request_id text[], p_t timestamp with time zone) RETURNS TABLE(i integer, outcome smallint, o_tid tid, state smallint, sending boolean, attempts integer, budget_attempts integer, token bigint, deadline timestamp with time zone, since timestamp with time zone, changed_at timestamp with time zone, holder text, error_class smallint)
    LANGUAGE sql STABLE
    AS $$
    SELECT x.i::int, CASE
            WHEN n.name IS NULL THEN 90
            WHEN o.key IS NULL THEN 5
            WHEN o.type <> x.type OR o.fingerprint <> x.fingerprint THEN 208
            WHEN o.state = 3 THEN 202
            WHEN o.state = 4 THEN 203
            WHEN o.state = 7 THEN 204
            WHEN o.state = 5 THEN 206
            WHEN o.state = 6 THEN 207
            WHEN o.request_id = x.request_id AND x.request_id <> '' AND (o.state = 1 OR o.deadline > p_t) THEN CASE o.state WHEN 1 THEN 205 ELSE 201 END
            WHEN o.deadline <= p_t THEN 0
            ELSE 205
        END::smallint, o.ctid, o.state, o.sending, o.attempts, o.budget_attempts, o.token, o.deadline,
        coalesce(o.budget_since, o.created_at), o.changed_at, o.holder, o.error_class
    FROM unnest(p_ns, p_key, p_type, p_fingerprint, p_request_id) WITH ORDINALITY AS x(ns, key, type, fingerprint, request_id, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.operation o ON o.namespace = x.ns AND o.key = x.key
$$;
-- Name: operation_move(smallint, smallint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.operation_move(p_from smallint, p_to smallint) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT p_from = p_to OR CASE p_from
    WHEN 0 THEN p_to IN (1, 2, 3)
    WHEN 1 THEN p_to IN (2, 3, 7)
    WHEN 2 THEN p_to IN (1, 3, 4, 5, 6)
    WHEN 5 THEN p_to IN (1, 3, 4, 7)
    WHEN 6 THEN p_to IN (1, 7)
    ELSE false END $$;
-- Name: policy_changes(holdfast.namespace, holdfast.namespace); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.policy_changes(p_old holdfast.namespace, p_new holdfast.namespace) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(pg_catalog.string_agg(pg_catalog.format('%s %s -> %s', o.key, o.value, n.value), ', ' ORDER BY o.key), '')
    FROM pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(p_old)) o JOIN pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(p_new)) n ON n.key = o.key
    WHERE o.value IS DISTINCT FROM n.value AND o.key NOT IN ('name', 'created_at', 'retired_at', 'fence_floor', 'guard_idle_cap_ms')
$$;
-- Name: prefix_end(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.prefix_end(p_prefix text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT p_prefix || pg_catalog.repeat(pg_catalog.chr(1114111), 64) $$;
-- Name: principal_grants(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.principal_grants(p_id text) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(pg_catalog.array_agg(x.value ORDER BY g.place, x.n), '{}')
    FROM holdfast.principal_grant g,
        LATERAL (VALUES (1, g.role::text), (2, coalesce(g.namespace, '')), (3, g.resource_prefix), (4, g.operation_prefix)) AS x(n, value)
    WHERE g.principal = p_id
$$;
-- Name: principal_none(integer, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.principal_none(p_outcome integer, p_id text) RETURNS TABLE(outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint, revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT p_outcome::smallint, p_id, ''::text, ''::text, 0::bigint, ''::text, 0::bigint, 0::bigint, ''::text, 0::bigint, 0::bigint, 0::bigint,
        0::bigint, '{}'::text[]
$$;
-- Name: principal_reach(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.principal_reach(p_id text) RETURNS text[]
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(pg_catalog.array_agg(DISTINCT coalesce(g.namespace, 'default')::text), '{}') FROM holdfast.principal_grant g WHERE g.principal = p_id
$$;
-- Name: principal; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.principal (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    secret_hash bytea,
    certificate text COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    revoked_by text,
    last_used_at timestamp with time zone,
    rate_per_s integer DEFAULT 0 NOT NULL,
    rate_burst integer DEFAULT 0 NOT NULL,
    version bigint NOT NULL,
    CONSTRAINT principal_check CHECK (((secret_hash IS NULL) <> (certificate IS NULL))),
    CONSTRAINT principal_rate_burst_check CHECK (((rate_burst >= 0) AND (rate_burst <= 1000000))),
    CONSTRAINT principal_rate_per_s_check CHECK (((rate_per_s >= 0) AND (rate_per_s <= 1000000))),
    CONSTRAINT principal_secret_hash_check CHECK ((octet_length(secret_hash) = 32))
)
WITH (fillfactor='80');
-- Name: TABLE principal; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.principal IS 'API keys and client certificates that may call. Revoked, never deleted. Servers keep those that are not revoked in memory, and ask for what has changed: see auth_changes().';
-- Name: COLUMN principal.id; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.id IS 'Of an API key: the part between hfk_ and the secret.';
-- Name: COLUMN principal.name; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.name IS 'For people, and as the actor in audits. Of those not revoked each has its own.';
-- Name: COLUMN principal.secret_hash; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.secret_hash IS 'SHA-256 of the key''s secret, which has more than 190 random bits: no salt is needed, and nobody can find it by trying.';
-- Name: COLUMN principal.certificate; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.certificate IS 'The name in the certificate, verified by TLS: its first SAN of type URI, else DNS, else its CN.';
-- Name: COLUMN principal.last_used_at; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.last_used_at IS 'Noted once a minute by each server.';
-- Name: COLUMN principal.rate_per_s; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.rate_per_s IS 'Calls a server, on average; 0 = no limit.';
-- Name: COLUMN principal.version; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal.version IS 'Of the last change, from auth_state: in the order of the commits.';
-- Name: principal_row(integer, holdfast.principal); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.principal_row(p_outcome integer, p_row holdfast.principal) RETURNS TABLE(outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint, revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE sql STABLE
    AS $$
    SELECT p_outcome::smallint, p_row.id::text, p_row.name::text, coalesce(p_row.certificate, '')::text, holdfast.unix_ms(p_row.created_at),
        p_row.created_by, coalesce(holdfast.unix_ms(p_row.expires_at), 0), coalesce(holdfast.unix_ms(p_row.revoked_at), 0),
        coalesce(p_row.revoked_by, ''), coalesce(holdfast.unix_ms(p_row.last_used_at), 0), p_row.rate_per_s::bigint, p_row.rate_burst::bigint,
        p_row.version, holdfast.principal_grants(p_row.id)
$$;
-- Name: purge_operations(integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.purge_operations(p_max integer) RETURNS integer
    LANGUAGE plpgsql
    AS $$
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
-- Name: put_events(text[], text[], integer[], text[], text[], text[], bytea[], boolean[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.put_events(p_ns text[], p_operation text[], p_item integer[], p_aggregate_type text[], p_aggregate_id text[], p_type text[], p_payload bytea[], p_take boolean[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    lock bigint;
BEGIN
    FOR lock IN
        SELECT DISTINCT pg_catalog.hashtextextended(e.aggregate_type || E'\x01' || e.aggregate_id || E'\x01' || p_ns[e.item], 4711)
        FROM unnest(p_item, p_aggregate_type, p_aggregate_id) AS e(item, aggregate_type, aggregate_id)
        WHERE p_take[e.item] ORDER BY 1
    LOOP
        PERFORM pg_catalog.pg_advisory_xact_lock(lock);
    END LOOP;
    INSERT INTO holdfast.outbox (id, aggregatetype, aggregateid, type, payload, namespace, operation)
    SELECT pg_catalog.nextval('holdfast.outbox_id'), s.* FROM (
        SELECT e.aggregate_type, e.aggregate_id, e.type, e.payload, p_ns[e.item], p_operation[e.item]
        FROM unnest(p_item, p_aggregate_type, p_aggregate_id, p_type, p_payload) WITH ORDINALITY
            AS e(item, aggregate_type, aggregate_id, type, payload, place)
        WHERE p_take[e.item] ORDER BY e.place) s;
END
$$;
-- Name: put_grants(text, text[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.put_grants(p_id text, p_grants text[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM holdfast.principal_grant g WHERE g.principal = p_id;
    INSERT INTO holdfast.principal_grant (principal, place, role, namespace, resource_prefix, operation_prefix)
    SELECT p_id, i, p_grants[4 * i - 3]::smallint, nullif(p_grants[4 * i - 2], ''), p_grants[4 * i - 1], p_grants[4 * i]
    FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_grants) / 4) i;
END
$$;
-- Name: put_settings(text[], text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.put_settings(p_settings text[], p_path text) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    names CONSTANT text[] := holdfast.execute_setting_names();
BEGIN
    FOR k IN 2..pg_catalog.cardinality(names) LOOP
        IF p_settings[k] IS NOT NULL THEN
            PERFORM pg_catalog.set_config(names[k], p_settings[k], false);
        END IF;
    END LOOP;
    PERFORM pg_catalog.set_config('search_path', p_path, false);
END
$$;
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
-- Name: refuse_move(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.refuse_move() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'holdfast: operation "%" may not go from state % to state %', NEW.key, OLD.state, NEW.state USING ERRCODE = 'HF003';
END
$$;
-- Name: register_action(text, text, text, bigint, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.register_action(p_ns text, p_name text, p_function text, p_timeout_ms bigint, p_actor text) RETURNS TABLE(outcome smallint, name text, function text, role text, timeout_ms bigint, message text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    found_oid regprocedure;
    problem text;
    quoted text;
    owner name;
    a holdfast.action;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 90::smallint, ''::text, ''::text, ''::text, 0::bigint, ''::text;
        RETURN;
    END IF;
    BEGIN
        found_oid := CASE WHEN pg_catalog.cardinality(pg_catalog.parse_ident(p_function)) = 2
            THEN pg_catalog.to_regprocedure(p_function || '(text,jsonb)') END;
    EXCEPTION
        WHEN OTHERS THEN found_oid := NULL; -- it isn't a name at all
    END;
    problem := holdfast.action_problem(found_oid);
    IF problem IS NOT NULL THEN
        RETURN QUERY SELECT 223::smallint, p_name, p_function, ''::text, p_timeout_ms, problem;
        RETURN;
    END IF;
    SELECT pg_catalog.format('%I.%I', n.nspname, p.proname), r.rolname INTO quoted, owner
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
    WHERE p.oid = found_oid;
    INSERT INTO holdfast.action (namespace, name, function, role, timeout_ms) VALUES (p_ns, p_name, quoted, owner, p_timeout_ms)
        ON CONFLICT DO NOTHING;
    IF FOUND THEN
        INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
            VALUES (p_ns, 'action', 0, p_actor, pg_catalog.format('registered "%s": %s, role %s, %s ms', p_name, quoted, owner, p_timeout_ms));
    END IF;
    SELECT * INTO a FROM holdfast.action x WHERE x.namespace = p_ns AND x.name = p_name;
    RETURN QUERY SELECT CASE WHEN a.function = quoted AND a.role = owner AND a.timeout_ms = p_timeout_ms THEN 50 ELSE 72 END::smallint, p_name,
        a.function, a.role::text, a.timeout_ms::bigint, ''::text;
END
$$;
-- Name: release_batch(text[], text[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[]) RETURNS TABLE(i integer, outcome smallint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY SELECT r.i, r.outcome FROM holdfast.release_batch(p_ns, p_resource, p_token, NULL::boolean[]) r;
END
$$;
-- Name: release_batch(text[], text[], bigint[], boolean[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[]) RETURNS TABLE(i integer, outcome smallint, next_server text)
    LANGUAGE plpgsql
    AS $$
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
-- Name: release_special(text[], text[], bigint[], boolean[], tid[], tid[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.release_special(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
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
-- Name: release_verdicts(text[], text[], bigint[], boolean[], tid[], tid[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.release_verdicts(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone) RETURNS TABLE(i integer, ns text, resource text, token bigint, waiting boolean, l_tid tid, holder text, freed boolean, outcome smallint)
    LANGUAGE sql STABLE
    AS $$
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
-- Name: remove_action(text, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.remove_action(p_ns text, p_name text, p_actor text) RETURNS TABLE(outcome smallint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint;
        RETURN;
    END IF;
    DELETE FROM holdfast.action a WHERE a.namespace = p_ns AND a.name = p_name;
    IF FOUND THEN
        INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
            VALUES (p_ns, 'action', 0, p_actor, pg_catalog.format('removed "%s"', p_name));
        RETURN QUERY SELECT 50::smallint;
    ELSE
        RETURN QUERY SELECT 217::smallint;
    END IF;
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
-- Name: require_arguments(text, text, text, bytea, text, bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.require_arguments(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_holder text, p_ttl_ms bigint) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RAISE EXCEPTION 'holdfast: there is no namespace "%"', p_ns USING ERRCODE = 'HF002';
    ELSIF pg_catalog.octet_length(p_fingerprint) IS DISTINCT FROM 32 THEN
        RAISE EXCEPTION 'holdfast: fingerprint: it has % bytes; the limit is exactly 32', coalesce(pg_catalog.octet_length(p_fingerprint), 0)
            USING ERRCODE = '22023', HINT = 'sha256(convert_to(parameters, ''UTF8'')) makes one.';
    ELSIF NOT coalesce(p_ttl_ms BETWEEN 100 AND 86400000, false) THEN
        RAISE EXCEPTION 'holdfast: ttl_ms: %; the limit is 100 to 86400000', p_ttl_ms USING ERRCODE = '22023';
    ELSIF NOT coalesce(pg_catalog.octet_length(p_key) BETWEEN 1 AND 256 AND pg_catalog.octet_length(p_type) BETWEEN 1 AND 256
        AND pg_catalog.octet_length(p_holder) BETWEEN 1 AND 256 AND NOT (p_key || p_type || p_holder) ~ '[[:cntrl:]]', false) THEN
        RAISE EXCEPTION 'holdfast: key, type and holder are 1 to 256 bytes without control characters' USING ERRCODE = '22023';
    END IF;
END
$$;
-- Name: require_mapped(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.require_mapped(p_ns text) RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    IF NOT (SELECT u.rolsuper FROM pg_catalog.pg_roles u WHERE u.rolname = session_user) AND NOT EXISTS (
        SELECT FROM holdfast.sql_role m JOIN pg_catalog.pg_roles u ON u.rolname = m.role
        WHERE m.namespace = p_ns AND pg_catalog.pg_has_role(session_user, u.oid, 'MEMBER')) THEN
        RAISE EXCEPTION 'holdfast: role "%" may not use namespace "%"', session_user, p_ns USING ERRCODE = '42501',
            HINT = 'An operator maps it: SELECT holdfast.allow_role(role, namespace).';
    END IF;
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
-- Name: revoke_principal(text, bigint, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.revoke_principal(p_id text, p_version bigint, p_actor text, p_reason text) RETURNS TABLE(outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint, revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    found_row holdfast.principal;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.auth_state FOR NO KEY UPDATE;
    SELECT p.* INTO found_row FROM holdfast.principal p WHERE p.id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(225, p_id);
        RETURN;
    END IF;
    IF found_row.revoked_at IS NULL THEN
        IF p_version > 0 AND found_row.version <> p_version THEN
            RETURN QUERY SELECT * FROM holdfast.principal_none(215, p_id);
            RETURN;
        END IF;
        UPDATE holdfast.auth_state s SET version = s.version + 1 RETURNING s.version INTO found_row.version;
        UPDATE holdfast.principal p SET version = found_row.version, revoked_at = holdfast.clock(), revoked_by = p_actor
        WHERE p.id = p_id RETURNING * INTO found_row;
        PERFORM holdfast.audit_principal(p_id, '{}', p_actor,
            pg_catalog.concat_ws(': ', pg_catalog.format('revoked %s "%s"', p_id, found_row.name), nullif(p_reason, '')), false);
    END IF;
    RETURN QUERY SELECT * FROM holdfast.principal_row(50, found_row);
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
-- Name: set_namespace(text, bigint, bigint, bigint, boolean, bigint, bigint, bigint, bigint, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.set_namespace(p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text) RETURNS TABLE(outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean, max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    old holdfast.namespace;
    wanted holdfast.namespace;
    changes text;
BEGIN
    PERFORM holdfast.require_read_committed();
    SELECT * INTO old FROM holdfast.namespace n WHERE n.name = p_name AND n.retired_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 90::smallint, p_name, 0::bigint, 0::bigint, 0::bigint, false, 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
            false;
        RETURN;
    END IF;
    wanted := holdfast.with_policies(old, p_lock_delay_ms, p_min_ttl_ms, p_max_ttl_ms, p_audit_writes, p_max_leases, p_max_waiters,
        p_max_value_bytes, p_audit_keep_days);
    IF wanted.min_ttl_ms > wanted.max_ttl_ms THEN
        RETURN QUERY SELECT * FROM holdfast.namespace_row(73, wanted);
        RETURN;
    END IF;
    changes := holdfast.policy_changes(old, wanted);
    IF changes <> '' THEN
        UPDATE holdfast.namespace n SET lock_delay_ms = wanted.lock_delay_ms, min_ttl_ms = wanted.min_ttl_ms, max_ttl_ms = wanted.max_ttl_ms,
            audit_writes = wanted.audit_writes, max_leases = wanted.max_leases, max_waiters = wanted.max_waiters,
            max_value_bytes = wanted.max_value_bytes, audit_keep_days = wanted.audit_keep_days
        WHERE n.name = p_name;
        -- Nothing has been counted while there was no limit.
        IF (old.max_leases = 0 AND wanted.max_leases > 0) OR (old.max_value_bytes = 0 AND wanted.max_value_bytes > 0) THEN
            PERFORM holdfast.lock_usage(p_name);
            UPDATE holdfast.usage u SET leases = c.leases, value_bytes = c.value_bytes, noted_at = '-infinity'
            FROM holdfast.count_usage(p_name) c WHERE u.namespace = p_name;
        END IF;
        INSERT INTO holdfast.audit (namespace, kind, token, actor, detail) VALUES (p_name, 'policy', 0, p_actor, changes);
    END IF;
    RETURN QUERY SELECT * FROM holdfast.namespace_row(50, wanted);
END
$$;
-- Name: set_principal(text, bigint, text[], bigint, bigint, bigint, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.set_principal(p_id text, p_version bigint, p_grants text[], p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_actor text) RETURNS TABLE(outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint, revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    t timestamptz;
    found_row holdfast.principal;
    reached text[];
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.auth_state FOR NO KEY UPDATE;
    t := holdfast.clock();
    SELECT p.* INTO found_row FROM holdfast.principal p WHERE p.id = p_id AND p.revoked_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND OR (p_version > 0 AND found_row.version <> p_version) THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(CASE WHEN found_row.id IS NULL THEN 225 ELSE 215 END, p_id);
        RETURN;
    END IF;
    reached := holdfast.principal_reach(p_id);
    UPDATE holdfast.auth_state s SET version = s.version + 1 RETURNING s.version INTO found_row.version;
    UPDATE holdfast.principal p SET version = found_row.version,
        expires_at = CASE WHEN p_expires_in_ms IS NULL THEN p.expires_at WHEN p_expires_in_ms > 0 THEN t + p_expires_in_ms * interval '1 ms' END,
        rate_per_s = coalesce(p_rate_per_s::int, p.rate_per_s), rate_burst = coalesce(p_rate_burst::int, p.rate_burst)
    WHERE p.id = p_id RETURNING * INTO found_row;
    IF p_grants IS NOT NULL THEN
        PERFORM holdfast.put_grants(p_id, p_grants);
    END IF;
    PERFORM holdfast.audit_principal(p_id, reached, p_actor, pg_catalog.concat_ws(', ', pg_catalog.format('changed %s "%s"', p_id, found_row.name),
        CASE WHEN p_expires_in_ms IS NOT NULL THEN 'expires ' || coalesce(pg_catalog.to_char(pg_catalog.timezone('UTC', found_row.expires_at), 'YYYY-MM-DD HH24:MI:SS'), 'never') END,
        CASE WHEN coalesce(p_rate_per_s, p_rate_burst) IS NOT NULL THEN pg_catalog.format('rate %s, burst %s', found_row.rate_per_s, found_row.rate_burst) END),
        p_grants IS NOT NULL);
    RETURN QUERY SELECT * FROM holdfast.principal_row(50, found_row);
END
$$;
-- Name: spread(tid[], integer[], integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.spread(p_tids tid[], p_places integer[], p_n integer) RETURNS tid[]
    LANGUAGE plpgsql IMMUTABLE
    AS $$
DECLARE
    tids tid[] := pg_catalog.array_fill(NULL::tid, ARRAY[p_n]);
BEGIN
    FOR k IN 1..coalesce(pg_catalog.cardinality(p_places), 0) LOOP
        tids[p_places[k]] := p_tids[k];
    END LOOP;
    RETURN tids;
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
-- Name: sweep(integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.sweep(p_max integer) RETURNS integer
    LANGUAGE plpgsql
    SET enable_seqscan TO 'on'
    AS $$
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
-- Name: tids_again(text[], text[], tid[], tid[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.tids_again(p_ns text[], p_resource text[], INOUT r_tid tid[], INOUT l_tid tid[]) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    SELECT pg_catalog.array_agg(s.r_tid), pg_catalog.array_agg(s.l_tid) INTO r_tid, l_tid FROM (
        SELECT r.ctid AS r_tid, l.ctid AS l_tid
        FROM unnest(p_ns, p_resource, r_tid) WITH ORDINALITY AS x(ns, resource, was, i)
        LEFT JOIN holdfast.resource r ON x.was IS NOT NULL AND r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON x.was IS NOT NULL AND l.namespace = x.ns AND l.resource = x.resource
        ORDER BY x.i) s;
END
$$;
-- Name: trail(text, text, bigint, bigint, int8multirange, integer); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.trail(p_ns text, p_prefix text, p_after bigint, p_until bigint, p_except int8multirange, p_max integer) RETURNS TABLE(id bigint, kind smallint, namespace text, resource text, token bigint, prior bigint, actor text, detail text, at_unix_ms bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 0::bigint, -3::smallint, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bigint;
    ELSIF p_after < p_until THEN
        RETURN QUERY
        SELECT a.id, holdfast.trail_kind(a.kind), a.namespace::text, a.resource::text, a.token, a.prior, a.actor, a.detail,
            holdfast.unix_ms(a.at)
        FROM holdfast.audit a WHERE a.id > p_after AND a.id <= p_until AND a.namespace = p_ns
            AND a.resource >= p_prefix AND a.resource <= holdfast.prefix_end(p_prefix) AND holdfast.trail_kind(a.kind) > 0
            AND NOT a.id <@ p_except
        ORDER BY a.id LIMIT p_max;
    END IF;
END
$$;
-- Name: trail_highest(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.trail_highest() RETURNS bigint
    LANGUAGE sql
    AS $$
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM holdfast.audit_id s
$$;
-- Name: trail_kind(text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.trail_kind(p_kind text) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE p_kind WHEN 'grant' THEN 1 WHEN 'takeover' THEN 2 WHEN 'release' THEN 3 WHEN 'expire' THEN 4 WHEN 'break' THEN 5 ELSE 0
        END::smallint
$$;
-- Name: trail_writers(); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.trail_writers() RETURNS text
    LANGUAGE sql
    AS $$
    SELECT pg_catalog.string_agg(DISTINCT l.virtualtransaction, ' ') FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
        AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
        AND (l.relation = 'holdfast.audit'::regclass
            OR l.relation IN (SELECT h.inhrelid FROM pg_catalog.pg_inherits h WHERE h.inhparent = 'holdfast.audit'::regclass))
$$;
-- Name: trusted(oid); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.trusted(p_role oid) RETURNS boolean
    LANGUAGE plpgsql STABLE
    AS $$
BEGIN
    RETURN (SELECT r.rolsuper OR pg_catalog.pg_has_role(r.oid, s.nspowner, 'MEMBER') OR pg_catalog.pg_has_role(r.oid, current_user, 'MEMBER')
        FROM pg_catalog.pg_roles r, pg_catalog.pg_namespace s WHERE r.oid = p_role AND s.nspname = 'holdfast');
END
$$;
-- Name: turn_before(text, text, text, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.turn_before(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_t timestamp with time zone, OUT remaining_ms bigint, OUT next_server text) RETURNS record
    LANGUAGE plpgsql
    AS $$
DECLARE
    turn record;
    since timestamptz := p_since;
BEGIN
    next_server := '';
    SELECT w.server, w.turn_until INTO turn FROM holdfast.waiter w
    WHERE w.namespace = p_ns AND w.resource = p_resource AND w.turn_until IS NOT NULL ORDER BY w.turn_until DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF turn.turn_until > p_t THEN
        IF turn.server IS DISTINCT FROM p_server THEN
            remaining_ms := holdfast.ms(turn.turn_until - p_t);
        END IF;
        RETURN;
    END IF;
    DELETE FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource AND w.turn_until IS NOT NULL;
    IF since IS NULL THEN
        SELECT w.since INTO since FROM holdfast.waiter w
        WHERE w.namespace = p_ns AND w.resource = p_resource AND w.server = p_server AND w.until > p_t;
    END IF;
    IF p_server IS NOT NULL THEN
        next_server := holdfast.give_turn(p_ns, p_resource, p_t, p_server, since);
        IF next_server <> '' THEN
            remaining_ms := 100;
        END IF;
    END IF;
END
$$;
-- Name: uncount_leases(text[], integer[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.uncount_leases(p_ns text[], p_n integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $$
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
-- Name: unix_ms(timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.unix_ms(p_at timestamp with time zone) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT CASE WHEN pg_catalog.isfinite(p_at)
    THEN pg_catalog.floor(pg_catalog.date_part('epoch', p_at - timestamptz '1970-01-01 00:00:00+00') * 1000 + 0.0005)::bigint ELSE 0 END $$;
-- Name: unmap_sql_role(text, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.unmap_sql_role(p_ns text, p_role text, p_actor text) RETURNS TABLE(outcome smallint, was_mapped boolean)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, false;
        RETURN;
    END IF;
    DELETE FROM holdfast.sql_role m WHERE m.namespace = p_ns AND m.role = p_role;
    IF FOUND THEN
        INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
            VALUES (p_ns, 'role', 0, p_actor, pg_catalog.format('unmapped SQL role "%s"', p_role));
        RETURN QUERY SELECT 50::smallint, true;
    ELSE
        RETURN QUERY SELECT 50::smallint, false;
    END IF;
END
$$;
-- Name: wait_for(text, text, text, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.wait_for(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_until timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO holdfast.waiter AS w (namespace, resource, server, since, until) VALUES (p_ns, p_resource, p_server, p_since, p_until)
    ON CONFLICT (namespace, resource, server) DO UPDATE SET since = p_since, until = p_until;
    UPDATE holdfast.resource r SET waiting = true WHERE r.namespace = p_ns AND r.name = p_resource AND NOT r.waiting;
END
$$;
-- Name: wait_no_more(text, text, text); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.wait_no_more(p_ns text, p_resource text, p_server text, OUT was_there boolean, OUT had_turn boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource AND w.server = p_server
    RETURNING true, w.turn_until IS NOT NULL INTO was_there, had_turn;
    was_there := coalesce(was_there, false);
    had_turn := coalesce(had_turn, false);
    UPDATE holdfast.resource r SET waiting = false WHERE r.namespace = p_ns AND r.name = p_resource AND r.waiting
        AND NOT EXISTS (SELECT FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource);
END
$$;
-- Name: wait_on_after_grant(text, text, text, timestamp with time zone, timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.wait_on_after_grant(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_until timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM holdfast.wait_no_more(p_ns, p_resource, p_server);
    IF p_since IS NOT NULL THEN
        PERFORM holdfast.wait_for(p_ns, p_resource, p_server, p_since, p_until);
    END IF;
END
$$;
-- Name: with_policies(holdfast.namespace, bigint, bigint, bigint, boolean, bigint, bigint, bigint, bigint); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.with_policies(p_row holdfast.namespace, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint) RETURNS holdfast.namespace
    LANGUAGE plpgsql IMMUTABLE
    AS $$
BEGIN
    p_row.lock_delay_ms := coalesce(p_lock_delay_ms, p_row.lock_delay_ms);
    p_row.min_ttl_ms := coalesce(p_min_ttl_ms, p_row.min_ttl_ms);
    p_row.max_ttl_ms := coalesce(p_max_ttl_ms, p_row.max_ttl_ms);
    p_row.audit_writes := coalesce(p_audit_writes, p_row.audit_writes);
    p_row.max_leases := coalesce(p_max_leases, p_row.max_leases);
    p_row.max_waiters := coalesce(p_max_waiters, p_row.max_waiters);
    p_row.max_value_bytes := coalesce(p_max_value_bytes, p_row.max_value_bytes);
    p_row.audit_keep_days := coalesce(p_audit_keep_days, p_row.audit_keep_days);
    RETURN p_row;
END
$$;
-- Name: write_batch(text[], text[], bigint[], bigint[], bytea[], bigint[]); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[]) RETURNS TABLE(i integer, outcome smallint, version bigint, fence bigint, write_seq bigint)
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN QUERY SELECT w.i, w.outcome, w.version, w.fence, w.write_seq
    FROM holdfast.write_batch(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, false) w;
END
$$;
-- Name: write_batch(text[], text[], bigint[], bigint[], bytea[], bigint[], boolean); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_knows_quota boolean) RETURNS TABLE(i integer, outcome smallint, version bigint, fence bigint, write_seq bigint)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_column
DECLARE
    got int[];
    r_tids tid[];
    special boolean;
    t timestamptz;
    veto boolean[];
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM holdfast.require_read_committed();
    END IF;
    SELECT pg_catalog.array_agg(s.i), pg_catalog.array_agg(s.r_tid), CASE
        WHEN EXISTS (SELECT FROM holdfast.namespace n WHERE n.max_value_bytes > 0)
        THEN EXISTS (SELECT FROM holdfast.namespace n WHERE n.max_value_bytes > 0 AND n.name = ANY (p_ns)) ELSE false END
    INTO got, r_tids, special FROM (
        SELECT x.i::int, r.ctid AS r_tid FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
        JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        ORDER BY x.i FOR NO KEY UPDATE OF r SKIP LOCKED) s;
    IF pg_catalog.cardinality(got) IS DISTINCT FROM pg_catalog.cardinality(p_ns) THEN
        r_tids := holdfast.spread(r_tids, got, pg_catalog.cardinality(p_ns));
    END IF;
    t := holdfast.clock();
    IF special THEN
        veto := holdfast.limit_values(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, r_tids, t);
    END IF;
    RETURN QUERY
    WITH d AS MATERIALIZED (
        SELECT v.i, v.ns, v.resource, v.token, v.write_seq, v.value, v.audit_writes, v.max_value_bytes, v.v_tid, v.fence, v.version, v.there,
            v.last_seq, v.last_seq_version, v.new_version,
            CASE WHEN v.outcome = 30 AND veto[v.i] THEN CASE WHEN p_knows_quota THEN 70::smallint ELSE 5::smallint END
                ELSE v.outcome END AS outcome
        FROM holdfast.write_verdicts(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, r_tids, t) v
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
        CASE d.outcome WHEN 30 THEN d.new_version WHEN 34 THEN CASE WHEN d.there THEN d.version ELSE 0 END
            WHEN 70 THEN d.max_value_bytes ELSE d.version END,
        d.fence, CASE WHEN d.outcome = 30 AND d.write_seq > 0 THEN d.write_seq ELSE d.last_seq END
    FROM d;
END
$$;
-- Name: write_verdicts(text[], text[], bigint[], bigint[], bytea[], bigint[], tid[], timestamp with time zone); Type: FUNCTION; Schema: holdfast; Owner: -
CREATE FUNCTION holdfast.write_verdicts(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[], p_t timestamp with time zone) RETURNS TABLE(i integer, ns text, resource text, token bigint, write_seq bigint, value bytea, audit_writes boolean, max_value_bytes bigint, v_tid tid, fence bigint, version bigint, there boolean, more_bytes integer, last_seq bigint, last_seq_version bigint, new_version bigint, outcome smallint)
    LANGUAGE sql STABLE
    AS $$
    SELECT x.i::int, x.ns, x.resource, x.token, x.write_seq, x.value, n.audit_writes, n.max_value_bytes, v.ctid,
        coalesce(r.fence, 0), coalesce(v.version, 0), v.value IS NOT NULL,
        coalesce(pg_catalog.octet_length(x.value), 0) - coalesce(pg_catalog.octet_length(v.value), 0),
        CASE WHEN v.token = x.token THEN v.write_seq ELSE 0 END,
        CASE WHEN v.token = x.token THEN v.seq_version ELSE 0 END,
        coalesce(v.version, 0) + CASE WHEN x.value IS NULL AND v.value IS NULL THEN 0 ELSE 1 END,
        CASE
            WHEN n.name IS NULL THEN 90
            WHEN r.name IS NULL THEN CASE
                WHEN EXISTS (SELECT FROM holdfast.resource o WHERE o.namespace = x.ns AND o.name = x.resource) THEN 5 ELSE 33 END
            WHEN x.write_seq > 0 AND v.token = x.token AND v.write_seq >= x.write_seq THEN
                CASE WHEN v.write_seq = x.write_seq AND v.seq_version = v.version AND (v.value IS NULL) = (x.value IS NULL)
                    THEN 31 ELSE 35 END
            WHEN x.token < r.fence THEN 32
            WHEN x.token > r.fence OR (l.token = x.token AND l.deadline > p_t) IS NOT TRUE THEN 33
            WHEN x.expected <> CASE WHEN v.value IS NULL THEN 0 ELSE v.version END THEN 34
            ELSE 30
        END::smallint
    FROM unnest(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, p_r_tid) WITH ORDINALITY
        AS x(ns, resource, token, write_seq, value, expected, r_tid, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.ctid = x.r_tid
    LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    LEFT JOIN holdfast.resource_value v ON v.namespace = x.ns AND v.resource = x.resource
$$;
-- Name: action; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.action (
    namespace text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    function text NOT NULL,
    role name NOT NULL,
    timeout_ms integer NOT NULL,
    registered_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT action_timeout_ms_check CHECK (((timeout_ms >= 1) AND (timeout_ms <= 30000)))
);
-- Name: TABLE action; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.action IS 'SQL functions that OperationService.Execute may call.';
-- Name: COLUMN action.function; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.action.function IS 'Quoted as needed: schema.name. Of f(key text, args jsonb) returns jsonb.';
-- Name: COLUMN action.role; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.action.role IS 'Its owner when it was registered; an execution requires that it still is.';
-- Name: attempt; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.attempt (
    namespace text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    token bigint NOT NULL,
    attempt integer NOT NULL,
    trigger smallint NOT NULL,
    outcome smallint DEFAULT 0 NOT NULL,
    error_class smallint,
    state_after smallint,
    revision_after integer,
    late_count integer DEFAULT 0 NOT NULL,
    execution_id uuid NOT NULL,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    sending_at timestamp with time zone,
    late_at timestamp with time zone,
    holder text NOT NULL,
    message text,
    sqlstate text COLLATE pg_catalog."C",
    late_call text COLLATE pg_catalog."C",
    late_result bytea,
    late_message text
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: COLUMN attempt.trigger; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.attempt.trigger IS '1 SCHEDULED, 2 RETRY, 3 TAKEOVER, 4 MANUAL.';
-- Name: COLUMN attempt.outcome; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.attempt.outcome IS '0 it runs, 1 SUCCEEDED, 2 FAILED, 3 LOST, 4 UNKNOWN.';
-- Name: COLUMN attempt.error_class; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.attempt.error_class IS '1 TRANSIENT, 2 CONFLICT, 3 BUSINESS, 4 UNKNOWN, 5 CONFIG, 6 FENCED.';
-- Name: COLUMN attempt.state_after; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.attempt.state_after IS 'What its owner was told when he ended it, as its revision: for repeats.';
-- Name: COLUMN attempt.late_at; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.attempt.late_at IS 'When its owner last told an outcome that was refused; the late_ columns keep what it told.';
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
    detail text,
    operation text COLLATE pg_catalog."C"
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
COMMENT ON COLUMN holdfast.audit.kind IS 'grant, takeover (a grant after a lease that ran out), expire (noticed by the sweeper, before any takeover), release, break, write, delete, floor, policy; key (a principal that reaches into this namespace was made, changed, revoked), role (an SQL role was mapped, or no longer); of operations: lost, retry, cancel, reconcile, compensate, action.';
-- Name: COLUMN audit.token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.token IS 'Granted, expired, released, broken, or written under. floor: the new floor. policy: 0.';
-- Name: COLUMN audit.prior; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.prior IS 'takeover: the token that ran out. break: the new fence. write, delete: the new version. floor: the old floor.';
-- Name: COLUMN audit.actor; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.actor IS 'grant, takeover, expire, release: the holder. break, floor, policy: who did it.';
-- Name: COLUMN audit.detail; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.detail IS 'grant, takeover, expire: the task. break, floor: the reason. policy: what was changed.';
-- Name: COLUMN audit.operation; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.audit.operation IS 'The key, if it concerns an operation; resource is NULL then.';
-- Name: auth_state; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.auth_state (
    one boolean DEFAULT true NOT NULL,
    version bigint DEFAULT 0 NOT NULL,
    epoch uuid DEFAULT gen_random_uuid() NOT NULL,
    CONSTRAINT auth_state_one_check CHECK (one)
)
WITH (fillfactor='20');
-- Name: COLUMN auth_state.version; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.auth_state.version IS 'Of the last change of any principal.';
-- Name: COLUMN auth_state.epoch; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.auth_state.epoch IS 'Another one after a fail-over or a restore, by attach(): changes that were seen may have been lost with the old database, so servers read all anew.';
-- Name: denial; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.denial (
    principal text NOT NULL COLLATE pg_catalog."C",
    method text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    minute timestamp with time zone NOT NULL,
    id bigint NOT NULL,
    denials bigint NOT NULL
);
-- Name: TABLE denial; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.denial IS 'Calls refused for want of a key, role, scope or rate, counted: a row each would let anybody fill the disk.';
-- Name: COLUMN denial.principal; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.denial.principal IS 'Its id; '''' = the caller was nobody.';
-- Name: COLUMN denial.method; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.denial.method IS 'Its path; '''' = one of many that came together.';
-- Name: denial_id_seq; Type: SEQUENCE; Schema: holdfast; Owner: -
ALTER TABLE holdfast.denial ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.denial_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
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
    labels jsonb
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: COLUMN lease.token; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.token IS '0 = never leased.';
-- Name: COLUMN lease.deadline; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.deadline IS 'The lease is live while holdfast.clock() is before this. -infinity once somebody ended it.';
-- Name: COLUMN lease.ended; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.lease.ended IS 'How it ended: 0 not at all, or it ran out at its deadline; 2 it ran out, and that is in the audit; 3 its holder released it; 4 an operator or attach() broke it.';
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
-- Name: operation_token; Type: SEQUENCE; Schema: holdfast; Owner: -
CREATE SEQUENCE holdfast.operation_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
-- Name: outbox; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.outbox (
    id bigint NOT NULL,
    aggregatetype text NOT NULL,
    aggregateid text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL,
    payload bytea NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    operation text COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
-- Name: TABLE outbox; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.outbox IS 'Events, each written in the transaction of what it tells of.';
-- Name: COLUMN outbox.id; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.outbox.id IS 'Drawn under the lock of its aggregate: within one aggregate in the order of the commits.';
-- Name: COLUMN outbox.operation; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.outbox.operation IS 'The key of the operation that it belongs to, if any.';
-- Name: outbox_id; Type: SEQUENCE; Schema: holdfast; Owner: -
CREATE SEQUENCE holdfast.outbox_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
-- Name: principal_grant; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.principal_grant (
    principal text NOT NULL COLLATE pg_catalog."C",
    place integer NOT NULL,
    role smallint NOT NULL,
    namespace text COLLATE pg_catalog."C",
    resource_prefix text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    operation_prefix text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT principal_grant_place_check CHECK (((place >= 1) AND (place <= 16))),
    CONSTRAINT principal_grant_role_check CHECK (((role >= 1) AND (role <= 4)))
);
-- Name: TABLE principal_grant; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.principal_grant IS 'What a principal may do: a call is allowed if one of its grants covers all of it.';
-- Name: COLUMN principal_grant.role; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal_grant.role IS '1 reader, 2 worker, 3 operator, 4 admin; each may do what those before it may.';
-- Name: COLUMN principal_grant.namespace; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal_grant.namespace IS 'NULL = all, those to come too.';
-- Name: COLUMN principal_grant.resource_prefix; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal_grant.resource_prefix IS 'Resources whose names begin with it.';
-- Name: COLUMN principal_grant.operation_prefix; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.principal_grant.operation_prefix IS 'Operations whose keys begin with it.';
-- Name: purge; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.purge (
    one boolean DEFAULT true NOT NULL,
    block bigint DEFAULT 0 NOT NULL,
    passes bigint DEFAULT 0 NOT NULL,
    purged bigint DEFAULT 0 NOT NULL,
    pass_began_at timestamp with time zone,
    CONSTRAINT purge_one_check CHECK (one)
);
-- Name: COLUMN purge.block; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.purge.block IS 'The page of operation that is looked at next.';
-- Name: COLUMN purge.passes; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.purge.passes IS 'How often all of it was looked at.';
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
    request_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    waiting boolean DEFAULT false NOT NULL
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
-- Name: COLUMN resource.waiting; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.resource.waiting IS 'Whether it may have rows in waiter: what nobody waits for pays no look there.';
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
-- Name: usage; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.usage (
    namespace text NOT NULL COLLATE pg_catalog."C",
    leases bigint NOT NULL,
    value_bytes bigint NOT NULL,
    noted_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');
-- Name: TABLE usage; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.usage IS 'What is used of the quotas: of namespaces that have any, and had. Its row is locked by every batch that changes what is counted, after all others.';
-- Name: COLUMN usage.leases; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.usage.leases IS 'Leases granted and not yet released, broken, or noted as expired.';
-- Name: COLUMN usage.value_bytes; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.usage.value_bytes IS 'Of all values.';
-- Name: COLUMN usage.noted_at; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.usage.noted_at IS 'When a full namespace last looked for expired leases.';
-- Name: waiter; Type: TABLE; Schema: holdfast; Owner: -
CREATE TABLE holdfast.waiter (
    namespace text NOT NULL COLLATE pg_catalog."C",
    resource text NOT NULL COLLATE pg_catalog."C",
    server text NOT NULL COLLATE pg_catalog."C",
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    turn_until timestamp with time zone
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='1');
-- Name: TABLE waiter; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON TABLE holdfast.waiter IS 'Servers with callers that wait for a resource: one row each, whatever the number of callers. It makes waiting fair between servers, and says whom to wake; whether a grant is right never depends on it.';
-- Name: COLUMN waiter.since; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.waiter.since IS 'When the first of that server''s callers began to wait. The earliest has the next turn.';
-- Name: COLUMN waiter.until; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.waiter.until IS 'When the last of them will have given up: from then on the row counts for nothing.';
-- Name: COLUMN waiter.turn_until; Type: COMMENT; Schema: holdfast; Owner: -
COMMENT ON COLUMN holdfast.waiter.turn_until IS 'Until then the free resource is granted to nobody but this server. At most one row a resource has a turn, and none while a lease lives.';
-- Name: action action_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.action
    ADD CONSTRAINT action_pkey PRIMARY KEY (namespace, name);
-- Name: attempt attempt_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.attempt
    ADD CONSTRAINT attempt_pkey PRIMARY KEY (namespace, key, token);
-- Name: auth_state auth_state_one_key; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.auth_state
    ADD CONSTRAINT auth_state_one_key UNIQUE (one);
-- Name: denial denial_id_key; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.denial
    ADD CONSTRAINT denial_id_key UNIQUE (id);
-- Name: denial denial_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.denial
    ADD CONSTRAINT denial_pkey PRIMARY KEY (minute, principal, method, reason);
-- Name: identity identity_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.identity
    ADD CONSTRAINT identity_pkey PRIMARY KEY (only_row);
-- Name: lease lease_ended; Type: CHECK CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE holdfast.lease
    ADD CONSTRAINT lease_ended CHECK (((ended = 0) OR ((ended = ANY (ARRAY[2, 3, 4])) AND (deadline = '-infinity'::timestamp with time zone)))) NOT VALID;
-- Name: lease lease_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (namespace, resource);
-- Name: migration migration_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);
-- Name: namespace namespace_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.namespace
    ADD CONSTRAINT namespace_pkey PRIMARY KEY (name);
-- Name: operation operation_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (namespace, key);
-- Name: operation_policy operation_policy_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.operation_policy
    ADD CONSTRAINT operation_policy_pkey PRIMARY KEY (namespace, type);
-- Name: outbox outbox_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (namespace, id);
-- Name: principal_grant principal_grant_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.principal_grant
    ADD CONSTRAINT principal_grant_pkey PRIMARY KEY (principal, place);
-- Name: principal principal_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.principal
    ADD CONSTRAINT principal_pkey PRIMARY KEY (id);
-- Name: purge purge_one_key; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.purge
    ADD CONSTRAINT purge_one_key UNIQUE (one);
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
-- Name: usage usage_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.usage
    ADD CONSTRAINT usage_pkey PRIMARY KEY (namespace);
-- Name: waiter waiter_pkey; Type: CONSTRAINT; Schema: holdfast; Owner: -
ALTER TABLE ONLY holdfast.waiter
    ADD CONSTRAINT waiter_pkey PRIMARY KEY (namespace, resource, server);
-- Name: audit_id_operation; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX audit_id_operation ON ONLY holdfast.audit USING brin (id, operation text_bloom_ops) WITH (pages_per_range='64', autosummarize='on');
-- Name: audit_id_resource; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX audit_id_resource ON ONLY holdfast.audit USING brin (id, resource text_bloom_ops) WITH (pages_per_range='64', autosummarize='on');
-- Name: namespace_max_leases; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX namespace_max_leases ON holdfast.namespace USING btree (name) WHERE (max_leases > 0);
-- Name: namespace_max_value_bytes; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX namespace_max_value_bytes ON holdfast.namespace USING btree (name) WHERE (max_value_bytes > 0);
-- Name: operation_compensating; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX operation_compensating ON holdfast.operation USING btree (changed_at) WHERE ((compensates IS NOT NULL) AND (state = ANY (ARRAY[1, 2, 5, 6])));
-- Name: operation_due; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX operation_due ON holdfast.operation USING btree (namespace, type, changed_at) WHERE (state = 1);
-- Name: operation_review; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX operation_review ON holdfast.operation USING btree (changed_at) WHERE (state = 6);
-- Name: operation_running; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX operation_running ON holdfast.operation USING btree (namespace, key) WHERE (state = 2);
-- Name: operation_sending; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX operation_sending ON holdfast.operation USING btree (changed_at) WHERE ((state = 2) AND sending);
-- Name: operation_unknown; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX operation_unknown ON holdfast.operation USING btree (changed_at) WHERE (state = 5);
-- Name: outbox_operation; Type: INDEX; Schema: holdfast; Owner: -
CREATE INDEX outbox_operation ON holdfast.outbox USING btree (namespace, operation) WHERE (operation IS NOT NULL);
-- Name: principal_certificate; Type: INDEX; Schema: holdfast; Owner: -
CREATE UNIQUE INDEX principal_certificate ON holdfast.principal USING btree (certificate) WHERE ((revoked_at IS NULL) AND (certificate IS NOT NULL));
-- Name: principal_name; Type: INDEX; Schema: holdfast; Owner: -
CREATE UNIQUE INDEX principal_name ON holdfast.principal USING btree (name) WHERE (revoked_at IS NULL);
-- Name: principal_version; Type: INDEX; Schema: holdfast; Owner: -
CREATE UNIQUE INDEX principal_version ON holdfast.principal USING btree (version);
-- Name: operation legal_moves; Type: TRIGGER; Schema: holdfast; Owner: -
CREATE TRIGGER legal_moves BEFORE UPDATE OF state ON holdfast.operation FOR EACH ROW WHEN ((((old.state * 8) + new.state) <> ALL ('{9,10,11,15,17,18,19,20,21,22,27,36,41,43,44,45,47,49,54,55,63}'::integer[]))) EXECUTE FUNCTION holdfast.refuse_move();
-- Name: SCHEMA holdfast; Type: ACL; Schema: -; Owner: -
GRANT USAGE ON SCHEMA holdfast TO holdfast_user;
-- Name: FUNCTION acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text) FROM PUBLIC;
-- Name: FUNCTION acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text, p_server text, p_may_grant boolean[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_all(p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text, p_server text, p_may_grant boolean[]) FROM PUBLIC;
-- Name: FUNCTION acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_at timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_at timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[], p_at timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_batch(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[], p_at timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION acquire_special(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[], p_t timestamp with time zone, INOUT r_tid tid[], INOUT l_tid tid[], OUT veto smallint[], OUT veto_ms bigint[], OUT next_server text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_special(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_server text, p_may_grant boolean[], p_waited_ms bigint[], p_wait_ms bigint[], p_next_waited_ms bigint[], p_next_wait_ms bigint[], p_t timestamp with time zone, INOUT r_tid tid[], INOUT l_tid tid[], OUT veto smallint[], OUT veto_ms bigint[], OUT next_server text[]) FROM PUBLIC;
-- Name: FUNCTION acquire_verdicts(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.acquire_verdicts(p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION action_problem(p_function regprocedure); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.action_problem(p_function regprocedure) FROM PUBLIC;
-- Name: FUNCTION advance_fences(p_ns text, p_at_least bigint, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.advance_fences(p_ns text, p_at_least bigint, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION after_action(p_settings text[], p_path text, p_writes bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.after_action(p_settings text[], p_path text, p_writes bigint[]) FROM PUBLIC;
-- Name: FUNCTION allow_role(role name, namespace text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.allow_role(role name, namespace text) FROM PUBLIC;
-- Name: FUNCTION attach(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.attach() FROM PUBLIC;
-- Name: FUNCTION audit_list(p_ns text, p_resource text, p_before bigint, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.audit_list(p_ns text, p_resource text, p_before bigint, p_max integer) FROM PUBLIC;
-- Name: FUNCTION audit_list(p_ns text, p_resource text, p_operation text, p_before bigint, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.audit_list(p_ns text, p_resource text, p_operation text, p_before bigint, p_max integer) FROM PUBLIC;
-- Name: FUNCTION audit_principal(p_id text, p_also text[], p_actor text, p_detail text, p_tells_grants boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.audit_principal(p_id text, p_also text[], p_actor text, p_detail text, p_tells_grants boolean) FROM PUBLIC;
-- Name: FUNCTION auth_changes(p_epoch text, p_after bigint, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.auth_changes(p_epoch text, p_after bigint, p_max integer) FROM PUBLIC;
-- Name: FUNCTION auth_note(p_used text[], p_ago_ms bigint[], p_principal text[], p_method text[], p_reason text[], p_count bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.auth_note(p_used text[], p_ago_ms bigint[], p_principal text[], p_method text[], p_reason text[], p_count bigint[]) FROM PUBLIC;
-- Name: FUNCTION begin_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.begin_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[]) FROM PUBLIC;
-- Name: FUNCTION begin_operation(namespace text, key text, type text, fingerprint bytea, holder text, ttl_ms bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.begin_operation(namespace text, key text, type text, fingerprint bytea, holder text, ttl_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION holdfast.begin_operation(namespace text, key text, type text, fingerprint bytea, holder text, ttl_ms bigint) TO holdfast_user;
-- Name: FUNCTION break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text, p_turn boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text, p_turn boolean) FROM PUBLIC;
-- Name: FUNCTION check_batch(p_ns text[], p_resource text[], p_token bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.check_batch(p_ns text[], p_resource text[], p_token bigint[]) FROM PUBLIC;
-- Name: FUNCTION clock(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.clock() FROM PUBLIC;
-- Name: FUNCTION commit_durably(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.commit_durably() FROM PUBLIC;
-- Name: FUNCTION complete_operation(namespace text, key text, token bigint, result bytea); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.complete_operation(namespace text, key text, token bigint, result bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION holdfast.complete_operation(namespace text, key text, token bigint, result bytea) TO holdfast_user;
-- Name: FUNCTION count_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.count_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint) FROM PUBLIC;
-- Name: FUNCTION create_namespace(p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.create_namespace(p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text) FROM PUBLIC;
-- Name: FUNCTION create_principal(p_id text, p_name text, p_secret_hash bytea, p_certificate text, p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_grants text[], p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.create_principal(p_id text, p_name text, p_secret_hash bytea, p_certificate text, p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_grants text[], p_actor text) FROM PUBLIC;
-- Name: FUNCTION defer_again(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.defer_again() FROM PUBLIC;
-- Name: FUNCTION deferred_writes(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.deferred_writes() FROM PUBLIC;
-- Name: FUNCTION emit(namespace text, aggregatetype text, aggregateid text, type text, payload bytea, operation text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.emit(namespace text, aggregatetype text, aggregateid text, type text, payload bytea, operation text) FROM PUBLIC;
GRANT ALL ON FUNCTION holdfast.emit(namespace text, aggregatetype text, aggregateid text, type text, payload bytea, operation text) TO holdfast_user;
-- Name: FUNCTION end_backend(p_pid integer, p_backend_start text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.end_backend(p_pid integer, p_backend_start text) FROM PUBLIC;
-- Name: FUNCTION execute_guard(p_ns text, p_resource text, p_token bigint, p_expected bigint, OUT outcome smallint, OUT fence bigint, OUT version bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.execute_guard(p_ns text, p_resource text, p_token bigint, p_expected bigint, OUT outcome smallint, OUT fence bigint, OUT version bigint) FROM PUBLIC;
-- Name: FUNCTION execute_one(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_call text, p_args text, p_holder text, p_timeout_ms integer, p_fresh boolean, p_settings text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[], OUT outcome smallint, OUT result jsonb, OUT sqlstate_told text, OUT message text, OUT checked boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.execute_one(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_call text, p_args text, p_holder text, p_timeout_ms integer, p_fresh boolean, p_settings text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[], OUT outcome smallint, OUT result jsonb, OUT sqlstate_told text, OUT message text, OUT checked boolean) FROM PUBLIC;
-- Name: FUNCTION execute_setting_names(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.execute_setting_names() FROM PUBLIC;
-- Name: FUNCTION execute_settings(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.execute_settings() FROM PUBLIC;
-- Name: FUNCTION find_action(p_ns text, p_name text, OUT call text, OUT problem text, OUT timeout_ms integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.find_action(p_ns text, p_name text, OUT call text, OUT problem text, OUT timeout_ms integer) FROM PUBLIC;
-- Name: FUNCTION flags(p_places integer[], p_n integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.flags(p_places integer[], p_n integer) FROM PUBLIC;
-- Name: FUNCTION flat_labels(p_labels jsonb); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.flat_labels(p_labels jsonb) FROM PUBLIC;
-- Name: FUNCTION follow(p_high bigint, p_gaps int8multirange, p_from bigint[], p_to bigint[], p_max bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.follow(p_high bigint, p_gaps int8multirange, p_from bigint[], p_to bigint[], p_max bigint) FROM PUBLIC;
-- Name: FUNCTION follow_start(p_window bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.follow_start(p_window bigint) FROM PUBLIC;
-- Name: FUNCTION follow_tidy(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.follow_tidy() FROM PUBLIC;
-- Name: FUNCTION forget_session(p_keep text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.forget_session(p_keep text[]) FROM PUBLIC;
-- Name: FUNCTION get_batch(p_ns text[], p_resource text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.get_batch(p_ns text[], p_resource text[]) FROM PUBLIC;
-- Name: FUNCTION give_turn(p_ns text, p_resource text, p_t timestamp with time zone, p_but text, p_before timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.give_turn(p_ns text, p_resource text, p_t timestamp with time zone, p_but text, p_before timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION grants_text(p_id text, p_ns text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.grants_text(p_id text, p_ns text) FROM PUBLIC;
-- Name: FUNCTION guard(namespace text, resource text, token bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.guard(namespace text, resource text, token bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION holdfast.guard(namespace text, resource text, token bigint) TO holdfast_user;
-- Name: FUNCTION in_the_way_ms(p_deadline timestamp with time zone, p_ended smallint, p_lock_delay_ms integer, p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.in_the_way_ms(p_deadline timestamp with time zone, p_ended smallint, p_lock_delay_ms integer, p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION jitter(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.jitter() FROM PUBLIC;
-- Name: FUNCTION leave_batch(p_ns text[], p_resource text[], p_server text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.leave_batch(p_ns text[], p_resource text[], p_server text) FROM PUBLIC;
-- Name: FUNCTION limit_leases(p_ns text[], p_resource text[], p_ttl_ms bigint[], p_request_id text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone, p_veto smallint[], p_all boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.limit_leases(p_ns text[], p_resource text[], p_ttl_ms bigint[], p_request_id text[], p_may_grant boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone, p_veto smallint[], p_all boolean) FROM PUBLIC;
-- Name: FUNCTION limit_values(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.limit_values(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION list_actions(p_ns text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_actions(p_ns text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_denials(p_before bigint, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_denials(p_before bigint, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_namespaces(p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_namespaces(p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_principals(p_after text, p_revoked boolean, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_principals(p_after text, p_revoked boolean, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_resources(p_ns text, p_prefix text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_resources(p_ns text, p_prefix text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION list_sql_roles(p_ns text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.list_sql_roles(p_ns text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION lock_or_blocker(p_ns text, p_resource text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.lock_or_blocker(p_ns text, p_resource text) FROM PUBLIC;
-- Name: FUNCTION lock_pairs(p_ns text[], p_resource text[], p_make boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.lock_pairs(p_ns text[], p_resource text[], p_make boolean) FROM PUBLIC;
-- Name: FUNCTION lock_rows(p_ns text[], p_resource text[], p_make boolean, OUT r_tid tid[], OUT l_tid tid[], OUT mine boolean[], OUT special boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.lock_rows(p_ns text[], p_resource text[], p_make boolean, OUT r_tid tid[], OUT l_tid tid[], OUT mine boolean[], OUT special boolean) FROM PUBLIC;
-- Name: FUNCTION lock_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint, OUT noted_at timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.lock_usage(p_ns text, OUT leases bigint, OUT value_bytes bigint, OUT noted_at timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION locked_by_top_level(p_ns text, p_resource text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.locked_by_top_level(p_ns text, p_resource text) FROM PUBLIC;
-- Name: FUNCTION make_partitions(p_months_ahead integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.make_partitions(p_months_ahead integer) FROM PUBLIC;
-- Name: FUNCTION map_sql_role(p_ns text, p_role text, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.map_sql_role(p_ns text, p_role text, p_actor text) FROM PUBLIC;
-- Name: FUNCTION ms(p_interval interval); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.ms(p_interval interval) FROM PUBLIC;
-- Name: FUNCTION namespace_row(p_outcome integer, p_row holdfast.namespace); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.namespace_row(p_outcome integer, p_row holdfast.namespace) FROM PUBLIC;
-- Name: FUNCTION note_expired(p_ns text, p_max integer, p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.note_expired(p_ns text, p_max integer, p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION notify_batch(p_server text[], p_payload text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.notify_batch(p_server text[], p_payload text[]) FROM PUBLIC;
-- Name: FUNCTION old_partitions(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.old_partitions() FROM PUBLIC;
-- Name: FUNCTION op_attempts(p_ns text, p_key text, p_after integer, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_attempts(p_ns text, p_key text, p_after integer, p_max integer) FROM PUBLIC;
-- Name: FUNCTION op_compensate(p_ns text, p_key text, p_type text, p_payload bytea, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_compensate(p_ns text, p_key text, p_type text, p_payload bytea, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION op_decide(p_ns text, p_key text, p_revision integer, p_call smallint, p_reconciled smallint, p_result bytea, p_result_ref text, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_decide(p_ns text, p_key text, p_revision integer, p_call smallint, p_reconciled smallint, p_result bytea, p_result_ref text, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION op_delay_ms(p_attempts integer, p_base_ms integer, p_cap_ms integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_delay_ms(p_attempts integer, p_base_ms integer, p_cap_ms integer) FROM PUBLIC;
-- Name: FUNCTION op_execute_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_action text[], p_args text[], p_resource text[], p_token bigint[], p_expected bigint[], p_holder text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_execute_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_action text[], p_args text[], p_resource text[], p_token bigint[], p_expected bigint[], p_holder text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]) FROM PUBLIC;
-- Name: FUNCTION op_finish_batch(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_result bytea[], p_result_ref text[], p_error_class smallint[], p_message text[], p_sqlstate text[], p_retry_after_ms bigint[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_finish_batch(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_result bytea[], p_result_ref text[], p_error_class smallint[], p_message text[], p_sqlstate text[], p_retry_after_ms bigint[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]) FROM PUBLIC;
-- Name: FUNCTION op_get_batch(p_ns text[], p_key text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_get_batch(p_ns text[], p_key text[]) FROM PUBLIC;
-- Name: FUNCTION op_list(p_ns text, p_state smallint, p_type text, p_prefix text, p_older_than_ms bigint, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_list(p_ns text, p_state smallint, p_type text, p_prefix text, p_older_than_ms bigint, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION op_list_policies(p_ns text, p_after text, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_list_policies(p_ns text, p_after text, p_max integer) FROM PUBLIC;
-- Name: FUNCTION op_lock(p_ns text[], p_key text[], p_wanted boolean[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_lock(p_ns text[], p_key text[], p_wanted boolean[]) FROM PUBLIC;
-- Name: FUNCTION op_owner_verdicts(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_error_class smallint[], p_mine boolean[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_owner_verdicts(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_error_class smallint[], p_mine boolean[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION op_policy(p_ns text, p_type text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_policy(p_ns text, p_type text) FROM PUBLIC;
-- Name: FUNCTION op_policy_row(p_outcome integer, p_row holdfast.operation_policy, p_needed_ms bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_policy_row(p_outcome integer, p_row holdfast.operation_policy, p_needed_ms bigint) FROM PUBLIC;
-- Name: FUNCTION op_record_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_result bytea[], p_result_ref text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_record_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_result bytea[], p_result_ref text[], p_event_item integer[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[]) FROM PUBLIC;
-- Name: FUNCTION op_renew_batch(p_ns text[], p_key text[], p_token bigint[], p_ttl_ms bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_renew_batch(p_ns text[], p_key text[], p_token bigint[], p_ttl_ms bigint[]) FROM PUBLIC;
-- Name: FUNCTION op_row(p_row holdfast.operation, p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_row(p_row holdfast.operation, p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION op_sending_batch(p_ns text[], p_key text[], p_token bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_sending_batch(p_ns text[], p_key text[], p_token bigint[]) FROM PUBLIC;
-- Name: FUNCTION op_set_policy(p_ns text, p_type text, p_max_attempts bigint, p_max_elapsed_ms bigint, p_base_ms bigint, p_cap_ms bigint, p_on_lost smallint, p_retention_ms bigint, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_set_policy(p_ns text, p_type text, p_max_attempts bigint, p_max_elapsed_ms bigint, p_base_ms bigint, p_cap_ms bigint, p_on_lost smallint, p_retention_ms bigint, p_actor text) FROM PUBLIC;
-- Name: FUNCTION op_start(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[], p_mine boolean[], p_t timestamp with time zone, p_start boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_start(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[], p_mine boolean[], p_t timestamp with time zone, p_start boolean) FROM PUBLIC;
-- Name: FUNCTION op_state_at(p_state smallint, p_sending boolean, p_deadline timestamp with time zone, p_ns text, p_type text, p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_state_at(p_state smallint, p_sending boolean, p_deadline timestamp with time zone, p_ns text, p_type text, p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION op_stats(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_stats() FROM PUBLIC;
-- Name: FUNCTION op_sweep(p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_sweep(p_max integer) FROM PUBLIC;
-- Name: FUNCTION op_tell(p_ns text[], p_key text[], p_outcome smallint[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_tell(p_ns text[], p_key text[], p_outcome smallint[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION op_verdicts(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_request_id text[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.op_verdicts(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_request_id text[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION operation_move(p_from smallint, p_to smallint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.operation_move(p_from smallint, p_to smallint) FROM PUBLIC;
-- Name: FUNCTION policy_changes(p_old holdfast.namespace, p_new holdfast.namespace); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.policy_changes(p_old holdfast.namespace, p_new holdfast.namespace) FROM PUBLIC;
-- Name: FUNCTION prefix_end(p_prefix text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.prefix_end(p_prefix text) FROM PUBLIC;
-- Name: FUNCTION principal_grants(p_id text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.principal_grants(p_id text) FROM PUBLIC;
-- Name: FUNCTION principal_none(p_outcome integer, p_id text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.principal_none(p_outcome integer, p_id text) FROM PUBLIC;
-- Name: FUNCTION principal_reach(p_id text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.principal_reach(p_id text) FROM PUBLIC;
-- Name: FUNCTION principal_row(p_outcome integer, p_row holdfast.principal); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.principal_row(p_outcome integer, p_row holdfast.principal) FROM PUBLIC;
-- Name: FUNCTION purge_operations(p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.purge_operations(p_max integer) FROM PUBLIC;
-- Name: FUNCTION put_events(p_ns text[], p_operation text[], p_item integer[], p_aggregate_type text[], p_aggregate_id text[], p_type text[], p_payload bytea[], p_take boolean[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.put_events(p_ns text[], p_operation text[], p_item integer[], p_aggregate_type text[], p_aggregate_id text[], p_type text[], p_payload bytea[], p_take boolean[]) FROM PUBLIC;
-- Name: FUNCTION put_grants(p_id text, p_grants text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.put_grants(p_id text, p_grants text[]) FROM PUBLIC;
-- Name: FUNCTION put_settings(p_settings text[], p_path text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.put_settings(p_settings text[], p_path text) FROM PUBLIC;
-- Name: FUNCTION read_batch(p_ns text[], p_resource text[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.read_batch(p_ns text[], p_resource text[]) FROM PUBLIC;
-- Name: FUNCTION refuse_move(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.refuse_move() FROM PUBLIC;
-- Name: FUNCTION register_action(p_ns text, p_name text, p_function text, p_timeout_ms bigint, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.register_action(p_ns text, p_name text, p_function text, p_timeout_ms bigint, p_actor text) FROM PUBLIC;
-- Name: FUNCTION release_batch(p_ns text[], p_resource text[], p_token bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[]) FROM PUBLIC;
-- Name: FUNCTION release_batch(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[]) FROM PUBLIC;
-- Name: FUNCTION release_special(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.release_special(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION release_verdicts(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.release_verdicts(p_ns text[], p_resource text[], p_token bigint[], p_unless_repeated boolean[], p_r_tid tid[], p_l_tid tid[], p_t timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION remove_action(p_ns text, p_name text, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.remove_action(p_ns text, p_name text, p_actor text) FROM PUBLIC;
-- Name: FUNCTION renew_batch(p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], p_careful boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.renew_batch(p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[], p_careful boolean) FROM PUBLIC;
-- Name: FUNCTION renew_locked(p_i integer[], p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.renew_locked(p_i integer[], p_ns text[], p_resource text[], p_token bigint[], p_ttl_ms bigint[]) FROM PUBLIC;
-- Name: FUNCTION require_arguments(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_holder text, p_ttl_ms bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.require_arguments(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_holder text, p_ttl_ms bigint) FROM PUBLIC;
-- Name: FUNCTION require_mapped(p_ns text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.require_mapped(p_ns text) FROM PUBLIC;
-- Name: FUNCTION require_read_committed(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.require_read_committed() FROM PUBLIC;
-- Name: FUNCTION revoke_principal(p_id text, p_version bigint, p_actor text, p_reason text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.revoke_principal(p_id text, p_version bigint, p_actor text, p_reason text) FROM PUBLIC;
-- Name: FUNCTION row_blocker(p_xmax xid); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.row_blocker(p_xmax xid) FROM PUBLIC;
-- Name: FUNCTION set_namespace(p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.set_namespace(p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text) FROM PUBLIC;
-- Name: FUNCTION set_principal(p_id text, p_version bigint, p_grants text[], p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.set_principal(p_id text, p_version bigint, p_grants text[], p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_actor text) FROM PUBLIC;
-- Name: FUNCTION spread(p_tids tid[], p_places integer[], p_n integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.spread(p_tids tid[], p_places integer[], p_n integer) FROM PUBLIC;
-- Name: FUNCTION stats(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.stats() FROM PUBLIC;
-- Name: FUNCTION sweep(p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.sweep(p_max integer) FROM PUBLIC;
-- Name: FUNCTION tids_again(p_ns text[], p_resource text[], INOUT r_tid tid[], INOUT l_tid tid[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.tids_again(p_ns text[], p_resource text[], INOUT r_tid tid[], INOUT l_tid tid[]) FROM PUBLIC;
-- Name: FUNCTION trail(p_ns text, p_prefix text, p_after bigint, p_until bigint, p_except int8multirange, p_max integer); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.trail(p_ns text, p_prefix text, p_after bigint, p_until bigint, p_except int8multirange, p_max integer) FROM PUBLIC;
-- Name: FUNCTION trail_highest(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.trail_highest() FROM PUBLIC;
-- Name: FUNCTION trail_kind(p_kind text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.trail_kind(p_kind text) FROM PUBLIC;
-- Name: FUNCTION trail_writers(); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.trail_writers() FROM PUBLIC;
-- Name: FUNCTION trusted(p_role oid); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.trusted(p_role oid) FROM PUBLIC;
-- Name: FUNCTION turn_before(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_t timestamp with time zone, OUT remaining_ms bigint, OUT next_server text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.turn_before(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_t timestamp with time zone, OUT remaining_ms bigint, OUT next_server text) FROM PUBLIC;
-- Name: FUNCTION uncount_leases(p_ns text[], p_n integer[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.uncount_leases(p_ns text[], p_n integer[]) FROM PUBLIC;
-- Name: FUNCTION unix_ms(p_at timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.unix_ms(p_at timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION unmap_sql_role(p_ns text, p_role text, p_actor text); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.unmap_sql_role(p_ns text, p_role text, p_actor text) FROM PUBLIC;
-- Name: FUNCTION wait_for(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_until timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.wait_for(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION wait_no_more(p_ns text, p_resource text, p_server text, OUT was_there boolean, OUT had_turn boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.wait_no_more(p_ns text, p_resource text, p_server text, OUT was_there boolean, OUT had_turn boolean) FROM PUBLIC;
-- Name: FUNCTION wait_on_after_grant(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_until timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.wait_on_after_grant(p_ns text, p_resource text, p_server text, p_since timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;
-- Name: FUNCTION with_policies(p_row holdfast.namespace, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.with_policies(p_row holdfast.namespace, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint) FROM PUBLIC;
-- Name: FUNCTION write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[]); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[]) FROM PUBLIC;
-- Name: FUNCTION write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_knows_quota boolean); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.write_batch(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_knows_quota boolean) FROM PUBLIC;
-- Name: FUNCTION write_verdicts(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[], p_t timestamp with time zone); Type: ACL; Schema: holdfast; Owner: -
REVOKE ALL ON FUNCTION holdfast.write_verdicts(p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[], p_t timestamp with time zone) FROM PUBLIC;
-- PostgreSQL database dump complete
