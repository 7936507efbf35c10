//! The database goes away and comes back; a client hangs up.

use std::sync::Arc;

use private_postgres::{Database, Server};
use redrive_core::policy::Policies;
use redrive_engine::ports::backend::Reads as _;
use redrive_engine::{Error, SeededDice, Store as _};
use redrive_store::postgres::{Options, PgStore, WRITER_CONNECTIONS};

use crate::opening::{options, until_somebody_waits};
use crate::world::{World, at, numbered, report, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_crash_loses_nothing_acknowledged() {
    let server = Server::start().unwrap();
    let database = Database::on(server.url()).unwrap();
    let dice = Arc::new(SeededDice::new(7));
    let url = database.url().to_owned();
    let options =
        Options { url, clock: None, dice, policies: Policies::default(), writer_connections: WRITER_CONNECTIONS };
    let store = PgStore::open(options).await.unwrap();
    for round in 0..3 {
        for n in 0..20 {
            store.report(report(&format!("r{round}-{n}"), "Request timed out")).await.unwrap();
        }
        server.stop("immediate").unwrap();
        let refused = store.report(report("while-away", "Request timed out")).await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable(_)), "{refused:?}");
        assert!(store.ready().await.is_err());
        assert!(matches!(store.run(&at("acme", "r0-0")).await, Err(Error::Unavailable(_))));
        server.run().unwrap();
        // By itself: each call waits a little for the connection, and one of the first finds it.
        let mut tries = 0;
        while store.report(report("back", "Request timed out")).await.is_err() {
            tries += 1;
            assert!(tries < 100, "it does not come back");
        }
        for n in 0..20 {
            let again = store.report(report(&format!("r{round}-{n}"), "Request timed out")).await.unwrap();
            assert!(!again.fresh, "what was acknowledged is there");
        }
        // For a moment a failed write still counts; then each writer finds out.
        let ready = async {
            while store.ready().await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), ready).await.expect("it is not ready again");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_and_counters_share_a_commit_after_a_reconnect() {
    let mut world = World::postgres().await;
    world.sql("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$");
    for table in ["counter_deltas", "hour_deltas", "pattern_deltas", "change_deltas"] {
        world.sql(&format!("CREATE TRIGGER refuse BEFORE INSERT ON {table} EXECUTE FUNCTION refuse()"));
        // Nothing is prepared yet on any of its connections.
        world = world.restarted().await;
        world.store.report(report("r", "Request timed out")).await.unwrap_err();
        assert_eq!(world.sql("SELECT count(*) FROM runs"), "0", "{table}");
        world.sql(&format!("DROP TRIGGER refuse ON {table}"));
    }
    assert!(world.store.report(report("r", "Request timed out")).await.unwrap().fresh);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_caller_leaves_no_transaction_and_no_partial_write() {
    let world = World::postgres().await;
    for n in 0..50 {
        // Cut off as soon as they have to wait.
        let mut calls = tokio::task::JoinSet::new();
        let store = world.store.clone();
        calls.spawn(async move { drop(store.report(numbered(&format!("r{n}"), "Request timed out", 1)).await) });
        let store = world.store.clone();
        calls.spawn(async move { drop(store.run(&at("acme", "r0")).await) });
        tokio::task::yield_now().await;
        calls.shutdown().await;
    }
    // Behind all of them in every line's queue.
    for n in 0..16 {
        world.fail(&format!("last{n}"), "Request timed out").await;
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    let mut looks = 0;
    while world.sql(open) != "0" {
        looks += 1;
        assert!(looks < 200, "a transaction is left open");
    }
    let halves = "SELECT count(*) FROM runs WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.run = runs.id)
         OR NOT EXISTS (SELECT 1 FROM payloads WHERE payloads.run = runs.id)";
    assert_eq!(world.sql(halves), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_read_leaves_no_open_transaction() {
    let database = Database::fresh().unwrap();
    let store = Arc::new(PgStore::open(options(database.url())).await.unwrap());
    store.start(start("r")).await.unwrap();
    let (other, driver) = tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
    let (mut drivers, mut reads) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    drivers.spawn(async move { driver.await.unwrap() });
    other.batch_execute("BEGIN; LOCK TABLE runs IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let reader = store.clone();
    reads.spawn(async move { drop(reader.run(&at("acme", "r")).await) });
    until_somebody_waits(database.url());
    reads.shutdown().await;
    other.batch_execute("COMMIT").await.unwrap();
    // Whatever is neither gone nor at rest.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
         AND state <> 'idle'";
    let mut looks = 0;
    while database.sql(open).unwrap() != "0" {
        looks += 1;
        assert!(looks < 200, "a transaction is left open");
    }
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_database_never_reuses_a_tenant_number() {
    let world = World::postgres().await;
    // So many that each line has met the tenant.
    for n in 0..8 {
        world.fail(&format!("before{n}"), "Request timed out").await;
    }
    // What took over has never heard of the tenant, and has given its number to another.
    world.sql("UPDATE tenants SET name = 'other' WHERE name = 'acme'");
    world.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'redrive'",
    );
    for n in 0..8 {
        world.fail(&format!("after{n}"), "KeyError: 'invoice'").await;
    }
    let whose = "SELECT name, count(*) FROM runs JOIN tenants ON tenants.id = runs.tenant GROUP BY name ORDER BY name";
    assert_eq!(world.sql(whose), "acme|8\nother|8");
}

/// While heartbeats can't be taken nobody is there for the workers, whatever else gets through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_stuck_heartbeats_does_not_stamp() {
    let world = World::postgres().await;
    let (_, under) = world.start("r").await;
    let (other, driver) = tokio_postgres::connect(world.url(), tokio_postgres::NoTls).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { driver.await.unwrap() });
    other.batch_execute("BEGIN; SELECT id FROM runs FOR UPDATE").await.unwrap();
    let (beating, mut beats) = (world.store.clone(), tokio::task::JoinSet::new());
    beats.spawn(async move { beating.heartbeat(under).await });
    until_somebody_waits(world.url());
    let stamped = tokio::time::timeout(std::time::Duration::from_millis(300), world.store.stamp("a")).await;
    assert!(stamped.is_err(), "{stamped:?}");
    assert_eq!(world.sql("SELECT count(*) FROM stamps"), "0");
    other.batch_execute("COMMIT").await.unwrap();
    world.store.stamp("a").await.unwrap();
    assert_eq!(world.sql("SELECT count(*) FROM stamps"), "1");
}

/// A batch reads the breakers that it concerns: a row that nobody could read, of another tenant, is none of its business.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_tenants_breakers_are_not_read() {
    let world = World::postgres().await;
    let (_, under) = world.start("r").await;
    world.sql(
        "INSERT INTO tenants (id, name) VALUES (77, 'globex');
         INSERT INTO breakers (name, environment, tenant, provider, model, life, open, moved_at)
         SELECT n::text::bytea, 'e', 77, NULL, NULL, 'unreadable', 0, 0 FROM generate_series(1, 100) AS n",
    );
    world.store.report(report("other", "Request timed out")).await.unwrap();
    world.store.fail(under, crate::world::failed("Request timed out")).await.unwrap();
    assert_eq!(world.sql("SELECT count(*) FROM breakers WHERE tenant <> 77"), "1");
}
