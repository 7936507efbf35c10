//! Triage of patterns: resolve and regression, merge and unmerge, mute, assign.

use redrive_core::text::{Label, Text};
use redrive_core::time::{HOUR_MS, Timestamp};
use redrive_core::wire::{PatternDetail, PatternEvent, PatternSort, PatternState, PatternView, Versions};
use redrive_engine::{
    Error, LeaseCall, NewFailure, NewRun, PageCall, PatternAct, PatternFilter, PatternVerb, PatternsCall, Result,
    RunFilter, Start, TenantScope, Triage,
};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, failed, lease_call, new_run, report, start, under};

const OTHER: &str = "KeyError: 'customer'";

fn acme() -> TenantScope {
    TenantScope::One("acme".parse().unwrap())
}

async fn act_as(world: &World, scope: TenantScope, id: &str, verb: PatternVerb) -> Result<PatternView> {
    let reason = Some(Text::from("because"));
    world.store.triage_pattern(PatternAct { scope, id: id.into(), verb, actor: "key:ops".into(), reason }).await
}

async fn act(world: &World, id: &str, verb: PatternVerb) -> PatternView {
    act_as(world, acme(), id, verb).await.unwrap()
}

async fn resolve(world: &World, id: &str, fixed: &[(&str, &str)]) {
    let done = act(world, id, PatternVerb::Resolve { in_version: versions(fixed) }).await;
    assert_eq!((done.state, done.regression), (PatternState::Resolved, false));
}

async fn show(world: &World, id: &str) -> PatternDetail {
    world.store.pattern(&acme(), id).await.unwrap()
}

async fn came_back(world: &World, id: &str) -> bool {
    let pattern = show(world, id).await.pattern;
    assert_eq!(pattern.regression, pattern.state == PatternState::New);
    pattern.regression
}

fn versions(pairs: &[(&str, &str)]) -> Versions {
    pairs.iter().map(|(kind, version)| ((*kind).to_owned(), Label::from(*version))).collect()
}

fn with_versions(run: &str, message: &str, pairs: &[(&str, &str)]) -> NewFailure {
    let mut report = report(run, message);
    report.failed.versions = versions(pairs);
    report
}

fn of(tenant: &str, run: &str, message: &str) -> NewFailure {
    NewFailure { run: NewRun { tenant: tenant.parse().unwrap(), ..new_run(run) }, failed: failed(message) }
}

pub async fn a_resolved_pattern_seen_again_is_a_regression(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    world.wait(10);
    resolve(&world, &id, &[]).await;
    world.wait(10);
    assert!(!world.fail("r2", BUG).await.pattern.new);
    assert!(came_back(&world, &id).await);
    let shown = show(&world, &id).await;
    assert_eq!((shown.pattern.resolved_at, shown.pattern.count), (None, 2));
    let events: Vec<_> = shown.body.events.iter().map(|e| (e.event, e.about.as_deref())).collect();
    assert_eq!(
        events,
        [
            (PatternEvent::New, Some("run r1")),
            (PatternEvent::Resolve, None),
            (PatternEvent::Regression, Some("run r2"))
        ]
    );
}

pub async fn attempt_begun_before_the_resolve_is_no_regression(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    let (_, before) = world.start("r2").await;
    world.wait(10);
    resolve(&world, &id, &[]).await;
    world.wait(10);
    world.store.fail(before, failed(BUG)).await.unwrap();
    assert!(!came_back(&world, &id).await);
    let (_, after) = world.start("r3").await;
    world.store.fail(after, failed(BUG)).await.unwrap();
    assert!(came_back(&world, &id).await);
}

pub async fn late_report_of_an_earlier_attempt_is_no_regression(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    resolve(&world, &id, &[]).await;
    world.wait(1_000);
    let mut long = report("r2", BUG);
    long.failed.took_ms = Some(5_000);
    world.store.report(long).await.unwrap();
    assert!(!came_back(&world, &id).await);
    let mut short = report("r3", BUG);
    short.failed.took_ms = Some(500);
    world.store.report(short).await.unwrap();
    assert!(came_back(&world, &id).await);
}

