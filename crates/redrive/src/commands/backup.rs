//! `redrive store backup`, `restore`, `restored` and `release`, and the backups that a server makes by itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use redrive_core::text::Text;
use redrive_core::time::{HOUR_MS, Timestamp};
use redrive_core::wire::{BackupHealth, StoreReleaseRequest};
use redrive_server::BackupMonitor;
use redrive_store::classify;
use redrive_store::copy::StoreAddress;
use redrive_store::postgres;
use redrive_store::sqlite::backup::{self, BackupManifest, StoredBackup};
use serde::Serialize;
use serde_json::json;

use crate::args::Remote;
use crate::commands::now;
use crate::config::{BackupSection, DatabaseUrl, StorePlace};
use crate::failure::UsageError;
use crate::out::Printer;

const POSTGRES_HAS_ITS_OWN: &str = "a PostgreSQL store is backed up with PostgreSQL's own tools, pg_dump or \
     pg_basebackup; after a restore run `redrive store restored` (docs/backup.md)";

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// A new file, or a folder, which gets a file named by the time
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    #[command(flatten)]
    place: StorePlace,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The backup; its manifest lies beside it
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The folder of the restored store; it must not hold a store
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoredArgs {
    /// The restored PostgreSQL database; no server may be running on it
    #[arg(long, env = "REDRIVE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database_url: DatabaseUrl,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReleaseArgs {
    /// Why it is safe to go on
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Serialize)]
struct BackupReport<'a> {
    path: &'a Path,
    #[serde(flatten)]
    manifest: &'a BackupManifest,
}

pub(super) fn make(args: &BackupArgs, out: &mut Printer) -> anyhow::Result<()> {
    let StoreAddress::Folder(data) = args.place.find()? else { bail!(UsageError::new(POSTGRES_HAS_ITS_OWN)) };
    let mut shown = Ok(());
    let made = backup::backup(&data, &args.to, now(), |progress| {
        if shown.is_ok() && !args.json && out.columns().is_some() {
            let percent = (100 * progress.pages).checked_div(progress.of).unwrap_or(100);
            shown = out.bytes(format!("\r\x1b[2K{percent} %").as_bytes()).and_then(|()| out.flush());
        }
    })
    .map_err(classify)?;
    shown?;
    let StoredBackup { path, manifest } = &made;
    if args.json {
        return Ok(out.json(&serde_json::to_string(&BackupReport { path, manifest })?)?);
    }
    if out.columns().is_some() {
        out.line("")?;
    }
    let runs = manifest.rows.get("runs").copied().unwrap_or(0);
    Ok(out.line(format_args!("{}: {runs} runs, {} bytes, verified", path.display(), manifest.bytes))?)
}

pub(super) fn restore(args: &RestoreArgs, out: &mut Printer) -> anyhow::Result<()> {
    let restored = backup::restore(&args.from, &args.data, now()).map_err(classify)?;
    let (made_at, runs) = (restored.manifest.made_at, restored.manifest.rows.get("runs").copied().unwrap_or(0));
    if args.json {
        let answer = json!({"data": args.data, "backup_at": made_at, "runs": runs, "leased": restored.leased});
        return Ok(out.json(&answer.to_string())?);
    }
    out.line(format_args!("{runs} runs as of {made_at} restored into {}", args.data.display()))?;
    frozen_hint(out)
}

pub(super) fn mark_restored(args: &RestoredArgs, out: &mut Printer) -> anyhow::Result<()> {
    let mut store = postgres::Visit::open(args.database_url.as_str()).map_err(classify)?;
    let leased = store.mark_restored().map_err(classify)?;
    if args.json {
        return Ok(out.json(&json!({"leased": leased}).to_string())?);
    }
    out.line(format_args!("the leases of {leased} runs have ended"))?;
    frozen_hint(out)
}

fn frozen_hint(out: &mut Printer) -> anyhow::Result<()> {
    out.line(
        "The store is frozen: it takes reports, but hands out no work. What was done after the backup is not in it.",
    )?;
    Ok(out
        .line("Start the server, compare the runs with the outside world, then: redrive store release --reason TEXT")?)
}

pub(super) async fn release(args: ReleaseArgs, out: &mut Printer) -> anyhow::Result<()> {
    let request = StoreReleaseRequest { reason: Text::from(args.reason.as_str()) };
    let answer = args.remote.client()?.release_store(&request).await?;
    if args.remote.json {
        return Ok(out.json(&serde_json::to_string(&answer)?)?);
    }
    Ok(out.line(if answer.released { "released: leases and retries go on" } else { "the store was not frozen" })?)
}

