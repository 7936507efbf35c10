//! The world of a case: a store, its clock, and short builders for what producers and workers send.

use std::sync::Arc;

use redrive_core::audit::{ChainPoint, Tampered, Verified};
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
use redrive_engine::error::PortResult;
use redrive_engine::tx::Tx;
use redrive_engine::{
    About, AttemptBody, AuditSettings, Clock, FailedAttempt, Fit, LeaseCall, ManualClock, MasterKey, NewFailure,
    NewRun, NewStep, Payload, PayloadKind, Result, RunRef, SeededDice, Start, StartHow, Store, Success, TenantScope,
    Triage, TriageAct, Triaged, UnderLease, Vault, encode,
};
use redrive_store::SecretsStatus;
use redrive_store::postgres::PgStore;
use redrive_store::sqlite::SqliteStore;
use redrive_store::{Miscounted, postgres, sqlite};
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

/// The master key of every world: all cases run with encryption at rest.
pub const MASTER: [u8; 32] = [9; 32];

pub fn vault_of(secret: [u8; 32]) -> Arc<Vault> {
    Arc::new(Vault::with_master_key(Box::new(move || Ok(MasterKey::new(&secret)))).unwrap())
}

/// The store's location, removed with its case.
enum Place {
    Folder(tempfile::TempDir),
    Database(private_postgres::Database),
}

/// A backup of a world's store.
pub struct StoreBackup(Place);

async fn open(
    place: &Place,
    clock: &Arc<ManualClock>,
    policies: &Policies,
    vault: Arc<Vault>,
) -> Result<Arc<dyn Store>> {
    Ok(match place {
        Place::Folder(_) => Arc::new(open_folder(place, clock, policies, vault)?),
        Place::Database(_) => Arc::new(open_database(place, clock, policies, vault).await?),
    })
}

fn open_folder(place: &Place, clock: &Arc<ManualClock>, policies: &Policies, vault: Arc<Vault>) -> Result<SqliteStore> {
    let Place::Folder(folder) = place else { panic!("not a folder") };
    let (folder, dice) = (folder.path().join("data"), Arc::new(SeededDice::new(7)));
    let options = sqlite::Options { folder, clock: clock.clone(), dice, policies: policies.clone() };
    SqliteStore::open_encrypted(options, vault)
}

