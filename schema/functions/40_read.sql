-- What only reads: no locks, so no promise beyond the moment. A fence of 0 (a row made for an acquire that was then refused) is
-- as good as no row. Lists come in the order of the names' bytes, names above `p_after`, one row more than p_max if there is
-- more; a namespace that does not exist or is retired gives one row with outcome 90, and an empty list gives none.

-- The greatest string of at most 256 bytes that begins with this: U+10FFFF has the highest bytes of UTF-8.
CREATE OR REPLACE FUNCTION holdfast.prefix_end(p_prefix text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT p_prefix || pg_catalog.repeat(pg_catalog.chr(1114111), 64) $$;

-- A verdict on tokens. Outcomes: 40 the newest token, and its lease is live (remaining_ms) · 32 a newer one exists, or this one's
-- lease was broken · 33 its lease ran out or was released, or the token was never granted. `fence` is 0 if there is none.
CREATE OR REPLACE FUNCTION holdfast.check_batch(p_ns text[], p_resource text[], p_token bigint[])
RETURNS TABLE (i int, outcome smallint, fence bigint, remaining_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    SELECT x.i::int, o.outcome, coalesce(r.fence, 0), CASE WHEN o.outcome = 40 THEN holdfast.ms(l.deadline - t) ELSE 0 END
    FROM unnest(p_ns, p_resource, p_token) WITH ORDINALITY AS x(ns, resource, token, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
    LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    CROSS JOIN LATERAL (SELECT CASE
        WHEN n.name IS NULL THEN 90
        WHEN x.token < r.fence THEN 32
        WHEN x.token = r.fence AND l.token = x.token AND l.deadline > t THEN 40
        ELSE 33 END::smallint AS outcome) o;
END
$$;

-- Values. Outcomes: 50, with "exists" false if there is no value (version: of what was deleted; 0 = never written) · 51 nobody
-- ever leased it. `token` is that of the last write or delete.
CREATE OR REPLACE FUNCTION holdfast.read_batch(p_ns text[], p_resource text[])
RETURNS TABLE (i int, outcome smallint, value bytea, "exists" boolean, version bigint, fence bigint, token bigint, updated_unix_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT x.i::int, (CASE WHEN n.name IS NULL THEN 90 WHEN r.fence > 0 THEN 50 ELSE 51 END)::smallint,
        v.value, v.value IS NOT NULL, coalesce(v.version, 0), coalesce(r.fence, 0), coalesce(v.token, 0),
        coalesce(holdfast.unix_ms(v.updated_at), 0)
    FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.namespace = n.name AND r.name = x.resource
    LEFT JOIN holdfast.resource_value v ON v.namespace = r.namespace AND v.resource = r.name;
END
$$;

-- A lease's labels as name, value, name, value, …; NULL if it has none.
CREATE OR REPLACE FUNCTION holdfast.flat_labels(p_labels jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE
AS $$
    SELECT CASE WHEN p_labels IS NOT NULL THEN (
        SELECT pg_catalog.array_agg(u.x ORDER BY e.k, u.j) FROM pg_catalog.jsonb_each_text(p_labels) WITH ORDINALITY AS e(name, value, k),
            LATERAL (VALUES (1, e.name), (2, e.value)) AS u(j, x)) END
$$;

-- The lease of each resource, live or ended. Outcomes: 50 · 51 it was never leased, as far as is recorded. `state`: 1 live, 2 ran
-- out, 3 released, 4 broken. `fence` is above `token` after a break.
CREATE OR REPLACE FUNCTION holdfast.get_batch(p_ns text[], p_resource text[])
RETURNS TABLE (i int, outcome smallint, resource text, task text, holder text, request_id text, token bigint, fence bigint,
    remaining_ms bigint, granted_unix_ms bigint, state smallint, labels text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY
    SELECT x.i::int, (CASE WHEN n.name IS NULL THEN 90 WHEN l.token > 0 THEN 50 ELSE 51 END)::smallint,
        x.resource, coalesce(l.task, ''), coalesce(l.holder, ''),
        CASE WHEN r.grant_token = l.token THEN r.request_id ELSE '' END,
        coalesce(l.token, 0), coalesce(r.fence, 0),
        CASE WHEN l.deadline > t THEN holdfast.ms(l.deadline - t) ELSE 0 END,
        coalesce(holdfast.unix_ms(l.granted_at), 0),
        (CASE WHEN l.deadline > t THEN 1 WHEN l.ended <> 0 THEN l.ended ELSE 2 END)::smallint,
        holdfast.flat_labels(l.labels)
    FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
    LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
    LEFT JOIN holdfast.resource r ON r.namespace = n.name AND r.name = x.resource
    LEFT JOIN holdfast.lease l ON l.namespace = r.namespace AND l.resource = r.name;
END
$$;

-- Live leases whose resource begins with p_prefix, of this task and holder ('' = any); columns as get_batch.
CREATE OR REPLACE FUNCTION holdfast.list_leases(p_ns text, p_prefix text, p_task text, p_holder text, p_after text, p_max int)
RETURNS TABLE (outcome smallint, resource text, task text, holder text, request_id text, token bigint, fence bigint,
    remaining_ms bigint, granted_unix_ms bigint, state smallint, labels text[])
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, ''::text, ''::text, ''::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
            0::smallint, NULL::text[];
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, l.resource::text, l.task, l.holder, CASE WHEN r.grant_token = l.token THEN r.request_id ELSE '' END::text, l.token,
        coalesce(r.fence, 0), holdfast.ms(l.deadline - t), holdfast.unix_ms(l.granted_at), 1::smallint,
        holdfast.flat_labels(l.labels)
    FROM holdfast.lease l LEFT JOIN holdfast.resource r ON r.namespace = l.namespace AND r.name = l.resource
    WHERE l.namespace = p_ns AND l.resource >= p_prefix AND l.resource <= holdfast.prefix_end(p_prefix) AND l.resource > p_after
        AND l.deadline > t AND (p_task = '' OR l.task = p_task) AND (p_holder = '' OR l.holder = p_holder)
    ORDER BY l.resource LIMIT p_max + 1;
END
$$;

-- Resources ever leased whose name begins with p_prefix.
CREATE OR REPLACE FUNCTION holdfast.list_resources(p_ns text, p_prefix text, p_after text, p_max int)
RETURNS TABLE (outcome smallint, resource text, fence bigint, version bigint, value_bytes bigint, "exists" boolean, leased boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, ''::text, 0::bigint, 0::bigint, 0::bigint, false, false;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 50::smallint, r.name::text, r.fence, coalesce(v.version, 0), coalesce(pg_catalog.octet_length(v.value), 0)::bigint,
        v.value IS NOT NULL, coalesce(l.deadline > t, false)
    FROM holdfast.resource r
    LEFT JOIN holdfast.lease l ON l.namespace = r.namespace AND l.resource = r.name
    LEFT JOIN holdfast.resource_value v ON v.namespace = r.namespace AND v.resource = r.name
    WHERE r.namespace = p_ns AND r.name >= p_prefix AND r.name <= holdfast.prefix_end(p_prefix) AND r.name > p_after AND r.fence > 0
    ORDER BY r.name LIMIT p_max + 1;
END
$$;

-- What happened in the namespace, or to one resource or operation of it ('' = to any, and to the namespace itself): newest first, ids below
-- p_before (0 = from the newest). Columns as in holdfast.audit, NULL told as 0 or ''. Looks at the trail in stretches, from its end,
-- each four times as long as the one before: what is new or frequent is found at once, what is rare in one pass over summaries.
CREATE OR REPLACE FUNCTION holdfast.audit_list(p_ns text, p_resource text, p_operation text, p_before bigint, p_max int)
RETURNS TABLE (outcome smallint, id bigint, at_unix_ms bigint, kind text, resource text, token bigint, prior bigint, actor text, detail text,
    operation text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    below bigint := (SELECT s.last_value + 1 FROM holdfast.audit_id s);
    stretch bigint := 5000;
    missing int := p_max + 1;
    n int;
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 90::smallint, 0::bigint, 0::bigint, ''::text, ''::text, 0::bigint, 0::bigint, ''::text, ''::text, ''::text;
        RETURN;
    END IF;
    IF p_before > 0 THEN
        below := least(below, p_before);
    END IF;
    WHILE missing > 0 AND below > 1 LOOP
        -- A statement each, so that each has a plan that fits.
        IF p_resource = '' AND p_operation = '' THEN
            RETURN QUERY
            SELECT 50::smallint, a.id, holdfast.unix_ms(a.at), a.kind::text, coalesce(a.resource, '')::text, a.token, coalesce(a.prior, 0),
                coalesce(a.actor, ''), coalesce(a.detail, ''), coalesce(a.operation, '')::text
            FROM holdfast.audit a WHERE a.namespace = p_ns AND a.id < below AND a.id >= below - stretch
            ORDER BY a.id DESC LIMIT missing;
        ELSIF p_operation = '' THEN
            RETURN QUERY
            SELECT 50::smallint, a.id, holdfast.unix_ms(a.at), a.kind::text, a.resource::text, a.token, coalesce(a.prior, 0),
                coalesce(a.actor, ''), coalesce(a.detail, ''), coalesce(a.operation, '')::text
            FROM holdfast.audit a WHERE a.namespace = p_ns AND a.resource = p_resource AND a.id < below AND a.id >= below - stretch
            ORDER BY a.id DESC LIMIT missing;
        ELSE
            RETURN QUERY
            SELECT 50::smallint, a.id, holdfast.unix_ms(a.at), a.kind::text, coalesce(a.resource, '')::text, a.token, coalesce(a.prior, 0),
                coalesce(a.actor, ''), coalesce(a.detail, ''), coalesce(a.operation, '')::text
            FROM holdfast.audit a WHERE a.namespace = p_ns AND a.operation = p_operation AND a.id < below AND a.id >= below - stretch
            ORDER BY a.id DESC LIMIT missing;
        END IF;
        GET DIAGNOSTICS n = ROW_COUNT;
        missing := missing - n;
        below := below - stretch;
        stretch := least(stretch * 4, 4000000000);
    END LOOP;
END
$$;

-- The same for servers that know nothing of operations.
CREATE OR REPLACE FUNCTION holdfast.audit_list(p_ns text, p_resource text, p_before bigint, p_max int)
RETURNS TABLE (outcome smallint, id bigint, at_unix_ms bigint, kind text, resource text, token bigint, prior bigint, actor text, detail text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN QUERY SELECT a.outcome, a.id, a.at_unix_ms, a.kind, a.resource, a.token, a.prior, a.actor, a.detail
    FROM holdfast.audit_list(p_ns, p_resource, ''::text, p_before, p_max) a;
END
$$;

-- Live leases (counted), resources (as the planner's statistics have them), and the schema's version.
CREATE OR REPLACE FUNCTION holdfast.stats() RETURNS TABLE (leases_live bigint, resources bigint, schema_version bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    t timestamptz := holdfast.clock();
BEGIN
    RETURN QUERY SELECT
        (SELECT count(*) FROM holdfast.lease l WHERE l.deadline > t),
        (SELECT greatest(c.reltuples, 0)::bigint FROM pg_catalog.pg_class c WHERE c.oid = 'holdfast.resource'::regclass),
        (SELECT coalesce(max(m.version), 0)::bigint FROM holdfast.migration m);
END
$$;
