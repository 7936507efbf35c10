//! A body in memory, paid for: each byte counts against a budget until the request is done.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::App;
use crate::budget::{Holder, Share};
use crate::limits::{ANONYMOUS_BODY_MAX_BYTES, BODY_PROGRESS_MIN_BYTES};
use crate::problem::{Code, Problem, Result};

const BUSY_RETRY_AFTER_S: u32 = 1;
/// Of what a body says of its length, so much is believed before it has come.
const RESERVED_MAX_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) bytes: Bytes,
    /// Given back when the body is no longer held.
    pub(crate) held: Share,
}

impl Buffered {
    /// Callers without a key have a small budget of their own: they can't take the room of those who have one.
    pub(crate) async fn read(app: &App, headers: &HeaderMap, body: Body, payer: Holder) -> Result<Self> {
        let (budget, max_bytes) = match payer {
            Holder::Anonymous => (&app.anonymous_bytes, ANONYMOUS_BODY_MAX_BYTES.min(app.limits.body_max_bytes)),
            Holder::Tenant(_) | Holder::Key(_) => (&app.in_flight_bytes, app.limits.body_max_bytes),
        };
        let least = announced(headers, &body);
        if least > max_bytes as u64 {
            // It is not read at all.
            return Err(too_large(max_bytes));
        }
        let buffer = Vec::with_capacity(usize::try_from(least.min(RESERVED_MAX_BYTES)).unwrap_or_default());
        let reading = Reading {
            buffer,
            held: budget.share(payer),
            max_bytes,
            stall: Duration::from_millis(app.limits.body_stall_ms),
        };
        match timeout(Duration::from_millis(app.limits.body_timeout_ms), reading.collect(body)).await {
            Ok(read) => read,
            Err(_) => Err(Problem::plain(Code::SlowBody)),
        }
    }
}

/// How long a body says it is, or will be at least.
fn announced(headers: &HeaderMap, body: &Body) -> u64 {
    let announced = headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    announced.unwrap_or_else(|| body.size_hint().lower())
}

struct Reading {
    buffer: Vec<u8>,
    held: Share,
    max_bytes: usize,
    stall: Duration,
}

impl Reading {
    /// A body that stalls gives its share back long before its time is up: it has to end, or to bring a minimum of
    /// bytes, within each stall time.
    async fn collect(mut self, mut body: Body) -> Result<Buffered> {
        let mut progress_by = Instant::now() + self.stall;
        let mut progressed = 0;
        loop {
            let frame = match timeout_at(progress_by, body.frame()).await {
                Ok(Some(frame)) => frame.map_err(|_| Problem::plain(Code::BadBody))?,
                Ok(None) => return Ok(Buffered { bytes: self.buffer.into(), held: self.held }),
                Err(_) => return Err(Problem::plain(Code::SlowBody)),
            };
            let Ok(data) = frame.into_data() else { continue };
            if self.buffer.len() + data.len() > self.max_bytes {
                return Err(too_large(self.max_bytes));
            }
            let busy = |_| Problem::plain(Code::Busy).retry_after_s(BUSY_RETRY_AFTER_S);
            self.held.grow(data.len()).map_err(busy)?;
            self.buffer.extend_from_slice(&data);
            progressed += data.len();
            if progressed >= BODY_PROGRESS_MIN_BYTES {
                progressed = 0;
                progress_by = Instant::now() + self.stall;
            }
        }
    }
}

fn too_large(limit_bytes: usize) -> Problem {
    Problem::plain(Code::BodyTooLarge).with("limit_bytes", limit_bytes)
}
