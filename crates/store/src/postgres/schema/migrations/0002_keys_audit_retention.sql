-- Keys with scopes, the audit log, retention and encryption. One section per capability.

-- ====================================================================================================================
-- Backup and restore
-- ====================================================================================================================

-- The freeze of a restored store: no lease and no automatic retry until an operator lifts it.
-- Written by `store restore` and `store restored`, deleted by the release. At most one row.
CREATE TABLE store_freeze (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    restored_at BIGINT NOT NULL,
    backup_at BIGINT         -- when the backup was made; NULL if that is not known
);

-- ====================================================================================================================
-- Retention
-- ====================================================================================================================

-- When a run was closed or dead-lettered, and as what: position in EndedAs::ALL. NULL while it is open. Retention compares the
-- time with the policy of the queue and tenant, so that a changed policy holds for all runs. Of runs that ended before this
-- migration the last change is taken for the end.
ALTER TABLE runs ADD COLUMN ended_at BIGINT, ADD COLUMN ended_as BIGINT;
UPDATE runs SET ended_at = updated_at, ended_as = CASE state WHEN 2 THEN 2 ELSE 0 END WHERE state = 2 OR state >= 4;
CREATE INDEX runs_ended ON runs (queue, tenant, ended_as, ended_at, id) WHERE ended_at IS NOT NULL;
-- The runs that are merged into a run: they are removed with it.
CREATE INDEX runs_merged ON runs (tenant, merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX merged_steps_from ON merged_steps (from_run);

-- Removed runs leave dead rows in these tables. Vacuum runs after a fixed share of them, so that new rows take their place
-- before the tables grow.
ALTER TABLE attempts SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE payloads SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE payloads SET (toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE attempts SET (toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE history SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1);
ALTER TABLE sent SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE steps SET (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);

-- Which replica owns retention, and where its pass over queues and tenants continues.
-- Written by the retention service with each commit. One row, none before the first pass.
CREATE TABLE retention_progress (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    held_until BIGINT NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,  -- a replica
    position TEXT COLLATE "C" NOT NULL -- WalkPosition as JSON; '' at the start of a pass
) WITH (fillfactor = 10);

-- What health says of the dead letters of a queue and tenant whose time is nearly or already over.
-- Written by the retention service. At most one row per queue and tenant, deleted when there is nothing to say.
CREATE TABLE retention_notices (
    queue BIGINT NOT NULL,
    tenant BIGINT NOT NULL,
    due_soon BIGINT NOT NULL,          -- dead letters that will be removed within seven days, counted up to 10,000
    first_at BIGINT,                   -- when the first of them will be
    kept BIGINT NOT NULL,              -- dead letters whose time is over, kept because there is no archive
    PRIMARY KEY (queue, tenant)
);

-- ====================================================================================================================
-- The audit log
-- ====================================================================================================================

-- An act of a person, key, schedule or agent: ids, states and digests, never payloads. Entries form a hash chain
-- (`core/audit`): every column is part of the hash. Appended by the commit of the act, never changed.
-- One row per act and per moved item of an operation; `audit_days` removes what was exported.
CREATE TABLE audit (
    seq BIGINT PRIMARY KEY,                -- from 1, without gaps
    at BIGINT NOT NULL,                    -- never before that of the entry before it
    tenant TEXT COLLATE "C",               -- NULL: not about one tenant
    actor TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C",
    action TEXT COLLATE "C" NOT NULL,      -- run.replay, key.revoke, …
    subject TEXT COLLATE "C" NOT NULL,     -- a kind and an id: run:task-42
    before TEXT COLLATE "C",               -- JSON
    after TEXT COLLATE "C",                -- JSON
    reason TEXT COLLATE "C",               -- a JSON string
    operation TEXT COLLATE "C",            -- the bulk operation that it is part of
    source TEXT COLLATE "C",               -- the address of the request
    request_id TEXT COLLATE "C",
    hash BYTEA NOT NULL                    -- SHA-256 of the hash before it and the row
);
CREATE INDEX audit_tenant ON audit (tenant, seq) WHERE tenant IS NOT NULL;
CREATE INDEX audit_actor ON audit (actor, seq);
CREATE INDEX audit_action ON audit (action, seq);
CREATE INDEX audit_subject ON audit (subject, seq);
CREATE INDEX audit_operation ON audit (operation, seq) WHERE operation IS NOT NULL;

-- A position in the audit log: `head`, the last entry; `checkpoint`, the last removed one; `sealed`, the last exported
-- one. At most three rows.
CREATE TABLE audit_marks (
    name TEXT COLLATE "C" PRIMARY KEY,
    seq BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    at BIGINT NOT NULL,
    sha256 TEXT COLLATE "C"                -- of the file that was exported
) WITH (fillfactor = 10);

-- ====================================================================================================================
-- Keys and the tenant portal
-- ====================================================================================================================

-- Keys: names, scopes, queues and use.
ALTER TABLE keys ADD COLUMN name BYTEA;
ALTER TABLE keys ADD COLUMN scopes TEXT COLLATE "C";          -- words of KeyScope, separated by commas; NULL: all of the role
ALTER TABLE keys ADD COLUMN queues TEXT COLLATE "C";          -- names, separated by commas; NULL: every queue
ALTER TABLE keys ADD COLUMN created_by TEXT COLLATE "C";      -- the actor; NULL: made before this was recorded
ALTER TABLE keys ADD COLUMN revoked_by TEXT COLLATE "C";
ALTER TABLE keys ADD COLUMN last_used_at BIGINT;    -- written about once a minute

-- A link that logs a browser in once as its tenant, and the session that it began.
-- Written by operators and by the browser that opens it. At most 1,000 that have not ended per tenant; deleted a day after
-- they expired.
CREATE TABLE portal_links (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL UNIQUE,     -- SHA-256 of the link's secret
    session BYTEA UNIQUE,           -- SHA-256 of the session's secret; NULL until the link is opened
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL,      -- of the link and of its session
    used_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX portal_links_by_tenant ON portal_links (tenant, created_at);
CREATE INDEX portal_links_by_end ON portal_links (expires_at);

-- ====================================================================================================================
-- Encryption at rest
-- ====================================================================================================================

-- The master key of an encrypted store, and how far its values are sealed. Without encryption there is no row.
-- Written at the first start with a master key, by rotations and by the re-sealing service. One row.
CREATE TABLE encryption (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    master TEXT NOT NULL,              -- the id of the master key: the start of its digest
    canary BYTEA NOT NULL,              -- a value that only the master key opens
    rotations BIGINT NOT NULL DEFAULT 0, -- of tenants' keys: writers that see it change read the active keys again
    pass_from BIGINT,                 -- when the pass under way began; NULL: there is none
    pass_table BIGINT NOT NULL DEFAULT 0, -- its cursor: position in the list of sealed tables, and the key of a row
    pass_after_1 BIGINT NOT NULL DEFAULT 0,
    pass_after_2 BIGINT NOT NULL DEFAULT 0,
    resealed BIGINT NOT NULL DEFAULT 0, -- values that this pass, or the last one, has sealed
    unreadable BIGINT NOT NULL DEFAULT 0, -- values that it could not open
    done_to BIGINT                    -- when the last complete pass began; NULL before the first has ended
);

-- A data key, wrapped by the master key. Deleting a tenant's keys makes its sealed values unreadable for good.
-- Written by the first sealed value of a tenant and by rotations. One active key per tenant; a retired one is deleted when
-- no value is left under it.
CREATE TABLE tenant_keys (
    id BIGINT PRIMARY KEY,            -- random: a sealed value names it
    tenant BIGINT NOT NULL,           -- 0: values that belong to no tenant
    wrapped BYTEA NOT NULL,
    master TEXT NOT NULL,              -- the id of the master key that wraps it
    created_at BIGINT NOT NULL,
    retired_at BIGINT                 -- NULL: active
);
CREATE UNIQUE INDEX tenant_keys_active ON tenant_keys (tenant) WHERE retired_at IS NULL;
CREATE INDEX tenant_keys_retired ON tenant_keys (retired_at) WHERE retired_at IS NOT NULL;
