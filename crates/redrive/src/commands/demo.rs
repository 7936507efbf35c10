//! `redrive demo`: thirty days of a fleet on a throw-away folder, then the fleet at work, until it is told to stop.

use std::net::{SocketAddr, TcpListener};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use redrive_client::Client;
use redrive_core::policy::Policies;
use redrive_core::time::{DAY_MS, Timestamp};
use redrive_core::wire::Role;
use redrive_server::{Config, Limits, Server, auth};
use redrive_store::sqlite::{Options, SqliteStore};
use redrive_store::{Clock, Dice, ManualClock, SeededDice, Store, SystemClock, SystemDice};

use crate::commands::now;
use crate::commands::serve::{Signals, replica_name};
use crate::demo::{Enter, Fleet, Live, Made, Pace, Status, ThrowAway, grouped, make_history, set_queues};
use crate::escape;
use crate::log::{self, LogFormat};
use crate::out::{Out, Style};

const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7070);
/// So many that more than 200 dead letters are left at 0.45 %.
const HISTORY_RUNS: u64 = 47_000;
const GRACE_MS: u64 = 1_000;
const LAST_TASKS: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Another number, another fleet; the same one, the same again
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// How fast the live fleet works: 2 is twice the usual speed
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

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<()> {
    log::begin(LogFormat::Auto, "warn")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let folder = ThrowAway::new()?;
    let result = runtime.block_on(demo(args, &folder, out));
    runtime.shutdown_timeout(LAST_TASKS);
    result.and(folder.remove())
}

/// Whatever it is doing, a signal ends it.
async fn demo(args: &Args, folder: &ThrowAway, out: &mut Out) -> anyhow::Result<()> {
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
            // Not even the last requests are waited for; the folder goes all the same.
            let _ = std::fs::remove_dir_all(folder.path());
            process::exit(1)
        }
    }
}

/// An address that was asked for has to be free; the usual one may make way for another.
fn free_address(asked: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
    let listen = asked.unwrap_or(LISTEN_DEFAULT);
    match TcpListener::bind(listen) {
        Ok(_) => Ok(listen),
        Err(_) if asked.is_none() => Ok(SocketAddr::new(LISTEN_DEFAULT.ip(), 0)),
        Err(error) => Err(error).with_context(|| format!("can't listen on {listen}")),
    }
}

async fn history(args: &Args, folder: &ThrowAway, fleet: &mut Fleet, until: Timestamp) -> anyhow::Result<Made> {
    let clock = Arc::new(ManualClock::at(until.minus_ms(31 * DAY_MS)));
    let options = options(folder, clock.clone(), Arc::new(SeededDice::new(args.seed)));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open_throw_away(options)?);
    set_queues(store.as_ref(), |settings| settings).await?;
    let made = make_history(store.clone(), clock, fleet, args.history_runs, until).await?;
    store.close().await;
    Ok(made)
}

fn options(folder: &ThrowAway, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Options {
    Options { folder: folder.data(), clock, dice, policies: Policies::default() }
}

fn config(listen: SocketAddr) -> Config {
    let limits = Limits { grace_ms: GRACE_MS, ..Limits::default() };
    Config { listen, metrics_listen: None, limits, replica: replica_name() }
}

/// One for the person who looks, one for the fleet.
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
    out: &mut Out,
) -> anyhow::Result<()> {
    let url = format!("http://{}", server.address());
    let live = Live::start(Client::new(&url, &keys.worker)?, fleet, Pace(args.speed));
    let status = Status::new(Client::new(&url, &keys.admin)?);
    let mut enter = Enter::listen();
    let shown = tokio::select! {
        shown = status.show(&mut enter, || server.login_link(keys.hash), out) => shown,
        () = signals.next() => Ok(()),
    };
    live.stop().await;
    shown
}

/// What a newcomer needs to know.
struct Greeting<'a> {
    url: String,
    made: Made,
    took_ms: u64,
    folder: &'a ThrowAway,
}

impl Greeting<'_> {
    fn print(&self, keys: &Keys, link: &str, out: &mut Out) -> anyhow::Result<()> {
        let Made { runs, recovered, dead } = self.made;
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
