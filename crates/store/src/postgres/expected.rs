//! What the commands of a batch are going to ask for, read for all of them at once before the first one runs. A command
//! that asks for more gets it there and then; this only saves the way.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use redrive_core::ids::{RunId, Tenant};
use redrive_core::lifecycle::Outcome;
use redrive_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::breaker_rows::{ALL as BREAKERS, GENERATION};
use super::columns::{number, owned};
use super::connection::Session;
use super::rows::PgRows;
use super::run_rows::NEXT_NUMBERS;
use super::sheet::COLUMNS;
use super::time::NOW;
use crate::commands::attempts::{KEPT, Kept};
use crate::commands::life::position;
use crate::commands::numbers::NUMBER_BITS;
use crate::commands::patterns::{KNOWN, KnownPattern};
use crate::error::{Error, Result};
use crate::model::{FailedAttempt, Report, RunRef, Start};

/// What one command expects.
#[derive(Debug, Clone, Default)]
pub(super) struct Expects {
    run: Option<(Tenant, RunId)>,
    /// The run may be new, and so may be its tenant.
    makes: bool,
    fingerprint: Option<(u64, u8)>,
    /// A report that may be the last failure again.
    last_failure: bool,
}

impl Expects {
    pub(super) fn run(at: &RunRef) -> Self {
        Self { run: Some((at.tenant.clone(), at.run_id.clone())), ..Self::default() }
    }

    pub(super) fn report(report: &Report) -> Self {
        Self {
            run: Some((report.run.tenant.clone(), report.run.run_id.clone())),
            makes: true,
            fingerprint: Some((report.failed.fingerprint.hash, report.failed.fingerprint.version)),
            last_failure: report.failed.attempt.is_none(),
        }
    }

    pub(super) fn start(start: &Start) -> Self {
        let run = Some((start.run.tenant.clone(), start.run.run_id.clone()));
        Self { run, makes: true, ..Self::default() }
    }

    pub(super) fn fail(at: &RunRef, failed: &FailedAttempt) -> Self {
        Self { fingerprint: Some((failed.fingerprint.hash, failed.fingerprint.version)), ..Self::run(at) }
    }

    /// Which of so many lines it goes to: the same run always to the same, so that its commands keep their order and do not
    /// wait for each other.
    pub(super) fn line(&self, lines: usize) -> usize {
        use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&self.run);
        usize::try_from(hash % u64::try_from(lines.max(1)).unwrap_or(1)).unwrap_or(0)
    }
}

/// Locked in one order over all batches, so that no two wait for each other. A name is asked for as the first of a range
/// of one: the planner then has no choice but the index of names. Asked for as equal, it took any index that begins with
/// the tenant while the table was new, and read all of the tenant's runs for each name.
static RUNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {columns} FROM (
             SELECT id AS q_tenant, q_run FROM unnest($1::text[], $2::text[]) AS names(q_name, q_run)
                 JOIN tenants ON name = q_name ORDER BY id, q_run COLLATE \"C\" OFFSET 0) AS q
         CROSS JOIN LATERAL (
             SELECT {columns} FROM runs WHERE tenant = q_tenant AND run_id >= q_run AND run_id <= q_run
             ORDER BY run_id LIMIT 1 FOR UPDATE) AS run",
        columns = *COLUMNS
    )
});
const TENANTS: &str = "SELECT name, id FROM tenants WHERE name = ANY($1)";
static PATTERNS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {KNOWN}, a.tenant, a.fp_hash, a.fp_version
         FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS q(name, hash, version)
             JOIN tenants t ON t.name = q.name
             JOIN pattern_alias a ON a.tenant = t.id AND a.fp_hash = q.hash AND a.fp_version = q.version
             JOIN patterns own ON own.id = a.pattern
             JOIN patterns head ON head.id = coalesce(own.merged_into, own.id)"
    )
});
/// How many columns of a pattern come before its key.
const KNOWN_COUNT: usize = 9;
static LAST_FAILURES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT last.* FROM unnest($1::bigint[]) AS q(run) CROSS JOIN LATERAL (
             SELECT {KEPT} FROM attempts WHERE id BETWEEN (q.run << {NUMBER_BITS}) AND
                 ((q.run << {NUMBER_BITS}) | ((1 << {NUMBER_BITS}) - 1)) AND outcome = $2
             ORDER BY id DESC LIMIT 1) AS last"
    )
});

