-- Breakers that have something to say; one that has seen no failure needs no row.
CREATE TABLE breakers (
    name TEXT PRIMARY KEY,             -- as `held_by` says it
    environment TEXT NOT NULL,
    tenant INTEGER REFERENCES tenants (id), -- none: everybody's
    provider TEXT,                     -- of a model's; '' where the reports did not say
    model TEXT,
    life BLOB NOT NULL,                -- Breaker as JSON through the codec
    open INTEGER NOT NULL,            -- 1: not closed
    moved_at INTEGER NOT NULL         -- when anything was last counted for it
) WITHOUT ROWID;

CREATE INDEX breakers_open ON breakers (name) WHERE open = 1;
CREATE INDEX breakers_tenant ON breakers (tenant);
CREATE INDEX breakers_idle ON breakers (moved_at) WHERE open = 0;

-- The last generation that was given out, so that none is used twice.
CREATE TABLE breaker_generation (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
);

CREATE TABLE breaker_events (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    event TEXT NOT NULL,
    note BLOB
);
CREATE INDEX breaker_events_name ON breaker_events (name, id);

-- Held runs by their holder and tenant, so that letting go looks at no others.
CREATE INDEX runs_held ON runs (held_by, tenant, id) WHERE held_by IS NOT NULL;
