//! Versions of the schema: what both stores have in common about them.

use redrive_engine::error::{Error, PortResult as Result};

/// One step of the schema. Its position in a store's list, plus one, is the version that it leads to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// A store's migrations, followed by [`UPGRADE`] where a test asks for it.
pub(crate) fn with_test_upgrade(migrations: &[Migration]) -> Vec<Migration> {
    let is_asked_for = cfg!(debug_assertions) && std::env::var_os("REDRIVE_TEST_MIGRATION").is_some();
    migrations.iter().copied().chain(is_asked_for.then_some(UPGRADE)).collect()
}

/// A migration of debug builds, so that the suites can test an upgrade while there is only one schema.
pub(crate) const UPGRADE: Migration = Migration {
    name: "test_upgrade",
    sql: "ALTER TABLE runs ADD COLUMN test_upgrade BIGINT;
CREATE TABLE test_upgrade (run BIGINT PRIMARY KEY);
INSERT INTO test_upgrade (run) SELECT id FROM runs;
CREATE INDEX runs_test_upgrade ON runs (test_upgrade);
",
};

pub(crate) fn newest(migrations: &[Migration]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

pub(crate) fn refuse_newer(found: u32, known: u32) -> Result<()> {
    if found > known {
        return Err(Error::Unexpected(format!(
            "the store has schema {found}, newer than this binary's {known}: use the newer redrive"
        ))
        .into());
    }
    Ok(())
}

/// For commands that open a store beside its server and never migrate it.
pub(crate) fn refuse_other(found: u32, known: u32) -> Result<()> {
    refuse_newer(found, known)?;
    if found < known {
        return Err(Error::Unexpected(format!(
            "the store has schema {found}, this binary needs {known}: start `redrive serve` once to migrate it"
        ))
        .into());
    }
    Ok(())
}