pub async fn versioned_fix_regresses_only_on_that_version_or_newer(world: World) {
    let fails = async |run: &str, carried: &[(&str, &str)]| {
        world.store.report(with_versions(run, BUG, carried)).await.unwrap().answer.pattern.id
    };
    let id = fails("r1", &[("worker", "v1")]).await;
    for (n, (carried, regresses)) in [
        (&[("worker", "v1")][..], false),
        (&[("prompt", "fixed")], false),
        (&[], false),
        (&[("worker", "fixed")], true),
        (&[("worker", "a-later-one"), ("prompt", "7")], true),
    ]
    .into_iter()
    .enumerate()
    {
        resolve(&world, &id, &[("worker", "fixed")]).await;
        world.wait(10);
        fails(&format!("again-{n}"), carried).await;
        assert_eq!(came_back(&world, &id).await, regresses, "{carried:?}");
    }
    // Both have to have it.
    resolve(&world, &id, &[("worker", "fixed"), ("prompt", "8")]).await;
    fails("half", &[("worker", "fixed"), ("prompt", "7")]).await;
    assert!(!came_back(&world, &id).await);
    fails("whole", &[("worker", "fixed"), ("prompt", "8")]).await;
    assert!(came_back(&world, &id).await);
    // The order is each tenant's own.
    let theirs = with_versions("r1", BUG, &[("worker", "a-later-one")]);
    let theirs = NewFailure { run: NewRun { tenant: "globex".parse().unwrap(), ..theirs.run }, ..theirs };
    assert!(world.store.report(theirs).await.unwrap().answer.pattern.new);
}

pub async fn worker_versions_are_recorded_at_the_start(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    resolve(&world, &id, &[("worker", "v2")]).await;
    let begin = Start { versions: versions(&[("worker", "v1")]), ..start("old") };
    let lease = world.store.start(begin).await.unwrap().answer.lease.unwrap().parse().unwrap();
    let under_old = redrive_engine::UnderLease { at: crate::world::at("acme", "old"), lease };
    world.store.fail(under_old, failed(BUG)).await.unwrap();
    // Never heard of before the fix was named, so later than it.
    assert!(came_back(&world, &id).await);
    resolve(&world, &id, &[("worker", "v3")]).await;
    world.enqueue("acme", "leased").await;
    let mut call = LeaseCall { versions: versions(&[("worker", "v1")]), ..lease_call(1) };
    let leased = world.store.lease(call.clone()).await.unwrap().pop().unwrap();
    world.store.fail(under(&leased), failed(BUG)).await.unwrap();
    assert!(!came_back(&world, &id).await);
    assert_eq!(world.show("leased").await.body.attempts[0].versions, versions(&[("worker", "v1")]));
    world.triage("leased", Triage::replay(false)).await.unwrap();
    call.versions = versions(&[("worker", "v3")]);
    let leased = world.store.lease(call).await.unwrap().pop().unwrap();
    world.store.fail(under(&leased), failed(BUG)).await.unwrap();
    assert!(came_back(&world, &id).await);
}

pub async fn sixty_four_concurrent_sightings_make_one_pattern(world: World) {
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..64 {
        let store = world.store.clone();
        clients.spawn(async move { store.report(report(&format!("r{n}"), BUG)).await.unwrap().answer.pattern });
    }
    let answers = clients.join_all().await;
    assert_eq!(answers.iter().filter(|pattern| pattern.new).count(), 1);
    assert!(answers.iter().all(|pattern| pattern.id == answers[0].id));
    let shown = show(&world, &answers[0].id).await;
    assert_eq!((shown.pattern.count, shown.pattern.open), (64, 64));
    assert_eq!(shown.body.events.iter().filter(|e| e.event == PatternEvent::New).count(), 1);
}

async fn runs_of(world: &World, pattern: &str) -> usize {
    let filter = RunFilter { patterns: vec![pattern.into()], ..RunFilter::default() };
    let page = PageCall { sort: redrive_core::wire::Sort::NewestFirst, limit: 100, cursor: None, count: true };
    let listed = world.store.runs(&acme(), filter, page).await.unwrap();
    assert_eq!(listed.total, Some(listed.runs.len() as u64));
    listed.runs.len()
}

