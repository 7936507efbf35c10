//! Failures that arrive dressed as success. Handlers see what a reported success shows of itself ([`observe`]); the store
//! asks, with the queue's settings and what is on record, whether it counts ([`judge`]).

mod finish;
mod json;
mod judge;
mod messages;
mod observe;
mod phrases;
mod repeats;
mod schema;
mod shapes;
mod transcript;
mod verdict;

pub use finish::Ending;
pub use judge::{Detector, Objection, OnRecord, judge};
pub use observe::{Observed, Told, Tools, observe};
pub use repeats::{Repeats, WINDOW};
pub use schema::{BadSchema, OutputSchema};

#[cfg(test)]
mod tests;
