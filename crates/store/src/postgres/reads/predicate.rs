//! A filter as one condition on a row.

use redrive_core::run::StateName;

use crate::postgres::reads::filter::Wanted;
use crate::postgres::reads::params::{Params, Value};
use crate::shared::words::Words;
use redrive_engine::runs::document::{HELD, position};

/// What an index already answers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Answered {
    pub(crate) tenant: bool,
    pub(crate) state: bool,
    pub(crate) queue: bool,
    pub(crate) pattern: bool,
    pub(crate) ids: bool,
}

impl Wanted {
    /// The conditions on one row, but for those that the chosen index already answers; none when nothing is left.
    pub(crate) fn residual(&self, answered: Answered, params: &mut Params) -> Option<String> {
        let mut all: Vec<String> = Vec::new();
        if let Some(tenant) = self.tenant.filter(|_| !answered.tenant) {
            all.push(format!("runs.tenant = {}", params.number(tenant)));
        }
        let lists = [
            ("state", &self.states, answered.state),
            ("queue", &self.queues, answered.queue),
            ("pattern", &self.patterns, answered.pattern),
            ("detail", &self.details, false),
        ];
        for (column, list, known) in lists {
            if let Some(list) = list.as_ref().filter(|_| !known) {
                all.push(format!("runs.{column} = ANY({})", params.numbers(list)));
            }
        }
        if !self.reasons.is_empty() {
            all.push(format!("runs.reason = ANY({})", params.add(Value::Texts(self.reasons.clone()))));
        }
        let scheduled = position(StateName::ALL, &StateName::Scheduled);
        match self.held {
            Some(true) => all.push(format!("runs.detail = {HELD}")),
            Some(false) => all.push(format!("NOT (runs.state = {scheduled} AND runs.detail = {HELD})")),
            None => {}
        }
        if let Some(now) = self.hide_deferred {
            let [dead, review] = [StateName::Dead, StateName::Review].map(|state| position(StateName::ALL, &state));
            let now = params.number(now.as_millis());
            all.push(format!(
                "NOT (runs.deferred_until IS NOT NULL AND runs.deferred_until > {now} AND runs.state IN ({dead}, {review}))"
            ));
        }
        if let Some((lo, hi)) = self.ids.filter(|_| !answered.ids) {
            all.push(format!("runs.id BETWEEN {} AND {}", params.number(lo), params.number(hi)));
        }
        if let Some(since) = self.since {
            all.push(format!("runs.received_at >= {}", params.number(since.as_millis())));
        }
        if let Some(until) = self.until {
            all.push(format!("runs.received_at < {}", params.number(until.as_millis())));
        }
        for (column, value) in &self.others {
            all.push(format!("runs.{column} = ANY({})", params.add(value.clone())));
        }
        (!all.is_empty()).then(|| all.join(" AND "))
    }
}

/// The run's own names begin with what was typed.
pub(crate) fn names_begin(words: &Words, params: &mut Params) -> String {
    let mut any = Vec::new();
    // No name of the id pattern holds NUL, and PostgreSQL takes none in a text.
    if !words.prefix.contains('\0') {
        let prefix = params.add(Value::Text(words.prefix.clone()));
        any.extend(["run_id", "idempotency_key"].map(|name| format!("starts_with(runs.{name}, {prefix})")));
    }
    let bytes = words.prefix.as_bytes();
    let prefix = params.add(Value::Bytes(bytes.to_vec()));
    any.push(format!("substr(runs.customer, 1, {}) = {prefix}", bytes.len()));
    any.join(" OR ")
}
