//! Plans by example.

use std::sync::Arc;

use super::{AttemptTarget, NoSuchStep, Plan, PlanInput, Proposed, StepFact, permit, plan, replay_rules};
use crate::ledger::{EntryState, VersionChange, Will};
use crate::lifecycle::Refused;
use crate::policy::{Approval, Policy, ReplayApproval};
use crate::run::{Run, State};
use crate::text::{Label, Text};
use crate::time::Timestamp;
use crate::verdict::{Change, DeadBecause};
use crate::wire::{Severity, WarningCode};

fn step(name: &str, effect: bool, state: EntryState) -> StepFact {
    StepFact { name: Label::from(name), key: name.parse().unwrap(), effect, state, output_omitted: false }
}

/// load (done), charge (an effect, done), write (done), mail (failed).
fn steps() -> Vec<StepFact> {
    vec![
        step("load", false, EntryState::Committed),
        step("charge", true, EntryState::Committed),
        step("write", false, EntryState::Committed),
        step("mail", true, EntryState::Failed),
    ]
}

fn dead() -> Run {
    let state = State::Dead { because: DeadBecause::Permanent };
    Run { state, resumable: true, attempt: 1, ..Run::new(Timestamp::default()) }
}

const TARGET: AttemptTarget<'_> = AttemptTarget { queue: "queue", agent: None, model: None };

fn situation<'a>(run: &'a Run, steps: &'a [StepFact], proposed: &'a Proposed, policy: &'a Policy) -> PlanInput<'a> {
    PlanInput {
        run,
        steps,
        proposed,
        target: TARGET,
        versions_changed: Vec::new(),
        severity: Severity::Normal,
        policy,
        busy: None,
        breaker: None,
    }
}

fn planned(run: &Run, steps: &[StepFact], proposed: &Proposed) -> Plan {
    plan(&situation(run, steps, proposed, &Policy::default())).unwrap()
}

fn will(plan: &Plan) -> Vec<Will> {
    plan.steps.iter().map(|step| step.will).collect()
}

fn from(step: &str) -> Proposed {
    Proposed { from_step: Some(Label::from(step)), ..Proposed::default() }
}

#[test]
fn done_steps_are_skipped_and_failed_ones_run() {
    let plan = planned(&dead(), &steps(), &Proposed::default());
    assert_eq!(will(&plan), [Will::Skip, Will::Skip, Will::Skip, Will::Run]);
    assert_eq!((plan.refused, plan.again.len(), plan.approval_needed), (None, 0, false));
}

#[test]
fn from_step_repeats_plain_steps_but_never_effects() {
    let plan = planned(&dead(), &steps(), &from("write"));
    assert_eq!(will(&plan), [Will::Skip, Will::Skip, Will::Run, Will::Run]);
    assert_eq!((plan.refused, plan.again.len()), (None, 1));
    let over = planned(&dead(), &steps(), &from("load"));
    assert_eq!(will(&over), [Will::Run, Will::Skip, Will::Run, Will::Run]);
    assert_eq!(over.refused, Some(Refused::Unsafe));
    let (run, steps, policy) = (dead(), steps(), Policy::default());
    assert_eq!(plan_of_nothing(&run, &steps, &policy), Err(NoSuchStep));
}

fn plan_of_nothing(run: &Run, steps: &[StepFact], policy: &Policy) -> Result<Plan, NoSuchStep> {
    plan(&situation(run, steps, &from("nowhere"), policy))
}

#[test]
fn unknown_effects_are_refused_with_a_warning() {
    let mut run = dead();
    run.effects.unknown = 1;
    let plan = planned(&run, &[step("charge", true, EntryState::Unknown)], &Proposed::default());
    assert_eq!((will(&plan), plan.refused), (vec![Will::Unknown], Some(Refused::EffectUnknown)));
    assert_eq!(plan.warnings.iter().map(|w| w.code).collect::<Vec<_>>(), [WarningCode::EffectUnknown]);
}

