//! What a batch has changed, on its way to the database: one statement a table, in one order for every batch, all sent
//! before the first answer is awaited. Each column is unnested by itself: `FROM unnest(…)` over many would first put each of
//! them aside as a table of its own.

use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternState, Severity, StepStatus};
use tokio_postgres::types::ToSql;

use super::connection::Session;
use super::counter_deltas;
use super::rows::PgRows;
use super::sheet::{Out, Sheet, SheetAttempt, SheetPattern, SheetRun};
use crate::commands::life::{StateColumns, position};
use crate::commands::numbers::key_hash;
use crate::error::Result;

type Sent = std::result::Result<u64, tokio_postgres::Error>;

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

/// A run to be written, and its inner life.
type Run<'a> = (&'a SheetRun, Vec<u8>);

/// Runs to be written.
struct Changed<'a> {
    new: Vec<Run<'a>>,
    known: Vec<Run<'a>>,
}

impl Sheet {
    /// In the order in which runs are locked and inserted everywhere.
    fn changed(&self) -> Result<Changed<'_>> {
        let mut dirty: Vec<&SheetRun> = self.runs.values().map(|kept| &**kept).filter(|kept| kept.dirty).collect();
        dirty
            .sort_unstable_by(|a, b| (a.row.tenant, a.row.run_id.as_str()).cmp(&(b.row.tenant, b.row.run_id.as_str())));
        let mut changed = Changed { new: Vec::new(), known: Vec::new() };
        for kept in dirty {
            let runs = if kept.new.is_some() { &mut changed.new } else { &mut changed.known };
            runs.push((kept, kept.row.life()?.into_bytes()));
        }
        Ok(changed)
    }

    fn is_written(&self) -> bool {
        self.out.is_empty() && !self.runs.values().any(|kept| kept.dirty)
    }

    /// What was sent is the database's from here on.
    fn wrote(&mut self) {
        for kept in self.runs.values_mut() {
            (kept.dirty, kept.new) = (false, None);
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

const STATEMENTS: &[&str] =
    &[PATTERNS, ALIASES, INSERT_RUNS, UPDATE_RUNS, ATTEMPTS, PAYLOADS, MOVES, PATTERN_EVENTS, DOUBTS, SENT];

/// Sends everything, then waits. A statement that fails makes the commit behind it a rollback.
async fn send(
    session: &Session,
    out: &Out,
    runs: &Changed<'_>,
    end: Option<&str>,
) -> std::result::Result<(), tokio_postgres::Error> {
    // Prepared before the first is sent: nothing may overtake another, least of all the commit.
    let all = STATEMENTS.iter().chain(counter_deltas::STATEMENTS).copied().chain([PUT_ATTEMPTS.as_str()]);
    session.statements.prepare_all(&session.client, "writes", all).await?;
    let sent = tokio::join!(
        biased;
        patterns(session, &out.patterns),
        aliases(session, &out.patterns),
        insert_runs(session, &runs.new),
        update_runs(session, &runs.known),
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
    for done in [sent.0, sent.1, sent.2, sent.3, sent.4, sent.5, sent.6, sent.7, sent.8, sent.9, sent.10] {
        done?;
    }
    sent.11
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

/// One value of each.
pub(super) fn each<'a, T, V>(rows: impl IntoIterator<Item = &'a T>, of: impl Fn(&'a T) -> V) -> Vec<V>
where
    T: 'a,
{
    rows.into_iter().map(of).collect()
}

fn said(label: &Option<Label>) -> Option<&[u8]> {
    label.as_ref().map(|label| label.as_str().as_bytes())
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
        &each(new, |pattern| pattern.id),
        &each(new, |pattern| pattern.public_id.as_str()),
        &each(new, |pattern| pattern.tenant),
        &each(new, |pattern| pattern.fp_version),
        &each(new, |pattern| pattern.fp_hash),
        &each(new, |pattern| pattern.template.as_slice()),
        &each(new, |pattern| pattern.reason.as_str()),
        &each(new, |pattern| pattern.category),
        &each(new, |pattern| pattern.at),
        &position(PatternState::ALL, &PatternState::New),
    ];
    over(session, new.len(), PATTERNS, &values).await
}

const ALIASES: &str = "INSERT INTO pattern_alias (tenant, fp_hash, fp_version, pattern)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";

async fn aliases(session: &Session, new: &[SheetPattern]) -> Sent {
    let values: [&(dyn ToSql + Sync); 4] = [
        &each(new, |pattern| pattern.tenant),
        &each(new, |pattern| pattern.fp_hash),
        &each(new, |pattern| pattern.fp_version),
        &each(new, |pattern| pattern.id),
    ];
    over(session, new.len(), ALIASES, &values).await
}

const INSERT_RUNS: &str = "INSERT INTO runs (id, tenant, queue, key_hash, run_id, state, detail, due, wake, attempt, revision,
         reason, category, pattern, severity, received_at, updated_at, deferred_until, environment, agent, task_type,
         customer, model, provider, tool, step, idempotency_key, order_key, held_by, merged_into, replays, life, assigned_to)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::text[]),
         unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::bigint[]),
         unnest($11::bigint[]), unnest($12::text[]), unnest($13::bigint[]), unnest($14::bigint[]), unnest($15::bigint[]),
         unnest($16::bigint[]), unnest($17::bigint[]), unnest($18::bigint[]), unnest($19::bytea[]), unnest($20::bytea[]),
         unnest($21::bytea[]), unnest($22::bytea[]), unnest($23::bytea[]), unnest($24::bytea[]), unnest($25::bytea[]),
         unnest($26::bytea[]), unnest($27::text[]), unnest($28::text[]), unnest($29::bytea[]), unnest($30::text[]),
         unnest($31::bigint[]), unnest($32::bytea[]), unnest($33::bytea[])";

async fn insert_runs(session: &Session, new: &[Run<'_>]) -> Sent {
    if new.is_empty() {
        return Ok(0);
    }
    let states = each(new, |(kept, _)| StateColumns::of(&kept.row.run));
    let columns = |kept: &'_ SheetRun| kept.new.as_ref().map_or(kept.updated_at, |new| new.received_at).as_millis();
    let values: [&(dyn ToSql + Sync); 33] = [
        &each(new, |(kept, _)| kept.row.id),
        &each(new, |(kept, _)| kept.row.tenant),
        &each(new, |(kept, _)| kept.row.queue),
        &each(new, |(kept, _)| key_hash(kept.row.tenant, kept.row.run_id.as_str())),
        &each(new, |(kept, _)| kept.row.run_id.as_str()),
        &each(&states, |state| position(StateName::ALL, &state.state)),
        &each(&states, |state| state.detail),
        &each(&states, |state| state.due.map(Timestamp::as_millis)),
        &each(&states, |state| state.wake.map(Timestamp::as_millis)),
        &each(new, |(kept, _)| i64::from(kept.row.run.attempt)),
        &each(new, |(kept, _)| i64::from(kept.row.run.revision)),
        &each(new, |(kept, _)| &*kept.row.reason),
        &each(new, |(kept, _)| kept.row.category),
        &each(new, |(kept, _)| kept.row.pattern),
        &each(new, |(kept, _)| position(Severity::ALL, &kept.own.severity)),
        &each(new, |(kept, _)| columns(kept)),
        &each(new, |(kept, _)| kept.updated_at.as_millis()),
        &each(new, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        &each(new, |(kept, _)| kept.row.environment.as_str().as_bytes()),
        &each(new, |(kept, _)| said(&kept.own.agent)),
        &each(new, |(kept, _)| said(&kept.own.task_type)),
        &each(new, |(kept, _)| kept.new.as_ref().and_then(|new| said(&new.customer))),
        &each(new, |(kept, _)| said(&kept.row.model)),
        &each(new, |(kept, _)| said(&kept.row.provider)),
        &each(new, |(kept, _)| said(&kept.row.tool)),
        &each(new, |(kept, _)| said(&kept.row.step)),
        &each(new, |(kept, _)| kept.new.as_ref().and_then(|new| new.idempotency_key.as_deref())),
        &each(new, |(kept, _)| kept.own.order_key.as_ref().map(|key| key.as_str())),
        &each(&states, |state| said(&state.held_by)),
        &each(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        &each(new, |(kept, _)| i64::from(kept.row.run.replays)),
        &each(new, |(_, life)| life.as_slice()),
        &each(new, |(kept, _)| said(&kept.assigned_to)),
    ];
    over(session, new.len(), INSERT_RUNS, &values).await
}

const UPDATE_RUNS: &str = "UPDATE runs SET queue = new.queue, state = new.state, detail = new.detail, due = new.due,
         wake = new.wake, attempt = new.attempt, revision = new.revision, reason = new.reason, category = new.category,
         pattern = new.pattern, severity = new.severity, updated_at = new.updated_at,
         deferred_until = new.deferred_until, agent = new.agent, model = new.model, provider = new.provider,
         tool = new.tool, step = new.step, held_by = new.held_by, merged_into = new.merged_into, replays = new.replays,
         life = new.life, assigned_to = new.assigned_to
     FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS queue, unnest($3::bigint[]) AS state,
         unnest($4::bigint[]) AS detail, unnest($5::bigint[]) AS due, unnest($6::bigint[]) AS wake,
         unnest($7::bigint[]) AS attempt, unnest($8::bigint[]) AS revision, unnest($9::text[]) AS reason,
         unnest($10::bigint[]) AS category, unnest($11::bigint[]) AS pattern, unnest($12::bigint[]) AS severity,
         unnest($13::bigint[]) AS updated_at, unnest($14::bigint[]) AS deferred_until, unnest($15::bytea[]) AS agent,
         unnest($16::bytea[]) AS model, unnest($17::bytea[]) AS provider, unnest($18::bytea[]) AS tool,
         unnest($19::bytea[]) AS step, unnest($20::bytea[]) AS held_by, unnest($21::text[]) AS merged_into,
         unnest($22::bigint[]) AS replays, unnest($23::bytea[]) AS life, unnest($24::bytea[]) AS assigned_to) AS new
     WHERE runs.id = new.id";

async fn update_runs(session: &Session, known: &[Run<'_>]) -> Sent {
    if known.is_empty() {
        return Ok(0);
    }
    let states = each(known, |(kept, _)| StateColumns::of(&kept.row.run));
    let values: [&(dyn ToSql + Sync); 24] = [
        &each(known, |(kept, _)| kept.row.id),
        &each(known, |(kept, _)| kept.row.queue),
        &each(&states, |state| position(StateName::ALL, &state.state)),
        &each(&states, |state| state.detail),
        &each(&states, |state| state.due.map(Timestamp::as_millis)),
        &each(&states, |state| state.wake.map(Timestamp::as_millis)),
        &each(known, |(kept, _)| i64::from(kept.row.run.attempt)),
        &each(known, |(kept, _)| i64::from(kept.row.run.revision)),
        &each(known, |(kept, _)| &*kept.row.reason),
        &each(known, |(kept, _)| kept.row.category),
        &each(known, |(kept, _)| kept.row.pattern),
        &each(known, |(kept, _)| position(Severity::ALL, &kept.own.severity)),
        &each(known, |(kept, _)| kept.updated_at.as_millis()),
        &each(known, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        &each(known, |(kept, _)| said(&kept.own.agent)),
        &each(known, |(kept, _)| said(&kept.row.model)),
        &each(known, |(kept, _)| said(&kept.row.provider)),
        &each(known, |(kept, _)| said(&kept.row.tool)),
        &each(known, |(kept, _)| said(&kept.row.step)),
        &each(&states, |state| said(&state.held_by)),
        &each(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        &each(known, |(kept, _)| i64::from(kept.row.run.replays)),
        &each(known, |(_, life)| life.as_slice()),
        &each(known, |(kept, _)| said(&kept.assigned_to)),
    ];
    over(session, known.len(), UPDATE_RUNS, &values).await
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
        &each(out.attempts.keys(), |id| *id),
        &each(&ended, |attempt| position(Outcome::ALL, &attempt.kept.outcome)),
        &each(&ended, |attempt| attempt.epoch),
        &each(&ended, |attempt| attempt.kept.digest.as_deref()),
        &each(&ended, |attempt| position(StateName::ALL, &attempt.kept.state)),
        &each(&ended, |attempt| attempt.fingerprint.map(|(version, _)| version)),
        &each(&ended, |attempt| attempt.fingerprint.map(|(_, hash)| hash)),
        &each(&ended, |attempt| attempt.kept.pattern),
        &each(&ended, |attempt| i64::from(attempt.kept.pattern_new)),
        &each(&ended, |attempt| attempt.kept.recorded_at.as_millis()),
        &each(&ended, |attempt| attempt.kept.origin.as_bytes()),
        &each(&ended, |attempt| attempt.kept.verdict.as_deref()),
        &each(&ended, |attempt| attempt.body.as_slice()),
    ];
    let sql = if ended.iter().any(|attempt| attempt.late) { PUT_ATTEMPTS.as_str() } else { ATTEMPTS };
    over(session, ended.len(), sql, &values).await
}

const PAYLOADS: &str = "INSERT INTO payloads (id, kind, digest, about, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bytea[]), unnest($4::bytea[]), unnest($5::bytea[])";

async fn payloads(session: &Session, out: &Out) -> Sent {
    let kept = &out.payloads;
    let values: [&(dyn ToSql + Sync); 5] = [
        &each(kept.keys(), |id| *id),
        &each(kept.values(), |payload| payload.kind),
        &each(kept.values(), |payload| payload.digest.as_slice()),
        &each(kept.values(), |payload| payload.about.as_slice()),
        &each(kept.values(), |payload| payload.body.as_slice()),
    ];
    over(session, kept.len(), PAYLOADS, &values).await
}

const MOVES: &str = "INSERT INTO history (run, at, from_state, to_state, actor, event, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::text[]),
         unnest($6::text[]), unnest($7::bytea[])";

async fn moves(session: &Session, out: &Out) -> Sent {
    let moves = &out.moves;
    let values: [&(dyn ToSql + Sync); 7] = [
        &each(moves, |moved| moved.run),
        &each(moves, |moved| moved.at),
        &each(moves, |moved| moved.from),
        &each(moves, |moved| moved.to),
        &each(moves, |moved| moved.actor.as_str()),
        &each(moves, |moved| moved.event.as_str()),
        &each(moves, |moved| moved.note.as_deref()),
    ];
    over(session, moves.len(), MOVES, &values).await
}

const PATTERN_EVENTS: &str = "INSERT INTO pattern_events (pattern, at, event, actor, about, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::bytea[]),
         unnest($6::bytea[])";

async fn pattern_events(session: &Session, out: &Out) -> Sent {
    let events = &out.pattern_events;
    let values: [&(dyn ToSql + Sync); 6] = [
        &each(events, |event| event.pattern),
        &each(events, |event| event.at),
        &each(events, |event| event.event),
        &each(events, |event| event.actor.as_str()),
        &each(events, |event| event.about.as_deref()),
        &each(events, |event| event.note.as_deref()),
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
        [&each(out.doubts.keys(), |run| *run), &each(out.doubts.values(), |at| *at), &unknown, &started];
    over(session, out.doubts.len(), DOUBTS, &values).await
}

const SENT: &str = "INSERT INTO sent (id, epoch, changes, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bytea[]), unnest($4::bytea[])
     ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, changes = excluded.changes, body = excluded.body
         WHERE excluded.epoch > sent.epoch";

async fn sent_payloads(session: &Session, out: &Out) -> Sent {
    let sent = &out.sent;
    let values: [&(dyn ToSql + Sync); 4] = [
        &each(sent.keys(), |id| *id),
        &each(sent.values(), |sent| sent.epoch),
        &each(sent.values(), |sent| sent.changes.as_slice()),
        &each(sent.values(), |sent| sent.body.as_slice()),
    ];
    over(session, sent.len(), SENT, &values).await
}
