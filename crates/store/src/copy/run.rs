//! The copy: batch by batch, then a comparison of the row counts.

use redrive_core::time::Timestamp;

use super::cell::{Cells, TableColumn};
use super::progress::{Copied, Progress, TableProgress};
use super::store::{CopyStore, StoreAddress};
use super::tables::{CopiedTable, TABLES};
use redrive_engine::error::{Error, PortResult as Result};

/// Rows per commit; few, because payloads may be large.
const BATCH_ROWS: usize = 1_000;

/// Copies a store into a new one, or resumes an interrupted copy.
pub async fn copy(
    from: &StoreAddress,
    to: &StoreAddress,
    now: Timestamp,
    mut report: impl FnMut(Progress),
) -> Result<Copied> {
    if from == to {
        return Err(Error::Unexpected("a store can't be copied into itself".into()).into());
    }
    let mut source = CopyStore::open(from, false).await?;
    let mut target = CopyStore::open(to, true).await?;
    source.settle(now).await?;
    let name = source.name();
    let mut all = target.progress(&name).await?;
    let resumed = !all.is_empty();
    let mut of = 0;
    for table in TABLES {
        of += source.count(table).await?;
    }
    let mut rows = all.values().map(|table| table.rows).sum();
    for table in TABLES {
        let progress = all.remove(table.name).unwrap_or_default();
        copy_table(&source, &mut target, &name, table, progress, |batch| {
            rows += batch;
            report(Progress { table: table.name, rows, of });
        })
        .await?;
    }
    let tables = same_counts(&source, &target).await?;
    let (numbers, last_change) = source.last_numbers().await?;
    target.finish(&numbers, last_change).await?;
    Ok(Copied { tables, resumed })
}

async fn copy_table(
    source: &CopyStore,
    target: &mut CopyStore,
    name: &str,
    table: &CopiedTable,
    mut progress: TableProgress,
    mut report: impl FnMut(u64),
) -> Result<()> {
    let columns = match_columns(source, target, table).await?;
    loop {
        let rows = source.read(table, &columns.from, progress.key.as_ref(), BATCH_ROWS).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        let batch = u64::try_from(rows.len()).unwrap_or(0);
        progress = TableProgress { key: Some(key_of(table, &columns.from, last)), rows: progress.rows + batch };
        target.write(name, table, &columns.to, &rows, &progress).await?;
        report(batch);
        if rows.len() < BATCH_ROWS {
            return Ok(());
        }
    }
}

/// The columns of a table, in the same order for both stores.
struct MatchedColumns {
    from: Vec<TableColumn>,
    to: Vec<TableColumn>,
}

/// In the target's order. A column that only one store has means that the schemas differ.
async fn match_columns(source: &CopyStore, target: &CopyStore, table: &CopiedTable) -> Result<MatchedColumns> {
    let (theirs, to) = (source.columns(table).await?, target.columns(table).await?);
    let find = |column: &TableColumn| theirs.iter().find(|theirs| theirs.name == column.name).cloned();
    let from: Vec<TableColumn> = to.iter().filter_map(find).collect();
    if from.len() != to.len() || theirs.len() != to.len() {
        return Err(Error::Unexpected(format!(
            "the tables {} of the two stores differ: their schemas have different versions",
            table.name
        ))
        .into());
    }
    Ok(MatchedColumns { from, to })
}

fn key_of(table: &CopiedTable, columns: &[TableColumn], row: &Cells) -> Cells {
    let at = |name: &&str| columns.iter().position(|column| column.name == **name);
    table.key.iter().filter_map(at).filter_map(|at| row.get(at).cloned()).collect()
}

/// Fails at the first table whose number of rows differs.
async fn same_counts(source: &CopyStore, target: &CopyStore) -> Result<Vec<(&'static str, u64)>> {
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let (from, to) = (source.count(table).await?, target.count(table).await?);
        if from != to {
            return Err(Error::Unexpected(format!(
                "{} has {from} rows in the source and {to} in the target: did a server run on the source meanwhile?",
                table.name
            ))
            .into());
        }
        tables.push((table.name, to));
    }
    Ok(tables)
}
