-- compatible_from: 1
--
-- The first schema: namespaces, fences, leases, guarded values, audit, and what the server keeps about the database itself.
--
-- The runner of migrations executes this file and the record of it (a row in holdfast.migration) in one transaction. The hash
-- of the functions that stand in the database is the comment on the schema. Time in here is always the database's. Names are COLLATE "C":
-- their order is that of their bytes, on every machine and after every upgrade of the C library. Every primary key of data
-- that belongs to a namespace begins with the namespace, so that one can move to another database whole.
-- There are no foreign keys: the functions are the only writers, namespaces are never deleted, and a check for each row of
-- each batch would be paid for nothing.

CREATE SCHEMA IF NOT EXISTS holdfast;
REVOKE ALL ON SCHEMA holdfast FROM PUBLIC;

-- Who may call the SQL interface (guard). A role of the whole cluster, shared by its databases, so it may be there already;
-- a server without the right to make roles goes on without it, and guard() is then granted by hand.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'holdfast_user') THEN
        CREATE ROLE holdfast_user NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN RAISE WARNING 'role holdfast_user does not exist and may not be created';
END
$$;

CREATE TABLE holdfast.migration (
    version int PRIMARY KEY,
    name text NOT NULL,
    compatible_from int NOT NULL CHECK (compatible_from BETWEEN 1 AND version),
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE holdfast.migration IS 'Migrations applied. Binaries that know a schema version of at least the greatest compatible_from work with this database.';

CREATE TABLE holdfast.identity (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    system_identifier bigint NOT NULL,
    timeline text NOT NULL,
    commits_replicated boolean NOT NULL DEFAULT false,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE holdfast.identity IS 'One row: the cluster and timeline this database was last served on. When they changed, grants may have been lost with the old one: see attach().';
COMMENT ON COLUMN holdfast.identity.timeline IS 'First 8 digits of the name of the WAL file being written.';
COMMENT ON COLUMN holdfast.identity.commits_replicated IS 'An operator''s word that commits wait for a synchronous standby and only such a one is ever promoted: then a change of timeline, within one system identifier, loses nothing and raises nothing.';

CREATE TABLE holdfast.namespace (
    name text COLLATE "C" PRIMARY KEY,
    fence_floor bigint NOT NULL DEFAULT 0 CHECK (fence_floor >= 0),
    retired_at timestamptz,
    audit_writes boolean NOT NULL DEFAULT false,
    guard_idle_cap_ms int NOT NULL DEFAULT 60000 CHECK (guard_idle_cap_ms > 0),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE holdfast.namespace IS 'The scope of names and policies. Retired, never deleted.';
COMMENT ON COLUMN holdfast.namespace.fence_floor IS 'Every grant''s token is above this as well as above its resource''s fence. Never lowered.';
COMMENT ON COLUMN holdfast.namespace.audit_writes IS 'Whether each accepted write and delete leaves an audit row too.';
COMMENT ON COLUMN holdfast.namespace.guard_idle_cap_ms IS 'The longest a transaction that called guard() may sit idle, whatever remains of its lease.';
INSERT INTO holdfast.namespace (name) VALUES ('default');

-- The fence row. Acquire, Release, Break, Write, Delete and guard() all lock it, so it is what orders them. No index but the
-- key, and room in each page, so that every update is HOT. The value lives apart: it would be rewritten with each grant.
CREATE TABLE holdfast.resource (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    fence bigint NOT NULL DEFAULT 0,
    grant_token bigint NOT NULL DEFAULT 0,
    repeats int NOT NULL DEFAULT 0,
    request_id text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
COMMENT ON COLUMN holdfast.resource.fence IS 'The highest token that may be in use: the last one granted, or above it after a break. 0 = never granted; such a row is as good as none. Only rises.';
COMMENT ON COLUMN holdfast.resource.grant_token IS 'The token of the last grant; a repeat of the acquire that got it is told by request_id.';
COMMENT ON COLUMN holdfast.resource.repeats IS 'How many repeats of the last grant were answered.';
COMMENT ON COLUMN holdfast.resource.request_id IS 'Of the acquire that got the last grant.';

-- One row a resource, made with the fence row and updated in place for ever: at most one live lease (P2) is a constraint.
-- No index on deadline: a renewal changes it, and must be HOT. The row outlives its lease and tells how that ended.
CREATE TABLE holdfast.lease (
    namespace text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    token bigint NOT NULL DEFAULT 0,
    deadline timestamptz NOT NULL DEFAULT '-infinity',
    granted_at timestamptz NOT NULL DEFAULT '-infinity',
    ended smallint NOT NULL DEFAULT 0,
    task text NOT NULL DEFAULT '',
    holder text NOT NULL DEFAULT '',
    labels jsonb,
    PRIMARY KEY (namespace, resource),
    CHECK (ended = 0 OR (ended IN (3, 4) AND deadline = '-infinity'))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
COMMENT ON COLUMN holdfast.lease.token IS '0 = never leased.';
COMMENT ON COLUMN holdfast.lease.deadline IS 'The lease is live while holdfast.clock() is before this. -infinity once somebody ended it.';
COMMENT ON COLUMN holdfast.lease.ended IS 'Who ended it: 0 nobody (it is live, or ran out at its deadline), 3 its holder (RELEASED), 4 an operator or attach() (BROKEN).';
COMMENT ON COLUMN holdfast.lease.labels IS 'Object of strings; NULL = none.';

-- Only written under the lock of its fence row.
CREATE TABLE holdfast.resource_value (
    namespace text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    token bigint NOT NULL,
    write_seq bigint NOT NULL DEFAULT 0,
    seq_version bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL,
    value bytea,
    PRIMARY KEY (namespace, resource)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
COMMENT ON TABLE holdfast.resource_value IS 'Guarded values. A row stays when its value is deleted, so that the version never restarts.';
COMMENT ON COLUMN holdfast.resource_value.version IS 'Counts accepted writes and deletes; 0 = only ever deletes of nothing.';
COMMENT ON COLUMN holdfast.resource_value.token IS 'Of the last accepted write or delete.';
COMMENT ON COLUMN holdfast.resource_value.write_seq IS 'The highest write_seq accepted under that token; 0 = none had one.';
COMMENT ON COLUMN holdfast.resource_value.seq_version IS 'The version when write_seq was accepted: behind version if writes without write_seq came after it, and then a repeat of it cannot be answered as before.';
COMMENT ON COLUMN holdfast.resource_value.value IS 'NULL = deleted. So NULL also tells that the last accepted change was a delete.';

CREATE SEQUENCE holdfast.audit_id;
CREATE TABLE holdfast.audit (
    namespace text COLLATE "C" NOT NULL,
    resource text COLLATE "C",
    id bigint NOT NULL DEFAULT nextval('holdfast.audit_id'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    prior bigint,
    actor text,
    detail text
) PARTITION BY RANGE (at);
COMMENT ON TABLE holdfast.audit IS 'What happened, for ever. By months, made ahead by make_partitions(); no default partition: one could not be detached while in use.';
COMMENT ON COLUMN holdfast.audit.resource IS 'NULL: the whole namespace.';
COMMENT ON COLUMN holdfast.audit.id IS 'Rises within one resource in the order of what happened, whatever the clock does: drawn under the resource''s lock.';
COMMENT ON COLUMN holdfast.audit.at IS 'clock_timestamp(), not holdfast.clock(): it chooses the partition.';
COMMENT ON COLUMN holdfast.audit.kind IS 'grant, takeover (a grant after a lease that ran out), release, break, write, delete, floor.';
COMMENT ON COLUMN holdfast.audit.token IS 'Granted, released, broken, or written under. floor: the new floor.';
COMMENT ON COLUMN holdfast.audit.prior IS 'takeover: the token that ran out. break: the new fence. write, delete: the new version. floor: the old floor.';
COMMENT ON COLUMN holdfast.audit.actor IS 'grant, takeover, release: the holder. break, floor: who did it.';
COMMENT ON COLUMN holdfast.audit.detail IS 'grant, takeover: the task. break, floor: the reason.';

CREATE TABLE holdfast.refusal (
    namespace text COLLATE "C" NOT NULL,
    resource text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    minute timestamptz NOT NULL,
    refusals bigint NOT NULL,
    PRIMARY KEY (namespace, resource, token, minute)
);
COMMENT ON TABLE holdfast.refusal IS 'Writes and deletes refused because their token was stale, counted: a row each would let a runaway holder fill the disk.';

CREATE TABLE holdfast.sql_role (
    namespace text COLLATE "C" NOT NULL,
    role name NOT NULL,
    PRIMARY KEY (namespace, role)
);
COMMENT ON TABLE holdfast.sql_role IS 'Which SQL roles (and their members) may use which namespace through guard(). Superusers need no row.';

REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA holdfast FROM PUBLIC;
