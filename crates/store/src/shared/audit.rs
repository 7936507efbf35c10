//! Reads of the audit log: pages for callers, and walks over the whole chain for checks and exports.

use redrive_core::audit::{AuditRecord, ChainHash, ChainPoint, ChainedEntry, Tampered, Verified, Verifier};
use redrive_core::text::Text;
use redrive_core::time::Timestamp;
use redrive_core::wire::{AuditAnswer, AuditEntry, AuditHead, RawJson};

use super::columns::{Columns, bytes, json, number, owned, owned_or_none, time, unexpected};
use super::cursor::{seal_numbers, unseal_numbers};
use super::reader::{SqlParams, SqlReader};
use super::runs::PAGE_MAX;
use redrive_engine::audit::{AuditCall, AuditFilter, AuditMark, run_subject};
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::TenantScope;

/// The columns of [`entry`].
pub(crate) const COLUMNS: &str =
    "seq, at, actor, role, action, tenant, subject, before, after, reason, operation, source, request_id, hash";
/// Entries that one page examines at most.
const EXAMINED_MAX: usize = 10_000;
/// Entries that one statement of a walk reads.
const WALK_CHUNK: i64 = 1_000;

pub(crate) fn entry(row: &impl Columns) -> Result<ChainedEntry> {
    let record = AuditRecord {
        at: time(row, 1)?,
        actor: owned(row, 2)?,
        role: owned_or_none(row, 3)?,
        action: owned(row, 4)?,
        tenant: owned_or_none(row, 5)?,
        subject: owned(row, 6)?,
        before: owned_or_none(row, 7)?,
        after: owned_or_none(row, 8)?,
        reason: owned_or_none(row, 9)?,
        operation: owned_or_none(row, 10)?,
        from: owned_or_none(row, 11)?,
        request_id: owned_or_none(row, 12)?,
    };
    Ok(ChainedEntry { seq: number(row, 0)?, record, hash: hash(row, 13)? })
}

fn hash(row: &impl Columns, at: usize) -> Result<ChainHash> {
    Ok(ChainHash(bytes(row, at)?.try_into().map_err(|_| unexpected("audit hash"))?))
}

/// The columns of [`point`].
pub(crate) const POINT: &str = "seq, hash, at";

pub(crate) fn point(row: &impl Columns) -> Result<ChainPoint> {
    Ok(ChainPoint { seq: number(row, 0)?, hash: hash(row, 1)?, at: time(row, 2)? })
}

pub(crate) async fn mark(reader: &impl SqlReader, mark: AuditMark) -> Result<Option<ChainPoint>> {
    let sql = format!("SELECT {POINT} FROM audit_marks WHERE name = $1");
    reader.row(&sql, &[mark.as_str().into()]).await?.read(point)
}

/// `GET /v1/audit`, newest first.
pub(crate) async fn list(reader: &impl SqlReader, scope: &TenantScope, call: &AuditCall) -> Result<AuditAnswer> {
    let head = mark(reader, AuditMark::Head).await?.unwrap_or_default();
    let first = mark(reader, AuditMark::Checkpoint).await?.unwrap_or_default().seq + 1;
    let question = format!("audit {scope:?} {:?} {}", call.filter, call.shows_chain);
    let limit = usize::try_from(call.limit.clamp(1, PAGE_MAX)).unwrap_or(1);
    let mut place = PagePlace::of(reader, &question, call, (first, head.seq)).await?;
    if let Some(until) = call.filter.until {
        place.last = place.last.min(first_from(reader, until.plus_ms(1), (first, head.seq)).await? - 1);
    }
    let from = match call.filter.since {
        Some(since) => first_from(reader, since, (first, head.seq)).await?,
        None => first,
    };
    let range = IndexedRange::of(scope, &call.filter);
    let (mut entries, mut examined, mut more) = (Vec::new(), 0, true);
    'page: while examined < EXAMINED_MAX {
        let chunk = range.read(reader, (from, place.last), limit + 1).await?;
        let is_last = chunk.len() <= limit;
        for found in chunk {
            if place.skips(&found) {
                continue;
            }
            let matches = range.matches(&found.record);
            if matches && entries.len() == limit {
                break 'page;
            }
            examined += 1;
            place.passed(&found);
            if matches {
                entries.push(view(found, call.shows_chain)?);
            }
        }
        if is_last {
            more = false;
            break;
        }
    }
    let next_cursor = more.then(|| place.cursor(&question, call.shows_chain));
    let head = call.shows_chain.then(|| AuditHead { seq: head.seq, hash: head.hash.to_string() });
    Ok(AuditAnswer { entries, next_cursor, head })
}

