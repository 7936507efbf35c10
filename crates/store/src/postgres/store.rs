//! The store over PostgreSQL: what it is made of, and how it opens.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use redrive_core::policy::Policies;
use tokio::sync::Mutex;

use super::address::Address;
use super::committer::{Committer, Shared, To};
use super::connection::{ANSWER_MAX, Session, within};
use super::expected::Expects;
use super::place::is_half_copied;
use super::quiet::Quiet;
use super::readers::{KEY_READERS, READERS, Readers};
use super::telling::Telling;
use super::time::Time;
use super::wakeups::Wakeups;
use super::{fold, migrate, queue_list};
use crate::clock::{Clock, Dice};
use crate::commands::batch::Batch;
use crate::commands::operation_settle::Followed;
use crate::commands::output_schemas::OutputSchemas;
use crate::commands::policy_shelf::PolicyShelf;
use crate::copy::half_copied;
use crate::error::Result;
use crate::store::Store as _;

/// What a store needs to open.
pub struct Options {
    /// `postgres://…`
    pub url: String,
    /// None: the database's own, as it has to be where several replicas share it. A test may bring another.
    pub clock: Option<Arc<dyn Clock>>,
    pub dice: Arc<dyn Dice>,
    pub policies: Policies,
    /// Connections that reports are folded over.
    pub lines: usize,
}

/// Lines for reports, unless somebody knows better.
pub const LINES: usize = 2;

pub struct PgStore {
    pub(super) committer: Committer,
    pub(super) readers: Readers,
    /// Who asks is found out beside whatever others read.
    pub(super) key_readers: Readers,
    pub(super) shared: Arc<Shared>,
    pub(super) telling: Telling,
    pub(super) shelf: PolicyShelf,
    pub(super) schemas: OutputSchemas,
    pub(super) followed: Followed,
    /// Whoever folds what was appended: a connection that is made when it is needed.
    pub(super) folding: Mutex<Option<Session>>,
    /// The name under which this replica works on operations.
    pub(super) worker: OnceLock<String>,
}

/// Reads over a connection of its own, at one moment.
macro_rules! read {
    ($store:expr, $look:ident => $read:expr) => {{
        let read = async {
            let view = $store.readers.view().await?;
            let $look = view.look();
            let answer = $read.await;
            view.done(answer).await
        };
        $crate::postgres::connection::within($crate::postgres::connection::ANSWER_MAX, read).await
    }};
}
pub(super) use read;

impl PgStore {
    /// Connects, brings the schema up and starts the committer.
    pub async fn open(options: Options) -> Result<Self> {
        let Options { url, clock, dice, policies, lines } = options;
        let address = Address::parse(&url)?;
        let readers = Readers::new(address.clone(), READERS);
        let key_readers = Readers::new(address.clone(), KEY_READERS);
        let session = readers.connect().await?;
        migrate::migrate(&session).await?;
        if is_half_copied(&session.client).await? {
            return Err(half_copied());
        }
        let time = Time::of(clock);
        let now = session.client.query_one(super::time::NOW, &[]).await?;
        time.read(now.get(0));
        let shelf = PolicyShelf::new(policies.clone());
        let wakeups = Wakeups::new();
        let shared = Arc::new(Shared {
            address: address.clone(),
            time,
            dice,
            policies,
            quiet: Arc::new(Quiet::default()),
            wakeups: wakeups.clone(),
            queues_set: AtomicU64::new(0),
        });
        let committer = Committer::start(&shared, lines)?;
        let telling = Telling::start(address, wakeups)?;
        let schemas = OutputSchemas::of(&shared.policies, &queue_list::list_queues(&session.look()).await?);
        let (followed, folding) = (Followed::default(), Mutex::new(Some(session)));
        let worker = OnceLock::new();
        Ok(Self { committer, readers, key_readers, shared, telling, shelf, schemas, followed, folding, worker })
    }

    /// Whatever is not about one run alone.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        act: impl FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.committer.commit(To::Desk, Expects::default(), act).await
    }

    /// About one run, in its turn among others.
    pub(super) async fn write_run<T: Send + 'static>(
        &self,
        expects: Expects,
        act: impl FnMut(&mut Batch<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.committer.commit(To::Reports, expects, act).await
    }

    /// Folds a piece of what commits appended, unless another replica is at it.
    pub async fn fold(&self) -> Result<()> {
        within(ANSWER_MAX, self.fold_a_piece()).await
    }

    async fn fold_a_piece(&self) -> Result<()> {
        let now = self.now();
        let mut held = self.folding.lock().await;
        let mut session = self.folder(held.take()).await?;
        // Cut off in the middle, the connection is gone with its transaction.
        let tx = session.client.transaction().await?;
        fold::fold(&tx, now).await?;
        tx.commit().await?;
        *held = Some(session);
        Ok(())
    }

    /// Puts what commits appended into the log of changes, so that whoever reads it next misses nothing.
    pub(super) async fn log_changes(&self) -> Result<()> {
        within(ANSWER_MAX, self.log_what_changed()).await
    }

    async fn log_what_changed(&self) -> Result<()> {
        let mut held = self.folding.lock().await;
        let mut session = self.folder(held.take()).await?;
        let tx = session.client.transaction().await?;
        fold::log_changes(&tx).await?;
        tx.commit().await?;
        *held = Some(session);
        Ok(())
    }

    async fn folder(&self, kept: Option<Session>) -> Result<Session> {
        match kept.filter(|session| !session.client.is_closed()) {
            Some(session) => Ok(session),
            None => {
                // It may lead to another database, which took over and has not seen all that the last one had.
                self.followed.forget();
                self.readers.connect().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use private_postgres::Database;

    use super::*;
    use crate::clock::SeededDice;
    use crate::commands::operation_settle::Outcomes;

    /// Behind a new connection may be a database that has not seen all that the last one had: its log is read from where it
    /// says itself that it was read to.
    #[tokio::test]
    async fn how_far_the_log_was_followed_is_forgotten_with_the_connection() {
        let database = Database::fresh().unwrap();
        let (url, dice) = (database.url().to_owned(), Arc::new(SeededDice::new(7)));
        let options = Options { url, clock: None, dice, policies: Policies::default(), lines: LINES };
        let store = PgStore::open(options).await.unwrap();
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
        let options = Options { url, clock: None, dice, policies: Policies::default(), lines: LINES };
        let store = PgStore::open(options).await.unwrap();
        let mut busy = Vec::new();
        for _ in 0..READERS {
            busy.push(store.readers.view().await.unwrap());
        }
        assert!(store.key_by_hash([7; 32]).await.unwrap().is_none());
        drop(busy);
        store.close().await;
    }
}
