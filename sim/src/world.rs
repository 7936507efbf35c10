//! The world of a play: the store, its replicas, the keys, the trace, and what clients were told.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use axum::Router;
use redrive_core::policy::{BreakerLayer, Limits as TenantLimits, Policies, PolicyLayer, RetryBy, TenantPolicy};
use redrive_core::time::Timestamp;
use redrive_core::wire::{QueueSettings, Role};
use redrive_engine::services::{self, ServiceJob};
use redrive_engine::{SeededDice, Store};
use redrive_server::auth::new_key;
use redrive_server::router::router;
use redrive_server::{App, ServerLimits};

use crate::Plan;
use crate::backend::{Backend, Chance};
use crate::facts::Facts;
use crate::faults::{Faulty, Rates, Shelf};
use crate::scheduler::{GatedClock, Parking, Time, alone};

pub const TENANTS: [&str; 3] = ["acme", "globex", "initech"];
pub const CALLS: &str = "calls";
pub const MAX_ATTEMPTS: u32 = 4;
/// Shorter than the default, because stamps are needed for the whole wait. Reviews expire after it too.
pub const UNCLAIMED_AFTER_MS: u64 = 1_800_000;
const NOON: i64 = 1_800_000_000_000;
/// What the product takes for an absence.
pub const MAYBE_ABSENT_MS: u64 = 3_000;
const HOUR_MS: u64 = 3_600_000;

/// Whose key a call carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Of the tenant with this place in [`TENANTS`].
    Worker(usize),
    Tenant(usize),
    /// These span all tenants.
    AnyWorker,
    Operator,
}

pub struct Keys {
    workers: Vec<String>,
    tenants: Vec<String>,
    any_worker: String,
    operator: String,
}

impl Keys {
    pub fn of(&self, who: Who) -> &str {
        match who {
            Who::Worker(n) => &self.workers[n],
            Who::Tenant(n) => &self.tenants[n],
            Who::AnyWorker => &self.any_worker,
            Who::Operator => &self.operator,
        }
    }
}

/// The API and the engine of one process.
pub struct Replica {
    pub name: String,
    pub router: Router,
    pub services: Vec<ServiceJob>,
}

/// Something somebody does later, apart from everybody else.
pub type Later = Pin<Box<dyn Future<Output = ()>>>;

pub struct World {
    pub plan: Plan,
    pub time: Time,
    pub chance: Arc<Chance>,
    dice: Arc<SeededDice>,
    backend: Backend,
    pub shelf: Arc<Shelf>,
    pub rates: Arc<Mutex<Rates>>,
    pub replicas: RefCell<Vec<Rc<Replica>>>,
    pub keys: Keys,
    /// What was on its way when this rose is cut off.
    pub generation: Cell<u64>,
    pub calm: Cell<bool>,
    pub operations: Cell<u64>,
    pub facts: RefCell<Facts>,
    pub trace: RefCell<VecDeque<String>>,
    pub hash: Cell<u64>,
    pub later: RefCell<Vec<Later>>,
    pub violation: RefCell<Option<String>>,
    last_stamp: Cell<Option<Timestamp>>,
    last_now: Cell<Timestamp>,
    /// When somebody came back after a time in which maybe nobody had been there.
    came_back: RefCell<Vec<Timestamp>>,
}

impl World {
    pub fn new(plan: Plan) -> Rc<Self> {
        let clock = Arc::new(GatedClock::at(Timestamp::from_millis(NOON)));
        let time = Time { clock, parking: Arc::new(Parking::default()) };
        let chance = Arc::new(Chance::new(plan.seed));
        let dice = Arc::new(SeededDice::new(plan.seed ^ 0x5eed));
        let backend = Backend::new(plan.store);
        let store = backend.open(time.clock.clone(), dice.clone(), policies());
        let keys = alone(make_keys(&*store, &dice));
        let world = Rc::new(Self {
            plan,
            time,
            chance,
            dice,
            backend,
            shelf: Arc::new(Shelf::default()),
            rates: Arc::new(Mutex::new(plan.rates())),
            replicas: RefCell::default(),
            keys,
            generation: Cell::new(0),
            calm: Cell::new(false),
            operations: Cell::new(0),
            facts: RefCell::default(),
            trace: RefCell::default(),
            hash: Cell::new(0xcbf2_9ce4_8422_2325),
            later: RefCell::default(),
            violation: RefCell::default(),
            last_stamp: Cell::default(),
            last_now: Cell::new(Timestamp::from_millis(NOON)),
            came_back: RefCell::default(),
        });
        world.shelf.put(Some(store));
        for n in 0..plan.replicas {
            let replica = world.replica(n);
            world.replicas.borrow_mut().push(replica);
        }
        world
    }

