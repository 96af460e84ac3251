-- compatible_from: 1
--
-- Principals: who may call, as API keys and as names in client certificates; what was refused; and when it was. Binaries of schema 3
-- know nothing of them and go on as before: they ask nobody for a key. So upgrade every server before keys are required of callers.

CREATE TABLE holdfast.principal (
    id text COLLATE "C" PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    secret_hash bytea,
    certificate text COLLATE "C",
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by text,
    last_used_at timestamptz,
    rate_per_s int NOT NULL DEFAULT 0 CHECK (rate_per_s BETWEEN 0 AND 1000000),
    rate_burst int NOT NULL DEFAULT 0 CHECK (rate_burst BETWEEN 0 AND 1000000),
    version bigint NOT NULL,
    CHECK ((secret_hash IS NULL) <> (certificate IS NULL)),
    CHECK (pg_catalog.octet_length(secret_hash) = 32)
) WITH (fillfactor = 80);
COMMENT ON TABLE holdfast.principal IS 'API keys and client certificates that may call. Revoked, never deleted. Servers keep those that are not revoked in memory, and ask for what has changed: see auth_changes().';
COMMENT ON COLUMN holdfast.principal.id IS 'Of an API key: the part between hfk_ and the secret.';
COMMENT ON COLUMN holdfast.principal.name IS 'For people, and as the actor in audits. Of those not revoked each has its own.';
COMMENT ON COLUMN holdfast.principal.secret_hash IS 'SHA-256 of the key''s secret, which has more than 190 random bits: no salt is needed, and nobody can find it by trying.';
COMMENT ON COLUMN holdfast.principal.certificate IS 'The name in the certificate, verified by TLS: its first SAN of type URI, else DNS, else its CN.';
COMMENT ON COLUMN holdfast.principal.last_used_at IS 'Noted once a minute by each server.';
COMMENT ON COLUMN holdfast.principal.rate_per_s IS 'Calls a server, on average; 0 = no limit.';
COMMENT ON COLUMN holdfast.principal.version IS 'Of the last change, from auth_state: in the order of the commits.';
CREATE UNIQUE INDEX principal_version ON holdfast.principal (version);
CREATE UNIQUE INDEX principal_name ON holdfast.principal (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX principal_certificate ON holdfast.principal (certificate) WHERE revoked_at IS NULL AND certificate IS NOT NULL;

CREATE TABLE holdfast.principal_grant (
    principal text COLLATE "C" NOT NULL,
    place int NOT NULL CHECK (place BETWEEN 1 AND 16),
    role smallint NOT NULL CHECK (role BETWEEN 1 AND 4),
    namespace text COLLATE "C",
    resource_prefix text COLLATE "C" NOT NULL DEFAULT '',
    operation_prefix text COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (principal, place)
);
COMMENT ON TABLE holdfast.principal_grant IS 'What a principal may do: a call is allowed if one of its grants covers all of it.';
COMMENT ON COLUMN holdfast.principal_grant.role IS '1 reader, 2 worker, 3 operator, 4 admin; each may do what those before it may.';
COMMENT ON COLUMN holdfast.principal_grant.namespace IS 'NULL = all, those to come too.';
COMMENT ON COLUMN holdfast.principal_grant.resource_prefix IS 'Resources whose names begin with it.';
COMMENT ON COLUMN holdfast.principal_grant.operation_prefix IS 'Operations whose keys begin with it.';

-- One row, locked by every change of a principal until its commit: so who has seen version n has seen all changes up to n.
CREATE TABLE holdfast.auth_state (
    one boolean NOT NULL DEFAULT true UNIQUE CHECK (one),
    version bigint NOT NULL DEFAULT 0,
    epoch uuid NOT NULL DEFAULT pg_catalog.gen_random_uuid()
) WITH (fillfactor = 20);
INSERT INTO holdfast.auth_state DEFAULT VALUES;
COMMENT ON COLUMN holdfast.auth_state.version IS 'Of the last change of any principal.';
COMMENT ON COLUMN holdfast.auth_state.epoch IS 'Another one after a fail-over or a restore, by attach(): changes that were seen may have been lost with the old database, so servers read all anew.';

CREATE TABLE holdfast.denial (
    principal text COLLATE "C" NOT NULL,
    method text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    minute timestamptz NOT NULL,
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE,
    denials bigint NOT NULL,
    PRIMARY KEY (minute, principal, method, reason)
);
COMMENT ON TABLE holdfast.denial IS 'Calls refused for want of a key, role, scope or rate, counted: a row each would let anybody fill the disk.';
COMMENT ON COLUMN holdfast.denial.principal IS 'Its id; '''' = the caller was nobody.';
COMMENT ON COLUMN holdfast.denial.method IS 'Its path; '''' = one of many that came together.';

COMMENT ON COLUMN holdfast.audit.kind IS 'grant, takeover (a grant after a lease that ran out), expire (noticed by the sweeper, before any takeover), release, break, write, delete, floor, policy; key (a principal that reaches into this namespace was made, changed, revoked), role (an SQL role was mapped, or no longer); of operations: lost, retry, cancel, reconcile, compensate, action.';

REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA holdfast FROM PUBLIC;
