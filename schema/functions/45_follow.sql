-- Following the audit trail: what leases went through, as it happens, for LeaseService.Watch. Reads only.
--
-- Ids are drawn before the commit, so they become visible out of order, and some never do. A follower knows which ids up to the
-- highest one drawn it has not seen (gaps), and asks for them again and again. That a gap will never be filled is proved by who writes:
-- whoever inserts into the trail has locked it from before the id was drawn until the end of the transaction. `writers` are those
-- transactions, told by their virtual ids. Each function looks in this order, a statement each: the highest id drawn, then the
-- writers, then the rows. So an id up to `highest` that isn't among the rows belongs to one of the writers, or to nobody; and once
-- all of those are gone from `writers`, the rows that are looked at after that are all there will be.

-- Transactions that may have rows in the trail that nobody else sees yet: "3/17 5/204"; NULL = none.
CREATE OR REPLACE FUNCTION holdfast.trail_writers() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.string_agg(DISTINCT l.virtualtransaction, ' ') FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
        AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
        AND (l.relation = 'holdfast.audit'::regclass
            OR l.relation IN (SELECT h.inhrelid FROM pg_catalog.pg_inherits h WHERE h.inhparent = 'holdfast.audit'::regclass))
$$;

-- The highest id drawn, which is never lower than one that is in the trail.
CREATE OR REPLACE FUNCTION holdfast.trail_highest() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM holdfast.audit_id s
$$;

-- What of the trail concerns leases: 1 grant, 2 takeover, 3 release, 4 expire, 5 break; 0 = nothing.
CREATE OR REPLACE FUNCTION holdfast.trail_kind(p_kind text) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_kind WHEN 'grant' THEN 1 WHEN 'takeover' THEN 2 WHEN 'release' THEN 3 WHEN 'expire' THEN 4 WHEN 'break' THEN 5 ELSE 0
        END::smallint
$$;

