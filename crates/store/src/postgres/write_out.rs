//! What a batch has changed, on its way to the database: one statement a table (those of runs are in `runs_out`), in one
//! order for every batch, all sent before the first answer is awaited. Each column is unnested by itself: `FROM unnest(…)`
//! over many would first put each of them aside as a table of its own.

use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::wire::{PatternState, StepStatus};
use tokio_postgres::types::ToSql;

use super::array::column;
use super::connection::Session;
use super::counter_deltas;
use super::rows::PgRows;
use super::runs_out::{self, Changed, insert_runs, move_runs, update_runs};
use super::sheet::{Dirty, Out, Sheet, SheetAttempt, SheetPattern};
use crate::commands::life::position;
use crate::error::Result;

pub(super) type Sent = std::result::Result<u64, tokio_postgres::Error>;

impl PgRows<'_> {
    /// Writes what is still only in memory, for a statement that has to see it.
    pub(super) fn write_out(&mut self) -> Result<()> {
        if self.sheet.is_written() {
            return Ok(());
        }
        let runs = self.sheet.changed()?;
        let sent = self.line.wait(send(&self.line.session, &self.sheet.out, &runs, None));
        self.line.noted(sent)?;
        self.sheet.wrote();
        Ok(())
    }

    /// Writes all there is and commits. Only after this is anything acknowledged.
    pub(super) fn commit(&mut self) -> Result<()> {
        let runs = self.sheet.changed()?;
        let sent = self.line.wait(send(&self.line.session, &self.sheet.out, &runs, Some("COMMIT")));
        self.line.noted(sent)
    }
}

impl Sheet {
    fn is_written(&self) -> bool {
        self.out.is_empty() && !self.runs.values().any(|kept| kept.dirty != Dirty::No)
    }

    /// What was sent is the database's from here on.
    fn wrote(&mut self) {
        for kept in self.runs.values_mut() {
            (kept.dirty, kept.new) = (Dirty::No, None);
        }
        // Answers are given again from memory only where nothing else would know them.
        for (id, attempt) in std::mem::take(&mut self.out).attempts {
            self.attempts.insert(id, Some(attempt.kept));
        }
        self.last_failures.clear();
    }
}

impl Out {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty()
            && self.payloads.is_empty()
            && self.moves.is_empty()
            && self.patterns.is_empty()
            && self.pattern_events.is_empty()
            && self.sent.is_empty()
            && self.doubts.is_empty()
            && self.tally.is_none()
    }
}

const STATEMENTS: &[&str] = &[PATTERNS, ALIASES, ATTEMPTS, PAYLOADS, MOVES, PATTERN_EVENTS, DOUBTS, SENT];

/// Sends everything, then waits. A statement that fails makes the commit behind it a rollback.
async fn send(
    session: &Session,
    out: &Out,
    runs: &Changed<'_>,
    end: Option<&str>,
) -> std::result::Result<(), tokio_postgres::Error> {
    // Prepared before the first is sent: nothing may overtake another, least of all the commit.
    let all = STATEMENTS.iter().chain(runs_out::STATEMENTS).chain(counter_deltas::STATEMENTS);
    let all = all.copied().chain([PUT_ATTEMPTS.as_str()]);
    session.statements.prepare_all(&session.client, "writes", all).await?;
    let sent = tokio::join!(
        biased;
        patterns(session, &out.patterns),
        aliases(session, &out.patterns),
        insert_runs(session, &runs.new),
        update_runs(session, &runs.known),
        move_runs(session, &runs.moved),
        attempts(session, out),
        payloads(session, out),
        moves(session, out),
        pattern_events(session, out),
        doubts(session, out),
        sent_payloads(session, out),
        counter_deltas::append(session, out.tally.as_ref()),
        async {
            match end {
                Some(end) => session.client.batch_execute(end).await,
                None => Ok(()),
            }
        },
    );
    for done in [sent.0, sent.1, sent.2, sent.3, sent.4, sent.5, sent.6, sent.7, sent.8, sent.9, sent.10, sent.11] {
        done?;
    }
    sent.12
}

