-- compatible_from: 1
--
-- Waiters of several servers, policies of namespaces, and what the sweeper needs. Binaries of schema 1 go on working: columns
-- only come behind, with defaults, and the functions keep the forms that such binaries call (functions/70_schema_1.sql).

-- Only written under the lock of its fence row.
CREATE TABLE holdfast.waiter (
    namespace text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    server text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    turn_until timestamptz,
    PRIMARY KEY (namespace, resource, server)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
COMMENT ON TABLE holdfast.waiter IS 'Servers with callers that wait for a resource: one row each, whatever the number of callers. It makes waiting fair between servers, and says whom to wake; whether a grant is right never depends on it.';
COMMENT ON COLUMN holdfast.waiter.since IS 'When the first of that server''s callers began to wait. The earliest has the next turn.';
COMMENT ON COLUMN holdfast.waiter.until IS 'When the last of them will have given up: from then on the row counts for nothing.';
COMMENT ON COLUMN holdfast.waiter.turn_until IS 'Until then the free resource is granted to nobody but this server. At most one row a resource has a turn, and none while a lease lives.';

ALTER TABLE holdfast.resource ADD COLUMN waiting boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN holdfast.resource.waiting IS 'Whether it may have rows in waiter: what nobody waits for pays no look there.';

ALTER TABLE holdfast.namespace
    ADD COLUMN lock_delay_ms int NOT NULL DEFAULT 0 CHECK (lock_delay_ms BETWEEN 0 AND 60000),
    ADD COLUMN min_ttl_ms int NOT NULL DEFAULT 100 CHECK (min_ttl_ms >= 100),
    ADD COLUMN max_ttl_ms int NOT NULL DEFAULT 86400000 CHECK (max_ttl_ms <= 86400000),
    ADD COLUMN max_leases bigint NOT NULL DEFAULT 0 CHECK (max_leases >= 0),
    ADD COLUMN max_waiters bigint NOT NULL DEFAULT 0 CHECK (max_waiters >= 0),
    ADD COLUMN max_value_bytes bigint NOT NULL DEFAULT 0 CHECK (max_value_bytes >= 0),
    ADD COLUMN audit_keep_days int NOT NULL DEFAULT 400 CHECK (audit_keep_days BETWEEN 1 AND 36500),
    ADD CONSTRAINT namespace_ttl_bounds CHECK (min_ttl_ms <= max_ttl_ms);
COMMENT ON COLUMN holdfast.namespace.lock_delay_ms IS 'For so long after a lease ran out (not: was released or broken) nobody is granted.';
COMMENT ON COLUMN holdfast.namespace.min_ttl_ms IS 'An acquire with a shorter ttl is refused.';
COMMENT ON COLUMN holdfast.namespace.max_ttl_ms IS 'An acquire with a longer ttl is refused; a renewal gets this at most.';
COMMENT ON COLUMN holdfast.namespace.max_leases IS 'Leases at one time, see usage; 0 = no limit.';
COMMENT ON COLUMN holdfast.namespace.max_waiters IS 'Callers that wait on one server at one time; 0 = no limit. Kept by the servers.';
COMMENT ON COLUMN holdfast.namespace.max_value_bytes IS 'All values together, see usage; 0 = no limit.';
COMMENT ON COLUMN holdfast.namespace.audit_keep_days IS 'Audit rows and counts of refusals are kept at least so long.';
-- So that a batch finds out with one look at an empty index that nothing is limited.
CREATE INDEX namespace_max_leases ON holdfast.namespace (name) WHERE max_leases > 0;
CREATE INDEX namespace_max_value_bytes ON holdfast.namespace (name) WHERE max_value_bytes > 0;

CREATE TABLE holdfast.usage (
    namespace text COLLATE "C" PRIMARY KEY,
    leases bigint NOT NULL,
    value_bytes bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE holdfast.usage IS 'What is used of the quotas: of namespaces that have any, and had. Its row is locked by every batch that changes what is counted, after all others.';
COMMENT ON COLUMN holdfast.usage.leases IS 'Leases granted and not yet released, broken, or noted as expired.';
COMMENT ON COLUMN holdfast.usage.value_bytes IS 'Of all values.';
COMMENT ON COLUMN holdfast.usage.noted_at IS 'When a full namespace last looked for expired leases.';

-- Every row satisfies it, for it is wider than what it replaces: not read again under this lock.
ALTER TABLE holdfast.lease
    DROP CONSTRAINT lease_check,
    ADD CONSTRAINT lease_ended CHECK (ended = 0 OR (ended IN (2, 3, 4) AND deadline = '-infinity')) NOT VALID;
COMMENT ON COLUMN holdfast.lease.ended IS 'How it ended: 0 not at all, or it ran out at its deadline; 2 it ran out, and that is in the audit; 3 its holder released it; 4 an operator or attach() broke it.';

COMMENT ON COLUMN holdfast.audit.kind IS 'grant, takeover (a grant after a lease that ran out), expire (noticed by the sweeper, before any takeover), release, break, write, delete, floor, policy.';
COMMENT ON COLUMN holdfast.audit.token IS 'Granted, expired, released, broken, or written under. floor: the new floor. policy: 0.';
COMMENT ON COLUMN holdfast.audit.actor IS 'grant, takeover, expire, release: the holder. break, floor, policy: who did it.';
COMMENT ON COLUMN holdfast.audit.detail IS 'grant, takeover, expire: the task. break, floor: the reason. policy: what was changed.';

-- For audit_list(). Rows are in the order of their ids, or nearly, so a summary of each 64 pages finds a stretch of the trail, and
-- what happened to one resource. It costs an insert nothing that can be measured (a btree on namespace, resource and id: 12 % of
-- an acquire and its release). Partitions get theirs when they are attached.
CREATE INDEX audit_id_resource ON ONLY holdfast.audit USING brin (id, resource text_bloom_ops) WITH (pages_per_range = 64, autosummarize = on);
-- Those that are there already get it now if that takes no time: grants wait meanwhile. A large one goes without, and is read through.
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN SELECT c.relname FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid
        WHERE h.inhparent = 'holdfast.audit'::regclass AND pg_catalog.pg_relation_size(c.oid) < 16 * 1024 * 1024
    LOOP
        EXECUTE pg_catalog.format('CREATE INDEX %I ON holdfast.%I USING brin (id, resource text_bloom_ops) '
            'WITH (pages_per_range = 64, autosummarize = on)', part || '_id_resource_idx', part);
        EXECUTE pg_catalog.format('ALTER INDEX holdfast.audit_id_resource ATTACH PARTITION holdfast.%I', part || '_id_resource_idx');
    END LOOP;
END
$$;

REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM PUBLIC;
