//! What the commands of a batch are going to ask for, read for all of them at once before the first one runs. A command
//! that asks for more gets it there and then; this only saves the way.

use crate::shared::records::{ATTEMPT_COLUMN_COUNT, ATTEMPT_COLUMNS, PATTERN_KNOWN, Record as _};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::lifecycle::Outcome;
use redrive_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::postgres::commit::array::column;
use crate::postgres::commit::unit_of_work::{COLUMNS, Named, PatternKey};
use crate::postgres::commit::writer_connection::WriterConnection;
use crate::postgres::connection::Session;
use crate::postgres::connection::clock::NOW;
use crate::postgres::reads::columns::{number, parsed};
use crate::postgres::rows::PgRows;
use crate::postgres::rows::breakers::{CONCERNED, GENERATION};
use crate::postgres::rows::runs::NEXT_NUMBERS;
use redrive_engine::Map;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::model::RunRef;
use redrive_engine::patterns::sightings::CachedPattern;
use redrive_engine::ports::backend::Prefetch;
use redrive_engine::runs::attempts::StoredAttempt;
use redrive_engine::runs::document::position;

/// Which of so many report writers a command goes to: the same run always to the same one, so that its commands keep their
/// order and do not wait for each other.
pub(crate) fn report_writer(prefetch: &Prefetch, writers: usize) -> usize {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    let run = prefetch.run.as_ref().map(|at| (&at.tenant, &at.run_id));
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(run);
    usize::try_from(hash % u64::try_from(writers.max(1)).unwrap_or(1)).unwrap_or(0)
}

/// Locked in the order in which they are asked for, which is one over all batches, so that no two wait for each other. A
/// name is asked for as the first of a range of one: the planner then has no choice but the index of names. Asked for as
/// equal, it took any index that begins with the tenant while the table was new, and read all of the tenant's runs for each
/// name.
static RUNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {columns} FROM unnest($1::bigint[], $2::text[]) AS q(q_tenant, q_run) CROSS JOIN LATERAL (
             SELECT {columns} FROM runs WHERE tenant = q_tenant AND run_id >= q_run AND run_id <= q_run
             ORDER BY run_id LIMIT 1 FOR UPDATE) AS run",
        columns = *COLUMNS
    )
});
static PATTERNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {PATTERN_KNOWN}, a.tenant, a.fp_hash, a.fp_version
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS q(tenant, hash, version)
             JOIN pattern_alias a ON a.tenant = q.tenant AND a.fp_hash = q.hash AND a.fp_version = q.version
             JOIN patterns own ON own.id = a.pattern
             JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)"
    )
});
/// How many columns of a pattern come before its key.
const KNOWN_COUNT: usize = 9;
static LAST_FAILURES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT last.* FROM unnest($1::bigint[]) AS q(q_run) CROSS JOIN LATERAL (
             SELECT {ATTEMPT_COLUMNS}, run FROM attempts WHERE run = q_run AND outcome = $2
             ORDER BY attempt DESC LIMIT 1) AS last"
    )
});

/// Which names a batch asks for before its commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    All,
    /// Not those of reports and starts: nearly always they are new, and where one is not, its insert says so.
    ButTheNew,
}

/// What all commands of a batch expect, each thing once. Of tenants that nobody has named yet there is nothing to read.
struct Wanted<'e> {
    /// In the order in which runs are locked everywhere.
    runs: Vec<WantedRun<'e>>,
    patterns: Vec<PatternKey>,
}

struct WantedRun<'e> {
    tenant: i64,
    run_id: &'e RunId,
    makes: bool,
    /// It is read before the commands run; otherwise they take it to be new.
    read: bool,
    last_failure: bool,
}

impl<'e> Wanted<'e> {
    fn of(all: impl Iterator<Item = &'e Prefetch>, names: &Names, asking: Asking) -> Self {
        let (mut runs, mut patterns) = (Vec::new(), Vec::new());
        for expects in all {
            let Some(at) = &expects.run else { continue };
            let (Some(tenant), run_id) = (names.number(&at.tenant), &at.run_id) else { continue };
            let (makes, read) = (expects.may_create, !expects.may_create || asking == Asking::All);
            runs.push(WantedRun { tenant, run_id, makes, read, last_failure: expects.last_failure });
            patterns.extend(expects.fingerprint.map(|(hash, version)| (tenant, hash, version)));
        }
        runs.sort_unstable_by(|a, b| (a.tenant, a.run_id).cmp(&(b.tenant, b.run_id)));
        runs.dedup_by(|next, kept| {
            let same = (next.tenant, next.run_id) == (kept.tenant, kept.run_id);
            if same {
                kept.makes |= next.makes;
                kept.read |= next.read;
                kept.last_failure |= next.last_failure;
            }
            same
        });
        patterns.sort_unstable();
        patterns.dedup();
        Self { runs, patterns }
    }
}

type Read = std::result::Result<Vec<Row>, tokio_postgres::Error>;

