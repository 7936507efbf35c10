//! How many runs stand where, from the kept counters alone.

use std::collections::HashMap;

use redrive_core::run::StateName;
use rusqlite::Connection;

pub(crate) use crate::shared::by_state::{ByState, Count};

use crate::sqlite::reads::lookup::Whose;
use redrive_engine::error::PortResult as Result;
use redrive_engine::runs::document::{position, word};

/// The counters that a scope may see.
pub(crate) fn counts(conn: &Connection, whose: Whose) -> Result<Vec<Count>> {
    counts_in(conn, whose, StateName::ALL)
}

pub(crate) fn counts_in(conn: &Connection, whose: Whose, states: &[StateName]) -> Result<Vec<Count>> {
    let sql = match whose {
        Whose::Nobody => return Ok(Vec::new()),
        Whose::All => "SELECT queue, detail, n FROM totals WHERE state = ?1",
        Whose::One(_) => "SELECT queue, detail, n FROM counts WHERE state = ?1 AND tenant = ?2",
    };
    let mut find = conn.prepare_cached(sql)?;
    let mut all = Vec::new();
    for state in states {
        let number = position(StateName::ALL, state);
        let mut rows = match whose {
            Whose::One(tenant) => find.query([number, tenant])?,
            Whose::All | Whose::Nobody => find.query([number])?,
        };
        while let Some(row) = rows.next()? {
            all.push(Count { state: *state, queue: row.get(0)?, detail: row.get(1)?, n: row.get(2)? });
        }
    }
    Ok(all)
}

/// Every queue's, over all tenants.
pub(crate) fn by_queue(conn: &Connection) -> Result<HashMap<i64, ByState>> {
    let mut find = conn.prepare_cached("SELECT queue, state, n FROM totals")?;
    let mut rows = find.query([])?;
    let mut standings: HashMap<i64, ByState> = HashMap::new();
    while let Some(row) = rows.next()? {
        let state = word(StateName::ALL, row.get(1)?, "state")?;
        standings.entry(row.get(0)?).or_default().add(state, row.get(2)?);
    }
    Ok(standings)
}
