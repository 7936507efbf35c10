-- The data model. PostgreSQL has the same tables and columns, so that `store copy` carries every row.
--
-- * Times are milliseconds since 1970, UTC. Flags are 0 or 1.
-- * "Position in X::ALL" means that the column stores an enum of that name by its index. These lists are append-only.
-- * "Codec" means the bytes of `engine/src/codec.rs`: a version byte, then plain or LZ4-compressed bytes.
-- * Each table says what a row is, who writes it, and what bounds its growth.

-- ====================================================================================================================
-- Tenants and names
-- ====================================================================================================================

-- A tenant. Other tables refer to it by number.
-- Written by the first report, start or queue of a new tenant. Grows with the number of tenants.
CREATE TABLE tenants (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

-- A queue or reason that a tenant's runs have used.
-- Written by the first report or start that names it. At most 1,000 queues and 1,000 reasons per tenant.
CREATE TABLE tenant_names (
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    kind INTEGER NOT NULL,             -- 0 queue, 1 reason
    name TEXT NOT NULL,
    PRIMARY KEY (tenant, kind, name)
) WITHOUT ROWID;

-- A version of a worker, prompt or tool that a tenant has used. The id gives their order: a higher id is newer.
-- Written by the first attempt that names it. The newest 1,000 per tenant and kind are kept.
CREATE TABLE versions_seen (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    kind TEXT NOT NULL,
    version TEXT NOT NULL,
    UNIQUE (tenant, kind, version)
);

-- ====================================================================================================================
-- Runs
-- ====================================================================================================================

-- A run. The columns are what lists, claims and services search; `life` holds the rest of its state.
-- Written by every command that moves the run. Grows with the work: runs are never deleted by Redrive.
-- AUTOINCREMENT: a lease names its run by this id, so an id is never reused.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    queue INTEGER NOT NULL REFERENCES queues (id),
    key_hash INTEGER NOT NULL,         -- of tenant and run_id, see run_names
    run_id TEXT NOT NULL,              -- chosen by the producer
    state INTEGER NOT NULL,            -- position in StateName::ALL
    detail INTEGER NOT NULL,           -- dead: position in DeadBecause::ALL. Scheduled: 1 when held. Otherwise 0
    due INTEGER,                       -- scheduled and not held: when a worker may lease it
    wake INTEGER,                      -- running: when its lease, idle limit or deadline ends
    attempt INTEGER NOT NULL,          -- the latest attempt
    revision INTEGER NOT NULL,         -- the payload revision of the next attempt
    reason TEXT NOT NULL,              -- of the last failure; '' before the first
    category INTEGER NOT NULL,         -- of the last failure: position in Category::ALL, or -1
    pattern INTEGER REFERENCES patterns (id), -- of the last failure
    severity INTEGER NOT NULL,         -- position in Severity::ALL
    received_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    deferred_until INTEGER,            -- a person deferred the run to this time
    environment TEXT NOT NULL,
    agent TEXT,
    task_type TEXT,
    customer TEXT,
    model TEXT,
    provider TEXT,
    tool TEXT,                         -- where the last failure happened
    step TEXT,                         -- where the last failure happened
    idempotency_key TEXT,
    order_key TEXT,                    -- runs that share one execute one at a time
    held_by TEXT,                      -- scheduled and held: the breaker's name, or who holds it
    merged_into TEXT,                  -- merged: the run_id of the run that it is part of
    replays INTEGER NOT NULL,
    unleasable INTEGER,                -- 1: scheduled, but no worker can get its payload; otherwise NULL
    lease_request TEXT,                -- running: id and scope of the lease call that leased it
    assigned_to TEXT,                  -- the person who takes care of it
    life TEXT NOT NULL                 -- RunDocument as JSON
);
-- Lists: one state over all tenants, one state of a tenant, the runs of a pattern.
CREATE INDEX runs_state ON runs (state, id);
CREATE INDEX runs_tenant_state ON runs (tenant, state, id);
CREATE INDEX runs_pattern ON runs (pattern, id) WHERE pattern IS NOT NULL;
-- Lists by severity. Few runs are above normal, so the others pay nothing for these.
CREATE INDEX runs_urgent ON runs (severity, state, id) WHERE severity >= 2;
CREATE INDEX runs_tenant_urgent ON runs (tenant, severity, state, id) WHERE severity >= 2;
-- Claims, lists by due time, unclaimed runs.
CREATE INDEX runs_due ON runs (queue, tenant, due) WHERE due IS NOT NULL;
CREATE INDEX runs_deferred ON runs (deferred_until) WHERE deferred_until IS NOT NULL;
-- The rescue service, and which run of an order key is running.
CREATE INDEX runs_wake ON runs (wake) WHERE wake IS NOT NULL;
CREATE INDEX runs_order ON runs (tenant, order_key) WHERE order_key IS NOT NULL AND wake IS NOT NULL;
-- A repeated lease call gets the runs that it leased before.
CREATE INDEX runs_request ON runs (lease_request) WHERE lease_request IS NOT NULL AND wake IS NOT NULL;
-- Runs that wait for their caller instead of a worker.
CREATE INDEX runs_unleasable ON runs (queue) WHERE unleasable IS NOT NULL;
-- The runs that a breaker releases.
CREATE INDEX runs_held ON runs (held_by, tenant, id) WHERE held_by IS NOT NULL;

