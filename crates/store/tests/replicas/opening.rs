//! Opening: what a database has to be, and who brings its schema up.

use std::sync::Arc;

use private_postgres::Database;
use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;
use redrive_core::wire::Role;
use redrive_engine::{KeyRecord, SeededDice, Store as _, UnderLease};
use redrive_store::postgres::{Options, PgStore, WRITER_CONNECTIONS};

use crate::world::{LEASE_MS, at, start};

pub fn options(url: &str) -> Options {
    let dice = Arc::new(SeededDice::new(7));
    Options {
        url: url.to_owned(),
        clock: None,
        dice,
        policies: Policies::default(),
        writer_connections: WRITER_CONNECTIONS,
    }
}

async fn refused(database: &Database) -> String {
    PgStore::open(options(database.url())).await.err().map(|error| error.to_string()).expect("it is refused")
}

#[tokio::test]
async fn replicas_that_start_together_migrate_once() {
    let database = Database::fresh().unwrap();
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let options = options(database.url());
        starting.spawn(async move { PgStore::open(options).await });
    }
    for started in starting.join_all().await {
        let store = started.unwrap();
        store.ready().await.unwrap();
        store.close().await;
    }
    let alone = Database::fresh().unwrap();
    PgStore::open(options(alone.url())).await.unwrap().close().await;
    let versions = "SELECT count(*), max(version) FROM schema_version";
    assert_eq!(database.sql(versions).unwrap(), alone.sql(versions).unwrap());
}

#[tokio::test]
async fn replicas_that_start_together_make_one_first_key() {
    let database = Database::fresh().unwrap();
    let mut stores = Vec::new();
    for _ in 0..6 {
        stores.push(PgStore::open(options(database.url())).await.unwrap());
    }
    let key = |n: u8| KeyRecord {
        id: format!("k{n}"),
        lineage: format!("k{n}"),
        hash: [n; 32],
        role: Role::Admin,
        tenant: None,
        note: None,
        created_at: Timestamp::default(),
        expires_at: None,
        revoked_at: None,
    };
    let mut making = tokio::task::JoinSet::new();
    for (n, store) in (0..).zip(stores) {
        making.spawn(async move {
            let made = store.put_first_key(key(n)).await.unwrap();
            store.close().await;
            made
        });
    }
    assert_eq!(making.join_all().await.into_iter().filter(|made| *made).count(), 1);
    assert_eq!(database.sql("SELECT count(*) FROM keys").unwrap(), "1");
}

#[tokio::test]
async fn a_newer_database_is_refused_and_unchanged() {
    let database = Database::fresh().unwrap();
    PgStore::open(options(database.url())).await.unwrap().close().await;
    database.sql("UPDATE schema_version SET version = 99").unwrap();
    let said = refused(&database).await;
    assert!(said.contains("newer than this binary"), "{said}");
    assert_eq!(database.sql("SELECT version FROM schema_version").unwrap(), "99");
}

#[tokio::test]
async fn a_database_that_would_lose_acknowledged_reports_is_refused() {
    let database = Database::fresh().unwrap();
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    database.sql(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).unwrap();
    let said = refused(&database).await;
    assert!(said.contains("synchronous_commit=off"), "{said}");
}

#[tokio::test]
async fn the_clock_is_the_databases() {
    let database = Database::fresh().unwrap();
    let store = PgStore::open(options(database.url())).await.unwrap();
    store.stamp("a").await.unwrap();
    let theirs: i64 = database.sql("SELECT max(at) FROM stamps").unwrap().parse().unwrap();
    let now = store.now().as_millis();
    assert!((theirs..theirs + 60_000).contains(&now), "{theirs} {now}");
    store.close().await;
}

/// For a lock that another has.
pub fn until_somebody_waits(url: &str) {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let mut looks = 0;
    while private_postgres::sql(url, waits).unwrap() == "0" {
        looks += 1;
        assert!(looks < 1_000, "nobody waits");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_is_read_once_the_locks_are_held() {
    let database = Database::fresh().unwrap();
    let store = Arc::new(PgStore::open(options(database.url())).await.unwrap());
    let lease = store.start(start("r")).await.unwrap().answer.lease.unwrap();
    let under = UnderLease { at: at("acme", "r"), lease: lease.parse().unwrap() };
    let (other, driver) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { driver.await.unwrap() });
    other.batch_execute("BEGIN; SELECT id FROM runs FOR UPDATE").await.unwrap();
    let (beating, mut beats) = (store.clone(), tokio::task::JoinSet::new());
    beats.spawn(async move { beating.heartbeat(under).await.unwrap() });
    until_somebody_waits(database.url());
    let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let waited_until: i64 = other.query_one(clock, &[]).await.unwrap().get(0);
    other.batch_execute("COMMIT").await.unwrap();
    let decided_at = beats.join_next().await.unwrap().unwrap().minus_ms(LEASE_MS).as_millis();
    assert!(decided_at >= waited_until, "decided {} ms before its wait was over", waited_until - decided_at);
    store.close().await;
}
