//! The audit log: every act is in the chain with its commit, and any change to the stored chain is found.

use redrive_core::audit::{Fault, Tampered, Verified};
use redrive_core::run::StateName;
use redrive_core::text::Text;
use redrive_core::wire::{AuditAnswer, AuditEntry, BreakerAction, Role};
use redrive_engine::audit::trim::seal;
use redrive_engine::{
    Actor, AuditCall, AuditFilter, BreakerAct, KeyRecord, PatternAct, PatternVerb, TenantScope, Triage, TriageAct,
};

use crate::operations::{dead, make, over, replay, work};
use crate::reports::BUG;
use crate::world::{World, at, report};

fn all() -> AuditCall {
    AuditCall { limit: 500, shows_chain: true, ..AuditCall::default() }
}

fn only(filter: AuditFilter) -> AuditCall {
    AuditCall { filter, ..all() }
}

async fn log(world: &World, call: AuditCall) -> AuditAnswer {
    world.store.audit(&TenantScope::All, call).await.unwrap()
}

fn in_short(entry: &AuditEntry) -> String {
    format!("{} {} {}", entry.actor, entry.action, entry.subject)
}

fn person() -> Actor {
    Actor {
        name: "operator:key-1".into(),
        role: Some(Role::Operator),
        from: Some("192.0.2.7".parse().unwrap()),
        request_id: Some("request-1".into()),
        operation: None,
    }
}

async fn act(world: &World, tenant: &str, run: &str, triage: Triage) {
    let reason = Some(Text::from("because"));
    let act = TriageAct { at: at(tenant, run), triage, actor: person(), reason };
    world.store.triage(act).await.unwrap();
}

fn key(id: &str, tenant: Option<&str>) -> KeyRecord {
    let tenant = tenant.map(|tenant| tenant.parse().unwrap());
    KeyRecord::new(id.into(), [id.len() as u8; 32], Role::Worker, tenant, redrive_core::time::Timestamp::default())
}

fn verified(world: &World) -> Result<Verified, Tampered> {
    world.verify_audit(Vec::new())
}

pub async fn every_act_is_an_entry_of_the_chain(world: World) {
    world.fail("r1", BUG).await;
    world.fail("r2", BUG).await;
    act(&world, "acme", "r1", Triage::Resolve).await;
    let pattern = world.show("r2").await.summary.pattern.unwrap();
    let scope = TenantScope::One("acme".parse().unwrap());
    let verb = PatternVerb::Acknowledge;
    world.store.triage_pattern(PatternAct { scope, id: pattern, verb, actor: person(), reason: None }).await.unwrap();
    world.store.put_key(key("key-9", Some("acme")), person()).await.unwrap();
    assert!(world.store.revoke_key("key-9", person()).await.unwrap());
    assert!(!world.store.revoke_key("key-none", person()).await.unwrap());
    let breaker = BreakerAct {
        tenant: Some("acme".parse().unwrap()),
        environment: "production".into(),
        provider: None,
        model: None,
        action: BreakerAction::Open,
        until: None,
        actor: person(),
        reason: Some(Text::from("outage")),
    };
    world.store.operate_breaker(breaker).await.unwrap();
    let settings = redrive_core::wire::QueueSettings { owner: Some("ops".into()), ..Default::default() };
    world.store.put_queue("mail".parse().unwrap(), settings.clone(), person()).await.unwrap();
    // Nothing changes, as at every start with the same configuration.
    world.store.put_queue("mail".parse().unwrap(), settings, person()).await.unwrap();
    let answer = log(&world, all()).await;
    let mut told: Vec<String> = answer.entries.iter().map(|entry| entry.action.clone()).collect();
    told.reverse();
    assert_eq!(told, ["run.resolve", "pattern.acknowledge", "key.create", "key.revoke", "breaker.open", "queue.put"]);
    let resolved = answer.entries.last().unwrap();
    assert_eq!(in_short(resolved), "operator:key-1 run.resolve run:r1");
    assert_eq!((resolved.role.as_deref(), resolved.tenant.as_deref()), (Some("operator"), Some("acme")));
    assert_eq!((resolved.from.as_deref(), resolved.request_id.as_deref()), (Some("192.0.2.7"), Some("request-1")));
    assert_eq!(resolved.reason.as_ref().unwrap().decode(), "because");
    let state = |json: &Option<redrive_core::wire::RawJson>| {
        let object: serde_json::Value = serde_json::from_str(json.as_ref().unwrap().get()).unwrap();
        object["state"].as_str().unwrap().to_owned()
    };
    assert_eq!((state(&resolved.before).as_str(), state(&resolved.after).as_str()), ("dead", "resolved"));
    assert_eq!(answer.head.unwrap().seq, 6);
    assert_eq!(verified(&world).unwrap().entries, 6);
}

