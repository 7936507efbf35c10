//! A server over a store of its own, with a manual clock and constant jitter, so that two worlds differ only by their calls.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, header};
use http_body_util::BodyExt as _;
use redrive_core::policy::{BreakerLayer, Policies, PolicyLayer};
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_engine::services::{self, ServiceJob};
use redrive_engine::{Clock, Dice, ManualClock, SeededDice, Store};
use redrive_server::auth::new_key;
use redrive_server::router::router;
use redrive_server::{App, Config, Server, ServerLimits};
use redrive_store::postgres::PgStore;
use redrive_store::sqlite::SqliteStore;
use redrive_store::{postgres, sqlite};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use crate::answers::Answer;
use crate::calls::{Call, Credential};
use crate::is_postgres;

const NOON: i64 = 1_800_000_000_000;
/// More rounds than this of a service without an end are a hang.
const ROUNDS_MAX: usize = 1_000;

/// Always the same jitter, so that due times do not depend on how often others drew.
struct FixedJitter(SeededDice);

impl Dice for FixedJitter {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}

enum Place {
    Folder(tempfile::TempDir),
    Database(private_postgres::Database),
}

enum Door {
    Router(Router),
    Socket(Server),
}

pub struct World {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    services: Vec<ServiceJob>,
    door: Door,
    _place: Place,
}

/// The keys of one tenant.
#[derive(Clone)]
pub struct Keys {
    pub worker: String,
    pub tenant: String,
}

impl World {
    /// Breakers of providers are shared by design: on only where tenants have no provider in common.
    pub async fn new(breakers: bool, wire: bool) -> Self {
        let place = if is_postgres() {
            Place::Database(private_postgres::Database::fresh().unwrap())
        } else {
            Place::Folder(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
        };
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(NOON)));
        let dice: Arc<dyn Dice> = Arc::new(FixedJitter(SeededDice::new(7)));
        let breaker = BreakerLayer { on: Some(breakers), min_attempts: Some(3), ..BreakerLayer::default() };
        let defaults = PolicyLayer { breaker: Some(breaker), ..PolicyLayer::default() };
        let policies = Policies { defaults, ..Policies::default() };
        let store: Arc<dyn Store> = match &place {
            Place::Folder(folder) => {
                let folder = folder.path().join("data");
                let options = sqlite::Options { folder, clock: clock.clone(), dice: dice.clone(), policies };
                Arc::new(SqliteStore::open_throw_away(options).unwrap())
            }
            Place::Database(database) => {
                let (url, clock) = (database.url().to_owned(), Some(clock.clone() as Arc<dyn Clock>));
                let options = postgres::Options {
                    url,
                    clock,
                    dice: dice.clone(),
                    policies,
                    writer_connections: postgres::WRITER_CONNECTIONS,
                };
                Arc::new(PgStore::open(options).await.unwrap())
            }
        };
        let services: Vec<ServiceJob> =
            [services::STAMP, services::RESCUE, services::RELEASE, services::UNCLAIMED, services::REVIEWS]
                .map(|service| service.on(store.clone(), "replica"))
                .into();
        let door = if wire {
            let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
            let config =
                Config { listen, metrics_listen: None, limits: ServerLimits::default(), replica: "replica".into() };
            Door::Socket(Server::start(config, store.clone(), dice, None).await.unwrap())
        } else {
            Door::Router(router(App::new(store.clone(), dice, None, ServerLimits::default())))
        };
        Self { store, clock, services, door, _place: place }
    }

    /// The same keys in every world, whatever else was drawn there.
    pub async fn keys(&self, tenant: &str, seed: u64) -> Keys {
        let dice = SeededDice::new(seed);
        let mut made = Vec::new();
        for role in [Role::Worker, Role::Tenant] {
            let (secret, record) = new_key(&dice, role, Some(tenant.parse().unwrap()), None, None, self.store.now());
            self.store.put_key(record).await.unwrap();
            made.push(secret);
        }
        let tenant = made.pop().unwrap();
        Keys { worker: made.pop().unwrap(), tenant }
    }

    /// Time passes, and the services do what is due.
    pub async fn tick(&self, ms: u64) {
        self.clock.advance_ms(ms);
        for service in &self.services {
            for round in 0.. {
                assert!(round < ROUNDS_MAX, "{} finds no end", service.name());
                if !service.run_once().await.unwrap().more {
                    break;
                }
            }
        }
    }

    pub async fn send(&self, call: &Call, keys: &Keys, session: Option<&Session>) -> Answer {
        match &self.door {
            Door::Router(router) => {
                let mut request = Request::builder().method(call.method.clone()).uri(&call.path);
                for (name, value) in headers(call, keys, session) {
                    request = request.header(name, value);
                }
                let request = request.body(Body::from(body(call, session))).unwrap();
                let response = router.clone().oneshot(request).await.unwrap();
                let (parts, body) = response.into_parts();
                let text = body.collect().await.unwrap().to_bytes();
                let header = |name: &str| {
                    parts.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                };
                Answer::new(parts.status.as_u16(), header, &text)
            }
            Door::Socket(server) => over_the_wire(server.address(), call, keys, session).await,
        }
    }

    pub async fn close(self) {
        match self.door {
            Door::Router(_) => self.store.close().await,
            Door::Socket(server) => server.stop().await,
        }
    }
}

/// A browser session.
#[derive(Clone)]
pub struct Session {
    pub cookie: String,
    pub csrf: String,
}

fn headers(call: &Call, keys: &Keys, session: Option<&Session>) -> Vec<(&'static str, String)> {
    let mut headers = vec![(header::HOST.as_str(), "desk.example".to_owned())];
    match call.credential {
        Credential::Worker => headers.push(("authorization", format!("Bearer {}", keys.worker))),
        Credential::Tenant => headers.push(("authorization", format!("Bearer {}", keys.tenant))),
        Credential::Session => headers.extend(session.map(|session| ("cookie", session.cookie.clone()))),
        Credential::Nobody => {}
    }
    if let Some(media) = call.media {
        headers.push(("content-type", media.to_owned()));
    }
    headers
}

/// A form carries its session's token.
fn body(call: &Call, session: Option<&Session>) -> Vec<u8> {
    match (call.credential, session) {
        (Credential::Session, Some(session)) if call.method == http::Method::POST => {
            format!("csrf={}&{}", session.csrf, call.body).into_bytes()
        }
        _ => call.body.clone().into_bytes(),
    }
}

async fn over_the_wire(address: SocketAddr, call: &Call, keys: &Keys, session: Option<&Session>) -> Answer {
    let body = body(call, session);
    let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", call.method, call.path);
    for (name, value) in headers(call, keys, session) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may answer and close before it has read all of a body.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(&body).await;
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "{} {} was not answered", call.method, call.path);
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len().saturating_sub(4));
    let (head, rest) = (String::from_utf8_lossy(&bytes[..split]).into_owned(), &bytes[split + 4..]);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let header = |name: &str| {
        let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.clone().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    match header("transfer-encoding") {
        Some(_) => Answer::new(status, header, &unchunked(rest)),
        None => Answer::new(status, header, rest),
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 2 + size + 2..];
    }
    whole
}
