//! What is said about a payload, and in which words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::preflight::estimate::Estimate;
use crate::words::words;

words! {
    /// Whether a payload fits.
    pub enum PreflightVerdict {
        /// It fits, whatever the estimate's error.
        Ok = "ok",
        /// It may not fit, or nobody here knows the model.
        Warn = "warn",
        /// It does not fit as one; in pieces it would.
        Split = "split",
        /// It does not fit, and does once the oldest is left out.
        Compress = "compress",
        /// It does not fit, and nothing can be left out.
        Reject = "reject",
    }
}

/// What the model takes beside the output that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    pub context_tokens: u64,
    pub max_input_tokens: u64,
    pub max_output_tokens: Option<u64>,
    /// Asked for, or left room for where nothing is asked.
    pub output_tokens: u64,
    /// What is left for the input.
    pub input_tokens: u64,
}

/// Past this share of the budget a payload is worth a word.
const WARN_FROM_PERCENT: u64 = 80;

/// How a payload stands to its budget. `floor` is what it would be with everything left out that may be.
pub(super) fn judge(estimate: Estimate, budget: Budget, floor: Option<u64>, splits: bool) -> PreflightVerdict {
    let room = budget.input_tokens;
    if estimate.tokens <= room {
        let near = estimate.high > room || estimate.tokens * 100 > room * WARN_FROM_PERCENT;
        return if near { PreflightVerdict::Warn } else { PreflightVerdict::Ok };
    }
    match floor {
        // The error of the estimate is taken out of the room, or the retry would fail like the first.
        Some(floor) if floor <= scaled(room, estimate.tokens, estimate.high) => PreflightVerdict::Compress,
        Some(_) | None if splits => PreflightVerdict::Split,
        Some(_) | None => PreflightVerdict::Reject,
    }
}

/// `room` less the share by which an estimate may be too low.
pub(super) fn scaled(room: u64, tokens: u64, high: u64) -> u64 {
    u64::try_from(u128::from(room) * u128::from(tokens) / u128::from(high.max(1))).unwrap_or(room)
}

pub(super) fn sentence(verdict: PreflightVerdict, estimate: Estimate, model: &str, room: u64, share: &str) -> String {
    let Estimate { tokens, low, high } = estimate;
    let about = format!("About {tokens} tokens ({low} to {high})");
    match verdict {
        PreflightVerdict::Ok => format!("{about} fit the {room} that {model} leaves for the input."),
        PreflightVerdict::Warn => format!("{about} come close to the {room} that {model} leaves for the input."),
        PreflightVerdict::Compress => {
            format!(
                "{about} do not fit the {room} that {model} leaves for the input; without the oldest messages they do."
            )
        }
        PreflightVerdict::Split => {
            format!("{about} do not fit the {room} that {model} leaves for the input: send it in pieces.{share}")
        }
        PreflightVerdict::Reject => {
            format!(
                "{about} do not fit the {room} that {model} leaves for the input, and nothing can be left out.{share}"
            )
        }
    }
}
