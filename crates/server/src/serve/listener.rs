//! Connections: accepted up to a bound, with a time for their heads, closed in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::host::WithHost;
use crate::limits::Limits;
use crate::tasks::Tasks;

/// After an accept that failed, most likely for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Listener {
    pub(super) address: SocketAddr,
    tasks: Arc<Tasks>,
}

impl Listener {
    pub(super) fn start(
        socket: TcpListener,
        router: Router,
        limits: &Limits,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let tasks = Arc::new(Tasks::default());
        let accepting = Accepting {
            socket,
            router,
            slots: Arc::new(Semaphore::new(limits.connections_max)),
            head_timeout: Duration::from_millis(limits.head_timeout_ms),
            grace: Duration::from_millis(limits.grace_ms),
            connections: Arc::default(),
        };
        tasks.start("accept", accepting.run(stop));
        Ok(Self { address, tasks })
    }

    /// Returns how many connections had to be cut off.
    pub(super) async fn finish(&self, grace: Duration) -> usize {
        self.tasks.finish(grace).await
    }
}

struct Accepting {
    socket: TcpListener,
    router: Router,
    slots: Arc<Semaphore>,
    head_timeout: Duration,
    grace: Duration,
    connections: Arc<Tasks>,
}

impl Accepting {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                next = self.next() => {
                    if let Some((stream, slot)) = next {
                        self.serve(stream, slot, &graceful);
                    }
                }
            }
        }
        // New connections are refused from here; open ones are closed as soon as their request is answered.
        drop(self.socket);
        let _ = tokio::time::timeout(self.grace, graceful.shutdown()).await;
        let left = self.connections.finish(Duration::ZERO).await;
        if left > 0 {
            tracing::warn!(connections = left, "cut off after the grace time");
        }
    }

    async fn next(&self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let slot = self.slots.clone().acquire_owned().await.ok()?;
        match self.socket.accept().await {
            Ok((stream, _)) => Some((stream, slot)),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    fn serve(&self, stream: TcpStream, slot: OwnedSemaphorePermit, graceful: &GracefulShutdown) {
        // Answers are small and waited for; a socket that refuses the option still works.
        let _ = stream.set_nodelay(true);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(self.head_timeout);
        let connection = http.serve_connection(TokioIo::new(stream), WithHost::new(self.router.clone()));
        let watched = graceful.watch(connection);
        self.connections.start("connection", async move {
            // What a client does to its own connection is its own affair.
            if let Err(error) = watched.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(slot);
        });
    }
}
