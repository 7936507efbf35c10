//! What a batch has changed, on its way to the database: one statement a table (those of runs are in `runs_out`), in one
//! order for every batch, all sent before the first answer is awaited. Each column is unnested by itself: `FROM unnest(…)`
//! over many would first put each of them aside as a table of its own.

use std::sync::LazyLock;

use redrive_core::lifecycle::Outcome;
use redrive_core::run::StateName;
use redrive_core::wire::{PatternState, StepStatus};

use crate::postgres::commit::array::column;
use crate::postgres::commit::counter_deltas;
use crate::postgres::commit::runs_out::{self, insert_runs, move_runs, update_runs};
use crate::postgres::commit::unit_of_work::{Dirty, Out, SheetAttempt, SheetPattern, UnitOfWork};
use crate::postgres::commit::write::Write;
use crate::postgres::commit::writer_connection::WriterConnection;
use crate::postgres::rows::PgRows;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::position;

/// So many runs that a long command has moved go out while it goes on: the database writes while we decide. A debug build
/// sends hardly any together, so that every suite sees it.
const AHEAD_RUNS: usize = if cfg!(debug_assertions) { 2 } else { 256 };

impl PgRows<'_> {
    /// Writes what is still only in memory, for a statement that has to see it.
    pub(crate) fn write_out(&mut self) -> Result<()> {
        if self.unit.is_written() {
            return Ok(());
        }
        self.send_out()?;
        self.connection.settle()?;
        self.unit.wrote();
        Ok(())
    }

    /// The same without waiting, where enough has come together: whether it could be written is known at the commit.
    pub(crate) fn write_ahead(&mut self) -> Result<()> {
        if self.unit.changed_runs < AHEAD_RUNS {
            return Ok(());
        }
        self.send_out()?;
        self.connection.let_go();
        self.unit.wrote();
        Ok(())
    }

    /// Writes all there is and commits. Only after this is anything acknowledged. A statement that fails makes the commit
    /// behind it a rollback.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.send_out()?;
        self.connection.send_commit();
        self.connection.settle()
    }

    fn send_out(&mut self) -> Result<()> {
        let writes = self.unit.writes()?;
        prepare(self.connection)?;
        self.connection.send(writes);
        Ok(())
    }
}

/// Before the first is sent: nothing may overtake another, least of all the commit.
pub(crate) fn prepare(connection: &mut WriterConnection) -> Result<()> {
    let all = STATEMENTS.iter().chain(counter_deltas::STATEMENTS).copied();
    let all = all.chain(runs_out::statements()).chain([PUT_ATTEMPTS.as_str()]);
    let prepared =
        connection.wait(connection.session.statements.prepare_all(&connection.session.client, "writes", all));
    connection.noted(prepared)
}

impl UnitOfWork {
    fn is_written(&self) -> bool {
        self.out.is_empty() && !self.runs.values().any(|kept| kept.dirty != Dirty::No)
    }

    /// All that is to be written, in the order in which every batch writes.
    fn writes(&self) -> Result<Vec<Write>> {
        let (out, runs) = (&self.out, self.changed()?);
        let written = [
            (!out.patterns.is_empty()).then(|| patterns(&out.patterns)),
            (!out.patterns.is_empty()).then(|| aliases(&out.patterns)),
            (!runs.new.is_empty()).then(|| insert_runs(&runs.new)),
            (!runs.known.is_empty()).then(|| update_runs(&runs.known)),
            (!runs.moved.is_empty()).then(|| move_runs(&runs.moved)),
        ];
        let kept = [
            (!out.payloads.is_empty()).then(|| payloads(out)),
            (!out.moves.is_empty()).then(|| moves(out)),
            (!out.pattern_events.is_empty()).then(|| pattern_events(out)),
            (!out.doubts.is_empty()).then(|| doubts(out)),
            (!out.sent.is_empty()).then(|| sent_payloads(out)),
        ];
        let counted = out.tally.iter().flat_map(|(tally, now)| counter_deltas::append(tally, *now));
        let written = written.into_iter().flatten().chain(attempts(out)).chain(kept.into_iter().flatten());
        Ok(written.chain(counted).collect())
    }

    /// What was sent is the database's from here on.
    fn wrote(&mut self) {
        for kept in self.runs.values_mut() {
            (kept.dirty, kept.new) = (Dirty::No, None);
        }
        self.changed_runs = 0;
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

const PATTERNS: &str =
    "INSERT INTO patterns (id, public_id, tenant, fp_version, fp_hash, template, reason, category, count,
         open, first_seen, last_seen, group_seen, state, regression)
     SELECT id, public_id, tenant, fp_version, fp_hash, template, reason, category, 0, 0, at, at, at, $10, 0
     FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::text[]) AS public_id, unnest($3::bigint[]) AS tenant,
         unnest($4::bigint[]) AS fp_version, unnest($5::bigint[]) AS fp_hash, unnest($6::bytea[]) AS template,
         unnest($7::text[]) AS reason, unnest($8::bigint[]) AS category, unnest($9::bigint[]) AS at) AS new
     ORDER BY public_id";

fn patterns(new: &[SheetPattern]) -> Write {
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
    Write::columns(PATTERNS, columns).with(position(PatternState::ALL, &PatternState::New))
}

const ALIASES: &str = "INSERT INTO pattern_alias (tenant, fp_hash, fp_version, pattern)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";

