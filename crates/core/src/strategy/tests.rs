//! The table row by row, and every reason for which a retry is not made.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::classify::Facts;
use crate::money::{Spend, Usd};
use crate::policy::{Agents, Budgets, Policy, PolicyLayer, RetryBy, StrategyLayer, Towards};
use crate::reason::Reason;
use crate::rewrite::Room;
use crate::run::{Around, FailureMemory, Run};
use crate::text::Label;
use crate::time::Timestamp;
use crate::verdict::{Action, Change, DeadBecause, Verdict};

fn now() -> Timestamp {
    Timestamp::from_millis(1_000_000_000_000)
}

fn run() -> Run {
    let around = Around { model: Some("gpt-4o".into()), agent: Some("a".into()), ..Around::default() };
    Run { attempt: 1, around, ..Run::new(now()) }
}

fn policy(layer: &PolicyLayer) -> Policy {
    layer.check().unwrap();
    Policy::resolve(RetryBy::Worker, &[layer])
}

fn ladder(models: &[&str]) -> PolicyLayer {
    PolicyLayer { models: Some(models.iter().map(ToString::to_string).collect()), ..PolicyLayer::default() }
}

fn of(reason: Reason) -> Failure {
    Failure::found(reason, "sample")
}

fn judged(failure: &Failure, run: &Run, policy: &Policy) -> Verdict {
    decide(failure, run, policy, now(), 0.5).verdict
}

fn overflow(actual: Option<u64>, limit: Option<u64>, room: Option<(u64, u64)>) -> Failure {
    let room = room.map(|(tokens, floor_tokens)| Room { tokens, floor_tokens, model: None, output_tokens: None });
    Failure { facts: Facts { actual, limit, ..Facts::default() }, room, ..of(Reason::ContextOverflow) }
}

fn compressed_to(verdict: &Verdict) -> Option<u64> {
    verdict.changes.iter().find_map(|change| match change {
        Change::CompressContext { to_tokens } => *to_tokens,
        _ => None,
    })
}

#[test]
fn an_overflow_is_cut_to_the_limit_less_output() {
    let verdict = judged(&overflow(Some(130_000), Some(128_000), Some((130_000, 2_000))), &run(), &Policy::default());
    let to = compressed_to(&verdict).unwrap();
    assert!((110_000..=128_000 - 4_096).contains(&to), "{to}");
    insta::assert_snapshot!(verdict.why, @"The input does not fit the model's context (130000 of 128000): retry in 10 s with the input cut to 117708 tokens and the instruction “Focus on the core task.”, 3 attempts left; no larger model is set for the queue.");
}

#[test]
fn no_cut_is_mentioned_if_the_larger_model_fits() {
    let larger = policy(&ladder(&["gpt-4o", "gpt-4.1"]));
    let why = |room| judged(&overflow(Some(160_123), Some(128_000), room), &run(), &larger).why;
    let told = "The input does not fit the model's context (160123 of 128000): retry in 10 s with the instruction “Focus on the core task.” on model gpt-4.1, 3 attempts left.";
    assert_eq!(why(Some((160_000, 2_000))), told);
    assert_eq!(why(None), told, "what the provider has counted says the same");
}

#[test]
fn without_a_limit_in_the_error_the_catalogue_decides() {
    let verdict = judged(&overflow(None, None, Some((300_000, 2_000))), &run(), &Policy::default());
    let to = compressed_to(&verdict).unwrap();
    assert!((90_000..128_000 - 4_096).contains(&to), "{to}");
    let unknown = Run { around: Around::default(), ..run() };
    let verdict = judged(&overflow(None, None, None), &unknown, &Policy::default());
    assert_eq!((verdict.action, compressed_to(&verdict)), (Action::Retry, None));
}

