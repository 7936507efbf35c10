//! The store's own state.

use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_store::KeyRecord;
use redrive_store::sqlite::{self, Setup};

use super::finding::{Finding, Severity};
use crate::commands::direct::Visit;

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
    Finding::new(Severity::Danger, "durability", seen, what)
}

pub(crate) fn integrity(store: &sqlite::Visit, deep: bool) -> Vec<Finding> {
    let bytes = store.setup().map_or(0, |setup| setup.bytes);
    if !deep && bytes > CHECK_MAX_BYTES {
        let seen = format!("not checked: {} MiB", bytes / MIB);
        return vec![Finding::new(Severity::Advice, "integrity", seen, "Use --deep when there is time for it.")];
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
    Finding::new(Severity::Danger, "integrity", complaint, what)
}

pub(crate) fn keys(store: &mut Visit) -> Vec<Finding> {
    let (keys, now) = match (store.keys(), store.now()) {
        (Ok(keys), Ok(now)) => (keys, now),
        (Err(error), _) | (_, Err(error)) => return vec![Finding::unreadable("keys", error)],
    };
    let valid: Vec<&KeyRecord> = keys.iter().filter(|key| is_valid(key, now)).collect();
    let mut findings = Vec::new();
    if !valid.iter().any(|key| key.role == Role::Admin) {
        let what = "Make one: `redrive keys create --role admin`.";
        findings.push(Finding::new(Severity::Action, "keys", "no valid admin key", what));
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
    Finding::new(Severity::Advice, "keys", seen, what)
}

pub(crate) fn queues(store: &mut Visit) -> Vec<Finding> {
    let (queues, health) = match (store.queues(), store.health()) {
        (Ok(queues), Ok(health)) => (queues, health),
        (Err(error), _) | (_, Err(error)) => return vec![Finding::unreadable("queues", error)],
    };
    let unowned = health.queues_without_owner.iter().map(|queue| {
        let what = format!("Say whose it is: `redrive queues set {queue} --owner …`.");
        Finding::new(Severity::Action, "queues", format!("queue {queue} has no owner"), what)
    });
    let idle = health.queues_without_workers.iter().map(|alert| {
        let seen = format!("queue {} has had work due since {} and nobody takes it", alert.queue, alert.oldest_due_at);
        Finding::new(Severity::Action, "queues", seen, alert.what_to_do.clone())
    });
    let findings: Vec<Finding> = unowned.chain(idle).collect();
    if findings.is_empty() {
        return vec![Finding::fine("queues", format!("{queues}, each with an owner; no work waits for a worker"))];
    }
    findings
}
