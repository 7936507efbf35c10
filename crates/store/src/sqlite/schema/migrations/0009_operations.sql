-- Bulk: one action over a frozen set of runs.
CREATE TABLE operations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    action INTEGER NOT NULL,           -- position in OperationAction::ALL
    state INTEGER NOT NULL,            -- position in OperationState::ALL
    preparing INTEGER NOT NULL,        -- the set is not whole yet
    all_moved INTEGER NOT NULL,        -- every item has had its turn
    open INTEGER NOT NULL,             -- the engine has to look at it
    spec BLOB NOT NULL,                -- NewOperation as JSON through the codec
    actor TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    last_run INTEGER NOT NULL,         -- the newest run when it was made: none after it is part of the set
    prepared_to INTEGER NOT NULL,      -- how far the set is frozen: a run's number, or how many of the ids
    moved_to INTEGER NOT NULL,         -- the last item that had its turn; commits with the items themselves
    matched INTEGER NOT NULL,
    eligible INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    succeeded INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    tallies TEXT NOT NULL,             -- why not and how many, as JSON
    samples BLOB,                      -- OperationSamples as JSON through the codec
    canary INTEGER,                    -- position in CanaryState::ALL; none without a canary
    canary_until INTEGER,              -- all of the canary is moved: how long its outcomes are awaited
    canary_last INTEGER NOT NULL,      -- the last run of the canary; 0 without one
    stopped_because TEXT,
    joined TEXT,                       -- Joined as JSON
    pace_from INTEGER NOT NULL,
    pace_moved INTEGER NOT NULL,
    changes_seen INTEGER NOT NULL,     -- outcomes are known up to this row of changes
    settle_until INTEGER,              -- nothing more will move: how long outcomes are awaited
    holder TEXT,                       -- the replica at work on it
    held_until INTEGER NOT NULL
);
CREATE INDEX operations_open ON operations (id) WHERE open = 1;

-- Small on purpose: a set may be all there is. What the run was when the set was frozen tells whether it still is.
CREATE TABLE operation_items (
    operation INTEGER NOT NULL,
    run INTEGER NOT NULL,
    outcome INTEGER NOT NULL,          -- position in ItemOutcome::ALL
    why TEXT,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    decisions INTEGER NOT NULL,        -- how often a person had decided about it
    PRIMARY KEY (operation, run)
) WITHOUT ROWID;