#[test]
fn the_plan_hash_covers_exactly_what_it_binds() {
    let (run, steps, policy, nothing) = (dead(), steps(), Policy::default(), Proposed::default());
    let base = situation(&run, &steps, &nothing, &policy);
    let hash = |situation: &PlanInput<'_>| plan(situation).unwrap().hash;
    let first = hash(&base);
    let other_policy = Policy { approval: Approval::of(ReplayApproval::Always), ..Policy::default() };
    assert_eq!(hash(&PlanInput { policy: &other_policy, severity: Severity::Critical, ..base.clone() }), first);

    let revised = Run { revision: 2, ..run.clone() };
    let failed = vec![step("load", false, EntryState::Failed)];
    let text = |text: &str| Some(Text::from(text));

    let fixes = [
        Proposed { payload: Some(vec![1]), ..Proposed::default() },
        Proposed { payload: Some(vec![2]), ..Proposed::default() },
        Proposed { instruction: text("a"), ..Proposed::default() },
        Proposed { instruction: text("b"), ..Proposed::default() },
        Proposed { force: true, ..Proposed::default() },
        from("write"),
    ];
    let versions = vec![VersionChange { kind: "worker".into(), recorded: Label::from("1"), now: Label::from("2") }];
    let mut hashes = vec![
        first,
        hash(&PlanInput { run: &revised, ..base.clone() }),
        hash(&PlanInput { steps: &failed, ..base.clone() }),
        hash(&PlanInput { target: AttemptTarget { queue: "other", ..TARGET }, ..base.clone() }),
        hash(&PlanInput { target: AttemptTarget { agent: Some("agent"), ..TARGET }, ..base.clone() }),
        hash(&PlanInput { versions_changed: versions, ..base.clone() }),
    ];
    hashes.extend(fixes.iter().map(|proposed| hash(&PlanInput { proposed, ..base.clone() })));

    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "two plans that differ have the same hash");
}

#[test]
fn a_fix_is_a_new_revision_and_supplies_a_payload() {
    let run = Run { replayable: false, ..dead() };
    assert_eq!(planned(&run, &[], &Proposed::default()).refused, Some(Refused::NotReplayable));
    let proposed =
        Proposed { payload: Some(vec![1]), instruction: Some(Text::from("be brief")), ..Proposed::default() };
    let plan = planned(&run, &[], &proposed);
    assert_eq!((plan.revision, plan.refused), (2, None));
    assert_eq!(super::fixed(&run, &proposed).changes, [Change::AddInstruction { text: "be brief".into() }]);
}

#[test]
fn permits_agree_with_the_whole_plan() {
    let asks = |replay| Policy { approval: Approval::of(replay), ..Policy::default() };
    let policies = [asks(ReplayApproval::Never), asks(ReplayApproval::Unsafe), asks(ReplayApproval::Always)];
    let mut in_doubt = dead();
    in_doubt.effects.unknown = 1;
    let mut done = Run { resumable: false, ..dead() };
    done.effects.done = 1;
    let runs = [dead(), in_doubt, done, Run { replayable: false, ..dead() }, Run::new(Timestamp::default())];
    let fixed = Proposed { payload: Some(vec![1]), ..Proposed::default() };
    for policy in &policies {
        for run in &runs {
            for proposed in [Proposed::default(), fixed.clone()] {
                let whole = plan(&situation(run, &steps(), &proposed, policy)).unwrap();
                let permit = permit(run, &proposed, Severity::Normal, policy);
                assert_eq!((permit.refused, permit.approval_needed), (whole.refused, whole.approval_needed));
            }
        }
    }
}

#[test]
fn policy_decides_on_approval_except_for_a_plain_retry() {
    let asks = |replay| Policy { approval: Approval::of(replay), ..Policy::default() };
    let nothing = Proposed::default();
    let needed = |run: &Run, proposed: &Proposed, policy: &Policy| {
        plan(&situation(run, &[], proposed, policy)).unwrap().approval_needed
    };
    let unsafe_run = Run { was_unsafe: true, ..dead() };
    assert!(needed(&dead(), &nothing, &asks(ReplayApproval::Always)));
    assert!(!needed(&dead(), &nothing, &asks(ReplayApproval::Unsafe)));
    assert!(needed(&unsafe_run, &nothing, &asks(ReplayApproval::Unsafe)));
    assert!(!needed(&dead(), &nothing, &asks(ReplayApproval::Severity(Severity::High))));
    let waiting = Run::new(Timestamp::default());
    assert!(!needed(&waiting, &nothing, &asks(ReplayApproval::Always)));
    let instructed = Proposed { instruction: Some(Text::from("x")), ..Proposed::default() };
    assert!(needed(&waiting, &instructed, &asks(ReplayApproval::Always)));
}

#[test]
fn replays_obey_every_queue_since_the_last_attempt() {
    let under =
        |approval, max_replays| Arc::new(Policy { approval: Approval::of(approval), max_replays, ..Policy::default() });
    let goes_to = under(ReplayApproval::Never, 5);
    let been_in = [under(ReplayApproval::Always, 10), under(ReplayApproval::Never, 2)];
    let mut run = dead();
    assert_eq!(replay_rules(&run, goes_to.clone(), &[]), goes_to);
    let rules = replay_rules(&run, goes_to.clone(), &been_in);
    assert_eq!((rules.approval.always, rules.max_replays), (true, 2));
    run.left_queues.more = true;
    assert!(replay_rules(&run, goes_to, &[]).approval.always, "the strictest where not all are known");
}

