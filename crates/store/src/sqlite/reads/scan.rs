//! Walks the lanes of a list as one, in the list's order, a piece at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use redrive_core::wire::Sort;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};

use crate::sqlite::reads::filter::Wanted;
use crate::sqlite::reads::lanes::{ASK_TEMPLATE, HIT, Lanes, MISS, lanes};
use crate::sqlite::reads::words::{Templates, Words};
use redrive_engine::error::{Error, PortResult as Result};

const PIECE_MAX_ROWS: usize = 512;

/// A row's place in the list; smaller comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(pub(crate) i64, pub(crate) i64);

/// A row that was looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) place: Place,
    pub(crate) run: i64,
    pub(crate) hit: bool,
}

pub(crate) struct Scan<'a> {
    conn: &'a Connection,
    wanted: &'a Wanted,
    sort: Sort,
    lanes: Lanes,
    at: Vec<Lane>,
    /// The first waiting row of each lane that has one.
    heads: BinaryHeap<Reverse<(Place, usize)>>,
    templates: Templates,
}

struct Lane {
    /// Read and not yet taken.
    ahead: VecDeque<Candidate>,
    last: Option<Place>,
    piece: usize,
    read_out: bool,
}

impl<'a> Scan<'a> {
    /// Begins after `after`; `hint` is about how many rows will be taken.
    pub(crate) fn begin(
        conn: &'a Connection,
        wanted: &'a Wanted,
        sort: Sort,
        after: Option<Place>,
        hint: usize,
    ) -> Result<Self> {
        let lanes = lanes(conn, wanted, sort)?;
        let piece = (hint / lanes.fixed.len().max(1)).saturating_add(1).min(PIECE_MAX_ROWS);
        let fresh = || Lane { ahead: VecDeque::new(), last: after, piece, read_out: false };
        let at: Vec<Lane> = lanes.fixed.iter().map(|_| fresh()).collect();
        let heads = BinaryHeap::with_capacity(at.len());
        let mut scan = Self { conn, wanted, sort, lanes, at, heads, templates: Templates::default() };
        for lane in 0..scan.at.len() {
            scan.show_head(lane)?;
        }
        Ok(scan)
    }

    /// The next row in order, whether it matches or not.
    pub(crate) fn next(&mut self) -> Result<Option<Candidate>> {
        let Some(Reverse((_, lane))) = self.heads.pop() else { return Ok(None) };
        let taken = self.at.get_mut(lane).and_then(|lane| lane.ahead.pop_front());
        self.show_head(lane)?;
        Ok(taken)
    }

    fn show_head(&mut self, number: usize) -> Result<()> {
        let (Some(lane), Some(fixed)) = (self.at.get_mut(number), self.lanes.fixed.get(number)) else { return Ok(()) };
        if lane.ahead.is_empty() && !lane.read_out {
            read_piece(self.conn, self.wanted, self.sort, &self.lanes, fixed, lane, &mut self.templates)?;
        }
        if let Some(head) = lane.ahead.front() {
            self.heads.push(Reverse((head.place, number)));
        }
        Ok(())
    }
}

fn read_piece(
    conn: &Connection,
    wanted: &Wanted,
    sort: Sort,
    lanes: &Lanes,
    fixed: &[Value],
    lane: &mut Lane,
    templates: &mut Templates,
) -> Result<()> {
    for (sql, bounds) in reads(lanes, wanted, sort, lane.last) {
        let missing = i64::try_from(lane.piece - lane.ahead.len()).unwrap_or(i64::MAX);
        let tail: Vec<Value> = bounds.into_iter().chain([missing]).map(Value::from).collect();
        let mut read = conn.prepare_cached(sql)?;
        let mut found = read.query(params_from_iter(lanes.hit_values.iter().chain(fixed).chain(&tail)))?;
        while let Some(row) = found.next()? {
            lane.ahead.push_back(candidate(conn, row, sort, wanted.words.as_ref(), templates)?);
        }
        if lane.ahead.len() >= lane.piece {
            break;
        }
    }
    lane.read_out = lane.ahead.len() < lane.piece;
    lane.last = lane.ahead.back().map(|last| last.place);
    lane.piece = (lane.piece * 2).min(PIECE_MAX_ROWS);
    Ok(())
}

/// The statements that read on in a lane, and the bounds of each.
fn reads<'a>(lanes: &'a Lanes, wanted: &Wanted, sort: Sort, after: Option<Place>) -> Vec<(&'a str, Vec<i64>)> {
    let (first, last) = wanted.ids.unwrap_or((1, i64::MAX));
    let sql = lanes.sql.as_str();
    match (sort, after) {
        (Sort::Received, Some(Place(id, _))) => vec![(sql, vec![first.max(id.saturating_add(1)), last])],
        (Sort::NewestFirst, Some(Place(minus_id, _))) => {
            vec![(sql, vec![first, last.min(minus_id.saturating_neg().saturating_sub(1))])]
        }
        (Sort::Received | Sort::NewestFirst, None) => vec![(sql, vec![first, last])],
        (Sort::Due, Some(Place(due, id))) => {
            let ties = lanes.ties_sql.as_deref().map(|sql| (sql, vec![due, id]));
            ties.into_iter().chain([(sql, vec![due])]).collect()
        }
        (Sort::Due, None) => vec![(sql, vec![i64::MIN])],
    }
}

pub(crate) fn candidate(
    conn: &Connection,
    row: &Row<'_>,
    sort: Sort,
    words: Option<&Words>,
    templates: &mut Templates,
) -> Result<Candidate> {
    let run: i64 = row.get(0)?;
    let place = match sort {
        Sort::Received => Place(run, 0),
        Sort::NewestFirst => Place(-run, 0),
        Sort::Due => Place(row.get(1)?, run),
    };
    let hit = match (row.get(2)?, words) {
        (HIT, _) => true,
        (ASK_TEMPLATE, Some(words)) => match row.get::<_, Option<i64>>(3)? {
            Some(pattern) => templates.have(conn, words, pattern)?,
            None => false,
        },
        (MISS, _) => false,
        (other, _) => return Err(Error::Unexpected(format!("a match of {other}")).into()),
    };
    Ok(Candidate { place, run, hit })
}
