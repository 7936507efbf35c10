//! `redrive queues`

use clap::Subcommand;
use redrive_client::Error;
use redrive_core::ids::QueueName;
use redrive_core::policy::{
    BreakerLayer, Budgets, DetectLayer, PayloadShape, PolicyLayer, Preflight, Preset, ReplayApproval, RetryBy,
    StrategiesLayer,
};
use redrive_core::text::Label;
use redrive_core::wire::{QueueSettings, QueueView};

use crate::args::Remote;
use crate::commands::now;
use crate::escape;
use crate::failure::UsageError;
use crate::out::{Printer, TextTable, or_dash, relative};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List queues
    List(QueueListArgs),
    /// Show a queue: owner, policy, counts
    Show(QueueShowArgs),
    /// Change the given settings of a queue; creates the queue if needed
    Set(Box<SetArgs>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueListArgs {
    /// Maximum number of results
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// Continue after this cursor of an earlier page
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct QueueShowArgs {
    name: QueueName,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    name: QueueName,
    /// Owner: a person or a team
    #[arg(long)]
    owner: Option<String>,
    #[arg(long)]
    description: Option<String>,
    /// Runbook URL or text
    #[arg(long, value_name = "URL")]
    runbook: Option<String>,
    /// What an operator should know before acting; shown with every run of the queue
    #[arg(long)]
    instructions: Option<String>,
    /// Who executes retries: worker (leases the queue) or caller (the reporter's own loop)
    #[arg(long, value_name = "WHO", value_parser = wire_word::<RetryBy>)]
    retry_by: Option<RetryBy>,
    /// A named budget and schedule: standard, internal, external or customer
    #[arg(long, value_parser = wire_word::<Preset>)]
    preset: Option<Preset>,
    /// Attempts since the last human replay, the first included
    #[arg(long)]
    max_attempts: Option<u32>,
    /// Waits before the first, second, … retry
    #[arg(long, value_delimiter = ',', value_name = "MS,…")]
    schedule_ms: Option<Vec<u64>>,
    /// How long a lease lives without a heartbeat
    #[arg(long, value_name = "MS")]
    lease_ms: Option<u64>,
    /// How long an attempt may go without a step
    #[arg(long, value_name = "MS")]
    idle_ms: Option<u64>,
    /// Wall clock limit of one attempt
    #[arg(long, value_name = "MS")]
    deadline_ms: Option<u64>,
    /// How long a due run waits for a worker
    #[arg(long, value_name = "MS")]
    unclaimed_after_ms: Option<u64>,
    /// Replays allowed before only --force gets through
    #[arg(long)]
    max_replays: Option<u32>,
    /// Preflight before the first attempt: off, warn or enforce
    #[arg(long, value_name = "HOW", value_parser = wire_word::<Preflight>)]
    preflight: Option<Preflight>,
    /// Where in a payload the request to the model lies, as JSON: {"messages":"/request/messages"}
    #[arg(long, value_name = "JSON", value_parser = wire_json::<PayloadShape>)]
    payload: Option<PayloadShape>,
    /// Models that may stand in for one another, the smallest first: gpt-5-mini,gpt-5
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    models: Option<Vec<String>>,
    /// A simpler queue that takes over where this one's changed retry did not help
    #[arg(long, value_name = "QUEUE")]
    fallback_queue: Option<QueueName>,
    /// What is done about a reason, as JSON: {"tool_error":{"tries":2}}
    #[arg(long, value_name = "JSON", value_parser = wire_json::<StrategiesLayer>)]
    strategy: Option<StrategiesLayer>,
    /// When failing work is held back, as JSON: {"min_attempts":50}
    #[arg(long, value_name = "JSON", value_parser = wire_json::<BreakerLayer>)]
    breaker: Option<BreakerLayer>,
    /// What retries may use up, as JSON: {"retry_tokens_per_run":100000}
    #[arg(long, value_name = "JSON", value_parser = wire_json::<Budgets>)]
    budget: Option<Budgets>,
    /// What a reported success is checked for, as JSON: {"expect_effect":true}
    #[arg(long, value_name = "JSON", value_parser = wire_json::<DetectLayer>)]
    detect: Option<DetectLayer>,
    /// Which replays need approval: never, unsafe, severity>=X or always
    #[arg(long, value_name = "WHICH", value_parser = wire_word::<ReplayApproval>)]
    replay_approval: Option<ReplayApproval>,
    /// How long a run waits for an approval
    #[arg(long, value_name = "MS")]
    approval_expires_ms: Option<u64>,
    /// Reset all other settings
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    remote: Remote,
}

/// Reads a word as the wire spells it.
fn wire_word<T: serde::de::DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| error.to_string())
}

fn wire_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub(crate) async fn run(command: Command, out: &mut Printer) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list(args, out).await,
        Command::Show(args) => show(args, out).await,
        Command::Set(args) => set(*args, out).await,
    }
}