    /// A process as it starts: it remembers nothing, and its clock is off by up to an hour.
    pub fn replica(&self, n: usize) -> Rc<Replica> {
        let skew = i64::try_from(self.chance.below(2 * HOUR_MS)).unwrap_or(0) - HOUR_MS.cast_signed();
        let wakeups = tokio::sync::watch::channel(0).1;
        let store: Arc<dyn Store> = Arc::new(Faulty {
            shelf: self.shelf.clone(),
            time: self.time.clone(),
            chance: self.chance.clone(),
            rates: self.rates.clone(),
            skew_ms: if self.plan.skew { skew } else { 0 },
            wakeups,
        });
        let name = format!("replica-{n}");
        let services: Vec<ServiceJob> = [
            services::STAMP,
            services::RESCUE,
            services::RELEASE,
            services::OPERATIONS,
            services::UNCLAIMED,
            services::REVIEWS,
            services::TRIM_CHANGES,
            services::TRIM_LEDGER,
        ]
        .map(|service| service.on(store.clone(), &name))
        .into();
        let router = router(App::new(store, self.dice.clone(), None, ServerLimits::default()));
        Rc::new(Replica { name, router, services })
    }

    /// The store as it is on disk, after everything that held it has gone.
    pub fn reopen(&self) {
        let store = self.backend.open(self.time.clock.clone(), self.dice.clone(), policies());
        self.shelf.put(Some(store));
    }

    /// The store without faults, for checks.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.shelf.get().ok()
    }

    /// As the store sees it, where there is one.
    pub fn now(&self) -> Timestamp {
        match self.store() {
            Some(store) => {
                let now = store.now();
                self.last_now.set(now);
                now
            }
            None => self.last_now.get(),
        }
    }

    /// Records an event in the trace and in the hash that two plays of a seed share.
    pub fn say(&self, what: &str) {
        let line = format!("{:>9} {what}", self.now().as_millis() - NOON);
        let mut hash = self.hash.get();
        for byte in line.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.hash.set(hash);
        let mut trace = self.trace.borrow_mut();
        if trace.len() >= self.plan.trace_lines {
            trace.pop_front();
        }
        if self.plan.trace_lines > 0 {
            trace.push_back(line);
        }
    }

    /// A promise was broken; the first one counts.
    pub fn broken(&self, promise: &str, how: impl std::fmt::Display) {
        let how = format!("{promise}: {how}");
        self.say(&how);
        self.violation.borrow_mut().get_or_insert(how);
    }

    pub fn later(&self, play: impl Future<Output = ()> + 'static) {
        self.later.borrow_mut().push(Box::pin(play));
    }

    pub fn is_over(&self) -> bool {
        self.operations.get() >= self.plan.operations
    }

    pub fn new_worker(&self) -> u64 {
        let mut facts = self.facts.borrow_mut();
        facts.workers += 1;
        facts.workers
    }

    /// Its commit was somewhere between the moment it was sent and now.
    pub fn stamped(&self, sent_at: Timestamp) {
        let now = self.now();
        if self.last_stamp.replace(Some(sent_at)).is_none_or(|last| now.since(last) > MAYBE_ABSENT_MS) {
            self.came_back.borrow_mut().push(now);
        }
    }

    /// Whether a lease of that time may have been given more time already.
    pub fn absent_since(&self, then: Timestamp) -> bool {
        self.came_back.borrow().iter().any(|back| *back >= then)
    }

    /// One more thing that somebody asked for or the engine did.
    pub fn count(&self) {
        self.operations.set(self.operations.get() + 1);
    }
}

/// Breakers that open soon, and one tenant with limits.
fn policies() -> Policies {
    let breaker = BreakerLayer {
        min_attempts: Some(8),
        open_ms: Some(5_000),
        open_max_ms: Some(60_000),
        ..BreakerLayer::default()
    };
    let defaults = PolicyLayer {
        max_attempts: Some(MAX_ATTEMPTS),
        breaker: Some(breaker),
        unclaimed_after_ms: Some(UNCLAIMED_AFTER_MS),
        approval_expires_ms: Some(UNCLAIMED_AFTER_MS),
        ..PolicyLayer::default()
    };
    let limits = Some(TenantLimits { max_running: Some(3), leases_per_s: Some(4.0) });
    let limited = TenantPolicy { tier: None, policy: PolicyLayer { limits, ..PolicyLayer::default() } };
    let tenants = TENANTS[2].parse().map(|tenant| [(tenant, limited)].into()).unwrap_or_default();
    Policies { defaults, tenants, ..Policies::default() }
}

async fn make_keys(store: &dyn Store, dice: &SeededDice) -> Keys {
    let queue = QueueSettings { retry_by: RetryBy::Caller, ..QueueSettings::default() };
    if let Ok(name) = CALLS.parse() {
        let _ = store.put_queue(name, queue).await;
    }
    let mut made = Vec::new();
    let one = |tenant: &str| tenant.parse().ok();
    let all = TENANTS
        .iter()
        .map(|tenant| (Role::Worker, one(tenant)))
        .chain(TENANTS.iter().map(|tenant| (Role::Tenant, one(tenant))))
        .chain([(Role::Worker, None), (Role::Operator, None)]);
    for (role, tenant) in all {
        let (secret, record) = new_key(dice, role, tenant, None, None, store.now());
        let _ = store.put_key(record).await;
        made.push(secret);
    }
    let tenants = TENANTS.len();
    Keys {
        operator: made.pop().unwrap_or_default(),
        any_worker: made.pop().unwrap_or_default(),
        tenants: made.split_off(tenants),
        workers: made,
    }
}
