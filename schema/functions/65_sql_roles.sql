-- Which SQL roles may use which namespace: the calls of administrators. The rule itself is require_mapped(), in 60_guard.sql.

-- Sessions of this role, and of its members, may use the namespace through guard() and its like. Outcomes:
--   50 done, or it was so · 90 there is no such namespace · 223 it is not to be had: `message` says why
CREATE OR REPLACE FUNCTION holdfast.map_sql_role(p_ns text, p_role text, p_actor text) RETURNS TABLE (outcome smallint, message text)
LANGUAGE plpgsql VOLATILE AS $$
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

-- They may not any more, but for transactions that have begun. Outcomes: 50, 90; `was_mapped` tells whether anything has changed.
CREATE OR REPLACE FUNCTION holdfast.unmap_sql_role(p_ns text, p_role text, p_actor text) RETURNS TABLE (outcome smallint, was_mapped boolean)
LANGUAGE plpgsql VOLATILE AS $$
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

-- In the order of their names' bytes, behind p_after, one more than p_max if there are more.
CREATE OR REPLACE FUNCTION holdfast.list_sql_roles(p_ns text, p_after text, p_max int) RETURNS TABLE (outcome smallint, role text)
LANGUAGE plpgsql VOLATILE AS $$
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
