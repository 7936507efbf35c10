//! A load over plain HTTP/1.1 connections that costs little itself: the machine is shared with the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// One keep-alive connection.
pub struct Connection {
    stream: TcpStream,
    key: String,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str, key: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, key: key.to_owned(), buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends and waits for the whole answer; gives status and body.
    pub async fn post(&mut self, path: &str, kind: &str, body: &str) -> Result<(u16, String)> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body.as_bytes());
        self.stream.write_all(&request).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(u16, String)> {
        self.buffer.clear();
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server hung up");
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse().ok())
            .context("no content-length")?;
        while self.buffer.len() < head_end + length {
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server hung up");
        }
        Ok((status, String::from_utf8_lossy(&self.buffer[head_end..head_end + length]).into_owned()))
    }
}

/// What a load saw.
pub struct Seen {
    pub took: Duration,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Sends `requests` bodies made by `body` over so many connections, each as soon as its last was answered.
pub async fn send(
    address: &str,
    key: &str,
    connections: usize,
    requests: u64,
    kind: &'static str,
    body: impl Fn(u64) -> String + Send + Sync + 'static,
) -> Result<Seen> {
    let next = Arc::new(AtomicU64::new(0));
    let body = Arc::new(body);
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Connection::open(address, key).await?);
    }
    let began = Instant::now();
    let mut set = JoinSet::new();
    for mut line in lines {
        let (next, body) = (next.clone(), body.clone());
        set.spawn(async move {
            let mut waits = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= requests {
                    return anyhow::Ok(waits);
                }
                let body = body(n);
                let sent = Instant::now();
                let (status, answer) = line.post("/v1/failures", kind, &body).await?;
                ensure!(status == 200 || status == 201, "{status}: {answer}");
                waits.push(sent.elapsed());
            }
        });
    }
    let mut waits = Vec::new();
    while let Some(done) = set.join_next().await {
        waits.extend(done??);
    }
    let took = began.elapsed();
    waits.sort();
    let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).map_or(f64::NAN, |w| w.as_secs_f64() * 1e3);
    Ok(Seen { took, p50_ms: at(0.5), p99_ms: at(0.99) })
}
