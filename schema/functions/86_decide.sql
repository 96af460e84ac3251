-- Operations: what a person decides about them, and which actions there are.

-- 1 Retry, 2 Cancel, 3 Reconcile (p_reconciled: 1 SUCCEEDED with a result, 2 FAILED, 3 NOT_DONE, 4 CANCELLED), about the revision that was
-- seen. Outcomes: 210 done · 211 this very decision had been taken before · 215 it has another revision, and `state` · 214 its state doesn't
-- allow it · 206 it is UNKNOWN: only Reconcile settles that · 216 · 5 · 90. Audited with actor and reason.
CREATE OR REPLACE FUNCTION holdfast.op_decide(p_ns text, p_key text, p_revision int, p_call smallint, p_reconciled smallint, p_result bytea,
    p_result_ref text, p_actor text, p_reason text)
RETURNS TABLE (outcome smallint, state smallint, revision int, message text)
LANGUAGE plpgsql VOLATILE AS $$
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

-- The operation that undoes a SUCCEEDED one exists, PENDING and due: under a key made of the other's, at most one, with a budget of its own.
-- Outcomes: 210 made · 211 it had been asked for before, with the same type and payload · 208 with others, or its key is taken · 206, 207,
-- 214 the state of the one to be undone · 216 · 5 · 90. Audited.
CREATE OR REPLACE FUNCTION holdfast.op_compensate(p_ns text, p_key text, p_type text, p_payload bytea, p_actor text, p_reason text)
RETURNS TABLE (outcome smallint, key text, state smallint, revision int, fingerprint bytea)
LANGUAGE plpgsql VOLATILE AS $$
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

-- Executions may call this function, schema.name or "schema"."name", under this name. Outcomes: 50 · 72 another function or time is registered
-- so: what there is · 223 the function won't do: message · 90. Audited.
CREATE OR REPLACE FUNCTION holdfast.register_action(p_ns text, p_name text, p_function text, p_timeout_ms bigint, p_actor text)
RETURNS TABLE (outcome smallint, name text, function text, role text, timeout_ms bigint, message text)
LANGUAGE plpgsql VOLATILE AS $$
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

-- Nobody executes it any more. Outcomes: 50, 217, 90. Audited.
CREATE OR REPLACE FUNCTION holdfast.remove_action(p_ns text, p_name text, p_actor text) RETURNS TABLE (outcome smallint)
LANGUAGE plpgsql VOLATILE AS $$
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

-- In the order of their names, behind p_after, one more than p_max if there are more.
CREATE OR REPLACE FUNCTION holdfast.list_actions(p_ns text, p_after text, p_max int)
RETURNS TABLE (outcome smallint, name text, function text, role text, timeout_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
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
