//! How a run's page puts things.

use redrive_core::verdict::RecommendedAction;
use redrive_core::wire::ErrorReport;

const CUT_AT_CHARS: usize = 160;

pub(super) fn error_kind(error: &ErrorReport) -> Option<String> {
    let kind = error.error_type.as_ref().map(|kind| kind.decode().into_owned());
    let status = error.http_status.map(|status| format!("HTTP {status}"));
    let said: Vec<String> = [kind, status].into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// A long line without its end.
pub(super) fn cut(line: &str) -> String {
    if line.chars().nth(CUT_AT_CHARS).is_none() {
        return line.into();
    }
    let mut short: String = line.chars().take(CUT_AT_CHARS).collect();
    short.push('…');
    short
}

/// What a person had best do, as a sentence.
pub(super) fn advice(action: RecommendedAction) -> &'static str {
    match action {
        RecommendedAction::RetryWithBackoff => "replay it; the cause passes by itself",
        RecommendedAction::TruncateAndResubmit => "make the input smaller, then replay",
        RecommendedAction::EscalateToTenant => "tell the tenant: only they can mend it",
        RecommendedAction::ManualReviewRequired => "look at what was done before anything is repeated",
        RecommendedAction::FixAndReplay => "mend the cause, then replay",
        RecommendedAction::Reassign => "give it to another agent or queue",
        RecommendedAction::Discard => "discard it; the work is done or no longer wanted",
    }
}
