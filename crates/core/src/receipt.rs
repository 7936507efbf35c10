//! A run's receipt for the customer it was for: times, tries and outcome in plain words. It contains no error texts, no
//! names of machines or models, and no notes of operators.

use serde::Serialize;

use crate::reason::Reason;
use crate::run::StateName;
use crate::time::Timestamp;
use crate::wire::{AttemptView, HistoryEntry, RunDetail, StepStatus, StepView};

pub use ReceiptLine as Told;

/// A longer step name is cut.
const NAME_MAX_CHARS: usize = 80;

/// A run as its customer sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Receipt {
    pub reference: String,
    pub outcome: String,
    /// In the order of time.
    pub events: Vec<ReceiptLine>,
    /// Effects that are done or have an unknown outcome.
    pub effects: Vec<ReceiptLine>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceiptLine {
    pub at: Timestamp,
    pub what: String,
}

pub fn receipt(run: &RunDetail) -> Receipt {
    let mut events: Vec<ReceiptLine> = run.body.history.iter().filter_map(moved).collect();
    events.extend(run.body.attempts.iter().map(tried));
    events.sort_by_key(|told| told.at);
    Receipt {
        reference: run.summary.run_id.to_string(),
        outcome: outcome(run),
        events,
        effects: run.body.steps.iter().filter(|step| step.effect).filter_map(effect).collect(),
    }
}

fn outcome(run: &RunDetail) -> String {
    let tries = run.body.attempts.len();
    match run.summary.state {
        StateName::Succeeded => "It was completed.".into(),
        StateName::Recovered if tries > 1 => {
            format!("It was completed. It did not go well at first and took {tries} tries.")
        }
        StateName::Recovered => "It was completed. It did not go well at first.".into(),
        StateName::Scheduled => "It is not done yet: it will be tried again.".into(),
        StateName::Running => "It is being worked on.".into(),
        StateName::Dead | StateName::Review => "It is not done yet: a person is looking after it.".into(),
        StateName::Resolved => "It was settled by a person.".into(),
        StateName::Discarded => "It was closed without being completed.".into(),
        StateName::Merged => "It was joined with another request for the same work.".into(),
    }
}

/// Events that concern the customer; internal ones are left out.
fn moved(entry: &HistoryEntry) -> Option<ReceiptLine> {
    let what = match entry.event.as_str() {
        "received" => "We received it.",
        "replay" | "force_replay" | "approve" => "A person started it again.",
        "fix" => "A person changed what it was to be tried with.",
        "review" => "It was put aside for a person to decide on.",
        "reject" => "It was decided not to start it again for now.",
        "reconcile" | "reconciled" => "A person checked what had really been done.",
        "defer" => "It was put off until later.",
        "cancel" => "A person stopped it.",
        "resolve" => "A person settled it.",
        "discard" => "It was closed.",
        "merge" => "It was joined with another request for the same work.",
        "unmerge" => "It was taken up by itself again.",
        // Attempts are listed by themselves; the rest is internal.
        _ => return None,
    };
    Some(ReceiptLine { at: entry.at, what: what.into() })
}

fn tried(attempt: &AttemptView) -> ReceiptLine {
    let n = attempt.attempt;
    let what = match (attempt.outcome.as_str(), &attempt.verdict) {
        ("succeeded", _) => format!("Try {n}: it was completed."),
        ("running", _) => format!("Try {n}: it is being worked on."),
        ("cancelled", _) => format!("Try {n}: it was stopped."),
        (_, Some(verdict)) => format!("Try {n}: {}.", in_plain_words(&verdict.reason)),
        (_, None) => format!("Try {n}: it did not go well."),
    };
    ReceiptLine { at: attempt.recorded_at, what }
}

fn effect(step: &StepView) -> Option<ReceiptLine> {
    let name = plain(step.name.as_str());
    let what = match step.status {
        StepStatus::Committed | StepStatus::Reconciled => format!("{name}: done, once."),
        StepStatus::Started | StepStatus::Unknown => format!("{name}: we do not know yet whether it was done."),
        StepStatus::Failed => return None,
    };
    Some(ReceiptLine { at: step.at, what })
}

/// A step's name comes from the producer: only letters, digits and hyphens are shown.
fn plain(name: &str) -> String {
    let kept = name.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { ' ' });
    kept.take(NAME_MAX_CHARS).collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn in_plain_words(reason: &Reason) -> &'static str {
    match reason {
        Reason::Timeout | Reason::Network | Reason::DependencyUnavailable => {
            "a service it needs did not answer in time"
        }
        Reason::RateLimited | Reason::ProviderOverloaded | Reason::ResourceExhausted => {
            "a service it needs had too much to do"
        }
        Reason::ProviderError | Reason::ToolError | Reason::ToolNotFound | Reason::NotFound => {
            "a service it needs had a problem"
        }
        Reason::QuotaExhausted | Reason::TokenBudgetExceeded => "it reached a limit that is set for it",
        Reason::ContextOverflow | Reason::OutputTruncated => "there was too much to work through at once",
        Reason::MalformedOutput
        | Reason::SchemaMismatch
        | Reason::EmptyOutput
        | Reason::NoEffect
        | Reason::HallucinationLoop
        | Reason::MaxIterations => "the result was not good enough to be used",
        Reason::ContentFiltered => "it was held back by a safety check",
        Reason::AuthFailed | Reason::PermissionDenied => "it was not allowed to use a service it needs",
        Reason::InvalidRequest | Reason::DataIntegrity => "something in the request could not be worked with",
        Reason::ConflictDuplicate => "the same work was there already",
        Reason::ApprovalExpired => "nobody approved it in time",
        Reason::Cancelled => "it was stopped",
        Reason::Silent => "the program working on it stopped answering",
        Reason::Unclaimed => "nobody was there to work on it",
        Reason::Bug | Reason::Unknown | Reason::Custom(_) => "it did not go well",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_describe_reasons_without_jargon() {
        for reason in Reason::BUILT_IN {
            let said = in_plain_words(reason);
            assert!(!said.contains('_') && !said.contains("model") && !said.contains("token"), "{reason}: {said}");
        }
    }

    #[test]
    fn step_names_become_plain_words() {
        assert_eq!(plain("charge_card\u{1b}[31m\u{202e}"), "charge card 31m");
        assert_eq!(plain(&"x".repeat(500)).len(), NAME_MAX_CHARS);
    }
}
