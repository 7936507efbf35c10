//! `redrive runs show`

use redrive_client::RunPages;
use redrive_core::ids::RunId;

use crate::commands::now;
use crate::commands::runs::{page, receipt, revision, sent};
use crate::out::Out;
use crate::remote::Remote;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    /// Show errors, payload and outputs in full instead of their beginning
    #[arg(long, help_heading = "Output")]
    full: bool,
    /// What happened, in plain words for the customer it was for
    #[arg(long, conflicts_with_all = ["full", "version"], help_heading = "Output")]
    receipt: bool,
    /// The payload as it was at this revision
    #[arg(long, value_name = "N", group = "version", conflicts_with = "full", help_heading = "Output")]
    revision: Option<u32>,
    /// What this attempt got: its payload as it went out
    #[arg(long, value_name = "N", group = "version", conflicts_with = "full", help_heading = "Output")]
    attempt: Option<u32>,
    /// With --revision or --attempt: only what is different
    #[arg(long, requires = "version", help_heading = "Output")]
    diff: bool,
    /// Attempts, steps or history from before a cursor that the last page named
    #[arg(long, value_name = "CURSOR", conflicts_with = "version", help_heading = "Output")]
    attempts_cursor: Option<String>,
    #[arg(long, value_name = "CURSOR", conflicts_with = "version", help_heading = "Output", hide = true)]
    steps_cursor: Option<String>,
    #[arg(long, value_name = "CURSOR", conflicts_with = "version", help_heading = "Output", hide = true)]
    history_cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    if let Some(number) = args.revision {
        if args.remote.json {
            return Ok(out.json(&client.revision(&args.run_id, number).text().await?)?);
        }
        if args.diff {
            return revision::diff(&client, &args.run_id, number, out).await;
        }
        return revision::show(&client, &args.run_id, number, out).await;
    }
    if let Some(attempt) = args.attempt {
        let call = client.sent(&args.run_id, attempt);
        if args.remote.json {
            return Ok(out.json(&call.text().await?)?);
        }
        return sent::print(&call.await?, args.diff, out);
    }
    let pages = RunPages {
        // A receipt tells all of it.
        limit: args.receipt.then_some(500),
        attempts_cursor: args.attempts_cursor,
        steps_cursor: args.steps_cursor,
        history_cursor: args.history_cursor,
    };
    let call = client.run_pages(&args.run_id, &pages);
    if args.receipt {
        let run = call.await?;
        return if args.remote.json { receipt::json(&run, out) } else { Ok(receipt::print(&run, out)?) };
    }
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = page::Page { run: &call.await?, now: now(), full: args.full, tenant: args.remote.tenant() };
    Ok(page.print(out)?)
}
