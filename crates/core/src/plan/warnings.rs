//! What a person should know before saying yes, a sentence each.

use super::made::{Situation, StepFact, held_by};
use crate::ledger::Known;
use crate::policy::RetryBy;
use crate::run::Run;
use crate::wire::{PlanWarning, WarningCode};

/// Below this the number of replays left is worth a word.
const FEW_REPLAYS: u32 = 3;

pub(super) fn warnings(situation: &Situation<'_>, fixed: &Run, over_effect: bool) -> Vec<PlanWarning> {
    let Situation { run, steps, policy, .. } = situation;
    let unknown = |step: &&StepFact| step.effect && matches!(step.state.known(), Known::InDoubt | Known::Open);
    let omitted = |step: &&StepFact| step.output_omitted && step.state.known() == Known::Done;
    let left = policy.max_replays.saturating_sub(run.replays);
    let said = [
        names(steps.iter().filter(unknown)).map(|names| {
            (WarningCode::EffectUnknown, format!("Nobody knows whether this happened: {names}. Reconcile it first."))
        }),
        (run.effects.done > 0 && !run.resumable).then(|| {
            (WarningCode::EffectDone, "An effect is done and the run can't resume: its worker may do it again.".into())
        }),
        over_effect.then(|| {
            let said = "An effect lies behind the step to go on from: it is kept, though what led to it is done again.";
            (WarningCode::StepsAgain, said.into())
        }),
        versions(situation).map(|said| (WarningCode::VersionsChanged, said)),
        names(steps.iter().filter(omitted))
            .map(|names| (WarningCode::OutputOmitted, format!("Done, but the output was too large to keep: {names}."))),
        held_by(run).map(|by| (WarningCode::Held, format!("Held by {by}: a replay makes it due now."))),
        situation.breaker.as_ref().map(|breaker| {
            let what = if breaker.by_hand {
                "was opened by hand: the replay waits until it closes"
            } else {
                "is open: a replay passes it, and may well fail as the others did"
            };
            (WarningCode::BreakerOpen, format!("{} {what}.", breaker.name))
        }),
        situation.busy.as_ref().map(|busy| {
            (
                WarningCode::OrderKeyBusy,
                format!("{busy} has the same order key and is under way: this one waits for it."),
            )
        }),
        (!fixed.replayable && policy.retry_by == RetryBy::Worker).then(|| {
            (WarningCode::NotReplayable, "The payload was too large to send: give a new one with the fix.".into())
        }),
        (left < FEW_REPLAYS).then(|| (WarningCode::ReplaysLeft, replays_left(left))),
    ];
    said.into_iter().flatten().map(|(code, detail)| PlanWarning { code, detail }).collect()
}

fn names<'a>(steps: impl Iterator<Item = &'a StepFact>) -> Option<String> {
    let names: Vec<&str> = steps.map(|step| step.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn versions(situation: &Situation<'_>) -> Option<String> {
    let changed = situation.versions_changed.iter();
    let changed: Vec<String> = changed.map(|v| format!("{} {} is now {}", v.kind, v.recorded, v.now)).collect();
    (!changed.is_empty()).then(|| format!("It ran with other versions before: {}.", changed.join(", ")))
}

fn replays_left(left: u32) -> String {
    match left {
        0 => "No replay is left: only force, with a reason, replays it again.".into(),
        1 => "This is the last replay that its queue allows.".into(),
        more => format!("{more} replays are left."),
    }
}
