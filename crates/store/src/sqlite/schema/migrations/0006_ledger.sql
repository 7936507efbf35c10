-- The ledger in full. Rebuilt, since an entry now outlives its run: what was done stays done.
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    run INTEGER REFERENCES runs (id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    run_id TEXT NOT NULL,              -- the run's name, also when the run is gone
    attempt INTEGER NOT NULL,          -- that began it, or that recorded its outcome
    epoch INTEGER NOT NULL,            -- of that attempt's lease; 0 when reported without one
    key TEXT NOT NULL,
    named INTEGER NOT NULL,            -- the worker gave the key
    name TEXT NOT NULL,
    effect INTEGER NOT NULL,
    status INTEGER NOT NULL,           -- position in StepStatus::ALL
    outcome INTEGER,                   -- reconciled: position in EffectOutcome::ALL
    holds INTEGER NOT NULL,            -- of an effect: open, done or in doubt, so that no other run may begin it
    began_at INTEGER,                  -- when the intent was recorded; none where only the outcome was
    at INTEGER NOT NULL,               -- of the last move
    used_at INTEGER NOT NULL,          -- of the last move, or when it was last given back
    used_epoch INTEGER NOT NULL,       -- of the lease that did; tells which of a name an attempt has met
    omitted_bytes INTEGER,
    omitted_sha256 TEXT,
    versions TEXT,                     -- Versions as JSON; none where nobody said
    settled_by TEXT,                   -- who reconciled it
    call_id TEXT,                      -- of the call that began it
    verify BLOB,                       -- the declared check, a JSON string through the codec
    output BLOB                        -- last: whoever reads the others does not pass over it
);

-- Nothing that failed before gave its key up; from now on it does.
INSERT INTO ledger (id, tenant, run, run_id, attempt, epoch, key, named, name, effect, status, holds, began_at, at,
    used_at, used_epoch, output, omitted_bytes, omitted_sha256)
SELECT steps.id, steps.tenant, steps.run, runs.run_id, steps.attempt, steps.epoch, steps.key, steps.named, steps.name,
    steps.effect, steps.status, steps.status <> 2, steps.at, steps.at, steps.at, steps.epoch, steps.output,
    steps.omitted_bytes, steps.omitted_sha256
FROM steps JOIN runs ON runs.id = steps.run;

DROP TABLE steps;
ALTER TABLE ledger RENAME TO steps;

CREATE UNIQUE INDEX steps_run_key ON steps (run, key);
CREATE UNIQUE INDEX steps_effect_key ON steps (tenant, key) WHERE effect = 1 AND named = 1 AND holds = 1;
CREATE INDEX steps_effect_free ON steps (tenant, key) WHERE effect = 1 AND named = 1 AND holds = 0;
-- What may be forgotten in time: whose run is gone.
CREATE INDEX steps_left ON steps (used_at) WHERE run IS NULL;
