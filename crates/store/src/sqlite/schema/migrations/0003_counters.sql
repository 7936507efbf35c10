-- Fewer counters a failure: with many tenants a small batch wrote more counter rows than runs.

-- All that happened in an hour under one reason is one row. What is no failure has the reason ''.
CREATE TABLE hours (
    hour INTEGER NOT NULL,
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
INSERT INTO hours
SELECT hour, tenant, queue, reason, sum(iif(kind = 0, n, 0)), sum(iif(kind = 1, n, 0)), sum(iif(kind = 2, n, 0)),
    sum(iif(kind = 3, n, 0)), sum(iif(kind = 4, n, 0)), sum(iif(kind = 5, n, 0))
FROM hourly GROUP BY hour, tenant, queue, reason;
DROP TABLE hourly;

-- The hour under way is counted on the pattern itself, and moves to pattern_hourly when the next one begins.
ALTER TABLE patterns ADD COLUMN hour INTEGER NOT NULL DEFAULT 0;
ALTER TABLE patterns ADD COLUMN hour_count INTEGER NOT NULL DEFAULT 0;

-- The newest pattern tells it.
ALTER TABLE tenants DROP COLUMN last_failure_at;

-- Rows that a service could not work with: kept for a person, so that they stop nothing else.
CREATE TABLE set_aside (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,              -- the table it was in
    why TEXT NOT NULL,
    body TEXT NOT NULL                 -- the row, as JSON
);

-- Runs whose row can't be read, out of the way of every service; with what services found them by, so that they can be put
-- back.
CREATE TABLE runs_set_aside (
    run INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    why TEXT NOT NULL,
    due INTEGER,
    wake INTEGER,
    held_by TEXT,
    unleasable INTEGER,
    updated_at INTEGER NOT NULL        -- the run's, to tell whether it has changed since
);
CREATE INDEX runs_set_aside_at ON runs_set_aside (at);
