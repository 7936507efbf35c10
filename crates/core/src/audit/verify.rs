//! Checks a chain entry by entry.

use std::collections::BTreeMap;
use std::fmt;

use super::{ChainHash, ChainPoint, ChainedEntry, TRIM};

/// What is wrong with a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The entry is not what was chained after the one before it.
    Changed,
    /// The entry is missing, and later ones are there.
    Missing,
    /// The entry comes after one with the same or a higher number.
    OutOfOrder,
    /// The entry is older than the one before it.
    TimeWentBack,
    /// The entry can't be read.
    Unreadable,
    /// The chain ends before the entry that a head names.
    Truncated,
    /// Entries follow the one that the head in the database names.
    BeyondHead,
    /// The head in the database names another hash or time.
    HeadChanged,
    /// There are entries, and no head in the database.
    HeadMissing,
    /// A head that was kept outside the database names another hash.
    Rewritten,
    /// Entries were removed, and the log has no record of an export and a trim up to there.
    UnprovenCheckpoint,
}

impl Fault {
    fn says(self) -> &'static str {
        match self {
            Self::Changed => "was changed, inserted or moved",
            Self::Missing => "is missing",
            Self::OutOfOrder => "is out of order",
            Self::TimeWentBack => "is older than the entry before it",
            Self::Unreadable => "can't be read",
            Self::Truncated => "is named by a head, and the log ends before it",
            Self::BeyondHead => "follows the head in the database",
            Self::HeadChanged => "does not match the head in the database",
            Self::HeadMissing => "has no head in the database",
            Self::Rewritten => "does not match the head kept outside the database",
            Self::UnprovenCheckpoint => "and everything before it were removed without a recorded export",
        }
    }
}

/// The first fault of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tampered {
    pub seq: i64,
    pub what: Fault,
}

impl fmt::Display for Tampered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} {}", self.seq, self.what.says())
    }
}

impl std::error::Error for Tampered {}

/// A chain without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    pub entries: u64,
    /// The last entry.
    pub head: ChainPoint,
    /// Positions kept outside the database that were compared.
    pub outside: u64,
}

/// Takes the entries of a chain in their order, then the head.
#[derive(Debug, Clone)]
pub struct Verifier {
    checkpoint: ChainPoint,
    /// The entry that proves the checkpoint.
    proof: Option<String>,
    last: ChainPoint,
    entries: u64,
    outside: BTreeMap<i64, ChainHash>,
    compared: u64,
}

impl Verifier {
    /// `checkpoint` is the last removed entry; `outside` are positions that were kept outside the database.
    pub fn new(checkpoint: ChainPoint, outside: impl IntoIterator<Item = ChainPoint>) -> Result<Self, Tampered> {
        let mut positions = BTreeMap::new();
        for point in outside {
            let other = positions.insert(point.seq, point.hash).is_some_and(|known| known != point.hash);
            if other {
                return Err(Tampered { seq: point.seq, what: Fault::Rewritten });
            }
        }
        let proof = (checkpoint.seq > 0).then(|| checkpoint.trim_proof());
        Ok(Self { checkpoint, proof, last: checkpoint, entries: 0, outside: positions, compared: 0 })
    }

    /// The position of the last entry.
    pub fn last(&self) -> ChainPoint {
        self.last
    }

    pub fn take(&mut self, entry: &ChainedEntry) -> Result<(), Tampered> {
        let (seq, expected) = (entry.seq, self.last.seq + 1);
        let fault = |seq, what| Err(Tampered { seq, what });
        if seq > expected {
            return fault(expected, Fault::Missing);
        }
        if seq < expected {
            return fault(seq, Fault::OutOfOrder);
        }
        if entry.record.hash(seq, &self.last.hash) != entry.hash {
            return fault(seq, Fault::Changed);
        }
        if entry.record.at < self.last.at {
            return fault(seq, Fault::TimeWentBack);
        }
        if let Some(hash) = self.outside.get(&seq) {
            if *hash != entry.hash {
                return fault(seq, Fault::Rewritten);
            }
            self.compared += 1;
        }
        if entry.record.action == TRIM && self.proof.is_some() && entry.record.after == self.proof {
            self.proof = None;
        }
        self.last = entry.point();
        self.entries += 1;
        Ok(())
    }

    /// An entry that can't be read.
    pub fn unreadable(&self, seq: i64) -> Tampered {
        Tampered { seq, what: Fault::Unreadable }
    }

    /// `head` is the position that the database keeps beside the entries.
    pub fn finish(self, head: Option<ChainPoint>) -> Result<Verified, Tampered> {
        let fault = |seq, what| Err(Tampered { seq, what });
        let last = self.last;
        match head {
            Some(head) if head.seq > last.seq => return fault(head.seq, Fault::Truncated),
            Some(head) if head.seq < last.seq => return fault(head.seq + 1, Fault::BeyondHead),
            Some(head) if head != last => return fault(head.seq, Fault::HeadChanged),
            None if last.seq > 0 => return fault(last.seq, Fault::HeadMissing),
            Some(_) | None => {}
        }
        if let Some((seq, _)) = self.outside.last_key_value().filter(|(seq, _)| **seq > last.seq) {
            return fault(*seq, Fault::Truncated);
        }
        let at_checkpoint = self.outside.get(&self.checkpoint.seq);
        if at_checkpoint.is_some_and(|hash| *hash != self.checkpoint.hash) {
            return fault(self.checkpoint.seq, Fault::Rewritten);
        }
        if self.proof.is_some() {
            return fault(self.checkpoint.seq, Fault::UnprovenCheckpoint);
        }
        Ok(Verified { entries: self.entries, head: last, outside: self.compared })
    }
}
