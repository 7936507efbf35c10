//! Every table is bounded: the newest events and versions are kept, and retention keeps the store's size.

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

use redrive_core::policy::{Policies, PolicyLayer, RetentionLayer};
use redrive_core::text::{Label, Text};
use redrive_core::time::DAY_MS;
use redrive_core::wire::{BreakerAction, PatternState, Versions};
use redrive_engine::{BreakerAct, PatternAct, PatternVerb, PayloadKind, Start, TenantScope, Triage};
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
    let (actor, reason) = ("key:ops".into(), Some(Text::from("looked at it")));
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

/// Every table is listed in the docs with what bounds it.
#[tokio::test]
async fn the_data_model_lists_every_table() {
    let (_world, inside) = world().await;
    let page = include_str!("../../../docs/data-model.md");
    let mut tables = inside.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let is_listed =
        |table: &String| page.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{table}`")));
    let missing: Vec<String> = tables.filter(|table| !table.starts_with("sqlite_") && !is_listed(table)).collect();
    assert_eq!(missing, [""; 0]);
}

const DAYS: u64 = 7;
const RUNS_A_DAY: usize = 300;

/// A day of work: reports with payloads of 2 KB, half of them resolved at once, and the passes of retention.
async fn work_a_day(world: &World, day: u64) {
    for hour in 0..24 {
        for n in 0..RUNS_A_DAY / 24 {
            let run = format!("d{day}-{hour}-{n}");
            let mut new = world::report(&run, "KeyError: 'x'");
            new.run.payload = world::payload(PayloadKind::Bytes, &noise(day * 1_000 + hour * 100 + n as u64));
            world.store.report(new).await.unwrap();
            world.triage(&run, Triage::Resolve).await.unwrap();
        }
        world.wait(3_600_000);
        world.store.fold_figures().await.unwrap();
        while world.store.trim_changes(500).await.unwrap().more {}
        while world.store.retain("one", 50).await.unwrap().more {}
    }
}

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..256).flat_map(|_| next()).collect()
}

/// Closed runs stay for one day, so that each day removes what the day before has brought.
fn one_day() -> Policies {
    let retention = Some(RetentionLayer { closed_days: Some(1), dead_days: None, payload_days: None });
    Policies { defaults: PolicyLayer { retention, ..PolicyLayer::default() }, ..Policies::default() }
}

fn assert_steady(sizes: &[i64]) {
    let (fourth, seventh) = (sizes[3], sizes[6]);
    assert!((seventh - fourth).abs() * 10 <= fourth, "day 4: {fourth}, day 7: {seventh}, all: {sizes:?}");
    assert!(sizes[0] < seventh * 2, "{sizes:?}");
}

#[tokio::test]
async fn a_sqlite_file_stops_growing_within_a_week() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let world = World::sqlite_under(folder, one_day()).await;
    let mut sizes = Vec::new();
    for day in 0..DAYS {
        work_a_day(&world, day).await;
        sizes.push(world.number("SELECT page_count FROM pragma_page_count()"));
    }
    assert_steady(&sizes);
    world.wait(2 * DAY_MS);
    while world.store.retain("one", 50).await.unwrap().more {}
    let left = world.number("SELECT page_count FROM pragma_page_count()");
    assert!(left < sizes[6] / 2, "{left} of {} pages are left: free ones return to the file system", sizes[6]);
}

/// Autovacuum runs by the clock of the machine, so the test vacuums each simulated hour's worth of days itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_tables_stop_growing_within_a_week() {
    let world = World::postgres_under(one_day()).await;
    let mut sizes = Vec::new();
    for day in 0..DAYS {
        work_a_day(&world, day).await;
        world.sql("VACUUM");
        sizes.push(world.number(
            "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
             WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
        ));
    }
    assert_steady(&sizes);
}

/// Dead letters that can be archived: counted in health seven days before, then removed.
async fn dead_letters_are_announced(world: World) {
    let died_at = world.store.now();
    world.fail("r1", "KeyError: 'x'").await;
    let removed = died_at.plus_ms(90 * DAY_MS);
    assert_eq!(world.show("r1").await.body.retention.unwrap().remove_at, Some(removed));
    for (wait, soon) in [(82, 0), (1, 1), (6, 1)] {
        world.wait(wait * DAY_MS);
        while world.store.retain("one", 50).await.unwrap().more {}
        let told = world.store.health(&TenantScope::All).await.unwrap().retention;
        assert_eq!((told.archive, told.removed_soon, told.kept_without_archive), (true, soon, 0));
        assert_eq!(told.first_removal_at, (soon > 0).then_some(removed));
    }
    world.wait(DAY_MS);
    while world.store.retain("one", 50).await.unwrap().more {}
    assert_eq!(world.number("SELECT count(*) FROM runs"), 0);
    assert_eq!(world.miscounted().await, redrive_store::Miscounted::default());
    // The pass after the removal finds nothing more to announce.
    while world.store.retain("one", 50).await.unwrap().more {}
    assert_eq!(world.store.health(&TenantScope::All).await.unwrap().retention.removed_soon, 0);
}

#[tokio::test]
async fn dead_letters_are_announced_on_sqlite() {
    let policies = Policies { has_archive: true, ..Policies::default() };
    dead_letters_are_announced(World::sqlite_under(tempfile::tempdir().unwrap(), policies).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_announced_on_postgres() {
    let policies = Policies { has_archive: true, ..Policies::default() };
    dead_letters_are_announced(World::postgres_under(policies).await).await;
}
