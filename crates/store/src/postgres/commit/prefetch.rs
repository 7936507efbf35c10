//! Reads in one round trip what the commands of a batch are known to need, before the first one runs. A command that needs
//! more reads it itself.

use crate::numbers::{counted, signed};
use crate::shared::records::{ATTEMPT_COLUMN_COUNT, ATTEMPT_COLUMNS, FromRow as _, PATTERN_KNOWN};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::lifecycle::Outcome;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::postgres::commit::unit_of_work::{COLUMNS, PatternKey};
use crate::postgres::commit::writer_connection::WriterConnection;
use crate::postgres::connection::PgSession;
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

/// The report writer of a command. A run always has the same one, so that its commands keep their order and do not wait for
/// each other.
pub(crate) fn report_writer(prefetch: &Prefetch, writers: usize) -> usize {
    use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
    let run = prefetch.run.as_ref().map(|at| (&at.tenant, &at.run_id));
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(run);
    counted(hash % signed(writers.max(1)).cast_unsigned())
}

/// Runs are locked in the order of the arrays, which is the same in all batches, so that no two deadlock. The range of one
/// name forces the planner to use the index of names: with `=` it took any index that begins with the tenant while the
/// table was new, and read all runs of the tenant for each name.
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

/// What the commands of a batch need, without duplicates. New tenants have nothing to read.
struct BatchReads<'e> {
    /// In the order in which all batches lock runs.
    runs: Vec<RunRead<'e>>,
    patterns: Vec<PatternKey>,
}

struct RunRead<'e> {
    tenant: i64,
    run_id: &'e RunId,
    may_create: bool,
    last_failure: bool,
}

