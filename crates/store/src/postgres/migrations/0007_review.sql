-- Who looks after a run.
ALTER TABLE runs ADD COLUMN assigned_to BYTEA;

-- What the workers that last leased from a queue run with, as JSON: what a replay would run with.
ALTER TABLE queues ADD COLUMN worker_versions BYTEA;

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
