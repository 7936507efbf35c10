//! Before the first attempt: does the payload fit its model, where the queue wants to know.

use redrive_core::policy::{Policy, Preflight};
use redrive_core::preflight::{Asked, PreflightVerdict, check};
use redrive_core::wire::PreflightBrief;
use redrive_store::Fit;

/// The rule that a dead letter of this kind names.
const TOO_LARGE: &str = "preflight.too_large";

/// What was found, and what is done about it.
pub(crate) fn fit(payload: &str, model: Option<&str>, policy: &Policy) -> (Fit, Option<PreflightBrief>) {
    if policy.preflight == Preflight::Off {
        return (Fit::AsItIs, None);
    }
    let asked = Asked { payload, shape: &policy.payload, model, output_tokens: None, calibration: None };
    let checked = check(&asked, &policy.models);
    let fit = match (policy.preflight, checked.verdict) {
        (Preflight::Off | Preflight::Warn, _) | (Preflight::Enforce, PreflightVerdict::Ok | PreflightVerdict::Warn) => {
            Fit::AsItIs
        }
        (Preflight::Enforce, PreflightVerdict::Compress) => Fit::With(checked.change().into_iter().collect()),
        (Preflight::Enforce, PreflightVerdict::Split | PreflightVerdict::Reject) => {
            Fit::Never { rule: TOO_LARGE, why: checked.why.clone() }
        }
    };
    let brief = PreflightBrief {
        verdict: checked.verdict,
        why: checked.why,
        estimate: checked.estimate,
        budget: checked.budget,
    };
    (fit, (brief.verdict != PreflightVerdict::Ok).then_some(brief))
}
