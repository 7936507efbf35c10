//! Tables of events and versions are bounded: the newest rows are kept.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a test that cannot continue fails; the world is shared with the conformance suite"
)]

#[path = "conformance/world.rs"]
mod world;

use redrive_core::text::{Label, Text};
use redrive_core::wire::{BreakerAction, PatternState, Versions};
use redrive_engine::{BreakerAct, PatternAct, PatternVerb, Start, TenantScope};
use rusqlite::{Connection, OpenFlags};

use world::{World, numbered, start};

const KEPT_MAX: i64 = 1_000;
/// Versions are trimmed after this many inserts.
const TRIMMED_EVERY: i64 = 64;
const MANY: usize = 1_200;

/// With a connection to its file, for rows that no route shows.
async fn world() -> (World, Connection) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let file = folder.path().join("data/redrive.db");
    let world = World::sqlite_in(folder).await;
    (world, Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap())
}

fn count(inside: &Connection, rows: &str) -> i64 {
    inside.query_row(&format!("SELECT count(*) FROM {rows}"), [], |row| row.get(0)).unwrap()
}

async fn on_pattern(world: &World, id: &str, verb: PatternVerb) -> PatternState {
    let (actor, reason) = ("key:ops".to_owned(), Some(Text::from("looked at it")));
    let act = PatternAct { scope: TenantScope::All, id: id.into(), verb, actor, reason };
    world.store.triage_pattern(act).await.unwrap().state
}

fn at_version(n: usize) -> Versions {
    [("worker".to_owned(), Label::from(format!("v{n}").as_str()))].into()
}

#[tokio::test]
async fn newest_thousand_events_of_a_breaker_are_kept() {
    let (world, inside) = world().await;
    world.start("r").await;
    for n in 0..MANY {
        let action = if n % 2 == 0 { BreakerAction::Open } else { BreakerAction::Close };
        let act = BreakerAct {
            tenant: Some("acme".parse().unwrap()),
            environment: Label::from("production"),
            provider: None,
            model: None,
            action,
            until: None,
            actor: "key:ops".into(),
            reason: Some(Text::from(format!("turn {n}").as_str())),
        };
        world.store.operate_breaker(act).await.unwrap();
    }
    assert_eq!(count(&inside, "breaker_events"), KEPT_MAX);
    let history = world.store.tenant_breaker(&"acme".parse().unwrap()).await.unwrap().history;
    assert_eq!(history[0].note, Some(Text::from(format!("turn {}", MANY - 1).as_str())));
}

#[tokio::test]
async fn newest_thousand_events_of_a_pattern_are_kept() {
    let (world, inside) = world().await;
    let pattern = world.fail("r", "KeyError: 'x'").await.pattern.id;
    let other = world.fail("s", "Request timed out").await.pattern.id;
    on_pattern(&world, &other, PatternVerb::Acknowledge).await;
    for _ in 0..MANY {
        on_pattern(&world, &pattern, PatternVerb::Note).await;
    }
    assert_eq!(count(&inside, "pattern_events"), KEPT_MAX + 2, "and the two of another pattern: new, acknowledged");
}

#[tokio::test]
async fn newest_thousand_versions_are_kept_and_fixes_outlive_them() {
    let (world, inside) = world().await;
    let fixed = world.fail("r", "KeyError: 'x'").await.pattern.id;
    on_pattern(&world, &fixed, PatternVerb::Resolve { in_version: at_version(0) }).await;
    for n in 1..=MANY {
        let name = format!("r{n}");
        world.store.start(Start { versions: at_version(n), ..start(&name) }).await.unwrap();
    }
    let kept = count(&inside, "versions_seen");
    assert!((KEPT_MAX..KEPT_MAX + TRIMMED_EVERY).contains(&kept), "{kept}");
    assert_eq!(count(&inside, "versions_seen WHERE version = 'v0'"), 0);
    // The fix's version is trimmed; later versions still count as fixed.
    let mut again = numbered("r", "KeyError: 'x'", 2);
    again.failed.versions = at_version(MANY);
    world.store.report(again).await.unwrap();
    let shown = world.store.pattern(&TenantScope::All, &fixed).await.unwrap();
    assert!(shown.pattern.regression, "{:?}", shown.pattern);
}
