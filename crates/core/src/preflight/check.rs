//! The preflight check: measure a payload, compare it with the model's limits, and say so in a sentence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tokenizer::Estimate;
use super::tokenizer::Tokenizer;
use super::weigh::Reading;
use super::weigh::{Part, of_any, of_request};
use crate::json::{JsonKind, Tape};
use crate::models::{ModelLimits, Models, maker};
use crate::policy::PayloadShape;
use crate::rewrite::{find_request, floor, messages};
use crate::verdict::Change;
use crate::words::words;

/// Output reserved where the request does not say.
const OUTPUT_RESERVE_TOKENS: u64 = 4_096;
const FITTING_MAX: usize = 20;

/// The payload to check, and how to read it.
#[derive(Debug, Clone, Copy)]
pub struct PreflightInput<'a> {
    /// JSON, or any text.
    pub payload: &'a str,
    pub shape: &'a PayloadShape,
    /// Outranks the one that the request names.
    pub model: Option<&'a str>,
    pub output_tokens: Option<u64>,
    /// Real tokens of an earlier payload, and what that one was estimated at.
    pub calibration: Option<(u64, u64)>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq)]
pub struct PreflightResult {
    pub verdict: PreflightVerdict,
    pub why: String,
    pub estimate: Estimate,
    pub budget: Option<Budget>,
    pub model: Option<String>,
    /// What would be left of a request with everything left out that may be.
    pub floor_tokens: Option<u64>,
    pub parts: Vec<Part>,
    pub fits: Vec<String>,
    pub split_into: Option<u64>,
    /// The target size for a request that does not fit.
    pub compress_to: Option<u64>,
}

impl PreflightResult {
    /// The change that makes it fit, where one does.
    pub fn change(&self) -> Option<Change> {
        let compress = self.verdict == PreflightVerdict::Compress;
        compress.then_some(Change::CompressContext { to_tokens: self.compress_to })
    }
}

/// Says whether a payload fits its model.
pub fn check(asked: &PreflightInput<'_>, models: &Models) -> PreflightResult {
    let mut measured = measure(asked);
    let likely = measured.estimate.tokens;
    let real = |tokens| scaled(tokens, calibrated(measured.estimate, asked.calibration).tokens, likely);
    measured.floor_tokens = measured.floor_tokens.map(real);
    let model = asked.model.map(str::to_owned).or_else(|| measured.model.clone());
    let estimate = calibrated(measured.estimate, asked.calibration);
    let output = asked.output_tokens.or(measured.output_tokens);
    let limits = model.as_deref().and_then(|name| models.limits(name));
    let fits = fitting(models, model.as_deref(), estimate.high, output.unwrap_or(0));
    let Some(limits) = limits else {
        let why = unknown(model.as_deref(), estimate);
        let verdict = PreflightVerdict::Warn;
        return found(verdict, why, estimate, None, model, measured, fits);
    };
    let budget = budget(limits, output);
    let floor = measured.floor_tokens;
    let verdict = judge(estimate, budget, floor, !measured.is_request);
    let name = model.as_deref().unwrap_or_default().to_owned();
    let share = measured.parts.first().map_or_else(String::new, |part| {
        format!(
            " The largest part is {} with {} tokens.",
            if part.pointer.is_empty() { "all of it" } else { &part.pointer },
            part.tokens
        )
    });
    let why = sentence(verdict, estimate, &name, budget.input_tokens, &share);
    let over = estimate.tokens > budget.input_tokens;
    // In the estimator's own tokens, which is what compression counts in.
    let room = scaled(budget.input_tokens, estimate.tokens, estimate.high);
    let compress_to = over.then(|| scaled(room, likely, estimate.tokens));
    let split_into = (verdict == PreflightVerdict::Split).then(|| estimate.high.div_ceil(budget.input_tokens.max(1)));
    PreflightResult { compress_to, split_into, ..found(verdict, why, estimate, Some(budget), model, measured, fits) }
}

fn found(
    verdict: PreflightVerdict,
    why: String,
    estimate: Estimate,
    budget: Option<Budget>,
    model: Option<String>,
    measured: Measured,
    fits: Vec<String>,
) -> PreflightResult {
    let Measured { floor_tokens, parts, .. } = measured;
    let (compress_to, split_into) = (None, None);
    PreflightResult { verdict, why, estimate, budget, model, floor_tokens, parts, fits, split_into, compress_to }
}

fn unknown(model: Option<&str>, estimate: Estimate) -> String {
    let Estimate { tokens, low, high } = estimate;
    match model {
        Some(name) => format!("About {tokens} tokens ({low} to {high}); the limits of {name} are unknown."),
        None => format!("About {tokens} tokens ({low} to {high}); no model is named."),
    }
}

