-- What an attempt got, where that was not its revision's payload as it is. id = run << 20 | attempt.
CREATE TABLE sent (
    id INTEGER PRIMARY KEY,
    epoch INTEGER NOT NULL,            -- of the lease that it went out under
    changes BLOB NOT NULL,             -- HandedChanges as JSON through the codec
    body BLOB NOT NULL                 -- the JSON token through the codec
);
