-- What each tenant's retries have used up, by the day (UTC), and only where a retry says what it used.
CREATE TABLE retry_spend (
    tenant BIGINT NOT NULL,
    day BIGINT NOT NULL,               -- its first millisecond
    tokens BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,       -- millionths of a dollar
    PRIMARY KEY (tenant, day)
) WITH (fillfactor = 50);

-- What came since the last fold: as counter_deltas.
CREATE TABLE spend_deltas (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    tenant BIGINT NOT NULL,
    day BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);
