-- Execute: the record, the fence check, an action's SQL, its events and its result in one transaction, or nothing of it.

-- What is wrong with a function as an action, for people; NULL = nothing. It has to run with the rights of a role that has no others: of
-- a role that cannot log in, is no superuser and not the owner of this schema. SECURITY DEFINER also sees to it that it cannot change roles.
CREATE OR REPLACE FUNCTION holdfast.action_problem(p_function regprocedure) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN p.oid IS NULL THEN 'there is no such function f(key text, args jsonb)'
        WHEN p.prokind <> 'f' OR p.proretset OR p.prorettype <> 'pg_catalog.jsonb'::regtype THEN 'it does not return jsonb'
        WHEN NOT p.prosecdef THEN 'it is not SECURITY DEFINER'
        WHEN NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c LIKE 'search\_path=%') THEN 'it has no search_path of its own'
        WHEN p.pronamespace = 'holdfast'::regnamespace THEN 'it is one of Holdfast''s own'
        WHEN r.rolsuper THEN pg_catalog.format('its owner "%s" is a superuser', r.rolname)
        WHEN r.rolcanlogin THEN pg_catalog.format('its owner "%s" can log in', r.rolname)
        WHEN pg_catalog.pg_has_role(r.oid, s.nspowner, 'MEMBER') THEN pg_catalog.format('its owner "%s" has Holdfast''s own rights', r.rolname)
    END
    FROM (SELECT 1) x LEFT JOIN pg_catalog.pg_proc p ON p.oid = p_function LEFT JOIN pg_catalog.pg_roles r ON r.oid = p.proowner
    LEFT JOIN pg_catalog.pg_namespace s ON s.nspname = 'holdfast'
$$;

-- The function that the action calls, quoted, or what is wrong with it now; and how long it may take. No row: there is no such action.
CREATE OR REPLACE FUNCTION holdfast.find_action(p_ns text, p_name text, OUT call text, OUT problem text, OUT timeout_ms int) RETURNS SETOF record
LANGUAGE sql STABLE AS $$
    SELECT a.function, coalesce(holdfast.action_problem(f.oid), CASE
            WHEN p.proowner <> (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = a.role) IS NOT FALSE THEN 'its owner has changed' END),
        a.timeout_ms
    FROM holdfast.action a CROSS JOIN LATERAL (SELECT pg_catalog.to_regprocedure(a.function || '(text,jsonb)') AS oid) f
    LEFT JOIN pg_catalog.pg_proc p ON p.oid = f.oid
    WHERE a.namespace = p_ns AND a.name = p_name
$$;

-- The settings that an action could change for those behind it.
CREATE OR REPLACE FUNCTION holdfast.execute_setting_names() RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY['synchronous_commit', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'search_path',
        'plan_cache_mode', 'enable_hashjoin', 'enable_mergejoin', 'enable_seqscan', 'jit', 'row_security', 'TimeZone', 'DateStyle',
        'IntervalStyle', 'bytea_output', 'client_encoding', 'extra_float_digits', 'default_transaction_isolation',
        'default_transaction_read_only', 'client_min_messages', 'work_mem', 'application_name']
$$;