#[test]
fn the_first_larger_model_that_fits_is_chosen() {
    let with =
        |models: &[&str], need| judged(&overflow(Some(need), None, None), &run(), &policy(&ladder(models))).target;
    let model = |models: &[&str], need| with(models, need).model.map(|model| model.to_string());
    assert_eq!(model(&["gpt-4o", "gpt-5", "gpt-5.4"], 200_000).as_deref(), Some("gpt-5"));
    assert_eq!(model(&["gpt-4o", "gpt-5", "gpt-5.4"], 500_000).as_deref(), Some("gpt-5.4"));
    assert_eq!(model(&["gpt-4o", "gpt-4-turbo", "gpt-4"], 200_000), None);
    assert_eq!(model(&["gpt-4", "gpt-4o"], 200_000), None);
    // Not on the ladder: whatever on it is larger will do.
    assert_eq!(model(&["gpt-4", "gpt-5"], 200_000).as_deref(), Some("gpt-5"));
    // Nobody knows them: then the ladder's order is believed.
    let house = Run { around: Around { model: Some("house-s".into()), ..Around::default() }, ..run() };
    let verdict = judged(&overflow(None, None, None), &house, &policy(&ladder(&["house-s", "house-l"])));
    assert_eq!(verdict.target.model, Some("house-l".into()));
}

#[test]
fn an_overflow_that_cannot_shrink_is_dead_lettered_at_once() {
    let stuck = overflow(Some(150_000), Some(128_000), Some((150_000, 150_000)));
    let verdict = judged(&stuck, &run(), &Policy::default());
    assert_eq!((verdict.action, verdict.dead_because), (Action::DeadLetter, Some(DeadBecause::Permanent)));
    insta::assert_snapshot!(verdict.why, @"The input does not fit the model's context (150000 of 128000). Even cut as far as allowed it has 150000 tokens; no available model takes more than 123904.");
    // Also where nobody knows the model: what can't be made shorter stays too long.
    let house = Run { around: Around::default(), ..run() };
    let verdict = judged(&overflow(None, None, Some((5_000, 5_000))), &house, &Policy::default());
    assert!(verdict.why.ends_with("None of its 5000 tokens may be left out, and no larger model is available."));
    let still_too_long = overflow(Some(400_000), Some(128_000), Some((400_000, 300_000)));
    assert_eq!(judged(&still_too_long, &run(), &Policy::default()).action, Action::DeadLetter);
    // A model that takes it all is a way out, and one that takes the rest after cutting is one, too.
    let larger = policy(&ladder(&["gpt-4o", "gpt-5.4"]));
    assert_eq!(judged(&still_too_long, &run(), &larger).target.model, Some("gpt-5.4".into()));
    assert_eq!(judged(&still_too_long, &run(), &policy(&ladder(&["gpt-4o", "gpt-5"]))).action, Action::DeadLetter);
}

#[test]
fn our_count_is_calibrated_by_the_providers() {
    // We count half of what the provider does, so that half of the limit, as we count, is the whole of it.
    let verdict = judged(&overflow(Some(200_000), Some(128_000), Some((100_000, 1_000))), &run(), &Policy::default());
    let to = compressed_to(&verdict).unwrap();
    assert!((55_000..=62_000).contains(&to), "{to}");
}

#[test]
fn the_same_change_is_not_tried_twice() {
    let scale = || Some(vec![Change::ScaleOutputBudget { factor: 2.0 }]);
    let twice = StrategyLayer { tries: Some(3), ..StrategyLayer::default() };
    let same = StrategyLayer { tries: Some(1), changes: scale(), ..StrategyLayer::default() };
    let layer = PolicyLayer {
        strategy: Some(BTreeMap::from([(Reason::OutputTruncated, twice), (Reason::ContentFiltered, same)])),
        ..PolicyLayer::default()
    };
    let policy = policy(&layer);
    let first = decide(&of(Reason::OutputTruncated), &run(), &policy, now(), 0.5);
    assert_eq!((first.verdict.action, first.tried.len()), (Action::Retry, 1));
    let memory = FailureMemory { tried: first.tried, ..FailureMemory::default() };
    let again = Run { attempt: 2, memory, changes: first.verdict.changes, ..run() };
    for reason in [Reason::OutputTruncated, Reason::ContentFiltered] {
        let verdict = judged(&of(reason), &again, &policy);
        assert_eq!((verdict.action, verdict.dead_because), (Action::DeadLetter, Some(DeadBecause::Exhausted)));
        assert!(verdict.why.contains("tried already (2 times the output budget)"), "{}", verdict.why);
    }
}

