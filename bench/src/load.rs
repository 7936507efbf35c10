//! The load: reports of 2 KB from a hundred tenants with four root causes, sent over plain HTTP/1.1 keep-alive
//! connections. It is cheap on purpose: it shares the machine with the server.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// One keep-alive connection.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    /// Sends and waits for the whole answer; gives its status.
    pub async fn post(&mut self, request: &[u8]) -> Result<u16> {
        self.stream.write_all(request).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<u16> {
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
        // The body is not parsed: the load shares the processor with the server.
        let mut left = (head_end + length).saturating_sub(self.buffer.len());
        while left > 0 {
            self.buffer.clear();
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server hung up");
            left = left.saturating_sub(read);
        }
        Ok(status)
    }
}

/// Whole requests with so many reports each, ready to be sent.
pub fn requests(key: &str, kind: &str, bodies: impl Iterator<Item = String>) -> Vec<Vec<u8>> {
    let request = |body: String| {
        let length = body.len();
        let head = "POST /v1/failures HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ";
        format!("{head}{key}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
    };
    bodies.map(request).collect()
}

/// What a load saw.
pub struct LoadResult {
    pub took: Duration,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Sends the requests over so many connections, each as soon as its last was answered. They were made before: the clock
/// is the server's alone.
pub async fn send(address: &str, connections: usize, requests: Vec<Vec<u8>>) -> Result<LoadResult> {
    let (next, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(requests));
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Connection::open(address).await?);
    }
    let began = Instant::now();
    let mut set = JoinSet::new();
    for mut line in lines {
        let (next, requests) = (next.clone(), requests.clone());
        set.spawn(async move {
            let mut waits = Vec::new();
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let sent = Instant::now();
                let status = line.post(request).await?;
                ensure!(status == 200 || status == 201, "{status}");
                waits.push(sent.elapsed());
            }
            anyhow::Ok(waits)
        });
    }
    let mut waits = Vec::new();
    while let Some(done) = set.join_next().await {
        waits.extend(done??);
    }
    let took = began.elapsed();
    waits.sort();
    let at = |share: f64| waits.get((waits.len() as f64 * share) as usize).map_or(f64::NAN, |w| w.as_secs_f64() * 1e3);
    Ok(LoadResult { took, p50_ms: at(0.5), p99_ms: at(0.99) })
}

const TENANTS: u64 = 100;
const CAUSES: [(&str, &str); 4] = [
    ("APITimeoutError", "Request timed out after 60 s while waiting for the model"),
    ("KeyError", "'invoice_total' is not in the parsed answer of task {task}"),
    ("RateLimitError", "Rate limit reached for requests per min: Limit 500, Used 500. Please try again in 12s"),
    ("AuthenticationError", "Incorrect API key provided: check the key of this workspace"),
];
const FRAMES: &str =
    "  File \\\"/app/agents/biller.py\\\", line 118, in charge\\n    answer = client.chat(messages)\\n";
const WORDS: &str = "The customer asks for the invoice of last month and wants it split by cost centre. ";

/// The n-th report's JSON.
pub fn report(series: &str, n: u64) -> String {
    let (kind, message) = CAUSES[(n % 4) as usize];
    let message = message.replace("{task}", &n.to_string());
    let tenant = n.wrapping_mul(7_919) % TENANTS;
    let mut body = String::with_capacity(2_100);
    let _ = write!(
        body,
        "{{\"run_id\":\"{series}-{:016x}\",\"tenant\":\"tenant-{tenant}\",\"queue\":\"invoices\",\"agent\":\"biller\",\
         \"payload\":{{\"task\":{n},\"messages\":[{{\"role\":\"user\",\"content\":\"",
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    );
    for _ in 0..12 {
        body.push_str(WORDS);
    }
    let _ = write!(
        body,
        "\"}}]}},\"model\":\"gpt-5\",\"provider\":\"openai\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\",\"detail\":\"Traceback (most recent call last):\\n"
    );
    for _ in 0..6 {
        body.push_str(FRAMES);
    }
    let _ = write!(body, "{kind}: {message}\"}}}}");
    body
}