-- Finds a run by the hash of its tenant and run_id; both are compared to settle collisions. Only SQLite has these two:
-- hashes arrive in random order, so one large index would rewrite a page per run (ADR 2).
-- Written by the triggers below; the committer moves names from the small table to the large one (`run_names.rs`).
-- One row per run in either table, at most about 65,536 in run_names_new.
CREATE TABLE run_names (
    key_hash INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (key_hash, run)
) WITHOUT ROWID;
CREATE TABLE run_names_new (
    key_hash INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (key_hash, run)
) WITHOUT ROWID;
-- Triggers, so that every writer of runs, also a copy, keeps the names complete.
CREATE TRIGGER runs_named AFTER INSERT ON runs BEGIN
    INSERT INTO run_names_new (key_hash, run) VALUES (NEW.key_hash, NEW.id);
END;
CREATE TRIGGER runs_forgotten AFTER DELETE ON runs BEGIN
    DELETE FROM run_names_new WHERE key_hash = OLD.key_hash AND run = OLD.id;
    DELETE FROM run_names WHERE key_hash = OLD.key_hash AND run = OLD.id;
END;

-- A transition that is not the end of an attempt: a replay, a hold, a merge. Attempts are their own history.
-- Written with the transition. Grows with the decisions about a run.
CREATE TABLE history (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,               -- key:<name>, engine, …
    event TEXT NOT NULL,
    from_state INTEGER NOT NULL,       -- position in StateName::ALL
    to_state INTEGER NOT NULL,
    note BLOB                          -- a JSON string, codec
);
CREATE INDEX history_run ON history (run);

-- A run in review, with the replay that waits for approval.
-- Written by a replay that needs approval, and by a person who puts a run aside. One row per run, deleted when the review
-- ends or expires. A row may outlive its review until then; nothing reads it.
CREATE TABLE reviews (
    run INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    request BLOB,                      -- ReplayRequest as JSON, codec; NULL when a person put the run aside
    kind INTEGER,                      -- the fixed payload, ready to become a revision: as in payloads
    digest BLOB,
    body BLOB
);
CREATE INDEX reviews_expire ON reviews (expires_at);

-- A run whose row cannot be read. Its search columns are moved here, so that no service meets it.
-- Written by the service that met it, which restores it once it can be read again. One row per unreadable run.
CREATE TABLE runs_set_aside (
    run INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,               -- when it was last read without success
    why TEXT NOT NULL,
    due INTEGER,                       -- the run's own columns
    wake INTEGER,
    held_by TEXT,
    unleasable INTEGER,
    updated_at INTEGER NOT NULL        -- tells whether the run has changed since
);
CREATE INDEX runs_set_aside_at ON runs_set_aside (at);

-- ====================================================================================================================
-- Attempts and payloads
-- ====================================================================================================================

