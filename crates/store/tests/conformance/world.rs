//! The world of a case: a store, its clock, and short builders for what producers and workers send.

use std::sync::Arc;

use redrive_core::classify::{Evidence, classify};
use redrive_core::detect::{ReportedSuccess, observe};
use redrive_core::ids::{QueueName, RunId, Tenant};
use redrive_core::pattern::fingerprint;
use redrive_core::policy::{Limits, Policies, PolicyLayer, TenantPolicy};
use redrive_core::run::StateName;
use redrive_core::strategy::Failure;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{FailureAnswer, LeasedRun, QueueSettings, RunDetail, StartAnswer, StepStatus, Versions};
use redrive_engine::{
    About, AttemptBody, Clock, FailedAttempt, Fit, LeaseCall, ManualClock, NewFailure, NewRun, NewStep, Payload,
    PayloadKind, Result, RunRef, SeededDice, Start, StartHow, Store, Success, TenantScope, Triage, TriageAct, Triaged,
    UnderLease, encode,
};
use redrive_store::postgres::PgStore;
use redrive_store::sqlite::SqliteStore;
use redrive_store::{postgres, sqlite};
use sha2::{Digest as _, Sha256};

pub const NOON: i64 = 1_800_000_000_000;
pub const LEASE_MS: u64 = 60_000;

fn noon() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_millis(NOON)))
}

/// A store under test, with a clock that only the case moves.
pub struct World {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    policies: Policies,
    place: Place,
}

/// The store's location, removed with its case.
enum Place {
    Folder(tempfile::TempDir),
    Database(private_postgres::Database),
}

async fn open(place: &Place, clock: &Arc<ManualClock>, policies: &Policies) -> Arc<dyn Store> {
    let policies = policies.clone();
    let dice = Arc::new(SeededDice::new(7));
    match place {
        Place::Folder(folder) => {
            let folder = folder.path().join("data");
            let options = sqlite::Options { folder, clock: clock.clone(), dice, policies };
            Arc::new(SqliteStore::open(options).unwrap())
        }
        Place::Database(database) => {
            let (url, clock) = (database.url().to_owned(), Some(clock.clone() as Arc<dyn Clock>));
            let options =
                postgres::Options { url, clock, dice, policies, writer_connections: postgres::WRITER_CONNECTIONS };
            Arc::new(PgStore::open(options).await.unwrap())
        }
    }
}

impl World {
    pub async fn sqlite() -> Self {
        Self::sqlite_in(tempfile::tempdir().unwrap()).await
    }

    pub async fn sqlite_in(folder: tempfile::TempDir) -> Self {
        Self::sqlite_under(folder, policies()).await
    }

    pub async fn sqlite_under(folder: tempfile::TempDir, policies: Policies) -> Self {
        Self::opened(Place::Folder(folder), noon(), policies).await
    }

    pub async fn postgres() -> Self {
        Self::postgres_under(policies()).await
    }

    pub async fn postgres_under(policies: Policies) -> Self {
        let database = private_postgres::Database::fresh().unwrap();
        Self::opened(Place::Database(database), noon(), policies).await
    }

    /// Over a database that is filled already.
    pub async fn postgres_in(database: private_postgres::Database) -> Self {
        Self::opened(Place::Database(database), noon(), policies()).await
    }

    /// The same store after a restart, at the same time.
    pub async fn restarted(self) -> Self {
        let Self { store, clock, policies, place } = self;
        store.close().await;
        drop(store);
        Self::opened(place, clock, policies).await
    }

    /// Another replica over the same database.
    pub async fn beside(&self) -> Arc<dyn Store> {
        open(&self.place, &self.clock, &self.policies).await
    }

    /// What an administrator reads beside the store.
    pub fn sql(&self, sql: &str) -> String {
        private_postgres::sql(self.url(), sql).unwrap()
    }

    /// Writes past the store, to damage it.
    pub fn alter(&self, sql: &str) {
        match &self.place {
            Place::Database(database) => drop(private_postgres::sql(database.url(), sql).unwrap()),
            Place::Folder(folder) => {
                let file = folder.path().join("data/redrive.db");
                rusqlite::Connection::open(file).unwrap().execute_batch(sql).unwrap();
            }
        }
    }

