//! Bulk operations: the filter and the fields of a request, validated against its action.

use std::str::FromStr;

use redrive_core::text::Label;
use redrive_core::time::Timestamp;
use redrive_core::wire::bounds::FILTER_VALUES_MAX;
use redrive_core::wire::{Canary, OneOrMany, OperationAction, OperationFilter, OperationRequest, ReplayRequest};
use redrive_engine::{Bulk, BulkReplay, NewOperation, Over, RunFilter, RunRef};

use super::replay::{check_replay, not_blank};
use crate::limits::{CANARY_MAX_RUNS, OPERATION_IDS_MAX, SEARCH_MAX_BYTES};
use crate::problem::{Code, HttpProblem, Result};

pub(crate) fn operation(request: OperationRequest, now: Timestamp, body_max_bytes: usize) -> Result<NewOperation> {
    fits_its_action(&request)?;
    let bulk = bulk(&request, now, body_max_bytes)?;
    if request.rate_per_s.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(HttpProblem::invalid_field("rate_per_s", "must be above 0"));
    }
    if let Some(canary) = &request.canary {
        check_canary(canary)?;
    }
    let shown = serde_json::value::to_raw_value(&request.filter).map_err(|e| HttpProblem::internal(&e.to_string()))?;
    let OperationRequest { filter, ids, all, reason, rate_per_s, canary, settle_ms, dry_run, .. } = request;
    let over = over(&filter, ids, all)?;
    Ok(NewOperation { over, bulk, reason, rate_per_s, canary, settle_ms, dry_run, filter: shown })
}

fn check_canary(canary: &Canary) -> Result<()> {
    if !(1..=CANARY_MAX_RUNS).contains(&canary.size) {
        return Err(HttpProblem::invalid_field("canary.size", format_args!("must be from 1 to {CANARY_MAX_RUNS}")));
    }
    if !(0.0..=1.0).contains(&canary.max_failure_share) {
        return Err(HttpProblem::invalid_field("canary.max_failure_share", "must be from 0 to 1"));
    }
    Ok(())
}

fn over(filter: &OperationFilter, ids: Option<Vec<redrive_core::ids::RunId>>, all: bool) -> Result<Over> {
    let Some(ids) = ids else {
        if filter.is_empty() && !all {
            return Err(HttpProblem::plain(Code::FilterRequired));
        }
        return Ok(Over::Filter(Box::new(run_filter(filter)?)));
    };
    let only_the_tenant = OperationFilter { tenant: filter.tenant.clone(), ..OperationFilter::default() };
    if *filter != only_the_tenant || all {
        return Err(HttpProblem::invalid_field(
            "ids",
            "can't be combined with `all` or with a filter other than the tenant",
        ));
    }
    let Some(tenant) = &filter.tenant else { return Err(HttpProblem::plain(Code::TenantRequired)) };
    if ids.is_empty() || ids.len() > OPERATION_IDS_MAX {
        return Err(HttpProblem::invalid_field("ids", format_args!("must be from 1 to {OPERATION_IDS_MAX}")));
    }
    Ok(Over::Runs(ids.into_iter().map(|run_id| RunRef { tenant: tenant.clone(), run_id }).collect()))
}

fn run_filter(filter: &OperationFilter) -> Result<RunFilter> {
    let q = filter.q.clone().filter(|q| !q.trim().is_empty());
    if q.as_ref().is_some_and(|q| q.len() > SEARCH_MAX_BYTES) {
        return Err(HttpProblem::invalid_field("filter.q", format_args!("must be at most {SEARCH_MAX_BYTES} bytes")));
    }
    Ok(RunFilter {
        tenant: filter.tenant.clone(),
        states: words("state", &filter.state)?,
        queues: words("queue", &filter.queue)?,
        agents: labels("agent", &filter.agent)?,
        reasons: words("reason", &filter.reason)?,
        categories: words("category", &filter.category)?,
        patterns: words("pattern", &filter.pattern)?,
        dead_because: words("dead_because", &filter.dead_because)?,
        severities: words("severity", &filter.severity)?,
        environments: labels("environment", &filter.environment)?,
        customers: labels("customer", &filter.customer)?,
        assigned_to: labels("assigned_to", &filter.assigned_to)?,
        held: filter.held,
        since: filter.since,
        until: filter.until,
        q,
    })
}

/// A list must not be empty: that would mean everything.
fn words<T: FromStr>(name: &str, given: &Option<OneOrMany>) -> Result<Vec<T>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let bad = || {
        HttpProblem::invalid_field(
            &format!("filter.{name}"),
            format_args!("must be a valid `{name}`, or a list of them"),
        )
    };
    let words = given.words();
    if words.is_empty() || words.len() > FILTER_VALUES_MAX || words.contains(&"") {
        return Err(bad());
    }
    words.into_iter().map(|word| word.parse().map_err(|_| bad())).collect()
}

fn labels(name: &str, given: &Option<OneOrMany>) -> Result<Vec<Label>> {
    let words: Vec<String> = words(name, given)?;
    Ok(words.iter().map(|word| word.as_str().into()).collect())
}

