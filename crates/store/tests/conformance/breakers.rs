//! Breakers: what opens them, which runs they hold, how they release them.

use redrive_core::breaker::{BREAKERS_PER_TENANT_MAX, BreakerStateName};
use redrive_core::policy::PolicyLayer;
use redrive_core::run::StateName;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::verdict::Action;
use redrive_core::wire::{BreakerAction, BreakerScope, BreakerView, LeasedRun, QueueSettings, Sort};
use redrive_engine::{
    BreakerAct, LeaseCall, NewRun, PageCall, RunFilter, Start, StartHow, TenantScope, Triage, UnderLease,
};

use crate::world::{World, at, failed, lease_call, new_run, report, start, success, under};

/// So many failed attempts open a breaker by the defaults.
const ENOUGH: usize = 20;
/// Longer than the first opening lasts, its jitter included.
const OPENING_MS: u64 = 40_000;
pub const TIMED_OUT: &str = "Request timed out";
const TOO_LONG: &str =
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.";
pub const OWN: &str = "breaker:tenant/production/acme";

pub fn of(tenant: &str, run: &str) -> NewRun {
    NewRun { tenant: tenant.parse().unwrap(), ..new_run(run) }
}

fn asking(tenant: &str, run: &str, model: &str) -> NewRun {
    NewRun { provider: Some(Label::from("openai")), model: Some(Label::from(model)), ..of(tenant, run) }
}

async fn begin(world: &World, run: NewRun) -> UnderLease {
    let at = at(run.tenant.as_str(), run.run_id.as_str());
    let answer = world.store.start(Start { run, ..start("r") }).await.unwrap().answer;
    UnderLease { at, lease: answer.lease.unwrap().parse().unwrap() }
}

pub async fn enqueue(world: &World, run: NewRun) {
    world.store.start(Start { run, how: StartHow::Enqueue { due_at: None }, ..start("r") }).await.unwrap();
}

/// Attempts that began here and failed.
pub async fn failures(world: &World, n: usize, run: impl Fn(usize) -> NewRun) {
    for n in 0..n {
        let under = begin(world, run(n)).await;
        world.store.fail(under, failed(TIMED_OUT)).await.unwrap();
    }
}

/// A breaker of acme's that has just opened.
pub async fn broken(world: &World) {
    failures(world, ENOUGH, |n| of("acme", &format!("broke{n}"))).await;
}

async fn stands(world: &World, tenant: &str) -> Vec<(String, BreakerStateName)> {
    let all = world.store.tenant_breaker(&tenant.parse().unwrap()).await.unwrap().breakers;
    all.into_iter().map(|breaker| (breaker.name.to_string(), breaker.state)).collect()
}

async fn all(world: &World) -> Vec<BreakerView> {
    world.store.breakers(&TenantScope::All).await.unwrap().breakers
}

async fn held(world: &World) -> u64 {
    let filter = RunFilter { held: Some(true), ..RunFilter::default() };
    let page = PageCall { sort: Sort::NewestFirst, limit: 500, cursor: None, count: true };
    world.store.runs(&TenantScope::All, filter, page).await.unwrap().total.unwrap()
}

pub async fn by_hand(world: &World, action: BreakerAction, until: Option<Timestamp>) -> BreakerView {
    let act = BreakerAct {
        tenant: Some("acme".parse().unwrap()),
        environment: Label::from("production"),
        provider: None,
        model: None,
        action,
        until,
        actor: "key:ops".into(),
        reason: Some(Text::from("maintenance")),
    };
    world.store.operate_breaker(act).await.unwrap()
}

/// All that comes up in the next minutes, with whom it comes up for.
async fn drain(world: &World) -> Vec<LeasedRun> {
    let mut leased = Vec::new();
    for _ in 0..10 {
        world.store.release_held(500).await.unwrap();
        world.wait(5_000);
        leased.extend(world.lease(500).await);
    }
    leased
}

