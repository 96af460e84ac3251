-- Namespaces and their policies.

-- A namespace's row as create_namespace, set_namespace and list_namespaces tell it.
CREATE OR REPLACE FUNCTION holdfast.namespace_row(p_outcome int, p_row holdfast.namespace)
RETURNS TABLE (outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean,
    max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_outcome::smallint, p_row.name::text, p_row.lock_delay_ms::bigint, p_row.min_ttl_ms::bigint, p_row.max_ttl_ms::bigint,
        p_row.audit_writes, p_row.max_leases, p_row.max_waiters, p_row.max_value_bytes, p_row.audit_keep_days::bigint,
        p_row.fence_floor, p_row.retired_at IS NOT NULL
$$;

-- The row with these policies; a NULL leaves one as it is.
CREATE OR REPLACE FUNCTION holdfast.with_policies(
    p_row holdfast.namespace, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean,
    p_max_leases bigint, p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint) RETURNS holdfast.namespace
LANGUAGE plpgsql IMMUTABLE AS $$
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

-- For the audit: what differs, "lock_delay_ms 0 -> 500, max_leases 0 -> 10".
CREATE OR REPLACE FUNCTION holdfast.policy_changes(p_old holdfast.namespace, p_new holdfast.namespace) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT coalesce(pg_catalog.string_agg(pg_catalog.format('%s %s -> %s', o.key, o.value, n.value), ', ' ORDER BY o.key), '')
    FROM pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(p_old)) o JOIN pg_catalog.jsonb_each_text(pg_catalog.to_jsonb(p_new)) n ON n.key = o.key
    WHERE o.value IS DISTINCT FROM n.value AND o.key NOT IN ('name', 'created_at', 'retired_at', 'fence_floor', 'guard_idle_cap_ms')
$$;

-- The namespace exists, with these policies, NULL = the default. Outcomes:
--   50 it was made now, or by an earlier copy of this.
--   72 it exists with other policies, or was retired: what there is.
--   73 the policies contradict each other (min_ttl_ms above max_ttl_ms): what they would be. Nothing was made.
-- The values are within their ranges (0002_waiters.sql): otherwise 23514. Leaves an audit row.
CREATE OR REPLACE FUNCTION holdfast.create_namespace(
    p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint,
    p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text)
RETURNS TABLE (outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean,
    max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
LANGUAGE plpgsql VOLATILE AS $$
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

-- The namespace has these policies, where they are not NULL. Outcomes:
--   50 done, or it was so already · 90 there is none, or it was retired
--   73 the policies would contradict each other: what they would be. Nothing was changed.
-- Calls that are in flight at that moment may still go by the old ones. Leaves an audit row if anything changed.
CREATE OR REPLACE FUNCTION holdfast.set_namespace(
    p_name text, p_lock_delay_ms bigint, p_min_ttl_ms bigint, p_max_ttl_ms bigint, p_audit_writes boolean, p_max_leases bigint,
    p_max_waiters bigint, p_max_value_bytes bigint, p_audit_keep_days bigint, p_actor text)
RETURNS TABLE (outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean,
    max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
LANGUAGE plpgsql VOLATILE AS $$
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

-- All namespaces, the retired too, in the order of their names' bytes, names above p_after, one row more than p_max if there is
-- more.
CREATE OR REPLACE FUNCTION holdfast.list_namespaces(p_after text, p_max int)
RETURNS TABLE (outcome smallint, name text, lock_delay_ms bigint, min_ttl_ms bigint, max_ttl_ms bigint, audit_writes boolean,
    max_leases bigint, max_waiters bigint, max_value_bytes bigint, audit_keep_days bigint, fence_floor bigint, retired boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT x.* FROM (SELECT n FROM holdfast.namespace n WHERE n.name > p_after ORDER BY n.name LIMIT p_max + 1) s,
        holdfast.namespace_row(50, s.n) x ORDER BY x.name COLLATE "C";
END
$$;