#[test]
fn a_different_error_may_be_told_again() {
    let first = decide(&of(Reason::ToolError), &run(), &Policy::default(), now(), 0.5);
    let memory = FailureMemory { tried: first.tried, ..FailureMemory::default() };
    let again = Run { attempt: 2, memory, changes: first.verdict.changes, ..run() };
    let other = Failure { fingerprint: 7, ..of(Reason::MaxIterations) };
    let verdict = judged(&other, &again, &Policy::default());
    assert_eq!((verdict.action, verdict.changes.len()), (Action::Retry, 1));
}

#[test]
fn unchanged_retries_keep_earlier_changes() {
    let changed = decide(&overflow(None, Some(9_000), None), &run(), &Policy::default(), now(), 0.5);
    let again = Run { attempt: 2, changes: changed.verdict.changes.clone(), ..run() };
    assert_eq!(judged(&of(Reason::Timeout), &again, &Policy::default()).changes, changed.verdict.changes);
    let more = judged(&of(Reason::OutputTruncated), &again, &Policy::default());
    assert_eq!(more.changes.len(), changed.verdict.changes.len() + 1);
}

#[test]
fn loops_go_to_another_agent_and_model() {
    let can = |word: &str| BTreeSet::from([Label::from(word)]);
    let agents =
        BTreeMap::from([("a".into(), can("invoice")), ("b".into(), can("poem")), ("c".into(), can("invoice"))]);
    let policy = Policy { agents: Agents::new(agents), ..policy(&ladder(&["gpt-4o", "gpt-5"])) };
    let around = Around { task_type: Some("invoice".into()), ..run().around };
    let verdict = judged(&of(Reason::HallucinationLoop), &Run { around, ..run() }, &policy);
    assert_eq!((verdict.target.agent, verdict.target.model), (Some("c".into()), Some("gpt-5".into())));
    insta::assert_snapshot!(verdict.why, @"The agent repeats itself: retry in 1 min with the last error, the instruction “Do not repeat it.” and the constraint “Validate before answering.” by agent c on model gpt-5, 3 attempts left.");
    let alone = judged(&of(Reason::HallucinationLoop), &run(), &policy);
    assert_eq!(alone.target.agent, None);
    assert!(alone.why.contains("no other agent can do this task type"), "{}", alone.why);
}

#[test]
fn the_fallback_queue_takes_over_once() {
    let layer = PolicyLayer { fallback_queue: Some("simple".parse().unwrap()), ..PolicyLayer::default() };
    let mut again = Run { attempt: 2, ..run() };
    again.memory.count_retry(&Reason::ToolError);
    let by_worker = policy(&layer);
    let decision = decide(&of(Reason::ToolError), &again, &by_worker, now(), 0.5);
    assert_eq!(decision.verdict.target.queue, Some("simple".parse().unwrap()));
    insta::assert_snapshot!(decision.verdict.why, @"A tool failed: retry in 30 s in queue simple, 2 attempts left.");
    again.memory.tried = decision.tried;
    assert_eq!(judged(&of(Reason::ToolError), &again, &by_worker).action, Action::DeadLetter);
    again.memory.tried.clear();
    let by_caller = Policy::resolve(RetryBy::Caller, &[&layer]);
    assert_eq!(judged(&of(Reason::ToolError), &again, &by_caller).action, Action::DeadLetter);
}

