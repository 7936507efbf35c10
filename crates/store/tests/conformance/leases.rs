//! Leasing: fair over tenants, in order within an order key, bounded in size.

use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::{LeasedRun, Sort};
use redrive_engine::{
    Fit, FixedPayload, LeaseCall, NewRun, PageCall, PayloadKind, Replay, RunFilter, Start, StartHow, TenantScope,
    Triage, TriageAct,
};

use crate::reports::BUG;
use crate::world::{World, lease_call, new_run, payload, report, success, under};

impl World {
    /// From the kept counters.
    pub async fn counted(&self, state: StateName) -> u64 {
        let filter = RunFilter { states: vec![state], ..RunFilter::default() };
        let page = PageCall { sort: Sort::NewestFirst, limit: 1, cursor: None, count: true };
        self.store.runs(&TenantScope::All, filter, page).await.unwrap().total.unwrap()
    }
}

pub fn enqueued(run: NewRun) -> Start {
    Start {
        run,
        how: StartHow::Enqueue { due_at: None },
        versions: Default::default(),
        idle_ms: None,
        deadline_ms: None,
        fit: Fit::AsItIs,
    }
}

pub async fn small_tenant_is_not_starved_by_ten_thousand_runs(world: World) {
    let many: Vec<_> = (0..10_000).map(|n| report(&format!("big-{n}"), "Request timed out")).collect();
    assert!(world.store.report_all(many).await.iter().all(Result::is_ok));
    for n in 0..10 {
        world.enqueue("small", &format!("s-{n}")).await;
    }
    world.wait(600_000);
    let mut served = Vec::new();
    // However the calls are cut, the first twenty leases hold all ten.
    for max in [1, 1, 3, 7, 8] {
        served.extend(world.lease(max).await);
    }
    assert_eq!(served.len(), 20);
    assert_eq!(served.iter().filter(|run| run.tenant.as_str() == "small").count(), 10);
}

pub async fn turns_continue_where_the_last_call_stopped(world: World) {
    for tenant in ["a", "b", "c"] {
        for n in 0..3 {
            world.enqueue(tenant, &format!("r-{n}")).await;
        }
    }
    let mut turns = Vec::new();
    for _ in 0..6 {
        turns.extend(world.lease(1).await.into_iter().map(|run| run.tenant.to_string()));
    }
    assert_eq!(turns, ["a", "b", "c", "a", "b", "c"]);
}

pub async fn runs_of_one_order_key_execute_one_by_one(world: World) {
    for run in ["o-1", "o-2", "o-3"] {
        let run = NewRun { order_key: Some("cart-7".parse().unwrap()), ..new_run(run) };
        world.store.start(enqueued(run)).await.unwrap();
        world.wait(1);
    }
    for run in ["o-1", "o-2", "o-3"] {
        let leased = world.lease(10).await;
        assert_eq!(leased.iter().map(|l| l.run_id.as_str()).collect::<Vec<_>>(), [run]);
        assert!(world.lease(10).await.is_empty());
        world.store.succeed(success(&under(&leased[0]), "1")).await.unwrap();
    }
}

