//! Reads: counts, changes and health, and who may see them.

use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;
use redrive_core::wire::{Severity, Sort};
use redrive_engine::{Error, LeaseCall, NewFailure, NewRun, PageCall, PatternsCall, RunFilter, TenantScope, Triage};

use crate::reports::{BUG, TIMEOUT};
use crate::world::{World, at, failed, lease_call, new_run, success, under};

fn page(limit: u32) -> PageCall {
    PageCall { sort: Sort::NewestFirst, limit, cursor: None, count: true }
}

fn only(state: StateName) -> RunFilter {
    RunFilter { states: vec![state], ..RunFilter::default() }
}

async fn total(world: &World, filter: RunFilter) -> (usize, u64) {
    let listed = world.store.runs(&TenantScope::All, filter.clone(), page(100)).await.unwrap();
    let acme = TenantScope::One("acme".parse().unwrap());
    let own = world.store.runs(&acme, filter, page(100)).await.unwrap();
    assert_eq!(own.total, listed.total, "the tenant's own counters and those over all agree");
    (listed.runs.len(), listed.total.unwrap())
}

pub async fn counts_follow_every_move(world: World) {
    world.fail("dead", BUG).await;
    world.fail("retry", TIMEOUT).await;
    let (_, under) = world.start("runs").await;
    world.start("stays").await;
    world.store.succeed(success(&under, "1")).await.unwrap();
    world.fail("closed", BUG).await;
    world.triage("closed", Triage::Resolve).await.unwrap();
    for state in StateName::ALL {
        let expected = match state {
            StateName::Dead
            | StateName::Scheduled
            | StateName::Running
            | StateName::Succeeded
            | StateName::Resolved => 1,
            StateName::Review | StateName::Recovered | StateName::Discarded | StateName::Merged => 0,
        };
        assert_eq!(total(&world, only(*state)).await, (expected, expected as u64), "{state}");
    }
    assert_eq!(total(&world, RunFilter::default()).await, (5, 5));
}

fn of(tenant: &str, run: &str, message: &str) -> NewFailure {
    NewFailure { run: NewRun { tenant: tenant.parse().unwrap(), ..new_run(run) }, failed: failed(message) }
}

pub async fn a_scope_sees_only_its_own(world: World) {
    world.store.report(of("acme", "ours", BUG)).await.unwrap();
    world.store.report(of("globex", "theirs", BUG)).await.unwrap();
    let acme = TenantScope::One("acme".parse().unwrap());
    let listed = world.store.runs(&acme, RunFilter::default(), page(10)).await.unwrap();
    assert_eq!(listed.runs.iter().map(|run| run.run_id.as_str()).collect::<Vec<_>>(), ["ours"]);
    assert_eq!(listed.total, Some(1));
    assert!(matches!(world.store.run(&at("acme", "theirs")).await, Err(Error::NotFound(_))));
    let theirs =
        world.store.patterns(&TenantScope::One("globex".parse().unwrap()), PatternsCall::first(10)).await.unwrap();
    assert!(matches!(world.store.pattern(&acme, &theirs.patterns[0].id).await, Err(Error::NotFound(_))));
    let cursor =
        world.store.runs(&TenantScope::All, RunFilter::default(), PageCall { limit: 1, ..page(1) }).await.unwrap();
    let foreign = PageCall { cursor: cursor.next_cursor, ..page(1) };
    assert!(matches!(world.store.runs(&acme, RunFilter::default(), foreign).await, Err(Error::BadCursor)));
}

pub async fn colliding_names_of_two_tenants_stay_apart(world: World) {
    let ours = world.store.report(of("acme", "same", BUG)).await.unwrap();
    let theirs = world.store.report(of("globex", "same", TIMEOUT)).await.unwrap();
    assert!(ours.fresh && theirs.fresh);
    world.triage("same", Triage::Discard).await.unwrap();
    assert_eq!(world.state("same").await, StateName::Discarded);
    assert_eq!(world.store.run(&at("globex", "same")).await.unwrap().summary.state, StateName::Scheduled);
}

pub async fn changes_name_each_moved_run_once(world: World) {
    let acme = TenantScope::One("acme".parse().unwrap());
    let start = world.store.changes(&TenantScope::All, None).await.unwrap();
    let own = world.store.changes(&acme, None).await.unwrap();
    assert!(start.changes.is_empty());
    world.fail("r1", BUG).await;
    world.triage("r1", Triage::Resolve).await.unwrap();
    world.store.report(of("globex", "r2", BUG)).await.unwrap();
    let seen = world.store.changes(&TenantScope::All, Some(start.next.clone())).await.unwrap();
    let mut moved: Vec<_> = seen.changes.iter().map(|c| (c.run_id.as_str(), c.state)).collect();
    moved.sort();
    assert_eq!(moved, [("r1", StateName::Resolved), ("r2", StateName::Dead)]);
    assert_eq!(world.store.changes(&acme, Some(own.next)).await.unwrap().changes.len(), 1);
    assert!(world.store.changes(&TenantScope::All, Some(seen.next)).await.unwrap().changes.is_empty());
}

pub async fn change_cursor_is_valid_only_in_its_scope(world: World) {
    world.fail("r1", BUG).await;
    let [acme, globex] = ["acme", "globex"].map(|tenant| TenantScope::One(tenant.parse().unwrap()));
    let scopes = [acme, globex, TenantScope::All];
    for (given_to, own) in scopes.iter().enumerate() {
        let cursor = world.store.changes(own, None).await.unwrap().next;
        for (used_by, scope) in scopes.iter().enumerate() {
            let answered = world.store.changes(scope, Some(cursor.clone())).await;
            match given_to == used_by {
                true => assert_eq!(answered.unwrap().next, cursor),
                false => assert!(matches!(answered, Err(Error::BadCursor)), "{own:?} {scope:?}"),
            }
        }
    }
}

