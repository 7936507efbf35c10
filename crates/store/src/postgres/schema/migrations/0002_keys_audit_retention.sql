-- Keys with scopes, the audit log, retention and encryption. One section per capability.

-- ====================================================================================================================
-- Backup and restore
-- ====================================================================================================================

-- The freeze of a restored store: no lease and no automatic retry until an operator lifts it.
-- Written by `store restore` and `store restored`, deleted by the release. At most one row.
CREATE TABLE store_freeze (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    restored_at BIGINT NOT NULL,
    backup_at BIGINT         -- when the backup was made; NULL if that is not known
);
