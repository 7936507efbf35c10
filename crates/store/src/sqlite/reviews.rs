//! Runs that wait for a yes or no: what was asked for, kept whole, and what becomes of it when nobody answers.

use redrive_core::lifecycle::Event;
use redrive_core::run::{Review, State, StateName};
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{Fix, RawJson, ReplayRequest, ReviewView};
use rusqlite::{Connection, params};

use crate::codec::encode;
use crate::error::{Error, Result};
use crate::model::{Digest, HourlyKind, Payload, PayloadKind, Swept};
use crate::sqlite::attempts::json;
use crate::sqlite::batch::Batch;
use crate::sqlite::columns::{packed_json_or_none, time};
use crate::sqlite::life::{ReviewLife, position, word};
use crate::sqlite::rows::{COLUMNS, RunRow};
use crate::triage_model::{FixedPayload, Replay};

/// What somebody asked for.
pub(super) struct Asked {
    pub(super) actor: String,
    pub(super) replay: Replay,
}

const LAPSED: &str = "Nobody approved it in time.";

impl Batch<'_> {
    /// Keeps what is asked for; a request before it is replaced.
    pub(super) fn ask_for(
        &mut self,
        row: &RunRow,
        replay: Option<&Replay>,
        actor: &str,
        expires_at: Timestamp,
    ) -> Result<()> {
        // Whoever asks for a plain replay has nothing more to say.
        let request = replay.map(|replay| match replay.request.as_slice() {
            [] => encode(b"{}"),
            said => said.to_vec(),
        });
        let payload = replay.and_then(|replay| replay.fix.as_ref()).map(|fix| &fix.payload);
        let mut put = self.conn.prepare_cached(
            "INSERT OR REPLACE INTO reviews (run, at, actor, expires_at, request, kind, digest, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        put.execute(params![
            row.id,
            self.now.as_millis(),
            actor,
            expires_at.as_millis(),
            request,
            payload.map(|payload| position(PayloadKind::ALL, &payload.kind)),
            payload.map(|payload| payload.digest.as_slice()),
            payload.map(|payload| &payload.encoded),
        ])?;
        Ok(())
    }

    /// What waits for approval; a run that a person put aside waits to be replayed as it is.
    pub(super) fn asked_for(&mut self, row: &RunRow) -> Result<Option<Asked>> {
        let mut find =
            self.conn.prepare_cached("SELECT actor, request, kind, digest, body FROM reviews WHERE run = ?1")?;
        let mut rows = find.query([row.id])?;
        let Some(found) = rows.next()? else { return Ok(None) };
        let request: Option<ReplayRequest> = packed_json_or_none(found, 1, "request")?;
        let request = request.unwrap_or_default();
        let fix = match found.get::<_, Option<i64>>(2)? {
            Some(kind) => Some(FixedPayload {
                from_revision: row.run.revision,
                payload: Payload {
                    kind: word(PayloadKind::ALL, kind, "payload kind")?,
                    digest: Digest::try_from(found.get::<_, Vec<u8>>(3)?)
                        .map_err(|_| Error::Unexpected("a digest of another length".into()))?,
                    encoded: found.get(4)?,
                },
                patch: request.fix.as_ref().map(patch_of).transpose()?.flatten(),
            }),
            None => None,
        };
        let replay = Replay {
            force: request.force,
            plan_hash: None,
            fix,
            instruction: request.instruction,
            model: request.model,
            agent: request.agent,
            queue: request.queue,
            from_step: request.from_step,
            request: Vec::new(),
        };
        Ok(Some(Asked { actor: found.get(0)?, replay }))
    }

    pub(super) fn forget_request(&mut self, run: i64) -> Result<()> {
        self.conn.prepare_cached("DELETE FROM reviews WHERE run = ?1")?.execute([run])?;
        Ok(())
    }

    /// The plan has changed since it was asked about: the question stands anew, for the plan as it is.
    pub(super) fn ask_again(&mut self, before: &RunRow, row: &mut RunRow, expires_ms: u64) -> Result<()> {
        let expires_at = self.now.plus_ms(expires_ms);
        if let State::Review(review) = &mut row.run.state {
            review.expires_at = expires_at;
        }
        let mut update = self.conn.prepare_cached("UPDATE reviews SET expires_at = ?2 WHERE run = ?1")?;
        update.execute([row.id, expires_at.as_millis()])?;
        self.save(before, row)
    }

    /// Ends a review whose time is up.
    pub(super) fn let_lapse(&mut self, mut row: RunRow) -> Result<()> {
        let before = row.clone();
        let (_, policy) = self.rules_of(&row)?;
        row.run = row.ask(&Event::ReviewExpired, &policy, self.now)?.run;
        self.save(&before, &row)?;
        self.forget_request(row.id)?;
        self.note_move(&before, &row, "engine", "review_expired", Some(&Text::from(LAPSED)))?;
        if row.run.state.name() == StateName::Dead {
            self.tally.happened(self.now, row.tenant, row.queue, HourlyKind::Dead, None);
        }
        Ok(())
    }
}

/// A patch as revisions keep it.
pub(super) fn patch_of(fix: &Fix) -> Result<Option<Vec<u8>>> {
    fix.json_patch.as_ref().map(|patch| json(patch).map(|text| encode(text.as_bytes()))).transpose()
}

/// Dead-letters runs whose approval nobody gave in time; a request that outlived its review goes too.
pub(super) fn expire_reviews(batch: &mut Batch<'_>, most: usize) -> Result<Swept> {
    let due: Vec<i64> = {
        let mut find =
            batch.conn.prepare_cached("SELECT run FROM reviews WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2")?;
        let found = find.query_map(params![batch.now.as_millis(), most], |row| row.get(0))?;
        found.collect::<Result<_, _>>()?
    };
    let mut swept = Swept { looked_at: due.len(), moved: 0, more: due.len() == most };
    for run in due {
        match in_review(batch, run)? {
            Some(row) => {
                batch.let_lapse(row)?;
                swept.moved += 1;
            }
            None => batch.forget_request(run)?,
        }
    }
    Ok(swept)
}

/// The run, if it is still in review and its time is up.
fn in_review(batch: &Batch<'_>, run: i64) -> Result<Option<RunRow>> {
    let mut find = batch.conn.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?;
    let mut rows = find.query([run])?;
    let Some(row) = rows.next()?.map(RunRow::read).transpose()? else { return Ok(None) };
    let lapsed = matches!(&row.run.state, State::Review(Review { expires_at, .. }) if *expires_at <= batch.now);
    Ok(lapsed.then_some(row))
}

/// What a run's page shows of its review.
pub(super) fn review_view(conn: &Connection, run: i64, review: &ReviewLife) -> Result<ReviewView> {
    let mut find = conn.prepare_cached("SELECT at, actor, request FROM reviews WHERE run = ?1")?;
    let mut rows = find.query([run])?;
    let found = rows.next()?;
    let (asked_at, asked_by, proposed): (Timestamp, String, Option<RawJson>) = match found {
        Some(row) => (time(row, 0)?, row.get(1)?, packed_json_or_none(row, 2, "request")?),
        None => (Timestamp::default(), String::new(), None),
    };
    let expires_at = Timestamp::from_millis(review.expires_at);
    Ok(ReviewView { proposed, plan_hash: review.plan_hash.clone(), expires_at, asked_by, asked_at })
}
