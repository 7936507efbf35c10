//! What runs carry when they are handed to a worker: read for all of them at once, after the commit that grants them.

use crate::shared::records::{Record as _, STEP_COLUMNS, read_payload};
use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::verdict::Verdict;
use redrive_core::wire::{ErrorReport, HandedChange, LeasedRun};
use tokio_postgres::types::ToSql;

use crate::postgres::connection::failure::classify;
use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{number, packed, packed_json};
use crate::postgres::reads::payloads::payload_of;
use crate::postgres::reads::steps::entries_of;
use crate::shared::pages::NEWEST_ATTEMPTS;
use redrive_engine::Map;
use redrive_engine::attempt::start::CommittedStart;
use redrive_engine::error::PortResult as Result;
use redrive_engine::lease::contents::{RunContents, collect_leased, wants_last_error, with_last_error};
use redrive_engine::lease::grant::GrantedLease;
use redrive_engine::ledger::steps::{StepRow, changed, views};
use redrive_engine::model::{AttemptBody, Started};
use redrive_engine::runs::document::position;
use redrive_engine::runs::payload::{StoredPayload, raw_json};

const PAYLOADS: &str =
    "SELECT payload.*, q_run FROM unnest($1::bigint[], $2::bigint[]) AS q(q_run, q_revision) CROSS JOIN LATERAL (
         SELECT kind, about, body FROM payloads WHERE run = q_run AND revision = q_revision LIMIT 1) AS payload";
static STEPS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = ANY($1) ORDER BY id"));

/// Reads what runs carry, for all of them at once, and puts both together.
pub(crate) async fn complete_leases(snapshot: &Snapshot<'_>, granted: Vec<GrantedLease>) -> Result<Vec<LeasedRun>> {
    let mut carriage = LeaseContents::read(snapshot, &granted).await?;
    let mut leased = Vec::with_capacity(granted.len());
    for granted in granted {
        let (run, last_error) = (granted.row, last_error(snapshot, granted.row, &granted.changes).await);
        let carried = last_error.and_then(|last_error| carriage.of_run(run, last_error)).map_err(classify);
        leased.push((run, carried.and_then(|carried| granted.into_leased(carried))));
    }
    Ok(collect_leased(leased.into_iter())?)
}

/// Payloads and steps, by run.
struct LeaseContents {
    payloads: Map<i64, Result<StoredPayload>>,
    entries: Map<i64, Result<Vec<StepRow>>>,
}

impl LeaseContents {
    async fn read(snapshot: &Snapshot<'_>, granted: &[GrantedLease]) -> Result<Self> {
        let revision = |granted: &GrantedLease| (granted.row, i64::from(granted.revision));
        let (runs, revisions): (Vec<i64>, Vec<i64>) = granted.iter().map(revision).unzip();
        let of_runs: [&(dyn ToSql + Sync); 1] = [&runs];
        let of_revisions: [&(dyn ToSql + Sync); 2] = [&runs, &revisions];
        let (kept, steps) = tokio::try_join!(snapshot.rows(PAYLOADS, &of_revisions), snapshot.rows(&STEPS, &of_runs))?;
        let mut carriage = Self { payloads: Map::default(), entries: Map::default() };
        carriage.payloads.reserve(kept.len());
        for row in kept {
            carriage.payloads.insert(number(&row, 3)?, read_payload(&row));
        }
        for row in steps {
            let entries = carriage.entries.entry(number(&row, 1)?).or_insert_with(|| Ok(Vec::new()));
            match (StepRow::read(&row), entries) {
                (Ok(entry), Ok(entries)) => entries.push(entry),
                (Err(error), entries) => *entries = Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
        Ok(carriage)
    }

    fn of_run(&mut self, run: i64, last_error: Option<ErrorReport>) -> Result<RunContents> {
        let payload = self.payloads.remove(&run).unwrap_or_else(|| Ok(StoredPayload::none()))?;
        Ok(RunContents { payload, entries: self.entries.remove(&run).unwrap_or_else(|| Ok(Vec::new()))?, last_error })
    }
}

/// Looked for among the newest, so that a run of a million attempts costs no more than one of a thousand.
static LAST_BODY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT body FROM attempts WHERE run = $1 AND attempt = (SELECT max(attempt) FROM (SELECT attempt, outcome
             FROM attempts WHERE run = $1 ORDER BY attempt DESC LIMIT {NEWEST_ATTEMPTS}) AS newest WHERE outcome = $2)"
    )
});
static LAST_VERDICT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT verdict FROM attempts WHERE run = $1 AND attempt = (SELECT max(attempt) FROM (SELECT attempt, verdict
             FROM attempts WHERE run = $1 ORDER BY attempt DESC LIMIT {NEWEST_ATTEMPTS}) AS newest
             WHERE verdict IS NOT NULL)"
    )
});

/// What was decided last.
pub(crate) async fn last_verdict(snapshot: &Snapshot<'_>, run: i64) -> Result<Option<Verdict>> {
    snapshot.row(&LAST_VERDICT, &[&run]).await?.map(|row| packed_json(&row, 0, "verdict")).transpose()
}

/// The body of the last attempt that ended so.
pub(crate) async fn last_body(snapshot: &Snapshot<'_>, run: i64, outcome: Outcome) -> Result<Option<AttemptBody>> {
    let found = snapshot.row(&LAST_BODY, &[&run, &position(Outcome::ALL, &outcome)]).await?;
    found.map(|row| packed_json(&row, 0, "attempt")).transpose()
}

/// What the last failed attempt said, where a change gives it to the model.
async fn last_error(snapshot: &Snapshot<'_>, run: i64, changes: &[HandedChange]) -> Result<Option<ErrorReport>> {
    if !wants_last_error(changes) {
        return Ok(None);
    }
    Ok(last_body(snapshot, run, Outcome::Failed).await?.and_then(|body| body.error))
}

/// Adds to the start of a known run, or of one whose payload has to be changed, what was recorded of it.
pub(crate) async fn complete_start(snapshot: &Snapshot<'_>, begun: CommittedStart) -> Result<Started> {
    let run = begun.run;
    let epoch = begun.answer.lease.as_ref().map(|_| begun.epoch);
    let (payload_differs, closed) = (begun.payload_differs, begun.closed);
    let entries = entries_of(snapshot, run).await?;
    let versions_changed = changed(&entries, &begun.versions)?;
    let mut started = begun.into_started();
    let answer = &mut started.answer;
    answer.versions_changed = versions_changed;
    answer.steps = views(&entries)?;
    if closed {
        answer.output = last_body(snapshot, run, Outcome::Succeeded).await?.and_then(|body| body.output);
    }
    // The same start again gets what it got before.
    if let Some(epoch) = epoch {
        let sql = "SELECT changes, body FROM sent WHERE run = $1 AND attempt = $2 AND epoch = $3";
        let sent = snapshot.row(sql, &[&run, &i64::from(answer.attempt), &epoch.cast_signed()]).await?;
        if let Some(row) = sent {
            answer.changes = packed_json(&row, 0, "changes")?;
            answer.payload = Some(raw_json(packed(&row, 1)?, "sent")?);
            return Ok(started);
        }
    }
    let error = last_error(snapshot, run, &answer.changes).await?;
    answer.changes = with_last_error(std::mem::take(&mut answer.changes), error.as_ref());
    started.to_prepare = epoch.is_some() && !answer.changes.is_empty();
    if payload_differs || started.to_prepare {
        let answer = &mut started.answer;
        (answer.payload, answer.payload_base64) = payload_of(snapshot, run, answer.revision).await?.into_wire()?;
    }
    Ok(started)
}