/// Where a page continues: before `last`. A tenant's cursor holds a time and how many of the tenant's entries at that time
/// were passed, because the place in the chain tells of other tenants.
struct PagePlace {
    last: i64,
    at: Timestamp,
    /// Entries at `at` that earlier pages have passed.
    skip: i64,
    passed: i64,
}

impl PagePlace {
    async fn of(reader: &impl SqlReader, question: &str, call: &AuditCall, (first, last): (i64, i64)) -> Result<Self> {
        let at_end = Self { last, at: Timestamp::default(), skip: 0, passed: 0 };
        let Some(cursor) = &call.cursor else { return Ok(at_end) };
        if call.shows_chain {
            let [before] = unseal_numbers(question, cursor)?;
            return Ok(Self { last: last.min(before), ..at_end });
        }
        let [at, passed] = unseal_numbers(question, cursor)?;
        let at = Timestamp::from_millis(at);
        let last = first_from(reader, at.plus_ms(1), (first, last)).await? - 1;
        Ok(Self { last, at, skip: passed, passed })
    }

    /// Whether an earlier page has passed the entry.
    fn skips(&mut self, entry: &ChainedEntry) -> bool {
        let skips = self.skip > 0 && entry.record.at == self.at;
        if skips {
            self.skip -= 1;
            self.last = entry.seq - 1;
        } else {
            self.skip = 0;
        }
        skips
    }

    fn passed(&mut self, entry: &ChainedEntry) {
        self.passed = if entry.record.at == self.at { self.passed + 1 } else { 1 };
        self.at = entry.record.at;
        self.last = entry.seq - 1;
    }

    fn cursor(&self, question: &str, shows_chain: bool) -> String {
        match shows_chain {
            true => seal_numbers(question, &[self.last]),
            false => seal_numbers(question, &[self.at.as_millis(), self.passed]),
        }
    }
}

/// The part of an index that a page reads; what the index can't tell is tested on each entry.
struct IndexedRange<'a> {
    filter: &'a AuditFilter,
    /// Columns with their values. A tenant's page reads no entry of another, so that its cursor counts none.
    equal: Vec<(&'static str, String)>,
}

impl<'a> IndexedRange<'a> {
    fn of(scope: &TenantScope, filter: &'a AuditFilter) -> Self {
        let tenant = match scope {
            TenantScope::One(tenant) => Some(("tenant", tenant.as_str().to_owned())),
            TenantScope::All => None,
        };
        let named = |column, value: &Option<String>| value.clone().map(|value| (column, value));
        let subject = filter.run.as_ref().map(|run| ("subject", run_subject(run)));
        let equal = match (tenant, subject) {
            // Few other tenants have a run of the same name.
            (tenant, Some(subject)) => [Some(subject), tenant].into_iter().flatten().collect(),
            (Some(tenant), None) => vec![tenant],
            (None, None) => {
                let operation = named("operation", &filter.operation);
                let by = operation.or(named("actor", &filter.actor)).or(named("action", &filter.action));
                by.into_iter().collect()
            }
        };
        Self { filter, equal }
    }

