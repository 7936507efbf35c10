//! Chance from a seed. Threads and the machine add their own: a seed repeats what is asked, not when it is answered.

use redrive_engine::{Dice as _, SeededDice, SystemDice};

pub(crate) fn fresh() -> u64 {
    let mut bytes = [0; 4];
    SystemDice.fill(&mut bytes);
    u32::from_le_bytes(bytes).into()
}

pub(crate) struct Chance(SeededDice);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededDice::new(seed))
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % n.max(1)
    }

    pub(crate) fn happens(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }
}
