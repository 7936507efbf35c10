//! Pages of a run's attempts, steps and history. A page holds the newest entries before a cursor, oldest first, up to a
//! number of entries and of decoded bytes.

use super::columns::{Columns, number};
use super::cursor::{seal_numbers, unseal_numbers};
use redrive_engine::codec::decoded_len;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{DetailCall, RunRef};

/// Decoded bytes of one page; a larger body is a page of its own.
const PAGE_MAX_BYTES: usize = 4 << 20;
/// Attempts among which the last verdict and output are searched.
pub(crate) const NEWEST_ATTEMPTS: u32 = 1_000;

/// Where the pages of a run begin; each holds older entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) attempt: i64,
    pub(crate) step: i64,
    /// An attempt and a move.
    pub(crate) history: [i64; 2],
    pub(crate) limit: usize,
    /// The page of attempts is the newest one.
    pub(crate) from_the_newest: bool,
}

pub(crate) fn question(list: &str, at: &RunRef) -> String {
    format!("{list} of {} {}", at.tenant, at.run_id)
}

impl Before {
    pub(crate) fn of(call: &DetailCall, at: &RunRef) -> Result<Self> {
        let one = |list: &str, cursor: Option<&String>| match cursor {
            Some(cursor) => unseal_numbers::<1>(&question(list, at), cursor).map(|[before]| before),
            None => Ok(i64::MAX),
        };
        Ok(Self {
            attempt: one("attempts", call.attempts_cursor.as_ref())?,
            step: one("steps", call.steps_cursor.as_ref())?,
            history: match &call.history_cursor {
                Some(cursor) => unseal_numbers(&question("history", at), cursor)?,
                None => [i64::MAX; 2],
            },
            limit: usize::try_from(call.limit).unwrap_or(usize::MAX).max(1),
            from_the_newest: call.attempts_cursor.is_none(),
        })
    }

    /// One more than fits, to see whether there are more.
    pub(crate) fn rows(&self) -> i64 {
        i64::try_from(self.limit).unwrap_or(i64::MAX).saturating_add(1)
    }
}

/// Where the next pages begin.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) attempts: Option<String>,
    pub(crate) steps: Option<String>,
    pub(crate) history: Option<String>,
}

/// The entries of one page, and whether there are older ones.
#[derive(Debug, Default)]
pub(crate) struct BodyPage {
    /// The newest first.
    pub(crate) numbers: Vec<i64>,
    more: bool,
}

impl BodyPage {
    /// As many of these entries, given with their decoded sizes, as fit; at least one.
    pub(crate) fn fill(entries: impl IntoIterator<Item = (i64, usize)>, limit: usize) -> Self {
        Self::fill_within(entries, limit, PAGE_MAX_BYTES)
    }

    fn fill_within(entries: impl IntoIterator<Item = (i64, usize)>, limit: usize, mut room: usize) -> Self {
        let mut page = Self::default();
        for (number, bytes) in entries {
            page.more = !page.numbers.is_empty() && (page.numbers.len() >= limit || bytes > room);
            if page.more {
                break;
            }
            room = room.saturating_sub(bytes);
            page.numbers.push(number);
        }
        page
    }

    /// The oldest and the newest number on it.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        Some((*self.numbers.last()?, *self.numbers.first()?))
    }

    pub(crate) fn next(&self, list: &str, at: &RunRef) -> Option<String> {
        let oldest = self.numbers.last().filter(|_| self.more)?;
        Some(seal_numbers(&question(list, at), &[*oldest]))
    }
}

/// Reads a number, a stored length and the first bytes: the number of an entry and its decoded size.
pub(crate) fn sized(row: &impl Columns) -> Result<(i64, usize)> {
    let stored = usize::try_from(row.number_or_none(1)?.unwrap_or(0)).unwrap_or(0);
    Ok((number(row, 0)?, decoded_len(stored, row.bytes_or_none(2)?.unwrap_or_default())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_by_count_or_bytes_never_empty() {
        let page = BodyPage::fill_within([(9, 50), (8, 1)], 3, 10);
        assert_eq!((page.numbers.as_slice(), page.more), ([9].as_slice(), true), "the first always fits");
        let page = BodyPage::fill_within((1..=4).map(|n| (10 - n, 1)), 3, 10);
        assert_eq!((page.span(), page.more), (Some((7, 9)), true));
        let at = RunRef { tenant: "acme".parse().unwrap(), run_id: "r".parse().unwrap() };
        assert!(page.next("attempts", &at).is_some());
    }
}
