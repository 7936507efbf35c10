//! The SQLite store: its parts, and how it opens.

use std::path::PathBuf;
use std::sync::Arc;

use redrive_core::policy::Policies;
use redrive_core::time::Timestamp;

use crate::copy::{half_copied, is_half_copied};
use crate::shared::queues;
use crate::shared::reader::ready;
use crate::sqlite::commit::checkpointer::Checkpointer;
use crate::sqlite::commit::committer::Committer;
use crate::sqlite::connection;
use crate::sqlite::connection::folder::{self, FolderLock};
use crate::sqlite::connection::readers::{KEY_READERS, READERS, Readers};
use crate::sqlite::rows::run_names;
use crate::sqlite::rows::{SqliteRows, WriterCache};
use crate::sqlite::schema;
use redrive_engine::clock::{Clock, Dice, SteadyClock};
use redrive_engine::counters::CounterDeltas;
use redrive_engine::error::{PortResult, Result};
use redrive_engine::operations::settle::Followed;
use redrive_engine::policies::PolicyCache;
use redrive_engine::ports::backend::{Owner, Unpaced};
use redrive_engine::ports::rows::OperationRows as _;
use redrive_engine::tx::{Tx, TxCache};

/// What a store needs to open.
pub struct Options {
    /// Created if it does not exist.
    pub folder: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub policies: Policies,
}

pub struct SqliteStore {
    pub(crate) committer: Committer,
    pub(crate) readers: Readers,
    /// Keys are looked up even while all other readers are busy.
    pub(crate) key_readers: Readers,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) clock: Arc<SteadyClock>,
    pub(crate) policy_cache: PolicyCache,
    pub(crate) followed: Arc<Followed>,
    /// Dropped last: the folder is locked while anything of it is open.
    _held: FolderLock,
}

impl SqliteStore {
    /// Locks the folder, migrates the schema and starts the committer.
    pub fn open(options: Options) -> Result<Self> {
        Self::open_with(options, |_| Ok(()))
    }

    /// For a folder that is thrown away (a demo, a simulation): a commit does not wait for the disk, and a crash of the
    /// machine may lose or damage it.
    pub fn open_throw_away(options: Options) -> Result<Self> {
        Self::open_with(options, connection::do_not_sync)
    }

    fn open_with(options: Options, set: fn(&rusqlite::Connection) -> PortResult<()>) -> Result<Self> {
        let Options { folder, clock, dice, policies } = options;
        folder::create(&folder)?;
        let held = folder::hold(&folder)?;
        folder::close_to_others(&folder);
        let path = folder::database(&folder);
        let mut conn = connection::open_writer(&path, true)?;
        schema::migrate(&mut conn)?;
        if is_half_copied(&conn)? {
            return Err(half_copied());
        }
        run_names::settle(&conn)?;
        // The last server of this folder has ended, and so have its claims.
        SqliteRows::new(&conn, &mut WriterCache::default()).release_claims(None)?;
        set(&conn)?;
        let readers = Readers::open(&path, READERS)?;
        let key_readers = Readers::open(&path, KEY_READERS)?;
        let policy_cache = PolicyCache::new(policies.clone(), &ready(queues::declared_settings(&conn))?);
        // Time must not go back behind what was written.
        let clock = Arc::new(SteadyClock::new(clock, newest_time(&conn)?));
        let beside = connection::open_writer(&path, false)?;
        set(&beside)?;
        let committer =
            Committer::start(conn, Checkpointer::start(beside)?, clock.clone(), dice.clone(), policies.clone())?;
        let policies = Arc::new(policies);
        Ok(Self {
            committer,
            readers,
            key_readers,
            dice,
            policies,
            clock,
            policy_cache,
            followed: Arc::default(),
            _held: held,
        })
    }

