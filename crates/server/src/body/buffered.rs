//! A body in memory, paid for: each byte holds a permit until the request is done.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt as _;
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::problem::{Code, Problem, Result};

const BUSY_RETRY_AFTER_S: u32 = 1;
/// Of what a body says of its length, so much is believed before it has come.
const RESERVED_MAX_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Buffered {
    pub(crate) bytes: Bytes,
    /// Given back when the body is no longer held.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl Buffered {
    pub(crate) async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Self> {
        let least = announced(headers, &body);
        if least > app.limits.body_max_bytes as u64 {
            // It is not read at all.
            return Err(too_large(app));
        }
        let buffer = Vec::with_capacity(usize::try_from(least.min(RESERVED_MAX_BYTES)).unwrap_or_default());
        let time = Duration::from_millis(app.limits.body_timeout_ms);
        match tokio::time::timeout(time, collect(app, body, buffer)).await {
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

async fn collect(app: &App, mut body: Body, mut buffer: Vec<u8>) -> Result<Buffered> {
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::plain(Code::BadBody))?;
        let Ok(data) = frame.into_data() else { continue };
        if buffer.len() + data.len() > app.limits.body_max_bytes {
            return Err(too_large(app));
        }
        let permit = pay(app, data.len())?;
        match &mut held {
            Some(held) => held.merge(permit),
            None => held = Some(permit),
        }
        buffer.extend_from_slice(&data);
    }
    Ok(Buffered { bytes: buffer.into(), permit: held })
}

fn pay(app: &App, bytes: usize) -> Result<OwnedSemaphorePermit> {
    let permits = u32::try_from(bytes).map_err(|_| too_large(app))?;
    let paid = app.in_flight_bytes.clone().try_acquire_many_owned(permits);
    paid.map_err(|_| Problem::plain(Code::Busy).retry_after_s(BUSY_RETRY_AFTER_S))
}

fn too_large(app: &App) -> Problem {
    Problem::plain(Code::BodyTooLarge).with("limit_bytes", app.limits.body_max_bytes)
}
