//! Rows of the database as the engine's records: each column list, and the function that reads it.

use std::sync::Arc;

use redrive_core::breaker::{Breaker, Key, Scope};
use redrive_core::ids::Tenant;
use redrive_core::ledger::{EntryState, Will};
use redrive_core::lifecycle::Outcome;
use redrive_core::operation::Pace;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::{
    BreakerEntry, CanaryState, EffectOutcome, OperationAction, OperationState, PatternRef, PayloadOmitted, StepStatus,
    Versions,
};
use redrive_engine::breakers::{CorruptBreaker, ReadBreakers};
use redrive_engine::error::{BoxError, Error, PortResult as Result};
use redrive_engine::ingest::fingerprints::FingerprintKey;
use redrive_engine::ledger::steps::StepRow;
use redrive_engine::model::PayloadKind;
use redrive_engine::operations::row::OperationRow;
use redrive_engine::patterns::sightings::{CachedPattern, PromisedFix, Sighted};
use redrive_engine::patterns::verbs::PatternRow;
use redrive_engine::ports::rows::MergedStep;
use redrive_engine::runs::attempts::StoredAttempt;
use redrive_engine::runs::document::{RunDocument, StateColumns, word};
use redrive_engine::runs::payload::StoredPayload;
use redrive_engine::runs::run_row::RunRow;

use super::columns::{
    Columns, bytes, flag, json, label, label_or_none, number, owned, owned_or_none, packed, packed_json, packed_note,
    parsed, parsed_or_none, text, time, time_or_none, whole,
};

/// A record that is read from a row.
pub(crate) trait FromRow: Sized {
    fn read(row: &impl Columns) -> Result<Self>;
}

/// The columns of a run, in the order in which [`RunRow`] takes them.
pub(crate) const RUN_COLUMNS: &str = "id, tenant, queue, run_id, state, detail, due, wake, attempt, revision, reason, \
     category, pattern, deferred_until, held_by, merged_into, replays, life, model, provider, tool, step, environment";
/// Other columns of a statement come after these.
pub(crate) const RUN_COLUMN_COUNT: usize = 23;

/// Reads a row of `runs` whose first column is its number. A column that can't be read makes the row corrupt.
pub(crate) fn read_run<R: Columns, T>(row: &R, read: impl FnOnce(&R) -> Result<T>) -> Result<T> {
    read(row).map_err(|error| match (Error::from(error), number(row, 0)) {
        (corrupt @ Error::Corrupt { .. }, _) | (corrupt, Err(_)) => corrupt.into(),
        (error, Ok(id)) => Error::Corrupt { table: "runs", id, why: error.to_string() }.into(),
    })
}

impl FromRow for RunRow {
    fn read(row: &impl Columns) -> Result<Self> {
        read_run(row, read_run_columns)
    }
}

fn read_run_columns(row: &impl Columns) -> Result<RunRow> {
    let life: RunDocument = json(text(row, 17)?, "a run's life")?;
    let columns = StateColumns {
        state: word(StateName::ALL, number(row, 4)?, "state")?,
        detail: number(row, 5)?,
        due: time_or_none(row, 6)?,
        wake: time_or_none(row, 7)?,
        held_by: label_or_none(row, 14)?,
        merged_into: parsed_or_none(row, 15, "merged into")?,
        unleasable: false,
    };
    let (attempt, revision) = (whole(row, 8, "attempt")?, whole(row, 9, "revision")?);
    Ok(RunRow {
        id: number(row, 0)?,
        tenant: number(row, 1)?,
        queue: number(row, 2)?,
        run_id: parsed(row, 3, "run id")?,
        run: life.to_run(&columns, attempt, revision, whole(row, 16, "replays")?, time_or_none(row, 13)?)?,
        reason: Arc::from(text(row, 10)?),
        category: number(row, 11)?,
        pattern: row.number_or_none(12)?,
        model: label_or_none(row, 18)?,
        provider: label_or_none(row, 19)?,
        tool: label_or_none(row, 20)?,
        step: label_or_none(row, 21)?,
        worker: life.worker,
        start_id: life.start_id,
        request: life.request,
        versions: life.versions,
        environment: label(row, 22)?,
        generation: life.generation,
        payload_bytes: life.payload_bytes,
        keys: life.keys,
        step_bytes: life.step_bytes,
        lease_secret: life.lease_secret,
        step_count: life.step_count,
    })
}

