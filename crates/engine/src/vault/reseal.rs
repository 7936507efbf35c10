//! Brings every sealed value under the active key of its tenant, page by page, and then deletes the keys that were retired.
//! The same pass seals what was stored before encryption was turned on. Its cursor is committed with its work, so a kill
//! repeats nothing.

use redrive_core::time::{DAY_MS, MINUTE_MS, Timestamp};

use crate::error::Result;
use crate::failpoint;
use crate::model::Swept;
use crate::tx::Tx;

/// A transaction that began before a rotation may still commit under the retired key. It ends long before this.
pub const RETIRED_GRACE_MS: u64 = MINUTE_MS;
/// A pass that met unreadable values is repeated after this, since a person may have repaired them.
const REPEAT_AFTER_MS: u64 = DAY_MS;

/// Where a table begins.
pub const TABLE_START: [i64; 2] = [i64::MIN; 2];

/// How far the values of a store are sealed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SealingState {
    /// When the pass under way began.
    pub pass_from: Option<Timestamp>,
    /// The table that it is at, and the last row that it has done.
    pub table: usize,
    pub after: [i64; 2],
    /// Values that it has sealed, and those that could not be opened.
    pub resealed: u64,
    pub unreadable: u64,
    /// When the last complete pass began: no value from before it is in clear or under a key retired before it.
    pub done_to: Option<Timestamp>,
}

impl SealingState {
    fn is_due(&self, last_retired: Option<Timestamp>, now: Timestamp) -> bool {
        let Some(done) = self.done_to else { return true };
        let Some(safe_from) = last_retired.map(|at| at.plus_ms(RETIRED_GRACE_MS)) else { return false };
        let repeats = self.unreadable > 0 && done.plus_ms(REPEAT_AFTER_MS) <= now;
        safe_from <= now && (done < safe_from || repeats)
    }

    fn begin(&mut self, now: Timestamp) {
        *self = Self { pass_from: Some(now), after: TABLE_START, done_to: self.done_to, ..Self::default() };
    }
}

/// The work of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResealedPage {
    /// The last row; None at the end of the table.
    pub after: Option<[i64; 2]>,
    pub rows: usize,
    pub resealed: u64,
    pub unreadable: u64,
}

/// One bounded round.
pub fn reseal(tx: &mut Tx<'_>) -> Result<Swept> {
    let Some(mut state) = tx.rows.sealing_state()? else { return Ok(Swept::default()) };
    let Some(pass_from) = state.pass_from else {
        if !state.is_due(tx.rows.last_retired()?, tx.now) {
            return Ok(Swept::default());
        }
        state.begin(tx.now);
        tracing::info!("re-sealing stored values under the active keys");
        tx.rows.put_sealing_state(&state)?;
        return Ok(Swept { more: true, ..Swept::default() });
    };
    let page = tx.rows.reseal_page(state.table, state.after)?;
    failpoint::pass("mid_reseal");
    state.resealed += page.resealed;
    state.unreadable += page.unreadable;
    match page.after {
        Some(after) => state.after = after,
        None => (state.table, state.after) = (state.table + 1, TABLE_START),
    }
    if state.table >= tx.rows.sealed_tables() {
        end_pass(tx, &mut state, pass_from)?;
    }
    tx.rows.put_sealing_state(&state)?;
    let moved = usize::try_from(page.resealed).unwrap_or(usize::MAX);
    Ok(Swept { looked_at: page.rows, moved, more: state.pass_from.is_some() })
}

/// Deletes the keys under which nothing is left. A value that could not be opened keeps them all.
fn end_pass(tx: &mut Tx<'_>, state: &mut SealingState, pass_from: Timestamp) -> Result<()> {
    (state.pass_from, state.done_to) = (None, Some(pass_from));
    let SealingState { resealed, unreadable, .. } = *state;
    if unreadable > 0 {
        tracing::error!(resealed, unreadable, "some stored values can't be opened; retired keys are kept");
        return Ok(());
    }
    let deleted = tx.rows.delete_retired_keys(pass_from.minus_ms(RETIRED_GRACE_MS))?;
    tracing::info!(resealed, deleted_keys = deleted, "every stored value is under an active key");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn a_pass_begins_after_the_grace_and_once() {
        let grace = i64::try_from(RETIRED_GRACE_MS).unwrap();
        let never = SealingState::default();
        assert!(never.is_due(None, at(0)), "encryption was just turned on");
        let done = SealingState { done_to: Some(at(1_000)), ..SealingState::default() };
        assert!(!done.is_due(None, at(2_000)));
        assert!(!done.is_due(Some(at(2_000)), at(2_000 + grace - 1)), "a writer may still use the key");
        assert!(done.is_due(Some(at(2_000)), at(2_000 + grace)));
        let later = SealingState { done_to: Some(at(2_000 + grace)), ..SealingState::default() };
        assert!(!later.is_due(Some(at(2_000)), at(9_000 + grace)));
        let stuck = SealingState { unreadable: 1, ..later };
        let day = i64::try_from(DAY_MS).unwrap();
        assert!(!stuck.is_due(Some(at(2_000)), at(2_000 + grace + day - 1)));
        assert!(stuck.is_due(Some(at(2_000)), at(2_000 + grace + day)));
    }
}
