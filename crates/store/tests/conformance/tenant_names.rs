//! Names that a tenant chooses: capped, and invisible to others.

use redrive_core::ids::QueueName;
use redrive_core::wire::QueueSettings;
use redrive_engine::{
    Error, LeaseCall, NewFailure, Start, StartHow, TENANT_QUEUES_MAX, TENANT_REASONS_MAX, TenantScope, Triage,
};

use crate::world::{World, at, lease_call, report, start};

fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

fn failed_in(tenant: &str, run: &str, name: &str) -> NewFailure {
    let mut report = report(run, "Request timed out");
    (report.run.tenant, report.run.queue) = (tenant.parse().unwrap(), queue(name));
    report
}

fn started_in(tenant: &str, run: &str, name: &str) -> Start {
    let mut start = start(run);
    (start.run.tenant, start.run.queue) = (tenant.parse().unwrap(), queue(name));
    start
}

async fn use_all_queues(world: &World) {
    let reports = (0..TENANT_QUEUES_MAX).map(|n| failed_in("acme", &format!("r{n}"), &format!("q{n}"))).collect();
    for reported in world.store.report_all(reports).await {
        assert!(reported.unwrap().fresh);
    }
}

pub async fn a_failure_beyond_the_queue_limit_goes_to_default(world: World) {
    use_all_queues(&world).await;
    world.store.report(failed_in("acme", "known", "q7")).await.unwrap();
    assert_eq!(world.show("known").await.summary.queue, queue("q7"));
    world.store.report(failed_in("acme", "late", "one-more")).await.unwrap();
    let late = world.show("late").await;
    assert_eq!(late.summary.queue, queue("default"));
    let noted = late.body.history.iter().find(|entry| entry.event == "queue_limit").unwrap();
    assert!(noted.note.as_ref().unwrap().decode().contains("one-more"));
    let queues = world.store.queues(500, None).await.unwrap();
    assert_eq!((queues.queues.len(), queues.next_cursor.is_some()), (500, true));
}

pub async fn a_start_beyond_the_queue_limit_is_refused(world: World) {
    use_all_queues(&world).await;
    let refused = world.store.start(started_in("acme", "s", "one-more")).await;
    assert!(matches!(refused, Err(Error::TooManyQueues { most: TENANT_QUEUES_MAX })), "{refused:?}");
    assert!(matches!(world.store.run(&at("acme", "s")).await, Err(Error::NotFound(_))));
    world.store.start(started_in("acme", "known", "q7")).await.unwrap();
    world.store.start(started_in("acme", "default", "default")).await.unwrap();
    world.store.start(started_in("globex", "theirs", "one-more")).await.unwrap();
    world.store.put_queue(queue("declared"), QueueSettings::default()).await.unwrap();
    world.store.start(started_in("acme", "declared", "declared")).await.unwrap();
}

pub async fn a_reason_beyond_the_limit_counts_as_other(world: World) {
    let with_reason = |run: &str, reason: &str| {
        let mut report = report(run, "Request timed out");
        report.failed.failure.reason = reason.parse().unwrap();
        report
    };
    let reports = (0..TENANT_REASONS_MAX).map(|n| with_reason(&format!("r{n}"), &format!("x:r{n}"))).collect();
    for reported in world.store.report_all(reports).await {
        assert!(reported.unwrap().fresh);
    }
    for (run, reason, counted) in
        [("known", "x:r7", "x:r7"), ("late", "x:one-more", "x:other"), ("usual", "bug", "bug")]
    {
        world.store.report(with_reason(run, reason)).await.unwrap();
        assert_eq!(world.show(run).await.summary.reason.unwrap().as_str(), counted, "{run}");
    }
}

pub async fn another_tenants_queue_looks_absent(world: World) {
    world.store.report(failed_in("globex", "theirs", "secret")).await.unwrap();
    world.enqueue("acme", "mine").await;
    let to = |name: &str| Triage::Reassign { agent: None, queue: Some(queue(name)) };
    for name in ["secret", "nowhere"] {
        let refused = world.triage("mine", to(name)).await;
        assert!(matches!(refused, Err(Error::NotFound("queue"))), "{name}: {refused:?}");
    }
    // Once its own runs were there, it is there for it.
    world.store.report(failed_in("acme", "own", "secret")).await.unwrap();
    world.triage("mine", to("secret")).await.unwrap();
}

pub async fn wildcard_queue_covers_all_queues_of_a_tenant(world: World) {
    for (tenant, run, name) in [("acme", "a", "qa"), ("acme", "b", "default"), ("globex", "c", "qc")] {
        let mut start = started_in(tenant, run, name);
        start.how = StartHow::Enqueue { due_at: None };
        world.store.start(start).await.unwrap();
    }
    let call = LeaseCall { scope: TenantScope::One("acme".parse().unwrap()), queues: Vec::new(), ..lease_call(10) };
    let mut leased: Vec<String> =
        world.store.lease(call).await.unwrap().into_iter().map(|run| run.run_id.to_string()).collect();
    leased.sort_unstable();
    assert_eq!(leased, ["a", "b"]);
}
