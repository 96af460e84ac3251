-- The SQL interface: for users' own tables in this database.

-- The session's user, or a role that it belongs to, may use this namespace. Raises 42501; superusers need no mapping.
CREATE OR REPLACE FUNCTION holdfast.require_mapped(p_ns text) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT (SELECT u.rolsuper FROM pg_catalog.pg_roles u WHERE u.rolname = session_user) AND NOT EXISTS (
        SELECT FROM holdfast.sql_role m JOIN pg_catalog.pg_roles u ON u.rolname = m.role
        WHERE m.namespace = p_ns AND pg_catalog.pg_has_role(session_user, u.oid, 'MEMBER')) THEN
        RAISE EXCEPTION 'holdfast: role "%" may not use namespace "%"', session_user, p_ns USING ERRCODE = '42501',
            HINT = 'An operator maps it: SELECT holdfast.allow_role(role, namespace).';
    END IF;
END
$$;

-- From here to the end of the caller's transaction, `token` is the newest token of `resource`, its lease was live when this
-- returned, and no takeover, release, break or write through the server comes before that end (P3): they find the resource
-- guarded, and wait or give up. So what the transaction writes is written by the rightful holder.
--     BEGIN;  SELECT holdfast.guard('default', 'orders/7', 42);  UPDATE my_orders SET …;  COMMIT;
-- Raises, and with that ends the caller's transaction:
--     HF001  a newer token was granted, or this one's lease was broken: this holder's right is gone.
--     HF002  the lease of this token ran out or was released, or the token or the resource or the namespace never was.
--     42501  no role of the session's user is mapped to the namespace (holdfast.allow_role); superusers need no mapping.
--     0A000  the transaction is above READ COMMITTED, or in a savepoint or a block with EXCEPTION, whose rollback would give
--            the lock back while the outer transaction goes on.
-- The transaction's idle timeout becomes what remains of the lease, at most the namespace's guard_idle_cap_ms, so that a holder
-- that stops in the middle doesn't keep the resource for ever. The caller must not write to this resource through the server
-- meanwhile. Refusals are not audited: they roll back with the caller.
CREATE OR REPLACE FUNCTION holdfast.guard(namespace text, resource text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    in_ns CONSTANT text := $1;
    in_resource CONSTANT text := $2;
    in_token CONSTANT bigint := $3;
    n record;
    r record;
    l record;
    t timestamptz;
    idle_ms bigint;
    idle_now bigint;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM holdfast.require_mapped(in_ns);

    PERFORM FROM holdfast.resource x WHERE x.namespace = in_ns AND x.name = in_resource FOR SHARE;
    IF FOUND AND NOT holdfast.locked_by_top_level(in_ns, in_resource) THEN
        RAISE EXCEPTION 'holdfast: guard() must be called outside savepoints and EXCEPTION blocks' USING ERRCODE = '0A000',
            DETAIL = 'Rolling back to a savepoint gives the lock back, and then nothing is guarded any more.';
    END IF;

    -- A new statement, so that it sees what became true while this waited for the lock.
    t := holdfast.clock();
    SELECT x.guard_idle_cap_ms INTO n FROM holdfast.namespace x WHERE x.name = in_ns AND x.retired_at IS NULL;
    SELECT x.fence INTO r FROM holdfast.resource x WHERE x.namespace = in_ns AND x.name = in_resource;
    SELECT x.token, x.deadline INTO l FROM holdfast.lease x WHERE x.namespace = in_ns AND x.resource = in_resource;
    IF in_token < r.fence AND n.guard_idle_cap_ms IS NOT NULL THEN
        RAISE EXCEPTION 'holdfast: token % of "%" is stale: the fence is %', in_token, in_resource, r.fence USING ERRCODE = 'HF001';
    END IF;
    IF n.guard_idle_cap_ms IS NULL OR (in_token = r.fence AND l.token = in_token AND l.deadline > t) IS NOT TRUE THEN
        RAISE EXCEPTION 'holdfast: the lease of token % of "%" is not held', in_token, in_resource USING ERRCODE = 'HF002';
    END IF;

    idle_ms := greatest(1, least(holdfast.ms(l.deadline - t), n.guard_idle_cap_ms));
    idle_now := (SELECT s.setting::bigint FROM pg_settings s WHERE s.name = 'idle_in_transaction_session_timeout');
    IF idle_now = 0 OR idle_now > idle_ms THEN
        PERFORM set_config('idle_in_transaction_session_timeout', idle_ms::text, true);
    END IF;
END
$$;

-- Whether the lock this transaction has on the fence row belongs to its top level, not to a savepoint. A row's xmax is the
-- (sub)transaction that locks it, or a multixact if several do.
CREATE OR REPLACE FUNCTION holdfast.locked_by_top_level(p_ns text, p_resource text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    top CONSTANT xid := pg_catalog.pg_current_xact_id()::xid;
    locker xid := (SELECT r.xmax FROM holdfast.resource r WHERE r.namespace = p_ns AND r.name = p_resource);
BEGIN
    IF locker = top THEN
        RETURN true;
    END IF;
    RETURN EXISTS (SELECT FROM pg_catalog.pg_get_multixact_members(locker) m WHERE m.xid = top);
EXCEPTION
    WHEN OTHERS THEN RETURN false; -- there is no such multixact: it was a subtransaction
END
$$;

-- Sessions of this role (or of a member of it) may use this namespace through guard(), and may call it at all. Raises 42704 if
-- there is no such role or namespace.
CREATE OR REPLACE FUNCTION holdfast.allow_role(role name, namespace text) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = $2) THEN
        RAISE EXCEPTION 'holdfast: there is no namespace "%"', $2 USING ERRCODE = '42704';
    END IF;
    INSERT INTO holdfast.sql_role (namespace, role) VALUES ($2, $1) ON CONFLICT DO NOTHING;
    IF NOT pg_catalog.pg_has_role($1, 'holdfast_user', 'MEMBER') THEN
        EXECUTE pg_catalog.format('GRANT holdfast_user TO %I', $1);
    END IF;
END
$$;
