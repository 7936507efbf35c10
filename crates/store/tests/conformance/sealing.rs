//! Encryption at rest: what is sealed, under which key, and how keys are rotated.

use std::sync::Arc;

use redrive_core::policy::{PolicyLayer, ReplayApproval};
use redrive_core::verdict::Change;
use redrive_core::wire::{Fix, HandedChange, QueueSettings, StepStatus};
use redrive_engine::vault::SealedColumn;
use redrive_engine::vault::reseal::RETIRED_GRACE_MS;
use redrive_engine::{
    AttemptBody, Bulk, BulkReplay, Error, FailedAttempt, FixedPayload, NewOperation, NewSentPayload, NewStep,
    PayloadKind, Replay, Triage, Vault, encode,
};
use redrive_store::SecretsStatus;

use crate::operations::{make, named, work};
use crate::reports::{BUG, TIMEOUT};
use crate::world::{LEASE_MS, MASTER, World, at, failed, payload, step, success, vault_of};

fn failure(message: &str) -> FailedAttempt {
    let error = serde_json::json!({"message": message, "detail": "the detail"}).to_string();
    let body = AttemptBody { error: Some(serde_json::from_str(&error).unwrap()), ..AttemptBody::default() };
    FailedAttempt { body: encode(serde_json::to_string(&body).unwrap().as_bytes()), ..failed(message) }
}

fn fixed(patch: &[u8], body: &[u8]) -> Replay {
    let fix = FixedPayload { from_revision: 1, payload: payload(PayloadKind::Json, body), patch: Some(encode(patch)) };
    Replay { fix: Some(fix), ..Replay::default() }
}

