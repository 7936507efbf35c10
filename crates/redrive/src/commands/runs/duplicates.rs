//! `redrive runs duplicates`

use redrive_core::ids::RunId;
use redrive_core::wire::Likeness;

use crate::commands::now;
use crate::out::Out;
use crate::remote::Remote;
use crate::table::Table;
use crate::when::relative;
use crate::words::style_of;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    run_id: RunId,
    #[command(flatten)]
    remote: Remote,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> anyhow::Result<()> {
    let call = args.remote.client()?.duplicates(&args.run_id);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let answer = call.await?;
    if answer.duplicates.is_empty() {
        return Ok(out.line("no duplicates")?);
    }
    let mut table = Table::new(["RUN", "QUEUE", "STATE", "SAME", "RECEIVED"]);
    for duplicate in &answer.duplicates {
        let run = &duplicate.run;
        let same = match duplicate.same {
            Likeness::IdempotencyKey => "idempotency key",
            Likeness::Payload => "payload and failure",
        };
        let received = relative(run.received_at, now());
        let cells = [run.run_id.to_string(), run.queue.to_string(), run.state.to_string(), same.to_owned(), received];
        table.row_with(cells, 2, style_of(run.state));
    }
    out.table(table)?;
    if answer.more {
        out.line("\nThere may be more.")?;
    }
    Ok(())
}
