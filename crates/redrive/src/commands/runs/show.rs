//! `redrive runs show`

use redrive_core::ids::RunId;

use crate::commands::now;
use crate::commands::runs::{page, sent};
use crate::out::Out;
use crate::remote::Remote;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    /// Show errors, payload and outputs in full instead of their beginning
    #[arg(long, help_heading = "Output")]
    full: bool,
    /// Show what this attempt got instead: its payload as it went out
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// With --attempt: only what is different from the run's own payload
    #[arg(long, requires = "attempt", help_heading = "Output")]
    diff: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    if let Some(attempt) = args.attempt {
        let call = client.sent(&args.run_id, attempt);
        if args.remote.json {
            return Ok(out.json(&call.text().await?)?);
        }
        return sent::print(&call.await?, args.diff, out);
    }
    let call = client.run(&args.run_id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = page::Page { run: &call.await?, now: now(), full: args.full, tenant: args.remote.tenant() };
    Ok(page.print(out)?)
}
