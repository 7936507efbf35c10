//! What every handler has at hand.

use std::sync::Arc;

use redrive_core::classify::user_rules::UserRules;
use redrive_store::{Dice, Store, Turns};
use tokio::sync::watch;

use crate::api::probes::Readiness;
use crate::auth::{Keyring, Sessions};
use crate::budget::Answers;
use crate::budget::{Budget, Holder};
use crate::capture::{ClassificationCache, Classifiers};
use crate::limits::{ANONYMOUS_BYTES, Limits, WAITING_BYTES, WAITING_HOLDER_BYTES};
use crate::metrics::Metrics;
use crate::tasks::large_work;
use crate::telemetry::RequestIds;

/// Shared by all requests; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

pub struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) rules: Option<Arc<UserRules>>,
    classifications: ClassificationCache,
    pub(crate) limits: Limits,
    pub(crate) keyring: Keyring,
    pub(crate) sessions: Sessions,
    /// Bodies in memory.
    pub(crate) in_flight_bytes: Arc<Budget>,
    /// Bodies of callers without a key.
    pub(crate) anonymous_bytes: Arc<Budget>,
    /// What lease calls that wait for work keep.
    pub(crate) waiting_bytes: Arc<Budget>,
    pub(crate) large_work: Turns<Holder>,
    /// Large answers in memory.
    pub(crate) answers: Answers,
    pub(crate) metrics: Metrics,
    pub(crate) request_ids: RequestIds,
    pub(crate) readiness: Readiness,
    stopping: watch::Sender<bool>,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub fn new(store: Arc<dyn Store>, dice: Arc<dyn Dice>, rules: Option<Arc<UserRules>>, limits: Limits) -> Self {
        let in_flight_bytes = Budget::new(limits.in_flight_max_bytes, limits.in_flight_holder_max_bytes());
        let answers = Answers::new(&limits);
        let request_ids = RequestIds::new(dice.as_ref());
        Self(Arc::new(Shared {
            store,
            dice,
            rules,
            classifications: ClassificationCache::default(),
            limits,
            keyring: Keyring::default(),
            sessions: Sessions::default(),
            in_flight_bytes,
            anonymous_bytes: Budget::new(ANONYMOUS_BYTES, ANONYMOUS_BYTES),
            waiting_bytes: Budget::new(WAITING_BYTES, WAITING_HOLDER_BYTES),
            large_work: large_work(),
            answers,
            metrics: Metrics::default(),
            request_ids,
            readiness: Readiness::default(),
            stopping: watch::Sender::new(false),
        }))
    }
}

impl Shared {
    pub(crate) fn classifiers(&self) -> Classifiers<'_> {
        Classifiers { rules: self.rules.as_deref(), cache: Some(&self.classifications) }
    }

    /// From now on no new work is handed out, and waiting calls are answered.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Where a browser logs in as the key of this hash: once, and soon.
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