pub async fn history_prefixes_names_that_workers_claim(world: World) {
    for (run, name) in [("a", "operator:key-1"), ("b", "engine"), ("c", "reporter"), ("d", "w1")] {
        world.enqueue("acme", run).await;
        let call = LeaseCall { worker: Some(name.into()), ..lease_call(1) };
        let leased = world.store.lease(call).await.unwrap().pop().unwrap();
        world.store.succeed(success(&under(&leased), "1")).await.unwrap();
        let shown = world.show(run).await;
        let ended = shown.body.history.iter().find(|entry| entry.event == "succeeded").unwrap();
        assert_eq!(ended.actor, format!("worker:{name}"));
        assert_eq!(shown.body.attempts[0].worker.as_ref().map(ToString::to_string).as_deref(), Some(name));
    }
}

pub async fn health_names_queues_without_workers(world: World) {
    world.enqueue("acme", "r1").await;
    assert!(world.store.health(&TenantScope::All).await.unwrap().queues_without_workers.is_empty());
    world.wait(300_001);
    let health = world.store.health(&TenantScope::All).await.unwrap();
    assert_eq!(health.queues_without_workers.len(), 1);
    assert_eq!(health.queues_without_owner.len(), 1);
    world.lease(1).await;
    assert!(world.store.health(&TenantScope::All).await.unwrap().queues_without_workers.is_empty());
}

pub async fn standing_counts_dead_runs_by_cause(world: World) {
    world.fail("dead", BUG).await;
    world.fail("retry", TIMEOUT).await;
    world.fail("closed", BUG).await;
    world.triage("closed", Triage::Resolve).await.unwrap();
    for scope in [TenantScope::All, TenantScope::One("acme".parse().unwrap())] {
        let standing = world.store.standing(&scope).await.unwrap();
        assert_eq!(standing.dead, [(DeadBecause::Permanent, 1)]);
        let of = |state| standing.of(state);
        assert_eq!(
            (of(StateName::Dead), of(StateName::Scheduled), of(StateName::Resolved), standing.held),
            (1, 1, 1, 0)
        );
    }
    let nobody = world.store.standing(&TenantScope::One("nobody".parse().unwrap())).await.unwrap();
    assert_eq!((nobody.of(StateName::Dead), nobody.dead.len()), (0, 0));
}

pub async fn runs_are_found_by_severity(world: World) {
    let report = async |tenant: &str, run: &str, severity: Severity| {
        let mut report = of(tenant, run, BUG);
        report.run.severity = severity;
        world.store.report(report).await.unwrap();
    };
    report("acme", "plain", Severity::Normal).await;
    report("acme", "first", Severity::Critical).await;
    report("globex", "second", Severity::High).await;
    report("acme", "third", Severity::Critical).await;
    let listed = async |scope: &TenantScope, severities: &[Severity], states: &[StateName], sort: Sort| {
        let filter = RunFilter { severities: severities.to_vec(), states: states.to_vec(), ..RunFilter::default() };
        let page = world.store.runs(scope, filter, PageCall { sort, ..page(10) }).await.unwrap();
        assert_eq!(page.total, Some(page.runs.len() as u64));
        page.runs.iter().map(|run| run.run_id.as_str().to_owned()).collect::<Vec<_>>()
    };
    let (all, acme) = (TenantScope::All, TenantScope::One("acme".parse().unwrap()));
    let (urgent, dead) = ([Severity::High, Severity::Critical], [StateName::Dead]);
    assert_eq!(listed(&all, &urgent, &[], Sort::NewestFirst).await, ["third", "second", "first"]);
    assert_eq!(listed(&all, &urgent, &dead, Sort::Received).await, ["first", "second", "third"]);
    assert_eq!(listed(&all, &[Severity::High], &dead, Sort::Received).await, ["second"]);
    assert_eq!(listed(&all, &urgent, &[StateName::Running], Sort::Received).await, [""; 0]);
    assert_eq!(listed(&acme, &urgent, &dead, Sort::Received).await, ["first", "third"]);
    let most = [Severity::Normal, Severity::Critical];
    assert_eq!(listed(&all, &most, &dead, Sort::Received).await, ["plain", "first", "third"]);
}

pub async fn workers_of_one_tenant_serve_no_other(world: World) {
    for tenant in ["acme", "globex"] {
        world.enqueue(tenant, "r1").await;
        world.enqueue(tenant, "r2").await;
    }
    world.wait(300_001);
    let of = |tenant: &str| TenantScope::One(tenant.parse().unwrap());
    let unserved = async |scope: &TenantScope| {
        let health = world.store.health(scope).await.unwrap();
        health.queues_without_workers.first().map(|alert| alert.last_lease_call_at)
    };
    let called = world.store.now();
    let only = LeaseCall { scope: of("globex"), ..lease_call(1) };
    assert_eq!(world.store.lease(only).await.unwrap().len(), 1);
    assert_eq!(unserved(&of("globex")).await, None);
    assert_eq!(unserved(&of("acme")).await, Some(None), "and of others' calls it hears nothing");
    assert_eq!(unserved(&TenantScope::All).await, Some(Some(called)));
    world.lease(1).await;
    for scope in [of("globex"), of("acme"), TenantScope::All] {
        assert_eq!(unserved(&scope).await, None, "a key that spans tenants serves them all");
    }
}
