//! The LISTEN connection: tells other replicas of due runs, and wakes lease calls when they do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::postgres::connection::address::Address;
use crate::postgres::connection::{CONNECT_MAX, within};
use redrive_engine::error::{Error, PortResult as Result};

/// Other replicas are notified at most this often.
const NOTIFY_EVERY: Duration = Duration::from_millis(100);
/// How long to wait before connecting again.
const RECONNECT: Duration = Duration::from_secs(1);

/// The channel of notifications.
const CHANNEL: &str = "redrive_due";

/// Wakes waiting lease calls when a run may have fallen due. A hint: they also poll.
#[derive(Clone)]
pub(crate) struct Wakeups {
    wake: Arc<watch::Sender<u64>>,
    /// A notification is to be sent.
    to_send: Arc<Notify>,
    any: Arc<AtomicBool>,
}

impl Wakeups {
    pub(crate) fn new() -> Self {
        Self { wake: Arc::new(watch::channel(0).0), to_send: Arc::default(), any: Arc::default() }
    }

    pub(crate) fn waiting(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    /// A commit of this replica made a run due.
    pub(crate) fn due(&self) {
        self.heard();
        if !self.any.swap(true, Ordering::SeqCst) {
            self.to_send.notify_one();
        }
    }

    /// Another replica's commit did.
    fn heard(&self) {
        self.wake.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Whether a run has fallen due since the last notification.
    fn take(&self) -> bool {
        self.any.swap(false, Ordering::SeqCst)
    }
}

pub(crate) struct Notifier {
    stop: watch::Sender<bool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Notifier {
    pub(crate) fn start(address: Address, wakeups: Wakeups) -> Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::Builder::new()
            .name("wakeups".into())
            .spawn(move || {
                let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return };
                // Without this thread other replicas' due runs are found by polling; it restarts after a panic.
                let work = || runtime.block_on(work(&address, &wakeups, stopped.clone()));
                while catch_unwind(AssertUnwindSafe(work)).is_err() {
                    tracing::error!("the LISTEN connection's thread panicked; connecting again");
                    std::thread::sleep(RECONNECT);
                }
            })
            .map_err(|e| Error::Unexpected(format!("no thread for wake-ups: {e}")))?;
        Ok(Self { stop, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) async fn close(&self) {
        self.stop.send_replace(true);
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        if let Some(thread) = thread {
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

async fn work(address: &Address, wakeups: &Wakeups, mut stopped: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            ended = listen(address, wakeups) => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "LISTEN connection lost; falling back to polling");
                }
            }
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        tokio::select! {
            () = sleep(RECONNECT) => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
    }
}

async fn listen(address: &Address, wakeups: &Wakeups) -> Result<()> {
    match &address.tls {
        Some(tls) => {
            let connected = async { Ok(address.config.connect(tls.clone()).await?) };
            let (client, connection) = within(CONNECT_MAX, connected).await?;
            Ok(follow(client, connection, wakeups).await?)
        }
        None => {
            let connected = async { Ok(address.config.connect(NoTls).await?) };
            let (client, connection) = within(CONNECT_MAX, connected).await?;
            Ok(follow(client, connection, wakeups).await?)
        }
    }
}

async fn follow<S, T>(
    client: tokio_postgres::Client,
    mut connection: tokio_postgres::Connection<S, T>,
    wakeups: &Wakeups,
) -> std::result::Result<(), tokio_postgres::Error>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let listen = async {
        loop {
            match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(_))) => wakeups.heard(),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let notify = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        // Runs may have fallen due while nobody listened.
        wakeups.heard();
        loop {
            wakeups.to_send.notified().await;
            if wakeups.take() {
                client.batch_execute(&format!("NOTIFY {CHANNEL}")).await?;
            }
            sleep(NOTIFY_EVERY).await;
        }
    };
    tokio::select! {
        ended = listen => ended,
        ended = notify => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise it would reconnect for ever.
    #[test]
    fn the_listening_thread_ends_with_its_store() {
        let nowhere = Address::parse("postgres://nobody@127.0.0.1:1/nothing").unwrap();
        let notifier = Notifier::start(nowhere, Wakeups::new()).unwrap();
        let thread = notifier.thread.lock().unwrap().take().unwrap();
        drop(notifier);
        thread.join().unwrap();
    }
}
