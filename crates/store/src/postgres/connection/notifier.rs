//! The connection that tells other replicas of due runs, and hears of theirs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, NoTls};

use crate::postgres::commit::wakeups::{CHANNEL, Wakeups};
use crate::postgres::connection::address::Address;
use crate::postgres::connection::{CONNECT_MAX, within};
use redrive_engine::error::{Error, PortResult as Result};

/// Others are told at most this often.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How long to wait before connecting again.
const RECONNECT: Duration = Duration::from_secs(1);

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
                // Without it other replicas' due runs are found by polling; it goes on after a panic all the same.
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
                    tracing::debug!(%error, "nobody tells of due runs for now");
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
    let hear = async {
        loop {
            match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(_))) => wakeups.heard(),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    };
    let tell = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await?;
        // What fell due while nobody listened.
        wakeups.heard();
        loop {
            wakeups.to_tell.notified().await;
            if wakeups.take() {
                client.batch_execute(&format!("NOTIFY {CHANNEL}")).await?;
            }
            sleep(TELL_EVERY).await;
        }
    };
    tokio::select! {
        ended = hear => ended,
        ended = tell => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left to itself it would connect again and again, as fast as it can.
    #[test]
    fn the_listening_thread_ends_with_its_store() {
        let nowhere = Address::parse("postgres://nobody@127.0.0.1:1/nothing").unwrap();
        let notifier = Notifier::start(nowhere, Wakeups::new()).unwrap();
        let thread = notifier.thread.lock().unwrap().take().unwrap();
        drop(notifier);
        thread.join().unwrap();
    }
}