-- Where to begin to follow: whatever is committed from now on will be told. One row with kind -1: `id` is the highest id drawn, `detail`
-- the writers, `namespace` and `resource` the database's identity, as in follow(). Then, if there are writers, the gaps among
-- the last p_window ids: rows with kind -2, from `id` to `token`.
CREATE OR REPLACE FUNCTION holdfast.follow_start(p_window bigint)
RETURNS TABLE (id bigint, kind smallint, namespace text, resource text, token bigint, prior bigint, actor text, detail text, at_unix_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    highest bigint := holdfast.trail_highest();
    writers text := holdfast.trail_writers();
    base bigint := greatest(highest - p_window, 0);
BEGIN
    RETURN QUERY SELECT highest, -1::smallint, i.system_identifier::text, i.timeline, highest, NULL::bigint, NULL::text, writers, NULL::bigint
    FROM holdfast.identity i;
    IF writers IS NOT NULL THEN
        RETURN QUERY
        SELECT s.before + 1, -2::smallint, NULL::text, NULL::text, s.id - 1, NULL::bigint, NULL::text, NULL::text, NULL::bigint FROM (
            SELECT x.id, pg_catalog.lag(x.id, 1, base) OVER (ORDER BY x.id) AS before FROM (
                SELECT a.id FROM holdfast.audit a WHERE a.id > base AND a.id <= highest
                UNION ALL SELECT highest + 1) x) s
        WHERE s.before + 1 < s.id ORDER BY s.id;
    END IF;
END
$$;

-- What has come into the trail: behind p_high, and in p_gaps, whose ids lie in the stretches from p_from to p_to (the last of which has
-- no end). First a row with kind -1: `id` is how far this looked, at most p_max ids, `token` the highest id drawn; the rest as in
-- follow_start(). Then all rows that are there, in the order of their ids: those that concern a lease with their trail_kind()
-- and their columns, of the others only the id, with kind 0. Nothing is looked for if no id was drawn and there is no gap.
--
-- Partitions that ended more than a month ago are left out: `at` is the time of the insert.
CREATE OR REPLACE FUNCTION holdfast.follow(p_high bigint, p_gaps int8multirange, p_from bigint[], p_to bigint[], p_max bigint)
RETURNS TABLE (id bigint, kind smallint, namespace text, resource text, token bigint, prior bigint, actor text, detail text, at_unix_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    highest bigint := holdfast.trail_highest();
    until bigint := least(highest, p_high + p_max);
    look boolean := highest > p_high OR NOT pg_catalog.isempty(p_gaps);
    writers text := CASE WHEN look THEN holdfast.trail_writers() END;
    since timestamptz := pg_catalog.clock_timestamp() - interval '32 days';
BEGIN
    RETURN QUERY SELECT until, -1::smallint, i.system_identifier::text, i.timeline, highest, NULL::bigint, NULL::text, writers, NULL::bigint
    FROM holdfast.identity i;
    IF look THEN
        RETURN QUERY
        SELECT a.id, k.kind, CASE WHEN k.kind > 0 THEN a.namespace::text END, CASE WHEN k.kind > 0 THEN a.resource::text END,
            CASE WHEN k.kind > 0 THEN a.token END, CASE WHEN k.kind > 0 THEN a.prior END, CASE WHEN k.kind > 0 THEN a.actor END,
            CASE WHEN k.kind > 0 THEN a.detail END, CASE WHEN k.kind > 0 THEN holdfast.unix_ms(a.at) END
        FROM unnest(p_from, p_to) AS g(low, high)
        CROSS JOIN LATERAL (
            SELECT t.* FROM holdfast.audit t WHERE t.at >= since AND t.id >= g.low AND t.id <= least(g.high, until)
                AND (t.id > p_high OR t.id <@ p_gaps)) a
        CROSS JOIN LATERAL (SELECT holdfast.trail_kind(a.kind) AS kind) k
        ORDER BY a.id;
    END IF;
END
$$;

-- What leases of the namespace whose resources begin with p_prefix went through, behind p_after and up to p_until, but for the ids in
-- p_except: in the order of the ids, at most p_max, in the form of follow(). If there is no such namespace, one row with kind -3.
CREATE OR REPLACE FUNCTION holdfast.trail(p_ns text, p_prefix text, p_after bigint, p_until bigint, p_except int8multirange, p_max int)
RETURNS TABLE (id bigint, kind smallint, namespace text, resource text, token bigint, prior bigint, actor text, detail text, at_unix_ms bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
    IF NOT EXISTS (SELECT FROM holdfast.namespace n WHERE n.name = p_ns AND n.retired_at IS NULL) THEN
        RETURN QUERY SELECT 0::bigint, -3::smallint, NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text, NULL::text, NULL::bigint;
    ELSIF p_after < p_until THEN
        RETURN QUERY
        SELECT a.id, holdfast.trail_kind(a.kind), a.namespace::text, a.resource::text, a.token, a.prior, a.actor, a.detail,
            holdfast.unix_ms(a.at)
        FROM holdfast.audit a WHERE a.id > p_after AND a.id <= p_until AND a.namespace = p_ns
            AND a.resource >= p_prefix AND a.resource <= holdfast.prefix_end(p_prefix) AND holdfast.trail_kind(a.kind) > 0
            AND NOT a.id <@ p_except
        ORDER BY a.id LIMIT p_max;
    END IF;
END
$$;

-- What was written to the newest partitions is summarised in their indexes, without which follow() reads through it again and
-- again: autovacuum does it too, but only now and then. It never waits for long, nor makes others wait.
CREATE OR REPLACE FUNCTION holdfast.follow_tidy() RETURNS int
LANGUAGE plpgsql VOLATILE SET lock_timeout = '100ms' AS $$
DECLARE
    index regclass;
    done int := 0;
BEGIN
    FOR index IN SELECT x.indexrelid::regclass FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_index x ON x.indrelid = h.inhrelid
        JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
        WHERE h.inhparent = 'holdfast.audit'::regclass AND m.amname = 'brin' AND pg_catalog.pg_relation_size(h.inhrelid) > 0
        ORDER BY h.inhrelid DESC LIMIT 4
    LOOP
        done := done + pg_catalog.brin_summarize_new_values(index);
    END LOOP;
    RETURN done;
EXCEPTION
    WHEN lock_not_available OR insufficient_privilege THEN RETURN done;
END
$$;