#[test]
fn breakers_warn_or_hold_without_changing_the_plan_hash() {
    let (run, proposed, policy) = (dead(), Proposed::default(), Policy::default());
    let base = situation(&run, &[], &proposed, &policy);
    let with = |by_hand| {
        let breaker = Some(super::OpenBreaker { name: Label::from("breaker:x"), by_hand });
        plan(&PlanInput { breaker, ..base.clone() }).unwrap()
    };
    let (open, frozen) = (with(false), with(true));
    assert_eq!((open.held_by.clone(), frozen.held_by.clone()), (None, Some(Label::from("breaker:x"))));
    for plan in [&open, &frozen] {
        assert!(plan.warnings.iter().any(|warning| warning.code == WarningCode::BreakerOpen), "{plan:?}");
    }
    assert_eq!((open.hash, frozen.hash), (plan(&base).unwrap().hash, plan(&base).unwrap().hash));
}

/// Each warning by its code, with what it says.
fn warned(situation: &PlanInput<'_>) -> Vec<(WarningCode, String)> {
    plan(situation).unwrap().warnings.into_iter().map(|warning| (warning.code, warning.detail)).collect()
}

#[test]
fn plain_and_settled_steps_raise_no_doubt() {
    let (run, nothing, policy) = (dead(), Proposed::default(), Policy::default());
    let known = [step("a", true, EntryState::Committed), step("b", false, EntryState::Unknown)];
    assert_eq!(warned(&situation(&run, &known, &nothing, &policy)), []);
    let large = |state| vec![StepFact { output_omitted: true, ..step("load", false, state) }];
    assert_eq!(warned(&situation(&run, &large(EntryState::Failed), &nothing, &policy)), []);
    let said = "Done, but the output was too large to keep: load.".to_owned();
    let done = large(EntryState::Committed);
    assert_eq!(warned(&situation(&run, &done, &nothing, &policy)), [(WarningCode::OutputOmitted, said)]);
}

#[test]
fn effects_that_may_repeat_raise_a_warning() {
    let (nothing, policy) = (Proposed::default(), Policy::default());
    let codes = |done, resumable| {
        let mut run = Run { resumable, ..dead() };
        run.effects.done = done;
        warned(&situation(&run, &[], &nothing, &policy)).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    assert_eq!((codes(0, false), codes(1, true), codes(1, false)), (vec![], vec![], vec![WarningCode::EffectDone]));
    assert_eq!(codes(2, false), [WarningCode::EffectDone]);
}

#[test]
fn few_replays_left_raise_a_warning() {
    let (nothing, policy) = (Proposed::default(), Policy { max_replays: 5, ..Policy::default() });
    let said = |replays| {
        let run = Run { replays, ..dead() };
        warned(&situation(&run, &[], &nothing, &policy))
            .pop()
            .map(|(code, said)| (code == WarningCode::ReplaysLeft, said))
    };
    assert_eq!((said(0), said(2)), (None, None));
    assert_eq!(said(3), Some((true, "2 replays are left.".into())));
    assert_eq!(said(4), Some((true, "This is the last replay that its queue allows.".into())));
    assert_eq!(said(5), Some((true, "No replay is left: only force, with a reason, replays it again.".into())));
}

#[test]
fn versions_holds_and_missing_payloads_raise_warnings() {
    let (nothing, policy) = (Proposed::default(), Policy::default());
    let changed = vec![VersionChange { kind: "worker".into(), recorded: Label::from("1"), now: Label::from("2") }];
    let run = dead();
    let with_versions = PlanInput { versions_changed: changed, ..situation(&run, &[], &nothing, &policy) };
    let said = "It ran with other versions before: worker 1 is now 2.".to_owned();
    assert_eq!(warned(&with_versions), [(WarningCode::VersionsChanged, said)]);
    let due = crate::run::Due::Held(Label::from("b"));
    let held = Run { state: State::Scheduled(crate::run::Scheduled { due, replay: false }), ..dead() };
    let said = "Held by b: a replay makes it due now.".to_owned();
    assert_eq!(warned(&situation(&held, &[], &nothing, &policy)), [(WarningCode::Held, said)]);
    let without = Run { replayable: false, ..dead() };
    let codes = |retry_by| {
        let policy = Policy { retry_by, ..Policy::default() };
        warned(&situation(&without, &[], &nothing, &policy)).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    assert_eq!(codes(crate::policy::RetryBy::Worker), [WarningCode::NotReplayable]);
    assert_eq!(codes(crate::policy::RetryBy::Caller), []);
}