/// A statement over so many rows; none is none.
pub(super) async fn over(session: &Session, rows: usize, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Sent {
    if rows == 0 {
        return Ok(0);
    }
    debug_assert!(session.statements.knows(sql), "it would be sent behind the commit: {sql}");
    let statement = session.statements.prepared(&session.client, sql).await?;
    session.client.execute(&statement, values).await
}

const PATTERNS: &str =
    "INSERT INTO patterns (id, public_id, tenant, fp_version, fp_hash, template, reason, category, count,
         open, first_seen, last_seen, group_seen, state, regression)
     SELECT id, public_id, tenant, fp_version, fp_hash, template, reason, category, 0, 0, at, at, at, $10, 0
     FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::text[]) AS public_id, unnest($3::bigint[]) AS tenant,
         unnest($4::bigint[]) AS fp_version, unnest($5::bigint[]) AS fp_hash, unnest($6::bytea[]) AS template,
         unnest($7::text[]) AS reason, unnest($8::bigint[]) AS category, unnest($9::bigint[]) AS at) AS new
     ORDER BY public_id";

async fn patterns(session: &Session, new: &[SheetPattern]) -> Sent {
    let values: [&(dyn ToSql + Sync); 10] = [
        &column(new, |pattern| pattern.id),
        &column(new, |pattern| pattern.public_id.as_str()),
        &column(new, |pattern| pattern.tenant),
        &column(new, |pattern| pattern.fp_version),
        &column(new, |pattern| pattern.fp_hash),
        &column(new, |pattern| pattern.template.as_slice()),
        &column(new, |pattern| pattern.reason.as_str()),
        &column(new, |pattern| pattern.category),
        &column(new, |pattern| pattern.at),
        &position(PatternState::ALL, &PatternState::New),
    ];
    over(session, new.len(), PATTERNS, &values).await
}

const ALIASES: &str = "INSERT INTO pattern_alias (tenant, fp_hash, fp_version, pattern)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";

async fn aliases(session: &Session, new: &[SheetPattern]) -> Sent {
    let values: [&(dyn ToSql + Sync); 4] = [
        &column(new, |pattern| pattern.tenant),
        &column(new, |pattern| pattern.fp_hash),
        &column(new, |pattern| pattern.fp_version),
        &column(new, |pattern| pattern.id),
    ];
    over(session, new.len(), ALIASES, &values).await
}

const ATTEMPTS: &str =
    "INSERT INTO attempts (id, outcome, epoch, digest, state, fp_version, fp_hash, pattern, pattern_new,
         recorded_at, origin, verdict, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bigint[]),
         unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::bigint[]),
         unnest($11::bytea[]), unnest($12::bytea[]), unnest($13::bytea[])";
/// A late success replaces the silence that was put in its place. Looking for one costs as much as the attempt itself.
static PUT_ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{ATTEMPTS} ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome, epoch = excluded.epoch,
             digest = excluded.digest, state = excluded.state, fp_version = excluded.fp_version,
             fp_hash = excluded.fp_hash, pattern = excluded.pattern, pattern_new = excluded.pattern_new,
             recorded_at = excluded.recorded_at, origin = excluded.origin, verdict = excluded.verdict,
             body = excluded.body"
    )
});

async fn attempts(session: &Session, out: &Out) -> Sent {
    let ended: Vec<&SheetAttempt> = out.attempts.values().collect();
    let values: [&(dyn ToSql + Sync); 13] = [
        &column(out.attempts.keys(), |id| *id),
        &column(&ended, |attempt| position(Outcome::ALL, &attempt.kept.outcome)),
        &column(&ended, |attempt| attempt.epoch),
        &column(&ended, |attempt| attempt.kept.digest.as_deref()),
        &column(&ended, |attempt| position(StateName::ALL, &attempt.kept.state)),
        &column(&ended, |attempt| attempt.fingerprint.map(|(version, _)| version)),
        &column(&ended, |attempt| attempt.fingerprint.map(|(_, hash)| hash)),
        &column(&ended, |attempt| attempt.kept.pattern),
        &column(&ended, |attempt| i64::from(attempt.kept.pattern_new)),
        &column(&ended, |attempt| attempt.kept.recorded_at.as_millis()),
        &column(&ended, |attempt| attempt.kept.origin.as_bytes()),
        &column(&ended, |attempt| attempt.kept.verdict.as_deref()),
        &column(&ended, |attempt| attempt.body.as_slice()),
    ];
    let sql = if ended.iter().any(|attempt| attempt.late) { PUT_ATTEMPTS.as_str() } else { ATTEMPTS };
    over(session, ended.len(), sql, &values).await
}

