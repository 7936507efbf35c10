//! Chance from one printed seed.
#![allow(clippy::print_stdout, reason = "a failure must print its seed")]

use redrive_engine::{Dice as _, SeededDice, SystemDice};

/// `REDRIVE_SEED`, or a new one; printed, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("REDRIVE_SEED").ok();
    let seed = given.map_or_else(fresh, |seed| seed.parse().expect("REDRIVE_SEED is a number"));
    println!("REDRIVE_SEED={seed}");
    seed
}

fn fresh() -> u64 {
    let mut bytes = [0; 8];
    SystemDice.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

pub struct Lot {
    dice: SeededDice,
    pub seed: u64,
}

impl Lot {
    pub fn new(seed: u64) -> Self {
        Self { dice: SeededDice::new(seed), seed }
    }

    pub fn below(&self, n: u64) -> u64 {
        let mut bytes = [0; 8];
        self.dice.fill(&mut bytes);
        u64::from_le_bytes(bytes) % n
    }

    pub fn upto(&self, n: usize) -> usize {
        usize::try_from(self.below(n as u64)).unwrap()
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.upto(from.len())]
    }
}