-- An ended attempt.
-- Written by the report that ends it, or by the rescue service. Grows with the attempts of each run.
-- A rowid table: WITHOUT ROWID spills rows above 1 KB to pages of their own, and ingest writes twice as much.
CREATE TABLE attempts (
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    outcome INTEGER NOT NULL,          -- position in Outcome::ALL
    digest BLOB,                       -- of the report: the same report again gets the same answer
    state INTEGER NOT NULL,            -- the run's state after it, as answered
    fp_version INTEGER,                -- the fingerprint, never changed by merges
    fp_hash INTEGER,
    pattern INTEGER REFERENCES patterns (id),
    pattern_new INTEGER NOT NULL,      -- this failure was the first of its pattern
    recorded_at INTEGER NOT NULL,
    origin TEXT NOT NULL,              -- AttemptOrigin as JSON
    verdict BLOB,                      -- Verdict as JSON, codec
    body BLOB NOT NULL,                -- AttemptBody as JSON, codec
    PRIMARY KEY (run, attempt)
);

-- A failure that arrived after its lease had ended: evidence, without effect on the run.
-- Written by the late report. One row per distinct report.
CREATE TABLE late_failures (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,            -- of the lost lease
    body BLOB NOT NULL                 -- AttemptBody as JSON, codec
);
CREATE INDEX late_failures_attempt ON late_failures (run, attempt);

-- A revision of a run's payload: 1 as captured, one more per fix.
-- Written by the first report or start, and by each fix. Never changed.
CREATE TABLE payloads (
    run INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    kind INTEGER NOT NULL,             -- position in PayloadKind::ALL
    digest BLOB NOT NULL,              -- finds duplicates
    about BLOB NOT NULL,               -- About as JSON, codec: what the producer said of the payload
    body BLOB NOT NULL,                -- the payload itself, codec
    PRIMARY KEY (run, revision)
);

-- Who made a revision after the first, and how.
-- Written by each fix, with the revision.
CREATE TABLE revisions (
    run INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    patch BLOB,                        -- the JSON Patch as sent, codec; NULL for a complete payload
    PRIMARY KEY (run, revision)
);

-- The payload that an attempt got, where changes made it differ from its revision.
-- Written when the lease is handed out. At most one row per attempt.
CREATE TABLE sent (
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,            -- of the lease: a released attempt's number is used again
    changes BLOB NOT NULL,             -- HandedChanges as JSON, codec
    body BLOB NOT NULL,                -- the payload as sent, codec
    PRIMARY KEY (run, attempt)
);

-- ====================================================================================================================
-- Ledger
-- ====================================================================================================================

