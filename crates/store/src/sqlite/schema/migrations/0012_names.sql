-- Where runs are found by their names. A name is as good as random: one index of them all has another page to change for
-- each run that comes in. So there are two. A run's name goes into the small one; what is more than fits there is moved on
-- in the order of the hashes, many names to a page (`names.rs`).
CREATE TABLE run_names (
    key_hash INTEGER NOT NULL,         -- of tenant and run_id; a collision is settled by comparing both
    run INTEGER NOT NULL,
    PRIMARY KEY (key_hash, run)
) WITHOUT ROWID;
CREATE TABLE run_names_new (
    key_hash INTEGER NOT NULL,
    run INTEGER NOT NULL,
    PRIMARY KEY (key_hash, run)
) WITHOUT ROWID;
INSERT INTO run_names SELECT key_hash, id FROM runs ORDER BY key_hash, id;
DROP INDEX runs_key;
-- Whoever writes a run, it can be found.
CREATE TRIGGER runs_named AFTER INSERT ON runs BEGIN
    INSERT INTO run_names_new (key_hash, run) VALUES (NEW.key_hash, NEW.id);
END;
CREATE TRIGGER runs_forgotten AFTER DELETE ON runs BEGIN
    DELETE FROM run_names_new WHERE key_hash = OLD.key_hash AND run = OLD.id;
    DELETE FROM run_names WHERE key_hash = OLD.key_hash AND run = OLD.id;
END;