pub async fn failing_attempts_open_a_breaker_and_hold_due_runs(world: World) {
    failures(&world, ENOUGH - 1, |n| of("acme", &format!("r{n}"))).await;
    let last = begin(&world, of("acme", "last")).await;
    let answer = world.store.fail(last, failed(TIMED_OUT)).await.unwrap();
    assert_eq!((answer.breaker.as_str(), answer.verdict.action), ("open", Action::Hold));
    assert_eq!((answer.verdict.held_by.as_ref().unwrap().as_str(), answer.verdict.next_attempt_at), (OWN, None));
    assert_eq!(stands(&world, "acme").await, [(OWN.to_owned(), BreakerStateName::Open)]);
    assert_eq!(held(&world).await, 1);
    world.wait(25_000);
    assert!(world.lease(100).await.is_empty());
    // A run whose retry was due in the meantime is held, and none is lost.
    let waiting = world.store.tenant_health(&"acme".parse().unwrap()).await.unwrap();
    assert_eq!((waiting.pending_retries, waiting.held), (20, held(&world).await));
    assert!(waiting.held > 1);
    assert_eq!(all(&world).await[0].held, waiting.held);
}

pub async fn half_open_breaker_admits_one_of_a_hundred(world: World) {
    broken(&world).await;
    for n in 0..100 {
        enqueue(&world, of("acme", &format!("waits{n}"))).await;
    }
    assert!(world.lease(1_000).await.is_empty());
    let mut probes = Vec::new();
    for round in 0..3 {
        world.wait(OPENING_MS << round);
        world.store.release_held(500).await.unwrap();
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let store = world.store.clone();
            workers.spawn(async move { store.lease(lease_call(10)).await.unwrap() });
        }
        let given: Vec<LeasedRun> = workers.join_all().await.into_iter().flatten().collect();
        assert_eq!(given.len(), 1, "round {round}");
        assert_eq!(stands(&world, "acme").await[0].1, BreakerStateName::HalfOpen);
        probes.push(given[0].run_id.clone());
        world.store.release_held(500).await.unwrap();
        assert!(world.lease(100).await.is_empty(), "one at a time");
        if round < 2 {
            world.store.fail(under(&given[0]), failed(TIMED_OUT)).await.unwrap();
            assert_eq!(stands(&world, "acme").await[0].1, BreakerStateName::Open);
        } else {
            world.store.succeed(success(&under(&given[0]), "\"ok\"")).await.unwrap();
        }
    }
    assert!(stands(&world, "acme").await.is_empty(), "closed, and nothing counted");
    // 120 runs in all, one of which has succeeded.
    assert_eq!(drain(&world).await.len(), 119);
    assert_eq!(held(&world).await, 0);
}

pub async fn a_crashed_probe_frees_the_slot(world: World) {
    broken(&world).await;
    world.wait(OPENING_MS);
    world.store.release_held(500).await.unwrap();
    let probe = world.lease(1_000).await;
    assert_eq!(probe.len(), 1);
    world.wait(crate::world::LEASE_MS + 1);
    world.store.stamp("here").await.unwrap();
    world.store.rescue_expired(100).await.unwrap();
    assert_eq!(stands(&world, "acme").await[0].1, BreakerStateName::HalfOpen);
    world.store.release_held(500).await.unwrap();
    assert_eq!(world.lease(1_000).await.len(), 1);
    assert!(world.lease(1_000).await.is_empty());
}

pub async fn a_cancelled_probe_frees_the_slot(world: World) {
    broken(&world).await;
    world.wait(OPENING_MS);
    world.store.release_held(500).await.unwrap();
    let probe = world.lease(1_000).await.pop().unwrap();
    world.triage(probe.run_id.as_str(), Triage::Cancel).await.unwrap();
    world.store.release_held(500).await.unwrap();
    assert_eq!(world.lease(1_000).await.len(), 1);
}

