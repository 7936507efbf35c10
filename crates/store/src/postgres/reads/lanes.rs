//! Which way a list goes through the rows: a lane is one stretch of one index that is already in the list's order.
//!
//! A lane is asked for as a range of the whole index (`(tenant, state, id) BETWEEN …`) and sorted by all of its columns.
//! Asked for as `state = … ORDER BY id`, the planner may think it quicker to walk all runs by number and drop what does
//! not fit, which is so until a state is rare.

use redrive_core::wire::Sort;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::due::{oldest_by_tenant, queue_numbers, queue_numbers_of};
use crate::postgres::reads::filter::Wanted;
use crate::postgres::reads::params::Params;
use crate::postgres::reads::predicate::{Answered, names_begin};
use crate::postgres::reads::scan::Place;
use crate::shared::counts::or_all;
use crate::shared::filter::{IS_URGENT, PATTERN_LANES_MAX, urgent_lanes};
use redrive_engine::error::PortResult as Result;

pub(crate) const MISS: i64 = 0;
pub(crate) const HIT: i64 = 1;
/// It matches if its template has the words.
pub(crate) const ASK_TEMPLATE: i64 = 2;

const URGENT: &[&str] = &["severity", "state"];
const TENANT_URGENT: &[&str] = &["tenant", "severity", "state"];

/// The lanes of a list, and the statement that reads a piece of several of them.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// The columns of the index before the list's own order, as many as each lane holds fixed.
    columns: &'static [&'static str],
    pub(crate) fixed: Vec<Vec<i64>>,
    hit: String,
    hit_params: Params,
    by_due: bool,
    descending: bool,
    words: bool,
    /// The first and the last id.
    ids: (i64, i64),
}

/// How rows are found, and what that already says about them.
struct Way {
    columns: &'static [&'static str],
    fixed: Vec<Vec<i64>>,
    answered: Answered,
}

pub(crate) async fn lanes(snapshot: &Snapshot<'_>, wanted: &Wanted, sort: Sort) -> Result<Lanes> {
    let way = if sort == Sort::Due { by_due(snapshot, wanted).await? } else { by_number(wanted) };
    let mut hit_params = Params::default();
    let hit = hit(wanted, way.answered, &mut hit_params);
    Ok(Lanes {
        columns: way.columns,
        fixed: way.fixed,
        hit,
        hit_params,
        by_due: sort == Sort::Due,
        descending: sort == Sort::NewestFirst,
        words: wanted.words.is_some(),
        ids: wanted.ids.unwrap_or((1, i64::MAX)),
    })
}

fn by_number(wanted: &Wanted) -> Way {
    let ids = Answered { ids: true, ..Answered::default() };
    match (&wanted.patterns, wanted.tenant, &wanted.urgent, &wanted.states) {
        (Some(patterns), ..) if patterns.len() <= PATTERN_LANES_MAX => Way {
            columns: &["pattern"],
            fixed: patterns.iter().map(|pattern| vec![*pattern]).collect(),
            answered: Answered { tenant: true, pattern: true, ..ids },
        },
        (_, Some(tenant), Some(urgent), states) => Way {
            columns: TENANT_URGENT,
            fixed: urgent_lanes(urgent, states.as_deref())
                .map(|(severity, state)| vec![tenant, severity, state])
                .collect(),
            answered: Answered { tenant: true, state: true, ..ids },
        },
        (_, Some(tenant), None, states) => Way {
            columns: &["tenant", "state"],
            fixed: or_all(states.as_deref()).into_iter().map(|state| vec![tenant, state]).collect(),
            answered: Answered { tenant: true, state: true, ..ids },
        },
        (_, None, Some(urgent), states) => Way {
            columns: URGENT,
            fixed: urgent_lanes(urgent, states.as_deref()).map(|(severity, state)| vec![severity, state]).collect(),
            answered: Answered { state: true, ..ids },
        },
        (_, None, None, Some(states)) => Way {
            columns: &["state"],
            fixed: states.iter().map(|state| vec![*state]).collect(),
            answered: Answered { state: true, ..ids },
        },
        (_, None, None, None) => Way { columns: &[], fixed: vec![Vec::new()], answered: ids },
    }
}

/// One lane for each tenant with due work in each queue.
async fn by_due(snapshot: &Snapshot<'_>, wanted: &Wanted) -> Result<Way> {
    let queues = match (&wanted.queues, wanted.tenant) {
        (Some(queues), _) => queues.clone(),
        (None, Some(tenant)) => queue_numbers_of(snapshot, tenant).await?,
        (None, None) => queue_numbers(snapshot).await?,
    };
    let mut fixed = Vec::new();
    for queue in queues {
        let tenants = match wanted.tenant {
            Some(tenant) => vec![tenant],
            None => oldest_by_tenant(snapshot, queue).await?.into_iter().map(|(tenant, _)| tenant).collect(),
        };
        fixed.extend(tenants.into_iter().map(|tenant| vec![queue, tenant]));
    }
    Ok(Way {
        columns: &["queue", "tenant"],
        fixed,
        // Only what is scheduled has a due time.
        answered: Answered { tenant: true, queue: true, state: true, ..Answered::default() },
    })
}

