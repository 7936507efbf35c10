//! `redrive serve`: opens the store, applies the configuration, and serves until a signal.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use redrive_core::ids::QueueName;
use redrive_core::policy::Policies;
use redrive_core::text::Label;
use redrive_core::wire::{QueueSettings, Role};
use redrive_engine::{Dice, Store, SystemClock, SystemDice};
use redrive_server::{Config, Server, ServerLimits, auth};
use redrive_store::copy::StoreAddress;
use redrive_store::postgres::PgStore;
use redrive_store::sqlite::SqliteStore;
use redrive_store::{postgres, sqlite};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{ConfigFile, ConfigPath, FlagSettings, Settings};
use crate::log;
use crate::out::Printer;

/// Tasks that still run after the store is closed are dropped.
const LAST_TASKS: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigPath,
    #[command(flatten)]
    settings: FlagSettings,
}

pub(crate) fn run(args: Args, out: &mut Printer) -> anyhow::Result<()> {
    let file = args.config.read()?;
    let settings = Settings::try_from(args.settings.over(&file.server))?;
    log::begin(settings.log_format, &settings.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let result = runtime.block_on(serve(&settings, file, out));
    runtime.shutdown_timeout(LAST_TASKS);
    result
}

async fn serve(settings: &Settings, file: ConfigFile, out: &mut Printer) -> anyhow::Result<()> {
    // Before anything else, so that no signal falls between.
    let mut signals = Signals::new()?;
    let ConfigFile { policies, queues, rules, .. } = file;
    let store = open(&settings.store, policies).await?;
    set_queues(store.as_ref(), queues).await?;
    let server = Server::start(server_config(settings)?, store.clone(), Arc::new(SystemDice), rules.compiled()).await?;
    let begun = greet(&server, store.as_ref(), &settings.store, out).await;
    if begun.is_ok() {
        signals.next().await;
        tracing::info!("stopping; send the signal again to stop at once");
    }
    tokio::select! {
        () = server.stop() => begun,
        () = signals.next() => {
            tracing::warn!("stopped at once");
            process::exit(1)
        }
    }
}

async fn open(place: &StoreAddress, policies: Policies) -> anyhow::Result<Arc<dyn Store>> {
    let dice = Arc::new(SystemDice);
    Ok(match place {
        StoreAddress::Folder(folder) => {
            let (folder, clock) = (folder.clone(), Arc::new(SystemClock));
            Arc::new(SqliteStore::open(sqlite::Options { folder, clock, dice, policies })?)
        }
        StoreAddress::Database(url) => {
            let options = postgres::Options {
                url: url.clone(),
                clock: None,
                dice,
                policies,
                writer_connections: postgres::WRITER_CONNECTIONS,
            };
            Arc::new(PgStore::open(options).await.context("the database")?)
        }
    })
}

/// Queue settings in the configuration replace those set before.
async fn set_queues(store: &dyn Store, queues: BTreeMap<QueueName, QueueSettings>) -> anyhow::Result<()> {
    for (name, settings) in queues {
        store.put_queue(name.clone(), settings).await.with_context(|| format!("setting queue {name}"))?;
    }
    Ok(())
}

fn server_config(settings: &Settings) -> anyhow::Result<Config> {
    let limits = ServerLimits {
        body_max_bytes: usize::try_from(settings.body_max_bytes)?,
        in_flight_max_bytes: usize::try_from(settings.in_flight_max_bytes)?,
        body_timeout_ms: settings.body_timeout_ms,
        grace_ms: settings.grace_ms,
        ..ServerLimits::default()
    };
    Ok(Config { listen: settings.listen, metrics_listen: settings.metrics_listen, limits, replica: replica_name() })
}

/// A unique name for this process, even if its pid is reused.
pub(crate) fn replica_name() -> String {
    let mut lot = [0; 4];
    SystemDice.fill(&mut lot);
    format!("{}-{:08x}", process::id(), u32::from_le_bytes(lot))
}

/// Prints the address, and on the first start the first admin key.
async fn greet(server: &Server, store: &dyn Store, place: &StoreAddress, out: &mut Printer) -> anyhow::Result<()> {
    if store.keys().await?.is_empty()
        && let Some(secret) = first_key(store).await?
    {
        let text = format!(
            "The first admin key, shown only now:\n\n    {secret}\n\n`redrive keys create --role … {}` makes others.\n",
            flag(place),
        );
        // Without a printed key nobody could log in: better not to start.
        out.line(text).and_then(|()| out.flush()).map_err(|e| anyhow!("the first key could not be printed: {e}"))?;
    }
    let address = server.address();
    tracing::info!(%address, store = ?place, "listening");
    if let Some(address) = server.metrics_address() {
        tracing::info!(%address, "serving /metrics");
    }
    for address in [Some(address), server.metrics_address()].into_iter().flatten().filter(|at| is_exposed(*at)) {
        tracing::warn!(%address, "plain HTTP beyond this machine: keys and payloads travel in clear text without a TLS proxy");
    }
    // The output may be closed; the log has the address.
    let _ = out.line(format_args!("listening on http://{address}")).and_then(|()| out.flush());
    Ok(())
}

/// Other machines can reach it.
pub(crate) fn is_exposed(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// None if another server made it at the same time.
async fn first_key(store: &dyn Store) -> anyhow::Result<Option<String>> {
    let note = Label::from("made on the first start");
    let (secret, record) = auth::new_key(&SystemDice, Role::Admin, None, Some(note), None, store.now());
    Ok(store.put_first_key(record).await?.then_some(secret))
}

/// The flag that selects this store; a database URL may hold a password and is not repeated.
fn flag(place: &StoreAddress) -> String {
    match place {
        StoreAddress::Folder(folder) => format!("--data {}", crate::escape::shell(&folder.display().to_string())),
        StoreAddress::Database(_) => "--database-url …".into(),
    }
}

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