pub async fn merging_adds_figures_and_unmerging_restores_them(world: World) {
    let head = world.fail("h1", BUG).await.pattern.id;
    world.wait(10);
    let part = world.fail("p1", OTHER).await.pattern.id;
    world.fail("p2", OTHER).await;
    let before = (show(&world, &head).await.pattern, show(&world, &part).await.pattern);

    let merged = act(&world, &part, PatternVerb::Merge { into: head.clone() }).await;
    assert_eq!((merged.id.as_str(), merged.count, merged.open), (head.as_str(), 3, 3));
    assert_eq!(merged.last_seen, before.1.last_seen);
    world.wait(10);
    let answer = world.fail("p3", OTHER).await;
    assert_eq!((answer.pattern.id.as_str(), answer.pattern.new), (head.as_str(), false));
    world.triage("p1", Triage::Resolve).await.unwrap();
    let listed = world.store.patterns(&acme(), PatternsCall::first(10)).await.unwrap().patterns;
    assert_eq!(listed.iter().map(|p| (p.id.as_str(), p.count, p.open)).collect::<Vec<_>>(), [(head.as_str(), 4, 3)]);
    assert_eq!(world.show("p2").await.summary.pattern.as_deref(), Some(head.as_str()));
    assert_eq!((runs_of(&world, &head).await, runs_of(&world, &part).await), (4, 3));
    assert_eq!(runs_of(&world, &before.1.fingerprint).await, 4);
    let shown = show(&world, &head).await;
    assert_eq!(
        shown.body.merged.iter().map(|p| (p.id.as_str(), p.count, p.open)).collect::<Vec<_>>(),
        [(part.as_str(), 3, 2)]
    );
    assert_eq!(shown.body.hours.iter().map(|hour| hour.failed).sum::<u64>(), 4);

    let alone = act(&world, &part, PatternVerb::Unmerge { fingerprint: None }).await;
    assert_eq!((alone.id.as_str(), alone.count, alone.open), (part.as_str(), 3, 2));
    assert_eq!(show(&world, &head).await.pattern, before.0);
    assert_eq!((runs_of(&world, &head).await, runs_of(&world, &part).await), (1, 3));
    assert_eq!(world.fail("p4", OTHER).await.pattern.id, part);
}

pub async fn actions_on_a_merged_pattern_reach_its_target(world: World) {
    let fails = async |run: &str, message: &str| world.fail(run, message).await.pattern.id;
    let (a, b, c) = (fails("r1", BUG).await, fails("r2", OTHER).await, fails("r3", TIMEOUT).await);
    act(&world, &a, PatternVerb::Merge { into: b.clone() }).await;
    // With what it carries, and never into itself, also by a detour.
    assert_eq!(act(&world, &b, PatternVerb::Merge { into: c.clone() }).await.count, 3);
    for into in [&a, &b, &c] {
        let refused = act_as(&world, acme(), &c, PatternVerb::Merge { into: into.clone() }).await;
        assert!(matches!(refused, Err(Error::MergeRefused(_))), "{into}");
    }
    let refused = act_as(&world, acme(), &a, PatternVerb::Acknowledge).await;
    assert!(matches!(refused, Err(Error::PatternMerged { into }) if into == c));
    assert_eq!(show(&world, &a).await.pattern.merged_into, Some(c.clone()));
    // Resolved as one, it comes back as one.
    resolve(&world, &c, &[]).await;
    world.wait(10);
    world.fail("again", BUG).await;
    assert!(came_back(&world, &c).await);
    let fingerprint = Some(show(&world, &a).await.pattern.fingerprint);
    assert_eq!(act(&world, &c, PatternVerb::Unmerge { fingerprint }).await.count, 2);
    assert_eq!(act(&world, &c, PatternVerb::Unmerge { fingerprint: None }).await.count, 1);
    let nothing = act_as(&world, acme(), &c, PatternVerb::Unmerge { fingerprint: None }).await;
    assert!(matches!(nothing, Err(Error::MergeRefused(_))));
}

