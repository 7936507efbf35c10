//! The server from start to stop: bind, serve, finish open requests, close the store.

mod connections;
mod edge;
mod listener;
mod tls;

pub use edge::{ClientAddress, Edge};
pub(crate) use edge::{FORWARDED_HOST, SCHEME};
pub(crate) use listener::BadHost;
pub use tls::{TlsError, TlsPair};

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
use crate::auth::{BadFrameAncestor, Oidc, PortalSettings};
use crate::backups::BackupMonitor;
use crate::limits::{BadLimit, METRICS_CONNECTIONS_MAX, OTHER_FILES, ServerLimits};
use crate::router::{metrics_router, router};
use redrive_engine::services::Engine;
use redrive_engine::tasks::Tasks;

const KEY_USES_EVERY: Duration = Duration::from_mins(1);

pub struct Config {
    pub listen: SocketAddr,
    /// Serves `/metrics` without a key.
    pub metrics_listen: Option<SocketAddr>,
    pub limits: ServerLimits,
    pub portal: PortalSettings,
    /// The name of this process among those that share the store.
    pub replica: String,
    pub edge: Edge,
    /// None: people log in with keys only.
    pub sso: Option<Oidc>,
}

impl Config {
    /// Refuses what no server may start with. The metrics listener holds no secrets and may be plain.
    pub fn check(&self) -> Result<(), StartError> {
        self.limits.check()?;
        self.portal.check()?;
        if self.edge.exposes(self.listen) { Err(StartError::Exposed { address: self.listen }) } else { Ok(()) }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("can't listen on {address}: {}", bind_hint(error))]
    Bind { address: SocketAddr, error: io::Error },
    #[error(
        "refusing to listen on {address} in plain HTTP, where others could read keys and payloads: \
         set tls_cert and tls_key, or say --behind-proxy if a TLS proxy is in front"
    )]
    Exposed { address: SocketAddr },
    #[error(transparent)]
    Limit(#[from] BadLimit),
    #[error(transparent)]
    Portal(#[from] BadFrameAncestor),
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
    tasks: Tasks,
    stop: watch::Sender<bool>,
    grace: Duration,
    scheme: &'static str,
}

impl Server {
    /// Everything that can fail fails here, before the first connection is taken.
    pub async fn start(
        config: Config,
        store: Arc<dyn Store>,
        dice: Arc<dyn Dice>,
        rules: Option<Arc<UserRules>>,
    ) -> Result<Self, StartError> {
        config.check()?;
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
        let app = App::with_portal(store.clone(), dice, rules, limits.clone(), config.sso, config.portal);
        let stop = watch::Sender::new(false);
        let listening = |address, socket, router, limits: &ServerLimits, edge| {
            Listener::start(socket, router, limits, edge, stop.subscribe())
                .map_err(|error| StartError::Bind { address, error })
        };
        let scheme = if config.edge.tls.is_some() { "https" } else { "http" };
        let edge = Arc::new(config.edge);
        let listener = listening(config.listen, socket, router(app.clone()), &limits, edge)?;
        let few = ServerLimits { connections_max: limits.connections_max.min(METRICS_CONNECTIONS_MAX), ..limits };
        let metrics = match metrics_socket {
            Some((address, socket)) => {
                Some(listening(address, socket, metrics_router(app.clone()), &few, Arc::default())?)
            }
            None => None,
        };
        let tasks = Tasks::default();
        tasks.start("key uses", write_key_uses(app.clone(), stop.subscribe()));
        Ok(Self { app, store, engine, listener, metrics, tasks, stop, grace, scheme })
    }

    /// The address it listens on; with port 0 the one that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// A link that logs a browser in as the key of this hash: once, and within [`crate::auth::LINK_MS`].
    pub fn login_link(&self, key_hash: [u8; 32]) -> String {
        format!("{}{}", self.url(), self.app.login_path(key_hash))
    }

    /// The address with its scheme.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address())
    }

    /// Where scheduled backups report how they are doing.
    pub fn backups(&self) -> Arc<BackupMonitor> {
        self.app.backups.clone()
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
        tokio::join!(self.listener.finish(bound), metrics, self.engine.stop(self.grace), self.tasks.finish(bound));
        self.store.close().await;
    }
}

/// Once a minute, and at the end.
async fn write_key_uses(app: App, mut stop: watch::Receiver<bool>) {
    loop {
        let stopping = tokio::time::timeout(KEY_USES_EVERY, stop.wait_for(|stop| *stop)).await.is_ok();
        if let Err(error) = app.write_key_uses().await {
            tracing::warn!(%error, "writing the last use of keys failed");
        }
        if stopping {
            return;
        }
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
