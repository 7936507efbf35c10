//! What the Python SDK costs an agent, beside the same agent bare: its own script measures both in one process.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::Plan;
use crate::figures::Figures;
use crate::process::{Server, StoreLocation};

const RUNS: &str = "1000";

pub fn measure(plan: &Plan, figures: &mut Figures) -> Result<()> {
    println!("An agent in Python, bare and inside a run");
    let folder = tempfile::tempdir_in("target")?;
    let server = Server::start(&plan.redrive, StoreLocation::Folder(folder.path()))?;
    let measured = Command::new("python3")
        .args(["sdk/python/bench.py", RUNS])
        .env("REDRIVE_URL", format!("http://{}", server.address))
        .env("REDRIVE_KEY", &server.key)
        .env("REDRIVE_TENANT", "default")
        .output()
        .context("python3")?;
    ensure!(measured.status.success(), "sdk/python/bench.py: {}", String::from_utf8_lossy(&measured.stderr));
    let found: Value = serde_json::from_slice(&measured.stdout).context("sdk/python/bench.py")?;
    let ms = |name: &str| found[name].as_f64().with_context(|| format!("no {name}"));
    figures.note("python sdk: the one synchronous start, p50", ms("start_ms")?, "ms");
    figures.at_most(
        "python sdk: five plain steps and the end, beyond the bare agent, p50",
        ms("five_steps_and_end_ms")?,
        "ms",
        0.3,
    );
    figures.note("python sdk: an effect (intent and outcome, both on disk), p50", ms("effect_ms")?, "ms");
    server.stop()
}