-- Their values now.
CREATE OR REPLACE FUNCTION holdfast.execute_settings() RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.array_agg(pg_catalog.current_setting(n) ORDER BY i) FROM unnest(holdfast.execute_setting_names()) WITH ORDINALITY AS x(n, i)
$$;
-- They are as they were.
CREATE OR REPLACE FUNCTION holdfast.restore_settings(p_values text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    names CONSTANT text[] := holdfast.execute_setting_names();
BEGIN
    FOR k IN 1..pg_catalog.cardinality(names) LOOP
        IF pg_catalog.current_setting(names[k]) IS DISTINCT FROM p_values[k] THEN
            PERFORM pg_catalog.set_config(names[k], p_values[k], false);
        END IF;
    END LOOP;
END
$$;

-- "a, b, c": the constraints that are checked at the end of a transaction unless told otherwise; NULL = there are none.
CREATE OR REPLACE FUNCTION holdfast.deferred_constraints() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.string_agg(DISTINCT pg_catalog.format('%I.%I', n.nspname, c.conname), ', ')
    FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace
    WHERE c.condeferrable AND c.condeferred AND n.nspname NOT LIKE 'pg\_%'
$$;

-- Whether the resource is guarded for the holder of this token: NULL; otherwise 219 a newer token, 220 not held, 221 another version of the
-- value, 5 locked by somebody. Its fence row is locked to the end of the transaction, as in write_batch.
CREATE OR REPLACE FUNCTION holdfast.execute_guard(p_ns text, p_resource text, p_token bigint, p_expected bigint, OUT outcome smallint,
    OUT fence bigint, OUT version bigint)
LANGUAGE plpgsql VOLATILE AS $$
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

-- Calls the action once and keeps its result: in a block of its own, so that what it raises undoes all of it. outcome 210; 218 with what it
-- raised; 5 if it, or its record, met a lock that somebody holds. `fresh`: there is no row for the key yet. Afterwards constraints are
-- checked as their tables say, and settings are as in p_settings.
CREATE OR REPLACE FUNCTION holdfast.execute_one(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_call text, p_args jsonb, p_holder text,
    p_timeout_ms int, p_fresh boolean, p_settings text[], p_deferred text, p_event_item int[], p_event_aggregate_type text[],
    p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[],
    OUT outcome smallint, OUT result jsonb, OUT sqlstate_told text, OUT message text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    began CONSTANT timestamptz := pg_catalog.clock_timestamp();
    t timestamptz := holdfast.clock();
BEGIN
    IF p_fresh THEN
        INSERT INTO holdfast.operation (namespace, key, type, state, attempts, created_at, changed_at, fingerprint, holder)
        VALUES (p_ns, p_key, p_type, 3, 1, t, t, p_fingerprint, p_holder) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            outcome := 5; -- somebody was quicker: looked at again
            RETURN;
        END IF;
    END IF;
    IF p_deferred IS NOT NULL THEN
        EXECUTE 'SET CONSTRAINTS ' || p_deferred || ' DEFERRED';
    END IF;
    EXECUTE pg_catalog.format('SELECT %s($1, $2)', p_call) INTO result USING p_key, p_args;
    SET CONSTRAINTS ALL IMMEDIATE;
    PERFORM holdfast.restore_settings(p_settings);
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
        outcome := 5;
    WHEN OTHERS OR query_canceled OR assert_failure THEN
        GET STACKED DIAGNOSTICS sqlstate_told = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
        result := NULL;
        outcome := 218;
END
$$;

-- Each item is executed once, or told what became of its key: 210 done now · 202–208 · 217 no such action, or not as it was registered
-- (message) · 218 it raised (sqlstate, message); nothing was done · 219, 220, 221 the resource's guard: see execute_guard · 224 not begun,
-- since an item before it took its time: to be sent again · 5 · 90. One after the other; none undoes another. A serialization failure or a
-- deadlock is tried again twice.
CREATE OR REPLACE FUNCTION holdfast.op_execute_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_action text[],
    p_args text[], p_resource text[], p_token bigint[], p_expected bigint[], p_holder text[],
    p_event_item int[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[])
RETURNS TABLE (i int, outcome smallint, result bytea, result_ref text, ended_unix_ms bigint, attempt int, sqlstate text, message text,
    fence bigint, version bigint, holder text, remaining_ms bigint, error_class smallint, state smallint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    begun CONSTANT timestamptz := pg_catalog.clock_timestamp();
    settings CONSTANT text[] := holdfast.execute_settings();
    deferred CONSTANT text := holdfast.deferred_constraints();
    late boolean := false;
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
        told := (SELECT v.outcome FROM holdfast.op_verdicts(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], ARRAY[''], holdfast.clock()) v);
        IF told = 0 THEN
            mine := holdfast.op_lock(p_ns[k:k], p_key[k:k], ARRAY[true]);
            told := 5;
            IF mine[1] THEN
                PERFORM holdfast.op_start(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], NULL, NULL, ARRAY[''], NULL, mine,
                    holdfast.clock(), false);
                told := (SELECT v.outcome FROM holdfast.op_verdicts(p_ns[k:k], p_key[k:k], p_type[k:k], p_fingerprint[k:k], ARRAY[''],
                    holdfast.clock()) v);
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
            SELECT f.call, f.problem, f.timeout_ms INTO act FROM holdfast.find_action(p_ns[k], p_action[k]) f;
            IF NOT FOUND OR act.problem IS NOT NULL THEN
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
            FOR attempt IN 1..3 LOOP
                SELECT e.outcome, e.result, e.sqlstate_told, e.message INTO did, made, raised, why FROM holdfast.execute_one(p_ns[k], p_key[k], p_type[k],
                    p_fingerprint[k], act.call, p_args[k]::jsonb, p_holder[k], act.timeout_ms, told = -1, settings, deferred, item, atypes, aids,
                    types, payloads) e;
                EXIT WHEN did <> 218 OR raised NOT IN ('40001', '40P01');
            END LOOP;
            told := did;
            late := coalesce(raised = '57014', false);
        END IF;
        RETURN QUERY SELECT k, told, CASE told WHEN 210 THEN pg_catalog.convert_to(made::text, 'UTF8') ELSE x.result END, x.result_ref,
            x.ended_unix_ms, x.attempt, coalesce(raised, x.sqlstate), coalesce(why, x.message),
            coalesce(guard_fence, 0), coalesce(guard_version, 0), x.holder, x.remaining_ms, x.error_class, x.state
        FROM holdfast.op_tell(p_ns[k:k], p_key[k:k], ARRAY[told], holdfast.clock()) x;
    END LOOP;
END
$$;
