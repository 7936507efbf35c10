//! A page of a run's attempts, with their bodies.

use std::sync::LazyLock;

use rusqlite::{CachedStatement, Connection, Params};

use crate::shared::attempts::{ENDED, EndedAttempt, LATE_SIZES, SIZES, ended_attempt, with_late};
use crate::shared::pages::{Before, Page, sized};
use crate::sqlite::reads::columns::{packed_json, whole};
use redrive_engine::error::PortResult as Result;

static OLDER: LazyLock<String> =
    LazyLock::new(|| format!("{SIZES} WHERE run = ?1 AND attempt < ?2 ORDER BY attempt DESC LIMIT ?3"));
static OF_PAGE: LazyLock<String> =
    LazyLock::new(|| format!("{ENDED} WHERE run = ?1 AND attempt BETWEEN ?2 AND ?3 ORDER BY attempt"));
static LATE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{LATE_SIZES} WHERE id IN (SELECT max(id) FROM late_failures WHERE run = ?1 AND attempt BETWEEN ?2 AND ?3
             GROUP BY attempt) ORDER BY id DESC"
    )
});

/// Those of the page, the first first.
pub(crate) fn ended_attempts(conn: &Connection, run: i64, before: &Before) -> Result<(Page, Vec<EndedAttempt>)> {
    let page = page(conn.prepare_cached(&OLDER)?, [run, before.attempt, before.rows()], before.limit)?;
    let Some((first, last)) = page.span() else { return Ok((page, Vec::new())) };
    let mut find = conn.prepare_cached(&OF_PAGE)?;
    let found = find.query_and_then([run, first, last], |row| ended_attempt(row))?;
    let mut attempts = found.collect::<Result<Vec<_>>>()?;
    // The newest that came after its lease had ended, of each.
    let late = self::page(conn.prepare_cached(&LATE)?, [run, first, last], before.limit)?;
    let mut read = conn.prepare_cached("SELECT attempt, body FROM late_failures WHERE id = ?1")?;
    let mut failures = Vec::new();
    for place in late.places {
        let mut rows = read.query([place])?;
        if let Some(row) = rows.next()? {
            failures.push((whole(row, 0, "attempt")?, packed_json(row, 1, "late failure")?));
        }
    }
    with_late(&mut attempts, failures);
    Ok((page, attempts))
}

/// As much as fits, read no further.
fn page(mut find: CachedStatement<'_>, values: impl Params, limit: usize) -> Result<Page> {
    let (mut page, mut room) = (Page::default(), Page::room());
    let mut rows = find.query(values)?;
    while let Some(row) = rows.next()? {
        let (place, bytes) = sized(row)?;
        if page.add(place, bytes, limit, &mut room) {
            break;
        }
    }
    Ok(page)
}
