//! Badges. Colour means state only, and always comes with a word.

use maud::{Markup, html};
use redrive_core::breaker::BreakerStateName;
use redrive_core::ledger::Will;
use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{ItemOutcome, OperationState, PatternState, PatternView, RunSummary, Severity};

fn badge(class: &str, mark: &str, word: &str) -> Markup {
    html! {
        span class=(format!("badge {class}")) { @if !mark.is_empty() { span aria-hidden="true" { (mark) } } (word) }
    }
}

/// The state, with why a run is dead or that it is held.
pub(crate) fn state_badge(run: &RunSummary) -> Markup {
    match (run.state, run.dead_because) {
        (StateName::Dead, Some(because)) => because_badge(because),
        (StateName::Scheduled, _) if run.held_by.is_some() => badge("wait", "", "held"),
        (state, _) => state_word_badge(state),
    }
}

pub(crate) fn state_word_badge(state: StateName) -> Markup {
    let (class, mark) = match state {
        StateName::Dead => ("dead", "●"),
        StateName::Review => ("review", "◆"),
        StateName::Scheduled | StateName::Running => ("wait", ""),
        StateName::Succeeded | StateName::Recovered => ("good", ""),
        StateName::Resolved | StateName::Discarded | StateName::Merged => ("", ""),
    };
    badge(class, mark, state.as_str())
}

/// Amber if a person has to decide, red otherwise.
pub(crate) fn because_badge(because: DeadBecause) -> Markup {
    match because {
        DeadBecause::Unsafe => badge("review", "◆", "unsafe"),
        DeadBecause::Exhausted
        | DeadBecause::Permanent
        | DeadBecause::Poison
        | DeadBecause::Expired
        | DeadBecause::Rejected
        | DeadBecause::Manual => badge("dead", "●", because.as_str()),
    }
}

/// Normal and low severity have no badge.
pub(crate) fn severity_badge(severity: Severity) -> Markup {
    match severity {
        Severity::Critical => badge("dead", "●", "critical"),
        Severity::High => badge("review", "", "high"),
        Severity::Normal | Severity::Low => html! {},
    }
}

pub(crate) fn pattern_badges(pattern: &PatternView) -> Markup {
    html! {
        @if pattern.regression { (badge("dead", "●", "regression")) " " }
        @match pattern.state {
            PatternState::New => { (badge("wait", "", "new")) " " }
            PatternState::Acknowledged => { (badge("", "", "acknowledged")) " " }
            PatternState::Resolved => { (badge("good", "", "resolved")) " " }
            PatternState::Muted => { (badge("", "", "muted")) " " }
        }
    }
}

pub(crate) fn operation_badge(state: OperationState) -> Markup {
    let (class, mark) = match state {
        OperationState::Preview => ("review", "◆"),
        OperationState::Running => ("wait", ""),
        OperationState::Paused | OperationState::Cancelled => ("", ""),
        OperationState::Stopped => ("dead", "●"),
        OperationState::Completed => ("good", ""),
    };
    badge(class, mark, state.as_str())
}

pub(crate) fn outcome_badge(outcome: ItemOutcome) -> Markup {
    let class = match outcome {
        ItemOutcome::Waiting | ItemOutcome::Moved => "wait",
        ItemOutcome::Succeeded => "good",
        ItemOutcome::Failed => "dead",
        ItemOutcome::Skipped | ItemOutcome::Ineligible => "",
    };
    badge(class, "", outcome.as_str())
}

pub(crate) fn breaker_badge(state: BreakerStateName) -> Markup {
    match state {
        BreakerStateName::Open => badge("dead", "●", "open"),
        BreakerStateName::HalfOpen => badge("review", "◆", "half open"),
        BreakerStateName::Closed => badge("good", "", "closed"),
    }
}

pub(crate) fn will_badge(will: Will) -> Markup {
    match will {
        Will::Skip => badge("", "", "skip"),
        Will::Run => badge("wait", "", "run"),
        Will::Unknown => badge("review", "◆", "unknown"),
    }
}
