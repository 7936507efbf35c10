//! A claim does not pay for those before it: what they took out of the index stays there as dead entries until it is
//! vacuumed, which an open transaction of anybody's prevents.

use tokio_postgres::{Client, NoTls};

use crate::world::{World, lease_call};

/// The index of due runs.
const DUE: &str = "runs_due";
const DEAD: usize = 400;
const CLAIMS: usize = 50;
/// Longer than a commit may take to show a run that was due before.
const LONG_AGO_MS: u64 = 120_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_index_entries_cost_a_claim_nothing_before_vacuum() {
    let (few, many) = (read_by_claims(0).await, read_by_claims(DEAD).await);
    // All there is is looked at now and then: once here, which is the first look of all.
    let once = i64::try_from(2 * DEAD).unwrap();
    assert!(many <= few + once, "{CLAIMS} claims read {few} entries, and {many} beside {DEAD} dead ones");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_does_not_pay_for_the_claim_before() {
    let mut world = World::postgres().await;
    let (somebody, moved) = holds_a_transaction(&world).await;
    for n in 0..DEAD {
        world.enqueue("acme", &format!("r{n}")).await;
        world.wait(1);
    }
    world.wait(LONG_AGO_MS);
    let before = entries_read(&world, DUE).await;
    world = world.restarted().await;
    for _ in 0..CLAIMS {
        assert_eq!(world.store.lease(lease_call(4)).await.unwrap().len(), 4);
    }
    let read = entries_read(&world, DUE).await - before;
    // The tenant's oldest, and the four with one more: with those of the claim before, which is where the mark was.
    let each = i64::try_from(CLAIMS * 24).unwrap();
    assert!(read <= each, "{CLAIMS} claims of four read {read} entries");
    lets_go(somebody, moved).await;
}

/// A call for all queues of all tenants reads no queue's settings but those of queues with due runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spanning_claim_does_not_pay_for_queue_names() {
    let (few, many) = (read_by_a_spanning_claim(100).await, read_by_a_spanning_claim(2_000).await);
    assert_eq!(few, many);
}

/// Entries of the indexes of queues and of due runs.
async fn read_by_a_spanning_claim(names: usize) -> (i64, i64) {
    let world = World::postgres().await;
    world.enqueue("acme", "r1").await;
    world.sql(&format!(
        "INSERT INTO queues (name, settings, created_at) SELECT 'q' || n, '{{}}', 0 FROM generate_series(1, {names}) AS n"
    ));
    world.sql("VACUUM ANALYZE queues");
    assert_eq!(world.store.lease(lease_call(4)).await.unwrap().len(), 1);
    (entries_read(&world, "queues_pkey").await, entries_read(&world, DUE).await)
}

/// Entries of the index of due runs that claims read, so many having been claimed long before.
async fn read_by_claims(dead: usize) -> i64 {
    let mut world = World::postgres().await;
    let (somebody, moved) = holds_a_transaction(&world).await;
    for n in 0..dead {
        world.enqueue("acme", &format!("old{n}")).await;
    }
    while !world.store.lease(lease_call(100)).await.unwrap().is_empty() {}
    world.wait(LONG_AGO_MS);
    let before = entries_read(&world, DUE).await;
    world = world.restarted().await;
    for n in 0..CLAIMS {
        world.enqueue("acme", &format!("new{n}")).await;
    }
    for _ in 0..CLAIMS {
        assert_eq!(world.store.lease(lease_call(1)).await.unwrap().len(), 1);
    }
    let read = entries_read(&world, DUE).await - before;
    lets_go(somebody, moved).await;
    read
}

type Moved = tokio::task::JoinHandle<Result<(), tokio_postgres::Error>>;

/// Somebody whose transaction keeps everything from being vacuumed.
async fn holds_a_transaction(world: &World) -> (Client, Moved) {
    let (somebody, connection) = tokio_postgres::connect(world.url(), NoTls).await.unwrap();
    let moved = tokio::spawn(connection);
    somebody.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM runs").await.unwrap();
    (somebody, moved)
}

async fn lets_go(somebody: Client, moved: Moved) {
    somebody.batch_execute("VACUUM runs").await.expect_err("its transaction was open until now");
    drop(somebody);
    moved.await.unwrap().unwrap();
}

/// Since the database was made. A session tells its figures at its end at the latest: the store is closed for it.
pub async fn entries_read(world: &World, index: &str) -> i64 {
    world.store.close().await;
    let ours = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'redrive'";
    let mut looks = 0;
    while world.sql(ours) != "0" {
        looks += 1;
        assert!(looks < 200, "a session of a closed store stays");
    }
    world.sql(&format!("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = '{index}'")).parse().unwrap()
}