/// What all commands of a batch expect, each thing once.
#[derive(Default)]
struct Wanted {
    tenants: Vec<String>,
    names: (Vec<String>, Vec<String>),
    patterns: (Vec<String>, Vec<i64>, Vec<i64>),
    makes: HashSet<(String, String)>,
    last_failures: HashSet<(String, String)>,
}

impl Wanted {
    fn of<'a>(all: impl Iterator<Item = &'a Expects>) -> Self {
        let (mut runs, mut tenants, mut patterns) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut wanted = Self::default();
        for expects in all {
            let Some((tenant, run_id)) = &expects.run else { continue };
            if tenants.insert(tenant.as_str()) {
                wanted.tenants.push(tenant.as_str().to_owned());
            }
            if runs.insert((tenant.as_str(), run_id.as_str())) {
                wanted.names.0.push(tenant.as_str().to_owned());
                wanted.names.1.push(run_id.as_str().to_owned());
            }
            let name = || (tenant.as_str().to_owned(), run_id.as_str().to_owned());
            if expects.makes {
                wanted.makes.insert(name());
            }
            if expects.last_failure {
                wanted.last_failures.insert(name());
            }
            if let Some((hash, version)) = expects.fingerprint
                && patterns.insert((tenant.as_str(), hash, version))
            {
                wanted.patterns.0.push(tenant.as_str().to_owned());
                wanted.patterns.1.push(hash.cast_signed());
                wanted.patterns.2.push(i64::from(version));
            }
        }
        wanted
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
    pub(super) fn begin<'e>(&mut self, expects: impl Iterator<Item = &'e Expects>) -> Result<i64> {
        let wanted = Wanted::of(expects);
        let opened = self.line.wait(open(&self.line.session, &wanted));
        let opened = self.line.noted(opened)?;
        for row in &opened.tenants {
            self.sheet.tenants.insert(owned(row, 0)?, number(row, 1)?);
        }
        for row in &opened.runs {
            self.sheet.read(row)?;
        }
        self.take_patterns(&wanted, &opened.patterns)?;
        for row in opened.numbers.iter().rev() {
            self.sheet.numbers.push(number(row, 0)?);
        }
        self.breakers.read = Some(opened.breakers);
        let again = self.what_is_there(&wanted);
        self.take_last_failures(&again)?;
        Ok(opened.now_ms)
    }

    fn take_patterns(&mut self, wanted: &Wanted, rows: &[Row]) -> Result<()> {
        let known = &mut self.sheet.patterns;
        for ((name, hash), version) in wanted.patterns.0.iter().zip(&wanted.patterns.1).zip(&wanted.patterns.2) {
            if let (Some(tenant), Ok(version)) = (self.sheet.tenants.get(name), u8::try_from(*version)) {
                known.insert((*tenant, hash.cast_unsigned(), version), None);
            }
        }
        for row in rows {
            let version = u8::try_from(number(row, KNOWN_COUNT + 2)?)
                .map_err(|_| Error::Unexpected("a fingerprint's version".into()))?;
            let key = (number(row, KNOWN_COUNT)?, number(row, KNOWN_COUNT + 1)?.cast_unsigned(), version);
            known.insert(key, Some(KnownPattern::read(row)?));
        }
        Ok(())
    }

    /// Which runs may have been reported before.
    fn what_is_there(&mut self, wanted: &Wanted) -> Vec<i64> {
        let mut again = Vec::new();
        for name in wanted.names.0.iter().cloned().zip(wanted.names.1.iter().cloned()) {
            let tenant = self.sheet.tenants.get(&name.0).copied();
            let found = tenant.and_then(|tenant| self.sheet.named.get(&(tenant, name.1.clone())).copied().flatten());
            match (found, tenant) {
                (Some(run), _) if wanted.last_failures.contains(&name) => again.push(run),
                // One that was not there when its name was asked for is not there for this batch; whoever makes it
                // meanwhile is met at the insert.
                (None, Some(tenant)) => drop(self.sheet.named.insert((tenant, name.1), None)),
                (Some(_) | None, _) => {}
            }
        }
        again
    }

    fn take_last_failures(&mut self, again: &[i64]) -> Result<()> {
        if again.is_empty() {
            return Ok(());
        }
        let failed = position(Outcome::ALL, &Outcome::Failed);
        let mut found: HashMap<i64, Kept> = HashMap::new();
        for row in self.ask(&LAST_FAILURES, &[&again, &failed])? {
            found.insert(number(&row, 0)? >> NUMBER_BITS, Kept::read(&row)?);
        }
        for run in again {
            self.sheet.last_failures.insert(*run, found.remove(run));
        }
        Ok(())
    }
}

