-- The SQL interface of operations: for users' own transactions in this database. Effect, record and events are one transaction then:
--     BEGIN;
--     SELECT outcome, token, result FROM holdfast.begin_operation('default', 'debit/7', 'debit', sha256('{"amount":100}'));
--     -- outcome 'started': the work, in this transaction
--     SELECT holdfast.emit('default', 'order', '7', 'debited', '{"amount":100}');
--     SELECT holdfast.complete_operation('default', 'debit/7', :token, 'ok');
--     COMMIT;
-- A second caller with this key waits, in begin_operation, until the first has committed or rolled back (lock_timeout says how long), and
-- then is told what was stored or, after a rollback, started itself. All of them see to it that the commit is on disk when it is
-- acknowledged. They raise 42501 for roles that may not use the namespace (holdfast.allow_role), and 0A000 above READ COMMITTED.

-- This transaction's commit is on disk when it is acknowledged; also replayed on standbys where the session wants that.
CREATE OR REPLACE FUNCTION holdfast.commit_durably() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF pg_catalog.current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM pg_catalog.set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- On 'started' the caller has the operation: what it does in this transaction, or until its lease ends, counts if complete_operation
-- succeeds in the end. Otherwise the outcome is 'replayed' (with result), 'failed' or 'cancelled' (message), 'in_progress' (holder,
-- remaining_ms: somebody began it and committed that), 'unknown', 'review', or 'conflict': the key belongs to other parameters. Raises 22023
-- for a fingerprint that isn't 32 bytes, an empty or too long name, a ttl out of bounds; HF002 if there is no such namespace.
CREATE OR REPLACE FUNCTION holdfast.begin_operation(namespace text, key text, type text, fingerprint bytea, holder text DEFAULT NULL,
    ttl_ms bigint DEFAULT 60000)
RETURNS TABLE (outcome text, attempt int, token bigint, result bytea, message text, holder_now text, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

-- Raises what begin_operation says.
CREATE OR REPLACE FUNCTION holdfast.require_arguments(p_ns text, p_key text, p_type text, p_fingerprint bytea, p_holder text, p_ttl_ms bigint)
RETURNS void LANGUAGE plpgsql STABLE AS $$
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

-- The operation has succeeded with this result, if this transaction commits. A repeat changes nothing. Raises HF001 if a newer attempt was
-- started, HF002 if the attempt's lease has ended or never was, HF003 if it has ended otherwise; that rolls back with the caller.
CREATE OR REPLACE FUNCTION holdfast.complete_operation(namespace text, key text, token bigint, result bytea DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;

-- The event is in the outbox, if this transaction commits; its id, which is in the order of the commits within its aggregate: other
-- transactions that write events of the same aggregate wait for this one's end. Raises 22023 for empty or too long names, or no payload;
-- HF002 if there is no such namespace.
CREATE OR REPLACE FUNCTION holdfast.emit(namespace text, aggregatetype text, aggregateid text, type text, payload bytea,
    operation text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
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
$$;