pub async fn late_results_and_other_tenants_failures_move_nothing(world: World) {
    let mut late = Vec::new();
    for n in 0..2 * ENOUGH {
        late.push(begin(&world, of("acme", &format!("late{n}"))).await);
    }
    enqueue(&world, of("globex", "theirs")).await;
    broken(&world).await;
    assert!(stands(&world, "globex").await.is_empty());
    assert_eq!(world.lease(10).await.len(), 1, "another tenant's run goes out");
    by_hand(&world, BreakerAction::Close, None).await;
    for under in late {
        let answer = world.store.fail(under, failed(TIMED_OUT)).await.unwrap();
        assert_eq!(answer.breaker, "closed");
    }
    assert!(stands(&world, "acme").await.is_empty());
    let now = begin(&world, of("acme", "now")).await;
    world.store.fail(now, failed(TIMED_OUT)).await.unwrap();
    assert_eq!(all(&world).await[0].failed, Some(1), "what begins after it counts");
}

pub async fn reports_in_one_call_are_held_but_never_counted(world: World) {
    for n in 0..2 * ENOUGH {
        world.fail(&format!("told{n}"), TIMED_OUT).await;
    }
    assert!(stands(&world, "acme").await.is_empty());
    broken(&world).await;
    let answer = world.store.report(report("after", TIMED_OUT)).await.unwrap().answer;
    assert_eq!((answer.verdict.action, answer.breaker.as_str()), (Action::Hold, "open"));
    assert_eq!(answer.state, StateName::Scheduled);
}

pub async fn an_open_breaker_delays_nobody_else(world: World) {
    broken(&world).await;
    for n in 0..1_000 {
        enqueue(&world, of("acme", &format!("many{n}"))).await;
    }
    for n in 0..10 {
        enqueue(&world, of("globex", &format!("few{n}"))).await;
    }
    // Whatever the sizes of the calls: every lease goes to the other tenant, and none of its runs waits.
    for max in [1, 1, 3, 5] {
        let given = world.lease(max).await;
        assert_eq!(given.len(), max as usize);
        assert!(given.iter().all(|leased| leased.tenant.as_str() == "globex"));
    }
}

pub async fn outage_across_tenants_is_one_breaker(world: World) {
    for n in 0..ENOUGH / 2 {
        for tenant in ["acme", "globex"] {
            failures(&world, 1, |_| asking(tenant, &format!("r{n}"), "gpt-5")).await;
        }
    }
    let breakers = all(&world).await;
    let open: Vec<&BreakerView> = breakers.iter().filter(|breaker| breaker.state == BreakerStateName::Open).collect();
    assert_eq!(open.len(), 1, "{breakers:?}");
    assert_eq!(open[0].name.as_str(), "breaker:everywhere/production/openai/gpt-5");
    assert_eq!((open[0].scope, open[0].tenant.clone()), (BreakerScope::Everywhere, None));
    enqueue(&world, asking("initech", "same", "gpt-5")).await;
    enqueue(&world, asking("initech", "other", "gpt-4o")).await;
    let given: Vec<String> = world.lease(100).await.into_iter().map(|leased| leased.run_id.to_string()).collect();
    assert_eq!(given, ["other"]);
    // The failures of one tenant do not open a shared breaker.
    failures(&world, 2 * ENOUGH, |n| asking("umbrella", &format!("r{n}"), "o3")).await;
    let own = stands(&world, "umbrella").await.into_iter().find(|(name, _)| name.contains("o3")).unwrap();
    assert_eq!(own, ("breaker:model/production/umbrella/openai/o3".to_owned(), BreakerStateName::Open));
    enqueue(&world, asking("initech", "o3", "o3")).await;
    assert_eq!(world.lease(100).await.len(), 1);
}

pub async fn environments_have_their_own_breakers(world: World) {
    let staging = |run: &str| NewRun { environment: Label::from("staging"), ..of("acme", run) };
    failures(&world, ENOUGH, |n| staging(&format!("r{n}"))).await;
    enqueue(&world, staging("held")).await;
    enqueue(&world, of("acme", "goes")).await;
    let given = world.lease(100).await;
    assert_eq!(given.len(), 1);
    assert_eq!(given[0].run_id.as_str(), "goes");
}