pub async fn pattern_actions_are_recorded_with_actor_and_reason(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    assert_eq!(act(&world, &id, PatternVerb::Acknowledge).await.state, PatternState::Acknowledged);
    let owned = act(&world, &id, PatternVerb::Assign { to: Some(Label::from("ops")) }).await;
    assert_eq!((owned.owner, owned.state), (Some(Label::from("ops")), PatternState::Acknowledged));
    act(&world, &id, PatternVerb::Note).await;
    assert_eq!(act(&world, &id, PatternVerb::Assign { to: None }).await.owner, None);
    resolve(&world, &id, &[("worker", "v2")]).await;
    let shown = show(&world, &id).await;
    assert_eq!(shown.pattern.resolved_in, Some(versions(&[("worker", "v2")])));
    let acts: Vec<_> = shown.body.events[1..].iter().map(|e| (e.event, e.about.as_deref())).collect();
    assert_eq!(
        acts,
        [
            (PatternEvent::Acknowledge, None),
            (PatternEvent::Assign, Some("to ops")),
            (PatternEvent::Note, None),
            (PatternEvent::Assign, Some("to nobody")),
            (PatternEvent::Resolve, Some("in worker=v2")),
        ]
    );
    let because = Some(Text::from("because"));
    assert!(shown.body.events[1..].iter().all(|e| e.actor == "key:ops" && e.note == because));
}

pub async fn mute_expires(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    act(&world, &id, PatternVerb::Acknowledge).await;
    let until = world.store.now().plus_ms(HOUR_MS);
    let muted = act(&world, &id, PatternVerb::Mute { until: Some(until) }).await;
    assert_eq!((muted.state, muted.muted_until), (PatternState::Muted, Some(until)));
    act(&world, &id, PatternVerb::Mute { until: Some(until) }).await;
    world.fail("r2", BUG).await;
    assert_eq!(show(&world, &id).await.pattern.state, PatternState::Muted);
    let in_state = async |state| {
        let filter = PatternFilter { states: vec![state], ..PatternFilter::default() };
        let call = PatternsCall { filter, ..PatternsCall::first(10) };
        let all = world.store.patterns(&TenantScope::All, call.clone()).await.unwrap().patterns.len();
        assert_eq!(world.store.patterns(&acme(), call).await.unwrap().patterns.len(), all);
        all
    };
    assert_eq!((in_state(PatternState::Muted).await, in_state(PatternState::Acknowledged).await), (1, 0));
    world.wait(HOUR_MS);
    assert_eq!((in_state(PatternState::Muted).await, in_state(PatternState::Acknowledged).await), (0, 1));
    let over = show(&world, &id).await.pattern;
    assert_eq!((over.state, over.muted_until), (PatternState::Acknowledged, None));
}

pub async fn action_on_a_fingerprint_applies_to_every_tenant(world: World) {
    for tenant in ["acme", "globex"] {
        world.store.report(of(tenant, "r1", BUG)).await.unwrap();
    }
    world.store.report(of("acme", "r2", OTHER)).await.unwrap();
    let all = world.store.patterns(&TenantScope::All, PatternsCall::first(10)).await.unwrap().patterns;
    let shared = all.iter().find(|p| p.tenants.len() == 2).unwrap().id.clone();
    let own = all.iter().find(|p| p.tenants.len() == 1).unwrap().id.clone();
    let done = act_as(&world, TenantScope::All, &shared, PatternVerb::Acknowledge).await.unwrap();
    assert_eq!((done.id.as_str(), done.state, done.count), (shared.as_str(), PatternState::Acknowledged, 2));
    for tenant in ["acme", "globex"] {
        let scope = TenantScope::One(tenant.parse().unwrap());
        assert_eq!(world.store.pattern(&scope, &shared).await.unwrap().pattern.state, PatternState::Acknowledged);
    }
    // A tenant that does not have the target keeps what it has.
    let merged = act_as(&world, TenantScope::All, &shared, PatternVerb::Merge { into: own.clone() }).await.unwrap();
    assert_eq!((merged.id, merged.count), (own, 2));
    let rest = world.store.pattern(&TenantScope::All, &shared).await.unwrap();
    assert_eq!((rest.pattern.count, rest.pattern.tenants.len()), (1, 1));
    let refused = act_as(&world, TenantScope::All, "1-00000000000000aa", PatternVerb::Note).await;
    assert!(matches!(refused, Err(Error::NotFound(_))));
}