/// The columns of [`StoredAttempt`].
pub(crate) const ATTEMPT_COLUMNS: &str =
    "attempt, outcome, digest, state, recorded_at, pattern, pattern_new, verdict, origin";
pub(crate) const ATTEMPT_COLUMN_COUNT: usize = 9;

impl FromRow for StoredAttempt {
    fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            attempt: whole(row, 0, "attempt")?,
            outcome: word(Outcome::ALL, number(row, 1)?, "outcome")?,
            digest: row.bytes_or_none(2)?.map(<[u8]>::to_vec),
            state: word(StateName::ALL, number(row, 3)?, "state")?,
            recorded_at: time(row, 4)?,
            pattern: row.number_or_none(5)?,
            pattern_new: flag(row, 6)?,
            verdict: row.bytes_or_none(7)?.map(<[u8]>::to_vec),
            origin: owned(row, 8)?,
        })
    }
}

/// The columns of [`StepRow`].
pub(crate) const STEP_COLUMNS: &str = "id, run, run_id, attempt, epoch, key, name, effect, status, outcome, began_at, at, \
     used_at, used_epoch, settled_by, output, omitted_bytes, omitted_sha256, verify, versions, call_id";

/// The same without outputs and checks, which may be large; enough for a plan.
pub(crate) const STEP_FACTS: &str = "id, run, run_id, attempt, epoch, key, name, effect, status, outcome, began_at, at, \
     used_at, used_epoch, settled_by, CAST(NULL AS BYTEA), omitted_bytes, omitted_sha256, CAST(NULL AS BYTEA), versions, call_id";
/// The columns of [`super::pages::sized`].
pub(crate) const STEP_SIZES: &str = "SELECT id, CAST(length(output) AS BIGINT), substr(output, 1, 5) FROM steps";
/// The columns of [`recorded_versions`].
pub(crate) const STEP_VERSIONS: &str = "SELECT DISTINCT status, outcome, versions FROM steps";
pub(crate) const STEP_VERSIONS_MAX: i64 = 1_000;

/// The versions of a step, if a replay would skip it.
pub(crate) fn recorded_versions(row: &impl Columns) -> Result<Option<Versions>> {
    if step_state(row, 0, 1)?.will() != Will::Skip {
        return Ok(None);
    }
    let versions = owned(row, 2)?;
    serde_json::from_str(&versions).map(Some).map_err(|_| damaged_step("versions").into())
}

fn step_state(row: &impl Columns, status: usize, outcome: usize) -> Result<EntryState> {
    let status = word(StepStatus::ALL, number(row, status)?, "step status")?;
    let outcome = row.number_or_none(outcome)?.map(|outcome| word(EffectOutcome::ALL, outcome, "effect outcome"));
    EntryState::of(status, outcome.transpose()?).ok_or_else(|| damaged_step("outcome").into())
}

/// Selects the columns of [`read_merged`]; the run number follows.
pub(crate) const MERGED_STEPS: &str =
    "SELECT step, run, from_run, at, own_status, own_outcome FROM merged_steps WHERE run = ";

pub(crate) fn read_merged(row: &impl Columns) -> Result<MergedStep> {
    let own = row.number_or_none(4)?.map(|_| step_state(row, 4, 5)).transpose()?;
    Ok(MergedStep { step: number(row, 0)?, run: number(row, 1)?, from: number(row, 2)?, at: time(row, 3)?, own })
}