    async fn read<R: SqlReader>(&self, reader: &R, (from, last): (i64, i64), most: usize) -> Result<Vec<ChainedEntry>> {
        let mut params = SqlParams::default();
        let mut conditions = format!("seq >= {} AND seq <= {}", params.add(from), params.add(last));
        for (column, value) in &self.equal {
            conditions = format!("{column} = {} AND {conditions}", params.add(value.as_str()));
        }
        let hint = self.equal.first().map_or_else(String::new, |(column, _)| R::index_hint(&format!("audit_{column}")));
        let sql = format!("SELECT {COLUMNS} FROM audit {hint} WHERE {conditions} ORDER BY seq DESC LIMIT {most}");
        reader.rows(&sql, params.values()).await?.read(entry)
    }

    fn matches(&self, record: &AuditRecord) -> bool {
        let AuditFilter { since: _, until: _, actor, action, run, operation } = self.filter;
        let same = |wanted: &Option<String>, found: Option<&String>| wanted.is_none() || wanted.as_ref() == found;
        same(actor, Some(&record.actor))
            && same(action, Some(&record.action))
            && same(operation, record.operation.as_ref())
            && run.as_ref().is_none_or(|run| record.subject == run_subject(run))
    }
}

/// The first entry at this time or later, by bisection: time does not go back in the chain. One past `last` if there is none.
async fn first_from(reader: &impl SqlReader, at: Timestamp, (first, last): (i64, i64)) -> Result<i64> {
    let (mut low, mut high) = (first, last + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let found =
            reader.row("SELECT at FROM audit WHERE seq = $1", &[middle.into()]).await?.read(|row| time(row, 0))?;
        match found {
            Some(found) if found >= at => high = middle,
            // A missing entry is for `audit verify`; a list shows what is there.
            Some(_) | None => low = middle + 1,
        }
    }
    Ok(low)
}

fn view(entry: ChainedEntry, shows_chain: bool) -> Result<AuditEntry> {
    let ChainedEntry { seq, record, hash } = entry;
    let object = |text: Option<String>| text.map(|text| json::<RawJson>(&text, "audit")).transpose();
    let reason = record.reason.map(|token| Text::from_token(token).ok_or_else(|| unexpected("audit reason")));
    Ok(AuditEntry {
        seq: shows_chain.then_some(seq),
        at: record.at,
        actor: record.actor,
        role: record.role,
        action: record.action,
        tenant: record.tenant,
        subject: record.subject,
        before: object(record.before)?,
        after: object(record.after)?,
        reason: reason.transpose()?,
        operation: record.operation,
        from: record.from,
        request_id: record.request_id,
        hash: shows_chain.then(|| hash.to_string()),
    })
}

/// Checks the whole chain, and shows each entry that is right to `each`. The reader sees one state of the database.
pub(crate) async fn verify(
    reader: &impl SqlReader,
    outside: Vec<ChainPoint>,
    mut each: impl FnMut(&ChainedEntry) -> Result<()>,
) -> Result<std::result::Result<Verified, Tampered>> {
    let checkpoint = mark(reader, AuditMark::Checkpoint).await?.unwrap_or_default();
    let head = mark(reader, AuditMark::Head).await?;
    let mut verifier = match Verifier::new(checkpoint, outside) {
        Ok(verifier) => verifier,
        Err(tampered) => return Ok(Err(tampered)),
    };
    let sql = format!("SELECT {COLUMNS} FROM audit WHERE seq > $1 ORDER BY seq LIMIT {WALK_CHUNK}");
    loop {
        let read = reader.rows(&sql, &[verifier.last().seq.into()]).await?;
        let chunk = read.read(|row| Ok((number(row, 0)?, entry(row).ok())))?;
        let count = chunk.len();
        for (seq, entry) in chunk {
            let Some(entry) = entry else { return Ok(Err(verifier.unreadable(seq))) };
            if let Err(tampered) = verifier.take(&entry) {
                return Ok(Err(tampered));
            }
            each(&entry)?;
        }
        if i64::try_from(count).is_ok_and(|count| count < WALK_CHUNK) {
            return Ok(verifier.finish(head));
        }
    }
}
