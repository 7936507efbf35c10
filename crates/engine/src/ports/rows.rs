//! The rows that a command reads and writes inside its transaction, one trait per aggregate. A command reads back what it has
//! written; the commit makes all of it durable, or nothing. An adapter decides when it sends a write, and nothing else.

use std::collections::HashSet;

use redrive_core::absence::Absence;
use redrive_core::breaker::{Breaker, Key};
use redrive_core::ids::{OrderKey, QueueName, RunId, Tenant};
use redrive_core::ledger::EntryState;
use redrive_core::money::Spend;
use redrive_core::pattern::Fingerprint;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{BreakerEntry, ItemOutcome, NamedRun, OperationSample, PatternEvent, PatternRef, Severity};

use crate::counters::CounterDeltas;
use crate::error::PortResult as Result;
use crate::ingest::fingerprints::FingerprintKey;
use crate::ledger::steps::StepRow;
use crate::model::{KeyRecord, NewRun, NewSentPayload, RunFilter, Swept};
use crate::names::tenant_names::NameKind;
use crate::operations::row::OperationRow;
use crate::patterns::sightings::CachedPattern;
use crate::patterns::verbs::PatternRow;
pub use crate::runs::attempts::AttemptRecord;
use crate::runs::attempts::StoredAttempt;
use crate::runs::run_row::RunRow;

use crate::breakers::{CorruptBreaker, ReadBreakers};
pub use crate::runs::set_aside::ReadRuns;

pub use crate::lease::scan::{DuePage, DueQuery, DueRun, DueScan};
pub use crate::runs::records::{
    ChangedColumns, FrozenState, MovedEntry, NewEntry, NewMove, NewOperationRow, NewRequest, NewRevision,
    PatternChange, RunAttributes, SettledEntry, StoredRequest, outcome_column, status_column,
};

/// The rows of every aggregate.
pub trait Rows:
    NameRows
    + RunRows
    + WaitingRows
    + AttemptRows
    + LedgerRows
    + PatternRows
    + BreakerRows
    + ReviewRows
    + OperationRows
    + EngineRows
{
}

impl<T> Rows for T where
    T: NameRows
        + RunRows
        + WaitingRows
        + AttemptRows
        + LedgerRows
        + PatternRows
        + BreakerRows
        + ReviewRows
        + OperationRows
        + EngineRows
{
}

