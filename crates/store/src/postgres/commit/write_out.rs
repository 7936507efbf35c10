//! Writes what a batch has changed: one statement a table, in one order for every batch, all sent before the first answer is
//! awaited. Each column is an array that the statement unnests by itself: `FROM unnest(…)` over many arrays would first
//! materialise each of them as a table.

use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::{PatternState, Severity, StepStatus};
use tokio_postgres::types::ToSql;

use crate::postgres::commit::counter_deltas;
use crate::postgres::commit::unit_of_work::{LoadedRun, PendingAttempt, PendingPattern, PendingWrites, UnitOfWork};
use crate::postgres::commit::writer_connection::WriterConnection;
use crate::postgres::connection::PgSession;
use crate::postgres::rows::PgRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::{StateColumns, position};
use redrive_engine::runs::run_row::key_hash;

/// The values of one column, one of each row.
pub(crate) type ColumnValues<'a> = Box<dyn ToSql + Sync + 'a>;

pub(crate) fn column<'a, T, V: ToSql + Sync + 'a>(
    rows: impl IntoIterator<Item = T>,
    value: impl Fn(T) -> V,
) -> ColumnValues<'a> {
    Box::new(rows.into_iter().map(value).collect::<Vec<V>>())
}

/// A statement of a batch, with the values that it writes.
pub(crate) struct Write<'a> {
    sql: &'static str,
    values: Vec<ColumnValues<'a>>,
}

impl<'a> Write<'a> {
    pub(crate) fn new(sql: &'static str, values: impl Into<Vec<ColumnValues<'a>>>) -> Self {
        Self { sql, values: values.into() }
    }

    pub(crate) fn with(mut self, value: impl ToSql + Sync + 'a) -> Self {
        self.values.push(Box::new(value));
        self
    }

    /// The statement has to be prepared: otherwise what is sent after it would overtake it.
    pub(crate) async fn execute(&self, session: &PgSession) -> std::result::Result<(), tokio_postgres::Error> {
        debug_assert!(session.statements.knows(self.sql), "not prepared: {}", self.sql);
        let statement = session.statements.prepared(&session.client, self.sql).await?;
        let values: Vec<&(dyn ToSql + Sync)> =
            self.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        session.client.execute(&statement, &values).await.map(drop)
    }
}

impl PgRows<'_> {
    /// Writes what is only in memory, for a statement that has to see it.
    pub(crate) fn write_out(&mut self) -> Result<()> {
        if self.unit.is_written() {
            return Ok(());
        }
        self.send(false)?;
        self.unit.wrote();
        Ok(())
    }

    /// Writes all there is and commits. Only after this is anything acknowledged. A statement that fails makes the commit
    /// behind it a rollback.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.send(true)
    }

    fn send(&mut self, commit: bool) -> Result<()> {
        prepare(self.connection)?;
        let runs = self.unit.changed_runs()?;
        self.connection.send(&self.unit.writes(&runs), commit)
    }
}

/// Before the first is sent: nothing may overtake another, least of all the commit.
pub(crate) fn prepare(connection: &mut WriterConnection) -> Result<()> {
    let all = STATEMENTS.iter().chain(counter_deltas::STATEMENTS).copied();
    let all = all.chain([INSERT_RUNS.as_str(), PUT_ATTEMPTS.as_str()]);
    let prepared =
        connection.wait(connection.session.statements.prepare_all(&connection.session.client, "writes", all));
    connection.noted(prepared)
}

impl UnitOfWork {
    fn is_written(&self) -> bool {
        self.out.is_empty() && !self.runs.values().any(|kept| kept.dirty)
    }

