-- Names that callers choose, as small numbers from here on.
CREATE TABLE tenants (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    last_failure_at INTEGER
);

CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,            -- QueueSettings as JSON
    created_at INTEGER NOT NULL,
    declared INTEGER NOT NULL DEFAULT 0 -- 1: set by an admin or the configuration
);
CREATE INDEX queues_declared ON queues (id) WHERE declared = 1;

-- Names that a tenant's runs have used: capped, and what is there for that tenant.
CREATE TABLE tenant_names (
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    kind INTEGER NOT NULL,             -- 0 a queue, 1 a reason
    name TEXT NOT NULL,
    PRIMARY KEY (tenant, kind, name)
) WITHOUT ROWID;

-- One row a run: what lists filter and show, and in `life` what only the transition table reads.
-- AUTOINCREMENT: a lease names its run by this number, so it is never given out twice.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    queue INTEGER NOT NULL REFERENCES queues (id),
    key_hash INTEGER NOT NULL,         -- of tenant and run_id; a collision is settled by comparing both
    run_id TEXT NOT NULL,
    state INTEGER NOT NULL,            -- position in StateName::ALL
    detail INTEGER NOT NULL,           -- dead: position in DeadBecause::ALL; scheduled: 1 when held; otherwise 0
    due INTEGER,                       -- scheduled and not held: when
    wake INTEGER,                      -- running: when somebody has to look
    attempt INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    reason TEXT NOT NULL,              -- of the last failure; '' before the first
    category INTEGER NOT NULL,         -- position in Category::ALL, or -1
    pattern INTEGER REFERENCES patterns (id),
    severity INTEGER NOT NULL,         -- position in Severity::ALL
    received_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deferred_until INTEGER,
    environment TEXT NOT NULL,
    agent TEXT,
    task_type TEXT,
    customer TEXT,
    model TEXT,
    provider TEXT,
    tool TEXT,
    step TEXT,
    idempotency_key TEXT,
    order_key TEXT,
    held_by TEXT,
    merged_into TEXT,
    replays INTEGER NOT NULL,
    unleasable INTEGER,                -- scheduled, and no worker can be given its payload: 1; otherwise none
    lease_request TEXT,                -- running: the lease call that handed it out, with its scope
    life TEXT NOT NULL
);
CREATE INDEX runs_key ON runs (key_hash);
CREATE INDEX runs_state ON runs (state, id);
CREATE INDEX runs_tenant_state ON runs (tenant, state, id);
CREATE INDEX runs_pattern ON runs (pattern, id) WHERE pattern IS NOT NULL;
CREATE INDEX runs_due ON runs (queue, tenant, due) WHERE due IS NOT NULL;
CREATE INDEX runs_deferred ON runs (deferred_until) WHERE deferred_until IS NOT NULL;
CREATE INDEX runs_wake ON runs (wake) WHERE wake IS NOT NULL;
CREATE INDEX runs_order ON runs (tenant, order_key) WHERE order_key IS NOT NULL AND wake IS NOT NULL;
-- What a lease call handed out, while it lives.
CREATE INDEX runs_request ON runs (lease_request) WHERE lease_request IS NOT NULL AND wake IS NOT NULL;
-- What waits for a caller, and for no worker.
CREATE INDEX runs_unleasable ON runs (queue) WHERE unleasable IS NOT NULL;

-- Attempts are their own history. The key is an index of its own beside rows in the order in which they came: kept in
-- one tree with the key (WITHOUT ROWID) rows above 1 KB spill into pages of their own, and ingest writes twice as much.
CREATE TABLE attempts (
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    outcome INTEGER NOT NULL,          -- position in Outcome::ALL
    epoch INTEGER,                     -- of the lease it ended; none for an attempt reported in one call
    digest BLOB,                       -- of the report, to know it again
    state INTEGER NOT NULL,            -- where the run went, as answered
    fp_version INTEGER,
    fp_hash INTEGER,
    pattern INTEGER REFERENCES patterns (id),
    pattern_new INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    origin TEXT NOT NULL,              -- AttemptOrigin as JSON
    verdict BLOB,                      -- Verdict as JSON through the codec
    body BLOB NOT NULL,                -- AttemptBody as JSON through the codec
    PRIMARY KEY (run, attempt)
);

