//! A filter as one condition on a row.

use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use rusqlite::types::Value;

use crate::sqlite::reads::filter::Wanted;
use redrive_engine::runs::document::{HELD, position};

/// A condition on one row, and its values in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clause {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

impl Clause {
    pub(crate) fn one_of(column: &str, values: impl IntoIterator<Item = Value>) -> Self {
        let values: Vec<Value> = values.into_iter().collect();
        let marks = vec!["?"; values.len()].join(", ");
        Self { sql: format!("{column} IN ({marks})"), values }
    }

    pub(crate) fn numbers(column: &str, numbers: &[i64]) -> Self {
        Self::one_of(column, numbers.iter().copied().map(Value::from))
    }

    pub(crate) fn texts<'a>(column: &str, texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::one_of(column, texts.into_iter().map(|text| Value::from(text.to_owned())))
    }
}

impl Wanted {
    /// The conditions on one row, but for those that the chosen index already answers.
    pub(crate) fn residual(&self, answered: Answered) -> Clause {
        let mut all = Clause::default();
        let mut and = |clause: Clause| {
            let glue = if all.sql.is_empty() { "" } else { " AND " };
            all.sql.push_str(glue);
            all.sql.push_str(&clause.sql);
            all.values.extend(clause.values);
        };
        if let Some(tenant) = self.tenant.filter(|_| !answered.tenant) {
            and(Clause { sql: "tenant = ?".into(), values: vec![tenant.into()] });
        }
        let lists = [
            ("state", &self.states, answered.state),
            ("queue", &self.queues, answered.queue),
            ("pattern", &self.patterns, answered.pattern),
            ("detail", &self.details, false),
        ];
        for (column, list, known) in lists {
            if let Some(list) = list.as_ref().filter(|_| !known) {
                and(Clause::numbers(column, list));
            }
        }
        if !self.reasons.is_empty() {
            and(Clause::texts("reason", self.reasons.iter().map(String::as_str)));
        }
        match self.held {
            Some(true) => and(Clause { sql: "detail = ?".into(), values: vec![HELD.into()] }),
            Some(false) => and(not_held()),
            None => {}
        }
        if let Some(now) = self.hide_deferred {
            and(not_deferred(now));
        }
        if let Some((lo, hi)) = self.ids.filter(|_| !answered.ids) {
            and(Clause { sql: "id BETWEEN ? AND ?".into(), values: vec![lo.into(), hi.into()] });
        }
        for clause in &self.others {
            and(clause.clone());
        }
        all
    }
}

/// What an index already answers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answered {
    pub(crate) tenant: bool,
    pub(crate) state: bool,
    pub(crate) queue: bool,
    pub(crate) pattern: bool,
    pub(crate) ids: bool,
}

fn not_held() -> Clause {
    let scheduled = position(StateName::ALL, &StateName::Scheduled);
    Clause { sql: "NOT (state = ? AND detail = ?)".into(), values: vec![scheduled.into(), HELD.into()] }
}

fn not_deferred(now: Timestamp) -> Clause {
    let [dead, review] = [StateName::Dead, StateName::Review].map(|state| position(StateName::ALL, &state));
    Clause {
        sql: "NOT (deferred_until IS NOT NULL AND deferred_until > ? AND state IN (?, ?))".into(),
        values: vec![now.as_millis().into(), dead.into(), review.into()],
    }
}
