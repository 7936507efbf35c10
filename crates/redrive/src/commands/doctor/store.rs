//! The store's settings and integrity, its keys and queues, the clock, and the configuration file.

use redrive_core::time::{MINUTE_MS, Timestamp};
use redrive_core::wire::Role;
use redrive_engine::KeyRecord;
use redrive_store::sqlite::{self, Setup};

use super::{Finding, FindingLevel};
use crate::commands::offline::OfflineStore;
use crate::commands::serve::is_exposed;
use crate::config::{ConfigPath, Settings};

/// A larger file is only checked when asked: it would take minutes.
const CHECK_MAX_BYTES: u64 = 4 << 30;
const SYNCHRONOUS_FULL: u32 = 2;
const MIB: u64 = 1 << 20;

pub(crate) fn setup(store: &sqlite::Visit) -> Vec<Finding> {
    match store.setup() {
        Ok(setup) => vec![version(&setup), durability(&setup)],
        Err(error) => vec![Finding::unreadable("store", error)],
    }
}

fn version(setup: &Setup) -> Finding {
    let Setup { sqlite_version, schema, bytes, free_bytes, .. } = setup;
    let seen =
        format!("SQLite {sqlite_version}, schema {schema}, {} MiB, {} MiB of it free", bytes / MIB, free_bytes / MIB);
    Finding::fine("store", seen)
}

fn durability(setup: &Setup) -> Finding {
    let seen = format!("journal_mode {}, synchronous {}", setup.journal_mode, setup.synchronous);
    if setup.journal_mode == "wal" && setup.synchronous == SYNCHRONOUS_FULL {
        return Finding::fine("durability", seen);
    }
    let what = "Another program changed the file's settings: stop it, then start `redrive serve` again.";
    Finding::new(FindingLevel::Danger, "durability", seen, what)
}

pub(crate) fn integrity(store: &sqlite::Visit, deep: bool) -> Vec<Finding> {
    let bytes = store.setup().map_or(0, |setup| setup.bytes);
    if !deep && bytes > CHECK_MAX_BYTES {
        let seen = format!("not checked: {} MiB", bytes / MIB);
        return vec![Finding::new(FindingLevel::Advice, "integrity", seen, "Use --deep when there is time for it.")];
    }
    match store.complaints(deep) {
        Ok(complaints) if complaints.is_empty() => {
            vec![Finding::fine("integrity", if deep { "integrity_check is ok" } else { "quick_check is ok" })]
        }
        Ok(complaints) => complaints.into_iter().map(damage).collect(),
        Err(error) => vec![Finding::unreadable("integrity", error)],
    }
}

fn damage(complaint: String) -> Finding {
    let what = "Stop the server, keep a copy of the folder, and restore the last backup.";
    Finding::new(FindingLevel::Danger, "integrity", complaint, what)
}

pub(crate) fn keys(store: &mut OfflineStore) -> Vec<Finding> {
    let (keys, now) = match (store.keys(), store.now()) {
        (Ok(keys), Ok(now)) => (keys, now),
        (Err(error), _) | (_, Err(error)) => return vec![Finding::unreadable("keys", error)],
    };
    let valid: Vec<&KeyRecord> = keys.iter().filter(|key| is_valid(key, now)).collect();
    let mut findings = Vec::new();
    if !valid.iter().any(|key| key.role == Role::Admin) {
        let what = "Make one: `redrive keys create --role admin`.";
        findings.push(Finding::new(FindingLevel::Action, "keys", "no valid admin key", what));
    }
    findings.extend(valid.iter().filter(|key| key.expires_at.is_none()).map(|key| never_expires(key)));
    if findings.is_empty() {
        findings.push(Finding::fine("keys", format!("{} valid, all of them expire", valid.len())));
    }
    findings
}

fn is_valid(key: &KeyRecord, now: Timestamp) -> bool {
    key.revoked_at.is_none() && key.expires_at.is_none_or(|at| now < at)
}

fn never_expires(key: &KeyRecord) -> Finding {
    let note = key.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    let seen = format!("{} key {}{note} never expires", key.role, key.id);
    let what = format!("Replace it by one with --expires-at, then `redrive keys revoke {}`.", key.id);
    Finding::new(FindingLevel::Advice, "keys", seen, what)
}

