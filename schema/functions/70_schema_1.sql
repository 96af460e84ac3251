-- The forms in which servers of schema 1 call: see 00_common.sql. They know neither turns nor quotas: nothing they do gives a
-- turn, since they would tell nobody, and what they cannot read is told as BUSY, which they try again later.

CREATE OR REPLACE FUNCTION holdfast.acquire_batch(
    p_ns text[], p_resource text[], p_task text[], p_holder text[], p_ttl_ms bigint[], p_request_id text[], p_labels text[],
    p_at timestamptz DEFAULT NULL)
RETURNS TABLE (i int, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT a.i, (CASE WHEN a.outcome IN (70, 71) THEN 5 ELSE a.outcome END)::smallint, a.token, a.ttl_ms, a.holder, a.task,
        a.remaining_ms
    FROM holdfast.acquire_batch(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels,
        NULL::text, NULL::boolean[], NULL::bigint[], NULL::bigint[], NULL::bigint[], NULL::bigint[], p_at) a;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.acquire_all(
    p_ns text, p_resource text[], p_task text, p_holder text, p_ttl_ms bigint, p_request_id text, p_labels text)
RETURNS TABLE (i int, outcome smallint, token bigint, ttl_ms bigint, holder text, task text, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT a.i, (CASE WHEN a.outcome IN (70, 71) THEN 5 ELSE a.outcome END)::smallint, a.token, a.ttl_ms, a.holder, a.task,
        a.remaining_ms
    FROM holdfast.acquire_all(p_ns, p_resource, p_task, p_holder, p_ttl_ms, p_request_id, p_labels, NULL::text, NULL::boolean[]) a;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.release_batch(p_ns text[], p_resource text[], p_token bigint[])
RETURNS TABLE (i int, outcome smallint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT r.i, r.outcome FROM holdfast.release_batch(p_ns, p_resource, p_token, NULL::boolean[]) r;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.write_batch(
    p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[])
RETURNS TABLE (i int, outcome smallint, version bigint, fence bigint, write_seq bigint)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT w.i, w.outcome, w.version, w.fence, w.write_seq
    FROM holdfast.write_batch(p_ns, p_resource, p_token, p_write_seq, p_value, p_expected, false) w;
END
$$;

CREATE OR REPLACE FUNCTION holdfast.break_lease(p_ns text, p_resource text, p_token_seen bigint, p_actor text, p_reason text)
RETURNS TABLE (outcome smallint, fence bigint, live boolean, pid int)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT b.outcome, b.fence, b.live, b.pid FROM holdfast.break_lease(p_ns, p_resource, p_token_seen, p_actor, p_reason, false) b;
END
$$;