    fn changed_runs(&self) -> Result<ChangedRuns<'_>> {
        let mut changed = ChangedRuns::default();
        for run in self.runs.values().filter(|run| run.dirty) {
            let runs = if run.new.is_some() { &mut changed.new } else { &mut changed.known };
            runs.push(RunWrite { run, state: StateColumns::of(&run.row.run), life: run.row.life()?.into_bytes() });
        }
        // All batches insert in one order: two that insert the same runs do not deadlock.
        changed.new.sort_unstable_by(|a, b| a.name().cmp(&b.name()));
        // These are locked, so any order is safe; by id the database visits each page once.
        changed.known.sort_unstable_by_key(|write| write.run.row.id);
        Ok(changed)
    }

    /// All that is to be written, in the order in which every batch writes.
    fn writes<'a>(&'a self, runs: &'a ChangedRuns<'a>) -> Vec<Write<'a>> {
        let out = &self.out;
        let mut writes = Vec::new();
        if !out.patterns.is_empty() {
            writes.extend([patterns(&out.patterns), aliases(&out.patterns)]);
        }
        if !runs.new.is_empty() {
            writes.push(insert_runs(&runs.new));
        }
        if !runs.known.is_empty() {
            writes.push(update_runs(&runs.known));
        }
        writes.extend(attempts(out));
        if !out.payloads.is_empty() {
            writes.push(payloads(out));
        }
        if !out.moves.is_empty() {
            writes.push(moves(out));
        }
        if !out.pattern_events.is_empty() {
            writes.push(pattern_events(out));
        }
        if !out.doubts.is_empty() {
            writes.push(doubts(out));
        }
        if !out.sent.is_empty() {
            writes.push(sent_payloads(out));
        }
        writes.extend(out.tally.iter().flat_map(|(tally, now)| counter_deltas::append(tally, *now)));
        writes
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

impl PendingWrites {
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

/// Runs to be written.
#[derive(Default)]
struct ChangedRuns<'a> {
    new: Vec<RunWrite<'a>>,
    known: Vec<RunWrite<'a>>,
}

/// A run to be written, with the columns that are derived from its state.
struct RunWrite<'a> {
    run: &'a LoadedRun,
    state: StateColumns,
    /// The run's document as JSON.
    life: Vec<u8>,
}

impl RunWrite<'_> {
    fn name(&self) -> (i64, &str) {
        (self.run.row.tenant, self.run.row.run_id.as_str())
    }
}

const STATEMENTS: &[&str] = &[PATTERNS, ALIASES, UPDATE_RUNS, ATTEMPTS, PAYLOADS, MOVES, PATTERN_EVENTS, DOUBTS, SENT];

const PATTERNS: &str =
    "INSERT INTO patterns (id, public_id, tenant, fp_version, fp_hash, template, reason, category, count,
         open, first_seen, last_seen, group_seen, state, regression)
     SELECT id, public_id, tenant, fp_version, fp_hash, template, reason, category, 0, 0, at, at, at, $10, 0
     FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::text[]) AS public_id, unnest($3::bigint[]) AS tenant,
         unnest($4::bigint[]) AS fp_version, unnest($5::bigint[]) AS fp_hash, unnest($6::bytea[]) AS template,
         unnest($7::text[]) AS reason, unnest($8::bigint[]) AS category, unnest($9::bigint[]) AS at) AS new
     ORDER BY public_id";

fn patterns(new: &[PendingPattern]) -> Write<'_> {
    let columns = [
        column(new, |pattern| pattern.id),
        column(new, |pattern| pattern.public_id.as_str()),
        column(new, |pattern| pattern.tenant),
        column(new, |pattern| pattern.fp_version),
        column(new, |pattern| pattern.fp_hash),
        column(new, |pattern| pattern.template.as_slice()),
        column(new, |pattern| pattern.reason.as_str()),
        column(new, |pattern| pattern.category),
        column(new, |pattern| pattern.at),
    ];
    Write::new(PATTERNS, columns).with(position(PatternState::ALL, &PatternState::New))
}

const ALIASES: &str = "INSERT INTO pattern_alias (tenant, fp_hash, fp_version, pattern)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";

fn aliases(new: &[PendingPattern]) -> Write<'_> {
    let columns = [
        column(new, |pattern| pattern.tenant),
        column(new, |pattern| pattern.fp_hash),
        column(new, |pattern| pattern.fp_version),
        column(new, |pattern| pattern.id),
    ];
    Write::new(ALIASES, columns)
}

fn said(label: &Option<Label>) -> Option<&[u8]> {
    label.as_ref().map(|label| label.as_str().as_bytes())
}