pub async fn another_tenants_pattern_is_not_found(world: World) {
    world.fail("r1", OTHER).await;
    let ours = world.fail("r2", BUG).await.pattern.id;
    let theirs = world.store.report(of("globex", "r1", BUG)).await.unwrap().answer.pattern.id;
    for verb in [PatternVerb::Note, PatternVerb::Acknowledge, PatternVerb::Unmerge { fingerprint: None }] {
        assert!(matches!(act_as(&world, acme(), &theirs, verb).await, Err(Error::NotFound(_))));
    }
    let across = act_as(&world, acme(), &ours, PatternVerb::Merge { into: theirs.clone() }).await;
    assert!(matches!(across, Err(Error::NotFound(_))));
    let across = act_as(&world, TenantScope::All, &ours, PatternVerb::Merge { into: theirs }).await;
    assert!(matches!(across, Err(Error::NotFound(_))));
}

pub async fn hourly_failures_are_shown_for_seven_days(world: World) {
    let id = world.fail("r1", BUG).await.pattern.id;
    world.fail("r2", BUG).await;
    world.wait(2 * HOUR_MS);
    world.fail("r3", BUG).await;
    let hours = show(&world, &id).await.body.hours;
    assert_eq!((hours.len(), hours[167].failed, hours[165].failed, hours[166].failed), (168, 1, 2, 0));
    assert_eq!(hours[167].hour, Timestamp::hour(world.store.now()));
    world.wait(168 * HOUR_MS);
    world.fail("r4", BUG).await;
    let shown = show(&world, &id).await;
    assert_eq!(shown.body.hours.iter().map(|hour| hour.failed).sum::<u64>(), 1);
    assert_eq!(shown.pattern.count, 4);
}

pub async fn pattern_lists_filter_and_sort(world: World) {
    for (run, message) in [("r1", BUG), ("r2", BUG), ("r3", TIMEOUT), ("r4", OTHER)] {
        world.fail(run, message).await;
        world.wait(10);
    }
    world.triage("r1", Triage::Resolve).await.unwrap();
    world.triage("r2", Triage::Resolve).await.unwrap();
    let listed = async |scope: TenantScope, sort: PatternSort, filter: PatternFilter| {
        let mut seen = Vec::new();
        let mut call = PatternsCall { filter, sort, limit: 1, cursor: None };
        loop {
            let page = world.store.patterns(&scope, call.clone()).await.unwrap();
            seen.extend(page.patterns.into_iter().map(|p| (p.count, p.open)));
            call.cursor = page.next_cursor;
            if call.cursor.is_none() {
                return seen;
            }
        }
    };
    for scope in [acme(), TenantScope::All] {
        let sorted = async |sort| listed(scope.clone(), sort, PatternFilter::default()).await;
        assert_eq!(sorted(PatternSort::LastSeen).await, [(1, 1), (1, 1), (2, 0)]);
        assert_eq!(sorted(PatternSort::Count).await[0], (2, 0));
        assert_eq!(sorted(PatternSort::Open).await[2], (2, 0));
        let by_reason =
            PatternFilter { reasons: vec![redrive_core::reason::Reason::Timeout], ..PatternFilter::default() };
        assert_eq!(listed(scope.clone(), PatternSort::Count, by_reason).await, [(1, 1)]);
        let by_words = PatternFilter { q: Some("keyerror".into()), ..PatternFilter::default() };
        assert_eq!(listed(scope.clone(), PatternSort::Count, by_words).await, [(2, 0), (1, 1)]);
    }
}
