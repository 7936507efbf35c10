//! Every limit of the server with its unit in its name, in one place.

use redrive_core::ids::ID_MAX_BYTES;
use redrive_core::policy::{LEASE_MS_MAX, LEASE_MS_MIN};
pub use redrive_core::run::{ATTEMPT_MAX, REVISION_MAX};
use redrive_core::text::LABEL_MAX_BYTES;
use redrive_core::wire::LimitsAnswer;

pub use redrive_core::wire::bounds::{
    CANARY_MAX_RUNS, INSTRUCTION_MAX_BYTES, LEASES_MAX, OPERATION_IDS_MAX, SEARCH_MAX_BYTES, STEP_CHECK_MAX_BYTES,
    WAIT_MS_MAX,
};

const MIB: usize = 1024 * 1024;

/// Larger step outputs are stored as size and hash only.
pub const STEP_OUTPUT_MAX_BYTES: usize = 64 * 1024;
/// Values of one comma list in a query.
pub const QUERY_LIST_MAX: usize = 100;
/// One comma list in a query.
pub const QUERY_LIST_MAX_BYTES: usize = 20_000;
pub const CURSOR_MAX_BYTES: usize = 2_000;
/// Fields of a form; each selected run is one.
pub const FORM_FIELDS_MAX: usize = 12_000;
pub const FORM_NAME_MAX_BYTES: usize = 200;
/// A field of a form, except those that hold a payload.
pub const FORM_TEXT_MAX_BYTES: usize = 20_000;
pub const PAGE_DEFAULT: u32 = 50;
pub const PAGE_MAX: u32 = 500;
pub const COUNT_MAX: u64 = 10_000;
pub const LEASES_DEFAULT: u32 = 10;
pub const LEASE_PAYLOAD_MAX_BYTES: usize = 16 * MIB;
/// Leases that one call may renew.
pub const HEARTBEATS_MAX: usize = 1_000;
/// A body of a caller without a key: a login form.
pub const ANONYMOUS_BODY_MAX_BYTES: usize = 4 * 1024;
/// All bodies of callers without a key, together.
pub const ANONYMOUS_BYTES: usize = 256 * 1024;
/// The least progress of a body within `body_stall_ms`.
pub const BODY_PROGRESS_MIN_BYTES: usize = 16 * 1024;
/// Read and discarded of a body that was answered early: a client that reads only after it has sent everything gets its
/// answer, not a reset.
pub const LINGER_MAX_BYTES: usize = 64 * MIB;
/// Answers up to this size are not counted.
pub const LARGE_ANSWER_BYTES: usize = 256 * 1024;
/// Concurrent large reads, and those of one tenant.
pub const LARGE_READS_MAX: usize = 8;
pub const LARGE_READS_HOLDER_MAX: usize = 4;
/// How long a call waits for a large read.
pub const LARGE_READS_WAIT_MS: u64 = 10_000;
/// The least progress of an answer within `answer_stall_ms`.
pub const ANSWER_PROGRESS_MIN_BYTES: usize = 16 * 1024;
/// Connections to the metrics listener.
pub const METRICS_CONNECTIONS_MAX: usize = 64;
/// Files reserved for the store, the listeners and the runtime.
pub const OTHER_FILES: usize = 256;
/// Charged for a waiting lease call beside its request.
pub const WAITING_CALL_BYTES: usize = 4 * 1024;
/// A parsed request takes at most this many times the bytes of its text.
pub const WAITING_FACTOR: usize = 4;
/// Memory of all waiting lease calls.
pub const WAITING_BYTES: usize = 64 * MIB;
/// Memory of one tenant's waiting lease calls.
pub const WAITING_HOLDER_BYTES: usize = 16 * MIB;

