//! Filters of lists and statistics. Fields combine with AND, several values of one field with OR.

use std::fmt::Display;

use redrive_core::ids::QueueName;
use redrive_core::reason::{Category, Reason};
use redrive_core::run::StateName;
use redrive_core::time::Timestamp;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{PatternSort, PatternState, Severity, Sort};

use crate::client::Pairs;

/// The filter, order and page of [`crate::Client::runs`].
///
/// ```
/// use redrive_client::{RunsQuery, core::run::StateName};
///
/// let dead = RunsQuery { state: vec![StateName::Dead], limit: Some(20), ..RunsQuery::default() };
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunsQuery {
    pub state: Vec<StateName>,
    pub queue: Vec<QueueName>,
    pub agent: Vec<String>,
    pub reason: Vec<Reason>,
    pub category: Vec<Category>,
    /// Patterns' ids, or fingerprints.
    pub pattern: Vec<String>,
    pub dead_because: Vec<DeadBecause>,
    pub severity: Vec<Severity>,
    pub environment: Vec<String>,
    pub customer: Vec<String>,
    pub assigned_to: Vec<String>,
    pub held: Option<bool>,
    /// First reported at this time or later.
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// The beginning of a run_id, idempotency key or customer, or words of the error's template.
    pub q: Option<String>,
    pub sort: Option<Sort>,
    /// Page size: 50 by default, at most 500.
    pub limit: Option<u32>,
    /// Cursor of the previous page.
    pub cursor: Option<String>,
    /// Also return the total.
    pub count: bool,
}

impl RunsQuery {
    pub(crate) fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        many(&mut pairs, "state", &self.state);
        many(&mut pairs, "queue", &self.queue);
        many(&mut pairs, "agent", &self.agent);
        many(&mut pairs, "reason", &self.reason);
        many(&mut pairs, "category", &self.category);
        many(&mut pairs, "pattern", &self.pattern);
        many(&mut pairs, "dead_because", &self.dead_because);
        many(&mut pairs, "severity", &self.severity);
        many(&mut pairs, "environment", &self.environment);
        many(&mut pairs, "customer", &self.customer);
        many(&mut pairs, "assigned_to", &self.assigned_to);
        one(&mut pairs, "held", self.held);
        one(&mut pairs, "since", self.since);
        one(&mut pairs, "until", self.until);
        one(&mut pairs, "q", self.q.as_ref());
        one(&mut pairs, "sort", self.sort);
        one(&mut pairs, "limit", self.limit);
        one(&mut pairs, "cursor", self.cursor.as_ref());
        one(&mut pairs, "count", self.count.then_some(true));
        pairs
    }
}

/// The filter, order and page of [`crate::Client::patterns`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PatternsQuery {
    pub state: Vec<PatternState>,
    pub reason: Vec<Reason>,
    /// Part of the template, case-insensitive.
    pub q: Option<String>,
    pub sort: Option<PatternSort>,
    pub limit: Option<u32>,
    /// Cursor of the previous page.
    pub cursor: Option<String>,
}

impl PatternsQuery {
    pub(crate) fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        many(&mut pairs, "state", &self.state);
        many(&mut pairs, "reason", &self.reason);
        one(&mut pairs, "q", self.q.as_ref());
        one(&mut pairs, "sort", self.sort);
        one(&mut pairs, "limit", self.limit);
        one(&mut pairs, "cursor", self.cursor.as_ref());
        pairs
    }
}

/// The span and queue of [`crate::Client::stats`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatsQuery {
    pub queue: Option<QueueName>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

impl StatsQuery {
    pub(crate) fn pairs(&self) -> Pairs {
        let mut pairs = Pairs::new();
        one(&mut pairs, "queue", self.queue.as_ref());
        one(&mut pairs, "since", self.since);
        one(&mut pairs, "until", self.until);
        pairs
    }
}

/// Which page of each list of a run.
#[derive(Debug, Clone, Default)]
pub struct RunPages {
    /// Page size of each list: 50 by default, at most 500.
    pub limit: Option<u32>,
    pub attempts_cursor: Option<String>,
    pub steps_cursor: Option<String>,
    pub history_cursor: Option<String>,
}

pub(crate) fn one(pairs: &mut Pairs, name: &'static str, value: Option<impl Display>) {
    pairs.extend(value.map(|value| (name, value.to_string())));
}

pub(crate) fn many(pairs: &mut Pairs, name: &'static str, values: &[impl Display]) {
    if !values.is_empty() {
        let words: Vec<String> = values.iter().map(ToString::to_string).collect();
        pairs.push((name, words.join(",")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_set_fields_are_sent_as_comma_lists() {
        assert_eq!(RunsQuery::default().pairs(), []);
        let query = RunsQuery {
            state: vec![StateName::Dead, StateName::Review],
            held: Some(false),
            sort: Some(Sort::NewestFirst),
            ..RunsQuery::default()
        };
        let sent = [("state", "dead,review"), ("held", "false"), ("sort", "-received")];
        assert_eq!(query.pairs(), sent.map(|(name, value)| (name, value.to_string())));
    }
}