/// The columns of a new run and their types.
const NEW_RUN_COLUMNS: [(&str, &str); 34] = [
    ("id", "bigint"),
    ("tenant", "bigint"),
    ("queue", "bigint"),
    ("key_hash", "bigint"),
    ("run_id", "text"),
    ("state", "bigint"),
    ("detail", "bigint"),
    ("due", "bigint"),
    ("attempt", "bigint"),
    ("revision", "bigint"),
    ("reason", "text"),
    ("category", "bigint"),
    ("pattern", "bigint"),
    ("severity", "bigint"),
    ("received_at", "bigint"),
    ("updated_at", "bigint"),
    ("environment", "bytea"),
    ("agent", "bytea"),
    ("model", "bytea"),
    ("provider", "bytea"),
    ("replays", "bigint"),
    ("life", "bytea"),
    ("wake", "bigint"),
    ("deferred_until", "bigint"),
    ("task_type", "bytea"),
    ("customer", "bytea"),
    ("tool", "bytea"),
    ("step", "bytea"),
    ("idempotency_key", "text"),
    ("order_key", "text"),
    ("held_by", "bytea"),
    ("merged_into", "text"),
    ("assigned_to", "bytea"),
    ("unleasable", "bigint"),
];
static INSERT_RUNS: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = NEW_RUN_COLUMNS.iter().map(|(name, _)| *name).collect();
    let values = NEW_RUN_COLUMNS.iter().enumerate().map(|(at, (_, kind))| format!("unnest(${}::{kind}[])", at + 1));
    format!("INSERT INTO runs ({}) SELECT {}", names.join(", "), values.collect::<Vec<_>>().join(", "))
});

fn insert_runs<'a>(new: &'a [RunWrite<'a>]) -> Write<'a> {
    let columns: [ColumnValues<'_>; NEW_RUN_COLUMNS.len()] = [
        column(new, |RunWrite { run, .. }| run.row.id),
        column(new, |RunWrite { run, .. }| run.row.tenant),
        column(new, |RunWrite { run, .. }| run.row.queue),
        column(new, |RunWrite { run, .. }| key_hash(run.row.tenant, run.row.run_id.as_str())),
        column(new, |RunWrite { run, .. }| run.row.run_id.as_str()),
        column(new, |RunWrite { state, .. }| position(StateName::ALL, &state.state)),
        column(new, |RunWrite { state, .. }| state.detail),
        column(new, |RunWrite { state, .. }| state.due.map(Timestamp::as_millis)),
        column(new, |RunWrite { run, .. }| i64::from(run.row.run.attempt)),
        column(new, |RunWrite { run, .. }| i64::from(run.row.run.revision)),
        column(new, |RunWrite { run, .. }| &*run.row.reason),
        column(new, |RunWrite { run, .. }| run.row.category),
        column(new, |RunWrite { run, .. }| run.row.pattern),
        column(new, |RunWrite { run, .. }| position(Severity::ALL, &run.own.severity)),
        column(new, |RunWrite { run, .. }| run.received_at().as_millis()),
        column(new, |RunWrite { run, .. }| run.updated_at.as_millis()),
        column(new, |RunWrite { run, .. }| run.row.environment.as_str().as_bytes()),
        column(new, |RunWrite { run, .. }| said(&run.own.agent)),
        column(new, |RunWrite { run, .. }| said(&run.row.model)),
        column(new, |RunWrite { run, .. }| said(&run.row.provider)),
        column(new, |RunWrite { run, .. }| i64::from(run.row.run.replays)),
        column(new, |write| write.life.as_slice()),
        column(new, |RunWrite { state, .. }| state.wake.map(Timestamp::as_millis)),
        column(new, |RunWrite { run, .. }| run.row.run.deferred_until.map(Timestamp::as_millis)),
        column(new, |RunWrite { run, .. }| said(&run.own.task_type)),
        column(new, |RunWrite { run, .. }| run.new.as_ref().and_then(|new| said(&new.customer))),
        column(new, |RunWrite { run, .. }| said(&run.row.tool)),
        column(new, |RunWrite { run, .. }| said(&run.row.step)),
        column(new, |RunWrite { run, .. }| run.new.as_ref().and_then(|new| new.idempotency_key.as_deref())),
        column(new, |RunWrite { run, .. }| run.own.order_key.as_ref().map(|key| key.as_str())),
        column(new, |RunWrite { state, .. }| said(&state.held_by)),
        column(new, |RunWrite { state, .. }| state.merged_into.as_ref().map(|into| into.as_str())),
        column(new, |RunWrite { run, .. }| said(&run.assigned_to)),
        column(new, |RunWrite { state, .. }| state.unleasable.then_some(1_i64)),
    ];
    Write::new(&INSERT_RUNS, columns)
}

const UPDATE_RUNS: &str = "UPDATE runs SET queue = new.queue, state = new.state, detail = new.detail, due = new.due,
         wake = new.wake, attempt = new.attempt, revision = new.revision, reason = new.reason, category = new.category,
         pattern = new.pattern, severity = new.severity, updated_at = new.updated_at,
         deferred_until = new.deferred_until, agent = new.agent, model = new.model, provider = new.provider,
         tool = new.tool, step = new.step, held_by = new.held_by, merged_into = new.merged_into, replays = new.replays,
         life = new.life, assigned_to = new.assigned_to, unleasable = new.unleasable,
         lease_request = new.lease_request
     FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS queue, unnest($3::bigint[]) AS state,
         unnest($4::bigint[]) AS detail, unnest($5::bigint[]) AS due, unnest($6::bigint[]) AS wake,
         unnest($7::bigint[]) AS attempt, unnest($8::bigint[]) AS revision, unnest($9::text[]) AS reason,
         unnest($10::bigint[]) AS category, unnest($11::bigint[]) AS pattern, unnest($12::bigint[]) AS severity,
         unnest($13::bigint[]) AS updated_at, unnest($14::bigint[]) AS deferred_until, unnest($15::bytea[]) AS agent,
         unnest($16::bytea[]) AS model, unnest($17::bytea[]) AS provider, unnest($18::bytea[]) AS tool,
         unnest($19::bytea[]) AS step, unnest($20::bytea[]) AS held_by, unnest($21::text[]) AS merged_into,
         unnest($22::bigint[]) AS replays, unnest($23::bytea[]) AS life, unnest($24::bytea[]) AS assigned_to,
         unnest($25::bigint[]) AS unleasable, unnest($26::text[]) AS lease_request) AS new
     WHERE runs.id = new.id";