/// A field of another action is refused as a mistake.
fn fits_its_action(request: &OperationRequest) -> Result<()> {
    use OperationAction::{Assign, Defer, Merge, Reassign, Replay};
    let given: [(&str, bool, &[OperationAction]); 9] = [
        ("canary", request.canary.is_some(), &[Replay]),
        ("fix", request.fix.is_some(), &[Replay]),
        ("instruction", request.instruction.is_some(), &[Replay]),
        ("model", request.model.is_some(), &[Replay]),
        ("agent", request.agent.is_some(), &[Replay, Reassign]),
        ("queue", request.queue.is_some(), &[Replay, Reassign]),
        ("to", request.to.is_some(), &[Assign]),
        ("until", request.until.is_some(), &[Defer]),
        ("into", request.into.is_some(), &[Merge]),
    ];
    match given.iter().find(|(_, given, with)| *given && !with.contains(&request.action)) {
        Some((field, ..)) => {
            Err(HttpProblem::invalid_field(field, format_args!("does not apply to {}", request.action)))
        }
        None => Ok(()),
    }
}

fn bulk(request: &OperationRequest, now: Timestamp, payload_max_bytes: usize) -> Result<Bulk> {
    let OperationRequest { fix, instruction, model, agent, queue, .. } = request.clone();
    let missing = |field: &str| HttpProblem::invalid_field(field, format_args!("is required for {}", request.action));
    Ok(match request.action {
        OperationAction::Replay => {
            let single = ReplayRequest { fix, instruction, model, agent, queue, ..ReplayRequest::default() };
            check_replay(&single)?;
            let ReplayRequest { fix, instruction, model, agent, queue, .. } = single;
            Bulk::Replay(Box::new(BulkReplay { fix, instruction, model, agent, queue, payload_max_bytes }))
        }
        OperationAction::Resolve => Bulk::Resolve,
        OperationAction::Discard => Bulk::Discard,
        OperationAction::Assign => {
            let to = request.to.clone().ok_or_else(|| missing("to"))?;
            not_blank("to", to.as_ref())?;
            Bulk::Assign { to }
        }
        OperationAction::Reassign => {
            if agent.is_none() && queue.is_none() {
                return Err(HttpProblem::invalid_field("agent", "or `queue` is required"));
            }
            not_blank("agent", agent.as_ref())?;
            Bulk::Reassign { agent, queue }
        }
        OperationAction::Defer => {
            let until = request.until.ok_or_else(|| missing("until"))?;
            if until <= now {
                return Err(HttpProblem::invalid_field("until", "must be in the future"));
            }
            Bulk::Defer { until }
        }
        OperationAction::Merge => Bulk::Merge { into: request.into.clone().ok_or_else(|| missing("into"))? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<NewOperation> {
        operation(serde_json::from_str(text).unwrap(), Timestamp::default(), 1_000)
    }

    #[test]
    fn a_filter_is_read_as_the_list_reads_it() {
        let text =
            r#"{"action":"resolve","filter":{"state":"dead,review","reason":["timeout","x:mine"],"tenant":"acme"}}"#;
        let Over::Filter(filter) = asked(text).unwrap().over else { panic!("no filter") };
        assert_eq!((filter.states.len(), filter.reasons.len(), filter.tenant.is_some()), (2, 2, true));
    }

    #[test]
    fn an_operation_without_a_filter_is_refused() {
        for (text, code, field) in [
            (r#"{"action":"discard"}"#, "filter_required", None),
            (r#"{"action":"discard","filter":{"state":[]}}"#, "invalid_field", Some("filter.state")),
            (r#"{"action":"discard","filter":{"state":""}}"#, "invalid_field", Some("filter.state")),
            (r#"{"action":"discard","ids":["a"]}"#, "tenant_required", None),
            (r#"{"action":"discard","ids":[],"filter":{"tenant":"t"}}"#, "invalid_field", Some("ids")),
            (
                r#"{"action":"discard","ids":["a"],"filter":{"tenant":"t","state":"dead"}}"#,
                "invalid_field",
                Some("ids"),
            ),
        ] {
            let problem = asked(text).unwrap_err().into_wire();
            assert_eq!(
                (problem.code.as_str(), problem.more.get("field").and_then(|f| f.as_str())),
                (code, field),
                "{text}"
            );
        }
        assert!(asked(r#"{"action":"discard","all":true}"#).is_ok());
    }

    #[test]
    fn an_operation_names_its_wrong_field() {
        for (fields, field) in [
            (r#""action":"resolve","fix":{"payload":1}"#, "fix"),
            (r#""action":"resolve","canary":{"size":1}"#, "canary"),
            (r#""action":"assign""#, "to"),
            (r#""action":"defer""#, "until"),
            (r#""action":"merge""#, "into"),
            (r#""action":"reassign""#, "agent"),
            (r#""action":"replay","to":null"#, "to"),
            (r#""action":"replay","rate_per_s":0"#, "rate_per_s"),
            (r#""action":"replay","canary":{"size":0}"#, "canary.size"),
            (r#""action":"replay","canary":{"size":5,"max_failure_share":1.5}"#, "canary.max_failure_share"),
            (r#""action":"replay","fix":{}"#, "fix"),
        ] {
            let problem = asked(&format!(r#"{{"all":true,{fields}}}"#)).unwrap_err().into_wire();
            assert_eq!(problem.more["field"], field, "{fields}");
        }
    }
}
