//! The server over a real socket: start, clients that hang up or are slow, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redrive_server::{Config, Server, ServerLimits, StartError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::World;

async fn serve(world: &World, limits: ServerLimits) -> Server {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = Config { listen: any, metrics_listen: Some(any), limits, replica: "r1".into() };
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
        limits: ServerLimits::default(),
        replica: "r2".into(),
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
    let config = Config { listen: "127.0.0.1:0".parse().unwrap(), metrics_listen: None, limits, replica: "r".into() };
    let refused = Server::start(config, world.store.clone(), Arc::clone(&world.dice), None).await.err().unwrap();
    assert_eq!(refused.to_string(), "`connections_max` must be at least 1");
}
