-- Operations: what the owner of an attempt does with it (renew, sending, complete, fail, unknown), and records of a single call.

-- Prolongs the leases of attempts that live. Outcomes: 10 renewed · 11 its lease ended · 12 a newer attempt was started · 13 the attempt
-- has ended · 14 it was ended from outside (cancelled, or the database changed) · 15 there never was such an attempt · 5 · 90.
CREATE OR REPLACE FUNCTION holdfast.op_renew_batch(p_ns text[], p_key text[], p_token bigint[], p_ttl_ms bigint[])
RETURNS TABLE (i int, outcome smallint, ttl_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
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

-- What somebody is told who speaks for an attempt: 210 it is the newest and lives · 211 he has ended it so before · 212 a newer attempt
-- was started · 213 its lease ended, or there never was such an attempt · 214 it has ended otherwise · 216 · 90 · 5.
-- p_call: 1 Complete, 2 Fail, 3 MarkUnknown, 4 MarkSending.
CREATE OR REPLACE FUNCTION holdfast.op_owner_verdicts(p_ns text[], p_key text[], p_token bigint[], p_call smallint[],
    p_error_class smallint[], p_mine boolean[], p_t timestamptz)
RETURNS TABLE (i int, outcome smallint, o_tid tid, a_tid tid, state smallint, revision int, attempts int, budget_attempts int, type text,
    sending boolean, deadline timestamptz, since timestamptz, result bytea, result_ref text, attempt int, state_after smallint,
    revision_after int)
LANGUAGE sql STABLE AS $$
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

-- From the commit on the attempt is sending: if its lease ends without an outcome, the operation is UNKNOWN. Outcomes: 210–214, 216, 5, 90.
CREATE OR REPLACE FUNCTION holdfast.op_sending_batch(p_ns text[], p_key text[], p_token bigint[])
RETURNS TABLE (i int, outcome smallint, remaining_ms bigint, state smallint)
LANGUAGE plpgsql VOLATILE AS $$
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

-- Ends attempts: 1 Complete, with a result and events; 2 Fail, whose class and policy say what follows; 3 MarkUnknown, with a note
-- (p_message). Outcomes as op_owner_verdicts; with 212 and 213 what was told is kept with the attempt. due_ms: PENDING, until it may run
-- again. exhausted: it is in REVIEW because its budget is spent.
CREATE OR REPLACE FUNCTION holdfast.op_finish_batch(p_ns text[], p_key text[], p_token bigint[], p_call smallint[], p_result bytea[],
    p_result_ref text[], p_error_class smallint[], p_message text[], p_sqlstate text[], p_retry_after_ms bigint[],
    p_event_item int[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[], p_event_payload bytea[])
RETURNS TABLE (i int, outcome smallint, state smallint, revision int, due_ms bigint, attempts int, exhausted boolean,
    succeeded_after_retry boolean)
LANGUAGE plpgsql VOLATILE AS $$
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

-- Keeps results under new keys (210), or tells what is there: 202–208; 205 also if an attempt could be started now. An insert and nothing
-- else for new ones: no attempt, no lock but its own. It leaves out what is there, or it would wait for whoever is changing that; so
-- only if somebody else inserts one of the keys meanwhile there is a conflict, and only then ON CONFLICT is worth what it costs: one more
-- look-up a row, a lock, and more WAL. If all are new that is told in one row for all n of them, with `i` = -n.
CREATE OR REPLACE FUNCTION holdfast.op_record_batch(p_ns text[], p_key text[], p_type text[], p_fingerprint bytea[], p_result bytea[],
    p_result_ref text[], p_event_item int[], p_event_aggregate_type text[], p_event_aggregate_id text[], p_event_type text[],
    p_event_payload bytea[])
RETURNS TABLE (i int, outcome smallint, state smallint, holder text, remaining_ms bigint, result bytea, result_ref text,
    ended_unix_ms bigint, attempt int, error_class smallint, message text)
LANGUAGE plpgsql VOLATILE AS $$
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
