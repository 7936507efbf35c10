//! Breakers: counted with the end of each attempt, asked before each begin, kept in the same commit. What is known of
//! them stays in memory, so that while all are closed nobody reads anything.

mod by_hand;
mod ended;
mod gate;
mod kept;
mod known;
mod release;
mod views;

pub(crate) use by_hand::operate;
pub(crate) use gate::{Gate, Probes};
pub(crate) use kept::{COLUMNS, CorruptBreaker, ENTRY, ReadBreakers, fold, read_entry, trim_events};
pub(crate) use known::Breakers;
pub(crate) use release::release_held;
pub(crate) use views::{breakers, tenant_breaker};