async fn read(session: &Session, rows: usize, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Read {
    if rows == 0 {
        return Ok(Vec::new());
    }
    debug_assert!(session.statements.knows(sql), "others would overtake it: {sql}");
    let statement = session.statements.prepared(&session.client, sql).await?;
    session.client.query(&statement, values).await
}

impl PgRows<'_> {
    /// Opens the transaction, reads and locks what its commands expect, and says what time it is: once the locks are held.
    pub(crate) fn begin<'e>(&mut self, expects: impl Iterator<Item = &'e Prefetch>, asking: Asking) -> Result<i64> {
        let wanted = Wanted::of(expects, self.names, asking);
        prepare(self.connection)?;
        let mut tenants: Vec<i64> = wanted.runs.iter().map(|run| run.tenant).collect();
        tenants.dedup();
        let opened = self.connection.wait(open(&self.connection.session, &wanted, &tenants));
        let opened = self.connection.noted(opened)?;
        self.unit.make_room(wanted.runs.len());
        for row in &opened.runs {
            self.unit.take_in(row)?;
        }
        self.take_patterns(&wanted, &opened.patterns)?;
        for row in opened.numbers.iter().rev() {
            self.unit.numbers.push(number(row, 0)?);
        }
        (self.breakers.read, self.breakers.tenants) = (Some(opened.breakers), tenants);
        let again = self.what_is_there(&wanted);
        self.take_last_failures(&again)?;
        Ok(opened.now_ms)
    }

    fn take_patterns(&mut self, wanted: &Wanted<'_>, rows: &[Row]) -> Result<()> {
        let known = &mut self.unit.patterns;
        known.extend(wanted.patterns.iter().map(|key| (*key, None)));
        for row in rows {
            let version = u8::try_from(number(row, KNOWN_COUNT + 2)?)
                .map_err(|_| Error::Unexpected("a fingerprint's version".into()))?;
            let key = (number(row, KNOWN_COUNT)?, number(row, KNOWN_COUNT + 1)?.cast_unsigned(), version);
            known.insert(key, Some(CachedPattern::read(row)?));
        }
        Ok(())
    }

    /// Which runs may have been reported before.
    fn what_is_there(&mut self, wanted: &Wanted<'_>) -> Vec<i64> {
        let mut again = Vec::new();
        for WantedRun { tenant, run_id, read, last_failure, .. } in &wanted.runs {
            // One that was not there when its name was asked for is not there for this batch; whoever makes it meanwhile is
            // met at the insert.
            let nobody = if *read { Named::Nobody } else { Named::Unasked };
            let found = self.unit.named.entry((*tenant, (*run_id).clone())).or_insert(nobody);
            if let (Named::Run(run), true) = (*found, *last_failure) {
                again.push(run);
            }
        }
        again
    }

    /// Whether each run that was taken to be new has become one: what was done to another for its sake stands on nothing.
    pub(crate) fn new_ones_are_made(&self) -> bool {
        self.unit.named.values().all(|named| *named != Named::Unasked)
    }

    fn take_last_failures(&mut self, again: &[i64]) -> Result<()> {
        if again.is_empty() {
            return Ok(());
        }
        let failed = position(Outcome::ALL, &Outcome::Failed);
        let mut found: HashMap<i64, StoredAttempt> = HashMap::new();
        for row in self.ask(&LAST_FAILURES, &[&again, &failed])? {
            found.insert(number(&row, ATTEMPT_COLUMN_COUNT)?, StoredAttempt::read(&row)?);
        }
        for run in again {
            self.unit.last_failures.insert(*run, found.remove(run));
        }
        Ok(())
    }
}

struct Opened {
    runs: Vec<Row>,
    patterns: Vec<Row>,
    breakers: (Vec<Row>, Vec<Row>),
    numbers: Vec<Row>,
    now_ms: i64,
}

/// Before the first is sent: nothing may overtake the beginning.
pub(crate) fn prepare(connection: &mut WriterConnection) -> Result<()> {
    let all = [RUNS.as_str(), PATTERNS.as_str(), NOW, NEXT_NUMBERS, GENERATION, CONCERNED.as_str()];
    let prepared = connection.wait(connection.session.statements.prepare_all(&connection.session.client, "reads", all));
    connection.noted(prepared)
}

