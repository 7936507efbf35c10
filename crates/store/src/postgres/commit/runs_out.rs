//! Runs on their way to the database: those that are new, and those that a batch has changed.

use std::sync::LazyLock;

use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::Severity;

use crate::postgres::commit::array::{Column, column};
use crate::postgres::commit::unit_of_work::{Dirty, SheetRun, UnitOfWork};
use crate::postgres::commit::write::Write;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::{StateColumns, position};
use redrive_engine::runs::run_row::key_hash;

/// All that this may send.
pub(crate) fn statements() -> [&'static str; 4] {
    [&INSERT_RUNS, &INSERT_WHOLE_RUNS, UPDATE_RUNS, MOVE_RUNS]
}

/// A run to be written, and its inner life.
pub(crate) type Run<'a> = (&'a SheetRun, Vec<u8>);

/// Runs to be written.
pub(crate) struct Changed<'a> {
    pub(crate) new: Vec<Run<'a>>,
    pub(crate) known: Vec<Run<'a>>,
    /// Those of which only what a move changes is new.
    pub(crate) moved: Vec<Run<'a>>,
}

impl UnitOfWork {
    pub(crate) fn changed(&self) -> Result<Changed<'_>> {
        let mut changed = Changed { new: Vec::new(), known: Vec::new(), moved: Vec::new() };
        for kept in self.runs.values().map(|kept| &**kept).filter(|kept| kept.dirty != Dirty::No) {
            let runs = match (&kept.new, kept.dirty) {
                (Some(_), _) => &mut changed.new,
                (None, Dirty::Moved) => &mut changed.moved,
                (None, _) => &mut changed.known,
            };
            runs.push((kept, kept.row.life()?.into_bytes()));
        }
        // In the order in which all batches insert: two that make the same runs do not wait for each other.
        changed.new.sort_unstable_by(|(a, _), (b, _)| {
            (a.row.tenant, a.row.run_id.as_str()).cmp(&(b.row.tenant, b.row.run_id.as_str()))
        });
        // These are locked, so their order is free: as they lie, each page is come to once.
        for locked in [&mut changed.known, &mut changed.moved] {
            locked.sort_unstable_by_key(|(kept, _)| kept.row.id);
        }
        Ok(changed)
    }
}

fn said(label: &Option<Label>) -> Option<&[u8]> {
    label.as_ref().map(|label| label.as_str().as_bytes())
}

/// A column of a new run and its type.
type Named = (&'static str, &'static str);