    /// Where somebody else reaches the database too.
    pub fn url(&self) -> &str {
        match &self.place {
            Place::Database(database) => database.url(),
            Place::Folder(_) => panic!("a folder has no administrator"),
        }
    }

    pub fn clock_ms(&self) -> i64 {
        self.clock.now().as_millis()
    }

    async fn opened(place: Place, clock: Arc<ManualClock>, policies: Policies) -> Self {
        let store = open(&place, &clock, &policies).await;
        Self { store, clock, policies, place }
    }

    pub fn wait(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    pub async fn fail(&self, run: &str, message: &str) -> FailureAnswer {
        self.store.report(report(run, message)).await.unwrap().answer
    }

    pub async fn start(&self, run: &str) -> (StartAnswer, UnderLease) {
        let answer = self.store.start(start(run)).await.unwrap().answer;
        let lease = answer.lease.as_deref().unwrap().parse().unwrap();
        (answer, UnderLease { at: at("acme", run), lease })
    }

    /// A resumable run.
    pub async fn start_resumable(&self, run: &str) -> (StartAnswer, UnderLease) {
        let mut start = start(run);
        start.run.resumable = Some(true);
        let answer = self.store.start(start).await.unwrap().answer;
        let lease = answer.lease.as_deref().unwrap().parse().unwrap();
        (answer, UnderLease { at: at("acme", run), lease })
    }

    pub async fn enqueue(&self, tenant: &str, run: &str) {
        let how = StartHow::Enqueue { due_at: None };
        let run = NewRun { tenant: tenant.parse().unwrap(), ..new_run(run) };
        self.store
            .start(Start { run, how, versions: Versions::new(), idle_ms: None, deadline_ms: None, fit: Fit::AsItIs })
            .await
            .unwrap();
    }

    pub async fn lease(&self, max: u32) -> Vec<LeasedRun> {
        self.store.lease(lease_call(max)).await.unwrap()
    }

    /// Leases the one run that is due.
    pub async fn lease_one(&self) -> (LeasedRun, UnderLease) {
        let leased = self.lease(1).await.pop().expect("a run is due");
        let under = under(&leased);
        (leased, under)
    }

    pub async fn show(&self, run: &str) -> RunDetail {
        self.store.run(&at("acme", run)).await.unwrap()
    }

    pub async fn state(&self, run: &str) -> StateName {
        self.show(run).await.summary.state
    }

    pub async fn triage(&self, run: &str, triage: Triage) -> Result<StateName> {
        self.act(run, triage).await.map(|done| done.answer.state)
    }

    pub async fn act(&self, run: &str, triage: Triage) -> Result<Triaged> {
        let reason = Some(Text::from("because"));
        self.store.triage(TriageAct { at: at("acme", run), triage, actor: "key:ops".into(), reason }).await
    }

    pub async fn retried_by_caller(&self, queue: &str) {
        let settings = QueueSettings { retry_by: redrive_core::policy::RetryBy::Caller, ..QueueSettings::default() };
        self.store.put_queue(queue.parse().unwrap(), settings).await.unwrap();
    }
}

/// The defaults for all but one tenant, which has limits.
fn policies() -> Policies {
    let limits = Some(Limits { max_running: Some(3), leases_per_s: Some(2.0) });
    let policy = PolicyLayer { limits, ..PolicyLayer::default() };
    let limited = TenantPolicy { tier: None, policy };
    Policies { tenants: [("limited".parse().unwrap(), limited)].into(), ..Policies::default() }
}

pub fn at(tenant: &str, run: &str) -> RunRef {
    RunRef { tenant: tenant.parse().unwrap(), run_id: run.parse().unwrap() }
}

pub fn under(leased: &LeasedRun) -> UnderLease {
    let at = RunRef { tenant: leased.tenant.clone(), run_id: leased.run_id.clone() };
    UnderLease { at, lease: leased.lease.parse().unwrap() }
}

pub fn lease_call(max: u32) -> LeaseCall {
    LeaseCall {
        scope: TenantScope::All,
        queues: Vec::new(),
        agents: None,
        max,
        lease_ms: Some(LEASE_MS),
        worker: Some(Label::from("w1")),
        versions: Versions::new(),
        payload_max_bytes: 16 << 20,
        by: None,
        request_id: None,
    }
}

pub fn digest(bytes: &[u8]) -> redrive_engine::Digest {
    let mut first = [0; 16];
    first.copy_from_slice(&Sha256::digest(bytes)[..16]);
    first
}

pub fn payload(kind: PayloadKind, bytes: &[u8]) -> Payload {
    Payload { kind, digest: digest(bytes), encoded: encode(bytes) }
}

pub fn new_run(run: &str) -> NewRun {
    NewRun {
        tenant: "acme".parse::<Tenant>().unwrap(),
        run_id: run.parse::<RunId>().unwrap(),
        queue: QueueName::default_queue(),
        agent: None,
        task_type: None,
        customer: None,
        model: None,
        provider: None,
        environment: Label::from("production"),
        severity: redrive_core::wire::Severity::Normal,
        idempotency_key: None,
        order_key: None,
        resumable: None,
        payload: payload(PayloadKind::Json, br#"{"n":1}"#),
        about: encode(serde_json::to_string(&About::default()).unwrap().as_bytes()),
        by: None,
    }
}

pub fn failed(message: &str) -> FailedAttempt {
    let evidence = Evidence { text: message, ..Evidence::default() };
    let classified = classify(&evidence);
    let fingerprint = fingerprint(&evidence, &classified.reason);
    let body = AttemptBody::default();
    FailedAttempt {
        attempt: None,
        digest: Some(digest(message.as_bytes())),
        failure: Failure::new(classified, false, fingerprint.hash),
        fingerprint,
        model: None,
        provider: None,
        tool: None,
        step: None,
        versions: Versions::new(),
        took_ms: None,
        severity: None,
        body: encode(serde_json::to_string(&body).unwrap().as_bytes()),
        steps: Vec::new(),
        by: None,
    }
}

pub fn report(run: &str, message: &str) -> NewFailure {
    NewFailure { run: new_run(run), failed: failed(message) }
}

/// A report that says which attempt it is.
pub fn numbered(run: &str, message: &str, attempt: u32) -> NewFailure {
    NewFailure { run: new_run(run), failed: FailedAttempt { attempt: Some(attempt), ..failed(message) } }
}

pub fn start(run: &str) -> Start {
    let how = StartHow::Start { start_id: Some(Label::from(run)), lease_ms: Some(LEASE_MS) };
    Start { run: new_run(run), how, versions: Versions::new(), idle_ms: None, deadline_ms: None, fit: Fit::AsItIs }
}

pub fn success(under: &UnderLease, output: &str) -> Success {
    let body = AttemptBody {
        output: Some(serde_json::value::RawValue::from_string(output.to_owned()).unwrap()),
        ..AttemptBody::default()
    };
    Success {
        at: under.at.clone(),
        lease: Some(under.lease),
        attempt: None,
        digest: digest(output.as_bytes()),
        observed: observe(&ReportedSuccess { output: Some(output), ..ReportedSuccess::default() }),
        body: encode(serde_json::to_string(&body).unwrap().as_bytes()),
        steps: Vec::new(),
        by: None,
    }
}

pub fn step(key: &str, effect: bool, status: StepStatus) -> NewStep {
    NewStep {
        name: Label::from(key),
        key: Some(key.parse().unwrap()),
        effect: Some(effect),
        status,
        output: (status == StepStatus::Committed).then(|| encode(b"\"done\"")),
        output_omitted: None,
        check: None,
        checked: false,
        call_id: None,
    }
}

/// A step without a key of its own.
pub fn unnamed(name: &str, status: StepStatus) -> NewStep {
    NewStep { name: Label::from(name), key: None, ..step("unnamed", true, status) }
}
