//! The PostgreSQL store: its parts, and how it opens.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use redrive_core::policy::Policies;
use tokio::sync::Mutex;

use crate::copy::half_copied;
use crate::postgres::commit::committer::{Committer, ReplicaContext};
use crate::postgres::commit::fold;
use crate::postgres::connection::address::Address;
use crate::postgres::connection::batch_readers::BatchReaders;
use crate::postgres::connection::clock::Time;
use crate::postgres::connection::failure::database;
use crate::postgres::connection::notifier::Notifier;
use crate::postgres::connection::notifier::Wakeups;
use crate::postgres::connection::place::is_half_copied;
use crate::postgres::connection::readers::{KEY_READERS, READERS, Readers};
use crate::postgres::connection::{ANSWER_MAX, PgSession, within};
use crate::postgres::rows::breakers::QuietBreakers;
use crate::postgres::schema;
use crate::shared::queues;
use redrive_engine::clock::{Clock, Dice};
use redrive_engine::error::{PortResult, Result};
use redrive_engine::metrics::StoreMetrics;
use redrive_engine::model::Swept;
use redrive_engine::operations::settle::Followed;
use redrive_engine::policies::PolicyCache;
use redrive_engine::ports::backend::Route;
use redrive_engine::tx::Tx;

/// What a store needs to open.
pub struct Options {
    /// `postgres://…`
    pub url: String,
    /// None is the database's clock, which replicas share. Tests bring their own.
    pub clock: Option<Arc<dyn Clock>>,
    pub dice: Arc<dyn Dice>,
    pub policies: Policies,
    /// Writer connections for reports.
    pub writer_connections: usize,
}

/// The default number of writer connections for reports.
pub const WRITER_CONNECTIONS: usize = 2;

pub struct PgStore {
    pub(crate) committer: Committer,
    pub(crate) batch_readers: BatchReaders,
    pub(crate) readers: Readers,
    /// Keys are looked up even while all other readers are busy.
    pub(crate) key_readers: Readers,
    pub(crate) shared: Arc<ReplicaContext>,
    pub(crate) notifier: Notifier,
    pub(crate) policy_cache: PolicyCache,
    pub(crate) followed: Followed,
    /// The connection that folds appended deltas, opened when it is needed.
    pub(crate) folding: Mutex<Option<PgSession>>,
    /// The name under which this replica works on operations.
    pub(crate) worker: OnceLock<String>,
}

/// Reads over a connection of the pool, in one snapshot.
macro_rules! read {
    ($store:expr, $snapshot:ident => $read:expr) => {{
        let read = async {
            let view = $store.readers.view().await?;
            let $snapshot = view.snapshot();
            let answer = $read.await;
            view.done(answer).await
        };
        $crate::postgres::connection::within($crate::postgres::connection::ANSWER_MAX, read).await
    }};
}
pub(crate) use read;

impl PgStore {
    /// Connects, migrates the schema and starts the committer.
    pub async fn open(options: Options) -> Result<Self> {
        let Options { url, clock, dice, policies, writer_connections } = options;
        let address = Address::parse(&url)?;
        let readers = Readers::new(address.clone(), READERS);
        let key_readers = Readers::new(address.clone(), KEY_READERS);
        let session = readers.connect().await?;
        schema::migrate(&session).await?;
        if is_half_copied(&session.client).await? {
            return Err(half_copied());
        }
        let time = Time::of(clock);
        let now = session.client.query_one(crate::postgres::connection::clock::NOW, &[]).await.map_err(database)?;
        time.read(now.get(0));
        let configured = policies.clone();
        let wakeups = Wakeups::new();
        let shared = Arc::new(ReplicaContext {
            address: address.clone(),
            time,
            dice,
            policies,
            quiet: Arc::new(QuietBreakers::default()),
            wakeups: wakeups.clone(),
            queues_set: AtomicU64::new(0),
            metrics: StoreMetrics::default(),
        });
        let committer = Committer::start(&shared, writer_connections)?;
        let batch_readers = BatchReaders::start(&shared)?;
        let notifier = Notifier::start(address, wakeups)?;
        let policy_cache = PolicyCache::new(configured, &queues::declared_settings(&session.snapshot()).await?);
        let (followed, folding) = (Followed::default(), Mutex::new(Some(session)));
        let worker = OnceLock::new();
        Ok(Self {
            committer,
            batch_readers,
            readers,
            key_readers,
            shared,
            notifier,
            policy_cache,
            followed,
            folding,
            worker,
        })
    }

