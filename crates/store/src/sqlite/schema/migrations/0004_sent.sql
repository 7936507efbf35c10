-- What an attempt got, where that was not its revision's payload as it is.
CREATE TABLE sent (
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,            -- of the lease that it went out under
    changes BLOB NOT NULL,             -- HandedChanges as JSON through the codec
    body BLOB NOT NULL,                -- the JSON token through the codec
    PRIMARY KEY (run, attempt)
);
