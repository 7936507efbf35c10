//! What commands ask of a store: rows, read and written in the transaction that is open. Every command is written once,
//! over these; how a row lies on disk, and when it gets there, is each store's own.
//!
//! What a command has written it reads back as written, and it is all on disk, or nothing of it is, once the committer has
//! its commit. Nothing here decides anything.

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

/// All of them.
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

/// Tenants, queues and versions: small, and met again and again.
pub trait NameRows {
    fn tenant_number(&mut self, name: &Tenant) -> Result<Option<i64>>;
    fn tenant_name(&mut self, tenant: i64) -> Result<String>;
    fn insert_tenant(&mut self, name: &Tenant) -> Result<i64>;
    /// A queue's number, its settings as JSON, and whether an admin or the configuration has set it.
    fn queue_named(&mut self, name: &QueueName) -> Result<Option<(i64, String, bool)>>;
    fn queue_name(&mut self, queue: i64) -> Result<String>;
    /// Of all tenants; at most so many.
    fn queue_numbers(&mut self, most: usize) -> Result<Vec<i64>>;
    /// Those that are there for a tenant: its own, `default`, and what was declared.
    fn queue_numbers_of(&mut self, tenant: i64) -> Result<Vec<i64>>;
    fn knows_name(&mut self, tenant: i64, kind: NameKind, name: &str) -> Result<bool>;
    /// Notes a name, unless it is noted already; false where the tenant has `most` of the kind without it.
    fn use_name(&mut self, tenant: i64, kind: NameKind, name: &str, most: usize) -> Result<bool>;
    /// Makes it, unless somebody else just has; with the settings that it then has.
    fn insert_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<(i64, String)>;
    /// Makes it, or gives it other settings.
    fn put_queue(&mut self, name: &QueueName, settings: &str, now: Timestamp) -> Result<i64>;
    /// Workers have asked; without versions what is known of theirs stays. Queue and tenant are 0 where they asked for all.
    fn note_lease_call(&mut self, queue: i64, tenant: i64, versions: Option<&str>, now: Timestamp) -> Result<()>;
    /// Of those who asked last for a tenant's runs in a queue, and said what they run.
    fn worker_versions(&mut self, queue: i64, tenant: i64) -> Result<Option<String>>;
    /// The number of one that was not there; one that is stays where it is.
    fn insert_version(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>>;
    /// All but the newest `kept`; whether there were any.
    fn forget_versions(&mut self, tenant: i64, kind: &str, kept: usize) -> Result<bool>;
    /// Its place in the order in which the tenant met them.
    fn version_order(&mut self, tenant: i64, kind: &str, version: &str) -> Result<Option<i64>>;
    fn newest_version(&mut self, tenant: i64, kind: &str) -> Result<Option<String>>;
}

/// Runs, each found by name or by number.
pub trait RunRows {
    fn find_run(&mut self, tenant: i64, run_id: &RunId) -> Result<Option<RunRow>>;
    /// The same run, of which a lease says that it has this number. The name decides; the number may be the shorter way.
    fn find_leased(&mut self, tenant: i64, run_id: &RunId, number: i64) -> Result<Option<RunRow>>;
    fn run_by_number(&mut self, run: i64) -> Result<Option<RunRow>>;
    /// Given out once and never again.
    fn next_run_number(&mut self) -> Result<i64>;
    /// With its payload; a run that came without one, and with nothing else to say, costs no row for it.
    fn insert_run(&mut self, row: &RunRow, new: &NewRun, now: Timestamp) -> Result<()>;
    fn update_run(&mut self, row: &RunRow, changed: ChangedColumns, now: Timestamp) -> Result<()>;
    fn set_severity(&mut self, run: i64, severity: Severity) -> Result<()>;
    fn set_assigned(&mut self, run: i64, to: Option<&Label>, now: Timestamp) -> Result<()>;
    /// Without an agent it keeps its own.
    fn set_place(&mut self, run: i64, agent: Option<&Label>, queue: i64) -> Result<()>;
    fn own_of(&mut self, run: i64) -> Result<Option<RunAttributes>>;
    /// Another run of the order key that is under way.
    fn busy(&mut self, tenant: i64, order_key: &OrderKey, but: i64) -> Result<Option<RunId>>;
    /// Whether no other run of the order key is under way; nobody else begins one before the commit.
    fn claim_order_key(&mut self, tenant: i64, order_key: &OrderKey, run: i64) -> Result<bool>;
    fn is_under_way(&mut self, run: i64, epoch: u64) -> Result<bool>;
    /// Whether it waits to be begun, and may be.
    fn is_due(&mut self, run: i64, now: Timestamp) -> Result<bool>;
}

/// Runs that wait for their time, in the order in which they are looked for.
pub trait WaitingRows {
    /// The next tenant after one with scheduled runs in any of the queues, and when the first of them is due.
    fn next_tenant(&mut self, queues: &[i64], after: i64, now: Timestamp) -> Result<Option<(i64, Timestamp)>>;
    /// Under way since a lease call, which nobody else with the same name makes before the commit.
    fn leased_by(&mut self, request: &str) -> Result<ReadRuns<DueRun>>;
    /// The next queue after one with scheduled runs that no worker can be given.
    fn next_unleasable(&mut self, after: i64) -> Result<Option<i64>>;
    fn unleasable(&mut self, queue: i64, most: usize) -> Result<ReadRuns<RunRow>>;
    /// A page of each scan, in due order, without runs whose order key is busy and runs that no worker can be given.
    fn due_runs(&mut self, call: DueQuery<'_>) -> Result<ReadRuns<DuePage>>;
    /// The next (queue, tenant) after `at` that has scheduled runs, and when the first of them is due.
    fn next_waiting(&mut self, at: (i64, i64)) -> Result<Option<((i64, i64), Timestamp)>>;
    /// Due by then, the oldest first.
    fn overdue(&mut self, queue: i64, tenant: i64, by: Timestamp, most: usize) -> Result<ReadRuns<RunRow>>;
    /// Under way, and somebody has to look by now.
    fn to_wake(&mut self, now: Timestamp, most: usize) -> Result<ReadRuns<RunRow>>;
    /// The next holder after one, by name.
    fn next_holder(&mut self, after: &Label) -> Result<Option<Label>>;
    /// The next tenant after one with runs that the holder holds.
    fn next_held_tenant(&mut self, holder: &Label, after: i64) -> Result<Option<i64>>;
    /// The ones that wait longest.
    fn held_runs(&mut self, holder: &Label, tenant: i64, most: usize) -> Result<ReadRuns<RunRow>>;
    /// Counted up to `most`; of one tenant, or of all.
    fn held_count(&mut self, holder: &Label, tenant: Option<i64>, most: u64) -> Result<u64>;
    /// What the tenant has under way, without what this batch has changed of it; none while another replica deals its runs,
    /// since what that one takes is not to be seen yet.
    fn running(&mut self, tenant: i64) -> Result<Option<i64>>;
    /// Takes a run that can't be read out of everything that this trait looks through, and keeps what put it there.
    fn set_run_aside(&mut self, run: i64, why: &str, now: Timestamp) -> Result<()>;
    /// Puts runs back where they were set aside from until `before`, the oldest first; says which they are. One that has
    /// changed since stays as it is.
    fn put_runs_back(&mut self, before: Timestamp, most: usize) -> Result<Vec<i64>>;
}

/// Attempts, and what they were given.
pub trait AttemptRows {
    fn attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>>;
    /// The last one on record up to and including `attempt`.
    fn last_attempt(&mut self, run: i64, attempt: u32) -> Result<Option<StoredAttempt>>;
    fn last_failure(&mut self, run: i64) -> Result<Option<StoredAttempt>>;
    /// `AttemptOrigin` of the last one on record, as JSON.
    fn last_origin(&mut self, run: i64) -> Result<Option<String>>;
    /// A late one replaces the silence that was put in its place.
    fn put_attempt(&mut self, ended: &AttemptRecord<'_>, now: Timestamp) -> Result<()>;
    /// The same one again is one.
    fn insert_late_failure(&mut self, run: i64, attempt: u32, epoch: u64, body: &[u8]) -> Result<()>;
    fn payload_digest(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>>;
    /// `About`, encoded.
    fn about_of(&mut self, run: i64, revision: u32) -> Result<Option<Vec<u8>>>;
    fn insert_revision(&mut self, made: &NewRevision<'_>, now: Timestamp) -> Result<()>;
    /// An older lease's does not take the place of a newer one's.
    fn put_sent(&mut self, run: i64, attempt: u32, epoch: u64, sent: &NewSentPayload) -> Result<()>;
    fn insert_move(&mut self, moved: &NewMove<'_>, now: Timestamp) -> Result<()>;
}

/// An entry that a merged run has put into its target's ledger.
#[derive(Debug, Clone)]
pub struct MergedStep {
    pub step: i64,
    /// Whose ledger it is in, and who reported it.
    pub run: i64,
    pub from: i64,
    /// The entry's own, when it was reported.
    pub at: Timestamp,
    /// How the target's own entry stood before.
    pub own: Option<EntryState>,
}

pub trait LedgerRows {
    fn step_of_run(&mut self, run: i64, key: &str) -> Result<Option<StepRow>>;
    /// In the order in which they began.
    /// In the order in which they began, without their outputs and checks.
    fn steps_of_run(&mut self, run: i64) -> Result<Vec<StepRow>>;
    /// Those with a key from `from` up to but without `before`.
    fn steps_between(&mut self, run: i64, from: &str, before: &str) -> Result<Vec<StepRow>>;
    /// The effect of a tenant that holds its key.
    fn step_holder(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>>;
    /// The effect that gave its key up last.
    fn step_given_up(&mut self, tenant: i64, key: &str) -> Result<Option<StepRow>>;
    fn insert_step(&mut self, new: &NewEntry<'_>, now: Timestamp) -> Result<()>;
    fn move_step(&mut self, moved: &MovedEntry<'_>, now: Timestamp) -> Result<()>;
    fn settle_step(&mut self, settled: &SettledEntry<'_>, now: Timestamp) -> Result<()>;
    fn touch_step(&mut self, found: &StepRow, epoch: u64, now: Timestamp) -> Result<()>;
    /// Every effect of the run that is open has no known outcome from now on.
    fn doubt_open_effects(&mut self, run: i64, now: Timestamp) -> Result<()>;
    /// A plain step is no longer done; no effect ever is taken back.
    fn do_step_again(&mut self, run: i64, key: &str) -> Result<()>;
    /// What runs that are or were merged into this one have put into its ledger.
    fn merged_steps(&mut self, run: i64) -> Result<Vec<MergedStep>>;
    fn put_merged_step(&mut self, merged: &MergedStep) -> Result<()>;
    fn forget_merged_step(&mut self, step: i64) -> Result<()>;
    /// As it stood before the merge, or away where it was not there.
    fn take_step_back(&mut self, step: i64, own: Option<EntryState>, now: Timestamp) -> Result<()>;
}

pub trait PatternRows {
    fn pattern_of(&mut self, tenant: i64, fingerprint: &Fingerprint) -> Result<Option<CachedPattern>>;
    /// With its alias, counted by the batch that made it.
    fn insert_pattern(
        &mut self,
        public_id: &str,
        tenant: i64,
        fingerprint: &Fingerprint,
        failure: &Failure,
        now: Timestamp,
    ) -> Result<i64>;
    /// The pattern of an earlier answer, as it is known now.
    fn pattern_shown(&mut self, pattern: i64, new: bool) -> Result<PatternRef>;
    /// All of one pattern but the newest `kept`.
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
    /// By its id, whoever's it is.
    fn pattern_by_id(&mut self, id: &str) -> Result<Option<PatternRow>>;
    /// Every tenant's of a fingerprint.
    fn patterns_by_key(&mut self, key: FingerprintKey) -> Result<Vec<PatternRow>>;
    /// The one that a tenant's failures of a fingerprint belong to.
    fn pattern_by_alias(&mut self, tenant: i64, key: FingerprintKey) -> Result<Option<PatternRow>>;
    fn parts_of_pattern(&mut self, pattern: i64) -> Result<Vec<PatternRow>>;
    fn change_pattern(&mut self, pattern: i64, change: &PatternChange<'_>) -> Result<()>;
    /// The pattern and its own parts become parts of `head`.
    fn merge_pattern(&mut self, pattern: i64, head: i64) -> Result<()>;
    fn unmerge_pattern(&mut self, part: i64, head: i64) -> Result<()>;
}

/// A breaker as its row is to be.
pub struct PutBreaker<'a> {
    /// The breaker as JSON.
    pub life: &'a str,
    pub open: bool,
    pub now: Timestamp,
}

pub trait BreakerRows {
    /// All breakers that are not closed, maybe others that the batch concerns, and the last generation that was given out.
    fn breakers(&mut self) -> Result<(ReadBreakers, u64)>;
    /// Those of these that have a row and were not read yet, maybe others.
    fn breakers_named(&mut self, keys: &[Key]) -> Result<ReadBreakers>;
    /// Every one that has a row: of one tenant, or of all.
    fn breakers_in(&mut self, tenant: Option<i64>) -> Result<ReadBreakers>;
    /// How many of a tenant's have a row.
    fn breaker_count(&mut self, tenant: i64) -> Result<usize>;
    /// Closed ones that nothing was counted for since, the oldest first.
    fn idle_breakers(&mut self, since: Timestamp, most: usize) -> Result<ReadBreakers>;
    /// Takes a row that can't be read out of the table and keeps it for a person. False where nothing may be written, or
    /// where the row has changed since.
    fn set_breaker_aside(&mut self, corrupt: &CorruptBreaker, now: Timestamp) -> Result<bool>;
    /// Keeps others from moving breakers until the commit. True when they may have moved since they were read.
    fn lock_breakers(&mut self) -> Result<bool>;
    fn put_generation(&mut self, last: u64) -> Result<()>;
    /// One that has seen nothing but successes, and has no row; where the batch's memory does not hold all of them.
    fn quiet_breaker(&mut self, key: &Key) -> Result<Option<Breaker>>;
    /// The generation in which a breaker begins that nothing is known of: the last one when this memory began.
    fn blank_since(&mut self, last: u64) -> u64;
    fn put_breaker(&mut self, key: &Key, tenant: Option<i64>, put: &PutBreaker<'_>) -> Result<()>;
    /// It has nothing to say, or not any more.
    fn delete_breaker(&mut self, key: &Key, quiet: &Breaker) -> Result<()>;
    fn insert_breaker_event(
        &mut self,
        name: &Label,
        actor: &str,
        event: &str,
        note: Option<&Text>,
        now: Timestamp,
    ) -> Result<()>;
    /// All of one breaker but the newest `kept`.
    fn forget_breaker_events(&mut self, name: &Label, kept: usize) -> Result<()>;
    /// The oldest of all breakers' that are from before.
    fn trim_breaker_events(&mut self, before: Timestamp, most: usize) -> Result<Swept>;
    /// The newest first.
    fn breaker_events(&mut self, name: &Label, most: usize) -> Result<Vec<BreakerEntry>>;
}

pub trait ReviewRows {
    /// A request before it is replaced.
    fn put_request(&mut self, asked: &NewRequest<'_>, now: Timestamp) -> Result<()>;
    fn request_of(&mut self, run: i64) -> Result<Option<StoredRequest>>;
    fn postpone_request(&mut self, run: i64, expires_at: Timestamp) -> Result<()>;
    fn delete_request(&mut self, run: i64) -> Result<()>;
    /// Runs whose request has lapsed, the oldest first.
    fn lapsed_requests(&mut self, now: Timestamp, most: usize) -> Result<Vec<i64>>;
}

pub trait OperationRows {
    /// The newest run's number; 0 when there is none.
    fn last_run(&mut self) -> Result<i64>;
    /// The last commit's number in the log of changes.
    fn last_change(&mut self) -> Result<i64>;
    fn insert_operation(&mut self, new: &NewOperationRow<'_>) -> Result<i64>;
    /// Nobody else changes it until the commit.
    fn operation(&mut self, id: i64) -> Result<Option<OperationRow>>;
    fn update_operation(&mut self, row: &OperationRow) -> Result<()>;
    fn samples_of(&mut self, operation: i64) -> Result<Vec<OperationSample>>;
    fn put_samples(&mut self, operation: i64, samples: &[OperationSample]) -> Result<()>;
    /// False when the run is in the set already.
    fn insert_item(
        &mut self,
        operation: i64,
        run: i64,
        outcome: ItemOutcome,
        why: Option<&str>,
        stood: FrozenState,
    ) -> Result<bool>;
    /// True when the item was at `from`.
    fn move_item(
        &mut self,
        operation: i64,
        run: i64,
        from: ItemOutcome,
        to: ItemOutcome,
        why: Option<&str>,
    ) -> Result<bool>;
    /// How runs stand, for a set that holds them: nothing of them is written, and nobody waits for it.
    fn runs_as_they_stand(&mut self, operation: i64, runs: &[i64]) -> Result<ReadRuns<RunRow>>;
    /// Locks items and their runs until the commit.
    fn lock_items(&mut self, operation: i64, runs: &[i64]) -> Result<()>;
    /// Those of the runs that the filter finds now; `made_at`: when the operation was made.
    fn still_match(&mut self, filter: &RunFilter, made_at: Timestamp, runs: &[i64]) -> Result<HashSet<i64>>;
    /// Ends claims on operations: one replica's, or everybody's.
    fn release_claims(&mut self, of: Option<&str>) -> Result<()>;
    /// Patterns of what an operation has had its turn with.
    fn patterns_moved(&mut self, row: &OperationRow, most: usize) -> Result<Vec<i64>>;
    /// Runs of a pattern after one, the oldest first.
    fn runs_of_pattern(&mut self, pattern: i64, after: i64, most: u64) -> Result<Vec<NamedRun>>;
}

/// What the engine and the keys need, and what is counted.
pub trait EngineRows {
    /// The last sign of any server: a stamp, or the end of an absence.
    fn last_seen(&mut self) -> Result<Option<Timestamp>>;
    /// Notes the replica, and forgets those not heard of since `forget`.
    fn put_stamp(&mut self, replica: &str, now: Timestamp, forget: Timestamp) -> Result<()>;
    /// Keeps it, and of all absences only the newest `kept`.
    fn put_absence(&mut self, absence: Absence, kept: usize) -> Result<()>;
    /// Absences that ended then or later, the newest first.
    fn absences_since(&mut self, then: Timestamp) -> Result<Vec<Absence>>;
    fn trim_changes(&mut self, before: Timestamp, most: usize) -> Result<Swept>;
    fn trim_ledger(&mut self, before: Timestamp, most: usize) -> Result<Swept>;
    /// Writes the smallest thing there is: whether a commit would hold now.
    fn touch(&mut self) -> Result<()>;
    /// Nobody makes one between this look and the commit.
    fn has_keys(&mut self) -> Result<bool>;
    fn insert_key(&mut self, key: &KeyRecord) -> Result<()>;
    fn revoke_key(&mut self, id: &str, now: Timestamp) -> Result<bool>;
    /// What the tenant's retries have used that day, without this batch.
    fn spent_on(&mut self, tenant: i64, day: Timestamp) -> Result<Spend>;
    /// Writes the sums; the batch's last act before its commit.
    fn fold(&mut self, tally: CounterDeltas, now: Timestamp) -> Result<()>;
}
