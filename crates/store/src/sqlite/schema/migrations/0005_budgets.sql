-- What each tenant's retries have used up, by the day (UTC); folded once per commit, and only where a retry says what it
-- used.
CREATE TABLE retry_spend (
    tenant INTEGER NOT NULL REFERENCES tenants (id),
    day INTEGER NOT NULL,              -- its first millisecond
    tokens INTEGER NOT NULL,
    cost_micros INTEGER NOT NULL,      -- millionths of a dollar
    PRIMARY KEY (tenant, day)
) WITHOUT ROWID;
