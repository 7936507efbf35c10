//! The shape of a service, and the loop that keeps it going whatever one round does.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redrive_store::{Result, Store, Swept};
use tokio::sync::watch;

use super::{Operations, Release, Rescue, Reviews, Stamp, TrimChanges, TrimEvents, TrimLedger, Unclaimed};
use crate::tasks::{Tasks, guarded};

/// How much one round takes on, so that none holds up the writer for long.
pub(super) const ROUND_MAX: usize = 500;
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

#[async_trait]
pub trait Service: Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn every_ms(&self) -> u64;
    /// One bounded round; tests call it, and none sleeps.
    async fn run_once(&self) -> Result<Swept>;
}

/// All services, running.
pub struct Engine {
    tasks: Tasks,
    stop: watch::Sender<bool>,
}

impl Engine {
    /// The stamp comes first: a lease that ran out while nobody was here must be known as such before anybody
    /// looks for silence.
    pub async fn start(store: &Arc<dyn Store>, replica: &str) -> Result<Self> {
        let stamp: Arc<dyn Service> = Arc::new(Stamp::new(store.clone(), replica));
        stamp.run_once().await?;
        let engine = Self { tasks: Tasks::default(), stop: watch::Sender::new(false) };
        engine.keep_going(stamp);
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
        self.tasks.start(service.name(), rounds(service, stop));
    }

    /// Ends each service after the round it is in.
    pub async fn stop(&self, grace: Duration) {
        self.stop.send_replace(true);
        self.tasks.finish(grace).await;
    }
}

async fn rounds(service: Arc<dyn Service>, mut stop: watch::Receiver<bool>) {
    let every = Duration::from_millis(service.every_ms());
    let mut failed_in_row = 0;
    while !*stop.borrow() {
        let wait = match round(&service).await {
            Ok(swept) => {
                failed_in_row = 0;
                if swept.more { Duration::ZERO } else { every }
            }
            Err(cause) => {
                failed_in_row += 1;
                tracing::error!(service = service.name(), failed_in_row, error = cause, "a round failed; trying again");
                back_off(every, failed_in_row)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Neither an error nor a panic ends the loop.
async fn round(service: &Arc<dyn Service>) -> std::result::Result<Swept, String> {
    let service = service.clone();
    match guarded(Box::pin(async move { service.run_once().await })).await {
        Ok(Ok(swept)) => Ok(swept),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("panicked: {panic}")),
    }
}

/// Twice as long with each failure in a row; never shorter than usual.
fn back_off(every: Duration, failed_in_row: u32) -> Duration {
    let longer = every.saturating_mul(1 << failed_in_row.min(10));
    longer.min(BACK_OFF_MAX.max(every))
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
        tasks.start("clumsy", rounds(service.clone(), stop.subscribe()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.send_replace(true);
        assert_eq!(tasks.finish(Duration::from_secs(1)).await, 0);
        assert!(service.0.load(Ordering::SeqCst) > 10);
    }

    #[test]
    fn the_wait_after_failures_doubles_up_to_a_bound() {
        let every = Duration::from_millis(500);
        assert_eq!(back_off(every, 1), Duration::from_secs(1));
        assert_eq!(back_off(every, 40), BACK_OFF_MAX);
        assert_eq!(back_off(Duration::from_secs(60), 3), Duration::from_secs(60));
    }
}