impl<'e> BatchReads<'e> {
    fn of(all: impl Iterator<Item = &'e Prefetch>, names: &TenantIds) -> Self {
        let (mut runs, mut patterns) = (Vec::new(), Vec::new());
        for prefetch in all {
            let Some(at) = &prefetch.run else { continue };
            let (Some(tenant), run_id) = (names.number(&at.tenant), &at.run_id) else { continue };
            runs.push(RunRead { tenant, run_id, may_create: prefetch.may_create, last_failure: prefetch.last_failure });
            patterns.extend(prefetch.fingerprint.map(|(hash, version)| (tenant, hash, version)));
        }
        runs.sort_unstable_by(|a, b| (a.tenant, a.run_id).cmp(&(b.tenant, b.run_id)));
        runs.dedup_by(|next, kept| {
            let same = (next.tenant, next.run_id) == (kept.tenant, kept.run_id);
            if same {
                kept.may_create |= next.may_create;
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

async fn read(session: &PgSession, rows: usize, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Read {
    if rows == 0 {
        return Ok(Vec::new());
    }
    debug_assert!(session.statements.knows(sql), "not prepared: {sql}");
    let statement = session.statements.prepared(&session.client, sql).await?;
    session.client.query(&statement, values).await
}

impl PgRows<'_> {
    /// Opens the transaction, reads and locks what its commands need, and returns the time at which the locks are held.
    pub(crate) fn begin<'e>(&mut self, prefetch: impl Iterator<Item = &'e Prefetch>) -> Result<i64> {
        let reads = BatchReads::of(prefetch, self.names);
        prepare(self.connection)?;
        let mut tenants: Vec<i64> = reads.runs.iter().map(|run| run.tenant).collect();
        tenants.dedup();
        let opened = self.connection.wait(open(&self.connection.session, &reads, &tenants));
        let opened = self.connection.noted(opened)?;
        for row in &opened.runs {
            self.unit.take_in(row)?;
        }
        self.take_patterns(&reads, &opened.patterns)?;
        for row in opened.numbers.iter().rev() {
            self.unit.numbers.push(number(row, 0)?);
        }
        (self.breakers.read, self.breakers.tenants) = (Some(opened.breakers), tenants);
        let again = self.note_found_runs(&reads);
        self.take_last_failures(&again)?;
        Ok(opened.now_ms)
    }

    fn take_patterns(&mut self, reads: &BatchReads<'_>, rows: &[Row]) -> Result<()> {
        let known = &mut self.unit.patterns;
        known.extend(reads.patterns.iter().map(|key| (*key, None)));
        for row in rows {
            let version = u8::try_from(number(row, KNOWN_COUNT + 2)?)
                .map_err(|_| Error::Unexpected("a fingerprint's version".into()))?;
            let key = (number(row, KNOWN_COUNT)?, number(row, KNOWN_COUNT + 1)?.cast_unsigned(), version);
            known.insert(key, Some(CachedPattern::read(row)?));
        }
        Ok(())
    }

    /// Notes which runs exist; returns those whose last failure is needed.
    fn note_found_runs(&mut self, reads: &BatchReads<'_>) -> Vec<i64> {
        let mut again = Vec::new();
        for RunRead { tenant, run_id, last_failure, .. } in &reads.runs {
            // A run that is not there now is not there for this batch: if another batch inserts it first, this one fails
            // at its own insert and is retried.
            let found = self.unit.named.entry((*tenant, (*run_id).clone())).or_insert(None);
            if let (Some(run), true) = (*found, *last_failure) {
                again.push(run);
            }
        }
        again
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

/// Prepares the statements first: while one is being prepared, others would overtake it.
pub(crate) fn prepare(connection: &mut WriterConnection) -> Result<()> {
    let all = [RUNS.as_str(), PATTERNS.as_str(), NOW, NEXT_NUMBERS, GENERATION, CONCERNED.as_str()];
    let prepared = connection.wait(connection.session.statements.prepare_all(&connection.session.client, "reads", all));
    connection.noted(prepared)
}

async fn open(
    session: &PgSession,
    reads: &BatchReads<'_>,
    tenants: &Vec<i64>,
) -> std::result::Result<Opened, tokio_postgres::Error> {
    let BatchReads { runs, patterns } = reads;
    let run_tenants: Vec<i64> = runs.iter().map(|run| run.tenant).collect();
    let run_ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    let pattern_tenants: Vec<i64> = patterns.iter().map(|(tenant, ..)| *tenant).collect();
    let hashes: Vec<i64> = patterns.iter().map(|(_, hash, _)| hash.cast_signed()).collect();
    let versions: Vec<i64> = patterns.iter().map(|(.., version)| i64::from(*version)).collect();
    let of_runs: [&(dyn ToSql + Sync); 2] = [&run_tenants, &run_ids];
    let of_patterns: [&(dyn ToSql + Sync); 3] = [&pattern_tenants, &hashes, &versions];
    let no_names: [&[u8]; 0] = [];
    let of_breakers: [&(dyn ToSql + Sync); 2] = [tenants, &no_names.as_slice()];
    // One for each run that may be new: an unused number is no loss, another round trip is.
    let new_runs = runs.iter().filter(|run| run.may_create).count();
    let of_numbers: [&(dyn ToSql + Sync); 1] = [&signed(new_runs)];
    let opened = tokio::join!(
        biased;
        session.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
        read(session, runs.len(), &RUNS, &of_runs),
        read(session, patterns.len(), &PATTERNS, &of_patterns),
        read(session, 1, NOW, &[]),
        read(session, 1, GENERATION, &[]),
        read(session, 1, &CONCERNED, &of_breakers),
        read(session, new_runs, NEXT_NUMBERS, &of_numbers),
    );
    // In order: the first failure is the cause of the others.
    opened.0?;
    let (runs, patterns, now) = (opened.1?, opened.2?, opened.3?);
    let now_ms = now.first().map_or(0, |row| row.get(0));
    Ok(Opened { runs, patterns, breakers: (opened.4?, opened.5?), numbers: opened.6?, now_ms })
}

/// Numbers of tenants that this writer has used. They never change within one database.
#[derive(Default)]
pub(crate) struct TenantIds(Map<Tenant, i64>);

/// Clients choose names: beyond this the cache is cleared.
const TENANTS_MAX: usize = 20_000;

/// Tenants of a batch whose numbers are not cached.
#[derive(Default)]
pub(crate) struct UnknownTenants<'e> {
    all: HashSet<&'e str>,
    /// Those that its commands may create.
    made: HashSet<&'e str>,
}

impl UnknownTenants<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Creates tenants in a transaction of their own, since two batches that create the same ones in different orders would
    /// deadlock. Returns the names and numbers of all.
    pub(crate) async fn read(&self, session: &PgSession) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let [all, made] = [&self.all, &self.made].map(|names| names.iter().copied().collect::<Vec<&str>>());
        if !made.is_empty() {
            let sql = "INSERT INTO tenants (name) SELECT name FROM unnest($1::text[]) AS new(name)
                 WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.name = new.name) ORDER BY name
                 ON CONFLICT (name) DO NOTHING";
            session.client.execute(sql, &[&made]).await?;
        }
        session.client.query("SELECT name, id FROM tenants WHERE name = ANY($1)", &[&all]).await
    }
}

impl TenantIds {
    pub(crate) fn number(&self, tenant: &Tenant) -> Option<i64> {
        self.0.get(tenant).copied()
    }

    pub(crate) fn unknown<'e>(&self, all: impl Iterator<Item = &'e Prefetch>) -> UnknownTenants<'e> {
        let mut unknown = UnknownTenants::default();
        for prefetch in all {
            let Some(RunRef { tenant, .. }) = &prefetch.run else { continue };
            if self.0.contains_key(tenant) {
                continue;
            }
            unknown.all.insert(tenant.as_str());
            if prefetch.may_create {
                unknown.made.insert(tenant.as_str());
            }
        }
        unknown
    }

    pub(crate) fn remember(&mut self, rows: &[Row]) -> Result<()> {
        if self.0.len() > TENANTS_MAX {
            self.0.clear();
        }
        for row in rows {
            self.0.insert(parsed(row, 0, "tenant")?, number(row, 1)?);
        }
        Ok(())
    }
}