pub async fn refused_and_automatic_changes_are_no_acts(world: World) {
    world.fail("r1", BUG).await;
    assert!(world.triage("r1", Triage::Cancel).await.is_err());
    world.start("r2").await;
    world.wait(120_000);
    while world.store.rescue_expired(10).await.unwrap().more {}
    assert!(log(&world, all()).await.entries.is_empty());
    assert_eq!(verified(&world).unwrap().entries, 0);
}

pub async fn an_operation_and_its_items_share_their_id(world: World) {
    for run in ["r1", "r2", "r3"] {
        world.fail(run, BUG).await;
    }
    let operation = make(&world, over(dead(), replay())).await;
    work(&world).await;
    let by_operation = AuditFilter { operation: Some(operation.id.clone()), ..AuditFilter::default() };
    let mut told: Vec<String> = log(&world, only(by_operation)).await.entries.iter().map(in_short).collect();
    told.reverse();
    assert_eq!(
        told,
        [
            format!("operator:ops operation.create operation:{}", operation.id),
            "operator:ops run.replay run:r1".into(),
            "operator:ops run.replay run:r2".into(),
            "operator:ops run.replay run:r3".into(),
        ]
    );
    assert_eq!(verified(&world).unwrap().entries, 4);
}

pub async fn the_log_is_filtered_and_paged(world: World) {
    for n in 0..12 {
        let run = format!("r{n}");
        world.fail(&run, BUG).await;
        act(&world, "acme", &run, if n % 2 == 0 { Triage::Resolve } else { Triage::Discard }).await;
        world.wait(1_000);
    }
    world.store.report(report_of("globex", "r3")).await.unwrap();
    act(&world, "globex", "r3", Triage::Resolve).await;
    let count = async |filter| log(&world, only(filter)).await.entries.len();
    let none = AuditFilter::default;
    assert_eq!(count(AuditFilter { run: Some("r3".into()), ..none() }).await, 2);
    assert_eq!(count(AuditFilter { action: Some("run.discard".into()), ..none() }).await, 6);
    assert_eq!(count(AuditFilter { actor: Some("nobody".into()), ..none() }).await, 0);
    let (action, run) = (Some("run.resolve".into()), Some("r3".into()));
    assert_eq!(count(AuditFilter { action, run, ..none() }).await, 1);
    let noon = redrive_core::time::Timestamp::from_millis(crate::world::NOON);
    let (since, until) = (Some(noon.plus_ms(2_000)), Some(noon.plus_ms(5_000)));
    assert_eq!(count(AuditFilter { since, until, ..none() }).await, 4);
    assert_eq!(count(AuditFilter { since: Some(noon.plus_ms(60_000)), ..none() }).await, 0);
    assert_eq!(count(AuditFilter { until: Some(noon.minus_ms(1)), ..none() }).await, 0);
    let (mut call, mut seen) = (AuditCall { limit: 5, ..all() }, Vec::new());
    loop {
        let page = log(&world, call.clone()).await;
        assert!(page.entries.len() <= 5);
        seen.extend(page.entries.iter().map(|entry| entry.seq.unwrap()));
        match page.next_cursor {
            Some(cursor) => call.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seen, (1..=13).rev().collect::<Vec<i64>>());
}

fn report_of(tenant: &str, run: &str) -> redrive_engine::NewFailure {
    let mut report = report(run, BUG);
    report.run.tenant = tenant.parse().unwrap();
    report
}

/// A tenant's pages are the same bytes whatever other tenants do.
pub async fn a_tenant_sees_only_entries_about_itself(world: World) {
    let mut pages = Vec::new();
    for others in [0, 7] {
        let acme = if others == 0 { "acme" } else { "acme2" };
        for n in 0..6 {
            for other in 0..others {
                let run = format!("r{n}-{other}");
                world.store.report(report_of("globex", &run)).await.unwrap();
                act(&world, "globex", &run, Triage::Resolve).await;
            }
            let run = format!("r{n}");
            world.store.report(report_of(acme, &run)).await.unwrap();
            act(&world, acme, &run, Triage::Resolve).await;
        }
        let scope = TenantScope::One(acme.parse().unwrap());
        let (mut call, mut seen) = (AuditCall { limit: 2, ..AuditCall::default() }, Vec::new());
        loop {
            let page = world.store.audit(&scope, call.clone()).await.unwrap();
            assert!(page.head.is_none());
            for entry in &page.entries {
                assert_eq!((entry.seq, entry.hash.clone(), entry.tenant.as_deref()), (None, None, Some(acme)));
                seen.push(entry.subject.clone());
            }
            match page.next_cursor {
                Some(cursor) => call.cursor = Some(cursor),
                None => break,
            }
        }
        pages.push(seen);
    }
    assert_eq!(pages[0], ["run:r5", "run:r4", "run:r3", "run:r2", "run:r1", "run:r0"]);
    assert_eq!(pages[0], pages[1]);
}

pub async fn changes_to_the_stored_log_are_found(world: World) {
    for n in 0..6 {
        let run = format!("r{n}");
        world.fail(&run, BUG).await;
        act(&world, "acme", &run, Triage::Resolve).await;
    }
    let outside = vec![verified(&world).unwrap().head];
    let fault = |world: &World| world.verify_audit(outside.clone()).unwrap_err();
    world.alter("UPDATE audit SET actor = 'operator:key-2' WHERE seq = 3");
    assert_eq!(fault(&world), Tampered { seq: 3, what: Fault::Changed });
    world.alter("UPDATE audit SET actor = 'operator:key-1' WHERE seq = 3");
    assert!(world.verify_audit(outside.clone()).is_ok());
    world.alter("UPDATE audit SET reason = NULL WHERE seq = 1");
    assert_eq!(fault(&world), Tampered { seq: 1, what: Fault::Changed });
    world.alter("UPDATE audit SET reason = '\"because\"' WHERE seq = 1");
    world.alter("UPDATE audit SET seq = 99 WHERE seq = 4");
    assert_eq!(fault(&world), Tampered { seq: 4, what: Fault::Missing });
    world.alter("UPDATE audit SET seq = 4 WHERE seq = 99");
    world.alter("DELETE FROM audit WHERE seq = 6");
    assert_eq!(verified(&world).unwrap_err(), Tampered { seq: 6, what: Fault::Truncated });
    world.alter(
        "UPDATE audit_marks SET seq = 5, hash = (SELECT hash FROM audit WHERE seq = 5),
         at = (SELECT at FROM audit WHERE seq = 5) WHERE name = 'head'",
    );
    assert!(verified(&world).is_ok(), "only the outside head knows of the sixth entry");
    assert_eq!(fault(&world), Tampered { seq: 6, what: Fault::Truncated });
    world.alter("DELETE FROM audit_marks");
    assert_eq!(fault(&world), Tampered { seq: 5, what: Fault::HeadMissing });
}

pub async fn only_an_exported_prefix_is_removed(world: World) {
    let world = world.with_audit_days(30).await;
    for n in 0..3 {
        let run = format!("r{n}");
        world.fail(&run, BUG).await;
        act(&world, "acme", &run, Triage::Resolve).await;
    }
    let trimmed = async || while world.store.trim_audit(2).await.unwrap().more {};
    world.wait(31 * redrive_core::time::DAY_MS);
    trimmed().await;
    assert_eq!(verified(&world).unwrap().entries, 3, "nothing was exported");
    let head = verified(&world).unwrap().head;
    world.commit(move |tx| seal(tx, &head, "ab12", 3, &"cli".into()));
    act(&world, "acme", "r0", Triage::Note).await;
    trimmed().await;
    let left: Vec<String> = log(&world, all()).await.entries.iter().map(|entry| entry.action.clone()).collect();
    assert_eq!(left, ["audit.trim", "run.note", "audit.export"]);
    assert_eq!(verified(&world).unwrap().head.seq, 6);
    // A prefix that goes without a record is found.
    world.alter("DELETE FROM audit WHERE seq = 4; UPDATE audit_marks SET seq = 4 WHERE name = 'checkpoint'");
    assert!(verified(&world).is_err());
}

pub async fn writers_of_many_runs_make_one_chain(world: World) {
    let other = if world.is_shared() { world.beside().await } else { world.store.clone() };
    for n in 0..40 {
        world.fail(&format!("r{n}"), BUG).await;
    }
    let acts = (0..40).map(|n| {
        let store = if n % 2 == 0 { world.store.clone() } else { other.clone() };
        let act =
            TriageAct { at: at("acme", &format!("r{n}")), triage: Triage::Resolve, actor: person(), reason: None };
        async move { store.triage(act).await.map(|done| done.answer.state) }
    });
    let states = futures_util::future::join_all(acts).await;
    assert!(states.into_iter().all(|state| state.unwrap() == StateName::Resolved));
    assert_eq!(verified(&world).unwrap().entries, 40);
}