const PAYLOADS: &str = "INSERT INTO payloads (id, kind, digest, about, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bytea[]), unnest($4::bytea[]), unnest($5::bytea[])";

async fn payloads(session: &Session, out: &Out) -> Sent {
    let kept = &out.payloads;
    let values: [&(dyn ToSql + Sync); 5] = [
        &column(kept.keys(), |id| *id),
        &column(kept.values(), |payload| payload.kind),
        &column(kept.values(), |payload| payload.digest.as_slice()),
        &column(kept.values(), |payload| payload.about.as_slice()),
        &column(kept.values(), |payload| payload.body.as_slice()),
    ];
    over(session, kept.len(), PAYLOADS, &values).await
}

const MOVES: &str = "INSERT INTO history (run, at, from_state, to_state, actor, event, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::text[]),
         unnest($6::text[]), unnest($7::bytea[])";

async fn moves(session: &Session, out: &Out) -> Sent {
    let moves = &out.moves;
    let values: [&(dyn ToSql + Sync); 7] = [
        &column(moves, |moved| moved.run),
        &column(moves, |moved| moved.at),
        &column(moves, |moved| moved.from),
        &column(moves, |moved| moved.to),
        &column(moves, |moved| moved.actor.as_str()),
        &column(moves, |moved| moved.event.as_str()),
        &column(moves, |moved| moved.note.as_deref()),
    ];
    over(session, moves.len(), MOVES, &values).await
}

const PATTERN_EVENTS: &str = "INSERT INTO pattern_events (pattern, at, event, actor, about, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::bytea[]),
         unnest($6::bytea[])";

async fn pattern_events(session: &Session, out: &Out) -> Sent {
    let events = &out.pattern_events;
    let values: [&(dyn ToSql + Sync); 6] = [
        &column(events, |event| event.pattern),
        &column(events, |event| event.at),
        &column(events, |event| event.event),
        &column(events, |event| event.actor.as_str()),
        &column(events, |event| event.about.as_deref()),
        &column(events, |event| event.note.as_deref()),
    ];
    over(session, events.len(), PATTERN_EVENTS, &values).await
}

const DOUBTS: &str = "UPDATE steps SET status = $3, at = new.at
     FROM (SELECT unnest($1::bigint[]) AS run, unnest($2::bigint[]) AS at) AS new
     WHERE steps.run = new.run AND effect = 1 AND status = $4";

async fn doubts(session: &Session, out: &Out) -> Sent {
    let [unknown, started] =
        [StepStatus::Unknown, StepStatus::Started].map(|status| position(StepStatus::ALL, &status));
    let values: [&(dyn ToSql + Sync); 4] =
        [&column(out.doubts.keys(), |run| *run), &column(out.doubts.values(), |at| *at), &unknown, &started];
    over(session, out.doubts.len(), DOUBTS, &values).await
}

const SENT: &str = "INSERT INTO sent (id, epoch, changes, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bytea[]), unnest($4::bytea[])
     ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, changes = excluded.changes, body = excluded.body
         WHERE excluded.epoch > sent.epoch";

async fn sent_payloads(session: &Session, out: &Out) -> Sent {
    let sent = &out.sent;
    let values: [&(dyn ToSql + Sync); 4] = [
        &column(sent.keys(), |id| *id),
        &column(sent.values(), |sent| sent.epoch),
        &column(sent.values(), |sent| sent.changes.as_slice()),
        &column(sent.values(), |sent| sent.body.as_slice()),
    ];
    over(session, sent.len(), SENT, &values).await
}
