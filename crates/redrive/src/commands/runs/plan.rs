//! `redrive runs plan`

use redrive_core::ids::RunId;
use redrive_core::ledger::Will;
use redrive_core::wire::{PlanAnswer, ReplayRequest};

use crate::commands::runs::proposal::Proposal;
use crate::escape;
use crate::out::{Out, Style};
use crate::remote::Remote;
use crate::table::Table;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    /// The plan of a forced replay, which has a hash of its own
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    proposal: Proposal,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let request = ReplayRequest { force: args.force, ..args.proposal.request()? };
    let call = args.remote.client()?.plan(&args.run_id, &request);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    Ok(print(&call.await?, out)?)
}

fn print(plan: &PlanAnswer, out: &mut Out) -> std::io::Result<()> {
    let id = out.styled(Style::Heading, plan.run_id.as_str());
    out.line(format_args!("{id}  plan {}  revision {}", plan.hash, plan.revision))?;
    if plan.steps.is_empty() {
        out.line("\nNo step is on record: the agent begins at the beginning.")?;
    } else {
        out.line("")?;
        out.table(steps(plan))?;
    }
    if !plan.warnings.is_empty() {
        out.line("")?;
    }
    for warning in &plan.warnings {
        let mark = out.styled(Style::Waiting, "!");
        out.line(format_args!("{mark} {}", escape::line(&warning.detail)))?;
    }
    out.line("")?;
    if let Some(code) = &plan.refused {
        let refused = out.styled(Style::Bad, &format!("A replay would be refused: {code}."));
        out.line(refused)?;
    }
    let approval = if plan.approval_needed { "It needs somebody's approval." } else { "It needs nobody's approval." };
    out.line(approval)
}

fn steps(plan: &PlanAnswer) -> Table {
    let mut table = Table::new(["STEP", "KEY", "EFFECT", "WILL"]);
    for step in &plan.steps {
        let style = match step.will {
            Will::Skip => Style::Good,
            Will::Run => Style::Plain,
            Will::Unknown => Style::Bad,
        };
        let effect = if step.effect { "yes" } else { "no" };
        let will = match step.will {
            Will::Skip => "skip: it is done",
            Will::Run => "run",
            Will::Unknown => "unknown: nobody knows whether it happened",
        };
        let cells = [step.name.to_string(), step.key.to_string(), effect.into(), will.into()];
        table.row_with(cells, 3, style);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::tests::buffer;

    #[test]
    fn a_plan_says_what_is_skipped_what_runs_and_what_nobody_knows() {
        let text = r#"{"run_id":"task-42","tenant":"acme","hash":"00ff","revision":2,"steps":[
            {"name":"load","key":"task-42:load","effect":false,"will":"skip"},
            {"name":"charge\u001b","key":"task-42:charge","effect":true,"will":"unknown"}],
            "versions_changed":[],"held_by":null,"approval_needed":true,"refused":"effect_unknown",
            "warnings":[{"code":"effect_unknown","detail":"Nobody knows whether this happened: charge."}]}"#;
        let (shared, mut out) = buffer();
        print(&serde_json::from_str(text).unwrap(), &mut out).unwrap();
        insta::assert_snapshot!(shared.text(), @r"
        task-42  plan 00ff  revision 2

        STEP          KEY             EFFECT  WILL
        load          task-42:load    no      skip: it is done
        charge\u{1b}  task-42:charge  yes     unknown: nobody knows whether it happened

        ! Nobody knows whether this happened: charge.

        A replay would be refused: effect_unknown.
        It needs somebody's approval.
        ");
    }
}
