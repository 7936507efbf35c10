-- Who looks after a run.
ALTER TABLE runs ADD COLUMN assigned_to TEXT;

-- When workers last asked for a tenant's runs in a queue, and what those that said so run with: what a replay would run
-- with. Queue 0: they asked for every queue. Tenant 0: their key spans all tenants.
CREATE TABLE lease_calls (
    queue INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    at INTEGER NOT NULL,
    versions TEXT,                     -- Versions as JSON
    PRIMARY KEY (queue, tenant)
) WITHOUT ROWID;

-- Who made a later revision of a payload, and by which patch.
CREATE TABLE revisions (
    run INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    patch BLOB,                        -- the JSON Patch as sent, through the codec; none for a payload given whole
    PRIMARY KEY (run, revision)
);

-- Runs in review, and what waits for a yes. A row may outlive the review; then nobody reads it, and it goes when it lapses.
CREATE TABLE reviews (
    run INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    request BLOB,                      -- ReplayRequest as JSON through the codec; none when a person put it aside
    kind INTEGER,                      -- the payload as fixed, ready to be kept
    digest BLOB,
    body BLOB
);
CREATE INDEX reviews_expire ON reviews (expires_at);
