//! How runs stand, from the kept counters alone: what a first look needs, whatever the number of runs.

use redrive_core::run::StateName;
use redrive_core::verdict::DeadBecause;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Every state, also those with none.
    pub states: Vec<(StateName, u64)>,
    /// Why the dead ones are dead; only what there is.
    pub dead: Vec<(DeadBecause, u64)>,
    /// Of the scheduled ones, those that something holds back.
    pub held: u64,
}

impl Standing {
    pub fn of(&self, state: StateName) -> u64 {
        self.states.iter().find(|(at, _)| *at == state).map_or(0, |(_, n)| *n)
    }

    pub fn because(&self, because: DeadBecause) -> u64 {
        self.dead.iter().find(|(at, _)| *at == because).map_or(0, |(_, n)| *n)
    }
}
