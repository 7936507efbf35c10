//! `redrive demo`: thirty days of a simulated fleet in a temporary folder, then the fleet at work until it is stopped.

mod causes;
mod fleet;
mod history;
mod live;

use fleet::Fleet;
use history::{HistoryCounts, make_history, set_queues};
use live::{DemoPace, Live};

use std::io::{self, BufRead as _, IsTerminal as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use redrive_client::{Client, StatsQuery};
use redrive_core::policy::Policies;
use redrive_core::run::StateName;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::{Role, StatsAnswer};
use redrive_engine::{Clock, Dice, ManualClock, SeededDice, Store, SystemClock, SystemDice};
use redrive_server::{Config, Server, ServerLimits, auth};
use redrive_store::sqlite::{Options, SqliteStore};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::commands::now;
use crate::commands::serve::{Signals, replica_name};
use crate::escape;
use crate::log::{self, LogFormat};
use crate::out::{Printer, Style};

const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7070);
/// Enough for more than 200 dead letters at 0.45 %.
const HISTORY_RUNS: u64 = 47_000;
const GRACE_MS: u64 = 1_000;
const LAST_TASKS: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seed of the fleet; the same seed gives the same fleet
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Speed of the live fleet; 2 is twice as fast
    #[arg(long, default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Where to listen [default: 127.0.0.1:7070, or a free port if that is taken]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// How many runs the history has
    #[arg(long, hide = true, default_value_t = HISTORY_RUNS)]
    history_runs: u64,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "a number, such as 2 or 0.5".to_owned())?;
    if (0.1..=100.0).contains(&speed) { Ok(speed) } else { Err("from 0.1 to 100".into()) }
}

pub(crate) fn run(args: &Args, out: &mut Printer) -> anyhow::Result<()> {
    log::begin(LogFormat::Auto, "warn")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let folder = TempFolder::new()?;
    let result = runtime.block_on(demo(args, &folder, out));
    runtime.shutdown_timeout(LAST_TASKS);
    result.and(folder.remove())
}

/// A signal ends it at any point.
async fn demo(args: &Args, folder: &TempFolder, out: &mut Printer) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let listen = free_address(args.listen)?;
    let mut fleet = Fleet::new(args.seed);
    let began = now();
    let made = tokio::select! {
        made = history(args, folder, &mut fleet, began) => made?,
        () = signals.next() => return Ok(()),
    };
    let took_ms = now().since(began);
    let options = options(folder, Arc::new(SystemClock), Arc::new(SystemDice));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options)?);
    set_queues(store.as_ref(), Live::queue).await?;
    let server = Server::start(config(listen), store.clone(), Arc::new(SystemDice), None).await?;
    let keys = Keys::make(store.as_ref()).await?;
    let greeting = Greeting { url: format!("http://{}", server.address()), made, took_ms, folder };
    let result = match greeting.print(&keys, &server.login_link(keys.hash), out) {
        Ok(()) => show(args, &server, &keys, fleet, &mut signals, out).await,
        Err(error) => Err(error),
    };
    tokio::select! {
        () = server.stop() => result,
        () = signals.next() => {
            // Open requests are not awaited; the folder is removed either way.
            let _ = std::fs::remove_dir_all(folder.path());
            process::exit(1)
        }
    }
}

/// An explicit address must be free; the default falls back to a free port.
fn free_address(asked: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
    let listen = asked.unwrap_or(LISTEN_DEFAULT);
    match TcpListener::bind(listen) {
        Ok(_) => Ok(listen),
        Err(_) if asked.is_none() => Ok(SocketAddr::new(LISTEN_DEFAULT.ip(), 0)),
        Err(error) => Err(error).with_context(|| format!("can't listen on {listen}")),
    }
}

async fn history(
    args: &Args,
    folder: &TempFolder,
    fleet: &mut Fleet,
    until: Timestamp,
) -> anyhow::Result<HistoryCounts> {
    let clock = Arc::new(ManualClock::at(until.minus_ms(31 * DAY_MS)));
    let options = options(folder, clock.clone(), Arc::new(SeededDice::new(args.seed)));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open_throw_away(options)?);
    set_queues(store.as_ref(), |settings| settings).await?;
    let made = make_history(store.clone(), clock, fleet, args.history_runs, until).await?;
    store.close().await;
    Ok(made)
}

fn options(folder: &TempFolder, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Options {
    Options { folder: folder.data(), clock, dice, policies: Policies::default() }
}

fn config(listen: SocketAddr) -> Config {
    let limits = ServerLimits { grace_ms: GRACE_MS, ..ServerLimits::default() };
    Config { listen, metrics_listen: None, limits, replica: replica_name() }
}

/// One key for the user, one for the fleet.
struct Keys {
    admin: String,
    hash: [u8; 32],
    worker: String,
}

impl Keys {
    async fn make(store: &dyn Store) -> anyhow::Result<Self> {
        let (admin, record) = auth::new_key(&SystemDice, Role::Admin, None, Some("yours".into()), None, store.now());
        let hash = record.hash;
        store.put_key(record).await?;
        let (worker, record) =
            auth::new_key(&SystemDice, Role::Worker, None, Some("the fleet".into()), None, store.now());
        store.put_key(record).await?;
        Ok(Self { admin, hash, worker })
    }
}

/// The fleet works and the counts move, until a signal comes.
async fn show(
    args: &Args,
    server: &Server,
    keys: &Keys,
    fleet: Fleet,
    signals: &mut Signals,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let url = format!("http://{}", server.address());
    let live = Live::start(Client::new(&url, &keys.worker)?, fleet, DemoPace(args.speed));
    let status = DemoStatus::new(Client::new(&url, &keys.admin)?);
    let mut enter = EnterKey::listen();
    let shown = tokio::select! {
        shown = status.show(&mut enter, || server.login_link(keys.hash), out) => shown,
        () = signals.next() => Ok(()),
    };
    live.stop().await;
    shown
}

/// The introduction for a new user.
struct Greeting<'a> {
    url: String,
    made: HistoryCounts,
    took_ms: u64,
    folder: &'a TempFolder,
}