impl FromRow for StepRow {
    fn read(row: &impl Columns) -> Result<Self> {
        let sha256 = label_or_none(row, 17)?;
        let omitted = row.number_or_none(16)?.map(|bytes| PayloadOmitted {
            bytes: bytes.cast_unsigned(),
            sha256: sha256.unwrap_or_else(|| Label::from("")),
        });
        let kept = |at| Ok::<_, BoxError>(row.bytes_or_none(at)?.map(<[u8]>::to_vec));
        Ok(Self {
            id: number(row, 0)?,
            run: row.number_or_none(1)?,
            run_id: owned(row, 2)?,
            attempt: whole(row, 3, "attempt")?,
            epoch: number(row, 4)?.cast_unsigned(),
            key: owned(row, 5)?,
            name: owned(row, 6)?,
            effect: flag(row, 7)?,
            state: step_state(row, 8, 9)?,
            began_at: time_or_none(row, 10)?,
            at: time(row, 11)?,
            used_at: time(row, 12)?,
            used_epoch: number(row, 13)?.cast_unsigned(),
            settled_by: owned_or_none(row, 14)?,
            output: kept(15)?,
            omitted,
            check: kept(18)?,
            versions: owned_or_none(row, 19)?,
            call_id: owned_or_none(row, 20)?,
        })
    }
}

/// The columns of [`PatternRow`], and their tables.
pub(crate) const PATTERN_FOUND: &str = "p.id, p.tenant, p.public_id, p.fp_version, p.fp_hash, h.id, h.public_id, p.state, \
     p.muted_until, p.before_mute FROM patterns p LEFT JOIN patterns h ON h.id = p.merged_into";

impl FromRow for PatternRow {
    fn read(row: &impl Columns) -> Result<Self> {
        Ok(Self {
            id: number(row, 0)?,
            tenant: number(row, 1)?,
            public_id: owned(row, 2)?,
            key: FingerprintKey { version: whole(row, 3, "fingerprint")?, hash: number(row, 4)? },
            merged: row.number_or_none(5)?.zip(owned_or_none(row, 6)?),
            state: (number(row, 7)?, row.number_or_none(8)?, row.number_or_none(9)?),
        })
    }
}

/// The columns of [`CachedPattern`], for a pattern `own` and its head.
pub(crate) const PATTERN_KNOWN: &str = "own.id, head.id, head.public_id, head.template, head.state, head.muted_until, \
     head.before_mute, head.resolved_at, head.resolved_in";

impl FromRow for CachedPattern {
    fn read(row: &impl Columns) -> Result<Self> {
        let shown = PatternRef { id: owned(row, 2)?, template: owned(row, 3)?, new: false };
        Ok(Self {
            sighted: Sighted { id: number(row, 0)?, head: number(row, 1)?, shown },
            state: number(row, 4)?,
            muted_until: row.number_or_none(5)?,
            before_mute: row.number_or_none(6)?,
            fix: PromisedFix::from_columns(row.number_or_none(7)?, owned_or_none(row, 8)?.as_deref())?,
        })
    }
}

pub(crate) const OPERATION_COLUMNS: &str = "id, action, state, preparing, all_moved, open, actor, created_at, started_at, ended_at, last_run, \
     prepared_to, moved_to, matched, eligible, moved, succeeded, failed, skipped, tallies, canary, canary_until, \
     stopped_because, joined, pace_from, pace_moved, changes_seen, settle_until, holder, held_until, canary_last";
/// Other columns of a statement come after these.
pub(crate) const OPERATION_COLUMN_COUNT: usize = 31;

