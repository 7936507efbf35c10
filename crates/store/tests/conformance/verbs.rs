//! Every verb in every state, and its results: assignees, other queues, deferred and merged runs, duplicates.

use redrive_core::run::StateName;
use redrive_core::text::Label;
use redrive_core::wire::StepStatus::{Committed, Failed, Started, Unknown};
use redrive_core::wire::{Likeness, QueueSettings, Sort};
use redrive_engine::{Error, FailedAttempt, NewFailure, PageCall, RunFilter, TenantScope, Triage};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, at, failed, new_run, numbered, report, step, success, unnamed};

/// Brings a run of that name into a state.
pub async fn bring(world: &World, run: &str, state: StateName) {
    match state {
        StateName::Scheduled => drop(world.fail(run, TIMEOUT).await),
        StateName::Running => drop(world.start(run).await),
        StateName::Dead => drop(world.fail(run, BUG).await),
        StateName::Review => {
            world.fail(run, BUG).await;
            world.triage(run, Triage::Review).await.unwrap();
        }
        StateName::Succeeded => {
            let (_, under) = world.start(run).await;
            world.store.succeed(success(&under, "1")).await.unwrap();
        }
        StateName::Recovered => {
            world.fail(run, BUG).await;
            world.triage(run, Triage::replay(false)).await.unwrap();
            let (_, under) = world.lease_one().await;
            world.store.succeed(success(&under, "1")).await.unwrap();
        }
        StateName::Resolved => {
            world.fail(run, BUG).await;
            world.triage(run, Triage::Resolve).await.unwrap();
        }
        StateName::Discarded => {
            world.fail(run, BUG).await;
            world.triage(run, Triage::Discard).await.unwrap();
        }
        StateName::Merged => {
            world.fail(run, BUG).await;
            world.triage(run, Triage::Merge { into: "target".parse().unwrap() }).await.unwrap();
        }
    }
    assert_eq!(world.state(run).await, state);
}

fn verb(name: &str, world: &World) -> Triage {
    match name {
        "review" => Triage::Review,
        "approve" => Triage::Approve { plan_hash: Label::from("other"), own_too: true },
        "reject" => Triage::Reject,
        "defer" => Triage::Defer { until: world.store.now().plus_ms(60_000) },
        "reassign" => Triage::Reassign { agent: Some(Label::from("b")), queue: None },
        "assign" => Triage::Assign { to: Some(Label::from("ops")) },
        "merge" => Triage::Merge { into: "target".parse().unwrap() },
        "unmerge" => Triage::Unmerge,
        other => panic!("{other}"),
    }
}

fn told(said: redrive_engine::Result<StateName>) -> String {
    match said {
        Ok(state) => state.to_string(),
        Err(Error::Refused(refused)) => format!("*{}*", refused.code()),
        Err(Error::PlanChanged { .. }) => "*plan_changed*".into(),
        Err(other) => format!("{other:?}"),
    }
}

