-- What an attempt got, where that was not its revision's payload as it is.
CREATE TABLE sent (
    run BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    epoch BIGINT NOT NULL,             -- of the lease that it went out under
    changes BYTEA NOT NULL,            -- HandedChanges as JSON through the codec
    body BYTEA NOT NULL,               -- the JSON token through the codec
    PRIMARY KEY (run, attempt)
);
ALTER TABLE sent ALTER changes SET STORAGE EXTERNAL, ALTER body SET STORAGE EXTERNAL;