async fn open_database(
    place: &Place,
    clock: &Arc<ManualClock>,
    policies: &Policies,
    vault: Arc<Vault>,
) -> Result<PgStore> {
    let Place::Database(database) = place else { panic!("not a database") };
    let (url, clock) = (database.url().to_owned(), Some(clock.clone() as Arc<dyn Clock>));
    let (dice, policies, writer_connections) =
        (Arc::new(SeededDice::new(7)), policies.clone(), postgres::WRITER_CONNECTIONS);
    PgStore::open_encrypted(postgres::Options { url, clock, dice, policies, writer_connections }, vault).await
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
        self.restarted_with(vault_of(MASTER)).await
    }

    /// The same with another master key, or none.
    pub async fn restarted_with(self, vault: Arc<Vault>) -> Self {
        let Self { store, clock, policies, place } = self;
        store.close().await;
        drop(store);
        let store = open(&place, &clock, &policies, vault).await.unwrap();
        Self { store, clock, policies, place }
    }

    /// Why the store does not open with these vaults; then it opens with the last.
    pub async fn refused(self, wrong: Vec<Arc<Vault>>, right: Arc<Vault>) -> (Vec<String>, Self) {
        let Self { store, clock, policies, place } = self;
        store.close().await;
        drop(store);
        let mut refusals = Vec::new();
        for vault in wrong {
            refusals.push(open(&place, &clock, &policies, vault).await.err().expect("it opened").to_string());
        }
        let store = open(&place, &clock, &policies, right).await.unwrap();
        (refusals, Self { store, clock, policies, place })
    }

    pub fn secrets(&self) -> SecretsStatus {
        match &self.place {
            Place::Folder(folder) => {
                let clock = self.clock.clone();
                sqlite::Visit::open(&folder.path().join("data"), clock).unwrap().secrets().unwrap().unwrap()
            }
            // A visit has a runtime of its own.
            Place::Database(database) => std::thread::scope(|scope| {
                let visit = || postgres::Visit::open(database.url()).unwrap().secrets().unwrap().unwrap();
                scope.spawn(visit).join().unwrap()
            }),
        }
    }

    pub fn rotate_tenants(&self, tenant: Option<&str>) -> u64 {
        let (master, tenant) = (MasterKey::new(&MASTER), tenant.map(|name| name.parse::<Tenant>().unwrap()));
        match &self.place {
            Place::Folder(folder) => {
                let mut visit = sqlite::Visit::open(&folder.path().join("data"), self.clock.clone()).unwrap();
                visit.rotate_tenants(&master, tenant.as_ref()).unwrap()
            }
            Place::Database(database) => {
                let rotated = std::thread::scope(|scope| {
                    let rotate = || {
                        let mut visit = postgres::Visit::open(database.url()).unwrap();
                        visit.rotate_tenants(&master, tenant.as_ref()).unwrap()
                    };
                    scope.spawn(rotate).join().unwrap()
                });
                // The database has a clock of its own.
                self.alter(&format!(
                    "UPDATE tenant_keys SET retired_at = {} WHERE retired_at IS NOT NULL",
                    self.clock_ms()
                ));
                rotated
            }
        }
    }

    pub fn rotate_master(&self, new: [u8; 32]) -> u64 {
        let (old, new) = (MasterKey::new(&MASTER), MasterKey::new(&new));
        match &self.place {
            Place::Folder(folder) => {
                let mut visit = sqlite::Visit::open(&folder.path().join("data"), self.clock.clone()).unwrap();
                visit.rotate_master(&old, &new).unwrap()
            }
            Place::Database(database) => std::thread::scope(|scope| {
                let rotate = || postgres::Visit::open(database.url()).unwrap().rotate_master(&old, &new).unwrap();
                scope.spawn(rotate).join().unwrap()
            }),
        }
    }

    /// The same store, and a backup of it as it is now.
    pub async fn backed_up(self) -> (Self, StoreBackup) {
        let Self { store, clock, policies, place } = self;
        store.close().await;
        drop(store);
        let backup = match &place {
            Place::Folder(folder) => {
                let kept = tempfile::tempdir().unwrap();
                let (data, to) = (folder.path().join("data"), kept.path().join("backup.db"));
                sqlite::backup::backup(&data, &to, clock.now(), |_| {}).unwrap();
                StoreBackup(Place::Folder(kept))
            }
            Place::Database(database) => {
                let (_, name) = database.url().rsplit_once('/').unwrap();
                let copy = private_postgres::Database::copy_of(name, &private_postgres::admin_url().unwrap());
                StoreBackup(Place::Database(copy.unwrap()))
            }
        };
        (Self::opened(place, clock, policies).await, backup)
    }

    /// The store as its backup has it, at the present time.
    pub async fn restored(self, backup: StoreBackup) -> Self {
        let Self { store, clock, policies, .. } = self;
        store.close().await;
        match &backup.0 {
            Place::Folder(kept) => {
                let (from, data) = (kept.path().join("backup.db"), kept.path().join("data"));
                sqlite::backup::restore(&from, &data, clock.now()).unwrap();
            }
            Place::Database(copy) => {
                let url = copy.url().to_owned();
                let mark = move || postgres::Visit::open(&url).unwrap().mark_restored().unwrap();
                tokio::task::spawn_blocking(mark).await.unwrap();
            }
        }
        Self::opened(backup.0, clock, policies).await
    }

    /// Another replica over the same database.
    pub async fn beside(&self) -> Arc<dyn Store> {
        open(&self.place, &self.clock, &self.policies, vault_of(MASTER)).await.unwrap()
    }

    /// What an administrator reads beside the store.
    pub fn sql(&self, sql: &str) -> String {
        private_postgres::sql(self.url(), sql).unwrap()
    }

    /// A number that an administrator reads beside the store.
    pub fn number(&self, sql: &str) -> i64 {
        match &self.place {
            Place::Database(_) => self.sql(sql).trim().parse().unwrap(),
            Place::Folder(folder) => {
                let conn = rusqlite::Connection::open(folder.path().join("data/redrive.db")).unwrap();
                conn.query_row(sql, [], |row| row.get(0)).unwrap()
            }
        }
    }

    /// Counters that differ from a recount.
    pub async fn miscounted(&self) -> Miscounted {
        match &self.place {
            Place::Folder(folder) => {
                let visit = sqlite::Visit::open(&folder.path().join("data"), self.clock.clone()).unwrap();
                visit.miscounted().unwrap()
            }
            Place::Database(database) => {
                let url = database.url().to_owned();
                let visit = move || postgres::Visit::open(&url).unwrap().miscounted().unwrap();
                tokio::task::spawn_blocking(visit).await.unwrap()
            }
        }
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

    /// The same store after a restart that sets `audit_days`.
    pub async fn with_audit_days(self, days: u32) -> Self {
        let Self { store, clock, policies, place } = self;
        store.close().await;
        drop(store);
        let audit = AuditSettings { days: Some(days), ..AuditSettings::default() };
        let store: Arc<dyn Store> = match &place {
            Place::Folder(_) => {
                Arc::new(open_folder(&place, &clock, &policies, vault_of(MASTER)).unwrap().with_audit(audit))
            }
            Place::Database(_) => {
                let store = open_database(&place, &clock, &policies, vault_of(MASTER)).await;
                Arc::new(store.unwrap().with_audit(audit))
            }
        };
        Self { store, clock, policies, place }
    }

    /// As `redrive audit verify` does it, beside the store.
    pub fn verify_audit(&self, outside: Vec<ChainPoint>) -> std::result::Result<Verified, Tampered> {
        let again = outside.clone();
        self.visit(|visit| visit.verify_audit(outside, |_| Ok(())), |visit| visit.verify_audit(again, |_| Ok(())))
    }

    /// As a command does it that opens the store itself.
    pub fn commit(&self, act: impl FnOnce(&mut Tx<'_>) -> Result<()> + Send + Clone) {
        let again = act.clone();
        self.visit(|visit| visit.commit(act), |visit| visit.commit(again));
    }

    /// On a thread of its own: a visit waits for its database.
    fn visit<T: Send>(
        &self,
        folder: impl FnOnce(&mut sqlite::Visit) -> PortResult<T> + Send,
        database: impl FnOnce(&mut postgres::Visit) -> PortResult<T> + Send,
    ) -> T {
        let visit = || match &self.place {
            Place::Folder(place) => {
                let mut visit = sqlite::Visit::open(&place.path().join("data"), self.clock.clone()).unwrap();
                folder(&mut visit).unwrap()
            }
            Place::Database(place) => database(&mut postgres::Visit::open(place.url()).unwrap()).unwrap(),
        };
        std::thread::scope(|scope| scope.spawn(visit).join().unwrap())
    }

    pub fn is_shared(&self) -> bool {
        matches!(self.place, Place::Database(_))
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
        let store = open(&place, &clock, &policies, vault_of(MASTER)).await.unwrap();
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
        self.store.put_queue(queue.parse().unwrap(), settings, "admin:ops".into()).await.unwrap();
    }
}

/// The defaults for all but one tenant, which has limits.
fn policies() -> Policies {
    let limits = Some(Limits { max_running: Some(3), leases_per_s: Some(2.0), ..Limits::default() });
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
        masked: false,
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