pub async fn every_verb_in_every_state_moves_or_explains_refusal(world: World) {
    world.fail("target", BUG).await;
    let mut rows = Vec::new();
    for name in ["review", "approve", "reject", "defer", "reassign", "assign", "merge", "unmerge"] {
        let mut row = vec![format!("{name:<8}")];
        for state in StateName::ALL.iter().copied() {
            let run = format!("{name}-{state}");
            bring(&world, &run, state).await;
            row.push(told(world.triage(&run, verb(name, &world)).await));
            if state == StateName::Scheduled {
                // Out of the way of the next lease.
                let _ = world.triage(&run, Triage::Discard).await;
            }
            let _ = world.triage(&run, Triage::Cancel).await;
            let _ = world.triage(&run, Triage::Discard).await;
        }
        rows.push(row.join(" "));
    }
    // In the order of StateName::ALL: scheduled running dead review succeeded recovered resolved discarded merged.
    // Once for each store in the same process.
    insta::allow_duplicates! {
        insta::assert_snapshot!(rows.join("\n"), @r"
        review   review *in_flight* review review *closed* *closed* *closed* *closed* *merged*
        approve  *wrong_state* *wrong_state* *wrong_state* *plan_changed* *wrong_state* *wrong_state* *wrong_state* *wrong_state* *wrong_state*
        reject   *wrong_state* *wrong_state* *wrong_state* dead *wrong_state* *wrong_state* *wrong_state* *wrong_state* *wrong_state*
        defer    scheduled *in_flight* dead review *closed* *closed* *closed* *closed* *merged*
        reassign scheduled *in_flight* dead *wrong_state* *closed* *closed* *closed* *closed* *merged*
        assign   scheduled running dead review succeeded recovered resolved discarded *merged*
        merge    merged *in_flight* merged merged *closed* *closed* *closed* *closed* *merged*
        unmerge  *wrong_state* *wrong_state* *wrong_state* *wrong_state* *wrong_state* *wrong_state* *wrong_state* *wrong_state* dead
        ");
    }
}

async fn listed(world: &World, filter: RunFilter) -> Vec<String> {
    let page = PageCall { sort: Sort::Received, limit: 50, cursor: None, count: false };
    let page = world.store.runs(&TenantScope::All, filter, page).await.unwrap();
    page.runs.iter().map(|run| run.run_id.to_string()).collect()
}

pub async fn assignee_is_shown_and_searchable(world: World) {
    world.fail("r1", BUG).await;
    world.fail("r2", BUG).await;
    world.triage("r1", Triage::Assign { to: Some(Label::from("mia")) }).await.unwrap();
    assert_eq!(world.show("r1").await.summary.assigned_to, Some(Label::from("mia")));
    let of_mia = || RunFilter { assigned_to: vec![Label::from("mia")], ..RunFilter::default() };
    assert_eq!(listed(&world, of_mia()).await, ["r1"]);
    world.triage("r1", Triage::Assign { to: None }).await.unwrap();
    assert_eq!(listed(&world, of_mia()).await, Vec::<String>::new());
    let history = world.show("r1").await.body.history;
    let notes: Vec<String> = history
        .iter()
        .filter(|e| e.event == "assign")
        .map(|e| e.note.as_ref().unwrap().decode().into_owned())
        .collect();
    assert_eq!(notes, ["To mia. because", "To nobody. because"]);
}

pub async fn reassigned_run_is_leased_and_counted_in_its_new_queue(world: World) {
    world.store.put_queue("other".parse().unwrap(), QueueSettings::default()).await.unwrap();
    world.enqueue("acme", "r1").await;
    let to = |queue: &str| Triage::Reassign { agent: None, queue: Some(queue.parse().unwrap()) };
    assert!(matches!(world.triage("r1", to("nowhere")).await, Err(Error::NotFound("queue"))));
    world.triage("r1", to("other")).await.unwrap();
    let waiting: Vec<(String, u64)> =
        world.store.queues(500, None).await.unwrap().queues.iter().map(|q| (q.name.to_string(), q.scheduled)).collect();
    assert_eq!(waiting, [("default".to_owned(), 0), ("other".to_owned(), 1)]);
    let (leased, _) = world.lease_one().await;
    assert_eq!(leased.queue.as_str(), "other");
}

pub async fn deferred_run_is_hidden_until_due(world: World) {
    world.fail("r1", BUG).await;
    let until = world.store.now().plus_ms(60_000);
    world.triage("r1", Triage::Defer { until }).await.unwrap();
    assert_eq!(listed(&world, RunFilter::default()).await, Vec::<String>::new());
    let dead = RunFilter { states: vec![StateName::Dead], ..RunFilter::default() };
    assert_eq!(listed(&world, dead).await, ["r1"], "an explicit filter shows it");
    world.wait(60_000);
    assert_eq!(listed(&world, RunFilter::default()).await, ["r1"]);
    world.enqueue("acme", "r2").await;
    let until = world.store.now().plus_ms(60_000);
    world.triage("r2", Triage::Defer { until }).await.unwrap();
    assert!(world.lease(1).await.is_empty());
    world.wait(60_000);
    assert_eq!(world.lease(1).await.len(), 1);
}

pub async fn failure_of_a_merged_run_counts_for_its_target(world: World) {
    world.fail("r1", BUG).await;
    world.fail("r2", BUG).await;
    world.triage("r2", Triage::Merge { into: "r1".parse().unwrap() }).await.unwrap();
    let attempts = async |run: &str| world.show(run).await.body.attempts.len();
    let fresh = world.store.report(numbered("r2", TIMEOUT, 2)).await.unwrap();
    assert_eq!((fresh.fresh, fresh.answer.state, fresh.answer.attempt), (true, StateName::Merged, 2));
    assert_eq!((attempts("r2").await, attempts("r1").await), (2, 2));
    assert_eq!(world.state("r1").await, StateName::Scheduled, "the target has its verdict");
    // Identity is checked against its own attempts, and nothing is passed on twice.
    let again = world.store.report(numbered("r2", TIMEOUT, 2)).await.unwrap();
    assert_eq!((again.fresh, attempts("r1").await), (false, 2));
    let other = world.store.report(numbered("r2", BUG, 2)).await;
    assert!(matches!(other, Err(Error::AttemptConflict { attempt: 2 })));
    // The target is running: the entry stays with the merged run.
    world.wait(600_000);
    let (_, under) = world.lease_one().await;
    world.store.report(numbered("r2", BUG, 3)).await.unwrap();
    assert_eq!((attempts("r2").await, world.show("r1").await.summary.attempt), (3, 3));
    world.store.succeed(success(&under, "1")).await.unwrap();
    assert_eq!(world.state("r1").await, StateName::Recovered);
}

/// What the merged run did is in the target's ledger for as long as it is part of it, and no longer.
pub async fn unmerging_takes_back_the_steps(world: World) {
    let with = |run: &str, attempt, steps| {
        let reported = numbered(run, BUG, attempt);
        NewFailure { failed: FailedAttempt { steps, ..reported.failed }, ..reported }
    };
    let into = |run: &str| Triage::Merge { into: run.parse().unwrap() };
    let own = || vec![unnamed("row", Failed), unnamed("note", Committed)];
    let told = || {
        vec![
            unnamed("row", Committed),
            unnamed("note", Committed),
            unnamed("mail", Started),
            step("k", true, Committed),
        ]
    };
    world.store.report(with("target", 1, vec![unnamed("row", Failed)])).await.unwrap();
    for (run, attempt) in [("part", 1), ("inner", 1), ("other", 1)] {
        world.store.report(with(run, attempt, Vec::new())).await.unwrap();
    }
    let before = world.entries("target").await;
    world.triage("part", into("target")).await.unwrap();
    world.store.report(with("part", 2, told())).await.unwrap();
    let entry = |key: &str, status| (key.to_owned(), status);
    let merged = [
        entry("step:row", Committed),
        entry("step:note", Committed),
        entry("step:mail", Unknown),
        entry("k", Committed),
    ];
    assert_eq!(world.entries("target").await, merged);
    assert!(world.triage("target", Triage::replay(false)).await.is_err(), "its guard knows");
    world.triage("part", Triage::Unmerge).await.unwrap();
    assert_eq!(world.entries("target").await, before);
    assert_eq!(world.entries("part").await.len(), 4, "they are the other's own");
    assert_eq!(world.triage("target", Triage::replay(false)).await.unwrap(), StateName::Scheduled);
    let (_, under) = world.lease_one().await;
    assert!(
        !world.replays(&under, unnamed("row", Started)).await && !world.replays(&under, unnamed("mail", Started)).await
    );
    world.store.fail(under, FailedAttempt { steps: own(), ..failed(BUG) }).await.unwrap();

    // Through a chain, and what the target did itself meanwhile stays.
    world.triage("inner", into("part")).await.unwrap();
    world.triage("part", into("other")).await.unwrap();
    world.store.report(with("inner", 2, vec![unnamed("deep", Committed)])).await.unwrap();
    assert_eq!(world.entries("other").await, [entry("step:deep", Committed)]);
    world.store.report(with("other", 3, vec![unnamed("deep", Committed), unnamed("mine", Committed)])).await.unwrap();
    world.triage("part", Triage::Unmerge).await.unwrap();
    assert_eq!(world.entries("other").await, [entry("step:mine", Committed)]);
}

pub async fn merges_stay_within_a_tenant_and_are_reversible(world: World) {
    for run in ["r1", "r2", "r3"] {
        world.fail(run, BUG).await;
    }
    let theirs = NewFailure {
        run: redrive_engine::NewRun { tenant: "globex".parse().unwrap(), ..new_run("theirs") },
        failed: failed(BUG),
    };
    world.store.report(theirs).await.unwrap();
    let into = |run: &str| Triage::Merge { into: run.parse().unwrap() };
    assert!(matches!(world.triage("r1", into("r1")).await, Err(Error::MergeRefused(_))));
    assert!(matches!(world.triage("r1", into("theirs")).await, Err(Error::NotFound(_))));
    assert_eq!(world.triage("r1", into("r2")).await.unwrap(), StateName::Merged);
    assert_eq!(world.show("r1").await.summary.merged_into.unwrap().as_str(), "r2");
    assert_eq!(told(world.triage("r3", into("r1")).await), "*merged*");
    assert_eq!(told(world.triage("r1", Triage::replay(true)).await), "*merged*");
    // A chain: what is merged into a merged run goes on to its target.
    assert_eq!(world.triage("r2", into("r3")).await.unwrap(), StateName::Merged);
    world.store.report(numbered("r1", TIMEOUT, 2)).await.unwrap();
    assert_eq!(world.show("r3").await.summary.attempt, 2);
    assert_eq!(world.triage("r1", Triage::Unmerge).await.unwrap(), StateName::Dead);
    assert_eq!(told(world.triage("r1", Triage::Unmerge).await), "*wrong_state*");
    assert_eq!(world.show("r1").await.summary.merged_into, None);
}

pub async fn duplicates_share_a_key_or_payload_and_failure(world: World) {
    let send = async |run: &str, key: Option<&str>, bytes: &[u8], message: &str| {
        let mut report = report(run, message);
        report.run.idempotency_key = key.map(|key| key.parse().unwrap());
        report.run.payload = crate::world::payload(redrive_engine::PayloadKind::Json, bytes);
        world.store.report(report).await.unwrap();
    };
    send("r1", Some("k"), b"[1]", BUG).await;
    send("same-key", Some("k"), b"[2]", TIMEOUT).await;
    send("same-payload", None, b"[1]", BUG).await;
    send("other-failure", None, b"[1]", TIMEOUT).await;
    send("other-payload", None, b"[3]", BUG).await;
    let found = world.store.duplicates(&at("acme", "r1")).await.unwrap();
    let found: Vec<_> = found.duplicates.iter().map(|d| (d.run.run_id.as_str(), d.same)).collect();
    assert_eq!(found, [("same-payload", Likeness::Payload), ("same-key", Likeness::IdempotencyKey)]);
    assert!(world.store.duplicates(&at("acme", "other-payload")).await.unwrap().duplicates.is_empty());
    assert!(matches!(world.store.duplicates(&at("globex", "r1")).await, Err(Error::NotFound(_))));
}
