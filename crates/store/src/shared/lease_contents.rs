//! What workers get with their runs, read after the commit that granted the leases.

use redrive_core::lifecycle::Outcome;
use redrive_core::wire::{ErrorReport, HandedChange, LeasedRun};

use super::payloads::{changed_payload, last_body, payload_of};
use super::reader::{SqlParam, SqlReader, StoreReader};
use super::records::{FromRow as _, STEP_COLUMNS};
use redrive_engine::Map;
use redrive_engine::attempt::start::CommittedStart;
use redrive_engine::error::{BoxError, PortResult as Result};
use redrive_engine::lease::contents::{RunContents, collect_leased, wants_last_error, with_last_error};
use redrive_engine::lease::grant::GrantedLease;
use redrive_engine::ledger::steps::{StepRow, changed, views};
use redrive_engine::model::Started;
use redrive_engine::runs::payload::StoredPayload;

/// A run with an unreadable payload or step does not fail the others.
pub(crate) async fn complete_leases<R: StoreReader>(reader: &R, granted: Vec<GrantedLease>) -> Result<Vec<LeasedRun>> {
    let revisions: Vec<(i64, u32)> = granted.iter().map(|granted| (granted.row, granted.revision)).collect();
    let runs: Vec<i64> = granted.iter().map(|granted| granted.row).collect();
    let (payloads, steps) = tokio::try_join!(reader.payloads(&revisions), steps_by_run(reader, runs))?;
    let (mut payloads, mut steps): (Map<i64, Result<StoredPayload>>, _) = (payloads.into_iter().collect(), steps);
    let mut leased = Vec::with_capacity(granted.len());
    for granted in granted {
        let run = granted.row;
        let last_error = last_error(reader, run, &granted.changes).await;
        let contents = last_error.and_then(|last_error| {
            let payload = payloads.remove(&run).unwrap_or_else(|| Ok(StoredPayload::none()))?;
            let entries = steps.remove(&run).unwrap_or_else(|| Ok(Vec::new()))?;
            Ok(RunContents { payload, entries, last_error })
        });
        leased.push((run, contents.map_err(R::classify).and_then(|contents| granted.into_leased(contents))));
    }
    Ok(collect_leased(leased.into_iter())?)
}

/// The steps of each run, in the order in which they began.
async fn steps_by_run(reader: &impl SqlReader, runs: Vec<i64>) -> Result<Map<i64, Result<Vec<StepRow>>>> {
    let sql = format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = ANY($1) ORDER BY id");
    let mut by_run: Map<i64, Result<Vec<StepRow>>> = Map::default();
    reader.rows_any(&sql, &[SqlParam::Numbers(runs)]).await?.read(|row| {
        let steps = by_run.entry(super::columns::number(row, 1)?).or_insert_with(|| Ok(Vec::new()));
        match (StepRow::read(row), steps) {
            (Ok(step), Ok(steps)) => steps.push(step),
            (Err(error), steps) => *steps = Err(error),
            (Ok(_), Err(_)) => {}
        }
        Ok(())
    })?;
    Ok(by_run)
}

/// The error of the last failed attempt, if a change gives it to the model.
async fn last_error(
    reader: &impl SqlReader,
    run: i64,
    changes: &[HandedChange],
) -> Result<Option<ErrorReport>, BoxError> {
    if !wants_last_error(changes) {
        return Ok(None);
    }
    Ok(last_body(reader, run, Outcome::Failed).await?.and_then(|body| body.error))
}

/// Completes the start of a known run, or of one whose payload is changed, with what is recorded of it.
pub(crate) async fn complete_start(reader: &impl StoreReader, begun: CommittedStart) -> Result<Started> {
    let run = begun.run;
    let epoch = begun.answer.lease.as_ref().map(|_| begun.epoch);
    let (payload_differs, closed) = (begun.payload_differs, begun.closed);
    let sql = format!("SELECT {STEP_COLUMNS} FROM steps WHERE run = $1 ORDER BY id");
    let steps = reader.rows(&sql, &[run.into()]).await?.read(StepRow::read)?;
    let versions_changed = changed(&steps, &begun.versions)?;
    let mut started = begun.into_started();
    let answer = &mut started.answer;
    answer.versions_changed = versions_changed;
    answer.steps = views(&steps)?;
    if closed {
        answer.output = last_body(reader, run, Outcome::Succeeded).await?.and_then(|body| body.output);
    }
    // A repeated start gets the same answer.
    if let Some(epoch) = epoch
        && let Some((changes, body)) = changed_payload(reader, run, answer.attempt, Some(epoch)).await?
    {
        (answer.changes, answer.payload) = (changes, Some(body));
        return Ok(started);
    }
    let error = last_error(reader, run, &answer.changes).await?;
    answer.changes = with_last_error(std::mem::take(&mut answer.changes), error.as_ref());
    started.to_prepare = epoch.is_some() && !answer.changes.is_empty();
    if payload_differs || started.to_prepare {
        (answer.payload, answer.payload_base64) = payload_of(reader, run, answer.revision).await?.into_wire()?;
    }
    Ok(started)
}