async fn open(
    session: &Session,
    wanted: &Wanted<'_>,
    tenants: &Vec<i64>,
) -> std::result::Result<Opened, tokio_postgres::Error> {
    let Wanted { runs, patterns } = wanted;
    let read_first: Vec<&WantedRun<'_>> = runs.iter().filter(|run| run.read).collect();
    let of_runs: [&(dyn ToSql + Sync); 2] =
        [&column(&read_first, |run| run.tenant), &column(&read_first, |run| run.run_id.as_str())];
    let of_patterns: [&(dyn ToSql + Sync); 3] = [
        &column(patterns, |(tenant, ..)| *tenant),
        &column(patterns, |(_, hash, _)| hash.cast_signed()),
        &column(patterns, |(.., version)| i64::from(*version)),
    ];
    let no_names: [&[u8]; 0] = [];
    let of_breakers: [&(dyn ToSql + Sync); 2] = [tenants, &no_names.as_slice()];
    // For as many runs as may be new: a number that is not used is no loss, another way to the database is.
    let makes = runs.iter().filter(|run| run.makes).count();
    let of_numbers: [&(dyn ToSql + Sync); 1] = [&i64::try_from(makes).unwrap_or(0)];
    let opened = tokio::join!(
        biased;
        session.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
        read(session, read_first.len(), &RUNS, &of_runs),
        read(session, patterns.len(), &PATTERNS, &of_patterns),
        read(session, 1, NOW, &[]),
        read(session, 1, GENERATION, &[]),
        read(session, 1, &CONCERNED, &of_breakers),
        read(session, makes, NEXT_NUMBERS, &of_numbers),
    );
    // In their order: what failed first says why.
    opened.0?;
    let (runs, patterns, now) = (opened.1?, opened.2?, opened.3?);
    let now_ms = now.first().map_or(0, |row| row.get(0));
    Ok(Opened { runs, patterns, breakers: (opened.4?, opened.5?), numbers: opened.6?, now_ms })
}

/// The numbers of tenants that a line has met over its connection: in one database they never change.
#[derive(Default)]
pub(crate) struct Names(Map<Tenant, i64>);

/// Names are strangers' to choose: past so many the memory begins anew.
const NAMES_MAX: usize = 20_000;

/// Tenants that a batch names and its line has not met.
#[derive(Default)]
pub(crate) struct Unmet<'e> {
    all: HashSet<&'e str>,
    /// Those that its commands may make.
    made: HashSet<&'e str>,
}

impl Unmet<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Makes those that may be made, in a transaction of their own: a name is no secret, and two batches that make the same
    /// ones in another order would wait for each other. Then asks for the numbers of all.
    pub(crate) async fn meet(
        &self,
        session: &Session,
        now: Timestamp,
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let [all, made] = [&self.all, &self.made].map(|names| names.iter().copied().collect::<Vec<&str>>());
        if !made.is_empty() {
            let sql = "INSERT INTO tenants (name, created_at) SELECT name, $2 FROM unnest($1::text[]) AS new(name)
                 WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.name = new.name) ORDER BY name
                 ON CONFLICT (name) DO NOTHING";
            session.client.execute(sql, &[&made, &now.as_millis()]).await?;
        }
        session.client.query("SELECT name, id FROM tenants WHERE name = ANY($1)", &[&all]).await
    }
}

impl Names {
    pub(crate) fn number(&self, tenant: &Tenant) -> Option<i64> {
        self.0.get(tenant).copied()
    }

    pub(crate) fn unmet<'e>(&self, all: impl Iterator<Item = &'e Prefetch>) -> Unmet<'e> {
        let mut unmet = Unmet::default();
        for expects in all {
            let Some(RunRef { tenant, .. }) = &expects.run else { continue };
            if self.0.contains_key(tenant) {
                continue;
            }
            unmet.all.insert(tenant.as_str());
            if expects.may_create {
                unmet.made.insert(tenant.as_str());
            }
        }
        unmet
    }

    pub(crate) fn met(&mut self, rows: &[Row]) -> Result<()> {
        if self.0.len() > NAMES_MAX {
            self.0.clear();
        }
        for row in rows {
            self.0.insert(parsed(row, 0, "tenant")?, number(row, 1)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use private_postgres::Database;
    use redrive_core::policy::Policies;

    use super::*;
    use crate::postgres::store::{LINES, Options, PgStore};
    use redrive_engine::clock::SeededDice;
    use redrive_engine::ports::backend::Route;
    use redrive_engine::store::Store as _;

    /// Nothing that a batch did about a run holds if it took the run to be new, and did not make it.
    #[tokio::test]
    async fn whoever_makes_nothing_is_asked_anew_whether_the_run_is_there() {
        let database = Database::fresh().unwrap();
        let (url, dice) = (database.url().to_owned(), Arc::new(SeededDice::new(7)));
        let options = Options { url, clock: None, dice, policies: Policies::default(), lines: LINES };
        let store = PgStore::open(options).await.unwrap();
        let made = "INSERT INTO tenants (id, name, created_at) VALUES (1, 'acme', 0);
             INSERT INTO queues (id, name, settings, created_at) VALUES (1, 'default', '{}', 0);
             INSERT INTO runs (tenant, queue, key_hash, run_id, state, detail, attempt, revision, reason, category,
                 severity, received_at, updated_at, environment, replays, life)
             VALUES (1, 1, 0, 'r1', 2, 0, 1, 1, '', -1, 1, 0, 0, 'production', 0, '{}')";
        database.sql(made).unwrap();
        let at = RunRef { tenant: "acme".parse().unwrap(), run_id: "r1".parse().unwrap() };
        let mut route = Route::run(&at);
        route.prefetch.may_create = true;
        let found = store
            .committer
            .commit(route, move |tx| redrive_engine::runs::run_row::find_run(tx, &at.tenant, &at.run_id));
        assert!(found.await.unwrap().is_some());
        store.close().await;
    }
}