fn budget(limits: ModelLimits, asked: Option<u64>) -> Budget {
    let most = limits.max_output_tokens.unwrap_or(u64::MAX);
    let output_tokens = asked.unwrap_or_else(|| OUTPUT_RESERVE_TOKENS.min(most).min(limits.context_tokens / 2));
    Budget {
        context_tokens: limits.context_tokens,
        max_input_tokens: limits.max_input_tokens,
        max_output_tokens: limits.max_output_tokens,
        output_tokens,
        input_tokens: limits.room_for_input(output_tokens),
    }
}

/// The same maker's models first: another maker needs another request format.
fn fitting(models: &Models, like: Option<&str>, input_tokens: u64, output_tokens: u64) -> Vec<String> {
    let wanted = like.map(maker);
    let mut fitting = models.fitting(input_tokens, output_tokens);
    fitting.sort_by_cached_key(|entry| Some(maker(&entry.name)) != wanted);
    fitting.into_iter().take(FITTING_MAX).map(|entry| entry.name.clone()).collect()
}

/// Measurements of a payload.
struct Measured {
    estimate: Estimate,
    floor_tokens: Option<u64>,
    parts: Vec<Part>,
    model: Option<String>,
    output_tokens: Option<u64>,
    /// It is a request to a model, not a text of any kind.
    is_request: bool,
}

fn measure(asked: &PreflightInput<'_>) -> Measured {
    let Some(tape) = Tape::of(asked.payload) else { return plain(asked) };
    let Some(mut request) = find_request(&tape, asked.shape) else { return any_json(asked, &tape) };
    if asked.model.is_some() {
        request.tokenizer = Tokenizer::of(asked.model);
    }
    request.reading = Reading::of(asked.payload);
    let messages = messages(&request);
    let (whole, parts) = of_request(&request, &messages, asked.shape);
    let estimate = request.reading.bounds(request.tokenizer.estimate(&whole));
    Measured {
        estimate,
        floor_tokens: Some(floor(&messages, estimate.tokens)),
        parts,
        model: request.model.and_then(|at| tape.string(at)).map(|name| name.into_owned()),
        output_tokens: request.output.and_then(|at| tape.whole(at)),
        is_request: true,
    }
}

fn any_json(asked: &PreflightInput<'_>, tape: &Tape<'_>) -> Measured {
    let of = Tokenizer::of(asked.model);
    let parts = of_any(tape, of);
    // Unknown structure counts as plain text.
    let text = plain(asked);
    let estimate = match tape.kind(tape.root()) {
        JsonKind::String => {
            let reading = Reading::of(asked.payload);
            reading.bounds(of.estimate(&reading.tally(tape, tape.root())))
        }
        JsonKind::Object | JsonKind::Array | JsonKind::Other => text.estimate,
    };
    Measured { estimate, parts, ..text }
}

fn plain(asked: &PreflightInput<'_>) -> Measured {
    let (of, reading) = (Tokenizer::of(asked.model), Reading::of(asked.payload));
    let whole = reading.text(asked.payload);
    Measured {
        estimate: reading.bounds(of.estimate(&whole)),
        floor_tokens: None,
        parts: vec![Part { pointer: String::new(), role: None, tokens: of.tokens(&whole) }],
        model: None,
        output_tokens: None,
        is_request: false,
    }
}

/// An estimate corrected by a real count of a similar payload.
fn calibrated(estimate: Estimate, calibration: Option<(u64, u64)>) -> Estimate {
    /// What the correction leaves of the error, in percent.
    const LEFT_PERCENT: u64 = 8;
    let Some((real, estimated)) = calibration.filter(|(real, estimated)| is_sane(*real, *estimated)) else {
        return estimate;
    };
    let tokens = scaled(estimate.tokens, real, estimated);
    Estimate { tokens, low: tokens * (100 - LEFT_PERCENT) / 100, high: (tokens * (100 + LEFT_PERCENT)).div_ceil(100) }
}

/// A count that is far off belongs to another payload.
fn is_sane(real: u64, estimated: u64) -> bool {
    real > 0 && estimated > 0 && real < estimated.saturating_mul(3) && estimated < real.saturating_mul(3)
}

words! {
    /// Whether a payload fits.
    pub enum PreflightVerdict {
        /// It fits, whatever the estimate's error.
        Ok = "ok",
        /// It may not fit, or the model is unknown.
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
    /// Requested output, or the room reserved for it where the request does not say.
    pub output_tokens: u64,
    /// What is left for the input.
    pub input_tokens: u64,
}

/// Past this share of the budget the verdict is a warning.
const WARN_FROM_PERCENT: u64 = 80;

/// Compares a payload with its budget. `floor` is its size with everything dropped that may be.
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