/// Writes to every sealed column.
async fn fill(world: &World) {
    let approval = PolicyLayer { replay_approval: Some(ReplayApproval::Always), ..PolicyLayer::default() };
    let settings = QueueSettings { policy: approval, ..QueueSettings::default() };
    world.store.put_queue("asked".parse().unwrap(), settings).await.unwrap();
    // A silent worker, whose failure comes late; a step with an output and a check.
    let (_, under) = world.start_resumable("late").await;
    let check = Some(encode(b"\"look at the bank\""));
    let load = NewStep { check, ..step("load", false, StepStatus::Committed) };
    world.store.step(under.clone(), load).await.unwrap();
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(10).await.unwrap();
    let late = world.store.fail(under, failure("too late")).await;
    assert!(matches!(late, Err(Error::LeaseLost { recorded: true })), "{late:?}");
    // A fixed run that got a changed payload, and succeeded.
    world.fail("fixed", BUG).await;
    let replay = fixed(br#"[{"op":"replace","path":"/n","value":2}]"#, br#"{"n":2}"#);
    world.triage("fixed", Triage::Replay(Box::new(replay))).await.unwrap();
    let (_, under) = world.lease_one().await;
    let change = HandedChange { change: Change::AddInstruction { text: "Be brief.".into() }, applied: true };
    let changes = encode(&serde_json::to_vec(&[change]).unwrap());
    let sent = NewSentPayload { changes, body: encode(br#"{"n":2,"brief":true}"#) };
    world.store.keep_sent(vec![(under.clone(), sent)]).await.pop().unwrap().unwrap();
    world.store.succeed(success(&under, r#"{"ok":true}"#)).await.unwrap();
    // A replay that waits for approval.
    let mut asked = crate::world::report("asked", BUG);
    asked.run.queue = "asked".parse().unwrap();
    world.store.report(asked).await.unwrap();
    let request = encode(br#"{"fix":{"payload":{"n":9}}}"#);
    let replay = Replay { request, ..fixed(b"[]", br#"{"n":9}"#) };
    world.triage("asked", Triage::Replay(Box::new(replay))).await.unwrap();
    // An operation with a preview.
    world.fail("bulk", BUG).await;
    let fix = Fix {
        json_patch: Some(serde_json::from_str(r#"[{"op":"add","path":"/x","value":1}]"#).unwrap()),
        payload: None,
    };
    let replay = BulkReplay { fix: Some(fix), payload_max_bytes: 1 << 20, ..BulkReplay::default() };
    let bulk = Bulk::Replay(Box::new(replay));
    make(world, NewOperation { dry_run: true, ..named(&["bulk"], bulk) }).await;
    work(world).await;
}

/// Reads everything back, as JSON.
async fn read_all(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    for run in ["late", "fixed", "asked", "bulk"] {
        let shown = world.show(run).await;
        all.push(serde_json::to_string(&shown).unwrap());
    }
    let sent = world.store.sent(&at("acme", "fixed"), 2).await.unwrap();
    all.push(format!("{} {:?}", sent.sent.unwrap().get(), sent.changes));
    let revision = world.store.revision(&at("acme", "fixed"), Some(2)).await.unwrap();
    all.push(serde_json::to_string(&revision).unwrap());
    let operations = world.store.operations(10, None).await.unwrap();
    all.push(serde_json::to_string(&operations).unwrap());
    all
}

/// Values under an active key, under a retired one, and in clear.
fn counts(status: &SecretsStatus) -> [u64; 3] {
    status.values.iter().fold([0; 3], |[active, retired, clear], column| {
        [active + column.active, retired + column.retired, clear + column.clear]
    })
}

/// Rounds until the pass is over; each leaves everything readable.
async fn reseal(world: &World, expected: &[String]) {
    while world.store.reseal().await.unwrap().more {
        assert_eq!(read_all(world).await, expected);
    }
}

pub async fn every_sealed_column_is_sealed(world: World) {
    fill(&world).await;
    let status = world.secrets();
    assert_eq!(status.values.len(), SealedColumn::ALL.len());
    for column in &status.values {
        assert!(column.active > 0 && column.clear == 0 && column.retired == 0, "{column:?}");
    }
    let before = read_all(&world).await;
    assert!(
        before[0].contains("too late") && before[0].contains("the detail") && before[0].contains("look at the bank")
    );
    let world = world.restarted().await;
    assert_eq!(read_all(&world).await, before, "the keys are read again");
}

pub async fn moved_values_do_not_open(world: World) {
    for run in ["a", "b"] {
        world.store.report(crate::world::report(run, BUG)).await.unwrap();
    }
    let mut other = crate::world::report("c", BUG);
    other.run.tenant = "other".parse().unwrap();
    world.store.report(other).await.unwrap();
    let number = |run: &str| format!("(SELECT id FROM runs WHERE run_id = '{run}')");
    let (a, b, c) = (number("a"), number("b"), number("c"));
    let unreadable = async |run: &str| {
        let tenant = if run == "c" { "other" } else { "acme" };
        matches!(world.store.run(&at(tenant, run)).await, Err(Error::Damaged(_)))
    };
    // Another row, another column, another tenant's row.
    world.alter(&format!("UPDATE payloads SET body = (SELECT body FROM payloads WHERE run = {a}) WHERE run = {b}"));
    assert!(unreadable("b").await && !unreadable("a").await);
    world.alter(&format!("UPDATE payloads SET body = about WHERE run = {b}"));
    assert!(unreadable("b").await);
    world.alter(&format!("UPDATE attempts SET body = (SELECT body FROM attempts WHERE run = {a}) WHERE run = {c}"));
    assert!(unreadable("c").await && !unreadable("a").await);
    // The row itself, given to another tenant.
    world.alter("UPDATE runs SET tenant = (SELECT id FROM tenants WHERE name = 'other') WHERE run_id = 'a'");
    assert!(matches!(world.store.revision(&at("other", "a"), None).await, Err(Error::Damaged(_) | Error::NotFound(_))));
}

/// T4, without kills: each round is a transaction, and a restart forgets everything else.
pub async fn rotation_resumes_after_restarts_and_leaves_nothing(world: World) {
    fill(&world).await;
    let expected = read_all(&world).await;
    reseal(&world, &expected).await;
    let [sealed, ..] = counts(&world.secrets());
    assert_eq!(world.rotate_tenants(None), 2, "the tenant's, and that of operations");
    assert_eq!(counts(&world.secrets()), [0, sealed, 0]);
    assert_eq!(read_all(&world).await, expected);
    // New values are under the new key at once.
    world.fail("after", TIMEOUT).await;
    let [active, retired, clear] = counts(&world.secrets());
    assert!(active > 0 && (retired, clear) == (sealed, 0));
    assert!(!world.store.reseal().await.unwrap().more, "a writer may still use the old key");
    world.wait(RETIRED_GRACE_MS);
    let mut world = world;
    let mut rounds = 0;
    while world.store.reseal().await.unwrap().more {
        assert_eq!(read_all(&world).await, expected);
        world = world.restarted().await;
        rounds += 1;
    }
    assert!(rounds > 5, "one page of each table at least");
    let status = world.secrets();
    assert_eq!(counts(&status), [active + sealed, 0, 0]);
    assert_eq!((status.retired_keys, status.state.unreadable), (0, 0));
    assert_eq!(read_all(&world).await, expected);
}

pub async fn turning_encryption_on_seals_what_was_stored(world: World) {
    // A store that was never encrypted.
    world.alter("DELETE FROM encryption");
    let world = world.restarted_with(Arc::new(Vault::off())).await;
    fill(&world).await;
    let expected = read_all(&world).await;
    let world = world.restarted().await;
    let [_, _, clear] = counts(&world.secrets());
    assert!(clear > 10);
    assert_eq!(read_all(&world).await, expected);
    reseal(&world, &expected).await;
    assert_eq!(counts(&world.secrets()), [clear, 0, 0]);
    assert_eq!(read_all(&world).await, expected);
}

pub async fn rotated_master_key_replaces_the_old_one(world: World) {
    fill(&world).await;
    let expected = read_all(&world).await;
    let new = [8; 32];
    assert_eq!(world.rotate_master(new), 2);
    // A running server goes on with what it knows.
    assert_eq!(read_all(&world).await, expected);
    world.fail("meanwhile", TIMEOUT).await;
    let (refused, world) = world.refused(vec![vault_of(MASTER)], vault_of(new)).await;
    assert!(refused[0].contains("the master key is not the store's"), "{refused:?}");
    assert_eq!(read_all(&world).await, expected);
}

pub async fn wrong_master_key_refuses_to_open(world: World) {
    world.fail("r1", TIMEOUT).await;
    let wrong = vec![vault_of([1; 32]), Arc::new(Vault::off())];
    let (refused, world) = world.refused(wrong, vault_of(MASTER)).await;
    assert!(refused.iter().all(|why| why.contains("master key") && !why.contains('\n')), "{refused:?}");
    assert_eq!(world.show("r1").await.body.payload.unwrap().get(), r#"{"n":1}"#);
}

pub async fn damaged_values_keep_the_retired_key(world: World) {
    world.fail("good", TIMEOUT).await;
    world.fail("bad", TIMEOUT).await;
    let copied = "(SELECT body FROM payloads WHERE run = (SELECT id FROM runs WHERE run_id = 'good'))";
    world.alter(&format!("UPDATE payloads SET body = {copied} WHERE run = (SELECT id FROM runs WHERE run_id = 'bad')"));
    world.rotate_tenants(Some("acme"));
    world.wait(RETIRED_GRACE_MS);
    while world.store.reseal().await.unwrap().more {}
    let status = world.secrets();
    assert_eq!((status.retired_keys, status.state.unreadable), (1, 1), "a person decides");
    assert_eq!(world.show("good").await.body.payload.unwrap().get(), r#"{"n":1}"#);
    assert!(!world.store.reseal().await.unwrap().more, "no pass after pass");
}

pub async fn repeated_late_failure_is_recorded_once(world: World) {
    let (_, under) = world.start("r1").await;
    world.wait(LEASE_MS + 1);
    world.store.rescue_expired(10).await.unwrap();
    for message in ["once", "once", "another", "once"] {
        let late = world.store.fail(under.clone(), failure(message)).await;
        assert!(matches!(late, Err(Error::LeaseLost { recorded: true })));
    }
    let status = world.secrets();
    let stored = status.values.iter().find(|column| column.table == "late_failures").unwrap();
    assert_eq!(stored.active, 2);
}