/// Tenants, queues, and the versions that workers run.
pub trait NameRows {
    fn tenant_number(&mut self, name: &Tenant) -> Result<Option<i64>>;
    fn tenant_name(&mut self, tenant: i64) -> Result<String>;
    fn insert_tenant(&mut self, name: &Tenant) -> Result<i64>;
    /// A queue's number, its settings as JSON, and whether an admin or the configuration has set it.
    fn queue_named(&mut self, name: &QueueName) -> Result<Option<(i64, String, bool)>>;
    fn queue_name(&mut self, queue: i64) -> Result<String>;
    /// The numbers of all queues, at most `most`.
    fn queue_numbers(&mut self, most: usize) -> Result<Vec<i64>>;
    /// The queues that a tenant can use: its own, `default`, and declared ones.
    fn queue_numbers_of(&mut self, tenant: i64) -> Result<Vec<i64>>;
    fn knows_name(&mut self, tenant: i64, kind: NameKind, name: &str) -> Result<bool>;
    /// Records a name that a tenant uses; false if the tenant already has `most` others of the kind.
    fn use_name(&mut self, tenant: i64, kind: NameKind, name: &str, most: usize) -> Result<bool>;
    /// Creates a queue unless it exists; returns its number and settings.
    fn insert_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<(i64, String)>;
    /// Creates a queue, or replaces its settings.
    fn put_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<i64>;
    /// Records a lease call. Queue and tenant are 0 if it was for all of them; without versions the recorded ones stay.
    fn note_lease_call(&mut self, queue: i64, tenant: i64, versions: Option<&str>, now: Timestamp) -> Result<()>;
    /// The versions of the last lease call for a tenant's runs in a queue that named any.
    fn worker_versions(&mut self, queue: i64, tenant: i64) -> Result<Option<String>>;
    /// Records a version; returns its number if it is new.
    fn insert_version(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>>;
    /// Deletes all but the newest `kept`; true if any were deleted.
    fn forget_versions(&mut self, tenant: i64, kind: &str, kept: usize) -> Result<bool>;
    /// The position of a version in the order in which the tenant first used them.
    fn version_order(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>>;
    fn newest_version(&mut self, tenant: i64, kind: &str) -> Result<Option<String>>;
}

/// Runs, by name or by number.
pub trait RunRows {
    fn find_run(&mut self, tenant: i64, run_id: &RunId) -> Result<Option<RunRow>>;
    /// The same for a run whose lease token names its number, by which a store may find it faster.
    fn find_leased(&mut self, tenant: i64, run_id: &RunId, number: i64) -> Result<Option<RunRow>>;
    fn run_by_number(&mut self, run: i64) -> Result<Option<RunRow>>;
    /// A number that was never used before.
    fn next_run_number(&mut self) -> Result<i64>;
    /// Inserts a run with its payload, if it has one.
    fn insert_run(&mut self, row: &RunRow, new: &NewRun, now: Timestamp) -> Result<()>;
    fn update_run(&mut self, row: &RunRow, changed: ChangedColumns, now: Timestamp) -> Result<()>;
    fn set_severity(&mut self, run: i64, severity: Severity) -> Result<()>;
    fn set_assigned(&mut self, run: i64, to: Option<&Label>, now: Timestamp) -> Result<()>;
    /// Moves a run to a queue, and to an agent if one is given.
    fn set_place(&mut self, run: i64, agent: Option<&Label>, queue: i64) -> Result<()>;
    fn own_of(&mut self, run: i64) -> Result<Option<RunAttributes>>;
    /// Another running run of the order key.
    fn busy(&mut self, tenant: i64, order_key: &OrderKey, but: i64) -> Result<Option<RunId>>;
    /// Whether no other run of the order key is running; none is started before the commit.
    fn claim_order_key(&mut self, tenant: i64, order_key: &OrderKey, run: i64) -> Result<bool>;
    fn is_under_way(&mut self, run: i64, epoch: u64) -> Result<bool>;
    /// Whether the run is due.
    fn is_due(&mut self, run: i64, now: Timestamp) -> Result<bool>;
}

/// Scheduled, running and held runs, as claims and services look for them.
pub trait WaitingRows {
    /// The next tenant after one with scheduled runs in any of the queues, and when the first of them is due.
    fn next_tenant(&mut self, queues: &[i64], after: i64, now: Timestamp) -> Result<Option<(i64, Timestamp)>>;
    /// Runs that a lease call of this name has leased. No other call of the name is made before the commit.
    fn leased_by(&mut self, request: &str) -> Result<ReadRuns<DueRun>>;
    /// The next queue after one with scheduled runs that no worker may lease.
    fn next_unleasable(&mut self, after: i64) -> Result<Option<i64>>;
    fn unleasable(&mut self, queue: i64, most: usize) -> Result<ReadRuns<RunRow>>;
    /// The due runs of each scan, in due order, without those whose order key is busy or that no worker may lease.
    fn due_runs(&mut self, call: DueQuery<'_>) -> Result<ReadRuns<DuePage>>;
    /// The next (queue, tenant) after `at` that has scheduled runs, and when the first of them is due.
    fn next_waiting(&mut self, at: (i64, i64)) -> Result<Option<((i64, i64), Timestamp)>>;
    /// Runs due by then, oldest first.
    fn overdue(&mut self, queue: i64, tenant: i64, by: Timestamp, most: usize) -> Result<ReadRuns<RunRow>>;
    /// Running runs whose lease, deadline or idle limit has passed.
    fn to_wake(&mut self, now: Timestamp, most: usize) -> Result<ReadRuns<RunRow>>;
    /// The next breaker after one, by name, that holds runs.
    fn next_holder(&mut self, after: &Label) -> Result<Option<Label>>;
    /// The next tenant after one with runs that the holder holds.
    fn next_held_tenant(&mut self, holder: &Label, after: i64) -> Result<Option<i64>>;
    /// Held runs, oldest first.
    fn held_runs(&mut self, holder: &Label, tenant: i64, most: usize) -> Result<ReadRuns<RunRow>>;
    /// Counts held runs of one tenant, or of all, up to `most`.
    fn held_count(&mut self, holder: &Label, tenant: Option<i64>, most: u64) -> Result<u64>;
    /// The tenant's running runs before this batch; None while another replica is leasing runs of the tenant, whose leases
    /// are not visible yet.
    fn running(&mut self, tenant: i64) -> Result<Option<i64>>;
    /// Hides a run that can't be read from every query of this trait, and keeps its columns for later.
    fn set_run_aside(&mut self, run: i64, why: &str, now: Timestamp) -> Result<()>;
    /// Restores runs that were set aside until `before`, oldest first, and returns them. A run that has changed since keeps its
    /// columns.
    fn put_runs_back(&mut self, before: Timestamp, most: usize) -> Result<Vec<i64>>;
}

/// Attempts, payloads and history.
pub trait AttemptRows {
    fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>>;
    /// The last recorded attempt up to and including `attempt`.
    fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>>;
    fn last_failure(&mut self, run: i64) -> Result<Option<StoredAttempt>>;
    /// `AttemptOrigin` of the last recorded attempt, as JSON.
    fn last_origin(&mut self, run: i64) -> Result<Option<String>>;
    /// A late attempt replaces the outcome that was recorded for its silence.
    fn put_attempt(&mut self, ended: &AttemptRecord<'_>, now: Timestamp) -> Result<()>;
    /// Recording the same failure again has no effect.
    fn insert_late_failure(&mut self, run: i64, attempt: u32, epoch: u64, body: &[u8]) -> Result<()>;
    fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>>;
    /// `About`, encoded.
    fn about_of(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>>;
    fn insert_revision(&mut self, made: &NewRevision<'_>, now: Timestamp) -> Result<()>;
    /// Stores what an attempt was sent; an older lease does not replace a newer one.
    fn put_sent(&mut self, run: i64, attempt: u32, epoch: u64, sent: &NewSentPayload) -> Result<()>;
    fn insert_move(&mut self, moved: &NewMove<'_>, now: Timestamp) -> Result<()>;
}

/// A step that a merged run has added to its target's ledger.
#[derive(Debug, Clone)]
pub struct MergedStep {
    pub step: i64,
    /// The target.
    pub run: i64,
    /// The merged run that reported it.
    pub from: i64,
    /// When it was reported.
    pub at: Timestamp,
    /// The state of the target's own step before.
    pub own: Option<EntryState>,
}

/// Steps and effects.
pub trait LedgerRows {
    fn step_of_run(&mut self, run: i64, key: &str) -> Result<Option<StepRow>>;
    /// In the order in which they began, without outputs and checks.
    fn steps_of_run(&mut self, run: i64) -> Result<Vec<StepRow>>;
    /// Steps with `from <= key < before`.
    fn steps_between(&mut self, run: i64, from: &str, before: &str) -> Result<Vec<StepRow>>;
    /// The effect that holds a key of a tenant.
    fn step_holder(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>>;
    /// The effect that released the key last.
    fn step_given_up(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>>;
    fn insert_step(&mut self, new: &NewEntry<'_>, now: Timestamp) -> Result<()>;
    fn move_step(&mut self, moved: &MovedEntry<'_>, now: Timestamp) -> Result<()>;
    fn settle_step(&mut self, settled: &SettledEntry<'_>, now: Timestamp) -> Result<()>;
    fn touch_step(&mut self, found: &StepRow, epoch: u64, now: Timestamp) -> Result<()>;
    /// Marks every open effect of the run as unknown.
    fn doubt_open_effects(&mut self, run: i64, now: Timestamp) -> Result<()>;
    /// Marks a step as not done. Effects are never taken back.
    fn do_step_again(&mut self, run: i64, key: &str) -> Result<()>;
    /// Steps that merged runs have added to this run.
    fn merged_steps(&mut self, run: i64) -> Result<Vec<MergedStep>>;
    fn put_merged_step(&mut self, merged: &MergedStep) -> Result<()>;
    fn forget_merged_step(&mut self, step: i64) -> Result<()>;
    /// Restores a step to its state before the merge, or deletes it if it did not exist.
    fn take_step_back(&mut self, step: i64, own: Option<EntryState>, now: Timestamp) -> Result<()>;
}

/// Patterns, their aliases and events.
pub trait PatternRows {
    fn pattern_of(&mut self, tenant: i64, fingerprint: &Fingerprint) -> Result<Option<CachedPattern>>;
    /// Inserts a pattern with its alias. The batch counts its failures.
    fn insert_pattern(
        &mut self,
        public_id: &str,
        tenant: i64,
        fingerprint: &Fingerprint,
        failure: &Failure,
        now: Timestamp,
    ) -> Result<i64>;
    /// The pattern of an earlier answer, or the one that it was merged into.
    fn pattern_shown(&mut self, pattern: i64, new: bool) -> Result<PatternRef>;
    /// Deletes all events of a pattern but the newest `kept`.
    fn forget_pattern_events(&mut self, pattern: i64, kept: usize) -> Result<()>;
    fn insert_pattern_event(
        &mut self,
        pattern: i64,
        actor: &str,
        event: PatternEvent,
        about: Option<&str>,
        note: Option<&Text>,
        now: Timestamp,
    ) -> Result<()>;
    /// By its public id, of any tenant.
    fn pattern_by_id(&mut self, id: &str) -> Result<Option<PatternRow>>;
    /// The patterns of all tenants with a fingerprint.
    fn patterns_by_key(&mut self, key: FingerprintKey) -> Result<Vec<PatternRow>>;
    /// The pattern of a tenant's failures with a fingerprint.
    fn pattern_by_alias(&mut self, tenant: i64, key: FingerprintKey) -> Result<Option<PatternRow>>;
    fn parts_of_pattern(&mut self, pattern: i64) -> Result<Vec<PatternRow>>;
    fn change_pattern(&mut self, pattern: i64, change: &PatternChange<'_>) -> Result<()>;
    /// The pattern and its own parts become parts of `head`.
    fn merge_pattern(&mut self, pattern: i64, head: i64) -> Result<()>;
    fn unmerge_pattern(&mut self, part: i64, head: i64) -> Result<()>;
}

/// A breaker to be stored.
pub struct PutBreaker<'a> {
    /// The breaker as JSON.
    pub life: &'a str,
    pub open: bool,
    pub now: Timestamp,
}

/// Breakers and their events. A breaker that has seen only successes has no row.
pub trait BreakerRows {
    /// All breakers that are not closed, possibly others, and the last generation.
    fn breakers(&mut self) -> Result<(ReadBreakers, u64)>;
    /// Those of `keys` that have a row and were not read yet, possibly others.
    fn breakers_named(&mut self, keys: &[Key]) -> Result<ReadBreakers>;
    /// Every breaker with a row, of one tenant or of all.
    fn breakers_in(&mut self, tenant: Option<i64>) -> Result<ReadBreakers>;
    /// How many breakers of a tenant have a row.
    fn breaker_count(&mut self, tenant: i64) -> Result<usize>;
    /// Closed breakers without a change since then, oldest first.
    fn idle_breakers(&mut self, since: Timestamp, most: usize) -> Result<ReadBreakers>;
    /// Moves a row that can't be read out of the table and keeps it for a person. False in a read-only transaction, or if the
    /// row has changed.
    fn set_breaker_aside(&mut self, corrupt: &CorruptBreaker, now: Timestamp) -> Result<bool>;
    /// Locks breakers until the commit. True if they may have changed since they were read.
    fn lock_breakers(&mut self) -> Result<bool>;
    fn put_generation(&mut self, last: u64) -> Result<()>;
    /// A breaker without a row that this replica remembers and the batch does not.
    fn quiet_breaker(&mut self, key: &Key) -> Result<Option<Breaker>>;
    /// The generation of a breaker that nothing is known of: the last one when this replica started.
    fn blank_since(&mut self, last: u64) -> u64;
    fn put_breaker(&mut self, key: &Key, tenant: Option<i64>, put: &PutBreaker<'_>) -> Result<()>;
    /// Deletes the row of a breaker that has seen only successes again.
    fn delete_breaker(&mut self, key: &Key, quiet: &Breaker) -> Result<()>;
    fn insert_breaker_event(
        &mut self,
        name: &Label,
        actor: &str,
        event: &str,
        note: Option<&Text>,
        now: Timestamp,
    ) -> Result<()>;
    /// Deletes all events of a breaker but the newest `kept`.
    fn forget_breaker_events(&mut self, name: &Label, kept: usize) -> Result<()>;
    /// Deletes the oldest events that are from before.
    fn trim_breaker_events(&mut self, before: Timestamp, most: usize) -> Result<Swept>;
    /// Newest first.
    fn breaker_events(&mut self, name: &Label, most: usize) -> Result<Vec<BreakerEntry>>;
}

/// Requests for review, one per run.
pub trait ReviewRows {
    /// Replaces an earlier request of the run.
    fn put_request(&mut self, asked: &NewRequest<'_>, now: Timestamp) -> Result<()>;
    fn request_of(&mut self, run: i64) -> Result<Option<StoredRequest>>;
    fn postpone_request(&mut self, run: i64, expires_at: Timestamp) -> Result<()>;
    fn delete_request(&mut self, run: i64) -> Result<()>;
    /// Runs whose request has expired, oldest first.
    fn lapsed_requests(&mut self, now: Timestamp, most: usize) -> Result<Vec<i64>>;
}

/// Bulk operations and their items.
pub trait OperationRows {
    /// The newest run's number; 0 if there is none.
    fn last_run(&mut self) -> Result<i64>;
    /// The last number of the change log.
    fn last_change(&mut self) -> Result<i64>;
    fn insert_operation(&mut self, new: &NewOperationRow<'_>) -> Result<i64>;
    /// Locks the operation until the commit.
    fn operation(&mut self, id: i64) -> Result<Option<OperationRow>>;
    fn update_operation(&mut self, row: &OperationRow) -> Result<()>;
    fn samples_of(&mut self, operation: i64) -> Result<Vec<OperationSample>>;
    fn put_samples(&mut self, operation: i64, samples: &[OperationSample]) -> Result<()>;
    /// False if the run is in the set already.
    fn insert_item(
        &mut self,
        operation: i64,
        run: i64,
        outcome: ItemOutcome,
        why: Option<&str>,
        stood: FrozenState,
    ) -> Result<bool>;
    /// True if the outcome was `from`.
    fn move_item(
        &mut self,
        operation: i64,
        run: i64,
        from: ItemOutcome,
        to: ItemOutcome,
        why: Option<&str>,
    ) -> Result<bool>;
    /// Runs as they are now, without locks, to judge them for the set.
    fn runs_as_they_stand(&mut self, operation: i64, runs: &[i64]) -> Result<ReadRuns<RunRow>>;
    /// Locks items and their runs until the commit.
    fn lock_items(&mut self, operation: i64, runs: &[i64]) -> Result<()>;
    /// Those of the runs that the filter matches now. `made_at` is when the operation was created.
    fn still_match(&mut self, filter: &RunFilter, made_at: Timestamp, runs: &[i64]) -> Result<HashSet<i64>>;
    /// Releases claims on operations, of one replica or of all.
    fn release_claims(&mut self, of: Option<&str>) -> Result<()>;
    /// The patterns of runs that the operation has reached.
    fn patterns_moved(&mut self, row: &OperationRow, most: usize) -> Result<Vec<i64>>;
    /// Runs of a pattern after one, oldest first.
    fn runs_of_pattern(&mut self, pattern: i64, after: i64, most: u64) -> Result<Vec<NamedRun>>;
}

/// Stamps and absences, retention, keys, and counters.
pub trait EngineRows {
    /// The last stamp of any server, or the end of the last absence.
    fn last_seen(&mut self) -> Result<Option<Timestamp>>;
    /// Stamps the replica, and deletes stamps from before `forget`.
    fn put_stamp(&mut self, replica: &str, now: Timestamp, forget: Timestamp) -> Result<()>;
    /// Adds an absence, and keeps only the newest `kept`.
    fn put_absence(&mut self, absence: Absence, kept: usize) -> Result<()>;
    /// Absences that ended then or later, newest first.
    fn absences_since(&mut self, then: Timestamp) -> Result<Vec<Absence>>;
    fn trim_changes(&mut self, before: Timestamp, most: usize) -> Result<Swept>;
    fn trim_ledger(&mut self, before: Timestamp, most: usize) -> Result<Swept>;
    /// Makes the smallest possible write, to find out whether a commit would succeed.
    fn touch(&mut self) -> Result<()>;
    /// No key is created between this read and the commit.
    fn has_keys(&mut self) -> Result<bool>;
    fn insert_key(&mut self, key: &KeyRecord) -> Result<()>;
    fn revoke_key(&mut self, id: &str, now: Timestamp) -> Result<bool>;
    /// What the tenant's retries have spent that day, without this batch.
    fn spent_on(&mut self, tenant: i64, day: Timestamp) -> Result<Spend>;
    /// Writes the counters that a batch has changed; the last call before its commit.
    fn fold(&mut self, tally: CounterDeltas, now: Timestamp) -> Result<()>;
}