pub async fn queue_named_thrice_leases_each_run_once(world: World) {
    for run in ["a", "b", "c"] {
        world.enqueue("acme", run).await;
    }
    let queues = vec!["default".parse().unwrap(); 3];
    let leased = world.store.lease(LeaseCall { queues, ..lease_call(10) }).await.unwrap();
    assert_eq!(leased.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(world.counted(StateName::Running).await, 3);
    assert!(world.lease(10).await.is_empty());
}

pub async fn an_agent_gets_only_what_it_can_do(world: World) {
    for (run, agent) in [("a", "biller"), ("b", "writer"), ("c", "biller")] {
        world.store.start(enqueued(NewRun { agent: Some(Label::from(agent)), ..new_run(run) })).await.unwrap();
    }
    let call = LeaseCall { agents: Some(vec![Label::from("biller")]), ..lease_call(10) };
    let mut runs: Vec<_> = world.store.lease(call).await.unwrap().into_iter().map(|l| l.run_id.to_string()).collect();
    runs.sort();
    assert_eq!(runs, ["a", "c"]);
}

pub async fn lease_answer_is_bounded_but_never_empty(world: World) {
    for run in ["a", "b", "c"] {
        let body = format!("\"{}\"", run.repeat(600));
        let run = NewRun { payload: payload(PayloadKind::Json, body.as_bytes()), ..new_run(run) };
        world.store.start(enqueued(run)).await.unwrap();
    }
    let call = |bytes| LeaseCall { payload_max_bytes: bytes, ..lease_call(10) };
    assert_eq!(world.store.lease(call(10)).await.unwrap().len(), 1);
    assert_eq!(world.store.lease(call(1_300)).await.unwrap().len(), 2);
}

pub async fn fixed_payload_counts_with_its_current_length(world: World) {
    let fix = format!("\"{}\"", "x".repeat(600));
    for run in ["a", "b"] {
        world.store.report(report(run, BUG)).await.unwrap();
        let payload = payload(PayloadKind::Json, fix.as_bytes());
        let replay = Replay { fix: Some(FixedPayload { from_revision: 1, payload, patch: None }), ..Replay::default() };
        world.act(run, Triage::Replay(Box::new(replay))).await.unwrap();
    }
    let call = LeaseCall { payload_max_bytes: 700, ..lease_call(10) };
    let leased = world.store.lease(call).await.unwrap();
    assert_eq!(leased.iter().map(|run| run.payload.as_ref().unwrap().get()).collect::<Vec<_>>(), [fix]);
}

pub async fn a_queue_whose_caller_retries_is_never_leased(world: World) {
    world.retried_by_caller("default").await;
    world.enqueue("acme", "r1").await;
    assert!(world.lease(10).await.is_empty());
}

const REQUEST: &str = "0b9e1c1e-5c0a-4c58-9e9b-0123456789ab";

fn requested(scope: TenantScope) -> LeaseCall {
    LeaseCall { scope, request_id: Some(REQUEST.parse().unwrap()), ..lease_call(2) }
}

fn leases(leased: &[LeasedRun]) -> Vec<(&str, &str)> {
    leased.iter().map(|run| (run.run_id.as_str(), run.lease.as_str())).collect()
}

pub async fn the_same_request_gets_the_same_leases_while_they_live(world: World) {
    for run in ["a", "b", "c"] {
        world.enqueue("acme", run).await;
    }
    let first = world.store.lease(requested(TenantScope::All)).await.unwrap();
    assert_eq!(first.len(), 2);
    let world = world.restarted().await;
    let again = world.store.lease(requested(TenantScope::All)).await.unwrap();
    assert_eq!(leases(&again), leases(&first));
    assert_eq!(again[0].payload.as_ref().unwrap().get(), first[0].payload.as_ref().unwrap().get());
    assert_eq!(world.show("a").await.summary.attempt, 1);
    // What has ended is over; what lives comes back.
    world.store.succeed(success(&under(&first[0]), "1")).await.unwrap();
    let left = world.store.lease(requested(TenantScope::All)).await.unwrap();
    assert_eq!(leases(&left), leases(&first[1..]));
    world.store.release(under(&first[1])).await.unwrap();
    world.wait(1_000);
    // None lives any more: it is a call like any other, and what another call holds is not its own.
    let other = world.lease(1).await;
    let fresh = world.store.lease(requested(TenantScope::All)).await.unwrap();
    assert_eq!((other.len(), fresh.len()), (1, 1));
    assert_ne!(fresh[0].run_id, other[0].run_id);
}

pub async fn request_id_is_known_within_its_scope_only(world: World) {
    for tenant in ["acme", "globex"] {
        world.enqueue(tenant, "r").await;
    }
    let one = |tenant: &str| requested(TenantScope::One(tenant.parse().unwrap()));
    let acme = world.store.lease(one("acme")).await.unwrap();
    let globex = world.store.lease(one("globex")).await.unwrap();
    assert_eq!((acme[0].tenant.as_str(), globex[0].tenant.as_str()), ("acme", "globex"));
    assert!(world.store.lease(requested(TenantScope::All)).await.unwrap().is_empty());
    assert!(world.store.lease(one("nobody")).await.unwrap().is_empty());
    assert_eq!(leases(&world.store.lease(one("acme")).await.unwrap()), leases(&acme));
}

pub async fn runs_without_payload_starve_nobody(world: World) {
    world.retried_by_caller("default").await;
    let omitted = |n| {
        let mut report = report(&format!("omitted-{n}"), "Request timed out");
        report.run.payload = payload(PayloadKind::Omitted, b"");
        report
    };
    // One more than fits into a call is left when the queue turns to workers.
    assert!(world.store.report_all((0..1_004).map(omitted).collect()).await.iter().all(Result::is_ok));
    world.wait(60_000);
    for n in 0..4 {
        world.enqueue("acme", &format!("whole-{n}")).await;
    }
    world.store.put_queue("default".parse().unwrap(), Default::default()).await.unwrap();
    assert_eq!((world.counted(StateName::Dead).await, world.counted(StateName::Scheduled).await), (1_000, 8));
    let leased = world.lease(4).await;
    assert!(leased.len() == 4 && leased.iter().all(|run| run.run_id.as_str().starts_with("whole")));
    assert_eq!(world.store.reject_unclaimed(100).await.unwrap().moved, 4);
    assert_eq!((world.counted(StateName::Dead).await, world.counted(StateName::Scheduled).await), (1_004, 0));
}

/// A call that gets nothing of the tenants whose turn it is goes on to the others.
pub async fn a_tenant_without_work_for_the_caller_starves_nobody(world: World) {
    for tenant in ["a", "b", "c"] {
        let other = NewRun { tenant: tenant.parse().unwrap(), agent: Some(Label::from("other")), ..new_run("r") };
        world.store.start(enqueued(other)).await.unwrap();
    }
    let mine = NewRun { tenant: "d".parse().unwrap(), agent: Some(Label::from("mine")), ..new_run("r") };
    world.store.start(enqueued(mine)).await.unwrap();
    let call = LeaseCall { agents: Some(vec![Label::from("mine")]), ..lease_call(1) };
    let leased = world.store.lease(call).await.unwrap();
    assert_eq!(leased.iter().map(|run| run.tenant.as_str()).collect::<Vec<_>>(), ["d"]);
}

pub async fn the_same_order_key_in_two_tenants_does_not_wait(world: World) {
    for tenant in ["acme", "globex"] {
        for run in ["o-1", "o-2"] {
            let key = Some("cart-7".parse().unwrap());
            let run = NewRun { tenant: tenant.parse().unwrap(), order_key: key, ..new_run(run) };
            world.store.start(enqueued(run)).await.unwrap();
        }
    }
    let given = |leased: &[LeasedRun]| leased.iter().map(|run| run.tenant.to_string()).collect::<Vec<_>>();
    assert_eq!(given(&world.lease(10).await), ["acme", "globex"], "one each in one call");
    assert!(world.lease(10).await.is_empty());
    let at = crate::world::at("acme", "o-1");
    let act = TriageAct { at, triage: Triage::Cancel, actor: "key:ops".into(), reason: None };
    world.store.triage(act).await.unwrap();
    assert_eq!(given(&world.lease(10).await), ["acme"], "and each waits for its own only");
}

/// Beyond so many names only queues with due runs are looked at.
pub async fn due_order_holds_across_a_hundred_queues(world: World) {
    let enqueue = async |tenant: &str, n: usize| {
        let run = NewRun {
            tenant: tenant.parse().unwrap(),
            queue: format!("q{n:03}").parse().unwrap(),
            ..new_run(&format!("{tenant}-{n:03}"))
        };
        world.store.start(enqueued(run)).await.unwrap();
        world.wait(1);
    };
    // The last queue's run is the oldest.
    for n in (0..100).rev() {
        enqueue("acme", n).await;
    }
    enqueue("globex", 7).await;
    world.retried_by_caller("q099").await;
    let leased: Vec<String> = world.lease(5).await.into_iter().map(|run| run.run_id.to_string()).collect();
    assert_eq!(leased, ["acme-098", "globex-007", "acme-097", "acme-096", "acme-095"]);
    assert_eq!(world.lease(1_000).await.len(), 95);
    assert!(world.lease(1_000).await.is_empty(), "what its caller retries is nobody else's");
}

pub async fn due_order_holds_across_queues(world: World) {
    let queues = ["late", "early"];
    for (n, queue) in [(0, "early"), (1, "late"), (2, "early"), (3, "late"), (4, "early")] {
        let run = NewRun { queue: queue.parse().unwrap(), ..new_run(&format!("r{n}")) };
        world.store.start(enqueued(run)).await.unwrap();
        world.wait(1);
    }
    let queues = queues.map(|queue| queue.parse().unwrap()).to_vec();
    let leased = world.store.lease(LeaseCall { queues: queues.clone(), ..lease_call(3) }).await.unwrap();
    assert_eq!(ids(&leased), ["r0", "r1", "r2"]);
    assert_eq!(ids(&world.store.lease(LeaseCall { queues, ..lease_call(3) }).await.unwrap()), ["r3", "r4"]);
}

const WALL: usize = 5_000;

/// Due, in the order in which they were reported.
async fn report_wall(world: &World, made: impl Fn(NewRun) -> NewRun) {
    let wall = (0..WALL).map(|n| {
        let mut report = report(&format!("wall-{n}"), "Request timed out");
        report.run = made(report.run);
        report
    });
    assert!(world.store.report_all(wall.collect()).await.iter().all(Result::is_ok));
    world.wait(600_000);
}

fn ids(leased: &[LeasedRun]) -> Vec<&str> {
    leased.iter().map(|run| run.run_id.as_str()).collect()
}

fn for_agent(agent: &str, max: u32) -> LeaseCall {
    LeaseCall { agents: Some(vec![Label::from(agent)]), ..lease_call(max) }
}

pub async fn a_run_behind_five_thousand_for_another_agent_is_found(world: World) {
    report_wall(&world, |run| NewRun { agent: Some(Label::from("other")), ..run }).await;
    for run in ["m1", "m2", "m3"] {
        world.store.start(enqueued(NewRun { agent: Some(Label::from("mine")), ..new_run(run) })).await.unwrap();
        world.wait(1);
    }
    for run in ["m1", "m2", "m3"] {
        assert_eq!(ids(&world.store.lease(for_agent("mine", 1)).await.unwrap()), [run]);
    }
    assert!(world.store.lease(for_agent("mine", 1)).await.unwrap().is_empty());
    assert_eq!(world.store.lease(for_agent("other", 2)).await.unwrap().len(), 2, "whom it was passed over for gets it");
}

pub async fn a_busy_order_key_hides_nothing_behind_five_thousand(world: World) {
    report_wall(&world, |run| NewRun { order_key: Some("cart-7".parse().unwrap()), ..run }).await;
    let first = world.lease(1).await;
    world.enqueue("acme", "free").await;
    assert_eq!(ids(&world.lease(1).await), ["free"]);
    assert!(world.lease(1).await.is_empty());
    // Its key is free again, and lies far before where the last call has ended.
    world.store.succeed(success(&under(&first[0]), "1")).await.unwrap();
    assert_eq!(world.lease(10).await.len(), 1);
}

/// New work at the end does not keep a call from what has become free at the front.
pub async fn runs_freed_at_the_front_are_found_under_load(world: World) {
    report_wall(&world, |run| NewRun { order_key: Some("cart-7".parse().unwrap()), ..run }).await;
    let first = world.lease(1).await;
    for n in 0..30 {
        world.enqueue("acme", &format!("before-{n}")).await;
        world.wait(1);
    }
    for n in 0..10 {
        assert_eq!(ids(&world.lease(1).await), [format!("before-{n}")]);
    }
    world.store.succeed(success(&under(&first[0]), "1")).await.unwrap();
    let mut calls = 0;
    loop {
        calls += 1;
        world.wait(1);
        world.enqueue("acme", &format!("after-{calls}")).await;
        let leased = world.lease(1).await;
        if ids(&leased)[0].starts_with("wall") {
            break;
        }
        assert!(calls <= 100, "new work is all that is handed out");
    }
}

/// Calls that share a batch share nothing of what they ask for.
pub async fn concurrent_calls_of_two_agents_get_their_own_runs(world: World) {
    for n in 0..60 {
        let agent = Some(Label::from(if n % 2 == 0 { "even" } else { "odd" }));
        world.store.start(enqueued(NewRun { agent, ..new_run(&format!("r-{n}")) })).await.unwrap();
    }
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..60 {
        let (store, agent) = (world.store.clone(), if n % 2 == 0 { "even" } else { "odd" });
        calls.spawn(async move { (agent, store.lease(for_agent(agent, 1)).await.unwrap()) });
    }
    for (agent, leased) in calls.join_all().await {
        let got: Vec<_> = leased.iter().map(|run| run.agent.as_ref().unwrap().as_str()).collect();
        assert_eq!(got, [agent]);
    }
}