struct Opened {
    tenants: Vec<Row>,
    runs: Vec<Row>,
    patterns: Vec<Row>,
    breakers: (Vec<Row>, Vec<Row>),
    numbers: Vec<Row>,
    now_ms: i64,
}

async fn open(session: &Session, wanted: &Wanted) -> std::result::Result<Opened, tokio_postgres::Error> {
    // Prepared before the first is sent: nothing may overtake the beginning.
    let all = [TENANTS, &RUNS, &PATTERNS, NOW, NEXT_NUMBERS, GENERATION, &BREAKERS];
    session.statements.prepare_all(&session.client, "reads", all).await?;
    let (names, patterns) = (&wanted.names, &wanted.patterns);
    let of_tenants: [&(dyn ToSql + Sync); 1] = [&wanted.tenants];
    let of_runs: [&(dyn ToSql + Sync); 2] = [&names.0, &names.1];
    let of_patterns: [&(dyn ToSql + Sync); 3] = [&patterns.0, &patterns.1, &patterns.2];
    // For as many runs as may be new: a number that is not used is no loss, another way to the database is.
    let makes = i64::try_from(wanted.makes.len()).unwrap_or(0);
    let of_numbers: [&(dyn ToSql + Sync); 1] = [&makes];
    let opened = tokio::join!(
        biased;
        session.client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
        read(session, wanted.tenants.len(), TENANTS, &of_tenants),
        read(session, names.0.len(), &RUNS, &of_runs),
        read(session, patterns.0.len(), &PATTERNS, &of_patterns),
        read(session, 1, NOW, &[]),
        read(session, 1, GENERATION, &[]),
        read(session, 1, &BREAKERS, &[]),
        read(session, wanted.makes.len(), NEXT_NUMBERS, &of_numbers),
    );
    // In their order: what failed first says why.
    opened.0?;
    let (tenants, runs, patterns, now) = (opened.1?, opened.2?, opened.3?, opened.4?);
    let now_ms = now.first().map_or(0, |row| row.get(0));
    Ok(Opened { tenants, runs, patterns, breakers: (opened.5?, opened.6?), numbers: opened.7?, now_ms })
}

/// Makes tenants that are named for the first time, in a transaction of their own: a name is no secret, and two batches that
/// make the same ones in another order would wait for each other.
pub(super) async fn make_tenants(
    session: &Session,
    tenants: &[String],
    now: Timestamp,
) -> std::result::Result<(), tokio_postgres::Error> {
    let sql = "INSERT INTO tenants (name, created_at) SELECT name, $2 FROM unnest($1::text[]) AS new(name)
         WHERE NOT EXISTS (SELECT 1 FROM tenants WHERE tenants.name = new.name) ORDER BY name
         ON CONFLICT (name) DO NOTHING";
    session.client.execute(sql, &[&tenants, &now.as_millis()]).await.map(drop)
}

/// Tenants that a line has made, or found made.
#[derive(Default)]
pub(super) struct Names(HashSet<String>);

/// Names are strangers' to choose: past so many the memory begins anew.
const NAMES_MAX: usize = 20_000;

impl Names {
    /// Those that these commands name for the first time, and may make.
    pub(super) fn unseen<'e>(&self, all: impl Iterator<Item = &'e Expects>) -> Vec<String> {
        let made = all.filter(|expects| expects.makes).filter_map(|expects| expects.run.as_ref());
        let unseen: HashSet<&str> =
            made.map(|(tenant, _)| tenant.as_str()).filter(|name| !self.0.contains(*name)).collect();
        unseen.into_iter().map(str::to_owned).collect()
    }

    pub(super) fn saw(&mut self, tenants: Vec<String>) {
        if self.0.len() > NAMES_MAX {
            self.0.clear();
        }
        self.0.extend(tenants);
    }
}
