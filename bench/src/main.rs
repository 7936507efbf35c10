//! The bench: every figure beside its comparison, measured in the same run over the same rows. Prints a table, and
//! with `--json FILE` writes the figures.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a bench prints, and measures real time"
)]

mod abuse;
mod claims;
mod classify;
mod figures;
mod ingest;
mod load;
mod operations;
mod pages;
mod postgres;
mod preflight;
mod process;
mod raw;
mod sdk;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use figures::Figures;

/// As in the product: what is measured in the store, ours and raw, runs on it there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What to measure, from the command line.
pub struct Plan {
    pub redrive: PathBuf,
    pub runs: u64,
    pub large: u64,
    pub huge: u64,
    pub pairs: usize,
    json: Option<PathBuf>,
    postgres: bool,
    /// A PostgreSQL that is there already; stores that were filled stay on it for the next run.
    pub server: Option<String>,
    only: Option<String>,
    /// One part of the abuse bench alone.
    pub part: Option<String>,
}

impl Plan {
    fn from_args() -> Result<Self> {
        let mut plan = Self {
            redrive: PathBuf::from("target/release/redrive"),
            runs: 45_000,
            large: 1_000_000,
            huge: 10_000_000,
            pairs: 3,
            json: None,
            postgres: false,
            server: None,
            only: None,
            part: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(flag) = args.next() {
            let value = args.next().with_context(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--redrive" => plan.redrive = value.into(),
                "--runs" => plan.runs = value.parse()?,
                "--large" => plan.large = value.parse()?,
                "--huge" => plan.huge = value.parse()?,
                "--pairs" => plan.pairs = value.parse()?,
                "--json" => plan.json = Some(value.into()),
                "--store" if value == "postgres" => plan.postgres = true,
                "--store" if value == "sqlite" => {}
                "--server" => plan.server = Some(value),
                "--only" => plan.only = Some(value),
                "--part" => plan.part = Some(value),
                other => bail!(
                    "unknown flag {other}: --redrive --runs --large --huge --pairs --json --store --server --only --part"
                ),
            }
        }
        Ok(plan)
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

fn main() -> Result<()> {
    let plan = Plan::from_args()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut figures = Figures::default();
    runtime.block_on(measure(&plan, &mut figures))?;
    println!("{figures}");
    if let Some(path) = &plan.json {
        std::fs::write(path, figures.to_json())?;
    }
    Ok(())
}

async fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    if plan.postgres {
        return postgres::measure(plan, figures).await;
    }
    if plan.wants("classify") {
        classify::measure(figures);
    }
    if plan.wants("preflight") {
        preflight::measure(figures);
    }
    if plan.wants("ingest") {
        ingest::measure(plan, figures).await?;
    }
    if plan.wants("claims") {
        claims::measure(plan, figures).await?;
    }
    if plan.wants("operations") {
        operations::measure(plan, figures).await?;
    }
    if plan.wants("sdk") {
        sdk::measure(plan, figures)?;
    }
    if plan.wants("lists") {
        pages::measure_lists(plan, figures).await?;
    }
    if plan.wants("pages") {
        pages::measure(plan, figures).await?;
    }
    if plan.wants("abuse") {
        abuse::measure(plan, figures).await?;
    }
    Ok(())
}
