-- Events: rows of the outbox, in the transaction of what they tell of (P5, P6).

-- Writes the events of the items that p_take allows; p_item says whose each is. Each aggregate is locked to the end of the transaction
-- before its ids are drawn, so that within one aggregate they are in the order of the commits: whoever reads them in the order of ids
-- misses none. The locks are taken in one order by everybody. They may be waited for, as long as lock_timeout allows (55P03).
CREATE OR REPLACE FUNCTION holdfast.put_events(p_ns text[], p_operation text[], p_item int[], p_aggregate_type text[], p_aggregate_id text[],
    p_type text[], p_payload bytea[], p_take boolean[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    lock bigint;
BEGIN
    FOR lock IN
        SELECT DISTINCT pg_catalog.hashtextextended(e.aggregate_type || E'\x01' || e.aggregate_id || E'\x01' || p_ns[e.item], 4711)
        FROM unnest(p_item, p_aggregate_type, p_aggregate_id) AS e(item, aggregate_type, aggregate_id)
        WHERE p_take[e.item] ORDER BY 1
    LOOP
        PERFORM pg_catalog.pg_advisory_xact_lock(lock);
    END LOOP;
    INSERT INTO holdfast.outbox (id, aggregatetype, aggregateid, type, payload, namespace, operation)
    SELECT pg_catalog.nextval('holdfast.outbox_id'), s.* FROM (
        SELECT e.aggregate_type, e.aggregate_id, e.type, e.payload, p_ns[e.item], p_operation[e.item]
        FROM unnest(p_item, p_aggregate_type, p_aggregate_id, p_type, p_payload) WITH ORDINALITY
            AS e(item, aggregate_type, aggregate_id, type, payload, place)
        WHERE p_take[e.item] ORDER BY e.place) s;
END
$$;
