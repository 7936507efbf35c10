-- All that happened in an hour under one reason is one row, as of the last fold. What is no failure has the reason ''.
CREATE TABLE hours (
    hour BIGINT NOT NULL,
    tenant BIGINT NOT NULL,
    queue BIGINT NOT NULL,
    started BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    retried BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    recovered BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (hour, tenant, queue, reason)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- What came since: as counter_deltas.
CREATE TABLE hour_deltas (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    hour BIGINT NOT NULL,
    tenant BIGINT NOT NULL,
    queue BIGINT NOT NULL,
    started BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    retried BIGINT NOT NULL,
    dead BIGINT NOT NULL,
    recovered BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    reason TEXT COLLATE "C" NOT NULL
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- The hour under way is counted on the pattern itself, and moves to pattern_hourly when the next one begins.
ALTER TABLE patterns
    ADD COLUMN hour BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN hour_count BIGINT NOT NULL DEFAULT 0;