fn update_runs<'a>(known: &'a [RunWrite<'a>]) -> Write<'a> {
    let columns = [
        column(known, |RunWrite { run, .. }| run.row.id),
        column(known, |RunWrite { run, .. }| run.row.queue),
        column(known, |RunWrite { state, .. }| position(StateName::ALL, &state.state)),
        column(known, |RunWrite { state, .. }| state.detail),
        column(known, |RunWrite { state, .. }| state.due.map(Timestamp::as_millis)),
        column(known, |RunWrite { state, .. }| state.wake.map(Timestamp::as_millis)),
        column(known, |RunWrite { run, .. }| i64::from(run.row.run.attempt)),
        column(known, |RunWrite { run, .. }| i64::from(run.row.run.revision)),
        column(known, |RunWrite { run, .. }| &*run.row.reason),
        column(known, |RunWrite { run, .. }| run.row.category),
        column(known, |RunWrite { run, .. }| run.row.pattern),
        column(known, |RunWrite { run, .. }| position(Severity::ALL, &run.own.severity)),
        column(known, |RunWrite { run, .. }| run.updated_at.as_millis()),
        column(known, |RunWrite { run, .. }| run.row.run.deferred_until.map(Timestamp::as_millis)),
        column(known, |RunWrite { run, .. }| said(&run.own.agent)),
        column(known, |RunWrite { run, .. }| said(&run.row.model)),
        column(known, |RunWrite { run, .. }| said(&run.row.provider)),
        column(known, |RunWrite { run, .. }| said(&run.row.tool)),
        column(known, |RunWrite { run, .. }| said(&run.row.step)),
        column(known, |RunWrite { state, .. }| said(&state.held_by)),
        column(known, |RunWrite { state, .. }| state.merged_into.as_ref().map(|into| into.as_str())),
        column(known, |RunWrite { run, .. }| i64::from(run.row.run.replays)),
        column(known, |write| write.life.as_slice()),
        column(known, |RunWrite { run, .. }| said(&run.assigned_to)),
        column(known, |RunWrite { state, .. }| state.unleasable.then_some(1_i64)),
        column(known, |RunWrite { run, .. }| run.row.request()),
    ];
    Write::new(UPDATE_RUNS, columns)
}

const ATTEMPTS: &str =
    "INSERT INTO attempts (run, attempt, outcome, digest, state, fp_version, fp_hash, pattern, pattern_new,
         recorded_at, origin, verdict, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bigint[]),
         unnest($6::bigint[]), unnest($7::bigint[]), unnest($8::bigint[]), unnest($9::bigint[]), unnest($10::bigint[]),
         unnest($11::bytea[]), unnest($12::bytea[]), unnest($13::bytea[])";
