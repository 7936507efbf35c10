//! `redrive runs tail`: follows state changes.

use std::time::Duration;

use redrive_client::{Client, Error};
use redrive_core::ids::QueueName;
use redrive_core::run::StateName;
use redrive_core::wire::{ChangeEntry, ChangesAnswer};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::args::{Remote, word};
use crate::escape;
use crate::failure::tell;
use crate::out::{Printer, style_of};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only changes into these states
    #[arg(long, value_delimiter = ',', value_parser = word(StateName::ALL, StateName::as_str))]
    state: Vec<StateName>,
    /// Only these queues
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    queue: Vec<QueueName>,
    /// Start at this cursor instead of now
    #[arg(long, value_name = "CURSOR")]
    since: Option<String>,
    /// Polling interval
    #[arg(long, default_value_t = 1_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..))]
    every_ms: u64,
    #[command(flatten)]
    remote: Remote,
}

impl Args {
    fn wants(&self, change: &ChangeEntry) -> bool {
        let state = self.state.is_empty() || self.state.contains(&change.state);
        state && (self.queue.is_empty() || self.queue.contains(&change.queue))
    }
}

pub(crate) async fn run(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let mut since = match &args.since {
        Some(since) => since.clone(),
        None => client.changes(None).await?.next,
    };
    loop {
        if let Some(text) = look(&client, &since).await? {
            let answer: ChangesAnswer = serde_json::from_str(&text)?;
            if answer.reset {
                tell("some changes were missed: the server keeps only the latest");
            }
            print(&args, &text, &answer, out)?;
            since = answer.next;
        }
        tokio::time::sleep(Duration::from_millis(args.every_ms)).await;
    }
}

/// A server that restarts is waited for; one that refuses is not.
async fn look(client: &Client, since: &str) -> anyhow::Result<Option<String>> {
    match client.changes(Some(since)).text().await {
        Ok(text) => Ok(Some(text)),
        Err(error @ Error::Unreachable { .. }) => {
            tell(&format!("{error}; trying again"));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn print(args: &Args, text: &str, answer: &ChangesAnswer, out: &mut Printer) -> anyhow::Result<()> {
    let raw: RawChanges<'_> = serde_json::from_str(text)?;
    for (change, raw) in answer.changes.iter().zip(raw.changes).filter(|(change, _)| args.wants(change)) {
        if args.remote.json {
            out.json(raw.get())?;
        } else {
            out.line(line(change, out))?;
        }
    }
    Ok(out.flush()?)
}

/// The changes as the server wrote them.
#[derive(Deserialize)]
struct RawChanges<'a> {
    #[serde(borrow)]
    changes: Vec<&'a RawValue>,
}

fn line(change: &ChangeEntry, out: &Printer) -> String {
    let state = out.styled(style_of(change.state), &format!("{:<10}", change.state.as_str()));
    let reason =
        change.reason.as_ref().map_or_else(String::new, |reason| format!("  {}", escape::line(reason.as_str())));
    format!(
        "{}  {state} {} (tenant {}, queue {}), attempt {}{reason}",
        change.at, change.run_id, change.tenant, change.queue, change.attempt
    )
}
