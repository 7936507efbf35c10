//! The state of a run and the recommended action in words, the same in the terminal and in the browser.

use crate::run::StateName;
use crate::verdict::RecommendedAction;
use crate::wire::RunDetail;

/// The state of a run in a sentence or two.
pub fn happened(run: &RunDetail) -> Vec<String> {
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

/// The recommended action as a sentence fragment.
pub fn advice(action: RecommendedAction) -> &'static str {
    match action {
        RecommendedAction::RetryWithBackoff => "replay it; the cause is temporary",
        RecommendedAction::TruncateAndResubmit => "make the input smaller, then replay",
        RecommendedAction::EscalateToTenant => "tell the tenant: only they can fix it",
        RecommendedAction::ManualReviewRequired => "look at what was done before anything is repeated",
        RecommendedAction::FixAndReplay => "fix the cause, then replay",
        RecommendedAction::Reassign => "give it to another agent or queue",
        RecommendedAction::Discard => "discard it; the work is done or no longer wanted",
    }
}
