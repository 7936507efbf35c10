//! Failures that arrive dressed as success. Handlers see what a reported success shows of itself ([`observe`]); the store
//! asks, with the queue's settings and what is on record, whether it counts ([`judge`]).

mod errors;
mod json;
mod judge;
mod observe;
mod schema;
mod shapes;
mod transcript;

pub use judge::{Detector, Objection, OnRecord, judge};
pub use observe::ReportedSuccess as Told;
pub use observe::{Ending, Observed, Repeats, ReportedSuccess, Tools, WINDOW, observe};
pub use schema::{BadSchema, OutputSchema};

#[cfg(test)]
mod tests;
