//! The decision as a sentence for the on-call engineer.

use std::borrow::Cow;

use crate::reason::Reason;
use crate::strategy::Failure;
use crate::strategy::decide::CapReached;
use crate::strategy::plan::TooLong;
use crate::text::Label;
use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS};
use crate::verdict::{Change, DeadBecause, Target};

/// The basis of a decision.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Because {
    EffectUnknown,
    EffectDone,
    Terminal,
    SameFailure(u32),
    KillsWorkers(u32),
    Permanent,
    BudgetUsed(u32),
    /// There is no number left for another.
    NoMoreAttempts(u32),
    NoPayload,
    NeedsAPerson,
    TriesUsed(u32),
    NothingToWaitFor,
    /// What could still be changed was tried, or can't be had.
    NothingNew {
        again: Vec<Change>,
        missing: Vec<&'static str>,
    },
    TooLong(TooLong),
    CapReached(CapReached),
    Retry {
        wait_ms: u64,
        left: u32,
        fresh: Vec<Change>,
        target: Target,
        missing: Vec<&'static str>,
    },
}

impl Because {
    /// Whether changes are used up, so that the fallback queue may try.
    pub(super) fn may_fall_back(&self) -> bool {
        match self {
            Self::TriesUsed(_) | Self::NothingNew { .. } | Self::TooLong(_) => true,
            Self::EffectUnknown
            | Self::EffectDone
            | Self::Terminal
            | Self::SameFailure(_)
            | Self::KillsWorkers(_)
            | Self::Permanent
            | Self::BudgetUsed(_)
            | Self::NoMoreAttempts(_)
            | Self::NoPayload
            | Self::NeedsAPerson
            | Self::NothingToWaitFor
            | Self::CapReached(_)
            | Self::Retry { .. } => false,
        }
    }

    pub(super) fn dead_because(&self) -> DeadBecause {
        match self {
            Self::EffectUnknown | Self::EffectDone => DeadBecause::Unsafe,
            Self::SameFailure(_) | Self::KillsWorkers(_) => DeadBecause::Poison,
            Self::Terminal | Self::Permanent | Self::NeedsAPerson | Self::NothingToWaitFor | Self::TooLong(_) => {
                DeadBecause::Permanent
            }
            Self::BudgetUsed(_)
            | Self::NoMoreAttempts(_)
            | Self::TriesUsed(_)
            | Self::NothingNew { .. }
            | Self::CapReached(_)
            | Self::Retry { .. } => DeadBecause::Exhausted,
            Self::NoPayload => DeadBecause::Rejected,
        }
    }
}

pub(super) fn sentence(failure: &Failure, because: &Because) -> String {
    let what = what_happened(failure);
    match because {
        Because::EffectUnknown => {
            format!("{what}, and a step with an outside effect has no known outcome: reconcile it before any replay.")
        }
        Because::EffectDone => {
            format!("{what} after an outside effect was done, and the run can't resume: a retry would do it twice.")
        }
        Because::Terminal => format!("{what}, and the caller says that nothing more may be tried."),
        Because::SameFailure(n) => {
            format!("{what} in the same way on {n} attempts in a row: another one won't differ.")
        }
        Because::KillsWorkers(n) => format!("{what} on {n} attempts in a row: it seems to kill its workers."),
        Because::Permanent => format!("{what}: a retry can't help until something is corrected."),
        Because::BudgetUsed(1) => format!("{what}, and its one attempt is used."),
        Because::BudgetUsed(n) => format!("{what}, and all {n} attempts are used."),
        Because::NoMoreAttempts(n) => format!("{what}, and a run can have no more than {n} attempts."),
        Because::NoPayload => format!("{what}, and its payload was too large to send: no worker can run it again."),
        Because::NeedsAPerson => {
            format!("{what}: it can succeed once a person has changed something, so it waits for one.")
        }
        Because::TriesUsed(_) => format!("{what} again after the changed retry: it waits for a person."),
        Because::NothingToWaitFor => format!("{what}, and nothing says when it resets."),
        Because::NothingNew { again, missing } if again.is_empty() => {
            format!("{what}, and nothing can be changed: {}.", missing.join(", "))
        }
        Because::NothingNew { again, missing } => {
            let tried = listed(again.iter().map(in_few_words).collect());
            format!("{what}, and what could be changed was tried already ({tried}){}.", but(missing))
        }
        Because::TooLong(TooLong { least, allowed: Some(allowed) }) => {
            format!(
                "{what}. Even cut as far as allowed it has {least} tokens; no available model takes more than {allowed}."
            )
        }
        Because::TooLong(TooLong { least, allowed: None }) => {
            format!("{what}. None of its {least} tokens may be left out, and no larger model is available.")
        }
        Because::CapReached(CapReached { whose, used, allowed }) => {
            format!("{what}, and {whose} have used {used} of the {allowed} they may: no further retry.")
        }
        Because::Retry { wait_ms, left, fresh, target, missing } => {
            let attempts = if *left == 1 { "1 attempt".to_owned() } else { format!("{left} attempts") };
            let (wait, how) = (duration(*wait_ms), how(&cutting(fresh, failure), target));
            format!("{what}: retry in {wait}{how}, {attempts} left{}.", but(missing))
        }
    }
}

