//! The Rust SDK: every call to a Redrive server, typed.
//!
//! Await a request to send it; [`ApiRequest::text`] returns the server's JSON unchanged instead of the typed answer. The
//! client never retries by itself: the API says which calls may be repeated (reports always may).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redrive_client::{Client, start};
//!
//! let client = Client::new("http://127.0.0.1:7070", "rd_…")?;
//! let run = client.begin(start("task-42".parse()?)).await?.expect_begun()?;
//! let paid = run.effect("charge_card", "task-42:charge", async { Ok::<_, std::io::Error>(true) }).await?;
//! run.succeed(&serde_json::json!({ "paid": paid })).await?;
//! # Ok(())
//! # }
//! ```

mod attempt;
mod client;
mod operator;
mod query;
mod requests;
mod worker;

pub use attempt::{EffectError, RunHandle, StartOutcome};
pub use client::{ApiRequest, Client, Error, Result};
pub use query::{PatternsQuery, RunPages, RunsQuery, StatsQuery};
pub use redrive_core as core;
pub use redrive_core::wire;
pub use requests::{encode_payload, failure, payload_of, request_id, start};
