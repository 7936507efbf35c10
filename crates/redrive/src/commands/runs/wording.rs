//! How a run's page puts things.

use redrive_core::run::StateName;
use redrive_core::verdict::RecommendedAction;
use redrive_core::wire::{ErrorReport, RunDetail};

const CUT_AT_CHARS: usize = 160;

/// How the run stands, in a sentence or two.
pub(super) fn happened(run: &RunDetail) -> Vec<String> {
    let why = run.body.verdict.as_ref().map(|verdict| verdict.why.clone());
    let before = why.clone().map(|why| format!("Before that: {why}"));
    let attempt = run.summary.attempt;
    let (now, also) = match run.summary.state {
        StateName::Scheduled => (why.unwrap_or_else(|| "It waits for a worker.".into()), None),
        StateName::Dead | StateName::Review => (why.unwrap_or_else(|| "It waits for a person.".into()), None),
        StateName::Running => (format!("Attempt {attempt} is under way."), before),
        StateName::Succeeded => ("It succeeded.".into(), None),
        StateName::Recovered => (format!("It recovered on attempt {attempt}."), before),
        StateName::Resolved => ("A person resolved it.".into(), before),
        StateName::Discarded => ("A person discarded it.".into(), before),
        StateName::Merged => {
            let into = run.summary.merged_into.as_ref().map_or("another run", |into| into.as_str());
            (format!("It was merged into {into}."), before)
        }
    };
    std::iter::once(now).chain(also).collect()
}

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