pub async fn a_held_run_refuses_a_start_and_a_caller_passes(world: World) {
    enqueue(&world, of("acme", "due")).await;
    broken(&world).await;
    for _ in 0..2 {
        let refused = world.store.start(start("due")).await.unwrap_err().to_string();
        assert_eq!(refused, format!("held by {OWN}"));
    }
    assert_eq!(world.show("due").await.summary.held_by.unwrap().as_str(), OWN);
    world.retried_by_caller("default").await;
    assert!(world.store.start(start("due")).await.unwrap().answer.lease.is_some());
}

pub async fn released_holds_alternate_tenants_and_spread_out(world: World) {
    for n in 0..ENOUGH / 2 {
        for tenant in ["acme", "globex"] {
            failures(&world, 1, |_| asking(tenant, &format!("r{n}"), "gpt-5")).await;
        }
    }
    for n in 0..30 {
        enqueue(&world, asking("acme", &format!("big{n}"), "gpt-5")).await;
    }
    for n in 0..5 {
        enqueue(&world, asking("globex", &format!("small{n}"), "gpt-5")).await;
    }
    assert!(world.lease(1_000).await.is_empty());
    world.wait(OPENING_MS);
    let probe = world.lease(1_000).await;
    assert_eq!(probe.len(), 1);
    world.store.succeed(success(&under(&probe[0]), "\"ok\"")).await.unwrap();
    assert!(all(&world).await.iter().all(|view| view.state == BreakerStateName::Closed));
    world.store.release_held(20).await.unwrap();
    let filter = RunFilter { held: Some(false), states: vec![StateName::Scheduled], ..RunFilter::default() };
    let page = PageCall { sort: Sort::NewestFirst, limit: 500, cursor: None, count: true };
    let runs = world.store.runs(&TenantScope::All, filter, page).await.unwrap().runs;
    let mut let_go: Vec<_> = runs.iter().filter(|run| run.next_attempt_at > Some(world.store.now())).collect();
    let_go.sort_by_key(|run| run.next_attempt_at);
    let tenants: Vec<&str> = let_go.iter().take(10).map(|run| run.tenant.as_str()).collect();
    assert_eq!(tenants.iter().filter(|tenant| **tenant == "globex").count(), 5, "{tenants:?}");
    assert!(let_go.windows(2).all(|pair| pair[0].next_attempt_at < pair[1].next_attempt_at));
}

pub async fn a_restart_keeps_breakers_windows_and_holds(world: World) {
    failures(&world, ENOUGH - 1, |n| of("acme", &format!("r{n}"))).await;
    failures(&world, 3, |n| of("globex", &format!("r{n}"))).await;
    let old = begin(&world, of("globex", "old")).await;
    let world = world.restarted().await;
    failures(&world, 1, |_| of("acme", "last")).await;
    assert_eq!(stands(&world, "acme").await, [(OWN.to_owned(), BreakerStateName::Open)]);
    let (before, was_held) = (all(&world).await, held(&world).await);
    let world = world.restarted().await;
    assert_eq!((all(&world).await, held(&world).await), (before, was_held));
    world.store.fail(old, failed(TIMED_OUT)).await.unwrap();
    assert_eq!(
        all(&world).await.iter().find(|view| view.tenant == Some("globex".parse().unwrap())).unwrap().failed,
        Some(4)
    );
    world.wait(OPENING_MS);
    world.store.release_held(10).await.unwrap();
    let given = world.lease(100).await;
    let probes: Vec<&LeasedRun> = given.iter().filter(|leased| leased.tenant.as_str() == "acme").collect();
    assert_eq!(probes.len(), 1);
    let world = world.restarted().await;
    assert!(world.lease(100).await.is_empty(), "the slot is taken after a restart, too");
    world.store.succeed(success(&under(probes[0]), "\"ok\"")).await.unwrap();
    assert_eq!(stands(&world, "acme").await, []);
}