/// How often a schedule looks whether a backup is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The backups of a server, by its configuration.
pub(crate) struct BackupSchedule {
    data: PathBuf,
    to: PathBuf,
    every_ms: u64,
    keep: usize,
}

impl BackupSchedule {
    /// None without `[backup]`. The setting is for a SQLite store.
    pub(crate) fn of(section: Option<&BackupSection>, store: &StoreAddress) -> anyhow::Result<Option<Self>> {
        let Some(section) = section else { return Ok(None) };
        let StoreAddress::Folder(data) = store else { bail!("[backup] in the configuration: {POSTGRES_HAS_ITS_OWN}") };
        Ok(Some(Self {
            data: data.clone(),
            to: section.to.clone(),
            every_ms: section.every_hours.saturating_mul(HOUR_MS),
            keep: section.keep,
        }))
    }

    pub(crate) async fn run(self, monitor: Arc<BackupMonitor>) {
        let schedule = Arc::new(self);
        loop {
            let due = schedule.clone();
            match tokio::task::spawn_blocking(move || due.run_once(now())).await {
                Ok(health) => monitor.record(health),
                Err(error) => tracing::error!(%error, "scheduled backup ended early"),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Makes a backup if the newest one is old enough, and removes those beyond `keep`.
    fn run_once(&self, now: Timestamp) -> BackupHealth {
        match self.round(now) {
            Ok(last_at) => BackupHealth { backup_failed: false, error: None, last_at },
            Err(error) => {
                tracing::error!(%error, to = %self.to.display(), "scheduled backup failed; retrying");
                let last_at = self.newest().ok().flatten();
                BackupHealth { backup_failed: true, error: Some(error.to_string()), last_at }
            }
        }
    }

    fn newest(&self) -> redrive_engine::Result<Option<Timestamp>> {
        Ok(backup::backups_in(&self.to).map_err(classify)?.first().map(|backup| backup.manifest.made_at))
    }

    /// When the newest backup was made.
    fn round(&self, now: Timestamp) -> redrive_engine::Result<Option<Timestamp>> {
        let newest = self.newest()?;
        if newest.is_some_and(|newest| now.since(newest) < self.every_ms) {
            return Ok(newest);
        }
        std::fs::create_dir_all(&self.to).map_err(|error| {
            redrive_engine::Error::Unexpected(format!("{} can't be made: {error}", self.to.display()))
        })?;
        let made = backup::backup(&self.data, &self.to, now, |_| {}).map_err(classify)?;
        tracing::info!(path = %made.path.display(), bytes = made.manifest.bytes, "backup made");
        backup::prune(&self.to, self.keep).map_err(classify)?;
        Ok(Some(made.manifest.made_at))
    }
}

#[cfg(test)]
mod tests {
    use redrive_engine::SystemDice;
    use redrive_store::sqlite::{Options, SqliteStore};

    use super::*;

    fn schedule(folder: &Path, to: PathBuf) -> BackupSchedule {
        let data = folder.join("data");
        let (clock, dice) = (Arc::new(redrive_engine::SystemClock), Arc::new(SystemDice));
        drop(SqliteStore::open(Options { folder: data.clone(), clock, dice, policies: Default::default() }).unwrap());
        BackupSchedule { data, to, every_ms: HOUR_MS, keep: 2 }
    }

    #[test]
    fn a_schedule_makes_due_backups_and_keeps_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("backups");
        let schedule = schedule(folder.path(), to.clone());
        let begin = Timestamp::from_millis(1_800_000_000_000);
        let times = [0, HOUR_MS - 1, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS];
        let health = times.map(|ms| schedule.run_once(begin.plus_ms(ms)));
        let kept: Vec<_> = backup::backups_in(&to).unwrap().iter().map(|made| made.manifest.made_at).collect();
        assert_eq!(kept, [begin.plus_ms(3 * HOUR_MS), begin.plus_ms(2 * HOUR_MS)]);
        let last_at = [0, 0, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS].map(|ms| Some(begin.plus_ms(ms)));
        assert_eq!(health, last_at.map(|last_at| BackupHealth { last_at, ..BackupHealth::default() }));
    }

    #[test]
    fn a_failed_backup_shows_in_health_until_one_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("backups");
        let schedule = schedule(folder.path(), to.clone());
        std::fs::write(&to, "in the way").unwrap();
        let health = schedule.run_once(now());
        assert!(health.backup_failed && health.error.is_some(), "{health:?}");
        std::fs::remove_file(&to).unwrap();
        assert!(!schedule.run_once(now()).backup_failed);
    }
}
