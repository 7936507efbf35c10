//! The shape of a service, and the loop that keeps it going whatever one round does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_store::{Error, Result, Store, Swept};
use tokio::sync::watch;

use super::{FoldFigures, Operations, Release, Rescue, Reviews, Stamp, TrimChanges, TrimEvents, TrimLedger, Unclaimed};
use crate::tasks::{Tasks, guarded};

/// How much one round takes on, so that none holds up the writer for long.
pub(super) const ROUND_MAX: usize = 500;
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

#[async_trait]
pub trait Service: Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn every_ms(&self) -> u64;
    /// The longest wait after failures.
    fn back_off_max(&self) -> Duration {
        BACK_OFF_MAX
    }
    /// One bounded round; tests call it, and none sleeps.
    async fn run_once(&self) -> Result<Swept>;
}

/// All services, running.
pub struct Engine {
    tasks: Tasks,
    stop: watch::Sender<bool>,
    recovered: watch::Receiver<u64>,
}

impl Engine {
    /// The stamp comes first: a lease that ran out while nobody was here must be known as such before anybody
    /// looks for silence.
    pub async fn start(store: &Arc<dyn Store>, replica: &str) -> Result<Self> {
        let stamp: Arc<dyn Service> = Arc::new(Stamp::new(store.clone(), replica));
        stamp.run_once().await?;
        let (tasks, stop) = (Tasks::default(), watch::Sender::new(false));
        let engine = Self { tasks, stop, recovered: store.recovered() };
        engine.keep_going(stamp);
        engine.keep_going(Arc::new(FoldFigures::new(store.clone())));
        engine.keep_going(Arc::new(Rescue::new(store.clone())));
        engine.keep_going(Arc::new(Release::new(store.clone())));
        engine.keep_going(Arc::new(Unclaimed::new(store.clone())));
        engine.keep_going(Arc::new(Reviews::new(store.clone())));
        engine.keep_going(Arc::new(Operations::new(store.clone(), replica)));
        engine.keep_going(Arc::new(TrimChanges::new(store.clone())));
        engine.keep_going(Arc::new(TrimEvents::new(store.clone())));
        engine.keep_going(Arc::new(TrimLedger::new(store.clone())));
        Ok(engine)
    }

    fn keep_going(&self, service: Arc<dyn Service>) {
        let stop = self.stop.subscribe();
        self.tasks.start(service.name(), rounds(service, stop, self.recovered.clone()));
    }

    /// Ends each service after the round it is in.
    pub async fn stop(&self, grace: Duration) {
        self.stop.send_replace(true);
        self.tasks.finish(grace).await;
    }
}

async fn rounds(service: Arc<dyn Service>, mut stop: watch::Receiver<bool>, mut recovered: watch::Receiver<u64>) {
    let every = Duration::from_millis(service.every_ms());
    let mut failed_in_row = 0;
    while !*stop.borrow() {
        // What recovers during the round ends the wait after it.
        recovered.mark_unchanged();
        let (wait, store_away) = match round(&service).await {
            Ok(swept) => {
                failed_in_row = 0;
                (if swept.more { Duration::ZERO } else { every }, false)
            }
            Err(failed) => {
                failed_in_row += 1;
                let Failed { cause, store_away } = failed;
                tracing::error!(service = service.name(), failed_in_row, error = cause, "a round failed; trying again");
                (back_off(every, failed_in_row, service.back_off_max()), store_away)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // Only for those whom the store failed: what fails by itself would fail again at once.
            () = store_is_back(&mut recovered), if store_away => failed_in_row = 0,
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn store_is_back(recovered: &mut watch::Receiver<u64>) {
    if recovered.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

struct Failed {
    cause: String,
    /// The store could not be read or written; the service itself did nothing wrong.
    store_away: bool,
}

/// Neither an error nor a panic ends the loop.
async fn round(service: &Arc<dyn Service>) -> std::result::Result<Swept, Failed> {
    let service = service.clone();
    match guarded(Box::pin(async move { service.run_once().await })).await {
        Ok(Ok(swept)) => Ok(swept),
        Ok(Err(error)) => {
            let store_away = matches!(error, Error::Unavailable(_) | Error::Busy);
            Err(Failed { cause: error.to_string(), store_away })
        }
        Err(panic) => Err(Failed { cause: format!("panicked: {panic}"), store_away: false }),
    }
}

/// Twice as long with each failure in a row; never shorter than usual.
fn back_off(every: Duration, failed_in_row: u32, most: Duration) -> Duration {
    let longer = every.saturating_mul(1 << failed_in_row.min(10));
    longer.min(most.max(every))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Clumsy(AtomicU32);

    #[async_trait]
    impl Service for Clumsy {
        fn name(&self) -> &'static str {
            "clumsy"
        }

        fn every_ms(&self) -> u64 {
            1
        }

        async fn run_once(&self) -> Result<Swept> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => Err(redrive_store::Error::Busy),
                1 => panic!("slipped"),
                n => Ok(Swept { more: n < 10, ..Swept::default() }),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_goes_on_after_an_error_and_a_panic_and_at_once_while_there_is_more() {
        let service = Arc::new(Clumsy::default());
        let stop = watch::Sender::new(false);
        let tasks = Tasks::default();
        let (_recover, recovered) = watch::channel(0);
        tasks.start("clumsy", rounds(service.clone(), stop.subscribe(), recovered));
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.send_replace(true);
        assert_eq!(tasks.finish(Duration::from_secs(1)).await, 0);
        assert!(service.0.load(Ordering::SeqCst) > 10);
    }

    /// Fails until it is told that the store is back; counts its rounds.
    struct Dependent {
        rounds: AtomicU32,
        error: fn() -> Error,
    }

    #[async_trait]
    impl Service for Dependent {
        fn name(&self) -> &'static str {
            "dependent"
        }

        fn every_ms(&self) -> u64 {
            10_000
        }

        async fn run_once(&self) -> Result<Swept> {
            self.rounds.fetch_add(1, Ordering::SeqCst);
            Err((self.error)())
        }
    }

    async fn rounds_after_recovery(error: fn() -> Error) -> u32 {
        let service = Arc::new(Dependent { rounds: AtomicU32::new(0), error });
        let (stop, tasks) = (watch::Sender::new(false), Tasks::default());
        let (recover, recovered) = watch::channel(0);
        tasks.start("dependent", rounds(service.clone(), stop.subscribe(), recovered));
        // Its first round has failed, and it waits for twenty seconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        recover.send_modify(|n| *n += 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.send_replace(true);
        tasks.finish(Duration::from_secs(1)).await;
        service.rounds.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_back_ends_the_back_off() {
        assert_eq!(rounds_after_recovery(|| Error::Unavailable("away".into())).await, 2);
        assert_eq!(rounds_after_recovery(|| Error::Unexpected("its own fault".into())).await, 1);
    }

    #[test]
    fn the_wait_after_failures_doubles_up_to_a_bound() {
        let every = Duration::from_millis(500);
        assert_eq!(back_off(every, 1, BACK_OFF_MAX), Duration::from_secs(1));
        assert_eq!(back_off(every, 40, BACK_OFF_MAX), BACK_OFF_MAX);
        assert_eq!(back_off(Duration::from_secs(60), 3, BACK_OFF_MAX), Duration::from_secs(60));
    }
}