fn aliases(new: &[SheetPattern]) -> Write {
    let columns = [
        column(new, |pattern| pattern.tenant),
        column(new, |pattern| pattern.fp_hash),
        column(new, |pattern| pattern.fp_version),
        column(new, |pattern| pattern.id),
    ];
    Write::columns(ALIASES, columns)
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
fn attempts(out: &Out) -> impl Iterator<Item = Write> {
    let (late, ended): (Vec<_>, Vec<_>) = out.attempts.iter().partition(|(_, attempt)| attempt.late);
    let written = [(ATTEMPTS, ended), (PUT_ATTEMPTS.as_str(), late)];
    written.into_iter().filter(|(_, attempts)| !attempts.is_empty()).map(|(sql, attempts)| put(sql, &attempts))
}

fn put(sql: &'static str, attempts: &[(&(i64, u32), &SheetAttempt)]) -> Write {
    let ended: Vec<&SheetAttempt> = attempts.iter().map(|(_, attempt)| *attempt).collect();
    let columns = [
        column(attempts, |((run, _), _)| *run),
        column(attempts, |((_, attempt), _)| i64::from(*attempt)),
        column(&ended, |attempt| position(Outcome::ALL, &attempt.kept.outcome)),
        column(&ended, |attempt| attempt.kept.digest.as_deref()),
        column(&ended, |attempt| position(StateName::ALL, &attempt.kept.state)),
        column(&ended, |attempt| attempt.fingerprint.map(|(version, _)| version)),
        column(&ended, |attempt| attempt.fingerprint.map(|(_, hash)| hash)),
        column(&ended, |attempt| attempt.kept.pattern),
        column(&ended, |attempt| i64::from(attempt.kept.pattern_new)),
        column(&ended, |attempt| attempt.kept.recorded_at.as_millis()),
        column(&ended, |attempt| attempt.kept.origin.as_bytes()),
        column(&ended, |attempt| attempt.kept.verdict.as_deref()),
        column(&ended, |attempt| attempt.body.as_slice()),
    ];
    Write::columns(sql, columns)
}

const PAYLOADS: &str = "INSERT INTO payloads (run, revision, kind, digest, about, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bytea[]),
         unnest($6::bytea[])";

fn payloads(out: &Out) -> Write {
    let kept = &out.payloads;
    let columns = [
        column(kept.keys(), |(run, _)| *run),
        column(kept.keys(), |(_, revision)| i64::from(*revision)),
        column(kept.values(), |payload| payload.kind),
        column(kept.values(), |payload| payload.digest.as_slice()),
        column(kept.values(), |payload| payload.about.as_slice()),
        column(kept.values(), |payload| payload.body.as_slice()),
    ];
    Write::columns(PAYLOADS, columns)
}

const MOVES: &str = "INSERT INTO history (run, at, from_state, to_state, actor, event, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::text[]),
         unnest($6::text[]), unnest($7::bytea[])";

fn moves(out: &Out) -> Write {
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
    Write::columns(MOVES, columns)
}

const PATTERN_EVENTS: &str = "INSERT INTO pattern_events (pattern, at, event, actor, about, note)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), unnest($5::bytea[]),
         unnest($6::bytea[])";

fn pattern_events(out: &Out) -> Write {
    let events = &out.pattern_events;
    let columns = [
        column(events, |event| event.pattern),
        column(events, |event| event.at),
        column(events, |event| event.event),
        column(events, |event| event.actor.as_str()),
        column(events, |event| event.about.as_deref()),
        column(events, |event| event.note.as_deref()),
    ];
    Write::columns(PATTERN_EVENTS, columns)
}

const DOUBTS: &str = "UPDATE steps SET status = $3, at = new.at
     FROM (SELECT unnest($1::bigint[]) AS run, unnest($2::bigint[]) AS at) AS new
     WHERE steps.run = new.run AND effect = 1 AND status = $4";

fn doubts(out: &Out) -> Write {
    let [unknown, started] =
        [StepStatus::Unknown, StepStatus::Started].map(|status| position(StepStatus::ALL, &status));
    let columns = [column(out.doubts.keys(), |run| *run), column(out.doubts.values(), |at| *at)];
    Write::columns(DOUBTS, columns).with(unknown).with(started)
}

const SENT: &str = "INSERT INTO sent (run, attempt, epoch, changes, body)
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bytea[]), unnest($5::bytea[])
     ON CONFLICT (run, attempt) DO UPDATE SET epoch = excluded.epoch, changes = excluded.changes, body = excluded.body
         WHERE excluded.epoch > sent.epoch";

fn sent_payloads(out: &Out) -> Write {
    let sent = &out.sent;
    let columns = [
        column(sent.keys(), |(run, _)| *run),
        column(sent.keys(), |(_, attempt)| i64::from(*attempt)),
        column(sent.values(), |sent| sent.epoch),
        column(sent.values(), |sent| sent.changes.as_slice()),
        column(sent.values(), |sent| sent.body.as_slice()),
    ];
    Write::columns(SENT, columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_engine::runs::attempts::StoredAttempt;

    fn ended(attempt: u32, late: bool) -> SheetAttempt {
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
        SheetAttempt { kept, fingerprint: None, body: Vec::new(), late }
    }

    fn statements(attempts: impl IntoIterator<Item = SheetAttempt>) -> Vec<&'static str> {
        let attempts = attempts.into_iter().map(|attempt| ((7, attempt.kept.attempt), attempt)).collect();
        super::attempts(&Out { attempts, ..Out::default() }).map(|write| write.sql()).collect()
    }

    #[test]
    fn only_late_attempts_may_replace_one_that_is_there() {
        assert_eq!(statements([ended(1, false), ended(2, false)]), [ATTEMPTS]);
        assert_eq!(statements([ended(1, true)]), [PUT_ATTEMPTS.as_str()]);
        assert_eq!(statements([ended(1, false), ended(2, true), ended(3, false)]), [ATTEMPTS, PUT_ATTEMPTS.as_str()]);
        assert!(statements([]).is_empty());
    }
}
