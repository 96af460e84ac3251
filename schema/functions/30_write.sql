-- Guarded writes.

-- What each item of a write gets, before quotas: as release_verdicts. more_bytes: by how much the values grow with it.
CREATE OR REPLACE FUNCTION holdfast.write_verdicts(
    p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[],
    p_t timestamptz)
RETURNS TABLE (i int, ns text, resource text, token bigint, write_seq bigint, value bytea, audit_writes boolean, max_value_bytes bigint,
    v_tid tid, fence bigint, version bigint, there boolean, more_bytes int, last_seq bigint, last_seq_version bigint, new_version bigint,
    outcome smallint)
LANGUAGE sql STABLE AS $$
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

-- Which of these writes make too much of their namespaces' values: true, by place. The others are counted as done.
CREATE OR REPLACE FUNCTION holdfast.limit_values(
    p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_r_tid tid[],
    p_t timestamptz) RETURNS boolean[]
LANGUAGE plpgsql VOLATILE AS $$
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

-- Each item with outcome 30 is written (value NULL: deleted), under the newest token of its resource and a lease that was live
-- after its fence row was locked; no takeover can come before this transaction's end (P3). Outcomes, in this order:
--   31 write_seq was accepted under this token before, and nothing since: the version given then. Whatever the lease is by now.
--   35 write_seq is not above the last one accepted under this token (write_seq: that one), or was used for the other kind,
--      write or delete, or writes without write_seq came after it.
--   32 a newer token was granted, or this one's lease was broken. Counted in holdfast.refusal.
--   33 this token's lease ran out or was released, or the token was never granted.
--   34 expected was not NULL and is not the value's version: `version` is what it is, 0 = there is no value.
--   30 done: the value's new version. Deleting what is not there is done too and leaves the version as it was; 0 = never written.
--   5  the fence row is locked by somebody.
--   70 the namespace's values would be more than its max_value_bytes, and this one would grow: `version` is that limit. 5 instead
--      if p_knows_quota is false: for servers that don't know it.
-- write_seq 0 = none: such a write can't be told from a repeat of it. `fence` is always the resource's.
-- Leaves an audit row if the namespace has audit_writes.
CREATE OR REPLACE FUNCTION holdfast.write_batch(
    p_ns text[], p_resource text[], p_token bigint[], p_write_seq bigint[], p_value bytea[], p_expected bigint[], p_knows_quota boolean)
RETURNS TABLE (i int, outcome smallint, version bigint, fence bigint, write_seq bigint)
LANGUAGE plpgsql VOLATILE AS $$
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