impl Greeting<'_> {
    fn print(&self, keys: &Keys, link: &str, out: &mut Printer) -> anyhow::Result<()> {
        let HistoryCounts { runs, recovered, dead } = self.made;
        let program = std::env::args().next().unwrap_or_else(|| "redrive".into());
        let (program, url) = (escape::shell(&program), &self.url);
        let runs = format!(
            "30 days of a fleet of seven agents: {} runs, {} failed and recovered by themselves, {} wait for a person.",
            grouped(runs),
            grouped(recovered),
            grouped(dead)
        );
        out.line(out.styled(Style::Heading, &runs))?;
        out.line(format_args!("(made in {:.1} s; the fleet goes on working now)\n", self.took_ms as f64 / 1_000.0))?;
        out.line(format_args!(
            "Open this link; it logs you in, once, within 15 minutes (Enter gives another):\n\n    {link}\n"
        ))?;
        out.line("In another terminal:\n")?;
        out.line(format_args!("    export REDRIVE_URL={url}"))?;
        out.line(format_args!("    export REDRIVE_KEY={}", keys.admin))?;
        out.line(format_args!("    {program} runs list --state dead"))?;
        out.line(format_args!("    {program} patterns list"))?;
        out.line("    curl -s -H \"Authorization: Bearer $REDRIVE_KEY\" \"$REDRIVE_URL/v1/health\"\n")?;
        out.line(format_args!(
            "Ctrl-C ends it and removes {}\n",
            escape::line(&self.folder.path().display().to_string())
        ))?;
        Ok(out.flush()?)
    }
}

pub(crate) struct TempFolder(TempDir);

impl TempFolder {
    /// Readable by its owner alone. Dropping it removes it; [`TempFolder::remove`] also says if that failed.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mine = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("redrive-demo-").permissions(mine).tempdir();
        made.map(Self).with_context(|| format!("no folder in {}", std::env::temp_dir().display()))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn remove(self) -> anyhow::Result<()> {
        let path = self.path().to_owned();
        self.0.close().with_context(|| format!("{} could not be removed", path.display()))
    }
}

pub(crate) struct EnterKey {
    pressed: mpsc::UnboundedReceiver<()>,
    /// Kept open, so that `recv` never ends without a terminal.
    _tell: mpsc::UnboundedSender<()>,
}

impl EnterKey {
    /// Listens where there is a terminal to listen to; the thread ends with the process.
    pub(crate) fn listen() -> Self {
        let (tell, pressed) = mpsc::unbounded_channel();
        let to = tell.clone();
        if io::stdin().is_terminal() {
            let listen = move || io::stdin().lock().lines().map_while(Result::ok).all(|_| to.send(()).is_ok());
            // Without the thread, Enter makes no new link.
            let _ = std::thread::Builder::new().name("enter".into()).spawn(listen);
        }
        Self { pressed, _tell: tell }
    }

    pub(crate) async fn pressed(&mut self) {
        if self.pressed.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

const ON_A_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(10);

pub(crate) struct DemoStatus {
    client: Client,
}

impl DemoStatus {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Prints counts until the output is closed. Enter prints a new link.
    pub(crate) async fn show(
        &self,
        enter: &mut EnterKey,
        new_link: impl Fn() -> String,
        out: &mut Printer,
    ) -> anyhow::Result<()> {
        loop {
            // The next round makes up for a failed request.
            if let Ok(stats) = self.client.stats(&StatsQuery::default()).await {
                print(&stats, out)?;
            }
            tokio::select! {
                () = sleep(if out.columns().is_some() { ON_A_TERMINAL } else { ELSEWHERE }) => {}
                () = enter.pressed() => out.line(format_args!("\r\x1b[2K{}", new_link()))?,
            }
        }
    }
}

fn print(stats: &StatsAnswer, out: &mut Printer) -> anyhow::Result<()> {
    let words = counts(stats);
    let plain: Vec<String> = words.iter().map(|(word, n, _)| format!("{word} {n}")).collect();
    let plain = plain.join("   ");
    match out.columns() {
        Some(columns) if plain.len() < columns => {
            let painted: Vec<String> =
                words.iter().map(|(word, n, style)| format!("{word} {}", out.styled(*style, n))).collect();
            out.bytes(format!("\r\x1b[2K{}", painted.join("   ")).as_bytes())?;
        }
        Some(columns) => {
            let cut: String = plain.chars().take(columns.saturating_sub(1)).collect();
            out.bytes(format!("\r\x1b[2K{cut}").as_bytes())?;
        }
        None => out.line(plain)?,
    }
    Ok(out.flush()?)
}

fn counts(stats: &StatsAnswer) -> Vec<(&'static str, String, Style)> {
    let of = |state: StateName| stats.states.iter().find(|(at, _)| *at == state).map_or(0, |(_, n)| *n);
    [
        ("dead", StateName::Dead, Style::Bad),
        ("waiting", StateName::Scheduled, Style::Waiting),
        ("running", StateName::Running, Style::Plain),
        ("recovered", StateName::Recovered, Style::Good),
        ("succeeded", StateName::Succeeded, Style::Good),
    ]
    .map(|(word, state, style)| (word, grouped(of(state)), style))
    .into()
}

/// 59,105
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_grouped_by_thousands() {
        assert_eq!([0, 999, 1_000, 59_105, 1_234_567].map(grouped), ["0", "999", "1,000", "59,105", "1,234,567"]);
    }
}
