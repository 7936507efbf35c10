//! Background services: a table of name, interval and one bounded round, and the loop that runs them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::Instrument as _;

use crate::error::{Error, Result};
use crate::model::Swept;
use crate::store::Store;
use crate::tasks::{Tasks, guarded};

/// Rows per round, so that no round blocks the writer for long.
const ROUND_MAX: usize = 500;
const BACK_OFF_MAX_MS: u64 = 30_000;

type Round = Pin<Box<dyn Future<Output = Result<Swept>> + Send>>;

/// A background service.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    pub name: &'static str,
    pub every_ms: u64,
    /// The longest wait after failures.
    back_off_max_ms: u64,
    run: fn(Arc<dyn Store>, String) -> Round,
}

impl Service {
    const fn new(name: &'static str, every_ms: u64, run: fn(Arc<dyn Store>, String) -> Round) -> Self {
        Self { name, every_ms, back_off_max_ms: BACK_OFF_MAX_MS, run }
    }

    /// Binds the service to a store and a replica.
    pub fn on(self, store: Arc<dyn Store>, replica: &str) -> ServiceJob {
        ServiceJob { service: self, store, replica: replica.to_owned() }
    }
}

/// Records a sign of life every second, so that downtime is known. It never backs off: a replica without a stamp counts as
/// absent.
pub const STAMP: Service = Service {
    back_off_max_ms: 1_000,
    ..Service::new("stamp", 1_000, |store, replica| {
        Box::pin(async move { store.stamp(&replica).await.map(|()| Swept::default()) })
    })
};
/// Folds counter deltas into the totals.
pub const FOLD: Service = Service::new("fold", 1_000, |store, _| Box::pin(async move { store.fold_figures().await }));
/// Decides on attempts whose lease, idle time or deadline has passed.
pub const RESCUE: Service =
    Service::new("rescue", 500, |store, _| Box::pin(async move { store.rescue_expired(ROUND_MAX).await }));
/// Releases runs held by closed breakers, and one probe for each half-open breaker.
pub const RELEASE: Service =
    Service::new("release", 500, |store, _| Box::pin(async move { store.release_held(ROUND_MAX).await }));
/// Dead-letters scheduled runs that no worker began in time.
pub const UNCLAIMED: Service =
    Service::new("unclaimed", 30_000, |store, _| Box::pin(async move { store.reject_unclaimed(ROUND_MAX).await }));
/// Dead-letters runs whose review expired.
pub const REVIEWS: Service =
    Service::new("reviews", 5_000, |store, _| Box::pin(async move { store.expire_reviews(ROUND_MAX).await }));
/// Continues bulk operations: their sets, their moves, their outcomes.
pub const OPERATIONS: Service =
    Service::new("operations", 250, |store, replica| Box::pin(async move { store.work_operations(&replica).await }));
pub const TRIM_CHANGES: Service =
    Service::new("changes", 60_000, |store, _| Box::pin(async move { store.trim_changes(ROUND_MAX).await }));
pub const TRIM_EVENTS: Service =
    Service::new("events", 60_000, |store, _| Box::pin(async move { store.trim_events(ROUND_MAX).await }));
pub const TRIM_LEDGER: Service =
    Service::new("ledger", 3_600_000, |store, _| Box::pin(async move { store.trim_ledger(ROUND_MAX).await }));

/// Every service of a server.
pub const ALL: [Service; 10] =
    [STAMP, FOLD, RESCUE, RELEASE, UNCLAIMED, REVIEWS, OPERATIONS, TRIM_CHANGES, TRIM_EVENTS, TRIM_LEDGER];

/// A service bound to a store and a replica.
pub struct ServiceJob {
    service: Service,
    store: Arc<dyn Store>,
    replica: String,
}

impl ServiceJob {
    pub fn name(&self) -> &'static str {
        self.service.name
    }

    pub fn every_ms(&self) -> u64 {
        self.service.every_ms
    }

    /// One bounded round. Tests call it instead of sleeping.
    pub async fn run_once(&self) -> Result<Swept> {
        self.round().await
    }

    fn round(&self) -> Round {
        (self.service.run)(self.store.clone(), self.replica.clone())
    }
}

/// The running services.
pub struct Engine {
    tasks: Tasks,
    stop: watch::Sender<bool>,
    recovered: watch::Receiver<u64>,
}

impl Engine {
    /// Stamps before the services start: rescue must know of the downtime before it judges expired leases.
    pub async fn start(store: &Arc<dyn Store>, replica: &str) -> Result<Self> {
        STAMP.on(store.clone(), replica).run_once().await?;
        let (tasks, stop) = (Tasks::default(), watch::Sender::new(false));
        let engine = Self { tasks, stop, recovered: store.recovered() };
        for service in ALL {
            let job = service.on(store.clone(), replica);
            let rounds = repeat(service, move || job.round(), engine.stop.subscribe(), engine.recovered.clone());
            engine.tasks.start(service.name, rounds);
        }
        Ok(engine)
    }

