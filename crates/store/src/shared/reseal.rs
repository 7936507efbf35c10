//! The pass over sealed tables: which columns they have, and one page of it.

use std::sync::Arc;

use super::columns::{Columns, bytes, number, owned};
use super::reader::SqlParam;
use super::vault::{SealingWriter, active_key};
use redrive_engine::Map;
use redrive_engine::error::{Error, PortResult as Result};
use redrive_engine::vault::reseal::ResealedPage;
use redrive_engine::vault::{DataKey, SEAL_MARK_BYTES, SealedCell, SealedColumn, key_of, seal};

/// Rows whose marks a page reads at most.
const PAGE_ROWS: i64 = 500;
/// A page ends after the row with which it has sealed this much.
const PAGE_BYTES: usize = 1 << 20;

/// A table with sealed columns, and what names its rows.
pub(crate) struct SealedTable {
    pub(crate) name: &'static str,
    /// The key's columns: the order of the pass.
    first: &'static str,
    second: Option<&'static str>,
    tenant: &'static str,
    numbers: [&'static str; 3],
    texts: [&'static str; 2],
    pub(crate) columns: &'static [SealedColumn],
}

const NONE: &str = "CAST(0 AS BIGINT)";
const NO_TEXTS: [&str; 2] = ["''", "''"];

const fn of_run(
    name: &'static str,
    (first, second): (&'static str, Option<&'static str>),
    tenant: &'static str,
    numbers: [&'static str; 3],
    columns: &'static [SealedColumn],
) -> SealedTable {
    SealedTable { name, first, second, tenant, numbers, texts: NO_TEXTS, columns }
}

/// In the order of the pass. The cursor is a position in this list: a new table goes to its end.
pub(crate) const SEALED_TABLES: &[SealedTable] = &[
    of_run(
        "payloads",
        ("run", Some("revision")),
        "(SELECT tenant FROM runs WHERE runs.id = payloads.run)",
        ["run", "revision", NONE],
        &[SealedColumn::PayloadAbout, SealedColumn::PayloadBody],
    ),
    of_run(
        "attempts",
        ("run", Some("attempt")),
        "(SELECT tenant FROM runs WHERE runs.id = attempts.run)",
        ["run", "attempt", NONE],
        &[SealedColumn::AttemptBody],
    ),
    of_run(
        "late_failures",
        ("id", None),
        "(SELECT tenant FROM runs WHERE runs.id = late_failures.run)",
        ["run", "attempt", "epoch"],
        &[SealedColumn::LateFailureBody],
    ),
    of_run(
        "revisions",
        ("run", Some("revision")),
        "(SELECT tenant FROM runs WHERE runs.id = revisions.run)",
        ["run", "revision", NONE],
        &[SealedColumn::RevisionPatch],
    ),
    of_run(
        "sent",
        ("run", Some("attempt")),
        "(SELECT tenant FROM runs WHERE runs.id = sent.run)",
        ["run", "attempt", NONE],
        &[SealedColumn::SentChanges, SealedColumn::SentBody],
    ),
    of_run(
        "reviews",
        ("run", None),
        "(SELECT tenant FROM runs WHERE runs.id = reviews.run)",
        ["run", NONE, NONE],
        &[SealedColumn::ReviewRequest, SealedColumn::ReviewBody],
    ),
    SealedTable {
        name: "history",
        first: "id",
        second: None,
        tenant: "(SELECT tenant FROM runs WHERE runs.id = history.run)",
        numbers: ["run", "at", NONE],
        texts: ["event", "actor"],
        columns: &[SealedColumn::HistoryNote],
    },
    SealedTable {
        name: "steps",
        first: "id",
        second: None,
        tenant: "tenant",
        numbers: [NONE; 3],
        texts: ["run_id", "key"],
        columns: &[SealedColumn::StepCheck, SealedColumn::StepOutput],
    },
    of_run(
        "operations",
        ("id", None),
        NONE,
        ["id", NONE, NONE],
        &[SealedColumn::OperationSpec, SealedColumn::OperationSamples],
    ),
];

/// Columns of a page before the marks.
const NAMED: usize = 8;

impl SealedTable {
    /// The marks of the rows after `$1` (and `$2`).
    fn page_sql(&self) -> String {
        let ([n1, n2, n3], [t1, t2]) = (self.numbers, self.texts);
        let marks: Vec<String> =
            self.columns.iter().map(|column| format!("substr({}, 1, {SEAL_MARK_BYTES})", column.place().1)).collect();
        let (first, table, tenant, marks) = (self.first, self.name, self.tenant, marks.join(", "));
        let (second, order, after) = match self.second {
            Some(second) => (second, format!("{first}, {second}"), format!("({first}, {second}) > ($1, $2)")),
            None => (NONE, first.to_owned(), format!("{first} > $1")),
        };
        format!(
            "SELECT {first}, {second}, {tenant}, {n1}, {n2}, {n3}, {t1}, {t2}, {marks} FROM {table}
             WHERE {after} ORDER BY {order} LIMIT {PAGE_ROWS}"
        )
    }

    /// The row `$1` (and `$2`).
    fn condition(&self) -> String {
        let second = self.second.map(|second| format!(" AND {second} = $2"));
        format!("{} = $1{}", self.first, second.unwrap_or_default())
    }

    fn key_values(&self, [first, second]: [i64; 2]) -> Vec<SqlParam> {
        std::iter::once(first.into()).chain(self.second.map(|_| second.into())).collect()
    }
}

/// Seals what a page of a table holds in clear or under a retired key.
pub(crate) fn reseal_page(rows: &mut impl SealingWriter, table: usize, after: [i64; 2]) -> Result<ResealedPage> {
    let table = SEALED_TABLES.get(table).ok_or_else(|| Error::Unexpected(format!("no sealed table {table}")))?;
    let found = rows.query(&table.page_sql(), &table.key_values(after))?;
    let mut page = ResealedPage { after: None, rows: found.len(), resealed: 0, unreadable: 0 };
    let (mut sealed_bytes, mut active): (usize, Map<i64, Arc<DataKey>>) = (0, Map::default());
    let is_full = found.len() >= usize::try_from(PAGE_ROWS).unwrap_or(usize::MAX);
    for (at, row) in found.iter().enumerate() {
        let key = [number(row, 0)?, number(row, 1)?];
        // A row whose run is gone is deleted with it.
        if let Some(tenant) = row.number_or_none(2)? {
            for (position, column) in table.columns.iter().enumerate() {
                let Some(mark) = row.bytes_or_none(NAMED + position)?.filter(|mark| !mark.is_empty()) else { continue };
                let key_now = match active.get(&tenant) {
                    Some(known) => known.clone(),
                    None => active.entry(tenant).or_insert(active_key(rows, tenant)?).clone(),
                };
                if key_of(mark) == Some(key_now.id()) {
                    continue;
                }
                let (first, second) = (owned(row, 6)?, owned(row, 7)?);
                let cell = SealedCell {
                    tenant,
                    column: *column,
                    numbers: [number(row, 3)?, number(row, 4)?, number(row, 5)?],
                    texts: [&first, &second],
                };
                match reseal_cell(rows, table, key, &cell, &key_now)? {
                    Some(bytes) => (page.resealed, sealed_bytes) = (page.resealed + 1, sealed_bytes + bytes),
                    None => page.unreadable += 1,
                }
            }
        }
        if is_full || at + 1 < found.len() {
            page.after = Some(key);
        }
        if sealed_bytes >= PAGE_BYTES && page.after.is_some() {
            return Ok(page);
        }
    }
    if !is_full {
        page.after = None;
    }
    Ok(page)
}

/// The size of the value; None if it can't be opened. One that was written meanwhile is left alone.
fn reseal_cell(
    rows: &mut impl SealingWriter,
    table: &SealedTable,
    key: [i64; 2],
    cell: &SealedCell<'_>,
    data_key: &DataKey,
) -> Result<Option<usize>> {
    let (column, condition, mut values) = (cell.column.place().1, table.condition(), table.key_values(key));
    let found = rows.query(&format!("SELECT {column} FROM {} WHERE {condition}", table.name), &values)?;
    let Some(row) = found.first().filter(|row| row.bytes_or_none(0).is_ok_and(|stored| stored.is_some())) else {
        return Ok(Some(0));
    };
    let stored = bytes(row, 0)?;
    let opened = match rows.vault().open(cell, stored) {
        Ok(opened) => opened,
        Err(error) => {
            tracing::warn!(table = table.name, column, row = ?key, %error, "stored value can't be opened");
            return Ok(None);
        }
    };
    let sealed = seal(data_key, cell, &opened)?;
    let size = sealed.len();
    let [new, old] = [values.len() + 1, values.len() + 2];
    values.extend([SqlParam::Bytes(sealed), SqlParam::Bytes(stored.to_vec())]);
    let sql = format!("UPDATE {} SET {column} = ${new} WHERE {condition} AND {column} = ${old}", table.name);
    rows.execute(&sql, &values)?;
    Ok(Some(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sealed_column_is_in_the_pass_once() {
        let mut passed: Vec<SealedColumn> = Vec::new();
        for table in SEALED_TABLES {
            assert!(table.columns.iter().all(|column| column.place().0 == table.name));
            passed.extend(table.columns);
        }
        assert_eq!(passed.len(), SealedColumn::ALL.len());
        assert!(SealedColumn::ALL.iter().all(|column| passed.contains(column)));
    }
}
