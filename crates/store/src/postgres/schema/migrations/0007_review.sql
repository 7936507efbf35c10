-- Who looks after a run.
ALTER TABLE runs ADD COLUMN assigned_to BYTEA;

-- When workers last asked for a tenant's runs in a queue, and what those that said so run with: what a replay would run
-- with. Queue 0: they asked for every queue. Tenant 0: their key spans all tenants.
CREATE TABLE lease_calls (
    queue BIGINT NOT NULL,
    tenant BIGINT NOT NULL,
    at BIGINT NOT NULL,
    versions BYTEA,                    -- Versions as JSON
    PRIMARY KEY (queue, tenant)
) WITH (fillfactor = 50);

-- Who made a later revision of a payload, and by which patch.
CREATE TABLE revisions (
    run BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT COLLATE "C" NOT NULL,
    patch BYTEA,                       -- the JSON Patch as sent, through the codec; none for a payload given whole
    PRIMARY KEY (run, revision)
);

-- Runs in review, and what waits for a yes. A row may outlive the review; then nobody reads it, and it goes when it lapses.
CREATE TABLE reviews (
    run BIGINT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    kind BIGINT,                       -- the payload as fixed, ready to be kept
    actor TEXT COLLATE "C" NOT NULL,
    request BYTEA,                     -- ReplayRequest as JSON through the codec; none when a person put it aside
    digest BYTEA,
    body BYTEA
);
ALTER TABLE reviews ALTER body SET STORAGE EXTERNAL;
CREATE INDEX reviews_expire ON reviews (expires_at);
