//! Sentences against a real app: the whole API over a real store, with a clock that only the case moves.

mod admin;
mod attempts;
mod bad_input;
mod batches;
mod dlq;
mod isolation;
mod leases;
mod lists;
mod races;
mod serving;
mod silence;
mod starts;
mod steps;
mod triage;
mod world;