/// Limits that a deployment may set.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    pub body_max_bytes: usize,
    /// All bodies in memory together.
    pub in_flight_max_bytes: usize,
    /// Reports in one NDJSON body.
    pub batch_max_lines: usize,
    /// From the first byte of a body to its last.
    pub body_timeout_ms: u64,
    /// How long a body may make no progress.
    pub body_stall_ms: u64,
    /// From the first byte of a request, or the start of its connection, to the end of its head.
    pub head_timeout_ms: u64,
    /// How long a connection is kept between requests.
    pub idle_timeout_ms: u64,
    /// How long a client may make no progress reading its answer.
    pub answer_stall_ms: u64,
    /// All large answers not yet sent; one tenant may hold a quarter.
    pub answers_max_bytes: usize,
    /// Reduced if the system allows fewer open files.
    pub connections_max: usize,
    /// Connections that have not sent the whole head of a request.
    pub heads_max: usize,
    /// How long open requests may take after a stop.
    pub grace_ms: u64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_max_bytes: 16 * MIB,
            in_flight_max_bytes: 64 * MIB,
            batch_max_lines: 50_000,
            body_timeout_ms: 30_000,
            body_stall_ms: 5_000,
            head_timeout_ms: 10_000,
            idle_timeout_ms: 30_000,
            answer_stall_ms: 30_000,
            answers_max_bytes: 128 * MIB,
            connections_max: 10_000,
            heads_max: 256,
            grace_ms: 10_000,
        }
    }
}

/// A limit out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{limit}` {must}")]
pub struct BadLimit {
    limit: &'static str,
    must: &'static str,
}

impl ServerLimits {
    pub fn check(&self) -> Result<(), BadLimit> {
        let demand = |holds: bool, limit, must| holds.then_some(()).ok_or(BadLimit { limit, must });
        demand(self.body_max_bytes > 0, "body_max_bytes", "must be at least 1")?;
        demand(
            self.in_flight_max_bytes >= self.body_max_bytes,
            "in_flight_max_bytes",
            "must hold at least one body of body_max_bytes",
        )?;
        demand(u32::try_from(self.in_flight_max_bytes).is_ok(), "in_flight_max_bytes", "must be below 4 GiB")?;
        demand(self.batch_max_lines > 0, "batch_max_lines", "must be at least 1")?;
        demand(self.body_timeout_ms > 0, "body_timeout_ms", "must be at least 1")?;
        demand(self.body_stall_ms > 0, "body_stall_ms", "must be at least 1")?;
        demand(self.head_timeout_ms > 0, "head_timeout_ms", "must be at least 1")?;
        demand(self.idle_timeout_ms > 0, "idle_timeout_ms", "must be at least 1")?;
        demand(self.answer_stall_ms > 0, "answer_stall_ms", "must be at least 1")?;
        demand(self.answers_max_bytes > 0, "answers_max_bytes", "must be at least 1")?;
        demand(self.heads_max > 0, "heads_max", "must be at least 1")?;
        demand(self.connections_max > 0, "connections_max", "must be at least 1")
    }

    /// The bound of one tenant's bodies: half of all, and at least one body.
    pub(crate) fn in_flight_holder_max_bytes(&self) -> usize {
        (self.in_flight_max_bytes / 2).max(self.body_max_bytes)
    }

    pub(crate) fn answer(&self) -> LimitsAnswer {
        LimitsAnswer {
            body_max_bytes: self.body_max_bytes as u64,
            in_flight_max_bytes: self.in_flight_max_bytes as u64,
            id_max_bytes: ID_MAX_BYTES as u64,
            label_max_bytes: LABEL_MAX_BYTES as u64,
            attempt_max: ATTEMPT_MAX,
            lease_ms_min: LEASE_MS_MIN,
            lease_ms_max: LEASE_MS_MAX,
            leases_max: LEASES_MAX,
            lease_payload_max_bytes: LEASE_PAYLOAD_MAX_BYTES as u64,
            wait_ms_max: WAIT_MS_MAX,
            page_max: PAGE_MAX,
            count_max: COUNT_MAX,
            step_output_max_bytes: STEP_OUTPUT_MAX_BYTES as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_too_tight_for_one_body_are_refused() {
        assert_eq!(ServerLimits::default().check(), Ok(()));
        let tight = ServerLimits { in_flight_max_bytes: 1, ..ServerLimits::default() };
        assert_eq!(
            tight.check().map_err(|e| e.to_string()),
            Err("`in_flight_max_bytes` must hold at least one body of body_max_bytes".into())
        );
    }
}