CREATE TABLE payloads (
    run INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    kind INTEGER NOT NULL,             -- position in PayloadKind::ALL
    digest BLOB NOT NULL,
    about BLOB NOT NULL,               -- About as JSON through the codec
    body BLOB NOT NULL,                -- the payload's bytes through the codec
    PRIMARY KEY (run, revision)
);

-- Failures that came after their lease had ended.
CREATE TABLE late_failures (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    at INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX late_failures_attempt ON late_failures (run, attempt);

CREATE TABLE steps (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    run INTEGER NOT NULL REFERENCES runs (id) DEFERRABLE INITIALLY DEFERRED,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,            -- that began it; 0 when reported without a lease
    key TEXT NOT NULL,
    named INTEGER NOT NULL,            -- the worker gave the key
    name TEXT NOT NULL,
    effect INTEGER NOT NULL,
    status INTEGER NOT NULL,           -- position in StepStatus::ALL
    at INTEGER NOT NULL,
    output BLOB,
    omitted_bytes INTEGER,
    omitted_sha256 TEXT
);
CREATE UNIQUE INDEX steps_run_key ON steps (run, key);
CREATE UNIQUE INDEX steps_effect_key ON steps (tenant, key) WHERE effect = 1 AND named = 1;

-- Moves that are not attempts.
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    from_state INTEGER NOT NULL,
    to_state INTEGER NOT NULL,
    note BLOB
);
CREATE INDEX history_run ON history (run);

CREATE TABLE patterns (
    id INTEGER PRIMARY KEY,
    public_id TEXT NOT NULL UNIQUE,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    fp_version INTEGER NOT NULL,
    fp_hash INTEGER NOT NULL,
    template TEXT NOT NULL,
    reason TEXT NOT NULL,
    category INTEGER NOT NULL,
    count INTEGER NOT NULL,
    open INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    state INTEGER NOT NULL,            -- position in PatternState::ALL
    regression INTEGER NOT NULL,
    owner TEXT
);
CREATE INDEX patterns_tenant ON patterns (tenant, last_seen);
CREATE INDEX patterns_fingerprint ON patterns (fp_hash, fp_version);

-- Decides the pattern of a fingerprint: merging moves aliases, never history.
CREATE TABLE pattern_alias (
    tenant INTEGER NOT NULL,
    fp_hash INTEGER NOT NULL,
    fp_version INTEGER NOT NULL,
    pattern INTEGER NOT NULL REFERENCES patterns (id),
    PRIMARY KEY (tenant, fp_hash, fp_version)
) WITHOUT ROWID;

-- Runs by what lists count exactly; folded once per commit.
CREATE TABLE counts (
    state INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (state, tenant, queue, reason, detail)
) WITHOUT ROWID;

-- The same over all tenants, so that those who see all of them count in no more rows than one tenant does.
CREATE TABLE totals (
    state INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (state, queue, reason, detail)
) WITHOUT ROWID;

-- Events by the hour; folded once per commit.
CREATE TABLE hourly (
    hour INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    kind INTEGER NOT NULL,             -- position in HourlyKind::ALL
    reason TEXT NOT NULL,              -- of failures; otherwise ''
    n INTEGER NOT NULL,
    PRIMARY KEY (hour, tenant, queue, kind, reason)
) WITHOUT ROWID;

-- One row a commit: the runs it moved, as little-endian 8-byte ids.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    runs BLOB NOT NULL
);

CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,         -- SHA-256 of the secret
    role INTEGER NOT NULL,             -- position in Role::ALL
    tenant TEXT,                       -- none: spans all
    note TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    lineage TEXT NOT NULL              -- the id of the key that it was first
) WITHOUT ROWID;

-- When each replica was last seen, and the times in which none was.
CREATE TABLE stamps (
    replica TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE absences (
    since INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
);
