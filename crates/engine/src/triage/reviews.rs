//! Reviews: requests for approval, and what happens when they expire.

use redrive_core::lifecycle::Event;
use redrive_core::run::{Review, State, StateName};
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Fix, ReplayRequest};

use crate::codec::{decode, encode};
use crate::error::{Error, Result};
use crate::model::triage::{FixedPayload, Replay};
use crate::model::{HourlyKind, Swept};
use crate::ports::rows::{NewRequest, StoredRequest};
use crate::runs::attempts::json;
use crate::runs::run_row;
use crate::runs::run_row::RunRow;
use crate::runs::set_aside;
use crate::runs::set_aside::{CorruptRun, READ_AGAIN_MS, unless_corrupt};
use crate::sweeps::note_absence;
use crate::triage::verbs;
use crate::tx::Tx;

/// A request for approval.
pub struct ReviewRequest {
    pub actor: String,
    pub replay: Replay,
}

const LAPSED: &str = "Nobody approved it in time.";

/// Stores a request; replaces an earlier one.
pub fn ask_for(
    tx: &mut Tx<'_>,
    row: &RunRow,
    replay: Option<&Replay>,
    actor: &str,
    expires_at: Timestamp,
) -> Result<()> {
    // A replay without changes has an empty request.
    let request = replay.map(|replay| match replay.request.as_slice() {
        [] => encode(b"{}"),
        request => request.to_vec(),
    });
    let payload = replay.and_then(|replay| replay.fix.as_ref()).map(|fix| &fix.payload);
    Ok(tx.rows.put_request(&NewRequest { run: row.id, actor, expires_at, request, payload }, tx.now)?)
}

/// The request that waits for approval. Without a proposed replay it is one without changes.
pub fn asked_for(tx: &mut Tx<'_>, row: &RunRow) -> Result<Option<ReviewRequest>> {
    let Some(StoredRequest { actor, request, payload }) = tx.rows.request_of(row.id)? else { return Ok(None) };
    let request: ReplayRequest = match request {
        Some(stored) => {
            serde_json::from_slice(&decode(&stored)?).map_err(|e| Error::Unexpected(format!("request: {e}")))?
        }
        None => ReplayRequest::default(),
    };
    let fix = match payload {
        Some(payload) => Some(FixedPayload {
            from_revision: row.run.revision,
            payload,
            patch: request.fix.as_ref().map(patch_of).transpose()?.flatten(),
        }),
        None => None,
    };
    let replay = Replay {
        force: matches!(&row.run.state, State::Review(review) if review.force),
        plan_hash: None,
        fix,
        instruction: request.instruction,
        model: request.model,
        agent: request.agent,
        queue: request.queue,
        from_step: request.from_step,
        request: Vec::new(),
    };
    Ok(Some(ReviewRequest { actor, replay }))
}

pub fn forget_request(tx: &mut Tx<'_>, run: i64) -> Result<()> {
    Ok(tx.rows.delete_request(run)?)
}

/// Restarts the review after its plan has changed.
pub fn ask_again(tx: &mut Tx<'_>, before: &RunRow, row: &mut RunRow, expires_ms: u64) -> Result<()> {
    let expires_at = tx.now.plus_ms(expires_ms);
    if let State::Review(review) = &mut row.run.state {
        (review.asked_at, review.expires_at, review.absent_ms) = (tx.now, expires_at, 0);
    }
    tx.rows.postpone_request(row.id, expires_at)?;
    run_row::save(tx, before, row)
}

/// Extends a review that is due by our absences.
pub fn attend_review(tx: &mut Tx<'_>, row: &mut RunRow) -> Result<()> {
    let now = tx.now;
    if let State::Review(review) = &mut row.run.state
        && review.expires_at <= now
    {
        note_absence(tx)?;
        *review = review.attended(now, &tx.rows.absences_since(review.asked_at)?);
    }
    Ok(())
}

/// Ends an expired review.
pub fn let_lapse(tx: &mut Tx<'_>, mut row: RunRow) -> Result<()> {
    let before = row.clone();
    let (_, policy) = run_row::rules_of(tx, &row)?;
    row.run = row.ask(&Event::ReviewExpired, &policy, tx.now)?.run;
    run_row::save(tx, &before, &row)?;
    forget_request(tx, row.id)?;
    verbs::note_move(tx, &before, &row, "engine", "review_expired", Some(&Text::from(LAPSED)))?;
    if row.run.state.name() == StateName::Dead {
        tx.counters.happened(tx.now, row.tenant, row.queue, HourlyKind::Dead, None);
    }
    Ok(())
}

/// The JSON Patch of a fix, encoded.
pub fn patch_of(fix: &Fix) -> Result<Option<Vec<u8>>> {
    fix.json_patch.as_ref().map(|patch| json(patch).map(|text| encode(text.as_bytes()))).transpose()
}

/// Dead-letters runs whose review expired, and deletes requests without a review.
pub fn expire_reviews(tx: &mut Tx<'_>, most: usize) -> Result<Swept> {
    note_absence(tx)?;
    let most = tx.pace.runs_max(most);
    let due = tx.rows.lapsed_requests(tx.now, most)?;
    let mut swept = Swept { looked_at: due.len(), moved: 0, more: due.len() == most };
    if due.is_empty() {
        return Ok(swept);
    }
    let absences = tx.rows.absences_since(Timestamp::default())?;
    for run in due {
        let (mut row, review) = match unless_corrupt(in_review(tx, run))? {
            Ok(Some(found)) => found,
            Ok(None) => {
                forget_request(tx, run)?;
                continue;
            }
            Err(CorruptRun { run, why }) => {
                set_aside::set_run_aside(tx, run, &why)?;
                tx.rows.postpone_request(run, tx.now.plus_ms(READ_AGAIN_MS))?;
                continue;
            }
        };
        let review = review.attended(tx.now, &absences);
        let expires_at = review.expires_at;
        row.run.state = State::Review(review);
        if expires_at <= tx.now {
            let_lapse(tx, row)?;
            swept.moved += 1;
        } else {
            tx.rows.postpone_request(run, expires_at)?;
            run_row::save_life(tx, &row)?;
        }
    }
    Ok(swept)
}

/// The run and its review, if it is in one and due.
fn in_review(tx: &mut Tx<'_>, run: i64) -> Result<Option<(RunRow, Review)>> {
    let Some(row) = tx.rows.run_by_number(run)? else { return Ok(None) };
    let State::Review(review) = &row.run.state else { return Ok(None) };
    let review = review.clone();
    Ok((review.expires_at <= tx.now).then_some((row, review)))
}
