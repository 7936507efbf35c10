//! All chance of a play comes from its seed.

use redrive_store::{Dice as _, SeededDice};

pub struct Chance(SeededDice);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(SeededDice::new(seed))
    }

    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub fn below(&self, n: u64) -> u64 {
        self.number() % n.max(1)
    }

    pub fn upto(&self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap_or(0)
    }

    /// So many times in a thousand.
    pub fn happens(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.upto(from.len())]
    }

    /// Mostly short, now and then long.
    pub fn a_while_ms(&self, longest: u64) -> u64 {
        let most = if self.happens(100) { longest } else { longest / 20 };
        self.below(most.max(1))
    }
}
