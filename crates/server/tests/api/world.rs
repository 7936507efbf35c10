//! The fixture of every case: an app over a store of its own, a key of each role, and helpers for calls.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use redrive_core::classify::user_rules::{UserRules, compile};
use redrive_core::ids::Tenant;
use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_engine::{Clock, Dice, ManualClock, SeededDice, Store};
use redrive_server::auth::new_key;
use redrive_server::router::router;
use redrive_server::{App, ServerLimits};
use redrive_store::postgres::PgStore;
use redrive_store::sqlite::SqliteStore;
use redrive_store::{postgres, sqlite};
use serde_json::Value;
use tower::ServiceExt as _;
use tracing_subscriber::fmt::MakeWriter;

pub const NOON: i64 = 1_800_000_000_000;

pub struct World {
    pub app: App,
    pub router: Router,
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub dice: Arc<dyn Dice>,
    /// Of tenant acme.
    pub worker: String,
    pub tenant: String,
    /// Of tenant globex.
    pub other_worker: String,
    pub other_tenant: String,
    /// Span all.
    pub any_worker: String,
    pub operator: String,
    pub admin: String,
    _place: Place,
}

/// Where the store lives; removed with its case.
enum Place {
    Folder(tempfile::TempDir),
    Database(private_postgres::Database),
}

impl Place {
    /// By the suite's name.
    fn new() -> Self {
        if private_postgres::is_meant(module_path!()) {
            Self::Database(private_postgres::Database::fresh().unwrap())
        } else {
            Self::Folder(tempfile::tempdir().unwrap())
        }
    }

    async fn open(&self, clock: Arc<ManualClock>, dice: Arc<dyn Dice>, policies: Policies) -> Arc<dyn Store> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.path().join("data");
                Arc::new(SqliteStore::open(sqlite::Options { folder, clock, dice, policies }).unwrap())
            }
            Self::Database(database) => {
                let (url, clock) = (database.url().to_owned(), Some(clock as Arc<dyn Clock>));
                let options =
                    postgres::Options { url, clock, dice, policies, writer_connections: postgres::WRITER_CONNECTIONS };
                Arc::new(PgStore::open(options).await.unwrap())
            }
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The status with the problem's code or the run's state.
    pub fn short(&self) -> (u16, String) {
        let json = self.json();
        let word = json["code"].as_str().or_else(|| json["state"].as_str()).unwrap_or_default();
        (self.status.as_u16(), word.to_owned())
    }

    pub fn get(&self, name: &str) -> Value {
        self.json()[name].clone()
    }
}

impl World {
    pub async fn new() -> Self {
        Self::with(ServerLimits::default()).await
    }

    pub async fn with(limits: ServerLimits) -> Self {
        Self::made(limits, None).await
    }

    /// With user rules.
    pub async fn ruled(rules: Value) -> Self {
        let rules = compile(serde_json::from_value(rules).unwrap()).unwrap();
        Self::made(ServerLimits::default(), Some(Arc::new(rules))).await
    }

    /// With configured policies.
    pub async fn under(policies: Policies) -> Self {
        Self::made_under(ServerLimits::default(), None, policies).await
    }

    async fn made(limits: ServerLimits, rules: Option<Arc<UserRules>>) -> Self {
        Self::made_under(limits, rules, Policies::default()).await
    }

    async fn made_under(limits: ServerLimits, rules: Option<Arc<UserRules>>, policies: Policies) -> Self {
        let place = Place::new();
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(NOON)));
        let dice: Arc<dyn Dice> = Arc::new(SeededDice::new(7));
        let store = place.open(clock.clone(), dice.clone(), policies).await;
        let app = App::new(store.clone(), dice.clone(), rules, limits);
        let key = |role, tenant: Option<&str>| {
            make_key(store.clone(), dice.clone(), role, tenant.map(|t| t.parse().unwrap()))
        };
        Self {
            router: router(app.clone()),
            app,
            worker: key(Role::Worker, Some("acme")).await,
            tenant: key(Role::Tenant, Some("acme")).await,
            other_worker: key(Role::Worker, Some("globex")).await,
            other_tenant: key(Role::Tenant, Some("globex")).await,
            any_worker: key(Role::Worker, None).await,
            operator: key(Role::Operator, None).await,
            admin: key(Role::Admin, None).await,
            clock,
            dice,
            store,
            _place: place,
        }
    }

    pub async fn send(&self, request: Request<Body>) -> Answered {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answered { status: parts.status, headers: parts.headers, text }
    }

    pub async fn call(&self, method: Method, path: &str, key: &str, body: impl Into<Body>) -> Answered {
        self.send(request(method, path, key, body)).await
    }

    pub async fn get(&self, path: &str, key: &str) -> Answered {
        self.call(Method::GET, path, key, Body::empty()).await
    }

    pub async fn post(&self, path: &str, key: &str, body: impl ToString) -> Answered {
        self.call(Method::POST, path, key, body.to_string()).await
    }

    /// As acme's worker.
    pub async fn work(&self, path: &str, body: impl ToString) -> Answered {
        self.post(path, &self.worker, body).await
    }

    pub async fn fail(&self, run: &str) -> Answered {
        self.work("/v1/failures", format!(r#"{{"run_id":"{run}","error":{{"message":"Request timed out"}}}}"#)).await
    }

    /// A failure that no retry can help.
    pub async fn kill(&self, run: &str) -> Answered {
        let body = format!(r#"{{"run_id":"{run}","payload":{{"n":1}},"error":{{"message":"boom","terminal":true}}}}"#);
        self.work("/v1/failures", body).await
    }

    pub async fn start(&self, run: &str) -> Answered {
        self.work("/v1/runs", format!(r#"{{"run_id":"{run}","mode":"start"}}"#)).await
    }

    /// Starts a run and gives its lease.
    pub async fn begin(&self, run: &str) -> String {
        self.start(run).await.get("lease").as_str().expect("a lease").to_owned()
    }

    pub async fn lease(&self, max: u32) -> Vec<Value> {
        let answered = self.work("/v1/leases", format!(r#"{{"queues":["*"],"max":{max}}}"#)).await;
        answered.get("leases").as_array().cloned().unwrap_or_else(|| panic!("{}", answered.text))
    }

    pub async fn show(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}"), &self.tenant).await.json()
    }

    pub async fn state(&self, run: &str) -> String {
        self.show(run).await["state"].as_str().unwrap().to_owned()
    }

    pub async fn retried_by_caller(&self, queue: &str) {
        let path = format!("/v1/queues/{queue}");
        let answered = self.call(Method::PUT, &path, &self.admin, r#"{"retry_by":"caller"}"#).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
    }

    pub async fn set_queue(&self, queue: &str, settings: Value) {
        let path = format!("/v1/queues/{queue}");
        let answered = self.call(Method::PUT, &path, &self.admin, settings.to_string()).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
    }

    pub fn wait(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }
}

pub async fn make_key(store: Arc<dyn Store>, dice: Arc<dyn Dice>, role: Role, tenant: Option<Tenant>) -> String {
    let (secret, record) = new_key(dice.as_ref(), role, tenant, None, None, store.now());
    store.put_key(record).await.unwrap();
    secret
}

pub fn request(method: Method, path: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(header::AUTHORIZATION, format!("Bearer {key}"));
    request.body(body.into()).unwrap()
}

/// Everything logged, at every level.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Records what this thread logs, until the guard is dropped.
    pub fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
        (log, tracing::subscriber::set_default(subscriber.with_ansi(false).finish()))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
