//! The copy itself.

use redrive_core::time::Timestamp;

use super::ends::{End, Place};
use super::progress::{Copied, Progress, Reached};
use super::tables::{TABLES, Table};
use super::value::{Cells, Column};
use redrive_engine::error::{Error, PortResult as Result};

/// Rows of one commit. Payloads may be large, so it is few.
const PIECE_ROWS: usize = 1_000;

/// Copies all there is from one store into another that is new, or goes on with a copy that was cut short.
pub async fn copy(from: &Place, to: &Place, now: Timestamp, mut tell: impl FnMut(Progress)) -> Result<Copied> {
    if from == to {
        return Err(Error::Unexpected("a store can't be copied into itself".into()).into());
    }
    let mut source = End::open(from, false).await?;
    let mut target = End::open(to, true).await?;
    source.settle(now).await?;
    let name = source.name();
    let mut all = target.reached(&name).await?;
    let resumed = !all.is_empty();
    let mut of = 0;
    for table in TABLES {
        of += source.count(table).await?;
    }
    let mut rows = all.values().map(|reached| reached.rows).sum();
    for table in TABLES {
        let reached = all.remove(table.name).unwrap_or_default();
        copy_table(&source, &mut target, &name, table, reached, |piece| {
            rows += piece;
            tell(Progress { table: table.name, rows, of });
        })
        .await?;
    }
    let tables = same_counts(&source, &target).await?;
    let (numbers, last_change) = source.last_numbers().await?;
    target.finish(&numbers, last_change).await?;
    Ok(Copied { tables, resumed })
}

async fn copy_table(
    source: &End,
    target: &mut End,
    name: &str,
    table: &Table,
    mut reached: Reached,
    mut tell: impl FnMut(u64),
) -> Result<()> {
    let columns = shared_columns(source, target, table).await?;
    loop {
        let rows = source.read(table, &columns.from, reached.key.as_ref(), PIECE_ROWS).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        let piece = u64::try_from(rows.len()).unwrap_or(0);
        reached = Reached { key: Some(key_of(table, &columns.from, last)), rows: reached.rows + piece };
        target.write(name, table, &columns.to, &rows, &reached).await?;
        tell(piece);
        if rows.len() < PIECE_ROWS {
            return Ok(());
        }
    }
}

struct Shared {
    from: Vec<Column>,
    to: Vec<Column>,
}

/// The same columns of both, in the target's order. The schemas are twins: one that only one of them has is a mistake.
async fn shared_columns(source: &End, target: &End, table: &Table) -> Result<Shared> {
    let (theirs, to) = (source.columns(table).await?, target.columns(table).await?);
    let find = |column: &Column| theirs.iter().find(|theirs| theirs.name == column.name).cloned();
    let from: Vec<Column> = to.iter().filter_map(find).collect();
    if from.len() != to.len() || theirs.len() != to.len() {
        return Err(Error::Unexpected(format!(
            "the two stores' tables {} differ: they have other versions",
            table.name
        ))
        .into());
    }
    Ok(Shared { from, to })
}

fn key_of(table: &Table, columns: &[Column], row: &Cells) -> Cells {
    let at = |name: &&str| columns.iter().position(|column| column.name == **name);
    table.key.iter().filter_map(at).filter_map(|at| row.get(at).cloned()).collect()
}

/// Both stores have as many rows of everything, or it is said where not.
async fn same_counts(source: &End, target: &End) -> Result<Vec<(&'static str, u64)>> {
    let mut tables = Vec::with_capacity(TABLES.len());
    for table in TABLES {
        let (from, to) = (source.count(table).await?, target.count(table).await?);
        if from != to {
            return Err(Error::Unexpected(format!(
                "{} has {from} rows in the source and {to} in the target: was the source served meanwhile?",
                table.name
            ))
            .into());
        }
        tables.push((table.name, to));
    }
    Ok(tables)
}
