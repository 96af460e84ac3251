-- Execute: the record, the fence check, an action's SQL, its events and its result in one transaction, or nothing of it.

-- (All in plpgsql, whose plans are kept: SQL functions would be planned for each action anew, which takes longer than most actions.)

-- Whether this role could do what Holdfast can anyway: code of its own may run with Holdfast's rights.
CREATE OR REPLACE FUNCTION holdfast.trusted(p_role oid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT r.rolsuper OR pg_catalog.pg_has_role(r.oid, s.nspowner, 'MEMBER') OR pg_catalog.pg_has_role(r.oid, current_user, 'MEMBER')
        FROM pg_catalog.pg_roles r, pg_catalog.pg_namespace s WHERE r.oid = p_role AND s.nspname = 'holdfast');
END
$$;

-- What is wrong with a function as an action, for people; NULL = nothing. It has to run with the rights of a role that has none that could
-- lead to Holdfast's: of one that cannot log in, is no superuser, makes no roles, and may not even look into this schema. SECURITY DEFINER
-- also sees to it that it cannot change roles.
CREATE OR REPLACE FUNCTION holdfast.action_problem(p_function regprocedure) RETURNS text LANGUAGE plpgsql STABLE AS $$
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

-- The function that the action calls, quoted, what is wrong with it now, and how long it may take. All NULL: there is no such action.
CREATE OR REPLACE FUNCTION holdfast.find_action(p_ns text, p_name text, OUT call text, OUT problem text, OUT timeout_ms int)
LANGUAGE plpgsql STABLE AS $$
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

-- The settings that an action could change for those behind it; search_path is the first. Not every version knows all of them.
CREATE OR REPLACE FUNCTION holdfast.execute_setting_names() RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY['search_path', 'synchronous_commit', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout',
        'idle_session_timeout', 'transaction_timeout', 'plan_cache_mode', 'enable_hashjoin', 'enable_mergejoin', 'enable_nestloop',
        'enable_seqscan', 'enable_indexscan', 'enable_indexonlyscan', 'enable_bitmapscan', 'enable_sort', 'jit', 'row_security', 'TimeZone', 'DateStyle',
        'IntervalStyle', 'bytea_output', 'client_encoding', 'extra_float_digits', 'array_nulls', 'transform_null_equals',
        'standard_conforming_strings', 'default_transaction_isolation', 'default_transaction_read_only', 'default_transaction_deferrable',
        'client_min_messages', 'work_mem', 'application_name', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count',
        'tcp_user_timeout', 'client_connection_check_interval', 'default_tablespace', 'temp_tablespaces', 'max_parallel_workers_per_gather']
$$;

-- Their values now.
CREATE OR REPLACE FUNCTION holdfast.execute_settings() RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(SELECT pg_catalog.current_setting(n, true) FROM unnest(holdfast.execute_setting_names()) WITH ORDINALITY AS x(n, i) ORDER BY i);
END
$$;

-- How many rows this transaction has written of tables with checks that can be put off to the commit; and of those among them whose checks
-- would run code of somebody who is not trusted: triggers, and expressions of exclusion constraints. What is put off to the commit, or to
-- SET CONSTRAINTS, runs with the rights of whoever does that.
CREATE OR REPLACE FUNCTION holdfast.deferred_writes() RETURNS bigint[] LANGUAGE plpgsql VOLATILE AS $$
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

-- For the end of an action: settings are as before it, p_settings; and it has left nothing behind that would run later, with Holdfast's
-- rights, otherwise raises 0A000. p_writes: deferred_writes() before it; true if there may be checks that were put off. p_path: search_path
-- as it is now. Operators mean what the action chose until this has come back, so the statement that calls it must have none.
CREATE OR REPLACE FUNCTION holdfast.after_action(p_settings text[], p_path text, p_writes bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
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

-- After SET CONSTRAINTS ALL IMMEDIATE those that are deferred by their tables' definition are so again; false if that could not be done (a
-- name that stands for another one too).
CREATE OR REPLACE FUNCTION holdfast.defer_again() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
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

-- The settings are p_settings again, the search path p_path, also from the end of this transaction on: a setting of the session may be hidden
-- behind one of the transaction, until then.
CREATE OR REPLACE FUNCTION holdfast.put_settings(p_settings text[], p_path text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
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

-- What a session keeps whatever becomes of the transaction is gone: statements that were prepared by SQL (but those named in p_keep), for
-- the server calls its own by name; locks of the session; and what it listens to.
CREATE OR REPLACE FUNCTION holdfast.forget_session(p_keep text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
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
-- raised; 5 if it, or its record, met a lock that somebody holds. p_fresh: there is no row for the key yet. Afterwards settings are as in
-- p_settings, and nothing of the action is left to be done. `checked`: deferrable constraints are immediate from now on in this transaction,
-- since the action wrote where there are such.
CREATE OR REPLACE FUNCTION holdfast.execute_one(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_call text, p_args text, p_holder text,
    p_timeout_ms int, p_fresh boolean, p_settings text[], p_event_item int[], p_event_aggregate_type text[],
    p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[],
    OUT outcome smallint, OUT result jsonb, OUT sqlstate_told text, OUT message text, OUT checked boolean)
LANGUAGE plpgsql VOLATILE AS $$
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
$$;

-- Each item is executed once, or told what became of its key: 210 done now · 202–208 · 217 no such action, or not as it was registered
-- (message) · 218 it raised (sqlstate, message); nothing was done · 219, 220, 221 the resource's guard: see execute_guard · 224 not begun,
-- since an item before it took its time: to be sent again · 5 · 90. One after the other; none undoes
-- another. A serialization failure or a deadlock is tried again twice. Runs with a search_path that nobody else can write to.
CREATE OR REPLACE FUNCTION holdfast.op_execute_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_action text[],
    p_args text[], p_resource text[], p_token bigint[], p_expected bigint[], p_holder text[],
    p_event_item int[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[])
RETURNS TABLE (i int, outcome smallint, result bytea, result_ref text, ended_unix_ms bigint, attempt int, sqlstate text, message text,
    fence bigint, version bigint, holder text, remaining_ms bigint, error_class smallint, state smallint)
LANGUAGE plpgsql VOLATILE AS $$
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