async fn list(args: QueueListArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.queues(Some(args.limit), args.cursor.as_deref());
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    let page = call.await?;
    if page.queues.is_empty() {
        return Ok(out.line("no queues")?);
    }
    let mut table = TextTable::new(["QUEUE", "OWNER", "DEAD", "SCHEDULED", "RUNNING", "RETRY BY", "LAST LEASE CALL"]);
    for queue in &page.queues {
        table.row([
            queue.name.to_string(),
            or_dash(queue.settings.owner.as_ref()),
            queue.dead.to_string(),
            queue.scheduled.to_string(),
            queue.running.to_string(),
            queue.settings.retry_by.as_str().into(),
            or_dash(queue.last_lease_call_at.map(|at| relative(at, now()))),
        ]);
    }
    out.table(table.right(&[2, 3, 4]))?;
    if let Some(cursor) = page.next_cursor {
        out.line(format_args!("\nmore: --cursor {}", escape::shell(&cursor)))?;
    }
    Ok(())
}

async fn show(args: QueueShowArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let call = client.queue(&args.name);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    page(&call.await?, out)
}

async fn set(args: SetArgs, out: &mut Printer) -> anyhow::Result<()> {
    let client = args.remote.client()?;
    let before = match client.queue(&args.name).await {
        Ok(queue) if !args.reset => queue.settings,
        Ok(_) => QueueSettings::default(),
        Err(Error::Problem(problem)) if problem.status == 404 => QueueSettings::default(),
        Err(error) => return Err(error.into()),
    };
    let settings = args.over(before);
    settings.policy.check().map_err(|bad| UsageError::new(bad.to_string()))?;
    let call = client.put_queue(&args.name, &settings);
    if args.remote.json {
        return Ok(out.json(&call.text().await?)?);
    }
    page(&call.await?, out)
}

impl SetArgs {
    fn over(&self, before: QueueSettings) -> QueueSettings {
        let policy = PolicyLayer {
            preset: self.preset.or(before.policy.preset),
            max_attempts: self.max_attempts.or(before.policy.max_attempts),
            schedule_ms: self.schedule_ms.clone().or(before.policy.schedule_ms),
            lease_ms: self.lease_ms.or(before.policy.lease_ms),
            idle_ms: self.idle_ms.or(before.policy.idle_ms),
            deadline_ms: self.deadline_ms.or(before.policy.deadline_ms),
            unclaimed_after_ms: self.unclaimed_after_ms.or(before.policy.unclaimed_after_ms),
            max_replays: self.max_replays.or(before.policy.max_replays),
            models: self.models.clone().or(before.policy.models),
            fallback_queue: self.fallback_queue.clone().or(before.policy.fallback_queue),
            strategy: self.strategy.clone().or(before.policy.strategy),
            budget: self.budget.or(before.policy.budget),
            detect: self.detect.clone().or(before.policy.detect),
            preflight: self.preflight.or(before.policy.preflight),
            payload: self.payload.clone().or(before.policy.payload),
            replay_approval: self.replay_approval.or(before.policy.replay_approval),
            approval_expires_ms: self.approval_expires_ms.or(before.policy.approval_expires_ms),
            breaker: self.breaker.or(before.policy.breaker),
            // Limits are per tenant, not per queue.
            limits: before.policy.limits,
        };
        QueueSettings {
            owner: self.owner.as_deref().map(Label::from).or(before.owner),
            description: self.description.clone().or(before.description),
            runbook: self.runbook.clone().or(before.runbook),
            instructions: self.instructions.clone().or(before.instructions),
            retry_by: self.retry_by.unwrap_or(before.retry_by),
            policy,
        }
    }
}

fn page(queue: &QueueView, out: &mut Printer) -> anyhow::Result<()> {
    let settings = &queue.settings;
    let mut facts = vec![
        ("queue".into(), queue.name.to_string()),
        ("owner".into(), settings.owner.as_ref().map_or_else(|| "nobody yet".into(), ToString::to_string)),
        ("description".into(), or_dash(settings.description.as_ref())),
        ("runbook".into(), or_dash(settings.runbook.as_ref())),
        ("instructions".into(), or_dash(settings.instructions.as_ref())),
        ("retry by".into(), settings.retry_by.as_str().into()),
        ("dead".into(), queue.dead.to_string()),
        ("scheduled".into(), queue.scheduled.to_string()),
        ("running".into(), queue.running.to_string()),
        ("last lease call".into(), or_dash(queue.last_lease_call_at.map(|at| relative(at, now())))),
    ];
    if let serde_json::Value::Object(policy) = serde_json::to_value(&settings.policy)? {
        facts.extend(policy.into_iter().map(|(name, value)| (name, value.to_string())));
    }
    for (name, value) in facts {
        out.line(format_args!("{name:<20}{}", escape::line(&value)))?;
    }
    Ok(())
}
