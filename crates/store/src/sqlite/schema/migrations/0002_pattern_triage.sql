-- What people do about patterns, and what is needed to tell a regression from an echo.

-- A merged pattern keeps its row, its aliases and its counters, and its runs keep pointing at it: merging and
-- unmerging change this one column, whatever the number of runs. The group's figures are summed when they are read.
-- Never a chain: what is merged is merged into a pattern that is not.
ALTER TABLE patterns ADD COLUMN merged_into INTEGER REFERENCES patterns (id);
-- When any of the group was last seen: what lists are sorted by.
ALTER TABLE patterns ADD COLUMN group_seen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE patterns ADD COLUMN muted_until INTEGER;   -- muted: none means for good
ALTER TABLE patterns ADD COLUMN before_mute INTEGER;   -- the state that comes back when the time is over
ALTER TABLE patterns ADD COLUMN resolved_at INTEGER;
ALTER TABLE patterns ADD COLUMN resolved_in TEXT;      -- Versions as JSON; none: whatever starts afterwards
UPDATE patterns SET group_seen = last_seen;

DROP INDEX patterns_tenant;
CREATE INDEX patterns_tenant ON patterns (tenant, group_seen) WHERE merged_into IS NULL;
CREATE INDEX patterns_merged ON patterns (merged_into) WHERE merged_into IS NOT NULL;

-- Versions in the order in which each tenant first met them: the id is that order.
CREATE TABLE versions_seen (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    kind TEXT NOT NULL,
    version TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    UNIQUE (tenant, kind, version)
);

CREATE TABLE pattern_events (
    id INTEGER PRIMARY KEY,
    pattern INTEGER NOT NULL REFERENCES patterns (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event INTEGER NOT NULL,            -- position in PatternEvent::ALL
    about TEXT,
    note BLOB                          -- a JSON string through the codec
);
CREATE INDEX pattern_events_pattern ON pattern_events (pattern);

-- Failed attempts by the hour; folded once per commit.
CREATE TABLE pattern_hourly (
    pattern INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (pattern, hour)
) WITHOUT ROWID;