/// A late success replaces the silence that was put in its place. Only late ones may: any other that is there already
/// is an error, and looking for one costs as much as the attempt itself.
static PUT_ATTEMPTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{ATTEMPTS} ON CONFLICT (run, attempt) DO UPDATE SET outcome = excluded.outcome,
             digest = excluded.digest, state = excluded.state, fp_version = excluded.fp_version,
             fp_hash = excluded.fp_hash, pattern = excluded.pattern, pattern_new = excluded.pattern_new,
             recorded_at = excluded.recorded_at, origin = excluded.origin, verdict = excluded.verdict,
             body = excluded.body"
    )
});

/// The late ones by a statement of their own.
fn attempts(out: &PendingWrites) -> impl Iterator<Item = Write<'_>> {
    let attempts = out.attempts.iter().map(|(id, attempt)| (*id, attempt));
    let (late, ended): (Vec<_>, Vec<_>) = attempts.partition(|(_, attempt)| attempt.late);
    let written = [(ATTEMPTS, ended), (PUT_ATTEMPTS.as_str(), late)];
    written.into_iter().filter(|(_, attempts)| !attempts.is_empty()).map(|(sql, attempts)| put(sql, &attempts))
}

fn put<'a>(sql: &'static str, attempts: &[((i64, u32), &'a PendingAttempt)]) -> Write<'a> {
    let ended = || attempts.iter().map(|(_, attempt)| *attempt);
    let columns = [
        column(attempts, |((run, _), _)| *run),
        column(attempts, |((_, attempt), _)| i64::from(*attempt)),
        column(ended(), |attempt| position(Outcome::ALL, &attempt.kept.outcome)),
        column(ended(), |attempt| attempt.kept.digest.as_deref()),
        column(ended(), |attempt| position(StateName::ALL, &attempt.kept.state)),
        column(ended(), |attempt| attempt.fingerprint.map(|(version, _)| version)),
        column(ended(), |attempt| attempt.fingerprint.map(|(_, hash)| hash)),
        column(ended(), |attempt| attempt.kept.pattern),
        column(ended(), |attempt| i64::from(attempt.kept.pattern_new)),
        column(ended(), |attempt| attempt.kept.recorded_at.as_millis()),
        column(ended(), |attempt| attempt.kept.origin.as_bytes()),
        column(ended(), |attempt| attempt.kept.verdict.as_deref()),
        column(ended(), |attempt| attempt.body.as_slice()),
    ];
    Write::new(sql, columns)
}

const PAYLOADS: &str = "INSERT INTO payloads (run, revision, kind, digest, about, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bytea[]),
         unnest($6::bytea[])";

fn payloads(out: &PendingWrites) -> Write<'_> {
    let kept = &out.payloads;
    let columns = [
        column(kept.keys(), |(run, _)| *run),
        column(kept.keys(), |(_, revision)| i64::from(*revision)),
        column(kept.values(), |payload| payload.kind),
        column(kept.values(), |payload| payload.digest.as_slice()),
        column(kept.values(), |payload| payload.about.as_slice()),
        column(kept.values(), |payload| payload.body.as_slice()),
    ];
    Write::new(PAYLOADS, columns)
}

const MOVES: &str = "INSERT INTO history (run, at, from_state, to_state, actor, event, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::text[]),
         unnest($6::text[]), unnest($7::bytea[])";

fn moves(out: &PendingWrites) -> Write<'_> {
    let moves = &out.moves;
    let columns = [
        column(moves, |moved| moved.run),
        column(moves, |moved| moved.at),
        column(moves, |moved| moved.from),
        column(moves, |moved| moved.to),
        column(moves, |moved| moved.actor.as_str()),
        column(moves, |moved| moved.event.as_str()),
        column(moves, |moved| moved.note.as_deref()),
    ];
    Write::new(MOVES, columns)
}

