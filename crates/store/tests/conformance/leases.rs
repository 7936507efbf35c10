//! Dealing: fair over tenants, in order within a key, bounded in size.

use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::Sort;
use redrive_store::{
    Fit, FixedPayload, LeaseCall, NewRun, PageCall, PayloadKind, Replay, RunFilter, Start, StartHow, TenantScope,
    Triage,
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

fn enqueued(run: NewRun) -> Start {
    Start {
        run,
        how: StartHow::Enqueue { due_at: None },
        versions: Default::default(),
        idle_ms: None,
        deadline_ms: None,
        fit: Fit::AsItIs,
    }
}

pub async fn ten_of_a_small_tenant_come_within_twenty_of_ten_thousand(world: World) {
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

pub async fn turns_go_on_where_the_last_call_stopped(world: World) {
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

pub async fn runs_of_one_order_key_go_out_one_at_a_time(world: World) {
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

pub async fn a_queue_named_thrice_hands_each_run_out_once(world: World) {
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

pub async fn an_answer_holds_at_most_its_bytes_but_at_least_one_run(world: World) {
    for run in ["a", "b", "c"] {
        let body = format!("\"{}\"", run.repeat(600));
        let run = NewRun { payload: payload(PayloadKind::Json, body.as_bytes()), ..new_run(run) };
        world.store.start(enqueued(run)).await.unwrap();
    }
    let call = |bytes| LeaseCall { payload_max_bytes: bytes, ..lease_call(10) };
    assert_eq!(world.store.lease(call(10)).await.unwrap().len(), 1);
    assert_eq!(world.store.lease(call(1_300)).await.unwrap().len(), 2);
}

pub async fn a_fixed_payload_counts_with_the_length_it_has_now(world: World) {
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
