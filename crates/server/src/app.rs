//! The state that all handlers share.

use std::sync::Arc;

use redrive_core::classify::user_rules::UserRules;
use redrive_engine::{Dice, FairSemaphore, Store};
use tokio::sync::watch;

use crate::api::probes::Readiness;
use crate::auth::{Keyring, Sessions};
use crate::budget::AnswerBudget;
use crate::budget::{Holder, MemoryBudget};
use crate::capture::{ClassificationCache, Classifiers};
use crate::limits::{ANONYMOUS_BYTES, ServerLimits, WAITING_BYTES, WAITING_HOLDER_BYTES};
use crate::metrics::Metrics;
use crate::tasks::large_work;
use crate::telemetry::RequestIds;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppState>);

pub struct AppState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) rules: Option<Arc<UserRules>>,
    classifications: ClassificationCache,
    pub(crate) limits: ServerLimits,
    pub(crate) keyring: Keyring,
    pub(crate) sessions: Sessions,
    /// Request bodies in memory.
    pub(crate) in_flight_bytes: Arc<MemoryBudget>,
    /// Bodies of callers without a key.
    pub(crate) anonymous_bytes: Arc<MemoryBudget>,
    /// Memory of waiting lease calls.
    pub(crate) waiting_bytes: Arc<MemoryBudget>,
    pub(crate) large_work: FairSemaphore<Holder>,
    /// Large answers in memory.
    pub(crate) answers: AnswerBudget,
    pub(crate) metrics: Metrics,
    pub(crate) request_ids: RequestIds,
    pub(crate) readiness: Readiness,
    stopping: watch::Sender<bool>,
}

impl std::ops::Deref for App {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.0
    }
}

impl App {
    pub fn new(
        store: Arc<dyn Store>,
        dice: Arc<dyn Dice>,
        rules: Option<Arc<UserRules>>,
        limits: ServerLimits,
    ) -> Self {
        let in_flight_bytes = MemoryBudget::new(limits.in_flight_max_bytes, limits.in_flight_holder_max_bytes());
        let answers = AnswerBudget::new(&limits);
        let metrics = Metrics::new(&store.metrics());
        let request_ids = RequestIds::new(dice.as_ref());
        Self(Arc::new(AppState {
            store,
            dice,
            rules,
            classifications: ClassificationCache::default(),
            limits,
            keyring: Keyring::default(),
            sessions: Sessions::default(),
            in_flight_bytes,
            anonymous_bytes: MemoryBudget::new(ANONYMOUS_BYTES, ANONYMOUS_BYTES),
            waiting_bytes: MemoryBudget::new(WAITING_BYTES, WAITING_HOLDER_BYTES),
            large_work: large_work(),
            answers,
            metrics,
            request_ids,
            readiness: Readiness::default(),
            stopping: watch::Sender::new(false),
        }))
    }
}

impl AppState {
    pub(crate) fn classifiers(&self) -> Classifiers<'_> {
        Classifiers { rules: self.rules.as_deref(), cache: Some(&self.classifications) }
    }

    /// Stops handing out work and answers waiting calls.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// A path that logs a browser in as the key of this hash, once and for a short time.
    pub fn login_path(&self, key_hash: [u8; 32]) -> String {
        format!("/login?token={}", self.sessions.new_link(key_hash, self.store.now(), self.dice.as_ref()))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}
