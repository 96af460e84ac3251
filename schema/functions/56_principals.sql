-- Principals: API keys and client certificates that may call, what they may do, and what was refused.
--
-- Grants travel as one flat array of texts, four for each: the role's number, the namespace ('' = all), the prefix of resources, the
-- prefix of operations. Every change of a principal locks auth_state until its commit, and takes its version from there.

CREATE OR REPLACE FUNCTION holdfast.principal_grants(p_id text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(pg_catalog.array_agg(x.value ORDER BY g.place, x.n), '{}')
    FROM holdfast.principal_grant g,
        LATERAL (VALUES (1, g.role::text), (2, coalesce(g.namespace, '')), (3, g.resource_prefix), (4, g.operation_prefix)) AS x(n, value)
    WHERE g.principal = p_id
$$;

-- A principal as the functions below tell it: without its secret's hash.
CREATE OR REPLACE FUNCTION holdfast.principal_row(p_outcome int, p_row holdfast.principal)
RETURNS TABLE (outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint,
    revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE sql STABLE AS $$
    SELECT p_outcome::smallint, p_row.id::text, p_row.name::text, coalesce(p_row.certificate, '')::text, holdfast.unix_ms(p_row.created_at),
        p_row.created_by, coalesce(holdfast.unix_ms(p_row.expires_at), 0), coalesce(holdfast.unix_ms(p_row.revoked_at), 0),
        coalesce(p_row.revoked_by, ''), coalesce(holdfast.unix_ms(p_row.last_used_at), 0), p_row.rate_per_s::bigint, p_row.rate_burst::bigint,
        p_row.version, holdfast.principal_grants(p_row.id)
$$;

-- A row that tells an outcome and nothing else.
CREATE OR REPLACE FUNCTION holdfast.principal_none(p_outcome int, p_id text)
RETURNS TABLE (outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint,
    revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_outcome::smallint, p_id, ''::text, ''::text, 0::bigint, ''::text, 0::bigint, 0::bigint, ''::text, 0::bigint, 0::bigint, 0::bigint,
        0::bigint, '{}'::text[]
$$;

-- The principal has these grants and no others.
CREATE OR REPLACE FUNCTION holdfast.put_grants(p_id text, p_grants text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM holdfast.principal_grant g WHERE g.principal = p_id;
    INSERT INTO holdfast.principal_grant (principal, place, role, namespace, resource_prefix, operation_prefix)
    SELECT p_id, i, p_grants[4 * i - 3]::smallint, nullif(p_grants[4 * i - 2], ''), p_grants[4 * i - 1], p_grants[4 * i]
    FROM pg_catalog.generate_series(1, pg_catalog.cardinality(p_grants) / 4) i;
END
$$;

-- For the audit of a namespace: 'admin; worker on resources "ledger/"': what the principal may do there.
CREATE OR REPLACE FUNCTION holdfast.grants_text(p_id text, p_ns text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(pg_catalog.string_agg((ARRAY['reader', 'worker', 'operator', 'admin'])[g.role]
        || CASE WHEN g.namespace IS NULL THEN ' in all namespaces' ELSE '' END
        || CASE WHEN g.resource_prefix <> '' THEN ' on resources "' || g.resource_prefix || '"' ELSE '' END
        || CASE WHEN g.operation_prefix <> '' THEN ' on operations "' || g.operation_prefix || '"' ELSE '' END, '; ' ORDER BY g.place), 'nothing')
    FROM holdfast.principal_grant g WHERE g.principal = p_id AND (g.namespace IS NULL OR g.namespace = p_ns)
$$;

-- An audit row in each namespace that the principal reaches into, or reached into (p_also); of one that reaches into all, in `default`.
-- What it may do elsewhere is nobody's business there.
CREATE OR REPLACE FUNCTION holdfast.audit_principal(p_id text, p_also text[], p_actor text, p_detail text, p_tells_grants boolean) RETURNS void
LANGUAGE sql VOLATILE AS $$
    INSERT INTO holdfast.audit (namespace, kind, token, actor, detail)
    SELECT n.name, 'key', 0, p_actor, p_detail || CASE WHEN p_tells_grants THEN ': ' || holdfast.grants_text(p_id, n.name) ELSE '' END FROM (
        SELECT coalesce(g.namespace, 'default') AS name FROM holdfast.principal_grant g WHERE g.principal = p_id
        UNION SELECT unnest(p_also)) n
$$;

-- Which those are.
CREATE OR REPLACE FUNCTION holdfast.principal_reach(p_id text) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(pg_catalog.array_agg(DISTINCT coalesce(g.namespace, 'default')::text), '{}') FROM holdfast.principal_grant g WHERE g.principal = p_id
$$;

-- From its commit on the principal may call: whoever knows the secret of this hash, or has a certificate of this name (the other one is
-- NULL). p_expires_in_ms: 0 = never. Outcomes:
--   50 it was made now, or by an earlier copy of this · 226 another one that is not revoked has that name or certificate
--   227 there are as many as servers keep in memory
CREATE OR REPLACE FUNCTION holdfast.create_principal(
    p_id text, p_name text, p_secret_hash bytea, p_certificate text, p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint,
    p_grants text[], p_actor text)
RETURNS TABLE (outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint,
    revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz;
    made holdfast.principal;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.auth_state FOR NO KEY UPDATE;
    t := holdfast.clock();
    SELECT p.* INTO made FROM holdfast.principal p WHERE p.id = p_id;
    IF FOUND THEN
        IF made.name = p_name AND made.secret_hash IS NOT DISTINCT FROM p_secret_hash AND made.certificate IS NOT DISTINCT FROM p_certificate THEN
            RETURN QUERY SELECT * FROM holdfast.principal_row(50, made);
        ELSE
            RETURN QUERY SELECT * FROM holdfast.principal_none(226, p_id);
        END IF;
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM holdfast.principal p WHERE p.name = p_name AND p.revoked_at IS NULL)
        OR EXISTS (SELECT FROM holdfast.principal p WHERE p.certificate = p_certificate AND p.revoked_at IS NULL) THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(226, p_id);
        RETURN;
    END IF;
    IF (SELECT pg_catalog.count(*) FROM holdfast.principal p WHERE p.revoked_at IS NULL AND (p.expires_at IS NULL OR p.expires_at > t)) >= 100000 THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(227, p_id);
        RETURN;
    END IF;
    UPDATE holdfast.auth_state s SET version = s.version + 1 RETURNING s.version INTO made.version;
    INSERT INTO holdfast.principal (id, name, secret_hash, certificate, created_at, created_by, expires_at, rate_per_s, rate_burst, version)
    VALUES (p_id, p_name, p_secret_hash, p_certificate, t, p_actor,
        CASE WHEN p_expires_in_ms > 0 THEN t + p_expires_in_ms * interval '1 ms' END, p_rate_per_s::int, p_rate_burst::int, made.version)
    RETURNING * INTO made;
    PERFORM holdfast.put_grants(p_id, p_grants);
    PERFORM holdfast.audit_principal(p_id, '{}', p_actor, pg_catalog.format('created %s "%s"%s', p_id, p_name,
        CASE WHEN p_certificate IS NULL THEN '' ELSE pg_catalog.format(' for certificate "%s"', p_certificate) END), true);
    RETURN QUERY SELECT * FROM holdfast.principal_row(50, made);
END
$$;

-- Changes what is not NULL. p_version: the one that was looked at; 0 = any. Outcomes:
--   50 done · 215 it has another version · 225 there is none, or it was revoked
CREATE OR REPLACE FUNCTION holdfast.set_principal(
    p_id text, p_version bigint, p_grants text[], p_expires_in_ms bigint, p_rate_per_s bigint, p_rate_burst bigint, p_actor text)
RETURNS TABLE (outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint,
    revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz;
    found_row holdfast.principal;
    reached text[];
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.auth_state FOR NO KEY UPDATE;
    t := holdfast.clock();
    SELECT p.* INTO found_row FROM holdfast.principal p WHERE p.id = p_id AND p.revoked_at IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND OR (p_version > 0 AND found_row.version <> p_version) THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(CASE WHEN found_row.id IS NULL THEN 225 ELSE 215 END, p_id);
        RETURN;
    END IF;
    reached := holdfast.principal_reach(p_id);
    UPDATE holdfast.auth_state s SET version = s.version + 1 RETURNING s.version INTO found_row.version;
    UPDATE holdfast.principal p SET version = found_row.version,
        expires_at = CASE WHEN p_expires_in_ms IS NULL THEN p.expires_at WHEN p_expires_in_ms > 0 THEN t + p_expires_in_ms * interval '1 ms' END,
        rate_per_s = coalesce(p_rate_per_s::int, p.rate_per_s), rate_burst = coalesce(p_rate_burst::int, p.rate_burst)
    WHERE p.id = p_id RETURNING * INTO found_row;
    IF p_grants IS NOT NULL THEN
        PERFORM holdfast.put_grants(p_id, p_grants);
    END IF;
    PERFORM holdfast.audit_principal(p_id, reached, p_actor, pg_catalog.concat_ws(', ', pg_catalog.format('changed %s "%s"', p_id, found_row.name),
        CASE WHEN p_expires_in_ms IS NOT NULL THEN 'expires ' || coalesce(pg_catalog.to_char(pg_catalog.timezone('UTC', found_row.expires_at), 'YYYY-MM-DD HH24:MI:SS'), 'never') END,
        CASE WHEN coalesce(p_rate_per_s, p_rate_burst) IS NOT NULL THEN pg_catalog.format('rate %s, burst %s', found_row.rate_per_s, found_row.rate_burst) END),
        p_grants IS NOT NULL);
    RETURN QUERY SELECT * FROM holdfast.principal_row(50, found_row);
END
$$;

-- From its commit on the principal may not call. Outcomes:
--   50 done, or it was revoked before · 215 it has another version than p_version (0 = any) · 225 there is none
CREATE OR REPLACE FUNCTION holdfast.revoke_principal(p_id text, p_version bigint, p_actor text, p_reason text)
RETURNS TABLE (outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint,
    revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    found_row holdfast.principal;
BEGIN
    PERFORM holdfast.require_read_committed();
    PERFORM FROM holdfast.auth_state FOR NO KEY UPDATE;
    SELECT p.* INTO found_row FROM holdfast.principal p WHERE p.id = p_id FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN QUERY SELECT * FROM holdfast.principal_none(225, p_id);
        RETURN;
    END IF;
    IF found_row.revoked_at IS NULL THEN
        IF p_version > 0 AND found_row.version <> p_version THEN
            RETURN QUERY SELECT * FROM holdfast.principal_none(215, p_id);
            RETURN;
        END IF;
        UPDATE holdfast.auth_state s SET version = s.version + 1 RETURNING s.version INTO found_row.version;
        UPDATE holdfast.principal p SET version = found_row.version, revoked_at = holdfast.clock(), revoked_by = p_actor
        WHERE p.id = p_id RETURNING * INTO found_row;
        PERFORM holdfast.audit_principal(p_id, '{}', p_actor,
            pg_catalog.concat_ws(': ', pg_catalog.format('revoked %s "%s"', p_id, found_row.name), nullif(p_reason, '')), false);
    END IF;
    RETURN QUERY SELECT * FROM holdfast.principal_row(50, found_row);
END
$$;

-- In the order of their ids, behind p_after, one more than p_max if there are more.
CREATE OR REPLACE FUNCTION holdfast.list_principals(p_after text, p_revoked boolean, p_max int)
RETURNS TABLE (outcome smallint, id text, name text, certificate text, created_unix_ms bigint, created_by text, expires_unix_ms bigint,
    revoked_unix_ms bigint, revoked_by text, last_used_unix_ms bigint, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT x.* FROM (
        SELECT p FROM holdfast.principal p WHERE p.id > p_after AND (p_revoked OR p.revoked_at IS NULL) ORDER BY p.id LIMIT p_max + 1) s,
        holdfast.principal_row(50, s.p) x ORDER BY x.id COLLATE "C";
END
$$;

-- What a server has to know of principals that changed since p_after, of this epoch. Each row, of which there is always one, begins with
-- what concerns all of them: the epoch, up to which version they go, whether they begin from the start (the epoch is another one: what
-- the server knows may be wrong), whether there are more, and what time it is. A row whose id is '' is none.
CREATE OR REPLACE FUNCTION holdfast.auth_changes(p_epoch text, p_after bigint, p_max int)
RETURNS TABLE (outcome smallint, epoch text, known bigint, restarted boolean, more boolean, now_unix_ms bigint, id text, name text,
    secret_hash bytea, certificate text, expires_unix_ms bigint, live boolean, rate_per_s bigint, rate_burst bigint, version bigint, grants text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
    s record;
    behind bigint := p_after;
    again boolean;
    ids text[] := '{}';
    upto bigint;
    is_more boolean := false;
BEGIN
    SELECT a.epoch::text AS epoch, a.version INTO s FROM holdfast.auth_state a;
    again := s.epoch <> p_epoch OR s.version < p_after;
    IF again THEN
        behind := 0;
    END IF;
    upto := s.version;
    IF behind < s.version THEN
        SELECT pg_catalog.array_agg(x.id), pg_catalog.max(x.version) INTO ids, upto FROM (
            SELECT p.id, p.version FROM holdfast.principal p WHERE p.version > behind AND p.version <= s.version
                AND (NOT again OR (p.revoked_at IS NULL AND (p.expires_at IS NULL OR p.expires_at > t)))
            ORDER BY p.version LIMIT p_max) x;
        is_more := coalesce(pg_catalog.cardinality(ids) >= p_max AND upto < s.version, false);
        IF NOT is_more THEN
            upto := s.version;
        END IF;
    END IF;
    IF coalesce(pg_catalog.cardinality(ids), 0) = 0 THEN
        RETURN QUERY SELECT 50::smallint, s.epoch, upto, again, is_more, holdfast.unix_ms(t), ''::text, ''::text, NULL::bytea, ''::text, 0::bigint, false,
            0::bigint, 0::bigint, 0::bigint, '{}'::text[];
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, s.epoch, upto, again, is_more, holdfast.unix_ms(t), p.id::text, p.name::text, p.secret_hash, coalesce(p.certificate, '')::text,
        coalesce(holdfast.unix_ms(p.expires_at), 0), p.revoked_at IS NULL, p.rate_per_s::bigint, p.rate_burst::bigint, p.version,
        holdfast.principal_grants(p.id)
    FROM unnest(ids) AS x(id) JOIN holdfast.principal p ON p.id = x.id COLLATE "C";
END
$$;

-- What a server has seen: these principals were used so long ago, and so many calls refused. Who is being changed isn't waited for.
CREATE OR REPLACE FUNCTION holdfast.auth_note(
    p_used text[], p_ago_ms bigint[], p_principal text[], p_method text[], p_reason text[], p_count bigint[])
RETURNS TABLE (outcome smallint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    PERFORM holdfast.require_read_committed();
    UPDATE holdfast.principal p SET last_used_at = greatest(p.last_used_at, t - x.ago * interval '1 ms')
    FROM (SELECT q.id, u.ago FROM unnest(p_used, p_ago_ms) AS u(id, ago) JOIN holdfast.principal q ON q.id = u.id
        ORDER BY q.id FOR NO KEY UPDATE OF q SKIP LOCKED) x
    WHERE p.id = x.id;
    INSERT INTO holdfast.denial AS d (principal, method, reason, minute, denials)
    SELECT x.principal, x.method, x.reason, pg_catalog.date_trunc('minute', pg_catalog.clock_timestamp()), pg_catalog.sum(x.n)::bigint
    FROM unnest(p_principal, p_method, p_reason, p_count) AS x(principal, method, reason, n)
    GROUP BY x.principal, x.method, x.reason ORDER BY x.principal COLLATE "C", x.method COLLATE "C", x.reason COLLATE "C"
    ON CONFLICT (minute, principal, method, reason) DO UPDATE SET denials = d.denials + excluded.denials;
    RETURN QUERY SELECT 50::smallint;
END
$$;

-- Newest first, ids below p_before (0 = from the newest), one more than p_max if there are more.
CREATE OR REPLACE FUNCTION holdfast.list_denials(p_before bigint, p_max int)
RETURNS TABLE (outcome smallint, id bigint, minute_unix_ms bigint, principal text, name text, method text, reason text, denials bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT 50::smallint, d.id, holdfast.unix_ms(d.minute), d.principal::text, coalesce(p.name, '')::text, d.method::text, d.reason::text,
        d.denials
    FROM holdfast.denial d LEFT JOIN holdfast.principal p ON p.id = d.principal
    WHERE p_before = 0 OR d.id < p_before ORDER BY d.id DESC LIMIT p_max + 1;
END
$$;
