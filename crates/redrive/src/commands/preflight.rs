//! `redrive preflight`: checks whether a payload fits its model, without a server or a key.

use std::path::PathBuf;

use redrive_core::ids::{QueueName, Tenant};
use redrive_core::preflight::{Asked, Checked, PreflightVerdict, check};
use redrive_core::wire::PreflightAnswer;

use crate::config::ConfigPath;
use crate::escape;
use crate::failure::AlreadyReported;
use crate::out::{Printer, TextTable};
use crate::whole::{self, PAYLOAD_MAX_BYTES};

/// Reads a payload (JSON or any text) and reports whether it fits: its estimated tokens, the model's limits, and the largest
/// parts. Exits with 0 for `ok` and `warn`, with 1 for `compress`, `split` and `reject`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read this file instead of standard input
    file: Option<PathBuf>,
    /// The model [default: the one that the request names]
    #[arg(long)]
    model: Option<String>,
    /// How many tokens the answer may have [default: as the request says]
    #[arg(long, value_name = "TOKENS")]
    max_output_tokens: Option<u64>,
    /// The queue of the configuration whose settings say how the payload is read
    #[arg(long)]
    queue: Option<QueueName>,
    /// Print the API's JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    config: ConfigPath,
}

pub(crate) fn run(args: &Args, out: &mut Printer) -> anyhow::Result<()> {
    let config = args.config.read()?;
    let queue = args.queue.clone().unwrap_or_else(QueueName::default_queue);
    let settings = config.queues.get(&queue).cloned().unwrap_or_default();
    let policy = config.policies.resolve(settings.retry_by, &settings.policy, &Tenant::default_tenant());
    let payload = read(args.file.as_ref())?;
    let asked = Asked {
        payload: payload.trim(),
        shape: &policy.payload,
        model: args.model.as_deref(),
        output_tokens: args.max_output_tokens,
        calibration: None,
    };
    let found = check(&asked, &policy.models);
    let verdict = found.verdict;
    if args.json {
        out.json(&serde_json::to_string(&PreflightAnswer::of(found, None))?)?;
    } else {
        print(&found, out)?;
    }
    match verdict {
        PreflightVerdict::Ok | PreflightVerdict::Warn => Ok(()),
        PreflightVerdict::Split | PreflightVerdict::Compress | PreflightVerdict::Reject => Err(AlreadyReported.into()),
    }
}

/// Bytes that are not UTF-8 are counted lossily.
fn read(file: Option<&PathBuf>) -> anyhow::Result<String> {
    let bytes = match file {
        Some(path) => whole::file(path, PAYLOAD_MAX_BYTES)?,
        None => whole::stdin(PAYLOAD_MAX_BYTES)?,
    };
    Ok(String::from_utf8(bytes).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()))
}

fn print(found: &Checked, out: &mut Printer) -> anyhow::Result<()> {
    out.line(format_args!("{}: {}", found.verdict, escape::line(&found.why)))?;
    if !found.parts.is_empty() {
        let mut table = TextTable::new(["TOKENS", "ROLE", "PART"]);
        for part in &found.parts {
            let role = part.role.as_deref().unwrap_or("-").to_owned();
            let pointer = if part.pointer.is_empty() { "(all of it)".to_owned() } else { part.pointer.clone() };
            table.row([part.tokens.to_string(), role, pointer]);
        }
        out.table(table.right(&[0]))?;
    }
    let over = found.budget.is_some_and(|budget| found.estimate.tokens > budget.input_tokens);
    if over && !found.fits.is_empty() {
        out.line(format_args!("would fit: {}", found.fits.join(", ")))?;
    }
    Ok(())
}