pub(crate) fn queues(store: &mut OfflineStore) -> Vec<Finding> {
    let (queues, health) = match (store.queues(), store.health()) {
        (Ok(queues), Ok(health)) => (queues, health),
        (Err(error), _) | (_, Err(error)) => return vec![Finding::unreadable("queues", error)],
    };
    let unowned = health.queues_without_owner.iter().map(|queue| {
        let what = format!("Set its owner: `redrive queues set {queue} --owner …`.");
        Finding::new(FindingLevel::Action, "queues", format!("queue {queue} has no owner"), what)
    });
    let idle = health.queues_without_workers.iter().map(|alert| {
        let seen =
            format!("queue {} has had work due since {} and no worker takes it", alert.queue, alert.oldest_due_at);
        Finding::new(FindingLevel::Action, "queues", seen, alert.what_to_do.clone())
    });
    let findings: Vec<Finding> = unowned.chain(idle).collect();
    if findings.is_empty() {
        return vec![Finding::fine("queues", format!("{queues}, each with an owner; no work waits for a worker"))];
    }
    findings
}

/// When this was written; no clock is earlier.
const NOT_BEFORE_MS: i64 = 1_767_225_600_000;
/// Ordinary clock corrections are smaller than this.
const SLACK_MS: u64 = MINUTE_MS;

pub(crate) fn clock(store: &mut OfflineStore) -> Finding {
    match (store.now(), store.last_stamp()) {
        (Ok(now), Ok(last)) => judge_clock(now, last),
        (Err(error), _) | (_, Err(error)) => Finding::unreadable("clock", error),
    }
}

fn judge_clock(now: Timestamp, last: Option<Timestamp>) -> Finding {
    let what = "Due times and leases use this clock: correct it and keep it synchronised (NTP).";
    if now.as_millis() < NOT_BEFORE_MS {
        return Finding::new(FindingLevel::Danger, "clock", format!("it says {now}, which is long past"), what);
    }
    match last {
        Some(last) if last > now.plus_ms(SLACK_MS) => {
            let seen = format!("it says {now}, and a server was here at {last} already: it has gone back");
            Finding::new(FindingLevel::Danger, "clock", seen, what)
        }
        Some(last) => Finding::fine("clock", format!("{now}; a server was last here at {last}")),
        None => Finding::fine("clock", format!("{now}; no server was here yet")),
    }
}

pub(crate) fn configuration(config: &ConfigPath) -> Finding {
    match config.read() {
        Ok(file) => match Settings::try_from(file.server) {
            Ok(settings) => exposure(&settings),
            Err(error) => Finding::new(FindingLevel::Action, "configuration", error.to_string(), "Mend it."),
        },
        Err(error) => {
            let what = "Fix it: `redrive serve` does not start with it.";
            Finding::new(FindingLevel::Action, "configuration", format!("{error:#}"), what)
        }
    }
}

/// The server speaks plain HTTP itself.
fn exposure(settings: &Settings) -> Finding {
    let exposed = [Some(settings.listen), settings.metrics_listen].into_iter().flatten().find(|at| is_exposed(*at));
    match exposed {
        None => Finding::fine("configuration", "it can be read"),
        Some(address) => {
            let what = "Listen on 127.0.0.1 behind a TLS proxy, or make sure that nobody else can read that network.";
            Finding::new(
                FindingLevel::Advice,
                "configuration",
                format!("plain HTTP on {address}, beyond this machine"),
                what,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServerSection;

    #[test]
    fn clock_that_went_back_or_was_never_set_is_danger() {
        let now = Timestamp::from_millis(NOT_BEFORE_MS + 1_000_000);
        let severity = |now, last| judge_clock(now, last).severity;
        assert_eq!(severity(now, Some(now)), FindingLevel::Fine);
        assert_eq!(severity(now, None), FindingLevel::Fine);
        assert_eq!(severity(now, Some(now.plus_ms(2 * SLACK_MS))), FindingLevel::Danger);
        assert_eq!(severity(Timestamp::from_millis(0), None), FindingLevel::Danger);
    }

    #[test]
    fn plain_http_beyond_this_machine_is_worth_a_word() {
        let severity = |listen: &str, metrics: Option<&str>| {
            let listen = Some(listen.to_owned());
            let metrics_listen = metrics.map(str::to_owned);
            exposure(&Settings::try_from(ServerSection { listen, metrics_listen, ..Default::default() }).unwrap())
                .severity
        };
        assert_eq!(severity("127.0.0.1:7070", None), FindingLevel::Fine);
        assert_eq!(severity("[::1]:7070", Some("127.0.0.2:1")), FindingLevel::Fine);
        assert_eq!(severity("[::ffff:127.0.0.1]:7070", None), FindingLevel::Fine);
        assert_eq!(severity("0.0.0.0:7070", None), FindingLevel::Advice);
        assert_eq!(severity("127.0.0.1:7070", Some("[::]:9000")), FindingLevel::Advice);
    }
}
