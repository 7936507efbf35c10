//! The ledger looked into, settled by people, and trimmed.

use redrive_core::ledger::Recorded;
use redrive_core::text::Text;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::EffectView;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::{Error, Result};
use crate::model::{EffectRef, Reconcile, RunRef, Swept};
use crate::sqlite::batch::Batch;
use crate::sqlite::ledger;
use crate::sqlite::lookup::{run_number, tenant_number};
use crate::sqlite::rows::{self, RunRow};
use crate::sqlite::steps::{COLUMNS, StepRow, holder, of_run};

/// How long an entry whose run is gone is kept after its last use.
const KEPT_MS: u64 = 90 * DAY_MS;

const EFFECT: &str = "effect";

/// `GET /v1/effects/{key}`.
pub(super) fn effect(conn: &Connection, at: &EffectRef) -> Result<EffectView> {
    find(conn, at)?.whole(at.tenant.as_str())
}

/// By its run, where one is named; otherwise the effect that holds the key, or the last one that gave it up.
fn find(conn: &Connection, at: &EffectRef) -> Result<StepRow> {
    let missing = || Error::NotFound(EFFECT);
    let tenant = tenant_number(conn, &at.tenant)?.ok_or_else(missing)?;
    let key = at.key.as_str();
    if let Some(run_id) = &at.run_id {
        let run = match run_number(conn, &RunRef { tenant: at.tenant.clone(), run_id: run_id.clone() }) {
            Ok(run) => run,
            Err(Error::NotFound(_)) => {
                // The run may be gone, and what it did is still known.
                let left = holder(conn, tenant, key)?.filter(|found| found.run_id == run_id.as_str());
                return left.ok_or_else(missing);
            }
            Err(error) => return Err(error),
        };
        return of_run(conn, run, key)?.ok_or_else(missing);
    }
    match holder(conn, tenant, key)? {
        Some(found) => Ok(found),
        None => given_up(conn, tenant, key)?.ok_or_else(missing),
    }
}

/// The effect that gave its key up last: nothing had happened.
fn given_up(conn: &Connection, tenant: i64, key: &str) -> Result<Option<StepRow>> {
    let mut find = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM steps WHERE tenant = ?1 AND key = ?2 AND effect = 1 AND named = 1 AND holds = 0
         ORDER BY at DESC, id DESC LIMIT 1"
    ))?;
    let mut rows = find.query(params![tenant, key])?;
    rows.next()?.map(StepRow::read).transpose()
}

/// `POST /v1/effects/{key}/reconcile`. The run stays where it is; its guard, and what a replay would do, change.
pub(super) fn reconcile(batch: &mut Batch<'_>, act: &Reconcile) -> Result<EffectView> {
    let found = find(batch.conn, &act.at)?;
    if let Recorded::Now(state) = ledger::reconciled(&found, act.outcome)? {
        batch.settle_step(&found, state, (act.output.as_deref(), act.output_omitted.as_ref()), &act.actor)?;
        if let Some(mut row) = run_of(batch, &found)? {
            let before = row.clone();
            let (old, new) = ((found.effect, found.state), (found.effect, state));
            redrive_core::ledger::recount(&mut row.run.effects, Some(old), new);
            batch.save(&before, &row)?;
            batch.note_move(&before, &row, &act.actor, "reconcile", Some(&note(&found, act)))?;
        }
    }
    effect(batch.conn, &act.at)
}

fn run_of(batch: &mut Batch<'_>, found: &StepRow) -> Result<Option<RunRow>> {
    let Some(run) = found.run else { return Ok(None) };
    let columns = rows::COLUMNS;
    let mut find = batch.conn.prepare_cached(&format!("SELECT {columns} FROM runs WHERE id = ?1"))?;
    let row = find.query_row([run], |row| Ok(RunRow::read(row))).optional()?;
    row.transpose()
}

/// Which effect, to what, and the reason's own bytes.
fn note(found: &StepRow, act: &Reconcile) -> Text {
    let what = format!("{} {}", found.key, act.outcome);
    let Some(reason) = &act.reason else { return Text::from(what.as_str()) };
    // Neither a key nor an outcome holds anything that JSON would escape.
    let said = reason.token().strip_prefix('"').map(|rest| format!("\"{what}: {rest}"));
    said.and_then(Text::from_token).unwrap_or_else(|| Text::from(what.as_str()))
}

/// Forgets entries that nobody has used for long and whose run is gone: only those are looked at.
pub(super) fn trim(conn: &Connection, now: Timestamp, most: usize) -> Result<Swept> {
    let oldest = now.minus_ms(KEPT_MS).as_millis();
    let mut delete = conn.prepare_cached(
        "DELETE FROM steps WHERE id IN (SELECT id FROM steps WHERE run IS NULL AND used_at < ?1 ORDER BY used_at LIMIT ?2)",
    )?;
    let gone = delete.execute(params![oldest, most])?;
    Ok(Swept { looked_at: gone, moved: gone, more: gone == most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::fixture::{Fixture, NOW_MS, Seed, now};

    const DAY: i64 = 86_400_000;

    fn keys(conn: &Connection) -> Vec<String> {
        let mut all = conn.prepare("SELECT key FROM steps ORDER BY key").unwrap();
        all.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn trim_at(fixture: &Fixture, most: usize) -> Swept {
        trim(&fixture.conn, now(), most).unwrap()
    }

    /// An entry of run 1 or 2, used so many days ago.
    fn used(fixture: &Fixture, run: i64, key: &str, days_ago: i64) {
        let sql = "INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, holds, at,
                       used_at, used_epoch) VALUES (1, ?1, 'r', 1, 0, ?2, 1, 'n', 1, 1, 1, 0, ?3, 0)";
        fixture.conn.execute(sql, params![run, key, NOW_MS - days_ago * DAY]).unwrap();
    }

    #[test]
    fn an_entry_outlives_its_run_by_ninety_days_of_not_being_used() {
        let fixture = Fixture::with([Seed::default(), Seed::default()]);
        for (run, key, days_ago) in [(1, "a-old", 91), (1, "b-older", 400), (1, "c-used", 89), (2, "d-of-a-run", 400)] {
            used(&fixture, run, key, days_ago);
        }
        fixture.conn.execute("DELETE FROM runs WHERE id = 1", []).unwrap();
        let first = trim_at(&fixture, 1);
        assert_eq!((first.moved, first.more, keys(&fixture.conn).len()), (1, true, 3), "the oldest first, bounded");
        assert!(trim_at(&fixture, 1).more);
        assert_eq!(trim_at(&fixture, 1).moved, 0);
        assert_eq!(keys(&fixture.conn), ["c-used", "d-of-a-run"]);
    }

    #[test]
    fn what_a_run_did_is_known_after_the_run_is_gone() {
        let fixture = Fixture::with([Seed::default()]);
        used(&fixture, 1, "charge", 1);
        fixture.conn.execute("DELETE FROM runs WHERE id = 1", []).unwrap();
        let (tenant, key) = ("acme".parse().unwrap(), "charge".parse().unwrap());
        let at = EffectRef { tenant, key, run_id: Some("r".parse().unwrap()) };
        assert_eq!(effect(&fixture.conn, &at).unwrap().run_id.as_str(), "r");
    }
}
