//! The server over a real socket: start, clients that hang up or are slow, stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redrive_server::auth::PortalSettings;
use redrive_server::{Config, Edge, Server, ServerLimits, StartError, TlsPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::world::World;

async fn serve(world: &World, limits: ServerLimits) -> Server {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        listen: any,
        metrics_listen: Some(any),
        limits,
        portal: PortalSettings::default(),
        replica: "r1".into(),
        edge: Edge::default(),
        sso: None,
    };
    Server::start(config, world.store.clone(), world.dice.clone(), None).await.unwrap()
}

/// Sends raw bytes and reads until the server closes or is quiet.
async fn talk(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    read(&mut stream).await
}

async fn read(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

fn post(path: &str, key: &str, more: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {key}\r\n{more}\r\n{body}")
}

#[tokio::test]
async fn a_taken_port_is_reported_plainly() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits::default()).await;
    let answer = talk(server.address(), "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with(r#"{"status":"ok"}"#), "{answer}");

    let config = Config {
        listen: server.address(),
        metrics_listen: None,
        portal: PortalSettings::default(),
        limits: ServerLimits::default(),
        replica: "r2".into(),
        edge: Edge::default(),
        sso: None,
    };
    let taken = Server::start(config, world.store.clone(), world.dice.clone(), None).await.err().unwrap();
    assert!(matches!(taken, StartError::Bind { .. }));
    assert!(taken.to_string().contains("the port is taken"), "{taken}");
    server.stop().await;
}

#[tokio::test]
async fn slow_bodies_and_slow_heads_time_out() {
    let world = World::new().await;
    let limits = ServerLimits { body_timeout_ms: 200, head_timeout_ms: 300, ..ServerLimits::default() };
    let server = serve(&world, limits).await;
    let slow = talk(server.address(), &post("/v1/failures", &world.worker, "content-length: 100\r\n", "{")).await;
    assert!(slow.starts_with("HTTP/1.1 408") && slow.contains("slow_body"), "{slow}");
    let head =
        tokio::time::timeout(Duration::from_secs(3), talk(server.address(), "GET /healthz HTTP/1.1\r\nho")).await;
    assert!(!head.unwrap().contains("200 OK"));
    server.stop().await;
}

#[tokio::test]
async fn incomplete_heads_lock_no_client_out() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits { connections_max: 4, heads_max: 3, ..ServerLimits::default() }).await;
    let body = r#"{"queues":["*"],"wait_ms":20000}"#;
    let mut waiting = TcpStream::connect(server.address()).await.unwrap();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = vec![0; 1_000];
    assert!(waiting.read(&mut answer).await.unwrap() > 0, "it is known to be there");
    let head = format!("content-length: {}\r\n", body.len());
    waiting.write_all(post("/v1/leases", &world.worker, &head, body).as_bytes()).await.unwrap();
    let mut half = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nho").await.unwrap();
        half.push(stream);
    }
    let answer = talk(server.address(), "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(world.work("/v1/runs", r#"{"run_id":"a","mode":"enqueue"}"#).await.status, 201);
    let leased = read(&mut waiting).await;
    assert!(leased.contains("HTTP/1.1 200") && leased.contains(r#""run_id":"a""#), "{leased}");
    server.stop().await;
}

#[tokio::test]
async fn a_request_names_exactly_one_host() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits::default()).await;
    for (hosts, version, status) in [
        ("", "1.1", "400"),
        ("host: a\r\nhost: b\r\n", "1.1", "400"),
        ("host: a\r\nHost: a\r\n", "1.1", "400"),
        ("host: a/b\r\n", "1.1", "400"),
        ("host: a:7070\r\n", "1.1", "200"),
        ("", "1.0", "200"),
    ] {
        let request = format!("GET /healthz HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        let answer = talk(server.address(), &request).await;
        assert_eq!(answer.split(' ').nth(1), Some(status), "{hosts:?}: {answer}");
        assert_eq!(answer.contains("bad_host"), status == "400", "{answer}");
        assert!(answer.contains("\r\nx-request-id: "), "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_leaves_nothing_half_done() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits::default()).await;
    let body = r#"{"run_id":"a","error":{"message":"m"}}"#;
    for cut in [1, body.len() / 2, body.len() - 1] {
        let head = format!("content-length: {}\r\n", body.len());
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(post("/v1/failures", &world.worker, &head, &body[..cut]).as_bytes()).await.unwrap();
        drop(stream);
    }
    // A wrong content length is the same as hanging up.
    let lying =
        talk(server.address(), &post("/v1/failures", &world.worker, "content-length: 17000000\r\n", body)).await;
    assert!(lying.starts_with("HTTP/1.1 413"), "{lying}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(world.get("/v1/runs/a", &world.worker).await.status, 404);
    assert_eq!(world.fail("a").await.status, 201);
    server.stop().await;
}

#[tokio::test]
async fn a_stop_answers_open_requests_and_closes_the_store() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits { grace_ms: 3_000, ..ServerLimits::default() }).await;
    let address = server.address();
    let body = r#"{"queues":["*"],"wait_ms":20000}"#;
    let head = format!("content-length: {}\r\n", body.len());
    let mut waiting = TcpStream::connect(address).await.unwrap();
    waiting.write_all(post("/v1/leases", &world.worker, &head, body).as_bytes()).await.unwrap();
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;

    tokio::time::timeout(Duration::from_secs(2), server.stop()).await.unwrap();
    let answer = read(&mut waiting).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(r#"{"leases":[]}"#), "{answer}");
    assert!(read(&mut idle).await.contains("200 OK"));
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(world.fail("a").await.short(), (503, "closing".into()));
}

#[tokio::test]
async fn an_endless_request_is_cut_off_after_the_grace_time() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits { grace_ms: 300, ..ServerLimits::default() }).await;
    let mut stuck = TcpStream::connect(server.address()).await.unwrap();
    let head = post("/v1/failures", &world.worker, "content-length: 100\r\n", "{");
    stuck.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::timeout(Duration::from_secs(2), server.stop()).await.unwrap();
}

#[tokio::test]
async fn an_invalid_limit_stops_the_start() {
    let world = World::new().await;
    let limits = ServerLimits { connections_max: 0, ..ServerLimits::default() };
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        metrics_listen: None,
        limits,
        portal: PortalSettings::default(),
        replica: "r".into(),
        edge: Edge::default(),
        sso: None,
    };
    let refused = Server::start(config, world.store.clone(), Arc::clone(&world.dice), None).await.err().unwrap();
    assert_eq!(refused.to_string(), "`connections_max` must be at least 1");
}

fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// A request over TLS by a client that trusts only the server's certificate.
async fn talk_tls(address: SocketAddr, bytes: &str) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(tls_file("first.crt")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

async fn serve_tls(world: &World, limits: ServerLimits) -> Server {
    let tls = TlsPair::from_files(&tls_file("first.crt"), &tls_file("first.key")).unwrap();
    let edge = Edge { tls: Some(tls), ..Edge::default() };
    let listen = "127.0.0.1:0".parse().unwrap();
    let portal = PortalSettings::default();
    let config = Config { listen, metrics_listen: None, limits, portal, replica: "r1".into(), edge, sso: None };
    Server::start(config, world.store.clone(), world.dice.clone(), None).await.unwrap()
}

#[tokio::test]
async fn stalled_handshakes_lock_no_client_out() {
    let world = World::new().await;
    let limits = ServerLimits { connections_max: 4, heads_max: 3, ..ServerLimits::default() };
    let server = serve_tls(&world, limits).await;
    let mut stalled = Vec::new();
    for n in 0..50 {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        // Nothing, or the beginning of a handshake.
        stream.write_all(&b"\x16\x03\x01\x02\x00\x01"[..n % 7]).await.unwrap();
        stalled.push(stream);
    }
    let answer = talk_tls(server.address(), "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with(r#"{"status":"ok"}"#), "{answer}");
    server.stop().await;
}

fn login(world: &World, more: &str) -> String {
    let form = format!("key={}", world.admin);
    let head = format!("content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n", form.len());
    format!("POST /login HTTP/1.1\r\nhost: desk\r\nconnection: close\r\n{head}{more}\r\n{form}")
}

#[tokio::test]
async fn a_login_over_tls_gets_a_secure_cookie() {
    let world = World::new().await;
    let server = serve_tls(&world, ServerLimits::default()).await;
    let answer = talk_tls(server.address(), &login(&world, "")).await;
    assert!(answer.contains("SameSite=Strict; Secure\r\n") && server.url().starts_with("https://"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn a_client_cannot_claim_to_speak_tls() {
    let world = World::new().await;
    let server = serve(&world, ServerLimits::default()).await;
    let answer = talk(server.address(), &login(&world, "x-forwarded-proto: https\r\n")).await;
    assert!(answer.contains("SameSite=Strict\r\n"), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn plain_http_beyond_this_machine_is_refused() {
    let world = World::new().await;
    let config = |behind_proxy| Config {
        listen: "0.0.0.0:0".parse().unwrap(),
        metrics_listen: Some("0.0.0.0:0".parse().unwrap()),
        limits: ServerLimits::default(),
        portal: PortalSettings::default(),
        replica: "r1".into(),
        edge: Edge { behind_proxy, ..Edge::default() },
        sso: None,
    };
    let refused = Server::start(config(false), world.store.clone(), world.dice.clone(), None).await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "refusing to listen on 0.0.0.0:0 in plain HTTP, where others could read keys and payloads: \
         set tls_cert and tls_key, or say --behind-proxy if a TLS proxy is in front"
    );
    let server = Server::start(config(true), world.store.clone(), world.dice.clone(), None).await.unwrap();
    server.stop().await;
}
