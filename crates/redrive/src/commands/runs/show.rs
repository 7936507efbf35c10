//! `redrive runs show`

use redrive_core::ids::RunId;

use crate::commands::now;
use crate::commands::runs::page;
use crate::out::Out;
use crate::remote::Remote;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    /// Show errors, payload and outputs in full instead of their beginning
    #[arg(long, help_heading = "Output")]
    full: bool,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.run(&args.run_id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = page::Page { run: &call.await?, now: now(), full: args.full, tenant: args.remote.tenant() };
    Ok(page.print(out)?)
}
