-- Operations: the states, what decides about them, and the calls of those who work. All verdicts take what a key was begun with
-- into account first: another type or fingerprint is told nothing else (P4). Both never change, so they are read without a lock.

-- What may follow what: 1 PENDING, 2 RUNNING, 3 SUCCEEDED, 4 FAILED, 5 UNKNOWN, 6 REVIEW, 7 CANCELLED; 0 = there was nothing. The same
-- table as server/core/moves.c.
CREATE OR REPLACE FUNCTION holdfast.operation_move(p_from smallint, p_to smallint) RETURNS boolean LANGUAGE sql IMMUTABLE
AS $$ SELECT p_from = p_to OR CASE p_from
    WHEN 0 THEN p_to IN (1, 2, 3)
    WHEN 1 THEN p_to IN (2, 3, 7)
    WHEN 2 THEN p_to IN (1, 3, 4, 5, 6)
    WHEN 5 THEN p_to IN (1, 3, 4, 7)
    WHEN 6 THEN p_to IN (1, 7)
    ELSE false END $$;

-- Raises HF003: for the trigger below, which calls it only when a move is illegal.
CREATE OR REPLACE FUNCTION holdfast.refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'holdfast: operation "%" may not go from state % to state %', NEW.key, OLD.state, NEW.state USING ERRCODE = 'HF003';
END
$$;
-- Its condition is made of the table above: 8 × from + to. A call of the function would be parsed and planned in every statement that
-- updates an operation, which takes longer than most of them.
DO $$
DECLARE
    legal CONSTANT text := (SELECT pg_catalog.array_agg(f * 8 + t ORDER BY f, t)::text FROM pg_catalog.generate_series(1, 7) f,
        pg_catalog.generate_series(1, 7) t WHERE holdfast.operation_move(f::smallint, t::smallint));
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = 'holdfast.operation'::regclass AND g.tgname = 'legal_moves'
        AND pg_catalog.strpos(pg_catalog.pg_get_triggerdef(g.oid), pg_catalog.quote_literal(legal)) > 0) THEN
        EXECUTE pg_catalog.format('CREATE OR REPLACE TRIGGER legal_moves BEFORE UPDATE OF state ON holdfast.operation FOR EACH ROW '
            'WHEN (OLD.state * 8 + NEW.state <> ALL (%L::int[])) EXECUTE FUNCTION holdfast.refuse_move()', legal);
    END IF;
END
$$;

-- The policy of a type: its own, else that of its namespace, else the defaults.
CREATE OR REPLACE FUNCTION holdfast.op_policy(p_ns text, p_type text)
RETURNS TABLE (max_attempts int, max_elapsed_ms bigint, base_ms int, cap_ms int, on_lost smallint, retention_ms bigint)
LANGUAGE sql STABLE AS $$
    SELECT p.max_attempts, p.max_elapsed_ms, p.base_ms, p.cap_ms, p.on_lost, p.retention_ms FROM (
        SELECT q.*, 1 AS rank FROM holdfast.operation_policy q WHERE q.namespace = p_ns AND q.type = p_type
        UNION ALL SELECT q.*, 2 FROM holdfast.operation_policy q WHERE q.namespace = p_ns AND q.type = ''
        UNION ALL SELECT p_ns, p_type, 10, 86400000, 1000, 300000, 1::smallint, 2592000000, 3) p
    ORDER BY p.rank LIMIT 1
$$;

-- In [0, 1): tests replace it.
CREATE OR REPLACE FUNCTION holdfast.jitter() RETURNS float8 LANGUAGE sql VOLATILE AS $$ SELECT pg_catalog.random() $$;

-- How long to wait before the attempt that follows p_attempts: anything from 0 to min(cap, base × 2^(attempts − 1)).
CREATE OR REPLACE FUNCTION holdfast.op_delay_ms(p_attempts int, p_base_ms int, p_cap_ms int) RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT pg_catalog.floor(holdfast.jitter()
    * (least(p_cap_ms::float8, p_base_ms * 2::float8 ^ least(p_attempts - 1, 40)) + 1))::bigint $$;

-- The state as it is at t: an attempt whose lease ended is not there any more, whether or not anybody has noticed.
CREATE OR REPLACE FUNCTION holdfast.op_state_at(p_state smallint, p_sending boolean, p_deadline timestamptz, p_ns text, p_type text,
    p_t timestamptz) RETURNS smallint LANGUAGE sql STABLE
AS $$ SELECT CASE WHEN p_state = 2 AND p_deadline <= p_t
    AND (p_sending OR (SELECT p.on_lost FROM holdfast.op_policy(p_ns, p_type) p) = 1) THEN 5::smallint ELSE p_state END $$;

-- What somebody is told who comes with a key: the outcomes 90, 5 (there is no such row yet), 208, 202, 203, 204, 206, 207, 205, 201 (it
-- is his own attempt, still under way); 0: an attempt may be started, if that is still so under the lock. A late copy of the begin whose
-- attempt failed starts no other: 205.
CREATE OR REPLACE FUNCTION holdfast.op_verdicts(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_request_id text[],
    p_t timestamptz)
RETURNS TABLE (i int, outcome smallint, o_tid tid, state smallint, sending boolean, attempts int, budget_attempts int, token bigint,
    deadline timestamptz, since timestamptz, changed_at timestamptz, holder text, error_class smallint)
LANGUAGE sql STABLE AS $$
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

-- Which of the rows with p_wanted are locked now: true, by place. Never waits.
CREATE OR REPLACE FUNCTION holdfast.op_lock(p_ns text[], p_key text[], p_wanted boolean[]) RETURNS boolean[]
LANGUAGE plpgsql VOLATILE AS $$
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

-- Of the rows that are locked (p_mine) those whose attempt was lost are settled: an attempt that was sending, or whose policy says so,
-- leaves its operation UNKNOWN; a spent budget leaves it in REVIEW; the others may run again. What may run, these and those that are
-- due, is started with p_start; without it what was lost is PENDING and due. By place what was done: 200 may run, 206, 207.
CREATE OR REPLACE FUNCTION holdfast.op_start(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[],
    p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[], p_mine boolean[], p_t timestamptz, p_start boolean)
RETURNS TABLE (i int, did smallint)
LANGUAGE plpgsql VOLATILE AS $$
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

-- What is told of operations, by place; with the outcomes given.
CREATE OR REPLACE FUNCTION holdfast.op_tell(p_ns text[], p_key text[], p_outcome smallint[], p_t timestamptz)
RETURNS TABLE (i int, outcome smallint, attempt int, token bigint, ttl_ms bigint, execution_id text, trigger smallint, state smallint,
    holder text, remaining_ms bigint, result bytea, result_ref text, ended_unix_ms bigint, error_class smallint, message text, sqlstate text)
LANGUAGE sql STABLE AS $$
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

-- Each item has an attempt started (200), or is told what became of its key: 201, 202–207, 208, 5, 90; see op_verdicts. Of many that
-- come with a new key the insert of its row decides; the others read the winner's in a later statement. Leases as of resources: three
-- steps, the clock read after the lock.
CREATE OR REPLACE FUNCTION holdfast.begin_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_holder text[],
    p_ttl_ms bigint[], p_request_id text[], p_trigger smallint[])
RETURNS TABLE (i int, outcome smallint, attempt int, token bigint, ttl_ms bigint, execution_id text, trigger smallint, state smallint,
    holder text, remaining_ms bigint, result bytea, result_ref text, ended_unix_ms bigint, error_class smallint, message text, sqlstate text)
LANGUAGE plpgsql VOLATILE AS $$
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