#[test]
fn queues_override_strategies_by_reason() {
    let own = StrategyLayer {
        delay_ms: Some(2_000),
        tries: Some(1),
        target: Some(vec![Towards::OtherModel]),
        ..Default::default()
    };
    let never = StrategyLayer { tries: Some(0), ..StrategyLayer::default() };
    let layer = PolicyLayer {
        strategy: Some(BTreeMap::from([(Reason::ContentFiltered, own), (Reason::Timeout, never)])),
        ..ladder(&["gpt-4o", "gpt-5"])
    };
    let verdict = judged(&of(Reason::ContentFiltered), &run(), &policy(&layer));
    assert_eq!((verdict.next_attempt_at, verdict.target.model), (Some(now().plus_ms(2_000)), Some("gpt-5".into())));
    assert_eq!(judged(&of(Reason::Timeout), &run(), &policy(&layer)).action, Action::DeadLetter);
}

#[test]
fn reached_budget_caps_end_retries_with_figures() {
    let usd = |dollars| Usd::from_dollars(dollars);
    let spent = Spend { tokens: 1_200, cost: usd(0.4).unwrap() };
    let retry = Run { attempt: 2, memory: FailureMemory { spent, ..FailureMemory::default() }, ..run() };
    let with = |budget: Budgets, run: &Run| {
        let policy = policy(&PolicyLayer { budget: Some(budget), ..PolicyLayer::default() });
        judged(&Failure { spent, ..of(Reason::Timeout) }, run, &policy)
    };
    let tokens = Budgets { retry_tokens_per_run: Some(1_200), ..Budgets::default() };
    let verdict = with(tokens, &retry);
    assert_eq!((verdict.action, verdict.dead_because), (Action::DeadLetter, Some(DeadBecause::Exhausted)));
    insta::assert_snapshot!(verdict.why, @"It timed out, and this run's retries have used 1200 tokens of the 1200 they may: no further retry.");
    let room = Budgets { retry_tokens_per_run: Some(1_201), retry_cost_usd_per_run: usd(0.41), ..Budgets::default() };
    assert_eq!(with(room, &retry).action, Action::Retry);
    let money = Budgets { retry_cost_usd_per_run: usd(0.4), ..Budgets::default() };
    assert!(with(money, &retry).why.contains("$0.40 of the $0.40"), "{}", with(money, &retry).why);
    let day = Budgets { retry_cost_usd_per_tenant_day: usd(1.0), ..Budgets::default() };
    assert_eq!(with(day, &retry).action, Action::Retry);
    let mut busy = retry;
    busy.around.tenant_spent.cost = usd(0.6).unwrap();
    assert!(with(day, &busy).why.contains("the tenant's retries today have used $1.00 of the $1.00"));
    // What a first attempt used is no retry's.
    let first = Run { attempt: 1, ..busy };
    assert_eq!(with(day, &first).action, Action::Retry);
}

#[test]
fn quota_waits_are_jittered_and_capped_at_a_month() {
    let reset = |in_ms: i64| Facts { reset_at_ms: Some(now().as_millis() + in_ms), ..Facts::default() };
    let day = 86_400_000;
    let quota = Failure { facts: reset(day), ..of(Reason::QuotaExhausted) };
    for jitter in [0.0, 0.5, 1.0] {
        let due = decide(&quota, &run(), &Policy::default(), now(), jitter).verdict.next_attempt_at.unwrap();
        let off = due.since(now()).abs_diff(day.cast_unsigned());
        assert!(off <= 8_640_000, "{off}");
    }
    let far = Failure { facts: reset(400 * day), ..of(Reason::QuotaExhausted) };
    let due = decide(&far, &run(), &Policy::default(), now(), 0.5).verdict.next_attempt_at.unwrap();
    assert_eq!(due.since(now()), 31 * day.cast_unsigned());
    assert_eq!(judged(&of(Reason::QuotaExhausted), &run(), &Policy::default()).action, Action::DeadLetter);
}

