//! The server from start to stop: bind, serve, finish open requests, close the store.

mod connections;
mod listener;

pub(crate) use listener::BadHost;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use listener::Listener;
use redrive_core::classify::user_rules::UserRules;
use redrive_engine::{Dice, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::app::App;
use crate::limits::{BadLimit, METRICS_CONNECTIONS_MAX, OTHER_FILES, ServerLimits};
use crate::router::{metrics_router, router};
use redrive_engine::services::Engine;

pub struct Config {
    pub listen: SocketAddr,
    /// Serves `/metrics` without a key.
    pub metrics_listen: Option<SocketAddr>,
    pub limits: ServerLimits,
    /// The name of this process among those that share the store.
    pub replica: String,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("can't listen on {address}: {}", bind_hint(error))]
    Bind { address: SocketAddr, error: io::Error },
    #[error(transparent)]
    Limit(#[from] BadLimit),
    #[error("the store is not ready: {0}")]
    Store(#[from] redrive_engine::Error),
}

fn bind_hint(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the port is taken by another process; choose another one with --listen".into(),
        _ => error.to_string(),
    }
}

/// A running server.
pub struct Server {
    app: App,
    store: Arc<dyn Store>,
    engine: Engine,
    listener: Listener,
    metrics: Option<Listener>,
    stop: watch::Sender<bool>,
    grace: Duration,
}

impl Server {
    /// Everything that can fail fails here, before the first connection is taken.
    pub async fn start(
        config: Config,
        store: Arc<dyn Store>,
        dice: Arc<dyn Dice>,
        rules: Option<Arc<UserRules>>,
    ) -> Result<Self, StartError> {
        config.limits.check()?;
        store.ready().await?;
        let socket = bind(config.listen).await?;
        let metrics_socket = match config.metrics_listen {
            Some(address) => Some((address, bind(address).await?)),
            None => None,
        };
        let engine = Engine::start(&store, &config.replica).await?;
        let mut limits = config.limits;
        limits.connections_max = connections_max(limits.connections_max);
        let grace = Duration::from_millis(limits.grace_ms);
        let app = App::new(store.clone(), dice, rules, limits.clone());
        let stop = watch::Sender::new(false);
        let listening = |address, socket, router, limits: &ServerLimits| {
            Listener::start(socket, router, limits, stop.subscribe())
                .map_err(|error| StartError::Bind { address, error })
        };
        let listener = listening(config.listen, socket, router(app.clone()), &limits)?;
        let few = ServerLimits { connections_max: limits.connections_max.min(METRICS_CONNECTIONS_MAX), ..limits };
        let metrics = match metrics_socket {
            Some((address, socket)) => Some(listening(address, socket, metrics_router(app.clone()), &few)?),
            None => None,
        };
        Ok(Self { app, store, engine, listener, metrics, stop, grace })
    }

    /// The address it listens on; with port 0 the one that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// A link that logs a browser in as the key of this hash: once, and within [`crate::auth::LINK_MS`].
    pub fn login_link(&self, key_hash: [u8; 32]) -> String {
        format!("http://{}{}", self.address(), self.app.login_path(key_hash))
    }

    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|listener| listener.address)
    }

    /// Refuses new leases and connections, finishes open requests within the grace time, then closes the store.
    pub async fn stop(self) {
        self.app.stop();
        self.stop.send_replace(true);
        // Connections have the grace time themselves; this only bounds a task that does not end.
        let bound = self.grace + Duration::from_secs(1);
        let metrics = async {
            if let Some(metrics) = &self.metrics {
                metrics.finish(bound).await;
            }
        };
        tokio::join!(self.listener.finish(bound), metrics, self.engine.stop(self.grace));
        self.store.close().await;
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Bind { address, error })
}

/// Raises the process's limit of open files, and returns how many connections fit below it.
fn connections_max(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "raising the open file limit failed");
    }
    let files = getrlimit(Resource::Nofile).current;
    let max = below(files, wanted);
    if max < wanted {
        tracing::warn!(connections = max, open_files = files, "open file limit reduces the number of connections");
    }
    max
}

/// Leaves files to the store; with very few files, half of them are connections.
fn below(files: Option<u64>, wanted: usize) -> usize {
    let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else { return wanted };
    let others = OTHER_FILES.min(files / 2);
    wanted.min(files - others).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_store() {
        for (files, wanted, max) in [
            (Some(1_024), 10_000, 768),
            (Some(1_000_000), 10_000, 10_000),
            (None, 10_000, 10_000),
            (Some(100), 10_000, 50),
            (Some(0), 10_000, 1),
            (Some(1_024), 5, 5),
        ] {
            assert_eq!(below(files, wanted), max, "{files:?}");
        }
    }
}
