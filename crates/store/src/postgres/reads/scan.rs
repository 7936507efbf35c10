//! Walks the lanes of a list as one, in the list's order, a piece at a time: one statement reads on in every lane that has
//! run out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use redrive_core::wire::Sort;
use tokio_postgres::Row;

use crate::postgres::connection::snapshot::Snapshot;
use crate::postgres::reads::columns::{Columns as _, number, text, whole};
use crate::postgres::reads::filter::Wanted;
use crate::postgres::reads::lanes::{ASK_TEMPLATE, HIT, Lanes, MISS, lanes};
use crate::shared::words::Words;
use redrive_engine::error::{Error, PortResult as Result};

const PIECE_MAX_ROWS: usize = 1_024;

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
    snapshot: &'a Snapshot<'a>,
    wanted: &'a Wanted,
    sort: Sort,
    lanes: Lanes,
    at: Vec<Lane>,
    /// The first waiting row of each lane that has one.
    heads: BinaryHeap<Reverse<(Place, usize)>>,
    /// Which patterns have the words: each is read once a call.
    templates: HashMap<i64, bool>,
    piece: usize,
}

struct Lane {
    /// Read and not yet taken.
    ahead: VecDeque<Candidate>,
    last: Option<Place>,
    read_out: bool,
}

impl<'a> Scan<'a> {
    /// Begins after `after`; `hint` is about how many rows will be taken.
    pub(crate) async fn begin(
        snapshot: &'a Snapshot<'a>,
        wanted: &'a Wanted,
        sort: Sort,
        after: Option<Place>,
        hint: usize,
    ) -> Result<Self> {
        let lanes = lanes(snapshot, wanted, sort).await?;
        let many = lanes.fixed.len() > 16;
        // A page's worth of each of a few lanes costs less than a second look; of many lanes it would not.
        let piece = if many { hint / lanes.fixed.len() + 1 } else { hint }.min(PIECE_MAX_ROWS);
        let at: Vec<Lane> =
            lanes.fixed.iter().map(|_| Lane { ahead: VecDeque::new(), last: after, read_out: false }).collect();
        let heads = BinaryHeap::with_capacity(at.len());
        let templates = HashMap::new();
        let mut scan = Self { snapshot, wanted, sort, lanes, at, heads, templates, piece };
        let all: Vec<usize> = (0..scan.at.len()).collect();
        scan.read_on(&all).await?;
        Ok(scan)
    }

    /// The next row in order, whether it matches or not.
    pub(crate) async fn next(&mut self) -> Result<Option<Candidate>> {
        let Some(Reverse((_, number))) = self.heads.pop() else { return Ok(None) };
        let Some(lane) = self.at.get_mut(number) else { return Ok(None) };
        let taken = lane.ahead.pop_front();
        if lane.ahead.is_empty() && !lane.read_out {
            self.read_on(&[number]).await?;
        } else if let Some(head) = lane.ahead.front() {
            self.heads.push(Reverse((head.place, number)));
        }
        Ok(taken)
    }

    /// Reads a piece of each of these lanes, which have none waiting.
    async fn read_on(&mut self, numbers: &[usize]) -> Result<()> {
        let which: Vec<(usize, Option<Place>)> =
            numbers.iter().filter_map(|number| Some((*number, self.at.get(*number)?.last))).collect();
        if which.is_empty() {
            return Ok(());
        }
        let (sql, params) = self.lanes.read(&which, self.piece);
        let rows = self.snapshot.rows_of(&sql, &params).await?;
        if let Some(words) = &self.wanted.words {
            self.read_templates(&rows, words).await?;
        }
        for row in &rows {
            let candidate = self.candidate(row)?;
            let lane: usize = whole(row, 0, "lane")?;
            let lane = self.at.get_mut(lane).ok_or_else(|| Error::Unexpected(format!("lane {lane}")))?;
            lane.ahead.push_back(candidate);
        }
        for number in numbers {
            let Some(lane) = self.at.get_mut(*number) else { continue };
            lane.read_out = lane.ahead.len() < self.piece;
            lane.last = lane.ahead.back().map(|last| last.place);
            if let Some(head) = lane.ahead.front() {
                self.heads.push(Reverse((head.place, *number)));
            }
        }
        self.piece = (self.piece * 2).min(PIECE_MAX_ROWS);
        Ok(())
    }

    async fn read_templates(&mut self, rows: &[Row], words: &Words) -> Result<()> {
        let mut unknown = Vec::new();
        for row in rows {
            unknown.extend(row.number_or_none(4)?.filter(|pattern| !self.templates.contains_key(pattern)));
        }
        unknown.sort_unstable();
        unknown.dedup();
        if unknown.is_empty() {
            return Ok(());
        }
        for row in self.snapshot.rows("SELECT id, template FROM patterns WHERE id = ANY($1)", &[&unknown]).await? {
            self.templates.insert(number(&row, 0)?, words.are_in(text(&row, 1)?));
        }
        Ok(())
    }

    fn candidate(&self, row: &Row) -> Result<Candidate> {
        let run = number(row, 1)?;
        let place = match self.sort {
            Sort::Received => Place(run, 0),
            Sort::NewestFirst => Place(-run, 0),
            Sort::Due => Place(number(row, 2)?, run),
        };
        let hit = match number(row, 3)? {
            HIT => true,
            MISS => false,
            ASK_TEMPLATE => {
                row.number_or_none(4)?.and_then(|pattern| self.templates.get(&pattern)).copied().unwrap_or(false)
            }
            other => return Err(Error::Unexpected(format!("a match of {other}")).into()),
        };
        Ok(Candidate { place, run, hit })
    }
}