    /// Ends each service after its current round.
    pub async fn stop(&self, grace: Duration) {
        self.stop.send_replace(true);
        self.tasks.finish(grace).await;
    }
}

async fn repeat(
    service: Service,
    next: impl Fn() -> Round,
    mut stop: watch::Receiver<bool>,
    mut recovered: watch::Receiver<u64>,
) {
    let Service { name, every_ms, back_off_max_ms, .. } = service;
    let (every, back_off_max) = (Duration::from_millis(every_ms), Duration::from_millis(back_off_max_ms));
    let mut failed_in_row = 0;
    while !*stop.borrow() {
        // A recovery during the round ends the wait after it.
        recovered.mark_unchanged();
        let span = tracing::info_span!("job", service = name);
        let (wait, store_unavailable) = match contained(next()).instrument(span).await {
            Ok(swept) => {
                failed_in_row = 0;
                (if swept.more { Duration::ZERO } else { every }, false)
            }
            Err(RoundFailure { cause, store_unavailable }) => {
                failed_in_row += 1;
                tracing::error!(service = name, failed_in_row, error = cause, "service round failed; retrying");
                (back_off(every, failed_in_row, back_off_max), store_unavailable)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // Only if the store was the cause: a round that fails by itself would fail again at once.
            () = store_is_back(&mut recovered), if store_unavailable => failed_in_row = 0,
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn store_is_back(recovered: &mut watch::Receiver<u64>) {
    if recovered.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Why a round failed.
struct RoundFailure {
    cause: String,
    /// The store was unavailable or busy.
    store_unavailable: bool,
}

/// Runs a round; an error or a panic becomes a [`RoundFailure`].
async fn contained(round: Round) -> std::result::Result<Swept, RoundFailure> {
    match guarded(round).await {
        Ok(Ok(swept)) => Ok(swept),
        Ok(Err(error)) => {
            let store_unavailable = matches!(error, Error::Unavailable(_) | Error::Busy);
            Err(RoundFailure { cause: error.to_string(), store_unavailable })
        }
        Err(panic) => Err(RoundFailure { cause: format!("panicked: {panic}"), store_unavailable: false }),
    }
}

/// Doubles with each failure in a row; never shorter than the interval.
fn back_off(every: Duration, failed_in_row: u32, most: Duration) -> Duration {
    let longer = every.saturating_mul(1 << failed_in_row.min(10));
    longer.min(most.max(every))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn every(every_ms: u64) -> Service {
        Service { every_ms, ..STAMP }
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_continues_after_errors_and_panics() {
        let counted = Arc::new(AtomicU32::new(0));
        let (rounds, stop, tasks) = (counted.clone(), watch::Sender::new(false), Tasks::default());
        let (_recover, recovered) = watch::channel(0);
        let next = move || -> Round {
            let n = rounds.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                match n {
                    0 => Err(Error::Busy),
                    1 => panic!("slipped"),
                    n => Ok(Swept { more: n < 10, ..Swept::default() }),
                }
            })
        };
        tasks.start("clumsy", repeat(every(1), next, stop.subscribe(), recovered));
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.send_replace(true);
        assert_eq!(tasks.finish(Duration::from_secs(1)).await, 0);
        assert!(counted.load(Ordering::SeqCst) > 10);
    }

    /// Counts the rounds of a service that always fails, across one recovery of the store.
    async fn rounds_after_recovery(error: fn() -> Error) -> u32 {
        let counted = Arc::new(AtomicU32::new(0));
        let (rounds, stop, tasks) = (counted.clone(), watch::Sender::new(false), Tasks::default());
        let (recover, recovered) = watch::channel(0);
        let next = move || -> Round {
            rounds.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move { Err(error()) })
        };
        tasks.start("dependent", repeat(every(10_000), next, stop.subscribe(), recovered));
        // The first round has failed; the service waits for twenty seconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        recover.send_modify(|n| *n += 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.send_replace(true);
        tasks.finish(Duration::from_secs(1)).await;
        counted.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn a_recovered_store_ends_the_back_off() {
        assert_eq!(rounds_after_recovery(|| Error::Unavailable("away".into())).await, 2);
        assert_eq!(rounds_after_recovery(|| Error::Unexpected("its own fault".into())).await, 1);
    }

    #[test]
    fn the_wait_after_failures_doubles_up_to_a_bound() {
        let (every, most) = (Duration::from_millis(500), Duration::from_secs(30));
        assert_eq!(back_off(every, 1, most), Duration::from_secs(1));
        assert_eq!(back_off(every, 40, most), most);
        assert_eq!(back_off(Duration::from_secs(60), 3, most), Duration::from_secs(60));
    }
}