pub async fn stale_results_do_not_count_after_a_restart(world: World) {
    let mut late = Vec::new();
    for n in 0..2 * ENOUGH {
        late.push(begin(&world, of("acme", &format!("late{n}"))).await);
    }
    broken(&world).await;
    by_hand(&world, BreakerAction::Close, None).await;
    // Closed and without a failure it needs no row; its history remains.
    let world = world.restarted().await;
    for under in late {
        let answer = world.store.fail(under, failed(TIMED_OUT)).await.unwrap();
        assert_eq!(answer.breaker, "closed");
    }
    assert!(stands(&world, "acme").await.is_empty());
}

pub async fn repeated_report_gets_the_breaker_state_of_then(world: World) {
    let before = world.store.report(report("before", TIMED_OUT)).await.unwrap().answer;
    broken(&world).await;
    let during = world.store.report(report("during", TIMED_OUT)).await.unwrap().answer;
    assert_eq!((before.breaker.as_str(), during.breaker.as_str()), ("closed", "open"));
    assert_eq!(world.store.report(report("before", TIMED_OUT)).await.unwrap().answer, before);
    by_hand(&world, BreakerAction::Reset, None).await;
    assert_eq!(world.store.report(report("during", TIMED_OUT)).await.unwrap().answer, during);
}

pub async fn attempt_begun_before_a_restart_counts_in_its_generation(world: World) {
    begin(&world, of("acme", "r0")).await;
    let under_way = begin(&world, of("globex", "r1")).await;
    let world = world.restarted().await;
    // The engine reads first; then another breaker changes.
    world.store.release_held(100).await.unwrap();
    by_hand(&world, BreakerAction::Open, None).await;
    world.store.fail(under_way, failed(TIMED_OUT)).await.unwrap();
    let shown = all(&world).await;
    let own = shown.iter().find(|view| view.name.as_str() == "breaker:tenant/production/globex").unwrap();
    assert_eq!((own.state, own.attempts, own.failed), (BreakerStateName::Closed, Some(1), Some(1)));
}

/// A run in a queue that no worker of the case asks for.
fn unserved(run: &str) -> NewRun {
    NewRun { queue: "unserved".parse().unwrap(), ..of("acme", run) }
}

async fn lease_default(world: &World) -> Vec<LeasedRun> {
    let call = LeaseCall { queues: vec!["default".parse().unwrap()], ..lease_call(10) };
    world.store.lease(call).await.unwrap()
}

/// Acme's breaker is half open and has offered a run in an unserved queue; another waits in a served one.
async fn offered_to_nobody(world: &World) {
    failures(world, ENOUGH, |n| unserved(&format!("broke{n:02}"))).await;
    enqueue(world, of("acme", "served")).await;
    assert!(lease_default(world).await.is_empty());
    assert_eq!(held(world).await, 2);
    world.wait(OPENING_MS);
    assert_eq!(world.store.release_held(500).await.unwrap().moved, 1);
    assert_eq!(world.show("broke19").await.summary.held_by, None, "it is the one that is offered");
    assert!(lease_default(world).await.is_empty());
}

pub async fn untaken_probe_offer_goes_to_another_run(world: World) {
    offered_to_nobody(&world).await;
    world.wait(29_999);
    assert_eq!(world.store.release_held(500).await.unwrap().moved, 0);
    world.wait(1);
    assert_eq!(world.store.release_held(500).await.unwrap().moved, 1);
    let probe = lease_default(&world).await.pop().expect("another run finds out");
    world.store.succeed(success(&under(&probe), "\"ok\"")).await.unwrap();
    assert!(stands(&world, "acme").await.is_empty());
}

