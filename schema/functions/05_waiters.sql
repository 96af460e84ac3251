-- Turns: fairness between servers whose callers wait for one resource. All under the lock of its fence row.
--
-- A release gives the free resource to the server that has waited longest, for 100 ms: the turn. Until then nobody else is
-- granted. A turn not taken costs that server its row, and whoever asks next either gets the resource or, if another server
-- has waited longer than the one that asks, passes the turn on. Without a turn on record, as after an expiry, a free resource
-- goes to whoever asks first. A row whose `until` has passed counts for nothing.

-- The server that has waited longest has the turn until p_t + 100 ms; '' = nobody waits. Not p_but, and only who began to wait
-- before p_before (NULL: whenever). The caller knows that no turn is on record.
CREATE OR REPLACE FUNCTION holdfast.give_turn(p_ns text, p_resource text, p_t timestamptz, p_but text, p_before timestamptz) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    next text;
BEGIN
    UPDATE holdfast.waiter w SET turn_until = p_t + interval '100 ms'
    WHERE w.namespace = p_ns AND w.resource = p_resource AND w.server = (
        SELECT v.server FROM holdfast.waiter v
        WHERE v.namespace = p_ns AND v.resource = p_resource AND v.until > p_t AND v.server IS DISTINCT FROM p_but
            AND (p_before IS NULL OR v.since < p_before)
        ORDER BY v.since, v.server LIMIT 1)
    RETURNING w.server INTO next;
    RETURN coalesce(next, '');
END
$$;

-- Before p_server (NULL: an older one, which could tell nobody) is granted a free resource: remaining_ms NULL = it may be. Otherwise
-- another server has the turn for remaining_ms; next_server is its name if it has got it here and must be told, otherwise ''.
-- p_since: since when p_server waits, NULL = what its row says, if it has one.
CREATE OR REPLACE FUNCTION holdfast.turn_before(
    p_ns text, p_resource text, p_server text, p_since timestamptz, p_t timestamptz, OUT remaining_ms bigint, OUT next_server text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    turn record;
    since timestamptz := p_since;
BEGIN
    next_server := '';
    SELECT w.server, w.turn_until INTO turn FROM holdfast.waiter w
    WHERE w.namespace = p_ns AND w.resource = p_resource AND w.turn_until IS NOT NULL ORDER BY w.turn_until DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF turn.turn_until > p_t THEN
        IF turn.server IS DISTINCT FROM p_server THEN
            remaining_ms := holdfast.ms(turn.turn_until - p_t);
        END IF;
        RETURN;
    END IF;
    DELETE FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource AND w.turn_until IS NOT NULL;
    IF since IS NULL THEN
        SELECT w.since INTO since FROM holdfast.waiter w
        WHERE w.namespace = p_ns AND w.resource = p_resource AND w.server = p_server AND w.until > p_t;
    END IF;
    IF p_server IS NOT NULL THEN
        next_server := holdfast.give_turn(p_ns, p_resource, p_t, p_server, since);
        IF next_server <> '' THEN
            remaining_ms := 100;
        END IF;
    END IF;
END
$$;

-- p_server's callers wait for the resource since then, and at most until then. A turn it has stays.
CREATE OR REPLACE FUNCTION holdfast.wait_for(p_ns text, p_resource text, p_server text, p_since timestamptz, p_until timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO holdfast.waiter AS w (namespace, resource, server, since, until) VALUES (p_ns, p_resource, p_server, p_since, p_until)
    ON CONFLICT (namespace, resource, server) DO UPDATE SET since = p_since, until = p_until;
    UPDATE holdfast.resource r SET waiting = true WHERE r.namespace = p_ns AND r.name = p_resource AND NOT r.waiting;
END
$$;

-- No caller of p_server waits for the resource. Whether its row was there, and whether it had a turn, run out or not.
CREATE OR REPLACE FUNCTION holdfast.wait_no_more(p_ns text, p_resource text, p_server text, OUT was_there boolean, OUT had_turn boolean)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource AND w.server = p_server
    RETURNING true, w.turn_until IS NOT NULL INTO was_there, had_turn;
    was_there := coalesce(was_there, false);
    had_turn := coalesce(had_turn, false);
    UPDATE holdfast.resource r SET waiting = false WHERE r.namespace = p_ns AND r.name = p_resource AND r.waiting
        AND NOT EXISTS (SELECT FROM holdfast.waiter w WHERE w.namespace = p_ns AND w.resource = p_resource);
END
$$;

-- p_server got the resource: its row says how long those behind still wait (NULL: none do), without a turn.
CREATE OR REPLACE FUNCTION holdfast.wait_on_after_grant(p_ns text, p_resource text, p_server text, p_since timestamptz, p_until timestamptz)
RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM holdfast.wait_no_more(p_ns, p_resource, p_server);
    IF p_since IS NOT NULL THEN
        PERFORM holdfast.wait_for(p_ns, p_resource, p_server, p_since, p_until);
    END IF;
END
$$;

-- The queues of p_server on these resources are empty. Outcomes: 20 it was on record as waiting · 21 it was not · 5 the fence row
-- is locked by somebody · 90. If it had the turn, the longest-waiting other has it now: next_server, to be told; otherwise ''.
CREATE OR REPLACE FUNCTION holdfast.leave_batch(p_ns text[], p_resource text[], p_server text)
RETURNS TABLE (i int, outcome smallint, next_server text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    got int[];
    mine boolean[];
    t timestamptz;
    item record;
    gone record;
BEGIN
    PERFORM holdfast.require_read_committed();
    SELECT pg_catalog.array_agg(s.i) INTO got FROM (
        SELECT x.i::int FROM unnest(p_ns, p_resource) WITH ORDINALITY AS x(ns, resource, i)
        JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        FOR NO KEY UPDATE OF r SKIP LOCKED) s;
    mine := holdfast.flags(got, pg_catalog.cardinality(p_ns));
    t := holdfast.clock();
    FOR item IN
        SELECT x.i::int AS i, x.ns, x.resource, n.name IS NOT NULL AS open, r.name IS NOT NULL AS there, x.mine IS FALSE AS busy,
            (l.deadline > t) IS TRUE AS live
        FROM unnest(p_ns, p_resource, mine) WITH ORDINALITY AS x(ns, resource, mine, i)
        LEFT JOIN holdfast.namespace n ON n.name = x.ns AND n.retired_at IS NULL
        LEFT JOIN holdfast.resource r ON r.namespace = x.ns AND r.name = x.resource
        LEFT JOIN holdfast.lease l ON l.namespace = x.ns AND l.resource = x.resource
    LOOP
        i := item.i;
        outcome := 21;
        next_server := '';
        IF NOT item.open THEN
            outcome := 90;
        ELSIF item.there AND item.busy THEN
            outcome := 5;
        ELSIF item.there THEN
            gone := holdfast.wait_no_more(item.ns, item.resource, p_server);
            IF gone.was_there THEN
                outcome := 20;
            END IF;
            IF gone.had_turn AND NOT item.live THEN
                next_server := holdfast.give_turn(item.ns, item.resource, t, NULL, NULL);
            END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;

-- Each of these servers is told. The payload is namespace, U+001F, resource. In one call, since a commit with notifications
-- waits for every other such commit.
CREATE OR REPLACE FUNCTION holdfast.notify_batch(p_server text[], p_payload text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('holdfast_' || x.server, x.payload) FROM unnest(p_server, p_payload) AS x(server, payload);
END
$$;
