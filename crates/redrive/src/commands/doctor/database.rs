//! Checks of a PostgreSQL database that holds the store.

use redrive_core::time::MINUTE_MS;
use redrive_store::postgres::{Setup, Visit};

use super::{Finding, FindingLevel};

const MIB: u64 = 1 << 20;
/// A transaction open for longer than this keeps dead rows, which slow claims.
const OLD_TRANSACTION_MS: u64 = 10 * MINUTE_MS;
/// A server folds deltas every second: more rows than this mean that none does.
const UNFOLDED_MAX: u64 = 100_000;

pub(crate) fn database(store: &mut Visit) -> Vec<Finding> {
    match store.setup() {
        Ok(setup) => vec![
            version(store.name(), &setup),
            durability(&setup),
            indexes(&setup),
            connections(&setup),
            cleaning(&setup),
            folding(&setup),
        ],
        Err(error) => vec![Finding::unreadable("store", error)],
    }
}

fn version(name: &str, setup: &Setup) -> Finding {
    let Setup { server_version, schema, bytes, .. } = setup;
    let seen = format!("PostgreSQL {server_version} at {name}, schema {schema}, {} MiB", bytes / MIB);
    if setup.follows {
        let what = "Point Redrive at the primary: this one can't be written to.";
        return Finding::new(FindingLevel::Danger, "store", format!("{seen}; it is a standby"), what);
    }
    Finding::fine("store", seen)
}

fn durability(setup: &Setup) -> Finding {
    let Setup { fsync, synchronous_commit, full_page_writes, .. } = setup;
    let word = |on: &bool| if *on { "on" } else { "off" };
    let seen = format!(
        "fsync {}, synchronous_commit {synchronous_commit}, full_page_writes {}",
        word(fsync),
        word(full_page_writes)
    );
    if *fsync && *full_page_writes && synchronous_commit != "off" {
        return Finding::fine("durability", seen);
    }
    let what = "Turn them on: a crash could lose or damage acknowledged writes.";
    Finding::new(FindingLevel::Danger, "durability", seen, what)
}

fn indexes(setup: &Setup) -> Finding {
    if setup.invalid_indexes.is_empty() {
        return Finding::fine("integrity", "every index is valid");
    }
    let names = setup.invalid_indexes.join(", ");
    let what = format!("Rebuild them: `REINDEX INDEX {names}`.");
    Finding::new(FindingLevel::Danger, "integrity", format!("not valid: {names}"), what)
}

fn connections(setup: &Setup) -> Finding {
    let Setup { connections, connections_max, .. } = setup;
    let seen = format!("{connections} of {connections_max} connections in use");
    if connections * 10 < connections_max * 9 {
        return Finding::fine("connections", seen);
    }
    let what = "Raise max_connections, or run fewer replicas: each needs about twenty.";
    Finding::new(FindingLevel::Action, "connections", seen, what)
}

fn cleaning(setup: &Setup) -> Finding {
    if !setup.autovacuum {
        let what = "Turn autovacuum on: without it the queue gets slower every hour.";
        return Finding::new(FindingLevel::Action, "vacuum", "autovacuum is off", what);
    }
    let minutes = setup.oldest_transaction_ms / MINUTE_MS;
    if setup.oldest_transaction_ms > OLD_TRANSACTION_MS {
        let what = "End it if it is not needed: it keeps dead rows from being vacuumed.";
        return Finding::new(FindingLevel::Action, "vacuum", format!("a transaction is open for {minutes} min"), what);
    }
    Finding::fine("vacuum", "autovacuum is on, and no transaction holds it up")
}

fn folding(setup: &Setup) -> Finding {
    let seen = format!("{} rows wait to be folded into the figures", setup.unfolded);
    if setup.unfolded < UNFOLDED_MAX {
        return Finding::fine("figures", seen);
    }
    Finding::new(
        FindingLevel::Action,
        "figures",
        seen,
        "Start a server: it folds them. Until then figures are slow to read.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            server_version: "15.1".into(),
            schema: 9,
            fsync: true,
            synchronous_commit: "on".into(),
            full_page_writes: true,
            autovacuum: true,
            follows: false,
            bytes: 5 * MIB,
            connections: 20,
            connections_max: 100,
            oldest_transaction_ms: 0,
            unfolded: 3,
            invalid_indexes: Vec::new(),
        }
    }

    #[test]
    fn data_loss_risk_is_danger_and_slowness_is_action() {
        assert_eq!(version("h", &setup()).severity, FindingLevel::Fine);
        assert_eq!(version("h", &Setup { follows: true, ..setup() }).severity, FindingLevel::Danger);
        assert_eq!(durability(&setup()).severity, FindingLevel::Fine);
        assert_eq!(durability(&Setup { synchronous_commit: "off".into(), ..setup() }).severity, FindingLevel::Danger);
        assert_eq!(
            indexes(&Setup { invalid_indexes: vec!["runs_due".into()], ..setup() }).severity,
            FindingLevel::Danger
        );
        assert_eq!(connections(&Setup { connections: 95, ..setup() }).severity, FindingLevel::Action);
        assert_eq!(cleaning(&Setup { autovacuum: false, ..setup() }).severity, FindingLevel::Action);
        assert_eq!(cleaning(&Setup { oldest_transaction_ms: 3_600_000, ..setup() }).severity, FindingLevel::Action);
        assert_eq!(folding(&Setup { unfolded: 1_000_000, ..setup() }).severity, FindingLevel::Action);
    }
}