/// Whether a row matches, as one of the numbers above. Without conditions the index alone answers.
pub(crate) fn hit(wanted: &Wanted, answered: Answered, params: &mut Params) -> String {
    let residual = wanted.residual(answered, params);
    let inner = match &wanted.words {
        Some(words) => format!("CASE WHEN {} THEN {HIT} ELSE {ASK_TEMPLATE} END", names_begin(words, params)),
        None => HIT.to_string(),
    };
    match residual {
        Some(residual) => format!("CASE WHEN {residual} THEN {inner} ELSE {MISS} END"),
        None => inner,
    }
}

/// A lane, and where its last look ended.
type Stand = (usize, Option<Place>);
/// From where a look ended to where the next begins.
type Bound = Box<dyn Fn(Option<Place>) -> i64>;

impl Lanes {
    /// Reads on in each of `which` (a lane, and the last place read there), at most `piece` rows of each. The rows: lane,
    /// id, due, hit, pattern.
    pub(crate) fn read(&self, which: &[Stand], piece: usize) -> (String, Params) {
        let mut params = self.hit_params.clone();
        let numbers = |of: &dyn Fn(&Stand) -> i64| -> Vec<i64> { which.iter().map(of).collect() };
        let mut lists = vec![params.numbers(&numbers(&|(lane, _)| i64::try_from(*lane).unwrap_or(0)))];
        let mut names = vec!["lane".to_owned()];
        for (at, column) in self.columns.iter().enumerate() {
            let fixed = |(lane, _): &(usize, Option<Place>)| {
                self.fixed.get(*lane).and_then(|fixed| fixed.get(at)).copied().unwrap_or(0)
            };
            lists.push(params.numbers(&numbers(&fixed)));
            names.push((*column).to_owned());
        }
        for (name, bound) in self.bounds() {
            lists.push(params.numbers(&numbers(&|(_, after)| bound(*after))));
            names.push(name.to_owned());
        }
        let own: Vec<String> = self.columns.iter().map(|column| format!("runs.{column}")).collect();
        let lane: Vec<String> = self.columns.iter().map(|column| format!("lane.{column}")).collect();
        let (own, lane) = (own.join(", "), lane.join(", "));
        let comma = if self.columns.is_empty() { "" } else { ", " };
        let order = |keys: &[&str]| {
            let way = if self.descending { " DESC" } else { "" };
            let columns = self.columns.iter().chain(keys);
            columns.map(|column| format!("runs.{column}{way}")).collect::<Vec<_>>().join(", ")
        };
        let (condition, order, due) = if self.by_due {
            let after = format!("({own}, runs.due, runs.id) > ({lane}, lane.due, lane.id) AND ({own}) <= ({lane})");
            (format!("runs.due IS NOT NULL AND {after}"), order(&["due", "id"]), "runs.due")
        } else {
            let known = match self.columns {
                ["pattern"] => "runs.pattern IS NOT NULL AND ".to_owned(),
                URGENT | TENANT_URGENT => format!("{IS_URGENT} AND "),
                _ => String::new(),
            };
            let range = format!(
                "({own}{comma}runs.id) >= ({lane}{comma}lane.low) AND ({own}{comma}runs.id) <= ({lane}{comma}lane.high)"
            );
            (format!("{known}{range}"), order(&["id"]), "0::bigint")
        };
        let pattern = if self.words { "runs.pattern" } else { "NULL::bigint" };
        let lists: Vec<String> = lists.iter().map(|list| format!("{list}::bigint[]")).collect();
        let sql = format!(
            "SELECT lane.lane, found.* FROM unnest({}) AS lane ({}) CROSS JOIN LATERAL (
                 SELECT runs.id, {due}, ({})::bigint, {pattern} FROM runs WHERE {condition} ORDER BY {order} LIMIT {piece}
             ) found",
            lists.join(", "),
            names.join(", "),
            self.hit,
        );
        (sql, params)
    }

    /// What is left of a lane after a place.
    fn bounds(&self) -> [(&'static str, Bound); 2] {
        let (first, last) = self.ids;
        if self.by_due {
            return [
                ("due", Box::new(|after| after.map_or(i64::MIN, |Place(due, _)| due))),
                ("id", Box::new(|after| after.map_or(i64::MIN, |Place(_, id)| id))),
            ];
        }
        if self.descending {
            let below = move |Place(minus_id, _): Place| last.min(minus_id.saturating_neg().saturating_sub(1));
            return [("low", Box::new(move |_| first)), ("high", Box::new(move |after| after.map_or(last, below)))];
        }
        let above = move |Place(id, _): Place| first.max(id.saturating_add(1));
        [("low", Box::new(move |after| after.map_or(first, above))), ("high", Box::new(move |_| last))]
    }
}
