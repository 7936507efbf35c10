//! `redrive runs plan`, and the flags that say what a replay should do differently, shared with `replay` and `operations`.

use std::path::Path;

use anyhow::Context as _;
use redrive_core::ids::{QueueName, RunId};
use redrive_core::ledger::Will;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{Fix, PlanAnswer, RawJson, ReplayRequest};

use crate::args::Remote;
use crate::escape;
use crate::failure::UsageError;
use crate::out::{Printer, Style, TextTable};
use crate::whole::{self, PAYLOAD_MAX_BYTES};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    /// Plan a forced replay, which has its own hash
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    proposal: Proposal,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let request = ReplayRequest { force: args.force, ..args.proposal.request()? };
    let call = args.remote.client()?.plan(&args.run_id, &request);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    Ok(print(&call.await?, out)?)
}

fn print(plan: &PlanAnswer, out: &mut Printer) -> std::io::Result<()> {
    let id = out.styled(Style::Heading, plan.run_id.as_str());
    out.line(format_args!("{id}  plan {}  revision {}", plan.hash, plan.revision))?;
    if plan.steps.is_empty() {
        out.line("\nNo step is recorded: the agent starts from the beginning.")?;
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

fn steps(plan: &PlanAnswer) -> TextTable {
    let mut table = TextTable::new(["STEP", "KEY", "EFFECT", "WILL"]);
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

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Proposal {
    /// A file with the new payload as JSON; `-` reads standard input
    #[arg(long, value_name = "FILE", conflicts_with = "patch", help_heading = "Fix")]
    fix_file: Option<String>,
    /// A JSON Patch (RFC 6902) for the payload: the list itself, or a file with it; `-` reads standard input
    #[arg(long, value_name = "PATCH", help_heading = "Fix")]
    patch: Option<String>,
    /// An instruction for the agent
    #[arg(long, value_name = "TEXT", help_heading = "Fix")]
    instruction: Option<String>,
    /// Another model
    #[arg(long, value_name = "NAME", help_heading = "Fix")]
    model: Option<String>,
    /// Another agent
    #[arg(long, value_name = "NAME", help_heading = "Fix")]
    agent: Option<String>,
    /// Another, existing queue
    #[arg(long, value_name = "NAME", help_heading = "Fix")]
    queue: Option<QueueName>,
    /// Repeat this recorded step and the plain steps after it: its key or name
    #[arg(long, value_name = "STEP", help_heading = "Fix")]
    from_step: Option<String>,
}

impl Proposal {
    pub(crate) fn request(&self) -> anyhow::Result<ReplayRequest> {
        let label = |name: &Option<String>| name.as_deref().map(Label::from);
        Ok(ReplayRequest {
            fix: self.fix()?,
            instruction: self.instruction.as_deref().map(Text::from),
            model: label(&self.model),
            agent: label(&self.agent),
            queue: self.queue.clone(),
            from_step: label(&self.from_step),
            ..ReplayRequest::default()
        })
    }

    fn fix(&self) -> anyhow::Result<Option<Fix>> {
        if let Some(file) = &self.fix_file {
            let payload = parse_flag::<RawJson>(&read_file(file)?, "--fix-file")?;
            return Ok(Some(Fix { json_patch: None, payload: Some(payload) }));
        }
        let Some(patch) = &self.patch else { return Ok(None) };
        let text = if patch.trim_start().starts_with('[') { patch.clone() } else { read_file(patch)? };
        Ok(Some(Fix { json_patch: Some(parse_flag(&text, "--patch")?), payload: None }))
    }
}

fn parse_flag<T: serde::de::DeserializeOwned>(text: &str, flag: &str) -> anyhow::Result<T> {
    serde_json::from_str(text.trim()).map_err(|e| UsageError::new(format!("{flag}: {e}")).into())
}

fn read_file(file: &str) -> anyhow::Result<String> {
    if file == "-" {
        return String::from_utf8(whole::stdin(PAYLOAD_MAX_BYTES)?).context("standard input");
    }
    whole::text(Path::new(file), PAYLOAD_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::out::tests::buffer;

    #[test]
    fn plan_shows_skipped_running_and_unknown_steps() {
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

    #[test]
    fn patch_comes_from_argument_or_file_and_is_validated() {
        let typed = Proposal { patch: Some(r#" [{"op":"remove","path":"/a"}]"#.into()), ..Proposal::default() };
        assert_eq!(typed.request().unwrap().fix.unwrap().json_patch.unwrap().len(), 1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("payload.json");
        std::fs::write(&path, "{\"n\": 1.10}\n").unwrap();
        let whole = Proposal { fix_file: Some(path.to_str().unwrap().into()), ..Proposal::default() };
        assert_eq!(whole.request().unwrap().fix.unwrap().payload.unwrap().get(), "{\"n\": 1.10}");
        let broken = Proposal { patch: Some("[{}]".into()), ..Proposal::default() };
        assert!(broken.request().unwrap_err().to_string().starts_with("--patch: missing field"));
    }
}