-- A step or effect that a run has recorded. It outlives its run: what was done stays done.
-- Written by workers (intent, outcome), by the end of an attempt (open becomes unknown) and by reconciliation.
-- At most 10,000 rows per run. Rows of deleted runs are deleted 90 days after their last use.
CREATE TABLE steps (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    run INTEGER REFERENCES runs (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    run_id TEXT NOT NULL,              -- known also when the run is deleted
    attempt INTEGER NOT NULL,          -- that began it, or that recorded its outcome
    epoch INTEGER NOT NULL,            -- of that attempt's lease; 0 when reported without one
    key TEXT NOT NULL,                 -- unique within the run
    named INTEGER NOT NULL,            -- 1: the worker chose the key, so it is unique within the tenant
    name TEXT NOT NULL,
    effect INTEGER NOT NULL,           -- 1: it changes the outside world
    status INTEGER NOT NULL,           -- position in StepStatus::ALL
    outcome INTEGER,                   -- reconciled: position in EffectOutcome::ALL
    holds INTEGER NOT NULL,            -- 1: open, done or in doubt, so that no other run may begin this effect
    began_at INTEGER,                  -- when the intent was recorded; NULL where only the outcome was
    at INTEGER NOT NULL,               -- of the last change
    used_at INTEGER NOT NULL,          -- of the last change, or of the last time a worker got its result
    used_epoch INTEGER NOT NULL,       -- of the lease that used it: numbers repeated names within an attempt
    omitted_bytes INTEGER,             -- an output that was too large to store: its size and hash
    omitted_sha256 TEXT,
    versions TEXT,                     -- Versions as JSON; NULL where the worker named none
    settled_by TEXT,                   -- who reconciled it
    call_id TEXT,                      -- of the call that began it
    verify BLOB,                       -- the declared check, a JSON string, codec
    output BLOB                        -- last, so that reads of the other columns skip it
);
CREATE UNIQUE INDEX steps_run_key ON steps (run, key);
-- One effect of a key at a time.
CREATE UNIQUE INDEX steps_effect_key ON steps (tenant, key) WHERE effect = 1 AND named = 1 AND holds = 1;
CREATE INDEX steps_effect_free ON steps (tenant, key) WHERE effect = 1 AND named = 1 AND holds = 0;
-- The ledger service deletes these.
CREATE INDEX steps_left ON steps (used_at) WHERE run IS NULL;

-- A step in a run's ledger that was reported by another run, which is merged into it. Unmerging takes it back.
-- Written by reports of a merged run. At most one row per step, deleted with it.
CREATE TABLE merged_steps (
    step INTEGER PRIMARY KEY REFERENCES steps (id) ON DELETE CASCADE,
    run INTEGER NOT NULL,              -- the run that has it in its ledger
    from_run INTEGER NOT NULL,         -- the merged run that reported it
    at INTEGER NOT NULL,               -- steps.at at that time; a step that has changed since is not taken back
    own_status INTEGER,                -- the run's own step before; NULL where there was none
    own_outcome INTEGER
);
CREATE INDEX merged_steps_run ON merged_steps (run);

-- ====================================================================================================================
-- Patterns
-- ====================================================================================================================

-- A pattern: failures of one tenant with the same fingerprint.
-- Written by each failure (figures) and by people (state, owner, merge). Grows with the number of distinct causes.
-- A merged pattern keeps its row, its figures and its runs. Only merged_into changes, and reads add the figures of the
-- group, so merging costs the same for any number of runs. No chains: a head is never merged itself.
CREATE TABLE patterns (
    id INTEGER PRIMARY KEY,
    public_id TEXT NOT NULL UNIQUE,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    fp_version INTEGER NOT NULL,
    fp_hash INTEGER NOT NULL,
    template TEXT NOT NULL,            -- the error text with its variable parts masked
    reason TEXT NOT NULL,
    category INTEGER NOT NULL,         -- position in Category::ALL
    count INTEGER NOT NULL,            -- failed attempts
    open INTEGER NOT NULL,             -- runs of it that are not closed
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    state INTEGER NOT NULL,            -- position in PatternState::ALL
    regression INTEGER NOT NULL,       -- 1: seen again after it was resolved
    owner TEXT,
    merged_into INTEGER REFERENCES patterns (id),
    group_seen INTEGER NOT NULL DEFAULT 0, -- of a head: last_seen of its group, the order of lists
    muted_until INTEGER,               -- muted: NULL means for good
    before_mute INTEGER,               -- the state that returns when the mute ends
    resolved_at INTEGER,
    resolved_in TEXT,                  -- Versions as JSON; NULL: fixed for all that start after resolved_at
    hour INTEGER NOT NULL DEFAULT 0,   -- the current hour, counted here and moved to pattern_hourly when it ends
    hour_count INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX patterns_tenant ON patterns (tenant, group_seen) WHERE merged_into IS NULL;
CREATE INDEX patterns_fingerprint ON patterns (fp_hash, fp_version);
CREATE INDEX patterns_merged ON patterns (merged_into) WHERE merged_into IS NOT NULL;

-- The pattern of a fingerprint.
-- Written with a new pattern. One row per fingerprint of a tenant.
CREATE TABLE pattern_alias (
    tenant INTEGER NOT NULL,
    fp_hash INTEGER NOT NULL,
    fp_version INTEGER NOT NULL,
    pattern INTEGER NOT NULL REFERENCES patterns (id),
    PRIMARY KEY (tenant, fp_hash, fp_version)
) WITHOUT ROWID;

-- An event of a pattern: new, resolved, a regression, a note.
-- Written by people and by failures that change the state. The newest 1,000 per pattern are kept.
CREATE TABLE pattern_events (
    id INTEGER PRIMARY KEY,
    pattern INTEGER NOT NULL REFERENCES patterns (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event INTEGER NOT NULL,            -- position in PatternEvent::ALL
    about TEXT,                        -- the run, fixed version, owner or end of mute
    note BLOB                          -- a JSON string, codec
);
CREATE INDEX pattern_events_pattern ON pattern_events (pattern);

-- Failed attempts of a pattern in one hour.
-- Written with the commit that ends the hour. Seven days per pattern are kept.
CREATE TABLE pattern_hourly (
    pattern INTEGER NOT NULL,
    hour INTEGER NOT NULL,             -- its first millisecond
    n INTEGER NOT NULL,
    PRIMARY KEY (pattern, hour)
) WITHOUT ROWID;

-- ====================================================================================================================
-- Queues and policies
-- ====================================================================================================================

-- A queue with its settings. All tenants share the name; tenant_names says who uses it.
-- Written by an admin, the configuration, or the first run that names it. Grows with tenant_names.
CREATE TABLE queues (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL,            -- QueueSettings as JSON
    created_at INTEGER NOT NULL,
    declared INTEGER NOT NULL DEFAULT 0 -- 1: set by an admin or the configuration
);
CREATE INDEX queues_declared ON queues (id) WHERE declared = 1;

-- The last lease call for a queue and tenant: shows queues without workers, and what a replay would run with.
-- Written by lease calls. One row per queue and tenant that workers ask for.
CREATE TABLE lease_calls (
    queue INTEGER NOT NULL,            -- 0: the call named no queue
    tenant INTEGER NOT NULL,           -- 0: the key spans all tenants
    at INTEGER NOT NULL,
    versions TEXT,                     -- Versions as JSON, of the last call that named any
    PRIMARY KEY (queue, tenant)
) WITHOUT ROWID;

-- ====================================================================================================================
-- Breakers
-- ====================================================================================================================

-- A breaker that has counted something. One without recent failures has no row.
-- Written by the ends of attempts, probes and people. At most 64 per tenant; idle closed ones are deleted.
CREATE TABLE breakers (
    name TEXT PRIMARY KEY,             -- as in runs.held_by
    environment TEXT NOT NULL,
    tenant INTEGER REFERENCES tenants (id), -- NULL: of a model, for all tenants
    provider TEXT,                     -- of a model's breaker; '' where reports named none
    model TEXT,
    life BLOB NOT NULL,                -- Breaker as JSON, codec
    open INTEGER NOT NULL,             -- 1: open or half open
    moved_at INTEGER NOT NULL          -- when it last counted
) WITHOUT ROWID;
CREATE INDEX breakers_open ON breakers (name) WHERE open = 1;
CREATE INDEX breakers_tenant ON breakers (tenant);
CREATE INDEX breakers_idle ON breakers (moved_at) WHERE open = 0;

-- The last generation of any breaker, so that none is used twice.
-- Written by state changes of breakers. One row.
CREATE TABLE breaker_generation (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
);

-- An event of a breaker: opened, half open, closed, by whom.
-- Written by state changes. The newest 1,000 per breaker, and 90 days, are kept.
CREATE TABLE breaker_events (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,                -- of the breaker, whose row may be gone
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    note BLOB                          -- a JSON string, codec
);
CREATE INDEX breaker_events_name ON breaker_events (name, id);

-- ====================================================================================================================
-- Operations
-- ====================================================================================================================

-- A bulk operation: one action over a frozen set of runs.
-- Written by the person who creates or controls it and by the operations service. Grows with the operations made.
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    action INTEGER NOT NULL,           -- position in OperationAction::ALL
    state INTEGER NOT NULL,            -- position in OperationState::ALL
    preparing INTEGER NOT NULL,        -- 1: the set is not complete yet
    all_moved INTEGER NOT NULL,        -- 1: every item was processed
    open INTEGER NOT NULL,             -- 1: the operations service has work to do
    spec BLOB NOT NULL,                -- NewOperation as JSON, codec
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    last_run INTEGER NOT NULL,         -- the newest run at creation: later runs are not part of the set
    prepared_to INTEGER NOT NULL,      -- cursor of the freeze: a run id, or an index into the listed ids
    moved_to INTEGER NOT NULL,         -- cursor of the work, committed with the items
    matched INTEGER NOT NULL,
    eligible INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    tallies TEXT NOT NULL,             -- skipped items by reason, as JSON
    samples BLOB,                      -- OperationSamples as JSON, codec
    canary INTEGER,                    -- position in CanaryState::ALL; NULL without a canary
    canary_until INTEGER,              -- all canary items are moved: when the wait for their outcomes ends
    canary_last INTEGER NOT NULL,      -- the last run of the canary; 0 without one
    stopped_because TEXT,
    joined TEXT,                       -- Joined as JSON: runs that failed the same way since the freeze
    pace_from INTEGER NOT NULL,        -- the rate limit counts pace_moved items since then
    pace_moved INTEGER NOT NULL,
    changes_seen INTEGER NOT NULL,     -- outcomes are known up to this row of changes
    settle_until INTEGER,              -- nothing more will move: when the wait for outcomes ends
    holder TEXT,                       -- the replica that works on it
    held_until INTEGER NOT NULL
);
CREATE INDEX operations_open ON operations (id) WHERE open = 1;

-- A run of an operation's set, as it was when the set was frozen: a run that has changed since is skipped.
-- Written by the freeze, then by the work. Narrow, because a set can hold every run.
CREATE TABLE operation_items (
    operation INTEGER NOT NULL,
    run INTEGER NOT NULL,
    outcome INTEGER NOT NULL,          -- position in ItemOutcome::ALL
    why TEXT,                          -- skipped or failed: the reason
    state INTEGER NOT NULL,            -- when frozen: position in StateName::ALL
    attempt INTEGER NOT NULL,          -- when frozen
    decisions INTEGER NOT NULL,        -- when frozen: how many decisions people had made about it
    PRIMARY KEY (operation, run)
) WITHOUT ROWID;

-- ====================================================================================================================
-- Counters and roll-ups
-- ====================================================================================================================

-- Runs of a tenant by state, queue, reason and detail. `store check` compares it with a recount.
-- Written once per commit. Grows with the combinations in use.
CREATE TABLE counts (
    state INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (state, tenant, queue, reason, detail)
) WITHOUT ROWID;

-- The same over all tenants, so that a spanning key reads no more rows than a tenant's.
-- Written once per commit. Grows with the combinations in use.
CREATE TABLE totals (
    state INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    reason TEXT NOT NULL,
    detail INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (state, queue, reason, detail)
) WITHOUT ROWID;

-- Events of one hour by tenant, queue and reason; events without a failure have the reason ''.
-- Written once per commit. Grows by the combinations in use per hour.
CREATE TABLE hours (
    hour INTEGER NOT NULL,             -- its first millisecond
    tenant INTEGER NOT NULL,
    queue INTEGER NOT NULL,
    reason TEXT NOT NULL,
    started INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    retried INTEGER NOT NULL,
    dead INTEGER NOT NULL,
    recovered INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    PRIMARY KEY (hour, tenant, queue, reason)
) WITHOUT ROWID;

-- What a tenant's retries cost on one day (UTC), for spend caps.
-- Written once per commit, by retries that report their usage. 31 days per tenant are kept.
CREATE TABLE retry_spend (
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    day INTEGER NOT NULL,              -- its first millisecond
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,      -- millionths of a dollar
    PRIMARY KEY (tenant, day)
) WITHOUT ROWID;

-- ====================================================================================================================
-- Change log
-- ====================================================================================================================

-- A commit and the runs that it moved: what /v1/changes and operations read.
-- Written by every commit that moves a run. 24 hours are kept.
-- AUTOINCREMENT: a sequence number is a cursor, so it is never reused.
CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    runs BLOB NOT NULL                 -- run ids, 8 bytes each, little-endian
);

-- ====================================================================================================================
-- Keys and replicas
-- ====================================================================================================================

-- An API key.
-- Written by `redrive keys` and the API. Grows with the keys made; a revoked key keeps its row.
CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,         -- SHA-256 of the secret
    role INTEGER NOT NULL,             -- position in Role::ALL
    tenant TEXT,                       -- NULL: spans all tenants
    note TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    lineage TEXT NOT NULL              -- the id of the first key in a chain of rotations
) WITHOUT ROWID;

-- The last sign of life of a replica.
-- Written once a second by each replica. Rows older than a day are deleted.
CREATE TABLE stamps (
    replica TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;

-- A time in which no replica ran; it spends no attempt.
-- Written by the first service after the gap. The newest 1,000 are kept.
CREATE TABLE absences (
    since INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
);

-- A row that a service could not process, taken out of its table for a person to look at.
-- Written by that service; health counts the rows. Grows with damage, and nothing deletes it.
CREATE TABLE set_aside (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,              -- the table that it was in
    why TEXT NOT NULL,
    body TEXT NOT NULL                 -- the row as JSON
);