impl FromRow for OperationRow {
    fn read(row: &impl Columns) -> Result<Self> {
        let canary = row.number_or_none(20)?;
        Ok(Self {
            id: number(row, 0)?,
            action: word(OperationAction::ALL, number(row, 1)?, "action")?,
            state: word(OperationState::ALL, number(row, 2)?, "operation state")?,
            preparing: flag(row, 3)?,
            all_moved: flag(row, 4)?,
            open: flag(row, 5)?,
            actor: owned(row, 6)?,
            created_at: time(row, 7)?,
            started_at: time_or_none(row, 8)?,
            ended_at: time_or_none(row, 9)?,
            last_run: number(row, 10)?,
            prepared_to: number(row, 11)?,
            moved_to: number(row, 12)?,
            matched: whole(row, 13, "matched")?,
            eligible: whole(row, 14, "eligible")?,
            moved: whole(row, 15, "moved")?,
            succeeded: whole(row, 16, "succeeded")?,
            failed: whole(row, 17, "failed")?,
            skipped: whole(row, 18, "skipped")?,
            tallies: json(text(row, 19)?, "tallies")?,
            canary: canary.map(|n| word(CanaryState::ALL, n, "canary")).transpose()?,
            canary_until: time_or_none(row, 21)?,
            stopped_because: owned_or_none(row, 22)?,
            joined: owned_or_none(row, 23)?,
            pace: Pace { from: time(row, 24)?, moved: whole(row, 25, "pace")? },
            changes_seen: number(row, 26)?,
            settle_until: time_or_none(row, 27)?,
            holder: owned_or_none(row, 28)?,
            held_until: time(row, 29)?,
            canary_last: number(row, 30)?,
        })
    }
}

/// The columns of [`read_into`], for a breaker `b` and its tenant `t`.
pub(crate) const BREAKER_COLUMNS: &str = "b.environment, t.name, b.provider, b.model, b.life, b.name";

/// Reads a breaker. One that can't be read is kept apart.
pub(crate) fn read_into(read: &mut ReadBreakers, row: &impl Columns) -> Result<()> {
    match read_breaker(row) {
        Ok(breaker) => read.all.push(breaker),
        Err(error) => {
            let (name, life) = (bytes(row, 5)?.to_vec(), bytes(row, 4)?.to_vec());
            read.corrupt.push(CorruptBreaker { name, life, why: error.to_string() });
        }
    }
    Ok(())
}

fn read_breaker(row: &impl Columns) -> Result<(Key, Breaker)> {
    let unreadable = || Error::Unexpected("a breaker that watches nothing".into());
    let tenant: Option<Tenant> = parsed_or_none(row, 1, "tenant")?;
    let scope = match (tenant, label_or_none(row, 2)?, label_or_none(row, 3)?) {
        (Some(tenant), Some(provider), Some(model)) => Scope::Model { tenant, provider, model },
        (None, Some(provider), Some(model)) => Scope::Everywhere { provider, model },
        (Some(tenant), None, None) => Scope::Tenant { tenant },
        (_, None, Some(_)) | (_, Some(_), None) | (None, None, None) => return Err(unreadable().into()),
    };
    Ok((Key { environment: label(row, 0)?, scope }, packed_json(row, 4, "a breaker")?))
}

/// The columns of [`read_entry`].
pub(crate) const BREAKER_ENTRY: &str = "at, name, actor, event, note";

pub(crate) fn read_entry(row: &impl Columns) -> Result<BreakerEntry> {
    Ok(BreakerEntry {
        at: time(row, 0)?,
        breaker: label(row, 1)?,
        actor: owned(row, 2)?,
        event: owned(row, 3)?,
        note: packed_note(row, 4)?,
    })
}

pub(crate) fn read_payload(row: &impl Columns) -> Result<StoredPayload> {
    Ok(StoredPayload {
        kind: word(PayloadKind::ALL, number(row, 0)?, "payload kind")?,
        about: packed_json(row, 1, "about")?,
        bytes: packed(row, 2)?,
    })
}

fn damaged_step(what: &str) -> Error {
    Error::Unexpected(format!("a step's {what} can't be read"))
}