#[test]
fn unsafe_runs_do_not_fall_back() {
    let fallback = policy(&PolicyLayer { fallback_queue: Some("simple".parse().unwrap()), ..PolicyLayer::default() });
    let failure = of(Reason::ToolError);
    let mut tried = run();
    tried.memory.retries = vec![(Reason::ToolError, 1)];
    let falls_back = judged(&failure, &tried, &fallback);
    assert_eq!(falls_back.target.queue, Some("simple".parse().unwrap()), "without a hazard it goes there");
    let (mut done, mut unknown) = (tried.clone(), tried.clone());
    done.effects.done = 1;
    unknown.effects.unknown = 1;
    for hazard in [done, unknown] {
        let verdict = judged(&failure, &hazard, &fallback);
        assert_eq!((verdict.action, verdict.dead_because), (Action::DeadLetter, Some(DeadBecause::Unsafe)));
        assert_eq!(verdict.target.queue, None);
    }
    let terminal = judged(&Failure { terminal: true, ..failure }, &tried, &fallback);
    assert_eq!((terminal.action, terminal.target.queue), (Action::DeadLetter, None));
}

fn why(failure: &Failure, run: &Run, policy: &Policy) -> String {
    judged(failure, run, policy).why
}

#[test]
fn sentences_show_figures_only_when_exceeded() {
    let told = |actual, limit| {
        let failure = Failure { facts: Facts { actual, limit, ..Facts::default() }, ..of(Reason::Bug) };
        why(&failure, &run(), &Policy::default())
    };
    let plain = "The code has a defect: a retry can't help until something is corrected.";
    assert_eq!(told(Some(5), Some(3)), plain.replace(':', " (5 of 3):"));
    assert_eq!(told(None, Some(3)), plain.replace(':', " (limit 3):"));
    for (actual, limit) in
        [(Some(3), Some(3)), (Some(2), Some(3)), (Some(3), Some(0)), (None, Some(0)), (Some(3), None)]
    {
        assert_eq!(told(actual, limit), plain, "{actual:?} {limit:?}");
    }
}

#[test]
fn waits_are_shown_in_a_readable_unit() {
    let told = |delay_ms| {
        let own = StrategyLayer { delay_ms: Some(delay_ms), tries: Some(1), ..StrategyLayer::default() };
        let layer = PolicyLayer { strategy: Some(BTreeMap::from([(Reason::Timeout, own)])), ..PolicyLayer::default() };
        why(&of(Reason::Timeout), &run(), &policy(&layer))
    };
    for (delay_ms, wait) in [(2_000, "2 s"), (120_000, "2 min"), (7_200_000, "2 h")] {
        assert_eq!(told(delay_ms), format!("It timed out: retry in {wait}, 3 attempts left."));
    }
}

#[test]
fn person_required_is_not_permanent() {
    let told = |reason| why(&of(reason), &run(), &Policy::default());
    assert!(told(Reason::AuthFailed).ends_with("a retry can't help until something is corrected."));
    assert!(told(Reason::ContentFiltered).ends_with("so it waits for one."), "{}", told(Reason::ContentFiltered));
    assert_eq!(judged(&of(Reason::Timeout), &run(), &Policy::default()).dead_because, None);
}

#[test]
fn workers_cannot_retry_without_the_payload() {
    let without = Run { replayable: false, ..run() };
    let by = |retry_by| judged(&of(Reason::Timeout), &without, &Policy::resolve(retry_by, &[]));
    assert!(by(RetryBy::Worker).why.contains("its payload was too large to send"));
    assert_eq!(by(RetryBy::Caller).action, Action::Retry);
}

#[test]
fn retries_that_only_the_queue_allows_wait_30_seconds() {
    let wait = |reason: Reason| {
        let own = StrategyLayer { tries: Some(1), ..StrategyLayer::default() };
        let layer = PolicyLayer { strategy: Some(BTreeMap::from([(reason.clone(), own)])), ..PolicyLayer::default() };
        judged(&of(reason), &run(), &policy(&layer)).next_attempt_at.map(|due| due.since(now()))
    };
    assert_eq!(wait(Reason::ContentFiltered), Some(30_000));
    assert_eq!(wait(Reason::Silent), Some(30_000), "as the table has it");
    assert_ne!(wait(Reason::Timeout), Some(30_000), "the table's own backoff stays");
    let silent = judged(&of(Reason::Silent), &run(), &Policy::default());
    assert_eq!(silent.next_attempt_at, Some(now().plus_ms(30_000)));
    let timeout = judged(&of(Reason::Timeout), &run(), &Policy::default());
    assert_ne!(timeout.next_attempt_at, Some(now().plus_ms(30_000)));
}

