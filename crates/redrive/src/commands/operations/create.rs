//! `redrive operations create`: the filter as it is typed, and what is to be done.

use redrive_core::ids::RunId;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{Canary, OperationAction, OperationFilter, OperationRequest, ReplayRequest};
use serde_json::{Map, Value};

use super::show;
use crate::commands::runs::proposal::Proposal;
use crate::failure::Usage;
use crate::out::Out;
use crate::remote::Remote;
use crate::words::word;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What is done to each run
    #[arg(value_parser = word(OperationAction::ALL, OperationAction::as_str))]
    action: OperationAction,
    /// Which runs: a field of `redrive runs list` and its values, such as state=dead or queue=mail,invoices; several narrow
    #[arg(long = "where", value_name = "FIELD=VALUES", help_heading = "Filter")]
    filter: Vec<String>,
    /// These runs instead, of the tenant in --tenant
    #[arg(long = "id", value_name = "RUN_ID", conflicts_with_all = ["filter", "all"], help_heading = "Filter")]
    ids: Vec<RunId>,
    /// Every run there is: needed where nothing narrows it
    #[arg(long, help_heading = "Filter")]
    all: bool,
    /// Only say what it would do; `redrive operations start` begins it
    #[arg(long)]
    dry_run: bool,
    /// Why; kept in each run's history
    #[arg(long)]
    reason: Option<String>,
    /// How many runs a second; as fast as it goes unless told
    #[arg(long, value_name = "N")]
    rate_per_s: Option<f64>,
    /// So many go first, and the rest only if few enough of them fail
    #[arg(long, value_name = "RUNS", help_heading = "Canary")]
    canary: Option<u32>,
    /// The share of the canary that may fail, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "canary", help_heading = "Canary")]
    max_failure_share: f64,
    /// What has no outcome by then has failed
    #[arg(long, value_name = "MS", default_value_t = 900_000, requires = "canary", help_heading = "Canary")]
    canary_wait_ms: u64,
    /// How long outcomes are awaited after the last move
    #[arg(long, value_name = "MS", default_value_t = 900_000)]
    settle_ms: u64,
    #[command(flatten)]
    proposal: Proposal,
    /// With assign: who looks after them from now on
    #[arg(long, value_name = "NAME", conflicts_with = "nobody")]
    to: Option<String>,
    /// With assign: nobody does any more
    #[arg(long)]
    nobody: bool,
    /// With defer: not before this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// With merge: the run that they are duplicates of
    #[arg(long, value_name = "RUN_ID")]
    into: Option<RunId>,
    #[command(flatten)]
    remote: Remote,
}

pub(super) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let call = args.remote.client()?.create_operation(&args.request()?);
    show::told(call, &args.remote, out).await
}

impl Args {
    fn request(&self) -> anyhow::Result<OperationRequest> {
        let ReplayRequest { fix, instruction, model, agent, queue, from_step, .. } = self.proposal.request()?;
        if from_step.is_some() {
            return Err(Usage::new("--from-step is for one run: `redrive runs replay`").into());
        }
        let to = self.to.as_deref().map(|to| Some(Label::from(to)));
        let canary = self.canary.map(|size| Canary {
            size,
            max_failure_share: self.max_failure_share,
            wait_ms: self.canary_wait_ms,
        });
        Ok(OperationRequest {
            filter: OperationFilter { tenant: self.remote.tenant().cloned(), ..filter(&self.filter)? },
            ids: (!self.ids.is_empty()).then(|| self.ids.clone()),
            all: self.all,
            reason: self.reason.as_deref().map(Text::from),
            rate_per_s: self.rate_per_s,
            canary,
            settle_ms: self.settle_ms,
            dry_run: self.dry_run,
            fix,
            instruction,
            model,
            agent,
            queue,
            to: to.or(self.nobody.then_some(None)),
            until: self.until,
            into: self.into.clone(),
            ..OperationRequest::new(self.action)
        })
    }
}

/// `field=a,b`, each field once.
fn filter(said: &[String]) -> anyhow::Result<OperationFilter> {
    let mut fields = Map::new();
    for part in said {
        let (name, values) = part
            .split_once('=')
            .ok_or_else(|| Usage::new(format!("--where {part}: write it as field=values, such as state=dead")))?;
        let value = match (name, values) {
            ("held", "true") => Value::Bool(true),
            ("held", "false") => Value::Bool(false),
            _ => Value::from(values),
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(Usage::new(format!("--where {name} is given twice: many values go in a comma list")).into());
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|e| Usage::new(format!("--where: {e}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_typed_field_by_field_and_a_slip_is_named() {
        let read = |parts: &[&str]| filter(&parts.iter().map(ToString::to_string).collect::<Vec<_>>());
        let found = read(&["state=dead,review", "held=false", "since=2026-01-01T00:00:00Z"]).unwrap();
        assert_eq!((found.state.unwrap().words(), found.held), (vec!["dead", "review"], Some(false)));
        for (parts, said) in [
            (&["state"][..], "field=values"),
            (&["stat=dead"][..], "unknown field"),
            (&["state=dead", "state=review"][..], "given twice"),
            (&["since=yesterday"][..], "--where:"),
        ] {
            let refused = read(parts).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }
}