    /// Commits a command that is not about one run.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.committer.commit(Route::system(), act).await
    }

    /// Folds some of the deltas that commits appended, unless another replica is folding.
    pub async fn fold(&self) -> Result<Swept> {
        within(ANSWER_MAX, self.fold_some()).await
    }

    async fn fold_some(&self) -> PortResult<Swept> {
        let now = self.shared.time.now();
        let mut held = self.folding.lock().await;
        let mut session = self.folder(held.take()).await?;
        // If this is cancelled, the connection is dropped with its transaction.
        let mut tx = session.client.transaction().await?;
        let folded = fold::fold(&mut tx, now).await?;
        tx.commit().await?;
        *held = Some(session);
        Ok(folded.unwrap_or_default())
    }

    /// Moves appended changes to the change log, so that the next read of it misses nothing.
    pub(crate) async fn log_changes(&self) -> Result<()> {
        within(ANSWER_MAX, self.number_changes()).await
    }

    async fn number_changes(&self) -> PortResult<()> {
        let mut held = self.folding.lock().await;
        let mut session = self.folder(held.take()).await?;
        let tx = session.client.transaction().await?;
        fold::log_changes(&tx).await?;
        tx.commit().await?;
        *held = Some(session);
        Ok(())
    }

    async fn folder(&self, kept: Option<PgSession>) -> Result<PgSession> {
        match kept.filter(|session| !session.client.is_closed()) {
            Some(session) => Ok(session),
            None => {
                // After a failover the new database may lack the last changes of the old one.
                self.followed.forget();
                self.readers.connect().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use private_postgres::Database;
    use redrive_core::ids::QueueName;
    use redrive_core::text::Label;
    use redrive_core::time::Timestamp;
    use redrive_core::wire::Severity;

    use redrive_engine::ports::backend::{Lane, Reads as _};
    use redrive_engine::runs::run_row;
    use redrive_engine::store::Store as _;

    use super::*;
    use redrive_engine::clock::SeededDice;
    use redrive_engine::error::Error;
    use redrive_engine::failpoint;
    use redrive_engine::model::triage::Replay;
    use redrive_engine::model::{Digest, NewRun, Payload, PayloadKind, RunRef, TenantScope};
    use redrive_engine::operations::settle::Outcomes;

    async fn open(database: &Database) -> PgStore {
        let (url, dice) = (database.url().to_owned(), Arc::new(SeededDice::new(7)));
        let options =
            Options { url, clock: None, dice, policies: Policies::default(), writer_connections: WRITER_CONNECTIONS };
        PgStore::open(options).await.unwrap()
    }

    #[tokio::test]
    async fn a_panic_beside_a_command_is_contained() {
        let database = Database::fresh().unwrap();
        let store = open(&database).await;
        for point in ["mid_batch", "before_commit"] {
            let half = store.write(move |batch| {
                batch.rows.put_stamp("half", batch.now, Timestamp::default())?;
                failpoint::panic_at(point);
                Ok(())
            });
            assert!(matches!(half.await, Err(Error::Unexpected(_))), "{point}");
            assert_eq!(store.write(|tx| Ok(tx.rows.last_seen()?)).await.unwrap(), None, "{point}");
        }
        assert!(store.has_writer());
        store.close().await;
        assert!(!store.has_writer());
    }

    #[tokio::test]
    async fn readiness_after_a_commit_costs_no_other() {
        let database = Database::fresh().unwrap();
        let store = open(&database).await;
        let transactions = || database.sql("SELECT txid_current()").unwrap().trim().parse::<u64>().unwrap();
        let first = transactions();
        store.ready().await.unwrap();
        let before = transactions();
        assert!(before > first + 1, "the first one has to find out");
        // The counter is the server's: a round counts if no other test wrote meanwhile.
        let mut undisturbed = false;
        for _ in 0..50 {
            let before = transactions();
            for _ in 0..100 {
                store.ready().await.unwrap();
            }
            undisturbed |= transactions() == before + 1;
        }
        assert!(undisturbed, "every round took a transaction");
        store.close().await;
    }

    /// Holds a lock in the middle of a transaction until it is let go, as a replica that was suspended does.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_suspended_replica_loses_its_locks_and_retries_later() {
        let database = Database::fresh().unwrap();
        let (suspended, healthy) = (Arc::new(open(&database).await), open(&database).await);
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (wake, waits) = std::sync::mpsc::channel::<()>();
        let (mut begun, mut waits) = (Some(begun), Some(waits));
        let stalls = move |batch: &mut Tx<'_>| {
            batch.rows.put_stamp("shared", batch.now, Timestamp::default())?;
            // What was put is written, and its row is locked.
            batch.rows.last_seen()?;
            if let (Some(begun), Some(waits)) = (begun.take(), waits.take()) {
                begun.send(()).unwrap();
                let _ = waits.recv();
            }
            Ok(())
        };
        let stalled = std::thread::Builder::new().spawn({
            let suspended = suspended.clone();
            move || tokio::runtime::Runtime::new().unwrap().block_on(suspended.write(stalls))
        });
        has_begun.recv().unwrap();
        let takes = |tx: &mut Tx<'_>| Ok(tx.rows.put_stamp("shared", tx.now, Timestamp::default())?);
        healthy.write(takes).await.unwrap();
        wake.send(()).unwrap();
        stalled.unwrap().join().unwrap().unwrap();
        healthy.close().await;
        suspended.close().await;
    }

    /// Every writer is in the middle of a transaction, and one of them has locked the run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn plans_and_breakers_do_not_wait_for_writers() {
        let database = Database::fresh().unwrap();
        let store = Arc::new(open(&database).await);
        let at = RunRef { tenant: "acme".parse().unwrap(), run_id: "r1".parse().unwrap() };
        let run = at.clone();
        let make = move |batch: &mut Tx<'_>| {
            let (tenant, queue) = (batch.tenant(&run.tenant)?, batch.queue(&QueueName::default_queue())?);
            let new = new_run(&run);
            let row = run_row::new_run(batch, &new, tenant, queue.id)?;
            run_row::insert_run(batch, &row, &new)
        };
        store.write(make).await.unwrap();
        let mut wakes = Vec::new();
        let mut stalled = tokio::task::JoinSet::new();
        let (begun, has_begun) = std::sync::mpsc::channel();
        for lane in [Lane::Desk, Lane::Claims, Lane::Run] {
            let (wake, waits) = std::sync::mpsc::channel::<()>();
            let (store, run, begun, mut waits) = (store.clone(), at.clone(), begun.clone(), Some(waits));
            wakes.push(wake);
            let stall = move |batch: &mut Tx<'_>| {
                if let Some(waits) = waits.take() {
                    if lane == Lane::Desk {
                        run_row::require_run(batch, &run)?;
                    }
                    begun.send(()).unwrap();
                    let _ = waits.recv();
                }
                Ok(())
            };
            let route = Route { lane, ..Route::system() };
            stalled.spawn(async move { store.committer.commit(route, stall).await });
        }
        for _ in 0..3 {
            has_begun.recv().unwrap();
        }
        let reads = async {
            let plan = store.plan(&at, Replay::default()).await.unwrap();
            assert_eq!((plan.run_id.as_str(), plan.revision), ("r1", 1));
            assert!(store.breakers(&TenantScope::All).await.unwrap().breakers.is_empty());
            let own = store.tenant_breaker(&at.tenant).await.unwrap();
            assert_eq!(own.state, redrive_core::breaker::BreakerStateName::Closed);
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), reads).await.expect("a read waited for a writer");
        drop(wakes);
        stalled.join_all().await.into_iter().for_each(|done| done.unwrap());
        store.close().await;
    }

    fn new_run(at: &RunRef) -> NewRun {
        NewRun {
            tenant: at.tenant.clone(),
            run_id: at.run_id.clone(),
            queue: QueueName::default_queue(),
            agent: None,
            task_type: None,
            customer: None,
            model: None,
            provider: None,
            environment: Label::from("production"),
            severity: Severity::Normal,
            idempotency_key: None,
            order_key: None,
            resumable: None,
            payload: Payload { kind: PayloadKind::None, digest: Digest::default(), encoded: Vec::new() },
            about: Vec::new(),
            by: None,
        }
    }

    #[tokio::test]
    async fn sums_that_would_overflow_stay_at_their_end() {
        let database = Database::fresh().unwrap();
        let store = open(&database).await;
        let huge = format!(
            "INSERT INTO spend_deltas (tenant, day, tokens, cost_micros)
             SELECT 1, 0, {0}, {0} FROM generate_series(1, 5)",
            i64::MAX
        );
        for _ in 0..2 {
            database.sql(&huge).unwrap();
            assert_eq!(store.fold().await.unwrap().moved, 5);
        }
        let kept = database.sql("SELECT tokens, cost_micros FROM retry_spend").unwrap();
        assert_eq!(kept.trim(), format!("{0}|{0}", i64::MAX / 2));
        store.close().await;
    }

    #[tokio::test]
    async fn a_row_that_can_not_be_folded_is_set_aside() {
        let database = Database::fresh().unwrap();
        let store = open(&database).await;
        // Together with what is counted already it does not fit its column.
        let row = "INSERT INTO counter_deltas (state, tenant, queue, reason, detail, n) VALUES";
        database.sql(&format!("{row} (0, 1, 1, '', 0, 1), (0, 2, 1, '', 0, 1)")).unwrap();
        store.fold().await.unwrap();
        let bad = format!("(0, 1, 1, '', 0, {})", i64::MAX);
        database.sql(&format!("{row} (0, 2, 1, '', 0, 1), {bad}, (0, 2, 1, '', 0, 1)")).unwrap();
        while store.fold().await.unwrap().more {}
        assert_eq!(database.sql("SELECT tenant, n FROM counts ORDER BY tenant").unwrap().trim(), "1|1\n2|3");
        assert_eq!(database.sql("SELECT source FROM set_aside").unwrap().trim(), "counter_deltas");
        let health = store.health(&TenantScope::All).await.unwrap();
        assert_eq!((health.set_aside, health.status.as_str()), (1, "attention"));
        let of_tenant = store.health(&TenantScope::One("acme".parse().unwrap())).await.unwrap();
        assert_eq!(of_tenant.set_aside, 0);
        store.close().await;
    }

    /// Behind a new connection may be a database that has not seen all that the last one had: its log is read from where it
    /// says itself that it was read to.
    #[tokio::test]
    async fn a_lost_connection_resets_the_change_log_position() {
        let database = Database::fresh().unwrap();
        let store = open(&database).await;
        store.followed.keep(1, &Outcomes { from: 3, to: 9, runs: Vec::new(), more: false, canary: None });
        store.log_changes().await.unwrap();
        assert_eq!(store.followed.from(1, 3), 9);
        database
            .sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name = 'redrive'",
            )
            .unwrap();
        // Whoever was cut off may only notice it now.
        let _ = store.log_changes().await;
        store.log_changes().await.unwrap();
        assert_eq!(store.followed.from(1, 3), 3);
        store.close().await;
    }

    #[tokio::test]
    async fn keys_are_found_while_every_reader_is_busy() {
        let database = Database::fresh().unwrap();
        let (url, dice) = (database.url().to_owned(), Arc::new(SeededDice::new(7)));
        let options =
            Options { url, clock: None, dice, policies: Policies::default(), writer_connections: WRITER_CONNECTIONS };
        let store = PgStore::open(options).await.unwrap();
        let mut busy = Vec::new();
        for _ in 0..READERS {
            busy.push(store.readers.view().await.unwrap());
        }
        assert!(store.key_by_hash([7; 32]).await.unwrap().is_none());
        drop(busy);
        store.close().await;
    }

    #[tokio::test]
    async fn plans_read_no_outputs_of_steps() {
        let database = Database::fresh().unwrap();
        let store = open(&database).await;
        // Without the run itself: the entry is all that is looked at.
        let insert = "SET session_replication_role = replica;
            INSERT INTO steps (tenant, run, run_id, attempt, epoch, key, named, name, effect, status, holds, at, used_at,
                used_epoch, verify, output) VALUES (1, 1, 'r', 1, 1, 'k', 1, 'n', 1, 1, 1, 0, 0, 1, '\\x00', '\\x00')";
        database.sql(insert).unwrap();
        let read = store.write(|batch| Ok((batch.rows.steps_of_run(1)?, batch.rows.step_of_run(1, "k")?))).await;
        let (read, whole) = read.unwrap();
        assert_eq!(
            read.iter().map(|step| (step.output.is_some(), step.check.is_some())).collect::<Vec<_>>(),
            [(false, false)]
        );
        assert!(whole.is_some_and(|whole| whole.output.is_some() && whole.check.is_some()));
        store.close().await;
    }
}
