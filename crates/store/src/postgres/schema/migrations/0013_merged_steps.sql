-- Entries of a run's ledger that another run, which is merged into it, has reported: with what they were before, so that
-- they can be taken back with the merge.
CREATE TABLE merged_steps (
    step BIGINT PRIMARY KEY REFERENCES steps (id) ON DELETE CASCADE,
    run BIGINT NOT NULL,               -- whose ledger it is in
    from_run BIGINT NOT NULL,          -- who reported it
    at BIGINT NOT NULL,                -- the entry's own; one that has moved since is its run's for good
    own_status BIGINT,                 -- as the run's own entry stood before; none where it had none
    own_outcome BIGINT
);
CREATE INDEX merged_steps_run ON merged_steps (run);