pub async fn a_thousand_unserved_runs_do_not_block_their_breaker(world: World) {
    for n in 0..1_000 {
        enqueue(&world, unserved(&format!("many{n:04}"))).await;
    }
    failures(&world, ENOUGH, |n| unserved(&format!("broke{n:02}"))).await;
    assert!(world.lease(2_000).await.is_empty());
    enqueue(&world, of("acme", "served")).await;
    assert!(lease_default(&world).await.is_empty());
    world.wait(OPENING_MS);
    let mut rounds = 0;
    while lease_default(&world).await.is_empty() {
        world.store.release_held(500).await.unwrap();
        world.wait(30_000);
        rounds += 1;
        assert!(rounds <= 15, "each round offers twice as many");
    }
}

pub async fn deferred_probe_offer_goes_to_another_run(world: World) {
    offered_to_nobody(&world).await;
    let until = world.store.now().plus_ms(365 * 86_400_000);
    world.triage("broke19", Triage::Defer { until }).await.unwrap();
    assert_eq!(world.store.release_held(500).await.unwrap().moved, 1);
    assert_eq!(lease_default(&world).await.len(), 1);
}

pub async fn released_probe_goes_to_another_run(world: World) {
    broken(&world).await;
    enqueue(&world, of("acme", "next")).await;
    assert!(world.lease(100).await.is_empty());
    world.wait(OPENING_MS);
    world.store.release_held(500).await.unwrap();
    let probe = world.lease(1_000).await.pop().unwrap();
    world.store.release(under(&probe)).await.unwrap();
    assert_eq!(world.store.release_held(500).await.unwrap().moved, 1);
    let next = world.lease(1_000).await.pop().expect("the slot is free at once");
    assert_ne!(next.run_id, probe.run_id);
}

/// As many names as a tenant may have breakers for, and more.
const NAMES: usize = 100;
const OTHER: &str = "breaker:tenant/(other)/acme";

fn somewhere(n: usize, run: &str) -> NewRun {
    NewRun { environment: Label::from(format!("env{n}").as_str()), ..asking("acme", &format!("{run}{n}"), "gpt-5") }
}

async fn names_of(world: &World, tenant: &str) -> Vec<String> {
    stands(world, tenant).await.into_iter().map(|(name, _)| name).collect()
}

pub async fn a_tenants_many_names_share_a_breaker(world: World) {
    failures(&world, NAMES, |n| somewhere(n, "r")).await;
    let names = names_of(&world, "acme").await;
    assert!(names.len() <= BREAKERS_PER_TENANT_MAX + 2, "{}", names.len());
    assert!(names.iter().any(|name| name == OTHER), "{names:?}");
    let everywhere = all(&world).await.into_iter().filter(|view| view.scope == BreakerScope::Everywhere).count();
    assert!(everywhere <= BREAKERS_PER_TENANT_MAX, "{everywhere}");
    // What fails under further names opens the one that they share, and that holds them.
    failures(&world, ENOUGH, |n| somewhere(1_000 + n, "more")).await;
    let open: Vec<String> = all(&world)
        .await
        .into_iter()
        .filter(|v| v.state == BreakerStateName::Open)
        .map(|v| v.name.to_string())
        .collect();
    assert!(open.contains(&OTHER.to_owned()), "{open:?}");
    enqueue(&world, somewhere(5_000, "held")).await;
    enqueue(&world, somewhere(0, "own")).await;
    enqueue(&world, NewRun { tenant: "globex".parse().unwrap(), ..somewhere(5_000, "theirs") }).await;
    let given: Vec<String> = world.lease(10).await.into_iter().map(|leased| leased.run_id.to_string()).collect();
    assert!(!given.contains(&"held5000".to_owned()), "{given:?}");
    assert!(given.contains(&"own0".to_owned()) && given.contains(&"theirs5000".to_owned()), "{given:?}");
    // Other tenants' shares are unaffected.
    failures(&world, 1, |n| NewRun { tenant: "globex".parse().unwrap(), ..somewhere(n, "r") }).await;
    assert!(names_of(&world, "globex").await.contains(&"breaker:tenant/env0/globex".to_owned()));
}

