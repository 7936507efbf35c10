//! What runs carry when they are handed to a worker: read after the commit that granted them, for all of them at once.

use std::collections::HashMap;

use redrive_core::lifecycle::Outcome;
use redrive_core::verdict::Change;
use redrive_core::wire::{HandedChange, LeasedRun};

use super::columns::{label_or_none, number, packed, packed_json, parsed_or_none};
use super::look::Look;
use super::lookup::{numbered, span_of};
use super::pieces::payload_of;
use super::steps::entries_of;
use crate::commands::lease::{Granted, LAST_ERROR_MAX_BYTES, TRACE};
use crate::commands::life::position;
use crate::commands::start::Begun;
use crate::commands::steps::{COLUMNS, StepRow, changed, views};
use crate::error::Result;
use crate::kept::payload::{KeptPayload, kept_payload, raw_json};
use crate::model::{AttemptBody, Started};

pub(super) async fn complete_leases(look: &Look<'_>, granted: Vec<Granted>) -> Result<Vec<LeasedRun>> {
    let runs: Vec<i64> = granted.iter().map(|granted| granted.row).collect();
    let revisions: Vec<i64> = granted.iter().map(|granted| numbered(granted.row, granted.revision)).collect();
    let sql = "SELECT id, agent, idempotency_key FROM runs WHERE id = ANY($1)";
    let mut own = HashMap::new();
    for row in look.rows(sql, &[&runs]).await? {
        own.insert(number(&row, 0)?, (label_or_none(&row, 1)?, parsed_or_none(&row, 2, "idempotency key")?));
    }
    let mut payloads = HashMap::new();
    for row in look.rows("SELECT kind, about, body, id FROM payloads WHERE id = ANY($1)", &[&revisions]).await? {
        payloads.insert(number(&row, 3)?, kept_payload(&row)?);
    }
    let mut entries: HashMap<i64, Vec<StepRow>> = HashMap::new();
    for row in look.rows(&format!("SELECT {COLUMNS} FROM steps WHERE run = ANY($1) ORDER BY id"), &[&runs]).await? {
        let entry = StepRow::read(&row)?;
        entries.entry(entry.run.unwrap_or_default()).or_default().push(entry);
    }
    let mut leased = Vec::with_capacity(granted.len());
    for granted in granted {
        let (agent, idempotency_key) = own.remove(&granted.row).unwrap_or_default();
        let kept = payloads.remove(&numbered(granted.row, granted.revision)).unwrap_or_else(KeptPayload::none);
        let about = kept.about.clone();
        let (payload, payload_base64) = kept.into_wire()?;
        let entries = entries.remove(&granted.row).unwrap_or_default();
        leased.push(LeasedRun {
            run_id: granted.run_id,
            tenant: granted.tenant,
            queue: granted.queue,
            agent,
            model: granted.model,
            attempt: granted.attempt,
            revision: granted.revision,
            replay: granted.replay,
            lease: granted.lease.to_string(),
            lease_expires_at: granted.lease_expires_at,
            payload,
            payload_base64,
            content_type: about.content_type,
            headers: about.headers,
            idempotency_key,
            changes: with_last_error(look, granted.row, granted.changes).await?,
            steps: views(&entries)?,
            versions_changed: changed(&entries, &granted.versions)?,
            trace: about.links.get(TRACE).cloned(),
        });
    }
    Ok(leased)
}

/// The body of the last attempt that ended so.
async fn last_body(look: &Look<'_>, run: i64, outcome: Outcome) -> Result<Option<AttemptBody>> {
    let sql = "SELECT body FROM attempts WHERE id BETWEEN $1 AND $2 AND outcome = $3 ORDER BY id DESC LIMIT 1";
    let (first, last) = span_of(run);
    let found = look.row(sql, &[&first, &last, &position(Outcome::ALL, &outcome)]).await?;
    found.map(|row| packed_json(&row, 0, "attempt")).transpose()
}

/// Fills in the last error, where a change gives it to the model.
async fn with_last_error(look: &Look<'_>, run: i64, mut changes: Vec<HandedChange>) -> Result<Vec<HandedChange>> {
    for handed in &mut changes {
        if let Change::AddLastError { text: text @ None } = &mut handed.change {
            let error = last_body(look, run, Outcome::Failed).await?.and_then(|body| body.error);
            *text = error.map(|error| {
                let whole = error.message.decode();
                whole[..whole.floor_char_boundary(LAST_ERROR_MAX_BYTES)].to_owned()
            });
        }
    }
    Ok(changes)
}

/// Adds to the start of a known run, or of one whose payload has to be changed, what was recorded of it.
pub(super) async fn complete_start(look: &Look<'_>, begun: Begun) -> Result<Started> {
    let run = begun.run;
    let epoch = begun.answer.lease.as_ref().map(|_| begun.epoch);
    let (payload_differs, closed) = (begun.payload_differs, begun.closed);
    let entries = entries_of(look, run).await?;
    let versions_changed = changed(&entries, &begun.versions)?;
    let mut started = begun.into_started();
    let answer = &mut started.answer;
    answer.versions_changed = versions_changed;
    answer.steps = views(&entries)?;
    if closed {
        answer.output = last_body(look, run, Outcome::Succeeded).await?.and_then(|body| body.output);
    }
    // The same start again gets what it got before.
    if let Some(epoch) = epoch {
        let sql = "SELECT changes, body FROM sent WHERE id = $1 AND epoch = $2";
        let sent = look.row(sql, &[&numbered(run, answer.attempt), &epoch.cast_signed()]).await?;
        if let Some(row) = sent {
            answer.changes = packed_json(&row, 0, "changes")?;
            answer.payload = Some(raw_json(packed(&row, 1)?, "sent")?);
            return Ok(started);
        }
    }
    answer.changes = with_last_error(look, run, std::mem::take(&mut answer.changes)).await?;
    started.to_prepare = epoch.is_some() && !answer.changes.is_empty();
    if payload_differs || started.to_prepare {
        let answer = &mut started.answer;
        (answer.payload, answer.payload_base64) = payload_of(look, run, answer.revision).await?.into_wire()?;
    }
    Ok(started)
}
