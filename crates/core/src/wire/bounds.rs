//! The most that each part of a request may hold. The types of the wire carry these figures in their JSON Schemas; the
//! server checks every body against its schema before it builds anything of it, and the API's description shows them.
//!
//! Names, lists and maps beyond their bound are refused. Evidence is cut and marked (`x-cut-bytes`): what a failure says
//! is never a reason to refuse it. Free JSON is bounded by the body alone (`x-bounded-by`).

use schemars::{Schema, SchemaGenerator, json_schema};

pub use crate::run::ATTEMPT_MAX;
use crate::text::LABEL_MAX_BYTES;
use crate::time::DAY_MS;

const KIB: usize = 1024;

/// The largest whole number that JSON carries everywhere without loss.
pub const INTEGER_MAX: u64 = (1 << 53) - 1;
/// The longest span that a request may name.
pub const SPAN_MS_MAX: u64 = 366 * DAY_MS;
/// Tokens of one attempt, of a budget, of a window.
pub const TOKENS_MAX: u64 = 1_000_000_000_000;
/// Dollars that one attempt may cost.
pub const COST_USD_MAX: f64 = 1e9;
/// Operations and leases a second.
pub const RATE_MAX: f64 = 1e6;

pub const HEADERS_MAX: usize = 100;
pub const HEADER_NAME_MAX_BYTES: usize = 200;
pub const HEADER_MAX_BYTES: usize = 16 * KIB;
pub const VERSIONS_MAX: usize = 50;
pub const VERSION_KIND_MAX_BYTES: usize = 100;
pub const LINKS_MAX: usize = 50;
pub const LINK_NAME_MAX_BYTES: usize = 100;
pub const LINK_MAX_BYTES: usize = 4 * KIB;
pub const STEPS_MAX: usize = 10_000;
pub const STEP_CHECK_MAX_BYTES: usize = 4 * KIB;
/// A person's reason or note.
pub const NOTE_MAX_BYTES: usize = 8 * KIB;
/// Stored in the run's row, so it is a short text.
pub const INSTRUCTION_MAX_BYTES: usize = 8 * KIB;
pub const LEASE_TOKEN_MAX_BYTES: usize = 200;
pub const LEASE_QUEUES_MAX: usize = 1_000;
pub const LEASE_AGENTS_MAX: usize = 1_000;
pub const LEASES_MAX: u32 = 1_000;
pub const WAIT_MS_MAX: u64 = 30_000;
/// Runs that an operation may name one by one.
pub const OPERATION_IDS_MAX: usize = 10_000;
/// Their first attempts are read in every round.
pub const CANARY_MAX_RUNS: u32 = 1_000;
/// Values of one field of an operation's filter.
pub const FILTER_VALUES_MAX: usize = 1_000;
/// A comma list in a filter.
pub const FILTER_LIST_MAX_BYTES: usize = 20_000;
pub const SEARCH_MAX_BYTES: usize = 200;
pub const POINTER_MAX_BYTES: usize = 4 * KIB;
/// A queue's description, runbook and instructions.
pub const QUEUE_TEXT_MAX_BYTES: usize = 16 * KIB;
/// An RFC 3339 time.
pub const TIME_MAX_BYTES: usize = 64;

/// Evidence beyond these is cut.
pub const ERROR_TYPE_CUT_BYTES: usize = LABEL_MAX_BYTES;
pub const MESSAGE_CUT_BYTES: usize = 64 * KIB;
pub const DETAIL_CUT_BYTES: usize = 256 * KIB;
pub const RESPONSE_BODY_CUT_BYTES: usize = 256 * KIB;
pub const PARTIAL_OUTPUT_CUT_BYTES: usize = 1024 * KIB;
pub const CLIENT_TIME_CUT_BYTES: usize = TIME_MAX_BYTES;

/// Any JSON, or bytes in base64.
pub(super) fn free(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-bounded-by": "body_max_bytes" })
}

pub(super) fn free_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "null"], "x-bounded-by": "body_max_bytes" })
}

pub(super) fn headers(_: &mut SchemaGenerator) -> Schema {
    map(HEADERS_MAX, HEADER_NAME_MAX_BYTES, HEADER_MAX_BYTES)
}

pub(super) fn versions(_: &mut SchemaGenerator) -> Schema {
    map(VERSIONS_MAX, VERSION_KIND_MAX_BYTES, LABEL_MAX_BYTES)
}

pub(super) fn links(_: &mut SchemaGenerator) -> Schema {
    map(LINKS_MAX, LINK_NAME_MAX_BYTES, LINK_MAX_BYTES)
}

fn map(entries: usize, name_bytes: usize, value_bytes: usize) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": entries,
        "propertyNames": { "maxLength": name_bytes },
        "additionalProperties": { "type": "string", "maxLength": value_bytes },
    })
}

/// Headers of an answer that failed: evidence. What is over the bounds is left out or cut.
pub(super) fn evidence_headers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-cut-properties": HEADERS_MAX,
        "propertyNames": { "x-cut-bytes": HEADER_NAME_MAX_BYTES },
        "additionalProperties": { "type": "string", "x-cut-bytes": HEADER_MAX_BYTES },
    })
}