pub async fn quiet_breakers_are_forgotten(world: World) {
    // A few beyond its share, and too few to open what they share.
    failures(&world, BREAKERS_PER_TENANT_MAX / 2 + 10, |n| somewhere(n, "r")).await;
    assert!(names_of(&world, "acme").await.contains(&OTHER.to_owned()));
    world.wait(11 * 60_000);
    world.store.trim_events(500).await.unwrap();
    assert_eq!(world.store.trim_events(500).await.unwrap().moved, 0);
    // There is room for other names now.
    failures(&world, 1, |_| somewhere(7_000, "new")).await;
    assert!(names_of(&world, "acme").await.contains(&"breaker:tenant/env7000/acme".to_owned()));
}

pub async fn late_success_counts_its_attempt_once(world: World) {
    let under = begin(&world, of("acme", "r1")).await;
    world.wait(crate::world::LEASE_MS);
    world.store.rescue_expired(100).await.unwrap();
    let figures =
        |views: Vec<BreakerView>| views.into_iter().map(|view| (view.attempts, view.failed)).collect::<Vec<_>>();
    assert_eq!(figures(all(&world).await), [(Some(1), Some(1))]);
    for _ in 0..2 {
        world.store.succeed(success(&under, "\"ok\"")).await.unwrap();
    }
    assert_eq!(world.state("r1").await, StateName::Recovered);
    assert_eq!(figures(all(&world).await), [(Some(1), Some(1))]);
}

pub async fn retry_on_another_model_counts_for_that_model(world: World) {
    let policy = PolicyLayer { models: Some(vec!["gpt-4".into(), "gpt-5".into()]), ..PolicyLayer::default() };
    let settings = QueueSettings { policy, ..QueueSettings::default() };
    world.store.put_queue("default".parse().unwrap(), settings).await.unwrap();
    let open = |model: Option<&str>| BreakerAct {
        tenant: Some("acme".parse().unwrap()),
        environment: Label::from("production"),
        provider: model.map(|_| Label::from("openai")),
        model: model.map(Label::from),
        action: BreakerAction::Open,
        until: None,
        actor: "key:ops".into(),
        reason: Some(Text::from("outage")),
    };
    let mut begun = Vec::new();
    for run in ["same", "larger", "again", "all"] {
        begun.push(begin(&world, asking("acme", run, "gpt-4")).await);
    }
    let [same, larger, again, whole] = begun.try_into().unwrap();
    world.store.operate_breaker(open(Some("gpt-4"))).await.unwrap();
    let answer = world.store.fail(same, failed(TIMED_OUT)).await.unwrap();
    assert_eq!(answer.verdict.action, Action::Hold);
    let answer = world.store.fail(larger, failed(TOO_LONG)).await.unwrap();
    assert_eq!(answer.verdict.action, Action::Retry, "{answer:?}");
    assert_eq!(answer.verdict.target.model, Some(Label::from("gpt-5")));
    // It goes out though its first model is held, and its end is the other model's.
    world.wait(20_000);
    let leased = world.lease(10).await;
    assert_eq!(leased.iter().map(|leased| leased.run_id.as_str()).collect::<Vec<_>>(), ["larger"]);
    world.store.fail(under(&leased[0]), failed(TIMED_OUT)).await.unwrap();
    let counted = "breaker:model/production/acme/openai/gpt-5";
    assert_eq!(all(&world).await.iter().find(|view| view.name.as_str() == counted).unwrap().failed, Some(1));
    // The other model's breaker holds what was sent to it.
    world.store.fail(again, failed(TOO_LONG)).await.unwrap();
    world.store.operate_breaker(open(Some("gpt-5"))).await.unwrap();
    world.wait(20_000);
    assert!(world.lease(10).await.is_empty());
    assert_eq!(world.show("again").await.summary.held_by, Some(Label::from(counted)));
    // The tenant's own holds whatever model it is.
    world.store.operate_breaker(open(None)).await.unwrap();
    let answer = world.store.fail(whole, failed(TOO_LONG)).await.unwrap();
    assert_eq!((answer.verdict.action, answer.verdict.held_by.as_ref().unwrap().as_str()), (Action::Hold, OWN));
}