/// The changes worth mentioning: an input that fits is not cut.
fn cutting<'a>(fresh: &'a [Change], failure: &Failure) -> Vec<&'a Change> {
    let input = failure.room.as_ref().map(|room| room.tokens).or(failure.facts.actual);
    let fits = |change: &&Change| match (change, input) {
        (Change::CompressContext { to_tokens: Some(to) }, Some(input)) => *to >= input,
        (_, Some(_) | None) => false,
    };
    fresh.iter().filter(|change| !fits(change)).collect()
}

/// What the retry does differently, and where it goes.
fn how(fresh: &[&Change], target: &Target) -> String {
    let place = |word: &str, name: Option<&str>| name.map(|name| format!(" {word} {name}")).unwrap_or_default();
    let mut how = if fresh.is_empty() {
        String::new()
    } else {
        format!(" with {}", listed(fresh.iter().map(|change| in_few_words(change)).collect()))
    };
    how.push_str(&place("by agent", target.agent.as_ref().map(Label::as_str)));
    how.push_str(&place("on model", target.model.as_ref().map(Label::as_str)));
    how.push_str(&place("in queue", target.queue.as_ref().map(|queue| queue.as_str())));
    how
}

fn in_few_words(change: &Change) -> String {
    match change {
        Change::CompressContext { to_tokens: Some(tokens) } => format!("the input cut to {tokens} tokens"),
        Change::CompressContext { to_tokens: None } => "the input cut to fit".into(),
        Change::AddInstruction { text } => format!("the instruction “{text}”"),
        Change::AddConstraint { text } => format!("the constraint “{text}”"),
        Change::AddLastError { .. } => "the last error".into(),
        Change::ScaleOutputBudget { factor } => format!("{factor} times the output budget"),
        Change::SetModel { model } => format!("model {model}"),
    }
}

fn listed(mut words: Vec<String>) -> String {
    let Some(last) = words.pop() else { return String::new() };
    if words.is_empty() { last } else { format!("{} and {last}", words.join(", ")) }
}

fn but(missing: &[&str]) -> String {
    if missing.is_empty() { String::new() } else { format!("; {}", missing.join(", ")) }
}

/// The reason as the start of a sentence.
fn what_happened(failure: &Failure) -> Cow<'static, str> {
    let what = in_words(&failure.reason);
    let extent = match (failure.facts.actual, failure.facts.limit) {
        // Figures that don't show what was passed (a cost below one, a rate's share) would only puzzle.
        (Some(actual), Some(limit)) if actual > limit && limit > 0 => format!(" ({actual} of {limit})"),
        (None, Some(limit)) if limit > 0 => format!(" (limit {limit})"),
        (Some(_) | None, Some(_) | None) => return what,
    };
    Cow::Owned(format!("{what}{extent}"))
}

fn in_words(reason: &Reason) -> Cow<'static, str> {
    Cow::Borrowed(match reason {
        Reason::Timeout => "It timed out",
        Reason::RateLimited => "It was rate limited",
        Reason::QuotaExhausted => "The provider account's quota is used up",
        Reason::ProviderOverloaded => "The provider is overloaded",
        Reason::ProviderError => "The provider failed",
        Reason::Network => "The network failed",
        Reason::ContextOverflow => "The input does not fit the model's context",
        Reason::TokenBudgetExceeded => "It passed its own token or cost budget",
        Reason::OutputTruncated => "The output was cut off",
        Reason::MalformedOutput => "The model's answer can't be parsed",
        Reason::SchemaMismatch => "The output breaks its schema",
        Reason::ContentFiltered => "A content filter stopped it",
        Reason::HallucinationLoop => "The agent repeats itself",
        Reason::MaxIterations => "It ran out of steps",
        Reason::ToolError => "A tool failed",
        Reason::ToolNotFound => "A tool does not exist",
        Reason::AuthFailed => "It was not authenticated",
        Reason::PermissionDenied => "It was not allowed",
        Reason::InvalidRequest => "The request itself is wrong",
        Reason::NotFound => "What it asks for does not exist",
        Reason::ConflictDuplicate => "It is already there, or held by another",
        Reason::ResourceExhausted => "Our side ran out of resources",
        Reason::DependencyUnavailable => "A service that it needs is not available",
        Reason::ApprovalExpired => "Nobody approved it in time",
        Reason::Cancelled => "It was cancelled",
        Reason::DataIntegrity => "Stored data is broken or inconsistent",
        Reason::Bug => "The code has a defect",
        Reason::Unknown => "It failed for a reason that the error does not name",
        Reason::Silent => "The worker went silent",
        Reason::Unclaimed => "No worker took it",
        Reason::EmptyOutput => "The answer was empty",
        Reason::NoEffect => "It claimed success without the declared effect",
        Reason::Custom(custom) => return Cow::Owned(format!("It failed with {}", custom.name())),
    })
}

/// A wait as people say it: the largest unit that keeps it readable.
fn duration(ms: u64) -> String {
    match ms {
        0..MINUTE_MS => format!("{} s", ms.div_ceil(SECOND_MS)),
        MINUTE_MS..HOUR_MS => format!("{} min", ms.div_ceil(MINUTE_MS)),
        HOUR_MS..DAY_MS => format!("{} h", ms.div_ceil(HOUR_MS)),
        _ => format!("{} days", ms.div_ceil(DAY_MS)),
    }
}
