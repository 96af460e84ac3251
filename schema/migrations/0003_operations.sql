-- compatible_from: 1
--
-- Operations: one durable record for each business key, its attempts, the policies of its type, the actions that may be executed,
-- and the outbox. Binaries of schema 2 know nothing of them and go on as before.

-- Tokens of attempts, of all operations. After a fail-over it jumps, see attach().
CREATE SEQUENCE holdfast.operation_token;

-- The record. Renewals change deadline alone and are HOT: no index has it.
CREATE TABLE holdfast.operation (
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    state smallint NOT NULL,
    sending boolean NOT NULL DEFAULT false,
    attempts int NOT NULL DEFAULT 0,
    budget_attempts int NOT NULL DEFAULT 0,
    revision int NOT NULL DEFAULT 1,
    error_class smallint,
    priority int,
    token bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    deadline timestamptz,
    budget_since timestamptz,
    fingerprint bytea NOT NULL,
    holder text,
    request_id text COLLATE "C",
    result bytea,
    result_ref text,
    message text,
    sqlstate text COLLATE "C",
    compensates text COLLATE "C",
    compensated_by text COLLATE "C",
    payload bytea,
    decided text,
    PRIMARY KEY (namespace, key),
    CHECK (state BETWEEN 1 AND 7),
    CHECK (state NOT IN (1, 2) OR deadline IS NOT NULL)
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
COMMENT ON TABLE holdfast.operation IS 'One business action under its key, that takes effect once. What may follow what: operation_move().';
COMMENT ON COLUMN holdfast.operation.state IS '1 PENDING, 2 RUNNING, 3 SUCCEEDED, 4 FAILED, 5 UNKNOWN, 6 REVIEW, 7 CANCELLED.';
COMMENT ON COLUMN holdfast.operation.sending IS 'RUNNING: an effect elsewhere may have been sent, so its loss leads to UNKNOWN.';
COMMENT ON COLUMN holdfast.operation.attempts IS 'Attempts started.';
COMMENT ON COLUMN holdfast.operation.budget_attempts IS 'Those that count for max_attempts: since the last decision to retry.';
COMMENT ON COLUMN holdfast.operation.revision IS 'Counts changes of state, and attempts.';
COMMENT ON COLUMN holdfast.operation.token IS 'Of the newest attempt; 0 = there was none.';
COMMENT ON COLUMN holdfast.operation.changed_at IS 'When it came into this state.';
COMMENT ON COLUMN holdfast.operation.deadline IS 'RUNNING: the attempt lives while holdfast.clock() is before this. PENDING: when it is due.';
COMMENT ON COLUMN holdfast.operation.budget_since IS 'Since when max_elapsed_ms counts; NULL = since created_at.';
COMMENT ON COLUMN holdfast.operation.fingerprint IS 'Never changes: read without a lock.';
COMMENT ON COLUMN holdfast.operation.request_id IS 'Of the begin that got the newest attempt, unless that was lost: a late copy of it starts no other.';
COMMENT ON COLUMN holdfast.operation.message IS 'Of the last failure; UNKNOWN: the note; REVIEW, CANCELLED: why.';
COMMENT ON COLUMN holdfast.operation.compensates IS 'The key of the operation that this one undoes.';
COMMENT ON COLUMN holdfast.operation.decided IS 'The last decision of a person, and the revision it was about: by it a repeat is told.';
-- Each holds only what its name says, and so stays small whatever the number of operations that have ended.
CREATE INDEX operation_due ON holdfast.operation (namespace, type, changed_at) WHERE state = 1;
CREATE INDEX operation_running ON holdfast.operation (namespace, key) WHERE state = 2;
CREATE INDEX operation_sending ON holdfast.operation (changed_at) WHERE state = 2 AND sending;
CREATE INDEX operation_unknown ON holdfast.operation (changed_at) WHERE state = 5;
CREATE INDEX operation_review ON holdfast.operation (changed_at) WHERE state = 6;
CREATE INDEX operation_compensating ON holdfast.operation (changed_at) WHERE compensates IS NOT NULL AND state IN (1, 2, 5, 6);

-- One row for each attempt that was begun (an operation that is only recorded or executed has none).
CREATE TABLE holdfast.attempt (
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    attempt int NOT NULL,
    trigger smallint NOT NULL,
    outcome smallint NOT NULL DEFAULT 0,
    error_class smallint,
    state_after smallint,
    revision_after int,
    late_count int NOT NULL DEFAULT 0,
    execution_id uuid NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    sending_at timestamptz,
    late_at timestamptz,
    holder text NOT NULL,
    message text,
    sqlstate text COLLATE "C",
    late_call text COLLATE "C",
    late_result bytea,
    late_message text,
    PRIMARY KEY (namespace, key, token)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 1);
COMMENT ON COLUMN holdfast.attempt.trigger IS '1 SCHEDULED, 2 RETRY, 3 TAKEOVER, 4 MANUAL.';
COMMENT ON COLUMN holdfast.attempt.outcome IS '0 it runs, 1 SUCCEEDED, 2 FAILED, 3 LOST, 4 UNKNOWN.';
COMMENT ON COLUMN holdfast.attempt.error_class IS '1 TRANSIENT, 2 CONFLICT, 3 BUSINESS, 4 UNKNOWN, 5 CONFIG, 6 FENCED.';
COMMENT ON COLUMN holdfast.attempt.state_after IS 'What its owner was told when he ended it, as its revision: for repeats.';
COMMENT ON COLUMN holdfast.attempt.late_at IS 'When its owner last told an outcome that was refused; the late_ columns keep what it told.';

CREATE TABLE holdfast.operation_policy (
    namespace text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    max_attempts int NOT NULL DEFAULT 10 CHECK (max_attempts BETWEEN 1 AND 1000),
    max_elapsed_ms bigint NOT NULL DEFAULT 86400000 CHECK (max_elapsed_ms BETWEEN 1 AND 31536000000),
    base_ms int NOT NULL DEFAULT 1000 CHECK (base_ms BETWEEN 1 AND 86400000),
    cap_ms int NOT NULL DEFAULT 300000 CHECK (cap_ms BETWEEN 1 AND 86400000),
    on_lost smallint NOT NULL DEFAULT 1 CHECK (on_lost IN (1, 2)),
    retention_ms bigint NOT NULL DEFAULT 2592000000 CHECK (retention_ms BETWEEN 1 AND 315360000000),
    PRIMARY KEY (namespace, type),
    CHECK (base_ms <= cap_ms)
);
COMMENT ON TABLE holdfast.operation_policy IS 'Those that were set. Type '''' holds for the types of its namespace that have no row; without any row the defaults hold.';
COMMENT ON COLUMN holdfast.operation_policy.on_lost IS 'What becomes of an operation whose attempt was lost and had not been sending: 1 UNKNOWN, 2 it may run again.';

CREATE TABLE holdfast.action (
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    function text NOT NULL,
    role name NOT NULL,
    timeout_ms int NOT NULL CHECK (timeout_ms BETWEEN 1 AND 30000),
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, name)
);
COMMENT ON TABLE holdfast.action IS 'SQL functions that OperationService.Execute may call.';
COMMENT ON COLUMN holdfast.action.function IS 'Quoted as needed: schema.name. Of f(key text, args jsonb) returns jsonb.';
COMMENT ON COLUMN holdfast.action.role IS 'Its owner when it was registered; an execution requires that it still is.';

-- The columns of Debezium's outbox router, and our own behind.
CREATE SEQUENCE holdfast.outbox_id;
CREATE TABLE holdfast.outbox (
    id bigint NOT NULL,
    aggregatetype text NOT NULL,
    aggregateid text COLLATE "C" NOT NULL,
    type text NOT NULL,
    payload bytea NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    operation text COLLATE "C",
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, id)
);
COMMENT ON TABLE holdfast.outbox IS 'Events, each written in the transaction of what it tells of.';
COMMENT ON COLUMN holdfast.outbox.id IS 'Drawn under the lock of its aggregate: within one aggregate in the order of the commits.';
COMMENT ON COLUMN holdfast.outbox.operation IS 'The key of the operation that it belongs to, if any.';
-- What still has events here is not purged.
CREATE INDEX outbox_operation ON holdfast.outbox (namespace, operation) WHERE operation IS NOT NULL;

-- One row. The purger walks through operation page by page: an index on the time of what has ended would cost each record an entry,
-- and to look from the start each time would go over what is kept again and again.
CREATE TABLE holdfast.purge (
    one boolean NOT NULL DEFAULT true UNIQUE CHECK (one),
    block bigint NOT NULL DEFAULT 0,
    passes bigint NOT NULL DEFAULT 0,
    purged bigint NOT NULL DEFAULT 0,
    pass_began_at timestamptz
);
INSERT INTO holdfast.purge DEFAULT VALUES;
COMMENT ON COLUMN holdfast.purge.block IS 'The page of operation that is looked at next.';
COMMENT ON COLUMN holdfast.purge.passes IS 'How often all of it was looked at.';

ALTER TABLE holdfast.audit ADD COLUMN operation text COLLATE "C";
-- As audit_id_resource, see 0002_waiters.sql.
CREATE INDEX audit_id_operation ON ONLY holdfast.audit USING brin (id, operation text_bloom_ops) WITH (pages_per_range = 64, autosummarize = on);
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN SELECT c.relname FROM pg_catalog.pg_inherits h JOIN pg_catalog.pg_class c ON c.oid = h.inhrelid
        WHERE h.inhparent = 'holdfast.audit'::regclass AND pg_catalog.pg_relation_size(c.oid) < 16 * 1024 * 1024
    LOOP
        EXECUTE pg_catalog.format('CREATE INDEX %I ON holdfast.%I USING brin (id, operation text_bloom_ops) '
            'WITH (pages_per_range = 64, autosummarize = on)', part || '_id_operation_idx', part);
        EXECUTE pg_catalog.format('ALTER INDEX holdfast.audit_id_operation ATTACH PARTITION holdfast.%I', part || '_id_operation_idx');
    END LOOP;
END
$$;
COMMENT ON COLUMN holdfast.audit.operation IS 'The key, if it concerns an operation; resource is NULL then.';
COMMENT ON COLUMN holdfast.audit.kind IS 'grant, takeover (a grant after a lease that ran out), expire (noticed by the sweeper, before any takeover), release, break, write, delete, floor, policy; of operations: lost, retry, cancel, reconcile, compensate, action.';

REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA holdfast FROM PUBLIC;
