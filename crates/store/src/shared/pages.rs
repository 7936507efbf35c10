//! Pages of what grows with a run: its attempts, its steps, its history. A page holds what is newest before a cursor,
//! in the order of time, and is bounded by a count and by the bytes that it comes to once decoded.

use redrive_core::time::Timestamp;
use redrive_core::wire::HistoryEntry;

use super::cursor::{seal_numbers, unseal_numbers};
use super::history::received;
use crate::shared::columns::{Columns, number};
use redrive_engine::codec::decoded_len;
use redrive_engine::error::PortResult as Result;
use redrive_engine::model::{DetailCall, RunRef};

/// What the bodies of one page come to; a single larger one is a page of its own.
const PAGE_MAX_BYTES: usize = 4 << 20;
/// How far back the newest verdict and the newest output are looked for.
pub(crate) const NEWEST_ATTEMPTS: u32 = 1_000;

/// Where the pages of a run begin: each holds what lies before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) attempt: i64,
    pub(crate) step: i64,
    /// An attempt and a move.
    pub(crate) history: [i64; 2],
    pub(crate) limit: usize,
    /// The newest attempts are asked for.
    pub(crate) from_the_newest: bool,
}

fn question(list: &str, at: &RunRef) -> String {
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

    /// One more than fits says that there are more.
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

/// The rows of one page, and whether there are older ones.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// The newest first.
    pub(crate) places: Vec<i64>,
    more: bool,
}

impl Page {
    /// As much as fits of what was found, the newest first; at least one.
    pub(crate) fn of<'r, R: Columns + 'r>(found: impl IntoIterator<Item = &'r R>, limit: usize) -> Result<Self> {
        let mut page = Self::default();
        let mut room = PAGE_MAX_BYTES;
        for row in found {
            let (place, bytes) = sized(row)?;
            if page.add(place, bytes, limit, &mut room) {
                break;
            }
        }
        Ok(page)
    }

    /// Whether the page was full before it.
    pub(crate) fn add(&mut self, place: i64, bytes: usize, limit: usize, room: &mut usize) -> bool {
        self.more = !self.places.is_empty() && (self.places.len() >= limit || bytes > *room);
        if !self.more {
            *room = room.saturating_sub(bytes);
            self.places.push(place);
        }
        self.more
    }

    pub(crate) fn room() -> usize {
        PAGE_MAX_BYTES
    }

    /// The first and the last place on it.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        Some((*self.places.last()?, *self.places.first()?))
    }

    pub(crate) fn next(&self, list: &str, at: &RunRef) -> Option<String> {
        let oldest = self.places.last().filter(|_| self.more)?;
        Some(seal_numbers(&question(list, at), &[*oldest]))
    }
}

/// A place, and how large what lies there is once decoded: its number, its stored length, its head.
pub(crate) fn sized(row: &impl Columns) -> Result<(i64, usize)> {
    let stored = usize::try_from(row.number_or_none(1)?.unwrap_or(0)).unwrap_or(0);
    Ok((number(row, 0)?, decoded_len(stored, row.bytes_or_none(2)?.unwrap_or_default())))
}

/// A page of history: attempts and moves, each the newest first, merged by time. Each list keeps its own order, so that
/// the place where the next page begins is exact even where a clock went back.
pub(crate) fn history(
    before: &Before,
    at: &RunRef,
    received_at: Timestamp,
    attempts: Vec<(i64, HistoryEntry)>,
    moves: Vec<(i64, HistoryEntry)>,
) -> (Vec<HistoryEntry>, Option<String>) {
    let (mut attempts, mut moves) = (attempts.into_iter().peekable(), moves.into_iter().peekable());
    let (mut entries, mut ends) = (Vec::new(), before.history);
    while entries.len() < before.limit {
        let moved_last = match (attempts.peek(), moves.peek()) {
            (Some((_, attempt)), Some((_, moved))) => moved.at >= attempt.at,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (None, None) => break,
        };
        let next = if moved_last { moves.next() } else { attempts.next() };
        if let Some((place, entry)) = next {
            ends[usize::from(moved_last)] = place;
            entries.push(entry);
        }
    }
    let full = entries.len() >= before.limit;
    if !full {
        entries.push(received(received_at));
    }
    entries.reverse();
    entries.sort_by_key(|entry| entry.at);
    (entries, full.then(|| seal_numbers(&question("history", at), &ends)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> RunRef {
        RunRef { tenant: "acme".parse().unwrap(), run_id: "r".parse().unwrap() }
    }

    #[test]
    fn a_page_ends_by_count_or_by_bytes_and_is_never_empty() {
        let (mut page, mut room) = (Page::default(), 10);
        assert!(!page.add(9, 50, 3, &mut room), "the first always fits");
        assert!(page.add(8, 1, 3, &mut room));
        let (mut page, mut room) = (Page::default(), 10);
        let full: Vec<bool> = (1..=4).map(|n| page.add(10 - n, 1, 3, &mut room)).collect();
        assert_eq!((full, page.span()), (vec![false, false, false, true], Some((7, 9))));
        assert!(page.next("attempts", &at()).is_some());
    }

    #[test]
    fn pages_of_history_hold_every_entry_once() {
        let entry = |at: i64| HistoryEntry {
            at: Timestamp::from_millis(at),
            actor: "a".into(),
            event: at.to_string(),
            from: None,
            to: None,
            note: None,
        };
        // The clock went back between the second and the third attempt.
        let attempts: Vec<(i64, HistoryEntry)> = vec![(4, entry(70)), (3, entry(20)), (2, entry(60)), (1, entry(10))];
        let moves: Vec<(i64, HistoryEntry)> = vec![(12, entry(70)), (11, entry(30))];
        let mut call = DetailCall { limit: 2, ..DetailCall::default() };
        let mut seen = Vec::new();
        loop {
            let before = Before::of(&call, &at()).unwrap();
            let older = |all: &[(i64, HistoryEntry)], end: i64| {
                all.iter().filter(|(place, _)| *place < end).cloned().collect::<Vec<_>>()
            };
            let [attempt, moved] = before.history;
            let (entries, next) =
                history(&before, &at(), Timestamp::from_millis(0), older(&attempts, attempt), older(&moves, moved));
            assert!(entries.len() <= 2 && entries.is_sorted_by_key(|entry| entry.at));
            seen.extend(entries.into_iter().map(|entry| entry.event));
            match next {
                Some(next) => call.history_cursor = Some(next),
                None => break,
            }
        }
        seen.sort();
        assert_eq!(seen, ["10", "20", "30", "60", "70", "70", "received"]);
    }
}