const PATTERN_EVENTS: &str = "INSERT INTO pattern_events (pattern, at, event, actor, about, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::bytea[]),
         unnest($6::bytea[])";

fn pattern_events(out: &PendingWrites) -> Write<'_> {
    let events = &out.pattern_events;
    let columns = [
        column(events, |event| event.pattern),
        column(events, |event| event.at),
        column(events, |event| event.event),
        column(events, |event| event.actor.as_str()),
        column(events, |event| event.about.as_deref()),
        column(events, |event| event.note.as_deref()),
    ];
    Write::new(PATTERN_EVENTS, columns)
}

const DOUBTS: &str = "UPDATE steps SET status = $3, at = new.at
     FROM (SELECT unnest($1::bigint[]) AS run, unnest($2::bigint[]) AS at) AS new
     WHERE steps.run = new.run AND effect = 1 AND status = $4";

fn doubts(out: &PendingWrites) -> Write<'_> {
    let [unknown, started] =
        [StepStatus::Unknown, StepStatus::Started].map(|status| position(StepStatus::ALL, &status));
    let columns = [column(out.doubts.keys(), |run| *run), column(out.doubts.values(), |at| *at)];
    Write::new(DOUBTS, columns).with(unknown).with(started)
}

const SENT: &str = "INSERT INTO sent (run, attempt, epoch, changes, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bytea[])
     ON CONFLICT (run, attempt) DO UPDATE SET epoch = excluded.epoch, changes = excluded.changes, body = excluded.body
         WHERE excluded.epoch > sent.epoch";

fn sent_payloads(out: &PendingWrites) -> Write<'_> {
    let sent = &out.sent;
    let columns = [
        column(sent.keys(), |(run, _)| *run),
        column(sent.keys(), |(_, attempt)| i64::from(*attempt)),
        column(sent.values(), |sent| sent.epoch),
        column(sent.values(), |sent| sent.changes.as_slice()),
        column(sent.values(), |sent| sent.body.as_slice()),
    ];
    Write::new(SENT, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_engine::runs::attempts::StoredAttempt;

    fn ended(attempt: u32, late: bool) -> PendingAttempt {
        let kept = StoredAttempt {
            attempt,
            outcome: Outcome::Succeeded,
            digest: None,
            state: StateName::Succeeded,
            recorded_at: redrive_core::time::Timestamp::from_millis(0),
            pattern: None,
            pattern_new: false,
            verdict: None,
            origin: String::new(),
        };
        PendingAttempt { kept, fingerprint: None, body: Vec::new(), late }
    }

    fn statements(attempts: impl IntoIterator<Item = PendingAttempt>) -> Vec<&'static str> {
        let attempts = attempts.into_iter().map(|attempt| ((7, attempt.kept.attempt), attempt)).collect();
        super::attempts(&PendingWrites { attempts, ..PendingWrites::default() }).map(|write| write.sql).collect()
    }

    #[test]
    fn only_late_attempts_may_replace_one_that_is_there() {
        assert_eq!(statements([ended(1, false), ended(2, false)]), [ATTEMPTS]);
        assert_eq!(statements([ended(1, true)]), [PUT_ATTEMPTS.as_str()]);
        assert_eq!(statements([ended(1, false), ended(2, true), ended(3, false)]), [ATTEMPTS, PUT_ATTEMPTS.as_str()]);
        assert!(statements([]).is_empty());
    }
}