#[test]
fn each_loop_retry_has_a_new_target() {
    let can = |word: &str| BTreeSet::from([Label::from(word)]);
    let agents = BTreeMap::from(["a", "b", "c"].map(|name| (name.into(), can("invoice"))));
    let policy =
        Policy { agents: Agents::new(agents), ..policy(&ladder(&["gpt-4o-mini", "gpt-4o", "gpt-5", "gpt-5.4"])) };
    let mut looped = run();
    looped.around.task_type = Some("invoice".into());
    let mut went = Vec::new();
    for _ in 0..2 {
        let decision = decide(&of(Reason::HallucinationLoop), &looped, &policy, now(), 0.5);
        let target = decision.verdict.target;
        looped.memory.tried.extend(decision.tried);
        (looped.around.agent, looped.around.model) = (target.agent.clone(), target.model.clone());
        went.push((target.agent, target.model));
    }
    let [(first, large), (second, largest)] = went.try_into().unwrap();
    assert_eq!((&first, large, largest), (&Some("b".into()), Some("gpt-5".into()), Some("gpt-5.4".into())));
    assert!(second.is_some() && second != first, "{second:?}");
    let small = Around { model: Some("gpt-4o-mini".into()), ..looped.around };
    let small = Run { around: small, ..run() };
    assert_eq!(judged(&of(Reason::HallucinationLoop), &small, &policy).target.model, Some("gpt-4o".into()));
}

#[test]
fn another_fallback_queue_may_be_tried() {
    let to =
        |queue: &str| policy(&PolicyLayer { fallback_queue: Some(queue.parse().unwrap()), ..PolicyLayer::default() });
    let mut again = Run { attempt: 2, changes: vec![Change::SetModel { model: "m".into() }], ..run() };
    again.memory.count_retry(&Reason::ToolError);
    again.memory.tried = decide(&of(Reason::ToolError), &again, &to("simple"), now(), 0.5).tried;
    let verdict = judged(&of(Reason::ToolError), &again, &to("other"));
    assert_eq!((verdict.target.queue, verdict.changes), (Some("other".parse().unwrap()), again.changes));
}

#[test]
fn only_rate_limits_beyond_a_day_become_quota() {
    let day = 86_400_000;
    let seen = |reason: Reason, wait_ms| {
        let facts = Facts { wait_ms: Some(wait_ms), ..Facts::default() };
        let category = reason.category();
        Failure::new(crate::classify::Classified { category, reason, rule: "sample".into(), facts }, false, 1).reason
    };
    assert_eq!(seen(Reason::RateLimited, day), Reason::RateLimited);
    assert_eq!(seen(Reason::RateLimited, day + 1), Reason::QuotaExhausted);
    assert_eq!(seen(Reason::ContentFiltered, day + 1), Reason::ContentFiltered);
    let prints =
        [of(Reason::Silent), of(Reason::Timeout), Failure::found(Reason::Timeout, "other")].map(|f| f.fingerprint);
    assert_eq!(BTreeSet::from(prints).len(), 3, "{prints:?}");
}

#[test]
fn counts_far_from_ours_do_not_calibrate() {
    let cut = |actual, limit| {
        compressed_to(&judged(&overflow(actual, Some(limit), Some((1_000, 10))), &run(), &Policy::default()))
    };
    assert_eq!(cut(None, 8_192), Some(750), "nobody knows how much more the provider counts");
    assert_eq!((cut(Some(200), 8_192), cut(Some(5_000), 8_192)), (Some(750), Some(750)));
    assert_eq!(cut(Some(2_000), 1_000), Some(237), "half of the limit is the answer's, and twice ours");
}