    #[cfg(test)]
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.committer.commit(Owner::System, act).await
    }

    /// Reads for the system.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> PortResult<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.run(&Owner::System, read).await
    }

    /// Reads when it is the owner's turn.
    pub(crate) async fn read_for<T: Send + 'static>(
        &self,
        owner: impl Into<Owner>,
        read: impl FnOnce(&rusqlite::Connection) -> PortResult<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.run(&owner.into(), read).await
    }

    /// Runs a read-only command beside the writer.
    pub(crate) async fn read_transaction<T: Send + 'static>(
        &self,
        owner: impl Into<Owner>,
        mut act: impl FnMut(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (now, dice, policies) = (self.clock.now(), self.dice.clone(), self.policies.clone());
        let read = move |conn: &rusqlite::Connection| {
            let (mut memory, mut known) = (WriterCache::default(), TxCache::default());
            let mut rows = SqliteRows::new(conn, &mut memory);
            Ok(act(&mut Tx {
                rows: &mut rows,
                now,
                dice: &*dice,
                policies: &policies,
                known: &mut known,
                counters: CounterDeltas::default(),
                pace: &Unpaced,
                wake: false,
            })?)
        };
        self.read_for(owner, read).await
    }
}

/// The newest time that the store has written: a server stamps it every second, and a commit that moves a run says when.
fn newest_time(conn: &rusqlite::Connection) -> PortResult<Option<Timestamp>> {
    let sql = "SELECT max(at) FROM (SELECT max(at) AS at FROM stamps UNION ALL SELECT max(until) FROM absences
               UNION ALL SELECT * FROM (SELECT at FROM changes ORDER BY seq DESC LIMIT 1))";
    let newest: Option<i64> = conn.query_row(sql, [], |row| row.get(0))?;
    Ok(newest.map(Timestamp::from_millis))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test's tasks end with it")]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use redrive_engine::model::triage::Replay;
    use redrive_engine::model::{RunRef, TenantScope};
    use redrive_engine::ports::backend::Reads as _;
    use redrive_engine::store::Store as _;
    use redrive_engine::{Error, SystemClock, SystemDice};

    /// Far longer than any of it takes: what waits for another fails here instead of for ever.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn store() -> (tempfile::TempDir, Arc<SqliteStore>) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            folder: folder.path().to_owned(),
            clock: Arc::new(SystemClock),
            dice: Arc::new(SystemDice),
            policies: Policies::default(),
        };
        (folder, Arc::new(SqliteStore::open(options).unwrap()))
    }

    #[tokio::test]
    async fn plans_and_breakers_do_not_wait_for_the_writer() {
        let (_folder, store) = store();
        let (go_on, wait) = mpsc::channel::<()>();
        let (writer, (said, begun)) = (store.clone(), tokio::sync::oneshot::channel());
        let mut said = Some(said);
        let writing = tokio::spawn(async move {
            writer
                .write(move |_| {
                    let _ = said.take().map(|said| said.send(()));
                    let _ = wait.recv();
                    Ok(())
                })
                .await
        });
        begun.await.unwrap();
        let at = RunRef { tenant: "acme".parse().unwrap(), run_id: "r".parse().unwrap() };
        let planned = timeout(PATIENCE, store.plan(&at, Replay::default())).await;
        let breakers = timeout(PATIENCE, store.breakers(&TenantScope::All)).await;
        drop(go_on);
        assert!(matches!(planned, Ok(Err(Error::NotFound("run")))), "{planned:?}");
        assert!(breakers.is_ok_and(|told| told.unwrap().breakers.is_empty()), "breakers wait for the writer");
        writing.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn keys_are_found_while_every_reader_is_busy() {
        let (_folder, store) = store();
        let (mut busy, mut go_on) = (Vec::new(), Vec::new());
        for reader in 0..READERS {
            let tenant: redrive_core::ids::Tenant = format!("tenant-{reader}").parse().unwrap();
            let (reader, (end, wait), (said, begun)) =
                (store.clone(), mpsc::channel::<()>(), tokio::sync::oneshot::channel());
            busy.push(tokio::spawn(async move {
                reader
                    .read_for(&tenant, move |_| {
                        let _ = said.send(());
                        let _ = wait.recv();
                        Ok(())
                    })
                    .await
            }));
            begun.await.unwrap();
            go_on.push(end);
        }
        let found = timeout(PATIENCE, store.key_by_hash([7; 32])).await;
        drop(go_on);
        assert!(found.unwrap().unwrap().is_none());
        for read in busy {
            read.await.unwrap().unwrap();
        }
    }
}