/// What every new run has, or most.
const OFTEN: [Named; 22] = [
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
];
/// What few have. A batch in which nobody has any of it leaves these out: a column that is sent costs the database a look
/// at each row of it, whatever it holds.
const SELDOM: [Named; 12] = [
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
static INSERT_RUNS: LazyLock<String> = LazyLock::new(|| insert(&OFTEN));
static INSERT_WHOLE_RUNS: LazyLock<String> = LazyLock::new(|| insert(&[OFTEN.as_slice(), &SELDOM].concat()));

fn insert(columns: &[Named]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values = columns.iter().enumerate().map(|(at, (_, kind))| format!("unnest(${}::{kind}[])", at + 1));
    format!("INSERT INTO runs ({}) SELECT {}", names.join(", "), values.collect::<Vec<_>>().join(", "))
}

pub(crate) fn insert_runs(new: &[Run<'_>]) -> Write {
    let states: Vec<_> = new.iter().map(|(kept, _)| StateColumns::of(&kept.row.run)).collect();
    let received = |kept: &'_ SheetRun| kept.new.as_ref().map_or(kept.updated_at, |new| new.received_at).as_millis();
    let often: [Column; OFTEN.len()] = [
        column(new, |(kept, _)| kept.row.id),
        column(new, |(kept, _)| kept.row.tenant),
        column(new, |(kept, _)| kept.row.queue),
        column(new, |(kept, _)| key_hash(kept.row.tenant, kept.row.run_id.as_str())),
        column(new, |(kept, _)| kept.row.run_id.as_str()),
        column(&states, |state| position(StateName::ALL, &state.state)),
        column(&states, |state| state.detail),
        column(&states, |state| state.due.map(Timestamp::as_millis)),
        column(new, |(kept, _)| i64::from(kept.row.run.attempt)),
        column(new, |(kept, _)| i64::from(kept.row.run.revision)),
        column(new, |(kept, _)| &*kept.row.reason),
        column(new, |(kept, _)| kept.row.category),
        column(new, |(kept, _)| kept.row.pattern),
        column(new, |(kept, _)| position(Severity::ALL, &kept.own.severity)),
        column(new, |(kept, _)| received(kept)),
        column(new, |(kept, _)| kept.updated_at.as_millis()),
        column(new, |(kept, _)| kept.row.environment.as_str().as_bytes()),
        column(new, |(kept, _)| said(&kept.own.agent)),
        column(new, |(kept, _)| said(&kept.row.model)),
        column(new, |(kept, _)| said(&kept.row.provider)),
        column(new, |(kept, _)| i64::from(kept.row.run.replays)),
        column(new, |(_, life)| life.as_slice()),
    ];
    let seldom: [Column; SELDOM.len()] = [
        column(&states, |state| state.wake.map(Timestamp::as_millis)),
        column(new, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        column(new, |(kept, _)| said(&kept.own.task_type)),
        column(new, |(kept, _)| kept.new.as_ref().and_then(|new| said(&new.customer))),
        column(new, |(kept, _)| said(&kept.row.tool)),
        column(new, |(kept, _)| said(&kept.row.step)),
        column(new, |(kept, _)| kept.new.as_ref().and_then(|new| new.idempotency_key.as_deref())),
        column(new, |(kept, _)| kept.own.order_key.as_ref().map(|key| key.as_str())),
        column(&states, |state| said(&state.held_by)),
        column(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        column(new, |(kept, _)| said(&kept.assigned_to)),
        column(&states, |state| state.unleasable.then_some(1_i64)),
    ];
    if seldom.iter().all(Column::is_empty) {
        return Write::columns(&INSERT_RUNS, often);
    }
    seldom.into_iter().fold(Write::columns(&INSERT_WHOLE_RUNS, often), Write::with)
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

pub(crate) fn update_runs(known: &[Run<'_>]) -> Write {
    let states: Vec<_> = known.iter().map(|(kept, _)| StateColumns::of(&kept.row.run)).collect();
    let columns = [
        column(known, |(kept, _)| kept.row.id),
        column(known, |(kept, _)| kept.row.queue),
        column(&states, |state| position(StateName::ALL, &state.state)),
        column(&states, |state| state.detail),
        column(&states, |state| state.due.map(Timestamp::as_millis)),
        column(&states, |state| state.wake.map(Timestamp::as_millis)),
        column(known, |(kept, _)| i64::from(kept.row.run.attempt)),
        column(known, |(kept, _)| i64::from(kept.row.run.revision)),
        column(known, |(kept, _)| &*kept.row.reason),
        column(known, |(kept, _)| kept.row.category),
        column(known, |(kept, _)| kept.row.pattern),
        column(known, |(kept, _)| position(Severity::ALL, &kept.own.severity)),
        column(known, |(kept, _)| kept.updated_at.as_millis()),
        column(known, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        column(known, |(kept, _)| said(&kept.own.agent)),
        column(known, |(kept, _)| said(&kept.row.model)),
        column(known, |(kept, _)| said(&kept.row.provider)),
        column(known, |(kept, _)| said(&kept.row.tool)),
        column(known, |(kept, _)| said(&kept.row.step)),
        column(&states, |state| said(&state.held_by)),
        column(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        column(known, |(kept, _)| i64::from(kept.row.run.replays)),
        column(known, |(_, life)| life.as_slice()),
        column(known, |(kept, _)| said(&kept.assigned_to)),
        column(&states, |state| state.unleasable.then_some(1_i64)),
        column(known, |(kept, _)| kept.row.request()),
    ];
    Write::columns(UPDATE_RUNS, columns)
}

const MOVE_RUNS: &str = "UPDATE runs SET state = new.state, detail = new.detail, due = new.due, wake = new.wake,
         attempt = new.attempt, revision = new.revision, updated_at = new.updated_at,
         deferred_until = new.deferred_until, held_by = new.held_by, merged_into = new.merged_into,
         replays = new.replays, life = new.life, unleasable = new.unleasable, lease_request = new.lease_request
     FROM (SELECT unnest($1::bigint[]) AS id, unnest($2::bigint[]) AS state, unnest($3::bigint[]) AS detail,
         unnest($4::bigint[]) AS due, unnest($5::bigint[]) AS wake, unnest($6::bigint[]) AS attempt,
         unnest($7::bigint[]) AS revision, unnest($8::bigint[]) AS updated_at,
         unnest($9::bigint[]) AS deferred_until, unnest($10::bytea[]) AS held_by, unnest($11::text[]) AS merged_into,
         unnest($12::bigint[]) AS replays, unnest($13::bytea[]) AS life, unnest($14::bigint[]) AS unleasable,
         unnest($15::text[]) AS lease_request) AS new
     WHERE runs.id = new.id";

pub(crate) fn move_runs(moved: &[Run<'_>]) -> Write {
    let states: Vec<_> = moved.iter().map(|(kept, _)| StateColumns::of(&kept.row.run)).collect();
    let columns = [
        column(moved, |(kept, _)| kept.row.id),
        column(&states, |state| position(StateName::ALL, &state.state)),
        column(&states, |state| state.detail),
        column(&states, |state| state.due.map(Timestamp::as_millis)),
        column(&states, |state| state.wake.map(Timestamp::as_millis)),
        column(moved, |(kept, _)| i64::from(kept.row.run.attempt)),
        column(moved, |(kept, _)| i64::from(kept.row.run.revision)),
        column(moved, |(kept, _)| kept.updated_at.as_millis()),
        column(moved, |(kept, _)| kept.row.run.deferred_until.map(Timestamp::as_millis)),
        column(&states, |state| said(&state.held_by)),
        column(&states, |state| state.merged_into.as_ref().map(|into| into.as_str())),
        column(moved, |(kept, _)| i64::from(kept.row.run.replays)),
        column(moved, |(_, life)| life.as_slice()),
        column(&states, |state| state.unleasable.then_some(1_i64)),
        column(moved, |(kept, _)| kept.row.request()),
    ];
    Write::columns(MOVE_RUNS, columns)
}
